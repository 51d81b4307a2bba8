# SPDX-License-Identifier: Apache-2.0
"""One session file, two programs: the port and ours open, read and go on with what the other wrote."""
import json
import os
import signal
import sqlite3
import subprocess

import pytest

pytest.importorskip("pi_durable")

import storage_script as script  # noqa: E402

pytestmark = pytest.mark.skipif(script.tool() is None, reason="no store_tool: build it, or set TC_STORE_TOOL")

BACKENDS = ["session.sqlite", "session"]
REWINDABLE_IDS = [4, 16, 22]
ALL = len(script.COMMITS)


@pytest.fixture(params=BACKENDS, ids=["sqlite", "jsonl"])
def path(request, tmp_path):
    return str(tmp_path / request.param)


@pytest.fixture
def reference(request, tmp_path):
    return str(tmp_path / "reference.sqlite")


async def test_port_reads_what_we_wrote(path, reference):
    assert script.our_commits(path, script.COMMITS) == list(range(1, ALL + 1))
    await script.port_commits(reference, script.COMMITS)
    assert await script.port_dump(path) == await script.port_dump(reference)
    assert await script.port_history(path, REWINDABLE_IDS, ALL) == await script.port_history(reference, REWINDABLE_IDS, ALL)


async def test_we_read_what_port_wrote(path, reference):
    assert await script.port_commits(path, script.COMMITS) == list(range(1, ALL + 1))
    await script.port_commits(reference, script.COMMITS)
    assert script.our_dump(path) == await script.port_dump(reference)
    assert script.our_history(path, REWINDABLE_IDS, ALL) == await script.port_history(reference, REWINDABLE_IDS, ALL)


@pytest.mark.parametrize("ours_first", [True, False])
async def test_taking_turns_commit_by_commit(path, reference, ours_first):
    for at, writes in enumerate(script.COMMITS):
        if (at % 2 == 0) == ours_first:
            assert script.our_commits(path, [writes]) == [at + 1]
        else:
            assert await script.port_commits(path, [writes]) == [at + 1]
    await script.port_commits(reference, script.COMMITS)
    expected = await script.port_dump(reference)
    assert script.our_dump(path) == expected
    assert await script.port_dump(path) == expected
    assert script.our_history(path, REWINDABLE_IDS, ALL) == await script.port_history(reference, REWINDABLE_IDS, ALL)
    assert script.run_tool("check", path)[-1].endswith(f"damaged 0 commits {ALL}")


async def test_port_finds_ids_that_are_free(path):
    script.our_commits(path, script.COMMITS)
    storage = await script.open_port(path)
    assert await storage.mint_id() == 24
    await storage.close(script.CONTEXT)
    refused = script.run_tool("apply", path, [[script.entry(23)], [script.entry(24)]])
    assert refused == ["error CONFLICT: ID 23 already belongs to entry", f"seq {ALL + 1}"]


async def test_port_takes_no_notice_of_our_lock(path):
    """Held by a process that was killed, and the file it left."""
    script.our_commits(path, script.COMMITS[:2])
    holder = subprocess.Popen([script.tool(), "hold", path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "open\n"
    lock = path + "-owner.lock" if path.endswith(".sqlite") else os.path.join(path, "owner.lock")
    with open(lock, encoding="utf-8") as f:
        assert json.load(f)["pid"] == holder.pid
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    assert os.path.exists(lock)
    assert await script.port_commits(path, script.COMMITS[2:4]) == [3, 4]
    assert script.our_commits(path, script.COMMITS[4:5]) == [5]
    assert not os.path.exists(lock)


async def test_port_goes_on_after_our_process_was_killed(path, reference):
    writer = subprocess.Popen([script.tool(), "apply", path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for at, writes in enumerate(script.COMMITS[:6]):
        writer.stdin.write(json.dumps(writes) + "\n")
        writer.stdin.flush()
        assert writer.stdout.readline() == f"seq {at + 1}\n"
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    await script.port_commits(path, script.COMMITS[6:])
    await script.port_commits(reference, script.COMMITS)
    assert await script.port_dump(path) == await script.port_dump(reference)
    assert script.our_dump(path) == await script.port_dump(reference)


def begin(path, commits, hows):
    """A writer of ours that has committed all of them, each as said: S, or L, or D with the next one."""
    writer = subprocess.Popen([script.tool(), "apply", path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for at, (writes, how) in enumerate(zip(commits, hows, strict=True)):
        writer.stdin.write(("" if how == "S" else how) + json.dumps(writes) + "\n")
        writer.stdin.flush()
        assert writer.stdout.readline() == f"seq {at + 1}\n"
    return writer


def ncommits(path):
    said = script.run_tool("check", path)[-1]
    assert " damaged 0 commits " in said, said
    return int(said.split()[-1])


@pytest.mark.parametrize("hows", ["D", "SD", "SDDD", "SLDD", "SDSLD", "SDDLDDSD", "DDDDD"])
async def test_port_goes_on_after_a_kill_between_a_deferred_commit_and_the_next(path, reference, hows):
    """Nothing is half there, and what waited with nothing after it may be done again."""
    writer = begin(path, script.COMMITS[:len(hows)], hows)
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    least = len(hows.rstrip("D"))
    there = least if path.endswith(".sqlite") else None
    if there is None:  # a folder gives them to the system at once
        there = ncommits(path)
        assert least <= there <= len(hows)
    assert await script.port_commits(path, script.COMMITS[there:]) == list(range(there + 1, ALL + 1))
    await script.port_commits(reference, script.COMMITS)
    assert await script.port_dump(path) == await script.port_dump(reference)
    assert script.our_dump(path) == await script.port_dump(reference)
    assert ncommits(path) == ALL


async def test_readers_beside_our_writer_see_whole_commits(tmp_path):
    """Ours and plain SQLite, opened anew and all the time open; who means to write has to wait."""
    path = str(tmp_path / "session.sqlite")
    writer = begin(path, script.COMMITS[:1], "S")
    kept = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    hows, given = "SDLDDSDDLD", 1
    for at in range(1, ALL):
        writer.stdin.write(("" if hows[at] == "S" else hows[at]) + json.dumps(script.COMMITS[at]) + "\n")
        writer.stdin.flush()
        assert writer.stdout.readline() == f"seq {at + 1}\n"
        given = at + 1 if hows[at] != "D" else given
        assert ncommits(path) == given
        anew = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        for reader in (kept, anew):
            assert reader.execute("SELECT next_seq FROM durable_metadata").fetchone() == (given + 1,)
        anew.close()
    late = sqlite3.connect(path, timeout=0.01, isolation_level=None)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        late.execute("BEGIN IMMEDIATE")
    late.close()
    out, _ = writer.communicate()  # it closes what it has
    assert (writer.returncode, out) == (0, "")
    assert kept.execute("SELECT next_seq FROM durable_metadata").fetchone() == (ALL + 1,)
    kept.close()
    assert ncommits(path) == ALL
