/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations on paths: what they do, and by which code they say what is wrong. Paths are relative to the
 * test's own folder, which the server takes from its own. */
#include "pienv_peer.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- a world ---- */

static pi_peer p;
static char top[4096], world[32];
static int nworlds;

static int setup(void **state)
{
    (void)state;
    (void)snprintf(world, sizeof world, "world-%d", nworlds++);
    assert_int_equal(chdir(top), 0);
    assert_int_equal(mkdir(world, 0755), 0);
    assert_int_equal(chdir(world), 0);
    pi_peer_open(&p, true, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_int_equal(pi_peer_finish(&p), TCI_PI_END_EOF);
    assert_true(p.was_clean);
    pi_peer_close(&p);
    return 0;
}

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void has(const char *path, const char *text)
{
    char buf[256];
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t n = fread(buf, 1, sizeof buf - 1, f);
    assert_int_equal(fclose(f), 0);
    buf[n] = '\0';
    assert_string_equal(buf, text);
}

static bool exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static unsigned mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    return st.st_mode & 07777;
}

static void folder(const char *path)
{
    assert_int_equal(mkdir(path, 0755), 0);
}

static void works(const char *json)
{
    pi_frame_free(pi_peer_call(&p, "%s", json));
}

/* The whole error: code, call and path. */
static void fails(const char *json, const char *code, const char *syscall, const char *path)
{
    pi_frame *f = pi_peer_answer(&p, pi_peer_send(&p, "%s", json));
    pi_frame_is_error(f, code);
    assert_true(pi_frame_str(f, "message").len > 0);
    if (syscall != NULL && !tci_str_eq(pi_frame_str(f, "syscall"), tci_str(syscall)))
        fail_msg("%s", f->json);
    if (path != NULL && !tci_str_eq(pi_frame_str(f, "path"), tci_str(path)))
        fail_msg("%s", f->json);
    pi_frame_free(f);
}

static pi_frame *write_it(const char *json, const char *text)
{
    pi_frame *f = pi_peer_answer(&p, pi_peer_send_with(&p, tci_str(text), "%s", json));
    return f;
}

static void writes(const char *json, const char *text)
{
    pi_frame *f = write_it(json, text);
    if (f->type != TCI_PIENV_RESULT)
        fail_msg("%s", f->json);
    pi_frame_free(f);
}

/* ---- facts ---- */

static void facts_are_those_of_the_system(void **state)
{
    struct stat st;
    (void)state;
    put("f", "12345");
    folder("d");
    assert_int_equal(symlink("f", "l"), 0);
    assert_int_equal(mkfifo("p", 0600), 0);
    pi_frame *f = pi_peer_call(&p, "{\"op\":\"lstat\",\"path\":\"f\"}");
    assert_int_equal(lstat("f", &st), 0);
    assert_int_equal(pi_frame_u64(f, "size"), 5);
    assert_int_equal(pi_frame_u64(f, "mtimeSec"), (uint64_t)st.st_mtim.tv_sec);
    assert_int_equal(pi_frame_u64(f, "mtimeNsec"), (uint64_t)st.st_mtim.tv_nsec);
    assert_int_equal(pi_frame_u64(f, "dev"), st.st_dev);
    assert_int_equal(pi_frame_u64(f, "ino"), st.st_ino);
    assert_int_equal(pi_frame_u64(f, "mode"), st.st_mode & 07777);
    assert_true(tci_str_eq(pi_frame_str(f, "kind"), TC_STR("file")));
    assert_true(tci_str_eq(pi_frame_str(f, "name"), TC_STR("f")));
    pi_frame_free(f);
    static const struct {
        const char *path, *kind, *name;
    } rows[] = {{"d", "directory", "d"},   {"l", "symlink", "l"},    {"p", "other", "p"},
                {"/", "directory", ""},    {".", "directory", ""},   {"d/", "directory", "d"},
                {"d/.", "directory", "d"}, {"d/..", "directory", ""}};
    for (size_t i = 0; i < TCI_ARRAY_LEN(rows); i++) {
        f = pi_peer_call(&p, "{\"op\":\"lstat\",\"path\":\"%s\"}", rows[i].path);
        assert_true(tci_str_eq(pi_frame_str(f, "kind"), tci_str(rows[i].kind)));
        assert_true(tci_str_eq(pi_frame_str(f, "name"), tci_str(rows[i].name)));
        pi_frame_free(f);
    }
    f = pi_peer_call(&p, "{\"op\":\"lstat\",\"path\":\"l\",\"follow\":true}");
    assert_true(tci_str_eq(pi_frame_str(f, "kind"), TC_STR("file")));
    pi_frame_free(f);
}

