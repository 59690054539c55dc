"""Agents, and the Markdown files that describe them.

An agent file is Markdown with YAML front matter; the body is the prompt. One file may hold several agents, a folder one
file each:

    ---
    name: refactorer
    tools: [list_files, read_file, edit_file]
    max_steps: 5
    ---
    You change the structure of code and keep its behaviour.

Keys: `name, description, tools, model, max_steps, tool_budget, doom_loop, identity, exempt, policy, temperature`.
`steps`, `maxSteps`, `max_turns` and `maxTurns` are read as `max_steps`. `identity` is what must be equal for two calls
to be the same for the doom loop; `exempt` lists the tools whose repeats are no loop. For the three limits, a missing
key is the policy's default, and `none` is no limit up to the policy's ceiling. With `max_steps: 0` the agent may not
call tools: it answers once, in text. Other keys are kept in `Agent.extra`, with a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from boolab.core.caller import warn
from boolab.core.displayable import Displayable
from boolab.core.surrogates import whole_text
from boolab.core.types import IDENTITIES
from boolab.display.document import Document, Facts
from boolab.errors import AgentFileError, SettingError, nearest
from boolab.harnesses.front_matter import ALIASES, front_matters
from boolab.harnesses.policy import DEFAULT, Policy, Setting, check_setting
from boolab.harnesses.presets import get_policy
from boolab.io.checks import is_amount, repr_of
from boolab.io.files import read_file, user_path
from boolab.limits.call_identity import exclude_tools
from boolab.limits.table import AGENT_LIMITS, LIMITS
from boolab.runtime.models.base import Model
from boolab.runtime.tools.tool import ToolSpec, as_tool

if TYPE_CHECKING:
    from boolab.io.yaml_loader import YamlDocument

MAX_FILE_BYTES: Final = 1_000_000
_KEYS: Final = ("name", "description", "tools", "model", *AGENT_LIMITS, "identity", "exempt", "policy", "temperature")


@dataclass(frozen=True, slots=True, repr=False)
class Agent(Displayable):
    """A prompt, tools and limits.

    Args:
        name: The name, in records too.
        description: What it is for.
        prompt: The system prompt.
        tools: `ToolSpec`s, plain functions, or names that `run(..., tools=[...], root=".")` resolves. An agent that
            lists none is offered all tools given to `run`.
        model: A `Model`, or the name of one for the caller of `run`.
        policy: A `Policy` or the name of a preset.
        max_steps: The cap on steps; `DEFAULT` is the policy's, None no limit up to its ceiling, 0 text only.
        tool_budget: How many tool calls the agent may make, likewise.
        doom_loop: How many identical calls in a row stop it, likewise.
        identity: What makes two calls identical there (see `boolab.limits.detector`); None is the policy's.
        exempt: The tools whose repeats are no loop, such as one that polls.
        temperature: Passed to the model.
        extra: The other keys of its file.

    Raises:
        SettingError: if a value is not accepted.

    Example:
        >>> import boolab as bl
        >>> bl.Agent("refactorer", max_steps=5).max_steps
        5
    """

    name: str
    description: str = field(default="", kw_only=True)
    prompt: str = field(default="", kw_only=True, repr=False)
    tools: tuple[ToolSpec | Callable[..., Any] | str, ...] = field(default=(), kw_only=True)
    model: Model | str | None = field(default=None, kw_only=True)
    policy: Policy | str = field(default="boocode", kw_only=True)
    max_steps: Setting = field(default=DEFAULT, kw_only=True)
    tool_budget: Setting = field(default=DEFAULT, kw_only=True)
    doom_loop: Setting = field(default=DEFAULT, kw_only=True)
    identity: str | None = field(default=None, kw_only=True)
    exempt: tuple[str, ...] = field(default=(), kw_only=True)
    temperature: float | None = field(default=None, kw_only=True)
    extra: Mapping[str, Any] = field(default_factory=dict, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.name, str) and self.name and not self.name.strip():
            msg = f"name: {self.name!r} is no name; expected a text such as 'coder'"
            raise SettingError(msg, "name")
        for name in ("name", "description", "prompt"):
            given_text: object = getattr(self, name)
            if isinstance(given_text, str):
                object.__setattr__(self, name, whole_text(given_text))
        for name, value in self.settings.items():
            check_setting(name, value)
        policy = get_policy(self.policy)
        policy.check({name: value for name, value in self.settings.items() if name in policy.order})
        if self.identity is not None and self.identity not in IDENTITIES:
            msg = f"identity: {self.identity!r} is not accepted; expected one of {', '.join(IDENTITIES)}"
            raise SettingError(msg, "identity")
        if self.temperature is not None and not is_amount(self.temperature):
            msg = f"temperature: {repr_of(self.temperature)} is not accepted; expected a number >= 0"
            raise SettingError(msg, "temperature")
        exempt: object = self.exempt
        if isinstance(exempt, str) or not all(isinstance(name, str) and name for name in self.exempt):
            msg = f"exempt: {exempt!r} is not accepted; expected a list of names of tools"
            raise SettingError(msg, "exempt")
        object.__setattr__(self, "exempt", tuple(self.exempt))
        tool_list: object = self.tools
        if isinstance(tool_list, str | ToolSpec) or callable(tool_list):
            msg = f"tools: {tool_list!r} is not accepted; expected a list of tools or of their names"
            raise SettingError(msg, "tools")
        tools = tuple(t if isinstance(t, str) else as_tool(t) for t in self.tools)
        object.__setattr__(self, "tools", tools)

    def __repr__(self) -> str:
        """One line: its name, and what it sets."""
        settings: dict[str, object] = {}
        if self.tools:
            settings["tools"] = [getattr(tool, "name", tool) for tool in self.tools]
        for entry in fields(self)[1:]:
            value = getattr(self, entry.name)
            if entry.repr and entry.name not in ("tools", "description") and value != entry.default:
                settings[entry.name] = str(value) if isinstance(value, Policy) else value
        return f"Agent({', '.join([repr(self.name), *(f'{name}={value!r}' for name, value in settings.items())])})"

    def _document_(self) -> Document:
        policy = policy_of(self)
        tools = ", ".join(tool if isinstance(tool, str) else as_tool(tool).name for tool in self.tools)
        facts = Facts([f"policy {policy}", f"tools: {tools or 'all that are given to the run'}"])
        return Document(
            title=self.name,
            subtitles=[self.description] if self.description else [],
            lead=[*limits_of(self, policy), facts],
            footer="bl.AgentEditor(path) edits its file",
            card=True,
        )

    @property
    def settings(self) -> dict[str, Setting]:
        """The three limits by name, `DEFAULT` where unset."""
        return {name: getattr(self, name) for name in AGENT_LIMITS}


NO_AGENT: Final = Agent("")
"""What stands for the agent of a run without one."""


def policy_of(agent: Agent, policy: Policy | str | None = None) -> Policy:
    """The policy that an agent runs under, with the agent's own identity and exempt tools."""
    return with_identity(get_policy(agent.policy if policy is None else policy), agent.identity, agent.exempt)


