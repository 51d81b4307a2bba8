/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that daemons dial in to, with the listener of a web server library: CivetWeb accepts and
 * authenticates WebSockets, tc_connections_attach serves them. CivetWeb has a thread for each
 * connection and calls us with what arrives; a queue makes a blocking receive of that.
 *
 *     host_civetweb DEVICE_ID CREDENTIAL_FILE
 *
 * Prints the port, waits for the daemon, looks into its folder without a session, then writes a file
 * through one adapter and reads it back through another. A real program has TLS in front, and more
 * than one device: it looks up whose credential it is. */
#include <civetweb.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <telechir/env.h>

enum { QUEUE_MAX = 16, CREDENTIAL_MAX = 512, WAIT_MS = 60000, STATUS_MAX = 125 };

typedef struct program {
    tc_connections *connections;
    const char *device_id;
    char authorization[CREDENTIAL_MAX + 8];
} program;

/* One accepted WebSocket. */
typedef struct link {
    program *program;
    struct mg_connection *conn;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct {
        tc_message_kind kind;
        char *bytes;
        size_t len;
    } queue[QUEUE_MAX];
    unsigned first, count;
    char *current;  /* what the last receive returned */
    char *gathered; /* a message of several frames */
    size_t gathered_len;
    tc_message_kind gathered_kind;
    bool is_closing; /* nothing is received or sent any more */
    bool has_ended;  /* CivetWeb is done with the connection */
} link;

/* ---- the five functions ---- */

static tc_str link_subprotocol(void *user)
{
    const link *l = user;
    const char *name = mg_get_request_info(l->conn)->acceptedWebSocketSubprotocol;
    tc_str s = {name, name != NULL ? strlen(name) : 0};
    return s;
}

static int closed(tc_err *err)
{
    return tc_err_set(err, TC_E_CLOSED, "the WebSocket is closed");
}

static int link_receive(void *user, tc_message_kind *ret_kind, tc_str *ret_bytes, tc_err *err)
{
    link *l = user;
    free(l->current);
    l->current = NULL;
    pthread_mutex_lock(&l->lock);
    while (l->count == 0 && !l->is_closing)
        pthread_cond_wait(&l->changed, &l->lock);
    bool is_closed = l->count == 0;
    if (!is_closed) {
        *ret_kind = l->queue[l->first].kind;
        l->current = l->queue[l->first].bytes;
        *ret_bytes = (tc_str){l->current, l->queue[l->first].len};
        l->first = (l->first + 1) % QUEUE_MAX;
        l->count--;
        pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->lock);
    return is_closed ? closed(err) : 0;
}

static int link_send(void *user, tc_message_kind kind, const tc_str *parts, size_t nparts,
                     tc_err *err)
{
    link *l = user;
    size_t len = 0;
    for (size_t i = 0; i < nparts; i++)
        len += parts[i].len;
    char *whole = malloc(len > 0 ? len : 1);
    if (whole == NULL)
        return tc_err_set(err, TC_E_NO_MEMORY, "out of memory");
    len = 0;
    for (size_t i = 0; i < nparts; i++) {
        memcpy(whole + len, parts[i].ptr, parts[i].len);
        len += parts[i].len;
    }
    pthread_mutex_lock(&l->lock);
    bool is_closing = l->is_closing;
    pthread_mutex_unlock(&l->lock);
    int opcode = kind == TC_MESSAGE_TEXT ? MG_WEBSOCKET_OPCODE_TEXT : MG_WEBSOCKET_OPCODE_BINARY;
    int rc = is_closing || mg_websocket_write(l->conn, opcode, whole, len) <= 0 ? closed(err) : 0;
    free(whole);
    return rc;
}

static void link_close(void *user, unsigned code, tc_str reason)
{
    link *l = user;
    char payload[2 + 123];
    size_t len = reason.len < sizeof payload - 2 ? reason.len : sizeof payload - 2;
    while (len < reason.len && len > 0 && (reason.ptr[len] & 0xc0) == 0x80)
        len--; /* whole characters only */
    payload[0] = (char)(code >> 8);
    payload[1] = (char)code;
    memcpy(payload + 2, reason.ptr, len);
    pthread_mutex_lock(&l->lock);
    l->is_closing = true;
    bool has_ended = l->has_ended;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    if (!has_ended) /* the daemon answers with its own, and CivetWeb ends */
        mg_websocket_write(l->conn, MG_WEBSOCKET_OPCODE_CONNECTION_CLOSE, payload, len + 2);
}

static void link_wait(void *user)
{
    link *l = user;
    pthread_mutex_lock(&l->lock);
    while (!l->has_ended)
        pthread_cond_wait(&l->changed, &l->lock);
    pthread_mutex_unlock(&l->lock);
}

