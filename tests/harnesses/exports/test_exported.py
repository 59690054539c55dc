"""What is exported against what the released packages did with it; `make conformance` runs the packages themselves."""

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.conformance.exported import (
    KEPT,
    MONITORED,
    PACKAGES,
    TARGET_LIMITS,
    Case,
    Row,
    Seen,
    cases,
    compare,
    keep,
    pages,
    read_kept,
    setting_of,
)
from benchmarks.conformance.known import EXPORTED
from benchmarks.conformance.observation import read_kept as read_presets
from benchmarks.conformance.scenarios import DONE
from boolab.harnesses.exports.export import target_of

OBSERVED = read_kept()


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return compare(OBSERVED)


@pytest.mark.slow
def test_exported_limit_stops_released_package_at_the_named_step(rows: list[Row]) -> None:
    wrong = [f"{row.case.target}: {row.case.key}" for row in rows if row.verdict not in ("agrees", "known")]
    assert wrong == []


def test_every_step_cap_agrees_without_exception(rows: list[Row]) -> None:
    caps = [row for row in rows if row.case.limit == "max_steps"]
    assert {row.verdict for row in caps} == {"agrees"}
    assert {row.case.target for row in caps} == set(PACKAGES)


def test_harness_preset_stops_where_the_released_package_does(rows: list[Row]) -> None:
    assert [row.case.key for row in rows if row.theirs[:2] != row.by_preset[:2]] == []


def test_every_export_case_was_run_and_known_differences_exist(rows: list[Row]) -> None:
    assert Counter((row.case.target, row.case.key) for row in rows) == Counter((one.target, one.key) for one in cases())
    assert set(EXPORTED) <= {(row.case.target.partition(",")[0], row.case.key) for row in rows}
    assert sum(len(seen) for _, seen in OBSERVED.values()) == len(rows)


@pytest.mark.parametrize("target", PACKAGES)
def test_the_limits_of_a_target_are_those_that_it_declares(target: str) -> None:
    rows = target_of(target.partition(",")[0]).sets
    own, monitored = ({row.limit for row in rows if ("bl." in row.where) is by} for by in (False, True))
    assert {*TARGET_LIMITS[target]} == own - {"max_time"}
    ends_at_errors = target in ("langchain", "pydantic-ai")
    assert {*MONITORED.get(target, ())} == monitored - {"max_time", *(["error_streak"] * ends_at_errors)}


def test_the_versions_are_those_of_the_presets() -> None:
    presets = read_presets()
    for target, package in PACKAGES.items():
        assert OBSERVED[target][0] == presets[package].version


def test_the_pages_show_the_comparison_as_it_is(rows: list[Row]) -> None:
    for path, text in pages(rows, OBSERVED).items():
        assert path.read_text(encoding="utf-8") == text, "run: python -m benchmarks.conformance.exported --kept"


def test_what_is_kept_reads_back_the_same(tmp_path: Path) -> None:
    observed = {"some target": ("1.0", {"max_steps=3, x": Seen(3, ["0.0"], 4)})}
    keep(observed, tmp_path / "kept.json")
    assert read_kept(tmp_path / "kept.json") == observed
    assert read_kept(tmp_path / "missing.json") == {}
    assert KEPT.exists()


def test_export_row_verdict_separates_new_and_known_differences() -> None:
    new = Case("inspect", "max_steps", 3, "some script", (DONE,))
    (target, key), *_ = EXPORTED
    limit, _, rest = key.partition("=")
    value, _, name = rest.partition(", ")
    left = Case(target, limit, float(value), name, (DONE,))
    one, other = Seen(3, [], 3), Seen(2, [], 2)
    assert [Row(new, one, one, one).verdict, Row(new, one, other, one).verdict] == ["agrees", "differs"]
    assert [Row(left, one, other, one).verdict, Row(left, one, one, one).verdict] == ["known", "outdated"]
    assert Row(new, one, one, other).verdict == "differs"
    assert setting_of(new) == "turn_limit=3"
