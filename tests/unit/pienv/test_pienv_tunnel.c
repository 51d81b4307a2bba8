/* SPDX-License-Identifier: Apache-2.0
 *
 * An EIP device behind the connection: it answers, keeps within its window, and leaves nothing. */
#include "pienv_peer.h"

#include "base/num.h"
#include "plat/proc.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static pi_peer p;
static tci_buf received; /* bytes of the stream */
static uint64_t uncredited;
static char top[4000], folder[4096]; /* the second holds temporary files */

static int setup(void **state)
{
    (void)state;
    assert_non_null(getcwd(top, sizeof top));
    (void)snprintf(folder, sizeof folder, "%s/tmp", top);
    (void)mkdir(folder, 0700);
    assert_int_equal(setenv("TMPDIR", folder, 1), 0);
    tci_buf_init(&received, TCI_BUF_MAX);
    uncredited = 0;
    pi_peer_open(&p, true, NULL);
    return 0;
}

static unsigned entries(void)
{
    unsigned n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

static int teardown(void **state)
{
    (void)state;
    if (!p.has_ended) {
        assert_int_equal(pi_peer_finish(&p), TCI_PI_END_EOF);
        assert_true(p.was_clean);
    }
    assert_int_equal(entries(), 0);
    pi_peer_close(&p);
    tci_buf_done(&received);
    return 0;
}

static void send_bytes(const char *note, tc_str bytes)
{
    pi_peer_send_frame(&p, TCI_PIENV_TUNNEL, 0, tci_str(note), bytes);
}

/* true: the device has closed the stream. */
static bool take_frame(void)
{
    pi_frame *f = pi_peer_next_of(&p, TCI_PIENV_TUNNEL);
    const tci_json *close = pi_frame_get(f, "close");
    bool is_closed = close != NULL && close->kind == TCI_JSON_TRUE;
    tci_buf_append_str(&received, f->payload);
    uncredited += f->payload.len;
    pi_frame_free(f);
    return is_closed;
}

static void credit(void)
{
    char note[64];
    (void)snprintf(note, sizeof note, "{\"credit\":%llu}", (unsigned long long)uncredited);
    uncredited = 0;
    send_bytes(note, TC_STR(""));
}

static void ask(const char *json)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_printf(&b, "Content-Length: %zu\r\n\r\n%s", strlen(json), json);
    send_bytes("{}", tci_buf_str(&b));
    tci_buf_done(&b);
}

/* The body of the next answer; the caller frees it. */
static char *answer(void)
{
    tc_err err;
    for (;;) {
        tc_str text = tci_buf_str(&received), end = TC_STR("\r\n\r\n");
        size_t at = tci_str_find(text, end);
        uint64_t len = 0;
        if (at < text.len) {
            tc_str head = tci_str_sub(text, 0, at), name = TC_STR("Content-Length:");
            size_t from = tci_str_find(head, name) + name.len;
            tc_str value = tci_str_sub(head, from, head.len);
            value = tci_str_trim(tci_str_sub(value, 0, tci_str_find_byte(value, '\r')));
            assert_int_equal(tci_num_u64(value, &len, &err), 0);
            if (text.len - at - end.len >= len) {
                char *body = tci_mem_cstr(tci_str_sub(text, at + end.len, (size_t)len));
                assert_non_null(body);
                tci_buf_consume(&received, at + end.len + (size_t)len);
                return body;
            }
        }
        assert_false(take_frame());
        credit();
    }
}

static char *call(const char *json)
{
    ask(json);
    return answer();
}

static bool text_of(const char *json, const char *key, char *out, size_t cap)
{
    char quoted[64];
    (void)snprintf(quoted, sizeof quoted, "\"%s\":\"", key);
    const char *at = strstr(json, quoted);
    if (at == NULL)
        return false;
    at += strlen(quoted);
    (void)snprintf(out, cap, "%.*s", (int)strcspn(at, "\""), at);
    return true;
}

