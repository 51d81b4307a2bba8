# SPDX-License-Identifier: Apache-2.0
"""One session, two programs that run it: `telechir run` and the port's Harness take a session over from each other in
every state that it can be in, also when the other one was killed. TC_FULL=1 kills at every commit."""
import asyncio
import json
import os
import re

import pytest

pytest.importorskip("pi_durable")
pytest.importorskip("jsonschema")  # the port checks arguments of tools with it

import harness_script as script  # noqa: E402
import storage_script as storage  # noqa: E402
from harness_script import Ours, Port, call  # noqa: E402

pytestmark = pytest.mark.skipif(script.telechir() is None or script.harness_tool() is None,
                                reason="no telechir or harness_tool: build them, or set TC_TELECHIR, TC_HARNESS_TOOL")

FULL = bool(os.environ.get("TC_FULL"))
SIDES = [(Ours, Port), (Port, Ours)]
SIDE_NAMES = ["port-takes-over", "we-take-over"]
INTERRUPTED = "[error] Tool bash was interrupted and may have partially run"


@pytest.fixture(params=["s.sqlite", "s"], ids=["sqlite", "jsonl"])
def place(request, tmp_path):
    here = script.Place(tmp_path, request.param)
    yield here
    open_gate(here)


@pytest.fixture(params=SIDES, ids=SIDE_NAMES)
def sides(request):
    return request.param


def one_of_each():
    """Both storages and both directions; all four pairs with TC_FULL=1."""
    pairs = [(session, both) for session in ("s.sqlite", "s") for both in SIDES]
    names = [f"{session}-{name}" for session in ("sqlite", "jsonl") for name in SIDE_NAMES]
    picked = range(4) if FULL else [0, 3]
    return pytest.mark.parametrize(("place", "sides"), [pairs[i] for i in picked], ids=[names[i] for i in picked],
                                   indirect=True)


def noted(id, command="true"):
    """A call that leaves a line, so that doing it twice shows."""
    return call(id, f"echo did-{id} >> done; {command}; echo out-{id}")


def root(place):
    return f"root={json.dumps(place.agent())}"


def finished(place):
    """What must be true of a session at rest, whoever ran it. What is in it."""
    d = place.dump()
    assert d.live_tasks() == []
    assert [s for s in d.submissions if s["status"] in ("queued", "placed")] == []
    for c in d.conversations:
        assert d.value("pi.live", c["id"]) == {}, c
        assert d.value("pi.inbox", c["id"]) == {"items": []}, c
    place.run("sessions", "check", place.path)
    return d


def results_are_whole(place, d, ids):
    """Each call has one result, and was done once, or not more than once when it was cut off."""
    cut = 0
    done = place.lines("done")
    for id in ids:
        (result,) = d.results(id)
        if result["isError"]:
            assert INTERRUPTED in script.text_of(result), result
            assert done.count(f"did-{id}") <= 1
            cut += 1
        else:
            assert script.text_of(result) == f"out-{id}\n"
            assert done.count(f"did-{id}") == 1
    return cut


# ---- a conversation that has ended ----

def test_one_goes_on_with_what_the_other_has_finished(place, sides):
    first, second = sides
    place.play({"text": "let me", "tool_calls": [noted("a")]}, {"text": "first \u00e9\U0001f600"},
               {"tool_calls": [noted("b")]}, {"text": "second"}, {"tool_calls": [noted("c")]}, {"text": "third"})
    first.run(place, "one")
    remembered = place.dump().value("tc.run")
    assert (remembered is not None) == (first is Ours)
    assert first.context(place) == second.context(place)
    second.run(place, "two")
    assert second is Ours or place.dump().value("tc.run") == remembered
    assert first.context(place) == second.context(place)
    first.run(place, "three")
    d = finished(place)
    assert [d.answer(d.submitted(p)) for p in ("one", "two", "three")] == ["first \u00e9\U0001f600", "second", "third"]
    assert results_are_whole(place, d, "abc") == 0
    assert Ours.context(place) == Port.context(place)
    usage = d.value("pi.usage")["models"][f"scripted/{place.script}"]
    assert (usage["input"], usage["output"], usage["totalTokens"]) == (60, 30, 90)


# ---- killed at a commit ----

LAST = 22  # commits of one prompt with two calls, at most
POINTS = range(1, LAST + 1) if FULL else [1, 3, 6, 9, 12]


def two_calls(place):
    place.play({"text": "let me", "tool_calls": [noted("a", "sleep 0.05"), noted("b")]}, {"text": "all done"})


