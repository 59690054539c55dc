"""Files of users are opened without waiting, and what was opened is checked."""

import ast
import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

import boolab as bl
from boolab.cli.main import main
from boolab.errors import BoolabError
from boolab.io import files
from boolab.io.files import open_file, read_file
from boolab.live.follow.log_file import LogFile
from boolab.logs.log_files import readers
from tests.support.project import PACKAGE

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes, sockets and devices are otherwise there")

CHAT: Final = '{"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi."}]}\n'


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        here = Path.cwd()
        os.chdir(path.parent)  # the name of a socket has at most 108 bytes
        try:
            one.bind(path.name)
        finally:
            os.chdir(here)


KINDS: Final[dict[str, Callable[[Path], object]]] = {
    "a pipe": make_pipe,
    "a socket": make_socket,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a terminal": lambda path: path.symlink_to("/dev/ptmx"),
    "a folder": lambda path: path.mkdir(),
    "the kernel's": lambda path: path.symlink_to("/proc/self/environ"),
}


@contextmanager
def swapped(path: Path) -> Iterator[None]:
    """Whatever is at this path looks like a small file until it is opened: another program swaps it meanwhile."""
    true = os.stat

    def looked_at(name: object, **options: object) -> os.stat_result:
        return true(__file__) if str(name) == str(path) else true(name, **options)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "stat", looked_at)
        yield


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_file_is_refused_without_waiting(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    KINDS[kind](path)
    why = {"a folder": "a folder, not a file", "the kernel's": "a file of the kernel"}.get(kind, "a pipe or a device")
    with pytest.raises(OSError, match=why) as caught:
        open_file(path)
    assert caught.value.strerror is not None
    assert caught.value.filename == str(path)
    with pytest.raises(OSError, match=why):
        read_file(path, 10)


@pytest.mark.parametrize("kind", KINDS)
def test_what_takes_a_files_place_is_refused_without_waiting(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    KINDS[kind](path)
    handles = Path("/proc/self/fd")  # where there are no such files, none is counted
    before = len([*handles.glob("*")])
    with swapped(path), pytest.raises(OSError, match="not a file|of the kernel|No such device"):
        open_file(path)
    assert len([*handles.glob("*")]) == before


def test_open_file_is_not_inherited_and_controls_no_terminal() -> None:
    with open_file(__file__) as file:
        assert not os.get_inheritable(file.fileno())
    assert files._FLAGS & os.O_NOCTTY
    assert files._FLAGS & os.O_NONBLOCK


@pytest.mark.parametrize("name", sorted(set(readers()) - {"store"}))
def test_reader_does_not_wait_for_a_pipe_in_its_files_place(name: str, tmp_path: Path) -> None:
    """A store's file is SQLite's to open: see `docs/limits.md`."""
    path = tmp_path / f"a{readers()[name].SUFFIXES[0]}"
    make_pipe(path)
    with swapped(path), pytest.raises(BoolabError, match="not a file"):
        bl.load_runs(path, format=name)


def test_followed_log_does_not_wait_for_a_pipe_in_its_place(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(CHAT)
    log = LogFile(path)
    log.update()
    assert len(log.runs) == 1
    path.unlink()
    make_pipe(path)
    with swapped(path), pytest.raises(OSError, match="a pipe or a device, not a file"):
        log.update()


@pytest.mark.parametrize(
    "words",
    [
        ["whatif", "{}"], ["report", "{}", "-o", "r.html"], ["import", "{}", "-o", "r.jsonl"],
        ["watch", "--once", "{}"], ["audit", "{}"],
        ["bench", "{}.csv"], ["run", "{}.md", "hello"], ["lab", "{}"], ["store", "ls", "{}"],
        ["export", "boolab", "--max-steps", "5", "--write", "{}"],
        ["hook", "claude-code", "--install", "--max-steps", "5", "--settings", "{}"],
    ],
    ids=lambda words: str(words[0]),
)  # fmt: skip
def test_home_that_is_not_there_is_a_sentence(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main([word.format("~no-such-user/x") for word in words])
    except SystemExit as error:
        code = int(str(error.code))
    assert code in (1, 2)
    assert "~no-such-user" in capsys.readouterr().err


def test_modules_expand_homes_with_user_path_alone() -> None:
    names = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if ".expanduser()" in path.read_text()}
    assert names == {"io/files.py"}


_OPENS: Final = re.compile(
    r"open|read_bytes|read_text|ZipFile|ParquetFile|open_json|connect|FileLock|read_(parquet|csv)"
)
_OTHERS: Final = {
    "cli/lab.py": "boolab's own notebooks, and a new file",
    "cli/main.py": "the null device",
    "cli/run_agent.py": "a new file",
    "core/lazy_names.py": "boolab's own",
    "whatif/step_files.py": "pyarrow reads what open_file opened",
    "io/file_edit.py": "a file that is edited is opened relative to its open folder, and checked",
    "io/files.py": "open_file itself, and a new file",
    "io/foreign_database.py": "SQLite opens it; what is there was checked",
    "io/folders.py": "folders, opened one below the other",
    "logs/from_table.py": "pandas reads what open_file opened",
    "logs/outcomes/evidence_cache.py": "boolab's own",
    "logs/outcomes/label_file.py": "a file of labels that is written, under a lock, and its folder",
    "logs/readers/mini_swe_agent.py": "a method of its own",
    "runtime/models/local/gguf.py": "figures of the kernel about memory; the model itself by open_file",
    "logs/readers/_archives.py": "zipfile reads what open_file opened",
    "logs/readers/parquet.py": "pyarrow reads what open_file opened",
    "runtime/models/local/weights.py": "zipfile reads what open_file opened, and a new file",
    "runtime/models/recorder.py": "a new file",
    "core/worker.py": "the null device and standard output",
    "report/html_page.py": "boolab's own",
    "store/connection.py": "SQLite and filelock open it, and what is beside it; all were checked",
    "runtime/tools/bash_supervisor.py": "the kernel's own",
    "runtime/tools/workspace.py": "files of an agent, which are opened relative to open folders",
    "widgets/_base/standalone_html.py": "boolab's own",
    "widgets/_base/widget.py": "a method of ipywidgets",
}
"""Modules that open files in another way, and why they may."""
_ELSEWHERE: Final = ("live/hooks/", "io/git/", "runtime/worlds/", "cli/hook.py")
"""Files that belong to boolab or to a repository; see their tests."""


@pytest.mark.slow
def test_modules_read_files_of_users_with_open_file_alone() -> None:
    found = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and _OPENS.fullmatch(node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", ""))
    }
    assert {name for name in found if not name.startswith(_ELSEWHERE)} == {*_OTHERS}
