from __future__ import annotations

from boolab.harnesses.setting import Setting
from boolab.limits.call_identity import exclude_tools
from boolab.widgets.caplab.controls import change_counting, counting_of, edges_of
from boolab.widgets.caplab.figures import CapCurve, amounts, tips_of, title_of
from boolab.widgets.caplab.how_to_set import short_of
from boolab.widgets.caplab.question import data_sets_of
from boolab.widgets.caplab.table import _short_names, describe_end
from tests.support.samples import atlas


def test_last_bar_of_lengths_may_be_beyond_the_axis() -> None:
    assert repr(edges_of(3, 3)) == "(array([0, 1, 2, 3, 4]), 4)"
    assert repr(edges_of(3, 100)) == "(array([  0,   1,   2,   3,   4, 101]), 4)"


def test_controls_show_identity_and_exempt_tools() -> None:
    shown = counting_of(Setting(identity=exclude_tools("raw", ["poll"])), ["ls", "poll"])
    assert shown["same"] == "raw"
    assert shown["exempt"] == ["poll"]


def test_setting_gets_exempt_tools() -> None:
    assert change_counting(Setting(identity="raw"), {"exempt": ["poll"]}).identity == {"*": "raw", "poll": None}


def test_title_names_the_tightest_or_recommended_cap() -> None:
    curve = CapCurve(
        caps=[9, 20, None],
        kept_lower=[7, 19, 20],
        upper=[7, 19, 20],
        at_least=[0, 0, 0],
        saved=[30, 5, 0],
        totals=[100] * 3,
        stopped=[9, 2, 0],
        total=20,
        measure="steps",
    )
    on_record = "On record the tightest cap that keeps 95% of the successes is 20"
    assert title_of(curve, 0.95) == f"{on_record}: it saves 5.0% of the steps"
    assert title_of(curve, 0.95, is_alone=False) == on_record  # other limits save some of it
    assert (
        title_of(curve, 0.9, 20)
        == "With 95% confidence a cap of 20 keeps 90% of the successes: it saves 5.0% of the steps"
    )


def test_tip_has_kept_saved_and_stopped() -> None:
    curve = CapCurve(
        caps=[9, None],
        kept_lower=[9, 10],
        upper=[9, 10],
        at_least=[0.65, 0.74],
        saved=[20, 0],
        totals=[80, 80],
        stopped=[3, 0],
        total=10,
        measure="steps",
    )
    assert tips_of(curve)[0] == [
        ["kept", "9 of 10", "90.0%"],
        ["at least", "", "65.0%"],
        ["saved", "20 of 80 steps", "25%"],
        ["stopped", "3 runs", ""],
        ["saved per lost success", "20 steps", ""],
    ]


def test_amounts_have_the_form_of_their_measure() -> None:
    assert amounts(351, 16707, "steps") == "351 of 16,707"
    assert amounts(3.2, 40, "cost") == "$3.20 of $40.00"
    assert amounts(1_200_000, 2_000_000, "tokens") == "1.2M of 2.0M"


def test_limits_in_few_words() -> None:
    assert short_of({"max_steps": 68, "tool_budget": None, "doom_loop": 3}) == "cap 68, doom loop 3"
    assert short_of({"max_steps": None}) == "no limit"


def test_data_set_is_read_from_task_or_setting() -> None:
    assert data_sets_of(atlas("tau-airline")) == ["tau-airline"]


def test_runs_of_one_task_are_named_by_their_ids() -> None:
    assert _short_names(["air/3", "air/3", "air/4"], ["gpt/3/0", "gpt/3/1", "gpt/4/0"]) == ["3/0", "3/1", "4/0"]
    assert _short_names(["air/3", "air/4", ""], ["a", "b", "c"]) == ["air/3", "air/4", "c"]


def test_end_of_a_run_in_plain_words() -> None:
    assert describe_end("finished") == "by itself"
    assert describe_end("step_cap") == "its own step cap"
    assert describe_end("error_streak") == "its own error streak"
    assert describe_end(None) == "not on record"