def other_finishes(place, second, was_killed):
    if was_killed:
        second.run(place, "go" if place.dump().submissions == [] else None)
    d = finished(place)
    (submission,) = d.submissions
    assert d.answer(submission) == "all done"
    assert sum(e["kind"] == "pi.user" for e in d.entries) == 1
    return results_are_whole(place, d, "ab")


def check_killed_at(place, side, seq):
    """It is stored, whatever was to be answered for. Ours may write what was not together with the next that is."""
    if side is Ours and place.is_sqlite:
        assert place.seq() <= seq
    else:
        assert place.seq() == seq


@pytest.mark.parametrize("seq", POINTS)
def test_killed_in_a_commit_the_other_finishes(place, sides, seq):
    first, second = sides
    two_calls(place)
    said = first.do(place, f"die-at={seq}", root(place), "ask=1,go", "idle=0")
    if said is None:
        check_killed_at(place, first, seq)
    cut = other_finishes(place, second, said is None)
    assert said is None or cut == 0


@pytest.mark.parametrize("seq", range(1, LAST + 1, 2) if FULL else [4, 9])
def test_port_finishes_what_a_killed_command_began(place, seq):
    """Killed from outside, while it does whatever it does: in a commit, between two, in a call."""
    two_calls(place)
    other_finishes(place, Port, Ours.killed_at(place, "go", seq))


@one_of_each()
@pytest.mark.parametrize("step", [3, 4, 5] if FULL else [4])
def test_taking_turns_and_killed_each_time(place, sides, step):
    """Each gets a few commits further than the one before."""
    two_calls(place)
    said, turn = sides[0].do(place, "die-at=4", root(place), "ask=1,go", "idle=0"), 0
    while said is None and turn < 40:
        turn += 1
        said = sides[turn % 2].do(place, f"die-at={place.seq() + step}", "idle=0")
    assert turn >= 2
    other_finishes(place, sides[turn % 2], False)


# ---- every other state a run can be in ----

HELD = "cat gate"  # a call that waits for open_gate


def open_gate(place):
    """Lets everything go on that waits there, or would."""
    gate = os.path.join(place.work, "gate")
    if os.path.exists(gate):
        held = os.open(gate, os.O_RDWR | os.O_NONBLOCK)
        os.unlink(gate)
        os.close(held)


@one_of_each()
def test_inputs_that_wait_are_taken_by_the_other(place, sides):
    first, second = sides
    place.fifo("gate")
    place.play({"tool_calls": [noted("a", HELD)]}, {"text": "steered"},
               {"tool_calls": [noted("b")]}, {"text": "followed"})
    assert first.do(place, root(place), "ask=1,go", 'until="phase":"execute"',
                    "ask=1,and then", 'die-on="steer"', "steer=1,this way", "idle=0") is None
    second.run(place)
    d = finished(place)
    assert [d.answer(d.submitted(p)) for p in ("go", "this way", "and then")] == ["steered", "steered", "followed"]
    assert results_are_whole(place, d, "ab") == 1
    (cut,) = d.results("a")
    assert cut["isError"]


@one_of_each()
def test_the_next_prompt_while_the_last_is_unanswered(place, sides):
    first, second = sides
    place.play({"tool_calls": [noted("a")]}, {"text": "one done"}, {"tool_calls": [noted("b")]}, {"text": "two done"})
    assert first.do(place, 'die-on="phase":"execute"', root(place), "ask=1,one", "idle=0") is None
    second.run(place, "two")
    d = finished(place)
    assert [d.answer(d.submitted(p)) for p in ("one", "two")] == ["one done", "two done"]
    assert results_are_whole(place, d, "ab") == 1


@one_of_each()
def test_words_of_an_answer_that_had_come(place, sides):
    """They stay in the transcript as an answer that was broken off, and the question is asked again."""
    first, second = sides
    assert first.do(place, 'die-on="phase":"request"', *one_call(place)) is None
    live = next(x for x in place.dump().documents if x["kind"] == "pi.live")
    zero = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0,
            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}}
    partial = {"role": "assistant", "content": [{"type": "text", "text": "half a w\u00f6"}], "api": "scripted",
               "provider": "scripted", "model": place.script, "usage": zero, "stopReason": "pending", "timestamp": 1}
    value = {**live["value"], "generation": {"attempt": 1, "message": partial}}
    asyncio.run(storage.port_commits(place.path, [[storage.base(live["id"], value)]]))
    second.run(place)
    d = finished(place)
    answers = [e["model"][0] for e in d.entries if e["kind"] == "pi.assistant"]
    assert [m["stopReason"] for m in answers] == ["aborted", "toolUse", "stop"]
    assert answers[0] == {**partial, "stopReason": "aborted"}
    assert d.answer(d.submitted("go")) == "all done"
    assert results_are_whole(place, d, "a") == 0
    assert Ours.context(place) == Port.context(place)


