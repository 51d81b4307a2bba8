/* SPDX-License-Identifier: Apache-2.0
 *
 * Daemon programs of this side that can be put on other machines. Leaves putting them there to
 * ssh_launch.c. May block; any thread. Invariant: no bytes leave this machine that do not have the
 * hash they were announced with.
 *
 * A folder of them is what `./dev release` makes, with a file MANIFEST.json:
 *     {"files": [{"name": "telechird-linux-x86_64", "os": "linux", "arch": "x86_64",
 *                 "kind": "telechird", "tls": false, "size": 1234, "sha256": "<64 hex digits>"}]}
 * name is relative to the folder; other kinds and other members are of no concern here. Of two
 * daemons for one machine the one without TLS is taken: it is smaller, and ssh has that part. */
#include "env/ssh/ssh_int.h"

#include "base/hash.h"
#include "base/json.h"
#include "env/pi/pi_env.h"
#include "plat/file.h"
#include "plat/self.h"

#define MANIFEST "MANIFEST.json"

enum { DAEMON_MAX = 256 * 1024 * 1024, MANIFEST_MAX = 1024 * 1024 };

/* ---- one program ---- */

/* What an ELF file is for (ELF specification: e_ident[EI_DATA] at 5, e_machine at 18). */
static int platform_of(tc_str bytes, tci_ssh_daemon *d, tc_str path, tc_err *err)
{
    enum { MACHINE_AT = 18, LITTLE = 1, X86_64 = 62, AARCH64 = 183 };
    if (!tci_str_starts(bytes, TC_STR("\177ELF"))) {
        if (tci_str_starts(bytes, TC_STR("#!")))
            return 0; /* runs wherever its interpreter does */
        tc_err_set(err, TC_E_INVALID, "'%.*s' is not a daemon program", TC_STR_ARG(path));
        return tc_err_hint(err, "name a telechird for that machine, or the folder with a manifest");
    }
    unsigned machine = 0;
    if (bytes.len > MACHINE_AT + 1 && bytes.ptr[5] == LITTLE)
        machine = (unsigned char)bytes.ptr[MACHINE_AT] |
                  (unsigned)(unsigned char)bytes.ptr[MACHINE_AT + 1] << 8;
    d->platform = TC_STR("linux");
    d->arch = machine == X86_64    ? TC_STR("x86_64")
              : machine == AARCH64 ? TC_STR("arm64")
                                   : (tc_str){0};
    if (d->arch.len > 0)
        return 0;
    return tc_err_set(err, TC_E_UNSUPPORTED, "'%.*s' is for an architecture that is not supported",
                      TC_STR_ARG(path));
}

static void hash_into(tc_str bytes, char out[65])
{
    uint8_t digest[TCI_SHA256_BYTES];
    tci_sha256_of(bytes, digest);
    tci_hex(digest, sizeof digest, out);
    out[64] = '\0';
}

static int read_program(tc_str path, char **ret_bytes, size_t *ret_len, tc_err *err)
{
    int rc = tci_file_read_whole(TCI_FILE_CWD, path, DAEMON_MAX, ret_bytes, ret_len, err);
    return rc < 0 ? tc_err_wrap(err, "cannot read the daemon '%.*s'", TC_STR_ARG(path)) : 0;
}

static int add_program(tc_str path, tci_arena *a, tci_ssh_daemons *out, tc_err *err)
{
    char *bytes = NULL;
    size_t len = 0;
    tci_ssh_daemon d = {0};
    int rc = read_program(path, &bytes, &len, err);
    if (rc < 0)
        return rc;
    rc = platform_of(tci_str_of(bytes, len), &d, path, err);
    if (rc == 0)
        rc = tci_arena_dup(a, path, &d.file, err);
    if (rc == 0) {
        d.size = len;
        hash_into(tci_str_of(bytes, len), d.sha256);
        out->items[out->count++] = d;
    }
    tci_free(bytes);
    return rc;
}

int tci_ssh_daemon_read(const tci_ssh_daemon *d, char **ret_bytes, size_t *ret_len, tc_err *err)
{
    char *bytes = NULL, hash[65];
    size_t len = 0;
    int rc = read_program(d->file, &bytes, &len, err);
    if (rc < 0)
        return rc;
    hash_into(tci_str_of(bytes, len), hash);
    if (strcmp(hash, d->sha256) != 0 || len != d->size) {
        tci_free(bytes);
        tc_err_set(err, TC_E_INTEGRITY, "the daemon '%.*s' is not what its manifest says",
                   TC_STR_ARG(d->file));
        return tc_err_hint(err, "install it anew");
    }
    *ret_bytes = bytes;
    *ret_len = len;
    return 0;
}

