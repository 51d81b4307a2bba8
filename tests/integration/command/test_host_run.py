#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Devices of a Host as targets of every command: host:NAME. A real Host, and real daemons that dial in to it with
`telechird connect`. TELECHIR is the program, with telechird beside it; an argument picks tests by name."""

import json
import os
import pathlib
import resource
import signal
import socket
import sys

from peers import TELECHIRD, free_port
from sshd import NoServer
from test_command import LIMIT, run_tests
from test_host import Device, Envd, Host, make_certificate, until
from test_host_external import add, token_of
from test_run import Follower, call, results, script, turn
from test_run_disk import BAD_DISK
from test_run_kills import go


class Hand(Envd):
    """A machine behind a Host, with Full Control, and a folder to work in."""

    def __init__(self, p, host, name="work", instance=None, options=(), program=TELECHIRD):
        super().__init__(p, program, host, instance or name, options)
        self.work = p.base / f"remote-{instance or name}"
        self.work.mkdir()
        prefix = "TELECHIRD" if program == TELECHIRD else "A13N_ENVD"
        self.more = {f"{prefix}_FULL_CONTROL": "true", f"{prefix}_NAME": name,
                     f"{prefix}_DEFAULT_WORKING_DIRECTORY": str(self.work)}

    def enroll(self):
        self.start()
        self.p.ok("devices", "approve", self.code(), "--host", self.host.url)
        return self.online()

    def online(self):
        until(lambda: any(d["online"] and d["device_id"] == self.identity for d in self.all()), "online")
        return self

    def all(self):
        return self.p.json("devices", "--host", self.host.url)

    @property
    def identity(self):
        return (self.state / f"instances/{self.name}/device-id").read_text().strip()

    @property
    def id(self):
        return next(d["id"] for d in self.all() if d["device_id"] == self.identity)


# ---- every command ----

def test_every_command_works_there(p):
    host = Host(p).login()
    d = Hand(p, host).enroll()
    on = ("--on", "host:work")
    r = p.run("exec", *on, "--env", "WORD=there", "--", "sh", "-c", 'echo "$WORD"; pwd; echo no >&2; exit 7')
    assert (r.returncode, r.text, r.err) == (7, f"there\n{d.work}\n", "no\n"), r.shown
    assert p.run("exec", *on, "--timeout", "0.5", "--", "sleep", "60").returncode == 124
    assert p.ok("sh", *on, "--stdin", "tr a-z A-Z", stdin=b"loud").text == "LOUD"
    (p.here / "tree").mkdir()
    (p.here / "tree/a.txt").write_text("needle\n")
    (p.here / "big.bin").write_bytes(os.urandom(3 << 20))
    p.ok("cp", "-r", "tree", "big.bin", f"host:work:{d.work}")
    assert (d.work / "big.bin").read_bytes() == (p.here / "big.bin").read_bytes()
    p.ok("cp", f"host:work:{d.work}/big.bin", "back.bin")
    assert (p.here / "back.bin").read_bytes() == (p.here / "big.bin").read_bytes()
    p.ok("write", *on, "note.txt", stdin=b"one two\n")
    p.ok("edit", *on, "note.txt", "--old", "two", "--new", "three")
    assert p.ok("cat", f"host:work:{d.work}/note.txt").text == "one three\n"
    assert set(p.ok("ls", *on).text.split()) == {"big.bin", "note.txt", "tree"}
    assert "a.txt" in p.ok("tree", *on).text
    assert "a.txt" in p.ok("find", *on, "*.txt").text
    assert "needle" in p.ok("grep", *on, "need", "tree").text
    p.ok("mkdir", *on, "-p", "x/y")
    p.ok("rm", *on, "-r", "x", "tree")
    assert set(p.ok("ls", *on).text.split()) == {"big.bin", "note.txt"}
    looked = p.json("target", "check", "host:work")[0]
    assert looked["host"] == host.url and looked["device_id"] == d.identity and looked["commands"], looked
    assert host.url in p.ok("target", "check", "host:work").text
    assert p.ok("doctor", *on).returncode == 0
    assert p.ok("sh", "--on", f"host:{d.id}", "pwd").text == f"{d.work}\n"  # by id


def test_names_that_urls_do_not_hold(p):
    host = Host(p).login()
    name = "mäx / 100% +?#&="
    d = Hand(p, host, name, "odd").enroll()
    assert p.ok("sh", "--on", f"host:{name}", "pwd").text == f"{d.work}\n"
    (p.here / "a").write_text("a")
    p.ok("cp", "a", f"host:{name}:{d.work}/b")
    assert (d.work / "b").read_text() == "a"
    assert p.ok("devices", "revoke", name)


def test_external_ones_are_targets_too(p):
    d, host = p.daemon(), Host(p).login()
    add(p, d)
    assert p.ok("sh", "--on", "host:gpu", "pwd").text == f"{d.work}\n"
    (p.here / "a").write_bytes(os.urandom(1 << 20))
    p.ok("cp", "a", f"host:gpu:{d.work}/a")
    assert (d.work / "a").read_bytes() == (p.here / "a").read_bytes()
    d.kill()
    r = p.fails(3, "ls", "--on", "host:gpu")
    assert "gpu" in r.err and d.token not in r.err, r.err
    d.restart()
    until(lambda: host.device("gpu")["online"], "online again")
    assert p.ok("sh", "--on", "host:gpu", "pwd").text == f"{d.work}\n"
    p.ok("devices", "remove", "gpu")
    p.fails(3, "ls", "--on", "host:gpu")


# ---- what cannot be reached ----

def refused(p, name, *words, options=()):
    """Each command says the same: status 3, and the next step."""
    on, marker = ("--on", f"host:{name}", *options), p.base / "marker"
    model = script(p, turn("", call("bash", command=f"touch {marker}")), turn("Done."))
    for command in (("ls", *on), ("target", "check", f"host:{name}", *options), ("run", *on, *model, "hello"),
                    ("doctor", *on), ("cp", "--json", "nothing", f"host:{name}:/tmp/x", *options)):
        r = p.run(*command)
        assert r.returncode == 3, r.shown
        for word in words:
            assert word in r.err + r.text, (word, r.shown)
    assert not marker.exists()  # neither here nor there
    r = p.run("exec", *on, "--json", "--", "true")
    assert r.returncode == 125, r.shown
    end = json.loads(r.stdout.splitlines()[-1])
    assert end["outcome"] == "not_started" and end["error"]["code"] in ("AUTH", "NOT_READY", "CONNECT"), end


def test_what_cannot_be_reached_says_the_next_step_case_71(p):
    refused(p, "work", "telechir host login")
    r = p.fails(3, "target", "add", "w", "host:work")
    assert "telechir host login" in r.err
    host = Host(p).login()
    refused(p, "nobody", "nobody", f"telechir devices --host {host.url}")
    waiting = Device("waiting")
    host.pair(waiting)
    refused(p, "waiting", "waits for approval", "devices approve")
    d = Hand(p, host).enroll()
    d.stop()
    until(lambda: not host.device()["online"], "offline")
    refused(p, "work", "offline", "telechird connect")
    identity, id = d.identity, d.id
    again = Hand(p, host, "work", "work2").enroll()
    refused(p, "work", "2 devices", "host:ID", f"--host {host.url}")
    assert p.ok("sh", "--on", f"host:{again.id}", "pwd").text == f"{again.work}\n"
    p.ok("devices", "revoke", id)
    assert p.ok("sh", "--on", "host:work", "pwd").text == f"{again.work}\n"  # one is left
    refused(p, id, "revoked", "telechird connect")
    r = p.fails(3, "ls", "--on", "host:work", "--device-id", identity)
    assert again.identity in r.err, r.err
    p.ok("devices", "revoke", "work")
    refused(p, "work", "revoked")
    host.stop()
    refused(p, "work", host.url)
    p.fails(3, "ls", "--on", "host:work", "--host", "http://127.0.0.1:1")
    for words in (("ls", "--on", "host:"), ("ls", "--on", "host:work", "--known-hosts", "x"),
                  ("ls", "--host", host.url), ("ls", "--on", "host:work", "--host", "nonsense"),
                  ("cp", "a", "host:work")):
        p.fails(2, *words)


def test_token_that_is_no_longer_good(p):
    host = Host(p).login()
    Hand(p, host).enroll()
    saved = pathlib.Path(p.env["XDG_CONFIG_HOME"], "telechir/hosts.json")
    kept = saved.read_text()
    p.ok("host", "logout")
    saved.write_text(kept)
    r = p.fails(3, "ls", "--on", "host:work")
    assert f"telechir host login {host.url}" in r.err, r.err


# ---- which Host ----

def test_saved_target_keeps_its_host(p):
    one, two = (Host(p, data=p.base / name).login() for name in ("one", "two"))  # two was signed in to last
    first, second = (Hand(p, host, "work", f"i{n}").enroll() for n, host in enumerate((one, two)))
    p.ok("target", "add", "here", "host:work")
    p.ok("target", "add", "there", "host:work", "--host", one.url.rstrip("/"))
    assert [t["host"] for t in p.json("target", "list")] == [two.url, one.url]
    assert one.url in p.ok("target", "show", "there").text and two.url in p.ok("target", "list").text
    for words, d in ((("there",), first), (("here",), second), (("host:work",), second),
                     (("host:work", "--host", one.url), first)):
        assert p.ok("sh", "--on", *words, "pwd").text == f"{d.work}\n", words
    (p.here / "x").write_text("x")
    p.ok("cp", "x", f"there:{first.work}/x")
    assert (first.work / "x").read_text() == "x"
    one.login_again()
    assert p.ok("sh", "--on", "here", "pwd").text == f"{second.work}\n"
    assert p.ok("sh", "--on", "host:work", "pwd").text == f"{first.work}\n"
    saved = pathlib.Path(p.env["XDG_CONFIG_HOME"], "telechir/targets.json").read_text()
    assert token_of(p) not in saved


def login_again(host):
    link = host.p.json("host", "link", "--host", host.url)[0]["url"]
    host.p.ok("host", "login", host.url, stdin=link.encode())


Host.login_again = login_again


def test_host_with_a_certificate_and_a_path(p):
    cert, key = p.base / "cert.pem", p.base / "key.pem"
    make_certificate(cert, key)
    port = free_port()
    url = f"https://127.0.0.1:{port}/hands"
    host = Host(p, "--tls-cert", cert, "--tls-key", key, "--public-url", url, bind=f"127.0.0.1:{port}")
    assert host.url == url + "/"
    p.ok("host", "login", url, "--ca-file", cert, stdin=host.link.encode())
    d = Hand(p, host, options=("--ca-file", cert)).enroll()
    assert p.ok("sh", "--on", "host:work", "pwd").text == f"{d.work}\n"
    (p.here / "a").write_bytes(os.urandom(1 << 20))
    p.ok("cp", "a", f"host:work:{d.work}/a")
    assert (d.work / "a").read_bytes() == (p.here / "a").read_bytes()
    for words in (("ls", "--on", "host:work", "--ca-file", cert), ("ls", "--on", "host:work", "--insecure")):
        assert "means nothing" in p.fails(2, *words).err  # that is for `host login` to say
    saved = pathlib.Path(p.env["XDG_CONFIG_HOME"], "telechir/hosts.json")
    trusting = json.loads(saved.read_text())
    del trusting["hosts"][0]["ca_file"]
    saved.write_text(json.dumps(trusting))
    assert "certificate" in p.fails(3, "ls", "--on", "host:work").err


# ---- agents ----

def test_session_goes_on_at_its_host_and_its_device(p):
    one, two = (Host(p, data=p.base / name).login() for name in ("one", "two"))
    other, d = (Hand(p, host, "work", f"i{n}").enroll() for n, host in enumerate((one, two)))
    session = p.base / "s.sqlite"
    words = script(p, turn("", call("bash", "c1", command="pwd")), turn("Done."),
                   turn("", call("bash", "c2", command="pwd")), turn("Again."),
                   turn("", call("bash", "c3", command="pwd")), turn("Moved."))
    r = p.ok("run", "--session", session, "--on", "host:work", *words, "where?")
    assert r.text == "Done.\n" and "[host:work, " in r.err, r.err
    one.login_again()  # host:work is another machine now, for those who begin
    assert p.ok("run", "--session", session, "and now?").text == "Again.\n"
    assert [t[2] for t in results(p, session)] == [f"{d.work}\n"] * 2
    dump = p.ok("sessions", "dump", session).text
    assert two.url in dump and d.identity in dump and "host:work" in dump
    tokens = [h["token"] for h in json.loads(
        pathlib.Path(p.env["XDG_CONFIG_HOME"], "telechir/hosts.json").read_text())["hosts"]]
    assert len(tokens) == 2
    for f in p.base.glob("s.sqlite*"):
        assert not [t for t in tokens if t.encode() in f.read_bytes()], f
    # The name goes to another machine: that is not where this session was.
    p.ok("devices", "revoke", "work", "--host", two.url)
    new = Hand(p, two, "work", "new").enroll()
    r = p.fails(3, "run", "--session", session, "and now?")
    assert new.identity in r.err and "--on host:work" in r.err, r.err
    r = p.ok("run", "--session", session, "--on", "host:work", "--host", two.url, "go on there")
    assert results(p, session)[-1][2] == f"{new.work}\n", r.shown
    assert other.process.poll() is None


def test_chat_moves_to_a_device(p):
    host = Host(p).login()
    d = Hand(p, host).enroll()
    words = script(p, turn("", call("bash", "c1", command="pwd")), turn("Here."),
                   turn("", call("bash", "c2", command="pwd")), turn("There."))
    r = p.ok("chat", "--session", p.base / "s.sqlite", *words, stdin=b"where?\n/on host:work\nand now?\n")
    assert "Here." in r.text and "There." in r.text, r.shown
    assert [t[2] for t in results(p, p.base / "s.sqlite")] == [f"{os.path.realpath(p.here)}\n", f"{d.work}\n"]


def test_token_is_in_no_argument_and_no_output_case_62(p):
    host = Host(p).login()
    d = Hand(p, host).enroll()
    token = token_of(p)
    words = script(p, turn("", call("bash", command="env; tr '\\0' '\\n' <\"/proc/$PPID/cmdline\"; echo begun; sleep 600")))
    run = Follower(p, "--session", p.base / "s.sqlite", "--on", "host:work", "--verbose", *words, "wait")
    run.wait_output("begun")
    for f in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = f.read_bytes()
        except OSError:
            continue
        assert token.encode() not in line, line
    run.process.send_signal(signal.SIGINT)
    out, err = run.process.communicate(timeout=LIMIT)
    texts = [out, err, d.log.read_bytes(), json.dumps(run.events).encode()]
    texts += [f.read_bytes() for f in p.base.glob("s.sqlite*")] + [f.read_bytes() for f in host.data.iterdir()]
    assert not [t for t in texts if token.encode() in t]


def core_of(p, *words):
    """Whether a core file is left when the program crashes while it waits for a Host that says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        saved = pathlib.Path(p.env["XDG_CONFIG_HOME"], "telechir/hosts.json")
        saved.parent.mkdir(parents=True, exist_ok=True)
        saved.write_text(json.dumps({"hosts": [{"url": f"http://127.0.0.1:{deaf.getsockname()[1]}/", "token": "0" * 64}]}))
        run = p.start(*words, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2))
        asked = deaf.accept() if words[0] != "sh" else run.stdout.readline()
        run.send_signal(signal.SIGABRT)
        run.communicate(timeout=LIMIT)
        assert asked and run.returncode == -signal.SIGABRT, run.returncode
    return [f for f in p.here.iterdir() if f.name.startswith("core")]


