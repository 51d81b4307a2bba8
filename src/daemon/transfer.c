/* SPDX-License-Identifier: Apache-2.0
 *
 * See transfer.h. Reading, hashing, writing and publishing happen in the job of a transfer, of which
 * at most one runs; everything else is on the loop thread.
 *
 * Invariant: while is_working the job owns filling, working, file, stage and sha; the loop touches
 * them only when it is false. A transfer that ended while a job runs is released when the job is done. */
#include "daemon/transfer.h"

#include "daemon/device.h"
#include "daemon/totals.h"

enum { BLOCK_HEADROOM = TCI_FRAME_HEADROOM + TCI_EIPD_FIXED_BYTES + 2 * TCI_HANDLE_TEXT_MAX };

static void pump_reader(tci_transfer *t);
static void pump_writer(tci_transfer *t);
static void on_expiry(tci_timer *timer);

/* ---- open and release ---- */

static int64_t now_ns(const tci_transfer *t)
{
    return tci_loop_now_ns(t->session->device->loop);
}

static int arm_expiry(tci_transfer *t, tc_err *err)
{
    const tci_limits *l = &t->session->device->config->limits;
    int64_t idle = tci_add_ns(t->progress_ns, tci_ms_to_ns(l->file_transfer_idle_ttl_ms));
    return tci_timer_start_at(&t->expiry, idle < t->expires_ns ? idle : t->expires_ns, err);
}

static int check_capacity(const tci_session *s, tc_err *err)
{
    const tci_limits *l = &s->device->config->limits;
    const tci_device *d = s->device;
    if (s->ntransfers >= l->max_concurrent_file_transfers ||
        d->ntransfers >= l->max_device_file_transfers ||
        s->transfers.nitems >= l->max_file_transfer_records ||
        d->ntransfer_records >= l->max_device_file_transfer_records)
        return tc_err_set(err, TC_E_BUSY, "file transfer capacity is exhausted");
    return 0;
}

static int transfer_new(tci_session *s, bool is_writer, uint64_t timeout_ms, tci_transfer **ret,
                        tc_err *err)
{
    tci_device *d = s->device;
    tci_session_relieve(d);
    if (s->state != TCI_SESSION_READY)
        return tc_err_set(err, TC_E_CANCELLED, "the session is closing");
    if (check_capacity(s, err) < 0)
        return err->code;
    tci_transfer *t = tci_new(tci_transfer);
    if (t == NULL)
        return tci_err_no_memory(err);
    t->session = s;
    t->is_writer = is_writer;
    t->file = TCI_FILE_NONE;
    tci_list_init(&t->free_blocks);
    tci_list_init(&t->queue);
    tci_list_init(&t->working);
    tci_list_init(&t->release_waits);
    tci_handle_kind kind = is_writer ? TCI_HANDLE_WRITER : TCI_HANDLE_READER;
    t->handle = tci_str_of(t->handle_text, tci_device_handle(d, kind, t->handle_text));
    tci_timer_init(&t->expiry, d->loop, on_expiry);
    t->progress_ns = now_ns(t);
    uint64_t most_ms = tci_min_u64(timeout_ms, d->config->limits.max_file_transfer_duration_ms);
    t->expires_ns = tci_add_ns(t->progress_ns, tci_ms_to_ns(most_ms));
    int rc = arm_expiry(t, err);
    if (rc == 0)
        rc = tci_map_put(&s->transfers, t->handle, t, err);
    if (rc < 0) {
        tci_timer_stop(&t->expiry);
        tci_free(t);
        return rc;
    }
    t->is_live = true;
    tci_totals_touch(d->totals);
    s->ntransfers++;
    d->ntransfers++;
    d->ntransfer_records++;
    tci_session_ref(s);
    *ret = t;
    return 0;
}