/* ---- a folder ---- */

static bool is_hash(tc_str text)
{
    uint8_t digest[TCI_SHA256_BYTES];
    tc_err err;
    return text.len == TCI_SHA256_HEX && tci_unhex(text, digest, sizeof digest, &err) == 0;
}

static bool is_plain_name(tc_str text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.ptr[i] <= 0x20)
            return false;
    return text.len > 0 && text.ptr[0] != '/' && tci_str_find(text, TC_STR("..")) == text.len;
}

static bool is_daemon(const tci_json *v)
{
    tc_str kind = {0};
    return tci_json_as_str(tci_json_get(v, TC_STR("kind")), &kind) &&
           tci_str_eq(kind, TC_STR("telechird"));
}

static int read_entry(const tci_json *v, tc_str folder, tci_arena *a, tci_ssh_daemon *ret,
                      tc_err *err)
{
    tci_ssh_daemon d = {0};
    tc_str name = {0}, hash = {0}, arch = {0};
    if (!tci_json_as_str(tci_json_get(v, TC_STR("os")), &d.platform) ||
        !tci_json_as_str(tci_json_get(v, TC_STR("arch")), &arch) ||
        !tci_json_as_str(tci_json_get(v, TC_STR("name")), &name) ||
        !tci_json_as_str(tci_json_get(v, TC_STR("sha256")), &hash) ||
        !tci_json_as_u64(tci_json_get(v, TC_STR("size")), &d.size) || d.platform.len == 0 ||
        !is_hash(hash) || !is_plain_name(name) || d.size == 0 || d.size > DAEMON_MAX)
        return tc_err_set(err, TC_E_PARSE,
                          "an entry of a daemon lacks something, or makes no sense");
    d.arch = tci_ssh_arch_of(arch);
    memcpy(d.sha256, hash.ptr, TCI_SHA256_HEX);
    int rc = tci_arena_dup(a, d.platform, &d.platform, err);
    if (rc == 0)
        rc = tci_arena_printf(a, &d.file, err, "%.*s/%.*s", TC_STR_ARG(folder), TC_STR_ARG(name));
    if (rc == 0)
        *ret = d;
    return rc;
}

static bool has_one_for(const tci_ssh_daemons *out, const tci_ssh_daemon *d)
{
    for (size_t i = 0; i < out->count; i++)
        if (tci_str_eq(out->items[i].platform, d->platform) &&
            tci_str_eq(out->items[i].arch, d->arch))
            return true;
    return false;
}

/* Those with, or without, TLS. */
static int read_entries(const tci_json *list, bool tls, tc_str folder, tci_arena *a,
                        tci_ssh_daemons *out, tc_err *err)
{
    for (size_t i = 0; i < list->count; i++) {
        const tci_json *v = &list->u.items[i];
        bool has_tls = false;
        (void)tci_json_as_bool(tci_json_get(v, TC_STR("tls")), &has_tls); /* absent: without */
        if (!is_daemon(v) || has_tls != tls)
            continue;
        tci_ssh_daemon d;
        int rc = read_entry(v, folder, a, &d, err);
        if (rc < 0)
            return rc;
        /* Others are for machines we would not know how to tell. */
        if (d.arch.len == 0 || has_one_for(out, &d))
            continue;
        if (out->count == TCI_SSH_DAEMONS_MAX)
            return tc_err_set(err, TC_E_TOO_BIG, "more than %d daemons", TCI_SSH_DAEMONS_MAX);
        out->items[out->count++] = d;
    }
    return 0;
}

