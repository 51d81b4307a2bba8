/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of the ssh provider. From the bottom up: a complete target (ssh_target.c), the arguments
 * of ssh (ssh_args.c), the order of its ciphers (ssh_cipher.c), a running ssh (ssh_child.c) and what its
 * complaints mean (ssh_fault.c); the
 * file of trusted keys (ssh_keys.c) and what is done with it (ssh_trust.c); daemon programs of this
 * side (ssh_daemon.c), the script that runs on the other one (ssh_boot.c), and both put together into a
 * launcher (ssh_launch.c). Callers' threads or the thread of a launch; nothing here is shared. */
#ifndef TCI_SSH_INT_H
#define TCI_SSH_INT_H

#include "client/pienv/pienv.h"
#include "env/env.h"
#include <telechir/ssh.h>

/* ---- targets ---- */

/* A target with its defaults filled in; texts live in the arena it was made with.
 *   unknown   bits: rules of ours that the installed ssh turned out not to know
 *   ciphers   what to offer, comma separated; empty: as ssh would (tci_ssh_choose_ciphers) */
typedef struct tci_ssh_to {
    tc_runtime *rt;
    tc_ssh_target target;
    uint64_t unknown;
    tc_str ciphers;
} tci_ssh_to;

int tci_ssh_to_make(tc_runtime *rt, const tc_ssh_target *target, tci_arena *a, tci_ssh_to *ret_to,
                    tc_err *err) TC_CHECKED;
/* "user@host:port" as far as given, for messages. */
int tci_ssh_to_name(const tci_ssh_to *to, tci_arena *a, tc_str *ret_name, tc_err *err) TC_CHECKED;
/* No '"', no control characters, nothing ssh expands or unquotes. what: of the message. */
int tci_ssh_path_check(tc_str path, const char *what, tc_err *err) TC_CHECKED;

/* ---- arguments ---- */

/*   known_hosts  what to use as the file of keys; empty: the target's
 *   command      for the other side; empty: none (-N)
 *   is_scan      take the key that is shown (into known_hosts), and do not log in
 *   is_query     only say what the configuration comes to (-G)
 *   without_rules, without_config   of a query: what there would be without ours, without the user's */
typedef struct tci_ssh_want {
    tc_str known_hosts, command;
    bool is_scan, is_query, without_rules, without_config;
} tci_ssh_want;

/* argv with ssh's program first and NULL at the end, in the arena. */
int tci_ssh_args(const tci_ssh_to *to, const tci_ssh_want *want, tci_arena *a,
                 const char *const **ret_argv, tc_err *err) TC_CHECKED;
/* The environment ssh gets: what it needs to find its files and the agent, nothing it could send. */
int tci_ssh_environ(const tci_ssh_to *to, tci_arena *a, const char *const **ret_envp,
                    tc_err *err) TC_CHECKED;
/* Did ssh refuse a rule of ours that may be left out? Then it is left out from now on (true). */
bool tci_ssh_learn(tci_ssh_to *to, tc_str complaints);

/* What ssh says the configuration comes to (-G), as lines of "name value", in the arena. Contacts nobody,
 * but runs what the configuration runs to match. */
int tci_ssh_query(tci_ssh_to *to, tc_ctx *ctx, bool without_rules, bool without_config,
                  tci_arena *a, tc_str *ret, tc_err *err) TC_CHECKED;
/* The ciphers named in an answer to that, those first that are fast with instructions for AES; empty:
 * they are in that order already, or none are named. PARSE: names we had better not repeat. */
int tci_ssh_fast_first(tc_str configuration, tci_arena *a, tc_str *ret_ciphers,
                       tc_err *err) TC_CHECKED;
/* Set to->ciphers (in the arena) to what ssh would offer, in the order that suits this processor. When
 * that cannot be told it stays empty. */
void tci_ssh_choose_ciphers(tci_ssh_to *to, tc_ctx *ctx, tci_arena *a);

/* ---- a running ssh ---- */

enum {
    TCI_SSH_COMPLAINTS_MAX = 64 * 1024, /* kept of standard error: the last bytes */
    TCI_SSH_START_MS = 60 * 1000,
    TCI_SSH_UPLOAD_MS = 300 * 1000
};

typedef struct tci_ssh_child {
    tci_child child;
    int in_fd, out_fd, err_fd;
    tci_buf out, complaints;
    bool is_out_ended, is_err_ended, is_over;
    tci_exit exit;
    tc_ssh_log log; /* told of standard error; may be NULL */
    void *log_user;
} tci_ssh_child;

