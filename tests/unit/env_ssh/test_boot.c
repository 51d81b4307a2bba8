/* SPDX-License-Identifier: Apache-2.0
 *
 * The script for the other side as text, and reading its answers among other people's output. What it
 * does is tested with a real server (tests/integration/ssh). */
#include "tests.h"

#define TOKEN "0123456789abcdef0123456789abcdef"
#define OURS "telechir-0123456789abcdef "

static void script_of(bool is_deploy, bool login_shell, const char *folder, tci_buf *out)
{
    tc_err err;
    tci_ssh_daemons d = {.count = 2};
    for (int i = 0; i < 2; i++) {
        d.items[i].platform = TC_STR("linux");
        d.items[i].arch = i == 0 ? TC_STR("x86_64") : TC_STR("arm64");
        memset(d.items[i].sha256, 'a' + i, 64);
        d.items[i].size = 77;
    }
    tci_ssh_script s = {.token = TC_STR(TOKEN),
                        .daemons = &d,
                        .daemon = &d.items[1],
                        .folder = tci_str(folder),
                        .is_deploy = is_deploy,
                        .login_shell = login_shell};
    assert_int_equal(tci_ssh_script_put(&s, out, &err), 0);
    tci_buf_append_byte(out, '\0');
    assert_true(tci_buf_ok(out));
}

/* One line; quoted so that POSIX shells, csh and fish read it alike. */
static void case_89_every_login_shell_can_hand_it_on(void **state)
{
    TCI_UNUSED(state);
    for (int i = 0; i < 4; i++) {
        tci_buf text;
        tci_buf_init(&text, TCI_BUF_MAX);
        script_of((i & 1) != 0, (i & 2) != 0, "/opt/it's", &text);
        assert_null(strchr(text.ptr, '\n'));
        assert_null(strchr(text.ptr, '!'));
        assert_null(strstr(text.ptr, "\\\\"));
        assert_null(strstr(text.ptr, "\\'"));
        assert_int_equal(strncmp(text.ptr, "exec sh -c '", 12), 0);
        /* Never the words of an answer: a login file may print the command it is given. */
        assert_null(strstr(text.ptr, OURS "boot"));
        assert_null(strstr(text.ptr, "PI-ENV"));
        tci_buf_done(&text);
    }
}

static void it_knows_the_hash_of_every_architecture(void **state)
{
    TCI_UNUSED(state);
    tci_buf text;
    tci_buf_init(&text, TCI_BUF_MAX);
    script_of(false, false, "", &text);
    assert_non_null(strstr(text.ptr, "Linux/x86_64) w=aaaaaaaa"));
    assert_non_null(strstr(text.ptr, "Linux/amd64) w=aaaaaaaa"));
    assert_non_null(strstr(text.ptr, "Linux/aarch64) w=bbbbbbbb"));
    assert_non_null(strstr(text.ptr, "Linux/arm64) w=bbbbbbbb"));
    tci_buf_done(&text);
    tci_buf_init(&text, TCI_BUF_MAX);
    script_of(true, false, "", &text);
    assert_non_null(strstr(text.ptr, "w=bbbbbbbb"));
    assert_null(strstr(text.ptr, "aaaaaaaa"));
    assert_non_null(strstr(text.ptr, "b=77;"));
    tci_buf_done(&text);
}

static void folders_of_the_users_choice(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    static const char *const bad[] = {"",      "relative", "/a\"b", "/a'b", "/a!b",
                                      "/a\\b", "/a$b",     "/a`b",  "/a\nb"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(bad); i++)
        assert_int_equal(tci_ssh_folder_check(tci_str(bad[i]), &err), TC_E_INVALID);
    assert_int_equal(tci_ssh_folder_check(TC_STR("/srv/my tools"), &err), 0);
}

/* ---- kinds of machines ---- */

