# SPDX-License-Identifier: Apache-2.0
"""Two programs that run the same agent: `telechir run` and a host of the port's Harness. Both read a model's turns from
the same file, use the same tools in the same folder, and can be killed at a commit. And what a session says afterwards,
as each of them reads it."""
import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import traceback

import storage_script as storage
from harness_work import Work
from pi_durable import Harness, create_registry
from pi_durable.context import BACKGROUND_CONTEXT as CONTEXT
from pi_durable.env.posix import PosixExecutionEnv
from pi_durable.providers import Model
from pi_durable.tools import create_coding_tools

LIMIT_S = 180
TOOLS = ["read", "write", "edit", "bash"]


def program(name, variable, builds=("san", "release", "dev")):
    if path := os.environ.get(variable):
        return path
    for build in builds:
        path = os.path.join(storage.ROOT, "build", build, "bin", name)
        if os.access(path, os.X_OK):
            return path
    return None


def telechir():
    """The command, with the daemon for local targets beside it."""
    return program("telechir", "TC_TELECHIR")


def harness_tool():
    """The program that does with our harness what the command has no words for."""
    return program("harness_tool", "TC_HARNESS_TOOL", ("san", "dev"))


# ---- the place ----

class Place:
    """A session, a folder for the tools, and the script of the model."""

    def __init__(self, folder, session):
        self.folder = str(folder)
        self.path = os.path.join(self.folder, session)
        self.work = os.path.join(self.folder, "work")
        self.script = os.path.join(self.folder, "script.json")
        os.mkdir(self.work)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("A13N_", "TELECHIR", "XDG_"))}
        self.env |= {"HOME": self.folder, "XDG_CONFIG_HOME": os.path.join(self.folder, "config")}

    @property
    def is_sqlite(self):
        return self.path.endswith(".sqlite")

    def play(self, *turns):
        """The turns of the model from here on: turn N is played when N answers are in the context."""
        with open(self.script + ".new", "w", encoding="utf-8") as f:
            json.dump({"turns": turns}, f)
        os.rename(self.script + ".new", self.script)

    def lines(self, name):
        """What the tools left in a file."""
        with contextlib.suppress(FileNotFoundError), open(os.path.join(self.work, name), encoding="utf-8") as f:
            return f.read().splitlines()
        return []

    def fifo(self, name):
        os.mkfifo(os.path.join(self.work, name))

    def agent(self, *tools):
        """tools: besides those that `telechir run` has."""
        return {"model": {"provider": "scripted", "modelId": self.script}, "cwd": self.work, "tools": [*TOOLS, *tools]}

    def play_elsewhere(self, *turns):
        """A script of its own, for another conversation."""
        path = f"{self.script}-elsewhere"
        with open(path, "w", encoding="utf-8") as f:
            json.dump({"turns": turns}, f)
        return path

    # ---- looking at it while somebody else has it ----

    def watcher(self):
        """A function: the last sequence number."""
        return sqlite_seq(self.path) if self.is_sqlite else jsonl_seq(self.path)

    def seq(self):
        return self.watcher()()

    def texts(self):
        """Every JSON text that is stored, as it is stored."""
        if not self.is_sqlite:
            found = []
            for name in sorted(os.listdir(self.path)):
                if name.endswith(".jsonl"):
                    with open(os.path.join(self.path, name), encoding="utf-8") as f:
                        found += f.read().split("\n")[:-1]
            return [json_part for line in found for json_part in line.split('{"type":')]
        with contextlib.closing(sqlite3.connect(self.path)) as db:
            return [text for table, column in text_columns(db)
                    for (text,) in db.execute(f'SELECT "{column}" FROM "{table}"') if text is not None]

    def rewrite(self, old, new):
        """Another spelling in every text that is stored."""
        if self.is_sqlite:
            with contextlib.closing(sqlite3.connect(self.path)) as db, db:
                for table, column in text_columns(db):
                    db.execute(f'UPDATE "{table}" SET "{column}" = replace("{column}", ?, ?)', (old, new))
            return
        for name in os.listdir(self.path):
            if name.endswith(".jsonl"):
                with open(os.path.join(self.path, name), "r+", encoding="utf-8") as f:
                    text = f.read().replace(old, new)
                    f.seek(0)
                    f.write(text)
                    f.truncate()

    def dump(self):
        said = self.run("sessions", "dump", self.path)
        return Dump(json.loads(line) for line in said.split("\n")[:-1])

    def run(self, *words):
        done = subprocess.run([telechir(), *words], cwd=self.folder, env=self.env, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=LIMIT_S)
        assert done.returncode == 0, (words, done.returncode, done.stdout[-2000:], done.stderr[-4000:])
        return done.stdout


