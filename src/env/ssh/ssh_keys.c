/* SPDX-License-Identifier: Apache-2.0
 *
 * The application's file of host keys: reading lines, adding and dropping keys. Leaves where keys
 * come from to ssh_trust.c. May block; any thread or process, one change at a time. Invariant: the
 * file is whole at every moment, and no key of a type ever replaces another without being dropped
 * first. */
#include "env/ssh/ssh_int.h"

#include "base/base64.h"
#include "base/hash.h"
#include "plat/clock.h"
#include "plat/file.h"

enum {
    FILE_MAX = 4 * 1024 * 1024,
    LINE_MAX = 32 * 1024,
    PRIVATE_FILE = 0600,
    PRIVATE_FOLDER = 0700,
    LOCK_MS = 10000,
    TYPE_PREFIX_BYTES = 4
};

/* ---- lines ---- */

static tc_str next_word(tc_str *rest)
{
    *rest = tci_str_trim(*rest);
    size_t n = 0;
    while (n < rest->len && rest->ptr[n] != ' ' && rest->ptr[n] != '\t')
        n++;
    tc_str word = tci_str_sub(*rest, 0, n);
    *rest = tci_str_sub(*rest, n, SIZE_MAX);
    return word;
}

static bool is_plain_alias(tc_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (strchr("*?!,|@#\"\\", s.ptr[i]) != NULL || (unsigned char)s.ptr[i] <= 0x20)
            return false;
    return s.len > 0;
}

static bool is_type(tc_str s)
{
    return (tci_str_starts(s, TC_STR("ssh-")) || tci_str_starts(s, TC_STR("ecdsa-sha2-")) ||
            tci_str_starts(s, TC_STR("sk-"))) &&
           tci_str_find(s, TC_STR("-cert-v")) == s.len;
}

/* Padded base64 of a key blob that begins with its own type (RFC 4253 section 6.6). */
static bool read_blob(tc_str text, tc_str type, tci_arena *a, tc_str *ret)
{
    if (text.len == 0 || text.len % 4 != 0)
        return false;
    for (int i = 0; i < 2 && text.ptr[text.len - 1] == '='; i++)
        text.len--;
    char *blob = tci_arena_bytes(a, tci_base64_decoded_max(text.len));
    size_t len = 0;
    tc_err err;
    if (blob == NULL || tci_base64_decode(text, blob, &len, &err) < 0 ||
        len <= TYPE_PREFIX_BYTES + type.len)
        return false;
    const unsigned char *p = (const unsigned char *)blob;
    size_t named = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
    *ret = tci_str_of(blob, len);
    return named == type.len && memcmp(blob + TYPE_PREFIX_BYTES, type.ptr, type.len) == 0;
}

static int fingerprint_of(tc_str blob, tci_arena *a, tc_str *ret, tc_err *err)
{
    uint8_t digest[TCI_SHA256_BYTES];
    char text[64];
    tci_sha256_of(blob, digest);
    size_t len = tci_base64_encoded_len(sizeof digest);
    TC_ASSERT(len < sizeof text);
    tci_base64_encode(tci_str_of(digest, sizeof digest), text);
    return tci_arena_printf(a, ret, err, "SHA256:%.*s", (int)len, text);
}

int tci_ssh_key_read(tc_str line, tci_arena *a, tc_ssh_key *ret_key, tc_err *err)
{
    tc_str rest = line;
    while (rest.len > 0 && (rest.ptr[rest.len - 1] == '\r' || rest.ptr[rest.len - 1] == '\n'))
        rest.len--;
    if (rest.len > LINE_MAX || memchr(rest.len > 0 ? rest.ptr : "", '\n', rest.len) != NULL ||
        memchr(rest.len > 0 ? rest.ptr : "", '\0', rest.len) != NULL)
        return tc_err_set(err, TC_E_INVALID, "not one line of a host key");
    tc_ssh_key key = {.alias = next_word(&rest)};
    key.type = next_word(&rest);
    tc_str base64 = next_word(&rest), blob = {0};
    if (!is_plain_alias(key.alias) || !is_type(key.type) ||
        !read_blob(base64, key.type, a, &blob)) {
        char shown[80];
        tc_err_set(err, TC_E_INVALID, "not the line of a host key: '%.*s'",
                   TC_STR_ARG(tci_ssh_printable(line, shown, sizeof shown)));
        return tc_err_hint(err, "it is 'alias type base64', as a scan gives it");
    }
    int rc = fingerprint_of(blob, a, &key.fingerprint, err);
    if (rc == 0)
        rc = tci_arena_printf(a, &key.line, err, "%.*s %.*s %.*s", TC_STR_ARG(key.alias),
                              TC_STR_ARG(key.type), TC_STR_ARG(base64));
    if (rc < 0)
        return rc;
    key.alias = tci_str_sub(key.line, 0, key.alias.len);
    key.type = tci_str_sub(key.line, key.alias.len + 1, key.type.len);
    *ret_key = key;
    return 0;
}