int tci_reader_open(tci_session *s, tci_file *file, uint64_t offset, uint64_t length,
                    uint64_t timeout_ms, tci_transfer **ret, tc_err *err)
{
    tci_transfer *t;
    if (transfer_new(s, false, timeout_ms, &t, err) < 0) {
        tci_file_close(file);
        return err->code;
    }
    t->file = tci_file_take(file);
    t->file_offset = offset;
    t->remaining = length;
    tci_sha256_init(&t->sha);
    size_t head = TCI_EIPD_FIXED_BYTES + s->id.len + t->handle.len;
    uint64_t frame_max = s->device->config->limits.max_transfer_frame_bytes;
    t->payload_max =
        frame_max > head + 1 ? (size_t)tci_min_u64(frame_max - head, TCI_BLOCK_PAYLOAD_MAX) : 1;
    *ret = t;
    return 0;
}

int tci_writer_open(tci_session *s, tc_str path, tci_stage *stage, uint64_t max_bytes,
                    uint64_t timeout_ms, tci_transfer **ret, tc_err *err)
{
    tci_transfer *t;
    char *path_copy = tci_mem_cstr(path);
    const tci_limits *l = &s->device->config->limits;
    int rc = path_copy == NULL ? tci_err_no_memory(err) : 0;
    if (rc == 0 && (s->staged_objects >= l->max_staged_file_objects ||
                    s->device->staged_objects >= l->max_device_staged_file_objects))
        rc = tc_err_set(err, TC_E_QUOTA, "too many staged files");
    if (rc == 0)
        rc = transfer_new(s, true, timeout_ms, &t, err);
    if (rc < 0) {
        tci_free(path_copy);
        tci_stage_abort(stage);
        return rc;
    }
    t->path = path_copy;
    t->stage = *stage;
    memset(stage, 0, sizeof *stage);
    t->max_bytes = max_bytes;
    s->staged_objects++;
    s->device->staged_objects++;
    *ret = t;
    return 0;
}

void tci_chunk_free(tci_chunk *c)
{
    if (c == NULL)
        return;
    tci_free(c->base);
    tci_free(c);
}

static void drop_chunks(tci_list *list)
{
    for (tci_link *k; (k = tci_list_pop_front(list)) != NULL;)
        tci_chunk_free(TCI_CONTAINER(k, tci_chunk, link));
}

static void drop_blocks(tci_transfer *t)
{
    for (tci_link *k; (k = tci_list_pop_front(&t->free_blocks)) != NULL;)
        tci_free(TCI_CONTAINER(k, tci_block, frame.link));
    tci_free(t->filling);
    t->filling = NULL;
}

static void uncharge_stage(tci_transfer *t)
{
    tci_session *s = t->session;
    if (!t->is_writer)
        return;
    s->staged_objects--;
    s->device->staged_objects--;
    s->staged_bytes -= t->announced;
    s->device->staged_bytes -= t->announced;
}

/* File, staging file and buffers go, unless a job or the front end still has them. */
static bool drop_content(tci_transfer *t)
{
    if (t->is_working || t->nunsent > 0)
        return false;
    tci_file_close(&t->file);
    if (t->is_writer && t->state != TCI_TRANSFER_COMMITTED)
        tci_stage_abort(&t->stage);
    t->session->device->inbound_bytes -= t->nqueued_bytes;
    t->nqueued_bytes = 0;
    drop_chunks(&t->queue);
    drop_chunks(&t->working);
    drop_blocks(t);
    return true;
}

/* What a live transfer holds goes; its record stays. */
static void release(tci_transfer *t)
{
    tci_session *s = t->session;
    if (!t->is_live)
        return;
    if (!drop_content(t)) {
        t->wants_release = true;
        return;
    }
    t->is_live = false;
    tci_timer_stop(&t->expiry);
    uncharge_stage(t);
    /* Before the count: an answer may close the session, which would take the record along. */
    for (tci_link *k; (k = tci_list_pop_front(&t->release_waits)) != NULL;) {
        tci_release_wait *w = TCI_CONTAINER(k, tci_release_wait, link);
        w->on_released(w, t);
    }
    s->ntransfers--;
    s->device->ntransfers--;
    tci_transfer_touch(t);
    tci_totals_touch(s->device->totals);
    tci_session_check_closed(s);
    tci_session_unref(s);
}

