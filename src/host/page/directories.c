/* SPDX-License-Identifier: Apache-2.0
 *
 * Directories of a device, one page at a time, for who looks for the place to work in: as JSON, and as a page for
 * browsers without scripts. Leaves reaching the device to reach.c. The runtime's loop; the device is asked on a
 * worker, which may wait for it, so that neither the records nor other devices do: a few at a time, one for each
 * device, none for longer than ASK_MS. Invariant: what was begun ends in browsed, once. */
#include "host/page/page_html.h"

#include "base/num.h"
#include "base/utf8.h"

enum {
    ASK_MS = 10000,  /* from the request to its answer */
    RUNNING_MAX = 3, /* of the four workers for what takes long */
    BEGUN_MAX = 32,  /* those that wait for their turn too */
    LIMIT_DEFAULT = 100,
    LIMIT_MAX = 1000,
    REACH_MAX = 10000 /* offset and limit together, as the protocol has it */
};

typedef struct tci_host_browse {
    tci_link link; /* host->browsing */
    tci_job job;
    tci_host_req *r;
    tc_str path;
    uint64_t offset, limit;
    bool is_running;
    tc_result *result;
    tc_directory_page page; /* in result */
    int rc;
    tc_err err;
} tci_host_browse;

/* ---- what is asked for ---- */

static bool refuse(tci_host_req *r, const char *message)
{
    tci_host_answer_error(r, 400, "invalid_request", tci_str(message));
    return false;
}

static bool read_number(tci_host_req *r, const char *name, uint64_t max, uint64_t *ret)
{
    tc_err err;
    uint64_t n;
    tc_str text = tci_host_query_value(r, name);
    if (text.len == 0)
        return true;
    if (tci_num_u64(text, &n, &err) < 0 || n > max)
        return false;
    *ret = n;
    return true;
}

bool tci_host_directories_check(tci_host_req *r)
{
    tci_host_browse *b = tci_arena_new(&r->arena, tci_host_browse);
    if (b == NULL) {
        tci_host_answer_error(r, 500, "internal", TC_STR("out of memory"));
        return false;
    }
    r->browse = b;
    b->r = r;
    b->limit = LIMIT_DEFAULT;
    if (!tci_host_query_is_fine(r->query))
        return refuse(r, "the query is malformed");
    b->path = tci_host_query_value(r, "path");
    if (!tci_utf8_is_valid(b->path) || tci_str_find_byte(b->path, '\0') < b->path.len)
        return refuse(r, "the path must be UTF-8");
    if (!read_number(r, "limit", LIMIT_MAX, &b->limit) || b->limit == 0)
        return refuse(r, "limit must be a number from 1 to 1000");
    if (!read_number(r, "offset", REACH_MAX, &b->offset) || b->offset + b->limit > REACH_MAX)
        return refuse(r, "offset and limit together go up to 10000");
    return true;
}

int tci_host_directories_work(tci_host_req *r, tc_err *err)
{
    return tci_host_device_get(r->host->db, tci_host_now_ms(), r->id, &r->arena, &r->device, err);
}

/* ---- the answer, as JSON ---- */

static void put_json(tci_buf *b, const tc_directory_page *page)
{
    bool first = true;
    tci_buf_append_byte(b, '{');
    tci_json_put_member(b, &first, "path", page->path);
    tci_json_put_key(b, &first, TC_STR("parent"));
    if (page->parent_path.len > 0)
        tci_json_put_str(b, page->parent_path);
    else
        tci_buf_append_str(b, TC_STR("null"));
    tci_json_put_key(b, &first, TC_STR("entries"));
    tci_buf_append_byte(b, '[');
    for (size_t i = 0; i < page->count; i++) {
        bool inner = true;
        tci_buf_append_str(b, i > 0 ? TC_STR(",{") : TC_STR("{"));
        tci_json_put_member(b, &inner, "name", page->entries[i].name);
        tci_json_put_member(b, &inner, "path", page->entries[i].path);
        tci_buf_append_byte(b, '}');
    }
    tci_buf_append_byte(b, ']');
    tci_json_put_key(b, &first, TC_STR("next_offset"));
    if (page->has_more)
        tci_buf_append_u64(b, page->next_offset);
    else
        tci_buf_append_str(b, TC_STR("null"));
    tci_buf_append_byte(b, '}');
}

