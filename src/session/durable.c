/* SPDX-License-Identifier: Apache-2.0
 *
 * A session as a whole: opened, failed, closed, freed; taking and leaving its line. Leaves transactions
 * and observers to their files. Any thread. Invariant: a session that failed publishes nothing more; the
 * storage is closed once, on the line, with no transaction open. */
#include "session/session_int.h"

#include "plat/clock.h"

enum { RETENTION_DEFAULT_MS = 600000 };

/* ---- references ---- */

void tci_durable_ref(tc_durable *s)
{
    atomic_fetch_add(&s->refs, 1);
}

void tci_durable_unref(tc_durable *s)
{
    if (atomic_fetch_sub(&s->refs, 1) != 1)
        return;
    tci_map_done(&s->docs);
    tci_tx_free(s->tx);
    tc_result_free(s->scratch);
    tci_arena_done(&s->arena);
    tci_line_done(&s->line);
    tci_mutex_done(&s->m);
    tci_free(s);
}

/* ---- opening ---- */

static int64_t wall_clock(void *user)
{
    TCI_UNUSED(user);
    tci_instant now = tci_clock_now();
    return now.sec * 1000 + now.nsec / 1000000;
}

static int64_t retention_of(int64_t ms)
{
    if (ms == 0)
        ms = RETENTION_DEFAULT_MS;
    if (ms < 0)
        return 0;
    return ms > INT64_MAX / 1000000 ? INT64_MAX : ms * 1000000;
}

static void apply_options(tc_durable *s, const tc_durable_options *options)
{
    static const tc_durable_options none = {.size = sizeof none};
    if (options == NULL)
        options = &none;
    s->is_read_only = options->is_read_only;
    s->retention_ns = retention_of(options->document_retention_ms);
    s->now_ms = options->now_ms != NULL ? options->now_ms : wall_clock;
    s->now_user = options->now_user;
}

static void init_lists(tc_durable *s)
{
    tci_list_init(&s->idle);
    tci_list_init(&s->internal_listeners);
    tci_list_init(&s->commit_listeners);
    tci_list_init(&s->states);
    tci_list_init(&s->watches);
    tci_list_init(&s->close_listeners);
    tci_list_init(&s->removed);
}

static int check_options(const tc_durable_options *options, tc_err *err)
{
    if (options == NULL || options->size >= sizeof *options)
        return 0;
    return tc_err_set(err, TC_E_INVALID, "options without their size");
}

static int new_session(const tc_durable_options *options, tc_durable **ret_durable, tc_err *err)
{
    int rc = check_options(options, err);
    if (rc < 0)
        return rc;
    tc_durable *s = tci_new(tc_durable);
    if (s == NULL)
        return tci_err_no_memory(err);
    atomic_store(&s->refs, 1);
    tci_line_init(&s->line);
    tci_mutex_init(&s->m);
    uint64_t seed;
    tci_random_bytes(&seed, sizeof seed);
    tci_map_init(&s->docs, seed);
    tci_arena_init(&s->arena, 0);
    init_lists(s);
    apply_options(s, options);
    rc = tc_result_new(&s->scratch, err);
    if (rc == 0)
        rc = tci_tx_new(s, &s->tx, err);
    if (rc < 0) {
        tci_durable_unref(s);
        return rc;
    }
    *ret_durable = s;
    return 0;
}

int tci_durable_open_store(tci_store *store_own, const tc_durable_options *options,
                           tc_durable **ret_durable, tc_err *err)
{
    tc_durable *s = NULL;
    int rc = new_session(options, &s, err);
    if (rc < 0) {
        tc_err ignored; /* nothing was written */
        (void)tci_store_close(store_own, &ignored);
        return rc;
    }
    s->store = store_own;
    *ret_durable = s;
    return 0;
}

int tc_durable_open(tc_str path, const tc_durable_options *options, tc_durable **ret_durable,
                    tc_err *err)
{
    tci_store_options how = {.durability = TCI_DURABILITY_FULL};
    int rc = check_options(options, err);
    if (rc < 0)
        return rc;
    if (options != NULL) {
        how.durability = options->durability == TC_DURABILITY_NORMAL ? TCI_DURABILITY_NORMAL
                                                                     : TCI_DURABILITY_FULL;
        how.is_read_only = options->is_read_only;
        how.must_exist = options->must_exist;
        how.is_fresh = options->is_fresh;
        how.prefix = options->table_prefix;
    }
    tci_store *store = NULL;
    rc = tci_store_open(path, &how, &store, err);
    return rc < 0 ? rc : tci_durable_open_store(store, options, ret_durable, err);
}

int64_t tci_durable_now_ms(tc_durable *s)
{
    return s->now_ms(s->now_user);
}

bool tci_durable_is_read_only(const tc_durable *s)
{
    return s->is_read_only;
}

uint64_t tc_durable_seq(tc_durable *s)
{
    return atomic_load(&s->seq);
}

void tci_durable_set_hooks(tc_durable *s, const tci_durable_hooks *hooks)
{
    s->hooks = *hooks;
}

/* ---- failure ---- */

