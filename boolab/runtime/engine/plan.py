"""The plan of a turn: the options of `run`, checked before the first request, and what follows from them.

A plan is made once and never changes; `TurnLimits` are new ones when a cap grows, or a limit is changed on the way. It
answers what the loop would else work out at each step: which guards are evaluated where, which policies need a verdict
on each response, which change a request.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from itertools import chain
from operator import or_
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, TypedDict, cast

from boolab.core.clock import Clock
from boolab.core.messages import Message
from boolab.core.run import Run
from boolab.core.types import Event, Stop, ToolCall, ToolResult
from boolab.errors import SettingError, near
from boolab.harnesses.compaction import Compaction
from boolab.harnesses.policy import Policy, Setting
from boolab.harnesses.presets import get_policy
from boolab.io.checks import MAX_COUNT, check_name, check_whole, is_whole, repr_of
from boolab.limits.call_identity import identity_of
from boolab.limits.context_size import ContextSize
from boolab.limits.detector import Detector
from boolab.limits.detectors.streaks import RepeatStreak
from boolab.limits.function_rule import AnyRule, as_rules, is_function
from boolab.limits.guard import Guard
from boolab.limits.stop import Counters, StopRule, Threshold
from boolab.limits.table import AGENT_LIMITS, COST_AHEAD, LIMITS
from boolab.runtime.agents.agent import NO_AGENT, Agent, with_identity
from boolab.runtime.engine.abort import Abort
from boolab.runtime.engine.inbox import Inbox
from boolab.runtime.models.base import Model, ModelTraits, traits_of
from boolab.runtime.tools.tool import ToolSpec, as_tool, as_tools, open_tool
from boolab.runtime.tools.workspace import BUILT_IN, pause_tools, workspace_tools
from boolab.runtime.worlds.protocol import World

Synthesis: TypeAlias = Callable[[Sequence[ToolCall], Sequence[ToolResult]], Awaitable[str | None]]
Score: TypeAlias = Callable[[Run], bool | None]
OnEvent: TypeAlias = Callable[[Event], object]
Tools: TypeAlias = Sequence[ToolSpec | Callable[..., Any]]
Task: TypeAlias = str | Sequence[Message | Mapping[str, str]]


class Question(NamedTuple):
    """A question to the user: whether to continue although a rule is true; at a call, whether to execute that call.

    Attributes:
        rule: The rule that asks.
        value: What it has counted.
        call: The call that waits for the answer; None at a boundary.

    Example:
        >>> import boolab as bl
        >>> str(bl.Question("doom_loop(3, ordered)", 3).value)
        '3'
    """

    rule: str
    value: int
    call: ToolCall | None = None


Ask: TypeAlias = Callable[[Question], bool | Awaitable[bool]]


class BranchOptions(TypedDict, total=False):
    """The options of `run` that `branch` passes on. `run` documents each; one that is absent is None."""

    tools: Tools | None
    root: str | Path | None
    policy: Policy | str | None
    stop: AnyRule | None
    score: Score | None
    synthesis: Synthesis | None
    abort: Abort | None
    on_event: OnEvent | None
    clock: Clock | None
    seed: int | None
    shadow: Sequence[AnyRule]
    ask: Ask | None
    inbox: Inbox | None
    compaction: Compaction | None
    world: World | None


class RunOptions(BranchOptions, total=False):
    """The options of `run`: `run_sync`, `start` and `resume` have the same."""

    model: Model | None


class TurnOptions(RunOptions, total=False):
    """The options of a turn: those of `run`, who runs, and what a sweep or a caller puts on record."""

    agent: Agent | None
    settings: Mapping[str, Any]
    model_name: str | None
    run_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnLimits:
    """The limits that are in force. `TurnPlan.grow_limits` and `TurnPlan.change_limits` make new ones."""

    settings: Mapping[str, int | None]  # those that hold, by name; none where the policy's own limits do not hold
    rule: StopRule | None  # what is evaluated at a boundary
    response_rule: StopRule | None  # what is evaluated at a response, before its calls are executed
    thresholds: tuple[tuple[str, int], ...]  # in `rule`: while none is reached or unknown, the rule is false
    detectors: tuple[Detector, ...]  # the detectors whose counts `rule` reads
    closing_step: int | None  # the last step under the cap, where its request differs from the others


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPlan:
    """All that is fixed when a turn begins: the options, and what was made of them."""

    options: TurnOptions  # what the user gave; `resume` continues with the same
    agent: Agent  # who runs
    model: Model  # what answers
    traits: ModelTraits  # what else the model can do
    policy: Policy  # what decides
    tools: dict[str, ToolSpec]  # the tools, by name
    offered: tuple[ToolSpec, ...]  # the tools in a request
    pausing: frozenset[str]  # the names of the tools that pause the turn
    compaction: Compaction | None  # when the history is summarised
    own: bool  # whether the limits are the policy's own; `stop=` replaces them
    text_only: bool  # whether the agent may call no tools at all
    limits: TurnLimits  # the limits at the start
    call_guards: tuple[Guard, ...]  # the guards that are evaluated at a call
    response_guards: tuple[Guard, ...]  # the guards that are evaluated at a response
    boundary_guards: tuple[Guard, ...]  # the guards that nudge at a boundary
    asking: tuple[Guard, ...]  # the guards at a boundary that ask the user before they stop a turn
    shadow: tuple[StopRule, ...]  # the rules that are watched and stop nothing
    detectors: tuple[Detector, ...]  # what rules and guards count, each once
    judges: bool  # whether each response needs a verdict before its calls are executed
    ends_plainly: bool  # whether any response without calls ends the turn, and nothing else does
    breaks_batches: bool  # whether a call can end its step before the calls after it are executed
    ends_by_calls: bool  # whether the calls of a step can end the turn
    may_end_by_calls: bool  # whether they can, or a pausing tool or a synthesis can
    rewrites_requests: bool  # whether the policy changes some requests
    has_boundary_work: bool  # whether something happens at a boundary besides the rules
    closes_beyond: bool  # whether one more request follows a limit

    @property
    def score(self) -> Score | None:
        """What decides the success of the run: the user's score, or else the model's."""
        return self.options.get("score") or self.traits.score

    @property
    def identity(self) -> str:
        """What makes two calls the same in the record's own streaks, which exempt no tool: rules alone do."""
        for detector in self.detectors:
            if isinstance(detector, RepeatStreak):
                return detector.identity
        usual = self.policy.detectors.identity
        return usual if isinstance(usual, str) else identity_of(usual)[0]

    def grow_limits(self, limits: TurnLimits) -> tuple[TurnLimits, int]:
        """The limits after the cap has grown, and by how many steps it did. Fresh counters have the whole cap again."""
        policy, cap = self.policy, limits.settings.get("max_steps")
        if cap is None or policy.continues.counters == "fresh":
            return limits, 0
        cap_of_agent = self.agent.max_steps if isinstance(self.agent.max_steps, int) else policy.cap.max_steps
        added = (cap_of_agent or cap) if policy.continues.adds is None else policy.continues.adds
        return _policy_limits(policy, {**limits.settings, "max_steps": cap + added}), added

    @property
    def changeable(self) -> bool:
        """Whether limits can be changed on the way: those of a policy can, a stop rule of the user's cannot."""
        return self.own and not self.text_only and bool(self.limits.settings)

    def change_limits(self, limits: TurnLimits, changes: Mapping[str, int | None]) -> TurnLimits:
        """The limits with some other values; a `SettingError` for a value or a limit that is not accepted."""
        if not self.changeable:
            msg = "the limits of this run cannot be changed on the way: " + (
                f"under {self.policy.name} it has none"
                if self.own and not self.text_only
                else "its agent may call no tools"
                if self.own
                else "stop= takes their place"
            )
            raise SettingError(msg)
        for name, value in changes.items():
            check_name(name, limits.settings, f"policy {self.policy.name} has no limit {name!r}")
            if value is not None:
                check_whole(value, name, LIMITS[name].min_useful)
        self.policy.check(changes)
        return _policy_limits(self.policy, {**limits.settings, **changes})

    def verdict(self, limits: TurnLimits, counters: Counters) -> Stop | None:
        """The stop at a boundary, or None. For a guard that asks first and stops later, it names the level reached."""
        stop = None if limits.rule is None else limits.rule.verdict(counters)
        if stop is not None:
            for guard in self.asking:
                if str(guard.rule) == stop.rule:
                    levels = [level for level in guard.ladder if level[0] <= (stop.value or 0)]
                    ends = [threshold for threshold, action in levels if action == "stop"]
                    return stop._replace(rule=str(guard.at(ends[-1])), threshold=ends[-1]) if ends else stop
        return stop

    def recorded_limits(self, limits: TurnLimits) -> dict[str, int]:
        """The limits in force as a record has them: thresholds by counter."""
        recorded: dict[str, int] = {"steps": 0} if self.text_only else {}
        for rule in () if limits.rule is None else limits.rule.alternatives:
            if isinstance(rule, Threshold):
                counter = rule.counter.partition(":")[0]
                recorded[counter] = min(recorded.get(counter, rule.threshold), rule.threshold)
        policy, cap = self.policy, limits.settings.get("max_steps")
        if cap is not None and policy.cap.kind == "hard" and policy.cap.counts != "actions":
            if policy.cap.counts == "supersteps":
                # A step with calls is two of them; at the response, the end needs one more.
                cap = cap // 2 if policy.cap.check == "boundary" else (cap - 1) // 2
            recorded["steps"] = min(recorded.get("steps", cap), cap)
        budget = limits.settings.get("tool_budget")
        if budget is not None:
            recorded["tool_calls"] = min(recorded.get("tool_calls", budget), budget)
        return recorded


