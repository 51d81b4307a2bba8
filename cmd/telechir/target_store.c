/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of saved targets. Leaves what a target means to target_form.c. The main thread.
 * Invariant: the file is always whole: a change reads it, writes a new one beside it and renames
 * that over, all under the lock of a file that is never renamed. */
#include "target.h"

#include "base/hash.h"
#include "plat/clock.h"
#include "plat/env.h"
#include "plat/file.h"

enum {
    FILE_MODE = 0600,
    FOLDER_MODE = 0700,
    FILE_BYTES_MAX = 4 * 1024 * 1024,
    LOCK_WAIT_MS = 10000
};

typedef struct store {
    tc_str folder, file, lock;
    tc_str home; /* that they are in; empty: the folder for settings was named */
} store;

static int store_paths(cli *c, store *ret, tc_err *err)
{
    tci_arena *a = &c->arena;
    *ret = (store){0};
    int rc = cli_our_folder(c, CLI_FOLDER_CONFIG, &ret->folder, &ret->home, err);
    if (rc == 0)
        rc = tci_arena_printf(a, &ret->file, err, "%.*s/targets.json", TC_STR_ARG(ret->folder));
    if (rc == 0)
        rc = tci_arena_printf(a, &ret->lock, err, "%.*s.lock", TC_STR_ARG(ret->file));
    return rc;
}

/* A home that is not there is not made. */
static int make_settings(const store *s, tc_err *err)
{
    tci_file_stat st;
    tc_err missing;
    if (s->home.len > 0 && tci_file_stat_at(TCI_FILE_CWD, s->home, true, &st, &missing) < 0) {
        tc_err_set(err, TC_E_NOT_FOUND, "the home folder '%.*s' is not there", TC_STR_ARG(s->home));
        return tc_err_hint(err, "set HOME or XDG_CONFIG_HOME");
    }
    return cli_make_folder(s->folder, err);
}

/* ---- reading ---- */

static int bad_file(const store *s, tc_err *err, const char *what)
{
    tc_err_set(err, TC_E_PARSE, "the saved targets in '%.*s' %s", TC_STR_ARG(s->file), what);
    return tc_err_hint(err, "repair or remove that file");
}

static int read_file(cli *c, const store *s, tci_json *ret_root, tc_err *err)
{
    char *text = NULL;
    size_t len = 0;
    tc_str kept;
    *ret_root = (tci_json){.kind = TCI_JSON_OBJECT};
    int rc = tci_file_read_whole(TCI_FILE_CWD, s->file, FILE_BYTES_MAX, &text, &len, err);
    if (rc == TC_E_NOT_FOUND)
        return 0;
    if (rc < 0)
        return rc;
    rc = tci_arena_dup(&c->arena, tci_str_of(text, len), &kept, err);
    tci_free(text);
    if (rc == 0 && tci_json_parse(kept, 0, &c->arena, ret_root, err) < 0)
        return bad_file(s, err, "cannot be read");
    if (rc == 0 && ret_root->kind != TCI_JSON_OBJECT)
        return bad_file(s, err, "are no JSON object");
    return rc;
}

static int targets_of(const store *s, const tci_json *root, cli_targets *ret, tc_err *err)
{
    const tci_json *version = tci_json_get(root, TC_STR("version"));
    const tci_json *targets = tci_json_get(root, TC_STR("targets"));
    uint64_t number = 1;
    *ret = (cli_targets){0};
    if (version != NULL && (!tci_json_as_u64(version, &number) || number != 1)) {
        tc_err_set(err, TC_E_INCOMPATIBLE, "'%.*s' is of a newer version", TC_STR_ARG(s->file));
        return tc_err_hint(err, "use the telechir that wrote it");
    }
    if (targets == NULL)
        return 0;
    if (targets->kind != TCI_JSON_OBJECT)
        return bad_file(s, err, "have no list of targets");
    *ret = (cli_targets){targets->u.members, targets->count};
    return 0;
}

int cli_targets_load(cli *c, cli_targets *ret, tc_err *err)
{
    store s;
    tci_json root;
    int rc = store_paths(c, &s, err);
    if (rc == 0)
        rc = read_file(c, &s, &root, err);
    return rc == 0 ? targets_of(&s, &root, ret, err) : rc;
}

const tci_json *cli_targets_get(const cli_targets *t, tc_str name)
{
    for (size_t i = 0; i < t->count; i++)
        if (tci_str_eq(t->members[i].key, name))
            return &t->members[i].value;
    return NULL;
}

static void text_member(const tci_json *v, const char *key, tc_str *out)
{
    const tci_json *m = tci_json_get(v, tci_str(key));
    if (m != NULL && !tci_json_as_str(m, out))
        *out = (tc_str){0};
}

static bool flag_member(const tci_json *v, const char *key)
{
    bool is_set = false;
    const tci_json *m = tci_json_get(v, tci_str(key));
    return m != NULL && tci_json_as_bool(m, &is_set) && is_set;
}

/* What is saved besides the form. */
static const struct {
    const char *key;
    size_t at;
} texts[] = {{"device_id", offsetof(cli_target, device_id)},
             {"credential_file", offsetof(cli_target, credential_file)},
             {"ca_file", offsetof(cli_target, ca_file)},
             {"executable", offsetof(cli_target, executable)},
             {"known_hosts", offsetof(cli_target, known_hosts)},
             {"host_key_alias", offsetof(cli_target, host_key_alias)},
             {"identity", offsetof(cli_target, identity)},
             {"ssh_config", offsetof(cli_target, ssh_config)},
             {"host", offsetof(cli_target, host)}},
  flags[] = {{"insecure", offsetof(cli_target, is_insecure)},
             {"allow_plaintext_private_link", offsetof(cli_target, is_plaintext_allowed)},
             {"login_shell", offsetof(cli_target, is_login_shell)}};

