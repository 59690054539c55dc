"""Files of labels and runs: which are found, what they change, and what is refused."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.run import Run, RunLabel
from boolab.core.run_labels import LabelCounts, label_of, turn_label
from boolab.errors import ReadWarning, SettingError
from boolab.frames.runs import distinct_runs
from boolab.logs.load import iterate_logs
from boolab.logs.outcomes.label_file import Line, append_lines, make_header, make_label, make_undo, parse_labels
from boolab.logs.outcomes.labels import JoinedLabels, label_by_file
from boolab.logs.units import LabelUnit, units_of_run
from tests.logs.outcomes.test_resolve import session

ONE = session("a", "one", "two")
TWO = replace(session("b", "uno", "dos", "tres", turns=(3,)), source="claude_code")


def unit_of(run: Run, index: int = 0) -> LabelUnit:
    return units_of_run(run, "turn")[index]


def by_hand(run: Run, label: Any, index: int = 0, **facts: Any) -> Line:
    return make_label(unit_of(run, index), label, facts={"who": "ann", **facts})


def written(path: Path, *lines: Line) -> Path:
    append_lines(path, lines)
    return path


def notes(runs: list[Run], path: Path) -> list[str]:
    return [str(note) for note in label_by_file(runs, path)[1]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "labels.jsonl"


def test_a_file_labels_runs_and_turns(path: Path) -> None:
    written(path, make_header("", {}), by_hand(ONE, "success", note="merged"), by_hand(TWO, "failure", 1))
    one, two = bl.label([ONE, TWO], path)
    assert one.success is True
    assert one.labels == (RunLabel(True, "hand", "ann: merged"),)
    assert two.success is None
    assert two.labels == (RunLabel(False, "hand", "ann", 2),)
    assert turn_label(two, 2) == two.labels[0]
    assert turn_label(two, 1) is None
    assert bl.label([ONE, TWO], str(path)) == [one, two]
    assert ONE.success is None


def test_a_label_by_hand_comes_before_the_benchmark(path: Path) -> None:
    run = replace(ONE, success=False, labels=(RunLabel(False, "benchmark", "reward 0"),))
    with pytest.warns(ReadWarning, match=r"by hand and by the benchmark differ.*: a turn 1 \(by hand success"):
        (labelled,) = bl.label([run], written(path, by_hand(ONE, "success")))
    assert label_of(labelled) == RunLabel(True, "hand", "ann")


def test_other_labels_do_not_replace_a_verdict(path: Path) -> None:
    run = replace(ONE, success=False, source="tau_bench")
    lines = [make_label(unit_of(ONE), "success", source) for source in ("benchmark", "tests")]
    assert bl.label([run], written(path, *lines), trust=["tests"]) == [run]
    assert bl.label([ONE], path)[0].labels == (RunLabel(True, "benchmark"),)


def test_evidence_counts_if_its_source_is_trusted(path: Path) -> None:
    written(path, make_label(unit_of(ONE), "failure", "tests", {"why": "2 of 9 fail"}))
    assert bl.label([ONE], path) == [ONE]
    assert label_of(bl.label([ONE], path, trust=["git", "tests"])[0]) == RunLabel(False, "tests", "2 of 9 fail")
    with pytest.raises(SettingError, match="expected a list of sources"):
        bl.label([ONE], path, trust="tests")


def test_the_agreement_of_each_source_with_a_person_is_counted(path: Path) -> None:
    runs = [replace(session(f"r{n}", f"answer {n}"), success=n > 0) for n in range(3)]
    lines = [by_hand(run, "success") for run in runs]
    lines += [make_label(unit_of(run), "success" if run is runs[0] else "unknown", "tests") for run in runs]
    with pytest.warns(ReadWarning, match="r0 turn 1"):
        bl.label([replace(run, source="openai_chat") for run in runs], written(path, *lines))
    texts = [str(note) for note in label_by_file([replace(run, source="openai_chat") for run in runs], path)[1]]
    assert f"{path}: benchmark agrees with 2 of 3 labels by hand" in texts
    assert f"{path}: tests agrees with 1 of 1 label by hand" in texts


def test_people_who_disagree_leave_it_unknown(path: Path) -> None:
    run = replace(ONE, success=True)
    with pytest.warns(ReadWarning, match=r"people disagree.*ann failure, bob success"):
        (labelled,) = bl.label([run], written(path, by_hand(ONE, "failure"), by_hand(ONE, "success", who="bob")))
    assert labelled.success is None
    assert label_of(labelled) == RunLabel(None, "hand", "disagree: ann failure, bob success")


def test_labels_of_units_that_are_gone_are_kept_and_counted(path: Path) -> None:
    gone = session("gone", "other")
    written(path, by_hand(ONE, "success"), by_hand(gone, "failure"))
    assert [run.success for run in bl.label([ONE], path)] == [True]
    assert notes([ONE], path) == [f"{path}: 1 label of units that are not among these runs"]


def test_labels_of_no_unit_that_is_there_are_refused(path: Path) -> None:
    written(path, by_hand(session("gone", "other"), "failure"))
    with pytest.raises(SettingError, match="labels for units that are not there, all 1 of them: 'gone'"):
        bl.label([ONE], path)


def test_an_id_that_no_run_has_is_refused(path: Path) -> None:
    written(path, by_hand(ONE, "success"), {"run_id": "z", "label": "success", "source": "hand"})
    with pytest.raises(SettingError, match="labels for a run_id that no run has: 'z'"):
        bl.label([ONE], path)


def test_a_session_that_has_continued_is_unknown(path: Path) -> None:
    before, after = (replace(session("a", *answers), source="tau_bench") for answers in (["one"], ["one", "two"]))
    (unit,) = units_of_run(before, "run")
    assert bl.label([after], written(path, make_label(unit, "success"))) == [after]
    assert notes([after], path) == [f"{path}: 1 label of sessions that have continued since: unknown until confirmed"]


def test_a_label_counts_for_all_copies(path: Path) -> None:
    runs = [ONE, replace(ONE, run_id="z")]
    assert [run.success for run in bl.label(runs, written(path, by_hand(ONE, "success")))] == [True, True]
    assert notes(runs, path) == [f"{path}: a label counts for all runs with the same texts: a, z"]


def test_a_label_that_is_undone_does_not_count(path: Path) -> None:
    line = by_hand(ONE, "success")
    assert bl.label([ONE], written(path, line, make_undo(line["id"]))) == [ONE]


def test_a_table_of_labels_is_read_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text("run_id,success\na,1\n")
    (tmp_path / "l.json").write_text('{"a": "fail"}')
    for name, success in (("l.csv", True), ("l.json", False)):
        assert label_of(bl.label([ONE], str(tmp_path / name))[0]) == RunLabel(success, "user", name)
    with pytest.raises(SettingError, match="no such file"):
        bl.label([ONE], tmp_path / "none.jsonl")


CHAT = [{"role": "user", "content": "Fix it"}, {"role": "assistant", "content": "Done."}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two logs, and labels beside them."""
    for name, answer in (("one", "Done."), ("two", "Failed.")):
        messages = [CHAT[0], {"role": "assistant", "content": answer}]
        (tmp_path / f"{name}.json").write_text(json.dumps({"id": name, "messages": messages}))
    runs = bl.load_runs(tmp_path)
    lines = [by_hand(run, "success" if run.run_id == "one" else "failure") for run in runs]
    append_lines(tmp_path / "boolab-labels.jsonl", [make_header("", {}), *lines])
    return tmp_path