def plan_of(options: TurnOptions) -> TurnPlan:
    """Make the plan of a turn; a `SettingError` if something is missing or not accepted."""
    _check(options)
    stop, in_shadow = _rules_of(options)
    stop, compact_at = _without_compaction(stop)
    agent = options.get("agent") or NO_AGENT
    model = model_of(options)
    tools = offered_tools(options)
    policy, limits = _limits_of_agent(
        _policy_or_name(agent, options),
        agent.identity,
        agent.exempt,
        (agent.max_steps, agent.tool_budget, agent.doom_loop),
        all(spec.read_only for spec in tools.values()),
        agent is NO_AGENT,
    )
    own = options.get("stop") is None
    text_only = own and limits.settings.get("max_steps") == 0 and policy.cap.zero == "text_only"
    guards: tuple[Guard, ...] = ()
    if own and not text_only:
        guards = policy.detectors.guards
    else:
        limits = _limits({}, stop, None, None)
    for guard in guards:
        in_shadow += [guard.at(threshold) for threshold, action in guard.ladder if action == "shadow"]
    shadow = tuple(in_shadow)
    call_guards = tuple([guard for guard in guards if guard.check == "call"])
    response_guards = tuple([guard for guard in guards if guard.check == "response"])
    pausing = frozenset([name for name, spec in tools.items() if spec.pauses])
    execution, finish, last_step = policy.execution, policy.finish, policy.last_step
    ends_by_calls = bool(finish.tools) or finish.asks_again == "after_errors"
    closes = last_step.action in ("tool_choice_none", "no_tools") and not last_step.in_cap
    return TurnPlan(
        options=options,
        agent=agent,
        model=model,
        traits=traits_of(model),
        policy=policy,
        tools=tools,
        offered=() if text_only else tuple(tools.values()),
        pausing=pausing,
        compaction=_compaction(options.get("compaction") or policy.compaction, compact_at),
        own=own,
        text_only=text_only,
        limits=limits,
        call_guards=call_guards,
        response_guards=response_guards,
        boundary_guards=tuple([guard for guard in guards if guard.check == "boundary" and guard.intervenes]),
        asking=tuple([guard for guard in guards if guard.check == "boundary" and guard.asks_first]),
        shadow=shadow,
        detectors=_detectors(policy, limits, shadow, guards),
        judges=bool(
            limits.response_rule is not None
            or call_guards
            or response_guards
            or execution.unknown_tools != "reported"
            or execution.calls in ("one_per_message", "exactly_one")
            or policy.budgets.batch == "cut"
            or finish.fatal_reasons
        ),
        ends_plainly=finish.conditions == ("no_calls",) and not finish.final_reasons and not text_only,
        breaks_batches=finish.batch == "until" or execution.tool_failures != "reported",
        ends_by_calls=ends_by_calls,
        may_end_by_calls=bool(ends_by_calls or pausing) or options.get("synthesis") is not None,
        rewrites_requests=last_step.reminder != "none" or last_step.action != "tools" or finish.idle == "grace",
        has_boundary_work=bool(shadow) or options.get("inbox") is not None,
        closes_beyond=own and (closes or last_step.action == "grace"),
    )


