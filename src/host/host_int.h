/* SPDX-License-Identifier: Apache-2.0
 *
 * The Host's own: what its files share.
 *   host.c      opening and closing, the queue of work on the records
 *   request.c   one HTTP request: reading, who asks, limits, answering
 *   routes.c    the table of what can be asked
 *   api.c       answers for programs and devices; links.c: the links of devices; info.c: which are
 *               there, and what these devices say
 *   reach.c     from a row to a device that can be asked; external_api.c: answers about those that the
 *               Host connects to itself
 *   directories.c  directories of a device, asked for on its behalf
 *   page.c      answers for people; page_devices.c, page_connect.c: the one with all devices; page_html.c:
 *               what pages are made of; page_files.c: their style, script and icon */
#ifndef TCI_HOST_INT_H
#define TCI_HOST_INT_H

#include "base/list.h"
#include "client/connections/connections.h"
#include "host/records/external.h"
#include "host/host.h"
#include "host/limit.h"
#include "host/records/owners.h"
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
    char cookie_name[24];          /* when they do not */
    bool is_behind_proxy, takes_no_devices, wants_link;
    void (*on_trouble)(void *user, const tc_err *err);
    void *user;
    tci_host_db *db; /* of whoever works on it */
    tc_connections *connections;
    tci_outside *outside;
    struct tci_host_eip *eip;
    tci_httpd *httpd;
    size_t max_connections;
    tci_tcp_listener *listener;
    tci_tls_ctx *tls;
    tci_limit asking, beginning, failing; /* pairing at all, new requests, wrong credentials */
    tci_list waiting;                     /* of tci_host_op */
    size_t nwaiting;
    bool is_working; /* one that was taken off the list is being done */
    tci_list linked; /* of tci_host_linked */
    tci_timer seen_timer;
    tci_list browsing; /* of tci_host_browse */
    tci_list unseen;   /* when devices were seen, not yet in the records */
    bool is_noting;    /* some of that is being written */
    bool is_closing, is_drained;
    atomic_bool is_quiet; /* is_drained, for other threads */
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
    TCI_ROUTE_JSON = 1 << 3, /* takes a JSON object */
    TCI_ROUTE_STREAM = 1 << 4 /* EIP (eip.c): its body may be long and take its time */
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
    struct tci_eip_exchange *exchange; /* of EIP; NULL: it is something else */
    unsigned holds;                    /* who still looks at it, besides HTTP */
    tc_ctx
        *ctx; /* of who waits for a device on its behalf, cancelled when the client goes; or NULL */
    int rc;   /* of the work */
    tci_addr from;
    tc_str address; /* the same as text */
    tci_arena arena;
    tci_buf body;
    tci_json json;
    tc_str id;    /* the part of the path that '*' stands for */
    tc_str query; /* what is behind the '?', as it came */
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
    tci_external_ask external;
    tci_host_device device, *devices;
    size_t ndevices;
    tc_str *said; /* of each of devices, what it says of itself, as HTML; empty: it is not linked */
    struct tci_host_browse *browse; /* of directories.c */
};

extern const tci_httpd_handler tci_host_handler;

/* Answers; each of them ends the request's life with HTTP. The buffer is taken. */
void tci_host_answer_json(tci_host_req *r, unsigned status, tci_buf *body);
void tci_host_answer_page(tci_host_req *r, unsigned status, tci_buf *body);
/* One of the page's own files, with its tag, for caches to keep. */
typedef struct tci_host_file tci_host_file;
void tci_host_answer_file(tci_host_req *r, const tci_host_file *file);
/* Keep the request for later than its answer callback. Loop thread. */
void tci_host_hold(tci_host_req *r);
void tci_host_release(tci_host_req *r);
/* 303 to a path below base, with a cookie unless it is empty. */
void tci_host_redirect(tci_host_req *r, const char *path, tc_str cookie);
void tci_host_answer_error(tci_host_req *r, unsigned status, const char *code, tc_str message);
/* By r->err. */
void tci_host_answer_failure(tci_host_req *r);
/* The same for work that failed: wrong secrets, time and again, are answered with 429. */
void tci_host_answer_refusal(tci_host_req *r);
/* The one Authorization field; false: there is none, or more than one. */
bool tci_host_authorization(const tci_host_req *r, tc_str *ret);
/* One of a form's values, decoded, in the arena; empty when it is not there. */
tc_str tci_host_form_value(tci_host_req *r, const char *name);
/* The same of the query. */
tc_str tci_host_query_value(tci_host_req *r, const char *name);
/* Is every escape in it whole? Otherwise values of it are empty. */
bool tci_host_query_is_fine(tc_str query);
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

int tci_host_devices_page_work(tci_host_req *r, tc_err *err);
void tci_host_devices_page(tci_host_req *r);
int tci_host_approve_page_work(tci_host_req *r, tc_err *err);
void tci_host_approve_page(tci_host_req *r);
bool tci_host_decide_check(tci_host_req *r);
int tci_host_decide_work(tci_host_req *r, tc_err *err);
void tci_host_decided_page(tci_host_req *r);
void tci_host_revoked_page(tci_host_req *r);
bool tci_host_external_form_check(tci_host_req *r);
void tci_host_sign_in_page(tci_host_req *r);
bool tci_host_sign_in_form_check(tci_host_req *r);
void tci_host_signed_in_page(tci_host_req *r);
void tci_host_signed_out_page(tci_host_req *r);
void tci_host_link_page(tci_host_req *r);