bool tc_durable_failure(tc_durable *s, tc_err *ret_cause)
{
    if (!atomic_load(&s->failed))
        return false;
    if (ret_cause != NULL) {
        tci_mutex_lock(&s->m);
        *ret_cause = s->cause;
        tci_mutex_unlock(&s->m);
    }
    return true;
}

bool tc_durable_is_closed(tc_durable *s)
{
    return atomic_load(&s->failed) || atomic_load(&s->phase) != TCI_PHASE_OPEN;
}

static int closed_error(tc_durable *s, tc_err *err)
{
    if (!tc_durable_failure(s, err))
        return tc_err_set(err, TC_E_CLOSED, "the session is closed");
    tc_err_wrap(err, "the session failed");
    return tc_err_recode(err, TC_E_CLOSED);
}

int tci_durable_check(tc_durable *s, tc_err *err)
{
    return tc_durable_is_closed(s) ? closed_error(s, err) : 0;
}

static void note_failure(tc_durable *s, const tc_err *cause)
{
    tci_mutex_lock(&s->m);
    if (!atomic_load(&s->failed)) {
        s->cause = *cause;
        atomic_store(&s->failed, true);
    }
    tci_mutex_unlock(&s->m);
}

void tci_durable_fail(tc_durable *s, const tc_err *cause)
{
    note_failure(s, cause);
    if (tci_line_is_mine(&s->line))
        return; /* who leaves the line last does the rest */
    tci_line_lock_always(&s->line);
    s->depth = 1;
    tci_session_leave(s);
}

static void close_store(tc_durable *s, tc_err *err)
{
    tci_store *store = s->store;
    s->store = NULL;
    tci_session_drop_docs(s);
    if (store != NULL)
        (void)tci_store_close(store, err); /* err says it */
}

static void tear_down(tc_durable *s)
{
    tc_err cause, ignored = {0};
    (void)tc_durable_failure(s, &cause);
    s->is_torn_down = true;
    tci_session_end_observers(s, &cause);
    close_store(s, &ignored); /* the cause says more */
}

/* ---- the line ---- */

static int take_line(tc_durable *s, tc_ctx *ctx, tc_err *err)
{
    int rc = tci_line_lock(&s->line, ctx, err);
    if (rc < 0)
        return rc;
    s->depth = 1;
    return 0;
}

int tci_durable_enter(tc_durable *s, tc_err *err)
{
    if (tci_line_is_mine(&s->line)) {
        if (s->store == NULL || atomic_load(&s->failed))
            return closed_error(s, err);
        s->depth++;
        return 0;
    }
    int rc = take_line(s, NULL, err);
    if (rc < 0)
        return rc;
    if (s->store != NULL && !atomic_load(&s->failed))
        return 0;
    tci_session_leave(s);
    return closed_error(s, err);
}

int tci_session_read(tc_durable *s, tc_err *err)
{
    if (tci_line_is_mine(&s->line))
        return tci_durable_enter(s, err);
    int rc = tci_durable_check(s, err);
    if (rc == 0)
        rc = tci_durable_enter(s, err);
    if (rc < 0)
        return rc;
    /* looked at again on the line: a close that began meanwhile has ended the observers */
    rc = tci_durable_check(s, err);
    if (rc < 0)
        tci_session_leave(s);
    return rc;
}

void tci_session_leave(tc_durable *s)
{
    if (--s->depth > 0)
        return;
    bool failed = atomic_load(&s->failed);
    if (failed && !s->is_torn_down)
        tear_down(s);
    else if (!failed)
        tci_session_sweep_docs(s);
    if (s->arena.used > 0)
        tci_arena_clear(&s->arena);
    tci_line_unlock(&s->line);
    if (failed)
        tci_session_tell_close(s);
}

void tci_durable_leave(tc_durable *s)
{
    tci_session_leave(s);
}

bool tci_durable_has_line(const tc_durable *s)
{
    return tci_line_is_mine(&s->line);
}

static int check_begin(tc_durable *s, bool at_close, tc_err *err)
{
    if (atomic_load(&s->failed) || s->store == NULL)
        return closed_error(s, err);
    if (atomic_load(&s->phase) != TCI_PHASE_OPEN && !at_close)
        return closed_error(s, err);
    return 0;
}

static int begin(tc_durable *s, tc_ctx *ctx, bool at_close, tc_tx **ret_tx, tc_err *err)
{
    if (tci_line_is_mine(&s->line))
        return tc_err_set(err, TC_E_CONFLICT, "this thread has the session's line already");
    if (s->is_read_only)
        return tc_err_set(err, TC_E_DENIED, "the session was opened for reading only");
    int rc = take_line(s, ctx, err);
    if (rc < 0)
        return rc;
    rc = check_begin(s, at_close, err);
    if (rc == 0)
        rc = tci_ctx_check(ctx, err);
    if (rc < 0) {
        tci_session_leave(s);
        return rc;
    }
    s->is_tx_open = true;
    s->tx->at_close = at_close;
    *ret_tx = s->tx;
    return 0;
}

