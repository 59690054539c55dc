"""The groups of a policy's fields: each a frozen value that checks itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from boolab.core.types import Identities, Response, ToolCall, ToolResult
from boolab.errors import SettingError
from boolab.io.checks import check_literals, is_whole, repr_of
from boolab.limits.catalog import ceiling, max_cost, max_steps, max_tokens
from boolab.limits.detectors.streaks import RepeatStreak
from boolab.limits.guard import Guard
from boolab.limits.stop import StopRule, Threshold, detector_rule

Condition: TypeAlias = Literal[
    "no_calls", "has_text", "reason_given", "reason_not_tool_calls", "reason_stop", "no_new_input"
]
LimitCheck: TypeAlias = Literal["boundary", "response"]


@dataclass(frozen=True, slots=True)
class FieldGroup:
    """The base of all groups: checks that a field with a closed list of values has one of them."""

    def __post_init__(self) -> None:
        check_literals(self, type(self).__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class About(FieldGroup):
    """Where a policy comes from, in words. Nothing here changes a run.

    Attributes:
        source: Where its rules come from.
        loop_style: How its loop is built, in a few words.
        finish_guard: What ends a turn without a limit, in a few words.
        weakness: What it does not detect, in a few words.
        own_words: The harness's own word for a stop reason, in pairs. The reason may be narrower: with a detector
            (`error_streak, timeout_streak`), with the kind of `error`, or with an even or odd cap
            (`step_cap, odd cap`).
    """

    source: str = ""
    loop_style: str = ""
    finish_guard: str = ""
    weakness: str = ""
    own_words: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap(FieldGroup):
    """The limit on steps.

    Attributes:
        max_steps: The default cap; None: no cap, up to `ceiling`.
        kind: `hard`: the cap ends the turn. `soft`: the model gets a message, and the turn continues.
        counts: What the cap counts: `steps`; `actions` (executed calls); `tool_steps` (steps with calls: a text after
            the last of them is still a finish); `supersteps` (a response is one, its tool calls are another, and the
            end of the graph needs one more). The last two need `Finish(conditions=("no_calls",))`.
        check: Where the cap is evaluated. At the `response`, one response beyond the cap is paid for and dropped. A cap
            that counts `supersteps` is evaluated at each superstep with `boundary`: an even cap drops no response, and
            executes the calls of the last one. With `response` it requires that another response fits after the calls.
        zero: What a cap of 0 means. `text_only`: one response without tools. `plain`: a cap like any other.
            `unlimited`: no cap. `default`: the policy's default. `invalid`: an error.
        ceiling: The maximum number of steps of every agent; None: no maximum.
    """

    max_steps: int | None = None
    kind: Literal["hard", "soft"] = "hard"
    counts: Literal["steps", "actions", "tool_steps", "supersteps"] = "steps"
    check: LimitCheck = "boundary"
    zero: Literal["text_only", "plain", "unlimited", "default", "invalid"] = "text_only"
    ceiling: int | None = 1000

    def rules(self, n: int | None, check: LimitCheck) -> Iterator[StopRule]:
        """The rules of a cap of n at one place, and of the ceiling unless a cap at the boundary is lower."""
        if check == "boundary":
            rule = None if n is None else self._rule_before_request(n)
            if rule is not None and (self.ceiling is None or rule.threshold <= self.ceiling):
                yield rule
            elif self.ceiling is not None:
                yield ceiling(self.ceiling)
        if n is None or (self.counts == "steps" and self.check == "boundary"):
            return
        if self.counts == "actions":
            if check == self.check:
                yield Threshold("step_cap", "tool_calls", n + int(check == "response"), f"max_actions({n})")
        elif check == "response":
            if self.counts_each_superstep:  # with an odd number, the last response has no superstep for its calls
                yield Threshold("step_cap", "responses", n // 2 + 1, f"max_supersteps({n})")
                return
            counter = "responses" if self.counts == "steps" else self.counts
            yield Threshold("step_cap", counter, n + 1, f"max_{counter}({n})")

    def _rule_before_request(self, n: int) -> Threshold | None:
        """The rule of a cap that is evaluated before a request and counts no calls; None for any other."""
        if self.counts_each_superstep:
            return Threshold("step_cap", "steps", (n + 1) // 2, f"max_supersteps({n})")
        return next(max_steps(n).leaves()) if self.counts == "steps" and self.check == "boundary" else None

    @property
    def counts_each_superstep(self) -> bool:
        """Whether it is evaluated at each superstep, and not only at responses."""
        return self.counts == "supersteps" and self.check == "boundary"


@dataclass(frozen=True, slots=True, kw_only=True)
class Continues(FieldGroup):
    """How a turn continues after its cap.

    Attributes:
        times: How often; None: any number of times.
        by: Who decides: the user through `resume` (`user`), the user through the run's `ask` function if it has one
            (`ask`), or the loop (`loop`).
        adds: The number of steps by which the cap grows; None: by as many as it had.
        counters: Whether all counters are `kept`, or start at zero as in a new turn (`fresh`).
        message: Whether the model gets a message where the `loop` lets the cap grow.
        unless: A stop rule: the `loop` lets the cap grow only where it is false, such as `bl.doom_loop(3)`.

    Raises:
        SettingError: if `times` is not an integer >= 0, `unless` is not a rule, or one of the last two is set where it
            has no effect.
    """

    times: int | None = 0
    by: Literal["user", "ask", "loop"] = "user"
    adds: int | None = None
    counters: Literal["kept", "fresh"] = "kept"
    message: bool = True
    unless: StopRule | None = None

    def __post_init__(self) -> None:
        FieldGroup.__post_init__(self)
        if self.times is not None:
            _check_count("Continues", "times", self.times, ", or None for any number")
        rule: object = self.unless
        if not isinstance(rule, StopRule | None):
            msg = f"Continues: unless={self.unless!r}: expected a stop rule, such as bl.doom_loop(3), or None"
            raise SettingError(msg)
        for name, unset in (("message", True), ("unless", None)):
            value = getattr(self, name)
            if value is not unset and (self.by, self.counters) != ("loop", "kept"):
                raise SettingError(f"Continues: {name}={str(value)!r} needs by='loop' and counters='kept'")


@dataclass(frozen=True, slots=True, kw_only=True)
class LastStep(FieldGroup):
    """The last step under the cap.

    Attributes:
        action: What happens there. `tools`: nothing special. `prompt`: the model gets the prompt. `tool_choice_none`:
            it gets the prompt and may not call tools, though the request still lists them. `no_tools`: it gets the
            prompt, and the request lists no tools. `grace`: one more request after the cap, in which only a tool of
            `Finish.tools` counts; other calls are refused, and the turn ends with the cap as its reason.
        in_cap: Whether a step with `no_tools` or `tool_choice_none` is the last under the cap, or one beyond it.
        text_finishes: Whether a text there is a finish; otherwise the cap is still the stop reason.
        prompt: The message to the model.
        refusal: The error result of a call that the model makes nevertheless.
        reminder: The end of every request: `none`, or how many turns are left (`turns_left`).
    """

    action: Literal["tools", "prompt", "tool_choice_none", "no_tools", "grace"] = "tools"
    in_cap: bool = True
    text_finishes: bool = False
    prompt: str = (
        "This is the last step: no more tools can be called. Sum up in text what was done, what was found and what is "
        "left."
    )
    refusal: str = "Tools are not available in the last step; this call was not executed."
    reminder: Literal["none", "turns_left"] = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets(FieldGroup):
    """The limits on tool calls, tokens, cost and time; None is no limit.

    Attributes:
        read_only: The default tool budget of an agent whose tools are all read-only.
        writing: The default tool budget of an agent that has a writing tool.
        no_agent: The default tool budget without an agent.
        batch: What happens to the batch of calls that crosses the tool budget. `overshoot`: it is executed, and the
            next boundary stops. `reject`: it is dropped whole. `cut`: what fits is executed, the rest dropped.
        tokens: The limit on tokens (input + output).
        cost: The limit on cost, in dollars.
        seconds: The limit on time, evaluated at the boundary.
        before: Whether a limit on tokens or cost stops the run before a request once it is `reached` or `exceeded`.
        after: Whether that limit is evaluated after the response too; a response that exceeds it is dropped.
        on_unknown: If the model does not report tokens or cost: an `error`, or the limit never stops (`ignore`).
    """

    read_only: int | None = None
    writing: int | None = None
    no_agent: int | None = None
    batch: Literal["overshoot", "reject", "cut"] = "overshoot"
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None
    before: Literal["reached", "exceeded", "unchecked"] = "reached"
    after: Literal["exceeded", "unchecked"] = "unchecked"
    on_unknown: Literal["error", "ignore"] = "ignore"

    def rules(self, name: str, check: LimitCheck) -> Iterator[StopRule]:
        """The rule of the token or cost budget at one place; one that may be `exceeded` only stops above its value."""
        condition = self.before if check == "boundary" else self.after
        if condition == "unchecked":
            return
        if name == "token_budget" and self.tokens is not None:
            rule = max_tokens(self.tokens, on_unknown=self.on_unknown)
        elif name == "cost_budget" and self.cost is not None:
            rule = max_cost(self.cost, self.on_unknown)
        else:
            return
        limit = next(rule.leaves())
        if condition == "exceeded":
            label = limit.label.replace(")", ", exceeded)")
            limit = Threshold(limit.reason, limit.counter, limit.threshold + 1, label, limit.on_unknown)
        yield limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Detectors(FieldGroup):
    """What detects repetition.

    Attributes:
        doom_loop: The default threshold of the repeat detector, which agents can set; None is off.
        identity: What makes two calls the same for that detector, for all tools or by tool; None exempts a tool.
        reached_at: Where in a step its threshold counts as reached: at `any_call`, also where a later call of the step
            is another one; or only at the `last_call`.
        guards: Further detectors, each with its actions.

    Raises:
        SettingError: if the identity is not known.
    """

    doom_loop: int | None = None
    identity: Identities = "ordered"
    reached_at: Literal["any_call", "last_call"] = "any_call"
    guards: tuple[Guard, ...] = ()

    def __post_init__(self) -> None:
        FieldGroup.__post_init__(self)
        RepeatStreak.of(self.identity)  # refuses an identity that is not known

    def repeat_rule(self, n: int, identity: Identities | None = None) -> StopRule:
        """The stop rule of the repeat detector at a threshold.

        Args:
            n: The threshold.
            identity: What makes two calls the same; None for the detector's own.

        Returns:
            The rule, which is labelled as `doom_loop` labels it.
        """
        last_call = self.reached_at == "last_call"
        watch = RepeatStreak.of(self.identity if identity is None else identity, last_call=last_call)
        return detector_rule("doom_loop", watch, n, watch.identities)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish(FieldGroup):
    """What ends a turn without a limit.

    Attributes:
        conditions: When a response ends the turn: all of them must hold. `no_calls`: it has no calls. `has_text`: it
            has text. `reason_given`: the provider gave a finish reason. `reason_not_tool_calls`: the reason is not
            `tool_calls`. `reason_stop`: it is `stop`. `no_new_input`: no message of the user waits. With no conditions,
            a response never ends the turn.
        tools: The tools whose success ends the turn.
        batch: What happens to the other calls beside such a tool. `all`: they are executed. `until`: those before it
            are executed, the others dropped (not with `Execution(calls="parallel")`). `alone`: they are executed, and
            the turn does not end.
        asks_again: Whether another request follows a step with calls: `always`, or only `after_errors`.
        final_reasons: The finish reasons that end the turn as a finish, whatever else is in the response.
        fatal_reasons: The finish reasons that end the turn with an error.
        fatal_if: Whether they do so in every response with `no_calls`, or only in an `empty` one.
        idle: What follows a response without calls that did not end the turn: the model gets the prompt (`prompt`), the
            same request once more (`again`), or one last request (`grace`).
        idle_prompt: The message to the model.

    Raises:
        SettingError: if a condition is not known, or nothing can end a turn.
    """

    conditions: tuple[Condition, ...] = ("no_calls",)
    tools: tuple[str, ...] = ()
    batch: Literal["all", "until", "alone"] = "all"
    asks_again: Literal["always", "after_errors"] = "always"
    final_reasons: tuple[str, ...] = ()
    fatal_reasons: tuple[str, ...] = ()
    fatal_if: Literal["no_calls", "empty"] = "no_calls"
    idle: Literal["prompt", "again", "grace"] = "prompt"
    idle_prompt: str = "You called no tool, and the work is not finished. Go on, or finish it."

    def __post_init__(self) -> None:
        FieldGroup.__post_init__(self)
        for condition in self.conditions:
            if condition not in get_args(Condition):
                msg = f"Finish: conditions={condition!r}: expected some of {', '.join(get_args(Condition))}"
                raise SettingError(msg)
        if not self.conditions and not self.tools:
            msg = "Finish: with conditions=() only a tool can end a turn: expected tools=(...)"
            raise SettingError(msg)

    def ends_turn(self, response: Response, *, input_waits: bool) -> bool:
        """Whether a response ends the turn; `input_waits`: whether a message of the user waits for delivery."""
        reason = response.finish_reason
        if reason in self.final_reasons:
            return True
        if self.conditions == ("no_calls",):
            return not response.tool_calls
        holds = {
            "no_calls": not response.tool_calls,
            "has_text": bool(response.text),
            "reason_given": reason is not None,
            "reason_not_tool_calls": reason != "tool_calls",
            "reason_stop": reason == "stop",
            "no_new_input": not input_waits,
        }
        return bool(self.conditions) and all(holds[condition] for condition in self.conditions)

    def is_done(self, calls: Sequence[ToolCall], results: Sequence[ToolResult | None]) -> bool:
        """Whether a response's calls ended the turn: by a finishing tool, or because no call failed."""
        if self.asks_again == "after_errors" and calls:
            return not any(result is not None and result.is_error for result in results)
        if self.batch == "alone" and len(calls) > 1:
            return False
        return any(map(self.succeeds, calls, results))

    def succeeds(self, call: ToolCall, result: ToolResult | None) -> bool:
        """Whether a call of a finishing tool succeeded."""
        return call.name in self.tools and result is not None and not result.is_error


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution(FieldGroup):
    """How calls are executed, and what failures do.

    Attributes:
        calls: How the calls of a step are executed: in `parallel`, in `sequence`, only the first one
            (`one_per_message`; the others get an error result), or none if there are several (`exactly_one`; the
            response counts as one without calls).
        unknown_tools: What follows a call of a tool that is not offered: an error result (`reported`), the end of the
            run with an error (`fatal`), or the response counts as one without calls (`rejected`).
        tool_failures: What follows an exception in a tool: an error result (`reported`), or the end of the run with an
            error: for any exception (`fatal`), or only for one that is no `ToolError` (`unexpected_fatal`).
        broken_retries: How often in a row a response that broke off is requested again. Its step stays on record,
            marked, paid for and counted; its content is not sent again. 0: the run ends with the error. (The model
            itself retries a request that failed before any output.)

    Raises:
        SettingError: if `broken_retries` is not an integer >= 0.
    """

    calls: Literal["parallel", "sequence", "one_per_message", "exactly_one"] = "parallel"
    unknown_tools: Literal["reported", "fatal", "rejected"] = "reported"
    tool_failures: Literal["reported", "unexpected_fatal", "fatal"] = "reported"
    broken_retries: int = 0

    def __post_init__(self) -> None:
        FieldGroup.__post_init__(self)
        _check_count("Execution", "broken_retries", self.broken_retries)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs(FieldGroup):
    """The user's messages during a turn.

    Attributes:
        queued: What happens to them: they are `kept` for the next turn, delivered before the next step (`plain`), or
            delivered there as a reminder (`reminder`; from step 2 on).
        reset_cap: Whether such a message resets the cap.
    """

    queued: Literal["kept", "plain", "reminder"] = "plain"
    reset_cap: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WrapUp(FieldGroup):
    """What a limit adds to the end of the record.

    Attributes:
        sentinel: Whether a limit adds a visible message.
        limit_status: `without_text`: a limit adds a visible message, and a text if there is none, when the run does not
            end with a text: its last calls were refused, or its last response broke off or is empty.
        summary: What comes before that message: a summary by the `model`, the `static` text, or `none`.
        static_summary: The static text.
    """

    sentinel: bool = False
    limit_status: Literal["none", "without_text"] = "none"
    summary: Literal["model", "static", "none"] = "none"
    static_summary: str = "The work may be unfinished."


GROUPS: Final[Mapping[str, type[FieldGroup]]] = {
    "about": About,
    "cap": Cap,
    "continues": Continues,
    "last_step": LastStep,
    "budgets": Budgets,
    "detectors": Detectors,
    "finish": Finish,
    "execution": Execution,
    "inputs": Inputs,
    "wrap_up": WrapUp,
}
"""The groups of fields by name."""


def _check_count(group: str, name: str, value: object, ending: str = "") -> None:
    if not is_whole(value) or value < 0:
        raise SettingError(f"{group}: {name}={repr_of(value)}: expected an integer >= 0{ending}")