/* ---- the answer, as a page ---- */

static void put_link(tci_buf *b, const tci_host_req *r, tc_str path, uint64_t offset)
{
    tci_html(b, "<a href=\"");
    tci_html_value(b, r->host->base);
    tci_html(b, "devices/");
    tci_html_value(b, r->device.id);
    tci_html(b, "/directories?path=");
    for (size_t i = 0; i < path.len; i++)
        tci_buf_printf(b, "%%%02X", (unsigned)(unsigned char)path.ptr[i]);
    if (offset > 0)
        tci_buf_printf(b, "&amp;offset=%llu", (unsigned long long)offset);
    tci_html(b, "\">");
}

static void put_run_command(tci_buf *b, const tci_host_req *r, tc_str path)
{
    tci_buf command;
    tci_buf_init(&command, TCI_BUF_MAX);
    tci_html(&command, "telechir run --on host:");
    tci_buf_append_str(&command, r->device.id);
    tci_html(&command, " --cwd ");
    tci_shell_word(&command, path);
    tci_html(&command, " \"...\"");
    tci_html_copy_begin(b, "The command");
    tci_html_text(b, tci_buf_str(&command));
    tci_html_copy_end(b);
    tci_buf_done(&command);
}

static void put_page(tci_buf *b, const tci_host_req *r, const tc_directory_page *page)
{
    tci_html_begin(b, r->host, "directories", "Choose a directory");
    tci_html(b, "</header><main id=\"main\" tabindex=\"-1\"><h1>Directories of ");
    tci_html_name(b, r->device.name);
    tci_html(b, "</h1><p>Here: <code>");
    tci_html_name(b, page->path);
    tci_html(b, "</code></p>");
    put_run_command(b, r, page->path);
    tci_html(b, "<ul class=\"dirs\">");
    if (page->parent_path.len > 0) {
        tci_html(b, "<li>");
        put_link(b, r, page->parent_path, 0);
        tci_html(b, "↑ The directory above</a></li>");
    }
    for (size_t i = 0; i < page->count; i++) {
        tci_html(b, "<li>");
        put_link(b, r, page->entries[i].path, 0);
        tci_html_name(b, page->entries[i].name);
        tci_html(b, "</a></li>");
    }
    tci_html(b, page->count == 0 ? "</ul><p>There are no directories in it.</p>" : "</ul>");
    if (page->has_more) {
        tci_html(b, "<p>");
        put_link(b, r, page->path, page->next_offset);
        tci_html(b, "More directories</a></p>");
    }
    tci_html(b, "<p><a class=\"button\" href=\"");
    tci_html_value(b, r->host->base);
    tci_html(b, "\">All devices</a></p>");
    tci_html_end(b);
}

/* ---- asking ---- */

static void answer_failure(tci_host_req *r, const tc_err *err)
{
    static const struct {
        tc_code code;
        unsigned status;
        const char *name, *message;
    } kinds[] = {
        {TC_E_NOT_READY, 503, "offline", "this device is offline"},
        {TC_E_CLOSED, 503, "offline", "the link to this device was lost"},
        {TC_E_CONNECT, 503, "offline", "this device could not be reached"},
        {TC_E_CANCELLED, 503, "offline", "the Host is ending"},
        {TC_E_BUSY, 503, "busy", "this device has too much to do; try again"},
        {TC_E_TIMEOUT, 504, "timeout", "this device did not answer in time"},
        {TC_E_NOT_FOUND, 404, "not_found", "there is no such directory, or it may not be seen"},
        {TC_E_DENIED, 403, "denied", "this directory may not be looked into"},
        {TC_E_UNSUPPORTED, 501, "unsupported", "this device does not show its directories"},
        {TC_E_NO_METHOD, 501, "unsupported", "this device does not show its directories"},
        {TC_E_QUOTA, 413, "too_large", "there are more directories in it than can be listed"},
        {TC_E_TOO_BIG, 413, "too_large", "there are more directories in it than can be listed"},
        {TC_E_INVALID, 400, "invalid_request", "this device does not take such a path"},
    };
    bool knows_why = err->code == TC_E_NOT_READY && r->device.kind == TCI_HOST_EXTERNAL;
    for (size_t i = 0; i < TCI_ARRAY_LEN(kinds); i++)
        if (kinds[i].code == err->code) {
            tci_host_answer_error(r, kinds[i].status, kinds[i].name,
                                  tci_str(knows_why ? err->msg : kinds[i].message));
            return;
        }
    tci_host_answer_error(r, 502, "device_failed", TC_STR("this device did not do that"));
}

