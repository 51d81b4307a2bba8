# SPDX-License-Identifier: Apache-2.0
"""What the released client may expect of a daemon whatever carries the frames. test_client_stdio.py,
test_client_http.py and test_client_reverse.py run all of it, each with its own fixture `carrier`: an async context manager that starts a
daemon and gives the client's device connection."""
import asyncio
import hashlib
import os
import socket
import stat

import pytest
from a13n_envd_client import EIPMethodError
from a13n_envd_client.eip.v1 import DirectoryListParams, FileByteRange, SessionAttachParams, SessionKeepaliveParams
from peer import (FULL, MIB, SOON_MS, at, call, coded, decoded, download, err, everything, free_port, gone, argv, mark, alive,
                  operation, out, refused, sh, shell, start, to_path, until, upload, wait)



def heavy(place, carrier):
    """What takes long and does not depend on the carrier runs once in an ordinary run."""
    if carrier != place.stdio and not FULL:
        pytest.skip("long, and run over stdio; TC_FULL=1 runs it here too")


# ---- device and sessions


async def test_handshake(place, carrier):
    async with carrier() as device:
        d = device.descriptor
        assert (d.device_id, device.protocol_version, d.default_working_directory) == ("device-1", "0.3", place.work)
        assert d.generation > 0 and d.boundary.backend.value == "native"
        assert await device.describe() == d
        async with await device.open_session() as session:
            assert session.descriptor.working_directory == place.work
            assert session.descriptor.limits == d.limits
            assert [p.profile_id for p in session.descriptor.shell_profiles] == ["default"]
            assert (await session.readiness()).ready
            assert await session.describe() == session.descriptor


async def test_directories(place, carrier):
    for name in ("b", "a", "c"):
        os.mkdir(place.path(name))
    place.put("file", "")
    async with carrier() as device:
        async def page(offset, limit, path=place.work):
            return await device.list_directories(DirectoryListParams(
                expected_device_id="device-1", expected_generation=device.descriptor.generation, path=path,
                offset=offset, limit=limit))
        first = await page(0, 2)
        assert ([e.name for e in first.entries], first.next_offset) == (["a", "b"], 2)
        assert first.parent_path == place.folder
        rest = await page(2, 2)
        assert ([e.name for e in rest.entries], rest.next_offset) == (["c"], None)
        with refused("not_found_or_denied"):
            await page(0, 2, place.path("missing"))
        with refused("denied"):
            await page(0, 2, place.path("file"))


async def test_sessions_are_independent(place, carrier):
    os.mkdir(place.path("a"))
    os.mkdir(place.path("b"))
    async with carrier() as device:
        one = await device.open_session(working_directory=place.path("a"))
        two = await device.open_session(working_directory=place.path("b"))
        assert out(await sh(one, "pwd")) == place.path("a").encode() + b"\n"
        assert out(await sh(two, "pwd")) == place.path("b").encode() + b"\n"
        first, second = mark(), mark()
        mine = await start(one, argv("sleep", first))
        theirs = await start(two, argv("sleep", second))
        with refused("not_found_or_denied"):
            await call(two, "process.inspect", handle=mine.handle.root)
        await one.close()
        await gone(first)
        assert alive(second), "closing one session ended another's process"
        assert (await call(two, "process.inspect", handle=theirs.handle.root)).process.status.phase.value == "running"
        await two.close()
        await gone(second)


async def test_working_directory_must_exist(place, carrier):
    async with carrier() as device:
        with refused("not_found_or_denied"):
            await device.open_session(working_directory=place.path("missing"))
        with refused("unsupported"):
            await device.open_session(required_methods=("device.metrics",))


async def test_attach_by_its_owner(place, carrier):
    async with carrier() as device, await device.open_session() as session:
        attached = await session._client.session_attach(SessionAttachParams())
        assert attached.descriptor == session.descriptor


# ---- files


def of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