def hard_limits(rule: StopRule | None) -> Iterator[Threshold]:
    """The hard limits on cost in a rule; a `SettingError` for one that another condition may lift."""
    for alternative in () if rule is None else rule.alternatives:
        for leaf in alternative.leaves():
            if leaf.counter == COST_AHEAD:
                if leaf is not alternative:
                    msg = f"{alternative}: a limit that is hard cannot depend on another one: join them with |"
                    raise SettingError(msg)
                yield leaf


def check_bounds(limit: Threshold, traits: ModelTraits, name: str) -> None:
    """Raise `SettingError` unless the model of this name states what a request may cost at most."""
    if traits.request_rates is None:
        raise SettingError(f"{limit}: no list prices are known of the model {name}; use max_cost without hard=True")
    if traits.output_range is None:
        msg = f"{limit}: the model {name} has no limit on its output: set max_completion_tokens= or max_tokens= of it"
        raise SettingError(msg)


def with_changeable_limits(plan: TurnPlan) -> TurnPlan:
    """A plan that counts what any value of its limits needs, and has a verdict on each response: they may change."""
    if not plan.changeable:
        return plan
    repeats = plan.policy.detectors.repeat_rule(LIMITS["doom_loop"].min_value).detectors()
    streaks = repeats if "doom_loop" in plan.limits.settings else ()
    return replace(plan, detectors=tuple(dict.fromkeys((*plan.detectors, *streaks))), judges=True)


