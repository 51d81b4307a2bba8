/* SPDX-License-Identifier: Apache-2.0
 *
 * Which documents a fork copies: of the conversation that holds the entry it forks at, those that fork
 * as of an entry, as they were when the entry was committed; of the parent, those that fork as they are
 * now. Leaves the copying to the storage, or to whoever looks into a copy before that. The thread that
 * has the line. Invariant: one copy for an address. */
#include "session/session_int.h"

enum { SCAN_PAGE = 256 };

static int stage_copy(tc_tx *tx, const tci_document *source, uint64_t at, uint64_t child,
                      tc_err *err)
{
    tci_document record = {.kind = source->kind,
                           .scope = TCI_SCOPE_CONVERSATION,
                           .owner_id = child,
                           .has_key = source->has_key,
                           .key = source->key,
                           .history = source->history,
                           .fork = source->fork};
    tci_address address = {.kind = source->kind,
                           .scope = TCI_SCOPE_CONVERSATION,
                           .owner_id = child,
                           .has_key = source->has_key,
                           .key = source->key};
    tci_address_key key;
    int rc = tci_address_key_of(&address, &tx->arena, &key, err);
    if (rc < 0)
        return rc;
    if (tci_tx_find_doc(tx, key.text) != NULL)
        return tc_err_set(err, TC_E_CONFLICT, "the fork selects several documents for '%.*s'",
                          TC_STR_ARG(source->kind));
    rc = tci_session_mint(tx->s, &record.id, err);
    if (rc == 0)
        rc = TCI_VEC_ROOM(&tx->arena, &tx->fork_sources, err);
    if (rc < 0)
        return rc;
    tci_document_put(&tx->buf, &record);
    rc = tci_tx_text(tx, &record.json, err);
    if (rc < 0)
        return rc;
    tc_doc *d = tci_tx_add_doc(tx, &address, key.text, NULL, err);
    if (d == NULL)
        return err->code;
    d->target = TCI_TARGET_COPY;
    d->record = record;
    d->record.kind = d->address.kind;
    d->record.key = d->address.key;
    d->source_id = source->id;
    d->source_at = at;
    tx->fork_sources.items[tx->fork_sources.count++] = source->id;
    return 0;
}

/* at 0: as they are now. */
static int stage_copies_of(tc_tx *tx, uint64_t owner, uint64_t at, tci_fork policy, uint64_t child,
                           tc_err *err)
{
    tci_page page = {.order = TCI_ORDER_ASCENDING, .limit = SCAN_PAGE};
    do {
        tci_document *found = NULL;
        size_t n = 0;
        tci_cursor next = {0};
        int rc = tci_store_scan_documents(tx->s->store, TCI_SCOPE_CONVERSATION, owner, TC_STR(""),
                                          at, &page, &tx->arena, &found, &n, &next, err);
        rc = tci_session_after_read(tx->s, rc, err);
        for (size_t i = 0; rc == 0 && i < n; i++)
            if (found[i].fork == policy)
                rc = stage_copy(tx, &found[i], at, child, err);
        if (rc < 0)
            return rc;
        page.cursor = next;
    } while (page.cursor.after != 0);
    return 0;
}

int tci_tx_stage_copies(tc_tx *tx, uint64_t parent, uint64_t at, uint64_t child, tc_err *err)
{
    if (atomic_load(&tx->s->failed))
        return tci_durable_check(tx->s, err);
    tci_entry entry = {0};
    uint64_t seq = 0;
    int rc = tci_store_entry(tx->s->store, parent, at, &tx->arena, &entry, &seq, err);
    rc = tci_session_after_read(tx->s, rc, err);
    if (rc < 0)
        return rc;
    if (entry.id == 0)
        return tc_err_set(err, TC_E_NOT_FOUND, "entry %llu is not visible from conversation %llu",
                          (unsigned long long)at, (unsigned long long)parent);
    rc = stage_copies_of(tx, entry.conversation_id, seq, TCI_FORK_AS_OF, child, err);
    return rc < 0 ? rc : stage_copies_of(tx, parent, 0, TCI_FORK_CURRENT, child, err);
}
