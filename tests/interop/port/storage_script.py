# SPDX-License-Identifier: Apache-2.0
"""A session as a list of commits, in the shapes both storages take: every kind of record and document, every delta
operation, forks, copies, strange texts. And what each side says is in a storage, as comparable values."""
import json
import os
import subprocess

from pi_durable.context import BACKGROUND_CONTEXT as CONTEXT
from pi_durable.env.posix import PosixExecutionEnv
from pi_durable.storage.jsonl import JsonlStorage
from pi_durable.storage.sqlite.posix import open_posix_sqlite_storage

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def tool():
    """The program that drives our storage."""
    if path := os.environ.get("TC_STORE_TOOL"):
        return path
    for build in ("san", "dev"):
        path = os.path.join(ROOT, "build", build, "bin", "store_tool")
        if os.access(path, os.X_OK):
            return path
    return None


# ---- the script ----

def conversation(id, **more):
    return {"type": "conversation", "value": {"id": id, **more}}


def entry(id, conversation=1, kind="pi.user", **more):
    return {"type": "entry", "value": {"id": id, "conversationId": conversation, "kind": kind, **more}}


def task(id, state, conversation=1, kind="pi.tool", background=False, abort=False, **more):
    return {"type": "task", "value": {"id": id, "conversationId": conversation, "kind": kind, "version": 2,
                                      "input": {"kind": "model", "callId": "c\u00e9"}, "background": background,
                                      "abortRequested": abort, "state": state, **more}}


def submission(id, status, conversation=1, **more):
    return {"type": "submission", "value": {"id": id, "conversationId": conversation, "type": "input", "status": status,
                                            **more}}


def create(id, kind, scope, value, **more):
    return {"type": "document.create", "record": {"id": id, "kind": kind, "scope": scope, **more},
            "content": {"version": 1, "kind": "base", "value": value}}


def base(id, value, version=1):
    return {"type": "document.change", "id": id, "content": {"version": version, "kind": "base", "value": value}}


def delta(id, *ops, version=1):
    return {"type": "document.change", "id": id,
            "content": {"version": version, "kind": "delta", "ops": [list(op) for op in ops]}}


def retire(id):
    return {"type": "document.retire", "id": id}


SESSION = {"kind": "session"}


def within(conversation):
    return {"kind": "conversation", "conversationId": conversation}


def of_task(id):
    return {"kind": "task", "taskId": id}


ODD = "\u00e9\u2028\u0085\U0001f600\ud800 \x00\x1f\x7f\"\\/"
LATEST = {"history": "latest", "fork": "initial"}
REWINDABLE = {"history": "rewindable", "fork": "asOf"}
PENDING = {"status": "pending", "checkpoint": {"phase": "call"}}
RUNNING = {"status": "running", "checkpoint": {"phase": "execute", "arguments": {"text": ODD}, "replay": "unsafe"}}

COMMITS = [
    [conversation(1), create(2, "pi.live", within(1), {}, **LATEST), create(3, "pi.inbox", within(1), {"items": []}, **LATEST),
     create(4, "pi.agent", within(1), {"model": {"provider": "faux", "modelId": "f"}}, **REWINDABLE)],
    [entry(5, model=[{"role": "user", "content": ODD, "timestamp": 1700000000018}]),
     submission(6, "placed", requestId="r1", entry=5), task(7, PENDING),
     base(2, {"run": {"taskId": 7, "inputs": [6]}, "text": "one \u00e9 two", "list": [1, 2, 3, 4], "deep": {"a": {"b": []}}})],
    [task(7, RUNNING, startedAt=1700000000059, memos={"m": {"x": [None, True, 1.5, -2, "s"]}}),
     delta(2, ["a", ["text"], " three \U0001f600"], ["t", ["text"], 4], ["s", ["list", 1], {"k": ODD}],
           ["p", ["list"], 0, 1, ["first", "second"]], ["m", ["list"], [4, 0, 1, 2, 3]], ["d", ["deep", "a"]],
           ["s", ["deep", "new"], []], ["p", ["deep", "new"], 0, 0, [{}]], ["d", ["list", 2]])],
    [delta(2, ["r", {"all": "new", "text": ""}], ["a", ["text"], "x"]), create(8, "pi.tool.nested-call", of_task(7), {"taskId": 7}, key="1"),
     create(9, "pi.tool.nested-call", of_task(7), {"taskId": 7}, key=""), create(10, "own", SESSION, {"n": 0}),
     create(11, "own", SESSION, {"n": 1}, key="\ud800"), create(12, "own", SESSION, {"n": 2}, key="\udfff")],
    [entry(13, kind="pi.assistant", data={"__proto__": 1, "constructor": {"toString": None}}, head=13),
     delta(4, ["s", ["thinkingLevel"], "high"]), base(10, {"n": 3}, version=2), submission(14, "queued", requestId="\u00e4\ud83d\ude00")],
    [conversation(15, parent={"conversationId": 1, "at": 13}, owner={"conversationId": 1, "taskId": 7}),
     {"type": "document.copy", "record": {"id": 16, "kind": "pi.agent", "scope": within(15), **REWINDABLE}, "source": {"id": 4, "at": 4}},
     create(17, "pi.live", within(15), {}, **LATEST), entry(18, conversation=15, edits=[{"target": 5, "action": "omit"}])],
    [task(7, {"status": "terminal", "outcome": {"status": "completed", "result": {"kind": "model", "entryId": 13}}},
          startedAt=1700000000059, endedAt=1700000000081, background=True, abort=True), retire(8), retire(9), base(2, {}),
     submission(6, "done", requestId="r1", entry=5, answer=13), retire(11)],
    [task(19, {"status": "sleeping", "checkpoint": {}, "until": 1800000000000}, conversation=15, kind="k\u00e9"),
     task(20, {"status": "waiting", "checkpoint": {}, "on": [19], "policy": "failFast"}, owner=7),
     task(21, {"status": "completing", "outcome": {"status": "aborted"}}), delta(4, ["s", ["cwd"], "/tmp"]), retire(16),
     create(22, "pi.agent", within(15), {"cwd": "/"}, **REWINDABLE)],
    [base(4, {"tools": []}, version=3), entry(23, conversation=15, model=[]), submission(14, "unanswered", requestId="\u00e4\ud83d\ude00", reason="aborted", detail={"x": [ODD]})],
    [delta(4, ["s", ["tools"], ["bash"]], version=3), delta(10, ["s", ["n"], 4], version=2)],
]