def _policy_or_name(agent: Agent, options: TurnOptions) -> Policy | str:
    policy = options.get("policy")
    if policy is None:
        return agent.policy
    return policy if isinstance(policy, str) else get_policy(policy)


@lru_cache(maxsize=1024)
def _limits_of_agent(
    policy: Policy | str,
    identity: str | None,
    exempt: tuple[str, ...],
    settings: tuple[Setting, ...],
    read_only: bool,
    no_agent: bool,
) -> tuple[Policy, TurnLimits]:
    """The policy of an agent and its limits; cached, because a sweep has many runs of a few agents."""
    base = with_identity(get_policy(policy), identity, exempt)
    requested = dict(zip(AGENT_LIMITS, settings, strict=True))
    return base, _policy_limits(base, base.effective(requested, read_only=read_only, no_agent=no_agent))


def _policy_limits(policy: Policy, settings: Mapping[str, int | None]) -> TurnLimits:
    cap, closing_step = settings.get("max_steps"), None
    # The request of `grace` follows the cap, so that no step within the cap is the closing one.
    if cap is not None and policy.last_step.action not in ("tools", "grace") and policy.last_step.in_cap:
        closing_step = min(cap, policy.cap.ceiling or cap)
    return _limits(settings, policy.rule(settings), policy.response_rule(settings), closing_step)


def _limits(
    settings: Mapping[str, int | None], rule: StopRule | None, response_rule: StopRule | None, closing_step: int | None
) -> TurnLimits:
    leaves = () if rule is None else rule.leaves()
    return TurnLimits(
        settings=settings,
        rule=rule,
        response_rule=response_rule,
        thresholds=tuple([(leaf.counter, leaf.threshold) for leaf in leaves]),
        detectors=() if rule is None else rule.detectors(),
        closing_step=closing_step,
    )