/* Record and all. The transfer is not live. */
static void forget(tci_session *s, tci_transfer *t)
{
    TC_ASSERT(!t->is_live);
    (void)tci_map_remove(&s->transfers, t->handle);
    tci_link_remove(&t->lru);
    s->device->ntransfer_records--;
    tci_free(t->path);
    tci_free(t);
}

tci_transfer *tci_transfer_find(const tci_session *s, tc_str handle)
{
    return tci_map_get(&s->transfers, handle);
}

tci_instant tci_transfer_expires_at(const tci_transfer *t)
{
    tci_instant now = tci_clock_now();
    int64_t left = t->expires_ns - now_ns(t) + now.nsec;
    now.sec += left / 1000000000;
    now.nsec = (int32_t)(left % 1000000000);
    return now;
}

void tci_transfer_touch(tci_transfer *t)
{
    t->touched_ms = tci_loop_now_ms(t->session->device->loop);
    if (t->is_live)
        return;
    tci_link_remove(&t->lru);
    tci_list_push_back(&t->session->transfer_lru, &t->lru);
}

static void made_progress(tci_transfer *t)
{
    t->progress_ns = now_ns(t);
}

/* ---- ending early ---- */

bool tci_transfer_reset(tci_transfer *t, tci_eipd_status status, uint64_t offset, bool tell_front)
{
    if (t->state > TCI_TRANSFER_ENDED || t->is_closed)
        return false;
    const tci_front *front = t->front;
    t->state = TCI_TRANSFER_RESET;
    t->reset_status = status;
    (void)drop_content(t); /* before anybody is told; what is in use goes with its user */
    if (tell_front && front != NULL)
        front->on_reset(t, status, offset);
    release(t);
    return true;
}

bool tci_transfer_is_releasing(const tci_transfer *t)
{
    return t->is_live && t->wants_release;
}

void tci_transfer_when_released(tci_transfer *t, tci_release_wait *w)
{
    TC_ASSERT(tci_transfer_is_releasing(t));
    tci_list_push_back(&t->release_waits, &w->link);
}

static void on_expiry(tci_timer *timer)
{
    tc_err err;
    tci_transfer *t = TCI_CONTAINER(timer, tci_transfer, expiry);
    const tci_limits *l = &t->session->device->config->limits;
    int64_t idle = tci_add_ns(t->progress_ns, tci_ms_to_ns(l->file_transfer_idle_ttl_ms));
    int64_t now = now_ns(t);
    if (t->state == TCI_TRANSFER_COMMITTING)
        return;
    if (now < idle && now < t->expires_ns && arm_expiry(t, &err) == 0)
        return;
    (void)tci_transfer_reset(t, TCI_EIPD_STATUS_EXPIRED, tci_transfer_progress(t), true);
}

/* A reset status says less than a code; what has no row is our fault. */
static tci_eipd_status status_of(int rc)
{
    static const struct {
        tc_code code;
        tci_eipd_status status;
    } rows[] = {
        {TC_E_QUOTA, TCI_EIPD_STATUS_LIMIT},         {TC_E_DENIED, TCI_EIPD_STATUS_DENIED},
        {TC_E_NOT_FOUND, TCI_EIPD_STATUS_DENIED},    {TC_E_TIMEOUT, TCI_EIPD_STATUS_EXPIRED},
        {TC_E_IO, TCI_EIPD_STATUS_SOURCE},           {TC_E_NO_SPACE, TCI_EIPD_STATUS_SOURCE},
        {TC_E_PROTOCOL, TCI_EIPD_STATUS_PROTOCOL},   {TC_E_CONFLICT, TCI_EIPD_STATUS_PROTOCOL},
        {TC_E_CANCELLED, TCI_EIPD_STATUS_CANCELLED},
    };
    for (size_t i = 0; i < TCI_ARRAY_LEN(rows); i++) {
        if (rows[i].code == rc)
            return rows[i].status;
    }
    return TCI_EIPD_STATUS_INTERNAL;
}

