/* SPDX-License-Identifier: Apache-2.0
 *
 * A Host's door: bytes on one connection to a real Host with records of its own. In the input "@T" stands for a
 * terminal's token, "@B" for a browser's session, "@C" for its word in forms, "@L" for a sign-in link's code, "@D" for a
 * device's credential, "@P" for the code it waits with. Whatever comes: answers are HTTP, nothing fails inside the
 * Host, no secret is repeated, and without a token nobody approves, revokes or rejects anything. */
#include "../net/mem_stream.h"

#include "client/client.h"
#include "host/host_int.h"
#include "plat/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define IDENTITY "device-0123456789abcdef"
#define CREDENTIAL "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

enum { QUIET = 4, TURNS_MAX = 2000 };

typedef struct door {
    tc_runtime *rt;
    tci_host *host;
    tci_arena arena; /* of one input */
    char terminal[TCI_TOKEN_LEN], browser[TCI_TOKEN_LEN], word[TCI_SHA256_HEX],
        link[TCI_LINK_CODE_LEN];
    tc_str code;
    mem_stream stream;
    tc_str in;
    size_t seen_at, seen_len;
    unsigned quiet;
    bool has_trouble;
} door;

static void need(bool is_so)
{
    if (!is_so)
        abort();
}

static void on_trouble(void *user, const tc_err *err)
{
    TCI_UNUSED(err);
    ((door *)user)->has_trouble = true;
}

/* ---- what is known before each input; on the loop, while nothing works on the records ---- */

static void execute(tci_host_db *db, const char *sql)
{
    tci_query q;
    tc_err err;
    need(tci_query_open(&q, db, sql, &err) == 0 && tci_query_run(&q, NULL, &err) == 0);
}

static void sign_in(tci_host_db *db, tci_sign_in_kind kind, char token[TCI_TOKEN_LEN])
{
    char code[TCI_LINK_CODE_LEN];
    int64_t expires_ms;
    tc_err err;
    need(tci_host_link_new(db, tci_host_now_ms(), code, &expires_ms, &err) == 0);
    need(tci_host_sign_in(db, tci_host_now_ms(), tci_str_of(code, sizeof code), kind,
                          TC_STR("fuzz"), token, &expires_ms, &err) == 0);
}

static void begin(void *arg)
{
    door *d = arg;
    tci_host *h = d->host;
    tci_host_db *db = h->db;
    int64_t expires_ms;
    tci_pair_answer answer;
    tc_err err;
    const tci_pair_ask ask = {.device_id = TC_STR(IDENTITY),
                              .name = TC_STR("work"),
                              .digest = tci_digest_of(TC_STR(CREDENTIAL)),
                              .address = TC_STR("192.0.2.1"),
                              .may_begin = true};
    execute(db, "DELETE FROM sign_ins");
    execute(db, "DELETE FROM devices");
    sign_in(db, TCI_SIGN_IN_TERMINAL, d->terminal);
    sign_in(db, TCI_SIGN_IN_BROWSER, d->browser);
    tci_csrf_of(tci_str_of(d->browser, sizeof d->browser), d->word);
    need(tci_host_link_new(db, tci_host_now_ms(), d->link, &expires_ms, &err) == 0);
    need(tci_host_pair(db, tci_host_now_ms(), &ask, &d->arena, &answer, &err) == 0);
    d->code = answer.code;
    tci_limit_init(&h->asking, 1000, 1000);
    tci_limit_init(&h->beginning, 1000, 1000);
    tci_limit_init(&h->failing, 1000, 1000);
}

static void fill_in(door *d, tc_str text, tci_buf *b)
{
    const struct {
        char mark;
        tc_str means;
    } marks[] = {{'T', tci_str_of(d->terminal, sizeof d->terminal)},
                 {'B', tci_str_of(d->browser, sizeof d->browser)},
                 {'C', tci_str_of(d->word, sizeof d->word)},
                 {'L', tci_str_of(d->link, sizeof d->link)},
                 {'D', TC_STR(CREDENTIAL)},
                 {'P', d->code}};
    for (size_t i = 0; i < text.len; i++) {
        size_t m = TCI_ARRAY_LEN(marks);
        if (text.ptr[i] == '@' && i + 1 < text.len)
            for (m = 0; m < TCI_ARRAY_LEN(marks) && marks[m].mark != text.ptr[i + 1];)
                m++;
        if (m == TCI_ARRAY_LEN(marks)) {
            tci_buf_append_byte(b, text.ptr[i]);
            continue;
        }
        tci_buf_append_str(b, marks[m].means);
        i++;
    }
}

/* ---- one connection ---- */

static void accept_it(void *arg)
{
    door *d = arg;
    mem_init(&d->stream, d->host->loop, d->in, SIZE_MAX);
    d->seen_at = d->seen_len = SIZE_MAX;
    d->quiet = 0;
    tci_httpd_accept_own(d->host->httpd, &d->stream.base);
}

