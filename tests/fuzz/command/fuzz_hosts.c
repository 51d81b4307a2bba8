/* SPDX-License-Identifier: Apache-2.0
 *
 * The command's file of Hosts, with whatever bytes in it. A file that can be read still can after a Host is added and
 * taken away again, what was there stays, and nothing that cannot be read is ever overwritten. What of the command
 * it needs beside its own file is here. */
#include "host.h"

#include "plat/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define URL TC_STR("https://added.example/")
#define TOKEN TC_STR("0123456789abcdef")

static char folder[64], file[80], lock[90];

static void need(bool is_so)
{
    if (!is_so)
        abort();
}

/* ---- of the command ---- */

void cli_json_str(tci_buf *b, bool *first, const char *key, tc_str value)
{
    tci_json_put_member(b, first, key, value);
}

void cli_json_bool(tci_buf *b, bool *first, const char *key, bool value)
{
    tci_json_put_key(b, first, tci_str(key));
    tci_json_put_bool(b, value);
}

int cli_our_folder(cli *c, cli_folder which, tc_str *ret, tc_str *ret_home, tc_err *err)
{
    TCI_UNUSED(c);
    TCI_UNUSED(which);
    TCI_UNUSED(ret_home);
    TCI_UNUSED(err);
    *ret = tci_str(folder);
    return 0;
}

int cli_make_folder(tc_str path, tc_err *err)
{
    TCI_UNUSED(path);
    TCI_UNUSED(err);
    return 0;
}

static void write_file(tc_str content)
{
    FILE *f = fopen(file, "wb");
    need(f != NULL && fwrite(content.ptr, 1, content.len, f) == content.len && fclose(f) == 0);
}

int cli_replace_file(cli *c, tc_str path, tc_str content, tc_err *err)
{
    TCI_UNUSED(c);
    TCI_UNUSED(err);
    need(tci_str_eq(path, tci_str(file)));
    write_file(content);
    return 0;
}

/* ---- the file ---- */

static bool is_now(tc_str want)
{
    tc_err err;
    char *text;
    size_t len;
    need(tci_file_read_whole(TCI_FILE_CWD, tci_str(file), SIZE_MAX / 2, &text, &len, &err) == 0);
    bool is_same = tci_str_eq(tci_str_of(text, len), want);
    tci_free(text);
    return is_same;
}

static void one(cli *c, tc_str text)
{
    host_at last, found;
    const host_at added = {.url = URL, .token = TOKEN, .is_insecure = true};
    tc_err err;
    int rc = host_saved_find(c, NULL, &last, &err);
    if (host_saved_put(c, &added, &err) < 0) {
        need(rc < 0 && is_now(text)); /* not to be read, so left alone */
        return;
    }
    need(host_saved_find(c, NULL, &found, &err) == 0);
    need(tci_str_eq(found.url, URL) && tci_str_eq(found.token, TOKEN) && found.is_insecure);
    need(host_saved_find(c, "https://added.example", &found, &err) == 0);
    need(host_saved_remove(c, URL, &err) == 0);
    need(host_saved_find(c, "https://added.example", &found, &err) == TC_E_AUTH);
    if (rc == 0 && !tci_str_eq(last.url, URL)) {
        need(host_saved_find(c, NULL, &found, &err) == 0);
        need(tci_str_eq(found.url, last.url) && tci_str_eq(found.token, last.token) &&
             tci_str_eq(found.ca_file, last.ca_file) && found.is_insecure == last.is_insecure);
    }
}

static void leave(void)
{
    (void)rmdir(folder); /* its end, anyway */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cli c = {.command = NULL};
    if (size > 200000)
        return 0;
    if (folder[0] == '\0') {
        (void)atexit(leave); /* or an empty folder stays */
        (void)snprintf(folder, sizeof folder, "/dev/shm/fuzz-hosts-XXXXXX"); /* fits */
        if (mkdtemp(folder) == NULL) {
            (void)snprintf(folder, sizeof folder, "fuzz-hosts-XXXXXX"); /* fits */
            need(mkdtemp(folder) != NULL);
        }
        (void)snprintf(file, sizeof file, "%s/hosts.json", folder); /* fits */
        (void)snprintf(lock, sizeof lock, "%s.lock", file);         /* fits */
    }
    tci_arena_init(&c.arena, 0);
    write_file(tci_str_of(data, size));
    one(&c, tci_str_of(data, size));
    tci_arena_done(&c.arena);
    (void)unlink(file); /* whatever ends this program leaves at most an empty folder */
    (void)unlink(lock); /* the same */
    return 0;
}
