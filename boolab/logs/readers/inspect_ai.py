"""Inspect AI: evaluation logs, as `.json` and as `.eval` archives; see github.com/UKGovernmentBEIS/inspect_ai.

The log
-------
A header (`version`, `status`, `eval`, `plan`, `results`, `stats`) and `samples`: one document in a `.json`;
`header.json` and `samples/<id>_epoch_<n>.json` in a `.eval`, which is a ZIP. Large samples may be split:
`samples/<id>_epoch_<n>/sample.json`, with numbered chunks of `messages`, `events` and `attachments` beside it. An
unfinished evaluation has `_journal/start.json` as its header, and the samples so far; its `summaries` have no messages
and are not read.

Runs and steps
--------------
A run is one sample of one epoch. Its steps are the assistant messages of the final conversation, without those of the
input. Tokens, finish reasons and times are those of the message's model event, which is found by id, or in older logs
by its content, in order. Events of scorers and of other solvers match no message and are no steps. If a limit stopped
the sample, the agent's responses that are not in the conversation are steps too. Messages that a compaction or a solver
removed are unknown.

User messages open turns, except summaries of a compaction and the sentences with which Inspect's agents let the model
continue. A result is an error only if it has an `error`, because the log records every failure. Arguments that could
not be parsed are the raw text in the call's `parse_error`. Long texts may be in `attachments` (`attachment://<hash>`,
older `tc://<hash>`).

Some providers exclude cached tokens from input, or reasoning tokens from output, as the total shows.

The end
-------
A `limit` of a sample stopped it: `message` and `turn` are a step cap (a message limit counts messages, so its threshold
is in the rule and in `limits["messages"]`), `time` and `working` a time budget, `token` and `cost` budgets of these.
Others (`context`, `operator`, `custom`) are aborted, with the limit as the rule. Older logs have no `limit`: then the
run was stopped by a last event `sample_limit`, or if it has the maximum of messages and no final answer. A sample with
an `error` ended with it. All others finished.

`success` is the score: "C" or 1 is a success, "I", "N" or 0 is none. It is unknown for partial and compound scores, and
if several scores do not agree.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import chain, product
from pathlib import Path
from typing import Any, Final

from boolab.core.finish_reasons import finish_reason
from boolab.core.run import Run
from boolab.core.types import REDACTED, Stop, StopReason, Usage
from boolab.errors import RunFormatError
from boolab.io.json_input import (
    MAX_LINE,
    Damage,
    items,
    json_document,
    json_text,
    mapping,
    micro,
    parse,
    text,
    whole,
)
from boolab.io.packed import open_unpacked
from boolab.logs.builder import RunBuilder
from boolab.logs.checks import Totals
from boolab.logs.fields import Head, effort_of, epoch_ms, first_choice, make_unique, name_or_none, one_line, scores_of
from boolab.logs.readers._archives import Archive
from boolab.logs.readers._inspect_sample import Attachments, SampleEvents, response_of
from boolab.logs.step_builder import StepBuilder, elapsed_ms

NAME: Final = "inspect"
SCOPE: Final = "run"
SUFFIXES: Final = (".eval", ".json")
TESTED: Final = "3"
PLACES: Final = ()
LOOKED_FOR: Final = 'an object with "version", "status" and "eval", or a ZIP archive of such (.eval)'

_STATUSES: Final = ("started", "success", "cancelled", "error")
_ZIP: Final = b"PK\x03\x04"
_HEADER: Final = "header.json"
_START: Final = "_journal/start.json"
_SAMPLE_FILE: Final = re.compile(r"samples/.*_epoch_\d+\.json", re.DOTALL)
_SHELL: Final = re.compile(r"(samples/.*_epoch_\d+/)sample\.json", re.DOTALL)
_CHUNK: Final = re.compile(r"(samples/.*_epoch_\d+/(?:messages|events|attachments)/)(\d{1,12})\.json", re.DOTALL)
_UNPARSED: Final = re.compile(r"Error parsing the following tool call arguments:\n\n(.*)\n\nError details: ", re.DOTALL)
_CONTINUE: Final = (
    "Please proceed to the next step using your best judgement",
    "Your submission was incorrect. Please proceed and attempt to find the correct answer",
)
_GRADES: Final = {"C": True, "I": False, "N": False}
_LIMITS: Final[Mapping[str, tuple[StopReason, str, int]]] = {
    "cost": ("cost_budget", "cost", 1_000_000),
    "message": ("step_cap", "messages", 1),
    "time": ("time_budget", "elapsed", 1000),
    "token": ("token_budget", "tokens", 1),
    "turn": ("step_cap", "steps", 1),
    "working": ("time_budget", "working", 1000),
}
"""For each kind of limit the reason of a stop by it, its counter, and the counter's units in one of the limit's."""


def sniff(head: Head) -> bool:
    """Whether this is a log of Inspect, or a damaged file named `.eval`, which `read` reports."""
    if head.data.startswith(_ZIP):
        name = head.data[30 : 30 + int.from_bytes(head.data[26:28], "little")]
        return head.path.suffix == ".eval" or name in (_HEADER.encode(), _START.encode())
    if head.path.suffix == ".eval" and not head.values:
        return True
    first = head.first
    return first.get("status") in _STATUSES and "version" in first and "task" in mapping(first.get("eval"))


def read(path: Path, damage: Damage) -> list[Run]:
    """The runs of one file."""
    with open_unpacked(path) as file:
        start = file.read(64)
    if start.startswith(_ZIP) or path.suffix == ".eval":
        if not start.startswith(b"PK"):
            msg = "an .eval file is a ZIP archive, and this is none"
            if start.startswith(b"version https://git-lfs"):
                msg += ": it is a pointer of Git LFS"
            raise RunFormatError(msg, path=path, line=1)
        with Archive(path) as archive:
            log = _EvalLog(path, _header(archive, damage))
            runs = log.runs(_read_samples(archive, damage), damage)
    else:
        document = json_document(path, damage)
        if not isinstance(document, dict) or not isinstance(document.get("eval"), dict):
            raise RunFormatError(f"a log of Inspect is {LOOKED_FOR}", path=path, line=1)
        log = _EvalLog(path, document)
        runs = log.runs(enumerate(items(document.get("samples")), 1), damage)
    if log.unfinished:
        damage.remarks.append(f"the evaluation did not finish; it holds the {len(runs):,} samples that were done")
    return runs


def _header(archive: Archive, damage: Damage) -> Mapping[str, Any]:
    for name in (_HEADER, _START):
        if name in archive.names:
            try:
                return mapping(parse(archive.read(name)))
            except ValueError as error:
                damage.note(1, f"{name}: {error}")
    if damage.first is None:
        msg = f"a ZIP archive without {_HEADER} and {_START}: no log of Inspect"
        raise RunFormatError(msg, path=archive.path, line=1)
    return {}


def _read_samples(archive: Archive, damage: Damage) -> Iterator[tuple[int, Any]]:
    chunks: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for name in archive.names:
        match = _CHUNK.fullmatch(name)
        if match:
            chunks[match[1]].append((int(match[2]), name))
    for number, name in enumerate(archive.names, 1):
        shell = _SHELL.fullmatch(name)
        if shell is None and not _SAMPLE_FILE.fullmatch(name):
            continue
        try:
            sample = parse(archive.read(name))
            if shell is not None and isinstance(sample, dict):
                sample = _join_chunks(archive, sample, shell[1], chunks)
        except ValueError as error:
            damage.note(1, f"{name}: {error}")
        except RunFormatError as error:  # it is too large; others may not be
            damage.note(1, error.message)
        else:
            yield number, sample


def _join_chunks(
    archive: Archive, shell: dict[str, Any], prefix: str, chunks: Mapping[str, list[tuple[int, str]]]
) -> dict[str, Any]:

    def sequence(kind: str) -> list[Any]:
        names = sorted(chunks.get(f"{prefix}{kind}/", ()))
        return [*chain.from_iterable(items(parse(archive.read(name))) for _, name in names)]

    pool = sequence("messages")
    messages: list[Any] = []
    for reference in items(shell.get("message_refs")):
        match items(reference):
            case [start, end] if len(messages) <= len(pool) * 4:
                messages += pool[whole(start) or 0 : whole(end)]
    attached = {str(index): item for index, item in enumerate(sequence("attachments"))}
    return {**shell, "messages": messages, "events": sequence("events"), "attachments": attached}


class _EvalLog:
    """The facts of all samples."""

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        evaluation = mapping(header.get("eval"))
        config = mapping(evaluation.get("config"))
        self.unfinished = header.get("status", "started") == "started"
        self.version = whole(header.get("version"))
        self.results = mapping(header.get("results"))
        self.task = text(evaluation.get("task")) or path.stem
        self.model = text(evaluation.get("model"))
        self.agent = _agent(evaluation, mapping(header.get("plan")))
        self.harness = name_or_none(mapping(evaluation.get("packages")).get("inspect_ai"))
        self.commit = mapping(evaluation.get("revision")).get("commit")
        self.effort = _effort(mapping(header.get("plan")).get("config"), evaluation.get("model_generate_config"))
        self.id = text(evaluation.get("eval_id"))
        self.id = self.id or "/".join(filter(None, (text(evaluation.get("run_id")) or path.stem, self.task)))
        self.limits: dict[str, int] = {}
        for kind, (_, counter, unit) in _LIMITS.items():
            limit = _units(config.get(f"{kind}_limit"), unit)
            if kind == "message" and limit is None:
                limit = _units(config.get("max_messages"), unit)
            if limit is not None:
                self.limits[counter] = limit

    def runs(self, samples: Iterator[tuple[int, Any]], damage: Damage) -> list[Run]:
        id_counts: Counter[str] = Counter()
        runs = []
        for number, sample in samples:
            if not isinstance(sample, dict) or "id" not in sample:
                damage.note(1, f"sample {number} is no object with an id")
                continue
            name = sample["id"] if isinstance(sample["id"], str) else json_text(sample["id"])
            run_id = f"{self.id}/{name}/{whole(sample.get('epoch')) or 1}"
            runs.append(_Sample(self, sample, damage).run(make_unique(run_id, id_counts), f"{self.task}/{name}"))
        completed, total = (whole(self.results.get(f"{name}_samples")) for name in ("completed", "total"))
        if completed is not None:
            totals = Totals()
            totals.compare("results", "samples", (completed, max(completed, total or 0)), len(runs))
            damage.inconsistencies += totals.check("", ())
        damage.versions.update(() if self.version is None else (str(self.version),))
        return runs


def _agent(evaluation: Mapping[str, Any], plan: Mapping[str, Any]) -> str:
    """The solver: the requested one, else the last of the plan."""
    steps = [text(mapping(step).get("solver")) for step in items(plan.get("steps"))]
    return text(evaluation.get("solver")) or (steps[-1] if steps else "")


def _effort(*configs: object) -> str | None:
    """The effort in the first settings of a request that have one."""
    values = [
        mapping(config).get(name)
        for config, name in product(configs, ("reasoning_effort", "effort", "reasoning_tokens"))
    ]
    return effort_of(*values)


def _units(amount: object, unit: int) -> int | None:
    if isinstance(amount, bool) or not isinstance(amount, int | float) or not 0 <= amount < 2**53:
        return None
    return round(amount * unit)


class _Sample:
    """Builds the run of one sample, from its conversation and its events."""

    def __init__(self, log: _EvalLog, sample: Mapping[str, Any], damage: Damage) -> None:
        self._log = log
        self._sample = sample
        self._attached = Attachments(sample)
        events = items(sample.get("events")) or items(mapping(sample.get("transcript")).get("events"))
        self._events = SampleEvents(events, self._attached)
        self._unparsed: list[tuple[StepBuilder, int]] = []
        self._shown: set[str] = set()
        self._messages = [mapping(message) for message in items(sample.get("messages"))]
        self.builder = RunBuilder(NAME, damage)
        self.builder.note_time(epoch_ms(sample.get("started_at")))
        self.builder.version, self.builder.effort = log.harness, log.effort
        self.builder.note_origin(git_commit=log.commit)
        for message in self._messages:
            self._take(message)
        self._close()

    def _take(self, message: Mapping[str, Any]) -> None:
        role = message.get("role")
        content = message.get("content")
        if role == "assistant":
            if message.get("source") == "input":
                self._shown.update(text(mapping(call).get("id")) for call in items(message.get("tool_calls")))
                self.builder.add_message("assistant", self._attached.content(content), opens_turn=False)
            else:
                self._reply(message, self._events.find_event(message))
        elif role == "tool":
            self._result(message)
        elif role == "user":
            body = self._attached.content(content)
            summary = mapping(message.get("metadata")).get("summary") is True
            if summary:
                self.builder.add_event("compaction")
            opens, images = not summary and not body.strip().startswith(_CONTINUE), self._attached.images(content)
            self.builder.add_message("user", body, opens_turn=opens, images=images)
        elif role == "system":
            self.builder.add_message("system", self._attached.content(content), opens_turn=False)

    def _reply(self, message: Mapping[str, Any], event: Mapping[str, Any]) -> StepBuilder:
        start, completed = epoch_ms(event.get("timestamp")), epoch_ms(event.get("completed"))
        if not self.builder.steps:
            self.builder.note_time(self._events.begun)
        if completed is None:
            start, completed = epoch_ms(event.get("started")), start
        output = mapping(event.get("output"))
        step = self.builder.add_response(completed, start, text(message.get("model")) or text(output.get("model")))
        step.id = text(message.get("id"))
        step.effort = _effort(event.get("config")) or step.effort
        content = message.get("content")
        step.text.append(self._attached.content(content))
        thoughts = [text(message.get("reasoning"))]
        thoughts += [text(mapping(block).get("reasoning")) for block in items(content)]
        step.reasoning += [self._attached.resolve(part) for part in thoughts if part]
        step.finish_reason = finish_reason(first_choice(output).get("stop_reason"))
        step.usage = _usage(mapping(output.get("usage")))
        step.error = one_line(text(event.get("error")))
        for item in items(message.get("tool_calls")):
            self._add_call(step, mapping(item))
        return step

    def _add_call(self, step: StepBuilder, call: Mapping[str, Any]) -> None:
        arguments = call.get("arguments", REDACTED)
        if call.get("parse_error"):
            self._unparsed.append((step, len(step.calls)))
            raw = _UNPARSED.match(text(call.get("parse_error"))[:MAX_LINE])
            arguments = raw[1] if raw else arguments
        elif not isinstance(arguments, str):
            arguments = self._attached.resolve_parts(arguments)
        self.builder.add_call(step, text(call.get("id")), text(call.get("function")), arguments)

    def _result(self, message: Mapping[str, Any]) -> None:
        name = text(message.get("tool_call_id"))
        if name in self._shown:
            return
        error = message.get("error")
        content = self._attached.content(message.get("content"))
        body = text(mapping(error).get("message"))
        waiting = self._events.tools.get(name)
        event = waiting.popleft() if waiting else {}
        start, end = epoch_ms(event.get("timestamp")), epoch_ms(event.get("completed"))
        self.builder.add_result(
            name,
            content or body,
            is_error=error is not None,
            time=start if end is None else end,
            duration_ms=elapsed_ms(start, end),
            images=self._attached.images(message.get("content")),
        )

    def _close(self) -> None:
        if mapping(self._sample.get("limit")):
            for event in self._events.unused_events():
                self._reply(response_of(event), event)
        steps = self.builder.steps
        output = mapping(self._sample.get("output"))
        if steps and not self._events.models and first_choice(output):
            steps[-1].finish_reason = finish_reason(first_choice(output).get("stop_reason"))
            steps[-1].usage = _usage(mapping(output.get("usage")))
        for step, index in self._unparsed:
            result = step.results[index]
            if result is not None:
                step.results[index] = result._replace(parse_error=True)
        self.builder.note_time(epoch_ms(self._sample.get("completed_at")) if not self._events.models else None)
        if not any(event.get("cache") == "read" for event in self._events.models):
            usages = [_usage(mapping(usage)) for usage in mapping(self._sample.get("model_usage")).values()]
            inputs, outputs = ([getattr(usage, name) for usage in usages] for name in ("input_tokens", "output_tokens"))
            if usages and None not in (*inputs, *outputs):  # with those of judges and of messages that were removed
                self.builder.state("model_usage", input_tokens=(0, sum(inputs)), output_tokens=(0, sum(outputs)))

    def run(self, run_id: str, task: str) -> Run:
        error = mapping(self._sample.get("error"))
        content = one_line(text(error.get("message"))) or text(self._sample.get("error")) or None
        stop = self._limit_stop()
        limits = dict(self._log.limits)
        if stop is None:
            stop = self.builder.stop("error" if error or content else "finished")
        else:
            kind, _, _ = (stop.rule or "").partition("_limit")
            if kind in _LIMITS and stop.threshold is not None:
                limits[_LIMITS[kind][1]] = stop.threshold
        scores = _scores(self._sample)
        duration = _units(self._sample.get("total_time"), 1000) if self.builder.first_time is None else None
        return self.builder.build(
            run_id,
            stop,
            agent=self._log.agent,
            model=self._log.model,
            task=task,
            success=_success(scores),
            log_id=text(self._sample.get("uuid")),
            scores=scores_of({name: mapping(score).get("value") for name, score in scores.items()}),
            error=content,
            limits=limits,
            duration_ms=duration,
        )

    def _limit_stop(self) -> Stop | None:
        """The stop by a limit; None if no limit stopped it."""
        hit = mapping(self._sample.get("limit"))
        if not hit and not mapping(self._sample.get("error")):
            hit = self._events.limit
        kind = text(hit.get("type"))
        steps = self.builder.steps
        if not kind:
            cap = self._log.limits.get("messages")
            if cap is None or len(self._messages) < cap or not steps or not steps[-1].calls:
                return None
            kind, hit = "message", {"limit": cap}
        limit = hit.get("limit")
        reason, _, unit = _LIMITS.get(kind, ("aborted", "", 0))
        threshold = _units(limit, unit) if unit else None
        if threshold is None:
            return self.builder.stop(reason, f"{kind}_limit")
        amount = {"message": len(self._messages), "turn": len(steps)}.get(kind)
        value = None if amount is None else max(threshold, amount)
        return self.builder.stop(reason, f"{kind}_limit({limit:.12g})", threshold, value)


def _usage(usage: Mapping[str, Any]) -> Usage:
    """The usage of a response. The total shows whether input and output exclude cached and reasoning tokens."""
    entered, output, total = (whole(usage.get(f"{name}_tokens")) for name in ("input", "output", "total"))
    cached, reasoned = whole(usage.get("input_tokens_cache_read")), whole(usage.get("reasoning_tokens"))
    cache_write = whole(usage.get("input_tokens_cache_write"))
    cache_tokens = (cached or 0) + (cache_write or 0)
    if entered is not None and output is not None and total is not None and total > entered + output:
        excess = total - entered - output
        if cache_tokens and excess in (cache_tokens, cache_tokens + (reasoned or 0)):
            entered += cache_tokens
            excess -= cache_tokens
        if reasoned and excess == reasoned:
            output += reasoned
    return Usage(entered, output, cached, reasoned, micro(usage.get("total_cost")), cache_write)


def _scores(sample: Mapping[str, Any]) -> Mapping[str, Any]:
    """The scores of a sample by their scorers; old logs have one without a name."""
    scores = sample.get("scores")
    return scores if isinstance(scores, dict) else {"score": sample["score"]} if sample.get("score") else {}


def _success(scores: Mapping[str, Any]) -> bool | None:
    verdicts = {_verdict(mapping(score).get("value")) for score in scores.values()}
    return verdicts.pop() if len(verdicts) == 1 else None


def _verdict(value: object) -> bool | None:
    if isinstance(value, str):
        return _GRADES.get(value)
    if isinstance(value, bool | int | float) and value in (0, 1):
        return bool(value)
    return None
