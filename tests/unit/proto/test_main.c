/* SPDX-License-Identifier: Apache-2.0
 *
 * The module's tests as one program, and what they share. */
#include "proto_tests.h"

int proto_setup(void **state)
{
    fixture *f = tci_new(fixture);
    assert_non_null(f);
    tci_arena_init(&f->arena, 0);
    tci_buf_init(&f->out, 1 << 20);
    *state = f;
    return 0;
}

int proto_teardown(void **state)
{
    fixture *f = *state;
    tci_arena_done(&f->arena);
    tci_buf_done(&f->out);
    tci_free(f);
    return 0;
}

const tci_json *parse(fixture *f, const char *text)
{
    tci_json *v = tci_arena_new(&f->arena, tci_json);
    assert_non_null(v);
    if (tci_json_parse(tci_str(text), 0, &f->arena, v, &f->err) < 0)
        fail_msg("%s: %s", f->err.msg, text);
    return v;
}

void *decode(fixture *f, const tci_type *type, const char *text)
{
    void *value = tci_arena_alloc(&f->arena, tci_type_size(type));
    assert_non_null(value);
    memset(value, 0x5a, tci_type_size(type)); /* what is not written must not survive */
    int rc = tci_proto_decode(type, parse(f, text), &f->arena, value, &f->err);
    if (rc == 0)
        return value;
    assert_int_equal(rc, f->err.code);
    return NULL;
}

void assert_encodes(fixture *f, const tci_type *type, const char *text, const char *want)
{
    const void *value = decode(f, type, text);
    if (value == NULL)
        fail_msg("%s: %s", f->err.msg, text);
    tci_buf_clear(&f->out);
    tci_proto_encode(type, value, &f->out, 0);
    assert_true(tci_buf_ok(&f->out));
    if (!tci_str_eq(tci_buf_str(&f->out), tci_str(want)))
        fail_msg("got %.*s\nwant %s", (int)f->out.len, f->out.ptr, want);
}

void assert_refused(fixture *f, const tci_type *type, const char *text, const char *part)
{
    if (decode(f, type, text) != NULL)
        fail_msg("accepted: %s", text);
    assert_int_equal(f->err.code, TC_E_INVALID);
    if (strstr(f->err.msg, part) == NULL)
        fail_msg("'%s' is not in '%s'", part, f->err.msg);
}

int main(void)
{
    return run_codec_tests() + run_scalar_tests() + run_envelope_tests() + run_table_tests() +
           run_lenient_tests();
}
