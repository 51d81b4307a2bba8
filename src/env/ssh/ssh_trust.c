/* SPDX-License-Identifier: Apache-2.0
 *
 * Whom we trust: looking at the key a host shows, accepting it, forgetting it, comparing, and what
 * of the user's configuration our rules overrule. Leaves the file to ssh_keys.c. The caller's
 * thread. Invariant: a key gets into the application's file by tc_ssh_accept and in no other way. */
#include "env/ssh/ssh_int.h"

#include "plat/clock.h"
#include "plat/file.h"

enum { ANSWER_MAX = 256 * 1024, TRIES_MAX = 16 };

/* ---- one ssh, to its end ---- */

/* Run it; an ssh that does not know one of our rules is asked again without it. On success the
 * child has ended and is the caller's to give back. */
static int run(tci_ssh_to *to, tc_ctx *ctx, const tci_ssh_want *want, tci_ssh_child *ret_c,
               tc_err *err)
{
    for (int i = 0; i < TRIES_MAX; i++) {
        tci_ssh_child c = {0};
        int rc = tci_ssh_start(to, want, ANSWER_MAX, &c, err);
        if (rc < 0)
            return rc;
        rc = tci_ssh_finish(&c, ctx, tci_clock_mono_ns() + tci_ms_to_ns(TCI_SSH_START_MS), err);
        if (rc == TC_E_TIMEOUT && (ctx == NULL || tc_ctx_remaining_ms(ctx) != 0)) {
            char words[128];
            tc_err_set(
                err, TC_E_TIMEOUT, "ssh to '%.*s' did not end in %d s: %.*s",
                TC_STR_ARG(to->target.host), TCI_SSH_START_MS / 1000,
                TC_STR_ARG(tci_ssh_last_words(tci_buf_str(&c.complaints), words, sizeof words)));
        }
        bool is_refused = rc == 0 && (c.exit.is_signal || c.exit.code != 0);
        bool is_news = rc == 0 && tci_ssh_learn(to, tci_buf_str(&c.complaints));
        if (rc == 0 && !(is_refused && is_news)) {
            *ret_c = c;
            return 0;
        }
        tci_ssh_end(&c);
        if (rc < 0)
            return rc;
    }
    return tc_err_set(err, TC_E_START_FAILED, "the installed ssh knows too few of our options");
}

/* ---- scanning ---- */

static int scan_into(tci_ssh_to *to, tc_ctx *ctx, tc_str folder, tci_arena *a,
                     tc_ssh_keys *ret_keys, tc_err *err)
{
    tci_ssh_child c = {0};
    tci_ssh_want want = {.is_scan = true, .command = TC_STR("exit 0")};
    tc_ssh_keys keys = {0};
    int rc = tci_arena_printf(a, &want.known_hosts, err, "%.*s/known_hosts", TC_STR_ARG(folder));
    if (rc == 0)
        rc = tci_ssh_path_check(want.known_hosts, "temporary folder", err);
    if (rc == 0)
        rc = run(to, ctx, &want, &c, err);
    if (rc < 0)
        return rc;
    /* That the login failed does not matter: the key was shown before. */
    rc = tci_ssh_keys_load(want.known_hosts, to->target.host_key_alias, a, &keys, err);
    if (rc == 0 && keys.count == 0) {
        rc = tci_ssh_explain(to, &c, err);
        tc_err_wrap(err, "no host key received");
    }
    tci_ssh_end(&c);
    if (rc == 0)
        *ret_keys = keys;
    return rc;
}

int tci_ssh_scan_keys(tci_ssh_to *to, tc_ctx *ctx, tci_arena *a, tc_ssh_keys *ret_keys, tc_err *err)
{
    tc_str folder = {0};
    int rc = tci_env_temp_folder(to->rt, a, &folder, err);
    if (rc < 0)
        return tc_err_wrap(err, "no place for a scan");
    rc = scan_into(to, ctx, folder, a, ret_keys, err);
    tci_env_remove_folder(folder);
    return rc;
}

int tc_ssh_scan(tc_runtime *rt, tc_ctx *ctx, tc_result *r, const tc_ssh_target *target,
                tc_ssh_keys *ret_keys, tc_err *err)
{
    tci_ssh_to to;
    tci_arena *a = tci_result_arena(r);
    int rc = tci_ssh_to_make(rt, target, a, &to, err);
    return rc < 0 ? rc : tci_ssh_scan_keys(&to, ctx, a, ret_keys, err);
}

/* ---- accepting, forgetting, listing ---- */

static int read_lines(tc_strs lines, tc_str alias, tci_arena *a, tc_ssh_keys *ret, tc_err *err)
{
    tc_ssh_key *items = tci_arena_items(a, tc_ssh_key, lines.count + 1);
    if (items == NULL)
        return tci_arena_error(a, err);
    for (size_t i = 0; i < lines.count; i++) {
        int rc = tci_ssh_key_read(lines.items[i], a, &items[i], err);
        if (rc < 0)
            return rc;
        if (!tci_str_eq_nocase(items[i].alias, alias))
            return tc_err_set(err, TC_E_INVALID, "a key of '%.*s' is not one of '%.*s'",
                              TC_STR_ARG(items[i].alias), TC_STR_ARG(alias));
    }
    *ret = (tc_ssh_keys){items, lines.count};
    return 0;
}