static unsigned long long generation_of(const char *json)
{
    tc_err err;
    uint64_t n;
    const char *at = strstr(json, "\"generation\":");
    assert_non_null(at);
    at += strlen("\"generation\":");
    assert_int_equal(tci_num_u64(tci_str_of(at, strspn(at, "0123456789")), &n, &err), 0);
    return n;
}

/* initialize and session.open; the session's id into id. */
static void open_session(char *id, size_t cap)
{
    char device[128], text[512];
    char *a = call("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{"
                   "\"supported_protocol_versions\":[\"0.3\"],\"client\":{\"name\":\"t\","
                   "\"version\":\"1\"}}}");
    assert_true(text_of(a, "device_id", device, sizeof device));
    (void)snprintf(
        text, sizeof text,
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"session.open\",\"params\":{"
        "\"expected_device_id\":\"%s\",\"expected_generation\":%llu,\"protocol_version\":\"0.3\"}}",
        device, generation_of(a));
    tci_free(a);
    a = call(text);
    assert_true(text_of(a, "session_id", id, cap));
    tci_free(a);
    (void)snprintf(text, sizeof text,
                   "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"environment.readiness\",\"params\":{"
                   "\"context\":{\"operation_id\":\"r\"}},\"eip_session\":\"%s\"}",
                   id);
    tci_free(call(text));
}

static char *shell(const char *session, const char *op, const char *script)
{
    char text[2048];
    (void)snprintf(
        text, sizeof text,
        "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"shell.exec\",\"params\":{\"context\":{"
        "\"operation_id\":\"%s\"},\"request\":{\"command\":{\"kind\":\"shell\",\"profile_id\":"
        "\"default\",\"script\":\"%s\"}}},\"eip_session\":\"%s\"}",
        op, script, session);
    return call(text);
}

static void a_device_answers_and_goes_with_the_tunnel(void **state)
{
    char session[128];
    (void)state;
    assert_int_equal(entries(), 0); /* nothing is made before it is asked for */
    send_bytes("{\"open\":true}", TC_STR(""));
    open_session(session, sizeof session);
    assert_int_equal(entries(), 1);
    char *a = shell(session, "one", "echo from the tunnel");
    assert_true(strstr(a, "\"error\"") == NULL);
    tci_free(a);
    pi_frame_free(pi_peer_call(&p, "{\"op\":\"lstat\",\"path\":\"/\"}"));
    send_bytes("{\"close\":true}", TC_STR(""));
    while (!take_frame())
        continue;
    assert_int_equal(entries(), 0);
    /* and again */
    tci_buf_clear(&received);
    send_bytes("{\"open\":true}", TC_STR(""));
    open_session(session, sizeof session);
    assert_int_equal(entries(), 1);
}

static void the_end_of_the_connection_ends_its_commands(void **state)
{
    char session[128];
    (void)state;
    send_bytes("{\"open\":true}", TC_STR(""));
    open_session(session, sizeof session);
    pi_frame_free(pi_peer_call(&p, "{\"op\":\"exec\",\"command\":\"true\",\"cwd\":\"/\"}"));
    char text[16384], pid_file[4200];
    (void)snprintf(pid_file, sizeof pid_file, "%s/tunnel-pid", top);
    (void)remove(pid_file);
    (void)snprintf(
        text, sizeof text,
        "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"shell.exec\",\"params\":{\"context\":{"
        "\"operation_id\":\"long\"},\"request\":{\"command\":{\"kind\":\"shell\",\"profile_id\":"
        "\"default\",\"script\":\"echo $$ > %s.new; mv %s.new %s; sleep 600\"}}},"
        "\"eip_session\":\"%s\"}",
        pid_file, pid_file, pid_file, session);
    ask(text);
    FILE *f = NULL;
    for (int i = 0; i < 6000 && (f = fopen(pid_file, "r")) == NULL; i++)
        pi_peer_turn(&p, 10);
    assert_non_null(f);
    int pid = 0;
    assert_int_equal(fscanf(f, "%d", &pid), 1);
    assert_int_equal(fclose(f), 0);
    tci_proc_stat st;
    assert_true(tci_proc_stat_read(pid, &st));
    assert_int_equal(pi_peer_finish(&p), TCI_PI_END_EOF);
    assert_false(tci_proc_stat_read(pid, &st) && st.state != 'Z');
}

