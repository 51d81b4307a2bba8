#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The released programs: what the manifest says is there and is true, each file is static and small enough and shows
nothing of where it was built, and each program does its work: on this machine's processor as it is, on the other one's
under qemu-user. test_release.py FOLDER"""
import base64
import contextlib
import hashlib
import http.server
import json
import os
import pathlib
import platform
import shutil
import sqlite3
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = pathlib.Path(sys.argv[1]).resolve()
LIMIT = 120
MIB = 1 << 20
SIZE_MAX = {("telechird", False): 1 * MIB, ("telechird", True): 6 * MIB, ("telechir", True): 8 * MIB}
MACHINE = {"x86_64": 62, "aarch64": 183}  # e_machine of ELF
PT_INTERP = 3


class Skipped(Exception):
    pass


def command(entry):
    """How to run the program here."""
    path = str(OUT / entry["name"])
    if platform.machine() == entry["arch"]:
        return [path]
    for name in (f"qemu-{entry['arch']}-static", f"qemu-{entry['arch']}"):
        if shutil.which(name):
            return [name, path]
    raise Skipped(f"no qemu-{entry['arch']} to run {entry['name']} with")


class Daemon:
    """telechird on standard input and output, with an own home."""

    def __init__(self, entry, **more):
        self.place = tempfile.TemporaryDirectory()
        env = {"PATH": os.environ["PATH"], "HOME": self.place.name, "XDG_STATE_HOME": self.place.name,
               "TELECHIRD_FULL_CONTROL": "true"} | more
        self.process = subprocess.Popen(command(entry), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env,
                                        cwd=self.place.name, stderr=subprocess.PIPE)
        self.next_id = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()
        self.place.cleanup()

    def call(self, method, params, session=None):
        self.next_id += 1
        message = {"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params}
        if session:
            message["eip_session"] = session
        body = json.dumps(message).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()
        length = None
        while (line := self.process.stdout.readline()) != b"\r\n":
            assert line, self.process.stderr.read()
            name, value = line.split(b":", 1)
            if name.lower() == b"content-length":
                length = int(value)
        answer = json.loads(self.process.stdout.read(length))
        assert answer["id"] == self.next_id, answer
        return answer

    def result(self, *arguments):
        answer = self.call(*arguments)
        assert "result" in answer, answer
        return answer["result"]

    def open(self):
        d = self.result("initialize", {"supported_protocol_versions": ["0.3"],
                                       "client": {"name": "release", "version": "1"}})["descriptor"]
        session = self.result("session.open", {
            "expected_device_id": d["device_id"], "expected_generation": d["generation"], "protocol_version": "0.3",
            "working_directory": self.place.name, "required_methods": ["environment.describe", "shell.exec"]})["descriptor"]["session_id"]
        self.result("environment.readiness", {"context": {"operation_id": "ready"}}, session)
        return session

    def shell(self, session, script, n=[0]):
        n[0] += 1
        return self.result("shell.exec", {"context": {"operation_id": f"op-{n[0]}"}, "request": {
            "command": {"kind": "shell", "profile_id": "default", "script": script}}}, session)


class Model(http.server.BaseHTTPRequestHandler):
    """Answers every question with one sentence, as a stream of events."""
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        delta = {"choices": [{"index": 0, "delta": {"content": "all is well"}, "finish_reason": None}]}
        end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        body = "".join(f"data: {json.dumps(e)}\n\n" for e in (delta, end)) + "data: [DONE]\n\n"
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        pass  # clients that do not trust it


@contextlib.contextmanager
def model_over_tls(place):
    """Its address and the file with its certificate, which signed itself."""
    cert, key = f"{place}/cert.pem", f"{place}/key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
                    "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out",
                    cert], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    server = Server(("127.0.0.1", 0), Model)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"https://localhost:{server.server_port}/v1", cert
    finally:
        server.shutdown()
        server.server_close()


def manifest():
    return json.loads((OUT / "MANIFEST.json").read_text())


def daemons():
    return [e for e in manifest()["files"] if e["kind"] == "telechird"]


def preview(output):
    data = output["preview"]["data"]
    return base64.urlsafe_b64decode(data + "=" * (-len(data) % 4))


# ---- the tests ----

def test_manifest_is_true_and_in_its_one_form():
    m = manifest()
    lines = ",\n".join(json.dumps(e, separators=(",", ":")) for e in m["files"])
    assert (OUT / "MANIFEST.json").read_text() == f'{{"version":"{m["version"]}","files":[\n{lines}\n]}}\n'
    names = [e["name"] for e in m["files"]]
    assert names == sorted(names) and names
    assert {p.name for p in OUT.iterdir()} == {*names, "MANIFEST.json", "SHA256SUMS"}
    for e in m["files"]:
        assert list(e) == ["name", "os", "arch", "kind", "tls", "size", "sha256"]
        content = (OUT / e["name"]).read_bytes()
        assert len(content) == e["size"] and hashlib.sha256(content).hexdigest() == e["sha256"], e
        assert os.access(OUT / e["name"], os.X_OK)
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=OUT, check=True)


def test_sizes_are_within_their_limits():
    for e in manifest()["files"]:
        limit = SIZE_MAX[e["kind"], e["tls"]]
        assert e["size"] <= limit, f"{e['name']} has {e['size']} bytes, {e['size'] - limit} too many"


def test_programs_are_static_stripped_and_for_their_processor():
    for e in manifest()["files"]:
        b = (OUT / e["name"]).read_bytes()
        assert b[:6] == b"\x7fELF\x02\x01", e["name"]
        assert int.from_bytes(b[18:20], "little") == MACHINE[e["arch"]], e["name"]
        at, size, count = (int.from_bytes(b[i:j], "little") for i, j in ((32, 40), (54, 56), (56, 58)))
        kinds = [int.from_bytes(b[at + i * size:at + i * size + 4], "little") for i in range(count)]
        assert PT_INTERP not in kinds, f"{e['name']} asks for a loader"
        assert b"\0.symtab\0" not in b and b"\0.debug_info\0" not in b, f"{e['name']} is not stripped"


def test_no_trace_of_the_machine_that_built_them():
    for e in manifest()["files"]:
        b = (OUT / e["name"]).read_bytes()
        for trace in (ROOT, pathlib.Path.home() / ".cargo", tempfile.gettempdir() + "/bash"):
            assert str(trace).encode() not in b, f"{e['name']} holds the path {trace}"


def test_every_program_says_its_version():
    for e in manifest()["files"]:
        done = subprocess.run([*command(e), "--version"], capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0 and done.stdout == f"{e['kind']} {manifest()['version']}\n", (e["name"], done)


def test_every_daemon_answers_initialize():
    for e in daemons():
        with Daemon(e) as d:
            r = d.result("initialize", {"supported_protocol_versions": ["0.3"],
                                        "client": {"name": "release", "version": "1"}})
            assert "shell.exec" in r["descriptor"]["available_methods"], r


def test_every_daemon_runs_commands_and_says_why_one_cannot_start():
    for e in daemons():
        with Daemon(e) as d:
            s = d.open()
            r = d.shell(s, "echo out; exec sh -c 'exit 3'")
            assert preview(r["output"]["stdout"]) == b"out\n" and r["status"]["exit_code"] == 3, r
            bad = pathlib.Path(d.place.name) / "bad"
            bad.write_text("#!/no/such/interpreter\n")
            bad.chmod(0o755)
            a = d.call("shell.exec", {"context": {"operation_id": "bad"}, "request": {
                "command": {"kind": "argv", "executable_spec": {"kind": "path", "path": {"path": str(bad)}},
                            "arguments": []}}}, s)
            assert a["error"]["data"]["error_type"] == "not_found_or_denied", a


def test_every_daemon_hashes_and_searches():
    for e in daemons():
        with Daemon(e) as d:
            s = d.open()
            path = pathlib.Path(d.place.name) / "text"
            path.write_text("".join(f"line {i} of many\n" for i in range(5000)) + "Straße 12\n")
            r = d.result("file.search", {"context": {"operation_id": "s"}, "root": {"path": d.place.name},
                                         "query": "stra(ß|ss)e \\d+$", "mode": "regex", "case_sensitive": False, "max_results": 9,
                                         "max_line_length": 200}, s)
            assert len(r["matches"]) == 1, r


def test_every_daemon_serves_pi_env():
    for e in daemons():
        with tempfile.TemporaryDirectory() as place:
            env = {"PATH": os.environ["PATH"], "HOME": place}
            requests = (("hello", {"protocol": 1}), ("exec", {"command": "echo over; exit 5", "cwd": place}))
            p = subprocess.Popen([*command(e), "serve", "--token", "5eed"], stdin=subprocess.PIPE, env=env,
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            assert p.stdout.readline() == b"PI-ENV 5eed\n"
            results = {}
            for i, (op, params) in enumerate(requests, 1):
                body = json.dumps({"op": op, **params}).encode()
                p.stdin.write(struct.pack(">IBII", 9 + len(body), 1, i, len(body)) + body)
                p.stdin.flush()
                while i not in results:
                    length, kind, request, size = struct.unpack(">IBII", p.stdout.read(13))
                    rest = p.stdout.read(length - 9)
                    assert kind != 3, rest
                    if kind == 2:
                        results[request] = json.loads(rest[:size])
            p.stdin.close()
            p.stdout.read()
            assert p.wait(LIMIT) == 0
            assert results[1]["arch"] == e["arch"] and results[2]["exitCode"] == 5, results


def test_https_is_refused_by_name_where_there_is_no_tls():
    for e in daemons():
        if e["tls"]:
            continue
        with tempfile.TemporaryDirectory() as place:
            credential = pathlib.Path(place) / "credential"
            credential.write_text("k" * 40)
            credential.chmod(0o600)
            for name in ("cert.pem", "key.pem"):
                (pathlib.Path(place) / name).touch(0o600)
            env = {"PATH": os.environ["PATH"], "HOME": place, "XDG_STATE_HOME": place, "TELECHIRD_TRANSPORT": "http",
                   "TELECHIRD_HTTP_BIND": "127.0.0.1:0", "TELECHIRD_HTTP_CREDENTIAL_FILE": str(credential),
                   "TELECHIRD_HTTP_TLS_CERT_FILE": f"{place}/cert.pem",
                   "TELECHIRD_HTTP_TLS_KEY_FILE": f"{place}/key.pem"}
            done = subprocess.run(command(e), env=env, capture_output=True, text=True, timeout=LIMIT)
            assert done.returncode != 0 and "no TLS" in done.stderr, done


def test_every_command_asks_a_model_over_tls_and_keeps_the_session():
    if shutil.which("openssl") is None:
        raise Skipped("no openssl to make a certificate with")
    here = [e for e in daemons() if e["arch"] == platform.machine()]
    if not here:
        raise Skipped("no daemon was built for this processor")
    for e in manifest()["files"]:
        if e["kind"] != "telechir":
            continue
        with tempfile.TemporaryDirectory() as place, model_over_tls(place) as (url, cert):
            env = {"PATH": os.environ["PATH"], "HOME": place, "OPENAI_API_KEY": "k",
                   "TELECHIRD_EXECUTABLE": str(OUT / here[0]["name"])}

            def run(name, *options, **more):
                return subprocess.run([*command(e), "run", "--session", f"{place}/{name}.sqlite", "-m", "openai/m",
                                       "--base-url", url, *options, "how is it?"], env=env | more, cwd=place,
                                      capture_output=True, text=True, timeout=LIMIT)
            for done in (run("option", "--model-ca-file", cert), run("variable", SSL_CERT_FILE=cert)):
                assert (done.returncode, done.stdout.strip()) == (0, "all is well"), (e["name"], done)
            done = run("stranger")
            assert done.returncode == 1 and "certificate" in done.stderr.lower(), (e["name"], done)
            with contextlib.closing(sqlite3.connect(f"{place}/option.sqlite")) as db:
                assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
                texts = [row[0] for row in db.execute("select record from entries order by id")]
                assert any("how is it?" in t for t in texts) and any("all is well" in t for t in texts), texts
            done = subprocess.run([*command(e), "sessions", "check", f"{place}/option.sqlite"], env=env,
                                  capture_output=True, text=True, timeout=LIMIT)
            assert done.returncode == 0, (e["name"], done)


def test_the_command_drives_the_daemon_beside_it():
    here = [e for e in manifest()["files"] if e["arch"] == platform.machine()]
    if {e["kind"] for e in here} != {"telechird", "telechir"}:
        raise Skipped("telechir and telechird were not both built for this processor")
    with tempfile.TemporaryDirectory() as place:
        for e in sorted(here, key=lambda e: e["tls"], reverse=True):  # the daemon without TLS comes last and stays
            shutil.copy(OUT / e["name"], pathlib.Path(place) / e["kind"])
        env = {"PATH": os.environ["PATH"], "HOME": place, "XDG_CONFIG_HOME": place, "XDG_STATE_HOME": place}
        done = subprocess.run([f"{place}/telechir", "exec", "--", "sh", "-c", "echo here; exit 4"], env=env,
                              cwd=place, capture_output=True, text=True, timeout=LIMIT)
        assert (done.returncode, done.stdout) == (4, "here\n"), done


def main():
    if not (OUT / "MANIFEST.json").exists():
        print("skipped: no released programs here; ./dev release builds them")
        sys.exit(77)
    passed, failed, skipped = 0, 0, 0
    for name, test in list(globals().items()):
        if not name.startswith("test_"):
            continue
        try:
            test()
            passed += 1
        except Skipped as why:
            print(f"{name}: skipped: {why}")
            skipped += 1
        except Exception:
            print(f"{name}: FAILED\n{traceback.format_exc()}")
            failed += 1
    print(f"release: {passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
