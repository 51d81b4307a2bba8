#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A run whose session can no longer be written: a disk that is full, and one that fails to sync. Nothing may
be acted on that is not on disk, the message says what happened and what to do, and with a sound disk the
session goes on. TELECHIR is the program, with bad_disk.so beside it; an argument picks tests by name.
TC_FULL=1 strikes at more operations."""

import json
import os
import pathlib
import random
import subprocess
import sys

from models import ModelStub, Reply
from test_command import TELECHIR, run_tests

FULL = bool(os.environ.get("TC_FULL"))
BAD_DISK = pathlib.Path(TELECHIR).with_name("bad_disk.so")
SESSIONS = ("s.sqlite", "folder")
NCALLS = 4
NO_SPACE = ("no space left on device", "disk is full")
NO_SYNC = ("input/output error", "disk I/O error")


def bad_disk(how, session, struck):
    """What a process needs in its environment to have its session on a disk that breaks like this."""
    return {"LD_PRELOAD": str(BAD_DISK), "BAD_DISK": how, "BAD_DISK_PATH": str(session),
            "BAD_DISK_STRUCK": str(struck),
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}


class Work:
    """A run of a few calls that each leave a line, so that doing one twice shows; and its model. nbytes: what
    each of them prints besides."""

    def __init__(self, p, session, nbytes=0):
        self.p, self.session = p, session
        self.count = p.here / f"count-{session.name}-{os.urandom(4).hex()}"
        command = f"echo {{i}} >>{self.count}; echo did {{i}}; head -c {nbytes} /dev/zero | tr '\\0' x"
        steps = [Reply(f"Step {i}.", [(f"c{i}", "bash", json.dumps({"command": command.format(i=i)}))])
                 for i in range(NCALLS)]
        self.model = ModelStub("openai", [*steps, Reply("All done.")], by_turn=True)
        self.words = ["run", "--session", session, *self.model.ways(), "count"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.model.close()

    def done(self):
        return self.count.read_text().split() if self.count.exists() else []

    def records(self):
        r = self.p.run("sessions", "dump", self.session)
        return [json.loads(line) for line in r.stdout.splitlines()]

    def check_stopped(self, r, causes):
        """It stopped, said why, and had written everything down before it acted on it."""
        assert r.returncode == 1, r.shown
        assert any(cause in r.err for cause in causes), r.shown
        assert any(what in r.err.splitlines()[-1] for what in (
            "telechir run --session", "ask again", "open the session again", "give a prompt")), r.shown
        assert ("free some space" if causes is NO_SPACE else "see to the disk") in r.err, r.shown
        records = self.records()
        begun = [m["callId"] for m in (t["task"]["input"] for t in records if t.get("task", {}).get("kind") == "pi.tool"
                                       and t["task"]["state"].get("checkpoint", {}).get("phase") != "call")]
        for number in self.done():
            assert f"c{number}" in begun, (number, begun, r.shown)
        told = [m["content"] for m in (self.model.requests[-1]["messages"] if self.model.requests else ())
                if m["role"] == "tool"]
        kept = json.dumps([t["entry"] for t in records if "entry" in t])
        for result in told:
            assert json.dumps(result)[1:-1] in kept, (result, r.shown)
        assert not self.model.complaints, self.model.complaints

    def check_goes_on(self):
        """On a sound disk, with what is there."""
        has_prompt = any("submission" in t for t in self.records())
        r = self.p.ok("run", "--session", self.session) if has_prompt else self.p.ok(*self.words)
        assert r.text.endswith("All done.\n") or "All done." in self.p.ok("sessions", "show", self.session).text, r.shown
        done = self.done()
        assert len(done) == len(set(done)), done
        results = [m for t in self.records() for m in t.get("entry", {}).get("model", []) if m["role"] == "toolResult"]
        assert len(results) == NCALLS, results
        for i, m in enumerate(results):
            text = "".join(c.get("text", "") for c in m["content"])
            assert str(i) in done or m["isError"], (i, done, text)
            assert not m["isError"] or "may have partially run" in text, text
        assert not self.model.complaints, self.model.complaints
        self.p.ok("sessions", "check", self.session)
        assert self.p.ok("run", "--session", self.session).text == ""


def strike(p, how, causes):
    """Let the disk break at one operation after the other, until a run gets by before."""
    seed = int(os.environ.get("TC_SEED") or random.randrange(1 << 31))
    rng = random.Random(seed)
    growth = 1.15 if FULL else 3
    for name in SESSIONS:
        at, nstruck = 1.0, 0
        try:
            while True:
                session = p.base / f"{how}-{nstruck}-{name}"
                struck = p.base / "struck"
                struck.unlink(missing_ok=True)
                n = int(at) + rng.randrange(max(1, int(at * (growth - 1))))
                with Work(p, session) as work:
                    r = p.run(*work.words, env=bad_disk(f"{how} {n}", session, struck))
                    if not struck.exists():
                        assert r.returncode == 0 and r.text.endswith("All done.\n"), r.shown
                        break
                    # What comes after the answer (the log that is written back) has nothing to lose any more.
                    if r.returncode != 0:
                        work.check_stopped(r, causes)
                    work.check_goes_on()
                nstruck += 1
                at = max(at + 1, at * growth)
        except Exception:
            print(f"{name}: '{how} {n}' of TC_SEED={seed}")
            raise
        assert nstruck > 1, nstruck


def test_sync_fails_under_a_run(p):
    strike(p, "sync", NO_SYNC)


def test_sync_fails_once_under_a_run(p):
    strike(p, "lost", NO_SYNC)


def test_disk_fills_up_under_a_run_case_77(p):
    strike(p, "full", NO_SPACE)


def mount_small_disk(p):
    """A real one, of 2 MiB; None where that may not be made."""
    folder = p.base / "disk"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "tmpfs", str(folder)],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return folder if made.returncode == 0 else None


def fill(folder, nbytes_left):
    """Nothing but so much is left; what to remove to have room again."""
    filler = folder / "filler"
    free = os.statvfs(folder)
    filler.write_bytes(bytes(free.f_bavail * free.f_bsize - nbytes_left))
    return filler


def test_a_really_full_disk_case_77(p):
    disk = mount_small_disk(p) if os.geteuid() == 0 else None
    if disk is None:
        print("test_a_really_full_disk_case_77 skipped: a small disk needs the right to mount one")
        return
    try:
        for name in SESSIONS:
            npages, stopped, is_over = 1, [], False
            while not is_over:
                session = disk / f"{npages}-{name}"
                filler = fill(disk, npages * 4096)
                with Work(p, session, nbytes=9000) as work:
                    r = p.run(*work.words)
                    is_over = r.returncode == 0
                    if not is_over:
                        work.check_stopped(r, NO_SPACE)
                        stopped.append(len(work.done()))
                    filler.unlink()
                    work.check_goes_on()
                subprocess.run(["rm", "-rf", "--", *map(str, disk.iterdir())], check=True)
                npages += 1 if FULL else 1 + npages // 2
            assert len(stopped) > 1 and max(stopped) > 0, stopped  # in the middle of it too
    finally:
        subprocess.run(["umount", str(disk)], check=True)


if __name__ == "__main__":
    if not BAD_DISK.exists():
        print(f"skipped: there is no {BAD_DISK}")
        sys.exit(0)
    sys.exit(run_tests(globals()))
