"""Finding, recognising and reading logs, and the account of it."""

import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.errors import ReadWarning, RunFormatError, SettingError
from boolab.io.json_input import whole_file
from boolab.logs import load as load_module
from boolab.logs.fields import Head, sidecar
from boolab.logs.load import FileRow, load_runs, no_log_message, read_logs
from boolab.logs.log_files import readers
from boolab.logs.problems import problems_of
from boolab.logs.save import save_runs
from tests.support.claude_logs import Session, call, text
from tests.support.helpers import distinct, play


def session(path: Path, *, name: str, steps: int = 1, at: int = 0) -> Path:
    """A session with so many steps, changed at that time."""
    made = Session(sessionId=name)
    made.user(f"task of {name}")
    for number in range(steps - 1):
        made.say(f"m{number}", call(f"t{number}"))
        made.answer(f"t{number}")
    made.say("last", text())
    made.write(path)
    os.utime(path, (at, at))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two sessions, own records, something else, and a damaged file."""
    session(tmp_path / "projects" / "-a" / "one.jsonl", name="one", at=100)
    session(tmp_path / "projects" / "-b" / ".hidden" / "two.jsonl", name="two", steps=3, at=300)
    save_runs(play(distinct(1)), tmp_path / "own.jsonl")
    os.utime(tmp_path / "own.jsonl", (200, 200))
    (tmp_path / "package.json").write_text('{"name": "x"}')
    (tmp_path / "notes.txt").write_text("not looked at")
    (tmp_path / "bad.json").write_text('[{"task_id": 1, "traj": [oops')
    return tmp_path


def test_folder_gives_the_runs_of_all_logs_despite_a_bad_file(folder: Path) -> None:
    with pytest.warns(ReadWarning, match=r"bad\.json:1: not valid JSON .*; the file was skipped"):
        reading = read_logs(folder)
    assert [run.source for run in reading.runs] == ["boolab", "claude_code", "claude_code"]
    rows = {Path(row.path).name: row for row in reading.files}
    assert {name: (row.format, row.runs) for name, row in rows.items()} == {
        "bad.json": ("tau_bench", 0),
        "own.jsonl": ("atif", 1),
        "package.json": (None, 0),
        "one.jsonl": ("claude_code", 1),
        "two.jsonl": ("claude_code", 1),
    }
    assert rows["package.json"].skipped == "no reader recognises it"
    assert rows["package.json"].warnings == ()
    assert rows["bad.json"].skipped is not None
    assert rows["one.jsonl"].bytes == (folder / "projects/-a/one.jsonl").stat().st_size
    assert repr(reading) == "<Reading: 3 runs of 5 files, 2 skipped, 1 warning>"


def test_the_account_is_a_frame(folder: Path) -> None:
    with pytest.warns(ReadWarning):
        frame = read_logs(folder).files_df()
    assert frame["runs"].sum() == 3
    assert frame["format"].isna().sum() == 1
    assert frame["skipped"].notna().sum() == 2
    assert {str(kind) for kind in frame.dtypes} == {"string", "Int64", "Float64"}
    assert "bad.json:1" in frame["warnings"].iloc[0]
    assert len(read_logs(folder / "own.jsonl").files_df()) == 1


def test_globs_lists_and_a_tilde(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    assert [run.run_id for run in load_runs("~/projects/**/*.jsonl")] == ["one", "two"]
    one, own = folder / "projects/-a/one.jsonl", "~/own.jsonl"
    assert [run.source for run in load_runs([one, own, one])] == ["claude_code", "boolab"]
    assert [run.source for run in bl.load_runs(folder / "own.jsonl")] == ["boolab"]


def test_a_file_whose_name_looks_like_a_glob_is_a_file(tmp_path: Path) -> None:
    assert load_runs(session(tmp_path / "a[1].jsonl", name="s"))[0].run_id == "s"


def test_only_files_changed_since_and_the_newest_first(folder: Path) -> None:
    since = datetime.fromtimestamp(150, UTC)
    assert {run.run_id for run in read_logs(folder / "projects", since=since).runs} == {"two"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadWarning)
        newest = read_logs(folder, limit=2)
    assert [Path(row.path).name for row in newest.files if row.skipped is None] == ["two.jsonl", "own.jsonl"]


def test_unknown_file_is_refused_with_all_and_similar_formats(folder: Path) -> None:
    with pytest.raises(RunFormatError, match=r"package\.json:1: not a log of a known format") as caught:
        load_runs(folder / "package.json")
    assert caught.value.line == 1
    assert caught.value.message == f"not a log of a known format ({', '.join(readers())})"
    (folder / "package.json").write_text('{"info": {}, "messages": 3, "trajectory": 4}')
    with pytest.raises(RunFormatError) as caught:
        load_runs(folder / "package.json")
    assert caught.value.message.partition("; similar: ")[2] == "; ".join(
        f"{name} is {readers()[name].LOOKED_FOR}" for name in ("mini_swe_agent", "opencode")
    )
    with pytest.raises(RunFormatError, match=r"bad\.json:1: not valid JSON"):
        load_runs(folder / "bad.json")


def test_empty_file_is_refused_unless_its_format_is_named(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    save_runs([], path)
    with pytest.raises(RunFormatError, match=r"runs\.jsonl:1: the file is empty"):
        load_runs(path)
    with pytest.warns(ReadWarning, match="no run in it"):
        assert load_runs(path, format="atif") == []


def test_an_unknown_file_in_a_list_or_a_glob_is_a_warning(folder: Path) -> None:
    with pytest.warns(ReadWarning, match=r"package\.json:1: not a log of a known format"):
        assert load_runs(str(folder / "p*.json")) == []
    with pytest.warns(ReadWarning, match=r"package\.json:1"):
        assert len(load_runs([folder / "package.json", folder / "own.jsonl"])) == 1


@pytest.mark.parametrize("name", ["nothing.jsonl", "nothing/**/*.jsonl"])
def test_where_nothing_is_there_is_nothing_to_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(RunFormatError, match="no such file or folder|no file matches"):
        load_runs(tmp_path / name)


def test_a_format_can_be_named(folder: Path) -> None:
    assert [run.source for run in load_runs(folder, format="atif")] == ["boolab"]
    with pytest.raises(SettingError, match="format 'x' is not known; accepted: .*atif, .*claude_code, .*tau_bench"):
        load_runs(folder, format="x")
    with pytest.raises(RunFormatError, match="nothing else in it can be read"):
        load_runs(folder / "projects/-a/one.jsonl", format="atif")


def test_a_named_log_without_runs_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"type": "summary", "summary": "x", "leafUuid": "u"}\n')
    with pytest.warns(ReadWarning, match="no run in it"):
        assert load_runs(path) == []


def test_a_run_that_two_files_hold_counts_once(tmp_path: Path) -> None:
    run = play(distinct(1), agent=None)
    save_runs(run, tmp_path / "a.jsonl")
    save_runs(run, tmp_path / "b.jsonl")
    with pytest.warns(ReadWarning, match=r"\.jsonl: 1 run is a copy of a run in .*\.jsonl: counted once"):
        assert load_runs(tmp_path) == [run]


def test_runs_of_one_id_that_differ_both_stay(tmp_path: Path) -> None:
    run = play(distinct(1), agent=None)
    save_runs(run, tmp_path / "a.jsonl")
    save_runs(replace(play(distinct(2), agent=None), run_id=run.run_id), tmp_path / "b.jsonl")
    with pytest.warns(ReadWarning, match=r"run .* is in .*\.jsonl too, and differs: both are counted"):
        assert len(load_runs(tmp_path)) == 2


def test_an_unreadable_file_among_others_is_a_row(tmp_path: Path) -> None:
    session(tmp_path / "a.jsonl", name="a")
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    assert len(load_runs(tmp_path)) == 1
    with pytest.raises(RunFormatError):
        load_runs(tmp_path / "gone.jsonl")


NO_PROC = pytest.mark.skipif(not Path("/proc/version").is_file(), reason="there is no /proc here")


@NO_PROC
@pytest.mark.parametrize("target", ["/proc/version", "/proc/self/environ", "/sys/kernel/notes"])
def test_links_to_files_of_the_kernel_are_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    session(tmp_path / "a.jsonl", name="a")
    (tmp_path / "b.jsonl").symlink_to(target)
    if not Path(target).is_file():
        pytest.skip(f"there is no {target} here")
    opened: list[str] = []
    monkeypatch.setattr(os, "open", _noting(opened, os.open))
    assert [row.skipped for row in read_logs(tmp_path).files] == [
        None,
        "a file of the kernel (/proc or /sys), not one of a user",
    ]
    with pytest.raises(RunFormatError, match=r"a file of the kernel \(/proc or /sys\)"):
        load_runs(tmp_path / "b.jsonl")
    assert opened
    assert not [name for name in opened if name.endswith("b.jsonl")]


@NO_PROC
def test_report_that_links_to_a_kernel_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "x.traj").write_text('{"environment": "e", "trajectory": [], "info": {}}')
    (tmp_path / "results.json").symlink_to("/proc/self/environ")
    assert sidecar(tmp_path / "results.json") is None
    with pytest.raises(ValueError, match="a file of the kernel"):
        whole_file(tmp_path / "results.json")


def _noting(opened: list[str], real: Callable[..., Any]) -> Callable[..., Any]:
    def noted(path: str | Path, *args: Any, **options: Any) -> Any:
        opened.append(str(path))
        return real(path, *args, **options)

    return noted


def test_every_reader_says_what_it_is() -> None:
    assert [*readers()] == sorted(readers())
    for name, reader in readers().items():
        assert name == reader.NAME
        assert isinstance(reader.PLACES, tuple)
        assert reader.SUFFIXES
        assert all(suffix.startswith(".") for suffix in reader.SUFFIXES)
        assert not reader.sniff(Head(b"", Path("a.jsonl")))


def test_a_bar_is_shown_only_where_somebody_can_see_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("boolab.logs.load._QUIET", 0)
    session(tmp_path / "a.jsonl", name="a")
    assert len(read_logs(tmp_path, progress=True).runs) == 1
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("head_keys", "ids of runs cannot be looked for (ZeroDivisionError: boom)"),
        ("_is_own", "ids of runs cannot be looked for (ZeroDivisionError: boom)"),
        ("needs_prices", "list prices cannot be computed (ZeroDivisionError: boom)"),
        ("check_file", "failed (ZeroDivisionError: boom)"),
        ("with_outcome", "labels beside it cannot be read (ZeroDivisionError: boom)"),
    ],
)
def test_error_in_one_file_is_a_warning_and_others_are_read(
    place: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        session(tmp_path / f"{name}.jsonl", name=name)
    real, calls = getattr(load_module, place), []

    def failing(*args: Any, **options: Any) -> Any:
        calls.append(args)
        if len(calls) == 2:
            raise ZeroDivisionError("boom")
        return real(*args, **options)

    monkeypatch.setattr(load_module, place, failing)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        reading = read_logs(tmp_path, progress=False)
    assert len(calls) >= 3
    assert sum(told in str(one.message) for one in caught) == 1
    assert len(reading.runs) == (2 if "failed" in told else 3)


def test_error_about_copies_loses_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "ab":
        session(tmp_path / f"{name}.jsonl", name=name)

    def settle(*_: Any, **more: Any) -> Any:
        raise ZeroDivisionError("boom")

    monkeypatch.setattr("boolab.logs.copies.Copies.settle", settle)
    with pytest.warns(ReadWarning, match=r"copies of its runs cannot be looked for \(ZeroDivisionError: boom\)"):
        assert [run.run_id for run in load_runs(tmp_path)] == ["a", "b"]


def test_folder_that_cannot_be_searched_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session(tmp_path / "a.jsonl", name="a")
    (tmp_path / "private").mkdir()
    session(tmp_path / "private" / "b.jsonl", name="b")
    real = os.scandir

    def scandir(path: Any) -> Any:
        if str(path).endswith("private"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.warns(ReadWarning, match=r"private: the folder cannot be searched: Permission denied"):
        assert len(load_runs(tmp_path)) == 1


def test_what_is_not_opened_in_a_folder_is_a_skipped_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs, other = tmp_path / "logs", tmp_path / "other"
    for folder in (logs, other, logs / "private", logs / "runs"):
        folder.mkdir(exist_ok=True)
    session(logs / "a.jsonl", name="a")
    session(other / "b.jsonl", name="b")
    (logs / "linked").symlink_to(other)
    (logs / "circle").symlink_to(logs)
    (logs / "latest").symlink_to(logs / "runs")
    (logs / "gone.jsonl").symlink_to(tmp_path / "nothing")
    (logs / "null.jsonl").symlink_to(os.devnull)
    (logs / "loop.jsonl").symlink_to(logs / "loop.jsonl")
    os.mkfifo(logs / "pipe.jsonl")
    real = os.scandir

    def scandir(path: Any) -> Any:
        if str(path).endswith("private"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.warns(ReadWarning):
        reading = read_logs(logs)
    assert {Path(row.path).name: row.skipped for row in reading.files} == {
        "a.jsonl": None,
        "gone.jsonl": "a link that leads nowhere",
        "linked": "a link to a folder, which is not followed: name that folder to read it",
        "loop.jsonl": "cannot be read: Too many levels of symbolic links",
        "null.jsonl": "a pipe or a device, not a file",
        "pipe.jsonl": "a pipe or a device, not a file",
        "private": "the folder cannot be searched: Permission denied",
    }
    with pytest.warns(ReadWarning, match=r"private: the folder cannot be searched: Permission denied"):
        assert read_logs(logs / "private").runs == ()
    with pytest.warns(ReadWarning, match="pipe"):
        assert [row.path for row in read_logs(f"{logs}/p*").files] == [str(logs / "pipe.jsonl")]


def test_glob_that_cannot_search_a_folder_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "private").mkdir()
    session(tmp_path / "a.jsonl", name="a")
    real = os.scandir

    def scandir(path: Any) -> Any:
        if str(path).endswith("private"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.warns(ReadWarning, match=r"private: the folder cannot be searched: Permission denied"):
        assert len(load_runs(f"{tmp_path}/**/*.jsonl")) == 1
    with pytest.warns(ReadWarning, match=r"private: the folder cannot be searched: Permission denied"):
        assert read_logs(f"{tmp_path}/private/*.jsonl").runs == ()


def test_no_log_error_counts_skipped_files() -> None:
    rows = [FileRow("logs/a.jsonl.zst", None, 0, 9, 0.0, "packed with Zstandard")]
    assert no_log_message("logs/", rows=rows).endswith("are read; skipped: packed with Zstandard (1)")


def test_problems_count_skipped_files_and_warnings() -> None:
    read = FileRow("a.jsonl", "atif", 1, 900, 0.1, warnings=("a.jsonl:7: not valid JSON; skipped",))
    assert (
        str(problems_of([read, FileRow("b.txt", None, 0, 5, 0.0, "no reader recognises it")]))
        == "1 skipped file, 1 warning"
    )
