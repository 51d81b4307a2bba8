/* SPDX-License-Identifier: Apache-2.0
 *
 * A launcher for a program of this machine. Leaves finding and starting it to spawn.c. The starting
 * thread. Invariant: the options are copies. */
#include "client/framed.h"
#include "client/pienv/pienv.h"

typedef struct command {
    tc_runtime *rt;
    tci_arena arena;
    tc_spawn_options spawn;
} command;

static void command_free(void *user)
{
    command *c = user;
    tci_arena_done(&c->arena);
    tci_runtime_release(c->rt);
    tci_free(c);
}

static int command_launch(void *user, tc_ctx *ctx, tc_str token, tci_pi_child *ret_child,
                          tc_err *err)
{
    command *c = user;
    int fds[3] = {-1, -1, -1};
    tci_arena a;
    tci_child child = TCI_CHILD_NONE;
    int rc = tci_ctx_check(ctx, err);
    if (rc < 0)
        return rc;
    tci_arena_init(&a, 0);
    tc_spawn_options spawn = c->spawn;
    tc_str *args = tci_arena_items(&a, tc_str, spawn.nargs + 3);
    if (args == NULL)
        rc = tci_arena_error(&a, err);
    if (rc == 0) {
        for (size_t i = 0; i < spawn.nargs; i++)
            args[i] = spawn.args[i];
        args[spawn.nargs++] = TC_STR("serve");
        args[spawn.nargs++] = TC_STR("--token");
        args[spawn.nargs++] = token;
        spawn.args = args;
        rc = tci_spawn_piped(c->rt, &spawn, &a, fds, &child, err);
    }
    tci_arena_done(&a);
    if (rc == TC_E_NOT_FOUND || rc == TC_E_DENIED)
        return tc_err_recode(err, TC_E_START_FAILED);
    if (rc < 0)
        return rc;
    *ret_child =
        (tci_pi_child){.child = child, .in_fd = fds[0], .out_fd = fds[1], .err_fd = fds[2]};
    return 0;
}

/* ---- copying the options ---- */

static int dup_all(tci_arena *a, const tc_str **list, size_t n, tc_err *err)
{
    tc_str *copy = tci_arena_items(a, tc_str, n + 1);
    if (copy == NULL)
        return tci_arena_error(a, err);
    for (size_t i = 0; i < n; i++)
        if (tci_arena_dup(a, (*list)[i], &copy[i], err) < 0)
            return err->code;
    *list = copy;
    return 0;
}

static int dup_pairs(tci_arena *a, const tc_pair **list, size_t n, tc_err *err)
{
    tc_pair *copy = tci_arena_items(a, tc_pair, n + 1);
    if (copy == NULL)
        return tci_arena_error(a, err);
    for (size_t i = 0; i < n; i++)
        if (tci_arena_dup(a, (*list)[i].key, &copy[i].key, err) < 0 ||
            tci_arena_dup(a, (*list)[i].value, &copy[i].value, err) < 0)
            return err->code;
    *list = copy;
    return 0;
}

static int copy_options(command *c, const tc_spawn_options *from, tc_err *err)
{
    tci_arena *a = &c->arena;
    tc_spawn_options *o = &c->spawn;
    *o = *from;
    o->runtime_dir = (tc_str){0};
    int rc = tci_arena_dup(a, from->program, &o->program, err);
    if (rc == 0)
        rc = tci_arena_dup(a, from->cwd, &o->cwd, err);
    if (rc == 0)
        rc = dup_all(a, &o->args, o->nargs, err);
    if (rc == 0)
        rc = dup_all(a, &o->unset_env, o->nunset_env, err);
    if (rc == 0)
        rc = dup_pairs(a, &o->set_env, o->nset_env, err);
    return rc;
}

int tci_pi_launch_command(tc_runtime *rt, const tc_spawn_options *spawn,
                          tci_pi_launcher *ret_launcher, tc_err *err)
{
    if (spawn == NULL || spawn->size < sizeof *spawn)
        return tc_err_set(err, TC_E_INVALID, "options without their size");
    command *c = tci_new(command);
    if (c == NULL)
        return tci_err_no_memory(err);
    c->rt = tci_runtime_retain(rt);
    tci_arena_init(&c->arena, 0);
    int rc = copy_options(c, spawn, err);
    if (rc < 0) {
        command_free(c);
        return rc;
    }
    *ret_launcher = (tci_pi_launcher){command_launch, command_free, c};
    return 0;
}
