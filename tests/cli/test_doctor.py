from __future__ import annotations

from datetime import UTC, datetime

from boolab.cli.doctor import format_age


def test_ago_names_days() -> None:
    assert format_age(datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 4, tzinfo=UTC)) == "3 days ago"