static void times_before_1970_are_negative(void **state)
{
    int64_t sec;
    (void)state;
    put("old", "");
    struct timespec times[2] = {{.tv_sec = -10, .tv_nsec = 5}, {.tv_sec = -10, .tv_nsec = 5}};
    assert_int_equal(utimensat(AT_FDCWD, "old", times, 0), 0);
    pi_frame *f = pi_peer_call(&p, "{\"op\":\"lstat\",\"path\":\"old\"}");
    assert_true(tci_json_as_i64(pi_frame_get(f, "mtimeSec"), &sec));
    assert_int_equal(sec, -10);
    assert_int_equal(pi_frame_u64(f, "mtimeNsec"), 5);
    pi_frame_free(f);
}

static void missing_things_have_their_codes(void **state)
{
    (void)state;
    put("f", "");
    assert_int_equal(symlink("b", "a"), 0);
    assert_int_equal(symlink("a", "b"), 0);
    fails("{\"op\":\"lstat\",\"path\":\"no\"}", "ENOENT", "lstat", "no");
    fails("{\"op\":\"lstat\",\"path\":\"f/x\"}", "ENOTDIR", "lstat", "f/x");
    fails("{\"op\":\"lstat\",\"path\":\"a/x\"}", "ELOOP", "lstat", "a/x");
    fails("{\"op\":\"lstat\",\"path\":\"\"}", "ENOENT", "lstat", "");
    fails("{\"op\":\"lstat\",\"path\":\"x\\u0000y\"}", "UNKNOWN", "lstat", NULL);
    fails("{\"op\":\"realpath\",\"path\":\"no\"}", "ENOENT", "realpath", "no");
    fails("{\"op\":\"realpath\",\"path\":\"a\"}", "ELOOP", "realpath", "a");
    fails("{\"op\":\"realpath\",\"path\":\"x\\u0000y\"}", "UNKNOWN", "realpath", NULL);
    fails("{\"op\":\"mkdtemp\",\"path\":\"x\\u0000y\"}", "EINVAL", "mkdtemp", NULL);
    fails("{\"op\":\"write\",\"path\":\"x\\u0000y\"}", "UNKNOWN", "open", NULL);
    fails("{\"op\":\"open\",\"path\":\"x\\u0000y\"}", "UNKNOWN", "open", NULL);
    fails("{\"op\":\"opendir\",\"path\":\"x\\u0000y\"}", "UNKNOWN", "opendir", NULL);
    fails("{\"op\":\"rename\",\"path\":\"x\\u0000y\",\"to\":\"z\"}", "UNKNOWN", "rename", NULL);
    fails("{\"op\":\"rm\",\"path\":\"x\\u0000y\",\"force\":true}", "UNKNOWN", "lstat", NULL);
    char json[400], name[300];
    memset(name, 'n', 299);
    name[299] = '\0';
    (void)snprintf(json, sizeof json, "{\"op\":\"lstat\",\"path\":\"%s\"}", name);
    fails(json, "ENAMETOOLONG", "lstat", NULL);
}

static void the_message_names_call_and_path(void **state)
{
    (void)state;
    pi_frame *f = pi_peer_answer(&p, pi_peer_send(&p, "{\"op\":\"lstat\",\"path\":\"/x-y\"}"));
    assert_true(tci_str_eq(pi_frame_str(f, "message"),
                           TC_STR("ENOENT: no such file or directory, lstat '/x-y'")));
    pi_frame_free(f);
    f = pi_peer_answer(&p, pi_peer_send(&p, "{\"op\":\"rename\",\"path\":\"/x-y\",\"to\":\"/z\"}"));
    assert_true(tci_str_eq(pi_frame_str(f, "message"),
                           TC_STR("ENOENT: no such file or directory, rename '/x-y' -> '/z'")));
    assert_true(tci_str_eq(pi_frame_str(f, "path"), TC_STR("/x-y")));
    pi_frame_free(f);
}

static void realpath_goes_through_links(void **state)
{
    char real[4096];
    (void)state;
    folder("d");
    assert_int_equal(symlink("d", "l"), 0);
    assert_non_null(realpath("d", real));
    pi_frame *f = pi_peer_call(&p, "{\"op\":\"realpath\",\"path\":\"l/../l\"}");
    assert_true(tci_str_eq(pi_frame_str(f, "path"), tci_str(real)));
    pi_frame_free(f);
}

