"""The command `boolab`: it lists the subcommands, and dispatches to the module of the one that is typed.

Exit codes: 0 for success, 1 for an error that boolab explains, 2 for a command line that it does not
understand, 3 for a run that something stopped before it was done or that went beyond a limit, 130 for an interrupt from
the keyboard.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Final, TypeAlias

from boolab.cli.help import HelpFormatter, Parser, add_command, fill_paragraphs, pages_of, refusal
from boolab.core.commands import insert_program
from boolab.core.text import replace_controls
from boolab.display.text import with_short_words, wrap_if_long
from boolab.errors import BoolabError, RunFormatError, program
from boolab.harnesses.registry import HARNESSES, TARGETS
from boolab.limits.table import LIMITS
from boolab.live.hooks.entry import is_hook
from boolab.live.hooks.entry import main as answer

COMMANDS: Final = {
    "doctor": ("doctor", "find the agent logs on this machine, and show which of them boolab reads"),
    "import": (
        "import_logs",
        "read logs of any formats into one file, and report what was read, what was skipped and why",
    ),
    "whatif": (
        "whatif",
        "show what step caps, tool budgets and doom-loop thresholds would have kept and saved in recorded runs",
    ),
    "cost": ("cost", "show what recorded runs cost, by what caused it: tools, text that is sent again, cache misses"),
    "audit": ("audit", "compare the limits that were declared with what the runs did, in each harness's own unit"),
    "label": ("label", "ask which of a few runs were successes, and keep the answers beside the logs"),
    "report": ("report", "write the same answers, with figures and the runs behind each number, as one HTML page"),
    "export": ("export", "print limits as the settings of a harness such as claude-code, or write them"),
    "hook": ("hook", "hold limits in Claude Code by its hooks: install, remove, and what they did"),
    "run": ("run", "run an agent on a task, with a model behind an API or a script, and keep the record"),
    "store": ("store", "list what is in a store of runs, show a run or a sweep, export runs, remove runs"),
    "watch": ("watch", "follow running agents as their logs grow, and raise an alert where a limit would stop one"),
    "bench": ("bench", "judge stop rules on recorded runs that they were not chosen on, and write a submission"),
    "demo": ("demo", "show the answer on recorded public runs, with two figures; needs no logs, network or key"),
    "model": ("model", "fetch the small language model that bl.LocalModel uses, and check it"),
    "lab": ("lab", "open JupyterLab on the notebooks"),
}
"""Each command: its module in `boolab.cli`, which has a `COMMAND`, and its summary."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command."""
    words = sys.argv[1:] if argv is None else list(argv)
    if is_hook(words):
        return answer(words[2:])
    if "_ARGCOMPLETE" in os.environ:
        complete(os.environ.get("COMP_LINE", ""))
    _prepare_streams()
    try:
        return _run_command(words)
    except OSError as error:  # help, the version and the line of the next step are printed too
        return _report_failure(error)


def _run_command(words: Sequence[str]) -> int:
    parser = parser_of(*words[:1])  # importing the modules of all commands would take longer than most of them do
    args, unknown = parser.parse_known_args(words)
    if unknown:
        args.parser.error(refusal(args.parser, unknown))
    if args.run is None:
        parser.print_help(sys.stderr)
        return 2
    code = exit_code(args.run, args)
    show_next(words[0], args, code)
    return code


def complete(line: str) -> None:
    """Print what can follow the words of a command line, if a shell in which Tab was pressed asks, and end."""
    import argcomplete

    from boolab.cli.help import add_completers

    parser = parser_of(*line.split()[1:2])
    add_completers(parser)
    argcomplete.autocomplete(parser, always_complete_options="long")


def help_pages() -> dict[str, str]:
    """The help of the command and of each subcommand, by what is typed before `--help`, the command's own first."""
    return dict(pages_of(parser_of(*COMMANDS)))


