/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers in the background: each is a task with a conversation of its own, which nobody waits for. They
 * are spawned, given work by messages (entries of their conversation), listed and stopped; what one
 * has to say is written into the root conversation in the commit that ends it, so that a report comes
 * exactly once, whatever becomes of the program. The program is closed and opened again in between.
 *
 *     task_background PATH */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <telechir/agent.h>
#include <telechir/harness.h>

static tc_str text(const char *cstr)
{
    tc_str s = {cstr, strlen(cstr)};
    return s;
}

static bool is(tc_str s, const char *word)
{
    return s.len == strlen(word) && memcmp(s.ptr, word, s.len) == 0;
}

/* ---- a worker: {"name":...}; looks at its conversation again and again ---- */

static const int64_t LOOK_EVERY_MS = 20;

static int begin(void *user, tc_str input, tc_result *r, tc_str *ret_checkpoint, tc_err *err)
{
    (void)user;
    (void)input;
    return tc_result_dup(r, TC_STR("{\"phase\":\"settle\"}"), ret_checkpoint, err);
}

/* Make the conversation it is spoken to in. Its number is the checkpoint from then on. */
static int settle(tc_task *t, tc_err *err)
{
    tc_tx *tx;
    uint64_t id;
    char checkpoint[96];
    if (tc_task_begin(t, &tx, NULL, err) < 0)
        return err->code;
    if (tc_tx_create_conversation(tx, tc_task_current(t)->id, &id, err) < 0) {
        tc_tx_rollback(tx);
        return err->code;
    }
    snprintf(checkpoint, sizeof checkpoint,
             "{\"phase\":\"look\",\"conversation\":%" PRIu64 ",\"seen\":0,\"turn\":0}", id);
    tc_next next = {.kind = TC_NEXT_RUNNING, .checkpoint = text(checkpoint)};
    return tc_task_commit(t, tx, &next, err);
}

/* The report and the end are one commit. */
static int report(tc_task *t, tc_str name, uint64_t nmessages, tc_err *err)
{
    tc_tx *tx;
    uint64_t entry;
    char draft[256];
    snprintf(draft, sizeof draft,
             "{\"kind\":\"demo.report\",\"data\":{\"worker\":\"%.*s\",\"messages\":%" PRIu64 "}}",
             TC_STR_ARG(name), nmessages);
    if (tc_task_begin(t, &tx, NULL, err) < 0)
        return err->code;
    if (tc_tx_append_entry(tx, tc_task_current(t)->conversation_id, text(draft), &entry, err) < 0) {
        tc_tx_rollback(tx);
        return err->code;
    }
    tc_next next = {.kind = TC_NEXT_COMPLETED, .result = TC_STR("\"done\"")};
    return tc_task_commit(t, tx, &next, err);
}

/* Read what came after what was seen; "finish" is the last message. Otherwise sleep: that holds nothing. */
static int look(tc_task *t, tc_err *err)
{
    const tc_json *checkpoint, *input, *entry;
    uint64_t conversation = 0, turn = 0;
    tc_records messages;
    tc_result *r = tc_task_result(t);
    tc_str name = {NULL, 0}, word;
    tc_durable *s = tc_harness_session(tc_task_harness(t));
    if (tc_json_parse(r, tc_task_current(t)->checkpoint, &checkpoint, err) < 0 ||
        tc_json_parse(r, tc_task_current(t)->input, &input, err) < 0)
        return err->code;
    (void)tc_json_as_str(tc_json_get(input, TC_STR("name")), &name);
    (void)tc_json_as_u64(tc_json_get(checkpoint, TC_STR("conversation")), &conversation);
    (void)tc_json_as_u64(tc_json_get(checkpoint, TC_STR("turn")), &turn);
    if (tc_durable_entries(s, conversation, 0, 0, NULL, r, &messages, err) < 0)
        return err->code;
    for (size_t i = 0; i < messages.count; i++) {
        if (tc_json_parse(r, messages.items[i], &entry, err) < 0)
            return err->code;
        if (tc_json_as_str(tc_json_get(entry, TC_STR("data")), &word) && is(word, "finish"))
            return report(t, name, messages.count, err);
    }
    char next[128];
    snprintf(next, sizeof next,
             "{\"phase\":\"look\",\"conversation\":%" PRIu64 ",\"seen\":%zu,\"turn\":%" PRIu64 "}",
             conversation, messages.count, turn + 1);
    return tc_task_sleep_until(t, tc_task_now(t) + LOOK_EVERY_MS, text(next), err);
}

static int stop(tc_task *t, tc_err *err)
{
    tc_next next = {.kind = TC_NEXT_ABORTED, .reason = TC_STR("stopped")};
    return tc_task_next(t, &next, err);
}

static const tc_task_phase PHASES[] = {{"settle", settle}, {"look", look}};
static const tc_task_def WORKER = {.size = sizeof(tc_task_def),
                                   .name = "demo.worker",
                                   .version = 1,
                                   .initial = begin,
                                   .phases = PHASES,
                                   .nphases = 2,
                                   .abort = stop};
static const tc_task_def *const DEFS[] = {&WORKER};

/* ---- the program ---- */

typedef struct office {
    const char *path;
    tc_registry *registry;
    tc_harness *h;
    tc_result *r;
    uint64_t root;
} office;

