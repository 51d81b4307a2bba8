/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames in: the search for the sync line, heads, bodies straight into the memory they stay in, JSON
 * read once. Leaves what they mean to the table and the tunnel. Loop thread. Invariant: nothing here
 * ends the session from inside of the stream's callback but at the end of the turn. */
#include "client/pienv/pienv_int.h"

#include <assert.h>

enum { READS_PER_TURN = 16 };

static_assert(offsetof(tci_held, text) % _Alignof(tci_pi_in) == 0, "a frame lies at its front");

void tci_pi_in_free(tci_pi_in *in)
{
    if (in != NULL)
        tci_held_free(in->held);
}

void tci_pi_in_free_all(tci_list *list)
{
    for (tci_link *link; (link = tci_list_pop_front(list)) != NULL;)
        tci_pi_in_free(TCI_CONTAINER(link, tci_pi_in, link));
}

static tci_pi_in *in_new(const tci_pienv_head *head, size_t payload_len)
{
    tci_held *h = tci_held_new(sizeof(tci_pi_in) + head->json_len + payload_len);
    if (h == NULL)
        return NULL;
    tci_pi_in *in = (tci_pi_in *)(void *)h->text;
    in->held = h;
    in->head = *head;
    in->text = h->text + sizeof *in;
    return in;
}

/* ---- JSON ---- */

static tc_str json_of(const tci_pi_in *in)
{
    return tci_str_of(in->text, in->head.json_len);
}

static int corrupt(tc_err *err, const char *what)
{
    return tc_err_set(err, TC_E_PROTOCOL, "Corrupt frame from pi-env: %s", what);
}

/* The frames there are most of need no parser. */
static bool is_well_known(tci_pi_in *in)
{
    tc_str text = json_of(in);
    if (tci_str_eq(text, TC_STR("{}"))) {
        in->json = (tci_json){.kind = TCI_JSON_OBJECT};
        return true;
    }
    in->is_output = in->head.type == TCI_PIENV_EVENT;
    if (in->is_output && tci_str_eq(text, TC_STR("{\"kind\":\"output\",\"stream\":\"stdout\"}")))
        return true;
    in->is_stderr = in->is_output;
    if (in->is_output && tci_str_eq(text, TC_STR("{\"kind\":\"output\",\"stream\":\"stderr\"}")))
        return true;
    in->is_output = in->is_stderr = false;
    return false;
}

static int read_json(tci_pi_in *in, tc_err *err)
{
    if (is_well_known(in))
        return 0;
    tc_err why;
    if (tci_json_parse(json_of(in), TCI_JSON_DURABLE, &in->held->arena, &in->json, &why) < 0) {
        if (why.code == TC_E_NO_MEMORY || why.code == TC_E_TOO_BIG) {
            *err = why;
            return err->code;
        }
        return corrupt(err, why.msg);
    }
    return in->json.kind == TCI_JSON_OBJECT ? 0 : corrupt(err, "its JSON is no object");
}

/* ---- a whole frame ---- */

static void deliver_to(tci_pi_sess *s, tci_pi_in *in, bool is_in_dst)
{
    tci_pi_pending *p = tci_pi_pending_find(s, in->head.id);
    if (p == NULL)
        tci_pi_in_free(in);
    else if (in->head.type == TCI_PIENV_EVENT)
        tci_pi_note_own(p, in);
    else
        tci_pi_answer_own(p, in, is_in_dst);
}

static int deliver_own(tci_pi_sess *s, tci_pi_in *in, bool is_in_dst, tc_err *err)
{
    if (read_json(in, err) < 0) {
        tci_pi_in_free(in);
        return err->code;
    }
    if (in->head.type == TCI_PIENV_PING)
        tci_pi_in_free(in);
    else if (in->head.type == TCI_PIENV_TUNNEL)
        tci_pi_tunnel_frame_own(s, in);
    else if (s->phase == TCI_PI_GREETING && in->head.id == s->hello_id &&
             in->head.type != TCI_PIENV_EVENT)
        tci_pi_sess_greeted_own(s, in);
    else
        deliver_to(s, in, is_in_dst);
    return 0;
}

