#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Let two daemons pair with the same Host, situation by situation, and show where they differ.

  compare.py OURS REFERENCE [PART OF A NAME] [--messages]

Compared are the requests (lines, fields, bodies), the upgrade, what is saved (names, modes, content), standard output
and the exit status; with --messages the last line of standard error, too. Identities, credentials and ports are made
equal first. Each also takes over what the other has saved. It is a tool for people who have the reference at hand, no
part of the tests; the exit status is the number of situations that differ, 100 at most.
"""
import argparse
import json
import os
import pathlib
import re
import signal
import stat
import subprocess
import sys
import tempfile

from host import Host, answer, approved, closed, pending, refused, silent

LONG_S = 60
SECRET = re.compile(r"\b[0-9a-f]{64}\b")
IDENTITY = re.compile(r"device-[0-9a-f]{32}")
# Locks and marks of our own making, and fields whose presence no Host can tell.
OWN_FILES = (".device-id.lock", ".a13n-envd.lock")
QUIET_FIELDS = {"sec-websocket-key", "host"}


class Case:
    """steps: what the Host answers; words: of the command line, URL being its address; when: what has to have come
    before the daemon gets how (SIGTERM) or ends by itself (None); before: what is changed in a state that was saved."""

    def __init__(self, name, *steps, words=("URL", "--host", "t"), env=None, link=101, when=None, how=signal.SIGTERM,
                 before=None, saved=False, base="/"):
        self.name, self.steps, self.words, self.env, self.link = name, steps, words, env or {}, link
        self.when, self.how, self.before, self.saved, self.base = when, how, before, saved, base


def linked(h):
    return h.hellos


def asked(h):
    return h.requests


def edit(**changes):
    def change(folder):
        path = folder / "hosts/t/host.json"
        record = json.loads(path.read_text())
        record.update(changes)
        path.write_text(json.dumps(record))
    return change


def write(name, text):
    return lambda folder: (folder / name).write_text(text)


CODE = {"verification_code": "A"}
CASES = [
    Case("approved", approved(), when=linked),
    Case("pending, then approved", pending(), approved(), when=linked),
    Case("two codes", pending(), pending(code="B"), approved(), when=linked),
    Case("a base path", approved(url="c/x"), base="/a/b/", when=linked),
    Case("a long name", approved(), words=("URL", "--host", "t", "--name", "Größe \"1\""), when=linked),
    Case("an instance", approved(), words=("URL", "--instance", "i"), when=linked),
    Case("a default alias", approved(), words=("URL",), when=linked),
    Case("a name by variable", approved(), env={"A13N_ENVD_NAME": "E"}, when=linked),
    Case("other transports are not looked at", approved(), env={"A13N_ENVD_TRANSPORT": "x", "A13N_ENVD_HTTP_BIND": "y",
                                                                "A13N_ENVD_DEVICE_ID": "z"}, when=linked),
    Case("an end by SIGINT", approved(), when=linked, how=signal.SIGINT),
    Case("interrupted", pending(after=10), when=asked, how=signal.SIGINT),
    Case("interrupted in a request", silent, when=asked, how=signal.SIGINT),
    Case("refused", refused(409, "c_1", "it is over")),
    Case("refused without a reason", answer(500, b"x")),
    Case("redirected", answer(302, b"", [("Location", "/x")])),
    Case("closed", closed),
    Case("too large", answer(200, {"status": "approved", "resource_id": "a", "websocket_url": "/x", "pad": "x" * 70000})),
    Case("no JSON", answer(200, b"{")),
    Case("an unknown status", answer(200, {"status": "x"})),
    Case("another success", answer(201, {"status": "approved", "resource_id": "a", "websocket_url": "/x"}), when=linked),
    Case("no pause", answer(200, {"status": "pending", "challenge": CODE})),
    Case("a pause that is none", pending(after=-1)),
    Case("a code with controls", pending(code="\x1b")),
    Case("a long code", pending(code="x" * 33)),
    Case("a page that is none", pending(url="http://[x")),
    Case("a socket elsewhere", approved(url="ws://127.0.0.2/")),
    Case("a socket with a query", approved(url="/x?y")),
    Case("a silent Host", silent),
    Case("401 at the link", approved(), link=401),
    Case("403 at the link", approved(), link=403),
    Case("404 at the link", approved(), link=404),
    Case("no command line", words=()),
    Case("two Hosts", words=("a", "b")),
    Case("an option twice", words=("URL", "--host", "a", "--host", "b")),
    Case("an option without a value", words=("URL", "--host")),
    Case("an unknown option", words=("URL", "--x", "y")),
    Case("a bad name", words=("URL", "--host", "a/b")),
    Case("a name nobody saved", words=("u",)),
    Case("http to elsewhere", words=("http://host.example",)),
    Case("user info", words=("https://u:p@host.example",)),
    Case("a query", words=("https://host.example/?",)),
    Case("an unknown variable", env={"A13N_ENVD_BOGUS": "1"}),
    Case("again", saved=True, words=("t",), when=linked),
    Case("again by its URL", saved=True, when=linked),
    Case("a new name", saved=True, words=("t", "--name", "N"), when=linked),
    Case("a new certificate", saved=True, words=("t", "--ca-file", "ca.pem"), when=linked),
    Case("another URL", saved=True, words=("http://127.0.0.1:9", "--host", "t")),
    Case("an unknown member", saved=True, words=("t",), before=edit(more=1)),
    Case("no registration", saved=True, words=("t",), before=edit(registration=None), when=linked),
    Case("a saved socket elsewhere", saved=True, words=("t",),
         before=edit(registration={"resource_id": "a", "websocket_url": "ws://x/"})),
    Case("a malformed record", saved=True, words=("t",), before=write("hosts/t/host.json", "{")),
    Case("a malformed credential", saved=True, words=("t",), before=write("hosts/t/credential", "x")),
    Case("a credential with a line end", saved=True, words=("t",), before=write("hosts/t/credential", "a" * 64 + "\n")),
    Case("a foreign file in the runtime folder", saved=True, words=("t",), before=write("hosts/t/runtime/x", "")),
    Case("a missing credential", saved=True, words=("t",), when=linked,
         before=lambda folder: (folder / "hosts/t/credential").unlink()),
    Case("a missing identity", saved=True, words=("t",), when=linked, before=lambda folder: (folder / "device-id").unlink()),
]


class Run:
    def __init__(self, program, case, saver):
        self.lines = []
        with tempfile.TemporaryDirectory() as base, Host(*(case.steps or (approved(),)), base=case.base) as h:
            self.home, self.h = pathlib.Path(base), h
            if case.saved:
                self.go(saver, ("URL", "--host", "t"), {}, linked, signal.SIGTERM)
                h.requests.clear(), h.links.clear(), h.hellos.clear()
                if case.before:
                    case.before(self.home / ".a13n-envd/instances/default")
            h.link = case.link
            self.go(program, case.words, case.env, case.when, case.how)
            self.look()

    def go(self, program, words, env, when, how):
        link = self.home / "a13n-envd"
        link.unlink(missing_ok=True)
        link.symlink_to(program)
        words = [w.replace("URL", self.h.url) for w in words]
        p = subprocess.Popen([link, "connect", *words], cwd=self.home, text=True, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env={"HOME": str(self.home), "PATH": os.environ["PATH"], **env})
        try:
            self.h.wait(lambda: (when and when(self.h)) or p.poll() is not None)
            if p.poll() is None:
                p.send_signal(how)
            self.out, self.err = p.communicate(timeout=LONG_S)
        finally:
            p.kill()
        self.status = p.returncode

    def plain(self, text):
        text = SECRET.sub("<secret>", IDENTITY.sub("<identity>", text)).replace(str(self.h.port), "<port>")
        return re.sub(r"host-[0-9a-f]{16}", "<alias>", text.replace(str(self.home), "<home>"))

    def look(self):
        say = self.lines.append
        say(f"status {self.status}, output {self.out!r}")
        for q in self.h.requests + self.h.links[:1]:
            fields = sorted(f"{k.lower()}: {v}" for k, v in q.fields if k.lower() not in QUIET_FIELDS)
            say(self.plain(f"{q.method} {q.target} {fields} {q.body.decode()}"))
        for f in sorted(self.home.rglob("*")):
            if f.name in OWN_FILES or f.name == "a13n-envd" or f == self.home:
                continue
            mode = stat.S_IMODE(f.stat().st_mode)
            content = self.plain(f.read_text()) if f.is_file() else ""
            private = "" if f.name in ("instances", "hosts", ".a13n-envd") else oct(mode)
            say(self.plain(f"{f.relative_to(self.home)} {private} {content!r}"))
        told = [line for line in self.err.splitlines() if not line.startswith("{")]
        self.last = self.plain(told[-1] if told else "")
        self.told = [self.plain(line) for line in told]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("ours", type=pathlib.Path)
    ap.add_argument("reference", type=pathlib.Path)
    ap.add_argument("part", nargs="?", default="")
    ap.add_argument("--messages", action="store_true")
    args = ap.parse_args()
    ours, reference = args.ours.resolve(), args.reference.resolve()
    ndifferent = 0
    for case in CASES:
        if args.part not in case.name:
            continue
        a, b = Run(ours, case, ours), Run(reference, case, reference)
        pairs = [(a, b, "")]
        if case.saved:  # each goes on with what the other saved
            pairs += [(Run(ours, case, reference), b, ", saved by the reference"),
                      (a, Run(reference, case, ours), ", saved by ours")]
        for x, y, how in pairs:
            is_same = x.lines == y.lines and (not args.messages or x.last == y.last)
            if is_same:
                continue
            ndifferent += 1
            print(f"--- {case.name}{how}")
            for name, mine, other in (("ours", x, y), ("reference", y, x)):
                for line in mine.lines:
                    if line not in other.lines:
                        print(f"  {name}: {line}")
            if args.messages or x.lines != y.lines:
                print(f"  ours: {x.last}\n  reference: {y.last}")
    print(f"{ndifferent} situations differ")
    return min(ndifferent, 100)


if __name__ == "__main__":
    sys.exit(main())
