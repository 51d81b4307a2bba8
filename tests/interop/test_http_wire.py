# SPDX-License-Identifier: Apache-2.0
"""HTTP as bytes: which check comes first and with which status, connections, and bodies that do not end well."""
import hashlib
import json
import os
import select
import socket
import ssl
import subprocess
import time

import pytest
from peer import LONG_S, MIB, Wire, free_port, operation, said, until

PLAIN = "application/octet-stream"


@pytest.fixture
def served(place):
    """A daemon that listens, with room for few: its limits can be reached."""
    place.child = place.start_http(limits={"max_request_bytes": 20_000, "max_device_concurrent_operations": 3,
                                           "max_concurrent_operations": 3, "max_device_file_transfers": 2,
                                           "max_concurrent_file_transfers": 2, "max_staged_file_bytes": 100_000,
                                           "max_device_staged_file_bytes": 400_000})
    return place


@pytest.fixture
def wire(served):
    with Wire(served) as w:
        yield w


def ask(wire, method="POST", path="/eip/control", body=b"{}", **headers):
    headers.setdefault("content_type", "application/json")
    return wire.request(method, path, body, **headers)


def test_headers_of_an_answer(wire):
    good = wire.control({"jsonrpc": "2.0", "id": 1, "method": "device.describe", "params": {}})
    assert good.status == 200 and good.headers["content-type"] == "application/json"
    assert good.headers["cache-control"] == "no-store" and "content-encoding" not in good.headers
    answer = json.loads(good.body)
    assert answer["result"]["descriptor"]["device_id"] == "device-1"
    bad = ask(wire, path="/nowhere")
    assert (bad.status, bad.body, bad.headers["content-type"]) == (404, b"", PLAIN)
    assert bad.headers["cache-control"] == "no-store"


# Each request is wrong in all that follows, too: only the first check that fails speaks.
WRONG = {
    405: [("GET", "/eip/control?x", {"authorization": None}), ("DELETE", "/eip/control", {"authorization": None}),
          ("PUT", "/nowhere", {}), ("POST", "/metrics", {}), ("GET", "/eip/transfer", {"cookie": "a=b"})],
    400: [("POST", "/eip/control?", {"authorization": None}), ("POST", "/eip/control?a=b", {}),
          ("POST", "/nowhere", {"cookie": "a=b"}), ("POST", "/eip/control", {"content_encoding": "identity"}),
          ("DELETE", "/eip/transfer?x", {})],
    401: [("POST", "/nowhere", {"authorization": None}), ("POST", "/eip/control", {"authorization": "Bearer wrong"}),
          ("POST", "/eip/control", {"authorization": "Bearer ", "cookie": "a=b"}),
          ("POST", "/eip/control", {"authorization": "Basic YTpi"}), ("GET", "/metrics", {"authorization": None})],
    404: [("POST", "/nowhere", {"content_type": "text/plain"}), ("POST", "/", {}), ("GET", "/metrics", {}),
          ("POST", "/eip/control/", {})],
    415: [("POST", "/eip/control", {"content_type": "application/json; charset=utf-8", "eip_session": "s"}),
          ("POST", "/eip/control", {"content_type": None}), ("POST", "/eip/control", {"content_type": "text/plain"}),
          ("POST", "/eip/control", {"eip_transfer_handle": "h", "eip_session": "s"}),
          ("POST", "/eip/transfer", {"content_type": "application/json"})],
}


@pytest.mark.parametrize("status", WRONG)
def test_first_failing_check_answers(served, status):
    for method, path, headers in WRONG[status]:
        with Wire(served) as wire:
            answer = ask(wire, method, path, **headers)
            assert answer.status == status, (method, path, headers)
            assert answer.body == b"" and answer.headers["cache-control"] == "no-store"


def test_scheme_and_credential_are_exact(served):
    token = served.credential
    for value in (f"bearer {token}", f"Bearer  {token}", f"Bearer {token}x", f"Bearer {token[:-1]}", token):
        with Wire(served) as wire:
            assert ask(wire, authorization=value).status == 401, value


