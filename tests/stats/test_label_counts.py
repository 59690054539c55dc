"""A decision states how many units are labelled, and by whom."""

from __future__ import annotations

from dataclasses import replace

import boolab as bl
from boolab.core.run import RunLabel
from tests.logs.outcomes.test_resolve import session
from tests.whatif.test_turn_labels import two_turns

RUNS = [replace(session(f"r{n}", f"a{n}", "b"), source="tau_bench") for n in range(9)]
LABELS = [RunLabel(True, "benchmark")] * 4 + [RunLabel(False, "hand")] * 2 + [None] * 3
LABELLED = [
    run if label is None else replace(run, success=label.success, labels=(label,))
    for run, label in zip(RUNS, LABELS, strict=True)
]
KNOWN = "6 labelled: 4 by the benchmark, 2 by hand; 3 unknown."


def test_a_decision_begins_with_what_is_known() -> None:
    found = bl.recommend(LABELLED)
    assert found.known == KNOWN
    assert found.labels.as_dict() == {"benchmark": 4, "hand": 2, "unknown": 3}
    assert KNOWN in str(found)
    assert f"{KNOWN} A success is a run with a success label: 4 of 6 labelled runs." in found.notes


def test_turns_are_counted_where_they_are_judged() -> None:
    found = bl.recommend([two_turns("x", (True, False)), two_turns("y", (True,))])
    assert found.known == "3 labelled: 3 by hand; 1 unknown."
    assert any("A success is a turn with a success label: 2 of 3 labelled turns." in note for note in found.notes)


def test_groups_with_the_proxy_are_unknown() -> None:
    others = [replace(run, agent="b", run_id=f"s{run.run_id}") for run in RUNS]
    found = bl.recommend(LABELLED + others, by="agent")
    assert found.known == "6 labelled: 4 by the benchmark, 2 by hand; 12 unknown."


def test_nothing_is_stated_where_nothing_is_labelled() -> None:
    assert bl.recommend(RUNS).known == ""
    assert "labelled" not in str(bl.recommend(RUNS)).split("\n")[0]


def test_the_proxy_in_place_of_labels_is_named() -> None:
    found = bl.recommend(LABELLED, unlabelled="proxy")
    assert found.known == ""
    assert any(note.startswith("No label is used: by a proxy, a run that ended by itself") for note in found.notes)


def test_a_frame_has_no_sources() -> None:
    assert bl.recommend(bl.recording_df(LABELLED)).known == "6 labelled; 3 unknown."
