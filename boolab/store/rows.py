"""Converts runs to rows of a store and back, exactly. Nothing is read or written here."""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

from boolab.core.codec import decode, dumps, encode, run_of
from boolab.core.messages import Input, Message, Text
from boolab.core.run import Run
from boolab.core.run_tree import descendants
from boolab.core.types import UNKNOWN_USAGE, Image, Response, Step, ToolCall, ToolResult, Usage

Row: TypeAlias = tuple[Any, ...]

StepTexts: TypeAlias = str | Sequence[str]
"""The texts of a step: its text alone, or its text, its reasoning and the opaque part of the reasoning."""

HEAD_COLUMNS: Final = (
    "run_id", "agent", "model", "policy", "task", "source", "parent_run_id", "seed", "started_at", "duration_ms",
    "identity", "context_window", "stop_reason", "stop_step", "stop_rule", "stop_threshold", "stop_value", "also_fired",
    "n_steps", "success", "error", "harness_version", "limits", "settings", "rest",
)  # fmt: skip
"""The columns of a run, except its texts and its position in the store."""

STEP_COLUMNS: Final = (
    "step", "turn", "start_ms", "duration_ms", "model_ms", "ttft_ms", "finish_reason", "native_finish_reason",
    "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "cost", "cache_write_tokens",
    "cache_write_1h_tokens", "answered_by", "response_id", "effort", "speed", "service_tier", "error", "shadow_stops",
    "counted",
)  # fmt: skip
CALL_COLUMNS: Final = (
    "step", "call", "call_id", "tool", "arguments", "result", "is_error", "parse_error", "duration_ms", "answers",
    "images",
)  # fmt: skip

_REST: Final = (
    "compactions", "earlier_wrap_ups", "wrap_up", "sentinel", "synthesis", "events", "scores", "git_commit",
    "git_branch", "cwd", "entrypoint", "stated_cost", "labels", "prints",
)  # fmt: skip
_N_STEPS: Final = HEAD_COLUMNS.index("n_steps")
_INTEGERS: Final = {
    "seed", "duration_ms", "context_window", "stop_step", "stop_threshold", "stop_value", "n_steps", "success",
    "step", "turn", "start_ms", "model_ms", "ttft_ms", "input_tokens", "output_tokens", "cached_tokens",
    "reasoning_tokens", "cost", "cache_write_tokens", "cache_write_1h_tokens", "call", "is_error", "parse_error",
    "counted",
}  # fmt: skip


class RunRecord(NamedTuple):
    """One run as rows of plain values, which are cheap to send from one process to another.

    `head` has the columns of `HEAD_COLUMNS`; the rows of `steps` and `calls` those of `STEP_COLUMNS` and
    `CALL_COLUMNS`. `texts` is JSON: `prompt`, `inputs`, and `responses`, the `StepTexts` of each step. `base` is the id
    of the run that has the steps, if it is another one; then `texts` has no `responses`, and no `prompt` if it is the
    same.
    """

    head: Row
    steps: Sequence[Row]
    calls: Sequence[Row]
    texts: str
    base: str | None = None

    @property
    def run_id(self) -> str:
        return str(self.head[0])

    @property
    def n_steps(self) -> int:
        """How many steps the run has, its own or its base's."""
        return int(self.head[_N_STEPS])


def records_of(run: Run, base: Run | None = None) -> list[RunRecord]:
    """A run's record, and those of its subagents, each followed by those of its own.

    The steps of `base`, if it is given, begin with those of the run: the record then refers to it and holds no steps.
    """
    return [_record(run, base), *(_record(child, None) for child in descendants(run))]


def run_of_record(record: RunRecord, base: RunRecord | Run | None = None) -> Run:
    """The run of a record, without subagents and continuation; a `ValueError` if the record contradicts itself."""
    prompt, inputs, responses = texts_of(record.texts)
    if record.base is None:
        return run_of_head(record.head, steps_of(record.steps, record.calls, responses), prompt or (), inputs)
    if base is None:
        raise ValueError(f"the steps of run {record.run_id} are those of run {record.base}, which was not given")
    base_run = base if isinstance(base, Run) else run_of_record(base)
    return run_of_head(
        record.head, base_run.steps[: record.n_steps], base_run.prompt if prompt is None else prompt, inputs
    )


def texts_of(texts: str) -> tuple[tuple[Message, ...] | None, tuple[Input, ...], Sequence[StepTexts]]:
    """The prompt, if it is there, the inputs and the steps' texts, of a record's `texts`; a `ValueError` if damaged."""
    content = json.loads(texts)
    prompt, responses = content.get("prompt"), content.get("responses", ())
    for words in responses:
        if not (type(words) is str or (type(words) is list and [*map(type, words)] == [str, str, str])):
            raise ValueError(f"responses: {words!r:.80} is neither a text nor three")
    return (
        None if prompt is None else tuple([decode(Message, message) for message in prompt]),
        tuple([decode(Input, record) for record in content.get("inputs", ())]),
        responses,
    )


