#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command as people and scripts use it: words, exit statuses, JSON, and what happens when it is
interrupted or its target goes away. TELECHIR is the program, with telechird beside it; an argument
picks tests by name."""

import array
import base64
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import termios
import threading
import time
import traceback

from peers import CuttingProxy, HttpDaemon
from sshd import NoServer, Sshd

TELECHIR = os.environ["TELECHIR"]
ROOT = pathlib.Path(__file__).resolve().parents[3]
LIMIT = 180  # ends what hopeless waits there are
COMMANDS = ("demo", "target", "trust", "forget", "exec", "sh", "cp", "ls", "tree", "cat", "find", "grep",
            "rm", "mkdir", "edit", "write", "http-envd", "websocket-envd", "run", "chat", "sessions", "host", "devices", "doctor", "completion",
            "version")
DEMO_LINES = ("re-entry read: hello from remote envd", "independent Sessions: True",
              "provider close preserved remote daemon and workspace")


class Place:
    """A folder to work in, and a home of its own."""

    def __init__(self, base):
        self.base = pathlib.Path(base)
        self.here = self.base / "here"
        self.here.mkdir()
        self.tmp = self.base / "tmp"
        self.tmp.mkdir()
        self.daemons = []
        self.env = {k: v for k, v in os.environ.items()
                    if not k.startswith(("A13N_", "TELECHIR", "XDG_"))}
        self.env["XDG_CONFIG_HOME"] = str(self.base / "config")
        self.env["TMPDIR"] = str(self.tmp)

    def run(self, *words, stdin=b"", env=None, cwd=None):
        r = subprocess.run([TELECHIR, *map(str, words)], input=stdin, capture_output=True,
                           env={**self.env, **(env or {})}, cwd=cwd or self.here, timeout=LIMIT)
        r.err = r.stderr.decode(errors="replace")
        r.shown = (words, r.returncode, r.stdout[:500], r.err[:3000])
        r.text = r.stdout.decode(errors="replace")
        return r

    def ok(self, *words, **more):
        r = self.run(*words, **more)
        assert r.returncode == 0, r.shown
        return r

    def fails(self, status, *words, **more):
        r = self.run(*words, **more)
        assert r.returncode == status, r.shown
        assert r.err.startswith("telechir: "), r.err
        return r

    def json(self, *words, **more):
        r = self.run(words[0], "--json", *words[1:], **more)
        return [json.loads(line) for line in r.stdout.splitlines()]

    def start(self, *words, **more):
        more.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.Popen([TELECHIR, *map(str, words)], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, env=self.env, cwd=self.here, **more)

    def daemon(self, **more):
        d = HttpDaemon(self.base / f"daemon{len(self.daemons)}", **more)
        self.daemons.append(d)
        return d

    def sshd(self, trusted=True):
        s = Sshd(self.base / f"sshd{len(self.daemons)}")
        self.daemons.append(s)
        if trusted:
            s.known_hosts.parent.mkdir()
            s.known_hosts.write_text("test-box " + (s.base / "host.pub").read_text())
        return s

    def close(self):
        for d in self.daemons:
            d.close()


def is_alive(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def all_ways(p):
    """(options to reach it, its folder) for local, for http and for ssh."""
    d = p.daemon()
    ways = [([], p.here), (d.link(), d.work)]
    try:
        s = p.sshd()
        ways.append((s.link(), s.home))
    except NoServer as e:
        print(f"without ssh: {e}")
    return ways


# ---- words ----

def test_version_and_overview(p):
    assert p.ok("version").text.startswith("telechir ")
    assert p.ok("--version").stdout == p.ok("version").stdout
    assert set(p.json("version")[0]) == {"version"}
    overview = p.ok("--help").text
    for name in COMMANDS:
        assert f"  {name} " in overview, name


def test_help_of_every_command(p):
    for name in COMMANDS:
        text = p.ok(name, "--help").text
        assert text.startswith(f"usage: telechir {name}"), text
        for word in ("--json", "--quiet", "--verbose", "--help"):
            assert word in text, (name, word)
        assert p.ok("help", name).text == text


def test_wrong_usage_is_2(p):
    for words in ([], ["nonsense"], ["exec"], ["sh"], ["sh", "a", "b"], ["ls", "--nonsense"], ["cat"],
                  ["rm"], ["cp", "one"], ["edit", "f"], ["write"], ["target"], ["target", "fly"],
                  ["completion", "tcsh"], ["demo", "--transport", "pigeon"], ["exec", "--cwd"],
                  ["exec", "--timeout", "soon", "true"], ["exec", "--tty", "true"],
                  ["find", "--max", "0", "x"], ["http-envd"], ["mkdir"], ["grep"]):
        r = p.fails(2, *words)
        assert "\ntelechir: " in r.err or "usage" in r.err or len(r.err.splitlines()) == 1, r.err
    assert "not available" in p.fails(2, "exec", "--tty", "true").err


def test_completion_scripts(p):
    for shell in ("bash", "zsh", "fish"):
        text = p.ok("completion", shell).text
        for name in COMMANDS:
            assert name in text, (shell, name)
        assert "credential-file" in text
        if shutil.which(shell):
            script = p.base / f"completion.{shell}"
            script.write_text(text)
            subprocess.run([shell, "-n", script], check=True)


def test_bash_completion_offers_words(p):
    script = p.base / "completion.bash"
    script.write_text(p.ok("completion", "bash").text)
    r = subprocess.run(["bash", "-c", f'. {script}; COMP_WORDS=(telechir exec --ti); COMP_CWORD=2; '
                        '_telechir; echo "${COMPREPLY[@]}"'], capture_output=True, text=True)
    assert r.stdout.strip() == "--timeout", r


def test_manual_page_is_current(p):
    assert (ROOT / "docs/telechir.1").read_bytes() == p.ok("manual").stdout


# ---- demo and http-envd ----

def test_demo_over_each_transport(p):
    for transport in ("stdio", "http", "websocket"):
        r = p.ok("demo", "--transport", transport)
        for line in DEMO_LINES:
            assert line in r.text.splitlines(), (transport, r.text)
        assert not list(p.tmp.iterdir()), transport


def test_demo_json(p):
    for transport in ("stdio", "http", "websocket"):
        (answer,) = p.json("demo", "--transport", transport)
        assert answer["transport"] == transport
        assert answer["first_session"] != answer["second_session"]
        assert answer["re_entry_read"] == "hello from remote envd"
        assert answer["independent_sessions"] is answer["daemon_preserved"] is True


def test_demo_with_a_program_that_is_no_daemon(p):
    for transport in ("stdio", "http", "websocket"):
        r = p.run("demo", "--transport", transport, "--executable", shutil.which("false"))
        assert r.returncode == 3, (r.returncode, r.err)
        assert not list(p.tmp.iterdir())
    p.fails(1, "demo", "--executable", p.base / "none")
    r = p.run("demo", "--executable", shutil.which("false"))
    assert r.returncode == 3 and not list(p.tmp.iterdir()), r.shown


def test_demo_interrupted_removes_everything(p):
    slow = p.base / "slow-daemon"
    slow.write_text("#!/bin/sh\necho $$ > %s\nexec sleep 300\n" % (p.base / "slow-pid"))
    slow.chmod(0o755)
    for transport in ("stdio", "http", "websocket"):
        (p.base / "slow-pid").unlink(missing_ok=True)
        run = p.start("demo", "--transport", transport, "--executable", slow)
        pid = wait_for_pid(p.base / "slow-pid")
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=LIMIT)
        assert run.returncode == 130, run.returncode
        assert not is_alive(pid)
        assert not list(p.tmp.iterdir()), transport


def wait_for_pid(path):
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        text = path.read_text() if path.exists() else ""
        if text.endswith("\n"):
            return int(text)
        time.sleep(0.01)  # between two looks at the same event
    raise AssertionError(f"{path} was not written")


def test_http_envd(p):
    d = p.daemon(full_control=False)
    words = ["http-envd", "--endpoint", d.url, *d.link()[2:]]
    r = p.ok(*words)
    assert "hello from remote envd" in r.text
    assert (d.work / "provider-example.txt").read_text() == "hello from remote envd\n"
    (answer,) = p.json(*words)
    assert answer["device_id"] == d.device and answer["first_session"] != answer["second_session"]
    assert d.process.poll() is None
    p.fails(3, "http-envd", "--endpoint", d.url, "--device-id", "another", *d.link()[4:])


# ---- exec and sh ----

def test_exec_passes_status_and_streams(p):
    for link, work in all_ways(p):
        r = p.run("exec", *link, "--", "sh", "-c", "printf out; printf err >&2; exit 7")
        assert (r.returncode, r.stdout, r.stderr) == (7, b"out", b"err")
        r = p.run("sh", *link, "pwd")
        assert r.text.strip() == os.path.realpath(work)


def test_exec_without_stdin_sees_the_end_case_1(p):
    r = p.start("exec", "--", "cat", stdin=subprocess.PIPE)  # our input never ends
    assert r.wait(LIMIT) == 0
    r.stdin.close()


def test_exec_signals_and_exit_codes_case_5(p):
    r = p.run("sh", "kill -9 $$")
    assert r.returncode == 137, r
    end = p.json("sh", "kill -9 $$")[-1]
    assert end["signal"] == "kill" and "exit_code" not in end
    end = p.json("sh", "exit 137")[-1]
    assert end["exit_code"] == 137 and "signal" not in end


def test_exec_timeout_is_124(p):
    for link, work in all_ways(p):
        marker = work / "late"
        r = p.run("sh", *link, "--timeout", "0.5", f"sleep 300; touch {marker}")
        assert r.returncode == 124, (r.returncode, r.err)
        assert not marker.exists()
        end = p.json("sh", *link, "--timeout", "0.5", "sleep 300")[-1]
        assert end["timed_out"] is True and end["status"] == 124


def test_exec_our_failures_are_125(p):
    for link, _ in all_ways(p):
        code = "DENIED" if "--credential-file" in link else "START_FAILED"
        r = p.fails(125, "exec", *link, "--", "no-such-program-anywhere")
        assert "cannot start the command" in r.err and f"({code})" in r.err, r.err
        p.fails(125, "exec", *link, "--cwd", "/no/such/folder", "--", "true")
        (end,) = p.json("exec", *link, "--", "no-such-program-anywhere")
        assert end["event"] == "end" and end["outcome"] == "not_started"
        assert end["error"]["code"] == code and end["status"] == 125
    (p.base / "credential").write_text("0" * 48)
    nowhere = ["--on", "http://127.0.0.1:1", "--device-id", "x", "--credential-file", p.base / "credential"]
    r = p.fails(125, "exec", *nowhere, "--", "true")
    assert "(CONNECT)" in r.err and "nothing listens" in r.err, r.err
    (end,) = p.json("exec", *nowhere, "--", "true")
    assert end["event"] == "end" and end["outcome"] == "not_started" and end["status"] == 125
    assert end["error"]["code"] == "CONNECT"
    d = p.daemon(full_control=False)
    assert "disabled" in p.fails(125, "exec", *d.link(), "--", "true").err


def test_exec_environment(p):
    env_file = p.base / "vars"
    env_file.write_text("# a comment\nFROM_FILE=one two\n\nFROM_HERE\n")
    r = p.ok("exec", "--env", "A=b=c", "--env", "FROM_HERE", "--env-file", env_file, "--cwd", "/",
             "--", "sh", "-c", 'echo "$A|$FROM_HERE|$FROM_FILE|$(pwd)"', env={"FROM_HERE": "x y"})
    assert r.text == "b=c|x y|one two|/\n", r.text
    p.fails(2, "exec", "--env", "NOT_SET_ANYWHERE", "--", "true")


def test_exec_stdin_is_binary_safe(p):
    data = os.urandom(1 << 20)
    for link, _ in all_ways(p):
        r = p.ok("exec", *link, "--stdin", "--", "cat", stdin=data)
        assert r.stdout == data
    assert p.ok("exec", "--stdin", "--", "wc", "-c", stdin=b"").text.strip() == "0"


def test_exec_that_does_not_read_its_input_case_11(p):
    r = p.run("sh", "--stdin", "exit 3", stdin=bytes(4 << 20))
    assert r.returncode == 3, (r.returncode, r.err)


def test_exec_json_events(p):
    for (link, _), provider in zip(all_ways(p), ("local", "http_envd", "ssh")):
        events = p.json("sh", *link, "printf 'a\\377'; printf later >&2; exit 3")
        assert events[0]["event"] == "started" and events[0]["provider"] == provider
        if provider == "http_envd":
            assert events[0]["session_id"] and events[0]["operation_id"] and events[0]["device_id"]
        data = {"stdout": b"", "stderr": b""}
        for e in events[1:-1]:
            assert e["event"] == "output"
            text = e.get("data_base64")
            data[e["stream"]] += base64.b64decode(text + "==") if text else e["data"].encode()
        assert data == {"stdout": b"a\377", "stderr": b"later"}
        end = events[-1]
        assert end["exit_code"] == 3 and end["outcome"] == "done" and end["timed_out"] is False
        assert end["stdout_bytes"] == 2 and end["stderr_bytes"] == 5 and end["cleaned_up"] is True


def test_exec_json_keeps_characters_whole_case_22(p):
    events = p.json("sh", r"printf '\342\202'; sleep 0.2; printf '\254'")
    assert "".join(e["data"] for e in events[1:-1]) == "\u20ac"
    events = p.json("sh", r"printf '\342\202'")
    assert events[1]["data_base64"] == "4oI", events


def test_exec_streams_as_it_comes(p):
    gate = p.base / "gate"
    os.mkfifo(gate)
    run = p.start("sh", f"echo first; cat {gate}")
    assert run.stdout.readline() == b"first\n"  # while the command still waits
    gate.write_text("second\n")
    assert run.stdout.read() == b"second\n"
    assert run.wait(LIMIT) == 0


def interrupted(p, signum, status, link=()):
    run = p.start("sh", *link, "echo $$; sleep 600 & echo $!; wait")
    pids = [int(run.stdout.readline()) for _ in range(2)]
    assert all(map(is_alive, pids))
    run.send_signal(signum)
    _, err = run.communicate(timeout=LIMIT)
    assert run.returncode == status, (run.returncode, err)
    assert b"killed" in err, err
    assert not any(map(is_alive, pids))


def test_interrupt_kills_the_remote_command(p):
    for link, _ in all_ways(p):
        interrupted(p, signal.SIGINT, 130, link)


def test_terminate_kills_the_remote_command(p):
    interrupted(p, signal.SIGTERM, 143)


def test_interrupt_in_json(p):
    run = p.start("sh", "--json", "echo ready; sleep 600")
    while b"ready" not in run.stdout.readline():
        pass
    run.send_signal(signal.SIGINT)
    out, _ = run.communicate(timeout=LIMIT)
    end = json.loads(out.splitlines()[-1])
    assert end["interrupted"] is True and end["outcome"] == "killed" and end["status"] == 130
    assert run.returncode == 130


def full_pipe(run):
    """Until nothing more comes into its standard output: much is in it, and that stays as it is."""
    much, looks_enough = 16384, 30
    count = array.array("i", [0])
    before = looks = 0
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        fcntl.ioctl(run.stdout, termios.FIONREAD, count)
        looks = looks + 1 if count[0] == before else 0
        before = count[0]
        if before > much and looks > looks_enough:
            return
        time.sleep(0.01)  # between two looks at the same event
    raise AssertionError("it does not write")


def test_one_interrupt_does_while_nobody_takes_the_output(p):
    (p.here / "big").write_bytes(bytes(8 << 20))
    for link, work in all_ways(p):
        for flags in ([], ["--json"]):
            (work / "pid").unlink(missing_ok=True)
            run = p.start("sh", *link, *flags, "echo $$ >pid; exec yes")
            pid = wait_for_pid(work / "pid")
            full_pipe(run)
            run.send_signal(signal.SIGINT)
            assert run.wait(LIMIT) == 130, run.returncode
            err = run.stderr.read().decode()
            assert "interrupted" in err and "killed" in err, err
            assert not is_alive(pid)
    run = p.start("cat", "big")
    full_pipe(run)
    run.send_signal(signal.SIGINT)
    assert run.wait(LIMIT) == 130 and b"interrupted" in run.stderr.read()


def test_interrupt_while_the_commands_errors_are_not_taken(p):
    run = p.start("sh", "echo $$; exec yes >&2")
    pid = int(run.stdout.readline())
    run.stdout, kept = run.stderr, run.stdout
    full_pipe(run)
    run.send_signal(signal.SIGINT)
    run.stdout.read()
    assert run.wait(LIMIT) == 130
    assert not is_alive(pid)
    kept.close()


def test_started_comes_before_every_end_but_of_what_did_not_start(p):
    for link, work in all_ways(p):
        run = p.start("sh", *link, "--json", "echo $$ >pid; exec sleep 600")  # silent
        pid = wait_for_pid(work / "pid")
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=LIMIT)
        events = [json.loads(line) for line in out.splitlines()]
        assert [e["event"] for e in events] == ["started", "end"], (events, err)
        assert events[1]["outcome"] == "killed" and events[1]["status"] == 130
        assert not is_alive(pid)
        (work / "pid").unlink()
        (end,) = p.json("exec", *link, "--", "no-such-program-anywhere")
        assert end["event"] == "end" and end["outcome"] == "not_started"


def test_words_that_are_not_utf8_are_named(p):
    bad = os.fsdecode(b"a\xff")
    for words, where in ((["exec", "--", "echo", "b", bad], "argument 3"), (["ls", bad], "argument 1"),
                         (["exec", "--cwd", bad, "--", "true"], "--cwd"),
                         (["exec", "--env", "A=" + bad, "--", "true"], "--env"),
                         (["cp", "f", "local:/tmp/" + bad], "argument 2"), (["grep", bad], "argument 1")):
        r = p.fails(2, *words)
        assert "not UTF-8" in r.err and where in r.err, (words, r.err)
    r = p.fails(2, "exec", "--env", "ODD", "--", "true", env={"ODD": bad})
    assert "'ODD' is not UTF-8" in r.err, r.err
    (p.here / bad).write_text("1")  # a file here may have any name
    p.ok("cp", bad, "plain")
    assert (p.here / "plain").read_text() == "1"


def test_closed_output_ends_the_command(p):
    run = p.start("sh", "echo $$; yes")
    pid = int(run.stdout.readline())
    run.stdout.close()
    err = run.stderr.read()
    assert run.wait(LIMIT) == 125, err
    assert not is_alive(pid)


# ---- files ----

def test_write_cat_and_modes(p):
    data = os.urandom(300000)
    for link, work in all_ways(p):
        p.ok("write", *link, "f.bin", stdin=data)
        assert (work / "f.bin").read_bytes() == data
        assert p.ok("cat", *link, "f.bin").stdout == data
        p.ok("write", *link, "f.txt", "--text", "one\n", "-x")
        assert os.access(work / "f.txt", os.X_OK)
        p.ok("write", *link, "f.txt", "--append", stdin=b"two\n")
        assert (work / "f.txt").read_bytes() == b"one\ntwo\n"
        assert os.access(work / "f.txt", os.X_OK)
        p.fails(1, "write", *link, "f.txt", "--create", "--text", "x")
        p.fails(1, "write", *link, "missing", "--replace", "--text", "x")
        (answer,) = p.json("write", *link, "j", stdin=b"abc")
        assert answer["bytes"] == 3 and answer["sha256"] == hashlib.sha256(b"abc").hexdigest()
        (answer,) = p.json("cat", *link, "f.bin")
        assert base64.b64decode(answer["data_base64"] + "==") == data
        p.fails(1, "cat", *link, "missing")


def test_interrupted_write_leaves_nothing(p):
    (p.here / "old").write_text("old")
    for name in ("new", "old"):
        run = p.start("write", name, "--verbose", stdin=subprocess.PIPE)
        run.stdin.write(bytes(1 << 16))
        run.stdin.flush()
        assert b"ready" in run.stderr.readline()
        run.send_signal(signal.SIGINT)
        run.wait(LIMIT)
        run.stdin.close()
        assert run.returncode == 130
    assert sorted(os.listdir(p.here)) == ["old"] and (p.here / "old").read_text() == "old"


def test_ls(p):
    for link, work in all_ways(p):
        (work / "d").mkdir()
        for i in range(2345):
            (work / "d" / f"f{i:05}").write_text("")
        (work / "d" / ".hidden").write_text("")
        (work / "d" / "link").symlink_to("f00000")
        names = p.ok("ls", *link, "d").text.splitlines()
        assert len(names) == 2346 and names == sorted(names), len(names)
        assert ".hidden" in p.ok("ls", *link, "-a", "d").text.splitlines()
        r = p.ok("ls", *link, "--max", "10", "d")
        assert len(r.text.splitlines()) == 10 and "cut" in r.err
        lines = p.json("ls", *link, "--max", "10", "d")
        assert len(lines) == 11 and lines[-1]["truncated"] is True
        entries = {e["name"]: e for e in p.json("ls", *link, "d")}
        assert entries["link"]["kind"] == "symlink" and entries["f00000"]["size"] == 0
        p.fails(1, "ls", *link, "missing")


def test_find(p):
    for link, work in all_ways(p):
        (work / "x/y").mkdir(parents=True)
        (work / "x/y/a.c").write_text("1")
        (work / "x/b.c").write_text("2")
        (work / "x/.h.c").write_text("3")
        assert p.ok("find", *link, "*.c").text.splitlines() == ["x/b.c", "x/y/a.c"]
        assert p.ok("find", *link, "*.c", "x").text.splitlines() == ["x/b.c", "x/y/a.c"]
        assert p.ok("find", *link, "--flat", "*.c", "x").text.splitlines() == ["x/b.c"]
        assert "x/.h.c" in p.ok("find", *link, "--hidden", "*.c").text
        assert p.ok("find", *link, "-t", "d", "*", "x").text.splitlines() == ["x/y"]
        assert [e["relative_path"] for e in p.json("find", *link, "*.c", "x")] == ["b.c", "y/a.c"]
        p.fails(2, "find", *link, "-t", "ghost", "*")


def test_grep(p):
    for link, work in all_ways(p):
        (work / "t").mkdir()
        (work / "t/one.txt").write_text("alpha\nbeta\ngamma\nBeta 2\n")
        (work / "t/two.txt").write_text("no\n")
        assert p.ok("grep", *link, "b.ta", "t").text == "t/one.txt:2:beta\n"
        assert p.ok("grep", *link, "-i", "beta").text == "t/one.txt:2:beta\nt/one.txt:4:Beta 2\n"
        r = p.run("grep", *link, "-F", "b.ta", "t")
        assert (r.returncode, r.text, r.err) == (1, "", "")
        assert p.ok("grep", *link, "-l", "-i", "beta").text == "t/one.txt\n"
        text = p.ok("grep", *link, "-i", "-C", "1", "beta", "t/one.txt").text
        assert text == ("t/one.txt-1-alpha\nt/one.txt:2:beta\nt/one.txt-3-gamma\n"
                        "t/one.txt:4:Beta 2\n"), text
        (match,) = p.json("grep", *link, "beta")
        assert match["line"] == 2 and match["text"] == "beta"


def test_grep_pages_until_complete(p):
    (p.here / "many").write_text("".join(f"needle {i}\n" for i in range(2500)))
    assert len(p.ok("grep", "needle").text.splitlines()) == 2500
    lines = p.ok("grep", "-C", "2", "needle").text.splitlines()
    assert len(lines) == 2500 and all(":" in line for line in lines)
    r = p.ok("grep", "--max", "7", "needle")
    assert len(r.text.splitlines()) == 7 and "cut" in r.err


def test_rm_and_mkdir(p):
    for link, work in all_ways(p):
        p.fails(1, "mkdir", *link, "a/b/c")
        p.ok("mkdir", *link, "-p", "a/b/c")
        p.ok("mkdir", *link, "-p", "a/b/c")
        p.fails(1, "mkdir", *link, "a")
        (work / "a/f").write_text("x")
        (work / "l").symlink_to("a")
        p.fails(1, "rm", *link, "a")
        p.fails(1, "rm", *link, "-r", "--max-entries", "2", "a")
        assert (work / "a/f").exists()
        p.ok("rm", *link, "l")
        assert (work / "a/f").exists() and not (work / "l").is_symlink()
        assert p.json("rm", *link, "-r", "a") == [{"path": f"{os.path.realpath(work)}/a", "removed": 4}]
        p.fails(1, "rm", *link, "a")
        p.ok("rm", *link, "-f", "a")
        (work / "keep").write_text("x")
        for whole in (".", "./", "..", "/", "~", "~/", "/tmp/..", "a/."):
            p.fails(2, "rm", *link, "-r", whole)
        assert (work / "keep").read_text() == "x"
        (work / "b").write_text("")
        lines = p.json("rm", *link, "b", "a")
        assert lines[0]["removed"] == 1 and lines[1]["error"]["code"] == "NOT_FOUND", lines


def test_path_in_json_is_absolute_everywhere(p):
    for link, work in all_ways(p):
        root = os.path.realpath(work)

        def paths(*words, stdin=b""):
            return [line["path"] for line in p.json(words[0], *link, *words[1:], stdin=stdin)]

        assert paths("mkdir", "d", "./d/../d2/") == [f"{root}/d", f"{root}/d2"]
        assert paths("write", "d/f", stdin=b"old\n") == [f"{root}/d/f"]
        assert paths("cat", "d/f", f"{root}/d/f") == [f"{root}/d/f"] * 2
        assert paths("edit", "d/f", "--old", "old", "--new", "new") == [f"{root}/d/f"]
        assert paths("ls", "d") == paths("ls", "d/f") == [f"{root}/d/f"]
        assert paths("find", "f", "d") == paths("find", "f") == [f"{root}/d/f"]
        assert paths("grep", "new", "d") == paths("grep", "new") == [f"{root}/d/f"]
        assert paths("rm", "d/f") == [f"{root}/d/f"]
        if "--credential-file" not in link:  # not over EIP
            (work / "d/e").write_text("")
            (entry,) = p.json("tree", *link, "d")
            assert entry["path"] == f"{root}/d/e" and entry["relative_path"] == "e"


def test_errors_name_the_path_as_it_was_typed(p):
    for link, work in all_ways(p):
        (work / "file").write_text("")
        for words, typed, about in ((["mkdir", "./file"], "./file", "exists"),
                                    (["mkdir", "no/x"], "no/x", "not there"),
                                    (["write", "no/x", "--text", "a"], "no/x", None),
                                    (["write", "file", "--create", "--text", "a"], "file", "exists"),
                                    (["write", "no", "--replace", "--text", "a"], "no", "not there"),
                                    (["grep", "x", "./no"], "./no", "not there"),
                                    (["find", "x", "./no"], "./no", "not there"), (["cat", "no"], "no", None),
                                    (["rm", "no"], "no", None), (["ls", "no"], "no", None)):
            r = p.fails(1, words[0], *link, *words[1:])
            assert f"'{typed}'" in r.err and "file." not in r.err.splitlines()[0], r.err
            assert about is None or about in r.err, r.err
        r = p.fails(2, "grep", *link, "(", ".")
        assert "'(' is no regular expression" in r.err, r.err


def test_counts_of_one_are_singular(p):
    (p.here / "f").write_text("a\n")
    assert "1 replacement\n" in p.ok("edit", "f", "--old", "a", "--new", "b").err
    (p.here / "f").write_text("a\na\n")
    assert "2 replacements\n" in p.ok("edit", "f", "--old", "a", "--new", "b", "--all").err
    assert "(1 entry)" in p.ok("rm", "-v", "f").err


# ---- edit ----

def test_edit_changes_only_the_bytes_replaced_case_28(p):
    for link, work in all_ways(p):
        f = work / "crlf"
        f.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\nno end")
        f.chmod(0o640)
        (answer,) = p.json("edit", *link, "crlf", "--old", "two\r\nthree", "--new", "2\r\n3\r\n3b")
        assert answer["replacements"] == 1 and answer["method"] == "patch", answer
        assert f.read_bytes() == b"\xef\xbb\xbfone\r\n2\r\n3\r\n3b\r\nno end"
        p.ok("edit", *link, "crlf", "--old", "no end", "--new", "")
        assert f.read_bytes() == b"\xef\xbb\xbfone\r\n2\r\n3\r\n3b\r\n"
        p.ok("edit", *link, "crlf", "--old", "\r\n", "--new", "\n", "--all")
        assert f.read_bytes() == b"\xef\xbb\xbfone\n2\n3\n3b\n"
        assert stat.S_IMODE(f.stat().st_mode) == 0o640


def test_edit_counts_and_refuses(p):
    f = p.here / "f"
    f.write_text("aXbXc")
    assert "2 times" in p.fails(1, "edit", "f", "--old", "X", "--new", "Y").err
    p.fails(1, "edit", "f", "--old", "Z", "--new", "Y")
    assert f.read_text() == "aXbXc"
    p.fails(2, "edit", "f", "--old", "", "--new", "Y")
    p.fails(2, "edit", "f", "--old", "X")
    (p.here / "old").write_text("X")
    p.ok("edit", "f", "--old-file", p.here / "old", "--new-file", "-", "--all", stdin=b"\n")
    assert f.read_text() == "a\nb\nc"


def test_edit_of_bytes_that_are_no_text(p):
    f = p.here / "f"
    f.write_bytes(b"\xff\x00old\xff")
    (answer,) = p.json("edit", "f", "--old", "old", "--new", "newer")
    assert answer["method"] == "rewrite"
    assert f.read_bytes() == b"\xff\x00newer\xff"


def test_edit_many_shapes_equal_plain_replacement(p):
    d = p.daemon()
    texts = ("x", "x\n", "x\nx\n", "axb\ncxd", "\nx\n\nx", "a\nx\nb\n", "xx\nxxx\n", "a\nb\nx\nc\nd\nx")
    for text in texts:
        for new in ("", "y", "\n", "y\n", "\ny", "y\nz\n", "xx"):
            (d.work / "f").write_text(text)
            (answer,) = p.json("edit", *d.link(), "f", "--old", "x", "--new", new, "--all")
            assert answer.get("method") == "patch", (text, new, answer)
            assert (d.work / "f").read_text() == text.replace("x", new), (text, new)


def test_edit_spanning_lines(p):
    f = p.here / "f"
    for text, old, new in (("a\nb\nc\n", "a\nb\n", "z"), ("a\nb\nc", "\nb\n", ""), ("a\nb", "a\nb", ""),
                           ("a\nb\nc\nd\n", "b\n", ""), ("a\nb\nb\nc", "b\n", "")):
        f.write_text(text)
        p.ok("edit", "f", "--all", "--old", old, "--new", new)
        assert f.read_text() == text.replace(old, new), (text, old, new)


def test_edit_patch(p):
    f = p.here / "f"
    f.write_text("one\ntwo\nthree\n")
    patch = ("diff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n one\n-two\n"
             "+TWO\n three\n").encode()
    assert p.json("edit", "f", "--patch", "-", stdin=patch)[0]["hunks"] == 1
    assert f.read_text() == "one\nTWO\nthree\n"
    p.fails(1, "edit", "f", "--patch", "-", stdin=patch)


def test_two_editors_lose_nothing_case_36(p):
    d = p.daemon()
    f = d.work / "shared"
    names = [f"{who}{i}" for who in "ab" for i in range(15)]
    f.write_text("".join(f"{name} old\n" for name in names))

    def edit_all(who):
        for name in (n for n in names if n.startswith(who)):
            for _ in range(50):
                r = p.run("edit", *d.link(), "shared", "--old", f"{name} old", "--new", f"{name} new")
                if r.returncode == 0:
                    break
                assert "meanwhile" in r.err, r.err

    threads = [threading.Thread(target=edit_all, args=(who,)) for who in "ab"]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert f.read_text() == "".join(f"{name} new\n" for name in names), f.read_text()


# ---- cp ----

def tree(base):
    (base / "d/e").mkdir(parents=True)
    (base / "empty").mkdir()
    (base / "a.txt").write_text("text\n")
    (base / "d/b.bin").write_bytes(os.urandom(400000))
    (base / "d/run").write_text("#!/bin/sh\n")
    (base / "d/run").chmod(0o755)
    (base / "d/e/zero").write_text("")
    (base / ".dot").write_text("dot")


def contents(base):
    return {str(f.relative_to(base)): (f.read_bytes(), os.access(f, os.X_OK)) if f.is_file() else None
            for f in base.rglob("*")}


def saved(p, d, name):
    p.ok("target", "add", name, d.url, *d.link()[2:])


def test_cp_trees_both_ways_and_between(p):
    one, two = p.daemon(), p.daemon()
    saved(p, one, "one")
    saved(p, two, "two")
    tree(p.here / "src")
    p.ok("cp", "-r", "src", "one:up")
    assert contents(one.work / "up") == contents(p.here / "src")
    p.ok("cp", "-r", "one:up", "two:over")
    assert contents(two.work / "over") == contents(p.here / "src")
    p.ok("cp", "-r", f"two:{two.work}/over", "back")
    assert contents(p.here / "back") == contents(p.here / "src")
    p.ok("cp", "-r", "one:up", "one:again")
    assert contents(one.work / "again") == contents(p.here / "src")
    p.ok("cp", "-r", "src", "plain")
    assert contents(p.here / "plain") == contents(p.here / "src")


def test_cp_files(p):
    d = p.daemon()
    saved(p, d, "there")
    (p.here / "f").write_text("1")
    (p.here / "g").write_text("2")
    p.ok("cp", "f", "there:new")
    assert (d.work / "new").read_text() == "1"
    (d.work / "folder").mkdir()
    p.ok("cp", "f", "g", "there:folder")
    assert contents(d.work / "folder").keys() == {"f", "g"}
    p.ok("cp", f"local:{p.here}/g", "there:new")
    assert (d.work / "new").read_text() == "2"
    p.ok("cp", "there:new", ".")
    assert (p.here / "new").read_text() == "2"
    word = f"{d.url}:{d.work}/new"
    p.ok("cp", *d.link()[2:], word, "by-url")
    assert (p.here / "by-url").read_text() == "2"
    p.fails(2, "cp", "f", "g", "there:new")
    p.fails(2, "cp", "there:folder", "x")
    p.fails(1, "cp", "missing", "there:x")
    p.fails(2, "cp", "f", "nowhere:x")


def test_cp_keeps_mode_and_link_of_what_it_replaces_case_30(p):
    d = p.daemon()
    saved(p, d, "there")
    (d.work / "f").write_text("new")
    (p.here / "real").write_text("old")
    (p.here / "real").chmod(0o640)
    (p.here / "link").symlink_to("real")
    p.ok("cp", "there:f", "link")
    assert (p.here / "link").is_symlink() and (p.here / "real").read_text() == "new"
    assert stat.S_IMODE((p.here / "real").stat().st_mode) == 0o640


def test_cp_never_follows_links_out_case_43(p):
    d = p.daemon()
    saved(p, d, "there")
    outside = p.base / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    for base in (p.here, d.work):
        (base / "t").mkdir()
        (base / "t/f").write_text("f")
        (base / "t/out").symlink_to(outside)
        (base / "t/file-out").symlink_to(outside / "secret")
    for source, target, there in (("t", "there:copy", d.work / "copy"), ("there:t", "copy", p.here / "copy")):
        r = p.ok("cp", "-r", source, target)
        assert r.err.count("symlink") == 2, r.err
        assert contents(there).keys() == {"f"}
    # a link where a folder of the tree should go
    (p.here / "tree/sub").mkdir(parents=True)
    (p.here / "tree/sub/f").write_text("f")
    for target, base in (("there:into", d.work / "into"), ("into", p.here / "into")):
        (base / "tree").mkdir(parents=True)
        (base / "tree/sub").symlink_to(outside)
        p.fails(1, "cp", "-r", "tree", target)
    assert os.listdir(outside) == ["secret"]


def test_cp_checksum_skips_equal(p):
    d = p.daemon()
    saved(p, d, "there")
    tree(p.here / "src")
    p.ok("cp", "-r", "src", "there:up")
    before = (d.work / "up/a.txt").stat().st_mtime_ns
    (p.here / "src/d/b.bin").write_bytes(os.urandom(400000))
    (answer,) = p.json("cp", "-r", "--checksum", "src/.", "there:up")
    assert answer["files"] == 1 and answer["equal"] == 4 and answer["failed"] == 0, answer
    assert (d.work / "up/a.txt").stat().st_mtime_ns == before
    assert contents(d.work / "up") == contents(p.here / "src")
    (answer,) = p.json("cp", "-r", "--checksum", "there:up/.", "src")
    assert answer["equal"] == 5, answer


def modes(base):
    return {str(f.relative_to(base)): stat.S_IMODE(f.stat().st_mode) for f in base.rglob("*")}


def test_cp_keeps_what_is_private(p):
    os.umask(0o022)
    src = p.here / "src"
    (src / "closed/in").mkdir(parents=True)
    (src / "open").mkdir()
    for name, mode in (("closed/key", 0o600), ("closed/in/run", 0o700), ("empty", 0o600), ("open/f", 0o644)):
        (src / name).write_text("" if name == "empty" else name)
        (src / name).chmod(mode)
    (src / "closed").chmod(0o700)
    src.chmod(0o700)
    want = modes(src)
    ways = [("local:", p.here / "up", [])]
    try:
        s = p.sshd()
        p.ok("target", "add", "box", s.form, *s.ways())
        ways.append(("box:", s.home / "up", []))
    except NoServer as e:
        print(f"without ssh: {e}")
    for prefix, there, _ in ways:
        back, again = p.here / f"back-{prefix[:-1]}", there.with_name("again")
        p.ok("cp", "-r", "src", f"{prefix}{there}")
        p.ok("cp", "-r", f"{prefix}{there}", back)
        p.ok("cp", "-r", f"{prefix}{there}", f"{prefix}{again}")
        for copy in (there, back, again):
            assert modes(copy) == want, (copy, modes(copy), want)
            assert stat.S_IMODE(copy.stat().st_mode) == 0o700
    if len(ways) == 2:
        p.ok("cp", "-r", "local:" + str(p.here / "up"), "box:across")
        assert modes(s.home / "across") == want


def test_cp_checksum_sees_the_executable_bit(p):
    d = p.daemon()
    saved(p, d, "there")
    (p.here / "src").mkdir()
    (p.here / "src/run").write_text("#!/bin/sh\n")
    for target, there in (("there:up", d.work / "up"), (f"local:{p.here}/up", p.here / "up"), ("plain", p.here / "plain")):
        (p.here / "src/run").chmod(0o644)
        p.ok("cp", "-r", "src", target)
        for mode in (0o755, 0o644):
            (p.here / "src/run").chmod(mode)
            (answer,) = p.json("cp", "-rc", "src/.", target)
            assert answer["files"] == 1 and answer["equal"] == 0, (target, answer)
            assert os.stat(there / "run").st_mode & 0o100 == mode & 0o100, (target, mode)
            (answer,) = p.json("cp", "-rc", "src/.", target)
            assert answer["files"] == 0 and answer["equal"] == 1, (target, answer)


def test_cp_into_itself_is_refused_by_whatever_way(p):
    (p.here / "src/sub").mkdir(parents=True)
    (p.here / "link").symlink_to("src")
    here = p.here
    for source, target in (("src", "src/sub"), ("src", f"local:{here}/src/sub"), (f"local:{here}/src", "src/new"),
                           (f"local:{here}/link", "src/sub"), ("src", f"local:{here}/link/sub"),
                           (f"local:{here}/src", f"local:{here}/src/sub/new")):
        assert "into itself" in p.fails(2, "cp", "-r", source, target).err
    assert list((here / "src").rglob("*")) == [here / "src/sub"]


def test_words_of_scp_are_explained(p):
    (p.here / "f").write_text("")
    for words, right in ((["cp", "f", "gpu-box:/x"], "ssh:gpu-box:/x"), (["cp", "me@box:/x", "f"], "ssh:me@box:/x"),
                         (["cp", "box:data/x", "f"], "ssh:box:~/data/x"), (["ls", "--on", "gpu-box"], "ssh:gpu-box"),
                         (["ls", "--on", "me@box:/x"], "ssh:me@box")):
        r = p.fails(2, *words)
        assert right in r.err and "no target" in r.err, r.err
    r = p.fails(2, "ls", "--on", "user:hunter2@host")
    assert "hunter2" not in r.err, r.err
    assert "ssh:gpu-box:/x" in p.fails(1, "cat", "gpu-box:/x").err  # the file of that name is not there


def test_cp_partial_failure_lists_what_failed(p):
    d = p.daemon()
    saved(p, d, "there")
    tree(p.here / "src")
    (d.work / "up/a.txt").mkdir(parents=True)  # in the way of a file
    r = p.fails(1, "cp", "-r", "src/.", "there:up")
    assert "a.txt" in r.err and "1 could not be copied" in r.err
    assert (d.work / "up/d/b.bin").read_bytes() == (p.here / "src/d/b.bin").read_bytes()
    lines = p.json("cp", "-r", "src/.", "there:up")
    assert lines[0]["path"].endswith("a.txt") and lines[0]["error"]["code"]
    assert lines[-1]["failed"] == 1 and lines[-1]["files"] == 4


def test_cp_many_small_files(p):
    d = p.daemon()
    saved(p, d, "there")
    src = p.here / "src"
    for i in range(20):
        (src / f"d{i}").mkdir(parents=True)
        for k in range(25):
            (src / f"d{i}/f{k}").write_text(f"{i} {k}\n")
    p.ok("cp", "-r", "src", "there:up")
    assert contents(d.work / "up") == contents(src)
    p.ok("cp", "-r", "there:up", "down")
    assert contents(p.here / "down") == contents(src)


def test_cp_names_that_are_not_utf8(p):
    d = p.daemon()
    saved(p, d, "there")
    (p.here / "src").mkdir()
    (p.here / "src/fine").write_text("1")
    pathlib.Path(os.fsdecode(os.fsencode(p.here / "src") + b"/bad\xff")).write_text("2")
    r = p.fails(1, "cp", "-r", "src", "there:up")
    assert "UTF-8" in r.err
    assert (d.work / "up/fine").read_text() == "1"


# ---- targets ----

def test_target_file_is_private(p):
    d = p.daemon()
    os.umask(0o022)
    saved(p, d, "box")
    f = p.base / "config/telechir/targets.json"
    assert stat.S_IMODE(f.stat().st_mode) == 0o600
    assert d.token not in f.read_text() and str(d.credential) in f.read_text()
    assert "box" in p.ok("target", "list").text
    (shown,) = p.json("target", "show", "box")
    assert shown == {"name": "box", "form": d.url, "device_id": d.device,
                     "credential_file": str(d.credential)}
    p.fails(1, "target", "add", "box", "local")
    p.ok("target", "add", "box", "local", "--replace")
    assert p.json("target", "list") == [{"name": "box", "form": "local"}]
    p.ok("target", "remove", "box")
    p.fails(1, "target", "remove", "box")
    p.fails(1, "target", "show", "box")
    assert p.json("target", "list") == []


def test_a_home_that_is_not_there_is_not_made(p):
    gone = p.base / "gone" / "home"
    p.env["HOME"] = str(gone)
    del p.env["XDG_CONFIG_HOME"]
    r = p.fails(1, "target", "add", "x", "local")
    assert str(gone) in r.err and "XDG_CONFIG_HOME" in r.err, r.err
    assert p.json("target", "list") == []
    assert p.ok("exec", "--", "echo", "fine").text == "fine\n"
    assert not gone.parent.exists()


def test_target_keeps_what_it_does_not_know(p):
    f = p.base / "config/telechir/targets.json"
    f.parent.mkdir(parents=True)
    f.write_text('{"version":1,"more":[1.50],"targets":{"old":{"form":"local","colour":"red"}}}')
    p.ok("target", "add", "new", "local")
    text = f.read_text()
    assert '"more":[1.50]' in text and '"colour":"red"' in text, text
    f.write_text("{broken")
    p.fails(1, "target", "add", "x", "local")
    assert f.read_text() == "{broken"


def test_two_writers_of_targets_case_76(p):
    def add(who):
        for i in range(60):
            p.ok("target", "add", f"{who}{i}", "local", "--quiet")

    threads = [threading.Thread(target=add, args=(who,)) for who in "ab"]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(p.json("target", "list")) == 120
    assert sorted(os.listdir(p.base / "config/telechir")) == ["targets.json", "targets.json.lock"]


def test_target_forms_that_are_refused(p):
    link = ["--device-id", "x", "--credential-file", __file__]
    r = p.fails(2, "target", "add", "x", "https://user:hunter2@host", *link)
    assert "hunter2" not in r.err and "--credential-file" in r.err
    assert "hunter2" not in p.fails(2, "ls", "--on", "https://user:hunter2@host", *link).err
    p.fails(2, "target", "add", "x", "https://host/path", *link)
    p.fails(2, "target", "add", "x", "https://host")
    p.fails(2, "target", "add", "x", "http://192.0.2.1:80", *link)
    p.fails(2, "target", "add", "local", "local")
    r = p.fails(3, "target", "add", "x", "host:laptop")  # nobody has signed in to a Host
    assert "telechir host login" in r.err
    p.fails(3, "ls", "--on", "host:laptop")
    p.fails(3, "cp", "host:laptop:/f", "x")
    p.fails(2, "ls", "--on", "host:")
    p.fails(2, "target", "add", "x", "local", "--identity", "f")
    p.fails(2, "target", "add", "x", "https://host", *link, "--known-hosts", "f")
    assert not (p.base / "config/telechir/targets.json").exists()


def test_target_check(p):
    d = p.daemon()
    saved(p, d, "box")
    (local,) = p.json("target", "check", "local")
    assert local["commands"] is True and local["boundary"]["sandbox"] == "disabled"
    assert local["round_trip_us"] > 0 and local["system"]["os"] == "linux"
    (box,) = p.json("target", "check", "box")
    assert box["device_id"] == d.device and "shell.exec" in box["methods"]
    text = p.ok("target", "check", "box").text
    for word in ("device:", "system:", "boundary:", "round trip:"):
        assert word in text, text
    d.kill()
    p.fails(3, "target", "check", "box")


def test_wrong_addresses_are_explained(p):
    d = p.daemon()
    link = ["--device-id", "other", "--credential-file", d.credential]
    r = p.fails(3, "ls", "--on", d.url, *link)
    assert "'other'" in r.err and f"'{d.device}'" in r.err, r.err
    r = p.fails(3, "ls", "--on", d.url.replace("http", "https"), *link)
    assert "may not speak TLS" in r.err and d.url in r.err, r.err
    r = p.fails(3, "ls", "--on", "http://127.0.0.1:1", *link)
    assert "nothing listens" in r.err, r.err


def test_http_spoken_to_a_tls_port_is_explained(p):
    key, cert = p.base / "key.pem", p.base / "cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-days", "30", "-keyout", key, "-out", cert, "-subj", "/CN=localhost"],
                   check=True, capture_output=True)
    d = p.daemon(tls=(cert, key))
    r = p.fails(3, "ls", "--on", f"http://127.0.0.1:{d.port}", *d.link()[2:])
    assert f"try https://127.0.0.1:{d.port}" in r.err, r.err


def test_paths_with_a_target_before_them(p):
    d = p.daemon()
    saved(p, d, "box")
    (d.work / "a:b").write_text("needle\n")
    (p.here / "x:y").write_text("here\n")
    assert p.ok("ls", f"box:{d.work}").text == "a:b\n"
    assert p.ok("cat", "box:a:b", "x:y").text == "needle\nhere\n"
    assert p.ok("cat", "--on", "box", "a:b").text == "needle\n"
    assert p.ok("grep", "needle", "box:").text == "box:a:b:1:needle\n"
    assert p.ok("cat", *d.link()[2:], f"{d.url}:{d.work}/a:b").text == "needle\n"
    p.fails(1, "cat", "--on", "box", "box:a:b")


def test_exit_statuses_of_targets(p):
    d = p.daemon()
    wrong = p.base / "wrong"
    wrong.write_text("0" * 48)
    p.fails(3, "ls", "--on", d.url, "--device-id", d.device, "--credential-file", wrong)
    p.fails(3, "ls", "--on", d.url, "--device-id", "other", "--credential-file", d.credential)
    p.fails(3, "ls", "--on", "http://127.0.0.1:1", *d.link()[2:])
    p.fails(2, "ls", "--on", d.url)
    p.fails(2, "ls", "--on", "no-such-name")
    p.fails(1, "cat", *d.link(), "missing")
    (answer,) = p.json("cat", *d.link(), "missing")
    assert answer["error"]["code"] == "NOT_FOUND"
    if os.geteuid() != 0:
        (d.work / "closed").mkdir(mode=0)
        p.fails(4, "ls", *d.link(), "closed")


# ---- what goes wrong ----

def test_dead_daemon_and_no_local_file_case_71(p):
    d = p.daemon()
    saved(p, d, "box")
    (p.base / "f").write_text("x")
    d.kill()
    for words in (["write", "marker", "--text", "x"], ["mkdir", "marker"], ["ls"], ["cat", "marker"],
                  ["find", "*"], ["grep", "x"], ["rm", "marker"], ["edit", "m", "--old", "a", "--new", "b"]):
        p.fails(3, words[0], "--on", "box", *words[1:])
    p.fails(125, "sh", "--on", "box", "touch marker")
    p.fails(125, "exec", "--on", "box", "touch", "marker")
    p.fails(3, "cp", p.base / "f", "box:marker")
    p.fails(3, "cp", "box:marker", "marker")
    assert os.listdir(p.here) == []


def test_link_lost_in_a_download_leaves_no_part_case_71(p):
    d = p.daemon()
    (d.work / "big").write_bytes(bytes(16 << 20))
    proxy = CuttingProxy(d.port, cut_after=4 << 20)
    r = p.run("cp", *d.link(proxy.url)[2:], f"{proxy.url}:{d.work}/big", "big")
    assert r.returncode == 3, (r.returncode, r.err)
    assert os.listdir(p.here) == []
    proxy.close()


def test_daemon_killed_while_a_command_runs_case_71(p):
    d = p.daemon()
    run = p.start("sh", *d.link(), "echo $$; sleep 600; touch marker")
    pid = int(run.stdout.readline())
    d.kill()
    _, err = run.communicate(timeout=LIMIT)
    assert run.returncode == 125, (run.returncode, err)
    assert b"could not be confirmed" in err, err
    assert os.listdir(p.here) == []
    if is_alive(pid):
        os.kill(pid, signal.SIGKILL)


def test_lost_answers_are_told_as_unknown_case_65(p):
    d = p.daemon()
    for method, words, path in ((b"file.mkdir", ["mkdir", "made"], "made"),
                                (b"file.commit_writer", ["write", "w", "--text", "x"], "w"),
                                (b"file.remove", ["rm", "gone"], None)):
        (d.work / "gone").write_text("")
        for flags in ([], ["--json"]):
            if path and (d.work / path).is_dir():
                (d.work / path).rmdir()
            (d.work / "gone").write_text("")
            proxy = CuttingProxy(d.port, cut_answer=method)
            r = p.run(words[0], *d.link(proxy.url), *words[1:], *flags)
            assert r.returncode == 5, (words, r.returncode, r.err)
            assert "may or may not have happened" in r.err, r.err
            if flags:
                error = json.loads(r.stdout)["error"]
                assert error["outcome"] == "unknown" and error["operation_id"]
            assert path is None or (d.work / path).exists()  # it did happen, once
            proxy.close()
    marker = d.work / "count"
    proxy = CuttingProxy(d.port, cut_answer=b"process.start")
    r = p.run("sh", *d.link(proxy.url), "--json", f"echo x >> {marker}")
    assert r.returncode == 125, (r.returncode, r.err)
    end = json.loads(r.stdout.splitlines()[-1])
    assert end["outcome"] == "unknown" and end["error"]["outcome"] == "unknown", end
    proxy.close()
    assert not marker.exists() or marker.read_text() == "x\n"


def test_secrets_are_in_no_argument_and_no_output_case_62(p):
    d = p.daemon()
    marker = "marker-" + os.urandom(8).hex()
    p.env["SECRET_MARKER"] = marker
    run = p.start("sh", *d.link(), "--verbose", "--env", "SECRET_MARKER",
                  'test -n "$SECRET_MARKER" && echo ready; sleep 600')
    assert run.stdout.readline() == b"ready\n"
    for f in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = f.read_bytes()
        except OSError:
            continue
        assert d.token.encode() not in line and marker.encode() not in line, line
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=LIMIT)
    log = (d.base / "daemon.log").read_bytes()
    for text in (out, err, log):
        assert d.token.encode() not in text and marker.encode() not in text


def run_tests(tests):
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    # A shell that starts us in the background has SIGINT ignored, and what we start would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    npassed = nfailed = 0
    for name, test in list(tests.items()):
        if not name.startswith("test_") or wanted not in name:
            continue
        with tempfile.TemporaryDirectory(prefix="telechir-test-") as base:
            p = Place(base)
            try:
                test(p)
                npassed += 1
            except NoServer as e:
                print(f"{name} skipped: {e}")
            except Exception:
                nfailed += 1
                print(f"--- {name}", flush=True)
                traceback.print_exc(file=sys.stdout)
            finally:
                p.close()
    print(f"{npassed} passed, {nfailed} failed")
    return 1 if nfailed else 0


if __name__ == "__main__":
    sys.exit(run_tests(globals()))
