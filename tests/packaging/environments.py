"""Fresh environments of any Python on this machine, made and filled by uv: in seconds, from a cache of their own."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple, Self, TypeAlias

from tests.support.project import ROOT

PLACE: Final = ROOT / ".venv-pythons"
"""Where the environments and what they are made from are kept."""
VERSIONS: Final = ("3.11", "3.12", "3.13")

Set: TypeAlias = Literal["pinned", "oldest", "newest"]
"""Which dependencies: those of constraints.txt, the lowest of each that pyproject.toml names, or the newest."""

_OPTIONS: Final[dict[Set, tuple[str, ...]]] = {
    "pinned": ("--constraint", str(ROOT / "constraints.txt")),
    "oldest": ("--resolution", "lowest-direct"),
    "newest": ("--resolution", "highest"),
}
_SETTINGS: Final = {
    "UV_CACHE_DIR": str(PLACE / "cache"),
    "UV_PYTHON_DOWNLOADS": "never",
    "UV_NO_CONFIG": "1",
    "UV_SYSTEM_CERTS": "1",  # as pip does
}
_NOT_OURS: Final = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_CONSTRAINT", "UV_CONSTRAINT", "UV_RESOLUTION")


class Environment(NamedTuple):
    """A virtual environment."""

    folder: Path

    @classmethod
    def make(cls, folder: Path, python: Path) -> Self:
        """An empty one; what was in the folder before is gone."""
        _uv("venv", "--quiet", "--clear", "--python", python, folder)
        return cls(folder)

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    def install(self, wheel: Path, project: Path, extras: Sequence[str] = (), dependencies: Set = "pinned") -> None:
        """Install a wheel and what its project needs."""
        chosen = [word for extra in extras for word in ("--extra", extra)]
        install = ("pip", "install", "--quiet", "--python", self.python)
        _uv(*install, *_OPTIONS[dependencies], "--requirements", project / "pyproject.toml", *chosen)
        _uv(*install, "--no-deps", wheel)

    def ask(self, code: str, cwd: Path) -> str:
        """What a line of Python prints there."""
        asked = [str(self.python), "-c", code]
        return subprocess.run(asked, cwd=cwd, env=clean(), check=True, capture_output=True, text=True).stdout.strip()


def interpreter(version: str) -> Path | None:
    """A Python of this version, on the path or of pyenv; None if there is none that starts."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    on_path = shutil.which(f"python{version}")
    kept = sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}"))
    for one in ([on_path] if on_path else []) + [str(path) for path in kept]:
        asked = [one, "-c", "import sys; print(sys.executable)"]
        told = subprocess.run(asked, capture_output=True, text=True, check=False)
        if told.returncode == 0:
            return Path(told.stdout.strip())
    return None


def run(*command: object, cwd: Path = ROOT, given: str | None = None) -> None:
    """Run a command with its output shown; one that fails ends it all."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=clean(), input=given, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}")


def clean() -> dict[str, str]:
    """The environment without what would bring this checkout, or its versions, into another environment."""
    return {name: value for name, value in os.environ.items() if name not in _NOT_OURS} | _SETTINGS


def _uv(*arguments: object) -> None:
    run(sys.executable, "-m", "uv", *arguments)
