# SPDX-License-Identifier: Apache-2.0
"""Under the name a13n-envd the daemon is the original to whoever starts it: names, versions, words, exit codes,
and the folders it keeps."""
import asyncio
import fcntl
import json
import os
import re
import shutil
import signal
import stat
import struct
import termios

import pytest
from a13n_envd_client import EIPDeviceConnection, StdioTransport
from peer import LONG_S, Raw, argv, at, environment, gone, mark, said, to_path, until

# ---- names and versions


def test_version(place, drop_in):
    for env in (environment(), {}):
        done = place.run("--version", program=drop_in, env=env)
        assert (done.returncode, done.stdout, done.stderr) == (0, "a13n-envd 0.5.1\n", "")


def test_version_with_more(place, drop_in):
    for more in (("--version", "--check"), ("--name", "x", "--version"), ("--version", "--version")):
        done = place.run(*more, program=drop_in)
        assert done.returncode == 1 and done.stdout == ""
        if more[0] == "--version":
            assert done.stderr == "a13n-envd failed: --version cannot be combined with other arguments\n"


def test_help(place, drop_in):
    for words in (("--help",), ("update", "--help"), ("connect", "--help")):
        done = place.run(*words, program=drop_in)
        assert done.returncode == 0 and done.stderr == "" and done.stdout, words


@pytest.mark.better("needs the original's own release server")
def test_update_to_the_same_version_does_nothing(place, drop_in):
    before = sorted(os.listdir(os.path.dirname(drop_in)))
    for words in (("--check",), ()):
        done = place.run("update", "--version", "0.5.1", *words, program=drop_in)
        assert (done.returncode, done.stderr) == (0, ""), words
    assert sorted(os.listdir(os.path.dirname(drop_in))) == before


def test_pinned_version(place, drop_in):
    copy = os.path.join(place.folder, "pin")
    os.mkdir(copy)
    program = shutil.copy(os.path.realpath(drop_in), os.path.join(copy, "a13n-envd"))
    with open(os.path.join(copy, ".a13n-envd-version"), "w") as f:
        f.write("0.5.1")
    done = place.run("update", "--version", "9.9.9", "--check", program=program)
    assert done.returncode == 1 and "pinned" in done.stderr


def test_server_name_on_the_wire(place, drop_in):
    for program in (drop_in, place.program):
        raw = Raw(place, program=program)
        hello = raw.initialize()["result"]
        assert hello["server"] == {"name": "a13n-envd", "version": "0.5.1"} and hello["protocol_version"] == "0.3"
        assert raw.close() == 0


def test_generation_keeps_64_bits(place):
    seen = set()
    for _ in range(4):
        raw = Raw(place)
        raw.initialize()
        seen.add(raw.generation)
        assert raw.open().startswith("session-") and raw.close() == 0
    assert len(seen) == 4 and max(seen) > 2**53 and max(seen) < 2**64


async def test_client_accepts_the_drop_in(place, drop_in):
    place.program = drop_in
    async with place.stdio() as device, await device.open_session() as session:
        assert session.descriptor.working_directory == place.work


# ---- exit codes and words


def test_end_of_input(place, drop_in):
    raw = Raw(place, program=drop_in)
    assert raw.close() == 0  # before initialize
    raw = Raw(place, program=drop_in)
    raw.initialize()
    raw.open()
    assert raw.close() == 0
    assert os.listdir(place.runtime) == [".a13n-envd.lock"]
    assert stat.S_IMODE(os.stat(place.runtime).st_mode) == 0o700


def test_sigterm(place, drop_in):
    for number in (signal.SIGTERM, signal.SIGINT):
        raw = Raw(place, program=drop_in)
        raw.initialize()
        session = raw.open()
        raw.request("process.start", {"request": argv("sleep", mark())}, session)
        assert len([n for n in os.listdir(place.runtime) if n.startswith("generation-")]) == 1
        raw.child.send_signal(number)
        assert raw.child.wait(LONG_S) == 0, said(raw.child)
        assert os.listdir(place.runtime) == [".a13n-envd.lock"]


def test_refused_version_and_identity_end_with_0(place, drop_in):
    for wrong in ({"supported_protocol_versions": ["0.9"]}, {"expected_device_id": "other"}):
        raw = Raw(place, program=drop_in)
        answer = raw.initialize(**wrong)
        assert answer["error"]["data"]["error_type"] == "protocol_incompatible"
        assert raw.receive() is None and raw.child.wait(LONG_S) == 0


