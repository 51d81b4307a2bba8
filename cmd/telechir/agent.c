/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening what an agent needs: session, target, models, tools, conversation. Leaves running it to its
 * callers. Invariant: the target is reached before anything is asked of a model, it is the one the
 * session remembers unless another one is named, and it is never this machine because another one
 * could not be reached. */
#include "agent.h"

#include "plat/clock.h"
#include "plat/env.h"
#include "plat/file.h"
#include "target.h"

/* ---- where sessions are ---- */

int agent_folder(cli *c, tc_str *ret, tc_err *err)
{
    tc_str ours;
    if (cli_our_folder(c, CLI_FOLDER_DATA, &ours, NULL, err) < 0)
        return err->code == TC_E_NOT_FOUND
                   ? tc_err_hint(err, "set HOME or XDG_DATA_HOME, or say where the session is")
                   : err->code;
    return tci_arena_printf(&c->arena, ret, err, "%.*s/sessions", TC_STR_ARG(ours));
}

/* A name that sorts by time and that nobody else takes. */
static int fresh_path(cli *c, tc_str *ret)
{
    tc_str folder;
    tci_instant now = tci_clock_now();
    char when[TCI_RFC3339_MAX];
    uint32_t random;
    if (agent_folder(c, &folder, &c->err) < 0)
        return c->err.code;
    now.nsec = 0;
    size_t len = tci_rfc3339_text(now, when);
    for (size_t i = 0; i < len; i++) {
        if (when[i] == ':')
            when[i] = '-';
    }
    tci_random_bytes(&random, sizeof random);
    return tci_arena_printf(&c->arena, ret, &c->err, "%.*s/%.*s-%08x.sqlite", TC_STR_ARG(folder),
                            (int)len, when, random);
}

static int open_session(agent *a)
{
    cli *c = a->c;
    const char *given = cli_value(c, "session");
    tc_durable_options options = {.size = sizeof options};
    const char *durability = cli_value(c, "durability");
    if (durability != NULL && strcmp(durability, "full") != 0 && strcmp(durability, "normal") != 0)
        return tc_err_set(&c->err, TC_E_INVALID, "--durability is full or normal");
    if (durability != NULL && strcmp(durability, "normal") == 0)
        options.durability = TC_DURABILITY_NORMAL;
    if (given != NULL)
        a->path = tci_str(given);
    else if (fresh_path(c, &a->path) < 0)
        return c->err.code;
    options.must_exist = given != NULL && c->nargs == 0 && strcmp(c->command->name, "run") == 0;
    int rc = tc_durable_open(a->path, &options, &a->session, &c->err);
    if (rc == TC_E_NOT_FOUND && options.must_exist)
        return tc_err_hint(&c->err, "to begin a session, give a prompt");
    if (rc == 0 && given == NULL)
        cli_say(c, "session %.*s", TC_STR_ARG(a->path));
    return rc;
}

/* ---- the target ---- */

/* Another adapter on the same connection, for another working folder. The caller has the lock. */
static int env_for(agent *a, tc_str cwd, tc_ctx *ctx, tc_env **ret_env, tc_err *err)
{
    for (size_t i = 0; i < a->nenvs; i++) {
        if (tci_str_eq(tci_str(a->envs[i].cwd), cwd)) {
            *ret_env = tc_env_retain(a->envs[i].env);
            return 0;
        }
    }
    if (a->nenvs == AGENT_ENVS_MAX)
        return tc_err_set(err, TC_E_BUSY, "more than %d working folders in one run",
                          AGENT_ENVS_MAX);
    cli_target t;
    tc_env *env = NULL;
    char *kept = tci_mem_cstr(cwd);
    if (kept == NULL)
        return tci_err_no_memory(err);
    int rc = cli_target_resolve(&a->maker, a->on, &t, err);
    if (rc == 0)
        rc = cli_env_create(&a->maker, a->maker.rt, &t, &env, err);
    if (rc == 0)
        rc = tc_env_ready(env, ctx, err);
    if (rc == 0)
        rc = tc_env_set_cwd(env, cwd, err);
    if (rc < 0) {
        tc_env_release(env);
        tci_free(kept);
        return rc;
    }
    a->envs[a->nenvs++] = (agent_env){kept, env};
    *ret_env = tc_env_retain(env);
    return 0;
}

