/* SPDX-License-Identifier: Apache-2.0
 *
 * Recorded samples through the typed decoders and back. protocol/golden/<method>.jsonl holds one
 * {"params":P} or {"result":R} a line, canonical as written or with {"canonical":P} beside it;
 * protocol/golden/wire/ holds whole conversations of a daemon and a client. */
#include "proto/envelope.h"
#include "proto/gen/errors.h"
#include <dirent.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { TEXT_MAX = 1 << 20, PATH_MAX_LEN = 512 };

typedef struct fixture {
    tci_arena arena;
    tci_buf a, b;
    tc_err err;
} fixture;

static int setup(void **state)
{
    fixture *f = tci_new(fixture);
    assert_non_null(f);
    tci_arena_init(&f->arena, 0);
    tci_buf_init(&f->a, TEXT_MAX);
    tci_buf_init(&f->b, TEXT_MAX);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    tci_arena_done(&f->arena);
    tci_buf_done(&f->a);
    tci_buf_done(&f->b);
    tci_free(f);
    return 0;
}

/* Call each with every line of a file; returns how many there were. */
typedef void each_line(fixture *f, const char *name, tc_str line, void *ctx);

static size_t for_lines(fixture *f, const char *name, each_line *each, void *ctx)
{
    char path[PATH_MAX_LEN];
    int n = snprintf(path, sizeof path, "%s/%s", TC_GOLDEN_DIR, name);
    assert_in_range(n, 1, sizeof path - 1);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        fail_msg("cannot open '%s'", path);
    char *text = tci_mem_alloc(TEXT_MAX);
    assert_non_null(text);
    size_t len = fread(text, 1, TEXT_MAX, file), nlines = 0;
    (void)fclose(file); /* read only */
    assert_in_range(len, 1, TEXT_MAX - 1);
    tc_str rest = tci_str_of(text, len), line;
    while (tci_str_split(&rest, '\n', &line)) {
        if (line.len == 0)
            continue;
        tci_arena_clear(&f->arena);
        each(f, name, line, ctx);
        nlines++;
    }
    tci_mem_free(text);
    return nlines;
}

static const tci_json *parse(fixture *f, tc_str text)
{
    tci_json *v = tci_arena_new(&f->arena, tci_json);
    assert_non_null(v);
    if (tci_json_parse(text, 0, &f->arena, v, &f->err) < 0)
        fail_msg("%s: %.*s", f->err.msg, TC_STR_ARG(text));
    return v;
}

static void decode_or_fail(fixture *f, const char *name, const tci_type *type, const tci_json *v,
                           void *ret)
{
    if (tci_proto_decode(type, v, &f->arena, ret, &f->err) < 0) {
        tci_buf_clear(&f->b);
        tci_json_put(&f->b, v, TCI_JSON_AS_IS);
        fail_msg("%s: %s in %.*s", name, f->err.msg, (int)f->b.len, f->b.ptr);
    }
}

static void assert_text(const char *name, tc_str got, tc_str want)
{
    if (!tci_str_eq(got, want))
        fail_msg("%s: got\n%.*s\nwant\n%.*s", name, TC_STR_ARG(got), TC_STR_ARG(want));
}

/* Decoded and encoded, v is want; and so is what came out, once more. */
static void round_trip(fixture *f, const char *name, const tci_type *type, const tci_json *v,
                       const tci_json *want)
{
    void *value = tci_arena_alloc(&f->arena, tci_type_size(type));
    assert_non_null(value);
    for (int turn = 0; turn < 2; turn++) {
        decode_or_fail(f, name, type, v, value);
        tci_buf_clear(&f->a);
        tci_proto_encode(type, value, &f->a, 0);
        assert_true(tci_buf_ok(&f->a));
        tci_buf_clear(&f->b);
        tci_json_put(&f->b, want, TCI_JSON_SORTED);
        assert_text(name, tci_buf_str(&f->a), tci_buf_str(&f->b));
        tc_str text;
        assert_int_equal(tci_arena_dup(&f->arena, tci_buf_str(&f->a), &text, &f->err), 0);
        v = parse(f, text);
    }
}