/* Without credit it stops at the window, and goes on when there is some. */
static void nothing_is_sent_beyond_the_window(void **state)
{
    char session[128];
    (void)state;
    send_bytes("{\"open\":true}", TC_STR(""));
    open_session(session, sizeof session);
    credit();
    /* Answers of 100 KiB each, asked for all at once and not credited. */
    char path[4200], text[16384];
    (void)snprintf(path, sizeof path, "%s/tunnel-big", top);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < 100 * 1024; i++)
        assert_true(fputc(i % 80 == 79 ? '\n' : 'x', f) != EOF);
    assert_int_equal(fclose(f), 0);
    enum { N = 100 };
    for (int i = 0; i < N; i++) {
        (void)snprintf(
            text, sizeof text,
            "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"file.read_text\",\"params\":{\"context\":{"
            "\"operation_id\":\"read-%d\"},\"path\":{\"path\":\"%s\"},\"line_offset\":0,\"line_"
            "limit\":100000,\"max_line_length\":2000},\"eip_session\":\"%s\"}",
            100 + i, i, path, session);
        ask(text);
    }
    uint64_t before = 0;
    for (int quiet = 0; quiet < 50 || before + uncredited <= TCI_PIENV_TUNNEL_WINDOW / 2;) {
        pi_peer_turn(&p, 5);
        uint64_t n = 0;
        for (const pi_frame *at = p.frames; at != NULL; at = at->next)
            n += at->type == TCI_PIENV_TUNNEL ? at->payload.len : 0;
        quiet = n == before ? quiet + 1 : 0;
        before = n;
    }
    assert_true(before + uncredited <= TCI_PIENV_TUNNEL_WINDOW);
    for (int i = 0; i < N; i++)
        tci_free(answer());
}

static void more_than_the_window_is_refused(void **state)
{
    enum { LEN = 600 * 1024 };
    char *bytes = tci_mem_alloc(LEN);
    (void)state;
    assert_non_null(bytes);
    memset(bytes, 'x', LEN);
    send_bytes("{\"open\":true}", TC_STR("Content-Length: 9000000\r\n\r\n"));
    /* Both arrive before the device reads: more than it has allowed. */
    pi_peer_send_frame(&p, TCI_PIENV_TUNNEL, 0, TC_STR("{}"), tci_str_of(bytes, LEN));
    pi_peer_send_frame(&p, TCI_PIENV_TUNNEL, 0, TC_STR("{}"), tci_str_of(bytes, LEN));
    pi_peer_send_frame(&p, TCI_PIENV_TUNNEL, 0, TC_STR("{\"close\":true}"), TC_STR(""));
    while (!take_frame())
        continue;
    pi_frame_free(pi_peer_call(&p, "{\"op\":\"lstat\",\"path\":\"/\"}"));
    tci_free(bytes);
}

static void odd_frames_do_no_harm(void **state)
{
    (void)state;
    send_bytes("{\"credit\":18446744073709551615}", TC_STR("bytes of nothing"));
    send_bytes("{\"close\":true}", TC_STR(""));
    send_bytes("no JSON", TC_STR("x"));
    send_bytes("{\"open\":true}", TC_STR(""));
    send_bytes("{\"open\":true,\"credit\":18446744073709551615}", TC_STR(""));
    send_bytes("{}", TC_STR("this is no frame\r\n\r\n"));
    while (!take_frame())
        continue;
    pi_frame_free(pi_peer_call(&p, "{\"op\":\"lstat\",\"path\":\"/\"}"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_device_answers_and_goes_with_the_tunnel, setup, teardown),
        cmocka_unit_test_setup_teardown(the_end_of_the_connection_ends_its_commands, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(nothing_is_sent_beyond_the_window, setup, teardown),
        cmocka_unit_test_setup_teardown(more_than_the_window_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(odd_frames_do_no_harm, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
