/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of Hosts that somebody signed in to, with their tokens. The main thread. Invariant: the file is always
 * whole and its owner's alone: a change reads it, writes a new one beside it and renames that over, all under the
 * lock of a file that is never renamed. */
#include "host.h"

#include "base/hash.h"
#include "net/url.h"
#include "plat/clock.h"
#include "plat/file.h"
#include "plat/system.h"

enum { FILE_MODE = 0600, FILE_BYTES_MAX = 1024 * 1024, LOCK_WAIT_MS = 10000 };

int host_url_of(cli *c, const char *text, tc_str *ret, tc_err *err)
{
    tci_url url;
    char authority[TCI_URL_AUTHORITY_MAX];
    if (tci_url_parse(tci_str(text), TCI_URL_PATH, &url, err) < 0 ||
        (url.scheme != TCI_URL_HTTP && url.scheme != TCI_URL_HTTPS)) {
        (void)tc_err_set(err, TC_E_INVALID, "'%s' is not a Host's URL", text);
        return tc_err_hint(err, "https://HOST[:PORT]");
    }
    if (!url.is_tls && !tci_host_is_loopback(tci_str(url.host))) {
        (void)tc_err_set(err, TC_E_INVALID, "http:// to another machine would show the token");
        return tc_err_hint(err, "use https://");
    }
    return tci_arena_printf(&c->arena, ret, err, "%s://%s%.*s%s", tci_url_scheme_name(url.scheme),
                            tci_url_authority(&url, authority), TC_STR_ARG(url.path),
                            tci_str_ends(url.path, TC_STR("/")) ? "" : "/");
}

/* ---- reading ---- */

static int file_of(cli *c, tc_str *ret_folder, tc_str *ret_file, tc_err *err)
{
    int rc = cli_our_folder(c, CLI_FOLDER_CONFIG, ret_folder, NULL, err);
    return rc == 0 ? tci_arena_printf(&c->arena, ret_file, err, "%.*s/hosts.json",
                                      TC_STR_ARG(*ret_folder))
                   : rc;
}

/* The list; NULL when there is none yet. */
static int read_hosts(cli *c, tc_str file, const tci_json **ret, tc_err *err)
{
    char *text = NULL;
    size_t len = 0;
    tc_str kept;
    *ret = NULL;
    int rc = tci_file_read_whole(TCI_FILE_CWD, file, FILE_BYTES_MAX, &text, &len, err);
    if (rc == TC_E_NOT_FOUND)
        return 0;
    if (rc < 0)
        return rc;
    tci_system_hide_memory(); /* there are tokens in it from here on */
    rc = tci_arena_dup(&c->arena, tci_str_of(text, len), &kept, err);
    tci_mem_wipe(text, len);
    tci_free(text);
    tci_json *root = rc == 0 ? tci_arena_new(&c->arena, tci_json) : NULL;
    if (root == NULL)
        return rc < 0 ? rc : tci_arena_error(&c->arena, err);
    const tci_json *hosts = NULL;
    if (tci_json_parse(kept, 0, &c->arena, root, err) == 0)
        hosts = tci_json_get(root, TC_STR("hosts"));
    if (hosts == NULL || hosts->kind != TCI_JSON_ARRAY) {
        (void)tc_err_set(err, TC_E_PARSE, "'%.*s' is damaged", TC_STR_ARG(file));
        return tc_err_hint(err, "remove it and sign in again");
    }
    *ret = hosts;
    return 0;
}

static host_at host_of(const tci_json *v)
{
    bool is_insecure = false;
    const tci_json *flag = tci_json_get(v, TC_STR("insecure"));
    if (flag != NULL && !tci_json_as_bool(flag, &is_insecure))
        is_insecure = false;
    return (host_at){.url = tci_json_str_member(v, "url"),
                     .token = tci_json_str_member(v, "token"),
                     .ca_file = tci_json_str_member(v, "ca_file"),
                     .is_insecure = is_insecure};
}