def test_selector_header_is_refused_on_control(wire):
    assert ask(wire, eip_session="session-x-1").status == 400


def test_too_large_and_broken_bodies(served):
    with Wire(served) as wire:
        assert ask(wire, body=b" " * 20_001).status == 413
    with Wire(served) as wire:
        wire.send(wire.head("POST", "/eip/control", {"content_type": "application/json",
                                                     "transfer_encoding": "chunked"}))
        wire.send(b"5000\r\n" + b" " * 0x5000 + b"\r\n")
        assert wire.response().status == 413
    with Wire(served) as wire:
        assert ask(wire, body=b'{"jsonrpc":"\xff"}').status == 400
    with Wire(served) as wire:
        for body, kind in ((b"not json", "parse_error"), (b"[]", "invalid_request"), (b"", "parse_error")):
            answer = ask(wire, body=body)
            assert answer.status == 200
            error = json.loads(answer.body)
            assert error["error"]["data"]["error_type"] == kind and error["id"] is None


def test_media_type_ignores_case(wire):
    assert ask(wire, content_type="Application/JSON").status == 200


def test_chunked_request(wire):
    body = json.dumps({"jsonrpc": "2.0", "id": "x", "method": "device.describe", "params": {}}).encode()
    wire.send(wire.head("POST", "/eip/control", {"content_type": "application/json", "transfer_encoding": "chunked"}))
    for i in range(0, len(body), 7):
        wire.send(b"%x\r\n" % len(body[i:i + 7]) + body[i:i + 7] + b"\r\n")
    wire.send(b"0\r\n\r\n")
    answer = wire.response()
    assert answer.status == 200 and json.loads(answer.body)["id"] == "x"


def test_keep_alive_and_pipelining(wire):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "device.describe", "params": {}}).encode()
    for _ in range(50):
        assert wire.control(body).status == 200
    one = wire.head("POST", "/eip/control", {"content_type": "application/json",
                                             "content_length": str(len(body))}) + body
    wire.send(one * 20)
    for _ in range(20):
        answer = wire.response()
        assert answer.status == 200 and json.loads(answer.body)["result"]


def in_one_write(wire, *messages):
    """Requests that arrive together: an answer may end what the next one is about."""
    data = b""
    for message in messages:
        text = json.dumps(message).encode()
        data += wire.head("POST", "/eip/control", {"content_type": "application/json",
                                                   "content_length": str(len(text))}) + text
    return data


def test_pipelined_wait_and_release(wire, served):
    session = wire.session(served.work)
    started = wire.call("process.start", {"request": {"command": {"kind": "shell", "profile_id": "default",
                                                                  "script": "sleep 0.2"}}}, session)
    handle = started["result"]["process"]["handle"]
    message = {"jsonrpc": "2.0", "id": 1, "eip_session": session}
    wire.send(in_one_write(
        wire,
        {**message, "method": "process.wait", "params": {"context": {"operation_id": operation()}, "handle": handle,
                                                         "condition": "tree_cleaned"}},
        {**message, "method": "process.release", "params": {"context": {"operation_id": operation()},
                                                            "handle": handle}}))
    assert json.loads(wire.response().body)["result"]["process"]["handle"] == handle
    assert "result" in json.loads(wire.response().body)
    assert "result" in wire.call("device.describe", op=False)


def test_pipelined_download_and_close(wire, served):
    with open(served.path("f"), "wb") as f:
        f.write(b"x" * 1000)
    session = wire.session(served.work)
    opened = wire.call("file.open_reader", {"path": {"path": served.path("f")}}, session)
    head = wire.transfer_headers(session, opened["result"]["reader"], "read")
    wire.send(wire.head("POST", "/eip/transfer", {**head, "content_length": "0"})
              + in_one_write(wire, {"jsonrpc": "2.0", "id": 2, "method": "session.close", "eip_session": session,
                                    "params": {}}))
    assert wire.response().body == b"x" * 1000
    assert "result" in json.loads(wire.response().body)
    assert "result" in wire.call("device.describe", op=False)


