/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections to targets that run behind HTTP(S) by themselves, and whether they answer. Leaves rows to external.c.
 * Any thread; the asking is done by a few threads of its own, which are started when there is somebody to ask.
 * Invariant: who reads a state never waits for a target; a credential is read when a connection is made, goes into
 * that and is wiped. */
#include "host/records/external.h"

#include "base/list.h"
#include "base/num.h"
#include "plat/call.h"
#include "plat/clock.h"
#include "plat/file.h"

enum {
    ASKERS_MAX = 4,
    STACK_BYTES = 256 * 1024,
    CREDENTIAL_BYTES_MAX = 8192,
    OTHERS = 0077,
    MS_PER_S = 1000
};

typedef struct target {
    tci_link link;
    tci_arena strings;
    tc_str id, name, url, device_id, credential_file, ca_file;
    bool is_plaintext_allowed;
    tc_device *device; /* or NULL */
    unsigned holds;    /* who works with it while the lock is not held */
    bool is_removed;   /* goes with the last hold */
    bool is_being_asked;
    int64_t due_ns;            /* when to ask next */
    int64_t answer_ns;         /* when was asked last; 0: never */
    int64_t asked_ms, seen_ms; /* wall clock; 0: never */
    bool is_online;
    tc_err trouble; /* when it is not, and was asked */
} target;

typedef struct asker {
    tci_outside *of;
    tci_thread *thread;
    tc_ctx *ctx;
} asker;

struct tci_outside {
    tc_runtime *rt;
    tci_mutex lock;
    tci_wake wake; /* of idle askers */
    tci_list targets;
    asker askers[ASKERS_MAX];
    size_t naskers, nidle;
    size_t nreaching; /* callers that wait for a device */
    bool is_closing;
};

static target *find(tci_outside *o, tc_str id)
{
    TCI_LIST_EACH (&o->targets, k) {
        target *t = TCI_CONTAINER(k, target, link);
        if (tci_str_eq(t->id, id))
            return t;
    }
    return NULL;
}

static void free_target(target *t)
{
    tc_device_close(t->device);
    tci_arena_done(&t->strings);
    tci_free(t);
}

/* The lock is held; it is let go to free. */
static void release(tci_outside *o, target *t)
{
    t->holds--;
    if (t->holds > 0 || !t->is_removed)
        return;
    tci_mutex_unlock(&o->lock);
    free_target(t);
    tci_mutex_lock(&o->lock);
}

/* ---- connecting ---- */

static int check_file(const target *t, tci_file f, tc_err *err)
{
    tci_file_stat st;
    int rc = tci_file_stat_of(f, &st, err);
    if (rc < 0)
        return rc;
    if (st.kind != TCI_FILE_KIND_REGULAR)
        return tc_err_set(err, TC_E_PARSE, "the credential file '%.*s' is no regular file",
                          TC_STR_ARG(t->credential_file));
    if ((st.mode & OTHERS) != 0) {
        (void)tc_err_set(err, TC_E_UNTRUSTED, "others can read the credential file '%.*s'",
                         TC_STR_ARG(t->credential_file));
        return tc_err_hint(err, "chmod 600 it, and have the credential changed");
    }
    return 0;
}

/* One line of visible characters. */
static bool is_credential(tc_str s)
{
    bool is_fine = s.len > 0;
    for (size_t i = 0; is_fine && i < s.len; i++)
        is_fine = s.ptr[i] > ' ' && s.ptr[i] < 0x7f;
    return is_fine;
}

/* Into buf, whose bytes are the caller's to wipe. */
static int read_credential(const target *t, char buf[CREDENTIAL_BYTES_MAX + 2], tc_str *ret,
                           tc_err *err)
{
    size_t len = 0;
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    int rc = tci_file_open(t->credential_file, TCI_OPEN_READ | TCI_OPEN_NONBLOCK, 0, &f, err);
    if (rc < 0)
        return tc_err_wrap(err, "cannot read the credential file");
    rc = check_file(t, f, err);
    if (rc == 0)
        rc = tci_file_pread(f, buf, CREDENTIAL_BYTES_MAX + 2, 0, &len, err);
    if (rc < 0)
        return rc;
    tc_str s = tci_str_of(buf, len);
    if (tci_str_ends(s, TC_STR("\n")))
        s.len--;
    if (s.len < len && tci_str_ends(s, TC_STR("\r")))
        s.len--;
    if (!is_credential(s) || s.len > CREDENTIAL_BYTES_MAX)
        return tc_err_set(err, TC_E_PARSE, "the file '%.*s' holds no credential: one line of it",
                          TC_STR_ARG(t->credential_file));
    *ret = s;
    return 0;
}

