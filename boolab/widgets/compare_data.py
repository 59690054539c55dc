"""Two runs side by side as plain data: which steps are the same, where they part, and what differs after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final, NamedTuple

from boolab.detectors import arguments_hash
from boolab.divergence import Divergence
from boolab.stats.finding import clean, count
from boolab.types import MICRO, REDACTED, Message, Run, Step, ToolCall, ToolResult
from boolab.widgets.alignment import Stretch, aligned
from boolab.widgets.call_labels import label_of, parsed
from boolab.widgets.tool_kinds import kind_of

_TEXT: Final = 160
_QUOTE: Final = 90
_PEEK: Final = 2_000  # characters of a text that is cut to one line


class Parting(NamedTuple):
    """Where two runs part: the step, from 1, what is not the same there, and what each does."""

    step: int
    what: str
    a: str
    b: str


class Side(NamedTuple):
    """One of the two.

    Attributes:
        name: What it is called.
        run: The run.
        stop: How it ends, in words.
        reason: The stop reason, or None where a recording says nothing of it.
        opens: The run that shows its steps.
    """

    name: str
    run: Run
    stop: str
    reason: str | None
    opens: str


def side_of(run: Run, name: str) -> Side:
    """A run as it is on record.

    Args:
        run: The run.
        name: What it is called here.
    """
    rule = f", by {run.stop.rule}" if run.stop.rule else ""
    return Side(
        name, run, f"{run.stop_reason} after {count(len(run.steps), 'step')}{rule}", run.stop_reason, run.run_id
    )


def parting_of(divergence: Divergence) -> Parting:
    """Where two policies part on one script."""
    return Parting(divergence.step, divergence.what, divergence.a, divergence.b)


def first_parting(a: Run, b: Run, names: Sequence[str]) -> Parting | None:
    """The first step at which two recorded runs are not the same.

    What counts: what the model was told before the step, what it said and called, what became of the calls, and what
    they gave; then, whether the step was made, and how the runs end.

    Args:
        a: A run.
        b: Another one.
        names: What they are called.

    Returns:
        Where they part; None if they never do.
    """
    told = [_told(run) for run in (a, b)]
    for step, (one, other) in enumerate(zip(a.steps, b.steps, strict=False), 1):
        if told[0].get(step) != told[1].get(step):
            said = [_quoted(mine.get(step)) for mine in told]
            return Parting(step, "the model is told something else before it.", *said)
        if _key(one) != _key(other):
            return Parting(step, "the model answers something else.", _did(one), _did(other))
        if _fates(one) != _fates(other):
            return Parting(step, "something else becomes of the calls.", _fared(one, other), _fared(other, one))
    if len(a.steps) != len(b.steps):
        step = min(len(a.steps), len(b.steps)) + 1
        later = names[len(b.steps) > len(a.steps)]
        does = [_did(run.steps[step - 1]) if len(run.steps) >= step else _ends(run) for run in (a, b)]
        return Parting(step, f"only {later} makes this step.", *does)
    if a.stop.reason != b.stop.reason:
        return Parting(len(a.steps) + 1, "both end before it, for other reasons.", _ends(a), _ends(b))
    return None


def compare_data(a: Side, b: Side, parting: Parting | None, notes: Sequence[str] = ()) -> dict[str, Any]:
    """What compare.js draws.

    Args:
        a: The one.
        b: The other.
        parting: Where they part.
        notes: What else must be known to read it.

    Returns:
        Plain data. `stretches` hold the steps in order; `steps` what is drawn of each, by side, None on the right
        where it is the same as on the left; `table` amounts and their difference.
    """
    keys = [[_key(step) for step in side.run.steps] for side in (a, b)]
    stretches = list(_cut(aligned(*keys), a.run, b.run, parting))
    same_in_b = {s.b + k for s, kind in stretches if kind == "same" for k in range(s.n_b)}
    return {
        "title": title_of(a.name, b.name, parting),
        "sides": [_side(side) for side in (a, b)],
        "parting": None if parting is None else parting._asdict(),
        "stretches": [{"kind": kind, **s._asdict()} for s, kind in stretches],
        "steps": [
            [_compact(step) for step in a.run.steps],
            [None if place in same_in_b else _compact(step) for place, step in enumerate(b.run.steps)],
        ],
        "table": list(_table(a.run, b.run)),
        "notes": [*notes, *_notes(a.run, b.run)],
    }


def title_of(a: str, b: str, parting: Parting | None) -> str:
    """The finding.

    Example:
        >>> title_of("boocode", "crush", None)
        'boocode and crush never part'
    """
    if parting is None:
        return f"{a} and {b} never part"
    return f"{a} and {b} part at step {parting.step:,}: {parting.what.removesuffix('.')}"


def compare_text(data: Mapping[str, Any]) -> str:
    """The comparison as plain text.

    Args:
        data: What `compare_data` returned.

    Returns:
        The finding, what each does there, how they end, and amounts.
    """
    names = [side["name"] for side in data["sides"]]
    lines = [data["title"]]
    if data["parting"] is not None:
        lines += [f"  {name}: {data['parting'][side]}" for name, side in zip(names, "ab", strict=True)]
    lines += [f"{side['name']} ends: {side['stop']}" for side in data["sides"]]
    same = sum(s["n_a"] for s in data["stretches"] if s["kind"] == "same")
    lines.append(f"{same:,} steps are the same.")
    wide = max(len(row["name"]) for row in data["table"])
    lines += [
        f"  {row['name'].ljust(wide)}  {row['a'] or '?':>12}  {row['b'] or '?':>12}  {row['difference'] or '?':>12}"
        for row in data["table"]
    ]
    return "\n".join([*lines, *data["notes"]])


# --- What is the same -------------------------------------------------------------------------------------------------


def _key(step: Step) -> tuple[object, ...]:
    """What the model said and called; the ids of calls are chance."""
    calls = tuple((call.name, _arguments(call)) for call in step.response.tool_calls)
    return (step.response.text, calls, bool(step.error))


def _arguments(call: ToolCall) -> str:
    return call.arguments if call.arguments == REDACTED else arguments_hash(call.arguments)


def _fates(step: Step) -> tuple[object, ...]:
    return tuple(None if r is None else (r.content, r.is_error) for r in step.results)


def _told(run: Run) -> dict[int, list[tuple[str, str]]]:
    """What came in before each step, the prompt before the first."""
    out: dict[int, list[tuple[str, str]]] = {}
    for before, message in [*((1, message) for message in run.prompt), *run.inputs]:
        out.setdefault(before, []).append((message.role, _text(message)))
    return out


def _text(message: Message) -> str:
    return message.text


def _cut(
    stretches: Sequence[Stretch], a: Run, b: Run, parting: Parting | None
) -> Iterator[tuple[Stretch, str]]:  # fmt: skip
    """Stretches by kind, each divided where the runs part: same, other results, or different."""
    at = -1 if parting is None else parting.step - 1
    for stretch in stretches:
        if not stretch.same:
            yield stretch, "different"
            continue
        start, kind = 0, ""
        for k in range(stretch.n_a + 1):
            here = ""
            if k < stretch.n_a:
                one, other = a.steps[stretch.a + k], b.steps[stretch.b + k]
                here = "same" if _fates(one) == _fates(other) else "results"
            if k > start and (here != kind or at == stretch.a + k == stretch.b + k):
                part = Stretch(same=True, a=stretch.a + start, b=stretch.b + start, n_a=k - start, n_b=k - start)
                yield part, kind
                start = k
            kind = here


# --- In words ---------------------------------------------------------------------------------------------------------


def _quoted(messages: Sequence[tuple[str, str]] | None) -> str:
    if not messages:
        return "is told nothing there"
    role, text = messages[-1]
    return f'is told by the {role}: "{_line(text, _QUOTE)}"'


def _did(step: Step) -> str:
    labels = [label for _, label in map(_named, step.response.tool_calls)]
    if step.error:
        return f"breaks: {_line(step.error, _QUOTE)}"
    if labels:
        more = f" and {len(labels) - 3} more" if len(labels) > 3 else ""  # noqa: PLR2004
        return f"calls {', '.join(labels[:3])}{more}"
    return f'says "{_line(step.response.text, _QUOTE)}"' if step.response.text else "says nothing"


def _fared(mine: Step, other: Step) -> str:
    """The first call of which something else becomes."""
    pairs = zip(mine.response.tool_calls, mine.results, other.results, strict=True)
    call, result = next((c, r) for c, r, its in pairs if _fates_of(r) != _fates_of(its))
    _, label = _named(call)
    if result is None:
        return f"drops {label}"
    failed = " fails and" if result.is_error else ""
    return f'{label}{failed} gives "{_line(result.content, _QUOTE)}"'


def _fates_of(result: ToolResult | None) -> object:
    return None if result is None else (result.content, result.is_error)


def _ends(run: Run) -> str:
    rule = f", by {run.stop.rule}" if run.stop.rule else ""
    return f"ends after step {len(run.steps):,}: {run.stop_reason}{rule}"


def _named(call: ToolCall) -> tuple[str, str]:
    value = parsed(call.arguments)
    kind = kind_of(call.name, value)
    return kind, label_of(call.name, kind, call.arguments, value)


def _line(text: str, most: int) -> str:
    line = clean(text[:_PEEK])
    return line if len(line) <= most else f"{line[: most - 1]}…"


# --- What is drawn ----------------------------------------------------------------------------------------------------


def _side(side: Side) -> dict[str, Any]:
    run = side.run
    facts = [f"policy {run.policy}" if run.policy and run.policy != side.name else "", run.model, run.agent]
    return {
        "name": clean(side.name),
        "run": side.opens,
        "facts": " · ".join(filter(None, map(clean, facts))),
        "stop": side.stop,
        "reason": side.reason,
        "steps": len(run.steps),
    }


def _compact(step: Step) -> dict[str, Any]:
    calls = []
    for call, result in zip(step.response.tool_calls, step.results, strict=True):
        kind, label = _named(call)
        state = "dropped" if result is None else "failed" if result.is_error else "ok"
        calls.append({"kind": kind, "label": label, "state": state})
    return {"calls": calls, "text": _line(step.response.text, _TEXT), "error": _line(step.error, _TEXT)}


class _Amount(NamedTuple):
    name: str
    of: Callable[[Run], float | None]
    form: Callable[[float], str]


def _number(value: float) -> str:
    return f"{value:,.0f}"


def _tokens(run: Run) -> float | None:
    usages = [*(step.response.usage for step in run.steps), *run.outside]
    parts = [part for usage in usages for part in (usage.input_tokens, usage.output_tokens)]
    known = [part for part in parts if part is not None]
    return sum(known) if parts and len(known) == len(parts) else None


def _cost(run: Run) -> float | None:
    costs = [*(step.response.usage.cost for step in run.steps), *(usage.cost for usage in run.outside)]
    known = [cost for cost in costs if cost is not None]
    return sum(known) / MICRO if costs and len(known) == len(costs) else None


def _results(run: Run) -> list[ToolResult | None]:
    return [result for step in run.steps for result in step.results]


_AMOUNTS: Final = (
    _Amount("steps", lambda run: len(run.steps), _number),
    _Amount("tool calls executed", lambda run: run.n_tool_calls, _number),
    _Amount("calls dropped", lambda run: sum(result is None for result in _results(run)), _number),
    _Amount("calls failed", lambda run: sum(r is not None and r.is_error is True for r in _results(run)), _number),
    _Amount("tokens", _tokens, _number),
    _Amount("cost", _cost, lambda value: f"${value:,.4f}"),
    _Amount("time", lambda run: run.duration_ms, lambda value: f"{value / 1000:,.1f} s"),
)


def _table(a: Run, b: Run) -> Iterator[dict[str, Any]]:
    """Amounts of both, and how much more the second has; what nobody tells is left out."""
    for amount in _AMOUNTS:
        one, other = amount.of(a), amount.of(b)
        if (one is None and other is None) or (one == other == 0):
            continue
        less = one is not None and other is not None and other < one
        size = None if one is None or other is None else amount.form(abs(other - one))
        yield {
            "name": amount.name,
            "a": None if one is None else amount.form(one),
            "b": None if other is None else amount.form(other),
            "difference": size and ("same" if one == other else f"{'−' if less else '+'}{size}"),  # noqa: RUF001
        }


def _notes(a: Run, b: Run) -> Iterator[str]:
    if a.task != b.task:
        yield f'Other tasks: "{_line(a.task, 60)}" and "{_line(b.task, 60)}".'
    if a.model != b.model:
        yield f"Other models: {clean(a.model) or 'unknown'} and {clean(b.model) or 'unknown'}."
    for one, other in zip_longest(a.steps[:1], b.steps[:1]):
        if one is None or other is None:
            yield "One of the two has no steps."
