# SPDX-License-Identifier: Apache-2.0
"""Situations from the field as a client meets them on the wire. Each test names its case; docs/cases.md says
where the others are covered."""
import asyncio
import json
import os
import random
import socket
import sys

import pytest
from a13n_envd_client import EIPDeviceConnection, EIPMethodError, StdioTransport
from peer import (FULL, LONG_S, MIB, SOON_MS, Raw, Wire, alive, argv, at, call, coded, decoded, download, err, everything,
                  free_port, gone, mark, operation, out, refused, said, sh, shell, start, to_path, until, wait)


@pytest.fixture(params=["stdio", "http"])
def carrier(place, request):
    """Every transport there is."""
    return getattr(place, request.param)


# ---- A. commands, processes, signals


async def test_case_01_no_input_is_end_of_input(carrier):
    async with carrier() as device, await device.open_session() as session:
        assert out(await sh(session, "cat")) == b""
        assert out(await sh(session, "wc -l")).strip() == b"0"
        assert out(await call(session, "shell.exec", request=argv("cat"))) == b""


async def test_case_02_limit_ends_the_whole_tree(carrier):
    m = mark()
    async with carrier() as device, await device.open_session() as session:
        done = await sh(session, f"echo a; sleep {m} & sleep {m}", limits={"wall_time_ms": SOON_MS})
        assert (done.status.phase.value, done.status.termination_reason.value) == ("timed_out", "timeout")
        assert out(done) == b"a\n" and done.status.cleanup.value == "complete" and not alive(m)


async def test_case_03_background_child_does_not_hold_the_answer(carrier):
    m = mark()
    async with carrier() as device, await device.open_session() as session:
        done = await sh(session, f"sleep {m} & echo done")
        assert (done.status.exit_code, out(done)) == (0, b"done\n")
        await gone(m)  # what a command leaves behind ends with it


@pytest.mark.better("a child with a session of its own survives")
async def test_case_04_child_that_left_the_group(carrier):
    m = mark()
    async with carrier() as device, await device.open_session() as session:
        done = await sh(session, f"(trap '' TERM; setsid sh -c 'sleep {m}' &) ; echo x", limits={"wall_time_ms": LONG_S * 1000})
        assert out(done) == b"x\n" and done.status.exit_code == 0
        await gone(m)
        n = mark()
        done = await sh(session, f"echo a; setsid sh -c 'trap \"\" TERM; sleep {n}' & sleep {n}",
                        limits={"wall_time_ms": SOON_MS})
        assert done.status.phase.value == "timed_out" and out(done) == b"a\n"
        await gone(n)


async def test_case_05_signal_and_code_are_told_apart(carrier):
    async with carrier() as device, await device.open_session() as session:
        killed = (await sh(session, "kill -9 $$")).status
        assert (killed.phase.value, killed.signal.value, killed.exit_code) == ("signaled", "kill", None)
        code = (await sh(session, "exit 137")).status
        assert (code.phase.value, code.signal, code.exit_code) == ("exited", None, 137)


async def test_case_07_limit_comes_when_it_is_due(place, carrier):
    async with carrier() as device, await device.open_session() as session:
        done = await sh(session, f"sleep {mark()}; touch late", limits={"wall_time_ms": 300})
        assert done.status.phase.value == "timed_out" and not os.path.exists(place.path("late"))


async def test_case_09_shell_texts_that_hang_other_tools(carrier):
    odd = "".join(f"x{i}='$HOME `date` \\ \"'\r\necho \"${{x{i}}}\" | tr -d '\\r' >/dev/null\n" for i in range(150))
    async with carrier() as device, await device.open_session() as session:
        done = await sh(session, "cat <<END\ntext\n  END\n")
        assert out(done) == b"text\n  END\n" and done.status.phase.value == "exited"
        done = await sh(session, "echo 'open")
        assert done.status.exit_code not in (0, None) and err(done)
        done = await sh(session, odd + "echo end")
        assert done.status.phase.value == "exited" and out(done).endswith(b"end\n")
        p = await start(session, argv("sh", keep_stdin_open=True))
        for text in ("cat <<'END'\na\nEND\n", "echo b\n"):
            await call(session, "process.write_stdin", handle=p.handle.root, data=coded(text.encode()))
        await call(session, "process.close_stdin", handle=p.handle.root)
        assert decoded((await wait(session, p)).output.stdout.preview) == b"a\nb\n"


