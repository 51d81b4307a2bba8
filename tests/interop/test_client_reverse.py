# SPDX-License-Identifier: Apache-2.0
"""The released client drives a daemon that dialled it: reverse WebSocket. The links here are cut, silent and wrong
in every way that a Host sees; what takes its documented time is in the daemon's own tests, with shorter times."""
import asyncio
import contextlib
import hashlib
import json
import os
import signal
import ssl
import subprocess

import pytest
from a13n_envd_client import EIPMethodError
from carrier_tests import *  # noqa: F401,F403  (all tests of every carrier)
from peer import (LONG_S, MIB, Host, alive, at, call, coded, download, everything, gone, mark, operation, out, refused,
                  said, sh, shell, start, to_path, until, upload, wait)
from websockets.exceptions import ConnectionClosed


@pytest.fixture
def carrier(place):
    return place.reverse


def dial(place, host, **more):
    return place.start(place.reverse_settings(host.url, **more), stdin=subprocess.DEVNULL)


async def ended(child):
    return await asyncio.to_thread(child.wait, LONG_S)


async def stop(child):
    child.send_signal(signal.SIGTERM)
    assert await ended(child) == 0, said(child)


async def fails(child, *words):
    """It ends with 1, and its last words hold these; the credential is never among them."""
    assert await ended(child) == 1
    last = said(child).strip().splitlines()[-1]
    assert "failed: " in last and all(w in last for w in words), last


def cut(device):
    """The link is gone without a word."""
    device.connection.transport.abort()


# ---- links that are cut


async def test_a_session_goes_on_after_the_link_was_cut(place):
    async with Host(place) as host:
        child = dial(place, host)
        device = await host.device()
        session = await device.open_session()
        p = await start(session, shell("echo before; read x; echo got $x; exit 7", keep_stdin_open=True))
        reference = p.output.stdout.reference
        descriptor = session.descriptor
        cut(device)
        later = await host.device()
        assert later.descriptor.generation == device.descriptor.generation
        again = await later.attach_session(descriptor)
        assert again.session_id == descriptor.session_id and (await again.describe()).session_id == again.session_id
        assert (await call(again, "process.inspect", handle=p.handle.root)).process.status.phase.value == "running"
        await call(again, "process.write_stdin", handle=p.handle.root, data=coded(b"it\n"))
        assert (await wait(again, p)).status.exit_code == 7  # the same process went on
        assert await everything(again, reference) == b"before\ngot it\n"  # no gap, nothing twice
        await again.close()
        await later.close()
        await stop(child)


async def test_many_cuts(place):
    """Each time the same session, each time with what it had."""
    async with Host(place) as host:
        child = dial(place, host)
        device = await host.device()
        session = await device.open_session()
        descriptor = session.descriptor
        for i in range(5):
            await call(session, "file.write_text", path=at(place.path(f"f{i}")), mode="create", text=str(i))
            cut(device)
            device = await host.device()
            session = await device.attach_session(descriptor)
        assert out(await sh(session, "cat f*")) == b"01234"
        await session.close()
        await device.close()
        await stop(child)


async def receipt_of(session, op):
    """What is known of an operation; while it is under way there is nothing yet."""
    for _ in range(3000):
        try:
            return (await call(session, "receipt.get", operation_id=op)).receipt
        except EIPMethodError as e:
            assert e.error.data.error_type.value == "not_found_or_denied"
            await asyncio.sleep(0.01)
    raise AssertionError(f"no receipt of {op}")


async def test_case_65_one_effect_whatever_the_link_does(place):
    """The link is cut right after a start, a write and an append were taken: each has happened once, and the
    same request again says what became of the first."""
    async with Host(place) as host:
        child = dial(place, host)
        device = await host.device()
        session = await device.open_session()
        place.put("log", "")
        m = mark()
        asked = [("process.start", operation(), {"request": shell(f"echo x >> starts; exec sleep {m}")}),
                 ("file.write_text", operation(), {"path": at(place.path("new")), "mode": "create", "text": "one"}),
                 ("file.write_text", operation(), {"path": at(place.path("log")), "mode": "append", "text": "line\n"})]
        tasks = [asyncio.ensure_future(call(session, method, op, **params)) for method, op, params in asked]
        await until(lambda: alive(m) and place.get("log") and os.path.exists(place.path("new")), "all were taken")
        descriptor = session.descriptor
        cut(device)
        await asyncio.gather(*tasks, return_exceptions=True)
        later = await host.device()
        again = await later.attach_session(descriptor)
        for method, op, params in asked:
            receipt = await receipt_of(again, op)
            assert receipt.outcome.value == "succeeded" and receipt.generation == later.descriptor.generation
            assert (await call(again, method, op, **params)).receipt == receipt
        assert place.get("log") == b"line\n" and place.get("starts") == b"x\n" and len(alive(m)) == 1
        await again.close()
        await gone(m)
        await later.close()
        await stop(child)


