/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests of the pi-env server: from a frame to its handler, by number while they live, through work on
 * other threads, to their end. Leaves what an operation does to its handler. Loop thread.
 *
 * Invariant: a request is in the list and in the table from before its handler runs until it is freed,
 * and one whose work is under way is freed only after that. */
#include "daemon/pienv/pienv_core_int.h"

#include "plat/env.h"
#include "plat/proc.h"
#include "plat/system.h"

#include <errno.h>

enum { FREE_MAX = 64, HANDLERS = TCI_PI_OP_COUNT };

static const tci_pi_handler handlers[HANDLERS] = {
    [TCI_PI_HELLO] = tci_pi_on_hello,
    [TCI_PI_LSTAT] = tci_pi_on_lstat,
    [TCI_PI_REALPATH] = tci_pi_on_realpath,
    [TCI_PI_WRITE] = tci_pi_on_write,
    [TCI_PI_WRITE_CHUNK] = tci_pi_on_write_chunk,
    [TCI_PI_COMMIT] = tci_pi_on_commit,
    [TCI_PI_TRUNCATE] = tci_pi_on_truncate,
    [TCI_PI_FSYNC] = tci_pi_on_fsync,
    [TCI_PI_SYNCFS] = tci_pi_on_syncfs,
    [TCI_PI_RENAME] = tci_pi_on_rename,
    [TCI_PI_MKDIR] = tci_pi_on_mkdir,
    [TCI_PI_RM] = tci_pi_on_rm,
    [TCI_PI_MKDTEMP] = tci_pi_on_mkdtemp,
    [TCI_PI_OPEN] = tci_pi_on_open,
    [TCI_PI_PREAD] = tci_pi_on_pread,
    [TCI_PI_FSTAT] = tci_pi_on_fstat,
    [TCI_PI_SCAN_LINES] = tci_pi_on_scan_lines,
    [TCI_PI_OPENDIR] = tci_pi_on_opendir,
    [TCI_PI_READDIR] = tci_pi_on_readdir,
    [TCI_PI_CLOSE] = tci_pi_on_close,
    [TCI_PI_EXEC] = tci_pi_on_exec,
    [TCI_PI_INPUT] = tci_pi_on_input,
    [TCI_PI_WATCH] = tci_pi_on_watch,
    [TCI_PI_LIST_FILES] = tci_pi_on_list_files,
};

/* ---- life ---- */

static tci_pi_req **slot_of(tci_pi_server *s, uint32_t id)
{
    return &s->by_id[id % TCI_PI_SLOTS];
}

tci_pi_req *tci_pi_req_find(const tci_pi_server *s, uint32_t id)
{
    tci_pi_req *r = s->by_id[id % TCI_PI_SLOTS];
    while (r != NULL && r->id != id)
        r = r->next_same;
    return r;
}

static tci_pi_req *req_new(tci_pi_server *s, uint32_t id)
{
    tci_link *k = tci_list_pop_front(&s->free_requests);
    tci_pi_req *r = k != NULL ? TCI_CONTAINER(k, tci_pi_req, link) : tci_new(tci_pi_req);
    if (r == NULL)
        return NULL;
    if (k != NULL)
        s->nfree--;
    else
        tci_arena_init(&r->arena, 0);
    r->server = s;
    r->id = id;
    tci_buf_init(&r->out, TCI_BUF_MAX);
    tci_list_push_back(&s->requests, &r->link);
    r->next_same = *slot_of(s, id);
    *slot_of(s, id) = r;
    s->nrequests++;
    return r;
}

void tci_pi_req_free(tci_pi_req *r)
{
    tci_pi_server *s = r->server;
    tci_arena arena = r->arena;
    tci_pi_req **at = slot_of(s, r->id);
    TC_ASSERT(!r->is_parked);
    while (*at != r)
        at = &(*at)->next_same;
    *at = r->next_same;
    tci_link_remove(&r->link);
    tci_link_remove(&r->turn);
    tci_pi_handle_unref(r->handle);
    tci_pi_block_free(s, r->own, r->own_len);
    tci_buf_done(&r->out);
    s->inbound_bytes -= r->own_bytes;
    s->nrequests--;
    if (s->nfree >= FREE_MAX || s->is_ending) {
        tci_arena_done(&arena);
        tci_free(r);
        return;
    }
    tci_arena_clear(&arena);
    memset(r, 0, sizeof *r);
    r->arena = arena;
    tci_list_push_front(&s->free_requests, &r->link);
    s->nfree++;
}

static void close_now(tci_pi_req *r)
{
    void (*on_close)(tci_pi_req *) = r->on_close;
    r->on_close = NULL;
    if (on_close != NULL)
        on_close(r);
    tci_pi_req_free(r);
}

