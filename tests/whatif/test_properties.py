"""The law that everything else stands on: the live loop and the offline evaluation stop alike."""

from dataclasses import replace
from typing import Any

import pandas as pd
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.types import IDENTITIES, MICRO
from boolab.limits.stop import AnyOf, Threshold
from tests.support.cases import cases
from tests.support.helpers import QUIET, call, play

MANY = cases(250, suppress_health_check=[HealthCheck.too_slow])
FREE = QUIET.vary(cap={"ceiling": None})
NEVER = bl.tool_budget(10**9)

KINDS = ["steps", "calls", "doom", "tokens", "in", "out", "fresh", "weighted", "cost", "time", "errors"]
WEIGHTS = st.sampled_from([0, 1, 5, 0.1, 1.25, 0.000001])

ARGUMENTS = ['{"what": "A"}', '{"what":"A"}', '{"what": "B"}', '{"wh', '{"b": 1, "a": 2}', '{"a": 2, "b": 1}']


@st.composite
def scripts(draw: st.DrawFn, *, pauses: bool = False) -> list[Any]:
    """Scripts of repeated, varied, failing, broken and parallel calls; usage known, partly known or not."""
    names = st.sampled_from(["look"] * 6 + ["fail", "fail", "nowhere", "nowhere"] + ["ask"] * pauses)
    calls = st.builds(lambda name, text: {"name": name, "arguments": text}, names, st.sampled_from(ARGUMENTS))
    known = draw(st.sampled_from(["all", "all", "all", "none", "some"]))
    items: list[Any] = []
    for _ in range(draw(st.integers(0, 12))):
        item: dict[str, Any] = {"tool_calls": draw(st.lists(calls, min_size=1, max_size=3))}
        item["latency_ms"] = draw(st.sampled_from([0, 1, 10, 999]))
        if known == "all" or (known == "some" and draw(st.booleans())):
            item["usage"] = {
                "input_tokens": draw(st.integers(0, 50)),
                "output_tokens": draw(st.integers(0, 50)),
                "cost_usd": draw(st.sampled_from([0, 0.1, 0.25, 0.3])),
            }
            if known == "all" or draw(st.booleans()):
                item["usage"] |= {
                    "cached_tokens": draw(st.integers(0, 50)),
                    "cache_write_tokens": draw(st.integers(0, 9)),
                }
        items.append(item)
    ending = draw(st.sampled_from(["done", "done", {"error": {"status": 500}}, None]))
    return items if ending is None else [*items, ending]


@st.composite
def rules(draw: st.DrawFn, recording: bl.Run) -> bl.StopRule:
    """Nested rules, their limits drawn from the values that the recording's own counters take, and around them."""
    weights: Any = draw(st.dictionaries(st.sampled_from(["input", "cached", "written", "output"]), WEIGHTS, min_size=1))
    weighted = bl.max_tokens(0, of="weighted", weights=weights)
    frame = bl.boundaries_df(recording, bl.max_tokens(0, of="fresh") | weighted)

    def limit(counter: str, least: int = 0) -> int:
        values = [int(v) for v in frame[counter].dropna()] or [0]
        return max(least, draw(st.sampled_from(values)) + draw(st.sampled_from([0, 0, 0, 1])))

    def leaf() -> bl.StopRule:
        unknown: Any = draw(st.sampled_from(["error", "error", "ignore"]))
        kind = draw(st.sampled_from(KINDS))
        match kind:
            case "steps":
                return bl.max_steps(limit("steps"))
            case "calls":
                return bl.tool_budget(limit("tool_calls"))
            case "doom":
                return bl.doom_loop(draw(st.integers(2, 4)), draw(st.sampled_from(IDENTITIES)))
            case "tokens":
                return bl.max_tokens(limit("tokens"), on_unknown=unknown)
            case "in":
                return bl.max_tokens(limit("input_tokens"), "input_tokens", on_unknown=unknown)
            case "out":
                return bl.max_tokens(limit("output_tokens"), "output_tokens", on_unknown=unknown)
            case "fresh":
                return bl.max_tokens(limit("fresh_tokens"), "fresh", on_unknown=unknown)
            case "weighted":
                n = limit(next(weighted.leaves()).counter)
                return bl.max_tokens(n, "weighted", on_unknown=unknown, weights=weights)
            case "cost":
                return bl.max_cost(limit("cost") / MICRO, on_unknown=unknown)
            case "time":
                return bl.max_time(limit("elapsed") / 1000, on_unknown=unknown)
            case _:
                return bl.error_streak(draw(st.integers(1, 3)), on_unknown=unknown)

    def tree(depth: int) -> bl.StopRule:
        if depth == 0 or draw(st.integers(0, 2)) == 0:
            return leaf()
        a, b = tree(depth - 1), tree(depth - 1)
        return a | b if draw(st.booleans()) else a & b

    return tree(3)


