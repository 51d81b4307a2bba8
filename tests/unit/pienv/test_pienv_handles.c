/* SPDX-License-Identifier: Apache-2.0
 *
 * Open files and folders: numbers, limits, order, pages, and what waits without holding anybody up. */
#include "pienv_peer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static pi_peer p;

static int setup(void **state)
{
    (void)state;
    pi_peer_open(&p, false, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pi_peer_close(&p);
    return 0;
}

static void put(const char *path, const void *bytes, size_t len)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

static unsigned long long opens(const char *json)
{
    pi_frame *f = pi_peer_call(&p, "%s", json);
    unsigned long long h = pi_frame_u64(f, "handle");
    pi_frame_free(f);
    return h;
}

static void closes(unsigned long long h)
{
    pi_frame_free(pi_peer_call(&p, "{\"op\":\"close\",\"handle\":%llu}", h));
}

static void reads(const char *json, const char *bytes)
{
    pi_frame *f = pi_peer_call(&p, "%s", json);
    if (!tci_str_eq(f->payload, tci_str(bytes)))
        fail_msg("%s: '%.*s'", json, TC_STR_ARG(f->payload));
    pi_frame_free(f);
}

static void numbers_begin_at_one_and_are_never_used_again(void **state)
{
    (void)state;
    put("f", "hello world", 11);
    pi_frame *f = pi_peer_call(&p, "{\"op\":\"open\",\"path\":\"f\"}");
    assert_int_equal(pi_frame_u64(f, "handle"), 1);
    uint64_t size;
    assert_true(tci_json_as_u64(tci_json_get(pi_frame_get(f, "info"), TC_STR("size")), &size));
    assert_int_equal(size, 11);
    pi_frame_free(f);
    reads("{\"op\":\"pread\",\"handle\":1,\"offset\":0,\"length\":5}", "hello");
    reads("{\"op\":\"pread\",\"handle\":1,\"offset\":6,\"length\":100}", "world");
    reads("{\"op\":\"pread\",\"handle\":1,\"offset\":11,\"length\":4}", "");
    reads("{\"op\":\"pread\",\"handle\":1,\"offset\":50,\"length\":1}", "");
    reads("{\"op\":\"pread\",\"handle\":1,\"offset\":3,\"length\":0}", "");
    /* without an offset, and with one that is none */
    reads("{\"op\":\"pread\",\"handle\":1,\"length\":4}", "hell");
    reads("{\"op\":\"pread\",\"handle\":1,\"length\":4,\"offset\":-1}", "o wo");
    reads("{\"op\":\"pread\",\"handle\":1,\"length\":4,\"offset\":1.5}", "rld");
    reads("{\"op\":\"pread\",\"handle\":1,\"length\":4,\"offset\":\"0\"}", "");
    closes(1);
    closes(1);
    closes(4711);
    pi_peer_call_fails(&p, "EBADF", "{\"op\":\"pread\",\"handle\":1,\"length\":1}");
    pi_peer_call_fails(&p, "EBADF", "{\"op\":\"fstat\",\"handle\":1}");
    assert_int_equal(opens("{\"op\":\"open\",\"path\":\"f\"}"), 2);
    assert_int_equal(opens("{\"op\":\"opendir\",\"path\":\".\"}"), 3);
    assert_int_equal(opens("{\"op\":\"write\",\"path\":\"w\",\"keep\":true}"), 4);
    pi_peer_call_fails(&p, "EBADF", "{\"op\":\"readdir\",\"handle\":2,\"max\":1}");
    pi_peer_call_fails(&p, "EBADF", "{\"op\":\"pread\",\"handle\":3,\"length\":1}");
    pi_peer_call_fails(&p, "EBADF", "{\"op\":\"scanLines\",\"handle\":3,\"startLine\":0}");
    pi_peer_call_fails(&p, "EBADF", "{\"op\":\"writeChunk\",\"handle\":3}");
    pi_peer_call_fails(&p, "EBADF", "{\"op\":\"writeChunk\",\"handle\":99}");
    pi_peer_call_fails(&p, "EBADF", "{\"op\":\"readdir\",\"handle\":99,\"max\":1}");
}

static void a_reader_is_for_regular_files(void **state)
{
    (void)state;
    put("r", "x", 1);
    assert_int_equal(mkdir("rd", 0755), 0);
    assert_int_equal(mkfifo("rp", 0600), 0);
    assert_int_equal(symlink("r", "rl"), 0);
    assert_int_equal(symlink("rd", "rdl"), 0);
    put("rd/in", "y", 1);
    pi_peer_call_fails(&p, "EISDIR", "{\"op\":\"open\",\"path\":\"rd\"}");
    pi_peer_call_fails(&p, "NOT_REGULAR", "{\"op\":\"open\",\"path\":\"rp\"}");
    pi_peer_call_fails(&p, "NOT_REGULAR", "{\"op\":\"open\",\"path\":\"/dev/null\"}");
    pi_peer_call_fails(&p, "ENOENT", "{\"op\":\"open\",\"path\":\"rno\"}");
    pi_peer_call_fails(&p, "ENOTDIR", "{\"op\":\"open\",\"path\":\"r/x\"}");
    pi_peer_call_fails(&p, "SYMLINK", "{\"op\":\"open\",\"path\":\"rl\",\"noFollow\":true}");
    (void)opens("{\"op\":\"open\",\"path\":\"rl\"}");
    (void)opens("{\"op\":\"open\",\"path\":\"rdl/in\",\"noFollow\":true}");
    (void)opens("{\"op\":\"open\",\"path\":\"rl\",\"noFollow\":true,\"mode\":\"read\"}");
}

static void mode_read_opens_anything(void **state)
{
    (void)state;
    assert_int_equal(mkdir("ad", 0755), 0);
    unsigned long long h = opens("{\"op\":\"open\",\"path\":\"ad\",\"mode\":\"read\"}");
    pi_peer_call_fails(&p, "EISDIR", "{\"op\":\"pread\",\"handle\":%llu,\"length\":1}", h);
    h = opens("{\"op\":\"open\",\"path\":\"/dev/null\",\"mode\":\"read\"}");
    pi_frame *f = pi_peer_call(&p, "{\"op\":\"pread\",\"handle\":%llu,\"length\":10}", h);
    assert_int_equal(f->payload.len, 0);
    pi_frame_free(f);
    /* files that say they are empty, and are not */
    h = opens("{\"op\":\"open\",\"path\":\"/proc/self/status\",\"mode\":\"read\"}");
    f = pi_peer_call(&p, "{\"op\":\"pread\",\"handle\":%llu,\"length\":65536}", h);
    assert_true(f->payload.len > 0);
    pi_frame_free(f);
}

static void a_file_stays_open_when_its_name_goes(void **state)
{
    (void)state;
    put("old", "old", 3);
    unsigned long long h = opens("{\"op\":\"open\",\"path\":\"old\"}");
    pi_frame_free(pi_peer_call(&p, "{\"op\":\"rename\",\"path\":\"old\",\"to\":\"older\"}"));
    put("old", "new", 3);
    pi_frame *f =
        pi_peer_call(&p, "{\"op\":\"pread\",\"handle\":%llu,\"offset\":0,\"length\":9}", h);
    assert_true(tci_str_eq(f->payload, TC_STR("old")));
    pi_frame_free(f);
    f = pi_peer_call(&p, "{\"op\":\"fstat\",\"handle\":%llu}", h);
    assert_true(tci_str_eq(pi_frame_str(f, "name"), TC_STR("old")));
    assert_int_equal(pi_frame_u64(f, "size"), 3);
    pi_frame_free(f);
}

static void lines_of_an_open_file(void **state)
{
    static const char sample[] = "\xEF\xBB\xBF"
                                 "a\n\xE2\x82\n\n\xEF\xBB\xBF"
                                 "b\n\xC3\xA9";
    (void)state;
    put("lines", sample, 16);
    unsigned long long h = opens("{\"op\":\"open\",\"path\":\"lines\"}");
    pi_frame *f =
        pi_peer_call(&p, "{\"op\":\"scanLines\",\"handle\":%llu,\"startLine\":1,\"endLine\":3}", h);
    assert_string_equal(f->json,
                        "{\"end\":8,\"firstLineBytes\":3,\"firstLineEnd\":7,\"lastLineStart\":8,"
                        "\"newlines\":4,\"selectedBytes\":4,\"start\":5}");
    pi_frame_free(f);
    f = pi_peer_call(&p, "{\"op\":\"scanLines\",\"handle\":%llu,\"startLine\":0,\"endLine\":1.5}",
                     h);
    assert_int_equal(pi_frame_u64(f, "selectedBytes"), 14); /* to the end */
    pi_frame_free(f);
    pi_peer_call_fails(&p, "EINVAL",
                       "{\"op\":\"scanLines\",\"handle\":%llu,\"startLine\":2,\"endLine\":2}", h);
    pi_peer_call_fails(&p, "EINVAL", "{\"op\":\"scanLines\",\"handle\":%llu}", h);
    pi_peer_call_fails(&p, "EBADF", "{\"op\":\"scanLines\",\"handle\":99,\"startLine\":2}");
}

static void a_scan_can_be_aborted(void **state)
{
    (void)state;
    int fd = open("sparse", O_WRONLY | O_CREAT, 0644);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)1 << 40), 0);
    close(fd);
    unsigned long long h = opens("{\"op\":\"open\",\"path\":\"sparse\"}");
    uint32_t id = pi_peer_send(&p, "{\"op\":\"scanLines\",\"handle\":%llu,\"startLine\":0}", h);
    pi_peer_cancel(&p, id, true); /* a kill is for commands */
    pi_frame_free(pi_peer_call(&p, "{\"op\":\"fstat\",\"handle\":%llu}", h));
    assert_false(pi_peer_has(&p, id));
    pi_peer_cancel(&p, id, false);
    pi_frame *f = pi_peer_answer(&p, id);
    pi_frame_is_error(f, "aborted");
    pi_frame_free(f);
    assert_int_equal(unlink("sparse"), 0);
}

