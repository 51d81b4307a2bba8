/* SPDX-License-Identifier: Apache-2.0
 *
 * One question to a server: an HTTP POST whose answer is a stream of events, over libcurl. Leaves what
 * the events mean, and whether to ask again, to its callers. The asking thread waits in here; a
 * connection is kept in a lane for the next question, whichever thread asks it. Invariant: a cancelled
 * context ends the transfer at once, and a server that sends nothing ends it after idle_ms. */
#include "llm/llm_int.h"

#include "base/num.h"
#include "base/plain.h"
#include "base/utf8.h"
#include "plat/clock.h"
#include "plat/env.h"
#include "plat/fd.h"
#include "plat/roots.h"
#include "wire/sse.h"
#include <curl/curl.h>

enum {
    ERROR_BODY_MAX = 64 * 1024,
    CONNECT_MS = 30000,
    LOOK_MS = 200,
    TYPE_MAX = 128,  /* of a content type that is told */
    START_MAX = 512, /* bytes of an answer that are looked at */
    START_SHOWN = 100
};

struct tci_lane {
    tci_lane *next;
    CURLM *multi;
    CURL *easy;
    int bell[2]; /* written to when the context is cancelled */
};

/* ---- lanes ---- */

void tci_lanes_init(tci_lanes *lanes)
{
    tci_mutex_init(&lanes->lock);
    lanes->free = NULL;
}

static void lane_free(tci_lane *lane)
{
    if (lane->easy != NULL)
        curl_easy_cleanup(lane->easy);
    if (lane->multi != NULL)
        (void)curl_multi_cleanup(lane->multi); /* fails for bad handles only */
    tci_fd_close(&lane->bell[0]);
    tci_fd_close(&lane->bell[1]);
    tci_free(lane);
}

void tci_lanes_done(tci_lanes *lanes)
{
    while (lanes->free != NULL) {
        tci_lane *lane = lanes->free;
        lanes->free = lane->next;
        lane_free(lane);
    }
    tci_mutex_done(&lanes->lock);
}

static tci_lane *lane_make(tc_err *err)
{
    tci_lane *lane = tci_new(tci_lane);
    if (lane == NULL)
        return NULL;
    lane->bell[0] = lane->bell[1] = -1;
    lane->multi = curl_multi_init();
    lane->easy = curl_easy_init();
    if (lane->multi == NULL || lane->easy == NULL || tci_fd_pipe(lane->bell, err) < 0 ||
        tci_fd_set_nonblocking(lane->bell[0], true, NULL, err) < 0 ||
        tci_fd_set_nonblocking(lane->bell[1], true, NULL, err) < 0) {
        lane_free(lane);
        return NULL;
    }
    return lane;
}

static int lane_take(tci_lanes *lanes, tci_lane **ret, tc_err *err)
{
    tci_mutex_lock(&lanes->lock);
    tci_lane *lane = lanes->free;
    if (lane != NULL)
        lanes->free = lane->next;
    tci_mutex_unlock(&lanes->lock);
    if (lane == NULL)
        lane = lane_make(err);
    if (lane == NULL)
        return tci_err_no_memory(err);
    *ret = lane;
    return 0;
}

static void lane_give(tci_lanes *lanes, tci_lane *lane)
{
    char rest[16];
    size_t n;
    tc_err ignored;
    while (tci_fd_read(lane->bell[0], rest, sizeof rest, &n, &ignored) == 0 && n > 0)
        ;
    curl_easy_reset(lane->easy); /* keeps connections */
    tci_mutex_lock(&lanes->lock);
    lane->next = lanes->free;
    lanes->free = lane;
    tci_mutex_unlock(&lanes->lock);
}

/* ---- one transfer ---- */

typedef struct transfer {
    const tci_exchange *x;
    tci_arena *arena;
    tci_sse sse;
    size_t nevents;
    tci_buf start; /* of the body */
    tci_buf body;  /* of an error */
    tci_buf type;  /* of the content, as the server says */
    tci_exchange_end end;
    bool is_stream;
    int64_t heard_ns; /* when the server last sent something */
    int rc;           /* a failure of ours */
    tc_err *err;
    char why[CURL_ERROR_SIZE]; /* what libcurl says of a failure; may stay empty */
} transfer;

