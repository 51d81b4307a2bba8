/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line as one table: parsing, help, completion and the manual page come from it. A
 * command is one row and one function in a file of its own name. Everything here is for the
 * program's main thread unless it says otherwise. */
#ifndef TCI_CLI_H
#define TCI_CLI_H

#include "base/buf.h"
#include "base/json.h"
#include <telechir/env.h>

/* Exit statuses that scripts can trust. */
enum {
    CLI_OK = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
    CLI_UNREACHABLE = 3,
    CLI_REFUSED = 4,
    CLI_UNKNOWN = 5,
    CLI_TIMED_OUT = 124,
    CLI_OURS = 125, /* exec and sh: a failure of ours, not of the command */
    CLI_SIGNAL_BASE = 128,
    CLI_INTERRUPTED = 130
};

typedef struct cli_option {
    const char *name;  /* "cwd" is typed --cwd */
    const char *value; /* placeholder; NULL: a flag */
    const char *help;
    char letter; /* 'r' is typed -r; 0: none */
    bool is_repeatable;
} cli_option;

typedef struct cli cli;
/* Standard input, read by a thread of its own so that Ctrl-C is heard meanwhile. */
typedef struct cli_input cli_input;

typedef struct cli_command {
    const char *name;
    const char *arguments; /* "[--] CMD ARG..." */
    const char *summary;
    const char *details;  /* more for --help; may be NULL */
    const char *examples; /* lines for --help; may be NULL */
    const cli_option *options;
    size_t noptions;
    bool takes_target;      /* --on and what goes with it */
    bool takes_link;        /* the target options without --on */
    bool takes_ssh;         /* only those of ssh */
    bool stops_at_first;    /* options end at the first argument (exec CMD ARG...) */
    bool takes_local_paths; /* arguments may name files here, whose names may be any bytes */
    bool is_hidden;         /* not in the overview, completion and manual */
    bool is_exec_like;      /* failures of ours exit 125 */
    const char *words;      /* for completion: "add list show", or NULL */
    int (*run)(cli *c);
} cli_command;

/* The tables (commands.c). */
extern const cli_command cli_commands[];
extern const size_t cli_ncommands;
/* What every command takes; what those that reach a target take; and --on alone. */
extern const cli_option cli_common_options[];
extern const size_t cli_ncommon_options;
extern const cli_option cli_target_options[];
extern const size_t cli_ntarget_options;
extern const cli_option cli_ssh_options[];
extern const size_t cli_nssh_options;
extern const cli_option cli_on_option;
/* NULL when there is no such command. */
const cli_command *cli_command_find(const char *name);
/* The n-th option that a command takes, of all its tables; NULL after the last. */
const cli_option *cli_command_option(const cli_command *command, size_t n);

enum { CLI_VALUES_MAX = 1024, CLI_ENVS_MAX = 8 };

typedef struct cli_given {
    const cli_option *option;
    const char *value; /* NULL of a flag */
} cli_given;

/* An environment that was opened, by the text that named it. */
typedef struct cli_opened {
    const char *target;
    tc_env *env;
} cli_opened;

struct cli {
    const cli_command *command;
    cli_given *given;
    size_t ngiven;
    const char **args; /* what is left */
    size_t nargs;
    bool is_json, is_quiet, is_verbose;
    tc_ctx *ctx;       /* cancelled by Ctrl-C */
    tc_ctx *watch_ctx; /* that too, and by the command itself when it has waited enough */
    tc_runtime *rt;    /* opened on first use */
    tc_result *result;
    tci_arena arena; /* as long as the command */
    cli_opened envs[CLI_ENVS_MAX];
    size_t nenvs;
    cli_input *input; /* NULL: not opened */
    tc_err err;
};

/* ---- options (options.c) ---- */

/* Read the words after the command's name into c. false: the error is in c->err. */
bool cli_parse(cli *c, int argc, char **argv);
/* The last value given, or NULL. */
const char *cli_value(const cli *c, const char *name);
bool cli_has(const cli *c, const char *name);
/* The n-th value of a repeatable option, or NULL. */
const char *cli_nth(const cli *c, const char *name, size_t n);
/* A whole number of at least min; dflt when not given. false: the error is in c->err. */
bool cli_number(cli *c, const char *name, uint64_t min, uint64_t dflt, uint64_t *ret);
/* Seconds with a fraction ("1.5"), more than 0, in milliseconds; 0 when not given. */
bool cli_seconds(cli *c, const char *name, uint64_t *ret_ms);
/* Is an argument text? Otherwise (INVALID) the error says which one it is. */
int cli_check_text(cli *c, const char *arg) TC_CHECKED;
/* min..max arguments; max SIZE_MAX: any number. false: a usage error is in c->err. */
bool cli_want_args(cli *c, size_t min, size_t max);

