/* SPDX-License-Identifier: Apache-2.0
 *
 * Downloads and uploads: the control calls around a transfer, digests, and where content comes from
 * and goes. Leaves the moving to xfer.c. The caller's thread. Invariant: success means that count
 * and digest were the same on both sides. */
#include "client/session_int.h"

#include "base/hash.h"
#include "plat/fd.h"

enum { ATTEMPT_ABORT_MS = 5000 };

/* ---- reading ---- */

typedef struct tally {
    tci_sha256 hash;
    uint64_t nbytes;
} tally;

static int consume(tci_xfer *x, tc_ctx *ctx, tc_sink sink, void *user, tally *t, tc_err *err)
{
    for (;;) {
        tci_block *b = NULL;
        int rc = tci_xfer_next(x, ctx, &b, err);
        if (rc < 0 || b == NULL)
            return rc;
        tci_sha256_update(&t->hash, b->payload, b->len);
        t->nbytes += b->len;
        rc = sink(user, b->payload, b->len, err);
        tci_xfer_give(x, b);
        if (rc < 0)
            return rc;
    }
}

static int read_content(tc_session *s, tc_ctx *ctx, tc_str reader, uint64_t max_bytes, tc_sink sink,
                        void *user, tally *t, tc_err *err)
{
    tci_xfer x;
    tci_xfer_init(&x, s->device->conn, s->sess, reader, true, ctx);
    x.max_bytes = max_bytes;
    int rc = tci_xfer_attach(&x, ctx, err);
    if (rc == 0)
        rc = consume(&x, ctx, sink, user, t, err);
    if (rc < 0)
        tci_xfer_abort(&x, TCI_EIPD_STATUS_CANCELLED);
    tci_xfer_done(&x);
    return rc;
}

static void put_hex(const tally *t, char out[TCI_SHA256_HEX + 1])
{
    tci_sha256 copy = t->hash;
    uint8_t digest[TCI_SHA256_BYTES];
    tci_sha256_final(&copy, digest);
    tci_hex(digest, sizeof digest, out);
    out[TCI_SHA256_HEX] = 0;
}

/* Both sides must have seen the same content. */
static int check_read(const tally *t, const tci_eip_file_read_completion *c,
                      char hex[TCI_SHA256_HEX + 1], tc_err *err)
{
    put_hex(t, hex);
    if (c->produced_bytes == t->nbytes &&
        tci_str_eq(c->digest.value, tci_str_of(hex, TCI_SHA256_HEX)))
        return 0;
    return tc_err_set(err, TC_E_INTEGRITY, "what arrived is not what the daemon read");
}

static int download_handle(tc_session *s, const tc_call *call, tc_str reader, uint64_t max_bytes,
                           int close_method, tc_sink sink, void *user, tc_transfer *out,
                           tc_err *err)
{
    tally t = {.nbytes = 0};
    tci_sha256_init(&t.hash);
    int rc = read_content(s, call->ctx, reader, max_bytes, sink, user, &t, err);
    if (rc < 0)
        return rc;
    tci_eip_file_close_reader_params params = {.reader = reader};
    tci_eip_file_close_reader_result res = {0};
    rc = tci_session_ask(s, call, close_method, &params, &res, err);
    if (rc == 0)
        rc = check_read(&t, &res.completion, out->sha256, err);
    out->nbytes = t.nbytes;
    if (rc == TC_E_INTEGRITY) {
        tc_err why = *err;
        tci_sess_break(s->sess, &why);
    }
    return rc;
}

static uint64_t expected_max(const tci_eip_file_info *info, const tc_range *range)
{
    uint64_t size = info->has_size_bytes ? info->size_bytes : UINT64_MAX;
    if (range == NULL)
        return size;
    uint64_t left = size > range->offset ? size - range->offset : 0;
    return range->has_length ? tci_min_u64(range->length, left) : left;
}

