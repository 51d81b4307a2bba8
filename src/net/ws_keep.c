/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of messages that are used again. Leaves when to whoever is done with a message, and to ws.c. Loop
 * thread. Invariant: a kept block holds at least its note, and kept_bytes counts them all. */
#include "net/ws_int.h"

/* At the beginning of a block that is kept. */
typedef struct tci_ws_kept {
    struct tci_ws_kept *next;
    size_t size;
} tci_ws_kept;

void tci_ws_keep(tci_ws *ws, char *own, size_t size)
{
    tci_loop_assert(ws->loop);
    bool has_room = size >= sizeof(tci_ws_kept) && ws->state == TCI_WS_OPEN &&
                    ws->kept_bytes + size <= ws->options.max_kept_bytes;
    if (!has_room) {
        tci_free(own);
        return;
    }
    tci_ws_kept *k = (tci_ws_kept *)(void *)own;
    *k = (tci_ws_kept){ws->kept, size};
    ws->kept = k;
    ws->kept_bytes += size;
}

char *tci_ws_reuse(tci_ws *ws, size_t size, size_t *ret_size)
{
    for (tci_ws_kept **at = &ws->kept; *at != NULL; at = &(*at)->next) {
        tci_ws_kept *k = *at;
        if (k->size < size || k->size / 2 > size)
            continue;
        *at = k->next;
        ws->kept_bytes -= k->size;
        *ret_size = k->size;
        return (char *)k;
    }
    return NULL;
}

void tci_ws_forget_kept(tci_ws *ws)
{
    while (ws->kept != NULL) {
        tci_ws_kept *k = ws->kept;
        ws->kept = k->next;
        tci_free(k);
    }
    ws->kept_bytes = 0;
}
