"""Two runs side by side as plain data: which steps are the same, where they diverge, and what differs after it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final, NamedTuple, Self

from boolab.core.redacted import chars_of, is_redacted
from boolab.core.run import Run, stop_place
from boolab.core.text import clean, clip, count, first_of
from boolab.core.types import REDACTED, Step, ToolCall, ToolResult, result_slots_in
from boolab.display.text import align_columns
from boolab.display.tool_kinds import Kind, kind_of
from boolab.limits.call_identity import arguments_hash
from boolab.limits.table import LIMIT_OF_REASON, LIMITS
from boolab.sweeps.divergence import DivergenceKind
from boolab.widgets._base.run_texts import describe_text, dollars_of, label_call, tokens_of
from boolab.widgets.compare.alignment import Stretch, align
from boolab.widgets.replay.cards import remove_commands

MAX_NAMED: Final = 3  # calls of a step in a sentence
_TEXT: Final = 160
_QUOTE: Final = 90
_SHELL: Final = re.compile(r"[|&;<>`$()]")  # of more than one command, or of one that writes a file
_MINUS: Final = "\N{MINUS SIGN}"
_MINUTE_MS: Final = 60_000
_SHOWN: Final = ("response", "made", "would", "end", "after")  # kinds of divergence that the cells show
_PEEK: Final = 2_000  # characters of a text that is cut to one line


class _Divergent(NamedTuple):
    step: int
    what: str
    a: str
    b: str


class DivergentStep(_Divergent):
    """Where two runs diverge: the step, from 1, what is not the same there, and what each does.

    `kind` is a word for what differs; it is not part of the tuple.
    """

    kind: DivergenceKind

    def __new__(cls, step: int, what: str, a: str, b: str, *, kind: DivergenceKind) -> Self:
        self = super().__new__(cls, step, what, a, b)
        self.kind = kind
        return self


class Side(NamedTuple):
    """One of the two runs."""

    name: str  # its name on the page
    run: Run
    stop: str  # how it ends, in words
    reason: str | None  # the stop reason, or None where a recording does not show it
    opens: str  # the run that shows its steps


def side_of(run: Run, name: str) -> Side:
    """A recorded run."""
    return Side(name, run, end_words(run), run.stop_reason, run.run_id)


def first_divergent_step(a: Run, b: Run, names: Sequence[str], *, prompts: bool = True) -> DivergentStep | None:
    """The first step at which two recorded runs, or their prompts, are not the same; None if they never diverge."""
    before = [_messages_before(run, prompt=prompts) for run in (a, b)]
    for step, (one, other) in enumerate(zip(a.steps, b.steps, strict=False), 1):
        if before[0].get(step) != before[1].get(step):
            some, others = (mine.get(step) for mine in before)
            quotes = [_quoted(some, others), _quoted(others, some)]
            return DivergentStep(step, "the model gets another message before it.", *quotes, kind="messages")
        if _key(one) != _key(other):
            return DivergentStep(
                step, "the model gives another answer.", _step_in_words(one), _step_in_words(other), kind="response"
            )
        if _results_of(one) != _results_of(other):
            return DivergentStep(
                step,
                "the calls have other results.",
                _result_in_words(one, other),
                _result_in_words(other, one),
                kind="calls",
            )
    if len(a.steps) != len(b.steps):
        step = min(len(a.steps), len(b.steps)) + 1
        later = names[len(b.steps) > len(a.steps)]
        does = [_step_in_words(run.steps[step - 1]) if len(run.steps) >= step else _ends(run) for run in (a, b)]
        return DivergentStep(step, f"only {later} makes this step.", *does, kind="made")
    if a.stop.reason != b.stop.reason:
        return DivergentStep(len(a.steps) + 1, "both end before it, for other reasons.", _ends(a), _ends(b), kind="end")
    return None


def compare_data(
    a: Side,
    b: Side,
    divergence: DivergentStep | None,
    notes: Sequence[str] = (),
    differences: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What compare.js draws, as plain data: the steps in stretches, amounts, and what differs."""
    keys = [[_key(step) for step in side.run.steps] for side in (a, b)]
    stretches = list(_cut(align(*keys), a.run, b.run, divergence))
    same_in_b = {s.b + k for s, kind in stretches if kind == "same" for k in range(s.n_b)}
    numbers: dict[tuple[str, ...], int] = {}
    return {
        "title": title_of(a, b, divergence),
        "sides": [_side(side) for side in (a, b)],
        "divergence": None if divergence is None else divergence._asdict(),
        "did": [None, None] if divergence is None or divergence.kind in _SHOWN else [divergence.a, divergence.b],
        "differences": differences,
        "stretches": [{"kind": kind, **s._asdict()} for s, kind in stretches],
        "steps": [
            [_compact(step, numbers) for step in a.run.steps],
            [None if place in same_in_b else _compact(step, numbers) for place, step in enumerate(b.run.steps)],
        ],
        "table": list(_table(a.run, b.run)),
        "notes": [*notes, *_notes(a.run, b.run)],
    }


