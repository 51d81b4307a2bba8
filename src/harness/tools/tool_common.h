/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tools share: reading arguments, meaning of paths, making results. The thread of the call. */
#ifndef TCI_HARNESS_TOOLS_TOOL_COMMON_H
#define TCI_HARNESS_TOOLS_TOOL_COMMON_H

#include "harness/calls/tool_int.h"

/* One call as its tool works on it. Memory goes with the call's result. */
typedef struct tci_work {
    tc_tool_api *api;
    tc_ctx *ctx;
    tc_env *env;
    tc_result *r;
    const tci_json *arguments;
    tc_err *err;
} tci_work;

/* The environment and the arguments; fails when there is no environment. */
int tci_work_begin(tci_work *w, tc_tool_api *api, tc_ctx *ctx, tc_str arguments,
                   tc_err *err) TC_CHECKED;
/* A call of the environment for this tool. */
static inline tc_call tci_work_call(const tci_work *w)
{
    return TC_CALL(w->ctx, w->r);
}
static inline tci_arena *tci_work_arena(const tci_work *w)
{
    return tci_result_arena(w->r);
}

/* Members that were checked against the schema; false: absent. */
bool tci_work_text(const tci_work *w, tc_str key, tc_str *ret);
bool tci_work_number(const tci_work *w, tc_str key, double *ret);
bool tci_work_flag(const tci_work *w, tc_str key);
/* A whole number from 1 on; absent: value. INVALID with words for the model. */
int tci_work_count(const tci_work *w, tc_str key, uint64_t most, uint64_t value,
                   uint64_t *ret) TC_CHECKED;

/* The absolute path that a model means: odd spaces made plain, one "@" in front dropped. */
int tci_work_path(const tci_work *w, tc_str path, tc_str *ret_path) TC_CHECKED;
/* The same of a file to be read, under the name it has there: a narrow space before "AM." and "PM.",
 * decomposed letters, curly apostrophes are tried. As is when none exists. */
int tci_work_path_to_read(const tci_work *w, tc_str path, tc_str *ret_path) TC_CHECKED;

/* A result with one text item. */
int tci_work_say(const tci_work *w, tc_str text, tc_tool_result *ret) TC_CHECKED;
/* A remark beside the result; ret NULL: told at once, and kept when the call fails. code may be "". */
int tci_work_remark(const tci_work *w, tc_tool_result *ret, tc_severity severity, const char *code,
                    const char *fmt, ...) TC_CHECKED TC_PRINTF(5, 6);
/* What b holds as the text of the result, cut like all listings: whole lines, 50 KiB. *ret_nlines: lines
 * shown; *ret_is_cut: there were more. b is released. */
int tci_work_say_lines(const tci_work *w, tci_buf *b, tc_tool_result *ret, uint64_t *ret_nlines,
                       bool *ret_is_cut) TC_CHECKED;

/* "Operation aborted", when the call was. */
int tci_work_check_abort(const tci_work *w) TC_CHECKED;
/* Write a file whole, noted where it can be asked about later. */
int tci_work_write(const tci_work *w, tc_str path, tc_str shown_path, tc_str bytes) TC_CHECKED;

/* ---- trees: listing.c ---- */

/* What "path" names (absent: "."), absolute, and as it is put before names below it: "" or "src/". */
int tci_work_root(const tci_work *w, tc_str *ret_root, tc_str *ret_shown) TC_CHECKED;
/* Everything below a folder, ignored files and ".git" left out; where the environment cannot list trees,
 * folder by folder, and then nothing is ignored. */
int tci_work_tree(const tci_work *w, tc_str root, tc_tree *ret_tree) TC_CHECKED;

/* ---- images: image.c ---- */

/* head: of a file of this size; its first 32 bytes decide, but a PNG needs more, read from reader.
 * *ret_type empty: no image. */
int tci_image_type(tc_binary_reader *reader, const tc_call *call, tc_str head, uint64_t size,
                   tc_str *ret_type, tc_err *err) TC_CHECKED;
/* As its header says; false: it does not. */
bool tci_image_size(tc_str bytes, tc_str type, uint32_t *ret_width, uint32_t *ret_height);
/* What a file is that is no text, by its first bytes: "ELF program", "UTF-16LE text"; empty: text, as
 * far as they tell. cut: more follows. */
tc_str tci_binary_kind(tc_str head, bool is_cut);

#endif
