/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading over pi-env: ranges with several requests in flight, whole files, open files for the
 * readers, and tc_env_read_stream. The caller's thread. Invariant: bytes are handed on in order, and
 * no request is in flight once a function here has returned. */
#include "env/pi/pi_int.h"

#include "base/hash.h"

enum { SEQUENTIAL = 64 * 1024 };
static const uint64_t whole_max = INT32_MAX; /* what the interface reads at once */

/* ---- ranges ---- */

typedef struct pull_slot {
    tci_pi_call request;
    uint64_t at; /* within the range */
    size_t want;
    char *dst;
} pull_slot;

typedef struct pulling {
    tc_env *env;
    const tc_call *call;
    const tci_penv_pull *p;
    char *ring;     /* TCI_PI_FLIGHT chunks, when the range is not read into a buffer */
    uint64_t asked; /* within the range */
    unsigned first, nflight;
    pull_slot slots[TCI_PI_FLIGHT];
} pulling;

static int ask_more(pulling *g, tc_err *err)
{
    const tci_penv_pull *p = g->p;
    while (g->nflight < TCI_PI_FLIGHT && g->asked < p->len) {
        unsigned i = (g->first + g->nflight) % TCI_PI_FLIGHT;
        pull_slot *s = &g->slots[i];
        s->at = g->asked;
        s->want = (size_t)tci_min_u64(p->chunk, p->len - g->asked);
        s->dst = p->buf != NULL ? p->buf + s->at : g->ring + i * p->chunk;
        tci_pi_pread_params params = {.handle = p->handle,
                                      .length = s->want,
                                      .has_offset = true,
                                      .offset = p->offset + s->at};
        s->request = (tci_pi_call){.op = TCI_PI_PREAD,
                                   .params = &params,
                                   .result = g->call->result,
                                   .session = p->session,
                                   .dst = s->dst,
                                   .dst_cap = s->want};
        int rc = tci_pi_begin(tci_penv_of(g->env)->pi, g->call->ctx, &s->request, err);
        if (rc < 0)
            return tci_penv_blame(g->call, &s->request, rc, p->path);
        g->nflight++;
        g->asked += s->want;
    }
    return 0;
}

static int one_pread(pulling *g, uint64_t at, char *dst, size_t want, size_t *ret_got, tc_err *err)
{
    tci_pi_pread_params params = {
        .handle = g->p->handle, .length = want, .has_offset = true, .offset = g->p->offset + at};
    tci_pi_call request = {.op = TCI_PI_PREAD,
                           .params = &params,
                           .result = g->call->result,
                           .session = g->p->session,
                           .dst = dst,
                           .dst_cap = want};
    int rc = tci_pi_do(tci_penv_of(g->env)->pi, g->call->ctx, &request, err);
    if (rc < 0)
        return tci_penv_blame(g->call, &request, rc, g->p->path);
    if (request.payload.len > want)
        return tc_err_set(err, TC_E_PROTOCOL, "the daemon sent more than was asked for");
    *ret_got = request.payload.len;
    return 0;
}

/* The oldest request's bytes; a short answer is asked on until the end of the file. */
static int take_oldest(pulling *g, size_t *ret_got, tc_err *err)
{
    pull_slot *s = &g->slots[g->first];
    int rc = tci_pi_wait(&s->request, err);
    g->first = (g->first + 1) % TCI_PI_FLIGHT;
    g->nflight--;
    if (rc < 0)
        return tci_penv_blame(g->call, &s->request, rc, g->p->path);
    size_t got = s->request.payload.len, more = 1;
    if (got > s->want)
        return tc_err_set(err, TC_E_PROTOCOL, "the daemon sent more than was asked for");
    for (; rc == 0 && got > 0 && got < s->want && more > 0; got += more)
        rc = one_pread(g, s->at + got, s->dst + got, s->want - got, &more, err);
    if (rc == 0 && g->p->sink != NULL && got > 0)
        rc = g->p->sink(g->p->user, s->dst, got, err);
    *ret_got = got;
    return rc;
}

static void drop_rest(pulling *g)
{
    tc_evidence *e = tci_env_evidence(g->call);
    tc_evidence kept = *e; /* what matters is why */
    for (; g->nflight > 0; g->nflight--, g->first = (g->first + 1) % TCI_PI_FLIGHT)
        tci_pi_drop(&g->slots[g->first].request);
    *e = kept;
}

