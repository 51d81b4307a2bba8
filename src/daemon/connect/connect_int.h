/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of `connect`: addresses and answers (pure), what is saved (blocking), and the talk with the
 * Host (a loop of its own). */
#ifndef TCI_DAEMON_CONNECT_INT_H
#define TCI_DAEMON_CONNECT_INT_H

#include "base/buf.h"
#include "daemon/connect/connect.h"
#include "daemon/runtime_dir.h"
#include "plat/file.h"

/* ---- addresses: connect_url.c; pure ---- */

enum { TCI_CONNECT_URL_MAX = 2048, TCI_CONNECT_NAME_MAX = 64 };

/* 1 to 64 of A-Z a-z 0-9 . _ -, neither "." nor "..": such a name is a name of a folder. */
bool tci_connect_is_name(tc_str name);
/* Check the address of a Host and write it in its one form: scheme and host in lower case, no usual port,
 * no dot segments, a '/' at the end. https, or http to this machine itself. *ret lies in a.
 * Errors: INVALID. */
int tci_connect_base(tc_str text, tci_arena *a, tc_str *ret, tc_err *err) TC_CHECKED;
/* "host-" and the first 16 hex digits of the SHA-256 of the address. */
int tci_connect_default_alias(tc_str base, tci_arena *a, tc_str *ret, tc_err *err) TC_CHECKED;
/* What reference means below base (RFC 3986, section 5), in the one form; base is one that
 * tci_connect_base made. Any scheme of net/url.h, query and fragment may be there. INVALID. */
int tci_connect_resolve(tc_str base, tc_str reference, tci_arena *a, tc_str *ret,
                        tc_err *err) TC_CHECKED;
/* Where the WebSocket goes: reference resolved, http read as ws. It must stay on the host, the port and
 * the security of base, and have neither user info, query nor fragment. INVALID otherwise. */
int tci_connect_socket_url(tc_str base, tc_str reference, tci_arena *a, tc_str *ret,
                           tc_err *err) TC_CHECKED;
/* The page of the Host where a person approves; empty when it is not the Host's own. INVALID: no address. */
int tci_connect_approval_url(tc_str base, tc_str reference, tci_arena *a, tc_str *ret,
                             tc_err *err) TC_CHECKED;

/* ---- what a Host answers: connect_answer.c; pure ---- */

enum {
    TCI_PAIR_ANSWER_MAX = 64 * 1024, /* bytes of an answer */
    TCI_PAIR_REFUSAL_MAX = 4096,     /* bytes of a refusal that is looked at */
    TCI_PAIR_CODE_MAX = 32,
    TCI_PAIR_RESOURCE_MAX = 1024
};

typedef struct tci_pair_answer {
    bool is_approved;
    tc_str verification_code; /* pending: */
    tc_str approval_url;      /* empty: none */
    uint64_t poll_after_s;    /* 1..10, whatever the Host said */
    tc_str resource_id;       /* approved: */
    tc_str websocket_url;     /* as the Host wrote it */
} tci_pair_answer;

/* Read the body of an answer of success. Texts point into body and a. INVALID: not such an answer. */
int tci_pair_answer_read(tc_str body, tci_arena *a, tci_pair_answer *ret, tc_err *err) TC_CHECKED;
/* Set err to what a refusal means: its status, and code and message when the body has them. The
 * credential, should the Host repeat it, is not shown. Returns AUTH. */
int tci_pair_refused(unsigned status, tc_str body, tc_str credential, tc_err *err);

/* ---- what is saved: connect_state.c; blocking ---- */

typedef struct tci_connect_record {
    tc_str url; /* as it was saved; in a state always in the one form */
    tc_str name;
    tc_str ca_file; /* empty: none */
    bool is_registered;
    tc_str resource_id, websocket_url;
} tci_connect_record;

typedef struct tci_connect_state {
    tci_file folder; /* of the alias */
    tc_str instance_path, runtime_path, credential_path;
    tc_str device_id;
    tci_secret credential;
    bool is_new; /* nothing was saved yet */
    tci_connect_record record;
} tci_connect_state;

/* Open what is saved for plan, or begin it: folders, the lock (*ret_runtime, which the caller closes,
 * also after a failure when it is set), the record, the identity, the credential. Nothing that is there is
 * ever replaced; a link, or what is not as it was written, is an error. Texts lie in a.
 * Errors: NOT_FOUND (an alias nobody saved), CONFLICT (owned, another Host's), INVALID. */
int tci_connect_state_open(const tci_connect_plan *plan, tci_arena *a, tci_connect_state *ret,
                           tci_runtime_dir **ret_runtime, tc_err *err) TC_CHECKED;
void tci_connect_state_close(tci_connect_state *s);
/* Write the record: whole or not at all, on stable storage. */
int tci_connect_state_save(tci_connect_state *s, tc_err *err) TC_CHECKED;
/* The text of a record, and back. Strict: INVALID for unknown members, wrong types, bad addresses. */
void tci_connect_record_put(tci_buf *b, const tci_connect_record *r);
int tci_connect_record_read(tc_str text, tci_arena *a, tci_connect_record *ret,
                            tc_err *err) TC_CHECKED;

/* ---- the talk: connect_pair.c ---- */

/* Ask the Host until it has approved; s->record is complete then, though not saved. Runs a loop. */
int tci_connect_pair(tci_connect_state *s, const tci_connect_options *options, tci_arena *a,
                     tc_err *err) TC_CHECKED;

#endif
