/* SPDX-License-Identifier: Apache-2.0
 *
 * The execution environment of an agent's tools: a file system and a shell, one function for each
 * method of the ExecutionEnv interface, with its results and its error codes. Included by
 * telechir/env.h, which makes environments. docs/env-mapping.md says for every function and every
 * provider whether it is native, emulated, different or not supported.
 *
 * Every function returns 0 or a negative code as usual. The interface's own code of a failure
 * ("not_found") is in the evidence of the call's result, as env_error, with the path it is about;
 * the message is in *err. Expected failures are values; nothing is thrown, printed or retried.
 *
 * A call whose context is cancelled or over time before it begins does nothing and is "aborted";
 * some look again while they work, as docs/env-mapping.md says. Paths may be relative to the
 * environment's working directory, begin with "~/", or be file URLs (tc_env_absolute_path).
 *
 * Threads: any, also at the same time; a reader serves one call at a time. Everything handed out
 * lives in the call's result. */
#ifndef TELECHIR_EXECUTION_ENV_H
#define TELECHIR_EXECUTION_ENV_H

#include <telechir/hand.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tc_env tc_env;

/* The largest number that sizes and offsets may have: 2^53 - 1. Larger and negative ones are
 * "invalid", so they are signed where a caller may have computed them. */
#define TC_SAFE_INTEGER_MAX INT64_C(9007199254740991)

/* ---- paths ---- */

/* The absolute path that is meant, by name only: nothing is looked at. "~" and "~/x" are below the
 * home folder over there, "file:///a%20b" and "file://localhost/x" are the path in the URL (one with
 * another host or an encoded slash is an ordinary name), the rest is joined to the working
 * directory and normalised. A lazy environment that was not connected yet connects for it; that can
 * take as long as connecting may (tc_env_resolve_path has a context). Nothing aborts it.
 * Errors: INVALID (a NUL byte), those of connecting. */
TC_API int tc_env_absolute_path(tc_env *env, tc_str path, tc_result *r, tc_str *ret_path,
                                tc_err *err) TC_CHECKED;
/* The same with the context that bounds a connection it may have to make. */
TC_API int tc_env_resolve_path(tc_env *env, const tc_call *call, tc_str path, tc_str *ret_path,
                               tc_err *err) TC_CHECKED;
/* The parts joined with the other side's separator and normalised, by name only; "." when nothing
 * is left. Not made absolute. */
TC_API int tc_env_join_path(tc_env *env, const tc_call *call, const tc_str *parts, size_t nparts,
                            tc_str *ret_path, tc_err *err) TC_CHECKED;
/* The path without links, of something that exists. */
TC_API int tc_env_canonical_path(tc_env *env, const tc_call *call, tc_str path, tc_str *ret_path,
                                 tc_err *err) TC_CHECKED;

/* ---- what a path names ---- */

/*   name          last component; empty for a root
 *   path          absolute
 *   size          bytes, of whatever kind it is
 *   mtime_ms      milliseconds since 1970, with the fraction; modified_at is the same instant */
typedef struct tc_env_file {
    tc_str name, path;
    tc_file_kind kind; /* never TC_FILE_OTHER: such files are left out, or "invalid" */
    uint64_t size;
    tc_time modified_at;
    double mtime_ms;
} tc_env_file;

/* Of the link itself when it is one. A device, pipe or socket is "invalid". */
TC_API int tc_env_file_info(tc_env *env, const tc_call *call, tc_str path, tc_env_file *ret_file,
                            tc_err *err) TC_CHECKED;
/* Whether there is something, be it a dangling link. Only "not_found" means false: every other
 * failure is one ("not_directory" for "file/x"). */
TC_API int tc_env_path_exists(tc_env *env, const tc_call *call, tc_str path, bool *ret_exists,
                              tc_err *err) TC_CHECKED;

/* ---- whole files ---- */

/* As text: bytes that are not UTF-8 become U+FFFD, a mark at the start is kept. */
TC_API int tc_env_read_text_file(tc_env *env, const tc_call *call, tc_str path, tc_str *ret_text,
                                 tc_err *err) TC_CHECKED;
/* The first max_lines lines (NULL: all), as the line reader gives them. With 0 or less there are
 * none, and the file is not touched. */
TC_API int tc_env_read_text_lines(tc_env *env, const tc_call *call, tc_str path,
                                  const int64_t *max_lines, tc_strs *ret_lines,
                                  tc_err *err) TC_CHECKED;
TC_API int tc_env_read_binary_file(tc_env *env, const tc_call *call, tc_str path, tc_str *ret_bytes,
                                   tc_err *err) TC_CHECKED;
