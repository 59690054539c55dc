"""Compare without a browser: what is paired, where two runs diverge, and what is said of it."""

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.messages import Input, Message, Text
from boolab.core.run import Run
from boolab.core.types import Response, Step, ToolCall, ToolResult
from boolab.errors import SettingError
from boolab.harnesses.compare import compare_policies
from boolab.runtime.agents.agent import Agent
from boolab.runtime.engine.runner import run_sync
from boolab.runtime.models.scripted import ScriptedModel
from boolab.sweeps.divergence import first_divergence
from boolab.whatif.evaluate import counterfactual
from boolab.widgets.compare.alignment import align
from boolab.widgets.compare.widget import Compare
from tests.support.cases import cases
from tests.support.helpers import TOOLS, steps
from tests.support.packed import unpacked
from tests.support.samples import atlas

STUCK = [{"tool_calls": [{"name": "grep"}], "repeat": "forever"}]
LETTERS = st.lists(st.sampled_from("ABC"), max_size=12)


def run_of(pattern: str, run_id: str = "a", policy: str = "naive") -> Run:
    run = run_sync(None, "go", model=ScriptedModel(steps(pattern)), tools=TOOLS, policy=policy)
    return replace(run, run_id=run_id)


def long_run(run_id: str, names: Sequence[int]) -> Run:
    """A run with one call for each number, made by hand: a loop over so many would take seconds."""
    made = tuple(
        Step(
            n, 1, n, 1, 1, Response("", (ToolCall(f"c{n}", "look", f'{{"what": {name}}}'),)), (ToolResult("", "seen"),)
        )
        for n, name in enumerate(names, 1)
    )
    return replace(run_of("A", run_id), steps=made)


def data_of(compare: Compare) -> dict[str, Any]:
    data = unpacked(compare._view._data)
    assert isinstance(data, dict)
    return data


def longest(a: Sequence[str], b: Sequence[str]) -> int:
    """The length of a longest common subsequence, by the textbook's table."""
    row = [0] * (len(b) + 1)
    for one in a:
        above = row[:]
        for j, other in enumerate(b, 1):
            row[j] = above[j - 1] + 1 if one == other else max(above[j], row[j - 1])
    return row[-1]


@given(LETTERS, LETTERS)
@cases(150)
def test_as_many_items_as_possible_are_paired_and_none_is_lost(a: list[str], b: list[str]) -> None:
    stretches = align(a, b)
    next_a = next_b = 0
    for stretch in stretches:
        assert (stretch.a, stretch.b) == (next_a, next_b)
        next_a, next_b = next_a + stretch.n_a, next_b + stretch.n_b
        if stretch.same:
            assert a[stretch.a : next_a] == b[stretch.b : next_b]
    assert (next_a, next_b) == (len(a), len(b))
    assert sum(stretch.n_a for stretch in stretches if stretch.same) == longest(a, b)


@pytest.mark.parametrize("other", ["crush", "naive", "opencode_v1", "openhands"])
def test_two_policies_part_where_first_divergence_says(other: str) -> None:
    parted = first_divergence(STUCK, "boocode", other)
    compare = Compare("boocode", other, script=STUCK)
    assert parted is not None
    assert compare.divergence == (parted.step, parted.what, parted.a, parted.b)
    data = data_of(compare)
    assert [side["steps"] for side in data["sides"]] == [parted.run_a.n_steps, parted.run_b.n_steps]
    rows = {row["name"]: (row["a"], row["b"]) for row in data["differences"]["rows"]}
    frame = compare_policies("boocode", other).frame
    assert rows["limits, by precedence"] == tuple(frame.loc["order"])
    assert all(one != another for one, another in rows.values())


@given(st.lists(st.sampled_from(["A", "B", "AB"]), min_size=1, max_size=6), st.integers(0, 5))
@cases(15)
def test_recorded_runs_part_at_the_first_step_that_differs(words: list[str], place: int) -> None:
    place = min(place, len(words) - 1)
    changed = [*words[:place], "C", *words[place + 1 :]]
    compare = Compare(run_of(" ".join(words)), run_of(" ".join(changed), "b"))
    assert compare.divergence is not None
    assert compare.divergence.step == place + 1
    assert "look C" in compare.divergence.b
    first = next(s for s in data_of(compare)["stretches"] if s["kind"] != "same")
    assert (first["a"], first["b"]) == (place, place)


def test_equal_runs_never_part() -> None:
    compare = Compare(run_of("A B AC"), run_of("A B AC", "b"))
    assert compare.divergence is None
    assert [(s["kind"], s["n_a"]) for s in data_of(compare)["stretches"]] == [("same", 4)]
    amounts = {row["name"]: row["difference"] for row in data_of(compare)["table"] if row["name"] != "time"}
    assert amounts == dict.fromkeys(amounts, "same")


