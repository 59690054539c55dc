"""A setting on a recording, step by step: an evaluation of its own, by the text of the boundary law."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from boolab.core.run import Run
from boolab.core.types import MICRO, Step

REASONS = {
    "max_steps": "step_cap",
    "doom_loop": "doom_loop",
    "tool_budget": "tool_budget",
    "error_streak": "error_streak",
    "max_tokens": "token_budget",
    "max_cost": "cost_budget",
    "max_time": "time_budget",
}
"""The axes in their default order of precedence."""
UNITS = {"max_cost": MICRO, "max_time": 1000}


class Counters:
    """Counters as a person would keep them."""

    def __init__(self, began: int) -> None:
        self.values: dict[str, int | None] = dict.fromkeys(REASONS, 0)
        self.last_call: str | None = None
        self.repeats = 0
        self.failures: int | None = 0
        self.began = began

    def complete(self, step: Step) -> None:
        self.add("max_steps", 1)
        repeats: list[int] = []
        failures: list[int | None] = []
        for call, result in zip(step.response.tool_calls, step.results, strict=True):
            if result is None:
                continue
            self.add("tool_budget", 1)
            self.repeats = self.repeats + 1 if call.name == self.last_call else 1
            self.last_call = call.name
            if result.is_error:
                self.failures = None if self.failures is None else self.failures + 1
            else:
                self.failures = None if result.is_error is None else 0
            repeats.append(self.repeats)
            failures.append(self.failures)
        known = [n for n in failures or [self.failures] if n is not None]
        self.values["doom_loop"] = max(repeats or [self.repeats])
        self.values["error_streak"] = max(known) if len(known) == len(failures or [None]) else None
        self.add("max_tokens", tokens(step))
        self.add("max_cost", step.response.usage.cost)
        self.values["max_time"] = (step.start_ms or 0) + (step.duration_ms or 0) - self.began

    def add(self, name: str, amount: int | None) -> None:
        so_far = self.values[name]
        self.values[name] = None if so_far is None or amount is None else so_far + amount

    def ask(self, setting: Mapping[str, Any]) -> tuple[str, str] | None:
        """The stop reason and also_fired; `error` where an unknown decides; None to go on."""
        limits = {name: setting[name] * UNITS.get(name, 1) for name in REASONS if setting.get(name) is not None}
        true = [REASONS[n] for n, limit in limits.items() if (v := self.values[n]) is not None and v >= limit]
        if true:
            return true[0], ",".join(true[1:])
        return ("error", "") if any(self.values[name] is None for name in limits) else None


def walk(run: Run, setting: Mapping[str, Any], scope: str, own_limits: str = "kept") -> dict[str, Any]:
    """The row of `counterfactual` for that run and setting: each span is limited by itself, the others as recorded."""
    spans: list[list[Step]] = []
    for step in run.steps:
        new = not spans or (scope == "turn" and spans[-1][-1].turn != step.turn)
        spans.append([step]) if new else spans[-1].append(step)
    stops = [first_stop(run, span, setting, scope, own_limits) for span in spans]
    place = next((n for n, stop in enumerate(stops) if stop is not None), None)
    done = sum(map(len, spans[:place])) if place is not None else len(run.steps)
    if place is None:
        ended = own_limits == "kept" or run.stop_reason == "finished"
        outcome = "unchanged" if ended else "censored"
        row: dict[str, Any] = {"stop_reason": run.stop_reason if ended else None, "also_fired": ""}
    else:
        reason, also_fired, at = stops[place] or ("", "", 0)
        turn = spans[place][max(at, 1) - 1].turn
        row = {"stop_reason": reason, "also_fired": also_fired, "stop_turn": turn, "stop_step": at}
        outcome = "unknown" if reason == "error" else "not_identified" if place < len(spans) - 1 else "truncated"
        done += at
    row |= {"outcome": outcome, "kept_lower": None, "kept_upper": None}
    if run.success is not None and outcome != "censored":
        lost = outcome == "truncated" and any(r is not None for step in run.steps[done:] for r in step.results)
        row["kept_lower"] = int(run.success and outcome == "unchanged")
        row["kept_upper"] = int(run.success and not lost)
    paid = [span[: len(span) if stop is None else stop[2]] for span, stop in zip(spans, stops, strict=True)]
    spent = [step for part in paid for step in part]
    saved = [step for step in run.steps if step not in spent]
    for name, used in USED.items():
        row[name] = total_of(run, spent, used)
        row[f"saved_{name}"] = total_of(run, saved, used)
    early = any(len(part) < len(span) for part, span in zip(paid[:-1], spans[:-1], strict=True))
    row["saved_is"] = "at most" if outcome == "censored" else "estimate" if early else "exact"
    return row


def first_stop(
    run: Run, span: Sequence[Step], setting: Mapping[str, Any], scope: str, own_limits: str
) -> tuple[str, str, int] | None:
    """Where a setting stops a span: the reason, the other reasons that are true there, after how many of its steps."""
    counters = Counters(span[0].start_ms or 0 if span[0].index > 1 else 0)
    if (stop := counters.ask(setting)) is not None:
        return *stop, 0
    for at, step in enumerate(span, 1):
        counters.complete(step)
        if own_limits == "kept" and at == len(span):
            return None  # the recorded end comes first
        if is_boundary(run, step.index, scope) and (stop := counters.ask(setting)) is not None:
            return *stop, at
    return None


def is_boundary(run: Run, position: int, scope: str) -> bool:
    """Whether a live loop, or one like it, would have been at a boundary after that step."""
    step = run.steps[position - 1]
    if position == len(run.steps):
        done = sum(other.turn == step.turn for other in run.steps)
        return run.stop_reason in ("aborted", "error") and run.stop_step >= done
    if scope == "run" or run.steps[position].turn == step.turn:
        return True
    return any(result is not None for result in step.results)


def tokens(step: Step) -> int | None:
    usage = step.response.usage
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    return usage.input_tokens + usage.output_tokens


USED: dict[str, Callable[[Step], int | None]] = {
    "steps": lambda _: 1,
    "tool_calls": lambda step: sum(result is not None for result in step.results),
    "tokens": tokens,
    "cost": lambda step: step.response.usage.cost,
}


def total_of(run: Run, part: Sequence[Step], used: Callable[[Step], int | None]) -> int | None:
    """The sum over a part of a run's steps; unknown if one of all its steps does not tell."""
    return None if any(used(step) is None for step in run.steps) else sum(used(step) or 0 for step in part)