/* ---- bodies ---- */

static bool is_known(uint8_t type)
{
    return type == TCI_PIENV_RESULT || type == TCI_PIENV_ERROR || type == TCI_PIENV_EVENT ||
           type == TCI_PIENV_PING || type == TCI_PIENV_TUNNEL;
}

/* Where does the body of s->head go? */
static int begin_body(tci_pi_sess *s, tc_err *err)
{
    const tci_pienv_head *head = &s->head;
    tci_pi_pending *p = tci_pi_pending_find(s, head->id);
    bool is_tunnel = head->type == TCI_PIENV_TUNNEL && s->tunnel != NULL;
    s->part = NULL;
    s->payload_to = NULL;
    s->dst_owner = NULL;
    s->part_got = 0;
    s->is_in_body = true;
    if (!is_known(head->type))
        return 0; /* skipped */
    bool is_answer = head->type == TCI_PIENV_RESULT && p != NULL;
    if (is_answer && p->dst != NULL && head->payload_len <= p->dst_cap && head->payload_len > 0) {
        s->dst_owner = p;
        s->payload_to = p->dst;
    }
    bool is_wanted = is_answer || is_tunnel ||
                     (head->type == TCI_PIENV_EVENT && p != NULL && p->has_notes_wanted);
    bool is_kept = is_wanted && s->payload_to == NULL;
    s->part = in_new(head, is_kept ? head->payload_len : 0);
    if (s->part == NULL)
        return tci_err_no_memory(err);
    if (is_kept)
        s->payload_to = s->part->text + head->json_len;
    else if (!is_wanted)
        s->part->head.payload_len = 0;
    return 0;
}

static size_t body_len(const tci_pi_sess *s)
{
    return (size_t)s->head.json_len + s->head.payload_len;
}

static int end_body(tci_pi_sess *s, tc_err *err)
{
    tci_pi_in *in = s->part;
    bool is_in_dst = s->dst_owner != NULL;
    s->part = NULL;
    s->dst_owner = NULL;
    s->is_in_body = false;
    return in != NULL ? deliver_own(s, in, is_in_dst, err) : 0;
}

/* Where the next bytes of the body go, and how many of them; NULL: nowhere. */
static char *body_room(const tci_pi_sess *s, size_t *ret_room)
{
    size_t json_len = s->head.json_len;
    if (s->part_got < json_len) {
        *ret_room = json_len - s->part_got;
        return s->part != NULL ? s->part->text + s->part_got : NULL;
    }
    *ret_room = body_len(s) - s->part_got;
    return s->payload_to != NULL ? s->payload_to + (s->part_got - json_len) : NULL;
}

/* Take from the buffer what belongs to the body. */
static int take_body(tci_pi_sess *s, tc_err *err)
{
    while (s->part_got < body_len(s) && s->at < s->len) {
        size_t room = 0;
        char *to = body_room(s, &room);
        size_t n = tci_min_size(room, s->len - s->at);
        if (to != NULL)
            memcpy(to, s->buf + s->at, n);
        s->at += n;
        s->part_got += n;
    }
    return s->part_got == body_len(s) ? end_body(s, err) : 0;
}

/* ---- parsing ---- */

static int look_for_sync(tci_pi_sess *s, tc_err *err)
{
    TCI_UNUSED(err);
    tc_str in = tci_str_of(s->buf + s->at, s->len - s->at);
    size_t n = tci_pienv_sync_feed(&s->sync, in);
    s->at += n;
    tci_pi_sess_noise(s, tci_str_sub(in, 0, n));
    if (s->sync.is_found)
        s->phase = TCI_PI_GREETING;
    return 0;
}

