/* SPDX-License-Identifier: Apache-2.0
 *
 * Session methods for files, but for streamed content (transfer.c). The caller's thread. Invariant:
 * a change carries its own operation id, and its evidence says what became of it. */
#include "client/client_int.h"

#include "client/session_int.h"

enum { LINES = 2000, LINE_LENGTH = 1000000, MATCH_LENGTH = 2000 };

int tci_session_ask(tc_session *s, const tc_call *call, int method, void *params, void *result,
                    tc_err *err)
{
    tci_ask ask = {.device = s->device,
                   .session = s,
                   .opts = call,
                   .method = method,
                   .params = params,
                   .result = result};
    return tci_ask_do(&ask, err);
}

int tci_options_check(const void *options, size_t size, tc_err *err)
{
    size_t given = 0;
    if (options == NULL)
        return 0;
    memcpy(&given, options, sizeof given);
    return given >= size ? 0 : tc_err_set(err, TC_E_INVALID, "options without their size");
}

static uint32_t page_of(uint32_t max_results)
{
    return max_results > 0 ? max_results : TCI_EIP_PAGE_ITEMS_DEFAULT;
}

/* ---- reading ---- */

int tc_session_stat(tc_session *s, const tc_call *call, tc_str path, bool follow_symlink,
                    tc_file_info *ret_info, tc_err *err)
{
    tci_eip_file_stat_params params = {.path = {path}, .follow_symlinks = follow_symlink};
    tci_eip_file_stat_result res = {0};
    int rc = tci_session_ask(s, call, TCI_EIP_FILE_STAT, &params, &res, err);
    if (rc == 0)
        tci_to_file_info(&res.info, ret_info);
    return rc;
}

int tc_session_read_text(tc_session *s, const tc_call *call, tc_str path,
                         const tc_read_text_options *options, tc_text_page *ret_page, tc_err *err)
{
    tc_read_text_options none = {.size = sizeof none};
    const tc_read_text_options *o = options != NULL ? options : &none;
    int rc = tci_options_check(o, sizeof *o, err);
    if (rc < 0)
        return rc;
    tci_eip_file_read_text_params params = {
        .path = {path},
        .line_offset = o->line_offset,
        .line_limit = o->line_limit > 0 ? o->line_limit : LINES,
        .max_line_length = o->max_line_length > 0 ? o->max_line_length : LINE_LENGTH,
    };
    tci_eip_file_read_text_result res = {0};
    rc = tci_session_ask(s, call, TCI_EIP_FILE_READ_TEXT, &params, &res, err);
    if (rc < 0)
        return rc;
    if (res.line_offset != params.line_offset || res.lines_read > params.line_limit)
        return tci_session_violation(s, NULL, err, "other lines than asked for");
    *ret_page = (tc_text_page){
        .text = res.text,
        .line_offset = res.line_offset,
        .lines_read = res.lines_read,
        .has_more = res.has_more,
        .truncated_lines = res.truncated_lines.items,
        .ntruncated_lines = res.truncated_lines.count,
    };
    tci_to_file_info(&res.info, &ret_page->info);
    return 0;
}

static int to_file_page(tc_session *s, const tc_call *call, const tci_eip_file_list_entry *items,
                        size_t count, uint64_t asked_offset, uint32_t asked_max, tc_file_page *page,
                        tc_err *err)
{
    if (page->offset != asked_offset || count > asked_max)
        return tci_session_violation(s, NULL, err, "another page than asked for");
    tc_file_entry *entries = tci_arena_items(&call->result->arena, tc_file_entry, count);
    if (entries == NULL)
        return tci_arena_error(&call->result->arena, err);
    for (size_t i = 0; i < count; i++) {
        entries[i].relative_path = items[i].relative_path;
        tci_to_file_info(&items[i].info, &entries[i].info);
    }
    page->entries = entries;
    page->count = count;
    return 0;
}

