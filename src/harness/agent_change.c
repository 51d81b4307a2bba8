/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes "pi.agent". Leaves what the choices mean to agent.c. On the line. Invariant: only known
 * fields of the right shape get in; names are stored, whether they are installed or not. */
#include "base/json.h"
#include "harness/agent.h"

typedef enum shape { SHAPE_STRING, SHAPE_MODEL, SHAPE_LEVEL, SHAPE_CHOICE, SHAPE_REMOVAL } shape;

static const struct {
    const char *name;
    shape shape;
} fields[] = {{"model", SHAPE_MODEL},       {"thinkingLevel", SHAPE_LEVEL},
              {"extensions", SHAPE_CHOICE}, {"tools", SHAPE_REMOVAL},
              {"modelTools", SHAPE_CHOICE}, {"instructions", SHAPE_STRING},
              {"cwd", SHAPE_STRING}};

static bool is_names(const tci_json *v)
{
    if (v->kind != TCI_JSON_ARRAY)
        return false;
    for (uint32_t i = 0; i < v->count; i++) {
        if (v->u.items[i].kind != TCI_JSON_STRING)
            return false;
    }
    return true;
}

/* Names, or an object of {"remove"} and, where allowed, {"add"}. */
static bool is_choice(const tci_json *v, bool may_add)
{
    if (v->kind != TCI_JSON_OBJECT)
        return is_names(v);
    for (uint32_t i = 0; i < v->count; i++) {
        tc_str key = v->u.members[i].key;
        bool is_known =
            tci_str_eq(key, TC_STR("remove")) || (may_add && tci_str_eq(key, TC_STR("add")));
        if (!is_known || !is_names(&v->u.members[i].value))
            return false;
    }
    return true;
}

static bool is_level(const tci_json *v)
{
    static const char *const levels[] = {"off", "minimal", "low", "medium", "high", "xhigh", "max"};
    tc_str text;
    for (size_t i = 0; tci_json_as_str(v, &text) && i < sizeof levels / sizeof levels[0]; i++) {
        if (tci_str_eq(text, tci_str(levels[i])))
            return true;
    }
    return false;
}

static bool is_model(const tci_json *v)
{
    tc_str provider, id;
    return v->kind == TCI_JSON_OBJECT && v->count == 2 &&
           tci_json_as_str(tci_json_get(v, TC_STR("provider")), &provider) &&
           tci_json_as_str(tci_json_get(v, TC_STR("modelId")), &id);
}

static bool has_shape(const tci_json *v, shape s)
{
    switch (s) {
    case SHAPE_STRING:
        return v->kind == TCI_JSON_STRING;
    case SHAPE_MODEL:
        return is_model(v);
    case SHAPE_LEVEL:
        return is_level(v);
    case SHAPE_CHOICE:
        return is_choice(v, true);
    case SHAPE_REMOVAL:
        return is_choice(v, false);
    }
    return false;
}

static int change_field(tc_doc *doc, const tci_json_member *m, tc_err *err)
{
    char pointer[32] = "/";
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (!tci_str_eq(m->key, tci_str(fields[i].name)))
            continue;
        memcpy(pointer + 1, fields[i].name, strlen(fields[i].name) + 1);
        if (m->value.kind == TCI_JSON_NULL)
            return tc_doc_delete(doc, tci_str(pointer), err);
        if (!has_shape(&m->value, fields[i].shape))
            return tc_err_set(err, TC_E_INVALID, "agent field '%s' has a wrong value",
                              fields[i].name);
        tci_buf b;
        tci_buf_init(&b, TCI_BUF_MAX);
        tci_json_put(&b, &m->value, TCI_JSON_AS_IS);
        int rc = tci_buf_error(&b, err);
        if (rc == 0)
            rc = tc_doc_set(doc, tci_str(pointer), tci_buf_str(&b), err);
        tci_buf_done(&b);
        return rc;
    }
    return tc_err_set(err, TC_E_INVALID, "unknown agent field '%.*s'", TC_STR_ARG(m->key));
}

int tci_agent_configure(tc_tx *tx, uint64_t conversation, tc_str change, tc_err *err)
{
    tc_result *r;
    const tci_json *v;
    tc_doc *doc;
    if (tc_result_new(&r, err) < 0)
        return err->code;
    int rc = tci_parse(r, change, &v, err);
    if (rc == 0 && v->kind != TCI_JSON_OBJECT)
        rc = tc_err_set(err, TC_E_INVALID, "an agent change is an object");
    if (rc == 0)
        rc = tci_doc_of(tx, &tci_agent_doc, conversation, &doc, err);
    for (uint32_t i = 0; rc == 0 && i < v->count; i++)
        rc = change_field(doc, &v->u.members[i], err);
    tc_result_free(r);
    return rc;
}

/* ---- addTools ---- */

