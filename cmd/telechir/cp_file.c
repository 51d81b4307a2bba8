/* SPDX-License-Identifier: Apache-2.0
 *
 * One file from one end to the other. Any thread. Invariant: the destination is the old file or the
 * whole new one, never a part; here that is a file beside it and a rename, there it is the daemon's
 * way of writing. No link is followed below a root. */
#include "cp.h"

#include "base/hash.h"
#include "base/utf8.h"
#include "plat/clock.h"

enum {
    SMALL_TEXT_BYTES = 64 * 1024, /* text up to here goes in one message over EIP */
    SMALL_BYTES = 512 * 1024,     /* and anything up to here where files travel as they are */
    PIECE_BYTES = 256 * 1024,
    MEMORY_BYTES = 1024 * 1024, /* between two targets: more goes through a file */
    PLAIN_MODE = 0666,
    PROGRAM_MODE = 0777,
    ANY_EXECUTE = 0111,
    MODE_BITS = 07777,
    RANDOM_BYTES = 6,
    TEMP_MAX = 64 /* of a name */
};

tc_str cp_join(tci_buf *b, tc_str path, tc_str rel)
{
    tci_buf_clear(b);
    tci_buf_append_str(b, path);
    if (rel.len > 0 && path.len > 0 && !tci_str_ends(path, TC_STR("/")))
        tci_buf_append_byte(b, '/');
    tci_buf_append_str(b, rel);
    tci_buf_append_byte(b, '\0');
    return tci_str_of(b->ptr, b->len > 0 ? b->len - 1 : 0);
}

int cp_open_parent(tci_file root, tc_str rel, tci_file *ret_dir, tc_str *ret_name, tc_err *err)
{
    TCI_FILE_AUTO dir = TCI_FILE_NONE;
    tc_str rest = rel, part;
    int rc = tci_file_openat(root, TC_STR("."), TCI_OPEN_READ | TCI_OPEN_DIRECTORY, 0, &dir, err);
    while (rc == 0 && tci_str_split(&rest, '/', &part) && rest.ptr != NULL) {
        tci_file next = TCI_FILE_NONE;
        rc = tci_file_openat(dir, part, TCI_OPEN_READ | TCI_OPEN_DIRECTORY | TCI_OPEN_NOFOLLOW, 0,
                             &next, err);
        tci_file_close(&dir);
        dir = next;
    }
    if (rc < 0)
        return rc;
    *ret_name = part;
    *ret_dir = tci_file_take(&dir);
    return 0;
}

/* What one copy passes along. */
typedef struct flow {
    cp_job *job;
    const tc_ctx *ctx;
    tci_file file;
    tci_buf *memory;
    tc_file_info info;     /* of a source on a target, before its first byte */
    unsigned private_mode; /* not 0: what file gets when the source is its owner's alone */
} flow;

void cp_count(cp_job *job, size_t nbytes)
{
    tci_mutex_lock(&job->lock);
    job->counts.bytes += nbytes;
    cli_progress_add(&job->progress, nbytes, 0);
    tci_mutex_unlock(&job->lock);
}

bool cp_is_private_mode(unsigned mode)
{
    enum { OTHERS = 0077 };
    return (mode & OTHERS) == 0;
}

/* Once, before anything is in it. */
static int keep_private(flow *f, tc_err *err)
{
    unsigned mode = f->private_mode;
    f->private_mode = 0;
    if (mode == 0 || !f->info.has_mode || !cp_is_private_mode(f->info.mode))
        return 0;
    return tci_file_chmod(f->file, mode, err);
}

static int into_file(void *user, const void *bytes, size_t len, tc_err *err)
{
    flow *f = user;
    int rc = keep_private(f, err);
    if (rc == 0)
        rc = tci_file_write_all(f->file, bytes, len, err);
    if (rc == 0)
        cp_count(f->job, len);
    return rc;
}

static int from_file(void *user, void *buf, size_t cap, size_t *ret_len, tc_err *err)
{
    flow *f = user;
    if (tc_ctx_is_cancelled(f->ctx))
        return tc_err_set(err, TC_E_CANCELLED, "cancelled");
    int rc = tci_file_read(f->file, buf, cap, ret_len, err);
    if (rc == 0)
        cp_count(f->job, *ret_len);
    return rc;
}

