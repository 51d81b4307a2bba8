/* SPDX-License-Identifier: Apache-2.0
 *
 * The tools over an environment of this machine: what models read, and what becomes of files. */
#include "tool_world.h"

#include "base/base64.h"

static tc_tool read_tool, write_tool, edit_tool, bash_tool, ls_tool, grep_tool, find_tool;

static void make_tools(void)
{
    tc_tool_read(NULL, &read_tool);
    tc_tool_write(&write_tool);
    tc_tool_edit(&edit_tool);
    tc_tool_bash(NULL, &bash_tool);
    tc_tool_ls(&ls_tool);
    tc_tool_grep(&grep_tool);
    tc_tool_find(&find_tool);
}

static void put_lines(world *w, const char *name, int n)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    for (int i = 1; i <= n; i++)
        tci_buf_printf(&b, "line %d\n", i);
    put_file(w, name, b.ptr, b.len);
    tci_buf_done(&b);
}

/* ---- no environment ---- */

static void without_environment_every_tool_fails_case_71(void **state)
{
    world *w = *state;
    const tc_tool *all[] = {&read_tool, &write_tool, &edit_tool, &bash_tool,
                            &ls_tool,   &grep_tool,  &find_tool};
    const char *arguments[] = {"{\"path\":\"a\"}",
                               "{\"path\":\"marker\",\"content\":\"x\"}",
                               "{\"path\":\"a\",\"edits\":[{\"oldText\":\"a\",\"newText\":\"b\"}]}",
                               "{\"command\":\"touch marker\"}",
                               "{}",
                               "{\"pattern\":\"x\"}",
                               "{\"pattern\":\"*\"}"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(all); i++) {
        outcome o = call_tool_in(w, NULL, NULL, all[i], arguments[i]);
        assert_true(o.rc < 0);
        assert_text(o.failure, "No execution environment is configured");
    }
    assert_false(has_file(w, "marker"));
}

static void broken_link_is_an_error_and_nothing_runs_here_case_71(void **state)
{
    world *w = *state;
    tc_env *env = world_env(w, "broken");
    assert_ok(w, tc_env_close(env, NULL, &w->err));
    outcome o = call_tool_in(w, env, NULL, &bash_tool, "{\"command\":\"touch marker\"}");
    assert_true(o.rc < 0);
    o = call_tool_in(w, env, NULL, &write_tool, "{\"path\":\"marker\",\"content\":\"x\"}");
    assert_true(o.rc < 0);
    tc_env_release(env);
    assert_false(has_file(w, "marker"));
    assert_false(has_file(w, "broken/marker"));
}

/* ---- read ---- */

static void read_gives_the_text_and_remarks(void **state)
{
    world *w = *state;
    put_file(w, "small.txt", "one\ntwo\n", 8);
    outcome o = call_tool(w, &read_tool, "{\"path\":\"@small.txt\"}");
    assert_text(o.text, "one\ntwo\n");
    assert_int_equal(o.diagnostics.len, 0);
    put_lines(w, "long.txt", 2500);
    o = call_tool(w, &read_tool, "{\"path\":\"long.txt\"}");
    assert_true(tci_str_ends(o.text, TC_STR("line 2000")));
    assert_has(o.diagnostics, "Showing lines 1-2000 of 2501. Use offset=2001 to continue.");
    assert_has(o.result.details, "\"truncatedBy\":\"lines\",\"totalLines\":2500");
    o = call_tool(w, &read_tool, "{\"path\":\"long.txt\",\"offset\":2001}");
    assert_true(tci_str_starts(o.text, TC_STR("line 2001\n")));
    assert_true(tci_str_ends(o.text, TC_STR("line 2500\n")));
    o = call_tool(w, &read_tool, "{\"path\":\"long.txt\",\"offset\":10,\"limit\":2}");
    assert_text(o.text, "line 10\nline 11");
    assert_has(o.diagnostics, "2490 more lines in file. Use offset=12 to continue.");
    o = call_tool(w, &read_tool, "{\"path\":\"small.txt\",\"offset\":9}");
    assert_text(o.failure, "Offset 9 is beyond end of file (3 lines total)");
    put_file(w, "empty", "", 0);
    o = call_tool(w, &read_tool, "{\"path\":\"empty\"}");
    assert_int_equal(o.rc, 0);
    assert_int_equal(o.text.len, 0);
    o = call_tool(w, &read_tool, "{\"path\":\"missing\"}");
    assert_true(o.rc < 0);
}

