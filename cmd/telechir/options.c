/* SPDX-License-Identifier: Apache-2.0
 *
 * From words to options and arguments, by the command's tables. Invariant: a word that no table
 * knows is refused, so that a typing error never changes what is done. */
#include "cli.h"

#include "base/num.h"
#include "base/utf8.h"

static bool refuse(cli *c, const char *what, const char *word)
{
    (void)tc_err_set(&c->err, TC_E_INVALID, "%s '%s'", what, word);
    (void)tc_err_hint(&c->err, "see 'telechir %s --help'", c->command->name);
    return false;
}

static const cli_option *by_name(const cli *c, tc_str name)
{
    const cli_option *o;
    for (size_t i = 0; (o = cli_command_option(c->command, i)) != NULL; i++)
        if (tci_str_eq(tci_str(o->name), name))
            return o;
    return NULL;
}

static const cli_option *by_letter(const cli *c, char letter)
{
    const cli_option *o;
    for (size_t i = 0; (o = cli_command_option(c->command, i)) != NULL; i++)
        if (o->letter == letter)
            return o;
    return NULL;
}

static bool take(cli *c, const cli_option *o, const char *value, const char *word)
{
    if (!o->is_repeatable && o->value != NULL && cli_has(c, o->name))
        return refuse(c, "given twice:", word);
    if (c->ngiven == CLI_VALUES_MAX)
        return refuse(c, "too many options at", word);
    c->given[c->ngiven++] = (cli_given){o, value};
    return true;
}

/* "--name", "--name value", "--name=value". */
static bool take_long(cli *c, int argc, char **argv, int *at)
{
    const char *word = argv[*at];
    tc_str text = tci_str(word + 2);
    size_t equals = tci_str_find_byte(text, '=');
    const cli_option *o = by_name(c, tci_str_sub(text, 0, equals));
    if (o == NULL)
        return refuse(c, "no option", word);
    if (o->value == NULL)
        return equals < text.len ? refuse(c, "takes no value:", word) : take(c, o, NULL, word);
    if (equals < text.len)
        return take(c, o, text.ptr + equals + 1, word);
    if (*at + 1 >= argc)
        return refuse(c, "a value is missing after", word);
    *at += 1;
    return take(c, o, argv[*at], word);
}

/* "-r", "-rl", "-C3", "-C 3". */
static bool take_letters(cli *c, int argc, char **argv, int *at)
{
    const char *word = argv[*at];
    for (const char *p = word + 1; *p != '\0'; p++) {
        const cli_option *o = by_letter(c, *p);
        if (o == NULL)
            return refuse(c, "no option", word);
        if (o->value == NULL) {
            if (!take(c, o, NULL, word))
                return false;
            continue;
        }
        if (p[1] != '\0')
            return take(c, o, p + 1, word);
        if (*at + 1 >= argc)
            return refuse(c, "a value is missing after", word);
        *at += 1;
        return take(c, o, argv[*at], word);
    }
    return true;
}

static bool parse_words(cli *c, int argc, char **argv)
{
    bool is_over = false;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        if (!is_over && strcmp(word, "--") == 0) {
            is_over = true;
        } else if (is_over || word[0] != '-' || word[1] == '\0') {
            c->args[c->nargs++] = word;
            is_over = is_over || c->command->stops_at_first;
        } else if (word[1] == '-' ? !take_long(c, argc, argv, &i)
                                  : !take_letters(c, argc, argv, &i)) {
            return false;
        }
    }
    return true;
}

int cli_check_text(cli *c, const char *arg)
{
    size_t at = 0;
    tci_buf shown;
    if (tci_utf8_is_valid(tci_str(arg)))
        return 0;
    while (at < c->nargs && c->args[at] != arg)
        at++;
    tci_buf_init(&shown, TC_ERR_MSG_MAX);
    cli_put_name(&shown, tci_str(arg));
    if (at < c->nargs)
        tc_err_set(&c->err, TC_E_INVALID, "argument %zu ('%.*s') is not UTF-8", at + 1,
                   (int)shown.len, shown.ptr);
    else
        tc_err_set(&c->err, TC_E_INVALID, "'%.*s' is not UTF-8", (int)shown.len, shown.ptr);
    tci_buf_done(&shown);
    return tc_err_hint(&c->err,
                       "what goes to a target as a word is text; other bytes can go in files "
                       "and on standard input");
}

