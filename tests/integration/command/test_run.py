#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Agents and their sessions as people and scripts use them: `run`, `sessions` and the demo. TELECHIR is the
program, with telechird beside it; an argument picks tests by name."""

import json
import os
import pathlib
import pty
import random
import re
import select
import signal
import sqlite3
import subprocess
import sys
import threading
import time

from models import ModelStub, Reply
from sshd import NoServer
from test_command import LIMIT, TELECHIR, all_ways, is_alive, run_tests
from test_ssh import until


def script(p, *turns, name="script.json"):
    """The words that choose a model which follows these turns."""
    path = p.base / name
    path.write_text(json.dumps({"turns": list(turns)}))
    return ["--model", f"scripted/{path}"]


def call(tool, call_id=None, **arguments):
    return {"id": call_id or f"id-{tool}", "name": tool, "arguments": arguments}


def turn(text, *calls, **more):
    return {"text": text, "tool_calls": list(calls), **more}


def events(r):
    return [json.loads(line) for line in r.stdout.splitlines()]


def of_type(all_events, kind):
    return [e for e in all_events if e["type"] == kind]


def results(p, session):
    """(tool, is it an error, text) of every result in the session's record."""
    found = []
    for line in p.ok("sessions", "dump", session).stdout.splitlines():
        record = json.loads(line).get("entry", {})
        for m in record.get("model", []):
            if m["role"] == "toolResult":
                text = "".join(c.get("text", "") for c in m["content"])
                found.append((m["toolName"], m["isError"], text))
    return found


class Follower:
    """A run whose events are read as they come."""

    def __init__(self, p, *words):
        self.process = p.start("run", "--json", *words)
        self.events = []

    def wait(self, wanted):
        for line in self.process.stdout:
            self.events.append(json.loads(line))
            if wanted(self.events[-1]):
                return self.events[-1]
        raise AssertionError((self.events[-3:], self.process.stderr.read()))

    def wait_output(self, text):
        """Until a call has said this."""
        return self.wait(lambda e: e["type"] == "tool_execution_update" and text in json.dumps(e.get("output", "")))

    def kill(self):
        self.process.kill()
        self.process.communicate(timeout=LIMIT)  # the last line may be cut

    def end(self):
        out, err = self.process.communicate(timeout=LIMIT)
        self.events += [json.loads(line) for line in out.splitlines()]
        self.err = err.decode()
        return self.process.returncode


# ---- where the hands are ----

def test_run_over_every_target(p):
    for i, (ways, folder) in enumerate(all_ways(p)):
        session = p.base / f"s{i}.sqlite"
        model = script(p, turn("Writing.", call("write", path="note.txt", content="héllo\n")),
                       turn("Reading.", call("bash", command="cat note.txt; pwd")), turn("It says héllo."))
        r = p.ok("run", "--session", session, *model, *ways, "write a note")
        assert r.text == "Writing.\nReading.\nIt says héllo.\n", r.text
        assert (folder / "note.txt").read_text() == "héllo\n"
        where = ways[1] if ways else "local"
        assert f"write note.txt  [{where}, " in r.err and ": ok]" in r.err, r.err
        (_, written), (_, printed) = [(t[0], t[2]) for t in results(p, session)]
        assert printed == f"héllo\n{os.path.realpath(folder)}\n", printed
        (folder / "note.txt").unlink()
        # The session remembers the target and how it is reached.
        more = script(p, turn("Writing."), turn("Reading."), turn("It says héllo."),
                      turn("", call("write", "w2", path="again.txt", content="2")), turn("Done."))
        assert p.ok("run", "--session", session, *more, "once more").text == "Done.\n"
        assert (folder / "again.txt").read_text() == "2"
        assert f"[{where}, " in p.ok("sessions", "show", session).text


