from __future__ import annotations

from boolab.live.follow.rows import RowLimit, limit_text, reason_of


def test_reason_in_words_has_no_underscore() -> None:
    assert reason_of("step_cap") == "step cap"
    assert reason_of("cycle") == "cycle"


def test_limit_text_has_count_limit_and_unit() -> None:
    assert limit_text(RowLimit("steps", "step_cap", 12, 56)) == "12 of 56 steps"
    assert limit_text(RowLimit("cost", "cost_budget", None, 10**6)) == "unknown of $1.00"
    assert limit_text(RowLimit("repeat_streak:canonical", "doom_loop", 3, 5)) == "streak 3 of 5"