def offline(run: bl.Run, rule: bl.StopRule) -> tuple[str, int, tuple[str, ...]] | None:
    """Where the rule first stops or cannot be decided, from the columns alone: an evaluation of its own."""
    frame = bl.boundaries_df(run, rule)
    column = rule(frame).astype("boolean")
    decided = column.isna() | column.fillna(value=False)
    if not decided.any():
        return None
    at = int(decided.idxmax())
    if column.isna()[at]:
        return "error", int(frame["boundary"][at]), ()
    members = rule.rules if isinstance(rule, AnyOf) else (rule,)
    true = [member for member in members if (verdict := member(frame)[at]) is not pd.NA and bool(verdict)]
    reasons = [_reason(member, frame, at) for member in true]
    return reasons[0], int(frame["boundary"][at]), tuple(reasons[1:])


def _reason(rule: bl.StopRule, frame: pd.DataFrame, at: int) -> str:
    """The reason of a true rule, by its definition: the first true member of `|`, the first member of `&`."""
    while True:
        members = getattr(rule, "rules", None)
        if members is None:
            assert isinstance(rule, Threshold)
            return rule.reason
        if isinstance(rule, AnyOf):
            rule = next(m for m in members if (v := m(frame)[at]) is not pd.NA and bool(v))
        else:
            rule = members[0]


@MANY
@given(st.data())
def test_live_stop_equals_offline_rule_in_boundary_and_reason(data: Any) -> None:
    script = data.draw(scripts())
    recording = play(script, policy=FREE, stop=NEVER)
    rule = data.draw(rules(recording))
    live = play(script, policy=FREE, stop=rule)
    expected = offline(recording, rule)
    if expected is None:
        expected = (recording.stop_reason, recording.stop_step, ())
    assert (live.stop_reason, live.stop_step, live.stop.also_fired) == expected
    if live.error is not None and live.error.startswith("UnknownCounter"):
        assert live.stop.rule is None


def same(run: bl.Run) -> bl.Run:
    """A run without what differs between two runs of the same thing."""
    return replace(run, run_id="", model="", started_at=None, continuation=None)


@MANY
@given(st.data())
def test_a_run_played_again_under_the_same_rules_is_the_same_run(data: Any) -> None:
    script = data.draw(scripts(pauses=True))
    summary = data.draw(st.sampled_from([None, "So far.", {"error": {"reset": True}}, {"tool_calls": [call("x")]}]))
    limits = {
        "max_steps": data.draw(st.sampled_from([None, 1, 2, 3, 5])),
        "tool_budget": data.draw(st.sampled_from([None, 1, 3, 6])),
        "doom_loop": data.draw(st.sampled_from([None, 2, 3])),
    }
    policy = data.draw(st.sampled_from(["boocode", "naive", "opencode_3631"]))
    first = play(bl.ScriptedModel(script, summary=summary), policy=policy, **limits)
    again = play(bl.RecordedModel(first), policy=policy, **limits)
    assert same(again) == same(first)


@MANY
@given(st.data())
def test_replayed_recording_stops_where_the_columns_say(data: Any) -> None:
    recording = play(data.draw(scripts()), policy=FREE, stop=NEVER)
    rule = data.draw(rules(recording))
    expected = offline(recording, rule)
    again = play(bl.RecordedModel(recording), policy=FREE, stop=rule)
    if expected is None:
        assert (again.stop_reason, again.stop_step) == (recording.stop_reason, recording.stop_step)
    else:
        assert (again.stop_reason, again.stop_step, again.stop.also_fired) == expected
