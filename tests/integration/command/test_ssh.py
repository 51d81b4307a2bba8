#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command on a machine that only SSH reaches: trust, and every word over a real server. What all
targets have in common is in test_command.py. TELECHIR is the program, with telechird beside it; an
argument picks tests by name."""

import hashlib
import json
import os
import pathlib
import pty
import signal
import stat
import subprocess
import sys
import time

from sshd import descendants, kill, name_of
from test_command import LIMIT, TELECHIR, contents, is_alive, run_tests, tree, wait_for_pid


def until(what):
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        if (seen := what()):
            return seen
        time.sleep(0.01)  # between two looks at the same event
    raise AssertionError("it did not happen")


# ---- trust ----

def test_trust_from_the_first_look_to_forgetting_case_90(p):
    s = p.sshd(trusted=False)
    host, ways, print_ = s.form, s.trust_ways(), s.fingerprint()
    r = p.fails(3, "ls", *s.link())
    assert print_ in r.err and "not trusted" in r.err, r.err
    r = p.fails(125, "exec", *s.link(), "--", "touch", "marker")
    assert "UNTRUSTED" in r.err and print_ in r.err, r.err
    (end,) = p.json("exec", *s.link(), "--", "touch", "marker")
    assert end["event"] == "end" and end["outcome"] == "not_started" and end["status"] == 125
    assert end["error"]["code"] == "UNTRUSTED", end
    assert not s.known_hosts.exists() and not list(s.home.iterdir())

    r = p.fails(4, "trust", host, *ways)
    assert print_ in r.err and f"telechir trust {host}" in r.err, r.err
    assert "--fingerprint" in r.err and "--known-hosts" in r.err, r.err
    other = "SHA256:" + "A" * 43
    r = p.fails(4, "trust", host, *ways, "--fingerprint", other)
    assert print_ in r.err and other in r.err
    assert not s.known_hosts.exists() or s.known_hosts.read_text() == ""

    p.ok("trust", host, *ways, "--fingerprint", print_)
    assert stat.S_IMODE(s.known_hosts.stat().st_mode) == 0o600
    assert stat.S_IMODE(s.known_hosts.parent.stat().st_mode) == 0o700
    before = s.known_hosts.read_bytes()
    assert "already trusted" in p.ok("trust", host, *ways).err
    assert s.known_hosts.read_bytes() == before
    assert print_ in p.ok("trust", "--list", *ways).text
    p.ok("ls", *s.link())

    assert "forgot 1" in p.ok("forget", host, *ways).err
    assert "nothing was trusted" in p.ok("forget", host, *ways).err
    assert p.ok("trust", "--list", *ways).text == ""
    p.fails(3, "ls", *s.link())


def test_trust_in_json(p):
    s = p.sshd(trusted=False)
    host, ways, print_ = s.form, s.trust_ways(), s.fingerprint()
    (answer,) = p.json("trust", host, *ways)
    assert answer["trust"] == "unknown" and answer["accepted"] is False and answer["trusted"] == []
    assert answer["offered"] == [{"type": "ssh-ed25519", "fingerprint": print_}]
    assert answer["error"]["code"] == "DENIED" and answer["alias"] == "test-box"
    (answer,) = p.json("trust", host, *ways, "--fingerprint", print_)
    assert answer["trust"] == "trusted" and answer["accepted"] is True and "error" not in answer
    (answer,) = p.json("trust", host, *ways)
    assert answer["trust"] == "trusted" and answer["accepted"] is False
    assert p.json("trust", "--list", *ways) == [
        {"alias": "test-box", "type": "ssh-ed25519", "fingerprint": print_}]
    assert p.json("forget", host, *ways) == [{"host": host, "alias": "test-box", "removed": 1}]
    assert p.json("trust", "--list", *ways) == []


def answer_on_a_terminal(p, answer, *words):
    """(status, what was said): the words in a terminal, where somebody answers the question."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(p.here)
        os.execve(TELECHIR, [TELECHIR, *map(str, words)], p.env)
    said = b""
    try:
        while b"[y/N]" not in said:
            said += os.read(fd, 4096)
        os.write(fd, answer)
        while piece := os.read(fd, 4096):
            said += piece
    except OSError:  # how a terminal ends
        pass
    os.close(fd)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said.decode()