int tc_durable_begin(tc_durable *s, tc_ctx *ctx, tc_tx **ret_tx, tc_err *err)
{
    int rc = tci_durable_check(s, err);
    return rc < 0 ? rc : begin(s, ctx, false, ret_tx, err);
}

int tci_durable_begin_at_close(tc_durable *s, tc_tx **ret_tx, tc_err *err)
{
    tci_mutex_lock(&s->m);
    bool is_joining = s->is_joining && s->closer_mark == tci_thread_mark();
    tci_mutex_unlock(&s->m);
    if (!is_joining)
        return tc_err_set(err, TC_E_CONFLICT, "the session is not being closed by this thread");
    return begin(s, NULL, true, ret_tx, err);
}

/* ---- what the storage answered ---- */

static bool is_about_request(int rc)
{
    return rc == TC_E_INVALID || rc == TC_E_NOT_FOUND || rc == TC_E_UNSUPPORTED ||
           rc == TC_E_NO_MEMORY || rc == TC_E_TOO_BIG;
}

int tci_session_after_read(tc_durable *s, int rc, tc_err *err)
{
    if (rc < 0 && !is_about_request(rc))
        note_failure(s, err);
    return rc;
}

int tci_session_after_write(tc_durable *s, int rc, tc_err *err)
{
    if (rc < 0)
        note_failure(s, err);
    return rc;
}

int tci_session_mint(tc_durable *s, uint64_t *ret_id, tc_err *err)
{
    if (atomic_load(&s->failed))
        return closed_error(s, err);
    return tci_session_after_write(s, tci_store_mint(s->store, ret_id, err), err);
}

/* ---- closing ---- */

/* True: this thread closes it. False: somebody did, and is done. */
static bool start_close(tc_durable *s)
{
    tci_mutex_lock(&s->m);
    bool is_first = atomic_load(&s->phase) == TCI_PHASE_OPEN;
    if (is_first) {
        atomic_store(&s->phase, TCI_PHASE_CLOSING);
        s->closer_mark = tci_thread_mark();
    }
    while (!is_first && atomic_load(&s->phase) != TCI_PHASE_CLOSED) {
        unsigned seen = tci_wake_count(&s->changed);
        tci_mutex_unlock(&s->m);
        tci_wake_wait(&s->changed, seen, 0);
        tci_mutex_lock(&s->m);
    }
    tci_mutex_unlock(&s->m);
    return is_first;
}

static void set_joining(tc_durable *s, bool is_joining)
{
    tci_mutex_lock(&s->m);
    s->is_joining = is_joining;
    tci_mutex_unlock(&s->m);
}

static void end_close(tc_durable *s)
{
    tci_mutex_lock(&s->m);
    atomic_store(&s->phase, TCI_PHASE_CLOSED);
    tci_wake_count_one(&s->changed);
    tci_mutex_unlock(&s->m);
    tci_wake_send(&s->changed, UINT32_MAX);
}

static void join_harness(tc_durable *s)
{
    if (s->hooks.join == NULL)
        return;
    set_joining(s, true);
    s->hooks.join(s->hooks.user);
    set_joining(s, false);
}

int tc_durable_close(tc_durable *s, tc_err *err)
{
    if (tci_line_is_mine(&s->line))
        return tc_err_set(err, TC_E_CONFLICT, "a session cannot be closed by who has its line");
    if (!start_close(s))
        return 0;
    tci_line_lock_always(&s->line);
    s->depth = 1;
    if (!atomic_load(&s->failed))
        tci_session_end_observers(s, NULL);
    tci_session_leave(s);
    tci_session_tell_close(s);
    join_harness(s);

    tc_err last = {0};
    tci_line_lock_always(&s->line);
    s->depth = 1;
    if (!s->is_torn_down)
        close_store(s, &last);
    s->is_torn_down = true;
    tci_session_leave(s);
    end_close(s);
    if (last.code == TC_OK)
        return 0;
    *err = last;
    return (int)err->code;
}

void tc_durable_free(tc_durable *s)
{
    if (s == NULL)
        return;
    tc_err ignored; /* what was acknowledged is safe */
    (void)tc_durable_close(s, &ignored);
    tci_durable_unref(s);
}

/* ---- pages ---- */

enum { PAGE_DEFAULT = 100 };

tci_page tci_page_of(const tc_page *page)
{
    tci_page p = {.limit = PAGE_DEFAULT};
    if (page == NULL)
        return p;
    p.order = (tci_order)page->order;
    p.cursor.after = page->cursor.after;
    p.cursor.order = (tci_order)page->cursor.order;
    if (page->limit > 0)
        p.limit = page->limit;
    return p;
}

_Static_assert((int)TC_ORDER_ASCENDING == (int)TCI_ORDER_ASCENDING &&
                   (int)TC_ORDER_DESCENDING == (int)TCI_ORDER_DESCENDING,
               "orders are converted by value");

void tci_cursor_back(tci_cursor next, tc_cursor *ret_next)
{
    if (ret_next != NULL)
        *ret_next = (tc_cursor){.after = next.after, .order = (tc_order)next.order};
}
