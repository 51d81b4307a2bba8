/* SPDX-License-Identifier: Apache-2.0
 *
 * The page with all devices: those that wait for a decision, those that may link, those that may no more. Leaves how
 * to connect another one to page_connect.c, and what it decides to the same work that programs ask for. What devices say of
 * themselves is put together on a worker, the rest on the runtime's loop. Invariant: it is whole without scripts;
 * what scripts need stands in ids, classes and data- attributes. */
#include "host/page/page_html.h"

/* ---- those that wait ---- */

static void put_letters(tci_buf *b, tc_str code)
{
    tci_html(b, "<p class=\"code\"><span aria-hidden=\"true\">");
    tci_html_text(b, code);
    tci_html(b, "</span><span class=\"vh\">The code:");
    for (size_t i = 0; i < code.len; i++) {
        tci_html(b, " ");
        tci_html_text(b, code.ptr[i] == '-' ? TC_STR(",") : tci_str_sub(code, i, 1));
    }
    tci_html(b, "</span></p>");
}

static void put_decision(tci_buf *b, const tci_host_req *r, const tci_host_device *d)
{
    put_letters(b, d->code);
    tci_html(b, "<p><strong>Compare this code with the one in the terminal of the device.</strong> "
                "Approve only when they are the same, and only a device that you are connecting "
                "yourself right now.</p>");
    tci_html_form(b, r, "approve/", d->challenge_id, "");
    tci_html_hidden(b, "code", d->code);
    tci_html(b, "<button class=\"go\" name=\"decision\" value=\"approve\">Approve</button>"
                "<button name=\"decision\" value=\"reject\">Reject</button></form>"
                "<p class=\"fine\">Approval lets it link to this Host. It grants nothing to any "
                "run.</p>");
}

/* Somebody else has its files. */
static void put_second(tci_buf *b, const tci_host_device *d)
{
    if (d->second_links == 0)
        return;
    tci_html(b, "<div class=\"notice\"><p><strong>It is in two places.</strong> While it is "
                "linked, a link with its credential was asked for from ");
    tci_html_name(b, d->second_address);
    tci_html(b, "; the last time ");
    tci_html_time(b, d->second_ms, "ago");
    tci_html(b, ". That one was told to wait. If it is not yours, revoke this device and connect "
                "it anew with another <code>--instance</code>.</p></div>");
}

static void put_clash(tci_buf *b, const tci_host_device *d)
{
    put_second(b, d);
    if (d->clashes == 0)
        return;
    tci_html(b, "<div class=\"notice\"><p><strong>Its identity was used by somebody else.</strong> "
                "A request with this identity and another credential was refused");
    if (d->clashes > 1)
        tci_buf_printf(b, ", %lld times", (long long)d->clashes);
    tci_html(b, "; the last came ");
    tci_html_time(b, d->clash_ms, "ago");
    tci_html(b, " from ");
    tci_html_name(b, d->clash_address);
    tci_html(b,
             ". If the credential on that machine was deleted, revoke this device and connect it "
             "anew with another <code>--instance</code>; otherwise somebody has a copy of its "
             "identity.</p></div>");
}

void tci_host_put_waiting(tci_buf *b, const tci_host_req *r, const tci_host_device *d)
{
    tci_html(b, "<li class=\"card wait\" data-key=\"");
    tci_html_value(b, d->id);
    tci_html(b, d->is_rejected ? "\" data-state=\"rejected\" id=\"w-"
                               : "\" data-state=\"waiting\" id=\"w-");
    tci_html_value(b, d->challenge_id);
    tci_html(b, "\"><h3 tabindex=\"-1\">");
    tci_html_name(b, d->name);
    tci_html(b, "</h3>");
    if (d->is_rejected)
        tci_html(b, "<p>Rejected. It is told so for as long as its request lasts.</p>");
    else
        put_decision(b, r, d);
    tci_html(b, "<dl>");
    tci_html_fact(b, d->is_rejected ? "Until" : "Time left");
    tci_html_time(b, d->expires_ms, d->is_rejected ? "at" : "left");
    tci_html_fact_end(b);
    tci_html_fact_text(b, "Asked from", d->address);
    tci_html_fact_code(b, "Identity", d->device_id);
    tci_html(b, "</dl>");
    put_clash(b, d);
    tci_html(b, "</li>");
}

