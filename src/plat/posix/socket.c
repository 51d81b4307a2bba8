/* SPDX-License-Identifier: Apache-2.0
 *
 * Stream sockets and name lookup on POSIX systems: one system call each, its errno turned into a
 * code. Leaves readiness to the loop and order and patience to net/tcp.c. Any thread; holds
 * nothing. Invariant: every socket made here is non-blocking and close-on-exec. */
#include "plat/socket.h"

#include "base/num.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static tc_code open_code(int e)
{
    bool is_out = e == EMFILE || e == ENFILE || e == ENOMEM || e == ENOBUFS;
    return is_out ? TC_E_BUSY : TC_E_IO;
}

/* ---- addresses ---- */

bool tci_addr_parse_ip(tc_str s, tci_addr *ret)
{
    char text[INET6_ADDRSTRLEN + 1];
    if (s.len == 0 || s.len >= sizeof text || memchr(s.ptr, '\0', s.len) != NULL)
        return false;
    memcpy(text, s.ptr, s.len);
    text[s.len] = '\0';
    tci_addr a = {.family = TCI_ADDR_IPV4};
    if (inet_pton(AF_INET, text, a.ip) != 1) {
        a.family = TCI_ADDR_IPV6;
        if (inet_pton(AF_INET6, text, a.ip) != 1)
            return false;
    }
    *ret = a;
    return true;
}

int tci_addr_parse(tc_str s, tci_addr *ret, tc_err *err)
{
    size_t colon = tci_str_rfind_byte(s, ':');
    tci_addr a;
    uint64_t port = 0;
    if (colon == s.len)
        return tc_err_set(err, TC_E_INVALID, "'%.*s' has no port", TC_STR_ARG(s));
    tc_str ip = tci_str_sub(s, 0, colon);
    bool in_brackets = ip.len > 2 && ip.ptr[0] == '[' && ip.ptr[ip.len - 1] == ']';
    if (in_brackets)
        ip = tci_str_sub(ip, 1, ip.len - 2);
    if (!tci_addr_parse_ip(ip, &a) || (a.family == TCI_ADDR_IPV6) != in_brackets)
        return tc_err_set(err, TC_E_INVALID, "'%.*s' is not a numeric address with a port",
                          TC_STR_ARG(s));
    if (tci_num_u64(tci_str_sub(s, colon + 1, s.len), &port, err) < 0 || port > 65535)
        return tc_err_set(err, TC_E_INVALID, "'%.*s' has no valid port", TC_STR_ARG(s));
    a.port = (uint16_t)port;
    *ret = a;
    return 0;
}

const char *tci_addr_ip_text(const tci_addr *a, char out[TCI_ADDR_TEXT_MAX])
{
    int family = a->family == TCI_ADDR_IPV4 ? AF_INET : AF_INET6;
    if (a->family == TCI_ADDR_NONE || inet_ntop(family, a->ip, out, TCI_ADDR_TEXT_MAX) == NULL)
        (void)snprintf(out, TCI_ADDR_TEXT_MAX, "unknown");
    return out;
}

const char *tci_addr_text(const tci_addr *a, char out[TCI_ADDR_TEXT_MAX])
{
    char ip[TCI_ADDR_TEXT_MAX];
    (void)tci_addr_ip_text(a, ip);
    if (a->family == TCI_ADDR_NONE)
        (void)snprintf(out, TCI_ADDR_TEXT_MAX, "unknown");
    else
        (void)snprintf(out, TCI_ADDR_TEXT_MAX,
                       a->family == TCI_ADDR_IPV6 ? "[%.60s]:%u" : "%.60s:%u", ip,
                       (unsigned)a->port);
    return out;
}

static bool is_mapped_ipv4(const tci_addr *a)
{
    static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};
    return a->family == TCI_ADDR_IPV6 && memcmp(a->ip, prefix, sizeof prefix) == 0;
}