def test_unreachable_target_stops_and_nothing_runs_here_case_71(p):
    marker = p.base / "marker"
    model = script(p, turn("", call("bash", command=f"touch {marker}")), turn("Done."))
    d = p.daemon()
    session = p.base / "s.sqlite"
    p.ok("run", "--session", session, *model, *d.link(), "--tools", "ls", "hello")
    assert not marker.exists()
    d.kill()
    for words in ([], d.link()):
        r = p.fails(3, "run", "--session", session, *script(p, turn(""), turn(""), turn(
            "", call("bash", command=f"touch {marker}"))), *words, "--tools", "bash", "again")
        assert d.url in r.err, r.err
        assert not marker.exists()
    fresh = p.base / "fresh.sqlite"
    p.fails(3, "run", "--session", fresh, *model, *d.link(), "hello")
    assert not marker.exists()


def test_another_target_must_be_named(p):
    d = p.daemon()
    session = p.base / "s.sqlite"
    steps = [turn("", call("bash", "a", command="pwd; echo x >>moved")), turn("One."),
             turn("", call("bash", "b", command="pwd; echo x >>moved")), turn("Two."),
             turn("", call("bash", "c", command="pwd; echo x >>moved")), turn("Three.")]
    model = script(p, *steps)
    p.ok("run", "--session", session, *model, *d.link(), "one")
    p.ok("run", "--session", session, "two")
    assert (d.work / "moved").read_text() == "x\nx\n"
    p.ok("run", "--session", session, "--on", "local", "three")
    assert (p.here / "moved").read_text() == "x\n"
    shown = p.ok("sessions", "show", "--brief", session).text
    places = re.findall(r"^ +bash \[(\S+), \d+ ms: ok\]$", shown, re.M)
    assert places == [d.url, d.url, "local"], shown


# ---- what is said ----

def test_json_events(p):
    session = p.base / "s.sqlite"
    model = script(p, turn("One.", call("bash", command="echo one")), turn("Two."))
    r = p.ok("run", "--json", "--session", session, *model, "go")
    seen = events(r)
    assert seen[0]["type"] == "snapshot" and seen[-1]["type"] == "end", r.text
    assert seen[-1]["session"] == str(session) and seen[-1]["submission"]["status"] == "done"
    for kind in ("run_start", "turn_start", "message_end", "tool_execution_start", "tool_execution_end", "run_end"):
        assert of_type(seen, kind), kind
    assert of_type(seen, "tool_execution_start")[0]["args"] == {"command": "echo one"}
    seen = events(p.ok("run", "--json", "--session", session))
    assert seen[0]["type"] == "snapshot" and "submission" not in seen[-1], seen
    assert not of_type(seen, "run_start")
    r = p.run("run", "--json", "--session", session, *script(p, *[turn("")] * 2, turn("", error="no more")), "go")
    assert r.returncode == 1
    end = events(r)[-1]
    assert end["type"] == "end" and end["submission"]["status"] == "unanswered" and "no more" in end["error"]["message"]


def test_prompt_from_standard_input_and_default_session(p):
    p.env["XDG_DATA_HOME"] = str(p.base / "data")
    r = p.ok("run", *script(p, turn("Read.")), "-", stdin="über\nzwei Zeilen\n".encode())
    assert r.text == "Read.\n"
    (session,) = (p.base / "data/telechir/sessions").glob("*.sqlite")
    assert str(session) in r.err
    assert "über\nzwei Zeilen" in p.ok("sessions", "show", session).text
    assert str(session) in p.ok("sessions", "list").text
    (listed,) = p.json("sessions", "list")
    assert listed["path"] == str(session) and listed["size_bytes"] > 0
    p.fails(2, "run", *script(p, turn("x")))


def test_options_of_the_agent(p):
    (p.here / "sub").mkdir()
    (p.base / "system.txt").write_text("Speak softly.")
    stub = ModelStub("openai", [Reply(calls=[("c", "bash", '{"command":"pwd"}')]), Reply("Done.")])
    session = p.base / "s.sqlite"
    p.ok("run", "--session", session, *stub.ways(), "--cwd", "sub", "--tools", "bash,read", "--system",
         p.base / "system.txt", "where?")
    ((_, _, text),) = results(p, session)
    assert text == os.path.realpath(p.here / "sub") + "\n"
    request = stub.requests[0]
    assert sorted(t["function"]["name"] for t in request["tools"]) == ["bash", "read"]
    assert "Speak softly." in json.dumps(request["messages"])
    stub.close()


