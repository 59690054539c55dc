"""Limits that were declared: in the log itself, in configuration files, or by hand.

Each harness names its files and the limits in them (`boolab.harnesses.harness.ConfigFile` and `AgentFiles`); the
settings of Claude Code may also have the limits of boolab's own hook. They are read as they are now. Files and folders
are untrusted input: only these names are opened, and only numbers and agents' names are taken from them.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from boolab.core.run import Run
from boolab.core.text import flatten, shorten
from boolab.core.types import Scope
from boolab.errors import ConfigFileError, RunFormatError, SettingError, near
from boolab.frames.dtypes import replace_surrogates
from boolab.harnesses.groups import WrapUp
from boolab.harnesses.harness import AgentFiles, ConfigFile, ConfigLimit, Native, is_amount, number_of
from boolab.harnesses.native_limits import find_limit, harness_of, logged_limits, native_names, owners_by_name
from boolab.harnesses.policy import Policy
from boolab.harnesses.presets import get_policy, policies
from boolab.harnesses.registry import all_harnesses, harness_of_source
from boolab.io.checks import repr_of
from boolab.io.files import read_file, user_path
from boolab.io.json_edit import read_json
from boolab.io.json_input import mapping, parse, text
from boolab.io.packed import open_unpacked
from boolab.limits.call_identity import exclude_tools
from boolab.limits.table import AGENT_LIMITS
from boolab.limits.token_count import FRESH, TokenCount
from boolab.live.hooks.counts import monitor_for
from boolab.live.hooks.options import Options
from boolab.live.hooks.settings import commands_in, hook_arguments, mentions_in, options_in
from boolab.logs.discovery import time_of

LimitsByName: TypeAlias = Mapping[str, float | Mapping[str, float]]
"""Limits by name, and by agent: `{"max_turns": 10, "explore": {"max_turns": 5}}`."""

ANY_AGENT: Final = "*"
"""The agent that stands for all."""
THE_LOG: Final = "the log"
BY_HAND: Final = "by hand"


@dataclass(frozen=True, slots=True)
class Declared:
    """A limit that was declared somewhere."""

    name: str  # its name there
    value: float  # its value, in the unit of that name
    where: str  # Where: a file with its line, `the log`, or `by hand`
    agent: str | None = None  # the agent that it is for; None for every run that no other run started, `*` for all runs
    source: str = ""  # the source whose runs it is for; empty for any
    changed: datetime | None = None  # when the file was changed; None where there is none
    tokens: TokenCount = FRESH  # see `Native`
    policy: Policy | None = None  # the rules by which it is counted, where they are not those of the harness
    scope: Scope = "auto"  # see `Native`

    def is_for(self, run: Run) -> bool:
        """Whether it is for a run."""
        if self.source and self.source != run.source:
            return False
        if self.agent is None:
            return run.parent_run_id is None
        # Claude Code names the agents of a plugin `plugin:agent`.
        names = [ANY_AGENT, run.agent, run.agent.rpartition(":")[2]]
        if run.parent_run_id is None and run.agent in ("", run.source):
            writer = harness_of_source(run.source)
            names.append("" if writer is None else writer.default_agent)
        return self.agent in names


class RunLimit(NamedTuple):
    """A limit of one run, ready to be counted."""

    name: str
    value: float
    where: str
    native: Native
    policy: Policy | None
    changed: datetime | None


def limits_of_mapping(limits: LimitsByName) -> list[Declared]:
    """The limits of a mapping."""
    unchecked: object = limits
    if not isinstance(unchecked, Mapping):
        msg = f'limits: {limits!r} is not accepted; expected "auto", or a mapping such as {{"max_turns": 10}}'
        raise SettingError(msg)
    names = owners_by_name()
    limits_found = []
    for agent, name, value in _flatten(limits):
        argument = f"limits[{agent!r}]" if agent is not None else "limits"
        unchecked = value
        if isinstance(unchecked, bool) or not isinstance(unchecked, int | float) or not 0 <= unchecked < 2**53:
            raise SettingError(f"{argument}: {name}={repr_of(value)} is not accepted; expected a number >= 0")
        if find_limit(name, names) is None:
            raise SettingError(f"{argument}: no harness has a limit {name!r}{near(name, sorted(names))}")
        limits_found.append(Declared(name, value, BY_HAND, agent))
    if not limits_found:
        msg = 'limits: it has no limit; expected "auto", or a mapping such as {"max_turns": 10}'
        raise SettingError(msg)
    return limits_found


def _flatten(limits: LimitsByName) -> Iterator[tuple[str | None, str, float]]:
    for name, value in limits.items():
        if isinstance(value, Mapping):
            for inner, amount in value.items():
                yield name, str(inner), amount
        else:
            yield None, str(name), value


def limits_of(run: Run, declared: Iterable[Declared], policy: Policy | str | None, *, log: bool) -> list[RunLimit]:
    """The limits of a run: those on record, if `log`, and those declared for it; an agent's own go first."""
    harness = harness_of(run.source, run.policy) if policy is None else get_policy(policy)
    run_limits = [entry for entry in declared if entry.is_for(run)]
    agent_limits = {entry.name for entry in run_limits if entry.agent not in (None, ANY_AGENT)}
    run_limits = [entry for entry in run_limits if entry.agent != ANY_AGENT or entry.name not in agent_limits]
    recorded = logged_limits(run.source, run.limits) if log else ()
    limits_found: dict[tuple[str, str, float], RunLimit] = {}
    for entry in (*run_limits, *(Declared(name, value, THE_LOG) for name, value in recorded)):
        limit = _resolve(entry, run, harness)
        if limit is not None:
            limits_found.setdefault((limit.native.axis, limit.native.scope, limit.value * limit.native.factor), limit)
    return list(limits_found.values())