static void read_cuts_a_long_line(void **state)
{
    world *w = *state;
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_str(&b, TC_STR("short\n"));
    for (int i = 0; i < 30000; i++)
        tci_buf_append_str(&b, TC_STR("\xE2\x82\xAC"));
    put_file(w, "wide.txt", b.ptr, b.len);
    outcome o = call_tool(w, &read_tool, "{\"path\":\"wide.txt\",\"offset\":2}");
    assert_int_equal(o.text.len, 51198);
    assert_has(o.diagnostics,
               "Line 2 is 87.9KB, exceeds the 50.0KB limit; showing its first 50.0KB. Use "
               "bash: sed -n '2p' wide.txt | tail -c +51199");
    tci_buf_done(&b);
}

static void read_knows_images_by_content_case_35(void **state)
{
    static const char png[] =
        "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\2\0\0\0\3\x08\2\0\0\0....\0\0\0\0IDAT....";
    world *w = *state;
    put_file(w, "notes.txt", png, sizeof png - 1);
    outcome o = call_tool(w, &read_tool, "{\"path\":\"notes.txt\"}");
    assert_int_equal(o.rc, 0);
    assert_has(o.result.output, "\"type\":\"image\",\"data\":\"iVBORw0KGgo");
    assert_has(o.diagnostics, "Read image file [image/png].");
    put_file(w, "bad.gif", "GIF89a\xFF\x7F\x01\0", 10);
    o = call_tool(w, &read_tool, "{\"path\":\"bad.gif\"}");
    assert_true(o.result.is_error);
    assert_has(o.diagnostics, "of 32767x1, larger than 2000x2000");
}

static void read_names_what_is_no_text_case_35(void **state)
{
    world *w = *state;
    char elf[400];
    for (size_t i = 0; i < sizeof elf; i++)
        elf[i] = (char)(i * 37);
    memcpy(elf,
           "\x7F"
           "ELF",
           4);
    put_file(w, "prog", elf, sizeof elf);
    outcome o = call_tool(w, &read_tool, "{\"path\":\"prog\"}");
    assert_text(o.failure, "prog is an ELF program or library (400B) and cannot be shown as text");
    static const char wide[] = "h\0e\0l\0l\0o\0\n\0w\0o\0r\0l\0d\0";
    put_file(w, "wide", wide, sizeof wide - 1);
    o = call_tool(w, &read_tool, "{\"path\":\"wide\"}");
    assert_has(o.failure, "UTF-16LE text");
    o = call_tool(w, &edit_tool,
                  "{\"path\":\"wide\",\"edits\":{\"oldText\":\"h\",\"newText\":\"j\"}}");
    assert_has(o.failure, "It is UTF-16LE text, and edit changes UTF-8 only.");
    assert_int_equal(get_file(w, "wide").len, sizeof wide - 1);
    static const char log[] = "a log with\0one NUL in it\n";
    put_file(w, "log", log, sizeof log - 1);
    o = call_tool(w, &read_tool, "{\"path\":\"log\"}");
    assert_has(o.result.output, "with\\u0000one NUL");
}

static void read_finds_names_typed_otherwise(void **state)
{
    world *w = *state;
    put_file(w,
             "Shot 9.41\xE2\x80\xAF"
             "AM.txt",
             "n", 1);
    put_file(w, "it\xE2\x80\x99s.txt", "c", 1);
    put_file(w, "cafe\xCC\x81.txt", "d", 1);
    assert_text(call_tool(w, &read_tool, "{\"path\":\"Shot 9.41 AM.txt\"}").text, "n");
    assert_text(call_tool(w, &read_tool, "{\"path\":\"it's.txt\"}").text, "c");
    assert_text(call_tool(w, &read_tool, "{\"path\":\"caf\xC3\xA9.txt\"}").text, "d");
}

