"""The verdict on one limit in one run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final, Literal, NamedTuple, TypeAlias

from boolab.core.endings import is_terminated
from boolab.core.run import Run
from boolab.core.text import count, shorten
from boolab.core.types import MICRO, Scope
from boolab.display.numbers import number
from boolab.frames.runs import known_sum
from boolab.harnesses.policy import Policy
from boolab.limits.table import BUDGETS, LIMIT_OF_REASON, LIMITS
from boolab.live.audits.count import Counted, calls_of, count_limit, tokens_of
from boolab.live.audits.declared import THE_LOG, Declared, RunLimit, limits_of
from boolab.logs.log_files import scope_of

Verdict: TypeAlias = Literal["exceeded", "hit", "at limit", "kept", "never near", "unknown"]

VERDICTS: Final[dict[Verdict, str]] = {
    "exceeded": "the run continued beyond what the harness's rule allows",
    "hit": "the log shows that the limit stopped the run, or a turn of it",
    "at limit": "it ended in the middle at the limit, and the log names no cause",
    "kept": "the run ended at half of the limit or above, not by it",
    "never near": "the run ended below half of the limit",
    "unknown": "the log does not show what the limit counts",
}
"""Each verdict, the most serious first, with what it means."""

NEAR: Final = 0.5
"""The share of a limit from which on a run was near it."""

_REASONS: Final = {limit.name: limit.reason for limit in LIMITS.values()} | {
    "messages": "step_cap",
    "rollout_tokens": "token_budget",
    "working": "time_budget",
    "compact_at": "",
}
_UNITS: Final = {LIMITS[name].reason: LIMITS[name].unit for name in ("tool_budget", *BUDGETS)} | {
    "step_cap": "as the harness counts"
}
"""The units of the limits that a stop may be by, by its reason."""
_REFUSED: Final = re.compile(r"boolab: Stopped after step \d+ by (\w+)\((\d+)")
"""How the message of boolab's own hook begins: see `boolab.limits.monitor.reason_of`."""


class VerdictRow(NamedTuple):
    """One limit in one run: see `boolab.live.audits.audit.audit`."""

    run_id: str
    agent: str
    source: str
    limit: str
    declared: float | None
    where: str
    unit: str
    counted: float | None
    verdict: Verdict
    first_step_beyond: int | None = None
    steps_beyond: int | None = None
    calls_beyond: int | None = None
    tokens_beyond: int | None = None
    cost_beyond_usd: float | None = None
    reported_finished: bool = False
    note: str = ""
    later_config: bool = False
    """Whether the file that declares the limit was changed after the run began."""


def rows_of(
    run: Run,
    declared: Iterable[Declared],
    policy: Policy | str | None,
    scope: Scope,
    family: Sequence[Run] = (),
    *,
    log: bool,
) -> list[VerdictRow]:
    """A row for each limit of a run; `family`: the run and its subagents."""
    limits = limits_of(run, declared, policy, log=log)
    rows = [_row(run, limit, limits, scope, family) for limit in limits]
    if (
        log
        and run.stop.reason in _UNITS
        and not any(_REASONS[limit.native.axis] == run.stop.reason for limit in limits)
    ):
        rows.append(_stop_row(run))
    return rows


def _stop_row(run: Run) -> VerdictRow:
    """The row of a limit of which the log shows only that it stopped the run."""
    stop = run.stop
    per_unit = LIMITS[LIMIT_OF_REASON[stop.reason]].per_unit
    amounts = [None if amount is None else amount / per_unit for amount in (stop.threshold, stop.value)]
    name = (stop.rule or stop.reason).partition("(")[0]
    note = "" if stop.threshold is not None else "the log does not show the limit, only that it stopped the run"
    unit = _UNITS[stop.reason]
    return VerdictRow(run.run_id, run.agent, run.source, name, amounts[0], THE_LOG, unit, amounts[1], "hit", note=note)


def _row(run: Run, limit: RunLimit, limits: list[RunLimit], scope: Scope, family: Sequence[Run]) -> VerdictRow:
    native = limit.native
    holds: Scope = scope if scope != "auto" else native.scope if native.scope != "auto" else scope_of(run.source)
    count = count_limit(run, native, limit.value, limit.policy, holds, family)
    if count.value is None:
        count = count._replace(value=_total(run, limit))
    stopped = _is_stopped_by(run, limit, limits, count.value) or count.canned or _is_refused_by(run, limit)
    verdict = _verdict(count, limit.value, stopped=stopped)
    notes = list(_notes(run, limit, count, stopped=stopped))
    reported = verdict == "hit" and _looks_finished(run, limit, canned=count.canned)
    if reported:
        notes.append("reported as finished")
    steps_beyond = count.steps_beyond if verdict == "exceeded" else ()
    cost = known_sum(step.response.usage.cost for step in steps_beyond)
    return VerdictRow(
        run.run_id,
        run.agent,
        run.source,
        limit.name,
        limit.value,
        limit.where,
        count.unit,
        count.value,
        verdict,
        steps_beyond[0].index if steps_beyond else None,
        len(steps_beyond) if steps_beyond else None,
        calls_of(steps_beyond) if steps_beyond else None,
        tokens_of(steps_beyond) if steps_beyond else None,
        cost / MICRO if steps_beyond and cost is not None else None,
        reported,
        "; ".join(notes),
        _is_later(run, limit),
    )


