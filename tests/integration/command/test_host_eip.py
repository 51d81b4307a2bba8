#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""EIP through a Host, with real daemons that dial in: large content both ways, many clients at once, links, daemons
and clients that end in the middle. TELECHIR is the program, with telechird beside it; A13N_ENVD, when it is set, is the
reference daemon. An argument picks tests by name."""

import base64
import hashlib
import http.client
import json
import os
import pathlib
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time

from peers import TELECHIRD
from test_command import LIMIT, TELECHIR, run_tests
from test_host import Envd, Host, until
from test_host_external import add, token_of

MIB = 1 << 20


class Wire:
    """A TCP proxy to the Host that can be cut."""

    def __init__(self, p, port):
        self.port, self.ends, self.lock = port, [], threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.is_open = True
        p.daemons.append(self)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            if not self.is_open:
                near.close()
                continue
            try:
                far = socket.create_connection(("127.0.0.1", self.port))
            except OSError:  # the Host is not there
                near.close()
                continue
            with self.lock:
                self.ends += [near, far]
            for a, b in ((near, far), (far, near)):
                threading.Thread(target=self.pump, args=(a, b), daemon=True).start()

    @staticmethod
    def pump(a, b):
        try:
            while data := a.recv(65536):
                b.sendall(data)
        except OSError:
            pass
        for s in (a, b):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self, is_open=True):
        self.is_open = is_open
        with self.lock:
            ends, self.ends = self.ends, []
        for s in ends:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()

    def close(self):
        self.listener.close()
        self.cut(False)


class Hand(Envd):
    """A machine behind a Host, with Full Control, a folder, and a wire that can be cut."""

    def __init__(self, p, host, program=TELECHIRD, name="work", **env):
        super().__init__(p, program, host, name)
        self.wire = Wire(p, host.at.port)
        self.work = p.base / f"remote-{name}"
        self.work.mkdir()
        self.env = {"FULL_CONTROL": "true", "DEFAULT_WORKING_DIRECTORY": str(self.work), **env}

    def start(self, target=None):
        env = {k: v for k, v in self.p.env.items() if not k.startswith(("A13N_", "TELECHIRD_"))}
        env |= {f"A13N_ENVD_{k}": v for k, v in self.env.items()} | {"HOME": str(self.p.base)}
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [self.program, "connect", self.wire.url, "--host", self.name, "--instance", self.name,
                 "--state-dir", self.state], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, cwd=self.p.base)
        return self

    def enroll(self):
        self.start()
        self.p.ok("devices", "approve", self.code(), "--host", self.host.url)
        return self.online()

    def online(self):
        until(lambda: self.host.device(self.name)["online"], "online")
        return self

    def offline(self):
        until(lambda: not self.host.device(self.name)["online"], "offline")
        return self


class Lost(Exception):
    """An HTTP body that did not end as it should, or no answer."""


class Client:
    """EIP over HTTP below a device's path."""

    def __init__(self, host, name="work"):
        self.port, self.base = host.at.port, f"/api/devices/{name}/eip/"
        self.auth = {"Authorization": f"Bearer {token_of(host.p)}"}
        self.session = None
        self.c = None

    def connection(self):
        if self.c is None:
            self.c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)
        return self.c

    def post(self, method, path, body, headers):
        c = self.connection()
        try:
            c.request(method, self.base + path, body, self.auth | headers)
            r = c.getresponse()
            return r.status, r.read()
        except (http.client.HTTPException, OSError) as e:
            c.close()
            self.c = None
            raise Lost(str(e)) from e

    def raw(self, method, params, session=True):
        body = {"jsonrpc": "2.0", "id": secrets.token_hex(4), "method": method, "params": params}
        if session and self.session:
            body["eip_session"] = self.session
        status, text = self.post("POST", "control", json.dumps(body), {"Content-Type": "application/json"})
        answer = json.loads(text) if text else None
        if status == 200:
            assert answer["id"] == body["id"], answer
        return status, answer

    def ask(self, method, _session=True, **params):
        status, answer = self.raw(method, params, _session)
        assert status == 200 and "result" in answer, (method, status, answer)
        return answer["result"]

    def op(self, method, **params):
        return self.ask(method, context={"operation_id": "op-" + secrets.token_hex(8)}, **params)

    def open(self, cwd):
        r = self.ask("initialize", False, client={"name": "t", "version": "1"}, supported_protocol_versions=["0.3"])
        d = r["descriptor"]
        self.generation = d["generation"]
        s = self.ask("session.open", False, protocol_version="0.3", expected_device_id=d["device_id"],
                     expected_generation=d["generation"], working_directory=str(cwd))
        self.session = s["descriptor"]["session_id"]
        assert self.op("environment.readiness")["ready"]
        return self

    def head(self, handle, direction):
        return {"Content-Type": "application/octet-stream", "EIP-Session": self.session, "EIP-Transfer-Handle": handle,
                "EIP-Transfer-Direction": direction}

    def read(self, path):
        handle = self.op("file.open_reader", path={"path": str(path)})["reader"]
        status, content = self.post("POST", "transfer", None, self.head(handle, "read"))
        assert status == 200, (status, content)
        done = self.op("file.close_reader", reader=handle)["completion"]
        assert done["produced_bytes"] == len(content)
        assert done["digest"]["value"] == hashlib.sha256(content).hexdigest()
        return content

    def write(self, path, content):
        handle = self.op("file.open_writer", path={"path": str(path)}, mode="upsert")["writer"]
        status, text = self.post("POST", "transfer", content, self.head(handle, "write"))
        assert status == 204, (status, text)
        digest = {"algorithm": "sha256", "value": hashlib.sha256(content).hexdigest()}
        return self.op("file.commit_writer", writer=handle, transferred_bytes=len(content), transfer_digest=digest)

    def shell(self, script):
        """As soon as there is room for it: a device runs a few commands at a time."""
        def once():
            _, answer = self.raw("shell.exec", {"context": {"operation_id": "op-" + secrets.token_hex(8)},
                                                "request": command(script)})
            if "error" in answer:
                assert answer["error"]["data"]["error_type"] == "busy", answer
            return answer.get("result")
        return until(once, script)


