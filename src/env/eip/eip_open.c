/* SPDX-License-Identifier: Apache-2.0
 *
 * Readers over EIP, which has no open files: files are read by ranges of their path, directories as
 * they were when the first page was asked for. The caller's thread. */
#include "env/eip/eip_int.h"

#include "env/scan.h"

enum { PAGE = 1000 };

/* ---- files ---- */

typedef struct eip_file {
    tci_open_file base;
    bool is_directory;
} eip_file;

static int current_info(tci_open_file *f, const tc_call *call, tc_file_info *info, tc_err *err)
{
    int rc = tci_eip_stat(f->env, call, f->path, true, info, err);
    return rc < 0 ? tci_eip_blame(f->env, call, rc, f->path, TCI_EIP_FILE) : 0;
}

static int file_info(tci_open_file *f, const tc_call *call, tc_env_file *ret_file, tc_err *err)
{
    tc_file_info info;
    int rc = current_info(f, call, &info, err);
    if (rc == 0)
        tci_eip_to_file(&info, ret_file);
    return rc;
}

typedef struct into {
    char *at;
    size_t room, len;
} into;

static int into_memory(void *user, const void *bytes, size_t len, tc_err *err)
{
    into *t = user;
    if (len > t->room - t->len)
        return tc_err_set(err, TC_E_PROTOCOL, "the device sent more than was asked for");
    memcpy(t->at + t->len, bytes, len);
    t->len += len;
    return 0;
}

static int file_read(tci_open_file *f, const tc_call *call, uint64_t offset, char *buf, size_t len,
                     size_t *ret_len, tc_err *err)
{
    tc_file_info info;
    into t = {.at = buf, .room = len};
    tc_range range = {.offset = offset, .has_length = true, .length = len};
    if (TCI_CONTAINER(f, eip_file, base)->is_directory)
        return tci_env_fail(call, TC_ENV_IS_DIRECTORY, f->path, err, TC_E_CONFLICT,
                            "'%.*s' is a directory", TC_STR_ARG(f->path));
    int rc = current_info(f, call, &info, err);
    if (rc < 0)
        return rc;
    if (len > 0 && offset < info.size_bytes)
        rc = tci_eip_read_stream(f->env, call, f->path, &range, into_memory, &t, NULL, err);
    if (rc < 0)
        return tci_eip_blame(f->env, call, rc, f->path, TCI_EIP_FILE);
    *ret_len = t.len;
    return 0;
}

static int into_scan(void *user, const void *bytes, size_t len, tc_err *err)
{
    tci_scan *s = user;
    tci_scan_feed(s, tci_str_of(bytes, len));
    return tci_buf_error(&s->scratch, err);
}

static int file_scan(tci_open_file *f, const tc_call *call, uint64_t start_line, uint64_t end_line,
                     tc_line_scan *ret_scan, tc_err *err)
{
    tci_scan scan = {.start_line = start_line, .end_line = end_line};
    int rc = tci_eip_read_stream(f->env, call, f->path, NULL, into_scan, &scan, NULL, err);
    if (rc == 0)
        *ret_scan = tci_scan_end(&scan);
    tci_scan_done(&scan);
    return rc < 0 ? tci_eip_blame(f->env, call, rc, f->path, TCI_EIP_FILE) : 0;
}

static void file_close(tci_open_file *f)
{
    tci_free(TCI_CONTAINER(f, eip_file, base));
}

static const tci_open_file_vtable file_vtable = {
    .info = file_info, .read = file_read, .scan = file_scan, .close = file_close};

static int refuse_link(tc_env *env, const tc_call *call, tc_str path, tc_err *err)
{
    tc_file_info info;
    int rc = tci_eip_stat(env, call, path, false, &info, err);
    if (rc < 0)
        return tci_eip_blame(env, call, rc, path, TCI_EIP_FILE);
    if (info.kind != TC_FILE_SYMLINK)
        return 0;
    return tci_env_fail(call, TC_ENV_INVALID, path, err, TC_E_INVALID, "'%.*s' is a link",
                        TC_STR_ARG(path));
}

static int check_regular(const tc_call *call, tc_str path, tc_file_kind kind, tc_err *err)
{
    if (kind == TC_FILE_REGULAR)
        return 0;
    bool is_dir = kind == TC_FILE_DIRECTORY;
    return tci_env_fail(call, is_dir ? TC_ENV_IS_DIRECTORY : TC_ENV_INVALID, path, err,
                        is_dir ? TC_E_CONFLICT : TC_E_INVALID, "'%.*s' is not a regular file",
                        TC_STR_ARG(path));
}