def head_of(run: Run) -> Row:
    """The columns of `HEAD_COLUMNS`; a `SettingError` if a setting or an event holds what JSON cannot."""
    stop = run.stop
    owner = f"run {run.run_id}"
    rest = {
        name: encode(value, f"{name} of {owner}")
        for name in _REST
        if (value := getattr(run, name)) is not None and value != ()
    }
    return (
        *_plain_columns(run),
        None if run.started_at is None else run.started_at.isoformat(),
        *(run.duration_ms, run.identity, run.context_window, *stop[: len(_STOP)], _json(stop.also_fired)),
        *(len(run.steps), run.success, run.error, run.harness_version),
        _json(encode(run.limits, f"limits of {owner}") if run.limits else None),
        _json(encode(run.settings, f"settings of {owner}") if run.settings else None),
        _json(rest),
    )


_plain_columns = attrgetter(*HEAD_COLUMNS[: HEAD_COLUMNS.index("started_at")])


def run_of_head(head: Row, steps: tuple[Step, ...], prompt: tuple[Message, ...], inputs: tuple[Input, ...]) -> Run:
    """The run of these columns and parts; a `ValueError` if they contradict each other."""
    columns = {name: value for name, value in zip(HEAD_COLUMNS, head, strict=True) if value is not None}
    if columns.pop("n_steps") != len(steps):
        raise ValueError(f"it has {len(steps)} steps of {head[_N_STEPS]}")
    for name in ("limits", "settings", "rest", "also_fired"):
        if name in columns:
            columns[name] = json.loads(columns[name])
    columns |= columns.pop("rest", {})
    if columns.get("success") in (0, 1):
        columns["success"] = bool(columns["success"])
    stop = {name: columns.pop(f"stop_{name}") for name in _STOP if f"stop_{name}" in columns}
    columns["stop"] = stop | ({"also_fired": columns.pop("also_fired")} if "also_fired" in columns else {})
    return run_of(columns, steps=steps, prompt=prompt, inputs=inputs)


def decode_settings(text: str) -> Mapping[str, Any]:
    """The settings of a run, from its column, in which a damaged file may hold anything: a `ValueError`."""
    column: object = text
    if not isinstance(column, str):
        raise ValueError(f"{column!r:.80} is no JSON")  # noqa: TRY004 - the file is wrong
    try:
        settings = json.loads(text)
    except RecursionError:
        msg = "nested too deeply"
        raise ValueError(msg) from None
    return decode(_Settings, {"settings": settings}).settings


class _Settings(NamedTuple):
    settings: Mapping[str, Any]


class _Images(NamedTuple):
    images: tuple[Image, ...]


_STOP: Final = ("reason", "step", "rule", "threshold", "value")


def step_rows(steps: Iterable[Step]) -> tuple[list[Row], list[Row]]:
    """The rows of some steps, and those of their calls."""
    rows: list[Row] = []
    calls: list[Row] = []
    for step in steps:
        response, index = step.response, step.index
        rows.append((
            index, step.turn, step.start_ms, step.duration_ms, step.model_ms, response.ttft_ms, response.finish_reason,
            response.native_finish_reason, *_usage_columns(response.usage), response.model or None, response.id or None,
            response.effort, response.speed, response.service_tier, step.error or None, _json(step.shadow_stops),
            +step.counted,
        ))  # fmt: skip
        for number, (call, result) in enumerate(zip(response.tool_calls, step.results, strict=True), 1):
            call_columns = (index, number, call.id, call.name, call.arguments)
            if result is None:
                calls.append((*call_columns, None, None, None, None, None, None))
            else:
                other = None if result.call_id == call.id else result.call_id
                failed = None if result.is_error is None else +result.is_error
                images = _json(encode(result.images, "images")) if result.images else None
                facts = (failed, +result.parse_error, result.duration_ms, other, images)
                calls.append((*call_columns, result.content, *facts))
    return rows, calls


def steps_of(rows: Sequence[Row], calls: Iterable[Row], responses: Sequence[StepTexts]) -> tuple[Step, ...]:
    """The steps of these rows, which are in order, with their texts; a `ValueError` if a row is damaged."""
    calls_of: list[list[ToolCall]] = [[] for _ in rows]
    results_of: list[list[ToolResult | None]] = [[] for _ in rows]
    for row in calls:
        if not _call_fits(tuple(map(type, row))):
            raise ValueError(f"{row!r:.80} is no call")
        step, _, call_id, tool, arguments, content, is_error, parse_error, duration_ms, answers, images = row
        calls_of[step - 1].append(ToolCall(call_id, tool, arguments))
        results_of[step - 1].append(
            None
            if content is None
            else ToolResult(
                call_id if answers is None else answers,
                content,
                None if is_error is None else bool(is_error),
                bool(parse_error),
                duration_ms,
                () if images is None else decode(_Images, {"images": json.loads(images)}).images,
            )
        )
    steps = []
    for row_number, row in enumerate(rows):
        if not _step_fits(tuple(map(type, row))):
            raise ValueError(f"{row!r:.80} is no step")
        index, turn, start_ms, duration_ms, model_ms, ttft_ms, reason, native, *token_counts = row[:-_AFTER_USAGE]
        model, response_id, effort, speed, tier, error, shadow, is_counted = row[-_AFTER_USAGE:]
        words = responses[row_number] if responses else ""
        text, reasoning, opaque = (words, "", "") if isinstance(words, str) else words
        usage = UNKNOWN_USAGE if token_counts == _NOTHING_KNOWN else Usage(*token_counts)
        response = Response(
            text, tuple(calls_of[row_number]), reason, usage, reasoning, ttft_ms, native, opaque, model or "",
            response_id or "", effort, speed, tier,
        )  # fmt: skip
        results = tuple(results_of[row_number])
        times = (start_ms, duration_ms, model_ms)
        steps.append(Step(index, turn, *times, response, results, error or "", _texts(shadow), bool(is_counted)))
    return tuple(steps)


