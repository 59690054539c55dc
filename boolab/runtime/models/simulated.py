"""`SimulatedModel`: an agent that is drawn from a profile. It needs no network and no key.

A run depends on the profile, the model's seed, the run's seed, the task (the user's first message) and the content of
the requests; other runs, their order and the machine change nothing. The requests have these effects:

- If no tool is offered, or none may be called, the agent answers in text.
- If a request states how many turns are left, the profile's `reminders` change the hazard.
- If a summary is requested, the agent writes one. After a compaction its requests have fewer tokens.
- If another request follows after it finished, it continues as if it had not finished.

So a run under a tight limit is the beginning of the run under a loose one, unless the policy sends the model messages.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Iterable, Sequence
from hashlib import blake2b
from itertools import takewhile
from pathlib import Path
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

from boolab.core.clock import Clock, VirtualClock
from boolab.core.context import CHARS_PER_TOKEN, Context, estimated_tokens
from boolab.core.messages import History, Message, StepStart
from boolab.core.run import Run
from boolab.core.text import count
from boolab.core.types import Response, Step, ToolCall, ToolResult
from boolab.harnesses.compaction import CLEARED
from boolab.runtime.models.base import Emit, OfflineModel, Request
from boolab.runtime.models.profile import Profile
from boolab.runtime.models.profile_parts import Reminder
from boolab.runtime.models.trajectory import ALWAYS, SLOTS, PlannedStep, Rules, SimulatedTrajectory, make_texts
from boolab.runtime.tools.tool import ToolContext

VERSION: Final = 1
"""The version of the simulation: it is part of fingerprints, and equal fingerprints mean equal runs."""
NO_TOOLS: Final = "no_tools"
"""The `native_finish_reason` of a text that the agent wrote because it was not allowed to call a tool."""
SUBMITTED: Final = "Submitted."
"""The result of the call that finishes a run."""
_ID: Final = re.compile(r"([0-9a-f]{16})_(\d{1,9})_(\d{1,9})")
_NO_REMINDER: Final = Reminder(turns_left=1)
_TURNS_LEFT: Final = re.compile(r"(\d{1,9}) of \d{1,9} turns (?:is|are) left")
_FINISHED: Final = frozenset({"finished", "synthesis"})
_UNKNOWN: Final = frozenset({"paused", "aborted", "error"})


class _Played(NamedTuple):
    """A run under way: its trajectory, its seed, and the hazard factor of the task's difficulty."""

    trajectory: SimulatedTrajectory
    seed: int | None
    factor: float


