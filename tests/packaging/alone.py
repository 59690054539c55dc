"""What must work of a boolab that was installed from its wheel, in an empty folder; `distribution.py` has it run there.

It imports nothing of the tests: they are not there. None of the extras is there either, so that what asks for one must
say what to install.
"""

import asyncio
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import boolab as bl
from boolab.cli.main import main
from boolab.errors import BoolabError
from boolab.io.resources import checkout, data_path, is_installed

PACKAGE = Path(str(files("boolab")))
COMMANDS = ("doctor", "import", "whatif", "report", "hook", "run", "store", "bench", "demo", "lab")


def it_is_the_installed_one() -> None:
    assert PACKAGE.is_relative_to(sys.prefix), PACKAGE
    assert is_installed()
    assert checkout() == PACKAGE


def its_types_are_told() -> None:
    assert (PACKAGE / "py.typed").is_file()


def its_data_can_be_loaded() -> None:
    assert len(bl.load_agents(data_path("agents"))) > 1
    for script in (data_path("datasets") / "scripts").glob("*.yaml"):
        bl.ScriptedModel.load(script)
    for profile in (data_path("datasets") / "profiles").glob("*.yaml"):
        bl.SimulatedModel.load(profile)
    assert len(bl.load_runs(data_path("datasets") / "runs")) > 100
    assert len(bl.load_dataset("atlas", progress=False)) == 14_451
    notebooks = [json.loads(path.read_text(encoding="utf-8")) for path in data_path("notebooks").glob("*.ipynb")]
    assert len(notebooks) > 1


def every_widget_has_its_files() -> None:
    run, *more = bl.load_runs(data_path("datasets") / "runs")[:10]
    runs = [run, *more]
    table = bl.counterfactual(runs, grid={"max_steps": [4, 8], "tool_budget": [6, 12]}, aggregate=True)
    editor = Path("AGENTS.md")
    editor.write_bytes((data_path("agents") / "AGENTS.md").read_bytes())
    widgets = {
        "Replay": bl.Replay(run),
        "CapLab": bl.CapLab(runs),
        "Heatmap": bl.Heatmap(table, runs),
        "Compare": bl.Compare(run, more[0]),
        "SweepView": bl.SweepView(),
        "Labeler": bl.Labeler(runs, {"max_steps": [4]}, labels="labels.jsonl", criterion="tests pass"),
        "Live": bl.Live(None, "Hello", model=bl.ScriptedModel(["Hi."])),
        "AgentEditor": bl.AgentEditor(editor),
        "WatchView": bl.watch(data_path("datasets") / "runs", bl.max_steps(4), idle=1e9),
    }
    for name, widget in widgets.items():
        page = Path(f"{name}.html")
        widget.to_html(page)
        assert page.stat().st_size > 10_000, name
    for kind in ("*.js", "*.css"):
        found = [path for path in (PACKAGE / "widgets").rglob(kind) if path.stat().st_size]
        assert len(found) >= len(widgets), kind


def its_commands_work() -> None:
    for start in ([str(Path(sys.executable).with_name("boolab"))], [sys.executable, "-m", "boolab"]):
        told = subprocess.run([*start, "--help"], capture_output=True, text=True, check=True).stdout
        assert all(name in told for name in COMMANDS), told
    for name in COMMANDS:
        subprocess.run([sys.executable, "-m", "boolab", name, "--help"], capture_output=True, check=True)
    told = subprocess.run([sys.executable, "-m", "boolab", "demo"], capture_output=True, text=True, check=True).stdout
    assert told.startswith("boolab demo: ")
    assert {path.name for path in Path("out/demo").iterdir()} == {"caps.png", "heatmap.png"}


def it_says_where_the_benchmark_is() -> None:
    said = refused(lambda: command("bench", "baselines"))
    assert "type python -m benchmarks.stoprulebench baselines" in " ".join(said.split()), said


def its_notebooks_are_copied() -> None:
    command = [sys.executable, "-m", "boolab", "lab", "--", "--version"]
    subprocess.run(command, capture_output=True, check=True)
    copied = {path.name for path in Path("boolab-notebooks").iterdir()}
    assert copied == {path.name for path in data_path("notebooks").glob("*.ipynb")}


def it_says_which_extra_is_missing() -> None:
    runs = str(data_path("datasets") / "runs")
    Path("some.parquet").write_bytes(b"PAR1PAR1")
    Path("some.eval").write_bytes(in_zstandard())
    model = bl.ScriptedModel(["Hello."])
    address: Any = "tcp://127.0.0.1:1"
    with bl.Store("some.db"):
        pass
    asks: dict[str, list[Callable[[], object]]] = {
        "datasets": [lambda: bl.load_dataset("tau_bench", limit=1)],
        "engine": [lambda: asyncio.run(bl.sweep(bl.Agent("a"), "x", model, executor=address, progress=False))],
        "learn": [lambda: bl.learn_stop([], estimator="trees")],
        "parquet": [
            lambda: bl.save_runs(bl.load_runs(runs)[:1], "new.parquet"),
            lambda: bl.load_runs("some.parquet"),
            lambda: bl.counterfactual("some.parquet", grid={"max_steps": [1]}),
            lambda: command("import", runs, "-o", "new.parquet"),
            lambda: command("whatif", runs, "-o", "new.parquet"),
            lambda: command("store", "export", "some.db", "new.parquet"),
        ],
        "prices": [lambda: bl.OpenAIModel("m", prices=True)],
        "zstd": [lambda: bl.load_runs("some.eval")],
    }
    for extra, ways in asks.items():
        for number, way in enumerate(ways):
            assert f"pip install 'boolab[{extra}]'" in refused(way), f"{extra}, {number}: {refused(way)}"
    assert not Path("new.parquet").exists()


def refused(way: Callable[[], object]) -> str:
    """What is said to somebody who asks for this; nothing where it just works."""
    try:
        way()
    except BoolabError as error:
        return str(error)
    return ""


def command(*arguments: str) -> None:
    """Run a subcommand; what it says in its one line is raised."""
    done = subprocess.run([sys.executable, "-m", "boolab", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BoolabError(done.stderr)


def in_zstandard() -> bytes:
    """An archive whose only member says that it is compressed with Zstandard, which is method 93."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("header.json", "{}")
    data = bytearray(packed.getvalue())
    for start in (8, data.index(b"PK\x01\x02") + 10):
        data[start : start + 2] = (93).to_bytes(2, "little")
    return bytes(data)


if __name__ == "__main__":
    for check in (
        it_is_the_installed_one,
        its_types_are_told,
        its_data_can_be_loaded,
        every_widget_has_its_files,
        its_commands_work,
        it_says_where_the_benchmark_is,
        its_notebooks_are_copied,
        it_says_which_extra_is_missing,
    ):
        check()
        print(f"alone: {check.__name__.replace('_', ' ')}")  # noqa: T201
    sys.exit(main(["--version"]))
