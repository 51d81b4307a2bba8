/* SPDX-License-Identifier: Apache-2.0
 *
 * A WebSocket connection against a peer that is written by hand: messages however they are cut, control
 * frames among them, deadlines, back-pressure, every way to end. */
#include "http_peer.h"

#include "base/num.h"
#include "net/ws.h"

enum { NOTES_MAX = 8192, MAX_TEXT = 1000, MAX_BINARY = 300000 };

/* One connection and what it told us. */
typedef struct rig {
    tci_loop *loop;
    peer p;
    tci_ws *ws;
    tci_ws_role role;
    char notes[NOTES_MAX];
    size_t nnotes;
    uint64_t sum; /* of the bytes of long messages */
    unsigned nmessages, nends, ndone, nsent, nwritable;
    tci_ws_end end;
    char reason[200];
    /* what to do when it happens */
    bool frees_on_message, frees_on_end, frees_on_done, closes_on_message, pauses_on_message;
    bool keeps;
    char *owns[8]; /* where messages lay, in their order */
    size_t headroom;
} rig;

static void TC_PRINTF(2, 3) note(rig *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(r->notes + r->nnotes, sizeof r->notes - r->nnotes, fmt, ap);
    va_end(ap);
    assert_true(n >= 0 && (size_t)n < sizeof r->notes - r->nnotes);
    r->nnotes += (size_t)n;
}

static void drop(rig *r)
{
    tci_ws *ws = r->ws;
    r->ws = NULL;
    tci_ws_free(ws);
}

static void on_message(tci_ws *ws, tci_ws_kind kind, tc_str bytes, char *own)
{
    rig *r = tci_ws_user(ws);
    r->nmessages++;
    if (own != NULL)
        assert_ptr_equal(bytes.ptr, own + r->headroom);
    note(r, "%c%zu:%.*s;", kind == TCI_WS_TEXT ? 'T' : 'B', bytes.len,
         (int)(bytes.len < 20 ? bytes.len : 20), bytes.len > 0 ? bytes.ptr : "");
    for (size_t i = 0; i < bytes.len; i++)
        r->sum = r->sum * 31 + (uint8_t)bytes.ptr[i];
    if (r->nmessages <= TCI_ARRAY_LEN(r->owns))
        r->owns[r->nmessages - 1] = own;
    if (r->keeps && own != NULL)
        tci_ws_keep(ws, own, bytes.len);
    else
        tci_free(own);
    if (r->closes_on_message)
        tci_ws_close(ws, 1000, TC_STR("enough"));
    if (r->pauses_on_message)
        tci_ws_pause(ws);
    if (r->frees_on_message)
        drop(r);
}

static void on_writable(tci_ws *ws)
{
    ((rig *)tci_ws_user(ws))->nwritable++;
}

static void on_end(tci_ws *ws, const tci_ws_end *end)
{
    rig *r = tci_ws_user(ws);
    r->nends++;
    r->end = *end;
    (void)snprintf(r->reason, sizeof r->reason, "%.*s", TC_STR_ARG(end->reason));
    if (r->frees_on_end)
        drop(r);
}

static const tci_ws_handler handler = {on_message, on_writable, on_end};

static tci_ws_options options_of(rig *r, tci_ws_role role)
{
    return (tci_ws_options){.role = role,
                            .handler = &handler,
                            .user = r,
                            .max_text_bytes = MAX_TEXT,
                            .max_binary_bytes = MAX_BINARY,
                            .headroom = {r->headroom, r->headroom}};
}

static void open_with(rig *r, const tci_ws_options *o, const char *rest)
{
    tc_err err;
    tci_stream *stream = peer_open(&r->p, r->loop);
    r->role = o->role;
    assert_int_equal(tci_ws_new(r->loop, stream, tci_str(rest), o, &r->ws, &err), 0);
}

static void rig_init(rig *r)
{
    tc_err err;
    memset(r, 0, sizeof *r);
    assert_int_equal(tci_loop_new(&r->loop, &err), 0);
}

static void rig_open(rig *r, tci_ws_role role)
{
    rig_init(r);
    tci_ws_options o = options_of(r, role);
    open_with(r, &o, "");
}

static void rig_done(rig *r)
{
    drop(r);
    peer_close(&r->p);
    tci_loop_free(r->loop);
}

/* ---- frames by hand ---- */

static const uint8_t mask[4] = {0x37, 0xfa, 0x21, 0x3d};

/* As the peer of r would write it. */
static void put(const rig *r, tci_buf *b, tci_ws_opcode op, bool is_last, const void *bytes,
                size_t len)
{
    char head[TCI_WS_HEAD_MAX];
    bool is_masked = r->role == TCI_WS_SERVER;
    tci_buf_append(b, head, tci_ws_put_head(head, op, is_last, len, is_masked ? mask : NULL));
    char *to = tci_buf_reserve(b, len);
    assert_non_null(to);
    if (is_masked)
        tci_ws_mask(to, bytes, len, mask, 0);
    else if (len > 0)
        memcpy(to, bytes, len);
    tci_buf_commit(b, len);
}

