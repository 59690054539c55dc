from __future__ import annotations

from boolab.report.frontier_chart import recommended_title
from boolab.report.limit_tables import _lost
from boolab.report.run_excerpts import _names_of
from boolab.report.summary import SummaryRow, kept_note


def test_title_has_what_recommended_limits_save_and_keep() -> None:
    row = SummaryRow("", "a", {"max_steps": 7}, 99, 50, (48, 49), (30, 100), None)
    assert (
        recommended_title([row], "steps")
        == "The recommended limits save 30% of the steps and keep 96.0% of the successes"
    )
    assert not recommended_title([row._replace(limits={})], "steps")


def test_lost_runs_are_named_by_label_or_end() -> None:
    assert _lost(0, 1, proxy=True) == "which did not end by itself"
    assert _lost(1, 3, proxy=True) == "1 of them ended by itself"
    assert _lost(0, 3, proxy=False) == "none of them a success"


def test_path_is_named_by_its_last_parts_alone() -> None:
    assert _names_of({"/home/alice/acme/a.jsonl", "/home/alice/acme/b.jsonl"})["/home/alice/acme/a.jsonl"] == "a.jsonl"


def test_kept_note_has_the_share_that_is_promised() -> None:
    assert (
        kept_note(SummaryRow("", "a", {"max_steps": 68}, 499, 168, (160, 160), None, None), 0.9)
        == "95.2%, at least 90%"
    )
