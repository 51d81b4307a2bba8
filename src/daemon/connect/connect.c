/* SPDX-License-Identifier: Apache-2.0
 *
 * `connect` from beginning to end: what is saved, pairing unless that was done, and the configuration that
 * the daemon then serves. Leaves each of them to its own file. Blocking, before the daemon's loop.
 *
 * Invariant: identity, credential and record are on the disk before the Host hears of them, so whoever is
 * cut off goes on with the same. */
#include "daemon/connect/connect_int.h"

#include <stdio.h>

enum { LINE_MAX_BYTES = 16 * 1024 };

/* ---- what a person reads ---- */

static bool is_plain_word(tc_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              memchr("/._-+:@", c, 7) != NULL))
            return false;
    }
    return s.len > 0;
}

/* As a shell reads it back. */
static void put_word(tci_buf *b, tc_str s)
{
    if (is_plain_word(s)) {
        tci_buf_append_str(b, s);
        return;
    }
    tci_buf_append_byte(b, '\'');
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] == '\'')
            tci_buf_append_str(b, TC_STR("'\\''"));
        else
            tci_buf_append_byte(b, s.ptr[i]);
    }
    tci_buf_append_byte(b, '\'');
}

static void say_connecting(const tci_config *config, const tci_connect_options *o)
{
    const tci_connect_plan *plan = config->connect;
    tci_buf line;
    tci_buf_init(&line, LINE_MAX_BYTES);
    tci_buf_printf(
        &line, "Connecting to saved Host %.*s. Reuse it with: %.*s connect %.*s --instance %.*s",
        TC_STR_ARG(plan->alias), TC_STR_ARG(config->program), TC_STR_ARG(plan->alias),
        TC_STR_ARG(plan->instance));
    if (plan->has_state_dir) {
        tci_buf_append_str(&line, TC_STR(" --state-dir "));
        put_word(&line, plan->state_dir);
    }
    if (tci_buf_ok(&line) && o->say != NULL)
        o->say(o->user, tci_buf_str(&line));
    tci_buf_done(&line);
}

/* ---- steps ---- */

/* What the command line changes of what is saved. */
static int update_record(const tci_config *config, tci_connect_state *s, tc_err *err)
{
    const tci_connect_plan *plan = config->connect;
    tci_connect_record *r = &s->record;
    tc_str name = config->name.len > 0 ? config->name : s->is_new ? plan->instance : r->name;
    tc_str ca_file = plan->ca_file.len > 0 ? plan->ca_file : r->ca_file;
    bool is_changed = s->is_new || !tci_str_eq(name, r->name) || !tci_str_eq(ca_file, r->ca_file);
    r->name = name;
    r->ca_file = ca_file;
    return is_changed ? tci_connect_state_save(s, err) : 0;
}

static int complete_config(tci_config *config, const tci_connect_state *s, tc_err *err)
{
    if (tci_connect_socket_url(s->record.url, s->record.websocket_url, &config->arena,
                               &config->ws_url, err) < 0)
        return err->code;
    config->transport = TCI_TRANSPORT_REVERSE_WEBSOCKET;
    config->device_id = s->device_id;
    config->name = s->record.name;
    config->state_dir = s->instance_path;
    config->runtime_dir = s->runtime_path;
    config->ws_credential_file = s->credential_path;
    config->ws_credential_name = TC_STR("saved pairing credential");
    config->ws_ca_file = s->record.ca_file;
    return 0;
}

static int run(tci_config *config, const tci_connect_options *o, tci_connect_state *s, tc_err *err)
{
    if (update_record(config, s, err) < 0)
        return err->code;
    if (!s->record.is_registered &&
        (tci_connect_pair(s, o, &config->arena, err) < 0 || tci_connect_state_save(s, err) < 0))
        return err->code;
    if (complete_config(config, s, err) < 0)
        return err->code;
    say_connecting(config, o);
    return 0;
}

int tci_connect(tci_config *config, const tci_connect_options *options, tc_err *err)
{
    tci_connect_state s;
    tci_connect_options o = *options;
    if (o.request_ms == 0)
        o.request_ms = 10000;
    if (o.limit_ms == 0)
        o.limit_ms = 600000;
    if (o.second_ms == 0)
        o.second_ms = 1000;
    if (tci_connect_state_open(config->connect, &config->arena, &s, &config->runtime, err) < 0)
        return err->code;
    int rc = run(config, &o, &s, err);
    tci_connect_state_close(&s);
    return rc;
}

void tci_connect_explain(tc_err *err)
{
    tc_str msg = tci_str(err->msg);
    if (tci_str_find(msg, TC_STR("attachment authorization failed")) < msg.len)
        (void)tc_err_hint(err, "the Host does not take the saved credential: it was revoked, or is "
                               "another Host's. What is saved stays; to enroll anew on purpose, "
                               "use a new --instance");
    else if (tci_str_find(msg, TC_STR("TLS validation failed")) < msg.len)
        (void)tc_err_hint(err, "for a Host with a private certificate authority name its "
                               "certificate with --ca-file");
}
