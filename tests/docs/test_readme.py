"""The README's code runs, in order, as in a notebook; what it prints is what it says."""

import ast
import re
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from boolab.exports.export import TARGETS, export
from boolab.exports.values import Limits
from tests.support.pages import evaluate
from tests.support.project import ROOT

README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


class Played(NamedTuple):
    """What running all blocks in one folder gave: the value of each, and the names that each left behind."""

    folder: Path
    values: list[Any]
    names: list[dict[str, Any]]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """The README's code, run once, in a folder that looks like a checkout, so that nothing is written into this one."""
    folder = tmp_path_factory.mktemp("readme")
    for entry in ROOT.iterdir():
        if not entry.name.startswith("."):
            (folder / entry.name).symlink_to(entry)
    names: dict[str, Any] = {}
    done = Played(folder, [], [])
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "FigureCanvasAgg is non-interactive")
        patch.chdir(folder)
        patch.setenv("MPLBACKEND", "Agg")
        for block in BLOCKS:
            done.values.append(evaluate(block, names))
            done.names.append(dict(names))
    return done


@pytest.mark.slow
def test_every_block_of_the_readme_runs_and_the_table_is_the_one_shown(played: Played) -> None:
    assert len(BLOCKS) == 12
    advice = re.findall(r"```\n'(Ship .*) \.\.\.\n```", README)
    assert played.values[0].startswith(advice[0])
    shown = re.findall(r"```\n( +doom_loop .*?)```", README, re.DOTALL)
    assert played.values[1].to_string().splitlines() == shown[0].rstrip("\n").splitlines()
    assert played.values[-4]["step"].tolist() == [1, 2, 3]
    assert played.names[-1]["live"].run.n_steps == 2
    assert played.names[-1]["run"].stop_reason == "step_cap"
    swept = played.values[-1]
    assert len(swept) == 16
    assert swept.xs(5)["success"].is_monotonic_increasing
    assert (played.folder / "runs.db").exists()


@pytest.mark.slow
def test_what_the_readme_says_of_the_recording_is_what_its_code_finds(played: Played) -> None:
    names = played.names[-6]  # before the blocks that run agents
    shown = re.findall(r"```\n(Ship .*?)```", README, re.DOTALL)
    assert shown[0] in str(names["found"])
    worst = names["worst"]
    claimed = re.findall(r"saved_steps\"\]\]  # (.*)", README)[0]
    assert ", ".join(str(worst[name]) for name in ("run_id", "stop_reason", "stop_step", "saved_steps")) == claimed
    assert f"stopped at step {worst['stop_step']} of {names['run'].n_steps}" in README
    assert f"{len(names['runs'])} runs of a [simulated agent]" in README


def test_the_stop_that_the_readme_names_is_the_stop() -> None:
    block = next(b for b in BLOCKS if "stuck.yaml" in b)
    namespace: dict[str, Any] = {}
    evaluate("import boolab as bl", namespace)
    evaluate(block, namespace)
    run = namespace["run"]
    claimed = ast.literal_eval(re.findall(r"# (\('doom_loop'.*\))", block)[0])
    assert (run.stop_reason, run.stop_step, run.stop.rule) == claimed


def test_the_settings_of_the_readme_are_those_that_are_exported() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (?:`(.*)`|none) \| ", README, re.MULTILINE)
    assert sorted(name for name, _ in rows) == sorted(TARGETS)
    for name, setting in rows:
        text = str(export(name, Limits(max_steps=65)))
        assert (setting or "A step cap of 65 is not set.") in text, name
