#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Host and its devices when either of them is killed at any stage, when the disk fills up or stops in the middle, when
what is saved is lost or copied. After each the pair comes back by itself, with the one approval it had. TELECHIR is
the program, with telechird beside it; an argument picks tests by name."""

import contextlib
import http.client
import json
import os
import pathlib
import secrets
import shutil
import signal
import sys

from fault_host import LIMIT, TELECHIR, TELECHIRD, Device, Envd, Host, NoServer, Pair, is_alive, run_tests, until

BAD_DISK = pathlib.Path(TELECHIR).with_name("bad_disk.so")
KILLS = {
    "daemon": lambda pair: pair.kill_daemon(),
    "host": lambda pair: pair.kill_host(),
    "both": lambda pair: (pair.kill_daemon(), pair.kill_host()),
}


def come_back(pair, who):
    """As an operator would have it: what was killed is started again. The daemon ends by itself when the Host does
    not answer it before it was approved, and the same command goes on."""
    if who != "daemon":
        pair.host.start()
    if pair.envd.process.poll() is not None:
        pair.start()


# ---- either of them killed

def at_stage(p, name, reach, resume):
    for who, kill in KILLS.items():
        pair = Pair(p, data=f"{name}-{who}")
        reach(pair)
        before = pair.secrets()
        kill(pair)
        resume(pair, who)
        pair.online()
        pair.check()
        after = pair.secrets()
        assert all(b is None or b == a for b, a in zip(before, after)), "an identity or a credential was replaced"
        pair.end()


def test_killed_before_the_pairing_request_case_69(p):
    def reach(pair):
        pair.gate.shut()
        pair.start()
        until(lambda: pair.gate.waiting == 1, "a connection")
        assert pair.host.devices() == []

    def resume(pair, who):
        pair.gate.cut()
        pair.gate.open()
        if who == "host":
            assert pair.envd.ends() == 1  # it lost its request
        come_back(pair, who)
        pair.approve()

    at_stage(p, "before", reach, resume)


def test_killed_while_it_waits_for_approval_case_69(p):
    def reach(pair):
        pair.start()
        pair.first_code = pair.envd.code()

    def resume(pair, who):
        if who == "host":
            assert pair.envd.ends() == 1 and "cannot ask the Host" in pair.envd.said(), pair.envd.said()
        come_back(pair, who)
        assert pair.envd.code() == pair.first_code
        pair.approve()

    at_stage(p, "waiting", reach, resume)


def test_killed_when_it_is_approved_and_was_not_told_case_69(p):
    def reach(pair):
        pair.start()
        code = pair.envd.code()
        pair.envd.process.send_signal(signal.SIGSTOP)
        p.ok("devices", "approve", code)
        pair.approvals += 1
        assert json.loads(pair.files()[2].read_text())["registration"] is None

    def resume(pair, who):
        if who == "host":
            pair.host.start()  # before the next question
            pair.envd.process.send_signal(signal.SIGCONT)
        else:
            come_back(pair, who)
        until(lambda: pair.envd.process.poll() is not None or pair.is_online(), "online, or its end")
        if pair.envd.process.poll() is not None:  # its request was on the way to the one that died
            pair.start()

    at_stage(p, "approved", reach, resume)


def test_killed_while_it_is_linked(p):
    def reach(pair):
        pair.start()
        pair.approve()
        pair.online()

    def resume(pair, who):
        if who == "daemon":
            until(lambda: not pair.is_online(), "offline")
        process = pair.envd.process
        come_back(pair, who)
        if who == "host":
            pair.online()
            assert pair.envd.process is process and process.poll() is None  # by itself

    at_stage(p, "linked", reach, resume)


def test_killed_while_a_command_runs_case_66(p):
    """Who asked for it is told that it is lost; it does not outlive its daemon; nothing runs here instead."""
    for who, kill in KILLS.items():
        p.env["TELECHIRD_FULL_CONTROL"] = "1"
        pair = Pair(p, data=f"command-{who}")
        pair.start()
        del p.env["TELECHIRD_FULL_CONTROL"]
        pair.approve()
        pair.online()
        note = p.base / f"pid-{who}"
        script = f"echo $$ > {note}.new; mv {note}.new {note}; while :; do echo tick; sleep 0.2; done"
        running = p.start("exec", "--on", "host:work", "--", "sh", "-c", script)
        assert running.stdout.readline() == b"tick\n"
        pid = int(note.read_text())
        note.unlink()
        kill(pair)
        _, err = running.communicate(timeout=LIMIT)
        assert running.returncode not in (0, 1), (running.returncode, err)
        come_back(pair, who) if who != "both" else (pair.host.start(), pair.envd.start("work"))
        pair.online()
        pair.check()
        if who != "host":
            until(lambda: not is_alive(pid), "the end of the command")
        assert not note.exists()  # it was not begun again
        assert p.ok("ls", "--on", "host:work", "/").text
        pair.end()
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_killed_in_a_transfer_case_32(p):
    """The file is not there, or whole; nothing half stays; the next transfer is as ever."""
    big = p.here / "big"
    big.write_bytes(os.urandom(1 << 20) * 48)
    for who, kill in KILLS.items():
        pair = Pair(p, data=f"transfer-{who}")
        pair.start()
        pair.approve()
        pair.online()
        there = p.base / f"there-{who}"
        there.mkdir()
        copying = p.start("cp", big, f"host:work:{there}/copy")
        until(lambda: os.listdir(there) or copying.poll() is not None, "its beginning")
        kill(pair)
        copying.communicate(timeout=LIMIT)
        copy = there / "copy"
        assert not copy.exists() or copy.read_bytes() == big.read_bytes()
        assert copying.returncode != 0 or copy.exists()
        come_back(pair, who) if who != "both" else (pair.host.start(), pair.envd.start("work"))
        pair.online()
        pair.check()
        p.ok("cp", big, f"host:work:{copy}")
        assert copy.read_bytes() == big.read_bytes()
        until(lambda: os.listdir(there) == ["copy"], "nothing half")
        pair.end()
        shutil.rmtree(there)


def test_host_killed_at_any_step_of_a_revocation_case_68(p):
    """Before each operation of its disk: afterwards the device is in or out, and what was answered holds."""
    need_bad_disk()
    n, ended = 0, False
    pair = Pair(p, data="revoking")
    pair.start()
    pair.approve()
    pair.online()
    pair.envd.stop()
    device = pair.host.device()["id"]
    while not ended:
        n += 1
        struck = p.base / f"struck{n}"
        pair.host.stop()
        start_with_bad_disk(pair.host, f"kill {n}", struck)
        if pair.host.process.poll() is None:
            r = p.run("devices", "revoke", device)
            ended = r.returncode == 0
        else:
            r = None
        if struck.exists():
            with contextlib.suppress(Exception):
                pair.host.process.wait(LIMIT)
            pair.host.process.communicate()
            pair.host.start()
        state = pair.host.device()["state"]
        if ended:
            assert state == "revoked", (n, r.shown)
        if state == "revoked":
            break
        assert state == "approved"
        pair.envd.start("work")
        pair.online()
        pair.envd.stop()
    assert n > 1, "it was never struck"
    before = pair.secrets()
    for _ in range(2):
        assert pair.envd.start("work").ends() == 1 and "authorization failed" in pair.envd.said()
    assert pair.secrets() == before and pair.host.device()["state"] == "revoked"
    p.ok("devices", "revoke", device)  # again: nothing changes
    pair.host.stop()


# ---- its disk

def need_bad_disk():
    if not BAD_DISK.exists():
        raise NoServer("no bad_disk.so beside telechir")


def start_with_bad_disk(host, how, struck):
    """Started with such a disk under its records; it may not get as far as serving."""
    p = host.p
    p.env.update(LD_PRELOAD=str(BAD_DISK), BAD_DISK=how, BAD_DISK_PATH=str(host.data / "host.sqlite"),
                 BAD_DISK_STRUCK=str(struck),
                 ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0")
    try:
        host.start()
    except (AssertionError, KeyError):  # it says nothing, or what is wrong
        host.process.wait(LIMIT)
    finally:
        for name in ("LD_PRELOAD", "BAD_DISK", "BAD_DISK_PATH", "BAD_DISK_STRUCK"):
            del p.env[name]


class Story:
    """What happens to a Host's records, step by step; known is what it has answered for good."""

    def __init__(self, host):
        self.host, self.known = host, {}
        self.device, self.other = Device("one"), Device("two")
        token = json.loads(pathlib.Path(host.p.env["XDG_CONFIG_HOME"], "telechir/hosts.json").read_text())
        self.bearer = {"Authorization": "Bearer " + token["hosts"][0]["token"]}

    def ask(self, path, body=None):
        status, _, text = self.host.ask("POST", path, body if body is not None else {}, **self.bearer)
        return status, json.loads(text)

    def steps(self):
        yield self.pair
        yield self.approve
        yield self.clash
        yield self.pair_other
        yield self.reject
        yield self.link
        yield self.revoke

    def pair(self):
        status, answer = self.host.pair(self.device)
        if status == 200:
            self.known.setdefault("code", answer.get("challenge", {}).get("verification_code"))
            return True
        return False

    def approve(self):
        status, answer = self.ask("/api/devices/approve", {"code": self.known["code"]})
        if status == 200:
            self.known["approved"] = answer["id"]
        elif status == 404:  # it was, and nobody heard
            status, answer = self.host.pair(self.device)
            assert answer["status"] == "approved", answer
            self.known["approved"] = answer["resource_id"]
        return status == 200

    def clash(self):
        thief = Device("one")
        thief.identity = self.device.identity
        status, _ = self.host.pair(thief)
        if status == 409:
            self.known["clash"] = True
        return status == 409

    def pair_other(self):
        status, answer = self.host.pair(self.other)
        if status == 200:
            self.known.setdefault("other", answer["challenge"]["verification_code"])
        return status == 200

    def reject(self):
        status, _ = self.ask("/api/devices/reject", {"code": self.known["other"]})
        if status in (200, 409):  # 409: it was, and nobody heard
            self.known["rejected"] = True
        return status in (200, 409)

    def link(self):
        status, answer = self.ask("/api/sign-in-links")
        if status == 200:
            self.known["link"] = answer["url"]
        return status == 200

    def revoke(self):
        status, _ = self.ask(f"/api/devices/{self.known['approved']}/revoke")
        if status == 200:
            self.known["revoked"] = True
        return status == 200

    def check(self):
        """All that was answered is so."""
        devices = {d["name"]: d for d in self.host.devices()}
        one = devices.get("one")
        if "approved" in self.known:
            assert one["id"] == self.known["approved"] and one["state"] != "pending", one
        elif "code" in self.known:
            assert one["state"] == "approved" or one["verification_code"] == self.known["code"], one
        if "clash" in self.known:
            assert one["other_credential"]["count"] >= 1, one
        if "rejected" in self.known:
            assert devices["two"]["rejected"] is True, devices
        if "revoked" in self.known:
            assert one["state"] == "revoked" and self.host.pair(self.device)[0] == 403, one
        if "link" in self.known and "used" not in self.known:
            self.host.p.ok("host", "login", self.host.url, stdin=self.known["link"].encode())
            self.known["used"] = True


