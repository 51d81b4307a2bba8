/* SPDX-License-Identifier: Apache-2.0
 *
 * How libcurl is built for a release: what Linux with musl has, and the little of the library that
 * src/llm uses. HTTP/1.1 and HTTPS over OpenSSL, proxies with a name and a password, names resolved by a
 * thread. Left out: every other protocol, HTTP/2, compression, cookies, and what keeps files of its own.
 * Where certificates are is no matter of this build (src/plat/roots.h). */
#ifndef TC_CURL_CONFIG_H
#define TC_CURL_CONFIG_H

#define CURL_OS "linux-musl"
#define USE_OPENSSL 1
#define USE_IPV6 1
#define USE_RESOLV_THREADED 1
#define HAVE_THREADS_POSIX 1
/* Without other word: where OpenSSL looks, its environment variables too. */
#define CURL_CA_FALLBACK 1

#define CURL_DISABLE_ALTSVC 1
#define CURL_DISABLE_AWS 1
#define CURL_DISABLE_BINDLOCAL 1
#define CURL_DISABLE_COOKIES 1
#define CURL_DISABLE_DICT 1
#define CURL_DISABLE_DIGEST_AUTH 1
#define CURL_DISABLE_DOH 1
#define CURL_DISABLE_FILE 1
#define CURL_DISABLE_FORM_API 1
#define CURL_DISABLE_FTP 1
#define CURL_DISABLE_GETOPTIONS 1
#define CURL_DISABLE_GOPHER 1
#define CURL_DISABLE_HEADERS_API 1
#define CURL_DISABLE_HSTS 1
#define CURL_DISABLE_HTTPSIG 1
#define CURL_DISABLE_IMAP 1
#define CURL_DISABLE_KERBEROS_AUTH 1
#define CURL_DISABLE_LDAP 1
#define CURL_DISABLE_LDAPS 1
#define CURL_DISABLE_MIME 1
#define CURL_DISABLE_MQTT 1
#define CURL_DISABLE_NEGOTIATE_AUTH 1
#define CURL_DISABLE_NETRC 1
#define CURL_DISABLE_POP3 1
#define CURL_DISABLE_PROGRESS_METER 1
#define CURL_DISABLE_RTSP 1
#define CURL_DISABLE_SHA512_256 1
#define CURL_DISABLE_SHUFFLE_DNS 1
#define CURL_DISABLE_SMTP 1
#define CURL_DISABLE_TELNET 1
#define CURL_DISABLE_TFTP 1
#define CURL_DISABLE_WEBSOCKETS 1

#define CURL_EXTERN_SYMBOL
#define SIZEOF_CURL_OFF_T 8
#define SIZEOF_CURL_SOCKET_T 4
#define SIZEOF_LONG 8
#define SIZEOF_OFF_T 8
#define SIZEOF_SIZE_T 8
#define SIZEOF_TIME_T 8

#define HAVE_ACCEPT4 1
#define HAVE_ARPA_INET_H 1
#define HAVE_ATOMIC 1
#define HAVE_BOOL_T 1
#define HAVE_CLOCK_GETTIME_MONOTONIC 1
#define HAVE_CLOCK_GETTIME_MONOTONIC_RAW 1
#define HAVE_DECL_FSEEKO 1
#define HAVE_EVENTFD 1
#define HAVE_FCNTL 1
#define HAVE_FCNTL_H 1
#define HAVE_FCNTL_O_NONBLOCK 1
#define HAVE_FREEADDRINFO 1
#define HAVE_FSEEKO 1
#define HAVE_GETADDRINFO 1
#define HAVE_GETADDRINFO_THREADSAFE 1
#define HAVE_GETIFADDRS 1
#define HAVE_GETPEERNAME 1
#define HAVE_GETSOCKNAME 1
#define HAVE_GETTIMEOFDAY 1
#define HAVE_GMTIME_R 1
#define HAVE_IFADDRS_H 1
#define HAVE_IF_NAMETOINDEX 1
#define HAVE_IOCTL_FIONBIO 1
#define HAVE_MEMRCHR 1
#define HAVE_NETDB_H 1
#define HAVE_NETINET_IN_H 1
#define HAVE_NETINET_TCP_H 1
#define HAVE_NET_IF_H 1
#define HAVE_PIPE 1
#define HAVE_PIPE2 1
#define HAVE_POLL 1
#define HAVE_POLL_H 1
#define HAVE_POSIX_STRERROR_R 1
#define HAVE_RECV 1
#define HAVE_SA_FAMILY_T 1
#define HAVE_SEND 1
#define HAVE_SENDMSG 1
#define HAVE_SIGACTION 1
#define HAVE_SIGNAL 1
#define HAVE_SOCKADDR_IN6_SIN6_SCOPE_ID 1
#define HAVE_SOCKET 1
#define HAVE_SOCKETPAIR 1
#define HAVE_SSL_SET0_WBIO 1
#define HAVE_STDATOMIC_H 1
#define HAVE_STDBOOL_H 1
#define HAVE_STRERROR_R 1
#define HAVE_STRINGS_H 1
#define HAVE_STRUCT_SOCKADDR_STORAGE 1
#define HAVE_STRUCT_TIMEVAL 1
#define HAVE_SUSECONDS_T 1
#define HAVE_SYS_EVENTFD_H 1
#define HAVE_SYS_IOCTL_H 1
#define HAVE_SYS_PARAM_H 1
#define HAVE_SYS_POLL_H 1
#define HAVE_SYS_SELECT_H 1
#define HAVE_UNISTD_H 1

#endif
