#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What goes over a Host's wires when somebody breaks it, on purpose or not: links cut at every kind of message, requests and
frames that are no protocol, readers that read nothing, strangers. The Host and its other devices go on. TELECHIR is the
program, with telechird beside it; an argument picks tests by name."""

import contextlib
import http.client
import json
import os
import pathlib
import resource
import signal
import socket
import struct
import sys

from fault_host import LIMIT, TELECHIR, TELECHIRD, Browser, Device, Envd, Gate, Host, Pair, answers, run_tests, until


# ---- the link, cut

class Frames:
    """One direction of a link: bytes in, whole frames out, each with what it is."""

    def __init__(self, gate, is_up):
        self.gate, self.is_up, self.data = gate, is_up, b""
        self.is_open = self.is_other = False

    def take(self, more):
        """(kind, bytes of its head, all of its bytes), as many as are there."""
        self.data += more
        while True:
            if self.is_other:
                whole, self.data = self.data, b""
                if whole:
                    yield "other", 0, whole
                return
            if not self.is_open:
                end = self.data.find(b"\r\n\r\n")
                if end < 0:
                    return
                head = self.data[:end + 4]
                self.is_open = b"101" in head.split(b"\r\n")[0] or b"websocket" in head.lower()
                self.is_other = not self.is_open
                if self.is_open:
                    self.data = self.data[end + 4:]
                    yield "upgrade request" if self.is_up else "upgrade answer", 20, head
                continue
            n = self.length()
            if n is None:
                return
            head, size = n
            frame_, self.data = self.data[:head + size], self.data[head + size:]
            yield self.kind(frame_, head), head, frame_

    def length(self):
        if len(self.data) < 2:
            return None
        head, size = 2, self.data[1] & 0x7f
        if size >= 126:
            head += 2 if size == 126 else 8
            if len(self.data) < head:
                return None
            size = int.from_bytes(self.data[2:head], "big")
        head += 4 if self.data[1] & 0x80 else 0
        return (head, size) if len(self.data) >= head + size else None

    def kind(self, frame_, head):
        way = "from the device" if self.is_up else "to it"
        payload = frame_[head:]
        if frame_[1] & 0x80:
            mask = frame_[head - 4:head]
            payload = bytes(b ^ mask[i % 4] for i, b in enumerate(payload[:4096]))
        opcode = frame_[0] & 0x0f
        if opcode == 1:
            message = json.loads(payload)
            if "method" in message:
                self.gate.methods[message["id"]] = message["method"]
                return f"{message['method']} {way}"
            return f"answer to {self.gate.methods.get(message['id'])}"
        return f"data {payload[5]} {way}" if opcode == 2 else f"opcode {opcode} {way}"


class FrameGate(Gate):
    """A gate that knows frames, and cuts the link at one of them: rule is (kind, "head" or "half")."""

    def __init__(self, port):
        self.kinds, self.methods, self.rule, self.was_cut = [], {}, None, False
        self.ncopying = 0
        super().__init__(port)

    def is_quiet(self):
        """Nothing is on its way: what was said is in kinds, and no cut is still to come."""
        return self.ncopying == 0

    def copy(self, a, b, is_up):
        with self.changed:
            self.ncopying += 1
        try:
            self.pass_on(a, b, is_up)
        finally:
            with self.changed:
                self.ncopying -= 1

    def pass_on(self, a, b, is_up):
        frames = Frames(self, is_up)
        try:
            while data := a.recv(65536):
                for kind, head, whole in frames.take(data):
                    if kind not in self.kinds:
                        self.kinds.append(kind)
                    if self.rule is not None and self.rule[0] == kind:
                        upto = head - 1 if self.rule[1] == "head" else head + (len(whole) - head) // 2
                        self.rule, self.was_cut = None, True
                        b.sendall(whole[:upto])
                        raise OSError
                    b.sendall(whole)
        except OSError:
            pass
        for s in (a, b):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)


def test_link_cut_at_every_kind_of_message_case_65(p):
    """And within it: in its head, and in the middle of what it says. The link comes back by itself, who waited is told,
    and a file is the old one or the new one."""
    pair = Pair(p)
    pair.gate.close()
    pair.gate = FrameGate(pair.host.at.port)
    pair.target = pair.gate.url
    p.daemons.append(pair.gate)
    pair.start()
    pair.approve()
    pair.online()
    source, there = p.here / "source", p.base / "there"
    there.mkdir()
    source.write_bytes(os.urandom(300000))

    def work():
        up = p.run("cp", source, f"host:work:{there}/copy")
        down = p.run("cp", f"host:work:{there}/copy", p.here / "back")
        listed = p.run("ls", "--on", "host:work", there)
        return [r.returncode for r in (up, down, listed)]

    def stop():
        pair.envd.stop()
        until(pair.gate.is_quiet, "the end of its link")

    assert work() == [0, 0, 0]
    stop()
    # Pings come with time, and not with work.
    kinds = [k for k in pair.gate.kinds if k != "other" and not k.startswith(("opcode 9 ", "opcode 10 "))]
    for wanted in ("upgrade request", "upgrade answer", "initialize to it", "answer to initialize", "answer to session.open",
                   "opcode 8 from the device"):
        assert wanted in kinds, kinds
    assert sum(k.startswith("data ") for k in kinds) >= 4, kinds
    full = os.environ.get("TC_FULL") == "1"
    for n, kind in enumerate(kinds):
        for where in ("head", "half") if full else (("head", "half")[n % 2],):
            before = source.read_bytes()
            source.write_bytes(os.urandom(len(before)))
            pair.gate.rule, pair.gate.was_cut = (kind, where), False
            pair.envd.start("work")
            if kind.startswith(("upgrade", "initialize", "answer to initialize")):
                until(lambda: pair.gate.was_cut, "a cut in " + kind)
            else:
                pair.online()
                results = work()
                if kind.startswith("opcode 8"):
                    assert results == [0, 0, 0]
                    stop()
                assert pair.gate.was_cut, (kind, where, results)
                assert (there / "copy").read_bytes() in (before, source.read_bytes()), (kind, where)
                if kind.startswith("opcode 8"):
                    pair.envd.start("work")
            pair.online()
            assert work() == [0, 0, 0], (kind, where)
            assert (there / "copy").read_bytes() == source.read_bytes() == (p.here / "back").read_bytes()
            assert os.listdir(there) == ["copy"], (kind, where, os.listdir(there))
            pair.check()
            stop()
    pair.end()


# ---- what is no protocol

GET = "GET /api/devices HTTP/1.1\r\nHost: localhost\r\n"
PAIR = "POST /api/envd/pair HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
SECOND = "GET /page.css HTTP/1.1\r\nHost: localhost\r\n\r\n"
UPGRADE = ("GET /api/devices/dev-0/connect HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
           "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: eip.v1\r\n")

# What two readers of HTTP could take for different requests. One answer, and the connection ends: what follows is
# never taken for a request.
SMUGGLED = {
    "both lengths": (400, PAIR + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SECOND),
    "both, the other way": (400, PAIR + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + SECOND),
    "two lengths": (400, PAIR + "Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcd" + SECOND),
    "a list of lengths": (400, PAIR + "Content-Length: 4, 4\r\n\r\nabcd" + SECOND),
    "a sign": (400, PAIR + "Content-Length: +4\r\n\r\nabcd" + SECOND),
    "other digits": (400, PAIR + "Content-Length: 0x4\r\n\r\nabcd" + SECOND),
    "too many digits": (400, PAIR + "Content-Length: 18446744073709551617\r\n\r\n" + SECOND),
    "a blank before the colon": (400, PAIR + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + SECOND),
    "another coding": (501, PAIR + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + SECOND),
    "a coding twice": (501, PAIR + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n" + SECOND),
    "bare line feeds": (400, GET.replace("\r\n", "\n") + "\n" + SECOND),
    "one bare line feed": (400, GET + "X: y\nZ: z\r\n\r\n" + SECOND),
    "a bare carriage return": (400, GET + "X: y\rZ: z\r\n\r\n" + SECOND),
    "a folded line": (400, GET + "X: y\r\n z\r\n\r\n" + SECOND),
    "a blank in the target": (400, "GET /a b HTTP/1.1\r\nHost: localhost\r\n\r\n" + SECOND),
    "a NUL": (400, GET + "X: a\0b\r\n\r\n" + SECOND),
    "two hosts": (400, GET + "Host: other\r\n\r\n" + SECOND),
    "no host": (400, "GET /api/devices HTTP/1.1\r\n\r\n" + SECOND),
    "another version": (505, "GET / HTTP/3.1\r\nHost: localhost\r\n\r\n" + SECOND),
    "no protocol": (400, "\x16\x03\x01\x02\r\n\r\n" + SECOND),
    "a huge head": (431, GET + "X: " + "x" * 70000 + "\r\n\r\n" + SECOND),
    "many fields": (431, GET + "X: y\r\n" * 200 + "\r\n" + SECOND),
    "a broken chunk": (400, PAIR + "Transfer-Encoding: chunked\r\n\r\n2\r\nabX\r\n0\r\n\r\n" + SECOND),
    "a chunk's bare line feed": (400, PAIR + "Transfer-Encoding: chunked\r\n\r\n2\nab\n0\n\n" + SECOND),
    "a trailer": (400, PAIR + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nHost: other\r\n\r\n" + SECOND),
    "chunk extensions without end": (400, PAIR + "Transfer-Encoding: chunked\r\n\r\n1;" + "x" * 40000 + "\r\na\r\n0\r\n\r\n" + SECOND),
    "a body that is too long": (413, PAIR + "Content-Length: 1000000\r\n\r\n" + "x" * 20000),
    "a name that is not ours": (421, "POST /api/envd/pair HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n" + SECOND),
    "garbage behind an upgrade": (401, UPGRADE + "\r\n" + SECOND + "\x82\xff" + "x" * 1000),
}


def said_to(port, text):
    """All that comes back until the Host ends the connection."""
    with socket.create_connection(("127.0.0.1", port), LIMIT) as s:
        with contextlib.suppress(OSError):
            s.sendall(text.encode("latin-1"))
        got = b""
        with contextlib.suppress(ConnectionResetError):
            while data := s.recv(65536):
                got += data
        return got


def test_requests_that_two_readers_take_differently(p):
    """One refusal each, then the end; the Host and its devices go on."""
    pair = Pair(p)
    pair.start()
    pair.approve()
    pair.online()
    before = pair.envd.said()
    for name, (status, text) in SMUGGLED.items():
        got = said_to(pair.host.at.port, text)
        statuses = [int(line.split()[1]) for line in got.split(b"\r\n") if line.startswith(b"HTTP/1.")]
        assert statuses == [status], (name, statuses, got[:300])
        answers(pair)
    assert len(pair.host.devices()) == 1 and pair.envd.said() == before
    pair.end()


def test_pipelined_and_extended_requests_are_fine(p):
    """Strict is not deaf: what the standard allows works."""
    host = Host(p)
    two = SECOND + SECOND.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")
    assert said_to(host.at.port, two).count(b"HTTP/1.1 200 OK") == 2
    d = Device()
    body = json.dumps({"device_id": d.identity, "name": d.name}).encode().decode()
    chunks = "".join(f"{len(c):x};a=\"b\"\r\n{c}\r\n" for c in (body[:5], body[5:])) + "0\r\n\r\n"
    got = said_to(host.at.port, PAIR + f"Authorization: Bearer {d.credential}\r\nConnection: close\r\n"
                  "Transfer-Encoding: chunked\r\n\r\n" + chunks)
    assert got.startswith(b"HTTP/1.1 200 OK") and b"pending" in got, got


# ---- frames of a device

def frame(opcode, payload, fin=True, rsv=0, masked=True, length=None):
    head = bytes([(0x80 if fin else 0) | rsv << 4 | opcode])
    n = len(payload) if length is None else length
    mask_bit = 0x80 if masked else 0
    if n < 126:
        head += bytes([mask_bit | n])
    elif n < 65536:
        head += bytes([mask_bit | 126]) + struct.pack(">H", n)
    else:
        head += bytes([mask_bit | 127]) + struct.pack(">Q", n)
    return head + (b"\0\0\0\0" if masked else b"") + payload


# Behind a whole frame of the device. True: the link must end; False: it must not, whatever it means.
BAD_FRAMES = {
    "an unmasked frame": (frame(1, b"{}", masked=False), True),
    "a reserved bit": (frame(1, b"{}", rsv=4), True),
    "an unknown opcode": (frame(3, b"x"), True),
    "a control frame in pieces": (frame(9, b"x", fin=False), True),
    "a long ping": (frame(9, b"x" * 126), True),
    "a continuation of nothing": (frame(0, b"x"), True),
    "a message in a message": (frame(1, b"{", fin=False) + frame(1, b"}"), True),
    "text that is no UTF-8": (frame(1, b"\xff\xfe"), True),
    "a length with its top bit": (b"\x82\xff" + b"\xff" * 8, True),
    "a length in too many bytes": (b"\x82\xfe\x00\x05\0\0\0\0hello", True),
    "control over its limit": (frame(1, b"", length=1 << 40), True),
    "data over its limit": (frame(2, b"", length=1 << 40), True),
    "a close with half a code": (frame(8, b"\x03"), True),
    "a close with a code of nobody's": (frame(8, struct.pack(">H", 1005)), True),
    "a close": (frame(8, struct.pack(">H", 1000)), True),
    "data that is none": (frame(2, b"EIPD" + b"\xff" * 40), True),
    "data of nothing": (frame(2, b""), True),
    "no JSON": (frame(1, b"{"), True),
    "JSON of something else": (frame(1, b"[1,2,3]"), True),
    "a member twice": (frame(1, b'{"jsonrpc":"2.0","id":1,"id":2,"result":{}}'), True),
    "a request of the device": (frame(1, b'{"jsonrpc":"2.0","id":1,"method":"session.open","params":{}}'), True),
    "deep JSON": (frame(1, b"[" * 100000), True),
    "a ping": (frame(9, b"hello"), False),
    "a pong nobody asked for": (frame(10, b"hello"), False),
}


def test_frames_of_a_device_that_are_no_protocol(p):
    """Its link ends, and it comes back; the Host and the other device are not disturbed, in the middle of it either."""
    pair = Pair(p)
    pair.start()
    pair.approve()
    pair.online()
    forger = Gate(pair.host.at.port)  # what it is given goes out as if the device had said it
    p.daemons.append(forger)
    bad = Envd(p, TELECHIRD, pair.host, name="bad")
    real, pair.host.url = pair.host.url, forger.url
    bad.start()
    pair.host.url = real
    p.ok("devices", "approve", bad.code())
    until(lambda: pair.host.is_online("bad"), "online")
    pid = pair.host.process.pid
    for name, (data, must_end) in BAD_FRAMES.items():
        linked = until(lambda: len(open_pairs(forger)) == 2 and open_pairs(forger), "a link: " + name)
        with contextlib.suppress(OSError):
            linked[-1].sendall(data)
        answers(pair)
        if must_end:
            until(lambda: is_over(linked[-1]), "the end of the link after " + name)
        else:
            assert p.ok("ls", "--on", "host:bad", "/").text  # over the same link
            assert not is_over(linked[-1]), name
        answers(pair)
        assert bad.process.poll() is None or must_end, (name, bad.said())
        bad.stop()
        until(lambda: not pair.host.is_online("bad"), "offline after " + name)
        bad.start("bad")
        until(lambda: pair.host.is_online("bad"), "online after " + name)
    assert pair.host.process.poll() is None and pair.host.process.pid == pid
    bad.stop()
    pair.end()


def open_pairs(gate):
    return [s for s in gate.pairs if s.fileno() >= 0 and not is_over(s)]


def is_over(s):
    try:
        s.getpeername()
        flags = socket.MSG_PEEK | socket.MSG_DONTWAIT
        return s.recv(1, flags) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


# ---- who reads nothing, and who says little

def memory_of(pid):
    """Resident, in MiB."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) // 1024
    raise AssertionError("no such process")


