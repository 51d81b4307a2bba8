/* SPDX-License-Identifier: Apache-2.0
 *
 * The ExecutionEnv interface inside of env: what a provider implements of it, and what the common
 * part (methods.c, readers.c, watcher.c, exec.c) does for it. The caller's thread. */
#ifndef TCI_ENV_METHODS_INT_H
#define TCI_ENV_METHODS_INT_H

#include "env/env_int.h"

/* ---- how a method failed ---- */

/* The evidence of a call, to be filled in. */
tc_evidence *tci_env_evidence(const tc_call *call);
/* Say how: the word and the path (copied), and a code with its text. */
#define tci_env_fail(call, word, about, err, code, ...) \
    (tci_env_blame((call), (word), (about)), tc_err_set((err), (code), __VA_ARGS__))
void tci_env_blame(const tc_call *call, tc_env_error word, tc_str about);
/* The word for a code when nothing more is known. */
tc_env_error tci_env_word_of(int code);
/* ABORTED, when the call's context has ended. */
int tci_env_check_abort(const tc_call *call, tc_str about, tc_err *err) TC_CHECKED;
/* Start a method: the call is whole, not aborted, and env may be used; counts it as a user. */
int tci_env_begin(tc_env *env, const tc_call *call, bool is_change, tc_err *err) TC_CHECKED;
/* The same with *path made absolute. */
int tci_env_begin_path(tc_env *env, const tc_call *call, bool is_change, tc_str *path,
                       tc_err *err) TC_CHECKED;
/* End it: complete the evidence of a failure. Returns rc. */
int tci_env_finish(tc_env *env, const tc_call *call, int rc, tc_str path);

/* ---- open files and directories of a provider ---- */

typedef struct tci_open_file tci_open_file;
typedef struct tci_open_file_vtable {
    /* kind OTHER is refused by the common part; name and path are filled in by it. */
    int (*info)(tci_open_file *f, const tc_call *call, tc_env_file *ret_file, tc_err *err);
    /* Up to len bytes into buf; *ret_len < len at the end of the file only. */
    int (*read)(tci_open_file *f, const tc_call *call, uint64_t offset, char *buf, size_t len,
                size_t *ret_len, tc_err *err);
    /* end_line is more than start_line; UINT64_MAX: to the end. */
    int (*scan)(tci_open_file *f, const tc_call *call, uint64_t start_line, uint64_t end_line,
                tc_line_scan *ret_scan, tc_err *err);
    void (*close)(tci_open_file *f); /* and free */
} tci_open_file_vtable;
struct tci_open_file {
    const tci_open_file_vtable *v;
    tc_env *env; /* borrowed from the reader */
    tc_str path; /* likewise */
};

typedef enum tci_open_how {
    TCI_OPEN_LINES = 0,           /* any kind of file */
    TCI_OPEN_REGULAR = 1 << 0,    /* regular only, never waiting */
    TCI_OPEN_REFUSE_LINK = 1 << 1 /* with REGULAR */
} tci_open_how;

/* Entries as they are found, in the arena of a result. */
typedef struct tci_file_list {
    tc_env_file *items;
    size_t count, cap;
} tci_file_list;
/* One more entry of the directory dir, with name and path filled in; kind OTHER is left out. */
int tci_file_list_add(tci_file_list *l, const tc_call *call, const tc_env *env, tc_str dir,
                      tc_str name, const tc_env_file *file, tc_err *err) TC_CHECKED;

typedef struct tci_open_dir tci_open_dir;
typedef struct tci_open_dir_vtable {
    /* Add up to max entries. *ret_is_done: no more follow. */
    int (*next)(tci_open_dir *d, const tc_call *call, size_t max, tci_file_list *list,
                bool *ret_is_done, tc_err *err);
    void (*close)(tci_open_dir *d); /* and free */
} tci_open_dir_vtable;
struct tci_open_dir {
    const tci_open_dir_vtable *v;
    tc_env *env;
    tc_str path;
};

/* ---- watching ---- */

struct tc_watcher; /* watcher.c */