def with_identity(policy: Policy, identity: str | None, exempt: tuple[str, ...]) -> Policy:
    """A policy with an agent's own identity and exempt tools, if it has any."""
    if identity is None and not exempt:
        return policy
    return policy.vary(detectors={"identity": exclude_tools(identity or policy.detectors.identity, exempt)})


def limits_of(agent: Agent, policy: Policy) -> list[str]:
    """What an agent's limits mean under its policy (`policy_of(agent)`), one sentence each."""
    from boolab.harnesses.describe import axes  # only where an agent is shown
    from boolab.runtime.tools.workspace import BUILT_IN

    words = {axis.field: axis.describe(policy) for axis in axes()}
    reading = bool(agent.tools) and all(tool in BUILT_IN for tool in agent.tools)
    settings = policy.effective(agent.settings, read_only=reading)
    sentences = []
    for name in AGENT_LIMITS:
        value, label = settings.get(name), LIMITS[name].label
        if name not in policy.order:
            sentences.append(f"{label}: {policy} has no such setting; the file's value changes nothing")
        elif name == "max_steps" and agent.max_steps == 0:
            sentences.append(f"{label}: {words['cap.zero']}")
        elif value is None:
            most = f", but at most {policy.cap.ceiling:,} steps" if name == "max_steps" and policy.cap.ceiling else ""
            sentences.append(f"{label}: no limit{most}")
        else:
            default = ", the policy's default" if agent.settings[name] is not value else ""
            alike = f" ({words['detectors.identity']})" if agent.identity or agent.exempt else ""
            most = f"stops at {value} identical calls in a row{alike}" if name == "doom_loop" else f"at most {value:,}"
            sentences.append(f"{label}: {most}{default}")
    if policy.last_step.action != "tools" and settings.get("max_steps"):
        sentences.append(f"last step under the cap: {words['last_step.action']}")
    for name, first in policy.never_fires(agent.settings, read_only=reading).items():
        sentences.append(f"{LIMITS[name].label}: it never fires, because {first.why}")
    return sentences


class AgentFileWarning(UserWarning):
    """An agent file has a key that boolab does not know."""


