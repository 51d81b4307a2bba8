# SPDX-License-Identifier: Apache-2.0
"""The released client drives the daemon over stdio."""
import asyncio

import pytest
from a13n_envd_client import EIPDeviceConnection, StdioTransport
from carrier_tests import *  # noqa: F401,F403  (all tests of every carrier)
from peer import LONG_S, MIB, alive, argv, at, call, gone, mark, out, refused, sh, start, until


@pytest.fixture
def carrier(place):
    return place.stdio


async def test_other_identity_is_refused_and_the_daemon_ends_well(place):
    process = await asyncio.create_subprocess_exec(place.program, stdin=asyncio.subprocess.PIPE,
                                                   stdout=asyncio.subprocess.PIPE, env=place.settings())
    try:
        with refused("protocol_incompatible"):
            await EIPDeviceConnection.initialize(StdioTransport.from_process(process), expected_device_id="other")
        assert await asyncio.wait_for(process.wait(), LONG_S) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_end_of_input_ends_every_command(place):
    first, second = mark(), mark()
    async with place.stdio() as device:
        one, two = await device.open_session(), await device.open_session()
        await start(one, argv("sleep", first))
        await start(two, argv("sleep", second))
        await until(lambda: alive(first) and alive(second), "both run")
    await gone(first)
    await gone(second)


async def test_output_of_default_size_fits_the_raised_client(place):
    """The client's own limit of 1 MiB is below one page of output; raised, the daemon's pages are taken."""
    async with place.stdio(client_limit=16 * MIB) as device, await device.open_session() as session:
        done = await sh(session, f"head -c {3 * MIB} /dev/zero")
        assert len(out(done)) == device.descriptor.limits.max_output_preview_bytes
        page = await session.open_output(done.output.stdout.reference).read_page()
        assert len(page.data) > MIB


@pytest.mark.better("a full page and a preview together pass its own response limit")
async def test_output_of_default_size_with_the_default_client(place):
    """With limits that fit the client as it comes, all of a large output is read."""
    limits = {"max_response_bytes": MIB, "max_output_preview_bytes": 64 * 1024}
    async with place.stdio(limits=limits) as device, await device.open_session() as session:
        done = await sh(session, f"head -c {3 * MIB} /dev/zero")
        total = 0
        async for page in session.open_output(done.output.stdout.reference):
            total += len(page)
        assert total == 3 * MIB


async def test_small_frames_carry_large_files(place):
    limits = {"max_transfer_frame_bytes": 4096}
    content = bytes(range(256)) * 1000
    async with place.stdio(limits=limits) as device, await device.open_session() as session:
        await upload(session, place.path("f"), content)  # noqa: F405
        assert await download(session, place.path("f")) == content  # noqa: F405
        assert (await call(session, "file.stat", path=at(place.path("f")))).info.size_bytes == len(content)
