/* SPDX-License-Identifier: Apache-2.0
 *
 * A scripted daemon whose socket a Host of this process has taken, and clients that ask it through that Host. */
#ifndef TC_TEST_HOSTED_H
#define TC_TEST_HOSTED_H

#include "plug.h"

#include "host/host_int.h"

typedef struct hosted {
    tc_runtime *rt; /* the Host's */
    tci_host *host;
    char folder[64];
    char id[TCI_RESOURCE_ID_LEN + 1]; /* of the device, whose name is "work" and identity "dev-1" */
    char token[TCI_TOKEN_LEN + 1];
    char endpoint[64];
    char path[64];
} hosted;

/* A Host that knows an approved device and an owner; nothing is linked. */
void hosted_open(hosted *h);
void hosted_close(hosted *h);
/* A device that is linked: its script runs. Returns when it is there. */
void hosted_link(hosted *h, attached *a, peer *p, void (*play)(peer *p), void *arg);
/* Connect a client of a runtime of its own. */
int hosted_connect(hosted *h, tc_runtime *rt, tc_device **ret, tc_err *err);

/* From here on every rig is connected this way. */
void rig_use_host(void);

/* ---- HTTP by hand ---- */

typedef struct answer {
    int status;
    bool is_whole; /* it ended as it should */
    tci_buf head, body;
} answer;

/* A connection to the Host; the descriptor is the caller's. */
int hosted_dial(const hosted *h);
void hosted_send(int fd, const void *bytes, size_t len);
/* The head of a request below the device's path, with the token: "control", "transfer". more: further fields. */
void hosted_head(const hosted *h, int fd, const char *method, const char *what, const char *more,
                 long long length);
void hosted_read(int fd, answer *ret);
void answer_done(answer *a);
/* The digits that text begins with. */
uint64_t number_at(tc_str text);
/* A control request and its answer. */
void hosted_ask(const hosted *h, const char *body, answer *ret);

#endif