def _resolve(limit: Declared, run: Run, harness: Policy | None) -> RunLimit | None:
    """The limit under the run's harness; None if that has none of this name, or the value switches it off."""
    harness = harness if limit.policy is None else limit.policy
    natives = native_names(run.source, harness)
    name = find_limit(limit.name, natives)
    if name is None and harness is None:
        all_names = owners_by_name()
        owners = all_names.get(find_limit(limit.name, all_names) or "", [])
        owner = "langgraph_react" if "langgraph_react" in owners else owners[0] if len(owners) == 1 else ""
        if owner in policies:
            harness = get_policy(owner)
            natives = native_names(run.source, harness)
            name = find_limit(limit.name, natives)
    if name is None:
        return None
    native = natives[name]._replace(tokens=limit.tokens)
    if native.tokens_in is not None:
        tokens = native.tokens_in(limit.value, run)
        return None if tokens is None else RunLimit(name, tokens, limit.where, native, harness, limit.changed)
    native = native if limit.scope == "auto" else native._replace(scope=limit.scope)
    if native.policy and (run.parent_run_id is not None or limit.agent is not None):
        harness = get_policy(native.policy)
    zero = harness.cap.zero if harness is not None else "plain"
    if native.axis == "max_steps" and limit.value == 0 and zero in ("unlimited", "default", "invalid"):
        return None
    return RunLimit(name, limit.value, limit.where, native, harness, limit.changed)


def find_unmatched(declared: Sequence[Declared], runs: Sequence[Run], policy: Policy | str | None) -> list[Declared]:
    """The declared limits that are for none of the runs."""
    return [limit for limit in declared if not any(limits_of(run, [limit], policy, log=False) for run in runs)]


MAX_BYTES: Final = 1_000_000
MAX_PARENTS: Final = 40
"""How many folders above a path are searched."""
MAX_AGENTS: Final = 1000
"""How many agent files of a folder are read."""
MAX_SHOWN: Final = 200
"""So many characters of a command are shown."""
_HEAD: Final = 262_144
_CWD: Final = re.compile(rb'"(?:cwd|directory)"\s*:\s*("(?:[^"\\]|\\.){1,4096}")')
_KEY: Final = re.compile(r"""(["']?)([A-Za-z_]+)\1\s*:\s*(["']?)(.*?)\3\s*(?:\s#.*)?""")

_HOOK: Final = Policy(name="boolab_hook", order=AGENT_LIMITS, wrap_up=WrapUp(summary="model"))
"""How boolab's hook counts: as its rules do, and one more response follows, in which no call is executed."""

_FORMATS: Final = {".jsonc": ".json", ".yml": ".yaml"}
"""Suffixes that mean the same format as another."""