static int on_event(void *user, tc_str name, tc_str data, tc_err *err)
{
    transfer *t = user;
    t->nevents++;
    return t->x->server->on_event(t->x->answer, name, data, err);
}

static int64_t retry_after(tc_str value)
{
    double seconds;
    tc_err ignored;
    char text[64];
    if (tci_num_double(value, &seconds, &ignored) == 0)
        return seconds < 0 ? 0 : seconds > 1e9 ? INT64_C(1000000000000) : (int64_t)(seconds * 1000);
    if (tci_cstr(value, text, sizeof text, &ignored) < 0)
        return -1;
    time_t at = curl_getdate(text, NULL);
    if (at == (time_t)-1)
        return -1;
    int64_t left = (int64_t)at - tci_clock_now().sec;
    return left > 0 ? left * 1000 : 0;
}

/* The value of a header line, if that is its name. */
static bool header_is(tc_str line, const char *name, tc_str *ret_value)
{
    size_t colon = tci_str_find_byte(line, ':');
    if (!tci_str_eq_nocase(tci_str_sub(line, 0, colon), tci_str(name)))
        return false;
    *ret_value = tci_str_trim(tci_str_sub(line, colon + 1, line.len));
    return true;
}

/* "HTTP/1.1 200 OK" */
static long status_of(tc_str line)
{
    uint64_t status = 0;
    tc_err ignored;
    size_t space = tci_str_find_byte(line, ' ');
    if (tci_num_u64(tci_str_sub(line, space + 1, 3), &status, &ignored) < 0)
        return 0;
    return (long)status;
}

static size_t on_header(char *bytes, size_t size, size_t n, void *user)
{
    transfer *t = user;
    tc_str line = tci_str_of(bytes, size * n), value;
    tc_err ignored;
    double ms;
    while (line.len > 0 && (line.ptr[line.len - 1] == '\n' || line.ptr[line.len - 1] == '\r'))
        line.len--;
    t->heard_ns = tci_clock_mono_ns();
    if (tci_str_starts(line, TC_STR("HTTP/"))) { /* of the last answer, after redirects or 100 */
        t->end = (tci_exchange_end){.should_retry = -1, .retry_after_ms = -1};
        t->end.status = status_of(line);
        t->is_stream = t->end.status >= 200 && t->end.status < 300;
        tci_buf_clear(&t->type);
    } else if (header_is(line, "content-type", &value)) {
        tci_buf_clear(&t->type);
        tci_buf_append_str(&t->type, tci_str_sub(value, 0, TYPE_MAX));
        if (tci_str_eq_nocase(tci_str_sub(value, 0, 16), TC_STR("application/json")) ||
            tci_str_eq_nocase(tci_str_sub(value, 0, 9), TC_STR("text/html")))
            t->is_stream = false; /* a refusal, or no answer at all, whatever its status */
    } else if (header_is(line, "x-should-retry", &value)) {
        t->end.should_retry = tci_str_eq(value, TC_STR("true"))    ? 1
                              : tci_str_eq(value, TC_STR("false")) ? 0
                                                                   : -1;
    } else if (header_is(line, "retry-after-ms", &value)) {
        if (tci_num_double(value, &ms, &ignored) == 0)
            t->end.retry_after_ms = ms < 0 ? 0 : ms > 1e12 ? INT64_C(1000000000000) : (int64_t)ms;
    } else if (header_is(line, "retry-after", &value) && t->end.retry_after_ms < 0) {
        t->end.retry_after_ms = retry_after(value);
    }
    return size * n;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *user)
{
    transfer *t = user;
    tc_str piece = tci_str_of(bytes, size * n);
    t->heard_ns = tci_clock_mono_ns();
    if (t->start.len < START_MAX)
        tci_buf_append_str(&t->start, tci_str_sub(piece, 0, START_MAX - t->start.len));
    if (t->is_stream) {
        t->rc = tci_sse_feed(&t->sse, piece, t->err);
        return t->rc < 0 ? 0 : piece.len;
    }
    if (t->body.len < ERROR_BODY_MAX)
        tci_buf_append_str(&t->body, tci_str_sub(piece, 0, ERROR_BODY_MAX - t->body.len));
    return piece.len;
}

