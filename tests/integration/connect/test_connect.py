#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`connect` as people use it: pairing with a Host, coming back to it, and everything that a Host or a disk can do
meanwhile. TELECHIRD is the program; with bad_disk.so beside it, it is also killed between any two steps. An argument
picks tests by name."""

import contextlib
import json
import os
import pathlib
import re
import signal
import stat
import subprocess
import sys
import tempfile
import traceback

import host
from host import Host, Proxy, answer, approved, closed, make_certificate, pending, raw, refused, silent

TELECHIRD = pathlib.Path(os.environ["TELECHIRD"])
BAD_DISK = TELECHIRD.with_name("bad_disk.so")
LONG_S = host.LONG_S
FAILED = "a13n-envd failed: "


class Ended:
    def __init__(self, process, stdout, stderr):
        self.status, self.stdout, self.stderr = process.returncode, stdout, stderr
        lines = [line for line in stderr.splitlines() if not line.startswith("{")]
        self.last = lines[-1] if lines else ""


class Place:
    """A home of one person, and daemons that are started there under the name a13n-envd."""

    def __init__(self, base):
        self.base = pathlib.Path(base)
        self.home = self.base / "home"
        self.home.mkdir()
        self.program = self.base / "a13n-envd"
        self.program.symlink_to(TELECHIRD)
        self.state = self.home / ".a13n-envd"
        self.started = []

    def start(self, *words, env=None, program=None):
        environment = {"HOME": str(self.home), "PATH": os.environ["PATH"], **(env or {})}
        if "ASAN_OPTIONS" in os.environ:
            environment.setdefault("ASAN_OPTIONS", os.environ["ASAN_OPTIONS"])
        p = subprocess.Popen([program or self.program, "connect", *map(str, words)], env=environment, cwd=self.base,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.started.append(p)
        return p

    def end(self, process, how=None):
        if how is not None:
            process.send_signal(how)
        return Ended(process, *process.communicate(timeout=LONG_S))

    def run(self, *words, **more):
        return self.end(self.start(*words, **more))

    def refuse(self, says, *words, **more):
        """It ends with 1 and this last word; standard output stays empty."""
        r = self.run(*words, **more)
        assert (r.status, r.stdout) == (1, ""), (r.status, r.stdout, r.stderr)
        assert r.last.startswith(FAILED) and says in r.last, r.stderr
        return r

    def pair(self, h, *words, **more):
        """Until the link is there; then an orderly end."""
        before = len(h.hellos)
        p = self.start(*words, **more)
        h.wait(lambda: len(h.hellos) > before, "the link", p)
        r = self.end(p, signal.SIGTERM)
        assert (r.status, r.stdout) == (0, ""), (r.status, r.stdout, r.stderr)
        self.check(h, r)
        return r

    def check(self, h, r):
        """Nothing was wrong with what came, and no secret got out."""
        assert not h.wrong, h.wrong
        for secret in {q.headers["authorization"].split()[1] for q in h.requests + h.links}:
            assert secret not in r.stderr and secret not in r.stdout

    def close(self):
        for p in self.started:
            if p.poll() is None:
                p.kill()
            p.communicate()

    # ---- what is saved

    def instance(self, name="default", state=None):
        return (state or self.state) / "instances" / name

    def folder(self, alias, instance="default"):
        return self.instance(instance) / "hosts" / alias

    def record(self, alias, instance="default"):
        return json.loads((self.folder(alias, instance) / "host.json").read_text())

    def snapshot(self):
        return {str(f.relative_to(self.home)): f.read_bytes() for f in sorted(self.home.rglob("*")) if f.is_file()}


def bad_disk(how, folder, struck):
    return {"LD_PRELOAD": str(BAD_DISK), "BAD_DISK": how, "BAD_DISK_PATH": str(folder), "BAD_DISK_STRUCK": str(struck),
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


# ---- the ordinary way

def test_first_time_and_again(p):
    with Host(pending(), pending(), pending(code="WXYZ-9"), approved()) as h:
        r = p.pair(h, h.url, "--host", "team")
        assert r.stderr.splitlines()[:5] == [
            "Approve this envd in the Host's device settings. Verification code: ABCD-1234",
            f"Open: {h.origin}/approve?c=1",
            "Approve this envd in the Host's device settings. Verification code: WXYZ-9",
            f"Open: {h.origin}/approve?c=1",
            "Connecting to saved Host team. Reuse it with: a13n-envd connect team --instance default"], r.stderr
        identity = (p.instance() / "device-id").read_text()
        credential = (p.folder("team") / "credential").read_text()
        assert re.fullmatch("device-[0-9a-f]{32}", identity) and re.fullmatch("[0-9a-f]{64}", credential)
        assert p.record("team") == {
            "url": h.url, "name": "default", "ca_file": None,
            "registration": {"resource_id": "dev-1", "websocket_url": "/api/devices/dev-1/connect"}}
        for path, wanted in ((p.instance(), 0o700), (p.folder("team"), 0o700), (p.folder("team") / "runtime", 0o700),
                             (p.folder("team") / "credential", 0o600)):
            assert mode(path) == wanted, (path, oct(mode(path)))
        assert sorted(os.listdir(p.folder("team"))) == ["credential", "host.json", "runtime"]
        assert os.listdir(p.folder("team") / "runtime") == [".a13n-envd.lock"]
        # One request after the other, each the same and on a connection of its own.
        assert len(h.requests) == 4 and h.connections == 5
        assert len({(q.headers["authorization"], q.body) for q in h.requests}) == 1
        assert json.loads(h.requests[0].body) == {"device_id": identity, "name": "default"}
        assert h.links[0].target == "/api/devices/dev-1/connect"
        assert h.links[0].headers["authorization"] == f"Bearer {credential}"
        assert h.links[0].headers["sec-websocket-protocol"] == "eip.v1"
        assert identity in json.dumps(h.hellos[0]["result"])
        # In another form, which is left as it is.
        path = p.folder("team") / "host.json"
        path.write_text(json.dumps({**p.record("team"), "url": h.origin,
                                    "registration": {"resource_id": "dev-1", "websocket_url": "again"}}))
        p.pair(h, "team")
        assert h.links[1].target == "/again" and p.record("team")["url"] == h.origin
        # Again, by its name and by its address: nobody is asked, nothing changes.
        before = p.snapshot()
        p.pair(h, "team")
        p.pair(h, h.url, "--host", "team")
        assert len(h.requests) == 4 and p.snapshot() == before


def test_a_host_below_a_path(p):
    with Host(pending(url="approve"), approved(url="connect/dev-1"), base="/tenants/a/") as h:
        r = p.pair(h, h.url[:-1])
        alias = re.search("saved Host (host-[0-9a-f]{16})", r.stderr)[1]
        assert f"Open: {h.url}approve" in r.stderr and h.links[0].target == "/tenants/a/connect/dev-1"
        assert p.record(alias)["url"] == h.url and p.record(alias)["registration"]["websocket_url"] == "connect/dev-1"


def test_names(p):
    """Said once, kept; said again, changed. Two devices may have one name."""
    with Host(approved()) as h:
        p.pair(h, h.url, "--host", "a", "--instance", "work", "--name", "Lab")
        p.pair(h, h.url, "--host", "b", "--instance", "play", "--name", "Lab")
        assert [json.loads(q.body)["name"] for q in h.requests] == ["Lab", "Lab"]
        assert p.record("a", "work")["name"] == "Lab"
        p.pair(h, "a", "--instance", "work")
        assert p.record("a", "work")["name"] == "Lab"
        p.pair(h, "a", "--instance", "work", env={"A13N_ENVD_NAME": "Bench"})
        assert p.record("a", "work")["name"] == "Bench" and len(h.requests) == 2
        identities = [(p.instance(i) / "device-id").read_text() for i in ("work", "play")]
        assert identities[0] != identities[1]


def test_another_place(p):
    """--state-dir belongs to the command that comes back, whatever is in its name."""
    with Host(approved()) as h:
        p.state = p.base / "it's here"
        r = p.pair(h, h.url, "--host", "t", "--state-dir", "it's here")
        assert p.record("t")["registration"] and not (p.home / ".a13n-envd").exists()
        words = subprocess.run(["sh", "-c", "printf '%s\\n' " + r.stderr.split("Reuse it with: ")[1].splitlines()[0]],
                               capture_output=True, text=True, check=True).stdout.splitlines()
        assert words == ["a13n-envd", "connect", "t", "--instance", "default", "--state-dir", str(p.state)], words


def test_under_our_own_name(p):
    with Host(approved()) as h:
        p.state = p.home / ".local/state/telechir"
        r = p.pair(h, h.url, "--host", "t", program=TELECHIRD, env={"TELECHIRD_FULL_CONTROL": "1"})
        assert "Reuse it with: telechird connect t --instance default" in r.stderr
        assert p.record("t")["registration"]
        assert "shell.exec" in json.dumps(h.hellos[0])
        r = p.run("nobody", program=TELECHIRD)
        assert r.status == 1 and "telechird: a13n-envd failed: saved Host not found" in r.stderr


def test_files_only_unless_told(p):
    with Host(approved()) as h:
        p.pair(h, h.url, "--host", "t")
        assert "shell.exec" not in json.dumps(h.hellos[0]) and "device.metrics" in json.dumps(h.hellos[0])
        p.pair(h, "t", env={"A13N_ENVD_FULL_CONTROL": "1", "A13N_ENVD_CONFIG_JSON": '{"monitoring":null}'})
        assert "shell.exec" in json.dumps(h.hellos[1]) and "device.metrics" not in json.dumps(h.hellos[1])


def test_tls_with_a_private_authority(p):
    certificate = make_certificate(p.base)
    with Host(approved(), tls=certificate) as h:
        r = p.refuse("not trusted", h.url, "--host", "t")
        assert not h.requests
        r = p.run(h.url, "--host", "t", program=TELECHIRD)
        assert r.status == 1 and "--ca-file" in r.stderr
        p.pair(h, "t", "--ca-file", "cert.pem")
        assert p.record("t")["ca_file"] == str(p.base / "cert.pem") and p.record("t")["url"].startswith("https://")
        p.pair(h, "t")  # the certificate is saved, too
        os.unlink(certificate[0])
        p.refuse("CA file", "t")


def test_case_57_through_a_proxy(p):
    """Pairing and link alike go through the proxy of the environment, with its password and a private authority."""
    certificate = make_certificate(p.base)
    with Host(pending(), approved(), tls=certificate, name="host.test") as h, contextlib.closing(Proxy("me:pass")) as x:
        ca = ("--ca-file", certificate[0])
        r = p.refuse("proxy", h.url, "--host", "t", *ca, env={"HTTPS_PROXY": f"http://me:secret@{x.address}"})
        assert x.refused == 1 and "secret" not in r.stderr and not h.requests
        env = {"HTTPS_PROXY": f"http://me:pass@{x.address}"}
        p.refuse("not trusted", h.url, "--host", "u", env=env)
        r = p.pair(h, "t", env=env)
        assert set(x.asked) == {h.authority} and len(x.asked) == 4 and "pass" not in r.stderr
        r = p.refuse("host.test", h.url, "--host", "v", env={**env, "NO_PROXY": "host.test"})
        assert len(x.asked) == 4


def test_a_host_by_name_only_here(p):
    p.refuse("remote Hosts require HTTPS", "http://host.example")
    r = p.run("http://host.example", program=TELECHIRD)
    assert "https://" in r.stderr and "--ca-file" in r.stderr
    with contextlib.closing(Host(approved())) as h:
        pass
    p.refuse("connection refused", h.url)
    r = p.run(h.url, program=TELECHIRD)
    assert "is this computer" in r.stderr


# ---- what a Host may do

def test_answers_that_end_it(p):
    code = {"verification_code": "A"}
    rows = [
        (refused(409, "pairing_closed", "it is over"), "Host rejected pairing (HTTP 409): pairing_closed: it is over; "
                                                       "no credential was replaced"),
        (answer(500, b"oops"), "Host rejected pairing (HTTP 500); no credential was replaced"),
        (answer(302, b"", [("Location", "/elsewhere")]), "Host rejected pairing (HTTP 302)"),
        (answer(401, b""), "Host rejected pairing (HTTP 401)"),
        (answer(204, b""), "Host returned an invalid pairing response"),
        (answer(200, b"{"), "Host returned an invalid pairing response"),
        (answer(200, {"status": "what"}), "Host returned an invalid pairing response"),
        (answer(200, {"status": "pending", "challenge": code}), "Host returned an invalid pairing response"),
        (pending(after=-1), "Host returned an invalid pairing response"),
        (pending(code="a\x1b[2J"), "Host returned an invalid verification code"),
        (pending(code="x" * 33), "Host returned an invalid verification code"),
        (pending(url="http://[x"), "invalid approval URL"),
        (approved(url="ws://127.0.0.2/x"), "connection URL must stay on the paired Host and retain TLS"),
        (approved(url="/x?token=1"), "connection URL must stay on the paired Host and retain TLS"),
        (answer(200, {"status": "approved", "resource_id": "a", "websocket_url": "/x", "pad": "x" * 70000}),
         "larger than 65536 bytes"),
        (closed, "cannot ask the Host to pair"),
        (raw(b"what?\r\n\r\n"), "cannot ask the Host to pair"),
    ]
    for step, says in rows:
        with Host(step) as h:
            r = p.refuse(says, h.url, "--host", "t", "--state-dir", p.base / str(h.port))
            assert len(h.requests) == 1 and not h.links and not h.wrong  # nothing is tried again
            p.check(h, r)


def test_a_page_elsewhere_is_not_shown(p):
    with Host(pending(url="https://evil.example/approve"), approved()) as h:
        r = p.pair(h, h.url)
        assert "ABCD-1234" in r.stderr and "Open:" not in r.stderr and "evil" not in r.stderr


def test_the_credential_is_never_shown(p):
    h = Host()

    def echo(conn):
        secret = h.requests[-1].headers["authorization"].split()[1]
        refused(400, "bad_credential", f"{secret} or {secret.upper()} is bad")(conn)

    h.steps = [echo]
    with h:
        r = p.refuse("bad_credential: [redacted] or [redacted] is bad", h.url)
        p.check(h, r)
        assert h.requests[0].headers["authorization"].split()[1].upper() not in r.stderr


def test_asked_again_without_a_pause(p):
    """It is a second all the same; that a day is ten seconds has a unit test."""
    with Host(pending(after=0), pending(after=0), approved()) as h:
        p.pair(h, h.url)
        assert len(h.requests) == 3


def test_interrupted_by_a_person(p):
    for how in (signal.SIGINT, signal.SIGTERM):
        for step in (pending(after=10), silent):
            with Host(step) as h:
                q = p.start(h.url, "--host", f"t{h.port}")
                h.wait(lambda: h.requests, "a request", q)
                r = p.end(q, how)
                assert r.status == 1 and r.last == FAILED + "pairing cancelled; saved Host is retained", r.stderr
                assert p.record(f"t{h.port}")["registration"] is None
                p.check(h, r)


def test_one_owner(p):
    with Host(pending(after=10)) as h:
        first = p.start(h.url, "--host", "t")
        h.wait(lambda: h.requests, "a request", first)
        p.refuse("runtime parent is already owned", h.url, "--host", "t")
        p.refuse("runtime parent is already owned", "t")
        r = p.run("t", program=TELECHIRD, env={"TELECHIRD_STATE_DIR": str(p.state)})
        assert "use another --instance" in r.stderr and len(h.requests) == 1
        p.end(first, signal.SIGKILL)
        h.steps[:] = [approved()]
        p.pair(h, "t")  # the kernel let go with the process
        serving = p.start("t")
        h.wait(lambda: len(h.hellos) == 2, "the link", serving)
        p.refuse("runtime parent is already owned", "t")
        assert p.end(serving, signal.SIGINT).status == 0


def test_a_name_is_one_host(p):
    with Host(approved()) as a, Host(approved()) as b:
        p.pair(a, a.url, "--host", "t")
        p.refuse("Host name already selects another URL; use a different Host name", b.url, "--host", "t")
        assert not b.requests
        p.refuse("saved Host not found; connect using its URL first", "u")
        p.refuse("saved Host not found; connect using its URL first", "t", "--instance", "other")
        assert not p.instance("other").exists()


# ---- the link

def test_case_68_a_revoked_device_stays_out(p):
    """Refused at the link: the end, with all that is saved; no start asks for a new pairing, also without the
    credential or the identity."""
    with Host(approved()) as h:
        p.pair(h, h.url, "--host", "t")
        before = p.snapshot()
        for status in (401, 403):
            h.link = status
            for words in (["t"], [h.url, "--host", "t"]):
                r = p.refuse("reverse WebSocket attachment authorization failed", *words)
                p.check(h, r)
                assert len(h.requests) == 1 and p.snapshot() == before
        r = p.run("t", program=TELECHIRD, env={"TELECHIRD_STATE_DIR": str(p.state)})
        assert r.status == 1 and "revoked" in r.stderr and "--instance" in r.stderr
        credential = p.folder("t") / "credential"
        saved = credential.read_text()
        credential.unlink()
        p.refuse("saved pairing credential is missing; it was not replaced", "t")
        assert not credential.exists()
        for bad in ("", saved[:-1], saved.upper() + "\n"):
            credential.write_text(bad)
            p.refuse("saved pairing credential is invalid; it was not replaced", "t")
            assert credential.read_text() == bad
        credential.write_text(saved)
        (p.instance() / "device-id").unlink()
        p.refuse("identity is missing", "t")
        assert len(h.requests) == 1
        h.link = 101
        p.pair(h, h.url, "--host", "t2", "--instance", "anew")  # on purpose, with approval: another device
        assert h.requests[1].body != h.requests[0].body
        assert h.requests[1].headers["authorization"] != h.requests[0].headers["authorization"]


def test_the_host_comes_back(p):
    """A saved Host that is away is tried again; the link that it lost comes back."""
    with Host(approved()) as h:
        p.pair(h, h.url, "--host", "t")
        h.link = 503
        q = p.start("t")
        h.wait(lambda: len(h.links) >= 3, "another attempt", q)
        h.link = 101
        h.wait(lambda: len(h.hellos) == 2, "the link", q)
        h.drop()
        h.wait(lambda: len(h.hellos) == 3, "the link again", q)
        assert p.end(q, signal.SIGTERM).status == 0 and len(h.requests) == 1


# ---- cut off at any step

class Ledger(Host):
    """A Host that remembers: one device per identity, which the credential it came with first may use."""

    def __init__(self, npending=1):
        self.devices, self.npending = {}, npending
        super().__init__(self.decide)

    def decide(self, conn):
        q = self.requests[-1]
        identity, credential = json.loads(q.body)["device_id"], q.headers["authorization"]
        if self.devices.setdefault(identity, credential) != credential:
            refused(409, "device_taken", "another credential enrolled this device")(conn)
        elif len([r for r in self.requests if r.headers["authorization"] == credential]) <= self.npending:
            pending()(conn)
        else:
            approved()(conn)


def test_case_69_killed_at_any_step_of_the_disk(p):
    """Killed before each write, sync and renaming of what is saved, and with each write done by half; run again, it
    ends in one device with one identity."""
    if not BAD_DISK.exists():
        print(f"skipped: there is no {BAD_DISK}")
        return
    for how in ("kill", "cut"):
        n = 0
        while True:
            n += 1
            state, struck = p.base / f"{how}{n}", p.base / f"{how}{n}.struck"
            with Ledger(npending=0) as h:
                words = (h.url, "--host", "t", "--state-dir", state)
                q = p.start(*words, env=bad_disk(f"{how} {n}", state, struck))
                h.wait(lambda: h.hellos or q.poll() is not None, "the link or its end")
                is_over = not struck.exists()
                p.end(q, signal.SIGKILL)
                p.state = state
                for f in (p.instance() / "device-id", p.folder("t") / "credential", p.folder("t") / "host.json"):
                    text = f.read_text() if f.exists() else None
                    assert text is None or (len(text) in (39, 64) or json.loads(text)), (how, n, f, text)
                p.pair(h, *words)
                assert len(h.devices) == 1, (how, n, h.devices)
                assert sorted(os.listdir(p.folder("t"))) == ["credential", "host.json", "runtime"], (how, n)
            if is_over:
                break
        assert n > 8, n  # it was struck at all


def the_one_after(h, p, nstarted):
    """The process: it may say something before we are told that it was started."""
    h.wait(lambda: len(p.started) > nstarted, "a process")
    return p.started[nstarted]


def test_case_69_killed_at_any_step_of_the_talk(p):
    """Killed when the Host has the request, when it has answered pending, when it has approved, at the upgrade."""
    for nth in (1, 2):
        for is_before in (True, False):
            with Ledger() as h:
                words = (h.url, "--host", "t", "--state-dir", p.base / f"{nth}{is_before}")
                ordinary, nstarted = h.decide, len(p.started)

                def decide(conn):
                    if len(h.requests) == nth and is_before:
                        the_one_after(h, p, nstarted).kill()
                        the_one_after(h, p, nstarted).wait()
                    ordinary(conn)
                    if len(h.requests) == nth and not is_before:
                        the_one_after(h, p, nstarted).kill()

                h.steps = [decide]
                q = p.start(*words)
                h.wait(lambda: q.poll() is not None, "its end")
                h.steps = [ordinary]
                p.pair(h, *words)
                assert len(h.devices) == 1 and len({r.body for r in h.requests}) == 1
    with Ledger() as h:
        words = (h.url, "--host", "t", "--state-dir", p.base / "link")
        nstarted = len(p.started)
        h.on_link = lambda h, conn: the_one_after(h, p, nstarted).kill()
        q = p.start(*words)
        h.wait(lambda: h.links, "an upgrade", q)
        p.end(q)
        h.on_link = None
        n = len(h.requests)
        p.pair(h, *words)
        assert len(h.devices) == 1 and len(h.requests) == n  # it was saved before


def test_links_are_refused(p):
    with Host(approved()) as h:
        p.pair(h, h.url, "--host", "t")
        for path in (p.folder("t") / "credential", p.folder("t") / "host.json", p.instance() / "device-id",
                     p.folder("t"), p.instance()):
            away = path.with_name(path.name + ".away")
            path.rename(away)
            path.symlink_to(away)
            p.refuse("", "t")
            path.unlink()
            away.rename(path)
        p.pair(h, "t")


# ---- running them

def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    # A shell that starts us in the background has SIGINT ignored, and what we start would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    npassed = nfailed = 0
    for name, test in list(globals().items()):
        if not name.startswith("test_") or wanted not in name:
            continue
        with tempfile.TemporaryDirectory(prefix="telechir-test-") as base:
            p = Place(base)
            try:
                test(p)
                npassed += 1
            except Exception:
                nfailed += 1
                print(f"--- {name}", flush=True)
                traceback.print_exc(file=sys.stdout)
            finally:
                p.close()
    print(f"{npassed} passed, {nfailed} failed")
    return 1 if nfailed else 0


if __name__ == "__main__":
    sys.exit(main())
