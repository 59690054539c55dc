"""The limits in configuration files of harnesses, and where these files are.

| file | limits |
|---|---|
| `.claude/agents/*.md` | `maxTurns` of each agent |
| `.claude/settings.json`, `settings.local.json` | `env.CLAUDE_CODE_MAX_TURNS`; the limits of boolab's own hook |
| `opencode.json`, `opencode.jsonc`, `.opencode/agent/*.md` | `steps` (old: `maxSteps`) of each agent |
| `.gemini/settings.json` | `model.maxSessionTurns`; `agents.overrides.NAME.runConfig.maxTurns`, `maxTimeMinutes` |
| `.gemini/agents/*.md` | `max_turns`, `timeout_mins` of each agent |
| `.codex/config.toml` | `features.rollout_budget.limit_tokens`, if it is enabled |
| `config.toml` of OpenHands | `core.max_iterations`, `core.max_budget_per_task` |
| a YAML file of mini-swe-agent | `agent.step_limit`, `agent.cost_limit`, `agent.wall_time_limit_seconds` |
| a YAML file of SWE-agent | `agent.model.per_instance_call_limit`, `per_instance_cost_limit` |

They are read as they are now. Files and folders are untrusted input: only these names are opened, and only numbers and
agents' names are taken from them.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from boolab.core.text import flat, shorten
from boolab.errors import ConfigFileError, RunFormatError, SettingError
from boolab.harnesses.groups import WrapUp
from boolab.harnesses.policy import Policy
from boolab.io.files import read_file, user_path
from boolab.io.json_input import mapping, parse, text
from boolab.io.packed import unpacked
from boolab.limits.call_identity import exempting
from boolab.limits.table import AGENT_LIMITS
from boolab.live.audits.declared import ANY, Declared
from boolab.live.hooks.options import Options
from boolab.live.hooks.replay import monitor_for
from boolab.live.hooks.settings import commands_in, hook_arguments, mentions_in, options_in
from boolab.logs.discovery import time_of
from boolab.logs.fields import MAX_DIGITS

MAX_BYTES: Final = 4_000_000
MAX_PARENTS: Final = 40
"""How many folders above a path are searched."""
MAX_AGENTS: Final = 1000
"""How many agent files of a folder are read."""
MAX_SHOWN: Final = 200
"""So many characters of a command are shown."""
_HEAD: Final = 262_144
_MAX_TURNS: Final = "CLAUDE_CODE_MAX_TURNS"
_CWD: Final = re.compile(rb'"(?:cwd|directory)"\s*:\s*("(?:[^"\\]|\\.){1,4096}")')
_KEY: Final = re.compile(r"""(["']?)([A-Za-z_]+)\1\s*:\s*(["']?)(.*?)\3\s*(?:\s#.*)?""")
_COMMENT: Final = r"//[^\n]*|/\*.*?(?:\*/|\Z)"
_COMMENTS: Final = re.compile(rf'("(?:[^"\\]|\\.)*")|{_COMMENT}|,(?=(?:\s|{_COMMENT})*[}}\]])', re.DOTALL)

_HOOK: Final = Policy(name="boolab_hook", order=AGENT_LIMITS, wrap_up=WrapUp(summary="model"))
"""How boolab's hook counts: as its rules do, and one more response follows, in which no call is executed."""

_AGENT_FOLDERS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    ".claude/agents": ("claude_code", ("maxTurns",)),
    ".opencode/agent": ("opencode", ("steps", "maxSteps")),
    ".opencode/agents": ("opencode", ("steps", "maxSteps")),
    ".gemini/agents": ("gemini", ("max_turns", "timeout_mins")),
}
"""Folders of agent files: their source, and the keys that are limits."""


def declared_in(path: Path) -> list[Declared]:
    """The limits in a configuration file, or in those of a project's folder.

    Args:
        path: The file, or the folder.

    Raises:
        SettingError: if it is not there, cannot be read, or is no configuration that is known.
    """
    path = user_path(path)
    if _is_folder(path):
        found = list(_in_folder(path))
        if not found:
            msg = f"{path}: no limit is declared there; looked for {', '.join([*_AGENT_FOLDERS, *_FILES])}"
            raise SettingError(msg)
        return found
    try:
        return list(_reader_of(path)(path))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SettingError(f"{path}: {why}") from error


def found_near(paths: Iterable[Path], seen: dict[Path, list[Declared]]) -> list[Declared]:
    """The limits in the configuration files in these folders and above them; of two for one agent, the nearest.

    A file that cannot be read is left out: it was not named. `seen` keeps what was read of each folder.
    """
    found: dict[tuple[str, str | None, str, str], Declared] = {}
    for path in paths:
        for folder in [path, *path.parents][:MAX_PARENTS]:
            if folder not in seen:
                seen[folder] = list(_in_folder(folder))
            for one in seen[folder]:
                adds_up = one.where if one.policy is not None else ""  # Claude Code runs all hooks
                found.setdefault((one.source, one.agent, one.name, adds_up), one)
    return list(found.values())


def hook_notes(places: Iterable[Path]) -> Iterator[str]:
    """Sentences on the commands in settings of Claude Code that hold boolab's hook and are not read as it.

    Args:
        places: The files and the folders whose limits were read.
    """
    files = (file for place in places for file in (_settings_in(place) if _is_folder(place) else [place]))
    for file in dict.fromkeys(files):
        try:
            content = read_file(file, MAX_BYTES).decode("utf-8-sig")
            mentioned, commands = mentions_in(content), commands_in(content)
        except (OSError, ValueError, ConfigFileError):
            continue  # it is no settings file of Claude Code
        by_command: dict[str, list[str]] = {}
        for event, command in mentioned:
            by_command.setdefault(shorten(flat(command), MAX_SHOWN), []).append(event)
        for shown, events in by_command.items():
            where = ", ".join(dict.fromkeys(events))
            yield (
                f"{file}: a command of {where} holds boolab's hook and is not the hook alone, so it is not recognised "
                f"as the hook, and its limits are not in this audit: {shown}"
            )
        for command in commands:
            try:
                monitor_for(Options.parse(hook_arguments(command) or []))
            except (ValueError, SettingError) as error:
                yield f"{file}: a hook of boolab that holds no limit, {shorten(flat(command), MAX_SHOWN)}: {error}"


def _settings_in(folder: Path) -> Iterator[Path]:
    """The settings files of Claude Code that `_in_folder` looks for in a folder."""
    for name in (name for name, read in _FILES.items() if read is _claude):
        home, _, inner = name.rpartition("/")
        yield folder / inner if _is_named(folder, home) else folder / name


def folders_of(log: Path) -> list[Path]:
    """The folders that a log names as those of its session, and its own. Folders that do not exist are left out."""
    try:
        with unpacked(log) as file:
            head = file.read(_HEAD)
    except (OSError, RunFormatError):
        return []
    named: dict[Path, None] = {}
    for match in _CWD.finditer(head):
        try:
            folder = Path(text(parse(match[1])))
        except ValueError:
            continue
        if folder.is_absolute() and folder not in named and _is_folder(folder):
            named[folder] = None
    return [*named, log.parent.resolve()]  # above `../logs` is not the current folder


def _is_named(folder: Path, name: str) -> bool:
    """Whether a folder has this name, also where it is given as `.` or through a link."""
    return folder.name == name or Path(os.path.realpath(folder)).name == name  # resolve() fails for a link to itself


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _in_folder(folder: Path) -> Iterator[Declared]:
    for name in _AGENT_FOLDERS:
        home, inner = name.split("/")
        inside = folder / inner if _is_named(folder, home) else folder / name
        for file in sorted(inside.glob("*.md"))[:MAX_AGENTS] if _is_folder(inside) else ():
            yield from _tried(_agent_file, file)
    for name, read in _FILES.items():
        home, _, inner = name.rpartition("/")
        file = folder / inner if home and _is_named(folder, home) else folder / name
        yield from _tried(read, file)


def _tried(read: Callable[[Path], Iterator[Declared]], file: Path) -> list[Declared]:
    try:
        return list(read(file))
    except (OSError, ValueError):
        return []


# --- One file ---------------------------------------------------------------------------------------------------------


def _agent_file(path: Path) -> Iterator[Declared]:
    """The limits in the front matter of an agent file.

    It is read line by line: real descriptions have colons, which YAML refuses and these harnesses accept.
    """
    home = path.absolute().parent.parent.name
    source, keys = next((v for k, v in _AGENT_FOLDERS.items() if k.split("/")[0] == home), ("", ()))
    lines = read_file(path, MAX_BYTES).decode("utf-8-sig").splitlines()
    if not lines or lines[0].rstrip() != "---":
        return
    end = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), len(lines))
    values: dict[str, tuple[str, int]] = {}
    for number, line in enumerate(lines[1:end], 2):
        match = _KEY.fullmatch(line)
        if match and match[2] not in values:
            values[match[2]] = (match[4], number)
    name = values.get("name", ("", 0))[0] or path.stem
    known = keys or tuple(key for _, more in _AGENT_FOLDERS.values() for key in more)
    for key in known:
        value, number = values.get(key, ("", 0))
        if value.isdecimal() and len(value) < MAX_DIGITS and int(value) > 0:
            yield _one(path, key, int(value), name, source, line=number)


