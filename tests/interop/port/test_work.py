# SPDX-License-Identifier: Apache-2.0
"""Calls that tools make, and conversations that calls own: one of the two harnesses begins, is killed at a commit, and
the other one goes on. TC_FULL=1 kills at every commit."""
import json

import pytest

pytest.importorskip("pi_durable")
pytest.importorskip("jsonschema")  # the port checks arguments of tools with it

import harness_script as script  # noqa: E402
from harness_script import Ours, Port  # noqa: E402
from test_harness import FULL, SIDE_NAMES, SIDES, check_killed_at, comparable, finished, one_of_each  # noqa: E402

pytestmark = pytest.mark.skipif(script.telechir() is None or script.harness_tool() is None,
                                reason="no telechir or harness_tool: build them, or set TC_TELECHIR, TC_HARNESS_TOOL")

LAST = 40  # commits of one of the runs below, at most


def points(*some):
    return range(1, LAST + 1) if FULL else some


@pytest.fixture(params=["s.sqlite", "s"], ids=["sqlite", "jsonl"])
def place(request, tmp_path):
    return script.Place(tmp_path, request.param)


@pytest.fixture(params=SIDES, ids=SIDE_NAMES)
def sides(request):
    return request.param


def noted(id):
    """A command that leaves a line, so that doing it twice shows."""
    return f"echo did-{id} >> done; echo out-{id}"


def begin(place, *tools):
    return f"root={json.dumps(place.agent(*tools))}", "ask=1,go", "idle=0"


def go_on(place, second, *tools):
    """What is there is gone on with; what is not is begun."""
    d = place.dump()
    if not d.submissions:
        second.do(place, *begin(place, *tools))
    else:
        second.do(place, "idle=0")
    return finished(place)


def killed_and_gone_on_with(place, sides, seq, *tools):
    first, second = sides
    said = first.do(place, f"die-at={seq}", *begin(place, *tools))
    if said is None:
        check_killed_at(place, first, seq)
        return go_on(place, second, *tools), True
    return finished(place), False


def the_answer(d):
    (submission,) = [s for s in d.submissions if s["conversationId"] == 1]
    return d.answer(submission)


def the_result(d, id):
    (result,) = [m for e in d.entries if e["kind"] == "pi.tool-result" and e["conversationId"] == 1
                 for m in e["model"] if m["toolCallId"] == id]
    return result


# ---- calls that tools make ----

def plays_nested(place, name):
    call = {"id": "a", "name": name, "arguments": {"commands": [noted("x"), noted("y")]}}
    place.play({"text": "let me", "tool_calls": [call]}, {"text": "all done"})


def parts_are_whole(place, text, was_killed):
    """Each command was run once and said so, or was cut off and is not run again."""
    done = place.lines("done")
    for part, id in zip(text.splitlines(), "xy", strict=True):
        assert part in (f"out-{id}", "cut")
        assert done.count(f"did-{id}") <= 1
        if part != "cut":
            assert done.count(f"did-{id}") == 1
        else:
            assert was_killed
    return text.count("cut")


@pytest.mark.parametrize("seq", points(5, 7, 9, 11, 13))
def test_calls_of_a_safe_tool_are_found_again(place, sides, seq):
    plays_nested(place, "both")
    d, was_killed = killed_and_gone_on_with(place, sides, seq, "both")
    assert the_answer(d) == "all done"
    result = the_result(d, "a")
    assert not result["isError"]
    assert parts_are_whole(place, script.text_of(result), was_killed) <= 1
    made = [t["input"]["key"] for t in d.tasks if t["kind"] == "pi.tool" and t["input"]["kind"] == "nested"]
    assert sorted(made) == ["first", "second"]  # by their key: none is made twice
    assert Ours.context(place) == Port.context(place)


@pytest.mark.parametrize("seq", points(8, 10, 12))
def test_calls_of_another_tool_end_with_it(place, sides, seq):
    plays_nested(place, "both-once")
    d, was_killed = killed_and_gone_on_with(place, sides, seq, "both-once")
    assert the_answer(d) == "all done"
    result = the_result(d, "a")
    if result["isError"]:
        assert was_killed
        assert "Tool both-once was interrupted" in script.text_of(result)
        assert all(place.lines("done").count(f"did-{id}") <= 1 for id in "xy")
    else:
        assert parts_are_whole(place, script.text_of(result), False) == 0
    nested = [t for t in d.tasks if t["kind"] == "pi.tool" and t["input"]["kind"] == "nested"]
    assert all(t["abandonOnRestart"] for t in nested)
    assert Ours.context(place) == Port.context(place)