def test_trust_asks_on_a_terminal_case_90(p):
    s = p.sshd(trusted=False)
    words = ["trust", s.form, *s.trust_ways()]
    for answer in (b"n\n", b"\n", b"maybe\n", b"\x04"):
        status, said = answer_on_a_terminal(p, answer, *words)
        assert status == 4 and s.fingerprint() in said, (answer, status, said)
        assert not s.known_hosts.exists()
    status, said = answer_on_a_terminal(p, b"\x03", *words)
    assert status == 130 and not s.known_hosts.exists(), (status, said)
    status, said = answer_on_a_terminal(p, b"yes\n", *words)
    assert status == 0 and "trusted" in said, (status, said)
    p.ok("ls", *s.link())


def test_changed_key_stops_everything_case_90(p):
    s = p.sshd()
    p.ok("ls", *s.link())
    old = s.fingerprint()
    s.new_key()
    new = s.fingerprint()
    kept = s.known_hosts.read_bytes()
    for words in (["trust", s.form, *s.trust_ways()],
                  ["trust", s.form, *s.trust_ways(), "--fingerprint", new]):
        r = p.fails(3, *words)
        assert old in r.err and new in r.err and "telechir forget" in r.err, r.err
    (answer,) = p.json("trust", s.form, *s.trust_ways())
    assert answer["trust"] == "changed" and answer["error"]["code"] == "UNTRUSTED"
    assert answer["trusted"][0]["fingerprint"] == old and answer["offered"][0]["fingerprint"] == new
    r = p.fails(3, "write", *s.link(), "marker", "--text", "x")
    assert old in r.err and new in r.err, r.err
    r = p.fails(125, "exec", *s.link(), "--", "touch", "marker")
    assert old in r.err and new in r.err and "UNTRUSTED" in r.err, r.err
    assert s.known_hosts.read_bytes() == kept and not (s.home / "marker").exists()
    p.ok("forget", s.form, *s.trust_ways())
    p.ok("trust", s.form, *s.trust_ways(), "--fingerprint", new)
    p.ok("write", *s.link(), "marker", "--text", "x")


def test_keys_are_kept_under_host_and_port(p):
    s = p.sshd()
    p.ok("trust", f"127.0.0.1:{s.port}", "--ssh-config", s.config, "--fingerprint", s.fingerprint())
    f = p.base / "config/telechir/known_hosts"
    assert f.read_text().startswith(f"[127.0.0.1]:{s.port} ssh-ed25519 ")
    assert stat.S_IMODE(f.stat().st_mode) == 0o600
    p.ok("ls", "--on", f"ssh:127.0.0.1:{s.port}", "--ssh-config", s.config, "--identity", s.base / "id")


def test_alias_of_the_ssh_configuration(p):
    s = p.sshd()
    s.config.write_text(f"Host gpu-box\n  HostName 127.0.0.1\n  Port {s.port}\n  IdentityFile {s.base}/id\n"
                        "  IdentitiesOnly yes\n  ForwardAgent yes\n")
    config = ["--ssh-config", str(s.config)]
    p.ok("trust", "gpu-box", *config, "--fingerprint", s.fingerprint())
    assert (p.base / "config/telechir/known_hosts").read_text().startswith("gpu-box ")
    assert p.ok("exec", "--on", "ssh:gpu-box", *config, "--", "echo", "hello").text == "hello\n"
    r = p.ok("exec", "--verbose", "--on", "ssh:gpu-box", *config, "--", "true")
    assert "forwardagent" in r.err and "not used" in r.err, r.err


