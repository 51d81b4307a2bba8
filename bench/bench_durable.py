#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sessions and runs beside the Python port, in one run.

    bench/bench_durable.py --bin build/release/bin --port PYTHON       # a few minutes
    bench/bench_durable.py --bin build/release/bin --port PYTHON --quick

PYTHON is an interpreter (3.11 or newer) with pi-durable-python 1.4.0. Both sides do the same work in a process of their
own and take turns in every repetition; values are medians, ratios are medians of the pairs' ratios. The port never syncs
its commit point; ours is measured at its durability (normal) and with everything synced (full). CPU is user plus system.

rows
  entry    a commit of one entry            step     a tool step: a task's record and a document's value
  partial  40 more bytes of a 200 KB answer
  turns    a turn with one bash call and one with a read, scripted model, CPU per turn: all of it, and its parts (our
           process, the daemon, the shell it runs), beside the same command started bare
  big      100,000 entries: open, context, dump, memory
"""
import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


TICK = os.sysconf("SC_CLK_TCK")


def cpu_of(pid):
    """Seconds of a process, and of the children it has waited for."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0, 0.0
    return (int(fields[11]) + int(fields[12])) / TICK, (int(fields[13]) + int(fields[14])) / TICK


def children_of(pid):
    found = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as f:
                found += [int(child) for child in f.read().split()]
    except OSError:
        pass
    return found


def written_by(pid):
    try:
        with open(f"/proc/{pid}/io") as f:
            return int(f.read().split("write_bytes: ")[1].split()[0])
    except (OSError, IndexError):
        return 0