def test_token_is_in_no_core_file_case_62(p):
    if resource.getrlimit(resource.RLIMIT_CORE)[1] != resource.RLIM_INFINITY:
        raise NoServer("core files are limited here")
    assert not core_of(p, "devices")
    assert not core_of(p, "ls", "--on", "host:work")
    if not core_of(p, "sh", "echo begun; sleep 600"):  # without a token it may leave one
        raise NoServer("core files are not left in the folder here")


def killed_in_the_middle(p, d, name="work", meanwhile=lambda: None):
    """A run that is killed while a command runs over there, which ends before the session is taken up again."""
    session, go = p.base / "s.sqlite", d.work / "go"
    command = f"echo begun; while [ ! -e {go} ]; do sleep 0.02; done; echo x >>marks; echo over"
    words = script(p, turn("", call("bash", "c1", command=command)), turn("Done."))
    run = Follower(p, "--session", session, "--on", f"host:{name}", *words, "do it")
    run.wait_output("begun")
    run.kill()
    go.touch()
    until(lambda: (d.work / "marks").exists(), "it ends")
    meanwhile()
    r = p.ok("run", "--session", session)
    assert r.text == "Done.\n", r.shown
    (_, is_error, text), = results(p, session)
    assert (d.work / "marks").read_text() == "x\n"  # once
    assert is_error and "was interrupted" in text and "begun" in text, text
    return r, text


