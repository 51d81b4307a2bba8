/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechir cp`: from words to a plan, and the summary. Leaves trees to cp_walk.c and copying to
 * cp_run.c. The main thread. */
#include "cp.h"

enum { THREADS = 16, THREADS_EIP = 8, FLIGHT = 96 };

/* ---- one end's facts ---- */

typedef struct seen {
    bool is_there, is_folder, is_file, is_executable, is_private;
    uint64_t size;
} seen;

static int look_here(cli *c, const char *path, seen *ret)
{
    tci_file_stat st;
    enum { ANY_EXECUTE = 0111 };
    int rc = tci_file_stat_at(TCI_FILE_CWD, tci_str(path), true, &st, &c->err);
    *ret = (seen){0};
    if (rc == TC_E_NOT_FOUND)
        return 0;
    if (rc == 0)
        *ret = (seen){.is_there = true,
                      .is_folder = st.kind == TCI_FILE_KIND_DIRECTORY,
                      .is_file = st.kind == TCI_FILE_KIND_REGULAR,
                      .is_executable = (st.mode & ANY_EXECUTE) != 0,
                      .is_private = cp_is_private_mode(st.mode),
                      .size = st.size};
    return rc;
}

static int look(cli *c, const cli_place *p, seen *ret)
{
    tc_file_info info;
    tc_call call = cli_call(c);
    if (p->is_local)
        return look_here(c, p->path, ret);
    *ret = (seen){0};
    int rc = tc_env_stat(p->env, &call, tci_str(p->path), true, &info, &c->err);
    if (rc == TC_E_NOT_FOUND)
        return 0;
    if (rc == 0)
        *ret = (seen){.is_there = true,
                      .is_folder = info.kind == TC_FILE_DIRECTORY,
                      .is_file = info.kind == TC_FILE_REGULAR,
                      .is_executable = info.is_executable,
                      .is_private = info.has_mode && cp_is_private_mode(info.mode),
                      .size = info.size_bytes};
    return rc;
}

/* The absolute path, links resolved when it is here (its last part must then exist). */
static int absolute(cli *c, const cli_place *p, tc_str *ret)
{
    if (p->is_local) {
        char buf[TCI_PATH_MAX];
        int rc = tci_file_realpath(tci_str(p->path), buf, ret, &c->err);
        return rc == 0 ? tci_arena_dup(&c->arena, *ret, ret, &c->err) : rc;
    }
    int rc = tc_env_absolute_path(p->env, tci_str(p->path), c->result, ret, &c->err);
    return rc == 0 ? tci_arena_dup(&c->arena, *ret, ret, &c->err) : rc;
}

/* ---- where it goes ---- */

typedef struct goal {
    cli_place place;
    seen seen;
    bool is_into; /* sources go into this folder */
} goal;

/* The last part of a source as it was typed, by which it is known in a folder; empty for "." and
 * the like, whose content goes there itself. */
static tc_str typed_name(const char *path)
{
    tc_str s = tci_str(path);
    while (s.len > 1 && s.ptr[s.len - 1] == '/')
        s.len--;
    size_t slash = tci_str_rfind_byte(s, '/');
    tc_str name = slash < s.len ? tci_str_sub(s, slash + 1, SIZE_MAX) : s;
    bool is_name = !tci_str_eq(name, TC_STR(".")) && !tci_str_eq(name, TC_STR(".."));
    return is_name ? name : TC_STR("");
}

/* The folder that will hold the copy, and its name in there. */
static int holder_of(cli *c, const goal *g, tc_str source_name, cp_end *ret_end, tc_str *ret_name)
{
    cli_place p = g->place;
    *ret_end = (cp_end){.env = p.env, .dir = TCI_FILE_NONE};
    if (g->is_into) {
        *ret_name = source_name;
        return absolute(c, &p, &ret_end->path);
    }
    if (g->seen.is_there || !p.is_local) {
        /* A link here is followed: what it names is replaced, the link stays. */
        tc_str whole, parent;
        int rc = absolute(c, &p, &whole);
        if (rc < 0)
            return rc;
        tci_path_split(whole, &parent, ret_name);
        ret_end->path = parent;
        return 0;
    }
    tc_str typed = tci_str(p.path);
    while (typed.len > 1 && typed.ptr[typed.len - 1] == '/')
        typed.len--;
    size_t slash = tci_str_rfind_byte(typed, '/');
    *ret_name = slash < typed.len ? tci_str_sub(typed, slash + 1, SIZE_MAX) : typed;
    tc_str parent = slash < typed.len ? tci_str_sub(typed, 0, slash > 0 ? slash : 1) : TC_STR(".");
    char *text;
    int rc = tci_arena_cstr(&c->arena, parent, &text, &c->err);
    p.path = text;
    return rc == 0 ? absolute(c, &p, &ret_end->path) : rc;
}

static int open_end(cli *c, cp_end *end)
{
    if (end->env != NULL)
        return 0;
    return tci_file_open(end->path, TCI_OPEN_READ | TCI_OPEN_DIRECTORY, 0, &end->dir, &c->err);
}

/* ---- adding sources ---- */

static int add_file(cp_job *job, const cli_place *p, const seen *s, const goal *g, cp_root *root)
{
    cli *c = job->c;
    tc_str whole, parent, name, to_name;
    int rc = absolute(c, p, &whole);
    if (rc == 0)
        rc = holder_of(c, g, typed_name(p->path), &root->to, &to_name);
    if (rc < 0)
        return rc;
    tci_path_split(whole, &parent, &name);
    root->from = (cp_end){.env = p->env, .path = parent, .dir = TCI_FILE_NONE};
    rc = open_end(c, &root->from);
    if (rc == 0)
        rc = open_end(c, &root->to);
    cp_item item = {.root = root, .from = name, .to = to_name, .size = s->size};
    item.is_executable = s->is_executable;
    return rc == 0 ? cp_list_add(job, &job->files, &item) : rc;
}

/* The folder that the tree becomes: made now, so that it can be opened. */
static int make_top(cp_job *job, cp_root *root, tc_str name, bool is_private)
{
    enum { FOLDER_MODE = 0777, PRIVATE_MODE = 0700 };
    cli *c = job->c;
    cp_end *to = &root->to;
    int rc = open_end(c, to);
    if (rc < 0 || name.len == 0)
        return rc;
    tci_buf path;
    tci_buf_init(&path, TCI_BUF_MAX);
    rc = tci_arena_dup(&c->arena, cp_join(&path, to->path, name), &to->path, &c->err);
    tci_buf_done(&path);
    if (rc < 0)
        return rc;
    if (to->env != NULL) {
        tc_call call = cli_call(c);
        tc_file_info info;
        rc = tc_env_mkdir(to->env, &call, to->path, false, false, &c->err);
        if (rc == 0 && is_private)
            return cp_make_private(job, to->env, to->path, c->result, &c->err);
        if (rc != TC_E_CONFLICT)
            return rc;
        rc = tc_env_stat(to->env, &call, to->path, false, &info, &c->err);
        return rc == 0 && info.kind != TC_FILE_DIRECTORY
                   ? tc_err_set(&c->err, TC_E_CONFLICT, "'%.*s' is not a folder",
                                TC_STR_ARG(to->path))
                   : rc;
    }
    tci_file made = TCI_FILE_NONE;
    rc = tci_file_mkdir(to->dir, name, is_private ? PRIVATE_MODE : FOLDER_MODE, &c->err);
    if (rc == 0 || rc == TC_E_CONFLICT)
        rc = tci_file_openat(to->dir, name, TCI_OPEN_READ | TCI_OPEN_DIRECTORY | TCI_OPEN_NOFOLLOW,
                             0, &made, &c->err);
    tci_file_close(&to->dir);
    to->dir = made;
    return rc;
}

static bool is_this_machine(const cp_end *end)
{
    return end->env == NULL || tci_str_eq(tc_env_provider(end->env), TC_STR("local"));
}

/* Links resolved, where the path is on this machine and there. */
static int real_path(cli *c, const cp_end *end, tc_str *ret)
{
    char buf[TCI_PATH_MAX];
    tc_err ignored; /* what is wrong with it will be told by its use */
    tc_str path;
    *ret = end->path;
    if (!is_this_machine(end) || tci_file_realpath(end->path, buf, &path, &ignored) < 0)
        return 0;
    return tci_arena_dup(&c->arena, path, ret, &c->err);
}

/* Copying a folder into itself would not end. */
static int check_inside(cli *c, const cp_root *root)
{
    tc_str from, to;
    bool is_same = root->from.env == root->to.env ||
                   (is_this_machine(&root->from) && is_this_machine(&root->to));
    if (real_path(c, &root->from, &from) < 0 || real_path(c, &root->to, &to) < 0)
        return c->err.code;
    bool is_below = tci_str_starts(to, from) && (to.len == from.len || to.ptr[from.len] == '/' ||
                                                 tci_str_ends(from, TC_STR("/")));
    if (is_same && is_below)
        return tc_err_set(&c->err, TC_E_INVALID, "'%.*s' cannot be copied into itself",
                          TC_STR_ARG(from));
    return 0;
}

static int add_tree(cp_job *job, const cli_place *p, const seen *s, const goal *g, cp_root *root)
{
    cli *c = job->c;
    tc_str name;
    if (!job->is_recursive) {
        tc_err_set(&c->err, TC_E_INVALID, "'%s' is a folder", p->path);
        return tc_err_hint(&c->err, "pass -r to copy it with all that is in it");
    }
    root->from = (cp_end){.env = p->env, .dir = TCI_FILE_NONE};
    int rc = absolute(c, p, &root->from.path);
    if (rc == 0)
        rc = holder_of(c, g, typed_name(p->path), &root->to, &name);
    if (rc == 0)
        rc = check_inside(c, root);
    if (rc == 0)
        rc = open_end(c, &root->from);
    if (rc == 0)
        rc = make_top(job, root, name, s->is_private);
    return rc == 0 ? cp_walk(job, root) : rc;
}

static int add_source(cp_job *job, const char *text, const goal *g, cp_root *root)
{
    cli *c = job->c;
    cli_place p;
    seen s;
    int rc = cli_place_of(c, text, &p);
    if (rc == 0)
        rc = look(c, &p, &s);
    if (rc < 0)
        return rc;
    if (!s.is_there)
        return tc_err_set(&c->err, TC_E_NOT_FOUND, "'%s' is not there", text);
    if (s.is_folder)
        return add_tree(job, &p, &s, g, root);
    if (!s.is_file)
        return tc_err_set(&c->err, TC_E_UNSUPPORTED, "'%s' is neither a file nor a folder", text);
    return add_file(job, &p, &s, g, root);
}

/* ---- the whole ---- */

static int find_goal(cli *c, goal *g)
{
    const char *text = c->args[c->nargs - 1];
    int rc = cli_place_of(c, text, &g->place);
    if (rc == 0)
        rc = look(c, &g->place, &g->seen);
    if (rc < 0)
        return rc;
    g->is_into = g->seen.is_folder;
    if (!g->is_into && c->nargs > 2)
        return tc_err_set(&c->err, TC_E_INVALID, "'%s' is not a folder", text);
    if (!g->is_into && tci_str_ends(tci_str(text), TC_STR("/")) && !cli_has(c, "recursive"))
        return tc_err_set(&c->err, TC_E_NOT_FOUND, "there is no folder '%s'", text);
    return 0;
}

static bool summary(cp_job *job)
{
    cli *c = job->c;
    const cp_counts *n = &job->counts;
    char size[CLI_SIZE_TEXT_MAX];
    if (!c->is_json) {
        cli_detail(c, "copied %llu file%s (%s), made %llu folder%s, %llu equal",
                   (unsigned long long)n->files, cli_s(n->files), cli_size_text(n->bytes, size),
                   (unsigned long long)n->folders, cli_s(n->folders), (unsigned long long)n->equal);
        return true;
    }
    tci_buf b;
    bool first = true;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    cli_json_u64(&b, &first, "files", n->files);
    cli_json_u64(&b, &first, "folders", n->folders);
    cli_json_u64(&b, &first, "bytes", n->bytes);
    cli_json_u64(&b, &first, "equal", n->equal);
    cli_json_u64(&b, &first, "skipped", n->skipped);
    cli_json_u64(&b, &first, "failed", n->failed);
    cli_json_u64(&b, &first, "unknown", n->unknown);
    tci_buf_append_byte(&b, '}');
    bool is_fine = cli_out_json(c, &b);
    tci_buf_done(&b);
    return is_fine;
}

/* As many as hide the way there and back, unless --jobs says it. */
static void choose_threads(cp_job *job)
{
    const cli *c = job->c;
    bool is_eip = false;
    for (size_t i = 0; i < c->nenvs; i++)
        is_eip = is_eip || cli_is_eip(c->envs[i].env);
    job->nflight = job->nthreads > 0 ? job->nthreads : FLIGHT;
    if (job->nthreads == 0)
        job->nthreads = is_eip ? THREADS_EIP : THREADS;
}

static int copy(cp_job *job, cp_root *roots)
{
    cli *c = job->c;
    goal g = {0};
    int rc = find_goal(c, &g);
    for (size_t i = 0; rc == 0 && i + 1 < c->nargs; i++)
        rc = add_source(job, c->args[i], &g, &roots[i]);
    choose_threads(job);
    return rc == 0 ? cp_run(job, roots, c->nargs - 1) : rc;
}

/* What became of it, also when it ended early. */
static int finish(cp_job *job, int rc)
{
    cli *c = job->c;
    const cp_counts *n = &job->counts;
    tc_err why = c->err;
    bool is_begun = n->files + n->folders + n->equal + n->failed > 0;
    if (rc == 0)
        rc = summary(job) ? 0 : c->err.code;
    else if (is_begun && summary(job))
        c->err = why;
    if (rc < 0 && is_begun)
        cli_warn(
            c, "it ended early: %llu file%s copied; the same command with --checksum does the rest",
            (unsigned long long)n->files, cli_s(n->files));
    int status = rc < 0 ? cli_fail(c) : CLI_OK;
    if (status == CLI_OK && n->failed > 0) {
        cli_warn(c, "%llu could not be copied", (unsigned long long)n->failed);
        status = CLI_FAILED;
    }
    /* Ctrl-C and usage keep their own. */
    return n->unknown > 0 && cli_caught() == 0 ? tc_code_exit_status(TC_E_UNKNOWN_OUTCOME) : status;
}

int cmd_cp(cli *c)
{
    cp_job job = {
        .c = c, .is_checksum = cli_has(c, "checksum"), .is_recursive = cli_has(c, "recursive")};
    if (!cli_want_args(c, 2, SIZE_MAX) || !cli_number(c, "jobs", 1, 0, &job.nthreads))
        return cli_fail(c);
    if (job.nthreads > CP_THREADS_MAX)
        return cli_usage(c, "--jobs is at most %d", CP_THREADS_MAX);
    cp_root *roots = tci_arena_items(&c->arena, cp_root, c->nargs);
    if (roots == NULL) {
        (void)tci_arena_error(&c->arena, &c->err);
        return cli_fail(c);
    }
    for (size_t i = 0; i < c->nargs; i++)
        roots[i].from.dir = roots[i].to.dir = TCI_FILE_NONE;
    tci_mutex_init(&job.lock);
    int status = finish(&job, copy(&job, roots));
    tci_mutex_done(&job.lock);
    for (size_t i = 0; i < c->nargs; i++) {
        tci_file_close(&roots[i].from.dir);
        tci_file_close(&roots[i].to.dir);
    }
    return status;
}
