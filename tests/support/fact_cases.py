"""Random runs whose texts are equal, begin alike, or are the same under one identity only; and what is asked."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pandas as pd
from hypothesis import strategies as st

import boolab as bl
from boolab.core.messages import Message, Text
from boolab.core.redacted import TIMED_OUT
from boolab.core.run import Run
from boolab.core.types import IDENTITIES, REDACTED, Event, Response, Step, Stop, ToolCall, ToolResult, Usage
from boolab.limits.call_identity import ObservedCall
from boolab.limits.learned.features import FEATURES, FeatureReader
from boolab.limits.stop import AnyOf

ARGUMENTS: Final = (
    '{"a": 1, "b": [2]}', '{"a":1,"b":[2]}', '{"b":[2],"a":1}', '{"a":true,"b":[2]}', '{"a":1.0,"b":[2]}', "{}", "[]",
    "", '{"a":1,', "{'a': 1}", "\ud83d", '{"a":"\\ud83d"}', '{"a":1,"a":2}', '{"a":2}', REDACTED,
    "<redacted arguments 1: 3 chars>", '{"a":NaN}',
)  # fmt: skip
LONG: Final = "x" * 100
RESULTS: Final = (
    "",
    "out",
    "out ",
    LONG,
    f"{LONG}1",
    f"{LONG}2",
    f"bash {TIMED_OUT} 30 s",
    "<redacted result 1: 3 chars>",
)
TEXTS: Final = ("", "", "so", "So I look.", " ", "APPROVE", "again and again. " * 60)

failed = st.sampled_from((False, True, True, None))
calls = st.builds(
    lambda name, arguments, result: (ToolCall("", name, arguments), result),
    st.sampled_from(("ls", "ls", "bash", "a name with blanks")),
    st.sampled_from((*ARGUMENTS[:3], *ARGUMENTS)),
    st.none() | st.builds(lambda *facts: ToolResult("", *facts), st.sampled_from(RESULTS), failed),
)
tokens = st.none() | st.integers(0, 2000)


@st.composite
def sessions(draw: st.DrawFn, number: int = 0) -> Run:
    """A run of a few turns in which calls, results and texts repeat in every way that a detector tells apart."""
    made: list[Step] = []
    clock = 0
    for turn in range(1, draw(st.integers(1, 3)) + 1):
        for _ in range(draw(st.integers(1, 6))):
            pairs = draw(st.lists(calls, max_size=3))
            ids = [f"c{len(made)}{place}" for place in range(len(pairs))]
            response = Response(
                draw(st.sampled_from(TEXTS)),
                tuple(call._replace(id=one) for one, (call, _) in zip(ids, pairs, strict=True)),
                draw(st.sampled_from((None, "stop", "tool_calls", "length", "what it said"))),
                Usage(draw(tokens), draw(tokens), cost=draw(tokens)),
                draw(st.sampled_from(TEXTS)),
            )
            results = tuple(r and r._replace(call_id=one) for one, (_, r) in zip(ids, pairs, strict=True))
            took = draw(st.none() | st.integers(0, 900))
            broken = draw(st.sampled_from(("", "", "", "", "it broke")))
            counted = draw(st.sampled_from((True, True, True, False)))
            made.append(Step(len(made) + 1, turn, clock, took, took, response, results, broken, (), counted))
            clock += took or 0
    last = [step for step in made if step.turn == made[-1].turn]
    ends = not last[-1].response.tool_calls
    reason: Any = draw(st.sampled_from(("finished",) if ends else ("aborted", "error", "finished", "step_cap")))
    return Run(
        run_id=f"s{number}",
        agent=draw(st.sampled_from(("one", "two"))),
        model="m",
        policy="",
        task=draw(st.sampled_from(("django__django-1", "Find the bug.", "Find it."))),
        stop=Stop(reason, len(last) - ends, draw(st.sampled_from((None, "max_steps(9)", "what it was")))),
        steps=tuple(made),
        prompt=(Message("system", (Text("You are an agent."),)), Message("user", (Text("Find the bug."),))),
        source=draw(st.sampled_from(("boolab", "swe_agent"))),
        settings={"effort": draw(st.sampled_from(("low", "high"))), "hint": draw(st.sampled_from(("Look.", "Go on.")))},
        success=draw(st.sampled_from((True, True, False, None))),
        events=(
            Event(3, "retry", {"what": "the server is busy", "after_step": 1}),
            *(Event(3, "compaction", {"after_step": n}) for n in draw(st.sampled_from(((), (1, 2), (1, 3, 4))))),
        ),
        identity=draw(st.sampled_from(IDENTITIES)),
    )


@st.composite
def recordings(draw: st.DrawFn) -> list[Run]:
    """Some runs, of which one may have started another."""
    runs = [draw(sessions(number)) for number in range(draw(st.integers(1, 5)))]
    if len(runs) > 2 and draw(st.booleans()):
        runs[1] = replace(runs[1], parent_run_id="s0")
        started = Event(
            1, "subagent", {"run_id": "s1", "agent": "one", "call_id": "c00", "reason": None, "after_step": 1}
        )
        runs[0] = replace(runs[0], events=(*runs[0].events, started))
    return runs


RULES: Final[tuple[bl.StopRule, ...]] = (
    *(bl.doom_loop(n, identity) for n in (2, 3) for identity in IDENTITIES),
    *(bl.detectors.cycle(2, 2, identity) for identity in IDENTITIES),
    bl.detectors.cycle_detections(1),
    bl.detectors.round_streak(2),
    bl.detectors.step_repeats(2, window=3),
    bl.detectors.tool_window(2, 3),
    *(bl.detectors.call_window(2, 4, identity) for identity in IDENTITIES),
    *(bl.detectors.context_growth(1, identity) for identity in IDENTITIES),
    bl.detectors.compaction_thrash(2),
    bl.detectors.repeating_actions(2),
    bl.detectors.failing_actions(2),
    bl.detectors.alternating_actions(3),
    bl.detectors.same_error(2),
    bl.detectors.idle_streak(2),
    bl.detectors.finish_streak(2, "stop"),
    bl.detectors.stop_when(bl.detectors.TimeoutStreak(), 1),
    bl.detectors.stop_when(bl.detectors.ToolErrors(), 2),
    bl.error_streak(2),
    bl.max_steps(3),
    bl.tool_budget(2),
    bl.max_tokens(1500),
    bl.max_tokens(1500, of="fresh"),
    bl.max_tokens(1500, of="weighted", weights={"cached": 0.1, "output": 5}),
    bl.max_cost(0.001),
    bl.max_time(0.5),
    bl.deadline(2, margin=1.5),
)
"""Rules on every counter that needs no text."""

TEXT_RULES: Final = (bl.detectors.repeated_text(), bl.detectors.text_contains("APPROVE"))
"""Rules that read texts."""

POLICIES: Final = tuple(
    bl.policies[name].vary(compaction=None)
    for name in ("boocode", "crush", "goose", "openhands", "openrouter", "pydantic_ai", "roo", "swe_agent")
)
"""Presets whose detectors differ, and need no text."""

GRID: Final[dict[str, list[Any]]] = {"max_steps": [2, 4, None], "doom_loop": [2, None], "error_streak": [2, None]}


def answers(runs: Sequence[Run]) -> dict[str, Any]:
    """What boolab answers about runs."""
    found: dict[str, Any] = {
        f"counterfactual by {identity}": bl.counterfactual(runs, grid=GRID, identity=identity, progress=False)
        for identity in IDENTITIES
    }
    found["scorecard"] = bl.scorecard(runs, RULES).frame
    found["survival"] = _or_why(bl.survival, runs)
    found["recommendation"] = _or_why(bl.recommend, runs)
    found["boundaries"] = bl.boundaries_df(runs, AnyOf(RULES))
    found["steps"] = bl.steps_df(runs).drop(columns=["native_finish_reason", "finish_reason"])
    found["calls"] = bl.calls_df(runs).drop(columns=["tool", "arguments_hash", "arguments", "result"])
    return found


def _features(run: Run) -> list[list[float | None]]:
    """The features of learned rules after each step."""
    reader = FeatureReader(list(FEATURES))
    state, found = reader.start, []
    for step in run.steps:
        for call, result in zip(step.response.tool_calls, step.results, strict=True):
            if result is not None:
                state = reader.fold(state, ObservedCall(call, result, step.index))
        state = reader.close(state, step.response)
        found.append(reader.values(state))
    return found


def further_answers(runs: Sequence[Run]) -> dict[str, Any]:
    """What takes longer to answer."""
    found: dict[str, Any] = {
        policy.name: bl.counterfactual(runs, grid={"max_steps": [3]}, policy=policy, progress=False)
        for policy in POLICIES
    }
    found["rules"] = bl.counterfactual(runs, rules=RULES, progress=False)
    found["scorecard by agent"] = bl.scorecard(runs, RULES[:3], by="agent", converged=True).frame
    found["survival"] = [_or_why(bl.survival, runs, of) for of in ("tool_calls", "tokens")]
    found["features"] = [_features(run) for run in runs]
    found["runs"] = bl.runs_df(runs).drop(columns=["task", "stop_rule", "error", "hint"], errors="ignore")
    reasons = bl.finish_reasons_df(runs).drop(columns="finish_reason")  # rows of one count are in its order
    found["finish reasons"] = reasons.sort_values(list(reasons.columns), ignore_index=True)
    return found


def _or_why(ask: Any, runs: Sequence[Run], *more: Any) -> Any:
    """The frame of an answer, or why there is none."""
    try:
        return ask(runs, *more, scope="turn").frame
    except bl.SettingError as error:
        return str(error)


def assert_same(found: Any, expected: Any, where: str = "") -> None:
    """The same answers, frame by frame."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name in expected:
            assert_same(found[name], expected[name], f"{where} {name}")
    elif isinstance(expected, list):
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other, where)
    elif isinstance(expected, pd.DataFrame):
        pd.testing.assert_frame_equal(found, expected, obj=where)
    else:
        assert found == expected, where