static int check_identity(const target *t, const tc_device *device, tc_err *err)
{
    tc_str id = tc_device_get_info(device)->device_id;
    return tci_str_eq(id, t->device_id)
               ? 0
               : tc_err_set(err, TC_E_INCOMPATIBLE,
                            "the daemon at '%.*s' is device '%.*s', not '%.*s'", TC_STR_ARG(t->url),
                            TC_STR_ARG(id), TC_STR_ARG(t->device_id));
}

/* Which device it is, is looked at here: the daemon alone would not say who it is instead. */
static int connect(tci_outside *o, const target *t, tc_ctx *ctx, tc_device **ret, tc_err *err)
{
    char buf[CREDENTIAL_BYTES_MAX + 2];
    tc_http_options http = {.size = sizeof http,
                            .endpoint = t->url,
                            .ca_file = t->ca_file,
                            .allow_plaintext_private_link = t->is_plaintext_allowed};
    tc_device_options options = {.size = sizeof options,
                                 .initialize_timeout_ms = TCI_OUTSIDE_LIMIT_MS};
    tc_device *device = NULL;
    int rc = read_credential(t, buf, &http.credential, err);
    if (rc == 0)
        rc = tc_device_connect_http(o->rt, ctx, &http, &options, &device, err);
    tci_mem_wipe(buf, sizeof buf);
    if (rc == 0)
        rc = check_identity(t, device, err);
    if (rc < 0) {
        tc_device_close(device);
        return rc;
    }
    *ret = device;
    return 0;
}

/* The lock is held, and t; both are let go while connecting. *ret is a reference. */
static int take_device(tci_outside *o, target *t, tc_ctx *ctx, tc_device **ret, tc_err *err)
{
    tc_device *mine = NULL, *old = NULL;
    if (t->device != NULL && tc_device_is_alive(t->device)) {
        *ret = tc_device_retain(t->device);
        return 0;
    }
    tci_mutex_unlock(&o->lock);
    int rc = connect(o, t, ctx, &mine, err);
    tci_mutex_lock(&o->lock);
    if (rc < 0)
        return rc;
    if (t->is_removed) {
        old = mine;
        rc = tc_err_set(err, TC_E_NOT_FOUND, "'%.*s' was removed", TC_STR_ARG(t->name));
    } else if (t->device != NULL && tc_device_is_alive(t->device)) {
        old = mine; /* somebody was faster */
        *ret = tc_device_retain(t->device);
    } else {
        old = t->device;
        t->device = mine;
        *ret = tc_device_retain(mine);
    }
    tci_mutex_unlock(&o->lock);
    tc_device_close(old);
    tci_mutex_lock(&o->lock);
    return rc;
}

/* ---- what is known ---- */

static int64_t wall_ms(void)
{
    tci_instant now = tci_clock_now();
    return now.sec * MS_PER_S + now.nsec / 1000000;
}

static bool tells_nothing(int rc)
{
    return rc == TC_E_CANCELLED || rc == TC_E_CLOSED || rc == TC_E_NO_MEMORY;
}

/* The lock is held. */
static void note(target *t, int rc, const tc_err *err)
{
    if (tells_nothing(rc))
        return;
    t->answer_ns = tci_clock_mono_ns();
    t->asked_ms = wall_ms();
    t->is_online = rc == 0;
    if (rc == 0)
        t->seen_ms = t->asked_ms;
    else
        t->trouble = *err;
}

/* ---- asking ---- */

static int describe(tc_device *device, tc_ctx *ctx, tc_err *err)
{
    tc_result *result;
    tc_device_info info;
    int rc = tc_result_new(&result, err);
    if (rc < 0)
        return rc;
    tc_call call = TC_CALL(ctx, result);
    rc = tc_device_describe(device, &call, &info, err);
    tc_result_free(result);
    return rc;
}

/* Its connection, asked whether it still is one: a daemon that was started again is another generation, which shows
 * only then, and gets a new one. The lock is held, and t; both are let go meanwhile. */
static int ask(tci_outside *o, target *t, tc_ctx *ctx, tc_device **ret, tc_err *err)
{
    tc_device *device = NULL;
    bool was_there = t->device != NULL && tc_device_is_alive(t->device);
    int rc = take_device(o, t, ctx, &device, err);
    if (rc == 0 && was_there) {
        tci_mutex_unlock(&o->lock);
        rc = describe(device, ctx, err);
        tci_mutex_lock(&o->lock);
    }
    if (rc < 0 && device != NULL) {
        bool is_kept = t->device == device;
        if (is_kept)
            t->device = NULL;
        tci_mutex_unlock(&o->lock);
        tc_device_close(is_kept ? device : NULL);
        tc_device_close(device);
        tci_mutex_lock(&o->lock);
        if (!tells_nothing(rc))
            rc = take_device(o, t, ctx, &device, err);
    }
    if (!t->is_removed)
        note(t, rc, err);
    if (rc == 0)
        *ret = device;
    return rc;
}

