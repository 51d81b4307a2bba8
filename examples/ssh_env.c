/* SPDX-License-Identifier: Apache-2.0
 *
 * An environment on a machine that SSH reaches: look at the key it shows, accept it once its owner
 * has confirmed the fingerprint, then write a file and run a command there. The daemon is put there
 * by the first operation.
 *
 *     ssh_env [USER@]HOST[:PORT] KNOWN_HOSTS IDENTITY DAEMON [FINGERPRINT]
 *
 * Without FINGERPRINT it shows the one it saw, and accepts nothing. DAEMON is a telechird for that
 * machine, or a folder of them. */
#include <stdio.h>
#include <string.h>
#include <telechir/ssh.h>

static int fail(const char *what, const tc_err *err)
{
    fprintf(stderr, "%s: %s\n", what, err->msg);
    if (err->hint[0] != 0)
        fprintf(stderr, "  %s\n", err->hint);
    return tc_code_exit_status(err->code);
}

static tc_str text(const char *cstr)
{
    tc_str s = {cstr, strlen(cstr)};
    return s;
}

/* Accept the key with this fingerprint; NULL: only show what there is. 1: there is nothing to go on
 * with. */
static int trust(tc_runtime *runtime, tc_result *result, const tc_ssh_target *target,
                 const char *fingerprint, tc_err *err)
{
    tc_ssh_status_info status;
    if (tc_ssh_status(runtime, NULL, result, target, &status, err) < 0)
        return err->code;
    if (status.trust == TC_SSH_TRUSTED)
        return 0;
    for (size_t i = 0; i < status.offered.count; i++) {
        const tc_ssh_key *key = &status.offered.items[i];
        printf("it shows %.*s\n", TC_STR_ARG(key->fingerprint));
        if (fingerprint == NULL || strlen(fingerprint) != key->fingerprint.len ||
            memcmp(fingerprint, key->fingerprint.ptr, key->fingerprint.len) != 0)
            continue;
        tc_strs lines = {&key->line, 1};
        return tc_ssh_accept(runtime, target, lines, err);
    }
    return 1;
}

/* Output as it comes, on the calling thread. */
static int print_output(void *user, tc_stream_kind stream, tc_str piece, const tc_skipped *skipped,
                        tc_err *err)
{
    (void)user;
    (void)skipped;
    (void)err;
    fwrite(piece.ptr, 1, piece.len, stream == TC_STDERR ? stderr : stdout);
    return 0;
}

static int use(tc_env *env, tc_result *result, tc_err *err)
{
    tc_call call = TC_CALL(NULL, result);
    tc_exec_outcome outcome;
    tc_exec_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.script = TC_STR("tr a-z A-Z < note.txt; exit 3");
    options.on_output = print_output;

    if (tc_env_write_file(env, &call, TC_STR("note.txt"), TC_STR("hello from afar\n"), err) < 0)
        return fail("write", err);
    if (tc_env_exec(env, &call, &options, &outcome, err) < 0)
        return fail("exec", err);
    printf("status %d\n", (int)outcome.exit_code);
    return 0;
}

/* From a host's name to the use of it; the exit status. */
static int reach(tc_runtime *runtime, tc_result *result, char **argv, const char *fingerprint,
                 tc_err *err)
{
    tc_ssh_options ssh;
    tc_env_options options;
    tc_env *env;
    memset(&ssh, 0, sizeof ssh);
    ssh.size = sizeof ssh;
    ssh.target.size = sizeof ssh.target;
    ssh.target.known_hosts_file = text(argv[2]);
    ssh.target.host_key_alias = TC_STR("telechir-example");
    ssh.target.identity_file = text(argv[3]);
    ssh.daemon = text(argv[4]);
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.environment_id = TC_STR("example");

    if (tc_ssh_target_parse(text(argv[1]), &ssh.target, err) < 0)
        return fail("host", err);
    int rc = trust(runtime, result, &ssh.target, fingerprint, err);
    if (rc < 0)
        return fail("trust", err);
    if (rc == 1) {
        puts("not trusted; once its owner has confirmed it, pass that fingerprint");
        return 3;
    }

    /* Nothing is started before the first operation. */
    if (tc_env_create_ssh(runtime, &options, &ssh, &env, err) < 0)
        return fail("environment", err);
    int status = use(env, result, err);
    tc_env_release(env);
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 5 || argc > 6) {
        fprintf(stderr, "usage: %s [USER@]HOST[:PORT] KNOWN_HOSTS IDENTITY DAEMON [FINGERPRINT]\n",
                argv[0]);
        return 2;
    }
    tc_err err;
    tc_runtime *runtime;
    tc_result *result;
    if (tc_runtime_open(NULL, &runtime, &err) < 0 || tc_result_new(&result, &err) < 0)
        return fail("start", &err);
    int status = reach(runtime, result, argv, argc == 6 ? argv[5] : NULL, &err);
    tc_result_free(result);
    tc_runtime_close(runtime);
    return status;
}