/* ---- opening here ---- */

static int open_source(const cp_item *item, tci_file *ret, tc_err *err)
{
    TCI_FILE_AUTO dir = TCI_FILE_NONE;
    tc_str name;
    int rc = cp_open_parent(item->root->from.dir, item->from, &dir, &name, err);
    if (rc == 0)
        rc = tci_file_openat(dir, name, TCI_OPEN_READ | TCI_OPEN_NOFOLLOW | TCI_OPEN_NONBLOCK, 0,
                             ret, err);
    return rc;
}

/* The folder of a relative path, open in near. */
static int go_near(cp_near *near, const cp_root *root, tci_file dir, tc_str rel, tc_str *ret_name,
                   tc_err *err)
{
    size_t slash = tci_str_rfind_byte(rel, '/');
    tc_str folder = tci_str_sub(rel, 0, slash < rel.len ? slash : 0);
    if (tci_file_is_open(near->dir) && near->root == root && tci_str_eq(near->folder, folder)) {
        *ret_name = slash < rel.len ? tci_str_sub(rel, slash + 1, SIZE_MAX) : rel;
        return 0;
    }
    tci_file opened = TCI_FILE_NONE;
    int rc = cp_open_parent(dir, rel, &opened, ret_name, err);
    if (rc < 0)
        return rc;
    tci_file_close(&near->dir);
    *near = (cp_near){.dir = opened, .root = root, .folder = folder};
    return 0;
}

int cp_load(const cp_item *item, cp_near *near, char *buf, size_t cap, size_t *ret_len,
            bool *ret_is_private, bool *ret_fits, tc_err *err)
{
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    tc_str name;
    tci_file_stat st;
    int rc = go_near(near, item->root, item->root->from.dir, item->from, &name, err);
    if (rc == 0)
        rc = tci_file_openat(near->dir, name, TCI_OPEN_READ | TCI_OPEN_NOFOLLOW | TCI_OPEN_NONBLOCK,
                             0, &f, err);
    if (rc == 0)
        rc = tci_file_stat_of(f, &st, err);
    if (rc < 0)
        return rc;
    /* What claims to be empty may have content all the same (/proc). */
    *ret_fits = st.kind == TCI_FILE_KIND_REGULAR && st.size > 0 && st.size <= cap;
    *ret_is_private = cp_is_private_mode(st.mode);
    return *ret_fits ? tci_file_pread(f, buf, (size_t)st.size, 0, ret_len, err) : 0;
}

/* ---- comparing ---- */

static int digest_here(tci_file f, char out[TCI_SHA256_HEX], tc_err *err)
{
    uint8_t digest[TCI_SHA256_BYTES];
    tci_sha256 h;
    char *buf = tci_mem_resize(NULL, PIECE_BYTES);
    if (buf == NULL)
        return tci_err_no_memory(err);
    tci_sha256_init(&h);
    size_t n = 1;
    int rc = 0;
    while (rc == 0 && n > 0) {
        rc = tci_file_read(f, buf, PIECE_BYTES, &n, err);
        if (rc == 0)
            tci_sha256_update(&h, buf, n);
    }
    tci_free(buf);
    tci_sha256_final(&h, digest);
    tci_hex(digest, sizeof digest, out);
    return rc;
}

static int drop(void *user, const void *bytes, size_t len, tc_err *err)
{
    TCI_UNUSED(user);
    TCI_UNUSED(bytes);
    TCI_UNUSED(len);
    TCI_UNUSED(err);
    return 0;
}

