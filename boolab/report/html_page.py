"""The report: one self-contained HTML page, for a reader who does not know boolab.

`_Page` prepares the data of the page; the files in `templates` have its sentences, its style and its script.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cached_property, partial
from importlib.metadata import version
from importlib.resources import files
from typing import Any, Final

import numpy as np
from markupsafe import Markup

from boolab.core.text import count, first_of, shorten
from boolab.display.colours import DARK, LIGHT
from boolab.display.html import text_of
from boolab.display.numbers import level, money, percents
from boolab.display.text import capitalize
from boolab.errors import SettingError
from boolab.frames.dtypes import axis_value, is_missing
from boolab.frames.tables import calls_df, runs_df
from boolab.harnesses.exports.export import as_command, target_of
from boolab.harnesses.exports.values import Export
from boolab.harnesses.registry import TARGETS
from boolab.io.csv_export import as_csv
from boolab.io.resources import shared_path
from boolab.limits.catalog import doom_loop, error_streak
from boolab.limits.stop import StopRule
from boolab.limits.table import LIMITS
from boolab.plots import (
    plot_caps,
    plot_heatmap,
    plot_scorecard,
    plot_steps,
    plot_stop_reasons,
    plot_survival,
    plot_tools,
)
from boolab.report.bill_data import bill_data
from boolab.report.caplab_frames import MAX_BYTES, caplab_frames, groups_of_frames
from boolab.report.data_quality import Quality
from boolab.report.figures import Draw, PageFigures
from boolab.report.frontier_chart import frontier_chart
from boolab.report.how_to_set import how_to_set
from boolab.report.html import PageCell, PageTable, render_template
from boolab.report.limit_tables import GroupRows, LimitTables, Listed, declared_limits, linked, listed_cuts
from boolab.report.outcomes import MAX_DISAGREEMENTS, Disagreement, OutcomeSources
from boolab.report.overview import RecordOverview, overview_of
from boolab.report.progress import parts_bar
from boolab.report.run_excerpts import MAX_ROWS, MAX_RUNS, RunBook
from boolab.report.snippets import (
    NOTHING_READ,
    LogInputs,
    front_matter,
    label_command,
    open_run,
    opening_code,
    python,
    shell,
)
from boolab.report.study import MAX_GROUPS, UNITS, CountedUnits, Study
from boolab.report.summary import MAX_ROWS as MAX_AGENTS
from boolab.report.summary import (
    SummaryRow,
    axes_of_rows,
    held_out_words,
    kept_note,
    limit_cell,
    limit_heads,
    summary_frame,
    summary_head,
    summary_rows,
    whom_words,
)
from boolab.report.text import AGENT_HEAD, agent_rows, explained, format_saved, kept_name, which_one
from boolab.stats.recommend.notes import notes_by_kind
from boolab.stats.scorecard.scorecard import scorecard
from boolab.stats.survival import survival
from boolab.whatif.evaluate import counterfactual
from boolab.widgets._base.standalone_html import content_policy, script_digest

_SCRIPT: Final = (files("boolab.report") / "templates" / "page.js").read_text("utf-8")
_FULL_BAR: Final = 0.4
"""A full bar is this share of what was used, or the largest share that is saved, if that is more."""
MAX_CELLS: Final = 14  # on each side of the heat map
MIN_VALUES: Final = 2  # of an axis in a figure
MAX_DOTS: Final = 400  # runs that are drawn one by one
MAX_PAGE_MB: Final = 10
"""So large a page can still be mailed; `MAX_BYTES` of it are pages of CapLab."""


def page_of(
    study: Study,
    *,
    title: str | None = None,
    transcripts: bool = True,
    inputs: LogInputs = NOTHING_READ,
    full: bool = False,
    progress: bool = False,
) -> str:
    """The page; its title is its result, if none is given."""
    return _Page(study, title, transcripts=transcripts, inputs=inputs, full=full).html(progress=progress)


class _Page:
    """What one page shows."""

    def __init__(self, study: Study, title: str | None, *, transcripts: bool, inputs: LogInputs, full: bool) -> None:
        self.study = study
        self.title = title
        self.transcripts = transcripts
        self.inputs = inputs
        self.full = full
        self.most = None if full else MAX_AGENTS
        self.quality = Quality(study, is_shared=True)
        self.figures = PageFigures()
        self.book = RunBook(study, transcripts=transcripts)
        self.summary = summary_rows(study)
        self.lists: dict[str, Listed] = {}
        self.by = list(study.keys) or None
        self.overview = overview_of(study, label_command(study, inputs))

    @cached_property
    def limits(self) -> LimitTables:
        """The tables of each limit, for the groups that are listed, in the order of the summary."""
        return LimitTables(self.study, list(dict.fromkeys(row.key for row in self.summary))[: self.most])

    def html(self, *, progress: bool) -> str:
        study, question = self.study, self.study.question
        parts: dict[str, Callable[[], object]] = {
            "table": self._summary_table,
            "chart": lambda: frontier_chart(study, self.summary, self.figures),
            "data": self._data,
            "outcomes": self._outcomes,
            "declared": lambda: declared_limits(study),
            "axes": lambda: [self._axis(axis) for axis in study.margins],
            "overview": self._overview,
            "together": self._together,
            "lengths": self._lengths,
            "ends": self._ends,
            "money": lambda: bill_data(study.runs),
            "detectors": self._detectors,
            "runs": self._runs,  # the lists of the other parts
        }
        groups = groups_of_frames(study, self.summary)
        with parts_bar("writing the page", len(parts) + len(groups), show=progress) as move:
            data = {}
            for name, made in parts.items():
                data[name] = made()
                move()
            most = None if self.full else MAX_BYTES
            frames = caplab_frames(study, groups, transcripts=self.transcripts, max_bytes=most, move=move)
        ways = self._ways()
        data |= {
            "policy": content_policy([script_digest(_SCRIPT), *dict.fromkeys(frame.digest for frame in frames)]),
            "script": Markup(_SCRIPT),  # noqa: S704 - a file of this package
            "version": version("boolab"),
            "made_at": datetime.now(UTC),
            "light": LIGHT,
            "dark": DARK,
            "title": self.title,
            "headline": self._headline(),
            "size": self._size(),
            "answer": [(lead := _lead(one), one[len(lead) :]) for one in study.found.verdict],
            "csv": base64.b64encode(as_csv(summary_frame(study, self.summary)).encode()).decode(),
            "frames": frames,
            "without": self._without([row.name for row in groups[len(frames) :]]),
            "agents": self._agents(),
            "question": self._question(),
            "sentences": study.found.sentences,
            "explained": explained(study),
            "proxies": [one for one in study.counted_units if one.proxy],
            "mixed": len(study.counted_units) > 1,
            "keep": level(question.keep),
            "broken": self._broken_promise(),
            "sure": level(question.confidence),
            "unsure": level(1 - question.confidence),
            "use": {
                "ways": ways,
                "targets": ", ".join(TARGETS),
                "front_matter": front_matter(study, self.most),
                "python": python(study, self.inputs),
                "shell": shell(study, self.inputs),
                "left": self._left("group", len(how_to_set(study))),
            },
        }
        return render_template("page.html", **data, figure_style=self.figures.style())

    # --- The answer ---------------------------------------------------------------------------------------------------

    def _headline(self) -> str:
        """The answer in a few words."""
        first = self.study.found.verdict[0]
        return _lead(first).rstrip(":.") or first

    def _size(self) -> str:
        counts, question = self.quality.counts, self.study.question
        agents = f"{count(len(self.study.agent_counts), 'agent')}, " if len(self.study.agent_counts) > 1 else ""
        groups = len(self.study.found.groups)
        if groups > 1 and self.study.group_noun != "agent":
            agents = f"{count(groups, self.study.group_noun)}, {agents}"
        base, of = self.study.root_successes
        among = f" of {count(of, self.study.noun)}" if self.study.has_families else ""
        kept = f", {base:,} {self.study.success_noun(base)}{among}" if self.summary else ""
        what = f"{agents}{self.quality.runs_in_words}, {count(counts['steps'], 'step')}{kept}"
        confidence = f"with {level(question.confidence)} confidence"
        goal = f"To keep: {level(question.keep)} of future ones, {confidence}"
        if question.budget is not None:
            goal = f"To cost at most {money(question.budget)}: {level(question.share)} of future ones, {confidence}"
        return " ".join(filter(None, [self.study.found.known, f"{what}.", goal]))

    def _broken_promise(self) -> str:
        """What a setting does that should not have been set."""
        question = self.study.question
        if question.budget is None:
            return f"keeps less than {level(question.keep)}"
        nouns = self.study.nouns
        return f"lets more than {level(1 - question.share)} of {nouns} cost more than {money(question.budget)}"

    def _question(self) -> str:
        question, n_agents = self.study.question, len(self.study.agent_counts)
        whose = f"the {n_agents:,} agents'" if n_agents > 1 else "this agent's"
        if question.budget is not None:
            return (
                f"The question: which limit is the loosest under which {level(question.share)} of {whose} "
                f"{self.study.nouns} cost no more than {money(question.budget)}, at {level(question.confidence)} "
                "confidence, and what does it save?"
            )
        return (
            f"The question: which limits on its loop keep at least {level(question.keep)} of {whose} "
            f"{kept_name(self.study)}, at {level(question.confidence)} confidence, and what do they save?"
        )

    def _summary_table(self) -> dict[str, object] | None:
        """The decision on each group: its limits, what they keep and save, whom they stop, and what held out."""
        has_numbers = any(row.evidence for row in self.summary)
        if not has_numbers and len(self.summary) <= 1:
            return None  # its one row would say what the answer does
        axes = axes_of_rows(self.study, self.summary)
        most = max(_FULL_BAR, *(row.saved_share or 0 for row in self.summary))
        rows, listed = [], self.summary[: self.most]
        shares = percents([row.saved_share if row.evidence else None for row in listed])
        for place, row in enumerate(listed):
            share = row.saved_share
            rows.append({
                "name": row.title, "data": row.data, "set": row.is_set, "by_itself": row.by_itself,
                "runs": f"{row.group.units.n_runs:,}",
                "limits": [limit_cell(row, axis) for axis in axes], "reason": capitalize(row.reason),
                "kept": row.kept_words if row.evidence or not row.successes else "",
                "kept_note": kept_note(row, self.study.question.keep),
                "to": self._stopped(row, place),
                "bar": f"{100 * share / most:.1f}" if share is not None and (row.is_set or row.by_itself) else None,
                "share": "not known" if row.evidence and share is None else shares[place],
                "interval": row.interval,
                "saved": format_saved(self.study.measure, row.saved) if row.evidence else "",
                "whom": "" if row.by_itself else whom_words(row.group),
                "held_out": "" if row.by_itself or not row.evidence else held_out_words(row.group),
            })  # fmt: skip
        return {
            "numbers": has_numbers,
            "head": summary_head(self.study),
            "axes": limit_heads(self.summary, axes),
            "noun": self.study.nouns,
            "kept": f"{kept_name(self.study).partition(' (')[0]} kept",
            "saved": f"{UNITS[self.study.measure]} saved",
            "rows": rows,
            "left": self._left("group", len(self.summary)),
        }

    @property
    def _command(self) -> str:
        """The command that makes this page with all groups and all pages of CapLab."""
        more = ["--full"] if self.transcripts else ["--full", "--no-transcripts"]
        return shell(self.study, self.inputs, "report", more)

    def _left(self, what: str, n: int) -> tuple[str, str] | None:
        """What is not on the page, with the command that shows it; None where everything is."""
        left = 0 if self.most is None else n - self.most
        if left <= 0:
            return None
        return f"{count(left, f'further {what}')} not shown. This command shows all:", self._command

    def _without(self, names: Sequence[str]) -> tuple[str, str] | None:
        """Which groups have no CapLab on the page, with the command that adds them."""
        if not names:
            return None
        left_out = f"Left out to keep the page below {MAX_PAGE_MB} MB: {first_of(names, MAX_AGENTS)}."
        return f"{left_out} This command adds them:", self._command

    def _stopped(self, row: SummaryRow, place: int) -> str:
        """The name of the list of the runs that a row's setting stops; "" if there are none."""
        limits = row.evidence
        cuts = self.study.find_stopped(limits, row.key)
        if not cuts:
            return ""
        to = f"stopped-{place}"
        name = ", ".join(f"{LIMITS[axis].label} {axis_value(axis, value)}" for axis, value in limits.items())
        self.lists[to] = listed_cuts(self.study, name, cuts, group=row.key)
        return to

    def _agents(self) -> dict[str, object] | None:
        """The agents of these runs, if there are several."""
        if len(self.study.agent_counts) <= 1:
            return None
        return {"question": which_one(self.study), "table": PageTable(AGENT_HEAD, agent_rows(self.study), (2, 3, 4))}

    def _ways(self) -> list[dict[str, object]]:
        """How the setting of each group is set: for the harness of the logs, as a command, and for each other one."""
        return [
            {
                "group": way.group,
                "words": way.limits.in_words(),
                "own": None if way.export is None else self._export(way.export),
                "command": as_command(way.limits),
                "others": [self._export(other) for other in way.others if other.target != "boolab"],
            }
            for way in how_to_set(self.study)[: self.most]
        ]

    def _export(self, export: Export) -> tuple[str, str]:
        return target_of(export.target).title, export.text

    # --- The data -----------------------------------------------------------------------------------------------------

    def _data(self) -> dict[str, object]:
        censored = ""
        if self.quality.cut:
            n = count(len(self.quality.cut), self.study.noun, self.study.nouns)
            censored = f"{n} stopped by a limit of the recording, or failed"
            self.lists["cut-off"] = Listed(censored, units=self.quality.cut)
        sentences = list(self.quality.sentences())
        return {"sentences": sentences, "censored": censored, "files": self._files()}

    def _files(self) -> dict[str, object] | None:
        skipped, warnings = self.quality.skipped, self.quality.warnings
        if not skipped and not warnings:
            return None
        rows = [[row.path, str(row.skipped)] for row in skipped[:MAX_ROWS]]
        rows += [["", warning] for warning in warnings[:MAX_ROWS]]
        left = len(skipped) + len(warnings) - len(rows)
        note = f"{left:,} more not listed." if left else ""
        return {"title": str(self.quality.problems), "table": PageTable(["file", "why"], rows, note=note)}

    def _outcomes(self) -> dict[str, object]:
        """What each source of labels and of evidence reports, and where they differ."""
        study = self.study
        sources = OutcomeSources(study.runs, study.loaded_logs.unit_lines, study.question.trust, study.found.known)
        if not sources.is_several:
            return {"sentence": sources.sentence, "table": None}
        heads = ("source", "success", "failure", "unknown", "agrees with labels by hand")
        rows = [
            [row.words, f"{row.success:,}", f"{row.failure:,}", f"{row.unknown:,}", row.agreement]
            for row in sources.rows
        ]
        return {
            "sentence": sources.sentence,
            "table": PageTable(heads, rows, (1, 2, 3, 4)),
            "notes": list(sources.notes()),
            "title": sources.title,
            "opening": opening_code(self.study, self.inputs),
            "differing": [*map(self._disagreement, sources.disagreements[:MAX_DISAGREEMENTS])],
        }

    def _disagreement(self, disagreement: Disagreement) -> tuple[PageCell, int | None, str, str]:
        """A unit about which sources differ: a link to its run, what they report, and the code that opens it."""
        unit = disagreement.unit
        run_units = [index for index, (_, run, _) in enumerate(self.study.units) if run == disagreement.run]
        cell = PageCell(shorten(unit.run_id, 28), code=True)
        if run_units:
            self.book.want(run_units[:1])
            cell = self.book.link(run_units[0])
        return cell, unit.turn, disagreement.words, open_run(unit.run_id, unit.last_step)

    def _overview(self) -> dict[str, object] | None:
        """What runs show where no limit is shown yet to keep enough; None where some is."""
        if self.overview is None:
            return None
        self.book.want(unit for unit, _ in self.overview.to_open)
        rows: list[list[str | PageCell]] = []
        for unit, why in self.overview.to_open:
            mark, _, steps = self.overview.run_cells(unit)
            rows.append([mark, self.book.link(unit), self.study.tasks[self.study.units[unit].of][:60], steps, why])
        limit, units = self.overview.to_label
        if units:
            title = f"Runs to label next{f': those that {limit} would stop' if limit else ''}"
            self.lists["to-label"] = Listed(title, units=units)
        return {
            "title": self.overview.title,
            "sentences": list(self.overview.sentences()),
            "figure": self._dots(self.overview),
            "open": PageTable(["", "run", "task", "length", "why"], rows, (3,), "runs") if rows else None,
            "label": self.overview.label_sentence(),
            "label_command": self.overview.label_command,
            "listed": bool(units),
        }

    def _dots(self, overview: RecordOverview) -> Markup:
        """A figure of the lengths of these runs, by outcome."""
        if len(overview.units) > MAX_DOTS:
            return Markup()
        return self._figure(overview.draw, "Each dot is a run, by how many steps it takes and its outcome.", height=2.6)

    # --- Each limit ---------------------------------------------------------------------------------------------------

    def _axis(self, axis: str) -> dict[str, object]:
        name = LIMITS[axis].label
        shown = self.limits.rows[axis]
        drawn = sum(row.stopped > 0 for group in shown for row in group.rows) > MIN_VALUES
        return {
            "key": axis,
            "title": capitalize(name),
            "meaning": f"A {name} stops a {self.study.noun} {LIMITS[axis].meaning}.",
            "figure": Markup().join(self._caps(axis)) if drawn else Markup(),
            "tables": self.limits.tables(axis),
            "left_out": self._left("group", len(list(self.study.groups(axis)))),
        }

    def _caps(self, axis: str) -> Iterator[Markup]:
        """A figure of a limit; one of the groups with labels, and one of those without, where there are both."""
        caption = f"What each {LIMITS[axis].label} keeps and saves, the other limits off."
        kinds: dict[CountedUnits, list[GroupRows]] = {}
        for group in self.limits.rows[axis]:
            kinds.setdefault(self.study.counted_units_of(group.key), []).append(group)
        for shown in kinds.values():
            yield self._figure(self._caps_drawing(axis, shown), caption, panels=len(shown) > MAX_GROUPS)

    def _caps_drawing(self, axis: str, shown: Sequence[GroupRows]) -> Draw:
        frame = self.study.margins[axis]
        if self.by:
            first = [group.key for group in shown]
            parts = [part for key, part in self.study.groups(axis) if key in first]
            frame = frame.loc[[index for part in parts for index in part.index]]
        measure: Any = self.study.measure if frame[f"saved_{self.study.measure}"].notna().any() else "steps"
        marked = {row.value for group in shown for row in group.rows if row.mark == "set"}
        best = float(marked.pop() or 0) if len(marked) == 1 and not self.by else None
        return partial(plot_caps, frame, axis=axis, saved=measure, recommended=best)

    def _together(self) -> Markup | None:
        """A step cap and a tool budget against one another; None where there is too little, or several groups."""
        axes = [axis for axis in ("max_steps", "tool_budget") if axis in self.study.margins]
        grid = {axis: self._thinned(axis) for axis in axes}
        few = len(axes) < MIN_VALUES or any(len(values) < MIN_VALUES for values in grid.values())
        if few or self.by or not self.study.units:
            return None
        question, table = self.study.question, self.study.aggregate(grid)
        caption = "Kept on record, by step cap and tool budget; the other limits off."
        return self._figure(partial(plot_heatmap, table, keep=question.keep), caption, height=4.6)

    def _thinned(self, axis: str) -> list[Any]:
        values = [v for v in dict.fromkeys(self.study.margins[axis][axis].tolist()) if not is_missing(v)]
        shown = [row.value for group in self.limits.rows[axis] for row in group.rows if row.value is not None]
        values = [value for value in values if not shown or value <= max(shown)]
        step = -(-len(values) // MAX_CELLS)
        return values[:: max(step, 1)]

    # --- The runs, in figures -----------------------------------------------------------------------------------------

    def _lengths(self) -> dict[str, object]:
        found = survival(self.study.runs, by=self.by, scope=self.study.question.scope)
        going = "The share still running after each number of steps, with its interval."
        return {
            "title": found.title,
            "survival": self._figure(partial(plot_survival, found), going, panels=self._many),
            "sentences": found.sentences,
            "notes": found.notes,
            "steps": Markup().join(self._steps()),
        }

    def _steps(self) -> Iterator[Markup]:
        """How long the units are: a figure of runs, or of turns; one of each where some groups have labels only."""
        frame = self.study.units_frame()
        nouns = [self.study.counted_units_of(key).noun for key in self.study.unit_keys]
        for noun in dict.fromkeys(one.noun for one in self.study.counted_units):
            units = frame.loc[np.array([own == noun for own in nouns], dtype=bool)]
            caption = f"How many {noun}s took how many steps, by the reason that ended them."
            yield self._figure(partial(plot_steps, units, by=self.by, unit=noun), caption)

    def _ends(self) -> dict[str, Markup]:
        runs = runs_df(self.study.runs).assign(task=self.study.tasks)
        calls = calls_df(self.study.runs)
        why = "Why the recorded runs ended."
        return {
            "reasons": self._figure(partial(plot_stop_reasons, runs, by=self.by), why, height=2.4),
            "tools": self._figure(partial(plot_tools, calls), "Calls by tool.") if len(calls) else Markup(),
        }

    def _detectors(self) -> dict[str, object]:
        rules = [doom_loop(3), doom_loop(3, "call+result"), error_streak(3)]
        question = self.study.question
        how: dict[str, Any] = {"by": self.by, "scope": question.scope, "confidence": question.confidence}
        kinds = self.study.kinds
        each = [scorecard(runs, rules, **how) for _, runs in kinds]
        notes = [(keys, found.notes) for (keys, _), found in zip(kinds, each, strict=True)]
        data: dict[str, object] = {
            "alarms": None,
            "sentences": [sentence for found in each for sentence in found.sentences],
            "notes": list(notes_by_kind(notes)),
        }
        some = [found for found in each if (found.frame["alarms"].fillna(0) > 0).any()]
        if some:
            caption = "Precision and recall, with their counts and intervals."
            draws = [partial(plot_scorecard, found) for found in some]
            data["figure"] = Markup().join(self._figure(draw, caption, panels=self._many) for draw in draws)
            data["alarms"] = self._alarms(rules)
        return data

    def _alarms(self, rules: Sequence[StopRule]) -> PageTable:
        """In which runs each detector raises an alarm."""
        stopped = counterfactual([unit.run for unit in self.study.units], rules=rules, scope=self.study.question.scope)
        rows: list[list[str | PageCell]] = []
        for number, rule in enumerate(rules):
            mine = stopped[stopped["rule"] == str(rule)].reset_index(drop=True)
            units = [int(place) for place in mine.index[mine["outcome"].isin(("truncated", "not_identified"))]]
            runs = len({self.study.units[unit].of for unit in units})
            if units:
                self.lists[f"alarm-{number}"] = Listed(f"{rule}: alarms in {count(runs, 'run')}", units=units)
            is_known = bool((mine["outcome"] != "unknown").any())
            rows.append([str(rule), linked(runs, f"alarm-{number}" if units else "") if is_known else "not known"])
        return PageTable(["detector", "runs with an alarm"], rows, (1,))

    @property
    def _many(self) -> bool:
        """Whether there are too many groups for lines in one figure."""
        return len({row.key for row in self.summary}) > MAX_GROUPS

    def _figure(self, draw: Draw, caption: str, height: float = 3.8, *, panels: bool = False) -> Markup:
        """A figure; if it cannot be drawn, the reason."""
        try:
            return self.figures.draw(draw, caption, height=height, panels=panels)
        except SettingError as error:
            return Markup('<p class="note">{}</p>').format(text_of(f"Not drawn ({caption}): {error}"))

    # --- The runs behind the numbers ----------------------------------------------------------------------------------

    def _runs(self) -> dict[str, object]:
        self._choose()
        homes = sorted(set(self.study.homes))
        entries = list(self.book.entries())
        n, whole = len(entries), len(self.study.runs)
        which = "all" if n == whole else f"{n:,} of {whole:,} (at most {MAX_RUNS}: those that a limit stops first)"
        what = "Excerpts" if self.transcripts else "Facts"
        return {
            "home": shared_path(homes[0]) if len(homes) == 1 else "",
            "groups": self._lists(),
            "which": f"{what} of {which} runs; long ones show their beginning and their end.",
            "entries": entries,
        }

    def _lists(self) -> list[tuple[str, list[tuple[str, str, PageTable]]]]:
        """The lists of each group, in the order of the summary; first those that belong to none."""
        names = {"": ""} | {row.key: row.name for row in self.summary}
        found: dict[str, list[tuple[str, str, PageTable]]] = {key: [] for key in names}
        for to, one in {**self.lists, **self.limits.lists}.items():
            table = self.book.cuts(one.cuts, one.unit) if one.cuts else self.book.units(one.units)
            found[one.group].append((to, one.title, table))
        return [(names[key], lists) for key, lists in found.items() if lists]

    def _choose(self) -> None:
        """Choose the runs that get an entry: those that the recommendation or the loosest limits stop come first."""
        recommended = [one.cuts for to, one in self.lists.items() if to.startswith("stopped-")]
        marked = sorted(self.limits.stops, key=lambda item: (item[0].mark != "set", -(item[0].value or 0)))
        stops = [*recommended, *(cuts for _, cuts in marked)]
        for cuts in stops:
            self.book.want(cut.unit for cut in cuts if cut.success)
        self.book.want(self.quality.cut)
        for cuts in stops:
            self.book.want(cut.unit for cut in cuts)
        self.book.want(range(len(self.study.units)))


def _lead(sentence: str) -> str:
    """The beginning of a sentence of the answer that is set in bold: up to its first colon or full stop."""
    ends = [place for mark in (": ", ". ") if (place := sentence.find(mark)) > 0]
    return sentence[: min(ends) + 1] if ends else ""