async def test_write_modes(place, carrier):
    f = place.path("f.txt")
    async with carrier() as device, await device.open_session() as session:
        async def write(mode, text, **more):
            return await call(session, "file.write_text", path=at(f), mode=mode, text=text, **more)
        for mode in ("replace", "append"):
            with refused("not_found_or_denied"):
                await write(mode, "x")
        made = await write("create", "one\n")
        assert (made.bytes_written, made.info.size_bytes, of(f)) == (4, 4, 0o600)
        assert made.receipt.outcome.value == "succeeded" and made.receipt.method == "file.write_text"
        with refused("conflict") as e:
            await write("create", "two\n")
        assert e.data.receipt.outcome.value == "failed" and place.get("f.txt") == b"one\n"
        os.chmod(f, 0o644)
        await write("append", "zwei ü\r\n")
        assert place.get("f.txt") == "one\nzwei ü\r\n".encode() and of(f) == 0o644
        await write("replace", "three")
        assert place.get("f.txt") == b"three" and of(f) == 0o644
        await write("upsert", "", executable=True)
        assert place.get("f.txt") == b"" and of(f) == 0o700
        with refused("unsupported"):
            await write("upsert", "a\0b")
        with refused("not_found_or_denied"):
            await call(session, "file.write_text", path=at(place.path("no/f")), mode="create", text="")
        os.symlink(f, place.path("link"))
        with refused("denied"):
            await call(session, "file.write_text", path=at(place.path("link")), mode="upsert", text="x")
        assert sorted(os.listdir(place.work)) == ["f.txt", "link"]


async def test_stat(place, carrier):
    place.put("f", "12345")
    os.symlink("f", place.path("link"))
    os.symlink("nowhere", place.path("dangling"))
    async with carrier() as device, await device.open_session() as session:
        async def info(name, **more):
            return (await call(session, "file.stat", path=at(place.path(name)), **more)).info
        assert ((await info("f")).kind.value, (await info("f")).size_bytes) == ("file", 5)
        assert (await info("link")).kind.value == "file"
        assert (await info("link", follow_symlinks=False)).kind.value == "symlink"
        assert (await info("dangling", follow_symlinks=False)).kind.value == "symlink"
        assert (await call(session, "file.stat", path=at("/"))).info.kind.value == "directory"
        for name in ("dangling", "missing", "f/below"):
            with refused("not_found_or_denied", "denied"):
                await info(name)


async def test_read_text_by_pages(place, carrier):
    place.put("lines", "".join(f"line {i}\n" for i in range(1, 11)) + "last")
    place.put("wide", "ü" * 10 + "\nb\n")
    place.put("binary", b"\x00\x01")
    async with carrier() as device, await device.open_session() as session:
        async def read(name, offset=0, limit=4, width=100):
            return await call(session, "file.read_text", path=at(place.path(name)), line_offset=offset,
                              line_limit=limit, max_line_length=width)
        text, offset = "", 0
        while True:
            page = await read("lines", offset)
            assert page.line_offset == offset
            text += page.text
            offset += page.lines_read
            if not page.has_more:
                break
        assert text.encode() == place.get("lines") and offset == 11
        cut = await read("wide", width=4)
        assert (cut.text, cut.truncated_lines) == ("üüüü\nb\n", (1,))
        assert (await read("lines", 100)).lines_read == 0
        with refused("unsupported"):
            await read("binary")
        with refused("denied"):
            await call(session, "file.read_text", path=at(place.work), line_limit=1, max_line_length=1)


async def test_patch(place, carrier):
    f = place.put("f", "a\nb\nc\n")
    os.chmod(f, 0o640)
    os.symlink("f", place.path("link"))
    async with carrier() as device, await device.open_session() as session:
        async def patch(text, name="f"):
            return await call(session, "file.patch_text", path=at(place.path(name)), patch_format="unified_diff",
                              patch=text)
        done = await patch("--- a\n+++ b\n@@ -1,3 +1,4 @@\n a\n-b\n+B\n+BB\n c\n")
        assert done.hunks_applied == 1 and place.get("f") == b"a\nB\nBB\nc\n" and of(f) == 0o640
        await patch("@@ -4 +4 @@\n-c\n+C\n\\ No newline at end of file\n", "link")
        assert place.get("f") == b"a\nB\nBB\nC" and os.path.islink(place.path("link"))
        with refused("conflict"):
            await patch("@@ -1 +1 @@\n-x\n+y\n")
        with refused("invalid_params"):
            await patch("no patch")
        assert place.get("f") == b"a\nB\nBB\nC" and not place.staged()