/* ---- chunks ---- */

static void chunks_are_written_in_the_order_they_come(void **state)
{
    enum { N = 200 };
    uint32_t ids[N];
    char expected[N * 4 + 1], text[16];
    (void)state;
    unsigned long long h = opens("{\"op\":\"write\",\"path\":\"order\",\"keep\":true}");
    for (int i = 0; i < N; i++) {
        (void)snprintf(text, sizeof text, "%03d ", i);
        memcpy(expected + i * 4, text, 4);
        ids[i] = pi_peer_send_with(&p, tci_str_of(text, 4),
                                   "{\"op\":\"writeChunk\",\"handle\":%llu}", h);
    }
    expected[sizeof expected - 1] = '\0';
    for (int i = 0; i < N; i++) {
        pi_frame *f = pi_peer_answer(&p, ids[i]);
        assert_int_equal(f->type, TCI_PIENV_RESULT);
        pi_frame_free(f);
    }
    closes(h);
    FILE *f = fopen("order", "r");
    char got[sizeof expected] = "";
    assert_int_equal(fread(got, 1, sizeof got, f), sizeof expected - 1);
    assert_int_equal(fclose(f), 0);
    assert_string_equal(got, expected);
}

/* /dev/full takes nothing: no chunk may follow one that was lost. */
static void after_a_failed_chunk_nothing_is_written(void **state)
{
    (void)state;
    unsigned long long h = opens("{\"op\":\"write\",\"path\":\"/dev/full\",\"keep\":true}");
    pi_frame *f = pi_peer_answer(
        &p, pi_peer_send_with(&p, TC_STR("x"), "{\"op\":\"writeChunk\",\"handle\":%llu}", h));
    pi_frame_is_error(f, "ENOSPC");
    pi_frame_free(f);
    f = pi_peer_answer(
        &p, pi_peer_send_with(&p, TC_STR("y"), "{\"op\":\"writeChunk\",\"handle\":%llu}", h));
    pi_frame_is_error(f, "EBADF");
    assert_true(tci_str_find(pi_frame_str(f, "message"), TC_STR("an earlier write failed")) <
                pi_frame_str(f, "message").len);
    pi_frame_free(f);
    f = pi_peer_answer(
        &p, pi_peer_send_with(&p, TC_STR("x"), "{\"op\":\"write\",\"path\":\"/dev/full\"}"));
    pi_frame_is_error(f, "ENOSPC");
    pi_frame_free(f);
}