@cache
def _agent_folders() -> Sequence[AgentFiles]:
    return [*chain.from_iterable(harness.agent_files for harness in all_harnesses())]


@cache
def _config_files() -> Sequence[ConfigFile]:
    return [*chain.from_iterable(harness.config_files for harness in all_harnesses())]


def read_limits(path: Path) -> list[Declared]:
    """The limits in a configuration file, or in those of a project's folder."""
    path = user_path(path)
    if _is_folder(path):
        limits = list(_limits_in_folder(path))
        if not limits:
            names = {files.folder for files in _agent_folders()}.union(*(config.paths for config in _config_files()))
            raise SettingError(f"{path}: no limit is declared there; looked for {', '.join(sorted(names))}")
        return limits
    try:
        return list(_agent_file(path) if path.suffix == ".md" else _limits_in_file(path, _formats_of(path)))
    except ConfigFileError as error:
        raise SettingError(str(ConfigFileError(error.message, path=path, line=error.line))) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SettingError(f"{path}: {reason}") from error


def limits_near(paths: Iterable[Path], folder_limits: dict[Path, list[Declared]]) -> list[Declared]:
    """The limits in the configuration files in these folders and above them; of two for one agent, the nearest."""
    limits: dict[tuple[str, str | None, str, str], Declared] = {}
    for path in paths:
        for folder in [path, *path.parents][:MAX_PARENTS]:
            if folder not in folder_limits:
                folder_limits[folder] = list(_limits_in_folder(folder))
            for limit in folder_limits[folder]:
                adds_up = limit.where if limit.policy is not None else ""  # Claude Code runs all hooks
                limits.setdefault((limit.source, limit.agent, limit.name, adds_up), limit)
    return list(limits.values())


def hook_notes(paths: Iterable[Path]) -> Iterator[str]:
    """Sentences on the commands in settings of Claude Code that hold boolab's hook and are not read as it."""
    files = chain.from_iterable(_settings_in(path) if _is_folder(path) else [path] for path in paths)
    for file in dict.fromkeys(files):
        try:
            content = read_file(file, MAX_BYTES).decode("utf-8-sig")
            mentions, commands = mentions_in(content), commands_in(content)
        except (OSError, ValueError, ConfigFileError):
            continue  # it is no settings file of Claude Code
        by_command: dict[str, list[str]] = {}
        for event, command in mentions:
            by_command.setdefault(shorten(flatten(command), MAX_SHOWN), []).append(event)
        for short_command, events in by_command.items():
            event_names = ", ".join(dict.fromkeys(events))
            yield (
                f"{file}: a command of {event_names} holds boolab's hook and is not the hook alone, so it is not "
                f"recognised as the hook, and its limits are not in this audit: {short_command}"
            )
        for command in commands:
            try:
                monitor_for(Options.parse(hook_arguments(command) or []))
            except (ValueError, SettingError) as error:
                yield f"{file}: a hook of boolab that holds no limit, {shorten(flatten(command), MAX_SHOWN)}: {error}"


def _settings_in(folder: Path) -> Iterator[Path]:
    """The settings files of Claude Code that `_limits_in_folder` looks for in a folder."""
    for config in _config_files():
        for name in config.paths if config.has_hook else ():
            yield _path_inside(folder, name)


def folders_of(log: Path) -> list[Path]:
    """The folders that a log names as those of its session, and its own. Folders that do not exist are left out."""
    try:
        with open_unpacked(log) as file:
            head = file.read(_HEAD)
    except (OSError, RunFormatError):
        return []
    folders: dict[Path, None] = {}
    for match in _CWD.finditer(head):
        try:
            folder = Path(text(parse(match[1])))
        except ValueError:
            continue
        if folder.is_absolute() and folder not in folders and _is_folder(folder):
            folders[folder] = None
    return [*folders, log.parent.resolve()]  # above `../logs` is not the current folder


def _is_named(folder: Path, name: str) -> bool:
    """Whether a folder has this name, also where it is given as `.` or through a link."""
    return folder.name == name or Path(os.path.realpath(folder)).name == name  # resolve() fails for a link to itself


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _path_inside(folder: Path, name: str) -> Path:
    """A path in a project, given the project or the folder in it."""
    home, _, inner = name.partition("/")
    return folder / inner if inner and _is_named(folder, home) else folder / name


