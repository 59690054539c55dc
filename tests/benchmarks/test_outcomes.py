"""The benchmark of the desk: its methods on records that are decided by hand."""

import numpy as np
import pytest

from benchmarks.outcomes import TABLES, World, by_all, by_count, by_desk
from boolab.stats.kept_share import keeps_enough


def test_methods_agree_on_records_without_a_loss() -> None:
    rng = np.random.default_rng(0)
    is_success, is_long = np.ones((2, 80), dtype=bool), np.zeros((2, 80), dtype=bool)
    is_success[1, 58:] = False
    assert by_all(is_long, is_success).is_yes.tolist() == [True, False]
    counted = by_count(rng, is_long, is_success)
    assert (counted.is_yes.tolist(), int(counted.n_answers[0])) == ([True, False], 59)
    desk = by_desk(rng, is_long, is_success, 1.0)
    assert (desk.is_yes.tolist(), desk.n_answers.tolist()) == ([True, False], [80, 80])


def test_count_needs_what_the_test_of_recommend_needs() -> None:
    rng = np.random.default_rng(1)
    is_long, is_success = World(200, 0.98).draw(rng, 50)
    lost = is_long & is_success
    expected = [bool(keeps_enough(row, success, 0.95, 0.05)) for row, success in zip(lost, is_success, strict=True)]
    assert by_count(rng, is_long, is_success).is_yes.tolist() == expected


@pytest.mark.parametrize("title", ["promise", "clusters", "own worlds"])
def test_each_table_of_worlds_has_its_rows(title: str) -> None:
    rows = [*TABLES[title](20)]
    assert len({row.what for row in rows}) == len(rows)
    assert all(0 <= row.figure <= 100 for row in rows)
