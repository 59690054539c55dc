"""What a turn or a run did in a repository, by its own record: the commits that it names and the lines that it wrote.

A commit is its own if a result of `git commit` (or another command that makes commits) names it: `[main 1a2b3c4] Fix`.
No time decides whose a commit is: two sessions may work in one hour.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import chain
from typing import Final, NamedTuple

from boolab.core.run import Run
from boolab.core.types import Step
from boolab.io.git.history import split_lines
from boolab.io.shell import ShellCommand, commands_in
from boolab.logs.outcomes.changes import (
    ExecutedCall,
    FileChange,
    arguments_of,
    changes_of_command,
    changes_of_tool,
    executed_calls,
    shell_line,
)

MAX_LINES: Final = 20_000
"""So many lines of a unit are looked for."""
_COMMIT: Final = re.compile(r"^\[[^\]\n]{0,250}?\b([0-9a-f]{7,40})\] ", re.MULTILINE)
_OID: Final = re.compile(r"[0-9a-f]{7,64}")
_MAKES_COMMITS: Final = frozenset({"commit", "revert", "cherry-pick", "merge", "rebase", "am", "pull"})
_MAX_RESULT: Final = 200_000
_MIN_CHARS: Final = 8
_WORD: Final = re.compile(rb"[A-Za-z]{3}")
_GENERIC: Final = re.compile(
    rb"return(?:none|null|nil|true|false|self|this|0|err|result)?;?|continue;?|break;?|else:?\{?|finally:?\{?|try:?\{?"
    rb"|import(?:os|sys|re|json|logging|pytest|numpyasnp|pandasaspd|reactfrom['\"]react['\"];?)|pass|default:|endif"
    rb"|from__future__importannotations|fromtypingimport\w{1,20}|defmain\(\)(?:->none)?:|if__name__==['\"]__main__['\"]:|main\(\)"
    rb"|#!/usr/bin/env\w{1,10}|#!/bin/(?:ba)?sh|packagemain|<!doctypehtml>|</?\w{1,10}>|\"?strict\"?:true,?|[\"']usestrict[\"'];?",
    re.IGNORECASE,
)
"""Lines that anybody may write, in lower case and without whitespace."""


class GitWork(NamedTuple):
    """The work of a turn or a run.

    Attributes:
        folder: The folder that it ran in; "" where that is not on record.
        start: When it began, in seconds since 1970; None where the log has no times.
        end: When it ended.
        commits: The names of its commits, as far as its results have them.
        changes: The changes of files whose text is on record.
        head: The commit that was checked out when the run began; "" where that is not on record.
    """

    folder: str
    start: int | None
    end: int | None
    commits: tuple[str, ...] = ()
    changes: tuple[FileChange, ...] = ()
    head: str = ""


def work_by_unit(run: Run, *, by_turn: bool) -> Mapping[int | None, GitWork]:
    """The work of each turn of a run, or of the whole run, whose key is None."""
    groups: dict[int | None, list[Step]] = {}
    for step in run.steps:
        groups.setdefault(step.turn if by_turn else None, []).append(step)
    return {turn: _work(run, steps) for turn, steps in groups.items()}


def _work(run: Run, steps: Sequence[Step]) -> GitWork:
    calls = [*chain.from_iterable(executed_calls(run, step) for step in steps)]
    changes = [change for change in chain.from_iterable(map(_changes, calls)) if change.added]
    commits = dict.fromkeys(chain.from_iterable(map(_commits, calls)))
    return GitWork(
        run.cwd or "",
        _seconds(run, steps[0].start_ms),
        _seconds(run, None if steps[-1].start_ms is None else steps[-1].start_ms + (steps[-1].duration_ms or 0)),
        tuple(commits),
        tuple(changes),
        head if _OID.fullmatch(head := (run.git_commit or "").lower()) else "",
    )


def _seconds(run: Run, milliseconds: int | None) -> int | None:
    if run.started_at is None:
        return None
    return int((run.started_at + timedelta(milliseconds=milliseconds or 0)).timestamp())


def _changes(executed: ExecutedCall) -> Iterator[FileChange]:
    arguments = arguments_of(executed.call)
    yield from changes_of_tool(executed.call, arguments, executed.result)
    line = shell_line(executed.call, arguments)
    if line is not None and executed.result.is_error is not True:
        yield from chain.from_iterable(map(changes_of_command, commands_in(line)))


def _commits(executed: ExecutedCall) -> list[str]:
    """The commits that a result names, if its command makes commits."""
    matches = _COMMIT.findall(executed.result.content[:_MAX_RESULT])
    if not matches:
        return []
    line = shell_line(executed.call, arguments_of(executed.call))
    if line is None:
        return matches if "commit" in executed.call.name.lower() else []
    return matches if any(map(_makes_commits, commands_in(line))) else []


def _makes_commits(command: ShellCommand) -> bool:
    return command.program == "git" and not _MAKES_COMMITS.isdisjoint(command.words)


def own_lines(changes: Sequence[FileChange]) -> list[bytes]:
    """The lines that changes added and that are specific, each once, without whitespace."""
    lines: dict[bytes, None] = {}
    for change in changes:
        removed = set(split_lines(change.removed.encode("utf-8", "replace")))
        added = split_lines(change.added.encode("utf-8", "replace"))
        lines |= dict.fromkeys([line for line in added if line not in removed and is_specific(line)])
        if len(lines) > MAX_LINES:
            break
    return list(lines)[:MAX_LINES]


def is_specific(line: bytes) -> bool:
    """Whether a line without whitespace is long enough, and not one that anybody may write."""
    return len(line) >= _MIN_CHARS and _WORD.search(line) is not None and _GENERIC.fullmatch(line) is None
