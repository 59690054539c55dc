"""Entries: what they see, what they are chosen on, and that the ways to enter agree."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boolab as bl
from benchmarks.stoprulebench.entries import About, Entry, FunctionEntry, RuleEntry
from benchmarks.stoprulebench.first_stops import NEVER, RuleTables, Scoped
from benchmarks.stoprulebench.judge import held_out_stops, judge
from benchmarks.stoprulebench.load import entries_of
from benchmarks.stoprulebench.recordings import Recordings, recordings_of
from benchmarks.stoprulebench.rule_file import parse_rules
from benchmarks.stoprulebench.stop_list import read_stops
from benchmarks.stoprulebench.submission import Submission, as_json
from benchmarks.stoprulebench.tracks import TRACKS, parts_of
from boolab.core.run import Run
from boolab.core.types import Step
from boolab.errors import FileError, SettingError
from boolab.limits.function_rule import Prefix
from boolab.limits.stop import StopRule
from tests.support.bench_cases import run_of, some_recordings

DATA = some_recordings(5, tasks=20)


def prepared(entry: Entry, data: Recordings = DATA) -> Any:
    return entry.prepare(data, RuleTables(data.runs, entry.settings))


def judged(entry: Entry, data: Recordings = DATA) -> Submission:
    (submission,) = judge([entry], data)
    return submission


def function(target: Any) -> FunctionEntry:
    return FunctionEntry(about=About(name="f"), target=target)


def figures(submission: Submission) -> object:
    return submission.model_dump()["tracks"]


# --- What a function sees ---------------------------------------------------------------------------------------------


def test_function_sees_growing_prefixes_but_never_the_last_step() -> None:
    seen: dict[str, list[tuple[Step, ...]]] = {}

    def look(prefix: Prefix) -> bool:
        seen.setdefault(run_of_step[id(prefix.steps[0])], []).append(prefix.steps)
        return False

    run_of_step = {id(run.steps[0]): run.run_id for run in DATA.runs}
    judged(function(look))
    for run in DATA.runs:
        assert seen.get(run.run_id, []) == [run.steps[:k] for k in range(1, len(run.steps))]


def test_function_prefix_has_no_outcome_and_no_later_steps() -> None:
    def look(prefix: Prefix) -> bool:
        assert set(Prefix.__dataclass_fields__) == {"agent", "model", "steps"}
        assert type(prefix.steps) is tuple
        return False

    judged(function(look))


def test_function_is_not_asked_again_after_it_stopped_a_run() -> None:
    asked: list[int] = []

    def third(prefix: Prefix) -> bool:
        asked.append(len(prefix.steps))
        return len(prefix.steps) == 3

    stops = prepared(function(third)).stops(next(parts_of(DATA, "none")))
    assert max(asked) == 3
    assert stops[0].tolist() == np.where(DATA.lengths > 3, 3, NEVER).tolist()


def test_what_follows_a_stop_changes_nothing() -> None:
    """Runs that agree up to the stop are stopped there, however they go on."""
    for entry in (parse_rules("rules: [{doom_loop: 3}, {error_streak: 4}]"), function(repeats_thrice)):
        whole = prepared(entry).stops(next(parts_of(DATA, "none")))[0]
        cut = [replace(run, steps=run.steps[: k + 1]) if k else run for run, k in zip(DATA.runs, whole, strict=True)]
        again = recordings_of(cut, "cut")
        assert [run.run_id for run in again.runs] == [run.run_id for run in DATA.runs]
        assert prepared(entry, again).stops(next(parts_of(again, "none")))[0].tolist() == whole.tolist()


class Watching:
    """Fits a cap, and writes down what it was fitted on."""

    def __init__(self) -> None:
        self.fits: list[Sequence[Run]] = []

    def fit(self, runs: Sequence[Run]) -> StopRule:
        self.fits.append(runs)
        return bl.max_steps(max(len(run.steps) for run in runs if run.success))


def test_a_learner_is_fitted_on_the_training_runs_of_each_split() -> None:
    learner = Watching()
    entry = prepared(function(learner))
    assert [track for track in TRACKS if entry.enters(track)] == ["within", "model", "set"]
    for track in ("within", "model", "set"):
        for part in parts_of(DATA, track):
            learner.fits.clear()
            entry.stops(part)
            train = [run for run, inside in zip(DATA.runs, part.train[DATA.cell], strict=True) if inside]
            assert learner.fits == ([train] if any(run.success for run in train) else [])


class Scoring:
    """Fits nothing; gives numbers, whose threshold is chosen on a fold that it was not fitted on."""

    scores = True

    def __init__(self) -> None:
        self.fits: list[set[str]] = []

    def fit(self, runs: Sequence[Run]) -> Any:
        self.fits.append({run.run_id for run in runs})
        return lambda prefix: float(len(prefix.steps))


def test_fitted_score_gets_its_threshold_from_other_tasks() -> None:
    learner = Scoring()
    entry = prepared(function(learner))
    for part in parts_of(DATA, "within"):
        entry.stops(part)
        tuned = {run.run_id for run, inside in zip(DATA.runs, part.tune[DATA.cell], strict=True) if inside}
        assert not learner.fits[-1] & tuned


def test_fitted_score_without_folds_for_a_threshold_is_refused() -> None:
    class Careless:
        def fit(self, _: Sequence[Run]) -> Any:
            return lambda _: 0.5

    with pytest.raises(SettingError, match=r"f: its fitted function gives numbers.*`scores = True`"):
        judged(function(Careless()))


@pytest.mark.parametrize(
    ("answer", "match"),
    [(None, r"f: it gave None after step 1 of run \S+: expected True, False or a number"), (float("nan"), r"gave nan"),
     ("yes", r"gave 'yes'")],
)  # fmt: skip
def test_an_answer_that_is_none_is_refused(answer: object, match: str) -> None:
    with pytest.raises(SettingError, match=match):
        judged(function(lambda _: answer))


def test_answers_of_both_kinds_are_refused() -> None:
    with pytest.raises(SettingError, match=r"f: it gave both True or False and numbers"):
        judged(function(lambda prefix: len(prefix.steps) > 2 if len(prefix.steps) % 2 else 0.5))


# --- The ways to enter agree ------------------------------------------------------------------------------------------


def repeats_thrice(prefix: Prefix) -> bool:
    names = [step.response.tool_calls[0].name for step in prefix.steps]
    last = [(n, i) for n, i in zip(names, range(len(names)), strict=True)][-3:]
    errors = [step.results[0].is_error for step in prefix.steps]  # type: ignore[union-attr]
    return (len(last) == 3 and len({name for name, _ in last}) == 1) or (len(errors) >= 4 and all(errors[-4:]))


def test_rule_function_and_list_of_equal_stops_score_the_same(tmp_path: Path) -> None:
    rules = parse_rules("rules: [{doom_loop: 3}, {error_streak: 4}]")
    expected = figures(judged(rules))
    stops, everything = held_out_stops(prepared(rules), DATA, "none")
    assert everything.all()
    assert (stops[0] != NEVER).sum() > 20
    assert figures(judged(function(repeats_thrice))) == expected
    rows = "".join(f"{run.run_id},{k or ''}\n" for run, k in zip(DATA.runs, stops[0].tolist(), strict=True))
    (tmp_path / "stops.csv").write_text(f"run_id,stop_step\n{rows}")
    assert figures(judged(read_stops(tmp_path / "stops.csv"))) == expected


def test_a_score_is_tuned_as_the_rule_on_the_same_counter_is() -> None:
    caps = figures(judged(parse_rules("rules: [{max_steps: '1:40'}]")))
    assert figures(judged(function(lambda prefix: float(len(prefix.steps))))) == caps


def test_a_fitted_rule_is_judged_as_the_rule_that_it_gives() -> None:
    class Fixed:
        def fit(self, _: Sequence[Run]) -> StopRule:
            return bl.doom_loop(3)

    fitted, fixed = judged(function(Fixed())), judged(parse_rules("rules: [{doom_loop: 3}]"))
    for track, result in fitted.tracks.items():
        for name in ("score", "saved_steps", "saved_cost", "kept"):
            assert getattr(result.mean, name) == getattr(fixed.tracks[track].mean, name)
        assert result.mean.area.value >= fixed.tracks[track].mean.area.value  # type: ignore[operator] # more thresholds


def test_the_same_entry_gives_the_same_bytes() -> None:
    rules = "rules: [{doom_loop: [2, 3, 4]}, {max_steps: '5:20:5'}]"
    one, other = (as_json(judged(parse_rules(rules), some_recordings(5, tasks=20))) for _ in range(2))
    assert one == other


# --- What is chosen ---------------------------------------------------------------------------------------------------


def plain_best(settings: Sequence[int], runs: Sequence[Run], keep: float) -> int | None:
    """The cap that saves most with so many successes kept."""
    best: tuple[float, float, int] | None = None
    for cap in settings:
        wins = [run for run in runs if run.success]
        kept = sum(len(run.steps) <= cap for run in wins) / len(wins)
        saved = sum(max(0, len(run.steps) - cap) for run in runs) / sum(len(run.steps) for run in runs)
        if kept >= keep - 1e-9 and (best is None or (saved, kept) > best[:2]):
            best = (saved, kept, cap)
    return None if best is None else best[2]


def test_the_best_setting_is_chosen_on_the_training_runs() -> None:
    caps = range(1, 20)
    entry = prepared(parse_rules("rules: [{max_steps: '1:19'}]"))
    for part in parts_of(DATA, "within"):
        train = [run for run, inside in zip(DATA.runs, part.train[DATA.cell], strict=True) if inside]
        test = [run for run, inside in zip(DATA.runs, part.test[DATA.cell], strict=True) if inside]
        for row, keep in zip(entry.stops(part), (0.95, *DATA.fixed.levels), strict=True):
            cap = plain_best(caps, train, keep)
            assert row.tolist() == [cap if cap is not None and len(run.steps) > cap else NEVER for run in test]


def test_without_a_success_to_learn_from_nothing_is_stopped() -> None:
    runs = [run_of("ab" * 4, run_id=f"{n}", success=False, task=f"{n}") for n in range(20)]
    data = recordings_of([*runs, run_of("ab", run_id="x", success=True, task="x")], "made")
    for entry in (parse_rules("rules: [{max_steps: [1, 2]}]"), function(lambda _: 0.5), function(Watching())):
        stops, _ = held_out_stops(prepared(entry, data), data, "within")
        fold = data.cells[data.cell[data.success][0]].fold
        held = np.array([data.cells[cell].fold == fold for cell in data.cell.tolist()])
        assert (stops[:, held] == NEVER).all()


def test_percentile_is_of_the_lengths_of_training_runs() -> None:
    caps = [(Scoped(bl.max_steps(n)),) for n in range(1, 31)]
    entry = prepared(RuleEntry(about=About(name="P75"), settings=caps, by_percentile=True))
    for part in parts_of(DATA, "within"):
        cap = int(np.percentile(DATA.lengths[part.train[DATA.cell]], 75))
        lengths = DATA.lengths[part.test[DATA.cell]]
        assert entry.stops(part)[0].tolist() == np.where(lengths > cap, cap, NEVER).tolist()


def test_a_counter_that_is_not_recorded_stops_nothing() -> None:
    data = some_recordings(1, sets=["code"])
    stops = prepared(parse_rules("rules: [{max_cost: 0.000001}]"), data).stops(next(parts_of(data, "none")))
    assert (stops == NEVER).all()
    either = prepared(parse_rules("rules: [{max_cost: 0.000001}, {max_steps: 3}]"), data)
    assert either.stops(next(parts_of(data, "none")))[0].tolist() == np.where(data.lengths > 3, 3, NEVER).tolist()


def test_rule_true_before_the_first_step_stops_after_it() -> None:
    stops = prepared(parse_rules("rules: [{max_steps: 0}]")).stops(next(parts_of(DATA, "none")))
    assert stops[0].tolist() == np.where(DATA.lengths > 1, 1, NEVER).tolist()


# --- Lists of stops ---------------------------------------------------------------------------------------------------

LISTED = recordings_of([run_of("abc", run_id=name, success=True, task=name) for name in "xyz"], "made")


def listed(tmp_path: Path, text: str) -> Submission:
    (tmp_path / "stops.csv").write_text(text)
    return judged(read_stops(tmp_path / "stops.csv"), LISTED)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("run_id,step\nx,1\n", r"stops.csv:1: there is no column stop_step: expected run_id, stop_step"),
        ("run_id,stop_step\nx,one\n", r"stops.csv:2: stop_step 'one': expected the number of a step, from 1"),
        ("run_id,stop_step\nx,0\n", r"stops.csv:2: stop_step '0'"),
        ("run_id,stop_step\nx,1\nx,2\n", r"stops.csv:3: run 'x' is listed a second time"),
        ("run_id,stop_step\nx,1\ny,2,3\n", r"stops.csv:3: 3 values in a row of 2 columns"),
        ("run_id,stop_step,track\nx,1,all\n", r"stops.csv:2: there is no track 'all'; accepted: within, model"),
        ("run_id,stop_step\nx,1\ny,\n", r"stops.csv: 1 run of made not listed, such as 'z'"),
        ("run_id,stop_step\nx,1\ny,\nz,\nw,1\n", r"stops.csv: there is no run 'w' in made"),
        ("run_id,stop_step\n", r"stops.csv: there are no rows"),
        ("", r"stops.csv:1: there is no column run_id"),
    ],
)
def test_what_is_wrong_in_a_list_is_named(tmp_path: Path, text: str, match: str) -> None:
    with pytest.raises(FileError, match=match):
        listed(tmp_path, text)


def test_a_list_with_tracks_enters_these_alone(tmp_path: Path) -> None:
    rows = "".join(f"{name},,within\n{name},1,none\n" for name in "xyz")
    found = listed(tmp_path, f"run_id,stop_step,track\n{rows}")
    assert list(found.tracks) == ["within", "none"]
    assert found.tracks["within"].mean.kept.value == 1
    assert found.tracks["none"].mean.kept.value == 0


# --- Rules of Python, and entries that fail ---------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [bl.doom_loop(3, "call+result"), bl.doom_loop(3) | bl.max_steps(9), bl.max_steps(4)])
def test_rule_of_a_module_is_judged_as_in_a_file(
    rule: StopRule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text("RULE = None\n")
    monkeypatch.setattr("benchmarks.stoprulebench.load._module", lambda name: type("mine", (), {"RULE": rule}))
    (entry,) = entries_of("mine.py:RULE")
    same = RuleEntry(about=About(name="r"), settings=[(Scoped(rule),)])
    assert figures(judged(entry)) == figures(judged(same))
    assert str(rule) in entry.about.definition


def test_entry_that_fails_does_not_end_the_others() -> None:
    def broken(prefix: Prefix) -> bool:
        raise KeyError(prefix.agent)

    entries: list[Entry] = [function(broken), RuleEntry(about=About(name="cap"), settings=[(Scoped(bl.max_steps(4)),)])]
    failed: list[tuple[str, Exception]] = []
    found = [one.name for one in judge(entries, DATA, failed=lambda name, error: failed.append((name, error)))]
    assert found == ["cap"]
    assert [(name, type(error)) for name, error in failed] == [("f", KeyError)]
    with pytest.raises(KeyError):
        list(judge(entries, DATA))