def test_labels_beside_logs_are_found(folder: Path) -> None:
    for paths in (folder, folder / "*.json", [folder / "one.json", folder / "two.json"]):
        assert [run.success for run in bl.load_runs(paths)] == [True, False]
    reading = bl.read_logs(folder)
    assert [(Path(row.path).name, row.format, row.runs, row.skipped) for row in reading.files] == [
        ("one.json", "openai_chat", 1, None),
        ("two.json", "openai_chat", 1, None),
        ("boolab-labels.jsonl", "labels", 0, None),
    ]
    rows = [*iterate_logs([folder])]
    assert [run.success for _, runs in rows for run in runs] == [True, False]
    assert [row.format for row, _ in rows] == ["openai_chat", "openai_chat", "labels"]


def test_a_broken_file_of_labels_beside_logs_is_skipped(folder: Path) -> None:
    labels = folder / "boolab-labels.jsonl"
    labels.write_bytes(b"{\n" + labels.read_bytes())
    with pytest.warns(ReadWarning, match="line 1 is broken"):
        reading = bl.read_logs(folder)
    assert [run.success for run in reading.runs] == [None, None]
    assert "line 1 is broken" in str(reading.files[-1].skipped)


def test_a_store_and_saved_runs_keep_the_label(folder: Path, tmp_path: Path) -> None:
    runs = bl.load_runs(folder)
    out = tmp_path / "out"
    out.mkdir()
    with bl.Store(out / "runs.db") as store:
        store.add(runs)
    for name in ("runs.jsonl", "runs.parquet"):
        bl.save_runs(runs, out / name)
    for file in sorted(out.glob("runs.*[!k]")):
        kept = bl.load_runs(file)
        assert [run.labels for run in kept] == [run.labels for run in runs]
        assert [run.success for run in kept] == [True, False]