async def test_mkdir_copy_move_remove(place, carrier):
    place.put("src", "content")
    os.chmod(place.path("src"), 0o751)
    async with carrier() as device, await device.open_session() as session:
        p = lambda *names: at(place.path(*names))
        made = await call(session, "file.mkdir", path=p("d", "e", "f"), parents=True)
        assert made.created_directories == 3 and os.path.isdir(place.path("d/e/f"))
        with refused("conflict"):
            await call(session, "file.mkdir", path=p("d"))
        assert (await call(session, "file.mkdir", path=p("d"), exist_ok=True)).created_directories == 0
        with refused("not_found_or_denied"):
            await call(session, "file.mkdir", path=p("x", "y"))

        copied = await call(session, "file.copy", source=p("src"), destination=p("d", "copy"))
        assert copied.bytes_copied == 7 and of(place.path("d/copy")) == 0o751
        with refused("conflict"):
            await call(session, "file.copy", source=p("src"), destination=p("d", "copy"))
        place.put("src", "changed")
        await call(session, "file.copy", source=p("src"), destination=p("d", "copy"), replace=True)
        assert place.get("d/copy") == b"changed"
        with refused("denied"):
            await call(session, "file.copy", source=p("d"), destination=p("d2"))

        await call(session, "file.move", source=p("d", "copy"), destination=p("moved"))
        assert place.get("moved") == b"changed" and not os.path.exists(place.path("d/copy"))
        with refused("conflict"):
            await call(session, "file.move", source=p("moved"), destination=p("src"))
        await call(session, "file.move", source=p("moved"), destination=p("src"), replace=True)
        with refused("not_found_or_denied"):
            await call(session, "file.move", source=p("moved"), destination=p("m2"))

        with refused("conflict"):
            await call(session, "file.remove", path=p("d"), expected_kind="file")
        with refused("provider_unavailable"):
            await call(session, "file.remove", path=p("d"), expected_kind="directory")
        with refused("quota_exceeded"):
            await call(session, "file.remove", path=p("d"), expected_kind="directory", recursive=True, max_entries=2)
        assert os.path.isdir(place.path("d/e/f"))
        removed = await call(session, "file.remove", path=p("d"), expected_kind="directory", recursive=True,
                             max_entries=3)
        assert removed.removed_entries == 3 and not os.path.exists(place.path("d"))
        assert (await call(session, "file.remove", path=p("src"), expected_kind="file")).removed_entries == 1
        with refused("not_found_or_denied"):
            await call(session, "file.remove", path=p("src"), expected_kind="file")


async def test_list_find_search(place, carrier):
    for name in ("a.c", "b.h", "sub/c.c", "sub/deep/d.c", ".hidden/e.c", "build/f.c"):
        place.put(name, f"// {name}\nint needle = 1;\nend\n")
    place.put(".gitignore", "build/\n")
    os.mkdir(place.path(".git"))
    async with carrier() as device, await device.open_session() as session:
        root = at(place.work)
        names = lambda page: [e.relative_path for e in page.entries]
        listed = await call(session, "file.list", path=root)
        assert names(listed) == ["a.c", "b.h", "build", "sub"] and not listed.has_more
        page = await call(session, "file.list", path=root, include_hidden=True, offset=2, max_results=3)
        assert names(page) == [".hidden", "a.c", "b.h"] and page.has_more and page.offset == 2

        found = lambda **more: call(session, "file.find", root=root, pattern="*.c", **more)
        assert names(await found()) == ["a.c", "build/f.c", "sub/c.c", "sub/deep/d.c"]
        assert names(await found(respect_git_ignore=True)) == ["a.c", "sub/c.c", "sub/deep/d.c"]
        assert names(await found(recursive=False)) == ["a.c"]
        assert names(await found(include_hidden=True))[0] == ".hidden/e.c"
        dirs = await call(session, "file.find", root=root, pattern="**", kinds=["directory"])
        assert names(dirs) == ["build", "sub", "sub/deep"]
        with refused("invalid_params") as e:
            await call(session, "file.find", root=root, pattern="a**b")
        assert (e.data.field, e.data.safe_detail) == ("pattern", "invalid_glob")

        search = lambda query, **more: call(session, "file.search", **{
            "root": root, "query": query, "mode": "literal", "max_line_length": 200, **more})
        hits = (await search("needle", respect_git_ignore=True)).matches
        assert [(os.path.relpath(m.path.path, place.work), m.line_number) for m in hits] == [
            ("a.c", 2), ("b.h", 2), ("sub/c.c", 2), ("sub/deep/d.c", 2)]
        one = (await search("NEED.E\\b|^end$", mode="regex", case_sensitive=False, include_pattern="a.c",
                            context_lines=1)).matches
        assert [(m.line_number, m.preview) for m in one] == [(2, "int needle = 1;"), (3, "end")]
        assert one[0].context == "// a.c\nint needle = 1;\nend\n" and one[0].context_start_line == 1
        assert (await search("nothing here")).matches == ()
        with refused("invalid_params"):
            await search("(", mode="regex")
        with refused("invalid_params"):
            await search("a(?=b)", mode="regex")