async def test_transfers_end_with_their_link(place):
    content = os.urandom(6 * MIB)
    place.put("large", content)
    async with Host(place) as host:
        child = dial(place, host)
        device = await host.device()
        session = await device.open_session()
        descriptor = session.descriptor
        writer = session.open_writer(to_path(place.path("new")), mode="create")
        await writer.__aenter__()
        await writer.write(content[:300000])
        await until(place.staged, "the upload is staged")
        cut(device)
        later = await host.device()
        again = await later.attach_session(descriptor)
        await until(lambda: not place.staged(), "nothing of the upload is left")
        assert not os.path.exists(place.path("new"))
        # both ways begin anew
        assert (await upload(again, place.path("new"), content)).transferred_bytes == len(content)
        assert hashlib.sha256(await download(again, place.path("large"))).digest() == hashlib.sha256(content).digest()
        await again.close()
        await later.close()
        await stop(child)


async def test_a_download_is_cut_in_the_middle(place):
    content = os.urandom(8 * MIB)
    place.put("large", content)
    async with Host(place) as host:
        child = dial(place, host)
        device = await host.device()
        session = await device.open_session()
        descriptor = session.descriptor
        with pytest.raises(Exception):
            async with session.open_reader(to_path(place.path("large"))) as reader:
                async for _ in reader:
                    cut(device)
        later = await host.device()
        again = await later.attach_session(descriptor)
        assert await download(again, place.path("large")) == content
        await again.close()
        await later.close()
        await stop(child)


async def test_grace_is_over(place):
    m = mark()
    async with Host(place) as host:
        child = dial(place, host, DISCONNECT_GRACE_MS="50")
        device = await host.device()
        session = await device.open_session()
        await start(session, shell(f"sleep {m}"))
        descriptor = session.descriptor
        cut(device)
        await gone(m)
        later = await host.device()
        with refused("not_initialized"):
            await later.attach_session(descriptor)
        assert (await later.open_session()).session_id != descriptor.session_id
        await later.close()
        await stop(child)


@pytest.mark.long
async def test_case_63_and_case_64_a_link_that_only_looks_alive(place):
    """The Host's machine sleeps, or the state in between is lost: nothing says so, nothing answers. The daemon comes
    again within the documented 30 seconds, and the output goes on from where its reader was."""
    async with Host(place) as host:
        child = dial(place, host)
        device = await host.device()
        session = await device.open_session()
        p = await start(session, shell("i=0; while :; do i=$((i+1)); echo $i; sleep 0.2; done"))
        reference, descriptor = p.output.stdout.reference, session.descriptor
        first = await session.open_output(reference).read_page()
        session._stop_keepalive()
        device.connection.transport.pause_reading()
        began = asyncio.get_running_loop().time()
        connection = await asyncio.wait_for(host.accepted.get(), 40)
        assert 5 < asyncio.get_running_loop().time() - began < 35
        host.accepted.put_nowait(connection)
        later = await host.device()
        again = await later.attach_session(descriptor)
        assert (await call(again, "process.inspect", handle=p.handle.root)).process.status.phase.value == "running"
        await call(again, "process.kill", handle=p.handle.root)
        text = first.data + await everything(again, reference, start_offset=first.next_offset)
        lines = text.decode().split()
        assert len(lines) > 20 and lines == [str(i + 1) for i in range(len(lines))]  # no gap, nothing twice
        await again.close()
        await later.close()
        await stop(child)


# ---- a Host that refuses, or is wrong


@pytest.mark.parametrize("status, words", [(401, "attachment authorization failed"),
                                           (403, "attachment authorization failed"), (301, "redirect is forbidden"),
                                           (404, "upgrade was rejected"), (200, "upgrade was rejected")])
async def test_refused_for_good(place, status, words):
    async with Host(place) as host:
        host.status = status
        child = dial(place, host)
        await fails(child, words)
        assert place.credential not in said(child) and len(host.seen) == 1


async def test_wrong_credential(place):
    async with Host(place) as host:
        settings = place.reverse_settings(host.url)
        place.credential += "x"  # the Host's; the file has the other
        child = place.start(settings, stdin=subprocess.DEVNULL)
        await fails(child, "attachment authorization failed")


