#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Replay recorded conversations against a daemon and compare every answer.

  replay.py DAEMON [RECORDING...]

The recordings (protocol/golden/conversations) are JSON lines: control frames, data frames, broken input and notes.
Identities, times, digests of requests and folders are generic in them; they are mapped both ways, all
else must be equal. One line per recording, then "N passed, N failed".
"""
import glob
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "lib"))
from ports import free_port

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GENERATION = 100000000000000001
NAMESPACE = re.compile(r"-0{11,12}1-")
HANDLE = re.compile(r"\b(session|process|output|reader|writer)-([0-9a-z]+)-(\d+)\b")
TIME = re.compile(r'"\d{4}-\d\d-\d\dT[0-9:.]+Z"')
TIMEOUT_S = 180


class Mismatch(Exception):
    pass


class Daemon:
    """A daemon on pipes: frames out, frames in."""

    def __init__(self, program, folder, monitored):
        self.runtime = tempfile.TemporaryDirectory()
        env = {k: v for k, v in os.environ.items()
               if not k.startswith(("A13N_ENVD_", "TELECHIRD_"))}
        env.update(A13N_ENVD_RUNTIME_DIR=os.path.join(self.runtime.name, "r"), A13N_ENVD_FULL_CONTROL="1",
                   A13N_ENVD_DEVICE_ID="device-1", A13N_ENVD_DEFAULT_WORKING_DIRECTORY=folder)
        if monitored:
            env["A13N_ENVD_CONFIG_JSON"] = '{"monitoring":{"sample_interval_ms":1000}}'
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env=env)
        self.errors = []
        threading.Thread(target=lambda: self.errors.extend(self.process.stderr), daemon=True).start()
        self.timer = threading.Timer(TIMEOUT_S, self.process.kill)
        self.timer.start()

    def send(self, raw):
        self.process.stdin.write(raw)
        self.process.stdin.flush()

    def send_frame(self, body, kind="application/json"):
        self.send(b"Content-Length: %d\r\nContent-Type: %s\r\n\r\n" % (len(body), kind.encode()) + body)

    def receive(self):
        head = {}
        while (line := self.process.stdout.readline()) != b"\r\n":
            if not line:
                raise Mismatch("the daemon ended instead of answering: " + b"".join(self.errors).decode())
            name, value = line.decode().split(":", 1)
            head[name.lower()] = value.strip()
        body = self.process.stdout.read(int(head["content-length"]))
        return head["content-type"], body

    def end(self):
        self.process.stdin.close()
        self.process.stdout.read()
        status = self.process.wait()
        self.timer.cancel()
        self.runtime.cleanup()
        return status


class Replay:
    def __init__(self, program, path):
        self.program, self.path = program, path
        self.folder = tempfile.TemporaryDirectory()
        self.place = os.path.realpath(self.folder.name)
        self.generation = None
        self.namespace = None
        self.port = None
        self.last_request = {}
        self.again = 0
        self.early = []  # answers that came before the recording expects them

    # ---- the world the recording was made in

    def prepare(self, name):
        p = self.place
        if name.startswith("01"):
            os.mkdir(p + "/a")
            os.mkdir(p + "/c")
            open(p + "/file", "w").close()
        elif name.startswith("03"):
            os.symlink("a.txt", p + "/link")
        elif name.startswith("05"):
            os.mkdir(p + "/d")

    def before(self, daemon, request):
        """The same moment as in the recording: what it was waiting for then has happened."""
        text = json.dumps(request)
        if request.get("method") in ("operation.cancel", "process.signal"):
            wait_for_descendant(daemon.process.pid, "sleep")
        if "/work/p/binary" in text:
            with open(self.place + "/binary", "wb") as f:
                f.write(b"\x00\x01\xff")
        if request.get("method") == "port.inspect":
            self.port = free_port()
        if request.get("method") == "port.wait":
            self.listener = socket.create_server(("127.0.0.1", self.port))

    # ---- names: recorded to real, real to recorded

    def to_real(self, value):
        text = json.dumps(value).replace("/work/p", self.place)
        text = text.replace(str(GENERATION), str(self.generation))
        if self.namespace:
            text = NAMESPACE.sub(f"-{self.namespace}-", text)
        if self.port:
            text = text.replace("40000", str(self.port))
        return json.loads(text)

    def learn(self, answer):
        result = answer.get("result")
        if isinstance(result, dict) and "descriptor" in result:
            self.generation = result["descriptor"]["generation"]
            if "session_id" in result["descriptor"]:
                self.namespace = result["descriptor"]["session_id"].split("-")[1]

    def generic(self, value):
        text = json.dumps(value, sort_keys=True).replace(self.place, "/work/p")
        if self.place.startswith("/tmp/"):
            text = text.replace('"parent_path": "/tmp"', '"parent_path": "/work"')
        text = TIME.sub('"T"', text).replace(str(self.generation), str(GENERATION))
        text = HANDLE.sub(lambda m: f"{m[1]}-N-{m[3]}", text)
        text = re.sub(r'"request_digest": "[0-9a-f]{64}"', '"request_digest": "D"', text)
        text = re.sub(r'"system_info": \{[^}]*\}', '"system_info": "S"', text)
        if self.port:
            text = text.replace(f'"port": {self.port}', '"port": 40000')
        text = re.sub(r'"available_methods": \["\(the same\)"\]', '"available_methods": "M"', text)
        return json.loads(text)

    # ---- comparing

    def compare_control(self, want, got):
        want, got = self.generic(want), self.generic(got)
        same = lambda v: self.same_methods(v)
        if "(the same)" in json.dumps(want) or '"M"' in json.dumps(want):
            want, got = same(want), same(got)
        if self.name.startswith("11"):
            want, got = shape(want), shape(got)
        if want != got:
            raise Mismatch(f"\n  wanted {json.dumps(want, sort_keys=True)}\n  got    {json.dumps(got, sort_keys=True)}")

    @staticmethod
    def same_methods(value):
        return json.loads(re.sub(r'"available_methods": (\[[^\]]*\]|"M")', '"available_methods": "M"',
                                 json.dumps(value)))

    def expect_control(self, daemon, want):
        wanted_id = want.get("id")
        for i, answer in enumerate(self.early):
            if answer.get("id") == wanted_id:
                del self.early[i]
                break
        else:
            while True:
                kind, body = daemon.receive()
                if not kind.startswith("application/json"):
                    raise Mismatch(f"a data frame instead of the answer to {wanted_id}")
                answer = json.loads(body)
                if answer.get("id") == wanted_id:
                    break
                self.early.append(answer)
        if self.came_too_early(want, answer):
            self.again += 1
            request = json.loads(json.dumps(self.last_request))
            request["params"]["context"]["operation_id"] += f"-again-{self.again}"
            daemon.send_frame(json.dumps(self.to_real(request)).encode())
            return self.expect_control(daemon, want)
        self.learn(answer)
        return self.compare_control(want, answer)

    def came_too_early(self, want, answer):
        """A read of output may find the first of two lines; the recording found both."""
        if self.last_request.get("method") != "output.read" or "result" not in answer or "result" not in want:
            return False
        return answer["result"]["next_offset"] < want["result"]["next_offset"] and self.again < 1000

    def pack(self, item):
        d = item["data"]
        session = NAMESPACE.sub(f"-{self.namespace}-", d["session"]).encode()
        handle = NAMESPACE.sub(f"-{self.namespace}-", d["handle"]).encode()
        kinds = ["", "ATTACH", "ATTACHED", "CHUNK", "END", "END_ACK", "RESET", "CREDIT"]
        payload = bytes.fromhex(item["hex"])[24 + len(d["session"]) + len(d["handle"]):]
        if len(payload) < d["payload_bytes"]:  # cut in the recording: the pattern goes on
            payload = bytes((d["offset"] + i) & 0xFF for i in range(d["payload_bytes"]))
        return (b"EIPD\x01" + bytes([kinds.index(d["kind"])]) + d["status"].to_bytes(2, "big")
                + len(session).to_bytes(2, "big") + len(handle).to_bytes(2, "big")
                + d["offset"].to_bytes(8, "big") + len(payload).to_bytes(4, "big") + session + handle + payload)

    def expect_data(self, daemon, item):
        kind, body = daemon.receive()
        if kind != "application/vnd.a13n.eip-data":
            raise Mismatch(f"{body[:300]} instead of a {item['data']['kind']} frame")
        want = self.pack(item)
        if "cut" in item and body[5] == 3:  # only the beginning of the payload is recorded
            n = 24 + body[9] + body[11] + 16
            want, body = want[:n], body[:n]
        if body != want:
            raise Mismatch(f"\n  wanted {want.hex()}\n  got    {body.hex()}")

    # ---- the run

    def open_session(self, daemon):
        """What the recordings leave out at their beginning."""
        steps = [{"jsonrpc": "2.0", "id": 1, "method": "initialize",
                  "params": {"supported_protocol_versions": ["0.3"], "client": {"name": "recorder", "version": "1"}}}]
        daemon.send_frame(json.dumps(steps[0]).encode())
        self.learn(json.loads(daemon.receive()[1]))
        opening = {"jsonrpc": "2.0", "id": 2, "method": "session.open",
                   "params": {"expected_device_id": "device-1", "expected_generation": self.generation,
                              "protocol_version": "0.3", "working_directory": self.place}}
        daemon.send_frame(json.dumps(opening).encode())
        answer = json.loads(daemon.receive()[1])
        self.learn(answer)
        ready = {"jsonrpc": "2.0", "id": 3, "method": "environment.readiness",
                 "params": {"context": {"operation_id": "op-3"}},
                 "eip_session": answer["result"]["descriptor"]["session_id"]}
        daemon.send_frame(json.dumps(ready).encode())
        daemon.receive()

    def step(self, daemon, item):
        if item.get("to") == "daemon":
            if "json" in item:
                self.before(daemon, item["json"])
                self.last_request = item["json"]
                daemon.send_frame(json.dumps(self.to_real(item["json"])).encode())
            elif "data" in item:
                daemon.send_frame(self.pack(item), "application/vnd.a13n.eip-data")
            else:
                daemon.send(item["raw"].encode())
        elif "json" in item:
            self.expect_control(daemon, item["json"])
        elif "data" in item:
            self.expect_data(daemon, item)

    def note(self, daemon, note):
        if not isinstance(note, dict):
            return
        folder = note.get("in the folder", note.get("files in the folder while it is staged"))
        if folder is not None:
            names = sorted(re.sub(r"^\.eip-stage-.*", ".eip-stage-...", n) for n in os.listdir(self.place))
            if names != sorted(folder):
                raise Mismatch(f"the folder holds {names}, not {folder}")
        if "daemon ended with" in note:
            status = daemon.end()
            if status != note["daemon ended with"]:
                raise Mismatch(f"ended with {status}, not {note['daemon ended with']}")
            for line in note.get("standard error, besides resource_totals lines", []):
                said = b"".join(daemon.errors).decode()
                if line.split(" failed: ")[-1] not in said:
                    raise Mismatch(f"standard error says {said!r}, not {line!r}")

    def run(self):
        self.name = os.path.basename(self.path)
        with open(self.path) as f:
            items = [json.loads(line) for line in f]
        self.prepare(self.name)
        daemon = Daemon(self.program, self.place, self.name.startswith("11"))
        try:
            first = items[0].get("note", "")
            if isinstance(first, str) and first.startswith("initialize, session.open"):
                self.open_session(daemon)
            elif not any(i.get("json", {}).get("method") == "initialize" for i in items) and \
                    not self.name.startswith("10"):
                daemon.send_frame(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                    "supported_protocol_versions": ["0.3"], "client": {"name": "r", "version": "1"}}}).encode())
                self.learn(json.loads(daemon.receive()[1]))
            if self.name.startswith("11"):
                wait_for_sample(daemon, self)
            for item in items:
                self.step(daemon, item)
                if "note" in item:
                    self.note(daemon, item["note"])
        finally:
            daemon.timer.cancel()
            if daemon.process.poll() is None:
                daemon.process.kill()
                daemon.process.wait()


def descendants(pid):
    for task in glob.glob(f"/proc/{pid}/task/*/children"):
        try:
            with open(task) as f:
                children = f.read().split()
        except OSError:
            continue
        for child in children:
            yield child
            yield from descendants(child)


def wait_for_descendant(pid, name):
    for _ in range(24000):
        for child in descendants(pid):
            try:
                with open(f"/proc/{child}/comm") as f:
                    if f.read().strip() == name:
                        return
            except OSError:
                pass
        threading.Event().wait(0.005)
    raise Mismatch(f"no '{name}' was started in two minutes")


def shape(value):
    """Names and types only: what a metrics sample can be compared by."""
    if isinstance(value, dict):
        return {k: shape(v) for k, v in value.items()
                if k not in ("devices", "interfaces", "filesystems", "tcp_states", "pressure", "cgroup_v2")}
    return [] if isinstance(value, list) else type(value).__name__


def wait_for_sample(daemon, replay):
    """The recording begins with a complete sample."""
    for n in range(100, 100 + 200):
        daemon.send_frame(json.dumps({"jsonrpc": "2.0", "id": n, "method": "device.metrics", "params": {
            "expected_device_id": "device-1", "expected_generation": replay.generation}}).encode())
        sample = json.loads(daemon.receive()[1])["result"].get("sample")
        if sample and sample["sequence"] >= 2:
            return
        threading.Event().wait(0.05)
    raise Mismatch("no complete sample in ten seconds")


def main():
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    paths = sys.argv[2:] or sorted(glob.glob(os.path.join(ROOT, "protocol/golden/conversations/*.jsonl")))
    passed = failed = 0
    for path in paths:
        try:
            Replay(sys.argv[1], path).run()
            passed += 1
            print(f"ok   {os.path.basename(path)}")
        except (Mismatch, KeyError, OSError) as e:
            failed += 1
            print(f"FAIL {os.path.basename(path)}: {type(e).__name__} {e}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