class SimulatedModel(OfflineModel):
    """An agent that is drawn from a profile: its calls, results, tokens and times, and when it finishes.

    It provides the results of its tools, so no tool is executed. If neither the agent nor the run has tools, its own
    tools are offered. Its time is virtual. `score` decides about success, unless the run has its own score.

    Args:
        profile: The profile.
        seed: The seed of the model: with another seed, all of its runs differ.
        name: The name in records; by default the profile's.

    Example:
        >>> import boolab as bl
        >>> model = bl.SimulatedModel(bl.models.Profile.of({"tools": {"look": {}}, "finish": {"hazard": 0.2}}))
        >>> one, again, other = (bl.run_sync(None, "Look around", model=model, seed=seed) for seed in (3, 3, 4))
        >>> one.stop_reason, one.steps == again.steps, one.steps == other.steps
        ('finished', True, False)
    """

    virtual = True
    summarises = True
    compacts = True

    def __init__(self, profile: Profile, seed: int = 0, name: str | None = None) -> None:
        self.profile = profile
        self.seed = seed
        self.name = profile.name if name is None else name
        self.context_window = profile.context_window
        self.fingerprint = blake2b(f"{VERSION}:{profile.digest}:{seed}".encode(), digest_size=16).hexdigest()
        """32 hex digits; models with the same fingerprint give the same runs."""
        self.own_tools = (*profile.tools, *filter(None, [profile.finish.tool]))
        """The names of its tools, in the profile's order."""
        self._submits = profile.finish.tool
        self._rules = Rules(profile)
        self._finish_texts = make_texts(profile.finish.text_chars, "Done. ")
        self._summary_texts = make_texts(profile.summary_chars, "Summary: ")
        self._summary_tokens = None if profile.tokens is None else profile.tokens.summary.table(SLOTS)
        self._reminders = sorted(profile.reminders, key=lambda reminder: reminder.turns_left)
        self._boldest = Reminder(
            turns_left=1,
            factor=max([1.0, *(reminder.factor for reminder in profile.reminders)]),
            least=max([0.0, *(reminder.least for reminder in profile.reminders)]),
        )
        self._latest: PlannedStep | None = None
        self._played: WeakKeyDictionary[Sequence[Message], _Played] = WeakKeyDictionary()
        self._trajectories: WeakValueDictionary[str, SimulatedTrajectory] = WeakValueDictionary()
        """By key, those of runs under way: a summary of a list that is not a run's own need not draw them again."""

    @classmethod
    def load(cls, path: str | Path, seed: int = 0) -> SimulatedModel:
        """The model of a profile in a YAML file, or of a profile of boolab.

        Args:
            path: The file, or the bare name of a shipped profile: see `Profile.load`.
            seed: The seed of the model.

        Returns:
            The model.

        Raises:
            ProfileError: if the profile cannot be read, with its path and line.
        """
        return cls(Profile.load(path), seed)

    def __repr__(self) -> str:
        return f"<SimulatedModel {self.name}: {count(len(self.own_tools), 'tool')}, seed {self.seed}>"

    def __reduce__(self) -> tuple[type[SimulatedModel], tuple[Profile, int, str]]:
        return SimulatedModel, (self.profile, self.seed, self.name)

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:
        index, messages, tools, clock = request.index, request.messages, request.tools, request.clock
        purpose, choice = request.purpose, request.tool_choice
        seed = request.seed_of_run
        # Most requests hold a run's own list as it is: that is the fast path.
        played = self._played.get(messages) if type(messages) is History else None
        tail: Sequence[Message] = ()
        shortened = False
        if played is None or played.seed != seed:
            played, tail, shortened = self._find(request)
        step_plan = self._latest = played.trajectory.step_at(index)
        response, hazard = step_plan[0], step_plan[2]
        if purpose != "step":
            response = self._summary(step_plan)
        elif not tools or choice == "none":
            text = self._finish_texts[step_plan.text_slot]
            response = response._replace(text=text, tool_calls=(), finish_reason="stop", native_finish_reason=NO_TOOLS)
        elif self._submits is not None and index and self._has_submitted(played, index, messages):
            response = response._replace(
                text=self._finish_texts[step_plan.text_slot], tool_calls=(), finish_reason="stop"
            )
        elif hazard >= 0 and _finishes(step_plan, played.factor, self._reminder(tail)):
            response = self._finish(step_plan)
        if shortened:
            response = self._shorten_usage(response, messages, index, played.trajectory)
        duration_ms = step_plan[5]
        if emit is not None:
            await _stream(response, duration_ms, clock, emit)
        elif duration_ms:
            if type(clock) is VirtualClock:  # the fast path, without a call of `_pass`
                clock.advance(duration_ms)
            else:
                await clock.sleep(duration_ms / 1000)
        return response

    def _find(self, request: Request) -> tuple[_Played, Sequence[Message], bool]:
        """The run of a request, the messages of this request alone, and whether the history was shortened."""
        messages = request.messages
        tail: Sequence[Message] = ()
        shortened = False
        if type(messages) is Context:
            growing, tail = messages.growing
            messages = messages.whole
            # A history to be summarised is a plain list, which may have been shortened before.
            shortened = growing is not messages or type(messages) is list
        lives = type(messages) is not list and type(messages) is not tuple
        played = self._played.get(messages) if lives else None
        seed = request.seed_of_run
        if played is None or played.seed != seed:
            task = _task_of(messages)
            difficulty = self.profile.difficulty_of(task)
            factor = 1.0 if difficulty is None else self.profile.difficulties[difficulty].hazard_factor
            key = self._key(seed, task)
            is_summary = request.purpose != "step"
            trajectory = (self._trajectories.get(key) if is_summary else None) or SimulatedTrajectory(self._rules, key)
            played = _Played(trajectory, seed, factor)
            if lives:
                self._played[messages] = played
            if not is_summary:
                self._trajectories[key] = trajectory
        return played, tail, shortened

    def _key(self, seed: int | None, task: str) -> str:
        """The key of a run. The profile is no part of it, so that similar profiles share their draws."""
        text = f"{VERSION}:{self.seed}:{seed}:{task}"
        return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()

    def _reminder(self, tail: Sequence[Message]) -> Reminder:
        """The effect on the hazard of the messages at the end of a request."""
        if not tail or not self._reminders:
            return _NO_REMINDER
        turns_left = _turns_left(tail)
        return next((reminder for reminder in self._reminders if reminder.turns_left >= turns_left), _NO_REMINDER)

    def _finish(self, step_plan: PlannedStep) -> Response:
        text, tool = self._finish_texts[step_plan.text_slot], self._submits
        if tool is None:
            return step_plan.response._replace(text=text, tool_calls=(), finish_reason="stop")
        start = step_plan.response.tool_calls[0].id.removesuffix("1")
        return step_plan.response._replace(text=text, tool_calls=(ToolCall(f"{start}0", tool, "{}"),))

    def _has_submitted(self, played: _Played, index: int, messages: Sequence[Message]) -> bool:
        """Whether the previous response called the finishing tool, but the run continued."""
        # Making the messages is slow, so first: could it have finished under any reminder?
        previous_step = played.trajectory.step_at(index - 1)
        may = previous_step.hazard >= 0 and _finishes(previous_step, played.factor, self._boldest)
        return may and self._submits in _latest_tools(messages)

    def _summary(self, step_plan: PlannedStep) -> Response:
        usage = step_plan.response.usage
        if self._summary_tokens is not None:
            outputs = self._summary_tokens[step_plan.text_slot]
            usage = self._rules.usage(usage.input_tokens or 0, usage.cached_tokens or 0, outputs)
        return Response(self._summary_texts[step_plan.text_slot], (), "stop", usage, "", step_plan.response.ttft_ms)

    def _shorten_usage(
        self, response: Response, messages: Sequence[Message], index: int, trajectory: SimulatedTrajectory
    ) -> Response:
        """The response with the tokens of a request without what a summary replaces, and what was cleared."""
        head = list(takewhile(lambda message: not _is_response(message), messages))
        first = index if len(head) == len(messages) else messages[len(head)].parts[0].step_number - 1  # type: ignore[union-attr] # checked
        inputs, outputs, cached = response.usage[:3]
        if inputs is None or outputs is None or cached is None:
            return response
        removed_tokens = _cleared_chars(messages, trajectory) // CHARS_PER_TOKEN
        if first:
            start_tokens, tokens = (trajectory.step_at(i).response.usage.input_tokens or 0 for i in (0, first))
            task_index = next((i for i, message in enumerate(head) if message.role == "user"), 0)
            removed_tokens += tokens - start_tokens - estimated_tokens(head[task_index + 1 :])
        if not removed_tokens:
            return response
        return response._replace(
            usage=self._rules.usage(max(inputs - removed_tokens, 1), max(cached - removed_tokens, 0), outputs)
        )

    def replies_to(self, tool: str) -> bool:
        return True

    def has_result_of(self, tool: str) -> bool:
        return tool in self.own_tools

    def reply(self, call: ToolCall, context: ToolContext) -> Awaitable[ToolResult] | None:
        """The result of a call.

        Args:
            call: The call.
            context: The tool's view of the run.

        Returns:
            The result, to be awaited: its time is that of the profile. None for a call that is not the model's own.
        """
        step_plan, index = self._latest, context[2] - 1
        # Mostly the call is an object of the model's latest response.
        if step_plan is not None and index < len(step_plan[1]) and step_plan[0][1][index] is call:
            return _give_result(step_plan[1][index], context[3])
        result = self._recall(call, context)
        return None if result is None else _give_result(result, context.clock)

    def _recall(self, call: ToolCall, context: ToolContext) -> ToolResult | None:
        """The result of a call by its id, which holds the run's key, the step and the place."""
        match = _ID.fullmatch(call.id)
        if match is None or int(match[2]) > context.step:
            return None
        if call.name == self._submits:
            return ToolResult(call.id, SUBMITTED, duration_ms=0)
        played = self._played.get(context.history) if type(context.history) is History else None
        trajectory = SimulatedTrajectory(self._rules, match[1]) if played is None else played.trajectory
        step_plan, index = trajectory.step_at(int(match[2]) - 1), int(match[3]) - 1
        calls = step_plan.response.tool_calls
        return step_plan.results[index] if 0 <= index < len(calls) and calls[index] == call else None

    def score(self, run: Run) -> bool | None:
        """Whether a run of this model was a success, by the profile's probabilities.

        One number is drawn for each run, whatever ended it. So no run is a success only because a limit stopped it, if
        the profile has `limits_never_help`.

        Args:
            run: The run; its task, its seed, its stop reason and its steps matter.

        Returns:
            True for a success; None if the profile does not decide it.
        """
        if run.stop_reason in _UNKNOWN:
            return None
        task, steps = _task_of(run.prompt), run.steps
        finished = run.stop_reason in _FINISHED and not (steps and steps[-1].response.native_finish_reason == NO_TOOLS)
        step = self._finishing_step(steps) if finished else run.stop_step
        chance = self.profile.success_at(step, finished=finished, difficulty=self.profile.difficulty_of(task))
        return None if chance is None else SimulatedTrajectory(self._rules, self._key(run.seed, task)).luck < chance

    def _finishing_step(self, steps: Sequence[Step]) -> int:
        """The step at which a run finished: that of the finishing call, whether a text follows it or not."""
        after_call = (
            len(steps) > 1
            and not steps[-1].response.tool_calls
            and any(call.name == self._submits for call in steps[-2].response.tool_calls)
        )
        return len(steps) - after_call


