"""The command `boolab label`: a person answers which units of recorded runs were successes, few and well chosen."""

from __future__ import annotations

import argparse
import os
import pydoc
import select
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TextIO

from boolab.cli.arguments import (
    LOGS,
    add_scope,
    add_since,
    add_success_threshold,
    add_trust,
    option_of,
    page_to_write,
    share,
    since_time,
    values_of,
)
from boolab.cli.help import Command
from boolab.cli.label_evidence import add_evidence_arguments, check_evidence, find_evidence, write_evidence
from boolab.cli.terminal import ERASE_BELOW, clip_columns
from boolab.core.commands import insert_program
from boolab.core.text import count, flatten, replace_controls
from boolab.display.text import wrap_text
from boolab.errors import SettingError
from boolab.io.files import user_name
from boolab.limits.table import AGENT_LIMITS, LIMITS

if TYPE_CHECKING:
    from boolab.core.run import Run
    from boolab.stats.recommend.desk_dialog import Dialog
    from boolab.stats.recommend.desk_session import Desk

EPILOG: Final = """
    keys:
      s success   f failure   u unsure   z take back the last answer   n note
      o open the whole record   e evidence of the last one   w why   q quit

    examples:
      boolab label ~/.claude/projects
      boolab label ~/.claude/projects --max-steps 60,45,30
      boolab label ~/.claude/projects --evidence git,tests
      boolab label ~/.claude/projects --evidence git,tests --no-questions
      boolab label ~/.claude/projects --status
      boolab label ~/.claude/projects --export labels.csv

    All units that a value would stop are asked about, and a drawn share of the others: a cap can lose only what it
    stops. Values, share and order are fixed before the first question. Each answer is on the disk before the next unit
    is shown, so one may stop at any time. Evidence, also that of a judge, changes neither what is asked nor any count.
    """
