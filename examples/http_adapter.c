/* SPDX-License-Identifier: Apache-2.0
 *
 * An environment on a daemon that is already running behind HTTP: make an adapter, write a file,
 * close the adapter; then read the file through a new adapter, which has a session of its own. The
 * daemon and its files outlive both.
 *
 *     http_adapter ENDPOINT DEVICE_ID CREDENTIAL_FILE [FOLDER]
 *
 * ENDPOINT is an origin such as https://envd.example.com; without FOLDER the device's own working
 * directory is used. */
#include <stdio.h>
#include <string.h>
#include <telechir/env.h>

#define FILE_NAME TC_STR("provider-example.txt")

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

/* A ready adapter; *ret_env is set also on failure, to be released. */
static int open_adapter(tc_runtime *runtime, char **argv, int argc, tc_result *result,
                        tc_env **ret_env, tc_err *err)
{
    tc_env_options options;
    tc_http_options http;
    memset(&options, 0, sizeof options);
    memset(&http, 0, sizeof http);
    options.size = sizeof options;
    options.environment_id = TC_STR("env-my-project"); /* our name for it, not the device's */
    if (argc > 4)
        options.working_directory = text(argv[4]);
    /* A program would have saved this; it names the device and nothing else. */
    int rc = tc_env_state_make(TC_STR("http_envd"), text(argv[2]), result, &options.state, err);
    if (rc < 0)
        return rc;
    http.size = sizeof http;
    http.endpoint = text(argv[1]);
    http.credential_file = text(argv[3]);
    rc = tc_env_create_http(runtime, &options, &http, ret_env, err); /* checks, contacts nothing */
    if (rc < 0)
        return rc;
    return tc_env_ready(*ret_env, NULL, err);
}

static int run(tc_runtime *runtime, int argc, char **argv, tc_result *result)
{
    char first_session[256] = "";
    tc_env *env = NULL;
    tc_err err;
    tc_call call = TC_CALL(NULL, result);

    int rc = open_adapter(runtime, argv, argc, result, &env, &err);
    if (rc == 0) {
        snprintf(first_session, sizeof first_session, "%.*s", TC_STR_ARG(tc_env_session_id(env)));
        rc = tc_env_write_text(env, &call, FILE_NAME, TC_STR("hello from remote envd"), NULL, NULL,
                               &err);
    }
    tc_env_release(env); /* ends its session; the daemon and its files stay */
    if (rc < 0)
        return fail("write", &err);

    tc_text_page page;
    env = NULL;
    rc = open_adapter(runtime, argv, argc, result, &env, &err);
    if (rc == 0)
        rc = tc_env_read_text(env, &call, FILE_NAME, NULL, &page, &err);
    if (rc == 0) {
        tc_str second = tc_env_session_id(env);
        bool is_same = strlen(first_session) == second.len &&
                       memcmp(first_session, second.ptr, second.len) == 0;
        printf("re-entry read: %.*s\n", TC_STR_ARG(page.text));
        printf("independent Sessions: %s\n", is_same ? "False" : "True");
    }
    tc_env_release(env);
    return rc < 0 ? fail("read", &err) : 0;
}

int main(int argc, char **argv)
{
    if (argc < 4 || argc > 5) {
        fprintf(stderr, "usage: %s ENDPOINT DEVICE_ID CREDENTIAL_FILE [FOLDER]\n", argv[0]);
        return 2;
    }
    tc_err err;
    tc_runtime *runtime;
    tc_result *result;
    if (tc_runtime_open(NULL, &runtime, &err) < 0)
        return fail("start", &err);
    int status = tc_result_new(&result, &err) < 0 ? fail("start", &err) : 0;
    if (status == 0) {
        status = run(runtime, argc, argv, result);
        tc_result_free(result);
    }
    tc_runtime_close(runtime); /* with it, the connection both adapters shared */
    return status;
}
