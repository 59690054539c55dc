"""Loading: nothing that is read from a file is ever run, whatever file it is."""

import ast
import base64
import pickle
import re
import sqlite3
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

import boolab as bl
from boolab.errors import BoolabError
from boolab.store.stored_runs import overview, runs_like
from tests.support.project import PACKAGE

LOADS = {
    ("pickle", "load"),
    ("pickle", "loads"),
    ("pickle", "Unpickler"),
    ("cloudpickle", "load"),
    ("cloudpickle", "loads"),
    ("marshal", "loads"),
    ("shelve", "open"),
    ("dill", "loads"),
    ("joblib", "load"),
    ("pd", "read_pickle"),
    ("np", "load"),
    ("yaml", "load"),
    ("yaml", "load_all"),
    ("yaml", "unsafe_load"),
    ("yaml", "full_load"),
}
"""What runs code that is in its data, or may."""
MAY = re.compile(
    "|".join(sorted(rf"\b{name}\s*\.\s*{attribute}\b" for name, attribute in LOADS))
    + r"|(?<!\.)\b(eval|exec|compile)\s*\(|\b(allow_pickle|shell)\b|\b(system|popen)\b"
)
"""What a module has that uses any of these."""
BETWEEN_PROCESSES = {"core/worker.py", "sweeps/task.py", "whatif/evaluate.py"}
"""Where boolab unpickles: what its own driver sent to its own worker through a pipe, or through the user's cluster."""


class Bomb:
    """What makes a file when it is unpickled."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return (open, (str(self.place), "w"))


def uses(path: Path) -> Iterator[str]:
    """The names of what a module calls that may run what it loads, `eval` and `exec` among them."""
    text = path.read_text()
    if not MAY.search(text):  # to parse all modules takes seconds
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and (node.value.id, node.attr) in LOADS:
            yield f"{node.value.id}.{node.attr}"
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("eval", "exec", "compile")
        ):
            yield node.func.id
        elif isinstance(node, ast.keyword) and node.arg in ("allow_pickle", "shell"):
            yield node.arg
        elif isinstance(node, ast.Attribute) and node.attr in ("system", "popen") and ast.unparse(node.value) == "os":
            yield node.attr


def test_unpickling_is_used_only_between_own_processes() -> None:
    found = {path.relative_to(PACKAGE).as_posix(): [*uses(path)] for path in sorted(PACKAGE.rglob("*.py"))}
    assert found.pop("live/follow/watch.py") == [
        "shell"
    ]  # the user's own command of --exec, to which no log adds a word
    named = {name for name, each in found.items() if each}
    assert named == BETWEEN_PROCESSES
    assert {use for each in found.values() for use in each} == {"pickle.loads", "cloudpickle.loads"}


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".db", ".json", ".yaml", ".eval", ".md"])
def test_a_pickle_under_any_name_is_not_unpickled(suffix: str, tmp_path: Path) -> None:
    victim, path = tmp_path / "victim", tmp_path / f"bomb{suffix}"
    path.write_bytes(pickle.dumps(Bomb(victim)))
    for load in (bl.load_runs, bl.load_agents, bl.ScriptedModel.load, bl.SimulatedModel.load, bl.RecordedModel):
        with pytest.raises(BoolabError):
            load(str(path))
    with pytest.raises(BoolabError):
        bl.runs_df(str(path))
    assert not victim.exists()


@pytest.mark.parametrize("name", ["arrow.py_extension_type", "pandas.period", "boolab"])
def test_a_type_that_a_parquet_file_brings_along_is_not_run(name: str, tmp_path: Path) -> None:
    """As pyarrow did before 14.0.1 (CVE-2023-47248)."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    victim, path = tmp_path / "victim", tmp_path / "runs.parquet"
    bomb = pickle.dumps(Bomb(victim))
    extension = {b"ARROW:extension:name": name.encode(), b"ARROW:extension:metadata": bomb}
    schema = pa.schema(
        [pa.field("run_id", pa.string(), metadata=extension), pa.field("step", pa.int64(), metadata=extension)],
        metadata={b"PANDAS_ATTRS": bomb, b"boolab": base64.b64encode(bomb)},
    )
    parquet.write_table(pa.table({"run_id": ["a"], "step": [1]}, schema=schema), path)
    for load in (bl.load_runs, bl.read_steps, bl.runs_df):
        try:
            load(str(path))
        except BoolabError:
            continue
    assert not victim.exists()


YAML = ["!!python/object/apply:os.system ['touch VICTIM']", "!!python/name:os.system", "!!python/module:os", "!!js x"]


@pytest.mark.parametrize("value", YAML)
def test_a_tag_of_yaml_makes_no_object(value: str, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    value = value.replace("VICTIM", str(victim))
    (tmp_path / "agent.md").write_text(f"---\nname: a\nsteps: {value}\n---\nHi\n")
    (tmp_path / "script.yaml").write_text(f"items:\n- text: {value}\n")
    for load, name in ((bl.load_agents, "agent.md"), (bl.ScriptedModel.load, "script.yaml"),
                       (bl.SimulatedModel.load, "script.yaml")):  # fmt: skip
        with pytest.raises(BoolabError):
            load(tmp_path / name)
    assert not victim.exists()


SQL = ["'; DROP TABLE runs; --", '" OR 1=1 --', "x' OR '1'='1", "%", "_", "\\", "1); DELETE FROM runs; --", "NULL"]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    model = bl.ScriptedModel(["Done."])
    with bl.Store(path) as opened:
        opened.add([bl.run_sync(bl.Agent(name), name, model=model) for name in SQL])
    return path


@pytest.mark.parametrize("text", SQL)
def test_a_name_is_never_a_part_of_a_question_to_the_store(text: str, store: Path) -> None:
    assert runs_like(store, text) == []
    assert sorted(bl.runs_df(str(store))["agent"]) == sorted(SQL)
    assert overview(store).loose == len(SQL)
    with sqlite3.connect(store) as connection:
        assert connection.execute("SELECT count(*) FROM runs").fetchone() == (len(SQL),)
    connection.close()


STRANGE = {
    "view": "ALTER TABLE cells RENAME TO other; CREATE VIEW cells AS WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL "
    "SELECT x + 1 FROM n) SELECT x AS sweep, x AS place, x AS cell, x AS run_id FROM n;",
    "trigger": "CREATE TRIGGER t BEFORE INSERT ON runs BEGIN DELETE FROM runs; END;",
    "table": "CREATE VIRTUAL TABLE v USING fts5(x);",
}
"""What makes a file compute when it is read or written; the view would never end."""


@pytest.mark.parametrize("kind", STRANGE)
def test_a_store_that_computes_what_it_holds_is_refused(kind: str, store: Path) -> None:
    with sqlite3.connect(store) as connection:
        connection.executescript(STRANGE[kind])
    connection.close()
    for ask in (bl.runs_df, bl.load_runs, overview, bl.Store):
        with pytest.raises(BoolabError, match=f"it holds the {kind}|no store"):
            ask(str(store))


def test_truncated_frame_of_a_worker_is_not_unpickled(tmp_path: Path) -> None:
    from boolab.core.worker import get_frame

    victim = tmp_path / "victim"
    bomb = pickle.dumps(Bomb(victim))
    (tmp_path / "frame").write_bytes(struct.pack(">Q", len(bomb) + 1) + bomb)
    with (tmp_path / "frame").open("rb") as pipe:
        assert get_frame(pipe) is None
    assert not victim.exists()