static int take_head(tci_pi_sess *s, bool *ret_is_short, tc_err *err)
{
    *ret_is_short = s->len - s->at < TCI_PIENV_HEAD_BYTES;
    if (*ret_is_short)
        return 0;
    tc_err why;
    if (tci_pienv_head_read(s->buf + s->at, &s->head, &why) < 0) {
        /* People know a start-up file's words when they see them. */
        s->sample_len = tci_min_size(s->len - s->at, sizeof s->sample);
        memcpy(s->sample, s->buf + s->at, s->sample_len);
        s->is_sample_corrupt = true;
        return corrupt(err, why.msg);
    }
    s->at += TCI_PIENV_HEAD_BYTES;
    return begin_body(s, err);
}

/* Everything that is complete in the buffer; what is left is moved to its front. */
static int parse(tci_pi_sess *s, tc_err *err)
{
    bool is_short = false;
    while (!is_short && s->end_err.code == TC_OK) {
        int rc;
        if (s->phase == TCI_PI_SYNC) {
            is_short = s->at == s->len;
            rc = is_short ? 0 : look_for_sync(s, err);
        } else if (s->is_in_body) {
            rc = take_body(s, err);
            is_short = s->is_in_body;
        } else {
            rc = take_head(s, &is_short, err);
        }
        if (rc < 0)
            return rc;
    }
    size_t left = s->len - s->at;
    if (left > 0 && s->at > 0)
        memmove(s->buf, s->buf + s->at, left);
    s->at = 0;
    s->len = left;
    return 0;
}

int tci_pi_feed(tci_pi_sess *s, tc_str bytes, tc_err *err)
{
    while (bytes.len > 0 && s->end_err.code == TC_OK) {
        size_t n = tci_min_size(bytes.len, TCI_PI_READ_BYTES - s->len);
        memcpy(s->buf + s->len, bytes.ptr, n);
        s->len += n;
        bytes = tci_str_sub(bytes, n, SIZE_MAX);
        if (parse(s, err) < 0)
            return err->code;
    }
    return 0;
}

/* ---- reading ---- */

/* One read, into the body when its rest is all that is to be read. *ret_n 0: nothing there now. */
static int read_some(tci_pi_sess *s, size_t *ret_n, tc_err *err)
{
    size_t room = 0;
    char *to = s->is_in_body ? body_room(s, &room) : NULL;
    bool is_direct = to != NULL && room >= TCI_PI_READ_BYTES / 2;
    int rc = is_direct ? tci_stream_read(s->stream, to, room, ret_n, err)
                       : tci_stream_read(s->stream, s->buf + s->len, TCI_PI_READ_BYTES - s->len,
                                         ret_n, err);
    if (rc < 0)
        return rc;
    if (*ret_n > 0)
        s->last_byte_ns = tci_loop_now_ns(s->pi->rt->loop);
    if (is_direct) {
        s->part_got += *ret_n;
        return s->part_got == body_len(s) ? end_body(s, err) : 0;
    }
    s->len += *ret_n;
    return parse(s, err);
}

static void read_all(tci_pi_sess *s)
{
    tc_err err;
    for (int i = 0; i < READS_PER_TURN && s->end_err.code == TC_OK && !s->is_paused; i++) {
        size_t n = 0;
        int rc = read_some(s, &n, &err);
        if (rc == TC_E_END || rc == TC_E_CLOSED || rc == TC_E_IO) {
            tci_pi_sess_on_eof(s);
            return;
        }
        if (rc < 0) {
            tci_pi_sess_end_with(s, &err);
            return;
        }
        if (n == 0)
            return;
    }
}

void tci_pi_on_ready(tci_stream *stream, unsigned events)
{
    tci_pi_sess *s = stream->user;
    if ((events & TCI_WATCH_READ) != 0 && !s->is_eof)
        read_all(s);
    if ((events & TCI_WATCH_WRITE) != 0 && s->stream != NULL)
        tci_pi_write_out(s);
}
