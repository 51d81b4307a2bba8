#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One long run that is killed again and again, at random: by SIGKILL at some event, before or in the middle of
an operation on the session's disk, and with its daemon. Every time it is taken up again, and at the end every
effect happened as often as the session says. TELECHIR is the program, with bad_disk.so beside it; an argument
picks tests by name. TC_SEED repeats a run; TC_FULL=1: a thousand steps each."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading

from models import ModelStub, Reply
from test_command import LIMIT, TELECHIR, run_tests
from test_run_disk import BAD_DISK, bad_disk

FULL = bool(os.environ.get("TC_FULL"))
NSTEPS = 1000 if FULL else 50  # answers of the model and calls of tools
NOPERATIONS, NEVENTS = (90, 25) if FULL else (35, 10)  # that one run gets to, on average
SAFE = ("grep", "find", "ls")  # may be done again
# What a call is told that did not come to its end.
CUT = ("was interrupted and may have partially run", "times and was given up")


class Plan:
    """What the model asks for: answers with calls, each of which can be counted afterwards."""

    def __init__(self, rng, work):
        self.work, self.calls, self.turns = work, {}, []
        (work / "seen").mkdir()
        (work / "edited").mkdir()
        for i in range(3):
            (work / "seen" / f"{i}.txt").write_text(f"needle {i}\n")
        nsteps = 1  # the last answer
        while nsteps < NSTEPS:
            turn = len(self.turns)
            made = [self.call(rng, f"{turn}-{i}") for i in range(rng.choice((1, 1, 2, 3)))]
            self.turns.append((f"Step {turn}: " + "so it goes on. " * rng.randrange(6), made))
            nsteps += 1 + len(made)
        self.turns.append(("All done.", []))

    def call(self, rng, name):
        kind = rng.choice(("bash", "bash", "edit", rng.choice(SAFE)))
        if kind == "bash":
            pause = rng.choice(("", "", "sleep 0.05; "))
            arguments = {"command": f"echo begun {name}; {pause}echo {name} >>marks; {pause}echo ended {name}"}
        elif kind == "edit":
            (self.work / "edited" / name).write_text("once")
            arguments = {"path": f"edited/{name}", "edits": [{"oldText": "once", "newText": "once and"}]}
        else:
            arguments = {"grep": {"pattern": "needle", "path": "seen"}, "find": {"pattern": "*.txt", "path": "seen"},
                         "ls": {"path": "seen"}}[kind]
        self.calls[f"c{name}"] = kind
        return f"c{name}", kind, json.dumps(arguments)

    def script(self, path):
        path.write_text(json.dumps({"turns": [
            {"text": text, "tool_calls": [{"id": i, "name": n, "arguments": json.loads(a)} for i, n, a in calls]}
            for text, calls in self.turns]}))
        return ["--model", f"scripted/{path}"]

    def effects(self):
        """Call -> how often it was done; of those that leave something."""
        marks = (self.work / "marks").read_text().split() if (self.work / "marks").exists() else []
        count = {f"c{m}": marks.count(m) for m in marks}
        for name in self.calls:
            if self.calls[name] == "edit":
                count[name] = (self.work / "edited" / name[1:]).read_text().count("and")
        return count


