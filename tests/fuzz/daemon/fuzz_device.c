/* SPDX-License-Identifier: Apache-2.0
 *
 * See fuzz_device.h. Methods take any absolute path, and some write: before anything runs, the process gives up
 * its view of the file system for one in which all but its folder is read-only. Without the right to, it
 * does nothing. */
#include "fuzz_device.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* <sys/mount.h> cannot be had together with <linux/mount.h>. */
int mount(const char *source, const char *target, const char *type, unsigned long flags,
          const void *data);

#define RECORDED "/work/p"

static fuzz_device the_one;

static void must(int is_fine, const char *what)
{
    if (is_fine)
        return;
    (void)fprintf(stderr, "fuzz device: %s failed\n", what);
    abort();
}

static int write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    int is_fine = f != NULL && fputs(text, f) >= 0;
    return f != NULL && fclose(f) == 0 && is_fine;
}

/* The right to mount: ours as root, else that of a user namespace in which we are. */
static int may_mount(void)
{
    char map[64];
    (void)snprintf(map, sizeof map, "0 %u 1\n", (unsigned)geteuid());
    if (geteuid() == 0)
        return unshare(CLONE_NEWNS) == 0;
    return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && write_text("/proc/self/uid_map", map);
}

static int set_read_only(const char *path, unsigned flags, int is_on)
{
    struct mount_attr attr = {0};
    if (is_on)
        attr.attr_set = MOUNT_ATTR_RDONLY;
    else
        attr.attr_clr = MOUNT_ATTR_RDONLY;
    return syscall(SYS_mount_setattr, AT_FDCWD, path, flags, &attr, sizeof attr) == 0;
}

/* Everything is read-only but the folder, which is a small disk of its own, and what TC_FUZZ_OUT names: where
 * the fuzzer leaves what it finds. */
static int confine(const char *folder)
{
    const char *out = getenv("TC_FUZZ_OUT");
    return may_mount() && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           (out == NULL || mount(out, out, NULL, MS_BIND, NULL) == 0) &&
           set_read_only("/", AT_RECURSIVE, 1) && (out == NULL || set_read_only(out, 0, 0)) &&
           mount("none", folder, "tmpfs", 0, "size=16m,mode=0755") == 0;
}

/* The small disk goes with the process; the folder it hides is removed by a process that still sees it. */
static void make_folder(fuzz_device *f)
{
    int ends[2];
    char byte;
    (void)snprintf(f->folder, sizeof f->folder, "/tmp/fuzz-daemon-XXXXXX");
    must(mkdtemp(f->folder) != NULL && pipe2(ends, O_CLOEXEC) == 0, "a temporary folder");
    pid_t pid = fork();
    must(pid >= 0, "fork");
    if (pid > 0) {
        (void)close(ends[0]); /* the other end ends with us */
        return;
    }
    (void)close(ends[1]);
    (void)setsid();
    for (int fd = 0; fd < 3; fd++)
        (void)close(fd); /* whoever waits for our output must not wait for this */
    while (read(ends[0], &byte, 1) < 0 && errno == EINTR)
        ;
    _exit(rmdir(f->folder) != 0);
}

static void clean(void)
{
    fuzz_device *f = &the_one;
    fuzz_device_settle(f);
    tci_device_free(f->device);
    tci_loop_free(f->loop);
    tci_arena_done(&f->config.arena);
}

static tc_str in_folder(fuzz_device *f, const char *name)
{
    tc_err err;
    tc_str s = TC_STR("");
    must(tci_arena_printf(&f->config.arena, &s, &err, "%s%s", f->folder, name) == 0, "memory");
    return s;
}

static void configure(fuzz_device *f)
{
    tci_arena_init(&f->config.arena, 0);
#define X(name, value) f->config.limits.name = value;
    TCI_LIMITS(X)
#undef X
    f->config.limits.max_operation_duration_ms = 5; /* what waits must not wait for long */
    f->config.idle_timeout_ms = 1800000;
    f->config.disconnect_grace_ms = 30000;
    f->config.directory_discovery = true;
    f->config.device_id = TC_STR("device-1");
    f->config.default_working_directory = in_folder(f, "/p");
    f->config.state_dir = in_folder(f, "/state");
    f->config.runtime_dir = in_folder(f, "/runtime");
}

static void make_device(fuzz_device *f)
{
    tc_err err;
    must(tci_device_new(f->loop, &f->config, &f->device, &err) == 0, err.msg);
    f->device->generation = UINT64_C(100000000000000001); /* as recorded */
    f->device->descriptor.generation = f->device->session_descriptor.generation =
        f->device->generation;
    (void)snprintf(f->device->generation_text, sizeof f->device->generation_text, "0000000000001");
}

fuzz_device *fuzz_device_get(void)
{
    tc_err err;
    fuzz_device *f = &the_one;
    if (f->loop == NULL) {
        char p[80];
        make_folder(f);
        if (!confine(f->folder)) {
            (void)fprintf(stderr, "skipped: takes a view of the file system of its own\n");
            _exit(0);
        }
        (void)snprintf(p, sizeof p, "%s/p", f->folder);
        must(tci_file_mkdir(TCI_FILE_CWD, tci_str(p), 0755, &err) == 0, "mkdir");
        must(tci_loop_new(&f->loop, &err) == 0, "loop");
        configure(f);
        make_device(f);
        must(atexit(clean) == 0, "atexit");
    }
    f->device->is_draining = false;
    memset(f->device->next_handle, 0, sizeof f->device->next_handle);
    return f;
}

void fuzz_device_settle(fuzz_device *f)
{
    tci_device *d = f->device;
    while (d->nsessions > 0 || d->ninflight > 0 || tci_loop_pending_jobs(f->loop) > 0)
        tci_loop_turn(f->loop, 100);
    must(d->nrecords == 0 && d->nrequests == 0 && d->ntransfers == 0 && d->ntransfer_records == 0 &&
             d->staged_bytes == 0 && d->staged_objects == 0,
         "giving everything back");
}

char *fuzz_device_localize(const fuzz_device *f, const uint8_t *data, size_t size, size_t *ret_len)
{
    size_t len = 0, at = 0, mine = strlen(f->folder) + 2, theirs = strlen(RECORDED);
    char *out = malloc(size + size / theirs * mine + 1);
    must(out != NULL, "memory");
    while (at < size) {
        if (size - at >= theirs && memcmp(data + at, RECORDED, theirs) == 0) {
            memcpy(out + len, f->folder, mine - 2);
            memcpy(out + len + mine - 2, "/p", 2);
            len += mine;
            at += theirs;
        } else
            out[len++] = (char)data[at++];
    }
    *ret_len = len;
    return out;
}
