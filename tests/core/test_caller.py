"""Warnings point to the line of the user's code."""

from __future__ import annotations

from pathlib import Path

import pytest

import boolab as bl
from boolab.errors import ReadWarning


def test_warnings_point_to_the_line_that_called_the_package(tmp_path: Path) -> None:
    (tmp_path / "notes.jsonl").write_text('{"a": 1}\n')
    agents = tmp_path / "AGENTS.md"
    agents.write_text("---\nname: a\nmax_stepz: 3\n---\nGo.\n")
    with pytest.warns(ReadWarning) as read:
        bl.load_runs(tmp_path)
    with pytest.warns(UserWarning, match="max_stepz") as kept:
        bl.load_agents(agents)
    assert {one.filename for one in (*read, *kept)} == {__file__}
