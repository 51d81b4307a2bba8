/* SPDX-License-Identifier: Apache-2.0
 *
 * The tools as extensions to install. Any thread. */
#include "harness/tools/tool_common.h"

enum { TOOLS_MAX = 4 };

typedef struct bundle {
    tc_extension extension;
    tc_tool tools[TOOLS_MAX];
    const tc_tool *list[TOOLS_MAX];
} bundle;

static int new_bundle(tc_str name, size_t ntools, bundle **ret, tc_err *err)
{
    bundle *b = tci_new(bundle);
    if (b == NULL)
        return tci_err_no_memory(err);
    for (size_t i = 0; i < ntools; i++)
        b->list[i] = &b->tools[i];
    b->extension = (tc_extension){
        .size = sizeof(tc_extension), .name = name, .tools = b->list, .ntools = ntools, .user = b};
    *ret = b;
    return 0;
}

int tc_coding_tools_new(const tc_read_options *read, const tc_bash_options *bash,
                        struct tc_extension **ret_extension, tc_err *err)
{
    bundle *b;
    if (new_bundle(TC_STR("coding-tools"), 4, &b, err) < 0)
        return err->code;
    tc_tool_read(read, &b->tools[0]);
    tc_tool_write(&b->tools[1]);
    tc_tool_edit(&b->tools[2]);
    tc_tool_bash(bash, &b->tools[3]);
    *ret_extension = &b->extension;
    return 0;
}

int tc_telechir_tools_new(struct tc_extension **ret_extension, tc_err *err)
{
    bundle *b;
    if (new_bundle(TC_STR("telechir-tools"), 3, &b, err) < 0)
        return err->code;
    tc_tool_ls(&b->tools[0]);
    tc_tool_grep(&b->tools[1]);
    tc_tool_find(&b->tools[2]);
    *ret_extension = &b->extension;
    return 0;
}

int tc_tool_search_new(struct tc_extension **ret_extension, tc_err *err)
{
    bundle *b;
    if (new_bundle(TC_STR("tool-search"), 1, &b, err) < 0)
        return err->code;
    tc_tool_search(&b->tools[0]);
    *ret_extension = &b->extension;
    return 0;
}

void tc_tools_free(struct tc_extension *extension)
{
    if (extension != NULL)
        tci_mem_free(extension->user);
}
