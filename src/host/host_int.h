/* SPDX-License-Identifier: Apache-2.0
 *
 * The Host's own: what its files share.
 *   host.c      opening and closing, the queue of work on the records
 *   request.c   one HTTP request: reading, who asks, limits, answering
 *   routes.c    the table of what can be asked
 *   api.c       answers for programs and devices; links.c: the links of devices; info.c: which are
 *               there, and what these devices say
 *   page.c      answers for people */
#ifndef TCI_HOST_INT_H
#define TCI_HOST_INT_H

#include "base/list.h"
#include "client/connections.h"
#include "host/devices.h"
#include "host/host.h"
#include "host/limit.h"
#include "host/owners.h"
#include "host/pair.h"
#include "net/httpd.h"
#include "net/tcp.h"
#include "net/tls.h"

enum { TCI_HOST_BODY_MAX = 8 * 1024, TCI_HOST_WAITING_MAX = 512 };

/* One piece of work on the records: work runs on a worker, never two at a time, then done on the loop, before
 * the next piece begins. */
typedef struct tci_host_op {
    tci_link link;
    tci_job job;
    tci_host *host;
    void (*work)(struct tci_host_op *op);
    void (*done)(struct tci_host_op *op);
} tci_host_op;

struct tci_host {
    tc_runtime *rt;
    tci_loop *loop;
    tci_arena strings;
    tc_str url, base, sign_in_url; /* base: the path of url */
    bool is_secure;                /* browsers reach it by https */
    bool is_behind_proxy, takes_no_devices, wants_link;
    void (*on_trouble)(void *user, const tc_err *err);
    void *user;
    tci_host_db *db; /* of whoever works on it */
    tc_connections *connections;
    tci_httpd *httpd;
    tci_tcp_listener *listener;
    tci_tls_ctx *tls;
    tci_limit asking, beginning, failing; /* pairing at all, new requests, wrong credentials */
    tci_list waiting;                     /* of tci_host_op */
    size_t nwaiting;
    bool is_working; /* one that was taken off the list is being done */
    tci_list linked; /* of tci_host_linked */
    tci_timer seen_timer;
    bool is_closing, is_drained;
    tci_wake ended;
    atomic_bool is_ended;
};

/* ---- host.c ---- */

/* Loop thread. */
void tci_host_do(tci_host *h, tci_host_op *op);
int64_t tci_host_now_ms(void); /* wall clock */
void tci_host_trouble(tci_host *h, const tc_err *err);
/* A link is over: closing may have waited for it. */
void tci_host_links_ended(tci_host *h);

/* ---- request.c ---- */

typedef struct tci_host_req tci_host_req;

typedef enum tci_route_flags {
    TCI_ROUTE_OWNER = 1 << 0, /* only for who is signed in */
    TCI_ROUTE_PAGE = 1 << 1, /* for people: errors are pages, and only a browser's session counts */
    TCI_ROUTE_FORM = 1 << 2, /* takes a form, with its CSRF word unless nobody need be signed in */
    TCI_ROUTE_JSON = 1 << 3  /* takes a JSON object */
} tci_route_flags;

typedef struct tci_route {
    const char *method, *path; /* below base; '*' stands for one part */
    unsigned flags;
    /* Loop thread, after the body, before the work. false: answered. May be NULL. */
    bool (*check)(tci_host_req *r);
    /* Worker: on h->db; fails as r->err says. NULL: there is none to do. */
    int (*work)(tci_host_req *r, tc_err *err);
    /* Loop thread, when the work succeeded; the client may be gone (r->request is NULL then, and answering
     * does nothing). Must answer. */
    void (*answer)(tci_host_req *r);
} tci_route;

struct tci_host_req {
    tci_host_op op;
    tci_host *host;
    tci_httpd_req *request; /* NULL: HTTP is done with it */
    const tci_route *route;
    unsigned holds; /* who still looks at it, besides HTTP */
    int rc;         /* of the work */
    tci_addr from;
    tc_str address; /* the same as text */
    tci_arena arena;
    tci_buf body;
    tci_json json;
    tc_str id;    /* the part of the path that '*' stands for */
    tc_str token; /* of the owner */
    tci_sign_in_kind kind;
    tc_err err;
    /* For the handlers, in the arena. */
    tci_pair_ask ask;
    tci_pair_answer paired;
    tci_challenge_ref which;
    tci_digest digest;
    tc_str code, label, new_token;
    tc_str info; /* JSON, of a device that is linked; else empty */
    int64_t expires_ms;
    bool is_approval;
    tci_host_device device, *devices;
    size_t ndevices;
};