/* By the usual program over there, so that the content need not travel. false: by reading then. */
static bool digest_there(cp_job *job, tc_env *env, tc_str path, tc_result *r,
                         char out[TCI_SHA256_HEX])
{
    tc_str args[] = {TC_STR("--"), path};
    tc_run_result run;
    tc_err ignored; /* there are other ways */
    tc_call call = TC_CALL(job->c->ctx, r);
    tc_command command = {.size = sizeof command,
                          .program = TC_STR("sha256sum"),
                          .args = args,
                          .nargs = TCI_ARRAY_LEN(args)};
    if (cli_is_eip(env) || tc_env_run(env, &call, &command, NULL, &run, &ignored) < 0 ||
        run.status.phase != TC_PROCESS_EXITED || run.status.exit_code != 0)
        return false;
    /* A backslash before it says that the name was quoted. */
    tc_str said =
        tci_str_starts(run.out, TC_STR("\\")) ? tci_str_sub(run.out, 1, SIZE_MAX) : run.out;
    uint8_t digest[TCI_SHA256_BYTES];
    if (tci_unhex(tci_str_sub(said, 0, TCI_SHA256_HEX), digest, sizeof digest, &ignored) < 0)
        return false;
    memcpy(out, said.ptr, TCI_SHA256_HEX);
    return true;
}

typedef struct facts {
    uint64_t size;
    bool has_executable, is_executable;
    char digest[TCI_SHA256_HEX]; /* when it was wanted */
} facts;

/* Of one end; NOT_FOUND when it is not there. */
static int facts_of(cp_job *job, const cp_end *end, tc_str rel, tc_result *r, bool wants_digest,
                    facts *ret, tc_err *err)
{
    if (end->env == NULL) {
        TCI_FILE_AUTO dir = TCI_FILE_NONE;
        TCI_FILE_AUTO f = TCI_FILE_NONE;
        tc_str name;
        tci_file_stat st;
        int rc = cp_open_parent(end->dir, rel, &dir, &name, err);
        if (rc == 0)
            rc = tci_file_openat(dir, name, TCI_OPEN_READ | TCI_OPEN_NOFOLLOW | TCI_OPEN_NONBLOCK,
                                 0, &f, err);
        if (rc == 0)
            rc = tci_file_stat_of(f, &st, err);
        if (rc < 0)
            return rc;
        ret->size = st.size;
        ret->has_executable = true;
        ret->is_executable = (st.mode & ANY_EXECUTE) != 0;
        return wants_digest ? digest_here(f, ret->digest, err) : 0;
    }
    tci_buf path;
    tc_file_info info;
    tc_transfer t;
    tc_call call = TC_CALL(job->c->ctx, r);
    tci_buf_init(&path, TCI_BUF_MAX);
    tc_str full = cp_join(&path, end->path, rel);
    int rc = tc_env_stat(end->env, &call, full, false, &info, err);
    if (rc == 0) {
        ret->size = info.has_size ? info.size_bytes : UINT64_MAX;
        ret->has_executable = info.has_executable;
        ret->is_executable = info.is_executable;
    }
    bool is_large = rc == 0 && wants_digest && ret->size > SMALL_BYTES;
    if (is_large && digest_there(job, end->env, full, r, ret->digest)) {
        tci_buf_done(&path);
        return 0;
    }
    if (rc == 0 && wants_digest) {
        rc = tc_env_read_stream(end->env, &call, full, NULL, drop, NULL, &t, err);
        if (rc == 0)
            memcpy(ret->digest, t.sha256, TCI_SHA256_HEX);
    }
    tci_buf_done(&path);
    return rc;
}

/* Equal is the same content and the same executable bit. A bit that has to go is asked for. */
static int compare(cp_job *job, const cp_item *item, tc_result *r, bool *ret_is_equal,
                   tc_tristate *executable, tc_err *err)
{
    facts a = {0}, b = {0};
    const cp_end *from = &item->root->from, *to = &item->root->to;
    int rc = facts_of(job, to, item->to, r, false, &b, err);
    if (rc == TC_E_NOT_FOUND)
        return 0;
    bool is_bit_wrong = b.has_executable && b.is_executable != item->is_executable;
    if (rc == 0 && is_bit_wrong && !item->is_executable)
        *executable = TC_NO;
    if (rc == 0 && (is_bit_wrong || b.size != item->size))
        return 0;
    if (rc == 0)
        rc = facts_of(job, from, item->from, r, true, &a, err);
    if (rc == 0)
        rc = facts_of(job, to, item->to, r, true, &b, err);
    if (rc == 0)
        *ret_is_equal = memcmp(a.digest, b.digest, sizeof a.digest) == 0;
    return rc;
}