/* ---- write, edit ---- */

static void write_makes_parents(void **state)
{
    world *w = *state;
    outcome o =
        call_tool(w, &write_tool, "{\"path\":\"new/dir/f.txt\",\"content\":\"h\xC3\xA9\\n\"}");
    assert_text(o.text, "Successfully wrote to new/dir/f.txt");
    assert_text(get_file(w, "new/dir/f.txt"), "h\xC3\xA9\n");
    tc_ctx *ctx;
    assert_ok(w, tc_ctx_new(-1, &ctx, &w->err));
    tc_ctx_cancel(ctx);
    o = call_tool_in(w, w->env, ctx, &write_tool, "{\"path\":\"never\",\"content\":\"x\"}");
    assert_true(o.rc < 0);
    tc_ctx_free(ctx);
    assert_false(has_file(w, "never"));
}

static void edit_keeps_bytes_and_tells_what_changed_case_28(void **state)
{
    world *w = *state;
    static const char before[] = "\xEF\xBB\xBF"
                                 "alpha\r\nbeta\xFF\r\ngamma\r\n";
    put_file(w, "e.txt", before, sizeof before - 1);
    outcome o =
        call_tool(w, &edit_tool,
                  "{\"path\":\"e.txt\",\"edits\":\"[{\\\"oldText\\\":\\\"alpha\\\",\\\"newText\\\":"
                  "\\\"first\\\\nalpha\\\"}]\"}");
    assert_text(o.text, "Successfully replaced 1 block(s) in e.txt.");
    assert_text(get_file(w, "e.txt"), "\xEF\xBB\xBF"
                                      "first\r\nalpha\r\nbeta\xFF\r\ngamma\r\n");
    assert_has(o.result.details, "\"firstChangedLine\":1");
    o = call_tool(w, &edit_tool,
                  "{\"path\":\"e.txt\",\"oldText\":\"gamma\",\"newText\":\"delta\"}");
    assert_int_equal(o.rc, 0);
    assert_has(o.result.details, "-4 gamma\\n+4 delta");
    o = call_tool(w, &edit_tool,
                  "{\"path\":\"none\",\"edits\":[{\"oldText\":\"a\",\"newText\":\"b\"}]}");
    assert_text(o.failure, "Could not edit file: none. Error code: not_found.");
    o = call_tool(w, &edit_tool,
                  "{\"path\":\".\",\"edits\":[{\"oldText\":\"a\",\"newText\":\"b\"}]}");
    assert_text(o.failure, "Could not edit file: .. Path is not a file.");
    o = call_tool(w, &edit_tool, "{\"path\":\"e.txt\",\"edits\":[]}");
    assert_has(o.failure, "edits must contain at least one replacement");
}

/* ---- one change after another ---- */

enum { WRITERS = 8, ROUNDS = 12 };
typedef struct writer {
    world *w;
    int number, nfailed;
} writer;

/* Each adds lines of its own to one file, through two names for it. */
static void add_lines(void *arg)
{
    writer *me = arg;
    tc_result *r;
    tc_err err;
    me->nfailed = tc_result_new(&r, &err) < 0;
    if (me->nfailed > 0)
        return;
    world mine = *me->w;
    mine.r = r;
    for (int i = 0; i < ROUNDS; i++) {
        char text[300];
        snprintf(text, sizeof text,
                 "{\"path\":\"%s\",\"edits\":[{\"oldText\":\"end\",\"newText\":\"%d.%d\\nend\"}]}",
                 me->number % 2 == 0 ? "shared.txt" : "./link.txt", me->number, i);
        outcome o = call_tool_in(&mine, mine.env, NULL, &edit_tool, text);
        me->nfailed += o.rc != 0;
    }
    tc_result_free(r);
}

