"""The one command that is the most useful next step after each command, in a line at its end on stderr.

It is a command that can be run as it is printed. With --json there is none, and after an error only where another
command explains it.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeAlias

from boolab.errors import RunFormatError, program
from boolab.harnesses.registry import HARNESSES, TARGETS
from boolab.limits.table import LIMITS

Step: TypeAlias = Callable[[argparse.Namespace], list[str]]
NOT_NEXT: Final = ("full", "json", "write", "warnings")
"""Options of a command that its next step does not take."""


def show_next(name: str, args: argparse.Namespace, code: int) -> None:
    """Print the next step after a command."""
    words = next_step(name, args, code)
    if words:
        sys.stdout.flush()
        print(f"Next: {program()} {shlex.join(words)}", file=sys.stderr)


def next_step(name: str, args: argparse.Namespace, code: int) -> list[str]:
    """What to type after `boolab`; empty if there is no next step."""
    if getattr(args, "unanswered", False):  # no limit is recommended: whatif shows what is missing
        return ["whatif", *args.parser.words_without(*NOT_NEXT, "target", "agent")]
    done = code in DONE.get(name, (0,))
    if not done or getattr(args, "json", False) or getattr(args, "quiet", False) or name not in _NEXT:
        return []
    return _NEXT[name](args)


def usual_folders(formats: Collection[str] = ()) -> list[str]:
    """The folders in which harnesses keep their logs here, those of these formats alone if there are any."""
    from boolab.live.follow.places import usual_places

    try:
        return list(dict.fromkeys(place.root for place in usual_places(formats=formats)))
    except RunFormatError:
        return []


def _import(args: argparse.Namespace) -> list[str]:
    return ["whatif", args.out]


def _whatif(args: argparse.Namespace) -> list[str]:
    return ["report", *args.parser.words_without(*NOT_NEXT, "out"), "-o", "report.html"]


def _on_logs(command: str) -> Step:
    def step(args: argparse.Namespace) -> list[str]:
        more = ["--format", args.format] if args.format else []
        more += ["--since", args.since[0]] if args.since else []
        return [command, *args.logs, *more]

    return step


def _export(args: argparse.Namespace) -> list[str]:
    if args.logs:
        return _on_logs("audit")(args)
    sources = HARNESSES[TARGETS[args.target]].sources
    folders = usual_folders(sources if args.write is not None else ())
    if not folders:
        return ["doctor"]
    if args.write is not None:
        return ["audit", *folders]
    limits = ((name, getattr(args, name)) for name in LIMITS)
    shown = [(name, values[0]) for name, values in limits if values and values[0] is not None]
    words = [word for name, value in shown for word in (LIMITS[name].option, f"{value}")]
    words += ["--scope", args.scope] if args.scope != "auto" else []
    words += ["--identity", args.identity] if args.identity else []
    return ["watch", *words, *(word for tool in args.exempt for word in ("--exempt", tool))]


def _hook(args: argparse.Namespace) -> list[str]:
    return ["hook", "claude-code", "--log"] if args.install else ["doctor"]


def _watch(args: argparse.Namespace) -> list[str]:
    return ["whatif", *args.paths] if args.paths else ["doctor"]


def _run(args: argparse.Namespace) -> list[str]:
    kept = getattr(args, "kept", None)
    return ["whatif", str(kept)] if kept else []


def _store(args: argparse.Namespace) -> list[str]:
    return ["whatif", args.target if args.action == "export" else args.file]


def _bench(args: argparse.Namespace) -> list[str]:
    if args.out is None:
        alone = len(args.entries) == 1 and args.entries != ["baselines"]
        return ["bench", *args.parser.words_without(), "-o", "submission.json" if alone else "submissions"]
    return ["bench", "baselines", "--data", *args.data]


_NEXT: Final[Mapping[str, Step]] = {
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
    "demo": lambda _: ["doctor"],
}
DONE: Final[Mapping[str, tuple[int, ...]]] = {"audit": (0, 3), "run": (0, 3), "watch": (0, 130)}
"""The exit codes after which a command did what it was asked for; 0 alone for the others."""