def test_anything_before_initialize_ends_with_0(place, drop_in):
    raw = Raw(place, program=drop_in)
    assert raw.request("device.describe", {}, op=False)["error"]["data"]["error_type"] == "not_initialized"
    assert raw.receive() is None and raw.child.wait(LONG_S) == 0


BROKEN = [b"Content-Length: 02\r\n\r\n{}", b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", b"\r\n\r\n{}",
          b"Content-Length 2\r\n\r\n{}", b"Content-Length: 2\r\nAuthorization: x\r\n\r\n{}",
          b"Content-Length: 2\r\nContent-Type: text/plain\r\n\r\n{}", b"Content-Length: 2\r\nEIP-X: 1\r\n\r\n{}",
          b"Content-Length: 99999999\r\n\r\n{}", b"X: " + b"y" * 4100 + b"\r\n\r\n", b"Content-Length: 2\r\n\r\n\xff\xff",
          b"Content-Length: 4\r\nContent-Type: application/vnd.a13n.eip-data\r\n\r\nEIPX"]


@pytest.mark.parametrize("number", range(len(BROKEN)))
def test_malformed_frame(place, drop_in, number):
    raw = Raw(place, program=drop_in)
    raw.initialize()
    raw.child.stdin.write(BROKEN[number])
    raw.child.stdin.flush()
    assert raw.receive() is None
    assert raw.child.wait(LONG_S) == 1
    assert said(raw.child).splitlines()[-1].startswith("a13n-envd failed: ")


def test_end_of_input_inside_a_frame(place, drop_in):
    for part in (b"Content-Le", b"Content-Length: 50\r\n\r\n{"):
        raw = Raw(place, program=drop_in)
        raw.initialize()
        raw.child.stdin.write(part)
        assert raw.close() == 1 and "a13n-envd failed: " in said(raw.child)


def test_malformed_json_is_survived(place, drop_in):
    raw = Raw(place, program=drop_in)
    raw.initialize()
    for body, kind in ((b"{", "parse_error"), (b'{"a":1,"a":2}', "invalid_request"), (b"[" * 200, "parse_error"),
                       (b"\xef\xbb\xbf{}", "parse_error")):
        raw.send(body)
        assert raw.answer_to(None)["error"]["data"]["error_type"] == kind
    assert "result" in raw.request("device.describe", {}, op=False) and raw.close() == 0


def test_bad_configuration(place, drop_in):
    for wrong in ({"CONFIG_JSON": "{"}, {"CONFIG_JSON": '{"no_such":1}'}, {"NO_SUCH_THING": "1"},
                  {"RUNTIME_DIR": "relative"}, {"RUNTIME_DIR": None}, {"FULL_CONTROL": "yes"},
                  {"IDLE_TIMEOUT_MS": "1"}, {"TRANSPORT": "carrier-pigeon"}, {"HTTP_BIND": "127.0.0.1:1"},
                  {"CONFIG_JSON": '{"limits":{"max_processes":0}}'}):
        done = place.run(program=drop_in, env=place.settings(**wrong))
        assert done.returncode == 1 and done.stdout == "", wrong
        assert done.stderr.splitlines()[-1].startswith("a13n-envd failed: "), (wrong, done.stderr)


def unread(pipe):
    """Bytes that wait in a pipe."""
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))[0]


async def test_blocked_standard_output(place, drop_in):
    """SIGTERM while nobody reads the answers: it ends, and says why it was not clean."""
    raw = Raw(place, program=drop_in)
    raw.initialize()
    session = raw.open()
    f = place.put("f", "z" * 400_000)
    for _ in range(4):
        raw.ask("file.read_text", {"path": at(f), "line_limit": 1, "max_line_length": 400_000}, session)
    await until(lambda: unread(raw.child.stdout) > 60_000, "the pipe is full")
    raw.child.send_signal(signal.SIGTERM)
    assert raw.child.wait(LONG_S) == 1
    assert "response drain timed out" in said(raw.child)


# ---- folders


