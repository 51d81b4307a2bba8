/* SPDX-License-Identifier: Apache-2.0
 *
 * A pi-env daemon that says anything: while it is being started (first byte odd), or with calls of
 * several kinds and the tunnel's first request under way. Every call ends, and what is handed out is
 * there to be read. */
#include "client/pienv/pienv.h"

#include "plat/fd.h"
#include "plat/socket.h"
#include <stdlib.h>

enum { INPUT_MAX = 64 * 1024, DST_BYTES = 16, NCALLS = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct far_end {
    int fd;
    tc_str first; /* said at once */
    bool is_greeting;
} far_end;

static void say(int fd, tc_str bytes)
{
    tci_fd_part part = {(void *)(uintptr_t)bytes.ptr, bytes.len};
    size_t n = 0;
    tc_err err;
    if (bytes.len > 0 && tci_socket_send(fd, &part, 1, &n, &err) < 0)
        return; /* the connection had enough of it */
}

static int launch(void *user, tc_ctx *ctx, tc_str token, tci_pi_child *ret_child, tc_err *err)
{
    static const char hello[] =
        "\0\0\0\212\2\0\0\0\1\0\0\0\201{\"protocol\":1,\"version\":\"1\",\"os\":\"linux\","
        "\"arch\":\"x\",\"home\":\"/\",\"separator\":\"/\",\"tmpdir\":\"/"
        "tmp\",\"pid\":1,\"tc_ext\":1,"
        "\"driveCwds\":{}}";
    far_end *f = user;
    int fds[2];
    TCI_UNUSED(ctx);
    if (tci_socket_pair(fds, err) < 0)
        return err->code;
    if (f->is_greeting) {
        say(fds[0], TC_STR("PI-ENV "));
        say(fds[0], token);
        say(fds[0], TC_STR("\n"));
        say(fds[0], tci_str_of(hello, sizeof hello - 1));
    }
    say(fds[0], f->first);
    if (f->is_greeting)
        f->fd = fds[0];
    else
        tci_fd_close(&fds[0]);
    *ret_child = TCI_PI_CHILD_NONE;
    ret_child->in_fd = ret_child->out_fd = fds[1];
    return 0;
}

static unsigned touch(tc_str s)
{
    unsigned sum = 0;
    for (size_t i = 0; i < s.len; i++)
        sum += (unsigned char)s.ptr[i];
    return sum;
}

static int on_note(void *user, const tci_pi_note *note, tc_err *err)
{
    unsigned *sum = user;
    *sum += touch(note->payload);
    TC_ASSERT(note->json != NULL || note->is_output);
    return *sum % 251 == 1 ? tc_err_set(err, TC_E_NO_SPACE, "enough") : 0;
}

static void talk(tci_pi *pi, far_end *f, tc_str rest)
{
    tci_pi_exec_params exec = {.has_command = true,
                               .command = TC_STR("make"),
                               .has_cwd = true,
                               .cwd = TC_STR("/"),
                               .inherit_env = true};
    tci_pi_pread_params pread = {.handle = 1, .length = DST_BYTES};
    tci_pi_readdir_params readdir = {.handle = 1, .max = 10};
    tci_pi_exec_result executed;
    tci_pi_readdir_result listed;
    char dst[DST_BYTES];
    unsigned sum = 0;
    tc_result *r = NULL;
    tc_err err;
    TC_ASSERT(tc_result_new(&r, &err) == 0);
    tci_pi_call calls[NCALLS] = {
        {.op = TCI_PI_EXEC, .params = &exec, .reply = &executed, .on_note = on_note, .user = &sum},
        {.op = TCI_PI_PREAD, .params = &pread, .dst = dst, .dst_cap = sizeof dst},
        {.op = TCI_PI_PREAD, .params = &pread},
        {.op = TCI_PI_READDIR, .params = &readdir, .reply = &listed},
    };
    bool is_begun[NCALLS] = {false};
    for (size_t i = 0; i < NCALLS; i++) {
        calls[i].result = r;
        is_begun[i] = tci_pi_begin(pi, NULL, &calls[i], &err) == 0;
        TC_ASSERT(is_begun[i] || i > 0); /* the greeting was in order */
        if (!is_begun[i])
            break;
    }
    say(f->fd, rest);
    tci_fd_close(&f->fd);
    for (size_t i = 0; i < NCALLS; i++) {
        if (!is_begun[i])
            continue;
        int rc = tci_pi_wait(&calls[i], &err);
        sum += touch(calls[i].payload) + touch(calls[i].fault.error.message);
        if (rc == 0 && calls[i].op == TCI_PI_READDIR)
            for (size_t k = 0; k < listed.entries.count; k++)
                sum += touch(listed.entries.items[k].name);
    }
    TC_ASSERT(sum != 1);
    tc_result_free(r);
}

static void start(tci_pi *pi)
{
    tc_result *r = NULL;
    tci_pi_facts facts;
    tci_pi_fault fault;
    tc_err err;
    TC_ASSERT(tc_result_new(&r, &err) == 0);
    int rc = tci_pi_get_facts(pi, NULL, r, &facts, &fault, &err);
    TC_ASSERT(rc < 0 && touch(fault.error.message) > 0); /* nobody guesses the token */
    tc_result_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tc_runtime *rt;
    tc_err err;
    if (size == 0 || size > INPUT_MAX)
        return 0;
    if (rt == NULL)
        TC_ASSERT(tc_runtime_open(NULL, &rt, &err) == 0);
    tc_str rest = tci_str_of(data + 1, size - 1);
    far_end f = {.fd = -1, .is_greeting = data[0] % 2 == 0};
    if (!f.is_greeting)
        f.first = rest;
    tci_pi_launcher launcher = {.launch = launch, .user = &f};
    tci_pi *pi = NULL;
    TC_ASSERT(tci_pi_new_own(rt, &launcher, NULL, &pi, &err) == 0);
    if (f.is_greeting)
        talk(pi, &f, rest);
    else
        start(pi);
    tci_pi_release(pi);
    return 0;
}
