/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of host keys. */
#include "tests.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plat/thread.h"

#define ED1 "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIZqFq6YrEhvAOqJV75Z5YrmJ7TakPypj0YUczq8XNht"
#define ED2 "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEJit5evEt94gtMa6GtGm7MErKmuEyoYwxsWG2t+u1g2"
#define EC1                                                                                    \
    "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBFHK8T4nClq6Wm6Q" \
    "plmWAtP8rYvJItuIUidfuyxmprGw/fyBiqxVSYQORLhLpUQHBR0jAybZtKnG7yZ6GY52P/8="
#define ED1_PRINT "SHA256:G1aWlTrFL80JQvTsDkev94euIAfiqG4LEvvmM6R6wuo"
#define ED2_PRINT "SHA256:Cj+TqKTsanmQ9Cq1pFe52rlDT0p0EuC0klQ2+WeWOwU"
#define EC1_PRINT "SHA256:SD0aS2/pHY/LVw32DmPXMeZQXLYNDBY9r5VlXy32V0A"

static tc_runtime *rt;
static tc_ssh_target target;

static int setup(void **state)
{
    TCI_UNUSED(state);
    static char file[4096];
    static unsigned serial;
    char name[64];
    snprintf(name, sizeof name, "keys%u/deep/er/known hosts", serial++);
    snprintf(file, sizeof file, "%s", in_folder(name).ptr);
    static const char *const environment[] = {"HOME=/nowhere", NULL};
    rt = open_runtime(environment);
    target = (tc_ssh_target){.size = sizeof target,
                             .host = TC_STR("box"),
                             .host_key_alias = TC_STR("gpu"),
                             .known_hosts_file = tci_str(file)};
    return 0;
}

static int teardown(void **state)
{
    TCI_UNUSED(state);
    tc_runtime_close(rt);
    return 0;
}

static int accept1(const char *line, tc_err *err)
{
    tc_str s = tci_str(line);
    return tc_ssh_accept(rt, &target, (tc_strs){&s, 1}, err);
}

static const char *content(void)
{
    static char text[65536];
    char *bytes = NULL;
    size_t len = 0;
    tc_err err;
    if (tci_file_read_whole(TCI_FILE_CWD, target.known_hosts_file, sizeof text - 1, &bytes, &len,
                            &err) < 0)
        return "(none)";
    memcpy(text, bytes, len);
    text[len] = '\0';
    tci_free(bytes);
    return text;
}

static void write_content(const char *text)
{
    tc_err err;
    tci_file f = TCI_FILE_NONE;
    assert_int_equal(tci_file_open(target.known_hosts_file,
                                   TCI_OPEN_WRITE | TCI_OPEN_CREATE | TCI_OPEN_TRUNCATE, 0644, &f,
                                   &err),
                     0);
    assert_int_equal(tci_file_write_all(f, text, strlen(text), &err), 0);
    tci_file_close(&f);
}

static unsigned mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 07777;
}

static void the_file_is_made_private(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    assert_int_equal(accept1("gpu " ED1 " a comment", &err), 0);
    assert_string_equal(content(), "gpu " ED1 "\n");
    assert_int_equal(mode_of(target.known_hosts_file.ptr), 0600);
    tc_str folder, name;
    tci_path_split(target.known_hosts_file, &folder, &name);
    char cfolder[4096];
    assert_int_equal(tci_cstr(folder, cfolder, sizeof cfolder, &err), 0);
    assert_int_equal(mode_of(cfolder), 0700);
}

static void only_plain_lines_of_the_alias_are_accepted(void **state)
{
    TCI_UNUSED(state);
    static const char *const lines[] = {
        "other " ED1,
        "@cert-authority gpu " ED1,
        "@revoked gpu " ED1,
        "gpu,box " ED1,
        "gp* " ED1,
        "|1|abc|def " ED1,
        "gpu",
        "",
        "gpu ssh-ed25519",
        "gpu ssh-ed25519 AAAA*",
        "gpu ssh-ed25519 AAAAC3NzaC1lZDI1NTE5",
        "gpu ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIIZqFq6YrEhvAOqJV75Z5YrmJ7TakPypj0YUczq8XNht",
        "gpu ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIZqFq6YrEhvAOqJV75Z5YrmJ7TakPypj0YUczq8XNh",
        "gpu ssh-ed25519-cert-v01@openssh.com "
        "AAAAC3NzaC1lZDI1NTE5AAAAIIZqFq6YrEhvAOqJV75Z5YrmJ7TakPypj0YUczq8XNht",
        "gpu my-type AAAAC3NzaC1lZDI1NTE5AAAAIIZqFq6YrEhvAOqJV75Z5YrmJ7TakPypj0YUczq8XNht",
        "gpu " ED1 "\ngpu " ED2,
    };
    tc_err err;
    for (size_t i = 0; i < TCI_ARRAY_LEN(lines); i++) {
        assert_int_equal(accept1(lines[i], &err), TC_E_INVALID);
        assert_string_equal(content(), "(none)");
        /* Nor does a good one beside it get in. */
        tc_str both[] = {TC_STR("gpu " ED1), tci_str(lines[i])};
        assert_int_equal(tc_ssh_accept(rt, &target, (tc_strs){both, 2}, &err), TC_E_INVALID);
        assert_string_equal(content(), "(none)");
    }
    assert_int_equal(tc_ssh_accept(rt, &target, (tc_strs){NULL, 0}, &err), TC_E_INVALID);
}

