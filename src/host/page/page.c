/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers for people, but for the page with all devices: deciding about one, signing in, errors. Leaves what they
 * decide to the same work that programs ask for. The runtime's loop, work on a worker. Invariant: every form that
 * needs somebody signed in carries the session's word. */
#include "host/page/page_html.h"

/* One without the bar on top. */
static void put_begin(tci_buf *b, const tci_host *h, const char *page, const char *title)
{
    tci_html_begin(b, h, page, title);
    tci_html(b, "</header><main id=\"main\" tabindex=\"-1\"><h1>");
    tci_html(b, title);
    tci_html(b, "</h1>");
}

static void begin(tci_buf *b, const tci_host *h, const char *page, const char *title)
{
    tci_buf_init(b, TCI_BUF_MAX);
    put_begin(b, h, page, title);
}

static void put_way_back(tci_buf *b, const tci_host *h)
{
    tci_html(b, "<p><a class=\"button\" href=\"");
    tci_html_value(b, h->base);
    tci_html(b, "\">All devices</a></p>");
}

/* ---- deciding ---- */

int tci_host_approve_page_work(tci_host_req *r, tc_err *err)
{
    r->which.id = r->id;
    return tci_host_device_of(r->host->db, tci_host_now_ms(), &r->which, &r->arena, &r->device,
                              err);
}

void tci_host_approve_page(tci_host_req *r)
{
    tci_buf b;
    if (r->device.state != TCI_HOST_PENDING) {
        tci_host_redirect(r, "", (tc_str){0}); /* decided: it is among the others */
        return;
    }
    if (r->device.code.len == 0) {
        tci_host_answer_error(
            r, 410, "expired",
            TC_STR("The time for this request is over. Run the same command on the "
                   "device again."));
        return;
    }
    begin(&b, r->host, "approve", "A device wants to connect");
    tci_html(&b, "<div id=\"link\"></div><div id=\"live\"><ul>");
    tci_host_put_waiting(&b, r, &r->device);
    tci_html(&b, "</ul></div>");
    put_way_back(&b, r->host);
    tci_html_end(&b);
    tci_host_answer_page(r, 200, &b);
}

bool tci_host_decide_check(tci_host_req *r)
{
    tc_str decision = tci_host_form_value(r, "decision");
    char *code = tci_arena_bytes(&r->arena, TCI_CODE_LEN);
    r->is_approval = tci_str_eq(decision, TC_STR("approve"));
    if (code != NULL && tci_code_read(tci_host_form_value(r, "code"), code) &&
        (r->is_approval || tci_str_eq(decision, TC_STR("reject")))) {
        r->which.id = r->id;
        r->which.code = tci_str_of(code, TCI_CODE_LEN);
        return true;
    }
    tci_host_answer_error(r, 400, "invalid_request", TC_STR("The form was not complete."));
    return false;
}

int tci_host_decide_work(tci_host_req *r, tc_err *err)
{
    return r->is_approval ? tci_host_approve_work(r, err) : tci_host_reject_work(r, err);
}

void tci_host_decided_page(tci_host_req *r)
{
    tci_host_redirect(r, "", (tc_str){0});
}

void tci_host_revoked_page(tci_host_req *r)
{
    tci_host_unlink(r->host, r->device.id);
    tci_host_redirect(r, "", (tc_str){0});
}

/* ---- targets that the Host connects to ---- */

bool tci_host_external_form_check(tci_host_req *r)
{
    tc_str link = tci_host_form_value(r, "allow_plaintext_private_link");
    r->external = (tci_external_ask){.name = tci_str_trim(tci_host_form_value(r, "name")),
                                     .url = tci_str_trim(tci_host_form_value(r, "url")),
                                     .device_id = tci_str_trim(tci_host_form_value(r, "device_id")),
                                     .credential_file = tci_host_form_value(r, "credential_file"),
                                     .ca_file = tci_host_form_value(r, "ca_file"),
                                     .is_plaintext_allowed = tci_str_eq(link, TC_STR("yes"))};
    return tci_host_external_is_fine(r);
}

/* ---- signing in ---- */

/* Opening a link uses nothing up: programs look at links too. The button does. */
void tci_host_sign_in_page(tci_host_req *r)
{
    tci_buf b;
    begin(&b, r->host, "sign-in", "Sign in");
    tci_html(&b,
             "<p>This link signs you in as the owner of this Host, once. This browser then stays "
             "signed in for 30 days.</p>");
    tci_html_form(&b, r, "sign-in", TC_STR(""), "");
    tci_html_hidden(&b, "code", r->id);
    tci_html(&b, "<button class=\"go\">Sign in</button></form>");
    tci_html_end(&b);
    tci_host_answer_page(r, 200, &b);
}

bool tci_host_sign_in_form_check(tci_host_req *r)
{
    r->code = tci_host_form_value(r, "code");
    r->label = TC_STR("browser");
    r->kind = TCI_SIGN_IN_BROWSER;
    return true;
}

void tci_host_signed_in_page(tci_host_req *r)
{
    tci_host_redirect(r, "", tci_host_cookie(r, r->new_token));
}

void tci_host_signed_out_page(tci_host_req *r)
{
    tci_host_redirect(r, "", tci_host_cookie(r, (tc_str){0}));
}

void tci_host_link_page(tci_host_req *r)
{
    tci_buf b;
    begin(&b, r->host, "link", "A sign-in link");
    tci_html(&b, "<div id=\"made\"><p>It signs somebody in once, within the hour: you in another "
                 "browser, or a terminal with <code>telechir host login ");
    tci_html_value(&b, r->host->url);
    tci_html(&b, "</code>. Whoever has it is the owner of this Host: give it to nobody else.</p>");
    tci_html_copy_begin(&b, "The sign-in link");
    tci_html_value(&b, r->code);
    tci_html_copy_end(&b);
    tci_html(&b, "</div>");
    put_way_back(&b, r->host);
    tci_html_end(&b);
    tci_host_answer_page(r, 200, &b);
}

/* ---- the rest ---- */

void tci_host_put_error_page(tci_buf *b, const tci_host *h, unsigned status, tc_str message)
{
    bool is_signed_out = status == 401 && tci_str_eq(message, TC_STR("not signed in"));
    put_begin(b, h, status == 401 ? "signed-out" : "error",
              status == 401 ? "Not signed in" : "This did not work");
    if (!is_signed_out) {
        tci_html(b, "<p class=\"notice\" id=\"error\">");
        tci_html_text(b, message);
        tci_html(b, "</p>");
    }
    if (status == 401)
        tci_html(b,
                 "<p>Open a sign-in link in this browser, then this page again.</p><ul>"
                 "<li>A Host that is started for the first time prints one.</li>"
                 "<li><code>telechir host link</code> makes one in a terminal that is signed in; "
                 "so does this page in another browser.</li>"
                 "<li><code>telechir host serve --sign-in-link</code> prints one for who runs the "
                 "Host and lost the way in.</li></ul>");
    else
        put_way_back(b, h);
    tci_html_end(b);
}