def load_agents(path: str | Path) -> dict[str, Agent]:
    """Read agents from a Markdown file, or from all `.md` files of a folder.

    Args:
        path: The file or folder.

    Returns:
        The agents by name, in the order of the file (of the file names for a folder).

    Raises:
        AgentFileError: if something cannot be read, with path, line and what is accepted.

    Example:
        >>> import boolab as bl
        >>> from boolab.io.resources import data_path
        >>> bl.load_agents(data_path("agents") / "AGENTS.md")["refactorer"].max_steps
        5
    """
    path = user_path(path)
    if path.is_dir():
        files = sorted(path.glob("*.md"))
        if not files:
            msg = "the folder holds no .md file"
            raise AgentFileError(msg, path=path)
    else:
        files = [path]
    agents: dict[str, Agent] = {}
    locations: dict[str, str] = {}
    for file in files:
        try:
            raw = read_file(file, MAX_FILE_BYTES)
        except OSError as error:
            raise AgentFileError(f"cannot be read: {error.strerror}", path=file) from error
        for agent, line in agents_of(raw, file, named=path.is_dir()):
            if agent.name in agents:
                msg = f"agent {agent.name!r} is defined twice; the first time in {locations[agent.name]}"
                raise AgentFileError(msg, path=file, line=line)
            agents[agent.name] = agent
            locations[agent.name] = f"{file}:{line}"
    return agents


def agents_of(raw: bytes, path: Path, *, named: bool = False) -> Iterator[tuple[Agent, int]]:
    """The agents in the content of one file, with their lines; if `named`, an only one may have the file's name."""
    from boolab.io.yaml_loader import DocumentError, read_yaml  # PyYAML takes long: running an agent needs none

    if len(raw) > MAX_FILE_BYTES:
        msg = f"{len(raw):,} bytes, more than the {MAX_FILE_BYTES:,} that are read"
        raise AgentFileError(msg, path=path)
    try:
        lines = raw.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        msg = f"is not UTF-8 text (byte {error.start})"
        raise AgentFileError(msg, path=path, line=raw[: error.start].count(b"\n") + 1) from error
    for number, (start, end, after) in enumerate(front_matters(lines, path)):
        try:
            document = read_yaml("\n".join(lines[start + 1 : end]), first_line=start + 2)
        except DocumentError as error:
            raise AgentFileError(error.message, path=path, line=error.line) from error
        default = path.stem if named and number == 0 and after == len(lines) else None
        yield _agent(document, "\n".join(lines[end + 1 : after]).strip(), path, default), start + 1


def _agent(document: YamlDocument, prompt: str, path: Path, default_name: str | None) -> Agent:
    data = document.data
    if not isinstance(data, dict):
        msg = "expected YAML keys such as 'name: explorer'"
        raise AgentFileError(msg, path=path, line=document.line())
    name = data.get("name", default_name)
    label = f"agent {name!r}" if name else "an agent"

    def fail(key: object, problem: str) -> AgentFileError:
        return AgentFileError(f"{label}: {problem}", path=path, line=document.line([key]))

    if not isinstance(name, str) or not name.strip():
        key, problem = "name", "has no name; expected a key 'name' with a text"
        raise fail(key, problem)
    values: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for key, value in data.items():
        field_name = ALIASES.get(key, key)
        if field_name not in _KEYS:
            extra[str(key)] = value
            close = nearest(key, [*_KEYS, *ALIASES])
            hint = f"; did you mean {ALIASES.get(close, close)!r}?" if close else ""
            message = (
                f"{path}:{document.line([key])}: {label}: the key {key!r} is not known and was kept as it is{hint}"
            )
            warn(message, AgentFileWarning)
        elif field_name in values:
            raise fail(key, f"{key!r} repeats another key: both mean {field_name!r}")
        else:
            values[field_name] = _value(field_name, value, fail, key)
    try:
        return Agent(**values | {"name": name}, prompt=prompt, extra=extra)
    except SettingError as error:
        key = next((key for key in data if ALIASES.get(key, key) == error.setting), "policy")
        raise fail(key, str(error)) from error


def _value(field_name: str, value: Any, fail: Callable[[object, str], AgentFileError], key: object) -> Any:  # noqa: ANN401 - any field
    """One value of the front matter as an agent has it, if its type is right."""
    if field_name in AGENT_LIMITS:
        return None if value == "none" else value
    if field_name in ("tools", "exempt"):
        tools = [t.strip() for t in value.split(",")] if isinstance(value, str) else value or []
        if not isinstance(tools, list) or not all(isinstance(t, str) and t for t in tools):
            raise fail(key, f"{field_name}: {value!r} is not accepted; expected a list of tool names")
        return tuple(tools)
    if field_name == "temperature":
        if value is not None and not is_amount(value):
            raise fail(key, f"temperature: {repr_of(value)} is not accepted; expected a number >= 0")
        return value
    if value is None:
        return {"description": "", "policy": "boocode"}.get(field_name)
    if not isinstance(value, str):
        raise fail(key, f"{field_name}: {value!r} is not accepted; expected a text")
    return value
