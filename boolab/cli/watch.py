"""The command `boolab watch`: running agents as their logs grow, and an alert where a rule would stop one."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable
from threading import Event
from typing import TYPE_CHECKING, Final, TextIO

from boolab.cli.arguments import FORMAT, add_exempt, add_prices, add_scope, option_of, since_of
from boolab.cli.help import Command
from boolab.cli.terminal import clip_columns, is_terminal
from boolab.core.text import count, replace_controls
from boolab.core.types import IDENTITIES
from boolab.display.numbers import duration
from boolab.display.text import WIDTH, wrap_text
from boolab.errors import SettingError
from boolab.limits.table import LIMITS, Limit

if TYPE_CHECKING:
    from boolab.limits.stop import StopRule
    from boolab.live.follow.fleet import Fleet
    from boolab.live.follow.rows import AgentChange

EPILOG: Final = """
    examples:
      boolab watch --max-steps 56 --doom-loop 5
      boolab watch ~/.claude/projects --error-streak 4
      boolab watch logs/ --doom-loop 3 --exec 'notify-send "$BOOLAB_AGENT"'
      boolab watch logs/ --max-cost 2 --json | jq 'select(.kind == "fires")'
      boolab watch logs/ --max-steps 56 --once

    boolab stops no agent itself. The command of --exec runs in a shell once for each alert, with facts in environment
    variables: BOOLAB_RUN_ID, BOOLAB_AGENT, BOOLAB_SOURCE, BOOLAB_PATH (the log), BOOLAB_PARENT_RUN_ID, BOOLAB_TURN,
    BOOLAB_STEPS, BOOLAB_TOOL_CALLS, BOOLAB_TOKENS, BOOLAB_COST_USD, BOOLAB_STOP_REASON, BOOLAB_STOP_STEP, BOOLAB_RULE,
    BOOLAB_VALUE, BOOLAB_THRESHOLD; what is not known is empty. They are from logs: quote them, as in "$BOOLAB_RUN_ID".
    A text of more than 4,096 characters is cut. Eight commands run at a time; an alert beyond them waits for one of
    them to end, and one that runs longer than --exec-timeout is ended.
    """

REDRAW_S: Final = 0.2
_WORDS: Final = {"fires": "ALERT", "withdrawn": "withdrawn"}
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_FRAME: Final = 3
"""The lines of a terminal that the table leaves free."""


def seconds_of(text: str) -> float:
    """A duration: `30s`, `10m`, `2h` or `1d`, in seconds."""
    match = re.fullmatch(r"(\d{1,6})([smhd])", text.strip().lower())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration; accepted: 30s, 10m, 2h or 1d")
    return float(int(match[1]) * _UNITS[match[2]])


def add(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="*",
        help="log files, folders (with all in them) or globs in quotes (default: the folders in which the harnesses on "
        "this machine keep their logs)",
    )
    limits = parser.add_argument_group("the rule: an alert where one of these limits would stop an agent")
    for name, axis in LIMITS.items():
        unit = f" in {axis.unit}, such as 0.5" if axis.fractions else ""
        limits.add_argument(
            option_of(name),
            metavar="N",
            type=_limit_of(axis),
            help=f"{axis.label}{unit}: alert {axis.meaning} (default: none)",
        )
    counting = parser.add_argument_group("how to count")
    add_scope(counting)
    counting.add_argument(
        "--identity",
        choices=IDENTITIES,
        default="canonical",
        help="what is compared to find equal calls (default: %(default)s)",
    )
    add_exempt(counting)
    add_prices(counting)
    log_options = parser.add_argument_group("which logs")
    log_options.add_argument("--format", metavar="NAME", help=FORMAT)
    log_options.add_argument(
        "--idle",
        metavar="TIME",
        type=seconds_of,
        default=600.0,
        help="an agent runs as long as its log was changed within this time: 30s, 10m, 2h or 1d (default: 10m)",
    )
    log_options.add_argument(
        "--since",
        metavar="WHEN",
        type=since_of,
        help="show at the beginning also the agents whose logs were changed since then: 45m, 12h or 30d ago, or since "
        "a date such as 2026-11-01, local time (default: those that run)",
    )
    alerts = parser.add_argument_group("alerts and output")
    alerts.add_argument(
        "--exec",
        dest="command",
        metavar="COMMAND",
        help="run this shell command at each alert, with facts in environment variables: see below (default: none)",
    )
    alerts.add_argument(
        "--exec-timeout",
        dest="timeout",
        metavar="TIME",
        type=seconds_of,
        default=60.0,
        help="end a command of --exec, and what it started, that runs longer: 30s, 10m, 2h or 1d (default: 1m)",
    )
    alerts.add_argument(
        "--bell",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="ring the terminal's bell at each alert (default: it rings, on a terminal)",
    )
    alerts.add_argument("--once", action="store_true", help="print the agents as they are now, and end")
    alerts.add_argument("--json", action="store_true", help="print one JSON object a line for each change")


def _limit_of(axis: Limit) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = float(text) if axis.fractions else int(text)
        except ValueError:
            value = -1
        if not axis.min_useful <= value < float("inf") and not (axis.fractions and 0 < value < float("inf")):
            kind = "a number" if axis.fractions else f"a whole number, {axis.min_useful} or more"
            raise argparse.ArgumentTypeError(f"{text!r}: expected {kind}")
        return value

    return read


def rule_from(args: argparse.Namespace) -> StopRule | None:
    """The rule of the options, in the order of precedence of `counterfactual`; None without any limit."""
    from boolab.limits.catalog import rule_of

    values = {name: value for name in LIMITS if (value := getattr(args, name)) is not None}
    return rule_of(values, args.identity, args.exempt) if values else None


def run(args: argparse.Namespace) -> int:
    """Print the agents as their logs change, until Ctrl-C."""
    from boolab.live.follow.fleet import Fleet
    from boolab.live.follow.places import places_of, usual_places
    from boolab.live.follow.watch import Commands, watch

    rule = rule_from(args)
    if args.command is not None and rule is None:
        msg = "--exec runs at alerts, and there is no rule: give a limit such as --max-steps 56"
        raise SettingError(msg)
    log_paths = places_of(args.paths) if args.paths else usual_places()
    since = None if args.since is None else args.since.timestamp()
    fleet = Fleet(
        log_paths,
        rule,
        scope=args.scope,
        format=args.format,
        idle_s=args.idle,
        since=since,
        prices=args.prices,
    )
    if args.once:
        return _print_once(fleet, as_json=args.json)
    output = _output(sys.stdout, bell=args.bell, as_json=args.json)
    commands = Commands(args.command, args.timeout, output.say) if args.command else None
    summary = Summary()
    if not args.json:
        shadow = "" if rule is None else f"; an alert where {rule} would stop one"
        print(f"boolab: watching {count(len(log_paths), 'place')}{shadow}. Ctrl-C ends it.", file=sys.stderr)
    stop = Event()
    try:
        for changes in watch(fleet, stop):
            summary.count(changes)
            if commands is not None:
                commands.start(changes)
            for fault in fleet.take_faults():
                output.say(fault)
            output.show(changes, fleet)
    except KeyboardInterrupt:
        pass
    finally:
        stop.set()
        if commands is not None:
            commands.end()
        for fault in fleet.take_faults():
            output.say(fault)
        output.end()
    print(summary.text(fleet), file=sys.stderr)
    return 130


def _print_once(fleet: Fleet, *, as_json: bool) -> int:
    from boolab.live.follow.rows import data_of, table, turn_note

    changes = fleet.look()
    for fault in fleet.take_faults():
        print(f"boolab: {replace_controls(fault)}", file=sys.stderr)
    if as_json:
        for change in changes:
            if change.kind == "begins":
                print(json.dumps(data_of(change), ensure_ascii=False))
        return 0
    rows = fleet.rows(running=fleet.since is None)
    width = shutil.get_terminal_size().columns - 1 if is_terminal(sys.stdout) else None
    print("\n".join(table(rows, width)) if rows else "no agent is running")
    if note := turn_note(rows):
        print(f"\n{wrap_text(note)}")
    return 0


def _output(stream: TextIO, *, bell: bool, as_json: bool) -> Output:
    if as_json:
        return JsonLines(stream)
    return Board(stream, bell=bell) if is_terminal(stream) else Output(stream)


class Output:
    """One line for each change: what a pipe gets."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def show(self, changes: list[AgentChange], fleet: Fleet) -> None:  # noqa: ARG002 - others draw the fleet
        """Write what happened."""
        from boolab.live.follow.rows import alert_line, line_of

        def text(change: AgentChange) -> str:
            if change.kind in ("fires", "withdrawn"):
                return f"{_WORDS[change.kind]} {alert_line(change)}"
            return f"{line_of(change.row)}{'; its log is gone' if change.kind == 'gone' else ''}"

        for change in changes:
            self.stream.write(f"{_clock()} {self.format_change(change, text)}\n")
        if changes:
            self.stream.flush()

    def format_change(self, change: AgentChange, write: Callable[[AgentChange], str]) -> str:
        """A change as text; of one that cannot be written, why, so that the others are."""
        try:
            return write(change)
        except Exception as error:  # noqa: BLE001 - its texts are those of a log
            return self.format_failure(change, f"{change.kind} cannot be shown ({type(error).__name__}: {error})")

    def format_failure(self, change: AgentChange, reason: str) -> str:
        """What stands for a change that cannot be written."""
        return f"{change.row.path}: {change.row.run_id:.60}: {reason}"

    def say(self, text: str) -> None:
        """Write a sentence about something that did not work."""
        print(f"boolab: {replace_controls(text)}", file=sys.stderr)

    def end(self) -> None:
        """Nothing more comes."""