/* Where one call works. Tasks ask, each on its own thread. */
static int on_env(void *user, const tc_env_target *target, tc_ctx *ctx, tc_env **ret_env,
                  tc_err *err)
{
    agent *a = user;
    tc_str cwd = target->cwd.len > 0 ? target->cwd : tc_env_cwd(a->env);
    tci_mutex_lock(&a->lock);
    int rc = env_for(a, cwd, ctx, ret_env, err);
    tci_mutex_unlock(&a->lock);
    return rc;
}

static void on_env_release(void *user, tc_env *env)
{
    TCI_UNUSED(user);
    tc_env_release(env);
}

static int become_maker(agent *a)
{
    a->maker = *a->c;
    a->maker.result = NULL;
    tci_arena_init(&a->maker.arena, 0);
    return tc_result_new(&a->maker.result, &a->c->err);
}

/* A runtime whose daemon children do not have the models' keys: what a tool can print, the model reads and
 * the session keeps. */
static int open_runtime(cli *c)
{
    static const char *const kept_out[] = {"OPENAI_API_KEY=", "ANTHROPIC_API_KEY="};
    char *const *all = tci_env_list();
    size_t n = 0, nall = 0;
    while (all[nall] != NULL)
        nall++;
    const char **some = tci_arena_items(&c->arena, const char *, nall + 1);
    if (some == NULL)
        return tci_arena_error(&c->arena, &c->err);
    for (size_t i = 0; i < nall; i++) {
        bool is_key = false;
        for (size_t k = 0; k < TCI_ARRAY_LEN(kept_out); k++)
            is_key = is_key || tci_str_starts(tci_str(all[i]), tci_str(kept_out[k]));
        if (!is_key)
            some[n++] = all[i];
    }
    tc_runtime_options options = {.size = sizeof options, .environment = some};
    return c->rt != NULL ? 0 : tc_runtime_open(&options, &c->rt, &c->err);
}

static int give(cli *c, const char *name, tc_str value)
{
    char *text;
    if (cli_has(c, name))
        return 0;
    if (c->ngiven == CLI_VALUES_MAX)
        return tc_err_set(&c->err, TC_E_TOO_BIG, "too many options were given");
    if (tci_arena_cstr(&c->arena, value, &text, &c->err) < 0)
        return c->err.code;
    for (size_t i = 0; i < cli_ntarget_options; i++)
        if (strcmp(cli_target_options[i].name, name) == 0)
            c->given[c->ngiven++] = (cli_given){&cli_target_options[i], text};
    return 0;
}

/* A name at a Host means what it means today: as if the Host and the device's identity had been typed, and so to be
 * remembered. */
static int pin(agent *a)
{
    cli_target t;
    tc_str was = agent_way(a, "device-id"), is = tc_env_device_id(a->env);
    if (was.len > 0 && is.len > 0 && !tci_str_eq(was, is))
        a->is_moved = true; /* the same words, and another machine */
    int rc = cli_target_resolve(a->c, a->on, &t, &a->c->err);
    if (rc < 0 || t.kind != CLI_TARGET_HOST)
        return rc;
    rc = give(a->c, "host", t.host);
    return rc == 0 ? give(a->c, "device-id", tc_env_device_id(a->env)) : rc;
}

