/* SPDX-License-Identifier: Apache-2.0
 *
 * One line on the terminal about something that takes long: it appears after two seconds, changes
 * ten times a second at most, and is wiped at the end. */
#include "cli.h"

#include "plat/clock.h"
#include "plat/fd.h"

#include <stdio.h>

enum { FD_ERR = 2, SHOW_EVERY_NS = 100000000 };
#define SHOW_AFTER_NS ((int64_t)2000000000)

const char *cli_size_text(uint64_t nbytes, char out[CLI_SIZE_TEXT_MAX])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double v = (double)nbytes;
    size_t unit = 0;
    for (; v >= 1024 && unit + 1 < TCI_ARRAY_LEN(units); unit++)
        v /= 1024;
    (void)snprintf(out, CLI_SIZE_TEXT_MAX, unit == 0 ? "%.0f %s" : "%.1f %s", v, units[unit]);
    return out;
}

void cli_progress_start(cli_progress *p, const cli *c, const char *what, uint64_t total)
{
    *p = (cli_progress){.what = what, .total = total};
    p->is_on = !c->is_quiet && !c->is_json && tci_fd_is_terminal(FD_ERR);
    if (p->is_on)
        p->started_ns = tci_clock_mono_ns();
}

static void show(cli_progress *p, int64_t now)
{
    char done[CLI_SIZE_TEXT_MAX], total[CLI_SIZE_TEXT_MAX], rate[CLI_SIZE_TEXT_MAX];
    double seconds = (double)(now - p->started_ns) / 1e9;
    (void)cli_size_text(p->done, done);
    (void)cli_size_text((uint64_t)((double)p->done / seconds), rate);
    if (p->total > 0)
        (void)fprintf(stderr, "\r%s: %s of %s, %s/s\033[K", p->what, done,
                      cli_size_text(p->total, total), rate);
    else
        (void)fprintf(stderr, "\r%s: %s, %s/s\033[K", p->what, done, rate);
    p->is_shown = true;
    p->shown_ns = now;
}

void cli_progress_add(cli_progress *p, uint64_t nbytes)
{
    p->done += nbytes;
    if (!p->is_on)
        return;
    int64_t now = tci_clock_mono_ns();
    if (now - p->started_ns >= SHOW_AFTER_NS && now - p->shown_ns >= SHOW_EVERY_NS)
        show(p, now);
}

void cli_progress_end(cli_progress *p)
{
    if (p->is_shown)
        (void)fprintf(stderr, "\r\033[K");
    p->is_shown = false;
    p->is_on = false;
}