def title_of(a: Side, b: Side, divergence: DivergentStep | None) -> str:
    """The finding: where the two differ, and whether a limit of one makes the difference; the heads name the limit."""
    if divergence is None:
        return f"No difference between {a.name} and {b.name}"
    short, long = sorted((a, b), key=lambda side: len(side.run.steps))
    more = len(long.run.steps) - len(short.run.steps)
    stops_shorter = divergence.kind != "would" and short.reason in LIMIT_OF_REASON
    if divergence.step == len(short.run.steps) + 1 and more and stops_shorter:
        step = len(short.run.steps)
        return f"A limit stops {short.name} after step {step:,}; {long.name} continues for {count(more, 'more step')}"
    what = divergence.what.removesuffix(".")
    same = _same_calls(a.run, b.run)
    called = any(step.response.tool_calls for step in a.run.steps[:same])
    if called and same >= divergence.step and divergence.kind in ("messages", "tool_choice", "response"):
        differs = "messages to the model" if divergence.kind == "messages" else "answers of the model"
        where = f"before step {same + 1:,}" if same < len(long.run.steps) else "in all steps"
        return f"{a.name} and {b.name} make the same calls {where}; from step {divergence.step:,} on, {differs} differ"
    return f"First difference between {a.name} and {b.name} at step {divergence.step:,}: {what}"


def _same_calls(a: Run, b: Run) -> int:
    """How many steps have the same commands before the first that does not."""
    pairs = enumerate(zip_longest(*([_commands(step) for step in run.steps] for run in (a, b))))
    return next((n for n, (one, other) in pairs if one != other), max(len(a.steps), len(b.steps)))


def compare_text(data: Mapping[str, Any]) -> str:
    """The comparison as plain text: the finding, what each run does there, how they end, and amounts."""
    lines = [data["title"]]
    for side, did in zip(data["sides"], data["did"], strict=True):
        lines.append(f"  {side['name']}: {f'{did}; ' if did else ''}{side['stop']}")
    if data["differences"] and data["differences"]["of"] == "agents":
        lines += [f"{row['name']}: {row['a']} | {row['b']}" for row in data["differences"]["rows"]]
    same = sum(s["n_a"] for s in data["stretches"] if s["kind"] == "same")
    lines.append(f"{count(same, 'step')} {'is' if same == 1 else 'are'} the same.")
    rows = [[row["name"], *(row[column] or "?" for column in ("a", "b", "difference"))] for row in data["table"]]
    lines += [f"  {line}" for line in align_columns(rows)]
    return "\n".join([*lines, *data["notes"]])


# --- What is the same -------------------------------------------------------------------------------------------------


def _key(step: Step) -> tuple[object, ...]:
    """What the model wrote and called; the ids of calls are random."""
    calls = tuple((call.name, _arguments(call)) for call in step.response.tool_calls)
    return (step.response.text, calls, bool(step.error))


def _arguments(call: ToolCall) -> str:
    return call.arguments if call.arguments == REDACTED else arguments_hash(call.arguments)


def _results_of(step: Step) -> tuple[object, ...]:
    return tuple(None if r is None else (r.content, r.is_error) for r in step.results)


def _commands(step: Step) -> tuple[str, ...]:
    """The calls of a step, each as one line, the same whether a shell or a tool of that name runs it."""
    return tuple(_command(call) for call in step.response.tool_calls)


def _command(call: ToolCall) -> str:
    """A call as a command line."""
    value = label_call(call).value
    if not isinstance(value, dict):
        return f"{call.name} {call.arguments}"
    command = value.get("command")
    if len(value) == 1 and isinstance(command, str):
        return command.strip()
    return " ".join([call.name, *(str(value[name]).strip() for name in sorted(value))])


def _messages_before(run: Run, *, prompt: bool) -> dict[int, list[tuple[str, str]]]:
    """The messages before each step, the prompt before the first."""
    out: dict[int, list[tuple[str, str]]] = {}
    opening = [(1, message) for message in run.prompt] if prompt else []
    for before, message in [*opening, *run.inputs]:
        out.setdefault(before, []).append((message.role, message.text))
    return out


