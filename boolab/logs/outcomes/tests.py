"""Evidence from the tests that an agent ran: the last test command after the last change of a file decides.

- A command is one of tests by its words (`boolab.logs.outcomes.runners`), or by a pattern of the user.
- Its own summary decides, whatever the exit code is. Without one, the exit code does, if it is that of the command:
  `pytest | tail`, `pytest; echo done` and `pytest &` have another one, and so has a tool that never fails.
- It is unknown if files changed after the last test, if the runner is not there or did not end, if no test ran, and if
  the tests that fail failed before the first change.

The agent's own tests are not those of a benchmark, and it may have changed them: see docs/evidence.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain
from typing import Final, NamedTuple

from boolab.core.run import Run
from boolab.core.text import count, shorten
from boolab.core.types import Step, ToolResult
from boolab.io.safe_regex import Pattern
from boolab.io.shell import ShellCommand, commands_in
from boolab.logs.outcomes.changes import (
    ExecutedCall,
    FileChange,
    arguments_of,
    changes_of_command,
    changes_of_tool,
    executed_calls,
    is_same_file,
    shell_line,
)
from boolab.logs.outcomes.evidence import Evidence
from boolab.logs.outcomes.label_file import OutcomeWord
from boolab.logs.outcomes.runners import SuiteSummary, find_runner, is_missing_runner, is_unprepared, read_summary

SOURCE: Final = "tests"
_MAX_SHOWN: Final = 120
_MAX_FILES: Final = 1_000
"""So many files that a unit made are remembered."""
_CODE: Final = re.compile(
    r"<returncode>(-?\d{1,9})</returncode>|(?:^|\n)[ \t]{0,9}[Ee]xit[ _]?[Cc]ode[: ]{1,3}(-?\d{1,9})\b"
    r"|\"exit_code\":\s?(-?\d{1,9})\b|(?:finished|exited|completed) with (?:exit )?code:? (-?\d{1,9})\b"
)
"""How harnesses write an exit code into a result."""
_ENVELOPE: Final = 400
"""The exit code stands in so many characters at the beginning or the end of a result."""
_RUNNING: Final = re.compile(
    r"running in (?:the )?background|Process running with session ID|moved to the background|still running"
)
_TIMED_OUT: Final = re.compile(r"\b(?:timed out|timeout|time limit)\b", re.IGNORECASE)
_KILLED: Final = frozenset({124, 130, 137, 143, -1, -2, -9, -15})
_CODES_OF_PYTEST: Final[Mapping[int, str]] = {
    2: "the tests were interrupted",
    3: "the runner failed",
    4: "the runner was called wrongly",
    5: "no test ran",
}
_EXIT_CODES: Final = frozenset(
    {"boolab", "claude_code", "codex", "mini_swe_agent", "opencode", "openhands_v0", "openhands_v1", "pi"}
)
"""The formats in which a command's result is an error if, and only if, its exit code is not 0."""


class SuiteResult(NamedTuple):
    """The result of one test command."""

    outcome: OutcomeWord
    reason: str
    command: str
    summary: SuiteSummary | None = None
    time: datetime | None = None
    step: int = 0


@dataclass(slots=True)
class _Progress:
    """The state of a run after some of its calls: what was changed, and what the tests showed."""

    patterns: Sequence[Pattern]
    changed: bool = False
    """Whether a file was changed in this unit."""
    is_stale: bool = False
    """Whether a file was changed after the last test."""
    earlier: list[SuiteResult] = field(default_factory=list)
    """The results before the first change."""
    last: SuiteResult | None = None
    created: set[str] = field(default_factory=set)
    """The files that the unit itself has made."""
    scripts: set[str] = field(default_factory=set)
    """The programs among them that write files."""

    def start_unit(self) -> None:
        """Begin a unit. The last test of the one before it shows its beginning, if nothing was changed since."""
        self.earlier = [self.last] if self.last is not None and not self.is_stale else []
        self.last, self.changed, self.is_stale = None, False, False
        self.created = set()

    def take_change(self, change: FileChange) -> None:
        """Take note of a change."""
        if change.writes_files and len(self.scripts) < _MAX_FILES:
            self.scripts.add(change.path)
        if change.is_scratch:
            return
        self.changed = self.is_stale = True
        if len(self.created) < _MAX_FILES:
            self.created.add(change.path)

    def take_result(self, suite_result: SuiteResult) -> None:
        """Take note of a result."""
        if not self.changed:
            self.earlier.append(suite_result)
        self.last, self.is_stale = suite_result, False


