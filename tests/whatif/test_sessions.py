"""Sessions of many turns under limits, against the live loop: each turn is played again by itself."""

import itertools
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from boolab.core.run import Run
from boolab.core.types import MICRO, Step
from boolab.runtime.models.scripted import ScriptedModel
from boolab.whatif.evaluate import counterfactual
from tests.support.helpers import play
from tests.whatif.test_evaluate import rows_by, rule_of
from tests.whatif.test_properties import FREE, MANY, NEVER, scripts

LIMITS = {
    "max_steps": st.integers(1, 6),
    "doom_loop": st.integers(2, 4),
    "tool_budget": st.integers(1, 8),
    "error_streak": st.integers(1, 3),
}


def session_of(turns: list[Run]) -> Run:
    """Runs as the turns of one session, which ends as the last one did."""
    out: list[Step] = []
    clock = 0
    for number, run in enumerate(turns, 1):
        out += [
            step._replace(turn=number, index=len(out) + place, start_ms=(step.start_ms or 0) + clock)
            for place, step in enumerate(run.steps, 1)
        ]
        clock += run.duration_ms or 0
    last = turns[-1]
    return replace(last, steps=tuple(out), success=True)


def script_of(turn: Run) -> ScriptedModel:
    """The responses of a turn as a script of their own: the tools answer again as they did."""
    items: list[Any] = []
    for step in turn.steps:
        response = step.response
        usage = {"input_tokens": response.usage.input_tokens, "output_tokens": response.usage.output_tokens}
        if response.usage.cost is not None:
            usage["cost_usd"] = response.usage.cost / MICRO  # type: ignore[assignment] # dollars
        calls = [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in response.tool_calls]
        items.append({"text": response.text, "tool_calls": calls, "usage": usage})
    return ScriptedModel(items)


@MANY
@given(st.data())
def test_each_turn_under_a_limit_spends_as_the_live_loop_does(data: Any) -> None:
    made = [data.draw(scripts()) for _ in range(data.draw(st.integers(1, 3)))]
    turns = [play([item for item in items if "error" not in item] + ["done"], policy=FREE, stop=NEVER)
             for items in made]  # fmt: skip
    session = session_of(turns)
    names = data.draw(st.lists(st.sampled_from(sorted(LIMITS)), min_size=1, max_size=2, unique=True))
    grid = {name: data.draw(st.lists(LIMITS[name], min_size=1, max_size=2, unique=True)) for name in names}
    rows = rows_by(counterfactual(session, grid=grid, scope="turn"), [*grid])
    for values in itertools.product(*grid.values()):
        row, rule = rows[values], rule_of(dict(zip(grid, values, strict=True)))
        again = [play(script_of(turn), policy=FREE, stop=rule) for turn in turns]
        if any((run.error or "").startswith("UnknownCounter") for run in again):
            assert row["outcome"] == "unknown" or row["outcome"] == "not_identified"
            continue
        assert row["steps"] == sum(run.n_steps for run in again)
        assert row["tool_calls"] == sum(run.n_tool_calls for run in again)
        stopped = [run for run in again if run.stop_reason != "finished"]
        assert (row["outcome"] == "unchanged") == (not stopped)
        assert row["steps"] + row["saved_steps"] == session.n_steps
        early = any(run.stop_reason != "finished" for run in again[:-1])
        assert row["saved_is"] == ("estimate" if early else "exact")