@pytest.mark.better("times beyond the clock's range")
def test_limits_at_the_end_of_their_range(place):
    most = 2**61 - 1
    place.child = place.start_http(limits={"max_operation_duration_ms": most, "file_transfer_idle_ttl_ms": most,
                                           "max_file_transfer_duration_ms": most})
    with Wire(place) as wire:
        session = wire.session(place.work)
        assert "result" in wire.call("file.list", {"path": {"path": place.work}}, session)
        handle = writer(wire, session, place.path("f"))
        headers = wire.transfer_headers(session, handle, "write")
        assert wire.request("POST", "/eip/transfer", b"12345", **headers).status == 204
        assert "result" in wire.call("file.list", {"path": {"path": place.work}}, session)


def test_every_cut_of_a_request(served):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "device.describe", "params": {}}).encode()
    with Wire(served) as wire:
        whole = wire.head("POST", "/eip/control", {"content_type": "application/json",
                                                   "content_length": str(len(body))}) + body
        for cut in range(1, len(whole), 3):
            wire.send(whole[:cut])
            wire.send(whole[cut:])
            assert wire.response().status == 200, cut


def test_slow_client_blocks_nobody(served):
    with Wire(served) as slow, Wire(served) as quick:
        request = slow.head("POST", "/eip/control", {"content_type": "application/json", "content_length": "2"})
        slow.send(request[:20])
        for _ in range(20):
            assert ask(quick).status == 200
        slow.send(request[20:] + b"{")
        for _ in range(20):
            assert ask(quick).status == 200
        slow.send(b"}")
        assert slow.response().status == 200


def answered(wires):
    """Those of the connections that have an answer; waits for the first."""
    ready = select.select([w.socket for w in wires], [], [], LONG_S)[0]
    return [w for w in wires if w.socket in ready]


def test_too_many_bodies_at_once(served):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "device.describe", "params": {}}).encode()
    wires = [Wire(served) for _ in range(4)]
    try:
        for wire in wires:
            wire.send(wire.head("POST", "/eip/control", {"content_type": "application/json",
                                                         "content_length": str(len(body))}) + body[:10])
        refused = answered(wires)
        assert [w.response().status for w in refused] == [429]  # three are being read, there is no place for a fourth
        with Wire(served) as extra:
            assert extra.control(body).status == 429
        for wire in wires:
            if wire not in refused:
                wire.send(body[10:])
                assert wire.response().status == 200
        with Wire(served) as extra:
            assert extra.control(body).status == 200
    finally:
        for wire in wires:
            wire.close()


def test_many_idle_connections(served):
    wires = [Wire(served) for _ in range(300)]
    try:
        with Wire(served) as wire:
            assert ask(wire).status == 200
        assert ask(wires[-1]).status == 200
    finally:
        for wire in wires:
            wire.close()


def test_broken_requests_close_the_connection(served):
    for raw in (b"nonsense\r\n\r\n", b"POST /eip/control HTTP/1.1\r\nbad header\r\n\r\n",
                b"POST /eip/control HTTP/1.1\r\nContent-Length: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01"):
        with Wire(served) as wire:
            wire.send(raw)
            wire.socket.shutdown(socket.SHUT_WR)
            assert not wire.stream.read(12).startswith(b"HTTP/1.1 200")
    with Wire(served) as wire:
        assert ask(wire).status == 200


def test_session_methods_need_no_initialize(wire, served):
    session = wire.session(served.work)
    with Wire(served) as other:
        assert other.call("environment.readiness", {}, session)["result"]["ready"]
        assert other.call("session.close", {}, session, op=False)["result"]["closed"]
    error = wire.call("environment.readiness", {}, session)["error"]
    assert error["data"]["error_type"] == "not_initialized"


def reader(wire, session, path, **more):
    answer = wire.call("file.open_reader", {"path": {"path": path}, **more}, session)
    assert "result" in answer, answer
    return answer["result"]["reader"]


def writer(wire, session, path, mode="upsert"):
    answer = wire.call("file.open_writer", {"path": {"path": path}, "mode": mode}, session)
    assert "result" in answer, answer
    return answer["result"]["writer"]


