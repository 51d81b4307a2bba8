# SPDX-License-Identifier: Apache-2.0
"""What the interoperability tests share: daemons started and ended, the released client over them, raw frames,
raw HTTP, and looks at the machine (which processes are alive)."""
import asyncio
import base64
import contextlib
import glob
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time

from a13n_envd_client import (AcceptedWebSocketTransport, EIPDeviceConnection, EIPMethodError, HttpTransport,
                              StdioTransport)
from a13n_envd_client.eip.v1 import METHODS, EIPPath
from websockets.asyncio.server import serve

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "lib"))
from ports import free_port

MIB = 1024 * 1024
FULL = bool(os.environ.get("TC_FULL"))
LONG_S = 30  # no single wait of a test takes longer
SOON_MS = 2000  # a limit that is reached: a command has begun by then, and said what it says first


def environment(**more):
    """The environment of a daemon: ours without anything that configures one, plus more."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("A13N_ENVD_", "TELECHIRD_", "OTEL_"))}
    env.update({f"A13N_ENVD_{k}": str(v) for k, v in more.items()})
    return env


class Place:
    """One test's folder, the program under test, and every process started for it."""

    def __init__(self, program, folder, is_reference):
        self.program, self.is_reference = program, is_reference
        self.folder = os.path.realpath(folder)
        self.work = os.path.join(self.folder, "work")
        self.runtime = os.path.join(self.folder, "runtime")
        self.credential = "token-" + secrets.token_hex(8)
        self.port = None
        self.children = []
        os.makedirs(self.work, exist_ok=True)

    # ---- starting and ending

    def settings(self, limits=None, config=None, **more):
        config = dict(config or {})
        if limits:
            config["limits"] = limits
        base = {"RUNTIME_DIR": self.runtime, "FULL_CONTROL": "1", "DEVICE_ID": "device-1",
                "DEFAULT_WORKING_DIRECTORY": self.work}
        if config:
            base["CONFIG_JSON"] = json.dumps(config)
        base.update(more)
        return environment(**{k: v for k, v in base.items() if v is not None})

    def http_settings(self, **more):
        secret = os.path.join(self.folder, "credential")
        with open(secret, "w") as f:
            f.write(self.credential + "\n")
        os.chmod(secret, 0o600)
        self.port = free_port()
        base = {"TRANSPORT": "http", "HTTP_BIND": f"127.0.0.1:{self.port}", "HTTP_CREDENTIAL_FILE": secret,
                "HTTP_PLAINTEXT_SCOPE": "loopback"}
        base.update(more)
        return self.settings(**base)

    def reverse_settings(self, url, **more):
        secret = os.path.join(self.folder, "credential")
        with open(secret, "w") as f:
            f.write(self.credential + "\n")
        base = {"TRANSPORT": "reverse_websocket", "REVERSE_WS_URL": url, "REVERSE_WS_CREDENTIAL_FILE": secret}
        base.update(more)
        return self.settings(**base)

    def run(self, *arguments, env=None, program=None, timeout=LONG_S):
        return subprocess.run([program or self.program, *arguments], env=env if env is not None else environment(),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)

    def start(self, env, program=None, arguments=(), **how):
        how.setdefault("stdin", subprocess.PIPE)
        how.setdefault("stdout", subprocess.PIPE)
        how.setdefault("stderr", subprocess.PIPE)
        child = subprocess.Popen([program or self.program, *arguments], env=env, **how)
        self.children.append(child)
        child.said = []
        if child.stderr is not None:
            child.listener = threading.Thread(target=lambda: child.said.extend(child.stderr), daemon=True)
            child.listener.start()
        return child

    def start_http(self, program=None, **more):
        """A daemon that listens; it has its port when this returns."""
        for _ in range(5):
            child = self.start(self.http_settings(**more), program, stdin=subprocess.DEVNULL)
            until = time.monotonic() + LONG_S
            while child.poll() is None:
                assert time.monotonic() < until, "the daemon does not listen"
                with contextlib.suppress(OSError):
                    socket.create_connection(("127.0.0.1", self.port), 5).close()
                    return child
                time.sleep(0.005)
            if "in use" not in said(child):
                break
        raise AssertionError(f"the daemon ended with {child.returncode}: {said(child)}")

    def end(self):
        """Nothing that was started outlives the test. What daemons said is shown if the test failed."""
        with contextlib.suppress(OSError), open(os.path.join(self.folder, "stderr"), errors="replace") as log:
            print(log.read()[-8000:])
        for child in self.children:
            if child.poll() is None:
                child.kill()
            child.wait()
            if hasattr(child, "listener"):
                print(said(child)[-8000:])
            for stream in (child.stdin, child.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()

    # ---- the released client over it

    @contextlib.asynccontextmanager
    async def stdio(self, client_limit=None, **more):
        with open(os.path.join(self.folder, "stderr"), "ab") as log:
            process = await asyncio.create_subprocess_exec(
                self.program, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=log,
                env=self.settings(**more), limit=8 * MIB)
        try:
            device = await EIPDeviceConnection.initialize(
                StdioTransport.from_process(process, **raised(client_limit)), expected_device_id="device-1")
            device.daemon_pid = process.pid
            async with device:
                yield device
            assert await asyncio.wait_for(process.wait(), LONG_S) == 0, "the daemon did not end well"
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    @contextlib.asynccontextmanager
    async def http(self, client_limit=None, **more):
        child = await asyncio.to_thread(self.start_http, **more)
        device = await self.connect(client_limit)
        device.daemon_pid = child.pid
        async with device:
            yield device
        child.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(child.wait, LONG_S) == 0, said(child)

    @contextlib.asynccontextmanager
    async def reverse(self, client_limit=None, **more):
        async with Host(self) as host:
            child = self.start(self.reverse_settings(host.url, **more), stdin=subprocess.DEVNULL)
            device = await host.device(client_limit)
            device.daemon_pid = child.pid
            async with device:
                yield device
            child.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(child.wait, LONG_S) == 0, said(child)

    async def connect(self, client_limit=None, **how):
        how.setdefault("endpoint", f"http://127.0.0.1:{self.port}")
        transport = HttpTransport(how.pop("endpoint"), self.credential, **raised(client_limit), **how)
        return await EIPDeviceConnection.initialize(transport, expected_device_id="device-1")

    # ---- files

    def path(self, *names):
        return os.path.join(self.work, *names)

    def put(self, name, content):
        if isinstance(content, str):
            content = content.encode()
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as f:
            f.write(content)
        return self.path(name)

    def get(self, name):
        with open(self.path(name), "rb") as f:
            return f.read()

    def staged(self):
        return glob.glob(self.work + "/**/.eip-stage-*", recursive=True)


class Host:
    """The Host of a reverse WebSocket: a listener that gives the connections of the daemon that dials it, in the
    order they come. Every change of its attributes holds for the next connection."""

    def __init__(self, place, tls=None, **how):
        self.place, self.tls, self.how = place, tls, how
        self.status = None          # instead of the upgrade
        self.subprotocol = "eip.v1"  # what it chooses, offered or not
        self.seen = []              # the Authorization of every request
        self.accepted = asyncio.Queue()

    async def __aenter__(self):
        how = {"compression": None, "ping_interval": None, "max_size": 64 * MIB, **self.how}
        self.server = await serve(self.handle, "127.0.0.1", 0, ssl=self.tls, subprotocols=["eip.v1"],
                                  select_subprotocol=lambda *_: self.subprotocol,
                                  process_request=self.check, **how)
        self.port = self.server.sockets[0].getsockname()[1]
        self.url = f"{'wss' if self.tls else 'ws'}://127.0.0.1:{self.port}/eip"
        return self

    async def __aexit__(self, *_):
        self.server.close()
        await self.server.wait_closed()

    def check(self, connection, request):
        self.seen.append(request.headers.get("Authorization"))
        if self.seen[-1] != f"Bearer {self.place.credential}":
            return connection.respond(401, "")
        return connection.respond(self.status, "") if self.status else None

    async def handle(self, connection):
        await self.accepted.put(connection)
        await connection.wait_closed()

    async def connection(self):
        return await asyncio.wait_for(self.accepted.get(), LONG_S)

    async def device(self, client_limit=None, **how):
        """The device of the next connection."""
        connection = await self.connection()
        device = await EIPDeviceConnection.initialize(
            AcceptedWebSocketTransport(connection, **raised(client_limit)), expected_device_id="device-1", **how)
        device.connection = connection
        return device


def raised(limit):
    """The client takes 1 MiB frames unless told otherwise, less than a daemon may send."""
    if limit is None:
        return {}
    return {"max_request_bytes": limit, "max_response_bytes": limit, "max_transfer_frame_bytes": limit}


def said(child):
    """All a daemon that ended said on standard error."""
    child.listener.join(LONG_S)
    return b"".join(child.said).decode(errors="replace")


# ---- calls


def operation():
    return f"op-{secrets.token_urlsafe(9)}"


def at(path):
    return {"path": os.fspath(path)}


def coded(data):
    return {"encoding": "base64", "data": base64.b64encode(data).decode().rstrip("=")}


def decoded(value):
    data = value["data"] if isinstance(value, dict) else value.data
    return base64.b64decode(data + "=" * (-len(data) % 4))


async def call(session, method, op=None, timeout_ms=None, **params):
    """One method of the released client, its parameters as plain values."""
    spec = METHODS[method]
    if "context" in spec.params_type.model_fields:
        params["context"] = {"operation_id": op or operation()}
        if timeout_ms is not None:
            params["context"]["timeout_ms"] = timeout_ms
    client = session.client if hasattr(session, "client") else session._client
    return await getattr(client, method.replace(".", "_"))(spec.params_type.model_validate(params))


@contextlib.contextmanager
def refused(*kinds):
    """The body fails with one of these error types; the error is the value's .data."""

    class Caught:
        data = None

    caught = Caught()
    try:
        yield caught
    except EIPMethodError as e:
        caught.data = e.error.data
        assert caught.data.error_type.value in kinds, f"{caught.data.error_type.value}, not {kinds}: {e}"
        return
    raise AssertionError(f"no error; one of {kinds} was due")


def shell(script, **more):
    return {"command": {"kind": "shell", "profile_id": "default", "script": script}, **more}


def argv(name, *arguments, **more):
    kind = {"kind": "path", "path": at(name)} if name.startswith("/") else {"kind": "name", "name": name}
    return {"command": {"kind": "argv", "executable_spec": kind, "arguments": list(arguments)}, **more}


async def sh(session, script, op=None, timeout_ms=None, **more):
    return await call(session, "shell.exec", op, timeout_ms, request=shell(script, **more))


async def start(session, request, op=None):
    return (await call(session, "process.start", op, request=request)).process


async def wait(session, process, condition="tree_cleaned", timeout_ms=LONG_S * 1000):
    return (await call(session, "process.wait", timeout_ms=timeout_ms, handle=process.handle.root,
                       condition=condition)).process


def out(result):
    return decoded(result.output.stdout.preview)


def err(result):
    return decoded(result.output.stderr.preview)


async def everything(session, reference, **how):
    """All bytes of one output, read to its end."""
    return b"".join([page async for page in session.open_output(reference, **how)])


async def upload(session, path, content, mode="upsert", piece=65536, **how):
    async with session.open_writer(to_path(path), mode=mode, **how) as writer:
        for i in range(0, len(content), piece):
            await writer.write(content[i:i + piece])
        return await writer.commit()


async def download(session, path, byte_range=None):
    pieces = []
    async with session.open_reader(to_path(path), byte_range=byte_range) as reader:
        async for piece in reader:
            pieces.append(piece)
    return b"".join(pieces)


def to_path(path):
    return EIPPath(path=os.fspath(path))


# ---- raw stdio


class Raw:
    """A daemon on pipes, spoken to by hand: frames as they are, answers as they come."""

    def __init__(self, place, program=None, arguments=(), **more):
        self.child = place.start(place.settings(**more), program, arguments)
        self.number = 0
        self.generation = self.session = None
        self.early = {}

    def send(self, body, kind="application/json"):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.child.stdin.write(b"Content-Length: %d\r\nContent-Type: %s\r\n\r\n" % (len(body), kind.encode()) + body)
        self.child.stdin.flush()

    def receive(self):
        """(content type, body), or None at the end."""
        length, kind = None, None
        while (line := self.child.stdout.readline()) != b"\r\n":
            if not line:
                return None
            name, value = line.decode().split(":", 1)
            if name.lower() == "content-length":
                length = int(value)
            if name.lower() == "content-type":
                kind = value.strip()
        return kind, self.child.stdout.read(length)

    def answer_to(self, number):
        while number not in self.early:
            got = self.receive()
            if got is None:
                raise EOFError("the daemon ended: " + said(self.child))
            if got[0].startswith("application/json"):
                message = json.loads(got[1])
                self.early[message["id"]] = message
        return self.early.pop(number)

    def ask(self, method, params=None, session=None, op=None, **envelope):
        """Send one request and return its number."""
        self.number += 1
        params = dict(params or {})
        if op is not False:
            params.setdefault("context", {"operation_id": op or operation()})
        message = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params, **envelope}
        if session:
            message["eip_session"] = session
        self.send(message)
        return self.number

    def request(self, method, params=None, session=None, op=None, **envelope):
        return self.answer_to(self.ask(method, params, session, op, **envelope))

    def initialize(self, **params):
        result = self.request("initialize", {"supported_protocol_versions": ["0.3"],
                                             "client": {"name": "raw", "version": "1"}, **params}, op=False)
        if "result" in result:
            self.generation = result["result"]["descriptor"]["generation"]
        return result

    def open(self, folder=None):
        params = {"expected_device_id": "device-1", "expected_generation": self.generation, "protocol_version": "0.3"}
        if folder:
            params["working_directory"] = folder
        opened = self.request("session.open", params, op=False)
        session = opened["result"]["descriptor"]["session_id"]
        assert self.request("environment.readiness", {}, session)["result"]["ready"]
        self.session = self.session or session
        return session

    def close(self):
        self.child.stdin.close()
        return self.child.wait(LONG_S)


