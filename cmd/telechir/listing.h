/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands that print names share: paths as the person wrote them, lines collected before
 * they are written, a maximum, and what is said when not all was shown. The main thread. */
#ifndef TCI_CLI_LISTING_H
#define TCI_CLI_LISTING_H

#include "cli.h"

typedef struct cli_listing {
    cli *c;
    tci_buf buf;
    uint64_t max, nshown; /* max 0: none */
    uint64_t nomitted;    /* names that are not UTF-8 */
    bool is_cut;
    const char *cut_by; /* what said so */
} cli_listing;

/* --max is read. false: c->err. */
bool cli_listing_init(cli_listing *l, cli *c);
/* How many more may be shown, at most page. */
uint32_t cli_listing_room(const cli_listing *l, uint32_t page);
/* One more is shown; its line is in l->buf. Writes when enough has come together. */
bool cli_listing_add(cli_listing *l);
/* Write the rest, say what is missing. rc < 0: report c->err. Gives the exit status. */
int cli_listing_end(cli_listing *l, int rc);

/* A root as it was typed, and as its target knows it. */
typedef struct cli_root {
    const char *typed;
    tc_env *env;
    tc_str absolute;
} cli_root;
int cli_root_of(cli *c, const char *typed, cli_root *ret) TC_CHECKED;
/* path, which is below root, as somebody who typed the root would write it. */
void cli_put_below(tci_buf *b, const cli_root *root, tc_str path);

#endif
