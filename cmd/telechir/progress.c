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

void cli_progress_start(cli_progress *p, const cli *c, const char *what, uint64_t total,
                        uint64_t files)
{
    *p = (cli_progress){.what = what, .total = total, .files = files};
    p->is_on = !c->is_quiet && !c->is_json && tci_fd_is_terminal(FD_ERR);
    if (p->is_on)
        p->started_ns = tci_clock_mono_ns();
}

/* "0:42", "1:02:03": what is left at the rate so far, by bytes, or by files when those tell more. */
static void put_left(tci_buf *b, const cli_progress *p, double seconds)
{
    enum { MINUTE = 60, HOUR = 3600, LONGEST = 100 * HOUR };
    double part = p->total > 0 ? (double)p->done / (double)p->total : 0;
    double by_files = p->files > 1 ? (double)p->files_done / (double)p->files : part;
    part = by_files < part || p->total == 0 ? by_files : part;
    if (part <= 0 || part > 1)
        return;
    double left = seconds / part - seconds;
    if (left >= LONGEST)
        return;
    unsigned s = (unsigned)(left + 0.5);
    if (s >= HOUR)
        tci_buf_printf(b, ", %u:%02u:%02u left", s / HOUR, s / MINUTE % MINUTE, s % MINUTE);
    else
        tci_buf_printf(b, ", %u:%02u left", s / MINUTE, s % MINUTE);
}

static void show(cli_progress *p, int64_t now)
{
    char done[CLI_SIZE_TEXT_MAX], total[CLI_SIZE_TEXT_MAX], rate[CLI_SIZE_TEXT_MAX];
    double seconds = (double)(now - p->started_ns) / 1e9;
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_printf(&b, "\r%s: %s", p->what, cli_size_text(p->done, done));
    if (p->total > 0)
        tci_buf_printf(&b, " of %s", cli_size_text(p->total, total));
    if (p->files > 1)
        tci_buf_printf(&b, ", %llu of %llu files", (unsigned long long)p->files_done,
                       (unsigned long long)p->files);
    tci_buf_printf(&b, ", %s/s", cli_size_text((uint64_t)((double)p->done / seconds), rate));
    put_left(&b, p, seconds);
    (void)fprintf(stderr, "%.*s\033[K", (int)b.len, b.ptr != NULL ? b.ptr : "");
    tci_buf_done(&b);
    p->is_shown = true;
    p->shown_ns = now;
}

void cli_progress_add(cli_progress *p, uint64_t nbytes, uint64_t nfiles)
{
    p->done += nbytes;
    p->files_done += nfiles;
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
