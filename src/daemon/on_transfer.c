/* SPDX-License-Identifier: Apache-2.0
 *
 * Handlers of transfer methods. Opening works on a worker and enters its table afterwards on the loop
 * thread; the rest is on the loop thread, publishing on the transfer's own job. */
#include "daemon/device.h"
#include "daemon/gen/handlers.h"
#include "daemon/on_file.h"
#include "daemon/req.h"
#include "daemon/transfer.h"
#include "ops/file.h"

/* What a worker hands to the loop. */
typedef struct opened {
    tci_file file;
    tci_stage stage;
    tci_file_info info;
    uint64_t offset, length;
} opened;

/* ---- readers ---- */

static int enter_reader(tci_req *r, tc_err *err)
{
    const tci_eip_file_open_reader_params *p = r->params;
    tci_eip_file_open_reader_result *res = r->result;
    opened *o = r->state;
    tci_transfer *t;
    uint64_t timeout = p->has_transfer_timeout_ms ? p->transfer_timeout_ms : UINT64_MAX;
    if (tci_reader_open(r->session, &o->file, o->offset, o->length, timeout, &t, err) < 0)
        return err->code;
    res->reader = t->handle;
    res->info = tci_wire_file_info(p->path.path, &o->info);
    res->expires_at = tci_transfer_expires_at(t);
    return 0;
}

int tci_on_file_open_reader(tci_req *r, tc_err *err)
{
    const tci_eip_file_open_reader_params *p = r->params;
    opened *o = tci_arena_new(&r->arena, opened);
    if (o == NULL)
        return tci_arena_error(&r->arena, err);
    o->file = TCI_FILE_NONE;
    if (tci_ops_open_regular(p->path.path, &o->file, &o->info, err) < 0)
        return err->code;
    o->offset = p->has_byte_range ? p->byte_range.offset : 0;
    o->length = o->info.size > o->offset ? o->info.size - o->offset : 0;
    if (p->has_byte_range && p->byte_range.has_length)
        o->length = tci_min_u64(o->length, p->byte_range.length);
    if (o->length > r->device->config->limits.max_staged_file_bytes) {
        tci_file_close(&o->file);
        return tc_err_set(err, TC_E_QUOTA, "'%.*s' is over the transfer limit",
                          TC_STR_ARG(p->path.path));
    }
    tci_file_advise(o->file, o->offset, o->length, TCI_FILE_SEQUENTIAL);
    r->state = o;
    r->after = enter_reader;
    return 0;
}

static int find_transfer(tci_req *r, tc_str handle, bool is_writer, tci_transfer **ret, tc_err *err)
{
    tci_transfer *t = tci_transfer_find(r->session, handle);
    if (t == NULL || t->is_writer != is_writer)
        return tc_err_set(err, TC_E_BAD_HANDLE, "no such transfer");
    tci_transfer_touch(t);
    *ret = t;
    return 0;
}

static int put_digest(tci_req *r, const uint8_t digest[TCI_SHA256_BYTES],
                      tci_eip_content_digest *ret, tc_err *err)
{
    char *hex = tci_arena_bytes(&r->arena, TCI_SHA256_HEX);
    if (hex == NULL)
        return tci_arena_error(&r->arena, err);
    tci_hex(digest, TCI_SHA256_BYTES, hex);
    ret->value = tci_str_of(hex, TCI_SHA256_HEX);
    return 0;
}

int tci_on_file_close_reader(tci_req *r, tc_err *err)
{
    const tci_eip_file_close_reader_params *p = r->params;
    tci_eip_file_close_reader_result *res = r->result;
    tci_transfer *t;
    if (find_transfer(r, p->reader, false, &t, err) < 0)
        return err->code;
    if (t->state != TCI_TRANSFER_ENDED)
        return tc_err_set(err, TC_E_BAD_HANDLE, "the reader has not ended");
    t->is_closed = true;
    res->completion.produced_bytes = t->produced;
    return put_digest(r, t->digest, &res->completion.digest, err);
}

/* ---- writers ---- */

static int enter_writer(tci_req *r, tc_err *err)
{
    const tci_eip_file_open_writer_params *p = r->params;
    tci_eip_file_open_writer_result *res = r->result;
    opened *o = r->state;
    tci_transfer *t;
    uint64_t timeout = p->has_transfer_timeout_ms ? p->transfer_timeout_ms : UINT64_MAX;
    if (tci_writer_open(r->session, p->path.path, &o->stage, o->length, timeout, &t, err) < 0)
        return err->code;
    res->writer = t->handle;
    res->max_transfer_bytes = o->length;
    res->expires_at = tci_transfer_expires_at(t);
    return 0;
}

