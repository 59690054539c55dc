"""Typical mistakes are refused with what is right, and findings behave as tables do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

import boolab as bl

RUNS = [
    replace(bl.run_sync(None, "x", model=bl.ScriptedModel(["Hi."])), run_id=f"a-long-name-of-a-set/and-a-model/{n}")
    for n in range(3)
]
RULE = (bl.max_steps(3) & bl.tool_budget(4)) | bl.doom_loop(3)


def test_findings_have_rows() -> None:
    found: Any = bl.recommend(RUNS)
    rows = list(found)
    assert len(rows) == len(found) == 1
    assert rows[0]["n_units"] == 3
    assert pd.DataFrame(found)["n_units"].tolist() == [3]
    with pytest.raises(AttributeError, match=r"did you mean .setting\['max_steps'\]"):
        _ = found.max_steps
    with pytest.raises(AttributeError, match="no attribute 'colour'$"):
        _ = found.colour


def test_representations_are_short() -> None:
    assert repr(RULE) == "max_steps(3) & tool_budget(4) | doom_loop(3, canonical)"
    agent = bl.Agent("a", tools=("look",), prompt="x" * 900, max_steps=5, doom_loop=None)
    assert repr(agent) == "Agent('a', tools=['look'], max_steps=5, doom_loop=None)"
    assert len({repr(run) for run in RUNS}) == 3
    assert all(len(repr(run)) < 120 for run in RUNS)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bl.counterfactual(RUNS, max_steps=[10]), r"did you mean grid=\{'max_steps': \[10\]\}"),  # type: ignore[call-overload]
        (lambda: bl.scorecard(RUNS, "doom_loop"), "'doom_loop' is not a stop rule"),  # type: ignore[arg-type]
        (lambda: ~RULE, "a rule has no opposite"),
        (lambda: RULE | 5, "expected stop rules"),  # type: ignore[operator]
        (lambda: 5 & RULE, "expected stop rules"),
        (lambda: (RULE & RULE) & 5, "expected stop rules"),  # type: ignore[operator]
        (lambda: bl.Compare(RUNS), "Compare takes two runs, not 3"),
        (lambda: bl.Compare("boocode", "claudecode"), "did you mean 'claude_code'"),
        (lambda: bl.step_cap, "did you mean 'max_steps'"),  # type: ignore[attr-defined]
        (lambda: bl.recommend(RUNS, keep=1.0), "without these two"),
        (lambda: bl.Agent(" "), "' ' is no name"),
        (lambda: bl.label(RUNS, {RUNS[0].run_id: "maybe"}), "accepted: True, False, .*yes, no"),
    ],
)
def test_mistakes_are_refused_with_what_is_right(call: Callable[[], object], message: str) -> None:
    with pytest.raises((bl.SettingError, TypeError, AttributeError), match=message):
        call()


def test_a_grid_may_be_given_by_place() -> None:
    pd.testing.assert_frame_equal(
        bl.counterfactual(RUNS, {"max_steps": [3]}), bl.counterfactual(RUNS, grid={"max_steps": [3]})
    )


@pytest.mark.parametrize(
    ("word", "success"), [("yes", True), ("Fail", False), ("0", False), ("passed", True), ("", None)]
)
def test_labels_may_be_words(word: str, *, success: bool | None) -> None:
    assert bl.label(RUNS, {RUNS[0].run_id: word})[0].success is success
