/* SPDX-License-Identifier: Apache-2.0 */
#include "faulty_store.h"

#include "base/buf.h"
#include "store/store_int.h"

#include <string.h>

typedef struct front {
    tci_store base;
    tci_store *inner;
    faulty *what;
} front;

static front *of(tci_store *store)
{
    return (front *)(void *)store;
}

static int io(tc_err *err)
{
    return tc_err_set(err, TC_E_IO, "the disk is gone");
}

static int close_front(tci_store *store, tc_err *err)
{
    front *f = of(store);
    f->what->ncloses++;
    int rc = tci_store_close(f->inner, err);
    tci_free(f);
    return rc;
}

static void note_write(tci_buf *b, const tci_write *w)
{
    switch (w->type) {
    case TCI_WRITE_CONVERSATION:
        tci_buf_printf(b, "conversation %.*s\n", TC_STR_ARG(w->u.conversation.json));
        return;
    case TCI_WRITE_ENTRY:
        tci_buf_printf(b, "entry %.*s\n", TC_STR_ARG(w->u.entry.json));
        return;
    case TCI_WRITE_TASK:
        tci_buf_printf(b, "task %.*s\n", TC_STR_ARG(w->u.task.json));
        return;
    case TCI_WRITE_SUBMISSION:
        tci_buf_printf(b, "submission %.*s\n", TC_STR_ARG(w->u.submission.json));
        return;
    case TCI_WRITE_DOC_CREATE:
        tci_buf_printf(b, "create %.*s %.*s\n", TC_STR_ARG(w->u.document.kind),
                       TC_STR_ARG(w->content.json));
        return;
    case TCI_WRITE_DOC_COPY:
        tci_buf_printf(b, "copy %.*s\n", TC_STR_ARG(w->u.document.kind));
        return;
    case TCI_WRITE_DOC_CHANGE:
        tci_buf_printf(b, "%s v%u %.*s\n", w->content.is_delta ? "delta" : "base",
                       (unsigned)w->content.version, TC_STR_ARG(w->content.json));
        return;
    case TCI_WRITE_DOC_RETIRE:
        tci_buf_printf(b, "retire %.*s\n", TC_STR_ARG(w->u.document.kind));
        return;
    }
}

static int commit_front(tci_store *store, const tci_write *writes, size_t nwrites,
                        tci_commit_how how, uint64_t *ret_seq, tc_err *err)
{
    front *f = of(store);
    if (f->what->fail_commit)
        return io(err);
    int rc = tci_store_commit(f->inner, writes, nwrites, how, ret_seq, err);
    if (rc < 0)
        return rc;
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    for (size_t i = 0; i < nwrites; i++)
        note_write(&b, &writes[i]);
    tci_buf_append_byte(&b, 0);
    memcpy(f->what->last, b.ptr, b.len < sizeof f->what->last ? b.len : sizeof f->what->last);
    f->what->last[sizeof f->what->last - 1] = 0;
    tci_buf_done(&b);
    f->what->ncommits++;
    f->what->how = how;
    return 0;
}

static int mint_front(tci_store *store, uint64_t *ret_id, tc_err *err)
{
    front *f = of(store);
    return f->what->fail_mint ? io(err) : tci_store_mint(f->inner, ret_id, err);
}

#define READ(f, call) ((f)->what->fail_read ? io(err) : (call))

static int conversation(tci_store *store, uint64_t id, tci_arena *a, tci_conversation *ret,
                        tc_err *err)
{
    front *f = of(store);
    return READ(f, tci_store_conversation(f->inner, id, a, ret, err));
}

static int task(tci_store *store, uint64_t id, tci_arena *a, tci_task *ret, tc_err *err)
{
    front *f = of(store);
    return READ(f, tci_store_task(f->inner, id, a, ret, err));
}

static int submission(tci_store *store, uint64_t id, tci_arena *a, tci_submission *ret, tc_err *err)
{
    front *f = of(store);
    return READ(f, tci_store_submission(f->inner, id, a, ret, err));
}

static int entry(tci_store *store, uint64_t conversation_id, uint64_t id, tci_arena *a,
                 tci_entry *ret, uint64_t *ret_seq, tc_err *err)
{
    front *f = of(store);
    return READ(f, tci_store_entry(f->inner, conversation_id, id, a, ret, ret_seq, err));
}

