/* SPDX-License-Identifier: Apache-2.0
 *
 * The event stream parser. Leaves reconnecting and ids to nobody: the streams it reads are answers, read
 * once. Invariant: line holds the bytes since the last line end, and nothing of them was interpreted. */
#include "wire/sse.h"

void tci_sse_init(tci_sse *s, tci_sse_fn on_event, void *user)
{
    *s = (tci_sse){.on_event = on_event, .user = user};
    tci_buf_init(&s->line, TCI_SSE_EVENT_MAX);
    tci_buf_init(&s->data, TCI_SSE_EVENT_MAX);
    tci_buf_init(&s->name, 256);
}

void tci_sse_done(tci_sse *s)
{
    tci_buf_done(&s->line);
    tci_buf_done(&s->data);
    tci_buf_done(&s->name);
}

/* A blank line: the event is complete. One without data is dropped. */
static int dispatch(tci_sse *s, tc_err *err)
{
    int rc = 0;
    if (s->has_data)
        rc = s->on_event(s->user, tci_buf_str(&s->name), tci_buf_str(&s->data), err);
    tci_buf_clear(&s->data);
    tci_buf_clear(&s->name);
    s->has_data = false;
    return rc;
}

static int field(tci_sse *s, tc_str line, tc_err *err)
{
    size_t colon = tci_str_find_byte(line, ':');
    tc_str name = tci_str_sub(line, 0, colon), value = tci_str_sub(line, colon + 1, line.len);
    if (value.len > 0 && value.ptr[0] == ' ')
        value = tci_str_sub(value, 1, value.len);
    if (tci_str_eq(name, TC_STR("event"))) {
        tci_buf_clear(&s->name);
        tci_buf_append_str(&s->name, value);
        return tci_buf_error(&s->name, err);
    }
    if (tci_str_eq(name, TC_STR("data"))) {
        if (s->has_data)
            tci_buf_append_byte(&s->data, '\n');
        tci_buf_append_str(&s->data, value);
        s->has_data = true;
        return tci_buf_error(&s->data, err);
    }
    return 0;
}

static int end_line(tci_sse *s, tc_str last_part, tc_err *err)
{
    tc_str line = last_part;
    if (s->line.len > 0) {
        tci_buf_append_str(&s->line, last_part);
        if (tci_buf_error(&s->line, err) < 0)
            return err->code;
        line = tci_buf_str(&s->line);
    }
    if (!s->has_begun && tci_str_starts(line, TC_STR("\xef\xbb\xbf")))
        line = tci_str_sub(line, 3, line.len);
    s->has_begun = true;
    int rc = line.len == 0 ? dispatch(s, err) : field(s, line, err);
    tci_buf_clear(&s->line);
    return rc;
}

int tci_sse_feed(tci_sse *s, tc_str bytes, tc_err *err)
{
    while (bytes.len > 0) {
        if (s->after_cr && bytes.ptr[0] == '\n') {
            s->after_cr = false;
            bytes = tci_str_sub(bytes, 1, bytes.len);
            continue;
        }
        s->after_cr = false;
        size_t at = 0;
        while (at < bytes.len && bytes.ptr[at] != '\n' && bytes.ptr[at] != '\r')
            at++;
        if (at == bytes.len) {
            tci_buf_append_str(&s->line, bytes);
            return tci_buf_error(&s->line, err);
        }
        s->after_cr = bytes.ptr[at] == '\r';
        if (end_line(s, tci_str_sub(bytes, 0, at), err) < 0)
            return err->code;
        bytes = tci_str_sub(bytes, at + 1, bytes.len);
    }
    return 0;
}
