/* SPDX-License-Identifier: Apache-2.0
 *
 * What can be run: extensions by name, and their tasks. Leaves what an extension consists of to those
 * who use it. Any thread. Invariant: a snapshot never changes; no two extensions of one have a task of
 * the same name. */
#include "harness/sched/sched_int.h"

/* An installed extension; goes with the last snapshot that has it. */
typedef struct holder {
    atomic_uint refs;
    const tc_extension *extension;
    tc_extension own; /* of install_tasks: what extension points to */
    char *own_name;
    const tc_task_def **own_tasks;
    bool is_builtin;
} holder;

struct tci_snapshot {
    atomic_uint refs;
    size_t count;
    holder *items[];
};

struct tci_subscription {
    tc_registry *reg;
    tci_link link;
    void (*changed)(void *user);
    void *user;
};

struct tc_registry {
    tci_mutex lock;    /* current, subscriptions */
    tci_mutex telling; /* held while subscribers are called; taken before lock */
    tci_snapshot *current;
    tci_list subscriptions;
};

static void holder_unref(holder *x)
{
    if (x == NULL || atomic_fetch_sub(&x->refs, 1) != 1)
        return;
    tci_free(x->own_name);
    tci_free(x->own_tasks);
    tci_free(x);
}

tci_snapshot *tci_snapshot_ref(tci_snapshot *s)
{
    atomic_fetch_add(&s->refs, 1);
    return s;
}

void tci_snapshot_unref(tci_snapshot *s)
{
    if (s == NULL || atomic_fetch_sub(&s->refs, 1) != 1)
        return;
    for (size_t i = 0; i < s->count; i++)
        holder_unref(s->items[i]);
    tci_free(s);
}

/* Room for n; they are filled in and counted by the caller. */
static tci_snapshot *snapshot_new(size_t n, tc_err *err)
{
    tci_snapshot *s = tci_mem_alloc(sizeof(*s) + n * sizeof(s->items[0]));
    if (s == NULL) {
        (void)tci_err_no_memory(err);
        return NULL;
    }
    atomic_init(&s->refs, 1);
    return s;
}

tci_snapshot *tci_registry_snapshot(tc_registry *reg)
{
    tci_mutex_lock(&reg->lock);
    tci_snapshot *s = tci_snapshot_ref(reg->current);
    tci_mutex_unlock(&reg->lock);
    return s;
}

/* The built-in tasks come first, when they are there, and are no extension to anybody. */
static size_t nhidden(const tci_snapshot *s)
{
    return s->count > 0 && s->items[0]->is_builtin ? 1 : 0;
}

size_t tci_snapshot_count(const tci_snapshot *s)
{
    return s->count - nhidden(s);
}

const tc_extension *tci_snapshot_extension(const tci_snapshot *s, size_t index)
{
    return s->items[nhidden(s) + index]->extension;
}

static size_t find(const tci_snapshot *s, tc_str name)
{
    size_t i = 0;
    while (i < s->count && !tci_str_eq(s->items[i]->extension->name, name))
        i++;
    return i;
}

const tc_extension *tci_snapshot_find(const tci_snapshot *s, tc_str name)
{
    size_t at = find(s, name);
    return at >= nhidden(s) && at < s->count ? s->items[at]->extension : NULL;
}

static const tc_task_def *task_of(const tc_extension *x, tc_str kind)
{
    for (size_t i = 0; i < x->ntasks; i++)
        if (tci_str_eq(tci_str(x->tasks[i]->name), kind))
            return x->tasks[i];
    return NULL;
}

const tc_task_def *tci_snapshot_task(const tci_snapshot *s, tc_str kind, tc_str *ret_extension)
{
    for (size_t i = 0; i < s->count; i++) {
        const tc_task_def *def = task_of(s->items[i]->extension, kind);
        if (def == NULL)
            continue;
        if (ret_extension != NULL)
            *ret_extension = s->items[i]->is_builtin ? TC_STR("") : s->items[i]->extension->name;
        return def;
    }
    if (ret_extension != NULL)
        *ret_extension = TC_STR("");
    return NULL;
}

