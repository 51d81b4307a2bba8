#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Daemons that run behind HTTP already, and that a Host connects to: adding, looking, removing, and what is said when
one cannot be reached. TELECHIR is the program, with telechird beside it; an argument picks tests by name."""

import http.server
import json
import os
import pathlib
import secrets
import socket
import sqlite3
import subprocess
import sys
import threading
import time

from peers import free_port
from test_command import LIMIT, TELECHIR, run_tests
from test_host import Device, Host, make_certificate, until

STOPPED_WITHIN_S = 25  # however many are asked: to wait for each of them would take 40


def add(p, daemon, name="gpu", **more):
    """Give a running daemon to the Host; what was answered."""
    words = {"device-id": daemon.device, "credential-file": daemon.credential, **{k.replace("_", "-"): v for k, v in more.items()}}
    url = words.pop("url", daemon.url)
    r = p.run("devices", "--json", "add-http", name, url, *[w for k, v in words.items() for w in (f"--{k}", v)])
    assert r.returncode == 0, r.shown
    return json.loads(r.stdout), r.err


def test_daemon_from_adding_to_removing(p):
    d, host = p.daemon(), Host(p).login()
    added, err = add(p, d)
    assert added["kind"] == "external" and added["online"] and added["state"] == "approved" and err == "", (added, err)
    assert added["url"] == d.url and added["device_id"] == d.device and added["asked_at"], added
    line = p.ok("devices").text
    for shown in ("gpu", "online", "external", d.url, d.device):
        assert shown in line, line
    shown = p.ok("devices", "show", "gpu").text
    assert d.url in shown and str(d.credential) in shown and str(d.work) in shown and "external" in shown, shown
    status, _, text = host.ask("GET", "/api/devices/gpu", Authorization=f"Bearer {token_of(p)}")
    assert status == 200 and json.loads(text)["id"] == added["id"], text
    host.restart()
    until(lambda: host.device("gpu")["online"], "online again")
    host.stop()
    for f in host.data.iterdir():
        assert d.token.encode() not in f.read_bytes(), f
    host.start()
    r = p.fails(1, "devices", "revoke", "gpu")
    assert "devices remove" in r.err, r.err
    p.ok("devices", "remove", "gpu")
    assert host.devices() == []
    assert d.process.poll() is None  # nothing was stopped there
    p.fails(1, "devices", "remove", "gpu")
    assert add(p, d)[0]["online"]  # the name is free


def token_of(p):
    return json.loads(pathlib.Path(p.env["XDG_CONFIG_HOME"], "telechir/hosts.json").read_text())["hosts"][0]["token"]


def test_goes_and_comes_back(p):
    d, host = p.daemon(), Host(p).login()
    seen = add(p, d)[0]["last_seen_at"]
    d.kill()
    gone = until(lambda: next((x for x in host.devices() if not x["online"]), None), "offline")
    assert gone["trouble"]["code"] == "CONNECT" and gone["trouble"]["message"], gone
    assert gone["last_seen_at"] >= seen and gone["asked_at"] > seen
    assert gone["trouble"]["message"] in p.ok("devices").text
    assert gone["trouble"]["message"] in p.ok("devices", "show", "gpu").text
    d.restart()  # of another generation
    until(lambda: host.device("gpu")["online"], "online again")


def test_why_it_cannot_be_reached(p):
    d, host = p.daemon(), Host(p).login()
    other = p.base / "secret"
    other.write_text("not it\n")
    files = {name: p.base / name for name in ("missing", "open", "words", "empty", "wrong")}
    for name, text, mode in (("open", d.token, 0o644), ("words", "two words", 0o600), ("empty", "", 0o600),
                             ("wrong", secrets.token_hex(24), 0o600)):
        files[name].write_text(text)
        files[name].chmod(mode)
    for name, more, code, word in (
            ("missing", {}, "NOT_FOUND", "missing"), ("open", {}, "UNTRUSTED", "others can read"),
            ("words", {}, "PARSE", "credential"), ("empty", {}, "PARSE", "credential"),
            ("wrong", {}, "AUTH", "refused"),
            ("other", {"credential_file": d.credential, "device_id": "env-other"}, "INCOMPATIBLE", d.device),
            ("nobody", {"credential_file": d.credential, "url": f"http://127.0.0.1:{free_port()}"}, "CONNECT", "refused")):
        answer, err = add(p, d, name, **{"credential_file": files.get(name), **more})
        assert answer["online"] is False and answer["trouble"]["code"] == code, (name, answer)
        assert word in answer["trouble"]["message"] and answer["trouble"]["message"] in err, (name, answer, err)
        for secret in (d.token, "two words", files["wrong"].read_text()):
            assert secret not in json.dumps(answer) + err
    files["open"].chmod(0o600)
    until(lambda: host.device("open")["online"], "read again at each connect")
    assert "trouble" not in host.device("open")


def test_certificates(p):
    cert, key = p.base / "cert.pem", p.base / "key.pem"
    make_certificate(cert, key)
    d, host = p.daemon(tls=(cert, key)), Host(p).login()
    answer, err = add(p, d, "strange")
    assert answer["trouble"]["code"] == "UNTRUSTED" and "certificate" in err, answer
    answer, err = add(p, d, ca_file=cert)
    assert answer["online"] and answer["ca_file"] == str(cert) and not err, (answer, err)
    assert p.ok("sh", "--on", "host:gpu", "pwd").text == f"{d.work}\n"


def test_slow_ones_keep_nobody_waiting(p):
    d, host = p.daemon(), Host(p).login()
    with socket.create_server(("127.0.0.1", 0), backlog=64) as deaf:  # takes connections, and says nothing
        deaf.settimeout(LIMIT)
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        token = token_of(p)
        for i in range(8):
            status, _, text = host.ask("POST", "/api/devices/external", {
                "name": f"deaf{i}", "url": url, "device_id": "env-deaf", "credential_file": str(d.credential)},
                Authorization=f"Bearer {token}")
            added = json.loads(text)
            assert status == 200 and added["online"] is False, text
            assert "trouble" not in added and added["asked_at"] is None, text  # nobody waited for what it says

        def is_told_while_one_is_asked():
            asked, _ = deaf.accept()
            with asked:
                status, _, text = host.ask("GET", "/api/devices", Authorization=f"Bearer {token}")
                assert status == 200 and len(json.loads(text)["devices"]) == 8, text
                return is_still_asked(asked)

        until(is_told_while_one_is_asked, "an answer while a target is asked that says nothing")
        until(lambda: host.device("deaf7").get("trouble"), "every one of them is asked in the end", 3 * LIMIT)
        assert host.device("deaf7")["trouble"]["code"] == "TIMEOUT"
        begun = time.monotonic()
        host.stop()  # in the middle of asking
        assert time.monotonic() - begun < STOPPED_WITHIN_S


def is_still_asked(s):
    """Nobody has given up on it yet."""
    try:
        while s.recv(65536, socket.MSG_DONTWAIT):
            pass
    except BlockingIOError:
        return True
    except ConnectionResetError:
        pass
    return False


def test_host_that_takes_only_these(p):
    d, host = p.daemon(), Host(p, "--no-pairing").login()
    assert host.pair(Device())[0] == 403
    assert add(p, d)[0]["online"]


def test_names_and_usage(p):
    d, host = p.daemon(), Host(p).login()
    work = Device()
    p.ok("devices", "approve", host.pair(work)[1]["challenge"]["verification_code"])
    good = ("--device-id", d.device, "--credential-file", d.credential)
    p.fails(2, "devices", "add-http")
    p.fails(2, "devices", "add-http", "gpu")
    p.fails(2, "devices", "add-http", "gpu", d.url)
    p.fails(2, "devices", "add-http", "gpu", d.url, "--device-id", d.device)
    p.fails(2, "devices", "add-http", "gpu", "http://192.0.2.1:9000", *good)  # the credential in the clear
    p.fails(2, "devices", "add-http", "gpu", "https://me:secret@127.0.0.1", *good)
    p.fails(2, "devices", "add-http", "gpu", "nonsense", *good)
    p.fails(2, "devices", "add-http", "", d.url, *good)
    p.fails(2, "devices", "add-http", "a\x1b[2J", d.url, *good)
    p.fails(2, "devices", "add-http", "gpu", d.url, *good, "--ca-file", d.credential)  # of a certificate, without one
    p.fails(2, "devices", "remove")
    r = p.fails(1, "devices", "add-http", "work", d.url, *good)
    assert "work" in r.err
    r = p.fails(1, "devices", "remove", "work")
    assert "devices revoke" in r.err
    relative = os.path.relpath(d.credential, p.here)
    p.ok("devices", "add-http", "gpu", d.url, "--device-id", d.device, "--credential-file", relative)
    assert host.device("gpu")["online"]
    p.fails(1, "devices", "add-http", "gpu", d.url, *good)
    p.ok("devices", "add-http", "192.0.2.1", "http://192.0.2.1:9", *good, "--allow-plaintext-private-link")
    for body in ({}, {"name": "x"}, {"name": "x", "url": d.url, "device_id": "d", "credential_file": "relative"},
                 {"name": "x", "url": d.url, "device_id": "d", "credential_file": "/f", "credential": d.token},
                 {"name": "x", "url": d.url, "device_id": "d", "credential_file": 1}):
        status, _, text = host.ask("POST", "/api/devices/external", body, Authorization=f"Bearer {token_of(p)}")
        assert status == 400 and d.token not in text, text
    assert host.ask("POST", "/api/devices/external", {"name": "x"})[0] == 401


OLD_RECORDS = """
CREATE TABLE devices(id TEXT PRIMARY KEY,device_id TEXT NOT NULL UNIQUE,name TEXT NOT NULL,
 state TEXT NOT NULL CHECK (state IN ('pending','approved','revoked')),
 digest BLOB NOT NULL UNIQUE CHECK (length(digest)=32),address TEXT NOT NULL,created_ms INTEGER NOT NULL,
 approved_ms INTEGER,revoked_ms INTEGER,seen_ms INTEGER,clashes INTEGER NOT NULL DEFAULT 0,clash_ms INTEGER,
 clash_address TEXT) STRICT;
