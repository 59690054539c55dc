"""The command `boolab store`: what is in a store, one of its runs or sweeps, the runs as a file, and what can go."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from typing import Final

from boolab.cli.arguments import agrees, parse_positive
from boolab.cli.help import Command, add_command
from boolab.core.run import Run
from boolab.core.text import clip, count, flatten
from boolab.display.numbers import size
from boolab.display.text import align_columns
from boolab.errors import SettingError
from boolab.io.files import user_path
from boolab.logs.save import check_suffix, save_runs
from boolab.store.changes import Unwanted
from boolab.store.connection import open_reader, path_of
from boolab.store.select import read_runs, row_of
from boolab.store.stored_runs import Overview, SweepRow, overview, runs_like, stop_reasons, stored_runs
from boolab.store.writer import Store

MAX_CHARS: Final = 60  # of a fact about a sweep


def _ls(args: Namespace) -> int:
    contents = overview(args.file)
    if args.json:
        sweeps = [sweep._asdict() for sweep in contents.sweeps]
        print(json.dumps({"schema": 1, **contents._asdict(), "sweeps": sweeps}, indent=2))
    else:
        print(_text(args.file, contents))
    return 0


def _show(args: Namespace) -> int:
    sweep = next((row for row in overview(args.file).sweeps if str(row.sweep) == args.which), None)
    print(_run(args.file, args.which) if sweep is None else _describe_sweep(args.file, sweep))
    return 0


def _export(args: Namespace) -> int:
    target = user_path(args.target)
    check_suffix(target)
    _check_sweep(args.file, args.sweep)
    runs = stored_runs(args.file, sweep=args.sweep)
    try:
        save_runs(runs, target)
    except OSError as error:
        raise SettingError(f"{target}: {error.strerror or error}") from error
    print(f"Wrote {count(len(runs), 'run')} to {target}")
    return 0


def _prune(args: Namespace) -> int:
    unwanted = Unwanted(args.replaced, args.interrupted, args.sweep)
    if not unwanted:
        msg = "name what to remove: --replaced, --interrupted, --sweep N, or several of these"
        raise SettingError(msg)
    _check_sweep(args.file, args.sweep)
    with Store(args.file) as store:
        going = store.prunable(unwanted)
        print(f"{args.file}: {count(going.runs, 'run')} with {going.steps:,} steps would be removed")
        if going.held:
            print(f"{count(going.held, 'run')} would stay, because runs that are kept share their steps")
        if not going.runs and unwanted.sweep is None:
            return 0
        if not (args.yes or agrees("Remove them?")):
            print("boolab: nothing was removed", file=sys.stderr)
            return 1
        old_size = path_of(args.file).stat().st_size
        store.prune(unwanted)
        new_size = path_of(args.file).stat().st_size
    print(f"Removed; the file has {size(new_size)} in place of {size(old_size)}")
    return 0


def _check_sweep(file: str, sweep: int | None) -> None:
    sweeps = [row.sweep for row in overview(file).sweeps]
    if sweep is not None and sweep not in sweeps:
        numbers = ", ".join(map(str, sweeps)) or "none"
        raise SettingError(f"{file}: there is no sweep {sweep}; its sweeps: {numbers}")


def _run(file: str, beginning: str) -> Run:
    run_ids = runs_like(file, beginning)
    if beginning in run_ids:
        run_ids = [beginning]
    if len(run_ids) != 1:
        no_run = "no run's id begins like this, and no sweep has this number: see boolab store ls"
        several_runs = f"several runs' ids begin like this: {', '.join(run_ids[:3])}"
        raise SettingError(f"{file}: {beginning!r}: {several_runs if run_ids else no_run}")
    with open_reader(path_of(file)) as connection:
        return read_runs(connection, [row_of(connection, run_ids[0])])[0]


def _describe_sweep(file: str, sweep: SweepRow) -> str:
    lines = [_sweep_line(sweep), *(f"  {name}: {_format_value(value)}" for name, value in sweep.about.items() if value)]
    reasons = stop_reasons(file, sweep.sweep)
    if reasons:
        lines.append("stop reasons:")
        lines += [f"  {line}" for line in align_columns([[reason, f"{n:,}"] for reason, n in reasons.items()])]
    return "\n".join(lines)


def _text(file: str, contents: Overview) -> str:
    writer = ", being written now" if contents.being_written else ""
    states = ", ".join(f"{n:,} {state}" for state, n in sorted(contents.states.items())) or "none"
    lines = [f"{file}: {size(contents.bytes)}, schema {contents.version}{writer}", f"runs: {states}"]
    lines += map(_sweep_line, contents.sweeps)
    if contents.loose:
        lines.append(f"of no sweep: {count(contents.loose, 'run')}")
    return "\n".join(lines)


def _sweep_line(sweep: SweepRow) -> str:
    times = f"begun {sweep.begun_at[:16].replace('T', ' ')} UTC"
    times += f", done {sweep.ended_at[:16].replace('T', ' ')}" if sweep.ended_at else ", not done"
    return f"sweep {sweep.sweep}: {sweep.finished:,} of {sweep.n_cells:,} cells finished, {times}"


def _format_value(value: object) -> str:
    text = flatten(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return clip(text, MAX_CHARS)


# --- Arguments --------------------------------------------------------------------------------------------------------


def _add_ls(parser: ArgumentParser) -> None:
    _add_file(parser)
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object instead of text: schema, version, bytes, sweeps, states, loose, being_written",
    )


def _add_show(parser: ArgumentParser) -> None:
    _add_file(parser)
    parser.add_argument("which", metavar="RUN_OR_SWEEP", help="a sweep's number, or a run's id or the beginning of it")


def _add_export(parser: ArgumentParser) -> None:
    _add_file(parser)
    parser.add_argument("target", metavar="TARGET", help="the file to write, .parquet or .jsonl")
    parser.add_argument(
        "--sweep",
        metavar="N",
        type=parse_positive,
        help="only the runs of the sweep with this number (default: all runs)",
    )


def _add_prune(parser: ArgumentParser) -> None:
    _add_file(parser)
    parser.add_argument("--replaced", action="store_true", help="remove runs that were run again since")
    parser.add_argument("--interrupted", action="store_true", help="remove runs that did not reach their end")
    parser.add_argument(
        "--sweep",
        metavar="N",
        type=parse_positive,
        help="remove the sweep with this number, and the runs that no other sweep has (default: none)",
    )
    parser.add_argument("--yes", action="store_true", help="remove without a question")


def _add_file(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the store, such as runs.db")


def add(parser: ArgumentParser) -> None:
    """Add the command's actions."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True, prog=parser.prog)
    for name, (summary, command) in ACTIONS.items():
        add_command(actions, name, summary, command)