void tci_pi_requests_close(tci_pi_server *s)
{
    TCI_LIST_EACH (&s->requests, k)
        TCI_CONTAINER(k, tci_pi_req, link)->is_closed = true;
    TCI_LIST_EACH (&s->requests, k) {
        tci_pi_req *r = TCI_CONTAINER(k, tci_pi_req, link);
        atomic_store(&r->cancel.is_cancelled, true);
        if (!r->is_parked)
            close_now(r);
    }
}

/* ---- work on other threads ---- */

static void work_done(tci_pi_req *r)
{
    tci_pi_server *s = r->server;
    tci_pi_handler after = r->after;
    r->is_parked = false;
    s->nparked--;
    if (r->is_closed) {
        close_now(r);
        tci_pi_check_end(s);
        return;
    }
    if (after != NULL)
        after(r);
    else
        tci_pi_finish(r);
    tci_pi_want_flush(s); /* what was too much to be read may be read now */
}

static void job_work(tci_job *job)
{
    tci_pi_req *r = TCI_CONTAINER(job, tci_pi_req, job);
    r->work(r);
}

static void job_done(tci_job *job)
{
    tci_pi_req *r = TCI_CONTAINER(job, tci_pi_req, job);
    r->server->njobs--;
    work_done(r);
}

static void task_run(tci_pi_task *task)
{
    tci_pi_req *r = TCI_CONTAINER(task, tci_pi_req, task);
    r->work(r);
}

static void task_done(tci_pi_task *task)
{
    work_done(TCI_CONTAINER(task, tci_pi_req, task));
}

void tci_pi_work(tci_pi_req *r, tci_pi_lane lane, void (*work)(tci_pi_req *r), tci_pi_handler after)
{
    tci_pi_server *s = r->server;
    TC_ASSERT(!r->is_parked);
    r->is_parked = true;
    s->nparked++;
    r->work = work;
    r->after = after;
    if (lane == TCI_PI_STUCK) {
        /* What hangs must not keep the rest from being read. */
        s->inbound_bytes -= r->own_bytes;
        r->own_bytes = 0;
        r->task = (tci_pi_task){.run = task_run, .done = task_done};
        tci_pi_stuck_submit(&s->stuck, &r->task);
        return;
    }
    s->njobs++;
    r->job = (tci_job){.work = job_work, .done = job_done};
    tci_job_submit(s->loop, lane == TCI_PI_BULKY ? TCI_JOB_BULK : TCI_JOB_QUICK, &r->job);
}

void tci_pi_abort_work(tci_pi_req *r, bool is_kill)
{
    if (!is_kill)
        atomic_store(&r->cancel.is_cancelled, true);
}

bool tci_pi_all_local(tci_pi_server *s)
{
    tci_mounts_refresh(&s->mounts, tci_loop_now_ns(s->loop));
    return s->mounts.count > 0 && s->mounts.nslow == 0;
}

/* ---- from frame to handler ---- */

static bool operation_of(const tci_json *v, tc_str *ret_name)
{
    const tci_json *op = tci_json_get(v, TC_STR("op"));
    *ret_name = TC_STR("");
    return op != NULL && tci_json_as_str(op, ret_name);
}

static const tci_pi_op *find_op(const tci_pi_server *s, tc_str name)
{
    const tci_pi_op *op = tci_pi_op_find(name);
    return op != NULL && op->is_ext && !s->has_ext ? NULL : op;
}

static int keep_frame(tci_pi_req *r, tc_str *json, tc_str payload, char *own)
{
    r->own = own;
    r->own_len = json->len + payload.len;
    if (own != NULL) {
        r->payload = payload;
        r->own_bytes = r->own_len;
        r->server->inbound_bytes += r->own_bytes;
        return 0;
    }
    char *copy = tci_arena_bytes(&r->arena, json->len + payload.len);
    if (copy == NULL)
        return -1;
    if (json->len > 0)
        memcpy(copy, json->ptr, json->len);
    if (payload.len > 0)
        memcpy(copy + json->len, payload.ptr, payload.len);
    json->ptr = copy;
    r->payload = tci_str_of(copy + json->len, payload.len);
    return 0;
}

