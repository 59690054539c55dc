"""Forty questions about limits: every surface gives the answer of `recommend`, and computes none of its own."""

import base64
import contextlib
import html
import io
import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

import boolab as bl
from boolab.cli.main import main
from boolab.display.numbers import span
from boolab.errors import ReadWarning, SettingError
from boolab.limits.table import AGENT_LIMITS as LIMITS
from boolab.limits.table import MEASURES
from boolab.logs.load import Reading, read_logs
from boolab.report.html_page import page_of
from boolab.report.question import Question, searched_grid
from boolab.report.study import Study, study_of
from boolab.report.text import records, text
from boolab.stats.recommend.decide import GroupDecision
from boolab.stats.recommend.decision import Decision
from boolab.stats.recommend.words import format_saved, sentences_of, verdict_of, words_of
from tests.support.notebooks import BY_NUMBER, sources
from tests.support.packed import unpacked
from tests.support.pages import blocks_of, evaluate, pages
from tests.support.project import ROOT
from tests.support.readme import SET_OF_ROW, cells_of, shown_cells
from tests.support.report_cases import draw_no_figures


@lru_cache(maxsize=1)
def runs_in(logs: str, path: str) -> list[bl.Run]:
    """The runs of logs, as Python reads them; questions about the same logs come one after the other."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadWarning)  # some of these logs hold a run twice
        return list(bl.load_dataset(logs) if path == logs else bl.load_runs(path))


@lru_cache(maxsize=1)
def _read_once(logs: tuple[str, ...], options: tuple[tuple[str, Any], ...]) -> Reading:
    return read_logs(list(logs), **dict(options))


@pytest.fixture(scope="module", autouse=True)
def logs_are_read_once() -> Iterator[None]:
    """Let the commands and the report read logs once for all questions about them: to read the largest takes 3 s."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("boolab.report.study.read_logs", lambda logs, **how: _read_once((*logs,), (*how.items(),)))
        yield


@dataclass(frozen=True)
class Asked:
    """One question, in the words of the command and in those of the report."""

    logs: str
    words: str = ""

    @cached_property
    def question(self) -> Question:
        options: dict[str, Any] = {}
        grid: dict[str, list[Any]] = {}
        words = self.words.split()
        for option, value in zip(words[::2], words[1::2], strict=True):
            name = option.removeprefix("--").replace("-", "_")
            if name in LIMITS:
                first, _, last = value.partition(":")
                grid[name] = [*range(int(first), int(last or first) + 1)]
            elif name == "by":
                options[name] = () if value == "all" else (value,)
            else:
                options[name] = float(value)
        return Question(grid=grid or None, **options)

    @cached_property
    def path(self) -> str:
        return self.logs if self.logs.startswith("atlas/") else str(ROOT / self.logs)

    @property
    def runs(self) -> list[bl.Run]:
        return runs_in(self.logs, self.path)

    @cached_property
    def decision(self) -> Decision:
        asked = self.question
        by = None if asked.by is None else list(asked.by)
        return bl.recommend(self.runs, keep=asked.keep, by=by, grid=searched_grid(asked))

    @cached_property
    def study(self) -> Study:
        return study_of([self.path], self.question)

    @cached_property
    def lab(self) -> bl.CapLab:
        """CapLab, which asks by itself; a grid and groups of one's own it takes from a decision only."""
        asked = self.question
        is_usual = asked.grid is None and asked.by is None
        return bl.CapLab(self.runs, keep=asked.keep, decision=None if is_usual else self.decision)

    @cached_property
    def table(self) -> Any:
        """What limits off and on would have kept, among them those of the decision."""
        limits = {name: [7] for name in LIMITS}
        for group in self.decision.groups:
            limits |= {name: [value] for name, value in group.setting_on.items()}
        grid = {name: [*values, None] for name, values in limits.items()}
        return bl.counterfactual(self.runs, grid=grid, by=list(self.decision.keys), aggregate=True)

    def printed(self, command: str, *options: str, code: int = 0) -> str:
        """What a command prints, be it an error."""
        out, error = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            assert main([*command.split(), self.path, *self.words.split(), *options]) == code
        return error.getvalue() if code else out.getvalue()

    def to_group(self, group: GroupDecision) -> str:
        """Show a group in CapLab."""
        name = self.lab.name_group(group.names)
        self.lab.setting = {"agent": name}
        return name


