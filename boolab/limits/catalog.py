"""The stop rules that users call: functions that return a rule, and one rule of several limits.

The stop reason of a rule on a detector is `doom_loop` where calls are identical, `error_streak` where calls fail, and
`stuck` for all else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from numbers import Real
from operator import or_
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, get_args

from boolab.core.types import MICRO, Identities
from boolab.errors import SettingError, near
from boolab.io.checks import MAX_COUNT, check_whole, number_size_error, repr_of
from boolab.limits.call_identity import exclude_tools
from boolab.limits.context_size import ContextAction, ContextSize
from boolab.limits.detectors.streaks import ErrorStreak, RepeatStreak
from boolab.limits.stop import OnUnknown, StopRule, Threshold, detector_rule, unknown_option
from boolab.limits.table import COST_AHEAD
from boolab.limits.token_count import FRESH, TokenCount

TokenKind: TypeAlias = Literal["tokens", "input_tokens", "output_tokens", "fresh", "weighted"]
"""What a token budget counts."""


def max_steps(n: int) -> StopRule:
    """Stop with `step_cap` at boundary n: after n completed steps. Source: BooCode 1.14, opencode issue 3631.

    Args:
        n: How many steps, 0 or more.

    Raises:
        SettingError: if n is not an integer >= 0.

    Example:
        >>> import boolab as bl
        >>> str(bl.max_steps(20))
        'max_steps(20)'
    """
    return Threshold("step_cap", "steps", check_whole(n, "max_steps", 0), f"max_steps({n})")


def ceiling(n: int) -> StopRule:
    """A policy's own limit on steps, for agents that set none. It stops with `step_cap` too, under its own label."""
    return Threshold("step_cap", "steps", check_whole(n, "ceiling", 0), f"ceiling({n})")


def tool_budget(n: int) -> StopRule:
    """Stop with `tool_budget` once n calls have a result. The batch that crosses n is completed. Source: BooCode 1.14.

    Args:
        n: How many calls, 0 or more.

    Raises:
        SettingError: if n is not an integer >= 0.

    Example:
        >>> import boolab as bl
        >>> str(bl.tool_budget(50))
        'tool_budget(50)'
    """
    return Threshold("tool_budget", "tool_calls", check_whole(n, "tool_budget", 0), f"tool_budget({n})")


def doom_loop(n: int, identity: Identities = "canonical", exempt: Iterable[str] = ()) -> StopRule:
    """Stop with `doom_loop` when the same call was made n times in a row, in the order of the calls, within a step too.

    The rule is evaluated at the boundary after the step in which the n-th was made: the other calls of that step are
    executed, and the rule is true even if one of them is another call (`boolab.limits.stop`, "Counters").

    Args:
        n: How many in a row, at least 2.
        identity: What makes two calls the same, for all tools or by tool: see `boolab.limits.call_identity`. BooCode
            and opencode use `ordered`, with n = 3.
        exempt: The tools whose repeats are no loop, such as one that polls.

    Raises:
        SettingError: if n is not an integer >= 2 or the identity is not known.

    Example:
        >>> import boolab as bl
        >>> str(bl.doom_loop(3, "ordered"))
        'doom_loop(3, ordered)'
    """
    watch = RepeatStreak.of(exclude_tools(identity, exempt))
    return detector_rule("doom_loop", watch, n, watch.identities)