/* In here for as long as the link lasts. */
static void *serve(void *arg)
{
    link *l = arg;
    tc_err err;
    tc_socket socket = {.size = sizeof socket,
                        .user = l,
                        .subprotocol = link_subprotocol,
                        .receive = link_receive,
                        .send = link_send,
                        .close = link_close,
                        .wait = link_wait};
    tc_str id = {l->program->device_id, strlen(l->program->device_id)};
    if (tc_connections_attach(l->program->connections, NULL, id, &socket, &err) < 0 &&
        err.code != TC_E_CLOSED)
        fprintf(stderr, "a link ended: %s\n", err.msg);
    return NULL;
}

/* ---- CivetWeb's handlers ---- */

/* Before the handshake. The time this takes says nothing about the credential but its length. */
static int on_connect(const struct mg_connection *conn, void *arg)
{
    const program *p = arg;
    const char *given = mg_get_header(conn, "Authorization");
    size_t len = strlen(p->authorization);
    unsigned char differs = given == NULL || strlen(given) != len;
    if (differs == 0)
        for (size_t i = 0; i < len; i++)
            differs = (unsigned char)(differs | (given[i] ^ p->authorization[i]));
    if (differs)
        mg_printf((struct mg_connection *)(uintptr_t)conn, /* it is ours to answer */
                  "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n"
                  "Connection: close\r\n\r\n");
    return differs;
}

static void on_ready(struct mg_connection *conn, void *arg)
{
    link *l = calloc(1, sizeof *l);
    if (l == NULL)
        return;
    l->program = arg;
    l->conn = conn;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    if (pthread_create(&l->thread, NULL, serve, l) != 0) {
        free(l);
        return;
    }
    mg_set_user_connection_data(conn, l);
}

/* A frame may be a part of a message. True when *bytes, *len (then the caller's) are a whole one. */
static bool gather(link *l, int bits, const char *data, size_t data_len, char **bytes, size_t *len)
{
    int opcode = bits & 0x0f;
    if (opcode != MG_WEBSOCKET_OPCODE_CONTINUATION) {
        l->gathered_kind = opcode == MG_WEBSOCKET_OPCODE_TEXT ? TC_MESSAGE_TEXT : TC_MESSAGE_BINARY;
        l->gathered_len = 0;
    }
    char *grown = realloc(l->gathered, l->gathered_len + data_len + 1);
    if (grown == NULL)
        return false;
    memcpy(grown + l->gathered_len, data, data_len);
    l->gathered = grown;
    l->gathered_len += data_len;
    if ((bits & 0x80) == 0)
        return false;
    *bytes = l->gathered;
    *len = l->gathered_len;
    l->gathered = NULL;
    l->gathered_len = 0;
    return true;
}

/* 0 ends the connection. A full queue holds the daemon up. */
static int on_data(struct mg_connection *conn, int bits, char *data, size_t data_len, void *arg)
{
    link *l = mg_get_user_connection_data(conn);
    int opcode = bits & 0x0f;
    char *bytes;
    size_t len;
    (void)arg;
    if (l == NULL || opcode == MG_WEBSOCKET_OPCODE_CONNECTION_CLOSE)
        return 0;
    if (opcode != MG_WEBSOCKET_OPCODE_TEXT && opcode != MG_WEBSOCKET_OPCODE_BINARY &&
        opcode != MG_WEBSOCKET_OPCODE_CONTINUATION)
        return 1;
    if (!gather(l, bits, data, data_len, &bytes, &len))
        return l->gathered != NULL;
    pthread_mutex_lock(&l->lock);
    while (l->count == QUEUE_MAX && !l->is_closing)
        pthread_cond_wait(&l->changed, &l->lock);
    bool is_taken = !l->is_closing;
    if (is_taken) {
        unsigned at = (l->first + l->count++) % QUEUE_MAX;
        l->queue[at].kind = l->gathered_kind;
        l->queue[at].bytes = bytes;
        l->queue[at].len = len;
        pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->lock);
    if (!is_taken)
        free(bytes);
    return 1;
}

