"""What a hostile or enormous input costs at most: memory as a multiple of its size, and time. See docs/limits.md.

Each input goes to a process of its own with limits on both. With `--bombs` the inputs are as large as they come.
"""

import ast
import bz2
import gzip
import importlib
import json
import os
import pkgutil
import re
import sqlite3
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest

import boolab
import boolab as bl
from boolab.errors import BoolabError, RunFormatError, StoreError
from boolab.io import packed, yaml_loader
from boolab.io.json_input import MAX_LINE
from boolab.logs.load import read_file
from boolab.logs.log_files import readers
from boolab.logs.outcomes.labels import labels_of
from boolab.runtime.models.remote.transport import Endpoint
from boolab.runtime.tools import execution, workspace
from tests.support.cases import first
from tests.support.helpers import call, play
from tests.support.limits import MB, run_limited

CHAT: Final = b'{"messages":[{"role":"user","content":"Hello"},{"role":"assistant","content":"Hi."}]}\n'
JSON_READERS: Final = sorted(set(readers()) - {"parquet", "store"})
METHODS: Final = {"match", "fullmatch", "search", "findall", "finditer", "split", "sub"}
"""How a pattern is applied."""
MULTIPLE: Final = 32
"""How many times its size a JSON text takes at most while it is read: of nothing but brackets it takes 28."""


# What the processes do


def read_all(names: list[str], paths: list[str]) -> list[str]:
    """Read each file as each format; anything but runs or a `RunFormatError` is raised."""
    told: list[str] = []
    for path in paths:
        for name in names:
            try:
                runs = read_file(readers()[name], Path(path), lambda _message: None)
                told.append(f"{name}: {len(runs)}")
            except RunFormatError as error:
                told.append(f"{name}: {error.message[:100]}")
    return told


