/* SPDX-License-Identifier: Apache-2.0
 *
 * A session on a daemon started as a child: write a file, read it back, run a command when the
 * daemon offers commands.
 *
 *     local_session DAEMON FOLDER */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <telechir/client.h>

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

static int use(tc_session *session, const char *folder, tc_result *result, tc_err *err)
{
    char path[4096];
    tc_call call = TC_CALL(NULL, result);
    snprintf(path, sizeof path, "%s/hello.txt", folder);

    if (tc_session_write_text(session, &call, text(path), TC_STR("hello from here\n"), NULL, NULL,
                              err) < 0)
        return fail("write", err);
    const tc_evidence *evidence = tc_result_evidence(result);
    printf("write %.*s: %s\n", TC_STR_ARG(evidence->operation_id),
           tc_outcome_name(evidence->outcome));

    tc_text_page page;
    if (tc_session_read_text(session, &call, text(path), NULL, &page, err) < 0)
        return fail("read", err);
    printf("read: %.*s", TC_STR_ARG(page.text));

    if (!tc_session_has_method(session, TC_STR("shell.exec"))) {
        printf("no commands here\n");
        return 0;
    }
    tc_command command;
    memset(&command, 0, sizeof command);
    command.size = sizeof command;
    command.script = TC_STR("wc -c < hello.txt");
    tc_exec_result run;
    if (tc_session_exec(session, &call, &command, &run, err) < 0)
        return fail("exec", err);
    printf("exec: exit %d, %.*s", (int)run.status.exit_code, TC_STR_ARG(run.out.preview));
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s DAEMON FOLDER\n", argv[0]);
        return 2;
    }
    char runtime_dir[4096];
    tc_err err;
    tc_runtime *runtime;
    tc_result *result;
    tc_device *device;
    tc_session *session;
    snprintf(runtime_dir, sizeof runtime_dir, "%s.runtime", argv[2]);

    if (tc_runtime_open(NULL, &runtime, &err) < 0 || tc_result_new(&result, &err) < 0)
        return fail("start", &err);

    tc_pair full_control = {TC_STR("A13N_ENVD_FULL_CONTROL"), TC_STR("true")};
    tc_spawn_options spawn;
    memset(&spawn, 0, sizeof spawn);
    spawn.size = sizeof spawn;
    spawn.program = text(argv[1]);
    spawn.set_env = &full_control;
    spawn.nset_env = 1;
    spawn.runtime_dir = text(runtime_dir);
    if (tc_device_spawn(runtime, NULL, &spawn, NULL, &device, &err) < 0)
        return fail("daemon", &err);
    printf("device on %.*s\n", TC_STR_ARG(tc_device_get_info(device)->system.os));

    tc_session_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.working_directory = text(argv[2]);
    if (tc_session_open(device, NULL, &options, &session, &err) < 0)
        return fail("session", &err);

    int status = use(session, argv[2], result, &err);
    if (tc_session_close(session, NULL, &err) < 0 && status == 0)
        status = fail("close", &err);
    tc_result_free(result);
    tc_device_close(device);
    tc_runtime_close(runtime);
    return status;
}