def test_compare_tells_another_result_from_another_call() -> None:
    one = run_of("A B C")
    other = list(one.steps)
    other[1] = other[1]._replace(results=(ToolResult("", "something else", is_error=True),))
    compare = Compare(one, replace(one, run_id="b", steps=tuple(other)))
    assert compare.divergence is not None
    assert (compare.divergence.step, compare.divergence.what) == (2, "the calls have other results.")
    assert 'fails and gives "something else"' in compare.divergence.b
    assert [s["kind"] for s in data_of(compare)["stretches"]] == ["same", "results", "same"]


def test_recording_diverges_where_counterfactual_stops() -> None:
    run = run_of("A B A A A A B")
    row = counterfactual(run, policy="boocode").iloc[0]
    compare = Compare(run, "boocode")
    assert compare.divergence is not None
    assert compare.divergence.step == row["stop_step"] + 1
    data = data_of(compare)
    assert data["sides"][1]["steps"] == row["stop_step"]
    assert data["sides"][1]["reason"] == row["stop_reason"]
    assert "boocode is not run" in data["notes"][0]
    assert [side["name"] for side in data_of(Compare("boocode", run))["sides"]] == ["boocode", "the recording"]
    assert Compare(run_of("A B"), "boocode").divergence is None


def test_compare_runs_two_agents_on_one_script_and_lists_changes() -> None:
    careful = Agent("careful", prompt="You look.\nBe brief.", doom_loop=2, exempt=("wait",), temperature=0.5)
    patient = Agent("patient", prompt="You look.\nTake your time.", doom_loop=5, max_steps=7)
    compare = Compare(careful, patient, script=STUCK)
    data = data_of(compare)
    assert [side["name"] for side in data["sides"]] == ["careful", "patient"]
    assert [side["steps"] for side in data["sides"]] == [2, 5]
    assert compare.divergence is not None
    assert (compare.divergence.step, data["did"]) == (3, [None, None])
    rows = {row["name"]: (row["a"], row["b"]) for row in data["differences"]["rows"]}
    assert rows["temperature"] == ("0.5", "the model's own")
    assert rows["step cap"][1] == "at most 7"
    assert {"doom-loop threshold", "exempt from the doom-loop threshold"} <= rows.keys()
    assert "policy" not in rows
    changed = [line["parts"] for line in data["differences"]["prompt"] if None in (line["old"], line["new"])]
    assert changed == [["Be brief."], ["Take your time."]]
    same = data_of(Compare(careful, replace(careful, name="twin"), script=STUCK))
    assert same["differences"] == {"of": "agents", "rows": [], "prompt": []}
    assert same["divergence"] is None


def test_a_long_message_is_quoted_from_where_it_differs() -> None:
    one = run_of("A")
    long = "The same words again. " * 30
    prompts = [(Message("user", (Text(long + end),)),) for end in ("first", "second")]
    compare = Compare(*(replace(one, run_id=str(n), prompt=prompt) for n, prompt in enumerate(prompts)))
    assert compare.divergence is not None
    assert compare.divergence.a.endswith('again. first"')
    assert compare.divergence.b.startswith('gets from the user: "…')


def test_each_side_opens_below() -> None:
    compare = Compare("boocode", "crush", script=STUCK)
    sides = data_of(compare)["sides"]
    compare.opened = {"run": sides[1]["run"], "step": 4}
    assert compare.replay is not None
    assert (compare.replay.run.policy, compare.replay.step) == ("crush", 4)
    compare.opened = {"run": sides[0]["run"], "step": 400}
    assert (compare.replay.run.policy, compare.replay.step) == ("boocode", 3)
    assert set(compare._runs()) == {side["run"] for side in sides}


def test_long_runs_are_compared_in_less_than_two_seconds() -> None:
    a = long_run("a", [n * 7919 % 50 for n in range(5_000)])
    b = long_run("b", [n * 104_729 % 50 for n in range(5_000)])
    start = time.process_time()
    compare = Compare(a, b)
    assert time.process_time() - start < 2
    assert sum(s["n_a"] for s in data_of(compare)["stretches"]) == len(a.steps)
    assert len(compare._view._data) < 1_000_000