def _detectors(
    policy: Policy, limits: TurnLimits, shadow: tuple[StopRule, ...], guards: tuple[Guard, ...]
) -> tuple[Detector, ...]:
    """All detectors that count something, each once: those in shadow and of a cap that may grow too."""
    condition = policy.continues.unless
    rules = shadow if condition is None else (*shadow, condition)
    if not rules and not guards:
        return limits.detectors
    watched = chain.from_iterable(rule.detectors() for rule in rules)
    return tuple(dict.fromkeys((*limits.detectors, *watched, *(guard.watch for guard in guards))))


# --- The options ------------------------------------------------------------------------------------------------------


def _is_rules(value: object) -> bool:
    rules = value if isinstance(value, Sequence) and not isinstance(value, str) else (None,)
    return all(map(_is_rule, rules))


def _is_rule(value: object) -> bool:
    return isinstance(value, StopRule) or is_function(value)


def _is_seed(value: object) -> bool:
    return is_whole(value) and -MAX_COUNT <= value <= MAX_COUNT


def _is_plain_function(value: object) -> bool:
    return callable(value) and not inspect.iscoroutinefunction(value)


_CHECKS: Final[dict[str, tuple[Callable[[object], bool], str]]] = {
    "agent": (lambda value: isinstance(value, Agent), "a bl.Agent, such as load_agents(path)['explorer']"),
    "abort": (lambda value: isinstance(value, Abort), "a bl.Abort"),
    "stop": (_is_rule, "a stop rule, such as bl.max_steps(20), or a function of the run so far"),
    "shadow": (_is_rules, "a list of stop rules, such as [bl.max_steps(20)]"),
    "inbox": (lambda value: isinstance(value, Inbox), "a bl.Inbox"),
    "compaction": (lambda value: isinstance(value, Compaction), "a bl.Compaction"),
    "world": (lambda value: callable(getattr(value, "keep", None)), "a world, such as bl.GitWorld('.')"),
    "clock": (lambda value: callable(getattr(value, "now", None)), "a clock, such as boolab.core.clock.VirtualClock()"),
    "ask": (callable, "a function from a Question to True or False"),
    "synthesis": (callable, "an async function from calls and results to a text"),
    "score": (_is_plain_function, "a plain function from a run to True, False or None"),
    "on_event": (_is_plain_function, "a plain function from an event"),
    "seed": (_is_seed, f"an integer of at most {MAX_COUNT:,}"),
}
"""For each option that could only fail later: what it accepts beside None, and what the message expects."""


class UnknownOptionError(SettingError, TypeError):
    """An option that does not exist: a `TypeError` too, as for any function."""


def options_of(agent: Agent | None, options: Mapping[str, Any]) -> TurnOptions:
    """The options of a turn, from those of `run` by name; an `UnknownOptionError` for another name."""
    if not options.keys() <= _NAMES:
        unknown = min(options.keys() - _NAMES)
        msg = f"unknown option {unknown!r}{near(unknown, sorted(_NAMES), 'accepted')}"
        raise UnknownOptionError(msg)
    return cast("TurnOptions", {**options, "agent": agent})


_NAMES: Final = RunOptions.__optional_keys__


def _check(options: TurnOptions) -> None:
    """Raise `SettingError` for options that could only fail later."""
    values: Mapping[str, object] = options
    for name, (accepts, expected) in _CHECKS.items():
        value = values.get(name)
        if value is not None and not accepts(value):
            raise SettingError(f"{name}={repr_of(value)} is not accepted: expected {expected}")
    if options.get("world") is not None and options.get("root") is not None:
        msg = "root= and world= both name the folder that the tools work in: leave root out"
        raise SettingError(msg)


def _rules_of(options: TurnOptions) -> tuple[StopRule | None, list[StopRule]]:
    """The rule that stops the run, and those in shadow, also of functions; `SettingError` if two have one name."""
    stop, shadow = options.get("stop"), options.get("shadow", ())
    if not shadow and (stop is None or (isinstance(stop, StopRule) and not stop.detectors())):
        return stop, []  # no function is among them
    first = [] if stop is None else [stop]
    rules = as_rules([*first, *shadow], "stop and shadow")
    return (rules[0] if first else None), rules[len(first) :]


