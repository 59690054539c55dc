"""A run as the plain data that replay.js draws: everything that it shows is prepared here.

Texts are raw: the browser makes control characters visible. Money is in dollars, times are milliseconds from the run's
start, None is unknown. Steps count from 1, boundaries from 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

from boolab.core.redacted import is_redacted
from boolab.core.run import Run, stop_place
from boolab.core.text import count
from boolab.core.types import REDACTED
from boolab.display.numbers import duration, money, short_number
from boolab.display.text import NO_NAME
from boolab.display.tool_kinds import KINDS
from boolab.harnesses.policy import Policy
from boolab.io.resources import shared_path
from boolab.limits.stop import StopRule
from boolab.widgets._base.run_texts import calls_of, dollars_of, tokens_of
from boolab.widgets.replay.bill import bill_of
from boolab.widgets.replay.cards import is_refused
from boolab.widgets.replay.events import Child, children_of, moments_of, rows_between
from boolab.widgets.replay.gauges import counts_by_turn, curves_of, gauges_of, slow_steps
from boolab.widgets.replay.header import MIN_STREAK, header_of, sum_usage
from boolab.widgets.replay.steps import (
    call_streaks,
    flag_steps,
    opening_messages,
    outline_of,
    requests_of,
    step_rows,
    turn_rows,
)
from boolab.widgets.replay.what_if_marks import describe_acting, limits_of, marks_of_each, stop_boundary

MAX_GENERATIONS: Final = 20
"""How many generations of subagents one Replay has."""


def replay_data(
    run: Run,
    policies: Sequence[str | Policy] | None = None,
    rules: Sequence[StopRule] = (),
    runs: Sequence[Run] = (),
) -> dict[str, Any]:
    """A run as plain data, with those of `runs` that are subagents of it."""
    return replays_data([run], policies, rules, runs)[0]


def replays_data(
    chosen_runs: Sequence[Run],
    policies: Sequence[str | Policy] | None = None,
    rules: Sequence[StopRule] = (),
    runs: Sequence[Run] = (),
) -> list[dict[str, Any]]:
    """The same for several runs: other policies are evaluated once for all of them."""
    families = [_family(run, runs, frozenset({run.run_id})) for run in chosen_runs]
    marks = iter(marks_of_each([*chain.from_iterable(map(_members, families))], policies, rules))
    limits = limits_of(policies, rules)
    return [_data(family, marks, limits) for family in families]


class _Family(NamedTuple):
    """A run with the runs that it started, and those that they did."""

    run: Run
    children: list[tuple[Child, _Family]]
    left_out: int = 0
    """How many more it started that are too far down."""


def _family(run: Run, runs: Sequence[Run], above: frozenset[str]) -> _Family:
    children = [child for child in children_of(run, runs) if child.run.run_id not in above]
    if len(above) == MAX_GENERATIONS:
        return _Family(run, [], len(children))
    return _Family(run, [(child, _family(child.run, runs, above | {child.run.run_id})) for child in children])


def _members(family: _Family) -> Iterator[Run]:
    """All runs of a family, in the order in which `_data` comes to them."""
    yield family.run
    for _, child_family in family.children:
        yield from _members(child_family)


def _data(
    family: _Family, marks_of_members: Iterator[list[dict[str, Any]]], limits: Sequence[tuple[str, int, str]]
) -> dict[str, Any]:
    run = family.run
    marks = next(marks_of_members)
    opening = opening_messages(run)
    turns = turn_rows(run, opening)
    children = [child for child, _ in family.children]
    nested = {(child.step, child.call): number for number, child in enumerate(children)}
    opened_ids = {child.run.run_id for child in children if child.call is not None}
    streaks = call_streaks(run)
    longest = max(chain.from_iterable(streaks), default=0)
    steps = step_rows(run, turns, moments_of(run, opening, opened_ids), streaks, nested)
    flag_steps(steps, marks)
    rows = rows_between(run, marks, children)
    gauges, bill = gauges_of(run, limits), bill_of(run)
    return {
        "run_id": run.run_id,
        "title": run.agent or NO_NAME,
        "header": header_of(run, marks, longest),
        "pills": _pills(run),
        "stop": _stop(run),
        "finding": _finding(longest, marks),
        "acting": describe_acting(marks),
        "notes": [*_notes(run), *_marking_notes(marks), *_children_notes(children, family.left_out)],
        "kinds": dict(KINDS),
        "timed": is_timed(run),
        "unknown_errors": all(call["error"] is None for call in chain.from_iterable(step["calls"] for step in steps)),
        "duration_ms": run.duration_ms,
        "turns": turns,
        "counts_by_turn": len(turns) > 1 and counts_by_turn(run),
        "steps": steps,
        "gauges": gauges,
        "curves": [curve for curve in curves_of(run, gauges) if bill is None or curve["key"] != "context"],
        "bill": bill,
        "slow": slow_steps(run),
        "marks": marks,
        "between": rows,
        "outline": outline_of(turns, steps, {row["after"] for row in rows}),
        "requests": requests_of(run),
        "code": code_of(run),
        "children": [
            {
                "step": child.step,
                "call": child.call,
                "start_ms": child.start_ms,
                "duration_ms": child.run.duration_ms,
                "run": _data(child_family, marks_of_members, limits),
            }
            for child, child_family in family.children
        ],
    }


# --- The run in a few words -------------------------------------------------------------------------------------------


def is_timed(run: Run) -> bool:
    """Whether a run's steps have times, and some passed."""
    if not run.steps or any(step.start_ms is None for step in run.steps):
        return False
    last = run.steps[-1]
    return last.duration_ms is not None and (last.start_ms or 0) + last.duration_ms > 0