def test_max_turns_ends_the_run(p):
    model = script(p, *[turn("", call("bash", f"c{i}", command=f"echo {i} >>turns")) for i in range(9)])
    r = p.fails(1, "run", "--session", p.base / "s.sqlite", *model, "--max-turns", "3", "go")
    assert "3 turns" in r.err
    assert len((p.here / "turns").read_text().splitlines()) <= 3
    assert p.ok("run", "--session", p.base / "s.sqlite").text == ""  # it was ended in the session


def test_no_model_and_no_prompt(p):
    r = p.fails(2, "run", "hello")
    assert "--model" in r.err, r.err
    r = p.fails(2, "run")
    assert "--session" in r.err
    r = p.fails(1, "run", "--session", p.base / "none.sqlite")
    assert "prompt" in r.err
    p.fails(2, "run", "--model", "nonsense", "hello")
    p.fails(2, "run", "--ask", "--yes", *script(p, turn("x")), "hello")


def test_a_model_that_fails_is_status_1(p):
    r = p.fails(1, "run", "--session", p.base / "s.sqlite",
                *script(p, turn("", error="the key is not valid")), "hello")
    assert "the key is not valid" in r.err
    assert "sessions show" in r.err


# ---- killed ----

def test_interrupted_call_is_told_and_not_repeated_case_81(p):
    stub = ModelStub("openai", [Reply("Run.", [("c1", "bash", '{"command":"echo begun >>count; echo begun; sleep 600"}')]),
                                Reply("So it was cut off.")])
    for i, session in enumerate((p.base / "s.sqlite", p.base / "folder")):
        stub.requests.clear()
        f = Follower(p, "--session", session, *stub.ways(), "go")
        f.wait_output("begun")
        f.kill()
        r = p.ok("run", "--session", session)
        assert r.text == "So it was cut off.\n"
        assert "was under way when the session was left" in r.err
        assert re.search(r"bash echo begun.* \[local: interrupted, may have partly run\]", r.err), r.err
        ((_, is_error, text),) = results(p, session)
        assert is_error and "begun" in text and "was interrupted and may have partially run" in text
        assert (p.here / "count").read_text() == "begun\n" * (i + 1)
        assert not stub.complaints and len(stub.requests) == 2
    stub.close()


def test_remote_command_is_asked_about_after_a_kill(p):
    d = p.daemon()
    session = p.base / "s.sqlite"
    f = Follower(p, "--session", session, *d.link(),
                 *script(p, turn("", call("bash", command="echo begun; sleep 600")), turn("Done.")), "go")
    f.wait_output("begun")
    f.kill()
    r = p.ok("run", "--session", session)
    assert f"[{d.url}: interrupted, may have partly run]" in r.err, r.err
    assert "was started on the device" in r.err, r.err


def test_killed_thirty_times_every_call_runs_at_most_once_case_78(p):
    """Each call appends its own number: a number that stands twice was run twice."""
    rng = random.Random(78)
    for session, nkills in ((p.base / "s.sqlite", 30), (p.base / "folder", 15)):
        ncalls, count = 3 * nkills, p.here / f"count-{session.name}"  # more than are made before the last kill
        steps = [turn(f"Step {i}.", call("bash", f"c{i}", command=f"echo {i} >>{count}")) for i in range(ncalls)]
        words = ["--session", session, *script(p, *steps, turn("All done.")), "count"]
        killed = 0
        for _ in range(nkills):
            f = Follower(p, *words)
            words = ["--session", session]
            left = rng.randrange(1, 9)
            for _ in f.process.stdout:
                left -= 1
                if left == 0:
                    break
            killed += f.process.poll() is None
            f.kill()
        assert killed > nkills * 2 // 3, killed
        p.ok("run", *words)
        assert "All done." in p.ok("sessions", "show", session).text
        numbers = count.read_text().split()
        assert len(numbers) == len(set(numbers)), numbers
        found = results(p, session)
        assert len(found) == ncalls, len(found)
        for i, (_, is_error, text) in enumerate(found):
            assert is_error or str(i) in numbers, i
            assert not is_error or "may have partially run" in text, text
        p.ok("sessions", "check", session)


