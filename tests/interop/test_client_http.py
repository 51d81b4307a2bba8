# SPDX-License-Identifier: Apache-2.0
"""The released client drives the daemon over HTTP."""
import asyncio
import ssl
import subprocess

import pytest
from a13n_envd_client import EIPTransportError
from carrier_tests import *  # noqa: F401,F403  (all tests of every carrier)
from peer import LONG_S, call, coded, everything, mark, out, refused, said, sh, shell, start, wait


@pytest.fixture
def carrier(place):
    return place.http


async def test_another_client_takes_the_session_over(place):
    async with place.http() as device:
        session = await device.open_session()
        m = mark()
        p = await start(session, shell(f"echo before; sleep {m}"))
        assert (await session.open_output(p.output.stdout.reference).read_page(wait_ms=20_000)).data == b"before\n"
        other = await place.connect()
        attached = await other.attach_session(session.descriptor)
        assert attached.session_id == session.session_id
        assert (await call(attached, "process.inspect", handle=p.handle.root)).process.status.phase.value == "running"
        assert out(await sh(attached, "echo hi")) == b"hi\n"
        assert out(await sh(session, "echo both")) == b"both\n"
        await call(attached, "process.kill", handle=p.handle.root)
        assert await everything(attached, p.output.stdout.reference) == b"before\n"
        await attached.close()
        with refused("not_initialized"):
            await sh(session, "echo closed")
        await other.close()


async def test_processes_outlive_the_connection(place):
    async with place.http() as device:
        session = await device.open_session()
        p = await start(session, shell("read x; echo got $x", keep_stdin_open=True))
        descriptor = session.descriptor
        session._stop_keepalive()
        await device._requester._transport.close()  # as a client that died: nothing is closed in the protocol
        later = await place.connect()
        again = await later.attach_session(descriptor)
        await call(again, "process.write_stdin", handle=p.handle.root, data=coded(b"it\n"))
        assert (await wait(again, p)).status.exit_code == 0
        assert await everything(again, p.output.stdout.reference) == b"got it\n"
        await later.close()


async def test_wrong_credential(place):
    async with place.http():
        place.credential += "x"
        with pytest.raises(EIPTransportError, match="401"):
            await place.connect()
        place.credential = place.credential[:-1]


async def test_closed_session_is_unknown(place):
    async with place.http() as device:
        session = await device.open_session()
        descriptor = session.descriptor
        await session.close()
        with refused("not_initialized"):
            await device.attach_session(descriptor)


def certificate(place):
    """A key and a certificate for localhost, made with openssl."""
    key, cert = place.folder + "/key.pem", place.folder + "/cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                    "-keyout", key, "-out", cert], check=True, capture_output=True, timeout=LONG_S)
    return key, cert


async def test_tls(place):
    key, cert = certificate(place)
    child = await asyncio.to_thread(place.start_http, HTTP_TLS_CERT_FILE=cert, HTTP_TLS_KEY_FILE=key,
                                    HTTP_PLAINTEXT_SCOPE=None)
    trusting = ssl.create_default_context(cafile=cert)
    content = bytes(range(256)) * 4000
    async with await place.connect(endpoint=f"https://localhost:{place.port}", verify=trusting) as device:
        async with await device.open_session() as session:
            await upload(session, place.path("f"), content)  # noqa: F405
            assert await download(session, place.path("f")) == content  # noqa: F405
            assert out(await sh(session, "echo over tls")) == b"over tls\n"
    with pytest.raises(EIPTransportError):
        await place.connect(endpoint=f"https://localhost:{place.port}")
    with pytest.raises(EIPTransportError):
        await place.connect()
    child.terminate()
    assert await asyncio.to_thread(child.wait, LONG_S) == 0, said(child)