/* The last that CivetWeb says of a connection: attach returns now. */
static void on_close(const struct mg_connection *conn, void *arg)
{
    link *l = mg_get_user_connection_data(conn);
    (void)arg;
    if (l == NULL)
        return;
    pthread_mutex_lock(&l->lock);
    l->is_closing = l->has_ended = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    while (l->count > 0) {
        free(l->queue[l->first].bytes);
        l->first = (l->first + 1) % QUEUE_MAX;
        l->count--;
    }
    free(l->current);
    free(l->gathered);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

/* ---- what the program does with its device ---- */

static int fail(const char *what, const tc_err *err)
{
    fprintf(stderr, "%s: %s\n", what, err->msg);
    return tc_code_exit_status(err->code);
}

/* No session is needed for this. */
static int look(const program *p, tc_result *result, tc_err *err)
{
    tc_device *device;
    tc_directory_page page;
    tc_call call = TC_CALL(NULL, result);
    tc_str id = {p->device_id, strlen(p->device_id)};
    if (tc_connections_wait(p->connections, NULL, id, WAIT_MS, &device, err) < 0)
        return fail("wait", err);
    const tc_device_info *info = tc_device_get_info(device);
    int status = 0;
    if (tc_device_list_directory(device, &call, info->default_working_directory, 0, 100, &page,
                                 err) < 0)
        status = fail("list", err);
    else
        printf("device %.*s works in %.*s, %zu folders there\n", TC_STR_ARG(info->device_id),
               TC_STR_ARG(page.path), page.count);
    tc_device_close(device); /* the connection stays */
    return status;
}

static int visit(const program *p, tc_runtime *runtime, tc_result *result, bool is_first,
                 tc_err *err)
{
    tc_env *env;
    tc_text_page page;
    tc_call call = TC_CALL(NULL, result);
    tc_env_options recipe = {.size = sizeof recipe, .environment_id = TC_STR("env-my-project")};
    tc_websocket_options how = {.size = sizeof how, .connections = p->connections};
    tc_str id = {p->device_id, strlen(p->device_id)};
    if (tc_env_state_make(TC_STR("websocket_envd"), id, result, &recipe.state, err) < 0 ||
        tc_env_create_websocket(runtime, &recipe, &how, &env, err) < 0)
        return fail("create", err);
    int status = 0;
    if (tc_env_ready(env, NULL, err) < 0)
        status = fail("ready", err);
    else if (is_first && tc_env_write_text(env, &call, TC_STR("note.txt"),
                                           TC_STR("hello from afar\n"), NULL, NULL, err) < 0)
        status = fail("write", err);
    else if (!is_first && tc_env_read_text(env, &call, TC_STR("note.txt"), NULL, &page, err) < 0)
        status = fail("read", err);
    else if (!is_first)
        printf("%.*s", TC_STR_ARG(page.text));
    tc_env_release(env);
    return status;
}

static int use(program *p, tc_runtime *runtime, tc_err *err)
{
    tc_result *result;
    if (tc_result_new(&result, err) < 0)
        return fail("result", err);
    int status = look(p, result, err);
    for (int i = 0; status == 0 && i < 2; i++)
        status = visit(p, runtime, result, i == 0, err);
    tc_result_free(result);
    return status;
}

/* ---- beginning and end ---- */

static bool read_credential(program *p, const char *path)
{
    FILE *f = fopen(path, "r");
    snprintf(p->authorization, sizeof p->authorization, "Bearer ");
    bool is_read = f != NULL && fgets(p->authorization + 7, CREDENTIAL_MAX, f) != NULL;
    if (f != NULL)
        fclose(f);
    p->authorization[strcspn(p->authorization, "\r\n")] = 0;
    return is_read && strlen(p->authorization) > 7;
}

static struct mg_context *listen(program *p)
{
    static const char *const settings[] = {"listening_ports",
                                           "127.0.0.1:0",
                                           "num_threads",
                                           "8",
                                           "enable_websocket_ping_pong",
                                           "yes",
                                           "websocket_timeout_ms",
                                           "20000",
                                           NULL};
    static const char *names[] = {TC_WEBSOCKET_SUBPROTOCOL};
    static struct mg_websocket_subprotocols subprotocols = {1, names};
    struct mg_server_port port[1];
    mg_init_library(0);
    struct mg_context *web = mg_start(NULL, NULL, (const char **)(uintptr_t)settings);
    if (web == NULL)
        return NULL;
    mg_set_websocket_handler_with_subprotocols(web, "/", &subprotocols, on_connect, on_ready,
                                               on_data, on_close, p);
    if (mg_get_server_ports(web, 1, port) == 1)
        printf("port %d\n", port[0].port);
    fflush(stdout);
    return web;
}

int main(int argc, char **argv)
{
    program p = {.device_id = argc > 1 ? argv[1] : ""};
    tc_runtime *runtime;
    tc_err err;
    if (argc != 3 || !read_credential(&p, argv[2])) {
        fprintf(stderr, "usage: host_civetweb DEVICE_ID CREDENTIAL_FILE\n");
        return 2;
    }
    if (tc_runtime_open(NULL, &runtime, &err) < 0)
        return fail("runtime", &err);
    int status = 1;
    struct mg_context *web = NULL;
    if (tc_connections_open(runtime, NULL, &p.connections, &err) < 0)
        status = fail("connections", &err);
    else if ((web = listen(&p)) == NULL)
        fprintf(stderr, "cannot listen\n");
    else
        status = use(&p, runtime, &err);
    tc_connections_close(p.connections); /* ends the links; CivetWeb is still there to do it */
    if (web != NULL)
        mg_stop(web);
    mg_exit_library();
    tc_runtime_close(runtime);
    return status;
}
