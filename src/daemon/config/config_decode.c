/* SPDX-License-Identifier: Apache-2.0
 *
 * From the checked tree to the configuration: ranges, rules between fields, defaults. Leaves types and
 * unknown fields to config_json.c, what commands need to config_commands.c, the transport to
 * config_http.c.
 *
 * Invariant: every text that ends up in the configuration is NUL-terminated in its arena. */
#include "daemon/config/config_int.h"

#include "base/utf8.h"
#include "plat/file.h"

enum {
    ID_BYTES_MAX = 256,
    NAME_CHARS_MAX = 256,
    DESCRIPTION_CHARS_MAX = 4096,
    FILESYSTEMS_MAX = 16
};
enum { SAMPLE_MS_MIN = 1000, SAMPLE_MS_MAX = 60000, SAMPLE_MS_DEFAULT = 10000, FS_NAME_MAX = 64 };
#define IDLE_TIMEOUT_MS UINT64_C(1800000)
#define DISCONNECT_GRACE_MS UINT64_C(30000)
/* Sums and products of two limits, and of one with a clock, stay within 64 bits. */
#define COUNT_MAX ((UINT64_C(1) << 61) - 1)

/* ---- text ---- */

bool tci_cfg_is_printable(tc_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if (c < 0x20 || c == 0x7f)
            return false;
        if (c == 0xc2 && i + 1 < s.len && (unsigned char)s.ptr[i + 1] < 0xa0)
            return false;
    }
    return true;
}

/* White_Space of Unicode, without the controls. */
static bool is_space(int32_t c)
{
    return c == ' ' || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool tci_cfg_is_trimmed(tc_str s)
{
    size_t len, last = s.len;
    if (s.len == 0)
        return true;
    do
        last--;
    while (last > 0 && ((unsigned char)s.ptr[last] & 0xc0) == 0x80);
    return !is_space(tci_utf8_decode(s, &len)) &&
           !is_space(tci_utf8_decode(tci_str_sub(s, last, s.len), &len));
}

static int keep(tci_cfg *c, tc_str text, tc_str *ret, tc_err *err)
{
    return tci_arena_printf(c->arena, ret, err, "%.*s", TC_STR_ARG(text));
}

/* ---- reading the tree ---- */

static const tci_json *get(const tci_cfg *c, const char *object, const char *name)
{
    const tci_json *v = object != NULL ? tci_json_get(&c->tree, tci_str(object)) : &c->tree;
    v = v != NULL ? tci_json_get(v, tci_str(name)) : NULL;
    return v != NULL && v->kind != TCI_JSON_NULL ? v : NULL;
}

static bool get_text(const tci_cfg *c, const char *name, tc_str *ret)
{
    const tci_json *v = get(c, NULL, name);
    return v != NULL && tci_json_as_str(v, ret);
}

static uint64_t get_count(const tci_cfg *c, const char *name, uint64_t otherwise)
{
    uint64_t value = otherwise;
    const tci_json *v = get(c, NULL, name);
    if (v != NULL)
        (void)tci_json_as_u64(v, &value); /* checked before */
    return value;
}

static bool get_bool(const tci_cfg *c, const char *object, const char *name, bool otherwise)
{
    bool value = otherwise;
    const tci_json *v = get(c, object, name);
    if (v != NULL)
        (void)tci_json_as_bool(v, &value); /* checked before */
    return value;
}

/* ---- monitoring ---- */

static bool goes_up(tc_str path)
{
    tc_str part;
    while (tci_str_split(&path, '/', &part)) {
        if (tci_str_eq(part, TC_STR("..")))
            return true;
    }
    return false;
}

static int check_watched(tc_str place, tc_str path, tc_err *err)
{
    if (!tci_cfg_is_absolute(path) || goes_up(path))
        return tc_err_set(err, TC_E_INVALID, "%.*s must be an absolute path without '..'",
                          TC_STR_ARG(place));
    return 0;
}

static bool is_fs_name(tc_str name)
{
    if (name.len == 0 || name.len > FS_NAME_MAX)
        return false;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '_' || c == '-'))
            return false;
    }
    return true;
}

