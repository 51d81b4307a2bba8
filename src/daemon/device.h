/* SPDX-License-Identifier: Apache-2.0
 *
 * The running daemon: its identity, its fixed description, its sessions, and the counters that are
 * shared by all of them. Loop thread; config, id, generation and descriptor never change, so
 * workers may read them. */
#ifndef TCI_DAEMON_DEVICE_H
#define TCI_DAEMON_DEVICE_H

#include "daemon/carrier/carrier.h"
#include "daemon/config/config.h"
#include "daemon/runtime_dir.h"
#include "daemon/session.h"
#include "ops/spool.h"
#include "ops/stage_journal.h"
#include "plat/mounts.h"

/* Handles are <prefix>-<base36(generation)>-<n>, n from 1 per prefix and device. */
typedef enum tci_handle_kind {
    TCI_HANDLE_SESSION,
    TCI_HANDLE_PROCESS,
    TCI_HANDLE_OUTPUT,
    TCI_HANDLE_READER,
    TCI_HANDLE_WRITER,
    TCI_HANDLE_KINDS
} tci_handle_kind;

struct tci_metrics;
struct tci_totals;
struct tci_command_host;

typedef struct tci_device {
    tci_loop *loop;
    const tci_config *config;
    tci_runtime_dir *runtime;
    tc_str id;
    uint64_t generation;
    char generation_text[32];
    tci_eip_device_descriptor descriptor;
    tci_eip_session_descriptor session_descriptor; /* all but id, cwd and session_id */
    tci_arena arena;                               /* what the descriptors point to */

    tci_map sessions;
    tci_list session_list; /* least recently opened first */
    tci_list carriers;
    tci_list requests; /* of device methods, in flight */
    size_t nsessions;
    size_t nrequests; /* share of the device's ordinary lane in use */
    size_t ninflight; /* requests not yet answered */
    size_t nrecords, nprocesses, nprocess_records, ntransfers, ntransfer_records;
    tci_spool_quota spool;
    uint64_t staged_bytes, staged_objects;
    uint64_t inbound_bytes;  /* of uploads, received and not yet written */
    uint64_t evidence_bytes; /* of all ledgers */
    uint64_t outputs_reclaimed, output_cleanup_failures, staging_cleanup_failures;
    uint64_t next_handle[TCI_HANDLE_KINDS];
    uint64_t next_evidence;
    uint64_t map_seed;
    tci_mounts mounts;
    tci_list free_reqs;
    size_t nfree_reqs;
    tci_buf scratch;                   /* answers are built here */
    struct tci_metrics *metrics;       /* NULL: monitoring is off */
    struct tci_totals *totals;         /* the line of totals on standard error */
    struct tci_command_host *commands; /* see command.h; made soon after the start */
    struct tci_ptree_host
        *trees; /* what holds the trees of all commands of this process, when others
                                    than this device start some, too: set before the loop runs, must
                                    outlive the device. NULL: the device has its own */
    tci_timer warm_up;
    tci_stage_journal *journal; /* of staged files; made with the first session */
    bool is_draining;
} tci_device;

int tci_device_new(tci_loop *loop, const tci_config *config, tci_device **ret,
                   tc_err *err) TC_CHECKED;
/* All sessions and carriers must be gone. */
void tci_device_free(tci_device *d);

size_t tci_device_handle(tci_device *d, tci_handle_kind kind, char out[TCI_HANDLE_TEXT_MAX]);
/* Is the method offered by this device? */
bool tci_device_offers(const tci_device *d, const tci_method *m);

/* Close all sessions; done is called once, on the loop, with whether it was clean in ten seconds. */
typedef struct tci_drain {
    void (*done)(struct tci_drain *drain, bool is_clean);
    size_t nwaiting;
    bool is_clean;
} tci_drain;
void tci_device_drain(tci_device *d, tci_drain *drain);

#endif
