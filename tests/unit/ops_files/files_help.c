/* SPDX-License-Identifier: Apache-2.0 */
#include "files_help.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int remove_entry(const char *name, const struct stat *st, int flag, struct FTW *f)
{
    (void)st;
    (void)flag;
    (void)f;
    return remove(name);
}

void world_new(void)
{
    const char *root = at("");
    (void)nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS); /* not there the first time */
    assert_int_equal(mkdir(root, 0755), 0);
}

const char *at(const char *name)
{
    static char texts[8][1024];
    static unsigned next;
    char *text = texts[next++ % 8];
    const char *root = getenv("TC_TEST_DIR");
    assert_non_null(root);
    (void)snprintf(text, sizeof texts[0], name[0] != '\0' ? "%s/w/%s" : "%s/w", root, name);
    return text;
}

tc_str path(const char *name)
{
    return tci_str(at(name));
}

void put(const char *name, const char *bytes, size_t len, unsigned mode)
{
    int fd = open(at(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    for (size_t done = 0; done < len;) {
        ssize_t n = write(fd, bytes + done, len - done);
        assert_true(n > 0);
        done += (size_t)n;
    }
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(close(fd), 0);
}

void put_text(const char *name, const char *text)
{
    put(name, text, strlen(text), 0644);
}

const char *get(const char *name, size_t *ret_len)
{
    static char *text;
    static size_t cap;
    int fd = open(at(name), O_RDONLY | O_NOFOLLOW);
    assert_true(fd >= 0);
    size_t len = 0;
    for (;;) {
        if (len + 1 >= cap) {
            cap = cap == 0 ? 65536 : cap * 2;
            text = realloc(text, cap);
            assert_non_null(text);
        }
        ssize_t n = read(fd, text + len, cap - len - 1);
        assert_true(n >= 0);
        if (n == 0)
            break;
        len += (size_t)n;
    }
    (void)close(fd);
    text[len] = '\0';
    if (ret_len != NULL)
        *ret_len = len;
    return text;
}

bool same(const char *name, const char *text)
{
    size_t len;
    const char *have = get(name, &len);
    return len == strlen(text) && memcmp(have, text, len) == 0;
}

bool exists(const char *name)
{
    struct stat st;
    return lstat(at(name), &st) == 0;
}

struct stat stat_of(const char *name)
{
    struct stat st;
    assert_int_equal(lstat(at(name), &st), 0);
    return st;
}

unsigned mode_of(const char *name)
{
    return stat_of(name).st_mode & 07777;
}

unsigned count_stages(const char *name)
{
    DIR *d = opendir(at(name));
    assert_non_null(d);
    unsigned n = 0;
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d))
        n += strncmp(e->d_name, TCI_STAGE_PREFIX, strlen(TCI_STAGE_PREFIX)) == 0;
    (void)closedir(d);
    return n;
}

void make_folder(const char *name)
{
    assert_int_equal(mkdir(at(name), 0755), 0);
}

void make_link(const char *target, const char *name)
{
    assert_int_equal(symlink(target, at(name)), 0);
}

int write_text(const char *name, tci_write_mode mode, const char *text, tc_err *err)
{
    tci_file_info info;
    uint64_t written = 0;
    tci_write_text in = {
        .path = path(name), .mode = mode, .text = tci_str(text), .max_bytes = WORLD_BIG};
    int rc = tci_ops_write_text(&in, NULL, &info, &written, err);
    if (rc == 0) {
        assert_int_equal(written, strlen(text));
        assert_int_equal(info.kind, TCI_FILE_KIND_REGULAR);
        assert_true(info.size == written || (mode == TCI_WRITE_APPEND && info.size > written));
    }
    return rc;
}

int patch_text(const char *name, const char *patch, tc_err *err)
{
    tci_file_info info;
    uint64_t hunks = 0;
    tci_patch_text in = {.path = path(name), .patch = tci_str(patch), .max_bytes = WORLD_BIG};
    return tci_ops_patch_text(&in, NULL, &info, &hunks, err);
}
