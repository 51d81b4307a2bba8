/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing over pi-env: the interface's in-place writes, and whole files that appear at once. Pieces
 * of 128 KiB, several in flight. The caller's thread. Invariant: no request is in flight once a
 * function here has returned; of an unpublished file it is known that nothing was changed. */
#include "env/pi/pi_int.h"

#include "base/hash.h"

/* Pieces under way to one handle, in order. */
typedef struct pushing {
    tc_env *env;
    const tc_call *call;
    tc_str path;
    uint64_t session, handle;
    unsigned first, nflight;
    tci_pi_call requests[TCI_PI_FLIGHT];
} pushing;

static int take_oldest(pushing *g, tc_err *err)
{
    tci_pi_call *request = &g->requests[g->first];
    int rc = tci_pi_wait(request, err);
    g->first = (g->first + 1) % TCI_PI_FLIGHT;
    g->nflight--;
    return rc < 0 ? tci_penv_blame(g->call, request, rc, g->path) : 0;
}

/* bytes stay until the piece was taken: until there have been TCI_PI_FLIGHT more, or the end. */
static int push(pushing *g, tc_str bytes, tc_err *err)
{
    int rc = g->nflight == TCI_PI_FLIGHT ? take_oldest(g, err) : 0;
    if (rc < 0)
        return rc;
    tci_pi_write_chunk_params params = {.handle = g->handle};
    tci_pi_call *request = &g->requests[(g->first + g->nflight) % TCI_PI_FLIGHT];
    *request = (tci_pi_call){.op = TCI_PI_WRITE_CHUNK,
                             .params = &params,
                             .result = g->call->result,
                             .parts = {{bytes.ptr, bytes.len}},
                             .nparts = 1,
                             .session = g->session};
    rc = tci_pi_begin(tci_penv_of(g->env)->pi, g->call->ctx, request, err);
    if (rc < 0)
        return tci_penv_blame(g->call, request, rc, g->path);
    g->nflight++;
    return 0;
}

/* Wait for all, also after a failure: what is closed next must not be written to any more. */
static int settle(pushing *g, int rc, tc_err *err)
{
    while (rc == 0 && g->nflight > 0)
        rc = take_oldest(g, err);
    tc_evidence *e = tci_env_evidence(g->call);
    tc_evidence kept = *e;
    for (tc_err ignored; g->nflight > 0;) {
        int later = take_oldest(g, &ignored);
        TCI_UNUSED(later); /* the first failure is told */
    }
    *e = kept;
    return rc;
}

/* The first request of a write: all of it, or, with keep, a handle for more. */
static int first_piece(tc_env *env, const tc_call *call, const tci_pi_write_params *params,
                       tc_str bytes, tci_pi_write_result *reply, uint64_t *ret_session, tc_err *err)
{
    tci_pi_call request = {.op = TCI_PI_WRITE,
                           .params = params,
                           .reply = reply,
                           .result = call->result,
                           .parts = {{bytes.ptr, bytes.len}},
                           .nparts = bytes.len > 0 ? 1 : 0,
                           .needs_ext = params->atomic};
    int rc = tci_pi_do(tci_penv_of(env)->pi, call->ctx, &request, err);
    if (rc < 0)
        return tci_penv_blame(call, &request, rc, params->path);
    *ret_session = request.ran_in;
    if (params->keep && !reply->has_handle)
        return tc_err_set(err, TC_E_PROTOCOL, "the daemon gave no handle to write on");
    return 0;
}

/* ---- in place ---- */

static int push_rest(pushing *g, tc_str rest, bool checks_abort, tc_err *err)
{
    int rc = 0;
    while (rc == 0 && rest.len > 0) {
        if (checks_abort)
            rc = tci_env_check_abort(g->call, g->path, err);
        if (rc == 0)
            rc = push(g, tci_str_sub(rest, 0, TCI_PI_CHUNK), err);
        rest = tci_str_sub(rest, TCI_PI_CHUNK, SIZE_MAX);
    }
    return settle(g, rc, err);
}