def _cut(
    stretches: Sequence[Stretch], a: Run, b: Run, divergence: DivergentStep | None
) -> Iterator[tuple[Stretch, str]]:  # fmt: skip
    """Stretches by kind, each divided where the runs diverge: same, other results, or different."""
    at = -1 if divergence is None else divergence.step - 1
    for stretch in stretches:
        if not stretch.same:
            yield stretch, "different"
            continue
        start, kind = 0, ""
        for k in range(stretch.n_a + 1):
            here = ""
            if k < stretch.n_a:
                one, other = a.steps[stretch.a + k], b.steps[stretch.b + k]
                here = "same" if _results_of(one) == _results_of(other) else "results"
            if k > start and (here != kind or at == stretch.a + k == stretch.b + k):
                part = Stretch(same=True, a=stretch.a + start, b=stretch.b + start, n_a=k - start, n_b=k - start)
                yield part, kind
                start = k
            kind = here


# --- In words ---------------------------------------------------------------------------------------------------------


def _quoted(messages: Sequence[tuple[str, str]] | None, others: Sequence[tuple[str, str]] | None) -> str:
    """The first message that the other one does not get, from a little before where it differs."""
    if not messages:
        return "gets no message there"
    pairs = zip_longest(messages, others or (), fillvalue=("", ""))
    (role, text), (_, other) = next((pair for pair in pairs if pair[0] != pair[1]), (messages[-1], ("", "")))
    if is_redacted(text):
        return f"gets from the {role}: {_quote(text)}"
    same = next((n for n, (x, y) in enumerate(zip(text, other, strict=False)) if x != y), min(len(text), len(other)))
    start = max(0, same - _QUOTE // 3)
    return f'gets from the {role}: "{"…" if start else ""}{_line(text[start:], _QUOTE)}"'


def _step_in_words(step: Step) -> str:
    labels = [label_call(call).label for call in step.response.tool_calls]
    if step.error:
        return f"fails: {_line(step.error, _QUOTE)}"
    if labels:
        return f"calls {first_of(labels, MAX_NAMED)}"
    return f"writes {_quote(step.response.text)}" if step.response.text else "writes nothing"


def _result_in_words(mine: Step, other: Step) -> str:
    """The first call that has another result."""
    pairs = zip(mine.response.tool_calls, mine.results, other.results, strict=True)
    call, result = next((c, r) for c, r, its in pairs if _result_of(r) != _result_of(its))
    label = label_call(call).label
    if result is None:
        return f"drops {label}"
    failed = " fails and" if result.is_error else ""
    return f"{label}{failed} gives {_quote(result.content)}"


def _quote(text: str) -> str:
    """A text in quotes, or what is known of one that is not on record."""
    if is_redacted(text):
        return f"a text of {count(chars_of(text), 'character')} that is not on record"
    return f'"{_line(text, _QUOTE)}"'


def _result_of(result: ToolResult | None) -> object:
    return None if result is None else (result.content, result.is_error)


def _ends(run: Run) -> str:
    return f"ends after step {len(run.steps):,}: {end_words(run)}"


def _line(text: str, most: int) -> str:
    return clip(clean(text[:_PEEK]), most)


# --- What is drawn ----------------------------------------------------------------------------------------------------


def _side(side: Side) -> dict[str, Any]:
    run = side.run
    policy = f"policy {run.policy}" if run.policy and run.policy != side.name else ""
    facts = [policy, run.model, run.agent if run.agent != side.name else ""]
    return {
        "name": clean(side.name),
        "run": side.opens,
        "facts": " · ".join(filter(None, map(clean, facts))),
        "stop": side.stop,
        "reason": side.reason,
        "steps": len(run.steps),
    }


def _compact(step: Step, numbers: dict[tuple[str, ...], int]) -> dict[str, Any]:
    """What is drawn of a step. `commands` is a number, the same for steps with the same commands."""
    calls = []
    for call, result in zip(step.response.tool_calls, step.results, strict=True):
        kind, label, _ = label_call(call)
        kind = _kind_of_command(label) if kind == "execute" else kind
        state = "dropped" if result is None else "failed" if result.is_error else "ok"
        missing = describe_text(call.arguments) if is_redacted(call.arguments) else ""
        calls.append({"kind": kind, "label": label, "state": state, "missing": missing})
    written = [(call.arguments, label_call(call).value) for call in step.response.tool_calls]
    text = remove_commands(step.response.text, written)
    commands = numbers.setdefault(_commands(step), len(numbers))
    missing = f"text {describe_text(text)}" if is_redacted(text) else ""
    line = "" if missing else _line(text, _TEXT)
    return {"calls": calls, "commands": commands, "text": line, "missing": missing, "error": _line(step.error, _TEXT)}


def _kind_of_command(command: str) -> Kind:
    """The kind of a command that a shell runs: that of the tool of its name, which another harness calls directly."""
    kind = kind_of(command.partition(" ")[0])
    plain = not _SHELL.search(command)
    return kind if plain and kind in ("read", "search", "write") else "execute"


def _number(value: float) -> str:
    return f"{value:,.0f}"


def _dollars(value: float) -> str:
    """Four decimals, or six, which is a micro-dollar, where four would show a zero."""
    return f"${value:,.4f}" if value >= 0.0001 else f"${value:.6f}" if value else "$0"  # noqa: PLR2004 - four decimals


def _seconds(ms: float) -> str:
    if ms >= _MINUTE_MS:
        minutes, rest = divmod(round(ms / 100), _MINUTE_MS // 100)
        return f"{minutes:,} min {rest / 10:.1f} s"
    return f"{ms / 1000:,.1f} s" if ms >= 50 or not ms else f"{ms:.0f} ms"  # noqa: PLR2004 - less would show as 0.0 s


def _results(run: Run) -> list[ToolResult | None]:
    return [*result_slots_in(run.steps)]


_AMOUNTS: Final[tuple[tuple[str, Callable[[Run], float | None], Callable[[float], str], float], ...]] = (
    ("steps", lambda run: len(run.steps), _number, 1),
    ("tool calls executed", lambda run: run.n_tool_calls, _number, 1),
    ("calls dropped", lambda run: sum(result is None for result in _results(run)), _number, 1),
    ("calls failed", lambda run: sum(r is not None and r.is_error is True for r in _results(run)), _number, 1),
    ("tokens", tokens_of, _number, 1),
    ("cost", dollars_of, _dollars, 0.0001),
    ("time", lambda run: run.duration_ms, _seconds, 100),
)
"""Name, amount, words, and the unit that an amount is rounded to."""


def _table(a: Run, b: Run) -> Iterator[dict[str, Any]]:
    """Amounts of both, and how much more the second has; what is unknown or zero in both is left out."""
    for name, amount, form, rounding_unit in _AMOUNTS:
        one, other = amount(a), amount(b)
        if (one is None and other is None) or (one == other == 0):
            continue
        yield {
            "name": name,
            "a": None if one is None else form(_rounded(one, rounding_unit)),
            "b": None if other is None else form(_rounded(other, rounding_unit)),
            "difference": None if one is None or other is None else _difference(one, other, form, rounding_unit),
        }


def _difference(one: float, other: float, form: Callable[[float], str], rounding_unit: float) -> str:
    """How much more the second is: the difference of what is shown, and the exact one where that would be zero."""
    if one == other:
        return "same"
    more = (_rounded(other, rounding_unit) - _rounded(one, rounding_unit)) or other - one
    return f"{_MINUS if more < 0 else '+'}{form(abs(more))}"


def _rounded(value: float, rounding_unit: float) -> float:
    """A multiple of the unit; what is less than one unit stays as it is."""
    return round(value / rounding_unit) * rounding_unit if value >= rounding_unit else value


def _notes(a: Run, b: Run) -> Iterator[str]:
    if a.task != b.task:
        yield f'Other tasks: "{_line(a.task, 60)}" and "{_line(b.task, 60)}".'
    if a.model != b.model:
        yield f"Other models: {clean(a.model) or 'unknown'} and {clean(b.model) or 'unknown'}."
    for one, other in zip_longest(a.steps[:1], b.steps[:1]):
        if one is None or other is None:
            yield "One of the two has no steps."


def reason_words(reason: str) -> str:
    """A stop reason in words."""
    return LIMITS[LIMIT_OF_REASON[reason]].label if reason in LIMIT_OF_REASON else reason.replace("_", " ")


def end_words(run: Run) -> str:
    """How a run ended."""
    stop, place = run.stop, stop_place(run)
    if stop.reason not in LIMIT_OF_REASON:
        rule = f", by {stop.rule}" if stop.rule else ""
        return f"{reason_words(stop.reason)} {place}{rule}"
    axis = LIMITS[LIMIT_OF_REASON[stop.reason]]
    # Thresholds of costs and times are in the units of the record.
    value = "" if stop.threshold is None or axis.fractions else f" of {stop.threshold:,}"
    return f"stopped {place} by its {axis.label}{value}"
