#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Telechir over SSH beside OpenSSH's own programs, on loopback, in one run.

    bench/bench_ssh.py --bin build/release/bin               # a few minutes
    bench/bench_ssh.py --bin build/release/bin --quick       # half a minute, no verdict

Starts an sshd of its own (own keys, loopback, a temporary folder). Both sides use the same key and the same
server, each with the cipher it prefers of those that both ends have, and take turns in every repetition; values are medians, ratios are medians of the
pairs' ratios. What was copied is compared byte for byte, so that an answer that came too early earns nothing.

rows
  first   one command to a known host, from nothing: `telechir exec` against `ssh host true`
  exec    a command over a link that is open: the library against `ssh` with ControlMaster
  small   a tree of small files, up and down: `telechir cp` against `sftp` put -r and get -r
  large   one large file, up and down
"""
import argparse
import filecmp
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20


def run(argv, **kw):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, **kw)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(argv)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def timed(argv, **kw):
    t = time.perf_counter()
    run(argv, **kw)
    return time.perf_counter() - t


class Server:
    """An sshd of our own for the user who runs this."""

    def __init__(self, work):
        self.dir = os.path.join(work, "ssh")
        os.mkdir(self.dir, 0o700)
        for name in ("host", "user"):
            run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.path(name)])
        shutil.copy(self.path("user.pub"), self.path("authorized"))
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        sftp = next(p for p in ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server",
                                "/usr/lib/ssh/sftp-server") if os.path.exists(p))
        self.write("sshd_config", f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.path('host')}\n"
                   f"AuthorizedKeysFile {self.path('authorized')}\nPasswordAuthentication no\nUsePAM no\n"
                   f"StrictModes no\nPidFile {self.path('pid')}\nSubsystem sftp {sftp}\nMaxStartups 100\n"
                   # Login files of whoever runs this would be measured on both sides.
                   f"SetEnv HOME={self.path('home')}\n")
        with open(self.path("host.pub"), encoding="utf-8") as f:
            key = " ".join(f.read().split()[:2])
        self.write("known", f"bench {key}\n")
        self.write("config", f"Host bench\n  HostName 127.0.0.1\n  Port {self.port}\n  IdentityFile {self.path('user')}\n"
                   f"  IdentitiesOnly yes\n  HostKeyAlias bench\n  UserKnownHostsFile {self.path('known')}\n"
                   f"  GlobalKnownHostsFile none\n  StrictHostKeyChecking yes\n  BatchMode yes\n")
        os.mkdir(self.path("home"))
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
        sshd = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
        if sshd is None:
            raise SystemExit("no sshd: install openssh-server")
        self.log = open(self.path("log"), "wb")
        self.child = subprocess.Popen([sshd, "-D", "-e", "-f", self.path("sshd_config")], stderr=self.log,
                                      stdin=subprocess.DEVNULL)
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                break
            except OSError:
                if self.child.poll() is not None:
                    raise SystemExit(open(self.path("log"), encoding="utf-8").read())
                time.sleep(0.02)

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(self.path(name), 0o600)

    def ssh(self, *args):
        return ["ssh", "-F", self.path("config"), *args]

    def sftp(self, batch):
        self.write("batch", batch)
        return ["sftp", "-q", "-F", self.path("config"), "-b", self.path("batch"), "bench"]

    def close(self):
        self.child.terminate()
        self.child.wait()
        self.log.close()


class Bench:
    def __init__(self, args, work):
        self.args, self.work, self.rows = args, work, []
        self.server = Server(work)
        self.env = {**os.environ, "XDG_CONFIG_HOME": os.path.join(work, "config"), "TELECHIR_DAEMONS": args.daemons}
        self.telechir = os.path.join(args.bin, "telechir")
        self.target = f"ssh:127.0.0.1:{self.server.port}"
        self.options = ["--identity", self.server.path("user")]
        fingerprint = run(["ssh-keygen", "-lf", self.server.path("host.pub")]).split()[1]
        run([self.telechir, "trust", f"127.0.0.1:{self.server.port}", "--fingerprint", fingerprint, *self.options],
            env=self.env)
        run([self.telechir, "target", "add", "bench", self.target, *self.options], env=self.env)
        run(self.ours("exec", "--", "true"), env=self.env)  # the daemon is in place from here on

    def ours(self, command, *rest):
        return [self.telechir, command, "--on", "bench", *rest]

    def row(self, name, unit, theirs, ours, aim, factor=1.0, more_is_better=True):
        """Each is a list of seconds, one a pair."""
        ratios = [t / o for t, o in zip(theirs, ours)]
        ratio = statistics.median(ratios)
        shown = [f(statistics.median(x)) for x in (theirs, ours) for f in ([lambda s: factor / s] if more_is_better
                                                                           else [lambda s: s * factor])]
        self.rows.append({"row": name, "unit": unit, "openssh": shown[0], "telechir": shown[1], "ratio": ratio,
                          "aim": aim, "pairs": len(ratios)})
        print(f"{name:34} {shown[0]:10.1f} {shown[1]:10.1f} {unit:8} {ratio:6.2f}x   aim {aim}", flush=True)

    def pairs(self, n, theirs, ours):
        a, b = [], []
        for i in range(n):
            for out, what in ((a, theirs), (b, ours)) if i % 2 == 0 else ((b, ours), (a, theirs)):
                out.append(what())
        return a, b

    def first(self):
        n = 5 if self.args.quick else 25
        t, o = self.pairs(n, lambda: timed(self.server.ssh("bench", "true")),
                          lambda: timed(self.ours("exec", "--", "true"), env=self.env))
        self.row("first command, daemon in place", "ms", t, o, ">= 0.77x (1.3x of ssh)", 1000, False)

    def exec(self):
        n = 20 if self.args.quick else 200
        control = self.server.path("ctl")
        master = subprocess.Popen(self.server.ssh("-N", "-o", "ControlMaster=yes", "-o", f"ControlPath={control}", "bench"),
                                  stdin=subprocess.DEVNULL)
        while not os.path.exists(control):
            time.sleep(0.02)
        loop = subprocess.Popen([os.path.join(self.args.bin, "bench_ssh_exec"), "127.0.0.1", str(self.server.port),
                                 self.server.path("user"), os.path.join(self.work, "config/telechir/known_hosts"), self.args.daemons],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.env)
        try:
            def one():
                loop.stdin.write("1\n")
                loop.stdin.flush()
                return float(loop.stdout.readline())
            one()
            t, o = self.pairs(n, lambda: timed(self.server.ssh("-o", f"ControlPath={control}", "bench", "true")), one)
            self.row("exec over the open link", "ms", t, o, ">= 8x", 1000, False)
        finally:
            loop.stdin.close()
            loop.wait()
            master.terminate()
            master.wait()

    def tree(self, count, size):
        src = os.path.join(self.work, "src")
        shutil.rmtree(src, ignore_errors=True)
        for i in range(count):
            folder = os.path.join(src, f"d{i % 30:02}")
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, f"f{i:05}"), "wb") as f:
                f.write(os.urandom(size))
        return src

    def copies(self, name, src, aim, n, factor, unit):
        """Up and down; destinations are made anew each time."""
        dst = os.path.join(self.work, "dst")
        is_tree = os.path.isdir(src)

        def fresh():
            shutil.rmtree(dst, ignore_errors=True)
            os.mkdir(dst)
            os.sync()

        def check(seconds):
            got = os.path.join(dst, os.path.basename(src))
            if is_tree:
                for folder, _, files in os.walk(src):
                    for f in files:
                        a = os.path.join(folder, f)
                        if not filecmp.cmp(a, os.path.join(got, os.path.relpath(a, src)), False):
                            raise SystemExit(f"{a}: copied wrong")
            elif not filecmp.cmp(src, got, False):
                raise SystemExit("copied wrong")
            return seconds

        def theirs(batch):
            fresh()
            return check(timed(self.server.sftp(batch)))

        def ours(*places):
            fresh()
            return check(timed([self.telechir, "cp", "--quiet", *r.split(), *places], env=self.env))

        r = "-r " if is_tree else ""
        for way, batch, places in (
                ("up", f"put {r}{src} {dst}/\n", (src, f"bench:{dst}/")),
                ("down", f"get {r}{src} {dst}/\n", (f"bench:{src}", dst + "/"))):
            t, o = self.pairs(n, lambda b=batch: theirs(b), lambda p=places: ours(*p))
            self.row(f"{name}, {way}", unit, t, o, aim, factor)

    def small(self):
        count = 300 if self.args.quick else 3000
        self.copies(f"{count} files of 4 KiB", self.tree(count, 4096), ">= 3x", 2 if self.args.quick else 7, count, "files/s")

    def large(self):
        size = (16 if self.args.quick else 512) * MIB
        src = os.path.join(self.work, "large")
        with open(src, "wb") as f:
            for _ in range(size // MIB):
                f.write(os.urandom(MIB))
        self.copies(f"one file of {size // MIB} MiB", src, ">= 1.25x", 2 if self.args.quick else 7, size / MIB, "MiB/s")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", required=True, help="folder of telechir, telechird and bench_ssh_exec")
    p.add_argument("--daemons", help="what is deployed: a folder of ./dev release, or a telechird (default: "
                   "build/release-out when it is there, else the telechird in --bin)")
    p.add_argument("--only", default="first,exec,small,large", help="rows, comma separated")
    p.add_argument("--work", help="folder for the files (default: a temporary one in /dev/shm)")
    p.add_argument("--quick", action="store_true")
    p.add_argument("--json", help="write the rows there")
    args = p.parse_args()
    args.bin = os.path.abspath(args.bin)
    released = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build/release-out")
    args.daemons = os.path.abspath(args.daemons) if args.daemons else released \
        if os.path.exists(os.path.join(released, "MANIFEST.json")) else os.path.join(args.bin, "telechird")
    print(f"deployed: {args.daemons}", flush=True)
    base = args.work or ("/dev/shm" if os.path.isdir("/dev/shm") else None)
    work = tempfile.mkdtemp(prefix="bench_ssh.", dir=base)
    bench = None
    try:
        bench = Bench(args, work)
        print(f"{'':34} {'OpenSSH':>10} {'Telechir':>10} {'':8} {'better':>6}", flush=True)
        for name in args.only.split(","):
            getattr(bench, name)()
        if args.json:
            with open(args.json, "w", encoding="utf-8") as f:
                json.dump(bench.rows, f, indent=1)
    finally:
        if bench is not None:
            bench.server.close()
        shutil.rmtree(work, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