@one_of_each()
def test_a_generation_that_waits_for_its_next_try(place, sides):
    first, second = sides
    place.play({"error": "503 overloaded"})
    assert first.do(place, 'die-on="status":"sleeping"', root(place), "ask=1,go", "idle=0") is None
    (task,) = place.dump().live_tasks()
    until = task["state"]["until"]
    assert task["state"]["checkpoint"] == {"phase": "retry", "attempt": 1, "until": until}
    place.play({"text": "at last"})
    second.run(place)
    d = finished(place)
    assert d.answer(d.submitted("go")) == "at last"
    later = max(t["endedAt"] for t in d.tasks)
    assert later >= until
    (failed, answered) = [e["model"][0] for e in d.entries if e["kind"] == "pi.assistant"]
    assert (failed["stopReason"], failed["errorMessage"]) == ("error", "503 overloaded")
    assert answered["timestamp"] >= until


@one_of_each()
def test_a_run_that_is_marked_to_end(place, sides):
    first, second = sides
    place.fifo("gate")
    place.play({"tool_calls": [noted("a", HELD)]}, {"text": "never"})
    assert first.do(place, root(place), "ask=1,go", 'until="phase":"execute"',
                    'die-on="abortRequested":true', "abort=1") is None
    second.run(place, is_answered=False)
    d = finished(place)
    assert d.submitted("go")["status"] == "unanswered"
    assert d.submitted("go")["reason"] == "aborted"
    (result,) = d.results("a")
    assert "[error] Tool bash was aborted" in script.text_of(result)
    assert place.lines("done") in ([], ["did-a"])
    assert {t["state"]["outcome"]["status"] for t in d.tasks} == {"aborted"}


@one_of_each()
def test_a_fork_and_what_it_was_doing(place, sides):
    first, second = sides
    place.play({"tool_calls": [noted("a")]}, {"text": "shared"}, {"tool_calls": [noted("b")]}, {"text": "apart"})
    first.run(place, "one")
    at = place.dump().submitted("one")["answer"]
    (fork,) = first.do(place, f"fork=1,{at}")
    assert first.do(place, 'die-on="pi.tool","version":2,"input"', f"ask={fork},two", "idle=0") is None
    second.do(place, "idle=0")
    second.run(place, "three")
    d = finished(place)
    assert [d.answer(d.submitted(p)) for p in ("one", "two", "three")] == ["shared", "apart", "apart"]
    for c in (1, int(fork)):
        assert Ours.context(place, c) == Port.context(place, c)
    assert d.value("pi.agent", int(fork)) == d.value("pi.agent")


@one_of_each()
def test_a_conversation_that_was_summed_up(place, sides):
    first, second = sides
    place.play({"text": "a long answer, " * 20}, {"text": "another long answer, " * 20})
    first.run(place, "one")
    first.run(place, "two")
    place.play({"text": "what was said"})
    first.do(place, "compact=1", "idle=0")
    d = place.dump()
    (marker,) = [e for e in d.entries if e["kind"] == "pi.compaction"]
    assert marker["head"] <= marker["id"]
    assert first.context(place) == second.context(place)
    kept = sum(m["role"] == "assistant" for m in second.context(place))
    place.play(*[{"text": "?"}] * kept, {"tool_calls": [noted("a")]}, {"text": "on we go"})
    second.run(place, "three")
    d = finished(place)
    assert d.answer(d.submitted("three")) == "on we go"
    assert Ours.context(place) == Port.context(place)
    assert "what was said" in json.dumps(Ours.context(place))


def change_task(place, change):
    """Rewrites the only live tool call as somebody else might have left it."""
    (task,) = [t for t in place.dump().live_tasks() if t["kind"] == "pi.tool"]
    change(task)
    asyncio.run(storage.port_commits(place.path, [[{"type": "task", "value": task}]]))
    return task["id"]


def one_call(place, call=None):
    place.play({"tool_calls": [call or noted("a")]}, {"text": "all done"})
    return root(place), "ask=1,go", "idle=0"