@pytest.mark.parametrize("seq", points(8, 11, 14, 17))
def test_calls_two_levels_down(place, sides, seq):
    plays_nested(place, "wrap")
    d, was_killed = killed_and_gone_on_with(place, sides, seq, "wrap", "both")
    assert the_answer(d) == "all done"
    result = the_result(d, "a")
    assert not result["isError"]
    assert parts_are_whole(place, script.text_of(result), was_killed) <= 1
    nested = {t["id"]: t["input"] for t in d.tasks if t["kind"] == "pi.tool" and t["input"]["kind"] == "nested"}
    assert sorted(x["key"] for x in nested.values()) == ["first", "in", "second"]
    (inner,) = [id for id, x in nested.items() if x["key"] == "in"]
    assert {x["parent"] for x in nested.values() if x["key"] != "in"} == {inner}
    assert Ours.context(place) == Port.context(place)


@one_of_each()
@pytest.mark.parametrize("step", [5, 6, 8] if FULL else [5])
def test_taking_turns_with_nested_calls(place, sides, step):
    """A few commits each: enough for a call not to be given up because it was cut off too often."""
    plays_nested(place, "wrap")
    tools = ("wrap", "both")
    said, turn = sides[0].do(place, "die-at=4", *begin(place, *tools)), 0
    while said is None and turn < 60:
        turn += 1
        said = sides[turn % 2].do(place, f"die-at={place.seq() + step}", "idle=0")
    assert turn >= 2
    d = go_on(place, sides[turn % 2], *tools)
    assert the_answer(d) == "all done"
    assert parts_are_whole(place, script.text_of(the_result(d, "a")), True) <= 2


# ---- conversations that calls own ----

def plays_delegated(place):
    elsewhere = place.play_elsewhere(
        {"text": "I look", "tool_calls": [{"id": "b", "name": "bash", "arguments": {"command": noted("z")}}]},
        {"text": "it is there"})
    call = {"id": "a", "name": "delegate", "arguments": {"script": elsewhere, "text": "look for it"}}
    place.play({"text": "somebody else knows", "tool_calls": [call]}, {"text": "all done"})


@pytest.mark.parametrize("seq", points(6, 8, 10, 12, 14, 17, 20))
def test_conversation_of_a_call_is_gone_on_with(place, sides, seq):
    plays_delegated(place)
    d, was_killed = killed_and_gone_on_with(place, sides, seq, "delegate")
    assert the_answer(d) == "all done"
    result = the_result(d, "a")
    assert not result["isError"]
    assert script.text_of(result) == "it is there"
    (call,) = [t for t in d.tasks if t["kind"] == "pi.tool" and t["conversationId"] == 1]
    (child,) = [c for c in d.conversations if c["id"] != 1]  # found again, not made again
    assert child["owner"] == {"conversationId": 1, "taskId": call["id"]}
    (job,) = [s for s in d.submissions if s["conversationId"] == child["id"]]
    assert (job["requestId"], job["status"]) == ("job", "done")
    (looked,) = d.results("b")
    assert place.lines("done").count("did-z") == 1 or (was_killed and looked["isError"])
    for id in (1, child["id"]):
        assert Ours.context(place, id) == Port.context(place, id)


@one_of_each()
def test_abort_reaches_the_conversation_of_a_call(place, sides):
    """Marked by the one that is killed then; ended by the other."""
    first, second = sides
    place.fifo("gate")
    elsewhere = place.play_elsewhere(
        {"tool_calls": [{"id": "b", "name": "bash", "arguments": {"command": "cat gate"}}]}, {"text": "never"})
    call = {"id": "a", "name": "delegate", "arguments": {"script": elsewhere, "text": "look for it"}}
    place.play({"tool_calls": [call]}, {"text": "never"})
    steps = begin(place, "delegate")[:2]
    assert first.do(place, *steps, 'until="name":"bash"', 'until="phase":"execute"',
                    'die-on="abortRequested":true', "abort=1") is None
    second.do(place, "idle=0")
    d = finished(place)
    assert {(s["status"], s["reason"]) for s in d.submissions} == {("unanswered", "aborted")}
    assert {t["state"]["outcome"]["status"] for t in d.tasks} == {"aborted"}
    assert "[error] Tool delegate was aborted" in script.text_of(the_result(d, "a"))


# ---- the same, record by record ----

def without_commits(line):
    """How many there were depends on what progress was stored on the way."""
    if "document" in line:
        line["document"] = {k: v for k, v in line["document"].items() if k not in ("createdAt", "retiredAt")}
    return line


def ended(side, folder, session, plays, tools):
    folder.mkdir()
    place = script.Place(folder, session)
    plays(place)
    assert side.do(place, *begin(place, *tools)) is not None
    return [without_commits(comparable(line, place)) for line in finished(place).lines]


@pytest.mark.parametrize("session", ["s.sqlite", "s"], ids=["sqlite", "jsonl"])
@pytest.mark.parametrize(("plays", "tools"), [(lambda p: plays_nested(p, "wrap"), ("wrap", "both")),
                                              (plays_delegated, ("delegate",))], ids=["nested", "owned"])
def test_both_write_the_same_work(tmp_path, session, plays, tools):
    ours, ports = [ended(side, tmp_path / side.name, session, plays, tools) for side in (Ours, Port)]
    assert ours == ports
