#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Host as its owner, their browser and their devices see it. TELECHIR is the program, with telechird beside it;
A13N_ENVD, when it is set, is the reference daemon, which must get along with the Host too. An argument picks tests
by name."""

import base64
import contextlib
import html
import http.client
import json
import os
import pathlib
import re
import secrets
import signal
import socket
import ssl
import stat
import subprocess
import sys
import threading
import time
import urllib.parse

from peers import TELECHIRD
from sshd import NoServer
from test_command import LIMIT, TELECHIR, run_tests

REVOKED_WITHIN_S = 10  # by itself: a ping comes after 20
DRAINED_WITHIN_S = 25  # after 5, in good order; a connection that says nothing has 30


def until(condition, what, limit=LIMIT):
    """Look again and again for something that another process does; whatever is true."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {limit} s: {what}")


class Host:
    def __init__(self, p, *options, bind="127.0.0.1:0", data=None):
        self.p, self.options, self.bind = p, options, bind
        self.data = data or p.base / "host"
        p.daemons.append(self)
        self.start()

    def start(self):
        self.process = self.p.start("host", "serve", "--json", "--bind", self.bind, "--data", self.data, *self.options)
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        said = json.loads(line)
        self.url, self.link = said["url"], said.get("sign_in_url")
        self.at = urllib.parse.urlsplit(self.url)
        if not self.options or "--public-url" not in self.options:
            self.bind = self.at.netloc  # a restart is found again
        return self

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        _, err = self.process.communicate(timeout=LIMIT)
        assert self.process.returncode == (0 if how == signal.SIGTERM else -how), err
        return err.decode()

    def restart(self, how=signal.SIGTERM):
        self.stop(how)
        return self.start()

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()

    def ask(self, method, path, body=None, port=None, **headers):
        """(status, headers, text); body: a dict is JSON, a list of pairs a form."""
        c = http.client.HTTPConnection("127.0.0.1", port or self.at.port, timeout=LIMIT)
        headers = {k.replace("_", "-"): v for k, v in headers.items()}
        if isinstance(body, dict):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        elif isinstance(body, list):
            body = urllib.parse.urlencode(body)
            headers.setdefault("Content-Type", "application/x-www-form-urlencoded")
        c.request(method, path, body, headers)
        r = c.getresponse()
        text = r.read().decode()
        c.close()
        return r.status, r.headers, text

    def pair(self, device, **more):
        status, _, text = self.ask("POST", "/api/envd/pair", {"device_id": device.identity, "name": device.name},
                                   Authorization=f"Bearer {device.credential}", **more)
        return status, json.loads(text)

    def login(self):
        self.p.ok("host", "login", self.url, stdin=(self.link + "\n").encode())
        return self

    def devices(self):
        return self.p.json("devices")

    def device(self, name="work"):
        found = [d for d in self.devices() if d["name"] == name]
        assert len(found) == 1, found
        return found[0]

    def is_online(self, name="work"):
        """Asked without a program that has to start first."""
        saved = pathlib.Path(self.p.env["XDG_CONFIG_HOME"], "telechir/hosts.json").read_text()
        token = next(h["token"] for h in json.loads(saved)["hosts"] if h["url"] == self.url)
        _, _, text = self.ask("GET", "/api/devices", Authorization=f"Bearer {token}")
        return any(d["online"] for d in json.loads(text)["devices"] if d["name"] == name)


class Device:
    """What a device knows of itself."""

    def __init__(self, name="work"):
        self.name = name
        self.identity = "device-" + secrets.token_hex(16)
        self.credential = secrets.token_hex(32)


