/* SPDX-License-Identifier: Apache-2.0
 *
 * tc_models_open: the models of servers and scripts behind one interface. Finds the credential, asks,
 * and asks again inside one request where that was wanted. Any thread. Invariant: the key is in a
 * tci_secret and in the header of a request under way, nowhere else. */
#include "llm/llm_int.h"

#include "base/num.h"
#include "plat/clock.h"
#include "plat/env.h"
#include "plat/file.h"

enum { KEY_MAX = 16 * 1024, DEFAULT_IDLE_MS = 600000, DEFAULT_MAX_DELAY_MS = 60000 };

typedef struct provider {
    const tci_server *server; /* NULL: scripts */
    tci_secret key_header;    /* empty: no key */
} provider;

typedef struct models {
    tc_models face; /* first: what callers hold */
    tci_lanes lanes;
    tci_scripts scripts;
    char *base_url, *ca_file;
    provider openai, anthropic;
    tc_model facts; /* that overrule the catalogue; 0: do not */
    int64_t (*now_ms)(void *user);
    void *now_user;
} models;

static int64_t now_ms(const models *m)
{
    if (m->now_ms != NULL)
        return m->now_ms(m->now_user);
    tci_instant t = tci_clock_now();
    return t.sec * 1000 + t.nsec / 1000000;
}

/* ---- credentials ---- */

static int key_from_file(tc_str path, char **ret, size_t *ret_len, tc_err *err)
{
    if (tci_file_read_whole(TCI_FILE_CWD, path, KEY_MAX, ret, ret_len, err) < 0)
        return tc_err_wrap(err, "cannot read the key file");
    while (*ret_len > 0 && strchr("\r\n \t", (*ret)[*ret_len - 1]) != NULL)
        --*ret_len;
    return 0;
}

/* "Header: key" as a secret with a NUL after it; stays empty without a key. */
static int key_header(provider *p, const tc_models_options *o, tc_err *err)
{
    char *file = NULL;
    size_t len = 0;
    tc_str key = {NULL, 0};
    if (o->key_file.len > 0) {
        if (key_from_file(o->key_file, &file, &len, err) < 0)
            return err->code;
        key = tci_str_of(file, len);
    } else {
        key = tci_str(tci_env_get(p->server->key_variable));
    }
    int rc = 0;
    if (key.len > 0 &&
        (tci_str_find_byte(key, '\n') < key.len || tci_str_find_byte(key, 0) < key.len)) {
        rc = tc_err_set(err, TC_E_INVALID, "the key of '%s' has more than one line",
                        p->server->provider);
    } else if (key.len > 0) {
        tci_buf b;
        tci_buf_init(&b, KEY_MAX + 64);
        (void)p->server->put_key_header(&b, key);
        tci_buf_append_byte(&b, 0);
        rc = tci_buf_error(&b, err);
        if (rc == 0)
            rc = tci_secret_init(&p->key_header, tci_buf_str(&b), err);
        tci_mem_wipe(b.ptr, b.cap);
        tci_buf_done(&b);
    }
    if (file != NULL)
        tci_mem_wipe(file, len);
    tci_free(file);
    return rc;
}

static provider *provider_of(models *m, tc_str name)
{
    if (tci_str_eq(name, TC_STR("openai")))
        return &m->openai;
    if (tci_str_eq(name, TC_STR("anthropic")))
        return &m->anthropic;
    return NULL;
}

/* ---- one question ---- */

/* "401: invalid key": the status leads unless the text has it. */
static void fail_by_status(tci_answer *a, const tci_exchange_end *end, tci_arena *arena)
{
    tc_str text = tci_error_text(end->error_body, arena);
    char status[TCI_NUM_TEXT_MAX];
    tci_buf b;
    tci_buf_init(&b, sizeof status);
    tci_buf_append_i64(&b, end->status);
    if (text.len == 0)
        tci_answer_fail(a, "error", "%ld: the server says nothing more", end->status);
    else if (tci_str_find(text, tci_buf_str(&b)) < text.len)
        tci_answer_fail(a, "error", "%.*s", TC_STR_ARG(text));
    else
        tci_answer_fail(a, "error", "%ld: %.*s", end->status, TC_STR_ARG(text));
    tci_buf_done(&b);
}