def test_transfer_statuses(wire, served):
    session = wire.session(served.work)
    f = served.put("f", "content")

    def transfer(handle, direction="read", method="POST", body=b"", **more):
        headers = wire.transfer_headers(session, handle, direction, **more)
        with Wire(served) as w:
            return w.request(method, "/eip/transfer", body, **headers)
    handle = reader(wire, session, f)
    assert transfer(handle, eip_session=None).status == 409
    assert transfer(handle, eip_session="session-x-9").status == 409
    assert transfer(handle, eip_transfer_handle=None).status == 400
    assert transfer(handle, eip_transfer_handle="h" * 513).status == 400
    assert transfer(handle, eip_transfer_direction=None).status == 400
    assert transfer(handle, eip_transfer_direction="both").status == 400
    assert transfer(handle, body=b"x").status == 400
    assert transfer("reader-x-9").status == 409
    got = transfer(handle)
    assert (got.status, got.body, got.is_whole, got.headers["content-type"]) == (200, b"content", True, PLAIN)
    assert got.headers["cache-control"] == "no-store"
    done = wire.call("file.close_reader", {"reader": handle}, session)["result"]["completion"]
    assert done["produced_bytes"] == 7
    assert transfer(handle).status == 409

    handle = writer(wire, session, f)
    got = transfer(handle, "write", body=b"new")
    assert (got.status, got.body) == (204, b"") and served.get("f") == b"content"
    sha = hashlib.sha256(b"new").hexdigest()
    done = wire.call("file.commit_writer", {"writer": handle, "transferred_bytes": 3,
                                            "transfer_digest": {"algorithm": "sha256", "value": sha}}, session)
    assert "result" in done, done
    assert done["result"]["receipt"]["outcome"] == "succeeded" and served.get("f") == b"new"


def test_chunked_upload_and_one_too_large(wire, served):
    session = wire.session(served.work)
    f = served.path("f")
    handle = writer(wire, session, f)
    with Wire(served) as up:
        up.send(up.head("POST", "/eip/transfer", up.transfer_headers(session, handle, "write",
                                                                    transfer_encoding="chunked")))
        for size in (1, 1000, 65536, 3):
            up.send(b"%x\r\n" % size + b"z" * size + b"\r\n")
        up.send(b"0\r\n\r\n")
        assert up.response().status == 204
    with Wire(served) as down:
        headers = down.transfer_headers(session, handle, "write")
        assert down.request("DELETE", "/eip/transfer", **headers).status == 204
    assert not served.staged()
    handle = writer(wire, session, f)
    with Wire(served) as up:
        body = b"z" * 100_001
        assert up.request("POST", "/eip/transfer", body, **up.transfer_headers(session, handle, "write")).status == 413
    assert not os.path.exists(f)


def test_delete(wire, served):
    session = wire.session(served.work)
    handle = reader(wire, session, served.put("f", "content"))
    headers = wire.transfer_headers(session, handle, "read")
    assert wire.request("DELETE", "/eip/transfer", **headers).status == 204
    assert wire.request("DELETE", "/eip/transfer", **headers).status == 204
    unknown = wire.transfer_headers(session, "reader-x-9", "write")
    assert wire.request("DELETE", "/eip/transfer", **unknown).status == 409
    with Wire(served) as w:
        assert w.request("DELETE", "/eip/transfer", b"x", **headers).status == 400
    with Wire(served) as w:
        assert w.request("POST", "/eip/transfer", **headers).status == 409


def test_aborted_download_is_never_a_clean_end(place):
    place.child = place.start_http()
    f = place.put("f", os.urandom(32 * MIB))
    with Wire(place) as wire:
        session = wire.session(place.work)
        handle = reader(wire, session, f)
        headers = wire.transfer_headers(session, handle, "read")
        with Wire(place) as down:
            down.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            down.send(down.head("POST", "/eip/transfer", {"content_length": "0", **headers}))
            assert down.stream.readline().split()[1] == b"200"
            assert wire.request("DELETE", "/eip/transfer", **headers).status == 204
            rest = b""
            try:
                while piece := down.stream.read(65536):
                    rest = (rest + piece)[-16:]
            except ConnectionError:
                pass
            assert not rest.endswith(b"0\r\n\r\n")
        answer = wire.call("file.close_reader", {"reader": handle}, session)
        assert answer["error"]["data"]["error_type"] == "invalid_handle"