static int is_private(tci_file f, bool *ret, tc_err *err)
{
    tci_file_stat st;
    int rc = tci_file_stat_of(f, &st, err);
    if (rc == 0)
        *ret = cp_is_private_mode(st.mode);
    return rc;
}

int cp_make_private(cp_job *job, tc_env *env, tc_str path, tc_result *r, tc_err *err)
{
    tc_str args[] = {TC_STR("700"), TC_STR("--"), path};
    tc_run_result run;
    tc_call call = TC_CALL(job->c->ctx, r);
    tc_command command = {.size = sizeof command,
                          .program = TC_STR("chmod"),
                          .args = args,
                          .nargs = TCI_ARRAY_LEN(args)};
    if (!tc_env_can_exec(env)) {
        cli_say(job->c, "'%.*s' could not be made private: commands are disabled there",
                TC_STR_ARG(path));
        return 0;
    }
    int rc = tc_env_run(env, &call, &command, NULL, &run, err);
    if (rc == 0 && (run.status.phase != TC_PROCESS_EXITED || run.status.exit_code != 0))
        rc = tc_err_set(err, TC_E_DENIED, "it cannot be made private there");
    return rc;
}

/* ---- to a target ---- */

static int write_small(tc_env *env, const tc_call *call, tc_str path, tc_str bytes,
                       const tc_write_options *o, tc_err *err)
{
    tc_file_info info;
    return cli_is_eip(env) ? tc_env_write_text(env, call, path, bytes, o, &info, err)
                           : tc_env_write(env, call, path, bytes, o, NULL, err);
}

/* A small file goes in one message. 1: done; 0: it must go the long way. */
static int upload_small(cp_job *job, const cp_item *item, tci_file f, tc_str path,
                        const tc_write_options *o, tc_result *r, tc_err *err)
{
    tc_env *env = item->root->to.env;
    size_t max = cli_is_eip(env) ? SMALL_TEXT_BYTES : SMALL_BYTES, n = 0;
    if (item->size > max)
        return 0;
    tc_call call = TC_CALL(job->c->ctx, r);
    size_t cap = (size_t)item->size + 1; /* one more: has it grown? */
    char *buf = tci_mem_resize(NULL, cap);
    if (buf == NULL)
        return tci_err_no_memory(err);
    int rc = tci_file_pread(f, buf, cap, 0, &n, err);
    tc_str bytes = tci_str_of(buf, n);
    bool fits = n < cap && (!cli_is_eip(env) ||
                            (tci_utf8_is_valid(bytes) && tci_str_find_byte(bytes, 0) == n));
    if (rc == 0 && fits) {
        rc = write_small(env, &call, path, bytes, o, err);
        if (rc == 0) {
            cp_count(job, n);
            rc = 1;
        }
    }
    tci_free(buf);
    return rc;
}

static int upload(cp_job *job, const cp_item *item, tc_str path, tc_tristate executable,
                  tc_result *r, tc_err *err)
{
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    tc_call call = TC_CALL(job->c->ctx, r);
    tc_write_options o = {.size = sizeof o, .no_sync = true};
    o.executable = executable;
    int rc = open_source(item, &f, err);
    if (rc == 0)
        rc = is_private(f, &o.is_private, err);
    if (rc == 0)
        rc = upload_small(job, item, f, path, &o, r, err);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    flow fl = {.job = job, .ctx = job->c->ctx, .file = f};
    return tc_env_write_stream(item->root->to.env, &call, path, &o, from_file, &fl, NULL, err);
}

/* ---- to here ---- */

/* A new file beside the destination, with the mode it is to have. */
static int open_beside(const cp_item *item, tci_file dir, tc_str name, char *temp, size_t temp_size,
                       tci_file *ret, tc_err *err)
{
    tci_file_stat old;
    tc_err ignored;
    uint8_t random[RANDOM_BYTES];
    char hex[2 * RANDOM_BYTES];
    tci_buf b;
    bool is_there = tci_file_stat_at(dir, name, false, &old, &ignored) == 0;
    if (is_there && old.kind != TCI_FILE_KIND_REGULAR)
        return tc_err_set(err, TC_E_DENIED, "what is there is not a plain file");
    tci_random_bytes(random, sizeof random);
    tci_hex(random, sizeof random, hex);
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_printf(&b, ".telechir-%.*s.tmp", (int)sizeof hex, hex);
    int rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = tci_cstr(tci_buf_str(&b), temp, temp_size, err);
    tci_buf_done(&b);
    if (rc == 0)
        rc = tci_file_openat(dir, tci_str(temp), TCI_OPEN_WRITE | TCI_OPEN_CREATE | TCI_OPEN_EXCL,
                             item->is_executable ? PROGRAM_MODE : PLAIN_MODE, ret, err);
    if (rc == 0 && is_there) {
        unsigned mode = old.mode & MODE_BITS;
        rc = tci_file_chmod(*ret, item->is_executable ? mode | ANY_EXECUTE : mode & ~0111u, err);
    }
    return rc;
}