def _json(path: Path) -> Mapping[str, Any]:
    """A JSON file that may have comments and trailing commas."""
    content = read_file(path, MAX_BYTES).decode("utf-8-sig")
    plain = _COMMENTS.sub(lambda match: match[1] or "", content)
    return mapping(parse(plain.encode()))


def _claude(path: Path) -> Iterator[Declared]:
    document = _json(path)
    value = mapping(document.get("env")).get(_MAX_TURNS)
    turns = int(value) if isinstance(value, str) and value.isdecimal() and len(value) < MAX_DIGITS else value
    yield from _number(path, _MAX_TURNS, turns, None, "claude_code")
    if document.get("disableAllHooks") is not True:
        yield from _hooks(path)


def _hooks(path: Path) -> Iterator[Declared]:
    """The limits at which boolab's own hook stops an agent: for each agent, on counts of its own."""
    for options in options_in(read_file(path, MAX_BYTES).decode("utf-8-sig")):
        if options.action != "stop":
            continue
        policy = _HOOK.vary(detectors={"identity": exempting(options.identity, options.exempt)})
        for name, value in options.limits.items():
            for found in _number(path, name, value, ANY, "claude_code"):
                yield replace(found, policy=policy, scope="run" if options.scope == "run" else "turn")


def _opencode(path: Path) -> Iterator[Declared]:
    document = _json(path)
    for group in ("agent", "mode"):  # `mode` is the old name
        for name, agent in mapping(document.get(group)).items():
            for key in ("steps", "maxSteps"):
                yield from _number(path, key, mapping(agent).get(key), name, "opencode")


