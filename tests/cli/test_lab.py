"""An installed boolab copies its notebooks to where they can be changed; a checkout opens its own."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import boolab
from boolab.cli.lab import COPIES, lab_command, notebooks_to_work_in
from boolab.errors import SettingError
from boolab.io.resources import data_path, is_installed
from tests.support.project import ROOT

ASK: Final = "from boolab.cli.main import main; import sys; sys.exit(main(['lab', '--', '--version']))"
NAMES: Final = [path.name for path in sorted((ROOT / "notebooks").glob("*.ipynb"))]


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder to import boolab from in which it looks as a wheel would have put it there."""
    site = tmp_path / "site"
    package = site / "boolab"
    (package / "_data").mkdir(parents=True)
    for entry in Path(boolab.__file__).parent.iterdir():
        if entry.name != "_data":
            (package / entry.name).symlink_to(entry)
    for name in ("agents", "datasets", "notebooks"):
        (package / "_data" / name).symlink_to(ROOT / name)
    (site / "jupyterlab.py").write_text("import sys; print(sys.argv[1])")
    return site


def lab(site: Path, current: Path) -> subprocess.CompletedProcess[str]:
    """`boolab lab` in a folder, with a JupyterLab that prints what it should open."""
    current.mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-c", ASK],
        cwd=current,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_installed_lab_copies_notebooks_and_overwrites_nothing(installed: Path, tmp_path: Path) -> None:
    current = tmp_path / "mine"
    mine = current / COPIES / NAMES[0]
    mine.parent.mkdir(parents=True)
    mine.write_text("my own work")
    for _ in range(2):
        done = lab(installed, current)
        assert (done.stdout.strip(), done.stderr, done.returncode) == (str(current / COPIES), "", 0)
        assert [path.name for path in sorted(mine.parent.iterdir())] == NAMES
        assert mine.read_text() == "my own work"
        for name in NAMES[1:]:
            assert (mine.parent / name).read_bytes() == (ROOT / "notebooks" / name).read_bytes()


def test_where_the_copies_cannot_be_written_it_says_how_to_go_on(installed: Path, tmp_path: Path) -> None:
    current = tmp_path / "mine"
    current.mkdir()
    (current / COPIES).write_text("a file, not a folder")
    done = lab(installed, current)
    assert (done.stdout, done.returncode) == ("", 1)
    assert done.stderr.startswith(f"boolab: the notebooks cannot be copied to {current / COPIES} (File exists); name ")
    assert (current / COPIES).read_text() == "a file, not a folder"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is refused by JupyterLab")
@pytest.mark.slow
def test_lab_lets_jupyterlab_start_as_root() -> None:
    command = [*lab_command(".", ["--show-config-json"]), "--no-browser"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "allow_root" in done.stdout


@pytest.mark.skipif(is_installed(), reason="boolab is installed here")
def test_a_checkout_opens_its_own_notebooks_and_copies_none(tmp_path: Path) -> None:
    assert notebooks_to_work_in(tmp_path / "copies") == data_path("notebooks") == ROOT / "notebooks"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not is_installed(), reason="boolab runs from a checkout")
def test_notebooks_are_copied_to_any_folder_that_can_be_made(tmp_path: Path) -> None:
    folder = notebooks_to_work_in(tmp_path / "a" / "b")
    assert [path.name for path in sorted(folder.iterdir())] == NAMES
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingError, match="boolab lab PATH"):
        notebooks_to_work_in(tmp_path / "file")
