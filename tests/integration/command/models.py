# SPDX-License-Identifier: Apache-2.0
"""A model server for tests, strict as the real ones: it refuses a transcript in which a call has not exactly
one result right behind it, or an id stands twice in one answer."""

import http.server
import json
import threading


class Reply:
    """One answer. calls: (id, name, arguments as JSON text).

    stop: the wire's own word; None: what fits. chunk: bytes a piece. cut: the stream ends in the middle of
    the last call's arguments, or of the text."""

    def __init__(self, text="", calls=(), stop=None, status=200, headers=None, chunk=0, cut=False, body=None):
        self.text, self.calls, self.stop = text, list(calls), stop
        self.status, self.headers, self.chunk, self.cut, self.body = status, headers or {}, chunk, cut, body


def openai_events(reply):
    def event(delta, finish=None):
        return {"id": "r1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield None, event({"role": "assistant", "content": ""})
    if reply.text:
        half = len(reply.text) // 2
        yield None, event({"content": reply.text[:half]})
        yield None, event({"content": reply.text[half:]})
    for index, (call_id, name, arguments) in enumerate(reply.calls):
        yield None, event({"tool_calls": [{"index": index, "id": call_id, "type": "function",
                                           "function": {"name": name, "arguments": ""}}]})
        half = len(arguments) // 2
        for part in (arguments[:half], arguments[half:]):
            yield None, event({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
    yield None, event({}, reply.stop or ("tool_calls" if reply.calls else "stop"))
    yield None, {"id": "r1", "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}
    yield None, "[DONE]"


def anthropic_events(reply):
    yield "message_start", {"message": {"id": "m1", "type": "message", "role": "assistant", "content": [],
                                        "model": "m", "usage": {"input_tokens": 7, "output_tokens": 0}}}
    index = 0
    if reply.text:
        yield "content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}
        half = len(reply.text) // 2
        for part in (reply.text[:half], reply.text[half:]):
            yield "content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": part}}
        yield "content_block_stop", {"index": 0}
        index = 1
    for call_id, name, arguments in reply.calls:
        yield "content_block_start", {"index": index, "content_block": {
            "type": "tool_use", "id": call_id, "name": name, "input": {}}}
        half = len(arguments) // 2
        for part in (arguments[:half], arguments[half:]):
            yield "content_block_delta", {"index": index, "delta": {"type": "input_json_delta",
                                                                    "partial_json": part}}
        yield "content_block_stop", {"index": index}
        index += 1
    yield "message_delta", {"delta": {"stop_reason": reply.stop or ("tool_use" if reply.calls else "end_turn")},
                            "usage": {"output_tokens": 3}}
    yield "message_stop", {}


def openai_complaint(messages):
    waiting = []
    for m in messages:
        if m["role"] == "tool":
            if m["tool_call_id"] not in waiting:
                return f"a result without its call: {m['tool_call_id']}"
            waiting.remove(m["tool_call_id"])
            continue
        if waiting:
            return f"calls without results: {waiting}"
        waiting = [c["id"] for c in m.get("tool_calls") or []]
        if len(set(waiting)) != len(waiting):
            return f"one id twice: {waiting}"
        for c in m.get("tool_calls") or []:
            json.loads(c["function"]["arguments"])
    return f"calls without results: {waiting}" if waiting else None


def anthropic_complaint(messages):
    waiting = []
    for m in messages:
        blocks = m["content"] if isinstance(m["content"], list) else []
        results = [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
        if sorted(results) != sorted(waiting):
            return f"results {results} for calls {waiting}"
        waiting = [b["id"] for b in blocks if b["type"] == "tool_use"]
        if len(set(waiting)) != len(waiting):
            return f"one id twice: {waiting}"
    return f"calls without results: {waiting}" if waiting else None


class ModelStub:
    """The n-th request gets the n-th reply, the last one again and again. by_turn: the n-th is the one with
    n - 1 answers in it, so that a question that is asked again gets the same reply."""

    def __init__(self, wire, replies, by_turn=False):
        self.wire, self.replies, self.by_turn = wire, replies, by_turn
        self.requests, self.heads, self.complaints = [], [], []
        stub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                stub.answer(self)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # who asked was killed
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}" + ("/v1" if wire == "openai" else "")

    def ways(self):
        return ["--model", f"{self.wire}/test-model", "--base-url", self.url]

    def answer(self, h):
        request = json.loads(h.rfile.read(int(h.headers["Content-Length"])))
        check = openai_complaint if self.wire == "openai" else anthropic_complaint
        complaint = check(request["messages"])
        nth = (sum(m["role"] == "assistant" for m in request["messages"]) if self.by_turn
               else len(self.requests))
        reply = self.replies[min(nth, len(self.replies) - 1)]
        self.requests.append(request)
        self.heads.append(dict(h.headers))
        if complaint:
            self.complaints.append(complaint)
            reply = Reply(status=400, body={"error": {"type": "invalid_request_error", "message": complaint}})
        if reply.status != 200:
            body = json.dumps(reply.body or {"error": {"message": f"status {reply.status}"}}).encode()
            h.send_response(reply.status)
            for name, value in reply.headers.items():
                h.send_header(name, value)
            h.send_header("Content-Type", "application/json")
            h.send_header("Content-Length", str(len(body)))
            h.end_headers()
            h.wfile.write(body)
            return
        h.send_response(200)
        h.send_header("Content-Type", "text/event-stream")
        h.send_header("Transfer-Encoding", "chunked")
        h.end_headers()
        stream = self.stream(reply)
        size = reply.chunk or len(stream)
        for at in range(0, len(stream), size):
            piece = stream[at:at + size]
            h.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            h.wfile.flush()
        if reply.cut:
            h.close_connection = True
        else:
            h.wfile.write(b"0\r\n\r\n")

    def stream(self, reply):
        text = []
        last_delta = 0
        for name, data in (openai_events if self.wire == "openai" else anthropic_events)(reply):
            if name:
                data = {"type": name, **data}
                text.append(f"event: {name}\n")
            data = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
            if '"partial_json"' in data or '"arguments": "{' in data or '"content": "' in data:
                last_delta = len(text) + 1
            text.append(f"data: {data}\n\n")
        if reply.cut:
            text = text[:last_delta]
        return "".join(text).encode()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