def text_columns(db):
    names = db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
    tables = [name for (name,) in names]
    return [(table, column[1]) for table in tables for column in db.execute(f'PRAGMA table_info("{table}")')
            if column[2] == "TEXT" and column[1] in ("record", "content")]


def sqlite_seq(path):
    held = []

    def seq():
        try:
            if not held:
                if not os.path.exists(path):
                    return 0
                held.append(sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None))
            return held[0].execute("SELECT next_seq FROM durable_metadata").fetchone()[0] - 1
        except (sqlite3.Error, TypeError):
            return 0

    return seq


def jsonl_seq(path):
    def seq():
        try:
            with open(os.path.join(path, "main.jsonl"), "rb") as f:
                whole = f.read().rpartition(b"\n")[0]
        except FileNotFoundError:
            return 0
        return json.loads(whole.rpartition(b"\n")[2])["seq"] if whole else 0

    return seq


def call(id, command):
    return {"id": id, "name": "bash", "arguments": {"command": command}}


# ---- what a session says ----

class Dump:
    def __init__(self, lines):
        self.lines = list(lines)
        of = {kind: [line[kind] for line in self.lines if kind in line]
              for kind in ("conversation", "entry", "task", "submission", "document")}
        self.conversations, self.entries, self.tasks = of["conversation"], of["entry"], of["task"]
        self.submissions, self.documents = of["submission"], of["document"]

    def value(self, kind, conversation=1):
        """The value of a document; None without one."""
        for d in self.documents:
            if d["kind"] == kind and d["scope"].get("conversationId", conversation) == conversation and "value" in d:
                return d["value"]
        return None

    def results(self, call_id):
        return [m for e in self.entries if e["kind"] == "pi.tool-result" for m in e["model"]
                if m["toolCallId"] == call_id]

    def live_tasks(self):
        return [t for t in self.tasks if t["state"]["status"] != "terminal"]

    def submitted(self, text):
        """The submission of a prompt that is in the transcript; None when nobody has taken it."""
        for s in self.submissions:
            for e in self.entries:
                if e["id"] == s.get("entry") and e["model"][0].get("content") == text:
                    return s
        return None

    def answer(self, submission):
        entry = next(e for e in self.entries if e["id"] == submission["answer"])
        return "".join(b.get("text", "") for b in entry["model"][0]["content"])


def text_of(message):
    return "".join(block.get("text", "") for block in message["content"])


# ---- ours ----

