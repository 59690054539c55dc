"""What exports as Python have in common: a rule as code, and sentences that follow from a preset."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from boolab.display.text import joined
from boolab.harnesses.exports.values import Limits, Part, Sets, comment
from boolab.harnesses.presets import get_policy
from boolab.limits.table import LIMITS


def rule_lines(limits: Limits, names: Sequence[str]) -> list[str]:
    """The stop rule of some of the limits, as lines of Python that set `rule`; none if none of them is on."""
    rules = [_rule(limits, name, value) for name, value in limits.given.items() if name in names]
    if not rules:
        return []
    first, *other_rules = rules
    if not other_rules:
        return [f"rule = {first}", ""]
    return ["rule = (", f"    {first}", *(f"    | {rule}" for rule in other_rules), ")", ""]


def _rule(limits: Limits, name: str, value: float) -> str:
    arguments = [repr(value)]
    if name == "doom_loop":
        arguments += [] if limits.identity == "canonical" else [_literal(limits.identity)]
        arguments += [f"exempt={_literal(limits.exempt)}"] if limits.exempt else []
    if name == "max_tokens" and limits.token_weights is not None:
        weights = ", ".join(f'"{kind}": {weight!r}' for kind, weight in limits.token_weights.items())
        arguments += ['of="weighted"', f"weights={{{weights}}}"]
    return f"bl.{name}({', '.join(arguments)})"


def _literal(value: object) -> str:
    """A name, names, or a mapping of names as Python; all but ASCII is escaped."""
    if isinstance(value, str):
        text = ascii(value)
        return f'"{text[1:-1]}"' if text[0] == "'" and '"' not in text else text
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_literal(key)}: {_literal(item)}' for key, item in value.items())}}}"
    return "None" if value is None else f"[{', '.join(map(_literal, value))}]"  # type: ignore[call-overload]


def python_part(limits: Limits, names: Collection[str], lines: Sequence[str], notes: Sequence[str], how: str) -> Part:
    """Lines of Python that set the limits of these names."""
    text = comment("python", notes) + "\n".join(lines) + "\n"
    return Part(text=text, language="python", how=how, sets=frozenset(limits.given.keys() & names))


def options_code(limits: Limits) -> str:
    """The options of an adapter after its rule, as Python."""
    return ', scope="run"' if limits.scope == "run" else ""


def monitor_notes(limits: Limits, names: Sequence[str], package: str) -> tuple[str, ...]:
    """A note that names the limits that boolab's monitor sets; none if it sets none."""
    labels = [LIMITS[name].label for name in limits.given if name in names]
    if not labels:
        return ()
    note = (
        f"{package} has no {joined(labels, 'or')} of its own: boolab's monitor counts the steps beside it, and stops "
        "where the rule that was scored does."
    )
    return (note,)


def monitor_rows(names: Sequence[str], code: str) -> tuple[Sets, ...]:
    """The rows of the limits that boolab's monitor sets, for the table of a target."""
    return tuple(
        Sets(
            name,
            f"`{code.format(f'bl.{name}(N)')}`",
            LIMITS[name].meaning,
            "the adapter stops at the step of the rule: make conformance, docs/exports.md",
        )
        for name in names
    )


def spending_notes(
    limits: Limits, preset: str, names: Sequence[str] = ("tool_budget", "max_tokens", "max_cost")
) -> Iterator[str]:
    """What a preset does otherwise than boolab's rules at a budget of calls, tokens or dollars."""
    policy = get_policy(preset)
    limit_names = [name for name in limits.given if name in names]
    if "tool_budget" in limit_names and policy.budgets.batch == "reject":
        yield (
            "A batch of calls that would exceed the tool budget is not run, and the run stops there; boolab's rule "
            "runs the whole batch that reaches the budget, then stops. A run may answer after its last allowed call."
        )
    if {"max_tokens", "max_cost"} & {*limit_names} and policy.budgets.after == "exceeded":
        budgets = " and ".join(LIMITS[name].label for name in ("max_tokens", "max_cost") if name in limit_names)
        yield (
            f"The response that exceeds the {budgets} is paid for, and its calls are not run: the run may end one step "
            "earlier than under boolab's rule."
        )


def default_note(limits: Limits, preset: str, lifted: str) -> tuple[str, ...]:
    """A note that the harness's own default cap stays in force, where no step cap is exported."""
    cap = get_policy(preset).cap.max_steps
    if limits.max_steps is not None or cap is None:
        return ()
    return (f"Its default cap of {cap:,} stays in force: {lifted}.",)