def max_tokens(
    n: int,
    of: TokenKind = "tokens",
    on_unknown: OnUnknown = "error",
    *,
    weights: Mapping[str, float] | None = None,
) -> StopRule:
    """Stop with `token_budget` once the turn has used n tokens.

    `fresh` and `weighted` follow Codex's rollout budget, which counts output and input that was not read from the cache
    (openai/codex pull request 28494). Unlike `tokens`, they do not count again with each request what it sends again.

    Args:
        n: The limit.
        of: What is counted: `tokens` (input + output), `input_tokens`, `output_tokens`; `fresh`: output, and input
            that was not read from the cache; or `weighted`: each kind of token with its weight.
        on_unknown: What it means that a log has no token counts: `error`, or `ignore` (never reached).
        weights: Of `weighted`, the weight of a token by kind: `output`; `cached`, read from the cache; `written` to it;
            and `input`, all other input. Left out, `input` and `output` weigh 1, `cached` 0, and `written` as `input`.

    Raises:
        SettingError: if n is not an integer >= 0, or an option is not one of those above.

    Example:
        >>> import boolab as bl
        >>> str(bl.max_tokens(100_000)), str(bl.max_tokens(5_000, of="output_tokens", on_unknown="ignore"))
        ('max_tokens(100000)', 'max_tokens(5000, output_tokens, on_unknown=ignore)')
        >>> bl.max_tokens(90_000, of="fresh"), bl.max_tokens(90_000, of="weighted", weights={"input": 0.1, "output": 1})
        (max_tokens(90000, fresh), max_tokens(90000, weighted, input=0.1,cached=0,written=0.1,output=1))
    """
    if of not in get_args(TokenKind):
        raise SettingError(f"max_tokens: of={of!r} is not known; accepted: {', '.join(get_args(TokenKind))}")
    if weights is not None and of != "weighted":
        raise SettingError(f"max_tokens: weights are for of='weighted', not for of={of!r}")
    count, parts = None, [repr_of(n)] if of == "tokens" else [repr_of(n), of]
    if of == "fresh":
        count = FRESH
    elif of == "weighted":
        count = TokenCount.from_weights(weights)
        parts.append(count.weights_text)
    counter = of if count is None else count.name
    label = f"max_tokens({', '.join(parts)}{unknown_option(on_unknown)})"
    return Threshold("token_budget", counter, check_whole(n, "max_tokens", 0), label, on_unknown, count)


def max_context(n: int, then: ContextAction = "stop", on_unknown: OnUnknown = "error") -> StopRule:
    """Stop with `token_budget` at the boundary at which the next request would have n tokens or more.

    These are the input and the output of the last request, and an estimate of the results since.

    Args:
        n: How many tokens, 1 or more.
        then: What `run` does there. `stop` ends the run. `compact` summarises the history instead, as
            `bl.Compaction(at_tokens=n - 1)` does; the rule must be one of those that `|` joins. `handoff` ends the run
            with a summary by the model; `bl.resume(run, "Continue.")` then starts a new run with the same prompt, that
            summary and your message, whose event `handoff` names the run that it continues. A counterfactual shows for
            each of them the boundary at which it acts.
        on_unknown: What it means that a log has no token counts: `error`, or `ignore` (never reached).

    Raises:
        SettingError: if n is not an integer >= 1, or `then` is not one of those above.

    Example:
        >>> import boolab as bl
        >>> str(bl.max_context(100_000)), str(bl.max_context(100_000, then="handoff"))
        ('max_context(100000)', 'max_context(100000, handoff)')
        >>> agent = bl.Agent("editor", max_steps=400, tool_budget=None, doom_loop=None)
        >>> rule = bl.max_steps(400) | bl.max_context(60_000, then="compact")
        >>> len(bl.run_sync(agent, "Rename the unit", model=bl.EditorModel(), stop=rule).compactions)
        4
    """
    if then not in get_args(ContextAction):
        raise SettingError(f"max_context: then={then!r} is not known; accepted: {', '.join(get_args(ContextAction))}")
    options = () if then == "stop" else (then,)
    return detector_rule("max_context", ContextSize(then), n, *options, on_unknown=on_unknown)


