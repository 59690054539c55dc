"""Where other policies, and rules, would have stopped a recorded run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

from boolab.core.run import Run
from boolab.display.transcript import format_limit
from boolab.frames.runs import turns_of
from boolab.harnesses.policy import Policy
from boolab.harnesses.presets import get_policy
from boolab.limits.stop import StopRule, Threshold
from boolab.limits.table import LIMITS
from boolab.whatif.evaluate import counterfactual
from boolab.whatif.grid import settings_of_policy
from boolab.widgets.replay.gauges import remove_names

DEFAULT_POLICIES: Final = ("boocode", "opencode_v1", "opencode_v2", "claude_code", "gemini_cli", "openhands")
"""The policies whose stops are shown by default: widely used harnesses, each different."""

_SHORT: Final = {limit.reason: limit.short_label for limit in LIMITS.values()} | {"stuck": "stuck detector"}


def marks_of_each(
    runs: Sequence[Run], policies: Sequence[str | Policy] | None = None, rules: Sequence[StopRule] = ()
) -> list[list[dict[str, Any]]]:
    """Where each policy and rule would have stopped each of these runs; the real stop is the first mark."""
    marks = [[real_stop(run)] for run in runs]
    for policy in DEFAULT_POLICIES if policies is None else policies:
        indices = [index for index, run in enumerate(runs) if policies is not None or run.policy != policy]
        for index, mark in zip(
            indices, _policy_marks([runs[index] for index in indices], get_policy(policy)), strict=True
        ):
            marks[index].append(mark)
    for run_marks, rule_marks in zip(marks, _rule_marks(runs, rules), strict=True):
        run_marks.extend(rule_marks)
    return marks


def limits_of(
    policies: Sequence[str | Policy] | None = None, rules: Sequence[StopRule] = ()
) -> list[tuple[str, int, str]]:
    """The thresholds of policies and rules: for each its counter, its value and a name."""
    limits = []
    for policy in map(get_policy, DEFAULT_POLICIES if policies is None else policies):
        axes = settings_of_policy(policy.vary(compaction=None)).axes
        for axis in axes:
            limits += [(rule.counter, rule.threshold, policy.name) for rule in axis.rules]
    for rule in rules:
        limits += [(leaf.counter, leaf.threshold, str(rule)) for leaf in rule.leaves()]
    return limits


def real_stop(run: Run) -> dict[str, Any]:
    """The mark of the stop that is on record; a limit of cost is named by its amount, not by the harness's own word."""
    cost = run.limits.get("cost") if run.stop_reason == "cost_budget" else None
    limit = format_limit("cost", cost) if cost else run.stop.rule or run.stop_reason
    return {
        "label": limit,
        "policy": run.policy,
        "rule": run.stop.rule,
        "limit": limit,
        "reason": run.stop_reason,
        "outcome": None,
        "step": stop_boundary(run),
        "acts": "stops",
        "own": True,
        "compacts": False,
    }


def stop_boundary(run: Run) -> int:
    """How many steps of the whole run were complete when it ended; its last text is one of them."""
    if not run.censored:
        return run.n_steps
    *earlier, _ = [len(steps) for _, steps in turns_of(run)]
    return min(sum(earlier) + run.stop_step, run.n_steps)


def _policy_marks(runs: Sequence[Run], policy: Policy) -> list[dict[str, Any]]:
    plain = policy.vary(compaction=None)
    axes = settings_of_policy(plain).axes
    rules = [*chain.from_iterable((*axis.rules, *axis.responses) for axis in axes)]
    marks = []
    for run, (row,) in zip(runs, _rows(runs, policy=plain), strict=True):
        stop = _place(run, row)
        fired = [rule for rule in rules if rule.reason == stop["reason"]] if stop["step"] is not None else []
        limit = _describe_stop(stop, fired)
        rule = str(fired[0]) if len(fired) == 1 else None
        names = {"label": f"{policy.name}: {limit}", "policy": policy.name, "rule": rule, "limit": limit}
        marks.append(names | stop | {"compacts": policy.compaction is not None})
    return marks


def _rule_marks(runs: Sequence[Run], rules: Sequence[StopRule]) -> list[list[dict[str, Any]]]:
    rows = _rows(runs, rules=rules) if rules else [[] for _ in runs]
    return [
        [
            {"label": row["rule"], "policy": None, "rule": row["rule"], "limit": row["rule"], **_place(run, row)}
            for row in run_rows
        ]
        for run, run_rows in zip(runs, rows, strict=True)
    ]


def _rows(runs: Sequence[Run], **options: Any) -> list[list[dict[Any, Any]]]:  # noqa: ANN401 - as counterfactual takes it
    """For each run its rows of a counterfactual."""
    rows: dict[str, list[dict[Any, Any]]] = {str(number): [] for number in range(len(runs))}
    named_runs = [replace(remove_names(run), run_id=name) for name, run in zip(rows, runs, strict=True)]
    # Each by itself: where a limit of the recording stopped the run, one that comes there too stops it as well.
    for row in counterfactual(named_runs, own_limits="lifted", **options).to_dict("records") if named_runs else []:
        rows[row["run_id"]].append(row)
    return list(rows.values())


def _place(run: Run, row: Mapping[Any, Any]) -> dict[str, Any]:
    """The result of a counterfactual's row, with the boundary counted through the whole run."""
    stops = row["outcome"] in ("truncated", "not_identified", "unknown")
    mark = {"outcome": row["outcome"], "own": False, "compacts": False}
    if not stops:
        return mark | {"reason": None, "step": None, "acts": None}
    steps_before = (
        {turn: steps[0].index - 1 for turn, steps in turns_of(run) if steps} if row["scope"] == "turn" else {}
    )
    reason = row["stop_reason"] if isinstance(row["stop_reason"], str) else None
    step = steps_before.get(row["stop_turn"], 0) + int(row["stop_step"])
    acts = "unknown" if row["outcome"] == "unknown" else "steps in" if reason is None else "stops"
    return mark | {"reason": reason, "step": step, "acts": acts}


def describe_acting(marks: Sequence[Mapping[str, Any]]) -> str | None:
    """How many of the others would have acted before the run ended, and how; None if none would."""
    other_marks = [mark for mark in marks if not mark["own"]]
    ends = next((mark["step"] for mark in marks if mark["own"]), 0)
    n = Counter(mark["acts"] for mark in other_marks if mark["acts"] and mark["step"] < ends)
    kinds = "policies" if all(mark["policy"] for mark in other_marks) else "policies and rules"
    parts = [
        f"{n[acts]:,} {words}"
        for acts, words in (
            ("stops", "would have stopped it earlier"),
            ("steps in", "would have stepped in"),
            ("unknown", "cannot be evaluated, because a counter is not on record"),
        )
        if n[acts]
    ]
    first, *rest = parts or [""]
    number, _, words = first.partition(" ")
    return ", ".join([f"{number} of {len(other_marks):,} {kinds} {words}", *rest]) if parts else None


def _describe_stop(stop: Mapping[str, Any], fired: Sequence[Threshold]) -> str:
    """A stop in words, such as "doom loop 3"; without a number where several rules give its reason."""
    if stop["step"] is None:
        return "never"
    if stop["acts"] != "stops":
        return "not known" if stop["acts"] == "unknown" else "sends a message"
    reason: str = stop["reason"]
    name = _SHORT.get(reason, reason)
    if len(fired) != 1:
        return name
    (rule,) = fired
    if rule.counter in ("cost", "elapsed"):
        return format_limit(rule.counter, rule.threshold)
    return f"{name} {rule.threshold:,}"