/* max_out: bytes of standard output held at a time; more is TOO_BIG. On failure there is nothing to
 * end. START_FAILED, NO_MEMORY, BUSY. */
int tci_ssh_start(tci_ssh_to *to, const tci_ssh_want *want, size_t max_out, tci_ssh_child *ret_c,
                  tc_err *err) TC_CHECKED;
/* Wait for output, its end, or the process's, and take what is there. is_over once the process is
 * gone and both outputs have ended (or stay open in hands of others). deadline_ns: then TIMEOUT.
 * CANCELLED and TIMEOUT of ctx, too. */
int tci_ssh_pump(tci_ssh_child *c, tc_ctx *ctx, int64_t deadline_ns, tc_err *err) TC_CHECKED;
/* The same until all is over. */
int tci_ssh_finish(tci_ssh_child *c, tc_ctx *ctx, int64_t deadline_ns, tc_err *err) TC_CHECKED;
/* Write bytes to its standard input, pumping meanwhile. CLOSED: it reads no more. */
int tci_ssh_write(tci_ssh_child *c, tc_ctx *ctx, int64_t deadline_ns, tc_str bytes,
                  tc_err *err) TC_CHECKED;
/* Kill it when it still runs, reap it, give everything back. Zeroed storage is fine. */
void tci_ssh_end(tci_ssh_child *c);

/* ---- what went wrong ---- */

/* Set *err by what ssh complained about; for an ssh that ended without doing what it should.
 * Returns the code. UNTRUSTED comes without fingerprints: see tci_ssh_add_keys. */
int tci_ssh_explain(const tci_ssh_to *to, const tci_ssh_child *c, tc_err *err);
/* The last lines of complaints, without control characters, as one line of at most max bytes. */
tc_str tci_ssh_last_words(tc_str complaints, char *buf, size_t max);
/* text made fit to be shown: control characters and bytes outside UTF-8 as '.', newlines as " | ". */
tc_str tci_ssh_printable(tc_str text, char *buf, size_t max);
/* After an UNTRUSTED: put the fingerprints into the hint, by a scan and the file. Never fails. */
void tci_ssh_add_keys(tci_ssh_to *to, tc_ctx *ctx, tc_err *err);

/* ---- keys ---- */

/* "alias type base64 [comment]" and nothing finer; the texts are in the arena. INVALID. */
int tci_ssh_key_read(tc_str line, tci_arena *a, tc_ssh_key *ret_key, tc_err *err) TC_CHECKED;
/* Every plain key in the file, or only those of alias (empty: all). Missing file: none. */
int tci_ssh_keys_load(tc_str file, tc_str alias, tci_arena *a, tc_ssh_keys *ret_keys,
                      tc_err *err) TC_CHECKED;
int tci_ssh_keys_add(tc_str file, tc_str alias, const tc_ssh_keys *keys, tc_err *err) TC_CHECKED;
int tci_ssh_keys_drop(tc_str file, tc_str alias, uint64_t *ret_n, tc_err *err) TC_CHECKED;
int tci_ssh_scan_keys(tci_ssh_to *to, tc_ctx *ctx, tci_arena *a, tc_ssh_keys *ret_keys,
                      tc_err *err) TC_CHECKED;

/* ---- daemon programs of this side ---- */

enum { TCI_SSH_DAEMONS_MAX = 16, TCI_SSH_NAME_HEX = 32 };

/* One program and where it runs.
 *   platform, arch   "linux", "x86_64"; empty: anywhere (a script) */
typedef struct tci_ssh_daemon {
    tc_str platform, arch, file;
    char sha256[65]; /* hex, NUL */
    uint64_t size;
} tci_ssh_daemon;

typedef struct tci_ssh_daemons {
    tci_ssh_daemon items[TCI_SSH_DAEMONS_MAX];
    size_t count;
} tci_ssh_daemons;

/* What from is (see tc_ssh_options.daemon); texts in the arena. Programs of a manifest are not opened.
 * Errors: NOT_FOUND, DENIED, PARSE, TOO_BIG, IO. */
int tci_ssh_daemons_find(tc_runtime *rt, tc_str from, tci_arena *a, tci_ssh_daemons *ret_d,
                         tc_err *err) TC_CHECKED;
/* The whole program, checked: INTEGRITY when it is not what the manifest says. tci_free(*ret). */
int tci_ssh_daemon_read(const tci_ssh_daemon *d, char **ret_bytes, size_t *ret_len,
                        tc_err *err) TC_CHECKED;

