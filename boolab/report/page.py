"""The report: one HTML page that stands by itself, for a reader who has never seen boolab."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Final

from matplotlib.axes import Axes

from boolab.counterfactuals import counterfactual
from boolab.errors import SettingError
from boolab.plots import (
    plot_caps,
    plot_heatmap,
    plot_scorecard,
    plot_steps,
    plot_stop_reasons,
    plot_survival,
    plot_tools,
)
from boolab.plots.settings import AXIS_NAMES, AXIS_UNITS, tick
from boolab.plots.words import span
from boolab.report.figures import Draw, Figures
from boolab.report.markup import Cells, Markup, code, el, items, join, paragraphs, table
from boolab.report.quality import Quality
from boolab.report.recipe import NOTHING_READ, Sources, front_matter, python, shell
from boolab.report.runs import MOST_ROWS, MOST_RUNS, RunBook
from boolab.report.sentences import LISTS, NO_SHIP, PROXY_SAYS, SHIP, SURE, WORDS
from boolab.report.study import COLUMNS, Cut, Row, Study, is_na
from boolab.report.style import style
from boolab.report.tell import MAKER_HEAD, MEANINGS, UNITS, explained, kept_name, maker_rows, measures, saved, which_one
from boolab.stats.finding import Finding, count, level, percent
from boolab.stats.scorecard import scorecard
from boolab.stats.survival import survival
from boolab.stop import StopRule, doom_loop, error_streak

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
"""What the page may do: no script, nothing from elsewhere, no form."""

_CELLS: Final = 14  # of the heat map, on each side
_GROUPS: Final = 6
_NEEDS: Final = 2  # settings, to be drawn against one another


def page_of(
    study: Study, *, title: str | None = None, transcripts: bool = True, sources: Sources = NOTHING_READ
) -> str:
    """The page.

    Args:
        study: The data, the question and what was found.
        title: What the page is called; by default its answer.
        transcripts: Whether to show excerpts of what was said and done.
        sources: What was read, for the code on the page.
    """
    return _Page(study, title, transcripts=transcripts, sources=sources).html()


class _Page:
    """One page in the making."""

    def __init__(self, study: Study, title: str | None, *, transcripts: bool, sources: Sources) -> None:
        self.study = study
        self.title = title
        self.transcripts = transcripts
        self.sources = sources
        self.quality = Quality(study)
        self.figures = Figures()
        self.book = RunBook(study, transcripts=transcripts)
        self.lists: dict[str, str] = {}  # titles by name on the page
        self.contents: dict[str, tuple[list[Cut], str]] = {}
        self.units: dict[str, list[int]] = {}
        self.stops: list[tuple[Row, list[Cut]]] = []
        self.rows = {axis: self._rows(axis) for axis in study.margins}

    def html(self) -> str:
        answer = [self._top(), self._answer(), self._data()]
        middle = [self._limits(), self._together(), self._lengths(), self._ends(), self._detectors()]
        sections = [*answer, *middle, self._sure(), self._use(), self._runs(), self._glossary()]
        body = el("main", *sections, self._foot())
        head = join([
            el("meta", charset="utf-8"),
            Markup(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
            el("meta", name="viewport", content="width=device-width, initial-scale=1"),
            el("meta", name="referrer", content="no-referrer"),
            el("meta", name="generator", content=f"boolab {version('boolab')}"),
            el("title", self.title or self._headline()),
            Markup(f"<style>{style()}{self.figures.style()}</style>"),
        ])  # fmt: skip
        return f'<!doctype html>\n<html lang="en">\n<head>{head}</head>\n<body>{body}</body>\n</html>\n'

    # --- The answer ---------------------------------------------------------------------------------------------------

    def _top(self) -> Markup:
        day = datetime.now(UTC).strftime("%Y-%m-%d")
        n = self.quality.counts
        what = f"{count(n['runs'], 'recorded run')} of an LLM agent, {count(n['steps'], 'step')}. boolab, {day}"
        title = [el("p", self.title, class_="note")] if self.title else []
        links = [("data", "The data"), ("limits", "Each limit"), ("together", "Together"), ("sure", "How sure"),
                 ("use", "Use it"), ("runs", "The runs"), ("words", "Words")]  # fmt: skip
        return join([*title, el("h1", self._headline()), el("p", what, class_="note"),
                     el("nav", join((el("a", name, href=f"#{to}") for to, name in links), " "))])  # fmt: skip

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
        return [f"{name} {tick(column, row[column])}" for column, name in AXIS_NAMES.items()
                if column in row and not is_na(row[column])]  # fmt: skip

    def _answer(self) -> Markup:
        asked = self.study.question
        question = (
            f"The question: which limits on its loop keep at least {level(asked.keep)} of {self._whose()} "
            f"{kept_name(self.study)}, at {level(asked.confidence)} confidence, and what do they save?"
        )
        return join([
            self._makers(),
            el("p", question),
            el("div", paragraphs(self.study.found.sentences), class_="answer"),
            self._facts(),
        ])  # fmt: skip

    def _whose(self) -> str:
        return "this agent's" if len(self.study.makers) < 2 else f"the {len(self.study.makers):,} agents'"  # noqa: PLR2004

    def _makers(self) -> Markup:
        """Whose runs these are, where there is more than one agent."""
        if len(self.study.makers) < 2:  # noqa: PLR2004
            return Markup()
        return join(
            [el("p", which_one(self.study)), table(list(MAKER_HEAD), maker_rows(self.study), numbers=(2, 3, 4))]
        )

    def _facts(self) -> Markup:
        if len(self.study.found.frame) != 1:
            return Markup()
        row: Mapping[Any, Any] = self.study.found.frame.iloc[0].to_dict()
        facts = list(self._found(row) if row["qualifies"] else self._lacking(row))
        cells = [el("div", el("dt", name), el("dd", value, " ", el("small", more))) for name, value, more in facts]
        return el("dl", *cells, class_="facts")

    def _found(self, row: Mapping[Any, Any]) -> Iterator[tuple[str, str, str]]:
        """What the recommended setting keeps and saves: name, number, base."""
        base = f"of {int(row['successes']):,}"
        yield f"{_kept_head(self.study)}, kept on record", span(int(row["kept_lower"]), int(row["kept_upper"])), base
        rests = f"effective sample size {row['effective']:.0f}" if row["tasks"] < row["successes"] else ""
        yield f"to be kept, at {level(row['confidence'])} confidence", f"at least {level(row['keep'])}", rests
        if not is_na(row["saved_share"]):
            yield f"{UNITS[self.study.measure]} saved", percent(row["saved_share"]), ""
        if not is_na(row["heldout_kept"]) and row["heldout_saved_share"] != 0:  # 0: too few to choose anything
            base = f"of {int(row['heldout_successes']):,}"
            yield "kept in runs that had no part in the choice", f"{int(row['heldout_kept']):,}", base

    def _lacking(self, row: Mapping[Any, Any]) -> Iterator[tuple[str, str, str]]:
        """How far the data are from carrying an answer."""
        yield (
            f"{_kept_head(self.study)} on record",
            f"{int(row['successes']):,}",
            f"in {count(int(row['tasks']), 'task')}",
        )
        yield "more needed, without a loss", f"{int(row['more_needed']):,}", ""

    # --- The data -----------------------------------------------------------------------------------------------------

    def _data(self) -> Markup:
        parts = [_heading("data", "The data, and what they lack"), items(self.quality.sentences())]
        if self.quality.cut:
            censored = (
                f"{count(len(self.quality.cut), self.study.noun)} stopped by a limit of the recording, or broken off"
            )
            self._list("cut-off", censored, self.quality.cut)
            link = el("a", censored, href="#cut-off")
            parts.append(el("p", "Look at the ", link, ".", class_="note"))
        if self.quality.skipped or self.quality.warnings:
            parts.append(self._files())
        return join(parts)

    def _files(self) -> Markup:
        rows = [[row.path, str(row.skipped)] for row in self.quality.skipped[:MOST_ROWS]]
        rows += [["", told] for told in self.quality.warnings[:MOST_ROWS]]
        left = len(self.quality.skipped) + len(self.quality.warnings) - len(rows)
        more = el("p", f"{left:,} more not listed.", class_="note") if left else Markup()
        title = f"{count(len(self.quality.skipped), 'skipped file')}, {count(len(self.quality.warnings), 'warning')}"
        return el("details", el("summary", title), table(["file", "why"], rows), more, id="files")

    # --- Each limit ---------------------------------------------------------------------------------------------------

    def _rows(self, axis: str) -> list[tuple[str, list[Row], dict[Any, list[Cut]]]]:
        """Of each group: its rows, and what each of them stops."""
        groups = list(self.study.groups(axis))[:_GROUPS]
        shown = [(name, self.study.shown(axis, part, advice)) for name, part, advice in groups]
        cuts = self.study.cuts(axis, [row.value for _, rows in shown for row in rows])
        return [(name, rows, self._own(cuts, name)) for name, rows in shown]

    def _own(self, cuts: Mapping[Any, list[Cut]], name: str) -> dict[Any, list[Cut]]:
        if not self.study.question.by:
            return dict(cuts)
        names = self.study.group_names
        return {value: [cut for cut in some if names[cut.unit] == name] for value, some in cuts.items()}

    def _limits(self) -> Markup:
        parts = [_heading("limits", "What each limit would have done, by itself"), paragraphs(explained(self.study))]
        parts.append(el("p", "Each count of what is stopped leads to the list of those runs.", class_="note"))
        for axis in self.study.margins:
            parts += self._axis(axis)
        return join(parts)

    def _axis(self, axis: str) -> Iterator[Markup]:
        column = COLUMNS.get(axis, axis)
        name = AXIS_NAMES[column]
        yield el("h3", f"{name[0].upper()}{name[1:]}", id=f"axis-{axis}")
        yield el("p", f"A {name} {MEANINGS[axis]}.")
        if sum(row.stopped > 0 for _, rows, _ in self.rows[axis] for row in rows) > _NEEDS:
            yield self._figure(lambda ax: self._draw_caps(axis, ax), f"What each {name} keeps and saves, the other "
                               "limits off.")  # fmt: skip
        for number, (group, rows, cuts) in enumerate(self.rows[axis]):
            yield el("h3", f"{name} for {group}") if group else Markup()
            yield self._axis_table(axis, rows, cuts, number)
        left = len(list(self.study.groups(axis))) - len(self.rows[axis])
        if left:
            yield el("p", f"{count(left, 'further group')} not shown.", class_="note")

    def _draw_caps(self, axis: str, ax: Axes) -> Axes:
        column = COLUMNS.get(axis, axis)
        frame, by = self.study.margins[axis], list(self.study.question.by)
        if by:
            first = [name for name, _, _ in self.rows[axis]]
            parts = [part for name, part, _ in self.study.groups(axis) if name in first]
            frame = frame.loc[[index for part in parts for index in part.index]]
        measure: Any = self.study.measure if frame[f"saved_{self.study.measure}"].notna().any() else "steps"
        marked = {row.value for _, rows, _ in self.rows[axis] for row in rows if row.mark == "recommended"}
        best = float(marked.pop() or 0) if len(marked) == 1 and not by else None
        return plot_caps(frame, axis=column, saved=measure, recommended=best, ax=ax)

    def _axis_table(self, axis: str, rows: Sequence[Row], cuts: Mapping[Any, list[Cut]], group: int) -> Markup:
        column, shown = COLUMNS.get(axis, axis), measures(self.study, rows)
        undecided = any(row.undecided for row in rows)
        head = [AXIS_UNITS[column], f"{_kept_head(self.study)}: kept", "stopped", f"all {self.study.noun}s stopped",
                *(["not decided"] if undecided else []), *(f"{UNITS[name]} saved" for name in shown), ""]  # fmt: skip
        cells = []
        for row in rows:
            stopped = cuts.get(row.value, [])
            lost = sum(cut.success is True for cut in stopped)
            to = self._cut_list(axis, row, stopped, group)
            kept = span(*row.kept) + f" of {row.successes:,}" if row.successes else "none to keep"
            cells.append(Cells([
                tick(column, row.value), kept, _linked(lost, to), _linked(row.stopped, to),
                *([f"{row.undecided:,}"] if undecided else []),
                *("not known" if row.undecided else saved(name, row.saved[name]) for name in shown),
                _MARKS[row.mark],
            ], row.mark or None))  # fmt: skip
        return table(head, cells, numbers=range(len(head) - 1), class_="limit")

    def _cut_list(self, axis: str, row: Row, cuts: list[Cut], group: int) -> str | None:
        """The list of what a value stops; its name on the page."""
        if not cuts or row.value is None:
            return None
        column = COLUMNS.get(axis, axis)
        to = f"cut-{axis}-{tick(column, row.value).strip('$').replace(',', '')}" + (f"-{group}" if group else "")
        lost = sum(cut.success is True for cut in cuts)
        name = f"{AXIS_NAMES[column]} {tick(column, row.value)}"
        title = f"{name}: {count(len(cuts), self.study.noun)} stopped, {lost:,} of them {_kept_head(self.study)}"
        self.stops.append((row, cuts))
        self.lists[to] = title
        self.contents[to] = (cuts, AXIS_UNITS[column])
        return to

    # --- Together -----------------------------------------------------------------------------------------------------

    def _together(self) -> Markup:
        axes = [axis for axis in ("steps", "tool_budget") if axis in self.study.margins]
        if len(axes) < _NEEDS or not self.study.units:
            return el("span", id="together")
        grid = {axis: self._thinned(axis) for axis in axes}
        tally = counterfactual(
            [unit.run for unit in self.study.units],
            grid=grid,
            scope=self.study.question.scope,
            policy=self.study.question.policy,
            identity=self.study.question.identity,
            tally=True,
        )
        if any(len(values) < _NEEDS for values in grid.values()):
            return el("span", id="together")
        keep = self.study.question.keep
        draw: Draw = lambda ax: plot_heatmap(tally, keep=keep, ax=ax)  # noqa: E731 - short
        text = (
            "Two limits at once: a cell is a pair of settings, and the number is what it keeps for certain. The line "
            f"is drawn around pairs that keep {level(keep)} on record. That is less than the recommendation asks "
            "for, which is to keep them with confidence."
        )
        return join([_heading("together", "A step cap and a tool budget together"), el("p", text),
                     self._figure(draw, "Kept for certain, by step cap and tool budget; the other limits off.",
                                  height=4.6)])  # fmt: skip

    def _thinned(self, axis: str) -> list[Any]:
        values = [v for v in dict.fromkeys(self.study.margins[axis][COLUMNS.get(axis, axis)].tolist()) if not is_na(v)]
        idle = max((row.value for _, rows, _ in self.rows[axis] for row in rows if row.value is not None), default=None)
        values = [value for value in values if idle is None or value <= idle]
        step = -(-len(values) // _CELLS)
        return values[:: max(step, 1)]

    # --- The runs, in figures -----------------------------------------------------------------------------------------

    def _lengths(self) -> Markup:
        found = survival(self.study.runs, scope=self.study.question.scope)
        units = [unit.run for unit in self.study.units]
        going = "The share still going after so many steps, with its interval."
        ended = f"How many {self.study.noun}s took how many steps, by the reason that ended them."
        parts = [
            _heading("lengths", found.title),
            self._figure(lambda ax: plot_survival(found, ax=ax), going),
            paragraphs(found.sentences),
            _small(found.notes),
            self._figure(lambda ax: plot_steps(units, ax=ax), ended),
        ]
        return join(parts)

    def _ends(self) -> Markup:
        by = self.study.question.by[0] if self.study.question.by else None
        draw: Draw = lambda ax: plot_stop_reasons(self.study.runs, by=by, ax=ax)  # noqa: E731 - short
        parts = [_heading("ends", "How runs end, and what they call"),
                 self._figure(draw, "Why the recorded runs ended.", height=2.4)]  # fmt: skip
        if any(run.n_tool_calls for run in self.study.runs):
            parts.append(self._figure(lambda ax: plot_tools(self.study.runs, ax=ax), "Calls by tool."))
        return join(parts)

    def _detectors(self) -> Markup:
        rules = [doom_loop(3), doom_loop(3, "call+result"), error_streak(3)]
        found = scorecard(self.study.runs, rules, scope=self.study.question.scope,
                          confidence=self.study.question.confidence)  # fmt: skip
        text = (
            "A detector stops a run that repeats itself. It is worth having if it raises the alarm in runs that fail "
            "(recall) and not in others (precision). These are detectors as harnesses ship them, on these runs:"
        )
        parts = [_heading("detectors", "Would the usual detectors have helped?"), el("p", text)]
        if _has(found, "alarms"):
            parts.append(self._figure(lambda ax: plot_scorecard(found, ax=ax), "Precision and recall, with their "
                                      "counts and intervals."))  # fmt: skip
            parts.append(self._alarms(rules))
        return join([*parts, paragraphs(found.sentences), _small(found.notes)])

    def _alarms(self, rules: Sequence[StopRule]) -> Markup:
        """In which runs each detector raises an alarm."""
        stopped = counterfactual([unit.run for unit in self.study.units], rules=rules, scope=self.study.question.scope)
        rows = []
        for number, rule in enumerate(rules):
            mine = stopped[stopped["rule"] == str(rule)].reset_index(drop=True)
            units = [int(place) for place in mine.index[mine["outcome"].isin(("truncated", "not_identified"))]]
            runs = len({self.study.units[unit].of for unit in units})
            if units:
                self._list(f"alarm-{number}", f"{rule}: alarms in {count(runs, 'run')}", units)
            rows.append([str(rule), _linked(runs, f"alarm-{number}" if units else None)])
        return table(["detector", "runs with an alarm"], rows, numbers=(1,))

    def _figure(self, draw: Draw, caption: str, height: float = 3.8) -> Markup:
        """A figure; where there is nothing that can be drawn, what is in its way."""
        try:
            return self.figures.draw(draw, caption, height=height)
        except SettingError as error:
            return el("p", f"Not drawn ({caption}): {error}", class_="note")

    # --- Limits of the answer, and what to do with it -----------------------------------------------------------------

    def _sure(self) -> Markup:
        asked = self.study.question
        keep, sure, unsure = (level(share) for share in (asked.keep, asked.confidence, 1 - asked.confidence))
        said = [text.format(keep=keep, sure=sure, unsure=unsure) for text in SURE]
        proxy = [PROXY_SAYS.format(noun=self.study.noun)] if self.study.proxy else []
        return join([_heading("sure", "How sure this is, and what it does not say"), items([*proxy, *said])])

    def _use(self) -> Markup:
        parts = [
            el("p", SHIP if self.study.qualifies else NO_SHIP),
            code(front_matter(self.study)),
            el("p", "The same answer in a notebook:"),
            code(python(self.study, self.sources)),
            el("p", "And in a terminal:"),
            code(shell(self.study, self.sources)),
        ]
        return join([_heading("use", "Use it"), *parts])

    # --- The runs behind the numbers ----------------------------------------------------------------------------------

    def _list(self, to: str, title: str, units: Sequence[int]) -> None:
        self.lists[to] = title
        self.units[to] = list(units)

    def _runs(self) -> Markup:
        self._choose()
        homes = sorted(set(self.study.homes))
        parts = [_heading("runs", "The runs behind the numbers"), el("p", LISTS)]
        parts += [el("p", f"All of them are from {homes[0]}.", class_="note")] if len(homes) == 1 else []
        for to, title in self.lists.items():
            body = self.book.cuts(*self.contents[to]) if to in self.contents else self.book.units(self.units[to])
            parts.append(el("details", el("summary", title), body, id=to))
        entries = list(self.book.entries())
        if entries:
            n, whole = len(entries), len(self.study.runs)
            which = "all" if n == whole else f"{n:,} of {whole:,} (at most {MOST_RUNS}: those that a limit stops first)"
            what = "Excerpts" if self.transcripts else "Facts"
            said = f"{what} of {which} runs; long ones show their beginning and their end."
            parts += [el("h3", "Runs"), el("p", said, class_="note"), *entries]
        return join(parts)

    def _choose(self) -> None:
        """Which runs get an entry: what the loosest limits cut first, successes before others."""
        marked = sorted(self.stops, key=lambda item: (item[0].mark != "recommended", -(item[0].value or 0)))
        for _, cuts in marked:
            self.book.want(cut.unit for cut in cuts if cut.success)
        self.book.want(self.quality.cut)
        for _, cuts in marked:
            self.book.want(cut.unit for cut in cuts)
        self.book.want(range(len(self.study.units)))

    def _glossary(self) -> Markup:
        words = [part for name, text in WORDS.items() for part in (el("dt", name), el("dd", text))]
        return join([_heading("words", "Words"), el("dl", *words, class_="words")])

    def _foot(self) -> Markup:
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        return el(
            "footer", f"Made by boolab {version('boolab')} on {now}. This page holds no script and loads nothing."
        )


_MARKS: Final = {"recommended": "recommended", "tightest": "tightest that loses none", "": ""}


def _heading(to: str, title: str) -> Markup:
    return el("h2", title, id=to)


def _linked(n: int, to: str | None) -> str:
    return el("a", f"{n:,}", href=f"#{to}") if n and to else f"{n:,}"


def _small(notes: Iterable[str]) -> Markup:
    return el("div", items(notes), class_="note")


def _kept_head(study: Study) -> str:
    return "ended by themselves" if study.proxy else "successes"


def _has(found: Finding, column: str) -> bool:
    return bool((found.frame[column].fillna(0) > 0).any())