def test_what_was_given_up_is_tried_again_when_asked(p):
    """Five times cut off while the model thinks: the question is not asked again by itself, but by the next run."""
    session = p.base / "s.sqlite"
    words = ["--session", session, *script(p, turn("At last.", delay_ms=600000)), "go"]
    for _ in range(30):
        f = Follower(p, *words)
        words = ["--session", session]
        f.wait(lambda e: e["type"] == "snapshot")
        until(lambda: '"status":"running"' in p.ok("sessions", "dump", session).text)
        f.kill()
        dump = p.ok("sessions", "dump", session).text
        if '"restarts":4' in dump:
            break
    script(p, turn("At last."))
    r = p.ok("run", *words)
    assert r.text == "At last.\n"
    assert "trying once more" in r.err, r.err


def test_ctrl_c_ends_the_run_in_the_session(p):
    session = p.base / "s.sqlite"
    f = Follower(p, "--session", session,
                 *script(p, turn("", call("bash", command="echo $$; exec sleep 600")), turn("Never.")), "go")
    pid = int(json.dumps(f.wait(lambda e: e["type"] == "tool_execution_update")["output"]).split('"')[-2].split("\\n")[0])
    f.process.send_signal(signal.SIGINT)
    assert f.end() == 130, f.err
    until(lambda: not is_alive(pid))
    assert "what its tools did so far stays done" in f.err
    r = p.ok("run", "--session", session)
    assert r.text == ""
    assert "aborted" in p.ok("sessions", "dump", session).text


def test_second_owner_is_refused_by_name_case_75(p):
    for session in (p.base / "s.sqlite", p.base / "folder"):
        f = Follower(p, "--session", session,
                     *script(p, turn("", call("bash", command="echo begun; sleep 600")), turn("Done.")), "go")
        f.wait_output("begun")
        r = p.fails(1, "run", "--session", session)
        assert str(f.process.pid) in r.err, (f.process.pid, r.err)
        assert "begun" in p.ok("sessions", "dump", session).text  # reading needs no lock
        p.ok("sessions", "show", session)
        f.kill()
        assert p.ok("run", "--session", session).text == "Done.\n"


# ---- servers ----

def test_streams_in_odd_pieces(p):
    for wire in ("openai", "anthropic"):
        for chunk in (0, 1, 7):
            arguments = json.dumps({"path": "ü.txt", "content": "naïve \U0001f600\n"}, ensure_ascii=False)
            stub = ModelStub(wire, [Reply("Schön \U0001f600.", [("c1", "write", arguments)], chunk=chunk),
                                    Reply("Done.", chunk=chunk)])
            session = p.base / f"{wire}{chunk}.sqlite"
            assert p.ok("run", "--session", session, *stub.ways(), "go").text == "Schön \U0001f600.\nDone.\n"
            assert (p.here / "ü.txt").read_text() == "naïve \U0001f600\n"
            assert not stub.complaints
            (p.here / "ü.txt").unlink()
            stub.close()


def test_key_of_the_server_stays_out_of_everything_case_62(p):
    key = "key-" + os.urandom(8).hex()
    (p.base / "key").write_text(key + "\n")
    stub = ModelStub("anthropic", [Reply("Done.")])
    session = p.base / "s.sqlite"
    r = p.ok("run", "--verbose", "--session", session, *stub.ways(), "--key-file", p.base / "key", "go")
    assert stub.heads[0].get("x-api-key") == key or key in json.dumps(stub.heads[0])
    assert key.encode() not in r.stdout + r.stderr + session.read_bytes()
    p.ok("run", "--session", session, "again")
    assert key in json.dumps(stub.heads[1])  # the file's path is remembered
    stub.close()