def _without_compaction(rule: StopRule | None) -> tuple[StopRule | None, int | None]:
    """A rule without what compacts the history in place of a stop, and the number of tokens at which that does."""
    leaves = () if rule is None else rule.leaves()
    compacting = [leaf for leaf in leaves if isinstance(leaf.detector, ContextSize) and leaf.detector.then == "compact"]
    if rule is None or not compacting:
        return rule, None
    stopping = [member for member in rule.alternatives if member not in compacting]
    if len(stopping) + len(compacting) != len(rule.alternatives):
        msg = f"stop: {rule}: {compacting[0]} stops nothing, so join it with | and not with &"
        raise SettingError(msg)
    return (reduce(or_, stopping) if stopping else None), min(leaf.threshold for leaf in compacting)


def _compaction(compaction: Compaction | None, compact_at: int | None) -> Compaction | None:
    """The compaction of a turn: where a rule has its threshold, with that one, from which on it compacts."""
    if compact_at is None:
        return compaction
    return replace(compaction or Compaction(), at_tokens=max(compact_at - 1, 1))


def folder_of(options: TurnOptions) -> str | Path | None:
    """The folder that the tools work in: that of the world, or else `root`."""
    world = options.get("world")
    return options.get("root") if world is None else world.root


def model_of(options: TurnOptions) -> Model:
    """The model that answers: the one given, else the agent's own; a `SettingError` if there is none."""
    agent, model = options.get("agent") or NO_AGENT, options.get("model")
    chosen_model = agent.model if model is None else model
    if chosen_model is None or isinstance(chosen_model, str):
        if model is not None:
            msg = f"model={chosen_model!r} is a name: pass the model itself, such as bl.OpenAIModel({chosen_model!r})"
            raise SettingError(msg)
        fault = f" names the model {chosen_model!r}, but" if chosen_model else " has no model and"
        msg = f"agent {agent.name!r}{fault} none was given: pass model=..., such as bl.ScriptedModel([...])"
        raise SettingError(msg)
    value: object = chosen_model
    if isinstance(value, type):
        msg = f"model={value!r} is a class: expected one of its instances, such as {value.__name__}(...)"
        raise SettingError(msg)
    if not callable(getattr(chosen_model, "respond", None)) or not isinstance(getattr(chosen_model, "name", None), str):
        msg = f"model={chosen_model!r} is no model: expected a `name` and `async def respond(request, emit=None)`"
        raise SettingError(msg)
    return chosen_model


def offered_tools(options: TurnOptions) -> dict[str, ToolSpec]:
    """The tools of a turn by name: the agent's own, and those that its names stand for; else those of the model."""
    agent, tools = options.get("agent") or NO_AGENT, options.get("tools")
    specs: dict[str, ToolSpec] = {}
    for spec in () if tools is None else as_tools(tools):
        if specs.setdefault(spec.name, spec) is not spec:
            msg = f"tools: two tools are called {spec.name!r}"
            raise SettingError(msg)
    if not agent.tools:
        model = options.get("model")
        traits = traits_of(agent.model if model is None else model)
        return specs or {name: open_tool(name) for name in traits.own_tools or ()}
    folder = folder_of(options)
    built_in = pause_tools() if folder is None else pause_tools() | workspace_tools(folder)
    result: dict[str, ToolSpec] = {}
    for tool in agent.tools:
        if isinstance(tool, ToolSpec):
            spec = tool
        elif isinstance(tool, str):
            match = specs.get(tool) or built_in.get(tool)
            if match is None and traits_of(model_of(options)).replies_to(tool):
                match = open_tool(tool)
            if match is None:
                need = " (which needs root=... or world=...)" if tool in BUILT_IN else ""
                msg = (
                    f"agent {agent.name!r} lists the tool {tool!r}{need}, which nothing provides; "
                    f"given: {', '.join(specs) or 'none'}; built in: {', '.join(built_in)}"
                )
                raise SettingError(msg)
            spec = match
        else:
            spec = as_tool(tool)
        if spec.name in result:
            msg = f"agent {agent.name!r} lists the tool {spec.name!r} twice"
            raise SettingError(msg)
        result[spec.name] = spec
    return result
