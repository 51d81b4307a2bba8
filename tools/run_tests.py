#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run every test of the built trees and sum them up: run_tests.py [--jobs N] [--full]

build/san holds the unit tests, corpora and everything that CTest knows, build/tsan the same for loop and
pool, build/release the programs that the released clients and a browser drive. The last line is the sum:
"N passed, N failed, N skipped". Exit 1 when one failed, and in CI when one that CI must run was skipped.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SUM = re.compile(r"^(?:\w+: )?(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", re.M)
CMOCKA = {"passed": re.compile(r"^\[  PASSED  \] (\d+) test", re.M),
          "failed": re.compile(r"^\[  FAILED  \] (\d+) test", re.M),
          "skipped": re.compile(r"^\[  SKIPPED \] (\d+) test", re.M)}


class Sum:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.bad = []
        self.why_skipped = []

    def add(self, passed, failed, skipped):
        self.passed += passed
        self.failed += failed
        self.skipped += skipped


def count(text, ok, total, name, is_skipped=False):
    """Add what one program said of itself; a program that says nothing counts as one test."""
    if is_skipped:
        total.add(0, 0, 1)
        total.why_skipped.append(f"{name}: {text.strip().splitlines()[-1] if text.strip() else 'skipped'}")
        return
    found = SUM.findall(text)
    if found:
        p, f, s = (int(n or 0) for n in found[-1])
    else:
        p, f, s = (sum(int(n) for n in CMOCKA[k].findall(text)) for k in ("passed", "failed", "skipped"))
    if p + f + s == 0:
        p, f = (1, 0) if ok else (0, 1)
    if not ok and f == 0:
        f = 1  # crashed, leaked or ran out of time after the tests had passed
    if f:
        total.bad.append(name)
    total.add(p, f, s)
    for line in re.findall(r"^.*\bskip(?:ped)?: .*$", text, re.M):
        total.why_skipped.append(f"{name}: {line.strip()}")


def run_ctest(tree, jobs, label, total):
    report = os.path.join(ROOT, "build", tree, "tests.xml")
    # One more than there are processors: many tests mostly wait.
    command = ["ctest", "--test-dir", f"build/{tree}", "-j", str(jobs + 1), "--output-on-failure",
               "--test-output-size-passed", "100000", "--test-output-size-failed", "400000", "--output-junit", report]
    if label:
        command += ["-R", label]
    print("+", " ".join(command), flush=True)
    if os.path.exists(report):
        os.remove(report)
    subprocess.run(command, cwd=ROOT)
    if not os.path.exists(report):
        total.add(0, 1, 0)
        total.bad.append(f"ctest in build/{tree}")
        return
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        text = case.findtext("system-out") or ""
        count(text, case.get("status") == "run", total, f"{tree}/{case.get('name')}",
              case.get("status") == "notrun" and case.find("skipped") is not None)


def run_program(name, command, total, timeout):
    print("+", " ".join(command), flush=True)
    try:
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=timeout)
        text, ok = done.stdout, done.returncode == 0
    except subprocess.TimeoutExpired as e:
        text, ok = (e.stdout or b"").decode(errors="replace") + f"\ntime ran out after {timeout} s", False
    if not ok:
        print(text)
    count(text, ok, total, name)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--jobs", type=int, default=os.cpu_count())
    ap.add_argument("--full", action="store_true")
    ap.add_argument("--tsan", default="test_loop", help="tests to run under the thread sanitizer")
    args = ap.parse_args()
    total = Sum()
    run_ctest("san", args.jobs, None, total)
    run_ctest("tsan", args.jobs, "^(" + "|".join(args.tsan.split()) + ")$", total)
    daemon = "build/release/bin/telechird"
    run_program("interop/replay", [sys.executable, "tests/interop/replay.py", daemon], total, 900)
    peer = os.path.join(ROOT, "build/peer/bin/python")
    if os.path.exists(os.path.join(ROOT, "build/peer/ready")):
        run_program("interop/released client", [peer, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/interop"],
                    total, 3600 if args.full else 1800)
    else:
        total.add(0, 0, 1)
        total.why_skipped.append("interop/released client: skipped: no Python 3.13 (PEER_PYTHON)")
        if os.environ.get("CI"):
            total.add(0, 1, 0)
            total.bad.append("interop/released client (must run in CI)")
    node = shutil.which("node")
    if node is not None:
        run_program("browser", [node, "tests/browser/run.mjs"], total, 1800)
    else:
        total.add(0, 0, 1)
        total.why_skipped.append("browser: skipped: no node")
    for line in total.why_skipped:
        print(line)
    for name in total.bad:
        print(f"failed: {name}; run it alone with: ctest --test-dir build/{name.split('/')[0]} -R {name.split('/')[-1]} --output-on-failure"
              if name.startswith(("san/", "tsan/")) else f"failed: {name}")
    print(f"{total.passed} passed, {total.failed} failed" + (f", {total.skipped} skipped" if total.skipped else ""))
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