int tc_ssh_accept(tc_runtime *rt, const tc_ssh_target *target, tc_strs lines, tc_err *err)
{
    tci_arena a;
    tci_ssh_to to;
    tc_ssh_keys keys = {0};
    tci_arena_init(&a, 0);
    int rc = tci_ssh_to_make(rt, target, &a, &to, err);
    if (rc == 0 && lines.count == 0)
        rc = tc_err_set(err, TC_E_INVALID, "no keys to accept");
    if (rc == 0)
        rc = read_lines(lines, to.target.host_key_alias, &a, &keys, err);
    if (rc == 0)
        rc = tci_ssh_keys_add(to.target.known_hosts_file, to.target.host_key_alias, &keys, err);
    tci_arena_done(&a);
    return rc;
}

int tc_ssh_forget(tc_runtime *rt, const tc_ssh_target *target, uint64_t *ret_nremoved, tc_err *err)
{
    tci_arena a;
    tci_ssh_to to;
    tci_arena_init(&a, 0);
    int rc = tci_ssh_to_make(rt, target, &a, &to, err);
    if (rc == 0)
        rc = tci_ssh_keys_drop(to.target.known_hosts_file, to.target.host_key_alias, ret_nremoved,
                               err);
    tci_arena_done(&a);
    return rc;
}

int tc_ssh_list(tc_runtime *rt, tc_result *r, const tc_ssh_target *target, bool is_only_target,
                tc_ssh_keys *ret_keys, tc_err *err)
{
    tci_ssh_to to;
    tci_arena *a = tci_result_arena(r);
    tc_ssh_target any;
    if (!is_only_target && target != NULL && target->size >= sizeof any && target->host.len == 0) {
        any = *target;
        any.host = TC_STR("any");
        target = &any;
    }
    int rc = tci_ssh_to_make(rt, target, a, &to, err);
    if (rc < 0)
        return rc;
    return tci_ssh_keys_load(to.target.known_hosts_file,
                             is_only_target ? to.target.host_key_alias : (tc_str){0}, a, ret_keys,
                             err);
}

int tc_ssh_status(tc_runtime *rt, tc_ctx *ctx, tc_result *r, const tc_ssh_target *target,
                  tc_ssh_status_info *ret_status, tc_err *err)
{
    tc_ssh_status_info status = {0};
    int rc = tc_ssh_list(rt, r, target, true, &status.trusted, err);
    if (rc == 0)
        rc = tc_ssh_scan(rt, ctx, r, target, &status.offered, err);
    if (rc < 0)
        return rc;
    status.trust = status.trusted.count > 0 ? TC_SSH_CHANGED : TC_SSH_UNKNOWN;
    for (size_t i = 0; i < status.trusted.count; i++)
        for (size_t j = 0; j < status.offered.count; j++)
            if (tci_str_eq(status.trusted.items[i].type, status.offered.items[j].type) &&
                tci_str_eq(status.trusted.items[i].fingerprint,
                           status.offered.items[j].fingerprint))
                status.trust = TC_SSH_TRUSTED;
    *ret_status = status;
    return 0;
}

/* ---- what is overruled ---- */

int tci_ssh_query(tci_ssh_to *to, tc_ctx *ctx, bool without_rules, bool without_config,
                  tci_arena *a, tc_str *ret, tc_err *err)
{
    tci_ssh_child c = {0};
    tci_ssh_want want = {.is_query = true,
                         .without_rules = without_rules,
                         .without_config = without_config,
                         .command = without_rules ? (tc_str){0} : TC_STR("exit 0")};
    int rc = run(to, ctx, &want, &c, err);
    if (rc < 0)
        return rc;
    if (c.exit.is_signal || c.exit.code != 0)
        rc = tci_ssh_explain(to, &c, err);
    else
        rc = tci_arena_dup(a, tci_buf_str(&c.out), ret, err);
    tci_ssh_end(&c);
    return rc;
}

static bool has_line(tc_str text, tc_str wanted)
{
    tc_str line;
    while (tci_str_split(&text, '\n', &line))
        if (tci_str_eq(line, wanted))
            return true;
    return false;
}

int tc_ssh_ignored(tc_runtime *rt, tc_ctx *ctx, tc_result *r, const tc_ssh_target *target,
                   tc_strs *ret_lines, tc_err *err)
{
    tci_ssh_to to;
    tci_arena *a = tci_result_arena(r);
    tc_str ours = {0}, theirs = {0}, bare = {0}, line;
    int rc = tci_ssh_to_make(rt, target, a, &to, err);
    if (rc == 0)
        rc = tci_ssh_query(&to, ctx, false, false, a, &ours, err);
    if (rc == 0)
        rc = tci_ssh_query(&to, ctx, true, false, a, &theirs, err);
    if (rc == 0)
        rc = tci_ssh_query(&to, ctx, true, true, a, &bare, err);
    if (rc < 0)
        return rc;
    size_t max = 1;
    for (size_t i = 0; i < theirs.len; i++)
        max += theirs.ptr[i] == '\n' ? 1 : 0;
    tc_str *items = tci_arena_items(a, tc_str, max);
    if (items == NULL)
        return tci_arena_error(a, err);
    tc_strs lines = {items, 0};
    /* Said by the configuration, and not what holds. */
    while (tci_str_split(&theirs, '\n', &line))
        if (line.len > 0 && !has_line(ours, line) && !has_line(bare, line))
            items[lines.count++] = line;
    *ret_lines = lines;
    return 0;
}