static void edits_of_one_file_take_turns(void **state)
{
    world *w = *state;
    tci_thread *threads[WRITERS];
    writer writers[WRITERS];
    put_file(w, "shared.txt", "end\n", 4);
    assert_int_equal(call_tool(w, &bash_tool, "{\"command\":\"ln -s shared.txt link.txt\"}").rc, 0);
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (writer){w, i, 0};
        assert_ok(w, tci_thread_new(add_lines, &writers[i], 0, &threads[i], &w->err));
    }
    for (int i = 0; i < WRITERS; i++)
        tci_thread_join(threads[i]);
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(writers[i].nfailed, 0);
    tc_str text = get_file(w, "shared.txt");
    assert_int_equal(tci_str_count_byte(text, '\n'), WRITERS * ROUNDS + 1);
}

static void who_gives_up_waiting_does_not_pass_the_turn_on(void **state)
{
    world *w = *state;
    tc_file_turn *first, *second, *third;
    tc_ctx *ctx;
    assert_ok(w, tc_ctx_new(-1, &ctx, &w->err));
    assert_ok(w, tci_turns_join(w->turns, TC_STR("k"), &first, &w->err));
    assert_ok(w, tci_turn_wait(first, NULL, &w->err));
    assert_ok(w, tci_turns_join(w->turns, TC_STR("k"), &second, &w->err));
    tc_ctx_cancel(ctx);
    assert_int_equal(tci_turn_wait(second, ctx, &w->err), TC_E_CANCELLED);
    tc_ctx_reset(ctx, 30);
    assert_ok(w, tci_turns_join(w->turns, TC_STR("k"), &third, &w->err));
    assert_int_equal(tci_turn_wait(third, ctx, &w->err), TC_E_TIMEOUT);
    tc_file_turn_end(first);
    assert_ok(w, tci_turns_join(w->turns, TC_STR("k"), &third, &w->err));
    assert_ok(w, tci_turn_wait(third, NULL, &w->err));
    tc_file_turn_end(third);
    tc_ctx_free(ctx);
}

/* ---- bash ---- */

static void bash_gives_output_and_code(void **state)
{
    world *w = *state;
    outcome o = call_tool(w, &bash_tool, "{\"command\":\"echo out; echo err >&2; pwd\"}");
    assert_int_equal(o.rc, 0);
    assert_has(o.kept, "out\n");
    assert_has(o.kept, "err\n");
    assert_has(o.kept, w->root);
    assert_has(o.result.structured_output, "\"truncated\":false,\"exitCode\":0");
    o = call_tool(w, &bash_tool, "{\"command\":\"echo no; exit 3\"}");
    assert_int_equal(o.rc, 0);
    assert_true(o.result.is_error);
    assert_has(o.diagnostics, "\"code\":\"exit_code\",\"message\":\"Command exited with code 3\"");
    o = call_tool(w, &bash_tool, "{\"command\":\"echo begun; sleep 30\",\"timeout\":2.5}");
    assert_text(o.failure, "Command timed out after 2.5 seconds");
    assert_has(o.kept, "begun");
    o = call_tool(w, &bash_tool, "{\"command\":\"true\",\"timeout\":0}");
    assert_text(o.failure, "Invalid timeout: must be a finite number of seconds");
    o = call_tool(w, &bash_tool, "{\"command\":\"true\",\"timeout\":2147484}");
    assert_text(o.failure, "Invalid timeout: maximum is 2147483.647 seconds");
}

static void bash_keeps_all_of_long_output(void **state)
{
    world *w = *state;
    outcome o = call_tool(w, &bash_tool, "{\"command\":\"seq 1 30000\"}");
    assert_int_equal(o.rc, 0);
    assert_true(tci_str_ends(o.kept, TC_STR("29999\n30000\n")));
    assert_int_equal(tci_output_count_lines(o.kept), 2000);
    assert_has(o.diagnostics, "\"code\":\"full_output\",\"message\":\"Full output: ");
    assert_has(o.result.structured_output, "\"truncated\":true");
    assert_has(o.result.structured_output, "\"fullOutputPath\":");
}