def max_cost(usd: float, on_unknown: OnUnknown = "error", *, hard: bool = False) -> StopRule:
    """Stop with `cost_budget` once the turn has cost that many dollars (kept as whole micro-dollars).

    The request that crosses the limit is paid for: the bill is at most the limit and one request. With `hard` the rule
    is evaluated before each request: it stops if what was spent, the context at the dearest rate of input, and the
    shortest useful response are more than the limit, and cuts a longer response to what is left. Then the bill is at
    most the limit. This needs a model with list prices and a limit on its output (`max_completion_tokens=`,
    `max_tokens=`), and holds in boolab's own loop alone: no recording has what a request might have cost. Where no
    request is affordable any more, the wrap-up is a fixed text.

    Args:
        usd: How many dollars, 0 or more; fractions are fine.
        on_unknown: What it means that a log has no costs: `error`, or `ignore` (never reached).
        hard: Whether the limit may not be exceeded.

    Raises:
        SettingError: if usd is not a number >= 0, or a hard limit shall ignore unknown costs.

    Example:
        >>> import boolab as bl
        >>> str(bl.max_cost(0.5)), bl.max_cost(0.5).threshold
        ('max_cost(0.5)', 500000)
        >>> bl.max_cost(0.5, hard=True)
        max_cost(0.5, hard)
    """
    micro = _units(usd, MICRO, "max_cost")
    if hard:
        if on_unknown != "error":
            raise SettingError(f"max_cost: on_unknown={on_unknown!r}: a hard limit cannot ignore an unknown cost")
        return Threshold("cost_budget", COST_AHEAD, micro + 1, f"max_cost({usd:.12g}, hard)")
    return Threshold("cost_budget", "cost", micro, f"max_cost({usd:.12g}{unknown_option(on_unknown)})", on_unknown)


def max_time(seconds: float, on_unknown: OnUnknown = "error") -> StopRule:
    """Stop with `time_budget` at the first boundary at which that much time has passed since the start of the turn.

    Args:
        seconds: How many seconds, 0 or more; fractions are fine.
        on_unknown: What it means that a log has no times: `error`, or `ignore` (never reached).

    Raises:
        SettingError: if seconds is not a number >= 0.

    Example:
        >>> import boolab as bl
        >>> str(bl.max_time(90)), bl.max_time(90).threshold
        ('max_time(90)', 90000)
    """
    ms = _units(seconds, 1000, "max_time")
    return Threshold("time_budget", "elapsed", ms, f"max_time({seconds:.12g}{unknown_option(on_unknown)})", on_unknown)


def error_streak(n: int, on_unknown: OnUnknown = "error") -> StopRule:
    """Stop with `error_streak` when n calls in a row have failed, in the order of the calls, within a step too.

    As with `doom_loop`, the rule is evaluated at the boundary after the step.

    Args:
        n: How many calls, 1 or more.
        on_unknown: What it means that a log does not record errors: `error`, or `ignore` (never reached).

    Raises:
        SettingError: if n is not an integer >= 1.

    Example:
        >>> import boolab as bl
        >>> str(bl.error_streak(3))
        'error_streak(3)'
    """
    return detector_rule("error_streak", ErrorStreak(), n, on_unknown=on_unknown)


RULES: Final[Mapping[str, Callable[..., StopRule]]] = MappingProxyType(
    {rule.__name__: rule for rule in (max_steps, doom_loop, tool_budget, error_streak, max_tokens, max_cost, max_time)}
)
"""The rule of each limit, in the order of precedence without a policy."""


def rule_of(values: Mapping[str, Any], identity: Identities = "canonical", exempt: Iterable[str] = ()) -> StopRule:
    """The rule that is true when the first of some limits is reached, joined by `|` in the order of precedence."""
    for name in values:
        if name not in RULES:
            expected = f"; accepted: {', '.join(RULES)}"
            raise SettingError(f"there is no limit {name!r}{near(name, RULES) or expected}")
    options = {"doom_loop": {"identity": identity, "exempt": exempt}}
    rules = [rule(values[name], **options.get(name, {})) for name, rule in RULES.items() if name in values]
    if not rules:
        raise SettingError(f"there is no limit: give one of {', '.join(RULES)}")
    return reduce(or_, rules)


def _units(n: object, in_one: int, function: str) -> int:
    """A number as whole units. A positive one is at least one unit: 0 would be reached before the first step."""
    number: Any = n  # `Real` declares no comparison with an int
    if isinstance(n, bool) or not isinstance(n, Real) or not number >= 0:
        raise SettingError(f"{function}({repr_of(n)}): expected a number >= 0")
    if number > MAX_COUNT // in_one:
        raise number_size_error(function, MAX_COUNT // in_one)
    return max(round(float(number) * in_one), 1) if number > 0 else 0