# ---- raw HTTP


class Wire:
    """One TCP connection to the daemon; what is sent and what is read is the test's business."""

    def __init__(self, place, port=None, tls=None):
        self.place = place
        self.socket = socket.create_connection(("127.0.0.1", port or place.port), LONG_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self.stream = self.socket.makefile("rb")

    def send(self, data):
        self.socket.sendall(data)

    def request(self, method, path, body=b"", **headers):
        self.send(self.head(method, path, {"content-length": str(len(body)), **headers}) + body)
        return self.response()

    def head(self, method, path, headers):
        """Headers given as names with _ for -; None leaves a default one out."""
        lines = {"host": "localhost", "authorization": f"Bearer {self.place.credential}"}
        lines.update({k.replace("_", "-"): v for k, v in headers.items()})
        text = "".join(f"{k}: {v}\r\n" for k, v in lines.items() if v is not None)
        return f"{method} {path} HTTP/1.1\r\n{text}\r\n".encode()

    def control(self, message, **headers):
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        headers.setdefault("content_type", "application/json")
        return self.request("POST", "/eip/control", body, **headers)

    def call(self, method, params=None, session=None, op=None, number=1):
        params = dict(params or {})
        if op is not False:
            params.setdefault("context", {"operation_id": op or operation()})
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        if session:
            message["eip_session"] = session
        response = self.control(message)
        assert response.status == 200, response.status
        return json.loads(response.body)

    def session(self, folder=None):
        hello = self.call("initialize", {"supported_protocol_versions": ["0.3"],
                                         "client": {"name": "raw", "version": "1"}}, op=False)
        params = {"expected_device_id": "device-1", "protocol_version": "0.3",
                  "expected_generation": hello["result"]["descriptor"]["generation"]}
        if folder:
            params["working_directory"] = folder
        opened = self.call("session.open", params, op=False)
        session = opened["result"]["descriptor"]["session_id"]
        self.call("environment.readiness", {}, session)
        return session

    def transfer_headers(self, session, handle, direction, **more):
        headers = {"content_type": "application/octet-stream", "eip_session": session, "eip_transfer_handle": handle,
                   "eip_transfer_direction": direction}
        headers.update(more)
        return headers

    def response(self):
        line = self.stream.readline()
        if not line:
            raise EOFError("the connection was closed")
        answer = Response(int(line.split()[1]))
        while (line := self.stream.readline()) not in (b"\r\n", b""):
            name, value = line.decode().split(":", 1)
            answer.headers[name.strip().lower()] = value.strip()
        if answer.headers.get("transfer-encoding") == "chunked":
            self.read_chunks(answer)
        elif "content-length" in answer.headers:
            answer.body = self.stream.read(int(answer.headers["content-length"]))
        return answer

    def read_chunks(self, answer):
        pieces = []
        try:
            while True:
                line = self.stream.readline()
                if not line.endswith(b"\r\n"):
                    break
                size = int(line, 16)
                if size == 0:
                    answer.is_whole = self.stream.readline() == b"\r\n"
                    break
                piece = self.stream.read(size + 2)
                pieces.append(piece[:size])
                if len(piece) < size + 2:
                    break
        except ConnectionError:
            pass
        answer.body = b"".join(pieces)

    def is_closed(self):
        with contextlib.suppress(ConnectionError):
            return self.socket.recv(1) == b""
        return True

    def close(self):
        self.stream.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Response:
    def __init__(self, status):
        self.status, self.headers, self.body, self.is_whole = status, {}, b"", False


# ---- the machine


def alive(mark):
    """Pids of live processes that have mark in their command line; zombies are not alive."""
    found = []
    for folder in glob.glob("/proc/[0-9]*"):
        try:
            with open(folder + "/cmdline", "rb") as f:
                if mark.encode() not in f.read():
                    continue
            with open(folder + "/stat") as f:
                if f.read().rsplit(")", 1)[1].split()[0] != "Z":
                    found.append(int(os.path.basename(folder)))
        except OSError:
            continue
    return found


async def until(condition, what, limit_s=LONG_S):
    """Poll until condition() is true."""
    end = time.monotonic() + limit_s
    while not (value := condition()):
        assert time.monotonic() < end, f"did not happen: {what}"
        await asyncio.sleep(0.01)
    return value


async def gone(mark, limit_s=LONG_S):
    await until(lambda: not alive(mark), f"'{mark}' ends; alive: {alive(mark)}", limit_s)


_marks = iter(range(1, 1 << 20))


def mark():
    """An argument of sleep that no other process has."""
    return f"{600 + next(_marks)}.{os.getpid()}"