static int put_variable(void *user, tc_result *r, tc_bash_command *command, tc_err *err)
{
    static const tc_pair pair = {{"GREETING", 8}, {"hello", 5}};
    (void)user;
    (void)r;
    (void)err;
    command->set_env = &pair;
    command->nset_env = 1;
    return 0;
}

static void bash_can_be_prepared(void **state)
{
    world *w = *state;
    tc_bash_options o = {
        .size = sizeof o, .command_prefix = TC_STR("set -u"), .prepare = put_variable};
    tc_tool tool;
    tc_tool_bash(&o, &tool);
    outcome done = call_tool(w, &tool, "{\"command\":\"echo $GREETING; echo $NOT_THERE\"}");
    assert_has(done.kept, "hello");
    assert_true(done.result.is_error);
}

/* ---- ls, find, grep ---- */

static void ls_lists_with_kinds_and_pages(void **state)
{
    world *w = *state;
    assert_int_equal(call_tool(w, &bash_tool,
                               "{\"command\":\"mkdir -p l/sub l/.hid && touch l/b l/a l/Z && "
                               "ln -s a l/link && cd l && mkdir many && for i in $(seq 700); do "
                               "touch many/f$(printf %04d $i); done\"}")
                         .rc,
                     0);
    outcome o = call_tool(w, &ls_tool, "{\"path\":\"l\"}");
    assert_text(o.text, ".hid/\nZ\na\nb\nlink@\nmany/\nsub/\n");
    o = call_tool(w, &ls_tool, "{\"path\":\"l/many\"}");
    assert_has(o.diagnostics, "Showing entries 1-500 of 700. Use offset=501 to continue.");
    o = call_tool(w, &ls_tool, "{\"path\":\"l/many\",\"offset\":699}");
    assert_text(o.text, "f0699\nf0700\n");
    o = call_tool(w, &ls_tool, "{\"path\":\"l/many\",\"offset\":701}");
    assert_text(o.failure, "Offset 701 is beyond the end (700 entries)");
    o = call_tool(w, &ls_tool, "{\"path\":\"l/a\"}");
    assert_true(o.rc < 0);
    assert_text(call_tool(w, &ls_tool, "{\"path\":\"l/sub\"}").text, "(empty folder)\n");
}

static void find_matches_globs(void **state)
{
    world *w = *state;
    assert_int_equal(
        call_tool(w, &bash_tool,
                  "{\"command\":\"mkdir -p t/src/deep t/.git t/out && cd t && touch a.c "
                  "src/b.c src/deep/c.c src/b.h .git/x.c out/o.c && git init -q . "
                  "2>/dev/null; echo out/ > .gitignore\"}")
            .rc,
        0);
    outcome o = call_tool(w, &find_tool, "{\"pattern\":\"*.c\",\"path\":\"t\"}");
    assert_text(o.text, "t/a.c\nt/src/b.c\nt/src/deep/c.c\n");
    o = call_tool(w, &find_tool, "{\"pattern\":\"src/*\",\"path\":\"t\"}");
    assert_text(o.text, "t/src/b.c\nt/src/b.h\nt/src/deep/\n");
    o = call_tool(w, &find_tool, "{\"pattern\":\"*.c\",\"path\":\"t\",\"limit\":1,\"offset\":2}");
    assert_text(o.text, "t/src/b.c\n");
    assert_has(o.diagnostics, "Showing matches 2-2 of 3. Use offset=3 to continue.");
    assert_text(call_tool(w, &find_tool, "{\"pattern\":\"*.rs\",\"path\":\"t\"}").text,
                "No files found matching the pattern\n");
}

