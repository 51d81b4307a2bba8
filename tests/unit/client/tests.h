/* SPDX-License-Identifier: Apache-2.0
 *
 * The groups of this program. */
#ifndef TC_TEST_CLIENT_TESTS_H
#define TC_TEST_CLIENT_TESTS_H

#include "peer.h"

extern const struct CMUnitTest call_tests[];
extern const size_t ncall_tests;
extern const struct CMUnitTest xfer_tests[];
extern const size_t nxfer_tests;
extern const struct CMUnitTest output_tests[];
extern const size_t noutput_tests;
extern const struct CMUnitTest connections_tests[];
extern const size_t nconnections_tests;
extern const struct CMUnitTest http_tests[];
extern const size_t nhttp_tests;

#endif
