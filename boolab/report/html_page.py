"""The report: one self-contained HTML page, for a reader who does not know boolab.

`_Page` prepares the data of the page; `templates/page.html` has its sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Final, NamedTuple

from markupsafe import Markup
from matplotlib.axes import Axes

from boolab.core.axes import AXES
from boolab.core.text import count, level, percent, span
from boolab.counterfactuals.evaluate import counterfactual
from boolab.errors import SettingError
from boolab.exports.command import as_command
from boolab.exports.export import TARGETS
from boolab.frames.dtypes import axis_value, is_missing
from boolab.plots import (
    plot_caps,
    plot_heatmap,
    plot_scorecard,
    plot_steps,
    plot_stop_reasons,
    plot_survival,
    plot_tools,
)
from boolab.report.data_quality import Quality
from boolab.report.declared import declared_limits
from boolab.report.figures import DARK, LIGHT, Figures
from boolab.report.how_to_set import how_to_set
from boolab.report.html import Cell, Table, rendered, text_of
from boolab.report.run_excerpts import MAX_ROWS, MAX_RUNS, RunBook
from boolab.report.snippets import NOTHING_READ, Sources, front_matter, python, shell
from boolab.report.study import Cut, Row, Study
from boolab.report.text import MAKER_HEAD, UNITS, explained, kept_name, maker_rows, measures, saved, which_one
from boolab.rules.catalog import doom_loop, error_streak
from boolab.rules.stop import StopRule
from boolab.stats.scorecard.scorecard import scorecard
from boolab.stats.survival import survival

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
"""What the page may do: no script, nothing from elsewhere, no form."""

MAX_CELLS: Final = 14  # on each side of the heat map
MAX_GROUPS: Final = 6
MIN_VALUES: Final = 2  # of an axis in a figure
_MARKS: Final = {"recommended": "recommended", "tightest": "tightest that loses none", "": ""}


def page_of(
    study: Study, *, title: str | None = None, transcripts: bool = True, sources: Sources = NOTHING_READ
) -> str:
    """The page.

    Args:
        study: The data, the question and the results.
        title: The title of the page; by default its result.
        transcripts: Whether to show excerpts of the runs' messages and calls.
        sources: What was read, for the code on the page.
    """
    return _Page(study, title, transcripts=transcripts, sources=sources).html()


class _Listed(NamedTuple):
    """A list of runs on the page, by its name there: those that a limit stops (`cuts`), or some units."""

    title: str
    cuts: Sequence[Cut] = ()
    unit: str = ""
    units: Sequence[int] = ()


class _Page:
    """What one page shows."""

    def __init__(self, study: Study, title: str | None, *, transcripts: bool, sources: Sources) -> None:
        self.study = study
        self.title = title
        self.transcripts = transcripts
        self.sources = sources
        self.quality = Quality(study)
        self.figures = Figures()
        self.book = RunBook(study, transcripts=transcripts)
        self.lists: dict[str, _Listed] = {}
        self.stops: list[tuple[Row, list[Cut]]] = []
        self.rows = {axis: self._rows(axis) for axis in study.margins}

    def html(self) -> str:
        study, question = self.study, self.study.question
        data = {
            "policy": POLICY,
            "version": version("boolab"),
            "made_at": datetime.now(UTC),
            "light": LIGHT,
            "dark": DARK,
            "title": self.title,
            "headline": self._headline(),
            "size": f"{count(self.quality.counts['runs'], 'recorded run')} of an LLM agent, "
            f"{count(self.quality.counts['steps'], 'step')}",
            "makers": self._makers(),
            "question": self._question(),
            "sentences": study.found.sentences,
            "facts": self._facts(),
            "data": self._data(),
            "declared": declared_limits(self.study),
            "explained": explained(study),
            "axes": [self._axis(axis) for axis in study.margins],
            "together": self._together(),
            "lengths": self._lengths(),
            "ends": self._ends(),
            "detectors": self._detectors(),
            "proxy": study.proxy,
            "noun": study.noun,
            "keep": level(question.keep),
            "sure": level(question.confidence),
            "unsure": level(1 - question.confidence),
            "qualifies": study.qualifies,
            "use": {
                "ways": self._ways(),
                "targets": ", ".join(TARGETS),
                "front_matter": front_matter(study),
                "python": python(study, self.sources),
                "shell": shell(study, self.sources),
            },
            "runs": self._runs(),
        }
        return rendered("page.html", **data, figure_style=self.figures.style())

    # --- The answer ---------------------------------------------------------------------------------------------------

    def _headline(self) -> str:
        frame = self.study.found.frame
        if not len(frame):
            return f"No recommendation under {self.study.question.policy}"
        if len(frame) != 1:
            good = int(frame["qualifies"].sum())
            return f"{good} of {len(frame)} groups have enough successes for a recommended limit"
        limits = self._setting()
        if limits:
            return f"Recommended: {', '.join(limits)}"
        if self.study.qualifies:
            return "Recommended: no limit, because none would have saved anything"
        row = frame.iloc[0]
        other = ", in tasks like these" if row["tasks"] < row["successes"] else ""
        return f"Too few successes to recommend a limit: {int(row['more_needed']):,} more are needed{other}"

    def _setting(self) -> list[str]:
        if not self.study.qualifies:
            return []
        row = self.study.found.frame.iloc[0]
        return [f"{axis.label} {axis_value(column, row[column])}" for column, axis in AXES.items()
                if column in row and not is_missing(row[column])]  # fmt: skip

    def _question(self) -> str:
        question, makers = self.study.question, len(self.study.makers)
        whose = f"the {makers:,} agents'" if makers > 1 else "this agent's"
        return (
            f"The question: which limits on its loop keep at least {level(question.keep)} of {whose} "
            f"{kept_name(self.study)}, at {level(question.confidence)} confidence, and what do they save?"
        )

    def _makers(self) -> dict[str, object] | None:
        """The agents of these runs, if there are several."""
        if len(self.study.makers) <= 1:
            return None
        return {"question": which_one(self.study), "table": Table(MAKER_HEAD, maker_rows(self.study), (2, 3, 4))}

    def _facts(self) -> list[tuple[str, str, str]]:
        """The most important numbers: name, number, base."""
        if len(self.study.found.frame) != 1:
            return []
        row: Mapping[Any, Any] = self.study.found.frame.iloc[0].to_dict()
        return list(self._found(row) if row["qualifies"] else self._lacking(row))

    def _found(self, row: Mapping[Any, Any]) -> Iterator[tuple[str, str, str]]:
        """What the recommended setting keeps and saves: name, number, base."""
        base = f"of {int(row['successes']):,}"
        yield f"{_kept_head(self.study)}, kept on record", span(int(row["kept_lower"]), int(row["kept_upper"])), base
        rests = f"effective sample size {row['effective']:.0f}" if row["tasks"] < row["successes"] else ""
        yield f"to be kept, at {level(row['confidence'])} confidence", f"at least {level(row['keep'])}", rests
        if not is_missing(row["saved_share"]):
            yield f"{UNITS[self.study.measure]} saved", percent(row["saved_share"]), ""
        if not is_missing(row["heldout_kept"]) and row["heldout_saved_share"] != 0:  # 0: too few to choose anything
            base = f"of {int(row['heldout_successes']):,}"
            yield "kept in runs that had no part in the choice", f"{int(row['heldout_kept']):,}", base

    def _lacking(self, row: Mapping[Any, Any]) -> Iterator[tuple[str, str, str]]:
        """How many successes are missing for a recommendation."""
        base = f"in {count(int(row['tasks']), 'task')}"
        yield f"{_kept_head(self.study)} on record", f"{int(row['successes']):,}", base
        yield "more needed, without a loss", f"{int(row['more_needed']):,}", ""

    def _ways(self) -> list[dict[str, object]]:
        """How the setting of each group is set: for the harness of the logs, as a command, and for each other one."""
        return [
            {
                "group": way.group,
                "own": None if way.export is None else str(way.export),
                "command": as_command(way.limits),
                "others": [(one.title, str(one)) for one in way.others if one.target != "boolab"],
            }
            for way in how_to_set(self.study)[:MAX_GROUPS]
        ]

    # --- The data -----------------------------------------------------------------------------------------------------

    def _data(self) -> dict[str, object]:
        censored = ""
        if self.quality.cut:
            n = count(len(self.quality.cut), self.study.noun)
            censored = f"{n} stopped by a limit of the recording, or failed"
            self.lists["cut-off"] = _Listed(censored, units=self.quality.cut)
        return {"sentences": list(self.quality.sentences()), "censored": censored, "files": self._files()}

    def _files(self) -> dict[str, object] | None:
        skipped, warnings = self.quality.skipped, self.quality.warnings
        if not skipped and not warnings:
            return None
        rows = [[row.path, str(row.skipped)] for row in skipped[:MAX_ROWS]]
        rows += [["", warning] for warning in warnings[:MAX_ROWS]]
        left = len(skipped) + len(warnings) - len(rows)
        note = f"{left:,} more not listed." if left else ""
        title = f"{count(len(skipped), 'skipped file')}, {count(len(warnings), 'warning')}"
        return {"title": title, "table": Table(["file", "why"], rows, note=note)}

    # --- Each limit ---------------------------------------------------------------------------------------------------

    def _rows(self, axis: str) -> list[tuple[str, list[Row], dict[Any, list[Cut]]]]:
        """Of each group: its rows, and what each of them stops."""
        groups = list(self.study.groups(axis))[:MAX_GROUPS]
        shown = [(name, self.study.shown(axis, part, advice)) for name, part, advice in groups]
        cuts = self.study.cuts(axis, [row.value for _, rows in shown for row in rows])
        return [(name, rows, self._own(cuts, name)) for name, rows in shown]

    def _own(self, cuts: Mapping[Any, list[Cut]], name: str) -> dict[Any, list[Cut]]:
        if not self.study.question.by:
            return dict(cuts)
        names = self.study.group_names
        return {value: [cut for cut in some if names[cut.unit] == name] for value, some in cuts.items()}

    def _axis(self, axis: str) -> dict[str, object]:
        name = AXES[axis].label
        drawn = sum(row.stopped > 0 for _, rows, _ in self.rows[axis] for row in rows) > MIN_VALUES
        caption = f"What each {name} keeps and saves, the other limits off."
        left = len(list(self.study.groups(axis))) - len(self.rows[axis])
        return {
            "key": axis,
            "title": f"{name[0].upper()}{name[1:]}",
            "meaning": f"A {name} stops a run {AXES[axis].meaning}.",
            "figure": self._figure(lambda ax: self._draw_caps(axis, ax), caption) if drawn else Markup(),
            "tables": [
                (f"{name} for {group}" if group else "", self._axis_table(axis, rows, cuts, number))
                for number, (group, rows, cuts) in enumerate(self.rows[axis])
            ],
            "left_out": f"{count(left, 'further group')} not shown." if left else "",
        }

    def _draw_caps(self, axis: str, ax: Axes) -> Axes:
        frame, by = self.study.margins[axis], list(self.study.question.by)
        if by:
            first = [name for name, _, _ in self.rows[axis]]
            parts = [part for name, part, _ in self.study.groups(axis) if name in first]
            frame = frame.loc[[index for part in parts for index in part.index]]
        measure: Any = self.study.measure if frame[f"saved_{self.study.measure}"].notna().any() else "steps"
        marked = {row.value for _, rows, _ in self.rows[axis] for row in rows if row.mark == "recommended"}
        best = float(marked.pop() or 0) if len(marked) == 1 and not by else None
        return plot_caps(frame, axis=axis, saved=measure, recommended=best, ax=ax)

    def _axis_table(self, axis: str, rows: Sequence[Row], cuts: Mapping[Any, list[Cut]], group: int) -> Table:
        shown = measures(self.study, rows)
        undecided = any(row.undecided for row in rows)
        head = [AXES[axis].unit, f"{_kept_head(self.study)}: kept", "stopped", f"all {self.study.noun}s stopped",
                *(["not decided"] if undecided else []), *(f"{UNITS[name]} saved" for name in shown), ""]  # fmt: skip
        cells: list[list[str | Cell]] = []
        for row in rows:
            stopped = cuts.get(row.value, [])
            lost = sum(cut.success is True for cut in stopped)
            to = self._cut_list(axis, row, stopped, group)
            kept = span(*row.kept) + f" of {row.successes:,}" if row.successes else "none to keep"
            cells.append([
                axis_value(axis, row.value), kept, _linked(lost, to), _linked(row.stopped, to),
                *([f"{row.undecided:,}"] if undecided else []),
                *("not known" if row.undecided else saved(name, row.saved[name]) for name in shown),
                _MARKS[row.mark],
            ])  # fmt: skip
        return Table(head, cells, range(len(head) - 1), "limit", [row.mark for row in rows])

    def _cut_list(self, axis: str, row: Row, cuts: list[Cut], group: int) -> str:
        """Keep the list of the runs that a value stops; return its name on the page, empty if there is none."""
        if not cuts or row.value is None:
            return ""
        to = f"cut-{axis}-{axis_value(axis, row.value).strip('$').replace(',', '')}" + (f"-{group}" if group else "")
        lost = sum(cut.success is True for cut in cuts)
        name = f"{AXES[axis].label} {axis_value(axis, row.value)}"
        title = f"{name}: {count(len(cuts), self.study.noun)} stopped, {lost:,} of them {_kept_head(self.study)}"
        self.stops.append((row, cuts))
        self.lists[to] = _Listed(title, cuts, AXES[axis].unit)
        return to

    # --- Together -----------------------------------------------------------------------------------------------------

    def _together(self) -> Markup | None:
        """A step cap and a tool budget against one another; None where there is too little to draw."""
        axes = [axis for axis in ("max_steps", "tool_budget") if axis in self.study.margins]
        grid = {axis: self._thinned(axis) for axis in axes}
        if len(axes) < MIN_VALUES or not self.study.units or any(len(values) < MIN_VALUES for values in grid.values()):
            return None
        question = self.study.question
        table = counterfactual([unit.run for unit in self.study.units], grid=grid, aggregate=True, **question.how)
        caption = "Kept for certain, by step cap and tool budget; the other limits off."
        return self._figure(lambda ax: plot_heatmap(table, keep=question.keep, ax=ax), caption, height=4.6)

    def _thinned(self, axis: str) -> list[Any]:
        values = [v for v in dict.fromkeys(self.study.margins[axis][axis].tolist()) if not is_missing(v)]
        idle = max((row.value for _, rows, _ in self.rows[axis] for row in rows if row.value is not None), default=None)
        values = [value for value in values if idle is None or value <= idle]
        step = -(-len(values) // MAX_CELLS)
        return values[:: max(step, 1)]

    # --- The runs, in figures -----------------------------------------------------------------------------------------

    def _lengths(self) -> dict[str, object]:
        found = survival(self.study.runs, scope=self.study.question.scope)
        units = [unit.run for unit in self.study.units]
        going = "The share still running after each number of steps, with its interval."
        ended = f"How many {self.study.noun}s took how many steps, by the reason that ended them."
        return {
            "title": found.title,
            "survival": self._figure(lambda ax: plot_survival(found, ax=ax), going),
            "sentences": found.sentences,
            "notes": found.notes,
            "steps": self._figure(lambda ax: plot_steps(units, ax=ax), ended),
        }

    def _ends(self) -> dict[str, Markup]:
        runs = self.study.runs
        by = self.study.question.by[0] if self.study.question.by else None
        called = any(run.n_tool_calls for run in runs)
        return {
            "reasons": self._figure(
                lambda ax: plot_stop_reasons(runs, by=by, ax=ax), "Why the recorded runs ended.", height=2.4
            ),
            "tools": self._figure(lambda ax: plot_tools(runs, ax=ax), "Calls by tool.") if called else Markup(),
        }

    def _detectors(self) -> dict[str, object]:
        rules = [doom_loop(3), doom_loop(3, "call+result"), error_streak(3)]
        found = scorecard(self.study.runs, rules, scope=self.study.question.scope,
                          confidence=self.study.question.confidence)  # fmt: skip
        data: dict[str, object] = {"alarms": None, "sentences": found.sentences, "notes": found.notes}
        if (found.frame["alarms"].fillna(0) > 0).any():
            caption = "Precision and recall, with their counts and intervals."
            data["figure"] = self._figure(lambda ax: plot_scorecard(found, ax=ax), caption)
            data["alarms"] = self._alarms(rules)
        return data

    def _alarms(self, rules: Sequence[StopRule]) -> Table:
        """In which runs each detector raises an alarm."""
        stopped = counterfactual([unit.run for unit in self.study.units], rules=rules, scope=self.study.question.scope)
        rows: list[list[str | Cell]] = []
        for number, rule in enumerate(rules):
            mine = stopped[stopped["rule"] == str(rule)].reset_index(drop=True)
            units = [int(place) for place in mine.index[mine["outcome"].isin(("truncated", "not_identified"))]]
            runs = len({self.study.units[unit].of for unit in units})
            if units:
                self.lists[f"alarm-{number}"] = _Listed(f"{rule}: alarms in {count(runs, 'run')}", units=units)
            rows.append([str(rule), _linked(runs, f"alarm-{number}" if units else "")])
        return Table(["detector", "runs with an alarm"], rows, (1,))

    def _figure(self, draw: Callable[[Axes], Axes], caption: str, height: float = 3.8) -> Markup:
        """A figure; if it cannot be drawn, the reason."""
        try:
            return self.figures.draw(draw, caption, height=height)
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
            "home": homes[0] if len(homes) == 1 else "",
            "lists": [
                (to, one.title, self.book.cuts(one.cuts, one.unit) if one.cuts else self.book.units(one.units))
                for to, one in self.lists.items()
            ],
            "which": f"{what} of {which} runs; long ones show their beginning and their end.",
            "entries": entries,
        }

    def _choose(self) -> None:
        """Choose the runs that get an entry: those that the loosest limits stop first, successes before others."""
        marked = sorted(self.stops, key=lambda item: (item[0].mark != "recommended", -(item[0].value or 0)))
        for _, cuts in marked:
            self.book.want(cut.unit for cut in cuts if cut.success)
        self.book.want(self.quality.cut)
        for _, cuts in marked:
            self.book.want(cut.unit for cut in cuts)
        self.book.want(range(len(self.study.units)))


def _linked(n: int, to: str) -> Cell:
    """A number that links to the list of what it counts."""
    return Cell(f"{n:,}", to if n else "")


def _kept_head(study: Study) -> str:
    return "ended by themselves" if study.proxy else "successes"