def evidence_of_tests(run: Run, patterns: Sequence[Pattern] = (), *, by_turn: bool) -> dict[int | None, Evidence]:
    """The evidence of tests for each turn of a run, or for the whole run, whose key is None.

    `patterns`: what else is a test command.
    """
    progress = _Progress(patterns)
    evidence: dict[int | None, Evidence] = {}
    turn: int | None = None
    for step in run.steps:
        if by_turn and step.turn != turn:
            turn = step.turn
            progress.start_unit()
        for call in executed_calls(run, step):
            _take_call(progress, call)
        evidence[turn] = _evidence(progress)
    return evidence or {None: _evidence(progress)}


def _take_call(progress: _Progress, executed: ExecutedCall) -> None:
    run, step, call, result = executed
    arguments = arguments_of(call)
    for change in changes_of_tool(call, arguments, result):
        progress.take_change(change)
    line = shell_line(call, arguments)
    if line is None:
        return
    commands = commands_in(line)
    tests = [command for command in commands if _is_test(command, progress.patterns)]
    is_background = arguments.get("run_in_background") is True or arguments.get("is_background") is True
    suite_result = _result(run, step, tests, result, is_background=is_background) if tests else None
    for command in commands:
        if suite_result is not None and command in tests:
            progress.take_result(suite_result)
        elif suite_result is None or not _is_output(command, commands, tests):
            for change in changes_of_command(command, progress.scripts):
                if command.program != "rm" or not _is_own(progress, change):
                    progress.take_change(change)


def _is_test(command: ShellCommand, patterns: Sequence[Pattern]) -> bool:
    line = " ".join(command.words)
    return bool(find_runner(command.words)) or (bool(line) and any(pattern.is_in(line) for pattern in patterns))


def _is_output(command: ShellCommand, commands: Sequence[ShellCommand], tests: Sequence[ShellCommand]) -> bool:
    """Whether a command only takes the output of tests, such as `tee log`."""
    index = commands.index(command)
    return (
        index > 0
        and commands[index - 1].end == "|"
        and (commands[index - 1] in tests or _is_output(commands[index - 1], commands, tests))
    )


def _is_own(progress: _Progress, change: FileChange) -> bool:
    return any(is_same_file(path, change.path) for path in progress.created)


def _result(
    run: Run, step: Step, tests: Sequence[ShellCommand], result: ToolResult, *, is_background: bool
) -> SuiteResult:
    """The result of the test commands in one call."""
    summary = read_summary(result.content)
    code = None if is_background else _exit_code(run, result)
    outcome, reason = _outcome(tests, result.content, summary, code)
    if (is_background or _RUNNING.search(result.content[:_ENVELOPE])) and summary is None:
        outcome, reason = "unknown", "the tests ran in the background"
    command = shorten(" ".join(tests[-1].words), _MAX_SHOWN)
    return SuiteResult(outcome, reason, command, summary, _end_of(run, step), step.index)


