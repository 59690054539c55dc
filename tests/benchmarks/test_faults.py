"""The track of faults, against an own count; and the page that shows it."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

import boolab as bl
from benchmarks import faults
from benchmarks.stoprulebench.entries import About, RuleEntry
from benchmarks.stoprulebench.faults import FaultTrack, recordings_with_faults
from benchmarks.stoprulebench.first_stops import Scoped
from boolab.cli.main import main
from boolab.core.run import Run
from boolab.errors import SettingError
from boolab.limits.stop import StopRule
from tests.support.bench_cases import saved, some_runs


def entry_of(rule: StopRule) -> RuleEntry:
    return RuleEntry(about=About(name=str(rule)), settings=[(Scoped(rule),)])


def runs_with_faults(seed: int) -> list[Run]:
    rng = random.Random(seed)  # noqa: S311 - made data
    runs = []
    for number, run in enumerate(some_runs()):
        settings = {**run.settings, "corpus": rng.choice("ab")}
        if rng.random() < 0.5:
            settings |= {"fault": rng.choice(["loop", "timeout"]), "fault_step": rng.randint(1, len(run.steps))}
        runs.append(replace(run, run_id=str(number), settings=settings, success=None))
    return runs


def stop_after(run: Run, cap: int) -> int | None:
    return cap if cap < len(run.steps) else None


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("cap", [2, 4])
def test_shares_are_those_of_a_plain_count(seed: int, cap: int) -> None:
    runs = runs_with_faults(seed)
    early = caught = n_matched = 0
    false_share = 0.0
    delays = []
    for run in (run for run in runs if "fault" in run.settings):
        step, n_steps = run.settings["fault_step"], len(run.steps)
        others = [
            other
            for other in runs
            if "fault" not in other.settings
            and (other.settings["corpus"], other.model, len(other.steps))
            == (run.settings["corpus"], run.model, n_steps)
        ]
        if others:
            n_matched += 1
            stop = stop_after(run, cap)
            early += stop is not None and stop < step
            caught += stop is not None and stop >= step
            delays += [stop - step] if stop is not None and stop >= step else []
            stops = [stop_after(other, cap) for other in others]
            false_share += sum(stop is not None and stop >= step for stop in stops) / len(others)
    track = FaultTrack(recordings_with_faults(runs, "made"))
    row = track.judge(entry_of(bl.max_steps(cap)))["none"][0]
    assert (row.fault, row.n_matched) == ("all", n_matched)
    assert row.early.value == pytest.approx(early / n_matched)
    assert row.caught.value == pytest.approx(caught / n_matched)
    assert row.matched.value == pytest.approx(false_share / n_matched)
    assert row.delay == (sorted(delays)[len(delays) // 2] if len(delays) % 2 else row.delay)


@pytest.mark.parametrize("seed", range(3))
def test_a_cap_gains_nothing_at_matched_length(seed: int) -> None:
    track = FaultTrack(recordings_with_faults(runs_with_faults(seed), "made"))
    for row in track.judge(entry_of(bl.max_steps(3)))["none"]:
        assert row.gain.value is None or row.gain.value == pytest.approx(0)


def test_classes_add_up_to_all_faults() -> None:
    track = FaultTrack(recordings_with_faults(runs_with_faults(1), "made"))
    whole, *classes = track.judge(entry_of(bl.max_steps(3)))["none"]
    assert sum(row.n_faults for row in classes) == whole.n_faults
    assert sum(row.n_matched for row in classes) == whole.n_matched


def test_a_step_that_is_none_of_the_run_is_refused() -> None:
    runs = runs_with_faults(0)
    bad = replace(runs[0], settings={**runs[0].settings, "fault": "loop", "fault_step": 99})
    with pytest.raises(SettingError, match=r"fault 'loop' at step 99: expected the setting 'fault_step'"):
        recordings_with_faults([bad, *runs[1:]], "made")


@pytest.mark.parametrize("which", ["all have", "none has"])
def test_runs_with_and_without_faults_are_needed(which: str) -> None:
    runs = [run for run in runs_with_faults(0) if ("fault" in run.settings) == (which == "all have")]
    with pytest.raises(SettingError, match=f"{which} the setting 'fault'"):
        recordings_with_faults(runs, "made")


def test_the_command_prints_and_writes_the_track(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = saved(runs_with_faults(2), tmp_path / "runs.jsonl"), tmp_path / "faults.json"
    assert main(["bench", "baseline:max_steps(10)", "--faults", str(path), "-o", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "faults, on " in printed
    assert "max_steps(10), no training" in printed
    rows = json.loads(out.read_text())["entries"]["max_steps(10)"]["none"]
    assert [row["fault"] for row in rows] == ["all", "loop", "timeout"]


@pytest.mark.slow
def test_the_page_is_what_the_benchmark_measures() -> None:
    assert faults.tables_of(faults.measure()) in faults.PAGE.read_text(encoding="utf-8")