/* ---- what a device says of itself ---- */

static void put_sandbox(tci_buf *b, const tc_boundary *boundary)
{
    tci_html_fact(b, "Sandbox");
    if (!boundary->is_restricted)
        tci_html(b, "None: whatever its account may touch");
    else if (boundary->ngrants == 0)
        tci_html(b, boundary->full_disk_read ? "Reads the whole disk, writes nowhere"
                                             : "No folder at all");
    else
        tci_html(b, boundary->full_disk_read ? "Reads the whole disk, and" : "Only");
    for (size_t i = 0; boundary->is_restricted && i < boundary->ngrants; i++) {
        tci_html(b, i > 0 ? ", <code>" : " <code>");
        tci_html_name(b, boundary->grants[i].path);
        tci_html(b,
                 boundary->grants[i].is_writable ? "</code> read and write" : "</code> read only");
    }
    tci_html_fact_end(b);
}

static void put_network(tci_buf *b, tc_egress_mode egress)
{
    static const char *const texts[] = {[TC_EGRESS_INHERIT] = "As that machine has it",
                                        [TC_EGRESS_DENY] = "None",
                                        [TC_EGRESS_CONTROLLED] =
                                            "Only where each session is allowed to"};
    tci_html_fact(b, "Network of commands");
    tci_html(b, texts[egress]);
    tci_html_fact_end(b);
}

static void put_system(tci_buf *b, const tc_system_info *system)
{
    const tc_str words[] = {system->os, system->os_version, system->kernel_version,
                            system->architecture};
    bool has_one = false;
    tci_html(b, "<div class=\"wide\"><dt>System</dt><dd><bdi>");
    for (size_t i = 0; i < TCI_ARRAY_LEN(words); i++) {
        if (words[i].len == 0)
            continue;
        tci_html(b, has_one ? " · " : "");
        tci_html_text(b, words[i]);
        has_one = true;
    }
    tci_html(b, has_one ? "</bdi>" : "</bdi>not said");
    tci_html_fact_end(b);
}

void tci_host_put_info(tci_buf *b, const tc_device_info *info)
{
    bool runs_commands = false;
    for (size_t i = 0; i < info->available_methods.count; i++)
        runs_commands =
            runs_commands || tci_str_eq(info->available_methods.items[i], TC_STR("process.start"));
    tci_html_fact(b, "Commands");
    tci_html(b, runs_commands ? "<strong>Runs commands</strong>" : "None: files only");
    tci_html_fact_end(b);
    put_sandbox(b, &info->boundary);
    if (runs_commands)
        put_network(b, info->boundary.egress);
    tci_html_fact_code(b, "Starts in", info->default_working_directory);
    put_system(b, &info->system);
}

/* Into ret, HTML; it stays as it is when the device is not linked. */
static int describe(tci_host_req *r, const tci_host_device *d, tc_str *ret, tc_err *err)
{
    tci_buf b;
    tc_device *device = d->is_online ? tci_host_look(r->host, d) : NULL;
    if (device == NULL)
        return 0;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_host_put_info(&b, tc_device_get_info(device));
    tc_device_close(device);
    int rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = tci_arena_dup(&r->arena, tci_buf_str(&b), ret, err);
    tci_buf_done(&b);
    return rc;
}

int tci_host_devices_page_work(tci_host_req *r, tc_err *err)
{
    int rc = tci_host_list_work(r, err);
    if (rc < 0)
        return rc;
    r->said = tci_arena_items(&r->arena, tc_str, r->ndevices + 1);
    if (r->said == NULL)
        return tci_arena_error(&r->arena, err);
    for (size_t i = 0; rc == 0 && i < r->ndevices; i++)
        rc = describe(r, &r->devices[i], &r->said[i], err);
    return rc;
}

/* ---- those that may link ---- */

/* How commands call it: by name when that is clear, else by id. */
static void put_target(tci_buf *b, const tci_host_req *r, const tci_host_device *d)
{
    size_t count = 0;
    for (size_t i = 0; i < r->ndevices; i++)
        count +=
            r->devices[i].state == TCI_HOST_APPROVED && tci_str_eq(r->devices[i].name, d->name);
    tci_html(b, "host:");
    tci_html_value(b, count == 1 && !tci_html_is_odd(d->name) ? d->name : d->id);
}

