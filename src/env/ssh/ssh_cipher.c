/* SPDX-License-Identifier: Apache-2.0
 *
 * The order in which ssh offers its ciphers. ssh itself prefers one that is slow where the processor has
 * instructions for AES; a copy then waits for nothing else. Leaves what may be used at all to the
 * configuration, which ssh is asked for. The thread of a launch. Invariant: what is offered is what would
 * have been offered, in another order. */
#include "env/ssh/ssh_int.h"

#include "plat/system.h"

/* The fastest first. */
static const char *const fast[] = {"aes128-gcm@openssh.com", "aes256-gcm@openssh.com"};

static bool is_fast(tc_str name)
{
    for (size_t i = 0; i < TCI_ARRAY_LEN(fast); i++)
        if (tci_str_eq(name, tci_str(fast[i])))
            return true;
    return false;
}

static void add(tci_buf *out, tc_str name)
{
    if (out->len > 0)
        tci_buf_append_byte(out, ',');
    tci_buf_append_str(out, name);
}

/* One name, as ssh writes them: nothing that could be taken for anything else on a command line. */
static bool is_name(tc_str name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!is_letter && !(c >= '0' && c <= '9') && c != '@' && c != '.' && (c != '-' || i == 0))
            return false;
    }
    return name.len > 0;
}

static bool is_in(tc_str names, tc_str wanted)
{
    tc_str name;
    while (tci_str_split(&names, ',', &name))
        if (tci_str_eq(name, wanted))
            return true;
    return false;
}

static int reorder(tc_str names, tci_buf *out, tc_err *err)
{
    tc_str name, rest = names;
    for (size_t i = 0; i < TCI_ARRAY_LEN(fast); i++)
        if (is_in(names, tci_str(fast[i])))
            add(out, tci_str(fast[i]));
    while (tci_str_split(&rest, ',', &name)) {
        if (!is_name(name))
            return tc_err_set(err, TC_E_PARSE, "ssh names its ciphers in another way");
        if (!is_fast(name))
            add(out, name);
    }
    return tci_buf_error(out, err);
}

int tci_ssh_fast_first(tc_str configuration, tci_arena *a, tc_str *ret_ciphers, tc_err *err)
{
    tc_str line;
    while (tci_str_split(&configuration, '\n', &line)) {
        if (!tci_str_starts(line, TC_STR("ciphers ")))
            continue;
        tci_buf b;
        tc_str names = tci_str_sub(line, sizeof "ciphers " - 1, SIZE_MAX);
        tci_buf_init(&b, TCI_BUF_MAX);
        int rc = reorder(names, &b, err);
        if (rc == 0 && tci_str_eq(tci_buf_str(&b), names))
            *ret_ciphers = (tc_str){0};
        else if (rc == 0)
            rc = tci_arena_dup(a, tci_buf_str(&b), ret_ciphers, err);
        tci_buf_done(&b);
        return rc;
    }
    *ret_ciphers = (tc_str){0};
    return 0;
}

void tci_ssh_choose_ciphers(tci_ssh_to *to, tc_ctx *ctx, tci_arena *a)
{
    tc_str configuration = {0};
    tc_err ignored; /* the connection itself says what is wrong, and works without */
    to->ciphers = (tc_str){0};
    if (!tci_system_has_aes() ||
        tci_ssh_query(to, ctx, false, false, a, &configuration, &ignored) < 0)
        return;
    if (tci_ssh_fast_first(configuration, a, &to->ciphers, &ignored) < 0)
        to->ciphers = (tc_str){0};
}
