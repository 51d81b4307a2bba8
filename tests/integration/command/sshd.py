# SPDX-License-Identifier: Apache-2.0
"""An ssh server of a test's own, by tests/lib/sshd: loopback, own keys, no set-up, no root needed."""

import os
import pathlib
import subprocess

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "lib" / "sshd"


class NoServer(Exception):
    """This machine cannot run one; the text says why."""


class Sshd:
    """The machine that is only reached over ssh. Whoever logs in gets `home`."""

    def __init__(self, base):
        self.base = pathlib.Path(base)
        self.home = self.base / "home"
        self.config = self.base / "client-config"
        self.start()
        self.config.write_text("")
        self.known_hosts = self.base / "trusted" / "known_hosts"

    def start(self):
        self.base.mkdir(exist_ok=True)
        said = self.base / "said"  # not a pipe: what the script leaves behind would keep it open
        with open(said, "wb") as out:
            status = subprocess.run([SCRIPT, "start", self.base], stdin=subprocess.DEVNULL, stdout=out,
                                    stderr=out, timeout=60).returncode
        if status == 77:
            raise NoServer(said.read_text().strip())
        assert status == 0, said.read_text()
        self.port = int((self.base / "port").read_text())
        self.pid = int((self.base / "pid").read_text())

    def fingerprint(self):
        """As the machine's owner reads it."""
        r = subprocess.run(["ssh-keygen", "-l", "-E", "sha256", "-f", self.base / "host.pub"],
                           capture_output=True, text=True, check=True)
        return next(word for word in r.stdout.split() if word.startswith("SHA256:"))

    def new_key(self):
        """The same address with another key: a new machine, or somebody in between."""
        port = self.port
        self.close()
        (self.base / "host").unlink()
        (self.base / "host.pub").unlink()
        self.start()
        return port

    @property
    def form(self):
        return f"ssh:127.0.0.1:{self.port}"

    def link(self, **more):
        """The options that reach it."""
        return ["--on", self.form, *self.ways(**more)]

    def ways(self):
        return ["--known-hosts", str(self.known_hosts), "--host-key-alias", "test-box", "--identity",
                str(self.base / "id"), "--ssh-config", str(self.config)]

    def trust_ways(self):
        return ["--known-hosts", str(self.known_hosts), "--host-key-alias", "test-box", "--ssh-config",
                str(self.config)]

    def sessions(self):
        """Processes that serve one connection each."""
        found = []
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == self.pid and fields[0] != "Z":
                found.append(int(stat.parent.name))
        return found

    def cut(self):
        """Every connection ends; the server lives on."""
        for pid in self.sessions():
            for child in descendants(pid):
                if is_sshd(child):
                    kill(child)
            kill(pid)

    def close(self):
        self.cut()
        subprocess.run([SCRIPT, "stop", self.base], timeout=60, check=False)


def kill(pid):
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        pass


def name_of(pid):
    """Of a process; of one that is gone: none."""
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""


def is_sshd(pid):
    return name_of(pid).startswith("sshd")


def descendants(pid):
    try:
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [c for child in map(int, children) for c in (*descendants(child), child)]
