/* SPDX-License-Identifier: Apache-2.0
 *
 * Handlers of file methods: wire records in, operations of ops/, wire records out. file.stat runs on the
 * loop thread for local file systems, everything else on a worker; workers look at params,
 * the configuration and the session's cwd only, and at the session's walk cache, which locks itself.
 */
#include "base/log.h"
#include "daemon/device.h"
#include "daemon/gen/handlers.h"
#include "daemon/on_file.h"
#include "daemon/req.h"
#include "ops/file.h"
#include "ops/find.h"
#include "ops/list.h"
#include "ops/search.h"
#include "ops/text_cursors.h"

/* A patch is applied in memory; its source is bounded apart from what files may be. */
enum { PAGE_RESERVE_BYTES = 4096, PATCH_SOURCE_MAX = 256 * 1024 * 1024 };

/* ---- records ---- */

static tci_eip_entry_kind wire_kind(tci_file_kind kind)
{
    switch (kind) {
    case TCI_FILE_KIND_REGULAR:
        return TCI_EIP_ENTRY_KIND_FILE;
    case TCI_FILE_KIND_DIRECTORY:
        return TCI_EIP_ENTRY_KIND_DIRECTORY;
    case TCI_FILE_KIND_SYMLINK:
        return TCI_EIP_ENTRY_KIND_SYMLINK;
    case TCI_FILE_KIND_OTHER:
        return TCI_EIP_ENTRY_KIND_OTHER;
    }
    return TCI_EIP_ENTRY_KIND_OTHER;
}

static tci_file_kind native_kind(tci_eip_entry_kind kind)
{
    static const tci_file_kind kinds[TCI_EIP_ENTRY_KIND_COUNT] = {
        [TCI_EIP_ENTRY_KIND_FILE] = TCI_FILE_KIND_REGULAR,
        [TCI_EIP_ENTRY_KIND_DIRECTORY] = TCI_FILE_KIND_DIRECTORY,
        [TCI_EIP_ENTRY_KIND_SYMLINK] = TCI_FILE_KIND_SYMLINK,
        [TCI_EIP_ENTRY_KIND_OTHER] = TCI_FILE_KIND_OTHER,
    };
    return kinds[kind];
}

tci_eip_file_info tci_wire_file_info(tc_str path, const tci_file_info *i)
{
    return (tci_eip_file_info){.path = {.path = path},
                               .kind = wire_kind(i->kind),
                               .has_size_bytes = i->has_size,
                               .size_bytes = i->size,
                               .has_modified_at = true,
                               .modified_at = i->modified,
                               .has_executable = i->has_executable,
                               .executable = i->executable};
}

static uint64_t page_budget(const tci_req *r)
{
    const tci_limits *l = &r->device->config->limits;
    uint64_t room =
        l->max_response_bytes > PAGE_RESERVE_BYTES ? l->max_response_bytes - PAGE_RESERVE_BYTES : 1;
    return tci_min_u64(l->max_output_preview_bytes, room);
}

static tci_eip_operation_receipt *done(tci_req *r, tci_eip_operation_receipt *receipt)
{
    tci_req_receipt(r, TCI_EIP_RECEIPT_STAGE_COMPLETED, TCI_EIP_RECEIPT_OUTCOME_SUCCEEDED, receipt);
    return receipt;
}

/* A bad input, named on the wire by its param and a reason. */
static int bad_input(tci_req *r, const char *field, const char *detail, tc_err *err)
{
    if (err->code == TC_E_INVALID && detail != NULL) {
        r->cause = &tci_eip_error_causes[TCI_EIP_CAUSE_BAD_INPUT];
        r->error.has_field = r->error.has_safe_detail = true;
        r->error.field = tci_str(field);
        r->error.safe_detail = tci_str(detail);
    }
    return err->code;
}

static void warn(void *ctx, const char *message)
{
    TCI_UNUSED(ctx);
    tci_log(TCI_LOG_WARN, "%s", message);
}

/* ---- reads ---- */

int tci_on_file_stat(tci_req *r, tc_err *err)
{
    const tci_eip_file_stat_params *p = r->params;
    tci_file_info info;
    if (tci_ops_stat(p->path.path, p->follow_symlinks, &info, err) < 0)
        return err->code;
    ((tci_eip_file_stat_result *)r->result)->info = tci_wire_file_info(p->path.path, &info);
    return 0;
}

