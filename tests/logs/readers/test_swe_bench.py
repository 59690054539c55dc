"""Labels in reports of SWE-bench: where they are looked for, and what they mean."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.logs.readers._swe_bench import MAX_FOLDERS, label_by_report
from tests.support.samples import own

INSTANCE = "repo__x-1"


def log(folder: Path, instance: str = INSTANCE) -> Path:
    path = folder / instance / f"{instance}.traj.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(own("mini_swe_agent/text.traj.json"), path)
    return path


def is_resolved(path: Path, instance: str, model: str = "") -> bool | None:
    """What the label by a report is, if there is one."""
    label = label_by_report(path, instance, model)
    assert label is None or label.why.endswith(": resolved" if label.success else ": not resolved")
    return None if label is None else label.success


def put(path: Path, report: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report))


@pytest.mark.parametrize(
    "place",
    [
        "eval_results/openai__gpt-5-mini",
        "my-run/openai__gpt-5-mini",
        "run_evaluation",
        "run evaluation",
        "run_evaluation/my-run/openai__gpt-5-mini",
        "logs/run_evaluation/my-run/openai__gpt-5-mini",
    ],
)
@pytest.mark.parametrize("label", [True, False])
def test_the_report_of_an_instance_is_found_below_the_logs(tmp_path: Path, place: str, *, label: bool) -> None:
    path = log(tmp_path)
    put(tmp_path / place / INSTANCE / "report.json", {INSTANCE: {"patch_exists": True, "resolved": label}})
    put(tmp_path / place / f"{INSTANCE}0" / "report.json", {f"{INSTANCE}0": {"resolved": not label}})
    assert is_resolved(path, INSTANCE) is label
    assert [run.success for run in bl.load_runs(path)] == [label]
    assert is_resolved(log(tmp_path, "repo__x-2"), "repo__x-2") is None


@pytest.mark.parametrize("name", ["report.json", "openai__gpt-5-mini.run-1.json"])
@pytest.mark.parametrize(
    ("lists", "label"),
    [
        ({"resolved_ids": [INSTANCE]}, True),
        ({"resolved_ids": [f"{INSTANCE}0"], "unresolved_ids": [INSTANCE]}, False),
        ({"resolved_ids": [f"{INSTANCE}0"]}, None),
        ({"resolved_ids": [], "submitted_ids": [INSTANCE], "empty_patch_ids": [INSTANCE]}, False),
        ({"resolved_ids": [], "submitted_ids": [INSTANCE], "error_ids": [INSTANCE]}, None),
        ({"resolved_ids": [], "submitted_ids": [INSTANCE], "incomplete_ids": [INSTANCE]}, None),
        ({"resolved_ids": INSTANCE}, None),
    ],
)
def test_the_report_of_a_run_says_what_was_resolved(
    tmp_path: Path, name: str, lists: dict[str, Any], label: bool | None
) -> None:
    path = log(tmp_path)
    put(tmp_path / name, lists)
    assert is_resolved(path, INSTANCE) is label


def test_reports_of_several_models_go_by_the_runs_model(tmp_path: Path) -> None:
    path = log(tmp_path)
    for model, label in (("openai__gpt-5", True), ("openai__gpt-5-mini", False)):
        put(tmp_path / "eval" / model / INSTANCE / "report.json", {INSTANCE: {"resolved": label}})
    assert is_resolved(path, INSTANCE) is None
    assert is_resolved(path, INSTANCE, "openai/gpt-5-mini") is False
    assert is_resolved(path, INSTANCE, "openai/gpt-5") is True


def test_a_report_of_an_instance_without_a_verdict_is_unknown(tmp_path: Path) -> None:
    path = log(tmp_path)
    put(tmp_path / "eval" / "m" / INSTANCE / "report.json", {INSTANCE: {"patch_exists": True}})
    assert is_resolved(path, INSTANCE) is None


def test_links_are_not_followed_and_the_search_has_a_limit(tmp_path: Path) -> None:
    path = log(tmp_path / "logs")
    put(tmp_path / "elsewhere" / "m" / INSTANCE / "report.json", {INSTANCE: {"resolved": True}})
    (tmp_path / "logs" / "eval").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "logs" / "loop").symlink_to(tmp_path)
    assert is_resolved(path, INSTANCE) is None
    assert MAX_FOLDERS <= 10_000


def test_an_evaluation_of_another_experiment_does_not_count(tmp_path: Path) -> None:
    path = log(tmp_path / "first").replace(tmp_path / "first" / f"{INSTANCE}.traj.json")
    put(tmp_path / "second" / INSTANCE / "report.json", {INSTANCE: {"resolved": True}})
    put(tmp_path / "m.second.json", {"resolved_ids": [INSTANCE]})
    assert is_resolved(path, INSTANCE) is None