/* ---- the other side ---- */

typedef enum tci_ssh_system_kind {
    TCI_SSH_LINUX,
    TCI_SSH_MACOS,
    TCI_SSH_ANDROID,
    TCI_SSH_WINDOWS,
    TCI_SSH_OTHER
} tci_ssh_system_kind;

/* One kind of machine: how it is told, and what there is for it.
 *   system, flavour   beginnings of `uname -s` and `uname -o`; flavour empty: whatever
 *   platform          of a daemon for it, as the manifest names it
 *   probe             what asks it; the script of ssh_boot.c, but on Windows
 *   folder            where its daemon is kept first
 *   hint              NULL: supported; else what to do */
typedef struct tci_ssh_system {
    tci_ssh_system_kind kind;
    const char *system, *flavour, *platform, *probe, *folder, *hint;
} tci_ssh_system;

/* Never NULL. */
const tci_ssh_system *tci_ssh_system_of(tc_str system, tc_str flavour);
/* "x86_64", "arm64"; empty: none we know. */
tc_str tci_ssh_arch_of(tc_str machine);

/*   is_deploy   take the program from standard input (else: only start what is there)
 *   skip        bit i: the i-th folder (from 0) is not to be tried (again)
 *   daemon      the one to deploy */
typedef struct tci_ssh_script {
    tc_str token;
    const tci_ssh_daemons *daemons;
    const tci_ssh_daemon *daemon;
    tc_str folder;
    unsigned skip;
    bool is_deploy, login_shell;
} tci_ssh_script;

/* May this be tc_ssh_options.folder? Absolute, nothing a shell would act on. */
int tci_ssh_folder_check(tc_str folder, tc_err *err) TC_CHECKED;
/* The one argument ssh is given to run: for a login shell of any kind. */
int tci_ssh_script_put(const tci_ssh_script *s, tci_buf *out, tc_err *err) TC_CHECKED;

/* What the script says, line by line, among whatever else is printed there. */
typedef enum tci_ssh_answer_kind {
    TCI_SSH_ANSWER_NONE,  /* not so far */
    TCI_SSH_ANSWER_RUN,   /* the daemon is being started: its bytes follow */
    TCI_SSH_ANSWER_NEED,  /* none there that matches: bring it */
    TCI_SSH_ANSWER_SEND,  /* ready to take the program */
    TCI_SSH_ANSWER_FAILED /* word and text say why */
} tci_ssh_answer_kind;

enum { TCI_SSH_SAMPLE_MAX = 512, TCI_SSH_NOISE_MAX = 16 * 1024 * 1024 };

/* Texts are in the arena.
 *   sample   the beginning of what was printed and is not ours
 *   folder   SEND, RUN; index: which of the folders (SEND, FAILED)
 *   word     FAILED: "nodaemon", "nohash", "nofolder", "write", "corrupt", "norun"; text: in the
 *            machine's words
 *   tried    "folder (why)", "; " between them */
typedef struct tci_ssh_answer {
    char prefix[40];
    tci_arena *arena;
    bool is_booted;
    tci_ssh_answer_kind kind;
    tc_str system, machine, flavour, home, folder, word, text, tried, warning;
    unsigned index;
    char sample[TCI_SSH_SAMPLE_MAX];
    size_t sample_len;
    uint64_t noise;
} tci_ssh_answer;

int tci_ssh_answer_init(tci_ssh_answer *ans, tc_str token, tci_arena *a, tc_err *err) TC_CHECKED;
/* Take whole lines off the front of out until kind is set. What is noise goes to log (may be NULL).
 * PROTOCOL: noise without end. */
int tci_ssh_answer_feed(tci_ssh_answer *ans, tci_buf *out, tc_ssh_log log, void *log_user,
                        tc_err *err) TC_CHECKED;

/* ---- starting a daemon there ---- */

/* What a launcher starts, and with what; texts copied. start_ms: how long the other side may take to
 * answer; 0: TCI_SSH_START_MS. */
int tci_ssh_launcher_new(tc_runtime *rt, const tc_ssh_options *options, int64_t start_ms,
                         tci_pi_launcher *ret_launcher, tc_err *err) TC_CHECKED;
/* tci_pi_options.on_log with the launcher's user as log_user. */
void tci_ssh_on_log(void *user, tci_pi_log_kind kind, const void *bytes, size_t len);

#endif