int tci_penv_pull_all(tc_env *env, const tc_call *call, const tci_penv_pull *pull,
                      uint64_t *ret_len, tc_err *err)
{
    pulling *g = tci_new(pulling);
    uint64_t total = 0;
    bool is_end = pull->len == 0;
    int rc = 0;
    if (g == NULL)
        return tci_err_no_memory(err);
    g->env = env;
    g->call = call;
    g->p = pull;
    if (pull->buf == NULL && !is_end) {
        uint64_t nchunks = tci_min_u64(TCI_PI_FLIGHT, (pull->len - 1) / pull->chunk + 1);
        /* Not zeroed, and no larger than the range: most files are small. */
        g->ring =
            tci_mem_resize(NULL, (size_t)tci_min_u64(nchunks * (uint64_t)pull->chunk, pull->len));
        rc = g->ring != NULL ? 0 : tci_err_no_memory(err);
    }
    while (rc == 0 && !is_end) {
        size_t got = 0, want;
        rc = ask_more(g, err);
        if (rc < 0)
            break;
        want = g->slots[g->first].want;
        rc = take_oldest(g, &got, err);
        total += got;
        is_end = got < want || total == pull->len;
    }
    drop_rest(g);
    tci_free(g->ring);
    tci_free(g);
    if (rc == 0)
        *ret_len = total;
    return rc;
}

/* ---- opening ---- */

typedef struct pi_handle {
    uint64_t session, handle;
    bool has_info;
    tci_pi_info info;
} pi_handle;

static int open_it(tc_env *env, const tc_call *call, tc_str path, unsigned how, pi_handle *h,
                   tc_err *err)
{
    tci_pi_open_result reply = {.handle = 0};
    tci_pi_open_params params = {.path = path,
                                 .no_follow = (how & TCI_OPEN_REFUSE_LINK) != 0,
                                 .mode =
                                     (how & TCI_OPEN_REGULAR) != 0 ? (tc_str){0} : TC_STR("read")};
    tci_pi_call request = {
        .op = TCI_PI_OPEN, .params = &params, .reply = &reply, .result = call->result};
    int rc = tci_pi_do(tci_penv_of(env)->pi, call->ctx, &request, err);
    if (rc < 0)
        return tci_penv_blame(call, &request, rc, path);
    *h = (pi_handle){.session = request.ran_in, .handle = reply.handle};
    h->has_info = reply.has_info || reply.has_stat;
    h->info = reply.has_info ? reply.info : reply.stat;
    if (!reply.has_stat_error)
        return 0;
    tci_penv_close_later(tci_penv_of(env), h->session, h->handle);
    request.fault.error = reply.stat_error;
    rc = tc_err_set(err, tci_pi_code_of(reply.stat_error.code), "%.*s",
                    TC_STR_ARG(reply.stat_error.message));
    return tci_penv_blame(call, &request, rc, path);
}

/* ---- whole files ---- */

/* Of what has no size: one read after the other, until nothing comes. */
static int read_on(tc_env *env, const tc_call *call, const pi_handle *h, tc_str path, tci_buf *out,
                   tc_err *err)
{
    tci_pi_pread_params params = {.handle = h->handle, .length = SEQUENTIAL};
    for (;;) {
        char *dst = tci_buf_reserve(out, SEQUENTIAL);
        if (dst == NULL)
            return tci_buf_error(out, err);
        tci_pi_call request = {.op = TCI_PI_PREAD,
                               .params = &params,
                               .result = call->result,
                               .session = h->session,
                               .dst = dst,
                               .dst_cap = SEQUENTIAL};
        int rc = tci_pi_do(tci_penv_of(env)->pi, call->ctx, &request, err);
        if (rc < 0)
            return tci_penv_blame(call, &request, rc, path);
        if (request.payload.len > SEQUENTIAL)
            return tc_err_set(err, TC_E_PROTOCOL, "the daemon sent more than was asked for");
        if (request.payload.len == 0)
            return 0;
        tci_buf_commit(out, request.payload.len);
    }
}