static void ask_only(tci_outside *o, target *t, tc_ctx *ctx)
{
    tc_err err;
    tc_device *device = NULL;
    if (ask(o, t, ctx, &device, &err) < 0)
        return;
    tci_mutex_unlock(&o->lock);
    tc_device_close(device);
    tci_mutex_lock(&o->lock);
}

/* Who is to be asked first; NULL: nobody now, and *ret_ns says when there will be (0: nothing says so). */
static target *next_due(tci_outside *o, int64_t now_ns, int64_t *ret_ns)
{
    target *first = NULL;
    *ret_ns = 0;
    TCI_LIST_EACH (&o->targets, k) {
        target *t = TCI_CONTAINER(k, target, link);
        if (!t->is_being_asked && (first == NULL || t->due_ns < first->due_ns))
            first = t;
    }
    if (first != NULL && first->due_ns > now_ns) {
        *ret_ns = first->due_ns;
        first = NULL;
    }
    return first;
}

static void wait_for_work(tci_outside *o, int64_t until_ns)
{
    unsigned seen = tci_wake_count(&o->wake);
    o->nidle++;
    tci_mutex_unlock(&o->lock);
    tci_wake_wait(&o->wake, seen, until_ns);
    tci_mutex_lock(&o->lock);
    o->nidle--;
}

static void run_asker(void *arg);

/* One more, when all that there are have something to do. The lock is held. */
static void start_asker(tci_outside *o)
{
    tc_err err;
    if (o->is_closing || o->nidle > 0 || o->naskers == ASKERS_MAX)
        return;
    asker *a = &o->askers[o->naskers];
    a->of = o;
    if (tc_ctx_new(-1, &a->ctx, &err) < 0)
        return; /* those that there are do it, or the next one who looks starts one */
    if (tci_thread_new(run_asker, a, STACK_BYTES, &a->thread, &err) < 0) {
        tc_ctx_free(a->ctx);
        return;
    }
    o->naskers++;
}

static void run_asker(void *arg)
{
    asker *a = arg;
    tci_outside *o = a->of;
    tci_mutex_lock(&o->lock);
    while (!o->is_closing) {
        int64_t until_ns, ignored;
        target *t = next_due(o, tci_clock_mono_ns(), &until_ns);
        if (t == NULL) {
            wait_for_work(o, until_ns);
            continue;
        }
        t->is_being_asked = true;
        t->holds++;
        if (next_due(o, tci_clock_mono_ns(), &ignored) != NULL)
            start_asker(o);
        tc_ctx_reset(a->ctx, TCI_OUTSIDE_LIMIT_MS);
        ask_only(o, t, a->ctx);
        t->is_being_asked = false;
        t->due_ns = tci_add_ns(tci_clock_mono_ns(), tci_ms_to_ns(TCI_OUTSIDE_EVERY_MS));
        release(o, t);
    }
    tci_mutex_unlock(&o->lock);
}

void tci_outside_hasten(tci_outside *o)
{
    bool is_any = false;
    tci_mutex_lock(&o->lock);
    int64_t now_ns = tci_clock_mono_ns();
    TCI_LIST_EACH (&o->targets, k) {
        target *t = TCI_CONTAINER(k, target, link);
        bool is_fresh =
            t->answer_ns > 0 && now_ns - t->answer_ns < tci_ms_to_ns(TCI_OUTSIDE_FRESH_MS);
        if (is_fresh || t->is_being_asked || t->due_ns <= now_ns)
            continue;
        t->due_ns = now_ns;
        is_any = true;
    }
    if (is_any) {
        tci_wake_all(&o->wake);
        start_asker(o);
    }
    tci_mutex_unlock(&o->lock);
}

/* ---- for others ---- */

