"""Many logs at once, and a row for each agent that is in them.

A `Fleet` reads no clock but the one that it is given, and watches nothing itself: its caller names the files that
changed (`read_changed`), or lets it look at all of them (`look`). So it can be tested without waiting. Its caller is
`boolab.live.follow.watch`.

Logs that were not changed for a while are known by their size and time alone. They are read when they change.

Logs are untrusted, and a fleet follows many: an error about one file, agent or folder is a sentence (`take_faults`),
and the others are followed.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from itertools import chain
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, TypeAlias, TypeVar

from boolab.core.run import Run
from boolab.core.text import shorten
from boolab.core.types import Scope
from boolab.errors import BoolabError, SettingError
from boolab.io.json_input import mapping, parse, text, whole_file
from boolab.limits.stop import StopRule, Threshold
from boolab.live.follow.log_file import LogFile
from boolab.live.follow.places import Place
from boolab.live.follow.rows import AgentChange, AgentRow, RowLimit
from boolab.live.follow.rule_state import Fired, RuleState
from boolab.logs.list_prices import price_runs
from boolab.logs.log_files import Reader, scope_of

MAX_SHARE: Final = 0.2
"""Of the time that reading one log may take: one that takes 50 ms is read every 250 ms at most."""
FREE_S: Final = 0.005
"""A log that is read in less than this is read at every change."""
MAX_REPEATS: Final = 3
"""How often one sentence about what is not followed is reported."""
_EVENT_FILE: Final = re.compile(r"event-\d{5,12}-[0-9a-fA-F-]{8,}\.json")
_ID: Final = re.compile(r"[\w-]{1,60}")


_Args = ParamSpec("_Args")
_Result = TypeVar("_Result")


def _hold_lock(
    method: Callable[Concatenate[Fleet, _Args], _Result],
) -> Callable[Concatenate[Fleet, _Args], _Result]:
    """A method that one thread at a time is in: a widget's thread follows, and its kernel reads."""

    @wraps(method)
    def call_locked(self: Fleet, /, *args: _Args.args, **kwargs: _Args.kwargs) -> _Result:
        with self.lock:
            return method(self, *args, **kwargs)

    return call_locked


class _FollowedRun:
    """A run of a log, its rule, and its row. `state` is None where it is to be counted anew."""

    def __init__(self) -> None:
        self.state: RuleState | None = None
        self.fired: list[Fired] = []
        self.row: AgentRow | None = None


