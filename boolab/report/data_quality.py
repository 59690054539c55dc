"""The quality of the data: what was read and what was not, what the source lacks, what was censored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Final, NamedTuple

from boolab.core.endings import has_unexecuted_finish
from boolab.core.run import steps_in
from boolab.core.text import clean, count, shorten
from boolab.core.types import REDACTED, results_in
from boolab.display.numbers import format_runs
from boolab.frames.runs import turns_of
from boolab.io.resources import shared_path
from boolab.logs.load import LABELS, FileRow
from boolab.logs.problems import Problems, problems_of
from boolab.report.study import Study

MAX_REASONS: Final = 5  # for skipped files
MAX_WARNINGS: Final = 3
MAX_IDS: Final = 3  # of runs with calls that were never executed


class Gap(NamedTuple):
    """A field that some of the records lack: of how many, out of how many, and what follows from it."""

    field: str
    lacking: int
    of: int
    noun: str
    so: str


@dataclass(frozen=True)
class Quality:
    """The data of a study, counted.

    `is_shared`: whether others read it, so that no path of this machine is in it.
    """

    study: Study
    is_shared: bool = False

    @cached_property
    def files(self) -> tuple[FileRow, ...]:
        """What happened to each file."""
        files = self.study.loaded_logs.files
        return tuple(map(_share_paths, files)) if self.is_shared else files

    @cached_property
    def problems(self) -> Problems:
        """What could not be read."""
        return problems_of(self.files)

    @property
    def skipped(self) -> tuple[FileRow, ...]:
        """The files that were not read."""
        return self.problems.skipped

    @cached_property
    def inconsistent(self) -> list[str]:
        """The figures of logs that differ from what was read of them, with their paths."""
        return [f"{row.path}: {text}" for row in self.files for text in row.inconsistencies]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What could not be read in the files that were read, with path and line, and what is inconsistent."""
        return self.problems.warnings

    @cached_property
    def reasons(self) -> list[tuple[str, int]]:
        """Why files were skipped, and how many for each reason."""
        return Counter(str(row.skipped) for row in self.skipped).most_common()

    @cached_property
    def formats(self) -> list[tuple[str, int]]:
        """The formats that were read, and how many files had each."""
        return Counter(str(row.format) for row in self.files if row.skipped is None).most_common()

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """The counts of files, runs, steps, calls and labels."""
        runs = self.study.runs
        return {
            "files": len(self.files),
            "files_read": len(self.files) - len(self.skipped),
            "bytes": sum(row.bytes for row in self.files),
            "runs": len(runs),
            "turns": sum(len([*turns_of(run)]) for run in runs),
            "tasks": len({*self.study.tasks} - {""}),
            "steps": sum(run.n_steps for run in runs),
            "tool_calls": sum(run.n_tool_calls for run in runs),
            "labelled": sum(run.success is not None for run in runs),
            "labelled_success": sum(run.success is True for run in runs),
        }

    @property
    def runs_in_words(self) -> str:
        """How many runs there are, with their turns where these are counted, and how many are of subagents."""
        turns = len(self.study.units) if any(unit.turn is not None for unit in self.study.units) else None
        return format_runs(len(self.study.runs), turns, self.study.is_root.count(False))

    @cached_property
    def cut(self) -> list[int]:
        """The units that are censored."""
        return [index for index, unit in enumerate(self.study.units) if unit.run.censored]

    @cached_property
    def unexecuted(self) -> list[str]:
        """The ids of the runs that report that they finished, with calls that were never executed."""
        return [run.run_id for run in self.study.runs if has_unexecuted_finish(run)]

    @cached_property
    def gaps(self) -> list[Gap]:
        """What the source lacks, wholly or in part."""
        steps = [*steps_in(self.study.runs)]
        results = [*results_in(steps)]
        calls = [*chain.from_iterable(step.response.tool_calls for step in steps)]
        return [
            *_gaps(steps, _OF_STEPS, "step"),
            *_gaps(calls, _OF_CALLS, "tool call"),
            *_gaps(results, _OF_RESULTS, "tool result"),
            *_gaps(self.study.runs, _OF_RUNS, "run"),
        ]

    def sentences(self) -> Iterator[str]:
        """The quality in sentences, what was not read first."""
        n = self.counts
        formats = ", ".join(name for name, _ in self.formats)
        yield f"Read {n['files_read']:,} of {count(n['files'], 'file')}{f' ({formats})' if formats else ''}."
        if self.skipped:
            yield f"Skipped {count(len(self.skipped), 'file')}: {self.why_skipped()}."
        if self.inconsistent:
            figures = count(len(self.inconsistent), "figure")
            verb = "differs" if len(self.inconsistent) == 1 else "differ"
            yield f"{figures} of the logs {verb} from what was read: {_first_lines(self.inconsistent)}."
        of_labels = [warning for row in self.files if row.format == LABELS for warning in row.warnings]
        if of_labels:
            yield f"What is known of the outcomes: {_first_lines(of_labels)}."
        warnings = [warning for warning in self.warnings if warning not in {*self.inconsistent, *of_labels}]
        if warnings:
            files = "the file that was read" if self.counts["files_read"] == 1 else "files that were read"
            yield f"{count(len(warnings), 'warning')} about {files}: {_first_lines(warnings)}."
        if self.unexecuted:
            yield self.why_unexecuted()
        yield from self.study.found.notes
        if self.cached is not None:
            part, total, n_steps = self.cached
            steps = count(n_steps, "step")
            yield f"{total:,} input tokens in {steps}, {100 * part / total:.1f}% of them cached, which cost less."
        yield from self.missing()

    def why_skipped(self) -> str:
        """The reasons, the most frequent first."""
        reasons = [f"{reason} ({n:,})" if n > 1 or len(self.reasons) > 1 else reason for reason, n in self.reasons]
        n_left_out = len(reasons) - MAX_REASONS
        rest = f"; and {count(n_left_out, 'further reason')}" if n_left_out > 0 else ""
        return "; ".join(reasons[:MAX_REASONS]) + rest

    def why_unexecuted(self) -> str:
        """How many runs report that they finished with calls that were never executed, and the first of them."""
        ids, runs = self.unexecuted, self.study.runs
        rest = f", and {len(ids) - MAX_IDS:,} more" if len(ids) > MAX_IDS else ""
        verb = "reports" if len(ids) == 1 else "report"
        return (
            f"{len(ids):,} of {count(len(runs), 'run')} {verb} finished with calls that were never executed: "
            f"{', '.join(shorten(run_id) for run_id in ids[:MAX_IDS])}{rest}. bl.finish_reasons_df shows which finish "
            "reasons came with calls."
        )

    @property
    def cached(self) -> tuple[int, int, int] | None:
        """The cached input tokens and all input tokens, over the steps that have both; and how many these are."""
        usages = [step.response.usage for step in steps_in(self.study.runs)]
        pairs = [(u.cached_tokens, u.input_tokens) for u in usages if None not in (u.cached_tokens, u.input_tokens)]
        part, total = sum(cached or 0 for cached, _ in pairs), sum(entered or 0 for _, entered in pairs)
        return (part, total, len(pairs)) if part else None

    def missing(self) -> Iterator[str]:
        """What the source lacks."""
        objective, measure = self.study.question.objective, self.study.measure.removesuffix("_usd")
        field_in_note = objective if objective != measure else ""  # a note of the recommendation names it
        full_gaps = [gap for gap in self.gaps if gap.lacking == gap.of and gap.field != field_in_note]
        if full_gaps:
            yield f"The source does not record: {'; '.join(f'{gap.field}{gap.so}' for gap in full_gaps)}."
        for gap in self.gaps:
            if gap.lacking < gap.of:
                lack = "lacks" if gap.lacking == 1 else "lack"
                yield f"{gap.lacking:,} of {count(gap.of, gap.noun)} {lack} {gap.field}{gap.so}."
                if gap.field == _FAILED:
                    failed = sum(result.is_error is True for result in results_in(steps_in(self.study.runs)))
                    yield f"At least {count(failed, 'tool call')} failed."
        if measure in ("tokens", "cost"):
            yield from self._counted_in(measure)

    def _counted_in(self, measure: str) -> Iterator[str]:
        """What the amounts that are shown as saved count, where other counts differ: not a unit with unknown steps."""
        axis, frame = next(iter(self.study.margins.items()))
        off_rows = frame[frame[axis].isna()]
        n, unknown = int(off_rows["n_runs"].sum()), int(off_rows[f"n_unknown_{measure}"].sum())
        if unknown == n:
            return
        known_units = f"the {n - unknown:,} of {count(n, self.study.noun, self.study.nouns)} in which no step lacks"
        if measure == "tokens" and (unknown or self.cached):
            yield f"Tokens saved are input and output together{f', in {known_units} tokens' if unknown else ''}."
        elif unknown:
            yield f"Cost saved is that of {known_units} a cost."