def _verdict(count: Counted, declared: float, *, stopped: bool) -> Verdict:
    if count.steps_beyond:
        return "exceeded"
    if stopped:
        return "hit"
    if count.at_limit:
        return "at limit"
    if count.value is None:
        return "unknown"
    if count.value > declared and not count.is_over:
        return "unknown"  # the log has a total of the whole run alone, and its last response may have crossed the limit
    return "never near" if count.value < NEAR * declared else "kept"


def _total(run: Run, limit: RunLimit) -> float | None:
    """What the log gives for the whole run, where it gives nothing by step."""
    if limit.native.axis not in ("max_cost", "max_tokens"):
        return None
    axis = LIMITS[limit.native.axis]
    totals = [event.payload.get(axis.counter) for event in run.events if event.kind == "totals"]
    amounts = [amount for amount in totals if isinstance(amount, int)]
    return amounts[-1] / axis.per_unit / limit.native.factor if amounts else None


def _is_stopped_by(run: Run, limit: RunLimit, limits: list[RunLimit], value: float | None) -> bool:
    """Whether this limit stopped the run: by reason, the rule's name, and the threshold or the count."""
    if run.stop.reason != _REASONS[limit.native.axis]:
        return False
    rule = (run.stop.rule or "").partition("(")[0].lower()
    if run.stop.threshold is not None:
        is_reached = run.stop.threshold in _thresholds(limit)
    else:
        is_reached = _is_named(rule, limit) or value is None or value >= limit.value
    other_limits = [other for other in limits if other is not limit and _REASONS[other.native.axis] == run.stop.reason]
    return is_reached and (_is_named(rule, limit) or not any(_is_named(rule, other) for other in other_limits))


def _is_refused_by(run: Run, limit: RunLimit) -> bool:
    """Whether boolab's own hook refused a call for this limit: its message is the call's result."""
    results = chain.from_iterable(step.results for step in run.steps)
    texts = (result.content for result in results if result is not None and result.is_error)
    refusals = filter(None, map(_REFUSED.match, texts))
    return any(refusal[1] == limit.native.axis and float(refusal[2]) == limit.value for refusal in refusals)


def _is_named(rule: str, limit: RunLimit) -> bool:
    return bool(rule) and rule.replace("_", "") in (
        limit.name.replace("_", "").lower(),
        limit.native.axis.replace("_", ""),
    )


def _thresholds(limit: RunLimit) -> tuple[float, ...]:
    """The limit in the units in which a stop has its threshold."""
    value = limit.value * limit.native.factor
    return (value, value + 1, value * MICRO, value * 1000)


def _looks_finished(run: Run, limit: RunLimit, *, canned: bool) -> bool:
    """Whether the harness has the same word for this end as for that of a run that finished."""
    words = {} if limit.policy is None else dict(limit.policy.about.own_words)
    key = f"step_cap, {'odd' if limit.value % 2 else 'even'} cap" if canned else run.stop.reason
    if key not in words:
        return canned
    # Inspect adds which limit it was, after a comma.
    return (canned or run.source != "boolab") and words[key].partition(",")[0] == words.get("finished")


def _notes(run: Run, limit: RunLimit, counted_limit: Counted, *, stopped: bool) -> Iterable[str]:
    """What else is to be known."""
    soft = limit.policy is not None and limit.policy.cap.kind == "soft" and limit.native.axis == "max_steps"
    if counted_limit.steps_beyond and soft and limit.policy is not None:
        yield f"{limit.policy.name} only asks the model to stop"
    if counted_limit.steps_beyond and stopped:
        yield f"stopped by it after {count(run.n_steps, 'step')}"
    if counted_limit.is_over and limit.native.axis == "max_steps":
        yield f"{number(limit.value)} declared, {count(counted_limit.responses, 'model call')} by its rule"
    elif counted_limit.is_over:
        yield "one response beyond it, by its rule"
    if counted_limit.note:
        yield counted_limit.note
    if counted_limit.canned:
        yield f'the last text is not the model\'s: "{shorten(run.text)}"'
    if counted_limit.at_limit and not stopped and not counted_limit.steps_beyond:
        yield "the log does not name what ended it"
    if counted_limit.own_end and not stopped and not counted_limit.steps_beyond and is_terminated(run):
        yield "it ended by itself exactly at the limit"
    yield from _caveats(run, limit, counted_limit, stopped=stopped)


def _caveats(run: Run, limit: RunLimit, counted_limit: Counted, *, stopped: bool) -> Iterable[str]:
    """What the verdict rests on, where the log or the harness leaves something open."""
    if run.stop.reason in _UNITS and not (stopped or counted_limit.at_limit or counted_limit.steps_beyond):
        yield "another limit stopped it"
    if counted_limit.value is None and limit.native.axis in LIMITS and not stopped:
        yield f"no {LIMITS[limit.native.axis].unit} in the log"
    if limit.policy is None and limit.native.axis == "max_steps" and run.source != "boolab":
        yield "the harness's own rule is not known: counted in model responses"
    if _is_later(run, limit):
        yield "the file was changed after the run began"


def _is_later(run: Run, limit: RunLimit) -> bool:
    return limit.changed is not None and run.started_at is not None and limit.changed > run.started_at
