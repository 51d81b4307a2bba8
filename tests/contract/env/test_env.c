/* SPDX-License-Identifier: Apache-2.0
 *
 * Life of adapters, and the operations on files beyond the ExecutionEnv interface, over every
 * provider. */
#include "fixture.h"

/* ---- life ---- */

static void a_machine_is_never_created(void **state)
{
    fixture *f = *state;
    tc_env *env = NULL;
    /* Everything else is wrong too: this is refused first. */
    tc_env_options o = {.size = sizeof o, .allow_create = true, .state = TC_STR("nonsense")};
    assert_code(f, TC_E_UNSUPPORTED, make_env_with(f, &o, &env));
    assert_null(env);
}

static void an_adapter_needs_its_own_name_and_an_absolute_folder(void **state)
{
    fixture *f = *state;
    tc_env *env = NULL;
    tc_env_options o = env_options(TC_STR("relative"));
    assert_code(f, TC_E_INVALID, make_env_with(f, &o, &env));
    o = env_options(text(f->root));
    o.environment_id = (tc_str){0};
    assert_code(f, TC_E_INVALID, make_env_with(f, &o, &env));
}

static void nothing_works_before_ready(void **state)
{
    fixture *f = *state;
    not_if(f, is_lazy);
    tc_env *env = NULL;
    tc_call call = plain_call(f);
    tc_env_options o = env_options(text(f->root));
    assert_ok(f, make_env_with(f, &o, &env));
    assert_code(f, TC_E_NOT_READY,
                tc_env_write_text(env, &call, TC_STR("x"), TC_STR("y"), NULL, NULL, &f->err));
    assert_int_equal(tc_result_evidence(f->r)->outcome, TC_OUTCOME_NOT_STARTED);
    assert_false(tc_env_is_ready(env));
    tc_env_release(env);
}

static void state_round_trip_finds_the_same_device(void **state)
{
    fixture *f = *state;
    not_if(f, is_pi);
    tc_str saved, again;
    tc_env *env = make_env(f, text(f->root));
    assert_ok(f, tc_env_state(env, f->r, &saved, &f->err));
    assert_int_equal(saved.ptr[0], '{');
    /* Only the device's name, and nothing of how it was reached. */
    assert_true(tci_str_find(saved, text("credential")) == saved.len);
    assert_true(tci_str_find(saved, text("127.0.0.1")) == saved.len);
    assert_true(tci_str_find(saved, tc_env_session_id(env)) == saved.len);
    tc_env_options o = env_options(text(f->root));
    o.state = saved;
    tc_env *second = NULL;
    assert_ok(f, make_env_with(f, &o, &second));
    assert_ok(f, tc_env_ready(second, NULL, &f->err));
    assert_ok(f, tc_env_state(second, f->r, &again, &f->err));
    assert_true(tci_str_eq(saved, again));
    tc_env_release(env);
    tc_env_release(second);
}

static void foreign_state_is_refused(void **state)
{
    fixture *f = *state;
    not_if(f, is_pi);
    tc_env *env = NULL;
    tc_env_options o = env_options(text(f->root));
    o.state = TC_STR("{\"provider_key\":\"other_envd\",\"state_version\":\"1\","
                     "\"state\":{\"device_id\":\"d\"}}");
    assert_code(f, TC_E_INCOMPATIBLE, make_env_with(f, &o, &env));
    o.state = TC_STR("{\"provider_key\":\"x\",\"state_version\":\"1\","
                     "\"state\":{\"device_id\":\"d\",\"token\":\"secret\"}}");
    assert_code(f, TC_E_INVALID, make_env_with(f, &o, &env));
}

static void another_boundary_makes_it_dead(void **state)
{
    fixture *f = *state;
    not_if(f, is_pi);
    tc_env *env = NULL;
    tc_call call = plain_call(f);
    tc_expected_boundary want = {.is_restricted = true};
    tc_env_options o = env_options(text(f->root));
    bool exists;
    o.expected_boundary = &want;
    assert_ok(f, make_env_with(f, &o, &env));
    assert_code(f, TC_E_INCOMPATIBLE, tc_env_ready(env, NULL, &f->err));
    assert_code(f, TC_E_NOT_READY, tc_env_ready(env, NULL, &f->err));
    assert_code(f, TC_E_NOT_READY, tc_env_exists(env, &call, TC_STR("x"), &exists, &f->err));
    tc_env_release(env);
    /* The right one is fine. */
    want = (tc_expected_boundary){.egress = TC_EGRESS_INHERIT};
    assert_ok(f, make_env_with(f, &o, &env));
    assert_ok(f, tc_env_ready(env, NULL, &f->err));
    assert_int_equal(tc_env_boundary(env)->egress, TC_EGRESS_INHERIT);
    tc_env_release(env);
}