# ---- ours ----

def run_tool(command, path, commits=()):
    text = "".join(json.dumps(writes) + "\n" for writes in commits)
    done = subprocess.run([tool(), command, path], input=text, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split("\n")[:-1]  # not splitlines(): texts may hold U+2028


def our_commits(path, commits):
    """The sequence numbers."""
    said = run_tool("apply", path, commits)
    assert all(line.startswith("seq ") for line in said), said
    return [int(line[4:]) for line in said]


def our_dump(path):
    return sorted_dump(json.loads(line) for line in run_tool("dump", path))


# ---- the port ----

async def open_port(path):
    if path.endswith(".sqlite"):
        return await open_posix_sqlite_storage(path)
    return await JsonlStorage.open(path, PosixExecutionEnv(cwd=os.path.dirname(path)), CONTEXT)


async def port_commits(path, commits):
    storage = await open_port(path)
    try:
        return [await storage.commit(writes, CONTEXT) for writes in commits]
    finally:
        await storage.close(CONTEXT)


async def everything(scan, query):
    items, cursor = [], None
    while True:
        page = await scan(query, 7, cursor, CONTEXT)
        items += page["items"]
        cursor = page.get("next")
        if cursor is None:
            return items


async def port_dump(path):
    storage = await open_port(path)
    try:
        lines = []
        conversations = await everything(storage.scan_conversations, {})
        for c in conversations:
            lines.append({"table": "conversation", "record": c})
            for e in await everything(storage.scan_entries, {"conversationId": c["id"], "order": "ascending"}):
                if e["conversationId"] == c["id"]:
                    found = await storage.entry(e["id"], CONTEXT)
                    lines.append({"table": "entry", "seq": found["commitSeq"], "record": found["entry"]})
        tasks = await everything(storage.scan_tasks, {})
        lines += [{"table": "task", "record": t} for t in tasks]
        lines += [{"table": "submission", "record": s} for s in await everything(storage.scan_submissions, {})]
        scopes = [SESSION] + [within(c["id"]) for c in conversations] + [of_task(t["id"]) for t in tasks]
        for scope in scopes:
            for d in await everything(storage.scan_documents, {"scope": scope, "at": "current"}):
                lines.append({"table": "document", "record": d})
                state = await storage.document(d["id"], "current", CONTEXT)
                lines.append({"table": "value", "id": d["id"], "version": state["version"],
                              "deltas": state["deltasSinceBase"], "value": state["value"]})
        return sorted_dump(lines)
    finally:
        await storage.close(CONTEXT)


async def port_history(path, ids, last):
    """The values of rewindable documents as of each commit."""
    storage = await open_port(path)
    try:
        found = []
        for id in ids:
            for at in range(1, last + 1):
                state = await storage.document(id, at, CONTEXT)
                found.append(None if state is None else [state["version"], state["value"]])
        return found
    finally:
        await storage.close(CONTEXT)


def our_history(path, ids, last):
    found = []
    for line in run_tool("history", path, [[id, last] for id in ids]):
        found.append(json.loads(line))
    return found


def sorted_dump(lines):
    """In one order, without retired documents: the port does not list them."""
    kept = [line for line in lines if not (line["table"] == "document" and "retiredAt" in line["record"])]
    return sorted(kept, key=lambda line: (line["table"], line.get("id") or line["record"]["id"]))