typedef struct coverage {
    const tci_method *method;
    bool has_params, has_result;
} coverage;

static void sample_line(fixture *f, const char *name, tc_str line, void *ctx)
{
    coverage *c = ctx;
    const tci_json *doc = parse(f, line);
    const tci_json *params = tci_json_get(doc, TC_STR("params"));
    const tci_json *result = tci_json_get(doc, TC_STR("result"));
    const tci_json *canonical = tci_json_get(doc, TC_STR("canonical"));
    assert_true((params == NULL) != (result == NULL));
    c->has_params = c->has_params || params != NULL;
    c->has_result = c->has_result || result != NULL;
    const tci_json *v = params != NULL ? params : result;
    round_trip(f, name, params != NULL ? c->method->params : c->method->result, v,
               canonical != NULL ? canonical : v);
}

static void test_samples_of_every_method(void **state)
{
    for (int i = 0; i < TCI_EIP_METHOD_COUNT; i++) {
        char name[128];
        coverage c = {.method = &tci_eip_methods[i]};
        (void)snprintf(name, sizeof name, "%.*s.jsonl", TC_STR_ARG(c.method->name));
        (void)for_lines(*state, name, sample_line, &c);
        if (!c.has_params || !c.has_result)
            fail_msg("%s lacks params or a result", name);
    }
}

/* A text that parses may not parse any more when its end is missing. The copy has exactly the
 * bytes left, so that reading past them is seen by the sanitizers. */
static void cut_everywhere(fixture *f, tc_str text, bool is_request)
{
    tci_arena arena;
    tci_arena_init(&arena, 0);
    char *copy = tci_mem_alloc(text.len);
    assert_non_null(copy);
    for (size_t len = 0; len < text.len; len++) {
        char *end = copy + (text.len - len); /* flush with the end of the block */
        memcpy(end, text.ptr, len);
        tci_arena_clear(&arena);
        tci_eip_request request;
        tci_eip_reply reply;
        int rc = is_request
                     ? tci_eip_request_decode(tci_str_of(end, len), &arena, &request, &f->err)
                     : tci_eip_reply_decode(tci_str_of(end, len), &arena, &reply, &f->err);
        assert_int_equal(rc, is_request ? TC_E_PARSE : TC_E_PROTOCOL);
    }
    tci_mem_free(copy);
    tci_arena_done(&arena);
}

static void sample_cut(fixture *f, const char *name, tc_str line, void *ctx)
{
    const tci_method *m = ctx;
    const tci_json *doc = parse(f, line);
    const tci_json *params = tci_json_get(doc, TC_STR("params"));
    TCI_UNUSED(name);
    tci_buf_clear(&f->a);
    tci_buf_append_str(&f->a, TC_STR("{\"id\":1,\"jsonrpc\":\"2.0\",\"method\":"));
    tci_json_put_str(&f->a, m->name);
    tci_buf_append_str(&f->a, params != NULL ? TC_STR(",\"params\":") : TC_STR(",\"result\":"));
    tci_json_put(&f->a, params != NULL ? params : tci_json_get(doc, TC_STR("result")),
                 TCI_JSON_AS_IS);
    tci_buf_append_byte(&f->a, '}');
    cut_everywhere(f, tci_buf_str(&f->a), params != NULL);
}

static void test_samples_cut_at_each_byte(void **state)
{
    for (int i = 0; i < TCI_EIP_METHOD_COUNT; i++) {
        char name[128];
        const tci_method *m = &tci_eip_methods[i];
        (void)snprintf(name, sizeof name, "%.*s.jsonl", TC_STR_ARG(m->name));
        (void)for_lines(*state, name, sample_cut, (void *)(uintptr_t)m);
    }
}

/* What a conversation has been asked and not answered yet. */
enum { PENDING_MAX = 64 };

typedef struct conversation {
    struct {
        uint64_t id;
        char *text; /* the request, without a NUL */
        size_t len;
    } pending[PENDING_MAX];
    size_t npending;
    size_t nparams, nresults, nerrors;
} conversation;

