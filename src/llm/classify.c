/* SPDX-License-Identifier: Apache-2.0
 *
 * What an error text means for the next attempt. The words are those that servers and networks use; a
 * table of them decides, and a text that matches none is final. Any thread. */
#include "llm/llm.h"

#include "base/str.h"

/* A pattern: pieces separated by '*' must follow one another, any case; '?' stands for at most one
 * character; '#' for a number (digits and commas). */
static bool match_here(tc_str text, tc_str pattern)
{
    while (pattern.len > 0) {
        char p = pattern.ptr[0];
        tc_str rest = tci_str_sub(pattern, 1, pattern.len);
        if (p == '*') {
            for (size_t i = 0; i <= text.len; i++) {
                if (match_here(tci_str_sub(text, i, text.len), rest))
                    return true;
            }
            return false;
        }
        if (p == '?') {
            if (match_here(text, rest))
                return true;
        } else if (p == '#') {
            size_t n = 0;
            while (n < text.len &&
                   ((text.ptr[n] >= '0' && text.ptr[n] <= '9') || text.ptr[n] == ','))
                n++;
            if (n == 0)
                return false;
            text = tci_str_sub(text, n, text.len);
            pattern = rest;
            continue;
        } else if (text.len == 0 ||
                   !tci_str_eq_nocase(tci_str_sub(text, 0, 1), tci_str_sub(pattern, 0, 1))) {
            return false;
        }
        if (text.len == 0)
            return false;
        text = tci_str_sub(text, 1, text.len);
        pattern = rest;
    }
    return true;
}

static bool contains(tc_str text, const char *pattern)
{
    for (size_t i = 0; i < text.len; i++) {
        if (match_here(tci_str_sub(text, i, text.len), tci_str(pattern)))
            return true;
    }
    return false;
}

static bool contains_any(tc_str text, const char *const *patterns, size_t n)
{
    enum { LOOKED_AT = 8192 }; /* the reason stands at the beginning */
    text = tci_str_sub(text, 0, LOOKED_AT);
    for (size_t i = 0; i < n; i++) {
        if (contains(text, patterns[i]))
            return true;
    }
    return false;
}

#define CONTAINS_ANY(text, table) contains_any((text), (table), sizeof(table) / sizeof(table)[0])

/* The account is at its end, the server wants to be left alone for long, or it is none: waiting a little does
 * not help. */
static const char *const final_words[] = {
    "GoUsageLimitError",
    "FreeUsageLimitError",
    "monthly usage limit",
    "available balance",
    "insufficient?quota",
    "out of budget",
    "quota exceeded",
    "billing",
    "subscription_sharing_usage_limit_exceeded",
    "asks for a wait of",
    TCI_NOT_AN_ANSWER,
    "cannot ask the server:",
};

static const char *const passing_words[] = {
    "overloaded",
    "server_busy",
    "servers are currently busy",
    "high demand",
    "at capacity",
    "rate?limit",
    "too many requests",
    "429",
    "500",
    "502",
    "503",
    "504",
    "520",
    "524",
    "service?unavailable",
    "service is unavailable",
    "service temporarily unavailable",
    "service is temporarily unavailable",
    "server?error",
    "internal?error",
    "provider?returned?error",
    "provider?returned?an?error",
    "retrying upstream",
    "unable to forward upstream",
    "network?error",
    "connection?error",
    "connection?refused",
    "connection?lost",
    "connection?reset",
    "other side closed",
    "fetch failed",
    "getaddrinfo",
    "ENOTFOUND",
    "EAI_AGAIN",
    "could not resolve",
    "upstream?connect",
    "reset before headers",
    "socket hang up",
    "socket connection was closed",
    "timed out",
    "time out",
    "timeout",
    "terminated",
    "websocket?closed",
    "websocket?error",
    "ended without",
    "stream ended before",
    "http2 request did not get a response",
    "pending stream has been canceled",
    "retry delay",
    "you can retry your request",
    "try your request again",
    "please retry your request",
    "ResourceExhausted",
    "subscription_sharing_usage_unavailable",
    "subscription_sharing_user_unavailable",
};

static const char *const too_long_words[] = {
    "prompt too long",
    "prompt is too long",
    "prompt exceeds max length",
    "request_too_large",
    "input is too long for requested model",
    "exceeds the context window",
    "exceeds*maximum context length",
    "input token count*exceeds the maximum",
    "maximum prompt length is #",
    "reduce the length of the messages",
    "maximum context length is # tokens",
    "exceeds*maximum allowed input length of #",
    "is longer than the model?s context length",
    "is longer than the models context length",
    "exceeds the limit of #",
    "exceeds the available context size",
    "greater than the context length",
    "context window exceeds limit",
    "exceeded model token limit",
    "too large for model with # maximum context length",
    "but the configured context size is #",
    "model_context_window_exceeded",
    "exceeded context length",
    "exceeded max context length",
    "range of input length should be",
    "context?length?exceeded",
    "too many tokens",
    "token limit exceeded",
};

static const char *const not_too_long_words[] = {
    TCI_NOT_AN_ANSWER, /* what else is in it is a page of somebody's */
    "Throttling error:", "Service unavailable:", "rate limit", "too many requests",
};

bool tci_llm_is_retryable(tc_str error_message)
{
    return !CONTAINS_ANY(error_message, final_words) && CONTAINS_ANY(error_message, passing_words);
}

bool tci_llm_is_overflow(tc_str error_message)
{
    return !CONTAINS_ANY(error_message, not_too_long_words) &&
           CONTAINS_ANY(error_message, too_long_words);
}
