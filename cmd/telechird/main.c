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

static int fail(const tci_config *config, const tc_err *err)
{
    tc_str program = config->program.len > 0 ? config->program : TC_STR("telechird");
    (void)fprintf(stderr, "%.*s failed: %s\n", TC_STR_ARG(program), err->msg);
    if (!config->is_drop_in && err->hint[0] != '\0')
        (void)fprintf(stderr, "%.*s: %s\n", TC_STR_ARG(program), err->hint);
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