class Envd:
    """A daemon that connects, with files of its own."""

    def __init__(self, p, program, host, name="work", options=()):
        self.p, self.program, self.host, self.name, self.options = p, program, host, name, options
        self.more = {}  # of its environment
        self.state = p.base / f"state-{pathlib.Path(program).name}-{name}"
        self.log = self.state.with_suffix(".log")
        self.out = self.state.with_suffix(".out")
        p.daemons.append(self)

    def start(self, target=None):
        env = {k: v for k, v in self.p.env.items() if not k.startswith("A13N_")}
        env.update(self.more, HOME=str(self.p.base))
        with open(self.log, "wb") as log, open(self.out, "wb") as out:
            self.process = subprocess.Popen(
                [self.program, "connect", target or self.host.url, *([] if target else ["--host", self.name]),
                 "--instance", self.name, "--state-dir", self.state, *(() if target else self.options)],
                stdin=subprocess.DEVNULL, stdout=out, stderr=log, env=env, cwd=self.p.base)
        return self

    def said(self):
        return self.log.read_text(errors="replace")

    def code(self):
        m = until(lambda: re.search(r"[Vv]erification code: (\S+)", self.said()), "a code")
        return m.group(1)

    def ends(self, limit=LIMIT):
        return self.process.wait(limit)

    def stop(self):
        self.process.terminate()
        self.process.wait(LIMIT)

    def close(self):
        if getattr(self, "process", None) and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def daemons():
    """Those that can be tried here."""
    found = []
    help_text = subprocess.run([TELECHIRD, "--help"], capture_output=True, text=True).stdout
    if "Not available in this build: connect" not in help_text:
        found.append(TELECHIRD)
    if os.environ.get("A13N_ENVD"):
        found.append(os.environ["A13N_ENVD"])
    if not found:
        raise NoServer("this telechird cannot connect, and A13N_ENVD names no other daemon")
    return found


def upgrade(host, path, credential, protocol="eip.v1"):
    """The status of an attempt to link."""
    with socket.create_connection(("127.0.0.1", host.at.port), LIMIT) as s:
        key = base64.b64encode(secrets.token_bytes(16)).decode()
        s.sendall((f"GET {path} HTTP/1.1\r\nHost: {host.at.netloc}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                   f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Protocol: {protocol}\r\n"
                   f"Authorization: Bearer {credential}\r\n\r\n").encode())
        return int(s.makefile("rb").readline().split()[1])


# ---- starting, and getting in ----

def test_first_start_prints_a_link_that_works_once(p):
    host = Host(p)
    assert host.link.startswith(host.url + "sign-in/")
    assert p.fails(3, "devices").err.count("host login") == 1
    r = p.ok("host", "login", host.url, stdin=host.link.encode())
    assert host.link.rsplit("/")[-1] not in r.text + r.err
    assert p.ok("devices").text == ""
    p.fails(3, "host", "login", host.url, stdin=host.link.encode())  # used up
    p.fails(2, "host", "login", host.url, stdin=b"\n")
    saved = pathlib.Path(p.env["XDG_CONFIG_HOME"], "telechir/hosts.json")
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    token = json.loads(saved.read_text())["hosts"][0]["token"]
    assert token not in r.text + r.err
    for f in host.data.iterdir():
        assert token.encode() not in f.read_bytes(), f
    assert stat.S_IMODE(host.data.stat().st_mode) == 0o700
    assert stat.S_IMODE((host.data / "host.sqlite").stat().st_mode) == 0o600
    assert host.restart().link is None
    assert p.ok("devices").text == ""  # the token is still good
    more = p.json("host", "link")[0]["url"]
    assert more.startswith(host.url)
    p.ok("host", "login", host.url, stdin=more.encode())
    p.ok("host", "logout")
    p.fails(3, "devices")
    host.stop()
    host.options = ("--sign-in-link",)
    assert host.start().link


def test_links_are_printed_until_somebody_is_in(p):
    host = Host(p)
    first = host.link
    assert host.restart().link not in (None, first)


def test_usage(p):
    p.fails(2, "host")
    p.fails(2, "host", "fly")
    p.fails(2, "host", "login")
    p.fails(2, "host", "login", "ftp://example.org")
    p.fails(2, "host", "login", "http://192.0.2.1:80", stdin=b"x")  # a token in the clear
    p.fails(2, "host", "serve", "more")
    p.fails(2, "devices", "fly")
    p.fails(2, "devices", "approve")
    p.fails(3, "devices", "--host", "http://127.0.0.1:1")
    r = p.run("host", "login", "http://127.0.0.1:1", stdin=b"x")
    assert r.returncode == 3, r.shown  # nobody there


def test_plain_http_is_for_this_machine(p):
    r = p.fails(2, "host", "serve", "--bind", "0.0.0.0:0", "--data", p.base / "h")
    assert "--behind-proxy" in r.err and "--tls-cert" in r.err
    p.fails(2, "host", "serve", "--bind", "nonsense", "--data", p.base / "h")
    p.fails(2, "host", "serve", "--tls-cert", "only.pem", "--data", p.base / "h")
    assert not (p.base / "h").exists()
    host = Host(p, "--behind-proxy", "--public-url", "https://host.example/hands", bind="0.0.0.0:0")
    assert host.url == "https://host.example/hands/" and host.link.startswith(host.url)


