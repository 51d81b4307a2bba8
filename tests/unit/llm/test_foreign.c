/* SPDX-License-Identifier: Apache-2.0
 *
 * Whatever answers instead of a model's server: told as what it is, in valid text, and not asked again. */
#include "ask.h"
#include "base/utf8.h"
#include "llm/llm.h"

static const char *const providers[] = {"openai", "anthropic"};

static tc_str error_of(const asked *a)
{
    tc_str s = {NULL, 0};
    assert_true(tc_json_as_str(tc_json_find(a->v, "/errorMessage"), &s));
    assert_at(a, "/stopReason", "error");
    assert_true(tci_utf8_is_valid(s));
    return s;
}

static void check_foreign(const char *headers, const char *body, const char *const *parts, size_t n)
{
    for (size_t i = 0; i < 2; i++) {
        stub_reply reply = {.headers = headers, .body = body};
        asked a = ask(&(question){
            .provider = providers[i], .replies = &reply, .nreplies = 1, .max_retries = 3});
        tc_str why = error_of(&a);
        if (!tci_str_starts(why, TC_STR("not an answer of a model API")) ||
            !contains(why, "--base-url") || !contains(why, model_stub_url(a.stub)))
            fail_msg("%.*s", TC_STR_ARG(why));
        for (size_t k = 0; k < n; k++) {
            if (!contains(why, parts[k]))
                fail_msg("no '%s' in: %.*s", parts[k], TC_STR_ARG(why));
        }
        assert_false(tci_llm_is_retryable(why));
        assert_false(tci_llm_is_overflow(why));
        assert_int_equal(model_stub_count(a.stub), 1);
        asked_done(&a);
    }
}

#define CHECK(headers, body, ...)                                    \
    check_foreign(headers, body, (const char *const[]){__VA_ARGS__}, \
                  sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static void a_page_is_no_answer(void **state)
{
    (void)state;
    CHECK(
        "Content-Type: text/html; charset=utf-8\r\n",
        "<!DOCTYPE html>\n  <title>502: please retry your request</title>\n<p>\x1b[31mred\xff</p>",
        "status 200", "content type 'text/html; charset=utf-8'",
        "beginning with '<!DOCTYPE html> <title>502");
    CHECK("Content-Type: text/html\r\n", "\x1b]0;x\x07\xff<p>prompt is too long",
          "'?]0;x?\xef\xbf\xbd<p>");
    CHECK("Content-Type: text/plain\r\n", "It works!\n", "'text/plain'", "'It works!'");
    /* Says to be a stream, and is none. */
    CHECK(NULL, "<html>\n\n</html>\n\n", "'text/event-stream'", "'<html> </html>'");
}

static void json_that_is_no_stream_is_no_answer(void **state)
{
    (void)state;
    CHECK("Content-Type: application/json\r\n",
          "{\"choices\":[{\"message\":{\"content\":\"Hello\"},\"finish_reason\":\"stop\"}]}",
          "'application/json'", "'{\"choices\":[{");
    CHECK("Content-Type: application/json\r\n", "[1,", "'[1,'");
    CHECK("Content-Type: application/json\r\n", "", "empty");
}

static void a_refusal_stays_one(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        stub_reply reply = {.headers = "Content-Type: application/json\r\n",
                            .body = "{\"error\":{\"message\":\"no such model\"}}"};
        asked a = ask(&(question){.provider = providers[i], .replies = &reply, .nreplies = 1});
        assert_true(contains(error_of(&a), "no such model"));
        assert_false(contains(error_of(&a), "--base-url"));
        asked_done(&a);
        /* A stream that ends before its first event is one that was cut. */
        reply = (stub_reply){.body = ": waiting\n\n"};
        asked b = ask(&(question){.provider = providers[i], .replies = &reply, .nreplies = 1});
        assert_true(contains(error_of(&b), "ended without"));
        assert_true(tci_llm_is_retryable(error_of(&b)));
        asked_done(&b);
    }
}

/* An error's text is cut at some length, and may be of any bytes. */
static void what_servers_say_becomes_valid_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char body[4000] = "{\"error\":{\"message\":\"x";
        while (strlen(body) < 3000)
            (void)snprintf(body + strlen(body), sizeof body - strlen(body), "\xe2\x82\xac");
        (void)snprintf(body + strlen(body), sizeof body - strlen(body), "\"}}");
        stub_reply reply = {.status = 400, .body = body};
        asked a = ask(&(question){.provider = providers[i], .replies = &reply, .nreplies = 1});
        assert_true(contains(error_of(&a), "\xe2\x82\xac\xe2\x82\xac"));
        asked_done(&a);
        reply = (stub_reply){.status = 400, .body = "caf\xe9 \xff\xfe"};
        asked b = ask(&(question){.provider = providers[i], .replies = &reply, .nreplies = 1});
        assert_true(contains(error_of(&b), "caf\xef\xbf\xbd"));
        asked_done(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_is_no_answer),
        cmocka_unit_test(json_that_is_no_stream_is_no_answer),
        cmocka_unit_test(a_refusal_stays_one),
        cmocka_unit_test(what_servers_say_becomes_valid_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