static void remember(fixture *f, conversation *c, const tci_json *request)
{
    assert_in_range(c->npending, 0, PENDING_MAX - 1);
    tci_buf_clear(&f->a);
    tci_json_put(&f->a, request, TCI_JSON_AS_IS);
    char *text = tci_mem_alloc(f->a.len);
    assert_non_null(text);
    memcpy(text, f->a.ptr, f->a.len);
    uint64_t id = 0;
    assert_true(tci_json_as_u64(tci_json_get(request, TC_STR("id")), &id));
    c->pending[c->npending].id = id;
    c->pending[c->npending].text = text;
    c->pending[c->npending++].len = f->a.len;
}

/* Take the request with this id out; its text moves to the arena. */
static bool recall(fixture *f, conversation *c, uint64_t id, tc_str *ret)
{
    for (size_t i = 0; i < c->npending; i++) {
        if (c->pending[i].id != id)
            continue;
        tc_str text = tci_str_of(c->pending[i].text, c->pending[i].len);
        assert_int_equal(tci_arena_dup(&f->arena, text, ret, &f->err), 0);
        tci_mem_free(c->pending[i].text);
        c->pending[i] = c->pending[--c->npending];
        return true;
    }
    return false;
}

/* Nothing is in got that is not in had; what is missing there are values a default can have. */
static bool is_canonical_of(const tci_json *got, const tci_json *had)
{
    if (got->kind != had->kind)
        return false;
    if (got->kind == TCI_JSON_OBJECT) {
        uint32_t nfound = 0;
        for (uint32_t i = 0; i < had->count; i++) {
            const tci_json_member *m = &had->u.members[i];
            const tci_json *mine = tci_json_get(got, m->key);
            if (mine != NULL && !is_canonical_of(mine, &m->value))
                return false;
            if (mine == NULL &&
                (m->value.kind == TCI_JSON_OBJECT || m->value.kind == TCI_JSON_ARRAY) &&
                m->value.count > 0)
                return false;
            nfound += mine != NULL;
        }
        return nfound == got->count;
    }
    if (got->kind == TCI_JSON_ARRAY) {
        bool is_same = got->count == had->count;
        for (uint32_t i = 0; is_same && i < got->count; i++)
            is_same = is_canonical_of(&got->u.items[i], &had->u.items[i]);
        return is_same;
    }
    if (got->kind == TCI_JSON_NUMBER || got->kind == TCI_JSON_STRING)
        return tci_str_eq(got->u.text, had->u.text);
    return true;
}

static void check_params(fixture *f, const char *name, const tci_type *type, const tci_json *params)
{
    void *value = tci_arena_alloc(&f->arena, tci_type_size(type));
    assert_non_null(value);
    decode_or_fail(f, name, type, params, value);
    tci_buf_clear(&f->a);
    tci_proto_encode(type, value, &f->a, 0);
    tc_str text;
    assert_int_equal(tci_arena_dup(&f->arena, tci_buf_str(&f->a), &text, &f->err), 0);
    const tci_json *canonical = parse(f, text);
    if (!is_canonical_of(canonical, params))
        fail_msg("%s: encoded as %.*s", name, TC_STR_ARG(text));
    round_trip(f, name, type, canonical, canonical);
}

/* The request against its answer: refused here for the reasons it was refused there. */
static void check_request(fixture *f, const char *name, tc_str text, tc_str refusal,
                          conversation *c, const tci_method **ret_method)
{
    tci_eip_request r;
    *ret_method = NULL;
    cut_everywhere(f, text, true);
    if (tci_eip_request_decode(text, &f->arena, &r, &f->err) < 0) {
        assert_text(name, refusal, TC_STR("invalid JSON-RPC request"));
        return;
    }
    assert_false(tci_str_eq(refusal, TC_STR("invalid JSON-RPC request")));
    const tci_method *m = tci_method_find(r.method);
    assert_true((m == NULL) == tci_str_eq(refusal, TC_STR("method not found")));
    if (m == NULL)
        return;
    *ret_method = m;
    if (tci_str_eq(refusal, TC_STR("invalid method params"))) {
        void *value = tci_arena_alloc(&f->arena, tci_type_size(m->params));
        assert_int_equal(tci_proto_decode(m->params, r.params, &f->arena, value, &f->err),
                         TC_E_INVALID);
        return;
    }
    check_params(f, name, m->params, r.params);
    c->nparams++;
}

