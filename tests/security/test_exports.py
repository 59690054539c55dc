"""What leaves boolab as text: no cell is a formula, no line moves a terminal's cursor, no page may load or send.

Each text here comes from a log, a store or an agent's file, which anybody may have written.
"""

import asyncio
import base64
import csv
import gzip
import hashlib
import html
import json
import logging
import re
import sqlite3
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import boolab as bl
from boolab.cli.main import main
from boolab.core.codec import dumps
from boolab.harnesses.setting import Setting, as_code
from boolab.io.csv_export import escape_formula, write_csv
from boolab.logs.atif_format import trajectory
from boolab.widgets._base.standalone_html import page
from tests.support.project import PACKAGE
from tests.support.report_cases import draw_no_figures

EVIL = "\x1b[31mred\x1b]8;;http://192.0.2.1/\x07link\x1b]0;title\x07\x9b2J\u202egnp\u2066\r\nboolab: all is well"
"""Colours, a link that leads elsewhere, a title, a cleared screen, letters in reverse, and a line of one's own."""
MOVES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
FORMULAS = [
    *("=1+1", "+1+1", "-1+1", "@SUM(1)", "\t=1", "\r=1", "\n=1", "\uff1d1", "a;=1"),
    '=HYPERLINK("http://192.0.2.1/")',
]


def evil_run(number: int, text: str = EVIL) -> bl.Run:
    """A run whose every name is hostile."""
    calls = [{"name": text, "arguments": {text: text}}, {"name": "x", "arguments": text}]
    model = bl.ScriptedModel([{"text": text, "reasoning": text, "tool_calls": calls, "repeat": 3 + number}, text])
    run = bl.run_sync(bl.Agent(text, prompt=text), text, model=model, policy="naive")
    stop = run.stop._replace(rule=text, also_fired=(text,))
    return replace(run, run_id=f"{number}{text}", model=text, policy=text, source=text, error=text, stop=stop,
                   success=number % 2 == 0)  # fmt: skip


def run_id_of(path: str) -> str:
    return str(bl.runs_df(path)["run_id"].iloc[0])


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    path = tmp_path / "evil.jsonl"
    bl.save_runs([evil_run(n) for n in range(4)], path)
    return path


def moves(text: str) -> list[str]:
    """What in a text would do something to a terminal, each with what stands before it."""
    return [text[max(0, found.start() - 40) : found.end()] for found in MOVES.finditer(text)]


# --- Tables -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.one_of(st.sampled_from(FORMULAS), st.text(max_size=8), st.integers(-3, 3)), min_size=1))
def test_no_cell_part_of_inert_text_begins_a_formula(values: list[str | int]) -> None:
    for value in values:
        said = escape_formula(value)
        if isinstance(said, int):
            assert said == value
            continue
        assert not re.match(r"[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]", str(said))
        assert not any(re.match(r"[=+\-@\uff1d\uff0b\uff0d\uff20]", part) for part in re.split(r"[;\t\r\n]", str(said)))


@given(st.lists(st.text("a=+-@\"';, \t\n\r", max_size=9), min_size=2, max_size=4, unique=True))
@example(['a;"=1+1;b', '"=1'])
def test_no_cell_of_a_csv_begins_a_formula_for_any_separator(texts: list[str]) -> None:
    names = texts[::-1]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t.csv")
        write_csv(pd.DataFrame([texts], columns=names), path)
        for separator in (",", ";", "\t"):
            with path.open(newline="", encoding="utf-8") as file:
                cells = [cell for row in csv.reader(file, delimiter=separator) for cell in row]
            assert [cell for cell in cells if re.match(r"[=+\-@\t\r]", cell)] == []


def test_csv_keeps_numbers_unknown_values_and_ordinary_texts(tmp_path: Path) -> None:
    table = pd.DataFrame({
        "agent": pd.array(["coder", None, "=1", "a-b"], dtype="string"),
        "saved": pd.array([-1, None, 3, 4], dtype="Int64"),
        "share": [-0.5, 1.0, 2.0, 3.0],
        "mixed": ["none", 5, -5, "-5"],
        "when": pd.to_datetime(["2026-01-02"] * 4, utc=True),
    })  # fmt: skip
    write_csv(table, tmp_path / "t.csv")
    ordinary = table.drop(index=[2, 3]).reset_index(drop=True)
    ordinary.to_csv(tmp_path / "plain.csv", index=False)
    mine, plain = ((tmp_path / name).read_text().splitlines() for name in ("t.csv", "plain.csv"))
    assert mine[:3] == plain
    assert [row.split(",")[0] for row in mine[3:]] == ["'=1", "a-b"]
    assert [row.split(",")[3] for row in mine[1:]] == ["none", "5", "-5", "'-5"]