def _finishes(step_plan: PlannedStep, factor: float, reminder: Reminder) -> bool:
    """Whether the agent finishes at a step that allows it."""
    if step_plan.hazard == ALWAYS:
        return True
    return step_plan.draw < max(step_plan.hazard * factor * reminder.factor, reminder.least)


def _task_of(messages: Iterable[Message]) -> str:
    """The user's first message."""
    return next((message.text for message in messages if message.role == "user"), "")


def _is_response(message: Message) -> bool:
    return message.role == "assistant" and bool(message.parts) and isinstance(message.parts[0], StepStart)


def _cleared_chars(messages: Iterable[Message], trajectory: SimulatedTrajectory) -> int:
    """By how many characters the model's own results are shorter since they were cleared."""
    chars = 0
    results: dict[str, ToolResult] = {}
    for message in messages:
        start = message.parts[0] if message.parts else None
        if isinstance(start, StepStart):
            results = {result.call_id: result for result in trajectory.step_at(start.step_number - 1).results}
        for part in message.parts:
            if isinstance(part, ToolResult) and part.content == CLEARED and part.call_id in results:
                chars += len(results[part.call_id].content) - len(CLEARED)
    return chars


def _latest_tools(messages: Sequence[Message]) -> list[str]:
    """The tools of the latest response's calls."""
    latest = next((message for message in reversed(messages) if _is_response(message)), None)
    return [] if latest is None else [part.name for part in latest.parts if isinstance(part, ToolCall)]


