"""Presets against what the released packages did; `make conformance` runs the packages themselves."""

import re
from pathlib import Path

import pytest

from benchmarks.conformance.known import KNOWN
from benchmarks.conformance.observation import KEPT, Observation, Released, keep, read_kept
from benchmarks.conformance.presets import PRESETS, NoSuchSetting, observe
from benchmarks.conformance.report import PAGE, Row, compare, page, table
from benchmarks.conformance.scenarios import DONE, PACKAGES, SCENARIOS, Scenario
from benchmarks.environments import REQUIREMENTS

RELEASED = read_kept()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: f"{one.package}: {one.name}")
def test_a_preset_does_what_the_released_package_did(scenario: Scenario) -> None:
    try:
        ours = observe(scenario)
    except NoSuchSetting as lack:
        pytest.skip(str(lack))
    theirs = RELEASED[scenario.package].observations[scenario.name]
    assert (ours == theirs) is ((scenario.package, scenario.name) not in KNOWN), f"{ours}; the package: {theirs}"


def test_known_differences_are_those_of_scenarios() -> None:
    assert set(KNOWN) <= {(one.package, one.name) for one in SCENARIOS}


def test_observations_match_the_scenarios_one_to_one() -> None:
    played = [(package, name) for package, one in RELEASED.items() for name in one.observations]
    assert sorted(played) == sorted((one.package, one.name) for one in SCENARIOS)
    assert set(PACKAGES) == set(PRESETS)


def test_no_observed_run_ends_because_its_script_is_over() -> None:
    ends = {seen.end for one in RELEASED.values() for seen in one.observations.values()}
    assert "script over" not in ends


@pytest.mark.parametrize("package", PACKAGES)
def test_requirements_are_pinned_to_the_observed_version(package: str) -> None:
    lines = (REQUIREMENTS / f"{package}.txt").read_text(encoding="utf-8").split()
    assert all(re.fullmatch(r"[a-z0-9._-]+==[a-z0-9.]+", line) for line in lines)
    assert f"{package}=={RELEASED[package].version}" in lines


def test_what_is_kept_reads_back_the_same(tmp_path: Path) -> None:
    path = tmp_path / "observed.json"
    released = {
        "some-package": Released("1.0", {'a "name"': Observation(1, 2, 3, "end"), "b": Observation(0, 0, 0, "")})
    }
    keep(released, path)
    assert read_kept(path) == released
    assert read_kept(tmp_path / "missing.json") == {}
    assert KEPT.exists()


def test_the_documentation_shows_the_comparison_as_it_is() -> None:
    ready = page(compare(RELEASED), RELEASED)
    assert PAGE.read_text(encoding="utf-8") == ready, "run: python -m benchmarks.conformance --kept"


def test_conformance_table_and_page_report_each_verdict() -> None:
    scenario = Scenario(package="langgraph", name="some script", script=(DONE,), settings={"recursion_limit": 2})
    theirs = Observation(1, 0, 0, "success")
    rows = [
        Row(scenario, theirs, theirs),
        Row(scenario, theirs, Observation(2, 0, 0, "success")),
        Row(scenario, theirs, None, "no such setting"),
    ]
    assert [row.verdict for row in rows] == ["agrees", "differs", "not compared"]
    package, name = next(iter(KNOWN))
    left = Scenario(package=package, name=name, script=(DONE,))
    assert Row(left, theirs, theirs).verdict == "outdated"
    assert Row(left, theirs, Observation(2, 0, 0, "success")).verdict == "known"
    lines = table(rows).splitlines()
    assert lines[0].startswith("agrees")
    assert "here: 2 calls" in lines[1]
    assert lines[2].endswith("no such setting")
    written = page(rows, {"langgraph": Released("1.2.3", {"some script": theirs})})
    assert "## smolagents\n\nNever run" in written
    assert "## langgraph 1.2.3" in written
    assert "1 of 3 scenarios agree" in written