/* ---- write ---- */

static void write_truncates_appends_and_makes_parents(void **state)
{
    (void)state;
    mode_t before = umask(027);
    writes("{\"op\":\"write\",\"path\":\"a/b/c\"}", "one");
    umask(before);
    has("a/b/c", "one");
    assert_int_equal(mode_of("a/b/c"), 0640);
    assert_int_equal(mode_of("a"), 0750);
    writes("{\"op\":\"write\",\"path\":\"a/b/c\",\"append\":true}", " two");
    has("a/b/c", "one two");
    writes("{\"op\":\"write\",\"path\":\"a/b/c\"}", "3");
    has("a/b/c", "3");
    writes("{\"op\":\"write\",\"path\":\"a/b/c\"}", "");
    has("a/b/c", "");
    writes("{\"op\":\"write\",\"path\":\"new\",\"append\":true}", "n");
    has("new", "n");
    fails("{\"op\":\"write\",\"path\":\"m/f\",\"parents\":false}", "ENOENT", "open", "m/f");
    assert_false(exists("m"));
    fails("{\"op\":\"write\",\"path\":\"a\"}", "EISDIR", "open", "a");
}

static void what_is_in_the_way_is_told(void **state)
{
    (void)state;
    put("f", "");
    assert_int_equal(symlink("nowhere", "dangling"), 0);
    fails("{\"op\":\"write\",\"path\":\"f/x\"}", "EEXIST", "mkdir", "f");
    fails("{\"op\":\"write\",\"path\":\"f/x/y\"}", "ENOTDIR", "mkdir", "f/x");
    fails("{\"op\":\"write\",\"path\":\"f/x\",\"parents\":false}", "ENOTDIR", "open", "f/x");
    fails("{\"op\":\"write\",\"path\":\"dangling/x\"}", "EEXIST", "mkdir", "dangling");
    fails("{\"op\":\"write\",\"path\":\"dangling/x/y\"}", "ENOTDIR", "mkdir", "dangling/x");
    fails("{\"op\":\"mkdir\",\"path\":\"f\",\"recursive\":true}", "EEXIST", "mkdir", "f");
    fails("{\"op\":\"mkdir\",\"path\":\"f/x\",\"recursive\":true}", "ENOTDIR", "mkdir", "f/x");
    fails("{\"op\":\"mkdir\",\"path\":\"f/x/y\",\"recursive\":true}", "ENOTDIR", "mkdir", NULL);
    fails("{\"op\":\"mkdir\",\"path\":\"dangling\",\"recursive\":true}", "EEXIST", "mkdir",
          "dangling");
    fails("{\"op\":\"mkdir\",\"path\":\"dangling/x\",\"recursive\":true}", "ENOTDIR", "mkdir",
          NULL);
    writes("{\"op\":\"write\",\"path\":\"dangling\"}", "through"); /* the link's own target */
    has("nowhere", "through");
}

