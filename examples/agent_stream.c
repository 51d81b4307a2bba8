/* SPDX-License-Identifier: Apache-2.0
 *
 * A real model, whose answer is printed as it comes: what there is of it is in the conversation's view.
 *
 *     agent_stream PROVIDER/MODEL BASE_URL PROMPT [KEY_FILE] */
#include "agent_start.h"

static int explain(void)
{
    fputs("usage: agent_stream PROVIDER/MODEL BASE_URL PROMPT [KEY_FILE]\n"
          "\n"
          "  PROVIDER/MODEL  openai/NAME or anthropic/NAME: the protocol its server speaks, and "
          "what\n"
          "                  the server calls it\n"
          "  BASE_URL        where the server is, as http://127.0.0.1:8080/v1; -: at its vendor\n"
          "  KEY_FILE        its first line is the key; else OPENAI_API_KEY or ANTHROPIC_API_KEY\n"
          "                  is, and a server of your own may want none\n",
          stderr);
    return 2;
}

typedef struct printer {
    agent_world w;
    tc_result *scratch; /* of one text */
    char *shown;        /* what was printed of the answer */
    size_t len, npieces;
} printer;

/* The text of an assistant's message, in scratch: thinking and calls are not printed. */
static tc_str text_of(printer *p, const tc_json *message)
{
    tc_err err;
    tc_str words;
    void *room;
    size_t len = 0;
    const tc_json *content = tc_json_get(message, TC_STR("content"));
    for (size_t i = 0; i < tc_json_count(content); i++)
        if (tc_json_as_str(tc_json_get(tc_json_item(content, i), TC_STR("text")), &words))
            len += words.len;
    tc_result_clear(p->scratch);
    need(tc_result_alloc(p->scratch, len + 1, &room, &err), &err, "text");
    char *at = room;
    for (size_t i = 0; i < tc_json_count(content); i++)
        if (tc_json_as_str(tc_json_get(tc_json_item(content, i), TC_STR("text")), &words) &&
            words.len > 0)
            at = (char *)memcpy(at, words.ptr, words.len) + words.len;
    return (tc_str){room, len};
}

/* Print what is new in it. */
static void print_so_far(printer *p, tc_str whole)
{
    if (p->len > 0 && (whole.len < p->len || memcmp(whole.ptr, p->shown, p->len) != 0)) {
        printf("\n"); /* another message: the model was asked again */
        p->len = 0;
    }
    if (whole.len == p->len)
        return;
    char *grown = realloc(p->shown, whole.len);
    agent_check(grown != NULL, "there is memory for the answer");
    fwrite(whole.ptr + p->len, 1, whole.len - p->len, stdout);
    agent_check(fflush(stdout) == 0, "the answer was written");
    p->shown = memcpy(grown, whole.ptr, whole.len);
    p->len = whole.len;
    p->npieces++;
}

/* Until the run, which is in the view as long as it lasts, is over. */
static void print_stream(printer *p, tc_watch *view)
{
    tc_err err;
    tc_frame frame;
    do {
        need(tc_watch_next(view, NULL, &frame, &err), &err, "watch");
        const tc_json *message = tc_json_find(frame.value, "/docs/pi.live/generation/message");
        if (message != NULL)
            print_so_far(p, text_of(p, message));
    } while (tc_json_find(frame.value, "/docs/pi.live/run") != NULL);
}

static void print_answer(printer *p, uint64_t entry)
{
    tc_err err;
    tc_str json;
    const tc_json *v;
    need(tc_durable_entry(tc_harness_session(p->w.harness), 0, entry, p->w.r, &json, &err), &err,
         "entry");
    need(tc_json_parse(p->w.r, json, &v, &err), &err, "entry");
    print_so_far(p, text_of(p, tc_json_find(v, "/model/0"))); /* the last piece is here alone */
    printf("\n");
    fprintf(stderr, "in %zu pieces\n", p->npieces);
}

int main(int argc, char **argv)
{
    printer p = {.len = 0};
    tc_err err;
    tc_watch *view;
    tc_submission s;
    char *model = argc > 1 ? strchr(argv[1], '/') : NULL;
    if (argc < 4 || argc > 5 || model == NULL)
        return explain();
    *model++ = '\0';
    tc_models_options options = {.size = sizeof options};
    if (strcmp(argv[2], "-") != 0)
        options.base_url = text(argv[2]);
    if (argc == 5)
        options.key_file = text(argv[4]);
    need(tc_result_new(&p.scratch, &err), &err, "result");
    agent_start_with(&p.w, argv[1], model, &options, ":memory:", NULL);
    need(tc_conversation_watch(p.w.harness, NULL, p.w.root, &view, &err), &err, "watch");
    uint64_t question = agent_submit(&p.w, p.w.root, argv[3], TC_WHEN_BUSY_FOLLOW_UP);
    print_stream(&p, view);
    tc_watch_free(view);

    tc_call call = TC_CALL(NULL, p.w.r);
    need(tc_submission_wait(p.w.harness, &call, question, &s, &err), &err, "wait");
    if (s.answer != 0)
        print_answer(&p, s.answer);
    else
        fprintf(stderr, "no answer: %.*s %.*s\n", TC_STR_ARG(s.reason), TC_STR_ARG(s.detail));
    agent_stop(&p.w);
    tc_result_free(p.scratch);
    free(p.shown);
    return s.answer != 0 ? 0 : 1;
}
