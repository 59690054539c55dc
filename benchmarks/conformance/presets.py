"""boolab's side: the same scenarios under the preset of each package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import boolab as bl
from benchmarks.conformance.observation import Observation
from benchmarks.conformance.scenarios import Scenario, Turn
from boolab.core.types import Response
from boolab.runtime.models.base import Emit, Request

PRESETS: Final = {
    "pydantic-ai-slim": "pydantic_ai",
    "inspect-ai": "inspect_react",
    "smolagents": "smolagents",
    "openai-agents": "openai_agents",
    "mini-swe-agent": "mini_swe_agent",
    "langgraph": "langgraph_react",
    "langchain": "langchain_agent",
    "autogen-agentchat": "autogen",
}
"""The preset of each package."""

REJECTED: Final = "ValueError"
"""What the packages raise for a setting that they do not accept; boolab's word for it is `SettingError`."""


class NoSuchSetting(Exception):
    """The preset lacks what a scenario sets, so that there is nothing to compare; the message names it."""


class Counted:
    """A scripted model that counts how often it is asked, and how often without tools."""

    name = "counted"
    virtual = True
    summarises = True

    def __init__(self, script: tuple[Turn, ...]) -> None:
        self.model_calls = 0
        self.summary_calls = 0
        self._script = bl.ScriptedModel([_item(said) for said in script], summary="Summary.")

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:
        """The next turn of the script, or the summary."""
        self.model_calls += 1
        self.summary_calls += not request.tools
        return await self._script.respond(request, emit)


def _item(said: Turn) -> dict[str, Any]:
    sent, received = said["tokens"]
    return {
        "text": said["text"],
        "tool_calls": said["calls"],
        "finish_reason": said["finish_reason"],
        "usage": {"input_tokens": sent, "output_tokens": received, "cost_usd": said["cost"]},
    }


BUDGETS: Final = ("budgets.read_only", "budgets.writing", "budgets.no_agent")
"""A preset's tool budget depends on the agent; here it is the same for all."""

FIELDS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "pydantic-ai-slim": {
        "request_limit": ("cap.max_steps",),
        "tool_calls_limit": BUDGETS,
        "total_tokens_limit": ("budgets.tokens",),
        "cost_limit": ("budgets.cost",),
    },
    "inspect-ai": {
        "turn_limit": ("cap.max_steps",),
        "token_limit": ("budgets.tokens",),
        "cost_limit": ("budgets.cost",),
    },
    "smolagents": {"max_steps": ("cap.max_steps",)},
    "openai-agents": {"max_turns": ("cap.max_steps",)},
    "mini-swe-agent": {"step_limit": ("cap.max_steps",), "cost_limit": ("budgets.cost",)},
    "langgraph": {"recursion_limit": ("cap.max_steps",)},
    "langchain": {
        "recursion_limit": ("cap.max_steps",),
        "model_run_limit": ("cap.max_steps",),
        "tool_run_limit": BUDGETS,
    },
    "autogen-agentchat": {"max_tool_iterations": ("cap.max_steps",)},
}
"""What each package calls a setting, and which fields of `Policy` it is."""


def preset_of(package: str, settings: Mapping[str, Any]) -> str:
    """The preset for a package under some settings: LangChain counts in its graph or in its middleware.

    Example:
        >>> preset_of("langchain", {"recursion_limit": 4}), preset_of("langchain", {"model_run_limit": 2})
        ('langchain_agent', 'langchain_middleware')
    """
    counts_in_middleware = package == "langchain" and "recursion_limit" not in settings
    return "langchain_middleware" if counts_in_middleware else PRESETS[package]


def policy_of(package: str, settings: Mapping[str, Any]) -> bl.Policy:
    """The preset under a package's settings; a cap that is not among them is off.

    Args:
        package: The distribution.
        settings: In the package's own words.

    Raises:
        NoSuchSetting: if there is no such preset, or it has no such setting.
    """
    name = preset_of(package, settings)
    if name not in bl.policies:
        raise NoSuchSetting(f"no preset {name}")
    changes: dict[str, Any] = {"cap.max_steps": None}
    for word, value in settings.items():
        if word in FIELDS[package]:
            changes |= dict.fromkeys(FIELDS[package][word], value)
        elif word == "max_consecutive_format_errors":
            changes["detectors.guards"] = _format_errors(bl.policies[name], value)
        elif word == "reflect_on_tool_use":
            changes["wrap_up.summary"] = "model" if value else "static"
        elif (word, value) != ("builder", "create_react_agent") and word != "run_max_steps":
            raise NoSuchSetting(f"{name} has no {word}={value}")
    if package == "mini-swe-agent":
        changes["budgets.cost"] = changes["budgets.cost"] or None  # 0 is off
    groups: dict[str, Any] = {}
    for path, value in changes.items():
        group, _, field = path.partition(".")
        groups.setdefault(group, {})[field] = value
    return bl.policies[name].vary(**groups)


def _format_errors(policy: Any, limit: int) -> tuple[Any, ...]:  # noqa: ANN401
    return tuple(replace(guard, ladder=((limit, "stop"),)) for guard in policy.detectors.guards) if limit else ()


def agent_of(settings: Mapping[str, Any]) -> bl.Agent:
    """The agent; what smolagents is given when it is run goes before the cap that it was made with."""
    return bl.Agent("a", max_steps=settings["run_max_steps"]) if "run_max_steps" in settings else bl.Agent("a")


def observe(scenario: Scenario) -> Observation:
    """Play a scenario under the preset of its package.

    Raises:
        NoSuchSetting: if the preset cannot be set like that.
    """
    ran: list[str] = []

    def look(what: str) -> str:
        """Look."""
        ran.append(what)
        return f"seen {what}"

    def fail(what: str) -> str:
        """Fail."""
        ran.append(what)
        raise RuntimeError(what)

    def decline(what: str) -> str:
        """Decline."""
        ran.append(what)
        raise bl.ToolError(what)

    def finish(answer: str) -> str:
        """Hand in the answer."""
        return answer

    model = Counted(scenario.script)
    try:
        policy: Any = policy_of(scenario.package, scenario.settings)
        finishing = [bl.tool(name=name)(finish) for name in policy.finish.tools]
        tools: list[Any] = [look, fail, decline, *finishing]
        run = bl.run_sync(agent_of(scenario.settings), "go", model=model, tools=tools, policy=policy)
        end = str(policy.end_of(run))
    except bl.SettingError:
        end = REJECTED
    return Observation(model.model_calls, len(ran), model.summary_calls, end)