/* Written in chunks, then appended to; read back whole and in a range. */
static void large_content_survives(void **state)
{
    enum { TOTAL = 3500017, CHUNK = 512 * 1024 };
    char *bytes = malloc(TOTAL);
    (void)state;
    assert_non_null(bytes);
    for (size_t i = 0; i < TOTAL; i++)
        bytes[i] = (char)(i * 31 + i / 977);
    for (int pass = 0; pass < 2; pass++) {
        uint32_t ids[16], n = 0;
        pi_frame *f = pi_peer_answer(
            &p, pi_peer_send_with(&p, tci_str_of(bytes, CHUNK),
                                  "{\"op\":\"write\",\"path\":\"big\",\"append\":%s,\"keep\":true}",
                                  pass == 0 ? "false" : "true"));
        assert_int_equal(f->type, TCI_PIENV_RESULT);
        unsigned long long h = pi_frame_u64(f, "handle");
        pi_frame_free(f);
        for (size_t at = CHUNK; at < TOTAL; at += CHUNK) {
            size_t len = TOTAL - at < CHUNK ? TOTAL - at : CHUNK;
            ids[n++] = pi_peer_send_with(&p, tci_str_of(bytes + at, len),
                                         "{\"op\":\"writeChunk\",\"handle\":%llu}", h);
        }
        for (uint32_t i = 0; i < n; i++) {
            f = pi_peer_answer(&p, ids[i]);
            assert_int_equal(f->type, TCI_PIENV_RESULT);
            pi_frame_free(f);
        }
        pi_frame_free(pi_peer_call(&p, "{\"op\":\"close\",\"handle\":%llu}", h));
    }
    pi_frame *f = pi_peer_call(&p, "{\"op\":\"open\",\"path\":\"big\",\"mode\":\"read\"}");
    unsigned long long h = pi_frame_u64(f, "handle");
    pi_frame_free(f);
    f = pi_peer_call(&p, "{\"op\":\"pread\",\"handle\":%llu,\"offset\":0,\"length\":16777216}", h);
    assert_int_equal(f->payload.len, 2 * TOTAL);
    assert_memory_equal(f->payload.ptr, bytes, TOTAL);
    assert_memory_equal(f->payload.ptr + TOTAL, bytes, TOTAL);
    pi_frame_free(f);
    f = pi_peer_call(&p, "{\"op\":\"pread\",\"handle\":%llu,\"offset\":1000003,\"length\":2000000}",
                     h);
    assert_int_equal(f->payload.len, 2000000);
    assert_memory_equal(f->payload.ptr, bytes + 1000003, 2000000);
    pi_frame_free(f);
    free(bytes);
}

/* ---- atomic ---- */

static unsigned entries_here(void)
{
    unsigned n = 0;
    DIR *d = opendir(".");
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        n += e->d_name[0] != '.' || e->d_name[1] == 'e';
    closedir(d);
    return n;
}

