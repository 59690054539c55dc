"""`bl.audit`: were the limits that were set enforced, and which of them matter?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast

import pandas as pd

from boolab.core.text import count
from boolab.core.types import Run, Scope
from boolab.display.document import Document
from boolab.errors import RunFormatError, SettingError
from boolab.frames.dtypes import FLAG, FLOAT, INT, TEXT, cells, is_missing, well_formed_cell
from boolab.frames.runs import Runs, as_runs
from boolab.harnesses.policy import Policy
from boolab.harnesses.presets import get_policy
from boolab.limits.table import AGENT_LIMITS
from boolab.live.audits.count import PLAIN
from boolab.live.audits.declared import (
    Declared,
    Given,
    RunLimit,
    by_hand,
    declared_in,
    folders_of,
    found_near,
    hook_notes,
    limits_of,
    unmatched,
)
from boolab.live.audits.verdicts import VERDICTS, VerdictRow, rows_of
from boolab.live.audits.wording import Words, figure
from boolab.logs.list_prices import price_notes
from boolab.logs.load import FileRow, Paths, each_log, why_no_log
from boolab.logs.log_files import Reader
from boolab.stats.finding import Finding, table_of

Logs: TypeAlias = Runs | Sequence[str | Path]
"""Runs, or paths of logs."""
Files: TypeAlias = Iterable[tuple[Path | None, Sequence[Run]]]
"""Runs by the file that they are from."""

COLUMNS: Final[Mapping[str, str]] = {
    "run_id": TEXT,
    "agent": TEXT,
    "source": TEXT,
    "limit": TEXT,
    "declared": FLOAT,
    "where": TEXT,
    "unit": TEXT,
    "counted": FLOAT,
    "verdict": TEXT,
    "first_step_beyond": INT,
    "steps_beyond": INT,
    "calls_beyond": INT,
    "tokens_beyond": INT,
    "cost_beyond_usd": FLOAT,
    "reported_finished": FLAG,
    "note": TEXT,
}
_CHECKS: Final[Mapping[str, str]] = {"path": TEXT, "run_id": TEXT, "what": TEXT, "stated": INT, "read": INT}
MAX_CHECKS: Final = 5
"""So many figures that differ from what was read are listed in the notes."""
_SHOWN: Final = (
    "verdict",
    "run_id",
    "limit",
    "declared",
    "counted",
    "first_step_beyond",
    "agent",
    "unit",
    "where",
    "note",
)


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Finding):
    """The result of `audit`. Shown by itself in a notebook; `print` gives the same as text.

    Attributes:
        binding: A row for each agent and limit: agent, source, limit, declared, unit; n_runs, n_hit, n_at_limit,
            n_exceeded, n_reported_finished; the largest count and its 95th percentile p95, with slack and slack_p95
            (what is left to the limit: negative beyond it); never_fires_under (why the limit can never fire, if another
            one always fires first).
        checks: A row for each figure of a log that differs from what was read of it: path, run_id (NA if it is about
            the file), what (both numbers in a sentence), stated, read. Counts of these runs may be wrong.
    """

    binding: pd.DataFrame = field(default_factory=pd.DataFrame)
    checks: pd.DataFrame = field(default_factory=pd.DataFrame)

    def _document_(self, *, full: bool = False) -> Document:
        title, *subtitles = self.sentences or [self.title]
        binding = table_of(self.binding, full=True) if full else None
        return Document(
            title=title,
            subtitles=subtitles,
            table=self.table_shown(full=full),
            paragraphs=[binding] if binding else [],
            notes=self.notes,
        )

    def text(self, *, full: bool = False) -> str:
        """The verdict, the table and the notes as plain text, wrapped.

        Args:
            full: Whether it has all rows and columns of the table, and `binding`.

        Returns:
            The text.
        """
        return self._document_(full=full).text()

    @property
    def exceeded(self) -> pd.DataFrame:
        """The rows in which a run went beyond a limit."""
        return self.frame[self.frame["verdict"] == "exceeded"]


def audit(
    logs: Logs,
    limits: Given | Literal["auto"] = "auto",
    *,
    config: str | Path | Sequence[str | Path] | None = None,
    policy: Policy | str | None = None,
    scope: Scope = "auto",
    format: str | Reader | None = None,  # noqa: A002 - the name of users' option
    since: datetime | None = None,
) -> Audit:
    """Compare the limits that were declared with what the runs did, in each harness's own unit.

    A limit is counted and evaluated by the preset of the harness: see `boolab.live.audits.count`. The verdicts:
    `exceeded` (the run continued beyond what that rule allows), `hit` (the log shows that the limit stopped the run, or
    a turn of it), `at limit` (it ended in the middle at the limit, and the log does not name the cause), `kept`, `never
    near` (kept, and below half of the limit), `unknown` (the log does not show what the limit counts).

    Args:
        logs: Logs, as `load_runs` takes them, or runs. Only paths lead to configuration files.
        limits: `auto`: the limits in the logs, and in the configuration files of Claude Code, opencode, Gemini CLI,
            Codex and OpenHands in the folders that the logs name and above the logs (see
            `boolab.live.audits.declared`). Or a mapping, in place of these: limits by name, in the harness's words
            or as boolab's axes, for all runs that no other run started; or by agent (`*` is all): `{"max_turns": 30,
            "explore": {"max_turns": 10}}`.
        config: Further configuration files or projects' folders, which come first.
        policy: The harness whose rules count, for logs that do not show it; by default that of each run's source.
        scope: Whether counters start at zero with each user message ("turn"), never ("run"), or as the harness of each
            source does ("auto").
        format: The format of the logs; see `load_runs`.
        since: Only files that were changed at this time or later.

    Returns:
        A row for each run and limit: run_id, agent, source; limit (its name), declared, where; unit, counted (the
        largest count of a turn, or of the run); verdict; first_step_beyond, and steps, calls, tokens and cost in
        dollars from there on; reported_finished (a limit stopped it, and it is reported as finished or as a success);
        note. Its `binding` has a row for each agent and limit.

    Raises:
        SettingError: if a limit or an option is not known, or a file in `config` cannot be read.
        RunFormatError: if there are no logs.

    Example:
        >>> import boolab as bl
        >>> look = {"tool_calls": [{"name": "ls"}], "repeat": "forever"}
        >>> run = bl.run_sync(None, "go", model=bl.ScriptedModel([look], tools={"ls": "a"}), policy=bl.fixed_turns(5))
        >>> found = bl.audit(run, {"max_steps": 3})
        >>> found["verdict"].tolist(), found["first_step_beyond"].tolist()
        (['exceeded'], [4])
        >>> print(found.sentences[0])
        1 of 1 run went beyond a limit that was set: the largest count is 5 model responses under max_steps 3.
    """
    several = isinstance(logs, Iterable) and not isinstance(logs, str | Path | Mapping)
    listed: Any = logs if not several or hasattr(logs, "columns") else [*cast("Iterable[Any]", logs)]
    named = isinstance(listed, str | Path) or (
        isinstance(listed, list) and listed and isinstance(listed[0], str | Path)
    )
    rows: list[FileRow] = []
    files = log_files(listed, format, since, rows) if named else [(None, as_runs(listed))]
    return audit_files(files, limits, config=config, policy=policy, scope=scope, rows=rows)


def audit_files(
    files: Files,
    limits: Given | Literal["auto"] = "auto",
    *,
    config: str | Path | Sequence[str | Path] | None = None,
    policy: Policy | str | None = None,
    scope: Scope = "auto",
    rows: Sequence[FileRow] = (),
) -> Audit:
    """The same as `audit`, for runs with the files that they are from; `rows` are what happened to these files."""
    harness = None if policy is None else get_policy(policy)
    if scope not in ("auto", "turn", "run"):
        msg = f"scope: {scope!r} is not accepted; expected auto, turn or run"
        raise SettingError(msg)
    auto = isinstance(limits, str)
    if auto and limits != "auto":
        msg = f'limits: {limits!r} is not accepted; expected "auto", or a mapping such as {{"max_turns": 10}}'
        raise SettingError(msg)
    given = [] if isinstance(limits, str) else by_hand(limits)
    named = {path: declared_in(path) for path in _paths(config)}
    given += chain.from_iterable(named.values())
    seen: dict[Path, list[Declared]] = {}
    runs: list[Run] = []
    judged: list[VerdictRow] = []
    never: dict[tuple[str, str, float], str] = {}
    for path, part in files:
        around = found_near(folders_of(path), seen) if auto and path is not None else []
        declared = [*given, *(one for one in around if not _given(one, given))]
        for run in part:
            runs.append(run)
            of_run = rows_of(run, declared, harness, scope, log=auto)
            judged += of_run
            never |= {(run.run_id, *key): why for key, why in outranked(run, declared, harness, log=auto).items()}
    binding = binding_of(judged, never)
    frame = _frame(judged)
    words = Words(runs, judged, binding, unmatched(given, runs, harness))
    without = [f"{path}: no limit is declared in it." for path, found in named.items() if not found]
    checks = _checks(rows)
    hooks = hook_notes([*named, *seen])
    notes = (*without, *hooks, *_check_notes(checks), *words.notes(), *price_notes(runs))
    title, sentences = "Limits, declared and counted", tuple(words.sentences())
    return Audit(title, frame, sentences, notes, _shown(frame), binding=binding, checks=checks)


def _given(one: Declared, given: Sequence[Declared]) -> bool:
    return any((other.agent, other.name) == (one.agent, one.name) for other in given)


def _paths(config: str | Path | Sequence[str | Path] | None) -> list[Path]:
    if config is None:
        return []
    return [Path(one) for one in ([config] if isinstance(config, str | Path) else config)]


def log_files(
    paths: Paths,
    format: str | Reader | None = None,  # noqa: A002
    since: datetime | None = None,
    rows: list[FileRow] | None = None,
) -> Iterator[tuple[Path | None, Sequence[Run]]]:
    """The runs of logs by file; `rows` gets what happened to each file."""
    found = False
    for row, runs in each_log(paths, format=format, since=since):
        if rows is not None:
            rows.append(row)
        if row.skipped is None:
            found = True
            yield Path(row.path), runs
    if not found:
        raise RunFormatError(why_no_log(paths, since, rows or ()))


def _frame(rows: Sequence[VerdictRow]) -> pd.DataFrame:
    order = {verdict: place for place, verdict in enumerate(VERDICTS)}
    listed = sorted(rows, key=lambda row: order[row.verdict])
    return pd.DataFrame(
        {name: cells([well_formed_cell(getattr(row, name)) for row in listed], kind) for name, kind in COLUMNS.items()}
    )


def _checks(rows: Sequence[FileRow]) -> pd.DataFrame:
    found: list[tuple[object, ...]] = []
    for row in rows:
        found += [(row.path, one.run_id or None, one.what, one.stated, one.read) for one in row.inconsistencies]
    columns = list(zip(*found, strict=True)) or [()] * len(_CHECKS)
    return pd.DataFrame(
        {name: cells(list(column), kind) for (name, kind), column in zip(_CHECKS.items(), columns, strict=True)}
    )


def _check_notes(checks: pd.DataFrame) -> Iterator[str]:
    """A line for each of the first checks, and how many there are more."""
    for path, run_id, what in checks[["path", "run_id", "what"]].head(MAX_CHECKS).itertuples(index=False):
        yield f"{path}: {what if is_missing(run_id) else f'run {run_id}: {what}'}."
    if len(checks) > MAX_CHECKS:
        yield f"{count(len(checks) - MAX_CHECKS, 'further figure')} differ from what was read (.checks has all)."


def _shown(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns that are printed, the verdict first; a column without any value is left out."""
    shown = frame.copy()
    for name in ("declared", "counted"):
        values = [None if is_missing(value) else figure(value) for value in frame[name].tolist()]
        shown[name] = cells(values, TEXT)
    columns = [name for name in _SHOWN if any(not is_missing(value) and value != "" for value in shown[name].tolist())]
    return shown[columns].rename(columns={"first_step_beyond": "from_step", "run_id": "run"})


_BINDING: Final[Mapping[str, str]] = {
    "agent": TEXT,
    "source": TEXT,
    "limit": TEXT,
    "declared": FLOAT,
    "unit": TEXT,
    "n_runs": INT,
    "n_hit": INT,
    "n_at_limit": INT,
    "n_exceeded": INT,
    "n_reported_finished": INT,
    "largest": FLOAT,
    "p95": FLOAT,
    "slack": FLOAT,
    "slack_p95": FLOAT,
    "never_fires_under": TEXT,
}
_SHARE: Final = 0.95


def outranked(
    run: Run, declared: Iterable[Declared], policy: Policy | str | None, *, log: bool
) -> dict[tuple[str, float], str]:
    """Why a limit of a run can never fire, by its name and value: another one always fires first."""
    limits = limits_of(run, declared, policy, log=log)
    found: dict[tuple[str, float], str] = {}
    harness = next((one.policy for one in limits if one.policy is not None), PLAIN)
    asked: dict[str, Any] = dict.fromkeys(AGENT_LIMITS)
    named: dict[str, RunLimit] = {}
    for one in limits:
        axis = one.native.axis
        if axis in AGENT_LIMITS and axis not in named and float(one.value).is_integer():
            asked[axis], named[axis] = int(one.value), one
    order = (*harness.order, *(axis for axis in named if axis not in harness.order))
    free = harness.vary(order=order, cap={"ceiling": None}) if order != harness.order else harness.vary(
        cap={"ceiling": None}
    )  # fmt: skip
    for axis, first in free.never_fires(asked).items() if len(named) > 1 else ():
        if axis in named:
            found[named[axis].name, named[axis].value] = first.why
    messages = next((one for one in limits if one.native.axis == "messages"), None)
    turns = named.get("max_steps")
    if messages is not None and turns is not None and messages.value <= 2 * turns.value + 1:
        why = f"a turn makes two messages at least, so {messages.name} {messages.value:g} comes before it"
        found[turns.name, turns.value] = why
    return found


def binding_of(rows: Sequence[VerdictRow], never: Mapping[tuple[str, str, float], str]) -> pd.DataFrame:
    """A row for each agent and limit."""
    groups: dict[tuple[str, str, str, float | None, str], list[VerdictRow]] = {}
    for row in rows:
        groups.setdefault((row.agent, row.source, row.limit, row.declared, row.unit), []).append(row)
    found = []
    for (agent, source, limit, declared, unit), part in groups.items():
        known = sorted(row.counted for row in part if row.counted is not None)
        largest = known[-1] if known else None
        p95 = known[math.ceil(_SHARE * len(known)) - 1] if known else None
        under = {"" if declared is None else never.get((row.run_id, limit, declared), "") for row in part}
        found.append(
            {
                "agent": agent,
                "source": source,
                "limit": limit,
                "declared": declared,
                "unit": unit,
                "n_runs": len(part),
                "n_hit": sum(row.verdict == "hit" for row in part),
                "n_at_limit": sum(row.verdict == "at limit" for row in part),
                "n_exceeded": sum(row.verdict == "exceeded" for row in part),
                "n_reported_finished": sum(row.reported_finished for row in part),
                "largest": largest,
                "p95": p95,
                "slack": None if largest is None or declared is None else declared - largest,
                "slack_p95": None if p95 is None or declared is None else declared - p95,
                "never_fires_under": under.pop() or None if len(under) == 1 else None,
            }
        )
    return pd.DataFrame({name: cells([row[name] for row in found], kind) for name, kind in _BINDING.items()})
