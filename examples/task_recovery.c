/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that ends between an effect and its record. The first run sends a letter, remembers that
 * in a memo, and is closed before the task has ended; the second run goes on in the same phase, sees
 * the memo, and does not send it again.
 *
 *     task_recovery PATH   run it twice */
#include <stdio.h>
#include <string.h>
#include <telechir/agent.h>
#include <telechir/harness.h>

static tc_str text(const char *cstr)
{
    tc_str s = {cstr, strlen(cstr)};
    return s;
}

/* How the handler tells main that the letter is out; its wait for the answer ends with the harness. */
typedef struct post {
    tc_ctx *is_sent; /* cancelled: it is */
} post;

static int begin(void *user, tc_str input, tc_result *r, tc_str *ret_checkpoint, tc_err *err)
{
    (void)user;
    (void)input;
    return tc_result_dup(r, TC_STR("{\"phase\":\"send\"}"), ret_checkpoint, err);
}

static int send_letter(tc_task *t, tc_err *err)
{
    post *p = tc_task_user(t);
    bool is_known;
    tc_str receipt;
    if (tc_task_get_memo(t, TC_STR("receipt"), &is_known, &receipt, err) < 0)
        return err->code;
    if (is_known) {
        printf("sent before, receipt %.*s\n", TC_STR_ARG(receipt));
        tc_next next = {.kind = TC_NEXT_COMPLETED, .result = receipt};
        return tc_task_next(t, &next, err);
    }
    printf(
        "sending\n"); /* the effect; a post office that knows our key would make it safe here too */
    if (tc_task_memo(t, TC_STR("receipt"), TC_STR("\"R-1\""), &receipt, err) < 0)
        return err->code;
    tc_ctx_cancel(p->is_sent);
    return tc_task_pause(t, 60000, err); /* until the harness closes */
}

static int give_up(tc_task *t, tc_err *err)
{
    tc_next next = {.kind = TC_NEXT_ABORTED};
    return tc_task_next(t, &next, err);
}

static const tc_task_phase PHASES[] = {{"send", send_letter}};

/* The task of the first run, or a new one. *ret_is_new. */
static int find_task(tc_harness *h, const tc_task_def *def, tc_result *r, uint64_t *ret_id,
                     bool *ret_is_new, tc_err *err)
{
    tc_task_query query = TC_TASK_QUERY_ALL;
    tc_records tasks;
    tc_tx *tx;
    uint64_t root;
    const tc_json *v;
    query.kind = TC_STR("demo.letter");
    if (tc_harness_root(h, NULL, NULL, &root, err) < 0 ||
        tc_durable_tasks(tc_harness_session(h), &query, NULL, r, &tasks, err) < 0)
        return err->code;
    *ret_is_new = tasks.count == 0;
    if (tasks.count > 0) {
        if (tc_json_parse(r, tasks.items[0], &v, err) < 0)
            return err->code;
        return tc_json_as_u64(tc_json_get(v, TC_STR("id")), ret_id)
                   ? 0
                   : tc_err_set(err, TC_E_INVALID, "a task without id");
    }
    tc_task_options options = TC_TASK_OPTIONS;
    options.conversation_id = root;
    if (tc_durable_begin(tc_harness_session(h), NULL, &tx, err) < 0)
        return err->code;
    if (tc_tx_create_task_of(tx, def, TC_STR("{}"), &options, ret_id, err) < 0) {
        tc_tx_rollback(tx);
        return err->code;
    }
    return tc_tx_commit(tx, err);
}

static int work(tc_harness *h, const tc_task_def *def, post *p, tc_result *r, tc_err *err)
{
    uint64_t id = 0;
    bool is_new = false;
    tc_str record, outcome;
    const tc_json *v;
    if (find_task(h, def, r, &id, &is_new, err) < 0)
        return err->code;
    /* The first run waits only until the letter is out: the wait ends with this context. */
    int rc = tc_harness_wait_task(h, is_new ? p->is_sent : NULL, id, r, &record, err);
    if (is_new && rc == TC_E_CANCELLED) {
        printf("closing in the middle of it\n");
        return 0;
    }
    if (rc < 0)
        return rc;
    if (tc_json_parse(r, record, &v, err) < 0 ||
        tc_json_text(tc_json_find(v, "/state/outcome"), r, &outcome, err) < 0)
        return err->code;
    printf("%.*s\n", TC_STR_ARG(outcome));
    return 0;
}

static int run(const char *path, const tc_task_def *def, post *p, tc_registry *registry,
               tc_result *r, tc_err *err)
{
    tc_durable *session;
    tc_harness *h;
    tc_harness_options options = {.size = sizeof options, .registry = registry};
    if (tc_registry_install_tasks(registry, TC_STR("demo"), &def, 1, err) < 0 ||
        tc_durable_open(text(path), NULL, &session, err) < 0 ||
        tc_harness_open(session, &options, NULL, &h, err) < 0)
        return err->code;
    int rc = work(h, def, p, r, err);
    tc_harness_free(h); /* what runs is told, waited for, and stored as to be done */
    return rc;
}

int main(int argc, char **argv)
{
    tc_err err;
    tc_result *r = NULL;
    tc_registry *registry = NULL;
    post p = {NULL};
    if (argc != 2) {
        fprintf(stderr, "usage: task_recovery PATH\n");
        return 2;
    }
    const tc_task_def def = {.size = sizeof(tc_task_def),
                             .name = "demo.letter",
                             .version = 1,
                             .initial = begin,
                             .phases = PHASES,
                             .nphases = 1,
                             .abort = give_up,
                             .user = &p};
    int rc = tc_result_new(&r, &err);
    if (rc == 0)
        rc = tc_ctx_new(-1, &p.is_sent, &err);
    if (rc == 0)
        rc = tc_registry_new(&registry, &err);
    if (rc == 0)
        rc = run(argv[1], &def, &p, registry, r, &err);
    if (rc < 0) {
        fprintf(stderr, "task_recovery: %s\n", err.msg);
        rc = tc_code_exit_status(err.code);
    }
    tc_registry_free(registry);
    tc_ctx_free(p.is_sent);
    tc_result_free(r);
    return rc;
}