/* ---- the file ---- */

static int load_text(tc_str file, char **ret, size_t *ret_len, tc_err *err)
{
    int rc = tci_file_read_whole(TCI_FILE_CWD, file, FILE_MAX, ret, ret_len, err);
    if (rc == TC_E_NOT_FOUND) {
        *ret = NULL;
        *ret_len = 0;
        return 0;
    }
    return rc < 0 ? tc_err_wrap(err, "cannot read the host keys in '%.*s'", TC_STR_ARG(file)) : 0;
}

static bool is_of(tc_str line, tc_str alias)
{
    tc_str rest = line;
    return tci_str_eq_nocase(next_word(&rest), alias);
}

static int collect(tc_str text, tc_str alias, tci_arena *a, tc_ssh_keys *ret_keys, tc_err *err)
{
    size_t max = 1;
    for (size_t i = 0; i < text.len; i++)
        max += text.ptr[i] == '\n' ? 1 : 0;
    tc_ssh_key *items = tci_arena_items(a, tc_ssh_key, max);
    if (items == NULL)
        return tci_arena_error(a, err);
    tc_ssh_keys keys = {items, 0};
    tc_str line;
    while (tci_str_split(&text, '\n', &line)) {
        tc_err ignored; /* markers, hashes, patterns and comments are not ours, and stay */
        if ((alias.len == 0 || is_of(line, alias)) &&
            tci_ssh_key_read(line, a, &items[keys.count], &ignored) == 0)
            keys.count++;
    }
    *ret_keys = keys;
    return 0;
}

int tci_ssh_keys_load(tc_str file, tc_str alias, tci_arena *a, tc_ssh_keys *ret_keys, tc_err *err)
{
    char *bytes = NULL;
    size_t len = 0;
    int rc = load_text(file, &bytes, &len, err);
    if (rc == 0)
        rc = collect(tci_str_of(bytes, len), alias, a, ret_keys, err);
    tci_free(bytes);
    return rc;
}

/* ---- changing it ---- */

static int make_folder(tc_str path, tc_err *err)
{
    tc_str parent, name;
    tci_path_split(path, &parent, &name);
    if (name.len == 0)
        return 0;
    int rc = tci_file_mkdir(TCI_FILE_CWD, path, PRIVATE_FOLDER, err);
    if (rc == TC_E_NOT_FOUND) {
        rc = make_folder(parent, err);
        if (rc == 0)
            rc = tci_file_mkdir(TCI_FILE_CWD, path, PRIVATE_FOLDER, err);
    }
    return rc == TC_E_CONFLICT ? 0 : rc;
}

/* One change: the file, by the name that is not a link, locked, and its text. */
typedef struct change {
    char real[TCI_PATH_MAX];
    tc_str file;
    tci_file lock;
    char *text;
    size_t len;
} change;

static void change_end(change *c)
{
    tci_file_close(&c->lock);
    tci_free(c->text);
}

static int change_begin(tc_str file, change *c, tc_err *err)
{
    tc_str folder, name, real;
    tc_err ignored;
    char lock_path[TCI_PATH_MAX + 8];
    *c = (change){.lock = TCI_FILE_NONE, .file = file};
    tci_path_split(file, &folder, &name);
    int rc = make_folder(folder, err);
    if (rc == 0 && tci_file_realpath(file, c->real, &real, &ignored) == 0)
        c->file = real; /* what a link leads to is replaced, not the link */
    if (rc == 0 && c->file.len + sizeof ".lock" > TCI_PATH_MAX)
        rc = tc_err_set(err, TC_E_INVALID, "too long a name");
    if (rc == 0) {
        memcpy(lock_path, c->file.ptr, c->file.len);
        memcpy(lock_path + c->file.len, ".lock", sizeof ".lock");
        rc = tci_file_open(tci_str(lock_path), TCI_OPEN_READ | TCI_OPEN_WRITE | TCI_OPEN_CREATE,
                           PRIVATE_FILE, &c->lock, err);
    }
    if (rc == 0)
        rc = tci_file_lock_byte(c->lock, 0, LOCK_MS, err);
    if (rc == 0)
        rc = load_text(c->file, &c->text, &c->len, err);
    if (rc < 0) {
        change_end(c);
        return tc_err_wrap(err, "cannot change the host keys in '%.*s'", TC_STR_ARG(file));
    }
    return 0;
}