def is_sanitized():
    return b"__asan_init" in pathlib.Path(TELECHIR).read_bytes()


def flood(port, text, limit):
    """A client that asks again and again and reads nothing, until nothing more is taken from it."""
    s = socket.create_connection(("127.0.0.1", port), LIMIT)
    s.settimeout(0.5)
    sent = 0
    with contextlib.suppress(OSError):
        while sent < limit:
            sent += s.send(text)
    return s


def test_slow_readers_of_every_kind(p):
    """Pairing, page, API, a download through the Host, a device that stops reading: what they are owed does not gather in
    the Host's memory, and another device answers all the while."""
    # What the address sanitizer keeps of freed memory is no growth of the Host's.
    p.env["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=8"
    pair = Pair(p)
    pair.start()
    pair.approve()
    pair.online()
    slow = Envd(p, TELECHIRD, pair.host, name="slow").start()
    p.ok("devices", "approve", slow.code())
    until(lambda: pair.host.device("slow")["online"], "online")
    big = p.here / "big"
    big.write_bytes(os.urandom(1 << 20) * 96)
    p.ok("cp", "host:work:/etc/passwd", p.here / "first")  # as much as it takes for one thing of each kind
    token = json.loads(pathlib.Path(p.env["XDG_CONFIG_HOME"], "telechir/hosts.json").read_text())["hosts"][0]["token"]
    pid, port = pair.host.process.pid, pair.host.at.port
    before = memory_of(pid)
    d = Device("flood")
    body = json.dumps({"device_id": d.identity, "name": d.name})
    asks = [PAIR + f"Authorization: Bearer {d.credential}\r\nContent-Length: {len(body)}\r\n\r\n{body}", SECOND,
            "GET /page.js HTTP/1.1\r\nHost: localhost\r\n\r\n",
            GET + f"Authorization: Bearer {token}\r\n\r\n"]
    held = [flood(port, (text * 50).encode(), 4 << 20) for text in asks for _ in range(4)]
    downloads = [p.start("cat", f"host:work:{big}") for _ in range(3)]
    for r in downloads:
        r.stdout.read(1)  # it has begun; no more is read
    slow.process.send_signal(signal.SIGSTOP)
    uploads = [p.start("cp", big, f"host:slow:{p.base}/up{n}") for n in range(2)]
    until(lambda: all(r.poll() is None for r in uploads), "uploads")
    for _ in range(12):
        answers(pair)
        assert p.ok("ls", "--on", "host:work", p.here).text
    grown = memory_of(pid) - before
    assert grown < (160 if is_sanitized() else 64), f"{grown} MiB more than {before}"
    for s in held:
        s.close()
    for r in downloads + uploads:
        r.kill()
        r.communicate()
    slow.process.send_signal(signal.SIGCONT)
    answers(pair)
    until(lambda: pair.host.device("slow")["online"], "online again")
    slow.stop()
    pair.end()


def test_who_says_little_on_many_connections_keeps_nobody_out(p):
    """More connections than the Host takes, each with half a head or half a body: the owner and a new device get in."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    many = min(1200, hard - 200)
    if soft < many + 100:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, many + 200), hard))
    host = Host(p).login()
    before = memory_of(host.process.pid)
    parts = ("GET / HTTP/1.1\r\nHost: local", PAIR + "Content-Length: 100\r\n\r\n{", "",
             "GET /page.css HTTP/1.1\r\nHost: localhost\r\nX: " + "x" * 30000)
    held = []
    for n in range(many):
        s = socket.create_connection(("127.0.0.1", host.at.port), LIMIT)
        with contextlib.suppress(OSError):
            s.sendall(parts[n % len(parts)].encode())
        held.append(s)
        if n % 100 == 99:
            assert p.ok("devices").text == ""
    d = Device()
    code = host.pair(d)[1]["challenge"]["verification_code"]
    p.ok("devices", "approve", code)
    assert host.pair(d)[1]["status"] == "approved"
    grown = memory_of(host.process.pid) - before
    assert grown < (600 if is_sanitized() else 110), f"{grown} MiB more than {before}"
    for s in held:
        s.close()
    assert host.stop() == ""


# ---- who wants in

def test_what_a_stranger_can_make_it_say(p):
    """No secret and no name of a device, whatever is asked; where it is from is not what it says itself."""
    host = Host(p).login()
    d = Device("my laptop")
    code = host.pair(d, X_Forwarded_For="203.0.113.9", Forwarded="for=203.0.113.9", X_Real_IP="203.0.113.9")[1][
        "challenge"]["verification_code"]
    assert host.device("my laptop")["address"] == "127.0.0.1"
    device = host.device("my laptop")["id"]
    for method in ("GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT"):
        for path in ("/", "/api/devices", f"/api/devices/{device}", f"/api/devices/{device}/revoke", "/api/devices/approve",
                     f"/api/devices/{device}/directories", f"/api/devices/{device}/eip/control", "/api/sign-in-links",
                     "/sign-in-links", "/api/devices/external", "/approve/0", "//api/devices", "/./api/devices",
                     "/api/devices/", "/API/devices", "/%61pi/devices", "/api%2fdevices", "/..", "*"):
            for headers in ({}, {"Authorization": "Bearer "}, {"Authorization": "Bearer " + "0" * 64},
                            {"Cookie": f"telechir-{host.at.port}=" + "0" * 64}, {"Cookie": "telechir="}):
                try:
                    status, h, text = host.ask(method, path, **headers)
                except http.client.HTTPException:
                    continue  # an answer to CONNECT is none of ours
                assert status in (400, 401, 403, 404, 405, 411, 415, 426, 429), (method, path, status, text)
                for secret in (code, d.credential, d.identity, d.name, device):
                    assert secret not in text, (method, path, text)
                assert "Set-Cookie" not in h and "Access-Control-Allow-Origin" not in h
                assert h["Cache-Control"] == "no-store" and h["Referrer-Policy"] == "same-origin"
                assert "frame-ancestors 'none'" in h["Content-Security-Policy"]
    assert host.device("my laptop")["state"] == "pending"
    assert host.stop() == ""  # nor does it write a word about it


def test_other_names_for_this_machine_are_not_its_own(p):
    """A page elsewhere whose name is led to this machine asks as if it were ours: it is not answered."""
    host = Host(p).login()
    token = json.loads(pathlib.Path(p.env["XDG_CONFIG_HOME"], "telechir/hosts.json").read_text())["hosts"][0]["token"]
    for name, status in (("evil.example", 421), (f"evil.example:{host.at.port}", 421), ("localhost.evil.example", 421),
                         ("127.0.0.1.evil.example", 421), ("", 421), ("localhost", 200), (f"LOCALHOST:{host.at.port}", 200),
                         ("a.localhost", 200), (f"127.0.0.1:{host.at.port}", 200), ("[::1]:80", 200), ("192.0.2.1", 200)):
        got = said_to(host.at.port, f"GET /api/devices HTTP/1.1\r\nHost: {name}\r\nAuthorization: Bearer {token}\r\n"
                      "Connection: close\r\n\r\n")
        assert got.startswith(f"HTTP/1.1 {status} ".encode()), (name, got[:100])


def test_sign_in_cannot_be_fixed_or_shared(p):
    """A session is made when somebody signs in, whatever cookie was there; two Hosts of one machine keep theirs apart."""
    one, two = Host(p), Host(p, data=p.base / "other")
    fixed = f"telechir-{one.at.port}=" + "1" * 64
    browser = Browser(one)
    browser.cookie = fixed
    browser.sign_in(one.link)
    assert browser.cookie != fixed and browser.cookie.startswith(f"telechir-{one.at.port}=")
    other = Browser(two).sign_in(two.link)
    assert browser.cookie.split("=")[0] != other.cookie.split("=")[0]
    both = {"Cookie": f"{browser.cookie}; {other.cookie}"}
    assert one.ask("GET", "/", **both)[0] == 200 and two.ask("GET", "/", **both)[0] == 200
    assert two.ask("GET", "/", Cookie=browser.cookie)[0] == 401
    assert one.ask("GET", "/", Cookie=fixed)[0] == 401


def test_secrets_are_in_no_core_file_case_62(p):
    host = Host(p)
    limits = pathlib.Path(f"/proc/{host.process.pid}/limits").read_text()
    line = next(x for x in limits.splitlines() if x.startswith("Max core file size"))
    assert line.split()[4:6] == ["0", "0"], line


if __name__ == "__main__":
    sys.exit(run_tests(globals()))