static int reach(agent *a)
{
    if (open_runtime(a->c) < 0)
        return a->c->err.code;
    a->env = cli_env(a->c, a->on_text);
    if (a->env == NULL || pin(a) < 0)
        return a->c->err.code;
    char *cwd = tci_mem_cstr(tc_env_cwd(a->env));
    if (cwd == NULL)
        return tci_err_no_memory(&a->c->err);
    a->envs[a->nenvs++] = (agent_env){cwd, tc_env_retain(a->env)};
    return become_maker(a);
}

/* ---- models and tools ---- */

static int open_models(agent *a)
{
    cli *c = a->c;
    tc_models_options options = {.size = sizeof options,
                                 .base_url = tci_str(a->base_url),
                                 .key_file = tci_str(a->key_file),
                                 .ca_file = tci_str(cli_value(c, "model-ca-file"))};
    if (!cli_number(c, "context-window", 1, 0, &options.facts.context_window) ||
        !cli_number(c, "max-tokens", 1, 0, &options.facts.max_tokens))
        return c->err.code;
    return tc_models_open(&options, &a->models, &c->err);
}

static void on_report(void *user, const tc_report *report)
{
    const agent *a = user;
    if (report->type == TC_REPORT_SESSION_FAILED) /* the command fails of it, and says so */
        cli_detail(a->c, "%s: %.*s", tc_report_type_name(report->type),
                   TC_STR_ARG(report->message));
    else if (report->task_id != 0)
        cli_warn(a->c, "%s: task %llu (%.*s): %.*s", tc_report_type_name(report->type),
                 (unsigned long long)report->task_id, TC_STR_ARG(report->kind),
                 TC_STR_ARG(report->message));
    else
        cli_warn(a->c, "%s: %.*s", tc_report_type_name(report->type), TC_STR_ARG(report->message));
}

static void make_tools(agent *a)
{
    tc_tool_read(NULL, &a->tools[0]);
    tc_tool_write(&a->tools[1]);
    tc_tool_edit(&a->tools[2]);
    tc_tool_bash(NULL, &a->tools[3]);
    tc_tool_ls(&a->tools[4]);
    tc_tool_grep(&a->tools[5]);
    tc_tool_find(&a->tools[6]);
    for (size_t i = 0; i < AGENT_TOOLS; i++)
        a->tool_list[i] = &a->tools[i];
    a->extension = (tc_extension){.size = sizeof a->extension,
                                  .name = TC_STR("coding-tools"),
                                  .tools = a->tool_list,
                                  .ntools = AGENT_TOOLS};
}

/* Tools that only look are free. */
static int install_gate(agent *a)
{
    static const tc_str looking[] = {{"read", 4}, {"ls", 2}, {"grep", 4}, {"find", 4}};
    tc_strs free_tools = {looking, TCI_ARRAY_LEN(looking)};
    tc_err *err = &a->c->err;
    if (tc_approval_gate_new(free_tools, &a->gate, err) < 0)
        return err->code;
    return tc_registry_install(a->registry, a->gate, err);
}

static int open_harness(agent *a)
{
    cli *c = a->c;
    tc_settings_init(&a->settings);
    a->settings.stream = TC_STR("{\"maxRetries\":2}");
    make_tools(a);
    if (tc_registry_new(&a->registry, &c->err) < 0 ||
        tc_registry_install(a->registry, &a->extension, &c->err) < 0)
        return c->err.code;
    if (a->is_asking && install_gate(a) < 0)
        return c->err.code;
    tc_harness_options options = {.size = sizeof options,
                                  .registry = a->registry,
                                  .models = a->models,
                                  .settings = &a->settings,
                                  .env = on_env,
                                  .env_release = on_env_release,
                                  .on_report = on_report,
                                  .user = a};
    tc_durable *session = a->session;
    a->session = NULL; /* the harness has it from here on, also when this fails */
    return tc_harness_open(session, &options, c->ctx, &a->harness, &c->err);
}

/* ---- the conversation ---- */

