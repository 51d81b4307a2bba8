/* SPDX-License-Identifier: Apache-2.0
 *
 * Following output against a scripted daemon: everything once, and no stream may take back what it said. */
#include "tests.h"

typedef struct page {
    const char *data; /* base64 */
    unsigned start, next, produced, retained;
    bool producer_complete, content_complete;
    const char *preview; /* base64 */
} page;

typedef struct script {
    page pages[4];
    unsigned npages;
    bool is_good;
} script;

static void give_page(peer *p, const page *g)
{
    peer_result(p, peer_format(p,
                               "{\"data\":{\"data\":\"%s\",\"encoding\":\"base64\"},"
                               "\"next_offset\":%u,\"output\":{\"content_complete\":%s,"
                               "\"preview\":{\"data\":\"%s\",\"encoding\":\"base64\"},"
                               "\"produced_bytes\":%u,\"producer_complete\":%s,"
                               "\"reference\":\"output-1\",\"retained_bytes\":%u},"
                               "\"start_offset\":%u}",
                               g->data, g->next, g->content_complete ? "true" : "false", g->preview,
                               g->produced, g->producer_complete ? "true" : "false", g->retained,
                               g->start));
}

static void play_pages(peer *p)
{
    const script *s = p->arg;
    bool is_data;
    if (!peer_session(p))
        return;
    for (unsigned i = 0; i < s->npages; i++) {
        if (!peer_expect(p, "output.read"))
            return;
        give_page(p, &s->pages[i]);
    }
    while (peer_next(p, &is_data))
        if (!is_data && strcmp(p->method, "session.close") == 0)
            peer_result(p, "{\"closed\":true}");
}

static int keep(void *user, const void *bytes, size_t len, tc_err *err)
{
    TCI_UNUSED(err);
    tci_buf_append(user, bytes, len);
    return 0;
}

/* "YWJj" is abc, "ZGU" is de, "YWI" is ab, "eHg" is xx. */
static const script good = {
    .pages = {{"YWJj", 0, 3, 3, 3, false, false, "YWI"},
              {"", 3, 3, 3, 3, false, false, "YWI"},
              {"ZGU", 3, 5, 6, 5, true, false, "YWJj"}},
    .npages = 3,
    .is_good = true,
};

static const script bad[] = {
    {.pages = {{"YWJj", 1, 4, 9, 9, false, false, ""}}, .npages = 1},
    {.pages = {{"YWJj", 0, 4, 9, 9, false, false, ""}}, .npages = 1},
    {.pages = {{"YWJj", 0, 3, 2, 2, false, false, ""}}, .npages = 1},
    {.pages = {{"YWJj", 0, 3, 9, 2, false, false, ""}}, .npages = 1},
    {.pages = {{"", 0, 0, 3, 3, false, false, ""}}, .npages = 1},
    {.pages = {{"YWJj", 0, 3, 3, 3, false, true, ""}}, .npages = 1},
    {.pages = {{"YWJj", 0, 3, 9, 4, true, true, ""}}, .npages = 1},
    {.pages = {{"YWJj", 0, 3, 9, 9, false, false, ""}, {"ZGU", 3, 5, 8, 8, false, false, ""}},
     .npages = 2},
    {.pages = {{"YWJj", 0, 3, 9, 9, true, false, ""}, {"ZGU", 3, 5, 9, 9, false, false, ""}},
     .npages = 2},
    {.pages = {{"YWJj", 0, 3, 9, 9, true, false, ""}, {"ZGU", 3, 5, 10, 10, true, false, ""}},
     .npages = 2},
    {.pages = {{"YWJj", 0, 3, 9, 9, false, false, "YWI"}, {"ZGU", 3, 5, 9, 9, false, false, "eHg"}},
     .npages = 2},
};

static int follow(const script *s, rig *g, tci_buf *out, tc_output *ret)
{
    rig_open(g, play_pages, (void *)(uintptr_t)s); /* only read */
    tc_call call = rig_call(g);
    return tc_session_output_follow(g->session, &call, TC_STR("output-1"), 0, keep, out, ret,
                                    &g->err);
}

static void output_is_followed_to_its_end(void **state)
{
    TCI_UNUSED(state);
    rig g = {0};
    tci_buf out;
    tc_output last;
    tci_buf_init(&out, 1000);
    assert_ok(&g, follow(&good, &g, &out, &last));
    assert_true(tci_str_eq(tci_buf_str(&out), TC_STR("abcde")));
    assert_true(last.produced_bytes == 6 && last.retained_bytes == 5);
    assert_true(tci_str_eq(last.preview, TC_STR("abc")));
    tci_buf_done(&out);
    rig_close(&g);
}

static void output_that_contradicts_itself_ends_the_session(void **state)
{
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(bad); i++) {
        rig g = {0};
        tci_buf out;
        tci_buf_init(&out, 1000);
        int rc = follow(&bad[i], &g, &out, NULL);
        if (rc != TC_E_PROTOCOL)
            fail_msg("script %u: %s", (unsigned)i, tc_code_name(rc));
        assert_false(tc_session_is_alive(g.session));
        tci_buf_done(&out);
        rig_close(&g);
    }
}

const struct CMUnitTest output_tests[] = {
    cmocka_unit_test(output_is_followed_to_its_end),
    cmocka_unit_test(output_that_contradicts_itself_ends_the_session),
};
const size_t noutput_tests = TCI_ARRAY_LEN(output_tests);