static void machines_are_told_apart(void **state)
{
    TCI_UNUSED(state);
    assert_int_equal(tci_ssh_system_of(TC_STR("Linux"), TC_STR("GNU/Linux"))->kind, TCI_SSH_LINUX);
    assert_null(tci_ssh_system_of(TC_STR("Linux"), TC_STR(""))->hint);
    assert_int_equal(tci_ssh_system_of(TC_STR("Linux"), TC_STR("Android"))->kind, TCI_SSH_ANDROID);
    assert_int_equal(tci_ssh_system_of(TC_STR("Darwin"), TC_STR("Darwin"))->kind, TCI_SSH_MACOS);
    assert_int_equal(tci_ssh_system_of(TC_STR("MINGW64_NT-10.0"), TC_STR("Msys"))->kind,
                     TCI_SSH_WINDOWS);
    assert_int_equal(tci_ssh_system_of(TC_STR("CYGWIN_NT-10.0"), TC_STR("Cygwin"))->kind,
                     TCI_SSH_WINDOWS);
    assert_int_equal(tci_ssh_system_of(TC_STR("SunOS"), TC_STR(""))->kind, TCI_SSH_OTHER);
    assert_non_null(tci_ssh_system_of(TC_STR("SunOS"), TC_STR(""))->hint);
    assert_str(tci_ssh_arch_of(TC_STR("AMD64")), "x86_64");
    assert_str(tci_ssh_arch_of(TC_STR("aarch64")), "arm64");
    assert_str(tci_ssh_arch_of(TC_STR("riscv64")), "");
}

/* ---- answers ---- */

typedef struct heard {
    char text[200000];
    size_t len;
} heard;

static void hear(void *user, tc_str text)
{
    heard *h = user;
    if (h->len + text.len <= sizeof h->text)
        memcpy(h->text + h->len, text.ptr, text.len);
    h->len += text.len;
}

