#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Build the programs of a release into build/release-out: release.py [--check] [--jobs N] [NAME...]

Static programs for Linux on x86-64 and arm64, cross compiled with zig from the sources that third_party/ pins by hash
(docs/releases.md). NAME picks files of the output by prefix, telechird-linux for instance; default: all. --check builds
a second time from nothing in another folder and compares every byte. At the end the built programs are tested. What is
there already is not fetched or built again."""
import argparse
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
PINS = ROOT / "third_party"
VENDOR = BUILD / "third_party/vendor"
ZIG = BUILD / "tools/zig"  # a link to the folder of the package that pip installed
OUT = BUILD / "release-out"
CHECK = BUILD / "release-check"
EPOCH = "1704067200"  # for whoever would write the time of the build into it

ARCHES = ("x86_64", "aarch64")
# What a file of the output is: kind, TLS, preset without "-<arch>-linux-musl".
FILES = {
    "telechird-linux-": ("telechird", False, "release"),
    "telechird-tls-linux-": ("telechird", True, "release-tls"),
    "telechir-linux-": ("telechir", True, "release-tls"),
}
# TLS 1.2 and 1.3, X.509 and what they need; no code that is loaded at run time, no names of source files.
OPENSSL = """no-shared no-module no-dso no-tests no-apps no-docs no-legacy no-engine no-async no-filenames
  no-ssl3 no-weak-ssl-ciphers no-dtls no-sctp no-srtp no-quic no-comp no-srp no-psk no-cms no-cmp no-ts no-ct no-gost
  no-sm2 no-sm3 no-sm4 no-idea no-seed no-camellia no-aria no-bf no-cast no-rc2 no-rc4 no-rc5 no-md4 no-mdc2
  no-whirlpool no-siphash no-ml-dsa no-slh-dsa no-afalgeng no-ui-console
  --prefix=/usr --libdir=lib --openssldir=/etc/ssl -Os -ffunction-sections -fdata-sections
  -fno-asynchronous-unwind-tables -fno-unwind-tables -fstack-protector-strong""".split()


def die(text):
    sys.exit(f"release: {text}")


def say(text):
    print(f"\033[1m{text}\033[0m", file=sys.stderr, flush=True)


def environment(base):
    """Nothing of the caller's that could show in a program."""
    keep = ("PATH", "HOME", "TMPDIR", "USER", "CARGO_HOME", "RUSTUP_HOME", "TERM")
    env = {k: v for k, v in os.environ.items() if k in keep or k.lower().endswith("_proxy")}
    env["PATH"] = f"{ZIG}:{env['PATH']}"
    env["ZIG_GLOBAL_CACHE_DIR"] = env["ZIG_LOCAL_CACHE_DIR"] = str(base)
    return env | {"LC_ALL": "C", "TZ": "UTC", "SOURCE_DATE_EPOCH": EPOCH}


def run(*command, env=None, cwd=None, quiet=False):
    say("+ " + " ".join(map(str, command)))
    done = subprocess.run(list(map(str, command)), env=env, cwd=cwd, stdout=subprocess.PIPE if quiet else None,
                          stderr=subprocess.STDOUT if quiet else None, text=True)
    if done.returncode != 0:
        if quiet:
            sys.stderr.write(done.stdout[-4000:])
        die(f"{command[0]} ended with {done.returncode}")


