/* SPDX-License-Identifier: Apache-2.0
 *
 * What pages are made of. Private to the host. Text of others is never markup, and cannot pass for something
 * else: what is not seen, or turns the text around it about, is shown as an escape, and whoever shows a name puts
 * it into a <bdi>. Any thread. */
#ifndef TCI_HOST_PAGE_HTML_H
#define TCI_HOST_PAGE_HTML_H

#include "host/host_int.h"

/* Ours, as it is. */
void tci_html(tci_buf *b, const char *markup);
/* Of others, between tags: escaped, hidden characters as <span class="esc">\u{202e}</span>. */
void tci_html_text(tci_buf *b, tc_str text);
/* In a quoted attribute that programs read: nothing but markup is escaped, so that it means the same. */
void tci_html_value(tci_buf *b, tc_str text);
/* <bdi>...</bdi> around tci_html_text. */
void tci_html_name(tci_buf *b, tc_str name);
/* Is there something in it that is shown as an escape? */
bool tci_html_is_odd(tc_str text);

/* <time>, in UTC, for scripts to say in other words. class: "ago", "at" or "left", how. */
void tci_html_time(tci_buf *b, int64_t ms, const char *class);

/* From the doctype to the name on top; the caller goes on with </header><main ...>. page: what scripts know it by. */
void tci_html_begin(tci_buf *b, const tci_host *h, const char *page, const char *title);
/* Beside the name, for who is signed in. */
void tci_html_signed_in(tci_buf *b, const tci_host_req *r);
void tci_html_end(tci_buf *b);

/* <form method="post"> to base, path, id, end, with the session's word; the caller writes the rest and </form>. */
void tci_html_form(tci_buf *b, const tci_host_req *r, const char *path, tc_str id, const char *end);
void tci_html_hidden(tci_buf *b, const char *name, tc_str value);

/* <dt>, <dd>. The caller writes what is between fact and fact_end. */
void tci_html_fact(tci_buf *b, const char *name);
void tci_html_fact_end(tci_buf *b);
void tci_html_fact_text(tci_buf *b, const char *name, tc_str value);
/* A long word that is no text: an identity, a path. */
void tci_html_fact_code(tci_buf *b, const char *name, tc_str value);
/* Nothing when it has not happened. */
void tci_html_fact_time(tci_buf *b, const char *name, int64_t ms);

/* <div class="copy">: a command or a link in a <code>, and the button that copies it. */
void tci_html_copy_begin(tci_buf *b, const char *label);
void tci_html_copy_end(tci_buf *b);

/* As a word of a POSIX shell's command line: quoted when it has to be; controls become $'\n' and the like, so
 * that pasting it never runs anything. */
void tci_shell_word(tci_buf *b, tc_str word);

/* ---- parts of one page that another has too ---- */

/* page_devices.c: a device that waits, as an item of a list. */
void tci_host_put_waiting(tci_buf *b, const tci_host_req *r, const tci_host_device *d);
/* What a device says of itself, as items of a <dl>. */
void tci_host_put_info(tci_buf *b, const tc_device_info *info);
/* page_connect.c: sections. is_first: for somebody who has no device yet. */
void tci_host_put_connect(tci_buf *b, const tci_host *h, bool is_first);
void tci_host_put_add_external(tci_buf *b, const tci_host_req *r);

#endif