static int read_unsized(tc_env *env, const tc_call *call, const pi_handle *h, tc_str path,
                        tc_str *ret_bytes, tc_err *err)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    int rc = read_on(env, call, h, path, &b, err);
    char *out = rc == 0 ? tci_result_bytes(call->result, b.len + 1) : NULL;
    if (out != NULL) {
        if (b.len > 0)
            memcpy(out, b.ptr, b.len);
        *ret_bytes = tci_str_of(out, b.len);
    } else if (rc == 0) {
        rc = tci_err_no_memory(err);
    }
    tci_buf_done(&b);
    return rc;
}

static int read_sized(tc_env *env, const tc_call *call, const pi_handle *h, tc_str path,
                      tc_str *ret_bytes, tc_err *err)
{
    uint64_t n = 0;
    if (h->info.size > whole_max)
        return tci_env_fail(call, TC_ENV_UNKNOWN, path, err, TC_E_TOO_BIG,
                            "'%.*s' is too large to be read at once", TC_STR_ARG(path));
    tci_penv_pull pull = {.session = h->session,
                          .handle = h->handle,
                          .len = h->info.size,
                          .chunk = TCI_PI_CHUNK,
                          .path = path,
                          .buf = tci_result_bytes(call->result, (size_t)h->info.size)};
    if (pull.buf == NULL)
        return tci_err_no_memory(err);
    int rc = tci_penv_pull_all(env, call, &pull, &n, err);
    if (rc == 0)
        *ret_bytes = tci_str_of(pull.buf, (size_t)n);
    return rc;
}

int tci_penv_read(tc_env *env, const tc_call *call, tc_str path, tc_str *ret_bytes, tc_err *err)
{
    pi_handle h;
    int rc = open_it(env, call, path, TCI_OPEN_LINES, &h, err);
    if (rc < 0)
        return rc;
    bool is_sized = h.has_info && h.info.kind == TCI_PI_KIND_FILE && h.info.size > 0;
    if (is_sized) {
        rc = read_sized(env, call, &h, path, ret_bytes, err);
        tci_penv_close_later(tci_penv_of(env), h.session, h.handle);
        return rc;
    }
    /* A pipe's next writer must find that nobody reads it any more. */
    rc = read_unsized(env, call, &h, path, ret_bytes, err);
    tci_penv_close_now(tci_penv_of(env), h.session, h.handle);
    return rc;
}

/* ---- for the readers ---- */

typedef struct pi_file {
    tci_open_file base;
    pi_handle h;
} pi_file;

static int file_info(tci_open_file *f, const tc_call *call, tc_env_file *ret_file, tc_err *err)
{
    const pi_file *p = TCI_CONTAINER(f, pi_file, base);
    tci_pi_info info = {0};
    tci_pi_fstat_params params = {.handle = p->h.handle};
    int rc =
        tci_penv_ask_in(f->env, call, p->h.session, TCI_PI_FSTAT, &params, &info, f->path, err);
    if (rc == 0)
        tci_penv_to_file(&info, ret_file);
    return rc;
}

static int file_read(tci_open_file *f, const tc_call *call, uint64_t offset, char *buf, size_t len,
                     size_t *ret_len, tc_err *err)
{
    const pi_file *p = TCI_CONTAINER(f, pi_file, base);
    uint64_t n = 0;
    tci_penv_pull pull = {.session = p->h.session,
                          .handle = p->h.handle,
                          .offset = offset,
                          .len = len,
                          .chunk = TCI_PI_READER_CHUNK,
                          .path = f->path,
                          .buf = buf};
    int rc = tci_penv_pull_all(f->env, call, &pull, &n, err);
    if (rc == 0)
        *ret_len = (size_t)n;
    return rc;
}

static int file_scan(tci_open_file *f, const tc_call *call, uint64_t start_line, uint64_t end_line,
                     tc_line_scan *ret_scan, tc_err *err)
{
    const pi_file *p = TCI_CONTAINER(f, pi_file, base);
    tci_pi_scan_lines_result s = {0};
    tci_pi_scan_lines_params params = {.handle = p->h.handle,
                                       .start_line = start_line,
                                       .has_end_line = end_line != UINT64_MAX,
                                       .end_line = end_line};
    int rc =
        tci_penv_ask_in(f->env, call, p->h.session, TCI_PI_SCAN_LINES, &params, &s, f->path, err);
    if (rc == 0)
        *ret_scan = (tc_line_scan){
            .newlines = s.newlines,
            .start = s.start,
            .end = s.end,
            .first_line_end = s.first_line_end,
            .last_line_start = s.last_line_start,
            .selected_bytes = s.selected_bytes,
            .first_line_bytes = s.first_line_bytes,
        };
    return rc;
}

