/* SPDX-License-Identifier: Apache-2.0
 *
 * The frames of the recorded conversations, as bytes of the stdio carrier. */
#ifndef TEST_FAULT_RECORDED_H
#define TEST_FAULT_RECORDED_H

#include "rig.h"

/* What the recordings call the device, made true of a device that has just been started. */
#define RECORDED_FOLDER "/work/p"
void recorded_identity(tci_device *d);

typedef struct recorded {
    char *bytes;
    size_t len, head_len; /* head_len: of the Content-Length header */
    bool to_daemon, is_data, is_initialize;
} recorded;

typedef struct recording {
    recorded *frames;
    size_t nframes;
} recording;

/* folder replaces the folder of the recordings. */
void recording_load(recording *all, const char *folder);
void recording_free(recording *all);

#endif