def test_unreachable_and_refused_logins(p):
    s = p.sshd()
    r = p.fails(3, "trust", "127.0.0.1:1", *s.trust_ways())
    assert "nothing listens" in r.err, r.err
    p.fails(3, "ls", "--on", "ssh:127.0.0.1:1", *s.ways())
    r = p.fails(125, "exec", "--on", "ssh:127.0.0.1:1", *s.ways(), "--", "true")
    assert "CONNECT" in r.err, r.err
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", p.base / "stranger"], check=True)
    ways = s.ways()
    ways[ways.index("--identity") + 1] = str(p.base / "stranger")
    (answer,) = p.json("ls", "--on", s.form, *ways)
    assert answer["error"]["code"] == "AUTH", answer
    p.fails(3, "ls", "--on", s.form, *ways)
    for form in ("ssh:", "ssh:-oProxyCommand=touch", "ssh:a b", "ssh:host:port", "ssh:host:0"):
        p.fails(2, "ls", "--on", form)
        p.fails(2, "target", "add", "x", form)
    p.fails(2, "trust", "-oProxyCommand=touch")
    p.fails(2, "trust")
    p.fails(2, "trust", "--list", "--fingerprint", "SHA256:x")
    p.fails(2, "forget")
    p.fails(2, "ls", "--on", s.form, "--device-id", "x")
    p.fails(2, "ls", "--known-hosts", "x")


# ---- targets ----

def saved(p, s, name):
    p.ok("target", "add", name, s.form, *s.ways())


def test_saved_ssh_targets(p):
    s = p.sshd()
    saved(p, s, "box")
    (shown,) = p.json("target", "show", "box")
    assert shown == {"name": "box", "form": s.form, "known_hosts": str(s.known_hosts),
                     "host_key_alias": "test-box", "identity": str(s.base / "id"),
                     "ssh_config": str(s.config)}
    assert p.json("target", "ls") == [shown]
    assert "already trusted" in p.ok("trust", "box").err
    (s.home / "sub").mkdir()
    (s.home / "sub/f.txt").write_text("needle\n")
    assert p.ok("ls", "--on", "box").text == "sub\n"
    assert p.ok("cat", "box:sub/f.txt").text == "needle\n"
    assert p.ok("cat", f"box:{s.home}/sub/f.txt").text == "needle\n"
    assert p.ok("cat", *s.ways(), f"{s.form}:{s.home}/sub/f.txt").text == "needle\n"
    assert p.ok("cat", *s.ways(), f"{s.form}:~/sub/f.txt").text == "needle\n"
    assert p.ok("ls", "box:sub").text == "f.txt\n"
    assert p.ok("find", "*.txt", "box:").text == "box:sub/f.txt\n"
    assert p.ok("grep", "needle", "box:sub").text == "box:sub/f.txt:1:needle\n"
    p.ok("write", "box:new", "--text", "one")
    p.ok("edit", "box:new", "--old", "one", "--new", "two")
    assert (s.home / "new").read_text() == "two"
    p.ok("mkdir", "-p", "box:a/b")
    assert (s.home / "a/b").is_dir()
    p.ok("rm", "-r", "box:a", "box:new")
    assert sorted(os.listdir(s.home)) == [".cache", "sub"]
    (p.here / "odd:name").write_text("a colon in a name\n")
    assert p.ok("cat", "odd:name").text == "a colon in a name\n"
    p.ok("target", "rm", "box")
    assert p.json("target", "list") == []


def test_target_check_over_ssh_and_local(p):
    s = p.sshd()
    saved(p, s, "box")
    (box,) = p.json("target", "check", "box")
    assert "error" not in box, box
    assert box["provider"] == "ssh" and box["system"]["os"] == "linux" and box["commands"] is True
    assert box["host_keys"][0]["fingerprint"] == s.fingerprint()
    assert box["daemon"]["path"].startswith(str(s.home)) and "telechird" in box["daemon"]["version"]
    assert box["round_trip_us"] > 0 and box["working_directory"] == str(s.home)
    text = p.ok("target", "check", "box").text
    for word in (s.fingerprint(), "daemon:", "system:", "round trip:", "user:"):
        assert word in text, text
    (local,) = p.json("target", "check", "local")
    assert local["provider"] == "local" and local["daemon"]["path"].endswith("telechird")
    s.close()
    p.fails(3, "target", "check", "box")