@one_of_each()
@pytest.mark.parametrize("phase", ["call", "execute"])
def test_a_call_of_the_version_before(place, sides, phase):
    first, second = sides
    on = '"phase":"call"' if phase == "call" else '"phase":"execute"'
    assert first.do(place, f"die-on={on}", *one_call(place)) is None

    def as_it_was(task):
        assert task["version"] == 2
        task["version"] = 1
        del task["input"]["kind"]

    id = change_task(place, as_it_was)
    second.run(place)
    d = finished(place)
    assert d.answer(d.submitted("go")) == "all done"
    assert results_are_whole(place, d, "a") == (phase == "execute")
    (task,) = [t for t in d.tasks if t["id"] == id]
    assert (task["version"], task["input"]["kind"]) == (2, "model")


@pytest.mark.parametrize("was_parked", [False, True], ids=["running", "parked"])
def test_a_call_that_was_cut_off_too_often(place, was_parked):
    """The port leaves it where it is, for somebody to try again; we end it."""
    assert Port.do(place, 'die-on="phase":"execute"', *one_call(place)) is None
    id = change_task(place, lambda task: task.update(restarts=4))
    if was_parked:
        Port.do(place, root(place))  # opened and closed
        (task,) = [t for t in place.dump().live_tasks() if t["id"] == id]
        assert (task["state"]["status"], task["restarts"]) == ("pending", 5)
    Ours.run(place)
    d = finished(place)
    assert d.answer(d.submitted("go")) == "all done"
    (result,) = d.results("a")
    assert result["isError"]
    (entry,) = [e for e in d.entries if e["kind"] == "pi.tool-result"]
    assert [x["code"] for x in entry["data"]["diagnostics"]] == ["restart_limit"]
    assert place.lines("done").count("did-a") <= 1
    assert Ours.context(place) == Port.context(place)


@one_of_each()
def test_a_generation_that_was_parked(place, sides):
    """Cut off too often, it waits for somebody who says that it may try again."""
    first, second = sides
    steps = one_call(place)
    assert first.do(place, 'die-on="phase":"request"', *steps) is None
    (task,) = place.dump().live_tasks()
    task["restarts"] = 4
    asyncio.run(storage.port_commits(place.path, [[{"type": "task", "value": task}]]))
    first.do(place, root(place))  # opened and closed
    (task,) = place.dump().live_tasks()
    assert (task["state"]["status"], task["restarts"]) == ("pending", 5)
    second.do(place, f"retry={task['id']}", "idle=0")
    d = finished(place)
    assert d.answer(d.submitted("go")) == "all done"
    assert results_are_whole(place, d, "a") == 0


RAW = '{"n":1.50,"big":9007199254740993,"e":1E+2,"odd":"\u00e9/","null":null,"deep":[{},[]]}'


def test_what_we_do_not_know_is_kept(place):
    """Documents of unknown kinds, unknown members of records that we write again, and how numbers were written."""
    assert Port.do(place, 'die-on="phase":"execute"', *one_call(place)) is None
    d = place.dump()
    (task,) = [t for t in d.live_tasks() if t["kind"] == "pi.tool"]
    (generation,) = [t for t in d.live_tasks() if t["kind"] == "pi.generation"]
    (submission,) = d.submissions
    at = max(r["id"] for line in d.lines for r in line.values())
    ids = {x["kind"]: x["id"] for x in d.documents}
    for record in (task, generation, submission):
        record["appField"] = "RAW"
    agent = {**d.value("pi.agent"), "appField": "RAW"}
    asyncio.run(storage.port_commits(place.path, [[
        storage.entry(at + 1, kind="app.note", data="RAW", appField="RAW"), {"type": "submission", "value": submission},
        {"type": "task", "value": task}, {"type": "task", "value": generation},
        storage.create(at + 2, "app.session", storage.SESSION, {"appField": "RAW"}),
        storage.create(at + 3, "app.conversation", storage.within(1), {"appField": "RAW"}, **storage.REWINDABLE),
        storage.create(at + 4, "app.member", storage.SESSION, {"appField": "RAW"}, key="\u00e9"),
        storage.base(ids["pi.agent"], agent)]]))
    place.rewrite('"RAW"', RAW)
    Ours.run(place)
    d = finished(place)
    assert d.answer(d.submitted("go")) == "all done"
    assert results_are_whole(place, d, "a") == 1
    texts = place.texts()
    member = f'"appField":{RAW}'
    ended = [t for t in texts if '"status":"terminal"' in t and member in t]
    for id in (task["id"], generation["id"]):
        assert any(f'"id":{id},' in t for t in ended), ended
    assert any('"status":"done"' in t and member in t and '"answer"' in t for t in texts)
    assert sum(f'"data":{RAW}' in t and member in t for t in texts) == 1
    kinds = [x["kind"] for x in d.documents if x.get("value", {}).get("appField") == json.loads(RAW)]
    assert sorted(kinds) == ["app.conversation", "app.member", "app.session", "pi.agent"]
    assert sum(member in t for t in texts) >= 4


