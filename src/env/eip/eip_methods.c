/* SPDX-License-Identifier: Apache-2.0
 *
 * The ExecutionEnv interface over EIP, which has other operations: each is made of those there are,
 * as docs/env-mapping.md says. The caller's thread. Invariant: what cannot be done soundly is "not_supported",
 * and what is looked at only to name a failure never hides it. */
#include "env/eip/eip_int.h"

#include "base/hash.h"
#include "plat/clock.h"

enum { TRUNCATE_MAX = 64 * 1024 * 1024, REMOVE_MAX = 10000, SUFFIX = 6, TEMP_TRIES = 8 };

/* ---- calls beside a call ---- */

int tci_eip_aside(const tc_call *call, tc_call *ret_aside, tc_err *err)
{
    tc_result *r = NULL;
    int rc = tc_result_new(&r, err);
    if (rc == 0)
        *ret_aside = TC_CALL(call->ctx, r);
    return rc;
}

void tci_eip_aside_done(tc_call *aside)
{
    tc_result_free(aside->result);
}

/* ---- why ---- */

static tc_str parent_of(tc_str path)
{
    size_t slash = tci_str_rfind_byte(path, '/');
    return slash == 0 || slash >= path.len ? TC_STR("/") : tci_str_sub(path, 0, slash);
}

/* Is the nearest ancestor that can be seen something else than a directory? */
static bool is_below_a_file(tc_env *env, const tc_call *aside, tc_str path)
{
    tc_file_info info;
    tc_err ignored;
    while (path.len > 1) {
        path = parent_of(path);
        if (tci_eip_stat(env, aside, path, true, &info, &ignored) == 0)
            return info.kind != TC_FILE_DIRECTORY;
    }
    return false;
}

static tc_env_error look_why(tc_env *env, const tc_call *aside, int rc, tc_str path,
                             tci_eip_need need)
{
    tc_file_info info;
    tc_err ignored;
    int seen = tci_eip_stat(env, aside, path, need != TCI_EIP_ANY, &info, &ignored);
    if (seen == TC_E_NOT_FOUND || seen == TC_E_DENIED) {
        if (is_below_a_file(env, aside, path))
            return TC_ENV_NOT_DIRECTORY;
        return seen == TC_E_NOT_FOUND ? TC_ENV_NOT_FOUND : TC_ENV_PERMISSION_DENIED;
    }
    if (seen < 0)
        return tci_env_word_of(rc);
    if (need == TCI_EIP_FILE && info.kind == TC_FILE_DIRECTORY)
        return TC_ENV_IS_DIRECTORY;
    if (need == TCI_EIP_FILE && info.kind != TC_FILE_REGULAR)
        return TC_ENV_INVALID;
    if (need == TCI_EIP_DIRECTORY && info.kind != TC_FILE_DIRECTORY)
        return TC_ENV_NOT_DIRECTORY;
    return rc == TC_E_DENIED ? TC_ENV_PERMISSION_DENIED : TC_ENV_UNKNOWN;
}

int tci_eip_blame(tc_env *env, const tc_call *call, int rc, tc_str path, tci_eip_need need)
{
    tc_call aside;
    tc_err ignored;
    tc_env_error word = tci_env_word_of(rc);
    bool is_about_path = rc == TC_E_NOT_FOUND || rc == TC_E_DENIED || rc == TC_E_CONFLICT ||
                         rc == TC_E_INVALID || rc == TC_E_IO || rc == TC_E_UNSUPPORTED;
    if (is_about_path && tci_eip_aside(call, &aside, &ignored) == 0) {
        word = look_why(env, &aside, rc, path, need);
        tci_eip_aside_done(&aside);
    }
    tci_env_blame(call, word, path);
    return rc;
}

/* ---- programs over there ---- */

int tci_eip_program(tc_env *env, const tc_call *call, const tc_str *argv, size_t nargv,
                    tc_str *ret_output, tc_err *err)
{
    tc_run_options options = {.size = sizeof options};
    tc_run_result res;
    tc_command command = {
        .size = sizeof command, .program = argv[0], .args = argv + 1, .nargs = nargv - 1};
    if (!env->v->can_exec(env))
        return tc_err_set(err, TC_E_UNSUPPORTED, "the device offers no commands");
    int rc = tci_eip_run_command(env, call, &command, &options, &res, err);
    if (rc < 0)
        return rc;
    if (res.status.phase != TC_PROCESS_EXITED || res.status.exit_code != 0)
        return tc_err_set(err, TC_E_IO, "%.*s: %.*s", TC_STR_ARG(argv[0]), TC_STR_ARG(res.err));
    *ret_output = res.out;
    return 0;
}