/* Create or overwrite, and make missing parents. Not atomic: an interrupted write leaves a prefix
 * (tc_env_write replaces a file whole or not at all). */
TC_API int tc_env_write_file(tc_env *env, const tc_call *call, tc_str path, tc_str bytes,
                             tc_err *err) TC_CHECKED;
/* The same at the end of what is there. */
TC_API int tc_env_append_file(tc_env *env, const tc_call *call, tc_str path, tc_str bytes,
                              tc_err *err) TC_CHECKED;
/* Cut, or extend with zeros, an existing file. size 0..TC_SAFE_INTEGER_MAX, else "invalid" and the
 * file is not touched. */
TC_API int tc_env_truncate_file(tc_env *env, const tc_call *call, tc_str path, int64_t size,
                                tc_err *err) TC_CHECKED;
/* Put the file's content on stable storage. */
TC_API int tc_env_flush_file(tc_env *env, const tc_call *call, tc_str path, tc_err *err) TC_CHECKED;
/* Replaces what is at to. The path of a failure is the source's. */
TC_API int tc_env_rename_file(tc_env *env, const tc_call *call, tc_str from, tc_str to,
                              tc_err *err) TC_CHECKED;

/* ---- readers ----
 *
 * Opened, used, closed any number of times, and freed once. After close every call is "invalid".
 * A reader whose session is lost fails; it never reads from a newer one. Calls check, in this
 * order: aborted, closed, arguments. free closes; NULL is fine. The environment may be released
 * before its readers. */

/* Lines in order, without their "\n"; a "\r" before it stays. Bytes that are not UTF-8 become
 * U+FFFD, a mark at the start is dropped. A directory can be opened, and fails on the first line. */
typedef struct tc_line_reader tc_line_reader;
typedef struct tc_line {
    bool is_end;        /* there is no line any more; the rest is empty */
    bool is_terminated; /* it had a newline; false only for the last */
    tc_str text;
} tc_line;
TC_API int tc_env_open_line_reader(tc_env *env, const tc_call *call, tc_str path,
                                   tc_line_reader **ret_reader, tc_err *err) TC_CHECKED;
/* An aborted call has taken nothing: the next one gives the same line. */
TC_API int tc_line_reader_next(tc_line_reader *reader, const tc_call *call, tc_line *ret_line,
                               tc_err *err) TC_CHECKED;
TC_API void tc_line_reader_close(tc_line_reader *reader);
TC_API void tc_line_reader_free(tc_line_reader *reader);

/* Any part of a regular file, which stays the one that was opened when another takes its name.
 * Where a file lies is counted in bytes from 0. */
typedef struct tc_binary_reader tc_binary_reader;
/* no_follow: "invalid" when the last component is a link. */
TC_API int tc_env_open_binary_reader(tc_env *env, const tc_call *call, tc_str path, bool no_follow,
                                     tc_binary_reader **ret_reader, tc_err *err) TC_CHECKED;
TC_API int tc_binary_reader_info(tc_binary_reader *reader, const tc_call *call,
                                 tc_env_file *ret_file, tc_err *err) TC_CHECKED;
/* Fewer bytes than asked for, or none, at the end of the file only. */
TC_API int tc_binary_reader_read(tc_binary_reader *reader, const tc_call *call, int64_t offset,
                                 int64_t length, tc_str *ret_bytes, tc_err *err) TC_CHECKED;

/* Where lines are in a file, for a selection of them. A file with n newlines has n+1 lines.
 *   newlines          in the whole file
 *   start, end        of the selection, the last newline not included; both the file's size when the
 *                     selection begins behind its last line
 *   first_line_end    end of the first selected line
 *   last_line_start   start of the last selected one
 *   selected_bytes, first_line_bytes   size as text, where a bad sequence counts three bytes and a
 *                     mark at the start of the file none */
typedef struct tc_line_scan {
    uint64_t newlines, start, end, first_line_end, last_line_start;
    uint64_t selected_bytes, first_line_bytes;
} tc_line_scan;
/* Lines start_line (from 0) up to, not including, *end_line (NULL: to the end), which is more. */
TC_API int tc_binary_reader_scan_lines(tc_binary_reader *reader, const tc_call *call,
                                       int64_t start_line, const int64_t *end_line,
                                       tc_line_scan *ret_scan, tc_err *err) TC_CHECKED;
TC_API void tc_binary_reader_close(tc_binary_reader *reader);
TC_API void tc_binary_reader_free(tc_binary_reader *reader);

/* ---- directories ---- */

