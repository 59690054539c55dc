"""The law of the monitor: it stops where the live loop and the offline rule stop, for the same reason."""

import functools
import pickle
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import boolab as bl
from boolab.core.types import Scope, Step
from boolab.errors import UnknownCounter
from boolab.limits.guard import Guard
from boolab.limits.learned.models import LinearModel
from boolab.limits.learned.rule import LearnedFrom, LearnedRisk, Promise, learned_rule
from tests.support.cases import cases
from tests.support.helpers import play
from tests.whatif.test_evaluate import row_of
from tests.whatif.test_presets import TOOLBOX, asked, live
from tests.whatif.test_presets import scripts as preset_scripts
from tests.whatif.test_properties import FREE, NEVER, rules, scripts

NUMBERS = pytest.mark.parametrize("number", [30, pytest.param(500, marks=pytest.mark.slow)])
"""How many random cases: 30 in `make test`, 500 in `make slow`."""
EACH = cases(40, suppress_health_check=list(HealthCheck))
UNKNOWN = ("unknown", 0, ())
"""What a monitor that raises `UnknownCounter` comes to."""


class Found(NamedTuple):
    """Where a monitor stopped: the turn, the reason, the step in the scope, and what else was true."""

    turn: int
    reason: str
    step: int
    also_fired: tuple[str, ...] = ()


def guarded(run: bl.Run, monitor: bl.Monitor, pickled_before: int | None = None) -> Found | None:
    """A foreign loop that does what a recording did, with a monitor: where it is stopped, or cannot be decided.

    Args:
        run: The recording.
        monitor: The monitor.
        pickled_before: Before which step the monitor is pickled and read again.
    """
    opened, turn = 0, 1
    for step in run.steps:
        if step.index == pickled_before:
            monitor = pickle.loads(pickle.dumps(monitor))  # noqa: S301 - its own
        if step.turn != turn:
            turn = step.turn
            monitor.open_turn()
            opened = (step.start_ms or 0) if monitor.scope == "turn" else 0
        try:
            if monitor.verdict.action == "stop":
                return _found(turn, monitor.verdict.stop)
            calls, usage = step.response.tool_calls, step.response.usage
            if step.error and not calls:  # the request failed: there is no response to evaluate
                return None
            verdict = monitor.before(calls, usage)
            if verdict.action == "stop":
                return _found(turn, verdict.stop)
            if not _counts(run, step, monitor.scope):
                continue
            known = step.start_ms is not None and step.duration_ms is not None
            elapsed = (step.start_ms or 0) + (step.duration_ms or 0) - opened if known else None
            monitor.after(calls, step.results, usage, step.response.text, elapsed)
        except UnknownCounter:
            return Found(turn, *UNKNOWN)
    return _found(turn, monitor.verdict.stop) if monitor.verdict.action == "stop" else None


def _counts(run: bl.Run, step: Step, scope: Scope) -> bool:
    """Whether a boundary follows a step: in a turn all but a final text, in a run all but the last."""
    last = step.index == len(run.steps)
    if last and (step.error or run.stop_reason == "finished"):
        return False  # the run ended with it
    return scope == "run" or any(step.results) or not (last or run.steps[step.index].turn != step.turn)


def _found(turn: int, stop: Any) -> Found:
    return Found(turn, stop.reason, stop.step, stop.also_fired)


def offline(run: bl.Run, **how: Any) -> Found | None:
    """What `bl.counterfactual` gives for the same."""
    row = row_of(bl.counterfactual(run, own_limits="lifted", **how))
    if row["outcome"] == "unknown":
        return Found(0, *UNKNOWN)
    if row["outcome"] not in ("truncated", "not_identified"):  # the latter where later turns follow the stop
        return None
    turn = row["stop_turn"] if row["scope"] == "turn" else 0
    return Found(turn, row["stop_reason"], row["stop_step"], tuple(filter(None, row["also_fired"].split(","))))


def in_turns(first: bl.Run, *more: bl.Run) -> bl.Run:
    """Recordings as the turns of one."""
    steps: list[Step] = []
    for turn, run in enumerate((first, *more), 1):
        begun = sum(step.duration_ms or 0 for step in steps)
        for step in run.steps:
            steps.append(step._replace(index=len(steps) + 1, turn=turn, start_ms=begun + (step.start_ms or 0)))
    return replace(more[-1] if more else first, steps=tuple(steps), continuation=None)


@st.composite
def recordings(draw: st.DrawFn) -> bl.Run:
    """Recordings of one to three turns, some of whose calls were dropped."""
    made = ([one for one in draw(scripts()) if "tool_calls" in one] for _ in range(draw(st.integers(1, 3))))
    played = [play([*items, "done"], policy=FREE, stop=NEVER) for items in made]
    run = in_turns(*played)
    dropped = draw(st.sets(st.tuples(st.integers(1, 12), st.integers(0, 2)), max_size=3))
    steps = [
        step._replace(results=tuple(None if (step.index, n) in dropped else got for n, got in enumerate(step.results)))
        for step in run.steps
    ]
    return replace(run, steps=tuple(steps))


