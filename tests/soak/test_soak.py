"""Short forms of `make soak`: nothing is left of many runs at once, nor of sweeps that are cancelled and taken up."""

from pathlib import Path

import pytest

from tests.soak.mixed import Mixed
from tests.soak.together import play


@pytest.mark.alone
def test_nothing_is_left_of_many_runs_at_once() -> None:
    first, *_, last = play(500, 4)
    assert last.amid.tasks == 501
    assert last.after.files <= first.after.files
    assert last.after.tasks == first.after.tasks
    assert last.after.threads <= first.after.threads
    assert last.after.blocks <= first.after.blocks * 1.01


@pytest.mark.alone
def test_mixed_sweep_cancelled_at_random_has_each_cell_once(tmp_path: Path) -> None:
    out = Mixed(tmp_path, seconds=2, seed=1, repeats=1, calm_s=0.5).play()
    assert out.cancelled
    assert out.cells >= 50
    assert len(out.reasons) > 1
    assert out.complaints == []
    assert out.found["faults"] == {}
    assert out.found["looks"]["by_runs"]
    assert out.quiet[-1].files <= out.quiet[0].files
    assert out.quiet[-1].tasks == out.quiet[0].tasks
    assert out.wal_kib == 0