@pytest.mark.parametrize("formula", ["=1+1", "\r=1", "a;=1"])
def test_whatif_writes_no_cell_that_is_a_formula(
    formula: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [replace(evil_run(n, "x"), agent=formula, model=formula, run_id=f"{n}") for n in range(4)]
    bl.save_runs(runs, tmp_path / "runs.jsonl")
    out = tmp_path / "table.csv"
    asked = ["--by", "agent", "--by", "model", "--max-steps", "1,2,none", "-o", str(out)]
    assert main(["whatif", str(tmp_path / "runs.jsonl"), *asked]) == 0
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["agent"] for row in rows} & {escape_formula(formula)}
    for row in rows:
        assert not any(re.match(r"[=+@\t\r\n]|-[^\d.]", cell) for cell in row.values())
    assert capsys.readouterr().err


def test_every_spreadsheet_table_uses_the_safe_writer() -> None:
    writers = re.compile(r"\.to_(csv|excel|clipboard|markdown|html|latex)\(|csv\.(writer|DictWriter)")
    found = {
        str(path.relative_to(PACKAGE)): match[0]
        for path in sorted(PACKAGE.rglob("*.py"))
        for match in writers.finditer(path.read_text())
        if "widgets" not in path.parts and path.name != "caplab_frames.py"  # a widget's page
    }
    assert found == {"io/csv_export.py": ".to_csv("}


# --- Terminals and logs -----------------------------------------------------------------------------------------------


def test_printed_run_has_no_cursor_controls_and_forges_no_line() -> None:
    run = evil_run(1)
    for text in (str(run), repr(run), repr(run.steps[0]), repr(run.steps[0].response), repr([run])):
        assert moves(text) == []
        assert not any(line.startswith("boolab: all is well") for line in text.splitlines())


COMMANDS = [
    ["whatif", "LOGS", "--by", "agent", "--max-steps", "2,none"],
    ["whatif", "LOGS", "--max-steps", "2,none", "--json"],
    ["import", "LOGS", "-o", "TMP/out.jsonl"],
    ["import", "LOGS", "-o", "TMP/out.jsonl", "--json"],
    ["store", "ls", "STORE"],
    ["store", "show", "STORE", "1"],
    ["store", "show", "STORE", "RUN"],
    ["store", "ls", "FOREIGN"],
    ["whatif", "FOLDER"],
    ["import", "FOLDER", "-o", "TMP/out.jsonl"],
    ["run", "AGENT", "Go.", "--model", "SCRIPT", "-o", "TMP/run.jsonl"],
    ["run", "AGENT", "Go.", "--model", "SCRIPT", "-o", "TMP/run.jsonl", "--json"],
    ["run", "AGENT", "Go.", "--model", "SCRIPT", "-o", "TMP/run.jsonl", "--quiet"],
    ["run", "-", "Go.", "--model", "BROKEN", "-o", "TMP/run.jsonl"],
]


@pytest.fixture
def places(tmp_path: Path, logs: Path) -> dict[str, str]:
    store, foreign, folder = (tmp_path / name for name in ("store.db", "foreign.db", "folder"))
    model = bl.ScriptedModel([{"text": EVIL, "tool_calls": [{"name": EVIL, "arguments": {"a": EVIL}}]}, EVIL])
    asyncio.run(bl.sweep(bl.Agent(EVIL), EVIL, model, grid={"max_steps": [3]}, store=store, progress=False))
    with sqlite3.connect(foreign) as connection:
        connection.execute(f'CREATE TABLE "{EVIL}" (x)')
    connection.close()
    folder.mkdir()
    (folder / "\x1b[31mevil\x07.jsonl").write_text(f"no JSON {EVIL}\n{{}}\n")
    files = {
        "AGENT": ("agent.md", f"---\nname: {json.dumps(EVIL)}\n{json.dumps(EVIL)}: 1\n---\n{EVIL}\n"),
        "SCRIPT": (
            "script.yaml",
            json.dumps({"items": [{"text": EVIL, "tool_calls": [{"name": EVIL}]}, {"text": EVIL}]}),
        ),
        "BROKEN": ("broken.yaml", json.dumps({"items": [{"text": "a", EVIL: EVIL}]})),
    }
    for name, text in files.values():
        (tmp_path / name).write_text(text)
    named = {key: str(tmp_path / name) for key, (name, _) in files.items()}
    return named | {"LOGS": str(logs), "STORE": str(store), "FOREIGN": str(foreign), "FOLDER": str(folder),
                    "RUN": run_id_of(str(store)), "TMP": str(tmp_path)}  # fmt: skip


