"""The head of a replay: what the run was to do, how it ended, what it used, and one sentence about it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from boolab.core.redacted import is_redacted
from boolab.core.run import Run, stop_place
from boolab.core.text import count
from boolab.core.types import MICRO
from boolab.display.numbers import duration, money, short_number, whole_percent
from boolab.frames.runs import known_sum
from boolab.widgets._base.run_texts import calls_of, dollars_of, tokens_of, visible_text
from boolab.widgets.replay.gauges import counts_by_turn

MIN_STREAK: Final = 3
_OUTCOMES: Final = {True: ("✓", "resolved"), False: ("✕", "failed")}
_MAX_SCORES: Final = 2
_TITLE: Final = 200
_COMMAND: Final = re.compile(r"/\S+")
"""A command of the user's to the harness, which is no task."""


def header_of(run: Run, marks: Sequence[Mapping[str, Any]], longest: int) -> dict[str, Any]:
    """What the head of a replay shows: title, facts, prompt, tools, outcome, figures and verdict."""
    texts = [text for message in run.prompt if message.role == "user" and (text := visible_text(message.text))]
    first_prompt = next((text for text in texts if not _COMMAND.fullmatch(text.strip())), "")
    task_text = visible_text(run.task)
    task_title = "" if _COMMAND.fullmatch(task_text.strip()) else task_text
    task = task_text if len(task_text) > _TITLE or "\n" in task_text else first_prompt or task_text
    tool_calls = Counter(call.name for call in calls_of(run))
    return {
        "title": _first_line(task_title) or _first_line(first_prompt) or run.run_id,
        "task": task,
        "facts": _facts(run),
        "system": "\n\n".join(
            filter(
                None,
                (visible_text(system_message.text) for system_message in run.prompt if system_message.role == "system"),
            )
        ),
        "tools": [{"name": name, "calls": calls} for name, calls in tool_calls.most_common()],
        "outcome": _outcome(run),
        "kpis": _kpis(run),
        "verdict": {"happened": _describe_outcome(run, longest), **_limits(run, marks)},
    }


def _first_line(text: str) -> str:
    return next((line.strip()[:_TITLE] for line in text.splitlines() if line.strip()), "")


def _outcome(run: Run) -> dict[str, str]:
    """Success or failure and what judged it, or, where nothing did, how the run ended."""
    reason = run.stop.reason.replace("_", " ")
    score_texts = [f"{score.name} {_score(score.value)}" for score in run.scores[:_MAX_SCORES]]
    hidden_count = len(run.scores) - len(score_texts)
    score_texts += [f"{hidden_count} more"] if hidden_count else []
    score = ", ".join(score_texts)
    if run.success is None:
        return {"sign": "○", "label": reason, "score": score, "detail": "" if score else "not labelled"}
    sign, label = _OUTCOMES[run.success]
    return {"sign": sign, "label": label, "score": score, "detail": reason if score else f"label, {reason}"}


