/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers for people: plain pages without scripts, whose only request besides is for their style. Leaves what they
 * decide to the same work that programs ask for. The runtime's loop, work on a worker. Invariant: text of others
 * goes through put_text, and every form that needs somebody signed in carries the session's word. */
#include "host/host_int.h"

#include "base/rfc3339.h"

static const char style[] =
    ":root{color-scheme:light dark;--edge:#8886}"
    "body{font:16px/1.5 system-ui,sans-serif;margin:0 auto;max-width:44rem;padding:1rem}"
    "h1{font-size:1.4rem}h2{font-size:1.1rem}"
    "section{border:1px solid var(--edge);border-radius:.5rem;margin:1rem 0;padding:.5rem 1rem}"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem}"
    "dt{opacity:.7}dd{margin:0;overflow-wrap:anywhere}"
    ".code{font:bold 1.8rem ui-monospace,monospace;letter-spacing:.1em}"
    ".note{border-left:.25rem solid #c60;padding-left:.75rem}"
    "button{font:inherit;padding:.4rem 1rem;margin:.25rem .5rem .25rem 0;cursor:pointer}"
    "form{display:inline}code{overflow-wrap:anywhere}a{color:inherit}";

/* ---- pieces ---- */

static void put(tci_buf *b, const char *html)
{
    tci_buf_append_str(b, tci_str(html));
}

static void put_text(tci_buf *b, tc_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        switch (text.ptr[i]) {
        case '<':
            put(b, "&lt;");
            break;
        case '>':
            put(b, "&gt;");
            break;
        case '&':
            put(b, "&amp;");
            break;
        case '"':
            put(b, "&quot;");
            break;
        case '\'':
            put(b, "&#39;");
            break;
        default:
            tci_buf_append_byte(b, text.ptr[i]);
        }
    }
}

static void begin_page(tci_buf *b, const tci_host *h, const char *title)
{
    put(b, "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>");
    put(b, title);
    put(b, "</title><meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
           "<link rel=\"stylesheet\" href=\"");
    put_text(b, h->base);
    put(b, "page.css\"></head><body><main><h1>");
    put(b, title);
    put(b, "</h1>");
}

static void end_page(tci_buf *b)
{
    put(b, "</main></body></html>\n");
}

static void begin(tci_buf *b, const tci_host *h, const char *title)
{
    tci_buf_init(b, TCI_BUF_MAX);
    begin_page(b, h, title);
}

/* <form ...> with its word; the caller writes the rest. path: below base. */
static void begin_form(tci_buf *b, const tci_host_req *r, const char *path, tc_str id,
                       const char *end)
{
    char word[TCI_SHA256_HEX];
    put(b, "<form method=\"post\" action=\"");
    put_text(b, r->host->base);
    put(b, path);
    put_text(b, id);
    put(b, end);
    put(b, "\">");
    if (r->token.len == 0)
        return;
    tci_csrf_of(r->token, word);
    put(b, "<input type=\"hidden\" name=\"csrf\" value=\"");
    put_text(b, tci_str_of(word, sizeof word));
    put(b, "\">");
}

static void put_hidden(tci_buf *b, const char *name, tc_str value)
{
    put(b, "<input type=\"hidden\" name=\"");
    put(b, name);
    put(b, "\" value=\"");
    put_text(b, value);
    put(b, "\">");
}

static void put_fact(tci_buf *b, const char *name, tc_str value)
{
    put(b, "<dt>");
    put(b, name);
    put(b, "</dt><dd>");
    put_text(b, value);
    put(b, "</dd>");
}

static void put_time_fact(tci_buf *b, const char *name, int64_t ms)
{
    char text[TCI_RFC3339_MAX];
    tci_instant t = {.sec = ms / 1000};
    if (ms != 0)
        put_fact(b, name, tci_str_of(text, tci_rfc3339_text(t, text)));
}

/* ---- devices ---- */

static void put_facts(tci_buf *b, const tci_host_device *d)
{
    put(b, "<dl>");
    put_fact(b, "Name", d->name);
    put_fact(b, "Identity", d->device_id);
    put_fact(b, "Asked from", d->address);
    if (d->state == TCI_HOST_APPROVED)
        put_fact(b, "Now", d->is_online ? TC_STR("online") : TC_STR("offline"));
    else
        put_fact(b, "State", tci_str(tci_host_state_name(d->state)));
    put_time_fact(b, "Approved", d->approved_ms);
    put_time_fact(b, "Last seen", d->seen_ms);
    put_time_fact(b, "Revoked", d->revoked_ms);
    put(b, "</dl>");
    if (d->clashes == 0)
        return;
    put(b, "<p class=\"note\">Somebody with another credential used this identity and was refused, "
           "last from ");
    put_text(b, d->clash_address);
    put(b, ". If the device's credential was deleted, revoke it and connect it anew with another "
           "<code>--instance</code>; otherwise somebody has a copy of its identity.</p>");
}

