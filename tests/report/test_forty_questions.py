"""Forty questions about limits: every surface gives the answer of `recommend`, and computes none of its own."""

import base64
import contextlib
import html
import io
import json
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pytest

import boolab as bl
from boolab.cli.main import main
from boolab.display.numbers import span
from boolab.errors import ReadWarning, SettingError
from boolab.limits.table import AGENT_LIMITS as LIMITS
from boolab.report.html_page import page_of
from boolab.report.question import Question, searched_grid
from boolab.report.study import Study, study_of
from boolab.report.text import records, text
from boolab.stats.recommend.decide import GroupDecision
from boolab.stats.recommend.decision import Decision
from boolab.stats.recommend.words import sentences_of, verdict_of, words_of
from tests.support.packed import unpacked
from tests.support.project import ROOT


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

    @cached_property
    def runs(self) -> list[bl.Run]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReadWarning)  # some of these logs hold a run twice
            return list(bl.load_dataset(self.logs) if self.path == self.logs else bl.load_runs(self.path))

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
    Asked("atlas/intercode-sql", "--max-steps 8 --keep 0.9"),
    Asked("atlas/intercode-sql", "--max-steps 3:9 --keep 0.9"),
    Asked("atlas/intercode-sql", "--by all"),
    Asked("atlas/intercode-bash", "--max-steps 7"),
    Asked("atlas/intercode-bash", "--max-steps 3:9 --keep 0.9"),
    Asked("atlas/intercode-bash", "--by all --keep 0.9"),
    Asked("atlas/intercode-bash", "--by agent"),
    Asked("atlas/intercode-python", "--max-steps 3 --keep 0.9"),
    Asked("atlas/intercode-python", "--max-steps 2:9 --keep 0.9"),
    Asked("atlas/intercode-ctf", "--keep 0.8"),
    Asked("atlas/tau-airline", "--max-steps 22"),
    Asked("atlas/tau-airline", "--max-steps 10:30 --keep 0.8"),
    Asked("atlas/tau2-retail", "--by all --keep 0.9"),
    Asked("atlas/tau2-telecom", "--by all --keep 0.8"),
    Asked("datasets/runs", "--max-steps 56 --keep 0.9"),
    Asked("datasets/runs", "--max-steps 40:60 --doom-loop 2:6 --keep 0.9"),
    Asked("datasets/runs", "--by model --keep 0.9"),
    Asked("datasets/families", "--max-steps 23 --keep 0.9"),
    Asked("datasets/families", "--tool-budget 5:40 --keep 0.9"),
    Asked("datasets/families", "--by agent --keep 0.8"),
    Asked("tests/data/claude_code", "--max-steps 2:5 --keep 0.5"),
    Asked("tests/data/tau_bench", "--by all --keep 0.5"),
]
CASES = [
    pytest.param(asked, id=f"{asked.logs} {asked.words}".strip(), marks=() if asked in IN_TEST else pytest.mark.slow)
    for asked in QUESTIONS
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
    to_set = {way["group"]: way["limits"] for way in said["how_to_set"]}
    assert to_set == {name: plain(limits.given) for name, limits in decision.limits_by_group().items()}


def test_report_gives_the_decision(asked: Asked) -> None:
    decision, study = asked.decision, asked.study
    assert of_frame(study.found) == of_frame(decision)
    assert (study.found.keys, study.found.verdict) == (decision.keys, decision.verdict)
    shown = without_spaces(text(study))
    assert all(without_spaces(part) in shown for part in decision.verdict)


@pytest.mark.slow  # it draws all figures
def test_page_of_report_shows_the_decision(asked: Asked) -> None:
    page = without_spaces(html.unescape(re.sub(r"<[^>]+>", "", page_of(asked.study))))
    for part in (*asked.decision.verdict, *asked.decision.sentences):
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
        assert (answer["families"] or answer["cut"])["n"] == row["stopped"]


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
    limits = {name: [7] for name in LIMITS}
    for group in decision.groups:
        limits |= {name: [value] for name, value in group.setting_on.items()}
    grid = {name: [*values, None] for name, values in limits.items()}
    table = bl.counterfactual(asked.runs, grid=grid, by=list(decision.keys), aggregate=True)

    def draw() -> bl.Heatmap:
        at = {"tool_budget": decision.groups[0].setting.get("tool_budget")}
        return bl.Heatmap(table, x="max_steps", y="doom_loop", at=at, recommended=decision)

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
