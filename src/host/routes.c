/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of what can be asked of the Host. What it does is for the files that the table names. Invariant:
 * what changes something is a POST, and needs somebody signed in unless a credential of its own is checked. */
#include "host/host_int.h"

enum {
    OWNER = TCI_ROUTE_OWNER,
    JSON = TCI_ROUTE_JSON,
    PAGE = TCI_ROUTE_PAGE,
    FORM = TCI_ROUTE_PAGE | TCI_ROUTE_FORM,
    EIP = TCI_ROUTE_STREAM /* eip.c sees to all of it */
};

static const tci_route routes[] = {
    /* Devices, with their credentials. */
    {"POST", "api/envd/pair", JSON, tci_host_pair_check, tci_host_pair_work, tci_host_pair_answer},
    {"GET", "api/devices/*/connect", 0, tci_host_connect_check, tci_host_connect_work,
     tci_host_connect_answer},
    /* Programs. */
    {"POST", "api/sign-in", JSON, tci_host_sign_in_check, tci_host_sign_in_work,
     tci_host_sign_in_answer},
    {"POST", "api/sign-out", OWNER, NULL, tci_host_sign_out_work, tci_host_sign_out_answer},
    {"POST", "api/sign-in-links", OWNER, NULL, tci_host_link_work, tci_host_link_answer},
    {"GET", "api/devices", OWNER, NULL, tci_host_list_work, tci_host_list_answer},
    {"POST", "api/devices/approve", OWNER | JSON, tci_host_code_check, tci_host_approve_work,
     tci_host_device_answer},
    {"POST", "api/devices/reject", OWNER | JSON, tci_host_code_check, tci_host_reject_work,
     tci_host_device_answer},
    {"GET", "api/devices/*", OWNER, NULL, tci_host_get_work, tci_host_device_answer},
    {"POST", "api/devices/*/revoke", OWNER, NULL, tci_host_revoke_work, tci_host_revoke_answer},
    {"POST", "api/devices/external", OWNER | JSON, tci_host_external_check, tci_host_external_work,
     tci_host_device_answer},
    {"POST", "api/devices/*/remove", OWNER, NULL, tci_host_remove_work, tci_host_remove_answer},
    {"GET", "api/devices/*/directories", OWNER, tci_host_directories_check,
     tci_host_directories_work, tci_host_directories_answer},
    {"POST", "api/devices/*/eip/control", EIP, NULL, NULL, NULL},
    {"POST", "api/devices/*/eip/transfer", EIP, NULL, NULL, NULL},
    {"DELETE", "api/devices/*/eip/transfer", EIP, NULL, NULL, NULL},
    /* People. */
    {"GET", "", OWNER | PAGE, NULL, tci_host_devices_page_work, tci_host_devices_page},
    {"GET", "devices/*/directories", OWNER | PAGE, tci_host_directories_check,
     tci_host_directories_work, tci_host_directories_answer},
    {"GET", "approve/*", OWNER | PAGE, NULL, tci_host_approve_page_work, tci_host_approve_page},
    {"POST", "approve/*", OWNER | FORM, tci_host_decide_check, tci_host_decide_work,
     tci_host_decided_page},
    {"POST", "devices/*/revoke", OWNER | FORM, NULL, tci_host_revoke_work, tci_host_revoked_page},
    {"POST", "devices/external", OWNER | FORM, tci_host_external_form_check, tci_host_external_work,
     tci_host_decided_page},
    {"POST", "devices/*/remove", OWNER | FORM, NULL, tci_host_remove_work, tci_host_decided_page},
    {"GET", "sign-in/*", PAGE, NULL, NULL, tci_host_sign_in_page},
    {"POST", "sign-in", FORM, tci_host_sign_in_form_check, tci_host_sign_in_work,
     tci_host_signed_in_page},
    {"POST", "sign-out", OWNER | FORM, NULL, tci_host_sign_out_work, tci_host_signed_out_page},
    {"POST", "sign-in-links", OWNER | FORM, NULL, tci_host_link_work, tci_host_link_page},
    {"GET", "page.css", PAGE, NULL, NULL, tci_host_css_answer},
    {"GET", "page.js", PAGE, NULL, NULL, tci_host_js_answer},
    {"GET", "icon.svg", PAGE, NULL, NULL, tci_host_icon_answer},
};

/* A name, perhaps with all of its bytes as %XX. */
static bool is_name_part(tc_str s)
{
    return s.len > 0 && s.len <= (size_t)3 * TCI_PAIR_NAME_MAX;
}

static bool matches(tc_str pattern, tc_str path, tc_str *ret_id)
{
    tc_str want, part;
    *ret_id = (tc_str){0};
    for (;;) {
        bool has_want = tci_str_split(&pattern, '/', &want);
        bool has_part = tci_str_split(&path, '/', &part);
        if (!has_want || !has_part)
            return has_want == has_part;
        if (tci_str_eq(want, TC_STR("*")) && is_name_part(part))
            *ret_id = part;
        else if (!tci_str_eq(want, part))
            return false;
    }
}

const tci_route *tci_host_route_find(tc_str method, tc_str path, tc_str *ret_id, bool *ret_is_known)
{
    if (tci_str_eq(method, TC_STR("HEAD")))
        method = TC_STR("GET");
    *ret_is_known = false;
    for (size_t i = 0; i < TCI_ARRAY_LEN(routes); i++) {
        tc_str id;
        if (!matches(tci_str(routes[i].path), path, &id))
            continue;
        *ret_is_known = true;
        if (!tci_str_eq(method, tci_str(routes[i].method)))
            continue;
        *ret_id = id;
        return &routes[i];
    }
    return NULL;
}