static void a_second_key_of_a_type_needs_the_first_forgotten(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    uint64_t n = 0;
    assert_int_equal(accept1("gpu " ED1, &err), 0);
    assert_int_equal(accept1("GPU " ED1 "\r\n", &err), 0); /* no change */
    assert_string_equal(content(), "gpu " ED1 "\n");
    assert_int_equal(accept1("gpu " ED2, &err), TC_E_UNTRUSTED);
    assert_int_equal(err.cause, TC_E_INTEGRITY);
    assert_non_null(strstr(err.hint, ED1_PRINT));
    assert_non_null(strstr(err.hint, ED2_PRINT));
    assert_string_equal(content(), "gpu " ED1 "\n");
    assert_int_equal(accept1("gpu " EC1, &err), 0); /* another type */
    assert_string_equal(content(), "gpu " ED1 "\ngpu " EC1 "\n");
    assert_int_equal(tc_ssh_forget(rt, &target, &n, &err), 0);
    assert_int_equal(n, 2);
    assert_string_equal(content(), "");
    assert_int_equal(accept1("gpu " ED2, &err), 0);
    assert_string_equal(content(), "gpu " ED2 "\n");
}

static void what_is_not_ours_in_the_file_stays(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    uint64_t n = 0;
    assert_int_equal(accept1("gpu " ED1, &err), 0);
    write_content("# mine\nother " ED2 " x\n\n@cert-authority *.x " EC1 "\n|1|a|b " ED1
                  "\ngpu " ED1);
    assert_int_equal(accept1("gpu " EC1, &err), 0);
    assert_string_equal(content(), "# mine\nother " ED2 " x\n\n@cert-authority *.x " EC1
                                   "\n|1|a|b " ED1 "\ngpu " ED1 "\ngpu " EC1 "\n");
    assert_int_equal(tc_ssh_forget(rt, &target, &n, &err), 0);
    assert_int_equal(n, 2);
    assert_string_equal(content(),
                        "# mine\nother " ED2 " x\n\n@cert-authority *.x " EC1 "\n|1|a|b " ED1 "\n");
    assert_int_equal(tc_ssh_forget(rt, &target, &n, &err), 0);
    assert_int_equal(n, 0);
}

static void keys_are_listed_with_fingerprints(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tc_result *r;
    tc_ssh_keys keys;
    assert_int_equal(tc_result_new(&r, &err), 0);
    assert_int_equal(tc_ssh_list(rt, r, &target, false, &keys, &err), 0);
    assert_int_equal(keys.count, 0); /* no file yet */
    assert_int_equal(accept1("gpu " ED1, &err), 0);
    assert_int_equal(accept1("gpu " EC1, &err), 0);
    target.host_key_alias = TC_STR("other");
    assert_int_equal(accept1("other " ED2, &err), 0);
    assert_int_equal(tc_ssh_list(rt, r, &target, true, &keys, &err), 0);
    assert_int_equal(keys.count, 1);
    assert_str(keys.items[0].fingerprint, ED2_PRINT);
    tc_ssh_target nobody = {.size = sizeof nobody, .known_hosts_file = target.known_hosts_file};
    assert_int_equal(tc_ssh_list(rt, r, &nobody, false, &keys, &err), 0);
    assert_int_equal(keys.count, 3);
    assert_str(keys.items[0].alias, "gpu");
    assert_str(keys.items[0].type, "ssh-ed25519");
    assert_str(keys.items[0].line, "gpu " ED1);
    assert_str(keys.items[0].fingerprint, ED1_PRINT);
    assert_str(keys.items[1].fingerprint, EC1_PRINT);
    tc_result_free(r);
}

static void an_unreadable_file_is_never_replaced(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    uint64_t n = 7;
    assert_int_equal(accept1("gpu " ED1, &err), 0);
    if (geteuid() != 0) {
        assert_int_equal(chmod(target.known_hosts_file.ptr, 0), 0);
        assert_int_equal(accept1("gpu " EC1, &err), TC_E_DENIED);
        assert_int_equal(tc_ssh_forget(rt, &target, &n, &err), TC_E_DENIED);
        assert_int_equal(chmod(target.known_hosts_file.ptr, 0600), 0);
        assert_string_equal(content(), "gpu " ED1 "\n");
    }
    /* What nobody can read as a file: a folder. */
    assert_int_equal(unlink(target.known_hosts_file.ptr), 0);
    assert_int_equal(mkdir(target.known_hosts_file.ptr, 0700), 0);
    assert_true(accept1("gpu " EC1, &err) < 0);
    assert_true(tc_ssh_forget(rt, &target, &n, &err) < 0);
    assert_int_equal(n, 7);
    struct stat st;
    assert_int_equal(stat(target.known_hosts_file.ptr, &st), 0);
    assert_true(S_ISDIR(st.st_mode));
}