static void put_text(tci_buf *b, bool *first, const char *key, const char *text)
{
    if (text != NULL)
        tci_json_put_member(b, first, key, tci_str(text));
}

/* PROVIDER/ID. A script's path is made absolute: the next command may run elsewhere. */
static int put_model(agent *a, tc_str model, tci_buf *b, bool *first)
{
    cli *c = a->c;
    size_t slash = tci_str_find_byte(model, '/');
    if (model.len == 0)
        return 0;
    if (slash == 0 || slash + 1 >= model.len) {
        (void)tc_err_set(&c->err, TC_E_INVALID, "a model is PROVIDER/MODEL");
        return tc_err_hint(&c->err, "openai/gpt-5, anthropic/claude-sonnet-4-5, scripted/FILE");
    }
    tc_str provider = tci_str_sub(model, 0, slash), id = tci_str_sub(model, slash + 1, model.len);
    tc_model ignored;
    int rc = a->models->get_model(a->models->user, provider, id, c->result, &ignored, &c->err);
    if (rc == TC_E_NOT_FOUND)
        return tc_err_hint(&c->err, "providers are openai, anthropic and scripted: a server that "
                                    "speaks the wire of one is reached with --base-url");
    if (rc < 0)
        return rc;
    char full[TCI_PATH_MAX];
    if (tci_str_eq(provider, TC_STR("scripted")) && tci_file_realpath(id, full, &id, &c->err) < 0)
        return tc_err_wrap(&c->err, "cannot use the script");
    bool first_member = true;
    tci_json_put_key(b, first, TC_STR("model"));
    tci_buf_append_byte(b, '{');
    tci_json_put_member(b, &first_member, "provider", provider);
    tci_json_put_member(b, &first_member, "modelId", id);
    tci_buf_append_byte(b, '}');
    return 0;
}

static int put_system(agent *a, tci_buf *b, bool *first)
{
    enum { SYSTEM_MAX = 1024 * 1024 };
    const char *file = cli_value(a->c, "system");
    char *text;
    size_t len;
    if (file == NULL)
        return 0;
    if (tci_file_read_whole(TCI_FILE_CWD, tci_str(file), SYSTEM_MAX, &text, &len, &a->c->err) < 0)
        return tc_err_wrap(&a->c->err, "cannot read --system");
    tci_json_put_member(b, first, "instructions", tci_str_of(text, len));
    tci_free(text);
    return 0;
}

static int no_tool(const agent *a, tc_str name)
{
    tci_buf all;
    tci_buf_init(&all, TC_ERR_HINT_MAX);
    for (size_t i = 0; i < AGENT_TOOLS; i++)
        tci_buf_printf(&all, "%s%.*s", i > 0 ? ", " : "", TC_STR_ARG(a->tools[i].name));
    (void)tc_err_set(&a->c->err, TC_E_INVALID, "there is no tool '%.*s'", TC_STR_ARG(name));
    (void)tc_err_hint(&a->c->err, "--tools takes a list of: %.*s", TC_STR_ARG(tci_buf_str(&all)));
    tci_buf_done(&all);
    return a->c->err.code;
}

static int put_tools(const agent *a, tci_buf *b, bool *first)
{
    const char *list = cli_value(a->c, "tools");
    tc_str rest = tci_str(list), name;
    bool first_name = true;
    if (list == NULL)
        return 0;
    tci_json_put_key(b, first, TC_STR("tools"));
    tci_buf_append_byte(b, '[');
    while (tci_str_split(&rest, ',', &name)) {
        bool is_known = false;
        name = tci_str_trim(name);
        if (name.len == 0)
            continue;
        for (size_t i = 0; i < AGENT_TOOLS; i++)
            is_known = is_known || tci_str_eq(a->tools[i].name, name);
        if (!is_known)
            return no_tool(a, name);
        if (!first_name)
            tci_buf_append_byte(b, ',');
        first_name = false;
        tci_json_put_str(b, name);
    }
    tci_buf_append_byte(b, ']');
    return 0;
}

