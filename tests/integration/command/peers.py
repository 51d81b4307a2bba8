# SPDX-License-Identifier: Apache-2.0
"""What the tests of the command talk to: a daemon behind HTTP, and a link that breaks on purpose."""

import os
import pathlib
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
from ports import free_port

TELECHIRD = str(pathlib.Path(os.environ["TELECHIR"]).with_name("telechird"))
WAIT = 30


def wait_for_port(port, process):
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        if process.poll() is not None:
            return False
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        except OSError:
            time.sleep(0.01)  # between two looks at the same event
    raise AssertionError("the daemon does not listen")


class HttpDaemon:
    """telechird on a loopback port, with Full Control unless told otherwise.

    tls: (certificate file, key file)."""

    def __init__(self, base, full_control=True, tls=None):
        self.tls, self.full_control = tls, full_control
        self.base = pathlib.Path(base)
        self.work = self.base / "remote"
        self.work.mkdir(parents=True)
        self.token = secrets.token_hex(24)
        self.credential = self.base / "credential"
        self.credential.write_text(self.token)
        self.credential.chmod(0o600)
        self.device = "env-test-machine"
        for _ in range(5):
            self.port = free_port()
            self.process = self.start(full_control)
            if wait_for_port(self.port, self.process):
                break
        else:
            raise AssertionError((self.base / "daemon.log").read_text())
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"

    def start(self, full_control):
        env = {
            "PATH": os.environ["PATH"],
            "A13N_ENVD_RUNTIME_DIR": str(self.base / "runtime"),
            "A13N_ENVD_DEVICE_ID": self.device,
            "A13N_ENVD_DEFAULT_WORKING_DIRECTORY": str(self.work),
            "A13N_ENVD_TRANSPORT": "http",
            "A13N_ENVD_HTTP_BIND": f"127.0.0.1:{self.port}",
            "A13N_ENVD_HTTP_CREDENTIAL_FILE": str(self.credential),
            "A13N_ENVD_HTTP_PLAINTEXT_SCOPE": "loopback",
        }
        if full_control:
            env["A13N_ENVD_FULL_CONTROL"] = "true"
        if self.tls:
            del env["A13N_ENVD_HTTP_PLAINTEXT_SCOPE"]
            env["A13N_ENVD_HTTP_TLS_CERT_FILE"], env["A13N_ENVD_HTTP_TLS_KEY_FILE"] = map(str, self.tls)
        with open(self.base / "daemon.log", "wb") as log:
            return subprocess.Popen([TELECHIRD], env=env, stdin=subprocess.DEVNULL, stdout=log,
                                    stderr=log, cwd=self.base)

    def link(self, url=None):
        """The options that reach it."""
        return ["--on", url or self.url, "--device-id", self.device, "--credential-file",
                str(self.credential)]

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def restart(self):
        """On the same port and with the same identity, after it ended."""
        self.process = self.start(self.full_control)
        if not wait_for_port(self.port, self.process):
            raise AssertionError((self.base / "daemon.log").read_text())

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.kill()


class CuttingProxy:
    """Passes bytes on until cut says so, then closes both sides, and everything that comes later.

    cut_answer: after a request with these bytes, its answer is awaited and dropped.
    cut_after: the link ends once so many bytes have come back."""

    def __init__(self, port, cut_answer=None, cut_after=None):
        self.target = port
        self.cut_answer = cut_answer
        self.cut_after = cut_after
        self.is_cut = False
        self.returned = 0
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            if self.is_cut:
                client.close()
                continue
            server = socket.create_connection(("127.0.0.1", self.target))
            state = {"drop": False}
            threading.Thread(target=self.forward, args=(client, server, state), daemon=True).start()
            threading.Thread(target=self.back, args=(server, client, state), daemon=True).start()

    def forward(self, client, server, state):
        seen = b""
        try:
            while data := client.recv(65536):
                seen = (seen + data)[-1 << 20:]
                if self.cut_answer and self.cut_answer in seen:
                    state["drop"] = True
                server.sendall(data)
        except OSError:
            pass
        if not state["drop"]:
            self.shut(server)

    def back(self, server, client, state):
        try:
            while data := server.recv(65536):
                with self.lock:
                    self.returned += len(data)
                    if state["drop"] or (self.cut_after and self.returned > self.cut_after):
                        self.is_cut = True
                if self.is_cut:
                    break
                client.sendall(data)
        except OSError:
            pass
        self.shut(client)
        self.shut(server)

    @staticmethod
    def shut(sock):
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        sock.close()

    def close(self):
        self.listener.close()
