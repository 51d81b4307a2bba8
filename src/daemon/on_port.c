/* SPDX-License-Identifier: Apache-2.0
 *
 * Handlers of port methods: a probe of ops/ports for each request. Loop thread. */
#include "daemon/device.h"
#include "daemon/gen/handlers.h"
#include "daemon/req.h"
#include "ops/ports.h"

typedef struct probe {
    tci_port_check check;
    tci_req *req;
    tci_eip_port_target target;
    tci_eip_port_observation *observation;
} probe;

static tci_port_address native_address(tci_eip_port_address a)
{
    return a == TCI_EIP_PORT_ADDRESS_ANY ? TCI_PORT_ANY : TCI_PORT_LOOPBACK;
}

static void on_checked(tci_port_check *check, int rc, const tc_err *err)
{
    static const tci_eip_port_status statuses[] = {
        [TCI_PORT_LISTENING] = TCI_EIP_PORT_STATUS_LISTENING,
        [TCI_PORT_NOT_LISTENING] = TCI_EIP_PORT_STATUS_NOT_LISTENING,
        [TCI_PORT_UNKNOWN] = TCI_EIP_PORT_STATUS_UNKNOWN,
    };
    probe *p = TCI_CONTAINER(check, probe, check);
    *p->observation = (tci_eip_port_observation){
        .target = p->target, .status = statuses[check->status], .observed_at = check->observed_at};
    p->req->on_stop = NULL;
    tci_req_finish(p->req, rc, err);
}

static void on_stop(tci_req *r)
{
    tc_err err;
    probe *p = r->state;
    tci_port_cancel(&p->check);
    bool is_cancelled = atomic_load(&r->cancel.is_cancelled);
    int rc = tc_err_set(&err, is_cancelled ? TC_E_CANCELLED : TC_E_TIMEOUT, "the wait was ended");
    tci_req_finish(r, rc, &err);
}

static int probe_new(tci_req *r, const tci_eip_port_target *target, tci_eip_port_observation *to,
                     probe **ret, tc_err *err)
{
    probe *p = tci_arena_new(&r->arena, probe);
    if (p == NULL)
        return tci_arena_error(&r->arena, err);
    p->req = r;
    p->target = *target;
    p->observation = to;
    r->state = p;
    r->on_stop = on_stop;
    *ret = p;
    return 0;
}

int tci_on_port_inspect(tci_req *r, tc_err *err)
{
    const tci_eip_port_inspect_params *params = r->params;
    tci_eip_port_inspect_result *res = r->result;
    probe *p;
    if (probe_new(r, &params->target, &res->observation, &p, err) < 0)
        return err->code;
    return tci_port_inspect(&p->check, r->device->loop, native_address(params->target.address),
                            (uint16_t)params->target.port, on_checked, err);
}

int tci_on_port_wait(tci_req *r, tc_err *err)
{
    const tci_eip_port_wait_params *params = r->params;
    tci_eip_port_wait_result *res = r->result;
    probe *p;
    if (!params->context.has_timeout_ms)
        return tci_req_fail(r, err, TC_E_INVALID, TCI_EIP_CAUSE_PORT_DEADLINE);
    if (probe_new(r, &params->target, &res->observation, &p, err) < 0)
        return err->code;
    tci_port_status desired = params->desired_status == TCI_EIP_DESIRED_PORT_STATUS_LISTENING
                                  ? TCI_PORT_LISTENING
                                  : TCI_PORT_NOT_LISTENING;
    return tci_port_wait(&p->check, r->device->loop, native_address(params->target.address),
                         (uint16_t)params->target.port, desired, r->cancel.deadline_ns, on_checked,
                         err);
}