/* --cwd must be a folder over there: the first call would say so otherwise, and the next one too. */
static int check_folder(agent *a, const char *given)
{
    cli *c = a->c;
    tc_call call = cli_call(c);
    tc_env_file info;
    if (tc_env_file_info(a->env, &call, tci_str(given), &info, &c->err) < 0)
        return cli_blame(c, "use as --cwd", given, "it is no folder");
    if (info.kind != TC_FILE_REGULAR) /* a link may lead to one */
        return 0;
    return tc_err_set(&c->err, TC_E_INVALID, "cannot use '%s' as --cwd: it is no folder", given);
}

/* What the options say about the agent; "{}" when nothing. cwd: of a new conversation. */
static int agent_change(agent *a, tci_buf *b, tc_str cwd)
{
    cli *c = a->c;
    bool first = true;
    const char *given = cli_value(c, "cwd");
    tci_buf_append_byte(b, '{');
    if (put_model(a, tci_str(cli_value(c, "model")), b, &first) < 0 ||
        put_system(a, b, &first) < 0 || put_tools(a, b, &first) < 0)
        return c->err.code;
    put_text(b, &first, "thinkingLevel", cli_value(c, "thinking"));
    if (given != NULL) {
        tc_call call = cli_call(c);
        if (tc_env_resolve_path(a->env, &call, tci_str(given), &cwd, &c->err) < 0 ||
            check_folder(a, given) < 0)
            return c->err.code;
    }
    if (cwd.len > 0)
        tci_json_put_member(b, &first, "cwd", cwd);
    tci_buf_append_byte(b, '}');
    return tci_buf_error(b, &c->err);
}

static int no_model(agent *a)
{
    (void)tc_err_set(&a->c->err, TC_E_INVALID, "this session has no model yet");
    return tc_err_hint(&a->c->err, "name one: --model openai/gpt-5, anthropic/claude-sonnet-4-5, "
                                   "or scripted/FILE");
}

/* The root conversation, made with its agent in one commit, or changed; --conversation: another one. */
static int open_conversation(agent *a)
{
    cli *c = a->c;
    tc_str record, none = {NULL, 0};
    tc_durable *session = tc_harness_session(a->harness);
    if (!cli_number(c, "conversation", 1, 1, &a->conversation) ||
        tc_durable_conversation(session, a->conversation, c->result, &record, &c->err) < 0)
        return c->err.code;
    a->is_new = record.len == 0;
    if (a->is_new && a->conversation != 1)
        return tc_err_set(&c->err, TC_E_NOT_FOUND, "there is no conversation %llu in the session",
                          (unsigned long long)a->conversation);
    if (a->is_new && cli_value(c, "model") == NULL)
        return no_model(a);
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    int rc = agent_change(a, &b, a->is_new || a->is_moved ? tc_env_cwd(a->env) : none);
    tc_conversation_options options = {.size = sizeof options, .agent = tci_buf_str(&b)};
    if (rc == 0 && a->is_new)
        rc = tc_harness_root(a->harness, c->ctx, &options, &a->conversation, &c->err);
    else if (rc == 0 && b.len > 2)
        rc = tc_conversation_configure(a->harness, c->ctx, a->conversation, tci_buf_str(&b),
                                       &c->err);
    tci_buf_done(&b);
    return rc;
}

int agent_use_model(agent *a, tc_str model)
{
    cli *c = a->c;
    tci_buf b;
    bool first = true;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    int rc = put_model(a, model, &b, &first);
    tci_buf_append_byte(&b, '}');
    if (rc == 0)
        rc = tci_buf_error(&b, &c->err);
    if (rc == 0)
        rc = tc_conversation_configure(a->harness, c->ctx, a->conversation, tci_buf_str(&b),
                                       &c->err);
    tci_buf_done(&b);
    return rc;
}

