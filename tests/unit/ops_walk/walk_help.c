/* SPDX-License-Identifier: Apache-2.0 */
#include "walk_help.h"

#include <spawn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { OUT_MAX = 64 << 20 };

int fix_setup(void **state)
{
    fix *f = tci_new(fix);
    const char *base = getenv("TC_TEST_DIR");
    if (f == NULL || base == NULL)
        return -1;
    tci_arena_init(&f->arena, (size_t)1 << 30);
    (void)snprintf(f->root, sizeof f->root, "%s/XXXXXX", base);
    *state = f;
    return mkdtemp(f->root) == NULL ? -1 : tci_walk_cache_new(&f->cache, &f->err);
}

int fix_teardown(void **state)
{
    fix *f = *state;
    (void)shell(f, "chmod -R u+rwx . && rm -rf ./* ./.[!.]*", NULL);
    (void)rmdir(f->root);
    tci_walk_cache_free(f->cache);
    tci_arena_done(&f->arena);
    tci_free(f);
    return 0;
}

void put_bytes(const fix *f, const char *path, const void *bytes, size_t len)
{
    char full[1024];
    (void)snprintf(full, sizeof full, "%s/%s", f->root, path);
    for (char *p = full + strlen(f->root) + 1; (p = strchr(p, '/')) != NULL; p++) {
        *p = '\0';
        (void)mkdir(full, 0755); /* may be there */
        *p = '/';
    }
    FILE *out = fopen(full, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, len, out), len);
    assert_int_equal(fclose(out), 0);
}

void put(const fix *f, const char *path, const char *text)
{
    put_bytes(f, path, text, strlen(text));
}

int shell(const fix *f, const char *script, tci_buf *out)
{
    char command[4096];
    int pair[2], status = -1;
    pid_t pid;
    posix_spawn_file_actions_t actions;
    (void)snprintf(command, sizeof command, "cd '%s' && { %s\n}", f->root, script);
    char *argv[] = {(char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c", command, NULL};
    assert_int_equal(pipe(pair), 0);
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, pair[1], 1), 0);
    assert_int_equal(posix_spawn_file_actions_addclose(&actions, pair[0]), 0);
    assert_int_equal(posix_spawnp(&pid, "sh", &actions, NULL, argv, environ), 0);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(pair[1]);
    char buf[4096];
    ssize_t n;
    while ((n = read(pair[0], buf, sizeof buf)) > 0)
        if (out != NULL)
            tci_buf_append(out, buf, (size_t)n);
    (void)close(pair[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool has_program(const fix *f, const char *name)
{
    char script[128];
    (void)snprintf(script, sizeof script, "command -v %s >/dev/null", name);
    if (shell(f, script, NULL) == 0)
        return true;
    print_message("skipped: no %s here\n", name);
    return false;
}

static void put_entries(const tci_ops_entries *e, tci_buf *out)
{
    for (size_t i = 0; i < e->count; i++) {
        tci_buf_append_str(out, e->items[i].relative_path);
        tci_buf_append_byte(out, '\n');
    }
}

void find_all(fix *f, tci_ops_find_request req, uint64_t page, tci_buf *out)
{
    tci_ops_entries e = {.has_more = true};
    tci_walk_warn warn = {0};
    tci_buf_init(out, OUT_MAX);
    if (req.root.len == 0)
        req.root = tci_str(f->root);
    req.max_results = page;
    for (; e.has_more; req.offset += e.count) {
        int rc = tci_ops_find(&req, warn, NULL, f->cache, &f->arena, &e, &f->detail, &f->err);
        if (rc < 0)
            fail_msg("find: %s", f->err.msg);
        assert_true(e.count <= page);
        put_entries(&e, out);
    }
}

void list_all(fix *f, tci_ops_list_request req, uint64_t page, tci_buf *out)
{
    tci_ops_entries e = {.has_more = true};
    tci_buf_init(out, OUT_MAX);
    if (req.path.len == 0)
        req.path = tci_str(f->root);
    req.max_results = page;
    for (; e.has_more; req.offset += e.count) {
        int rc = tci_ops_list(&req, NULL, f->cache, &f->arena, &e, &f->err);
        if (rc < 0)
            fail_msg("list: %s", f->err.msg);
        put_entries(&e, out);
    }
}

void search_all(fix *f, tci_ops_search_request req, uint64_t page, tci_buf *out)
{
    tci_ops_matches m = {.has_more = true};
    tci_walk_warn warn = {0};
    tci_buf_init(out, OUT_MAX);
    if (req.root.len == 0)
        req.root = tci_str(f->root);
    if (req.max_line_length == 0)
        req.max_line_length = 1000;
    req.max_results = page;
    for (; m.has_more; req.offset += m.count) {
        int rc = tci_ops_search(&req, warn, NULL, f->cache, &f->arena, &m, &f->detail, &f->err);
        if (rc < 0)
            fail_msg("search: %s", f->err.msg);
        assert_true(m.count <= page);
        for (size_t i = 0; i < m.count; i++) {
            const tci_ops_match *x = &m.items[i];
            tc_str path = tci_str_sub(x->path, strlen(f->root) + 1, x->path.len);
            tci_buf_printf(out, "%.*s:%llu:", TC_STR_ARG(path), (unsigned long long)x->line_number);
            tci_buf_append_str(out, x->preview);
            tci_buf_append_byte(out, '\n');
        }
    }
}

unsigned pick(uint64_t *seed, unsigned n)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*seed >> 33) % n;
}

void assert_text(const tci_buf *got, const char *want)
{
    if (!tci_str_eq(tci_buf_str(got), tci_str(want)))
        fail_msg("got:\n%.*swanted:\n%s", (int)got->len, got->len > 0 ? got->ptr : "", want);
}
