/* SPDX-License-Identifier: Apache-2.0
 *
 * The device, by the fixture of the environments' own tests. */
#include "op_device.h"

#include "../../../contract/env/fixture.h"

struct op_device {
    fixture *f;
    tc_str cwd;
};

op_device *op_device_open(void)
{
    static char program[] = "test", provider_name[] = "http_envd";
    char *argv[] = {program, provider_name, NULL};
    void *state;
    if (!fixture_choose(2, argv) || fixture_open(&state) != 0)
        return NULL;
    op_device *d = calloc(1, sizeof *d);
    d->f = state;
    d->cwd = folder(d->f, "cwd");
    return d;
}

void op_device_close(op_device *d)
{
    void *state = d->f;
    fixture_close(&state);
    free(d);
}

tc_env *op_device_env(op_device *d)
{
    return make_env(d->f, d->cwd);
}
