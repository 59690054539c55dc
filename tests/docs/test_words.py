"""`.ci/words`: words that the project has left behind are found, and the repository holds none."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.project import ROOT

OLD = {
    "a.py": "row['also" + "_true']",
    "b.md": "boolab run explorer --" + "steps 3",
    "c.ipynb": 'bl.counterfactual(runs, grid={\\"st' + 'eps\\": [5]})',
    "d.js": "setting.would" + "_stop",
    "e.py": 'bl.recommend(runs, identity={"poll": ' + "None})",
}
NEW = {"a.py": "also_fired", "b.md": "--tool-budget 3, counters.steps", "c.py": 'limits={"steps": 5}'}


PROSE = (
    ("docs/a.md", "The page sa" + "ys so."),
    ("boolab/a.py", "# no" + "body reads it"),
    ("boolab/widgets/a.js", '"The run we' + 'nt on for 4 steps"'),
)


def words(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / ".ci/words"), str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", OLD)
def test_listed_word_is_found_with_its_place_and_replacement(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(f"\n{OLD[name]}\n")
    done = words(path)
    assert done.returncode == 1
    assert done.stdout.startswith(f"{path}:2: ")
    assert "; use " in done.stdout


@pytest.mark.parametrize("name", NEW)
def test_the_words_in_their_place_are_none_of_the_list(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(NEW[name])
    assert words(tmp_path / name).returncode == 0


@pytest.mark.parametrize(("path", "text"), PROSE)
def test_dialect_verb_is_found_in_prose_and_nowhere_else(path: str, text: str) -> None:
    script = runpy.run_path(str(ROOT / ".ci/words"))
    assert script["found_in"](path, text)
    assert not script["found_in"](f"tests/{path}", text)
    assert not script["found_in"](path, text.replace(" ", " `"))