def test_outcome_is_known_from_the_receipt_after_a_kill_case_81(p):
    r, text = killed_in_the_middle(p, Hand(p, Host(p).login()).enroll())
    assert "was started on the device" in text and "was started on the device" in r.err, (text, r.err)


def test_receipt_is_there_after_the_host_was_killed_too_case_81(p):
    host = Host(p).login()
    d = Hand(p, host).enroll()

    def meanwhile():
        host.restart(signal.SIGKILL)
        d.online()

    r, text = killed_in_the_middle(p, d, meanwhile=meanwhile)
    assert "was started on the device" in text and "was started on the device" in r.err, (text, r.err)


def test_receipt_of_the_reference_daemon_case_81(p):
    if not os.environ.get("A13N_ENVD"):
        raise NoServer("A13N_ENVD names no other daemon")
    d = Hand(p, Host(p).login(), program=os.environ["A13N_ENVD"]).enroll()
    assert p.run("sh", "--on", "host:work", "pwd; exit 3").returncode == 3
    r, text = killed_in_the_middle(p, d)
    assert "was started on the device" in text and "was started on the device" in r.err, (text, r.err)


def test_receipt_of_one_that_runs_behind_http_case_81(p):
    d, host = p.daemon(), Host(p).login()
    add(p, d)
    r, text = killed_in_the_middle(p, d, "gpu", lambda: host.restart(signal.SIGKILL))
    assert "was started on the device" in text and "was started on the device" in r.err, (text, r.err)


def test_no_receipt_of_another_generation_case_81(p):
    d = Hand(p, Host(p).login()).enroll()

    def meanwhile():
        d.process.kill()
        d.process.wait()
        until(lambda: not d.host.device()["online"], "offline")
        d.start("work").online()

    r, text = killed_in_the_middle(p, d, meanwhile=meanwhile)
    assert "was started on the device" not in text + r.err, (text, r.err)


class Kept(Hand):
    """The same as the tests of kills know a daemon."""

    def link(self):
        return ["--on", "host:work"]

    def kill(self):
        self.process.kill()
        self.process.wait()

    def restart(self):
        until(lambda: not self.host.device()["online"], "offline")
        self.start("work").online()


def test_killed_again_and_again_case_78(p):
    """One long run, killed at random, its daemon too: everything is done as often as the session says."""
    if not BAD_DISK.exists():
        raise NoServer("no bad_disk.so beside telechir")
    d = Kept(p, Host(p).login()).enroll()
    p.daemon = lambda: d
    go(p, p.base / "s.sqlite", True, False)


if __name__ == "__main__":
    sys.exit(run_tests(globals()))
