"""Released packages as entries of the stop benchmark: what they are fed, and what is written of their answers."""

import csv
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from benchmarks.environments import REQUIREMENTS, Skipped
from benchmarks.stop_peers.entries import ENTRIES
from benchmarks.stop_peers.prefixes import fed, group_of, without_results, write
from benchmarks.stop_peers.replay import ADAPTERS, Part, adapter_of, replay, save
from benchmarks.stop_peers.submissions import PAGE, entered, name_of, pinned, submission_of, with_table
from boolab.core.types import Stop, ToolResult
from boolab.logs.shipped import atlas_files
from tests.support.project import ROOT

PYTHON = Path(sys.executable)
SUMS = ROOT / "datasets" / "atlas" / "SHA256SUMS"

STAND_IN = """
import sys
sys.path.insert(0, {adapters!r})
from exchange import serve

def prepare(training):
    longest = max((len(run["steps"]) for run in training if run["success"]), default=99)
    assert all(call["result"] is None for run in training for step in run["steps"] for call in step["calls"])
    def new_guard(group):
        seen = []
        def guard(step):
            assert not any(stopped for stopped in seen), "a step after the stop"
            print("for nobody to read")
            seen.append(len(seen) + 1 > longest)
            return seen[-1]
        return guard
    return new_guard

serve("numpy", prepare)
"""
"""It stops a run that is longer than all successes that it learned from."""


def run(run_id: str, steps: int, *, success: bool = True, task: str = "") -> bl.Run:
    calls = [
        bl.Step(
            n,
            1,
            None,
            None,
            None,
            bl.models.Response(f"text {n}", (bl.models.ToolCall("a", "look", f'{{"at": {n}}}'),)),
            (ToolResult("a", f"seen {n}", is_error=None),),
        )
        for n in range(1, steps + 1)
    ]
    stop = Stop("finished", steps)
    return bl.Run(
        run_id=run_id,
        agent="",
        model="m",
        policy="",
        task=task or run_id,
        stop=stop,
        steps=tuple(calls),
        success=success,
        settings={"set": "s"},
    )


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    path = tmp_path / "stand_in_peer.py"
    path.write_text(STAND_IN.format(adapters=str(ADAPTERS)))
    return path


def test_a_guard_is_fed_calls_with_parsed_arguments_and_results() -> None:
    [step, _] = fed(run("a", 2))["steps"]
    [call] = step["calls"]
    assert call == {"tool": "look", "arguments": {"at": 1}, "result": "seen 1", "error": None}
    assert step["text"] == "text 1"


@pytest.mark.parametrize("text", ["ls -l", "[1, 2]", "", '{"a": '])
def test_arguments_that_are_no_json_object_stay_text(text: str) -> None:
    whole = run("a", 1)
    response = whole.steps[0].response._replace(tool_calls=(bl.models.ToolCall("a", "look", text),))
    [found] = fed(replace(whole, steps=(whole.steps[0]._replace(response=response),)))["steps"]
    assert found["calls"][0]["arguments"] == text


def test_a_call_that_was_dropped_is_not_fed_since_it_never_ran() -> None:
    whole = run("a", 1)
    dropped = replace(whole, steps=(whole.steps[0]._replace(results=(None,)),))
    assert fed(dropped)["steps"][0]["calls"] == []


def test_group_of_a_run_is_its_set_model_and_own_settings() -> None:
    own: dict[str, Any] = {"set": "s", "ended_by": "agent", "prompt": "react"}
    assert group_of(replace(run("a", 1), settings=own)) == "s/m/react"
    assert group_of(run("a", 1)) == group_of(run("b", 2)) == "s/m"


def test_runs_to_learn_from_have_no_results_and_all_else(tmp_path: Path) -> None:
    whole = fed(run("a", 3))
    bare = without_results(whole)
    assert {call["result"] for step in bare["steps"] for call in step["calls"]} == {None}
    for step, own in zip(bare["steps"], whole["steps"], strict=True):
        assert [{**call, "result": own["calls"][0]["result"]} for call in step["calls"]] == own["calls"]
    assert [json.loads(line) for line in write([bare], tmp_path / "a").read_text().splitlines()] == [bare]


def test_guard_sees_one_step_at_a_time_and_none_after_its_stop(stand_in: Path) -> None:
    runs = [fed(run("short", 2)), fed(run("long", 7, success=False))]
    version, stops = replay(PYTHON, stand_in, [Part([fed(run("past", 4))], runs)])
    assert stops == {"short": None, "long": 5}
    assert re.fullmatch(r"\d+\..*", version)


def test_each_split_is_judged_by_its_own_training_runs(stand_in: Path) -> None:
    past = [Part([fed(run("p", n))], [fed(run(f"watched {n}", 9))]) for n in (2, 5)]
    assert replay(PYTHON, stand_in, past)[1] == {"watched 2": 3, "watched 5": 6}


def test_an_adapter_that_fails_is_skipped_with_its_reason(tmp_path: Path) -> None:
    broken = tmp_path / "broken_peer.py"
    broken.write_text("raise SystemExit('no such setting')")
    with pytest.raises(Skipped, match="no such setting"):
        replay(PYTHON, broken, [Part([], [fed(run("a", 1))])])


def test_stops_file_has_a_row_per_run_and_a_track_if_needed(tmp_path: Path) -> None:
    save(["a", "b"], {"": {"a": 3, "b": None}}, tmp_path / "fixed.csv")
    assert (tmp_path / "fixed.csv").read_text() == "run_id,stop_step\na,3\nb,\n"
    save(["a", "b"], {"within": {"a": 3}, "set": {"b": 2}}, tmp_path / "learned.csv")
    with (tmp_path / "learned.csv").open() as rows:
        assert list(csv.reader(rows))[1:] == [
            ["a", "3", "within"],
            ["b", "", "within"],
            ["a", "", "set"],
            ["b", "2", "set"],
        ]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.package)
def test_each_package_is_pinned_and_has_an_adapter(entry: Any) -> None:
    lines = (REQUIREMENTS / f"{entry.package}.txt").read_text(encoding="utf-8").split()
    assert all(re.fullmatch(r"[a-z0-9._-]+==[a-z0-9.]+", line) for line in lines)
    assert any(line.startswith(f"{entry.package}==") for line in lines)
    assert f'serve("{entry.package}", prepare)' in adapter_of(entry.package).read_text(encoding="utf-8")


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.package)
def test_each_package_is_judged_on_the_shipped_atlas_and_listed(entry: Any) -> None:
    submission = submission_of(entry)
    shipped = {line.split()[1]: line.split()[0] for line in SUMS.read_text(encoding="utf-8").splitlines()}
    assert submission.data.files == {path.name: shipped[path.name] for path in atlas_files("atlas")}
    assert ("none" in submission.tracks) is not entry.learns
    page = PAGE.read_text(encoding="utf-8")
    assert (
        f"| [{entry.package}]({entry.url}) | {pinned(entry.package)} | {entry.stops} | {entry.changed or '-'} |" in page
    )
    assert with_table(page) == page, "run: make stop-peers"


def test_stops_entry_describes_its_package_and_changed_defaults(tmp_path: Path) -> None:
    [entry] = [one for one in ENTRIES if one.package == "agent-watchdog"]
    save(["a"], {"": {"a": 1}}, tmp_path / "stops.csv")
    about = entered(entry, tmp_path / "stops.csv").about
    assert about.name == name_of(entry) == f"agent-watchdog {pinned('agent-watchdog')}"
    assert entry.stops in about.description
    assert entry.changed in about.description
