/* SPDX-License-Identifier: Apache-2.0
 *
 * Diagnostics, one line each. Leaves deciding what is worth a line to the callers. Any thread after
 * set-up. Invariant: whatever is logged, exactly one line comes out: control characters are
 * replaced, long lines are cut. */
#include "base/log.h"
#include "base/utf8.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef TCI_LOG_PROGRAM
#define TCI_LOG_PROGRAM "telechir"
#endif

enum { LINE_MAX_BYTES = 1024 };

/* The one mutable global: written by tci_log_setup before threads start. */
static struct {
    tci_log_level max_level;
    void (*sink)(tci_log_level, const char *);
} config = {TCI_LOG_INFO, NULL};

void tci_log_setup(tci_log_level max_level, void (*sink)(tci_log_level, const char *line))
{
    config.max_level = max_level;
    config.sink = sink;
}

bool tci_log_enabled(tci_log_level level)
{
    return level <= config.max_level;
}

static const char *level_name(tci_log_level level)
{
    switch (level) {
    case TCI_LOG_ERROR:
        return "error";
    case TCI_LOG_WARN:
        return "warning";
    case TCI_LOG_INFO:
        return "info";
    case TCI_LOG_DEBUG:
        return "debug";
    }
    return "debug";
}

void tci_log(tci_log_level level, const char *fmt, ...)
{
    if (!tci_log_enabled(level))
        return;
    int saved = errno; /* whoever logs an error still wants to return it */
    char line[LINE_MAX_BYTES];
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    if (len < 0)
        line[0] = '\0';
    if (len >= (int)sizeof line)
        line[sizeof line - 1 - tci_utf8_cut_tail(tci_str_of(line, sizeof line - 1))] = '\0';
    for (char *p = line; *p != '\0'; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = ' ';
    }
    if (config.sink != NULL)
        config.sink(level, line);
    else /* a line lost with standard error has nowhere else to go */
        (void)fprintf(stderr, "%s: %s: %s\n", TCI_LOG_PROGRAM, level_name(level), line);
    errno = saved;
}