IN_TEST = {
    Asked("datasets/families", "--max-steps 23 --keep 0.9"),
    Asked("tests/data/gemini"),
    Asked("tests/data/tau_bench"),
}
"""What `make test` asks: one value for two agents, logs with subagents, and a file with labels."""
SETS = (
    "swebench-verified", "intercode-sql", "intercode-bash", "intercode-python", "intercode-ctf", "tau-airline",
    "tau2-airline", "tau2-retail", "tau2-telecom",
)  # fmt: skip
LOGS = (
    *(f"atlas/{name}" for name in SETS),
    "datasets/runs",
    "datasets/families",
    *(f"tests/data/{name}" for name in ("claude_code", "codex", "opencode", "gemini", "tau_bench")),
)
QUESTIONS = [
    *map(Asked, LOGS),
    Asked("atlas/swebench-verified", "--max-steps 77 --keep 0.9"),
    Asked("atlas/swebench-verified", "--max-steps 20:120 --doom-loop 3:6"),
    Asked("atlas/intercode-sql", "--max-steps 3:9 --keep 0.9"),
    Asked("atlas/intercode-sql", "--by all"),
    Asked("atlas/intercode-bash", "--max-steps 7"),
    Asked("atlas/intercode-bash", "--max-steps 3:9 --keep 0.9"),
    Asked("atlas/intercode-bash", "--by all --keep 0.9"),
    Asked("atlas/intercode-bash", "--by agent"),
    Asked("atlas/intercode-python", "--keep 0.9"),
    Asked("atlas/intercode-python", "--keep 0.97"),
    Asked("atlas/intercode-python", "--max-steps 2:9 --keep 0.9"),
    Asked("atlas/intercode-ctf", "--keep 0.8"),
    Asked("atlas/tau-airline", "--max-steps 22"),
    Asked("atlas/tau-airline", "--max-steps 10:30 --keep 0.8"),
    Asked("atlas/tau2-telecom", "--by all --keep 0.8"),
    Asked("datasets/runs", "--keep 0.9"),
    Asked("datasets/runs", "--max-steps 56 --keep 0.9"),
    Asked("datasets/runs", "--max-steps 40:60 --doom-loop 2:6 --keep 0.9"),
    Asked("atlas/local-fix", "--keep 0.8"),
    Asked("datasets/families", "--max-steps 23 --keep 0.9"),
    Asked("datasets/families", "--tool-budget 5:40 --keep 0.9"),
    Asked("datasets/families", "--by agent --keep 0.8"),
    Asked("tests/data/claude_code", "--max-steps 2:5 --keep 0.5"),
    Asked("tests/data/tau_bench", "--by all --keep 0.5"),
]
CASES = [
    pytest.param(asked, id=f"{asked.logs} {asked.words}".strip(), marks=() if asked in IN_TEST else pytest.mark.slow)
    for asked in sorted(QUESTIONS, key=lambda one: one.logs)
]


@pytest.fixture(scope="module", params=CASES)
def asked(request: pytest.FixtureRequest) -> Asked:
    """A question: its answers are computed once for all surfaces."""
    one = request.param
    return Asked(one.logs, one.words)


def plain(some: Any) -> Any:
    """As JSON holds it."""
    return json.loads(json.dumps(some))


def of_frame(decision: Decision) -> list[dict[str, Any]]:
    """The rows of a decision: action, reason, limits, candidate, kept, saved, p_value and all else."""
    return list(plain(records(decision.frame)))


def without_spaces(some: str) -> str:
    return "".join(some.split())


def in_page(page: str) -> Any:
    """The data of the first view that an exported page holds."""
    views = re.search(r"^const views = (.*);$", page, re.MULTILINE)
    assert views is not None
    return unpacked(base64.b64decode(json.loads(views[1])["shown"][0]["data"]))


def limits_of(some: dict[str, Any] | None) -> dict[str, Any] | None:
    """Limits that are on; None for no setting."""
    return None if some is None else {name: value for name, value in some.items() if value is not None}


def check_plain(found: dict[str, Any], group: GroupDecision, verdict: Sequence[str]) -> None:
    """What CapLab holds is a group's decision, in the same words."""
    assert (found["action"], found["reason"]) == (group.action, group.reason)
    assert limits_of(found["setting"]) == (group.setting_on if group.action == "set" else None)
    assert limits_of(found["candidate"]) == (None if group.candidate is None else group.candidate.setting)
    assert (found["keep"], found["confidence"]) == (group.question.keep, group.question.confidence)
    assert (found["tasks"], found["more_needed"]) == (group.choice.tasks, group.choice.missing)
    assert found["verdict"] == list(verdict_of([group], [words_of(group)]))
    assert found["sentences"] == list(sentences_of(group, words_of(group)))
    assert found["overview"] == (list(verdict) if found["overview"] else [])


