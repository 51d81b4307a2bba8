/* SPDX-License-Identifier: Apache-2.0
 *
 * http_envd: environments on a daemon that is already running behind HTTP(S); and environments on a
 * device the program connected itself. Only connects: starts, extends and stops nothing. The
 * caller's thread. Invariant: nothing is contacted and no credential file read before ready. */
#include "env/env_int.h"

#include "base/hash.h"
#include "base/secret.h"

/* How to connect, as create was told. */
typedef struct http_own {
    tc_http_options http;
    tci_secret credential;
} http_own;

static const tci_env_vtable http_vtable = TCI_EIP_ENV_VTABLE("http_envd");
static const tci_env_vtable device_vtable = TCI_EIP_ENV_VTABLE("device");

static void http_forget(tci_eip_env *e)
{
    http_own *own = e->own;
    tci_secret_done(&own->credential);
    tci_free(own);
}

typedef struct connect_job {
    tc_runtime *rt;
    tc_http_options http;
    tc_device_options device;
} connect_job;

static int connect_now(void *arg, tc_ctx *ctx, tc_device **ret_device, tc_err *err)
{
    connect_job *job = arg;
    return tc_device_connect_http(job->rt, ctx, &job->http, &job->device, ret_device, err);
}

/* What adapters must have in common to share a connection. A digest: it also covers a secret. */
static void connection_key(const connect_job *job, char out[TCI_SHA256_HEX])
{
    const tc_http_options *h = &job->http;
    tc_str texts[] = {TC_STR("http_envd"),
                      h->endpoint,
                      h->credential,
                      h->credential_file,
                      h->ca_file,
                      job->device.expected_device_id,
                      h->path};
    uint8_t flags =
        (uint8_t)((h->insecure_no_verify ? 1 : 0) | (h->allow_plaintext_private_link ? 2 : 0));
    uint8_t digest[TCI_SHA256_BYTES];
    tci_sha256 hash;
    tci_sha256_init(&hash);
    for (size_t i = 0; i < TCI_ARRAY_LEN(texts); i++) {
        uint64_t len = texts[i].len;
        tci_sha256_update(&hash, &len, sizeof len);
        tci_sha256_update(&hash, texts[i].ptr, texts[i].len);
    }
    tci_sha256_update(&hash, &flags, sizeof flags);
    tci_sha256_update(&hash, &h->tls_setup, sizeof h->tls_setup);
    tci_sha256_update(&hash, &h->tls_user, sizeof h->tls_user);
    tci_sha256_final(&hash, digest);
    tci_hex(digest, sizeof digest, out);
}

static int http_connect(tci_eip_env *e, tc_ctx *ctx, tc_device **ret_device, tc_err *err)
{
    http_own *own = e->own;
    connect_job job = {.rt = e->base.rt, .http = own->http};
    job.http.credential = tci_secret_str(&own->credential);
    job.device.size = sizeof job.device;
    job.device.expected_device_id = e->base.device_id;
    char key[TCI_SHA256_HEX];
    connection_key(&job, key);
    return tci_runtime_shared_device(e->base.rt, tci_str_of(key, sizeof key), ctx, connect_now,
                                     &job, ret_device, err);
}

static int keep_options(tci_eip_env *e, const tc_http_options *http, tc_err *err)
{
    http_own *own = e->own;
    tc_result *r = e->base.held;
    own->http = *http;
    own->http.size = sizeof own->http;
    int rc = tci_secret_init(&own->credential, http->credential, err);
    own->http.credential = (tc_str){0};
    if (rc == 0)
        rc = tc_result_dup(r, http->endpoint, &own->http.endpoint, err);
    if (rc == 0)
        rc = tc_result_dup(r, http->credential_file, &own->http.credential_file, err);
    if (rc == 0)
        rc = tc_result_dup(r, http->ca_file, &own->http.ca_file, err);
    if (rc == 0)
        rc = tc_result_dup(r, http->path, &own->http.path, err);
    return rc;
}

int tc_env_create_http(tc_runtime *rt, const tc_env_options *options, const tc_http_options *http,
                       tc_env **ret_env, tc_err *err)
{
    tci_eip_env *e = NULL;
    int rc = tci_eip_env_new(rt, &http_vtable, options, true, &e, err);
    if (rc < 0)
        return rc;
    rc = tc_http_options_check(http, err);
    if (rc == 0) {
        e->own = tci_new(http_own);
        rc = e->own != NULL ? 0 : tci_err_no_memory(err);
    }
    if (rc == 0) {
        e->forget = http_forget;
        e->connect = http_connect;
        rc = keep_options(e, http, err);
    }
    if (rc < 0) {
        tci_eip_free(&e->base);
        return rc;
    }
    *ret_env = &e->base;
    return 0;
}

/* ---- on a device that is connected already ---- */

static void device_forget(tci_eip_env *e)
{
    tc_device_close(e->own);
}

static int device_connect(tci_eip_env *e, tc_ctx *ctx, tc_device **ret_device, tc_err *err)
{
    TCI_UNUSED(ctx);
    TCI_UNUSED(err);
    *ret_device = tc_device_retain(e->own);
    return 0;
}

int tc_env_create_on_device(tc_device *d, const tc_env_options *options, tc_env **ret_env,
                            tc_err *err)
{
    tci_eip_env *e = NULL;
    int rc = tci_eip_env_new(tci_device_runtime(d), &device_vtable, options, false, &e, err);
    if (rc < 0)
        return rc;
    e->own = tc_device_retain(d);
    e->forget = device_forget;
    e->connect = device_connect;
    *ret_env = &e->base;
    return 0;
}