/* Times of the recordings all have nine digits; ours have as many as they need. */
static const tci_json *shorten_times(fixture *f, const tci_json *v)
{
    tci_buf_clear(&f->a);
    tci_json_put(&f->a, v, TCI_JSON_AS_IS);
    const tc_str zeroes = TC_STR(".000000000Z");
    for (;;) {
        size_t at = tci_str_find(tci_buf_str(&f->a), zeroes);
        if (at == f->a.len)
            break;
        memmove(f->a.ptr + at, f->a.ptr + at + zeroes.len - 1, f->a.len - at - zeroes.len + 1);
        tci_buf_truncate(&f->a, f->a.len - zeroes.len + 1);
    }
    tc_str text;
    assert_int_equal(tci_arena_dup(&f->arena, tci_buf_str(&f->a), &text, &f->err), 0);
    return parse(f, text);
}

static void check_reply(fixture *f, const char *name, const tci_json *json, conversation *c)
{
    tci_buf_clear(&f->a);
    tci_json_put(&f->a, json, TCI_JSON_AS_IS);
    tc_str text, request;
    assert_int_equal(tci_arena_dup(&f->arena, tci_buf_str(&f->a), &text, &f->err), 0);
    cut_everywhere(f, text, false);
    tci_eip_reply r;
    if (tci_eip_reply_decode(text, &f->arena, &r, &f->err) < 0)
        fail_msg("%s: %s in %.*s", name, f->err.msg, TC_STR_ARG(text));
    const tci_method *m = NULL;
    if (r.has_id && recall(f, c, r.id, &request))
        check_request(f, name, request, r.message, c, &m);
    if (r.result != NULL) {
        assert_non_null(m);
        const tci_json *result = shorten_times(f, r.result);
        round_trip(f, name, m->result, result, result);
        c->nresults++;
        return;
    }
    const tci_json *data = shorten_times(f, r.data);
    round_trip(f, name, &tci_eip_error_data_type, data, data);
    tc_str type;
    assert_true(tci_json_as_str(tci_json_get(data, TC_STR("error_type")), &type));
    assert_int_equal(tci_eip_error_code(type), r.code);
    c->nerrors++;
}

static void wire_line(fixture *f, const char *name, tc_str line, void *ctx)
{
    tc_str to;
    const tci_json *doc = parse(f, line);
    const tci_json *json = tci_json_get(doc, TC_STR("json"));
    assert_true(tci_json_as_str(tci_json_get(doc, TC_STR("to")), &to));
    if (tci_str_eq(to, TC_STR("daemon")))
        remember(f, ctx, json);
    else
        check_reply(f, name, json, ctx);
}

static void test_recorded_conversations(void **state)
{
    static const char folder[] = TC_GOLDEN_DIR "/wire";
    conversation c = {.npending = 0};
    size_t nfiles = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        char name[PATH_MAX_LEN];
        if (e->d_name[0] == '.')
            continue;
        (void)snprintf(name, sizeof name, "wire/%s", e->d_name);
        (void)for_lines(*state, name, wire_line, &c);
        assert_int_equal(c.npending, 0);
        nfiles++;
    }
    (void)closedir(d);
    assert_in_range(nfiles, 11, 100);
    assert_in_range(c.nparams, 100, 10000);
    assert_in_range(c.nresults, 60, 10000);
    assert_in_range(c.nerrors, 30, 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_samples_of_every_method, setup, teardown),
        cmocka_unit_test_setup_teardown(test_samples_cut_at_each_byte, setup, teardown),
        cmocka_unit_test_setup_teardown(test_recorded_conversations, setup, teardown),
    };
    return cmocka_run_group_tests_name("golden_eip", tests, NULL, NULL);
}
