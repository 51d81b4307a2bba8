/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs one group of the ssh tests, named by the argument. */
#include "fixture.h"

#include <signal.h>
#include <string.h>

/* cmocka's macro wants an array's size; this is what it expands to. */
static int run(const char *name, const struct CMUnitTest *tests, size_t n)
{
    return _cmocka_run_group_tests(name, tests, n, NULL, NULL);
}

static const struct {
    const char *name;
    const struct CMUnitTest *tests;
    const size_t *ntests;
    const char *(*prepare)(void);
} groups[] = {
    {"trust", trust_tests, &ntrust_tests, NULL},
    {"deploy", deploy_tests, &ndeploy_tests, NULL},
    {"login", login_tests, &nlogin_tests, NULL},
    {"places", places_tests, &nplaces_tests, places_prepare},
    {"links", links_tests, &nlinks_tests, NULL},
};

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "trust";
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < TCI_ARRAY_LEN(groups); i++) {
        if (strcmp(name, groups[i].name) != 0)
            continue;
        const char *why = fixture_start(groups[i].prepare != NULL ? groups[i].prepare() : NULL);
        if (why != NULL) {
            printf("skipped: %s\n", why);
            return 77;
        }
        int nfailed = run(name, groups[i].tests, *groups[i].ntests);
        fixture_stop();
        return nfailed;
    }
    return 2;
}