def test_records_are_whole_wherever_the_host_is_cut_off_case_69(p):
    """Killed before an operation of its disk, or with a write done by half: every second one this way, the others that
    way, with TC_FULL=1 all of them both ways. Started again it knows all it has answered, and goes on from there."""
    need_bad_disk()
    step = 1 if os.environ.get("TC_FULL") == "1" else 2
    for how, n in (("kill", -1), ("cut", 0)) if step == 2 else (("kill", 0), ("cut", 0)):
        while True:
            n += step
            host = Host(p, data=p.base / f"{how}{n}").login()
            struck = p.base / f"{how}{n}.struck"
            host.stop()
            start_with_bad_disk(host, f"{how} {n}", struck)
            story = Story(host)
            for do in story.steps():
                try:
                    is_done = host.process.poll() is None and do()
                except (OSError, http.client.HTTPException, json.JSONDecodeError):  # it died
                    is_done = False
                if not is_done:
                    assert struck.exists(), (how, n, do.__name__)
                    host.process.wait(LIMIT)
                    host.process.communicate()
                    host.start()
                    story.check()
                    assert do(), (how, n, do.__name__)
            is_over = not struck.exists()
            if host.process.poll() is None:
                host.process.kill()
            host.process.communicate()
            host.start()
            story.check()
            host.stop()
            shutil.rmtree(host.data)
            if is_over:
                break
        assert n > 8, n


