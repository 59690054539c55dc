"""`Run`, the record of a run, and what is in it beside its steps and messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from itertools import chain
from typing import Any, Final, NamedTuple

from boolab.core import displayable
from boolab.core.messages import History, Input, Message, Sentinel, Text
from boolab.core.text import count, flatten, shorten
from boolab.core.types import UNKNOWN_USAGE, Event, Response, Step, Stop, StopReason, Usage, results_in

MIXED: Final = "mixed"
"""The effort of a run whose steps had several."""
_ID_CHARS: Final = 24
_RANDOM_ID: Final = re.compile(r"[0-9a-f]{16,32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Score(NamedTuple):
    """A score that a run was given: its name and its value, a number or a text such as an Inspect grade."""

    name: str
    value: Any


class ModelCost(NamedTuple):
    """The micro-dollars of one model in a bill."""

    model: str
    cost: int


class StatedCost(NamedTuple):
    """The cost that a log states, in micro-dollars.

    `covers` is `run`, for the requests of the run, or `session`, for those of its subagents too, and for those that no
    line has, such as titles that a small model writes. `models` are its parts, where the log has them.
    """

    cost: int
    covers: str
    models: tuple[ModelCost, ...] = ()


class RunLabel(NamedTuple):
    """Where the outcome of a run, or of one of its turns, is from.

    `success` is None for one that is not known, such as that of two people who disagree. `source` is `hand` (a person),
    `benchmark` (the one that ran the agent), `user` (what `bl.label` was given), or a source that the user trusts.
    """

    success: bool | None
    source: str
    why: str = ""
    turn: int | None = None  # None: the run


class Compacted(NamedTuple):
    """What a compaction did: from step `before` on, the model was sent `summary` for all steps up to `kept_from`.

    `tokens` is the estimated size of the context that made it necessary. `response` is what the model wrote, None where
    a function did, or nothing came. `fault` is why it failed; the history was then sent as it was. `broken` means
    that the model was asked and the request failed, so that the response is a part at most.
    """

    before: int
    kept_from: int
    summary: str
    tokens: int
    response: Response | None = None
    fault: str = ""
    broken: bool = False
    duration_ms: int | None = None

    @property
    def asked(self) -> bool:
        """Whether a request was made."""
        return self.response is not None or self.broken


class WrapUp(NamedTuple):
    """The summary that a policy requests when a limit stops a run: outside the cap, inside the totals.

    `response` is what came from the model, None without a request, or if nothing came. `fault` is why the static
    `text` was used all the same; `broken` means that the request failed, so that the response is a part at most.
    """

    text: str
    response: Response | None = None
    fault: str = ""
    broken: bool = False

    @property
    def asked(self) -> bool:
        """Whether a request was made."""
        return self.response is not None or self.broken


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(displayable.Displayable):
    """One record: a live turn, or a session read from a log.

    Attributes:
        run_id: Its identifier, unique among runs.
        agent: The agent's name; empty for a bare model.
        model: The model's name.
        policy: The policy's name.
        task: The first task.
        stop: Why, where and by which rule it ended; `stop.step` is the boundary within the last turn.
        steps: The steps of all turns, in order.
        prompt: The messages before the first step.
        inputs: The messages that came in between steps: the user's, those with which a policy nudges or continues, and
            the summary and the sentinel of a limit after which it continued. Those after the last step stand before one
            that never was.
        source: Where the record comes from: `boolab`, or the format of a log.
        parent_run_id: The run that started this one, if it is a subagent's. At which step stands in the parent's event
            `subagent`. A branch or a resumed run has no parent: its
            event `branch` or `resumed` names the run that it began with.
        seed: Its seed, from which each of its requests has one of its own.
        started_at: When it began; None under a virtual clock.
        duration_ms: Milliseconds from its start to its end; None where a log has no times.
        identity: What makes two calls the same, under its policy.
        context_window: That of the model, in tokens, where it is known.
        limits: The limits that were in force, counter name to threshold.
        settings: Those that a sweep set; None where the policy has no such setting.
        compactions: What was done to the history so that it fits.
        earlier_wrap_ups: The summaries of limits after which the user let the run continue; their texts stand among the
            inputs, where they were.
        wrap_up: The summary that the policy requested when a limit stopped it, if it did.
        sentinel: The visible end of a run that a limit stopped, if its policy shows one.
        synthesis: The text that ended the turn in place of the model's, if one did.
        events: The exceptional ones only; see `events_df`.
        success: Whether it was a success; None where it is not labelled.
        scores: What a log has as the run's scores, such as a reward of 0.6. A label of `success` may say another thing.
        error: What ended it, if that was an error.
        harness_version: The version of the program that ran it: boolab's for its own runs, else what the log has.
        git_commit: The commit that was checked out when it began.
        git_branch: The branch.
        cwd: The folder in which it began.
        stated_cost: What it cost by its log, apart from the costs of its steps: see `bl.bills_df`.
        entrypoint: How its harness was started, in the harness's own word, such as `cli` or `sdk-py`.
        labels: Where `success` is from, and the labels of turns; see `boolab.core.run_labels`.
        prints: The fingerprints of its beginnings, made before its texts were left out; see `boolab.logs.fingerprint`.
            Empty where it has its texts.
        subagents: The runs that this one started, with their own in them; `with_subagents` puts all of them into one
            list. No part of the record.
        log_id: What its harness calls the session, the sample or the trial, where a log has it: only a copy of the run
            has the same. No part of the record.
        path: The file that `load_runs` read it from, as it was named. No part of the record.
        continuation: What `resume` needs to continue the run. No part of the record.

    Example:
        >>> import boolab as bl
        >>> run = bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."]))
        >>> run.stop_reason, run.n_steps, run.text
        ('finished', 1, 'Hi.')
    """

    run_id: str
    agent: str
    model: str
    policy: str
    task: str
    stop: Stop
    steps: tuple[Step, ...]
    prompt: tuple[Message, ...] = ()
    inputs: tuple[Input, ...] = ()
    source: str = "boolab"
    parent_run_id: str | None = None
    seed: int | None = None
    started_at: datetime | None = None
    duration_ms: int | None = None
    identity: str = "canonical"
    context_window: int | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    compactions: tuple[Compacted, ...] = ()
    earlier_wrap_ups: tuple[WrapUp, ...] = ()
    wrap_up: WrapUp | None = None
    sentinel: Sentinel | None = None
    synthesis: str | None = None
    events: tuple[Event, ...] = ()
    success: bool | None = None
    scores: tuple[Score, ...] = ()
    error: str | None = None
    harness_version: str | None = None
    git_commit: str | None = None
    git_branch: str | None = None
    cwd: str | None = None
    entrypoint: str | None = None
    stated_cost: StatedCost | None = None
    labels: tuple[RunLabel, ...] = ()
    prints: tuple[str, ...] = ()
    subagents: tuple[Run, ...] = field(default=(), repr=False, compare=False)
    log_id: str = field(default="", repr=False, compare=False)
    path: str | None = field(default=None, repr=False, compare=False)
    continuation: Any = field(default=None, repr=False, compare=False)

    @property
    def stop_reason(self) -> StopReason:
        """Why the loop ended."""
        return self.stop.reason

    @property
    def stop_step(self) -> int:
        """The boundary at which it ended: how many tool steps were complete. A final text is not one of them."""
        return self.stop.step

    @property
    def n_steps(self) -> int:
        """How many model responses were begun inside the loop, broken and aborted ones included."""
        return len(self.steps)

    @property
    def n_tool_calls(self) -> int:
        """How many calls received a result, errors included."""
        return sum(1 for _ in results_in(self.steps))

    @property
    def effort(self) -> str | None:
        """The reasoning effort of its steps: the one value, or `mixed`; None if that of a step is unknown.

        Where no step has one on record, it is what a sweep set as `effort`.
        """
        values = {step.response.effort for step in self.steps}
        if values <= {None}:
            setting = self.settings.get("effort")
            return None if setting is None else str(setting)
        return MIXED if len(values - {None}) > 1 else values.pop() if len(values) == 1 else None

    @property
    def censored(self) -> bool:
        """Whether the record ends before the agent was done, so that what would have followed is unknown."""
        return self.stop.reason not in ("finished", "synthesis")

    @property
    def outside(self) -> tuple[Usage, ...]:
        """What each request outside the loop's steps consumed: compactions, then wrap-ups. They are in all totals."""
        last = () if self.wrap_up is None else (self.wrap_up,)
        requests = [request for request in (*self.compactions, *self.earlier_wrap_ups, *last) if request.asked]
        return tuple(UNKNOWN_USAGE if request.response is None else request.response.usage for request in requests)

    @property
    def text(self) -> str:
        """The last word: a synthesis or a summary if there is one, else the last step's text."""
        if self.synthesis is not None:
            return self.synthesis
        if self.wrap_up is not None:
            return self.wrap_up.text
        return self.steps[-1].response.text if self.steps else ""

    @property
    def messages(self) -> tuple[Message, ...]:
        """All messages in order; a message's id is its place here."""
        out = list(History(self.prompt, self.steps, self.inputs))
        out += [message for step_index, message in self.inputs if step_index > len(self.steps) + 1]
        if self.synthesis is not None:
            out.append(Message("assistant", (Text(self.synthesis),)))
        if self.wrap_up is not None:
            out.append(Message("assistant", (Text(self.wrap_up.text),)))
        if self.sentinel is not None:
            out.append(Message("sentinel", (self.sentinel,)))
        return tuple(out)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the record alone: what it would continue with may hold models and functions."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "continuation"}
        return _unpickle, (values,)

    def __str__(self) -> str:
        """The whole run as text to read, folded: what `print(run)` shows."""
        return displayable.text_of(self)

    def __repr__(self) -> str:
        """One short line; `print(run)` shows the whole run."""
        position = "" if self.stop.rule is None else f" {stop_place(self)}"
        return (
            f"<Run {_short_id(self.run_id)} {flatten(self.agent or 'no agent')}/{flatten(self.policy)}: "
            f"{self.stop.reason}{position}, {count(self.n_steps, 'step')}, {count(self.n_tool_calls, 'call')}>"
        )


def steps_in(runs: Iterable[Run]) -> Iterator[Step]:
    """The steps of some runs, one after the other."""
    return chain.from_iterable(run.steps for run in runs)


def stop_place(run: Run) -> str:
    """Where a run ended: after its last step, or in it, if something stopped the run before the step was complete."""
    n = len(run.steps)
    if n and run.censored and run.stop.step < sum(step.turn == run.steps[-1].turn for step in run.steps):
        return f"in step {n:,}"
    return f"after {count(n, 'step')}" if n else "before its first step"


def _short_id(run_id: str) -> str:
    """The beginning of a random id; of any other one, both ends, as ids of one source often begin alike."""
    return run_id[:8] if _RANDOM_ID.fullmatch(run_id) else shorten(run_id, _ID_CHARS)


def _unpickle(values: dict[str, Any]) -> Run:
    return Run(**values)