def test_keys_of_models_stay_out_of_tools_here_case_62(p):
    p.env["OPENAI_API_KEY"] = p.env["ANTHROPIC_API_KEY"] = "key-of-a-model"
    session = p.base / "s.sqlite"
    p.ok("run", "--session", session, *script(p, turn("", call("bash", command="env")), turn("Seen.")), "go")
    ((_, is_error, text),) = results(p, session)
    assert not is_error and "PATH=" in text and "key-of-a-model" not in text


def test_missing_working_folder_is_told_at_once(p):
    r = p.run("run", "--session", p.base / "s.sqlite", "--cwd", "/nonexistent", *script(p, turn("Never.")), "go")
    assert r.returncode == 1 and "/nonexistent" in r.err, r.err


def test_servers_that_refuse_case_86(p):
    for wire in ("openai", "anthropic"):
        stub = ModelStub(wire, [Reply(status=429, headers={"Retry-After": "1"}), Reply("Fine.")])
        started = time.monotonic()
        assert p.ok("run", "--session", p.base / f"{wire}1.sqlite", *stub.ways(), "go").text == "Fine.\n"
        assert len(stub.requests) == 2 and time.monotonic() - started >= 0.9
        stub.close()
        stub = ModelStub(wire, [Reply(status=400, body={"error": {"message": "no such model here"}})])
        r = p.fails(1, "run", "--session", p.base / f"{wire}2.sqlite", *stub.ways(), "go")
        assert "no such model here" in r.err, r.err
        assert len(stub.requests) <= 2, len(stub.requests)
        stub.close()


def test_cut_arguments_are_never_run_case_83(p):
    arguments = '{"path": "cut.txt", "content": "the first half of a text and the second half of it"}'
    for wire, length in (("openai", "length"), ("anthropic", "max_tokens")):
        for i, bad in enumerate((Reply("", [("c1", "write", arguments)], cut=True),
                                 Reply("", [("c1", "write", arguments[:40])], stop=length),
                                 Reply("", [("c1", "write", arguments[:40])]))):
            stub = ModelStub(wire, [bad, Reply("I was cut off.")])
            session = p.base / f"{wire}{i}.sqlite"
            r = p.run("run", "--session", session, *stub.ways(), "go")
            assert not (p.here / "cut.txt").exists(), (wire, i)
            assert not stub.complaints, stub.complaints
            assert r.returncode == 0 or "cut" in r.err or "length" in r.err, r.shown
            stub.close()


def test_one_id_for_all_calls_case_87(p):
    for wire in ("openai", "anthropic"):
        count = p.here / f"count-{wire}"
        same = [Reply("", [("same", "bash", json.dumps({"command": f"echo {i} >>{count}; echo got {i}"}))])
                for i in range(10)]
        twice = Reply("", [("same", "bash", json.dumps({"command": f"echo {n} >>{count}; echo got {n}"}))
                           for n in ("x", "y")])
        stub = ModelStub(wire, [*same, twice, Reply("Done.")])
        session = p.base / f"{wire}.sqlite"
        r = p.ok("run", "--session", session, *stub.ways(), "go")
        assert not stub.complaints, stub.complaints
        found = [text for _, _, text in results(p, session)]
        assert found[:10] == [f"got {i}\n" for i in range(10)], found
        assert sorted(found[10:]) == ["got x\n", "got y\n"], found
        assert sorted(count.read_text().split()) == sorted([*map(str, range(10)), "x", "y"])
        stub.close()


# ---- asking ----