def test_what_cannot_be_compared_is_named() -> None:
    with pytest.raises(SettingError, match=r"Compare\('boocode', 'crush'\): two policies need script="):
        Compare("boocode", "crush")
    with pytest.raises(SettingError, match=r"Compare\(a run, 'crush'\): runs are compared as they are"):
        Compare(run_of("A"), "crush", script=STUCK)
    one, other = Agent("one"), Agent("other")
    with pytest.raises(SettingError, match=r"Compare\('one', 'other'\): two agents need script="):
        Compare(one, other)
    with pytest.raises(SettingError, match=r"Compare\('one', 'crush'\): an agent is compared with another agent"):
        Compare(one, "crush", script=STUCK)
    with pytest.raises(SettingError, match="leave agent= out"):
        Compare(one, other, script=STUCK, agent=one)
    with pytest.raises(SettingError, match="no_such"):
        Compare("boocode", "no_such", script=STUCK)


def test_text_picture_and_repr_stand_in_for_the_widget() -> None:
    compare = Compare("boocode", "crush", script=STUCK)
    assert repr(compare) == "Compare(A limit stops boocode after step 3; crush continues for 7 more steps)"
    shown = compare._repr_mimebundle_()["text/plain"]
    assert "boocode: stopped after 3 steps by its doom-loop threshold of 3" in shown
    assert "doom_loop" not in shown
    assert compare._picture().startswith(b"\x89PNG")


def test_compare_names_the_run_that_makes_a_further_step() -> None:
    short, long = long_run("short", [1, 2]), long_run("long", [1, 2, 3])
    for a, b in ((short, long), (long, short)):
        divergence = data_of(Compare(a, b))["divergence"]
        names = [side["name"] for side in data_of(Compare(a, b))["sides"]]
        assert divergence["step"] == 3
        assert divergence["what"] == f"only {names[b is long]} makes this step."
        assert data_of(Compare(a, b))["title"].startswith("First difference between ")  # no limit stopped the other
        assert divergence["ab"[b is long]].startswith("calls")
        assert divergence["ab"[a is long]].startswith("ends after step 2")


def test_cost_with_one_unknown_step_is_unknown() -> None:
    def priced(step: Step) -> Step:
        usage = step.response.usage._replace(cost=500_000)
        return step._replace(response=step.response._replace(usage=usage))

    run = long_run("part", [1, 2, 3])
    whole = replace(run, run_id="whole", steps=tuple(map(priced, run.steps)))
    part = replace(run, steps=(*whole.steps[:-1], run.steps[-1]))
    assert run.steps[-1].response.usage.cost is None
    (row,) = [row for row in data_of(Compare(whole, part))["table"] if row["name"] == "cost"]
    assert row == {"name": "cost", "a": "$1.5000", "b": None, "difference": None}


@pytest.mark.parametrize(
    ("a", "b", "shown"),
    [
        (500_000, 499_999, ("$1.5000", "$1.5000", "\N{MINUS SIGN}$0.000003")),
        (0, 500_000, ("$0", "$1.5000", "+$1.5000")),
        (7, 0, ("$0.000021", "$0", "\N{MINUS SIGN}$0.000021")),
        (500_000, 500_000, ("$1.5000", "$1.5000", "same")),
    ],
)
def test_small_costs_and_differences_are_not_shown_as_zero(a: int, b: int, shown: tuple[str, str, str]) -> None:
    def priced(cost: int, name: str) -> Run:
        run = long_run(name, [1, 2, 3])
        usages = (step.response.usage._replace(cost=cost) for step in run.steps)
        pairs = zip(run.steps, usages, strict=True)
        steps = tuple(step._replace(response=step.response._replace(usage=usage)) for step, usage in pairs)
        return replace(run, steps=steps)

    (row,) = [row for row in data_of(Compare(priced(a, "a"), priced(b, "b")))["table"] if row["name"] == "cost"]
    assert (row["a"], row["b"], row["difference"]) == shown


def test_small_time_difference_is_shown_in_milliseconds() -> None:
    runs = [replace(long_run(name, [1]), duration_ms=ms) for name, ms in (("a", 1000), ("b", 1007))]
    (row,) = [row for row in data_of(Compare(*runs))["table"] if row["name"] == "time"]
    assert row == {"name": "time", "a": "1.0 s", "b": "1.0 s", "difference": "+7 ms"}


@pytest.mark.parametrize(
    ("a", "b", "shown"),
    [
        (3040, 8660, ("3.0 s", "8.7 s", "+5.7 s")),
        (8650, 3040, ("8.6 s", "3.0 s", "\N{MINUS SIGN}5.6 s")),
        (40, 1049, ("40 ms", "1.0 s", "+1.0 s")),
    ],
)
def test_a_difference_is_that_of_the_numbers_beside_it(a: int, b: int, shown: tuple[str, str, str]) -> None:
    runs = [replace(long_run(name, [1]), duration_ms=ms) for name, ms in (("a", a), ("b", b))]
    (row,) = [row for row in data_of(Compare(*runs))["table"] if row["name"] == "time"]
    assert (row["a"], row["b"], row["difference"]) == shown


