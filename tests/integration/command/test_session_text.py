#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Text of models, servers and tools on its way to people: harmless on a terminal, whole in a pipe, and told
once, whatever had to be asked for again. TELECHIR is the program; an argument picks tests by name."""

import http.server
import json
import sys
import threading

from models import ModelStub, Reply
from test_command import run_tests
from test_run import Terminal, call, events, of_type, script, turn

# What a terminal would obey, a mark that turns text around, NUL, half a character; and what people write.
HARD = "a\x1b[31mred\x07 \u202ertl \ud800 \x9b1m \x00nul\ttab\nh\u00e9llo \U0001f600"
SHOWN = "a?[31mred? ?rtl \ufffd ?1m ?nul\ttab\r\nh\u00e9llo \U0001f600\r\n"
PIPED = HARD.replace("\ud800", "\ufffd") + "\n"
BAD = set(map(chr, [*range(0x09), *range(0x0b, 0x0d), *range(0x0e, 0x20), *range(0x7f, 0xa0), 0x202e]))


def on_terminal(p, *words):
    t = Terminal(p, *words)
    t.status = t.end()
    return t


def assert_harmless(text):
    assert not BAD & set(text), [c for c in text if c in BAD] + [text]


def test_text_is_shown_on_a_terminal_and_whole_in_a_pipe(p):
    model = script(p, turn(HARD))
    r = p.ok("run", "--session", p.base / "pipe.sqlite", *model, "go")
    assert r.stdout.decode() == PIPED, r.stdout
    t = on_terminal(p, "run", "--session", p.base / "terminal.sqlite", *model, "go")
    assert t.status == 0 and SHOWN in t.text, t.text
    assert_harmless(t.text)
    t = on_terminal(p, "run", "--quiet", "--session", p.base / "quiet.sqlite", *model, "go")
    assert t.text == SHOWN, t.text
    # And later, from the session.
    for words in (("show",), ("show", "--brief"), ("export",)):
        text = p.ok("sessions", *words, p.base / "pipe.sqlite").stdout.decode()
        assert PIPED.strip() in text, (words, text)
        t = on_terminal(p, "sessions", *words, p.base / "pipe.sqlite")
        assert t.status == 0 and SHOWN.strip() in t.text, t.text
        assert_harmless(t.text)


def test_json_stays_json_whatever_was_said(p):
    session = p.base / "s.sqlite"
    r = p.ok("run", "--json", "--session", session, *script(p, turn(HARD, call("bash", command="printf '\x9b'")), turn("Done.")), "go")
    said = [e["entry"]["model"][0] for e in of_type(events(r), "message_end")]
    assert any(m["role"] == "assistant" and m["content"][0]["text"] == HARD for m in said), said
    for words in (("sessions", "dump"), ("sessions", "show", "--json"), ("sessions", "export", "--json")):
        piped = [json.loads(line) for line in p.ok(*words, session).stdout.splitlines()]
        assert any(HARD == block.get("text") for e in piped for m in (e.get("entry") or e).get("model") or ()
                   for block in m.get("content", ()) if isinstance(block, dict)), words
        t = on_terminal(p, *words, session)
        assert_harmless(t.text)
        assert [json.loads(line) for line in t.text.splitlines()] == piped, words


def test_characters_whose_halves_come_apart(p):
    stub = ModelStub("openai", [Reply()])
    half = [{"id": "r", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}
            for text in ("x\ud83d", "\ude00y", "z\ud83d")]
    stop = {"id": "r", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    stub.stream = lambda _: "".join(f"data: {json.dumps(e)}\n\n" for e in [*half, stop]).encode()
    assert p.ok("run", "--session", p.base / "a.sqlite", *stub.ways(), "go").stdout.decode() == "x\U0001f600yz\ufffd\n"
    t = on_terminal(p, "run", "--quiet", "--session", p.base / "b.sqlite", *stub.ways(), "go")
    assert t.text == "x\U0001f600yz\ufffd\r\n", t.text
    stub.close()


def test_lines_of_calls_and_errors_are_harmless(p):
    evil = "\x1b]0;title\x07\u202e\x9b2J\r"
    session = p.base / "s.sqlite"
    model = script(p, turn("", call("bash", command=f": \x00{evil}"), call("read", path=f"no{evil}such")),
                   turn("", call(f"no{evil}tool", "c")), turn("half", error=f"not today {evil}!"))
    r = p.fails(1, "run", "--session", session, *model, "go")
    assert_harmless(r.err)
    assert "bash : ??]0;title???2J?" in r.err and "not today ?]0;title???2J?!" in r.err, r.err
    stub = ModelStub("openai", [Reply(status=400, body={"error": {"message": f"refused {evil}"}})])
    t = on_terminal(p, "run", "--session", session, *stub.ways(), "more")
    assert t.status == 1 and "refused ?]0;title" in t.text, t.text
    assert_harmless(t.text)
    stub.close()
    # What waits for a yes, and names of sessions.
    r = p.fails(4, "run", "--session", p.base / "ask.sqlite", *script(p, turn("", call("bash", command=evil))),
                "--ask", "go")
    assert_harmless(r.err)
    folder = p.base / f"folder{evil}"
    folder.mkdir()
    (folder / f"x{evil}.sqlite").write_bytes(b"")
    for text in (p.ok("sessions", "list", folder).stdout.decode(), on_terminal(p, "sessions", "list", folder).text):
        assert_harmless(text)
        assert "x?]0;title???2J?.sqlite" in text, text


# ---- answers that were asked for again ----

def flaky(wire, n=1):
    return ModelStub(wire, [Reply("half an answer that breaks", cut=True)] * n + [Reply("The answer.")])


def test_only_answers_that_count_go_into_a_pipe(p):
    for wire in ("openai", "anthropic"):
        stub = flaky(wire)
        r = p.ok("run", "--session", p.base / f"{wire}.sqlite", *stub.ways(), "go")
        assert r.text == "The answer.\n", r.shown
        assert r.err.count("asking again") == 1 and len(r.err.splitlines()) == 1, r.err
        assert len(stub.requests) == 2
        stub.close()
    r = p.fails(1, "run", "--session", p.base / "final.sqlite", *script(p, turn("half", error="no such luck")), "go")
    assert r.text == "" and r.err.count("no such luck") == 1, r.shown
    assert "half" in p.ok("sessions", "show", p.base / "final.sqlite").text


def test_a_terminal_is_told_that_it_is_asked_again(p):
    stub = flaky("openai")
    t = Terminal(p, "run", "--session", p.base / "s.sqlite", *stub.ways(), "go")
    t.expect("half an answer")
    t.expect("the answer above broke off")
    t.expect("asking again")
    t.expect("The answer.")
    assert t.end() == 0, t.text
    stub.close()
    # Nobody would be told, so nothing is shown that does not count.
    stub = flaky("openai")
    t = on_terminal(p, "run", "--quiet", "--session", p.base / "q.sqlite", *stub.ways(), "go")
    assert t.status == 0 and t.text == "The answer.\r\n", t.text
    stub.close()


def test_a_failure_is_told_once(p):
    stub = ModelStub("openai", [Reply(status=400, body={"error": {"message": "no such model here"}})])
    for words in ((), ("--json",)):
        r = p.fails(1, "run", *words, "--session", p.base / f"s{len(words)}.sqlite", *stub.ways(), "go")
        assert r.err.count("no such model here") == 1, r.err
    stub.close()
    # What cannot be reached is named.
    r = p.fails(1, "run", "--session", p.base / "n.sqlite", "--model", "openai/x", "--base-url", "gopher://127.0.0.1/v1", "go")
    assert "gopher://127.0.0.1/v1/chat/completions" in r.err and "asking again" not in r.err, r.err


def test_mistakes_are_told_with_what_to_do(p):
    session = p.base / "s.sqlite"
    model = script(p, turn("One."), turn("Two.", call("bash", timeout=5, command="exit 3")), turn("Three."))
    r = p.fails(1, "run", "--session", session, "--model", "foo/bar", "go")
    assert "foo" in r.err and "--base-url" in r.err and "anthropic" in r.err, r.err
    r = p.fails(2, "run", "--session", session, *model, "--tools", "bash,nonsense", "go")
    assert "'nonsense'" in r.err and "read, write, edit, bash" in r.err, r.err
    p.ok("run", "--session", session, *model, "go")
    for words in (["show", session, "--conversation", "99"], ["fork", session, "--conversation", "99"],
                  ["fork", session, "--at", "999"]):
        r = p.fails(1, "sessions", *words)
        assert f"sessions dump {session}" in r.err, r.err
    # A line of a call shows what it does, wherever that stands among its arguments.
    assert "bash exit 3  [" in p.ok("run", "--session", session, "more").err


# ---- what is no model's server ----

class Page:
    """A server that gives everybody the same."""

    def __init__(self, content_type, body):
        page = self
        self.nasked = 0

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                page.nasked += 1
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(200)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def test_what_is_no_answer_of_a_model_is_told_as_that(p):
    pages = (("text/html; charset=utf-8", b"<!DOCTYPE html>\n<title>\x1b[31m500 please retry</title>"),
             ("application/json", b'{"choices": [{"message": {"content": "Hello"}}]}'))
    for i, (content_type, body) in enumerate(pages):
        for wire in ("openai", "anthropic"):
            page = Page(content_type, body)
            r = p.fails(1, "run", "--session", p.base / f"{wire}{i}.sqlite", "--model", f"{wire}/x",
                        "--base-url", page.url, "go")
            assert "not an answer of a model API" in r.err and "--base-url" in r.err, r.err
            assert page.url in r.err and f"'{content_type}'" in r.err and body[:15].decode() in r.err, r.err
            assert_harmless(r.err)
            assert page.nasked == 1, page.nasked
            page.close()


if __name__ == "__main__":
    sys.exit(run_tests({k: v for k, v in globals().items() if getattr(v, "__module__", "") == "__main__"}))