static void peer_frame(rig *r, tci_ws_opcode op, bool is_last, const void *bytes, size_t len)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    put(r, &b, op, is_last, bytes, len);
    peer_send_bytes(&r->p, b.ptr, b.len);
    tci_buf_done(&b);
}

static void peer_text(rig *r, const char *text)
{
    peer_frame(r, TCI_WS_OP_TEXT, true, text, strlen(text));
}

/* Frames that have arrived at the peer, as text; the rest stays. */
typedef struct seen {
    char text[NOTES_MAX];
    size_t len;
    char ping[TCI_WS_CONTROL_MAX]; /* the last ping's payload */
    size_t nping, npings;
} seen;

static bool next_frame(rig *r, size_t *at, unsigned *op, tc_str *payload)
{
    const uint8_t *p = (const uint8_t *)r->p.got + *at;
    size_t have = r->p.ngot - *at, head = 2;
    if (have < 2)
        return false;
    uint64_t len = p[1] & 127u;
    bool is_masked = (p[1] & 128u) != 0;
    assert_int_equal(is_masked, r->role == TCI_WS_CLIENT);
    assert_int_equal(p[0] & 0x70u, 0);
    if (len >= 126) {
        size_t n = len == 126 ? 2 : 8;
        if (have < 2 + n)
            return false;
        len = 0;
        for (size_t i = 0; i < n; i++)
            len = len << 8 | p[2 + i];
        head += n;
    }
    const uint8_t *key = p + head;
    head += is_masked ? 4 : 0;
    if (have < head + len)
        return false;
    char *bytes = r->p.got + *at + head;
    if (is_masked)
        tci_ws_mask(bytes, bytes, (size_t)len, key, 0);
    *op = p[0] & 15u;
    *payload = tci_str_of(bytes, (size_t)len);
    *at += head + (size_t)len;
    return true;
}

static void see(rig *r, seen *s)
{
    static const char letters[] = {[1] = 'T', [2] = 'B', [8] = 'X', [9] = 'P', [10] = 'O'};
    size_t at = 0;
    unsigned op;
    tc_str payload;
    peer_read(&r->p, SIZE_MAX);
    while (next_frame(r, &at, &op, &payload)) {
        if (op == 9) {
            memcpy(s->ping, payload.ptr, payload.len);
            s->nping = payload.len;
            s->npings++;
            continue;
        }
        if (op == 8 && payload.len >= 2)
            s->len +=
                (size_t)snprintf(s->text + s->len, sizeof s->text - s->len, "X%u:%.*s;",
                                 (unsigned)(uint8_t)payload.ptr[0] << 8 | (uint8_t)payload.ptr[1],
                                 (int)payload.len - 2, payload.ptr + 2);
        else
            s->len += (size_t)snprintf(s->text + s->len, sizeof s->text - s->len, "%c%zu:%.*s;",
                                       letters[op], payload.len,
                                       (int)(payload.len < 10 ? payload.len : 10), payload.ptr);
        assert_true(s->len < sizeof s->text);
    }
    memmove(r->p.got, r->p.got + at, r->p.ngot - at + 1);
    r->p.ngot -= at;
}

static bool sees(rig *r, seen *s, const char *text)
{
    see(r, s);
    return strcmp(s->text, text) == 0;
}

#define EXPECT(r, s, text) PEER_UNTIL(&(r)->p, sees((r), (s), (text)))

/* ---- messages to send ---- */

typedef struct message {
    tci_ws_out out;
    rig *r;
    char bytes[64];
} message;

static void message_done(tci_ws_out *out, bool was_sent)
{
    rig *r = TCI_CONTAINER(out, message, out)->r;
    r->ndone++;
    r->nsent += was_sent;
    if (r->frees_on_done)
        drop(r);
}

static void send_text(rig *r, message *m, tci_ws_kind kind, const char *text)
{
    *m = (message){.r = r};
    size_t len = strlen(text), half = len / 2;
    memcpy(m->bytes, text, len);
    m->out = (tci_ws_out){.kind = kind,
                          .parts = {{m->bytes, half}, {m->bytes + half, len - half}},
                          .nparts = 2,
                          .on_done = message_done};
    tci_ws_send(r->ws, &m->out);
}

static void send_large(rig *r, message *m, tci_ws_kind kind, const char *bytes, size_t len)
{
    *m = (message){.r = r};
    m->out =
        (tci_ws_out){.kind = kind, .parts = {{bytes, len}}, .nparts = 1, .on_done = message_done};
    tci_ws_send(r->ws, &m->out);
}

static char *many_bytes(size_t len)
{
    char *bytes = malloc(len);
    assert_non_null(bytes);
    for (size_t i = 0; i < len; i++)
        bytes[i] = (char)('a' + i % 23);
    return bytes;
}