@pytest.mark.slow
def test_runs_of_the_same_agent_are_named_by_their_tasks() -> None:
    a, b = (run for run in atlas("swebench-verified")[:2])
    names = [run.task.rpartition("/")[2] for run in (a, b)]
    assert all(name in repr(bl.Compare(a, b)) for name in names)


def test_compare_uses_whole_run_ids_and_sizes_of_missing_texts() -> None:
    tries = [run for run in atlas("tau-airline") if run.task == "tau-airline/3"][:2]
    compare = bl.Compare(*tries)
    data = data_of(compare)
    assert [side["name"] for side in data["sides"]] == [run.run_id for run in tries]
    assert "<redacted" not in json.dumps(data)
    assert data["did"][0] == "gets from the user: a text of 92 characters that is not on record"
    assert data["steps"][0][0]["missing"] == "text not on record, 120 characters"
    assert data["steps"][0][6]["calls"][0]["missing"] == "not on record, 27 characters"


@pytest.mark.parametrize(
    ("ids", "names"),
    [
        (("0" * 40, "1" * 40), ("0" * 12, "1" * 12)),
        (("x" * 40 + "a", "x" * 40 + "b"), ("…" + "x" * 11 + "a", "…" + "x" * 11 + "b")),
    ],
)
def test_long_ids_are_named_by_the_part_that_differs(ids: tuple[str, str], names: tuple[str, str]) -> None:
    a, b = (run_of("A", one) for one in ids)
    assert tuple(side["name"] for side in data_of(bl.Compare(a, b))["sides"]) == names


def talking(run_id: str, texts: Sequence[str], calls: Sequence[ToolCall]) -> Run:
    made = tuple(
        Step(n, 1, n, 1, 1, Response(text, (call,)), (ToolResult("", "seen"),))
        for n, (text, call) in enumerate(zip(texts, calls, strict=True), 1)
    )
    return replace(run_of("A", run_id), steps=made)


LS, BASH = (ToolCall("1", name, '{"command": "ls -F"}') for name in ("ls", "bash"))
OPEN = ToolCall("2", "open", '{"path": "a.py"}')


def test_finding_names_first_different_call_after_other_texts() -> None:
    one, other = talking("a", ["One.", "Two."], [LS, OPEN]), talking("b", ["Uno.", "Due."], [BASH, LS])
    data = data_of(Compare(one, other))
    assert data["title"].endswith(" make the same calls before step 2; from step 1 on, answers of the model differ")
    first = [steps[0]["commands"] for steps in data["steps"]]
    assert first[0] == first[1]
    alike = data_of(Compare(one, talking("b", ["Uno.", "Due."], [LS, OPEN])))
    assert " make the same calls in all steps; from step 1 on, " in alike["title"]


def test_the_finding_names_messages_where_only_they_differ() -> None:
    one = talking("a", ["One.", "Two."], [LS, OPEN])
    asked = replace(one, run_id="b", inputs=(Input(2, Message("user", (Text("Go on."),))),))
    title = data_of(Compare(one, asked))["title"]
    assert title.endswith(" make the same calls in all steps; from step 2 on, messages to the model differ")


def test_calls_that_look_the_same_and_write_other_content_differ() -> None:
    calls = [ToolCall("1", "write", json.dumps({"path": "a.py", "content": text})) for text in ("x = 1", "x = 2")]
    one, other = (talking(name, [name], [call]) for name, call in zip("ab", calls, strict=True))
    data = data_of(Compare(one, other))
    assert data["title"].startswith("First difference between ")
    (first,), (second,) = data["steps"]
    assert first["calls"] == second["calls"]
    assert first["commands"] != second["commands"]


def test_a_code_block_that_repeats_its_call_is_left_out() -> None:
    text = "I list the files.\n```\nls -F\n```"
    data = data_of(Compare(talking("a", [text], [LS]), talking("b", ["I look."], [LS])))
    assert data["steps"][0][0]["text"] == "I list the files."


def test_a_time_of_some_minutes_is_in_minutes() -> None:
    runs = [replace(long_run(name, [1]), duration_ms=ms) for name, ms in (("a", 970_000), ("b", 59_000))]
    (row,) = [row for row in data_of(Compare(*runs))["table"] if row["name"] == "time"]
    assert (row["a"], row["b"], row["difference"]) == ("16 min 10.0 s", "59.0 s", "\N{MINUS SIGN}15 min 11.0 s")