def test_facts_keep_the_label_and_the_fingerprint(folder: Path) -> None:
    from boolab.logs.facts import facts_of

    runs = bl.load_runs(folder)
    facts = [*facts_of(runs)]
    assert [run.labels for run in facts] == [(RunLabel(True, "hand"),), (RunLabel(False, "hand"),)]
    bare = [replace(run, success=None, labels=()) for run in facts]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [run.success for run in bl.label(bare, folder / "boolab-labels.jsonl")] == [True, False]


def test_runs_df_has_the_source_and_the_reason(folder: Path) -> None:
    frame = bl.runs_df(bl.load_runs(folder))
    assert frame[["success", "success_source", "success_why"]].values.tolist() == [
        [True, "hand", "ann"],
        [False, "hand", "ann"],
    ]
    verdict = bl.load_runs([{"messages": CHAT, "success": False}])
    assert bl.runs_df(verdict)["success_source"].tolist() == ["benchmark"]
    assert bl.runs_df(ONE)["success_source"].isna().all()


def test_of_two_copies_the_labelled_one_stays() -> None:
    labelled = replace(TWO, labels=(RunLabel(False, "hand", "", 2),))
    for runs in ([TWO, labelled], [labelled, TWO]):
        assert distinct_runs(runs)[0] == [labelled]


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(
                [
                    "id",
                    "print",
                    "run_id",
                    "label",
                    "source",
                    "who",
                    "at",
                    "undo",
                    "units",
                    "seed",
                    "boolab_labels",
                    "question",
                    "replaces",
                    "settles",
                    "again",
                    "turn",
                    "note",
                    "why",
                ]
            ),
            st.sampled_from(
                [None, 1, True, [], {}, ["a"], "a", "success", "hand", "tests", "2026-11-27T17:00:00Z", "\ud800"]
            ),
        )
    )
)
def test_any_lines_are_labels_or_an_error(lines: list[dict[str, Any]]) -> None:
    data = b"".join([json.dumps(line).encode() + b"\n" for line in lines])
    try:
        file = parse_labels(data, Path("labels.jsonl"))
        joined = JoinedLabels([file], ["tests"])
        joined.apply([ONE, TWO])
        assert all(map(str, joined.notes()))
        assert isinstance(file.header, dict)
        assert all(isinstance(print_, str) for print_ in file.order)
    except SettingError:
        pass


def test_labels_are_counted_by_source() -> None:
    labels = [RunLabel(True, "benchmark")] * 41 + [RunLabel(False, "hand")] * 18 + [None] * 146
    counts = LabelCounts.of([*labels, RunLabel(None, "hand", "disagree")])
    assert str(counts) == "59 labelled: 41 by the benchmark, 18 by hand; 147 unknown"
    assert str(LabelCounts.of([])) == "0 labelled"
    assert str(LabelCounts.of([RunLabel(True, "tests")])) == "1 labelled: 1 by tests"
