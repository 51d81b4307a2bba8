/* SPDX-License-Identifier: Apache-2.0
 *
 * What a model is told: head markers, edits, order of results, the leading system message; and that
 * growing a context gives what deriving it anew gives. */
#include "run_world.h"

#include "harness/generation/compact.h"
#include <stdio.h>

typedef struct made {
    tci_arena arena;
    tci_entry entries[64];
    size_t n;
} made;

/* An entry with these members besides its id and conversation. */
static void add(made *m, uint64_t id, const char *members)
{
    tc_str text;
    OK(tci_arena_printf(&m->arena, &text, err, "{\"id\":%llu,\"conversationId\":1,%s}",
                        (unsigned long long)id, members));
    OK(tci_entry_parse(text, &m->arena, NULL, &m->entries[m->n++], err));
}

static void user(made *m, uint64_t id, const char *text)
{
    char members[512];
    (void)snprintf(members, sizeof members,
                   "\"kind\":\"pi.user\",\"model\":[{\"role\":\"user\",\"content\":\"%s\"}]", text);
    add(m, id, members);
}

static void assistant(made *m, uint64_t id, const char *content, const char *stop)
{
    char members[1024];
    (void)snprintf(members, sizeof members,
                   "\"kind\":\"pi.assistant\",\"model\":[{\"role\":\"assistant\",\"content\":[%s],"
                   "\"stopReason\":"
                   "\"%s\",\"timestamp\":5}]",
                   content, stop);
    add(m, id, members);
}

static void result(made *m, uint64_t id, const char *call, const char *text)
{
    char members[512];
    (void)snprintf(
        members, sizeof members,
        "\"kind\":\"pi.tool-result\",\"model\":[{\"role\":\"toolResult\",\"toolCallId\":\"%s\","
        "\"toolName\":\"t\",\"content\":\"%s\",\"isError\":false}]",
        call, text);
    add(m, id, members);
}

static void system_entry(made *m, uint64_t id, const char *text)
{
    char members[512];
    (void)snprintf(members, sizeof members,
                   "\"kind\":\"pi.system\",\"model\":[{\"role\":\"system\",\"content\":\"%s\"}]",
                   text);
    add(m, id, members);
}

#define CALL(id) "{\"type\":\"toolCall\",\"id\":\"" id "\",\"name\":\"t\",\"arguments\":{}}"

/* Roles and, shortened, contents of the request: "u:hi a t:out". */
static void check(const tci_context *c, const char *expected)
{
    static const char *const letters[] = {"?", "u", "a", "t", "s"};
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    for (size_t i = 0; i < c->nordered; i++) {
        const tci_message *m = tci_context_message(c, i);
        size_t at = tci_str_find(m->json, TC_STR("\"content\":\""));
        tci_buf_printf(&b, "%s%s", i > 0 ? " " : "", letters[m->role]);
        if (at < m->json.len) {
            tc_str rest = tci_str_sub(m->json, at + 11, m->json.len);
            tci_buf_append_byte(&b, ':');
            tci_buf_append_str(&b, tci_str_sub(rest, 0, tci_str_find_byte(rest, '"')));
        } else if (has_text(m->json, "missing_result")) {
            tci_buf_append_str(&b, TC_STR(":missing"));
        }
    }
    tci_buf_append_byte(&b, '\0');
    assert_string_equal(b.ptr, expected);
    tci_buf_done(&b);
}

/* Derived at once, and grown one entry at a time. */
static void check_both(const made *m, uint64_t head, const char *expected)
{
    tci_context *c;
    OK(tci_context_of(1, head, m->entries, m->n, &c, err));
    check(c, expected);
    tci_context_free(c);
    size_t first = 0;
    while (head != 0 && m->entries[first].id != head)
        first++;
    OK(tci_context_of(1, head, m->entries, first + 1, &c, err));
    for (size_t i = first + 1; i < m->n; i++)
        OK(tci_context_extend(c, &m->entries[i], 1, err));
    check(c, expected);
    tci_context_free(c);
}

static void results_follow_their_calls(void **state)
{
    made m = {.n = 0};
    (void)state;
    tci_arena_init(&m.arena, 0);
    user(&m, 2, "q");
    assistant(&m, 3, CALL("a") "," CALL("b"), "toolUse");
    result(&m, 4, "b", "B");
    user(&m, 5, "steer");
    result(&m, 6, "a", "A");
    result(&m, 7, "zzz", "nobody's");
    assistant(&m, 8, CALL("a"), "toolUse");
    user(&m, 9, "q2");
    check_both(&m, 0, "u:q a t:A t:B u:steer a t:missing u:q2");
    tci_arena_done(&m.arena);
}

static void two_calls_of_one_id_have_a_result_each(void **state)
{
    made m = {.n = 0};
    (void)state;
    tci_arena_init(&m.arena, 0);
    assistant(&m, 3, CALL("a") "," CALL("a") "," CALL("a"), "toolUse");
    result(&m, 4, "a", "1");
    result(&m, 5, "a", "2");
    check_both(&m, 0, "a t:1 t:2 t:missing");
    tci_arena_done(&m.arena);
}