static void answer_ping(rig *r, const seen *s)
{
    peer_frame(r, TCI_WS_OP_PONG, true, s->ping, s->nping);
}

/* ---- receiving ---- */

static void put_script(const rig *r, tci_buf *b)
{
    put(r, b, TCI_WS_OP_TEXT, true, "one", 3);
    put(r, b, TCI_WS_OP_BINARY, true, "two", 3);
    put(r, b, TCI_WS_OP_TEXT, false, "gr\xc3", 3);
    put(r, b, TCI_WS_OP_PING, true, "p", 1);
    put(r, b, TCI_WS_OP_CONTINUE, false, "", 0);
    put(r, b, TCI_WS_OP_PONG, true, "unasked", 7);
    put(r, b, TCI_WS_OP_CONTINUE, true, "\xbc\xc3\x9f", 3);
    put(r, b, TCI_WS_OP_BINARY, true, "", 0);
    put(r, b, TCI_WS_OP_BINARY, false, "", 0);
    put(r, b, TCI_WS_OP_CONTINUE, true, "", 0);
}

static void every_split_of_messages(void **state)
{
    (void)state;
    static const char want[] = "T3:one;B3:two;T6:gr\xc3\xbc\xc3\x9f;B0:;B0:;";
    for (int role = 0; role < 2; role++) {
        size_t len = 1;
        for (size_t cut = 0; cut < len; cut++) {
            rig r;
            seen s = {.len = 0};
            tci_buf b;
            rig_open(&r, (tci_ws_role)role);
            tci_buf_init(&b, TCI_BUF_MAX);
            put_script(&r, &b);
            len = b.len;
            peer_send_bytes(&r.p, b.ptr, cut);
            tci_loop_turn(r.loop, 0);
            tci_loop_turn(r.loop, 0);
            peer_send_bytes(&r.p, b.ptr + cut, len - cut);
            PEER_UNTIL(&r.p, strcmp(r.notes, want) == 0);
            EXPECT(&r, &s, "O1:p;");
            tci_buf_done(&b);
            rig_done(&r);
        }
    }
}

/* Longer than what is read at once, whole and in fragments, with control frames in the middle. */
static void long_messages(void **state)
{
    (void)state;
    static const size_t steps[] = {1000, 70001, SIZE_MAX};
    char *bytes = many_bytes(MAX_BINARY);
    for (int role = 0; role < 2; role++) {
        for (size_t i = 0; i < TCI_ARRAY_LEN(steps); i++) {
            rig r;
            tci_buf b;
            rig_init(&r);
            r.headroom = 48;
            tci_ws_options o = options_of(&r, (tci_ws_role)role);
            open_with(&r, &o, "");
            tci_buf_init(&b, TCI_BUF_MAX);
            put(&r, &b, TCI_WS_OP_BINARY, true, bytes, MAX_BINARY);
            put(&r, &b, TCI_WS_OP_BINARY, false, bytes, 100000);
            put(&r, &b, TCI_WS_OP_PING, true, "x", 1);
            put(&r, &b, TCI_WS_OP_CONTINUE, false, bytes + 100000, 7);
            put(&r, &b, TCI_WS_OP_CONTINUE, true, bytes + 100007, MAX_BINARY - 100007);
            for (size_t at = 0; at < b.len; at += steps[i]) {
                peer_send_bytes(&r.p, b.ptr + at, tci_min_size(steps[i], b.len - at));
                tci_loop_turn(r.loop, 0);
                if (steps[i] > b.len)
                    break;
            }
            PEER_UNTIL(&r.p, r.nmessages == 2);
            uint64_t sum = 0;
            for (int twice = 0; twice < 2; twice++)
                for (size_t k = 0; k < MAX_BINARY; k++)
                    sum = sum * 31 + (uint8_t)bytes[k];
            assert_true(r.sum == sum);
            tci_buf_done(&b);
            rig_done(&r);
        }
    }
    free(bytes);
}

/* Only blocks of about the same size, and not more than is allowed. */
static void blocks_are_used_again(void **state)
{
    (void)state;
    static const size_t sizes[] = {200000, 199000, 300000, 90000, 299000};
    rig r;
    char *bytes = many_bytes(MAX_BINARY);
    rig_init(&r);
    r.keeps = true;
    tci_ws_options o = options_of(&r, TCI_WS_SERVER);
    o.max_kept_bytes = 400000;
    open_with(&r, &o, "");
    for (unsigned i = 0; i < TCI_ARRAY_LEN(sizes); i++) {
        uint64_t sum = r.sum;
        peer_frame(&r, TCI_WS_OP_BINARY, true, bytes, sizes[i]);
        PEER_UNTIL(&r.p, r.nmessages == i + 1);
        for (size_t k = 0; k < sizes[i]; k++)
            sum = sum * 31 + (uint8_t)bytes[k];
        assert_true(r.sum == sum);
        assert_non_null(r.owns[i]);
    }
    assert_ptr_equal(r.owns[1], r.owns[0]);
    assert_ptr_not_equal(r.owns[2], r.owns[0]); /* too small, and then there is no room for both */
    assert_ptr_not_equal(r.owns[3], r.owns[0]); /* much too large */
    free(bytes);
    rig_done(&r); /* what is kept goes with it */
}