static int add_header(struct curl_slist **list, const char *line, tc_err *err)
{
    struct curl_slist *more = curl_slist_append(*list, line);
    if (more == NULL)
        return tci_err_no_memory(err);
    *list = more;
    return 0;
}

static int all_headers(const tci_exchange *x, struct curl_slist **list, tc_err *err)
{
    if (add_header(list, "Content-Type: application/json", err) < 0 ||
        add_header(list, "Accept: text/event-stream", err) < 0 ||
        add_header(list, "Expect:", err) < 0) /* no waiting for "100 Continue" */
        return err->code;
    for (size_t i = 0; i < x->nheaders; i++) {
        if (add_header(list, x->headers[i], err) < 0)
            return err->code;
    }
    return x->key_header != NULL ? add_header(list, x->key_header->bytes, err) : 0;
}

/* The authorities to trust, where libcurl was not built to know the system's and nobody says otherwise. */
static const char *usual_roots(CURL *easy)
{
    char *file = NULL, *dir = NULL; /* what it was built with */
    if (curl_easy_getinfo(easy, CURLINFO_CAINFO, &file) != CURLE_OK ||
        curl_easy_getinfo(easy, CURLINFO_CAPATH, &dir) != CURLE_OK || file != NULL || dir != NULL ||
        tci_env_get("SSL_CERT_FILE") != NULL || tci_env_get("SSL_CERT_DIR") != NULL)
        return NULL;
    return tci_roots_file();
}

static void set_up(CURL *easy, const tci_exchange *x, struct curl_slist *headers, transfer *t)
{
    /* Each of these fails only without memory, and then the transfer does. */
    curl_easy_setopt(easy, CURLOPT_URL, x->url);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, t->why);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L); /* a proxy may ask for it */
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)x->body.len);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, x->body.ptr);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, t);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "telechir/" TC_VERSION);
    const char *roots = x->ca_file != NULL ? x->ca_file : usual_roots(easy);
    if (roots != NULL)
        curl_easy_setopt(easy, CURLOPT_CAINFO, roots);
}

/* How long the wait may be: until the sink wants to be asked, silence is too long, or time is up. */
static int wait_ms(const transfer *t, int64_t tick_ms, const tc_ctx *ctx, bool has_bell)
{
    int64_t now = tci_clock_mono_ns();
    int64_t left = ((int64_t)t->x->idle_ms * 1000000 - (now - t->heard_ns)) / 1000000 + 1;
    if (tick_ms >= 0 && tick_ms < left)
        left = tick_ms;
    int64_t deadline = tci_ctx_deadline_ns(ctx);
    if (deadline != 0 && (deadline - now) / 1000000 + 1 < left)
        left = (deadline - now) / 1000000 + 1;
    if (!has_bell && ctx != NULL && left > LOOK_MS)
        left = LOOK_MS;
    return left < 0 ? 0 : left > 60000 ? 60000 : (int)left;
}

static int64_t tick(const tci_answer *a)
{
    const tc_model_sink *sink = a->sink;
    return sink != NULL && sink->on_tick != NULL ? sink->on_tick(sink->user) : -1;
}

static void set_failure(transfer *t, tc_str text)
{
    tc_err ignored;
    if (tci_arena_dup(t->arena, text, &t->end.failure, &ignored) < 0)
        t->end.failure = TC_STR("out of memory");
}

