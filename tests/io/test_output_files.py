"""Files that a user names to be written: links, pipes and logs in their place."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.cli.main import main
from boolab.errors import SettingError
from boolab.io.csv_export import write_csv, write_parquet
from boolab.io.files import output_file, write_output
from tests.support.claude_logs import Session, call, text

RUN = bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."]))


def save_plot(path: Path) -> None:
    """Save a figure."""
    bl.plots.save(bl.plots.plot_stop_reasons(RUN), path)


WRITERS: list[tuple[str, Callable[[Path], Any]]] = [
    ("runs.jsonl", lambda path: bl.save_runs(RUN, path)),
    ("page.html", lambda path: bl.Replay(RUN).to_html(path)),
    ("figure.svg", save_plot),
    ("table.csv", lambda path: write_csv(bl.runs_df(RUN), path)),
    ("table.parquet", lambda path: write_parquet(bl.runs_df(RUN), path)),
]


@pytest.mark.parametrize(("name", "write"), WRITERS, ids=[name for name, _ in WRITERS])
def test_an_output_follows_a_link_and_refuses_a_pipe(tmp_path: Path, name: str, write: Callable[[Path], Any]) -> None:
    link, target, pipe = tmp_path / name, tmp_path / f"target.{name}", tmp_path / f"pipe.{name}"
    link.symlink_to(target)
    with pytest.raises(FileNotFoundError, match="where there is nothing"):
        write(link)
    target.touch()
    write(link)
    assert link.is_symlink()
    assert target.stat().st_size > 0
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="a pipe or a device"):
        write(pipe)
    assert pipe.is_fifo()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([link.name, target.name, pipe.name])


def session_log(folder: Path) -> Path:
    """A log of Claude Code."""
    session = Session()
    session.user("the task")
    session.say("m1", call("t1"))
    session.answer("t1")
    session.say("m2", text())
    return session.write(folder / "s.jsonl")


@pytest.mark.parametrize("command", ["import {folder} -o {log}", "import {log} -o {log}", "import {other} -o {log}"])
def test_import_replaces_no_log(tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    log, other = session_log(tmp_path / "logs"), session_log(tmp_path / "other")
    before = log.read_bytes()
    assert main(command.format(folder=log.parent, log=log, other=other).split()) == 1
    assert "name another file to write" in capsys.readouterr().err
    assert log.read_bytes() == before


def test_import_replaces_an_earlier_import_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = session_log(tmp_path)
    for name in ("runs.jsonl", "runs.jsonl.bz2", "runs.parquet"):
        out = tmp_path / name
        out.touch()
        assert main(["import", str(log), "-o", str(out)]) == 0
        capsys.readouterr()
        assert main(["import", str(tmp_path), "-o", str(out), "--json"]) == 0
        files = json.loads(capsys.readouterr().out)["files"]
        assert [row["path"] for row in files if "earlier import" in (row["skipped"] or "")] == [str(out)]
        assert main(["import", str(log), str(out), "-o", str(out)]) == 1
        assert "it is one of the logs" in capsys.readouterr().err
        out.unlink()


def test_a_table_or_a_page_replaces_no_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "runs.parquet"
    bl.save_runs(RUN, table)
    before = table.read_bytes()
    assert main(["whatif", str(table), "-o", str(table)]) == 1
    assert "it is a log (parquet), which would be lost" in capsys.readouterr().err
    assert table.read_bytes() == before
    with pytest.raises(SettingError, match="boolab did not write this file"):
        bl.save_runs(RUN, session_log(tmp_path))


def test_a_path_is_its_own_output_file_unless_a_link(tmp_path: Path) -> None:
    write_output(tmp_path / "a.html", "ü")
    assert output_file(tmp_path / "a.html") == tmp_path / "a.html"
    assert (tmp_path / "a.html").read_bytes() == "ü".encode()
    with pytest.raises(IsADirectoryError):
        output_file(tmp_path)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_one_sentence() -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "boolab", "--version"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (1, "boolab: No space left on device\n")