/* The evidence is that of what follows, not of a program that helped. */
static int helper_program(tc_env *env, const tc_call *call, const tc_str *argv, size_t nargv,
                          tc_str *ret_output, tc_err *err)
{
    tc_call aside;
    tc_str output = {0};
    int rc = tci_eip_aside(call, &aside, err);
    if (rc < 0)
        return rc;
    rc = tci_eip_program(env, &aside, argv, nargv, &output, err);
    if (rc == 0)
        rc = tc_result_dup(call->result, output, ret_output, err);
    tci_eip_aside_done(&aside);
    return rc;
}

/* ---- the place ---- */

static const char place_script[] =
    "printf '%s\\n%s\\n' \"$HOME\" \"${TMPDIR:-${TMP:-${TEMP:-/tmp}}}\"";

static int keep_home(tc_env *env, tc_str home, tc_str tmpdir, tc_err *err)
{
    if (tmpdir.len > 1 && tmpdir.ptr[tmpdir.len - 1] == '/')
        tmpdir = tci_str_sub(tmpdir, 0, tmpdir.len - 1);
    tci_mutex_lock(&env->lock);
    int rc = 0;
    if (!env->has_home) {
        rc = tc_result_dup(env->held, home, &env->place.home, err);
        if (rc == 0)
            rc = tc_result_dup(env->held, tmpdir, &env->place.tmpdir, err);
        env->has_home = rc == 0;
    }
    tci_mutex_unlock(&env->lock);
    return rc;
}

/* Home and temporary folder are asked of the shell over there; there is no other way. */
static int eip_know(tc_env *env, const tc_call *call, bool needs_home, tc_err *err)
{
    tc_str argv[] = {TC_STR("/bin/sh"), TC_STR("-c"), tci_str(place_script)};
    tc_str output = {0}, home = {0}, tmpdir = {0};
    if (!needs_home)
        return env->has_place ? 0 : tc_err_set(err, TC_E_NOT_READY, "the device is not known yet");
    int rc = helper_program(env, call, argv, TCI_ARRAY_LEN(argv), &output, err);
    if (rc == TC_E_UNSUPPORTED)
        return keep_home(env, home, TC_STR("/tmp"), err);
    if (rc < 0)
        return rc;
    (void)tci_str_split(&output, '\n', &home);
    (void)tci_str_split(&output, '\n', &tmpdir);
    return keep_home(env, home, tmpdir, err);
}

/* ---- facts ---- */

void tci_eip_to_file(const tc_file_info *info, tc_env_file *ret_file)
{
    *ret_file = (tc_env_file){.kind = info->kind, .size = info->has_size ? info->size_bytes : 0};
    if (info->modified_at.is_known)
        tci_env_set_time(ret_file, info->modified_at.sec, (uint32_t)info->modified_at.nsec);
}

static int eip_info(tc_env *env, const tc_call *call, tc_str path, tc_env_file *ret_file,
                    tc_err *err)
{
    tc_file_info info;
    int rc = tci_eip_stat(env, call, path, false, &info, err);
    if (rc < 0)
        return tci_eip_blame(env, call, rc, path, TCI_EIP_ANY);
    tci_eip_to_file(&info, ret_file);
    return 0;
}

static int directory_path(tc_env *env, const tc_call *call, tc_str path, tc_str *ret_path,
                          tc_err *err)
{
    tc_device *device = TCI_CONTAINER(env, tci_eip_env, base)->device;
    tc_directory_page page;
    int rc = tc_device_list_directory(device, call, path, 0, 1, &page, err);
    if (rc == 0)
        *ret_path = page.path;
    return rc;
}

/* Without commands: a directory by the device's own listing, a file by that of its directory. */
static int canonical_by_listing(tc_env *env, const tc_call *call, tc_str path, tc_str *ret_path,
                                tc_err *err)
{
    tc_file_info info;
    tc_str dir;
    int rc = tci_eip_stat(env, call, path, true, &info, err);
    if (rc == 0 && info.kind == TC_FILE_DIRECTORY)
        return directory_path(env, call, path, ret_path, err);
    if (rc == 0)
        rc = tci_eip_stat(env, call, path, false, &info, err);
    if (rc < 0)
        return rc;
    if (info.kind == TC_FILE_SYMLINK)
        return tc_err_set(err, TC_E_UNSUPPORTED, "the device does not say where a link leads");
    rc = directory_path(env, call, parent_of(path), &dir, err);
    if (rc < 0)
        return rc;
    tc_str name = tci_env_base_name(false, path);
    return tci_arena_printf(tci_result_arena(call->result), ret_path, err, "%.*s%s%.*s",
                            TC_STR_ARG(dir), dir.len > 1 ? "/" : "", TC_STR_ARG(name));
}

