"""One limit for all groups beside a limit for each: what both save and keep, held out, and what is said of it."""

import json
from dataclasses import replace
from typing import Any

import pytest

import boolab as bl
from boolab.core.run import Run
from tests.stats.test_recommend import run_of
from tests.support.samples import atlas

ASKED: dict[str, Any] = {"keep": 0.9, "objective": "steps"}


def of_model(model: str, n: int, length: int, *, failures: int, failed_length: int = 60) -> list[Run]:
    """Runs of one model; the failures are long."""
    letters = "abcdefghijklmnopqrstuvwxyz" * 3
    return [
        replace(run_of(0, letters[: failed_length if i < failures else length], success=i >= failures), model=model,
                run_id=f"{model}-{i}", task=f"{model}-{i}")
        for i in range(n)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def unequal() -> list[Run]:
    """A model whose successes are short, and one whose successes are long: a cap for each saves more."""
    return [*of_model("short", 200, 4, failures=60), *of_model("long", 200, 30, failures=60)]


@pytest.fixture(scope="module")
def small() -> list[Run]:
    """Models alike enough for one cap, one of which has too few runs for a limit of its own."""
    return [*of_model("large", 200, 4, failures=60), *of_model("small", 30, 6, failures=15)]


def test_both_are_counted_over_the_same_runs(unequal: list[Run]) -> None:
    found = bl.recommend(unequal, **ASKED)
    one = found.one_for_all
    assert found.keys == ("model",)
    assert one is not None
    assert one.total == sum(len(run.steps) for run in unequal)
    assert one.successes == one.kept_successes == one.each_kept == 280
    assert one.each_saved == sum(group.folds["saved_steps"] for group in found.groups if group.folds)
    pooled = bl.recommend(unequal, by=[], **ASKED).groups[0]
    assert pooled.folds is not None
    assert (one.setting, one.saved) == (pooled.setting_on, pooled.folds["saved_steps"])
    assert one.each_saved > one.saved


def test_one_sentence_has_what_both_save_and_keep(unequal: list[Run]) -> None:
    found = bl.recommend(unequal, **ASKED)
    one = found.one_for_all
    assert one is not None
    assert found.sentences[0] == (
        f"Held out, a limit for each group saves {one.each_saved_share:.0%} of the steps and keeps 280 of 280 "
        f"successes; one for all saves {one.saved_share:.0%} and keeps 280."
    )
    assert not any("for all saves" in text for text in found.verdict)


def test_a_limit_for_each_that_saves_less_is_said_plainly(small: list[Run]) -> None:
    found = bl.recommend(small, by="model", **ASKED)
    one = found.one_for_all
    assert one is not None
    assert one.each_saved < one.saved
    assert one.broken_groups == ()
    assert "Held out, a limit for each group saves less than one for all: " in found.verdict[-1]
    assert "keeps 90% or more in each group with 10 or more successes: by=[] decides on it." in found.verdict[-1]


def test_a_group_whose_promise_one_for_all_breaks_is_named() -> None:
    few = [*of_model("short", 400, 4, failures=100), *of_model("long", 40, 40, failures=28)]
    found = bl.recommend(few, by="model", **ASKED)
    one = found.one_for_all
    assert one is not None
    (row,) = one.broken_groups
    assert (row.value, row.kept, row.successes) == ("long", 0, 12)
    assert "keeps less than 90% on record for long (0 of 12, 0%)." in found.sentences[0]


def test_without_groups_there_is_nothing_to_compare(unequal: list[Run]) -> None:
    found = bl.recommend(unequal, by=[], **ASKED)
    assert found.one_for_all is None
    assert not any("one for all" in sentence for sentence in found.sentences)


def test_labels_and_the_proxy_are_never_pooled(unequal: list[Run]) -> None:
    mixed = [replace(run, success=run.success if run.model == "short" else None) for run in unequal]
    assert bl.recommend(mixed, by="model", **ASKED).one_for_all is None


def test_json_has_the_comparison(unequal: list[Run]) -> None:
    found = bl.recommend(unequal, **ASKED)
    assert found.one_for_all is not None
    data = json.loads(json.dumps(found.one_for_all.as_dict()))
    assert data["each_heldout_kept"] == data["heldout_kept"] == data["heldout_successes"] == 280
    assert data["broken"] == []


@pytest.mark.slow
def test_intercode_sql_says_that_groups_save_less() -> None:
    found = bl.recommend(atlas("intercode-sql"))
    assert "a limit for each group saves less than one for all: 27% of the steps against 35%" in found.verdict[-1]
    assert "keeps less than 95% on record for text-davinci-003 (152 of 161, 94.4%)." in found.verdict[-1]
