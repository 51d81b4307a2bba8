/* SPDX-License-Identifier: Apache-2.0
 *
 * Output of commands: pages, and following a stream to its end. The caller's thread. Invariant: no
 * byte is delivered twice or left out, and what a stream said of itself before is never taken back. */
#include "client/session_int.h"

enum { FOLLOW_WAIT_MS = 20000, FOLLOW_DEADLINE_MS = 30000 };

/* ---- one page ---- */

static const char *page_fault(const tci_eip_output_read_params *asked,
                              const tci_eip_output_read_result *got)
{
    const tci_eip_output_info *o = &got->output;
    if (got->start_offset != asked->start_offset || !tci_str_eq(o->reference, asked->reference))
        return "another piece of output than asked for";
    if (got->next_offset != got->start_offset + got->data.data.len)
        return "a gap in output";
    if (got->next_offset > o->retained_bytes || o->retained_bytes > o->produced_bytes)
        return "output beyond what it retains";
    if (o->content_complete && (!o->producer_complete || o->retained_bytes != o->produced_bytes))
        return "output called complete that is not";
    /* An empty page before the end of what is there would never end. */
    if (got->data.data.len == 0 && got->start_offset < o->retained_bytes)
        return "an empty page before the end of output";
    return NULL;
}

int tc_session_output_read(tc_session *s, const tc_call *call, tc_str reference,
                           uint64_t start_offset, uint64_t wait_ms, tc_output_page *ret_page,
                           tc_err *err)
{
    tci_eip_output_read_params params = {
        .reference = reference,
        .start_offset = start_offset,
        .wait_ms = wait_ms,
    };
    tci_eip_output_read_result res = {0};
    int rc = tci_session_ask(s, call, TCI_EIP_OUTPUT_READ, &params, &res, err);
    if (rc < 0)
        return rc;
    const char *fault = page_fault(&params, &res);
    if (fault != NULL)
        return tci_session_violation(s, err, fault);
    *ret_page = (tc_output_page){
        .start_offset = res.start_offset,
        .next_offset = res.next_offset,
        .data = res.data.data,
        .is_end = res.output.producer_complete && res.next_offset == res.output.retained_bytes,
    };
    tci_to_output(&res.output, &ret_page->output);
    return 0;
}

/* ---- a whole stream ---- */

/* What the stream said before; the preview is copied since pages come and go. */
typedef struct memory {
    bool is_set;
    tc_output output;
    tci_buf preview;
} memory;

static const char *growth_fault(const memory *m, const tc_output *now)
{
    if (!m->is_set)
        return NULL;
    const tc_output *was = &m->output;
    if (now->produced_bytes < was->produced_bytes || now->retained_bytes < was->retained_bytes ||
        (was->is_producer_complete && !now->is_producer_complete) ||
        (was->is_content_complete && !now->is_content_complete))
        return "output that shrank";
    if (was->is_producer_complete && now->produced_bytes != was->produced_bytes)
        return "output that grew after its end";
    if (!tci_str_starts(now->preview, tci_buf_str(&m->preview)))
        return "a preview that changed";
    return NULL;
}

static int remember(memory *m, const tc_output *now, tc_err *err)
{
    m->is_set = true;
    m->output = *now;
    if (now->preview.len > m->preview.len)
        tci_buf_append(&m->preview, now->preview.ptr + m->preview.len,
                       now->preview.len - m->preview.len);
    return tci_buf_error(&m->preview, err);
}

static int follow(tc_session *s, const tc_call *call, tc_str reference, uint64_t offset,
                  tc_sink sink, void *user, tc_result *page_result, memory *m, tc_err *err)
{
    for (;;) {
        tc_output_page page;
        tc_call one = TC_CALL(call->ctx, page_result);
        one.timeout_ms = FOLLOW_DEADLINE_MS;
        int rc = tc_session_output_read(s, &one, reference, offset, FOLLOW_WAIT_MS, &page, err);
        if (rc < 0)
            return rc;
        const char *fault = growth_fault(m, &page.output);
        if (fault != NULL)
            return tci_session_violation(s, err, fault);
        rc = remember(m, &page.output, err);
        if (rc == 0 && page.data.len > 0)
            rc = sink(user, page.data.ptr, page.data.len, err);
        if (rc < 0)
            return rc;
        offset = page.next_offset;
        if (page.is_end)
            return 0;
        tc_result_clear(page_result);
    }
}

int tc_session_output_follow(tc_session *s, const tc_call *call, tc_str reference,
                             uint64_t start_offset, tc_sink sink, void *user,
                             tc_output *ret_output, tc_err *err)
{
    int rc = tci_call_check(call, err);
    if (rc < 0)
        return rc;
    tc_result *page_result = NULL;
    memory m = {.is_set = false};
    tci_buf_init(&m.preview, TCI_BUF_MAX);
    rc = tc_result_new(&page_result, err);
    if (rc == 0)
        rc = follow(s, call, reference, start_offset, sink, user, page_result, &m, err);
    if (rc == 0 && ret_output != NULL) {
        *ret_output = m.output;
        rc = tc_result_dup(call->result, m.output.reference, &ret_output->reference, err);
        if (rc == 0)
            rc = tc_result_dup(call->result, tci_buf_str(&m.preview), &ret_output->preview, err);
    }
    tci_buf_done(&m.preview);
    tc_result_free(page_result);
    return rc;
}

int tc_session_output_release(tc_session *s, const tc_call *call, tc_str reference, tc_err *err)
{
    tci_eip_output_release_params params = {.reference = reference};
    tci_eip_output_release_result res = {0};
    return tci_session_ask(s, call, TCI_EIP_OUTPUT_RELEASE, &params, &res, err);
}
