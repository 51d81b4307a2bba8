/* SPDX-License-Identifier: Apache-2.0
 *
 * A session for one test, over the storage the test is run with ("memory", "jsonl", "sqlite"). */
#ifndef TEST_SESSION_FIXTURE_H
#define TEST_SESSION_FIXTURE_H

#include "base/buf.h"
#include "session/session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

typedef struct fixture {
    const char *backend;
    char path[512];
    tc_durable *s;
    tc_result *r;
    tc_err err;
    int64_t now_ms; /* counts up by one */
    int64_t retention_ms;
    uint64_t root; /* 1, once made */
} fixture;

int fixture_open(void **state);
int fixture_close(void **state);
/* Close and open again; over memory nothing. */
void fixture_reopen(fixture *f);
bool fixture_lasts(const fixture *f);

#define ok(call) check_ok((call), &f->err, __FILE__, __LINE__)
#define fails(code, call) check_fails((code), (call), &f->err, __FILE__, __LINE__)
void check_ok(int rc, const tc_err *err, const char *file, int line);
void check_fails(int code, int rc, const tc_err *err, const char *file, int line);
#define assert_text(got, want) check_text((got), (want), __FILE__, __LINE__)
void check_text(tc_str got, const char *want, const char *file, int line);
#define assert_says(f, words) assert_non_null(strstr((f)->err.msg, (words)))

tc_tx *begin(fixture *f);
void commit(fixture *f, tc_tx *tx);
/* {"kind":kind,"model":[{"role":"user","content":text}]} appended and committed. */
uint64_t say(fixture *f, uint64_t conversation, const char *text);
/* The root conversation, made and committed. */
void make_root(fixture *f);
uint64_t make_task(fixture *f, uint64_t conversation);
/* state: as JSON */
void put_task_state(fixture *f, tc_tx *tx, uint64_t id, const char *state);
tc_str snapshot(fixture *f, const tc_doc_def *def, uint64_t owner, const char *key);
/* In one commit: set pointer of a document to json. */
void set_doc(fixture *f, const tc_doc_def *def, uint64_t owner, const char *pointer,
             const char *json);
#define S(literal) tci_str(literal)

/* The three storages for every test of a list. */
#define EACH_BACKEND(test)                                                                  \
    {#test " (memory)", test, fixture_open, fixture_close, (void *)(uintptr_t) "memory"},   \
        {#test " (jsonl)", test, fixture_open, fixture_close, (void *)(uintptr_t) "jsonl"}, \
    {                                                                                       \
#test " (sqlite)", test, fixture_open, fixture_close, (void *)(uintptr_t) "sqlite"  \
    }
#define IN_MEMORY(test)                                                        \
    {                                                                          \
#test, test, fixture_open, fixture_close, (void *)(uintptr_t) "memory" \
    }

#endif
