#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The files of a session as people meet them: other names of one, damage and what can be done about it, and
what a session leaves on its target. TELECHIR is the program; an argument picks tests by name."""

import json
import os
import pathlib
import re
import sys

from test_command import run_tests
from test_run import Follower, call, script, turn


def slow(p):
    return script(p, turn("Working.", call("bash", command="echo begun; sleep 600")), turn("Done."))


def say(p, session, n=2):
    p.ok("run", "--session", session, *script(p, *[turn(f"Answer {i}.") for i in range(n + 1)]), "q0")
    for i in range(1, n + 1):
        p.ok("run", "--session", session, f"q{i}")


# ---- other names of one file ----

def test_a_hard_link_is_the_same_session_case_75(p):
    for i, (session, other) in enumerate(((p.base / "s.sqlite", p.base / "elsewhere" / "other.sqlite"),
                                          (p.base / "folder", p.base / "other-folder"))):
        (p.base / "elsewhere").mkdir(exist_ok=True)
        f = Follower(p, "--session", session, *slow(p), "go")
        f.wait_output("begun")
        if i == 0:
            os.link(session, other)
        else:
            other.mkdir()
            for file in session.glob("*.jsonl"):
                os.link(file, other / file.name)
        for words in (["run", "--session", other], ["run", "--session", other, "more"], ["sessions", "repair", other],
                      ["sessions", "fork", other]):
            r = p.fails(1, *words)
            assert f"process {f.process.pid} (telechir) on host" in r.err, r.err
            assert str(other) in r.err, r.err
        assert f"process {f.process.pid}" in p.fails(1, "run", "--session", session).err
        f.kill()
        r = p.ok("run", "--session", session, *script(p, turn(""), turn("Went on.")))
        assert r.text == "Went on.\n", r.shown
        if i == 0:  # a folder is more than one file
            assert "Went on." in p.ok("sessions", "show", other).text
            p.ok("run", "--session", other, *script(p, turn(""), turn(""), turn("By the other name.")), "again")
        assert not list(p.base.glob("**/*owner.lock"))


# ---- damage ----

def advice(p, session):
    r = p.fails(1, "sessions", "check", session)
    report = p.json("sessions", "check", session)[-2]
    assert report["damaged"] > 0, report
    return r.err, report


def test_advice_fits_the_damage(p):
    session = p.base / "head.sqlite"
    say(p, session)
    whole = session.read_bytes()
    # The first page tells what is where: without it nothing can be read.
    session.write_bytes(b"\xff" * 100 + whole[100:])
    err, report = advice(p, session)
    assert "cannot help" in err and "copy" in err and "sessions repair" not in err, err
    assert report["readable"] is False, report
    assert "copy" in p.fails(1, "sessions", "repair", session).err
    assert session.read_bytes() == b"\xff" * 100 + whole[100:]
    # A page in the middle: most of it is still there.
    at = whole.index(b"Answer 1.") // 512 * 512
    session.write_bytes(whole[:at] + b"\xff" * 512 + whole[at + 512:])
    err, report = advice(p, session)
    assert f"sessions repair {session}" in err and "sound record" in err and report["lost"] > 0, (err, report)
    assert report["readable"] is True
    p.ok("sessions", "repair", session)
    assert "0 damaged" in p.ok("sessions", "check", session).text
    # Nothing was a session at all.
    session.write_text("no session, but a text that is long enough to be looked at " * 20)
    assert "cannot help" in advice(p, session)[0]


def test_advice_for_json_lines(p):
    folder = p.base / "folder"
    say(p, folder)
    main = folder / "main.jsonl"
    whole = main.read_bytes()
    # What a crash leaves is no damage.
    main.write_bytes(whole + b'["torn')
    r = p.ok("sessions", "check", folder)
    assert "which opening removes" in r.text and "no damage" in r.err, r.shown
    assert p.json("sessions", "check", folder)[-1]["unfinished"] == 1
    lines = whole.splitlines(keepends=True)
    at = len(lines) // 2
    main.write_bytes(b"".join(lines[:at] + [b"{broken\n"] + lines[at + 1:]))
    err, report = advice(p, folder)
    assert f"sessions repair {folder}" in err and report["lost"] > 0, (err, report)
    p.ok("sessions", "repair", folder)
    main.write_bytes(b"nothing\n" * 100)
    for sidecar in folder.glob("*.jsonl"):
        sidecar.write_bytes(b"nothing\n")
    err, report = advice(p, folder)
    assert report["records"] == 0 and "empty session" in err and "copy" in err, (err, report)


def test_a_folder_without_its_main_file_is_not_emptied(p):
    folder = p.base / "folder"
    say(p, folder)
    kept = (folder / "main.jsonl").read_bytes()
    (folder / "main.jsonl").unlink()
    before = {f.name: f.read_bytes() for f in folder.iterdir()}
    err, report = advice(p, folder)
    assert "cannot help" in err and report["readable"] is False, (err, report)
    model = script(p, turn("Never."))
    for words in (["run", "--session", folder, *model, "more"], ["sessions", "repair", folder], ["sessions", "show", folder]):
        assert "main.jsonl" in p.fails(1, *words).err
    assert {f.name: f.read_bytes() for f in folder.iterdir()} == before
    (folder / "main.jsonl").write_bytes(kept)
    assert "Answer 2." in p.ok("sessions", "show", folder).text
    # A folder of something else is no sound session.
    other = p.base / "other"
    other.mkdir()
    for word in ("check", "repair", "show", "fork"):
        assert "no session" in p.fails(1, "sessions", word, other).err
    # The first commit that was cut off leaves sidecars only, and is no damage.
    (other / "doc-2.jsonl").write_bytes(
        b'{"format":1,"type":"record","seq":1,"ordinal":0,"payload":{"type":"document","id":2,"content":'
        b'{"version":1,"kind":"base","value":{}}}}\n')
    p.ok("sessions", "check", other)
    assert p.ok("run", "--session", other, *script(p, turn("Begun.")), "go").text == "Begun.\n"


# ---- what stays on the target ----

def test_where_long_output_stays_is_told(p):
    d = p.daemon()
    for i, ways in enumerate(([], d.link())):
        session = p.base / f"s{i}.sqlite"
        r = p.ok("run", "--session", session, *script(
            p, turn("", call("bash", command="seq 1 20000")), turn("Done.")), *ways, "go")
        m = re.search(r"Full output: (\S+/pi-output-\S+\.log) \(on (\S+), where it stays until it is removed\)", r.err)
        assert m and m[2] == (ways[1] if ways else "local"), r.err
        kept = pathlib.Path(m[1])
        assert kept.read_text() == "".join(f"{n}\n" for n in range(1, 20001))
        assert kept.stat().st_mode & 0o77 == 0
        # The session goes on to refer to it.
        assert m[1] in json.dumps(p.json("sessions", "show", session))


if __name__ == "__main__":
    sys.exit(run_tests({k: v for k, v in globals().items() if getattr(v, "__module__", "") == "__main__"}))