@pytest.mark.better("more than 10,000 entries")
async def test_case_42_more_than_ten_thousand_entries_by_pages(place, carrier):
    heavy(place, carrier)
    count = 10_500
    os.mkdir(place.path("many"))
    for i in range(count):
        with open(place.path("many", f"f{i:05}.txt"), "w") as f:
            f.write("needle\n" if i % 8 == 0 else "hay\n")
    want = [f"f{i:05}.txt" for i in range(count)]
    async with carrier(client_limit=16 * MIB) as device, await device.open_session() as session:
        async def pages(method, **params):
            items, offset = [], 0
            while True:
                page = await call(session, method, offset=offset, max_results=5000, **params)
                got = page.matches if method == "file.search" else page.entries
                items += got
                offset += len(got)
                if not page.has_more:
                    return items
        root = at(place.path("many"))
        assert [e.relative_path for e in await pages("file.list", path=root)] == want
        assert [e.relative_path for e in await pages("file.find", root=root, pattern="*.txt")] == want
        hits = await pages("file.search", root=root, query="needle", mode="literal", max_line_length=80)
        assert [os.path.basename(m.path.path) for m in hits] == want[::8]


# ---- transfers


@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 65537, 8 * MIB])
async def test_transfer_there_and_back(place, carrier, size):
    content = os.urandom(size)
    async with carrier() as device, await device.open_session() as session:
        f = place.path("blob")
        done = await upload(session, f, content, "create")
        assert done.transferred_bytes == size == done.info.size_bytes
        assert done.transfer_digest.value == hashlib.sha256(content).hexdigest()
        assert place.get("blob") == content and of(f) == 0o600 and not place.staged()
        assert await download(session, f) == content


async def test_ranges(place, carrier):
    content = os.urandom(200_000)
    f = place.put("f", content)
    async with carrier() as device, await device.open_session() as session:
        for offset, length in ((0, 0), (0, 1), (70_000, 70_000), (199_999, 100), (200_000, 5), (300_000, None),
                               (10, None)):
            got = await download(session, f, FileByteRange(offset=offset, length=length))
            assert got == content[offset:None if length is None else offset + length]


async def test_upload_modes(place, carrier):
    f = place.put("f", "old")
    os.chmod(f, 0o640)
    async with carrier() as device, await device.open_session() as session:
        with refused("conflict"):
            await upload(session, f, b"x", "create")
        with refused("not_found_or_denied"):
            await upload(session, place.path("missing"), b"x", "append")
        await upload(session, f, b" and new", "append")
        assert place.get("f") == b"old and new" and of(f) == 0o640
        await upload(session, f, b"#!/bin/sh\n", "replace", executable=True)
        assert place.get("f") == b"#!/bin/sh\n" and of(f) == 0o700


async def test_aborted_upload_leaves_nothing(place, carrier):
    f = place.put("f", "old")
    async with carrier() as device, await device.open_session() as session:
        with pytest.raises(ZeroDivisionError):
            async with session.open_writer(to_path(f), mode="replace") as writer:
                await writer.write(os.urandom(300_000))
                raise ZeroDivisionError
        assert place.get("f") == b"old"
        await until(lambda: not place.staged(), "the staged file is removed")
        status = await call(session, "file.abort_writer", writer=writer.opened.writer.root)
        assert status.status.value == "already_aborted"
        await upload(session, f, b"new", "replace")
        assert place.get("f") == b"new"


async def test_abandoned_download_leaves_the_session_usable(place, carrier):
    content = os.urandom(4 * MIB)
    f = place.put("f", content)
    async with carrier() as device, await device.open_session() as session:
        with pytest.raises(ZeroDivisionError):
            async with session.open_reader(to_path(f)) as reader:
                async for piece in reader:
                    assert content.startswith(piece)
                    raise ZeroDivisionError
        assert await download(session, f) == content


