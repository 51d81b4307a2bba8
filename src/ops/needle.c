/* SPDX-License-Identifier: Apache-2.0
 *
 * Text in text: the library's byte search runs for the byte of the needle that is rarest in prose
 * and code; only where it stops is the needle compared. Leaves to others: what a line is. One
 * thread per object. Invariant: next_rare and next_other are the first occurrences at or behind the
 * last start. */
#include "ops/needle_int.h"

/* How often a byte shows up in text and source, roughly: 0 rare, 255 everywhere. */
static unsigned commonness(unsigned char c)
{
    static const char by_rank[] = " etaoinsrlhdcupmfgy\nbw_v.,k0(1)2\"-x;/TAS=3CEIRN4jq5'PDLMO>z:89"
                                  "<67BFU*HG{}W#&V+K[]$|Y!%@?XJ\\QZ`^~";
    if (c >= 0x80)
        return 60;
    const char *at = c != 0 ? strchr(by_rank, c) : NULL;
    return at != NULL ? 255 - 2 * (unsigned)(at - by_rank) : c == '\t' ? 120 : 1;
}

static char other_case(char c)
{
    bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return is_letter ? (char)(c ^ 0x20) : c;
}

void tci_needle_init(tci_needle *n, tc_str text, bool is_caseless)
{
    *n = (tci_needle){.text = text, .is_caseless = is_caseless};
    unsigned least = 1024;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        unsigned cost = commonness(c);
        if (is_caseless && other_case((char)c) != (char)c)
            cost += commonness((unsigned char)other_case((char)c));
        if (cost < least) {
            least = cost;
            n->rare_at = i;
        }
    }
    n->rare = text.ptr[n->rare_at];
    n->other = is_caseless ? other_case(n->rare) : n->rare;
}

void tci_needle_start(tci_needle *n, tc_str in)
{
    n->in = in;
    n->next_rare = n->next_other = 0;
    n->nmisses = 0;
    if (in.len > 0) {
        n->next_rare = tci_str_find_byte(in, n->rare);
        n->next_other = n->other != n->rare ? tci_str_find_byte(in, n->other) : in.len;
    }
}

static size_t next_byte(tc_str in, char c, size_t from)
{
    if (from >= in.len)
        return in.len;
    return from + tci_str_find_byte(tci_str_of(in.ptr + from, in.len - from), c);
}

static bool is_here(const tci_needle *n, size_t at)
{
    if (at > n->in.len || n->in.len - at < n->text.len)
        return false;
    tc_str here = tci_str_of(n->in.ptr + at, n->text.len);
    return n->is_caseless ? tci_str_eq_nocase(here, n->text) : tci_str_eq(here, n->text);
}

enum { MISSES_MAX = 64, BYTES_PER_MISS = 32 };

size_t tci_needle_find(tci_needle *n, size_t from)
{
    size_t least = from + n->rare_at;
    for (;;) {
        if (n->next_rare < least)
            n->next_rare = next_byte(n->in, n->rare, least);
        if (n->other != n->rare && n->next_other < least)
            n->next_other = next_byte(n->in, n->other, least);
        size_t hit = n->next_rare;
        if (n->other != n->rare && n->next_other < hit)
            hit = n->next_other;
        if (hit >= n->in.len)
            return n->in.len;
        if (is_here(n, hit - n->rare_at))
            return hit - n->rare_at;
        least = hit + 1;
        n->nmisses++;
        /* The byte is not rare here at all: let the library look for the whole text. */
        if (!n->is_caseless && n->nmisses > MISSES_MAX && n->nmisses > hit / BYTES_PER_MISS) {
            size_t at = least - n->rare_at;
            size_t found = tci_str_find(tci_str_of(n->in.ptr + at, n->in.len - at), n->text);
            n->next_rare = at + found + n->rare_at;
            return at + found;
        }
    }
}