/* Feed text in pieces of step bytes. Returns the code; what is left is in *out. */
static int feed(tci_ssh_answer *ans, const char *text, size_t len, size_t step, tci_buf *out,
                heard *h, tc_err *err)
{
    for (size_t at = 0; at < len; at += step) {
        tci_buf_append(out, text + at, tci_min_size(step, len - at));
        if (ans->kind != TCI_SSH_ANSWER_NONE)
            continue;
        int rc = tci_ssh_answer_feed(ans, out, h != NULL ? hear : NULL, h, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static void an_answer_is_read_in_pieces_of_any_size(void **state)
{
    TCI_UNUSED(state);
    static const char text[] =
        OURS "boot 1\r\n" OURS "system Linux\n" OURS "machine x86_64\n" OURS
             "flavour GNU/Linux\n" OURS "home /home/a b\n" OURS
             "run /home/a b/.cache/telechir/telechird-1\nPI-ENV " TOKEN "\n\0frame";
    for (size_t step = 1; step < sizeof text; step++) {
        tci_arena a;
        tci_buf out;
        tci_ssh_answer ans;
        tc_err err;
        tci_arena_init(&a, 0);
        tci_buf_init(&out, TCI_BUF_MAX);
        assert_int_equal(tci_ssh_answer_init(&ans, TC_STR(TOKEN), &a, &err), 0);
        assert_int_equal(feed(&ans, text, sizeof text - 1, step, &out, NULL, &err), 0);
        assert_true(ans.is_booted);
        assert_int_equal(ans.kind, TCI_SSH_ANSWER_RUN);
        assert_str(ans.system, "Linux");
        assert_str(ans.machine, "x86_64");
        assert_str(ans.flavour, "GNU/Linux");
        assert_str(ans.home, "/home/a b");
        assert_str(ans.folder, "/home/a b/.cache/telechir/telechird-1");
        assert_int_equal(ans.noise, 0);
        static const char rest[] = "PI-ENV " TOKEN "\n\0frame";
        assert_int_equal(out.len, sizeof rest - 1);
        assert_memory_equal(out.ptr, rest, sizeof rest - 1);
        tci_buf_done(&out);
        tci_arena_done(&a);
    }
}

static void case_88_noise_is_skipped_sampled_and_bounded(void **state)
{
    TCI_UNUSED(state);
    static char noise[80000];
    size_t n = 0;
    n += (size_t)snprintf(noise + n, sizeof noise - n, "Welcome!\n\x1b[1mto\x1b[0m\nthe machine\n");
    memset(noise + n, 'x', 70000); /* a line of 70 KB, and no newline at its end */
    n += 70000;
    n += (size_t)snprintf(noise + n, sizeof noise - n, OURS "boot 1\n" OURS "system Linux\n");
    n += (size_t)snprintf(noise + n, sizeof noise - n, "[1]+ Done  backup\n"); /* after the login */
    n += (size_t)snprintf(noise + n, sizeof noise - n, "glued" OURS "need 1\n");
    heard *h = calloc(1, sizeof *h);
    static const size_t steps[] = {1, 7, 4096, 80000};
    for (size_t i = 0; i < TCI_ARRAY_LEN(steps); i++) {
        tci_arena a;
        tci_buf out;
        tci_ssh_answer ans;
        tc_err err;
        tci_arena_init(&a, 0);
        tci_buf_init(&out, TCI_BUF_MAX);
        h->len = 0;
        assert_int_equal(tci_ssh_answer_init(&ans, TC_STR(TOKEN), &a, &err), 0);
        assert_int_equal(feed(&ans, noise, n, steps[i], &out, h, &err), 0);
        assert_int_equal(ans.kind, TCI_SSH_ANSWER_NEED);
        assert_str(ans.system, "Linux");
        assert_int_equal(ans.sample_len, TCI_SSH_SAMPLE_MAX);
        assert_int_equal(h->len, ans.noise);
        assert_true(ans.noise > 70000 && ans.noise < 70100);
        char shown[100];
        tc_str sample =
            tci_ssh_printable(tci_str_of(ans.sample, ans.sample_len), shown, sizeof shown);
        assert_int_equal(strncmp(sample.ptr, "Welcome! | to | the machine | xxx", 33), 0);
        assert_true(sample.len <= sizeof shown);
        tci_buf_done(&out);
        tci_arena_done(&a);
    }
    free(h);
}

static void case_88_noise_without_end_is_an_error(void **state)
{
    TCI_UNUSED(state);
    tci_arena a;
    tci_buf out;
    tci_ssh_answer ans;
    tc_err err;
    static char block[65536];
    memset(block, 'y', sizeof block);
    tci_arena_init(&a, 0);
    tci_buf_init(&out, TCI_BUF_MAX);
    assert_int_equal(tci_ssh_answer_init(&ans, TC_STR(TOKEN), &a, &err), 0);
    int rc = 0;
    size_t total = 0;
    for (; rc == 0 && total < 64 * 1024 * 1024; total += sizeof block) {
        rc = feed(&ans, block, sizeof block, sizeof block, &out, NULL, &err);
        assert_true(out.len <= 2 * sizeof block);
    }
    assert_int_equal(rc, TC_E_PROTOCOL);
    assert_true(total <= TCI_SSH_NOISE_MAX + 2 * sizeof block);
    tci_buf_done(&out);
    tci_arena_done(&a);
}

static void why_it_failed_is_told(void **state)
{
    TCI_UNUSED(state);
    static const char text[] = OURS "boot 1\n" OURS "tried /a: read-only\nmore of it\n" OURS
                                    "tried /b: not ours\n" OURS "send 3 /var/tmp/x y\n";
    static const char more[] = OURS "failed write 3 head: no space\n";
    tci_arena a;
    tci_buf out;
    tci_ssh_answer ans;
    tc_err err;
    tci_arena_init(&a, 0);
    tci_buf_init(&out, TCI_BUF_MAX);
    assert_int_equal(tci_ssh_answer_init(&ans, TC_STR(TOKEN), &a, &err), 0);
    assert_int_equal(feed(&ans, text, sizeof text - 1, 5, &out, NULL, &err), 0);
    assert_int_equal(ans.kind, TCI_SSH_ANSWER_SEND);
    assert_int_equal(ans.index, 3);
    assert_str(ans.folder, "/var/tmp/x y");
    assert_str(ans.tried, "/a: read-only; /b: not ours");
    ans.kind = TCI_SSH_ANSWER_NONE;
    assert_int_equal(feed(&ans, more, sizeof more - 1, 5, &out, NULL, &err), 0);
    assert_int_equal(ans.kind, TCI_SSH_ANSWER_FAILED);
    assert_str(ans.word, "write");
    assert_int_equal(ans.index, 3);
    assert_str(ans.text, "head: no space");
    tci_buf_done(&out);
    tci_arena_done(&a);
}

/* ---- words of others ---- */

static void text_is_made_fit_to_be_shown(void **state)
{
    TCI_UNUSED(state);
    static const struct {
        const char *raw, *shown;
    } cases[] = {{"a\x1b[31mb\x1b[0m c", "ab c"},
                 {"\x1b]0;title\x07x", "x"},
                 {"one\r\ntwo\n\nthree\n", "one | two | three"},
                 {"tab\there", "tab.here"},
                 {"bad\xff\xfe!", "bad..!"},
                 {"\xc3\xbc\xe2\x82\xac", "\xc3\xbc\xe2\x82\xac"},
                 {"c1\xc2\x9b", "c1."},
                 {"\x1b", "."},
                 {"", ""}};
    for (size_t i = 0; i < TCI_ARRAY_LEN(cases); i++) {
        char buf[64];
        assert_str(tci_ssh_printable(tci_str(cases[i].raw), buf, sizeof buf), cases[i].shown);
    }
    char small[4];
    assert_str(tci_ssh_printable(TC_STR("abcdef"), small, sizeof small), "abcd");
    assert_str(tci_ssh_printable(TC_STR("ab\xe2\x82\xac"), small, sizeof small), "ab");
    char buf[64];
    assert_str(
        tci_ssh_last_words(TC_STR("x\nWarning: y\r\n\r\nssh: no\r\n  \r\n"), buf, sizeof buf),
        "Warning: y | ssh: no |   ");
    assert_str(tci_ssh_last_words(TC_STR("\n \n"), buf, sizeof buf), "");
}

static int explain(const char *complaints, tc_err *err)
{
    static const char *const environment[] = {"HOME=/home/me", NULL};
    tc_runtime *rt = open_runtime(environment);
    tci_arena a;
    tci_ssh_to to;
    tci_ssh_child c = {.child = TCI_CHILD_NONE, .exit = {.code = 255}};
    tc_ssh_target t = {.size = sizeof t, .host = TC_STR("h"), .host_key_alias = TC_STR("gpu")};
    tci_arena_init(&a, 0);
    assert_int_equal(tci_ssh_to_make(rt, &t, &a, &to, err), 0);
    tci_buf_init(&c.complaints, TCI_BUF_MAX);
    tci_buf_append_str(&c.complaints, tci_str(complaints));
    int rc = tci_ssh_explain(&to, &c, err);
    tci_buf_done(&c.complaints);
    tci_arena_done(&a);
    tc_runtime_close(rt);
    return rc;
}

static void complaints_of_ssh_are_understood(void **state)
{
    TCI_UNUSED(state);
    static const struct {
        const char *complaints;
        tc_code code;
        const char *says;
    } cases[] = {
        {"me@h: Permission denied (publickey).\r\n", TC_E_AUTH, "login was refused"},
        {"ssh: Could not resolve hostname h: Name or service not known\r\n", TC_E_CONNECT,
         "no host of that name"},
        {"ssh: connect to host h port 22: Connection refused\r\n", TC_E_CONNECT, "nothing listens"},
        {"ssh: connect to host h port 22: Connection timed out\r\n", TC_E_CONNECT, "in time"},
        {"ssh: connect to host h port 22: No route to host\r\n", TC_E_CONNECT, "no way"},
        {"/c: line 3: Bad configuration option: foo\r\n/c: terminating, 1 bad\r\n", TC_E_INVALID,
         "configuration"},
        {"Connection closed by 1.2.3.4 port 22\r\n", TC_E_CONNECT, "Connection closed by"},
        {"No ED25519 host key is known for gpu and you have requested strict checking.\r\n"
         "Host key verification failed.\r\n",
         TC_E_UNTRUSTED, "not trusted yet"},
        {"Host key for gpu has changed and you have requested strict checking.\r\n"
         "Host key verification failed.\r\n",
         TC_E_UNTRUSTED, "has changed"},
        /* Of a jump host, which is not our business: */
        {"No ED25519 host key is known for jump and you have requested strict checking.\r\n"
         "Host key verification failed.\r\nConnection closed by UNKNOWN port 65535\r\n",
         TC_E_UNTRUSTED, "on the way"},
        {"", TC_E_CONNECT, "said nothing"},
    };
    for (size_t i = 0; i < TCI_ARRAY_LEN(cases); i++) {
        tc_err err = {0};
        assert_int_equal(explain(cases[i].complaints, &err), cases[i].code);
        assert_int_equal(err.code, cases[i].code);
        assert_non_null(strstr(err.msg, cases[i].says));
    }
}

const struct CMUnitTest boot_tests[] = {
    cmocka_unit_test(case_89_every_login_shell_can_hand_it_on),
    cmocka_unit_test(it_knows_the_hash_of_every_architecture),
    cmocka_unit_test(folders_of_the_users_choice),
    cmocka_unit_test(machines_are_told_apart),
    cmocka_unit_test(an_answer_is_read_in_pieces_of_any_size),
    cmocka_unit_test(case_88_noise_is_skipped_sampled_and_bounded),
    cmocka_unit_test(case_88_noise_without_end_is_an_error),
    cmocka_unit_test(why_it_failed_is_told),
    cmocka_unit_test(text_is_made_fit_to_be_shown),
    cmocka_unit_test(complaints_of_ssh_are_understood),
};
const size_t nboot_tests = TCI_ARRAY_LEN(boot_tests);