async def test_wrong_digest_is_refused(place, carrier):
    f = place.put("f", "old")
    async with carrier() as device, await device.open_session() as session:
        with refused("integrity_mismatch"):
            async with session.open_writer(to_path(f), mode="replace") as writer:
                await writer.write(b"new")
                writer._hasher.update(b"other")
                await writer.commit()
        assert place.get("f") == b"old" and not place.staged()


async def test_many_transfers_at_once(place, carrier):
    contents = {f"f{i}": os.urandom(300_000 + i) for i in range(12)}
    async with carrier() as device, await device.open_session() as session:
        await asyncio.gather(*(upload(session, place.path(n), c) for n, c in contents.items()))
        got = await asyncio.gather(*(download(session, place.path(n)) for n in contents))
        assert list(got) == list(contents.values())


# ---- commands


async def test_commands(place, carrier):
    os.mkdir(place.path("sub"))
    async with carrier() as device, await device.open_session() as session:
        done = await sh(session, "echo out; echo err >&2; exit 3")
        assert (out(done), err(done), done.status.exit_code) == (b"out\n", b"err\n", 3)
        assert (done.status.phase.value, done.status.cleanup.value) == ("exited", "complete")
        assert done.receipt.stage.value == "completed" and done.receipt.outcome.value == "succeeded"
        assert out(await call(session, "shell.exec", request=argv("printf", "%s|", "a b", "", "*"))) == b"a b||*|"
        assert out(await call(session, "shell.exec", request=argv("/bin/echo", "x"))) == b"x\n"
        assert out(await sh(session, "pwd", cwd=at(place.path("sub")))) == place.path("sub").encode() + b"\n"
        script = place.put("script", "echo from a script without a first line\n")
        os.chmod(script, 0o755)
        assert out(await call(session, "shell.exec", request=argv(script))).startswith(b"from a script")
        for bad, kind in ((argv("no-such-program-at-all"), "denied"), (argv(place.path("missing")), "denied"),
                          (shell("pwd", cwd=at(place.path("missing"))), "denied"),
                          (argv("a/b"), "invalid_params"), (shell("true", limits={"memory_bytes": 1}), "unsupported"),
                          (shell("true", limits={"wall_time_ms": 0}), "invalid_params")):
            with refused(kind) as e:
                await call(session, "shell.exec", request=bad)
            assert e.data.receipt.outcome.value == "failed"
        with refused("unsupported"):
            await call(session, "shell.exec", request={"command": {"kind": "shell", "profile_id": "zsh", "script": ""}})


async def test_environment_of_commands(place, carrier):
    async with carrier() as device, await device.open_session() as session:
        value = "a=b\nc ü '\""
        done = await sh(session, 'printf %s "$ONE"; env | grep -c "^HOME=" >&2; env | grep -E "^(A13N|EIP|TELE)" >&2',
                        environment={"set": {"ONE": value}, "unset": ["HOME"]})
        assert (out(done), err(done)) == (value.encode(), b"0\n")
        for name in ("A13N_ENVD_X", "EIP_X", "bad name", ""):
            with refused("invalid_params"):
                await sh(session, "true", environment={"set": {name: "1"}})


async def test_standard_input(place, carrier):
    async with carrier() as device, await device.open_session() as session:
        data = os.urandom(30_000)
        done = await sh(session, "cat", initial_stdin=coded(data))
        assert out(done) == data
        p = await start(session, argv("cat", initial_stdin=coded(b"one "), keep_stdin_open=True))
        assert p.stdin_open
        wrote = await call(session, "process.write_stdin", handle=p.handle.root, data=coded(b"two "))
        assert (wrote.accepted_bytes, wrote.stdin_open) == (4, True)
        if place.is_reference:  # cannot always tell what became of a write that ends the command
            await call(session, "process.write_stdin", handle=p.handle.root, data=coded(b"three"))
            await call(session, "process.close_stdin", handle=p.handle.root)
        else:
            last = await call(session, "process.write_stdin", handle=p.handle.root, data=coded(b"three"),
                              close_after_write=True)
            assert (last.accepted_bytes, last.stdin_open) == (5, False)
        ended = await wait(session, p)
        assert ended.status.exit_code == 0
        assert await everything(session, p.output.stdout.reference) == b"one two three"
        with refused("conflict"):
            await call(session, "process.write_stdin", handle=p.handle.root, data=coded(b"x"))
        assert (await call(session, "process.close_stdin", handle=p.handle.root)).stdin_open is False


