/* SPDX-License-Identifier: Apache-2.0
 *
 * See fixture_ssh.h. */
#include "fixture.h"
#include "fixture_ssh.h"

#include "sshd.h"
#include <telechir/ssh.h>

static const char alias[] = "env-contract";
static tc_sshd server; /* started before cmocka does, since its absence skips the program */

const char *ssh_why_not(void)
{
    char dir[2048];
    snprintf(dir, sizeof dir, "%s/sshd", getenv("TC_TEST_DIR"));
    return tc_sshd_start(&server, dir, NULL);
}

static const char *start_ssh(fixture *f)
{
    char known_hosts[2100];
    snprintf(known_hosts, sizeof known_hosts, "%s/known_hosts", f->root);
    tc_sshd_trust(&server, known_hosts, alias);
    return NULL;
}

static void stop_ssh(fixture *f)
{
    TCI_UNUSED(f);
    tc_sshd_stop(&server);
}

static int make_ssh(fixture *f, tc_env_options *options, tc_env **ret_env)
{
    char known_hosts[2100];
    snprintf(known_hosts, sizeof known_hosts, "%s/known_hosts", f->root);
    tc_ssh_options o = {.size = sizeof o, .daemon = text(f->daemon)};
    o.target = (tc_ssh_target){.size = sizeof o.target,
                               .host = TC_STR("127.0.0.1"),
                               .port = server.port,
                               .user = text(server.user),
                               .identity_file = text(server.id),
                               .config_file = TC_STR("/dev/null"),
                               .known_hosts_file = text(known_hosts),
                               .host_key_alias = text(alias)};
    return tc_env_create_ssh(f->rt, options, &o, ret_env, &f->err);
}

const provider ssh_provider = {.name = "ssh",
                               .is_pi = true,
                               .has_ext = true,
                               .is_lazy = true,
                               .start = start_ssh,
                               .stop = stop_ssh,
                               .make = make_ssh,
                               .kill = kill_daemon_from_inside};