/* What a provider's watch sees of it. */
typedef struct tci_watch_view {
    const tc_watch_target *targets; /* paths absolute */
    size_t ntargets;
    tc_watch_options options; /* no zero left but AUTO */
    tc_ctx *ctx;              /* ends with the watcher */
    tc_watcher *watcher;
} tci_watch_view;
/* Coverage begins: from now on changes are told. */
void tci_watcher_is_ready(tc_watcher *w, tc_watch_mode mode);
void tci_watcher_changed(tc_watcher *w, tc_strs paths);
void tci_watcher_overflow(tc_watcher *w);
void tci_watcher_set_mode(tc_watcher *w, tc_watch_mode mode);

/* ---- methods ---- */

typedef enum tci_write_how {
    TCI_WRITE_APPEND = 1 << 0,
    TCI_WRITE_NO_PARENTS = 1 << 1 /* a missing folder is a failure */
} tci_write_how;

/* Paths are absolute and normal. A failure's word and path are in the evidence when they are not
 * what tci_env_word_of and the method's path say. */
struct tci_env_methods {
    /* Learn env->place: with needs_home also home and tmpdir. May connect. */
    int (*know)(tc_env *env, const tc_call *call, bool needs_home, tc_err *err);
    int (*info)(tc_env *env, const tc_call *call, tc_str path, tc_env_file *ret_file, tc_err *err);
    int (*canonical)(tc_env *env, const tc_call *call, tc_str path, tc_str *ret_path, tc_err *err);
    /* All of it, in the call's result. */
    int (*read)(tc_env *env, const tc_call *call, tc_str path, tc_str *ret_bytes, tc_err *err);
    int (*write)(tc_env *env, const tc_call *call, tc_str path, tc_str bytes, unsigned how,
                 tc_err *err);
    int (*truncate)(tc_env *env, const tc_call *call, tc_str path, uint64_t size, tc_err *err);
    int (*flush)(tc_env *env, const tc_call *call, tc_str path, tc_err *err);
    int (*rename)(tc_env *env, const tc_call *call, tc_str from, tc_str to, tc_err *err);
    int (*open_file)(tc_env *env, const tc_call *call, tc_str path, unsigned how,
                     tci_open_file **ret_file, tc_err *err);
    int (*open_dir)(tc_env *env, const tc_call *call, tc_str path, tci_open_dir **ret_dir,
                    tc_err *err);
    /* Sorted. */
    int (*list_dir)(tc_env *env, const tc_call *call, tc_str path, tci_file_list *list,
                    tc_err *err);
    /* Every has_ flag of the options is set. */
    int (*list_files)(tc_env *env, const tc_call *call, tc_str path,
                      const tc_list_files_options *options, tc_tree *ret_tree, tc_err *err);
    int (*create_dir)(tc_env *env, const tc_call *call, tc_str path, bool is_recursive,
                      tc_err *err);
    int (*remove)(tc_env *env, const tc_call *call, tc_str path, bool is_recursive, bool force,
                  tc_err *err);
    /* A private directory whose path is prefix and something. */
    int (*make_temp)(tc_env *env, const tc_call *call, tc_str prefix, tc_str *ret_path,
                     tc_err *err);
    /* Checked options; cwd is absolute. */
    int (*exec)(tc_env *env, const tc_call *call, const tc_exec_options *options, tc_str cwd,
                tc_exec_outcome *ret_outcome, tc_err *err);
    /* Blocks until view->ctx ends (0) or it breaks; *ret_is_lost: worth another try. */
    int (*watch)(tc_env *env, const tci_watch_view *view, tc_call *call, bool *ret_is_lost,
                 tc_err *err);
};

/* ---- shared pieces ---- */

/* Bytes as text: bad sequences become U+FFFD; a mark at the start is kept or dropped. Clean text is
 * not copied. */
int tci_env_to_text(const tc_call *call, tc_str bytes, bool keep_mark, tc_str *ret_text,
                    tc_err *err) TC_CHECKED;
void tci_env_set_time(tc_env_file *f, int64_t sec, uint32_t nsec);
/* Are names in the order of their bytes? For sorting. */
void tci_file_list_sort(tci_file_list *l);

/* ---- live input ---- */

/* Take the next 1..cap bytes, waiting for them; *ret_len 0: it is closed and all was taken. CLOSED
 * after tci_input_over. */
int tci_input_take(tc_input *in, char *buf, size_t cap, size_t *ret_len, tc_err *err) TC_CHECKED;
/* The command reads no more: writers get CLOSED, and so does who takes. Any thread. */
void tci_input_over(tc_input *in);

#endif
