/* SPDX-License-Identifier: Apache-2.0
 *
 * The Host: an HTTP server that lets devices in when their owner approves them, and keeps their links. One
 * owner; not a boundary between tenants. It lives on a runtime's loop; these calls are for any other thread. */
#ifndef TCI_HOST_H
#define TCI_HOST_H

#include <telechir/runtime.h>

typedef struct tci_host tci_host;

enum { TCI_HOST_DRAIN_MS = 5000, TCI_HOST_DEVICES_MAX = 1024 };

/* Texts are copied.
 *   bind         "127.0.0.1:8787"; port 0 lets the system choose
 *   public_url   how the Host is reached, http(s)://...; may have a path, which a proxy may take off or leave
 *                on. Empty: by where it listens
 *   cert_file, key_file   PEM, both or neither
 *   data         the folder of its records
 *   is_behind_proxy       a proxy in front ends TLS: plain HTTP is then fine on any address, and the last
 *                entry of X-Forwarded-For says who asks
 *   takes_no_devices      the pairing endpoint refuses
 *   wants_link   make a sign-in link even when somebody is signed in
 *   max_files    descriptors this process may have open; half of them are for connections that ask something, the
 *                rest for links and files. 0: enough
 *   on_trouble   something of the Host's own failed (its disk, its memory) while it served; any thread. May be
 *                NULL */
typedef struct tci_host_options {
    tc_str bind, public_url, cert_file, key_file, data;
    bool is_behind_proxy, takes_no_devices, wants_link;
    uint64_t max_files;
    void (*on_trouble)(void *user, const tc_err *err);
    void *user;
} tci_host_options;

/* Open the records and serve. Errors: INVALID (an address or a URL; plain HTTP on an address that others
 * reach), those of tci_host_db_open, of listening and of reading certificates. */
int tci_host_open(tc_runtime *rt, const tci_host_options *options, tci_host **ret_host,
                  tc_err *err) TC_CHECKED;
/* Stop listening, finish what runs within TCI_HOST_DRAIN_MS, end the links, close the records. Before the
 * runtime is closed. NULL is fine. */
void tci_host_close(tci_host *host);

/* "http://127.0.0.1:8787/": with a slash at its end. */
tc_str tci_host_url(const tci_host *host);
/* The link that signs the owner in, once, within the hour; empty when none was needed. */
tc_str tci_host_sign_in_url(const tci_host *host);

#endif