static int change_write(const change *c, const tci_buf *text, tc_err *err)
{
    uint8_t random[6];
    char hex[2 * sizeof random], path[TCI_PATH_MAX + 32];
    tci_random_bytes(random, sizeof random);
    tci_hex(random, sizeof random, hex);
    tci_buf name;
    tci_buf_init(&name, sizeof path - 1);
    tci_buf_printf(&name, "%.*s.%.*s.tmp", TC_STR_ARG(c->file), (int)sizeof hex, hex);
    tci_file f = TCI_FILE_NONE;
    int rc = tci_buf_error(text, err);
    if (rc == 0)
        rc = tci_buf_error(&name, err);
    tc_str temporary = tci_buf_str(&name);
    if (rc == 0)
        rc = tci_file_open(temporary, TCI_OPEN_WRITE | TCI_OPEN_CREATE | TCI_OPEN_EXCL,
                           PRIVATE_FILE, &f, err);
    if (rc == 0) {
        rc = tci_file_write_all(f, text->ptr, text->len, err);
        if (rc == 0)
            rc = tci_file_sync(f, err);
        tci_file_close(&f);
        if (rc == 0)
            rc = tci_file_rename(TCI_FILE_CWD, temporary, TCI_FILE_CWD, c->file, TCI_RENAME_REPLACE,
                                 err);
        if (rc < 0)
            tci_file_discard(TCI_FILE_CWD, temporary);
    }
    tci_buf_done(&name);
    if (rc < 0)
        tc_err_wrap(err, "cannot write the host keys in '%.*s'", TC_STR_ARG(c->file));
    return rc;
}

/* Every line that is kept, each with its newline. */
static uint64_t put_kept(const change *c, tc_str drop_alias, tci_buf *out)
{
    tc_str text = tci_str_of(c->text, c->len), line;
    uint64_t ndropped = 0;
    while (text.len > 0 && tci_str_split(&text, '\n', &line)) {
        if (drop_alias.len > 0 && is_of(line, drop_alias)) {
            ndropped++;
            continue;
        }
        tci_buf_append_str(out, line);
        tci_buf_append_byte(out, '\n');
    }
    return ndropped;
}

/* 1: it is to be added, 0: it is there. */
static int is_news(const tc_ssh_keys *known, const tc_ssh_key *key, tc_err *err)
{
    bool is_changed = false;
    for (size_t i = 0; i < known->count; i++) {
        if (!tci_str_eq(known->items[i].type, key->type))
            continue;
        if (tci_str_eq(known->items[i].fingerprint, key->fingerprint))
            return 0;
        is_changed = true;
        tc_err_set(err, TC_E_INTEGRITY, "the %.*s host key of '%.*s' changed",
                   TC_STR_ARG(key->type), TC_STR_ARG(key->alias));
        tc_err_hint(err, "trusted %.*s, new %.*s; forget the old key first",
                    TC_STR_ARG(known->items[i].fingerprint), TC_STR_ARG(key->fingerprint));
    }
    return is_changed ? tc_err_recode(err, TC_E_UNTRUSTED) : 1;
}

static int add_all(const change *c, tc_str alias, const tc_ssh_keys *keys, tc_err *err)
{
    tci_arena a;
    tci_buf out;
    tci_arena_init(&a, 0);
    tci_buf_init(&out, FILE_MAX);
    put_kept(c, (tc_str){0}, &out);
    bool is_changed = false;
    int rc = 0;
    for (size_t i = 0; i < keys->count && rc >= 0; i++) {
        tc_ssh_keys known = {0};
        rc = collect(tci_buf_str(&out), alias, &a, &known, err);
        if (rc == 0)
            rc = is_news(&known, &keys->items[i], err);
        if (rc != 1)
            continue;
        is_changed = true;
        tci_buf_append_str(&out, keys->items[i].line);
        tci_buf_append_byte(&out, '\n');
    }
    if (rc >= 0)
        rc = is_changed ? change_write(c, &out, err) : 0;
    tci_buf_done(&out);
    tci_arena_done(&a);
    return rc;
}

int tci_ssh_keys_add(tc_str file, tc_str alias, const tc_ssh_keys *keys, tc_err *err)
{
    change c;
    int rc = change_begin(file, &c, err);
    if (rc < 0)
        return rc;
    rc = add_all(&c, alias, keys, err);
    change_end(&c);
    return rc;
}

int tci_ssh_keys_drop(tc_str file, tc_str alias, uint64_t *ret_n, tc_err *err)
{
    change c;
    int rc = change_begin(file, &c, err);
    if (rc < 0)
        return rc;
    tci_buf out;
    tci_buf_init(&out, FILE_MAX);
    uint64_t n = put_kept(&c, alias, &out);
    if (n > 0)
        rc = change_write(&c, &out, err);
    tci_buf_done(&out);
    change_end(&c);
    if (rc == 0)
        *ret_n = n;
    return rc;
}