/* ---- another target, while the session is open ---- */

/* How the old one was reached says nothing about the new one. */
static size_t drop_ways(cli *c, cli_given *kept, size_t *ret_nkept)
{
    size_t n = 0, was = c->ngiven;
    for (size_t i = 0; i < was; i++) {
        const cli_option *o = c->given[i].option;
        bool is_way = o == &cli_on_option ||
                      (o >= cli_target_options && o < cli_target_options + cli_ntarget_options) ||
                      (o >= cli_ssh_options && o < cli_ssh_options + cli_nssh_options);
        if (is_way)
            kept[(*ret_nkept)++] = c->given[i];
        else
            c->given[n++] = c->given[i];
    }
    c->ngiven = n;
    return was;
}

/* Into its own folder, for this conversation, and to be remembered. */
static int settle_in(agent *a)
{
    cli *c = a->c;
    tci_buf b;
    bool first = true;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    tci_json_put_member(&b, &first, "cwd", tc_env_cwd(a->env));
    tci_buf_append_byte(&b, '}');
    int rc = tci_buf_error(&b, &c->err);
    if (rc == 0)
        rc = tc_conversation_configure(a->harness, c->ctx, a->conversation, tci_buf_str(&b),
                                       &c->err);
    tci_buf_done(&b);
    return rc == 0 ? agent_remember(a) : rc;
}

int agent_move(agent *a, const char *on)
{
    enum { WAYS_MAX = 64 };
    cli *c = a->c;
    cli_given ways[WAYS_MAX];
    size_t nways = 0;
    if (c->ngiven > WAYS_MAX)
        return tc_err_set(&c->err, TC_E_TOO_BIG,
                          "too many options were given to change the target");
    (void)drop_ways(c, ways, &nways);
    tc_env *env = cli_env(c, on);
    if (env == NULL) { /* all stays as it was */
        for (size_t i = 0; i < nways; i++)
            c->given[c->ngiven++] = ways[i];
        return c->err.code;
    }
    for (size_t i = 0; i < a->nenvs; i++) {
        tc_env_release(a->envs[i].env);
        tci_free(a->envs[i].cwd);
    }
    a->nenvs = 0;
    tci_arena_done(&a->maker.arena);
    tc_result_free(a->maker.result);
    a->on_text = on;
    a->on = tci_str(on);
    return reach(a) < 0 ? c->err.code : settle_in(a);
}

int agent_open(agent *a, cli *c)
{
    *a = (agent){.c = c};
    tci_mutex_init(&a->lock);
    if (open_session(a) < 0 || agent_recall(a) < 0 || reach(a) < 0 || open_models(a) < 0 ||
        agent_remember(a) < 0 || open_harness(a) < 0 || open_conversation(a) < 0)
        return c->err.code;
    return 0;
}

int agent_open_session(agent *a, cli *c, tc_str path)
{
    tc_durable_options options = {.size = sizeof options, .must_exist = true};
    *a = (agent){.c = c, .path = path};
    tci_mutex_init(&a->lock);
    if (tc_durable_open(path, &options, &a->session, &c->err) < 0)
        return c->err.code;
    return open_harness(a);
}

void agent_close(agent *a)
{
    tc_err err;
    if (a->harness != NULL && tc_harness_close(a->harness, &err) < 0)
        cli_warn(a->c, "closing the session: %s", err.msg);
    tc_harness_free(a->harness);
    tc_durable_free(a->session);
    tc_registry_free(a->registry);
    tc_tools_free(a->gate);
    tc_models_close(a->models);
    for (size_t i = 0; i < a->nenvs; i++) {
        tc_env_release(a->envs[i].env);
        tci_free(a->envs[i].cwd);
    }
    if (a->env != NULL) {
        tci_arena_done(&a->maker.arena);
        tc_result_free(a->maker.result);
    }
    tci_mutex_done(&a->lock);
}