int tci_registry_new_empty(tc_registry **ret_registry, tc_err *err)
{
    tc_registry *reg = tci_new(tc_registry);
    if (reg == NULL)
        return tci_err_no_memory(err);
    reg->current = snapshot_new(0, err);
    if (reg->current == NULL) {
        tci_free(reg);
        return err->code;
    }
    tci_mutex_init(&reg->lock);
    tci_mutex_init(&reg->telling);
    tci_list_init(&reg->subscriptions);
    *ret_registry = reg;
    return 0;
}

void tc_registry_free(tc_registry *reg)
{
    if (reg == NULL)
        return;
    TC_ASSERT(tci_list_is_empty(&reg->subscriptions));
    tci_snapshot_unref(reg->current);
    tci_mutex_done(&reg->lock);
    tci_mutex_done(&reg->telling);
    tci_free(reg);
}

/* ---- subscriptions ---- */

int tci_registry_subscribe(tc_registry *reg, void (*changed)(void *user), void *user,
                           tci_subscription **ret, tc_err *err)
{
    tci_subscription *s = tci_new(tci_subscription);
    if (s == NULL)
        return tci_err_no_memory(err);
    *s = (tci_subscription){.reg = reg, .changed = changed, .user = user};
    tci_mutex_lock(&reg->lock);
    tci_list_push_back(&reg->subscriptions, &s->link);
    tci_mutex_unlock(&reg->lock);
    *ret = s;
    return 0;
}

void tci_registry_unsubscribe(tci_subscription *s)
{
    if (s == NULL)
        return;
    tci_mutex_lock(&s->reg->telling);
    tci_mutex_lock(&s->reg->lock);
    tci_link_remove(&s->link);
    tci_mutex_unlock(&s->reg->lock);
    tci_mutex_unlock(&s->reg->telling);
    tci_free(s);
}

/* With telling held, so that the list cannot lose anybody meanwhile. */
static void tell(tc_registry *reg)
{
    TCI_LIST_EACH (&reg->subscriptions, k) {
        tci_subscription *s = TCI_CONTAINER(k, tci_subscription, link);
        s->changed(s->user);
    }
}

/* ---- changes ---- */

static bool is_same_extension(const holder *a, const holder *b)
{
    return tci_str_eq(a->extension->name, b->extension->name);
}

/* CONFLICT when x has a task that another extension has, or has one twice. */
static int check_tasks(const tci_snapshot *s, const holder *x, tc_err *err)
{
    for (size_t i = 0; i < x->extension->ntasks; i++) {
        const tc_task_def *def = x->extension->tasks[i];
        tc_str name = tci_str(def->name);
        if (def->size < sizeof(*def) || name.len == 0 || def->version < 1 || def->abort == NULL ||
            def->initial == NULL)
            return tc_err_set(
                err, TC_E_INVALID,
                "task '%.*s' needs a name, a version, an initial and an abort function",
                TC_STR_ARG(name));
        for (size_t k = 0; k < i; k++)
            if (tci_str_eq(tci_str(x->extension->tasks[k]->name), name))
                return tc_err_set(err, TC_E_CONFLICT, "extension '%.*s' has task '%.*s' twice",
                                  TC_STR_ARG(x->extension->name), TC_STR_ARG(name));
        for (size_t k = 0; k < s->count; k++)
            if (!is_same_extension(s->items[k], x) && task_of(s->items[k]->extension, name) != NULL)
                return tc_err_set(err, TC_E_CONFLICT,
                                  "task '%.*s' is installed by extension '%.*s' already",
                                  TC_STR_ARG(name), TC_STR_ARG(s->items[k]->extension->name));
    }
    return 0;
}

/* The snapshot with x in the place of one of its name, or at the end. With both locks. */
static tci_snapshot *with_holder(const tci_snapshot *s, holder *x, tc_err *err)
{
    tci_snapshot *next = snapshot_new(s->count + 1, err);
    if (next == NULL)
        return NULL;
    size_t at = find(s, x->extension->name);
    for (size_t i = 0; i < s->count; i++) {
        next->items[i] = i == at ? x : s->items[i];
        atomic_fetch_add(&next->items[i]->refs, 1);
    }
    next->count = s->count;
    if (at == s->count) {
        next->items[next->count++] = x;
        atomic_fetch_add(&x->refs, 1);
    }
    return next;
}

