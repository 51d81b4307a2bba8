/* SPDX-License-Identifier: Apache-2.0
 *
 * What is run and how it is refused. */
#include "collect.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static void output_and_code(void **state)
{
    pi_peer *p = *state;
    output o;
    run(p, &o, "\"command\":\"echo one; echo two >&2; exit 3\"");
    assert_out(&o, "one\n");
    assert_err(&o, "two\n");
    assert_exit(&o, 3);
    assert_null(pi_frame_get(o.answer, "spillPath"));
    assert_null(pi_frame_get(o.answer, "signal"));
    assert_null(pi_frame_get(o.answer, "survivors"));
    output_done(&o);
}

static void arguments_are_passed_unparsed(void **state)
{
    pi_peer *p = *state;
    output o;
    run(p, &o,
        "\"argv\":[\"printf\",\"%%s|\",\"a 'b\\\" c\",\"$(touch bad)\",\"`touch "
        "bad`\",\"*\",\";x\"]");
    assert_out(&o, "a 'b\" c|$(touch bad)|`touch bad`|*|;x|");
    assert_exit(&o, 0);
    assert_false(is_file("bad"));
    output_done(&o);
    run(p, &o, "\"command\":\"echo wins\",\"argv\":[\"false\"]");
    assert_out(&o, "wins\n");
    output_done(&o);
}

static void what_is_missing_or_wrong(void **state)
{
    pi_peer *p = *state;
    pi_peer_call_fails(p, "EINVAL", "{\"op\":\"exec\",\"cwd\":\"/\"}");
    pi_peer_call_fails(p, "EINVAL", "{\"op\":\"exec\",\"command\":\"true\"}");
    pi_peer_call_fails(p, "EINVAL", "{\"op\":\"exec\",\"command\":7,\"cwd\":\"/\"}");
    pi_peer_call_fails(p, "EINVAL", "{\"op\":\"exec\",\"argv\":[\"true\",1],\"cwd\":\"/\"}");
    pi_peer_call_fails(p, "EINVAL",
                       "{\"op\":\"exec\",\"command\":\"true\",\"cwd\":\"/\",\"timeoutMs\":-1}");
    pi_peer_call_fails(p, "EINVAL",
                       "{\"op\":\"exec\",\"command\":\"true\",\"cwd\":\"/\",\"timeoutMs\":1e17}");
    pi_peer_call_fails(p, "spawn_error", "{\"op\":\"exec\",\"argv\":[],\"cwd\":\"/\"}");
    pi_peer_call_fails(p, "spawn_error", "{\"op\":\"exec\",\"argv\":[\"\"],\"cwd\":\"/\"}");
    pi_peer_call_fails(p, "spawn_error",
                       "{\"op\":\"exec\",\"argv\":[\"no-such-program-here\"],\"cwd\":\"/\"}");
    pi_peer_call_fails(p, "spawn_error",
                       "{\"op\":\"exec\",\"command\":\"true\",\"cwd\":\"/no/such/folder\"}");
    pi_peer_call_fails(
        p, "shell_unavailable",
        "{\"op\":\"exec\",\"command\":\"true\",\"cwd\":\"/no\",\"shellPath\":\"/no/sh\"}");
    pi_peer_call_fails(
        p, "spawn_error",
        "{\"op\":\"exec\",\"command\":\"true\",\"cwd\":\"/\",\"shellPath\":\"/etc/passwd\"}");
    pi_peer_call_fails(p, "spawn_error",
                       "{\"op\":\"exec\",\"command\":\"tr\\u0000ue\",\"cwd\":\"/\"}");
}

/* What does not fit counts as absent. */
static void odd_options_are_passed_over(void **state)
{
    pi_peer *p = *state;
    output o;
    run(p, &o,
        "\"command\":\"echo \\\"$A,$B,${C-unset},${D-unset}\\\"\",\"env\":{\"A\":\"1\",\"B\":\"\","
        "\"C\":2,\"D\":null},\"inheritEnv\":\"no\",\"timeoutMs\":\"soon\",\"window\":{\"maxBytes\":"
        "1},\"spill\":{\"afterBytes\":0},\"shellPath\":null,\"unknown\":[1]");
    assert_out(&o, "1,,unset,unset\n");
    assert_exit(&o, 0);
    assert_null(pi_frame_get(o.answer, "spillPath"));
    output_done(&o);
}