/* What was read with the handshake is not lost. */
static void bytes_beyond_the_handshake(void **state)
{
    (void)state;
    rig r;
    rig_init(&r);
    tci_ws_options o = options_of(&r, TCI_WS_CLIENT);
    open_with(&r, &o, "\x81\x02hi\x81\x02h");
    assert_string_equal(r.notes, "");
    peer_send(&r.p, "o");
    PEER_UNTIL(&r.p, r.nmessages == 2);
    assert_string_equal(r.notes, "T2:hi;T2:ho;");
    rig_done(&r);
}

static void pause_and_resume(void **state)
{
    (void)state;
    rig r;
    rig_open(&r, TCI_WS_SERVER);
    r.pauses_on_message = true;
    for (int i = 0; i < 3; i++)
        peer_text(&r, "m");
    PEER_UNTIL(&r.p, r.nmessages == 1);
    peer_settle(&r.p);
    assert_int_equal(r.nmessages, 1);
    tci_ws_resume(r.ws);
    PEER_UNTIL(&r.p, r.nmessages == 2);
    r.pauses_on_message = false;
    tci_ws_resume(r.ws);
    PEER_UNTIL(&r.p, r.nmessages == 3);
    rig_done(&r);
}

/* ---- sending ---- */

static void messages_of_both_roles(void **state)
{
    (void)state;
    char *bytes = many_bytes(MAX_BINARY), *copy = many_bytes(MAX_BINARY);
    for (int role = 0; role < 2; role++) {
        rig r;
        seen s = {.len = 0};
        message a, b, c;
        tci_buf own;
        tc_err err;
        rig_open(&r, (tci_ws_role)role);
        send_text(&r, &a, TCI_WS_TEXT, "hello");
        send_large(&r, &b, TCI_WS_BINARY, bytes, MAX_BINARY);
        tci_buf_init(&own, TCI_BUF_MAX);
        tci_buf_append_str(&own, TC_STR("own"));
        assert_int_equal(tci_ws_send_own(r.ws, TCI_WS_TEXT, &own, &err), 0);
        assert_int_equal(own.len, 0);
        send_text(&r, &c, TCI_WS_BINARY, "");
        assert_int_equal(tci_ws_queued_bytes(r.ws), 8 + MAX_BINARY);
        EXPECT(&r, &s, "T5:hello;T3:own;B300000:abcdefghij;B0:;");
        assert_int_equal(r.ndone, 3);
        assert_int_equal(r.nsent, 3);
        assert_int_equal(tci_ws_queued_bytes(r.ws), 0);
        assert_memory_equal(bytes, copy, MAX_BINARY); /* not ours to mask */
        rig_done(&r);
    }
    free(bytes);
    free(copy);
}

static void text_first_but_binary_in_turn(void **state)
{
    (void)state;
    rig r;
    seen s = {.len = 0};
    message m[12];
    rig_open(&r, TCI_WS_SERVER);
    send_text(&r, &m[0], TCI_WS_BINARY, "x");
    send_text(&r, &m[1], TCI_WS_BINARY, "y");
    for (int i = 2; i < 12; i++)
        send_text(&r, &m[i], TCI_WS_TEXT, "t");
    EXPECT(&r, &s, "T1:t;T1:t;T1:t;T1:t;T1:t;T1:t;T1:t;T1:t;B1:x;T1:t;T1:t;B1:y;");
    rig_done(&r);
}

/* The peer does not read: nothing more is taken from it, until it does. */
static void slow_reader(void **state)
{
    (void)state;
    rig r;
    seen s = {.len = 0};
    message a;
    char *bytes = many_bytes(4000000);
    rig_init(&r);
    tci_ws_options o = options_of(&r, TCI_WS_SERVER);
    o.max_queued_bytes = 1000;
    open_with(&r, &o, "");
    send_large(&r, &a, TCI_WS_BINARY, bytes, 4000000);
    peer_text(&r, "in");
    peer_settle(&r.p);
    assert_int_equal(r.nmessages, 0);
    assert_int_equal(r.nwritable, 0);
    PEER_UNTIL(&r.p, (peer_read(&r.p, 100000), r.nmessages == 1));
    assert_int_equal(r.nwritable, 1);
    EXPECT(&r, &s, "B4000000:abcdefghij;");
    free(bytes);
    rig_done(&r);
}