/* Names of files here may be any bytes, and so may texts that become content. */
static bool may_be_bytes(const cli_option *o)
{
    static const char *const contents[] = {"text", "old", "new"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(contents); i++)
        if (strcmp(o->name, contents[i]) == 0)
            return true;
    return o->value == NULL || strcmp(o->value, "FILE") == 0;
}

static bool are_words_text(cli *c)
{
    for (size_t i = 0; i < c->ngiven; i++)
        if (!may_be_bytes(c->given[i].option) && cli_check_text(c, c->given[i].value) < 0) {
            (void)tc_err_wrap(&c->err, "--%s", c->given[i].option->name);
            return false;
        }
    for (size_t i = 0; i < c->nargs && !c->command->takes_local_paths; i++)
        if (cli_check_text(c, c->args[i]) < 0)
            return false;
    return true;
}

bool cli_parse(cli *c, int argc, char **argv)
{
    c->args = tci_arena_items(&c->arena, const char *, (size_t)argc + 1);
    c->given = tci_arena_items(&c->arena, cli_given, CLI_VALUES_MAX);
    if (c->args == NULL || c->given == NULL) {
        (void)tci_arena_error(&c->arena, &c->err);
        return false;
    }
    bool is_fine = parse_words(c, argc, argv);
    c->is_json = cli_has(c, "json");
    c->is_quiet = cli_has(c, "quiet");
    c->is_verbose = cli_has(c, "verbose") && !c->is_quiet;
    return is_fine && are_words_text(c);
}

const char *cli_nth(const cli *c, const char *name, size_t n)
{
    for (size_t i = 0; i < c->ngiven; i++)
        if (strcmp(c->given[i].option->name, name) == 0 && n-- == 0)
            return c->given[i].value;
    return NULL;
}

const char *cli_value(const cli *c, const char *name)
{
    for (size_t i = c->ngiven; i-- > 0;)
        if (strcmp(c->given[i].option->name, name) == 0)
            return c->given[i].value;
    return NULL;
}

bool cli_has(const cli *c, const char *name)
{
    for (size_t i = 0; i < c->ngiven; i++)
        if (strcmp(c->given[i].option->name, name) == 0)
            return true;
    return false;
}

bool cli_number(cli *c, const char *name, uint64_t min, uint64_t dflt, uint64_t *ret)
{
    const char *text = cli_value(c, name);
    *ret = dflt;
    if (text == NULL)
        return true;
    if (tci_num_u64(tci_str(text), ret, &c->err) == 0 && *ret >= min)
        return true;
    (void)tc_err_set(&c->err, TC_E_INVALID, "--%s takes a whole number of at least %llu, not '%s'",
                     name, (unsigned long long)min, text);
    return false;
}

bool cli_seconds(cli *c, const char *name, uint64_t *ret_ms)
{
    enum { SECONDS_MAX = 1000000000 };
    const char *text = cli_value(c, name);
    double seconds = 0;
    *ret_ms = 0;
    if (text == NULL)
        return true;
    if (tci_num_double(tci_str(text), &seconds, &c->err) == 0 && seconds > 0 &&
        seconds < SECONDS_MAX) {
        *ret_ms = (uint64_t)(seconds * 1000);
        *ret_ms = *ret_ms > 0 ? *ret_ms : 1;
        return true;
    }
    (void)tc_err_set(&c->err, TC_E_INVALID, "--%s takes seconds, like 2 or 0.5, not '%s'", name,
                     text);
    return false;
}

bool cli_want_args(cli *c, size_t min, size_t max)
{
    if (c->nargs > max)
        return refuse(c, "one word too many:", c->args[max]);
    if (c->nargs >= min)
        return true;
    tci_buf usage;
    tci_buf_init(&usage, TCI_BUF_MAX);
    cli_put_usage(&usage, c->command);
    (void)tc_err_set(&c->err, TC_E_INVALID, "usage: %.*s", (int)usage.len, usage.ptr);
    (void)tc_err_hint(&c->err, "see 'telechir %s --help'", c->command->name);
    tci_buf_done(&usage);
    return false;
}