class JsonLines(Output):
    """One JSON object for each change."""

    def show(self, changes: list[AgentChange], fleet: Fleet) -> None:  # noqa: ARG002 - as above
        from boolab.live.follow.rows import data_of

        def text(change: AgentChange) -> str:
            return json.dumps({"time": round(time.time(), 3), **data_of(change)})

        for change in changes:
            self.stream.write(f"{self.format_change(change, text)}\n")
        if changes:
            self.stream.flush()

    def format_failure(self, change: AgentChange, reason: str) -> str:
        return json.dumps({"kind": change.kind, "run_id": change.row.run_id, "path": change.row.path, "fault": reason})


class Board(Output):
    """A table that is drawn again, with the alerts above it: what a terminal gets."""

    def __init__(self, stream: TextIO, *, bell: bool = True) -> None:
        super().__init__(stream)
        self._bell = bell
        self._lines = 0
        self._last: list[str] = []
        self._said: list[str] = []
        self._drawn = 0.0

    def show(self, changes: list[AgentChange], fleet: Fleet) -> None:
        from boolab.live.follow.rows import alert_line

        alerts = [change for change in changes if change.kind in ("fires", "withdrawn")]
        if not alerts and not self._said and time.monotonic() - self._drawn < REDRAW_S:
            return
        self._drawn = time.monotonic()
        size = shutil.get_terminal_size((WIDTH, 24))
        width = size.columns - 1
        lines = [clip_columns(replace_controls(line), width) for line in self._table(fleet, size.lines - _FRAME, width)]
        above = [clip_columns(replace_controls(text), width) for text in self._said]
        self._said = []
        for change in alerts:
            text = clip_columns(
                replace_controls(f"{_clock()} {_WORDS[change.kind]} {self.format_change(change, alert_line)}"), width
            )
            above.append(f"\x1b[{'31' if change.kind == 'fires' else '2'}m{text}\x1b[0m")
        if not above and lines == self._last:
            return
        cursor_back = f"\x1b[{self._lines}A\r" if self._lines else ""
        bell = "\a" if self._bell and any(change.kind == "fires" for change in alerts) else ""
        head = [f"\x1b[1m{lines[0]}\x1b[0m", *lines[1:]]
        self.stream.write(cursor_back + "\x1b[J" + bell + "".join(f"{line}\n" for line in (*above, *head)))
        self.stream.flush()
        self._lines, self._last = len(lines), lines

    def say(self, text: str) -> None:
        self._said.append(f"boolab: {text}")

    def end(self) -> None:
        for text in self._said:
            super().say(text.removeprefix("boolab: "))
        self._said = []

    @staticmethod
    def _table(fleet: Fleet, max_rows: int, width: int) -> list[str]:
        from boolab.live.follow.rows import table

        rows = fleet.rows(running=fleet.since is None)
        if not rows:
            return ["no agent is running"]
        visible_rows = rows[: max(max_rows - 2, 1)]
        lines = table(visible_rows, width)
        return lines if len(visible_rows) == len(rows) else [*lines, f"and {len(rows) - len(visible_rows):,} more"]