# ---- commands ----

def test_exec_carries_twenty_megabytes_unchanged(p):
    data = os.urandom(20 << 20)
    s = p.sshd()
    for link in ([], s.link()):
        r = p.ok("exec", *link, "--stdin", "--", "cat", stdin=data)
        assert hashlib.sha256(r.stdout).digest() == hashlib.sha256(data).digest(), len(r.stdout)


def test_exec_tells_every_signal_case_5(p):
    s = p.sshd()
    for link in ([], s.link()):
        for signum in (signal.SIGTERM, signal.SIGSEGV, signal.SIGUSR1):
            r = p.run("sh", *link, f"kill -{int(signum)} $$")
            assert r.returncode == 128 + signum, (r.returncode, r.err)
        end = p.json("sh", *link, "kill -10 $$")[-1]
        assert end["signal_number"] == 10 and end["status"] == 138 and "exit_code" not in end, end


def test_variables_arrive_byte_for_byte_case_92(p):
    s = p.sshd()
    value = "a=b\nc 'd' \"e\" $f `g` \\ \u20ac\n"
    for link in ([], s.link(), [*s.link(), "--login-shell"]):
        r = p.ok("exec", *link, "--env", "ODD", "--", "printenv", "ODD", env={"ODD": value})
        assert r.text == value + "\n", (link, r.text)


def test_noise_of_login_files_reaches_nobody_case_88(p):
    s = p.sshd()
    (s.base / "login.before").write_text(
        "printf '\\033[31mwelcome\\033[0m\\n'; echo one; echo two; head -c 70000 /dev/zero | tr '\\0' x; echo\n"
        "echo warned >&2\n")
    data = os.urandom(100000)
    r = p.ok("exec", *s.link(), "--stdin", "--", "cat", stdin=data)
    assert r.stdout == data and r.err == "", r.err[:300]
    r = p.ok("exec", *s.link(), "--verbose", "--", "true")
    assert "warned" in r.err, r.err[:2000]


def test_interrupt_reaches_the_command_over_ssh(p):
    s = p.sshd()
    run = p.start("exec", *s.link(), "--json", "--", "sh", "-c", "echo $$; sleep 600 & echo $!; wait")
    pids = []
    while len(pids) < 2:
        event = json.loads(run.stdout.readline())
        if event["event"] == "output":
            pids += map(int, event["data"].split())
    assert all(map(is_alive, pids))
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=LIMIT)
    end = json.loads(out.splitlines()[-1])
    assert run.returncode == 130 and end["outcome"] == "killed" and end["interrupted"], (end, err)
    until(lambda: not any(map(is_alive, pids)))


def test_interrupt_while_connecting_leaves_nothing(p):
    s = p.sshd()
    (s.base / "login.before").write_text(f"echo $$ > {p.base}/slow; sleep 600\n")
    run = p.start("exec", *s.link(), "--", "touch", "marker")
    pid = wait_for_pid(p.base / "slow")
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=LIMIT)
    assert run.returncode == 130, (run.returncode, err)
    assert not (s.home / "marker").exists()
    until(lambda: not s.sessions())
    for left in (*descendants(pid), pid):  # login files are not ours to end
        kill(left)


def test_lost_link_under_a_command_case_71(p):
    s = p.sshd()
    for flags in ([], ["--json"]):
        run = p.start("sh", *s.link(), *flags, "echo $$; sleep 600; touch marker")
        while True:
            line = run.stdout.readline().decode()
            if not flags:
                pid = int(line)
                break
            event = json.loads(line)
            if event["event"] == "output":
                pid = int(event["data"])
                break
        s.cut()
        out, err = run.communicate(timeout=LIMIT)
        assert run.returncode == 125 and b"could not be confirmed" in err, (run.returncode, err)
        if flags:
            end = json.loads(out.splitlines()[-1])
            assert end["outcome"] == "unknown" and end["status"] == 125, end
        until(lambda: not is_alive(pid))  # the daemon there saw it, too
    assert not (s.home / "marker").exists() and os.listdir(p.here) == []