def test_dropped_download_resets_its_reader(place):
    place.child = place.start_http()
    f = place.put("f", os.urandom(32 * MIB))
    with Wire(place) as wire:
        session = wire.session(place.work)
        handle = reader(wire, session, f)
        headers = wire.transfer_headers(session, handle, "read")
        with Wire(place) as down:
            down.send(down.head("POST", "/eip/transfer", {"content_length": "0", **headers}))
            assert down.stream.readline().split()[1] == b"200"
        end = time.monotonic() + LONG_S
        while wire.request("DELETE", "/eip/transfer", **headers).status != 204:
            assert time.monotonic() < end
        assert wire.call("file.close_reader", {"reader": handle}, session)["error"]["data"]["error_type"] == \
            "invalid_handle"


def test_dropped_upload_publishes_nothing(place):
    place.child = place.start_http()
    f = place.put("f", "old")
    with Wire(place) as wire:
        session = wire.session(place.work)
        handle = writer(wire, session, f, "replace")
        headers = wire.transfer_headers(session, handle, "write")
        with Wire(place) as up:
            up.send(up.head("POST", "/eip/transfer", {**headers, "content_length": "1000000"}) + b"z" * 300_000)
        end = time.monotonic() + LONG_S
        while place.staged():
            assert time.monotonic() < end, "the staged file stays"
            time.sleep(0.01)
        assert place.get("f") == b"old"
        answer = wire.call("file.commit_writer", {"writer": handle, "transferred_bytes": 300_000, "transfer_digest": {
            "algorithm": "sha256", "value": "0" * 64}}, session)
        assert answer["error"]["data"]["error_type"] == "invalid_handle"


def test_too_many_transfers(served, wire):
    session = wire.session(served.work)
    handles = [writer(wire, session, served.path(f"f{i}")) for i in range(2)]
    ups = [Wire(served) for _ in handles]
    try:
        for up, handle in zip(ups, handles):
            up.send(up.head("POST", "/eip/transfer",
                            {**up.transfer_headers(session, handle, "write"), "content_length": "10"}) + b"12345")
        end = time.monotonic() + LONG_S
        while True:
            with Wire(served) as w:
                status = w.request("POST", "/eip/transfer", **w.transfer_headers(session, "writer-x-9", "write")).status
            if status == 429:
                break
            assert status == 409 and time.monotonic() < end
        for up in ups:
            up.send(b"67890")
            assert up.response().status == 204
    finally:
        for up in ups:
            up.close()


async def test_stalled_upload_times_out(place):
    place.child = place.start_http(limits={"max_file_transfer_duration_ms": 700})
    with Wire(place) as wire:
        session = wire.session(place.work)
        handle = writer(wire, session, place.path("f"))
        with Wire(place) as up:
            up.send(up.head("POST", "/eip/transfer",
                            {**up.transfer_headers(session, handle, "write"), "content_length": "10"}) + b"12345")
            assert up.response().status in (408, 409)  # silent for too long, or expired: both are due at once
    await until(lambda: not place.staged(), "the staged file is removed")


