/* SPDX-License-Identifier: Apache-2.0
 *
 * See load.h. */
#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *next_text(void)
{
    static char texts[64][2048];
    static unsigned next;
    return texts[next++ % 64];
}

const char *path_of(const char *name)
{
    char *out = next_text();
    const char *folder = getenv("TC_TEST_DIR");
    assert_non_null(folder);
    (void)snprintf(out, 2048, "%s/%s", folder, name);
    return out;
}

const char *var_path(const char *variable, const char *name)
{
    char *out = next_text();
    (void)snprintf(out, 2048, "%s=%s", variable, path_of(name));
    return out;
}

const char *put_file(const char *name, const char *text, size_t len)
{
    const char *path = path_of(name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
    return path;
}

const char *put_text_file(const char *name, const char *text)
{
    return put_file(name, text, strlen(text));
}

static size_t copy_words(const words *w, const char **out, size_t n)
{
    for (size_t i = 0; w != NULL && i < WORDS_MAX && w->items[i] != NULL; i++)
        out[n++] = w->items[i];
    out[n] = NULL;
    return n;
}

void load_bare(loaded *l, const char *program, const words *args, const words *vars)
{
    const char *argv[WORDS_MAX + 2] = {program}, *envp[WORDS_MAX + 2];
    size_t argc = copy_words(args, argv, 1);
    (void)copy_words(vars, envp, 0);
    memset(l, 0, sizeof *l);
    l->rc = tci_config_load((int)argc, (char *const *)argv, (char *const *)envp, &l->config,
                            &l->action, &l->text, &l->err);
}

void load(loaded *l, const char *program, const words *args, const words *vars)
{
    words more = {{NULL}};
    bool has_runtime = false;
    static char runtime[2048];
    (void)snprintf(runtime, sizeof runtime, "%s", var_path("A13N_ENVD_RUNTIME_DIR", "runtime"));
    size_t n = copy_words(vars, more.items, 0);
    for (size_t i = 0; i < n; i++)
        has_runtime = has_runtime || strstr(more.items[i], "_RUNTIME_DIR=") != NULL;
    assert_true(n + 1 < WORDS_MAX);
    if (!has_runtime)
        more.items[n] = runtime;
    load_bare(l, program, args, &more);
}

void unload(loaded *l)
{
    tci_config_done(&l->config);
}

void assert_has_at(const char *text, const char *part, const char *file, int line)
{
    if (strstr(text, part) == NULL) {
        print_error("'%s' does not have '%s'\n", text, part);
        _fail(file, line);
    }
}

void assert_text_at(tc_str got, const char *want, const char *file, int line)
{
    if (!tci_str_eq(got, tci_str(want))) {
        print_error("got '%.*s', want '%s'\n", TC_STR_ARG(got), want);
        _fail(file, line);
    }
}

static void check_says(const loaded *l, const char *says, const char *what)
{
    if (says == NULL) {
        if (l->rc != 0)
            fail_msg("%s: refused: %s", what, l->err.msg);
        return;
    }
    if (l->rc == 0)
        fail_msg("%s: accepted, expected '%s'", what, says);
    tc_str rest = tci_str(says), part;
    while (tci_str_split(&rest, '|', &part)) {
        if (tci_str_find(tci_str(l->err.msg), part) == strlen(l->err.msg) && part.len > 0)
            fail_msg("%s: '%s' does not have '%.*s'", what, l->err.msg, TC_STR_ARG(part));
    }
}

void check_verdicts(const verdict *items, size_t nitems)
{
    for (size_t i = 0; i < nitems; i++) {
        char what[32];
        loaded l;
        (void)snprintf(what, sizeof what, "row %zu", i);
        load(&l, "a13n-envd", &items[i].args, &items[i].vars);
        check_says(&l, items[i].says, what);
        unload(&l);
    }
}

void check_json(const json_verdict *items, size_t nitems)
{
    for (size_t i = 0; i < nitems; i++) {
        static char var[64 * 1024];
        loaded l;
        words vars = {{var}};
        (void)snprintf(var, sizeof var, "A13N_ENVD_CONFIG_JSON=%s", items[i].json);
        load(&l, "a13n-envd", NULL, &vars);
        check_says(&l, items[i].says, items[i].json);
        unload(&l);
    }
}
