/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts of a target, by asking it. Leaves showing them to target_check.c and doctor.c. The main
 * thread. */
#include "probe.h"

#include "plat/clock.h"

enum { PINGS = 7, SCRIPT_MS = 20000 };

/* The daemon is the parent of the shell it starts. */
static const char script[] =
    "exe=$(readlink /proc/$PPID/exe 2>/dev/null)\n"
    "echo \"daemon_path=$exe\"\n"
    "[ -n \"$exe\" ] && echo \"daemon_version=$(\"$exe\" --version 2>/dev/null </dev/null)\"\n"
    "echo \"os=$(uname -s | tr A-Z a-z)\"\n"
    "echo \"kernel=$(uname -r)\"\n"
    "echo \"machine=$(uname -m)\"\n"
    "echo \"user=$(id -un 2>/dev/null)\"\n"
    "[ -r /etc/os-release ] && . /etc/os-release && echo \"os_version=$PRETTY_NAME\"\n"
    "exit 0\n";

static void take(cli_facts *f, tc_str key, tc_str value)
{
    const struct {
        const char *key;
        tc_str *to;
    } all[] = {{"os", &f->os},
               {"os_version", &f->os_version},
               {"kernel", &f->kernel},
               {"machine", &f->machine},
               {"daemon_version", &f->daemon_version},
               {"daemon_path", &f->daemon_path},
               {"user", &f->user}};
    for (size_t i = 0; i < TCI_ARRAY_LEN(all); i++)
        if (tci_str_eq(key, tci_str(all[i].key)))
            *all[i].to = value;
}

int cli_probe_facts(cli *c, tc_env *env, cli_facts *ret, tc_err *err)
{
    tc_run_result run;
    tc_str rest, line;
    tc_command command = {.size = sizeof command, .script = tci_str(script)};
    tc_run_options options = {.size = sizeof options, .timeout_ms = SCRIPT_MS};
    tc_call call = cli_call(c);
    *ret = (cli_facts){0};
    int rc = tc_env_run(env, &call, &command, &options, &run, err);
    if (rc == 0)
        rc = tci_arena_dup(&c->arena, run.out, &rest, err);
    while (rc == 0 && tci_str_split(&rest, '\n', &line)) {
        size_t equals = tci_str_find_byte(line, '=');
        if (equals < line.len)
            take(ret, tci_str_sub(line, 0, equals), tci_str_sub(line, equals + 1, SIZE_MAX));
    }
    return rc;
}

static int ask(cli *c, tc_env *env, tc_err *err)
{
    tc_file_info info;
    bool exists;
    tc_call call = cli_call(c);
    return cli_is_eip(env) ? tc_env_stat(env, &call, TC_STR("."), true, &info, err)
                           : tc_env_path_exists(env, &call, TC_STR("."), &exists, err);
}

int cli_probe_round_trip(cli *c, tc_env *env, int64_t *ret_us, tc_err *err)
{
    int64_t took[PINGS];
    for (size_t i = 0; i < PINGS; i++) {
        int64_t begin = tci_clock_mono_ns();
        int rc = ask(c, env, err);
        if (rc < 0)
            return rc;
        int64_t us = (tci_clock_mono_ns() - begin) / 1000;
        size_t at = i;
        for (; at > 0 && took[at - 1] > us; at--)
            took[at] = took[at - 1];
        took[at] = us;
    }
    *ret_us = took[PINGS / 2];
    return 0;
}

int cli_probe_keys(cli *c, const cli_target *t, tc_ssh_keys *ret, tc_err *err)
{
    tc_ssh_target ssh;
    int rc = cli_target_ssh(t, &ssh, err);
    return rc == 0 ? tc_ssh_list(c->rt, c->result, &ssh, true, ret, err) : rc;
}
