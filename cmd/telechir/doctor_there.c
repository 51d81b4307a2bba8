/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechir doctor`, the target: reached, trusted, and each thing it is needed for, tried once in a
 * temporary folder over there. The main thread. Invariant: the folder is removed again. */
#include "doctor.h"

#include "probe.h"

#include "plat/clock.h"

static const char probe_name[] = "probe.txt";
static const char probe_text[] = "telechir probe\n";

typedef struct there {
    doctor *d;
    cli *c;
    const char *name;
    cli_target target;
    tc_env *env;
    tc_str folder, file; /* temporary, over there */
} there;

static tc_call fresh_call(there *t)
{
    tc_result_clear(t->c->result);
    return cli_call(t->c);
}

/* Something this provider does not do limits it; anything else is a failure. */
static void not_working(there *t, const char *check)
{
    if (t->c->err.code == TC_E_UNSUPPORTED)
        doctor_note(t->d, check);
    else
        doctor_failed(t->d, check);
}

/* ---- reaching it ---- */

static bool look_trust(there *t)
{
    cli *c = t->c;
    tc_ssh_target ssh;
    tc_ssh_status_info s;
    if (t->target.kind != CLI_TARGET_SSH)
        return true;
    if (cli_target_ssh(&t->target, &ssh, &c->err) < 0 ||
        tc_ssh_status(c->rt, c->ctx, c->result, &ssh, &s, &c->err) < 0) {
        doctor_failed(t->d, "host key");
        return false;
    }
    const tc_ssh_keys *keys = s.offered.count > 0 ? &s.offered : &s.trusted;
    tc_str print = keys->count > 0 ? keys->items[0].fingerprint : TC_STR("no key");
    if (s.trust == TC_SSH_TRUSTED) {
        doctor_found(t->d, FOUND_OK, "host key", NULL, "trusted, %.*s", TC_STR_ARG(print));
        return true;
    }
    (void)tc_err_set(&c->err, TC_E_UNTRUSTED, "%s, it shows %.*s",
                     s.trust == TC_SSH_CHANGED ? "not the key that is trusted" : "not trusted yet",
                     TC_STR_ARG(print));
    (void)tc_err_hint(&c->err, "telechir trust %s%s", t->name,
                      s.trust == TC_SSH_CHANGED ? " says more" : "");
    doctor_failed(t->d, "host key");
    return false;
}

static void look_ignored(there *t)
{
    cli *c = t->c;
    tc_ssh_target ssh;
    tc_strs lines = {0};
    if (t->target.kind != CLI_TARGET_SSH)
        return;
    if (cli_target_ssh(&t->target, &ssh, &c->err) < 0 ||
        tc_ssh_ignored(c->rt, c->ctx, c->result, &ssh, &lines, &c->err) < 0)
        doctor_note(t->d, "ssh options");
    for (size_t i = 0; i < lines.count; i++)
        doctor_found(t->d, FOUND_NOTE, "ssh options", NULL, "not used, overruled: %.*s",
                     TC_STR_ARG(lines.items[i]));
}

static bool look_reach(there *t)
{
    cli *c = t->c;
    int64_t begin = tci_clock_mono_ns(), trip = 0;
    t->env = cli_env(c, t->name);
    int64_t took = tci_clock_mono_ns() - begin;
    if (t->env == NULL || cli_probe_round_trip(c, t->env, &trip, &c->err) < 0) {
        doctor_failed(t->d, "reach");
        return false;
    }
    doctor_found(t->d, FOUND_OK, "reach", NULL, "ready after %.0f ms, round trip %.2f ms",
                 (double)took / 1e6, (double)trip / 1e3);
    return true;
}

static void look_system(there *t)
{
    cli *c = t->c;
    cli_facts f = {0};
    if (!tc_env_can_exec(t->env)) {
        doctor_found(t->d, FOUND_SKIPPED, "system", NULL, "commands are disabled there");
        return;
    }
    if (cli_probe_facts(c, t->env, &f, &c->err) < 0) {
        not_working(t, "system");
        return;
    }
    doctor_found(t->d, FOUND_OK, "system", NULL, "%.*s %.*s, kernel %.*s, %.*s, user %.*s",
                 TC_STR_ARG(f.os), TC_STR_ARG(f.os_version), TC_STR_ARG(f.kernel),
                 TC_STR_ARG(f.machine), TC_STR_ARG(f.user));
    if (!cli_is_eip(t->env))
        doctor_found(t->d, FOUND_OK, "daemon", NULL, "%.*s at %.*s", TC_STR_ARG(f.daemon_version),
                     TC_STR_ARG(f.daemon_path));
}

/* ---- what it is needed for ---- */

static bool look_files(there *t)
{
    cli *c = t->c;
    tc_str text;
    tc_call call = fresh_call(t);
    int rc = tc_env_create_temp_dir(t->env, &call, TC_STR("telechir-doctor-"), &t->folder, &c->err);
    if (rc == 0)
        rc = tci_arena_dup(&c->arena, t->folder, &t->folder, &c->err);
    if (rc == 0)
        rc = tci_arena_printf(&c->arena, &t->file, &c->err, "%.*s/%s", TC_STR_ARG(t->folder),
                              probe_name);
    call = fresh_call(t);
    if (rc == 0)
        rc = tc_env_write(t->env, &call, t->file, tci_str(probe_text), NULL, NULL, &c->err);
    if (rc == 0)
        rc = tc_env_read(t->env, &call, t->file, NULL, 0, &text, &c->err);
    if (rc == 0 && !tci_str_eq(text, tci_str(probe_text)))
        rc = tc_err_set(&c->err, TC_E_INTEGRITY, "a file came back different");
    if (rc < 0) {
        not_working(t, "files");
        return false;
    }
    doctor_found(t->d, FOUND_OK, "files", NULL, "written and read back below %.*s",
                 TC_STR_ARG(t->folder));
    return true;
}

static void look_exec(there *t)
{
    cli *c = t->c;
    tc_run_result run;
    tc_command command = {.size = sizeof command, .script = TC_STR("echo works; exit 7")};
    tc_call call = fresh_call(t);
    if (!tc_env_can_exec(t->env)) {
        doctor_found(t->d, FOUND_NOTE, "commands", "its operator can allow them", "disabled there");
        return;
    }
    int rc = tc_env_run(t->env, &call, &command, NULL, &run, &c->err);
    if (rc == 0 && (run.status.exit_code != 7 || !tci_str_eq(run.out, TC_STR("works\n"))))
        rc = tc_err_set(&c->err, TC_E_INTEGRITY, "a command gave status %d and '%.*s'",
                        (int)run.status.exit_code, TC_STR_ARG(run.out));
    if (rc < 0)
        not_working(t, "commands");
    else
        doctor_found(t->d, FOUND_OK, "commands", NULL, "output and status came back");
}

static void look_find(there *t)
{
    cli *c = t->c;
    tc_file_page found;
    tc_search_page matches;
    tc_call call = fresh_call(t);
    int rc = tc_env_find(t->env, &call, t->folder, TC_STR("*.txt"), NULL, &found, &c->err);
    size_t nfound = rc == 0 ? found.count : 0;
    if (rc == 0)
        rc = tc_env_search(t->env, &call, t->folder, TC_STR("probe"), NULL, &matches, &c->err);
    if (rc == 0 && (nfound != 1 || matches.count != 1))
        rc = tc_err_set(&c->err, TC_E_INTEGRITY, "a file was not found by name or by content");
    if (rc < 0)
        not_working(t, "find and grep");
    else
        doctor_found(t->d, FOUND_OK, "find and grep", NULL, "found by name and by content");
}

static void look_list(there *t)
{
    cli *c = t->c;
    tc_tree tree;
    tc_call call = fresh_call(t);
    int rc = tc_env_list_files(t->env, &call, t->folder, NULL, &tree, &c->err);
    if (rc == 0 && tree.count != 1)
        rc = tc_err_set(&c->err, TC_E_INTEGRITY, "%zu entries instead of one", tree.count);
    if (rc < 0)
        not_working(t, "listing");
    else
        doctor_found(t->d, FOUND_OK, "listing", NULL, "whole trees in one answer");
}

static void on_change(void *user, const tc_watch_event *event)
{
    TCI_UNUSED(user); /* what happens is not of interest, only that it can be watched */
    TCI_UNUSED(event);
}

static void look_watch(there *t)
{
    cli *c = t->c;
    tc_watcher *watcher = NULL;
    tc_watch_target target = {.path = t->folder, .is_recursive = true};
    tc_call call = fresh_call(t);
    if (tc_env_watch(t->env, &call, &target, 1, NULL, on_change, NULL, &watcher, &c->err) < 0) {
        not_working(t, "watching");
        return;
    }
    bool is_native = tc_watcher_mode(watcher) == TC_WATCH_NATIVE;
    tc_watcher_free(watcher);
    doctor_found(t->d, is_native ? FOUND_OK : FOUND_NOTE, "watching", NULL,
                 is_native ? "native" : "by looking every two seconds");
}

static void remove_folder(there *t)
{
    cli *c = t->c;
    tc_call call = fresh_call(t);
    if (t->folder.len > 0 && tc_env_remove_path(t->env, &call, t->folder, true, true, &c->err) < 0)
        doctor_note(t->d, "tidying up");
}

void doctor_there(doctor *d)
{
    cli *c = d->c;
    there t = {.d = d, .c = c, .name = cli_value(c, "on")};
    if (t.name == NULL)
        t.name = "local";
    if (cli_target_resolve(c, tci_str(t.name), &t.target, &c->err) < 0) {
        doctor_failed(d, "target");
        return;
    }
    look_ignored(&t);
    if (!look_trust(&t) || !look_reach(&t))
        return;
    look_system(&t);
    bool has_files = look_files(&t);
    look_exec(&t);
    if (has_files) {
        look_find(&t);
        look_list(&t);
        look_watch(&t);
    }
    remove_folder(&t);
}