def _outcome(
    tests: Sequence[ShellCommand], output: str, summary: SuiteSummary | None, code: int | None
) -> tuple[OutcomeWord, str]:
    ends = output[:_ENVELOPE] + "\n" + output[-_ENVELOPE:]
    is_killed = code in _KILLED or (code != 0 and _TIMED_OUT.search(ends) is not None)
    n_tests = 0 if summary is None else summary.failed + summary.passed
    if not n_tests and is_missing_runner(output):
        return "unknown", "the test runner, or what it should run, is not there"
    if summary is not None and summary.failed and is_unprepared(output, summary):
        return "unknown", "the tests failed for want of a module or of settings"
    if summary is not None and summary.failed:
        return "failure", f"{count(summary.failed, 'test')} failed, {summary.passed:,} passed"
    if is_killed:
        return "unknown", "the tests did not end"
    if summary is not None:
        if not summary.passed:
            return "unknown", "no test ran"
        return "success", f"{count(summary.passed, 'test')} passed"
    return _outcome_by_code(tests, code)


def _outcome_by_code(tests: Sequence[ShellCommand], code: int | None) -> tuple[OutcomeWord, str]:
    """The outcome without a summary."""
    if code is None:
        return "unknown", "neither a summary of the tests nor an exit code is on record"
    if code == 127:  # noqa: PLR2004 - what a shell returns for a program that it does not find
        return "unknown", "the test runner is not there"
    if code in _CODES_OF_PYTEST and find_runner(tests[-1].words) in ("pytest", "py.test"):
        return "unknown", _CODES_OF_PYTEST[code]
    if code == 0 and all(command.passes for command in tests):
        return "success", "exit code 0"
    if code and len(tests) == 1 and tests[0].fails:
        return "failure", f"exit code {code}"
    return "unknown", "the exit code is not that of the tests"


def _exit_code(run: Run, result: ToolResult) -> int | None:
    """The exit code of a command: as the result has it, or 0 and 1 by whether it is an error, where that shows it."""
    text = result.content
    match = _CODE.search(text[:_ENVELOPE]) or _CODE.search(text[-_ENVELOPE:])
    if match is not None:
        return int(next(code for code in match.groups() if code is not None))
    if run.source not in _EXIT_CODES or result.is_error is None:
        return None
    return int(result.is_error)


def _end_of(run: Run, step: Step) -> datetime | None:
    """When a step ended."""
    if run.started_at is None or step.start_ms is None:
        return None
    return run.started_at + timedelta(milliseconds=step.start_ms + (step.duration_ms or 0))


def _evidence(progress: _Progress) -> Evidence:
    last = progress.last
    if last is None:
        return Evidence("unknown", SOURCE, "no test command was run")
    detail: dict[str, object] = {"command": last.command, "step": last.step}
    if last.summary is not None:
        detail |= {"failed": last.summary.failed, "passed": last.summary.passed}
    outcome, reason = last.outcome, f"{last.reason} in the last test command, after the last change of a file"
    if progress.is_stale:
        outcome, reason = "unknown", f"files were changed after the last test command ({last.reason})"
    elif outcome == "failure" and not progress.changed:
        outcome, reason = "unknown", f"{last.reason}, and no change of a file is on record"
    elif outcome == "failure" and _failed_before(last, progress.earlier):
        outcome, reason = "unknown", f"{last.reason}, and the same tests failed before the first change"
    elif outcome == "unknown":
        reason = f"the last test command shows nothing: {last.reason}"
    elif not progress.changed:
        reason = f"{last.reason} in the last test command; no change of a file is on record"
    return Evidence(outcome, SOURCE, reason, detail, last.time)


def _failed_before(last: SuiteResult, earlier: Iterable[SuiteResult]) -> bool:
    """Whether the tests that fail are among those that failed before; by their number where they are not named."""
    failures = [result for result in earlier if result.outcome == "failure"]
    if not failures:
        return False
    names = last.summary.names if last.summary is not None else frozenset()
    summaries = [result.summary for result in failures if result.summary is not None]
    earlier_names = frozenset(chain.from_iterable(summary.names for summary in summaries))
    if names and earlier_names:
        return names <= earlier_names
    return last.summary is None or last.summary.failed <= max([summary.failed for summary in summaries], default=0)
