/* SPDX-License-Identifier: Apache-2.0
 *
 * The small parts: what an error text means, arguments as models write them, what is known of models. */
#include "llm/llm_int.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void errors_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_retryable, is_overflow;
    } cases[] = {
        {"503: overloaded", true, false},
        {"429: Rate limit reached", true, false},
        {"connection error: Couldn't connect to server", true, false},
        {"the stream ended without a finish reason", true, false},
        {"400: no such thing", false, false},
        {"401: Incorrect API key provided", false, false},
        {"429: You exceeded your quota: insufficient_quota", false, false},
        {"429: billing hard limit has been reached", false, false},
        {"400: prompt is too long: 210000 tokens > 200000 maximum", false, true},
        {"400: This model's maximum context length is 128000 tokens.", false, true},
        {"400: context_length_exceeded", false, true},
        {"429: rate limit: too many tokens per minute", true, false},
        {"429: the server asks for a wait of 5000 s, more than 60 s", false, false},
        {"", false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool retry = tci_llm_is_retryable(tci_str(cases[i].text));
        bool overflow = tci_llm_is_overflow(tci_str(cases[i].text));
        if (retry != cases[i].is_retryable || overflow != cases[i].is_overflow)
            print_error("'%s': retryable %d, overflow %d\n", cases[i].text, retry, overflow);
        assert_int_equal(retry, cases[i].is_retryable);
        assert_int_equal(overflow, cases[i].is_overflow);
    }
}

static void arguments_are_repaired_but_never_completed(void **state)
{
    (void)state;
    static const struct {
        const char *text, *expected;
        bool is_bad;
    } cases[] = {
        {"", "{}", false},
        {" {\"a\":1} ", "{\"a\":1}", false},
        {"{\"a\":\"x\ny\"}", "{\"a\":\"x\\u000ay\"}", false},
        {"{\"re\":\"\\d+\"}", "{\"re\":\"\\\\d+\"}", false},
        {"{\"a\":\"\\u12\"}", "{\"a\":\"\\\\u12\"}", false},
        {"{\"a\":\"half", "{}", true},
        {"[1]", "{}", true},
        {"{\"a\":1}{", "{}", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tci_buf b;
        bool is_bad;
        tci_buf_init(&b, TCI_BUF_MAX);
        tci_arguments_put(&b, tci_str(cases[i].text), &is_bad);
        assert_int_equal(is_bad, cases[i].is_bad);
        assert_true(tci_str_eq(tci_buf_str(&b), tci_str(cases[i].expected)));
        tci_buf_done(&b);
    }
}

static void dated_names_find_their_family(void **state)
{
    (void)state;
    tc_model m;
    assert_true(tci_catalogue_find(TC_STR("anthropic"), TC_STR("claude-opus-4-5-20251101"), &m));
    assert_true(m.cost_input < 6);
    assert_true(tci_catalogue_find(TC_STR("openai"), TC_STR("gpt-4o-mini-2024-07-18"), &m));
    assert_true(m.cost_input < 1);
    assert_false(tci_catalogue_find(TC_STR("openai"), TC_STR("llama"), &m));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_told_apart),
        cmocka_unit_test(arguments_are_repaired_but_never_completed),
        cmocka_unit_test(dated_names_find_their_family),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