# ---- copies ----

def test_cp_trees_over_ssh(p):
    s, d = p.sshd(), p.daemon()
    saved(p, s, "box")
    p.ok("target", "add", "web", d.url, *d.link()[2:])
    tree(p.here / "src")
    p.ok("cp", "-r", "src", "box:up")
    assert contents(s.home / "up") == contents(p.here / "src")
    p.ok("cp", "-r", "box:up", "back")
    assert contents(p.here / "back") == contents(p.here / "src")
    p.ok("cp", "-r", "box:up", "web:over")
    assert contents(d.work / "over") == contents(p.here / "src")
    p.ok("cp", "-r", "web:over", "box:again")
    assert contents(s.home / "again") == contents(p.here / "src")
    p.ok("cp", "-r", "box:up", "box:twice")
    assert contents(s.home / "twice") == contents(p.here / "src")
    p.ok("cp", *s.ways(), "src/a.txt", f"{s.form}:~/by-form")
    assert (s.home / "by-form").read_text() == "text\n"
    p.fails(2, "cp", *s.ways(), "src/a.txt", s.form)
    (answer,) = p.json("cp", "-r", "--checksum", "src/.", "box:up")
    assert answer["equal"] == 5 and answer["files"] == 0, answer


def test_cp_replaces_whole_and_keeps_the_mode(p):
    s = p.sshd()
    saved(p, s, "box")
    (p.here / "f").write_bytes(os.urandom(3 << 20))
    (s.home / "f").write_text("old")
    (s.home / "f").chmod(0o640)
    inode = (s.home / "f").stat().st_ino
    p.ok("cp", "f", "box:f")
    assert (s.home / "f").read_bytes() == (p.here / "f").read_bytes()
    assert stat.S_IMODE((s.home / "f").stat().st_mode) == 0o640
    assert (s.home / "f").stat().st_ino != inode  # another file took its place
    p.ok("cp", "box:f", "down")
    assert (p.here / "down").read_bytes() == (p.here / "f").read_bytes()
    (answer,) = p.json("cp", "--checksum", "f", "box:f")
    assert answer["equal"] == 1 and answer["files"] == 0, answer
    data = bytearray((p.here / "f").read_bytes())
    data[-1] ^= 1
    (p.here / "f").write_bytes(data)
    (answer,) = p.json("cp", "--checksum", "f", "box:f")
    assert answer["equal"] == 0 and answer["files"] == 1, answer
    (answer,) = p.json("cp", "--checksum", "box:f", "f")
    assert answer["equal"] == 1, answer
    odd = "odd\\name\n"
    (p.here / odd).write_bytes(data)
    p.ok("cp", odd, "box:.")
    (answer,) = p.json("cp", "--checksum", odd, "box:.")
    assert answer["equal"] == 1, answer


def test_cp_many_small_files_over_ssh(p):
    s = p.sshd()
    saved(p, s, "box")
    src = p.here / "src"
    for i in range(30):
        (src / f"d{i}/deep/er").mkdir(parents=True)
        for k in range(20):
            (src / f"d{i}/deep/er/f{k}").write_bytes(os.urandom(i * 100 + k))
    (answer,) = p.json("cp", "-r", "src", "box:up")
    assert answer["files"] == 600 and answer["folders"] == 90, answer
    assert contents(s.home / "up") == contents(src)
    p.ok("cp", "-r", "box:up", "down")
    assert contents(p.here / "down") == contents(src)