static void adapters_share_a_device_and_close_only_their_session(void **state)
{
    fixture *f = *state;
    not_if(f, is_pi);
    tc_call call = plain_call(f);
    tc_text_page page;
    tc_str dir = folder(f, "shared");
    tc_env *one = make_env(f, dir), *two = make_env(f, dir);
    assert_true(tc_env_generation(one) == tc_env_generation(two));
    assert_false(tci_str_eq(tc_env_session_id(one), tc_env_session_id(two)));
    assert_true(tci_str_eq(tc_env_files_id(one), tc_env_files_id(two)));
    assert_ok(f,
              tc_env_write_text(one, &call, TC_STR("note"), TC_STR("kept"), NULL, NULL, &f->err));
    assert_ok(f, tc_env_close(one, NULL, &f->err));
    assert_ok(f, tc_env_close(one, NULL, &f->err)); /* once more is fine */
    assert_code(f, TC_E_CLOSED,
                tc_env_write_text(one, &call, TC_STR("x"), TC_STR("y"), NULL, NULL, &f->err));
    assert_ok(f, tc_env_read_text(two, &call, TC_STR("note"), NULL, &page, &f->err));
    assert_text(page.text, "kept");
    tc_env_release(one);
    tc_env_release(two);
    /* The generation outlives all adapters. */
    tc_env *three = make_env(f, dir);
    assert_true(tc_env_generation(three) != 0);
    assert_ok(f, tc_env_read_text(three, &call, TC_STR("note"), NULL, &page, &f->err));
    tc_env_release(three);
}

/* ---- files ---- */

static void files_are_written_read_and_told_about(void **state)
{
    fixture *f = *state;
    tc_call call = plain_call(f);
    tc_env *env = make_env(f, folder(f, "files"));
    tc_file_info info;
    tc_text_page page;
    bool exists = true;
    assert_ok(f, tc_env_exists(env, &call, TC_STR("a.txt"), &exists, &f->err));
    assert_false(exists);
    tc_write_options w = {.size = sizeof w, .mode = TC_WRITE_CREATE, .executable = TC_YES};
    assert_ok(f, tc_env_write_text(env, &call, TC_STR("./sub/../a.txt"), TC_STR("one\ntwo\nthree"),
                                   &w, &info, &f->err));
    assert_true(info.has_size && info.size_bytes == 13 && info.is_executable);
    assert_int_equal(tc_result_evidence(f->r)->outcome, TC_OUTCOME_DONE);
    assert_code(f, TC_E_CONFLICT,
                tc_env_write_text(env, &call, TC_STR("a.txt"), TC_STR("x"), &w, NULL, &f->err));
    assert_ok(f, tc_env_stat(env, &call, TC_STR("a.txt"), true, &info, &f->err));
    assert_int_equal(info.kind, TC_FILE_REGULAR);
    assert_true(info.modified_at.is_known && info.modified_at.sec > 0);
    tc_read_text_options ro = {.size = sizeof ro, .line_offset = 1, .line_limit = 1};
    assert_ok(f, tc_env_read_text(env, &call, TC_STR("a.txt"), &ro, &page, &f->err));
    assert_text(page.text, "two\n");
    assert_true(page.has_more && page.lines_read == 1);
    w = (tc_write_options){.size = sizeof w, .mode = TC_WRITE_APPEND};
    assert_ok(f,
              tc_env_write_text(env, &call, TC_STR("a.txt"), TC_STR("\nfour"), &w, NULL, &f->err));
    assert_ok(f, tc_env_read_text(env, &call, TC_STR("a.txt"), NULL, &page, &f->err));
    assert_text(page.text, "one\ntwo\nthree\nfour");
    assert_code(f, TC_E_NOT_FOUND, tc_env_stat(env, &call, TC_STR("no"), true, &info, &f->err));
    assert_text(tc_result_evidence(f->r)->error_type,
                f->p->is_pi ? "ENOENT" : "not_found_or_denied");
    tc_env_release(env);
}