/* Entries of a directory; links are not followed, devices, pipes and sockets are left out. */
typedef struct tc_env_files {
    const tc_env_file *entries;
    size_t count;
    bool is_done; /* of a reader: there are no more */
} tc_env_files;
/* All entries, sorted by name bytes. One that cannot be looked at fails the call with its path. */
TC_API int tc_env_list_dir(tc_env *env, const tc_call *call, tc_str path, tc_env_files *ret_files,
                           tc_err *err) TC_CHECKED;

/* Entries in pages, in the directory's own order; those that went away meanwhile are left out. */
typedef struct tc_dir_reader tc_dir_reader;
TC_API int tc_env_open_dir_reader(tc_env *env, const tc_call *call, tc_str path,
                                  tc_dir_reader **ret_reader, tc_err *err) TC_CHECKED;
/* 1..max_entries entries, fewer than max_entries only at the end. After is_done: none, is_done. */
TC_API int tc_dir_reader_next(tc_dir_reader *reader, const tc_call *call, int64_t max_entries,
                              tc_env_files *ret_files, tc_err *err) TC_CHECKED;
TC_API void tc_dir_reader_close(tc_dir_reader *reader);
TC_API void tc_dir_reader_free(tc_dir_reader *reader);

/* A whole tree, as "fd --hidden --exclude .git" lists it.
 *   without_hidden       leave out names that start with "."
 *   without_gitignore    leave nothing out because of ignore files (".git" is always left out)
 *   exclude              names left out at any depth, with all below
 *   max_entries          50000; negative is "invalid"
 *   max_bytes            4 MiB, at most 15900000; a path costs its bytes and 2
 *   timeout_ms           10000 */
typedef struct tc_list_files_options {
    size_t size;
    bool without_hidden, without_gitignore;
    bool has_max_entries, has_max_bytes, has_timeout_ms;
    tc_strs exclude;
    int64_t max_entries, max_bytes, timeout_ms;
} tc_list_files_options;
typedef struct tc_tree_entry {
    tc_str path; /* below the root, with '/' */
    tc_file_kind kind;
} tc_tree_entry;
typedef struct tc_tree {
    const tc_tree_entry *entries; /* depth first, siblings by name bytes */
    size_t count;
    bool is_truncated; /* a bound was reached before the end */
} tc_tree;
TC_API int tc_env_list_files(tc_env *env, const tc_call *call, tc_str path,
                             const tc_list_files_options *options, tc_tree *ret_tree,
                             tc_err *err) TC_CHECKED;

/* An existing directory is fine when recursive, else it fails. */
TC_API int tc_env_create_dir(tc_env *env, const tc_call *call, tc_str path, bool is_recursive,
                             tc_err *err) TC_CHECKED;
/* A directory needs is_recursive, and goes with all below it; links are removed, not followed.
 * force: what is missing is no failure. */
TC_API int tc_env_remove_path(tc_env *env, const tc_call *call, tc_str path, bool is_recursive,
                              bool force, tc_err *err) TC_CHECKED;
/* A new private directory in the temporary one over there. prefix: of its name; ptr NULL: "tmp-". */
TC_API int tc_env_create_temp_dir(tc_env *env, const tc_call *call, tc_str prefix, tc_str *ret_path,
                                  tc_err *err) TC_CHECKED;
/* A new empty file in a new private directory; its name is prefix, something unique, suffix. */
TC_API int tc_env_create_temp_file(tc_env *env, const tc_call *call, tc_str prefix, tc_str suffix,
                                   tc_str *ret_path, tc_err *err) TC_CHECKED;

/* ---- watching ---- */

/* What to watch: a file or directory, which may be missing; a link is followed.
 *   is_recursive     all directories below, too; links below are not followed
 *   exclude_hidden, exclude_names   entries below that are neither watched nor told of */
typedef struct tc_watch_target {
    tc_str path;
    bool is_recursive, exclude_hidden;
    tc_strs exclude_names;
} tc_watch_target;

typedef enum tc_watch_mode { TC_WATCH_AUTO = 0, TC_WATCH_NATIVE, TC_WATCH_POLLING } tc_watch_mode;

/*   mode                AUTO: what the file system needs
 *   poll_interval_ms    2000
 *   max_directories     10000; more is "invalid" */
typedef struct tc_watch_options {
    size_t size;
    tc_watch_mode mode;
    uint64_t poll_interval_ms, max_directories;
} tc_watch_options;

typedef enum tc_watch_event_kind {
    TC_WATCH_CHANGE = 0, /* something at or below each of paths may have changed */
    TC_WATCH_OVERFLOW,   /* anything may have changed */
    TC_WATCH_FAILED      /* the watcher stopped; err and env_error say why */
} tc_watch_event_kind;
typedef struct tc_watch_event {
    tc_watch_event_kind kind;
    tc_strs paths; /* absolute; borrowed for the callback */
    tc_env_error env_error;
    const tc_err *err; /* NULL but for FAILED */
} tc_watch_event;
/* One at a time, on a thread of the watcher's own; may take its time, may not close or free it. */
typedef void (*tc_watch_callback)(void *user, const tc_watch_event *event);