int tci_on_file_open_writer(tci_req *r, tc_err *err)
{
    const tci_eip_file_open_writer_params *p = r->params;
    opened *o = tci_arena_new(&r->arena, opened);
    if (o == NULL)
        return tci_arena_error(&r->arena, err);
    tci_stage_options options = {.path = p->path.path,
                                 .mode = tci_native_write_mode(p->mode),
                                 .has_executable = p->has_executable,
                                 .executable = p->executable,
                                 .hash = true,
                                 .max_bytes = tci_write_max(r->device),
                                 .journal = r->device->journal};
    if (tci_stage_open(&o->stage, &options, &r->cancel, err) < 0)
        return err->code;
    o->length = tci_stage_room(&o->stage);
    r->state = o;
    r->after = enter_writer;
    return 0;
}

static void committed(tci_transfer *t)
{
    tc_err err = t->err;
    tci_req *r = t->commit_user;
    const tci_eip_file_commit_writer_params *p = r->params;
    tci_eip_file_commit_writer_result *res = r->result;
    int rc = t->rc;
    if (rc == 0) {
        res->info = tci_wire_file_info(tci_str(t->path), &t->published);
        res->transferred_bytes = t->received;
        res->transfer_digest = p->transfer_digest;
        tci_req_receipt(r, TCI_EIP_RECEIPT_STAGE_COMPLETED, TCI_EIP_RECEIPT_OUTCOME_SUCCEEDED,
                        &res->receipt);
    }
    tci_req_finish(r, rc, &err);
}

int tci_on_file_commit_writer(tci_req *r, tc_err *err)
{
    const tci_eip_file_commit_writer_params *p = r->params;
    uint8_t digest[TCI_SHA256_BYTES];
    tci_transfer *t;
    if (find_transfer(r, p->writer, true, &t, err) < 0)
        return err->code;
    if (tci_unhex(p->transfer_digest.value, digest, sizeof digest, err) < 0)
        return err->code;
    return tci_writer_commit(t, p->transferred_bytes, digest, committed, r, err);
}

typedef struct abort_wait {
    tci_release_wait wait;
    tci_req *req;
} abort_wait;

static void aborted(tci_release_wait *w, tci_transfer *t)
{
    TCI_UNUSED(t);
    tci_req_finish(TCI_CONTAINER(w, abort_wait, wait)->req, 0, NULL);
}

/* Answered when the stage file is gone, whatever still wrote to it. */
int tci_on_file_abort_writer(tci_req *r, tc_err *err)
{
    const tci_eip_file_abort_writer_params *p = r->params;
    tci_eip_file_abort_writer_result *res = r->result;
    tci_transfer *t;
    abort_wait *w = tci_arena_new(&r->arena, abort_wait);
    if (w == NULL)
        return tci_arena_error(&r->arena, err);
    if (find_transfer(r, p->writer, true, &t, err) < 0)
        return err->code;
    switch (t->state) {
    case TCI_TRANSFER_OPEN:
    case TCI_TRANSFER_ACTIVE:
    case TCI_TRANSFER_ENDED:
        (void)tci_transfer_reset(t, TCI_EIPD_STATUS_CANCELLED, t->received, true);
        res->status = TCI_EIP_WRITER_ABORT_STATUS_ABORTED;
        break;
    case TCI_TRANSFER_COMMITTING:
        res->status = TCI_EIP_WRITER_ABORT_STATUS_COMMIT_IN_PROGRESS;
        break;
    case TCI_TRANSFER_COMMITTED:
        res->status = TCI_EIP_WRITER_ABORT_STATUS_ALREADY_COMMITTED;
        break;
    case TCI_TRANSFER_RESET:
        res->status = TCI_EIP_WRITER_ABORT_STATUS_ALREADY_ABORTED;
        break;
    }
    *w = (abort_wait){.wait.on_released = aborted, .req = r};
    if (tci_transfer_is_releasing(t))
        tci_transfer_when_released(t, &w->wait);
    else
        tci_req_finish(r, 0, NULL);
    return 0;
}
