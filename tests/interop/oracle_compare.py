#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Send the same generated requests to two daemons over stdio and show where their answers differ.

  oracle_compare.py OURS REFERENCE [--seed N] [--count N] [--messages] [--keep FILE]

One folder with the same content is made for each run; the requests are those of a list of valid ones that touches
every method, broken in one place each (a field gone, one too many, another type, another value, another envelope),
chosen by the seed. Identities, times and the digests of requests that hold identities are made equal before
comparing; with --messages the texts of errors count, too. Each difference is printed with its request and both
answers; the exit status is the number of differences, 100 at most. It is a tool for people who have the reference
at hand, no part of the tests: run it after a change to decoding, dispatch or an operation.

  --count N    broken requests besides the valid ones (600)
  --keep FILE  write requests and both answers there, one JSON line each
"""
import argparse
import base64
import copy
import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading

WAIT_S = 25
ENDED = "(the daemon ended)"
HANDLE = re.compile(r"\b(session|process|output|reader|writer)-([0-9a-z]{8,})-(\d+)\b")
TIME = re.compile(r'"\d{4}-\d\d-\d\dT[0-9:.]+Z"')


def tree(root):
    """The folder that both find."""
    def put(name, content, mode=0o644):
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(content)
        os.chmod(path, mode)
    put("a.txt", b"one\ntwo\nthree\n")
    put("crlf.txt", b"one\r\ntwo\r\n")
    put("noend.txt", b"first\nlast")
    put("wide.txt", "ü😀ß\n".encode() * 50)
    put("bin", b"\x00\x01\xff" * 10)
    put("latin", b"caf\xe9\n")
    put("empty", b"")
    put("run.sh", b"#!/bin/sh\necho run\n", 0o755)
    put("mode", b"x", 0o640)
    put("ro", b"x", 0o444)
    put("src/x.c", b"int main(void)\n{\n    return 0;\n}\n")
    put("src/deep/y.c", b"// needle\n")
    put("src/deep/z.h", b"#define NEEDLE 1\n")
    put(".hidden/h.c", b"needle\n")
    put("build/o.c", b"needle\n")
    put(".gitignore", b"build/\n*.log\n!keep.log\n")
    put("t.log", b"needle\n")
    put("keep.log", b"needle\n")
    put("full/child", b"")
    os.mkdir(os.path.join(root, "hollow"))
    os.mkdir(os.path.join(root, ".git"))
    os.symlink("a.txt", os.path.join(root, "link"))
    os.symlink("nowhere", os.path.join(root, "dangling"))
    os.symlink("src", os.path.join(root, "dirlink"))
    os.symlink("loop", os.path.join(root, "loop"))
    os.mkfifo(os.path.join(root, "fifo"))
    with open(os.path.join(os.fsencode(root), b"bad\xff"), "w"):
        pass


def b64(data):
    return {"encoding": "base64", "data": base64.b64encode(data).decode().rstrip("=")}


class Builder:
    """The valid requests; @ stands for the namespace of identities, PORT for a port nobody has."""

    def __init__(self, root):
        self.root, self.items = root, []

    def p(self, *names):
        return {"path": os.path.join(self.root, *names)}

    def add(self, method, **params):
        self.items.append((method, params))

    def sh(self, script, **more):
        return {"command": {"kind": "shell", "profile_id": "default", "script": script}, **more}

    def argv(self, name, *arguments, **more):
        kind = {"kind": "path", "path": {"path": name}} if name.startswith("/") else {"kind": "name", "name": name}
        return {"command": {"kind": "argv", "executable_spec": kind, "arguments": list(arguments)}, **more}

    def build(self):
        self.sessions()
        self.reads()
        self.walks()
        self.writes()
        self.transfers()
        self.commands()
        return self.items

    def sessions(self):
        self.add("device.describe")
        self.add("directory.list", expected_device_id="device-1", expected_generation="GENERATION", path=self.root,
                 limit=2)
        self.add("directory.list", expected_device_id="device-1", expected_generation="GENERATION",
                 path=self.root + "/dirlink", limit=10, offset=0)
        self.add("session.open", expected_device_id="device-1", expected_generation="GENERATION",
                 protocol_version="0.3", working_directory=self.root, required_methods=["file.stat"])
        self.add("session.attach")
        self.add("session.keepalive")
        self.add("environment.readiness")
        self.add("environment.describe")
        self.add("operation.cancel", target_operation_id="op-none")
        self.add("receipt.get", operation_id="op-none")

    def reads(self):
        for name in ("a.txt", "link", "dangling", "dirlink", "loop", "fifo", "missing", "a.txt/below", "hollow"):
            self.add("file.stat", path=self.p(name))
            self.add("file.stat", path=self.p(name), follow_symlinks=False)
            self.add("file.read_text", path=self.p(name), line_limit=10, max_line_length=100)
            self.add("file.open_reader", path=self.p(name))
        for name in ("crlf.txt", "noend.txt", "wide.txt", "bin", "latin", "empty"):
            for offset, limit, width in ((0, 1, 1), (1, 2, 3), (0, 1000, 1000), (7, 1, 1)):
                self.add("file.read_text", path=self.p(name), line_limit=limit, line_offset=offset,
                         max_line_length=width)

    def walks(self):
        for name in ("", "src", "dirlink", "a.txt", "missing", "hollow", "dangling"):
            where = {"path": os.path.join(self.root, name).rstrip("/")}
            self.add("file.list", path=where, include_hidden=True)
            self.add("file.list", path=where, offset=1, max_results=2)
            self.add("file.find", root=where, pattern="*.c")
            self.add("file.search", root=where, query="needle", mode="literal", max_line_length=100)
        top = {"path": self.root}
        for pattern in ("**/*.c", "src/**", "/a.txt", "*.{c,h}", "[ab]*", "[!a]*", "**", "src/*/y.c", "?.txt", "a**b",
                        "", "/", "{a}", "{a,}", "[z-a]", "[]a]*", "a\\b", "{a,{b,c}}", "*/", "[a/b]", "x{", "]", "***",
                        "**/deep/**", "DEEP"):
            self.add("file.find", root=top, pattern=pattern)
            self.add("file.find", root=top, pattern=pattern, include_hidden=True, respect_git_ignore=True,
                     recursive=False)
        for kinds in (["file"], ["directory"], ["symlink"], ["other"], ["file", "symlink"], ["file", "file"]):
            self.add("file.find", root=top, pattern="**", kinds=kinds, include_hidden=True)
        for query in ("needle", "n.*e", "^#", "e$", "(a|b)+", "\\bmain\\b", "(?i)NEEDLE", "(?=x)", "(a)\\1", "[", "",
                      "\\p{Greek}", "ü+", "x{1,3}", "x{2,1}", "\\d", "(?P<n>a)", "\\K", "a++", "(?#c)", "\\x41", "\\Q.\\E",
                      "[[:alpha:]]+main", "\\z", "(?s).", "a*?", "\\pL", "[^a]", "\\w\\W", "(?x) a b", "\\u0041", "\\cA"):
            self.add("file.search", root=top, query=query, mode="regex", max_line_length=20, context_lines=1)
        self.add("file.search", root=top, query="NEEDLE", mode="literal", max_line_length=5, case_sensitive=False,
                 include_hidden=True, respect_git_ignore=True)
        self.add("file.search", root=top, query="e", mode="literal", max_line_length=5, max_matches_per_file=1,
                 max_files=100, include_pattern="*.c", max_file_bytes=1000, max_results=3, offset=1)
        self.add("file.search", root=top, query="e", mode="literal", max_line_length=5, max_files=1)

    def writes(self):
        for mode in ("create", "replace", "upsert", "append"):
            for name in ("a.txt", "new-" + mode, "link", "hollow", "no/dir", "mode", "ro", "bin", "dangling", "fifo"):
                self.add("file.write_text", path=self.p(name), mode=mode, text=mode + "\n")
        self.add("file.write_text", path=self.p("x1"), mode="create", text="", executable=True)
        self.add("file.write_text", path=self.p("mode"), mode="upsert", text="a\0b")
        self.add("file.write_text", path=self.p("mode"), mode="upsert", text="é\r\n", executable=False)
        for patch in ("@@ -1 +1 @@\n-one\n+ONE\n", "--- a\n+++ b\n@@ -1,2 +1,1 @@\n one\n-two\n", "@@ -9 +9 @@\n-x\n+y\n",
                      "", "@@ -1 +1 @@\n", "@@ -0,0 +1 @@\n+new\n", "@@ -1,0 +2 @@\n+new\n", "@@ -1 +1 @@\n-one\n+\n\n",
                      "@@ -1 +1 @@ tail\n-one\n+x\n\\ No newline at end of file\n", "@@ -1,10001 +1 @@\n", "@@ -1 +2 @@\n-one\n+1\n",
                      "diff --git a b\n@@ -1 +1 @@\n-one\n+1\n", "@@ -01 +1 @@\n-one\n+1\n", "@@ -1 +1 @@\n-one\r\n+1\r\n"):
            for name in ("src/x.c", "crlf.txt", "noend.txt", "empty", "link"):
                self.add("file.write_text", path=self.p("patched"), mode="upsert", text="one\ntwo\nthree\n")
                self.add("file.patch_text", path=self.p("patched" if name == "src/x.c" else name),
                         patch_format="unified_diff", patch=patch)
        for name in ("hollow", "new/dir", "a.txt", "a.txt/x", "d1", "link", "dangling"):
            for more in ({}, {"exist_ok": True}, {"parents": True}, {"parents": True, "exist_ok": True}):
                self.add("file.mkdir", path=self.p(name), **more)
        for source in ("mode", "hollow", "link", "missing", "fifo", "dirlink", "dangling"):
            for target in ("copy1", "full", "mode", "no/dir", "link"):
                for replace in (False, True):
                    self.add("file.copy", source=self.p(source), destination=self.p(target), replace=replace)
        for source in ("copy1", "hollow", "full", "missing", "dangling", "mode"):
            for target in ("moved", "full", "no/dir", "run.sh"):
                self.add("file.write_text", path=self.p("copy1"), mode="upsert", text="c")
                self.add("file.move", source=self.p(source), destination=self.p(target))
                self.add("file.move", source=self.p(source), destination=self.p(target), replace=True)
        for name in ("missing", "link", "full", "moved", "run.sh", "dirlink"):
            for kind in ("file", "directory", "symlink", "other"):
                self.add("file.remove", path=self.p(name), expected_kind=kind)
        self.add("file.remove", path=self.p("src"), expected_kind="directory", recursive=True, max_entries=2)
        self.add("file.remove", path=self.p("src"), expected_kind="directory", recursive=True, max_entries=0)
        self.add("file.remove", path={"path": "/"}, expected_kind="directory", recursive=True)

    def transfers(self):
        self.add("file.open_reader", path=self.p("noend.txt"), byte_range={"offset": 2, "length": 3},
                 transfer_timeout_ms=1000)
        self.add("file.open_reader", path=self.p("noend.txt"), byte_range={"offset": 2000})
        self.add("file.close_reader", reader="reader-@-1")
        self.add("file.close_reader", reader="reader-@-99")
        self.add("file.close_reader", reader="writer-@-1")
        for mode in ("create", "replace", "upsert", "append"):
            for name in ("wide.txt", "none", "hollow", "link", "no/x"):
                self.add("file.open_writer", path=self.p(name), mode=mode)
        digest = {"algorithm": "sha256", "value": "0" * 64}
        for number in (1, 2, 99):
            self.add("file.commit_writer", writer=f"writer-@-{number}", transferred_bytes=0, transfer_digest=digest)
            self.add("file.abort_writer", writer=f"writer-@-{number}")
            self.add("file.abort_writer", writer=f"writer-@-{number}")

    def commands(self):
        for request in (self.sh("echo a; echo b >&2; exit 3"), self.sh("cat", initial_stdin=b64(b"in")),
                        self.sh("kill -9 $$"), self.sh("kill -TERM $$"), self.sh("kill -USR1 $$"), self.sh("exit 137"),
                        self.sh("sleep 9", limits={"wall_time_ms": 100}), self.argv("printf", "%s", "x"),
                        self.argv("/bin/echo", "x"), self.argv("nope"), self.argv("a/b"), self.argv("."), self.argv(""),
                        self.argv(self.root + "/a.txt"), self.argv(self.root + "/run.sh"), self.argv(self.root),
                        self.sh("pwd", cwd={"path": "/"}), self.sh("pwd", cwd=self.p("missing")),
                        self.sh("pwd", cwd=self.p("wide.txt")), self.sh("true", limits={"process_count": 1}),
                        self.sh("true", limits={"stdin_bytes": 0}), self.sh("true", limits={"wall_time_ms": 0}),
                        self.sh("cat", limits={"stdin_bytes": 1}, initial_stdin=b64(b"ab")),
                        self.sh("true", limits={"wall_time_ms": 2**63}),
                        self.sh("echo $X-$HOME", environment={"set": {"X": "1"}, "unset": ["HOME"]}),
                        self.sh("true", environment={"set": {"A13N_ENVD_X": "1"}}),
                        self.sh("true", environment={"unset": ["eip_x"]}), self.sh("true", environment={"set": {"": ""}}),
                        self.sh("true", environment={"set": {"1x": ""}}), self.sh("true", environment={"set": {"X": "a\0"}}),
                        self.sh("echo ${X-unset}", environment={"set": {"X": "1"}, "unset": ["X"]}),
                        self.sh("a\0b"), self.sh(""), self.argv("echo", "a\0b"), self.argv("echo", *["x"] * 1025),
                        self.argv("env", environment={"set": {"TELECHIR": "1"}, "unset": ["PATH"]}, cwd=self.p("hollow"))):
            if request["command"].get("executable_spec", {}).get("name") != "env":
                self.add("shell.exec", request=request)
        self.add("shell.exec", request={"command": {"kind": "shell", "profile_id": "zsh", "script": ""}})
        self.add("shell.exec", request={"command": {"kind": "shell", "profile_id": "default", "script": "", "login": True}})
        self.add("process.start", request=self.argv("cat", keep_stdin_open=True))
        first = "process-@-PROCESS"
        self.add("process.inspect", handle=first)
        self.add("process.release", handle=first)
        self.add("process.wait", handle=first, condition="initial_terminal", timeout=50)
        self.add("process.write_stdin", handle=first, data=b64(b"hello\n"))
        self.add("process.write_stdin", handle=first, data=b64(b""))
        self.add("process.signal", handle="process-@-999", signal="interrupt")
        self.add("process.close_stdin", handle=first)
        self.add("process.wait", handle=first, condition="tree_cleaned", timeout=5000)
        self.add("process.close_stdin", handle=first)
        self.add("process.write_stdin", handle=first, data=b64(b"x"))
        self.add("process.signal", handle=first, signal="terminate")
        self.add("process.kill", handle=first)
        self.add("process.inspect", handle=first)
        for start in (0, 3, 6, 7):
            self.add("output.read", reference="output-@-OUTPUT", start_offset=start)
        self.add("output.release", reference="output-@-OUTPUT")
        self.add("process.release", handle=first)
        self.add("process.release", handle=first)
        self.add("output.release", reference="output-@-OUTPUT")
        self.add("output.read", reference="output-@-OUTPUT", start_offset=0)
        for address in ("loopback", "any"):
            self.add("port.inspect", target={"protocol": "tcp", "address": address, "port": "PORT"})
        self.add("port.wait", target={"protocol": "tcp", "address": "loopback", "port": "PORT"},
                 desired_status="not_listening", timeout=1000)
        self.add("port.wait", target={"protocol": "tcp", "address": "loopback", "port": "PORT"},
                 desired_status="listening", timeout=60)


# ---- breaking requests

VALUES = [None, True, False, 0, 1, -1, 1.0, 1.5, 2**32, 2**53, 2**63, 2**64 - 1, 2**64, "", "x", "1", "/", "/tmp/",
          "relative", "/a/../b", "/a//b", "/a/./b", "/nul\0", "é😀", "x" * 130, "x" * 20000, [], [1], {}, {"path": "/"},
          {"x": 1}]


def places(value, at=()):
    """Every place in a JSON value."""
    if isinstance(value, dict):
        for k, v in value.items():
            yield at + (k,)
            yield from places(v, at + (k,))
    if isinstance(value, list):
        for i, v in enumerate(value):
            yield at + (i,)
            yield from places(v, at + (i,))


def parent(value, at):
    for k in at[:-1]:
        value = value[k]
    return value


def objects(value, at=()):
    if isinstance(value, dict):
        yield at
        for k, v in value.items():
            yield from objects(v, at + (k,))


def broken(chance, message):
    """message with one thing changed in it, as text."""
    m = copy.deepcopy(message)
    how = chance.randrange(10)
    spots = [at for at in places(m["params"])]
    if how < 5 and spots:
        at = chance.choice(spots)
        parent(m["params"], at)[at[-1]] = chance.choice(VALUES)
    elif how < 7 and spots:
        at = chance.choice(spots)
        del parent(m["params"], at)[at[-1]]
    elif how < 8:
        at = chance.choice(list(objects(m["params"])))
        target = m["params"]
        for k in at:
            target = target[k]
        target[chance.choice(["unknown", "Path", "eip_x", ""])] = chance.choice(VALUES)
    else:
        envelope(chance, m)
    text = json.dumps(m, ensure_ascii=chance.random() < 0.5)
    if chance.random() < 0.03:
        text = text[:chance.randrange(len(text))]
    elif chance.random() < 0.03:
        text = text.replace('"params"', '"params":{},"params"', 1)
    return text


def envelope(chance, m):
    what = chance.randrange(9)
    if what == 0:
        m["jsonrpc"] = chance.choice(["1.0", 2, None, "2.0 "])
    elif what == 1:
        m["method"] = chance.choice(["", "file.Stat", "nope", 1, None, "initialize", "device.metrics",
                                     "computer.describe", "egress.update"])
    elif what == 2:
        m["params"] = chance.choice([None, [], "x", 1])
    elif what == 3:
        m["eip_session"] = chance.choice(["session-x-1", "", 1, None])
    elif what == 4:
        m.pop("eip_session", None)
    elif what == 5:
        m[chance.choice(["eip_other", "extra", "result", "tc_ext"])] = 1
    elif what == 6:
        m["id"] = chance.choice([None, "", "x" * 129, 1.5, 2**63, True, "ok", -5, []])
    elif what == 7:
        m.pop(chance.choice(["jsonrpc", "id", "method", "params"]), None)
    else:
        m["eip_session"] = m.get("eip_session") or "SESSION"


# ---- talking


class Daemon:
    def __init__(self, program, root, runtime):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("A13N_ENVD_", "TELECHIRD_", "OTEL_"))}
        env.update(A13N_ENVD_RUNTIME_DIR=runtime, A13N_ENVD_FULL_CONTROL="1", A13N_ENVD_DEVICE_ID="device-1",
                   A13N_ENVD_DEFAULT_WORKING_DIRECTORY=root,
                   A13N_ENVD_CONFIG_JSON='{"limits":{"max_output_bytes_per_stream":1048576,'
                                         '"max_output_preview_bytes":65536,"max_file_transfer_records":512}}')
        self.child = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL, env=env)
        self.timer = None

    def ask(self, text):
        """The answer as text. One at a time: what is sent has exactly one."""
        body = text.encode("utf-8", "surrogatepass")
        self.timer = threading.Timer(WAIT_S, self.child.kill)
        self.timer.start()
        try:
            self.child.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
            self.child.stdin.flush()
            length = None
            while (line := self.child.stdout.readline()) != b"\r\n":
                if not line:
                    return ENDED
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            return self.child.stdout.read(length).decode()
        except BrokenPipeError:
            return ENDED
        finally:
            self.timer.cancel()

    def end(self):
        try:
            self.child.stdin.close()
        except BrokenPipeError:
            pass
        self.child.wait()


class Run:
    """All requests to one daemon, with its identities put in and taken out."""

    def __init__(self, program, root, port):
        self.root, self.port = root, port
        shutil.rmtree(root, ignore_errors=True)
        os.makedirs(root)
        tree(root)
        os.utime(root)
        self.runtime = tempfile.mkdtemp()
        self.daemon = Daemon(program, root, os.path.join(self.runtime, "r"))
        self.generation = self.namespace = self.session = None
        self.last = {"PROCESS": "0", "OUTPUT": "0"}

    def begin(self):
        hello = json.loads(self.daemon.ask(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "supported_protocol_versions": ["0.3"], "client": {"name": "compare", "version": "1"}}})))
        self.generation = hello["result"]["descriptor"]["generation"]
        opened = json.loads(self.daemon.ask(json.dumps({"jsonrpc": "2.0", "id": 2, "method": "session.open", "params": {
            "expected_device_id": "device-1", "expected_generation": self.generation, "protocol_version": "0.3",
            "working_directory": self.root}})))
        self.session = opened["result"]["descriptor"]["session_id"]
        self.namespace = self.session.split("-")[1]
        self.daemon.ask(json.dumps({"jsonrpc": "2.0", "id": 3, "method": "environment.readiness", "eip_session":
                                    self.session, "params": {"context": {"operation_id": "op-ready"}}}))

    def ask(self, text):
        real = text.replace('"SESSION"', json.dumps(self.session)).replace('"GENERATION"', str(self.generation))
        real = real.replace('"PORT"', str(self.port))
        for word, number in self.last.items():
            real = real.replace(f"-@-{word}", f"-@-{number}")
        real = real.replace("-@-", f"-{self.namespace}-")
        answer = self.daemon.ask(real)
        if '"method": "process.start"' in text and '"process":{' in answer:
            self.last["PROCESS"] = re.search(r'"handle":"process-[^"]*-(\d+)"', answer)[1]
            self.last["OUTPUT"] = re.findall(r'"reference":"output-[^"]*-(\d+)"', answer)[-1]
        return self.generic(answer, "-@-" in text or "SESSION" in text.split('"params"')[0])

    def generic(self, answer, has_identity):
        answer = TIME.sub('"T"', answer).replace(str(self.generation), "GENERATION")
        answer = HANDLE.sub(lambda m: f"{m[1]}-@-{'n' if m[1] in ('output', 'process') else m[3]}", answer)
        answer = re.sub(r"\.eip-stage-[0-9a-f]{32}", ".eip-stage-N", answer)
        if has_identity:
            answer = re.sub(r'"request_digest":"[0-9a-f]{64}"', '"request_digest":"D"', answer)
        return answer

    def end(self):
        self.daemon.end()
        shutil.rmtree(self.runtime, ignore_errors=True)


RECORDED = {"file.write_text", "file.patch_text", "file.mkdir", "file.copy", "file.move", "file.remove", "shell.exec",
            "process.write_stdin", "process.close_stdin", "process.kill", "process.release", "output.release"}


def requests(root, seed, count):
    """Texts to send, in order: the valid ones, with broken ones among them."""
    chance = random.Random(seed)
    valid = Builder(root).build()
    device = {"device.describe", "directory.list", "session.open"}
    plain = []
    for i, (method, params) in enumerate(valid):
        params = dict(params)
        timeout = params.pop("timeout", None)
        if method not in device and not method.startswith("session."):
            params["context"] = {"operation_id": f"op-{i}"}
            if timeout:
                params["context"]["timeout_ms"] = timeout
        message = {"jsonrpc": "2.0", "id": i + 10, "method": method, "params": params}
        if method not in device:
            message["eip_session"] = "SESSION"
        plain.append(message)
    opens = ("session.open", "session.close", "file.open_reader", "file.open_writer")
    for i, message in enumerate(plain):
        yield json.dumps(message)
        if i % 3 == 1 and message["method"] in RECORDED:
            yield json.dumps(message)  # the same again: the recorded answer
        for _ in range(count // len(plain) + (chance.random() < count % len(plain) / len(plain))):
            other = message if chance.random() < 0.6 else chance.choice(plain)
            if other["method"] in opens and chance.random() < 0.7:
                continue
            m = copy.deepcopy(other)
            if "context" in m["params"] and chance.random() < 0.9:
                m["params"]["context"]["operation_id"] = f"op-b-{chance.getrandbits(60):x}"
            text = broken(chance, m)
            if "sleep" not in text and not waits_long(text):
                yield text


def waits_long(text):
    limit = re.search(r'"timeout_ms": (\d+)[,}]', text)
    return re.search(r'"(process|port)\.wait"', text) is not None and (limit is None or int(limit[1]) > 5000)


def comparable(answer, with_messages):
    try:
        value = json.loads(answer)
    except ValueError:
        return answer
    if not with_messages and isinstance(value, dict) and "error" in value:
        value["error"].pop("message", None)
    return json.dumps(value, sort_keys=True)


def shown(text, limit=700):
    return text if len(text) <= limit else text[:limit] + f"... ({len(text)} characters)"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("ours")
    ap.add_argument("reference")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--count", type=int, default=600)
    ap.add_argument("--messages", action="store_true")
    ap.add_argument("--keep")
    args = ap.parse_args()
    place = tempfile.mkdtemp()
    root = os.path.join(os.path.realpath(place), "work")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    texts = list(requests(root, args.seed, args.count))
    answers = []
    for program in (os.path.abspath(args.ours), os.path.abspath(args.reference)):
        run = Run(program, root, port)
        run.begin()
        answers.append([run.ask(text) for text in texts])
        run.end()
        for text, answer in zip(texts, answers[-1]):
            if answer == ENDED:
                print(f"{program} ended, or was silent for {WAIT_S} s, at\n  {shown(text)}\n")
                break
    shutil.rmtree(place, ignore_errors=True)
    if args.keep:
        with open(args.keep, "w") as f:
            for text, ours, theirs in zip(texts, *answers):
                f.write(json.dumps({"request": text, "ours": ours, "reference": theirs}) + "\n")
    differ = [(t, a, b) for t, a, b in zip(texts, *answers)
              if comparable(a, args.messages) != comparable(b, args.messages)]
    for text, ours, theirs in differ:
        print(f"request    {shown(text)}\n  ours       {shown(ours)}\n  reference  {shown(theirs)}\n")
    print(f"{len(texts)} requests, {len(differ)} answers differ")
    return min(len(differ), 100)


if __name__ == "__main__":
    sys.exit(main())