def test_questions_survive_and_are_answered_once_case_79(p):
    session = p.base / "s.sqlite"
    model = script(p, turn("", call("ls", "l"), call("bash", command="echo x >>count")), turn("Done."))
    r = p.run("run", "--json", "--session", session, *model, "--ask", "go")
    assert r.returncode == 4, r.shown
    (question,) = of_type(events(r), "approval")
    assert question["args"] == {"command": "echo x >>count"} and question["toolName"] == "bash"
    assert not (p.here / "count").exists()
    r = p.run("run", "--json", "--session", session)
    assert r.returncode == 4 and of_type(events(r), "approval") == [question], r.shown
    assert "--yes" in p.fails(4, "run", "--session", session).err
    r = p.ok("run", "--session", session, "--yes")
    assert r.text == "Done.\n" and (p.here / "count").read_text() == "x\n"
    assert p.ok("run", "--session", session, "--yes").text == ""
    assert (p.here / "count").read_text() == "x\n"


class Terminal:
    """The command on a terminal of its own."""

    def __init__(self, p, *words):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(p.here)
            os.execve(TELECHIR, [TELECHIR, *map(str, words)], p.env)
        self.text = ""
        self.at = 0

    def expect(self, text):
        """Wait for this behind what was expected last."""
        end = time.monotonic() + LIMIT
        while (found := self.text.find(text, self.at)) < 0:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                raise AssertionError(f"no {text!r} in {self.text[self.at:]!r}")
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                data = b""
            assert data, f"it ended before {text!r}: {self.text[self.at:]!r}"
            self.text += data.decode(errors="replace")
        self.at = found + len(text)

    def send(self, text):
        os.write(self.fd, text.encode())

    def end(self):
        try:
            while select.select([self.fd], [], [], LIMIT)[0] and (data := os.read(self.fd, 65536)):
                self.text += data.decode(errors="replace")
        except OSError:
            pass
        else:
            os.kill(self.pid, signal.SIGKILL)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_asking_on_a_terminal(p):
    session = p.base / "s.sqlite"
    model = script(p, turn("", call("bash", "a", command="echo a >>count")),
                   turn("", call("bash", "b", command="echo b >>count")), turn("Done."))
    t = Terminal(p, "run", "--session", session, *model, "--ask", "go")
    t.expect('{"command":"echo a >>count"}')
    t.expect("(y)es or (n)o?")
    t.send("y\n")
    t.expect('{"command":"echo b >>count"}')
    t.expect("(y)es or (n)o?")
    t.send("maybe\n")
    t.expect("(y)es or (n)o?")
    t.send("no\n")
    t.expect("Done.")
    assert t.end() == 0, t.text
    assert (p.here / "count").read_text() == "a\n"
    assert "refused" in results(p, session)[1][2]


def test_ctrl_c_while_asking(p):
    session = p.base / "s.sqlite"
    t = Terminal(p, "run", "--session", session, *script(p, turn("", call("bash", command="touch no"))),
                 "--ask", "go")
    t.expect("(y)es or (n)o?")
    t.send("\x03")
    assert t.end() == 130, t.text
    assert not (p.here / "no").exists()


# ---- sessions ----

def two_conversations(p, session):
    model = script(p, turn("First."), turn("Second."), turn("Third."))
    p.ok("run", "--session", session, *model, "one")
    p.ok("run", "--session", session, *model, "two")


def test_sessions_show_export_fork_dump(p):
    for session in (p.base / "s.sqlite", p.base / "folder"):
        two_conversations(p, session)
        shown = p.ok("sessions", "show", session).text
        assert shown.index("one") < shown.index("First.") < shown.index("two") < shown.index("Second.")
        assert "## assistant" in p.ok("sessions", "export", session).text
        entries = p.json("sessions", "show", session)
        users = [e["id"] for e in entries if e["kind"] == "pi.user"]
        assert len(users) == 2
        (forked,) = p.json("sessions", "fork", session, "--at", users[1] - 1)
        assert forked["parent"] == 1 and forked["at"] == users[1] - 1, forked
        shown = p.ok("sessions", "show", session, "--conversation", forked["conversation"]).text
        assert "First." in shown and "two" not in shown
        p.fails(1, "sessions", "fork", session, "--at", 999999)
        p.ok("sessions", "check", session)