bool tci_addr_is_loopback(const tci_addr *a)
{
    static const uint8_t one[16] = {[15] = 1};
    if (a->family == TCI_ADDR_IPV4)
        return a->ip[0] == 127;
    if (is_mapped_ipv4(a))
        return a->ip[12] == 127;
    return a->family == TCI_ADDR_IPV6 && memcmp(a->ip, one, sizeof one) == 0;
}

bool tci_addr_is_any(const tci_addr *a)
{
    static const uint8_t zero[16];
    size_t len = a->family == TCI_ADDR_IPV4 ? 4 : 16;
    return a->family != TCI_ADDR_NONE && memcmp(a->ip, zero, len) == 0;
}

bool tci_addr_eq(const tci_addr *a, const tci_addr *b)
{
    size_t len = a->family == TCI_ADDR_IPV4 ? 4 : 16;
    return a->family == b->family && a->port == b->port && a->scope == b->scope &&
           memcmp(a->ip, b->ip, len) == 0;
}

typedef union sock_name {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_storage room;
} sock_name;

static socklen_t to_name(const tci_addr *a, sock_name *n)
{
    memset(n, 0, sizeof *n);
    if (a->family == TCI_ADDR_IPV4) {
        n->v4.sin_family = AF_INET;
        n->v4.sin_port = htons(a->port);
        memcpy(&n->v4.sin_addr, a->ip, 4);
        return sizeof n->v4;
    }
    n->v6.sin6_family = AF_INET6;
    n->v6.sin6_port = htons(a->port);
    n->v6.sin6_scope_id = a->scope;
    memcpy(&n->v6.sin6_addr, a->ip, 16);
    return sizeof n->v6;
}

static tci_addr from_name(const sock_name *n)
{
    tci_addr a = {.family = TCI_ADDR_NONE};
    if (n->any.sa_family == AF_INET) {
        a.family = TCI_ADDR_IPV4;
        a.port = ntohs(n->v4.sin_port);
        memcpy(a.ip, &n->v4.sin_addr, 4);
    } else if (n->any.sa_family == AF_INET6) {
        a.family = TCI_ADDR_IPV6;
        a.port = ntohs(n->v6.sin6_port);
        a.scope = n->v6.sin6_scope_id;
        memcpy(a.ip, &n->v6.sin6_addr, 16);
    }
    return a;
}

/* ---- sockets ---- */

static void set_option(int fd, int level, int name, int value)
{
    (void)setsockopt(fd, level, name, &value, sizeof value); /* an improvement, not a need */
}

#if defined(__linux__)
static int new_socket(int family)
{
    return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}
static int accept_one(int fd, sock_name *n, socklen_t *len)
{
    return accept4(fd, &n->any, len, SOCK_NONBLOCK | SOCK_CLOEXEC);
}
static int new_pair(int fds[2])
{
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds);
}
#else
/* Systems without the flags set them afterwards; such a program must not fork in between. */
static int with_flags(int fd)
{
    if (fd >= 0) {
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC); /* cannot fail on a descriptor just made */
        (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
#if defined(SO_NOSIGPIPE)
        set_option(fd, SOL_SOCKET, SO_NOSIGPIPE, 1);
#endif
    }
    return fd;
}
static int new_socket(int family)
{
    return with_flags(socket(family, SOCK_STREAM, 0));
}
static int accept_one(int fd, sock_name *n, socklen_t *len)
{
    return with_flags(accept(fd, &n->any, len));
}
static int new_pair(int fds[2])
{
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0)
        return -1;
    (void)with_flags(fds[0]);
    (void)with_flags(fds[1]);
    return 0;
}
#endif

static tc_code bind_code(int e)
{
    if (e == EADDRINUSE)
        return TC_E_CONFLICT;
    if (e == EACCES || e == EPERM)
        return TC_E_DENIED;
    return e == EADDRNOTAVAIL || e == EAFNOSUPPORT ? TC_E_INVALID : open_code(e);
}