static int decode_filesystems(tci_cfg *c, const tci_json *map, tc_err *err)
{
    tci_config *config = c->config;
    if (map->count > FILESYSTEMS_MAX)
        return tc_err_set(err, TC_E_INVALID, "monitoring.filesystems must name at most %d paths",
                          FILESYSTEMS_MAX);
    config->filesystems = tci_arena_items(c->arena, tci_monitored_fs, map->count + 1);
    if (config->filesystems == NULL)
        return tci_arena_error(c->arena, err);
    for (uint32_t i = 0; i < map->count; i++) {
        const tci_json_member *m = &map->u.members[i];
        tci_monitored_fs *fs = &config->filesystems[i];
        tc_str path, place;
        if (!is_fs_name(m->key))
            return tc_err_set(
                err, TC_E_INVALID,
                "monitoring.filesystems: names must be 1 to %d ASCII letters, digits, '_' or '-'",
                FS_NAME_MAX);
        (void)tci_json_as_str(&m->value, &path); /* checked before */
        if (tci_arena_printf(c->arena, &place, err, "monitoring.filesystems.%.*s",
                             TC_STR_ARG(m->key)) < 0 ||
            check_watched(place, path, err) < 0 || keep(c, m->key, &fs->name, err) < 0 ||
            keep(c, path, &fs->path, err) < 0)
            return err->code;
    }
    config->nfilesystems = map->count;
    return 0;
}

int tci_cfg_decode_monitoring(tci_cfg *c, tc_err *err)
{
    tci_config *config = c->config;
    const tci_json *v = tci_json_get(&c->tree, TC_STR("monitoring")), *member;
    bool is_off = v != NULL && v->kind == TCI_JSON_NULL;
    config->sample_interval_ms = SAMPLE_MS_DEFAULT;
    config->has_monitoring = v != NULL && !is_off;
    if ((member = get(c, "monitoring", "sample_interval_ms")) != NULL)
        (void)tci_json_as_u64(member, &config->sample_interval_ms); /* checked before */
    if (config->sample_interval_ms < SAMPLE_MS_MIN || config->sample_interval_ms > SAMPLE_MS_MAX)
        return tc_err_set(err, TC_E_INVALID,
                          "monitoring.sample_interval_ms must be between %d and %d", SAMPLE_MS_MIN,
                          SAMPLE_MS_MAX);
    if ((member = get(c, "monitoring", "filesystems")) != NULL &&
        decode_filesystems(c, member, err) < 0)
        return err->code;
    if ((member = get(c, "monitoring", "cgroup_v2_directory")) != NULL) {
        tc_str path;
        (void)tci_json_as_str(member, &path); /* checked before */
        if (check_watched(TC_STR("monitoring.cgroup_v2_directory"), path, err) < 0 ||
            keep(c, path, &config->cgroup_v2_directory, err) < 0)
            return err->code;
    }
    return tci_cfg_check_export(c, is_off, err);
}

/* ---- limits ---- */

typedef struct limit {
    const char *name;
    size_t offset;
    uint64_t value;
} limit;

static const limit limits[] = {
#define X(name, value) {#name, offsetof(tci_limits, name), value},
    TCI_LIMITS(X)
#undef X
};

/* small * factor <= large */
typedef struct limit_rule {
    const char *small, *large;
    uint64_t factor;
} limit_rule;

static const limit_rule limit_rules[] = {
    {"max_concurrent_operations", "max_device_concurrent_operations", 1},
    {"max_processes", "max_device_processes", 1},
    {"max_process_records", "max_device_process_records", 1},
    {"max_operation_records", "max_device_operation_records", 1},
    {"max_spool_bytes", "max_device_spool_bytes", 1},
    {"max_spool_objects", "max_device_spool_objects", 1},
    {"max_concurrent_file_transfers", "max_device_file_transfers", 1},
    {"max_file_transfer_records", "max_device_file_transfer_records", 1},
    {"max_staged_file_bytes", "max_device_staged_file_bytes", 1},
    {"max_staged_file_objects", "max_device_staged_file_objects", 1},
    {"max_processes", "max_process_records", 1},
    {"max_concurrent_file_transfers", "max_file_transfer_records", 1},
    {"max_output_preview_bytes", "max_output_bytes_per_stream", 1},
    {"max_output_bytes_per_stream", "max_spool_bytes", 2},
};