int tc_session_list(tc_session *s, const tc_call *call, tc_str path, const tc_list_options *options,
                    tc_file_page *ret_page, tc_err *err)
{
    tc_list_options none = {.size = sizeof none};
    const tc_list_options *o = options != NULL ? options : &none;
    int rc = tci_options_check(o, sizeof *o, err);
    if (rc < 0)
        return rc;
    tci_eip_file_list_params params = {
        .path = {path},
        .offset = o->offset,
        .max_results = page_of(o->max_results),
        .include_hidden = o->include_hidden,
    };
    tci_eip_file_list_result res = {0};
    rc = tci_session_ask(s, call, TCI_EIP_FILE_LIST, &params, &res, err);
    if (rc < 0)
        return rc;
    tc_file_page page = {.offset = res.offset,
                         .has_more = res.has_more,
                         .omitted_unrepresentable = res.omitted_unrepresentable_entries};
    rc = to_file_page(s, call, res.entries.items, res.entries.count, params.offset,
                      params.max_results, &page, err);
    if (rc == 0)
        *ret_page = page;
    return rc;
}

static size_t put_kinds(unsigned set, tci_eip_entry_kind out[4])
{
    size_t n = 0;
    if ((set & TC_KINDS_FILE) != 0)
        out[n++] = TCI_EIP_ENTRY_KIND_FILE;
    if ((set & TC_KINDS_DIRECTORY) != 0)
        out[n++] = TCI_EIP_ENTRY_KIND_DIRECTORY;
    if ((set & TC_KINDS_SYMLINK) != 0)
        out[n++] = TCI_EIP_ENTRY_KIND_SYMLINK;
    if ((set & TC_KINDS_OTHER) != 0)
        out[n++] = TCI_EIP_ENTRY_KIND_OTHER;
    return n;
}

int tc_session_find(tc_session *s, const tc_call *call, tc_str root, tc_str pattern,
                    const tc_find_options *options, tc_file_page *ret_page, tc_err *err)
{
    tc_find_options none = {.size = sizeof none};
    const tc_find_options *o = options != NULL ? options : &none;
    int rc = tci_options_check(o, sizeof *o, err);
    if (rc < 0)
        return rc;
    tci_eip_entry_kind kinds[4];
    tci_eip_file_find_params params = {
        .root = {root},
        .pattern = pattern,
        .offset = o->offset,
        .max_results = page_of(o->max_results),
        .recursive = !o->is_flat,
        .include_hidden = o->include_hidden,
        .kinds = {kinds, put_kinds(o->kinds, kinds)},
        .respect_git_ignore = o->respect_git_ignore,
    };
    tci_eip_file_find_result res = {0};
    rc = tci_session_ask(s, call, TCI_EIP_FILE_FIND, &params, &res, err);
    if (rc < 0)
        return rc;
    tc_file_page page = {.offset = res.offset,
                         .has_more = res.has_more,
                         .omitted_unrepresentable = res.omitted_unrepresentable_entries};
    rc = to_file_page(s, call, res.entries.items, res.entries.count, params.offset,
                      params.max_results, &page, err);
    if (rc == 0)
        *ret_page = page;
    return rc;
}

static uint32_t clamp_u32(uint64_t v)
{
    return (uint32_t)tci_min_u64(v, UINT32_MAX);
}

static void put_search(const tc_search_options *o, tci_eip_file_search_params *p)
{
    p->mode = o->is_regex ? TCI_EIP_SEARCH_MODE_REGEX : TCI_EIP_SEARCH_MODE_LITERAL;
    p->case_sensitive = !o->ignore_case;
    p->offset = o->offset;
    p->max_results = page_of(o->max_results);
    p->include_hidden = o->include_hidden;
    p->respect_git_ignore = o->respect_git_ignore;
    p->max_line_length = o->max_line_length > 0 ? o->max_line_length : MATCH_LENGTH;
    p->include_pattern = o->include_pattern.len > 0 ? o->include_pattern : TC_STR("**/*");
    p->context_lines = o->context_lines;
    p->has_max_matches_per_file = o->max_matches_per_file > 0;
    p->max_matches_per_file = clamp_u32(o->max_matches_per_file);
    p->has_max_files = o->max_files > 0;
    p->max_files = clamp_u32(o->max_files);
    p->max_file_bytes = o->max_file_bytes > 0 ? o->max_file_bytes : TCI_EIP_SEARCH_FILE_BYTES_MAX;
}

