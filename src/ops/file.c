/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts of files, and the changes of one file that go through a stage: write, patch, copy. Leaves
 * folders, moving and removing to file_tree.c, reading lines to file_text.c. Thread: worker; facts
 * of local files also on the loop. Invariant: the destination is the old file or the new one,
 * whole. */
#include "ops/file.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "ops/file_int.h"
#include "ops/file_text_int.h"
#include "ops/patch.h"
#include "ops/stage.h"
#include <errno.h>

tci_file_info tci_file_info_of(const tci_file_stat *st)
{
    bool is_file = st->kind == TCI_FILE_KIND_REGULAR;
    return (tci_file_info){.kind = st->kind,
                           .has_size = is_file,
                           .size = is_file ? st->size : 0,
                           .modified = st->modified,
                           .has_executable = is_file,
                           .executable = is_file && (st->mode & 0111) != 0,
                           .mode = st->mode,
                           .uid = st->uid,
                           .gid = st->gid,
                           .dev = st->dev,
                           .ino = st->ino,
                           .nlink = st->nlink,
                           .changed = st->changed};
}

tci_file_version tci_file_version_of(const tci_file_info *info)
{
    return (tci_file_version){.dev = info->dev,
                              .ino = info->ino,
                              .size = info->size,
                              .modified = info->modified,
                              .changed = info->changed};
}

static bool same_instant(tci_instant a, tci_instant b)
{
    return a.sec == b.sec && a.nsec == b.nsec;
}

bool tci_file_version_same(const tci_file_version *a, const tci_file_version *b)
{
    return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
           same_instant(a->modified, b->modified) && same_instant(a->changed, b->changed);
}

int tci_ops_code(tc_err *err)
{
    /* What the system said by number, and ops has no better word for. */
    if (err->os != 0 &&
        (err->code == TC_E_BUSY || err->code == TC_E_TOO_BIG || err->code == TC_E_INVALID ||
         err->code == TC_E_CLOSED || err->code == TC_E_CONNECT))
        return tc_err_recode(err, TC_E_IO);
    return err->code;
}

/* Links that lead in a circle are a failure where links are followed; where they are not, a link is
 * refused. */
static int follow_code(tc_err *err)
{
    return err->os == ELOOP ? tc_err_recode(err, TC_E_IO) : tci_ops_code(err);
}

int tci_ops_stat(tc_str path, bool follow, tci_file_info *ret_info, tc_err *err)
{
    tci_file_stat st;
    if (tci_file_stat_at(TCI_FILE_CWD, path, follow, &st, err) < 0)
        return follow_code(err);
    *ret_info = tci_file_info_of(&st);
    return 0;
}

static int not_regular(tc_str path, tc_err *err)
{
    return tc_err_set(err, TC_E_DENIED, "'%.*s' is not a regular file", TC_STR_ARG(path));
}

int tci_ops_open_regular(tc_str path, tci_file *ret_file, tci_file_info *ret_info, tc_err *err)
{
    /* Looked at first: opening a device or a FIFO may do something. Looked at again afterwards: it
     * may be another file by then, and not waiting for it does no harm. */
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    tci_file_stat st;
    if (tci_file_stat_at(TCI_FILE_CWD, path, true, &st, err) < 0)
        return follow_code(err);
    if (st.kind != TCI_FILE_KIND_REGULAR)
        return not_regular(path, err);
    if (tci_file_open(path, TCI_OPEN_READ | TCI_OPEN_NONBLOCK, 0, &f, err) < 0 ||
        tci_file_stat_of(f, &st, err) < 0)
        return tci_ops_code(err);
    if (st.kind != TCI_FILE_KIND_REGULAR)
        return not_regular(path, err);
    *ret_file = tci_file_take(&f);
    *ret_info = tci_file_info_of(&st);
    return 0;
}

/* Everything after the bytes: sync, a last look at cancel, the rename. */
static int finish_stage(tci_stage *s, const tci_cancel *cancel, tci_file_info *ret_info,
                        tc_err *err)
{
    int rc = tci_stage_seal(s, NULL, err);
    if (rc == 0)
        rc = tci_cancel_check(cancel, err);
    return rc < 0 ? rc : tci_stage_publish(s, ret_info, err);
}

int tci_ops_write_text(const tci_write_text *in, const tci_cancel *cancel, tci_file_info *ret_info,
                       uint64_t *ret_written, tc_err *err)
{
    int rc = tci_cancel_check(cancel, err);
    if (rc < 0)
        return rc;
    if (!tci_text_is_ok(in->text, false))
        return tc_err_set(err, TC_E_UNSUPPORTED, "the text for '%.*s' has a NUL or is not UTF-8",
                          TC_STR_ARG(in->path));
    if (in->text.len > in->max_bytes)
        return tc_err_set(err, TC_E_QUOTA, "'%.*s' would be larger than allowed",
                          TC_STR_ARG(in->path));
    tci_stage_options options = {.path = in->path,
                                 .mode = in->mode,
                                 .has_executable = in->has_executable,
                                 .executable = in->executable,
                                 .must_be_text = true,
                                 .max_bytes = in->max_bytes,
                                 .lock = in->mode == TCI_WRITE_APPEND || in->has_version,
                                 .has_version = in->has_version,
                                 .version = in->version,
                                 .journal = in->journal};
    tci_stage stage;
    rc = tci_stage_open(&stage, &options, cancel, err);
    if (rc == 0)
        rc = tci_stage_write(&stage, in->text.ptr, in->text.len, err);
    if (rc == 0)
        rc = finish_stage(&stage, cancel, ret_info, err);
    tci_stage_abort(&stage);
    if (rc < 0)
        return tci_ops_code(err);
    if (ret_written != NULL)
        *ret_written = in->text.len;
    return 0;
}