class _Log:
    """A file that may be a log."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.file: LogFile | None = None
        """None until it is read."""
        self.agents: dict[str, _FollowedRun] = {}
        self.due = 0.0
        self.size = -1
        self.mtime = 0.0
        self.changed = 0.0
        """When it, or a file that belongs to it, was changed for the last time."""
        self.parts = False
        """Whether a file that belongs to it changed since it was read."""


_Alert: TypeAlias = tuple[str, str, object, str, int]


def _alert_of(run: Run, fired: Fired) -> _Alert:
    """What an alert is about, whatever file the run is in."""
    return run.source, run.run_id, run.started_at, run.task, fired.turn


class Fleet:
    """The agents whose logs are in some places.

    - `rule`: the rule that is evaluated for each of them; None counts alone.
    - `scope`: where counters start anew; `auto` is as the harness of each log counts.
    - `idle_s`: how many seconds after its last change a log is one of a running agent.
    - `since`: logs that were changed at this time (seconds since 1970) or later are read at the beginning, too.
    - `now`: the clock: seconds since 1970.
    """

    def __init__(
        self,
        log_paths: Sequence[Place],
        rule: StopRule | None = None,
        *,
        scope: Scope = "auto",
        format: str | Reader | None = None,  # noqa: A002 - as load_runs has it
        idle_s: float = 600,
        since: float | None = None,
        prices: bool = True,
        now: Callable[[], float] = time.time,
    ) -> None:
        if scope not in ("auto", "turn", "run"):
            raise SettingError(f"scope={scope!r} is not known; accepted: auto, turn, run")
        self.places = [*log_paths]
        self.rule = rule
        self.idle_s = idle_s
        self._scope = scope
        self._format = format
        self.since = since
        self._prices = prices
        self._now = now
        self._logs: dict[str, _Log] = {}
        self._waiting: dict[str, None] = {}
        self._looked = False
        self._faults: dict[str, str] = {}
        self._repeats: Counter[str] = Counter()
        self._untold: list[str] = []
        self._alerts: dict[_Alert, str] = {}
        """The log of each alert."""
        self.lock = threading.RLock()

    @property
    def files(self) -> int:
        """How many files are known."""
        return len(self._logs)

    @property
    def has_unread(self) -> bool:
        """Whether logs changed that are not read yet; see `MAX_SHARE`."""
        return bool(self._waiting)

    @_hold_lock
    def fault(self, subject: str, reason: str) -> None:
        """Note that something is not followed, and why: once, until the reason changes; at most `MAX_REPEATS` times."""
        if self._faults.get(subject) != reason:
            self._faults[subject] = reason
            text = f"{subject}: {reason}"
            self._repeats[text] += 1
            if self._repeats[text] <= MAX_REPEATS:
                self._untold.append(text)

    def clear_fault(self, subject: str) -> None:
        """Note that something is followed."""
        self._faults.pop(subject, None)

    @_hold_lock
    def take_faults(self) -> list[str]:
        """What is not followed, in sentences: those that were noted since the last time."""
        untold, self._untold = self._untold, []
        return untold

    @_hold_lock
    def look(self) -> list[AgentChange]:
        """Look at all files, for new ones too."""
        paths = {*chain.from_iterable(self._files(log_path) for log_path in self.places)}
        first, self._looked = not self._looked, True
        after = self._now() - self.idle_s if self.since is None else self.since
        changed = []
        for path in sorted(paths):
            is_known = path in self._logs
            log = self._logs.setdefault(path, _Log(path))
            stat = _stat(path)
            if stat is None or (stat.st_size, stat.st_mtime) == (log.size, log.mtime):
                continue
            old = not is_known and first and stat.st_mtime < after
            log.size, log.mtime = stat.st_size, stat.st_mtime
            if not old:
                changed.append(path)
        missing_paths = [path for path in self._logs if path not in paths]
        return self.read_changed([*changed, *missing_paths])

    def _files(self, log_path: Place) -> Iterator[str]:
        """The files of a place. Of a folder that cannot be searched those that were there, which may still be."""
        try:
            if log_path.kind != "file":
                os.scandir(log_path.root).close()  # to walk through it ignores an error
            unread: dict[str, str] = {}
            yield from log_path.files(unread)
            for path, reason in unread.items():
                self.fault(path, reason)
        except FileNotFoundError as error:
            self.fault(log_path.path, f"{_reason(error)}; it is looked for again")
        except Exception as error:  # noqa: BLE001 - as below
            self.fault(log_path.path, f"{_reason(error)}; it is looked for again")
            yield from [path for path in self._logs if log_path.accepts(path)]
        else:
            self.clear_fault(log_path.path)

    @_hold_lock
    def look_at_running(self) -> list[AgentChange]:
        """Look at the logs of running agents alone: what is written without a notice, and what was deleted."""
        self._let_go()
        changed = []
        for path, log in self._logs.items():
            if log.file is not None:
                stat = _stat(path)
                if stat is None or (stat.st_size, stat.st_mtime) != (log.size, log.mtime):
                    changed.append(path)
        return self.read_changed(changed)

    @_hold_lock
    def read_changed(self, paths: Iterable[str]) -> list[AgentChange]:
        """Read the files that changed, and those that waited and are due."""
        for path in _expand_folders(paths):
            try:
                home = self._home(path)
            except Exception as error:  # noqa: BLE001 - as below
                self.fault(path, _reason(error))
                continue
            if home is not None:
                self._waiting[home] = None
        changes: list[AgentChange] = []
        for path in [*self._waiting]:
            log = self._logs[path]
            start = time.perf_counter()
            if log.due > start:
                continue
            del self._waiting[path]
            changes += self._read(log)
            seconds = time.perf_counter() - start
            log.due = start + seconds / MAX_SHARE if seconds > FREE_S else 0.0
        return changes

    @_hold_lock
    def rows(self, *, running: bool = True) -> list[AgentRow]:
        """The agents, each followed by its subagents; those that changed last come first."""
        after = self._now() - self.idle_s if running else float("-inf")
        agents = chain.from_iterable(log.agents.values() for log in self._logs.values())
        return [*_order_rows([agent.row for agent in agents if agent.row is not None and agent.row.changed >= after])]

    @_hold_lock
    def run(self, run_id: str) -> Run | None:
        """The run of an agent, as its log stands; None if there is none of this id."""
        for log in self._logs.values():
            if run_id in log.agents and log.file is not None:
                runs = [run for run in log.file.runs if run.run_id == run_id][:1]
                return next(iter(price_runs(runs).runs if self._prices else runs), None)
        return None

    def _home(self, path: str) -> str | None:
        """The log of a file that changed: itself, or that whose part it is; None if it is in none of the places."""
        home = _log_of(path)
        if home not in self._logs:
            if not any(log_path.accepts(home) for log_path in self.places):
                return None
            self._logs[home] = _Log(home)
        self._logs[home].parts = self._logs[home].parts or home != path
        return home

    def _read(self, log: _Log) -> Iterator[AgentChange]:
        if log.file is None:
            log.file = LogFile(Path(log.path), self._format)
        parts, log.parts = log.parts, False
        try:
            log.file.update(parts=parts)
        except (FileNotFoundError, NotADirectoryError):
            self.clear_fault(log.path)
            yield from self._remove_log(log)
            return
        except Exception as error:  # noqa: BLE001 - logs are untrusted, and one of them must not stop the others
            self.fault(log.path, f"{_reason(error)}; it is read again when it changes")
            return
        self.clear_fault(log.path)
        log.size, log.mtime = log.file.size, log.file.mtime
        log.changed = self._now() if parts else log.mtime
        runs = {run.run_id: run for run in log.file.runs}
        for run_id in [run_id for run_id in log.agents if run_id not in runs]:
            row = log.agents.pop(run_id).row
            if row is not None:
                yield AgentChange("gone", row)
        for run in runs.values():
            yield from self._try_update(log, run)

    def _try_update(self, log: _Log, run: Run) -> list[AgentChange]:
        agent = log.agents.setdefault(run.run_id, _FollowedRun())
        subject = f"{log.path}: {shorten(run.agent or run.source, 24)} {shorten(run.run_id, 60)}"
        try:
            changes = [*self._update(log, run, agent)]
        except Exception as error:  # noqa: BLE001 - as above
            agent.state = None
            self.fault(
                subject, f"its rule cannot be evaluated ({_reason(error)}); it is counted anew when its log changes"
            )
            return []
        self.clear_fault(subject)
        return changes

    def _remove_log(self, log: _Log) -> Iterator[AgentChange]:
        del self._logs[log.path]
        for agent in log.agents.values():
            if agent.row is not None:
                yield AgentChange("gone", agent.row)

    def _update(self, log: _Log, run: Run, agent: _FollowedRun) -> Iterator[AgentChange]:
        state, old, old_fired = agent.state, agent.row, agent.fired
        if state is None:
            scope = scope_of(run.source) if self._scope == "auto" else self._scope
            state = agent.state = RuleState(self.rule, scope, prices=self._prices)
        state.update(run)
        row = _row(log, run, state)
        agent.row, agent.fired = row, [*state.fired]
        if old is None:
            yield AgentChange("begins", row)
            if row.fired is not None and not row.finished and not self._is_known(log, run, row.fired):
                yield AgentChange("fires", row, row.fired)
            return
        if _shown_values(row) != _shown_values(old):
            yield AgentChange("step", row)
        for fired in old_fired:
            if not any(fired.turn == other.turn for other in state.fired):
                self._alerts.pop(_alert_of(run, fired), None)
                yield AgentChange("withdrawn", row, fired)
        for fired in state.fired:
            if not any(fired.turn == other.turn for other in old_fired) and not self._is_known(log, run, fired):
                yield AgentChange("fires", row, fired)

    def _is_known(self, log: _Log, run: Run, fired: Fired) -> bool:
        """Whether an alert was given before: by this log, or by one that had another name or place then."""
        alert = _alert_of(run, fired)
        path = self._alerts.get(alert)
        is_known = path is not None and (path == log.path or not Path(path).exists())
        self._alerts[alert] = log.path
        return is_known

    def _let_go(self) -> None:
        """Forget the content of logs that were not changed for a while."""
        after = self._now() - self.idle_s
        for log in self._logs.values():
            if log.file is not None and log.changed < after and self.since is None:
                log.file, log.agents = None, {}


def _order_rows(rows: Sequence[AgentRow]) -> Iterator[AgentRow]:
    """The agents, each followed by its subagents; those come first in whose family something changed last."""
    on_record = {row.run_id for row in rows}
    children_of: dict[str | None, list[AgentRow]] = {}
    for row in rows:
        children_of.setdefault(row.parent_run_id if row.parent_run_id in on_record else None, []).append(row)
    latest: dict[str, float] = {}
    for row, _ in reversed([*_families(children_of, rows)]):
        latest[row.run_id] = max(
            [row.changed, *(latest.get(child.run_id, 0.0) for child in children_of.get(row.run_id, ()))]
        )
    for children in children_of.values():
        children.sort(key=lambda row: (-latest[row.run_id], row.path, row.run_id))
    for row, depth in _families(children_of, rows):
        yield row if row.depth == depth else replace(row, depth=depth)


def _families(
    children_of: Mapping[str | None, Sequence[AgentRow]], rows: Sequence[AgentRow]
) -> Iterator[tuple[AgentRow, int]]:
    """Each agent once with how many are above it, before those below it. Without recursion: chains have any length."""
    run_ids: set[str] = set()
    for head in (
        *children_of.get(None, ()),
        *rows,
    ):  # those last that no family has: agents whose parents form a circle
        waiting = [(head, 0)]
        while waiting:
            row, depth = waiting.pop()
            if row.run_id not in run_ids:
                run_ids.add(row.run_id)
                yield row, depth
                waiting += [(child, depth + 1) for child in reversed(children_of.get(row.run_id, ()))]


def _shown_values(row: AgentRow) -> tuple[object, ...]:
    """What of a row is shown besides its time."""
    return (row.turn, row.steps, row.tool_calls, row.tokens, row.cost, row.finished, row.limits, row.fired)


def _row(log: _Log, run: Run, state: RuleState) -> AgentRow:
    totals, counters = state.totals, state.counters
    turn = run.steps[-1].turn if run.steps else 1
    last = state.fired[-1] if state.fired else None
    return AgentRow(
        run_id=run.run_id,
        agent=run.agent,
        source=run.source,
        path=log.path,
        parent_run_id=run.parent_run_id,
        task=run.task,
        model=run.model,
        turn=turn,
        steps=totals.steps,
        tool_calls=totals.calls,
        tokens=totals.tokens,
        cost=totals.cost,
        repeat_streak=counters["repeat_streak:canonical"],
        error_streak=counters["error_streak"],
        limits=_limits(state.rule, state.progress),
        fired=last if last is not None and (not state.per_turn or last.turn == turn) else None,
        undecided=state.undecided,
        depth=0 if run.parent_run_id is None else 1,
        finished=bool(run.steps) and not run.steps[-1].response.tool_calls and run.stop_reason == "finished",
        changed=log.changed,
    )


def _limits(rule: StopRule | None, counters: object) -> tuple[RowLimit, ...]:
    leaves: Iterable[Threshold] = () if rule is None else rule.leaves()
    limits = (
        RowLimit(leaf.counter, leaf.reason, counters[leaf.counter], leaf.threshold)  # type: ignore[index] # by name
        for leaf in leaves
    )
    return tuple(sorted(limits, key=lambda limit: -limit.share))


def _expand_folders(paths: Iterable[str]) -> Iterator[str]:
    """The paths; of folders, the files in them: what was written to a new folder at once is not reported by itself."""
    for path in paths:
        if os.path.isdir(path):  # noqa: PTH112 - thousands of them
            for folder, _, names in os.walk(path):
                yield from (os.path.join(folder, name) for name in sorted(names))  # noqa: PTH118 - as above
        else:
            yield path


def _reason(error: Exception) -> str:
    """Why something failed, in words."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error) if isinstance(error, BoolabError) else f"{type(error).__name__}: {error}"


def _stat(path: str) -> os.stat_result | None:
    with suppress(OSError):
        return os.stat(path)  # noqa: PTH116 - thousands of them
    return None


def _log_of(path: str) -> str:
    """The log whose part a file is: an event of OpenHands' conversations, or a message or a part of opencode's."""
    folder, name = os.path.split(path)
    if _EVENT_FILE.fullmatch(name) or (name == "base_state.json" and Path(folder, "events").is_dir()):
        events = folder if name != "base_state.json" else os.path.join(folder, "events")  # noqa: PTH118 - as above
        with suppress(OSError, ValueError):
            return min(str(event) for event in Path(events).iterdir() if _EVENT_FILE.fullmatch(event.name))
        return path
    parts = Path(path).parts
    piece = next((kind for kind in ("message", "part") if kind in parts[:-1]), None)
    if piece is None or not name.endswith(".json"):
        return path
    storage = Path(*parts[: parts.index(piece)])
    with suppress(OSError, ValueError):
        session = text(mapping(parse(whole_file(path))).get("sessionID"))
        if _ID.fullmatch(session):
            return next((str(event) for event in storage.glob(f"session/*/{session}.json")), path)
    return path