static void ask(tci_job *job)
{
    tci_host_browse *b = TCI_CONTAINER(job, tci_host_browse, job);
    tc_device *device;
    b->rc = tci_host_reach(b->r->host, &b->r->device, b->r->ctx, &device, &b->err);
    if (b->rc < 0)
        return;
    const tc_device_info *info = tc_device_get_info(device);
    tc_str path = b->path.len > 0 ? b->path : info->default_working_directory;
    if (!info->can_list_directories)
        b->rc = tc_err_set(&b->err, TC_E_UNSUPPORTED, "it lists no directories");
    if (b->rc == 0)
        b->rc = tc_result_new(&b->result, &b->err);
    if (b->rc == 0)
        b->rc = tc_device_list_directory(device, &TC_CALL(b->r->ctx, b->result), path, b->offset,
                                         b->limit, &b->page, &b->err);
    tc_device_close(device);
}

static void start_next(tci_host *h);

static void browsed(tci_job *job)
{
    tci_buf body;
    tci_host_browse *b = TCI_CONTAINER(job, tci_host_browse, job);
    tci_host_req *r = b->r;
    tci_host *h = r->host;
    bool is_page = (r->route->flags & TCI_ROUTE_PAGE) != 0;
    tci_link_remove(&b->link);
    tci_buf_init(&body, TCI_BUF_MAX);
    if (b->rc < 0) {
        answer_failure(r, &b->err);
    } else if (is_page) {
        put_page(&body, r, &b->page);
        tci_host_answer_page(r, 200, &body);
    } else {
        put_json(&body, &b->page);
        tci_host_answer_json(r, 200, &body);
    }
    tc_result_free(b->result);
    tc_ctx_free(r->ctx);
    r->ctx = NULL;
    tci_host_release(r);
    start_next(h);
    tci_host_links_ended(h);
}

/* Does another of this device's run? */
static bool must_wait(const tci_host *h, const tci_host_browse *b)
{
    TCI_LIST_EACH (&h->browsing, k) {
        const tci_host_browse *other = TCI_CONTAINER(k, tci_host_browse, link);
        if (other->is_running && tci_str_eq(other->r->device.id, b->r->device.id))
            return true;
    }
    return false;
}

static void start_next(tci_host *h)
{
    size_t nrunning = 0;
    TCI_LIST_EACH (&h->browsing, k)
        nrunning += TCI_CONTAINER(k, tci_host_browse, link)->is_running;
    TCI_LIST_EACH (&h->browsing, k) {
        tci_host_browse *b = TCI_CONTAINER(k, tci_host_browse, link);
        if (nrunning >= RUNNING_MAX)
            return;
        if (b->is_running || must_wait(h, b))
            continue;
        b->is_running = true;
        nrunning++;
        b->job = (tci_job){.work = ask, .done = browsed};
        tci_job_submit(h->loop, TCI_JOB_BULK, &b->job);
    }
}

static size_t count_begun(const tci_host *h)
{
    size_t n = 0;
    TCI_LIST_EACH (&h->browsing, k)
        n++;
    return n;
}

void tci_host_directories_answer(tci_host_req *r)
{
    tc_err err;
    tci_host *h = r->host;
    if (r->request == NULL)
        return; /* nobody waits for it any more */
    if (r->device.state == TCI_HOST_REVOKED) {
        tci_host_answer_error(r, 403, "revoked", TC_STR("this device was revoked"));
        return;
    }
    if (r->device.state == TCI_HOST_PENDING) {
        tci_host_answer_error(r, 403, "not_approved", TC_STR("this device waits for approval"));
        return;
    }
    if (h->is_closing || count_begun(h) >= BEGUN_MAX) {
        tci_host_answer_error(r, 503, "busy", TC_STR("too much to do; try again later"));
        return;
    }
    if (tc_ctx_new(ASK_MS, &r->ctx, &err) < 0) {
        tci_host_answer_error(r, 500, "internal", TC_STR("out of memory"));
        return;
    }
    tci_host_hold(r);
    tci_list_push_back(&h->browsing, &r->browse->link);
    start_next(h);
}
