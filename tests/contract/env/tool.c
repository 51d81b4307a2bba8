/* SPDX-License-Identifier: Apache-2.0
 *
 * See tool.h. */
#include "tool.h"

#include "base/arena.h"
#include "client/client.h"
#include "plat/file.h"
#include <sys/stat.h>

void bench_open_with(bench *b, fixture *f, const char *name, tc_env_options *options)
{
    *b = (bench){.f = f, .dir = folder(f, name)};
    options->working_directory = b->dir;
    assert_ok(f, make_env_with(f, options, &b->env));
    assert_ok(f, tc_env_ready(b->env, NULL, &f->err));
    assert_ok(f, tc_ctx_new(-1, &b->aborted, &f->err));
    tc_ctx_cancel(b->aborted);
    b->call = TC_CALL(NULL, f->r);
    b->dead = TC_CALL(b->aborted, f->r);
}

void bench_open(bench *b, fixture *f, const char *name)
{
    tc_env_options o = env_options((tc_str){0});
    bench_open_with(b, f, name, &o);
}

void bench_move_out(bench *b)
{
    assert_ok(b->f, tci_arena_printf(tci_result_arena(b->f->r), &b->dir, &b->f->err,
                                     "/tmp/telechir-contract-%d", tci_proc_self()));
    assert_ok(b->f, tci_file_mkdir(TCI_FILE_CWD, b->dir, 0700, &b->f->err));
    assert_ok(b->f, tc_env_set_cwd(b->env, b->dir, &b->f->err));
    b->is_out = true;
}

void bench_close(bench *b)
{
    if (b->is_out)
        assert_ok(b->f, tc_env_remove_path(b->env, &b->call, b->dir, true, false, &b->f->err));
    tc_env_release(b->env);
    tc_ctx_free(b->aborted);
}

tc_str below(const bench *b, const char *name)
{
    tc_str path;
    assert_ok(b->f, tci_arena_printf(tci_result_arena(b->f->r), &path, &b->f->err, "%.*s/%s",
                                     TC_STR_ARG(b->dir), name));
    return path;
}

void put_file(const bench *b, const char *name, tc_str bytes)
{
    tci_file file = TCI_FILE_NONE;
    assert_ok(b->f,
              tci_file_open(below(b, name), TCI_OPEN_WRITE | TCI_OPEN_CREATE | TCI_OPEN_TRUNCATE,
                            0644, &file, &b->f->err));
    assert_ok(b->f, tci_file_write_all(file, bytes.ptr, bytes.len, &b->f->err));
    tci_file_close(&file);
}

tc_str get_file(const bench *b, const char *name)
{
    char *bytes;
    size_t len;
    tc_str copy;
    assert_ok(b->f, tci_file_read_whole(TCI_FILE_CWD, below(b, name), 64 << 20, &bytes, &len,
                                        &b->f->err));
    assert_ok(b->f, tc_result_dup(b->f->r, tci_str_of(bytes, len), &copy, &b->f->err));
    tci_free(bytes);
    return copy;
}

bool is_there(const bench *b, const char *name)
{
    tci_file_stat st;
    tc_err err;
    return tci_file_stat_at(TCI_FILE_CWD, below(b, name), false, &st, &err) == 0;
}

void put_dir(const bench *b, const char *name)
{
    assert_ok(b->f, tci_file_mkdir(TCI_FILE_CWD, below(b, name), 0755, &b->f->err));
}

void put_link(const bench *b, const char *target, const char *name)
{
    assert_ok(b->f, tci_file_symlink(text(target), TCI_FILE_CWD, below(b, name), &b->f->err));
}

void put_fifo(const bench *b, const char *name)
{
    tc_str path = below(b, name);
    char cpath[4096];
    assert_ok(b->f, tci_cstr(path, cpath, sizeof cpath, &b->f->err));
    assert_int_equal(mkfifo(cpath, 0600), 0);
}

int run_suite(int argc, char **argv, const struct CMUnitTest *tests, size_t ntests)
{
    if (!fixture_choose(argc, argv))
        return TEST_SKIPPED;
    return _cmocka_run_group_tests(argv[0], tests, ntests, fixture_open, fixture_close);
}