static void put_revoke(tci_buf *b, const tci_host_req *r, const tci_host_device *d)
{
    tci_html(b, "<details class=\"ask\" id=\"r-");
    tci_html_value(b, d->id);
    tci_html(b, "\"><summary>Revoke…</summary><div class=\"confirm\"><p><strong>Revoke ");
    tci_html_name(b, d->name);
    tci_html(b,
             " for good?</strong> Its credential is refused from now on, and its link ends within "
             "seconds. To use that machine again, connect it with another "
             "<code>--instance</code>.</p><p>What was done there stays done: files, history and "
             "running commands are left as they are.</p>");
    tci_html_form(b, r, "devices/", d->id, "/revoke");
    tci_html(b, "<button class=\"danger\">Revoke connection</button><button type=\"button\" "
                "class=\"js\" data-close>Keep it</button></form></div></details>");
}

static void put_remove(tci_buf *b, const tci_host_req *r, const tci_host_device *d)
{
    tci_html(b, "<details class=\"ask\" id=\"r-");
    tci_html_value(b, d->id);
    tci_html(b, "\"><summary>Remove…</summary><div class=\"confirm\"><p><strong>Remove ");
    tci_html_name(b, d->name);
    tci_html(b,
             "?</strong> This Host forgets how to reach it. The daemon there goes on as it is, and "
             "its credential stays good: take that back on its machine.</p>");
    tci_html_form(b, r, "devices/", d->id, "/remove");
    tci_html(b,
             "<button class=\"danger\">Remove target</button><button type=\"button\" class=\"js\" "
             "data-close>Keep it</button></form></div></details>");
}

static void put_more(tci_buf *b, const tci_host_device *d)
{
    tci_html(b, "<details class=\"more\" id=\"m-");
    tci_html_value(b, d->id);
    tci_html(b, "\"><summary>More</summary><dl>");
    tci_html_fact_code(b, "Identity", d->device_id);
    tci_html_fact_text(b, "Id", d->id);
    if (d->kind == TCI_HOST_EXTERNAL) {
        tci_html_fact_code(b, "Credential file", d->credential_file);
        if (d->ca_file.len > 0)
            tci_html_fact_code(b, "Certificate authority", d->ca_file);
        if (d->is_plaintext_allowed)
            tci_html_fact_text(b, "Link", TC_STR("private, may be without encryption"));
        tci_html_fact_time(b, "Added", d->created_ms);
    } else {
        tci_html_fact_text(b, "First asked from", d->address);
        tci_html_fact_time(b, "Approved", d->approved_ms);
    }
    tci_html(b, "</dl></details>");
}

static void put_device(tci_buf *b, const tci_host_req *r, size_t at)
{
    const tci_host_device *d = &r->devices[at];
    tci_html(b, "<li class=\"card device\" id=\"d-");
    tci_html_value(b, d->id);
    tci_html(b, "\" data-key=\"");
    tci_html_value(b, d->id);
    tci_html(b, d->is_online ? "\" data-state=\"online\" data-target=\""
                             : "\" data-state=\"offline\" data-target=\"");
    put_target(b, r, d);
    tci_html(b, "\"><div class=\"top\"><h3 tabindex=\"-1\">");
    tci_html_name(b, d->name);
    tci_html(b, d->is_online ? "</h3><p class=\"state\">Online</p></div><dl>"
                             : "</h3><p class=\"state\">Offline</p></div><dl>");
    if (r->said != NULL)
        tci_buf_append_str(b, r->said[at]);
    if (d->kind == TCI_HOST_EXTERNAL)
        tci_html_fact_code(b, "The Host connects to", d->url);
    if (!d->is_online)
        tci_html_fact_time(b, d->seen_ms != 0 ? "Last seen" : "Approved, never linked",
                           d->seen_ms != 0 ? d->seen_ms : d->approved_ms);
    tci_html(b, "</dl>");
    if (d->trouble.len > 0) {
        tci_html(b, "<p class=\"notice\"><strong>It cannot be reached:</strong> ");
        tci_html_name(b, d->trouble);
        tci_html(b, "</p>");
    }
    put_clash(b, d);
    tci_html(b, "<div class=\"acts\">");
    if (d->is_online) {
        tci_html(b, "<a class=\"button\" data-pick href=\"");
        tci_html_value(b, r->host->base);
        tci_html(b, "devices/");
        tci_html_value(b, d->id);
        tci_html(b, "/directories\">Choose a directory</a>");
    }
    put_more(b, d);
    if (d->kind == TCI_HOST_EXTERNAL)
        put_remove(b, r, d);
    else
        put_revoke(b, r, d);
    tci_html(b, "</div></li>");
}

