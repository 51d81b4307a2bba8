/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands over one open link, timed one by one: for each line on standard input `true` runs on the
 * other machine, and the seconds it took are printed. Used by bench_ssh.py.
 *
 *     bench_ssh_exec HOST PORT IDENTITY KNOWN_HOSTS DAEMON */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <telechir/ssh.h>
#include <time.h>

static tc_str text(const char *cstr)
{
    tc_str s = {cstr, strlen(cstr)};
    return s;
}

static int fail(const char *what, const tc_err *err)
{
    fprintf(stderr, "%s: %s\n", what, err->msg);
    if (err->hint[0] != 0)
        fprintf(stderr, "  %s\n", err->hint);
    return 1;
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: %s HOST PORT IDENTITY KNOWN_HOSTS DAEMON\n", argv[0]);
        return 2;
    }
    tc_err err;
    tc_runtime *runtime;
    tc_result *result;
    tc_env *env;
    if (tc_runtime_open(NULL, &runtime, &err) < 0 || tc_result_new(&result, &err) < 0)
        return fail("start", &err);

    tc_env_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.environment_id = TC_STR("bench");
    tc_ssh_options ssh;
    memset(&ssh, 0, sizeof ssh);
    ssh.size = sizeof ssh;
    ssh.target.size = sizeof ssh.target;
    ssh.target.host = text(argv[1]);
    ssh.target.port = (uint32_t)strtoul(argv[2], NULL, 10);
    ssh.target.identity_file = text(argv[3]);
    ssh.target.known_hosts_file = text(argv[4]);
    ssh.daemon = text(argv[5]);
    if (tc_env_create_ssh(runtime, &options, &ssh, &env, &err) < 0 ||
        tc_env_ready(env, NULL, &err) < 0)
        return fail("connect", &err);

    tc_command command;
    memset(&command, 0, sizeof command);
    command.size = sizeof command;
    command.program = TC_STR("true");
    int status = 0;
    char line[64];
    while (status == 0 && fgets(line, sizeof line, stdin) != NULL) {
        tc_run_result run;
        tc_call call = TC_CALL(NULL, result);
        tc_result_clear(result);
        double begin = now_s();
        if (tc_env_run(env, &call, &command, NULL, &run, &err) < 0)
            status = fail("run", &err);
        else if (!run.status.has_exit_code || run.status.exit_code != 0)
            status = 1;
        printf("%.6f\n", now_s() - begin);
        fflush(stdout);
    }
    tc_env_release(env);
    tc_result_free(result);
    tc_runtime_close(runtime);
    return status;
}
