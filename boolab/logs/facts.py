"""Facts instead of texts: runs without anybody's text, from which boolab answers the same.

A run of facts is an ordinary `Run`: it is written, read, stored and asked as any other. A word stays only in a place
that `boolab.logs.fact_places` lists, and only if it has the form that the place's rule asks for. Any other text is
replaced by a placeholder (`boolab.core.redacted`) that has a number and a length, or left out. One numbering serves all
runs of a file: equal texts have one number, and numbers are given in order of first appearance, so the same runs give
the same file. The order is that of the runs, and in each run that of its prompt, its steps, what came between them, and
its end.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from hashlib import blake2b
from itertools import chain
from typing import Any, Final

from boolab.core.messages import StepStart
from boolab.core.redacted import TIMED_OUT, RedactedArguments, beginning_of, chars_of, redacted_result, redacted_text
from boolab.core.run import Run
from boolab.core.run_tree import rebuild
from boolab.core.types import REDACTED, Event, Usage
from boolab.frames.runs import Runs, iterate_runs
from boolab.limits.call_identity import normalise_arguments
from boolab.logs.fact_places import EVENT_FIELDS, EVENTS, FIELDS, SETTINGS, TASK_SOURCES, field_names, stays
from boolab.logs.fingerprint import prints_of

_ALL_NUMBERS: Final = (Usage, StepStart)
"""Records that hold no text: they are facts as they are."""


def facts_of(runs: Runs) -> Iterator[Run]:
    """Runs with placeholders in place of all texts: see `boolab.logs.fact_places`.

    `runs`: a run, runs, or the path of a store. Of the texts only digests are kept in memory, to number them.

    Yields:
        Each run, and within it its subagents. One numbering serves all of them.
    """
    numbering = _Numbering()
    for run in iterate_runs(runs):
        yield rebuild(run, lambda node: _Facts(numbering).strip_run(replace(node, subagents=())))


class _Numbering:
    """The numbers of the texts of one file."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, bytes], int] = {}
        self._last: dict[str, int] = {}

    def number(self, kind: str, text: str) -> int:
        """The number of a text among those of its kind, from 1."""
        key = (kind, blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest())
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = self._last[kind] = self._last.get(kind, 0) + 1
        return number

    def first_number(self, kind: str, text: str, number: int) -> int:
        """The number that came first with this text of another kind."""
        key = (kind, blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest())
        return self._numbers.setdefault(key, number)