/* A job came back. false: the transfer ended meanwhile, or ends now with the job's error. */
static bool job_over(tci_transfer *t)
{
    t->is_working = false;
    if (t->wants_release || t->state != TCI_TRANSFER_ACTIVE) {
        release(t);
        return false;
    }
    if (t->rc < 0) {
        (void)tci_transfer_reset(t, status_of(t->rc), tci_transfer_progress(t), true);
        return false;
    }
    made_progress(t);
    return true;
}

/* ---- reader ---- */

static tci_block *block_new(tci_transfer *t)
{
    tci_link *k = tci_list_pop_front(&t->free_blocks);
    if (k != NULL)
        return TCI_CONTAINER(k, tci_block, frame.link);
    size_t payload = (size_t)tci_min_u64(t->payload_max, tci_max_u64(t->remaining, 1));
    tci_block *b = tci_mem_resize(NULL, sizeof *b + BLOCK_HEADROOM + payload);
    if (b == NULL)
        return NULL;
    memset(b, 0, sizeof *b);
    b->base = (char *)(b + 1);
    b->payload = b->base + BLOCK_HEADROOM;
    return b;
}

static void read_work(tci_job *job)
{
    tci_transfer *t = TCI_CONTAINER(job, tci_transfer, job);
    tci_block *b = t->filling;
    size_t want = (size_t)tci_min_u64(t->payload_max, t->remaining);
    t->rc = tci_file_pread(t->file, b->payload, want, t->file_offset, &b->len, &t->err);
    if (t->rc == 0)
        tci_sha256_update(&t->sha, b->payload, b->len);
}

static void reader_finish(tci_transfer *t)
{
    tci_sha256_final(&t->sha, t->digest);
    t->state = TCI_TRANSFER_ENDED;
    t->front->on_end(t);
    release(t);
}

static void read_done(tci_job *job)
{
    tci_transfer *t = TCI_CONTAINER(job, tci_transfer, job);
    tci_block *b = t->filling;
    if (!job_over(t))
        return;
    t->filling = NULL;
    if (b->len == 0) { /* the file ends earlier than expected: no error */
        t->remaining = 0;
        tci_list_push_front(&t->free_blocks, &b->frame.link);
        pump_reader(t);
        return;
    }
    b->offset = t->produced;
    t->produced += b->len;
    t->file_offset += b->len;
    t->remaining -= b->len;
    t->credits[t->ncredits++] = t->produced;
    t->nunsent++;
    t->front->on_block(t, b);
    pump_reader(t);
}

static void pump_reader(tci_transfer *t)
{
    if (t->is_writer || t->state != TCI_TRANSFER_ACTIVE || t->is_working)
        return;
    if (t->remaining == 0) {
        if (t->ncredits == 0)
            reader_finish(t);
        return;
    }
    if (t->ncredits >= TCI_TRANSFER_WINDOW || t->nunsent >= TCI_BLOCKS_AHEAD)
        return;
    t->filling = block_new(t);
    if (t->filling == NULL) {
        (void)tci_transfer_reset(t, TCI_EIPD_STATUS_INTERNAL, t->produced, true);
        return;
    }
    t->is_working = true;
    t->job.work = read_work;
    t->job.done = read_done;
    tci_job_submit(t->session->device->loop, TCI_JOB_BULK, &t->job);
}

void tci_reader_sent(tci_transfer *t, tci_block *b)
{
    t->nunsent--;
    if (t->state != TCI_TRANSFER_ACTIVE) {
        tci_free(b);
        if (t->wants_release)
            release(t);
        return;
    }
    b->len = 0;
    tci_list_push_front(&t->free_blocks, &b->frame.link);
    made_progress(t);
    pump_reader(t);
}

int tci_reader_credit(tci_transfer *t, uint64_t end, tc_err *err)
{
    unsigned n = 0;
    while (n < t->ncredits && t->credits[n] != end)
        n++;
    if (t->is_writer || t->state != TCI_TRANSFER_ACTIVE || n == t->ncredits)
        return tc_err_set(err, TC_E_PROTOCOL, "credit is no outstanding block's end");
    t->ncredits -= n + 1;
    memmove(t->credits, t->credits + n + 1, t->ncredits * sizeof t->credits[0]);
    made_progress(t);
    pump_reader(t);
    return 0;
}

