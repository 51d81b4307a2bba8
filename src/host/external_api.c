/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers about targets that the Host connects to itself: adding and removing them, and what it knows of them from
 * one start to the next. Leaves rows to external.c and connections to outside.c. Checks and answers on the runtime's
 * loop, work on a worker. Invariant: a credential never comes in by this way, only the path of its file. */
#include "host/host_int.h"

#include "base/plain.h"
#include "base/utf8.h"

enum { DEVICE_ID_MAX = 256, FILE_PATH_MAX = 4096 };

/* ---- adding ---- */

static bool refuse(tci_host_req *r, const char *message)
{
    tci_host_answer_error(r, 400, "invalid_request", tci_str(message));
    return false;
}

static bool is_line(tc_str s, size_t max)
{
    bool is_fine = s.len > 0 && s.len <= max && tci_utf8_is_valid(s);
    for (size_t at = 0, len = 0; is_fine && at < s.len; at += len)
        is_fine = !tci_plain_is_control(tci_utf8_decode(tci_str_sub(s, at, SIZE_MAX), &len));
    return is_fine;
}

static bool is_absolute(tc_str path)
{
    return is_line(path, FILE_PATH_MAX) && path.ptr[0] == '/';
}

/* Members that are not known may be meant to matter. */
static bool take_members(tci_host_req *r)
{
    tci_external_ask *e = &r->external;
    const struct {
        const char *key;
        tc_str *to;
    } texts[] = {{"name", &e->name},
                 {"url", &e->url},
                 {"device_id", &e->device_id},
                 {"credential_file", &e->credential_file},
                 {"ca_file", &e->ca_file}};
    for (uint32_t i = 0; i < r->json.count; i++) {
        const tci_json_member *m = &r->json.u.members[i];
        bool is_known = tci_str_eq(m->key, TC_STR("allow_plaintext_private_link")) &&
                        tci_json_as_bool(&m->value, &e->is_plaintext_allowed);
        for (size_t k = 0; k < TCI_ARRAY_LEN(texts) && !is_known; k++)
            is_known = tci_str_eq(m->key, tci_str(texts[k].key)) &&
                       tci_json_as_str(&m->value, texts[k].to);
        if (!is_known)
            return refuse(r, "name, url, device_id, credential_file are needed; ca_file and "
                             "allow_plaintext_private_link may be there; nothing else");
    }
    return true;
}

/* As the connection will look at it; nothing is contacted, and no file read. */
static bool check_url(tci_host_req *r)
{
    tci_external_ask *e = &r->external;
    if (tci_str_ends(e->url, TC_STR("/")))
        e->url.len--;
    tc_http_options http = {.size = sizeof http,
                            .endpoint = e->url,
                            .credential_file = e->credential_file,
                            .ca_file = e->ca_file,
                            .allow_plaintext_private_link = e->is_plaintext_allowed};
    return tc_http_options_check(&http, &r->err) == 0 || refuse(r, r->err.msg);
}

bool tci_host_external_check(tci_host_req *r)
{
    return take_members(r) && tci_host_external_is_fine(r);
}

bool tci_host_external_is_fine(tci_host_req *r)
{
    tci_external_ask *e = &r->external;
    if (!is_line(e->name, TCI_PAIR_NAME_MAX))
        return refuse(r, "name must be plain text in one line, and not too long");
    if (!is_line(e->device_id, DEVICE_ID_MAX))
        return refuse(r, "device_id must be 1 to 256 bytes in one line");
    if (!is_absolute(e->credential_file) || (e->ca_file.len > 0 && !is_absolute(e->ca_file)))
        return refuse(r, "files are named by their absolute paths on the Host's machine");
    return check_url(r);
}

int tci_host_external_work(tci_host_req *r, tc_err *err)
{
    int rc =
        tci_external_add(r->host->db, tci_host_now_ms(), &r->external, &r->arena, &r->device, err);
    return rc == 0 ? tci_outside_add(r->host->outside, &r->device, err) : rc;
}

/* ---- removing ---- */

int tci_host_remove_work(tci_host_req *r, tc_err *err)
{
    tci_host *h = r->host;
    int rc = tci_host_device_get(h->db, tci_host_now_ms(), r->id, &r->arena, &r->device, err);
    if (rc == 0 && r->device.kind != TCI_HOST_EXTERNAL)
        rc = tc_err_set(err, TC_E_CONFLICT, "'%.*s' dials in by itself; it can be revoked",
                        TC_STR_ARG(r->device.name));
    if (rc == 0)
        rc = tci_external_remove(h->db, r->device.id, err);
    if (rc == 0)
        tci_outside_remove(h->outside, r->device.id);
    return rc;
}

void tci_host_remove_answer(tci_host_req *r)
{
    tci_host_eip_forget(r->host, r->device.id);
    tci_host_device_answer(r);
}

/* ---- from one start to the next ---- */

int tci_host_externals_start(tci_host *h, tc_err *err)
{
    tci_arena a;
    tci_host_device *list = NULL;
    size_t count = 0;
    int rc = tci_outside_new(h->rt, &h->outside, err);
    if (rc < 0)
        return rc;
    tci_arena_init(&a, 0);
    rc = tci_external_list(h->db, &a, &list, &count, err);
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = tci_outside_add(h->outside, &list[i], err);
    tci_arena_done(&a);
    return rc;
}

static int write_seen(tci_host *h, tci_arena *a, tc_err *err)
{
    tci_host_device *list = NULL;
    size_t count = 0;
    int rc = tci_external_list(h->db, a, &list, &count, err);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        int64_t noted_ms = list[i].seen_ms;
        rc = tci_outside_mark(h->outside, &list[i], a, err);
        if (rc == 0 && list[i].seen_ms > noted_ms)
            rc = tci_external_seen(h->db, list[i].id, list[i].seen_ms, err);
    }
    return rc;
}

void tci_host_externals_stop(tci_host *h)
{
    tc_err err;
    tci_arena a;
    if (h->outside == NULL)
        return;
    tci_arena_init(&a, 0);
    if (write_seen(h, &a, &err) < 0)
        tci_host_trouble(h, &err);
    tci_arena_done(&a);
    tci_outside_free(h->outside);
    h->outside = NULL;
}