def test_dump_is_canonical(p):
    dumps = []
    for session in (p.base / "s.sqlite", p.base / "folder"):
        two_conversations(p, session)
        lines = p.ok("sessions", "dump", session).text.splitlines()
        records = [json.loads(line) for line in lines]
        for line, record in zip(lines, records):
            assert line == json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False), line
        kinds = [next(iter(r)) for r in records]
        order = ["conversation", "entry", "task", "submission", "document"]
        assert kinds == sorted(kinds, key=order.index)
        for kind in order:
            ids = [r[kind]["id"] for r in records if kind in r]
            assert ids and ids == sorted(ids), kind
        for r in records:
            if "document" in r and "retiredAt" not in r["document"]:
                assert {"version", "value"} <= set(r["document"]), r
        dumps.append([(k, r[k].get("kind")) for k, r in zip(kinds, records)])
    assert dumps[0] == dumps[1]


def test_damage_is_found_and_sound_records_are_kept(p):
    folder, file = p.base / "folder", p.base / "s.sqlite"
    two_conversations(p, folder)
    two_conversations(p, file)
    main = folder / "main.jsonl"
    lines = main.read_bytes().splitlines(keepends=True)
    at = len(lines) // 2
    lines[at] = b"{" + b"x" * (len(lines[at]) - 2) + b"\n"
    main.write_bytes(b"".join(lines))
    db = sqlite3.connect(file)
    db.execute("pragma ignore_check_constraints = on")
    table = next(t for (t,) in db.execute("select name from sqlite_master where type = 'table'") if "entr" in t)
    columns = [c[1] for c in db.execute(f"pragma table_info({table})")]
    column = next(c for c in columns if c in ("record", "json", "data", "value"))
    db.execute(f"update {table} set {column} = '{{broken' where rowid = (select max(rowid) from {table})")
    db.commit()
    db.close()
    for session, where in ((folder, "main.jsonl"), (file, table)):
        r = p.fails(1, "sessions", "check", session)
        assert where in r.text, r.text
        assert "sessions repair" in r.err
        damages = p.json("sessions", "check", session)
        assert damages[-2]["damaged"] > 0 and damages[0]["where"] and damages[-1]["error"], damages
        p.ok("sessions", "repair", session)
        assert p.json("sessions", "check", session)[-1]["damaged"] == 0
        assert "one" in p.ok("sessions", "show", session).text


def test_words_of_sessions(p):
    p.fails(2, "sessions")
    p.fails(2, "sessions", "fly", "x")
    p.fails(2, "sessions", "show")
    for word in ("show", "export", "dump", "check", "repair", "fork"):
        r = p.run("sessions", word, p.base / "none.sqlite")
        assert r.returncode == 1, (word, r.shown)
        assert not (p.base / "none.sqlite").exists(), word


# ---- the demo ----

def test_demo_shows_an_agent_that_survives(p):
    r = p.ok("demo")
    assert "killed (SIGKILL) while 'sh squares.sh 60' ran" in r.text
    assert re.search(r"bash \[http://127.0.0.1:\d+: interrupted, may have partly run\]", r.text), r.text
    assert len(re.findall(r"\[http://127.0.0.1:\d+, \d+ ms: ok\]", r.text)) == 3, r.text
    assert "program starts: 2" in r.text
    assert not list(p.tmp.iterdir())
    (answer,) = p.json("demo")
    assert answer["program_starts"] == 2 and answer["answered"] is True
    assert answer["first_process"] != answer["second_process"]
    assert not is_alive(answer["first_process"]) and not is_alive(answer["second_process"])
    assert not list(p.tmp.iterdir())


def test_demo_interrupted_leaves_nothing(p):
    for after in ("memory:", "works on", "killed"):
        run = p.start("demo")
        seen = []
        for line in run.stdout:
            seen.append(line)
            if after.encode() in line:
                break
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=LIMIT)
        assert run.returncode in (0, 130), (after, run.returncode, seen)
        assert not list(p.tmp.iterdir()), after


if __name__ == "__main__":
    sys.exit(run_tests(globals()))
