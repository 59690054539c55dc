"""Released packages beside boolab: an environment for each, and scripts run in it.

A script gets a bare environment and a home of its own, so that no user's settings, keys or tracing take part, and
nothing that a package writes on its way stays behind.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parent
REQUIREMENTS: Final = HERE / "requirements"
"""What each environment holds, pinned: NAME.txt for the distribution NAME."""

ENVIRONMENTS: Final = ROOT / ".venv-peers"
INSTALL_S: Final = 1200


class Skipped(Exception):
    """The package cannot be run here; the message says why."""


def environment(package: str, folder: Path = ENVIRONMENTS) -> Path:
    """The Python of the package's own environment, made anew when its requirements have changed.

    Args:
        package: The distribution, as its registry calls it.
        folder: Where the environments lie.

    Raises:
        Skipped: if it cannot be installed.
    """
    wanted = REQUIREMENTS / f"{package}.txt"
    home = folder / package
    installed = home / "requirements.txt"
    python = home / "bin" / "python"
    if installed.exists() and installed.read_bytes() == wanted.read_bytes() and python.exists():
        return python
    shutil.rmtree(home, ignore_errors=True)
    home.parent.mkdir(parents=True, exist_ok=True)
    # The project's own pins are not those of the packages.
    outer = {name: value for name, value in os.environ.items() if name not in ("PIP_CONSTRAINT", "VIRTUAL_ENV")}
    install = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--requirement", str(wanted)]
    for command in ([str(ROOT / ".ci" / "bootstrap"), str(home), sys.executable], install):
        try:
            done = subprocess.run(command, env=outer, capture_output=True, text=True, timeout=INSTALL_S, check=False)
        except subprocess.TimeoutExpired:
            raise Skipped(f"{package} could not be installed: no end after {INSTALL_S} s") from None
        if done.returncode:
            raise Skipped(f"{package} could not be installed: {_last_line(done.stderr)}")
    shutil.copyfile(wanted, installed)
    return python


def answer(python: Path, script: Path, asked: object, within_s: float) -> Any:  # noqa: ANN401 - whatever it answers
    """What a script says when it is asked: JSON on its standard input, JSON on its standard output.

    Args:
        python: The Python that has what the script imports.
        script: The script.
        asked: What is written to its standard input, as JSON.
        within_s: How long it may take, in seconds.

    Raises:
        Skipped: if it fails as a whole or comes to no end.
    """
    with tempfile.TemporaryDirectory() as home:
        bare = {"PATH": os.environ.get("PATH", ""), "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8"}
        try:
            done = subprocess.run(
                [str(python), str(script)],
                input=json.dumps(asked),
                env=bare,
                cwd=home,
                capture_output=True,
                text=True,
                timeout=within_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Skipped(f"{script.name} came to no end after {within_s:g} s") from None
    if done.returncode:
        raise Skipped(f"{script.name} failed: {_last_line(done.stderr) or f'exit status {done.returncode}'}")
    return json.loads(done.stdout)


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("WARNING")]
    return lines[-1].strip() if lines else ""
