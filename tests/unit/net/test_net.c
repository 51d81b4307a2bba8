/* SPDX-License-Identifier: Apache-2.0
 *
 * The carriers: addresses, descriptors, TCP, TLS, tunnels. */
#include "test_net.h"

#include <signal.h>

int main(void)
{
    const struct {
        const char *name;
        const struct CMUnitTest *tests;
        size_t ntests;
    } groups[] = {
        {"url", url_tests, nurl_tests},          {"fd", fd_tests, nfd_tests},
        {"tcp", tcp_tests, ntcp_tests},          {"tls", tls_tests, ntls_tests},
        {"tunnel", tunnel_tests, ntunnel_tests},
    };
    int nfailed = 0;
    if (signal(SIGPIPE, SIG_IGN) == SIG_ERR) /* as net/fd.h asks of programs */
        return 1;
    for (size_t i = 0; i < TCI_ARRAY_LEN(groups); i++)
        nfailed +=
            _cmocka_run_group_tests(groups[i].name, groups[i].tests, groups[i].ntests, NULL, NULL);
    return nfailed;
}