tc_str tci_error_text(tc_str body, tci_arena *arena)
{
    enum { SHOWN = 500 };
    tci_json v;
    tc_err ignored;
    if (tci_json_parse(body, TCI_JSON_LAST_KEY_WINS, arena, &v, &ignored) == 0 &&
        v.kind == TCI_JSON_OBJECT) {
        const tci_json *error = tci_json_get(&v, TC_STR("error"));
        tc_str text = {NULL, 0};
        if (error != NULL && error->kind == TCI_JSON_OBJECT)
            text = tci_json_str_member(error, "message");
        else if (error != NULL)
            text = tci_json_str_member(&v, "error");
        if (text.len == 0)
            text = tci_json_str_member(&v, "message");
        if (text.len > 0)
            return text;
    }
    return tci_str_sub(tci_str_trim(body), 0, SHOWN);
}

/* How long to wait before asking again; -1: do not. */
static int64_t retry_delay(const tci_exchange_end *end, const tc_model_request *request,
                           uint64_t attempt, tci_answer *a)
{
    bool may = end->should_retry >= 0 ? end->should_retry == 1
               : end->status == 0     ? true
                                      : end->status == 408 || end->status == 409 ||
                                        end->status == 429 || end->status >= 500;
    if (!may || attempt >= request->max_retries)
        return -1;
    int64_t max = request->max_retry_delay_ms > 0
                      ? (int64_t)tci_min_u64(request->max_retry_delay_ms, INT64_MAX)
                      : DEFAULT_MAX_DELAY_MS;
    if (end->retry_after_ms >= 0) {
        if (end->retry_after_ms > max) {
            tci_answer_fail(
                a, "error", "%ld: the server asks for a wait of %lld s, more than %lld s",
                end->status, (long long)end->retry_after_ms / 1000, (long long)max / 1000);
            return -1;
        }
        return end->retry_after_ms;
    }
    uint8_t random;
    tci_random_bytes(&random, 1);
    int64_t delay = attempt < 4 ? INT64_C(500) << attempt : 8000;
    return delay - delay * random / 1024; /* up to a quarter less */
}

/* Did anything of the answer arrive? Then it cannot be asked for again as if nothing had. */
static bool has_begun(const tci_answer *a)
{
    return a->nblocks > 0 || a->has_started;
}

static int ask_server(models *m, tc_ctx *ctx, const tc_model_request *request,
                      const tci_exchange *x, tci_answer *a, tci_arena *arena, tc_err *err)
{
    for (uint64_t attempt = 0;; attempt++) {
        tci_exchange_end end;
        if (tci_exchange_run(&m->lanes, ctx, x, arena, &end, err) < 0)
            return err->code;
        if (end.is_cancelled) {
            tci_answer_fail(a, "aborted", "the request was aborted");
            return 0;
        }
        bool is_fine = end.failure.len == 0 && end.status >= 200 && end.status < 300 &&
                       end.error_body.len == 0 && end.foreign.len == 0;
        if (is_fine) {
            x->server->on_end(a);
            return 0;
        }
        int64_t delay =
            has_begun(a) || end.foreign.len > 0 ? -1 : retry_delay(&end, request, attempt, a);
        if (delay >= 0 && tci_pause_ms(ctx, NULL, delay))
            continue;
        if (delay >= 0)
            tci_answer_fail(a, "aborted", "the request was aborted");
        else if (end.failure.len > 0)
            tci_answer_fail(a, "error", "%.*s", TC_STR_ARG(end.failure));
        else if (end.foreign.len > 0)
            tci_answer_fail(a, "error", "%.*s", TC_STR_ARG(end.foreign));
        else
            fail_by_status(a, &end, arena);
        return 0;
    }
}

/* "https://host/v1" and the path; the vendor's own without a base. */
static int url_of(const models *m, const tci_server *s, tci_arena *arena, char **ret, tc_err *err)
{
    tc_str base = tci_str(m->base_url != NULL ? m->base_url : s->default_url), url;
    while (base.len > 0 && base.ptr[base.len - 1] == '/')
        base.len--;
    if (tci_arena_printf(arena, &url, err, "%.*s%s", TC_STR_ARG(base), s->path) < 0)
        return err->code;
    *ret = (char *)(uintptr_t)url.ptr; /* a NUL follows */
    return 0;
}