@one_of_each()
def test_output_that_had_come_is_kept(place, sides):
    """What a call had said before it was cut off is in its result, whoever writes that."""
    first, second = sides
    place.fifo("gate")
    steps = one_call(place, call("a", "echo did-a >> done; printf 'ear''ly\\n'; cat gate"))
    assert first.do(place, "die-on=early", *steps) is None
    second.run(place)
    d = finished(place)
    assert results_are_whole(place, d, "a") == 1
    (result,) = d.results("a")
    assert script.text_of(result).startswith("early\n")


# ---- the same, record by record ----

STATES = {"request": '"phase":"request"', "call": '"stopReason":"toolUse"', "intent": '"phase":"execute"',
          "result": '"pi.tool-result"', "end": None}


def plain(text, place):
    """Without what no two runs have in common: times, folders, random names."""
    text = text.replace(place.folder, "FOLDER")
    text = re.sub(r'"(timestamp|startedAt|endedAt|durationMs|until)":\d+', r'"\1":0', text)
    return re.sub(r'"sessionId":"[0-9a-f-]{36}"', '"sessionId":""', text)


def without_known_differences(v):
    """Without those that docs/differences.md lists under Sessions: words for the model about a tool, output that comes
    with the end, details that are null."""
    if isinstance(v, list):
        return [without_known_differences(x) for x in v]
    if not isinstance(v, dict):
        return v
    v = {k: without_known_differences(x) for k, x in v.items()}
    if "toolsAdded" in v:
        v["toolsAdded"] = [without_descriptions(t) for t in v["toolsAdded"]]
    if v.get("details", 0) is None:
        del v["details"]
    if v.get("status") == "running" and "callId" in v:
        v.pop("output", None)
    return v


def without_descriptions(v):
    if isinstance(v, list):
        return [without_descriptions(x) for x in v]
    if isinstance(v, dict):
        return {k: without_descriptions(x) for k, x in v.items() if k != "description"}
    return v


def comparable(v, place):
    return without_known_differences(json.loads(plain(json.dumps(v, separators=(",", ":")), place)))


def commits(place):
    """The markers of a folder of JSON lines, without the progress of a call and the numbers that it takes."""
    with open(os.path.join(place.path, "main.jsonl"), encoding="utf-8") as f:
        lines = [comparable(json.loads(line), place) for line in f]
    kept = []
    is_call = False
    for line in lines:
        writes = line["writes"]
        if is_call and [w["type"] for w in writes] == ["document.change"]:
            continue
        # An intent is the call's record and its slot; every other commit of two writes has an entry or an end.
        is_call = [w["type"] for w in writes] == ["task.sidecar", "document.change"]
        kept.append(writes)
    return kept


def same_scenario(side, folder, session, state):
    os.mkdir(folder)
    place = script.Place(folder, session)
    place.play({"text": "let me", "tool_calls": [noted("a")]}, {"text": "Done."})
    agent = {**place.agent(), "instructions": "You are terse."}
    die = [f"die-on={state}"] if state else []
    assert (side.do(place, *die, f"root={json.dumps(agent)}", "ask=1,Say hello", "idle=0") is None) == bool(state)
    return place


@pytest.mark.parametrize("session", ["s.sqlite", "s"], ids=["sqlite", "jsonl"])
@pytest.mark.parametrize("state", STATES if FULL else ["call", "result", "end"])
def test_both_write_the_same(tmp_path, session, state):
    """One prompt, one call, one section: the same records at each step, and in the end the same commits."""
    places = [same_scenario(side, tmp_path / side.name, session, STATES[state]) for side in (Ours, Port)]
    ours, ports = [[comparable(line, place) for line in place.dump().lines] for place in places]
    assert ours == ports
    if state == "end" and session == "s":
        assert commits(places[0]) == commits(places[1])