async def test_signals(place, carrier):
    async with carrier() as device, await device.open_session() as session:
        script = "trap 'echo INT' INT; trap 'echo TERM; exit 7' TERM; echo ready; while :; do sleep 0.05; done"
        p = await start(session, shell(script))
        reader = session.open_output(p.output.stdout.reference)

        async def read_to(text):
            got = b""
            while text not in got:
                page = await reader.read_page(wait_ms=20_000)
                assert page.data, "the output ended"
                got += page.data
        await read_to(b"ready\n")
        sent = await call(session, "process.signal", handle=p.handle.root, signal="interrupt")
        assert sent.accepted and sent.receipt.stage.value == "dispatched"
        await read_to(b"INT\n")
        await call(session, "process.signal", handle=p.handle.root, signal="terminate")
        ended = await wait(session, p)
        assert (ended.status.phase.value, ended.status.exit_code) == ("exited", 7)
        late = await call(session, "process.signal", handle=p.handle.root, signal="terminate")
        assert not late.accepted
        q = await start(session, argv("sleep", mark()))
        await call(session, "process.signal", handle=q.handle.root, signal="terminate")
        ended = (await wait(session, q)).status
        assert (ended.phase.value, ended.signal.value, ended.termination_reason.value) == (
            "signaled", "terminate", "signal")


async def test_kill_and_release(place, carrier):
    async with carrier() as device, await device.open_session() as session:
        m = mark()
        p = await start(session, shell(f"echo said; sleep {m} & sleep {m}"))
        with refused("conflict"):
            await call(session, "process.release", handle=p.handle.root)
        with refused("conflict"):
            await call(session, "output.release", reference=p.output.stdout.reference.root)
        await until(lambda: len(alive(m)) >= 2, "both sleeps run")
        killed = (await call(session, "process.kill", handle=p.handle.root)).process.status
        assert (killed.phase.value, killed.signal.value, killed.cleanup.value) == ("signaled", "kill", "complete")
        assert not alive(m)
        assert (await call(session, "process.kill", handle=p.handle.root)).process.status == killed
        assert (await call(session, "process.release", handle=p.handle.root)).released
        with refused("not_found_or_denied"):
            await call(session, "process.inspect", handle=p.handle.root)
        assert await everything(session, p.output.stdout.reference) == b"said\n"
        assert (await call(session, "output.release", reference=p.output.stdout.reference.root)).released
        with refused("invalid_handle"):
            await call(session, "output.read", reference=p.output.stdout.reference.root, start_offset=0)


async def test_time_limits(place, carrier):
    async with carrier() as device, await device.open_session() as session:
        m = mark()
        for how in ({"limits": {"wall_time_ms": SOON_MS}}, {"timeout_ms": SOON_MS}):
            done = await sh(session, f"echo a; sleep {m}", **how)
            assert (done.status.phase.value, done.status.termination_reason.value) == ("timed_out", "timeout")
            assert out(done) == b"a\n" and done.receipt.outcome.value == "timed_out" and not alive(m)
        p = await start(session, argv("sleep", m))
        with refused("timeout"):
            await wait(session, p, timeout_ms=50)
        assert (await call(session, "process.inspect", handle=p.handle.root)).process.status.phase.value == "running"
        await call(session, "process.kill", handle=p.handle.root)


async def test_cancel(place, carrier):
    async with carrier() as device, await device.open_session() as session:
        m, op = mark(), operation()
        script = f"echo a; touch begun; sleep {m}"
        running = asyncio.create_task(sh(session, script, op))
        await until(lambda: os.path.exists(place.path("begun")), "the command runs")
        with refused("operation_in_progress", "conflict"):
            await sh(session, script, op)
        assert (await call(session, "operation.cancel", target_operation_id=op)).status.value == \
            "cancellation_requested"
        done = await running
        assert (done.status.phase.value, out(done)) == ("cancelled", b"a\n") and not alive(m)
        again = await call(session, "operation.cancel", target_operation_id=op)
        assert again.status.value == "already_terminal"
        never = await call(session, "operation.cancel", target_operation_id=operation())
        assert never.status.value == "not_found"