class _Facts:
    """The facts of one run: a method for each rule of `fact_places` that keeps more than a word."""

    def __init__(self, numbering: _Numbering) -> None:
        self._numbering = numbering
        self._sent = _texts_of_policies()
        self._call_ids: dict[str, str] = {}
        self._task = ""
        self._prints: tuple[str, ...] = ()
        self._methods: dict[str, Callable[[Any], Any]] = {
            "arguments": self._arguments,
            "call id": self._call_id,
            "content": self._content,
            "fingerprint": lambda _: self._prints,
            "grade": self._grade,
            "limits": self._limits,
            "number": self._value,
            "record": self._record,
            "run id": self._run_id,
            "settings": self._settings,
            "task": lambda _: self._task,
            "text": self._text,
            "time": lambda time: time,
        }

    def strip_run(self, run: Run) -> Run:
        self._task, self._prints = self._task_of(run), prints_of(run)
        return Run(**self._fields(run))

    def _fields(self, record: object) -> dict[str, Any]:
        """The fields of a record's facts that are not left out, by the rules of its type."""
        kind: Any = type(record)
        return {name: self._apply_rule(rule, getattr(record, name)) for name, rule in _rules_of(kind)}

    def _apply_rule(self, rule: str, value: Any) -> Any:  # noqa: ANN401 - a value of the same kind
        if value is None:
            return None
        method = self._methods.get(rule)
        if method is not None:
            return method(value)
        if isinstance(value, str):
            return value if not value or stays(rule, value) else self._placeholder(value)
        return tuple(self._apply_rule(rule, item) for item in value) if isinstance(value, tuple) else self._value(value)

    def _record(self, value: Any) -> Any:  # noqa: ANN401 - a record of the same type
        kind = type(value)
        if kind is tuple:
            return tuple(map(self._record, value))
        if value is None or kind in _ALL_NUMBERS:
            return value
        if isinstance(value, Event):
            return self._event(value)
        return kind(**self._fields(value))

    def _event(self, event: Event) -> Event:
        rules = EVENTS.get(event.kind)
        kind = self._placeholder(event.kind) if rules is None else event.kind
        rules = {**EVENT_FIELDS, **(rules or {})}
        payload = {
            name: self._apply_rule(rules[name], value)
            for name, value in event.payload.items()
            if rules.get(name, "left out") != "left out"
        }
        return Event(event.t_ms, kind, payload)

    def _placeholder(self, text: str) -> str:
        return redacted_text(self._numbering.number("text", text), chars_of(text)) if text else ""

    def _text(self, text: object) -> object:
        if not isinstance(text, str):
            return self._value(text)
        return text if text in self._sent else self._placeholder(text)

    def _value(self, value: object) -> Any:  # noqa: ANN401 - a value of the same kind
        """A value of any kind: numbers, flags and unknowns stay, in lists and mappings too."""
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, tuple):
            return tuple(map(self._value, value))
        if isinstance(value, list):
            return list(map(self._value, value))
        if isinstance(value, Mapping):
            return {self._value(key): self._value(item) for key, item in value.items()}
        return self._text(value if isinstance(value, str) else str(value))

    def _run_id(self, run_id: object) -> object:
        if not isinstance(run_id, str) or not run_id or stays("run id", run_id):
            return run_id
        return f"run {self._numbering.number('run', run_id)}"

    def _task_of(self, run: Run) -> str:
        if not run.task:
            return ""
        if run.source in TASK_SOURCES and stays("task", run.task):
            messages = (*run.prompt, *(message for _, message in run.inputs))
            word = run.task.casefold()
            if not any(word in message.text.casefold() for message in messages):
                return run.task
        return f"task {self._numbering.number('task', run.task)}"

    def _call_id(self, call_id: object) -> object:
        """An id of the run's calls as a number from 1, in order of first appearance; an empty id stays empty."""
        if not isinstance(call_id, str) or not call_id:
            return self._value(call_id)
        return self._call_ids.setdefault(call_id, str(len(self._call_ids) + 1))

    def _arguments(self, arguments: str) -> str:
        if arguments == REDACTED:
            return REDACTED
        number = self._numbering.number("arguments", arguments)
        ordered = self._numbering.first_number("ordered", normalise_arguments(arguments, sort=False), number)
        canonical = self._numbering.first_number("canonical", normalise_arguments(arguments, sort=True), number)
        return str(RedactedArguments(canonical, ordered, number, chars_of(arguments)))

    def _content(self, content: str) -> str:
        if not content:
            return ""
        number = self._numbering.number("result", content)
        begins = self._numbering.first_number("beginning", beginning_of(content), number)
        return redacted_result(number, begins, chars_of(content), timed_out=TIMED_OUT in content)

    def _grade(self, value: object) -> object:
        return value if isinstance(value, str) and stays("grade", value) else self._value(value)

    def _limits(self, limits: object) -> object:
        if not isinstance(limits, Mapping):
            return self._value(limits)
        return {self._apply_rule("tool", name): self._value(limit) for name, limit in limits.items()}

    def _settings(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        return {
            self._apply_rule("tool", name): self._apply_rule(SETTINGS.get(name, "number"), value)
            for name, value in settings.items()
        }


@cache
def _rules_of(kind: type[Hashable]) -> list[tuple[str, str]]:
    """The fields of a record that are facts, each with its rule, in the order in which their texts are numbered."""
    present = field_names(kind)
    return [(name, rule) for name, rule in FIELDS[kind].items() if name in present and rule != "left out"]


@cache
def _texts_of_policies() -> frozenset[str]:
    """What the shipped policies send to a model in between: it is in boolab itself, and decides whether they did."""
    from boolab.harnesses.presets import policies

    texts = {policy.finish.idle_prompt for policy in policies.values()}
    guards = chain.from_iterable(policy.detectors.guards for policy in policies.values())
    return frozenset(texts | {guard.nudge for guard in guards})
