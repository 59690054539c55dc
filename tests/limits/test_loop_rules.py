"""Rules on loops that users report, on scripts of their reports: what stops them, and what the other rules see."""

import json
import pickle
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.types import REDACTED, ToolCall, ToolResult
from boolab.limits.call_identity import ObservedCall, call_key
from boolab.limits.detectors.similar import MAX_COMPARED, are_similar
from tests.limits.test_detector_folds import CALLS, alike
from tests.support.cases import cases

Item = dict[str, Any]


def step(*calls: tuple[str, Item], text: str = "", tokens: int | None = None) -> Item:
    made: Item = {"text": text, "tool_calls": [{"name": name, "arguments": given} for name, given in calls]}
    return made if tokens is None else {**made, "usage": {"input_tokens": tokens, "output_tokens": 10}}


def stop_of(items: list[Item], rule: bl.StopRule, results: Any = "ok") -> tuple[str, int]:
    """Why and after which step a run of a script stops. The recording of the run without a rule gives the same."""
    named = {call["name"] for item in items for call in item["tool_calls"]}
    tools = {name: results.get(name, "ok") if isinstance(results, dict) else results for name in named}
    live = bl.run_sync(None, "go", model=bl.ScriptedModel([*items, "done"], tools=tools), stop=rule)
    free = bl.run_sync(None, "go", model=bl.ScriptedModel([*items, "done"], tools=tools), stop=bl.max_steps(10_000))
    rows = bl.boundaries_df(free, rule)
    fired = [number for number, true in enumerate(rule(rows).fillna(value=False)) if true]
    assert fired[:1] == ([live.stop_step] if live.stop_reason != "finished" else [])
    return live.stop_reason, live.stop_step


A, B, C = ("read", {"path": "a.py"}), ("edit", {"path": "b.py", "old": "x"}), ("grep", {"pattern": "main"})


# --- Calls whose arguments drift --------------------------------------------------------------------------------------

PAGES = [step(("read", {"path": "session.jsonl", "offset": 49 + n, "limit": 200})) for n in range(12)]
"""typeclaw pull request 564: 895 reads of one file, at offset 49, 50, 51 and so on."""
EDITS = [step(("edit", {"path": "src/app.py", "line": 10 + n, "text": "return total"})) for n in range(12)]
"""opencode issue 32187: edits of different lines."""
WORDS = [step(("bash", {"command": f"node check.js --all --label {word}"})) for word in ("hexagon", "octagon", "cube")]
"""dmtools-agents pull request 403: a throwaway word in a command that is otherwise the same."""


@pytest.mark.parametrize("script", [PAGES, EDITS, WORDS * 4], ids=["pages", "edits", "words"])
def test_drifting_arguments_are_similar_but_never_equal(script: list[Item]) -> None:
    assert stop_of(script, bl.detectors.similar_calls(5, 0.85)) == ("stuck", 5)
    assert stop_of(script, bl.doom_loop(3)) == ("finished", 12)
    assert stop_of(script, bl.cycle(2, 3))[0] == "finished"


def test_similar_calls_with_other_results_pass_with_call_result() -> None:
    pages = [f"{chr(97 + n) * 40}\n" for n in range(12)]
    rule = bl.detectors.similar_calls(5, 0.85, "call+result")
    assert stop_of(PAGES, rule, pages) == ("finished", 12)
    counts = [f"CHANGED:{n}/{n}, none of them new" for n in range(40, 52)]  # hermes-agent pull request 103180
    assert stop_of(PAGES, rule, counts) == ("stuck", 5)
    assert stop_of(PAGES, bl.detectors.similar_calls(5, 0.85, exempt=["read"])) == ("finished", 12)


def test_another_tool_in_between_ends_similar_calls() -> None:
    script = [one for page in PAGES for one in (page, step(C))]
    assert stop_of(script, bl.detectors.similar_calls(2)) == ("finished", 24)


@cases(100)
@given(st.text("ab{}:", max_size=12), st.text("ab{}:", max_size=12), st.integers(1, 10))
@example("a" * 11, "a" * 9, 9)
@example("aaaaaaab", "aaaaaaaa", 9)
@example("\ud800a", "\ud800b", 5)
def test_texts_are_similar_by_what_they_have_in_common(one: str, other: str, tenths: int) -> None:
    assert are_similar(one, other, tenths / 10) is alike(one, other, tenths)
    assert are_similar(one, other, tenths / 10) is are_similar(other, one, tenths / 10)


