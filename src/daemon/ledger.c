/* SPDX-License-Identifier: Apache-2.0
 *
 * See ledger.h. Leaves to dispatch.c what a met record means.
 *
 * Invariant: a record is in records from admit until drop, evict or expire; it is in lru exactly while
 * it is finished; nrecords of the ledger and the device count the same records. */
#include "daemon/ledger.h"

#include "daemon/device.h"
#include "plat/file.h"

#include <stdio.h>

#define EVIDENCE_BYTES_MAX (UINT64_C(64) << 20)         /* of one session */
#define EVIDENCE_DEVICE_BYTES_MAX (UINT64_C(256) << 20) /* of all together */
enum { EVIDENCE_IN_MEMORY_MAX = 16 * 1024, EVIDENCE_NAME_MAX = 48 };

void tci_ledger_init(tci_ledger *l, tci_device *device)
{
    memset(l, 0, sizeof *l);
    l->device = device;
    tci_map_init(&l->records, device->map_seed);
    tci_list_init(&l->lru);
    tci_list_init(&l->kept);
}

/* ---- large evidence on disk ---- */

static tc_str evidence_name(uint64_t number, char out[EVIDENCE_NAME_MAX])
{
    int n = snprintf(out, EVIDENCE_NAME_MAX, "evidence-%llu", (unsigned long long)number);
    return tci_str_of(out, (size_t)n);
}

static int open_spool(const tci_device *d, tci_file *ret, tc_err *err)
{
    return tci_file_open(tci_runtime_dir_spool(d->runtime), TCI_OPEN_PATH | TCI_OPEN_DIRECTORY, 0,
                         ret, err);
}

static int store_file(tci_device *d, tc_str text, uint64_t *ret_number, tc_err *err)
{
    char name[EVIDENCE_NAME_MAX];
    TCI_FILE_AUTO dir = TCI_FILE_NONE;
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    uint64_t number = ++d->next_evidence;
    tc_str path = evidence_name(number, name);
    if (open_spool(d, &dir, err) < 0 ||
        tci_file_openat(dir, path, TCI_OPEN_WRITE | TCI_OPEN_CREATE | TCI_OPEN_EXCL, 0600, &f,
                        err) < 0)
        return err->code;
    if (tci_file_write_all(f, text.ptr, text.len, err) < 0) {
        tc_err unlink_err;
        if (tci_file_unlink(dir, path, &unlink_err) < 0)
            d->output_cleanup_failures++;
        return err->code;
    }
    *ret_number = number;
    return 0;
}

static void remove_file(tci_device *d, uint64_t number)
{
    char name[EVIDENCE_NAME_MAX];
    tc_err err;
    TCI_FILE_AUTO dir = TCI_FILE_NONE;
    if (open_spool(d, &dir, &err) < 0 ||
        tci_file_unlink(dir, evidence_name(number, name), &err) < 0)
        d->output_cleanup_failures++;
}

/* ---- records ---- */

static void forget_evidence(tci_ledger *l, tci_record *rec)
{
    if (!tci_link_is_in(&rec->kept))
        return;
    tci_link_remove(&rec->kept);
    l->evidence_bytes -= rec->evidence_len;
    l->device->evidence_bytes -= rec->evidence_len;
    if (rec->evidence_file != 0)
        remove_file(l->device, rec->evidence_file);
    tci_free(rec->evidence);
    rec->evidence = NULL;
    rec->evidence_file = 0;
}

/* Make room in the budget; false when this ledger cannot. */
static bool find_budget(tci_ledger *l, uint64_t nbytes)
{
    while (l->evidence_bytes + nbytes > EVIDENCE_BYTES_MAX ||
           l->device->evidence_bytes + nbytes > EVIDENCE_DEVICE_BYTES_MAX) {
        tci_link *k = tci_list_first(&l->kept);
        if (k == NULL)
            return false;
        forget_evidence(l, TCI_CONTAINER(k, tci_record, kept));
    }
    return true;
}

static void keep_evidence(tci_ledger *l, tci_record *rec, tc_str text)
{
    tc_err err;
    if (text.ptr == NULL || !find_budget(l, text.len))
        return; /* a repetition will be told that there is none */
    if (text.len > EVIDENCE_IN_MEMORY_MAX) {
        if (store_file(l->device, text, &rec->evidence_file, &err) < 0)
            return;
    } else {
        rec->evidence = tci_mem_alloc(text.len);
        if (rec->evidence == NULL)
            return;
        memcpy(rec->evidence, text.ptr, text.len);
    }
    rec->evidence_len = text.len;
    tci_list_push_back(&l->kept, &rec->kept);
    l->evidence_bytes += text.len;
    l->device->evidence_bytes += text.len;
}

static void record_free(tci_ledger *l, tci_record *rec)
{
    (void)tci_map_remove(&l->records, rec->operation_id);
    tci_link_remove(&rec->lru);
    l->nrecords--;
    if (rec->is_reserved)
        l->reserved_in_use = false;
    else
        l->device->nrecords--;
    forget_evidence(l, rec);
    tci_free(rec);
}

void tci_ledger_done(tci_ledger *l)
{
    size_t at = 0;
    for (tci_record *rec; (rec = tci_map_next(&l->records, &at)) != NULL;)
        record_free(l, rec);
    tci_map_done(&l->records);
}

tci_record *tci_ledger_find(const tci_ledger *l, tc_str operation_id)
{
    return tci_map_get(&l->records, operation_id);
}