def _share_paths(row: FileRow) -> FileRow:
    """The row with its path as others may read it, also in its texts."""
    path = shared_path(row.path)
    skipped = None if row.skipped is None else row.skipped.replace(row.path, path)
    warnings = tuple(warning.replace(row.path, path) for warning in row.warnings)
    return row._replace(path=path, skipped=skipped, warnings=warnings)


def _first_lines(lines: Sequence[str]) -> str:
    """The first lines, and how many more there are."""
    rest = f"; and {len(lines) - MAX_WARNINGS:,} more" if len(lines) > MAX_WARNINGS else ""
    return "; ".join(map(clean, lines[:MAX_WARNINGS])) + rest


_Lacks = Sequence[tuple[str, Callable[[Any], bool], str]]
"""Of each field its name, whether a record lacks it, and what follows from that."""


_FAILED: Final = "whether the call failed"
_OF_STEPS: Final[_Lacks] = (
    ("tokens", lambda step: None in (step.response.usage.input_tokens, step.response.usage.output_tokens), ""),
    ("cost", lambda step: step.response.usage.cost is None, ""),
    ("times", lambda step: step.start_ms is None, ""),
)
_OF_RESULTS: Final[_Lacks] = (
    (_FAILED, lambda result: result.is_error is None, " (so that error streaks are not known)"),
)
_OF_CALLS: Final[_Lacks] = (
    ("the arguments", lambda call: call.arguments == REDACTED, " (so that repeats are not known)"),
)
_OF_RUNS: Final[_Lacks] = (
    ("the model", lambda run: not run.model, ""),
    (
        "the task",
        lambda run: not run.task,
        " (so that runs of one task cannot be recognized, and bounds may be too tight)",
    ),
)


def _gaps(records: list[Any], lacks: _Lacks, noun: str) -> Iterator[Gap]:
    for name, test, consequence in lacks:
        lacking = sum(map(test, records))
        if lacking:
            yield Gap(name, lacking, len(records), noun, consequence)
