"""The one command that is the most useful next step after each command, in a line at its end on stderr.

It is a command that can be run as it is printed. With --json there is none, and after an error only where another
command explains it.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from boolab.cli.program import program
from boolab.errors import RunFormatError
from boolab.limits.table import LIMITS

Words = Sequence[str]
NO_VALUE: Final = ("--full", "--json", "--write")
"""Options of a command that its next step does not take."""


def show_next(name: str, args: argparse.Namespace, given: Words, code: int) -> None:
    """Print the next step after a command."""
    words = next_step(name, args, given, code)
    if words:
        sys.stdout.flush()
        print(f"Next: {program()} {shlex.join(words)}", file=sys.stderr)


def next_step(name: str, args: argparse.Namespace, given: Words, code: int) -> list[str]:
    """What to type after `boolab`; empty if there is no next step."""
    if getattr(args, "unanswered", False):  # no limit is recommended: whatif shows what is missing
        return ["whatif", *_question(args, given)]
    done = code in DONE.get(name, (0,))
    if not done or getattr(args, "json", False) or getattr(args, "quiet", False) or name not in _NEXT:
        return []
    return _NEXT[name](args, given)


def _without(given: Words, *options: str) -> list[str]:
    """The words after the command, without these options and the value of each."""
    rest = list(given[1:])
    kept: list[str] = []
    while rest:
        word = rest.pop(0)
        option = word.partition("=")[0]
        if option in options or (len(word) > 2 and word[:2] in options and not word.startswith("--")):  # noqa: PLR2004 - -oFILE
            if word == option and rest:
                rest.pop(0)
        elif word not in NO_VALUE:
            kept.append(word)
    return kept


def _question(args: argparse.Namespace, given: Words) -> list[str]:
    """The logs and the question of an export, without what only an export has."""
    words = list(given)
    words.remove(args.target)
    if args.write:  # the path that follows --write
        words.remove(args.write) if args.write in words else words.remove(f"--write={args.write}")
    return _without(words, "--agent")


def usual_folders() -> list[str]:
    """The folders in which harnesses keep their logs here: those that `boolab watch` follows where none is named."""
    from boolab.live.follow.places import usual_places

    try:
        return list(dict.fromkeys(place.root for place in usual_places()))
    except RunFormatError:
        return []


def _import(args: argparse.Namespace, _: Words) -> list[str]:
    return ["whatif", args.out]


def _whatif(_: argparse.Namespace, given: Words) -> list[str]:
    return ["report", *_without(given, "-o", "--out"), "-o", "report.html"]


def _on_logs(command: str) -> Callable[[argparse.Namespace, Words], list[str]]:
    def step(args: argparse.Namespace, _: Words) -> list[str]:
        more = ["--format", args.format] if args.format else []
        more += ["--since", args.since[0]] if args.since else []
        return [command, *args.logs, *more]

    return step


def _export(args: argparse.Namespace, given: Words) -> list[str]:
    if args.logs:
        return _on_logs("audit")(args, given)
    folders = usual_folders()
    if not folders:
        return ["doctor"]
    if args.write is not None:
        return ["audit", *folders]
    limits = ((name, getattr(args, name)) for name in LIMITS)
    shown = [(name, values[0]) for name, values in limits if values and values[0] is not None]
    words = [word for name, value in shown for word in (f"--{name.replace('_', '-')}", f"{value}")]
    words += ["--scope", args.scope] if args.scope != "auto" else []
    words += ["--identity", args.identity] if args.identity else []
    return ["watch", *words, *(word for tool in args.exempt for word in ("--exempt", tool))]


def _hook(args: argparse.Namespace, _: Words) -> list[str]:
    return ["hook", "claude-code", "--log"] if args.install else ["doctor"]


def _watch(args: argparse.Namespace, _: Words) -> list[str]:
    return ["whatif", *args.paths] if args.paths else ["doctor"]


def _run(args: argparse.Namespace, _: Words) -> list[str]:
    kept = getattr(args, "kept", None)
    return ["whatif", str(kept)] if kept else []


def _store(args: argparse.Namespace, _: Words) -> list[str]:
    return ["whatif", args.target if args.action == "export" else args.file]


def _bench(args: argparse.Namespace, given: Words) -> list[str]:
    if args.out is None:
        alone = len(args.entries) == 1 and args.entries != ["baselines"]
        return [*given, "-o", "submission.json" if alone else "submissions"]
    return ["bench", "baselines", "--data", *args.data]


_NEXT: Final[Mapping[str, Callable[[argparse.Namespace, Words], list[str]]]] = {
    "import": _import,
    "whatif": _whatif,
    "report": _on_logs("audit"),
    "export": _export,
    "audit": _on_logs("whatif"),
    "hook": _hook,
    "watch": _watch,
    "run": _run,
    "store": _store,
    "bench": _bench,
    "demo": lambda _, __: ["doctor"],
}
DONE: Final[Mapping[str, tuple[int, ...]]] = {"audit": (0, 3), "run": (0, 3), "watch": (0, 130)}
"""The exit codes after which a command did what it was asked for; 0 alone for the others."""