typedef struct tc_watcher tc_watcher;
/* When this returns 0, every later change is told of: while the link is lost nothing is, and when it
 * is back (tried after 1 s, then up to every 30 s) an OVERFLOW is. The call's context only bounds
 * the opening. options may be NULL. */
TC_API int tc_env_watch(tc_env *env, const tc_call *call, const tc_watch_target *targets,
                        size_t ntargets, const tc_watch_options *options,
                        tc_watch_callback callback, void *user, tc_watcher **ret_watcher,
                        tc_err *err) TC_CHECKED;
/* NATIVE or POLLING, as it is now. */
TC_API tc_watch_mode tc_watcher_mode(const tc_watcher *w);
/* No callback runs after it. Idempotent. */
TC_API void tc_watcher_close(tc_watcher *w);
/* Close, and forget it. NULL is fine. */
TC_API void tc_watcher_free(tc_watcher *w);

/* ---- commands ---- */

typedef enum tc_stream_kind { TC_STDOUT = 0, TC_STDERR } tc_stream_kind;

/* Text that was left out before the text of this call; it ended with a newline or not. */
typedef struct tc_skipped {
    uint64_t nbytes, nnewlines;
    bool ends_with_newline;
} tc_skipped;

/* Decoded output as it arrives, on the calling thread; each stream in order. skipped: NULL unless
 * the window made text be left out. Any return but 0 kills the command and ends the call with that
 * code and "callback_error"; fill *err. */
typedef int (*tc_text_sink)(void *user, tc_stream_kind stream, tc_str text,
                            const tc_skipped *skipped, tc_err *err);

/* A command of the ExecutionEnv interface: no standard input.
 *   script          for the shell; or, with is_argv,
 *   argv            a program and its arguments, not looked at by any shell; an empty list is
 *                   "spawn_error"
 *   cwd             against the environment's; empty: the environment's
 *   set_env         on top of what is inherited
 *   without_inherited_env   set_env is all there is
 *   timeout_s       seconds, with has_timeout; not finite, not above 0, or more than 2147483.647 is
 *                   "timeout" before anything runs
 *   on_output       NULL: output is dropped
 *   spill           keep complete raw output in a file over there once it passes a threshold
 *   window          leave out what a reader that keeps this much of the tail would drop anyway.
 *                   All need its has_ flag */
typedef struct tc_exec_options {
    size_t size;
    tc_str script;
    bool is_argv;
    tc_strs argv;
    tc_str cwd;
    const tc_pair *set_env;
    size_t nset_env;
    bool without_inherited_env;
    bool has_timeout;
    double timeout_s;
    tc_text_sink on_output;
    void *user;
    bool has_spill;
    uint64_t spill_after_bytes, spill_after_lines;
    bool has_window;
    uint64_t window_max_bytes, window_max_lines, window_min_interval_ms, window_bytes_per_second;
} tc_exec_options;

/* spill_path: empty when nothing was spilled. Killed by signal n: 128 + n. */
typedef struct tc_exec_outcome {
    int64_t exit_code;
    tc_str spill_path;
} tc_exec_outcome;

/* Run to the end. A failing command is a result. Aborting the call kills the command. When the call
 * fails after output was spilled, the evidence has the file's path. */
TC_API int tc_env_exec(tc_env *env, const tc_call *call, const tc_exec_options *options,
                       tc_exec_outcome *ret_outcome, tc_err *err) TC_CHECKED;

/* ---- live standard input ---- */

/* Bytes for a command that runs, from any thread, in order and unchanged: given to tc_env_run with
 * its options. One command, once. */
typedef struct tc_input tc_input;
TC_API int tc_input_new(tc_input **ret_input, tc_err *err) TC_CHECKED;
/* Blocks until there is room for all of it; CLOSED once the command reads no more, or has ended.
 * ctx NULL: as long as it takes. One writer at a time. */
TC_API int tc_input_write(tc_input *input, tc_ctx *ctx, const void *bytes, size_t len,
                          tc_err *err) TC_CHECKED;
/* No more follows: the command sees the end of its input after what was written. Idempotent. */
TC_API void tc_input_close(tc_input *input);
/* After the run has returned, or when it was never given to one. NULL is fine. */
TC_API void tc_input_free(tc_input *input);

#ifdef __cplusplus
}
#endif
#endif
