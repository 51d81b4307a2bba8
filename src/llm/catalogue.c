/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of models without asking: sizes and prices, as their makers publish them. A name that is
 * not here is used all the same, with nothing known of it (no price is shown, and no compaction by
 * size). Longest prefix wins, so that dated names find their family. Any thread. */
#include "llm/llm_int.h"

typedef struct known {
    const char *provider, *prefix;
    uint64_t context_window, max_tokens;
    bool reasons, takes_images;
    double input, output, cache_read, cache_write; /* USD per million tokens; input 0: not known */
} known;

static const known models[] = {
    {"openai", "gpt-4o", 128000, 16384, false, true, 2.5, 10, 1.25, 0},
    {"openai", "gpt-4o-mini", 128000, 16384, false, true, 0.15, 0.6, 0.075, 0},
    {"openai", "gpt-4.1", 1047576, 32768, false, true, 2, 8, 0.5, 0},
    {"openai", "gpt-4.1-mini", 1047576, 32768, false, true, 0.4, 1.6, 0.1, 0},
    {"openai", "gpt-4.1-nano", 1047576, 32768, false, true, 0.1, 0.4, 0.025, 0},
    {"openai", "o3", 200000, 100000, true, true, 2, 8, 0.5, 0},
    {"openai", "o4-mini", 200000, 100000, true, true, 1.1, 4.4, 0.275, 0},
    {"openai", "gpt-5", 400000, 128000, true, true, 1.25, 10, 0.125, 0},
    {"openai", "gpt-5-mini", 400000, 128000, true, true, 0.25, 2, 0.025, 0},
    {"openai", "gpt-5-nano", 400000, 128000, true, true, 0.05, 0.4, 0.005, 0},
    {"anthropic", "claude-3-5-haiku", 200000, 8192, false, true, 0.8, 4, 0.08, 1},
    {"anthropic", "claude-3-5-sonnet", 200000, 8192, false, true, 3, 15, 0.3, 3.75},
    {"anthropic", "claude-3-7-sonnet", 200000, 64000, true, true, 3, 15, 0.3, 3.75},
    {"anthropic", "claude-sonnet-4", 200000, 64000, true, true, 3, 15, 0.3, 3.75},
    {"anthropic", "claude-opus-4", 200000, 32000, true, true, 15, 75, 1.5, 18.75},
    {"anthropic", "claude-opus-4-5", 200000, 64000, true, true, 5, 25, 0.5, 6.25},
    {"anthropic", "claude-haiku-4-5", 200000, 64000, true, true, 1, 5, 0.1, 1.25},
};

bool tci_catalogue_find(tc_str provider, tc_str id, tc_model *ret)
{
    const known *best = NULL;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        const known *k = &models[i];
        if (tci_str_eq(provider, tci_str(k->provider)) && tci_str_starts(id, tci_str(k->prefix)) &&
            (best == NULL || strlen(k->prefix) > strlen(best->prefix)))
            best = k;
    }
    if (best == NULL)
        return false;
    *ret = (tc_model){.provider = provider,
                      .id = id,
                      .context_window = best->context_window,
                      .max_tokens = best->max_tokens,
                      .reasons = best->reasons,
                      .takes_images = best->takes_images,
                      .has_cost = best->input > 0,
                      .cost_input = best->input,
                      .cost_output = best->output,
                      .cost_cache_read = best->cache_read,
                      .cost_cache_write = best->cache_write};
    return true;
}