_USAGE: Final = tuple(name for name in STEP_COLUMNS if name in Usage._fields)
_usage_columns: Final = attrgetter(*_USAGE)
_NOTHING_KNOWN: Final = [*_usage_columns(UNKNOWN_USAGE)]
_AFTER_USAGE: Final = len(STEP_COLUMNS) - STEP_COLUMNS.index("answered_by")
_REQUIRED_COLUMNS: Final = {"step", "turn", "counted", "call", "call_id", "tool", "arguments"}


def _type_check(columns: tuple[str, ...]) -> Callable[[tuple[type, ...]], bool]:
    """Whether a row may have values of these types, which SQLite does not check. Cached: most rows are alike."""

    @lru_cache(maxsize=256)
    def fit(kinds: tuple[type, ...]) -> bool:
        return all(
            (kind is types.NoneType and name not in _REQUIRED_COLUMNS)
            or kind in ((int, bool) if name in _INTEGERS else (str,))
            for kind, name in zip(kinds, columns, strict=True)
        )

    return fit


_step_fits = _type_check(STEP_COLUMNS)
_call_fits = _type_check(CALL_COLUMNS)


def make_storable(row: Row) -> Row:
    """A row with BLOBs in place of what SQLite cannot store: lone surrogates, integers of more than 64 bits."""
    return tuple([_as_blob(value) for value in row])


def is_odd(row: Row) -> bool:
    """Whether a row has BLOBs."""
    return any(type(value) is bytes for value in row)


def restore_row(row: Sequence[Any], columns: Sequence[str]) -> Row:
    """A row as it was before `make_storable`."""
    return tuple(
        [
            value
            if type(value) is not bytes
            else int(value)
            if name in _INTEGERS
            else value.decode("utf-8", "surrogatepass")
            for name, value in zip(columns, row, strict=True)
        ]
    )


def _as_blob(value: object) -> object:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-8", "surrogatepass")
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        return str(value).encode()
    return value


def _record(run: Run, base: Run | None) -> RunRecord:
    if base is not None and run.steps != base.steps[: len(run.steps)]:
        raise ValueError(f"the steps of run {run.run_id} are not the first of run {base.run_id}")
    pieces = []
    prompt = _prompt(run.prompt)
    if prompt != (_NO_PROMPT if base is None else prompt if base.prompt is run.prompt else _prompt(base.prompt)):
        pieces.append(f'"prompt":{prompt}')
    if run.inputs:
        pieces.append(f'"inputs":{_json(encode(run.inputs, "inputs"))}')
    if base is not None:
        return RunRecord(head_of(run), (), (), f"{{{','.join(pieces)}}}", base.run_id)
    responses = [
        (response.text, response.reasoning, response.opaque) if response.reasoning or response.opaque else response.text
        for response in (step.response for step in run.steps)
    ]
    if any(responses):
        pieces.append(f'"responses":{_json(responses)}')
    return RunRecord(head_of(run), *step_rows(run.steps), f"{{{','.join(pieces)}}}")


_NO_PROMPT: Final = "[]"


def _prompt(prompt: tuple[Message, ...]) -> str:
    """The messages before the first step as JSON, which is the same in many runs of a sweep."""
    if all(type(part) is Text for part in chain.from_iterable(message.parts for message in prompt)):
        return _plain_prompt(prompt)
    return dumps(encode(prompt, "prompt")).decode()


@lru_cache(maxsize=64)
def _plain_prompt(prompt: tuple[Message, ...]) -> str:
    """The same for texts alone: as a key of the cache, parts of two other kinds may be equal tuples."""
    return dumps(encode(prompt, "prompt")).decode()


def _json(value: object) -> str | None:
    return dumps(value).decode() if value else None


def _texts(value: str | None) -> tuple[str, ...]:
    if value is None:
        return ()
    texts = json.loads(value)
    if not all(type(text) is str for text in texts):
        raise ValueError(f"{value!r:.80} is no list of texts")
    return tuple(texts)


def as_json(value: Mapping[str, Any], owner: str) -> str:
    """A mapping as JSON text; a `SettingError` if JSON cannot hold it."""
    return dumps(encode(value, owner)).decode()