extern const tci_httpd_handler tci_host_handler;

/* Answers; each of them ends the request's life with HTTP. The buffer is taken. */
void tci_host_answer_json(tci_host_req *r, unsigned status, tci_buf *body);
void tci_host_answer_page(tci_host_req *r, unsigned status, tci_buf *body);
void tci_host_answer_text(tci_host_req *r, const char *type, tc_str text);
/* 303 to a path below base, with a cookie unless it is empty. */
void tci_host_redirect(tci_host_req *r, const char *path, tc_str cookie);
void tci_host_answer_error(tci_host_req *r, unsigned status, const char *code, tc_str message);
/* By r->err. */
void tci_host_answer_failure(tci_host_req *r);
/* The one Authorization field; false: there is none, or more than one. */
bool tci_host_authorization(const tci_host_req *r, tc_str *ret);
/* One of a form's values, decoded, in the arena; empty when it is not there. */
tc_str tci_host_form_value(tci_host_req *r, const char *name);
/* The whole Set-Cookie value; token empty: it goes. */
tc_str tci_host_cookie(tci_host_req *r, tc_str token);

/* ---- routes.c ---- */

/* path below base, without query. NULL: there is none; *ret_is_known: but with another method. */
const tci_route *tci_host_route_find(tc_str method, tc_str path, tc_str *ret_id,
                                     bool *ret_is_known);

/* ---- api.c, page.c, links.c: what the table names ---- */

bool tci_host_pair_check(tci_host_req *r);
int tci_host_pair_work(tci_host_req *r, tc_err *err);
void tci_host_pair_answer(tci_host_req *r);
bool tci_host_sign_in_check(tci_host_req *r);
int tci_host_sign_in_work(tci_host_req *r, tc_err *err);
void tci_host_sign_in_answer(tci_host_req *r);
int tci_host_sign_out_work(tci_host_req *r, tc_err *err);
void tci_host_sign_out_answer(tci_host_req *r);
int tci_host_link_work(tci_host_req *r, tc_err *err);
void tci_host_link_answer(tci_host_req *r);
int tci_host_list_work(tci_host_req *r, tc_err *err);
void tci_host_list_answer(tci_host_req *r);
int tci_host_get_work(tci_host_req *r, tc_err *err);
void tci_host_device_answer(tci_host_req *r);
bool tci_host_code_check(tci_host_req *r);
int tci_host_approve_work(tci_host_req *r, tc_err *err);
int tci_host_reject_work(tci_host_req *r, tc_err *err);
int tci_host_revoke_work(tci_host_req *r, tc_err *err);
void tci_host_revoke_answer(tci_host_req *r);

void tci_host_devices_page(tci_host_req *r);
int tci_host_approve_page_work(tci_host_req *r, tc_err *err);
void tci_host_approve_page(tci_host_req *r);
bool tci_host_decide_check(tci_host_req *r);
int tci_host_decide_work(tci_host_req *r, tc_err *err);
void tci_host_decided_page(tci_host_req *r);
void tci_host_revoked_page(tci_host_req *r);
void tci_host_sign_in_page(tci_host_req *r);
bool tci_host_sign_in_form_check(tci_host_req *r);
void tci_host_signed_in_page(tci_host_req *r);
void tci_host_signed_out_page(tci_host_req *r);
void tci_host_link_page(tci_host_req *r);
void tci_host_style(tci_host_req *r);
/* A page that says what went wrong. */
void tci_host_put_error_page(tci_buf *b, const tci_host *h, unsigned status, tc_str message);

/* Which of them are linked now, into is_online. Worker. */
int tci_host_mark_online(tci_host *h, tci_host_device *devices, size_t count,
                         tc_err *err) TC_CHECKED;
/* What a device says of itself, as JSON in a; *ret stays as it is when it is not linked. Worker. */
int tci_host_info(tci_host *h, tc_str device_id, tci_arena *a, tc_str *ret, tc_err *err) TC_CHECKED;

bool tci_host_connect_check(tci_host_req *r);
int tci_host_connect_work(tci_host_req *r, tc_err *err);
void tci_host_connect_answer(tci_host_req *r);
/* End the link of a device; nothing when there is none. */
void tci_host_unlink(tci_host *h, tc_str id);
/* Keep the times at which linked devices were seen. */
int tci_host_links_start(tci_host *h, tc_err *err) TC_CHECKED;
void tci_host_links_stop(tci_host *h);

#endif
