#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The link that dials out: reverse WebSocket beside the reference daemon, and a Host with many devices.

    bench/bench_link.py --bin build/release/bin --reference /path/to/a13n-envd
    bench/bench_link.py --bin build/release/bin --quick          # no verdict

Without a reference (--reference, or A13N_ENVD in the environment) only our column is there. Both daemons dial the
same listener, which is this program with the load generator of bench_eip.py, and take turns in every repetition;
values are medians. What was transferred is compared by digest, what a command printed byte for byte.

parts
  carrier  connecting, memory, file.stat, one large file in and out
  silent   a link that falls silent without being closed: when the daemon dials again, and that its session and the
           output of a running command go on where they were
  host     `telechir host serve` with many devices: memory, idle time, the list, all of them cut off at once, the
           Host killed, links that fall silent. Most devices are small ones in this process, which speak the same
           protocol after pairing and approval; some (--real) are telechird
"""
import argparse
import asyncio
import base64
import ctypes
import hashlib
import http.client
import json
import os
import secrets
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

import bench_eip as eip

NOW = time.perf_counter
MIB = 1 << 20
AIMS = {}       # row -> least ratio


def quick(a, b):
    return a if eip.QUICK else b


# ---------------------------------------------------------------- carrier

def carrier():
    for spec in eip.turns(quick(4, 20)):
        with eip.Daemon(spec, "ws") as d:
            eip.RES.add("start to initialize answered", "ms", "lower", spec, d.ready_s * 1e3)

    def idle(spec):
        with eip.Daemon(spec, "ws") as d:
            d.open_session()
            time.sleep(quick(0.5, 3))   # a worker that has nothing to do leaves after two seconds
            eip.RES.add("idle memory (RSS), one session", "KiB", "lower", spec, eip.status_kb(d.pid, "VmRSS"))
            eip.idle_window(d, "linked, one session", spec, quick(2, 10))

    eip.each(quick(1, 3), "idle memory (RSS), one session", "KiB", "lower", idle)
    eip.CARRIERS = ["ws"]
    eip.bench_control()
    AIMS["file.stat 32 in flight, ws"] = 4
    large(quick(32, 256))


def large(mib):
    data = eip.big_data(mib * MIB)
    digest = hashlib.sha256(data).hexdigest()
    src, dst = os.path.join(eip.SHM, "src"), os.path.join(eip.SHM, "dst")
    with open(src, "wb") as f:
        f.write(data)

    def measured(spec, name, key, move):
        with eip.Daemon(spec, "ws") as d:
            sid = d.open_session()
            eip.reset_peak(d.pid)
            c0 = d.cpu()
            seconds = move(d, sid)
            eip.RES.add(key, "MiB/s", "higher", spec, mib / seconds)
            eip.RES.add(f"{name}, CPU of the daemon", "ms per 100 MiB", "lower", spec, (d.cpu() - c0) * 1e3 * 100 / mib)
            eip.RES.add(f"{name}, peak memory", "KiB", "lower", spec, d.peak_kb())

    def read(d, sid):
        n, seconds, _ = eip.transfer_read(d, sid, src)
        if n != len(data):
            raise eip.Failure(f"short read {n}")
        return seconds

    def writer(chunk):
        def write(d, sid):
            seconds = eip.transfer_write(d, sid, dst, data, digest, chunk)
            with open(dst, "rb") as f:
                if hashlib.file_digest(f, "sha256").hexdigest() != digest:
                    raise eip.Failure("written file differs")
            os.unlink(dst)
            return seconds
        return write

    moves = [(f"write, frames of {label}", writer(chunk))
             for label, chunk in (("1 MiB", MIB), ("4 MiB", 4 * MIB - 4096), ("64 KiB", 64 * 1024))]
    for name, move in [*moves, ("read", read)]:
        key = f"{name}, {mib} MiB"
        if name.startswith("write"):
            AIMS[key] = 1.5
            AIMS[f"{name}, CPU of the daemon"] = 1 / 0.7
        eip.each(quick(1, 5), key, "MiB/s", "higher", lambda spec: measured(spec, name, key, move))


# ---------------------------------------------------------------- a silent link, seen by the daemon

class Redialled(eip.Daemon):
    """A daemon whose listener stays: it can come again."""

    def connect(self, carrier_name, listener):
        self.listener = listener.dup()
        super().connect(carrier_name, listener)
        self.linked = NOW()

    def again(self):
        self.silent = self.sock     # stays open, and nobody reads or writes it
        eip.LIB.el_close(self.conn)
        super().connect("ws", self.listener.dup())
        self.call("initialize", {"supported_protocol_versions": eip.PROTOCOLS, "expected_device_id": "bench",
                                 "client": {"name": "bench", "version": "1"}})

    def stop(self):
        super().stop()
        self.listener.close()
        if hasattr(self, "silent"):
            self.silent.close()


SCRIPT = "i=0; while :; do echo line $i; i=$((i+1)); sleep 0.02; done"


class Output:
    """The output of a command, read on from where the last reading ended."""

    def __init__(self, d):
        self.d, self.got = d, b""
        self.sid = d.open_session()
        started = d.op("process.start", {"request": {"command": {"kind": "shell", "profile_id": "default",
                                                                 "script": SCRIPT}}}, self.sid)
        self.reference = started["process"]["output"]["stdout"]["reference"]

    def read(self, least):
        while len(self.got) < least:
            page = self.d.op("output.read", {"reference": self.reference, "start_offset": len(self.got),
                                             "wait_ms": 1000}, self.sid)
            if page["start_offset"] != len(self.got):
                raise eip.Failure(f"asked from {len(self.got)}, got from {page['start_offset']}")
            self.got += base64.b64decode(page["data"]["data"] + "===")

    def check(self):
        want = b"".join(b"line %d\n" % i for i in range(self.got.count(b"\n") + 1))
        if self.got != want[:len(self.got)]:
            raise eip.Failure("the output has a gap or a repetition")


def silent():
    """The load generator answers no pings: from the first one on, 20 s after it was made, a link is silent."""
    count = quick(2, 4)
    for spec in eip.SPECS:
        running = []
        try:
            for _ in range(count):
                running.append(Output(Redialled(spec, "ws")))
                running[-1].read(500)
            waiting = {o.d.listener: o for o in running}
            while waiting:
                ready, _, _ = select.select(list(waiting), [], [], 100)
                if not ready:
                    raise eip.Failure("a daemon did not dial again within 100 s")
                for listener in ready:
                    o = waiting.pop(listener)
                    o.d.again()
                    o.d.call("session.attach", {}, o.sid)
                    eip.RES.add("a ping 20 s after linking is not answered: dialled again and attached, after", "s", "lower", spec,
                                NOW() - o.d.linked)
            for o in running:
                o.read(len(o.got) + 2000)
                o.check()
            say = f"the output of {count} commands went on, {sum(len(o.got) for o in running)} bytes without gap or repetition"
            eip.RES.note("output read on after a silent link", "", "higher", spec, say)
        finally:
            for o in running:
                o.d.stop()


# ---------------------------------------------------------------- a Host with many devices

class Proxy:
    """Between devices and the Host, on this process's loop: passes on, cuts all, or falls silent."""

    def __init__(self, port):
        self.target, self.pairs, self.accepted = port, [], 0

    async def open(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0, backlog=1024)
        self.port = self.server.sockets[0].getsockname()[1]

    async def serve(self, reader, writer):
        try:
            await self.between(reader, writer)
        except asyncio.CancelledError:
            pass        # the end of it all

    async def between(self, reader, writer):
        self.accepted += 1
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        pair = {"writers": (writer, far_writer), "silent": False}
        self.pairs.append(pair)
        await asyncio.gather(self.pump(pair, reader, far_writer), self.pump(pair, far_reader, writer))
        if pair in self.pairs:
            self.pairs.remove(pair)

    async def pump(self, pair, reader, writer):
        try:
            while data := await reader.read(65536):
                if not pair["silent"]:
                    writer.write(data)
        except OSError:
            pass
        if not pair["silent"]:
            writer.close()

    def cut(self):
        for pair in list(self.pairs):
            for w in pair["writers"]:
                w.transport.abort()

    def silence(self):
        for pair in self.pairs:
            pair["silent"] = True


