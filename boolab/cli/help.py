"""The parsers of commands, the layout of their help, and what the Tab key completes.

Help is 78 columns wide, whatever the terminal, with no word broken.

A fixed width lets the documentation show exactly the text of a terminal, and examples be aligned by hand.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TypeAlias

from boolab.display.text import capitalize, with_short_words
from boolab.errors import nearest

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

WIDTH: Final = 78
"""Columns: those of the narrowest usual terminal, less the two that argparse leaves free."""


Options: TypeAlias = "argparse._ActionsContainer"  # noqa: SLF001 - it has no public name
"""A parser, or a group of options."""
Commands: TypeAlias = "argparse._SubParsersAction[Any]"  # noqa: SLF001 - it has no public name
"""What `add_subparsers` returns."""


class Command(NamedTuple):
    """A subcommand."""

    # what it does; it returns the exit code. None for one that only has subcommands
    run: Callable[[argparse.Namespace], int] | None
    add: Callable[[argparse.ArgumentParser], None]  # adds its arguments to its parser
    text: str  # what it does, in sentences that follow its summary
    epilog: str  # what its help ends with: tables, examples
    arguments: str = ""  # its positional arguments, as its usage shows them
    # what its exit codes mean, where that is not what they mean for every command: see `CODES`
    codes: Mapping[int, str] = {}


CODES: Final[Mapping[int, str]] = {
    0: "success",
    1: "an error, on stderr",
    2: "wrong usage: an option or a value that is not known",
    130: "interrupted by Ctrl-C",
}
"""What the exit codes of a command mean, unless it has others."""


def add_command(commands: Commands, name: str, summary: str, command: Command) -> None:
    """Add a subcommand; its summary is its line in the list of commands, and opens its own help too."""
    parser = commands.add_parser(
        name,
        help=summary,
        usage=f"%(prog)s [options] {command.arguments}".rstrip(),
        description=fill_paragraphs(f"{capitalize(summary)}. {command.text}"),
        epilog=f"{fill_paragraphs(command.epilog)}\n\n{_exit_codes(command)}",
        formatter_class=HelpFormatter,
    )
    parser.set_defaults(run=command.run, parser=parser)
    command.add(parser)


def _exit_codes(command: Command) -> str:
    codes = dict(sorted({**CODES, **command.codes}.items()))
    return "\n".join(["exit codes:", *(f"  {code:<3}  {meaning}" for code, meaning in codes.items())])


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Leaves descriptions and epilogs as they are, and never breaks an option or a value at its hyphen."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=WIDTH)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False)


_MISSING: Final = "the following arguments are required: "


class Parser(argparse.ArgumentParser):
    """A parser that names the command, the option or its value that was most likely meant; none may be abbreviated."""

    def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - as argparse declares them
        super().__init__(*args, **{"allow_abbrev": False, **options})
        self._typed: list[tuple[argparse.Action, list[str]]] = []
        self._reads_apart = False

    def words_without(self, *names: str) -> list[str]:
        """The arguments as they were typed, without those of these names: for a command that is suggested next."""
        words = []
        for action, values in self._typed:
            option = action.option_strings[-1:] if action.dest not in names else None
            if option and len(values) == 1 and values[0].startswith("-"):
                words.append(f"{option[0]}={values[0]}")
            elif option is not None:
                words += [*option, *values]
        return words

    def parse_known_args(  # type: ignore[override] # as argparse calls it
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Read the arguments; positional ones may stand before, between and after options.

        argparse gives all that may be left out its value at the first positional argument, and refuses those that
        follow an option.
        """
        parsed, unknown = super().parse_known_args(args, namespace)
        if self._reads_apart or not unknown or any(word.startswith("-") for word in unknown) or subcommands(self):
            return parsed, unknown
        self._reads_apart = True
        self._typed.clear()
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._reads_apart = False

    def error(self, message: str) -> NoReturn:
        """End the process with a message about the arguments, which may be long. No optional one is missing."""
        if message.startswith(_MISSING):
            may_be_left_out = {str(action.metavar) for action in self._actions if action.nargs == "*"}
            names = message.removeprefix(_MISSING).split(", ")
            message = _MISSING + ", ".join(name for name in names if name not in may_be_left_out)
        super().error(with_short_words(message))

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        """Print help, with the error that argparse ignores: of a full disk, or of a closed pipe."""
        if file is sys.stdout:
            file.write(message)
        else:
            super()._print_message(message, file)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:  # noqa: ANN401 - as argparse declares it
        """Read the values of an argument, and keep them as they were typed."""
        self._typed.append((action, list(arg_strings)))
        return super()._get_values(action, arg_strings)

    def _check_value(self, action: argparse.Action, value: Any) -> None:  # noqa: ANN401 - as argparse declares it
        choices = [str(choice) for choice in action.choices or ()]
        if choices and value not in choices:
            raise argparse.ArgumentError(action, f"{value!r} is not known{suggest_word(value, choices)}")


def suggest_word(word: str, choices: Iterable[str]) -> str:
    """The end of a message about an unknown word: the nearest word, or all known words."""
    words = list(choices)
    near = nearest(word, words)
    return f"; did you mean {near}?" if near else f" (choose from {', '.join(words)})"


def fill_paragraphs(text: str) -> str:
    """A text without its common indentation, whose paragraphs fill the width; one with an indented line stays."""
    paragraphs = textwrap.dedent(text).strip().split("\n\n")
    return "\n\n".join(
        paragraph
        if "\n " in paragraph
        else textwrap.fill(" ".join(paragraph.split()), WIDTH, break_on_hyphens=False, break_long_words=False)
        for paragraph in paragraphs
    )


def pages_of(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    """The help of a parser and of all its subcommands: what is typed before `--help`, and the text."""
    yield parser.prog, parser.format_help()
    for command in subcommands(parser):
        yield from pages_of(command)


def subcommands(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """The parsers of a parser's own subcommands, in the order of the help."""
    actions = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))  # noqa: SLF001 - no public way to list them
    return [*chain.from_iterable(action.choices.values() for action in actions)]


def refusal(parser: argparse.ArgumentParser, unknown: Sequence[str]) -> str:
    """Why an argument that is left over is not accepted: the nearest option, or the command that lists all of them."""
    options = [*chain.from_iterable(action.option_strings for action in parser._actions)]  # noqa: SLF001 - no public way
    near = nearest(unknown[0].partition("=")[0], options)
    name, _, value = " ".join(unknown[:2]).replace("=", " ").lstrip("-").partition(" ")
    # A limit may have been typed as an option of its own: --max-steps 9.
    if not near and "--limit" in options and re.fullmatch(r"[\d.]+", value):
        near = f"--limit {name.replace('-', '_')}={value}"
    hint = f"did you mean {near}?" if near else f"'{parser.prog} --help' lists the options"
    return f"{unknown[0]} is not known; {hint}"


Completer: TypeAlias = Callable[..., Iterable[str]]


def add_completers(parser: argparse.ArgumentParser) -> None:
    """Add to the arguments of all subcommands what can stand there."""
    for command in subcommands(parser):
        for action in command._actions:  # noqa: SLF001 - argparse has no public way to list them
            completer = _BY_NAME.get((command.prog.rpartition(" ")[2], action.dest)) or _BY_NAME.get(("", action.dest))
            if completer is not None:
                action.completer = completer  # type: ignore[attr-defined]  # argcomplete looks for it there


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