def test_cp_small_files_arrive_as_what_they_are(p):
    s = p.sshd()
    saved(p, s, "box")
    src, sizes = p.here / "src", (0, 1, 4096, 65535, 65536, 65537, 300000)
    for d in range(7):
        (src / f"d{d}").mkdir(parents=True)
        for i, size in enumerate(sizes):
            (src / f"d{d}/f{i}").write_bytes(os.urandom(size))
            (src / f"d{d}/f{i}").chmod((0o600, 0o644, 0o700, 0o755)[(d + i) % 4])
    count = 7 * len(sizes)

    def check(got):
        assert contents(got) == contents(src)
        for f in src.glob("*/*"):
            mode, there = f.stat().st_mode, (got / f.relative_to(src)).stat().st_mode
            assert bool(mode & 0o100) == bool(there & 0o100) and bool(mode & 0o077) == bool(there & 0o077), f

    for n, jobs in enumerate(((), ("--jobs", "1"), ("--jobs", "13"))):
        (answer,) = p.json("cp", "-r", *jobs, "src", f"box:up{n}")
        assert answer["files"] == count and answer["bytes"] == 7 * sum(sizes), answer
        check(s.home / f"up{n}")
        (answer,) = p.json("cp", "-r", *jobs, f"box:up{n}", f"down{n}")
        assert answer["files"] == count and answer["bytes"] == 7 * sum(sizes), answer
        check(p.here / f"down{n}")
    # What is in the way is told, and everything else is replaced.
    for where, words in ((s.home / "up0", ("src/.", "box:up0")), (p.here / "down0", ("box:up1/.", "down0"))):
        for f in where.glob("*/*"):
            f.write_text("old")
        (where / "d3/f2").unlink()
        (where / "d3/f2").mkdir()
        lines = p.json("cp", "-r", *words)
        assert [line["path"].endswith("d3/f2") for line in lines[:-1]] == [True], lines
        assert lines[-1]["failed"] == 1 and lines[-1]["files"] == count - 1, lines
        assert not list(where.glob("*/.*"))  # no candidate is left


def is_being_written(s):
    """A daemon there holds a file with something in it, under another name or none."""
    for pid in (d for session in s.sessions() for d in descendants(session)):
        for fd in pathlib.Path(f"/proc/{pid}/fd").glob("*"):
            try:
                if os.readlink(fd).startswith(f"{s.home}/") and not os.readlink(fd).startswith(f"{s.home}/.cache"):
                    if stat.S_ISREG(fd.stat().st_mode) and fd.stat().st_size > 0:
                        return True
            except OSError:
                continue
    return False


def test_killed_daemon_leaves_no_file_and_no_folder(p):
    s = p.sshd()
    saved(p, s, "box")
    p.ok("ls", "box:")
    temp = s.base / "temp"
    temp.mkdir()
    (s.base / "login.before").write_text(f"TMPDIR={temp}; export TMPDIR\n")
    for words in (["write", "box:new"], ["write", "--create", "box:new"]):  # natively, and through the tunnel
        run = p.start(*words, stdin=subprocess.PIPE)
        run.stdin.write(os.urandom(3 << 20))
        run.stdin.flush()
        until(lambda: is_being_written(s))
        for pid in (d for session in s.sessions() for d in descendants(session)):
            if name_of(pid).startswith("telechird"):
                kill(pid)
        try:
            run.stdin.close()
        except BrokenPipeError:
            pass
        assert run.wait(LIMIT) in (3, 5), run.stderr.read()
    left = list(temp.glob("telechird-*"))
    for folder in left:
        os.utime(folder / ".a13n-envd.lock", (0, 0))  # it has been dead for a while
    p.ok("mkdir", "box:d")  # the next one that needs a folder for this clears up
    assert sorted(os.listdir(s.home)) == [".cache", "d"]
    assert not list(temp.glob("telechird-*"))


def test_login_file_that_ends_the_shell_is_explained(p):
    s = p.sshd()
    p.ok("ls", *s.link())
    (s.home / ".profile").write_text("exit 3\n")
    r = p.fails(3, "ls", *s.link(), "--login-shell")
    assert "login file" in r.err and "--login-shell" in r.err, r.err
    p.ok("ls", *s.link())


def test_cp_interrupted_or_cut_leaves_no_part_case_71(p):
    s = p.sshd()
    saved(p, s, "box")
    os.mkfifo(p.here / "gate")
    big = os.urandom(1 << 20)
    for how in ("cut", "interrupt"):
        run = p.start("write", "box:new", stdin=subprocess.PIPE)
        run.stdin.write(big)
        run.stdin.flush()
        until(lambda: is_being_written(s))
        if how == "cut":
            s.cut()
        else:
            run.send_signal(signal.SIGINT)
        try:
            run.stdin.write(big)
            run.stdin.close()
        except BrokenPipeError:
            pass
        run.wait(LIMIT)
        assert run.returncode in ((3, 5) if how == "cut" else (130,)), (how, run.returncode, run.stderr.read())
        until(lambda: os.listdir(s.home) == [".cache"])


