/* SPDX-License-Identifier: Apache-2.0
 *
 * The daemon's program: read the configuration, serve, say the last word. Everything else is in
 * src/daemon. */
#include "base/log.h"
#include "daemon/config.h"
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

int main(int argc, char **argv)
{
    tc_err err;
    tci_config config;
    tci_config_action action;
    tc_str text;
    int status = 0;
    tci_log_setup(TCI_LOG_WARN, NULL);
    tci_system_harden_process();
    tci_system_ignore_sigpipe();
    int rc = tci_config_load(argc, argv, environ, &config, &action, &text, &err);
    if (rc < 0) {
        status = fail(&config, &err);
    } else if (action != TCI_CONFIG_SERVE) {
        if (fwrite(text.ptr, 1, text.len, stdout) != text.len || fflush(stdout) != 0)
            status = 1;
    } else if (tci_serve(&config, &err) < 0) {
        status = fail(&config, &err);
    }
    tci_config_done(&config);
    return status;
}
