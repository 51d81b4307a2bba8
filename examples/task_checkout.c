/* SPDX-License-Identifier: Apache-2.0
 *
 * A checkout that owns four payments and waits for them failFast: as soon as one fails the others are
 * aborted, and each takes back what it has done. The graph shows who waits for whom. Then a second
 * checkout is aborted as a whole, over a restart of the program.
 *
 *     task_checkout PATH */
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

static int begin(void *user, tc_str input, tc_result *r, tc_str *ret_checkpoint, tc_err *err)
{
    (void)user;
    (void)input;
    return tc_result_dup(r, TC_STR("{\"phase\":\"start\"}"), ret_checkpoint, err);
}

/* ---- a payment: its input is the card ---- */

/* One card is refused; the others are charged and then wait for their bank, which never answers. */
static int charge(tc_task *t, tc_err *err)
{
    bool is_refused = tc_task_current(t)->input.len == sizeof("\"bad\"") - 1 &&
                      memcmp(tc_task_current(t)->input.ptr, "\"bad\"", 5) == 0;
    if (is_refused) {
        tc_next next = {.kind = TC_NEXT_FAILED,
                        .message = TC_STR("card refused"),
                        .detail = TC_STR("{\"code\":\"refused\"}")};
        return tc_task_next(t, &next, err);
    }
    return tc_task_sleep_until(t, tc_task_now(t) + 3600000, TC_STR("{\"phase\":\"settled\"}"), err);
}

static int settled(tc_task *t, tc_err *err)
{
    tc_next next = {.kind = TC_NEXT_COMPLETED, .result = TC_STR("\"paid\"")};
    return tc_task_next(t, &next, err);
}

static int refund(tc_task *t, tc_err *err)
{
    tc_next next = {
        .kind = TC_NEXT_ABORTED, .reason = TC_STR("not needed"), .result = TC_STR("\"refunded\"")};
    return tc_task_next(t, &next, err);
}

static const tc_task_phase PAYMENT_PHASES[] = {{"start", charge}, {"settled", settled}};
static const tc_task_def PAYMENT = {.size = sizeof(tc_task_def),
                                    .name = "demo.payment",
                                    .version = 1,
                                    .initial = begin,
                                    .phases = PAYMENT_PHASES,
                                    .nphases = 2,
                                    .abort = refund};

/* ---- the checkout: its input is the four cards ---- */

enum { PAYMENTS = 4 };

static int collect(tc_task *t, tc_err *err)
{
    uint64_t ids[PAYMENTS];
    const tc_json *cards;
    tc_tx *tx;
    tc_task_options options = TC_TASK_OPTIONS;
    options.owner_task_id = tc_task_current(t)->id;
    if (tc_json_parse(tc_task_result(t), tc_task_current(t)->input, &cards, err) < 0 ||
        tc_task_begin(t, &tx, NULL, err) < 0)
        return err->code;
    for (size_t i = 0; i < PAYMENTS; i++) {
        tc_str card;
        if (tc_json_text(tc_json_item(cards, i), tc_task_result(t), &card, err) < 0 ||
            tc_tx_create_task_of(tx, &PAYMENT, card, &options, &ids[i], err) < 0) {
            tc_tx_rollback(tx);
            return err->code;
        }
    }
    tc_next next = {.kind = TC_NEXT_WAITING,
                    .checkpoint = TC_STR("{\"phase\":\"decide\"}"),
                    .on = ids,
                    .non = PAYMENTS,
                    .policy = TC_WAIT_FAIL_FAST};
    return tc_task_commit(t, tx, &next, err);
}

static int decide(tc_task *t, tc_err *err)
{
    tc_next next = {.kind = TC_NEXT_COMPLETED, .result = TC_STR("\"the sale is off\"")};
    return tc_task_next(t, &next, err);
}

static int call_off(tc_task *t, tc_err *err)
{
    tc_next next = {.kind = TC_NEXT_ABORTED, .reason = TC_STR("called off")};
    return tc_task_next(t, &next, err);
}

static const tc_task_phase CHECKOUT_PHASES[] = {{"start", collect}, {"decide", decide}};
static const tc_task_def CHECKOUT = {.size = sizeof(tc_task_def),
                                     .name = "demo.checkout",
                                     .version = 1,
                                     .initial = begin,
                                     .phases = CHECKOUT_PHASES,
                                     .nphases = 2,
                                     .abort = call_off};
static const tc_task_def *const DEFS[] = {&CHECKOUT, &PAYMENT};

/* ---- the program ---- */

typedef struct shop {
    const char *path;
    tc_registry *registry;
    tc_harness *h;
    tc_result *r;
    uint64_t root;
} shop;