static void sending_has_a_limit(void **state)
{
    (void)state;
    for (int role = 0; role < 2; role++) {
        rig r;
        message a, b;
        char *bytes = many_bytes(8000000);
        rig_init(&r);
        tci_ws_options o = options_of(&r, (tci_ws_role)role);
        o.send_timeout_ms = 30;
        open_with(&r, &o, "");
        send_large(&r, &a, TCI_WS_BINARY, bytes, 8000000);
        send_text(&r, &b, TCI_WS_BINARY, "never");
        PEER_UNTIL(&r.p, r.nends == 1);
        assert_int_equal(r.end.cause, TCI_WS_SEND_TIMEOUT);
        assert_int_equal(r.end.err.code, TC_E_TIMEOUT);
        assert_int_equal(r.ndone, 2);
        assert_int_equal(r.nsent, 0);
        free(bytes);
        rig_done(&r);
    }
}

static void messages_taken_back(void **state)
{
    (void)state;
    for (int role = 0; role < 2; role++) {
        rig r;
        seen s = {.len = 0};
        message a, b, c;
        char *bytes = many_bytes(4000000);
        rig_open(&r, (tci_ws_role)role);
        send_large(&r, &a, TCI_WS_BINARY, bytes, 4000000);
        send_text(&r, &b, TCI_WS_BINARY, "second");
        send_text(&r, &c, TCI_WS_BINARY, "third");
        peer_settle(&r.p); /* a is partly out */
        assert_true(tci_ws_take_back(r.ws, &b.out));
        assert_int_equal(r.ndone, 1);
        assert_true(tci_ws_take_back(r.ws, &a.out));
        assert_int_equal(r.ndone, 2);
        assert_int_equal(r.nsent, 0);
        memset(bytes, 0, 4000000);
        free(bytes);
        EXPECT(&r, &s, "B4000000:abcdefghij;B5:third;");
        assert_true(tci_ws_take_back(r.ws, &c.out)); /* nothing to do */
        assert_int_equal(r.ndone, 3);
        assert_int_equal(r.nsent, 1);
        rig_done(&r);
    }
}

/* ---- liveness ---- */

static void pings_are_answered(void **state)
{
    (void)state;
    rig r;
    seen s = {.len = 0};
    tci_buf b;
    rig_open(&r, TCI_WS_CLIENT);
    tci_buf_init(&b, TCI_BUF_MAX);
    for (int i = 0; i < 5; i++)
        put(&r, &b, TCI_WS_OP_PING, true, &"12345"[i], 1);
    peer_send_bytes(&r.p, b.ptr, b.len);
    EXPECT(&r, &s, "O1:5;"); /* the last of them */
    peer_frame(&r, TCI_WS_OP_PING, true, "", 0);
    EXPECT(&r, &s, "O1:5;O0:;");
    tci_buf_done(&b);
    rig_done(&r);
}

static void case_63_silence_is_noticed(void **state)
{
    (void)state;
    for (int role = 0; role < 2; role++) {
        rig r;
        seen s = {.len = 0};
        rig_init(&r);
        tci_ws_options o = options_of(&r, (tci_ws_role)role);
        o.ping_interval_ms = 5;
        o.pong_timeout_ms = 1000;
        open_with(&r, &o, "");
        for (unsigned i = 1; i <= 3; i++) {
            PEER_UNTIL(&r.p, (see(&r, &s), s.npings == i));
            assert_int_equal(s.nping, 8);
            answer_ping(&r, &s);
        }
        assert_int_equal(r.nends, 0);
        PEER_UNTIL(&r.p, (see(&r, &s), s.npings == 4));
        s.ping[0]++;
        answer_ping(&r, &s); /* not the one that was asked for */
        PEER_UNTIL(&r.p, r.nends == 1);
        assert_int_equal(r.end.cause, TCI_WS_PING_TIMEOUT);
        assert_int_equal(r.end.err.code, TC_E_TIMEOUT);
        rig_done(&r);
    }
}

static void turn_for(rig *r, seen *s, int64_t ms)
{
    int64_t until = tci_clock_mono_ns() + ms * 1000000;
    while (tci_clock_mono_ns() < until) {
        tci_loop_turn(r->loop, 2);
        see(r, s);
    }
}

/* Asked out of turn: an answer, or any byte, and it stays; silence, and it goes. */
static void a_probe_needs_a_sign_of_life(void **state)
{
    (void)state;
    enum { WITHIN_MS = 500 };
    for (int role = 0; role < 2; role++) {
        rig r;
        seen s = {.len = 0};
        rig_init(&r);
        tci_ws_options o = options_of(&r, (tci_ws_role)role);
        o.ping_interval_ms = o.pong_timeout_ms = 60000;
        open_with(&r, &o, "");
        for (unsigned i = 1; i <= 2; i++) {
            tci_ws_probe(r.ws, WITHIN_MS);
            tci_ws_probe(r.ws, 1); /* one is under way */
            PEER_UNTIL(&r.p, (see(&r, &s), s.npings == i));
            if (i == 1)
                answer_ping(&r, &s);
            else
                peer_text(&r, "busy");
            turn_for(&r, &s, WITHIN_MS + WITHIN_MS / 2);
            assert_int_equal(r.nends, 0);
            assert_int_equal(s.npings, i);
        }
        tci_ws_probe(r.ws, WITHIN_MS); /* a ping is out already */
        PEER_UNTIL(&r.p, r.nends == 1);
        assert_int_equal(r.end.cause, TCI_WS_PING_TIMEOUT);
        assert_int_equal(r.end.err.code, TC_E_TIMEOUT);
        rig_done(&r);
    }
}

