/* SPDX-License-Identifier: Apache-2.0
 *
 * Models: what the harness asks for an answer. A tc_models is an interface; tc_models_open makes
 * one that speaks to servers of the OpenAI (Chat Completions) and Anthropic (Messages) kind and plays
 * scripts, and a program may bring its own.
 *
 * Messages are JSON as they are kept in a session: {"role":"user","content":...}, "assistant",
 * "toolResult", "system" with sections and tools (docs/sessions.md). A transcript is a list of such
 * texts, each with its role beside it, so that a model which knows the earlier ones need not read them
 * again. An answer is an assistant message; whatever goes wrong on the way to the model, or there, is one
 * too, with stopReason "error" or "aborted" and the words in errorMessage. Threads: any; calls block. */
#ifndef TELECHIR_MODEL_H
#define TELECHIR_MODEL_H

#include <telechir/json.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is known of a model. Numbers that are not known are 0.
 *   context_window, max_tokens   tokens
 *   reasons, takes_images
 *   image_max_*     limits of one image; bytes of its base64
 *   has_cost        USD per million tokens */
typedef struct tc_model {
    tc_str provider, id;
    uint64_t context_window, max_tokens;
    bool reasons, takes_images;
    uint64_t image_max_width, image_max_height, image_max_bytes;
    bool has_cost;
    double cost_input, cost_output, cost_cache_read, cost_cache_write;
} tc_model;

typedef enum tc_cache_retention { TC_CACHE_SHORT, TC_CACHE_NONE, TC_CACHE_LONG } tc_cache_retention;

/* A message of a transcript. role says what the member "role" of json does. */
typedef enum tc_role {
    TC_ROLE_OTHER,
    TC_ROLE_USER,
    TC_ROLE_ASSISTANT,
    TC_ROLE_TOOL_RESULT,
    TC_ROLE_SYSTEM
} tc_role;
typedef struct tc_message {
    tc_str json;
    tc_role role;
} tc_message;

/* A JSON array as messages, and back; both copy into r. PARSE, INVALID: no array of objects. */
TC_API int tc_messages_parse(tc_str json, tc_result *r, const tc_message **ret_messages,
                             size_t *ret_nmessages, tc_err *err) TC_CHECKED;
TC_API int tc_messages_text(const tc_message *messages, size_t nmessages, tc_result *r,
                            tc_str *ret_json, tc_err *err) TC_CHECKED;

/* One question.
 *   messages     the whole transcript, system messages where they stand; borrowed for the call
 *   session_id   the provider's key for its cache; empty: none
 *   reasoning    "minimal" "low" "medium" "high" "xhigh" "max"; empty: off
 *   max_tokens   of the answer; 0: the model's
 *   max_retries  inside this request, for failures that a repeat may cure; default 0
 *   max_retry_delay_ms  a server that asks for a longer wait makes the request fail; 0: 60000
 *   timeout_ms   without any byte from the server; 0: 600000
 *   headers, metadata   JSON objects; empty: none */
typedef struct tc_model_request {
    size_t size;
    tc_model model;
    const tc_message *messages;
    size_t nmessages;
    tc_str session_id;
    tc_str reasoning;
    uint64_t max_tokens;
    tc_cache_retention cache_retention;
    uint64_t timeout_ms, max_retries, max_retry_delay_ms;
    tc_str headers, metadata;
    bool may_defer;
} tc_model_request;

/* What comes in while the model answers. The message so far is what START gave with the blocks and
 * deltas after it applied; its stopReason is "pending".
 *   START      json: the message without content blocks ({"role":"assistant","content":[],...})
 *   BLOCK      json: a new content block at index, text and thinking empty, a call with "arguments":{}
 *   TEXT       more text of the text or thinking block at index
 *   BLOCK_END  json: the whole block at index, in its final form (calls: with their arguments)
 *   MESSAGE    json: an object; its members replace those of the message (usage, responseId) */
typedef enum tc_model_event_type {
    TC_MODEL_START,
    TC_MODEL_BLOCK,
    TC_MODEL_TEXT,
    TC_MODEL_BLOCK_END,
    TC_MODEL_MESSAGE
} tc_model_event_type;
typedef struct tc_model_event {
    tc_model_event_type type;
    size_t index;
    tc_str json;
    tc_str text;
} tc_model_event;

/* Where events go, on the calling thread, one at a time.
 *   on_event   0 to go on; another return ends the call as if it had been cancelled
 *   on_tick    NULL, or called when its time has come and after every batch of events: how many
 *              milliseconds until it wants to be called again; -1: not before the next event */
typedef struct tc_model_sink {
    int (*on_event)(void *user, const tc_model_event *event, tc_err *err);
    int64_t (*on_tick)(void *user);
    void *user;
} tc_model_sink;

typedef struct tc_models {
    size_t size;
    void *user;
    /* NOT_FOUND: no such model. Texts of *ret_model live in r. Quick; called with locks held. */
    int (*get_model)(void *user, tc_str provider, tc_str id, tc_result *r, tc_model *ret_model,
                     tc_err *err);
    /* Ask, and wait for the whole answer. ctx cancelled: an answer with stopReason "aborted". sink NULL:
     * nobody watches. *ret_message: the assistant message, JSON, in r. Fails only for reasons of ours
     * (memory, a malformed request). */
    int (*ask)(void *user, tc_ctx *ctx, const tc_model_request *request, const tc_model_sink *sink,
               tc_result *r, tc_str *ret_message, tc_err *err);
    /* Of an answer with stopReason "deferred": handle is its "deferred" member. NULL: never defers. */
    int (*fetch_deferred)(void *user, tc_ctx *ctx, const tc_model *model, tc_str handle,
                          tc_result *r, tc_str *ret_message, tc_err *err);
    int (*cancel_deferred)(void *user, tc_ctx *ctx, const tc_model *model, tc_str handle,
                           tc_err *err);
} tc_models;

/* Servers and scripts. Models are named provider and id:
 *   openai/ID, anthropic/ID   a server that speaks that protocol
 *   scripted/FILE             answers from a file: {"turns":[{"text","thinking","tool_calls":[{"id",
 *                             "name","arguments"}],"delay_ms","stop","error"}]}; the turn played is the number
 *                             of assistant messages in the transcript
 *   base_url    of the server instead of the vendor's; then a key is sent only if there is one
 *   key_file    its first line is the key of every provider; empty: OPENAI_API_KEY,
 *               ANTHROPIC_API_KEY of the process's environment, read once, when opening
 *   ca_file     certificates to trust instead of the system's
 *   facts       of every model, where not 0: overrule the catalogue
 *   now_ms      the clock of messages; NULL: the wall clock */
typedef struct tc_models_options {
    size_t size;
    tc_str base_url, key_file, ca_file;
    tc_model facts;
    int64_t (*now_ms)(void *user);
    void *now_user;
} tc_models_options;
/* options may be NULL. IO, INVALID: the key file. */
TC_API int tc_models_open(const tc_models_options *options, tc_models **ret_models,
                          tc_err *err) TC_CHECKED;
/* No question may be under way. Only what tc_models_open made. NULL is fine. */
TC_API void tc_models_close(tc_models *models);

#ifdef __cplusplus
}
#endif
#endif
