/* SPDX-License-Identifier: Apache-2.0
 *
 * What a device may run: roots, shell profiles, full control. */
#include "load.h"

#include "plat/file.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROFILE_REST                                                                            \
    "\"display_name\":\"A\",\"native_executable\":\"/bin/sh\",\"executable_search_roots\":[\"/" \
    "\"],"
#define PROFILE "\"profile_id\":\"a\"," PROFILE_REST "\"max_script_bytes\":100"
#define WITH(members) "{\"shell_profiles\":[{" members "}]}"

static void roots(void **state)
{
    (void)state;
    static const json_verdict rows[] = {
        {"{\"trusted_executable_roots\":\"x\"}", "trusted_executable_roots: must be a list"},
        {"{\"trusted_executable_roots\":[1]}", "trusted_executable_roots[0]: must be a path"},
        {"{\"trusted_executable_roots\":[\"/\",\"rel\"]}",
         "trusted_executable_roots must be absolute folders"},
        {"{\"trusted_executable_roots\":[\"/nowhere\"]}", "trusted_executable_roots|/nowhere"},
        {"{\"trusted_executable_roots\":[\"/etc/passwd\"]}",
         "trusted_executable_roots|/etc/passwd"},
        {"{\"trusted_executable_roots\":null}", "trusted_executable_roots: must be a list"},
        {"{\"trusted_executable_roots\":[]}", NULL},
    };
    check_json(rows, TCI_ARRAY_LEN(rows));
}

static void roots_are_canonical_and_listed_once(void **state)
{
    loaded l;
    char json[4096];
    const char *real = path_of("real"), *other = path_of("other"), *link = path_of("link");
    words vars = {{json}};
    (void)state;
    assert_int_equal(mkdir(real, 0700), 0);
    assert_int_equal(mkdir(other, 0700), 0);
    assert_int_equal(symlink(real, link), 0);
    (void)snprintf(
        json, sizeof json,
        "A13N_ENVD_CONFIG_JSON={\"trusted_executable_roots\":[\"%s\",\"%s/\",\"%s\",\"%s\"]}",
        other, link, real, other);
    load(&l, "a13n-envd", NULL, &vars);
    assert_int_equal(l.rc, 0);
    assert_true(l.config.has_commands);
    assert_int_equal(l.config.nroots, 2);
    assert_has(l.config.roots[0].ptr, "/other");
    assert_has(l.config.roots[1].ptr, "/real");
    unload(&l);
}

static void profile_fields(void **state)
{
    (void)state;
    static const json_verdict rows[] = {
        {WITH(PROFILE), NULL},
        {"{\"shell_profiles\":{}}", "shell_profiles: must be a list"},
        {WITH(""), "shell_profiles[0].profile_id: the field is required"},
        {WITH("\"x\":1"), "shell_profiles[0].x: there is no such field"},
        {WITH("\"profile_id\":\"a\""), "shell_profiles[0].display_name: the field is required"},
        {WITH(PROFILE ",\"x\":1"), "shell_profiles[0].x: there is no such field"},
        {WITH(PROFILE ",\"fixed_arguments\":[\"-c\",1]"),
         "shell_profiles[0].fixed_arguments[1]: must be a string"},
        {WITH(PROFILE ",\"fixed_arguments\":null"),
         "shell_profiles[0].fixed_arguments: must be a list"},
        {WITH(PROFILE ",\"fixed_arguments\":[\"a\\u0000b\"]"), "profile 'a': fixed_arguments"},
        {WITH(PROFILE ",\"allow_login_mode\":1"),
         "shell_profiles[0].allow_login_mode: must be true or false"},
        {WITH(PROFILE ",\"safe_base_environment\":{\"A\":1}"),
         "shell_profiles[0].safe_base_environment.A: must be a string"},
        {WITH(PROFILE ",\"safe_base_environment\":{\"A=\":\"x\"}"),
         "profile 'a': safe_base_environment"},
        {WITH(PROFILE ",\"safe_base_environment\":{\"A13N_ENVD_X\":\"x\"}"),
         "profile 'a': safe_base_environment"},
        {WITH(PROFILE ",\"safe_base_environment\":{\"eip_x\":\"x\"}"),
         "profile 'a': safe_base_environment"},
        {WITH(PROFILE ",\"safe_base_environment\":{\"TELECHIRD_X\":\"x\"}"),
         "profile 'a': safe_base_environment"},
        {WITH(PROFILE ",\"safe_base_environment\":{\"\":\"x\"}"),
         "profile 'a': safe_base_environment"},
        {WITH(PROFILE ",\"safe_base_environment\":{\"A\":\"\\u0000\"}"),
         "profile 'a': safe_base_environment"},
        {WITH(PROFILE ",\"safe_base_environment\":{\"LD_PRELOAD\":\"x\",\"PATH\":\"y\"}"), NULL},
        {WITH("\"profile_id\":\"a b\"," PROFILE_REST "\"max_script_bytes\":1"),
         "profile_id must be"},
        {WITH("\"profile_id\":\"\"," PROFILE_REST "\"max_script_bytes\":1"), "profile_id must be"},
        {WITH("\"profile_id\":\"a\"," PROFILE_REST "\"max_script_bytes\":0"),
         "max_script_bytes must be positive"},
        {WITH("\"profile_id\":\"a\"," PROFILE_REST "\"max_script_bytes\":-1"),
         "shell_profiles[0].max_script_bytes"},
        {"{\"shell_profiles\":[{" PROFILE "},{" PROFILE "}]}",
         "profile 'a': profile_id must be unique"},
        {WITH("\"profile_id\":\"a\",\"display_name\":\" A\",\"native_executable\":\"/bin/sh\","
              "\"executable_search_roots\":[\"/\"],\"max_script_bytes\":1"),
         "profile 'a': display_name"},
        {WITH("\"profile_id\":\"a\",\"display_name\":\"A\",\"native_executable\":\"sh\","
              "\"executable_search_roots\":[\"/\"],\"max_script_bytes\":1"),
         "profile 'a': native_executable must be absolute"},
        {WITH("\"profile_id\":\"a\",\"display_name\":\"A\",\"native_executable\":\"/\","
              "\"executable_search_roots\":[\"/\"],\"max_script_bytes\":1"),
         "profile 'a': native_executable must be a regular file"},
        {WITH("\"profile_id\":\"a\",\"display_name\":\"A\",\"native_executable\":\"/nowhere\","
              "\"executable_search_roots\":[\"/\"],\"max_script_bytes\":1"),
         "profile 'a': native_executable|/nowhere"},
        {WITH("\"profile_id\":\"a\",\"display_name\":\"A\",\"native_executable\":\"/bin/sh\","
              "\"executable_search_roots\":[],\"max_script_bytes\":1"),
         "profile 'a': executable_search_roots must name at least one"},
        {WITH("\"profile_id\":\"a\",\"display_name\":\"A\",\"native_executable\":\"/bin/sh\","
              "\"executable_search_roots\":[\"rel\"],\"max_script_bytes\":1"),
         "profile 'a': executable_search_roots must be absolute"},
    };
    check_json(rows, TCI_ARRAY_LEN(rows));
}