def read_runs(path: str, kind: str | None = None) -> tuple[int, list[str]]:
    """How many runs a path holds, and the warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reading = bl.read_logs(path, format=kind, progress=False)
    return len(reading.runs), [told[:300] for row in reading.files for told in row.warnings]


def read_yaml(text: str) -> object:
    """The type of a document."""
    return type(yaml_loader.read_yaml(text).data).__name__


LOADERS: Final[dict[str, Callable[[str], object]]] = {
    "agents": bl.load_agents,
    "script": bl.ScriptedModel.load,
    "profile": bl.SimulatedModel.load,
    "recording": bl.RecordedModel,
    "labels": labels_of,
    "log": bl.load_runs,
    "store": bl.Store,
    "runs of a store": bl.runs_df,
}


def load(what: str, path: str) -> None:
    """Load something."""
    LOADERS[what](path)


def times_of_patterns() -> dict[str, float]:
    """Every way in which boolab applies a regular expression: seconds of the slowest hostile text of 10,000 signs."""
    slowest = {}
    for module, name, method in applied_patterns():
        pattern = getattr(importlib.import_module(module), name, None)
        if isinstance(pattern, re.Pattern):
            slowest[f"{module}.{name}.{method}"] = slowest_of(pattern, method)
    for module, pattern, method in inline_patterns():
        slowest[f"{module}: {method} {pattern.pattern!r}"] = slowest_of(pattern, method)
    return slowest


def slowest_of(pattern: re.Pattern[Any], method: str) -> float:
    """Seconds of the slowest hostile text."""
    worst = 0.0
    for text in hostile_texts():
        given: Any = text.encode() if isinstance(pattern.pattern, bytes) else text
        start = time.process_time()
        found = getattr(pattern, method)(*([given[:0]] if method == "sub" else []), given)
        if method == "finditer":
            list(found)
        worst = max(worst, time.process_time() - start)
    return worst


def applied_patterns() -> Iterator[tuple[str, str, str]]:
    """The module, the name and the method of each."""
    for module, nodes in sources():
        used = {
            (node.value.id, node.attr)
            for node in nodes
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in METHODS
        }
        yield from ((module, name, method) for name, method in sorted(used) if name.isupper())


def inline_patterns() -> Iterator[tuple[str, re.Pattern[str], str]]:
    """The module, the pattern and the method where `re` is given one on the spot."""
    for module, nodes in sources():
        for node in nodes:
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="re"), attr=method),
                    args=[ast.Constant(value=str(pattern)), *_],
                ) if method in METHODS:
                    yield module, re.compile(pattern), method


def sources() -> Iterator[tuple[str, list[ast.AST]]]:
    """The modules, and all nodes of each."""
    for found in pkgutil.walk_packages(boolab.__path__, "boolab."):
        source = Path(getattr(found.module_finder, "path", "")) / f"{found.name.rpartition('.')[2]}.py"
        if source.exists():
            yield found.name, list(ast.walk(ast.parse(source.read_text(encoding="utf-8"))))


def hostile_texts() -> Iterator[str]:
    """Long repetitions, after what a pattern may begin with."""
    for head in ("", "<", "[", "(", "|", "```bash", "<task>", "samples/"):
        for piece in (" ", "a", "1", "-", "(", "<", "*", "|", "\\", "\n", "a ", "_epoch_1"):
            yield head + piece * (10_000 // len(piece))


# Documents


def bombs_of_yaml() -> dict[str, str]:
    """Texts of some kilobytes that stand for much more."""
    tens = [(new, ", ".join([f"*{old}"] * 10)) for old, new in pairwise("abcdefghi")]
    tenfold = "".join(f"{name}: &{name} [{aliases}]\n" for name, aliases in tens)
    merged = "".join(f"{name}: &{name} {{<<: [{aliases}]}}\n" for name, aliases in tens)
    return {
        "aliases of aliases": "a: &a [x, x, x]\n" + tenfold,
        "merged keys": "a: &a {x: 1, y: 2}\n" + merged,
        "one long text, often": f"a: &a {'x' * 100_000}\nb: [{','.join(['*a'] * 1000)}]\n",
        "a number in base 60": "a: 1" + ":1" * 20_000,
        "a number in base 16": "a: 0x" + "f" * 100_000,
        "a number in base 10": "a: " + "9" * 100_000,
        "a float in base 60": "a: 1" + ":1" * 20_000 + ".5",
        "open brackets": "[" * 100_000,
        "open mappings": "".join(f"{' ' * i}a:\n" for i in range(1000)),
        "more than is read": "#" * (yaml_loader.MAX_CHARS + 1),
    }


@pytest.mark.parametrize("bomb", bombs_of_yaml())
def test_yaml_that_stands_for_more_is_refused_at_once(bomb: str) -> None:
    ended = run_limited(read_yaml, bombs_of_yaml()[bomb], memory=256 * MB, seconds=60)
    assert ended.error.startswith("DocumentError: "), ended
    assert len(ended.error) < 300
    assert ended.seconds < 5
    assert ended.peak < 64 * MB


def test_yaml_holds_only_so_many_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_loader, "MAX_WRITTEN", 5)
    assert yaml_loader.read_yaml("[1, 2, 3, 4]").data == [1, 2, 3, 4]
    with pytest.raises(yaml_loader.DocumentError, match="holds more than 5 values") as caught:
        yaml_loader.read_yaml("- 1\n- 2\n- 3\n- 4\n- 5\n")
    assert caught.value.line == 5


# Files that are none


@pytest.mark.parametrize("place", ["a pipe", "a device"])
@pytest.mark.parametrize("what", LOADERS)
def test_what_has_no_end_is_not_read(what: str, place: str, tmp_path: Path) -> None:
    """Opening a pipe waits for its writer; `/dev/zero` never ends."""
    path = tmp_path / {"labels": "labels.csv"}.get(what, "input")
    if place == "a pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    ended = run_limited(load, what, str(path), memory=256 * MB, seconds=20)
    assert "a pipe or a device, not a file" in ended.error, ended
    assert issubclass(getattr(bl.errors, ended.error.partition(":")[0]), BoolabError)


def test_folder_with_loops_pipes_and_devices_gives_its_logs(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(CHAT)
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "zero.jsonl").symlink_to("/dev/zero")
    (tmp_path / "circle.jsonl").symlink_to(tmp_path / "circle.jsonl")
    os.mkfifo(tmp_path / "pipe.jsonl")
    ended = run_limited(read_runs, str(tmp_path), memory=256 * MB)
    assert ended.value == (1, []), ended


# JSON


def test_no_reader_is_harmed_by_deep_huge_or_infinite_json(tmp_path: Path) -> None:
    texts = {
        "lists.jsonl": b"[" * 100_000 + b"]" * 100_000 + b"\n{}\n",
        "objects.jsonl": b'{"messages":' * 100_000 + b"1" + b"}" * 100_000 + b"\n{}\n",
        "open.json": b'{"messages":[' * 50_000,
        "integer.jsonl": b'{"messages":' + b"9" * 100_000 + b"}\n{}\n",
        "infinite.jsonl": b'{"messages":[{"role":"user","content":"x","timestamp":1e999}],"time":NaN}\n{}\n',
    }
    for name, data in texts.items():
        (tmp_path / name).write_bytes(data)
    paths = [str(tmp_path / name) for name in texts]
    ended = run_limited(read_all, JSON_READERS, paths, memory=512 * MB, seconds=100)
    assert ended.error == ""
    assert len(ended.value) == len(texts) * len(JSON_READERS)
    assert ended.peak < 64 * MB


@pytest.mark.slow
@pytest.mark.parametrize(
    ("piece", "most"),
    [(b"[],", MULTIPLE), (b"{},", MULTIPLE), (b'{"a":1},', MULTIPLE), (b"1.5,", 16), (b'"\\u0101",', 20)],
)
def test_what_a_line_takes_is_a_multiple_of_its_size(piece: bytes, most: int, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    size = MB
    path.write_bytes(CHAT + b'{"messages":[' + piece * (size // len(piece)) + b"0]}\n")
    ended = run_limited(read_runs, str(path), "openai_chat", seconds=60)
    assert ended.value[0] == 1, ended
    assert ended.peak < most * size + 8 * MB


def test_damaged_line_with_escapes_is_reported_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    size = 4 * MB
    path.write_bytes(CHAT + b'{"a":"' + rb"\n" * (size // 4) + rb"\\" * (size // 4) + b'\x01"}\n')
    ended = run_limited(read_runs, str(path), "openai_chat", seconds=60)
    assert ended.value[0] == 1, ended
    assert "not valid JSON" in ended.value[1][0]
    assert ended.peak < 16 * size


def long_line(path: Path, size: int) -> Path:
    """A log with one line so long, a hole in the file, between two that are sound."""
    with path.open("wb") as file:
        file.write(CHAT)
        file.seek(size, os.SEEK_CUR)
        file.write(b"\n" + CHAT.replace(b"Hello", b"Bye"))
    return path


@pytest.mark.slow
def test_line_beyond_the_limit_is_skipped_and_the_rest_is_read(tmp_path: Path) -> None:
    path = long_line(tmp_path / "log.jsonl", MAX_LINE + 1)
    ended = run_limited(read_runs, str(path), seconds=60)
    assert ended.value == (2, [f"{path}:2: a line of more than {MAX_LINE:,} bytes; skipped"])
    assert ended.peak < 3 * MAX_LINE
    path.unlink()  # the canary would read all of it


def test_many_tiny_lines_take_a_multiple_of_their_size(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(CHAT * 20 + b"{}\n" * 100_000)
    ended = run_limited(read_runs, str(path), seconds=60)
    assert ended.value[0] == 20, ended
    assert len(ended.value[1]) < 20
    assert ended.peak < 32 * MB


# What is packed


def test_an_archive_of_little_that_holds_much_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "log.eval", b"[" + b"[]," * (packed.FREE // 3) + b"0]", zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < packed.FREE // 100
    ended = run_limited(read_runs, str(path), seconds=60)
    assert f"it holds more than {packed.FREE:,} bytes when it is unpacked" in ended.error, ended
    assert ended.peak < 4 * packed.FREE


PACKED_LINES: Final = {
    "one line of brackets": lambda size: b"[" * size,
    "blank lines": lambda size: (b" " * 99 + b"\n") * (size // 100),
    "one long text": lambda size: b'{"schema_version": "ATIF-v1.7", "steps": "' + b"x" * size,
}


@pytest.mark.parametrize("name", first(2, PACKED_LINES))
def test_packed_lines_of_little_that_hold_much_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "runs.jsonl.bz2"
    path.write_bytes(bz2.compress(PACKED_LINES[name](2 * packed.FREE)))
    assert path.stat().st_size < packed.FREE // 100
    ended = run_limited(read_runs, str(path), "atif", seconds=60)
    assert f"it holds more than {packed.FREE:,} bytes when it is unpacked" in ended.error, ended
    assert ended.peak < 4 * packed.FREE


def archive(path: Path, sample: bytes, method: int) -> Path:
    """A log of Inspect with one sample."""
    with zipfile.ZipFile(path, "w", method) as made:
        made.writestr("header.json", json.dumps({"status": "success", "version": 2, "eval": {"task": "t"}}))
        made.writestr("samples/1_epoch_1.json", sample)
    return path


PARQUETS: Final[dict[str, dict[str, Any]]] = {
    "one text in many rows": {"rows": 30_000, "text": "x" * 100_000},
    "many rows of nothing": {"rows": 2_000_000, "text": None},
    "one text that is packed well": {"rows": 1, "text": "x" * (packed.FREE + 1)},
}


def write_table(path: Path, rows: int, text: str | None) -> Path:
    """A table of runs, without making its rows."""
    import pyarrow as pa
    from pyarrow import parquet

    values = pa.DictionaryArray.from_arrays(pa.nulls(rows, pa.int32()).fill_null(0), [text or ""])
    column = pa.nulls(rows, pa.string()) if text is None else values
    table = pa.table({"run_record": column, "step_record": column})
    parquet.write_table(table, path, compression="zstd", row_group_size=rows)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("table", PARQUETS)
def test_a_table_of_little_that_holds_much_is_refused(table: str, tmp_path: Path) -> None:
    path = write_table(tmp_path / "runs.parquet", **PARQUETS[table])
    assert path.stat().st_size < 300_000
    ended = run_limited(read_runs, str(path), seconds=60)
    assert f"it holds more than {packed.FREE:,} bytes when it is unpacked" in ended.error, ended
    assert ended.peak < 16 * packed.FREE


# Servers


@pytest.mark.parametrize("packing", ["gzip, gzip", "gzip,gzip,deflate", "br", "zstd", "x-unknown"])
def test_a_response_that_is_packed_twice_is_not_unpacked(packing: str) -> None:
    """Each packing multiplies by a thousand what a piece may hold, before anything can be counted."""
    import asyncio

    from tests.support.model_server import ModelServer, whole

    body = gzip.compress(gzip.compress(b"data: x\n\n" * 1000))
    with ModelServer(whole(body, headers={"Content-Type": "text/event-stream", "Content-Encoding": packing})) as server:
        answer = asyncio.run(Endpoint(server.url, {}, {}, 5).post(b"{}", lambda _event, _data: None))
    assert answer.fault == f"the response is packed as {packing!r}, which was not requested"
    assert not answer.retryable


# Tools


@pytest.mark.parametrize("tool", ["list_files", "search_text"])
def test_a_pattern_of_file_names_is_no_longer_than_a_name(tool: str, tmp_path: Path) -> None:
    """20,000 brackets take `fnmatch` minutes, and the model chooses the pattern."""
    (tmp_path / "a.py").write_text("text", encoding="utf-8")
    given = {"list_files": {"pattern": "["}, "search_text": {"pattern": "text", "files": "["}}[tool]
    longer = {name: value * 20_000 if value == "[" else value for name, value in given.items()}
    ended = run_limited(use, str(tmp_path), tool, longer, seconds=20)
    assert ended.error.startswith("ToolError: a pattern of 20,000 characters"), ended
    assert ended.seconds < 2


def use(root: str, tool: str, arguments: dict[str, str]) -> str:
    """The result of a tool of a workspace."""
    return str(workspace.workspace_tools(root)[tool](**arguments))


def test_a_search_ends_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("text\n" * 10, encoding="utf-8")
    monkeypatch.setattr(workspace, "MAX_SEARCHED", 100)
    told = use(str(tmp_path), "search_text", {"pattern": "text"}).splitlines()
    assert told[-1] == "(not all was searched: the files hold over 100 bytes; narrow the search)"
    assert len(told) == 21
    monkeypatch.setattr(workspace, "MAX_FILES", 4)
    told = use(str(tmp_path), "list_files", {}).splitlines()
    assert told[-1] == "(not all was looked at: there are over 4 files and folders; narrow the path)"
    monkeypatch.setattr(workspace, "MAX_FILES", 7)
    assert use(str(tmp_path), "list_files", {}).splitlines() == ["a/file", "b/file", "c/file"]


def test_a_result_that_is_too_long_is_cut_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "MAX_RESULT", 1000)

    @bl.tool
    def long(size: int) -> str:
        """Make a text."""
        return "x" * size

    calls = [call("long", size=1000), call("long", size=1001)]
    run = play([{"tool_calls": calls}, "done"], agent=bl.Agent("a", tools=(long,)))
    whole, cut = (result.content for result in run.steps[0].results if result is not None)
    assert whole == "x" * 1000
    assert cut == "x" * 1000 + "\n(1 more characters were cut off)"


# Patterns


@pytest.mark.slow
def test_every_pattern_takes_time_that_grows_with_the_text() -> None:
    """A regular expression that tries a text from every place in every way takes minutes for a megabyte."""
    ended = run_limited(times_of_patterns, seconds=120)
    assert ended.error == ""
    assert len(ended.value) > 60
    assert sum(": " in name for name in ended.value) > 5
    assert {name: round(seconds, 2) for name, seconds in ended.value.items() if seconds > 0.1} == {}


HOSTILE_PATTERNS: Final = (
    r"(a|a)*$",
    r"(a+)+$",
    r"a*a*a*a*a*a*$",
    r"(.*)(.*)(.*)(.*)x",
    "(" * 900 + "a?" + ")*" * 900,
    r"((a?){30}){30}b",
    r"((a?){30}){15}b",
    r"a{0,500}b",
    r".{1,200}.{1,200}b",
)


def play_pattern(pattern: str, text: str) -> str:
    """Play a script with a condition."""
    script = [{"tool_calls": [call("look")]}, {"when": {"last_result": pattern}, "text": "found"}, "not found"]
    return play(bl.ScriptedModel(script, tools={"look": text})).text


@pytest.mark.slow
@pytest.mark.parametrize("pattern", HOSTILE_PATTERNS)
def test_script_condition_takes_little_time_for_any_pattern(pattern: str) -> None:
    """With `re`, the first takes longer than the universe is old."""
    ended = run_limited(play_pattern, pattern, "a" * 300_000 + "\nb", seconds=60)
    if ended.error:
        assert ended.error.startswith("ScriptError: items.1.when.last_result: Value error, not a regular expression")
    else:
        assert ended.value in {"found", "not found"}
        assert ended.peak < 32 * MB
        assert ended.seconds < 4


def test_too_large_or_too_many_script_conditions_are_refused() -> None:
    with pytest.raises(BoolabError, match="not a regular expression: pattern too large"):
        play_pattern(".{1,300}" * 4, "a")
    items = [{"when": {"last_result": f"{number}"}, "text": "x"} for number in range(1_001)]
    with pytest.raises(BoolabError, match=r"1,001 items have a condition \(when\): expected at most 1,000"):
        bl.ScriptedModel(items)
    assert play(bl.ScriptedModel([*items[1:], "none"])).text == "none"


def test_of_a_very_long_result_a_condition_sees_both_ends() -> None:
    long = "begins" + "." * 1_000_000 + "ends"
    assert [play_pattern(pattern, long) for pattern in ("^begins", "ends$")] == ["found", "found"]
    assert play_pattern("middle", f"{long}middle{long}") == "not found"


# Stores


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE steps ADD COLUMN more AS (length(hex(zeroblob(400000000))))",
        "CREATE INDEX more ON steps (length(hex(zeroblob(400000000))))",
        "ALTER TABLE steps ADD COLUMN more CHECK (length(hex(zeroblob(400000000))) > 0)",
        "DROP INDEX runs_by_cell",
    ],
)
def test_a_store_that_computes_what_boolab_does_not_is_refused(statement: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    bl.Store(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE notes (of_mine)")
        connection.commit()
    bl.Store(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()
    for opening in (bl.Store, bl.runs_df):
        with pytest.raises(StoreError, match=r"its (table|index) '\w+' is not as boolab makes it"):
            opening(path)


# As large as they come: make bombs


def gigabyte(path: Path) -> Path:
    """A line of a gigabyte, not a hole, between two that are sound."""
    with path.open("wb") as file:
        file.write(CHAT)
        for _ in range(1024):
            file.write(b"x" * MB)
        file.write(b"\n" + CHAT.replace(b"Hello", b"Bye"))
    return path


def many_lines(path: Path, line: bytes, count: int = 10_000_000) -> Path:
    """A log with ten million equal lines after one that is sound."""
    with path.open("wb") as file:
        file.write(CHAT * 20)
        for _ in range(100):
            file.write(line * (count // 100))
    return path


def document(path: Path) -> Path:
    """A document beyond the limit."""
    with path.open("wb") as file:
        file.write(b"[\n")
        for _ in range(600):
            file.write(b" " * MB)
        file.write(b"]")
    return path


def brackets(path: Path) -> Path:
    """The longest line that is read, of nothing but brackets."""
    path.write_bytes(CHAT + b'{"messages":[' + b"[]," * (21 * MB) + b"0]}\n")
    return path


def many_files(path: Path) -> Path:
    """A folder of 100,000 logs."""
    path.mkdir()
    for number in range(100_000):
        (path / f"{number}.jsonl").write_bytes(CHAT)
    return path


def result_of_a_gigabyte(folder: str) -> tuple[str, int]:
    """How a run ends whose tool gives a gigabyte, and how many runs are in its store."""
    import asyncio

    @bl.tool
    def huge() -> str:
        """Make a text."""
        return "x" * 2**30

    path = Path(folder) / "runs.db"
    model = bl.ScriptedModel([{"tool_calls": [call("huge")]}, "done"])
    (run,) = asyncio.run(bl.sweep([bl.Agent("a", tools=(huge,))], ["go"], model, store=path, progress=False))
    return run.stop_reason, len(bl.load_runs(path))


def bombed(request: pytest.FixtureRequest) -> None:
    """Skip unless these were asked for."""
    if not request.config.getoption("--bombs"):
        pytest.skip("minutes and gigabytes: make bombs")


@pytest.mark.parametrize(
    ("make", "runs", "said", "memory", "seconds"),
    [
        (gigabyte, 2, "a line of more than 67,108,864 bytes", 3 * MAX_LINE, 60),
        (lambda path: long_line(path, 2**30), 2, "a line of more than 67,108,864 bytes", 3 * MAX_LINE, 60),
        (lambda path: many_lines(path, b"{}\n"), 20, "more places after this one were skipped", 128 * MB, 300),
        (lambda path: many_lines(path, b"\n"), 20, "", 128 * MB, 100),
        (lambda path: many_lines(path, CHAT, 300_000), 300_020, "", 24 * 26 * MB, 600),
        (document, None, "bytes, more than the 536,870,912 that are read", 32 * MB, 60),
        (brackets, 1, "more places after this one were skipped", MULTIPLE * 63 * MB, 300),
    ],
    ids=["a gigabyte", "a hole", "tiny lines", "blank lines", "tiny runs", "a large document", "brackets"],
)
def test_the_largest_logs(make: Any, runs: int | None, said: str, memory: int, seconds: float, tmp_path: Path,
                          request: pytest.FixtureRequest) -> None:  # fmt: skip
    bombed(request)
    path = make(tmp_path / "log.jsonl")
    ended = run_limited(read_runs, str(path), "openai_chat", memory=8192 * MB, seconds=3 * seconds)
    show(request, ended, path.stat().st_size)
    assert (ended.value and ended.value[0]) == runs, ended
    assert said in str(ended)
    assert ended.peak < memory
    assert ended.seconds < seconds


def test_a_hundred_thousand_files(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    bombed(request)
    ended = run_limited(read_runs, str(many_files(tmp_path / "logs")), memory=4096 * MB, seconds=900)
    show(request, ended, 100_000 * len(CHAT))
    assert ended.value is not None
    assert ended.value[0] == 100_000
    assert ended.peak < 1024 * MB


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a\n" * 1_000_000, "it holds more than 100,000 values"),
        ("".join(f"k{i}: 1\n" for i in range(300_000)), "it holds more than 100,000 values"),
        ("#\n" * 1_900_000, ""),
        ("a: x" + "\n" * 3_900_000 + "b: 1", ""),
    ],
    ids=["list", "keys", "comments", "blank lines"],
)
def test_the_largest_yaml(text: str, said: str, request: pytest.FixtureRequest) -> None:
    bombed(request)
    ended = run_limited(read_yaml, text, memory=1024 * MB, seconds=120)
    show(request, ended, len(text))
    assert said in ended.error
    assert ended.seconds < 30
    assert ended.peak < 32 * len(text)


def test_a_result_of_a_gigabyte(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    bombed(request)
    ended = run_limited(result_of_a_gigabyte, str(tmp_path), memory=8192 * MB, seconds=300)
    show(request, ended, 2**30)
    assert ended.value == ("finished", 1), ended
    assert ended.peak < 2 * 2**30


def show(request: pytest.FixtureRequest, ended: Any, size: int) -> None:
    """Print what it cost, for docs/tables/measured/bombs.json."""
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        name = request.node.name
        print(f"\n{name}: {size / MB:,.1f} MB: {ended.seconds:.1f} s, {ended.peak / MB:,.0f} MB")  # noqa: T201
