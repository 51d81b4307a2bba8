/* SPDX-License-Identifier: Apache-2.0
 *
 * Which devices are linked, and what one says of itself: its system, where it starts, its boundary. Leaves the link to the registry
 * of connections. A worker. Invariant: it is the device's word, asked for once when it linked, and shown as such;
 * nothing is decided by it. */
#include "host/host_int.h"

static void put_boundary(tci_buf *b, bool *outer, const tc_boundary *boundary)
{
    static const char *const egress[] = {[TC_EGRESS_INHERIT] = "inherit",
                                         [TC_EGRESS_DENY] = "deny",
                                         [TC_EGRESS_CONTROLLED] = "controlled"};
    bool first = true;
    tci_json_put_key(b, outer, TC_STR("boundary"));
    tci_buf_append_byte(b, '{');
    tci_json_put_member(b, &first, "sandbox",
                        boundary->is_restricted ? TC_STR("restricted") : TC_STR("disabled"));
    tci_json_put_member(b, &first, "egress", tci_str(egress[boundary->egress]));
    tci_json_put_member(b, &first, "backend", boundary->backend);
    if (boundary->is_restricted) {
        tci_json_put_key(b, &first, TC_STR("full_disk_read"));
        tci_json_put_bool(b, boundary->full_disk_read);
        tci_json_put_key(b, &first, TC_STR("grants"));
        tci_buf_append_byte(b, '[');
        for (size_t i = 0; i < boundary->ngrants; i++) {
            bool inner = true;
            tci_buf_append_str(b, i > 0 ? TC_STR(",{") : TC_STR("{"));
            tci_json_put_member(b, &inner, "path", boundary->grants[i].path);
            tci_json_put_key(b, &inner, TC_STR("writable"));
            tci_json_put_bool(b, boundary->grants[i].is_writable);
            tci_buf_append_byte(b, '}');
        }
        tci_buf_append_byte(b, ']');
    }
    tci_buf_append_byte(b, '}');
}

static void put_system(tci_buf *b, bool *outer, const tc_system_info *system)
{
    bool first = true;
    tci_json_put_key(b, outer, TC_STR("system"));
    tci_buf_append_byte(b, '{');
    tci_json_put_member(b, &first, "os", system->os);
    tci_json_put_member(b, &first, "os_version", system->os_version);
    tci_json_put_member(b, &first, "kernel_version", system->kernel_version);
    tci_json_put_member(b, &first, "architecture", system->architecture);
    tci_buf_append_byte(b, '}');
}

static void put_info(tci_buf *b, const tc_device_info *info)
{
    bool first = true, runs_commands = false;
    for (size_t i = 0; i < info->available_methods.count; i++)
        runs_commands =
            runs_commands || tci_str_eq(info->available_methods.items[i], TC_STR("process.start"));
    tci_buf_append_byte(b, '{');
    tci_json_put_key(b, &first, TC_STR("generation"));
    tci_buf_printf(b, "\"%llu\"", (unsigned long long)info->generation);
    tci_json_put_member(b, &first, "working_directory", info->default_working_directory);
    tci_json_put_key(b, &first, TC_STR("can_list_directories"));
    tci_json_put_bool(b, info->can_list_directories);
    tci_json_put_key(b, &first, TC_STR("runs_commands"));
    tci_json_put_bool(b, runs_commands);
    put_system(b, &first, &info->system);
    put_boundary(b, &first, &info->boundary);
    tci_buf_append_byte(b, '}');
}

/* When it was seen is written down now and then: somebody looks anyway. */
static int mark_external(tci_host *h, tci_host_device *d, tci_arena *a, tc_err *err)
{
    enum { NOTE_EVERY_MS = 60000 };
    int64_t noted_ms = d->seen_ms;
    int rc = tci_outside_mark(h->outside, d, a, err);
    if (rc == 0 && d->seen_ms > noted_ms + NOTE_EVERY_MS)
        rc = tci_external_seen(h->db, d->id, d->seen_ms, err);
    return rc;
}

static int mark(tci_host *h, tci_host_device *d, const tc_strs *linked, tci_arena *a, tc_err *err)
{
    if (d->kind == TCI_HOST_EXTERNAL)
        return mark_external(h, d, a, err);
    for (size_t n = 0; n < linked->count && !d->is_online; n++)
        d->is_online = tci_str_eq(d->device_id, linked->items[n]);
    return 0;
}

int tci_host_mark_online(tci_host *h, tci_host_device *devices, size_t count, tci_arena *a,
                         tc_err *err)
{
    tc_result *result;
    tc_strs ids;
    int rc = tc_result_new(&result, err);
    if (rc < 0)
        return rc;
    tci_outside_hasten(h->outside);
    rc = tc_connections_list(h->connections, result, &ids, err);
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = mark(h, &devices[i], &ids, a, err);
    tc_result_free(result);
    return rc;
}

tc_device *tci_host_look(tci_host *h, const tci_host_device *d)
{
    tc_device *device = NULL;
    tc_err offline;
    if (d->kind == TCI_HOST_EXTERNAL)
        return tci_outside_peek(h->outside, d->id);
    if (tc_connections_wait(h->connections, NULL, d->device_id, 0, &device, &offline) < 0)
        return NULL;
    return device;
}

int tci_host_info(tci_host *h, const tci_host_device *d, tci_arena *a, tc_str *ret, tc_err *err)
{
    tci_buf b;
    tc_device *device = tci_host_look(h, d);
    if (device == NULL)
        return 0;
    tci_buf_init(&b, TCI_BUF_MAX);
    put_info(&b, tc_device_get_info(device));
    tc_device_close(device);
    int rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = tci_arena_dup(a, tci_buf_str(&b), ret, err);
    tci_buf_done(&b);
    return rc;
}
