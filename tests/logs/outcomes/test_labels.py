"""Success labels from elsewhere."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from boolab.core.run import Run
from boolab.errors import SettingError
from boolab.logs.outcomes.labels import label
from tests.support.helpers import distinct, play


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return [replace(play(distinct(n)), run_id=f"r{n}", task=f"t{n % 2}", settings={"won": n == 1}) for n in (1, 2, 3)]


def given(runs: list[Run]) -> list[bool | None]:
    return [run.success for run in runs]


def test_a_mapping_labels_the_runs_that_it_names(runs: list[Run]) -> None:
    assert given(label(runs, {"r1": True, "r3": 0})) == [True, None, False]
    assert given(runs) == [None, None, None]
    assert given(label(label(runs, {"r1": True}), {"r2": False})) == [True, False, None]


def test_by_task_all_its_runs_are_labelled(runs: list[Run]) -> None:
    assert given(label(runs, {"t1": 1}, key="task")) == [True, None, True]
    assert given(label(runs, pd.Series({"t1": 0, "t0": 1}), key="task")) == [False, True, False]


@pytest.mark.parametrize(
    "values",
    [
        pd.array([True, None, False], dtype="boolean"),
        pd.array([1, None, 0], dtype="Int64"),
        [1.0, float("nan"), 0.0],
        np.array([True, None, False], dtype=object),
    ],
)
def test_a_series_of_any_dtype_labels_with_unknown_for_na(runs: list[Run], values: Any) -> None:
    assert given(label(runs, pd.Series(values, index=["r1", "r2", "r3"]))) == [True, None, False]
    assert all(
        type(run.success) in (bool, type(None)) for run in label(runs, pd.Series(values, index=["r1", "r2", "r3"]))
    )


def test_numpy_flags_are_labels(runs: list[Run]) -> None:
    labels = {"r1": np.True_, "r2": np.int64(0), "r3": np.float64(1)}
    assert given(label(runs, labels)) == [True, False, True]


def test_a_callable_and_a_setting_label_too(runs: list[Run]) -> None:
    assert given(label(runs, lambda run: None if run.run_id == "r2" else run.n_steps > 2)) == [False, None, True]
    assert given(label(runs, "won")) == [True, False, False]
    assert given(label(runs[0], "won")) == [True]


@pytest.mark.parametrize(
    ("by", "message"),
    [
        ({"r9": True, "r1": True}, "a run_id that no run has: 'r9'"),
        ({f"x{n}": True for n in range(7)}, "'x4' and 2 more"),
        ({"r1": "maybe"}, "the label of 'r1' is 'maybe'; accepted: True, False, 1, 0, yes, no, pass, fail, or None"),
        ({"r1": 2}, "is 2; accepted"),
        ({"r1": 0.5}, "is 0.5; accepted"),
        (lambda run: "won", "the label of run r1 is 'won'"),
        ("lost", "no run has the setting 'lost'; there are: won"),
        (pd.Series([1, 0], index=["r1", "r1"]), "given more than once: 'r1'"),
        (pd.DataFrame({"a": [1]}), "not a DataFrame"),
        ([True], "not a list"),
    ],
)
def test_what_cannot_be_meant_is_refused(runs: list[Run], by: Any, message: str) -> None:
    with pytest.raises(SettingError) as caught:
        label(runs, by)
    assert message in str(caught.value)


def test_another_key_is_refused(runs: list[Run]) -> None:
    with pytest.raises(SettingError, match="key='model' is not known; accepted: run_id, task"):
        label(runs, {}, key="model")  # type: ignore[arg-type] # on purpose


def test_no_runs_take_any_labels_of_none() -> None:
    assert label([], {}) == label([], "won") == label([], bool) == []


def test_a_run_without_the_setting_keeps_what_it_had(runs: list[Run]) -> None:
    bare = replace(runs[0], settings={}, success=True)
    assert given(label([bare, *runs], "won")) == [True, True, False, False]
