# SPDX-License-Identifier: Apache-2.0
"""What tests of a Host and its devices share when something is to break: a port in between, and a pair that knows what it
must come back to."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import stat
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration" / "command"))
from peers import TELECHIRD  # noqa: E402
from sshd import NoServer  # noqa: E402, F401
from test_command import LIMIT, TELECHIR, is_alive, run_tests  # noqa: E402, F401
from test_host import Browser, Device, Envd, Host, until  # noqa: E402, F401


class Gate:
    """A port before another one. Open, it passes bytes on; shut, connections are made and nothing goes through."""

    def __init__(self, port):
        self.target, self.is_shut, self.waiting, self.pairs = port, False, 0, []
        self.changed = threading.Condition()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with self.changed:
            self.waiting += 1
            self.pairs.append(client)
            self.changed.notify_all()
            self.changed.wait_for(lambda: not self.is_shut)
            self.waiting -= 1
        try:
            server = socket.create_connection(("127.0.0.1", self.target))
        except OSError:
            client.close()
            return
        with self.changed:
            self.pairs.append(server)
        threading.Thread(target=self.copy, args=(server, client, False), daemon=True).start()
        self.copy(client, server, True)

    def copy(self, a, b, is_up):
        try:
            while data := a.recv(65536):
                b.sendall(self.look(data, is_up))
        except OSError:
            pass
        for s in (a, b):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)

    def look(self, data, is_up):
        return data

    def shut(self):
        self.is_shut = True

    def open(self):
        with self.changed:
            self.is_shut = False
            self.changed.notify_all()

    def cut(self):
        for s in self.pairs:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.listener.close()
        self.open()
        self.cut()


class Pair:
    """A Host and a daemon that reaches it through a gate."""

    def __init__(self, p, data="host"):
        self.p = p
        self.host = Host(p, data=p.base / data).login()
        self.gate = Gate(self.host.at.port)
        p.daemons.append(self.gate)
        self.envd = Envd(p, TELECHIRD, self.host, name="work")
        self.envd.state = p.base / f"state-{data}"
        self.target = self.gate.url
        self.approvals = 0

    def start(self):
        self.envd.start(self.target) if self.target != self.gate.url else self.first()
        return self

    def first(self):
        """The whole command, as a person types it; it is also the one to go on with."""
        real, self.host.url = self.host.url, self.gate.url
        try:
            self.envd.start()
        finally:
            self.host.url = real

    def approve(self):
        self.p.ok("devices", "approve", self.envd.code())
        self.approvals += 1

    def is_online(self):
        return any(d["online"] for d in self.host.devices())

    def online(self):
        """It is there, and answers."""
        until(self.is_online, "online: " + self.envd.said())
        until(lambda: "info" in self.p.json("devices", "show", "work")[0], "information")

    def kill_daemon(self):
        self.envd.process.kill()
        self.envd.process.wait()

    def kill_host(self):
        self.host.stop(signal.SIGKILL)

    def files(self):
        folder = self.envd.state / "instances/work"
        return folder / "device-id", folder / "hosts/work/credential", folder / "hosts/work/host.json"

    def secrets(self):
        return [f.read_bytes() if f.exists() else None for f in self.files()[:2]]

    def check(self):
        """One device, approved once; what is saved is whole."""
        devices = self.host.devices()
        assert len(devices) == 1 and self.approvals == 1, devices
        identity, credential, record = self.files()
        saved = json.loads(record.read_text())
        assert saved["registration"]["resource_id"] == devices[0]["id"], saved
        assert identity.read_text() == devices[0]["device_id"] and len(credential.read_text()) == 64
        assert stat.S_IMODE(credential.stat().st_mode) == 0o600
        names = sorted(os.listdir(credential.parent))
        assert names == ["credential", "host.json", "runtime"], names

    def end(self):
        if self.envd.process.poll() is None:
            self.envd.stop()
        self.host.stop()
        self.gate.close()


def answers(pair, name="work"):
    """Right now, through its link."""
    device = pair.host.device(name)
    assert device["online"], device
    assert "info" in pair.p.json("devices", "show", name)[0]
