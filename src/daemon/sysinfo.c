/* SPDX-License-Identifier: Apache-2.0
 *
 * System facts for the descriptor: names from the system, the release from os-release, the processor
 * from cpuinfo. A fact that is not to be had is absent, never guessed. */
#include "daemon/sysinfo.h"

#include "base/utf8.h"
#include "plat/file.h"
#include "plat/system.h"

enum { TEXT_MAX = 256, ARCH_MAX = 64, FILE_MAX = 1024 * 1024 };

/* The value after `key` and `sep` on the first line that begins so. */
static tc_str value_of(tc_str text, tc_str key, char sep)
{
    tc_str line;
    while (tci_str_split(&text, '\n', &line)) {
        if (!tci_str_starts(line, key))
            continue;
        tc_str rest = tci_str_trim(tci_str_sub(line, key.len, line.len));
        if (rest.len > 0 && rest.ptr[0] == sep)
            return tci_str_trim(tci_str_sub(rest, 1, rest.len));
    }
    return TC_STR("");
}

static tc_str unquoted(tc_str s)
{
    while (s.len > 0 && (s.ptr[0] == '"' || s.ptr[0] == '\''))
        s = tci_str_sub(s, 1, s.len);
    while (s.len > 0 && (s.ptr[s.len - 1] == '"' || s.ptr[s.len - 1] == '\''))
        s.len--;
    return s;
}

static bool keep(tci_arena *a, tc_str text, size_t max_scalars, tc_str *ret)
{
    tc_err err;
    if (text.len == 0 || !tci_utf8_is_valid(text))
        return false;
    text.len = tci_utf8_prefix_bytes(text, max_scalars);
    return tci_arena_dup(a, text, ret, &err) == 0;
}

static bool from_file(tci_arena *a, tc_str path, const tc_str *keys, size_t nkeys, char sep,
                      tc_str *ret)
{
    tc_err err;
    char *text = NULL;
    size_t len = 0;
    bool found = false;
    if (tci_file_read_whole(TCI_FILE_CWD, path, FILE_MAX, &text, &len, &err) < 0)
        return false;
    for (size_t i = 0; i < nkeys && !found; i++)
        found = keep(a, unquoted(value_of(tci_str_of(text, len), keys[i], sep)), TEXT_MAX, ret);
    tci_free(text);
    return found;
}

void tci_sysinfo(tci_arena *a, tci_eip_system_info *ret)
{
    static const tc_str release[] = {{"PRETTY_NAME", 11}};
    static const tc_str model[] = {{"model name", 10}, {"Hardware", 8}};
    tci_system_names names;
    tci_system_names_of(&names);
    memset(ret, 0, sizeof *ret);
    ret->os = TCI_EIP_OPERATING_SYSTEM_LINUX;
    ret->has_kernel_version = keep(a, tci_str(names.kernel), TEXT_MAX, &ret->kernel_version);
    ret->has_architecture = keep(a, tci_str(names.machine), ARCH_MAX, &ret->architecture);
    ret->has_os_version =
        from_file(a, TC_STR("/etc/os-release"), release, 1, '=', &ret->os_version);
    ret->has_cpu_model = from_file(a, TC_STR("/proc/cpuinfo"), model, 2, ':', &ret->cpu_model);
}
