#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`telechir websocket-envd` with daemons that dial in: ours, and the released one where OTHER_ENVD names it.
TELECHIR is the program; an argument picks tests by name."""

import os
import pathlib
import secrets
import signal
import subprocess
import sys
import time

from peers import TELECHIRD, free_port
from test_command import LIMIT, run_tests

OTHER = os.environ.get("OTHER_ENVD")
TEXT = "hello from remote envd"


class Dialler:
    """A daemon that dials 127.0.0.1:port, with commands disabled."""

    def __init__(self, base, port, device="env-test-machine", token=None, program=TELECHIRD):
        self.base = pathlib.Path(base)
        self.work = self.base / "remote"
        self.work.mkdir(parents=True)
        self.token = token or secrets.token_hex(24)
        self.credential = self.base / "credential"
        self.credential.write_text(self.token + "\n")
        self.credential.chmod(0o600)
        self.device = device
        env = {
            "PATH": os.environ["PATH"],
            "A13N_ENVD_RUNTIME_DIR": str(self.base / "runtime"),
            "A13N_ENVD_DEVICE_ID": device,
            "A13N_ENVD_DEFAULT_WORKING_DIRECTORY": str(self.work),
            "A13N_ENVD_TRANSPORT": "reverse_websocket",
            "A13N_ENVD_REVERSE_WS_URL": f"ws://127.0.0.1:{port}",
            "A13N_ENVD_REVERSE_WS_CREDENTIAL_FILE": str(self.credential),
        }
        self.log = self.base / "daemon.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([program], env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.base)

    def words(self, port):
        return ["websocket-envd", "--port", port, "--device-id", self.device, "--credential-file", self.credential]

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(LIMIT)


def dialler(p, port, **more):
    d = Dialler(p.base / f"dialler{len(p.daemons)}", port, **more)
    p.daemons.append(d)
    return d


def programs():
    return [TELECHIRD, *([OTHER] if OTHER else [])]


def test_a_file_is_written_and_read_through_a_daemon_that_dials_in(p):
    for program in programs():
        port = free_port()
        d = dialler(p, port, program=program)  # it tries again until somebody listens
        r = p.ok(*d.words(port))
        lines = r.text.splitlines()
        assert lines[0].startswith(f"device: {d.device}, generation "), lines
        assert lines[2].endswith(f": {TEXT}") and lines[3] == "independent Sessions: True", lines
        assert (d.work / "provider-example.txt").read_text() == TEXT + "\n"
        # The daemon is left alone, and dials again.
        assert d.process.poll() is None
        (answer,) = p.json(*d.words(port))
        assert answer["url"] == f"ws://127.0.0.1:{port}" and answer["device_id"] == d.device, answer
        assert answer["first_session"] != answer["second_session"] and answer["read"] == TEXT, answer
        assert d.process.poll() is None


def test_another_credential_or_device_does_not_get_in(p):
    port = free_port()
    d = dialler(p, port)
    other = dialler(p, port, token="another-credential")
    stranger = dialler(p, port, device="env-stranger", token=d.token)
    assert p.ok(*d.words(port)).text.startswith(f"device: {d.device},")
    # 401 is the end of a daemon; another device is turned away and goes on trying.
    end = time.monotonic() + LIMIT
    waiting = p.start(*d.words(port))
    while other.process.poll() is None and time.monotonic() < end and waiting.poll() is None:
        time.sleep(0.01)  # between two looks at the same event
    waiting.communicate(timeout=LIMIT)
    assert not list(stranger.work.iterdir()) and not list(other.work.iterdir())
    assert waiting.returncode == 0
    assert "another-credential" not in other.log.read_text() and d.token not in stranger.log.read_text()


def test_nobody_comes_and_it_is_interrupted(p):
    port = free_port()
    (p.base / "credential").write_text("some-credential")
    words = ["websocket-envd", "--port", port, "--device-id", "env-nobody", "--credential-file", p.base / "credential"]
    run = p.start(*words)
    assert f"ws://127.0.0.1:{port}" in run.stderr.readline().decode()
    # While it listens nobody else can.
    assert "127.0.0.1" in p.fails(1, *words).err
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=LIMIT)
    assert run.returncode == 130, run.returncode


def test_wrong_usage(p):
    (p.base / "empty").write_text("\n")
    for words in ([], ["--port", "1"], ["--port", "x", "--device-id", "d", "--credential-file", "f"],
                  ["--port", "65536", "--device-id", "d", "--credential-file", "f"],
                  ["--port", "0", "--device-id", "d", "--credential-file", p.base / "empty"]):
        p.fails(2, "websocket-envd", *words)
    p.fails(1, "websocket-envd", "--port", "0", "--device-id", "d", "--credential-file", p.base / "none")


if __name__ == "__main__":
    sys.exit(run_tests({k: v for k, v in globals().items() if getattr(v, "__module__", "") == "__main__"}))