static void file_close(tci_open_file *f)
{
    pi_file *p = TCI_CONTAINER(f, pi_file, base);
    tci_penv_close_later(tci_penv_of(f->env), p->h.session, p->h.handle);
    tci_free(p);
}

static const tci_open_file_vtable file_vtable = {
    .info = file_info, .read = file_read, .scan = file_scan, .close = file_close};

int tci_penv_open_file(tc_env *env, const tc_call *call, tc_str path, unsigned how,
                       tci_open_file **ret_file, tc_err *err)
{
    pi_file *p = tci_new(pi_file);
    if (p == NULL)
        return tci_err_no_memory(err);
    p->base = (tci_open_file){.v = &file_vtable, .env = env, .path = path};
    int rc = open_it(env, call, path, how, &p->h, err);
    if (rc == 0)
        *ret_file = &p->base;
    else
        tci_free(p);
    return rc;
}

/* ---- tc_env_read_stream, tc_env_read_file ---- */

typedef struct hashing {
    tc_sink sink;
    void *user;
    tci_sha256 hash;
} hashing;

static int hash_on(void *user, const void *bytes, size_t len, tc_err *err)
{
    hashing *h = user;
    tci_sha256_update(&h->hash, bytes, len);
    return h->sink(h->user, bytes, len, err);
}

static void fill_transfer(tc_transfer *t, const pi_handle *h, tc_str path, uint64_t nbytes,
                          hashing *hash)
{
    uint8_t digest[TCI_SHA256_BYTES];
    tci_penv_to_file_info(&h->info, path, &t->info);
    t->nbytes = nbytes;
    tci_sha256_final(&hash->hash, digest);
    tci_hex(digest, sizeof digest, t->sha256);
    t->sha256[TCI_SHA256_HEX] = 0;
}

int tci_penv_read_stream(tc_env *env, const tc_call *call, tc_str path, const tc_range *range,
                         tc_sink sink, void *user, tc_transfer *ret_transfer, tc_err *err)
{
    pi_handle h;
    hashing hash = {.sink = sink, .user = user};
    int rc = open_it(env, call, path, TCI_OPEN_REGULAR, &h, err);
    if (rc < 0)
        return rc;
    uint64_t offset = range != NULL ? range->offset : 0, n = 0;
    uint64_t rest = h.info.size > offset ? h.info.size - offset : 0;
    tci_penv_pull pull = {
        .session = h.session,
        .handle = h.handle,
        .offset = offset,
        .len = range != NULL && range->has_length ? tci_min_u64(range->length, rest) : rest,
        .chunk = TCI_PI_CHUNK,
        .path = path,
        .sink = sink,
        .user = user,
    };
    if (ret_transfer != NULL) {
        tci_sha256_init(&hash.hash);
        pull.sink = hash_on;
        pull.user = &hash;
    }
    rc = tci_penv_pull_all(env, call, &pull, &n, err);
    tci_penv_close_later(tci_penv_of(env), h.session, h.handle);
    if (rc == 0 && ret_transfer != NULL)
        fill_transfer(ret_transfer, &h, path, n, &hash);
    return rc;
}

int tci_penv_read_file(tc_env *env, const tc_call *call, tc_str path, tc_sink sink, void *user,
                       tc_file_info *ret_info, tc_err *err)
{
    pi_handle h;
    uint64_t n = 0;
    int rc = open_it(env, call, path, TCI_OPEN_REGULAR, &h, err);
    if (rc < 0)
        return rc;
    tci_penv_to_file_info(&h.info, path, ret_info);
    tci_penv_pull pull = {.session = h.session,
                          .handle = h.handle,
                          .len = h.info.size,
                          .chunk = TCI_PI_CHUNK,
                          .path = path,
                          .sink = sink,
                          .user = user};
    rc = tci_penv_pull_all(env, call, &pull, &n, err);
    tci_penv_close_later(tci_penv_of(env), h.session, h.handle);
    return rc;
}
