/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of the model providers. One question is one call on one thread: the transcript is adapted
 * (transcript.c), written as a server's request (openai.c, anthropic.c), sent (exchange.c), and what
 * comes back is put together event by event (answer.c). */
#ifndef TCI_LLM_INT_H
#define TCI_LLM_INT_H

#include "base/json_tree.h"
#include "base/secret.h"
#include "llm/llm.h"
#include "plat/call.h"

/* ---- the answer being put together ---- */

typedef enum tci_block_kind { TCI_BLOCK_TEXT, TCI_BLOCK_THINKING, TCI_BLOCK_CALL } tci_block_kind;

typedef struct tci_block {
    tci_block_kind kind;
    tci_buf text;      /* text, thinking, or the arguments as they came */
    tci_buf signature; /* of thinking */
    tc_str id, name;   /* of a call */
    int64_t key;       /* the server's own index of it; -1: none */
    bool is_redacted;
    bool is_ended;
} tci_block;

typedef struct tci_usage {
    uint64_t input, output, cache_read, cache_write, total;
    uint64_t cache_write_1h, reasoning; /* 0: not stated */
} tci_usage;

enum { TCI_BLOCKS_MAX = 4096, TCI_ANSWER_MAX = 64 * 1024 * 1024 };

/* One answer, from the first byte to the final message. Texts are kept in arena. */
typedef struct tci_answer {
    tci_arena *arena;
    const char *api;
    const tc_model *model;
    const tc_model_sink *sink; /* may be NULL */
    int64_t timestamp;
    tci_block *blocks;
    size_t nblocks, cap;
    size_t nbytes; /* of all blocks */
    tci_usage usage;
    const char *stop_reason; /* NULL: the server has not said */
    tc_str raw_stop_reason, error_message, response_id, response_model;
    bool has_started;
} tci_answer;

void tci_answer_init(tci_answer *a, tci_arena *arena, const char *api, const tc_model *model,
                     const tc_model_sink *sink, int64_t now_ms);
void tci_answer_done(tci_answer *a);
/* A new block; told to the sink. id and name of calls, copied; an id that is empty or taken in this
 * answer is replaced by one that is not. TOO_BIG, NO_MEMORY, what the sink says. */
int tci_answer_block(tci_answer *a, tci_block_kind kind, int64_t key, tc_str id, tc_str name,
                     tci_block **ret_block, tc_err *err) TC_CHECKED;
/* The open block of that key and kind; NULL when there is none. */
tci_block *tci_answer_find(tci_answer *a, tci_block_kind kind, int64_t key);
/* More of it; of calls: more of the arguments, which the sink does not see before the end. */
int tci_answer_text(tci_answer *a, tci_block *block, tc_str text, tc_err *err) TC_CHECKED;
int tci_answer_end_block(tci_answer *a, tci_block *block, tc_err *err) TC_CHECKED;
int tci_answer_end_blocks(tci_answer *a, tc_err *err) TC_CHECKED; /* all that are open */
/* Usage, id and model as known now, to the sink. */
int tci_answer_tell(tci_answer *a, tc_err *err) TC_CHECKED;
/* It ended badly: "error" or "aborted" and why; the first reason stays. */
void tci_answer_fail(tci_answer *a, const char *stop_reason, const char *fmt, ...) TC_PRINTF(3, 4);
/* Let time pass, with the sink's ticks (NULL: none). false: cancelled, or the context's time is up. */
bool tci_pause_ms(tc_ctx *ctx, const tc_model_sink *sink, int64_t ms);
/* The message as it is now, whole. */
void tci_answer_put(tci_buf *b, const tci_answer *a);

/* Arguments of a call as text: the object itself when text is one (or can be repaired to one), else {} and
 * *ret_is_bad. Appends to b. */
void tci_arguments_put(tci_buf *b, tc_str text, bool *ret_is_bad);

/* ---- the question ---- */

/* A transcript as servers want it: one system text, the tools in effect, messages of users,
 * assistants and tools. Values point into the transcript and the arena. */