ACTIONS: Final = {
    "ls": (
        "list which sweeps a store holds, how far they are, and how many runs are in which state",
        Command(
            _ls,
            _add_ls,
            "Changes nothing; works while a sweep writes, too.",
            """
            examples:
              boolab store ls runs.db
              boolab store ls runs.db --json | jq '.sweeps[] | select(.ended_at == null)'
            """,
            "FILE",
        ),
    ),
    "show": (
        "show a sweep, or a run",
        Command(
            _show,
            _add_show,
            "A sweep: its settings, its progress, and why its runs ended. A run: its whole transcript, folded.",
            """
            examples:
              boolab store show runs.db 1        the first sweep
              boolab store show runs.db 3f9a     the run whose id begins like this
            """,
            "FILE RUN_OR_SWEEP",
        ),
    ),
    "export": (
        "write the runs of a store to a file, whatever their number",
        Command(
            _export,
            _add_export,
            "A .parquet file has a row for each step and needs pyarrow; a .jsonl file is ATIF, which other tools read "
            "too. A file that is there is replaced.",
            """
            examples:
              boolab store export runs.db runs.jsonl
              boolab store export runs.db runs.parquet --sweep 1
            """,
            "FILE TARGET",
        ),
    ),
    "prune": (
        "remove runs from a store, and make its file smaller",
        Command(
            _prune,
            _add_prune,
            "First prints what would be removed, and waits for confirmation. At least one of --replaced, --interrupted "
            "and --sweep selects it. Runs whose steps are part of runs that stay are kept.",
            """
            examples:
              boolab store prune runs.db --replaced --interrupted
              boolab store prune runs.db --sweep 1 --yes
            """,
            "FILE",
            {1: "an error, on stderr; or the answer was no"},
        ),
    ),
}
"""Each action: its summary and its command."""

COMMAND: Final = Command(
    None,
    add,
    "A store is the file that a sweep with store= writes. The other commands and load_runs read it like any log, also "
    "while a sweep writes it.",
    """
    examples:
      boolab store ls runs.db
      boolab store show runs.db 1
      boolab store export runs.db runs.parquet --sweep 1
      boolab store prune runs.db --replaced --interrupted
    """,
    "ACTION ...",
)
