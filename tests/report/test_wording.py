from __future__ import annotations

from boolab.report.limit_tables import _lost
from boolab.report.run_excerpts import _names_of


def test_lost_runs_are_named_by_label_or_end() -> None:
    assert _lost(0, 1, proxy=True) == "which did not end by itself"
    assert _lost(1, 3, proxy=True) == "1 of them ended by itself"
    assert _lost(0, 3, proxy=False) == "none of them a success"


def test_path_is_named_by_its_last_parts_alone() -> None:
    assert _names_of({"/home/alice/acme/a.jsonl", "/home/alice/acme/b.jsonl"})["/home/alice/acme/a.jsonl"] == "a.jsonl"