def _score(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _facts(run: Run) -> list[str]:
    """The names of a run, each once: in logs, the policy and the source are often that of the agent."""
    policy = run.policy if run.policy in ("", run.agent, run.source) else f"policy {run.policy}"
    names = dict.fromkeys(filter(None, (run.agent, run.model, policy, run.source)))
    return [*names, *(["texts not on record"] if _is_without_texts(run) else []), f"run {run.run_id}"]


def _is_without_texts(run: Run) -> bool:
    """Whether a run is a recording of facts."""
    return any(is_redacted(message.text) for message in run.prompt) or any(
        is_redacted(call.arguments) for call in calls_of(run)
    )


def _kpis(run: Run) -> list[dict[str, str]]:
    tokens, dollars = sum_usage(run)
    limit = run.limits.get("cost")
    steps = "step" if run.n_steps == 1 else "steps"
    kpis = [("steps", f"{run.n_steps:,}", f"{steps}, {count(run.n_tool_calls, 'call')}")]
    kpis += [] if tokens is None else [("tokens", short_number(tokens), f"tokens{_cached_text(run)}")]
    if dollars is not None:
        base = "cost, no limit" if limit is None else f"of {money(limit / MICRO)}, its limit"
        kpis.append(("cost", money(dollars), base))
    if run.duration_ms:
        model = known_sum([step.model_ms for step in run.steps])
        kpis.append(("time", duration(run.duration_ms), "time" if model is None else f"model {duration(model)}"))
    return [{"name": name, "value": value, "label": label} for name, value, label in kpis]


def sum_usage(run: Run) -> tuple[int | None, float | None]:
    """The tokens and the dollars of a run: the sums of its steps, else what its log gives for the whole of it."""
    totals = next((event.payload for event in run.events if event.kind == "totals"), {})
    input_tokens, output_tokens, cost = (
        value if isinstance(value := totals.get(name), int) else None
        for name in ("input_tokens", "output_tokens", "cost")
    )
    tokens, dollars = tokens_of(run), dollars_of(run)
    if tokens is None and input_tokens is not None and output_tokens is not None:
        tokens = input_tokens + output_tokens
    return tokens, cost / MICRO if dollars is None and cost is not None else dollars


def _cached_text(run: Run) -> str:
    usages = [step.response.usage for step in run.steps]
    input_tokens, cached = (
        known_sum([getattr(usage, name) for usage in usages]) for name in ("input_tokens", "cached_tokens")
    )
    return f", {whole_percent(cached, input_tokens)} cached" if input_tokens and cached is not None else ""


def _describe_outcome(run: Run, longest: int) -> str:
    """What happened, in one or two sentences."""
    location = stop_place(run)
    repeats = f", with {longest:,} identical calls in a row" if longest >= MIN_STREAK else ""
    limit_text = f"its own limit{_own_limit(run)} {location}" if run.stop.rule else ""
    if run.success is None:
        ended = (
            f"Stopped by {limit_text}" if limit_text else f"{run.stop.reason.replace('_', ' ').capitalize()} {location}"
        )
        return f"{ended}{repeats}."
    label = "Resolved" if run.success else "Failed"
    stop_text = f", {'though ' if run.success else ''}stopped by {limit_text}" if limit_text else f" {location}"
    return f"{label}{stop_text}{repeats}."


def _own_limit(run: Run) -> str:
    """The limit that stopped a run: its amount, if that is money; else its rule."""
    limit = run.limits.get("cost")
    if run.stop.reason == "cost_budget" and limit:
        return f" of {money(limit / MICRO)}"
    return f", {run.stop.rule},"


def _limits(run: Run, marks: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Which of the compared limits would have stopped the run first, and what that would have lost."""
    other_marks = [mark for mark in marks if not mark["own"]]
    ends = next((mark["step"] for mark in marks if mark["own"]), run.n_steps)
    stops = sorted(
        (mark for mark in other_marks if mark["acts"] == "stops" and mark["step"] < ends),
        key=lambda mark: int(mark["step"]),
    )
    if not stops:
        return {"limit": "", "loss": _no_stop_sentence(other_marks)}
    first = stops[0]
    saved = _usage_after(run, first["step"])
    if counts_by_turn(run) and len({step.turn for step in run.steps}) > 1:
        loss = "and what the user would have done then is not known."
    else:
        loss = f"and lost a success to save {saved}." if run.success else f"and saved {saved}."
    other_count = len(stops) - 1
    others_text = f" {other_count:,} more of the {len(other_marks):,} would have stopped it too." if other_count else ""
    limit_text = f"{first['policy']} ({first['limit']})" if first["policy"] else first["limit"]
    return {"limit": f"{limit_text} would have stopped it after step {first['step']:,},", "loss": loss + others_text}


def _usage_after(run: Run, step: int) -> str:
    """What a run used after a step, where that is on record."""
    cost = known_sum([step_record.response.usage.cost for step_record in run.steps[step:]])
    steps = count(run.n_steps - step, "step")
    return f"{steps} and {money(cost / MICRO)}" if cost else steps


def _no_stop_sentence(other_marks: Sequence[Mapping[str, Any]]) -> str:
    """That none of the compared limits would have stopped the run, as far as is known."""
    unknown = sum(mark["acts"] == "unknown" for mark in other_marks)
    kinds = "policies" if all(mark["policy"] for mark in other_marks) else "policies and rules"
    if not other_marks:
        return ""
    if unknown == len(other_marks):
        return f"Whether compared {kinds} would have stopped it is not known: a counter is not on record."
    if len(other_marks) == 1:
        return f"{other_marks[0]['policy'] or other_marks[0]['limit']} would not have stopped it earlier."
    subject = f"None of the {len(other_marks):,} compared {kinds}"
    if unknown:
        return f"{subject} is known to stop it; for {unknown:,} a counter is not on record."
    return f"{subject} would have stopped it earlier."


def limit_name(mark: Mapping[str, Any]) -> str:
    """A compared limit by its policy and its rule."""
    return ", ".join(filter(None, (mark["policy"], mark["limit"])))