/* ---- page_files.c ---- */

enum { TCI_HOST_TAG_LEN = 34 }; /* quoted hex digits */
struct tci_host_file {
    const char *type;
    const char *tag; /* of TCI_HOST_TAG_LEN characters, quotes and all */
    const unsigned char *bytes;
    size_t len;
};
/* The entity tag of these bytes; no NUL. */
void tci_host_tag_of(tc_str bytes, char out[TCI_HOST_TAG_LEN]);
extern const tci_host_file tci_host_css, tci_host_js, tci_host_icon;
void tci_host_css_answer(tci_host_req *r);
void tci_host_js_answer(tci_host_req *r);
void tci_host_icon_answer(tci_host_req *r);

/* ---- directories.c ---- */

bool tci_host_directories_check(tci_host_req *r);
int tci_host_directories_work(tci_host_req *r, tc_err *err);
void tci_host_directories_answer(tci_host_req *r);

/* A page that says what went wrong. */
void tci_host_put_error_page(tci_buf *b, const tci_host *h, unsigned status, tc_str message);

/* ---- external_api.c ---- */

bool tci_host_external_check(tci_host_req *r);
/* Is what r->external says fit to be kept? false: answered. */
bool tci_host_external_is_fine(tci_host_req *r);
int tci_host_external_work(tci_host_req *r, tc_err *err);
int tci_host_remove_work(tci_host_req *r, tc_err *err);
void tci_host_remove_answer(tci_host_req *r);
/* Those of the records, to be asked from now on. Before the Host listens. */
int tci_host_externals_start(tci_host *h, tc_err *err) TC_CHECKED;
/* Write down when they were seen. Before the records are closed. */
void tci_host_externals_stop(tci_host *h);

/* Which of them are there now, into is_online; texts in a. Never waits for one. Worker. */
int tci_host_mark_online(tci_host *h, tci_host_device *devices, size_t count, tci_arena *a,
                         tc_err *err) TC_CHECKED;
/* Its connection, a reference, without waiting for it; NULL: it is not there. */
tc_device *tci_host_look(tci_host *h, const tci_host_device *d);
/* What a device says of itself, as JSON in a; *ret stays as it is when it is not linked. Worker. */
int tci_host_info(tci_host *h, const tci_host_device *d, tci_arena *a, tc_str *ret,
                  tc_err *err) TC_CHECKED;

/* ---- EIP: eip.c, eip_remote.c (see eip.h) ---- */

int tci_host_eip_new(tci_host *h, tc_err *err) TC_CHECKED; /* as the rest: loop thread */
/* What is under way ends; idle says when it has (tci_host_links_ended is called meanwhile). Loop thread. */
void tci_host_eip_end(tci_host *h);
bool tci_host_eip_is_idle(const tci_host *h);
void tci_host_eip_free(tci_host *h); /* idle */
/* Parts of a request. */
void tci_host_eip_head(tci_host_req *r);
void tci_host_eip_body(tci_host_req *r, tc_str bytes);
void tci_host_eip_end_of_body(tci_host_req *r);
void tci_host_eip_writable(tci_host_req *r);
void tci_host_eip_gone(tci_host_req *r);
/* Who may ask what may have changed. */
void tci_host_eip_records_changed(tci_host *h);
/* A device is linked (user: the Host); the link of the one with this id of ours is over; it may not be asked any
 * more: what is under way for it ends. */
void tci_host_eip_linked(void *user, tc_device *device);
void tci_host_eip_unlinked(tci_host *h, tc_str id);
void tci_host_eip_forget(tci_host *h, tc_str id);

/* ---- reach.c ---- */

/* A device that can be asked, by its row: its link, or (an external target) the connection to it, made now when
 * there is none. A reference: tc_device_close drops it. Blocks: not on the loop, and not in a route's work.
 * Errors: DENIED (revoked, or not approved yet), NOT_READY (offline, or not reached, and why: its kind is the
 * cause), NOT_FOUND (removed meanwhile), CANCELLED, CLOSED, NO_MEMORY. */
int tci_host_reach(tci_host *h, const tci_host_device *d, tc_ctx *ctx, tc_device **ret_device,
                   tc_err *err) TC_CHECKED;

bool tci_host_connect_check(tci_host_req *r);
int tci_host_connect_work(tci_host_req *r, tc_err *err);
void tci_host_connect_answer(tci_host_req *r);
/* What links know of these devices beside their being there: second_links and what belongs to it, borrowed until
 * the loop's next turn. Loop thread. */
void tci_host_second_links(tci_host *h, tci_host_device *devices, size_t count);
/* End the link of a device; nothing when there is none. */
void tci_host_unlink(tci_host *h, tc_str id);
/* Keep the times at which linked devices were seen. */
int tci_host_links_start(tci_host *h, tc_err *err) TC_CHECKED;
void tci_host_links_stop(tci_host *h);

#endif
