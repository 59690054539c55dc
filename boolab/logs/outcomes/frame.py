"""`outcomes`: what the record and the repository show of how runs ended, one row a unit and source.

`evidence_lines` has the same as lines of a file of labels.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from datetime import datetime
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from boolab.core.run import Run
from boolab.core.types import Scope
from boolab.errors import SettingError, near
from boolab.frames.dtypes import INT, TEXT, TIME, Column, frame_of_columns
from boolab.frames.runs import Runs, as_runs
from boolab.io.checks import check_whole
from boolab.io.files import user_path
from boolab.io.safe_regex import Pattern, compile_pattern
from boolab.logs.log_files import scope_of
from boolab.logs.outcomes.evidence import Evidence
from boolab.logs.outcomes.git import DAYS, GitOptions, evidence_of_git
from boolab.logs.outcomes.git_work import GitWork, work_by_unit
from boolab.logs.outcomes.label_file import Line, make_label
from boolab.logs.outcomes.reaction import evidence_of_reaction
from boolab.logs.outcomes.tests import evidence_of_tests
from boolab.logs.units import LabelUnit, units_of_run

if TYPE_CHECKING:
    import pandas as pd


SOURCES: Final = ("tests", "git", "reaction")
"""Where evidence is looked for."""

_GIT_OPTIONS: Final = GitOptions()


class OutcomeRow(NamedTuple):
    """The evidence of one source for one unit."""

    unit: LabelUnit
    evidence: Evidence


OUTCOME_COLUMNS: Final = (
    Column("run_id", TEXT, lambda row: row.unit.run_id),
    Column("turn", INT, lambda row: row.unit.turn),
    Column("outcome", TEXT, lambda row: row.evidence.outcome),
    Column("source", TEXT, lambda row: row.evidence.source),
    Column("why", TEXT, lambda row: row.evidence.why),
    Column("at", TIME, lambda row: row.evidence.at),
    Column("print", TEXT, lambda row: row.unit.print),
    Column("steps", INT, lambda row: row.unit.steps),
    Column("detail", TEXT, lambda row: json.dumps(row.evidence.detail, ensure_ascii=False)),
)
"""The columns of `outcomes`."""


def outcomes(
    runs: Runs,
    *,
    git: bool | str | Path = False,
    tests: bool = True,
    reaction: bool = True,
    days: int = DAYS,
    into: str | None = None,
    test_commands: Sequence[str] = (),
    scope: Scope = "auto",
    now: datetime | None = None,
) -> pd.DataFrame:
    """Look for evidence of how runs without labels ended: in their tests, in git, in the user's next message.

    Evidence is no label: nothing counts it as a success unless you trust its source. Subagents have none of their own;
    the tests and changes of theirs count for the run that started them.

    Args:
        runs: A run, runs, or the path of a store or of logs.
        git: Whether to look into the repository that each run worked in, or the folder of one repository for all. It is
            only read, without the network, and nothing of it is run.
        tests: Whether to look for test commands.
        reaction: Whether to look at the messages of the user.
        days: How long work has to stay in the repository.
        into: The branch that work has to land on; by default the default branch of the repository.
        test_commands: Regular expressions; a command that one of them is found in is a test command.
        scope: Whether turns or runs are units; "auto" is as the harness of each source counts its limits.
        now: When the repository is judged, such as the time of a clone; by default the present.

    Returns:
        A row for each source and unit that has ended: `run_id`, `turn` (NA where the run is the unit), `outcome`
        (success, failure or unknown), `source` (tests, git, reaction), `why` as a sentence, `at` (when what decides it
        happened), `print` and `steps` (the fingerprint of the unit, see `boolab.logs.fingerprint`), `detail` as JSON.

    Raises:
        SettingError: if an option has a value that is not accepted, or a regular expression is none.

    Example:
        >>> import boolab as bl
        >>> run = bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."]))
        >>> bl.outcomes(run)[["outcome", "source", "why"]].values.tolist()[0]
        ['unknown', 'tests', 'no test command was run']
    """
    rows = find_evidence(
        as_runs(runs),
        git=git,
        tests=tests,
        reaction=reaction,
        test_commands=test_commands,
        scope=scope,
        git_options=GitOptions(check_whole(days, "days", 0), into, None if now is None else int(now.timestamp())),
    )
    return frame_of_columns(OUTCOME_COLUMNS, rows)


def evidence_lines(
    runs: Sequence[Run], sources: Collection[str], git: str | Path | None = None, scope: Scope = "auto"
) -> list[Line]:
    """The evidence of some of `SOURCES` for runs, as lines of a file of labels; `git` is the repository of all runs."""
    check_sources(sources)
    if git is not None and "git" not in sources:
        raise SettingError(f"git={str(git)!r}: no evidence of git is asked for: add git to the sources of evidence")
    in_git: bool | str | Path = "git" in sources if git is None else git
    rows = find_evidence(runs, git=in_git, tests="tests" in sources, reaction="reaction" in sources, scope=scope)
    return [_line_of(row) for row in rows]


def check_sources(sources: Collection[str]) -> None:
    """Raise `SettingError` unless evidence is looked for in all of these."""
    unknown = [source for source in sources if source not in SOURCES]
    if unknown:
        raise SettingError(f"evidence of {unknown[0]!r}{near(unknown[0], SOURCES, 'accepted')}")


def _line_of(row: OutcomeRow) -> Line:
    unit, evidence = row
    detail = {"detail": dict(evidence.detail)} if evidence.detail else {}
    facts = {"why": evidence.why, **detail, "by": f"boolab {version('boolab')}"}
    return make_label(unit, evidence.outcome, evidence.source, facts)


def find_evidence(
    runs: Sequence[Run],
    *,
    git: bool | str | Path = False,
    tests: bool = True,
    reaction: bool = True,
    test_commands: Sequence[str] = (),
    scope: Scope = "auto",
    git_options: GitOptions = _GIT_OPTIONS,
) -> list[OutcomeRow]:
    """The evidence of each source for each unit; see `outcomes`."""
    if scope not in ("auto", "turn", "run"):
        raise SettingError(f"scope={scope!r} is not known; accepted: turn, run, auto")
    patterns = _patterns(test_commands)
    rows: list[OutcomeRow] = []
    works: list[tuple[LabelUnit, GitWork]] = []
    for run in runs:
        run_scope = scope_of(run.source) if scope == "auto" else scope
        units = units_of_run(run, run_scope)
        if units:
            sources = [evidence_of_tests(run, patterns, by_turn=run_scope == "turn")] if tests else []
            sources += [evidence_of_reaction(run)] if reaction and run_scope == "turn" else []
            rows += [OutcomeRow(unit, evidence[unit.turn]) for evidence, unit in product(sources, units)]
        if units and git is not False:
            work = work_by_unit(run, by_turn=run_scope == "turn")
            works += [(unit, work[unit.turn]) for unit in units if unit.turn in work]
    evidence_of_work = evidence_of_git([work for _, work in works], git_options, _folder(git))
    rows += [OutcomeRow(unit, evidence) for (unit, _), evidence in zip(works, evidence_of_work, strict=True)]
    return rows


def _folder(git: bool | str | Path) -> Path | None:
    """The folder of the one repository, if there is one."""
    if isinstance(git, bool):
        return None
    folder = user_path(git)
    if not folder.is_dir():
        raise SettingError(f"git={str(git)!r} is no folder: pass that of a repository, or True")
    return folder


def _patterns(test_commands: Sequence[str]) -> list[Pattern]:
    if isinstance(test_commands, str):
        raise SettingError(f"test_commands={test_commands!r} is a text: pass a list of regular expressions")
    try:
        return [compile_pattern(pattern) for pattern in test_commands]
    except ValueError as error:
        raise SettingError(f"test_commands: {error}") from error