/* One session's old evidence must not keep the others from working. */
static bool evict_elsewhere(tci_device *d)
{
    TCI_LIST_EACH (&d->session_list, k) {
        if (tci_ledger_evict(&TCI_CONTAINER(k, tci_session, link)->ledger))
            return true;
    }
    return false;
}

/* A place for one more record: free, made free, or the slot kept for reconciling. */
static bool find_room(tci_ledger *l, const tci_method *m, bool *ret_reserved)
{
    const tci_limits *limits = &l->device->config->limits;
    *ret_reserved = false;
    size_t ordinary = l->nrecords - (l->reserved_in_use ? 1 : 0);
    while (ordinary >= limits->max_operation_records ||
           l->device->nrecords >= limits->max_device_operation_records) {
        bool is_full = ordinary >= limits->max_operation_records;
        if (!tci_ledger_evict(l) && (is_full || !evict_elsewhere(l->device))) {
            *ret_reserved = m->is_reconciling && !l->reserved_in_use;
            return *ret_reserved;
        }
        ordinary = l->nrecords - (l->reserved_in_use ? 1 : 0);
    }
    return true;
}

int tci_ledger_admit(tci_ledger *l, tci_req *r, tci_record **ret, tc_err *err)
{
    bool is_reserved;
    if (!find_room(l, r->method, &is_reserved))
        return tc_err_set(err, TC_E_BUSY, "the operation ledger is full");
    tci_record *rec = tci_mem_alloc(sizeof *rec + r->operation_id.len);
    if (rec == NULL)
        return tci_err_no_memory(err);
    memcpy(rec + 1, r->operation_id.ptr, r->operation_id.len);
    rec->operation_id = tci_str_of(rec + 1, r->operation_id.len);
    rec->method = r->method;
    rec->req = r;
    rec->is_reserved = is_reserved;
    if (tci_map_put(&l->records, rec->operation_id, rec, err) < 0) {
        tci_free(rec);
        return err->code;
    }
    l->nrecords++;
    if (is_reserved)
        l->reserved_in_use = true;
    else
        l->device->nrecords++;
    *ret = rec;
    return 0;
}

void tci_ledger_settle(tci_ledger *l, tci_record *rec, bool is_error, tc_str body,
                       tci_eip_receipt_stage stage, tci_eip_receipt_outcome outcome,
                       tci_instant observed_at)
{
    rec->req = NULL;
    rec->is_error = is_error;
    rec->stage = stage;
    rec->outcome = outcome;
    rec->observed_at = observed_at;
    keep_evidence(l, rec, body);
    tci_list_push_back(&l->lru, &rec->lru);
    rec->touched_ms = tci_loop_now_ms(l->device->loop);
}

void tci_ledger_drop(tci_ledger *l, tci_record *rec)
{
    record_free(l, rec);
}

void tci_ledger_touch(tci_ledger *l, tci_record *rec)
{
    if (rec->req != NULL)
        return;
    tci_link_remove(&rec->lru);
    tci_list_push_back(&l->lru, &rec->lru);
    if (tci_link_is_in(&rec->kept)) {
        tci_link_remove(&rec->kept);
        tci_list_push_back(&l->kept, &rec->kept);
    }
    rec->touched_ms = tci_loop_now_ms(l->device->loop);
}

int tci_ledger_evidence(const tci_ledger *l, const tci_record *rec, tci_buf *out, tc_err *err)
{
    char name[EVIDENCE_NAME_MAX];
    char *text = NULL;
    size_t len = 0;
    TCI_FILE_AUTO dir = TCI_FILE_NONE;
    if (rec->evidence != NULL) {
        tci_buf_append(out, rec->evidence, rec->evidence_len);
        return tci_buf_error(out, err);
    }
    if (rec->evidence_file == 0)
        return tc_err_set(err, TC_E_CONFLICT, "no evidence was stored");
    if (open_spool(l->device, &dir, err) < 0 ||
        tci_file_read_whole(dir, evidence_name(rec->evidence_file, name), rec->evidence_len, &text,
                            &len, err) < 0)
        return err->code;
    tci_buf_append(out, text, len);
    tci_free(text);
    return tci_buf_error(out, err);
}

bool tci_ledger_evict(tci_ledger *l)
{
    TCI_LIST_EACH (&l->lru, k) {
        tci_record *rec = TCI_CONTAINER(k, tci_record, lru);
        if (rec->npins == 0) {
            record_free(l, rec);
            return true;
        }
        /* A pinned record is not the oldest that counts: let the next search start behind it. */
        tci_link_remove(&rec->lru);
    }
    return false;
}

int64_t tci_ledger_expire(tci_ledger *l, int64_t before_ms)
{
    for (tci_link *k; (k = tci_list_first(&l->lru)) != NULL;) {
        tci_record *rec = TCI_CONTAINER(k, tci_record, lru);
        if (rec->touched_ms >= before_ms)
            return rec->touched_ms;
        if (rec->npins > 0)
            tci_link_remove(&rec->lru); /* comes back when it is unpinned */
        else
            record_free(l, rec);
    }
    return -1;
}

void tci_record_pin(tci_record *rec)
{
    rec->npins++;
}

void tci_record_unpin(tci_ledger *l, tci_record *rec)
{
    TC_ASSERT(rec->npins > 0);
    if (--rec->npins == 0 && rec->req == NULL && !tci_link_is_in(&rec->lru)) {
        rec->touched_ms = tci_loop_now_ms(l->device->loop);
        tci_list_push_back(&l->lru, &rec->lru);
    }
}