def test_no_command_sends_controls_from_a_log_to_the_terminal(
    places: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    for command in COMMANDS:
        for old in Path(places["TMP"]).glob("run.jsonl"):
            old.unlink()
        code = main([re.sub(r"^[A-Z]+", lambda found: places.get(found[0], found[0]), word) for word in command])
        said = capfd.readouterr()
        assert code in (0, 1, 3), command
        assert said.out or said.err, command
        for text in (said.out, said.err):
            assert moves(text) == [], command
            if "--quiet" not in command:  # the model's last word, and nothing else, is asked for
                assert not any(line.startswith("boolab: all is well") for line in text.splitlines()), command


def test_log_message_is_one_line_for_any_run_and_tool_name(caplog: pytest.LogCaptureFixture) -> None:
    calls = [{"name": EVIL, "arguments": {}}, {"name": f"{EVIL}2", "arguments": {}}]
    with caplog.at_level(logging.INFO, "boolab.loop"):
        first = bl.run_sync(
            None, "x", model=bl.ScriptedModel([{"tool_calls": calls, "repeat": 9}]), stop=bl.max_steps(2)
        )
        paused = replace(first, stop=first.stop._replace(rule=EVIL))
        bl.run_sync(None, "x", model=bl.ScriptedModel([{"error": {"garbage": EVIL}}]))
        asyncio.run(bl.resume(paused, "go on", model=bl.ScriptedModel([{"tool_calls": calls}, "Done."])))
        bl.run_sync(bl.Agent("a", max_steps=0), "x", model=bl.ScriptedModel([{"tool_calls": calls}]))
    told = [record.getMessage() for record in caplog.records]
    assert any("dropped" in one and "all is well" in one for one in told)
    for one in told:
        assert moves(one) == []
        assert "\n" not in one


# --- Pages ------------------------------------------------------------------------------------------------------------


def policy_of(text: str) -> dict[str, str]:
    """The directives of a page's own policy, which stands before anything else could be loaded."""
    found = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', text)
    assert len(found) == 1
    head = text[: text.index("Content-Security-Policy")]
    assert not re.search(r"<(script|style|link|img|base|body)\b", head)
    return {
        name: value for name, _, value in (part.strip().partition(" ") for part in html.unescape(found[0]).split(";"))
    }


@pytest.mark.parametrize("kind", ["widget", "report"])
def test_page_loads_and_sends_nothing_and_runs_only_its_script(
    kind: str, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_no_figures(monkeypatch)
    if kind == "widget":
        text = bl.Replay(evil_run(1)).to_html()
    else:
        assert main(["report", str(logs), "--max-steps", "2,none", "-o", str(logs.with_suffix(".html"))]) == 0
        text = logs.with_suffix(".html").read_text()
    policy = policy_of(text)
    scripts = policy.pop("script-src", None)
    assert policy == {
        "default-src": "'none'",  # and so no script, frame, font, connection, worker or plug-in
        "style-src": "'unsafe-inline'",
        "img-src": "data:",
        "base-uri": "'none'",  # these two do not fall back to default-src
        "form-action": "'none'",
    }
    assert scripts is not None
    assert all(re.fullmatch(r"'sha256-[A-Za-z0-9+/]{43}='", one) for one in scripts.split(" "))


def test_the_digest_of_a_page_is_that_of_its_only_script() -> None:
    text = page("</title><script>", [])
    scripts = re.findall(r"<script[^>]*>(.*?)</script>", text, re.DOTALL)
    assert len(scripts) == 1
    assert policy_of(text)["script-src"] == digest_of(scripts[0])


def digest_of(script: str) -> str:
    """As a policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def test_report_digests_are_those_of_its_script_and_its_pages(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw_no_figures(monkeypatch)
    assert main(["report", str(logs), "-o", str(logs.with_suffix(".html"))]) == 0
    text = logs.with_suffix(".html").read_text()
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    packed = re.findall(r'<script type="text/plain" id="frame-\d+">([A-Za-z0-9+/=]+)</script>', text)
    assert len(scripts) == 1
    assert packed
    pages = [gzip.decompress(base64.b64decode(one)).decode() for one in packed]
    inner = [re.findall(r'<script type="module">(.*?)</script>', one, re.DOTALL) for one in pages]
    assert all(len(one) == 1 for one in inner)
    assert text.count("<script") == 1 + len(packed)
    assert set(policy_of(text)["script-src"].split(" ")) == {
        digest_of(one) for one in [*scripts, *(one for some in inner for one in some)]
    }


# --- Code to copy -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["');import os#", '"""', "\\", "a\nimport os", "{}", EVIL])
def test_code_that_is_offered_to_be_copied_takes_names_for_names(name: str) -> None:
    names: dict[str, object] = {}
    exec(as_code(Setting(max_steps=3, doom_loop=2, agent=name, identity={"*": "canonical", name: None})), names)  # noqa: S102
    assert "os" not in names
    assert isinstance(names["agent"], bl.Agent)
    assert names["agent"].name == name


def lines_of(runs: Sequence[bl.Run]) -> list[bytes]:
    return [dumps(trajectory(run)) for run in runs]


def test_a_line_of_a_file_of_runs_is_a_line_whatever_a_run_holds(logs: Path) -> None:
    assert len(logs.read_bytes().splitlines()) == len(lines_of(bl.load_runs(logs))) == 4
