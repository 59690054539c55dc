"""The bounds of a turn: every rule that may stop it, made from its policy or given in the policy's place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from boolab.agents import Agent
from boolab.detectors import RepeatStreak, identity_of
from boolab.policy import Guard, Policy
from boolab.setup import Setup
from boolab.stop import Progress, StopRule, Threshold, tool_budget
from boolab.tools import ToolSpec
from boolab.types import Stop

SPENT: Final = frozenset({"tool_budget", "token_budget", "cost_budget", "time_budget"})
"""The stop reasons of limits that a subagent can use up for its caller."""


class Bounds:
    """The rules and guards of a turn, and how far its cap has grown.

    Args:
        setup: What the turn is run with: `stop` takes the place of all the policy's own limits and guards.
        agent: Whose settings hold.
        policy: The policy.
        tools: The tools that are offered: the budget of an agent whose tools all only read is another.

    Attributes:
        own: Whether they are the policy's.
        text_only: Whether the agent may not call tools at all.
        settings: The settings that hold, by name.
        rule: What is asked at a boundary.
        response_rule: What is asked of a response.
        call_guards: The guards that are asked at a call.
        response_guards: The guards that are asked of a response.
        asking: The guards that have the user asked at a boundary before they stop a turn.
        nudging: The guards that speak at a boundary.
        shadow: The rules that are only watched.
        detectors: What all of them watch, each once.
        closing_step: The step under the cap whose request is another, if there is one.
        judging: Whether a response must be judged before its calls are executed.
    """

    def __init__(self, setup: Setup, agent: Agent, policy: Policy, tools: Mapping[str, ToolSpec]) -> None:
        read_only = all(spec.read_only for spec in tools.values())
        settings = policy.effective(agent.settings, read_only=read_only, no_agent=setup.agent is None)
        self._policy = policy
        self._asked = agent.steps if isinstance(agent.steps, int) else policy.steps
        self.own = setup.stop is None
        self.text_only = self.own and settings.get("steps") == 0 and policy.zero_steps == "text_only"
        guarded = self.own and not self.text_only
        self.settings: dict[str, int | None] = settings if guarded else {}
        self.rule = setup.stop
        self.response_rule: StopRule | None = None
        self.closing_step: int | None = None
        guards = policy.guards if guarded else ()
        self.call_guards = tuple(guard for guard in guards if guard.check == "call")
        self.response_guards = tuple(guard for guard in guards if guard.check == "response")
        at_boundary = tuple(guard for guard in guards if guard.check == "boundary")
        self.asking = tuple(guard for guard in at_boundary if guard.asks_first)
        self.nudging = tuple(guard for guard in at_boundary if _speaks(guard))
        shadows = (guard.at(at) for guard in guards for at, action in guard.ladder if action == "shadow")
        self.shadow: tuple[StopRule, ...] = (*setup.shadow, *shadows)
        if guarded:
            self._set_rules()
        watches = () if self.rule is None else self.rule.detectors()
        self.detectors = watches
        if self.shadow or guards:
            self.detectors = tuple(
                dict.fromkeys(
                    (
                        *watches,
                        *(detector for rule in self.shadow for detector in rule.detectors()),
                        *(guard.watch for guard in guards),
                    )
                )
            )
        self.judging = bool(
            self.response_rule is not None
            or self.call_guards
            or self.response_guards
            or policy.unknown_tools != "told"
            or policy.execution in ("one_per_message", "exactly_one")
            or policy.budget_batch == "cut"
            or policy.fatal_reasons
        )

    def _set_rules(self) -> None:
        policy, cap = self._policy, self.settings.get("steps")
        self.rule = policy.rule(self.settings)
        self.response_rule = policy.response_rule(self.settings)
        if cap is not None and policy.last_step not in ("tools", "grace") and policy.last_step_in_cap:
            self.closing_step = min(cap, policy.ceiling or cap)

    @property
    def thresholds(self) -> tuple[tuple[str, int], ...]:
        """The thresholds in the rule: while none of them is reached or unknown, it is false."""
        leaves = () if self.rule is None else self.rule.leaves()
        return tuple((leaf.counter, leaf.threshold) for leaf in leaves)

    @property
    def closes_beyond(self) -> bool:
        """Whether one more request follows a limit, in which calls are refused."""
        last_step = self._policy.last_step
        closes = last_step in ("tool_choice_none", "no_tools") and not self._policy.last_step_in_cap
        return self.own and (closes or last_step == "grace")

    def extend(self) -> int:
        """Let the cap grow, if counters are kept.

        Returns:
            By how many steps.
        """
        cap, policy = self.settings.get("steps"), self._policy
        if cap is None or policy.continue_counters == "fresh":
            return 0
        added = (self._asked or cap) if policy.continue_adds is None else policy.continue_adds
        self.settings = {**self.settings, "steps": cap + added}
        self._set_rules()
        return added

    def verdict(self, progress: Progress) -> Stop | None:
        """The stop at a boundary, or None; of a guard that asks first and stops later, it names the rung.

        Args:
            progress: The counters there.

        Raises:
            UnknownCounter: if the answer hangs on a counter that is not known.
        """
        stop = None if self.rule is None else self.rule.verdict(progress)
        if stop is not None:
            for guard in self.asking:
                if str(guard.rule) == stop.rule:
                    ends = [at for at, action in guard.ladder if action == "stop" and at <= (stop.value or 0)]
                    return stop._replace(rule=str(guard.at(ends[-1])), threshold=ends[-1]) if ends else stop
        return stop

    def asks_about(self, stop: Stop) -> bool:
        """Whether a guard has the user asked about such a stop."""
        return any(str(guard.rule) == stop.rule for guard in self.asking)

    def budgets(self) -> Iterator[StopRule]:
        """The rules that limit what is spent, not how many steps are made."""
        for rules in (self.rule, self.response_rule):
            for rule in () if rules is None else rules.alternatives:
                if any(leaf.reason in SPENT for leaf in rule.leaves()):
                    yield rule
        budget = self.settings.get("tool_budget")
        if self._policy.budget_batch == "cut" and budget is not None:
            yield tool_budget(budget)

    def on_record(self) -> dict[str, int]:
        """The limits that are in force, by counter."""
        limits: dict[str, int] = {"steps": 0} if self.text_only else {}
        for rule in () if self.rule is None else self.rule.alternatives:
            if isinstance(rule, Threshold):
                counter = rule.counter.partition(":")[0]
                limits[counter] = min(limits.get(counter, rule.threshold), rule.threshold)
        cap = self.settings.get("steps")
        if cap is not None and self._policy.cap == "hard" and self._policy.cap_counts != "actions":
            if self._policy.cap_counts == "supersteps":
                cap = (cap - 1) // 2  # a step with calls is two of them, and the end needs one more
            limits["steps"] = min(limits.get("steps", cap), cap)
        budget = self.settings.get("tool_budget")
        if budget is not None:
            limits["tool_calls"] = min(limits.get("tool_calls", budget), budget)
        return limits

    @property
    def identity(self) -> str:
        """What makes two calls the same in the record's own streaks; exemptions are the rule's alone."""
        repeats = (d.identity for d in self.detectors if isinstance(d, RepeatStreak))
        return next(repeats, identity_of(self._policy.identity)[0])


def _speaks(guard: Guard) -> bool:
    return any(action == "nudge" for _, action in guard.ladder)