class Bench:
    def __init__(self, args, work):
        self.args, self.work, self.count, self.failed = args, work, 0, []

    def path(self, kind):
        self.count += 1
        return os.path.join(self.work, f"{self.count}.sqlite" if kind == "sqlite" else str(self.count))

    def say(self, argv):
        done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(argv)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return json.loads(done.stdout.splitlines()[-1])

    def ours(self, what, path, n, durability="normal"):
        return self.say([os.path.join(self.args.bin, "bench_durable_load"), what, path, str(n), durability])

    def port(self, what, path, n):
        return self.say([self.args.port, os.path.join(HERE, "durable_port.py"), what, path, str(n)])

    def row(self, name, ours, port, unit, aim=None, value=lambda v: v):
        """Lists of pairs; ratio = port / ours for times."""
        ratios = [p / o for o, p in zip(ours, port)] if port else None
        ratio = statistics.median(ratios) if ratios else None
        text = f"{name:34} ours {value(statistics.median(ours)):>10.2f} {unit}"
        if port:
            text += f"   port {value(statistics.median(port)):>10.2f} {unit}   {ratio:6.1f}x"
        if aim is not None:
            ok = aim(statistics.median(ours), ratio)
            text += "   ok" if ok else "   MISSED"
            if not ok:
                self.failed.append(name)
        print(text, flush=True)

    def commits(self, what, kind, durability, n, nport, aim):
        ours, port = [], []
        for _ in range(self.args.repeat):
            a = self.ours(what, self.path(kind), n, durability)
            b = self.port(what, self.path(kind), nport)
            ours.append(a["wall_s"] / a["n"] * 1e6)
            port.append(b["wall_s"] / b["n"] * 1e6)
        self.row(f"{what}, {kind}, {durability}", ours, port, "us", aim)
        return statistics.median(ours)

    def partial(self, kind):
        ours, port = [], []
        for _ in range(self.args.repeat):
            a = self.ours("partial", self.path(kind), 2000, "full")
            b = self.port("partial", self.path(kind), 200)
            ours.append(a["cpu_s"] / a["n"] * 1e6)
            port.append(b["cpu_s"] / b["n"] * 1e6)
        self.row(f"partial of 200 KB, {kind}, CPU", ours, port, "us", lambda o, _: o <= 150)

    def run(self, kind, script, n):
        """A run of N turns: milliseconds of CPU a turn, of everything and of its parts, and KiB written a turn."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        child = subprocess.Popen([os.path.join(self.args.bin, "telechir"), "run", "--quiet", "--session", self.path(kind), "--model",
                                  f"scripted/{script}", "--cwd", self.work, "go"], stdout=subprocess.DEVNULL)
        daemon, over = 0.0, False
        while not over:  # the daemon is gone before its parent, so it is looked at while it runs
            daemon = max([daemon] + [cpu_of(pid)[0] for pid in children_of(child.pid)])
            time.sleep(0.02)
            over = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
        own, others = cpu_of(child.pid)
        written = written_by(child.pid)
        if child.wait() != 0:
            raise SystemExit(f"telechir run: exit {child.returncode}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        total = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return {"total": total / n * 1e3, "own": own / n * 1e3, "daemon": daemon / n * 1e3,
                "commands": max(0.0, others - daemon) / n * 1e3, "written": written / n / 1024}

    def bare(self, n):
        """The command of the bash turns, started by nobody but this program: milliseconds of CPU."""
        total = 0.0
        for _ in range(n):
            _, status, usage = os.wait4(os.posix_spawn("/bin/bash", ["bash", "-c", "true"], os.environ), 0)
            if status != 0:
                raise SystemExit("bash -c true failed")
            total += usage.ru_utime + usage.ru_stime
        return total / n * 1e3

    def script(self, name, n, call):
        script = os.path.join(self.work, f"{name}.json")
        with open(script, "w") as f:
            json.dump({"turns": [{"text": f"step {i}", "tool_calls": [{"id": f"c{i}", **call}]} for i in range(n)] +
                       [{"text": "done"}]}, f)
        return script

    def turns(self, kind, n):
        with open(os.path.join(self.work, "small.txt"), "w") as f:
            f.write("a line of a small file\n" * 20)
        bash = self.script("bash", n, {"name": "bash", "arguments": {"command": "true"}})
        read = self.script("read", n, {"name": "read", "arguments": {"path": "small.txt"}})
        ours, reads, bare, port = [], [], [], []
        for _ in range(self.args.repeat):
            ours.append(self.run(kind, bash, n))
            bare.append(self.bare(n))
            reads.append(self.run(kind, read, n))
            b = self.port("turns", self.path(kind), max(20, n // 4))
            port.append(b["cpu_s"] / b["n"] * 1e3)
        self.row(f"turn with bash, {kind}, all, CPU", [r["total"] for r in ours], port, "ms")
        self.row("  our process", [r["own"] for r in ours], None, "ms")
        self.row("  the daemon", [r["daemon"] for r in ours], None, "ms")
        self.row("  both", [r["own"] + r["daemon"] for r in ours], None, "ms", lambda o, _: o <= 3)
        self.row("  bash", [r["commands"] for r in ours], None, "ms")
        self.row("  bash -c true, started bare", bare, None, "ms")
        self.row(f"turn with read, {kind}, all, CPU", [r["total"] for r in reads], None, "ms", lambda o, _: o <= 3)
        self.row(f"turn with bash, {kind}, written", [r["written"] for r in ours], None, "KiB",
                 (lambda o, _: o <= 150) if kind == "sqlite" else None)

    def dump(self, path):
        started, peak = time.perf_counter(), 0
        child = subprocess.Popen([os.path.join(self.args.bin, "telechir"), "sessions", "dump", path], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            raise SystemExit(f"telechir sessions dump: exit {child.returncode}")
        peak = usage.ru_maxrss
        return time.perf_counter() - started, peak / 1024

    def big(self, kind, n):
        path, rival = self.path(kind), self.path(kind)
        self.ours("fill", path, n)
        self.port("fill", rival, n)
        opened, port_opened, memory, derived, port_derived, dumped, dump_memory = [], [], [], [], [], [], []
        for _ in range(self.args.repeat):
            a, b = self.ours("open", path, 0), self.port("open", rival, 0)
            opened.append(a["wall_s"] * 1e3)
            memory.append(a["max_rss_kb"] / 1024)
            port_opened.append(b["wall_s"] * 1e3)
            a, b = self.ours("context", path, 0), self.port("context", rival, 0)
            derived.append(a["wall_s"] * 1e3)
            port_derived.append(b["wall_s"] * 1e3)
            seconds, peak = self.dump(path)
            dumped.append(seconds)
            dump_memory.append(peak)
        whole = n >= 100000
        self.row(f"open {n}, {kind}", opened, port_opened, "ms", (lambda o, _: o <= 500) if whole else None)
        self.row(f"open {n}, {kind}, memory", memory, None, "MiB", lambda o, _: o <= 120)
        self.row(f"context of {n}, {kind}", derived, port_derived, "ms", (lambda o, _: o <= 400) if whole else None)
        self.row(f"dump {n}, {kind}", dumped, None, "s", (lambda o, _: o <= 1) if whole and kind == "sqlite" else None)
        self.row(f"dump {n}, {kind}, memory", dump_memory, None, "MiB")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", required=True, help="folder with telechir and bench_durable_load")
    p.add_argument("--port", required=True, help="interpreter that has pi-durable-python")
    p.add_argument("--rows", default="entry,step,partial,turns,big")
    p.add_argument("--repeat", type=int, default=5)
    p.add_argument("--quick", action="store_true")
    p.add_argument("--work", help="where sessions are made (default: a temporary folder)")
    args = p.parse_args()
    args.bin = os.path.abspath(args.bin)
    if args.quick:
        args.repeat = 1
    work = tempfile.mkdtemp(prefix="bench_durable.", dir=args.work)
    bench, rows, n = Bench(args, work), args.rows.split(","), 300 if args.quick else 2000
    try:
        entry = {}
        if "entry" in rows:
            entry["jsonl"] = bench.commits("entry", "jsonl", "normal", n, n // 4, None)
            bench.commits("entry", "sqlite", "normal", n, n // 4, None)
            bench.commits("entry", "sqlite", "full", n, n // 4, None)
        if "step" in rows:
            step = bench.commits("step", "jsonl", "normal", n, n // 8, lambda _, r: r >= 15)
            bench.commits("step", "sqlite", "normal", n, n // 4, lambda _, r: r >= 2.5)
            bench.commits("step", "sqlite", "full", n, n // 4, lambda _, r: r >= 1.3)
            if entry:
                bench.row("step over entry, jsonl", [step / entry["jsonl"]], None, "x", lambda o, _: o <= 2)
        if "partial" in rows:
            bench.partial("sqlite")
            bench.partial("jsonl")
        if "turns" in rows:
            bench.turns("sqlite", 40 if args.quick else 200)
            bench.turns("jsonl", 40 if args.quick else 200)
        if "big" in rows:
            for kind in ("jsonl", "sqlite"):
                bench.big(kind, 10000 if args.quick else 100000)
    finally:
        shutil.rmtree(work)
    if bench.failed and not args.quick:
        print("missed: " + ", ".join(bench.failed))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