async def test_refused_for_a_while(place):
    async with Host(place) as host:
        host.status = 503
        child = dial(place, host)
        await until(lambda: len(host.seen) >= 2, "it tries again")
        host.status = None
        device = await host.device()
        await device.close()
        await stop(child)


async def test_revoked_while_it_runs(place):
    """The credential is read anew for every attempt; a Host that does not know it any more ends the daemon."""
    async with Host(place) as host:
        child = dial(place, host)
        device = await host.device()
        old, place.credential = place.credential, "fresh-" + place.credential
        with open(os.path.join(place.folder, "credential"), "w") as f:
            f.write(place.credential + "\r\n")
        cut(device)
        device = await host.device()
        assert host.seen == [f"Bearer {old}", f"Bearer {place.credential}"]
        place.credential += "!"
        cut(device)
        await fails(child, "attachment authorization failed")


async def test_wrong_subprotocol(place):
    for chosen in ("eip.v2", None):
        async with Host(place) as host:
            host.subprotocol = chosen
            child = dial(place, host)
            await fails(child, "upgrade is incompatible")


async def test_an_extension_is_selected(place):
    """Nobody offered it, but a wrong Host might say so all the same."""
    def extended(connection, request, response):
        response.headers["Sec-WebSocket-Extensions"] = "permessage-deflate"
    async with Host(place, process_response=extended) as host:
        await fails(dial(place, host), "extension")


async def test_compression_is_not_offered(place):
    """A Host that would compress does not get to."""
    async with Host(place, compression="deflate") as host:
        child = dial(place, host)
        device = await host.device()
        assert device.connection.protocol.extensions == []
        await device.close()
        await stop(child)


# ---- messages


async def initialized(host):
    connection = await host.connection()
    await connection.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "supported_protocol_versions": ["0.3"], "client": {"name": "raw", "version": "1"}}}))
    assert "result" in json.loads(await connection.recv())
    return connection


@pytest.mark.parametrize("message, words", [
    ("x" * 20001, "exceeds its EIP limit"), (b"x" * 300001, "exceeds its EIP limit"),
    (b"not a frame", "invalid EIP WebSocket data frame"), (b"", "invalid EIP WebSocket data frame"),
    (b'{"jsonrpc":"2.0","id":2,"method":"device.describe","params":{}}', "invalid EIP WebSocket data frame")])
async def test_messages_that_end_the_daemon(place, message, words):
    async with Host(place) as host:
        child = dial(place, host, limits={"max_request_bytes": 20000, "max_transfer_frame_bytes": 300000})
        connection = await initialized(host)
        with contextlib.suppress(ConnectionClosed):  # it need not wait for the message's end
            await connection.send(message)
        await fails(child, words)
        await connection.wait_closed()
        assert connection.close_code == 1005  # it closes without a code


async def test_the_first_message_must_be_text(place):
    async with Host(place) as host:
        child = dial(place, host)
        await (await host.connection()).send(b"EIPD")
        await fails(child, "initialize must be the first EIP WebSocket message")


async def test_text_in_fragments(place):
    async with Host(place) as host:
        child = dial(place, host)
        connection = await initialized(host)
        text = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "device.describe", "params": {}, "eip_note": None})
        await connection.send([text[:5], "", text[5:40], text[40:]])
        assert json.loads(await connection.recv())["error"]["data"]["error_type"] == "invalid_request"
        pong = await connection.ping(b"between")
        await pong
        await connection.send("EIPD")  # text is control, whatever it holds
        assert json.loads(await connection.recv())["error"]["data"]["error_type"] == "parse_error"
        await connection.close()
        await (await host.connection()).close()
        await stop(child)


async def test_initialize_fails(place):
    async with Host(place) as host:
        child = dial(place, host)
        connection = await host.connection()
        await connection.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "device.describe", "params": {}}))
        assert json.loads(await connection.recv())["error"]["data"]["error_type"] == "not_initialized"
        await connection.wait_closed()
        assert connection.close_code == 1005
        device = await host.device()  # and it comes again
        await device.close()
        await stop(child)


async def test_the_host_closes_with_any_code(place):
    async with Host(place) as host:
        child = dial(place, host)
        for code in (1000, 1001, 1008, 1012, 4001):
            connection = await initialized(host)
            await connection.close(code, "reason")
        await stop(child)


# ---- TLS


