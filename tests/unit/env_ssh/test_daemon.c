/* SPDX-License-Identifier: Apache-2.0
 *
 * Daemon programs of this side: single ones, and a folder with a manifest. */
#include "tests.h"

#include <sys/stat.h>

static tc_runtime *rt;
static tci_arena arena;

static int setup(void **state)
{
    TCI_UNUSED(state);
    static const char *const environment[] = {"HOME=/nowhere", NULL};
    rt = open_runtime(environment);
    tci_arena_init(&arena, 0);
    return 0;
}

static int teardown(void **state)
{
    TCI_UNUSED(state);
    tci_arena_done(&arena);
    tc_runtime_close(rt);
    return 0;
}

static tc_str file_of(const char *name, const char *bytes, size_t len)
{
    tc_str path = in_folder(name);
    tci_file f = TCI_FILE_NONE;
    tc_err err;
    assert_int_equal(
        tci_file_open(path, TCI_OPEN_WRITE | TCI_OPEN_CREATE | TCI_OPEN_TRUNCATE, 0700, &f, &err),
        0);
    assert_int_equal(tci_file_write_all(f, bytes, len, &err), 0);
    tci_file_close(&f);
    return path;
}

static void one_program(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tci_ssh_daemons d;
    static const char elf[20] = {0x7f, 'E', 'L', 'F', 2, 1, [18] = (char)183, [19] = 0};
    assert_int_equal(tci_ssh_daemons_find(rt, file_of("arm", elf, sizeof elf), &arena, &d, &err),
                     0);
    assert_int_equal(d.count, 1);
    assert_str(d.items[0].platform, "linux");
    assert_str(d.items[0].arch, "arm64");
    assert_int_equal(d.items[0].size, sizeof elf);
    tc_str script = file_of("script", "#!/bin/sh\n", 10);
    assert_int_equal(tci_ssh_daemons_find(rt, script, &arena, &d, &err), 0);
    assert_str(d.items[0].platform, "");
    assert_string_equal(d.items[0].sha256,
                        "a8076d3d28d21e02012b20eaf7dbf75409a6277134439025f282e368e3305abf");
    char *bytes = NULL;
    size_t len = 0;
    assert_int_equal(tci_ssh_daemon_read(&d.items[0], &bytes, &len, &err), 0);
    assert_int_equal(len, 10);
    tci_free(bytes);
    /* Changed since. */
    file_of("script", "#!/bin/zz\n", 10);
    assert_int_equal(tci_ssh_daemon_read(&d.items[0], &bytes, &len, &err), TC_E_INTEGRITY);
    assert_int_equal(tci_ssh_daemons_find(rt, file_of("text", "hello", 5), &arena, &d, &err),
                     TC_E_INVALID);
    assert_int_equal(tci_ssh_daemons_find(rt, in_folder("missing"), &arena, &d, &err),
                     TC_E_NOT_FOUND);
    static const char mips[20] = {0x7f, 'E', 'L', 'F', 1, 1, [18] = 8};
    assert_int_equal(tci_ssh_daemons_find(rt, file_of("mips", mips, sizeof mips), &arena, &d, &err),
                     TC_E_UNSUPPORTED);
}

#define HASH "a8076d3d28d21e02012b20eaf7dbf75409a6277134439025f282e368e3305abf"

static int manifest(const char *text, tci_ssh_daemons *d, tc_err *err)
{
    file_of("set/MANIFEST.json", text, strlen(text));
    return tci_ssh_daemons_find(rt, in_folder("set"), &arena, d, err);
}

#define ENTRY(name, arch, tls)                                 \
    "{\"name\":\"" name "\",\"os\":\"linux\",\"arch\":\"" arch \
    "\",\"kind\":\"telechird\",\"tls\":" tls ",\"size\":10,\"sha256\":\"" HASH "\"}"

static void a_folder_of_programs(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tci_ssh_daemons d;
    assert_int_equal(mkdir(in_folder("set").ptr, 0700), 0);
    file_of("set/a", "#!/bin/sh\n", 10);
    assert_int_equal(
        manifest(
            "{\"version\":\"1\",\"files\":[{\"kind\":\"telechir\",\"name\":\"x\"}," ENTRY(
                "a-tls", "x86_64",
                "true") "," ENTRY("a", "x86_64", "false") "," ENTRY("b",
                                                                    "aarc"
                                                                    "h64",
                                                                    "tru"
                                                                    "e") "," ENTRY("c", "riscv64",
                                                                                   "false") "]}",
            &d, &err),
        0);
    assert_int_equal(d.count, 2);
    assert_true(tci_str_ends(d.items[0].file, TC_STR("/a"))); /* without TLS when there are both */
    assert_str(d.items[1].arch, "arm64");
    char *bytes = NULL;
    size_t len = 0;
    assert_int_equal(tci_ssh_daemon_read(&d.items[0], &bytes, &len, &err), 0);
    tci_free(bytes);
    assert_int_equal(tci_ssh_daemon_read(&d.items[1], &bytes, &len, &err), TC_E_NOT_FOUND);
    static const char *const bad[] = {
        "",
        "[]",
        "{}",
        "{\"files\":{}}",
        "{\"files\":[" ENTRY("../a", "x86_64", "false") "]}",
        "{\"files\":[" ENTRY("/a", "x86_64", "false") "]}",
        "{\"files\":[{\"name\":\"a\",\"os\":\"linux\",\"arch\":\"x86_64\",\"kind\":"
        "\"telechird\",\"size\":10,\"sha256\":\"xyz\"}]}",
        "{\"files\":[{\"name\":\"a\",\"os\":\"linux\",\"arch\":\"x86_64\",\"kind\":"
        "\"telechird\",\"sha256\":\"" HASH "\"}]}"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(bad); i++)
        assert_int_equal(manifest(bad[i], &d, &err), TC_E_PARSE);
    assert_int_equal(manifest("{\"files\":[1]}", &d, &err), TC_E_NOT_FOUND);
}

const struct CMUnitTest daemon_tests[] = {
    cmocka_unit_test_setup_teardown(one_program, setup, teardown),
    cmocka_unit_test_setup_teardown(a_folder_of_programs, setup, teardown),
};
const size_t ndaemon_tests = TCI_ARRAY_LEN(daemon_tests);