int tci_on_file_read_text(tci_req *r, tc_err *err)
{
    const tci_eip_file_read_text_params *p = r->params;
    tci_eip_file_read_text_result *res = r->result;
    tci_text_page page;
    tci_read_text in = {.path = p->path.path,
                        .line_offset = p->line_offset,
                        .line_limit = p->line_limit,
                        .max_line_length = p->max_line_length,
                        .page_bytes = page_budget(r)};
    tci_text_cursors_get(r->session->text_cursors, in.path, in.line_offset, &in.cursor);
    if (tci_ops_read_text(&in, &r->cancel, &r->arena, &page, err) < 0)
        return err->code;
    if (page.has_more)
        tci_text_cursors_put(r->session->text_cursors, in.path, &page.cursor);
    res->info = tci_wire_file_info(p->path.path, &page.info);
    res->text = page.text;
    res->line_offset = p->line_offset;
    res->lines_read = page.lines_read;
    res->has_more = page.has_more;
    res->truncated_lines.items = (uint64_t *)page.truncated;
    res->truncated_lines.count = page.ntruncated;
    return 0;
}

static tci_eip_entry_kind wire_dir_kind(tci_dir_kind kind)
{
    static const tci_eip_entry_kind kinds[] = {
        [TCI_DIR_KIND_UNKNOWN] = TCI_EIP_ENTRY_KIND_OTHER,
        [TCI_DIR_KIND_FILE] = TCI_EIP_ENTRY_KIND_FILE,
        [TCI_DIR_KIND_DIRECTORY] = TCI_EIP_ENTRY_KIND_DIRECTORY,
        [TCI_DIR_KIND_SYMLINK] = TCI_EIP_ENTRY_KIND_SYMLINK,
        [TCI_DIR_KIND_OTHER] = TCI_EIP_ENTRY_KIND_OTHER,
    };
    return kinds[kind];
}

/* file.list and file.find answer with the same shape: two generated types of one layout. */
static int put_entries(tci_req *r, const tci_ops_entries *in, tci_eip_file_list_result *res,
                       uint64_t offset, tc_err *err)
{
    tci_eip_file_list_entry *out = tci_arena_items(&r->arena, tci_eip_file_list_entry, in->count);
    if (out == NULL && in->count > 0)
        return tci_arena_error(&r->arena, err);
    for (size_t i = 0; i < in->count; i++) {
        const tci_walk_info *e = &in->items[i];
        out[i].relative_path = e->relative_path;
        out[i].info = (tci_eip_file_info){.path = {.path = e->path},
                                          .kind = wire_dir_kind(e->kind),
                                          .has_size_bytes = e->has_size,
                                          .size_bytes = e->size_bytes,
                                          .has_modified_at = e->has_modified_at,
                                          .modified_at = e->modified_at,
                                          .has_executable = e->has_executable,
                                          .executable = e->is_executable};
    }
    res->entries.items = out;
    res->entries.count = in->count;
    res->offset = offset;
    res->has_more = in->has_more;
    res->omitted_unrepresentable_entries = in->omitted_unrepresentable;
    return 0;
}

int tci_on_file_list(tci_req *r, tc_err *err)
{
    const tci_eip_file_list_params *p = r->params;
    tci_ops_entries entries;
    tci_ops_list_request q = {.path = p->path.path,
                              .offset = p->offset,
                              .max_results = p->max_results,
                              .include_hidden = p->include_hidden,
                              .budget_bytes = page_budget(r)};
    if (tci_ops_list(&q, &r->cancel, r->session->walk_cache, &r->arena, &entries, err) < 0)
        return err->code;
    return put_entries(r, &entries, r->result, p->offset, err);
}