static int read_manifest(tc_str folder, tci_arena *a, tci_ssh_daemons *out, tc_err *err)
{
    char *text = NULL;
    size_t len = 0;
    tc_str path = {0};
    tci_json root;
    int rc = tci_arena_printf(a, &path, err, "%.*s/" MANIFEST, TC_STR_ARG(folder));
    if (rc == 0)
        rc = tci_file_read_whole(TCI_FILE_CWD, path, MANIFEST_MAX, &text, &len, err);
    if (rc == 0)
        rc = tci_json_parse(tci_str_of(text, len), 0, a, &root, err);
    const tci_json *list = rc == 0 ? tci_json_get(&root, TC_STR("files")) : NULL;
    if (rc == 0 && (list == NULL || list->kind != TCI_JSON_ARRAY))
        rc = tc_err_set(err, TC_E_PARSE, "no list of files");
    if (rc == 0)
        rc = read_entries(list, false, folder, a, out, err);
    if (rc == 0)
        rc = read_entries(list, true, folder, a, out, err);
    if (rc == 0 && out->count == 0)
        rc = tc_err_set(err, TC_E_NOT_FOUND, "there is none");
    tci_free(text);
    return rc < 0 ? tc_err_wrap(err, "cannot use the daemons in '%.*s'", TC_STR_ARG(folder)) : 0;
}

/* ---- where they are ---- */

static bool has_manifest(tc_str folder, tci_arena *a)
{
    tc_str path = {0};
    tci_file_stat st;
    tc_err err;
    return tci_arena_printf(a, &path, &err, "%.*s/" MANIFEST, TC_STR_ARG(folder)) == 0 &&
           tci_file_stat_at(TCI_FILE_CWD, path, true, &st, &err) == 0;
}

static int use(tc_str from, tci_arena *a, tci_ssh_daemons *out, tc_err *err)
{
    tci_file_stat st;
    int rc = tci_file_stat_at(TCI_FILE_CWD, from, true, &st, err);
    if (rc < 0) {
        tc_err_wrap(err, "no daemon to put on other machines");
        tc_err_hint(err, "--executable and TELECHIR_DAEMONS name a telechird, or a folder with a "
                         "manifest of them");
        return rc;
    }
    return st.kind == TCI_FILE_KIND_DIRECTORY ? read_manifest(from, a, out, err)
                                              : add_program(from, a, out, err);
}

static bool beside_us(tci_arena *a, tc_str *ret_folder)
{
    char buf[TCI_PATH_MAX];
    tc_str self, parent, name;
    tc_err err;
    if (tci_self_program(buf, &self, &err) < 0)
        return false;
    tci_path_split(self, &parent, &name);
    static const char *const places[] = {"daemons", "../lib/telechir/daemons"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(places); i++)
        if (tci_arena_printf(a, ret_folder, &err, "%.*s/%s", TC_STR_ARG(parent), places[i]) == 0 &&
            has_manifest(*ret_folder, a))
            return true;
    return false;
}

int tci_ssh_daemons_find(tc_runtime *rt, tc_str from, tci_arena *a, tci_ssh_daemons *ret_d,
                         tc_err *err)
{
    tci_ssh_daemons found = {.count = 0};
    tc_str place = from;
    if (place.len == 0)
        place = tci_str(tci_runtime_getenv(rt, "TELECHIR_DAEMONS"));
    int rc = 0;
    if (place.len == 0 && !beside_us(a, &place)) {
        rc = tci_env_daemon_program(rt, (tc_str){0}, a, &place, err);
        if (rc < 0) {
            tc_err_wrap(err, "no daemon to put on other machines");
            tc_err_hint(err, "name one, or the folder of them (--executable, TELECHIR_DAEMONS)");
        }
    }
    if (rc == 0)
        rc = use(place, a, &found, err);
    if (rc == 0)
        *ret_d = found;
    return rc;
}

int tc_ssh_daemons_list(tc_runtime *rt, tc_result *r, tc_str from, tc_ssh_daemons *ret_daemons,
                        tc_err *err)
{
    tci_ssh_daemons found;
    tci_arena *a = tci_result_arena(r);
    int rc = tci_ssh_daemons_find(rt, from, a, &found, err);
    if (rc < 0)
        return rc;
    tc_ssh_daemon *items = tci_arena_items(a, tc_ssh_daemon, found.count);
    if (items == NULL)
        return tci_arena_error(a, err);
    for (size_t i = 0; rc == 0 && i < found.count; i++) {
        const tci_ssh_daemon *d = &found.items[i];
        items[i] = (tc_ssh_daemon){.platform = d->platform, .arch = d->arch, .file = d->file};
        rc = tci_arena_dup(a, tci_str(d->sha256), &items[i].sha256, err);
    }
    if (rc == 0)
        *ret_daemons = (tc_ssh_daemons){items, found.count};
    return rc;
}
