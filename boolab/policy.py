"""Policies: what a harness does as a whole, as one frozen value.

A policy is data. The loop asks it what to do; it decides nothing by itself, and no harness is a subclass. Two policies
can be printed side by side and compared field by field; `dataclasses.replace` makes a variant. The presets are in
`boolab.presets`.

A limit is asked at one of three places:

- at the *boundary*, before a request is made. Nothing is paid for beyond the limit; the batch that crosses a budget is
  completed.
- at the *response*, before its calls are executed: whatever goes beyond the limit has been paid for and is dropped.
- at a *call*, before it is executed (guards only).
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args, get_origin, get_type_hints

from boolab.compaction import Compaction
from boolab.detectors import Detector, Identities, RepeatStreak, check_detector
from boolab.errors import SettingError
from boolab.scopes import PerMessage, Rearmed
from boolab.stop import (
    MAX_COUNT,
    AnyOf,
    StopRule,
    Threshold,
    ceiling,
    doom_loop,
    is_whole,
    max_cost,
    max_steps,
    max_time,
    max_tokens,
    tool_budget,
)
from boolab.types import Run, StopReason


class _Default(enum.Enum):
    DEFAULT = "default"

    def __repr__(self) -> str:
        return "DEFAULT"


DEFAULT: Final = _Default.DEFAULT
"""A setting that was not set: the policy's default. None is something else: no limit, up to the ceiling."""

Setting: TypeAlias = int | Literal[_Default.DEFAULT] | None
SETTINGS: Final = ("steps", "tool_budget", "doom_loop")
_LEAST: Final = {"steps": 0, "tool_budget": 0, "doom_loop": 2}
_FURTHER: Final = ("guards", "token_budget", "cost_budget", "time_budget")

