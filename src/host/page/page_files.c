/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of the page (web/), which the build puts into the program, and tags of what is answered. The
 * runtime's loop; tags on any thread. Invariant: a tag is made of the bytes alone. */
#include "host/host_int.h"

void tci_host_tag_of(tc_str bytes, char out[TCI_HOST_TAG_LEN])
{
    uint8_t digest[TCI_SHA256_BYTES];
    tci_sha256_of(bytes, digest);
    out[0] = out[TCI_HOST_TAG_LEN - 1] = '"';
    tci_hex(digest, (TCI_HOST_TAG_LEN - 2) / 2, out + 1);
}

void tci_host_css_answer(tci_host_req *r)
{
    tci_host_answer_file(r, &tci_host_css);
}

void tci_host_js_answer(tci_host_req *r)
{
    tci_host_answer_file(r, &tci_host_js);
}

void tci_host_icon_answer(tci_host_req *r)
{
    tci_host_answer_file(r, &tci_host_icon);
}
