"""A run as text to read: what `print(run)` shows.

Long texts are folded, equal steps in a row are printed once, and unknown values are `?`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import singledispatch
from typing import Any, Final

from boolab.core.messages import Message
from boolab.core.redacted import chars_of
from boolab.core.run import Run, stop_place
from boolab.core.text import clip, count, flatten, replace_controls
from boolab.core.types import Event, Response, Step, ToolResult, Usage, result_slots_in
from boolab.display.numbers import duration

WIDTH: Final = 100
_LINES: Final = 6
_THOUGHTS: Final = 2
_PROMPT: Final = 4
_FOLD: Final = 3
"""More equal steps in a row than these are printed once."""
_ELSEWHERE: Final = ("sentinel", "synthesis", "stop", "world")
"""Events that the end of the text shows, and `world`: a fault is shown in its place where files were not kept."""
_AS_MESSAGES: Final = ("input", "reminder", "nudge", "continuation", "extension", "continued")
"""Events that are shown as messages."""
_HIDDEN_FACTS: Final = ("after_step", "call_id", "code", "results", "step_number")
"""Facts of events that are clear from their place, or from the description."""


@singledispatch
def text_of(value: object) -> str:
    """A value as text to read: what `print` shows of it."""
    return repr(value)


@text_of.register
def transcript(run: Run) -> str:
    """The whole run, folded."""
    return "\n".join(_join_lines(line).rstrip() for line in _run(run))


def _run(run: Run) -> Iterator[str]:
    yield from _header(run)
    messages_by_step: dict[int, list[Message]] = {1: [message for message in run.prompt if message.text]}
    for step_number, message in run.inputs:
        messages_by_step.setdefault(step_number, []).append(message)
    kinds: dict[tuple[int, str], str] = {}
    happened: dict[int, list[Event]] = {}
    for event in run.events:
        after = event.payload.get("after_step", len(run.steps))
        if event.kind in _AS_MESSAGES:
            kinds[after + 1, event.payload.get("what", "")] = event.kind
        elif event.kind not in _ELSEWHERE:
            happened.setdefault(after, []).append(event)
    has_turns = len({step.turn for step in run.steps}) > 1
    turn = 0
    yield from happenings(happened.get(0, ()))
    for steps in _groups(run.steps, messages_by_step, happened):
        opens = has_turns and steps[0].turn != turn
        turn = steps[0].turn
        rule = f"── turn {turn} ".ljust(WIDTH, "─") if opens else ""
        yield from _messages(messages_by_step.pop(steps[0].index, []), rule, _kinds_at(steps[0].index, kinds))
        yield ""
        yield from _step(steps[0])
        if len(steps) > 1:
            calls = "call" if len(steps[0].results) == 1 else "calls"
            yield f"    ⋮  the same {calls} {len(steps) - 1:,} times more, steps {steps[1].index}-{steps[-1].index}"
        yield from happenings(happened.get(steps[-1].index, ()))
    for step_number, messages in messages_by_step.items():
        yield from _messages(messages, "", _kinds_at(step_number, kinds))
    yield ""
    yield from ending(run)


def _header(run: Run) -> Iterator[str]:
    yield f"━━ run {run.run_id} ".ljust(WIDTH, "━")
    facts = [
        ("agent", run.agent),
        ("model", run.model),
        ("policy", run.policy),
        ("source", run.source),
        ("parent", run.parent_run_id),
        ("seed", run.seed),
        ("success", "?" if run.success is None else "yes" if run.success else "no"),
        ("started", run.started_at and f"{run.started_at:%Y-%m-%d %H:%M:%S %Z}"),
    ]
    line = ""
    for fact in (flatten(f"{name} {value}") for name, value in facts if value not in (None, "")):
        if line and len(line) + len(fact) + 3 > WIDTH:
            yield clip(line, WIDTH)
            line = ""
        line += f"   {fact}" if line else fact
    yield clip(line, WIDTH)
    if run.task and run.task not in (flatten(message.text) for message in run.prompt):
        yield from fold_lines(flatten(f"task {run.task}"), 2, "")
    limits = [format_limit(name, value) for name, value in run.limits.items()]
    settings = [f"{name}={value}" for name, value in run.settings.items()]
    for name, values in (("limits", limits), ("settings", settings)):
        if values:
            yield from fold_lines(flatten(f"{name} {', '.join(values)}"), 2, "")


def format_limit(name: str, value: int) -> str:
    """A limit in common units."""
    if name == "cost":
        return f"cost ${value / 1_000_000:,.2f}"
    return f"elapsed {value / 1000:,.10g} s" if name == "elapsed" else f"{name} {value:,}"


def _kinds_at(step: int, kinds: Mapping[tuple[int, str], str]) -> dict[str, str]:
    """What kind of message each text before a step is, where an event names it."""
    return {text: kind for (step_number, text), kind in kinds.items() if step_number == step}


def _messages(messages: Sequence[Message], turn: str, kind_by_text: Mapping[str, str]) -> Iterator[str]:
    """Messages that came in together; a turn opens with the last of them."""
    for message in messages[:-1] if turn else messages:
        yield from _message(message, "" if message is messages[0] else None, kind_by_text)
    if turn:
        yield ""
        yield turn
    for message in messages[-1:] if turn else ():
        yield from _message(message, None, kind_by_text)


def _message(message: Message, above: str | None, kind_by_text: Mapping[str, str]) -> Iterator[str]:
    if above is not None:
        yield above
    mark = "  user │ " if message.role == "user" else f"{message.role:>6} │ "
    kind = kind_by_text.get(message.text, "input")
    text = message.text if kind == "input" else f"[{kind}] {message.text}"
    yield from fold_lines(text, _PROMPT, mark, f"{'│':>{len(mark) - 1}} ")


def _step(step: Step) -> Iterator[str]:
    response = step.response
    start = "" if step.start_ms is None else f" at {duration(step.start_ms)}"
    took_text = "" if step.duration_ms is None else f", took {duration(step.duration_ms)}"
    yield f"{step.index:>3}.{start}{took_text}{', ' if start else '  '}{usage(response.usage)}{_finish(response)}"
    if response.reasoning:
        yield from fold_lines(response.reasoning, _THOUGHTS, "     ~ ")
    if response.text:
        yield from fold_lines(response.text, _LINES, "     ")
    for call, result in zip(response.tool_calls, step.results, strict=False):
        yield clip(f"     -> {flatten(call.name)} {flatten(call.arguments)}", WIDTH)
        yield clip(f"     <- {format_result(result)}", WIDTH)
    if step.error:
        yield clip(f"     !! {flatten(step.error)}", WIDTH)


def _finish(response: Response) -> str:
    expected = "tool_calls" if response.tool_calls else "stop"
    if response.finish_reason in (None, expected):
        return ""
    native = response.native_finish_reason
    native_text = f" ({flatten(native)})" if native not in (None, response.finish_reason) else ""
    return f", ended by {response.finish_reason}{native_text}"


def format_result(result: ToolResult | None) -> str:
    """The result of a call on one line: whether it failed, how long it took, and the start of its text."""
    if result is None:
        return "dropped, never executed"
    status = {True: "error", False: "ok", None: "?"}[result.is_error]
    parse_note = ", arguments were no JSON" if result.parse_error else ""
    took_text = "" if result.duration_ms is None else f" in {duration(result.duration_ms)}"
    content = flatten(result.content)
    return (
        f"{status}{parse_note} {count(chars_of(result.content), 'char')}{took_text}{': ' + content if content else ''}"
    )


def happenings(events: Iterable[Event], width: int = WIDTH) -> Iterator[str]:
    """Exceptional events, a line each: retries, nudges, compactions, and how subagents ended."""
    for event in events:
        if event.kind == "subagent":
            yield from _subagent(event.payload, width)
            continue
        if event.kind == "retry":
            yield clip(f"     ** {_retry(event.payload)}", width)
            continue
        unset = "none" if event.kind == "limits" else "?"
        facts = ", ".join(
            _fact(name, unset if value is None else value)
            for name, value in event.payload.items()
            if name not in _HIDDEN_FACTS
        )
        yield clip(f"     ** {event.kind}{': ' if facts else ''}{flatten(facts)}", width)


def _subagent(facts: Mapping[str, Any], width: int) -> Iterator[str]:
    """How a subagent ended; its start is not shown."""
    if facts["reason"] is not None:
        counts = f"{count(facts['steps'], 'step')}, {count(facts['calls'], 'call')}"
        yield clip(
            f"     => subagent {flatten(facts['agent'])}: {facts['reason']}, {counts}, run {facts['run_id']}", width
        )


def _retry(facts: Mapping[str, Any]) -> str:
    """A failed attempt, and what followed. Events of logs may lack any of the facts."""
    wait = facts.get("wait_ms")
    wait_text = f", again after {duration(wait)}" if isinstance(wait, int) else ""
    return flatten(f"attempt {facts.get('attempt', '?')} failed{wait_text}: {facts.get('what', '?')}")


def _fact(name: str, value: object) -> str:
    return str(value) if name == "what" else f"{name} {value}"


def ending(run: Run, width: int = WIDTH) -> Iterator[str]:
    """How a run ended, and its totals: the last lines of its transcript."""
    if run.wrap_up is not None:
        usage_text = usage(run.wrap_up.response.usage) if run.wrap_up.response is not None else "not asked"
        fault = f" ({run.wrap_up.fault})" if run.wrap_up.fault else ""
        yield f"     wrap-up, {usage_text if run.wrap_up.asked else 'not asked'}{fault}"
        if run.sentinel is None or run.wrap_up.text != run.sentinel.text:
            yield from fold_lines(run.wrap_up.text, _LINES, "     ", width=width)
    if run.synthesis is not None:
        yield "     synthesis"
        yield from fold_lines(run.synthesis, _LINES, "     ", width=width)
    if run.sentinel is not None:
        yield from fold_lines(run.sentinel.text, 2, f"     [{run.sentinel.kind}] ", "     ", width=width)
    stop = run.stop
    rule = f" by {stop.rule}" if stop.rule else ""
    value = f", {stop.value:,} of {stop.threshold:,}" if None not in (stop.value, stop.threshold) else ""
    other_rules = f", also {', '.join(stop.also_fired)}" if stop.also_fired else ""
    yield f"━━ {stop.reason}{rule} {stop_place(run)}{value}{other_rules} ".ljust(width, "━")
    results = [*result_slots_in(run.steps)]
    executed = [result for result in results if result is not None]
    unknown = sum(result.is_error is None for result in executed)
    counts = [
        count(len(run.steps), "step"),
        count(len(executed), "call"),
        count(sum(result.is_error is True for result in executed), "error") + (f" (? {unknown:,})" if unknown else ""),
        f"{len(results) - len(executed):,} dropped" if len(executed) < len(results) else "",
        _total(run),
        "time ?" if run.duration_ms is None else duration(run.duration_ms),
    ]
    yield "   " + "   ".join(part for part in counts if part)
    if run.error:
        yield from fold_lines(run.error, 3, "   !! ", width=width)


def _total(run: Run) -> str:
    """The sum of all usage in a few words, unknown where any of it is."""
    usages = [*(step.response.usage for step in run.steps), *run.outside]
    names = ("input_tokens", "output_tokens", "cached_tokens", "cost")
    return _usage(*(_sum([getattr(usage, name) for usage in usages]) for name in names))


def _sum(values: Sequence[int | None]) -> int | None:
    amounts = [value for value in values if value is not None]
    return sum(amounts) if amounts and len(amounts) == len(values) else None


def usage(amounts: Usage) -> str:
    """Tokens and money in a few words; `?` for what is not known."""
    return _usage(amounts.input_tokens, amounts.output_tokens, amounts.cached_tokens, amounts.cost)


def _usage(input_tokens: int | None, output_tokens: int | None, cached: int | None, cost: int | None) -> str:
    if input_tokens is None and output_tokens is None:
        tokens = "tokens ?"
    else:
        cache_text = f" ({cached:,} cached)" if cached else ""
        tokens = f"tokens {_number(input_tokens)}{cache_text} in, {_number(output_tokens)} out"
    return tokens if cost is None else f"{tokens}, ${cost / 1_000_000:.4f}"


def _number(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


def _groups(steps: Sequence[Step], talk_steps: Collection[int], happened: Collection[int]) -> Iterator[list[Step]]:
    """The steps; equal ones in a row together, if there are enough of them."""
    row: list[Step] = []
    for step in steps:
        separate = step.index in talk_steps or (row and row[-1].index in happened)
        if (
            row
            and not separate
            and step.turn == row[0].turn
            and _face(step) is not None
            and _face(step) == _face(row[0])
        ):
            row.append(step)
            continue
        yield from _folded_row(row)
        row = [step]
    yield from _folded_row(row)


def _folded_row(row: list[Step]) -> Iterator[list[Step]]:
    if len(row) > _FOLD:
        yield row
    else:
        for step in row:
            yield [step]


def _face(step: Step) -> object:
    """What makes two steps look the same: their calls, and how the results looked."""
    if not step.results or step.error:
        return None
    calls = tuple((call.name, call.arguments) for call in step.response.tool_calls)
    return calls, tuple(result and (result.is_error, result.content) for result in step.results)


def _join_lines(line: str) -> str:
    """A line that is one, whatever stands in the names, rules and reasons that came with a log."""
    return replace_controls(line).replace("\n", " ")


def fold_lines(text: str, max_lines: int, first: str, rest: str | None = None, width: int = WIDTH) -> Iterator[str]:
    """The first lines of a text, and how many more there are."""
    rest = " " * len(first) if rest is None else rest
    room = max(width - max(len(first), len(rest)), 1)
    lines = [
        part
        for line in text[: 40 * WIDTH].splitlines()
        if line.strip()
        for part in textwrap.wrap(replace_controls(line), room, tabsize=4)
    ]
    n_hidden = sum(1 for line in text[40 * WIDTH :].splitlines() if line.strip())
    # The note of one more line would take the place of that line.
    shown_lines = lines if len(lines) + n_hidden <= max_lines + 1 else lines[:max_lines]
    for number, line in enumerate(shown_lines):
        yield (first if number == 0 else rest) + line
    if len(shown_lines) < len(lines) + n_hidden:
        yield f"{rest}… {count(len(lines) + n_hidden - len(shown_lines), 'more line')}"