static int open_office(office *o, tc_err *err)
{
    tc_durable *session;
    tc_harness_options options = {.size = sizeof options, .registry = o->registry};
    if (tc_durable_open(text(o->path), NULL, &session, err) < 0 ||
        tc_harness_open(session, &options, NULL, &o->h, err) < 0 ||
        tc_harness_root(o->h, NULL, NULL, &o->root, err) < 0)
        return err->code;
    return tc_harness_resume(o->h, err);
}

static int spawn(office *o, const char *name, uint64_t *ret_id, tc_err *err)
{
    tc_tx *tx;
    char input[64];
    tc_task_options options = TC_TASK_OPTIONS;
    options.conversation_id = o->root;
    options.is_background = true;
    snprintf(input, sizeof input, "{\"name\":\"%s\"}", name);
    if (tc_durable_begin(tc_harness_session(o->h), NULL, &tx, err) < 0)
        return err->code;
    if (tc_tx_create_task_of(tx, &WORKER, text(input), &options, ret_id, err) < 0) {
        tc_tx_rollback(tx);
        return err->code;
    }
    return tc_tx_commit(tx, err);
}

/* The conversation a worker has made for itself: it is found by its owner. Waits for it to be there. */
static int find_conversation(office *o, uint64_t worker, uint64_t *ret_id, tc_err *err)
{
    tc_watch *graph;
    char at[64];
    snprintf(at, sizeof at, "/tasks/%" PRIu64 "/conversations/0", worker);
    if (tc_harness_watch_task_graph(o->h, NULL, &graph, err) < 0)
        return err->code;
    int rc = 0;
    tc_frame frame;
    while (rc == 0 && !tc_json_as_u64(tc_json_find(tc_watch_value(graph), at), ret_id))
        rc = tc_watch_next(graph, NULL, &frame, err);
    tc_watch_free(graph);
    return rc;
}

static int say(office *o, uint64_t conversation, const char *word, tc_err *err)
{
    tc_tx *tx;
    uint64_t entry;
    char draft[96];
    snprintf(draft, sizeof draft, "{\"kind\":\"demo.message\",\"data\":\"%s\"}", word);
    if (tc_durable_begin(tc_harness_session(o->h), NULL, &tx, err) < 0)
        return err->code;
    if (tc_tx_append_entry(tx, conversation, text(draft), &entry, err) < 0) {
        tc_tx_rollback(tx);
        return err->code;
    }
    return tc_tx_commit(tx, err);
}

static int list(office *o, const char *when, tc_err *err)
{
    tc_inspection all;
    if (tc_harness_inspect(o->h, NULL, o->r, &all, err) < 0)
        return err->code;
    printf("%s: %zu workers\n", when, all.ntasks);
    return 0;
}

static int print_reports(office *o, tc_err *err)
{
    tc_records entries;
    if (tc_durable_entries(tc_harness_session(o->h), o->root, 0, 0, NULL, o->r, &entries, err) < 0)
        return err->code;
    for (size_t i = 0; i < entries.count; i++) {
        const tc_json *v;
        tc_str data;
        if (tc_json_parse(o->r, entries.items[i], &v, err) < 0 ||
            tc_json_text(tc_json_get(v, TC_STR("data")), o->r, &data, err) < 0)
            return err->code;
        printf("report %.*s\n", TC_STR_ARG(data));
    }
    return 0;
}

static int work(office *o, tc_err *err)
{
    uint64_t ann, bob, to_ann = 0, to_bob = 0;
    tc_str record;
    bool is_terminal;
    if (open_office(o, err) < 0 || spawn(o, "ann", &ann, err) < 0 ||
        spawn(o, "bob", &bob, err) < 0 || find_conversation(o, ann, &to_ann, err) < 0 ||
        find_conversation(o, bob, &to_bob, err) < 0)
        return err->code;
    /* Nobody waits for background work: the conversation they were spawned in is idle. */
    if (tc_harness_wait_idle(o->h, NULL, o->root, err) < 0 || list(o, "spawned", err) < 0 ||
        say(o, to_ann, "look here", err) < 0)
        return err->code;
    tc_harness_free(o->h);
    o->h = NULL;
    if (open_office(o, err) < 0 || list(o, "reopened", err) < 0 ||
        say(o, to_ann, "finish", err) < 0 ||
        tc_harness_wait_task(o->h, NULL, ann, o->r, &record, err) < 0 ||
        tc_harness_abort_task(o->h, NULL, bob, &is_terminal, err) < 0 ||
        tc_harness_wait_task(o->h, NULL, bob, o->r, &record, err) < 0 ||
        list(o, "in the end", err) < 0)
        return err->code;
    return print_reports(o, err);
}

int main(int argc, char **argv)
{
    tc_err err;
    office o = {0};
    if (argc != 2) {
        fprintf(stderr, "usage: task_background PATH\n");
        return 2;
    }
    o.path = argv[1];
    int rc = tc_result_new(&o.r, &err);
    if (rc == 0)
        rc = tc_registry_new(&o.registry, &err);
    if (rc == 0)
        rc = tc_registry_install_tasks(o.registry, TC_STR("demo"), DEFS, 1, &err);
    if (rc == 0)
        rc = work(&o, &err);
    if (rc < 0) {
        fprintf(stderr, "task_background: %s\n", err.msg);
        rc = tc_code_exit_status(err.code);
    }
    tc_harness_free(o.h);
    tc_registry_free(o.registry);
    tc_result_free(o.r);
    return rc;
}
