/* SPDX-License-Identifier: Apache-2.0
 *
 * The conformance suite of a storage, run for one backend: test_contract_store BACKEND [reopen]. */
#include "fixture.h"

int main(int argc, char **argv)
{
    int rc = contract_start(argc, argv);
    if (rc != 0)
        return rc;
    rc = _cmocka_run_group_tests("records", record_cases, nrecord_cases, NULL, NULL);
    rc += _cmocka_run_group_tests("scans", scan_cases, nscan_cases, NULL, NULL);
    rc += _cmocka_run_group_tests("documents", document_cases, ndocument_cases, NULL, NULL);
    return rc > 0 ? 1 : 0;
}