def check_bound(at_least: float, group: GroupDecision) -> None:
    """CapLab's bound has the whole error of the group; the decision's the part of its path, if it tests several."""
    assert group.candidate is not None
    errors = {path.tests.error for path in group.choice.paths}
    if errors == {group.question.error}:
        assert at_least == pytest.approx(group.candidate.bound, abs=1e-4)
    assert at_least > group.candidate.bound - 1e-4


def check_marked_line(shown: str, group: GroupDecision, row: Mapping[str, Any]) -> None:
    """The line of a table that is marked has the numbers of the decision."""
    mark = "<- to set" if group.action == "set" else "<- left off"
    (line,) = (line for line in shown.splitlines() if line.endswith(mark))
    assert f" {span(row['kept_lower'], row['kept_upper'])} of {row['successes']:,} " in line
    assert f" {row['stopped']:,} of {row['n_units']:,} " in line
    amount = re.sub(r" [a-z ]+$", "", format_saved(group.question, group.saved, group.spent).partition(" (")[0])
    (share,) = re.findall(rf" {re.escape(amount)} \(([\d.]+)%\)", line)
    assert float(share) / 100 == pytest.approx(row["saved_share"], abs=0.0051)


def check_limit_row(
    group: GroupDecision, row: Mapping[str, Any], keys: Sequence[str], axes: Mapping[str, list[dict[str, Any]]]
) -> None:
    """What a table has of the candidate, where that is one limit, is what the decision has."""
    if group.candidate is None or len(group.candidate.setting) != 1:
        return
    ((axis, value),) = group.candidate.setting.items()
    (found,) = (one for one in axes[axis] if one[axis] == value and all(one[key] == row[key] for key in keys))
    for column in ("kept_lower", "kept_upper", "successes", "unit", "success_by"):
        assert found[column] == row[column], column
    measure = MEASURES[row["objective"]].column
    assert found[f"saved_{measure}"] == pytest.approx(row["saved"])
    assert found[measure] + found[f"saved_{measure}"] == pytest.approx(row["spent"] + row["saved"])


def test_forty_different_questions_are_asked() -> None:
    assert len({(one.logs, one.words) for one in QUESTIONS}) == len(QUESTIONS) == 40
    assert set(QUESTIONS) >= IN_TEST


def test_whatif_gives_the_decision(asked: Asked) -> None:
    decision, said = asked.decision, json.loads(asked.printed("whatif", "--json"))
    recommendation = said["recommendation"]
    assert recommendation["verdict"] == list(decision.verdict)
    assert recommendation["sentences"] == list(decision.sentences)
    assert recommendation["groups"] == of_frame(decision)
    assert recommendation["paths"] == plain(records(decision.paths))
    assert said["question"]["by"] == list(decision.keys)
    assert said["data"]["notes"] == list(decision.notes)
    for group, row in zip(decision.groups, of_frame(decision), strict=True):
        check_limit_row(group, row, decision.keys, said["axes"])
    to_set = {way["group"]: way["limits"] for way in said["how_to_set"]}
    assert to_set == {name: plain(limits.given) for name, limits in decision.limits_by_group().items()}


def test_report_gives_the_decision(asked: Asked) -> None:
    decision, study = asked.decision, asked.study
    assert of_frame(study.found) == of_frame(decision)
    assert (study.found.keys, study.found.verdict) == (decision.keys, decision.verdict)
    shown = text(study)
    for part in (*decision.verdict, *decision.notes):
        assert without_spaces(part) in without_spaces(shown)
    whole = without_spaces(text(study, full=True) if len(decision.groups) > 1 else shown)
    assert all(without_spaces(part) in whole for part in decision.sentences)
    for group, row in zip(decision.groups, of_frame(decision), strict=True):
        if group.candidate is not None and len(group.candidate.setting) == len(decision.groups) == 1:
            check_marked_line(shown, group, row)


