# SPDX-License-Identifier: Apache-2.0
"""A small strict Host for tests: it pairs and takes the daemon's WebSocket, over HTTP or TLS.

What it answers to the n-th pairing request is the n-th step it was given (the last one repeats); a step is a
function of the connection. Everything that came is kept as it came, and what is wrong with it, too.
"""
import base64
import hashlib
import json
import os
import socket
import ssl
import struct
import subprocess
import threading
import time

LONG_S = 60
GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
INITIALIZE = {"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": {
    "supported_protocol_versions": ["0.3"], "client": {"name": "host", "version": "1"}}}


# ---- what a step does with a connection that has sent a pairing request

def answer(status, body, headers=(), reason="X"):
    """A complete answer; body is a dict or bytes."""
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Length: {len(body)}\r\nContent-Type: application/json\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in headers)
    return lambda conn: conn.sendall(head.encode() + b"\r\n" + body)


def pending(code="ABCD-1234", url="approve?c=1", after=1, **more):
    body = {"status": "pending", "challenge": {"verification_code": code}, "poll_after_seconds": after, **more}
    if url is not None:
        body["approval_url"] = url
    return answer(200, body)


def approved(resource="dev-1", url="/api/devices/dev-1/connect", **more):
    return answer(200, {"status": "approved", "resource_id": resource, "websocket_url": url, **more})


def refused(status, code, message):
    return answer(status, {"error": {"code": code, "message": message}})


def raw(data):
    return lambda conn: conn.sendall(data)


def closed(conn):
    pass


def silent(conn):
    """Says nothing until the daemon goes."""
    while conn.recv(4096):
        pass


class Request:
    def __init__(self, head, body):
        line, *fields = head.decode("latin-1").split("\r\n")
        self.method, self.target, self.version = line.split(" ")
        self.fields = [tuple(f.split(": ", 1)) for f in fields]
        self.headers = {name.lower(): value for name, value in self.fields}
        self.body = body


class Host:
    """Its ends: url; requests (of pairing), links (upgrade requests), hellos (answers to initialize)."""

    def __init__(self, *steps, link=101, tls=None, base="/", on_link=None, name="127.0.0.1"):
        self.steps, self.link, self.base, self.on_link = list(steps), link, base, on_link
        self.requests, self.links, self.hellos, self.wrong = [], [], [], []
        self.connections = 0
        self.changed = threading.Condition()
        self.open = set()
        self.context = None
        if tls is not None:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(*tls)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.authority = f"{name}:{self.port}"
        self.origin = f"{'https' if tls else 'http'}://{self.authority}"
        self.url = self.origin + base
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)  # closing alone does not end an accept
        self.listener.close()
        self.drop()

    def drop(self):
        """End every connection there is."""
        with self.changed:
            for conn in self.open:
                try:
                    conn.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def wait(self, is_so, what="the Host", process=None):
        """Until is_so() of what came; a process that ends meanwhile is looked at once more."""
        end = time.monotonic() + LONG_S
        with self.changed:
            while not is_so():
                if process is not None and process.poll() is not None and not is_so():
                    raise AssertionError(f"{what}: the daemon ended with {process.returncode}")
                if time.monotonic() > end:
                    raise AssertionError(f"{what} never came")
                self.changed.wait(0.05)

    def note(self, list_, item):
        with self.changed:
            list_.append(item)
            self.changed.notify_all()

    # ---- connections

    def accept(self):
        while True:
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(conn,), daemon=True).start()

    def serve(self, conn):
        conn.settimeout(LONG_S)
        try:
            if self.context is not None:
                conn = self.context.wrap_socket(conn, server_side=True)
            with self.changed:
                self.open.add(conn)
                self.connections += 1
            self.answer(conn)
        except (OSError, EOFError):
            pass
        finally:
            with self.changed:
                self.open.discard(conn)
            try:
                conn.close()
            except OSError:
                pass

    def read(self, conn):
        data = b""
        while b"\r\n\r\n" not in data:
            more = conn.recv(65536)
            if not more:
                raise EOFError
            data += more
        head, rest = data.split(b"\r\n\r\n", 1)
        request = Request(head, rest)
        while len(request.body) < int(request.headers.get("content-length", 0)):
            more = conn.recv(65536)
            if not more:
                raise EOFError
            request.body += more
        return request

    def answer(self, conn):
        request = self.read(conn)
        if request.method == "POST" and request.target == self.base + "api/envd/pair":
            with self.changed:
                step = self.steps[min(len(self.requests), len(self.steps) - 1)]
                self.check(request)
                self.requests.append(request)
                self.changed.notify_all()
            step(conn)
        elif request.method == "GET" and request.headers.get("upgrade", "").lower() == "websocket":
            self.note(self.links, request)
            if self.link == 101:
                self.upgrade(conn, request)
            else:
                answer(self.link, b"")(conn)
        else:
            self.note(self.wrong, f"{request.method} {request.target}")
            answer(404, b"")(conn)

    def check(self, request):
        """What a Host relies on."""
        wrong = []
        if request.headers.get("host") != self.authority:
            wrong.append(f"host: {request.headers.get('host')}")
        if request.headers.get("content-type") != "application/json":
            wrong.append("content-type")
        if "content-length" not in request.headers:
            wrong.append("no content-length")
        scheme, _, credential = request.headers.get("authorization", "").partition(" ")
        if scheme != "Bearer" or len(credential) != 64 or credential.strip("0123456789abcdef"):
            wrong.append("authorization")
        body = json.loads(request.body)
        if list(body) != ["device_id", "name"]:
            wrong.append(f"members: {list(body)}")
        self.wrong += wrong

    # ---- the link

    def upgrade(self, conn, request):
        key = base64.b64encode(hashlib.sha1((request.headers["sec-websocket-key"] + GUID).encode()).digest()).decode()
        conn.sendall((f"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {key}\r\n"
                      "Sec-WebSocket-Protocol: eip.v1\r\n\r\n").encode())
        if self.on_link is not None:
            self.on_link(self, conn)
            return
        send_text(conn, json.dumps(INITIALIZE))
        self.note(self.hellos, json.loads(read_text(conn)))
        while True:
            read_text(conn)