class Ours:
    name = "ours"

    @staticmethod
    def words(place, prompt, is_first):
        words = [telechir(), "run", "--quiet", "--session", place.path]
        if is_first:
            words += ["--cwd", place.work, "--model", f"scripted/{place.script}", "--tools", ",".join(TOOLS)]
        return words + ([prompt] if prompt is not None else [])

    @classmethod
    def start(cls, place, prompt=None):
        is_first = not has_root(place)
        return subprocess.Popen(cls.words(place, prompt, is_first), cwd=place.folder, env=place.env,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    @classmethod
    def run(cls, place, prompt=None, is_answered=True):
        process = cls.start(place, prompt)
        try:
            said, errors = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            said, errors = process.communicate()
            raise AssertionError(f"ours does not end: {said[-2000:]} {errors[-4000:]}") from None
        assert process.returncode == (0 if is_answered else 1), (process.returncode, said[-2000:], errors[-4000:])
        return said

    @classmethod
    def run_until(cls, place, prompt, is_enough):
        """Killed when is_enough() says so. Whether it came to that."""
        process = cls.start(place, prompt)
        end = time.monotonic() + LIMIT_S
        try:
            while process.poll() is None:
                if is_enough():
                    process.send_signal(signal.SIGKILL)
                    return True
                assert time.monotonic() < end, "nothing to kill it for"
                time.sleep(0.0003)
            return False
        finally:
            process.kill()
            said, errors = process.communicate()
            assert process.returncode in (0, -signal.SIGKILL), (process.returncode, said, errors)

    @classmethod
    def killed_at(cls, place, prompt, seq):
        """Killed as soon as commit seq is seen. Whether it came to that."""
        seen = place.watcher()
        return cls.run_until(place, prompt, lambda: seen() >= seq)

    @staticmethod
    def do(place, *steps):
        """The steps that harness_tool.c describes. What they print, line by line; None: killed on the way."""
        daemon = os.path.join(os.path.dirname(telechir()), "telechird")
        done = subprocess.run([harness_tool(), place.path, place.work, daemon, *steps], env=place.env, cwd=place.folder,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S)
        if done.returncode == -signal.SIGKILL:
            return None
        assert done.returncode == 0, (steps, done.returncode, done.stderr)
        return done.stdout.split("\n")[:-1]

    @classmethod
    def context(cls, place, conversation=1):
        return [json.loads(line) for line in cls.do(place, f"context={conversation}")]


def has_root(place):
    return place.seq() > 0 and any(c["id"] == 1 for c in place.dump().conversations)


# ---- the port ----

class Script:
    """A model that plays the turns of a file, as `scripted/FILE` does."""

    def get_model(self, provider, model_id):
        if provider != "scripted":
            return None
        return Model(provider="scripted", model_id=model_id, reasoning=False, context_window=1 << 20,
                     max_tokens=1 << 16)

    def stream_simple(self, model, request, _options=None):
        played = sum(m["role"] == "assistant" for m in request["messages"])
        with open(model.model_id, encoding="utf-8") as f:
            turn = json.load(f)["turns"][played]
        content = [{"type": "text", "text": turn["text"]}] if turn.get("text") else []
        content += [{"type": "toolCall", "id": c["id"], "name": c["name"], "arguments": c["arguments"]}
                    for c in turn.get("tool_calls", [])]
        message = {"role": "assistant", "content": content, "api": "scripted", "provider": "scripted",
                   "model": model.model_id,
                   "usage": {"input": 10, "output": 5, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 15, "cost": {
                       "input": 0.0, "output": 0.0, "cacheRead": 0.0, "cacheWrite": 0.0, "total": 0.0}},
                   "stopReason": "toolUse" if turn.get("tool_calls") else "stop", "timestamp": int(time.time() * 1000)}
        if turn.get("error"):
            message |= {"stopReason": "error", "errorMessage": turn["error"]}
        return Answer(message, turn.get("delay_ms", 0))

    async def complete_simple(self, model, request, options=None):
        return await self.stream_simple(model, request, options).result()


class Answer:
    def __init__(self, message, delay_ms):
        self.message, self.delay_ms = message, delay_ms

    async def __aiter__(self):
        await asyncio.sleep(self.delay_ms / 1000)
        if self.message["stopReason"] == "error":
            yield {"type": "error", "reason": "error", "error": self.message}
        else:
            yield {"type": "done", "reason": self.message["stopReason"], "message": self.message}

    async def result(self):
        await asyncio.sleep(self.delay_ms / 1000)
        return self.message


class Port:
    name = "port"

    @classmethod
    def run(cls, place, prompt=None, is_answered=True):
        del is_answered  # the host looks at the submission itself
        ask = [] if prompt is None else [f"ask=1,{prompt}"]
        cls.do_here(place, f"root={json.dumps(place.agent())}", *ask, "idle=0")

    @classmethod
    def do_here(cls, place, *steps):
        said = []

        async def limited():
            async with asyncio.timeout(LIMIT_S):
                await play_steps(place, steps, said)

        asyncio.run(limited())
        return said

    @classmethod
    def do(cls, place, *steps):
        """In a process of its own, as harness_tool."""
        sys.stdout.flush()
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(reader)
                for line in cls.do_here(place, *steps):
                    os.write(writer, f"{line}\n".encode())
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        os.close(writer)
        with open(reader, encoding="utf-8") as f:
            said = f.read()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == -signal.SIGKILL:
            return None
        assert status == 0, (steps, status)
        return said.split("\n")[:-1]

    @classmethod
    def context(cls, place, conversation=1):
        return [json.loads(line) for line in cls.do_here(place, f"context={conversation}")]


class Steps:
    """The steps of harness_tool on a harness of the port."""

    def __init__(self, harness, said):
        self.harness, self.said = harness, said
        self.die_at, self.die_on, self.seen, self.changed = None, None, "", asyncio.Event()
        harness.subscribe_commits(lambda publication, _context: self.on_commit(publication))

    def on_commit(self, publication):
        text = json.dumps(publication["changes"], separators=(",", ":"), default=str)
        self.seen += text
        if self.die_at is not None and publication["seq"] >= self.die_at or self.die_on and self.die_on in text:
            os.kill(os.getpid(), signal.SIGKILL)
        self.changed.set()

    async def do(self, step):
        name, _, value = step.partition("=")
        id, _, rest = value.partition(",")
        if name == "die-at":
            self.die_at = int(value)
        elif name == "die-on":
            self.die_on = value
        elif name == "root":
            await self.harness.root(CONTEXT, {"agent": json.loads(value)})
        elif name == "until":
            while value not in self.seen:
                self.changed.clear()
                await self.changed.wait()
            self.seen = ""
        elif name == "retry":
            await self.harness.retry_task(int(value), CONTEXT)
        elif name == "idle" and value == "0":
            self.harness.resume()
            await self.harness.wait_for_idle(CONTEXT)
        else:
            await self.within(name, await self.harness.conversation(int(id), CONTEXT), rest)

    async def within(self, name, conversation, rest):
        if name in ("ask", "steer"):
            when = {"when_busy": "steer"} if name == "steer" else {}
            await conversation.submit({"type": "input", "content": rest, **when}, CONTEXT)
        elif name == "fork":
            fork = await conversation.fork(int(rest), {"ownership": {"kind": "ownerless"}}, CONTEXT)
            self.said.append(fork.id)
        elif name == "compact":
            await conversation.compact(None, CONTEXT)
        elif name == "abort":
            await conversation.abort(CONTEXT)
        elif name == "idle":
            await conversation.wait_for_idle(CONTEXT)
        elif name == "context":
            self.said += [json.dumps(m) for m in (await conversation.context(CONTEXT))["messages"]]
        else:
            raise ValueError(name)


async def play_steps(place, steps, said):
    registry = create_registry()
    registry.install(create_coding_tools())
    work = Work()
    registry.install(work.extension())
    harness = await Harness.open(await storage.open_port(place.path), {
        "models": Script(), "registry": registry,
        "settings": {"compaction": {"keep_recent_tokens": 10}, "retry": {"base_delay_ms": 700}},
        "env": lambda _target, _context: PosixExecutionEnv(cwd=place.work)}, CONTEXT)
    work.harness = harness
    try:
        host = Steps(harness, said)
        for step in steps:
            await host.do(step)
    finally:
        await harness.close(CONTEXT)