int tci_penv_write(tc_env *env, const tc_call *call, tc_str path, tc_str bytes, unsigned how,
                   tc_err *err)
{
    bool is_append = (how & TCI_WRITE_APPEND) != 0;
    tci_pi_write_result reply = {.has_handle = false};
    tci_pi_write_params params = {.path = path,
                                  .append = is_append,
                                  .parents = (how & TCI_WRITE_NO_PARENTS) == 0,
                                  .keep = bytes.len > TCI_PI_CHUNK};
    pushing *g = NULL;
    uint64_t session;
    int rc =
        first_piece(env, call, &params, tci_str_sub(bytes, 0, TCI_PI_CHUNK), &reply, &session, err);
    if (rc == 0 && params.keep) {
        g = tci_new(pushing);
        rc = g != NULL ? 0 : tci_err_no_memory(err);
    }
    if (g != NULL) {
        *g = (pushing){
            .env = env, .call = call, .path = path, .session = session, .handle = reply.handle};
        rc = push_rest(g, tci_str_sub(bytes, TCI_PI_CHUNK, SIZE_MAX), !is_append, err);
        tci_free(g);
        if (rc < 0)
            tci_env_evidence(call)->outcome = TC_OUTCOME_UNKNOWN; /* a part of it is there */
    }
    if (reply.has_handle)
        tci_penv_close_later(tci_penv_of(env), session, reply.handle);
    if (rc == 0 && is_append)
        rc = tci_env_check_abort(call, path, err);
    return rc;
}

/* ---- whole or not at all ---- */

/* Where content comes from, and what is known of it. */
typedef struct content {
    tc_source source;
    void *user;
    bool is_hashed;
    tci_sha256 hash;
    uint64_t nbytes;
} content;

/* Fill buf as far as the source goes. */
static int fill(content *c, char *buf, size_t cap, size_t *ret_len, tc_err *err)
{
    size_t len = 0;
    while (len < cap) {
        size_t n = 0;
        int rc = c->source(c->user, buf + len, cap - len, &n, err);
        if (rc != 0)
            return rc;
        if (n == 0)
            break;
        len += n;
    }
    if (c->is_hashed)
        tci_sha256_update(&c->hash, buf, len);
    c->nbytes += len;
    *ret_len = len;
    return 0;
}

static int commit(tc_env *env, const tc_call *call, const pushing *g, bool sync,
                  tci_pi_info *ret_info, tc_err *err)
{
    tci_pi_commit_result reply = {.info = {.size = 0}};
    tci_pi_commit_params params = {.handle = g->handle, .sync = sync};
    int rc = tci_penv_ask_in(env, call, g->session, TCI_PI_COMMIT, &params, &reply, g->path, err);
    if (rc == 0)
        *ret_info = reply.info;
    return rc;
}

/* Nothing was published. */
static int unpublished(const tc_call *call, int rc)
{
    tci_env_evidence(call)->outcome = TC_OUTCOME_NOT_STARTED;
    return rc;
}

/* What does not fit one request: buf holds the first piece and room for all in flight. */
static int write_pieces(tc_env *env, const tc_call *call, tci_pi_write_params *params, content *c,
                        char *buf, bool sync, tci_pi_info *ret_info, tc_err *err)
{
    tci_pi_write_result reply = {.has_handle = false};
    pushing *g = tci_new(pushing);
    if (g == NULL)
        return tci_err_no_memory(err);
    *g = (pushing){.env = env, .call = call, .path = params->path};
    params->keep = true;
    params->sync = false;
    int rc =
        first_piece(env, call, params, tci_str_of(buf, TCI_PI_CHUNK), &reply, &g->session, err);
    g->handle = reply.handle;
    size_t n = TCI_PI_CHUNK;
    for (unsigned i = 0; rc == 0 && n == TCI_PI_CHUNK; i = (i + 1) % TCI_PI_FLIGHT) {
        char *piece = buf + (size_t)i * TCI_PI_CHUNK;
        if (g->nflight == TCI_PI_FLIGHT)
            rc = take_oldest(g, err); /* whose buffer is piece */
        if (rc == 0)
            rc = fill(c, piece, TCI_PI_CHUNK, &n, err);
        if (rc == 0 && n > 0)
            rc = push(g, tci_str_of(piece, n), err);
    }
    rc = settle(g, rc, err);
    if (rc < 0)
        (void)unpublished(call, rc);
    else
        rc = commit(env, call, g, sync, ret_info, err);
    if (rc != 0 && reply.has_handle) /* what was written so far is gone when this returns */
        tci_penv_close_now(tci_penv_of(env), g->session, reply.handle);
    tci_free(g);
    return rc;
}