/* ---- writer ---- */

static void write_work(tci_job *job)
{
    tci_transfer *t = TCI_CONTAINER(job, tci_transfer, job);
    t->rc = 0;
    TCI_LIST_EACH (&t->working, k) {
        tci_chunk *c = TCI_CONTAINER(k, tci_chunk, link);
        t->rc = tci_stage_write(&t->stage, c->payload.ptr, c->payload.len, &t->err);
        if (t->rc < 0)
            return;
    }
}

static void write_done(tci_job *job)
{
    tci_transfer *t = TCI_CONTAINER(job, tci_transfer, job);
    if (!job_over(t))
        return;
    /* The front end may push more from inside on_consumed, and so start the next job. */
    tci_list written;
    tci_list_init(&written);
    for (tci_link *k; (k = tci_list_pop_front(&t->working)) != NULL;)
        tci_list_push_back(&written, k);
    for (tci_link *k; (k = tci_list_pop_front(&written)) != NULL;) {
        tci_chunk *c = TCI_CONTAINER(k, tci_chunk, link);
        t->received = c->end;
        t->nqueued_bytes -= c->payload.len;
        t->session->device->inbound_bytes -= c->payload.len;
        t->front->on_consumed(t, c); /* takes the chunk over */
        if (t->state != TCI_TRANSFER_ACTIVE)
            break;
    }
    drop_chunks(&written);
    pump_writer(t);
}

static void seal_work(tci_job *job)
{
    tci_transfer *t = TCI_CONTAINER(job, tci_transfer, job);
    t->rc = tci_stage_seal(&t->stage, t->staged_digest, &t->err);
}

static void seal_done(tci_job *job)
{
    tci_transfer *t = TCI_CONTAINER(job, tci_transfer, job);
    if (!job_over(t))
        return;
    t->state = TCI_TRANSFER_ENDED;
    t->front->on_sealed(t);
}

static void pump_writer(tci_transfer *t)
{
    if (!t->is_writer || t->state != TCI_TRANSFER_ACTIVE || t->is_working)
        return;
    if (tci_list_is_empty(&t->queue)) {
        if (!t->is_end_seen)
            return;
        t->job.work = seal_work;
        t->job.done = seal_done;
    } else {
        for (tci_link *k; (k = tci_list_pop_front(&t->queue)) != NULL;)
            tci_list_push_back(&t->working, k);
        t->job.work = write_work;
        t->job.done = write_done;
    }
    t->is_working = true;
    tci_job_submit(t->session->device->loop, TCI_JOB_BULK, &t->job);
}

static int accept_bytes(tci_transfer *t, uint64_t offset, size_t len, tc_err *err)
{
    tci_session *s = t->session;
    const tci_limits *l = &s->device->config->limits;
    uint64_t end;
    if (!t->is_writer || t->state != TCI_TRANSFER_ACTIVE || t->is_end_seen)
        return tc_err_set(err, TC_E_PROTOCOL, "the writer takes no bytes now");
    if (offset != t->announced || !tci_add_u64(offset, len, &end))
        return tc_err_set(err, TC_E_PROTOCOL, "the chunk does not follow the one before");
    if (end > t->max_bytes || s->staged_bytes + len > l->max_staged_file_bytes ||
        s->device->staged_bytes + len > l->max_device_staged_file_bytes)
        return tc_err_set(err, TC_E_QUOTA, "the transfer is over its limit");
    t->announced = end;
    s->staged_bytes += len;
    s->device->staged_bytes += len;
    return 0;
}

int tci_writer_push_own(tci_transfer *t, uint64_t offset, tci_chunk *chunk, tc_err *err)
{
    if (accept_bytes(t, offset, chunk->payload.len, err) < 0) {
        tci_chunk_free(chunk);
        return err->code;
    }
    chunk->end = t->announced;
    t->nqueued_bytes += chunk->payload.len;
    t->session->device->inbound_bytes += chunk->payload.len;
    made_progress(t);
    tci_list_push_back(&t->queue, &chunk->link);
    pump_writer(t);
    return 0;
}