def test_of_long_texts_the_two_ends_and_the_lengths_are_compared() -> None:
    half, middle = "x" * (MAX_COMPARED // 2), "y" * 5000
    long = half + middle + half
    assert are_similar(long, half + "z" * 5000 + half, 0.99)
    assert not are_similar(long, half + middle + "z" * len(half), 0.9)
    assert not are_similar(long, half + half, 0.9)
    assert are_similar(long * 1000, long * 1000, 1)


def test_similar_calls_are_unknown_where_arguments_are_kept_back() -> None:
    def count(*arguments: str) -> list[int | None]:
        watch = bl.detectors.SimilarStreak()
        state, out = watch.start, []
        for text in arguments:
            state, found = watch.fold(state, ObservedCall(ToolCall("", "t", text), ToolResult("", "")))
            out.append(found)
        return out

    assert count("{}", REDACTED, "{}", "[]") == [1, None, None, 1]
    first, second = "<redacted arguments 1: 20 chars>", "<redacted arguments 2: 20 chars>"
    assert count(first, first, second, second) == [1, 2, None, None]


@cases(100)
@given(CALLS, CALLS, st.sampled_from(("raw", "ordered", "canonical", "call+result", "tool")))
def test_calls_share_a_digest_if_and_only_if_they_are_equal(one: Any, other: Any, identity: str) -> None:
    given_calls = [(call, result or ToolResult("", "")) for call, result in (one, other)]
    observed = [ObservedCall(*pair) for pair in given_calls]
    digests = [call.digest(identity) for call in observed]
    keys = [call_key(*pair, identity) for pair in given_calls]
    assert [digest is None for digest in digests] == [key is None for key in keys]
    assert (None not in digests and digests[0] == digests[1]) is observed[0].same_as(observed[1], identity)
    assert pickle.loads(pickle.dumps(observed[0])).digest(identity) == digests[0]  # noqa: S301 - its own


# --- Alternation ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "Let me look again."])
def test_alternating_messages_are_a_cycle_despite_text_between(text: str) -> None:
    messages = [step(one, text=f"{text} {n}" if text else "") for n, one in enumerate([A, B] * 4)]
    assert stop_of(messages, bl.cycle(2, 3)) == ("stuck", 6)  # opencode issue 47759
    assert stop_of([step(A, text=text)] * 5, bl.doom_loop(3)) == ("doom_loop", 3)  # 25254, 43673
    together = [step(A, B, text=text)] * 4
    assert stop_of(together, bl.cycle(2, 3)) == ("stuck", 3)
    # OpenHands compares the text too, and needs six in a row.
    assert stop_of(messages, bl.detectors.alternating_actions(6))[0] == ("finished" if text else "stuck")


def test_interleaved_calls_hide_alternation_from_cycle_rule() -> None:
    script = [step(A), step(B), step(("ls", {"path": "1"})), step(A), step(("ls", {"path": "2"})), step(B), step(A)]
    script += [step(("ls", {"path": "3"})), step(A), step(B)]
    assert stop_of(script, bl.cycle(None, 2)) == ("finished", 10)
    assert stop_of(script, bl.detectors.call_window(4, 16)) == ("stuck", 9)
    assert stop_of(script, bl.detectors.call_window(4, 5)) == ("finished", 10)
    assert stop_of(script, bl.detectors.call_window(4, 16, exempt=["read"])) == ("finished", 10)


def test_rerun_test_with_new_results_is_no_loop_by_call_result() -> None:
    changes = [step(("edit", {"line": n, "text": "x" * n}), ("bash", {"command": "pytest"})) for n in range(8)]
    assert stop_of(changes, bl.detectors.call_window(4)) == ("stuck", 4)
    results = {"bash": [f"{8 - n} failed" for n in range(8)]}
    assert stop_of(changes, bl.detectors.call_window(4, 16, "call+result"), results) == ("finished", 8)


# --- Growth of the context --------------------------------------------------------------------------------------------


def growing(*calls: tuple[str, Item]) -> list[Item]:
    """Steps whose requests have 1000 tokens more each time."""
    return [step(one, tokens=1000 * (n + 1)) for n, one in enumerate(calls)]


def test_context_growth_stops_calls_that_repeat_their_results() -> None:
    boards = growing(A, B, C, *[A, B] * 5)  # willdady/platypus issue 268
    assert stop_of(boards, bl.detectors.context_growth(4000)) == ("stuck", 8)
    poll = growing(*[A] * 8)
    assert stop_of(poll, bl.detectors.context_growth(4000)) == ("stuck", 6)
    assert stop_of(poll, bl.detectors.context_growth(4000), [str(n) for n in range(8)]) == ("finished", 8)
    assert stop_of(poll, bl.detectors.context_growth(4000, "canonical"), [str(n) for n in range(8)]) == ("stuck", 6)


def test_work_that_is_new_lets_the_context_grow_as_it_likes() -> None:
    pages = growing(*(("read", {"offset": n}) for n in range(30)))  # smolagents issue 2566: each step sends all again
    assert stop_of(pages, bl.detectors.context_growth(1)) == ("finished", 30)
    assert stop_of(pages, bl.detectors.context_growth(5000, exempt=["read"])) == ("stuck", 6)


def test_context_growth_is_unknown_without_tokens_until_progress() -> None:
    script = [step(A, tokens=10), step(A), step(A), step(B, tokens=10), step(B, tokens=20), step(B, tokens=50)]
    rule = bl.detectors.context_growth(30, on_unknown="ignore")
    assert stop_of(script, rule) == ("stuck", 6)
    free = bl.run_sync(
        None, "go", model=bl.ScriptedModel([*script, "done"], tools={"read": "", "edit": ""}), stop=bl.max_steps(50)
    )
    counts = bl.boundaries_df(free, rule)["context_growth:call+result"]
    assert [None if one is None else int(one) for one in counts.astype(object).where(counts.notna(), None)] == [
        *(0, 0, 0, None, 0, 0, 30),
    ]


def test_context_growth_keeps_calls_without_copying_them_all() -> None:
    watch = bl.detectors.ContextGrowth("canonical")
    state = watch.start
    for number in range(2000):
        call = ToolCall("", "read", json.dumps({"offset": number}))
        state, _ = watch.fold(state, ObservedCall(call, ToolResult("", "")))
    assert sum(map(len, state[0])) == 2000
    assert len(state[0]) <= 11
