"""What the Tab key completes besides commands, options and files: sets of the atlas, formats, policies and agents."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from boolab.cli.help import subcommands

Completer: TypeAlias = Callable[..., Iterable[str]]


def add_completers(parser: argparse.ArgumentParser) -> None:
    """Add to the arguments of all subcommands what can stand there."""
    for command in subcommands(parser):
        for action in command._actions:  # noqa: SLF001 - argparse has no public way to list them
            found = _BY_NAME.get((command.prog.rpartition(" ")[2], action.dest)) or _BY_NAME.get(("", action.dest))
            if found is not None:
                action.completer = found  # type: ignore[attr-defined]  # argcomplete looks for it there


def _logs(prefix: str, **_: Any) -> list[str]:  # noqa: ANN401 - what argcomplete passes
    """Files, and the sets of the atlas."""
    from argcomplete.completers import FilesCompleter

    from boolab.logs.shipped import ATLAS, atlas_sets

    sets = [name for name in (ATLAS, *atlas_sets()) if name.startswith(prefix)]
    return [*FilesCompleter()(prefix), *sets]


def _formats(**_: Any) -> Iterable[str]:  # noqa: ANN401
    from boolab.logs.log_files import readers

    return readers()


def _policies(**_: Any) -> Iterable[str]:  # noqa: ANN401
    from boolab.harnesses.presets import policies

    return sorted(policies)


def _agents(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:  # noqa: ANN401
    """The agents that `run` finds, or files that hold one."""
    from argcomplete.completers import FilesCompleter

    from boolab.cli.run_agent import known_agents

    return [*FilesCompleter()(prefix), *sorted(known_agents(getattr(parsed_args, "agents", None)))]


_BY_NAME: Final[dict[tuple[str, str], Completer]] = {
    ("", "logs"): _logs,
    ("bench", "data"): _logs,
    ("", "format"): _formats,
    ("", "policy"): _policies,
    ("run", "agent"): _agents,
}
"""By command, or "" for all that have it, and the name of the argument."""