static void what_a_link_leads_to_is_replaced_not_the_link(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    char real[4200];
    struct stat st;
    assert_int_equal(accept1("gpu " ED1, &err), 0);
    snprintf(real, sizeof real, "%s.real", target.known_hosts_file.ptr);
    assert_int_equal(rename(target.known_hosts_file.ptr, real), 0);
    assert_int_equal(symlink(real, target.known_hosts_file.ptr), 0);
    assert_int_equal(accept1("gpu " EC1, &err), 0);
    assert_int_equal(lstat(target.known_hosts_file.ptr, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_string_equal(content(), "gpu " ED1 "\ngpu " EC1 "\n");
}

/* ---- at the same time ---- */

static void accept_in_thread(void *arg)
{
    int *rc = arg;
    tc_err err;
    *rc = accept1("gpu " ED1, &err);
}

static void two_accepts_of_one_key_write_one_line(void **state)
{
    TCI_UNUSED(state);
    enum { THREADS = 4 };
    tci_thread *threads[THREADS];
    int results[THREADS];
    tc_err err;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(tci_thread_new(accept_in_thread, &results[i], 0, &threads[i], &err), 0);
    for (int i = 0; i < THREADS; i++) {
        tci_thread_join(threads[i]);
        assert_int_equal(results[i], 0);
    }
    assert_string_equal(content(), "gpu " ED1 "\n");
}

/* In a process of its own: no runtime, no thread. */
static int add_many(int who)
{
    tci_arena a;
    tc_err err;
    int rc = 0;
    tci_arena_init(&a, 0);
    for (int i = 0; i < 10 && rc == 0; i++) {
        char alias[32], line[512];
        tc_ssh_key key;
        snprintf(alias, sizeof alias, "h%d-%d", who, i);
        snprintf(line, sizeof line, "%s " ED1, alias);
        rc = tci_ssh_key_read(tci_str(line), &a, &key, &err);
        if (rc == 0)
            rc = tci_ssh_keys_add(target.known_hosts_file, tci_str(alias), &(tc_ssh_keys){&key, 1},
                                  &err);
    }
    return rc;
}

static void changes_of_several_processes_all_last(void **state)
{
    TCI_UNUSED(state);
    enum { PROCESSES = 4 };
    pid_t pids[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0)
            _exit(add_many(i) == 0 ? 0 : 1);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = 0;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    size_t nlines = 0;
    for (const char *p = content(); *p != '\0'; p++)
        nlines += *p == '\n' ? 1 : 0;
    assert_int_equal(nlines, 10 * PROCESSES);
}

static void a_full_disk_leaves_the_file_as_it_was(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    assert_int_equal(accept1("gpu " ED1, &err), 0);
    tci_file_fail_write_at(1, 28); /* ENOSPC */
    assert_int_equal(accept1("gpu " EC1, &err), TC_E_NO_SPACE);
    tci_file_fail_write_at(0, 0);
    assert_string_equal(content(), "gpu " ED1 "\n");
    tci_file_fail_rename_at(1, 5); /* EIO */
    assert_true(accept1("gpu " EC1, &err) < 0);
    tci_file_fail_rename_at(0, 0);
    assert_string_equal(content(), "gpu " ED1 "\n");
    assert_int_equal(accept1("gpu " EC1, &err), 0);
}

const struct CMUnitTest keys_tests[] = {
    cmocka_unit_test_setup_teardown(the_file_is_made_private, setup, teardown),
    cmocka_unit_test_setup_teardown(only_plain_lines_of_the_alias_are_accepted, setup, teardown),
    cmocka_unit_test_setup_teardown(a_second_key_of_a_type_needs_the_first_forgotten, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(what_is_not_ours_in_the_file_stays, setup, teardown),
    cmocka_unit_test_setup_teardown(keys_are_listed_with_fingerprints, setup, teardown),
    cmocka_unit_test_setup_teardown(an_unreadable_file_is_never_replaced, setup, teardown),
    cmocka_unit_test_setup_teardown(what_a_link_leads_to_is_replaced_not_the_link, setup, teardown),
    cmocka_unit_test_setup_teardown(two_accepts_of_one_key_write_one_line, setup, teardown),
    cmocka_unit_test_setup_teardown(changes_of_several_processes_all_last, setup, teardown),
    cmocka_unit_test_setup_teardown(a_full_disk_leaves_the_file_as_it_was, setup, teardown),
};
const size_t nkeys_tests = TCI_ARRAY_LEN(keys_tests);
