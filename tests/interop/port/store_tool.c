/* SPDX-License-Identifier: Apache-2.0
 *
 * store_tool COMMAND PATH: a storage driven from outside, for tests that set it beside another
 * implementation or kill it.
 *     apply   one array of writes a line on standard input; answers "seq N" or "error TEXT" each
 *             before an array: L, this commit is not synced by itself; D, it waits for the next one
 *     lazy    the same, the commits not synced by themselves
 *     history  one [id,last] a line on standard input; for each commit up to the last one, null or
 *             [version,value] of the document as of it
 *     dump    everything, as tests/lib/store_script.h says
 *     check   damage, one line each, then "sound N damaged N commits N"
 *     repair  the same, then what was moved aside
 *     hold    open, say "open", and keep it until standard input ends */
#include "store_script.h"

#include <stdio.h>
#include <stdlib.h>

static int fail(const tc_err *err)
{
    printf("error %s: %s\n", tc_code_name(err->code), err->msg);
    return 1;
}

static int apply(tci_store *store, tci_commit_how how)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    while ((len = getline(&line, &cap, stdin)) > 0) {
        tc_err err;
        uint64_t seq;
        tc_str writes = tci_str_of(line, (size_t)len);
        tci_commit_how own = line[0] == 'L'   ? TCI_COMMIT_LAZY
                             : line[0] == 'D' ? TCI_COMMIT_DEFERRED
                                              : how;
        if (line[0] != '[')
            writes = tci_str_sub(writes, 1, writes.len);
        if (script_commit(store, writes, own, &seq, &err) < 0)
            (void)fail(&err);
        else
            printf("seq %llu\n", (unsigned long long)seq);
        (void)fflush(stdout);
    }
    free(line); /* getline's own: from the C library's heap */
    return 0;
}

static int dump(tci_store *store)
{
    tc_err err;
    tci_buf out;
    tci_buf_init(&out, TCI_BUF_MAX);
    int rc = script_dump(store, false, &out, &err);
    (void)fwrite(out.ptr, 1, out.len, stdout);
    tci_buf_done(&out);
    return rc < 0 ? fail(&err) : 0;
}

static int put_value(tci_store *store, uint64_t id, uint64_t at, tci_arena *a, tc_err *err)
{
    tci_document_state state;
    tci_tree value = TCI_TREE_NONE;
    tci_buf out;
    int rc = tci_store_document(store, id, at, a, &state, &value, err);
    if (rc < 0)
        return rc;
    tci_buf_init(&out, TCI_BUF_MAX);
    if (state.record.id == 0) {
        tci_buf_append_str(&out, TC_STR("null"));
    } else {
        tci_buf_printf(&out, "[%llu,", (unsigned long long)state.version);
        tci_json_put(&out, &value.root, TCI_JSON_AS_IS);
        tci_buf_append_byte(&out, ']');
    }
    printf("%.*s\n", TC_STR_ARG(tci_buf_str(&out)));
    tci_tree_done(&value);
    tci_buf_done(&out);
    return 0;
}

static int history(tci_store *store)
{
    char line[256];
    int rc = 0;
    tc_err err;
    tci_arena a;
    tci_arena_init(&a, 0);
    while (rc == 0 && fgets(line, sizeof line, stdin) != NULL) {
        tci_json v;
        uint64_t id = 0, last = 0;
        rc = tci_json_parse(tci_str(line), 0, &a, &v, &err);
        if (rc == 0 && v.kind == TCI_JSON_ARRAY && v.count == 2) {
            (void)tci_json_as_u64(&v.u.items[0], &id);
            (void)tci_json_as_u64(&v.u.items[1], &last);
        }
        for (uint64_t at = 1; rc == 0 && at <= last; at++)
            rc = put_value(store, id, at, &a, &err);
    }
    tci_arena_done(&a);
    return rc < 0 ? fail(&err) : 0;
}

static void on_damage(void *user, const tci_damage *d)
{
    TCI_UNUSED(user);
    printf("%s: %.*s: %.*s\n", d->is_lost ? "lost" : "damaged", TC_STR_ARG(d->where),
           TC_STR_ARG(d->what));
}

static int look_after(tc_str path, bool is_repair)
{
    tc_err err;
    tci_arena a;
    tci_check_report report = {.nrecords = 0};
    tc_str aside = {NULL, 0};
    tci_arena_init(&a, 0);
    int rc = is_repair ? tci_store_repair(path, on_damage, NULL, &a, &aside, &report, &err)
                       : tci_store_check(path, on_damage, NULL, &report, &err);
    if (rc < 0) {
        (void)fail(&err);
    } else {
        printf("sound %llu damaged %llu commits %llu\n", (unsigned long long)report.nrecords,
               (unsigned long long)report.ndamaged, (unsigned long long)report.ncommits);
        if (aside.len != 0)
            printf("aside %.*s\n", TC_STR_ARG(aside));
    }
    tci_arena_done(&a);
    return rc < 0 ? 1 : 0;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    tc_str command = tci_str(argv[1]), path = tci_str(argv[2]);
    bool is_dump = tci_str_eq(command, TC_STR("dump"));
    bool is_history = tci_str_eq(command, TC_STR("history"));
    tc_err err;
    tci_store *store;
    if (tci_str_eq(command, TC_STR("check")) || tci_str_eq(command, TC_STR("repair")))
        return look_after(path, command.ptr[0] == 'r');
    tci_store_options options = {.is_read_only = is_dump || is_history};
    if (tci_store_open(path, &options, &store, &err) < 0)
        return fail(&err);
    int status = 0;
    if (is_dump) {
        status = dump(store);
    } else if (is_history) {
        status = history(store);
    } else if (tci_str_eq(command, TC_STR("hold"))) {
        puts("open");
        (void)fflush(stdout);
        while (getchar() != EOF)
            continue;
    } else {
        status =
            apply(store, tci_str_eq(command, TC_STR("lazy")) ? TCI_COMMIT_LAZY : TCI_COMMIT_SYNCED);
    }
    if (tci_store_close(store, &err) < 0)
        return fail(&err);
    return status;
}
