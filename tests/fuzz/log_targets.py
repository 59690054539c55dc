"""Every reader of logs. A sample is laid out as its harness does, and one of its files becomes the input."""

import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

import boolab as bl
from boolab.errors import ReadWarning, RunFormatError
from boolab.logs.log_files import readers
from tests.fuzz.contract import BrokenError
from tests.fuzz.mutation import Grammar, json_or_lines, parquet_table, sqlite_file, zip_archive
from tests.fuzz.target import Act, Target
from tests.fuzz.usable import use
from tests.support.claude_logs import Session, text, usage
from tests.support.claude_logs import call as claude_call
from tests.support.helpers import call, distinct, play
from tests.support.samples import OWN

NAMED, FOLDER = 1, 2
"""What the first byte of an input chooses: that the format is named, and that the whole folder is read. The second
byte is the number of the file that has the content."""

_ZIP: Final = b"PK"
"""How an archive begins, which has no lines; nor has a Parquet file, whatever was made of its first bytes."""
_HEAD: Final = 2


def log_targets() -> Iterator[Target]:
    """A target for each format but the store, which has its own."""
    for name in readers():
        if name != "store":
            yield Target(name, _opening(name), _seeding(name), _grammar_of(name), head=_HEAD)


def _grammar_of(name: str) -> Grammar:
    grammars = {"parquet": parquet_table, "inspect": _eval_or_json, "crush": sqlite_file, "opencode": _database_or_json}
    return grammars.get(name, json_or_lines)


def _eval_or_json(data: bytes, chance: object) -> bytes:
    grammar: Callable[..., bytes] = zip_archive if data.startswith(b"PK") else json_or_lines
    return grammar(data, chance)


def _database_or_json(data: bytes, chance: object) -> bytes:
    grammar: Callable[..., bytes] = sqlite_file if data.startswith(b"SQLi") else json_or_lines
    return grammar(data, chance)


@cache
def samples(name: str) -> dict[str, bytes]:
    """The files of a format's samples, by their paths."""
    found = {path.relative_to(OWN / name).as_posix(): path.read_bytes() for path in _files(OWN / name)}
    return found | _made(name)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _made(name: str) -> dict[str, bytes]:
    """Samples that are made by code."""
    with tempfile.TemporaryDirectory() as folder:
        if name == "claude_code":
            _claude_code(Path(folder) / "rich.jsonl")
        elif name in ("atif", "parquet"):
            bl.save_runs(own_runs(), Path(folder) / f"own.{'jsonl' if name == 'atif' else name}")
        return {path.name: path.read_bytes() for path in _files(Path(folder))}


def _claude_code(path: Path) -> None:
    session = Session()
    session.user("the task")
    thinking = {"type": "thinking", "thinking": "hm"}
    session.say("m1", thinking, text(), claude_call("t1"), claude_call("t2"), usage=usage(3, 5, 7, 9))
    session.answer("t1", [{"type": "text", "text": "ok"}], is_error=False)
    session.answer("t2", toolUseResult={"durationMs": 7})
    session.user("look", isSidechain=True, agentId="a1")
    session.say("s1", text(), isSidechain=True, agentId="a1")
    session.line("system", subtype="compact_boundary", compactMetadata={"trigger": "auto"})
    session.user("next")
    session.say("m2", text())
    session.write(path)


@cache
def own_runs() -> tuple[bl.Run, ...]:
    """Runs of our own, with settings, a label, a failure, half a letter and a cap."""
    items = [{"text": "hm", "reasoning": "so", "tool_calls": [call("fail", what="\ud83d")], "usage": {"cost_usd": 0.1}}]
    runs = [
        play([*items, *distinct(2)], seed=3),
        replace(play(distinct(2, end=None)), settings={"a": (1, {"b": None})}, success=True),
        play(distinct(4), max_steps=2),
    ]
    return tuple(replace(run, run_id=f"run-{number}", started_at=None) for number, run in enumerate(runs))


def _seeding(name: str) -> Callable[[], list[bytes]]:
    def seeds() -> list[bytes]:
        made = []
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            _lay_out(name, root)
            for number, path in enumerate(samples(name)):
                alone = _is_read_alone(root / path)
                flags = (0, NAMED) if alone else (FOLDER,)
                made += [bytes((flag, number)) + samples(name)[path] for flag in flags]
        return made

    return seeds


def _is_read_alone(path: Path) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadWarning)
        try:
            return bool(bl.read_logs(path, progress=False).runs)
        except RunFormatError:
            return False


def _lay_out(name: str, folder: Path) -> None:
    for path, content in samples(name).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def _opening(name: str) -> Callable[[Path], AbstractContextManager[Act]]:
    @contextmanager
    def opened(folder: Path) -> Iterator[Act]:
        root, aside = folder / "logs", folder / "aside"
        aside.mkdir()
        _lay_out(name, root)
        paths = [root / path for path in samples(name)]

        def act(data: bytes) -> None:
            flags, number = data[:_HEAD].ljust(_HEAD, b"\0")
            path = paths[number % len(paths)]
            whole = path.read_bytes()
            try:
                path.write_bytes(data[_HEAD:])
                _read(path, root, name, flags, data, aside)
            finally:
                path.write_bytes(whole)

        yield act

    return opened


def _read(path: Path, root: Path, name: str, flags: int, data: bytes, aside: Path) -> None:
    try:
        reading = bl.read_logs(root if flags & FOLDER else path, format=name if flags & NAMED else None, progress=False)
    except RunFormatError as error:
        if "failed (" in error.message:
            raise BrokenError(error.message) from error
        if error.path != str(path) or (
            error.line is None and name != "parquet" and not path.read_bytes().startswith(_ZIP)
        ):
            raise BrokenError(f"it says neither where nor of what: {error.message}") from error
        raise
    for row in reading.files:
        if row.skipped is not None and "failed (" in row.skipped:
            raise BrokenError(row.skipped)
    runs = reading.runs
    if flags & FOLDER:  # ids are unique within a file; those that two files share are warned of
        runs = tuple({run.run_id: run for run in runs}.values())
    use(runs, data, aside)
