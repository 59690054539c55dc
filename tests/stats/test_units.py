from __future__ import annotations

import pandas as pd

from boolab.stats.units import group_noun, short_names


def test_short_name_is_the_data_set_of_one_group() -> None:
    assert short_names(["agent", "set"], [("a", "retail"), ("a", "airline"), ("b", "airline")]) == [
        "retail",
        "a, airline",
        "b, airline",
    ]
    assert short_names(["agent", "set"], [("a", pd.NA), ("b", "retail")]) == ["a", "retail"]


def test_groups_are_called_by_their_one_column() -> None:
    assert group_noun(["source", "agent"]) == "agent"
    assert group_noun(["agent", "set"]) == "group"
