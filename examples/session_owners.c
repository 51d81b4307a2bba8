/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversations that belong to tasks, and finding them again. A case is a task; its file is a
 * conversation the task owns, made in the commit that makes the task. Nobody writes the file's number
 * down: it is looked up by its owner, also by the task itself, after a restart and after the task's end.
 *
 *     session_owners PATH */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <telechir/agent.h>
#include <telechir/harness.h>

static tc_str text(const char *cstr)
{
    tc_str s = {cstr, strlen(cstr)};
    return s;
}

static void need(int rc, const tc_err *err, const char *what)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "%s: %s\n", what, err->msg);
    exit(tc_code_exit_status(err->code));
}

static void check(bool is_so, const char *what)
{
    if (is_so)
        return;
    fprintf(stderr, "not so: %s\n", what);
    exit(1);
}

/* ---- looking up ---- */

static uint64_t number_at(const tc_json *v, const char *pointer)
{
    uint64_t number = 0;
    (void)tc_json_as_u64(tc_json_find(v, pointer), &number); /* 0 when it is not there */
    return number;
}

/* The one conversation that a task owns: *ret_id is 0 when it has none. */
static int file_of(tc_durable *s, uint64_t task, tc_result *r, uint64_t *ret_id, tc_err *err)
{
    const tc_json *v;
    tc_records files;
    *ret_id = 0;
    int rc = tc_durable_conversations(s, 0, task, NULL, r, &files, err);
    if (rc < 0 || files.count == 0)
        return rc;
    rc = tc_json_parse(r, files.items[0], &v, err);
    *ret_id = rc < 0 ? 0 : number_at(v, "/id");
    return rc;
}

static size_t count_owned(tc_durable *s, uint64_t conversation, uint64_t task, tc_result *r)
{
    tc_err err;
    size_t count = 0;
    tc_page page = {.limit = 1}; /* to show how pages go on: as many as there are */
    tc_records files;
    do {
        need(tc_durable_conversations(s, conversation, task, &page, r, &files, &err), &err,
             "conversations");
        count += files.count;
        page.cursor = files.next;
    } while (files.has_more);
    return count;
}

/* ---- a case: {"name":...}; it files what came of it, and ends ---- */

static int begin(void *user, tc_str input, tc_result *r, tc_str *ret_checkpoint, tc_err *err)
{
    (void)user;
    (void)input;
    return tc_result_dup(r, TC_STR("{\"phase\":\"close\"}"), ret_checkpoint, err);
}

static int close_case(tc_task *t, tc_err *err)
{
    const tc_task_info *current = tc_task_current(t);
    tc_tx *tx;
    uint64_t file, entry;
    if (file_of(tc_harness_session(tc_task_harness(t)), current->id, tc_task_result(t), &file,
                err) < 0 ||
        tc_task_begin(t, &tx, NULL, err) < 0)
        return err->code;
    if (tc_tx_append_entry(tx, file, TC_STR("{\"kind\":\"demo.verdict\",\"data\":\"settled\"}"),
                           &entry, err) < 0) {
        tc_tx_rollback(tx);
        return err->code;
    }
    tc_next next = {.kind = TC_NEXT_COMPLETED, .result = TC_STR("\"settled\"")};
    return tc_task_commit(t, tx, &next, err);
}

static int drop_case(tc_task *t, tc_err *err)
{
    tc_next next = {.kind = TC_NEXT_ABORTED, .reason = TC_STR("dropped")};
    return tc_task_next(t, &next, err);
}

static const tc_task_phase PHASES[] = {{"close", close_case}};
static const tc_task_def CASE = {.size = sizeof(tc_task_def),
                                 .name = "demo.case",
                                 .version = 1,
                                 .initial = begin,
                                 .phases = PHASES,
                                 .nphases = 1,
                                 .abort = drop_case};
static const tc_task_def *const DEFS[] = {&CASE};

/* ---- the program ---- */

typedef struct desk {
    tc_result *r;
    tc_durable *session;
    uint64_t conversation, theft, fraud;
} desk;

/* A case and its file in one commit: the task need not be there before. Several open at once. */
static int open_case(desk *d, tc_tx *tx, const char *input, uint64_t *ret_task, tc_err *err)
{
    uint64_t file, entry;
    tc_task_options options = TC_TASK_OPTIONS;
    options.conversation_id = d->conversation;
    if (tc_tx_create_task_of(tx, &CASE, text(input), &options, ret_task, err) < 0 ||
        tc_tx_create_conversation(tx, *ret_task, &file, err) < 0)
        return err->code;
    return tc_tx_append_entry(tx, file, TC_STR("{\"kind\":\"demo.opened\"}"), &entry, err);
}

