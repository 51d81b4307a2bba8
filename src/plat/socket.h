/* SPDX-License-Identifier: Apache-2.0
 *
 * Stream sockets over IPv4 and IPv6, and names to addresses. Sockets are made non-blocking and
 * close-on-exec. Thin: no loop, no policy, no retries. Any thread. */
#ifndef TCI_PLAT_SOCKET_H
#define TCI_PLAT_SOCKET_H

#include "base/str.h"
#include "plat/fd.h"

typedef enum tci_addr_family { TCI_ADDR_NONE, TCI_ADDR_IPV4, TCI_ADDR_IPV6 } tci_addr_family;

/* An IP address and a port: a plain value. */
typedef struct tci_addr {
    tci_addr_family family;
    uint16_t port;
    uint32_t scope; /* IPv6 link-local interface; 0 otherwise */
    uint8_t ip[16]; /* network order; the first 4 bytes for IPv4 */
} tci_addr;

enum { TCI_ADDR_TEXT_MAX = 80 };

/* A numeric address without port: dotted quad or IPv6 without brackets, strict. *ret->port is 0.
 * false when s is something else. */
bool tci_addr_parse_ip(tc_str s, tci_addr *ret);
/* "127.0.0.1:80" or "[::1]:80"; port 0..65535. Errors: INVALID. */
int tci_addr_parse(tc_str s, tci_addr *ret, tc_err *err) TC_CHECKED;
/* "127.0.0.1:80" or "[::1]:80", NUL-terminated; "unknown" for NONE. Returns out. */
const char *tci_addr_text(const tci_addr *a, char out[TCI_ADDR_TEXT_MAX]);
/* The address alone, without brackets and port. */
const char *tci_addr_ip_text(const tci_addr *a, char out[TCI_ADDR_TEXT_MAX]);
/* 127.0.0.0/8, ::1, and IPv4 loopback mapped into IPv6. */
bool tci_addr_is_loopback(const tci_addr *a);
/* 0.0.0.0 or ::. */
bool tci_addr_is_any(const tci_addr *a);
bool tci_addr_eq(const tci_addr *a, const tci_addr *b);

/* Bind and listen, address reuse on. IPv6 sockets take IPv6 only.
 * Errors: CONFLICT (address in use), DENIED, INVALID (not an address of this machine), BUSY, IO. */
int tci_socket_listen(const tci_addr *at, int backlog, int *ret_fd, tc_err *err) TC_CHECKED;
/* The next waiting connection, TCP_NODELAY set; *ret_fd is -1 when none waits (a connection that
 * went away while waiting is skipped).
 * Errors: BUSY (no descriptors or memory left: the connection keeps waiting), IO. */
int tci_socket_accept(int listen_fd, int *ret_fd, tci_addr *ret_peer, tc_err *err) TC_CHECKED;
/* Begin to connect, TCP_NODELAY set; it may be done at once (*ret_is_connected), else the socket
 * gets writable and tci_socket_connect_result tells. Errors: CONNECT, BUSY, IO. */
int tci_socket_connect(const tci_addr *to, int *ret_fd, bool *ret_is_connected,
                       tc_err *err) TC_CHECKED;
/* 0 when connected. Errors: CONNECT. */
int tci_socket_connect_result(int fd, tc_err *err) TC_CHECKED;
/* As tci_fd_writev, without SIGPIPE. */
int tci_socket_send(int fd, const tci_fd_part *parts, size_t nparts, size_t *ret_n,
                    tc_err *err) TC_CHECKED;
/* The peer sees the end. CLOSED when it is gone already. */
int tci_socket_shutdown_write(int fd, tc_err *err) TC_CHECKED;
/* Whose address this end has (the port chosen for port 0), and the other end's. */
int tci_socket_local_addr(int fd, tci_addr *ret, tc_err *err) TC_CHECKED;
int tci_socket_peer_addr(int fd, tci_addr *ret, tc_err *err) TC_CHECKED;
/* Detect a silent peer: first probe after idle_s seconds, then every interval_s, nprobes of them.
 * Ignored where the socket cannot. */
void tci_socket_set_keepalive(int fd, int idle_s, int interval_s, int nprobes);
/* Bytes that were written and that the peer's system has not acknowledged; below 0: not known here. */
int64_t tci_socket_unsent(int fd);
/* Two connected stream sockets. Errors: BUSY, IO. */
int tci_socket_pair(int ret_fds[2], tc_err *err) TC_CHECKED;

/* Look host up, in the order the system prefers; at most max_addrs are written. Blocks, perhaps
 * for many seconds: worker only. host is a C string. Errors: NOT_FOUND, CONNECT (the lookup itself
 * failed), NO_MEMORY. */
int tci_resolve(const char *host, uint16_t port, tci_addr *addrs, size_t max_addrs,
                size_t *ret_naddrs, tc_err *err) TC_CHECKED;

#endif
