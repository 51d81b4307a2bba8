/* SPDX-License-Identifier: Apache-2.0
 *
 * How to connect another machine: the command for one that dials in, with its choices, and the form for one that the
 * Host connects to. Leaves where that is on a page to page_devices.c. The runtime's loop. Invariant: without scripts
 * every form of the command is there to be read. */
#include "host/page/page_html.h"

/* ---- machines that dial in ---- */

static void put_command(tci_buf *b, const tci_host *h)
{
    tci_buf word;
    tci_buf_init(&word, TCI_BUF_MAX);
    tci_shell_word(&word, h->url);
    tci_html(b, "telechird connect ");
    tci_html_value(b, tci_buf_str(&word));
    tci_html(b, " --host work --instance work");
    tci_buf_done(&word);
}

static void put_builder(tci_buf *b)
{
    tci_html(
        b,
        "<form class=\"js\" id=\"builder\" autocomplete=\"off\" autocapitalize=\"off\" "
        "aria-label=\"Choices for this command\"><label>Name "
        "<input name=\"name\" value=\"work\" maxlength=\"64\" "
        "aria-describedby=\"name-rule\"></label>"
        "<label>Terminal <select name=\"shell\"><option value=\"sh\">Linux, macOS, BSD</option>"
        "<option value=\"powershell\">PowerShell</option></select></label>"
        "<label>Certificate authority <input name=\"ca\" placeholder=\"the system’s own\" "
        "aria-describedby=\"ca-rule\"></label>"
        "<label class=\"check\"><input type=\"checkbox\" name=\"full\"> Full Control: commands "
        "too</label>"
        "<p class=\"fine\" id=\"name-rule\">The name has 1 to 64 letters, digits, <code>.</code> "
        "<code>_</code> <code>-</code>. A machine that was revoked needs a new one.</p>"
        "<p class=\"fine\" id=\"ca-rule\">The certificate authority is a PEM file on that machine, "
        "for a Host whose certificate comes from a private one.</p></form>"
        "<p class=\"notice\" id=\"full-warning\" hidden><strong>Full Control is all of that "
        "account, without a sandbox.</strong> Whoever is signed in here can then run any command "
        "there and read any file it can. Use it for machines that you could give away the keys "
        "of.</p>");
}

static void put_other_forms(tci_buf *b)
{
    tci_html(b,
             "<details class=\"nojs\" id=\"forms\"><summary>Other forms of this command</summary>"
             "<p>Commands too, not only files: put <code>TELECHIRD_FULL_CONTROL=1</code> before it "
             "(PowerShell: <code>$env:TELECHIRD_FULL_CONTROL = \"1\"</code>, a line of its own). "
             "That is all of that account, without a sandbox.</p><p>A Host whose certificate comes "
             "from a private authority: add <code>--ca-file ca.pem</code>.</p></details>");
}

static bool is_for_this_machine(tc_str url)
{
    static const char *const starts[] = {"http://127.",   "https://127.",     "http://[::1]",
                                         "https://[::1]", "http://localhost", "https://localhost"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(starts); i++)
        if (tci_str_starts(url, tci_str(starts[i])))
            return true;
    return false;
}

void tci_host_put_connect(tci_buf *b, const tci_host *h, bool is_first)
{
    tci_html(b, "<section id=\"connect\" aria-labelledby=\"h-connect\" data-url=\"");
    tci_html_value(b, h->url);
    tci_html(b, "\"><h2 id=\"h-connect\">");
    tci_html(b, is_first
                    ? "Connect your first device</h2><ol class=\"steps\">"
                      "<li>Put <code>telechird</code> on the machine that you want to reach.</li>"
                      "<li>Run the command below there, and keep it running. It shows a code.</li>"
                      "<li>The device appears on this page. Compare the code, approve.</li></ol>"
                    : "Connect a device</h2><p>On the machine that you want to reach, and keep "
                      "it running:</p>");
    tci_html_copy_begin(b, "The command");
    put_command(b, h);
    tci_html_copy_end(b);
    put_builder(b);
    put_other_forms(b);
    if (is_for_this_machine(h->url))
        tci_html(b,
                 "<p class=\"fine\">This Host’s address leads to the machine it runs on, so only "
                 "devices on that machine can use it. For others start the Host with a certificate "
                 "(<code>--tls-cert</code>, <code>--tls-key</code>), or behind a proxy "
                 "(<code>--behind-proxy</code>, <code>--public-url</code>).</p>");
    tci_html(b, "</section>");
}

/* ---- machines that the Host connects to ---- */

void tci_host_put_add_external(tci_buf *b, const tci_host_req *r)
{
    static const struct {
        const char *name, *label, *more;
    } fields[] = {
        {"name", "Name", "required maxlength=\"256\""},
        {"url", "Address", "required placeholder=\"https://envd.example.com\" inputmode=\"url\""},
        {"device_id", "Its device id", "required maxlength=\"256\""},
        {"credential_file", "File with its credential",
         "required placeholder=\"/private/envd-token\""},
        {"ca_file", "Certificate authority, if private",
         "placeholder=\"/etc/ssl/private-ca.pem\""}};
    tci_html(
        b, "<section id=\"external\" aria-labelledby=\"h-external\"><h2 id=\"h-external\">Add a "
           "machine that this Host connects to</h2><p>For a daemon that serves HTTP already. This "
           "Host only connects: it starts and stops nothing there.</p><details class=\"fold\" "
           "id=\"add\"><summary>Add a target</summary>");
    tci_html_form(b, r, "devices/external", TC_STR(""), "");
    for (size_t i = 0; i < TCI_ARRAY_LEN(fields); i++) {
        tci_html(b, "<label>");
        tci_html(b, fields[i].label);
        tci_html(b, " <input name=\"");
        tci_html(b, fields[i].name);
        tci_html(b, "\" autocapitalize=\"off\" ");
        tci_html(b, fields[i].more);
        tci_html(b, "></label>");
    }
    tci_html(
        b, "<label class=\"check\"><input type=\"checkbox\" "
           "name=\"allow_plaintext_private_link\" value=\"yes\"> A private link, trusted without "
           "encryption</label><p class=\"fine\">Files are on the machine of this Host, by their "
           "absolute paths. Only the path is kept; the credential is read when the Host connects, "
           "and never comes through this page.</p><button class=\"go\">Add target</button></form>"
           "</details></section>");
}
