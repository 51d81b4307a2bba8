/* SPDX-License-Identifier: Apache-2.0
 *
 * Print mode: a prompt goes in, by arguments or on standard input, and nothing but the answer comes
 * out. Why there is none goes to standard error, and the exit status is not 0.
 *
 *     agent_print SCRIPT SESSION [PROMPT] */
#include "agent_start.h"

enum { PROMPT_MAX = 1 << 20 };

/* All of standard input, but for line ends at its end; to be freed by the caller. */
static char *read_prompt(size_t *ret_len)
{
    char *prompt = malloc(PROMPT_MAX);
    agent_check(prompt != NULL, "there is memory for a prompt");
    size_t len = fread(prompt, 1, PROMPT_MAX, stdin);
    agent_check(ferror(stdin) == 0 && len < PROMPT_MAX, "standard input is a prompt");
    while (len > 0 && (prompt[len - 1] == '\n' || prompt[len - 1] == '\r'))
        len--;
    *ret_len = len;
    return prompt;
}

/* Prints the text of an assistant's entry: what it thought and called is not for people who pipe. */
static void print_answer(agent_world *w, uint64_t entry)
{
    tc_err err;
    tc_str json, type, words;
    const tc_json *v;
    need(tc_durable_entry(tc_harness_session(w->harness), 0, entry, w->r, &json, &err), &err,
         "entry");
    need(tc_json_parse(w->r, json, &v, &err), &err, "entry");
    const tc_json *content = tc_json_find(v, "/model/0/content");
    for (size_t i = 0; i < tc_json_count(content); i++) {
        const tc_json *item = tc_json_item(content, i);
        if (tc_json_as_str(tc_json_get(item, TC_STR("type")), &type) && agent_is(type, "text") &&
            tc_json_as_str(tc_json_get(item, TC_STR("text")), &words) && words.len > 0)
            fwrite(words.ptr, 1, words.len, stdout);
    }
    putchar('\n');
    agent_check(fflush(stdout) == 0, "the answer was written");
}

int main(int argc, char **argv)
{
    agent_world w;
    tc_err err;
    tc_submission s;
    uint64_t question;
    char *prompt = NULL;
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: agent_print SCRIPT SESSION [PROMPT]\n");
        return 2;
    }
    tc_user_input input = {.size = sizeof input};
    if (argc == 4) {
        input.text = text(argv[3]);
    } else {
        prompt = read_prompt(&input.text.len);
        input.text.ptr = prompt;
    }
    agent_check(input.text.len > 0, "there is a prompt");
    agent_start(&w, argv[1], argv[2], NULL);
    tc_call call = TC_CALL(NULL, w.r);
    need(tc_conversation_submit(w.harness, NULL, w.root, &input, &question, &err), &err, "submit");
    need(tc_submission_wait(w.harness, &call, question, &s, &err), &err, "wait");
    bool is_answered = s.status == TC_SUBMISSION_DONE && s.answer != 0;
    if (is_answered)
        print_answer(&w, s.answer);
    else
        fprintf(stderr, "no answer: %.*s %.*s\n", TC_STR_ARG(s.reason), TC_STR_ARG(s.detail));
    agent_stop(&w);
    free(prompt);
    return is_answered ? 0 : 1;
}