async def test_case_11_input_nobody_reads(carrier, place):
    async with carrier(client_limit=16 * MIB) as device, await device.open_session() as session:
        data = coded(os.urandom(4 * MIB))
        if place.is_reference:
            with refused("unknown_outcome"):
                await sh(session, "exit 3", initial_stdin=data)
        else:
            assert (await sh(session, "exit 3", initial_stdin=data)).status.exit_code == 3
        assert out(await sh(session, "echo alive")) == b"alive\n"


CLIENT = """
import asyncio, sys
sys.path[:0] = [{here!r}]
from peer import *
async def main():
    if {port}:
        transport = HttpTransport("http://127.0.0.1:{port}", {credential!r})
    else:
        process = await asyncio.create_subprocess_exec({program!r}, stdin=asyncio.subprocess.PIPE,
                                                       stdout=asyncio.subprocess.PIPE)
        transport = StdioTransport.from_process(process)
    device = await EIPDeviceConnection.initialize(transport, expected_device_id="device-1")
    session = await device.open_session()
    p = await start(session, shell("while :; do sleep {mark}; done"))
    print(session.descriptor.model_dump_json(), p.handle.root, sep="\\n", flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


def lone_client(place, m, port=0):
    """A client in a process of its own, so that it can be killed."""
    text = CLIENT.format(here=os.path.dirname(__file__), port=port, credential=place.credential, mark=m,
                         program=place.program)
    return place.start(place.settings(), program=sys.executable, arguments=("-c", text))


async def test_case_13_killed_client_bound(place):
    """Over stdio everything is bound to the client: it goes with it."""
    m = mark()
    client = lone_client(place, m)
    await asyncio.to_thread(client.stdout.readline)
    await until(lambda: alive(m), "the command runs")
    client.kill()
    await gone(m)


async def test_case_13_killed_client_detached(place):
    """Over HTTP the session lives on: another client finds the process by its session."""
    from a13n_envd_client.eip.v1 import SessionDescriptor
    async with place.http() as device:
        m = mark()
        client = lone_client(place, m, place.port)
        descriptor = SessionDescriptor.model_validate_json(await asyncio.to_thread(client.stdout.readline))
        handle = (await asyncio.to_thread(client.stdout.readline)).decode().strip()
        await until(lambda: alive(m), "the command runs")
        client.kill()
        await asyncio.to_thread(client.wait)
        session = await device.attach_session(descriptor)
        found = await call(session, "process.inspect", handle=handle)
        assert found.process.status.phase.value == "running" and alive(m)
        await session.close()
        await gone(m)


SERVER = """
import http.server, sys
s = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), http.server.SimpleHTTPRequestHandler)
print("serving", flush=True)
s.serve_forever()
"""


async def test_case_14_development_server(place, carrier):
    place.put("page", "content")
    script = place.put("serve.py", SERVER)
    port = free_port()
    target = {"protocol": "tcp", "address": "loopback", "port": port}
    async with carrier() as device, await device.open_session() as session:
        p = await start(session, argv(sys.executable, script, str(port)))
        seen = await call(session, "port.wait", timeout_ms=30_000, target=target, desired_status="listening")
        assert seen.observation.status.value == "listening"
        fetch = f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{port}/page').read().decode())"
        log = session.open_output(p.output.stderr.reference)
        text = b""
        for i in range(3):  # it lives between the calls; its log has no gaps
            assert out(await call(session, "shell.exec", request=argv(sys.executable, "-c", fetch))) == b"content\n"
            while text.count(b"GET /page") < i + 1:
                page = await log.read_page(wait_ms=20_000)
                assert page.start_offset == len(text)
                text += page.data
        await call(session, "process.kill", handle=p.handle.root)
        gone_ = await call(session, "port.wait", timeout_ms=10_000, target=target, desired_status="not_listening")
        assert gone_.observation.status.value == "not_listening"
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(("127.0.0.1", port))


async def test_case_15_stuck_shell(carrier):
    async with carrier() as device, await device.open_session() as session:
        p = await start(session, shell("trap 'echo interrupted' INT; cat; echo after; exec sh", keep_stdin_open=True))
        await call(session, "process.write_stdin", handle=p.handle.root, data=coded(b"swallowed\n"))
        output = session.open_output(p.output.stdout.reference)
        assert (await output.read_page(wait_ms=20_000)).data == b"swallowed\n"
        assert out(await sh(session, "echo beside")) == b"beside\n"
        await call(session, "process.signal", handle=p.handle.root, signal="interrupt")
        text = b""
        while b"after\n" not in text:
            text += (await output.read_page(wait_ms=20_000)).data
        await call(session, "process.write_stdin", handle=p.handle.root, data=coded(b"echo usable\n"))
        while b"usable\n" not in text:
            text += (await output.read_page(wait_ms=20_000)).data
        await call(session, "process.kill", handle=p.handle.root)
        q = await start(session, argv("sh", keep_stdin_open=True))
        await call(session, "process.write_stdin", handle=q.handle.root, data=coded(b"echo fresh\n"))
        assert (await session.open_output(q.output.stdout.reference).read_page(wait_ms=20_000)).data == b"fresh\n"


async def test_case_19_silent_command(carrier):
    seconds = 45 if FULL else 2
    async with carrier(IDLE_TIMEOUT_MS=1500, DISCONNECT_GRACE_MS=500) as device:
        async with await device.open_session() as session:
            done = await sh(session, f"sleep {seconds}; echo late", timeout_ms=120_000)  # else the client gives up
            assert (out(done), done.status.exit_code) == (b"late\n", 0)


# ---- B. output


async def test_case_20_cut_inside_a_character(place, carrier):
    text = "€" * 40_000
    place.put("text", text)
    async with carrier(limits={"max_output_preview_bytes": 25_000}) as device:
        async with await device.open_session() as session:
            done = await sh(session, "cat text")
            info = done.output.stdout
            assert len(out(done)) == 25_000 and info.produced_bytes == len(text) * 3
            assert out(done).decode(errors="ignore") == text[:8333]
            assert (await everything(session, info.reference)).decode() == text
            page = await call(session, "file.read_text", path=at(place.path("text")), line_limit=1,
                              max_line_length=8333)
            assert page.text == text[:8333] and page.truncated_lines == (1,)


async def test_case_22_character_split_over_two_writes(place, carrier):
    sign = "😀".encode()
    first, rest = place.put("first", sign[:2]), place.put("rest", sign[2:])
    async with carrier() as device, await device.open_session() as session:
        p = await start(session, shell(f"cat {first}; cat {first} >&2; read x; cat {rest}", keep_stdin_open=True))
        output = session.open_output(p.output.stdout.reference)
        half = await output.read_page(wait_ms=20_000)
        assert half.data == sign[:2]
        await call(session, "process.write_stdin", handle=p.handle.root, data=coded(b"\n"))
        whole = half.data + b"".join([page async for page in output])
        assert whole == sign
        assert (await everything(session, p.output.stderr.reference)) == sign[:2]


async def test_case_23_output_before_the_first_reader(carrier):
    async with carrier() as device, await device.open_session() as session:
        p = await start(session, shell("echo early; echo oops >&2; exit 5"))
        assert (await wait(session, p)).status.exit_code == 5
        assert await everything(session, p.output.stdout.reference) == b"early\n"
        assert await everything(session, p.output.stderr.reference) == b"oops\n"


@pytest.mark.better("two commands at once at default limits")
async def test_case_27_ten_commands_at_once(carrier):
    async with carrier() as device, await device.open_session() as session:
        done = await asyncio.gather(*(sh(session, f"echo hi {i}") for i in range(10)))
        assert [out(d) for d in done] == [b"hi %d\n" % i for i in range(10)]


# ---- C. files


async def overwrite(place, new, moment):
    """Overwrite f over the wire and kill the daemon after so many pieces (or in the commit)."""
    process = await asyncio.create_subprocess_exec(place.program, stdin=asyncio.subprocess.PIPE,
                                                   stdout=asyncio.subprocess.PIPE, env=place.settings(),
                                                   stderr=asyncio.subprocess.DEVNULL)
    device = await EIPDeviceConnection.initialize(StdioTransport.from_process(process), expected_device_id="device-1")
    session = await device.open_session()
    piece = 256 * 1024

    async def work():
        async with session.open_writer(to_path(place.path("f")), mode="replace") as writer:
            for i in range(0, len(new), piece):
                if i // piece == moment:
                    process.kill()
                await writer.write(new[i:i + piece])
            commit = asyncio.create_task(writer.commit())
            await asyncio.sleep(0)
            if moment >= len(new) // piece:
                for _ in range(random.randrange(400)):
                    await asyncio.sleep(0)
                process.kill()
            await commit
    try:
        await work()
    except Exception as e:  # the daemon died in the middle: any failure will do, success too
        assert not isinstance(e, AssertionError)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await device.close()


@pytest.mark.parametrize("rounds", [pytest.param(12, id="few"), pytest.param(200, id="many", marks=pytest.mark.long)])
async def test_case_32_kill_in_the_middle_of_an_overwrite(place, rounds):
    size = (64 if rounds > 100 else 8) * MIB
    contents = [os.urandom(size), os.urandom(size)]
    place.put("f", contents[0])
    pieces = size // (256 * 1024)
    for i in range(rounds):
        moment = random.randrange(pieces) if i % 2 else pieces
        await overwrite(place, contents[(i + 1) % 2], moment)
        assert place.get("f") in contents, "half a file"
        if place.is_reference:
            for leftover in place.staged():
                os.remove(leftover)
            continue
        raw = Raw(place)
        raw.initialize()
        assert not place.staged(), "leftovers after the restart"
        assert raw.close() == 0


async def test_case_33_disk_full(place):
    """The work folder is a small disk of its own, in a mount namespace that ends with the daemon."""
    probe = place.run("-rm", "mount", "-t", "tmpfs", "none", place.work, program="unshare")
    if probe.returncode != 0:
        pytest.skip("needs user namespaces: " + probe.stderr.strip())
    script = place.put("../start", f'mount -t tmpfs -o size=64k none {place.work} && exec "{place.program}"\n')
    raw = Raw(place, program="unshare", arguments=("-rm", "sh", script))
    raw.initialize()
    session = raw.open()
    f = at(place.path("f"))

    def write(path, mode, text):
        answer = raw.request("file.write_text", {"path": path, "mode": mode, "text": text}, session)
        return answer.get("error", {}).get("data", {}).get("error_type")

    def shell_out(text):
        done = raw.request("shell.exec", {"request": shell(text)}, session)["result"]
        return decoded(done["output"]["stdout"]["preview"])
    assert write(f, "create", "o" * 1024) is None
    shell_out(f"head -c 57344 /dev/zero > {place.path('ballast')}; df {place.work}")
    for mode in ("replace", "append"):
        assert write(f, mode, "n" * 8192) == "provider_unavailable"
        assert shell_out(f"cat {place.path('f')}") == b"o" * 1024
    assert shell_out(f"ls -A {place.work}").split() == [b"ballast", b"f"]
    assert raw.close() == 0


async def test_case_35_binary_is_not_text(place, carrier):
    place.put("notes.txt", b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
    place.put("wide", "text".encode("utf-16-le"))
    place.put("bom", "text".encode("utf-16"))
    place.put("log", b"a\0b\n")
    async with carrier() as device, await device.open_session() as session:
        for name in ("notes.txt", "wide", "bom", "log"):
            before = place.get(name)
            with refused("unsupported"):
                await call(session, "file.read_text", path=at(place.path(name)), line_limit=10, max_line_length=100)
            with refused("unsupported"):
                await call(session, "file.write_text", path=at(place.path(name)), mode="append", text="x")
            with refused("unsupported"):
                await call(session, "file.patch_text", path=at(place.path(name)), patch_format="unified_diff",
                           patch="@@ -1 +1 @@\n-a\n+b\n")
            assert place.get(name) == before == await download(session, place.path(name))


@pytest.mark.better("edits of one file from two sides get lost")
async def test_case_36_two_clients_edit_one_file(place):
    """Each edits its own lines, each edit names the text it replaces: none is lost, the loser learns it."""
    lines, edits = 40, 500 if FULL else 60
    place.put("f", "".join(f"line {i} 0\n" for i in range(lines)))
    async with place.http() as device:
        other = await place.connect()
        async def edit(owner, first):
            chance = random.Random(first)
            async with await owner.open_session() as session:
                mine = {i: 0 for i in range(first, lines, 2)}
                for _ in range(edits):
                    i = chance.choice(list(mine))
                    while True:
                        patch = f"@@ -{i + 1} +{i + 1} @@\n-line {i} {mine[i]}\n+line {i} {mine[i] + 1}\n"
                        try:
                            await call(session, "file.patch_text", path=at(place.path("f")),
                                       patch_format="unified_diff", patch=patch)
                            break
                        except EIPMethodError as e:
                            assert e.error.data.error_type.value == "conflict", e
                    mine[i] += 1
                return mine
        one, two = await asyncio.gather(edit(device, 0), edit(other, 1))
        want = "".join(f"line {i} {(one | two)[i]}\n" for i in range(lines))
        assert place.get("f").decode() == want
        await other.close()


@pytest.mark.long
@pytest.mark.better("more than 10,000 entries")
async def test_case_42_huge_folder(place):
    count = 200_000
    os.mkdir(place.path("huge"))
    for i in range(count):
        os.close(os.open(place.path("huge", f"entry-{i:06}"), os.O_CREAT | os.O_WRONLY))
    async with place.stdio(client_limit=16 * MIB) as device, await device.open_session() as session:
        seen, offset = 0, 0
        while True:
            page = await call(session, "file.list", path=at(place.path("huge")), offset=offset, max_results=8000)
            assert page.entries[0].relative_path == f"entry-{offset:06}"
            offset += len(page.entries)
            if not page.has_more:
                break
        assert offset == count
        op = operation()
        find = asyncio.create_task(call(session, "file.find", op, root=at("/"), pattern="no-such-name-anywhere"))
        await asyncio.sleep(0)
        status = await call(session, "operation.cancel", target_operation_id=op)
        assert status.status.value in ("cancellation_requested", "already_terminal", "not_found")
        find.cancel()


# ---- G. secrets


async def test_case_62_values_stay_where_they_belong(place):
    """A value given as environment or input is in no command line and in nothing the daemon says."""
    secret = "s3cr3t-" + os.urandom(8).hex()
    raw = Raw(place)
    raw.initialize()
    session = raw.open()
    m = mark()
    started = raw.request("process.start", {"request": shell(
        f"cat >/dev/null; printf %s \"$TOKEN\" | wc -c; sleep {m}", initial_stdin=coded(secret.encode()),
        environment={"set": {"TOKEN": secret}})}, session)
    assert "result" in started and secret not in json.dumps(started)
    await until(lambda: alive(m), "the command runs")
    assert alive(secret) == []
    assert f"{len(secret)}".encode() in decoded(raw.request("output.read", {
        "reference": started["result"]["process"]["output"]["stdout"]["reference"], "start_offset": 0,
        "wait_ms": 20_000}, session)["result"]["data"])
    bad = raw.request("shell.exec", {"request": shell("true", environment={"set": {"bad name": secret}})}, session)
    assert "error" in bad and secret not in json.dumps(bad)
    raw.child.stdin.write(b"X" + secret.encode() + b"\r\n\r\n")
    raw.child.stdin.flush()
    raw.child.wait(LONG_S)
    assert secret not in said(raw.child)
    for folder, _, names in os.walk(place.runtime):
        for name in names:
            with open(os.path.join(folder, name), "rb") as f:
                assert secret.encode() not in f.read(), name
    await gone(m)


async def test_case_62_credential_is_never_told(place):
    async with place.http() as device:
        for credential in ("wrong-" + place.credential, place.credential):
            with Wire(place) as wire:
                wire.request("POST", "/nowhere", b"", authorization=f"Bearer {credential}")
        async with await device.open_session() as session:
            done = await sh(session, "env; cat /proc/$PPID/environ 2>/dev/null | tr '\\0' '\\n'")
            assert place.credential.encode() not in out(done)
        assert alive(place.credential) == []
    child = place.children[-1]
    assert place.credential not in said(child)


# ---- H. links


@pytest.mark.better("a start whose connection was cut stays in progress for ever")
async def test_case_65_lost_answer(place):
    """The connection is cut right after the request was sent; asked again by its operation id, it has one effect."""
    place.start_http()
    f, log = place.put("f", ""), place.path("log")
    with Wire(place) as wire:
        session = wire.session(place.work)
        requests = {
            "shell.exec": {"request": shell(f"echo ran >> {log}")},
            "process.start": {"request": shell(f"echo ran >> {log}")},
            "file.write_text": {"path": at(f), "mode": "append", "text": "line\n"},
        }
        for method, params in requests.items():
            for path in (f, log):
                with open(path, "w"):
                    pass
            op = operation()
            with Wire(place) as lost:
                body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "eip_session": session,
                                   "params": {**params, "context": {"operation_id": op}}}).encode()
                lost.send(lost.head("POST", "/eip/control", {"content_type": "application/json",
                                                             "content_length": str(len(body))}) + body)

            def settled():
                answer = wire.call(method, params, session, op)
                kind = answer.get("error", {}).get("data", {}).get("error_type")
                return None if kind == "operation_in_progress" else answer
            answer = await until(settled, "the operation settles")
            receipt = wire.call("receipt.get", {"operation_id": op}, session)["result"]["receipt"]
            assert receipt["method"] == method and receipt["operation_id"] == op
            data = answer["result"] if "result" in answer else answer["error"]["data"]
            assert data["receipt"] == receipt
            if method == "file.write_text":
                assert place.get("f") == b"line\n"
            else:
                await until(lambda: place.get("log"), "the command ran")
                if method == "process.start":
                    handle = answer["result"]["process"]["handle"]
                    wire.call("process.wait", {"handle": handle, "condition": "tree_cleaned",
                                               "context": {"operation_id": operation(), "timeout_ms": 20_000}}, session)
                assert place.get("log") == b"ran\n"
        never = wire.call("receipt.get", {"operation_id": operation()}, session)
        assert never["error"]["data"]["error_type"] == "not_found_or_denied"