@pytest.mark.slow  # it draws all figures of a set, once
def test_page_of_report_shows_the_decision(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    if asked.words:
        draw_no_figures(monkeypatch)
    page = without_spaces(html.unescape(re.sub(r"<[^>]+>", "", page_of(asked.study))))
    for part in (*asked.decision.verdict, *asked.decision.sentences, *asked.decision.notes):
        assert without_spaces(part) in page


def test_caplab_gives_the_decision(asked: Asked) -> None:
    for group, row in zip(asked.decision.groups, of_frame(asked.decision), strict=True):
        asked.to_group(group)
        check_plain(asked.lab.recommended, group, asked.decision.verdict)
        asked.lab.setting = asked.lab.recommended["candidate"] or dict.fromkeys(LIMITS)
        answer = asked.lab.answer
        assert answer["verdict"] == list(verdict_of([group], [words_of(group)]))
        assert answer["kept"] == {"lower": row["kept_lower"], "upper": row["kept_upper"], "of": row["successes"]}
        saved = answer["saved"][0]
        assert (saved["measure"], saved["saved"]) == (row["objective"], row["saved"])
        assert saved["of"] == pytest.approx(row["spent"] + row["saved"])
        stopped = {"n": row["stopped"], "failed": row["stopped_failures"], "succeeded": row["stopped_successes"]}
        shown = answer["families"] or answer["cut"]
        assert {name: shown[name] for name in stopped} == stopped
        if group.candidate is not None:
            check_bound(answer["at_least"], group)


def test_page_of_caplab_holds_the_decision(asked: Asked) -> None:
    asked.to_group(asked.decision.groups[0])
    data = in_page(asked.lab.to_html())
    wanted = data["recommended"]["setting"] or dict.fromkeys(LIMITS)
    assert any(
        all(column[axis] == wanted[axis] for axis in LIMITS[1:]) and wanted["max_steps"] in column["caps"]
        for column in data["grid"]["columns"]
    )  # its button leads there
    held = {agent: one["recommended"] for agent, one in data["by_agent"].items()}
    for place, group in enumerate(asked.decision.groups):
        name = asked.lab.name_group(group.names)
        check_plain(held[name] if place else data["recommended"], group, asked.decision.verdict)


def test_heatmap_marks_the_decision(asked: Asked) -> None:
    decision = asked.decision

    def draw() -> bl.Heatmap:
        at = {"tool_budget": decision.groups[0].setting.get("tool_budget")}
        return bl.Heatmap(asked.table, x="max_steps", y="doom_loop", at=at, recommended=decision)

    if len(decision.groups) > 1:
        with pytest.raises(SettingError, match=f"there are {len(decision.groups)} groups"):
            draw()
        return
    (group,), data = decision.groups, in_page(draw().to_html())
    marked = [cell for row in data["rows"] for cell in row if cell["recommended"]]
    if group.action != "set":
        assert not marked
        assert data["title"] == decision.verdict[0]
        return
    (cell,) = marked
    (row,) = of_frame(decision)
    assert f"keeps {span(row['kept_lower'], row['kept_upper'])} of" in cell["facts"][0]
    for name in ("max_steps", "doom_loop"):
        value = group.setting.get(name)
        assert (f" {value}" if value is not None else "no ") in cell["name"]


def test_export_sets_the_limits_of_the_decision(asked: Asked) -> None:
    decision = asked.decision
    is_by_agent = "agent" in decision.keys
    for group in decision.groups[:2]:
        agent = str(group.names[decision.keys.index("agent")]) if is_by_agent else None
        options = ["--agent", agent] if agent else []
        if group.action == "set" and (len(decision.groups) == 1 or decision.keys == ("agent",)):
            assert asked.printed("export boolab", *options).strip() == str(decision.export("boolab", agent)).strip()
            assert limits_of({name: getattr(decision.limits(agent), name) for name in LIMITS}) == group.setting_on
            continue
        with pytest.raises(SettingError) as refusal:
            decision.export("boolab", agent)
        said = without_spaces(asked.printed("export boolab", *options, code=1))
        if len(decision.groups) == 1:
            assert without_spaces(verdict_of([group], [words_of(group)])[0]) in without_spaces(str(refusal.value))
            assert without_spaces(verdict_of([group], [words_of(group)])[0]) in said


def test_plot_of_caps_has_the_decision_as_its_title(asked: Asked) -> None:
    decision = asked.decision
    if len(decision.groups) > 1:
        return  # a decision of several groups has no setting to mark: see the heat map
    (group,), (row,) = decision.groups, of_frame(decision)
    ax = Figure(figsize=(9, 4)).subplots()
    plot = bl.plots.plot_caps(asked.table, axis="max_steps", recommended=decision, ax=ax)
    title = " ".join(plot.get_title(loc="left").split())
    if group.action != "set":
        assert without_spaces(title) == without_spaces(decision.verdict[0])
    elif group.setting.get("max_steps") is not None:
        assert f"keeps {span(row['kept_lower'], row['kept_upper'])} of {row['successes']:,}" in title
        assert f"saves {format_saved(group.question, group.saved, group.spent).partition(' (')[0]}" in title


# --- What is written down -----------------------------------------------------------------------------------------


PRINTED: Mapping[Asked, Mapping[str, Sequence[str]]] = {
    Asked("atlas/swebench-verified"): {"tour": (), "tutorial": ()},
    Asked("atlas/intercode-python", "--keep 0.9"): {
        "README": ("Here for a cap of {max_steps}, which is what the code above finds",),
        "howto/choose_a_cap": ("here those that the cap of {max_steps} loses",),
        "notebook 01": (
            "{n_units} runs of {all_tasks} tasks, of which {successes} succeed",
            "The cap keeps {kept_lower} of the {successes} successes.",
            "With {confidence:.0%} confidence it keeps at least {keep:.0%} of future successes",
        ),
    },
    Asked("atlas/intercode-python", "--keep 0.97"): {"howto/choose_a_cap": ()},
    Asked("atlas/local-fix", "--keep 0.8"): {"tutorial": ()},
    Asked("datasets/runs", "--keep 0.9"): {"notebook 03": ()},
}
"""Pages and notebooks that print the answer to a question, and what their text says of its numbers."""
VERDICT = re.compile(r"Set (?:no limit(?: yet)?|limits|an? [a-z-]+ (?:cap|threshold|budget) of \d+)(?: for [^:]*)?:")
"""How a verdict begins."""


def output_of(number: str) -> str:
    """What the cells of a notebook show, as text."""
    from IPython.core.formatters import DisplayFormatter

    format_value: Any = DisplayFormatter().format
    shown, names = [], dict[str, Any]()
    out = io.StringIO()
    with contextlib.redirect_stdout(out), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for code in sources(BY_NUMBER[number]):
            value = evaluate(code, names, number)
            if isinstance(value, bl.stats.Decision):
                shown += format_value(value)[0].values()
    return html.unescape(re.sub(r"<[^>]+>", "", out.getvalue() + " ".join(shown)))


def prose_of(name: str) -> str:
    """The text of a page or a notebook, in one line, with what its blocks print."""
    if not name.startswith("notebook"):
        return " ".join(pages()[name].read_text(encoding="utf-8").split())
    cells = json.loads(BY_NUMBER[name.removeprefix("notebook ")].read_text(encoding="utf-8"))["cells"]
    return " ".join(" ".join("".join(cell["source"]).split()) for cell in cells if cell["cell_type"] == "markdown")


@pytest.mark.slow
@pytest.mark.parametrize("asked", PRINTED, ids=lambda one: f"{one.logs} {one.words}".strip())
def test_pages_and_notebooks_print_the_decision(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BOOLAB_LOGS", "BOOLAB_SCOPE"):
        monkeypatch.delenv(name, raising=False)
    assert asked in QUESTIONS
    (row,) = of_frame(asked.decision)
    row["all_tasks"] = bl.runs_df(asked.runs)["task"].nunique()
    for name, said in PRINTED[asked].items():
        prose = prose_of(name)
        for part in said:
            assert part.format(**row) in prose
        if name != "README":
            shown = output_of(name.removeprefix("notebook ")) if name.startswith("notebook") else prose
            parts = asked.decision.verdict[: None if name.startswith("notebook") or "choose" in name else 1]
            assert all(without_spaces(part) in without_spaces(shown) for part in parts), name


def test_no_page_prints_another_verdict() -> None:
    counted = [name for printed in PRINTED.values() for name in printed if not name.startswith(("notebook", "README"))]
    found = [
        name
        for name, path in pages().items()
        for block in blocks_of(path.read_text(encoding="utf-8"))
        for _ in VERDICT.findall(" ".join((block.shown or "").split()))
    ]
    assert sorted(found) == sorted(counted)


@pytest.mark.slow
@pytest.mark.parametrize("name", SET_OF_ROW)
def test_readme_has_the_decision_in_a_row(name: str) -> None:
    asked = Asked(f"atlas/{SET_OF_ROW[name]}")
    assert asked in QUESTIONS
    assert {*asked.decision.frame.query("action == 'set'")["objective"]} <= {"steps"}
    assert shown_cells(name) == cells_of(asked.runs, asked.decision.frame)


@pytest.mark.slow
def test_demo_prints_the_decision(tmp_path: Path) -> None:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["demo", "-o", str(tmp_path)]) == 0
    for part in Asked("atlas/intercode-python", "--keep 0.9").decision.verdict:
        assert without_spaces(part) in without_spaces(out.getvalue())