static uint64_t *limit_at(tci_limits *l, size_t i)
{
    return (uint64_t *)(void *)((char *)l + limits[i].offset);
}

static uint64_t limit_named(tci_limits *l, const char *name)
{
    for (size_t i = 0; i < TCI_ARRAY_LEN(limits); i++) {
        if (strcmp(limits[i].name, name) == 0)
            return *limit_at(l, i);
    }
    TC_ASSERT(false); /* a rule about a limit that is not there */
    return 0;
}

int tci_cfg_decode_limits(tci_cfg *c, tc_err *err)
{
    tci_limits *l = &c->config->limits;
    for (size_t i = 0; i < TCI_ARRAY_LEN(limits); i++) {
        const tci_json *v = get(c, "limits", limits[i].name);
        uint64_t value = limits[i].value;
        if (v != NULL)
            (void)tci_json_as_u64(v, &value); /* checked before */
        if (value < 1 || value > COUNT_MAX)
            return tc_err_set(err, TC_E_INVALID, "limits.%s must be between 1 and %llu",
                              limits[i].name, (unsigned long long)COUNT_MAX);
        *limit_at(l, i) = value;
    }
    for (size_t i = 0; i < TCI_ARRAY_LEN(limit_rules); i++) {
        const limit_rule *r = &limit_rules[i];
        if (limit_named(l, r->small) * r->factor > limit_named(l, r->large))
            return tc_err_set(err, TC_E_INVALID, "limits.%s must not exceed %slimits.%s", r->small,
                              r->factor == 2 ? "half of " : "", r->large);
    }
    return 0;
}

/* ---- the device ---- */

static int decode_text(tci_cfg *c, const char *name, size_t max_chars, tc_str *ret, tc_err *err)
{
    tc_str text;
    if (!get_text(c, name, &text))
        return 0;
    if (!tci_cfg_is_printable(text) || tci_utf8_count(text) > max_chars)
        return tc_err_set(err, TC_E_INVALID,
                          "%s must be at most %zu characters and no control characters", name,
                          max_chars);
    return keep(c, text, ret, err);
}

static int decode_id(tci_cfg *c, tc_err *err)
{
    tc_str id;
    if (!get_text(c, "device_id", &id))
        return 0;
    if (id.len == 0 || id.len > ID_BYTES_MAX || !tci_cfg_is_printable(id) ||
        !tci_cfg_is_trimmed(id))
        return tc_err_set(
            err, TC_E_INVALID,
            "device_id must be 1 to %d bytes without control characters or blanks around it",
            ID_BYTES_MAX);
    return keep(c, id, &c->config->device_id, err);
}

static bool is_plain(tc_str path)
{
    tc_str part;
    while (tci_str_split(&path, '/', &part)) {
        if (tci_str_eq(part, TC_STR("..")) || tci_str_eq(part, TC_STR(".")))
            return false;
    }
    return true;
}

static int decode_cwd(tci_cfg *c, tc_err *err)
{
    static const char name[] = "default_working_directory";
    char buf[TCI_PATH_MAX];
    tc_str path = TC_STR("."), real;
    bool is_given = get_text(c, name, &path);
    if (is_given && !tci_cfg_is_absolute(path))
        return tc_err_set(err, TC_E_INVALID, "%s must be an absolute path", name);
    if (tci_file_realpath(path, buf, &real, err) == 0)
        return keep(c, real, &c->config->default_working_directory, err);
    if (!is_given)
        return tc_err_wrap(err, "cannot tell the working directory of this process");
    while (path.len > 1 && path.ptr[path.len - 1] == '/')
        path.len--;
    if (!is_plain(path))
        return tc_err_set(err, TC_E_INVALID, "%s does not exist: it must be without '.' and '..'",
                          name);
    return keep(c, path, &c->config->default_working_directory, err);
}

