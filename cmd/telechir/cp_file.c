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
    RANDOM_BYTES = 6
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
} flow;

static void count(cp_job *job, size_t nbytes)
{
    tci_mutex_lock(&job->lock);
    job->counts.bytes += nbytes;
    cli_progress_add(&job->progress, nbytes, 0);
    tci_mutex_unlock(&job->lock);
}

static int into_file(void *user, const void *bytes, size_t len, tc_err *err)
{
    flow *f = user;
    int rc = tci_file_write_all(f->file, bytes, len, err);
    if (rc == 0)
        count(f->job, len);
    return rc;
}

static int from_file(void *user, void *buf, size_t cap, size_t *ret_len, tc_err *err)
{
    flow *f = user;
    if (tc_ctx_is_cancelled(f->ctx))
        return tc_err_set(err, TC_E_CANCELLED, "cancelled");
    int rc = tci_file_read(f->file, buf, cap, ret_len, err);
    if (rc == 0)
        count(f->job, *ret_len);
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

/* ---- comparing ---- */

static int digest_here(tci_file f, char out[TCI_SHA256_HEX], tc_err *err)
{
    uint8_t digest[TCI_SHA256_BYTES];
    tci_sha256 h;
    char *buf = tci_mem_alloc(PIECE_BYTES);
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

/* Size and digest of one end; NOT_FOUND when it is not there. */
static int facts_of(cp_job *job, const cp_end *end, tc_str rel, tc_result *r, bool wants_digest,
                    uint64_t *ret_size, char out[TCI_SHA256_HEX], tc_err *err)
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
        if (rc == 0)
            *ret_size = st.size;
        return rc == 0 && wants_digest ? digest_here(f, out, err) : rc;
    }
    tci_buf path;
    tc_file_info info;
    tc_transfer t;
    tc_call call = TC_CALL(job->c->ctx, r);
    tci_buf_init(&path, TCI_BUF_MAX);
    tc_str full = cp_join(&path, end->path, rel);
    int rc = tc_env_stat(end->env, &call, full, false, &info, err);
    if (rc == 0)
        *ret_size = info.has_size ? info.size_bytes : UINT64_MAX;
    bool is_large = rc == 0 && wants_digest && *ret_size > SMALL_BYTES;
    if (is_large && digest_there(job, end->env, full, r, out)) {
        tci_buf_done(&path);
        return 0;
    }
    if (rc == 0 && wants_digest) {
        rc = tc_env_read_stream(end->env, &call, full, NULL, drop, NULL, &t, err);
        if (rc == 0)
            memcpy(out, t.sha256, TCI_SHA256_HEX);
    }
    tci_buf_done(&path);
    return rc;
}

static int compare(cp_job *job, const cp_item *item, tc_result *r, bool *ret_is_equal, tc_err *err)
{
    char a[TCI_SHA256_HEX], b[TCI_SHA256_HEX];
    uint64_t size = 0;
    const cp_end *from = &item->root->from, *to = &item->root->to;
    int rc = facts_of(job, to, item->to, r, false, &size, b, err);
    if (rc == TC_E_NOT_FOUND || (rc == 0 && size != item->size))
        return 0;
    if (rc == 0)
        rc = facts_of(job, from, item->from, r, true, &size, a, err);
    if (rc == 0)
        rc = facts_of(job, to, item->to, r, true, &size, b, err);
    if (rc == 0)
        *ret_is_equal = memcmp(a, b, sizeof a) == 0;
    return rc;
}

/* Nobody but its owner may see it. A copy of such a file is made the same. */
static int is_private(tci_file f, bool *ret, tc_err *err)
{
    enum { OTHERS = 0077 };
    tci_file_stat st;
    int rc = tci_file_stat_of(f, &st, err);
    if (rc == 0)
        *ret = (st.mode & OTHERS) == 0;
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
    char *buf = tci_mem_alloc(cap);
    if (buf == NULL)
        return tci_err_no_memory(err);
    int rc = tci_file_pread(f, buf, cap, 0, &n, err);
    tc_str bytes = tci_str_of(buf, n);
    bool fits = n < cap && (!cli_is_eip(env) ||
                            (tci_utf8_is_valid(bytes) && tci_str_find_byte(bytes, 0) == n));
    if (rc == 0 && fits) {
        rc = write_small(env, &call, path, bytes, o, err);
        if (rc == 0) {
            count(job, n);
            rc = 1;
        }
    }
    tci_free(buf);
    return rc;
}

static int upload(cp_job *job, const cp_item *item, tc_str path, tc_result *r, tc_err *err)
{
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    tc_call call = TC_CALL(job->c->ctx, r);
    tc_write_options o = {.size = sizeof o, .no_sync = true};
    o.executable = item->is_executable ? TC_YES : TC_KEEP;
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
        int rc =
            tc_env_read_stream(item->root->from.env, &call, full, NULL, into_file, &fl, NULL, err);
        tci_buf_done(&path);
        return rc;
    }
    TCI_FILE_AUTO in = TCI_FILE_NONE;
    bool is_secret = false;
    char *buf = tci_mem_alloc(PIECE_BYTES);
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
    enum { TEMP_MAX = 64 };
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

static int relay(cp_job *job, const cp_item *item, tc_str from, tc_str to, tc_result *r,
                 tc_err *err)
{
    tci_buf memory;
    tc_call call = TC_CALL(job->c->ctx, r);
    tc_write_options o = {.size = sizeof o, .no_sync = true};
    o.executable = item->is_executable ? TC_YES : TC_KEEP;
    tci_buf_init(&memory, TCI_BUF_MAX);
    flow fl = {.job = job, .ctx = job->c->ctx, .file = TCI_FILE_NONE, .memory = &memory};
    int rc =
        tc_env_read_stream(item->root->from.env, &call, from, NULL, into_memory, &fl, NULL, err);
    if (rc == 0 && tci_file_is_open(fl.file)) {
        rc = tci_file_seek(fl.file, 0, err);
        if (rc == 0)
            rc = tc_env_write_stream(item->root->to.env, &call, to, &o, from_file, &fl, NULL, err);
    } else if (rc == 0) {
        rc = tc_env_write(item->root->to.env, &call, to, tci_buf_str(&memory), &o, NULL, err);
        if (rc == 0)
            count(job, memory.len);
    }
    tci_file_close(&fl.file);
    tci_buf_done(&memory);
    return rc;
}

static int copy_there(cp_job *job, const cp_item *item, tc_str to, tc_result *r, tc_err *err)
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
            count(job, (size_t)item->size);
    } else {
        rc = relay(job, item, from, to, r, err);
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
    if (job->is_checksum)
        rc = compare(job, item, r, ret_is_equal, err);
    if (rc < 0 || *ret_is_equal)
        return rc;
    if (item->root->to.env == NULL)
        return download(job, item, r, err);
    tci_buf path;
    tci_buf_init(&path, TCI_BUF_MAX);
    tc_str to = cp_join(&path, item->root->to.path, item->to);
    rc = tci_buf_error(&path, err);
    if (rc == 0)
        rc = item->root->from.env == NULL ? upload(job, item, to, r, err)
                                          : copy_there(job, item, to, r, err);
    tci_buf_done(&path);
    return rc;
}