def parser_of(*names: str) -> argparse.ArgumentParser:
    """The parser of the command; of the subcommands that are not named, it has only the summary."""
    parser = Parser(
        prog="boolab",
        usage="%(prog)s [options] COMMAND ...",
        formatter_class=HelpFormatter,
        description=fill_paragraphs("Step caps, tool budgets and doom-loop thresholds for LLM agents, compared."),
        epilog=fill_paragraphs(
            """
            Each command has its own help, with examples: 'boolab COMMAND --help'. In bash and zsh the Tab key completes
            commands and options after

              eval "$(register-python-argcomplete boolab)"

            examples:
              boolab doctor                    begin here: it finds your agents' logs
              boolab whatif ~/.claude/projects
              boolab demo

            exit codes:
              0    success
              1    an error, on stderr; or nothing was done
              2    wrong usage: an option or a value that is not known
              3    a limit stopped the run, or it waits for an answer (boolab run);
                   a run went beyond a limit that was set (boolab audit)
              130  interrupted by Ctrl-C
              129  its terminal was closed (boolab run)
              143  it was killed (boolab run)
            """
        ),
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version, and exit")
    parser.set_defaults(run=None, parser=parser)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", prog=parser.prog)
    for name, (module, summary) in COMMANDS.items():
        if name in names:
            add_command(commands, name, summary, import_module(f"boolab.cli.{module}").COMMAND)
        else:
            commands.add_parser(name, help=summary)
    return parser


class _Version(argparse.Action):
    """Prints the version. Looking it up imports the parser of mails, which takes a third of the start."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"boolab {version('boolab')}")
        parser.exit()


def exit_code(command: Callable[[argparse.Namespace], int], args: argparse.Namespace) -> int:
    """Run a subcommand, and return its exit code; a `BoolabError` is one line on stderr."""
    try:
        code = command(args)
        sys.stdout.flush()
    except BoolabError as error:
        message = insert_program(replace_controls(with_short_words(" ".join(str(error).split()))))
        print(wrap_if_long(f"boolab: {message}"), file=sys.stderr)
        return 1
    except OSError as error:  # a full disk, a name that is too long: what no command expects
        return _report_failure(error)
    except KeyboardInterrupt:
        print("boolab: interrupted", file=sys.stderr)
        return 130
    return code


def _report_failure(error: OSError) -> int:
    """Say why the system refused something, and return the exit code. A closed pipe needs no words."""
    try:
        sys.stdout.flush()
    except OSError:  # Python would report that once more at its end, and end with 120
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if not isinstance(error, BrokenPipeError):
        file_name = f"{error.filename}: " if isinstance(error.filename, str) else ""
        message = replace_controls(with_short_words(f"{file_name}{error.strerror or error}"))
        with suppress(OSError):  # stderr may be what is full
            print(wrap_if_long(f"boolab: {message}"), file=sys.stderr)
    return 1


def _prepare_streams() -> None:
    """Replace characters that a stream cannot encode, and discard what goes to a closed one, as some daemons have."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open until the end
        elif hasattr(stream, "reconfigure"):
            # Texts of models and logs may have any character; what goes to both streams stays in order, in a pipe too.
            stream.reconfigure(errors="replace", line_buffering=True)


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
    succeeded = code in SUCCESS_CODES.get(name, (0,))
    if not succeeded or getattr(args, "json", False) or getattr(args, "quiet", False) or name not in _NEXT_STEPS:
        return []
    return _NEXT_STEPS[name](args)


def usual_folders(formats: Collection[str] = ()) -> list[str]:
    """The folders in which harnesses keep their logs here, those of these formats alone if there are any.

    A folder inside another one is left out: what is in it would be read twice.
    """
    from boolab.live.follow.places import usual_places

    try:
        roots = dict.fromkeys(log_path.root for log_path in usual_places(formats=formats))
    except RunFormatError:
        return []
    return [root for root in roots if not any(Path(other) in Path(root).parents for other in roots)]


def _logs_step(command: str) -> Step:
    def step(args: argparse.Namespace) -> list[str]:
        options = ["--format", args.format] if args.format else []
        options += ["--since", args.since[0]] if args.since else []
        return [command, *args.logs, *options]

    return step


def _export(args: argparse.Namespace) -> list[str]:
    if args.logs:
        return _logs_step("audit")(args)
    sources = HARNESSES[TARGETS[args.target]].sources
    folders = usual_folders(sources if args.write is not None else ())
    if not folders:
        return ["doctor"]
    if args.write is not None:
        return ["audit", *folders]
    from boolab.harnesses.exports.export import limit_words, option_words

    if args.token_weights is not None:  # `watch` has no weights
        return ["doctor"]
    limits = {name: values[0] for name in LIMITS if (values := getattr(args, name)) and values[0] is not None}
    words = limit_words(limits)
    words += ["--scope", args.scope] if args.scope != "auto" else []
    words += ["--identity", args.identity] if args.identity else []
    return ["watch", *words, *chain.from_iterable(option_words("--exempt", tool) for tool in args.exempt)]


def _hook(args: argparse.Namespace) -> list[str]:
    return ["hook", "claude-code", "--log"] if args.install else ["doctor"]


def _watch(args: argparse.Namespace) -> list[str]:
    return ["whatif", *args.paths] if args.paths else ["doctor"]


def _run(args: argparse.Namespace) -> list[str]:
    record = getattr(args, "kept", None)
    return ["whatif", str(record)] if record else []


def _store(args: argparse.Namespace) -> list[str]:
    return ["whatif", args.target if args.action == "export" else args.file]


def _bench(args: argparse.Namespace) -> list[str]:
    if args.out is None:
        is_single = len(args.entries) == 1 and args.entries != ["baselines"]
        return ["bench", *args.parser.words_without(), "-o", "submission.json" if is_single else "submissions"]
    return ["bench", "baselines", "--data", *args.data]


_NEXT_STEPS: Final[Mapping[str, Step]] = {
    "import": lambda args: ["whatif", args.out],
    "whatif": lambda args: ["report", *args.parser.words_without(*NOT_NEXT, "out"), "-o", "report.html"],
    "report": _logs_step("audit"),
    "export": _export,
    "audit": _logs_step("whatif"),
    "hook": _hook,
    "watch": _watch,
    "run": _run,
    "store": _store,
    "bench": _bench,
    "demo": lambda _: ["doctor"],
}
SUCCESS_CODES: Final[Mapping[str, tuple[int, ...]]] = {"audit": (0, 3), "run": (0, 3), "watch": (0, 130)}
"""The exit codes after which a command did what it was asked for; 0 alone for the others."""
