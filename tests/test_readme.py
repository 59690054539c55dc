"""The README's code runs, in order, as in a notebook; what it prints is what it says."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from tests.pages import evaluate
from tests.project import ROOT

README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that looks like a checkout, so that what the README's code writes is not written into this one."""
    for entry in ROOT.iterdir():
        if not entry.name.startswith("."):
            (tmp_path / entry.name).symlink_to(entry)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
def test_every_block_of_the_readme_runs_and_the_table_is_the_one_shown(
    there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    namespace: dict[str, Any] = {}
    values = [evaluate(block, namespace) for block in BLOCKS]
    assert len(BLOCKS) == 10
    shown = re.findall(r"```\n( +doom_loop .*?)```", README, re.DOTALL)
    table: Any = values[0]
    assert table.to_string().splitlines() == shown[0].rstrip("\n").splitlines()
    steps: Any = values[-4]
    assert steps["step"].tolist() == [1, 2, 3]
    assert namespace["live"].run.n_steps == 2
    assert namespace["run"].stop_reason == "step_cap"
    swept: Any = values[-1]
    assert len(swept) == 16
    assert swept.xs(5)["success"].is_monotonic_increasing
    assert (there / "runs.db").exists()


def test_what_the_readme_says_of_the_recording_is_what_its_code_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    namespace: dict[str, Any] = {}
    for block in BLOCKS[:-5]:
        evaluate(block, namespace)
    shown = re.findall(r"```\n(Ship .*?)```", README, re.DOTALL)
    assert shown[0] in str(namespace["found"])
    worst = namespace["worst"]
    claimed = re.findall(r"saved_steps\"\]\]  # (.*)", README)[0]
    assert ", ".join(str(worst[name]) for name in ("run_id", "stop_reason", "stop_step", "saved_steps")) == claimed
    assert f"stopped at step {worst['stop_step']} of {namespace['run'].n_steps}" in README
    assert f"{len(namespace['runs'])} runs of a [simulated agent]" in README


def test_the_stop_that_the_readme_names_is_the_stop() -> None:
    block = next(b for b in BLOCKS if "stuck.yaml" in b)
    namespace: dict[str, Any] = {}
    evaluate("import boolab as bl", namespace)
    evaluate(block, namespace)
    run = namespace["run"]
    claimed = ast.literal_eval(re.findall(r"# (\('doom_loop'.*\))", block)[0])
    assert (run.stop_reason, run.stop_step, run.stop.rule) == claimed


def test_the_files_that_the_readme_links_are_there() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target
