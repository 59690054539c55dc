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

from boolab.core.run import Run
from boolab.core.run_tree import roots_in
from boolab.core.text import count
from boolab.core.types import Scope
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
    LimitsByName,
    RunLimit,
    find_unmatched,
    folders_of,
    hook_notes,
    limits_near,
    limits_of,
    limits_of_mapping,
    read_limits,
)
from boolab.live.audits.verdicts import VERDICTS, VerdictRow, rows_of
from boolab.live.audits.wording import Words, figure
from boolab.logs.list_prices import price_notes
from boolab.logs.load import FileRow, Paths, iterate_logs, no_log_message
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
_SHOWN_COLUMNS: Final = (
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
    limits: LimitsByName | Literal["auto"] = "auto",
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
    is_iterable = isinstance(logs, Iterable) and not isinstance(logs, str | Path | Mapping)
    items: Any = logs if not is_iterable or hasattr(logs, "columns") else [*cast("Iterable[Any]", logs)]
    are_paths = isinstance(items, str | Path) or (
        isinstance(items, list) and items and isinstance(items[0], str | Path)
    )
    rows: list[FileRow] = []
    files = log_files(items, format, since, rows) if are_paths else [(None, as_runs(items))]
    return audit_files(files, limits, config=config, policy=policy, scope=scope, rows=rows)


def audit_files(
    files: Files,
    limits: LimitsByName | Literal["auto"] = "auto",
    *,
    config: str | Path | Sequence[str | Path] | None = None,
    policy: Policy | str | None = None,
    scope: Scope = "auto",
    rows: Sequence[FileRow] = (),
) -> Audit:
    """The same as `audit`, for runs with the files that they are from; `rows` are what happened to these files."""
    harness = None if policy is None else get_policy(policy)
    if scope not in ("auto", "turn", "run"):
        raise SettingError(f"scope: {scope!r} is not accepted; expected auto, turn or run")
    auto = isinstance(limits, str)
    if auto and limits != "auto":
        msg = f'limits: {limits!r} is not accepted; expected "auto", or a mapping such as {{"max_turns": 10}}'
        raise SettingError(msg)
    named_limits = [] if isinstance(limits, str) else limits_of_mapping(limits)
    config_limits = {path: read_limits(path) for path in _paths(config)}
    named_limits += chain.from_iterable(config_limits.values())
    folder_limits: dict[Path, list[Declared]] = {}
    runs: list[Run] = []
    verdict_rows: list[VerdictRow] = []
    never: dict[tuple[str, str, float], str] = {}
    parts = [*files]
    families = _families([*chain.from_iterable(part for _, part in parts)])
    for path, part in parts:
        around = limits_near(folders_of(path), folder_limits) if auto and path is not None else []
        named = {(limit.agent, limit.name) for limit in named_limits}
        declared = [*named_limits, *(limit for limit in around if (limit.agent, limit.name) not in named)]
        for run in part:
            runs.append(run)
            of_run = rows_of(run, declared, harness, scope, families.get(run.run_id, ()), log=auto)
            verdict_rows += of_run
            never |= {
                (run.run_id, *key): reason for key, reason in find_outranked(run, declared, harness, log=auto).items()
            }
    binding = binding_of(verdict_rows, never)
    frame = _frame(verdict_rows)
    words = Words(runs, verdict_rows, binding, find_unmatched(named_limits, runs, harness))
    empty_files = [
        f"{path}: no limit is declared in it." for path, limits_found in config_limits.items() if not limits_found
    ]
    checks = _checks(rows)
    hooks = hook_notes([*config_limits, *folder_limits])
    notes = (*empty_files, *hooks, *_check_notes(checks), *words.notes(), *price_notes(runs))
    title, sentences = "Limits, declared and counted", tuple(words.sentences())
    return Audit(title, frame, sentences, notes, _shown_columns(frame), binding=binding, checks=checks)


def _families(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """By the run that started subagents, that run and all of them: Codex's budget is shared by them."""
    families: dict[str, list[Run]] = {}
    for run, root in zip(runs, roots_in(runs), strict=True):
        if runs[root] is not run:
            families.setdefault(runs[root].run_id, [runs[root]]).append(run)
    return families


def _paths(config: str | Path | Sequence[str | Path] | None) -> list[Path]:
    if config is None:
        return []
    return [Path(path) for path in ([config] if isinstance(config, str | Path) else config)]


def log_files(
    paths: Paths,
    format: str | Reader | None = None,  # noqa: A002
    since: datetime | None = None,
    rows: list[FileRow] | None = None,
) -> Iterator[tuple[Path | None, Sequence[Run]]]:
    """The runs of logs by file; `rows` gets what happened to each file."""
    has_logs = False
    for row, runs in iterate_logs(paths, format=format, since=since):
        if rows is not None:
            rows.append(row)
        if row.skipped is None:
            has_logs = True
            yield Path(row.path), runs
    if not has_logs:
        raise RunFormatError(no_log_message(paths, since, rows or ()))


def _frame(rows: Sequence[VerdictRow]) -> pd.DataFrame:
    order = {verdict: rank for rank, verdict in enumerate(VERDICTS)}
    sorted_rows = sorted(rows, key=lambda row: order[row.verdict])
    return pd.DataFrame(
        {
            name: cells([well_formed_cell(getattr(row, name)) for row in sorted_rows], kind)
            for name, kind in COLUMNS.items()
        }
    )


def _checks(rows: Sequence[FileRow]) -> pd.DataFrame:
    check_rows: list[tuple[object, ...]] = []
    for row in rows:
        check_rows += [
            (row.path, figure_check.run_id or None, figure_check.what, figure_check.stated, figure_check.read)
            for figure_check in row.inconsistencies
        ]
    columns = list(zip(*check_rows, strict=True)) or [()] * len(_CHECKS)
    return pd.DataFrame(
        {name: cells(list(column), kind) for (name, kind), column in zip(_CHECKS.items(), columns, strict=True)}
    )


def _check_notes(checks: pd.DataFrame) -> Iterator[str]:
    """A line for each of the first checks, and how many there are more."""
    for path, run_id, sentence in checks[["path", "run_id", "what"]].head(MAX_CHECKS).itertuples(index=False):
        yield f"{path}: {sentence if is_missing(run_id) else f'run {run_id}: {sentence}'}."
    if len(checks) > MAX_CHECKS:
        yield f"{count(len(checks) - MAX_CHECKS, 'further figure')} differ from what was read (.checks has all)."


def _shown_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns that are printed, the verdict first; a column without any value is left out."""
    visible = frame.copy()
    for name in ("declared", "counted"):
        values = [None if is_missing(value) else figure(value) for value in frame[name].tolist()]
        visible[name] = cells(values, TEXT)
    columns = [
        name
        for name in _SHOWN_COLUMNS
        if any(not is_missing(value) and value != "" for value in visible[name].tolist())
    ]
    return visible[columns].rename(columns={"first_step_beyond": "from_step", "run_id": "run"})


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


def find_outranked(
    run: Run, declared: Iterable[Declared], policy: Policy | str | None, *, log: bool
) -> dict[tuple[str, float], str]:
    """Why a limit of a run can never fire, by its name and value: another one always fires first."""
    limits = limits_of(run, declared, policy, log=log)
    reasons: dict[tuple[str, float], str] = {}
    harness = next((limit.policy for limit in limits if limit.policy is not None), PLAIN)
    settings: dict[str, Any] = dict.fromkeys(AGENT_LIMITS)
    limits_by_axis: dict[str, RunLimit] = {}
    for limit in limits:
        axis = limit.native.axis
        if axis in AGENT_LIMITS and axis not in limits_by_axis and float(limit.value).is_integer():
            settings[axis], limits_by_axis[axis] = int(limit.value), limit
    order = (*harness.order, *(axis for axis in limits_by_axis if axis not in harness.order))
    free = harness.vary(order=order, cap={"ceiling": None}) if order != harness.order else harness.vary(
        cap={"ceiling": None}
    )  # fmt: skip
    for axis, first in free.never_fires(settings).items() if len(limits_by_axis) > 1 else ():
        if axis in limits_by_axis:
            reasons[limits_by_axis[axis].name, limits_by_axis[axis].value] = first.why
    messages = next((limit for limit in limits if limit.native.axis == "messages"), None)
    turns = limits_by_axis.get("max_steps")
    if messages is not None and turns is not None and messages.value <= 2 * turns.value + 1:
        reason = f"a turn makes two messages at least, so {messages.name} {messages.value:g} comes before it"
        reasons[turns.name, turns.value] = reason
    return reasons


def binding_of(rows: Sequence[VerdictRow], never: Mapping[tuple[str, str, float], str]) -> pd.DataFrame:
    """A row for each agent and limit."""
    groups: dict[tuple[str, str, str, float | None, str], list[VerdictRow]] = {}
    for row in rows:
        groups.setdefault((row.agent, row.source, row.limit, row.declared, row.unit), []).append(row)
    binding_rows = []
    for (agent, source, limit, declared, unit), part in groups.items():
        counts = sorted(row.counted for row in part if row.counted is not None)
        largest = counts[-1] if counts else None
        p95 = counts[math.ceil(_SHARE * len(counts)) - 1] if counts else None
        higher_limits = {"" if declared is None else never.get((row.run_id, limit, declared), "") for row in part}
        binding_rows.append(
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
                "never_fires_under": higher_limits.pop() or None if len(higher_limits) == 1 else None,
            }
        )
    return pd.DataFrame({name: cells([row[name] for row in binding_rows], kind) for name, kind in _BINDING.items()})