# ---- trees ----

def test_tree(p):
    s = p.sshd()
    for link, work in (([], p.here), (s.link(), s.home)):
        (work / "t/src/deep").mkdir(parents=True)
        (work / "t/.git").mkdir()
        (work / "t/.git/config").write_text("")
        (work / "t/node_modules/x").mkdir(parents=True)
        (work / "t/src/a.c").write_text("")
        (work / "t/src/deep/b.c").write_text("")
        (work / "t/.hidden").write_text("")
        (work / "t/.gitignore").write_text("*.o\n")
        (work / "t/src/a.o").write_text("")
        (work / "t/link").symlink_to("src")
        lines = p.json("tree", *link, "--exclude", "node_modules", "t")
        assert [e["relative_path"] for e in lines] == [".gitignore", ".hidden", "link", "src", "src/a.c", "src/deep",
                                              "src/deep/b.c"], lines
        assert {e["relative_path"]: e["kind"] for e in lines}["link"] == "symlink"
        text = p.ok("tree", *link, "t").text
        assert text.splitlines()[0] == "t" and "\n    a.c\n" in text and "\n  src/\n" in text, text
        assert "node_modules" in text and ".git/" not in text and "a.o" not in text
        assert "a.o" in p.ok("tree", *link, "--no-ignore", "t").text
        assert ".hidden" not in p.ok("tree", *link, "--no-hidden", "t").text
        r = p.ok("tree", *link, "--max-entries", "2", "t")
        assert len(r.text.splitlines()) == 3 and "cut after 2" in r.err, r.err
        lines = p.json("tree", *link, "--max-entries", "2", "t")
        assert len(lines) == 3 and lines[-1]["truncated"] is True and lines[-1]["shown"] == 2
        p.fails(1, "tree", *link, "missing")
        p.fails(1, "tree", *link, "t/.hidden")


# ---- doctor and demo ----

def test_doctor(p):
    s = p.sshd()
    findings = p.json("doctor", *s.link())
    there = {f["check"]: f for f in findings if f["side"] == "there"}
    for check in ("host key", "reach", "system", "daemon", "files", "commands", "find and grep", "listing",
                  "watching"):
        assert there[check]["status"] == "ok", there[check]
    here = {f["check"]: f for f in findings if f["side"] == "here"}
    assert here["ssh"]["status"] == "ok" and "OpenSSH" in here["ssh"]["detail"]
    assert here["daemon"]["status"] == "ok"
    p.ok("doctor")
    d = p.daemon(full_control=False)
    findings = p.json("doctor", *d.link())
    assert any(f["check"] == "commands" and f["status"] == "note" for f in findings), findings
    s.new_key()
    r = p.run("doctor", *s.link())
    assert r.returncode == 3 and "failed" in r.text and s.fingerprint() in r.text, (r.returncode, r.text)
    s.close()
    r = p.run("doctor", *s.link())
    assert r.returncode == 3, r.text


def test_demo_over_ssh(p):
    r = p.ok("demo", "--transport", "ssh")
    for line in ("re-entry read: hello from remote envd", "independent Sessions: True"):
        assert line in r.text.splitlines(), r.text
    assert "the link broke" in r.text and "over a new link" in r.text
    assert not list(p.tmp.iterdir())
    (answer,) = p.json("demo", "--transport", "ssh")
    assert answer["re_entry_read"] == "hello from remote envd"
    assert answer["outcome_of_lost_command"] == "unknown"
    assert answer["second_daemon"] != answer["daemon_after_loss"]
    assert not list(p.tmp.iterdir()) and not (p.base / "config").exists()


if __name__ == "__main__":
    sys.exit(run_tests(globals()))