def _turns_left(tail: Sequence[Message]) -> int:
    """The number of turns that a request states as left; any other message at its end announces the last turn."""
    matches = (_TURNS_LEFT.match(message.text) for message in tail)
    return next((int(match[1]) for match in matches if match is not None), 1)


async def _stream(response: Response, duration_ms: int, clock: Clock, emit: Emit) -> None:
    """Emit a response while its time passes."""
    first = min(response.ttft_ms or 0, duration_ms)
    await _pass(clock, first)
    text = [("text", response.text)] if response.text else []
    for kind, delta in (*text, *(("tool_call", f"{call.name} {call.arguments}") for call in response.tool_calls)):
        emit(kind, delta)
        await asyncio.sleep(0)
    await _pass(clock, duration_ms - first)


async def _pass(clock: Clock, duration_ms: int) -> None:
    """Let time pass; virtual time without an await, since the loop itself yields every few milliseconds."""
    if type(clock) is VirtualClock:
        clock.advance(duration_ms)
    else:
        await clock.sleep(duration_ms / 1000)


async def _give_result(result: ToolResult, clock: Clock) -> ToolResult:
    if duration_ms := result[4]:
        if type(clock) is VirtualClock:  # as above
            clock.advance(duration_ms)
        else:
            await clock.sleep(duration_ms / 1000)
    return result