void tci_penv_write_params(tc_str path, const tc_write_options *o, tci_pi_write_params *ret)
{
    *ret = (tci_pi_write_params){.path = path,
                                 .atomic = true,
                                 .sync = !o->no_sync,
                                 .has_executable = o->executable != TC_KEEP,
                                 .executable = o->executable == TC_YES,
                                 .has_mode = o->is_private,
                                 .mode = o->executable == TC_YES ? 0700 : 0600};
}

static int write_content(tc_env *env, const tc_call *call, tc_str path, const tc_write_options *o,
                         content *c, tci_pi_info *ret_info, tc_err *err)
{
    enum { ALL = TCI_PI_FLIGHT * TCI_PI_CHUNK };
    tci_pi_write_params params;
    tci_pi_write_result reply = {.has_handle = false};
    uint64_t session;
    size_t n = 0;
    char *buf = tci_mem_resize(NULL, ALL); /* not zeroed: only what is used is ever touched */
    if (buf == NULL)
        return tci_err_no_memory(err);
    tci_penv_write_params(path, o, &params);
    int rc = fill(c, buf, TCI_PI_CHUNK, &n, err);
    if (rc != 0) {
        tci_free(buf);
        return unpublished(call, rc);
    }
    if (n == TCI_PI_CHUNK) {
        rc = write_pieces(env, call, &params, c, buf, !o->no_sync, ret_info, err);
    } else {
        rc = first_piece(env, call, &params, tci_str_of(buf, n), &reply, &session, err);
        if (rc == 0)
            *ret_info = reply.info;
    }
    tci_free(buf);
    return rc;
}

int tci_penv_write_stream(tc_env *env, const tc_call *call, tc_str path,
                          const tc_write_options *options, tc_source source, void *user,
                          tc_transfer *ret_transfer, tc_err *err)
{
    tci_pi_info info = {0};
    content c = {.source = source, .user = user, .is_hashed = ret_transfer != NULL};
    if (options->mode != TC_WRITE_UPSERT) { /* the others look at what is there, which EIP can do */
        tc_env *eip;
        int rc = tci_penv_eip_enter(env, call, &eip, err);
        if (rc < 0)
            return rc;
        rc = eip->v->write_stream(eip, call, path, options, source, user, ret_transfer, err);
        tci_penv_eip_leave(eip);
        return rc;
    }
    if (c.is_hashed)
        tci_sha256_init(&c.hash);
    int rc = write_content(env, call, path, options, &c, &info, err);
    if (rc == 0 && ret_transfer != NULL) {
        uint8_t digest[TCI_SHA256_BYTES];
        tci_penv_to_file_info(&info, path, &ret_transfer->info);
        ret_transfer->nbytes = c.nbytes;
        tci_sha256_final(&c.hash, digest);
        tci_hex(digest, sizeof digest, ret_transfer->sha256);
        ret_transfer->sha256[TCI_SHA256_HEX] = 0;
    }
    return rc;
}

static int from_text(void *user, void *buf, size_t cap, size_t *ret_len, tc_err *err)
{
    TCI_UNUSED(err);
    tc_str *rest = user;
    *ret_len = tci_min_size(cap, rest->len);
    if (*ret_len > 0)
        memcpy(buf, rest->ptr, *ret_len);
    *rest = tci_str_sub(*rest, *ret_len, SIZE_MAX);
    return 0;
}

int tci_penv_write_text(tc_env *env, const tc_call *call, tc_str path, tc_str text,
                        const tc_write_options *options, tc_file_info *ret_info, tc_err *err)
{
    if (options->mode != TC_WRITE_UPSERT) {
        tc_env *eip;
        int rc = tci_penv_eip_enter(env, call, &eip, err);
        if (rc < 0)
            return rc;
        rc = eip->v->write_text(eip, call, path, text, options, ret_info, err);
        tci_penv_eip_leave(eip);
        return rc;
    }
    tci_pi_info info = {0};
    tc_str rest = text;
    content c = {.source = from_text, .user = &rest};
    int rc = write_content(env, call, path, options, &c, &info, err);
    if (rc == 0 && ret_info != NULL)
        tci_penv_to_file_info(&info, path, ret_info);
    return rc;
}

int tci_penv_sync(tc_env *env, const tc_call *call, tc_str path, tc_err *err)
{
    tci_pi_syncfs_params params = {.path = path};
    return tci_penv_ask(env, call, TCI_PI_SYNCFS, &params, NULL, path, err);
}