def send_text(conn, text):
    data = text.encode()
    size = bytes([len(data)]) if len(data) < 126 else b"\x7e" + struct.pack(">H", len(data))
    conn.sendall(b"\x81" + size + data)


def exactly(conn, n):
    data = b""
    while len(data) < n:
        more = conn.recv(n - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def read_text(conn):
    """The next whole text message; other frames are passed over."""
    text = b""
    while True:
        first, second = exactly(conn, 2)
        n = second & 0x7F
        if n == 126:
            n = struct.unpack(">H", exactly(conn, 2))[0]
        elif n == 127:
            n = struct.unpack(">Q", exactly(conn, 8))[0]
        mask = exactly(conn, 4)
        data = bytes(b ^ mask[i % 4] for i, b in enumerate(exactly(conn, n)))
        if first & 0x0F == 8:
            conn.sendall(b"\x88\x00")
            raise EOFError
        if first & 0x0F in (0, 1):
            text += data
            if first & 0x80:
                return text.decode()


class Proxy:
    """Leads CONNECT to any name to the same port of this machine, for who has the password; asked has the targets."""

    def __init__(self, password):
        self.wanted = "Basic " + base64.b64encode(password.encode()).decode()
        self.asked, self.refused = [], 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(conn,), daemon=True).start()

    def serve(self, conn):
        data = b""
        while b"\r\n\r\n" not in data and (more := conn.recv(4096)):
            data += more
        request = Request(data.split(b"\r\n\r\n")[0], b"")
        if request.headers.get("proxy-authorization") != self.wanted:
            self.refused += 1
            answer(407, b"")(conn)
            conn.close()
            return
        self.asked.append(request.target)
        there = socket.create_connection(("127.0.0.1", int(request.target.rpartition(":")[2])))
        conn.sendall(b"HTTP/1.1 200 X\r\n\r\n")
        threading.Thread(target=self.copy, args=(there, conn), daemon=True).start()
        self.copy(conn, there)

    @staticmethod
    def copy(a, b):
        try:
            while data := a.recv(65536):
                b.sendall(data)
            b.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def make_certificate(folder):
    """(certificate, key) for 127.0.0.1 and host.test that only itself vouches for."""
    cert, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-days", "2", "-subj", "/CN=host", "-addext", "subjectAltName=IP:127.0.0.1,DNS:host.test",
                    "-keyout", key, "-out", cert], check=True, capture_output=True)
    return cert, key