int tc_session_download(tc_session *s, const tc_call *call, tc_str path, const tc_range *range,
                        tc_sink sink, void *user, tc_transfer *ret_transfer, tc_err *err)
{
    tci_eip_file_open_reader_params params = {.path = {path}};
    if (range != NULL) {
        params.has_byte_range = true;
        params.byte_range.offset = range->offset;
        params.byte_range.has_length = range->has_length;
        params.byte_range.length = range->length;
    }
    tci_eip_file_open_reader_result res = {0};
    int rc = tci_session_ask(s, call, TCI_EIP_FILE_OPEN_READER, &params, &res, err);
    tc_transfer out = {.nbytes = 0};
    if (rc == 0)
        rc = download_handle(s, call, res.reader, expected_max(&res.info, range),
                             TCI_EIP_FILE_CLOSE_READER, sink, user, &out, err);
    if (rc == 0 && ret_transfer != NULL) {
        *ret_transfer = out;
        tci_to_file_info(&res.info, &ret_transfer->info);
    }
    return rc;
}

static int into_buffer(void *user, const void *bytes, size_t len, tc_err *err)
{
    tci_buf *b = user;
    tci_buf_append(b, bytes, len);
    return tci_buf_error(b, err);
}

int tc_session_download_bytes(tc_session *s, const tc_call *call, tc_str path,
                              const tc_range *range, uint64_t max_bytes, tc_str *ret_bytes,
                              tc_err *err)
{
    tci_buf b;
    tci_buf_init(&b, (size_t)tci_min_u64(max_bytes, TCI_BUF_MAX));
    int rc = tc_session_download(s, call, path, range, into_buffer, &b, NULL, err);
    if (rc == 0)
        rc = tc_result_dup(call->result, tci_buf_str(&b), ret_bytes, err);
    tci_buf_done(&b);
    return rc;
}

static int into_fd(void *user, const void *bytes, size_t len, tc_err *err)
{
    return tci_fd_write_all(*(const int *)user, bytes, len, err);
}

int tc_session_download_fd(tc_session *s, const tc_call *call, tc_str path, const tc_range *range,
                           int fd, tc_transfer *ret_transfer, tc_err *err)
{
    return tc_session_download(s, call, path, range, into_fd, &fd, ret_transfer, err);
}

/* ---- writing ---- */

/* Fill one block from the source; *ret_is_end when the source has no more. */
static int fill(tci_block *b, tc_source source, void *user, bool *ret_is_end, tc_err *err)
{
    b->len = 0;
    while (b->len < b->cap) {
        size_t n = 0;
        int rc = source(user, b->payload + b->len, b->cap - b->len, &n, err);
        if (rc < 0)
            return rc;
        if (n > b->cap - b->len)
            return tc_err_set(err, TC_E_INVALID, "a source gave more than it was asked for");
        b->len += n;
        *ret_is_end = n == 0;
        if (n == 0)
            return 0;
    }
    return 0;
}

static int produce(tci_xfer *x, tc_ctx *ctx, tc_source source, void *user, tally *t, tc_err *err)
{
    for (bool is_end = false; !is_end;) {
        tci_block *b = NULL;
        int rc = tci_xfer_blank(x, ctx, &b, err);
        if (rc == 0)
            rc = fill(b, source, user, &is_end, err);
        if (rc < 0 || b->len == 0) {
            if (b != NULL)
                x->nblocks--;
            tci_free(b);
            if (rc < 0)
                return rc;
            break;
        }
        if (b->len > x->max_bytes - t->nbytes) {
            x->nblocks--;
            tci_free(b);
            return tc_err_set(err, TC_E_QUOTA, "more content than the device takes");
        }
        tci_sha256_update(&t->hash, b->payload, b->len);
        t->nbytes += b->len;
        tci_xfer_give(x, b);
    }
    return tci_xfer_finish(x, ctx, err);
}

/* Best effort: the daemon throws away a staged upload by itself too, only later. */
static void abort_writer(tc_session *s, tc_str writer)
{
    tci_eip_file_abort_writer_params params = {.writer = writer};
    tci_eip_file_abort_writer_result res = {0};
    tc_result *r = NULL;
    tc_err err;
    if (!tc_session_is_alive(s) || tc_result_new(&r, &err) < 0)
        return;
    tc_call call = TC_CALL(NULL, r);
    call.timeout_ms = ATTEMPT_ABORT_MS;
    int rc = tci_session_ask(s, &call, TCI_EIP_FILE_ABORT_WRITER, &params, &res, &err);
    TCI_UNUSED(rc); /* see above */
    tc_result_free(r);
}

