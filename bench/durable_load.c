/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads for sessions, one a run: durable_load WHAT PATH [N] [full|normal]. Prints one JSON object with wall and CPU
 * time of the part that counts. bench_durable.py drives it beside the Python port.
 *   fill      N entries of 600 bytes, 250 a commit
 *   entry     N commits of one entry
 *   step      N commits of a tool step: a task's record and the whole value of a small document
 *   partial   N commits that each append 40 bytes to a text of 200 KB, through the session
 *   open      open and close
 *   context   the messages of everything that conversation 1 holds */
#include "base/buf.h"
#include "base/json.h"
#include "base/num.h"
#include "plat/clock.h"
#include "session/session.h"
#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <telechir/agent.h>
#include <telechir/harness.h>

typedef struct load {
    const char *path;
    uint64_t n;
    tci_durability durability;
    tc_err err;
    double wall, cpu;
} load;

static double cpu_now(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static double started_wall, started_cpu;

static void begin(void)
{
    started_cpu = cpu_now();
    started_wall = (double)tci_clock_mono_ns() / 1e9;
}

static void end(load *l)
{
    l->wall = (double)tci_clock_mono_ns() / 1e9 - started_wall;
    l->cpu = cpu_now() - started_cpu;
}

static int open_store(load *l, tci_store **store)
{
    tci_store_options options = {.durability = l->durability};
    return tci_store_open(tci_str(l->path), &options, store, &l->err);
}

static int add_root(load *l, tci_store *store)
{
    uint64_t seq;
    tci_write w = {.type = TCI_WRITE_CONVERSATION,
                   .u.conversation = {.json = TC_STR("{\"id\":1}"), .id = 1}};
    return tci_store_commit(store, &w, 1, TCI_COMMIT_SYNCED, &seq, &l->err);
}

static tc_str entry_text(tci_buf *b, uint64_t id)
{
    tci_buf_clear(b);
    tci_buf_printf(
        b,
        "{\"id\":%llu,\"conversationId\":1,\"kind\":\"pi.user\",\"model\":[{\"role\":\"user\","
        "\"content\":\"",
        (unsigned long long)id);
    while (b->len < 560)
        tci_buf_append_str(b, TC_STR("some words of a prompt, "));
    tci_buf_printf(b, "\",\"timestamp\":1700000000000}]}");
    return tci_buf_str(b);
}

static tci_write entry_write(tci_buf *b, uint64_t id)
{
    return (tci_write){.type = TCI_WRITE_ENTRY,
                       .u.entry = {.json = entry_text(b, id),
                                   .id = id,
                                   .conversation_id = 1,
                                   .kind = TC_STR("pi.user"),
                                   .has_model = true}};
}

enum { BATCH = 250 };

static int add_entries(load *l, tci_store *store, uint64_t batch)
{
    static tci_buf texts[BATCH];
    tci_write writes[BATCH];
    for (uint64_t done = 0; done < l->n; done += batch) {
        uint64_t seq, id, n = batch < l->n - done ? batch : l->n - done;
        for (uint64_t i = 0; i < n; i++) {
            if (texts[i].max == 0)
                tci_buf_init(&texts[i], TCI_BUF_MAX);
            if (tci_store_mint(store, &id, &l->err) < 0)
                return l->err.code;
            writes[i] = entry_write(&texts[i], id);
        }
        if (tci_store_commit(store, writes, n, TCI_COMMIT_SYNCED, &seq, &l->err) < 0)
            return l->err.code;
    }
    return 0;
}

static int run_entries(load *l, uint64_t batch)
{
    tci_store *store;
    if (open_store(l, &store) < 0 || add_root(l, store) < 0)
        return l->err.code;
    begin();
    int rc = add_entries(l, store, batch);
    end(l);
    return rc < 0 ? rc : tci_store_close(store, &l->err);
}

static int run_fill(load *l)
{
    return run_entries(l, BATCH);
}

static int run_entry(load *l)
{
    return run_entries(l, 1);
}

/* Texts are put together without formatting, which would be a good part of what is measured. */
static tc_str around(tci_buf *b, tc_str before, uint64_t i, tc_str after)
{
    tci_buf_clear(b);
    tci_buf_append_str(b, before);
    tci_buf_append_u64(b, i);
    tci_buf_append_str(b, after);
    return tci_buf_str(b);
}

static tc_str task_text(tci_buf *b, uint64_t i)
{
    return around(
        b,
        TC_STR("{\"id\":3,\"conversationId\":1,\"kind\":\"pi.tool\",\"version\":2,\"input\":{"
               "\"kind\":\"model\",\"assistant\":11,\"callId\":\"c1\"},\"background\":false,"
               "\"abortRequested\":false,\"state\":{\"status\":\"running\",\"checkpoint\":{"
               "\"phase\":\"execute\",\"arguments\":{\"text\":\""),
        i, TC_STR("\"},\"replay\":\"unsafe\"}},\"owner\":9,\"startedAt\":1700000000059}"));
}

static tc_str live_text(tci_buf *b, uint64_t i)
{
    return around(b,
                  TC_STR("{\"run\":{\"taskId\":9,\"inputs\":[8]},\"tools\":[{\"callId\":\"c1\","
                         "\"name\":\"echo\",\"taskId\":3,\"status\":\"running\",\"output\":\""),
                  i, TC_STR("\"}]}"));
}

static int run_step(load *l)
{
    tci_store *store;
    tci_buf task, live;
    uint64_t seq;
    tci_buf_init(&task, TCI_BUF_MAX);
    tci_buf_init(&live, TCI_BUF_MAX);
    if (open_store(l, &store) < 0 || add_root(l, store) < 0)
        return l->err.code;
    tci_document d = {.id = 2,
                      .kind = TC_STR("pi.live"),
                      .scope = TCI_SCOPE_CONVERSATION,
                      .owner_id = 1,
                      .history = TCI_HISTORY_LATEST,
                      .fork = TCI_FORK_INITIAL};
    tci_buf record;
    tci_buf_init(&record, TCI_BUF_MAX);
    tci_document_put(&record, &d);
    d.json = tci_buf_str(&record);
    tci_write create = {.type = TCI_WRITE_DOC_CREATE,
                        .u.document = d,
                        .content = {.version = 1, .json = TC_STR("{}")}};
    if (tci_store_commit(store, &create, 1, TCI_COMMIT_SYNCED, &seq, &l->err) < 0)
        return l->err.code;
    begin();
    for (uint64_t i = 0; i < l->n; i++) {
        tci_write w[2] = {{.type = TCI_WRITE_TASK,
                           .u.task = {.json = task_text(&task, i),
                                      .id = 3,
                                      .conversation_id = 1,
                                      .kind = TC_STR("pi.tool"),
                                      .version = 2,
                                      .owner = 9,
                                      .status = TCI_TASK_RUNNING}},
                          {.type = TCI_WRITE_DOC_CHANGE,
                           .u.document = {.id = 2},
                           .content = {.version = 1, .json = live_text(&live, i)}}};
        if (tci_store_commit(store, w, 2, TCI_COMMIT_SYNCED, &seq, &l->err) < 0)
            return l->err.code;
    }
    end(l);
    return tci_store_close(store, &l->err);
}

static int run_partial(load *l)
{
    static const tc_doc_def def = {.size = sizeof def,
                                   .kind = "bench.live",
                                   .version = 1,
                                   .scope = TC_SCOPE_SESSION,
                                   .initial_json = "{\"text\":\"\"}",
                                   .checkpoint_when = tc_checkpoint_never};
    tc_durable_options options = {.size = sizeof options,
                                  .durability = l->durability == TCI_DURABILITY_FULL
                                                    ? TC_DURABILITY_FULL
                                                    : TC_DURABILITY_NORMAL};
    static char text[200000];
    tc_durable *s;
    tc_tx *tx;
    tc_doc *doc;
    tc_str none = {NULL, 0};
    memset(text, 'x', sizeof text);
    if (tc_durable_open(tci_str(l->path), &options, &s, &l->err) < 0)
        return l->err.code;
    for (uint64_t i = 0; i <= l->n; i++) {
        tc_str piece = i == 0 ? tci_str_of(text, sizeof text) : tci_str_of(text, 40);
        if (i == 1)
            begin();
        if (tc_durable_begin(s, NULL, &tx, &l->err) < 0 ||
            tc_tx_doc(tx, &def, 0, none, none, &doc, &l->err) < 0 ||
            tc_doc_append(doc, TC_STR("/text"), piece, &l->err) < 0 ||
            tci_tx_commit(tx, TCI_TX_LAZY, NULL, &l->err) < 0)
            return l->err.code;
    }
    end(l);
    tc_durable_free(s);
    return 0;
}

static int run_open(load *l)
{
    tci_store *store;
    begin();
    if (open_store(l, &store) < 0)
        return l->err.code;
    end(l);
    return tci_store_close(store, &l->err);
}

static int run_context(load *l)
{
    tc_durable *s;
    tc_registry *registry;
    tc_harness *h;
    tc_result *r;
    tc_context_view view;
    if (tc_durable_open(tci_str(l->path), NULL, &s, &l->err) < 0 ||
        tc_registry_new(&registry, &l->err) < 0 || tc_result_new(&r, &l->err) < 0)
        return l->err.code;
    tc_harness_options options = {.size = sizeof options, .registry = registry};
    if (tc_harness_open(s, &options, NULL, &h, &l->err) < 0)
        return l->err.code;
    tc_call call = TC_CALL(NULL, r);
    begin();
    int rc = tc_conversation_context(h, &call, 1, 0, &view, &l->err);
    end(l);
    l->n = rc == 0 ? view.nmessages : 0;
    tc_harness_free(h);
    tc_registry_free(registry);
    tc_result_free(r);
    return rc;
}

static const struct {
    const char *name;
    int (*run)(load *l);
} loads[] = {{"fill", run_fill},       {"entry", run_entry}, {"step", run_step},
             {"partial", run_partial}, {"open", run_open},   {"context", run_context}};

int main(int argc, char **argv)
{
    load l = {.durability = TCI_DURABILITY_FULL};
    struct rusage u;
    if (argc < 3) {
        (void)fprintf(
            stderr,
            "usage: durable_load fill|entry|step|partial|open|context PATH [N] [full|normal]\n");
        return 2;
    }
    l.path = argv[2];
    if (argc > 3 && tci_num_u64(tci_str(argv[3]), &l.n, &l.err) < 0)
        return 2;
    if (argc > 4 && strcmp(argv[4], "normal") == 0)
        l.durability = TCI_DURABILITY_NORMAL;
    for (size_t i = 0; i < sizeof loads / sizeof loads[0]; i++) {
        if (strcmp(argv[1], loads[i].name) != 0)
            continue;
        if (loads[i].run(&l) < 0) {
            (void)fprintf(stderr, "durable_load %s: %s\n", argv[1], l.err.msg);
            return 1;
        }
        getrusage(RUSAGE_SELF, &u);
        (void)printf("{\"n\":%llu,\"wall_s\":%.6f,\"cpu_s\":%.6f,\"max_rss_kb\":%ld}\n",
                     (unsigned long long)l.n, l.wall, l.cpu, u.ru_maxrss);
        return 0;
    }
    return 2;
}