static bool array_has(const tci_json *list, tc_str name)
{
    for (uint32_t i = 0; list != NULL && list->kind == TCI_JSON_ARRAY && i < list->count; i++) {
        tc_str item;
        if (tci_json_as_str(&list->u.items[i], &item) && tci_str_eq(item, name))
            return true;
    }
    return false;
}

static bool is_among(const tc_str *names, size_t nnames, const tci_json *item)
{
    tc_str text;
    for (size_t i = 0; tci_json_as_str(item, &text) && i < nnames; i++) {
        if (tci_str_eq(text, names[i]))
            return true;
    }
    return false;
}

/* list with the names it lacks at its end. */
static void put_with(tci_buf *b, const tci_json *list, const tc_str *names, size_t nnames)
{
    bool first = true;
    tci_buf_append_byte(b, '[');
    for (uint32_t i = 0; list != NULL && list->kind == TCI_JSON_ARRAY && i < list->count; i++) {
        if (!first)
            tci_buf_append_byte(b, ',');
        first = false;
        tci_json_put(b, &list->u.items[i], TCI_JSON_AS_IS);
    }
    for (size_t i = 0; i < nnames; i++) {
        bool is_there = array_has(list, names[i]);
        for (size_t k = 0; k < i && !is_there; k++)
            is_there = tci_str_eq(names[k], names[i]);
        if (is_there)
            continue;
        if (!first)
            tci_buf_append_byte(b, ',');
        first = false;
        tci_json_put_str(b, names[i]);
    }
    tci_buf_append_byte(b, ']');
}

/* list without the names; false when nothing is left of it. */
static bool put_without(tci_buf *b, const tci_json *list, const tc_str *names, size_t nnames)
{
    bool first = true;
    tci_buf_append_byte(b, '[');
    for (uint32_t i = 0; list != NULL && list->kind == TCI_JSON_ARRAY && i < list->count; i++) {
        if (is_among(names, nnames, &list->u.items[i]))
            continue;
        if (!first)
            tci_buf_append_byte(b, ',');
        first = false;
        tci_json_put(b, &list->u.items[i], TCI_JSON_AS_IS);
    }
    tci_buf_append_byte(b, ']');
    return !first;
}

/* The new value of "tools": empty when it stays. */
static void put_tools(tci_buf *b, const tci_json *tools, const tc_str *names, size_t nnames)
{
    if (tools == NULL)
        return;
    if (tools->kind == TCI_JSON_ARRAY) {
        put_with(b, tools, names, nnames);
    } else {
        tci_buf_append_str(b, TC_STR("{\"remove\":"));
        (void)put_without(b, tci_json_get(tools, TC_STR("remove")), names, nnames);
        tci_buf_append_byte(b, '}');
    }
}

static void put_model_tools(tci_buf *b, const tci_json *tools, const tc_str *names, size_t nnames)
{
    if (tools != NULL && tools->kind == TCI_JSON_ARRAY) {
        put_with(b, tools, names, nnames);
        return;
    }
    tci_buf removals;
    tci_buf_init(&removals, TCI_BUF_MAX);
    tci_buf_append_byte(b, '{');
    if (put_without(&removals, tci_json_get(tools, TC_STR("remove")), names, nnames)) {
        tci_buf_append_str(b, TC_STR("\"remove\":"));
        tci_buf_append_str(b, tci_buf_str(&removals));
        tci_buf_append_byte(b, ',');
    }
    if (!tci_buf_ok(&removals))
        b->failed = removals.failed;
    tci_buf_done(&removals);
    tci_buf_append_str(b, TC_STR("\"add\":"));
    put_with(b, tci_json_get(tools, TC_STR("add")), names, nnames);
    tci_buf_append_byte(b, '}');
}

int tci_agent_add_tools(tc_tx *tx, uint64_t conversation, const tc_str *names, size_t nnames,
                        tc_err *err)
{
    tc_doc *doc;
    if (nnames == 0)
        return 0;
    if (tci_doc_of(tx, &tci_agent_doc, conversation, &doc, err) < 0)
        return err->code;
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    put_tools(&b, tci_json_get(tc_doc_value(doc), TC_STR("tools")), names, nnames);
    int rc = tci_buf_error(&b, err);
    if (rc == 0 && b.len > 0)
        rc = tc_doc_set(doc, TC_STR("/tools"), tci_buf_str(&b), err);
    tci_buf_clear(&b);
    if (rc == 0) {
        put_model_tools(&b, tci_json_get(tc_doc_value(doc), TC_STR("modelTools")), names, nnames);
        rc = tci_buf_error(&b, err);
    }
    if (rc == 0)
        rc = tc_doc_set(doc, TC_STR("/modelTools"), tci_buf_str(&b), err);
    tci_buf_done(&b);
    return rc;
}
