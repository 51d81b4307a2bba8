/* SPDX-License-Identifier: Apache-2.0
 *
 * The model stub as a program, for tests that are scripts: each argument is a file with the event stream
 * of one reply, which pauses where the file has the line ": pause". The address is the first line it
 * prints; a line on standard input ends one pause; when standard input ends, it prints what it was asked
 * and exits. One thread besides the stub's. */
#include "model_stub.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

enum { REPLIES_MAX = 8, REPLY_MAX = 64 * 1024 };

static char bodies[REPLIES_MAX][REPLY_MAX];

static int read_reply(const char *path, char *body, stub_reply *ret_reply)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        return -1;
    size_t len = fread(body, 1, REPLY_MAX - 1, f);
    body[len] = '\0';
    bool is_whole = feof(f) != 0;
    fclose(f);
    const char *pause = strstr(body, ": pause\n");
    *ret_reply = (stub_reply){.body = body, .pause_at = pause ? (size_t)(pause - body) : 0};
    return is_whole ? 0 : -1;
}

int main(int argc, char **argv)
{
    stub_reply replies[REPLIES_MAX];
    char line[64];
    size_t n = (size_t)argc - 1;
    if (argc < 2 || n > REPLIES_MAX) {
        fprintf(stderr, "usage: model_server REPLY...\n");
        return 2;
    }
    for (size_t i = 0; i < n; i++) {
        if (read_reply(argv[i + 1], bodies[i], &replies[i]) < 0) {
            fprintf(stderr, "model_server: cannot read '%s'\n", argv[i + 1]);
            return 1;
        }
    }
    model_stub *s = model_stub_start(replies, n);
    printf("%s\n", model_stub_url(s));
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL)
        model_stub_go(s);
    for (size_t i = 0; i < model_stub_count(s); i++)
        printf("%.*s%.*s\n", TC_STR_ARG(model_stub_head(s, i)), TC_STR_ARG(model_stub_body(s, i)));
    fflush(stdout);
    model_stub_stop(s);
    return 0;
}
