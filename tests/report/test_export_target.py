"""What is exported where a harness lacks a limit: the best of those that it has, and what is lost by that."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

import boolab as bl
from boolab.cli.main import main
from boolab.harnesses.exports.export import target_of
from boolab.harnesses.registry import TARGETS
from boolab.stats.recommend.decision import Decision
from tests.support.caplab_cases import Told, runs_of

LACKS = {name: target_of(name).lacks for name in TARGETS}
LACKING = [name for name, lacks in LACKS.items() if "doom_loop" in lacks and "max_steps" not in lacks]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs for which a doom-loop threshold is best, and a cap is good too."""
    told = [Told(("A B C " * 2 + "-",), success=True, task=f"t{n}") for n in range(50)]
    told += [Told(("A B C " * 4 + "-",), success=True, task=f"u{n}") for n in range(30)]
    told += [Told(("A B C " + "A " * 9 + "-",), success=False, task=f"f{n}") for n in range(14)]
    told += [Told(("A B C " * 4 + "A " * 20 + "-",), success=False, task=f"g{n}") for n in range(20)]
    path = tmp_path_factory.mktemp("logs") / "loops.jsonl"
    bl.save_runs(runs_of(*told), path)
    return path


@pytest.fixture(scope="module")
def decision(logs: Path) -> Decision:
    return bl.recommend(bl.load_runs(logs), keep=0.9, objective="steps")


def test_some_targets_lack_doom_loops() -> None:
    assert len(LACKING) > 1


@pytest.mark.parametrize("target", LACKING)
def test_export_sets_the_best_limit_that_the_target_has(
    target: str, logs: Path, decision: Decision, capsys: pytest.CaptureFixture[str]
) -> None:
    assert decision.setting["doom_loop"] is not None
    made = decision.export(target)
    assert "max_steps" in {name for part in made.parts for name in part.sets}
    lost = f"{target_of(target).title} has no doom-loop threshold: of the limits that it has, a step cap of "
    assert made.lost.startswith(lost)
    words = f"export {target} {logs} --keep 0.9 --objective steps"
    assert main(shlex.split(words)) == 0
    assert " ".join(made.lost.split()) in " ".join(capsys.readouterr().out.replace("\n# ", " ").split())


def test_a_target_that_has_all_limits_loses_nothing(logs: Path) -> None:
    assert bl.recommend(bl.load_runs(logs), keep=0.9, objective="steps").export("boolab").lost == ""


def test_a_group_is_exported_by_its_name(logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = bl.load_runs(logs)
    other = [replace(run, model="other", run_id=f"other-{run.run_id}", task=f"other-{run.task}") for run in runs]
    path = tmp_path / "two.jsonl"
    bl.save_runs([*runs, *other], path)
    words = f"export boolab {path} --keep 0.9 --objective steps --by model"
    assert main(shlex.split(words)) == 1
    assert "pass group= (--group in a terminal), one of them" in " ".join(capsys.readouterr().err.split())
    assert main(shlex.split(f"export --group other boolab --by model {path} --keep 0.9 --objective steps")) == 0
    assert "doom" in capsys.readouterr().out
    assert main(shlex.split("export boolab --max-steps 5 --group other")) == 1
    assert "needs LOGS" in capsys.readouterr().err
