/* SPDX-License-Identifier: Apache-2.0
 *
 * A task of one's own: phases, each with a checkpoint; a memo, which keeps a decision; and children,
 * which it waits for without holding anything. It adds up numbers, each looked at by a child.
 *
 *     task_phases PATH */
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

static int fail(const char *what, const tc_err *err)
{
    fprintf(stderr, "%s: %s\n", what, err->msg);
    return tc_code_exit_status(err->code);
}

/* What every new task of these kinds starts with. */
static int begin(void *user, tc_str input, tc_result *r, tc_str *ret_checkpoint, tc_err *err)
{
    (void)user;
    (void)input;
    return tc_result_dup(r, TC_STR("{\"phase\":\"start\"}"), ret_checkpoint, err);
}

static int give_up(tc_task *t, tc_err *err)
{
    tc_next next = {.kind = TC_NEXT_ABORTED};
    return tc_task_next(t, &next, err);
}

/* ---- the child: its input is a number, its result the square ---- */

static int square(tc_task *t, tc_err *err)
{
    const tc_json *v;
    int64_t n = 0;
    char result[32];
    if (tc_json_parse(tc_task_result(t), tc_task_current(t)->input, &v, err) < 0)
        return err->code;
    if (!tc_json_as_i64(v, &n))
        return tc_err_set(err, TC_E_INVALID, "'%.*s' is no number",
                          TC_STR_ARG(tc_task_current(t)->input));
    snprintf(result, sizeof result, "%" PRId64, n * n);
    tc_next next = {.kind = TC_NEXT_COMPLETED, .result = text(result)};
    return tc_task_next(t, &next, err);
}

static const tc_task_phase SQUARE_PHASES[] = {{"start", square}};
static const tc_task_def SQUARE = {.size = sizeof(tc_task_def),
                                   .name = "demo.square",
                                   .version = 1,
                                   .initial = begin,
                                   .phases = SQUARE_PHASES,
                                   .nphases = 1,
                                   .abort = give_up};

/* ---- the parent: {"numbers":[...]} ---- */

enum { CHILDREN_MAX = 16 };

/* Children and the wait for them are one commit: there is no moment in which one is forgotten. */
static int spread(tc_task *t, tc_err *err)
{
    const tc_json *input;
    uint64_t ids[CHILDREN_MAX];
    size_t n = 0;
    tc_tx *tx;
    tc_str unit;
    /* A memo: decided once, whatever happens afterwards. */
    if (tc_task_memo(t, TC_STR("unit"), TC_STR("\"apples\""), &unit, err) < 0 ||
        tc_json_parse(tc_task_result(t), tc_task_current(t)->input, &input, err) < 0 ||
        tc_task_begin(t, &tx, NULL, err) < 0)
        return err->code;
    const tc_json *numbers = tc_json_get(input, TC_STR("numbers"));
    tc_task_options options = TC_TASK_OPTIONS;
    options.owner_task_id = tc_task_current(t)->id;
    for (; n < tc_json_count(numbers) && n < CHILDREN_MAX; n++) {
        tc_str number;
        if (tc_json_text(tc_json_item(numbers, n), tc_task_result(t), &number, err) < 0 ||
            tc_tx_create_task_of(tx, &SQUARE, number, &options, &ids[n], err) < 0) {
            tc_tx_rollback(tx);
            return err->code;
        }
    }
    char checkpoint[512];
    int len = snprintf(checkpoint, sizeof checkpoint, "{\"phase\":\"add\",\"children\":[");
    for (size_t i = 0; i < n; i++)
        len += snprintf(checkpoint + len, sizeof checkpoint - (size_t)len, "%s%" PRIu64,
                        i > 0 ? "," : "", ids[i]);
    snprintf(checkpoint + len, sizeof checkpoint - (size_t)len, "]}");
    tc_next next = {.kind = TC_NEXT_WAITING, .checkpoint = text(checkpoint), .on = ids, .non = n};
    return tc_task_commit(t, tx, &next, err);
}