static void unfinished_answers_are_left_out(void **state)
{
    made m = {.n = 0};
    (void)state;
    tci_arena_init(&m.arena, 0);
    user(&m, 2, "q");
    assistant(&m, 3, CALL("a"), "aborted");
    assistant(&m, 4, "", "error");
    assistant(&m, 5, "", "deferred");
    assistant(&m, 6, "", "stop");
    result(&m, 7, "a", "lost");
    check_both(&m, 0, "u:q a");
    tci_arena_done(&m.arena);
}

static void first_system_message_leads(void **state)
{
    made m = {.n = 0};
    (void)state;
    tci_arena_init(&m.arena, 0);
    user(&m, 2, "q");
    system_entry(&m, 3, "S");
    assistant(&m, 4, "", "stop");
    system_entry(&m, 5, "later");
    check_both(&m, 0, "s:S u:q a s:later");
    tci_arena_done(&m.arena);
}

static void baseline_leads_over_kept_answers(void **state)
{
    made m = {.n = 0};
    (void)state;
    tci_arena_init(&m.arena, 0);
    assistant(&m, 4, "", "stop"); /* kept */
    user(&m, 5, "kept");
    add(&m, 6,
        "\"kind\":\"pi.compaction\",\"head\":4,\"model\":[{\"role\":\"user\",\"content\":\"sum\"}"
        "]");
    system_entry(&m, 7, "base");
    user(&m, 8, "new");
    check_both(&m, 6, "s:base u:sum a u:kept u:new");
    tci_arena_done(&m.arena);
}

static void other_system_messages_stay(void **state)
{
    made m = {.n = 0};
    (void)state;
    tci_arena_init(&m.arena, 0);
    add(&m, 2,
        "\"kind\":\"app.x\",\"model\":[{\"role\":\"assistant\",\"content\":[],\"stopReason\":"
        "\"stop\"},"
        "{\"role\":\"system\",\"content\":\"X\"}]");
    system_entry(&m, 3, "S");
    check_both(&m, 0, "a s:X s:S");
    tci_arena_done(&m.arena);
}

static void edits_omit_and_replace_and_the_newest_wins(void **state)
{
    made m = {.n = 0};
    (void)state;
    tci_arena_init(&m.arena, 0);
    user(&m, 2, "one");
    user(&m, 3, "two");
    user(&m, 4, "three");
    add(&m, 5,
        "\"kind\":\"app.e\",\"edits\":[{\"target\":2,\"action\":\"omit\"},{\"target\":3,\"action\":"
        "\"replace\",\"messages\":[{\"role\":\"user\",\"content\":\"TWO\"}]}]");
    check_both(&m, 0, "u:TWO u:three");
    add(&m, 6,
        "\"kind\":\"app.e\",\"edits\":[{\"target\":3,\"action\":\"omit\"},{\"target\":2,\"action\":"
        "\"replace\",\"messages\":[{\"role\":\"user\",\"content\":\"ONE\"}]}]");
    check_both(&m, 0, "u:ONE u:three");
    tci_arena_done(&m.arena);
}

static void edits_of_older_head_markers_count(void **state)
{
    made m = {.n = 0};
    (void)state;
    tci_arena_init(&m.arena, 0);
    user(&m, 4, "kept");
    add(&m, 5,
        "\"kind\":\"app.h\",\"head\":4,\"model\":[{\"role\":\"user\",\"content\":\"old "
        "head\"}],\"edits\":["
        "{\"target\":4,\"action\":\"omit\"}]");
    add(&m, 6,
        "\"kind\":\"app.h\",\"head\":4,\"model\":[{\"role\":\"user\",\"content\":\"head\"}]");
    user(&m, 7, "new");
    check_both(&m, 6, "u:head u:new");
    tci_arena_done(&m.arena);
}

static void a_cut_never_parts_a_call_from_its_result(void **state)
{
    made m = {.n = 0};
    tci_context *c;
    (void)state;
    tci_arena_init(&m.arena, 0);
    user(&m, 2, "q");
    assistant(&m, 3, CALL("a"), "toolUse");
    user(&m, 4, "steer");
    result(&m, 5, "a", "a long result that is worth keeping");
    user(&m, 6, "next");
    OK(tci_context_of(1, 0, m.entries, m.n, &c, err));
    assert_int_equal(c->entries[c->active[tci_select_cut(c, 2)]].id, 6); /* next */
    assert_int_equal(c->entries[c->active[tci_select_cut(c, 3)]].id, 6); /* not the result */
    assert_int_equal(c->entries[c->active[tci_select_cut(c, 13)]].id,
                     6); /* nor before its result */
    assert_int_equal(c->entries[c->active[tci_select_cut(c, 15)]].id, 3); /* with its call */
    assert_true(tci_select_cut(c, 1000) == TCI_NO_CUT);
    tci_context_free(c);
    tci_arena_done(&m.arena);
}

