"""The reader of a file is found by its beginning, and loaded when it is needed."""

import subprocess
import sys
from pathlib import Path

import pytest

from boolab.logs import readers as package
from boolab.logs.fields import Head
from boolab.logs.log_files import readers, recognise
from tests.support.claude_logs import Session, text


def test_reading_a_session_loads_only_the_reader_of_its_format(tmp_path: Path) -> None:
    session = Session(sessionId="one")
    session.user("Hello")
    session.say("m1", text())
    path = session.write(tmp_path / "one.jsonl")
    code = (
        "import sys, boolab; runs = boolab.load_runs(sys.argv[1]); "
        "print(runs[0].source, *sorted(n for n in sys.modules if n.startswith('boolab.logs.readers.')), "
        "'sqlite3' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True)
    source, *modules, has_sqlite = done.stdout.split()
    assert (source, has_sqlite) == ("claude_code", "False")
    loaded = {name.rpartition(".")[2] for name in modules}
    assert {name for name in loaded if not name.startswith("_")} == {"claude_code"}


def test_each_sign_is_of_a_reader() -> None:
    modules = {getattr(reader, "__name__", "").rpartition(".")[2] for reader in readers().values()}
    assert package.SIGNS.keys() <= modules


def test_reader_without_signs_is_tried_for_each_file(monkeypatch: pytest.MonkeyPatch) -> None:
    head = Head(b'{"resourceSpans": []}', Path("a.json"))
    monkeypatch.delitem(package.SIGNS, "otel")
    assert [reader.NAME for reader in recognise(head)] == ["otel"]