typedef struct tci_transcript {
    tc_str system; /* empty: none */
    const tci_json **tools;
    size_t ntools;
    const tci_json **messages;
    size_t nmessages;
    bool has_calls; /* some assistant called a tool */
} tci_transcript;
int tci_transcript_of(const tc_message *messages, size_t nmessages, tci_arena *arena,
                      tci_transcript *ret, tc_err *err) TC_CHECKED;

/* What stands where an image was that the model cannot see. */
#define TCI_NO_IMAGE TC_STR("(image omitted: model does not support images)")
tc_str tci_role_of(const tci_json *message); /* "user"; empty when it has none */
bool tci_is_type(const tci_json *block, const char *type);
/* Was the message made by this very model over this api? */
bool tci_is_own(const tci_json *message, const tc_model *model, const char *api);

/* ---- a kind of server ---- */

typedef struct tci_server {
    const char *provider, *api, *default_url, *path, *key_variable;
    /* The request's body. */
    int (*put_request)(tci_buf *b, const tc_model_request *request, const tci_transcript *t,
                       bool is_vendor, tc_err *err);
    /* Headers beside content type and those asked for: the credential's line among them, in a secret. */
    int (*put_key_header)(tci_buf *b, tc_str key);
    const char *fixed_header; /* NULL: none */
    /* One event of the answer. */
    int (*on_event)(tci_answer *a, tc_str name, tc_str data, tc_err *err);
    /* The stream ended by itself: is the answer whole? */
    void (*on_end)(tci_answer *a);
} tci_server;
extern const tci_server tci_openai, tci_anthropic;

/* The message of an error body, {"error":{"message":...}} and the like; the start of it otherwise. */
tc_str tci_error_text(tc_str body, tci_arena *arena);

/* ---- sending ---- */

typedef struct tci_lane tci_lane; /* a connection kept for the next question */

/* Free lanes of one tc_models; guarded by its own lock. */
typedef struct tci_lanes {
    tci_mutex lock;
    tci_lane *free;
} tci_lanes;
void tci_lanes_init(tci_lanes *lanes);
void tci_lanes_done(tci_lanes *lanes);

typedef struct tci_exchange {
    const char *url;
    tc_str body;
    const char *const *headers; /* "Name: value", nheaders of them */
    size_t nheaders;
    const tci_secret *key_header; /* one more; NULL: none */
    const char *ca_file;          /* NULL: the system's */
    uint64_t idle_ms;             /* without a byte from the server */
    tci_answer *answer;
    const tci_server *server;
} tci_exchange;

/* How it went. status 0: no answer. error_body: the beginning of a body that is no event stream.
 * failure: of the transport, empty when there was none. foreign: what came although all went well, when it is
 * nothing that a model's server says, in a line that begins with TCI_NOT_AN_ANSWER; else empty. The rest:
 * headers about repeating, -1 when not sent. */
typedef struct tci_exchange_end {
    long status;
    tc_str error_body, failure, foreign;
    bool is_cancelled;
    int should_retry;       /* -1, 0, 1 */
    int64_t retry_after_ms; /* -1 */
} tci_exchange_end;
/* Post the body and feed the answer. Fails for reasons of ours only. */
int tci_exchange_run(tci_lanes *lanes, tc_ctx *ctx, const tci_exchange *x, tci_arena *arena,
                     tci_exchange_end *ret_end, tc_err *err) TC_CHECKED;

/* ---- what else answers ---- */

/* Scripts that were read, each used by one question at a time. */
typedef struct tci_script tci_script;
typedef struct tci_scripts {
    tci_mutex lock;
    tci_script *free;
} tci_scripts;
void tci_scripts_init(tci_scripts *scripts);
void tci_scripts_done(tci_scripts *scripts);
/* A script: see telechir/model.h. */
int tci_scripted_ask(tci_scripts *scripts, tc_str path, tc_ctx *ctx,
                     const tc_model_request *request, tci_answer *answer, tc_err *err) TC_CHECKED;

/* Facts of a model; false when it is not in the catalogue. */
bool tci_catalogue_find(tc_str provider, tc_str id, tc_model *ret);

#endif