int tci_on_file_find(tci_req *r, tc_err *err)
{
    const tci_eip_file_find_params *p = r->params;
    static const tci_dir_kind kinds[TCI_EIP_ENTRY_KIND_COUNT] = {
        [TCI_EIP_ENTRY_KIND_FILE] = TCI_DIR_KIND_FILE,
        [TCI_EIP_ENTRY_KIND_DIRECTORY] = TCI_DIR_KIND_DIRECTORY,
        [TCI_EIP_ENTRY_KIND_SYMLINK] = TCI_DIR_KIND_SYMLINK,
        [TCI_EIP_ENTRY_KIND_OTHER] = TCI_DIR_KIND_OTHER,
    };
    tci_ops_entries entries;
    tci_eip_file_list_result list;
    const char *detail = NULL;
    tci_ops_find_request q = {.root = p->root.path,
                              .pattern = p->pattern,
                              .offset = p->offset,
                              .max_results = p->max_results,
                              .is_recursive = p->recursive,
                              .include_hidden = p->include_hidden,
                              .respect_git_ignore = p->respect_git_ignore,
                              .budget_bytes = page_budget(r)};
    for (size_t i = 0; i < p->kinds.count; i++)
        q.kinds |= 1u << kinds[p->kinds.items[i]];
    tci_walk_warn w = {warn, NULL};
    if (tci_ops_find(&q, w, &r->cancel, r->session->walk_cache, &r->arena, &entries, &detail, err) <
        0)
        return bad_input(r, "pattern", detail, err);
    if (put_entries(r, &entries, &list, p->offset, err) < 0)
        return err->code;
    tci_eip_file_find_result *res = r->result;
    res->entries.items = list.entries.items;
    res->entries.count = list.entries.count;
    res->offset = list.offset;
    res->has_more = list.has_more;
    res->omitted_unrepresentable_entries = list.omitted_unrepresentable_entries;
    return 0;
}

static tci_ops_search_request search_request(const tci_req *r, const tci_eip_file_search_params *p)
{
    return (tci_ops_search_request){
        .root = p->root.path,
        .query = p->query,
        .is_regex = p->mode == TCI_EIP_SEARCH_MODE_REGEX,
        .case_sensitive = p->case_sensitive,
        .include_pattern = p->include_pattern,
        .offset = p->offset,
        .max_results = p->max_results,
        .include_hidden = p->include_hidden,
        .respect_git_ignore = p->respect_git_ignore,
        .max_line_length = p->max_line_length,
        .context_lines = p->context_lines,
        .max_matches_per_file = p->has_max_matches_per_file ? p->max_matches_per_file : 0,
        .max_files = p->has_max_files ? p->max_files : 0,
        .max_file_bytes = p->max_file_bytes,
        .budget_bytes = page_budget(r),
    };
}

static const char *search_field(const char *detail)
{
    if (detail != NULL && strcmp(detail, "not_searchable") == 0)
        return "root";
    return detail != NULL && strcmp(detail, "invalid_glob") == 0 ? "include_pattern" : "query";
}

int tci_on_file_search(tci_req *r, tc_err *err)
{
    const tci_eip_file_search_params *p = r->params;
    tci_eip_file_search_result *res = r->result;
    tci_ops_matches m;
    const char *detail = NULL;
    tci_ops_search_request q = search_request(r, p);
    tci_walk_warn w = {warn, NULL};
    if (tci_ops_search(&q, w, &r->cancel, r->session->walk_cache, &r->arena, &m, &detail, err) < 0)
        return bad_input(r, search_field(detail), detail, err);
    res->matches.items = tci_arena_items(&r->arena, tci_eip_file_search_match, m.count);
    if (res->matches.items == NULL && m.count > 0)
        return tci_arena_error(&r->arena, err);
    res->matches.count = m.count;
    for (size_t i = 0; i < m.count; i++) {
        const tci_ops_match *in = &m.items[i];
        res->matches.items[i] =
            (tci_eip_file_search_match){.path = {.path = in->path},
                                        .line_number = in->line_number,
                                        .preview = in->preview,
                                        .preview_truncated = in->preview_truncated,
                                        .context = in->context,
                                        .context_start_line = in->context_start_line};
    }
    res->offset = p->offset;
    res->has_more = m.has_more;
    res->omitted_unrepresentable_entries = m.omitted_unrepresentable;
    return 0;
}

/* ---- changes ---- */

tci_write_mode tci_native_write_mode(tci_eip_write_mode mode)
{
    static const tci_write_mode modes[TCI_EIP_WRITE_MODE_COUNT] = {
        [TCI_EIP_WRITE_MODE_CREATE] = TCI_WRITE_CREATE,
        [TCI_EIP_WRITE_MODE_REPLACE] = TCI_WRITE_REPLACE,
        [TCI_EIP_WRITE_MODE_UPSERT] = TCI_WRITE_UPSERT,
        [TCI_EIP_WRITE_MODE_APPEND] = TCI_WRITE_APPEND,
    };
    return modes[mode];
}