static tc_str *text_at(cli_target *t, size_t i)
{
    return (tc_str *)(void *)((char *)t + texts[i].at);
}

static bool *flag_at(cli_target *t, size_t i)
{
    return (bool *)(void *)((char *)t + flags[i].at);
}

int cli_target_of_json(const tci_json *v, cli_target *ret, tc_err *err)
{
    cli_target t = {0};
    text_member(v, "form", &t.form);
    if (t.form.len == 0)
        return tc_err_set(err, TC_E_PARSE, "a saved target without a form");
    t.kind = CLI_TARGET_HTTP;
    if (tci_str_eq(t.form, TC_STR("local")))
        t.kind = CLI_TARGET_LOCAL;
    else if (tci_str_starts(t.form, TC_STR("ssh:")))
        t.kind = CLI_TARGET_SSH;
    else if (tci_str_starts(t.form, TC_STR("host:")))
        t.kind = CLI_TARGET_HOST;
    for (size_t i = 0; i < TCI_ARRAY_LEN(texts); i++)
        text_member(v, texts[i].key, text_at(&t, i));
    for (size_t i = 0; i < TCI_ARRAY_LEN(flags); i++)
        *flag_at(&t, i) = flag_member(v, flags[i].key);
    *ret = t;
    return 0;
}

void cli_target_put(tci_buf *b, bool *first, const cli_target *t)
{
    cli_json_str(b, first, "form", t->form);
    cli_target copy = *t;
    for (size_t i = 0; i < TCI_ARRAY_LEN(texts); i++)
        if (text_at(&copy, i)->len > 0)
            cli_json_str(b, first, texts[i].key, *text_at(&copy, i));
    for (size_t i = 0; i < TCI_ARRAY_LEN(flags); i++)
        if (*flag_at(&copy, i))
            cli_json_bool(b, first, flags[i].key, true);
}

/* ---- changing ---- */

static void put_changed(tci_buf *b, const cli_targets *old, tc_str name, const cli_target *t)
{
    bool first = true;
    for (size_t i = 0; i < old->count; i++) {
        if (tci_str_eq(old->members[i].key, name))
            continue;
        tci_json_put_key(b, &first, old->members[i].key);
        tci_json_put(b, &old->members[i].value, TCI_JSON_AS_IS);
    }
    if (t != NULL) {
        bool inner = true;
        tci_json_put_key(b, &first, name);
        tci_buf_append_byte(b, '{');
        cli_target_put(b, &inner, t);
        tci_buf_append_byte(b, '}');
    }
}

/* The whole file: what is there, with one target changed. */
static void put_root(tci_buf *b, const tci_json *root, const cli_targets *old, tc_str name,
                     const cli_target *t)
{
    bool first = true;
    tci_buf_append_byte(b, '{');
    cli_json_u64(b, &first, "version", 1);
    for (uint32_t i = 0; i < root->count; i++) {
        const tci_json_member *m = &root->u.members[i];
        if (tci_str_eq(m->key, TC_STR("version")) || tci_str_eq(m->key, TC_STR("targets")))
            continue;
        tci_json_put_key(b, &first, m->key);
        tci_json_put(b, &m->value, TCI_JSON_AS_IS);
    }
    tci_json_put_key(b, &first, TC_STR("targets"));
    tci_buf_append_byte(b, '{');
    put_changed(b, old, name, t);
    tci_buf_append_str(b, TC_STR("}}\n"));
}

static int change_locked(cli *c, const store *s, tc_str name, const cli_target *t, bool replace,
                         tc_err *err)
{
    tci_json root;
    cli_targets old;
    tci_buf b;
    int rc = read_file(c, s, &root, err);
    if (rc == 0)
        rc = targets_of(s, &root, &old, err);
    if (rc < 0)
        return rc;
    bool is_there = cli_targets_get(&old, name) != NULL;
    if (t == NULL && !is_there)
        return tc_err_set(err, TC_E_NOT_FOUND, "there is no target '%.*s'", TC_STR_ARG(name));
    if (t != NULL && is_there && !replace) {
        tc_err_set(err, TC_E_CONFLICT, "there is a target '%.*s' already", TC_STR_ARG(name));
        return tc_err_hint(err, "pass --replace to change it");
    }
    tci_buf_init(&b, FILE_BYTES_MAX);
    put_root(&b, &root, &old, name, t);
    rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = cli_replace_file(c, s->file, tci_buf_str(&b), err);
    tci_buf_done(&b);
    return rc;
}

int cli_targets_change(cli *c, tc_str name, const cli_target *t, bool replace, tc_err *err)
{
    store s;
    TCI_FILE_AUTO lock = TCI_FILE_NONE;
    int rc = store_paths(c, &s, err);
    if (rc == 0)
        rc = make_settings(&s, err);
    if (rc == 0)
        rc = tci_file_open(s.lock, TCI_OPEN_READ | TCI_OPEN_WRITE | TCI_OPEN_CREATE, FILE_MODE,
                           &lock, err);
    if (rc == 0)
        rc = tci_file_lock_byte(lock, 0, LOCK_WAIT_MS, err);
    if (rc == 0)
        rc = change_locked(c, &s, name, t, replace, err);
    return rc < 0 && rc != TC_E_NOT_FOUND && rc != TC_E_CONFLICT
               ? tc_err_wrap(err, "cannot save targets")
               : rc;
}