/* Runs when all of them have ended, in this process or a later one. */
static int add(tc_task *t, tc_err *err)
{
    const tc_json *checkpoint, *outcome;
    int64_t sum = 0, one = 0;
    bool is_known;
    tc_str unit, json;
    char result[128];
    if (tc_json_parse(tc_task_result(t), tc_task_current(t)->checkpoint, &checkpoint, err) < 0 ||
        tc_task_get_memo(t, TC_STR("unit"), &is_known, &unit, err) < 0)
        return err->code;
    const tc_json *children = tc_json_get(checkpoint, TC_STR("children"));
    for (size_t i = 0; i < tc_json_count(children); i++) {
        uint64_t id = 0;
        (void)tc_json_as_u64(tc_json_item(children, i), &id);
        if (tc_task_outcome(t, id, &json, err) < 0 ||
            tc_json_parse(tc_task_result(t), json, &outcome, err) < 0)
            return err->code;
        if (tc_json_as_i64(tc_json_get(outcome, TC_STR("result")), &one))
            sum += one;
    }
    snprintf(result, sizeof result, "{\"sum\":%" PRId64 ",\"unit\":%.*s}", sum, TC_STR_ARG(unit));
    tc_next next = {.kind = TC_NEXT_COMPLETED, .result = text(result)};
    return tc_task_next(t, &next, err);
}

static const tc_task_phase SUM_PHASES[] = {{"start", spread}, {"add", add}};
static const tc_task_def SUM = {.size = sizeof(tc_task_def),
                                .name = "demo.sum",
                                .version = 1,
                                .initial = begin,
                                .phases = SUM_PHASES,
                                .nphases = 2,
                                .abort = give_up};
static const tc_task_def *const DEFS[] = {&SUM, &SQUARE};

static int create(tc_harness *h, uint64_t conversation, const char *input, uint64_t *ret_id,
                  tc_err *err)
{
    tc_tx *tx;
    tc_task_options options = TC_TASK_OPTIONS;
    options.conversation_id = conversation;
    if (tc_durable_begin(tc_harness_session(h), NULL, &tx, err) < 0)
        return err->code;
    if (tc_tx_create_task_of(tx, &SUM, text(input), &options, ret_id, err) < 0) {
        tc_tx_rollback(tx);
        return err->code;
    }
    return tc_tx_commit(tx, err);
}

static int work(tc_harness *h, tc_result *r, tc_err *err)
{
    uint64_t root, id;
    tc_str record;
    const tc_json *v;
    if (tc_harness_root(h, NULL, NULL, &root, err) < 0 ||
        create(h, root, "{\"numbers\":[1,2,3,4]}", &id, err) < 0 ||
        tc_harness_wait_task(h, NULL, id, r, &record, err) < 0 ||
        tc_json_parse(r, record, &v, err) < 0 ||
        tc_json_text(tc_json_find(v, "/state/outcome/result"), r, &record, err) < 0)
        return err->code;
    printf("%.*s\n", TC_STR_ARG(record));
    return 0;
}

int main(int argc, char **argv)
{
    tc_err err;
    tc_result *r = NULL;
    tc_registry *registry = NULL;
    tc_durable *session = NULL;
    tc_harness *h = NULL;
    if (argc != 2) {
        fprintf(stderr, "usage: task_phases PATH\n");
        return 2;
    }
    tc_harness_options options = {.size = sizeof options};
    int rc = tc_result_new(&r, &err);
    if (rc == 0)
        rc = tc_registry_new(&registry, &err);
    if (rc == 0)
        rc = tc_registry_install_tasks(registry, TC_STR("demo"), DEFS, sizeof DEFS / sizeof *DEFS,
                                       &err);
    if (rc == 0)
        rc = tc_durable_open(text(argv[1]), NULL, &session, &err);
    options.registry = registry;
    if (rc == 0)
        rc = tc_harness_open(session, &options, NULL, &h, &err);
    if (rc == 0)
        rc = work(h, r, &err);
    if (rc < 0)
        rc = fail("task_phases", &err);
    tc_harness_free(h);
    tc_registry_free(registry);
    tc_result_free(r);
    return rc;
}
