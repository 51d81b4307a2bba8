/* SPDX-License-Identifier: Apache-2.0
 *
 * The things a hand works with, as both client.h and env.h speak of them: files, commands, output,
 * ports, and the boundary they run in. Plain values; texts and arrays inside live in the tc_result
 * of the call that returned them, or are borrowed for the call when given. Paths are absolute, with
 * '/' as separator ("/C:/x" on Windows) unless a function says otherwise.
 *
 * Options may be NULL, or zeroed with size set: zero always means the default. */
#ifndef TELECHIR_HAND_H
#define TELECHIR_HAND_H

#include <telechir/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A list of texts. */
typedef struct tc_strs {
    const tc_str *items;
    size_t count;
} tc_strs;

typedef struct tc_pair {
    tc_str key, value;
} tc_pair;

/* ---- files ---- */

typedef enum tc_file_kind {
    TC_FILE_OTHER = 0,
    TC_FILE_REGULAR,
    TC_FILE_DIRECTORY,
    TC_FILE_SYMLINK
} tc_file_kind;

typedef struct tc_file_info {
    tc_str path; /* as asked for */
    tc_file_kind kind;
    bool has_size, has_executable, is_executable; /* of regular files only */
    bool has_mode;                                /* not over EIP */
    uint32_t mode;                                /* permission bits */
    uint64_t size_bytes;
    tc_time modified_at;
} tc_file_info;

typedef struct tc_file_entry {
    tc_str relative_path; /* to the directory or root asked for */
    tc_file_info info;
} tc_file_entry;

/* One page of entries, sorted bytewise by relative path. The next page starts at offset + count. */
typedef struct tc_file_page {
    const tc_file_entry *entries;
    size_t count;
    uint64_t offset;
    bool has_more;
    uint64_t omitted_unrepresentable; /* names that are not UTF-8 */
} tc_file_page;

typedef struct tc_list_options {
    size_t size;
    uint64_t offset;
    uint32_t max_results; /* 0: 100 */
    bool include_hidden;
} tc_list_options;

typedef enum tc_kind_set {
    TC_KINDS_ANY = 0,
    TC_KINDS_FILE = 1 << 0,
    TC_KINDS_DIRECTORY = 1 << 1,
    TC_KINDS_SYMLINK = 1 << 2,
    TC_KINDS_OTHER = 1 << 3
} tc_kind_set;

typedef struct tc_find_options {
    size_t size;
    uint64_t offset;
    uint32_t max_results;                             /* 0: 100 */
    bool include_hidden, respect_git_ignore, is_flat; /* is_flat: one level only */
    unsigned kinds;                                   /* tc_kind_set */
} tc_find_options;

/* All limits: 0 means the default, or none where there is no default. */
typedef struct tc_search_options {
    size_t size;
    bool is_regex, ignore_case, include_hidden, respect_git_ignore;
    uint64_t offset;
    uint32_t max_results;     /* 0: 100 */
    uint64_t max_line_length; /* characters kept of a line; 0: 2000 */
    tc_str include_pattern;   /* empty: every file */
    uint32_t context_lines;   /* 0..20 */
    uint64_t max_matches_per_file, max_files, max_file_bytes;
} tc_search_options;

typedef struct tc_search_match {
    tc_str path;
    uint64_t line_number; /* from 1 */
    tc_str preview;
    bool is_preview_truncated;
    tc_str context; /* lines around and including the match */
    uint64_t context_start_line;
} tc_search_match;

typedef struct tc_search_page {
    const tc_search_match *matches;
    size_t count;
    uint64_t offset;
    bool has_more;
    uint64_t omitted_unrepresentable;
} tc_search_page;

typedef struct tc_read_text_options {
    size_t size;
    uint64_t line_offset;     /* lines to skip */
    uint64_t line_limit;      /* 0: 2000 */
    uint64_t max_line_length; /* characters kept of a line; 0: 1,000,000 */
} tc_read_text_options;

typedef struct tc_text_page {
    tc_file_info info;
    tc_str text;
    uint64_t line_offset, lines_read;
    bool has_more;
    const uint64_t *truncated_lines; /* line numbers from 1 */
    size_t ntruncated_lines;
} tc_text_page;

typedef enum tc_write_mode {
    TC_WRITE_UPSERT = 0, /* whether it exists or not */
    TC_WRITE_CREATE,     /* CONFLICT when it exists */
    TC_WRITE_REPLACE,    /* NOT_FOUND when it does not */
    TC_WRITE_APPEND
} tc_write_mode;

typedef enum tc_tristate { TC_KEEP = 0, TC_YES, TC_NO } tc_tristate;

/*   executable    KEEP: leave the permission bits of an existing file
 *   no_sync       do not wait until it is on stable storage: for many files that are synced at once
 *                 afterwards (tc_env_sync). A provider may sync all the same
 *   is_private    the file becomes its owner's alone: 0600, or 0700 when executable. Over EIP new files
 *                 are that anyhow, and existing ones stay as they are */
typedef struct tc_write_options {
    size_t size;
    tc_write_mode mode;
    tc_tristate executable;
    bool no_sync;
    bool is_private;
} tc_write_options;

typedef struct tc_range {
    uint64_t offset;
    bool has_length; /* false: to the end */
    uint64_t length;
} tc_range;

/* What a transfer moved; both sides agreed on it. */
typedef struct tc_transfer {
    tc_file_info info;
    uint64_t nbytes;
    char sha256[65]; /* hex, NUL at the end */
} tc_transfer;

/* ---- commands ---- */