/* ---- talk and results (out.c) ---- */

/* Report c->err and give the exit status that goes with its code. */
int cli_fail(cli *c);
/* The same when standard output has the error already, with --json. */
int cli_fail_said(cli *c);
/* Report a usage error: status 2. */
int cli_usage(cli *c, const char *fmt, ...) TC_PRINTF(2, 3);
/* What c->err says is of the path as it was typed: "cannot DOING 'TYPED': ...". A daemon behind EIP
 * speaks in general terms; those become plain words. exists: what a CONFLICT means here; NULL: that
 * it exists. Gives the code. */
int cli_blame(cli *c, const char *doing, const char *typed, const char *exists);
/* A line of talk on standard error, unless --quiet; the second only with --verbose. */
void cli_say(const cli *c, const char *fmt, ...) TC_PRINTF(2, 3);
void cli_detail(const cli *c, const char *fmt, ...) TC_PRINTF(2, 3);
/* A line that is printed in any case: "telechir: ...". */
void cli_warn(const cli *c, const char *fmt, ...) TC_PRINTF(2, 3);
/* Write to standard output; false (and c->err) when it is closed or full, or when nobody takes it and
 * a signal was caught (CANCELLED). Any thread, one at a time; err instead of c->err for those that
 * are not the main thread. */
bool cli_out(cli *c, tc_str bytes);
bool cli_outf(cli *c, const char *fmt, ...) TC_PRINTF(2, 3);
int cli_write_stdout(tc_str bytes, tc_err *err) TC_CHECKED;
/* The same for standard error, byte for byte: the output of a command. */
int cli_write_stderr(tc_str bytes, tc_err *err) TC_CHECKED;
/* One JSON object, then a newline. */
bool cli_out_json(cli *c, tci_buf *json);
/* Lines of JSON; on a terminal with escapes for what would steer it. */
bool cli_out_lines(cli *c, tc_str json);

/* JSON members: `"key":value` with a comma before all but the first of an object. Text that is not
 * UTF-8 has its bad bytes replaced; _bytes writes "key" as text when it is UTF-8, else
 * "key_base64" (standard alphabet, no padding). */
void cli_json_str(tci_buf *b, bool *first, const char *key, tc_str value);
void cli_json_bytes(tci_buf *b, bool *first, const char *key, tc_str value);
void cli_json_u64(tci_buf *b, bool *first, const char *key, uint64_t value);
void cli_json_i64(tci_buf *b, bool *first, const char *key, int64_t value);
void cli_json_bool(tci_buf *b, bool *first, const char *key, bool value);
void cli_json_time(tci_buf *b, bool *first, const char *key, const tc_time *t);
/* "error":{"code":...,"message":...,"hint":...,...} with what the evidence says. */
void cli_json_error(tci_buf *b, bool *first, const cli *c, const tc_err *err);
/* A file's facts, as members. */
void cli_json_info(tci_buf *b, bool *first, const tc_file_info *info);
/* "file", "directory", "symlink", "other". */
const char *cli_kind_name(tc_file_kind kind);
/* The end of a plural: "file%s". */
static inline const char *cli_s(uint64_t n)
{
    return n == 1 ? "" : "s";
}
/* Text of a name for a terminal, in one line: control characters become '?' (base/plain.h). */
void cli_put_name(tci_buf *b, tc_str name);
/* Text of somebody else for standard output: harmless on a terminal (control characters become '?', but
 * for tabs and ends of lines), elsewhere as it is. UTF-8 in any case. */
void cli_put_text(tci_buf *b, tc_str text);
/* A line of it for talk, in the arena; "?" when there is no memory. */
tc_str cli_plain(tci_arena *a, tc_str text);

/* ---- folders of ours (folders.c) ---- */

typedef enum cli_folder { CLI_FOLDER_CONFIG, CLI_FOLDER_DATA, CLI_FOLDER_STATE } cli_folder;
/* "$XDG_DATA_HOME/telechir" and the like, in the command's arena; it need not be there. *ret_home: the home
 * folder when the variable is not set and the folder is below it, else empty; may be NULL. NOT_FOUND when
 * nothing says where. */
int cli_our_folder(cli *c, cli_folder which, tc_str *ret, tc_str *ret_home, tc_err *err) TC_CHECKED;
/* A folder of settings or state, and those above it, for their owner alone. */
int cli_make_folder(tc_str path, tc_err *err) TC_CHECKED;
/* A file of theirs, for its owner alone: written and synced beside it, then renamed over it. */
int cli_replace_file(cli *c, tc_str file, tc_str content, tc_err *err) TC_CHECKED;

/* ---- reaching a target (env.c) ---- */

/* Close an environment that the command made for itself, and give it back. Returns rc when that is a failure (what
 * closing says is then not told), else what closing said. */