class Summary:
    """What was seen until the end."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._agents: set[tuple[str, str]] = set()
        self._alerts: Counter[str] = Counter()

    def count(self, changes: list[AgentChange]) -> None:
        """Count what happened."""
        for kind, row, fired in changes:
            self._agents.add((row.path, row.run_id))
            if fired is not None and kind in ("fires", "withdrawn"):
                self._alerts[fired.stop.reason] += 1 if kind == "fires" else -1

    def text(self, fleet: Fleet) -> str:
        """One sentence."""
        from boolab.live.follow.rows import reason_of

        reasons = [f"{reason_of(reason)} {n:,}" for reason, n in self._alerts.most_common() if n > 0]
        alerts = f"{count(sum(n for n in self._alerts.values() if n > 0), 'alert')}" if fleet.rule is not None else ""
        reason_text = f" ({', '.join(reasons)})" if reasons else ""
        watched = duration(round((time.monotonic() - self._start) * 1000))
        end = f", {alerts}{reason_text}" if alerts else ""
        return f"boolab: {count(len(self._agents), 'agent')} in {count(fleet.files, 'file')} in {watched}{end}"


def _clock() -> str:
    return time.strftime("%H:%M:%S")


COMMAND: Final = Command(
    run,
    add,
    "Follows logs of running agents as they grow and shows a row for each agent, subagents below their parents: a "
    "table that is drawn again on a terminal, a line for each change in a pipe. Where a limit would stop an agent it "
    "raises an alert; the agent continues. The counts are those of load_runs, and alerts are where whatif stops.",
    EPILOG,
    "[PATH ...]",
    {0: "all that is on record was read, with --once", 130: "Ctrl-C; the summary was printed"},
)