static void grep_shows_lines_with_context(void **state)
{
    world *w = *state;
    put_file(w, "g/one.txt", "a\nb\nneedle 1\nd\ne\n", 17);
    put_file(w, "g/two.md", "Needle 2\nlast needle\n", 21);
    outcome o = call_tool(w, &grep_tool, "{\"pattern\":\"needle\",\"path\":\"g\"}");
    assert_text(o.text, "g/one.txt:3: needle 1\ng/two.md:2: last needle\n");
    o = call_tool(w, &grep_tool,
                  "{\"pattern\":\"^needle\",\"path\":\"g\",\"ignoreCase\":true,\"context\":1}");
    assert_text(o.text,
                "g/one.txt-2- b\ng/one.txt:3: needle 1\ng/one.txt-4- d\n--\ng/two.md:1: Needle 2\n"
                "g/two.md-2- last needle\n");
    o = call_tool(w, &grep_tool, "{\"pattern\":\"needle\",\"path\":\"g\",\"glob\":\"*.md\"}");
    assert_text(o.text, "g/two.md:2: last needle\n");
    o = call_tool(w, &grep_tool, "{\"pattern\":\"needle\",\"path\":\"g\",\"limit\":1}");
    assert_text(o.text, "g/one.txt:3: needle 1\n");
    assert_has(o.diagnostics, "Use offset=2 to continue.");
    o = call_tool(w, &grep_tool,
                  "{\"pattern\":\"needle\",\"path\":\"g\",\"limit\":1,\"offset\":2}");
    assert_text(o.text, "g/two.md:2: last needle\n");
    o = call_tool(w, &grep_tool,
                  "{\"pattern\":\"e 1\",\"path\":\"g/one.txt\",\"literal\":true,\"context\":1}");
    assert_text(o.text, "g/one.txt-2- b\ng/one.txt:3: needle 1\ng/one.txt-4- d\n");
    assert_text(call_tool(w, &grep_tool, "{\"pattern\":\"zzz\",\"path\":\"g\"}").text,
                "No matches found\n");
    assert_true(call_tool(w, &grep_tool, "{\"pattern\":\"(\",\"path\":\"g\"}").rc < 0);
}

static void grep_shows_parts_of_a_long_line_case_25_26(void **state)
{
    world *w = *state;
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    for (int i = 0; i < 200000; i++)
        tci_buf_append_str(&b,
                           i == 80000 || i == 180000 ? TC_STR("the needle") : TC_STR("0123456789"));
    put_file(w, "bundle/min.js", b.ptr, b.len);
    tci_buf_done(&b);
    const char *roots[] = {"bundle", "bundle/min.js"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(roots); i++) {
        char arguments[100];
        snprintf(arguments, sizeof arguments, "{\"pattern\":\"needle\",\"path\":\"%s\"}", roots[i]);
        outcome o = call_tool(w, &grep_tool, arguments);
        assert_int_equal(o.rc, 0);
        assert_true(o.text.len < 1000);
        assert_has(o.text, "bundle/min.js:1:800005: ...");
        assert_has(o.text, "bundle/min.js:1:1800005: ...");
        assert_has(o.text, "the needle0123");
    }
}

int main(void)
{
    make_tools();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_environment_every_tool_fails_case_71),
        cmocka_unit_test(broken_link_is_an_error_and_nothing_runs_here_case_71),
        cmocka_unit_test(read_gives_the_text_and_remarks),
        cmocka_unit_test(read_cuts_a_long_line),
        cmocka_unit_test(read_knows_images_by_content_case_35),
        cmocka_unit_test(read_names_what_is_no_text_case_35),
        cmocka_unit_test(read_finds_names_typed_otherwise),
        cmocka_unit_test(write_makes_parents),
        cmocka_unit_test(edit_keeps_bytes_and_tells_what_changed_case_28),
        cmocka_unit_test(edits_of_one_file_take_turns),
        cmocka_unit_test(who_gives_up_waiting_does_not_pass_the_turn_on),
        cmocka_unit_test(bash_gives_output_and_code),
        cmocka_unit_test(bash_keeps_all_of_long_output),
        cmocka_unit_test(bash_can_be_prepared),
        cmocka_unit_test(ls_lists_with_kinds_and_pages),
        cmocka_unit_test(find_matches_globs),
        cmocka_unit_test(grep_shows_lines_with_context),
        cmocka_unit_test(grep_shows_parts_of_a_long_line_case_25_26),
    };
    return cmocka_run_group_tests(tests, world_open, world_close);
}