/* ---- folders ---- */

static void pages_hold_every_entry_once(void **state)
{
    char name[64];
    unsigned seen[7] = {0}, pages = 0;
    bool done = false;
    (void)state;
    assert_int_equal(mkdir("pages", 0755), 0);
    for (int i = 0; i < 6; i++) {
        (void)snprintf(name, sizeof name, "pages/%d", i);
        put(name, "12345678", (size_t)i);
    }
    assert_int_equal(mkdir("pages/6", 0755), 0);
    unsigned long long h = opens("{\"op\":\"opendir\",\"path\":\"pages\"}");
    while (!done) {
        pi_frame *f = pi_peer_call(&p, "{\"op\":\"readdir\",\"handle\":%llu,\"max\":2}", h);
        const tci_json *entries = pi_frame_get(f, "entries");
        assert_non_null(entries);
        assert_true(entries->count <= 2);
        done = pi_frame_bool(f, "done");
        for (uint32_t i = 0; i < entries->count; i++) {
            tc_str text, kind;
            uint64_t size;
            const tci_json *info = tci_json_get(&entries->u.items[i], TC_STR("info"));
            assert_null(tci_json_get(&entries->u.items[i], TC_STR("raw")));
            assert_true(tci_json_as_str(tci_json_get(&entries->u.items[i], TC_STR("name")), &text));
            assert_true(tci_json_as_str(tci_json_get(info, TC_STR("kind")), &kind));
            assert_true(tci_json_as_u64(tci_json_get(info, TC_STR("size")), &size));
            unsigned n = (unsigned)(text.ptr[0] - '0');
            seen[n]++;
            assert_true(tci_str_eq(kind, n == 6 ? TC_STR("directory") : TC_STR("file")));
            assert_true(n == 6 || size == n);
        }
        pi_frame_free(f);
        assert_true(++pages < 10);
    }
    for (int i = 0; i < 7; i++)
        assert_int_equal(seen[i], 1);
    pi_frame *f = pi_peer_call(&p, "{\"op\":\"readdir\",\"handle\":%llu,\"max\":0}", h);
    assert_string_equal(f->json, "{\"done\":true,\"entries\":[]}");
    pi_frame_free(f);
    pi_peer_call_fails(&p, "ENOTDIR", "{\"op\":\"opendir\",\"path\":\"pages/1\"}");
    pi_peer_call_fails(&p, "ENOENT", "{\"op\":\"opendir\",\"path\":\"pages/none\"}");
}