/* Headers asked for, as lines. */
static int header_lines(const tc_model_request *request, const tci_server *s, tci_arena *arena,
                        const char ***ret, size_t *ret_n, tc_err *err)
{
    tci_json v = {.kind = TCI_JSON_OBJECT};
    if (request->headers.len > 0 && tci_json_parse(request->headers, 0, arena, &v, err) < 0)
        return tc_err_wrap(err, "headers");
    size_t max = v.kind == TCI_JSON_OBJECT ? v.count : 0, n = 0;
    const char **lines = tci_arena_items(arena, const char *, max + 1);
    if (lines == NULL)
        return tci_arena_error(arena, err);
    if (s->fixed_header != NULL)
        lines[n++] = s->fixed_header;
    for (size_t i = 0; i < max; i++) {
        tc_str value, line;
        if (!tci_json_as_str(&v.u.members[i].value, &value))
            continue;
        if (tci_str_find_byte(value, '\n') < value.len ||
            tci_str_find_byte(value, '\r') < value.len)
            return tc_err_set(err, TC_E_INVALID, "header '%.*s' has more than one line",
                              TC_STR_ARG(v.u.members[i].key));
        if (tci_arena_printf(arena, &line, err, "%.*s: %.*s", TC_STR_ARG(v.u.members[i].key),
                             TC_STR_ARG(value)) < 0)
            return err->code;
        lines = tci_arena_grow(arena, (void *)(uintptr_t)lines, (max + 1) * sizeof *lines,
                               (max + 2) * sizeof *lines);
        if (lines == NULL)
            return tci_arena_error(arena, err);
        lines[n++] = line.ptr;
    }
    *ret = lines;
    *ret_n = n;
    return 0;
}

static int build_and_ask(models *m, provider *p, tc_ctx *ctx, const tc_model_request *request,
                         tci_answer *a, tci_arena *arena, tc_err *err)
{
    tci_transcript t;
    if (tci_transcript_of(request->messages, request->nmessages, arena, &t, err) < 0)
        return err->code;
    if (p->key_header.len == 0 && m->base_url == NULL) {
        tci_answer_fail(a, "error", "no key for '%s': set %s or name a key file",
                        p->server->provider, p->server->key_variable);
        return 0;
    }
    char *url;
    const char **lines;
    size_t nlines;
    if (url_of(m, p->server, arena, &url, err) < 0 ||
        header_lines(request, p->server, arena, &lines, &nlines, err) < 0)
        return err->code;
    tci_buf body;
    tci_buf_init(&body, TCI_BUF_MAX);
    int rc = p->server->put_request(&body, request, &t, m->base_url == NULL, err);
    if (rc == 0) {
        tci_exchange x = {.url = url,
                          .body = tci_buf_str(&body),
                          .headers = lines,
                          .nheaders = nlines,
                          .key_header = p->key_header.len > 0 ? &p->key_header : NULL,
                          .ca_file = m->ca_file,
                          .idle_ms =
                              request->timeout_ms > 0 ? request->timeout_ms : DEFAULT_IDLE_MS,
                          .answer = a,
                          .server = p->server};
        rc = ask_server(m, ctx, request, &x, a, arena, err);
    }
    tci_buf_done(&body);
    return rc;
}

static int ask(void *user, tc_ctx *ctx, const tc_model_request *request, const tc_model_sink *sink,
               tc_result *r, tc_str *ret_message, tc_err *err)
{
    models *m = user;
    provider *p = provider_of(m, request->model.provider);
    tci_arena arena;
    tci_answer a;
    tci_buf b;
    tci_arena_init(&arena, 0);
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_answer_init(&a, &arena, p != NULL ? p->server->api : "scripted", &request->model, sink,
                    now_ms(m));
    int rc = p != NULL ? build_and_ask(m, p, ctx, request, &a, &arena, err)
                       : tci_scripted_ask(&m->scripts, request->model.id, ctx, request, &a, err);
    if (rc == TC_E_TOO_BIG) { /* the server's fault, not the caller's */
        tci_answer_fail(&a, "error", "%s", err->msg);
        rc = 0;
    }
    tc_err cancelled;
    if (rc < 0 && tci_ctx_check(ctx, &cancelled) < 0) {
        tci_answer_fail(&a, "aborted", "the request was aborted");
        rc = 0;
    }
    if (rc == 0)
        rc = tci_answer_end_blocks(&a, err);
    if (rc == 0) {
        tci_answer_put(&b, &a);
        rc = tci_buf_error(&b, err);
    }
    if (rc == 0)
        rc = tc_result_dup(r, tci_buf_str(&b), ret_message, err);
    tci_buf_done(&b);
    tci_answer_done(&a);
    tci_arena_done(&arena);
    return rc;
}