def test_second_daemon_on_the_same_folder(place, drop_in):
    raw = Raw(place, program=drop_in)
    raw.initialize()
    done = place.run(program=drop_in, env=place.settings())
    assert done.returncode == 1 and "runtime parent is already owned" in done.stderr
    assert raw.close() == 0
    again = Raw(place, program=drop_in)
    again.initialize()
    assert again.close() == 0


def test_foreign_entry_in_the_runtime_folder(place, drop_in):
    os.makedirs(place.runtime)
    with open(os.path.join(place.runtime, "something"), "w"):
        pass
    done = place.run(program=drop_in, env=place.settings())
    assert done.returncode == 1 and os.path.exists(os.path.join(place.runtime, "something"))


def test_device_identity_is_kept(place, drop_in):
    state = os.path.join(place.folder, "state")
    seen = set()
    for _ in range(2):
        raw = Raw(place, program=drop_in, DEVICE_ID=None, STATE_DIR=state)
        seen.add(raw.initialize()["result"]["descriptor"]["device_id"])
        assert raw.close() == 0
    assert len(seen) == 1 and re.fullmatch("device-[0-9a-f]{32}", next(iter(seen)))
    with open(os.path.join(state, "device-id")) as f:
        assert f.read() == seen.pop()
    assert stat.S_IMODE(os.stat(state).st_mode) == 0o700


def test_identity_beside_the_runtime_folder(place, drop_in):
    raw = Raw(place, program=drop_in, DEVICE_ID=None)
    name = raw.initialize()["result"]["descriptor"]["device_id"]
    assert raw.close() == 0
    with open(place.runtime + ".state/device-id") as f:
        assert f.read() == name


async def test_case_32_killed_daemon_leaves_nothing_after_the_next_start(place, drop_in):
    m = mark()
    raw = Raw(place, program=drop_in)
    raw.initialize()
    session = raw.open()
    raw.request("process.start", {"request": argv("sleep", m)}, session)
    raw.child.kill()
    raw.child.wait()
    stale = [n for n in os.listdir(place.runtime) if n.startswith("generation-")]
    assert len(stale) == 1
    again = Raw(place, program=drop_in)
    again.initialize()
    now = [n for n in os.listdir(place.runtime) if n.startswith("generation-")]
    assert len(now) == 1 and now != stale
    assert again.close() == 0
    await gone(m)


@pytest.mark.better("staged files of a killed daemon stay")
async def test_case_32_staged_files_of_a_killed_daemon(place, drop_in):
    place.program = drop_in
    f = place.put("deep/f", "old")
    process = await asyncio.create_subprocess_exec(drop_in, stdin=asyncio.subprocess.PIPE,
                                                   stdout=asyncio.subprocess.PIPE, env=place.settings())
    device = await EIPDeviceConnection.initialize(StdioTransport.from_process(process), expected_device_id="device-1")
    session = await device.open_session()
    writer = session.open_writer(to_path(f), mode="replace")
    await writer.__aenter__()
    await writer.write(b"z" * 100_000)
    await until(place.staged, "bytes are staged")
    process.kill()
    await process.wait()
    await device.close()
    assert place.staged()
    again = Raw(place, program=drop_in)
    again.initialize()
    assert not place.staged() and place.get("deep/f") == b"old"
    assert again.close() == 0


def test_folders_are_the_originals(place, drop_in):
    """connect keeps its state under ~/.a13n-envd, whoever answers."""
    home = os.path.join(place.folder, "home")
    os.mkdir(home)
    done = place.run("connect", "http://127.0.0.1:9/", program=drop_in, env={**environment(), "HOME": home})
    assert done.returncode == 1
    if not place.is_reference and "not available" in done.stderr:
        pytest.skip("enrollment is not in this build")
    folder = os.path.join(home, ".a13n-envd/instances/default")
    assert re.fullmatch("device-[0-9a-f]{32}", open(os.path.join(folder, "device-id")).read())
    host = next(iter(os.listdir(os.path.join(folder, "hosts"))))
    credential = os.path.join(folder, "hosts", host, "credential")
    assert re.fullmatch("[0-9a-f]{64}", open(credential).read())
    assert stat.S_IMODE(os.stat(credential).st_mode) == 0o600
    assert json.load(open(os.path.join(folder, "hosts", host, "host.json")))["registration"] is None
    assert open(credential).read() not in done.stderr
