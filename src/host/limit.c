/* SPDX-License-Identifier: Apache-2.0
 *
 * How often one address may do something. What is limited, and what follows, is for others. One thread at a
 * time. Invariant: nobody gets more than burst, and one more for each each_ms, as long as its address is in the
 * table. */
#include "host/limit.h"

enum { WHOLE = 1000, NETWORK_BYTES = 8 };

void tci_limit_init(tci_limit *l, unsigned burst, int64_t each_ms)
{
    memset(l, 0, sizeof *l);
    l->burst = (int64_t)burst * WHOLE;
    l->each_ms = each_ms;
}

static void key_of(const tci_addr *who, tci_limit_place *ret)
{
    *ret = (tci_limit_place){.family = (uint8_t)(who->family + 1)};
    memcpy(ret->ip, who->ip, who->family == TCI_ADDR_IPV6 ? NETWORK_BYTES : sizeof ret->ip);
}

static tci_limit_place *find(tci_limit *l, const tci_addr *who, int64_t now_ms)
{
    tci_limit_place key, *oldest = &l->places[0];
    key_of(who, &key);
    for (size_t i = 0; i < TCI_LIMIT_PLACES; i++) {
        tci_limit_place *p = &l->places[i];
        if (p->family == key.family && memcmp(p->ip, key.ip, sizeof key.ip) == 0)
            return p;
        if (oldest->family != 0 && (p->family == 0 || p->at_ms < oldest->at_ms))
            oldest = p;
    }
    key.at_ms = now_ms;
    key.level = l->burst;
    *oldest = key;
    return oldest;
}

bool tci_limit_has(tci_limit *l, const tci_addr *who, int64_t now_ms, int64_t *ret_wait_ms)
{
    tci_limit_place *p = find(l, who, now_ms);
    int64_t passed_ms = now_ms > p->at_ms ? now_ms - p->at_ms : 0;
    int64_t full_ms = l->burst / WHOLE * l->each_ms;
    int64_t gained = (passed_ms < full_ms ? passed_ms : full_ms) * WHOLE / l->each_ms;
    p->level += gained;
    if (p->level >= l->burst || passed_ms > full_ms) {
        p->level = p->level < l->burst ? p->level : l->burst;
        p->at_ms = now_ms;
    } else {
        p->at_ms += gained * l->each_ms / WHOLE; /* what is less than a thousandth is not lost */
    }
    if (p->level >= WHOLE)
        return true;
    *ret_wait_ms = ((WHOLE - p->level) * l->each_ms + WHOLE - 1) / WHOLE;
    return false;
}

bool tci_limit_take(tci_limit *l, const tci_addr *who, int64_t now_ms, int64_t *ret_wait_ms)
{
    if (!tci_limit_has(l, who, now_ms, ret_wait_ms))
        return false;
    find(l, who, now_ms)->level -= WHOLE;
    return true;
}