def test_nothing_is_approved_that_is_not_on_a_full_disk(p):
    """From the n-th operation on there is no room: what could not be written down is refused, and is so after a restart."""
    need_bad_disk()
    answered = set()
    for n in range(1, 60):
        host = Host(p, data=p.base / f"full{n}").login()
        d = Device()
        code = host.pair(d)[1]["challenge"]["verification_code"]
        host.stop()
        start_with_bad_disk(host, f"full {n}", p.base / f"full{n}.struck")
        status = None
        if host.process.poll() is None:
            story = Story(host)
            status, answer = story.ask("/api/devices/approve", {"code": code})
            assert status in (200, 500), (n, status, answer)
            told = host.pair(d)[1]
            assert (told.get("status") == "approved") == (status == 200), (n, status, told)
            host.process.send_signal(signal.SIGKILL)
        host.process.communicate()
        host.start()
        assert host.device()["state"] == ("approved" if status == 200 else "pending"), (n, status)
        answered.add(status)
        host.stop()
        shutil.rmtree(host.data)
        if status == 200:
            break
    assert 200 in answered and len(answered) > 1, answered


# ---- two places

def test_one_identity_in_two_places(p):
    """The second is told to wait, not let in; the first is not disturbed, and the owner is shown."""
    pair = Pair(p)
    pair.start()
    pair.approve()
    pair.online()
    twin = Envd(p, TELECHIRD, pair.host, name="work")
    twin.state = p.base / "state-twin"
    twin.log, twin.out = twin.state.with_suffix(".log"), twin.state.with_suffix(".out")
    shutil.copytree(pair.envd.state, twin.state, ignore=shutil.ignore_patterns("runtime"))
    shown = pair.host.device()
    assert "second_link" not in shown, shown
    twin.start("work")
    shown = until(lambda: pair.host.device().get("second_link"), "the owner is shown")
    assert shown["count"] >= 1 and shown["address"] == "127.0.0.1" and shown["last_at"], shown
    assert "elsewhere" in p.ok("devices").text
    assert pair.envd.process.poll() is None and pair.is_online() and twin.process.poll() is None
    assert "lost" not in pair.envd.said(), pair.envd.said()
    pair.envd.stop()  # the place is free
    until(lambda: "second_link" not in pair.host.device() and pair.is_online(), "the other one is let in")
    p.ok("devices", "revoke", "work")
    assert twin.ends() == 1
    pair.end()