/* Until the transfer is over, by itself or by us. */
static void drive(tci_lane *lane, transfer *t, tc_ctx *ctx, bool has_bell)
{
    struct curl_waitfd bell = {.fd = lane->bell[0], .events = CURL_WAIT_POLLIN};
    tc_err why;
    int running = 1;
    while (true) {
        CURLMcode mc = curl_multi_perform(lane->multi, &running);
        if (mc != CURLM_OK) {
            set_failure(t, tci_str(curl_multi_strerror(mc)));
            return;
        }
        if (running == 0)
            return;
        int64_t tick_ms = tick(t->x->answer);
        if (tci_ctx_check(ctx, &why) < 0) {
            t->end.is_cancelled = true;
            return;
        }
        if (tci_clock_mono_ns() - t->heard_ns > (int64_t)t->x->idle_ms * 1000000) {
            set_failure(t, TC_STR("timed out: the server sends nothing"));
            return;
        }
        (void)curl_multi_poll(lane->multi, &bell, has_bell ? 1 : 0,
                              wait_ms(t, tick_ms, ctx, has_bell), NULL); /* perform will tell */
    }
}

/* Failures that the next attempt meets again. */
static bool is_final(CURLcode code)
{
    return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
           code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL;
}

/* "connection error: Failed to connect to localhost port 80 ... (http://localhost/v1/chat/completions)" */
static void tell_failure(transfer *t, CURLcode code)
{
    tci_buf text;
    tci_buf_init(&text, 16 * 1024);
    tc_str url = tci_str(t->x->url), why = tci_str(t->why);
    tci_buf_append_str(&text, is_final(code) ? TC_STR("cannot ask the server: ")
                                             : TC_STR("connection error: "));
    tci_plain_put(&text, why.len > 0 ? why : tci_str(curl_easy_strerror(code)), TCI_PLAIN_LINE);
    tci_buf_append_str(&text, TC_STR(" ("));
    tci_plain_put(&text, tci_str_sub(url, 0, tci_str_find_byte(url, '?')), TCI_PLAIN_LINE);
    tci_buf_append_byte(&text, ')');
    set_failure(t, tci_buf_str(&text));
    tci_buf_done(&text);
    if (is_final(code))
        t->end.should_retry = 0;
}

static void take_result(tci_lane *lane, transfer *t)
{
    int left;
    for (CURLMsg *m; (m = curl_multi_info_read(lane->multi, &left)) != NULL;) {
        if (m->msg == CURLMSG_DONE && m->data.result != CURLE_OK && t->end.failure.len == 0)
            tell_failure(t, m->data.result);
    }
}

/* ---- what is no answer ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Does it begin as event streams do: with a field, or a comment? */
static bool begins_as_stream(tc_str start)
{
    static const char *const words[] = {":", "data:", "event:", "id:", "retry:"};
    if (tci_str_starts(start, TC_STR("\xef\xbb\xbf")))
        start = tci_str_sub(start, 3, SIZE_MAX);
    while (start.len > 0 && is_blank(start.ptr[0]))
        start = tci_str_sub(start, 1, SIZE_MAX);
    for (size_t i = 0; i < TCI_ARRAY_LEN(words); i++) {
        if (tci_str_starts(start, tci_str(words[i])))
            return true;
    }
    return start.len == 0;
}

/* {"error":...}: the server speaks the wire, and refuses. */
static bool is_refusal(const transfer *t)
{
    tci_arena arena;
    tci_json v;
    tc_err ignored;
    tci_arena_init(&arena, 0);
    bool is = tci_json_parse(tci_buf_str(&t->body), TCI_JSON_DURABLE, &arena, &v, &ignored) == 0 &&
              tci_json_get(&v, TC_STR("error")) != NULL;
    tci_arena_done(&arena);
    return is;
}

static bool is_foreign(const transfer *t)
{
    if (t->end.status < 200 || t->end.status >= 300 || t->end.failure.len > 0 ||
        t->end.is_cancelled || t->rc < 0)
        return false;
    return t->is_stream ? t->nevents == 0 && !begins_as_stream(tci_buf_str(&t->start))
                        : !is_refusal(t);
}

/* How the body begins, each run of blanks as one. */
static tc_str start_of(const transfer *t, char out[START_SHOWN])
{
    tc_str all = tci_buf_str(&t->start), shown = {out, 0};
    for (size_t i = 0; i < all.len && shown.len < START_SHOWN; i++) {
        bool is_gap = is_blank(all.ptr[i]);
        if (!is_gap || (shown.len > 0 && out[shown.len - 1] != ' '))
            out[shown.len++] = is_gap ? ' ' : all.ptr[i];
    }
    if (shown.len == START_SHOWN)
        shown.len -= tci_utf8_cut_tail(shown);
    return tci_str_trim(shown);
}