/* What fills it: a target, or another file here. */
static int fill(cp_job *job, const cp_item *item, tci_file out, tc_result *r, tc_err *err)
{
    flow fl = {.job = job, .ctx = job->c->ctx, .file = out};
    if (item->root->from.env != NULL) {
        tci_buf path;
        tc_call call = TC_CALL(job->c->ctx, r);
        tci_buf_init(&path, TCI_BUF_MAX);
        tc_str full = cp_join(&path, item->root->from.path, item->from);
        fl.private_mode = item->is_executable ? 0700 : 0600;
        int rc = tc_env_read_file(item->root->from.env, &call, full, into_file, &fl, &fl.info, err);
        if (rc == 0) /* it may be empty */
            rc = keep_private(&fl, err);
        tci_buf_done(&path);
        return rc;
    }
    TCI_FILE_AUTO in = TCI_FILE_NONE;
    bool is_secret = false;
    char *buf = tci_mem_resize(NULL, PIECE_BYTES);
    size_t n = 1;
    int rc = buf != NULL ? open_source(item, &in, err) : tci_err_no_memory(err);
    if (rc == 0)
        rc = is_private(in, &is_secret, err);
    if (rc == 0 && is_secret)
        rc = tci_file_chmod(out, item->is_executable ? 0700 : 0600, err);
    while (rc == 0 && n > 0) {
        rc = tci_file_read(in, buf, PIECE_BYTES, &n, err);
        if (rc == 0 && n > 0)
            rc = into_file(&fl, buf, n, err);
        if (rc == 0 && tc_ctx_is_cancelled(job->c->ctx))
            rc = tc_err_set(err, TC_E_CANCELLED, "cancelled");
    }
    tci_free(buf);
    return rc;
}

static int download(cp_job *job, const cp_item *item, tc_result *r, tc_err *err)
{
    char temp[TEMP_MAX];
    TCI_FILE_AUTO dir = TCI_FILE_NONE;
    TCI_FILE_AUTO out = TCI_FILE_NONE;
    tc_str name;
    int rc = cp_open_parent(item->root->to.dir, item->to, &dir, &name, err);
    if (rc == 0)
        rc = open_beside(item, dir, name, temp, sizeof temp, &out, err);
    if (rc < 0) {
        if (tci_file_is_open(out))
            tci_file_discard(dir, tci_str(temp));
        return rc;
    }
    rc = fill(job, item, out, r, err);
    if (rc == 0)
        rc = tci_file_rename(dir, tci_str(temp), dir, name, TCI_RENAME_REPLACE, err);
    if (rc < 0)
        tci_file_discard(dir, tci_str(temp));
    return rc;
}

int cp_store(cp_job *job, const cp_item *item, cp_near *near, const tc_file_info *info,
             tc_str bytes, tc_err *err)
{
    char temp[TEMP_MAX];
    TCI_FILE_AUTO out = TCI_FILE_NONE;
    tc_str name;
    int rc = go_near(near, item->root, item->root->to.dir, item->to, &name, err);
    if (rc == 0)
        rc = open_beside(item, near->dir, name, temp, sizeof temp, &out, err);
    if (rc < 0) {
        if (tci_file_is_open(out))
            tci_file_discard(near->dir, tci_str(temp));
        return rc;
    }
    flow fl = {.job = job, .ctx = job->c->ctx, .file = out, .info = *info};
    fl.private_mode = item->is_executable ? 0700 : 0600;
    rc = into_file(&fl, bytes.ptr, bytes.len, err);
    if (rc == 0)
        rc = tci_file_rename(near->dir, tci_str(temp), near->dir, name, TCI_RENAME_REPLACE, err);
    if (rc < 0)
        tci_file_discard(near->dir, tci_str(temp));
    return rc;
}

