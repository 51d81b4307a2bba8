/* SPDX-License-Identifier: Apache-2.0
 *
 * Okapi BM25 with k1 1.2 and b 0.75 over ASCII words. Any thread. */
#include "harness/calls/search.h"

#include "base/num.h"
#include <math.h>

static const double K1 = 1.2, B = 0.75;

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Is there a border between two words before at? "fooBar" at B; "HTTPServer" at S. */
static bool is_camel_border(tc_str s, size_t at)
{
    char before = s.ptr[at - 1], c = s.ptr[at];
    if ((is_lower(before) || is_digit(before)) && is_upper(c))
        return true;
    return is_upper(before) && is_upper(c) && at + 1 < s.len && is_lower(s.ptr[at + 1]);
}

static bool is_stop_word(tc_str w)
{
    static const tc_str stops[] = {
        {"a", 1},  {"an", 2},  {"and", 3},  {"are", 3}, {"as", 2},   {"at", 2}, {"be", 2},
        {"by", 2}, {"for", 3}, {"from", 4}, {"in", 2},  {"is", 2},   {"it", 2}, {"of", 2},
        {"on", 2}, {"or", 2},  {"that", 4}, {"the", 3}, {"this", 4}, {"to", 2}, {"with", 4}};
    for (size_t i = 0; i < TCI_ARRAY_LEN(stops); i++)
        if (tci_str_eq(w, stops[i]))
            return true;
    return false;
}

/* The singular, roughly; in place. */
static tc_str singular(char *word, size_t len)
{
    static const tc_str endings[] = {{"ches", 4}, {"shes", 4}, {"sses", 4}, {"xes", 3}, {"zes", 3}};
    tc_str w = tci_str_of(word, len);
    if (len > 4 && tci_str_ends(w, TC_STR("ies"))) {
        word[len - 3] = 'y';
        return tci_str_of(word, len - 2);
    }
    for (size_t i = 0; len > 4 && i < TCI_ARRAY_LEN(endings); i++)
        if (tci_str_ends(w, endings[i]))
            return tci_str_of(word, len - 2);
    if (len > 3 && word[len - 1] == 's' && word[len - 2] != 's')
        return tci_str_of(word, len - 1);
    return w;
}

int tci_words_of(tc_str text, tci_arena *a, tci_words *ret_words, tc_err *err)
{
    char *out = tci_arena_bytes(a, text.len + 1);
    tci_words w = {.items = tci_arena_items(a, tc_str, text.len / 2 + 1)};
    size_t at = 0;
    if (out == NULL || w.items == NULL)
        return tci_arena_error(a, err);
    while (at < text.len) {
        size_t from = at;
        while (at < text.len &&
               (is_upper(text.ptr[at]) || is_lower(text.ptr[at]) || is_digit(text.ptr[at])) &&
               (at == from || !is_camel_border(text, at))) {
            out[at] = is_upper(text.ptr[at]) ? (char)(text.ptr[at] + 32) : text.ptr[at];
            at++;
        }
        if (at > from && !is_stop_word(tci_str_of(out + from, at - from)))
            w.items[w.count++] = singular(out + from, at - from);
        if (at == from)
            at++;
    }
    *ret_words = w;
    return 0;
}

static size_t count_of(const tci_words *w, tc_str word)
{
    size_t n = 0;
    for (size_t i = 0; i < w->count; i++)
        n += tci_str_eq(w->items[i], word);
    return n;
}

static bool is_first(const tci_words *w, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (tci_str_eq(w->items[k], w->items[i]))
            return false;
    return true;
}

/* Add what one word of the query is worth to every text. */
static void add_scores(tc_str word, const tci_words *texts, size_t ntexts, double average,
                       double *scores)
{
    size_t with = 0;
    for (size_t i = 0; i < ntexts; i++)
        with += count_of(&texts[i], word) > 0;
    double idf = log(1 + ((double)(ntexts - with) + 0.5) / ((double)with + 0.5));
    for (size_t i = 0; i < ntexts; i++) {
        double n = (double)count_of(&texts[i], word);
        double norm = K1 * (1 - B + B * (double)texts[i].count / average);
        if (n > 0)
            scores[i] += idf * (n * (K1 + 1) / (n + norm));
    }
}

int tci_search_rank(tc_str query, const tc_str *texts, size_t ntexts, size_t limit, tci_arena *a,
                    size_t **ret_indexes, size_t *ret_count, tc_err *err)
{
    tci_words asked, *words = tci_arena_items(a, tci_words, ntexts);
    double *scores = tci_arena_items(a, double, ntexts), total = 0;
    size_t *order = tci_arena_items(a, size_t, ntexts + 1), n = 0;
    if (words == NULL || scores == NULL || order == NULL)
        return tci_arena_error(a, err);
    if (tci_words_of(query, a, &asked, err) < 0)
        return err->code;
    for (size_t i = 0; i < ntexts; i++) {
        if (tci_words_of(texts[i], a, &words[i], err) < 0)
            return err->code;
        total += (double)words[i].count;
    }
    double average = total > 0 ? total / (double)ntexts : 1;
    for (size_t i = 0; i < asked.count; i++)
        if (is_first(&asked, i))
            add_scores(asked.items[i], words, ntexts, average, scores);
    for (size_t i = 0; i < ntexts; i++) {
        size_t at = n;
        if (!(scores[i] > 0))
            continue;
        for (; at > 0 && scores[order[at - 1]] < scores[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
        n++;
    }
    *ret_indexes = order;
    *ret_count = tci_min_size(n, limit);
    return 0;
}
