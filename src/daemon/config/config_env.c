/* SPDX-License-Identifier: Apache-2.0
 *
 * The variables of the daemon, and those of the metrics exporter. Leaves what the values mean to
 * config_json.c and config_http.c.
 *
 * Invariant: no variable with one of our prefixes is passed over in silence. */
#include "daemon/config/config_int.h"

#include "base/utf8.h"

/* The prefix of the program's own name, and the one that is always understood. */
#define OWN_PREFIX "TELECHIRD_"
#define WIRE_PREFIX "A13N_ENVD_"

typedef struct var {
    tc_str suffix, place;
    tci_cfg_scalar scalar;
    const char *transports;
} var;

#define TEXT_OF(literal)                \
    {                                   \
        "" literal, sizeof(literal) - 1 \
    }

static const var vars[TCI_CFG_VAR_COUNT] = {
#define X(suffix, place, scalar, transports) \
    {TEXT_OF(#suffix), TEXT_OF(place), TCI_CFG_##scalar, transports},
    TCI_CFG_VARS(X)
#undef X
};

static const tc_str recommended[2][TCI_CFG_VAR_COUNT] = {
    {
#define X(suffix, place, scalar, transports) TEXT_OF(OWN_PREFIX #suffix),
        TCI_CFG_VARS(X)
#undef X
    },
    {
#define X(suffix, place, scalar, transports) TEXT_OF(WIRE_PREFIX #suffix),
        TCI_CFG_VARS(X)
#undef X
    },
};

/* ---- reading ---- */

static int take(tci_cfg *c, tc_str name, tc_str suffix, tc_str value, tc_err *err)
{
    for (size_t i = 0; i < TCI_CFG_VAR_COUNT; i++) {
        tci_cfg_setting *s = &c->vars[i];
        if (!tci_str_eq(vars[i].suffix, suffix))
            continue;
        if (!tci_utf8_is_valid(value))
            return tc_err_set(err, TC_E_PARSE, "%.*s must be valid UTF-8", TC_STR_ARG(name));
        if (s->is_set && !tci_str_eq(s->value, value))
            return tc_err_set(err, TC_E_CONFLICT, "%.*s and %.*s are both set and differ",
                              TC_STR_ARG(s->name), TC_STR_ARG(name));
        *s = (tci_cfg_setting){.is_set = true, .name = name, .value = value};
        return 0;
    }
    (void)tc_err_set(err, TC_E_INVALID, "unknown %.*s environment variable: %.*s",
                     TC_STR_ARG(c->config->program), TC_STR_ARG(name));
    return tc_err_hint(err, "unset it, or see %.*s --help for the names",
                       TC_STR_ARG(c->config->program));
}

int tci_cfg_read_vars(tci_cfg *c, tc_err *err)
{
    static const tc_str prefixes[] = {TEXT_OF(OWN_PREFIX), TEXT_OF(WIRE_PREFIX)};
    for (size_t i = 0; i < TCI_CFG_VAR_COUNT; i++)
        c->vars[i] = (tci_cfg_setting){.name = recommended[c->config->is_drop_in ? 1 : 0][i]};
    for (char *const *e = c->envp; *e != NULL; e++) {
        tc_str entry = tci_str(*e);
        size_t eq = tci_str_find_byte(entry, '=');
        if (eq == entry.len)
            continue;
        tc_str name = tci_str_sub(entry, 0, eq), value = tci_str_sub(entry, eq + 1, entry.len);
        for (size_t i = 0; i < TCI_ARRAY_LEN(prefixes); i++) {
            if (tci_str_starts(name, prefixes[i]) &&
                take(c, name, tci_str_sub(name, prefixes[i].len, name.len), value, err) < 0)
                return err->code;
        }
    }
    return 0;
}

int tci_cfg_apply_vars(tci_cfg *c, tc_err *err)
{
    for (size_t i = 0; i < TCI_CFG_VAR_COUNT; i++) {
        const tci_cfg_setting *s = &c->vars[i];
        if (s->is_set && vars[i].scalar != TCI_CFG_NONE &&
            tci_cfg_apply_scalar(c, s->name, vars[i].place, vars[i].scalar, s->value, err) < 0)
            return err->code;
    }
    return 0;
}

int tci_cfg_check_transport_vars(const tci_cfg *c, tci_transport transport, tc_err *err)
{
    static const char *const names[] = {"stdio", "http", "reverse_websocket"};
    static const char letters[] = {'s', 'h', 'w'};
    for (size_t i = 0; i < TCI_CFG_VAR_COUNT; i++) {
        if (c->vars[i].is_set && strchr(vars[i].transports, letters[transport]) == NULL)
            return tc_err_set(err, TC_E_INVALID, "%.*s is not valid with %s transport",
                              TC_STR_ARG(c->vars[i].name), names[transport]);
    }
    return 0;
}

bool tci_cfg_getenv(const tci_cfg *c, const char *name, tc_str *ret)
{
    tc_str wanted = tci_str(name);
    for (char *const *e = c->envp; *e != NULL; e++) {
        tc_str entry = tci_str(*e);
        if (tci_str_starts(entry, wanted) && entry.len > wanted.len &&
            entry.ptr[wanted.len] == '=') {
            *ret = tci_str_sub(entry, wanted.len + 1, entry.len);
            return true;
        }
    }
    *ret = TC_STR("");
    return false;
}

/* ---- the metrics exporter ---- */

/* X(what comes after OTEL_EXPORTER_OTLP_ and OTEL_EXPORTER_OTLP_METRICS_) */
#define OTLP_SETTINGS(X)  \
    X(ENDPOINT)           \
    X(PROTOCOL)           \
    X(HEADERS)            \
    X(TIMEOUT)            \
    X(COMPRESSION)        \
    X(INSECURE)           \
    X(CERTIFICATE)        \
    X(CLIENT_CERTIFICATE) \
    X(CLIENT_KEY)

static const char *const exporter_vars[] = {"OTEL_METRICS_EXPORTER",
                                            "OTEL_SDK_DISABLED",
                                            "OTEL_SERVICE_NAME",
                                            "OTEL_RESOURCE_ATTRIBUTES",
                                            "OTEL_METRIC_EXPORT_INTERVAL",
#define X(name) "OTEL_EXPORTER_OTLP_" #name, "OTEL_EXPORTER_OTLP_METRICS_" #name,
                                            OTLP_SETTINGS(X)
#undef X
};

static int hide_exporter(tci_cfg *c, tc_err *err)
{
    tci_config *config = c->config;
    config->hidden_variables = tci_arena_items(c->arena, tc_str, TCI_ARRAY_LEN(exporter_vars));
    if (config->hidden_variables == NULL)
        return tci_arena_error(c->arena, err);
    for (size_t i = 0; i < TCI_ARRAY_LEN(exporter_vars); i++) {
        tc_str value;
        if (tci_cfg_getenv(c, exporter_vars[i], &value))
            config->hidden_variables[config->nhidden_variables++] = tci_str(exporter_vars[i]);
    }
    return 0;
}

int tci_cfg_check_export(tci_cfg *c, bool is_off, tc_err *err)
{
    tc_str exporter, value;
    if (hide_exporter(c, err) < 0)
        return err->code;
    if (tci_cfg_getenv(c, "OTEL_SDK_DISABLED", &value) && tci_str_eq_nocase(value, TC_STR("true")))
        return 0;
    (void)tci_cfg_getenv(c, "OTEL_METRICS_EXPORTER", &exporter); /* unset and empty are the same */
    bool is_asked = tci_str_eq(exporter, TC_STR("otlp"));
    if (exporter.len > 0 && !is_asked && !tci_str_eq(exporter, TC_STR("none")))
        return tc_err_set(err, TC_E_INVALID, "OTEL_METRICS_EXPORTER must be otlp or none");
    if (exporter.len == 0)
        is_asked =
            (tci_cfg_getenv(c, "OTEL_EXPORTER_OTLP_ENDPOINT", &value) && value.len > 0) ||
            (tci_cfg_getenv(c, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", &value) && value.len > 0);
    if (!is_asked || is_off)
        return 0;
    (void)tc_err_set(
        err, TC_E_UNSUPPORTED,
        "OTLP export of metrics is not available in this build: set OTEL_METRICS_EXPORTER=none");
    return tc_err_hint(err, "metrics can be read with device.metrics, and over HTTP at /metrics");
}
