#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rules of the tree that a program can check. check.py [RULE...]; without names: all of them.

A line of C is exempt from the banned-calls rule when it carries `/* allowed: reason */`; an exemption
that is not needed fails too. Files over 1500 lines and functions over 100 need a line in
tools/size-exceptions.txt: `path reason` or `path:function reason`; a line no longer needed fails.
"""
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
os.chdir(ROOT)
FAULTS = []


def fault(where, what):
    FAULTS.append(f"{where}: {what}")


def tracked(*globs):
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *globs], capture_output=True, text=True, check=True)
    return [p for p in out.stdout.splitlines() if os.path.exists(p)]


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


C_FILES = [p for p in tracked("*.c", "*.h") if "/gen/" not in p]
BLANK = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def code_only(text):
    """Comments and literals blanked, lines kept."""
    return BLANK.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


# ---- who includes whom

def read_layers():
    layers = {}
    for n, line in enumerate(read("src/layers.txt").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, rest = (s.strip() for s in line.partition(":"))
        for dep in rest.split():
            if dep not in layers:
                fault(f"src/layers.txt:{n}", f"'{dep}' does not stand above '{name}'")
        layers[name] = set(rest.split()) | {name}
    return layers


ONLY_IN = [  # header, where it may appear
    (r"<uv\.h>", ("src/loop/", "src/net/")),
    (r"<sqlite3\.h>", ("src/store/", "src/host/")),
    (r"<openssl/", ("src/net/tls", "src/base/hash.c", "src/egress/", "tests/")),
    (r"<pcre2\.h>", ("src/ops/regex", "src/ops/search", "tests/fuzz/")),
    (r"<llhttp", ("src/wire/http1",)),
    (r"<(sys/|unistd|fcntl|dirent|signal|pthread|poll|netinet/|arpa/|netdb|sched|spawn|termios|pwd|linux/)",
     ("src/plat/", "src/sandbox/", "src/egress/", "tests/", "bench/", "examples/")),
]


def module_of(path):
    parts = path.split("/")
    if parts[0] == "src" and len(parts) > 2:
        return parts[1]
    return "/".join(parts[:2]) if parts[0] == "cmd" else None


def check_layers():
    layers = read_layers()
    for path in C_FILES + [p for p in tracked("src/*/gen/*")]:
        module = module_of(path)
        text = read(path) if path.endswith((".c", ".h")) else ""
        for n, line in enumerate(text.splitlines(), 1):
            m = re.match(r'\s*#\s*include\s+(["<][^">]+[">])', line)
            if not m:
                continue
            what = m.group(1)
            for pattern, places in ONLY_IN:
                if re.match(pattern, what) and not path.startswith(places):
                    fault(f"{path}:{n}", f"{what} belongs into {', '.join(places)}")
            if module is None or not what.startswith('"'):
                continue
            target = what.strip('"').split("/")
            if len(target) < 2 or not os.path.isdir("src/" + target[0]):
                continue
            if module not in layers:
                fault(path, f"module '{module}' is not in src/layers.txt")
            elif target[0] not in layers[module]:
                fault(f"{path}:{n}", f"'{module}' may not include '{target[0]}' (src/layers.txt)")
            elif target[0] != module and target[-1].endswith("_int.h"):
                fault(f"{path}:{n}", f"{what} is private to '{target[0]}'")


# ---- sizes

FUNCTION = re.compile(r"^[A-Za-z_][^;{}()#=]*?\b([a-z_][a-z0-9_]*)\([^;{}]*\)\s*\n\{\n(.*?)^\}", re.M | re.S)


def check_sizes():
    allowed = {}
    for line in read("tools/size-exceptions.txt").splitlines():
        if line.strip() and not line.startswith("#"):
            key, _, reason = line.partition(" ")
            allowed[key] = reason.strip()
            if not reason.strip():
                fault("tools/size-exceptions.txt", f"{key} has no reason")
    used = set()
    for path in C_FILES:
        text = read(path)
        if text.count("\n") > 1500:
            used.add(path)
            if path not in allowed:
                fault(path, f"{text.count(chr(10))} lines (1500)")
        for m in FUNCTION.finditer(text):
            if m.group(2).count("\n") > 100:
                key = f"{path}:{m.group(1)}"
                used.add(key)
                if key not in allowed:
                    fault(key, f"function of {m.group(2).count(chr(10))} lines (100)")
    for key in set(allowed) - used:
        fault("tools/size-exceptions.txt", f"{key} is no longer needed")


# ---- banned calls

BANNED = re.compile(r"\b(strcpy|strcat|strncpy|sprintf|vsprintf|gets|strtok|atoi|atol|strtol|strtoul|strtoll|strtoull|"
                    r"gmtime|localtime|system|popen|mktemp|alloca)\s*\(")
RAW = [  # calls that only their wrapper's place may make
    (re.compile(r"(?<![\w.>])(malloc|calloc|realloc|free|strdup)\s*\("), ("src/base/mem.c", "tests/", "bench/", "examples/")),
    (re.compile(r"(?<![\w.>])(open|openat|close|read|write|pread|pwrite|fork|vfork|execve|waitpid|socket|connect|accept|"
                r"listen|bind|clock_gettime|gettimeofday|time|kill|getenv|unlink|rename|mkdir|rmdir|stat|lstat|fstat)\s*\("),
     ("src/plat/", "src/sandbox/", "src/egress/", "tests/", "bench/", "examples/")),
]
PLATFORM = re.compile(r"\b(_WIN32|__APPLE__|__linux__)\b")
PLATFORM_IN = ("src/base/compiler.h", "src/plat/", "src/sandbox/", "src/egress/", "include/telechir/base.h", "tests/", "bench/")


def check_banned():
    for path in C_FILES:
        text = read(path)
        lines = text.splitlines()
        for n, line in enumerate(code_only(text).splitlines(), 1):
            exempt = "/* allowed:" in lines[n - 1]
            hit = None
            if (m := BANNED.search(line)):
                hit = f"{m.group(1)} is banned"
            for pattern, places in RAW:
                m = pattern.search(line)
                declared = m and re.match(r"\s*(static |int |void |bool |size_t |TC_|tci_|struct )", line) and line.rstrip().endswith(("{", ";", ",")) \
                    and re.search(r"\b(int|void|bool)\s+\**" + m.group(1) + r"\s*\(", line)
                if m and not declared and not path.startswith(places) and not defined_here(text, m.group(1)):
                    hit = f"{m.group(1)} may be called in {', '.join(places)} only"
            if PLATFORM.search(line) and not path.startswith(PLATFORM_IN):
                hit = f"{PLATFORM.search(line).group(1)} may not be tested here"
            if hit and not exempt:
                fault(f"{path}:{n}", hit)
            if exempt and not hit:
                fault(f"{path}:{n}", "exemption is not needed")
        if path.endswith((".c", ".h")) and path.startswith(("src/", "cmd/", "include/")) and "SPDX-License-Identifier: Apache-2.0" not in text[:200]:
            fault(path, "no licence line")


def defined_here(text, name):
    return re.search(r"^static [^;\n]*\b" + name + r"\(", text, re.M) is not None


def check_todo():
    for path in tracked("*.c", "*.h", "*.py", "*.md", "*.json", "dev", "*.sh", "*.txt"):
        for n, line in enumerate(read(path).splitlines(), 1):
            if re.search(r"\b(TODO|FIXME|XXX)\b(?!\(#\d+\))", line) and path not in ("tools/check.py",):
                fault(f"{path}:{n}", "a TODO carries an issue number: TODO(#12)")


# ---- headers

FLAGS = ["-D_GNU_SOURCE", "-Isrc", "-Iinclude", '-DTC_VERSION="0"', "-fsyntax-only", "-Wall", "-Wextra", "-Werror"]


def compile_alone(command):
    done = subprocess.run(command, capture_output=True, text=True)
    return None if done.returncode == 0 else done.stderr.splitlines()[0] if done.stderr else "does not compile"


def check_headers():
    jobs = []
    for path in tracked("src/*.h", "include/*.h"):
        jobs.append((path, "alone", ["cc", "-std=c17", "-Wno-unused-function", *FLAGS, "-x", "c", path]))
        if path.startswith("include/"):
            jobs.append((path, "as C99", ["cc", "-std=c99", "-pedantic", *FLAGS, "-x", "c", path]))
            jobs.append((path, "as C++", ["c++", "-std=c++11", *FLAGS, "-x", "c++", path]))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for (path, how, _), answer in zip(jobs, pool.map(lambda j: compile_alone(j[2]), jobs)):
            if answer:
                fault(path, f"does not compile {how}: {answer}")


def check_exports():
    library = "build/dev/lib/libtelechir.so"
    if not os.path.exists(library):
        candidates = [os.path.join(d, f) for d, _, fs in os.walk("build/dev") for f in fs if f == "libtelechir.so"]
        if not candidates:
            fault(library, "is not built (./dev build)")
            return
        library = candidates[0]
    out = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    exported = {l.split()[-1] for l in out.splitlines() if l.split()[-2] in "TDBR"}
    declared = set()
    for path in tracked("include/telechir/*.h"):
        declared |= set(re.findall(r"\bTC_API\b[^;]*?\b(tc_[a-z0-9_]+)\s*\(", code_only(read(path))))
    for name in sorted(exported - declared):
        fault(library, f"exports {name}, which no public header declares")
    for name in sorted(declared - exported):
        fault("include/telechir", f"declares {name}, which {library} does not export")


# ---- formats and generated files

def check_format():
    done = subprocess.run(["clang-format", "--dry-run", "-Werror", *C_FILES], capture_output=True, text=True)
    for line in sorted({l.split(":")[0] for l in done.stderr.splitlines() if "error:" in l}):
        fault(line, "is not laid out by .clang-format (./dev fmt)")


def check_generated():
    done = subprocess.run([sys.executable, "tools/gen.py", "--check"], capture_output=True, text=True)
    if done.returncode != 0:
        fault("generated files", (done.stdout + done.stderr).strip() + " (./dev gen)")


def check_documents():
    """File names in backquotes exist, and commands are ones that ./dev and telechir know."""
    commands = set(re.findall(r"^  ([a-z]+)\b", read("dev").split("cat <<'END'")[1].split("END")[0], re.M))
    for path in tracked("*.md"):
        text = read(path)
        for name in re.findall(r"`((?:src|include|tests|tools|docs|protocol|cmd|bench|examples)/[A-Za-z0-9_./-]+)`", text):
            if not os.path.exists(name.rstrip("/")):
                fault(path, f"names {name}, which does not exist")
        for word in re.findall(r"\./dev ([a-z]+)", text):
            if word not in commands:
                fault(path, f"names ./dev {word}, which does not exist")


RULES = {"layers": check_layers, "sizes": check_sizes, "banned": check_banned, "todo": check_todo, "headers": check_headers,
         "exports": check_exports, "format": check_format, "generated": check_generated, "documents": check_documents}


def main():
    names = sys.argv[1:] or list(RULES)
    for name in names:
        if name not in RULES:
            print(f"no rule '{name}'; there are: {', '.join(RULES)}", file=sys.stderr)
            return 2
        before = len(FAULTS)
        RULES[name]()
        print(f"{name}: {'ok' if len(FAULTS) == before else f'{len(FAULTS) - before} faults'}")
    for line in FAULTS:
        print("  " + line)
    return 1 if FAULTS else 0


if __name__ == "__main__":
    sys.exit(main())