/* ---- facts ---- */

static void overrule(tc_model *model, const tc_model *facts)
{
    if (facts->context_window > 0)
        model->context_window = facts->context_window;
    if (facts->max_tokens > 0)
        model->max_tokens = facts->max_tokens;
    if (facts->takes_images)
        model->takes_images = true;
    if (facts->reasons)
        model->reasons = true;
    if (!facts->has_cost)
        return;
    model->has_cost = true;
    model->cost_input = facts->cost_input;
    model->cost_output = facts->cost_output;
    model->cost_cache_read = facts->cost_cache_read;
    model->cost_cache_write = facts->cost_cache_write;
}

static int get_model(void *user, tc_str provider_name, tc_str id, tc_result *r, tc_model *ret_model,
                     tc_err *err)
{
    models *m = user;
    if (provider_of(m, provider_name) == NULL && !tci_str_eq(provider_name, TC_STR("scripted")))
        return tc_err_set(err, TC_E_NOT_FOUND, "no provider '%.*s'", TC_STR_ARG(provider_name));
    if (id.len == 0)
        return tc_err_set(err, TC_E_NOT_FOUND, "no model name after '%.*s/'",
                          TC_STR_ARG(provider_name));
    tc_model model;
    if (!tci_catalogue_find(provider_name, id, &model))
        model = (tc_model){0};
    overrule(&model, &m->facts);
    if (tc_result_dup(r, provider_name, &model.provider, err) < 0 ||
        tc_result_dup(r, id, &model.id, err) < 0)
        return err->code;
    *ret_model = model;
    return 0;
}

/* ---- opening ---- */

static char *text_or_null(tc_str s, bool *ok)
{
    if (s.len == 0)
        return NULL;
    char *copy = tci_mem_cstr(s);
    *ok = *ok && copy != NULL;
    return copy;
}

int tc_models_open(const tc_models_options *options, tc_models **ret_models, tc_err *err)
{
    const tc_models_options none = {.size = sizeof none};
    const tc_models_options *o = options != NULL ? options : &none;
    bool ok = true;
    models *m = tci_new(models);
    if (m == NULL)
        return tci_err_no_memory(err);
    tci_lanes_init(&m->lanes);
    tci_scripts_init(&m->scripts);
    m->openai.server = &tci_openai;
    m->anthropic.server = &tci_anthropic;
    m->facts = o->facts;
    m->now_ms = o->now_ms;
    m->now_user = o->now_user;
    m->base_url = text_or_null(o->base_url, &ok);
    m->ca_file = text_or_null(o->ca_file, &ok);
    m->face = (tc_models){.size = sizeof(tc_models), .user = m, .get_model = get_model, .ask = ask};
    int rc = ok ? 0 : tci_err_no_memory(err);
    if (rc == 0)
        rc = key_header(&m->openai, o, err);
    if (rc == 0)
        rc = key_header(&m->anthropic, o, err);
    if (rc < 0) {
        tc_models_close(&m->face);
        return rc;
    }
    *ret_models = &m->face;
    return 0;
}

void tc_models_close(tc_models *face)
{
    if (face == NULL)
        return;
    models *m = face->user;
    tci_lanes_done(&m->lanes);
    tci_scripts_done(&m->scripts);
    tci_secret_done(&m->openai.key_header);
    tci_secret_done(&m->anthropic.key_header);
    tci_free(m->base_url);
    tci_free(m->ca_file);
    tci_free(m);
}
