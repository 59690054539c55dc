"""The released harnesses from npm: an environment for each, as `benchmarks.environments` makes them for Python's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from benchmarks.environments import ENVIRONMENTS, INSTALL_S, REQUIREMENTS, Skipped

NPM: Final = "npm"
"""The folder of these environments, and of what each holds: NAME.json, its dependencies pinned."""


def wanted(name: str) -> tuple[str, str]:
    """The package of a harness and its version.

    Args:
        name: The harness, by the name of its file of requirements.
    """
    stated = json.loads((REQUIREMENTS / NPM / f"{name}.json").read_text(encoding="utf-8"))
    ((package, version),) = stated["dependencies"].items()
    return package, version


def program(name: str, command: str, folder: Path = ENVIRONMENTS) -> Path:
    """The harness's program, installed anew when its requirements have changed.

    Args:
        name: The harness, by the name of its file of requirements.
        command: What its package calls the program.
        folder: Where the environments lie.

    Raises:
        Skipped: if it cannot be installed.
    """
    requirements = REQUIREMENTS / NPM / f"{name}.json"
    home = folder / NPM / name
    installed = home / "installed.json"
    path = home / "node_modules" / ".bin" / command
    if installed.exists() and installed.read_bytes() == requirements.read_bytes() and path.exists():
        return path
    for tool in ("node", NPM):
        if shutil.which(tool) is None:
            raise Skipped(f"{name} could not be installed: there is no {tool}")
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    shutil.copyfile(requirements, home / "package.json")
    # npm takes a folder above as the project's if this one lacks a package.json; --prefix says that it is this one.
    command_line = [NPM, "install", "--prefix", str(home), "--no-audit", "--no-fund", "--no-package-lock", "--silent"]
    try:
        done = subprocess.run(
            command_line, cwd=home, env=os.environ, capture_output=True, text=True, timeout=INSTALL_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise Skipped(f"{name} could not be installed: no end after {INSTALL_S} s") from None
    if done.returncode or not path.exists():
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise Skipped(f"{name} could not be installed: {lines[-1] if lines else f'exit status {done.returncode}'}")
    shutil.copyfile(requirements, installed)
    return path
