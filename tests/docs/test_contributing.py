"""The lists of CONTRIBUTING.md, each followed with a toy: what a list names is enough, and is there."""

import os
import re
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Final

import pytest

import boolab as bl
from boolab.cli.help import Command
from boolab.cli.main import COMMANDS, help_pages, main
from boolab.core.displayable import Displayable
from boolab.core.types import Event, StopReason
from boolab.display.document import Document
from boolab.frames import tables
from boolab.frames.dtypes import Column
from boolab.harnesses.setting import Setting
from boolab.integrations.monitored_run import MonitoredRun
from boolab.live.audits.wording import Words as AuditWords
from boolab.logs import fact_places
from boolab.logs.facts import facts_of
from boolab.stats.recommend import words
from boolab.widgets._base.standalone_html import module_of
from boolab.widgets.caplab.table import ROWS
from tests.support.labelled_runs import labelled_runs
from tests.support.pages import blocks_of
from tests.support.project import ROOT
from tests.support.scripts import unread_keys, unused_functions

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
WORDS = "a sentence of the user"
LOOK = {"tool_calls": [{"name": "ls", "arguments": {}}], "repeat": "forever"}


def run_of(rule: bl.StopRule) -> bl.Run:
    return bl.run_sync(None, "go", model=bl.ScriptedModel([LOOK], tools={"ls": "a"}), stop=rule)


def test_every_file_that_contributing_names_is_there() -> None:
    """But for `boolab/_data`, which only the wheel has."""
    paths = {word.strip("`") for word in re.findall(r"`[\w./*<>-]+`", TEXT)}
    files = {
        path
        for path in paths
        if "/" in path
        and "<" not in path
        and path != "boolab/_data"
        and path.split("/")[0] in ("boolab", "tests", "docs")
    }
    missing = [path for path in sorted(files) if not any(ROOT.glob(path)) and not (ROOT / path).exists()]
    assert len(files) > 50
    assert missing == []


def test_every_constant_that_contributing_names_is_there() -> None:
    names = set(re.findall(r"`([A-Z][A-Z_]{3,})`", TEXT)) - {"BOOLAB_ATLAS_CLONES"}  # a variable of the shell
    sources = "\n".join(path.read_text(encoding="utf-8") for folder in ("boolab", "tests") for path in
                        (ROOT / folder).rglob("*.py"))  # fmt: skip
    assert len(names) > 10
    assert [name for name in sorted(names) if not re.search(rf"^ *{name}\b.*=", sources, re.MULTILINE)] == []