static void folders_are_listed_found_and_searched(void **state)
{
    fixture *f = *state;
    tc_call call = plain_call(f);
    tc_env *env = make_env(f, folder(f, "tree"));
    tc_file_page page;
    tc_search_page found;
    assert_ok(f, tc_env_mkdir(env, &call, TC_STR("src/deep"), true, false, &f->err));
    assert_ok(f, tc_env_write_text(env, &call, TC_STR("src/a.c"), TC_STR("int needle;\n"), NULL,
                                   NULL, &f->err));
    assert_ok(f, tc_env_write_text(env, &call, TC_STR("src/deep/b.c"), TC_STR("x\nNeedle here\n"),
                                   NULL, NULL, &f->err));
    assert_ok(f, tc_env_write_text(env, &call, TC_STR("src/.hidden"), TC_STR("needle"), NULL, NULL,
                                   &f->err));
    tc_list_options lo = {.size = sizeof lo, .max_results = 1, .include_hidden = true};
    assert_ok(f, tc_env_list(env, &call, TC_STR("src"), &lo, &page, &f->err));
    assert_int_equal(page.count, 1);
    assert_text(page.entries[0].relative_path, ".hidden");
    assert_true(page.has_more);
    assert_ok(f, tc_env_list(env, &call, TC_STR("src"), NULL, &page, &f->err));
    assert_int_equal(page.count, 2);
    assert_text(page.entries[1].relative_path, "deep");
    assert_int_equal(page.entries[1].info.kind, TC_FILE_DIRECTORY);
    tc_find_options fo = {.size = sizeof fo, .kinds = TC_KINDS_FILE};
    assert_ok(f, tc_env_find(env, &call, TC_STR("."), TC_STR("*.c"), &fo, &page, &f->err));
    assert_int_equal(page.count, 2);
    assert_text(page.entries[1].relative_path, "src/deep/b.c");
    tc_search_options so = {.size = sizeof so, .ignore_case = true, .context_lines = 1};
    assert_ok(f, tc_env_search(env, &call, TC_STR("src"), TC_STR("needle"), &so, &found, &f->err));
    assert_int_equal(found.count, 2);
    assert_text(found.matches[1].preview, "Needle here");
    assert_int_equal(found.matches[1].line_number, 2);
    assert_text(found.matches[1].context, "x\nNeedle here\n");
    assert_code(f, TC_E_INVALID,
                tc_env_find(env, &call, TC_STR("."), TC_STR("[a"), NULL, &page, &f->err));
    assert_text(tc_result_evidence(f->r)->detail, "invalid_glob");
    tc_env_release(env);
}

static void files_are_patched_copied_moved_and_removed(void **state)
{
    fixture *f = *state;
    tc_call call = plain_call(f);
    tc_env *env = make_env(f, folder(f, "changes"));
    tc_text_page page;
    uint64_t n = 0;
    tc_str patch = TC_STR("@@ -1,2 +1,2 @@\n one\n-two\n+TWO\n");
    assert_ok(
        f, tc_env_write_text(env, &call, TC_STR("a"), TC_STR("one\ntwo\n"), NULL, NULL, &f->err));
    assert_ok(f, tc_env_patch(env, &call, TC_STR("a"), patch, &n, NULL, &f->err));
    assert_int_equal(n, 1);
    assert_code(f, TC_E_CONFLICT, tc_env_patch(env, &call, TC_STR("a"), patch, &n, NULL, &f->err));
    assert_ok(f, tc_env_copy(env, &call, TC_STR("a"), TC_STR("b"), false, NULL, &f->err));
    assert_code(f, TC_E_CONFLICT,
                tc_env_move(env, &call, TC_STR("a"), TC_STR("b"), false, NULL, &f->err));
    assert_ok(f, tc_env_move(env, &call, TC_STR("a"), TC_STR("c"), false, NULL, &f->err));
    assert_ok(f, tc_env_read_text(env, &call, TC_STR("c"), NULL, &page, &f->err));
    assert_text(page.text, "one\nTWO\n");
    assert_ok(f, tc_env_mkdir(env, &call, TC_STR("d/e/f"), true, false, &f->err));
    assert_code(f, TC_E_QUOTA,
                tc_env_remove(env, &call, TC_STR("d"), TC_FILE_DIRECTORY, true, 2, &n, &f->err));
    assert_code(f, TC_E_CONFLICT,
                tc_env_remove(env, &call, TC_STR("d"), TC_FILE_REGULAR, false, 0, &n, &f->err));
    assert_ok(f, tc_env_remove(env, &call, TC_STR("d"), TC_FILE_DIRECTORY, true, 0, &n, &f->err));
    assert_int_equal(n, 3);
    tc_env_release(env);
}