async def test_process_outlives_its_request(place, carrier):
    async with carrier() as device, await device.open_session() as session:
        p = await start(session, shell("echo first; read x; echo got $x; exit 4", keep_stdin_open=True))
        assert p.status.phase.value in ("starting", "running")
        page = await session.open_output(p.output.stdout.reference).read_page(wait_ms=20_000)
        assert page.data == b"first\n" and not page.eof
        await call(session, "process.write_stdin", handle=p.handle.root, data=coded(b"it\n"))
        ended = await wait(session, p, "initial_terminal")
        assert ended.status.exit_code == 4
        ended = await wait(session, p)
        assert decoded(ended.output.stdout.preview) == b"first\ngot it\n"
        assert ended.status.started_at <= ended.status.ended_at


async def test_as_many_commands_as_the_limit_says(place, carrier):
    """At default limits; the reference reserves room for their largest outputs and takes two."""
    if place.is_reference:
        pytest.skip("the reference daemon cannot do this: it answers busy")
    async with carrier() as device, await device.open_session() as session:
        m = mark()
        limit = session.descriptor.limits.max_processes
        assert limit == 128
        for _ in range(limit):
            await start(session, argv("sleep", m))
        with refused("busy"):
            await start(session, argv("sleep", m))
        await until(lambda: len(alive(m)) == limit, "all of them run")
    await until(lambda: not alive(m), "all of them ended with the session")


async def test_output_beyond_the_preview(place, carrier):
    text = b"".join(b"%07d\n" % i for i in range(40_000))
    place.put("text", text)
    async with carrier(limits={"max_output_preview_bytes": 1000}) as device:
        async with await device.open_session() as session:
            done = await sh(session, "cat text; cat text >&2")
            assert out(done) == text[:1000] and err(done) == text[:1000]
            info = done.output.stdout
            assert (info.produced_bytes, info.retained_bytes, info.content_complete) == (len(text), len(text), True)
            assert await everything(session, info.reference, observed=info) == text
            assert await everything(session, done.output.stderr.reference, start_offset=12_345) == text[12_345:]
            with refused("invalid_params"):
                await call(session, "output.read", reference=info.reference.root, start_offset=len(text) + 1)


async def test_forty_mebibytes_of_output(place, carrier):
    heavy(place, carrier)
    size = 40 * MIB
    # the reference adds a preview to each full page and passes its own limit
    limits = {"max_output_preview_bytes": 1024} if place.is_reference else None
    async with carrier(client_limit=32 * MIB, limits=limits) as device, await device.open_session() as session:
        p = await start(session, shell(f"head -c {size} /dev/zero | tr '\\0' 'x'"))
        digest, count = hashlib.sha256(), 0
        async for page in session.open_output(p.output.stdout.reference):
            digest.update(page)
            count += len(page)
        assert count == size and digest.hexdigest() == hashlib.sha256(b"x" * size).hexdigest()
        assert (await wait(session, p)).status.exit_code == 0


async def test_output_ceiling(place, carrier):
    limits = {"max_output_bytes_per_stream": 10_000, "max_output_preview_bytes": 100}
    async with carrier(limits=limits) as device, await device.open_session() as session:
        with refused("output_limit_exceeded") as e:
            await sh(session, "yes | head -c 300000")
        assert e.data.process_status.termination_reason.value == "output_limit"
        info = e.data.output.stdout
        assert info.retained_bytes == 10_000 and info.produced_bytes >= 10_000 and not info.content_complete
        assert await everything(session, info.reference) == b"y\n" * 5000


@pytest.mark.better("more than two commands at once at default limits")
async def test_hundred_processes_at_default_limits(place, carrier):
    async with carrier() as device, await device.open_session() as session:
        started = await asyncio.gather(*(start(session, argv("cat", keep_stdin_open=True)) for _ in range(100)))
        assert len({p.handle.root for p in started}) == 100
        for i, p in enumerate(started):
            await call(session, "process.write_stdin", handle=p.handle.root, data=coded(b"%d" % i),
                       close_after_write=True)
        ended = await asyncio.gather(*(wait(session, p) for p in started))
        assert [decoded(p.output.stdout.preview) for p in ended] == [b"%d" % i for i in range(100)]


# ---- operations