/* The source of a patch, on the heap. */
static int read_source(const tci_patch_text *in, tci_file old, uint64_t size, char **ret,
                       tc_err *err)
{
    if (size > in->max_bytes || size > SIZE_MAX - 1)
        return tc_err_set(err, TC_E_QUOTA, "'%.*s' is larger than allowed", TC_STR_ARG(in->path));
    char *text = tci_mem_resize(NULL, (size_t)size + 1);
    if (text == NULL)
        return tci_err_no_memory(err);
    size_t n = 0;
    int rc = tci_file_pread(old, text, (size_t)size, 0, &n, err);
    if (rc == 0 && n < size)
        rc = tc_err_set(err, TC_E_CONFLICT, "'%.*s' changed while it was read",
                        TC_STR_ARG(in->path));
    tc_str all = tci_str_of(text, n);
    if (rc == 0 && !tci_text_is_ok(all, false))
        rc = tci_text_refuse(in->path, all, size, err);
    if (rc < 0)
        tci_mem_free(text);
    else
        *ret = text;
    return rc;
}

static int patch_stage(tci_stage *stage, const tci_patch_text *in, const tci_cancel *cancel,
                       tci_file_info *ret_info, uint64_t *ret_hunks, tc_err *err)
{
    TCI_FILE_AUTO old = TCI_FILE_NONE;
    char *text = NULL;
    uint64_t hunks = 0;
    tci_file_stat st;
    int rc = tci_stage_open_old(stage, &old, err);
    if (rc == 0)
        rc = tci_file_stat_of(old, &st, err);
    if (rc == 0)
        rc = read_source(in, old, st.size, &text, err);
    if (rc < 0)
        return rc;
    tci_buf out;
    tci_buf_init(&out, (size_t)tci_min_u64(in->max_bytes, TCI_BUF_MAX));
    rc = tci_patch_apply(tci_str_of(text, (size_t)st.size), in->patch, &out, &hunks, err);
    if (rc == 0)
        rc = tci_cancel_check(cancel, err);
    if (rc == 0)
        rc = tci_stage_write(stage, out.ptr, out.len, err);
    if (rc == 0)
        rc = finish_stage(stage, cancel, ret_info, err);
    if (rc == 0)
        *ret_hunks = hunks;
    tci_buf_done(&out);
    tci_mem_free(text);
    return rc;
}

int tci_ops_patch_text(const tci_patch_text *in, const tci_cancel *cancel, tci_file_info *ret_info,
                       uint64_t *ret_hunks, tc_err *err)
{
    int rc = tci_cancel_check(cancel, err);
    if (rc < 0)
        return rc;
    /* A link as the last part stays: what it leads to is replaced. */
    tci_file_stat st;
    char real[TCI_PATH_MAX];
    tc_str path = in->path;
    if (tci_file_stat_at(TCI_FILE_CWD, path, false, &st, err) < 0 ||
        (st.kind == TCI_FILE_KIND_SYMLINK && tci_file_realpath(path, real, &path, err) < 0))
        return follow_code(err);
    tci_stage_options options = {.path = path,
                                 .mode = TCI_WRITE_REPLACE,
                                 .max_bytes = in->max_bytes,
                                 .lock = true,
                                 .has_version = in->has_version,
                                 .version = in->version,
                                 .journal = in->journal};
    tci_stage stage;
    rc = tci_stage_open(&stage, &options, cancel, err);
    if (rc == 0)
        rc = patch_stage(&stage, in, cancel, ret_info, ret_hunks, err);
    tci_stage_abort(&stage);
    return rc < 0 ? tci_ops_code(err) : 0;
}

int tci_ops_copy(const tci_copy_file *in, const tci_cancel *cancel, tci_file_info *ret_info,
                 uint64_t *ret_copied, tc_err *err)
{
    int rc = tci_cancel_check(cancel, err);
    if (rc < 0)
        return rc;
    TCI_FILE_AUTO source = TCI_FILE_NONE;
    tci_file_info info;
    rc = tci_ops_open_regular(in->source, &source, &info, err);
    if (rc < 0)
        return rc;
    if (info.size > in->max_bytes)
        return tc_err_set(err, TC_E_QUOTA, "'%.*s' is larger than allowed", TC_STR_ARG(in->source));
    tci_stage_options options = {.path = in->destination,
                                 .mode = in->replace ? TCI_WRITE_UPSERT : TCI_WRITE_CREATE,
                                 .has_mode = true,
                                 .file_mode = info.mode & 0777,
                                 .max_bytes = in->max_bytes,
                                 .journal = in->journal};
    tci_stage stage;
    uint64_t copied = 0;
    rc = tci_stage_open(&stage, &options, cancel, err);
    if (rc == 0)
        rc = tci_stage_write_from(&stage, source, 0, cancel, &copied, err);
    if (rc == 0)
        rc = finish_stage(&stage, cancel, ret_info, err);
    tci_stage_abort(&stage);
    if (rc < 0)
        return tci_ops_code(err);
    *ret_copied = copied;
    return 0;
}