static void odd_text_is_read_as_it_is(void **state)
{
    made m = {.n = 0};
    tci_context *c;
    tc_result *r;
    tci_texts *texts;
    const tc_message *messages;
    size_t n;
    (void)state;
    tci_arena_init(&m.arena, 0);
    OK(tc_result_new(&r, err));
    add(&m, 2,
        " \"kind\" : \"pi.user\" , \"model\" : [ {\"\\u0072ole\":\"user\",\"role\":\"user\" , "
        "\"content\" : "
        "\"a\\\\\\\"b]}\" , \"n\" : 9007199254740993 } ] ");
    OK(tci_context_of(1, 0, m.entries, m.n, &c, err));
    assert_int_equal(c->nordered, 1);
    assert_int_equal(tci_context_message(c, 0)->role, TC_ROLE_USER);
    OK(tci_context_messages(c, r, &messages, &n, &texts, err));
    tci_context_free(c); /* the texts outlive it */
    assert_int_equal(n, 1);
    assert_int_equal(messages[0].role, TC_ROLE_USER);
    assert_true(has_text(messages[0].json, "9007199254740993"));
    tci_texts_unref(texts);
    tc_result_free(r);
    tci_arena_done(&m.arena);
}

/* Each contribution is an array, as it stands in the record where that is one already; the result alone
 * keeps the texts alive. */
static void hosts_see_texts_that_outlive_the_context(void **state)
{
#define U(text) "{\"role\":\"user\",\"content\":\"" text "\"}"
#define ABORTED "{\"role\":\"assistant\",\"content\":[],\"stopReason\":\"aborted\"}"
    static const struct {
        const char *members, *contribution;
    } all[] = {
        {"\"model\":[" U("a") "]", "[" U("a") "]"},
        {"\"model\":[" U("b") "," U("]") "],\"x\":1", "[" U("b") "," U("]") "]"},
        {"\"model\": [ " U("c") " , " U("d") " ] ", "[" U("c") "," U("d") "]"},
        {"\"model\":[" ABORTED "," U("e") "]", "[" U("e") "]"},
        {"\"model\":[" U("f") "," ABORTED "]", "[" U("f") "]"},
        {"\"model\":[" ABORTED "]", "[]"},
        {"\"model\":[]", "[]"},
        {"\"model\":[1," U("g") "]", "[" U("g") "]"},
        {"\"x\":2", "[]"},
        {"\"model\":[" U("old") "]", "[" U("new") "," U("er") "]"},
        {"\"edits\":[{\"target\":11,\"action\":\"replace\",\"messages\":[" U("new") "," U(
             "er") "]}]",
         "[]"},
    };
    enum { N = sizeof all / sizeof all[0] };
    made m = {.n = 0};
    tci_context *c;
    tc_result *r;
    tc_context_view view;
    (void)state;
    tci_arena_init(&m.arena, 0);
    OK(tc_result_new(&r, err));
    OK(tci_context_of(1, 0, NULL, 0, &c, err));
    for (size_t i = 0; i < N; i++) {
        char members[512];
        (void)snprintf(members, sizeof members, "\"kind\":\"k\",%s", all[i].members);
        add(&m, i + 2, members);
        tci_entry e = m.entries[i];
        OK(tci_arena_dup(&c->texts->arena, e.json, &e.json, err));
        OK(tci_arena_dup(&c->texts->arena, e.kind, &e.kind, err));
        OK(tci_context_add(c, &e, 1, err));
    }
    OK(tci_context_settle(c, err));
    OK(tci_context_view(c, r, &view, err));
    tci_context_free(c);
    assert_int_equal(view.nentries, N);
    assert_int_equal(view.nmessages, 10);
    for (size_t i = 0; i < N; i++) {
        assert_true(tci_str_eq(view.entries[i], m.entries[i].json));
        if (!tci_str_eq(view.contributions[i], tci_str(all[i].contribution)))
            fail_msg("%zu: %.*s", i, TC_STR_ARG(view.contributions[i]));
    }
    assert_true(tci_str_eq(view.messages[9], TC_STR(U("er"))));
    tc_result_free(r);
    tci_arena_done(&m.arena);
#undef U
#undef ABORTED
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_follow_their_calls),
        cmocka_unit_test(two_calls_of_one_id_have_a_result_each),
        cmocka_unit_test(unfinished_answers_are_left_out),
        cmocka_unit_test(first_system_message_leads),
        cmocka_unit_test(baseline_leads_over_kept_answers),
        cmocka_unit_test(other_system_messages_stay),
        cmocka_unit_test(edits_omit_and_replace_and_the_newest_wins),
        cmocka_unit_test(edits_of_older_head_markers_count),
        cmocka_unit_test(a_cut_never_parts_a_call_from_its_result),
        cmocka_unit_test(odd_text_is_read_as_it_is),
        cmocka_unit_test(hosts_see_texts_that_outlive_the_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
