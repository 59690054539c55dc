"""What holds for a turn: the plan, made once from the options and never changed, and the limits, which a cap can grow.

The plan answers what the loop would else work out at each step: which guards are evaluated where, which policies need a
verdict on each response, which change a request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from boolab.core.types import Stop
from boolab.harnesses.compaction import Compaction
from boolab.harnesses.policy import Policy
from boolab.limits.counters import Counters
from boolab.limits.detector import Detector
from boolab.limits.guard import Guard
from boolab.limits.stop import StopRule
from boolab.runtime.agents.agent import NO_AGENT, Agent, policy_of
from boolab.runtime.engine.options import Setup, check_setup, model_of, offered_tools, rules_of
from boolab.runtime.models.base import Model, ModelTraits, traits_of
from boolab.runtime.tools.tool import ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits that are in force. `TurnPlan.grown` makes new ones when a cap grows.

    Attributes:
        settings: The settings that hold, by name; none where the policy's own limits do not hold.
        rule: What is evaluated at a boundary.
        response_rule: What is evaluated at a response, before its calls are executed.
        thresholds: The counters and thresholds in `rule`: while none is reached or unknown, the rule is false.
        closing_step: The last step under the cap, where its request differs from the others.
    """

    settings: Mapping[str, int | None]
    rule: StopRule | None
    response_rule: StopRule | None
    thresholds: tuple[tuple[str, int], ...]
    closing_step: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPlan:
    """All that is fixed when a turn begins.

    Attributes:
        options: What the turn is run with.
        agent: Who runs.
        model: What answers.
        traits: What else the model can do.
        policy: What decides.
        tools: The tools, by name.
        offered: The tools in a request.
        pausing: The names of the tools that pause the turn.
        compaction: When the history is summarised.
        own: Whether the limits are the policy's own; `stop=` replaces them.
        text_only: Whether the agent may call no tools at all.
        limits: The limits at the start.
        call_guards: The guards that are evaluated at a call.
        response_guards: The guards that are evaluated at a response.
        boundary_guards: The guards that nudge at a boundary.
        asking: The guards at a boundary that ask the user before they stop a turn.
        shadow: The rules that are watched and stop nothing.
        detectors: What rules and guards count, each once.
        judges: Whether each response needs a verdict before its calls are executed.
        ends_plainly: Whether any response without calls ends the turn, and nothing else does.
        breaks_batches: Whether a call can end its step before the calls after it are executed.
        ends_by_calls: Whether the calls of a step can end the turn.
        rewrites_requests: Whether the policy changes some requests.
        has_boundary_work: Whether something happens at a boundary besides the rules.
        closes_beyond: Whether one more request follows a limit.
    """

    options: Setup
    agent: Agent
    model: Model
    traits: ModelTraits
    policy: Policy
    tools: dict[str, ToolSpec]
    offered: tuple[ToolSpec, ...]
    pausing: frozenset[str]
    compaction: Compaction | None
    own: bool
    text_only: bool
    limits: Limits
    call_guards: tuple[Guard, ...]
    response_guards: tuple[Guard, ...]
    boundary_guards: tuple[Guard, ...]
    asking: tuple[Guard, ...]
    shadow: tuple[StopRule, ...]
    detectors: tuple[Detector, ...]
    judges: bool
    ends_plainly: bool
    breaks_batches: bool
    ends_by_calls: bool
    rewrites_requests: bool
    has_boundary_work: bool
    closes_beyond: bool

    def grown(self, limits: Limits) -> tuple[Limits, int]:
        """The limits after the cap has grown, and by how many steps it did. It grows only if counters are kept.

        Args:
            limits: The limits before.
        """
        policy, cap = self.policy, limits.settings.get("max_steps")
        if cap is None or policy.continues.counters == "fresh":
            return limits, 0
        asked = self.agent.max_steps if isinstance(self.agent.max_steps, int) else policy.cap.max_steps
        added = (asked or cap) if policy.continues.adds is None else policy.continues.adds
        return _policy_limits(policy, {**limits.settings, "max_steps": cap + added}), added

    def verdict(self, limits: Limits, counters: Counters) -> Stop | None:
        """The stop at a boundary, or None. For a guard that asks first and stops later, it names the level reached.

        Args:
            limits: The limits in force.
            counters: The counters at the boundary.

        Raises:
            UnknownCounter: if the answer depends on a counter that is not known.
        """
        stop = None if limits.rule is None else limits.rule.verdict(counters)
        if stop is not None:
            for guard in self.asking:
                if str(guard.rule) == stop.rule:
                    ends = [at for at, action in guard.ladder if action == "stop" and at <= (stop.value or 0)]
                    return stop._replace(rule=str(guard.at(ends[-1])), threshold=ends[-1]) if ends else stop
        return stop