static void run(tci_pi_req *r, tc_str text)
{
    tc_err err;
    tc_str name;
    tci_json v;
    if (text.len == 0)
        text = TC_STR("{}");
    int rc = tci_json_parse(text, TCI_JSON_LAST_KEY_WINS, &r->arena, &v, &err);
    if (rc < 0 || v.kind == TCI_JSON_NULL) {
        tci_pi_fail_code(r, "EINVAL", "invalid JSON");
        return;
    }
    bool has_name = operation_of(&v, &name);
    const tci_pi_op *op = has_name ? find_op(r->server, name) : NULL;
    if (op == NULL) {
        tci_pi_fail_code(r, "EINVAL", "unknown operation %.*s", TC_STR_ARG(name));
        return;
    }
    void *params = tci_arena_alloc(&r->arena, tci_type_size(op->params));
    r->result = tci_arena_alloc(&r->arena, tci_type_size(op->result));
    r->result_type = op->result;
    if (params == NULL || r->result == NULL) {
        tci_pi_fail_os(r, ENOMEM, NULL, (tc_str){0});
        return;
    }
    if (tci_proto_decode_lenient(op->params, &v, &r->arena, params, &err) < 0) {
        tci_pi_fail_code(r, "EINVAL", "%s", err.msg);
        return;
    }
    r->params = params;
    r->is_bulk = op == &tci_pi_ops[TCI_PI_EXEC];
    handlers[op - tci_pi_ops](r);
}

void tci_pi_on_request(tci_pi_server *s, uint32_t id, tc_str json, tc_str payload, char *own)
{
    tci_pi_req *r = req_new(s, id);
    if (r == NULL) {
        tci_pi_block_free(s, own, json.len + payload.len);
        tci_pi_end_with(s, TCI_PI_END_BROKEN, "out of memory");
        return;
    }
    if (keep_frame(r, &json, payload, own) < 0) {
        tci_pi_fail_os(r, ENOMEM, NULL, (tc_str){0});
        return;
    }
    if (s->nrequests > TCI_PI_LIVE_MAX) {
        tci_pi_fail_os(r, EAGAIN, NULL, (tc_str){0});
        return;
    }
    run(r, json);
}

static bool is_kill(tc_str json)
{
    tc_err err;
    tci_arena a;
    tci_json v;
    tci_pi_cancel_note note = {0};
    tci_arena_init(&a, 0);
    bool is = json.len > 2 && tci_json_parse(json, TCI_JSON_LAST_KEY_WINS, &a, &v, &err) == 0 &&
              tci_proto_decode_lenient(&tci_pi_cancel_note_type, &v, &a, &note, &err) == 0 &&
              note.has_mode && tci_str_eq(note.mode, TC_STR("kill"));
    tci_arena_done(&a);
    return is;
}

void tci_pi_on_cancel(tci_pi_server *s, uint32_t id, tc_str json)
{
    tci_pi_req *r = tci_pi_req_find(s, id);
    if (r != NULL && r->on_cancel != NULL)
        r->on_cancel(r, is_kill(json));
}

/* ---- hello ---- */

static const char *first_set(const char *const *names)
{
    for (; *names != NULL; names++) {
        const char *value = tci_env_get(*names);
        if (value != NULL && value[0] != '\0')
            return value;
    }
    return "/tmp";
}

tc_str tci_pi_tmpdir(const tci_pi_server *s)
{
    static const char *const names[] = {"TMPDIR", "TMP", "TEMP", NULL};
    tci_pi_server *owner = (tci_pi_server *)(uintptr_t)s; /* a cache */
    if (s->tmpdir == NULL) {
        tc_str dir = tci_str(first_set(names));
        if (dir.len > 1 && dir.ptr[dir.len - 1] == '/')
            dir.len--;
        owner->tmpdir = tci_mem_cstr(dir);
    }
    return s->tmpdir != NULL ? tci_str(s->tmpdir) : TC_STR("/tmp");
}

static tc_str text_of(tci_pi_req *r, tc_str bytes)
{
    tc_err err;
    tci_buf out;
    tc_str text = TC_STR("");
    tci_buf_init(&out, TCI_BUF_MAX);
    tci_pi_put_lossy(&out, bytes);
    if (!tci_buf_ok(&out) || tci_arena_dup(&r->arena, tci_buf_str(&out), &text, &err) < 0)
        text = TC_STR("");
    tci_buf_done(&out);
    return text;
}

void tci_pi_on_hello(tci_pi_req *r)
{
    tc_err err;
    char buf[TCI_PATH_MAX];
    tci_system_names names;
    const tci_pi_hello_params *p = r->params;
    tci_pi_hello_result *h = r->result;
    tci_system_names_of(&names);
    r->server->has_ext = p->tc_ext == 1;
    h->protocol = TCI_PI_PROTOCOL;
    h->version = TC_STR(TC_VERSION);
    h->os = tci_str(names.os);
    h->arch = tci_str(names.machine);
    h->home = text_of(r, tci_str(tci_env_get("HOME")));
    h->separator = TC_STR("/");
    h->tmpdir = text_of(r, tci_pi_tmpdir(r->server));
    h->pid = (uint64_t)tci_proc_self();
    h->tc_ext = r->server->has_ext ? 1 : 0;
    h->has_cwd = tci_file_realpath(TC_STR("."), buf, &h->cwd, &err) == 0;
    if (h->has_cwd)
        h->cwd = text_of(r, h->cwd);
    tci_pi_finish(r);
}