/* ---- content ---- */

enum { BIG = 5 * 1024 * 1024 + 17 };

static char *make_content(size_t len)
{
    char *bytes = malloc(len);
    uint32_t x = 1;
    for (size_t i = 0; i < len; i++) {
        x = x * 1664525 + 1013904223;
        bytes[i] = (char)(x >> 24);
    }
    return bytes;
}

static void bytes_go_there_and_back(void **state)
{
    fixture *f = *state;
    tc_call call = plain_call(f);
    tc_env *env = make_env(f, folder(f, "bytes"));
    char *bytes = make_content(BIG);
    tc_str all = tci_str_of(bytes, BIG), got;
    tc_transfer t;
    assert_ok(f, tc_env_write(env, &call, TC_STR("big"), all, NULL, &t, &f->err));
    assert_int_equal(t.nbytes, BIG);
    assert_int_equal(tc_result_evidence(f->r)->outcome, TC_OUTCOME_DONE);
    assert_ok(f, tc_env_read(env, &call, TC_STR("big"), NULL, 0, &got, &f->err));
    assert_true(tci_str_eq(got, all));
    tc_range range = {.offset = BIG - 100000, .has_length = true, .length = 70000};
    assert_ok(f, tc_env_read(env, &call, TC_STR("big"), &range, 0, &got, &f->err));
    assert_true(tci_str_eq(got, tci_str_sub(all, BIG - 100000, 70000)));
    range = (tc_range){.offset = BIG + 5};
    assert_ok(f, tc_env_read(env, &call, TC_STR("big"), &range, 0, &got, &f->err));
    assert_int_equal(got.len, 0);
    assert_code(f, TC_E_TOO_BIG, tc_env_read(env, &call, TC_STR("big"), NULL, 1000, &got, &f->err));
    assert_ok(f, tc_env_write(env, &call, TC_STR("none"), TC_STR(""), NULL, &t, &f->err));
    assert_ok(f, tc_env_read(env, &call, TC_STR("none"), NULL, 0, &got, &f->err));
    assert_int_equal(got.len, 0);
    assert_true(tc_env_is_ready(env));
    free(bytes);
    tc_env_release(env);
}

static int broken_source(void *user, void *buf, size_t cap, size_t *ret_len, tc_err *err)
{
    int *calls = user;
    if (++*calls > 12)
        return tc_err_set(err, TC_E_IO, "the source broke");
    memset(buf, 'x', cap);
    *ret_len = cap;
    return 0;
}

static int broken_sink(void *user, const void *bytes, size_t len, tc_err *err)
{
    TCI_UNUSED(bytes);
    size_t *got = user;
    *got += len;
    if (*got > 200000)
        return tc_err_set(err, TC_E_NO_SPACE, "the sink is full");
    return 0;
}

static void a_broken_source_leaves_nothing_behind(void **state)
{
    fixture *f = *state;
    tc_call call = plain_call(f);
    tc_env *env = make_env(f, folder(f, "broken"));
    tc_file_page page;
    int calls = 0;
    size_t got = 0;
    tc_list_options all = {.size = sizeof all, .include_hidden = true};
    assert_code(
        f, TC_E_IO,
        tc_env_write_stream(env, &call, TC_STR("f"), NULL, broken_source, &calls, NULL, &f->err));
    assert_int_equal(tc_result_evidence(f->r)->outcome, TC_OUTCOME_NOT_STARTED);
    assert_ok(f, tc_env_list(env, &call, TC_STR("."), &all, &page, &f->err));
    assert_int_equal(page.count, 0); /* no staging file either */
    char *bytes = make_content(BIG);
    assert_ok(f,
              tc_env_write(env, &call, TC_STR("f"), tci_str_of(bytes, BIG), NULL, NULL, &f->err));
    assert_code(
        f, TC_E_NO_SPACE,
        tc_env_read_stream(env, &call, TC_STR("f"), NULL, broken_sink, &got, NULL, &f->err));
    /* The session is as good as before. */
    tc_str back;
    assert_ok(f, tc_env_read(env, &call, TC_STR("f"), NULL, 0, &back, &f->err));
    assert_int_equal(back.len, BIG);
    free(bytes);
    tc_env_release(env);
}