def plan_of(options: Setup) -> TurnPlan:
    """Make the plan of a turn.

    Args:
        options: What the turn is run with.

    Returns:
        The plan.

    Raises:
        SettingError: if something is missing or not accepted.

    Example:
        >>> import boolab as bl
        >>> plan = plan_of(Setup(bl.Agent("a", max_steps=5), bl.ScriptedModel(["Hi."])))
        >>> str(plan.limits.rule), plan.judges
        ('max_steps(5) | doom_loop(3, ordered) | tool_budget(50)', False)
    """
    check_setup(options)
    stop, in_shadow = rules_of(options)
    agent = options.agent if options.agent is not None else NO_AGENT
    model, policy = model_of(options, agent), policy_of(agent, options.policy)
    traits = traits_of(model)
    tools = offered_tools(options)
    read_only = all(spec.read_only for spec in tools.values())
    settings = policy.effective(agent.settings, read_only=read_only, no_agent=options.agent is None)
    own = options.stop is None
    text_only = own and settings.get("max_steps") == 0 and policy.cap.zero == "text_only"
    if own and not text_only:
        limits, guards = _policy_limits(policy, settings), policy.detectors.guards
    else:
        limits, guards = _limits({}, stop, None, None), ()
    shadow = (*in_shadow, *(g.at(at) for g in guards for at, action in g.ladder if action == "shadow"))
    call_guards = tuple(guard for guard in guards if guard.check == "call")
    response_guards = tuple(guard for guard in guards if guard.check == "response")
    boundary_guards = tuple(guard for guard in guards if guard.check == "boundary" and guard.intervenes)
    closes = policy.last_step.action in ("tool_choice_none", "no_tools") and not policy.last_step.in_cap
    return TurnPlan(
        options=options,
        agent=agent,
        model=model,
        traits=traits,
        policy=policy,
        tools=tools,
        offered=() if text_only else tuple(tools.values()),
        pausing=frozenset(name for name, spec in tools.items() if spec.pauses),
        compaction=options.compaction or policy.compaction,
        own=own,
        text_only=text_only,
        limits=limits,
        call_guards=call_guards,
        response_guards=response_guards,
        boundary_guards=boundary_guards,
        asking=tuple(guard for guard in guards if guard.check == "boundary" and guard.asks_first),
        shadow=shadow,
        detectors=_detectors(limits, _noted(policy, shadow), guards),
        judges=bool(
            limits.response_rule is not None
            or call_guards
            or response_guards
            or policy.execution.unknown_tools != "reported"
            or policy.execution.calls in ("one_per_message", "exactly_one")
            or policy.budgets.batch == "cut"
            or policy.finish.fatal_reasons
        ),
        ends_plainly=policy.finish.conditions == ("no_calls",) and not policy.finish.final_reasons and not text_only,
        breaks_batches=policy.finish.batch == "until" or policy.execution.tool_failures != "reported",
        ends_by_calls=bool(policy.finish.tools) or policy.finish.asks_again == "after_errors",
        rewrites_requests=policy.last_step.reminder != "none"
        or policy.last_step.action != "tools"
        or policy.finish.idle == "grace",
        has_boundary_work=bool(shadow) or options.inbox is not None,
        closes_beyond=own and (closes or policy.last_step.action == "grace"),
    )


def _policy_limits(policy: Policy, settings: Mapping[str, int | None]) -> Limits:
    cap, closing_step = settings.get("max_steps"), None
    if cap is not None and policy.last_step.action not in ("tools", "grace") and policy.last_step.in_cap:
        closing_step = min(cap, policy.cap.ceiling or cap)
    return _limits(settings, policy.rule(settings), policy.response_rule(settings), closing_step)


def _limits(
    settings: Mapping[str, int | None], rule: StopRule | None, response_rule: StopRule | None, closing_step: int | None
) -> Limits:
    leaves = () if rule is None else rule.leaves()
    thresholds = tuple((leaf.counter, leaf.threshold) for leaf in leaves)
    return Limits(
        settings=settings,
        rule=rule,
        response_rule=response_rule,
        thresholds=thresholds,
        closing_step=closing_step,
    )


def _noted(policy: Policy, shadow: tuple[StopRule, ...]) -> tuple[StopRule, ...]:
    """The rules that are evaluated besides the limits: those in shadow, and the condition of a cap that may grow."""
    return shadow if policy.continues.unless is None else (*shadow, policy.continues.unless)


def _detectors(limits: Limits, shadow: tuple[StopRule, ...], guards: tuple[Guard, ...]) -> tuple[Detector, ...]:
    """All detectors that count something, each once."""
    watched = () if limits.rule is None else limits.rule.detectors()
    if not shadow and not guards:
        return watched
    more = [detector for rule in shadow for detector in rule.detectors()]
    return tuple(dict.fromkeys((*watched, *more, *(guard.watch for guard in guards))))