static void put_decision(tci_buf *b, const tci_host_req *r, const tci_host_device *d)
{
    put(b,
        "<p>Compare this code with the one in the terminal of the device:</p><p class=\"code\">");
    put_text(b, d->code);
    put(b, "</p>");
    begin_form(b, r, "approve/", d->challenge_id, "");
    put_hidden(b, "code", d->code);
    put(b,
        "<button name=\"decision\" value=\"approve\">Approve</button>"
        "<button name=\"decision\" value=\"reject\">Reject</button></form>"
        "<p>Approve only a device that you are connecting yourself right now. This lets it link to "
        "this Host; it grants nothing to any run.</p>");
}

static void put_device(tci_buf *b, const tci_host_req *r, const tci_host_device *d)
{
    put(b, "<section>");
    put_facts(b, d);
    if (d->state == TCI_HOST_PENDING && d->is_rejected) {
        put(b, "<p>Rejected.</p>");
    } else if (d->state == TCI_HOST_PENDING && d->code.len > 0) {
        put_decision(b, r, d);
    } else if (d->state == TCI_HOST_APPROVED) {
        begin_form(b, r, "devices/", d->id, "/revoke");
        put(b, "<button>Revoke connection</button></form> for good: it can never connect with this "
               "credential again.");
    }
    put(b, "</section>");
}

void tci_host_devices_page(tci_host_req *r)
{
    tci_buf b;
    begin(&b, r->host, "Devices");
    if (r->ndevices == 0)
        put(&b, "<p>There is no device yet.</p>");
    for (size_t i = 0; i < r->ndevices; i++)
        put_device(&b, r, &r->devices[i]);
    put(&b,
        "<h2>Connect a device</h2><p>On that machine, and keep it running:</p><p><code>telechird "
        "connect ");
    put_text(&b, r->host->url);
    put(&b, " --host work --instance work</code></p><h2>Signed in</h2><p>");
    begin_form(&b, r, "sign-in-links", TC_STR(""), "");
    put(&b, "<button>Make a sign-in link</button></form>");
    begin_form(&b, r, "sign-out", TC_STR(""), "");
    put(&b, "<button>Sign out</button></form></p>");
    end_page(&b);
    tci_host_answer_page(r, 200, &b);
}

int tci_host_approve_page_work(tci_host_req *r, tc_err *err)
{
    r->which.id = r->id;
    return tci_host_device_of(r->host->db, tci_host_now_ms(), &r->which, &r->arena, &r->device,
                              err);
}

void tci_host_approve_page(tci_host_req *r)
{
    tci_buf b;
    if (r->device.code.len == 0) {
        tci_host_answer_error(
            r, 410, "expired",
            TC_STR("The time for this request is over. Run the same command on the "
                   "device again."));
        return;
    }
    begin(&b, r->host, "A device wants to connect");
    put_device(&b, r, &r->device);
    end_page(&b);
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

/* ---- signing in ---- */

/* Opening a link uses nothing up: programs look at links too. The button does. */
void tci_host_sign_in_page(tci_host_req *r)
{
    tci_buf b;
    begin(&b, r->host, "Sign in");
    put(&b, "<p>This link signs you in as the owner of this Host, once.</p>");
    begin_form(&b, r, "sign-in", TC_STR(""), "");
    put_hidden(&b, "code", r->id);
    put(&b, "<button>Sign in</button></form>");
    end_page(&b);
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
    begin(&b, r->host, "A sign-in link");
    put(&b,
        "<p>It works once, within the hour, in another browser or for <code>telechir host login ");
    put_text(&b, r->host->url);
    put(&b, "</code>:</p><p><code>");
    put_text(&b, r->code);
    put(&b, "</code></p><p><a href=\"");
    put_text(&b, r->host->base);
    put(&b, "\">Devices</a></p>");
    end_page(&b);
    tci_host_answer_page(r, 200, &b);
}

/* ---- the rest ---- */

void tci_host_style(tci_host_req *r)
{
    tci_host_answer_text(r, "text/css; charset=utf-8", tci_str(style));
}

void tci_host_put_error_page(tci_buf *b, const tci_host *h, unsigned status, tc_str message)
{
    if (status == 401) {
        begin_page(b, h, "Not signed in");
        put(b,
            "<p>Open a sign-in link first, then this page again. The Host prints one when it is "
            "started for the first time; later <code>telechir host link</code> makes one for who "
            "is "
            "signed in at a terminal, and <code>telechir host serve --sign-in-link</code> for who "
            "runs the Host.</p>");
        if (!tci_str_eq(message, TC_STR("not signed in"))) {
            put(b, "<p class=\"note\">");
            put_text(b, message);
            put(b, "</p>");
        }
    } else {
        begin_page(b, h, "This did not work");
        put(b, "<p class=\"note\">");
        put_text(b, message);
        put(b, "</p><p><a href=\"");
        put_text(b, h->base);
        put(b, "\">Devices</a></p>");
    }
    end_page(b);
}
