"""docs/onpolicy.md has the tables of what was measured, and no other figure."""

import json
import re

from benchmarks.onpolicy import ONPOLICY_PAGE, TABLES, page
from benchmarks.results import FOLDER

NUMBER = re.compile(r"\d+(?:[,.]\d+)*")


def test_tables_of_live_runs_are_those_of_the_saved_figures() -> None:
    assert ONPOLICY_PAGE.read_text(encoding="utf-8") == page(), "run: python -m benchmarks.onpolicy --tables --write"


def test_each_table_of_the_study_has_a_place_on_the_page() -> None:
    text = ONPOLICY_PAGE.read_text(encoding="utf-8")
    assert re.findall(r"<!-- table: (\w+) -->", text) == [*TABLES]


def test_readme_has_the_measured_share_of_equal_runs() -> None:
    rows = json.loads((FOLDER / "onpolicy.json").read_text(encoding="utf-8"))["tables"]["equality"]["rows"]
    equal, pairs = sum(row["figure"] for row in rows), sum(int(NUMBER.findall(row["unit"])[0]) for row in rows)
    readme = ONPOLICY_PAGE.parents[1].joinpath("README.md").read_text(encoding="utf-8")
    assert f"{equal:,} of {pairs:,} runs" in readme


def test_readme_has_what_a_decision_kept_on_fresh_tasks() -> None:
    rows = json.loads((FOLDER / "onpolicy.json").read_text(encoding="utf-8"))["tables"]["fresh_tasks"]["rows"]
    detail = next(row["detail"] for row in rows if row["what"].startswith("fix, keep 80%"))
    kept = " of ".join(NUMBER.findall(detail)[:2])
    readme = ONPOLICY_PAGE.parents[1].joinpath("README.md").read_text(encoding="utf-8")
    assert f"kept {kept}" in " ".join(readme.split())