int tci_socket_listen(const tci_addr *at, int backlog, int *ret_fd, tc_err *err)
{
    char text[TCI_ADDR_TEXT_MAX];
    sock_name n;
    socklen_t len = to_name(at, &n);
    int fd = new_socket(n.any.sa_family);
    if (fd >= 0) {
        set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
        if (at->family == TCI_ADDR_IPV6)
            set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
        if (bind(fd, &n.any, len) == 0 && listen(fd, backlog) == 0) {
            *ret_fd = fd;
            return 0;
        }
    }
    int e = errno;
    tci_fd_close(&fd);
    return tc_err_set_os(err, bind_code(e), e, "cannot listen on '%s'", tci_addr_text(at, text));
}

/* accept(2): errors of the connection itself, which is then gone from the queue. */
static bool is_lost_connection(int e)
{
    switch (e) {
    case ECONNABORTED:
    case EPROTO:
    case EPERM:
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH:
    case EINTR:
        return true;
    default:
        return false;
    }
}

int tci_socket_accept(int listen_fd, int *ret_fd, tci_addr *ret_peer, tc_err *err)
{
    sock_name n;
    int fd;
    do {
        socklen_t len = sizeof n;
        memset(&n, 0, sizeof n);
        fd = accept_one(listen_fd, &n, &len);
    } while (fd < 0 && is_lost_connection(errno));
    if (fd < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
        return tc_err_set_os(err, open_code(errno), errno, "cannot accept a connection");
    if (fd >= 0) {
        set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
        *ret_peer = from_name(&n);
    }
    *ret_fd = fd;
    return 0;
}

int tci_socket_connect(const tci_addr *to, int *ret_fd, bool *ret_is_connected, tc_err *err)
{
    sock_name n;
    socklen_t len = to_name(to, &n);
    int fd = new_socket(n.any.sa_family);
    if (fd < 0) {
        tc_code code = errno == EAFNOSUPPORT ? TC_E_CONNECT : open_code(errno);
        return tc_err_set_os(err, code, errno, "cannot make a socket");
    }
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    int rc = connect(fd, &n.any, len);
    if (rc != 0 && errno != EINPROGRESS && errno != EINTR) {
        int e = errno;
        tci_fd_close(&fd);
        return tc_err_set_os(err, TC_E_CONNECT, e, "cannot connect");
    }
    *ret_fd = fd;
    *ret_is_connected = rc == 0;
    return 0;
}

int tci_socket_connect_result(int fd, tc_err *err)
{
    int e = 0;
    socklen_t len = sizeof e;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &len) != 0)
        e = errno;
    if (e != 0)
        return tc_err_set_os(err, TC_E_CONNECT, e, "cannot connect");
    return 0;
}

int tci_socket_send(int fd, const tci_fd_part *parts, size_t nparts, size_t *ret_n, tc_err *err)
{
    TC_ASSERT(nparts <= IOV_MAX);
    struct msghdr m = {.msg_iov = (struct iovec *)(uintptr_t)parts};
    m.msg_iovlen = (__typeof__(m.msg_iovlen))nparts;
    ssize_t n;
#if defined(MSG_NOSIGNAL)
    const int flags = MSG_NOSIGNAL;
#else
    const int flags = 0; /* SO_NOSIGPIPE was set instead */
#endif
    do
        n = sendmsg(fd, &m, flags);
    while (n < 0 && errno == EINTR);
    if (n >= 0 || errno == EAGAIN || errno == EWOULDBLOCK) {
        *ret_n = n > 0 ? (size_t)n : 0;
        return 0;
    }
    tc_code code = errno == EPIPE || errno == ECONNRESET ? TC_E_CLOSED : TC_E_IO;
    return tc_err_set_os(err, code, errno, "cannot write");
}

int tci_socket_shutdown_write(int fd, tc_err *err)
{
    if (shutdown(fd, SHUT_WR) == 0)
        return 0;
    tc_code code = errno == ENOTCONN || errno == EPIPE ? TC_E_CLOSED : TC_E_IO;
    return tc_err_set_os(err, code, errno, "cannot end a connection");
}