int tc_session_search(tc_session *s, const tc_call *call, tc_str root, tc_str query,
                      const tc_search_options *options, tc_search_page *ret_page, tc_err *err)
{
    tc_search_options none = {.size = sizeof none};
    const tc_search_options *o = options != NULL ? options : &none;
    int rc = tci_options_check(o, sizeof *o, err);
    if (rc < 0)
        return rc;
    tci_eip_file_search_params params = {.root = {root}, .query = query};
    put_search(o, &params);
    tci_eip_file_search_result res = {0};
    rc = tci_session_ask(s, call, TCI_EIP_FILE_SEARCH, &params, &res, err);
    if (rc < 0)
        return rc;
    if (res.offset != params.offset || res.matches.count > params.max_results)
        return tci_session_violation(s, NULL, err, "another page than asked for");
    tc_search_match *out =
        tci_arena_items(&call->result->arena, tc_search_match, res.matches.count);
    if (out == NULL)
        return tci_arena_error(&call->result->arena, err);
    for (size_t i = 0; i < res.matches.count; i++) {
        const tci_eip_file_search_match *m = &res.matches.items[i];
        out[i] = (tc_search_match){
            .path = m->path.path,
            .line_number = m->line_number,
            .preview = m->preview,
            .is_preview_truncated = m->preview_truncated,
            .context = m->context,
            .context_start_line = m->context_start_line,
        };
    }
    *ret_page = (tc_search_page){
        .matches = out,
        .count = res.matches.count,
        .offset = res.offset,
        .has_more = res.has_more,
        .omitted_unrepresentable = res.omitted_unrepresentable_entries,
    };
    return 0;
}

/* ---- changing ---- */

tci_eip_write_mode tci_put_write_mode(tc_write_mode mode)
{
    switch (mode) {
    case TC_WRITE_CREATE:
        return TCI_EIP_WRITE_MODE_CREATE;
    case TC_WRITE_REPLACE:
        return TCI_EIP_WRITE_MODE_REPLACE;
    case TC_WRITE_APPEND:
        return TCI_EIP_WRITE_MODE_APPEND;
    case TC_WRITE_UPSERT:
        break;
    }
    return TCI_EIP_WRITE_MODE_UPSERT;
}

static void give_info(const tci_eip_file_info *in, tc_file_info *ret_info)
{
    if (ret_info != NULL)
        tci_to_file_info(in, ret_info);
}

static void give_u64(uint64_t value, uint64_t *ret)
{
    if (ret != NULL)
        *ret = value;
}

int tc_session_write_text(tc_session *s, const tc_call *call, tc_str path, tc_str text,
                          const tc_write_options *options, tc_file_info *ret_info, tc_err *err)
{
    tc_write_options none = {.size = sizeof none};
    const tc_write_options *o = options != NULL ? options : &none;
    int rc = tci_options_check(o, sizeof *o, err);
    if (rc < 0)
        return rc;
    tci_eip_file_write_text_params params = {
        .path = {path},
        .mode = tci_put_write_mode(o->mode),
        .text = text,
        .has_executable = o->executable != TC_KEEP,
        .executable = o->executable == TC_YES,
    };
    tci_eip_file_write_text_result res = {0};
    rc = tci_session_ask(s, call, TCI_EIP_FILE_WRITE_TEXT, &params, &res, err);
    if (rc < 0)
        return rc;
    if (res.bytes_written != text.len)
        return tci_session_violation(s, call->result, err, "another number of bytes written");
    give_info(&res.info, ret_info);
    return 0;
}