static int eip_canonical(tc_env *env, const tc_call *call, tc_str path, tc_str *ret_path,
                         tc_err *err)
{
    tc_file_info info;
    tc_str argv[] = {TC_STR("realpath"), TC_STR("--"), path}, output = {0};
    int rc = tci_eip_stat(env, call, path, true, &info, err);
    if (rc < 0)
        return tci_eip_blame(env, call, rc, path, TCI_EIP_FILE);
    if (env->v->can_exec(env)) {
        rc = helper_program(env, call, argv, TCI_ARRAY_LEN(argv), &output, err);
        if (rc == 0 && output.len > 1) {
            *ret_path = tci_str_sub(output, 0, output.len - 1);
            return 0;
        }
    }
    rc = canonical_by_listing(env, call, path, ret_path, err);
    if (rc == TC_E_UNSUPPORTED || rc == TC_E_NO_METHOD)
        return tci_env_fail(call, TC_ENV_NOT_SUPPORTED, path, err, TC_E_UNSUPPORTED,
                            "the device does not say where '%.*s' leads", TC_STR_ARG(path));
    return rc < 0 ? tci_eip_blame(env, call, rc, path, TCI_EIP_ANY) : 0;
}

/* ---- whole files ---- */

static int into_buffer(void *user, const void *bytes, size_t len, tc_err *err)
{
    tci_buf *b = user;
    tci_buf_append(b, bytes, len);
    return tci_buf_error(b, err);
}

static int read_into(tc_env *env, const tc_call *call, tc_str path, tci_buf *b, tc_err *err)
{
    int rc = tci_eip_read_stream(env, call, path, NULL, into_buffer, b, NULL, err);
    return rc < 0 ? tci_eip_blame(env, call, rc, path, TCI_EIP_FILE) : 0;
}

static int eip_read(tc_env *env, const tc_call *call, tc_str path, tc_str *ret_bytes, tc_err *err)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    int rc = read_into(env, call, path, &b, err);
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

static int upload(tc_env *env, const tc_call *call, tc_str path, tc_str bytes, tc_write_mode mode,
                  tc_err *err)
{
    tc_str rest = bytes;
    tc_write_options o = {.size = sizeof o, .mode = mode};
    return tci_eip_write_stream(env, call, path, &o, from_text, &rest, NULL, err);
}

/* Where a final link leads, since EIP writes to no link. False: path is none, or it is not known. */
static bool behind_link(tc_env *env, const tc_call *call, tc_str path, tc_str *ret_path)
{
    tc_file_info info;
    tc_err ignored;
    tc_call aside;
    tc_str target = {0};
    if (tci_eip_aside(call, &aside, &ignored) < 0)
        return false;
    bool is_known = tci_eip_stat(env, &aside, path, false, &info, &ignored) == 0 &&
                    info.kind == TC_FILE_SYMLINK &&
                    eip_canonical(env, &aside, path, &target, &ignored) == 0 &&
                    tc_result_dup(call->result, target, ret_path, &ignored) == 0;
    tci_eip_aside_done(&aside);
    return is_known;
}

/* Append to what there is, or make it: whoever makes it first, both are appended to. */
static int append_or_create(tc_env *env, const tc_call *call, tc_str path, tc_str bytes,
                            tc_err *err)
{
    int rc = upload(env, call, path, bytes, TC_WRITE_APPEND, err);
    if (rc != TC_E_NOT_FOUND)
        return rc;
    rc = upload(env, call, path, bytes, TC_WRITE_CREATE, err);
    return rc == TC_E_CONFLICT ? upload(env, call, path, bytes, TC_WRITE_APPEND, err) : rc;
}

static int write_once(tc_env *env, const tc_call *call, tc_str path, tc_str bytes, unsigned how,
                      tc_err *err)
{
    return (how & TCI_WRITE_APPEND) != 0 ? append_or_create(env, call, path, bytes, err)
                                         : upload(env, call, path, bytes, TC_WRITE_UPSERT, err);
}