/* What to run. Either a script for the shell (nargs 0), or a program with its arguments. */
typedef struct tc_command {
    size_t size;
    tc_str script;     /* for the shell; used when program is empty */
    tc_str profile_id; /* which shell; empty: "default" */
    bool is_login;
    tc_str program;     /* a name to look up, or an absolute path */
    const tc_str *args; /* without the program itself */
    size_t nargs;
    tc_str cwd; /* empty: the session's or environment's */
    const tc_pair *set_env;
    size_t nset_env;
    const tc_str *unset_env;
    size_t nunset_env;
    tc_str input;          /* bytes for standard input */
    bool keep_stdin_open;  /* of a started process: more will be written */
    uint64_t wall_time_ms; /* killed after that; 0: the other side's maximum */
} tc_command;

typedef enum tc_process_phase {
    TC_PROCESS_STARTING = 0,
    TC_PROCESS_RUNNING,
    TC_PROCESS_EXITED,
    TC_PROCESS_SIGNALED,
    TC_PROCESS_TIMED_OUT,
    TC_PROCESS_CANCELLED,
    TC_PROCESS_FAILED
} tc_process_phase;

typedef enum tc_termination {
    TC_TERMINATION_NONE = 0, /* still running */
    TC_TERMINATION_EXIT,
    TC_TERMINATION_SIGNAL,
    TC_TERMINATION_TIMEOUT,
    TC_TERMINATION_CANCELLED,
    TC_TERMINATION_OUTPUT_LIMIT,
    TC_TERMINATION_BACKEND_LOST
} tc_termination;

typedef enum tc_signal {
    TC_SIGNAL_NONE = 0, /* none, or one without a name here */
    TC_SIGNAL_INTERRUPT,
    TC_SIGNAL_TERMINATE,
    TC_SIGNAL_KILL
} tc_signal;

typedef enum tc_cleanup {
    TC_CLEANUP_PENDING = 0,
    TC_CLEANUP_COMPLETE,
    TC_CLEANUP_RESIDUAL_CONFINED,
    TC_CLEANUP_FAILED
} tc_cleanup;

typedef struct tc_process_status {
    tc_process_phase phase;
    tc_termination termination;
    bool has_exit_code;
    int32_t exit_code;
    tc_signal signal;
    tc_cleanup cleanup;
    tc_time started_at, ended_at;
} tc_process_status;

/* One stream of output as it stands. Bytes [0, retained_bytes) can be read by reference. */
typedef struct tc_output {
    tc_str reference;
    bool is_producer_complete, is_content_complete;
    uint64_t produced_bytes, retained_bytes;
    tc_str preview; /* the first bytes */
} tc_output;

typedef struct tc_process {
    tc_str handle;
    tc_process_status status;
    bool is_stdin_open;
    tc_output out, err;
} tc_process;

typedef struct tc_exec_result {
    tc_process_status status;
    tc_output out, err;
} tc_exec_result;

/* One piece of output. */
typedef struct tc_output_page {
    uint64_t start_offset, next_offset;
    tc_str data;
    tc_output output;
    bool is_end; /* nothing will follow */
} tc_output_page;

/* ---- ports ---- */

typedef enum tc_port_address { TC_PORT_LOOPBACK = 0, TC_PORT_ANY } tc_port_address;
typedef enum tc_port_status {
    TC_PORT_UNKNOWN = 0,
    TC_PORT_LISTENING,
    TC_PORT_NOT_LISTENING
} tc_port_status;

typedef struct tc_port {
    uint16_t number;
    tc_port_address address;
    tc_port_status status;
    tc_time observed_at;
} tc_port;

/* ---- the boundary ---- */

typedef enum tc_egress_mode {
    TC_EGRESS_INHERIT = 0,
    TC_EGRESS_DENY,
    TC_EGRESS_CONTROLLED
} tc_egress_mode;

typedef struct tc_grant {
    tc_str path;
    bool is_writable;
} tc_grant;

typedef struct tc_boundary {
    bool has_identity;
    uint32_t uid, gid;
    bool is_restricted, full_disk_read; /* the sandbox */
    const tc_grant *grants;
    size_t ngrants;
    tc_egress_mode egress;
    bool privilege_gain_blocked;
    tc_str backend;       /* "native", "linux_bubblewrap", ... */
    tc_str policy_digest; /* 64 hex digits */
} tc_boundary;

/* Where a session may connect to. */
typedef struct tc_destinations {
    bool is_allowlist; /* false: every public host */
    tc_strs hosts;
} tc_destinations;

typedef struct tc_egress_secret {
    tc_str env; /* the variable its placeholder is in */
    tc_str value;
    tc_strs inject_hosts;
} tc_egress_secret;

typedef struct tc_egress_policy {
    tc_destinations destinations;
    const tc_egress_secret *secrets;
    size_t nsecrets;
} tc_egress_policy;

typedef struct tc_egress_placeholder {
    tc_str env, sentinel;
    tc_strs inject_hosts;
} tc_egress_placeholder;

typedef struct tc_egress_status {
    uint64_t revision;
    tc_destinations destinations;
    const tc_egress_placeholder *secrets;
    size_t nsecrets;
} tc_egress_status;

/* A change of a running session's policy. */
typedef struct tc_egress_update {
    size_t size;
    uint64_t expected_revision;
    const tc_destinations *destinations; /* NULL: as they are */
    const tc_egress_secret *set_secrets;
    size_t nset_secrets;
    tc_strs remove_secrets;
} tc_egress_update;

#ifdef __cplusplus
}
#endif
#endif