/* Make next the current one (NULL: it failed, nothing changes) and tell. With telling and lock, which
 * it gives back. */
static void publish(tc_registry *reg, tci_snapshot *next)
{
    tci_snapshot *old = NULL;
    if (next != NULL) {
        old = reg->current;
        reg->current = next;
    }
    tci_mutex_unlock(&reg->lock);
    if (next != NULL)
        tell(reg);
    tci_mutex_unlock(&reg->telling);
    tci_snapshot_unref(old);
}

static int install(tc_registry *reg, holder *x, tc_err *err)
{
    tci_mutex_lock(&reg->telling);
    tci_mutex_lock(&reg->lock);
    tci_snapshot *next = NULL;
    int rc = check_tasks(reg->current, x, err);
    if (rc == 0) {
        next = with_holder(reg->current, x, err);
        rc = next != NULL ? 0 : err->code;
    }
    publish(reg, next);
    holder_unref(x);
    return rc;
}

int tc_registry_install(tc_registry *reg, const tc_extension *extension, tc_err *err)
{
    if (extension->size < sizeof(*extension) || extension->name.len == 0)
        return tc_err_set(err, TC_E_INVALID, "an extension needs a size and a name");
    holder *x = tci_new(holder);
    if (x == NULL)
        return tci_err_no_memory(err);
    atomic_init(&x->refs, 1);
    x->extension = extension;
    return install(reg, x, err);
}

static int install_own(tc_registry *reg, tc_str name, const tc_task_def *const *tasks,
                       size_t ntasks, bool is_builtin, tc_err *err)
{
    if (name.len == 0)
        return tc_err_set(err, TC_E_INVALID, "an extension needs a name");
    holder *x = tci_new(holder);
    if (x == NULL)
        return tci_err_no_memory(err);
    atomic_init(&x->refs, 1);
    x->own_name = tci_mem_cstr(name);
    x->own_tasks = tci_mem_array(ntasks, sizeof(*x->own_tasks));
    if (x->own_name == NULL || x->own_tasks == NULL) {
        holder_unref(x);
        return tci_err_no_memory(err);
    }
    for (size_t i = 0; i < ntasks; i++)
        x->own_tasks[i] = tasks[i];
    x->own = (tc_extension){.size = sizeof(tc_extension),
                            .name = tci_str(x->own_name),
                            .tasks = x->own_tasks,
                            .ntasks = ntasks};
    x->extension = &x->own;
    x->is_builtin = is_builtin;
    return install(reg, x, err);
}

int tc_registry_install_tasks(tc_registry *reg, tc_str name, const tc_task_def *const *tasks,
                              size_t ntasks, tc_err *err)
{
    return install_own(reg, name, tasks, ntasks, false, err);
}

int tci_registry_install_builtin(tc_registry *reg, const tc_task_def *const *tasks, size_t ntasks,
                                 tc_err *err)
{
    return install_own(reg, TC_STR("pi.builtin"), tasks, ntasks, true, err);
}

int tc_registry_uninstall(tc_registry *reg, tc_str name, tc_err *err)
{
    tci_mutex_lock(&reg->telling);
    tci_mutex_lock(&reg->lock);
    size_t at = find(reg->current, name);
    tci_snapshot *next = NULL;
    int rc = 0;
    if (at == reg->current->count || reg->current->items[at]->is_builtin) {
        rc = tc_err_set(err, TC_E_NOT_FOUND, "no extension '%.*s' is installed", TC_STR_ARG(name));
    } else {
        next = snapshot_new(reg->current->count, err);
        rc = next != NULL ? 0 : err->code;
    }
    for (size_t i = 0; next != NULL && i < reg->current->count; i++) {
        if (i == at)
            continue;
        next->items[next->count] = reg->current->items[i];
        atomic_fetch_add(&next->items[next->count++]->refs, 1);
    }
    publish(reg, next);
    return rc;
}