Action: TypeAlias = Literal["shadow", "nudge", "ask", "block", "stop"]
Check: TypeAlias = Literal["boundary", "response", "call"]
Condition: TypeAlias = Literal[
    "no_calls", "has_text", "reason_given", "reason_not_tool_calls", "reason_stop", "no_new_input"
]
LimitCheck: TypeAlias = Literal["boundary", "response"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """A detector, and what happens as its count rises.

    Attributes:
        detector: What watches; see `boolab.detectors`.
        ladder: Thresholds, ascending, each with what happens once the count has reached it. `shadow`: it is written
            down. `nudge`: the model is told, once each time the count gets there. `ask`: the user is asked about each
            call, or at the boundary whether to go on; without an answer it is denied. `block`: the call is not executed
            and gets an error result. `stop`.
        check: `boundary`: at the top of the loop, after the calls were executed. `response`: before they are; a stop
            drops them, and there is no other action but `shadow`. `call`: before each of them is.
        scope: Where the detector starts anew: with each `message` of the model, each `turn`, or never in a `session`.
        rearm: `break`: the count falls when the pattern breaks, and by nothing else. `fire`: it starts anew once the
            ladder's first rung has been reached.
        reason: The stop reason that it gives; None for the detector's own.
        nudge: What the model is told.
        nudge_executes: Whether the call that a nudge is about is executed all the same.
        deny: What a denial does to an `ask`: it ends the turn (`stop`), or the call is not executed (`block`).
        block_asks: Whether the user is asked at each block if the turn may go on without the call.

    Raises:
        SettingError: if the values contradict each other.

    Example:
        >>> from boolab.detectors import RepeatStreak
        >>> guard = Guard(detector=RepeatStreak("ordered"), ladder=((3, "nudge"), (5, "stop")))
        >>> guard.rung(4), guard.why
        ((3, 'nudge'), 'doom_loop')
    """

    detector: Detector
    ladder: tuple[tuple[int, Action], ...]
    check: Check = "boundary"
    scope: Literal["message", "turn", "session"] = "turn"
    rearm: Literal["break", "fire"] = "break"
    reason: StopReason | None = None
    nudge: str = "You are repeating yourself without progress. Try another way, or say that you are stuck."
    nudge_executes: bool = True
    deny: Literal["stop", "block"] = "stop"
    block_asks: bool = False

    def __post_init__(self) -> None:
        _check_literals(self, "guard")
        check_detector(self.detector)
        if self.reason is not None and self.reason not in get_args(StopReason):
            msg = f"guard: reason={self.reason!r}: expected one of {', '.join(get_args(StopReason))}"
            raise SettingError(msg)
        thresholds = [threshold for threshold, _ in self.ladder]
        wrong = [action for _, action in self.ladder if action not in get_args(Action)]
        if not self.ladder or wrong or thresholds != sorted(set(thresholds)) or thresholds[0] < 1:
            msg = f"guard: ladder={self.ladder!r}: expected pairs such as ((3, 'nudge'), (5, 'stop')), ascending"
            raise SettingError(msg)
        if self.check != "call" and any(action == "block" for _, action in self.ladder):
            msg = "guard: block needs check='call': there is nothing to hold back afterwards"
            raise SettingError(msg)
        if self.check == "response" and any(action not in ("shadow", "stop") for _, action in self.ladder):
            msg = f"guard: ladder={self.ladder!r}: with check='response' a guard can only stop, or be in shadow"
            raise SettingError(msg)

    @property
    def watch(self) -> Detector:
        """The detector with its scope and what re-arms it: one fold."""
        detector = PerMessage(self.detector) if self.scope == "message" else self.detector
        return Rearmed(detector, self.ladder[0][0]) if self.rearm == "fire" else detector

    @property
    def why(self) -> StopReason:
        """The stop reason that it gives."""
        return self.reason or self.detector.reason

    @property
    def rule(self) -> StopRule | None:
        """The stop rule that it is at a boundary, if need be after asking the user; None if it never stops there."""
        if self.check != "boundary":
            return None
        threshold = next((threshold for threshold, action in self.ladder if action in ("ask", "stop")), None)
        return None if threshold is None else self.at(threshold)

    @property
    def asks_first(self) -> bool:
        """Whether the user is asked before it stops anything."""
        return next((action for _, action in self.ladder if action in ("ask", "stop")), None) == "ask"

    def at(self, threshold: int) -> Threshold:
        """The stop rule of one rung.

        Args:
            threshold: The count at which the rung begins.

        Returns:
            The rule, with the guard's own reason and name.
        """
        watch = self.watch
        return Threshold(self.why, watch.name, threshold, f"{watch.name} >= {threshold}", "ignore", watch)

    def rung(self, count: int | None) -> tuple[int, Action] | None:
        """The highest rung that a count has reached; None for none, and for an unknown count.

        Args:
            count: The detector's count; None where it is not known.

        Returns:
            The rung's threshold and what happens there.

        Example:
            >>> from boolab.detectors import RepeatStreak
            >>> Guard(detector=RepeatStreak(), ladder=((3, "nudge"), (5, "stop"))).rung(4)
            (3, 'nudge')
        """
        reached = None
        for rung in self.ladder:
            if count is None or count < rung[0]:
                break
            reached = rung
        return reached

    def __str__(self) -> str:
        steps = ", ".join(f"{action} at {threshold}" for threshold, action in self.ladder)
        at = "" if self.check == "boundary" else f", at the {self.check}"
        scope = "" if self.scope == "turn" else f", per {self.scope}"
        rearm = ", starts anew when it fires" if self.rearm == "fire" else ""
        return f"{self.detector.name}: {steps}{at}{scope}{rearm}"


class LadderState:
    """Which rung of its ladder each guard of a policy has reached in a turn.

    The live loop and the evaluation of recordings both go through it, so that they agree on when a guard speaks. Each
    guard has a rung of its own, also where several watch the same detector.

    Example:
        >>> from boolab.detectors import RepeatStreak
        >>> state, two, four = LadderState(), *(Guard(detector=RepeatStreak(), ladder=((n, "nudge"),)) for n in (2, 4))
        >>> [[guard.ladder[0][0] for guard in (two, four) if state.speaks(guard, count)] for count in range(1, 7)]
        [[], [2], [], [4], [], []]
    """

    __slots__ = ("_reached",)

    def __init__(self) -> None:
        self._reached: dict[Guard, int] = {}

    def speaks(self, guard: Guard, count: int | None) -> bool:
        """Take in a guard's count, and say whether it nudges now: once each time its count gets to such a rung.

        Args:
            guard: The guard.
            count: Its detector's count; None where it is not known, which breaks the pattern.

        Returns:
            Whether it nudges.
        """
        rung = guard.rung(count)
        if rung is None:
            self._reached.pop(guard, None)
            return False
        threshold, action = rung
        before = self._reached.get(guard)
        self._reached[guard] = threshold
        return before != threshold and action == "nudge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a harness does.

    Attributes:
        name: What records call it.
        source: Where its rules come from.
        loop_style: How its loop is built, in a few words.
        finish_guard: What ends a turn by itself, in a few words.
        weakness: What it fails to see, in a few words.
        order: The settings that it has, in order of precedence; one that is not here does not exist for it. `guards`,
            `token_budget`, `cost_budget` and `time_budget` may stand in it too; else they come last.
        steps: The default cap; None is no cap, up to `ceiling`.
        cap: `hard`: it ends the turn. `soft`: the model is told, and the turn goes on.
        cap_counts: What the cap counts: `steps`; `actions` (executed calls); `tool_steps` (steps with calls: a text
            after the last of them is still a finish); `supersteps` (a response is one, its tool calls are another, and
            the end of the graph needs one more). The last two need `finish=("no_calls",)`.
        cap_check: Where the cap is asked. At the `response`, one response beyond it is paid for, and dropped.
        zero_steps: What `steps: 0` means. `text_only`: one response without tools. `plain`: a cap like any other.
            `unlimited`: no cap. `default`: the policy's default. `invalid`: an error.
        ceiling: The bound on steps that holds for every agent; None is none.
        last_step: What happens at the last step under the cap. `tools`: nothing. `prompt`: the model is told.
            `tool_choice_none`: it is told, and may not call, though the tools stay in the request. `no_tools`: it is
            told, and the request carries no tools. `grace`: one more request after the cap, in which only a tool of
            `finish_tools` counts. Other calls are refused, and the turn ends there with the cap as its reason.
        last_step_in_cap: Whether a step with `no_tools` or `tool_choice_none` is the last under the cap, or one beyond.
        last_text_finishes: Whether a text at the last step is a finish, or the cap is the reason all the same.
        last_prompt: What the model is told at the last step.
        refusal: The error result of calls that come at the last step all the same.
        reminder: What every request ends with: `none`, or how many turns are left (`turns_left`).
        continues: How often a turn may go on after its cap; None: whenever the user wants.
        continues_by: Who decides that: the `user`, through `resume`; likewise, but if there is somebody to `ask` at
            once; or the `loop` by itself.
        continue_adds: By how many steps the cap grows then; None: by as many as it had.
        continue_counters: Whether all counters are `kept` then, or start anew as in a new turn (`fresh`).
        budget_read_only: The default tool budget of an agent whose tools are all read-only.
        budget_writing: The default tool budget of an agent that has a writing tool.
        budget_no_agent: The default tool budget without an agent.
        budget_batch: What happens to the batch of calls that crosses the tool budget. `overshoot`: it is executed, and
            the next boundary stops. `reject`: it is dropped whole. `cut`: what fits is executed, the rest dropped.
        token_budget: The limit on tokens (input + output).
        cost_budget: The limit on cost, in dollars.
        time_budget: The limit on time, in seconds; asked at the boundary.
        spend_before: Whether, before a request, a limit on tokens or cost stops once it is `reached` or `exceeded`.
        spend_after: Whether it is asked after the response as well; what exceeds it is dropped then.
        on_unknown: What tokens and costs that the model does not tell mean: an `error`, or never reached (`ignore`).
        doom_loop: The default threshold of the repeat detector that agents can set.
        identity: What "the same call" means to that detector, for all tools or by tool; None exempts a tool.
        guards: What else watches for repetition, and what it does.
        finish: The conditions under which a response ends the turn: all of them must hold. `no_calls`: it asked for
            none. `has_text`: it said something. `reason_given`: the provider gave a finish reason.
            `reason_not_tool_calls`: and not that one. `reason_stop`: it is `stop`. `no_new_input`: no message of the
            user waits. Without any, text never does.
        finish_tools: The tools whose success ends the turn.
        finish_batch: What becomes of the calls beside such a tool: `all` are executed; those `until` it, and the others
            dropped (not with `parallel`); or it must stand `alone`, and beside others it does not end the turn.
        goes_on: Whether the model is asked again after `always` every step with calls, or only `after_errors`.
        final_reasons: The finish reasons that end the turn as a finish, whatever else is in the response.
        fatal_reasons: The finish reasons that end the turn with an error.
        fatal_if: Whether they do so in every response with `no_calls`, or only in one that is `empty`.
        idle: What follows a response without calls that did not end the turn: the model is told (`prompt`), asked
            `again` without a word, or gets its `grace` turn.
        idle_prompt: What it is told.
        execution: How the calls of a step are executed: in `parallel`, in `sequence`, or only the first of them
            (`one_per_message`; the others get an error result), or none if there are several (`exactly_one`: the
            response is taken for one without calls).
        unknown_tools: What a call of a tool that is not offered does: the model is `told`; the run ends with an error
            (`fatal`); or the response is `rejected` whole, as one without calls.
        tool_failures: Whether the model is `told` of a tool's exception, or the run ends with an error: at any
            (`fatal`), or only at those that are no `ToolError` (`unexpected_fatal`).
        broken_retries: How often in a row the model is asked again after a response that broke off in the middle (one
            that failed before any output was tried again by the model itself). Its step stays on record, marked, paid
            for and counted; nothing of it is sent again. 0: the run ends with the error.
        compaction: When the history is summarised; None is never.
        queued: What happens to messages of the user that arrive during a turn: they are `kept` for the next one, come
            in `plain` before the next step, or wrapped as a reminder (`reminder`; from step 2 on).
        input_resets_cap: Whether such a message makes the cap count anew.
        sentinel: Whether a limit ends the run with a visible message.
        limit_status: `without_text`: a limit that ends the run with anything but a text (calls that were refused, a
            response that broke off or is empty) leaves a visible message, and a text if there is none.
        summary: What stands before the sentinel: a summary by the `model`, the `static` text, or `none`.
        static_summary: The static text.
        own_words: The harness's own word for a stop reason, in pairs. The reason may be narrowed: by a detector
            (`error_streak, timeout_streak`), by what kind of `error` it was, or by whether the cap is even or odd
            (`step_cap, odd cap`).

    Raises:
        SettingError: if the values contradict each other.

    Example:
        >>> from dataclasses import replace
        >>> from boolab.presets import policies
        >>> loose = replace(policies["boocode"], name="loose", doom_loop=5)
        >>> loose.effective({})["doom_loop"]
        5
    """

    name: str
    source: str
    loop_style: str
    finish_guard: str = ""
    weakness: str = ""
    order: tuple[str, ...] = ("steps",)
    steps: int | None = None
    cap: Literal["hard", "soft"] = "hard"
    cap_counts: Literal["steps", "actions", "tool_steps", "supersteps"] = "steps"
    cap_check: LimitCheck = "boundary"
    zero_steps: Literal["text_only", "plain", "unlimited", "default", "invalid"] = "text_only"
    ceiling: int | None = 1000
    last_step: Literal["tools", "prompt", "tool_choice_none", "no_tools", "grace"] = "tools"
    last_step_in_cap: bool = True
    last_text_finishes: bool = False
    last_prompt: str = (
        "This is the last step: no more tools can be called. Sum up in text what was done, what was found and what is "
        "left."
    )
    refusal: str = "Tools are not available in the last step; this call was not executed."
    reminder: Literal["none", "turns_left"] = "none"
    continues: int | None = 0
    continues_by: Literal["user", "ask", "loop"] = "user"
    continue_adds: int | None = None
    continue_counters: Literal["kept", "fresh"] = "kept"
    budget_read_only: int | None = None
    budget_writing: int | None = None
    budget_no_agent: int | None = None
    budget_batch: Literal["overshoot", "reject", "cut"] = "overshoot"
    token_budget: int | None = None
    cost_budget: float | None = None
    time_budget: float | None = None
    spend_before: Literal["reached", "exceeded", "unchecked"] = "reached"
    spend_after: Literal["exceeded", "unchecked"] = "unchecked"
    on_unknown: Literal["error", "ignore"] = "ignore"
    doom_loop: int | None = None
    identity: Identities = "ordered"
    guards: tuple[Guard, ...] = ()
    finish: tuple[Condition, ...] = ("no_calls",)
    finish_tools: tuple[str, ...] = ()
    finish_batch: Literal["all", "until", "alone"] = "all"
    goes_on: Literal["always", "after_errors"] = "always"
    final_reasons: tuple[str, ...] = ()
    fatal_reasons: tuple[str, ...] = ()
    fatal_if: Literal["no_calls", "empty"] = "no_calls"
    idle: Literal["prompt", "again", "grace"] = "prompt"
    idle_prompt: str = "You called no tool, and the work is not finished. Go on, or finish it."
    execution: Literal["parallel", "sequence", "one_per_message", "exactly_one"] = "parallel"
    unknown_tools: Literal["told", "fatal", "rejected"] = "told"
    tool_failures: Literal["told", "unexpected_fatal", "fatal"] = "told"
    broken_retries: int = 0
    compaction: Compaction | None = None
    queued: Literal["kept", "plain", "reminder"] = "plain"
    input_resets_cap: bool = False
    sentinel: bool = False
    limit_status: Literal["none", "without_text"] = "none"
    summary: Literal["model", "static", "none"] = "none"
    static_summary: str = "The work may be unfinished."
    own_words: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        known = {*SETTINGS, *_FURTHER}
        if not set(self.order) <= known or len(set(self.order)) < len(self.order):
            msg = f"policy {self.name}: order={self.order!r}: expected some of {', '.join(SETTINGS)}, each once"
            raise SettingError(msg)
        _check_literals(self, f"policy {self.name}")
        wrong = [condition for condition in self.finish if condition not in get_args(Condition)]
        if wrong:
            msg = f"policy {self.name}: finish={wrong[0]!r}: expected some of {', '.join(get_args(Condition))}"
            raise SettingError(msg)
        if "steps" not in self.order:
            for name in ("last_step", "continues", "reminder"):
                value = getattr(self, name)
                if value not in ("tools", 0, "none", None):
                    msg = f"policy {self.name}: {name}={value!r} needs 'steps' in order"
                    raise SettingError(msg)
        _check_counts(self)
        if self.finish_batch == "until" and self.execution == "parallel":
            msg = f"policy {self.name}: finish_batch='until' needs calls in sequence: execution={self.execution!r}"
            raise SettingError(msg)
        if self.cap_counts in ("tool_steps", "supersteps") and self.finish != ("no_calls",):
            msg = f"policy {self.name}: cap_counts={self.cap_counts!r} needs finish=('no_calls',), not {self.finish!r}"
            raise SettingError(msg)
        if not self.finish and not self.finish_tools:
            msg = f"policy {self.name}: with finish=() a turn needs finish_tools to end by itself"
            raise SettingError(msg)
        RepeatStreak.of(self.identity)  # refuses an identity that is not known

    def effective(
        self, asked: Mapping[str, Setting], *, read_only: bool = False, no_agent: bool = False
    ) -> dict[str, int | None]:
        """The settings that hold: what was asked for, else the defaults, and only those that the policy has.

        Args:
            asked: By name; absent or `DEFAULT` is the policy's default.
            read_only: Whether all of the agent's tools are.
            no_agent: Whether there is no agent at all.

        Returns:
            The value of each of them; None is no limit.

        Raises:
            SettingError: if a value is not one that the policy accepts.
        """
        budget = self.budget_read_only if read_only else self.budget_writing
        defaults = {
            "steps": self.steps,
            "tool_budget": self.budget_no_agent if no_agent else budget,
            "doom_loop": self.doom_loop,
        }
        settings = {}
        for name in self.order:
            if name in defaults:
                value = asked.get(name, DEFAULT)
                settings[name] = defaults[name] if value is DEFAULT else value
        if settings.get("steps") == 0 and self.zero_steps in ("unlimited", "default"):
            settings["steps"] = None if self.zero_steps == "unlimited" else self.steps
        self.check(settings)
        return settings

    def check(self, settings: Mapping[str, Setting]) -> None:
        """Refuse settings that the policy does not accept.

        Args:
            settings: By name, as an agent or a grid has them.

        Raises:
            SettingError: if a value is not one that the policy accepts.
        """
        for name, value in settings.items():
            check_setting(name, value)
        if self.zero_steps == "invalid" and settings.get("steps") == 0:
            msg = f"steps=0 is not valid under {self.name}: expected an integer >= 1, or None for no limit"
            raise SettingError(msg)

    def rule(self, settings: Mapping[str, int | None]) -> StopRule | None:
        """The stop rule of these effective settings at a boundary, in order of precedence; None if there is no limit.

        Args:
            settings: What `effective` gives.

        Returns:
            The rule; its members are alternatives, in the order of `precedence`.
        """
        return _rule(self, tuple((name, value) for name, value in settings.items() if value is not None), "boundary")

    def response_rule(self, settings: Mapping[str, int | None]) -> StopRule | None:
        """The stop rule of these settings at a response, before its calls are executed; None if there is none.

        It reads counters in which the response and its calls are counted already: those of a boundary, and `responses`,
        `tool_steps` and `supersteps`.

        Args:
            settings: What `effective` gives.

        Returns:
            The rule; its members are alternatives, in the order of `precedence`.
        """
        return _rule(self, tuple((name, value) for name, value in settings.items() if value is not None), "response")

    @property
    def precedence(self) -> tuple[str, ...]:
        """The names of all limits, in the order in which they are asked: `order`, and what follows it."""
        return _precedence(self.order)

    def limit(self, name: str, value: int | None, place: LimitCheck) -> tuple[StopRule, ...]:
        """The rules of one limit that are asked at one place: what `rule` and `response_rule` are made of.

        Args:
            name: One of `precedence`.
            value: The effective setting, for `steps`, `tool_budget` and `doom_loop`; else None.
            place: At the boundary, or at the response.

        Returns:
            The rules, in order; none where the limit is off, or asked elsewhere.

        Example:
            >>> policy = Policy(name="p", source="", loop_style="", cap_check="response", ceiling=None)
            >>> policy.limit("steps", 3, "boundary"), [str(rule) for rule in policy.limit("steps", 3, "response")]
            ((), ['max_responses(3)'])
        """
        return _limit(self, name, value, place)

    @property
    def seen(self) -> tuple[str, ...]:
        """The axes by which the model learns of limits and guards before the stop, or somebody is asked about them.

        A text-only answer under a cap of 0 is not among them: there is nothing before that stop.

        Example:
            >>> Policy(name="p", source="", loop_style="", reminder="turns_left").seen
            ('reminder',)
        """
        acts = {action for guard in self.guards for _, action in guard.ladder}
        text_ends = bool(self.finish) and {*self.finish} <= {"no_calls", "no_new_input"}
        found = {
            "last_step": self.last_step != "tools" or self.cap == "soft",
            "reminder": self.reminder != "none",
            "continues_by": self.continues != 0 and self.continues_by != "user",
            "compaction": self.compaction is not None,
            "guards": bool(acts & {"nudge", "ask", "block"}),
            "idle": self.idle != "again" and not text_ends,
        }
        return tuple(name for name, true in found.items() if true)

    @property
    def unseen(self) -> bool:
        """Whether limits and guards change nothing in any request before the stop, so that recordings tell exactly."""
        return not self.seen

    def end_of(self, run: Run) -> str:
        """The harness's own word for the end of a run; the stop reason, or the kind of error, where it has none.

        Args:
            run: A run under this policy.

        Returns:
            The word, such as `MaxTurnsExceeded`.

        Example:
            >>> from boolab import ScriptedModel, policies, run_sync
            >>> endless = ScriptedModel([{"tool_calls": [{"name": "ls"}], "repeat": "forever"}], tools={"ls": "a file"})
            >>> policies["openai_agents"].end_of(run_sync(None, "go", model=endless, policy="openai_agents"))
            'MaxTurnsExceeded'
        """
        words, stop = dict(self.own_words), run.stop
        kind = (run.error or "").partition(":")[0] if stop.reason == "error" else (stop.rule or "").partition(" ")[0]
        limit = (stop.threshold or 1) - 1
        keys = (f"{stop.reason}, {kind}", f"{stop.reason}, {'odd' if limit % 2 else 'even'} cap", stop.reason)
        usual = kind if stop.reason == "error" else stop.reason
        return next((words[key] for key in keys if key in words), usual)

    def __hash__(self) -> int:
        # Of a few fields only: a policy has fifty, and its hash is asked for at the start of every run.
        return hash((self.name, self.steps, self.ceiling, self.order))

    def __str__(self) -> str:
        return self.name


@functools.cache
def _precedence(order: tuple[str, ...]) -> tuple[str, ...]:
    further = tuple(name for name in _FURTHER if name not in order)
    return (*order, *further, *(() if "steps" in order else ("steps",)))


@functools.lru_cache(maxsize=1024)
def _rule(policy: Policy, settings: tuple[tuple[str, int], ...], place: LimitCheck) -> StopRule | None:
    """The rule of settings in order of precedence. Kept, because a sweep asks for the same few again and again."""
    asked = dict(settings)
    rules = [rule for name in policy.precedence for rule in _limit(policy, name, asked.get(name), place)]
    if len(rules) > 1:
        return AnyOf(tuple(rules))
    return rules[0] if rules else None


@functools.lru_cache(maxsize=4096)
def _limit(policy: Policy, name: str, value: int | None, place: LimitCheck) -> tuple[StopRule, ...]:
    """The rules of one limit that are asked at that place. Kept likewise: a grid has many settings of few values."""
    return tuple(_limits(policy, name, value, place))


def _limits(policy: Policy, name: str, value: int | None, place: LimitCheck) -> Iterator[StopRule]:
    if name == "steps":
        yield from _cap(policy, value, place)
    elif name == "tool_budget" and value is not None:
        if policy.budget_batch == "overshoot" and place == "boundary":
            yield tool_budget(value)
        elif policy.budget_batch == "reject" and place == "response":
            yield Threshold("tool_budget", "tool_calls", value + 1, f"tool_budget({value}, whole batches)")
    elif name == "doom_loop" and value is not None and place == "boundary":
        yield doom_loop(value, policy.identity)
    elif name == "guards" and place == "boundary":
        yield from (guard.rule for guard in policy.guards if guard.rule is not None)
    elif name in ("token_budget", "cost_budget"):
        how = policy.spend_before if place == "boundary" else policy.spend_after
        if how != "unchecked":
            yield from _spend(policy, name, past=int(how == "exceeded"))
    elif name == "time_budget" and policy.time_budget is not None and place == "boundary":
        yield max_time(policy.time_budget, policy.on_unknown)


def _cap(policy: Policy, n: int | None, place: LimitCheck) -> Iterator[StopRule]:
    """The cap, and the ceiling where no cap at a boundary stands below it."""
    most = policy.ceiling
    capped = n is not None and policy.cap == "hard" and "steps" in policy.order
    plain = capped and policy.cap_counts == "steps" and policy.cap_check == "boundary"
    if place == "boundary":
        if plain and n is not None and (most is None or n <= most):
            yield max_steps(n)
        elif most is not None:
            yield ceiling(most)
    if capped and n is not None and not plain:
        yield from _other_cap(policy, n, place)


def _other_cap(policy: Policy, n: int, place: LimitCheck) -> Iterator[StopRule]:
    """A cap that counts something else than steps, or is asked at the response."""
    if policy.cap_counts == "actions":
        if place == policy.cap_check:
            yield Threshold("step_cap", "tool_calls", n + int(place == "response"), f"max_actions({n})")
    elif place == "response":
        counter = "responses" if policy.cap_counts == "steps" else policy.cap_counts
        yield Threshold("step_cap", counter, n + 1, f"max_{counter}({n})")


def _spend(policy: Policy, name: str, past: int) -> Iterator[StopRule]:
    if name == "token_budget" and policy.token_budget is not None:
        n = policy.token_budget
        yield _past(max_tokens(n, on_unknown=policy.on_unknown), past)
    elif name == "cost_budget" and policy.cost_budget is not None:
        yield _past(max_cost(policy.cost_budget, policy.on_unknown), past)


def _past(rule: StopRule, past: int) -> StopRule:
    """The rule, or the one that stops only beyond its limit."""
    limit = next(rule.leaves())
    if not past:
        return limit
    label = limit.label.replace(")", ", exceeded)")
    return Threshold(limit.reason, limit.counter, limit.threshold + 1, label, limit.on_unknown)


def check_setting(name: str, value: object) -> None:
    """Raise `SettingError` unless `value` is one that the setting called `name` can have.

    Example:
        >>> check_setting("steps", -1)
        Traceback (most recent call last):
        boolab.errors.SettingError: steps: -1 is not accepted; expected an integer >= 0, or none for no limit
    """
    least = _LEAST[name]
    if value is None or value is DEFAULT:
        return
    if not is_whole(value) or value < least:
        msg = f"{name}: {value!r} is not accepted; expected an integer >= {least}, or none for no limit"
        raise SettingError(msg)
    if value > MAX_COUNT:
        msg = f"{name}: the number is too large; expected an integer <= {MAX_COUNT:,}, or none for no limit"
        raise SettingError(msg)


def _check_counts(policy: Policy) -> None:
    for name, value, without in (
        ("continues", policy.continues, ", or None for any number"),
        ("broken_retries", policy.broken_retries, ""),
    ):
        if not (value is None and without) and (not is_whole(value) or value < 0):
            msg = f"policy {policy.name}: {name}={value!r}: expected an integer >= 0{without}"
            raise SettingError(msg)


def _check_literals(value: Any, what: str) -> None:  # noqa: ANN401 - a Guard or a Policy
    """Raise `SettingError` for a field that has none of its values."""
    for name, accepted in _literals(value.__class__):
        given = getattr(value, name)
        if given not in accepted:
            msg = f"{what}: {name}={given!r} is not accepted; expected one of {', '.join(accepted)}"
            raise SettingError(msg)


@functools.cache
def _literals(kind: type) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The fields of a kind of value that have a closed list of values."""
    hints = get_type_hints(kind)
    return tuple((name, get_args(hint)) for name, hint in hints.items() if get_origin(hint) is Literal)
