"""Readers from outside: a module, a class or an object that `load_runs` and `read_logs` take as a format."""

from pathlib import Path
from types import ModuleType
from typing import ClassVar

import pytest

import boolab as bl
from boolab.errors import ReadWarning, RunFormatError, SettingError
from boolab.io.json_input import Damage, json_lines, mapping, text
from boolab.logs.builder import RunBuilder
from boolab.logs.fields import Head
from boolab.logs.log_files import Reader
from boolab.logs.save import save_runs
from tests.support.helpers import distinct, play

LINES = '{"log": "toy", "who": "user", "text": "Hello"}\n{"log": "toy", "who": "model", "text": "Hi."}\n'


class Toy:
    """Reads lines that say who said what."""

    NAME = "toy"
    SUFFIXES = (".toylog",)
    PLACES: ClassVar[tuple[str, ...]] = ()
    LOOKED_FOR = 'objects with "log": "toy"'

    @staticmethod
    def sniff(head: Head) -> bool:
        return head.first.get("log") == "toy"

    @staticmethod
    def read(path: Path, damage: Damage) -> list[bl.Run]:
        builder = RunBuilder("toy", damage)
        for _, value in json_lines(path, damage):
            said = text(mapping(value).get("text"))
            if mapping(value).get("who") == "user":
                builder.add_message("user", said, opens_turn=True)
            else:
                builder.add_response().add_text(said)
        return [] if builder.is_empty else [builder.build(path.stem)]


def as_module() -> ModuleType:
    made = ModuleType("toy")
    for name in ("NAME", "SUFFIXES", "PLACES", "LOOKED_FOR", "sniff", "read"):
        setattr(made, name, getattr(Toy, name))
    return made


@pytest.mark.parametrize("reader", [Toy, Toy(), as_module()], ids=["class", "object", "module"])
def test_a_reader_of_ones_own_reads_a_file_that_no_other_knows(tmp_path: Path, reader: Reader) -> None:
    path = tmp_path / "a.toylog"
    path.write_text(LINES)
    with pytest.raises(RunFormatError, match="not a log of a known format"):
        bl.load_runs(path)
    (run,) = bl.load_runs(path, format=reader)
    assert (run.run_id, run.source, run.task, run.stop_reason) == ("a", "toy", "Hello", "finished")


def test_own_reader_is_asked_only_about_its_suffixes_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.toylog").write_text(LINES)
    (tmp_path / "b.toylog").write_text('{"log": "other"}\n')
    save_runs(play(distinct(1)), tmp_path / "own.jsonl")
    reading = bl.read_logs(tmp_path, format=Toy)
    assert [(Path(row.path).name, row.format, row.runs) for row in reading.files] == [
        ("b.toylog", None, 0),
        ("a.toylog", "toy", 1),
    ]


def test_what_it_tells_and_how_it_fails_is_told_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.toylog").write_text(LINES + "{oops\n")
    with pytest.warns(ReadWarning, match=r"a\.toylog:3: not valid JSON .*; skipped"):
        (row,) = bl.read_logs(tmp_path, format=Toy).files
    assert row.runs == 1

    class Broken(Toy):
        @staticmethod
        def read(path: Path, damage: Damage) -> list[bl.Run]:
            raise KeyError(path.suffix)

    with pytest.warns(ReadWarning, match=r"the reader of toy failed \(KeyError: '.toylog'\); the file was skipped"):
        assert bl.load_runs(tmp_path, format=Broken) == []
    with pytest.raises(RunFormatError, match=r"the reader of toy failed \(KeyError"):
        bl.load_runs(tmp_path / "a.toylog", format=Broken)


def test_what_is_no_reader_is_refused_with_what_one_has(tmp_path: Path) -> None:
    class Half:
        NAME = "half"

    with pytest.raises(SettingError, match=r"accepted: .*atif.* NAME, SUFFIXES, PLACES, LOOKED_FOR, sniff\(head\)"):
        bl.load_runs(tmp_path, format=Half)  # type: ignore[arg-type] # a type checker says so too