class Device:
    """A small device: pairs, links, answers initialize and pings, dials again with the daemon's back-off."""

    def __init__(self, number):
        self.identity = f"bench-{number:04}-{secrets.token_hex(8)}"
        self.credential = secrets.token_hex(32)
        self.source = f"127.0.1.{number // 8 + 1}"      # one address may ask for so many codes only
        self.backoff = 0.25

    def frame(self, op, payload):
        mask = secrets.token_bytes(4)
        n = len(payload)
        head = bytes([0x80 | op]) + (bytes([0x80 | n]) if n < 126 else b"\xfe" + n.to_bytes(2, "big") if n < 65536
                                     else b"\xff" + n.to_bytes(8, "big"))
        whole = mask * (n // 4 + 1)
        return head + mask + bytes(a ^ b for a, b in zip(payload, whole))

    async def read_frame(self, reader):
        head = await reader.readexactly(2)
        n = head[1] & 127
        if n > 125:
            n = int.from_bytes(await reader.readexactly(2 if n == 126 else 8), "big")
        return head[0] & 15, await reader.readexactly(n)

    async def ping(self, writer):
        while True:
            await asyncio.sleep(20)
            writer.write(self.frame(9, secrets.token_bytes(8)))

    async def link(self, port, template):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        pinging = None
        try:
            key = base64.b64encode(secrets.token_bytes(16)).decode()
            writer.write((f"GET {self.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                          f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Protocol: eip.v1\r\n"
                          f"Authorization: Bearer {self.credential}\r\n\r\n").encode())
            head = await reader.readuntil(b"\r\n\r\n")
            self.status = int(head.split()[1])
            if self.status != 101:
                return
            pinging = asyncio.ensure_future(self.ping(writer))
            while True:
                op, payload = await self.read_frame(reader)
                if op == 9:
                    writer.write(self.frame(10, payload))
                elif op == 8:
                    writer.write(self.frame(8, payload))
                    return
                elif op == 1:
                    request = json.loads(payload)
                    result = json.loads(template.replace("bench-device", self.identity))
                    writer.write(self.frame(1, json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode()))
        finally:
            if pinging:
                pinging.cancel()
            writer.transport.abort()

    async def live(self, port, template):
        while True:
            try:
                await self.link(port, template)
            except (OSError, EOFError):
                pass
            await asyncio.sleep(self.backoff * secrets.randbelow(1000) / 1000)
            self.backoff = min(2 * self.backoff, 30)


class Host:
    """`telechir host serve`, and its owner."""

    def __init__(self, telechir, work):
        self.telechir, self.data = telechir, os.path.join(work, "host")
        self.bind, self.token = "127.0.0.1:0", None
        self.env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": work, "LANG": "C.UTF-8"}

    def start(self):
        self.process = subprocess.Popen([self.telechir, "host", "serve", "--json", "--bind", self.bind, "--data", self.data],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=self.env)
        said = json.loads(self.process.stdout.readline())
        self.pid, self.at = self.process.pid, urllib.parse.urlsplit(said["url"])
        self.bind = self.at.netloc
        self.http = http.client.HTTPConnection("127.0.0.1", self.at.port, timeout=60)
        if self.token is None:
            self.token = self.ask("POST", "/api/sign-in", {"code": said["sign_in_url"], "label": "bench"})["token"]

    def ask(self, method, path, body=None):
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        if body is not None:
            headers["Content-Type"] = "application/json"
        body = json.dumps(body) if body is not None else None
        try:
            self.http.request(method, path, body, headers)
            answer = self.http.getresponse()
        except http.client.RemoteDisconnected:      # it was idle for too long
            self.http.close()
            self.http.request(method, path, body, headers)
            answer = self.http.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise eip.Failure(f"{method} {path}: {answer.status} {text[:200]}")
        self.length = len(text)
        return json.loads(text)

    def pair(self, d):
        """Asks, is approved by its owner, and learns where to link."""
        def ask():
            c = http.client.HTTPConnection("127.0.0.1", self.at.port, timeout=60, source_address=(d.source, 0))
            c.request("POST", "/api/envd/pair", json.dumps({"device_id": d.identity, "name": d.identity[:10]}),
                      {"Content-Type": "application/json", "Authorization": f"Bearer {d.credential}"})
            answer = c.getresponse()
            said = json.loads(answer.read())
            c.close()
            if answer.status != 200:
                raise eip.Failure(f"pairing: {answer.status} {said}")
            return said
        self.ask("POST", "/api/devices/approve", {"code": ask()["challenge"]["verification_code"]})
        d.path = ask()["websocket_url"]

    def online(self):
        return sum(d["online"] for d in self.ask("GET", "/api/devices")["devices"])

    def until(self, count, limit, what):
        end = NOW() + limit
        while self.online() != count:
            if NOW() > end:
                raise eip.Failure(f"{what}: {self.online()} of {count} online after {limit} s")
            time.sleep(0.01)

    def switches(self):
        """Voluntary ones of each thread."""
        found = {}
        for task in os.listdir(f"/proc/{self.pid}/task"):
            with open(f"/proc/{self.pid}/task/{task}/status", encoding="ascii", errors="replace") as f:
                found[task] = next(int(line.split()[1]) for line in f if line.startswith("voluntary_ctxt"))
        return found

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class Real:
    """A telechird that links as device d, over port."""

    def __init__(self, d, telechird, port, work):
        self.dir = os.path.join(work, d.identity)
        os.makedirs(os.path.join(self.dir, "rt"), 0o700)
        credential = os.path.join(self.dir, "credential")
        with open(os.open(credential, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="ascii") as f:
            f.write(d.credential)
        env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": self.dir, "LANG": "C.UTF-8",
               "A13N_ENVD_DEVICE_ID": d.identity, "A13N_ENVD_RUNTIME_DIR": os.path.join(self.dir, "rt"),
               "A13N_ENVD_DEFAULT_WORKING_DIRECTORY": self.dir, "A13N_ENVD_TRANSPORT": "reverse_websocket",
               "A13N_ENVD_REVERSE_WS_URL": f"ws://127.0.0.1:{port}{d.path}",
               "A13N_ENVD_REVERSE_WS_CREDENTIAL_FILE": credential}
        self.log = os.path.join(self.dir, "log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([telechird], env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def losses(self):
        with open(self.log, "rb") as f:
            return f.read().count(b"the connection to the Host is lost")

    def stop(self):
        self.process.terminate()
        self.process.wait(15)


def describe(spec):
    """What initialize answers, with a name to be replaced."""
    class Telling(eip.Daemon):
        def call(self, method, *args):
            self.said = super().call(method, *args)
            return self.said

    with Telling(spec, "ws") as d:
        return json.dumps(d.said).replace('"bench"', '"bench-device"')


class Loop:
    """asyncio in a thread of its own: devices and proxy, while the main thread asks."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(120)

    def call(self, fn):
        async def inside():
            fn()
        self.run(inside())

    def close(self):
        async def inside():
            rest = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
            for t in rest:
                t.cancel()
            await asyncio.gather(*rest, return_exceptions=True)
        self.run(inside())
        self.loop.call_soon_threadsafe(self.loop.stop)


def host():
    column = eip.SPECS[-1]
    total, real_count = ARGS.devices, ARGS.real
    template = describe(column)
    h = Host(os.path.join(ARGS.bin, "telechir"), eip.WORK)
    loop = Loop()
    real = []

    def row(key, unit, better, value):
        eip.RES.add(f"Host: {key}", unit, better, column, value)

    try:
        h.start()
        time.sleep(0.5)
        row("memory (RSS), no device", "KiB", "lower", eip.status_kb(h.pid, "VmRSS"))
        devices = [Device(i) for i in range(total)]
        for d in devices:
            h.pair(d)
        proxy = Proxy(h.at.port)
        loop.run(proxy.open())
        t0 = NOW()
        small = [asyncio.run_coroutine_threadsafe(d.live(proxy.port, template), loop.loop)
                 for d in devices[real_count:]]      # kept: the loop itself holds them weakly
        real = [Real(d, column.argv[0], proxy.port, eip.WORK) for d in devices[:real_count]]
        h.until(total, 60, "linking")
        row(f"{total} devices link for the first time", "s", "lower", NOW() - t0)
        time.sleep(2)
        idle_host(h, row, total)
        for _ in range(quick(1, 3)):
            time.sleep(quick(0, 62))    # so long a connection puts the back-off to its start
            for d in devices:
                d.backoff = 0.25
            before, t0 = proxy.accepted, NOW()
            loop.call(proxy.cut)
            while proxy.accepted - before < total and NOW() - t0 < 60:
                time.sleep(0.005)
            h.until(total, 60, "cut off")
            row(f"{total} cut off at once, all online again after", "s", "lower", NOW() - t0)
        for d in devices:
            d.backoff = 0.25
        h.kill()
        t0 = NOW()
        h.start()
        h.until(total, 90, "restart")
        row(f"killed and started anew, all {total} online again after", "s", "lower", NOW() - t0)
        row(f"memory (RSS), {total} devices, at the end", "KiB", "lower", eip.status_kb(h.pid, "VmRSS"))
        silent_host(h, real, loop, proxy, row)
    finally:
        for r in real:
            r.stop()
        h.kill()
        loop.close()


def idle_host(h, row, total):
    times = []
    for _ in range(quick(20, 100)):
        t = NOW()
        if h.online() != total:
            raise eip.Failure("a device is gone")
        times.append((NOW() - t) * 1e3)
    row(f"list of {total} devices, p50", "ms", "lower", statistics.median(times))
    row(f"list of {total} devices, worst of {len(times)}", "ms", "lower", max(times))
    row("the list's size", "KiB", "lower", h.length / 1024)
    row(f"memory (RSS), {total} devices", "KiB", "lower", eip.status_kb(h.pid, "VmRSS"))
    row("memory (PSS)", "KiB", "lower", eip.pss_kb(h.pid))
    row("threads", "count", "lower", eip.threads(h.pid))
    seconds = quick(5, 30)
    c0, s0, t0 = eip.cpu_ns(h.pid), h.switches(), NOW()
    time.sleep(seconds)
    t, s1 = NOW() - t0, h.switches()
    row(f"idle CPU, {total} devices", "ms per 30 s", "lower", (eip.cpu_ns(h.pid) - c0) / 1e6 * 30 / t)
    row("idle voluntary context switches", "per s", "lower", sum(n - s0.get(task, 0) for task, n in s1.items()) / t)


def silent_host(h, real, loop, proxy, row):
    """Every link falls silent at once; those of telechird are looked at."""
    names = {r.dir.rsplit("/")[-1]: r for r in real}
    online = lambda: {d["device_id"]: d["online"] for d in h.ask("GET", "/api/devices")["devices"]}
    time.sleep(quick(1, 65))
    lost = {n: r.losses() for n, r in names.items()}
    loop.call(proxy.silence)
    t0 = NOW()
    noticed, off, back = {}, {}, {}
    while len(back) < len(names):
        t, now = NOW() - t0, online()
        if t > 150:
            raise eip.Failure(f"silent: {len(noticed)} noticed, {len(off)} offline, {len(back)} back after {t:.0f} s")
        for n, r in names.items():
            if n not in noticed and r.losses() > lost[n]:
                noticed[n] = t
            if n not in off and not now[n]:
                off[n] = t
            if n in off and n in noticed and n not in back and now[n]:
                back[n] = t
        time.sleep(0.02)
    for n in names:
        row("silent link: the daemon has noticed after", "s", "lower", noticed[n])
        row("silent link: the Host has noticed after", "s", "lower", off[n])
        row("silent link: linked again after", "s", "lower", back[n])


# ---------------------------------------------------------------- main

PARTS = {"carrier": carrier, "silent": silent, "host": host}
ARGS = None


def verdict():
    """What was aimed at, row by row; ratios of medians."""
    summary = eip.RES.summary()
    for key, least in AIMS.items():
        ratio = summary.get(key, {}).get("ratio")
        if ratio:
            print(f"{'reached' if ratio >= least else 'MISSED':8} {key}: better by {ratio:.2f}, aim {least:.2f}")


def main():
    global ARGS
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", required=True, help="folder of telechir and telechird")
    p.add_argument("--reference", default=os.environ.get("A13N_ENVD"), help="the reference daemon (default: A13N_ENVD)")
    p.add_argument("--only", default=",".join(PARTS), help="parts, comma separated")
    p.add_argument("--devices", type=int, default=200, help="devices of the Host")
    p.add_argument("--real", type=int, default=10, help="how many of them are telechird")
    p.add_argument("--quick", action="store_true")
    p.add_argument("--json", help="write every value there")
    ARGS = p.parse_args()
    eip.START, eip.QUICK, eip.PROTOCOLS = NOW(), ARGS.quick, ["0.3", "0.4"]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    ours = eip.Spec(os.path.join(os.path.abspath(ARGS.bin), "telechird"), "A13N_ENVD", "telechird")
    eip.SPECS = [ours]
    if ARGS.reference:
        eip.SPECS.insert(0, eip.Spec(ARGS.reference, "A13N_ENVD", "reference"))
    eip.RES = eip.Results([s.name for s in eip.SPECS])
    eip.WORK = tempfile.mkdtemp(prefix="bench-link-")
    eip.SHM = tempfile.mkdtemp(prefix="bench-link-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    eip.LIB = eip.load_library(eip.WORK)
    eip.OUT = ctypes.create_string_buffer(eip.OUT_CAP)
    failed = []
    try:
        for name in ARGS.only.split(","):
            eip.say(name)
            try:
                PARTS[name]()
            except Exception as e:      # one broken part must not lose the others
                failed.append(name)
                eip.say(f"{name} FAILED: {type(e).__name__}: {e}")
    finally:
        shutil.rmtree(eip.SHM, ignore_errors=True)
        shutil.rmtree(eip.WORK, ignore_errors=True)
    print(eip.table(eip.RES, eip.RES.columns))
    verdict()
    if ARGS.json:
        with open(ARGS.json, "w", encoding="utf-8") as f:
            json.dump({"quick": eip.QUICK, "failed": failed, "summary": eip.RES.summary(),
                       "values": {k: r["values"] for k, r in eip.RES.rows.items()}}, f, indent=1)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