def _pills(run: Run) -> list[str]:
    tokens, dollars = tokens_of(run), dollars_of(run)
    pills = [f"{count(run.n_steps, 'step')} · {count(run.n_tool_calls, 'call')}"]
    turns = len({step.turn for step in run.steps})
    pills += [count(turns, "turn")] if turns > 1 else []
    pills += [] if tokens is None else [f"{short_number(tokens)} tokens"]
    pills += [] if dollars is None else [money(dollars)]
    pills += [duration(run.duration_ms)] if run.duration_ms else []
    return pills


def _stop(run: Run) -> dict[str, Any]:
    text = f"{run.stop_reason} {stop_place(run)}"
    if run.stop.rule:
        text += f": {run.stop.rule}"
    if run.error:
        text += f" ({run.error})"
    return {"reason": run.stop_reason, "step": stop_boundary(run), "text": text}


def _finding(longest: int, marks: Sequence[dict[str, Any]]) -> str | None:
    repeated = f"{longest:,} identical calls in a row" if longest >= MIN_STREAK else None
    return "; ".join(filter(None, (repeated, describe_acting(marks)))) or None


def _notes(run: Run) -> Iterator[str]:
    results = [result for result in chain.from_iterable(step.results for step in run.steps) if result is not None]
    calls = [*calls_of(run)]
    usages = [step.response.usage for step in run.steps]
    n = len(run.steps)
    errors = [result.is_error is not None or is_refused(result.content) for result in results]
    unknown = {
        "times": sum(step.start_ms is None for step in run.steps),
        "tokens": sum(usage.input_tokens is None for usage in usages),
        "costs": sum(usage.cost is None for usage in usages),
    }
    nowhere = [name for name, missing in unknown.items() if n and missing == n]
    tokens, dollars = sum_usage(run)
    sums = [name for name, total in (("tokens", tokens), ("costs", dollars)) if name in nowhere and total is not None]
    nowhere = [name for name in nowhere if name not in sums]
    nowhere += ["errors"] if errors and not any(errors) else []
    nowhere += [] if run.limits else ["limits"]
    if nowhere:
        yield f"Not on record: {', '.join(nowhere)}."
    if sums:
        yield f"On record for the whole run, not for each step: {' and '.join(sums)}."
    if n and not is_timed(run) and not unknown["times"]:
        yield "No time passed."
    for name, missing in unknown.items():
        if 0 < missing < n:
            yield f"{name.capitalize()} of {count(missing, 'step')} are not on record."
    if any(errors) and not all(errors):
        yield f"Whether {count(errors.count(False), 'call')} failed is not on record."
    hidden_count = sum(call.arguments == REDACTED for call in calls)
    if hidden_count:
        yield f"The log leaves out the arguments of {count(hidden_count, 'call')}."
    if any(is_redacted(call.arguments) for call in calls) or any(is_redacted(result.content) for result in results):
        yield "The texts are not on record: their sizes are shown, and which of them are equal is known."
    if run.limits and len({step.turn for step in run.steps}) > 1:
        yield "Counters start at zero in each turn." if counts_by_turn(run) else "Limits hold for the whole run."


def _marking_notes(marks: Sequence[dict[str, Any]]) -> Iterator[str]:
    names = [mark["policy"] for mark in marks if mark["compacts"]]
    if names:
        yield f"Evaluated without compaction of the history: {', '.join(names)}."
    names = [mark["policy"] for mark in marks if mark["acts"] == "steps in"]
    if names:
        yield f"Would have sent the model a message, and what would have followed is unknown: {', '.join(names)}."


def _children_notes(children: Sequence[Child], left_out: int) -> Iterator[str]:
    if left_out:
        deeper_text = f"{count(left_out, 'subagent')}, below the {MAX_GENERATIONS} generations of this Replay"
        yield f"It started {deeper_text}: open its own."
    unplaced_count = sum(child.call is None for child in children)
    if unplaced_count:
        yield f"Which calls started {count(unplaced_count, 'subagent')} is not on record."


def code_of(run: Run, store: str | Path | None = None) -> list[str]:
    """The code before and after the number of the step; one without a file is looked for in a list `runs`."""
    lines = ["import boolab as bl", ""]
    if store is not None:
        return ["\n".join([*lines, f"bl.Replay({shared_path(str(store))!r}, step="]), ")"]
    if run.path is None:
        lines += ["# runs: a list with this run, which was not read from a file", "runs = bl.with_subagents(runs)"]
    else:
        lines.append(f"runs = bl.with_subagents(bl.load_runs({shared_path(run.path)!r}))")
    lines += [f"run = next(one for one in runs if one.run_id == {run.run_id!a})", "bl.Replay(run, step="]
    return ["\n".join(lines), ", runs=runs)"]
