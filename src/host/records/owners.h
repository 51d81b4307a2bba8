/* SPDX-License-Identifier: Apache-2.0
 *
 * Who may decide: one owner, signed in from any number of browsers and terminals. Links work once; sessions
 * and tokens until their time is over. Only digests are kept. now_ms as in devices.h. Blocks (disk); any
 * thread, one at a time. */
#ifndef TCI_HOST_OWNERS_H
#define TCI_HOST_OWNERS_H

#include "host/records/db.h"
#include "host/records/secrets.h"

typedef enum tci_sign_in_kind { TCI_SIGN_IN_BROWSER, TCI_SIGN_IN_TERMINAL } tci_sign_in_kind;

#define TCI_DAY_MS INT64_C(86400000)
#define TCI_LINK_MS (60 * 60 * INT64_C(1000))
#define TCI_BROWSER_MS (30 * TCI_DAY_MS)
#define TCI_TERMINAL_MS (365 * TCI_DAY_MS)

/* A code that signs somebody in, once, within TCI_LINK_MS. */
int tci_host_link_new(tci_host_db *db, int64_t now_ms, char ret_code[TCI_LINK_CODE_LEN],
                      int64_t *ret_expires_ms, tc_err *err) TC_CHECKED;
/* Use it up. label: where from, for people. AUTH: it is not one, was used, or is too old. */
int tci_host_sign_in(tci_host_db *db, int64_t now_ms, tc_str code, tci_sign_in_kind kind,
                     tc_str label, char ret_token[TCI_TOKEN_LEN], int64_t *ret_expires_ms,
                     tc_err *err) TC_CHECKED;
/* Is this the token of somebody who is signed in that way? AUTH when not. */
int tci_host_signed_in(tci_host_db *db, int64_t now_ms, tc_str token, tci_sign_in_kind kind,
                       tc_err *err) TC_CHECKED;
int tci_host_sign_out(tci_host_db *db, tc_str token, tc_err *err) TC_CHECKED;
/* Is anybody signed in at all? */
int tci_host_has_owner(tci_host_db *db, int64_t now_ms, bool *ret, tc_err *err) TC_CHECKED;

#endif