def run_counted(what, command, env, cwd):
    """A long run that says one line for each file: how many so far, every few seconds; all of it on failure."""
    say("+ " + " ".join(map(str, command)))
    lines, ended = [], threading.Event()
    started = time.monotonic()

    def report():
        while not ended.wait(10):
            print(f"  {what}: {len(lines)} steps in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)

    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    with subprocess.Popen(list(map(str, command)), env=env, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace") as p:
        lines.extend(iter(p.stdout.readline, ""))
    ended.set()
    reporter.join()
    if p.returncode != 0:
        sys.stderr.writelines(lines[-40:])
        die(f"{what}: {command[0]} ended with {p.returncode}")


def is_done(stamp, key):
    return stamp.exists() and stamp.read_text() == key


def digest(*parts):
    return hashlib.sha256(b"\0".join(p if isinstance(p, bytes) else str(p).encode() for p in parts)).hexdigest()


# ---- tools and sources ----

def get_zig():
    pins = PINS / "zig.txt"
    stamp, key = BUILD / "tools/zig.stamp", digest(pins.read_bytes())
    if is_done(stamp, key) and (ZIG / "zig").exists():
        return
    venv = BUILD / "tools/zig-venv"
    shutil.rmtree(venv, ignore_errors=True)
    run(sys.executable, "-m", "venv", venv)
    run(venv / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "--only-binary", ":all:",
        "--no-deps", "-r", pins)
    found = list(venv.glob("lib/python*/site-packages/ziglang/zig"))
    if len(found) != 1:
        die("the package has no program zig")
    ZIG.unlink(missing_ok=True)
    ZIG.symlink_to(os.path.relpath(found[0].parent, ZIG.parent))
    stamp.write_text(key)


def pinned_sums():
    return dict(reversed(line.split()) for line in (PINS / "SHA256SUMS").read_text().splitlines())


def get_sources():
    """cargo fetches, checks against the lock file and unpacks; the lock file is checked against our list before that."""
    manifest = PINS / "Cargo.toml"
    stamp = VENDOR.parent / "vendor.stamp"
    key = digest(manifest.read_bytes(), (PINS / "SHA256SUMS").read_bytes())
    if is_done(stamp, key):
        return
    place = VENDOR.parent
    shutil.rmtree(place, ignore_errors=True)
    (place / "src").mkdir(parents=True)
    (place / "src/lib.rs").touch()
    shutil.copy(manifest, place)
    run("cargo", "generate-lockfile", "--quiet", cwd=place)
    locked = {f"{p['name']}-{p['version']}": p.get("checksum")
              for p in tomllib.loads((place / "Cargo.lock").read_text())["package"]}
    for crate, expected in pinned_sums().items():
        if locked.get(crate) != expected:
            die(f"{crate} should have the checksum {expected}, not {locked.get(crate)}")
    run("cargo", "vendor", "--quiet", "--locked", "vendor", cwd=place, quiet=True)
    for name in tomllib.loads(manifest.read_text())["dependencies"]:
        got = json.loads((VENDOR / name / ".cargo-checksum.json").read_text())["package"]
        if got not in pinned_sums().values():
            die(f"{name} was unpacked from {got}, which is not in third_party/SHA256SUMS")
    stamp.write_text(key)


def tools_key():
    return digest((BUILD / "tools/zig.stamp").read_bytes(), (VENDOR.parent / "vendor.stamp").read_bytes())


def openssl_key(options):
    """Of the compiler, its own sources and options: another library's new version does not build it again."""
    crate = next(checksum for name, checksum in pinned_sums().items() if name.startswith("openssl-src-"))
    return digest((BUILD / "tools/zig.stamp").read_bytes(), crate, *options)


# ---- building ----

def openssl(base, arch, jobs, env):
    source = VENDOR / "openssl-src/openssl"
    place = base / f"release-openssl-{arch}"
    options = [f"linux-{arch}", f"CC=zig cc -target {arch}-linux-musl", "AR=zig ar", "RANLIB=zig ranlib", *OPENSSL]
    stamp, key = place / "built.stamp", openssl_key(options)
    if not is_done(stamp, key):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        run("perl", source / "Configure", *options, env=env, cwd=place, quiet=True)
        run_counted(f"OpenSSL for {arch}", ["make", f"-j{jobs}", "build_libs"], env, place)
        # One include folder: the headers made for this target come before those of the source.
        made = place / "include"
        for header in (source / "include").rglob("*.h"):
            at = made / header.relative_to(source / "include")
            if not at.exists():
                at.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(header, at)
        stamp.write_text(key)
    return place


def programs(base, preset, arch, kinds, jobs, env):
    """Configure and build one tree; the programs' paths by kind."""
    place = base / f"{preset}-{arch}-linux-musl"
    stamp, key = place / "tools.stamp", tools_key()
    if not is_done(stamp, key):
        shutil.rmtree(place, ignore_errors=True)
    options = []
    if preset == "release-tls":
        options.append(f"-DTC_OPENSSL={openssl(base, arch, jobs, env)}")
    if not (place / "build.ninja").exists():
        run("cmake", "--preset", f"{preset}-{arch}-linux-musl", "-B", place, *options, env=env, cwd=ROOT, quiet=True)
        stamp.write_text(key)
    run("ninja", "-C", place, f"-j{jobs}", *kinds, env=env)
    return {kind: place / "bin" / kind for kind in kinds}


def build(base, names, jobs, cache):
    """name of the output -> path of the program."""
    env = environment(cache)
    found = {}
    for arch in ARCHES:
        for preset in ("release", "release-tls"):
            kinds = {FILES[stem][0]: stem + arch for stem in FILES
                     if FILES[stem][2] == preset and stem + arch in names}
            if kinds:
                paths = programs(base, preset, arch, sorted(kinds), jobs, env)
                found |= {kinds[kind]: path for kind, path in paths.items()}
    return found


# ---- the output ----

def version():
    return re.search(r"^project\(telechir VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]


def entry(path):
    stem, arch = re.fullmatch(r"(.*-)([^-]+)", path.name).groups()
    kind, tls, _ = FILES[stem]
    content = path.read_bytes()
    return {"name": path.name, "os": "linux", "arch": arch, "kind": kind, "tls": tls, "size": len(content),
            "sha256": hashlib.sha256(content).hexdigest()}


def replace(path, text):
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    os.replace(new, path)


def publish(found):
    """The folder holds what was built now and nothing else; the manifest comes last."""
    OUT.mkdir(parents=True, exist_ok=True)
    for old in OUT.iterdir():
        if old.name not in found:
            old.unlink()
    for name, path in found.items():
        new = OUT / (name + ".new")
        shutil.copy(path, new)
        new.chmod(0o755)
        os.replace(new, OUT / name)
    entries = [entry(OUT / name) for name in sorted(found)]
    lines = ",\n".join(json.dumps(e, separators=(",", ":")) for e in entries)
    replace(OUT / "SHA256SUMS", "".join(f"{e['sha256']}  {e['name']}\n" for e in entries))
    replace(OUT / "MANIFEST.json", f'{{"version":"{version()}","files":[\n{lines}\n]}}\n')
    for e in entries:
        print(f"{e['sha256']}  {e['size']:>8}  {e['name']}")


def compare(found, jobs):
    shutil.rmtree(CHECK, ignore_errors=True)
    again = build(CHECK, set(found), jobs, CHECK / "zig-cache")
    differing = [name for name in sorted(found) if (OUT / name).read_bytes() != again[name].read_bytes()]
    if differing:
        die("a second build gave other bytes: " + ", ".join(differing))
    print(f"a second build from nothing gave the same bytes: {len(found)} files")


def main():
    parser = argparse.ArgumentParser(prog="./dev release", description=__doc__.split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="build twice and compare")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("names", nargs="*", metavar="NAME", help="files to build, by prefix")
    options = parser.parse_args()
    every = [stem + arch for stem in FILES for arch in ARCHES]
    names = {n for n in every if not options.names or n.startswith(tuple(options.names))}
    if not names:
        die(f"no such file; there are {' '.join(every)}")
    os.nice(5)
    BUILD.mkdir(exist_ok=True)
    get_zig()
    get_sources()
    found = build(BUILD, names, options.jobs, BUILD / "tools/zig-cache")
    publish(found)
    if options.check:
        compare(found, options.jobs)
    run(sys.executable, ROOT / "tests/release/test_release.py", OUT)


if __name__ == "__main__":
    main()
