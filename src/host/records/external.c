/* SPDX-License-Identifier: Apache-2.0
 *
 * Targets that the Host connects to itself, as rows. Leaves connecting to outside.c, and who may decide to others.
 * Any thread, one at a time. Invariant: of a credential there is only the path of its file. */
#include "host/records/external.h"

#define COLUMNS                                                                             \
    "SELECT id,device_id,name,url,credential_file,ca_file,is_plaintext_allowed,created_ms," \
    "seen_ms FROM externals "

enum {
    AT_ID,
    AT_DEVICE_ID,
    AT_NAME,
    AT_URL,
    AT_CREDENTIAL_FILE,
    AT_CA_FILE,
    AT_PLAINTEXT,
    AT_CREATED,
    AT_SEEN
};

static int read_row(const tci_query *q, tci_arena *a, tci_host_device *ret, tc_err *err)
{
    tci_host_device d = {
        .kind = TCI_HOST_EXTERNAL,
        .state = TCI_HOST_APPROVED, /* by whoever added it */
        .is_plaintext_allowed = tci_query_int(q, AT_PLAINTEXT) != 0,
        .created_ms = tci_query_int(q, AT_CREATED),
        .approved_ms = tci_query_int(q, AT_CREATED),
        .seen_ms = tci_query_int(q, AT_SEEN),
    };
    const tci_query_text texts[] = {{AT_ID, &d.id},
                                    {AT_DEVICE_ID, &d.device_id},
                                    {AT_NAME, &d.name},
                                    {AT_URL, &d.url},
                                    {AT_CREDENTIAL_FILE, &d.credential_file},
                                    {AT_CA_FILE, &d.ca_file}};
    if (tci_query_dup(q, texts, TCI_ARRAY_LEN(texts), a, err) < 0)
        return err->code;
    *ret = d;
    return 0;
}

/* ---- looking ---- */

int tci_external_find(tci_host_db *db, tc_str named, tci_arena *a, tci_host_device *ret,
                      tc_err *err)
{
    tci_query q;
    int rc = tci_query_open(&q, db, COLUMNS "WHERE id=?1 OR name=?1 ORDER BY id<>?1 LIMIT 1", err);
    if (rc < 0)
        return rc;
    tci_query_bind_str(&q, 1, named);
    rc = tci_query_step(&q, err);
    if (rc > 0 && read_row(&q, a, ret, err) < 0)
        rc = err->code;
    tci_query_close(&q);
    return rc;
}

static int add_all(tci_query *q, tci_arena *a, tci_host_device **list, size_t *count, tc_err *err)
{
    enum { STEP = 16 };
    int rc;
    size_t room = *count;
    while ((rc = tci_query_step(q, err)) > 0) {
        if (*count == room) {
            tci_host_device *more =
                tci_arena_grow(a, *list, room * sizeof *more, (room + STEP) * sizeof *more);
            if (more == NULL)
                return tci_arena_error(a, err);
            *list = more;
            room += STEP;
        }
        if (read_row(q, a, &(*list)[*count], err) < 0)
            return err->code;
        *count += 1;
    }
    return rc;
}

int tci_external_list(tci_host_db *db, tci_arena *a, tci_host_device **list, size_t *count,
                      tc_err *err)
{
    tci_query q;
    int rc = tci_query_open(&q, db, COLUMNS "ORDER BY name,id", err);
    if (rc < 0)
        return rc;
    rc = add_all(&q, a, list, count, err);
    tci_query_close(&q);
    return rc;
}

/* ---- changing ---- */

/* One number, by a statement with one text. */
static int count(tci_host_db *db, const char *sql, tc_str text, int64_t *ret, tc_err *err)
{
    tci_query q;
    int rc = tci_query_open(&q, db, sql, err);
    if (rc < 0)
        return rc;
    tci_query_bind_str(&q, 1, text);
    rc = tci_query_step(&q, err);
    if (rc > 0)
        *ret = tci_query_int(&q, 0);
    tci_query_close(&q);
    return rc < 0 ? rc : 0;
}

static int check_place(tci_host_db *db, tc_str name, tc_err *err)
{
    int64_t ntaken = 0, nthere = 0;
    int rc = count(db,
                   "SELECT (SELECT count(*) FROM externals WHERE name=?1 OR id=?1)"
                   "+(SELECT count(*) FROM devices WHERE state='approved' AND name=?1 OR id=?1)",
                   name, &ntaken, err);
    if (rc == 0)
        rc = count(db, "SELECT count(*) FROM externals WHERE name<>?1", name, &nthere, err);
    if (rc < 0)
        return rc;
    if (ntaken > 0)
        return tc_err_set(err, TC_E_CONFLICT, "there is a device '%.*s' already", TC_STR_ARG(name));
    if (nthere >= TCI_EXTERNALS_MAX)
        return tc_err_set(err, TC_E_QUOTA, "there are %d targets already, which is the most",
                          (int)TCI_EXTERNALS_MAX);
    return 0;
}

int tci_external_add(tci_host_db *db, int64_t now_ms, const tci_external_ask *ask, tci_arena *a,
                     tci_host_device *ret, tc_err *err)
{
    char id[TCI_RESOURCE_ID_LEN];
    tci_query q;
    memcpy(id, "ext-", 4);
    tci_random_hex(id + 4, sizeof id - 4);
    int rc = check_place(db, ask->name, err);
    if (rc == 0)
        rc = tci_query_open(&q, db,
                            "INSERT INTO externals(id,device_id,name,url,credential_file,ca_file,"
                            "is_plaintext_allowed,created_ms) VALUES(?1,?2,?3,?4,?5,?6,?7,?8)",
                            err);
    if (rc < 0)
        return rc;
    tci_query_bind_str(&q, 1, tci_str_of(id, sizeof id));
    tci_query_bind_str(&q, 2, ask->device_id);
    tci_query_bind_str(&q, 3, ask->name);
    tci_query_bind_str(&q, 4, ask->url);
    tci_query_bind_str(&q, 5, ask->credential_file);
    tci_query_bind_str(&q, 6, ask->ca_file);
    tci_query_bind_int(&q, 7, ask->is_plaintext_allowed ? 1 : 0);
    tci_query_bind_int(&q, 8, now_ms);
    rc = tci_query_run(&q, NULL, err);
    if (rc == 0)
        rc = tci_external_find(db, tci_str_of(id, sizeof id), a, ret, err);
    return rc < 0 ? rc : 0;
}

int tci_external_remove(tci_host_db *db, tc_str id, tc_err *err)
{
    tci_query q;
    int rc = tci_query_open(&q, db, "DELETE FROM externals WHERE id=?1", err);
    if (rc < 0)
        return rc;
    tci_query_bind_str(&q, 1, id);
    return tci_query_run(&q, NULL, err);
}

int tci_external_seen(tci_host_db *db, tc_str id, int64_t at_ms, tc_err *err)
{
    tci_query q;
    int rc = tci_query_open(&q, db, "UPDATE externals SET seen_ms=?2 WHERE id=?1", err);
    if (rc < 0)
        return rc;
    tci_query_bind_str(&q, 1, id);
    tci_query_bind_time(&q, 2, at_ms);
    return tci_query_run(&q, NULL, err);
}