def _gemini(path: Path) -> Iterator[Declared]:
    document = _json(path)
    model = document.get("model")
    turns = mapping(model).get("maxSessionTurns", document.get("maxSessionTurns"))
    yield from _number(path, "maxSessionTurns", turns, None, "gemini")
    for name, agent in mapping(mapping(document.get("agents")).get("overrides")).items():
        settings = mapping(mapping(agent).get("runConfig"))
        for key in ("maxTurns", "maxTimeMinutes"):
            yield from _number(path, key, settings.get(key), name, "gemini")


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_file(path, MAX_BYTES).decode())
    except RecursionError:
        msg = "the TOML is nested too deeply"
        raise ValueError(msg) from None


def _codex(path: Path) -> Iterator[Declared]:
    budget = mapping(mapping(_toml(path).get("features")).get("rollout_budget"))
    if budget.get("enabled") is True:
        output, entered = (budget.get(f"{name}_token_weight", 1.0) for name in ("sampling", "prefill"))
        weights = (float(output), float(entered)) if _is_amount(output) and _is_amount(entered) else (1.0, 1.0)
        name = "features.rollout_budget.limit_tokens"
        yield from _number(path, name, budget.get("limit_tokens"), None, "codex", weights)


def _openhands(path: Path) -> Iterator[Declared]:
    core = mapping(_toml(path).get("core"))
    for key in ("max_iterations", "max_budget_per_task"):
        yield from _number(path, key, core.get(key), None, "openhands")


def _yaml(path: Path) -> Iterator[Declared]:
    """A configuration of mini-swe-agent or SWE-agent."""
    from boolab.io.yaml_loader import read_yaml

    agent = mapping(mapping(read_yaml(read_file(path, MAX_BYTES).decode()).data).get("agent"))
    for key in ("step_limit", "cost_limit", "wall_time_limit_seconds"):
        yield from _number(path, key, agent.get(key), None, "mini_swe_agent")
    for key in ("per_instance_call_limit", "per_instance_cost_limit"):
        yield from _number(path, key, mapping(agent.get("model")).get(key), None, "swe_agent")


_FILES: Final[Mapping[str, Callable[[Path], Iterator[Declared]]]] = {
    "opencode.json": _opencode,
    "opencode.jsonc": _opencode,
    ".opencode/opencode.json": _opencode,
    ".opencode/opencode.jsonc": _opencode,
    ".claude/settings.local.json": _claude,
    ".claude/settings.json": _claude,
    ".gemini/settings.json": _gemini,
    ".codex/config.toml": _codex,
    "config.toml": _openhands,
}
"""Files that are looked for in a folder, each with what reads it."""


def _reader_of(path: Path) -> Callable[[Path], Iterator[Declared]]:
    """What reads a file that was named: by its name, then by its suffix."""
    if path.suffix == ".md":
        return _agent_file
    if path.suffix in (".yaml", ".yml"):
        return _yaml
    if path.suffix == ".toml":
        return _codex if _is_named(path.parent, ".codex") or "rollout_budget" in _start(path) else _openhands
    if path.suffix in (".json", ".jsonc"):
        if _is_named(path.parent, ".claude"):
            return _claude
        return _gemini if _is_named(path.parent, ".gemini") or path.stem == "settings" else _opencode
    msg = "no configuration of a harness: expected an agent file (.md), or a .json, .jsonc, .toml or .yaml file"
    raise ValueError(msg)


def _start(path: Path) -> str:
    return read_file(path, MAX_BYTES).decode("utf-8", "replace")


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**53


def _number(
    path: Path,
    name: str,
    value: object,
    agent: str | None,
    source: str,
    weights: tuple[float, float] = (1.0, 1.0),
) -> Iterator[Declared]:
    """The limit, if the value is a number that is one: 0 and less switch it off."""
    if isinstance(value, int | float) and _is_amount(value) and value > 0:
        yield _one(path, name, value, agent, source, weights=weights)


def _one(
    path: Path,
    name: str,
    value: float,
    agent: str | None,
    source: str,
    *,
    line: int = 0,
    weights: tuple[float, float] = (1.0, 1.0),
) -> Declared:
    changed = time_of(path.stat())
    where = f"{path}:{line}" if line else str(path)
    return Declared(name, value, where, agent, source, changed, weights)