CREATE TABLE challenges(id TEXT PRIMARY KEY,device TEXT NOT NULL UNIQUE REFERENCES devices(id) ON DELETE CASCADE,
 code TEXT NOT NULL UNIQUE,created_ms INTEGER NOT NULL,expires_ms INTEGER NOT NULL,rejected_ms INTEGER) STRICT;
CREATE TABLE sign_ins(digest BLOB PRIMARY KEY CHECK (length(digest)=32),
 kind TEXT NOT NULL CHECK (kind IN ('link','browser','terminal')),label TEXT NOT NULL,created_ms INTEGER NOT NULL,
 expires_ms INTEGER NOT NULL) STRICT;
INSERT INTO devices(id,device_id,name,state,digest,address,created_ms,approved_ms)
 VALUES('dev-0123456789abcdef0123','device-old','old','approved',randomblob(32),'192.0.2.7',1700000000000,1700000001000);
PRAGMA user_version=1;
"""


def test_records_of_an_older_host_are_kept(p):
    data = p.base / "host"
    data.mkdir(mode=0o700)
    old = sqlite3.connect(data / "host.sqlite")
    old.executescript(OLD_RECORDS)
    old.close()
    (data / "host.sqlite").chmod(0o600)
    host = Host(p, data=data).login()
    device = host.device("old")
    assert device["state"] == "approved" and device["device_id"] == "device-old" and device["kind"] == "linked", device
    assert device["approved_at"] == "2023-11-14T22:13:21Z" and device["address"] == "192.0.2.7", device
    d = p.daemon()
    add(p, d)
    host.restart()
    assert {x["name"] for x in host.devices()} == {"old", "gpu"}


# ---- what a Host may answer ----

class FakeHost:
    """Answers GET api/devices and everything else with what it is given."""

    def __init__(self, p, devices):
        fake = self
        self.devices, self.error = devices, None

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self):
                body = {"devices": fake.devices} if self.path == "/api/devices" else {"token": "0" * 64}
                text = json.dumps(fake.error or body).encode()
                self.send_response(409 if fake.error else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = answer

            def do_POST(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.answer()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        p.daemons.append(self)
        p.ok("host", "login", f"http://127.0.0.1:{self.server.server_port}", stdin=b"0" * 32)

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def test_names_of_others_do_not_steer_a_terminal(p):
    evil = "\x1b]0;owned\x07\x1b[2J\u202egpj\r\n\x9b31m"
    device = {"id": "dev-1\x1b[0m", "device_id": "d\x1b[1m", "name": evil, "kind": "external", "state": "approved",
              "online": False, "address": "a\x1b[2m", "url": "http://x\x1b[3m", "asked_at": "2026\x1b[4m",
              "last_seen_at": "2026\x1b[5m", "trouble": {"code": "CONNECT", "message": "no\x1b[6m\nwork  online"}}
    waiting = {"id": "dev-2", "device_id": "d2", "name": "w" * 5000, "kind": "linked", "state": "pending", "online": False,
               "verification_code": "B\x1b[7m", "address": "a\x1b[8m", "rejected": False}
    fake = FakeHost(p, [device, waiting])
    master, slave = os.openpty()
    run = subprocess.Popen([TELECHIR, "devices"], stdout=slave, stderr=slave, stdin=subprocess.DEVNULL, env=p.env)
    os.close(slave)
    seen = b""
    try:
        while data := os.read(master, 65536):
            seen += data
    except OSError:  # the other end is closed
        pass
    os.close(master)
    assert run.wait(LIMIT) == 0, seen
    for text in (seen.decode(), p.ok("devices").text):
        lines = text.replace("\r\n", "\n").splitlines()
        assert len(lines) == 2, lines
        assert not [c for c in text if (ord(c) < 32 and c not in "\r\n") or c in "\x7f\x9b\u202e"], text
    assert p.json("devices")[0]["name"] == evil  # programs get it as it is
    fake.error = {"error": {"code": "x", "message": "really\x1b[2J\nno"}}
    r = p.fails(1, "devices")
    assert "\x1b" not in r.err and "really" in r.err


if __name__ == "__main__":
    sys.exit(run_tests(globals()))
