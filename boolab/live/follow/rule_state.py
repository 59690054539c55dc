"""Where a run that grows stands under a stop rule: its counters, and where the rule was true first.

Of every prefix of a run, `RuleState` and `bl.counterfactual` report the same stop: its steps are counted by
`LadderState`, which the live loop and offline rules use too, and the rule is evaluated at the same boundaries. A step
is counted as soon as all its calls have results. If a log adds calls to a response whose calls all had results, the
turn is counted again, and whether the rule is true there may change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal, NamedTuple

from boolab.core.endings import has_boundary
from boolab.core.events import compactions_of
from boolab.core.run import Run
from boolab.core.types import Step, Stop
from boolab.limits.detectors.streaks import ErrorStreak, RepeatStreak
from boolab.limits.ladder import LadderState, Progress
from boolab.limits.stop import StopRule
from boolab.logs.list_prices import price_runs

SHOWN_DETECTORS: Final = (RepeatStreak(), ErrorStreak())
"""The detectors whose counts are shown of every agent."""


class Fired(NamedTuple):
    """That a rule was true: at which turn, at which step of the whole run, and the stop that it would have been."""

    turn: int
    number: int
    stop: Stop


class RunUsage(NamedTuple):
    """What a run used so far; None where its log does not record it."""

    steps: int = 0
    calls: int = 0
    tokens: int | None = 0
    cost: int | None = 0


class RuleState:
    """The counters of a run under a rule.

    `rule`: the rule; None counts alone. `scope`: whether counters start anew with each turn, or never.

    Attributes:
        fired: Where the rule was true first: in each turn, or (scope "run") in the run.
        undecided: The counters that the rule needs and the log does not record, as far as that was met.
    """

    def __init__(self, rule: StopRule | None, scope: Literal["turn", "run"], *, prices: bool = False) -> None:
        self.rule = rule
        self.per_turn = scope == "turn"
        rule_detectors = () if rule is None else rule.detectors()
        self._detectors = tuple({detector.name: detector for detector in (*rule_detectors, *SHOWN_DETECTORS)}.values())
        self._price: Callable[[Run, Sequence[Step]], Sequence[Step]] = _add_prices if prices else lambda _, steps: steps
        self.fired: list[Fired] = []
        self.undecided: tuple[str, ...] = ()
        self._begin()

    def _begin(self) -> None:
        self._ladder = LadderState(self._detectors, per_turn=self.per_turn)
        self._folded: tuple[Step, ...] = ()
        self._totals: list[RunUsage] = [RunUsage()]
        self._turn = 0
        self._pending: Step | None = None

    @property
    def counters(self) -> Mapping[str, int | None]:
        """The counters at the last boundary, by name; at the beginning of a turn, zeros."""
        pending = self._pending
        if pending is not None and self.per_turn and self._folded and pending.turn != self._folded[-1].turn:
            return LadderState(self._detectors).counters
        return self._ladder.counters

    @property
    def progress(self) -> Mapping[str, int | None]:
        """The counters with what follows the last boundary: a final text, or a step whose calls are under way."""
        pending = self._pending
        if pending is None:
            return self.counters
        counters = Progress(**self.counters)
        counters["steps"] = (counters["steps"] or 0) + 1
        counters.charge(pending.response.usage, _count_executed(pending))
        return counters

    @property
    def totals(self) -> RunUsage:
        """What the whole run used, a step included whose calls are under way."""
        last_totals = self._totals[-1]
        return last_totals if self._pending is None else _add_step(last_totals, self._pending)

    def update(self, run: Run) -> None:
        """Count what is new in a run, as its log stands now, and again what has changed."""
        steps = run.steps
        n_folded = len(self._folded)
        if steps[:n_folded] != self._folded:
            n_folded = self._go_back(steps)
        closed = len(steps)
        if steps and not has_boundary(run, steps[-1]):
            closed -= 1  # its calls are under way, or it is a final text, at which no rule is evaluated
        self._pending = None
        compacted = compactions_of(run)
        for step, priced in zip(steps[n_folded:closed], self._price(run, steps[n_folded:closed]), strict=True):
            self._totals.append(_add_step(self._totals[-1], priced))
            self._ladder.add_recorded_compactions(priced, compacted)
            self._ladder.apply(priced)
            # Through a whole run, a boundary follows the final text of a turn, once another turn begins.
            if has_boundary(run, step) or (not self.per_turn and step.counted and step.index < len(steps)):
                self._evaluate(step)
        self._folded = steps[: max(n_folded, closed)]
        if closed < len(steps):
            (self._pending,) = self._price(run, steps[closed:])

    def _go_back(self, steps: Sequence[Step]) -> int:
        """Forget what is no longer so: from the beginning of the turn of the last step that is the same."""
        folded = self._folded
        pairs = zip(steps, folded, strict=False)
        n_equal = next((index for index, (new, old) in enumerate(pairs) if new != old), min(len(steps), len(folded)))
        n_equal = max(n_equal - 1, 0) if self.per_turn else 0
        while n_equal and folded[n_equal - 1].turn == folded[n_equal].turn:
            n_equal -= 1
        self.fired = [fired for fired in self.fired if fired.number <= n_equal]
        steps_kept, totals = self._folded[:n_equal], self._totals[: n_equal + 1]
        self._begin()
        self._folded, self._totals = steps_kept, totals
        if steps_kept:  # the next step, which is there, opens its turn
            self._ladder.open_turn(steps_kept[-1].turn, steps_kept[-1].start_ms)
        return n_equal

    def _evaluate(self, step: Step) -> None:
        rule, counters = self.rule, self._ladder.counters
        if rule is None:
            return
        true = rule(counters)
        if true is None:
            names = {leaf.counter for leaf in rule.leaves() if counters[leaf.counter] is None}
            self.undecided = tuple(sorted({*self.undecided, *names}))
        elif true:
            last = self.fired[-1] if self.fired else None
            if last is None or (self.per_turn and last.turn != step.turn):
                stop = rule.verdict(counters)
                if stop is not None:
                    self.fired.append(Fired(step.turn, step.index, stop))


def _add_step(totals: RunUsage, step: Step) -> RunUsage:
    usage = step.response.usage
    calls = _count_executed(step)
    tokens = _sum(usage.input_tokens, usage.output_tokens)
    return RunUsage(totals.steps + 1, totals.calls + calls, _sum(totals.tokens, tokens), _sum(totals.cost, usage.cost))


def _count_executed(step: Step) -> int:
    return len(step.results) - step.results.count(None)


def _sum(total: int | None, amount: int | None) -> int | None:
    return None if total is None or amount is None else total + amount


def _add_prices(run: Run, steps: Sequence[Step]) -> Sequence[Step]:
    """The steps, with costs at list prices where the log lacks them and a price is known."""
    return price_runs([replace(run, steps=tuple(steps), subagents=())]).runs[0].steps if steps else steps