# ---- its credential

def test_credential_that_is_lost_replaced_or_refused(p):
    """While it serves the file goes: with the next link it ends, with 1, and makes no other. Put back, all is as before."""
    pair = Pair(p)
    pair.start()
    pair.approve()
    pair.online()
    credential = pair.files()[1]
    right = credential.read_bytes()
    for change, says in ((lambda: credential.unlink(), "saved pairing credential"),
                         (lambda: credential.write_bytes(b""), "saved pairing credential"),
                         (lambda: credential.write_bytes(b"two words"), "saved pairing credential"),
                         (lambda: credential.write_bytes(secrets.token_hex(32).encode()), "authorization failed")):
        change()
        before = credential.read_bytes() if credential.exists() else None
        pair.gate.cut()
        assert pair.envd.ends() == 1 and says in pair.envd.said(), pair.envd.said()
        assert (credential.read_bytes() if credential.exists() else None) == before
        assert pair.envd.start("work").ends() == 1, pair.envd.said()  # nor does the next one make another
        assert (credential.read_bytes() if credential.exists() else None) == before
        assert len(pair.host.devices()) == 1
        credential.write_bytes(right)
        credential.chmod(0o644)  # as it comes out of a backup
        pair.envd.start("work")
        pair.online()
        pair.check()
    pair.end()


if __name__ == "__main__":
    sys.exit(run_tests(globals()))