static int decode_lifecycle(tci_cfg *c, tc_err *err)
{
    tci_config *config = c->config;
    config->idle_timeout_ms = get_count(c, "idle_timeout_ms", IDLE_TIMEOUT_MS);
    config->disconnect_grace_ms = get_count(c, "disconnect_grace_ms", DISCONNECT_GRACE_MS);
    if (config->idle_timeout_ms > COUNT_MAX)
        return tc_err_set(err, TC_E_INVALID, "idle_timeout_ms must be at most %llu",
                          (unsigned long long)COUNT_MAX);
    if (config->disconnect_grace_ms == 0 || config->disconnect_grace_ms >= config->idle_timeout_ms)
        return tc_err_set(err, TC_E_INVALID,
                          "disconnect_grace_ms must be positive and less than idle_timeout_ms");
    if (get_count(c, "computer_use_permission_timeout_ms", 1) == 0)
        return tc_err_set(err, TC_E_INVALID, "computer_use_permission_timeout_ms must be positive");
    return 0;
}

/* ---- folders ---- */

int tci_cfg_state_home(tci_cfg *c, tc_str *ret, tc_err *err)
{
    tc_str home;
    if (tci_cfg_getenv(c, "XDG_STATE_HOME", &home) && tci_cfg_is_absolute(home))
        return tci_arena_printf(c->arena, ret, err, "%.*s/telechir", TC_STR_ARG(home));
    if (tci_cfg_getenv(c, "HOME", &home) && tci_cfg_is_absolute(home))
        return tci_arena_printf(c->arena, ret, err, "%.*s/.local/state/telechir", TC_STR_ARG(home));
    *ret = TC_STR("");
    return 0;
}

static int default_folders(tci_cfg *c, tc_err *err)
{
    tci_config *config = c->config;
    const tci_cfg_setting *runtime = &c->vars[TCI_CFG_VAR_RUNTIME_DIR];
    tc_str home = TC_STR("");
    if (!config->is_drop_in && tci_cfg_state_home(c, &home, err) < 0)
        return err->code;
    if (home.len == 0) {
        (void)tc_err_set(err, TC_E_INVALID, "%.*s is required", TC_STR_ARG(runtime->name));
        return tc_err_hint(err, "name a folder of this daemon's own, or set HOME");
    }
    config->state_dir = home;
    return tci_arena_printf(c->arena, &config->runtime_dir, err, "%.*s/runtime", TC_STR_ARG(home));
}

/* The state folder lies beside the runtime folder: its name with the extension replaced. */
static int state_beside(tci_cfg *c, tc_err *err)
{
    tc_str parent, name, path = c->config->runtime_dir;
    tci_path_split(path, &parent, &name);
    size_t dot = tci_str_rfind_byte(name, '.');
    if (name.len == 0 || tci_str_eq(name, TC_STR("..")) || tci_str_eq(name, TC_STR(".")))
        return tc_err_set(err, TC_E_INVALID, "'%.*s' does not name a runtime folder",
                          TC_STR_ARG(path));
    if (dot > 0 && dot < name.len)
        name.len = dot;
    return tci_arena_printf(c->arena, &c->config->state_dir, err, "%.*s/%.*s.state",
                            TC_STR_ARG(parent.len > 1 ? parent : TC_STR("")), TC_STR_ARG(name));
}

static int decode_folders(tci_cfg *c, tc_err *err)
{
    tci_config *config = c->config;
    const tci_cfg_setting *runtime = &c->vars[TCI_CFG_VAR_RUNTIME_DIR];
    tc_str path = runtime->value;
    if (runtime->is_set) {
        if (!tci_cfg_is_absolute(path))
            return tc_err_set(err, TC_E_INVALID, "%.*s must be an absolute path",
                              TC_STR_ARG(runtime->name));
        while (path.len > 1 && path.ptr[path.len - 1] == '/')
            path.len--;
        if (keep(c, path, &config->runtime_dir, err) < 0 || state_beside(c, err) < 0)
            return err->code;
    } else if (default_folders(c, err) < 0) {
        return err->code;
    }
    if (!get_text(c, "installation_state_directory", &path))
        return 0;
    if (!tci_cfg_is_absolute(path))
        return tc_err_set(err, TC_E_INVALID,
                          "installation_state_directory must be an absolute path");
    return keep(c, path, &config->state_dir, err);
}

