/* SPDX-License-Identifier: Apache-2.0
 *
 * Diagnostics for the person who runs the program. Library code logs at debug level only. The
 * level and the sink are the program's one mutable global, set in main before threads start. */
#ifndef TCI_LOG_H
#define TCI_LOG_H

#include "base/compiler.h"

typedef enum tci_log_level {
    TCI_LOG_ERROR,
    TCI_LOG_WARN,
    TCI_LOG_INFO,
    TCI_LOG_DEBUG
} tci_log_level;

/* sink NULL: one line on standard error, "<program>: level: text". */
void tci_log_setup(tci_log_level max_level, void (*sink)(tci_log_level, const char *line));
bool tci_log_enabled(tci_log_level level);
void tci_log(tci_log_level level, const char *fmt, ...) TC_PRINTF(2, 3);

#endif