int tc_session_patch_text(tc_session *s, const tc_call *call, tc_str path, tc_str patch,
                          uint64_t *ret_nhunks, tc_file_info *ret_info, tc_err *err)
{
    tci_eip_file_patch_text_params params = {.path = {path}, .patch = patch};
    tci_eip_file_patch_text_result res = {0};
    int rc = tci_session_ask(s, call, TCI_EIP_FILE_PATCH_TEXT, &params, &res, err);
    if (rc < 0)
        return rc;
    give_u64(res.hunks_applied, ret_nhunks);
    give_info(&res.info, ret_info);
    return 0;
}

int tc_session_mkdir(tc_session *s, const tc_call *call, tc_str path, bool with_parents,
                     bool exist_ok, uint64_t *ret_ncreated, tc_file_info *ret_info, tc_err *err)
{
    tci_eip_file_mkdir_params params = {
        .path = {path},
        .parents = with_parents,
        .exist_ok = exist_ok,
    };
    tci_eip_file_mkdir_result res = {0};
    int rc = tci_session_ask(s, call, TCI_EIP_FILE_MKDIR, &params, &res, err);
    if (rc < 0)
        return rc;
    give_u64(res.created_directories, ret_ncreated);
    give_info(&res.info, ret_info);
    return 0;
}

int tc_session_copy(tc_session *s, const tc_call *call, tc_str source, tc_str destination,
                    bool replace, uint64_t *ret_nbytes, tc_file_info *ret_info, tc_err *err)
{
    tci_eip_file_copy_params params = {
        .source = {source},
        .destination = {destination},
        .replace = replace,
    };
    tci_eip_file_copy_result res = {0};
    int rc = tci_session_ask(s, call, TCI_EIP_FILE_COPY, &params, &res, err);
    if (rc < 0)
        return rc;
    give_u64(res.bytes_copied, ret_nbytes);
    give_info(&res.destination, ret_info);
    return 0;
}

int tc_session_move(tc_session *s, const tc_call *call, tc_str source, tc_str destination,
                    bool replace, tc_file_info *ret_info, tc_err *err)
{
    tci_eip_file_move_params params = {
        .source = {source},
        .destination = {destination},
        .replace = replace,
    };
    tci_eip_file_move_result res = {0};
    int rc = tci_session_ask(s, call, TCI_EIP_FILE_MOVE, &params, &res, err);
    if (rc == 0)
        give_info(&res.destination, ret_info);
    return rc;
}

static tci_eip_entry_kind put_kind(tc_file_kind kind)
{
    switch (kind) {
    case TC_FILE_REGULAR:
        return TCI_EIP_ENTRY_KIND_FILE;
    case TC_FILE_DIRECTORY:
        return TCI_EIP_ENTRY_KIND_DIRECTORY;
    case TC_FILE_SYMLINK:
        return TCI_EIP_ENTRY_KIND_SYMLINK;
    case TC_FILE_OTHER:
        break;
    }
    return TCI_EIP_ENTRY_KIND_OTHER;
}

int tc_session_remove(tc_session *s, const tc_call *call, tc_str path, tc_file_kind kind,
                      bool is_recursive, uint64_t max_entries, uint64_t *ret_nremoved, tc_err *err)
{
    tci_eip_file_remove_params params = {
        .path = {path},
        .expected_kind = put_kind(kind),
        .recursive = is_recursive,
        .max_entries = max_entries > 0 ? max_entries : 1,
    };
    tci_eip_file_remove_result res = {0};
    int rc = tci_session_ask(s, call, TCI_EIP_FILE_REMOVE, &params, &res, err);
    if (rc == 0)
        give_u64(res.removed_entries, ret_nremoved);
    return rc;
}