async def test_replay_of_an_operation(place, carrier):
    f = place.path("f")
    async with carrier() as device, await device.open_session() as session:
        op = operation()
        once = await sh(session, f"echo x >> {f}; echo done", op)
        again = await sh(session, f"echo x >> {f}; echo done", op)
        assert again == once and place.get("f") == b"x\n"
        with refused("conflict"):
            await sh(session, "echo other", op)
        with refused("conflict"):
            await call(session, "file.mkdir", op, path=at(place.path("d")))
        assert (await call(session, "receipt.get", operation_id=op)).receipt == once.receipt
        with refused("not_found_or_denied"):
            await call(session, "receipt.get", operation_id=operation())
        failing = operation()
        with refused("conflict") as first:
            await call(session, "file.mkdir", failing, path=at(place.work))
        with refused("conflict") as second:
            await call(session, "file.mkdir", failing, path=at(place.work))
        assert second.data == first.data and first.data.receipt.outcome.value == "failed"
        other = await device.open_session()
        fresh = await sh(other, f"echo x >> {f}; echo done", op)
        assert fresh.receipt != once.receipt and place.get("f") == b"x\nx\n"


async def test_receipt_has_the_digest_of_the_request(place, carrier):
    async with carrier() as device, await device.open_session() as session:
        done = await call(session, "shell.exec", request=argv("echo", "a"))
        assert done.receipt.request_digest == "ed6b7350faf83ca3c81e1cc3c62a1e2cb6bd0a75518b51d23ecfe800fdf118e8"
        assert (done.receipt.device_id, done.receipt.session_id, done.receipt.generation) == (
            "device-1", session.session_id, session.generation)


# ---- ports


async def test_ports(place, carrier):
    port = free_port()
    target = {"protocol": "tcp", "address": "loopback", "port": port}
    async with carrier() as device, await device.open_session() as session:
        seen = await call(session, "port.inspect", target=target)
        assert seen.observation.status.value == "not_listening"
        with refused("invalid_params"):
            await call(session, "port.wait", target=target, desired_status="listening")
        with refused("timeout"):
            await call(session, "port.wait", timeout_ms=60, target=target, desired_status="listening")
        waiting = asyncio.create_task(call(session, "port.wait", timeout_ms=20_000, target=target,
                                           desired_status="listening"))
        with socket.create_server(("127.0.0.1", port)):
            assert (await waiting).observation.status.value == "listening"
        closed = await call(session, "port.wait", timeout_ms=20_000, target=target, desired_status="not_listening")
        assert closed.observation.status.value == "not_listening"


# ---- load


async def test_keepalive_storm(place, carrier):
    async with carrier() as device, await device.open_session() as session:
        answers = await asyncio.gather(*(session.client.session_keepalive(SessionKeepaliveParams())
                                         for _ in range(300)), sh(session, "echo between"))
        assert all(a.alive for a in answers[:-1]) and out(answers[-1]) == b"between\n"


async def test_32_in_flight(place, carrier):
    place.put("f", "x")
    port = free_port()
    async with carrier() as device, await device.open_session() as session:
        waits = [asyncio.create_task(call(session, "port.wait", timeout_ms=20_000, desired_status="listening",
                                          target={"protocol": "tcp", "address": "loopback", "port": port}))
                 for _ in range(31)]
        for _ in range(50):  # the last free place does all of these while the others wait
            await call(session, "file.stat", path=at(place.path("f")))
        assert not any(w.done() for w in waits)
        with socket.create_server(("127.0.0.1", port), backlog=128):
            await asyncio.gather(*waits)
        stats = [call(session, "file.stat", path=at(place.path("f"))) for _ in range(500)]
        assert all(s.info.size_bytes == 1 for s in await asyncio.gather(*stats))


async def test_unknown_names_are_refused(place, carrier):
    async with carrier() as device, await device.open_session() as session:
        for path in (place.path("x/../y"), "relative", place.work + "/"):
            with pytest.raises((EIPMethodError, ValueError)):
                await call(session, "file.stat", path={"path": path})
        with refused("not_found_or_denied"):
            await call(session, "process.inspect", handle="process-x-1")
        with refused("invalid_handle"):
            await call(session, "output.read", reference="output-x-1", start_offset=0)
        with refused("invalid_handle"):
            await call(session, "file.close_reader", reader="reader-x-1")
        with refused("invalid_handle"):
            await call(session, "file.abort_writer", writer="writer-x-1")