static void many_files_are_synced_at_once(void **state)
{
    fixture *f = *state;
    tc_call call = plain_call(f);
    tc_env *env = make_env(f, folder(f, "synced"));
    tc_str got;
    char *bytes = make_content(BIG);
    tc_write_options o = {.size = sizeof o, .executable = TC_YES, .no_sync = true};
    tc_file_info info;
    assert_ok(f, tc_env_write(env, &call, TC_STR("small"), TC_STR("x"), &o, NULL, &f->err));
    assert_ok(f,
              tc_env_write(env, &call, TC_STR("big"), tci_str_of(bytes, BIG), &o, NULL, &f->err));
    assert_ok(f, tc_env_sync(env, &call, TC_STR("."), &f->err));
    assert_ok(f, tc_env_read(env, &call, TC_STR("big"), NULL, 0, &got, &f->err));
    assert_true(tci_str_eq(got, tci_str_of(bytes, BIG)));
    assert_ok(f, tc_env_stat(env, &call, TC_STR("big"), true, &info, &f->err));
    assert_true(info.has_executable && info.is_executable);
    assert_code(f, TC_E_NOT_FOUND, tc_env_sync(env, &call, TC_STR("no"), &f->err));
    free(bytes);
    tc_env_release(env);
}

/* ---- changes and their names ---- */

static void case_65_a_change_can_be_asked_about_by_its_name(void **state)
{
    fixture *f = *state;
    not_if(f, is_pi);
    tc_call call = plain_call(f);
    tc_env *env = make_env(f, folder(f, "names"));
    tc_write_options append = {.size = sizeof append, .mode = TC_WRITE_APPEND};
    tc_outcome outcome;
    tc_receipt receipt;
    tc_text_page page;
    assert_ok(f, tc_env_write_text(env, &call, TC_STR("log"), TC_STR("0"), NULL, NULL, &f->err));
    call.operation_id = TC_STR("op-mine-1");
    assert_ok(f, tc_env_write_text(env, &call, TC_STR("log"), TC_STR("1"), &append, NULL, &f->err));
    assert_text(tc_result_evidence(f->r)->operation_id, "op-mine-1");
    assert_int_equal(tc_result_evidence(f->r)->receipt.outcome, TC_RECEIPT_SUCCEEDED);
    /* The same again is the same, not another one. */
    assert_ok(f, tc_env_write_text(env, &call, TC_STR("log"), TC_STR("1"), &append, NULL, &f->err));
    /* The name with another content is refused, and did nothing. */
    assert_code(f, TC_E_CONFLICT,
                tc_env_write_text(env, &call, TC_STR("log"), TC_STR("2"), &append, NULL, &f->err));
    assert_int_equal(tc_result_evidence(f->r)->outcome, TC_OUTCOME_NOT_STARTED);
    call.operation_id = (tc_str){0};
    assert_ok(f, tc_env_read_text(env, &call, TC_STR("log"), NULL, &page, &f->err));
    assert_text(page.text, "01");
    assert_ok(f, tc_env_reconcile(env, &call, TC_STR("op-mine-1"), &outcome, &receipt, &f->err));
    assert_int_equal(outcome, TC_OUTCOME_DONE);
    assert_text(receipt.method, "file.write_text");
    assert_ok(f, tc_env_reconcile(env, &call, TC_STR("op-never"), &outcome, &receipt, &f->err));
    assert_int_equal(outcome, TC_OUTCOME_UNKNOWN);
    tc_env_release(env);
}

/* ---- what only a daemon behind HTTP can show ---- */

static void another_device_is_refused(void **state)
{
    fixture *f = *state;
    tc_env *env = NULL;
    tc_env_options o = env_options(text(f->root));
    if (!f->is_http)
        return; /* a local daemon is started with the name the state gives it */
    assert_ok(f,
              tc_env_state_make(TC_STR("http_envd"), TC_STR("env-other"), f->r, &o.state, &f->err));
    assert_ok(f, make_env_with(f, &o, &env));
    assert_code(f, TC_E_INCOMPATIBLE, tc_env_ready(env, NULL, &f->err));
    tc_env_release(env);
}

