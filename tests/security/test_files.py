"""Files: nothing outside of what was named is read or written, and who may read a file stays as it was."""

import os
import re
import secrets
import stat
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import boolab as bl
from boolab.errors import AgentFileError, RunFormatError, ToolError
from boolab.io.files import replace_file
from boolab.logs.readers._archives import Archive
from boolab.runtime.tools.workspace import _entries, _read
from tests.support.project import PACKAGE

posix = pytest.mark.skipif(os.name != "posix", reason="rights and links are otherwise there")


@pytest.fixture
def swapped(tmp_path: Path) -> Path:
    """A workspace whose folder `a` has become a link to outside, as between a tool's question and its opening."""
    top, outside = tmp_path / "top", tmp_path / "outside"
    (top / "b").mkdir(parents=True)
    outside.mkdir()
    (outside / "file.txt").write_text("secret")
    (top / "a").symlink_to(outside)
    return top


@posix
def test_folder_replaced_by_a_link_after_the_check_is_not_read(swapped: Path) -> None:
    assert (swapped / "a" / "file.txt").read_text() == "secret"
    with pytest.raises(ToolError, match="cannot be read"):
        _read(swapped, swapped / "a" / "file.txt", "a/file.txt")
    assert _entries(swapped, str(swapped / "a")) == ([], [])


@posix
def test_file_replaced_by_a_link_after_the_check_is_not_read(swapped: Path) -> None:
    (swapped / "b" / "file.txt").symlink_to(swapped.parent / "outside" / "file.txt")
    with pytest.raises(ToolError, match="cannot be read"):
        _read(swapped, swapped / "b" / "file.txt", "b/file.txt")


@posix
def test_files_that_are_written_are_as_private_as_the_umask_says(tmp_path: Path) -> None:
    model = bl.ScriptedModel(["Done."])
    old = os.umask(0o077)
    try:
        run = bl.run_sync(None, "x", model=bl.record(model, tmp_path / "recording.jsonl"))
        bl.save_runs(run, tmp_path / "runs.jsonl")
        bl.save_runs(run, tmp_path / "runs.parquet")
        with bl.Store(tmp_path / "store.db") as store:
            store.add([run])
            made = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    finally:
        os.umask(old)
    assert {"recording.jsonl", "runs.jsonl", "runs.parquet", "store.db", "store.db-wal"} <= set(made)
    assert {name: oct(mode) for name, mode in made.items() if mode & 0o077} == {}


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
def test_a_file_that_is_replaced_stays_as_private_as_it_was(mode: int, tmp_path: Path) -> None:
    run = bl.run_sync(None, "x", model=bl.ScriptedModel(["Done."]))
    path = tmp_path / "runs.jsonl"
    bl.save_runs(run, path)
    path.chmod(mode)
    bl.save_runs([run, run], path)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert len(path.read_text().splitlines()) == 2


@posix
def test_a_read_only_file_is_not_replaced(tmp_path: Path) -> None:
    run = bl.run_sync(None, "x", model=bl.ScriptedModel(["Done."]))
    path = tmp_path / "runs.jsonl"
    bl.save_runs(run, path)
    before = path.read_bytes()
    path.chmod(0o444)
    with pytest.raises(PermissionError, match="the file is read-only"):
        bl.save_runs([run, run], path)
    assert path.read_bytes() == before


@posix
@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_that_root_replaces_stays_its_owners(tmp_path: Path) -> None:
    run = bl.run_sync(None, "x", model=bl.ScriptedModel(["Done."]))
    path = tmp_path / "runs.jsonl"
    bl.save_runs(run, path)
    os.chown(path, 1234, 1235)
    bl.save_runs([run, run], path)
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 1235)