int cli_leave(cli *c, tc_env *env, int rc) TC_CHECKED;

/* The runtime, opened when first needed; NULL: c->err. */
tc_runtime *cli_runtime(cli *c);
/* A call that Ctrl-C ends, answering into c->result. */
tc_call cli_call(cli *c);
/* Does it speak EIP only? Others take whole files and commands as they are. */
bool cli_is_eip(const tc_env *env);
/* The environment that on names, or --on (default: local), ready; NULL: c->err. Borrowed. */
tc_env *cli_env(cli *c, const char *on);
/* One end of a copy: "NAME:path", "TARGET:/path", or a path here. */
typedef struct cli_place {
    bool is_local;
    tc_env *env;
    const char *path;
    const char *target; /* NULL when local */
    tc_str absolute;    /* by cli_there, with --json: the path as the target knows it */
} cli_place;
int cli_place_of(cli *c, const char *text, cli_place *ret) TC_CHECKED;
/* A path of a command that works on one side: "TARGET:/path" without --on, where TARGET is a full
 * form, `local` or saved; anything else is a path on the command's target. Never here. */
int cli_there(cli *c, const char *text, cli_place *ret) TC_CHECKED;
/* "HOST:/path" or "USER@HOST:~/path", as scp takes it (target_form.c). */
bool cli_is_scp_form(tc_str text);
/* Close what was opened. */
void cli_close(cli *c);

/* ---- input (input.c) ---- */

/* Once in a command. Any thread. */
int cli_input_open(cli *c, cli_input **ret_input, tc_err *err) TC_CHECKED;
/* At the end of the command. A read that nothing can end keeps it (and c->input). */
void cli_input_close(cli *c);
/* 1..cap bytes; *ret_len 0 at the end. One thread at a time. CANCELLED by ctx, IO. */
int cli_input_read(cli_input *in, const tc_ctx *ctx, void *buf, size_t cap, size_t *ret_len,
                   tc_err *err) TC_CHECKED;
/* A tc_source over a cli_feed. */
typedef struct cli_feed {
    cli_input *in;
    const tc_ctx *ctx;
} cli_feed;
int cli_input_source(void *user, void *buf, size_t cap, size_t *ret_len, tc_err *err);
/* All of it into out. */
int cli_input_all(cli *c, tci_buf *out) TC_CHECKED;

/* ---- progress (progress.c) ---- */

/* Progress of something longer than two seconds, on a terminal only. Any thread, one at a time. */
typedef struct cli_progress {
    bool is_on, is_shown;
    const char *what;
    uint64_t done, total;       /* bytes; total 0: not known */
    uint64_t files_done, files; /* files 0: not counted */
    int64_t started_ns, shown_ns;
} cli_progress;
void cli_progress_start(cli_progress *p, const cli *c, const char *what, uint64_t total,
                        uint64_t files);
void cli_progress_add(cli_progress *p, uint64_t nbytes, uint64_t nfiles);
void cli_progress_end(cli_progress *p);
/* "1.5 MiB"; returns out. */
enum { CLI_SIZE_TEXT_MAX = 24 };
const char *cli_size_text(uint64_t nbytes, char out[CLI_SIZE_TEXT_MAX]);

/* ---- help (help.c) ---- */

void cli_put_usage(tci_buf *b, const cli_command *command);
int cli_help(cli *c, const cli_command *command);
int cli_overview(cli *c);

/* ---- signals (main.c) ---- */

/* The signal that was caught, or 0. Any thread. */
int cli_caught(void);
/* After Ctrl-C was heard and acted on: the next one counts again. No call may be under way. */
void cli_rearm(cli *c);
/* Standard output or error opened once more so that a write does not wait; -1: it cannot be. */
int cli_unwaiting(int fd);

/* ---- the commands ---- */

int cmd_cat(cli *c);
int cmd_chat(cli *c);
int cmd_completion(cli *c);
int cmd_cp(cli *c);
int cmd_demo(cli *c);
int cmd_devices(cli *c);
int cmd_doctor(cli *c);
int cmd_edit(cli *c);
int cmd_exec(cli *c);
int cmd_find(cli *c);
int cmd_forget(cli *c);
int cmd_grep(cli *c);
int cmd_help(cli *c);
int cmd_host(cli *c);
int cmd_http_envd(cli *c);
int cmd_ls(cli *c);
int cmd_manual(cli *c);
int cmd_mkdir(cli *c);
int cmd_rm(cli *c);
int cmd_run(cli *c);
int cmd_sessions(cli *c);
int cmd_sh(cli *c);
int cmd_target(cli *c);
int cmd_tree(cli *c);
int cmd_trust(cli *c);
int cmd_version(cli *c);
int cmd_websocket_envd(cli *c);
int cmd_write(cli *c);

#endif