int host_saved_find(cli *c, const char *named, host_at *ret, tc_err *err)
{
    tc_str folder, file, url = {0};
    const tci_json *hosts;
    int rc = named != NULL ? host_url_of(c, named, &url, err) : 0;
    if (rc == 0)
        rc = file_of(c, &folder, &file, err);
    if (rc == 0)
        rc = read_hosts(c, file, &hosts, err);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; hosts != NULL && i < hosts->count; i++) {
        host_at at = host_of(&hosts->u.items[i]);
        if (named != NULL && !tci_str_eq(at.url, url))
            continue;
        *ret = at;
        return 0;
    }
    if (named != NULL)
        (void)tc_err_set(err, TC_E_AUTH, "not signed in to '%.*s'", TC_STR_ARG(url));
    else
        (void)tc_err_set(err, TC_E_AUTH, "not signed in to a Host");
    return tc_err_hint(err, "telechir host login %s", named != NULL ? named : "URL");
}

/* ---- changing ---- */

static void put_host(tci_buf *b, const host_at *at)
{
    bool first = true;
    tci_buf_append_byte(b, '{');
    cli_json_str(b, &first, "url", at->url);
    cli_json_str(b, &first, "token", at->token);
    if (at->ca_file.len > 0)
        cli_json_str(b, &first, "ca_file", at->ca_file);
    if (at->is_insecure)
        cli_json_bool(b, &first, "insecure", true);
    tci_buf_append_byte(b, '}');
}

static void put_all(tci_buf *b, const tci_json *old, tc_str url, const host_at *changed)
{
    bool is_first = true;
    tci_buf_append_str(b, TC_STR("{\"version\":1,\"hosts\":["));
    if (changed != NULL) {
        put_host(b, changed);
        is_first = false;
    }
    for (uint32_t i = 0; old != NULL && i < old->count; i++) {
        if (tci_str_eq(host_of(&old->u.items[i]).url, url))
            continue;
        if (!is_first)
            tci_buf_append_byte(b, ',');
        is_first = false;
        tci_json_put(b, &old->u.items[i], TCI_JSON_AS_IS);
    }
    tci_buf_append_str(b, TC_STR("]}\n"));
}

static int change(cli *c, tc_str url, const host_at *changed, tc_err *err)
{
    tc_str folder, file, lock_path;
    const tci_json *old;
    tci_buf b;
    TCI_FILE_AUTO lock = TCI_FILE_NONE;
    int rc = file_of(c, &folder, &file, err);
    if (rc == 0)
        rc = cli_make_folder(folder, err);
    if (rc == 0)
        rc = tci_arena_printf(&c->arena, &lock_path, err, "%.*s.lock", TC_STR_ARG(file));
    if (rc == 0)
        rc = tci_file_openat(TCI_FILE_CWD, lock_path,
                             TCI_OPEN_READ | TCI_OPEN_WRITE | TCI_OPEN_CREATE, FILE_MODE, &lock,
                             err);
    if (rc == 0)
        rc = tci_file_lock_byte(lock, 0, LOCK_WAIT_MS, err);
    if (rc == 0)
        rc = read_hosts(c, file, &old, err);
    if (rc < 0)
        return rc;
    tci_buf_init(&b, FILE_BYTES_MAX);
    put_all(&b, old, url, changed);
    rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = cli_replace_file(c, file, tci_buf_str(&b), err);
    if (b.len > 0)
        tci_mem_wipe(b.ptr, b.len);
    tci_buf_done(&b);
    return rc;
}

int host_saved_put(cli *c, const host_at *at, tc_err *err)
{
    int rc = change(c, at->url, at, err);
    return rc < 0 ? tc_err_wrap(err, "cannot save the token") : 0;
}

int host_saved_remove(cli *c, tc_str url, tc_err *err)
{
    return change(c, url, NULL, err);
}