/* ---- between targets ---- */

static int into_memory(void *user, const void *bytes, size_t len, tc_err *err)
{
    flow *f = user;
    if (f->memory->len + len <= MEMORY_BYTES && !tci_file_is_open(f->file)) {
        tci_buf_append(f->memory, bytes, len);
        return tci_buf_error(f->memory, err);
    }
    if (!tci_file_is_open(f->file)) {
        int rc = tci_file_open(TC_STR("/tmp"), TCI_OPEN_READ | TCI_OPEN_WRITE | TCI_OPEN_UNNAMED,
                               0600, &f->file, err);
        if (rc == 0)
            rc = tci_file_write_all(f->file, f->memory->ptr, f->memory->len, err);
        if (rc < 0)
            return rc;
    }
    return tci_file_write_all(f->file, bytes, len, err);
}

static int relay(cp_job *job, const cp_item *item, tc_str from, tc_str to, tc_tristate executable,
                 tc_result *r, tc_err *err)
{
    tci_buf memory;
    tc_call call = TC_CALL(job->c->ctx, r);
    tc_write_options o = {.size = sizeof o, .no_sync = true};
    o.executable = executable;
    tci_buf_init(&memory, TCI_BUF_MAX);
    flow fl = {.job = job, .ctx = job->c->ctx, .file = TCI_FILE_NONE, .memory = &memory};
    int rc = tc_env_read_file(item->root->from.env, &call, from, into_memory, &fl, &fl.info, err);
    o.is_private = fl.info.has_mode && cp_is_private_mode(fl.info.mode);
    if (rc == 0 && tci_file_is_open(fl.file)) {
        rc = tci_file_seek(fl.file, 0, err);
        if (rc == 0)
            rc = tc_env_write_stream(item->root->to.env, &call, to, &o, from_file, &fl, NULL, err);
    } else if (rc == 0) {
        rc = tc_env_write(item->root->to.env, &call, to, tci_buf_str(&memory), &o, NULL, err);
        if (rc == 0)
            cp_count(job, memory.len);
    }
    tci_file_close(&fl.file);
    tci_buf_done(&memory);
    return rc;
}

static int copy_there(cp_job *job, const cp_item *item, tc_str to, tc_tristate executable,
                      tc_result *r, tc_err *err)
{
    tci_buf path;
    tc_file_info info;
    tc_call call = TC_CALL(job->c->ctx, r);
    tci_buf_init(&path, TCI_BUF_MAX);
    tc_str from = cp_join(&path, item->root->from.path, item->from);
    int rc;
    if (item->root->from.env == item->root->to.env) {
        rc = tc_env_copy(item->root->to.env, &call, from, to, true, &info, err);
        if (rc == 0)
            cp_count(job, (size_t)item->size);
    } else {
        rc = relay(job, item, from, to, executable, r, err);
    }
    tci_buf_done(&path);
    return rc;
}

/* ---- which way ---- */

int cp_file(cp_job *job, const cp_item *item, tc_result *r, bool *ret_is_equal, tc_err *err)
{
    int rc = 0;
    tc_result_clear(r);
    *ret_is_equal = false;
    /* What it replaces keeps its mode, unless that is what differs. */
    tc_tristate executable = item->is_executable ? TC_YES : TC_KEEP;
    if (job->is_checksum)
        rc = compare(job, item, r, ret_is_equal, &executable, err);
    if (rc < 0 || *ret_is_equal)
        return rc;
    if (item->root->to.env == NULL)
        return download(job, item, r, err);
    tci_buf path;
    tci_buf_init(&path, TCI_BUF_MAX);
    tc_str to = cp_join(&path, item->root->to.path, item->to);
    rc = tci_buf_error(&path, err);
    if (rc == 0)
        rc = item->root->from.env == NULL ? upload(job, item, to, executable, r, err)
                                          : copy_there(job, item, to, executable, r, err);
    tci_buf_done(&path);
    return rc;
}