static int write_content(tc_session *s, tc_ctx *ctx, const tci_eip_file_open_writer_result *opened,
                         tc_source source, void *user, tally *t, tc_err *err)
{
    tci_xfer x;
    tci_xfer_init(&x, s->device->conn, s->sess, opened->writer, false, ctx);
    x.max_bytes = opened->max_transfer_bytes;
    int rc = tci_xfer_attach(&x, ctx, err);
    if (rc == 0)
        rc = produce(&x, ctx, source, user, t, err);
    if (rc < 0)
        tci_xfer_abort(&x, TCI_EIPD_STATUS_CANCELLED);
    tci_xfer_done(&x);
    if (rc < 0)
        abort_writer(s, opened->writer);
    return rc;
}

static int commit(tc_session *s, const tc_call *call, tc_str writer, const tally *t,
                  tc_transfer *ret_transfer, tc_err *err)
{
    char hex[TCI_SHA256_HEX + 1];
    put_hex(t, hex);
    tc_str digest = tci_str_of(hex, TCI_SHA256_HEX);
    tci_eip_file_commit_writer_params params = {
        .writer = writer,
        .transferred_bytes = t->nbytes,
        .transfer_digest = {digest},
    };
    tci_eip_file_commit_writer_result res = {0};
    int rc = tci_session_ask(s, call, TCI_EIP_FILE_COMMIT_WRITER, &params, &res, err);
    if (rc < 0)
        return rc;
    if (res.transferred_bytes != t->nbytes || !tci_str_eq(res.transfer_digest.value, digest))
        return tci_session_violation(s, call->result, err, "it committed other content");
    if (ret_transfer == NULL)
        return 0;
    ret_transfer->nbytes = t->nbytes;
    memcpy(ret_transfer->sha256, hex, sizeof hex);
    tci_to_file_info(&res.info, &ret_transfer->info);
    return 0;
}

int tc_session_upload(tc_session *s, const tc_call *call, tc_str path,
                      const tc_write_options *options, tc_source source, void *user,
                      tc_transfer *ret_transfer, tc_err *err)
{
    tc_write_options none = {.size = sizeof none};
    const tc_write_options *o = options != NULL ? options : &none;
    int rc = tci_options_check(o, sizeof *o, err);
    if (rc < 0)
        return rc;
    tci_eip_file_open_writer_params params = {
        .path = {path},
        .mode = tci_put_write_mode(o->mode),
        .has_executable = o->executable != TC_KEEP,
        .executable = o->executable == TC_YES,
    };
    tci_eip_file_open_writer_result res = {0};
    tally t = {.nbytes = 0};
    tci_sha256_init(&t.hash);
    rc = tci_session_ask(s, call, TCI_EIP_FILE_OPEN_WRITER, &params, &res, err);
    if (rc == 0)
        rc = write_content(s, call->ctx, &res, source, user, &t, err);
    if (rc < 0) {
        /* Only a commit makes content visible, and none was sent. */
        call->result->evidence.outcome = TC_OUTCOME_NOT_STARTED;
        return rc;
    }
    return commit(s, call, res.writer, &t, ret_transfer, err);
}

static int from_text(void *user, void *buf, size_t cap, size_t *ret_len, tc_err *err)
{
    TCI_UNUSED(err);
    tc_str *rest = user;
    *ret_len = tci_min_size(cap, rest->len);
    if (*ret_len == 0)
        return 0;
    memcpy(buf, rest->ptr, *ret_len);
    rest->ptr += *ret_len;
    rest->len -= *ret_len;
    return 0;
}

int tc_session_upload_bytes(tc_session *s, const tc_call *call, tc_str path,
                            const tc_write_options *options, tc_str bytes,
                            tc_transfer *ret_transfer, tc_err *err)
{
    tc_str rest = bytes;
    return tc_session_upload(s, call, path, options, from_text, &rest, ret_transfer, err);
}

static int from_fd(void *user, void *buf, size_t cap, size_t *ret_len, tc_err *err)
{
    *ret_len = 0;
    int rc = tci_fd_read(*(const int *)user, buf, cap, ret_len, err);
    return rc == TC_E_END ? 0 : rc;
}

int tc_session_upload_fd(tc_session *s, const tc_call *call, tc_str path,
                         const tc_write_options *options, int fd, tc_transfer *ret_transfer,
                         tc_err *err)
{
    return tc_session_upload(s, call, path, options, from_fd, &fd, ret_transfer, err);
}
