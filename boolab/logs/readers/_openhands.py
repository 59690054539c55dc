"""Shared by both generations of OpenHands: rows of an evaluation, accumulated metrics, and how a run ended.

An evaluation writes one line for each instance: `{instance_id, test_result, instruction, metadata, history, metrics,
error}`; the resolver of issues writes `{issue, issue_type, history, metrics, success, error}`. See
github.com/OpenHands/OpenHands (`evaluation/utils/shared.py`) and github.com/OpenHands/benchmarks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from boolab.core.run import RunLabel
from boolab.core.types import UNKNOWN_USAGE, Stop, Usage
from boolab.io.json_input import items, mapping, micro, text, whole
from boolab.logs.builder import RunBuilder
from boolab.logs.checks import Figure
from boolab.logs.fields import Head, all_input, effort_of, make_unique, name_or_none, stem_of
from boolab.logs.readers._swe_bench import label_by_report

_ITERATIONS: Final = re.compile(r"max(?:imum)? iterations?(?: limit \(|: *)(\d{1,12})", re.IGNORECASE)
_BUDGET: Final = re.compile(r"max(?:imum)? budget: *(\d{1,12}(?:\.\d{1,12})?)", re.IGNORECASE)
_TIMEOUT: Final = re.compile(r"(?:timeout after|did not complete within) (\d{1,12})", re.IGNORECASE)
_RULE: Final = "max_iterations"
_REJECTED: Final = re.compile(
    r"(?:Failed to parse tool call arguments|Missing required (?:argument|parameter)|Unexpected argument"
    r"|Tool \S{1,200} (?:is not registered|not found)|Function '[^']{1,200}' not found|Parameter '[^']{1,200}' "
    r"|Malformed (?:response|action)|Agent must return an action|Failed to retrieve action from LLM response)"
)
"""What the harness answers to a response whose call it could not read. The response itself is not on record."""


class Meter:
    """Computes the usage of each response from the accumulated metrics of a run."""

    def __init__(self) -> None:
        self._before: tuple[int | None, ...] = (0, 0, 0, 0, 0, 0)
        self.moved = False
        """Whether the last reading differed from the one before."""

    def read(self, metrics: Mapping[str, Any]) -> Usage:
        """The usage since the last reading.

        A cost of 0 is unknown, because the model's price is. If the tokens differ from those of the latest response
        (`per_turn_token`), they are the sum of several responses.
        """
        tokens = mapping(metrics.get("accumulated_token_usage"))
        totals = (
            whole(tokens.get("prompt_tokens")),
            whole(tokens.get("completion_tokens")),
            whole(tokens.get("cache_read_tokens")),
            whole(tokens.get("reasoning_tokens")),
            micro(metrics.get("accumulated_cost")),
            whole(tokens.get("cache_write_tokens")),
        )
        entered, output, cached, reasoned, cost, cache_write = (
            None if a is None or b is None or b < a else b - a for a, b in zip(self._before, totals, strict=True)
        )
        self.moved = totals != self._before
        self._before = totals
        latest = whole(tokens.get("per_turn_token"))
        if (not entered and not output) or (latest and latest != (entered or 0) + (output or 0)):
            return Usage(cost=cost or None)
        return Usage(all_input(entered, cached, cache_write), output, cached, reasoned, cost or None, cache_write)

    def miss(self) -> None:
        """Note a response without a reading: the next reading is the sum of several responses."""
        self._before = (None,) * 6
        self.moved = False


class Row(NamedTuple):
    """One line of an evaluation, without its history; empty for other logs."""

    run_id: str = ""
    task: str = ""
    agent: str = ""
    model: str = ""
    cap: int | None = None
    error: str = ""
    success: bool | RunLabel | None = None
    usages: Mapping[str, Usage] = MappingProxyType({})
    totals: Mapping[str, Figure] = MappingProxyType({})
    version: str | None = None
    effort: str | None = None


def row_of(row: Mapping[str, Any], path: Path, id_counts: Counter[str]) -> Row:
    """The facts of one line of an evaluation."""
    metadata, label = mapping(row.get("metadata")), _label(row)
    model = mapping(metadata.get("llm_config")) or mapping(metadata.get("llm"))
    number = whole(mapping(row.get("issue")).get("number"))
    task = text(row.get("instance_id")) or ("issue" if number is None else f"issue-{number}")
    group = path.parent.name if stem_of(path).startswith("output") else stem_of(path)
    attempt = whole(row.get("attempt")) or 1
    return Row(
        make_unique(f"{group}/{task}" if attempt == 1 else f"{group}/{task}/{attempt}", id_counts),
        task,
        text(metadata.get("agent_class")) or "openhands",
        text(model.get("model")),
        whole(metadata.get("max_iterations")),
        text(row.get("error")),
        label_by_report(path, task, text(model.get("model"))) if label is None else label,
        usages_of(mapping(row.get("metrics"))),
        totals_of(mapping(row.get("metrics"))),
        name_or_none(metadata.get("openhands_version")) or name_or_none(metadata.get("git_commit")),
        effort_of(model.get("reasoning_effort")),
    )


def begins_with_events(
    head: Head, is_event: Callable[[object], bool], is_row: Callable[[Mapping[str, Any]], bool]
) -> bool:
    """Whether a file begins with a list of events or with a row that has some; `is_row` decides about an empty row."""
    value = head.values[0] if head.values else None
    if isinstance(value, list):
        return bool(value) and all(map(is_event, value[:3]))
    row = mapping(value)
    if not ({"instance_id", "test_result"} <= row.keys() or {"issue", "issue_type"} <= row.keys()):
        return False
    history = items(row.get("history"))
    return is_event(next(iter(items(history[0])), history[0])) if history else is_row(row)


def usages_of(metrics: Mapping[str, Any]) -> dict[str, Usage]:
    """The usage of each response that metrics list, by its id; unknown if the id is listed twice."""
    usages: dict[str, Usage] = {}
    for item in items(metrics.get("token_usages")):
        usage = mapping(item)
        if name := text(usage.get("response_id")):
            usages[name] = UNKNOWN_USAGE if name in usages else _listed_usage(usage)
    return usages


def _listed_usage(usage: Mapping[str, Any]) -> Usage:
    entered, output = whole(usage.get("prompt_tokens")), whole(usage.get("completion_tokens"))
    if not entered and not output:
        return UNKNOWN_USAGE
    cached, cache_write = whole(usage.get("cache_read_tokens")), whole(usage.get("cache_write_tokens"))
    entered = all_input(entered, cached, cache_write)
    return Usage(entered, output, cached, whole(usage.get("reasoning_tokens")), None, cache_write)


def totals_of(metrics: Mapping[str, Any]) -> dict[str, Figure]:
    """The totals of a run in its metrics, with those of condensers: the responses of the agent have at most these."""
    tokens = mapping(metrics.get("accumulated_token_usage"))
    totals = {
        "input_tokens": whole(tokens.get("prompt_tokens")),
        "output_tokens": whole(tokens.get("completion_tokens")),
        "cost": micro(metrics.get("accumulated_cost")),
    }
    return {name: (0, total) for name, total in totals.items() if total}


def _label(row: Mapping[str, Any]) -> bool | None:
    result = mapping(row.get("test_result"))
    report = mapping(row.get("report")) or mapping(result.get("report"))
    labels = (
        row.get("success"), row.get("resolved"), report.get("resolved"),
        result.get("resolved"), result.get("success"), result.get("score"),
    )  # fmt: skip
    return next((label for label in labels if isinstance(label, bool)), None)


def is_rejection(content: str) -> bool:
    """Whether a message is the harness's answer to a response that it could not read, which counts as an iteration."""
    return _REJECTED.match(content) is not None


def ending(builder: RunBuilder, error: str, cap: int | None = None) -> tuple[Stop, dict[str, int]]:
    """How a run ended whose harness recorded an error, and the limit in that error; `cap` is that of iterations."""
    low = error.lower()
    if "maximum iteration" in low or "maxiterationsreached" in low:
        match = _ITERATIONS.search(error)
        limit = int(match[1]) if match else cap
        if limit is None:
            return builder.stop("step_cap", _RULE), {}
        return builder.cap_stop(limit, _RULE), {"steps": limit}
    if "maximum budget" in low or "budget exceeded" in low or "maxbudgetreached" in low:
        match = _BUDGET.search(error)
        limit = micro(float(match[1])) if match else None
        return builder.stop("cost_budget", "max_budget", limit), {} if limit is None else {"cost": limit}
    if "stuck in a loop" in low or "got stuck" in low:
        return builder.stop("stuck"), {}
    match = _TIMEOUT.search(error)
    if match:
        limit = int(match[1]) * 1000
        return builder.stop("time_budget", "timeout", limit), {"elapsed": limit}
    return builder.stop("error"), {}