def test_busy_lane_is_429(served, wire):
    session = wire.session(served.work)
    port = free_port()
    body = {"jsonrpc": "2.0", "id": 1, "method": "port.wait", "eip_session": session}
    wires = [Wire(served) for _ in range(4)]
    try:
        for w in wires:
            text = json.dumps({**body, "params": {"context": {"operation_id": operation(), "timeout_ms": 20_000},
                                                  "target": {"protocol": "tcp", "address": "loopback", "port": port},
                                                  "desired_status": "listening"}}).encode()
            w.send(w.head("POST", "/eip/control", {"content_type": "application/json",
                                                   "content_length": str(len(text))}) + text)
        refused = answered(wires)
        assert [w.response().status for w in refused] == [429]  # three wait, there is no place for a fourth
        stat = json.dumps({**body, "method": "file.stat", "params": {
            "context": {"operation_id": operation()}, "path": {"path": served.work}}}).encode()
        with Wire(served) as extra:
            assert extra.control(stat).status == 429
        assert wire.call("session.keepalive", {}, session, op=False)["result"]["alive"]
        with socket.create_server(("127.0.0.1", port)):
            for w in wires:
                if w not in refused:
                    assert json.loads(w.response().body)["result"]
    finally:
        for w in wires:
            w.close()


def test_sigterm_ends_with_0(served):
    with Wire(served) as wire:
        session = wire.session(served.work)
        wire.call("process.start", {"request": {"command": {"kind": "shell", "profile_id": "default",
                                                            "script": "sleep 100"}}}, session)
        served.child.terminate()
        assert served.child.wait(LONG_S) == 0, said(served.child)
    assert [n for n in os.listdir(served.runtime) if n.startswith("generation-")] == []


def test_plaintext_is_refused_off_loopback(place):
    for settings in ({"HTTP_BIND": f"0.0.0.0:{free_port()}"}, {"HTTP_PLAINTEXT_SCOPE": None},
                     {"HTTP_PLAINTEXT_SCOPE": "everywhere"}, {"HTTP_BIND": "localhost:1"},
                     {"HTTP_CREDENTIAL_FILE": place.folder + "/missing"}):
        done = place.run(env=place.http_settings(**settings))
        assert done.returncode == 1 and " failed: " in done.stderr and done.stdout == "", settings


def test_private_link_scope_listens_everywhere(place):
    place.child = place.start_http(HTTP_PLAINTEXT_SCOPE="provider_private_link")
    with Wire(place) as wire:
        assert ask(wire).status == 200


def test_tls_only_with_a_key_that_fits(place):
    from test_client_http import certificate
    key, cert = certificate(place)
    wrong = place.folder + "/other.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ED25519", "-out", wrong], check=True, capture_output=True)
    for settings in ({"HTTP_TLS_CERT_FILE": cert, "HTTP_TLS_KEY_FILE": wrong}, {"HTTP_TLS_CERT_FILE": cert},
                     {"HTTP_TLS_CERT_FILE": cert, "HTTP_TLS_KEY_FILE": key, "HTTP_PLAINTEXT_SCOPE": "loopback"}):
        done = place.run(env=place.http_settings(**{"HTTP_PLAINTEXT_SCOPE": None, **settings}))
        assert done.returncode == 1 and " failed: " in done.stderr, settings
        assert key not in done.stderr, "the place of the key is told"
    place.child = place.start_http(HTTP_TLS_CERT_FILE=cert, HTTP_TLS_KEY_FILE=key, HTTP_PLAINTEXT_SCOPE=None)
    trusting = ssl.create_default_context(cafile=cert)
    with Wire(place, tls=trusting) as wire:
        assert wire.socket.version() in ("TLSv1.2", "TLSv1.3")
        assert ask(wire).status == 200
        old = ssl.create_default_context(cafile=cert)
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_2
        with Wire(place, tls=old) as second:
            assert second.socket.version() == "TLSv1.2" and ask(second).status == 200
    with Wire(place) as plain:
        plain.send(b"POST /eip/control HTTP/1.1\r\n\r\n")
        plain.socket.shutdown(socket.SHUT_WR)
        assert not plain.stream.read().startswith(b"HTTP/1.1 200")


def test_metrics_page(place):
    place.child = place.start_http(config={"monitoring": {"sample_interval_ms": 1000}})
    with Wire(place) as wire:
        end = time.monotonic() + LONG_S
        while True:
            page = wire.request("GET", "/metrics", content_length=None)
            assert page.status == 200
            if b"envd_sample_sequence" in page.body:
                break
            assert time.monotonic() < end
        assert page.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert b'device_id="device-1"' in page.body and b"envd_sample_fresh" in page.body
