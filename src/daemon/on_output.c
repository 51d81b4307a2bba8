/* SPDX-License-Identifier: Apache-2.0
 *
 * Handlers of output methods. Waiting happens on the loop thread, by the spool's events; a page is read
 * and encoded by a job, so that a large one holds nobody up.
 *
 * Invariant: the page is as large as fits into a response beside the preview, so every byte of an output
 * can be read whatever the limits are. */
#include "daemon/device.h"
#include "daemon/gen/handlers.h"
#include "daemon/process.h"
#include "daemon/req.h"

enum { RESERVE_BYTES = 4096, INLINE_BYTES = 16 * 1024 };

typedef struct reading {
    tci_spool_wait wait;
    tci_timer timer; /* wait_ms */
    tci_req *req;
    tci_output *output;
    tci_spool_view view;
    tci_spool_info info;
    tci_job job;
    size_t preview_len, page_len;
    int rc;
} reading;

static uint64_t base64_len(uint64_t n)
{
    return (n + 2) / 3 * 4;
}

/* Sizes of the two parts of the answer. */
static void plan(reading *g)
{
    const tci_eip_output_read_params *p = g->req->params;
    const tci_limits *l = &g->req->device->config->limits;
    uint64_t preview = tci_min_u64(l->max_output_preview_bytes, g->info.retained_bytes);
    uint64_t used = RESERVE_BYTES + base64_len(preview);
    uint64_t room = l->max_response_bytes > used ? (l->max_response_bytes - used) / 4 * 3 : 0;
    g->preview_len = (size_t)preview;
    g->page_len = (size_t)tci_min_u64(room, g->info.retained_bytes - p->start_offset);
}

static int fill(reading *g, tc_err *err)
{
    tci_req *r = g->req;
    const tci_eip_output_read_params *p = r->params;
    tci_eip_output_read_result *res = r->result;
    char *bytes = tci_arena_bytes(&r->arena, g->preview_len + g->page_len + 1);
    if (bytes == NULL)
        return tci_arena_error(&r->arena, err);
    char *page = bytes + g->preview_len;
    if (tci_spool_view_read(&g->view, 0, bytes, g->preview_len, &g->preview_len, err) < 0 ||
        tci_spool_view_read(&g->view, p->start_offset, page, g->page_len, &g->page_len, err) < 0)
        return err->code;
    res->start_offset = p->start_offset;
    res->next_offset = p->start_offset + g->page_len;
    res->data.data = tci_str_of(page, g->page_len);
    res->output = (tci_eip_output_info){.reference = p->reference,
                                        .producer_complete = g->info.producer_complete,
                                        .content_complete = g->info.content_complete,
                                        .produced_bytes = g->info.produced_bytes,
                                        .retained_bytes = g->info.retained_bytes,
                                        .preview = {.data = tci_str_of(bytes, g->preview_len)}};
    return tci_req_encode(r, err);
}

static void work(tci_job *job)
{
    reading *g = TCI_CONTAINER(job, reading, job);
    g->rc = fill(g, &g->req->err);
}

static void work_done(tci_job *job)
{
    reading *g = TCI_CONTAINER(job, reading, job);
    tci_spool_view_done(&g->view);
    tci_req_finish(g->req, g->rc, &g->req->err);
}

/* Answer with what is there. Ends the request unless it fails. */
static int answer(reading *g, tc_err *err)
{
    tci_req *r = g->req;
    r->on_stop = NULL;
    tci_timer_stop(&g->timer);
    tci_spool_wait_cancel(&g->wait);
    g->info = tci_spool_info_of(g->output->spool);
    plan(g);
    if (tci_spool_view_init(&g->view, g->output->spool, err) < 0)
        return err->code;
    g->job.work = work;
    g->job.done = work_done;
    if (g->preview_len + g->page_len <= INLINE_BYTES) {
        work(&g->job);
        work_done(&g->job);
    } else {
        tci_job_submit(r->device->loop, TCI_JOB_QUICK, &g->job);
    }
    return 0;
}

static void answer_or_fail(reading *g)
{
    tc_err err;
    tci_req *r = g->req;
    if (answer(g, &err) < 0)
        tci_req_finish(r, err.code, &err);
}

static void on_more(tci_spool_wait *wait, bool was_released)
{
    tc_err err;
    reading *g = TCI_CONTAINER(wait, reading, wait);
    if (!was_released) {
        answer_or_fail(g);
        return;
    }
    tci_timer_stop(&g->timer);
    g->req->on_stop = NULL;
    int rc = tc_err_set(&err, TC_E_BAD_HANDLE, "the output was released");
    tci_req_finish(g->req, rc, &err);
}

static void on_waited(tci_timer *timer)
{
    answer_or_fail(TCI_CONTAINER(timer, reading, timer));
}

static void on_stop(tci_req *r)
{
    tc_err err;
    reading *g = r->state;
    if (!atomic_load(&r->cancel.is_cancelled)) { /* the deadline: what is there is the answer */
        answer_or_fail(g);
        return;
    }
    tci_timer_stop(&g->timer);
    tci_spool_wait_cancel(&g->wait);
    int rc = tc_err_set(&err, TC_E_CANCELLED, "cancelled");
    tci_req_finish(r, rc, &err);
}

static int find(tci_req *r, tc_str reference, tci_output **ret, tc_err *err)
{
    *ret = tci_output_find(r->session, reference);
    if (*ret == NULL)
        return tc_err_set(err, TC_E_BAD_HANDLE, "no output '%.*s'", TC_STR_ARG(reference));
    return 0;
}

int tci_on_output_read(tci_req *r, tc_err *err)
{
    const tci_eip_output_read_params *p = r->params;
    tci_output *o;
    if (find(r, p->reference, &o, err) < 0)
        return err->code;
    tci_spool_info info = tci_spool_info_of(o->spool);
    if (p->start_offset > info.retained_bytes)
        return tci_req_fail(r, err, TC_E_INVALID, TCI_EIP_CAUSE_OUTPUT_OFFSET);
    reading *g = tci_arena_new(&r->arena, reading);
    if (g == NULL)
        return tci_arena_error(&r->arena, err);
    g->req = r;
    g->output = o;
    g->wait.cb = on_more;
    tci_timer_init(&g->timer, r->device->loop, on_waited);
    if (p->start_offset < info.retained_bytes || info.producer_complete || p->wait_ms == 0)
        return answer(g, err);
    int64_t wait_ms =
        (int64_t)tci_min_u64(p->wait_ms, r->device->config->limits.max_operation_duration_ms);
    if (tci_timer_start(&g->timer, wait_ms, err) < 0)
        return err->code;
    r->state = g;
    r->on_stop = on_stop;
    tci_spool_wait_add(o->spool, &g->wait);
    return 0;
}

int tci_on_output_release(tci_req *r, tc_err *err)
{
    const tci_eip_output_release_params *p = r->params;
    tci_eip_output_release_result *res = r->result;
    tci_output *o;
    if (find(r, p->reference, &o, err) < 0)
        return err->code;
    if (o->is_attached || !tci_spool_info_of(o->spool).producer_complete)
        return tc_err_set(err, TC_E_CONFLICT, "the output is still in use");
    if (tci_output_forget(o, err) < 0)
        return err->code;
    res->released = true;
    tci_req_receipt(r, TCI_EIP_RECEIPT_STAGE_COMPLETED, TCI_EIP_RECEIPT_OUTCOME_SUCCEEDED,
                    &res->receipt);
    return 0;
}
