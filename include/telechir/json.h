/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON as the agent side gives and takes it. Values pass as text (RFC 8259); here is how to read such
 * a text and how to write one. Numbers stay the characters they were written with, whatever their
 * size; a lone surrogate escape is kept. Equal keys in one object: the last one counts. */
#ifndef TELECHIR_JSON_H
#define TELECHIR_JSON_H

#include <telechir/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A value, read only. It lives as long as what it was read from and the result it was read with. */
typedef struct tci_json tc_json;

typedef enum tc_json_type {
    TC_JSON_NULL,
    TC_JSON_FALSE,
    TC_JSON_TRUE,
    TC_JSON_NUMBER,
    TC_JSON_STRING,
    TC_JSON_ARRAY,
    TC_JSON_OBJECT
} tc_json_type;

/* One value with nothing after it but blanks. text is borrowed as long as the value is used. PARSE,
 * with the byte offset; TOO_BIG. */
TC_API int tc_json_parse(tc_result *r, tc_str text, const tc_json **ret_value,
                         tc_err *err) TC_CHECKED;

/* v may be NULL in all of these: then it has no type worth asking for (NULL type), no members, no value. */
TC_API tc_json_type tc_json_type_of(const tc_json *v);
/* A member of an object; NULL when it is not one or has none of that name. */
TC_API const tc_json *tc_json_get(const tc_json *v, tc_str key);
/* Items of an array or members of an object, in the order written. NULL past the end. */
TC_API size_t tc_json_count(const tc_json *v);
TC_API const tc_json *tc_json_item(const tc_json *v, size_t index);
TC_API const tc_json *tc_json_member(const tc_json *v, size_t index, tc_str *ret_key);
/* RFC 6901: "/content/0/text"; NULL when there is nothing. */
TC_API const tc_json *tc_json_find(const tc_json *v, const char *pointer);
/* false, and *ret untouched, when the value is not of that type or out of range. "1.0" is no integer. */
TC_API bool tc_json_as_str(const tc_json *v, tc_str *ret);
TC_API bool tc_json_as_i64(const tc_json *v, int64_t *ret);
TC_API bool tc_json_as_u64(const tc_json *v, uint64_t *ret);
TC_API bool tc_json_as_double(const tc_json *v, double *ret);
TC_API bool tc_json_as_bool(const tc_json *v, bool *ret);
/* The value as compact text, in the result. */
TC_API int tc_json_text(const tc_json *v, tc_result *r, tc_str *ret_text, tc_err *err) TC_CHECKED;

/* A text being written: begin and end nest, commas are put where they belong. Failures (memory, an
 * unbalanced end) are remembered and told by tc_json_out_take. One thread at a time. */
typedef struct tc_json_out tc_json_out;
TC_API int tc_json_out_new(tc_json_out **ret_out, tc_err *err) TC_CHECKED;
TC_API void tc_json_out_free(tc_json_out *o); /* NULL is fine */
TC_API void tc_json_out_object(tc_json_out *o);
TC_API void tc_json_out_array(tc_json_out *o);
TC_API void tc_json_out_end(tc_json_out *o); /* of the innermost object or array */
TC_API void tc_json_out_key(tc_json_out *o, tc_str key);
TC_API void tc_json_out_str(tc_json_out *o, tc_str text); /* UTF-8; bad bytes become U+FFFD */
TC_API void tc_json_out_i64(tc_json_out *o, int64_t v);
TC_API void tc_json_out_double(tc_json_out *o, double v); /* finite; else null is written */
TC_API void tc_json_out_bool(tc_json_out *o, bool v);
TC_API void tc_json_out_null(tc_json_out *o);
TC_API void tc_json_out_raw(tc_json_out *o, tc_str json); /* a value that is JSON already */
/* The finished text into the result; the writer is empty again. INVALID: not one whole value. */
TC_API int tc_json_out_take(tc_json_out *o, tc_result *r, tc_str *ret_text, tc_err *err) TC_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