/* A name that is no text comes with its bytes, and has no facts: they are asked for under the text. */
static void names_that_are_no_text_come_with_their_bytes(void **state)
{
    static const char *const names[] = {"62", "b1/\xff", "b1/\xC3\xA9", "b1/a\xfez", "b1/z"};
    int found = 0;
    (void)state;
    assert_int_equal(mkdir("b1", 0755), 0);
    for (size_t i = 1; i < TCI_ARRAY_LEN(names); i++)
        put(names[i], "", 0);
    unsigned long long h = opens("{\"op\":\"opendir\",\"path\":\"b1\"}");
    pi_frame *f = pi_peer_call(&p, "{\"op\":\"readdir\",\"handle\":%llu,\"max\":100}", h);
    const tci_json *entries = pi_frame_get(f, "entries");
    assert_int_equal(entries->count, 4);
    for (uint32_t i = 0; i < entries->count; i++) {
        const tci_json *e = &entries->u.items[i], *raw = tci_json_get(e, TC_STR("raw"));
        tc_str name, code, path;
        uint64_t byte;
        assert_true(tci_json_as_str(tci_json_get(e, TC_STR("name")), &name));
        if (raw == NULL) {
            assert_non_null(tci_json_get(e, TC_STR("info")));
            continue;
        }
        found++;
        const tci_json *error = tci_json_get(e, TC_STR("error"));
        assert_null(tci_json_get(e, TC_STR("info")));
        assert_true(tci_json_as_str(tci_json_get(error, TC_STR("code")), &code));
        assert_true(tci_json_as_str(tci_json_get(error, TC_STR("path")), &path));
        assert_true(tci_str_eq(code, TC_STR("ENOENT")));
        assert_true(tci_str_starts(path, TC_STR("b1/")));
        if (raw->count == 1) {
            assert_true(tci_str_eq(name, TC_STR("\xEF\xBF\xBD")));
            assert_true(tci_json_as_u64(&raw->u.items[0], &byte) && byte == 255);
        } else {
            assert_true(tci_str_eq(name, TC_STR("a\xEF\xBF\xBDz")));
            assert_int_equal(raw->count, 3);
            assert_true(tci_json_as_u64(&raw->u.items[1], &byte) && byte == 254);
        }
    }
    assert_int_equal(found, 2);
    pi_frame_free(f);
}