static void look(void *arg)
{
    door *d = arg;
    const tci_host *h = d->host;
    mem_stream *m = &d->stream;
    bool is_same = m->at == d->seen_at && m->out.len == d->seen_len;
    bool is_idle = !h->is_working && h->nwaiting == 0;
    d->quiet = is_same && is_idle ? d->quiet + 1 : 0;
    d->seen_at = m->at;
    d->seen_len = m->out.len;
}

static void end_it(void *arg)
{
    door *d = arg;
    d->stream.may_end = true;
    d->quiet = 0;
    if (!d->stream.is_closed && d->stream.want != 0)
        tci_loop_later(d->host->loop, &d->stream.tell);
}

static void settle(door *d)
{
    for (int i = 0; d->quiet < QUIET; i++) {
        need(i < TURNS_MAX * 100);
        need(tci_runtime_run(d->rt, look, d));
    }
}

/* ---- what must be so ---- */

static bool has(tc_str text, tc_str what)
{
    return tci_str_find(text, what) < text.len;
}

static void check_answers(tc_str in, bool to_head)
{
    tc_err err;
    tci_http1 *reader;
    need(tci_http1_new(TCI_HTTP1_RESPONSE, &reader, &err) == 0);
    while (in.len > 0 && !to_head) {
        size_t used = 0;
        tci_http1_event event;
        tc_str body;
        need(tci_http1_next(reader, in, &used, &event, &body, &err) == 0);
        if (event == TCI_HTTP1_HEAD)
            need(tci_http1_head(reader)->status < 500 || tci_http1_head(reader)->status == 501 ||
                 tci_http1_head(reader)->status == 503 || tci_http1_head(reader)->status == 505);
        in = tci_str_sub(in, used, SIZE_MAX);
    }
    tci_http1_free(reader);
}

static void check_records(void *arg)
{
    door *d = arg;
    tci_host_device device;
    tc_err err;
    const tci_challenge_ref which = {.code = d->code};
    need(tci_host_device_of(d->host->db, tci_host_now_ms(), &which, &d->arena, &device, &err) == 0);
    need(device.state == TCI_HOST_PENDING && !device.is_rejected);
}

static void check(door *d, tc_str text)
{
    tc_str out = tci_buf_str(&d->stream.out);
    need(d->stream.is_closed && !d->has_trouble);
    check_answers(out, has(text, TC_STR("HEAD")));
    need(!has(out, tci_str_of(d->terminal, sizeof d->terminal)));
    need(!has(out, TC_STR(CREDENTIAL)));
    if (!has(text,
             TC_STR("@B"))) { /* a session's own pages have its word, and a redirect its cookie */
        need(!has(out, tci_str_of(d->browser, sizeof d->browser)));
        need(!has(out, tci_str_of(d->word, sizeof d->word)));
    }
    bool has_way_in =
        has(text, TC_STR("@T")) || (has(text, TC_STR("@B")) && has(text, TC_STR("@C")));
    if (!has_way_in)
        need(tci_runtime_run(d->rt, check_records, d));
    if (!has(text, TC_STR("@T")) && !has(text, TC_STR("@B")))
        need(!has(out, d->code) || has(text, TC_STR("@P")) || has(text, TC_STR("@D")));
}

/* ---- once ---- */

static void open_door(door *d)
{
    tc_err err;
    char folder[] = "/dev/shm/fuzz-door-XXXXXX", other[] = "fuzz-door-XXXXXX";
    const char *data = mkdtemp(folder);
    if (data == NULL)
        data = mkdtemp(other);
    need(data != NULL);
    const tci_host_options options = {
        .bind = TC_STR("127.0.0.1:0"), .data = tci_str(data), .on_trouble = on_trouble, .user = d};
    need(tc_runtime_open(NULL, &d->rt, &err) == 0 &&
         tci_host_open(d->rt, &options, &d->host, &err) == 0);
    tci_arena_init(&d->arena, 0);
    /* The files are open: their names are not needed any more, whatever ends this program. */
    static const char *const names[] = {"host.sqlite", "host.sqlite-wal", "host.sqlite-shm",
                                        "host.sqlite-owner.lock"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(names); i++) {
        char path[128];
        need(snprintf(path, sizeof path, "%s/%s", data, names[i]) < (int)sizeof path);
        (void)unlink(path); /* may not be there */
    }
    (void)rmdir(data); /* the same */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static door d;
    tci_buf in;
    if (size > 100000)
        return 0;
    if (d.host == NULL)
        open_door(&d);
    need(tci_runtime_run(d.rt, begin, &d));
    tci_buf_init(&in, TCI_BUF_MAX);
    fill_in(&d, tci_str_of(data, size), &in);
    d.in = tci_buf_str(&in);
    need(tci_runtime_run(d.rt, accept_it, &d));
    settle(&d);
    need(tci_runtime_run(d.rt, end_it, &d));
    settle(&d);
    check(&d, tci_str_of(data, size));
    tci_buf_done(&in);
    tci_buf_done(&d.stream.out);
    tci_arena_clear(&d.arena);
    return 0;
}
