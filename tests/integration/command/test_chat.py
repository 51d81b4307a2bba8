#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`telechir chat` on a terminal and without one: keys, words, Ctrl-C, history. TELECHIR is the program; an
argument picks tests by name."""

import json
import os
import re
import stat
import sys

from test_command import run_tests
from test_run import Terminal, call, results, script, turn
from test_ssh import until


def echo_script(p, n=8):
    return script(p, *[turn(f"Answer {i}.") for i in range(n)])


def prompts(p, session):
    return [m["content"] for line in p.ok("sessions", "dump", session).text.splitlines()
            for m in json.loads(line).get("entry", {}).get("model", []) if m["role"] == "user"]


def chat(p, *words):
    p.env["XDG_STATE_HOME"] = str(p.base / "state")
    p.env["TERM"] = "xterm"
    return Terminal(p, "chat", "--session", p.base / "s.sqlite", *words)


def test_keys_on_a_terminal(p):
    t = chat(p, *echo_script(p))
    t.expect("/help")
    t.expect("> ")
    for keys, answer in (
            ("hello\r", "Answer 0."),
            ("wrld\x1b[D\x1b[D\x1b[Do\x1b[H<\x1b[F>\r", "Answer 1."),          # left, home, end
            ("xab\x7f\x1b[D\x1b[D\x1b[3~\x1b[Fc\r", "Answer 2."),             # backspace, delete
            ("一é\U0001f600x\x1b[D\x1b[D\x7f二\r", "Answer 3."),               # wide characters
            ("one two\x17three\x01\x0bfour five\x1b[D\x1b[D\x15\x05!\r", "Answer 4."),  # Ctrl-W A K U E
            ("\x1b[A\x1b[A\x1b[B\r", "Answer 5."),                            # up, up, down: the last
            ("\x1b[200~two\r\nlines\x1b[201~\r", "Answer 6.")):
        t.send(keys)
        t.expect(answer)
        t.expect("> ")
    t.send("dropped\x03\x04")
    assert t.end() == 0, t.text
    assert prompts(p, p.base / "s.sqlite") == [
        "hello", "<world>", "ac", "一二\U0001f600x", "ve!", "ve!", "two\nlines"]
    history = p.base / "state/telechir/chat_history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert history.read_text().splitlines()[-1] == "two\\nlines"
    t = chat(p)
    t.expect("> ")
    t.send("\x1b[A\r")
    t.expect("Answer 7.")
    t.expect("> ")
    t.send("\x04")
    assert t.end() == 0
    assert prompts(p, p.base / "s.sqlite")[-1] == "two\nlines"


def test_a_long_line_and_bytes_that_are_no_text(p):
    t = chat(p, *echo_script(p))
    t.expect("> ")
    os.write(t.fd, b"\xff\xc3(" + b"long " * 100 + b"end\r")
    t.expect("Answer 0.")
    t.send("/quit\r")
    assert t.end() == 0
    (sent,) = prompts(p, p.base / "s.sqlite")
    assert sent.endswith("long " * 99 + "end"), sent


def test_ctrl_c_ends_the_run_and_comes_back(p):
    t = chat(p, *script(p, turn("Working.", call("bash", command="echo begun >>count; sleep 600")),
                        turn("Back."), turn("Again.", call("bash", "c2", command="echo begun >>count; sleep 600"))))
    t.expect("> ")
    for n in (1, 2):
        t.send("go\r")
        t.expect("Working." if n == 1 else "Again.")
        count = p.here / "count"
        until(lambda n=n: count.exists() and len(count.read_text().split()) == n)
        t.send("\x03")
        t.expect("what its tools did so far stays done")
        t.expect("> ")
        if n == 1:
            t.send("still there?\r")
            t.expect("Back.")
            t.expect("> ")
    t.send("/quit\r")
    assert t.end() == 0, t.text
    assert p.ok("run", "--session", p.base / "s.sqlite").text == ""


def test_words(p):
    other = script(p, *[turn(f"Other {i}.") for i in range(5)], name="other.json")[1]
    t = chat(p, *echo_script(p))
    t.expect("> ")
    t.send("/nonsense\r")
    t.expect("there is no /nonsense")
    t.send("/help\r")
    t.expect("/fork [ENTRY]")
    t.send("one\r")
    t.expect("Answer 0.")
    t.send("/fork\r")
    t.expect("now in conversation ")
    t.send("two\r")
    t.expect("Answer 1.")
    t.send(f"/model {other}\r")
    t.expect("> ")
    t.send("//three\r")
    t.expect("Other 2.")
    t.send("/abort\r")
    t.expect("nothing is under way")
    t.send("/on nowhere\r")
    t.expect("is no target")
    t.send("/on\r")
    t.expect("on local")
    t.send("/quit\r")
    assert t.end() == 0, t.text
    session = p.base / "s.sqlite"
    fork = re.search(r"now in conversation (\d+)", t.text)[1]
    shown = p.ok("sessions", "show", session).text
    assert "one" in shown and "two" not in shown
    shown = p.ok("sessions", "show", session, "--conversation", fork).text
    assert "Answer 0." in shown and "/three" in shown and "Other 2." in shown
    r = p.ok("run", "--session", session, "--conversation", fork, "four")
    assert r.text == "Other 3.\n"
    p.fails(1, "run", "--session", session, "--conversation", 9999, "x")


def test_another_target(p):
    d = p.daemon()
    p.ok("target", "add", "box", *d.link()[1:])
    t = chat(p, *script(p, turn("", call("bash", "a", command="echo x >moved")), turn("One."),
                        turn("", call("bash", "b", command="echo y >moved")), turn("Two."),
                        turn("", call("bash", "c", command="echo z >moved")), turn("Three.")))
    t.expect("> ")
    t.send("go\r")
    t.expect("One.")
    t.send("/on box\r")
    t.expect("on box, in ")
    t.send("go\r")
    t.expect("Two.")
    t.expect("> ")
    t.send("\x04")
    assert t.end() == 0, t.text
    assert (p.here / "moved").read_text() == "x\n" and (d.work / "moved").read_text() == "y\n"
    p.ok("run", "--session", p.base / "s.sqlite", "go")  # it remembers
    assert (d.work / "moved").read_text() == "z\n"


def test_asking_in_a_chat(p):
    t = chat(p, "--ask", *script(p, turn("", call("bash", command="echo x >>count")), turn("Done.")))
    t.expect("> ")
    t.send("go\r")
    t.expect("(y)es or (n)o?")
    t.send("y\n")
    t.expect("Done.")
    t.expect("> ")
    t.send("\x04")
    assert t.end() == 0, t.text
    assert [e for _, e, _ in results(p, p.base / "s.sqlite")] == [False]


def test_without_a_terminal(p):
    p.env["XDG_STATE_HOME"] = str(p.base / "state")
    session = p.base / "s.sqlite"
    r = p.ok("chat", "--session", session, *echo_script(p), stdin=b"one\n\n/help\ntwo")
    assert r.text == "Answer 0.\nAnswer 1.\n", r.text
    assert prompts(p, session) == ["one", "two"]
    assert not (p.base / "state").exists()
    r = p.run("chat", "--session", p.base / "bad.sqlite", *script(p, turn("", error="no key")), stdin=b"x\n")
    assert r.returncode == 1 and "no key" in r.err
    p.fails(2, "chat", "prompt")
    p.fails(2, "chat", "--json")


if __name__ == "__main__":
    sys.exit(run_tests({k: v for k, v in globals().items() if getattr(v, "__module__", "") == "__main__"}))