static void entries_that_vanish_have_an_error(void **state)
{
    (void)state;
    assert_int_equal(mkdir("v", 0755), 0);
    put("v/a", "", 0);
    unsigned long long h = opens("{\"op\":\"opendir\",\"path\":\"v\"}");
    assert_int_equal(unlink("v/a"), 0);
    pi_frame *f = pi_peer_call(&p, "{\"op\":\"readdir\",\"handle\":%llu,\"max\":9}", h);
    const tci_json *entries = pi_frame_get(f, "entries");
    for (uint32_t i = 0; i < entries->count; i++)
        assert_null(tci_json_get(&entries->u.items[i], TC_STR("info")));
    pi_frame_free(f);
    assert_int_equal(rmdir("v"), 0);
    f = pi_peer_call(&p, "{\"op\":\"readdir\",\"handle\":%llu,\"max\":9}", h);
    assert_true(pi_frame_bool(f, "done"));
    pi_frame_free(f);
}

/* ---- limits ---- */

static void at_most_4096_are_open(void **state)
{
    struct rlimit files;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    if (files.rlim_max != RLIM_INFINITY && files.rlim_max < 5000)
        skip(); /* this system does not let a process have that many */
    rlim_t before = files.rlim_cur;
    files.rlim_cur = 5000;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    put("limit", "x", 1);
    for (int i = 0; i < 4095; i++)
        (void)opens("{\"op\":\"open\",\"path\":\"limit\"}");
    assert_int_equal(opens("{\"op\":\"opendir\",\"path\":\".\"}"), 4096);
    pi_peer_call_fails(&p, "EMFILE", "{\"op\":\"open\",\"path\":\"limit\"}");
    pi_peer_call_fails(&p, "EMFILE", "{\"op\":\"opendir\",\"path\":\".\"}");
    pi_peer_call_fails(&p, "EMFILE", "{\"op\":\"write\",\"path\":\"limit-new\",\"keep\":true}");
    assert_int_equal(access("limit-new", F_OK), -1); /* nothing was written for it */
    pi_frame_free(pi_peer_call(&p, "{\"op\":\"write\",\"path\":\"limit-new\"}"));
    closes(7);
    assert_int_equal(opens("{\"op\":\"open\",\"path\":\"limit\"}"), 4097);
    files.rlim_cur = before;
    pi_peer_close(&p);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    pi_peer_open(&p, false, NULL);
}

