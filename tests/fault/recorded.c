/* SPDX-License-Identifier: Apache-2.0
 *
 * See recorded.h. */
#include "recorded.h"

#include "base/json.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_MAX_BYTES = 1 << 20 };

void recorded_identity(tci_device *d)
{
    d->generation = UINT64_C(100000000000000001);
    d->descriptor.generation = d->session_descriptor.generation = d->generation;
    (void)snprintf(d->generation_text, sizeof d->generation_text, "0000000000001");
    memset(d->next_handle, 0, sizeof d->next_handle);
}

static void add(recording *all, const recorded *f)
{
    all->frames = realloc(all->frames, (all->nframes + 1) * sizeof *all->frames);
    assert_non_null(all->frames);
    all->frames[all->nframes++] = *f;
}

static void add_body(recording *all, recorded f, const char *body, size_t len)
{
    char head[TCI_FRAMES_PUT_MAX];
    f.head_len = tci_frames_put_head(head, f.is_data ? TCI_FRAME_DATA : TCI_FRAME_CONTROL, len);
    f.len = f.head_len + len;
    f.bytes = malloc(f.len);
    assert_non_null(f.bytes);
    memcpy(f.bytes, head, f.head_len);
    memcpy(f.bytes + f.head_len, body, len);
    add(all, &f);
}

static unsigned digit(char c)
{
    return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

/* A payload that was left out of the recording is zeros here. */
static void add_data(recording *all, recorded f, const tci_json *line, tc_str hex)
{
    uint64_t payload = 0;
    tc_str session, handle;
    const tci_json *data = tci_json_get(line, TC_STR("data"));
    assert_true(tci_json_as_u64(tci_json_get(data, TC_STR("payload_bytes")), &payload));
    assert_true(tci_json_as_str(tci_json_get(data, TC_STR("session")), &session));
    assert_true(tci_json_as_str(tci_json_get(data, TC_STR("handle")), &handle));
    size_t len = TCI_EIPD_FIXED_BYTES + session.len + handle.len + (size_t)payload;
    char *body = calloc(1, len);
    assert_non_null(body);
    for (size_t i = 0; i < len && 2 * i + 1 < hex.len; i++)
        body[i] = (char)(digit(hex.ptr[2 * i]) << 4 | digit(hex.ptr[2 * i + 1]));
    f.is_data = true;
    add_body(all, f, body, len);
    free(body);
}

static void add_control(recording *all, recorded f, const tci_json *json, const char *folder)
{
    tci_buf text, moved;
    tc_str method = TC_STR("");
    const tci_json *m = tci_json_get(json, TC_STR("method"));
    tci_buf_init(&text, TCI_BUF_MAX);
    tci_buf_init(&moved, TCI_BUF_MAX);
    tci_json_put(&text, json, TCI_JSON_AS_IS);
    tci_buf_append_byte(&text, '\0');
    assert_true(tci_buf_ok(&text));
    for (const char *at = text.ptr; *at != '\0';) {
        bool is_folder = strncmp(at, RECORDED_FOLDER, sizeof RECORDED_FOLDER - 1) == 0;
        tci_buf_append_str(&moved, is_folder ? tci_str(folder) : tci_str_of(at, 1));
        at += is_folder ? sizeof RECORDED_FOLDER - 1 : 1;
    }
    assert_true(tci_buf_ok(&moved));
    f.is_initialize =
        m != NULL && tci_json_as_str(m, &method) && tci_str_eq(method, TC_STR("initialize"));
    add_body(all, f, moved.ptr, moved.len);
    tci_buf_done(&text);
    tci_buf_done(&moved);
}

static void add_line(recording *all, tc_str text, const char *folder)
{
    tc_err err;
    tci_json line;
    tci_arena arena;
    tc_str s;
    tci_arena_init(&arena, 0);
    if (tci_json_parse(text, 0, &arena, &line, &err) < 0)
        fail_msg("%s", err.msg);
    const tci_json *to = tci_json_get(&line, TC_STR("to"));
    recorded f = {.to_daemon =
                      to != NULL && tci_json_as_str(to, &s) && tci_str_eq(s, TC_STR("daemon"))};
    const tci_json *json = tci_json_get(&line, TC_STR("json"));
    const tci_json *raw = tci_json_get(&line, TC_STR("raw"));
    const tci_json *hex = tci_json_get(&line, TC_STR("hex"));
    if (hex != NULL && tci_json_as_str(hex, &s)) {
        add_data(all, f, &line, s);
    } else if (raw != NULL && tci_json_as_str(raw, &s)) {
        f.bytes = malloc(s.len);
        assert_non_null(f.bytes);
        memcpy(f.bytes, s.ptr, s.len);
        f.len = f.head_len = s.len;
        add(all, &f);
    } else if (json != NULL) {
        add_control(all, f, json, folder);
    }
    tci_arena_done(&arena);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

void recording_load(recording *all, const char *folder)
{
    struct dirent **names;
    *all = (recording){0};
    int n = scandir(TC_CONVERSATIONS, &names, NULL, by_name);
    assert_true(n > 0);
    char *text = malloc(LINE_MAX_BYTES);
    assert_non_null(text);
    for (int i = 0; i < n; i++) {
        char path[700];
        (void)snprintf(path, sizeof path, "%s/%s", TC_CONVERSATIONS, names[i]->d_name);
        FILE *f = strstr(path, ".jsonl") != NULL ? fopen(path, "rb") : NULL;
        while (f != NULL && fgets(text, LINE_MAX_BYTES, f) != NULL)
            add_line(all, tci_str(text), folder);
        if (f != NULL)
            assert_int_equal(fclose(f), 0);
        free(names[i]);
    }
    free(names);
    free(text);
    assert_true(all->nframes > 100);
}

void recording_free(recording *all)
{
    for (size_t i = 0; i < all->nframes; i++)
        free(all->frames[i].bytes);
    free(all->frames);
    *all = (recording){0};
}
