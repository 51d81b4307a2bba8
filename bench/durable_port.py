# SPDX-License-Identifier: Apache-2.0
"""The rival of bench_durable.py: the same loads on the Python port, one a run, under an interpreter that has
pi-durable-python: durable_port.py WHAT PATH N. Prints the JSON object that durable_load prints."""
import asyncio
import json
import os
import resource
import sys
import time

from pi_durable import Harness, create_registry, create_session, define_doc
from pi_durable.context import BACKGROUND_CONTEXT as CONTEXT
from pi_durable.env.posix import PosixExecutionEnv
from pi_durable.providers import Model
from pi_durable.storage.jsonl import JsonlStorage
from pi_durable.storage.sqlite.posix import open_posix_sqlite_storage
from pi_durable.tools import create_coding_tools

TEXT = "some words of a prompt, " * 20


async def open_storage(path):
    if path.endswith(".sqlite"):
        return await open_posix_sqlite_storage(path)
    return await JsonlStorage.open(path, PosixExecutionEnv(cwd=os.path.dirname(path)), CONTEXT)


def cpu():
    u = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return u.ru_utime + u.ru_stime, children.ru_utime + children.ru_stime


class Clock:
    def __enter__(self):
        self.wall, self.cpu = time.perf_counter(), cpu()[0]
        return self

    def __exit__(self, *_):
        self.wall, self.cpu = time.perf_counter() - self.wall, cpu()[0] - self.cpu


def entry(id):
    return {"type": "entry", "value": {"id": id, "conversationId": 1, "kind": "pi.user",
                                       "model": [{"role": "user", "content": TEXT, "timestamp": 1700000000000}]}}


async def entries(path, n, batch):
    storage = await open_storage(path)
    await storage.commit([{"type": "conversation", "value": {"id": 1}}], CONTEXT)
    with Clock() as clock:
        for done in range(0, n, batch):
            await storage.commit([entry(2 + i) for i in range(done, min(n, done + batch))], CONTEXT)
    await storage.close(CONTEXT)
    return clock


async def step(path, n):
    storage = await open_storage(path)
    await storage.commit([{"type": "conversation", "value": {"id": 1}}], CONTEXT)
    record = {"id": 2, "kind": "pi.live", "scope": {"kind": "conversation", "conversationId": 1}, "history": "latest",
              "fork": "initial"}
    await storage.commit([{"type": "document.create", "record": record,
                           "content": {"version": 1, "kind": "base", "value": {}}}], CONTEXT)
    with Clock() as clock:
        for i in range(n):
            task = {"id": 3, "conversationId": 1, "kind": "pi.tool", "version": 2,
                    "input": {"kind": "model", "assistant": 11, "callId": "c1"}, "background": False,
                    "abortRequested": False, "state": {"status": "running", "checkpoint": {
                        "phase": "execute", "arguments": {"text": str(i)}, "replay": "unsafe"}},
                    "owner": 9, "startedAt": 1700000000059}
            live = {"run": {"taskId": 9, "inputs": [8]}, "tools": [
                {"callId": "c1", "name": "echo", "taskId": 3, "status": "running", "output": str(i)}]}
            await storage.commit([{"type": "task", "value": task}, {"type": "document.change", "id": 2, "content": {
                "version": 1, "kind": "base", "value": live}}], CONTEXT)
    await storage.close(CONTEXT)
    return clock


async def partial(path, n):
    doc = define_doc({"kind": "bench.live", "version": 1, "scope": "session", "initial": lambda: {"text": ""},
                      "checkpoint_when": lambda _value, _ops, _info: False})
    session = create_session(await open_storage(path))

    async def append(tx, text):
        draft = await tx.doc(doc)
        draft.text = draft.text + text

    await session.commit(lambda tx: append(tx, "x" * 200000), CONTEXT)
    with Clock() as clock:
        for _ in range(n):
            await session.commit(lambda tx: append(tx, "y" * 40), CONTEXT)
    await session.close(CONTEXT)
    return clock


async def opened(path, _n):
    with Clock() as clock:
        storage = await open_storage(path)
    await storage.close(CONTEXT)
    return clock


async def context(path, _n):
    harness = await Harness.open(await open_storage(path), {"models": {}, "registry": create_registry()}, CONTEXT)
    conversation = await harness.conversation(1, CONTEXT)
    with Clock() as clock:
        await conversation.context(CONTEXT)
    await harness.close(CONTEXT)
    return clock


class Script:
    """A model that plays the turns of a file, as `scripted/FILE` does."""

    def __init__(self, turns):
        self.turns, self.model = turns, Model(provider="scripted", model_id="m", reasoning=False)

    def get_model(self, provider, model_id):
        return self.model if provider == "scripted" else None

    def stream_simple(self, _model, request, _options=None):
        played = sum(m["role"] == "assistant" for m in request["messages"])
        turn = self.turns[played]
        content = [{"type": "text", "text": turn["text"]}] if turn.get("text") else []
        content += [{"type": "toolCall", "id": c["id"], "name": c["name"], "arguments": c["arguments"]}
                    for c in turn.get("tool_calls", [])]
        return Answer({"role": "assistant", "content": content, "api": "scripted", "provider": "scripted", "model": "m",
                       "usage": {"input": 10, "output": 5, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 15, "cost": {
                           "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}},
                       "stopReason": "toolUse" if turn.get("tool_calls") else "stop", "timestamp": int(time.time() * 1000)})


class Answer:
    def __init__(self, message):
        self.message = message

    async def __aiter__(self):
        yield {"type": "done", "reason": self.message["stopReason"], "message": self.message}

    async def result(self):
        return self.message


async def turns(path, n):
    """N turns with one bash call each, from a script like the one of the command."""
    script = [{"text": f"step {i}", "tool_calls": [{"id": f"c{i}", "name": "bash", "arguments": {"command": "true"}}]}
              for i in range(n)] + [{"text": "done"}]
    registry = create_registry()
    registry.install(create_coding_tools())
    with Clock() as clock:
        harness = await Harness.open(await open_storage(path), {
            "models": Script(script), "registry": registry,
            "env": lambda _target, _context: PosixExecutionEnv(cwd=os.path.dirname(path))}, CONTEXT)
        root = await harness.root(CONTEXT, {"agent": {"model": {"provider": "scripted", "modelId": "m"}}})
        submission = await root.submit({"type": "input", "content": "go"}, CONTEXT)
        settled = await submission.wait(CONTEXT)
        assert settled["status"] == "done", settled
        await harness.close(CONTEXT)
    return clock


LOADS = {"fill": lambda path, n: entries(path, n, 250), "entry": lambda path, n: entries(path, n, 1), "step": step,
         "partial": partial, "open": opened, "context": context, "turns": turns}


def main():
    what, path, n = sys.argv[1], os.path.abspath(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0
    clock = asyncio.run(LOADS[what](path, n))
    print(json.dumps({"n": n, "wall_s": clock.wall, "cpu_s": clock.cpu,
                      "max_rss_kb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))


if __name__ == "__main__":
    main()
