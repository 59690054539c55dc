"""How the help of the command looks: 78 columns wide, whatever the terminal, with no word broken.

A fixed width lets the documentation show the very text that a terminal does, and examples be laid out by hand.
"""

from __future__ import annotations

import argparse
import difflib
import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

WIDTH: Final = 78
"""Columns: those of the narrowest usual terminal, less the two that argparse leaves free."""


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Leaves descriptions and epilogs as they are, and never parts an option or a value at its hyphen."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=WIDTH)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False)


def filled(text: str) -> str:
    r"""A text whose paragraphs fill the width.

    Args:
        text: Paragraphs with blank lines between them. One with an indented line, such as a list of examples, stays as
            it is.

    Returns:
        The text without the indentation that all of its lines share.

    Example:
        >>> print(filled("One\ntwo.\n\nexamples:\n  boolab demo"))
        One two.
        <BLANKLINE>
        examples:
          boolab demo
    """
    paragraphs = textwrap.dedent(text).strip().split("\n\n")
    return "\n\n".join(
        paragraph
        if "\n " in paragraph
        else textwrap.fill(" ".join(paragraph.split()), WIDTH, break_on_hyphens=False, break_long_words=False)
        for paragraph in paragraphs
    )


def pages_of(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    r"""The help of a parser and of all its subcommands.

    Args:
        parser: The parser.

    Yields:
        What is typed before `--help`, and the text.

    Example:
        >>> dict(pages_of(argparse.ArgumentParser(prog="nothing", add_help=False)))
        {'nothing': 'usage: nothing\n'}
    """
    yield parser.prog, parser.format_help()
    for command in subcommands(parser):
        yield from pages_of(command)


def subcommands(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """The parsers of a parser's own subcommands.

    Args:
        parser: The parser.

    Returns:
        The parsers, in the order of the help; none for a command without subcommands.

    Example:
        >>> subcommands(argparse.ArgumentParser())
        []
    """
    # argparse has no public way to ask for them.
    found = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))  # noqa: SLF001
    return [command for action in found for command in action.choices.values()]


def refusal(parser: argparse.ArgumentParser, unknown: Sequence[str]) -> str:
    """Why arguments that are left over are not accepted, and what would be.

    Args:
        parser: The parser of the subcommand.
        unknown: The arguments.

    Returns:
        A sentence that names the option that is nearest, or else says where all of them are told.

    Example:
        >>> parser = argparse.ArgumentParser(prog="boolab demo")
        >>> _ = parser.add_argument("--quick")
        >>> refusal(parser, ["--quik", "1"]), refusal(parser, ["more"])
        ('--quik is not known; did you mean --quick?', "more is not known; 'boolab demo --help' tells what is")
    """
    options = [option for action in parser._actions for option in action.option_strings]  # noqa: SLF001 - no public way
    near = difflib.get_close_matches(unknown[0].partition("=")[0], options, n=1)
    hint = f"did you mean {near[0]}?" if near else f"'{parser.prog} --help' tells what is"
    return f"{unknown[0]} is not known; {hint}"