static void profiles_are_sorted_by_id(void **state)
{
    loaded l;
    words vars = {
        {"A13N_ENVD_CONFIG_JSON={\"shell_profiles\":[{\"profile_id\":\"b\"," PROFILE_REST
         "\"max_script_bytes\":7,\"fixed_arguments\":[\"-e\",\"-c\"],\"allow_login_mode\":true,"
         "\"safe_base_environment\":{\"LANG\":\"C\"}},{\"profile_id\":\"B\"," PROFILE_REST
         "\"max_script_bytes\":8}]}"}};
    (void)state;
    load(&l, "a13n-envd", NULL, &vars);
    assert_int_equal(l.rc, 0);
    assert_int_equal(l.config.nprofiles, 2);
    assert_text(l.config.profiles[0].id, "B");
    const tci_shell_profile *p = &l.config.profiles[1];
    assert_text(p->id, "b");
    assert_int_equal(p->max_script_bytes, 7);
    assert_int_equal(p->nfixed_arguments, 2);
    assert_text(p->fixed_arguments[1], "-c");
    assert_true(p->allows_login);
    assert_int_equal(p->nenvironment, 1);
    assert_text(p->environment[0].name, "LANG");
    assert_text(p->environment[0].value, "C");
    assert_int_equal(p->nroots, 1);
    unload(&l);
}

static void full_control_is_path_and_the_shell(void **state)
{
    loaded l;
    char buf[TCI_PATH_MAX];
    tc_str sh;
    tc_err err;
    words vars = {{"A13N_ENVD_FULL_CONTROL=1", "PATH=rel:/usr/bin::/nowhere:/usr/bin:/bin"}};
    (void)state;
    load(&l, "a13n-envd", NULL, &vars);
    assert_int_equal(l.rc, 0);
    assert_true(l.config.full_control && l.config.has_commands);
    assert_int_equal(l.config.nroots, 3);
    assert_text(l.config.roots[0], "/usr/bin");
    assert_text(l.config.roots[1], "/nowhere");
    assert_text(l.config.roots[2], "/bin");
    assert_int_equal(l.config.nprofiles, 1);
    const tci_shell_profile *p = &l.config.profiles[0];
    assert_text(p->id, "default");
    assert_text(p->display_name, "POSIX shell");
    assert_int_equal(tci_file_realpath(TC_STR("/bin/sh"), buf, &sh, &err), 0);
    assert_true(tci_str_eq(p->executable, sh));
    assert_int_equal(p->nfixed_arguments, 1);
    assert_text(p->fixed_arguments[0], "-c");
    assert_int_equal(p->max_script_bytes, 1048576);
    assert_int_equal(p->nroots, 0);
    assert_false(p->allows_login);
    unload(&l);
}

static void full_control_excludes_lists(void **state)
{
    (void)state;
    static const json_verdict rows[] = {
        {"{\"full_control\":true,\"trusted_executable_roots\":[\"/\"]}", "full_control excludes"},
        {"{\"full_control\":true,\"shell_profiles\":[{" PROFILE "}]}", "full_control excludes"},
        {"{\"full_control\":true,\"trusted_executable_roots\":[],\"shell_profiles\":[]}", NULL},
    };
    static const verdict off = {
        {{NULL}},
        {{"A13N_ENVD_FULL_CONTROL=0",
          "A13N_ENVD_CONFIG_JSON={\"full_control\":true,\"shell_profiles\":[{" PROFILE "}]}"}},
        NULL};
    check_json(rows, TCI_ARRAY_LEN(rows));
    check_verdicts(&off, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(roots),
        cmocka_unit_test(roots_are_canonical_and_listed_once),
        cmocka_unit_test(profile_fields),
        cmocka_unit_test(profiles_are_sorted_by_id),
        cmocka_unit_test(full_control_is_path_and_the_shell),
        cmocka_unit_test(full_control_excludes_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