int tci_outside_reach(tci_outside *o, tc_str id, tc_ctx *ctx, tc_device **ret_device, tc_err *err)
{
    tci_mutex_lock(&o->lock);
    target *t = o->is_closing ? NULL : find(o, id);
    if (t == NULL) {
        tci_mutex_unlock(&o->lock);
        return tc_err_set(err, TC_E_NOT_FOUND, "there is no such device any more");
    }
    t->holds++;
    o->nreaching++;
    int rc = ask(o, t, ctx, ret_device, err);
    if (rc < 0 && !tells_nothing(rc) && !t->is_removed) {
        (void)tc_err_wrap(err, "'%.*s' cannot be reached", TC_STR_ARG(t->name));
        (void)tc_err_recode(err, TC_E_NOT_READY);
    }
    release(o, t);
    o->nreaching--;
    if (o->is_closing)
        tci_wake_all(&o->wake);
    tci_mutex_unlock(&o->lock);
    return rc < 0 ? err->code : 0;
}

tc_device *tci_outside_peek(tci_outside *o, tc_str id)
{
    tci_mutex_lock(&o->lock);
    const target *t = find(o, id);
    tc_device *device = t != NULL && t->device != NULL && tc_device_is_alive(t->device)
                            ? tc_device_retain(t->device)
                            : NULL;
    tci_mutex_unlock(&o->lock);
    return device;
}

int tci_outside_mark(tci_outside *o, tci_host_device *d, tci_arena *a, tc_err *err)
{
    int rc = 0;
    tci_mutex_lock(&o->lock);
    const target *t = find(o, d->id);
    if (t != NULL && t->asked_ms > 0) {
        d->is_online = t->is_online;
        d->asked_ms = t->asked_ms;
        if (t->seen_ms > d->seen_ms)
            d->seen_ms = t->seen_ms;
        if (!t->is_online) {
            d->trouble_code = t->trouble.cause;
            rc = tci_arena_dup(a, tci_str(t->trouble.msg), &d->trouble, err);
        }
    }
    tci_mutex_unlock(&o->lock);
    return rc;
}

static int copy_texts(target *t, const tci_host_device *d, tc_err *err)
{
    const struct {
        tc_str from, *to;
    } texts[] = {{d->id, &t->id},
                 {d->name, &t->name},
                 {d->url, &t->url},
                 {d->device_id, &t->device_id},
                 {d->credential_file, &t->credential_file},
                 {d->ca_file, &t->ca_file}};
    for (size_t i = 0; i < TCI_ARRAY_LEN(texts); i++)
        if (tci_arena_dup(&t->strings, texts[i].from, texts[i].to, err) < 0)
            return err->code;
    return 0;
}

int tci_outside_add(tci_outside *o, const tci_host_device *d, tc_err *err)
{
    target *t = tci_new(target);
    if (t == NULL)
        return tci_err_no_memory(err);
    tci_arena_init(&t->strings, 0);
    t->is_plaintext_allowed = d->is_plaintext_allowed;
    t->seen_ms = d->seen_ms;
    if (copy_texts(t, d, err) < 0) {
        free_target(t);
        return err->code;
    }
    tci_mutex_lock(&o->lock);
    tci_list_push_back(&o->targets, &t->link);
    tci_wake_all(&o->wake);
    start_asker(o);
    tci_mutex_unlock(&o->lock);
    return 0;
}

void tci_outside_remove(tci_outside *o, tc_str id)
{
    tci_mutex_lock(&o->lock);
    target *t = find(o, id);
    if (t != NULL) {
        tci_link_remove(&t->link);
        t->is_removed = true;
        t->holds++;
        release(o, t);
    }
    tci_mutex_unlock(&o->lock);
}

/* ---- life ---- */

int tci_outside_new(tc_runtime *rt, tci_outside **ret, tc_err *err)
{
    tci_outside *o = tci_new(tci_outside);
    if (o == NULL)
        return tci_err_no_memory(err);
    o->rt = rt;
    tci_mutex_init(&o->lock);
    tci_list_init(&o->targets);
    *ret = o;
    return 0;
}

void tci_outside_free(tci_outside *o)
{
    if (o == NULL)
        return;
    tci_mutex_lock(&o->lock);
    o->is_closing = true;
    tci_wake_all(&o->wake);
    size_t n = o->naskers;
    tci_mutex_unlock(&o->lock);
    for (size_t i = 0; i < n; i++) {
        tc_ctx_cancel(o->askers[i].ctx);
        tci_thread_join(o->askers[i].thread);
        tc_ctx_free(o->askers[i].ctx);
    }
    tci_mutex_lock(&o->lock);
    while (o->nreaching > 0)
        wait_for_work(o, 0);
    tci_mutex_unlock(&o->lock);
    for (tci_link *k; (k = tci_list_pop_front(&o->targets)) != NULL;)
        free_target(TCI_CONTAINER(k, target, link));
    tci_mutex_done(&o->lock);
    tci_free(o);
}
