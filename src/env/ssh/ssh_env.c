/* SPDX-License-Identifier: Apache-2.0
 *
 * Environments behind ssh: what makes one, and the connection that those of one runtime share.
 * Leaves starting the daemon to ssh_launch.c and every operation to the environment over pi-env.
 * The caller's thread. Invariant: nothing is contacted here. */
#include "env/ssh/ssh_int.h"

#include "base/hash.h"
#include "env/env_int.h"
#include "env/pi/pi_env.h"

/* Everything that makes one connection different from another. */
static void connection_key(const tci_ssh_to *to, const tc_ssh_options *o, char out[TCI_SHA256_HEX])
{
    const tc_ssh_target *t = &to->target;
    tc_str texts[] = {TC_STR("ssh"),       t->host,        t->user,    t->identity_file,
                      t->known_hosts_file, t->config_file, t->program, t->host_key_alias,
                      o->daemon,           o->folder};
    uint64_t numbers[] = {t->port, t->no_agent, o->login_shell};
    uint8_t digest[TCI_SHA256_BYTES];
    tci_sha256 hash;
    tci_sha256_init(&hash);
    for (size_t i = 0; i < TCI_ARRAY_LEN(texts); i++) {
        uint64_t len = texts[i].len;
        tci_sha256_update(&hash, &len, sizeof len);
        tci_sha256_update(&hash, texts[i].ptr, texts[i].len);
    }
    tci_sha256_update(&hash, numbers, sizeof numbers);
    tci_sha256_update(&hash, &o->log, sizeof o->log);
    tci_sha256_update(&hash, &o->log_user, sizeof o->log_user);
    tci_sha256_final(&hash, digest);
    tci_hex(digest, sizeof digest, out);
}

typedef struct make_job {
    tc_runtime *rt;
    const tc_ssh_options *options;
} make_job;

static int make_connection(void *arg, tci_pi **ret_pi, tc_err *err)
{
    const make_job *job = arg;
    tci_pi_launcher launcher;
    int rc = tci_ssh_launcher_new(job->rt, job->options, 0, &launcher, err);
    if (rc < 0)
        return rc;
    tci_pi_options options = {.on_log = job->options->log != NULL ? tci_ssh_on_log : NULL,
                              .log_user = launcher.user};
    if (job->options->login_shell)
        options.start_hint =
            "a login file there (~/.profile, ~/.bash_profile, ~/.zprofile, ~/.login) "
            "may end the shell; try without the login shell (--login-shell)";
    return tci_pi_new_own(job->rt, &launcher, &options, ret_pi, err);
}

static int make(tc_runtime *rt, const tc_env_options *options, const tc_ssh_options *ssh,
                tci_arena *a, tc_env **ret_env, tc_err *err)
{
    tci_ssh_to to;
    make_job job = {.rt = rt, .options = ssh};
    char key[TCI_SHA256_HEX];
    tci_pi *pi = NULL;
    tci_pi_recipe recipe = {.provider = TC_STR("ssh"), .is_lazy = true};
    int rc = tci_ssh_to_make(rt, &ssh->target, a, &to, err);
    if (rc == 0)
        /* By whatever route, and as whichever user: equal paths there are the same files. */
        rc = tci_arena_printf(a, &recipe.files_id, err, "ssh:%.*s",
                              TC_STR_ARG(to.target.host_key_alias));
    if (rc < 0)
        return rc;
    connection_key(&to, ssh, key);
    rc = tci_runtime_shared_pi(rt, tci_str_of(key, sizeof key), make_connection, &job, &pi, err);
    return rc < 0 ? rc : tci_pi_env_new_own(rt, &recipe, options, pi, ret_env, err);
}

int tc_env_create_ssh(tc_runtime *rt, const tc_env_options *options, const tc_ssh_options *ssh,
                      tc_env **ret_env, tc_err *err)
{
    if (ssh == NULL || ssh->size < sizeof *ssh)
        return tc_err_set(err, TC_E_INVALID, "options without their size");
    tci_arena a;
    tci_arena_init(&a, 0);
    int rc = make(rt, options, ssh, &a, ret_env, err);
    tci_arena_done(&a);
    return rc;
}
