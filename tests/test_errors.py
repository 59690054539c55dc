"""The commands that messages name, as they have to be typed."""

import os
import sys
from pathlib import Path

import pytest

import boolab as bl
from boolab.errors import install, program
from tests.support.samples import atlas


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with boolab and pip in .venv, which is not on the PATH; another boolab and another pip are."""
    for folder in (".venv/bin", "other"):
        for name in ("boolab", "pip", "python"):
            path = tmp_path / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("#!/bin/sh\n")
            path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv/bin/python"))
    monkeypatch.setattr(sys, "argv", ["ipykernel_launcher.py"])
    monkeypatch.setenv("PATH", str(tmp_path / "other"))
    return tmp_path


def test_program_is_the_script_beside_python(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert program() == ".venv/bin/boolab"
    monkeypatch.chdir(checkout / ".venv/bin")
    assert program() == "./boolab"
    monkeypatch.chdir(checkout / "other")
    assert program() == str(checkout / ".venv/bin/boolab")


def test_program_is_its_name_where_the_path_finds_it(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{checkout}/.venv/bin{os.pathsep}{checkout}/other")
    assert (program(), install("boolab[learn]")) == ("boolab", "pip install 'boolab[learn]'")


def test_program_without_a_script_is_python(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (checkout / ".venv/bin/boolab").unlink()
    monkeypatch.setenv("PATH", "")
    assert program() == ".venv/bin/python -m boolab"


def test_install_names_the_python_that_runs(checkout: Path) -> None:
    assert checkout.is_dir()
    assert install("boolab[zstd]") == ".venv/bin/python -m pip install 'boolab[zstd]'"


@pytest.mark.usefixtures("checkout")
def test_commands_printed_from_python_run_as_typed() -> None:
    runs = atlas("intercode-python")
    found = bl.recommend(runs, keep=0.9, scope="run")
    assert "\n  .venv/bin/boolab export TARGET --max-steps" in str(found)
    assert "<pre>boolab export TARGET" in found._repr_html_()
    assert "\n.venv/bin/boolab hook claude-code --install" in str(found.export("claude-code"))
    with pytest.raises(bl.errors.RunFormatError, match=r": \.venv/bin/boolab doctor lists the logs"):
        bl.load_runs("~/.claude/projects/none.jsonl")