int tci_writer_end(tci_transfer *t, uint64_t total, tc_err *err)
{
    if (!t->is_writer || t->state != TCI_TRANSFER_ACTIVE || t->is_end_seen || total != t->announced)
        return tc_err_set(err, TC_E_PROTOCOL, "the end does not follow the last chunk");
    t->is_end_seen = true;
    pump_writer(t);
    return 0;
}

/* ---- attach, commit ---- */

int tci_transfer_attach(tci_transfer *t, const tci_front *front, void *front_state, tc_err *err)
{
    if (t->state != TCI_TRANSFER_OPEN)
        return tc_err_set(err, TC_E_CONFLICT, "the transfer was attached before");
    t->state = TCI_TRANSFER_ACTIVE;
    t->front = front;
    t->front_state = front_state;
    made_progress(t);
    pump_reader(t);
    return 0;
}

static void commit_work(tci_job *job)
{
    tci_transfer *t = TCI_CONTAINER(job, tci_transfer, job);
    if (t->rc < 0)
        tci_stage_abort(&t->stage);
    else
        t->rc = tci_stage_publish(&t->stage, &t->published, &t->err);
}

static void commit_done(tci_job *job)
{
    tci_transfer *t = TCI_CONTAINER(job, tci_transfer, job);
    t->is_working = false;
    if (t->rc == 0)
        t->state = TCI_TRANSFER_COMMITTED;
    else if (t->rc != TC_E_UNKNOWN_OUTCOME)
        t->state = TCI_TRANSFER_RESET;
    tci_session *s = tci_session_ref(t->session);
    void (*on_committed)(tci_transfer *) = t->on_committed;
    on_committed(t);
    release(t);
    tci_session_unref(s);
}

int tci_writer_commit(tci_transfer *t, uint64_t nbytes, const uint8_t digest[TCI_SHA256_BYTES],
                      void (*on_committed)(tci_transfer *t), void *user, tc_err *err)
{
    if (!t->is_writer || t->state != TCI_TRANSFER_ENDED)
        return tc_err_set(err, TC_E_BAD_HANDLE, "the writer is not sealed");
    t->state = TCI_TRANSFER_COMMITTING;
    t->on_committed = on_committed;
    t->commit_user = user;
    t->rc = 0;
    if (nbytes != t->received || memcmp(digest, t->staged_digest, TCI_SHA256_BYTES) != 0)
        t->rc = tc_err_set(&t->err, TC_E_INTEGRITY, "count or digest differ from what arrived");
    t->is_working = true;
    t->job.work = commit_work;
    t->job.done = commit_done;
    tci_job_submit(t->session->device->loop, TCI_JOB_QUICK, &t->job);
    return 0;
}

/* ---- for the session ---- */

void tci_transfer_end_all(tci_session *s)
{
    size_t at = 0;
    for (tci_transfer *t; (t = tci_map_next(&s->transfers, &at)) != NULL;)
        if (t->is_live)
            (void)tci_transfer_reset(t, TCI_EIPD_STATUS_CANCELLED, tci_transfer_progress(t), true);
}

void tci_transfer_forget_all(tci_session *s)
{
    size_t at = 0;
    for (tci_transfer *t; (t = tci_map_next(&s->transfers, &at)) != NULL;)
        forget(s, t);
}

void tci_transfer_expire(tci_session *s, int64_t before_ms)
{
    for (tci_link *k; (k = tci_list_first(&s->transfer_lru)) != NULL;) {
        tci_transfer *t = TCI_CONTAINER(k, tci_transfer, lru);
        if (t->touched_ms >= before_ms)
            return;
        forget(s, t);
    }
}

bool tci_transfer_evict(tci_session *s)
{
    tci_link *k = tci_list_first(&s->transfer_lru);
    if (k == NULL)
        return false;
    forget(s, TCI_CONTAINER(k, tci_transfer, lru));
    return true;
}
