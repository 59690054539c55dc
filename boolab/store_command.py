"""The command `boolab store`: what is in a store, one of its runs or sweeps, the runs as a file, and what can go."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from boolab.errors import SettingError
from boolab.saving import check_suffix, save_runs
from boolab.store.fetch import row_of, runs_at
from boolab.store.opening import path_of, reading
from boolab.store.overview import Overview, SweepRow, overview, runs_like, stop_reasons
from boolab.store.prune import Unwanted
from boolab.store.stored import stored_runs
from boolab.store.writer import Store
from boolab.transcript import flat
from boolab.types import Run

_MOST: Final = 60
"""How many characters of what a sweep is made of are shown in a list."""


def store_command(args: Namespace) -> int:
    """Do what the command line says.

    Args:
        args: The arguments of `boolab store`.

    Returns:
        The exit code: 0; 1 where nothing was removed because nobody said yes.

    Raises:
        StoreError: if the store cannot be read or written.
        SettingError: if there is no such run or sweep, or the target is not one that can be written.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # what runs hold need not fit into the terminal's encoding
    commands: Mapping[str, Callable[[Namespace], int]] = {
        "ls": _ls,
        "show": _show,
        "export": _export,
        "prune": _prune,
    }
    return commands[args.action](args)


def _ls(args: Namespace) -> int:
    found = overview(args.file)
    print(json.dumps(_as_json(found), indent=2) if args.json else _text(args.file, found))
    return 0


def _show(args: Namespace) -> int:
    sweep = next((one for one in overview(args.file).sweeps if str(one.sweep) == args.which), None)
    print(_run(args.file, args.which) if sweep is None else _about(args.file, sweep))
    return 0


def _export(args: Namespace) -> int:
    target = Path(args.target).expanduser()
    check_suffix(target)
    _check_sweep(args.file, args.sweep)
    runs = stored_runs(args.file, sweep=args.sweep)
    try:
        save_runs(runs, target)
    except OSError as error:
        raise SettingError(f"{target}: {error.strerror or error}") from error
    print(f"Wrote {_runs(len(runs))} to {target}")
    return 0


def _prune(args: Namespace) -> int:
    unwanted = Unwanted(args.replaced, args.interrupted, args.sweep)
    if not unwanted:
        msg = "say what is to go: --replaced, --interrupted, --sweep N, or several of these"
        raise SettingError(msg)
    _check_sweep(args.file, args.sweep)
    with Store(args.file) as store:
        going = store.prunable(unwanted)
        print(f"{args.file}: {_runs(going.runs)} with {going.steps:,} steps would be removed")
        if going.held:
            print(f"{_runs(going.held)} would stay, because runs that are kept share their steps")
        if not going.runs and unwanted.sweep is None:
            return 0
        if not (args.yes or _agreed()):
            print("boolab: nothing was removed", file=sys.stderr)
            return 1
        before = path_of(args.file).stat().st_size
        store.prune(unwanted)
        after = path_of(args.file).stat().st_size
    print(f"Removed; the file has {_size(after)} in place of {_size(before)}")
    return 0


def _agreed() -> bool:
    """Whether somebody is there and says yes."""
    if not sys.stdin.isatty():
        msg = "nobody is there to be asked: --yes removes them"
        raise SettingError(msg)
    return input("Remove them? [y/N] ").strip().lower() in ("y", "yes")


def _check_sweep(file: str, sweep: int | None) -> None:
    known = [one.sweep for one in overview(file).sweeps]
    if sweep is not None and sweep not in known:
        numbers = ", ".join(map(str, known)) or "none"
        raise SettingError(f"{file}: there is no sweep {sweep}; its sweeps: {numbers}")


def _run(file: str, beginning: str) -> Run:
    found = runs_like(file, beginning)
    if beginning in found:
        found = [beginning]
    if len(found) != 1:
        none = "no run's id begins like this, and no sweep has this number: see boolab store ls"
        several = f"several runs' ids begin like this: {', '.join(found[:3])}"
        raise SettingError(f"{file}: {beginning!r}: {several if found else none}")
    with reading(path_of(file)) as connection:
        return runs_at(connection, [row_of(connection, found[0])])[0]


def _about(file: str, sweep: SweepRow) -> str:
    lines = [_sweep_line(sweep), *(f"  {name}: {_plain(value)}" for name, value in sweep.about.items() if value)]
    reasons = stop_reasons(file, sweep.sweep)
    if reasons:
        lines.append("stop reasons:")
        lines += [f"  {reason:12} {n:>8,}" for reason, n in reasons.items()]
    return "\n".join(lines)


def _text(file: str, found: Overview) -> str:
    writer = ", being written now" if found.being_written else ""
    states = ", ".join(f"{n:,} {state}" for state, n in sorted(found.states.items())) or "none"
    lines = [f"{file}: {_size(found.bytes)}, schema {found.version}{writer}", f"runs: {states}"]
    lines += map(_sweep_line, found.sweeps)
    if found.loose:
        lines.append(f"of no sweep: {_runs(found.loose)}")
    return "\n".join(lines)


def _sweep_line(sweep: SweepRow) -> str:
    when = f"begun {sweep.begun_at[:16].replace('T', ' ')} UTC"
    when += f", done {sweep.ended_at[:16].replace('T', ' ')}" if sweep.ended_at else ", not done"
    return f"sweep {sweep.sweep}: {sweep.finished:,} of {sweep.n_cells:,} cells finished, {when}"


def _as_json(found: Overview) -> dict[str, object]:
    return {"schema": 1, **found._asdict(), "sweeps": [sweep._asdict() for sweep in found.sweeps]}


def _plain(value: object) -> str:
    text = flat(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return text if len(text) <= _MOST else f"{text[: _MOST - 1]}…"


def _runs(n: int) -> str:
    return f"{n:,} run{'' if n == 1 else 's'}"


def _size(n: int) -> str:
    return f"{n / 1e6:,.1f} MB" if n >= 1e6 else f"{n / 1e3:,.0f} kB"  # noqa: PLR2004 - units