static void a_session_can_be_taken_up_again(void **state)
{
    fixture *f = *state;
    tc_device *one, *two;
    tc_session *first, *again;
    tc_process p;
    tc_str id, json;
    tc_call call = plain_call(f);
    tc_command c = {.size = sizeof c, .script = TC_STR("sleep 60")};
    if (!f->is_http)
        return; /* standard input and output have no second connection */
    tc_http_options http = http_options(f);
    assert_ok(f, tc_device_connect_http(f->rt, NULL, &http, NULL, &one, &f->err));
    assert_ok(f, tc_device_connect_http(f->rt, NULL, &http, NULL, &two, &f->err));
    assert_ok(f, tc_session_open(one, NULL, NULL, &first, &f->err));
    assert_ok(f, tc_session_process_start(first, &call, &c, &p, &f->err));
    assert_ok(f, tc_result_dup(f->r, tc_session_get_info(first)->session_id, &id, &f->err));
    tc_session_detach(first);
    uint64_t generation = tc_device_get_info(two)->generation;
    assert_code(f, TC_E_INCOMPATIBLE,
                tc_session_attach(two, NULL, id, generation + 1, &again, &f->err));
    assert_ok(f, tc_session_attach(two, NULL, id, generation, &again, &f->err));
    assert_ok(f, tc_session_process_inspect(again, &call, p.handle, &p, &f->err));
    assert_int_equal(p.status.phase, TC_PROCESS_RUNNING);
    /* Any method by name, as JSON. */
    assert_ok(f, tc_session_call_json(again, &call, TC_STR("port.inspect"),
                                      TC_STR("{\"target\":{\"protocol\":\"tcp\",\"address\":"
                                             "\"loopback\",\"port\":1}}"),
                                      &json, &f->err));
    assert_true(tci_str_find(json, TC_STR("\"status\":\"not_listening\"")) < json.len);
    assert_code(
        f, TC_E_NO_METHOD,
        tc_session_call_json(again, &call, TC_STR("file.shred"), TC_STR("{}"), &json, &f->err));
    assert_ok(f, tc_session_close(again, NULL, &f->err));
    tc_device_close(one);
    tc_device_close(two);
}

static void certificates_are_checked_unless_told_otherwise(void **state)
{
    fixture *f = *state;
    tc_device *d = NULL;
    tc_runtime *rt;
    static const char *const trusting[] = {"A13N_OUTBOUND_TLS_VERIFY=false", NULL};
    tc_runtime_options o = {.size = sizeof o, .environment = trusting};
    if (!f->is_tls)
        return;
    tc_http_options http = http_options(f);
    http.ca_file = (tc_str){0}; /* the system's authorities do not know it */
    assert_code(f, TC_E_UNTRUSTED, tc_device_connect_http(f->rt, NULL, &http, NULL, &d, &f->err));
    http.insecure_no_verify = true;
    assert_ok(f, tc_device_connect_http(f->rt, NULL, &http, NULL, &d, &f->err));
    tc_device_close(d);
    http.insecure_no_verify = false;
    assert_ok(f, tc_runtime_open(&o, &rt, &f->err));
    assert_ok(f, tc_device_connect_http(rt, NULL, &http, NULL, &d, &f->err));
    tc_device_close(d);
    tc_runtime_close(rt);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_machine_is_never_created),
    cmocka_unit_test(an_adapter_needs_its_own_name_and_an_absolute_folder),
    cmocka_unit_test(nothing_works_before_ready),
    cmocka_unit_test(state_round_trip_finds_the_same_device),
    cmocka_unit_test(foreign_state_is_refused),
    cmocka_unit_test(another_boundary_makes_it_dead),
    cmocka_unit_test(adapters_share_a_device_and_close_only_their_session),
    cmocka_unit_test(files_are_written_read_and_told_about),
    cmocka_unit_test(folders_are_listed_found_and_searched),
    cmocka_unit_test(files_are_patched_copied_moved_and_removed),
    cmocka_unit_test(bytes_go_there_and_back),
    cmocka_unit_test(a_broken_source_leaves_nothing_behind),
    cmocka_unit_test(many_files_are_synced_at_once),
    cmocka_unit_test(case_65_a_change_can_be_asked_about_by_its_name),
    cmocka_unit_test(another_device_is_refused),
    cmocka_unit_test(a_session_can_be_taken_up_again),
    cmocka_unit_test(certificates_are_checked_unless_told_otherwise),
};

int main(int argc, char **argv)
{
    if (!fixture_choose(argc, argv))
        return TEST_SKIPPED;
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