int tci_socket_local_addr(int fd, tci_addr *ret, tc_err *err)
{
    sock_name n;
    socklen_t len = sizeof n;
    memset(&n, 0, sizeof n);
    if (getsockname(fd, &n.any, &len) != 0)
        return tc_err_set_os(err, TC_E_IO, errno, "cannot tell a socket's address");
    *ret = from_name(&n);
    return 0;
}

int tci_socket_peer_addr(int fd, tci_addr *ret, tc_err *err)
{
    sock_name n;
    socklen_t len = sizeof n;
    memset(&n, 0, sizeof n);
    if (getpeername(fd, &n.any, &len) != 0)
        return tc_err_set_os(err, TC_E_IO, errno, "cannot tell a peer's address");
    *ret = from_name(&n);
    return 0;
}

void tci_socket_set_keepalive(int fd, int idle_s, int interval_s, int nprobes)
{
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
#if defined(TCP_KEEPIDLE)
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle_s);
#elif defined(TCP_KEEPALIVE)
    set_option(fd, IPPROTO_TCP, TCP_KEEPALIVE, idle_s);
#endif
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, interval_s);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, nprobes);
}

int64_t tci_socket_unsent(int fd)
{
    int n = -1;
#if defined(TIOCOUTQ) && defined(__linux__)
    if (ioctl(fd, TIOCOUTQ, &n) != 0) /* SIOCOUTQ, tcp(7) */
        n = -1;
#elif defined(SO_NWRITE)
    socklen_t len = sizeof n;
    if (getsockopt(fd, SOL_SOCKET, SO_NWRITE, &n, &len) != 0)
        n = -1;
#else
    TCI_UNUSED(fd);
#endif
    return n;
}

int tci_socket_pair(int ret_fds[2], tc_err *err)
{
    int fds[2];
    if (new_pair(fds) != 0)
        return tc_err_set_os(err, open_code(errno), errno, "cannot make a socket pair");
    ret_fds[0] = fds[0];
    ret_fds[1] = fds[1];
    return 0;
}

/* ---- names ---- */

static int lookup_error(int code, int os, const char *host, tc_err *err)
{
    switch (code) {
    case EAI_NONAME:
#if defined(EAI_NODATA)
    case EAI_NODATA:
#endif
        return tc_err_set(err, TC_E_NOT_FOUND, "no address for '%s'", host);
    case EAI_MEMORY:
        return tc_err_set(err, TC_E_NO_MEMORY, "out of memory");
    case EAI_SYSTEM:
        return tc_err_set_os(err, TC_E_CONNECT, os, "cannot look up '%s'", host);
    default:
        return tc_err_set(err, TC_E_CONNECT, "cannot look up '%s': %s", host, gai_strerror(code));
    }
}

int tci_resolve(const char *host, uint16_t port, tci_addr *addrs, size_t max_addrs,
                size_t *ret_naddrs, tc_err *err)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int code = getaddrinfo(host, NULL, &hints, &found);
    if (code != 0)
        return lookup_error(code, errno, host, err);
    size_t naddrs = 0;
    for (const struct addrinfo *i = found; i != NULL && naddrs < max_addrs; i = i->ai_next) {
        sock_name n;
        memset(&n, 0, sizeof n);
        if (i->ai_addrlen > sizeof n)
            continue;
        memcpy(&n, i->ai_addr, i->ai_addrlen);
        tci_addr a = from_name(&n);
        if (a.family == TCI_ADDR_NONE)
            continue;
        a.port = port;
        addrs[naddrs++] = a;
    }
    freeaddrinfo(found);
    if (naddrs == 0)
        return tc_err_set(err, TC_E_NOT_FOUND, "no address for '%s'", host);
    *ret_naddrs = naddrs;
    return 0;
}