/* ---- what waits ---- */

static void what_waits_for_ever_holds_nobody_up(void **state)
{
    enum { N = 40 };
    uint32_t ids[N];
    (void)state;
    assert_int_equal(mkfifo("pipe", 0600), 0);
    for (int i = 0; i < N; i++)
        ids[i] = pi_peer_send(&p, "{\"op\":\"open\",\"path\":\"pipe\",\"mode\":\"read\"}");
    pi_frame_free(pi_peer_call(&p, "{\"op\":\"write\",\"path\":\"beside\"}"));
    unsigned long long h = opens("{\"op\":\"open\",\"path\":\"beside\"}");
    pi_frame_free(pi_peer_call(&p, "{\"op\":\"scanLines\",\"handle\":%llu,\"startLine\":0}", h));
    pi_frame_free(pi_peer_call(&p, "{\"op\":\"rm\",\"path\":\"beside\"}"));
    uint32_t command = pi_peer_send(&p, "{\"op\":\"exec\",\"command\":\"sleep 60\",\"cwd\":\"/\"}");
    pi_peer_cancel(&p, command, false);
    pi_frame *f = pi_peer_answer(&p, command);
    pi_frame_is_error(f, "aborted");
    pi_frame_free(f);
    for (int i = 0; i < N; i++)
        assert_false(pi_peer_has(&p, ids[i]));
    int fd = open("pipe", O_WRONLY);
    assert_true(fd >= 0);
    for (int i = 0; i < N; i++) {
        f = pi_peer_answer(&p, ids[i]);
        assert_int_equal(f->type, TCI_PIENV_RESULT);
        ids[i] = (uint32_t)pi_frame_u64(f, "handle");
        pi_frame_free(f);
    }
    uint32_t read = pi_peer_send(&p, "{\"op\":\"pread\",\"handle\":%u,\"length\":10}", ids[0]);
    assert_false(pi_peer_has(&p, read));
    assert_int_equal(write(fd, "text", 4), 4);
    f = pi_peer_answer(&p, read);
    assert_true(tci_str_eq(f->payload, TC_STR("text")));
    pi_frame_free(f);
    pi_peer_call_fails(&p, "UNKNOWN", "{\"op\":\"pread\",\"handle\":%u,\"offset\":0,\"length\":1}",
                       ids[0]);
    close(fd);
    f = pi_peer_call(&p, "{\"op\":\"pread\",\"handle\":%u,\"length\":10}", ids[0]);
    assert_int_equal(f->payload.len, 0);
    pi_frame_free(f);
}

static void a_write_into_a_pipe_waits_for_its_reader(void **state)
{
    char got[16] = "";
    (void)state;
    assert_int_equal(mkfifo("out", 0600), 0);
    uint32_t id = pi_peer_send_with(&p, TC_STR("through"), "{\"op\":\"write\",\"path\":\"out\"}");
    pi_frame_free(pi_peer_call(&p, "{\"op\":\"lstat\",\"path\":\"out\"}"));
    assert_false(pi_peer_has(&p, id));
    int fd = open("out", O_RDONLY);
    assert_true(fd >= 0);
    pi_frame *f = pi_peer_answer(&p, id);
    assert_int_equal(f->type, TCI_PIENV_RESULT);
    pi_frame_free(f);
    assert_int_equal(read(fd, got, sizeof got), 7);
    assert_string_equal(got, "through");
    close(fd);
}