static int eip_write(tc_env *env, const tc_call *call, tc_str path, tc_str bytes, unsigned how,
                     tc_err *err)
{
    tc_str target;
    int rc = write_once(env, call, path, bytes, how, err);
    if (rc == TC_E_NOT_FOUND && (how & TCI_WRITE_NO_PARENTS) == 0) {
        rc = tci_eip_mkdir(env, call, parent_of(path), true, true, err);
        if (rc == 0)
            rc = write_once(env, call, path, bytes, how, err);
    }
    if (rc == TC_E_DENIED && behind_link(env, call, path, &target))
        rc = write_once(env, call, target, bytes, how, err);
    if (rc < 0)
        return tci_eip_blame(env, call, rc, path, TCI_EIP_FILE);
    return (how & TCI_WRITE_APPEND) != 0 ? tci_env_check_abort(call, path, err) : 0;
}

/* ---- changes ---- */

static int replace_cut(tc_env *env, const tc_call *call, tc_str path, uint64_t size, tci_buf *b,
                       tc_err *err)
{
    tc_str target;
    int rc = size > 0 ? read_into(env, call, path, b, err) : 0;
    if (rc < 0)
        return rc;
    if (b->len > size) {
        tci_buf_truncate(b, (size_t)size);
    } else if (b->len < size) {
        size_t more = (size_t)size - b->len;
        char *zeros = tci_buf_reserve(b, more);
        if (zeros == NULL)
            return tci_buf_error(b, err);
        memset(zeros, 0, more);
        tci_buf_commit(b, more);
    }
    rc = upload(env, call, path, tci_buf_str(b), TC_WRITE_REPLACE, err);
    if (rc == TC_E_DENIED && behind_link(env, call, path, &target))
        rc = upload(env, call, target, tci_buf_str(b), TC_WRITE_REPLACE, err);
    return rc < 0 ? tci_eip_blame(env, call, rc, path, TCI_EIP_FILE) : 0;
}

/* Read, cut, replace: sound while nobody else writes to it. */
static int eip_truncate(tc_env *env, const tc_call *call, tc_str path, uint64_t size, tc_err *err)
{
    tc_file_info info;
    tci_buf b;
    int rc = tci_eip_stat(env, call, path, true, &info, err);
    if (rc < 0 || info.kind != TC_FILE_REGULAR)
        return tci_eip_blame(
            env, call,
            rc < 0 ? rc : tc_err_set(err, TC_E_CONFLICT, "'%.*s' is not a file", TC_STR_ARG(path)),
            path, TCI_EIP_FILE);
    if (size > TRUNCATE_MAX || info.size_bytes > TRUNCATE_MAX)
        return tci_env_fail(call, TC_ENV_NOT_SUPPORTED, path, err, TC_E_UNSUPPORTED,
                            "a file of more than 64 MiB cannot be cut or extended there");
    tci_buf_init(&b, TCI_BUF_MAX);
    rc = replace_cut(env, call, path, size, &b, err);
    tci_buf_done(&b);
    return rc == 0 ? tci_env_check_abort(call, path, err) : rc;
}

/* What was written over EIP is on stable storage already; the rest is up to a program over there. */
static int eip_flush(tc_env *env, const tc_call *call, tc_str path, tc_err *err)
{
    tc_file_info info;
    tc_str argv[] = {TC_STR("sync"), TC_STR("--"), path}, output;
    int rc = tci_eip_stat(env, call, path, true, &info, err);
    if (rc == 0 && info.kind != TC_FILE_REGULAR)
        rc = tc_err_set(err, TC_E_CONFLICT, "'%.*s' is not a file", TC_STR_ARG(path));
    if (rc < 0)
        return tci_eip_blame(env, call, rc, path, TCI_EIP_FILE);
    rc = env->v->can_exec(env) ? helper_program(env, call, argv, TCI_ARRAY_LEN(argv), &output, err)
                               : 0;
    if (rc < 0)
        tci_env_blame(call, rc == TC_E_IO ? TC_ENV_UNKNOWN : tci_env_word_of(rc), path);
    return rc;
}