def command(script):
    return {"command": {"kind": "argv", "executable_spec": {"kind": "name", "name": "sh"}, "arguments": ["-c", script]}}


def text_of(output):
    data = output["preview"]["data"] if "preview" in output else ""
    if output.get("preview", {}).get("encoding") == "base64":
        return base64.b64decode(data + "=" * (-len(data) % 4)).decode()
    return data


def daemons():
    found = [TELECHIRD]
    if os.environ.get("A13N_ENVD"):
        found.append(os.environ["A13N_ENVD"])
    return found


def place(p, program=TELECHIRD, **env):
    """A Host, signed in to, and a machine that is linked to it."""
    name = pathlib.Path(program).name.replace(pathlib.Path(TELECHIRD).name, "work")
    host = Host(p, data=p.base / f"host-{name}").login()
    return host, Hand(p, host, program, name, **env).enroll()


def in_threads(n, work):
    """work(i) on n threads; what they gave, or the first of what they raised."""
    found, wrong = [None] * n, []

    def one(i):
        try:
            found[i] = work(i)
        except BaseException as e:
            wrong.append(e)
    threads = [threading.Thread(target=one, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if wrong:
        raise wrong[0]
    return found


# A sanitizer keeps what was freed.
IS_SANITIZED = b"__asan_init" in pathlib.Path(TELECHIR).read_bytes()


def memory_mib(process):
    if IS_SANITIZED:
        return 0
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(next(x for x in status.splitlines() if x.startswith("VmHWM")).split()[1]) / 1024


# ---- much, and many ----

def test_large_files_both_ways(p):
    host, d = place(p)
    content = os.urandom(100 * MIB)
    digest = hashlib.sha256(content).hexdigest()
    c = Client(host).open(d.work)
    c.write(d.work / "big", content)
    assert hashlib.sha256((d.work / "big").read_bytes()).hexdigest() == digest
    assert hashlib.sha256(c.read(d.work / "big")).hexdigest() == digest
    (p.here / "mine").write_bytes(content)
    p.ok("cp", "mine", f"host:work:{d.work}/again")
    p.ok("cp", f"host:work:{d.work}/again", "back")
    assert hashlib.sha256((p.here / "back").read_bytes()).hexdigest() == digest
    assert memory_mib(host.process) < 200, memory_mib(host.process)  # whatever passes: a window of it


def test_many_clients_with_many_requests(p):
    """32 in flight from four clients, each with a session of its own, and content in between."""
    for program in daemons():
        host, d = place(p, program)
        name = d.name
        sessions = [Client(host, name).open(d.work) for _ in range(4)]

        def work(i):
            c = Client(host, name)
            c.session = sessions[i % 4].session
            for n in range(5):
                path = d.work / f"f-{i}-{n}"
                c.op("file.write_text", path={"path": str(path)}, mode="upsert", text=f"{i} {n}")
                assert c.op("file.stat", path={"path": str(path)})["info"]["size_bytes"] == len(f"{i} {n}")
                assert text_of(c.shell(f"echo $(({i} * {n}))")["output"]["stdout"]) == f"{i * n}\n"
            if i < 4:
                content = os.urandom(3 * MIB + i)
                c.write(d.work / f"c-{i}", content)
                assert c.read(d.work / f"c-{i}") == content
        in_threads(32, work)
        d.stop()
        p.ok("devices", "revoke", name)
        host.stop()


def test_a_slow_reader_holds_nobody_up(p):
    host, d = place(p)
    big = d.work / "big"
    with open(big, "wb") as f:
        f.truncate(256 * MIB)
    c = Client(host).open(d.work)
    handle = c.op("file.open_reader", path={"path": str(big)})["reader"]
    slow = socket.create_connection(("127.0.0.1", host.at.port))
    slow.sendall((f"POST {c.base}transfer HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n" + "".join(
        f"{k}: {v}\r\n" for k, v in (c.auth | c.head(handle, "read")).items()) + "\r\n").encode())
    assert slow.recv(12) == b"HTTP/1.1 200"
    other = Client(host).open(d.work)
    content = os.urandom(20 * MIB)
    other.write(d.work / "other", content)
    assert other.read(d.work / "other") == content
    for _ in range(50):
        other.op("file.stat", path={"path": str(big)})
    assert memory_mib(host.process) < 150, memory_mib(host.process)
    slow.close()  # in the middle
    assert other.op("file.stat", path={"path": str(big)})["info"]["size_bytes"] == 256 * MIB
    assert c.ask("session.keepalive")["alive"]  # its session is as it was


# ---- what ends in the middle ----

def test_link_cut_in_the_middle_of_a_command(p):
    """The answer is lost, the work is not: the session is attached again, its processes are there, its output goes on,
    and the receipt says what became of what was asked."""
    for program in daemons():
        host, d = place(p, program)
        c = Client(host, d.name).open(d.work)
        long = c.op("process.start", request=command("for i in 1 2 3 4 5 6; do echo $i; sleep 0.3; done; echo once >> done"))
        operation = "op-" + secrets.token_hex(8)
        box = []

        def ask():
            box.append(c.raw("shell.exec", {"context": {"operation_id": operation},
                                            "request": command("touch begun; while [ ! -e go ]; do sleep 0.05; done; "
                                                               "echo once >> short")}))
        t = threading.Thread(target=ask)
        t.start()
        until(lambda: (d.work / "begun").exists(), "begun")
        d.wire.cut()
        (d.work / "go").touch()
        t.join()
        status, answer = box[0]
        assert status == 502 and answer["error"]["code"] == "answer_lost", (status, answer)
        d.online()
        other = Client(host, d.name)
        other.session = c.session
        assert other.ask("session.attach")["descriptor"]["session_id"] == c.session
        assert other.op("environment.readiness")["ready"]
        ended = other.op("process.wait", handle=long["process"]["handle"], condition="tree_cleaned")["process"]
        assert ended["status"]["exit_code"] == 0, ended
        assert text_of(ended["output"]["stdout"]) == "1\n2\n3\n4\n5\n6\n"
        assert (d.work / "done").read_text() == "once\n"  # nothing was sent again
        # A daemon gives what is under way a second when its link is lost.
        r = until(lambda: receipt(other, operation), "the receipt")
        assert r["outcome"] in ("succeeded", "cancelled"), r
        short = d.work / "short"
        assert (short.read_text() if short.exists() else "") == ("once\n" if r["outcome"] == "succeeded" else ""), r
        d.stop()
        host.stop()


def receipt(c, operation):
    status, answer = c.raw("receipt.get", {"context": {"operation_id": "op-" + secrets.token_hex(8)},
                                           "operation_id": operation})
    assert status == 200, (status, answer)
    return answer.get("result", {}).get("receipt")


def test_requests_wait_for_a_link_that_comes_right_back(p):
    host, d = place(p)
    c = Client(host).open(d.work)
    for n in range(3):
        d.wire.cut()
        # At once: either it is not noticed yet, or the device is waited for.
        status, answer = c.raw("file.write_text", {"context": {"operation_id": f"op-{n}"}, "mode": "create",
                                                   "path": {"path": str(d.work / f"f{n}")}, "text": "x"})
        assert status in (200, 502), (status, answer)
        assert status == 502 or "result" in answer, answer
        assert c.ask("session.keepalive")["alive"]
        assert c.op("file.stat", path={"path": str(d.work)})["info"]["kind"] == "directory"


def test_link_gone_for_longer_and_another_generation(p):
    host, d = place(p, DISCONNECT_GRACE_MS="1000", IDLE_TIMEOUT_MS="60000")
    c = Client(host).open(d.work)
    d.wire.cut(is_open=False)
    d.offline()
    until(lambda: c.raw("session.keepalive", {})[0] == 503, "offline")
    status, answer = c.raw("session.keepalive", {})
    assert status == 503 and answer["error"]["code"] == "offline", answer
    d.wire.is_open = True
    d.online()
    status, answer = c.raw("session.keepalive", {})  # too late: as a daemon says it
    assert status == 200 and answer["error"]["data"]["error_type"] == "not_initialized", (status, answer)
    c = Client(host).open(d.work)
    d.process.kill()
    d.process.wait()
    d.offline()
    d.start().online()
    status, answer = c.raw("session.keepalive", {})
    assert status == 200 and answer["error"]["data"]["error_type"] == "not_initialized", (status, answer)
    assert Client(host).open(d.work).generation != c.generation


def test_link_cut_in_the_middle_of_content(p):
    host, d = place(p)
    big = d.work / "big"
    with open(big, "wb") as f:
        f.truncate(512 * MIB)
    c = Client(host).open(d.work)
    handle = c.op("file.open_reader", path={"path": str(big)})["reader"]
    reader = http.client.HTTPConnection("127.0.0.1", host.at.port, timeout=LIMIT)
    reader.request("POST", c.base + "transfer", None, c.auth | c.head(handle, "read"))
    r = reader.getresponse()
    assert r.status == 200 and len(r.read(MIB)) == MIB
    d.wire.cut()
    try:
        while r.read(MIB):
            pass
        raise AssertionError("it looks whole")
    except (http.client.IncompleteRead, OSError, http.client.HTTPException):
        pass
    until(lambda: c.raw("session.keepalive", {})[0] == 200, "again")
    status, answer = c.raw("file.close_reader", {"context": {"operation_id": "op-1"}, "reader": handle})
    assert status == 200 and answer["error"]["data"]["error_type"] == "invalid_handle", answer
    # Up: a client that is in the middle is told, and nothing is published.
    handle = c.op("file.open_writer", path={"path": str(d.work / "up")}, mode="create")["writer"]
    up = socket.create_connection(("127.0.0.1", host.at.port))
    up.sendall((f"POST {c.base}transfer HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {100 * MIB}\r\n" + "".join(
        f"{k}: {v}\r\n" for k, v in (c.auth | c.head(handle, "write")).items()) + "\r\n").encode())
    up.sendall(bytes(5 * MIB))
    d.wire.cut()
    assert up.makefile("rb").readline().split()[1] in (b"502", b"409")
    up.close()
    until(lambda: c.raw("session.keepalive", {})[0] == 200, "again")
    assert not (d.work / "up").exists()
    until(lambda: not list(d.work.glob(".eip-stage-*")), "nothing left over")


def test_daemon_killed(p):
    host, d = place(p)
    c = Client(host).open(d.work)
    box = []
    t = threading.Thread(target=lambda: box.append(c.raw(
        "shell.exec", {"context": {"operation_id": "op-1"}, "request": command("touch begun; sleep 60")})))
    t.start()
    until(lambda: (d.work / "begun").exists(), "begun")
    d.process.kill()
    t.join()
    assert box[0][0] == 502 and box[0][1]["error"]["code"] == "answer_lost", box
    r = p.fails(3, "write", "--on", "host:work", "x", stdin=b"x")
    assert "offline" in r.err, r.shown


def test_client_killed_in_the_middle_of_content(p):
    host, d = place(p)
    with open(d.work / "big", "wb") as f:
        f.truncate(1024 * MIB)
    down = p.start("cat", f"host:work:{d.work}/big")
    assert len(down.stdout.read(MIB)) == MIB
    down.kill()
    down.communicate()
    r = p.ok("sh", "--on", "host:work", "echo on")
    assert r.text == "on\n"
    c = Client(host).open(d.work)
    handle = c.op("file.open_writer", path={"path": str(d.work / "up")}, mode="create")["writer"]
    s = socket.create_connection(("127.0.0.1", host.at.port))
    s.sendall((f"POST {c.base}transfer HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {100 * MIB}\r\n" + "".join(
        f"{k}: {v}\r\n" for k, v in (c.auth | c.head(handle, "write")).items()) + "\r\n").encode())
    s.sendall(bytes(5 * MIB))
    until(lambda: list(d.work.glob(".eip-stage-*")), "begun")
    s.close()
    until(lambda: not list(d.work.glob(".eip-stage-*")), "the stage is gone")
    assert not (d.work / "up").exists() and host.device()["online"]


def test_sessions_of_clients_that_are_gone_end_by_themselves(p):
    """Also over a link, whose other clients are busy all the time."""
    host, d = place(p, IDLE_TIMEOUT_MS="12000", DISCONNECT_GRACE_MS="1000")
    gone = Client(host).open(d.work)
    process = gone.op("process.start", request=command("echo $$ > pid; exec sleep 1000"))
    assert process["process"]["status"]["phase"] == "running", process
    pid = int(until(lambda: (d.work / "pid").exists() and (d.work / "pid").read_text().strip(), "a process"))
    busy = Client(host).open(d.work)

    def ended():
        assert busy.ask("session.keepalive")["alive"]
        return not pathlib.Path(f"/proc/{pid}").exists()
    until(ended, "its processes are gone")
    status, answer = gone.raw("session.keepalive", {})
    assert status == 200 and answer["error"]["data"]["error_type"] == "not_initialized", answer


def test_revoked_in_the_middle(p):
    host, d = place(p)
    c = Client(host).open(d.work)
    box = []
    t = threading.Thread(target=lambda: box.append(c.raw(
        "shell.exec", {"context": {"operation_id": "op-1"}, "request": command("touch begun; sleep 60")})))
    t.start()
    until(lambda: (d.work / "begun").exists(), "begun")
    p.ok("devices", "revoke", "work")
    t.join()
    assert box[0][0] == 502 and box[0][1]["error"]["code"] == "answer_lost", box
    status, answer = c.raw("session.keepalive", {})
    assert status == 403 and answer["error"]["code"] == "revoked", (status, answer)


def test_external_daemons_are_asked_the_same_way(p):
    d, host = p.daemon(), Host(p).login()
    add(p, d)
    c = Client(host, "gpu").open(d.work)
    content = os.urandom(30 * MIB)
    c.write(d.work / "big", content)
    assert c.read(d.work / "big") == content
    assert text_of(c.shell("echo there")["output"]["stdout"]) == "there\n"
    # A client that goes in the middle, up and down; and one that resets.
    handle = c.op("file.open_writer", path={"path": str(d.work / "up")}, mode="create")["writer"]
    s = socket.create_connection(("127.0.0.1", host.at.port))
    s.sendall((f"POST {c.base}transfer HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {100 * MIB}\r\n" + "".join(
        f"{k}: {v}\r\n" for k, v in (c.auth | c.head(handle, "write")).items()) + "\r\n").encode())
    s.sendall(bytes(5 * MIB))
    until(lambda: list(d.work.glob(".eip-stage-*")), "begun")
    s.close()
    until(lambda: not list(d.work.glob(".eip-stage-*")), "the stage is gone")
    handle = c.op("file.open_reader", path={"path": str(d.work / "big")})["reader"]
    assert c.post("DELETE", "transfer", None, c.head(handle, "read"))[0] == 204
    assert c.post("POST", "transfer", None, c.head(handle, "read"))[0] == 409
    assert c.post("DELETE", "transfer", None, c.head("reader-unknown", "read"))[0] == 409
    assert c.ask("session.keepalive")["alive"]
    box = []
    t = threading.Thread(target=lambda: box.append(c.raw(
        "shell.exec", {"context": {"operation_id": "op-1"}, "request": command("touch begun; sleep 60")})))
    t.start()
    until(lambda: (d.work / "begun").exists(), "begun")
    d.kill()
    t.join()
    assert box[0][0] == 502 and box[0][1]["error"]["code"] == "answer_lost", box
    status, answer = c.raw("session.keepalive", {})
    assert status == 503 and answer["error"]["code"] in ("offline", "not_delivered"), (status, answer)
    d.restart()
    until(lambda: c.raw("session.keepalive", {})[0] == 200, "there again")
    assert Client(host, "gpu").open(d.work).read(d.work / "big") == content
    c = Client(host, "gpu").open(d.work)
    p.ok("devices", "remove", "gpu")
    assert c.raw("session.keepalive", {})[0] == 404
    assert d.process.poll() is None


def test_signed_out_in_between(p):
    host, d = place(p)
    c = Client(host).open(d.work)
    assert c.ask("session.keepalive")["alive"]
    p.ok("host", "logout")
    status, answer = c.raw("session.keepalive", {})
    assert status == 401 and answer["error"]["code"] == "unauthenticated", (status, answer)


def test_host_ends_in_good_order_while_something_runs(p):
    host, d = place(p)
    c = Client(host).open(d.work)
    box = []

    def ask(script):
        box.append(c.raw("shell.exec", {"context": {"operation_id": "op-" + script[-1]}, "request": command(script)}))
    t = threading.Thread(target=ask, args=("touch begun; while [ ! -e go ]; do sleep 0.05; done; echo 1",))
    t.start()
    until(lambda: (d.work / "begun").exists(), "begun")
    host.process.send_signal(signal.SIGTERM)
    until(lambda: not is_listening(host.at.port), "nobody new gets in")
    (d.work / "go").touch()
    _, err = host.process.communicate(timeout=LIMIT)
    assert (host.process.returncode, err) == (0, b""), err
    t.join()
    assert box[0][0] == 200 and "result" in box[0][1], box  # it had its five seconds


def is_listening(port):
    try:
        socket.create_connection(("127.0.0.1", port), LIMIT).close()
        return True
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(run_tests(dict(globals())))