int tci_eip_open_file(tc_env *env, const tc_call *call, tc_str path, unsigned how,
                      tci_open_file **ret_file, tc_err *err)
{
    tc_file_info info;
    int rc = (how & TCI_OPEN_REFUSE_LINK) != 0 ? refuse_link(env, call, path, err) : 0;
    if (rc < 0)
        return rc;
    rc = tci_eip_stat(env, call, path, true, &info, err);
    if (rc < 0)
        return tci_eip_blame(env, call, rc, path, TCI_EIP_FILE);
    if ((how & TCI_OPEN_REGULAR) != 0)
        rc = check_regular(call, path, info.kind, err);
    eip_file *f = rc == 0 ? tci_new(eip_file) : NULL;
    if (rc == 0 && f == NULL)
        rc = tci_err_no_memory(err);
    if (rc < 0)
        return rc;
    f->base = (tci_open_file){.v = &file_vtable, .env = env, .path = path};
    f->is_directory = info.kind == TC_FILE_DIRECTORY;
    *ret_file = &f->base;
    return 0;
}

/* ---- directories ---- */

int tci_eip_list_dir(tc_env *env, const tc_call *call, tc_str path, tci_file_list *list,
                     tc_err *err)
{
    tc_list_options o = {.size = sizeof o, .max_results = PAGE, .include_hidden = true};
    for (;;) {
        tc_file_page page;
        int rc = tci_env_check_abort(call, path, err);
        if (rc == 0)
            rc = tci_eip_list(env, call, path, &o, &page, err);
        if (rc < 0)
            return tci_eip_blame(env, call, rc, path, TCI_EIP_DIRECTORY);
        for (size_t i = 0; i < page.count; i++) {
            tc_env_file file;
            tci_eip_to_file(&page.entries[i].info, &file);
            rc =
                tci_file_list_add(list, call, env, path, page.entries[i].relative_path, &file, err);
            if (rc < 0)
                return rc;
        }
        if (!page.has_more || page.count == 0)
            return 0;
        o.offset = page.offset + page.count;
    }
}

typedef struct eip_dir {
    tci_open_dir base;
    tc_result *held; /* of the entries; NULL before the first page */
    tci_file_list all;
    size_t at;
} eip_dir;

static int snapshot(eip_dir *d, const tc_call *call, tc_err *err)
{
    tc_call own;
    int rc = tci_eip_aside(call, &own, err);
    if (rc < 0)
        return rc;
    d->all = (tci_file_list){0};
    rc = tci_eip_list_dir(d->base.env, &own, d->base.path, &d->all, err);
    if (rc == 0) {
        d->held = own.result;
        return 0;
    }
    tci_env_blame(call, tc_result_evidence(own.result)->env_error, d->base.path);
    tci_eip_aside_done(&own);
    return rc;
}

static int dir_next(tci_open_dir *dir, const tc_call *call, size_t max, tci_file_list *list,
                    bool *ret_is_done, tc_err *err)
{
    eip_dir *d = TCI_CONTAINER(dir, eip_dir, base);
    int rc = d->held == NULL ? snapshot(d, call, err) : 0;
    size_t n = rc == 0 ? tci_min_size(max, d->all.count - d->at) : 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const tc_env_file *file = &d->all.items[d->at + i];
        rc = tci_file_list_add(list, call, dir->env, dir->path, file->name, file, err);
    }
    if (rc < 0)
        return rc;
    d->at += n;
    *ret_is_done = d->at == d->all.count;
    return 0;
}

static void dir_close(tci_open_dir *dir)
{
    eip_dir *d = TCI_CONTAINER(dir, eip_dir, base);
    tc_result_free(d->held);
    tci_free(d);
}

static const tci_open_dir_vtable dir_vtable = {.next = dir_next, .close = dir_close};

int tci_eip_open_dir(tc_env *env, const tc_call *call, tc_str path, tci_open_dir **ret_dir,
                     tc_err *err)
{
    tc_file_page page;
    tc_list_options o = {.size = sizeof o, .max_results = 1, .include_hidden = true};
    int rc = tci_eip_list(env, call, path, &o, &page, err);
    if (rc < 0)
        return tci_eip_blame(env, call, rc, path, TCI_EIP_DIRECTORY);
    eip_dir *d = tci_new(eip_dir);
    if (d == NULL)
        return tci_err_no_memory(err);
    d->base = (tci_open_dir){.v = &dir_vtable, .env = env, .path = path};
    *ret_dir = &d->base;
    return 0;
}
