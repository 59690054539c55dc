"""The lists of CONTRIBUTING.md, each followed with a toy: what a list names is enough, and is there."""

import re
import sys
from argparse import ArgumentParser
from dataclasses import dataclass, replace
from types import ModuleType
from typing import ClassVar

import pytest

import boolab as bl
from boolab.cli.help import Command
from boolab.cli.main import COMMANDS, help_pages, main
from boolab.core.types import Event, StopReason
from boolab.frames import tables
from boolab.frames.dtypes import Column
from boolab.integrations.monitored_run import MonitoredRun
from boolab.logs import fact_places
from boolab.logs.facts import facts_of
from tests.support.project import ROOT

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