@posix
def test_nothing_is_written_through_a_link_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder that others may write to, such as /tmp. The name cannot be guessed, but say that it was."""
    mine, path = tmp_path / "mine.txt", tmp_path / "runs.jsonl"
    mine.write_text("mine")
    monkeypatch.setattr(secrets, "token_hex", lambda _bytes: "guessed")
    (tmp_path / f".{path.name}.guessed.part").symlink_to(mine)
    with pytest.raises(FileExistsError):
        bl.save_runs(bl.run_sync(None, "x", model=bl.ScriptedModel(["Done."])), path)
    assert mine.read_text() == "mine"


@posix
def test_what_is_written_is_private_from_its_first_byte_on(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text("")
    path.chmod(0o600)
    with replace_file(path) as file:
        modes = [stat.S_IMODE(one.stat().st_mode) for one in tmp_path.iterdir()]
        file.write(b"x")
    assert modes == [0o600, 0o600]


def test_two_writers_of_one_file_leave_one_complete_version(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    texts = [letter.encode() * 1_000_000 for letter in "ab"]
    path.write_bytes(texts[0])

    def write(text: bytes) -> None:
        for _ in range(20):
            with replace_file(path) as file:
                for start in range(0, len(text), 100_000):
                    file.write(text[start : start + 100_000])
                    file.flush()

    with ThreadPoolExecutor(2) as threads:
        writing = [threads.submit(write, text) for text in texts]
        while not all(one.done() for one in writing):
            assert path.read_bytes() in texts
        for one in writing:
            one.result()
    assert [one.name for one in tmp_path.iterdir()] == ["runs.jsonl"]


@posix
def test_nor_does_an_editor_of_agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, path = tmp_path / "mine.txt", tmp_path / "AGENTS.md"
    mine.write_text("mine")
    path.write_text("---\nname: a\nsteps: 5\n---\nYou look.\n")
    path.chmod(0o600)
    editor = bl.AgentEditor(path)
    editor.text = editor.text.replace("steps: 5", "steps: 7")
    with monkeypatch.context() as patch:
        patch.setattr(secrets, "token_hex", lambda _bytes: "guessed")
        (tmp_path / f".{path.name}.guessed.part").symlink_to(mine)
        with pytest.raises(AgentFileError, match="cannot be written: File exists"):
            editor.save()
    assert mine.read_text() == "mine"
    editor.save()
    assert bl.load_agents(path)["a"].max_steps == 7
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["../outside.json", "/etc/outside.json", "..\\outside.json", "C:\\outside.json"])
def test_archive_member_is_read_into_memory_for_any_name(name: str, tmp_path: Path) -> None:
    """What is called "zip slip" needs a file to be written by a member's name."""
    with zipfile.ZipFile(tmp_path / "log.eval", "w") as archive:
        archive.writestr(name, "{}")
    places = (tmp_path.rglob, tmp_path.parent.glob)  # not below other tests' folders, of which there are thousands
    before = [sorted(find("*")) for find in places]
    with Archive(tmp_path / "log.eval") as opened:
        assert [opened.read(each) for each in opened.names] == [b"{}"]
    with pytest.raises(RunFormatError):
        bl.load_runs(tmp_path / "log.eval")
    assert [sorted(find("*")) for find in places] == before


def test_nothing_is_ever_extracted_from_an_archive() -> None:
    extracts = re.compile(r"\.extract(all)?\(|unpack_archive|\btarfile\b")
    assert [str(path) for path in sorted(PACKAGE.rglob("*.py")) if extracts.search(path.read_text())] == []


@pytest.mark.parametrize("name", ["../../escape", "/etc/escape", "..", "a/b\\c", "\x1b[31m", "CON", "-o", ""])
def test_record_is_named_in_its_folder_for_any_agent_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from boolab.cli.run_agent import _new_record

    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    made = _new_record(None, bl.Agent(name or "x"))
    assert made.resolve().parent == tmp_path / "work" / "runs"
    assert re.fullmatch(r"[\w.-]+\.jsonl", made.name)
    assert not made.name.startswith((".", "-"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["work"]