uint64_t tci_write_max(const tci_device *d)
{
    return tci_min_u64(d->config->limits.max_file_bytes, d->config->limits.max_staged_file_bytes);
}

int tci_on_file_write_text(tci_req *r, tc_err *err)
{
    const tci_eip_file_write_text_params *p = r->params;
    tci_eip_file_write_text_result *res = r->result;
    tci_file_info info;
    tci_write_text in = {.path = p->path.path,
                         .mode = tci_native_write_mode(p->mode),
                         .text = p->text,
                         .has_executable = p->has_executable,
                         .executable = p->executable,
                         .max_bytes = tci_write_max(r->device),
                         .journal = r->device->journal};
    if (tci_ops_write_text(&in, &r->cancel, &info, &res->bytes_written, err) < 0)
        return err->code;
    res->info = tci_wire_file_info(p->path.path, &info);
    (void)done(r, &res->receipt);
    return 0;
}

int tci_on_file_patch_text(tci_req *r, tc_err *err)
{
    const tci_eip_file_patch_text_params *p = r->params;
    tci_eip_file_patch_text_result *res = r->result;
    tci_file_info info;
    tci_patch_text in = {.path = p->path.path,
                         .patch = p->patch,
                         .max_bytes = tci_min_u64(tci_write_max(r->device), PATCH_SOURCE_MAX),
                         .journal = r->device->journal};
    if (tci_ops_patch_text(&in, &r->cancel, &info, &res->hunks_applied, err) < 0)
        return err->code;
    res->info = tci_wire_file_info(p->path.path, &info);
    (void)done(r, &res->receipt);
    return 0;
}

int tci_on_file_mkdir(tci_req *r, tc_err *err)
{
    const tci_eip_file_mkdir_params *p = r->params;
    tci_eip_file_mkdir_result *res = r->result;
    tci_file_info info;
    if (tci_ops_mkdir(p->path.path, p->parents, p->exist_ok, &r->cancel, &info,
                      &res->created_directories, err) < 0)
        return err->code;
    res->info = tci_wire_file_info(p->path.path, &info);
    (void)done(r, &res->receipt);
    return 0;
}

int tci_on_file_copy(tci_req *r, tc_err *err)
{
    const tci_eip_file_copy_params *p = r->params;
    tci_eip_file_copy_result *res = r->result;
    tci_file_info info;
    tci_copy_file in = {.source = p->source.path,
                        .destination = p->destination.path,
                        .replace = p->replace,
                        .max_bytes = tci_write_max(r->device),
                        .journal = r->device->journal};
    if (tci_ops_copy(&in, &r->cancel, &info, &res->bytes_copied, err) < 0)
        return err->code;
    res->destination = tci_wire_file_info(p->destination.path, &info);
    (void)done(r, &res->receipt);
    return 0;
}

int tci_on_file_move(tci_req *r, tc_err *err)
{
    const tci_eip_file_move_params *p = r->params;
    tci_eip_file_move_result *res = r->result;
    tci_file_info info;
    if (tci_ops_move(p->source.path, p->destination.path, p->replace, &r->cancel, &info, err) < 0)
        return err->code;
    res->destination = tci_wire_file_info(p->destination.path, &info);
    (void)done(r, &res->receipt);
    return 0;
}

int tci_on_file_remove(tci_req *r, tc_err *err)
{
    const tci_eip_file_remove_params *p = r->params;
    tci_eip_file_remove_result *res = r->result;
    uint64_t removed = 0;
    tci_remove in = {.path = p->path.path,
                     .expected_kind = native_kind(p->expected_kind),
                     .recursive = p->recursive,
                     .max_entries = p->max_entries};
    if (tci_ops_remove(&in, &r->cancel, &removed, err) < 0) {
        if (removed > 0) {
            r->error.has_emitted_items = true;
            r->error.emitted_items = removed;
            r->has_error_hint = true;
            r->error_hint = TCI_EIP_RETRY_HINT_RECONCILE_FIRST;
        }
        return err->code;
    }
    res->removed_entries = removed;
    (void)done(r, &res->receipt);
    return 0;
}