def test_one_host_for_a_folder(p):
    host = Host(p)
    r = p.fails(1, "host", "serve", "--bind", "127.0.0.1:0", "--data", host.data)
    assert str(host.process.pid) in r.err


def test_ends_in_good_order(p):
    host = Host(p)
    open_ones = [socket.create_connection(("127.0.0.1", host.at.port)) for _ in range(3)]
    open_ones[0].sendall(b"POST /api/envd/pair HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                         b"Content-Length: 100\r\n\r\n{")
    begun = time.monotonic()
    assert host.stop() == ""
    assert time.monotonic() - begun < DRAINED_WITHIN_S
    for s in open_ones:
        s.close()


# ---- pairing, as bytes ----

def test_pairing_request_is_strict(p):
    host = Host(p)
    d = Device()
    good = {"device_id": d.identity, "name": "work"}
    bearer = {"Authorization": f"Bearer {d.credential}"}
    for status, body, headers in (
            (401, good, {}), (401, good, {"Authorization": "Bearer short"}),
            (401, good, {"Authorization": f"Basic {d.credential}"}),
            (400, {**good, "more": 1}, bearer), (400, {"name": "work"}, bearer), (400, {**good, "name": ""}, bearer),
            (400, {**good, "name": "a\x1b[2J"}, bearer), (400, {**good, "device_id": "../x"}, bearer),
            (413, {**good, "name": "x" * 9000}, bearer),
            (415, json.dumps(good), {**bearer, "Content-Type": "text/plain"}),
            (400, "{", {**bearer, "Content-Type": "application/json"})):
        got, h, text = host.ask("POST", "/api/envd/pair", body, **headers)
        assert got == status, (status, got, body, text)
        error = json.loads(text)["error"]
        assert re.fullmatch("[a-z_]+", error["code"]) and error["message"], text
        assert d.credential not in text
    assert host.ask("GET", "/api/envd/pair")[0] == 405
    assert host.ask("GET", "/nothing")[0] == 404
    host.login()
    assert host.devices() == []
    status, answer = host.pair(d)
    assert status == 200 and answer["status"] == "pending" and 1 <= answer["poll_after_seconds"] <= 10
    assert re.fullmatch("[B-Z]{4}-[B-Z]{4}", answer["challenge"]["verification_code"])


def test_pairing_is_the_same_request_until_it_is_decided_case_69(p):
    host = Host(p).login()
    d, other = Device(), Device()
    _, first = host.pair(d)
    host.restart(signal.SIGKILL)  # in the middle
    assert host.pair(d)[1] == first
    code = first["challenge"]["verification_code"]
    assert host.device()["verification_code"] == code
    host.pair(other)  # the same name on another device
    r = p.ok("devices", "approve", code.lower().replace("-", ""))
    assert d.identity in r.text
    status, answer = host.pair(d)
    assert status == 200 and answer["status"] == "approved"
    assert answer["websocket_url"] == f"/api/devices/{answer['resource_id']}/connect"
    assert host.pair(d)[1] == answer
    assert sorted(x["state"] for x in host.devices()) == ["approved", "pending"]
    p.fails(1, "devices", "approve", code)  # nobody waits with it any more


def test_rejected(p):
    host = Host(p).login()
    d = Device()
    code = host.pair(d)[1]["challenge"]["verification_code"]
    p.ok("devices", "reject", code)
    status, answer = host.pair(d)
    assert status == 403 and answer["error"]["code"] == "pairing_rejected"
    assert host.device()["rejected"] is True
    p.fails(1, "devices", "approve", code)


def test_other_credential_is_refused_and_shown(p):
    host = Host(p).login()
    d = Device()
    code = host.pair(d)[1]["challenge"]["verification_code"]
    p.ok("devices", "approve", code)
    thief = Device()
    thief.identity = d.identity
    for n in (1, 2):
        status, answer = host.pair(thief)
        assert status == 409 and answer["error"]["code"] == "identity_in_use"
        assert host.device()["other_credential"]["count"] == n
    assert "another credential" in p.ok("devices").text
    assert host.pair(d)[1]["status"] == "approved"


def test_revoked_by_name_id_or_identity(p):
    host = Host(p).login()
    all_devices = [Device(), Device(), Device("lap top"), Device("box")]
    for d in all_devices:
        p.ok("devices", "approve", host.pair(d)[1]["challenge"]["verification_code"])
    ids = {d["device_id"]: d["id"] for d in host.devices()}
    r = p.fails(1, "devices", "revoke", "work")
    assert ids[all_devices[0].identity] in r.err and ids[all_devices[1].identity] in r.err
    p.ok("devices", "revoke", ids[all_devices[0].identity])
    p.ok("devices", "revoke", "work")  # only one is left
    p.ok("devices", "revoke", "lap top")
    p.ok("devices", "revoke", all_devices[3].identity)
    p.fails(1, "devices", "revoke", "nobody")
    assert {d["state"] for d in host.devices()} == {"revoked"}
    for d in all_devices:
        status, answer = host.pair(d)
        assert status == 403 and answer["error"]["code"] == "device_revoked"
        assert upgrade(host, f"/api/devices/{ids[d.identity]}/connect", d.credential) == 403


def test_host_that_takes_no_devices(p):
    host = Host(p, "--no-pairing")
    status, answer = host.pair(Device())
    assert status == 403 and answer["error"]["code"] == "pairing_disabled"


def test_too_many_requests(p):
    host = Host(p)
    assert host.pair(Device())[0] == 200
    # One behind the other, and refused for more than that: each counts, and they come faster than they are forgiven.
    ask = b"POST /api/envd/pair HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    seen = b""
    with socket.create_connection(("127.0.0.1", host.at.port), LIMIT) as s:
        threading.Thread(target=send_until_refused, args=(s, ask * 3000), daemon=True).start()
        while b"HTTP/1.1 429 " not in seen and (data := s.recv(65536)):
            seen += data
    assert seen.startswith(b"HTTP/1.1 401 ") and b"HTTP/1.1 429 " in seen, seen[-500:]


def send_until_refused(s, data):
    with contextlib.suppress(OSError):
        s.sendall(data)


def test_link_needs_the_devices_credential(p):
    host = Host(p).login()
    d = Device()
    code = host.pair(d)[1]["challenge"]["verification_code"]
    path = f"/api/devices/{host.device()['id']}/connect"
    assert upgrade(host, path, d.credential) == 401  # not approved
    p.ok("devices", "approve", code)
    assert upgrade(host, path, secrets.token_hex(32)) == 401
    assert upgrade(host, "/api/devices/dev-0/connect", d.credential) == 401
    assert upgrade(host, path, d.credential, protocol="other") == 400
    assert upgrade(host, path, d.credential) == 101
    assert host.ask("GET", path, Authorization=f"Bearer {d.credential}")[0] == 426


def test_wrong_tokens_are_slowed_down(p):
    host = Host(p).login()
    seen = [host.ask("GET", "/api/devices", Authorization="Bearer " + secrets.token_hex(32))[0] for _ in range(30)]
    assert seen[0] == 401 and seen[-1] == 429, seen
    assert p.ok("devices").text == ""  # the owner, from the same address, is let in


def test_full_disk(p):
    """What cannot be written down is not answered as if it were, and the Host says why; with room it goes on."""
    library = pathlib.Path(TELECHIR).with_name("bad_disk.so")
    if not library.exists():
        raise NoServer("no bad_disk.so beside telechir")
    host = Host(p).login()
    d, clash = Device(), Device()
    p.ok("devices", "approve", host.pair(d)[1]["challenge"]["verification_code"])
    clash.identity = d.identity
    host.stop()
    p.env.update(LD_PRELOAD=str(library), BAD_DISK="full 60", BAD_DISK_PATH=str(host.data / "host.sqlite"),
                 BAD_DISK_STRUCK=str(p.base / "struck"),
                 ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0")
    host.start()
    for name in ("LD_PRELOAD", "BAD_DISK", "BAD_DISK_PATH", "BAD_DISK_STRUCK"):
        del p.env[name]
    answered = 0
    while True:
        status, answer = host.pair(clash)  # each of them is noted
        if status == 500:
            break
        assert status == 409 and answered < 55, answer
        answered += 1
    assert (p.base / "struck").exists()
    assert "disk" not in answer["error"]["message"]  # that is the operator's business
    assert host.pair(d)[1]["status"] == "approved"  # what needs no room still works
    p.fails(1, "devices", "revoke", "work")
    assert host.device()["state"] == "approved"
    err = host.stop()
    assert "disk is full" in err or "no space" in err.lower(), err
    host.start()
    assert host.device()["other_credential"]["count"] == answered
    p.ok("devices", "revoke", "work")


# ---- the pages ----

class Browser:
    def __init__(self, host):
        self.host, self.cookie = host, None

    def get(self, path):
        return self.host.ask("GET", path, **({"Cookie": self.cookie} if self.cookie else {}))

    def post(self, path, fields, **headers):
        headers.setdefault("Sec_Fetch_Site", "same-origin")
        if self.cookie:
            headers["Cookie"] = self.cookie
        return self.host.ask("POST", path, fields, **headers)

    def sign_in(self, link):
        path = urllib.parse.urlsplit(link).path
        for _ in range(2):  # looking uses nothing up
            status, _, text = self.get(path)
            assert status == 200, text
        code = re.search('name="code" value="([0-9a-f]+)"', text).group(1)
        status, h, _ = self.post("/sign-in", [("code", code)])
        assert status == 303 and h["Location"] == self.host.at.path, (status, h)
        value, *attributes = h["Set-Cookie"].split("; ")
        assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(attributes), attributes
        self.cookie, self.attributes = value, attributes
        return self

    def form(self, text):
        return html.unescape(re.search('name="csrf" value="([^"]+)"', text).group(1))


def check_page(h, text):
    assert h["Content-Security-Policy"].startswith("default-src 'none'; style-src 'self'; form-action 'self'")
    assert h["X-Content-Type-Options"] == "nosniff" and h["Cache-Control"] == "no-store"
    assert "script-src 'self'" in h["Content-Security-Policy"] and "unsafe" not in h["Content-Security-Policy"]
    assert not re.search(r"<script(?![^>]* src=\"/)[^>]*>|<script[^>]*>[^<]", text), text  # none but files of its own
    assert not re.search(r"<[^>]* on[a-z]+\s*=", text.lower()), text
    for address in re.findall(r'(?:href|src|action)="([^"]*)"', text):
        assert address.startswith(("/", "#")) or not address, address


def test_owner_approves_in_a_browser(p):
    host = Host(p)
    d = Device("<b>\"Mallory\" & 'Sons'</b>")
    answer = host.pair(d)[1]
    path, code = answer["approval_url"], answer["challenge"]["verification_code"]
    browser = Browser(host)
    status, h, text = browser.get(path)
    assert status == 401 and code not in text and d.identity not in text
    check_page(h, text)
    browser.sign_in(host.link)
    status, h, text = browser.get(path)
    assert status == 200
    check_page(h, text)
    for shown in (d.name, d.identity, code, "Approve", "Reject"):
        assert shown in html.unescape(text), shown
    assert d.name not in text  # nothing of it is markup
    word = browser.form(text)
    right = [("csrf", word), ("code", code), ("decision", "approve")]
    for status, fields, headers in (
            (403, [("code", code), ("decision", "approve")], {}),
            (403, [("csrf", "0" * 64), *right[1:]], {}),
            (403, right, {"Sec_Fetch_Site": "cross-site"}),
            (403, right, {"Sec_Fetch_Site": "same-site"}),
            (403, right, {"Origin": "https://elsewhere.example"}),
            (415, right, {"Content_Type": "text/plain"}),
            (400, [*right[:2], ("decision", "maybe")], {}),
            (404, [right[0], ("code", "BCDF-GHJK"), right[2]], {})):
        got, h, text = browser.post(path, fields, **headers)
        assert got == status, (got, status, fields, text)
        check_page(h, text)
        assert host.pair(d)[1] == answer
    assert host.ask("POST", path, right)[0] == 401
    assert browser.post(path, right)[0] == 303
    assert host.pair(d)[1]["status"] == "approved"
    status, h, text = browser.get("/")
    assert status == 200 and d.identity in text and "Revoke connection" in text
    assert f"connect {host.url}" in text
    check_page(h, text)
    revoke = re.search('action="(/devices/[^"]+/revoke)"', text).group(1)
    assert browser.post(revoke, [])[0] == 403
    assert browser.post(revoke, [("csrf", word)])[0] == 303
    assert host.pair(d)[0] == 403
    assert "revoked" in browser.get("/")[2]  # it stays visible
    status, h, text = browser.get("/page.css")
    assert status == 200 and h["Content-Type"].startswith("text/css")


def test_rejected_in_a_browser(p):
    host = Host(p)
    d = Device()
    answer = host.pair(d)[1]
    browser = Browser(host).sign_in(host.link)
    text = browser.get("/")[2]
    assert browser.post(answer["approval_url"], [("csrf", browser.form(text)), ("decision", "reject"),
                                                 ("code", answer["challenge"]["verification_code"])])[0] == 303
    assert host.pair(d)[0] == 403


def test_session_of_a_browser(p):
    host = Host(p)
    browser = Browser(host).sign_in(host.link)
    assert Browser(host).post("/sign-in", [("code", host.link.rsplit("/")[-1])])[0] == 401  # used up
    status, _, text = browser.get("/api/devices")
    assert status == 200 and json.loads(text) == {"devices": []}
    assert browser.post("/api/sign-in-links", {})[0] == 403  # a cookie alone changes nothing
    word = browser.form(browser.get("/")[2])
    status, _, text = browser.post("/api/sign-in-links", {}, X_CSRF_Token=word)
    assert status == 200
    p.ok("host", "login", host.url, stdin=json.loads(text)["url"].encode())
    token = json.loads(pathlib.Path(p.env["XDG_CONFIG_HOME"], "telechir/hosts.json").read_text())["hosts"][0]["token"]
    name = browser.cookie.split("=")[0]
    assert host.ask("GET", "/", Cookie=f"{name}={token}")[0] == 401  # a terminal's token is no session
    assert host.ask("GET", "/api/devices", Authorization="Bearer " + browser.cookie.split("=")[1])[0] == 401
    status, _, text = browser.post("/sign-in-links", [("csrf", word)])
    assert status == 200 and host.url + "sign-in/" in text
    status, h, _ = browser.post("/sign-out", [("csrf", word)])
    assert status == 303 and "Max-Age=0" in h["Set-Cookie"]
    assert browser.get("/")[0] == 401
    assert p.ok("devices").text == ""  # others stay signed in


def test_behind_a_proxy(p):
    host = Host(p, "--behind-proxy", "--public-url", "https://host.example/hands", bind="127.0.0.1:0")
    port = until(lambda: listening_port(host.process.pid), "a port")
    host.at = host.at._replace(netloc=f"127.0.0.1:{port}")
    d = Device()
    status, answer = host.pair(d, X_Forwarded_For="203.0.113.9, 198.51.100.4")
    assert status == 200 and answer["approval_url"].startswith("/hands/approve/")
    browser = Browser(host).sign_in(host.link)
    assert "Secure" in browser.attributes and browser.cookie.startswith("__Host-telechir=")
    for path in (answer["approval_url"], answer["approval_url"].removeprefix("/hands")):
        status, _, text = browser.get(path)  # whether the proxy takes its part off or not
        assert status == 200 and "198.51.100.4" in text and "203.0.113.9" not in text
    word = browser.form(browser.get("/")[2])
    for origin, status in (("https://host.example", 200), ("https://host.example.org", 403), ("null", 403),
                           ("https:/", 403), (f"http://127.0.0.1:{port}", 200)):
        assert browser.post("/sign-in-links", [("csrf", word)], Origin=origin)[0] == status, origin
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)
    body = json.dumps({"device_id": "device-2", "name": "two lines"})
    c.putrequest("POST", "/api/envd/pair")
    for name, value in (("X-Forwarded-For", "203.0.113.9"), ("X-Forwarded-For", "198.51.100.5"),
                        ("Content-Type", "application/json"), ("Content-Length", str(len(body))),
                        ("Authorization", f"Bearer {secrets.token_hex(32)}")):
        c.putheader(name, value)
    c.endheaders(body.encode())
    assert c.getresponse().status == 200
    assert "198.51.100.5" in browser.get("/")[2]


def listening_port(pid):
    """Of a process that listens on one."""
    inodes = set()
    for f in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        m = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(f))
        if m:
            inodes.add(m.group(1))
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        if words[3] == "0A" and words[9] in inodes:
            return int(words[1].split(":")[1], 16)
    return None


def make_certificate(cert, key):
    made = subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                           "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                           "-keyout", key, "-out", cert], capture_output=True)
    assert made.returncode == 0, made.stderr


def test_tls(p):
    cert, key = p.base / "cert.pem", p.base / "key.pem"
    make_certificate(cert, key)
    host = Host(p, "--tls-cert", str(cert), "--tls-key", str(key))
    assert host.url.startswith("https://127.0.0.1:")
    r = p.fails(3, "host", "login", host.url, stdin=host.link.encode())
    assert "certificate" in r.err, r.err
    p.ok("host", "login", host.url, "--ca-file", cert, stdin=host.link.encode())
    assert p.ok("devices").text == ""
    context = ssl.create_default_context(cafile=str(cert))
    with socket.create_connection(("127.0.0.1", host.at.port)) as s, context.wrap_socket(s, server_hostname="localhost") as t:
        t.sendall(b"GET /sign-in/0 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert t.makefile("rb").readline() == b"HTTP/1.1 200 OK\r\n"


# ---- daemons ----

def test_daemon_from_the_first_request_to_the_last_case_68(p):
    for n, program in enumerate(daemons()):
        host = Host(p, data=p.base / f"host{n}").login()
        d = Envd(p, program, host).start()
        code = d.code()
        assert host.device()["verification_code"] == code
        p.ok("devices", "approve", code)
        until(lambda: host.device()["online"], "online")
        assert d.out.read_bytes() == b"" and "approve/" in d.said()
        info = p.json("devices", "show", "work")[0]["info"]
        assert info["system"]["os"] == "linux" and info["boundary"]["sandbox"] == "disabled", info
        assert info["runs_commands"] is False and info["working_directory"].startswith("/"), info
        assert info["working_directory"] in p.ok("devices", "show", "work").text
        assert "online" in p.ok("devices").text
        seen = host.device()["last_seen_at"]
        credential = (d.state / "instances/work/hosts/work/credential").read_text()
        assert credential not in d.said()
        path = f"/api/devices/{host.device()['id']}/connect"
        assert upgrade(host, path, credential) == 503  # it is linked, and stays so
        assert host.device()["online"]
        d.stop()
        until(lambda: not host.device()["online"], "offline")
        assert "info" not in p.json("devices", "show", "work")[0]
        assert host.device()["last_seen_at"] > seen
        d.start("work")  # no approval, not even a request
        until(lambda: host.device()["online"], "online again")
        assert "code" not in d.said()
        host.restart()  # it comes back by itself
        until(lambda: host.device()["online"], "online after the Host was restarted")
        assert len(host.devices()) == 1
        p.ok("devices", "revoke", "work")
        begun = time.monotonic()
        assert upgrade(host, path, credential) == 403
        until(lambda: not host.is_online(), "its link is ended")
        assert time.monotonic() - begun < REVOKED_WITHIN_S
        assert d.ends() == 1 and "authorization failed" in d.said(), d.said()
        for _ in range(2):
            assert d.start("work").ends() == 1
            assert "code" not in d.said()
        assert host.device()["state"] == "revoked"
        assert (d.state / "instances/work/hosts/work/credential").read_text() == credential
        host.stop()


def test_daemon_is_rejected(p):
    for n, program in enumerate(daemons()):
        host = Host(p, data=p.base / f"host{n}").login()
        d = Envd(p, program, host).start()
        p.ok("devices", "reject", d.code())
        assert d.ends() == 1 and "pairing_rejected" in d.said(), d.said()
        host.stop()


def test_interrupted_daemon_goes_on_with_its_request_case_69(p):
    for n, program in enumerate(daemons()):
        host = Host(p, data=p.base / f"host{n}").login()
        d = Envd(p, program, host).start()
        code = d.code()
        d.process.kill()
        d.process.wait()
        assert d.start().code() == code
        d.process.kill()
        d.process.wait()
        p.ok("devices", "approve", code)  # nobody hears of it
        d.start()
        until(lambda: host.device()["online"], "online")
        assert len(host.devices()) == 1
        host.stop()


def test_two_daemons_of_one_name(p):
    for n, program in enumerate(daemons()):
        host = Host(p, data=p.base / f"host{n}").login()
        for name in ("one", "two"):
            d = Envd(p, program, host, name).start()
            p.ok("devices", "approve", d.code())
        until(lambda: all(d["online"] for d in host.devices()), "both online")
        p.ok("devices", "revoke", "one")
        begun = time.monotonic()
        until(lambda: not host.is_online("one"), "one is ended")
        assert time.monotonic() - begun < REVOKED_WITHIN_S
        assert host.device("two")["online"]
        host.stop()


if __name__ == "__main__":
    sys.exit(run_tests(globals()))