LEARNED = learned_rule(
    LearnedRisk(LinearModel(("calls_streak", "steps"), (2.0, 0.1), -2.0, (0.7, 0.0))),
    700_000_000,
    Promise(0.95, None, 60),
    LearnedFrom(9, 4, 9, 50, "ab"),
)


@st.composite
def any_rules(draw: st.DrawFn, run: bl.Run) -> bl.StopRule:
    """Nested rules, the rule of a preset, and a learned one."""
    kind = draw(st.sampled_from(["nested", "nested", "preset", "learned"]))
    if kind == "learned":
        return LEARNED | draw(rules(run))
    if kind == "preset":
        policy = bl.policies[draw(st.sampled_from(sorted(bl.policies)))]
        asked_for = {name: draw(st.integers(2, 6)) for name in policy.order if draw(st.booleans())}
        rule = policy.rule(policy.effective(asked_for, no_agent=True))
        if rule is not None:
            return rule
    return draw(rules(run))


@NUMBERS
def test_a_monitor_stops_a_recording_where_the_offline_rule_does(number: int) -> None:
    @settings(max_examples=number, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def holds(data: Any) -> None:
        run = data.draw(recordings())
        rule = data.draw(any_rules(run))
        scope = data.draw(st.sampled_from(["turn", "run"]))
        found = guarded(run, bl.Monitor(rule, scope=scope), data.draw(st.integers(1, 20)))
        expected = offline(run, rules=rule, scope=scope)
        if found is not None and (scope == "run" or found.reason == "unknown"):
            found = found._replace(turn=0)
        assert found == expected

    holds()


@NUMBERS
def test_a_monitor_stops_where_the_live_loop_does(number: int) -> None:
    @settings(max_examples=number, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def holds(data: Any) -> None:
        script = data.draw(scripts())
        recording = play(script, policy=FREE, stop=NEVER)
        rule = data.draw(any_rules(recording))
        found = guarded(recording, bl.Monitor(rule), data.draw(st.integers(1, 12)))
        again = play(script, policy=FREE, stop=rule)
        if found is None:
            assert (again.stop_reason, again.stop_step) == (recording.stop_reason, recording.stop_step)
        elif found.reason == "unknown":
            assert (again.error or "").startswith("UnknownCounter")
        else:
            assert (again.stop_reason, again.stop_step, again.stop.also_fired) == found[1:]

    holds()


@pytest.mark.parametrize("name", [name for name, policy in bl.policies.items() if policy.unseen])
def test_monitor_with_preset_limits_stops_as_the_live_loop(name: str) -> None:
    preset = bl.policies[name].vary(wrap_up={"summary": "none"})

    @EACH
    @given(st.data())
    def holds(data: Any) -> None:
        recording = play(data.draw(preset_scripts()), agent=bl.Agent("t", tools=TOOLBOX, policy=preset), stop=NEVER)
        policy, grid = data.draw(asked(recording, preset))
        again = live(recording, policy, grid)
        if grid is not None:
            limits = {"max_tokens": "tokens", "max_cost": "cost", "max_time": "seconds"}
            spend = {field: grid[axis][0] for axis, field in limits.items() if axis in grid}
            policy = policy.vary(cap={"ceiling": None}, budgets=spend)
        given_ = None if grid is None else {n: grid[n][0] if n in grid else None for n in policy.order}
        held = policy.effective(given_ or {}, no_agent=grid is None)
        at_response = [rule for rule in (policy.response_rule(held),) if rule is not None]
        at_response += [_stop_of(guard) for guard in policy.detectors.guards if guard.check == "response"]
        rule = policy.rule(held)
        if rule is None and not at_response:
            return
        monitor = bl.Monitor(rule, at_response=_any(at_response))
        found = guarded(recording, monitor, data.draw(st.integers(1, 12)))
        if found is not None and found.reason == "unknown":
            assert (again.error or "").startswith("UnknownCounter")
        elif found is not None:
            assert (again.stop_reason, again.stop_step) == found[1:3]
        else:
            assert (again.stop_reason, again.stop_step) == (recording.stop_reason, recording.stop_step)

    holds()


@pytest.mark.parametrize("cap", range(1, 6))
def test_a_monitor_is_not_asked_about_a_request_that_failed(cap: int) -> None:
    policy = bl.policies["langchain_agent"].vary(cap={"ceiling": None})
    agent = bl.Agent("t", tools=TOOLBOX, policy=policy)
    recording = play([{"tool_calls": [{"name": "look"}]}, {"error": {"status": 500}}], agent=agent, stop=NEVER)
    again = live(recording, policy, {"max_steps": [cap]})
    held = policy.effective({"max_steps": cap}, no_agent=False)
    found = guarded(recording, bl.Monitor(policy.rule(held), at_response=policy.response_rule(held)))
    stopped = (recording.stop_reason, recording.stop_step) if found is None else found[1:3]
    assert (again.stop_reason, again.stop_step) == stopped


def _stop_of(guard: Guard) -> bl.StopRule:
    return guard.at(next(at for at, action in guard.ladder if action == "stop"))


def _any(rules_: list[bl.StopRule]) -> bl.StopRule | None:
    return functools.reduce(lambda a, b: a | b, rules_) if rules_ else None
