"""Survival: what counts as a unit, as an end and as a label; and what is said of it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from boolab.core.run import Run
from boolab.core.types import Step, Usage
from boolab.errors import SettingError
from boolab.frames.tables import runs_df
from boolab.plots.survival import plot_survival
from boolab.stats.survival import holm, survival
from boolab.stats.units import UNIT_COLUMNS, clusters_of, units_of
from tests.support.helpers import call, distinct, play


def session(*turns: Run, task: str = "", success: bool | None = None) -> Run:
    """Runs as the turns of one session, which ends as the last one did."""
    out: list[Step] = []
    for turn, run in enumerate(turns, 1):
        out += [step._replace(turn=turn, index=len(out) + i) for i, step in enumerate(run.steps, 1)]
    return replace(turns[-1], steps=tuple(out), task=task, success=success)


def table(lengths: Any, reasons: Any = "finished", **columns: Any) -> pd.DataFrame:
    """A frame like `runs_df`, with as much as survival needs."""
    n = len(lengths)
    data = pd.DataFrame({"n_steps": pd.array(list(lengths), dtype="Int64")})
    for name, values in {"stop_reason": reasons, "run_id": [f"r{i}" for i in range(n)], **columns}.items():
        data[name] = [values] * n if isinstance(values, str) else list(values)
    return data


def test_each_turn_is_a_unit_and_one_without_text_is_interrupted() -> None:
    run = session(play(distinct(2)), play(distinct(3, end=None), max_steps=3), play(distinct(1)), success=True)
    turns = units_of([run])
    assert turns["n_steps"].tolist() == [3, 3, 2]
    assert turns["ended"].tolist() == [True, False, True]
    assert turns["stop_reason"].tolist() == ["finished", "interrupted", "finished"]
    assert turns["n_tool_calls"].tolist() == [2, 3, 1]
    assert turns["success"].isna().all()
    assert turns["cluster"].tolist() == [run.run_id] * 3
    whole = units_of([run], scope="run")
    assert whole[["n_steps", "n_tool_calls", "ended", "success"]].to_numpy().tolist() == [[8, 6, True, True]]


def test_the_last_turn_ended_if_the_run_did() -> None:
    cases: list[tuple[dict[str, Any], bool]] = [({}, True), ({"max_steps": 2}, False), ({"tool_budget": 1}, False)]
    for options, ended in cases:
        run = play(distinct(4), **options)
        assert units_of([run])["ended"].tolist() == units_of([run], scope="run")["ended"].tolist() == [ended]
    nothing = replace(play(distinct(1), max_steps=1), steps=())
    assert units_of([nothing])["n_steps"].tolist() == [0]


def test_a_turn_whose_model_failed_was_cut() -> None:
    broken = play([{"tool_calls": [call()]}, {"error": {"status": 400}}])
    assert broken.steps[-1].error
    assert units_of([session(broken, play(distinct(1)))])["ended"].tolist() == [False, True]


def test_runs_and_their_frame_make_the_same_units() -> None:
    runs = [play(distinct(n), max_steps=4) for n in (1, 3, 9)]
    runs = [replace(run, success=won) for run, won in zip(runs, (True, None, False), strict=True)]
    pd.testing.assert_frame_equal(units_of(runs), units_of(runs_df(runs)))
    assert units_of(runs).dtypes.astype(str).str.replace("string", "string[python]").to_dict() == UNIT_COLUMNS
    assert survival(runs).frame.equals(survival(runs_df(runs)).frame)


def test_tokens_omit_the_wrap_up_and_unknown_ones_stay_unknown() -> None:
    run = play(distinct(1))
    known = tuple(step._replace(response=step.response._replace(usage=Usage(10, 5))) for step in run.steps)
    runs = [
        replace(run, steps=known),
        replace(run, steps=(known[0]._replace(response=known[0].response._replace(usage=Usage(3))), known[1])),
    ]
    assert units_of(runs)["n_tokens"].tolist() == [30, pd.NA]
    found = survival([runs[0]] * 3 + [runs[1]], of="tokens")
    assert found["time"].tolist() == [30]
    assert found["at_risk"].tolist() == [3]
    assert "1 of 4 runs is left out" in found.notes[0]
    frame = runs_df(runs[:1]).assign(summary_tokens=7)
    assert units_of(frame)["n_tokens"].tolist() == [23]


def test_a_setting_may_be_called_as_a_column_is_elsewhere() -> None:
    runs = [replace(play(distinct(n)), settings={"max_steps": cap}) for n in range(1, 9) for cap in (20, 5)]
    found = survival(runs, by="max_steps")
    assert found["max_steps"].drop_duplicates().tolist() == [5, 20]
    assert found.table is not None
    assert found.table["max_steps"].tolist() == [5, 20]
    assert found.tests[["first", "second"]].to_numpy().tolist() == [["5", "20"]]


def test_groups_without_a_value_are_a_group() -> None:
    runs = table([1, 2, 3, 4], agent=["a", "", "a", None])
    found = survival(runs, by="agent")
    assert {sentence.split(":")[0] for sentence in found.sentences} == {"a", "no name"} | {found.sentences[-1]}
    assert found.table is not None
    assert found.table["n"].sum() == 4


def test_several_keys_make_a_group_each_pair_of_values() -> None:
    found = survival(table(range(1, 9), agent=list("abab" * 2), model=list("xxyy" * 2)), by=["agent", "model"])
    assert found.frame.columns[:3].tolist() == ["agent", "model", "of"]
    assert found.table is not None
    assert len(found.table) == 4
    assert len(found.tests) == 6


def test_the_frame_has_its_columns_also_where_there_is_nothing() -> None:
    full = survival(table([3, 5], success=[True, False]))
    for empty in (survival([]), survival(runs_df([])), survival(table([]))):
        assert empty.frame.dtypes.tolist() == full.frame.dtypes.tolist()
        assert empty.frame.columns.tolist() == full.frame.columns.tolist()
        assert empty.sentences == ("There are no runs.",)
        assert len(empty.tests) == 0
    assert survival([], by="agent").frame.columns[0] == "agent"


def test_sentences_say_the_median_its_interval_and_its_base() -> None:
    found = survival(table([*range(1, 21)], ["finished"] * 17 + ["step_cap"] * 3))
    base = "3 are censored: they count as lasting longer than observed"
    assert found.sentences == (f"Half of 20 runs had ended after 10 steps (95% interval 5 to 15); {base}.",)
    assert found.notes == ("No run has a success label: success and failure are NA.",)
    low, high = (found["time"][(found[part] <= 0.5)].iloc[0] for part in ("low", "high"))
    assert (low, high) == (5, 15)


def test_what_cannot_be_said_is_said() -> None:
    one = survival(table([7]))
    assert one.sentences == ("One run is not enough to estimate how long runs take; it ended after 7 steps.",)
    cut = survival(table([3, 4, 5], "step_cap"))
    assert cut.sentences == (
        "All 3 runs are censored, the longest after 5 steps: when they would have ended is not known.",
    )
    assert cut["survival"].tolist() == [1, 1, 1]
    assert survival(table([3, 4], "step_cap")).sentences[0].startswith("Both runs are censored")
    few = survival(table([2, *[9] * 9], ["finished"] + ["step_cap"] * 9))
    assert few.sentences[0].startswith("The median is not reached: 90% (95% interval")
    assert few.table is not None
    assert few.table["median"].isna().all()
    unknown = survival(table([2, 3]), of="tokens")
    assert unknown.sentences == ("How many tokens it took is not known of any of 2 runs.",)
    assert len(unknown.frame) == 0


def test_failing_is_an_end_and_not_a_cut() -> None:
    found = survival(table([1, 2, 3, 4], ["finished"] * 3 + ["step_cap"], success=[True, False, True, True]))
    assert found["success"].round(4).tolist() == [0.25, 0.25, 0.5, 0.75]  # the last was cut, and labelled all the same
    assert found["failure"].round(4).tolist() == [0, 0.25, 0.25, 0.25]
    assert found["survival"].round(4).tolist() == [0.75, 0.5, 0.25, 0.25]
    assert set(found["success_by"]) == {"label"}
    assert "under the recorded limits, 75% (" in found.sentences[1]


def test_ends_without_a_label_count_as_neither() -> None:
    found = survival(table([1, 2, 3, 4], success=[True, None, False, None]))
    assert found["success"].tolist() == [0.25] * 4
    assert found["failure"].tolist() == [0, 0, 0.25, 0.25]
    assert "2 of 4 runs that ended have no label" in found.notes[0]
    none = survival(table([1, 2]))
    assert none["success"].isna().all()
    assert none["failure_high"].isna().all()
    assert none["success_by"].isna().all()


def test_labels_of_sessions_are_not_given_to_their_turns() -> None:
    run = session(play(distinct(2)), play(distinct(1)), success=True)
    found = survival([run, run])
    assert found["success"].isna().all()
    assert any('scope="run"' in note for note in found.notes)
    assert found.title == "How many steps a turn takes"
    assert survival([run, run], scope="run")["success"].tolist() == [1.0]
    unlabelled = survival(iter([replace(run, success=None)]))
    assert not any("scope" in note for note in unlabelled.notes)


def test_survival_resamples_runs_of_a_task_together_and_says_so() -> None:
    rng = np.random.default_rng(2)
    lengths = rng.geometric(0.1, 30)
    alone = survival(table(lengths))
    assert not any("resample" in note for note in alone.notes)
    copies = table(np.repeat(lengths, 5), task=np.repeat([f"t{i}" for i in range(30)], 5))
    together = survival(copies)
    assert "Intervals resample 30 tasks, because runs of a task are not independent." in together.notes
    naive = survival(copies.drop(columns="task"))
    width = [float((f["high"] - f["low"]).astype(float).mean()) for f in (alone, together, naive)]
    assert width[1] > 0.9 * width[0] > 1.5 * width[2]
    few = survival(table([3, 4, 5, 6], task=["a", "a", "b", "b"]))
    assert "With so few tasks the intervals are rough." in few.notes


def test_turns_of_a_run_are_resampled_together() -> None:
    runs = [session(play(distinct(n)), play(distinct(n + 1))) for n in range(1, 5)]
    assert any("resample 4 runs, because turns of a run" in note for note in survival(runs).notes)
    assert clusters_of(units_of(runs))[1] == "run"
    named = [replace(run, task=f"t{place % 2}") for place, run in enumerate(runs)]
    assert clusters_of(units_of(named))[1] == "task"
    assert clusters_of(units_of(named), ["task"])[1] == "run"
    assert clusters_of(units_of(named), ["run_id"])[1] == ""


def test_runs_of_one_task_alone_are_what_repeats() -> None:
    found = survival(table([1, 2, 3], task="t"))
    assert not any("resample" in note for note in found.notes)
    assert any("of one task" in note for note in found.notes)
    assert found["low"].notna().all()


def test_cuts_that_may_tell_something_are_named() -> None:
    found = survival(table([1, 2, 3, 4], ["finished", "doom_loop", "error", "step_cap"]))
    assert any("2 runs censored for reasons" in note and "doom_loop 1" in note for note in found.notes)
    assert not any("step_cap" in note for note in found.notes)


def test_groups_are_compared_and_corrected() -> None:
    lengths = [*range(1, 21), *range(41, 61), *range(41, 61)]
    found = survival(table(lengths, agent=["fast"] * 20 + ["slow"] * 20 + ["late"] * 20), by="agent")
    said = [sentence for sentence in found.sentences if "sooner" in sentence]
    assert said == [
        f"Runs of fast end sooner than those of {other} (logrank p < 0.001 after Holm's correction for 3 comparisons)."
        for other in ("slow", "late")
    ]
    assert found.tests["p_holm"].tolist() == holm(found.tests["p"].to_numpy(float)).tolist()
    assert found.tests["clustered_by"].isna().all()
    alike = survival(table([1, 2, 3, 1, 2, 3], agent=list("aaabbb")), by="agent")
    assert alike.sentences[-1].startswith("The test shows no difference between these two groups (logrank p = 1)")
    untested = survival(table([3, 3], agent=["a", "b"]), by="agent")
    assert untested.tests["p"].isna().all()


def test_many_groups_are_not_told_one_by_one() -> None:
    found = survival(table(range(1, 51), agent=[f"a{i % 25}" for i in range(50)]), by="agent")
    assert "19 further groups in the table." in found.sentences
    assert len(found.tests) == 0
    assert any("too many to compare" in note for note in found.notes)


def test_holm_is_as_worked_by_hand() -> None:
    assert holm(np.array([0.01, np.nan, 0.04, 0.03, 0.9])).round(9).tolist()[:1] == [0.04]
    found = holm(np.array([0.01, np.nan, 0.04, 0.03, 0.9]))
    assert np.isnan(found[1])
    assert found[[2, 3, 4]].round(9).tolist() == [0.09, 0.09, 0.9]


def test_names_from_logs_are_not_markup() -> None:
    found = survival(table([1, 2, 3], agent=["<b>\x1b[1m"] * 3), by="agent")
    assert "<b>" not in found._repr_html_()
    assert "\x1b" not in str(found)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"of": "days"}, "of='days'"),
        ({"by": "colour"}, "no such column"),
        ({"by": "stop_reason"}, "only after a run"),
        ({"scope": "step"}, "scope='step'"),
        ({"confidence": 95}, "between 0 and 1"),
    ],
)
def test_arguments_that_are_none_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        survival([play(distinct(1))], **arguments)


def test_a_frame_cannot_tell_turns_apart() -> None:
    frame = runs_df([session(play(distinct(1)), play(distinct(1)))])
    with pytest.raises(SettingError, match="several turns"):
        survival(frame)
    assert survival(frame, scope="run")["time"].tolist() == [4]
    with pytest.raises(SettingError, match="no column 'n_steps'"):
        survival(pd.DataFrame({"stop_reason": ["finished"]}))


@pytest.mark.parametrize("as_frame", [False, True])
def test_failures_are_compared_with_successes(*, as_frame: bool) -> None:
    lengths = [(label, 1 + n % 3 + 4 * (not label)) for label in (True, False) for n in range(8)]
    runs = [replace(play(distinct(steps)), success=label) for label, steps in lengths]
    found = survival(runs_df(runs) if as_frame else runs, by="success")
    assert found.table is not None
    medians = dict(zip(found.table["by_success"], found.table["median"], strict=True))
    assert medians == {False: 7, True: 3}
    assert "Runs of success end sooner than those of failure" in " ".join(found.sentences)
    assert "(success) to 7 (failure)" in plot_survival(found, ax=Figure().subplots()).get_title(loc="left")
