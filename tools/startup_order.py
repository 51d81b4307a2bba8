#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes cmake/startup.ld: which members of the libraries run between the start of telechird and its idle state, so that
the static program places them side by side. The kernel maps code in groups of 64 KiB around each first touch; spread over
three megabytes of libraries, what a daemon needs to wait costs twice the memory.

    ./dev build --release && tools/startup_order.py      # needs valgrind; run it when the libraries change

A member that is not there is ignored by the linker, so an old list costs memory and nothing else."""
import bisect
import os
import re
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAM = os.path.join(ROOT, "build/release/bin/telechird")
MAP = os.path.join(ROOT, "build/release/telechird.map")
OUT = os.path.join(ROOT, "cmake/startup.ld")
LIBRARIES = ("libc.a", "libcrypto.a", "libuv_a.a")
HELLO = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"supported_protocol_versions":["0.3"],' \
        b'"client":{"name":"order","version":"1"}}}'
READY_S = 5  # under valgrind, the work that follows the first answers included

HEAD = """/* Written by tools/startup_order.py: what runs when telechird starts and waits, placed side by side. */
SECTIONS
{
  .text.start :
  {
"""
TAIL = """  }
}
INSERT BEFORE .text;
"""


def executed():
    """Addresses of instructions that ran."""
    with tempfile.TemporaryDirectory() as folder:
        env = {"PATH": os.environ["PATH"], "HOME": folder, "TELECHIRD_DEVICE_ID": "order",
               "TELECHIRD_FULL_CONTROL": "true", "TELECHIRD_RUNTIME_DIR": folder + "/run"}
        os.mkdir(folder + "/run", 0o700)
        out = folder + "/calls"
        child = subprocess.Popen(["valgrind", "-q", "--tool=callgrind", "--dump-instr=yes", "--compress-pos=no",
                                  f"--callgrind-out-file={out}", PROGRAM], env=env, stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        child.stdin.write(b"Content-Length: %d\r\nContent-Type: application/json\r\n\r\n" % len(HELLO) + HELLO)
        child.stdin.flush()
        if b"Content-Length" not in child.stdout.read1(100):
            sys.exit("telechird did not answer initialize")
        time.sleep(READY_S)
        child.stdin.close()
        child.wait()
        with open(out) as f:
            return {int(m, 16) for m in re.findall(r"^0x([0-9a-f]+) ", f.read(), re.M)}


def sections():
    """(address, size, section, object file) of all code, in order."""
    with open(MAP) as f:
        text = f.read()
    found = re.findall(r"^ (\.text\S*)\s+0x([0-9a-f]+)\s+0x([0-9a-f]+) (\S+)$", text, re.M)
    return sorted((int(at, 16), int(size, 16), name, origin) for name, at, size, origin in found if int(size, 16))


def main():
    code = sections()
    starts = [s[0] for s in code]
    used = set()
    for at in executed():
        i = bisect.bisect_right(starts, at) - 1
        if i >= 0 and at < code[i][0] + code[i][1]:
            used.add(code[i][2:])
    lines = set()
    for section, origin in used:
        m = re.match(r".*/(\w+\.a)\((.*)\)$", origin)
        if m and m[1] in LIBRARIES:
            lines.add(f"    *{m[1]}:{m[2]}({section})\n")
    if not lines:
        sys.exit(f"nothing found: is {MAP} of this build?")
    with open(OUT, "w") as f:
        f.write(HEAD + "".join(sorted(lines)) + TAIL)
    print(f"wrote cmake/startup.ld: {len(lines)} members")


if __name__ == "__main__":
    main()