int tci_cfg_decode_device(tci_cfg *c, tc_err *err)
{
    tci_config *config = c->config;
    config->directory_discovery = get_bool(c, NULL, "directory_discovery", true);
    if (decode_folders(c, err) < 0 || decode_id(c, err) < 0 ||
        decode_text(c, "name", NAME_CHARS_MAX, &config->name, err) < 0 ||
        decode_text(c, "description", DESCRIPTION_CHARS_MAX, &config->description, err) < 0 ||
        decode_cwd(c, err) < 0)
        return err->code;
    return decode_lifecycle(c, err);
}

/* ---- boundary ---- */

static int not_built(tc_err *err, const char *what, const char *hint)
{
    (void)tc_err_set(err, TC_E_UNSUPPORTED, "%s is not available in this build", what);
    return tc_err_hint(err, "%s", hint);
}

static int check_identity(const tci_cfg *c, tc_err *err)
{
    const tci_json *uid = get(c, "execution", "uid"), *gid = get(c, "execution", "gid");
    uint64_t user = 0, group = 0;
    if ((uid == NULL) != (gid == NULL))
        return tc_err_set(err, TC_E_INVALID, "execution.uid and execution.gid belong together");
    if (uid == NULL)
        return 0;
    (void)tci_json_as_u64(uid, &user); /* both checked before */
    (void)tci_json_as_u64(gid, &group);
    if (user >= UINT32_MAX || group >= UINT32_MAX)
        return tc_err_set(err, TC_E_INVALID,
                          "execution.uid and execution.gid must be ids of this system");
    if (user != tci_file_euid() || group != tci_file_egid())
        return not_built(err, "another execution.uid or execution.gid than the daemon's own",
                         "start the daemon as that account");
    return 0;
}

static int check_grants(const tci_cfg *c, tc_err *err)
{
    const tci_json *grants = get(c, "sandbox", "grants");
    for (uint32_t i = 0; grants != NULL && i < grants->count; i++) {
        tci_file_stat st;
        tc_str path = TC_STR("");
        const tci_json *member = tci_json_get(&grants->u.items[i], TC_STR("path"));
        if (member == NULL || !tci_json_as_str(member, &path) || !tci_cfg_is_absolute(path) ||
            tci_file_stat_at(TCI_FILE_CWD, path, true, &st, err) < 0 ||
            st.kind != TCI_FILE_KIND_DIRECTORY)
            return tc_err_set(err, TC_E_INVALID,
                              "sandbox.grants[%u].path must be an existing absolute folder",
                              (unsigned)i);
    }
    return 0;
}

static bool is_word(const tci_cfg *c, const char *object, const char *word)
{
    tc_str text;
    const tci_json *v = get(c, object, "mode");
    return v == NULL || (tci_json_as_str(v, &text) && tci_str_eq(text, tci_str(word)));
}

int tci_cfg_check_boundary(const tci_cfg *c, tc_err *err)
{
    bool is_open = is_word(c, "sandbox", "disabled"), is_inherit = is_word(c, "egress", "inherit");
    bool shows_desktop = get_bool(c, NULL, "computer_use", false);
    if (shows_desktop && !(is_open && is_inherit))
        return tc_err_set(err, TC_E_INVALID,
                          "--computer-use needs a disabled sandbox and egress mode inherit");
    if (check_identity(c, err) < 0 || check_grants(c, err) < 0)
        return err->code;
    if (!is_open)
        return not_built(err, "sandbox mode restricted",
                         "leave sandbox out only where none is needed");
    if (!is_inherit)
        return not_built(err, "egress mode deny or controlled",
                         "use egress mode inherit only where sessions may reach the network");
    if (!get_bool(c, "execution", "allow_sudo", true))
        return not_built(err, "execution.allow_sudo false (--allow-sudo false)",
                         "start the daemon as an account that cannot gain privileges");
    if (shows_desktop)
        return not_built(err, "computer use (--computer-use true)", "leave --computer-use out");
    return 0;
}