static int eip_rename(tc_env *env, const tc_call *call, tc_str from, tc_str to, tc_err *err)
{
    int rc = tci_eip_move(env, call, from, to, true, NULL, err);
    if (rc == 0)
        return 0;
    /* What is wrong may be the place it should go to. */
    (void)tci_eip_blame(env, call, rc, from, TCI_EIP_ANY);
    tc_env_error word = tci_env_evidence(call)->env_error;
    if (word == TC_ENV_UNKNOWN || word == TC_ENV_PERMISSION_DENIED) {
        (void)tci_eip_blame(env, call, rc, parent_of(to), TCI_EIP_DIRECTORY);
        word = tci_env_evidence(call)->env_error;
    }
    tci_env_blame(call, word, from);
    return rc;
}

static int eip_create_dir(tc_env *env, const tc_call *call, tc_str path, bool is_recursive,
                          tc_err *err)
{
    tc_file_info info;
    tc_call aside;
    tc_err why;
    int rc = tci_eip_mkdir(env, call, path, is_recursive, is_recursive, err);
    if (rc == 0)
        return 0;
    /* Something is there: with recursive a link to a directory would be fine. */
    if (is_recursive && tci_eip_aside(call, &aside, &why) == 0) {
        bool is_fine = tci_eip_stat(env, &aside, path, true, &info, &why) == 0 &&
                       info.kind == TC_FILE_DIRECTORY;
        tci_eip_aside_done(&aside);
        if (is_fine)
            return 0;
    }
    return tci_eip_blame(env, call, rc, path, TCI_EIP_ANY);
}

static int eip_remove(tc_env *env, const tc_call *call, tc_str path, bool is_recursive, bool force,
                      tc_err *err)
{
    tc_file_info info;
    int rc = tci_eip_stat(env, call, path, false, &info, err);
    if (rc < 0) {
        (void)tci_eip_blame(env, call, rc, path, TCI_EIP_ANY);
        bool is_missing = tci_env_evidence(call)->env_error == TC_ENV_NOT_FOUND;
        return is_missing && force ? 0 : rc;
    }
    bool is_dir = info.kind == TC_FILE_DIRECTORY;
    if (is_dir && !is_recursive)
        return tci_env_fail(call, TC_ENV_UNKNOWN, path, err, TC_E_CONFLICT, "'%.*s' is a directory",
                            TC_STR_ARG(path));
    rc = tci_eip_remove(env, call, path, info.kind, is_dir, is_dir ? REMOVE_MAX : 1, NULL, err);
    return rc < 0 ? tci_eip_blame(env, call, rc, path, TCI_EIP_ANY) : 0;
}

/* ---- temporary directories ---- */

static void random_suffix(char out[SUFFIX])
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    uint8_t random[SUFFIX];
    tci_random_bytes(random, sizeof random);
    for (size_t i = 0; i < SUFFIX; i++)
        out[i] = letters[random[i] % (sizeof letters - 1)];
}

int tci_eip_make_temp(tc_env *env, const tc_call *call, tc_str prefix, tc_str *ret_path,
                      tc_err *err)
{
    tc_str path = prefix, output;
    int rc = TC_E_CONFLICT;
    for (int i = 0; i < TEMP_TRIES && rc == TC_E_CONFLICT; i++) {
        char suffix[SUFFIX];
        random_suffix(suffix);
        rc = tci_arena_printf(tci_result_arena(call->result), &path, err, "%.*s%.*s",
                              TC_STR_ARG(prefix), SUFFIX, suffix);
        if (rc == 0)
            rc = tci_eip_mkdir(env, call, path, false, false, err);
    }
    if (rc < 0)
        return tci_eip_blame(env, call, rc, path, TCI_EIP_ANY);
    tc_str argv[] = {TC_STR("chmod"), TC_STR("700"), TC_STR("--"), path};
    if (env->v->can_exec(env)) {
        rc = helper_program(env, call, argv, TCI_ARRAY_LEN(argv), &output, err);
        if (rc < 0)
            return rc;
    }
    *ret_path = path;
    return 0;
}

const tci_env_methods tci_eip_env_methods = {
    .know = eip_know,
    .info = eip_info,
    .canonical = eip_canonical,
    .read = eip_read,
    .write = eip_write,
    .truncate = eip_truncate,
    .flush = eip_flush,
    .rename = eip_rename,
    .open_file = tci_eip_open_file,
    .open_dir = tci_eip_open_dir,
    .list_dir = tci_eip_list_dir,
    .list_files = tci_eip_list_files,
    .create_dir = eip_create_dir,
    .remove = eip_remove,
    .make_temp = tci_eip_make_temp,
    .exec = tci_eip_exec,
    .watch = tci_eip_watch,
};
