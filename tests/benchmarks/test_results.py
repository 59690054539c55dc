"""What benchmarks measured is printed, judged and saved."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import results
from benchmarks.results import Row, argument_parser, page, publish, ratio

DOC = """What it costs.

    python -m benchmarks.cost
"""


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a benchmark that is the only one."""
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    monkeypatch.setattr(results, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(results, "SECTIONS", {"cost": "The cost"})
    monkeypatch.setattr(sys, "argv", ["/somewhere/cost.py", "--write", "--quick"])
    return tmp_path / "cost.json"


@pytest.mark.parametrize(
    ("row", "target", "verdict"),
    [
        (Row("a", 4.2, at_most=4.2), "at most 4.2", "met"),
        (Row("a", 4.21, at_most=4.2), "at most 4.2", "missed"),
        (Row("a", 1024.0, at_least=1025), "at least 1,025", "missed"),
        (Row("a", 30, at_least=30), "at least 30", "met"),
        (Row("a", 0.0), "", ""),
    ],
)
def test_a_row_has_a_verdict_on_its_target(row: Row, target: str, verdict: str) -> None:
    assert (row.cells["target"], row.cells["verdict"]) == (target, verdict)


def test_ratio_is_the_median_of_pairs_with_quartiles() -> None:
    row = ratio("a / b", [(2, 1), (9, 3), (8, 2)], "ms", at_most=5)
    assert row == Row("a / b", 3, at_most=5, detail="8.00 against 2.00 ms; quartiles 2.00 to 4.00")
    assert ratio("a / b", [(2, 1)], "ms").detail == "2.00 against 1.00 ms"


def test_write_replaces_the_measured_table_and_keeps_others(saved: Path) -> None:
    parser = argument_parser(DOC, ("step", "import"))
    tables = {"step": [Row("a", 1)], "import": [Row("c", 2)]}
    publish(DOC, tables, parser.parse_args(["--write"]))
    first = json.loads(saved.read_text())
    tables = {"step": [Row("a | b", 12345.6, "us", at_most=9)], "import": [Row("c", 3)]}
    publish(DOC, tables, parser.parse_args(["step", "--write"]), "httpx 1")
    second = json.loads(saved.read_text())
    assert second["about"] == "What it costs."
    assert second["tables"]["import"] == first["tables"]["import"]
    assert second["tables"]["step"]["command"] == "python -m benchmarks.cost --quick"
    assert [row["figure"] for row in second["tables"]["step"]["rows"]] == [12346]
    assert saved.with_name("page.md").read_text() == page()
    assert ", httpx 1, " in page()
    assert "| a \\| b | 12,346 | us | at most 9 | missed |\n\n### Import\n" in page()


def test_rows_are_printed_as_they_come_and_saved_on_request(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = []

    def rows() -> Iterator[Row]:
        yield Row("first", 1)
        printed.append(capsys.readouterr().out)
        yield Row("second", 2.5, "ms")

    publish(DOC, {"table": rows()}, argument_parser(DOC).parse_args([]))
    assert printed[0].split() == ["table", "first", "1"]
    assert capsys.readouterr().out.split() == ["second", "2.50", "ms"]
    assert not saved.exists()


def test_an_unknown_part_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        argument_parser(DOC, ("step",)).parse_args(["stop"])
    assert "there is no part 'stop'; parts: step" in capsys.readouterr().err