/* Many at once are answered each with its own bytes, also when the handle is closed right behind them. */
static void read_in_pieces(const char *path, const char *bytes, size_t size)
{
    enum { PIECE = 128 * 1024, PIECES = 40 };
    uint32_t ids[PIECES];
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), (ssize_t)size);
    close(fd);
    char open_it[300];
    (void)snprintf(open_it, sizeof open_it, "{\"op\":\"open\",\"path\":\"%s\"}", path);
    unsigned long long h = opens(open_it);
    for (unsigned i = 0; i < PIECES; i++)
        ids[i] =
            pi_peer_send(&p, "{\"op\":\"pread\",\"handle\":%llu,\"offset\":%llu,\"length\":%d}", h,
                         (unsigned long long)i * PIECE, PIECE);
    uint32_t closing = pi_peer_send(&p, "{\"op\":\"close\",\"handle\":%llu}", h);
    for (unsigned i = PIECES; i-- > 0;) {
        size_t at = (size_t)i * PIECE;
        size_t want = at >= size ? 0 : size - at < PIECE ? size - at : PIECE;
        pi_frame *f = pi_peer_answer(&p, ids[i]);
        assert_int_equal(f->type, TCI_PIENV_RESULT);
        assert_int_equal(f->payload.len, want);
        if (want > 0)
            assert_memory_equal(f->payload.ptr, bytes + at, want);
        pi_frame_free(f);
    }
    pi_frame_free(pi_peer_answer(&p, closing));
    unlink(path);
}

static void pieces_of_a_file_come_each_with_its_bytes(void **state)
{
    enum { SIZE = 4 * 1024 * 1024 + 77777 };
    char *bytes = malloc(SIZE);
    (void)state;
    assert_non_null(bytes);
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (char)(i * 31 ^ i >> 11);
    read_in_pieces("pieces", bytes, SIZE);
    char in_memory[64];
    (void)snprintf(in_memory, sizeof in_memory, "/dev/shm/telechir-pieces-%d", (int)getpid());
    if (access("/dev/shm", W_OK) == 0)
        read_in_pieces(in_memory, bytes, SIZE);
    free(bytes);
}

static void pieces_that_wait_end_with_the_connection(void **state)
{
    enum { PIECE = 128 * 1024 };
    (void)state;
    int fd = open("sparse", O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 64 * 1024 * 1024), 0);
    close(fd);
    unsigned long long h = opens("{\"op\":\"open\",\"path\":\"sparse\"}");
    for (unsigned i = 0; i < 400; i++)
        (void)pi_peer_send(&p, "{\"op\":\"pread\",\"handle\":%llu,\"offset\":%llu,\"length\":%d}",
                           h, (unsigned long long)i * PIECE, PIECE);
    /* teardown hangs up without having read them */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(numbers_begin_at_one_and_are_never_used_again, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_reader_is_for_regular_files, setup, teardown),
        cmocka_unit_test_setup_teardown(mode_read_opens_anything, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_stays_open_when_its_name_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(lines_of_an_open_file, setup, teardown),
        cmocka_unit_test_setup_teardown(a_scan_can_be_aborted, setup, teardown),
        cmocka_unit_test_setup_teardown(chunks_are_written_in_the_order_they_come, setup, teardown),
        cmocka_unit_test_setup_teardown(after_a_failed_chunk_nothing_is_written, setup, teardown),
        cmocka_unit_test_setup_teardown(pages_hold_every_entry_once, setup, teardown),
        cmocka_unit_test_setup_teardown(names_that_are_no_text_come_with_their_bytes, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(entries_that_vanish_have_an_error, setup, teardown),
        cmocka_unit_test_setup_teardown(at_most_4096_are_open, setup, teardown),
        cmocka_unit_test_setup_teardown(what_waits_for_ever_holds_nobody_up, setup, teardown),
        cmocka_unit_test_setup_teardown(a_write_into_a_pipe_waits_for_its_reader, setup, teardown),
        cmocka_unit_test_setup_teardown(pieces_of_a_file_come_each_with_its_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(pieces_that_wait_end_with_the_connection, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