/* A pong waits behind a large frame: the frame shows that the link is alive. */
static void a_frame_that_arrives_is_life(void **state)
{
    (void)state;
    rig r;
    seen s = {.len = 0};
    tci_buf b;
    rig_init(&r);
    tci_ws_options o = options_of(&r, TCI_WS_CLIENT);
    o.ping_interval_ms = 5;
    o.pong_timeout_ms = 1500;
    open_with(&r, &o, "");
    PEER_UNTIL(&r.p, (see(&r, &s), s.npings == 1));
    char *bytes = many_bytes(1000);
    tci_buf_init(&b, TCI_BUF_MAX);
    put(&r, &b, TCI_WS_OP_BINARY, true, bytes, 1000);
    int64_t until = tci_clock_mono_ns() + INT64_C(2000000000);
    size_t at = 0;
    while (tci_clock_mono_ns() < until) { /* longer than the pong may take, to the end of it */
        assert_true(at < b.len - 1);
        peer_send_bytes(&r.p, b.ptr + at++, 1);
        turn_for(&r, &s, 4);
    }
    assert_int_equal(r.nends, 0);
    peer_send_bytes(&r.p, b.ptr + at, b.len - at);
    answer_ping(&r, &s);
    PEER_UNTIL(&r.p, r.nmessages == 1 && (see(&r, &s), s.npings == 2));
    tci_buf_done(&b);
    free(bytes);
    rig_done(&r);
}

/* So do messages before it. */
static void messages_that_arrive_are_life(void **state)
{
    (void)state;
    rig r;
    seen s = {.len = 0};
    rig_init(&r);
    tci_ws_options o = options_of(&r, TCI_WS_SERVER);
    o.ping_interval_ms = 5;
    o.pong_timeout_ms = 1500;
    open_with(&r, &o, "");
    PEER_UNTIL(&r.p, (see(&r, &s), s.npings == 1));
    int64_t until = tci_clock_mono_ns() + INT64_C(2000000000);
    while (tci_clock_mono_ns() < until && r.nends == 0) {
        unsigned before = r.nmessages;
        peer_frame(&r, TCI_WS_OP_BINARY, true, "", 0);
        PEER_UNTIL(&r.p, r.nmessages > before || r.nends > 0);
        tci_loop_turn(r.loop, 10);
        r.nnotes = 0;
    }
    assert_int_equal(r.nends, 0);
    PEER_UNTIL(&r.p, r.nends == 1); /* and now silence */
    assert_int_equal(r.end.cause, TCI_WS_PING_TIMEOUT);
    rig_done(&r);
}

/* ---- ends ---- */

static void closing_in_good_order(void **state)
{
    (void)state;
    for (int role = 0; role < 2; role++) {
        rig r;
        seen s = {.len = 0};
        message a, b;
        rig_open(&r, (tci_ws_role)role);
        send_text(&r, &a, TCI_WS_TEXT, "last words");
        tci_ws_close(r.ws, 1000, TC_STR("bye"));
        tci_ws_close(r.ws, 1001, TC_STR("again"));
        send_text(&r, &b, TCI_WS_TEXT, "too late");
        assert_int_equal(r.ndone, 1);
        EXPECT(&r, &s, "T10:last words;X1000:bye;");
        peer_text(&r, "not taken any more");
        assert_int_equal(r.nends, 0);
        peer_frame(&r, TCI_WS_OP_CLOSE, true, "\x03\xe8", 2);
        PEER_UNTIL(&r.p, r.nends == 1);
        assert_int_equal(r.end.cause, TCI_WS_CLOSED);
        assert_int_equal(r.nmessages, 0);
        assert_int_equal(r.nsent, 1);
        PEER_UNTIL(&r.p, peer_is_at_end(&r.p));
        rig_done(&r);
    }
}

/* A peer that does not answer, or takes nothing, holds nobody up for more than a second. */
static void closing_is_bounded(void **state)
{
    (void)state;
    char *bytes = many_bytes(8000000);
    for (int blocked = 0; blocked < 2; blocked++) {
        rig r;
        message a;
        rig_open(&r, TCI_WS_SERVER);
        if (blocked)
            send_large(&r, &a, TCI_WS_BINARY, bytes, 8000000);
        int64_t began = tci_clock_mono_ns();
        tci_ws_close(r.ws, 1001, TC_STR(""));
        PEER_UNTIL(&r.p, r.nends == 1);
        assert_true(tci_clock_mono_ns() - began >= INT64_C(990000000));
        assert_int_equal(r.end.cause, TCI_WS_CLOSED);
        rig_done(&r);
    }
    free(bytes);
}