def authority(place):
    """An authority, and a certificate of it for 127.0.0.1 and one for localhost only."""
    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=LONG_S, cwd=place.folder)
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl("req", "-x509", "-days", "2", *key, "-subj", "/CN=authority", "-keyout", "ca-key.pem", "-out", "ca.pem")
    for name, names in (("good", "IP:127.0.0.1,DNS:host.invalid"), ("other", "DNS:localhost")):
        with open(os.path.join(place.folder, name + ".ext"), "w") as f:
            f.write(f"subjectAltName={names}\n")
        openssl("req", *key, "-subj", f"/CN={name}", "-keyout", name + "-key.pem", "-out", name + ".csr")
        openssl("x509", "-req", "-in", name + ".csr", "-CA", "ca.pem", "-CAkey", "ca-key.pem", "-CAcreateserial",
                "-days", "2", "-extfile", name + ".ext", "-out", name + ".pem")


def served(place, name):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(os.path.join(place.folder, name + ".pem"), os.path.join(place.folder, name + "-key.pem"))
    return context


async def test_tls(place):
    await asyncio.to_thread(authority, place)
    ca = os.path.join(place.folder, "ca.pem")
    content = os.urandom(3 * MIB)
    async with Host(place, tls=served(place, "good")) as host:
        child = dial(place, host, REVERSE_WS_CA_FILE=ca)
        device = await host.device()
        async with await device.open_session() as session:
            await upload(session, place.path("f"), content)
            assert await download(session, place.path("f")) == content
            assert out(await sh(session, "echo over tls")) == b"over tls\n"
        await device.close()
        await stop(child)
    for name, trusted in (("good", None), ("other", ca)):
        async with Host(place, tls=served(place, name)) as host:
            child = dial(place, host, REVERSE_WS_CA_FILE=trusted)
            await fails(child, "reverse WebSocket TLS validation failed")
            assert host.seen == []  # the credential never left


class Proxy:
    """An HTTP proxy whose every tunnel leads to one port of this machine; with a status other than 200 to none."""

    def __init__(self, port, status=200):
        self.to, self.status, self.asked = port, status, []

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_):
        self.server.close()

    async def serve(self, reader, writer):
        self.asked.append((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0].decode())
        writer.write(b"HTTP/1.1 %d x\r\n\r\n" % self.status)
        if self.status == 200:
            there = await asyncio.open_connection("127.0.0.1", self.to)
            await asyncio.gather(self.copy(reader, there[1]), self.copy(there[0], writer))
        writer.close()

    @staticmethod
    async def copy(source, target):
        while piece := await source.read(65536):
            target.write(piece)
            await target.drain()
        target.close()


@pytest.mark.better("it asks no proxy")
async def test_through_a_proxy(place):
    """For wss, when the environment says so; a name that only the proxy knows."""
    await asyncio.to_thread(authority, place)
    ca = os.path.join(place.folder, "ca.pem")
    async with Host(place, tls=served(place, "good")) as host, Proxy(host.port) as proxy:
        settings = place.reverse_settings("wss://host.invalid/eip", REVERSE_WS_CA_FILE=ca)
        child = place.start({**settings, "HTTPS_PROXY": proxy.url}, stdin=subprocess.DEVNULL)
        device = await host.device()
        async with await device.open_session() as session:
            assert out(await sh(session, "echo through")) == b"through\n"
        await device.close()
        await stop(child)
        assert proxy.asked[0] == "CONNECT host.invalid:443 HTTP/1.1"
    async with Proxy(0, 407) as proxy:
        child = place.start({**settings, "HTTPS_PROXY": proxy.url}, stdin=subprocess.DEVNULL)
        await fails(child, "proxy")


# ---- the end


async def test_sigterm_in_the_middle_of_work(place):
    m = mark()
    async with Host(place) as host:
        child = dial(place, host)
        device = await host.device()
        session = await device.open_session()
        running = asyncio.ensure_future(sh(session, f"sleep {m}"))
        await until(lambda: alive(m), "it runs")
        child.send_signal(signal.SIGTERM)
        assert await ended(child) == 0
        assert not alive(m)
        await device.connection.wait_closed()
        assert device.connection.close_code == 1005
        await asyncio.gather(running, return_exceptions=True)
        assert [n for n in os.listdir(place.runtime) if n.startswith("generation-")] == []


async def test_sigterm_while_nobody_listens(place):
    async with Host(place) as host:
        url = host.url
    child = place.start(place.reverse_settings(url), stdin=subprocess.DEVNULL)
    await until(lambda: b"resource_totals" in b"".join(child.said), "it runs")
    await stop(child)
