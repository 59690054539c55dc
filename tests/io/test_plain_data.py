"""What a line, a name, a text or a table of plain data is read as, and written as."""

import os
from pathlib import Path

import pandas as pd

from boolab.io.csv_export import as_csv
from boolab.io.files import describe_non_file, user_path
from boolab.io.json_edit import fill_blank
from boolab.io.json_input import begins_json, json_text, line_values, micro
from boolab.io.packed import is_packed, unpacked_name
from boolab.io.safe_regex import compile_pattern
from boolab.io.text_edit import Replacement, edit_text, is_same


def test_a_line_may_hold_several_objects() -> None:
    assert line_values(b'{"a": 1}') == [{"a": 1}]
    assert line_values(b'\xef\xbb\xbf{"a": 1} {"a": 2}') == [{"a": 1}, {"a": 2}]


def test_log_lines_in_brackets_are_no_json() -> None:
    assert [begins_json(b'["a", '), begins_json(b"[INFO] started")] == [True, False]


def test_json_text_keeps_letters_and_escapes_surrogates() -> None:
    assert json_text({"b": "\u00e4", "a": [1.5, None]}) == '{"b":"\u00e4","a":[1.5,null]}'
    assert json_text(["\ud83d"]) == '["\\ud83d"]'


def test_costs_are_micro_dollars_or_unknown() -> None:
    assert [micro(0.0125), micro(None), micro(-1)] == [12500, None, None]


def test_blank_json_is_filled_with_an_object() -> None:
    assert [fill_blank("\ufeff\n"), fill_blank("[]")] == ["\ufeff{}\n", "[]"]


def test_packed_logs_are_known_by_their_names() -> None:
    assert [is_packed("rollout-1.jsonl.zst"), is_packed("report.json.zst")] == [True, False]
    assert [unpacked_name("rollout-1.jsonl.zst"), unpacked_name("report.json")] == ["rollout-1.jsonl", "report.json"]


def test_true_and_1_are_two_values_of_an_edit() -> None:
    assert is_same({"a": [1, 2]}, {"a": [1, 2]})
    assert not is_same({"a": 1}, {"a": True})


def test_an_edit_changes_its_part_of_a_text() -> None:
    texts = edit_text("a = 1  # one", [Replacement(4, 5, "2")], lambda text: text, lambda text: "2" in text)
    assert texts is not None
    assert texts[0] == "a = 2  # one"


def test_tables_of_spreadsheets_run_no_formula() -> None:
    assert as_csv(pd.DataFrame({"agent": ["=1+1"], "saved": [-1]})) == "agent,saved\n'=1+1,-1\n"


def test_devices_are_no_files() -> None:
    assert describe_non_file(Path(os.devnull).stat()) == "a pipe or a device, not a file"
    assert user_path("logs/a.jsonl").name == "a.jsonl"


def test_patterns_match_ascii_digits() -> None:
    pattern = compile_pattern(r"^(error|failed): \d+")
    assert pattern.is_in("failed: 3")
    assert not pattern.is_in("failed: \u0663")
