/* SPDX-License-Identifier: Apache-2.0
 *
 * A device that has dialled in and says what the input says, while this side asks for information, directories,
 * metrics, a session, and the contents of a file. The input is messages: a kind ('t' text, 'b' binary: after the next
 * thing we said; 'T', 'B': at once), two bytes of length, the bytes; "@I" in them is the number of our last
 * request. Every call must come back, and the link end in good order. */
#include "base/buf.h"
#include "client/client.h"
#include "plat/clock.h"
#include "plat/thread.h"
#include <telechir/connections.h>

#include <stdatomic.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LATE_NS INT64_C(20000000)
enum { CALL_MS = 5000, HEAD = 3 };

typedef struct fake {
    tc_connections *connections;
    tc_ctx *ctx; /* of who uses the device: cancelled when it has gone */
    tci_mutex lock;
    tci_wake said; /* we were told something, or closed */
    tc_str script;
    unsigned nsaid, nheard; /* things we were told; of them answered */
    char id[24];            /* of the last request, as it is written */
    bool is_closed;
    tci_buf message;
} fake;

static tc_str subprotocol(void *user)
{
    TCI_UNUSED(user);
    return TC_STR(TC_WEBSOCKET_SUBPROTOCOL);
}

static void take_id(fake *f, tc_str text)
{
    size_t at = tci_str_find(text, TC_STR("\"id\":")), n = 0;
    for (at += 5; at < text.len && n + 1 < sizeof f->id; at++) {
        if (text.ptr[at] == ',' || text.ptr[at] == '}')
            break;
        f->id[n++] = text.ptr[at];
    }
    f->id[n] = '\0';
}

static int send_message(void *user, tc_message_kind kind, const tc_str *parts, size_t nparts,
                        tc_err *err)
{
    fake *f = user;
    tci_mutex_lock(&f->lock);
    bool is_closed = f->is_closed;
    if (kind == TC_MESSAGE_TEXT && nparts > 0)
        take_id(f, parts[0]);
    f->nsaid++;
    tci_mutex_unlock(&f->lock);
    tci_wake_all(&f->said);
    return is_closed ? tc_err_set(err, TC_E_CLOSED, "closed") : 0;
}

/* Until something is said to us, but not for long: a script may wait in vain. false: closed. */
static bool wait_for_word(fake *f)
{
    for (;;) {
        unsigned seen = tci_wake_count(&f->said);
        tci_mutex_lock(&f->lock);
        bool is_closed = f->is_closed, is_there = f->nsaid > f->nheard;
        tci_mutex_unlock(&f->lock);
        if (is_closed || is_there)
            return !is_closed;
        int64_t until_ns = tci_clock_mono_ns() + LATE_NS;
        tci_wake_wait(&f->said, seen, until_ns);
        if (tci_clock_mono_ns() >= until_ns)
            return true;
    }
}

static int receive(void *user, tc_message_kind *ret_kind, tc_str *ret_bytes, tc_err *err)
{
    fake *f = user;
    if (f->script.len < HEAD)
        return tc_err_set(err, TC_E_CLOSED, "no more");
    char kind = f->script.ptr[0];
    size_t len = (size_t)(uint8_t)f->script.ptr[1] << 8 | (uint8_t)f->script.ptr[2];
    tc_str text = tci_str_sub(f->script, HEAD, len);
    f->script = tci_str_sub(f->script, HEAD + len, SIZE_MAX);
    bool is_open = kind >= 'a' ? wait_for_word(f) : true;
    tci_mutex_lock(&f->lock);
    is_open = is_open && !f->is_closed;
    f->nheard = f->nsaid;
    tci_buf_clear(&f->message);
    for (size_t at; text.len > 0; text = tci_str_sub(text, at + 2, SIZE_MAX)) {
        at = tci_str_find(text, TC_STR("@I"));
        tci_buf_append_str(&f->message, tci_str_sub(text, 0, at));
        if (at == text.len)
            break;
        tci_buf_append_str(&f->message, tci_str(f->id));
    }
    tci_mutex_unlock(&f->lock);
    if (!is_open)
        return tc_err_set(err, TC_E_CLOSED, "closed");
    *ret_kind = (kind | 0x20) == 't' ? TC_MESSAGE_TEXT : TC_MESSAGE_BINARY;
    *ret_bytes = tci_buf_str(&f->message);
    return 0;
}

