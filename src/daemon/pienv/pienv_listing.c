/* SPDX-License-Identifier: Apache-2.0
 *
 * listFiles: the listing of ops/listing.h as JSON in the payload.
 *
 * Invariant: what is answered fits into a frame; what does not fit is cut like any other bound. */
#include "daemon/pienv/pienv_path_int.h"

#include "base/num.h"
#include "ops/listing.h"

#include <errno.h>

enum { JSON_BYTES_MAX = TCI_PIENV_LENGTH_MAX - 64 * 1024 };

static bool emit(void *ctx, tc_str path, tci_dir_kind kind)
{
    static const char *const kinds[] = {
        [TCI_DIR_KIND_FILE] = ",\"kind\":\"file\"}",
        [TCI_DIR_KIND_DIRECTORY] = ",\"kind\":\"directory\"}",
        [TCI_DIR_KIND_SYMLINK] = ",\"kind\":\"symlink\"}",
    };
    tci_buf *out = ctx;
    size_t before = out->len;
    if (out->ptr[before - 1] != '[')
        tci_buf_append_byte(out, ',');
    tci_buf_append_str(out, TC_STR("{\"path\":"));
    tci_pi_put_text(out, path);
    tci_buf_append_str(out, tci_str(kinds[kind]));
    if (tci_buf_ok(out) && out->len <= JSON_BYTES_MAX)
        return true;
    tci_buf_truncate(out, before);
    return false;
}

static void work_list_files(tci_pi_req *r)
{
    tc_err err;
    const tci_pi_list_files_params *p = r->params;
    tci_pi_list_files_result *result = r->result;
    tci_listing_options o = {
        .path = p->path,
        .include_hidden = p->hidden,
        .use_gitignore = p->gitignore,
        .exclude = p->exclude.items,
        .nexclude = p->exclude.count,
        .max_entries = p->max_entries,
        .max_bytes = p->max_bytes,
        .cancel = &r->cancel,
    };
    tci_buf_append_str(&r->out, TC_STR("{\"entries\":["));
    int rc = tci_buf_error(&r->out, &err);
    if (rc == 0)
        rc = tci_ops_listing(&o, emit, &r->out, &result->truncated, &err);
    tci_buf_append_str(&r->out, TC_STR("]}"));
    if (rc == 0)
        rc = tci_buf_error(&r->out, &err);
    if (rc == TC_E_CANCELLED)
        r->failure = (tci_pi_failure){.code = "aborted", .message = TC_STR("listing aborted")};
    else if (rc < 0)
        (void)tci_pi_failed(r, &err, "scandir", p->path);
}

void tci_pi_on_list_files(tci_pi_req *r)
{
    const tci_pi_list_files_params *p = r->params;
    int64_t limit_ns = tci_ms_to_ns(p->timeout_ms);
    r->cancel.deadline_ns = tci_add_ns(tci_loop_now_ns(r->server->loop), limit_ns);
    r->on_cancel = tci_pi_abort_work;
    tci_pi_work(r, TCI_PI_STUCK, work_list_files, NULL);
}