static void the_environment(void **state)
{
    pi_peer *p = *state;
    output o;
    run(p, &o, "\"argv\":[\"env\"],\"env\":{\"ONLY\":\"this\"},\"inheritEnv\":false");
    assert_out(&o, "ONLY=this\n");
    output_done(&o);
    run(p, &o,
        "\"command\":\"[ -n \\\"$PATH\\\" ] && echo \\\"$ONLY\\\"\",\"env\":{\"ONLY\":\"this\"}");
    assert_out(&o, "this\n");
    output_done(&o);
}

static void case_92_any_value_reaches_the_command(void **state)
{
    pi_peer *p = *state;
    output o;
    run(p, &o,
        "\"command\":\"printf '<%%s>' "
        "\\\"$ODD\\\"\",\"env\":{\"ODD\":\"a=b\\nc=\\t\\u00e9'\\\"\"}");
    assert_out(&o, "<a=b\nc=\t\xc3\xa9'\">");
    output_done(&o);
}

static void case_01_input_is_empty(void **state)
{
    pi_peer *p = *state;
    output o;
    run(p, &o, "\"command\":\"cat; wc -l\"");
    assert_true(tci_str_ends(tci_buf_str(&o.out), TC_STR("0\n")));
    assert_exit(&o, 0);
    output_done(&o);
}

static void case_95_there_is_no_terminal_to_ask(void **state)
{
    pi_peer *p = *state;
    output o;
    run(p, &o,
        "\"command\":\"(: </dev/tty) 2>/dev/null || echo none; read pid comm st ppid grp ses tty "
        "rest </proc/self/stat; [ $ses = $$ ] && echo own\"");
    assert_out(&o, "none\nown\n");
    output_done(&o);
}

static void signals_and_codes_told_apart(void **state)
{
    pi_peer *p = *state;
    output o;
    run(p, &o, "\"command\":\"exit 137\"");
    assert_exit(&o, 137);
    assert_null(pi_frame_get(o.answer, "signal"));
    output_done(&o);
    run(p, &o, "\"command\":\"kill -9 $$\"");
    assert_exit(&o, 137);
    if (tci_json_get(&o.answer->value, TC_STR("signal")) != NULL)
        assert_int_equal(pi_frame_u64(o.answer, "signal"), 9);
    output_done(&o);
}

static void case_05_the_signal_is_named_to_our_own_end(void **state)
{
    pi_peer *p = *state;
    output o;
    run(p, &o, "\"command\":\"kill -9 $$\"");
    assert_int_equal(pi_frame_u64(o.answer, "signal"), 9);
    output_done(&o);
    signals_and_codes_told_apart(state);
}

static void extensions_are_unknown_to_a_foreign_end(void **state)
{
    pi_peer *p = *state;
    output o;
    run(p, &o, "\"command\":\"cat; printf '\\\\377'; kill -9 $$\",\"stdin\":true,\"raw\":true");
    assert_out(&o, "\xef\xbf\xbd");
    assert_null(pi_frame_get(o.answer, "signal"));
    output_done(&o);
    pi_peer_call_fails(p, "EINVAL", "{\"op\":\"input\",\"exec\":1}");
}

static void a_login_shell_reads_its_profile(void **state)
{
    pi_peer *p = *state;
    output o;
    char home[3000];
    assert_non_null(getcwd(home, sizeof home));
    FILE *profile = fopen(".profile", "w");
    assert_non_null(profile);
    assert_true(fputs("SEEN=profile\n", profile) >= 0);
    assert_int_equal(fclose(profile), 0);
    run(p, &o,
        "\"command\":\"echo $SEEN\",\"login\":true,\"shellPath\":\"/bin/sh\",\"env\":{\"HOME\":"
        "\"%s\"}",
        home);
    assert_out(&o, "profile\n");
    output_done(&o);
}

int run_exec_tests(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FOREIGN(output_and_code),
        WITH_OURS(output_and_code),
        WITH_FOREIGN(arguments_are_passed_unparsed),
        WITH_FOREIGN(what_is_missing_or_wrong),
        WITH_FOREIGN(odd_options_are_passed_over),
        WITH_FOREIGN(the_environment),
        WITH_FOREIGN(case_92_any_value_reaches_the_command),
        WITH_FOREIGN(case_01_input_is_empty),
        WITH_OURS(case_01_input_is_empty),
        WITH_FOREIGN(case_95_there_is_no_terminal_to_ask),
        WITH_FOREIGN(signals_and_codes_told_apart),
        WITH_OURS(case_05_the_signal_is_named_to_our_own_end),
        WITH_FOREIGN(extensions_are_unknown_to_a_foreign_end),
        WITH_OURS(a_login_shell_reads_its_profile),
    };
    return cmocka_run_group_tests_name("exec", tests, NULL, NULL);
}