/* One line of it: where it came from, what it was, how it begins. */
static int describe_foreign(transfer *t, tc_err *err)
{
    tci_buf b;
    char begin[START_SHOWN];
    tc_str url = tci_str(t->x->url), shown = start_of(t, begin);
    tci_buf_init(&b, 16 * 1024);
    tci_buf_append_str(&b, TC_STR(TCI_NOT_AN_ANSWER ": check --base-url; asked was "));
    tci_plain_put(&b, tci_str_sub(url, 0, tci_str_find_byte(url, '?')), TCI_PLAIN_LINE);
    tci_buf_printf(&b, ", told was status %ld with ", t->end.status);
    if (t->type.len > 0) {
        tci_buf_append_str(&b, TC_STR("content type '"));
        tci_plain_put(&b, tci_buf_str(&t->type), TCI_PLAIN_LINE);
        tci_buf_append_str(&b, TC_STR("'"));
    } else {
        tci_buf_append_str(&b, TC_STR("no content type"));
    }
    if (shown.len > 0) {
        tci_buf_append_str(&b, TC_STR(", beginning with '"));
        tci_plain_put(&b, shown, TCI_PLAIN_LINE);
        tci_buf_append_byte(&b, '\'');
    } else {
        tci_buf_append_str(&b, TC_STR(", empty"));
    }
    int rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = tci_arena_dup(t->arena, tci_buf_str(&b), &t->end.foreign, err);
    tci_buf_done(&b);
    return rc;
}

static void run(tci_lane *lane, transfer *t, tc_ctx *ctx, struct curl_slist *headers)
{
    set_up(lane->easy, t->x, headers, t);
    bool has_bell = ctx != NULL && tci_ctx_notify(ctx, lane->bell[1]);
    if (curl_multi_add_handle(lane->multi, lane->easy) == CURLM_OK) {
        drive(lane, t, ctx, has_bell);
        take_result(lane, t);
        (void)curl_multi_remove_handle(lane->multi, lane->easy); /* it was added */
    } else {
        set_failure(t, TC_STR("out of memory"));
    }
    if (has_bell)
        tci_ctx_unnotify(ctx);
}

int tci_exchange_run(tci_lanes *lanes, tc_ctx *ctx, const tci_exchange *x, tci_arena *arena,
                     tci_exchange_end *ret_end, tc_err *err)
{
    transfer t = {.x = x, .arena = arena, .err = err, .heard_ns = tci_clock_mono_ns()};
    t.end = (tci_exchange_end){.should_retry = -1, .retry_after_ms = -1};
    tci_sse_init(&t.sse, on_event, &t);
    tci_buf_init(&t.body, ERROR_BODY_MAX);
    tci_buf_init(&t.start, START_MAX);
    tci_buf_init(&t.type, TYPE_MAX);
    struct curl_slist *headers = NULL;
    tci_lane *lane = NULL;
    int rc = all_headers(x, &headers, err);
    if (rc == 0)
        rc = lane_take(lanes, &lane, err);
    if (rc == 0) {
        run(lane, &t, ctx, headers);
        lane_give(lanes, lane);
        rc = t.rc;
    }
    if (rc == 0 && is_foreign(&t))
        rc = describe_foreign(&t, err);
    if (rc == 0)
        rc = tci_arena_dup(arena, tci_buf_str(&t.body), &t.end.error_body, err);
    if (rc == 0)
        *ret_end = t.end;
    if (headers != NULL) /* the credential is among them */
        for (struct curl_slist *h = headers; h != NULL; h = h->next)
            tci_mem_wipe(h->data, strlen(h->data));
    curl_slist_free_all(headers);
    tci_sse_done(&t.sse);
    tci_buf_done(&t.body);
    tci_buf_done(&t.start);
    tci_buf_done(&t.type);
    return rc;
}
