/* SPDX-License-Identifier: Apache-2.0
 *
 * The daemon's program: read the configuration, serve, say the last word. Everything else is in
 * src/daemon. */
#include "base/log.h"
#include "daemon/config/config.h"
#include "daemon/connect/connect.h"
#include "daemon/pienv/pienv.h"
#include "daemon/serve.h"
#include "plat/system.h"

#include <stdio.h>

extern char **environ;

/* The last words. "a13n-envd failed: " is the wire's literal, which released clients look for; under
 * our own name it stands behind that. */
static int fail(const tci_config *config, const tc_err *err)
{
    const char *program = config->is_drop_in ? "" : "telechird: ";
    const char *what = tci_str_ends(config->program, TC_STR(" update")) ? " update" : "";
    (void)fprintf(stderr, "%sa13n-envd%s failed: %s\n", program, what, err->msg);
    if (!config->is_drop_in && err->hint[0] != '\0')
        (void)fprintf(stderr, "%s%s\n", program, err->hint);
    return 1;
}

/* `serve --token TEXT`: pi-env. The token may stand anywhere. */
static int serve_pienv(int argc, char **argv)
{
    tc_err err;
    int at = 1;
    while (at < argc && strcmp(argv[at], "--token") != 0)
        at++;
    if (at + 1 >= argc) {
        (void)fprintf(stderr, "usage: telechird serve --token TEXT\n");
        return 2;
    }
    int status = tci_pi_main(tci_str(argv[at + 1]), &err);
    if (status == 1)
        (void)fprintf(stderr, "telechird: %s\n", err.msg);
    return status;
}

static void say(void *user, tc_str line)
{
    TCI_UNUSED(user);
    (void)fprintf(stderr, "%.*s\n", TC_STR_ARG(line));
}

static int serve(tci_config *config, tc_err *err)
{
    int rc = tci_serve(config, err);
    config->runtime = NULL; /* it was the device's */
    return rc;
}

static int connect_and_serve(tci_config *config, tc_err *err)
{
    const tci_connect_options options = {.say = say};
    if (tci_connect(config, &options, err) < 0)
        return err->code;
    int rc = serve(config, err);
    if (rc < 0)
        tci_connect_explain(err);
    return rc;
}

static bool is_drop_in(const char *path)
{
    tc_str name = tci_str(path);
    size_t slash = tci_str_rfind_byte(name, '/');
    if (slash < name.len)
        name = tci_str_sub(name, slash + 1, name.len);
    return tci_str_eq(name, TC_STR("a13n-envd"));
}

int main(int argc, char **argv)
{
    tc_err err;
    tci_config config;
    tci_config_action action;
    tc_str text;
    int status = 0;
    tci_system_fill_stdio();
    tci_log_setup(TCI_LOG_WARN, NULL);
    tci_system_ignore_sigpipe();
    if (argc > 1 && strcmp(argv[1], "serve") == 0 && !is_drop_in(argv[0]))
        return serve_pienv(argc, argv);
    tci_system_harden_process(); /* not for the above: its commands inherit the limits of this process */
    int rc = tci_config_load(argc, argv, environ, &config, &action, &text, &err);
    if (rc < 0) {
        status = fail(&config, &err);
    } else if (action == TCI_CONFIG_CONNECT) {
        if (connect_and_serve(&config, &err) < 0)
            status = fail(&config, &err);
    } else if (action != TCI_CONFIG_SERVE) {
        if (fwrite(text.ptr, 1, text.len, stdout) != text.len || fflush(stdout) != 0)
            status = 1;
    } else if (serve(&config, &err) < 0) {
        status = fail(&config, &err);
    }
    tci_config_done(&config);
    return status;
}
