/* SPDX-License-Identifier: Apache-2.0
 *
 * The system prompt in sections: what does not change is said once; what changes is patched in place.
 *
 *     agent_prompt SCRIPT SESSION */
#include "agent_start.h"

static const char *mood = "calm";

static int render_mood(void *user, const tc_prompt *prompt, tc_result *r, tc_str *ret_text,
                       tc_err *err)
{
    (void)user;
    (void)prompt;
    (void)r;
    (void)err;
    *ret_text = text(mood);
    return 0;
}

static int render_rules(void *user, const tc_prompt *prompt, tc_result *r, tc_str *ret_text,
                        tc_err *err)
{
    (void)user;
    (void)prompt;
    (void)r;
    (void)err;
    *ret_text = TC_STR("Answer in one sentence.");
    return 0;
}

int main(int argc, char **argv)
{
    static const tc_section sections[] = {{.key = {"rules", 5}, .render = render_rules},
                                          {.key = {"mood", 4}, .render = render_mood}};
    static const tc_extension extension = {
        .size = sizeof extension, .name = {"house", 5}, .sections = sections, .nsections = 2};
    agent_world w;
    tc_err err;
    if (argc != 3) {
        fprintf(stderr, "usage: agent_prompt SCRIPT SESSION\n");
        return 2;
    }
    agent_start(&w, argv[1], argv[2], &extension);
    agent_answer(&w, "one", agent_submit(&w, w.root, "How are you?", TC_WHEN_BUSY_FOLLOW_UP));
    agent_answer(&w, "two", agent_submit(&w, w.root, "And now?", TC_WHEN_BUSY_FOLLOW_UP));
    mood = "cheerful";
    agent_answer(&w, "three", agent_submit(&w, w.root, "And now?", TC_WHEN_BUSY_FOLLOW_UP));
    tc_page page = {.order = TC_ORDER_ASCENDING, .limit = 100};
    tc_records entries;
    need(
        tc_durable_entries(tc_harness_session(w.harness), w.root, 0, 0, &page, w.r, &entries, &err),
        &err, "entries");
    for (size_t i = 0; i < entries.count; i++) {
        const tc_json *v;
        tc_str sections_text;
        need(tc_json_parse(w.r, entries.items[i], &v, &err), &err, "entry");
        const tc_json *told = tc_json_find(v, "/model/0/sections");
        if (told == NULL)
            continue;
        need(tc_json_text(told, w.r, &sections_text, &err), &err, "sections");
        printf("told %.*s\n", TC_STR_ARG(sections_text));
    }
    agent_stop(&w);
    return 0;
}