def _limits_in_folder(folder: Path) -> Iterator[Declared]:
    for files in _agent_folders():
        agents_folder = _path_inside(folder, files.folder)
        for file in sorted(agents_folder.glob("*.md"))[:MAX_AGENTS] if _is_folder(agents_folder) else ():
            yield from _limits_or_none(_agent_file(file))
    for config in _config_files():
        for name in config.paths:
            yield from _limits_or_none(_limits_in_file(_path_inside(folder, name), [config]))


def _limits_or_none(limits: Iterator[Declared]) -> list[Declared]:
    try:
        return list(limits)
    except (OSError, ValueError, ConfigFileError):
        return []


# --- One file ---------------------------------------------------------------------------------------------------------


def _agent_file(path: Path) -> Iterator[Declared]:
    """The limits in the front matter of an agent file.

    It is read line by line: real descriptions have colons, which YAML refuses and these harnesses accept.
    """
    home = path.absolute().parent.parent.name
    folder = next((files for files in _agent_folders() if files.folder.split("/")[0] == home), None)
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
    source = "" if folder is None else folder.source
    keys = chain.from_iterable(files.keys for files in ([folder] if folder else _agent_folders()))
    for key in dict.fromkeys(keys):
        value, number = values.get(key, ("", 0))
        yield from _declare(path, ConfigLimit(key, number_of(value), name), source, line=number)


def _limits_in_file(path: Path, configs: Iterable[ConfigFile]) -> Iterator[Declared]:
    """The limits in a file, as each of these harnesses reads it."""
    content = read_file(path, MAX_BYTES).decode("utf-8-sig")
    document = mapping(_PARSERS[_FORMATS.get(path.suffix, path.suffix)](content))
    for config in configs:
        for limit in config.limits(document):
            yield from _declare(path, limit, config.source)
        if config.has_hook and document.get("disableAllHooks") is not True:
            yield from _hooks(path, content, config.source)


def _formats_of(path: Path) -> list[ConfigFile]:
    """How a file that was named is read: as the harness does in whose folder it is, else as all with its format."""
    fits = [config for config in _config_files() if config.suffix == _FORMATS.get(path.suffix, path.suffix)]
    if not fits:
        msg = "no configuration of a harness: expected an agent file (.md), or a .json, .jsonc, .toml or .yaml file"
        raise ValueError(msg)
    homes = [[name.split("/")[0] for name in config.paths if "/" in name] for config in fits]
    at_home = [
        config for config, names in zip(fits, homes, strict=True) if any(_is_named(path.parent, n) for n in names)
    ]
    return at_home or fits


def _hooks(path: Path, content: str, source: str) -> Iterator[Declared]:
    """The limits at which boolab's own hook stops an agent: for each agent, on counts of its own."""
    for options in options_in(content):
        if options.action != "stop":
            continue
        policy = _HOOK.vary(detectors={"identity": exclude_tools(options.identity, options.exempt)})
        for name, value in options.limits.items():
            for limit in _declare(path, ConfigLimit(name, value, ANY_AGENT), source):
                yield replace(limit, policy=policy, scope="run" if options.scope == "run" else "turn")


def _toml(content: str) -> object:
    try:
        return tomllib.loads(content)
    except RecursionError:
        msg = "the TOML is nested too deeply"
        raise ValueError(msg) from None


def _yaml(content: str) -> object:
    from boolab.io.yaml_loader import read_yaml

    return read_yaml(content).data


_PARSERS: Final[Mapping[str, Callable[[str], object]]] = {".json": read_json, ".toml": _toml, ".yaml": _yaml}


def _declare(path: Path, limit: ConfigLimit, source: str, *, line: int = 0) -> Iterator[Declared]:
    """The limit, if its value is a number that is one: 0 and less switch it off."""
    if is_amount(limit.value) and limit.value > 0:
        location = f"{path}:{line}" if line else str(path)
        changed = time_of(path.stat())
        agent = None if limit.agent is None else replace_surrogates(limit.agent)
        yield Declared(limit.name, limit.value, location, agent, source, changed, limit.tokens)
