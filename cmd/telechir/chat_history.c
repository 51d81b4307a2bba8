/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of lines typed in chats: one a line, "\\" and newlines in it escaped, the owner's alone. Several
 * chats may add at once: a line is one write to the end. The main thread. Invariant: the file is only ever
 * added to, but for a rewrite at the start of a chat when it has grown to twice its length. */
#include "chat.h"

#include "plat/env.h"
#include "plat/file.h"
#include "target.h"

enum { FILE_MODE = 0600, FILE_MAX = 16 * 1024 * 1024 };

static int place(cli *c, tc_str *ret_folder, tc_str *ret_path)
{
    if (cli_our_folder(c, CLI_FOLDER_STATE, ret_folder, NULL, &c->err) < 0)
        return c->err.code;
    return tci_arena_printf(&c->arena, ret_path, &c->err, "%.*s/chat_history",
                            TC_STR_ARG(*ret_folder));
}

static void put_escaped(tci_buf *b, tc_str line)
{
    for (size_t i = 0; i < line.len; i++) {
        if (line.ptr[i] == '\n')
            tci_buf_append_str(b, TC_STR("\\n"));
        else if (line.ptr[i] == '\\')
            tci_buf_append_str(b, TC_STR("\\\\"));
        else
            tci_buf_append_byte(b, line.ptr[i]);
    }
    tci_buf_append_byte(b, '\n');
}

static int remember_escaped(line_edit *e, tc_str line)
{
    tci_buf b;
    tci_buf_init(&b, FILE_MAX);
    for (size_t i = 0; i < line.len; i++) {
        bool is_escape = line.ptr[i] == '\\' && i + 1 < line.len;
        if (is_escape)
            i++;
        tci_buf_append_byte(&b, is_escape && line.ptr[i] == 'n' ? '\n' : line.ptr[i]);
    }
    int rc = tci_buf_error(&b, &e->c->err);
    if (rc == 0)
        rc = line_edit_remember(e, tci_buf_str(&b));
    tci_buf_done(&b);
    return rc;
}

static int append(cli *c, tc_str path, unsigned more, tc_str bytes)
{
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    unsigned how = TCI_OPEN_WRITE | TCI_OPEN_CREATE | TCI_OPEN_APPEND | more;
    if (tci_file_open(path, how, FILE_MODE, &f, &c->err) < 0)
        return c->err.code;
    return tci_file_write_all(f, bytes.ptr, bytes.len, &c->err);
}

static int shorten(line_edit *e, tc_str path)
{
    tci_buf b;
    tci_buf_init(&b, FILE_MAX);
    for (size_t i = 0; i < e->nhistory; i++)
        put_escaped(&b, e->history[i]);
    int rc = tci_buf_error(&b, &e->c->err);
    if (rc == 0)
        rc = append(e->c, path, TCI_OPEN_TRUNCATE, tci_buf_str(&b));
    tci_buf_done(&b);
    return rc;
}

static int load(line_edit *e, tc_str path)
{
    char *text;
    size_t len, nlines = 0;
    cli *c = e->c;
    int rc = tci_file_read_whole(TCI_FILE_CWD, path, FILE_MAX, &text, &len, &c->err);
    if (rc < 0)
        return rc == TC_E_NOT_FOUND ? 0 : rc;
    tc_str rest = tci_str_of(text, len), line;
    while (rc == 0 && tci_str_split(&rest, '\n', &line)) {
        nlines++;
        rc = remember_escaped(e, line);
    }
    tci_free(text);
    return rc == 0 && nlines > 2 * LINE_HISTORY_MAX ? shorten(e, path) : rc;
}

void chat_history_load(line_edit *e, tc_str *ret_path)
{
    cli *c = e->c;
    tc_str folder, path;
    *ret_path = (tc_str){NULL, 0};
    if (!e->is_terminal)
        return;
    if (place(c, &folder, &path) < 0 || cli_make_folder(folder, &c->err) < 0 || load(e, path) < 0)
        cli_say(c, "what you type is not kept: %s", c->err.msg);
    else
        *ret_path = path;
}

int chat_history_add(line_edit *e, tc_str path, tc_str line)
{
    cli *c = e->c;
    tci_buf b;
    if (line_edit_remember(e, line) < 0)
        return c->err.code;
    if (path.len == 0 || line.len == 0)
        return 0;
    tci_buf_init(&b, FILE_MAX);
    put_escaped(&b, line);
    if (!tci_buf_ok(&b) || append(c, path, 0, tci_buf_str(&b)) < 0)
        cli_detail(c, "a line was not kept: %s", c->err.msg);
    tci_buf_done(&b);
    return 0;
}