_WIDTH: Final = 80
_HEIGHT: Final = 24
_LABEL: Final = 10
"""The columns of the names of what is shown."""
_MESSAGE: Final = 6
"""The most lines of a message."""
_ROWS: Final = {"task": 4, "answer": 6, "files": 2, "tests": 3, "note": 1}
_CTRL_C: Final = "\x03"
_CTRL_D: Final = "\x04"
_ESCAPE: Final = b"\x1b"
_SEQUENCE_S: Final = 0.05
"""How long the rest of a key with a sequence of its own, such as an arrow, may take."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("logs", metavar="LOGS", nargs="+", help=LOGS)
    group = parser.add_argument_group("which logs")
    add_since(group)
    add_success_threshold(group)
    group.add_argument(
        "--labels",
        metavar="FILE",
        help="the file of labels (default: boolab-labels.jsonl in the folder of LOGS); it is made if there is none",
    )
    question = parser.add_argument_group("what is question; fixed once there is an answer")
    for name in AGENT_LIMITS:
        axis = LIMITS[name]
        question.add_argument(
            option_of(name),
            metavar="VALUES",
            type=_values_from(axis.min_useful),
            help=f"{axis.label}s, from loose to tight, such as 60,45,30 (default: those of the file, or step caps from "
            "the lengths of the runs)",
        )
    for name, meaning in (("keep", "the share of successes to keep"), ("confidence", "the confidence that it is kept")):
        question.add_argument(f"--{name}", metavar="SHARE", type=share, help=f"{meaning} (default: 0.95)")
    question.add_argument(
        "--pi",
        metavar="SHARE",
        type=_share_or_all,
        help="the share of short units to ask about (default: by their number)",
    )
    question.add_argument(
        "--criterion",
        metavar="TEXT",
        default="",
        help="what a success is; it stays in the file (default: it is asked for)",
    )
    add_scope(question)
    answers = parser.add_argument_group("whose answers")
    answers.add_argument(
        "--who", metavar="NAME", default=user_name(), help="who answers (default: the name of the user)"
    )
    add_trust(answers)
    add_evidence_arguments(parser)
    actions = parser.add_argument_group("in place of questions").add_mutually_exclusive_group()
    actions.add_argument(
        "--no-questions", action="store_true", help="write the evidence of all units, and print a table by source"
    )
    actions.add_argument("--status", action="store_true", help="print what the answers show, and what is open")
    actions.add_argument("--disagreements", action="store_true", help="print the units about which people disagree")
    actions.add_argument("--export", metavar="FILE", help="write the labels to a .csv file (default: none)")
    actions.add_argument("--merge", metavar="FILE", help="add the lines of another file of labels (default: none)")


def run(args: argparse.Namespace) -> int:
    """Ask, or print, write or merge labels."""
    from boolab.stats.recommend.desk_evidence import evidence_lines
    from boolab.stats.recommend.desk_session import Desk
    from boolab.stats.recommend.desk_status import open_in_words

    check_evidence(args)
    path = _file_of(args)
    if args.merge:
        return _merge(path, Path(args.merge))
    values = {
        name: sorted(of_axis, reverse=True) for name in AGENT_LIMITS if (of_axis := getattr(args, name)) is not None
    }
    desk = Desk(
        _runs_of(args),
        path,
        values or None,
        keep=args.keep,
        confidence=args.confidence,
        pi=args.pi,
        who=args.who,
        trust=args.trust,
        scope=args.scope,
    )
    if args.no_questions:
        return write_evidence(desk, args)
    if args.status:
        find_evidence(desk, args)
        _print_status(desk)
        return 0
    if args.disagreements:
        print("\n".join(disagreement_lines(desk)))
        return 0
    if args.export:
        return export_labels(desk, args.export)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise SettingError(f"there is no terminal for the questions: {open_in_words(desk)}. See --status")
    for line in _opening(desk, args.criterion):
        print(wrap_text(line))
    find_evidence(desk, args)
    for line in evidence_lines(desk):
        print(wrap_text(line))
    with Keyboard() as keyboard:
        try:
            DeskPage(desk, sys.stdout, keyboard.read_key, keyboard.read_line, keyboard.show).ask()
        finally:
            print()
    _print_status(desk)
    return 0


class DeskPage:
    """The desk on a terminal of 80 columns and 24 lines; each key is one call of `read_key`.

    Args:
        desk: The desk, which has started.
        stream: The terminal.
        read_key: Returns the next key.
        read_line: Returns a line, for a note.
        show: Shows a long text.
    """

    def __init__(
        self,
        desk: Desk,
        stream: TextIO,
        read_key: Callable[[], str],
        read_line: Callable[[str], str],
        show: Callable[[str], object],
    ) -> None:
        from boolab.stats.recommend.desk_dialog import Dialog

        self._dialog, self._stream = Dialog(desk), stream
        self._read_key, self._read_line, self._show = read_key, read_line, show
        self._is_drawn = False

    def ask(self) -> None:
        """Ask until nothing is open, or the person quits."""
        while (question := self._dialog.question) is not None:
            self._draw()
            key = self._read_key().lower()
            if key == _CTRL_C:
                raise KeyboardInterrupt
            if key in ("q", _CTRL_D, ""):
                return
            if key == "n":
                self._dialog.note = self._read_line("note: ").strip()
                self._is_drawn = False
            elif key == "o":
                self._show(replace_controls(str(question.run)))
                self._is_drawn = False
            self._dialog.press(key)

    def _draw(self) -> None:
        lines = page_lines(self._dialog)
        erase = f"\x1b[{len(lines) - 1}A\r{ERASE_BELOW}" if self._is_drawn else "\n"
        self._stream.write(erase + "\n".join(lines))
        self._stream.flush()
        self._is_drawn = True


def page_lines(dialog: Dialog) -> list[str]:
    """A unit as the lines of a page: they are always as many, and none is wider than the terminal."""
    criterion, card = dialog.criterion, dialog.card
    top = [dialog.title, dialog.progress, *([f"A success is: {criterion}"] if criterion else []), ""]
    texts = {"note": dialog.note}
    if card is not None:
        shown = {"task": card.prompt, "answer": card.message, "files": ", ".join(card.files), "tests": card.test_output}
        texts = shown | texts
    body: list[str] = []
    for name, text in texts.items():
        if text.strip():
            body += _block(name, text, _ROWS[name], tail=name == "tests")
    foot = [""]
    for message in dialog.messages:
        foot += textwrap.wrap(message, _WIDTH - 1)[:_MESSAGE]
    foot += textwrap.wrap(dialog.verdict, _WIDTH - 1)
    room = _HEIGHT - 1 - len(top) - len(foot)
    middle = [*body[:room], *[""] * (room - len(body))]
    return [clip_columns(line, _WIDTH - 1) for line in [*top, *middle, *foot, _keys_line()]][-_HEIGHT:]


def _keys_line() -> str:
    """The keys, and what each does."""
    from boolab.stats.recommend.desk_dialog import KEYS

    line = "  ".join([f"{key} {name}" for key, name in KEYS.items()])
    return line.removesuffix(" quit")  # it does not fit


def _block(name: str, text: str, rows: int, *, tail: bool) -> Iterator[str]:
    """A text beside its name: its first lines, or its last ones."""
    clean = replace_controls(text).expandtabs(4)
    wrapped: list[str] = []
    for line in clean.strip().splitlines():
        wrapped += textwrap.wrap(line, _WIDTH - 1 - _LABEL) or [""]
    visible = wrapped[-rows:] if tail else wrapped[:rows]
    if len(wrapped) > rows:
        visible[0 if tail else -1] = f"[{len(wrapped) - rows + 1:,} more lines]"
    for number, line in enumerate(visible):
        yield f"{name if not number else '':<{_LABEL}}{line}"


def _opening(desk: Desk, criterion: str) -> Iterator[str]:
    """What is printed before the first unit; the question is written."""
    from boolab.stats.recommend.desk_status import plan_lines

    if not criterion and not desk.criterion and not desk.file.has_answers:
        criterion = input("What is a success? In a few words, such as 'tests pass and I would merge it': ").strip()
    desk.start(criterion)
    yield from plan_lines(desk)


def _print_status(desk: Desk) -> None:
    """Print what the answers show; if a value is shown to keep enough, the decision too."""
    from boolab.stats.recommend.desk_answer import desk_answer
    from boolab.stats.recommend.desk_status import status_lines
    from boolab.stats.recommend.recommend import decide_at_desk

    print("\n".join(wrap_text(line) for line in status_lines(desk)))
    if desk.file.header.get("question") and any(desk.state.setting.values()):
        runs = list(desk.runs)
        answer = desk_answer(runs, desk.scope, desk.identity, desk)
        print()
        print(insert_program(str(decide_at_desk(answer, scope=desk.scope, identity=desk.identity))))


def disagreement_lines(desk: Desk) -> Iterator[str]:
    """The units about which people disagree, and what each of them answered."""
    disputed = [(desk.recorded.units[row], label) for row, label in desk.labels.items() if label.disputed]
    for unit, label in disputed:
        turn = "" if unit.turn is None else f" turn {unit.turn}"
        yield f"{flatten(unit.run_id)}{turn}: {flatten(label.why)}"
    if not disputed:
        yield "No two people disagree."


def export_labels(desk: Desk, name: str) -> int:
    """Write the labels to a table that `bl.label` reads: a row for each unit, with its turn."""
    import pandas as pd

    from boolab.io.csv_export import write_csv

    path = page_to_write(name, ".csv")
    rows = []
    for row, label in sorted(desk.labels.items()):
        unit = desk.recorded.units[row]
        rows.append((unit.run_id, unit.turn, label.success, label.source, label.why))
    table = pd.DataFrame(rows, columns=["run_id", "turn", "success", "source", "why"])
    write_csv(table.astype({"turn": "Int64", "success": "boolean"}), path)
    print(f"boolab: wrote {count(len(desk.labels), 'label')} to {path}", file=sys.stderr)
    return 0


def _merge(path: Path, other: Path) -> int:
    """Append the lines of another file that are not in this one; its question is not asked here."""
    from boolab.logs.outcomes.label_file import HEADER, append_lines, read_labels

    if not other.is_file():
        raise SettingError(f"{other}: there is no such file: expected another file of labels")
    file, added = read_labels(path), read_labels(other)
    is_same = not file.lines or file.header.get("seed") == added.header.get("seed")
    lines = [line for line in added.lines if line not in file.lines]
    if not is_same:
        lines = [line for line in lines if HEADER not in line and "units" not in line]
    if lines:
        append_lines(path, lines)
    print(f"boolab: {count(len(lines), 'line')} of {other} added to {path}", file=sys.stderr)
    return 0


def _runs_of(args: argparse.Namespace) -> list[Run]:
    from boolab.logs.load import no_log_message, read_logs

    reading = read_logs(
        args.logs,
        since=since_time(args),
        progress=sys.stderr.isatty(),
        success_threshold=args.success_threshold,
    )
    if not reading.runs:
        raise SettingError(no_log_message(args.logs, rows=reading.files))
    return list(reading.runs)


def _file_of(args: argparse.Namespace) -> Path:
    """The file of labels: the one that is named, or the one in the folder of the logs."""
    from boolab.io.files import user_path
    from boolab.logs.outcomes.label_file import file_beside

    return user_path(args.labels) if args.labels else file_beside(args.logs[0])


def _values_from(minimum: int) -> Callable[[str], list[int]]:
    """How the values of an axis are read: whole numbers from `minimum` on."""
    return lambda text: values_of(text, int, minimum)


def _share_or_all(text: str) -> float:
    return 1.0 if text in ("1", "1.0", "all") else share(text)


class Keyboard:
    """The keys of the terminal, each without Enter and without an echo; its state is put back at the end."""

    def __init__(self) -> None:
        self._state: Any = None

    def __enter__(self) -> Self:
        with suppress(ModuleNotFoundError):  # Windows has no such state
            import termios
            import tty

            self._state = termios.tcgetattr(sys.stdin)
            tty.setcbreak(sys.stdin, termios.TCSANOW)  # by default it drops what was typed before
        return self

    def __exit__(self, *_: object) -> None:
        if self._state is not None:
            import termios

            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._state)

    def read_key(self) -> str:
        """The next key."""
        if self._state is None:
            import msvcrt

            return str(msvcrt.getwch())  # type: ignore[attr-defined] # Windows has it
        terminal = sys.stdin.fileno()
        key = os.read(terminal, 1)
        if key == _ESCAPE and select.select([terminal], [], [], _SEQUENCE_S)[0]:
            os.read(terminal, 32)  # End sends ESC [ F: its letter is no answer
        return key.decode("ascii", "replace")

    def read_line(self, prompt: str) -> str:
        """A line, which Enter ends."""
        self.__exit__()
        try:
            return input(f"\n{prompt}")
        finally:
            self.__enter__()

    def show(self, text: str) -> None:
        """Show a long text in the user's pager."""
        self.__exit__()
        try:
            pydoc.pager(text)
        finally:
            self.__enter__()


COMMAND: Final = Command(
    run,
    add,
    "Shows units of recorded runs one at a time, with their task, last message, changed files and last test output, "
    "and writes the answers to a file. About 50 answers are enough to show what a step cap keeps.",
    EPILOG,
    "LOGS [LOGS ...]",
)
