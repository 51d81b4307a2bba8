/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <stdio.h>

void check_ok(int rc, const tc_err *err, const char *file, int line)
{
    if (rc == 0)
        return;
    print_error("%s: %s (found at %s:%d)\n", tc_code_name(rc), err->msg, err->file, err->line);
    _assert_true(false, "the call succeeds", file, line);
}

void check_fails(int code, int rc, const tc_err *err, const char *file, int line)
{
    if (rc == code)
        return;
    print_error("got %s: %s\nwant %s\n", tc_code_name(rc), rc < 0 ? err->msg : "",
                tc_code_name(code));
    _assert_true(false, "the call fails as it should", file, line);
}

void check_text(tc_str got, const char *want, const char *file, int line)
{
    if (tci_str_eq(got, tci_str(want)))
        return;
    print_error("got  %.*s\nwant %s\n", TC_STR_ARG(got), want);
    _assert_true(false, "the texts are equal", file, line);
}

static int64_t count_up(void *user)
{
    fixture *f = user;
    return f->now_ms++;
}

static void open_session(fixture *f, bool must_exist)
{
    tc_durable_options options = {.size = sizeof options,
                                  .must_exist = must_exist,
                                  .durability = TC_DURABILITY_NORMAL,
                                  .document_retention_ms = f->retention_ms,
                                  .now_ms = count_up,
                                  .now_user = f};
    ok(tc_durable_open(tci_str(f->path), &options, &f->s, &f->err));
}

int fixture_open(void **state)
{
    static unsigned ntests;
    fixture *f = tci_new(fixture);
    f->backend = *state;
    f->now_ms = 1700000000000;
    const char *dir = getenv("TC_TEST_DIR");
    if (strcmp(f->backend, "memory") == 0)
        snprintf(f->path, sizeof f->path, ":memory:");
    else
        snprintf(f->path, sizeof f->path, "%s/s%u%s", dir, ntests++,
                 strcmp(f->backend, "sqlite") == 0 ? ".sqlite" : "");
    *state = f;
    ok(tc_result_new(&f->r, &f->err));
    open_session(f, false);
    return 0;
}

int fixture_close(void **state)
{
    fixture *f = *state;
    tc_durable_free(f->s);
    tc_result_free(f->r);
    tci_free(f);
    return 0;
}

bool fixture_lasts(const fixture *f)
{
    return strcmp(f->backend, "memory") != 0;
}

void fixture_reopen(fixture *f)
{
    if (!fixture_lasts(f))
        return;
    ok(tc_durable_close(f->s, &f->err));
    tc_durable_free(f->s);
    open_session(f, true);
}

tc_tx *begin(fixture *f)
{
    tc_tx *tx = NULL;
    ok(tc_durable_begin(f->s, NULL, &tx, &f->err));
    return tx;
}

void commit(fixture *f, tc_tx *tx)
{
    ok(tc_tx_commit(tx, &f->err));
}

uint64_t say(fixture *f, uint64_t conversation, const char *text)
{
    char draft[512];
    snprintf(draft, sizeof draft,
             "{\"kind\":\"pi.user\",\"model\":[{\"role\":\"user\",\"content\":\"%s\"}]}", text);
    uint64_t id = 0;
    tc_tx *tx = begin(f);
    ok(tc_tx_append_entry(tx, conversation, tci_str(draft), &id, &f->err));
    commit(f, tx);
    return id;
}

void make_root(fixture *f)
{
    tc_tx *tx = begin(f);
    ok(tc_tx_create_root_conversation(tx, &f->err));
    commit(f, tx);
    f->root = 1;
}

uint64_t make_task(fixture *f, uint64_t conversation)
{
    uint64_t id = 0;
    tc_tx *tx = begin(f);
    tci_task_new task = {.kind = S("test.task"),
                         .version = 1,
                         .input = S("{}"),
                         .checkpoint = S("{\"phase\":\"first\"}"),
                         .conversation = conversation};
    ok(tci_tx_create_task(tx, &task, &id, &f->err));
    commit(f, tx);
    return id;
}

void put_task_state(fixture *f, tc_tx *tx, uint64_t id, const char *state)
{
    tci_task task = {0};
    ok(tci_tx_current_task(tx, id, tci_tx_arena(tx), &task, &f->err));
    tci_json_change change = {S("state"), tci_str(state)};
    ok(tci_tx_change_task(tx, &task, &change, 1, &f->err));
}

tc_str snapshot(fixture *f, const tc_doc_def *def, uint64_t owner, const char *key)
{
    tc_doc_addr addr = {def, owner, tci_str(key)};
    tc_str json = {0};
    ok(tc_durable_snapshot(f->s, &addr, f->r, &json, &f->err));
    return json;
}

void set_doc(fixture *f, const tc_doc_def *def, uint64_t owner, const char *pointer,
             const char *json)
{
    tc_doc *doc = NULL;
    tc_tx *tx = begin(f);
    ok(tc_tx_doc(tx, def, owner, S(""), S(""), &doc, &f->err));
    ok(tc_doc_set(doc, tci_str(pointer), tci_str(json), &f->err));
    commit(f, tx);
}