class Killed:
    """Runs of one session that end before they are done."""

    def __init__(self, p, rng, session, words, daemon):
        self.p, self.rng, self.session, self.words, self.daemon = p, rng, session, words, daemon
        self.nkills = self.ndaemons = 0

    def start(self, how):
        words = [TELECHIR, "run", "--json", "--session", self.session, *self.words]
        env = {**self.p.env, **(bad_disk(how, self.session, self.p.base / "struck") if how else {})}
        return subprocess.Popen([*map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, env=env, cwd=self.p.here)

    @staticmethod
    def pass_over(run, n):
        """Until n events were told, or it ended."""
        while n > 0 and run.stdout.readline():
            n -= 1

    def once(self):
        """One run; True: it came to the end by itself."""
        rng, how = self.rng, None
        kind = rng.choice(("event", "disk", "disk", "daemon" if self.daemon else "event"))
        if kind == "disk":
            how = f"{rng.choice(('kill', 'cut'))} {1 + int(rng.expovariate(1 / NOPERATIONS))}"
        run = self.start(how)
        if not how:
            self.pass_over(run, 1 + int(rng.expovariate(1 / NEVENTS)))
        if kind == "daemon" and run.poll() is None:
            self.daemon.kill()
            self.pass_over(run, rng.randrange(8))
            self.ndaemons += 1
        if not how and run.poll() is None:
            run.send_signal(signal.SIGKILL)
        out, err = run.communicate(timeout=LIMIT)
        if kind == "daemon" and self.daemon.process.poll() is not None:
            self.daemon.restart()
        if self.words and b'{"submission":' in self.p.run("sessions", "dump", self.session).stdout:
            self.words = []  # the prompt is in the session: asking once more would be another question
        if run.returncode == -signal.SIGKILL:
            self.nkills += 1
            return False
        assert run.returncode == 0 or (kind == "daemon" and run.returncode in (1, 3)), (run.returncode, err, out[-2000:])
        return run.returncode == 0

    def until_done(self):
        while not self.once():
            pass


def check(p, plan, killed, session):
    """The record of the session beside what really happened."""
    record = [json.loads(line) for line in p.ok("sessions", "dump", session).stdout.splitlines()]
    entries = [r["entry"] for r in record if "entry" in r]
    effects, told, waiting = plan.effects(), [], []
    for m in (m for e in entries for m in e.get("model", ())):
        if m["role"] == "toolResult":
            assert m["toolCallId"] in waiting, (m, waiting)
            waiting.remove(m["toolCallId"])
            told.append((m["toolCallId"], m["isError"], "".join(c.get("text", "") for c in m["content"])))
        elif m["role"] == "assistant":
            assert not waiting, (waiting, m)  # the next question was asked with every call answered
            if m.get("stopReason") not in ("aborted", "error"):
                waiting = [c["id"] for c in m["content"] if c["type"] == "toolCall"]
    assert not waiting, waiting
    assert sorted(c for c, _, _ in told) == sorted(plan.calls), set(plan.calls) ^ {c for c, _, _ in told}
    ncut = 0
    for name, is_error, text in told:
        was_cut = any(words in text for words in CUT)
        assert not is_error or was_cut or killed.ndaemons, (name, text)
        if plan.calls[name] in SAFE:
            assert CUT[0] not in text, (name, text)  # it was done again instead
        elif not is_error:
            assert effects.get(name) == 1, (name, effects.get(name), text)
        else:
            assert effects.get(name, 0) <= 1, (name, effects.get(name), text)
        ncut += is_error
    assert set(effects) <= set(plan.calls), set(effects) - set(plan.calls)
    submissions = [r["submission"] for r in record if "submission" in r]
    assert [s["status"] for s in submissions] == ["done"], submissions
    assert "All done." in p.ok("sessions", "show", session).text
    assert not [r for r in record if "task" in r and r["task"]["state"]["status"] != "terminal"]
    assert p.json("sessions", "check", session)[-1]["damaged"] == 0
    assert p.ok("run", "--session", session).text == ""
    assert plan.effects() == effects
    return len(told), ncut


class Readers:
    """Who looks at an SQLite session all the time, beside the runs and between them: our commands, and SQLite by a
    connection that is kept and one that is new. Nothing that was there once may be gone, and no look may fail."""

    def __init__(self, p, session):
        self.p, self.session, self.nlooks, self.error = p, session, 0, None
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.look)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()

    def connect(self):
        return sqlite3.connect(f"file:{self.session}?mode=ro", uri=True, timeout=LIMIT)

    def is_there(self):
        return self.session.exists() and self.p.run("sessions", "check", self.session).returncode == 0

    def look(self):
        try:
            while not self.is_over.is_set() and not self.is_there():
                self.is_over.wait(0.01)
            kept, last, nentries = self.connect() if not self.is_over.is_set() else None, 0, 0
            while not self.is_over.is_set():
                assert self.p.json("sessions", "check", self.session)[-1]["damaged"] == 0
                new = self.connect()
                for reader in (kept, new):
                    seq, = reader.execute("SELECT next_seq FROM durable_metadata").fetchone()
                    assert seq >= last, (seq, last)
                    last = seq
                new.close()
                dump = [json.loads(line) for line in self.p.ok("sessions", "dump", self.session).stdout.splitlines()]
                now = sum("entry" in r for r in dump)
                assert now >= nentries, (now, nentries)
                nentries = now
                self.p.ok("sessions", "show", self.session)
                self.nlooks += 1
            if kept:
                kept.close()
        except BaseException as e:  # told by the thread of the test
            self.error = e


def go(p, session, is_remote, is_served):
    """is_remote: the tools work behind a daemon that is killed too. is_served: by a server's wire, which
    refuses a transcript in which a call has not its one result."""
    seed = int(os.environ.get("TC_SEED") or random.randrange(1 << 31))
    rng = random.Random(seed)
    daemon = p.daemon() if is_remote else None
    plan = Plan(rng, daemon.work if daemon else p.here)
    stub = ModelStub("openai", [Reply(text, calls) for text, calls in plan.turns], by_turn=True) if is_served else None
    words = stub.ways() if stub else plan.script(p.base / "script.json")
    killed = Killed(p, rng, session, [*words, *(daemon.link() if daemon else ()), "go"], daemon)
    try:
        killed.until_done()
        ncalls, ncut = check(p, plan, killed, session)
        assert not (stub and stub.complaints), stub.complaints
        assert killed.nkills >= NSTEPS // 50, killed.nkills
    except BaseException:
        print(f"TC_SEED={seed}: {killed.nkills} kills, {killed.ndaemons} of the daemon")
        raise
    finally:
        if stub:
            stub.close()
    print(f"TC_SEED={seed}: {ncalls} calls, {len(plan.turns)} answers; killed {killed.nkills} times, its daemon "
          f"{killed.ndaemons}; {ncut} calls cut off")


def test_sqlite_here_case_78(p):
    go(p, p.base / "s.sqlite", False, True)


def test_sqlite_behind_a_daemon_case_78(p):
    go(p, p.base / "s.sqlite", True, False)


def test_folder_here_case_78(p):
    go(p, p.base / "folder", False, False)


def test_folder_behind_a_daemon_case_78(p):
    go(p, p.base / "folder", True, True)


def test_readers_beside_runs_that_are_killed_case_78(p):
    session = p.base / "s.sqlite"
    with Readers(p, session) as readers:
        go(p, session, False, False)
    if readers.error:
        raise readers.error
    assert readers.nlooks > 2, readers.nlooks


if __name__ == "__main__":
    if not BAD_DISK.exists():
        print(f"skipped: there is no {BAD_DISK}")
        sys.exit(0)
    sys.exit(run_tests(globals()))