static void the_peer_closes(void **state)
{
    (void)state;
    static const struct {
        const char *payload;
        size_t len;
        bool without_code;
        unsigned code;
        const char *reason, *answer;
    } rows[] = {
        {"\x03\xe8", 2, false, 1000, "", "X1000:;"},
        {"\x03\xf0see you", 9, false, 1008, "see you", "X1008:;"},
        {"", 0, false, 1005, "", "X0:;"},
        {"\x0f\xa1no", 4, true, 4001, "no", "X0:;"},
    };
    for (size_t i = 0; i < TCI_ARRAY_LEN(rows); i++) {
        rig r;
        seen s = {.len = 0};
        rig_init(&r);
        tci_ws_options o = options_of(&r, TCI_WS_CLIENT);
        o.closes_without_code = rows[i].without_code;
        open_with(&r, &o, "");
        peer_frame(&r, TCI_WS_OP_CLOSE, true, rows[i].payload, rows[i].len);
        PEER_UNTIL(&r.p, r.nends == 1);
        assert_int_equal(r.end.cause, TCI_WS_PEER_CLOSED);
        assert_int_equal(r.end.code, rows[i].code);
        assert_string_equal(r.reason, rows[i].reason);
        EXPECT(&r, &s, rows[i].answer);
        rig_done(&r);
    }
}

/* A frame that is partly out is completed before the answer to a close frame. */
static void the_peer_closes_in_the_middle(void **state)
{
    (void)state;
    rig r;
    seen s = {.len = 0};
    message a, b;
    char *bytes = many_bytes(4000000);
    rig_open(&r, TCI_WS_SERVER);
    send_large(&r, &a, TCI_WS_BINARY, bytes, 4000000);
    send_text(&r, &b, TCI_WS_BINARY, "not any more");
    peer_settle(&r.p);
    peer_frame(&r, TCI_WS_OP_CLOSE, true, "\x03\xe9", 2);
    EXPECT(&r, &s, "B4000000:abcdefghij;X1001:;");
    PEER_UNTIL(&r.p, r.nends == 1);
    assert_int_equal(r.end.cause, TCI_WS_PEER_CLOSED);
    assert_int_equal(r.nsent, 1);
    assert_int_equal(r.ndone, 2);
    free(bytes);
    rig_done(&r);
}

static void violations(void **state)
{
    (void)state;
    static const struct {
        tc_str in; /* to a client */
        unsigned code;
        int err;
        const char *told; /* in the message */
    } rows[] = {
#define ROW(literal, code, err, told) {{"" literal, sizeof(literal) - 1}, code, err, told}
        ROW("\xc1\x00", 1002, TC_E_PROTOCOL, "reserved bit"),
        ROW("\x81\x80\0\0\0\0", 1002, TC_E_PROTOCOL, "mask"),
        ROW("\x01\x01x\x82\x00", 1002, TC_E_PROTOCOL, "inside another"),
        ROW("\x81\x02\xc3(", 1007, TC_E_PROTOCOL, "UTF-8"),
        ROW("\x01\x01\xc3\x80\x01(", 1007, TC_E_PROTOCOL, "UTF-8"),
        ROW("\x81\x7e\x03\xe9", 1009, TC_E_TOO_BIG, "text message of more than 1000"),
        ROW("\x82\x7f\0\0\0\0\0\4\x93\xe1", 1009, TC_E_TOO_BIG, "binary message of more than"),
        ROW("\x01\x7e\x03\xe8", 0, 0, ""), /* as long as can be */
#undef ROW
    };
    for (size_t i = 0; i < TCI_ARRAY_LEN(rows); i++) {
        rig r;
        seen s = {.len = 0};
        char want[40];
        rig_open(&r, TCI_WS_CLIENT);
        peer_send_bytes(&r.p, rows[i].in.ptr, rows[i].in.len);
        if (rows[i].code == 0) {
            peer_settle(&r.p);
            assert_int_equal(r.nends, 0);
            rig_done(&r);
            continue;
        }
        (void)snprintf(want, sizeof want, "X%u:WebSocket: ", rows[i].code);
        PEER_UNTIL(&r.p, (see(&r, &s), strstr(s.text, want) != NULL));
        peer_send(&r.p, "and some rubbish that nobody reads");
        tci_fd_close(&r.p.fd);
        PEER_UNTIL(&r.p, r.nends == 1);
        assert_int_equal(r.end.cause, TCI_WS_VIOLATION);
        assert_int_equal(r.end.code, rows[i].code);
        assert_int_equal(r.end.err.code, rows[i].err);
        assert_non_null(strstr(r.end.err.msg, rows[i].told));
        assert_int_equal(r.nmessages, 0);
        rig_done(&r);
    }
}

