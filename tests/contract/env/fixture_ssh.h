/* SPDX-License-Identifier: Apache-2.0
 *
 * The ssh provider's row of the fixture: an ssh server of the tests' own on loopback. */
#ifndef TC_TEST_ENV_FIXTURE_SSH_H
#define TC_TEST_ENV_FIXTURE_SSH_H

/* NULL: it can be had here. */
const char *ssh_why_not(void);

#endif
