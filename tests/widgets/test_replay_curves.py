"""The curves of Replay's timeline: sums, limits, what is not on record, and the steps that took long."""

from dataclasses import replace
from typing import Any

import boolab as bl
from boolab.widgets.replay.gauges import curves_of, gauges_of, slow_steps


def run_of(usages: list[dict[str, Any]], **limits: Any) -> bl.Run:
    """A run whose model used this."""
    steps: list[dict[str, Any]] = [
        {"tool_calls": [{"name": "ls", "arguments": {"path": str(n)}}], "usage": one}
        for n, one in enumerate(usages[:-1])
    ]
    model = bl.ScriptedModel([*steps, {"text": "Done.", "usage": usages[-1]}], tools={"ls": "a.py"})
    return bl.run_sync(None, "Look", model=model, **limits)


def curves(run: bl.Run) -> dict[str, Any]:
    return {curve["key"]: curve for curve in curves_of(run, gauges_of(run))}


def usage(tokens: int, cost: float | None = None) -> dict[str, Any]:
    return {"input_tokens": tokens, "output_tokens": 1} | ({} if cost is None else {"cost_usd": cost})


def test_token_curve_is_drawn_without_cost_or_with_a_token_limit() -> None:
    used = [usage(10, 0.25), usage(20, 0.5), usage(30, 0.25)]
    assert set(curves(run_of(used))) == {"cost", "context"}
    assert curves(run_of(used, stop=bl.max_tokens(99)))["tokens"]["values"] == [11, 32, 63]
    assert curves(run_of([usage(10), usage(20), usage(30)]))["tokens"]["values"] == [11, 32, 63]


def test_cost_is_a_sum_and_context_is_what_was_sent() -> None:
    found = curves(run_of([usage(10, 0.25), usage(20, 0.5), usage(30, 0.25)]))
    assert found["cost"]["values"] == [0.25, 0.75, 1.0]
    assert found["context"]["values"] == [10, 20, 30]
    assert {key: curve["limit"] for key, curve in found.items()} == {"cost": None, "context": None}


def test_what_is_not_on_record_has_no_curve_and_ends_a_sum() -> None:
    found = curves(run_of([usage(10, 0.25), usage(20, 0.5), usage(30), usage(40, 0.25)]))
    assert found["cost"]["values"] == [0.25, 0.75, None, None]
    assert "cost" not in curves(run_of([usage(10, 0.25), usage(20)]))


def test_a_cost_with_a_limit_is_what_the_limit_counts() -> None:
    run = run_of([usage(10, 0.25), usage(20, 0.5), usage(30, 0.25)], stop=bl.max_cost(2))
    assert (curves(run)["cost"]["limit"], curves(run)["cost"]["values"]) == (2.0, [0.25, 0.75, 1.0])


def test_a_sum_that_starts_at_zero_in_each_turn_says_so() -> None:
    run = run_of([usage(10, 0.25), usage(20, 0.5), usage(30, 0.25), usage(40, 0.25)], stop=bl.max_cost(2))
    assert curves(run)["cost"]["label"] == "cost"
    turns = replace(run, steps=tuple(step._replace(turn=1 + (step.index > 2)) for step in run.steps))
    cost = curves(turns)["cost"]
    assert (cost["label"], cost["values"]) == ("cost (turn)", [0.25, 0.75, 0.25, 0.5])
    whole = curves(replace(turns, limits={}))["cost"]
    assert (whole["label"], whole["values"][-1]) == ("cost", 1.25)


def timed(*times: int) -> bl.Run:
    run = run_of([usage(1)] * len(times))
    return replace(run, steps=tuple(step._replace(model_ms=ms) for step, ms in zip(run.steps, times, strict=True)))


def test_step_much_slower_than_usual_is_labelled() -> None:
    assert slow_steps(timed(3000, 2000, 214_000, 3000)) == [{"step": 3, "text": "3 min 34 s"}]
    assert slow_steps(timed(3000, 2000, 9000, 3000)) == []
    assert slow_steps(timed(10, 10, 9000, 10)) == []