static int open_shop(shop *s, tc_err *err)
{
    tc_durable *session;
    tc_harness_options options = {.size = sizeof options, .registry = s->registry};
    if (tc_durable_open(text(s->path), NULL, &session, err) < 0 ||
        tc_harness_open(session, &options, NULL, &s->h, err) < 0)
        return err->code;
    return tc_harness_root(s->h, NULL, NULL, &s->root, err);
}

static int sell(shop *s, const char *cards, uint64_t *ret_id, tc_err *err)
{
    tc_tx *tx;
    tc_task_options options = TC_TASK_OPTIONS;
    options.conversation_id = s->root;
    if (tc_durable_begin(tc_harness_session(s->h), NULL, &tx, err) < 0)
        return err->code;
    if (tc_tx_create_task_of(tx, &CHECKOUT, text(cards), &options, ret_id, err) < 0) {
        tc_tx_rollback(tx);
        return err->code;
    }
    return tc_tx_commit(tx, err);
}

/* How a task and those created right after it ended. */
static int print_outcomes(shop *s, uint64_t first, size_t n, tc_err *err)
{
    for (uint64_t id = first; id < first + n; id++) {
        tc_str record, outcome;
        const tc_json *v;
        if (tc_harness_wait_task(s->h, NULL, id, s->r, &record, err) < 0 ||
            tc_json_parse(s->r, record, &v, err) < 0 ||
            tc_json_text(tc_json_find(v, "/state/outcome"), s->r, &outcome, err) < 0)
            return err->code;
        printf("  %.*s\n", TC_STR_ARG(outcome));
    }
    return 0;
}

/* Follow the graph until the checkout waits for its payments. */
static int show_graph(shop *s, tc_watch *watch, uint64_t id, tc_err *err)
{
    char at[64];
    tc_str status = {NULL, 0}, state;
    snprintf(at, sizeof at, "/tasks/%" PRIu64 "/state", id);
    for (;;) {
        tc_frame frame;
        const tc_json *v = tc_json_find(tc_watch_value(watch), at);
        if (tc_json_as_str(tc_json_get(v, TC_STR("status")), &status) && status.len == 7 &&
            memcmp(status.ptr, "waiting", 7) == 0) {
            if (tc_json_text(v, s->r, &state, err) < 0)
                return err->code;
            printf("the checkout: %zu in the graph, %.*s\n",
                   tc_json_count(tc_json_find(tc_watch_value(watch), "/tasks")), TC_STR_ARG(state));
            return 0;
        }
        if (tc_watch_next(watch, NULL, &frame, err) < 0)
            return err->code;
    }
}

static int call_off_later(shop *s, uint64_t *ret_id, tc_err *err)
{
    tc_watch *watch;
    bool is_terminal;
    if (tc_harness_watch_task_graph(s->h, NULL, &watch, err) < 0)
        return err->code;
    int rc = sell(s, "[\"a\",\"b\",\"c\",\"d\"]", ret_id, err);
    if (rc == 0)
        rc = show_graph(s, watch, *ret_id, err);
    tc_watch_free(watch);
    tc_harness_free(s->h); /* another day */
    s->h = NULL;
    if (rc == 0)
        rc = open_shop(s, err);
    return rc < 0 ? rc : tc_harness_abort_task(s->h, NULL, *ret_id, &is_terminal, err);
}

static int work(shop *s, tc_err *err)
{
    uint64_t id;
    if (open_shop(s, err) < 0 || sell(s, "[\"a\",\"b\",\"bad\",\"d\"]", &id, err) < 0)
        return err->code;
    printf("one card is bad:\n");
    if (print_outcomes(s, id, 1 + PAYMENTS, err) < 0 || call_off_later(s, &id, err) < 0)
        return err->code;
    printf("called off after a restart:\n");
    return print_outcomes(s, id, 1 + PAYMENTS, err);
}

int main(int argc, char **argv)
{
    tc_err err;
    shop s = {0};
    if (argc != 2) {
        fprintf(stderr, "usage: task_checkout PATH\n");
        return 2;
    }
    s.path = argv[1];
    int rc = tc_result_new(&s.r, &err);
    if (rc == 0)
        rc = tc_registry_new(&s.registry, &err);
    if (rc == 0)
        rc = tc_registry_install_tasks(s.registry, TC_STR("demo"), DEFS, sizeof DEFS / sizeof *DEFS,
                                       &err);
    if (rc == 0)
        rc = work(&s, &err);
    if (rc < 0) {
        fprintf(stderr, "task_checkout: %s\n", err.msg);
        rc = tc_code_exit_status(err.code);
    }
    tc_harness_free(s.h);
    tc_registry_free(s.registry);
    tc_result_free(s.r);
    return rc;
}