static void close_it(void *user, unsigned code, tc_str reason)
{
    fake *f = user;
    TCI_UNUSED(reason);
    if (code < 1000 || code > 1015)
        abort();
    tci_mutex_lock(&f->lock);
    f->is_closed = true;
    tci_mutex_unlock(&f->lock);
    tci_wake_all(&f->said);
}

static void wait_for_end(void *user)
{
    TCI_UNUSED(user);
}

static void attach(fake *f)
{
    tc_err err;
    const tc_socket socket = {.size = sizeof socket,
                              .user = f,
                              .subprotocol = subprotocol,
                              .receive = receive,
                              .send = send_message,
                              .close = close_it,
                              .wait = wait_for_end};
    if (tc_connections_attach(f->connections, NULL, TC_STR("device-1"), &socket, &err) < 0 &&
        err.msg[0] == '\0')
        abort();
    if (!f->is_closed)
        abort();
}

static void use_session(tc_device *device, const tc_call *call)
{
    tc_session *session;
    tc_session_info info;
    tc_file_info stat;
    tc_text_page text;
    tc_file_page files;
    tc_err err;
    if (tc_session_open(device, call->ctx, NULL, &session, &err) < 0)
        return;
    (void)!tc_session_describe(session, call, &info, &err);
    (void)!tc_session_stat(session, call, TC_STR("/x"), true, &stat, &err);
    (void)!tc_session_read_text(session, call, TC_STR("/x"), NULL, &text, &err);
    (void)!tc_session_list(session, call, TC_STR("/"), NULL, &files, &err);
    tc_session_detach(session);
}

/* As long as it answers. What it says is not believed: it may be an error. */
static void use(void *arg)
{
    fake *f = arg;
    tc_device *device;
    tc_result *result;
    tc_device_info info;
    tc_directory_page page;
    tc_device_metrics_info metrics;
    tc_err err;
    if (tc_result_new(&result, &err) < 0)
        abort();
    const tc_call call = {.size = sizeof call, .ctx = f->ctx, .result = result};
    if (tc_connections_wait(f->connections, f->ctx, TC_STR("device-1"), -1, &device, &err) == 0) {
        (void)!tc_device_describe(device, &call, &info, &err);
        (void)!tc_device_list_directory(device, &call, TC_STR("/"), 0, 10, &page, &err);
        (void)!tc_device_metrics(device, &call, &metrics, &err);
        use_session(device, &call);
        tc_device_close(device);
    }
    tc_result_free(result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tc_runtime *rt;
    static tc_connections *connections;
    tci_thread *user;
    tc_err err;
    if (size > 100000)
        return 0;
    if (rt == NULL && (tc_runtime_open(NULL, &rt, &err) < 0 ||
                       tc_connections_open(rt, NULL, &connections, &err) < 0))
        abort();
    fake f = {.connections = connections, .script = tci_str_of(data, size)};
    tci_mutex_init(&f.lock);
    tci_buf_init(&f.message, TCI_BUF_MAX);
    if (tc_ctx_new(CALL_MS, &f.ctx, &err) < 0 || tci_thread_new(use, &f, 0, &user, &err) < 0)
        abort();
    attach(&f);
    tc_ctx_cancel(f.ctx);
    tci_thread_join(user);
    tc_ctx_free(f.ctx);
    tci_buf_done(&f.message);
    tci_mutex_done(&f.lock);
    return 0;
}