static void open_cases(desk *d)
{
    tc_err err;
    tc_tx *tx;
    need(tc_durable_begin(d->session, NULL, &tx, &err), &err, "begin");
    need(tc_tx_create_conversation(tx, 0, &d->conversation, &err), &err, "desk");
    need(open_case(d, tx, "{\"name\":\"theft\"}", &d->theft, &err), &err, "theft");
    need(open_case(d, tx, "{\"name\":\"fraud\"}", &d->fraud, &err), &err, "fraud");
    need(tc_tx_commit(tx, &err), &err, "commit");
}

/* Who owns a conversation stands in its record, and is an index: nothing is searched through. */
static void check_lookups(desk *d)
{
    tc_err err;
    uint64_t file;
    tc_str record;
    const tc_json *v;
    need(file_of(d->session, d->theft, d->r, &file, &err), &err, "file of the theft");
    need(tc_durable_conversation(d->session, file, d->r, &record, &err), &err, "file");
    need(tc_json_parse(d->r, record, &v, &err), &err, "file");
    check(number_at(v, "/owner/taskId") == d->theft, "the file names its task");
    check(number_at(v, "/owner/conversationId") == d->conversation,
          "and the conversation its task is in");
    check(count_owned(d->session, d->conversation, 0, d->r) == 2, "the desk has two files");
    check(count_owned(d->session, 0, d->fraud, d->r) == 1, "a case has one");
    check(count_owned(d->session, d->conversation, d->fraud, d->r) == 1, "on this desk");
    check(count_owned(d->session, file, d->fraud, d->r) == 0, "and not on another");
    check(count_owned(d->session, 0, 0, d->r) == 3, "the desk itself is nobody's");
}

/* Let one case run to its end. Its file stays; a new one cannot be opened for it. */
static void settle(desk *d, tc_harness *h)
{
    tc_err err;
    tc_str record;
    tc_tx *tx;
    uint64_t late;
    need(tc_harness_wait_task(h, NULL, d->theft, d->r, &record, &err), &err, "wait");
    check_lookups(d);
    need(tc_durable_begin(d->session, NULL, &tx, &err), &err, "begin");
    int rc = tc_tx_create_conversation(tx, d->theft, &late, &err);
    if (rc < 0)
        tc_tx_rollback(tx);
    else
        rc = tc_tx_commit(tx, &err);
    check(rc < 0, "a case that has ended opens no file");
    printf("refused: %s\n", tc_code_name(rc));
}

static void print_file(desk *d, const char *name, uint64_t task)
{
    tc_err err;
    uint64_t file;
    tc_records entries;
    tc_page page = {.order = TC_ORDER_ASCENDING};
    need(file_of(d->session, task, d->r, &file, &err), &err, name);
    need(tc_durable_entries(d->session, file, 0, 0, &page, d->r, &entries, &err), &err, name);
    printf("%s:", name);
    for (size_t i = 0; i < entries.count; i++) {
        const tc_json *v;
        tc_str kind = {NULL, 0};
        need(tc_json_parse(d->r, entries.items[i], &v, &err), &err, name);
        (void)tc_json_as_str(tc_json_get(v, TC_STR("kind")), &kind);
        printf(" %.*s", TC_STR_ARG(kind));
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    tc_err err;
    desk d = {0};
    tc_registry *registry;
    tc_harness *h;
    if (argc != 2) {
        fprintf(stderr, "usage: session_owners PATH\n");
        return 2;
    }
    need(tc_result_new(&d.r, &err), &err, "result");
    need(tc_durable_open(text(argv[1]), NULL, &d.session, &err), &err, "session");
    open_cases(&d);
    check_lookups(&d);
    tc_durable_free(d.session);

    /* Opened again, by a program that has the tasks' definition: they run, and find their files. */
    need(tc_registry_new(&registry, &err), &err, "registry");
    need(tc_registry_install_tasks(registry, TC_STR("demo"), DEFS, 1, &err), &err, "tasks");
    need(tc_durable_open(text(argv[1]), NULL, &d.session, &err), &err, "session again");
    tc_harness_options options = {.size = sizeof options, .registry = registry};
    need(tc_harness_open(d.session, &options, NULL, &h, &err), &err, "harness");
    d.session = tc_harness_session(h);
    settle(&d, h);
    need(tc_harness_wait_idle(h, NULL, d.conversation, &err), &err, "idle");
    print_file(&d, "theft", d.theft);
    print_file(&d, "fraud", d.fraud);
    tc_harness_free(h);
    tc_registry_free(registry);
    tc_result_free(d.r);
    return 0;
}