static void put_revoked(tci_buf *b, const tci_host_device *d)
{
    tci_html(b, "<li class=\"gone\" id=\"d-");
    tci_html_value(b, d->id);
    tci_html(b, "\" data-key=\"");
    tci_html_value(b, d->id);
    tci_html(b, "\" data-state=\"revoked\"><h3 tabindex=\"-1\">");
    tci_html_name(b, d->name);
    tci_html(b, "</h3><p><code>");
    tci_html_name(b, d->device_id);
    tci_html(b, "</code></p><p>revoked ");
    tci_html_time(b, d->revoked_ms, "ago");
    tci_html(b, "</p>");
    put_clash(b, d);
    tci_html(b, "</li>");
}

/* ---- lists ---- */

static size_t count_of(const tci_host_req *r, tci_host_state state)
{
    size_t n = 0;
    for (size_t i = 0; i < r->ndevices; i++)
        n += r->devices[i].state == state;
    return n;
}

static void put_waiting_list(tci_buf *b, const tci_host_req *r)
{
    tci_html(b, "<section id=\"waiting\" aria-labelledby=\"h-waiting\"");
    tci_html(b, count_of(r, TCI_HOST_PENDING) == 0 ? " hidden" : "");
    tci_html(b, "><h2 id=\"h-waiting\">Waiting for you</h2><ul>");
    for (size_t i = 0; i < r->ndevices; i++)
        if (r->devices[i].state == TCI_HOST_PENDING && r->devices[i].code.len > 0)
            tci_host_put_waiting(b, r, &r->devices[i]);
    tci_html(b, "</ul></section>");
}

static void put_device_list(tci_buf *b, const tci_host_req *r)
{
    tci_html(b, "<section id=\"devices\" aria-labelledby=\"h-devices\"");
    tci_html(b, count_of(r, TCI_HOST_APPROVED) == 0 ? " hidden" : "");
    tci_html(b, "><h2 id=\"h-devices\">Approved</h2><ul>");
    for (size_t i = 0; i < r->ndevices; i++)
        if (r->devices[i].state == TCI_HOST_APPROVED)
            put_device(b, r, i);
    tci_html(b, "</ul></section>");
}

static void put_revoked_list(tci_buf *b, const tci_host_req *r)
{
    tci_html(b, "<section id=\"revoked\" aria-labelledby=\"h-revoked\"");
    tci_html(b, count_of(r, TCI_HOST_REVOKED) == 0 ? " hidden" : "");
    tci_html(b, "><h2 id=\"h-revoked\">Revoked</h2><ul>");
    for (size_t i = 0; i < r->ndevices; i++)
        if (r->devices[i].state == TCI_HOST_REVOKED)
            put_revoked(b, &r->devices[i]);
    tci_html(b, "</ul></section>");
}

/* ---- all of it ---- */

void tci_host_devices_page(tci_host_req *r)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_host_second_links(r->host, r->devices, r->ndevices);
    tci_html_begin(&b, r->host, "devices", "Devices");
    tci_html_signed_in(&b, r);
    tci_html(&b, "</header><main id=\"main\" tabindex=\"-1\"><h1>Devices</h1>"
                 "<p class=\"nojs fine\">As of when this page was loaded. <a href=\"\">Load it "
                 "again</a></p><div id=\"link\"></div><div id=\"live\">");
    put_waiting_list(&b, r);
    put_device_list(&b, r);
    tci_html(&b, "</div>");
    if (!r->host->takes_no_devices)
        tci_host_put_connect(&b, r->host,
                             count_of(r, TCI_HOST_PENDING) + count_of(r, TCI_HOST_APPROVED) == 0);
    tci_host_put_add_external(&b, r);
    tci_html(&b, "<div id=\"past\">");
    put_revoked_list(&b, r);
    tci_html(&b, "</div>");
    tci_html_end(&b);
    tci_host_answer_page(r, 200, &b);
}