def test_a_column_is_a_line_of_its_table(monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of(bl.max_steps(2))
    column = Column("n_asked", "Int64", lambda row: len(row.step.response.tool_calls))
    monkeypatch.setattr(tables, "STEP_COLUMNS", [*tables.STEP_COLUMNS, column])
    assert bl.steps_df(run)["n_asked"].tolist() == [1, 1]


def test_a_command_is_a_module_and_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def add(parser: ArgumentParser) -> None:
        parser.add_argument("word", help="what is counted")

    toy = ModuleType("boolab.cli.toy")
    vars(toy)["COMMAND"] = Command(
        lambda args: len(args.word), add, "It ends with a number of letters.", "examples:\n  boolab toy a"
    )
    monkeypatch.setitem(sys.modules, "boolab.cli.toy", toy)
    monkeypatch.setitem(COMMANDS, "toy", ("toy", "end with a number of letters"))
    assert main(["toy", "hello"]) == 5
    assert "It ends with a number of letters." in help_pages()["boolab toy"]


def test_an_adapter_stops_where_the_engine_does() -> None:
    rule = bl.max_steps(3) | bl.doom_loop(3)
    adapter, steps = MonitoredRun(rule), 0
    while adapter.boundary().action == "continue":
        adapter.after([("ls", {})], ["a"])
        steps += 1
    run = run_of(rule)
    assert run.stop is not None
    assert (steps, adapter.monitor.verdict.stop.reason) == (run.n_steps, run.stop.reason)  # type: ignore[union-attr]


@dataclass(frozen=True)
class CallsOfLs:
    """How often `ls` was called."""

    name: ClassVar[str] = "calls_of_ls"
    reason: ClassVar[StopReason] = "doom_loop"
    least: ClassVar[int] = 1
    start: ClassVar[int] = 0
    meaning: ClassVar[str] = "calls of ls"

    def fold(self, state: int, call: bl.detectors.ObservedCall) -> tuple[int, int]:
        count = state + (call.name == "ls")
        return count, count


def test_a_detector_is_a_class_that_stops_live_as_offline() -> None:
    rule = bl.detectors.stop_when(CallsOfLs(), 4)
    assert run_of(rule).n_steps == 4
    table = bl.counterfactual([run_of(bl.max_steps(9))], rules=[rule])
    assert table["stop_step"].tolist() == [4]


def test_event_values_stay_out_of_facts_until_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of(bl.max_steps(2))
    event = Event(0, "toy", {"count": 3, "words": WORDS, "after_step": 1})
    run = replace(run, events=(event,))
    assert bl.events_df(run)["kind"].tolist().count("toy") == 1
    assert WORDS not in repr([*facts_of([run])])
    monkeypatch.setitem(fact_places.EVENTS, "toy", {"count": "number"})
    assert [event.payload for fact in facts_of([run]) for event in fact.events] == [{"count": 3, "after_step": 1}]


CONFIDENCES: Final = (0.9, 0.99)
CONFIDENCE_CONTROL: Final = """
const confidenceControl = ({ confidence, confidences, grid }, act) => grid ? percent(confidence) : h("select", {
  onchange: (event) => act.choose({ confidence: Number(event.target.value) }),
}, confidences.map((one) => h("option", { value: one }, percent(one))));
"""


class ConfidenceLab(bl.CapLab):
    """CapLab with a control of the confidence."""

    def _on_wanted(self, change: Mapping[str, Any]) -> None:
        request = change["new"] or {}
        if "confidence" in request:
            self._tables.question = replace(self._tables.question, confidence=request["confidence"])
            self._refresh()
        else:
            super()._on_wanted(change)

    def _data_of(self, setting: Setting, rows: int = ROWS) -> dict[str, Any]:
        asked = {"confidence": self._tables.question.confidence, "confidences": CONFIDENCES}
        return super()._data_of(setting, rows) | asked


def test_a_control_of_caplab_changes_the_answer_and_is_drawn() -> None:
    runs = labelled_runs(120)
    lab = ConfidenceLab(runs)
    assert lab.recommended["confidence"] == 0.95
    lab._figure.wanted = {"confidence": 0.9}
    assert lab.recommended["confidence"] == 0.9
    sentences = bl.recommend(runs, confidence=0.9).sentences
    assert lab.recommended["sentences"] == [*sentences] != [*bl.recommend(runs).sentences]
    with pytest.raises(bl.SettingError, match="confidence"):
        lab._figure.wanted = {"confidence": 2}
    data = lab._data_of(Setting(**lab.setting))
    assert unread_keys(data, module_of("caplab")) == ["confidence", "confidences"]
    assert unread_keys(data, module_of("caplab") + CONFIDENCE_CONTROL) == []
    assert "confidenceControl" in unused_functions(module_of("caplab") + CONFIDENCE_CONTROL)


def printed_by(command: str, path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What a command prints of runs."""
    capsys.readouterr()
    main([command, str(path)])
    return capsys.readouterr().out


def page_of(path: Path) -> str:
    """The report of runs."""
    page = path.with_suffix(".html")
    main(["report", str(path), "-o", str(page)])
    return page.read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_sentence_of_recommend_is_on_each_surface(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs, path = labelled_runs(60), tmp_path / "runs.jsonl"
    bl.save_runs(runs, path)
    monkeypatch.setattr(words, "_text", lambda *_: WORDS)
    found, lab = bl.recommend(runs), bl.CapLab(runs)
    texts = [str(found), found._repr_html_(), printed_by("whatif", path, capsys), page_of(path)]
    assert [WORDS in text for text in texts] == [True] * 4
    assert set(lab.recommended["sentences"]) == {WORDS}


@pytest.mark.slow
def test_a_sentence_of_an_audit_is_on_each_surface(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs, path = [replace(run, limits={"steps": 3}) for run in labelled_runs(5)], tmp_path / "runs.jsonl"
    bl.save_runs(runs, path)
    monkeypatch.setattr(AuditWords, "sentences", lambda _: [WORDS])
    found = bl.audit(runs)
    texts = [str(found), found._repr_html_(), printed_by("audit", path, capsys), page_of(path)]
    assert [WORDS in text for text in texts] == [True] * 4


class Total(Displayable):
    """A value with a document of its own."""

    def _document_(self) -> Document:
        return Document(title=WORDS)


def test_a_value_shows_the_document_that_it_makes() -> None:
    assert WORDS in Total()._repr_html_()


READ: Final = """
import sys

from boolab.logs import readers

readers.__path__.append(sys.argv[1])
readers.SIGNS["toy_reader"] = frozenset({"log"})
import boolab as bl

bl.load_runs(sys.argv[2])
assert "boolab.logs.readers.toy_reader" not in sys.modules
assert [run.source for run in bl.load_runs(sys.argv[1])] == ["toy"]
"""


def test_a_reader_is_a_module_and_its_signs(tmp_path: Path) -> None:
    """The reader of the page on readers, among those of boolab."""
    for block in blocks_of((ROOT / "docs/howto/add_a_reader.md").read_text(encoding="utf-8")):
        if block.mark is not None and block.mark[0] == "file":
            (tmp_path / Path(block.mark[1]).name).write_text(block.code, encoding="utf-8")
    words = [sys.executable, "-c", READ, str(tmp_path), str(ROOT / "tests/data/tau_bench/tau-bench-tiny-airline.json")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
