"""Policies: what a harness does as a whole, as one frozen value.

A policy is data. The loop asks it what to do; it decides nothing by itself, and no harness is a subclass. Two policies
can be printed side by side and compared field by field; `dataclasses.replace` makes a variant.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from boolab.detectors import check_identity
from boolab.errors import SettingError
from boolab.stop import AnyOf, StopRule, ceiling, doom_loop, is_whole, max_steps, tool_budget


class _Default(enum.Enum):
    DEFAULT = "default"

    def __repr__(self) -> str:
        return "DEFAULT"


DEFAULT: Final = _Default.DEFAULT
"""A setting that was not set: the policy's default. None is something else: no limit, up to the ceiling."""

Setting: TypeAlias = int | Literal[_Default.DEFAULT] | None
SETTINGS: Final = ("steps", "tool_budget", "doom_loop")
_LEAST: Final = {"steps": 0, "tool_budget": 0, "doom_loop": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a harness does.

    Attributes:
        name: What records call it.
        source: Where its rules come from.
        loop_style: How its loop is built, in a few words.
        order: The settings that it has, in order of precedence at a boundary; one that is not here does not exist
            for it.
        steps: The default cap on steps; None is no cap, up to `ceiling`.
        budget_read_only: The default tool budget of an agent whose tools are all read-only.
        budget_writing: The default tool budget of an agent that has a writing tool.
        budget_no_agent: The default tool budget without an agent.
        doom_loop: The default threshold of the repeat detector.
        identity: What "the same call" means to its repeat detector.
        ceiling: The bound on steps that holds for every agent; None is none.
        finish: What ends a turn. `no_calls`: a response without tool calls. `reason_stop`: the finish reason `stop`,
            whatever else is in the response.
        last_step: What happens to the request of the last step under the cap. `tools`: nothing. `no_tools`: it
            carries no tools, calls are refused, and the loop ends with `step_cap` after it.
        zero_steps: What `steps: 0` means. `text_only`: one response without tools. `invalid`: an error.
        sentinel: Whether a limit ends the run with a visible message.
        summary: What stands before the sentinel: a summary by the `model`, the `static` text, or `none`.
    """

    name: str
    source: str
    loop_style: str
    order: tuple[str, ...]
    steps: int | None = None
    budget_read_only: int | None = None
    budget_writing: int | None = None
    budget_no_agent: int | None = None
    doom_loop: int | None = None
    identity: str = "ordered"
    ceiling: int | None = 1000
    finish: Literal["no_calls", "reason_stop"] = "no_calls"
    last_step: Literal["tools", "no_tools"] = "tools"
    zero_steps: Literal["text_only", "invalid"] = "text_only"
    sentinel: bool = False
    summary: Literal["model", "static", "none"] = "none"

    def __post_init__(self) -> None:
        if not set(self.order) <= set(SETTINGS) or len(set(self.order)) < len(self.order):
            msg = f"policy {self.name}: order={self.order!r}: expected some of {', '.join(SETTINGS)}, each once"
            raise SettingError(msg)
        if self.last_step != "tools" and "steps" not in self.order:
            msg = f"policy {self.name}: last_step={self.last_step!r} needs 'steps' in order"
            raise SettingError(msg)
        check_identity(self.identity)

    def effective(
        self, asked: Mapping[str, Setting], *, read_only: bool = False, no_agent: bool = False
    ) -> dict[str, int | None]:
        """The settings that hold: what was asked for, else the defaults, and only those that the policy has.

        Args:
            asked: By name; absent or `DEFAULT` is the policy's default.
            read_only: Whether all of the agent's tools are.
            no_agent: Whether there is no agent at all.

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
            value = asked.get(name, DEFAULT)
            settings[name] = defaults[name] if value is DEFAULT else value
        self.check(settings)
        return settings

    def check(self, settings: Mapping[str, Setting]) -> None:
        """Raise `SettingError` if a setting has a value that the policy does not accept."""
        for name, value in settings.items():
            check_setting(name, value)
        if self.zero_steps == "invalid" and settings.get("steps") == 0:
            msg = f"steps=0 is not valid under {self.name}: expected an integer >= 1, or None for no limit"
            raise SettingError(msg)

    def rule(self, settings: Mapping[str, int | None]) -> StopRule | None:
        """The stop rule of these effective settings, in the policy's order of precedence; None if there is no limit."""
        return _rule(tuple((name, settings[name]) for name in self.order), self.ceiling, self.identity)

    def __str__(self) -> str:
        return self.name


@functools.lru_cache(maxsize=1024)
def _rule(settings: tuple[tuple[str, int | None], ...], most: int | None, identity: str) -> StopRule | None:
    """The rule of settings in order of precedence. Kept, because a sweep asks for the same few again and again."""
    rules: list[StopRule] = []
    for name, value in settings:
        if name == "steps":
            if value is not None and (most is None or value <= most):
                rules.append(max_steps(value))
            elif most is not None:
                rules.append(ceiling(most))
        elif value is not None:
            rules.append(tool_budget(value) if name == "tool_budget" else doom_loop(value, identity))
    if len(rules) > 1:
        return AnyOf(tuple(rules))
    return rules[0] if rules else None


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


def get_policy(policy: str | Policy) -> Policy:
    """A policy as it is, or the preset of that name.

    Raises:
        SettingError: if there is no such preset.
    """
    if isinstance(policy, Policy):
        return policy
    if policy in policies:
        return policies[policy]
    msg = f"there is no policy {policy!r}; presets: {', '.join(sorted(policies))}"
    raise SettingError(msg)


policies: Final[dict[str, Policy]] = {
    policy.name: policy
    for policy in (
        Policy(
            name="boocode",
            source="BooCode v1.14, the outer loop that replaced recursion",
            loop_style="while under the cap; doom loop and budget asked at its top",
            order=("steps", "doom_loop", "tool_budget"),
            budget_read_only=50,
            budget_writing=10,
            budget_no_agent=50,
            doom_loop=3,
            ceiling=200,
            sentinel=True,
            summary="model",
        ),
        Policy(
            name="opencode_3631",
            source="opencode issue 3631, maxSteps as it was asked for",
            loop_style="while; the request of the last step carries no tools",
            order=("steps",),
            last_step="no_tools",
            zero_steps="invalid",
        ),
        Policy(
            name="naive",
            source="the loop that opencode's study warns of: break on finish_reason == stop",
            loop_style="while true; believes the finish reason",
            order=("steps",),
            finish="reason_stop",
        ),
    )
}
"""The presets, by name."""