static int head_marker(tci_store *store, uint64_t conversation_id, uint64_t cutoff, tci_arena *a,
                       tci_entry *ret, tc_err *err)
{
    front *f = of(store);
    return READ(f, tci_store_head_marker(f->inner, conversation_id, cutoff, a, ret, err));
}

static int by_request(tci_store *store, uint64_t conversation_id, tc_str request_id, tci_arena *a,
                      tci_submission *ret, tc_err *err)
{
    front *f = of(store);
    return READ(
        f, tci_store_submission_by_request(f->inner, conversation_id, request_id, a, ret, err));
}

static int find_document(tci_store *store, const tci_address *address, uint64_t at, tci_arena *a,
                         tci_document *ret, tc_err *err)
{
    front *f = of(store);
    return READ(f, tci_store_find_document(f->inner, address, at, a, ret, err));
}

static int document(tci_store *store, uint64_t id, uint64_t at, tci_arena *a,
                    tci_document_state *ret, tci_tree *ret_value, tc_err *err)
{
    front *f = of(store);
    return READ(f, tci_store_document(f->inner, id, at, a, ret, ret_value, err));
}

static int scan_conversations(tci_store *store, uint64_t owner_conversation_id,
                              uint64_t owner_task_id, const tci_page *page, tci_arena *a,
                              tci_conversation **ret, size_t *ret_count, tci_cursor *ret_next,
                              tc_err *err)
{
    front *f = of(store);
    return READ(f, tci_store_scan_conversations(f->inner, owner_conversation_id, owner_task_id,
                                                page, a, ret, ret_count, ret_next, err));
}

static int scan_entries(tci_store *store, uint64_t conversation_id, uint64_t min, uint64_t max,
                        const tci_page *page, tci_arena *a, tci_arena *texts, tci_entry **ret,
                        size_t *ret_count, tci_cursor *ret_next, tc_err *err)
{
    front *f = of(store);
    return READ(f, tci_store_read_entries(f->inner, conversation_id, min, max, page, a, texts, ret,
                                          ret_count, ret_next, err));
}

static int scan_tasks(tci_store *store, const tci_task_query *query, const tci_page *page,
                      tci_arena *a, tci_task **ret, size_t *ret_count, tci_cursor *ret_next,
                      tc_err *err)
{
    front *f = of(store);
    return READ(f, tci_store_scan_tasks(f->inner, query, page, a, ret, ret_count, ret_next, err));
}

static int scan_submissions(tci_store *store, uint64_t conversation_id, int status,
                            const tci_page *page, tci_arena *a, tci_submission **ret,
                            size_t *ret_count, tci_cursor *ret_next, tc_err *err)
{
    front *f = of(store);
    return READ(f, tci_store_scan_submissions(f->inner, conversation_id, status, page, a, ret,
                                              ret_count, ret_next, err));
}

static int scan_documents(tci_store *store, int scope, uint64_t owner_id, tc_str kind, uint64_t at,
                          const tci_page *page, tci_arena *a, tci_document **ret, size_t *ret_count,
                          tci_cursor *ret_next, tc_err *err)
{
    front *f = of(store);
    return READ(f, tci_store_scan_documents(f->inner, scope, owner_id, kind, at, page, a, ret,
                                            ret_count, ret_next, err));
}

static const tci_store_ops front_ops = {
    .close = close_front,
    .commit = commit_front,
    .mint = mint_front,
    .conversation = conversation,
    .task = task,
    .submission = submission,
    .entry = entry,
    .head_marker = head_marker,
    .submission_by_request = by_request,
    .find_document = find_document,
    .document = document,
    .scan_conversations = scan_conversations,
    .scan_entries = scan_entries,
    .scan_tasks = scan_tasks,
    .scan_submissions = scan_submissions,
    .scan_documents = scan_documents,
};

tci_store *faulty_store(tci_store *inner, faulty *what)
{
    front *f = tci_new(front);
    f->base.ops = &front_ops;
    f->inner = inner;
    f->what = what;
    return &f->base;
}