static void lost_without_a_word(void **state)
{
    (void)state;
    static const char *const before[] = {"", "\x81", "\x81\x05he", "\x01\x02he"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(before); i++) {
        rig r;
        rig_open(&r, TCI_WS_CLIENT);
        peer_send(&r.p, before[i]);
        peer_settle(&r.p);
        tci_fd_close(&r.p.fd);
        PEER_UNTIL(&r.p, r.nends == 1);
        assert_int_equal(r.end.cause, TCI_WS_LOST);
        assert_int_equal(r.end.code, 1006);
        assert_int_equal(r.end.err.code, TC_E_CLOSED);
        rig_done(&r);
    }
}

static void freed_by_its_own_callbacks(void **state)
{
    (void)state;
    rig r;
    message a, b;
    rig_open(&r, TCI_WS_CLIENT);
    r.frees_on_message = true;
    send_text(&r, &a, TCI_WS_TEXT, "a");
    peer_text(&r, "one");
    peer_text(&r, "two");
    PEER_UNTIL(&r.p, r.ws == NULL);
    assert_int_equal(r.nmessages, 1);
    assert_int_equal(r.nends, 0);
    rig_done(&r);

    rig_open(&r, TCI_WS_CLIENT);
    r.frees_on_done = true;
    send_text(&r, &a, TCI_WS_TEXT, "a");
    send_text(&r, &b, TCI_WS_BINARY, "b");
    PEER_UNTIL(&r.p, r.ws == NULL);
    assert_int_equal(r.ndone, 2);
    rig_done(&r);

    rig_open(&r, TCI_WS_CLIENT);
    r.frees_on_end = true;
    send_text(&r, &a, TCI_WS_TEXT, "a");
    peer_frame(&r, TCI_WS_OP_CLOSE, true, "", 0);
    PEER_UNTIL(&r.p, r.ws == NULL);
    assert_int_equal(r.nends, 1);
    rig_done(&r);

    rig_open(&r, TCI_WS_CLIENT);
    r.closes_on_message = true;
    peer_text(&r, "one");
    peer_text(&r, "two");
    PEER_UNTIL(&r.p, r.nmessages == 1);
    tci_fd_close(&r.p.fd);
    PEER_UNTIL(&r.p, r.nends == 1);
    assert_int_equal(r.end.cause, TCI_WS_CLOSED);
    assert_int_equal(r.nmessages, 1);
    rig_done(&r);
}

/* Each allocation fails once: an error or an end, never a crash. */
static void without_memory(void **state)
{
    (void)state;
    char *bytes = many_bytes(100000);
    for (size_t n = 1; n < 12; n++) {
        rig r;
        tc_err err;
        message a;
        rig_init(&r);
        tci_ws_options o = options_of(&r, TCI_WS_CLIENT);
        o.ping_interval_ms = o.pong_timeout_ms = o.send_timeout_ms = 10000;
        tci_stream *stream = peer_open(&r.p, r.loop);
        tci_buf b;
        tci_buf_init(&b, TCI_BUF_MAX);
        put(&r, &b, TCI_WS_OP_BINARY, false, bytes, 1000);
        put(&r, &b, TCI_WS_OP_CONTINUE, true, bytes, 1000);
        tci_mem_fail_at(n);
        int rc = tci_ws_new(r.loop, stream, TC_STR(""), &o, &r.ws, &err);
        if (rc == 0) {
            send_large(&r, &a, TCI_WS_BINARY, bytes, 100000);
            peer_send_bytes(&r.p, b.ptr, b.len);
            for (int i = 0; i < 20 && r.nends == 0; i++) {
                peer_read(&r.p, SIZE_MAX);
                tci_loop_turn(r.loop, 1);
            }
            assert_true(r.nends == 1 || (r.nmessages == 1 && r.nsent == 1));
        }
        tci_mem_fail_at(0);
        tci_buf_done(&b);
        rig_done(&r);
    }
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_split_of_messages),
        cmocka_unit_test(long_messages),
        cmocka_unit_test(blocks_are_used_again),
        cmocka_unit_test(bytes_beyond_the_handshake),
        cmocka_unit_test(pause_and_resume),
        cmocka_unit_test(messages_of_both_roles),
        cmocka_unit_test(text_first_but_binary_in_turn),
        cmocka_unit_test(slow_reader),
        cmocka_unit_test(sending_has_a_limit),
        cmocka_unit_test(messages_taken_back),
        cmocka_unit_test(pings_are_answered),
        cmocka_unit_test(case_63_silence_is_noticed),
        cmocka_unit_test(a_probe_needs_a_sign_of_life),
        cmocka_unit_test(a_frame_that_arrives_is_life),
        cmocka_unit_test(messages_that_arrive_are_life),
        cmocka_unit_test(closing_in_good_order),
        cmocka_unit_test(closing_is_bounded),
        cmocka_unit_test(the_peer_closes),
        cmocka_unit_test(the_peer_closes_in_the_middle),
        cmocka_unit_test(violations),
        cmocka_unit_test(lost_without_a_word),
        cmocka_unit_test(freed_by_its_own_callbacks),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