static void an_atomic_write_replaces_and_keeps_mode_and_link(void **state)
{
    (void)state;
    mode_t before = umask(022);
    pi_frame *f = write_it("{\"op\":\"write\",\"path\":\"sub/f\",\"atomic\":true}", "one");
    umask(before);
    assert_int_equal(f->type, TCI_PIENV_RESULT);
    assert_non_null(pi_frame_get(f, "info"));
    pi_frame_free(f);
    has("sub/f", "one");
    assert_int_equal(mode_of("sub/f"), 0644);
    assert_int_equal(chmod("sub/f", 0711), 0);
    assert_int_equal(symlink("sub/f", "l"), 0);
    writes("{\"op\":\"write\",\"path\":\"l\",\"atomic\":true,\"sync\":true}", "two");
    has("sub/f", "two");
    assert_int_equal(mode_of("sub/f"), 0711);
    struct stat st;
    assert_int_equal(lstat("l", &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(symlink("sub/fresh", "new-link"), 0);
    writes("{\"op\":\"write\",\"path\":\"new-link\",\"atomic\":true,\"mode\":416}", "three");
    has("sub/fresh", "three");
    assert_int_equal(mode_of("sub/fresh"), 0640);
    writes("{\"op\":\"write\",\"path\":\"sub/fresh\",\"atomic\":true,\"executable\":true}", "x");
    assert_int_equal(mode_of("sub/fresh"), 0750);
    writes("{\"op\":\"write\",\"path\":\"sub/fresh\",\"atomic\":true,\"executable\":false}", "y");
    assert_int_equal(mode_of("sub/fresh"), 0640);
    writes("{\"op\":\"write\",\"path\":\"sub/fresh\",\"atomic\":true,\"append\":true}", "z");
    has("sub/fresh", "yz");
    fails("{\"op\":\"write\",\"path\":\"sub\",\"atomic\":true}", "EISDIR", NULL, NULL);
    fails("{\"op\":\"write\",\"path\":\"sub/f/x\",\"atomic\":true}", "EEXIST", "mkdir", "sub/f");
    fails("{\"op\":\"write\",\"path\":\"no/x\",\"atomic\":true,\"parents\":false}", "ENOENT", NULL,
          NULL);
}

static unsigned long long begin_atomic(const char *path)
{
    pi_frame *f = pi_peer_answer(
        &p, pi_peer_send_with(&p, TC_STR("new "),
                              "{\"op\":\"write\",\"path\":\"%s\",\"atomic\":true,\"keep\":true}",
                              path));
    assert_int_equal(f->type, TCI_PIENV_RESULT);
    unsigned long long h = pi_frame_u64(f, "handle");
    pi_frame_free(f);
    return h;
}

static void only_commit_publishes(void **state)
{
    (void)state;
    put("f", "old");
    unsigned long long h = begin_atomic("f");
    pi_frame_free(
        pi_peer_answer(&p, pi_peer_send_with(&p, TC_STR("content"),
                                             "{\"op\":\"writeChunk\",\"handle\":%llu}", h)));
    has("f", "old");
    pi_frame *f = pi_peer_call(&p, "{\"op\":\"commit\",\"handle\":%llu,\"sync\":true}", h);
    assert_non_null(pi_frame_get(f, "info"));
    pi_frame_free(f);
    has("f", "new content");
    pi_peer_call_fails(&p, "EBADF", "{\"op\":\"commit\",\"handle\":%llu}", h);
    pi_peer_call_fails(&p, "EBADF", "{\"op\":\"writeChunk\",\"handle\":%llu}", h);
    assert_int_equal(entries_here(), 1);
    h = begin_atomic("f");
    pi_frame_free(pi_peer_call(&p, "{\"op\":\"close\",\"handle\":%llu}", h));
    has("f", "new content");
    assert_int_equal(entries_here(), 1);
    pi_peer_call_fails(&p, "EBADF", "{\"op\":\"commit\",\"handle\":%llu}", h);
}

static void an_end_without_commit_leaves_nothing(void **state)
{
    (void)state;
    put("f", "old");
    (void)begin_atomic("f");
    (void)begin_atomic("g");
    struct stat st;
    assert_int_equal(lstat("g", &st), -1); /* what it will be has another name, or none */
    assert_int_equal(pi_peer_finish(&p), TCI_PI_END_EOF);
    assert_int_equal(entries_here(), 1);
    has("f", "old");
    pi_peer_close(&p);
    pi_peer_open(&p, true, NULL);
}

static void a_foreign_peer_has_no_atomic_writes(void **state)
{
    (void)state;
    pi_peer_close(&p);
    pi_peer_open(&p, false, NULL);
    struct stat a, b;
    put("f", "old");
    assert_int_equal(lstat("f", &a), 0);
    pi_frame *f = write_it("{\"op\":\"write\",\"path\":\"f\",\"atomic\":true}", "new");
    assert_string_equal(f->json, "{}");
    pi_frame_free(f);
    assert_int_equal(lstat("f", &b), 0);
    assert_int_equal(a.st_ino, b.st_ino); /* in place, as the field means nothing to it */
    has("f", "new");
    fails("{\"op\":\"commit\",\"handle\":1}", "EINVAL", NULL, NULL);
}

/* ---- truncate, fsync ---- */

static void truncate_is_exact_and_never_creates(void **state)
{
    struct stat st;
    (void)state;
    put("f", "123456");
    folder("d");
    works("{\"op\":\"truncate\",\"path\":\"f\",\"size\":3}");
    has("f", "123");
    works("{\"op\":\"truncate\",\"path\":\"f\",\"size\":5}");
    assert_int_equal(stat("f", &st), 0);
    assert_int_equal(st.st_size, 5);
    fails("{\"op\":\"truncate\",\"path\":\"no\",\"size\":0}", "ENOENT", "open", "no");
    assert_false(exists("no"));
    fails("{\"op\":\"truncate\",\"path\":\"d\",\"size\":0}", "EISDIR", "open", "d");
    fails("{\"op\":\"truncate\",\"path\":\"f\",\"size\":18446744073709551615}", "EINVAL", NULL,
          "f");
    fails("{\"op\":\"truncate\",\"path\":\"f\",\"size\":-1}", "EINVAL", NULL, NULL);
    fails("{\"op\":\"truncate\",\"path\":\"f\",\"size\":1.5}", "EINVAL", NULL, NULL);
    assert_int_equal(stat("f", &st), 0);
    assert_int_equal(st.st_size, 5);
}

static void fsync_keeps_and_tells(void **state)
{
    (void)state;
    put("f", "kept");
    folder("d");
    works("{\"op\":\"fsync\",\"path\":\"f\"}");
    works("{\"op\":\"syncfs\",\"path\":\"d\"}");
    works("{\"op\":\"syncfs\",\"path\":\"f\"}");
    has("f", "kept");
    fails("{\"op\":\"fsync\",\"path\":\"no\"}", "ENOENT", "open", "no");
    fails("{\"op\":\"fsync\",\"path\":\"d\"}", "EISDIR", "open", "d");
    fails("{\"op\":\"fsync\",\"path\":\"/dev/null\"}", "EINVAL", "fsync", "/dev/null");
    fails("{\"op\":\"syncfs\",\"path\":\"no\"}", "ENOENT", "open", "no");
}

/* ---- folders, names ---- */

static void mkdir_has_two_kinds(void **state)
{
    (void)state;
    works("{\"op\":\"mkdir\",\"path\":\"d\"}");
    fails("{\"op\":\"mkdir\",\"path\":\"d\"}", "EEXIST", "mkdir", "d");
    fails("{\"op\":\"mkdir\",\"path\":\"x/y\"}", "ENOENT", "mkdir", "x/y");
    works("{\"op\":\"mkdir\",\"path\":\"d\",\"recursive\":true}");
    works("{\"op\":\"mkdir\",\"path\":\"x/y//z/\",\"recursive\":true}");
    assert_true(exists("x/y/z"));
    assert_int_equal(symlink("d", "l"), 0);
    works("{\"op\":\"mkdir\",\"path\":\"l\",\"recursive\":true}");
    works("{\"op\":\"mkdir\",\"path\":\"l/in\",\"recursive\":true}");
    assert_true(exists("d/in"));
    works("{\"op\":\"mkdir\",\"path\":\"/\",\"recursive\":true}");
    fails("{\"op\":\"mkdir\",\"path\":\"/\"}", "EEXIST", "mkdir", "/");
    fails("{\"op\":\"mkdir\",\"path\":\"\",\"recursive\":true}", "ENOENT", "mkdir", "");
}

static void mkdtemp_makes_a_private_folder(void **state)
{
    (void)state;
    folder("d");
    pi_frame *a = pi_peer_call(&p, "{\"op\":\"mkdtemp\",\"path\":\"d/../t-\"}");
    pi_frame *b = pi_peer_call(&p, "{\"op\":\"mkdtemp\",\"path\":\"d/../t-\"}");
    char path[64];
    (void)snprintf(path, sizeof path, "%.*s", TC_STR_ARG(pi_frame_str(a, "path")));
    assert_int_equal(strlen(path), strlen("d/../t-") + 6);
    assert_int_equal(mode_of(path), 0700);
    for (const char *c = path + strlen("d/../t-"); *c != '\0'; c++)
        assert_true((*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') ||
                    (*c >= 'A' && *c <= 'Z'));
    assert_false(tci_str_eq(pi_frame_str(a, "path"), pi_frame_str(b, "path")));
    pi_frame_free(a);
    pi_frame_free(b);
    fails("{\"op\":\"mkdtemp\",\"path\":\"no/t-\"}", "ENOENT", "mkdtemp", NULL);
}

static void rename_replaces_and_names_the_source(void **state)
{
    (void)state;
    put("a", "A");
    put("b", "B");
    folder("d");
    folder("e");
    put("e/x", "");
    works("{\"op\":\"rename\",\"path\":\"a\",\"to\":\"b\"}");
    has("b", "A");
    assert_false(exists("a"));
    fails("{\"op\":\"rename\",\"path\":\"a\",\"to\":\"b\"}", "ENOENT", "rename", "a");
    has("b", "A");
    fails("{\"op\":\"rename\",\"path\":\"b\",\"to\":\"d\"}", "EISDIR", "rename", "b");
    fails("{\"op\":\"rename\",\"path\":\"d\",\"to\":\"b\"}", "ENOTDIR", "rename", "d");
    fails("{\"op\":\"rename\",\"path\":\"d\",\"to\":\"e\"}", "ENOTEMPTY", "rename", "d");
    fails("{\"op\":\"rename\",\"path\":\"d\",\"to\":\"d/in\"}", "EINVAL", "rename", "d");
}

static void rm_has_its_rules(void **state)
{
    (void)state;
    put("f", "");
    folder("d");
    put("d/in", "");
    folder("kept");
    put("kept/x", "");
    assert_int_equal(symlink("kept", "l"), 0);
    fails("{\"op\":\"rm\",\"path\":\"no\"}", "ENOENT", "lstat", "no");
    works("{\"op\":\"rm\",\"path\":\"no\",\"force\":true}");
    works("{\"op\":\"rm\",\"path\":\"no\",\"force\":true,\"recursive\":true}");
    fails("{\"op\":\"rm\",\"path\":\"f/x\",\"force\":true}", "ENOTDIR", "lstat", "f/x");
    fails("{\"op\":\"rm\",\"path\":\"d\"}", "ERR_FS_EISDIR", "rm", "d");
    fails("{\"op\":\"rm\",\"path\":\"d\",\"force\":true}", "ERR_FS_EISDIR", "rm", "d");
    assert_true(exists("d/in"));
    works("{\"op\":\"rm\",\"path\":\"l\",\"recursive\":true}");
    assert_true(exists("kept/x"));
    works("{\"op\":\"rm\",\"path\":\"f\",\"recursive\":true}");
    assert_false(exists("f"));
    works("{\"op\":\"rm\",\"path\":\"d\",\"recursive\":true}");
    assert_false(exists("d"));
    folder("empty");
    works("{\"op\":\"rm\",\"path\":\"empty\",\"recursive\":true}");
    assert_false(exists("empty"));
}

/* ---- listFiles ---- */

static void a_listing_is_the_payload(void **state)
{
    (void)state;
    folder("t");
    put("t/a\\b", "");
    folder("t/s");
    put("t/s/.x", "");
    int fd = open("t/\xff", O_WRONLY | O_CREAT, 0644);
    assert_true(fd >= 0);
    close(fd);
    pi_frame *f = pi_peer_call(&p, "{\"op\":\"listFiles\",\"path\":\"t\"}");
    assert_string_equal(f->json, "{\"truncated\":false}");
    assert_true(
        tci_str_eq(f->payload, TC_STR("{\"entries\":[{\"path\":\"a\\\\b\",\"kind\":\"file\"},"
                                      "{\"path\":\"s\",\"kind\":\"directory\"},"
                                      "{\"path\":\"s/.x\",\"kind\":\"file\"},"
                                      "{\"path\":\"\xEF\xBF\xBD\",\"kind\":\"file\"}]}")));
    pi_frame_free(f);
    f = pi_peer_call(&p, "{\"op\":\"listFiles\",\"path\":\"t\",\"maxEntries\":1,\"hidden\":false,"
                         "\"exclude\":[\"a\\\\b\"],\"gitignore\":false,\"maxBytes\":1000}");
    assert_string_equal(f->json, "{\"truncated\":true}");
    assert_true(
        tci_str_eq(f->payload, TC_STR("{\"entries\":[{\"path\":\"s\",\"kind\":\"directory\"}]}")));
    pi_frame_free(f);
    f = pi_peer_call(&p, "{\"op\":\"listFiles\",\"path\":\"t\",\"timeoutMs\":0}");
    assert_string_equal(f->json, "{\"truncated\":true}");
    assert_true(tci_str_eq(f->payload, TC_STR("{\"entries\":[]}")));
    pi_frame_free(f);
    fails("{\"op\":\"listFiles\",\"path\":\"no\"}", "ENOENT", NULL, "no");
    fails("{\"op\":\"listFiles\",\"path\":\"t/a\\\\b\"}", "ENOTDIR", NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(facts_are_those_of_the_system, setup, teardown),
        cmocka_unit_test_setup_teardown(times_before_1970_are_negative, setup, teardown),
        cmocka_unit_test_setup_teardown(missing_things_have_their_codes, setup, teardown),
        cmocka_unit_test_setup_teardown(the_message_names_call_and_path, setup, teardown),
        cmocka_unit_test_setup_teardown(realpath_goes_through_links, setup, teardown),
        cmocka_unit_test_setup_teardown(write_truncates_appends_and_makes_parents, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_in_the_way_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(large_content_survives, setup, teardown),
        cmocka_unit_test_setup_teardown(an_atomic_write_replaces_and_keeps_mode_and_link, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(only_commit_publishes, setup, teardown),
        cmocka_unit_test_setup_teardown(an_end_without_commit_leaves_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_foreign_peer_has_no_atomic_writes, setup, teardown),
        cmocka_unit_test_setup_teardown(truncate_is_exact_and_never_creates, setup, teardown),
        cmocka_unit_test_setup_teardown(fsync_keeps_and_tells, setup, teardown),
        cmocka_unit_test_setup_teardown(mkdir_has_two_kinds, setup, teardown),
        cmocka_unit_test_setup_teardown(mkdtemp_makes_a_private_folder, setup, teardown),
        cmocka_unit_test_setup_teardown(rename_replaces_and_names_the_source, setup, teardown),
        cmocka_unit_test_setup_teardown(rm_has_its_rules, setup, teardown),
        cmocka_unit_test_setup_teardown(a_listing_is_the_payload, setup, teardown),
    };
    if (getcwd(top, sizeof top) == NULL)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
