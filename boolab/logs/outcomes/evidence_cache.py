"""Findings in git, kept between calls: a file for each repository, in the folder `evidence` of the state folder.

A file holds what was found at one state of a repository: its refs, whether it is shallow, the options, and the code
that judges. At another state it is made anew. A finding is found again by all that the log has of the work: its
commits, lines, files and times. Which sources are trusted is no part of it: it decides what counts, not what is found.

Any file may be removed. One that cannot be read is made anew, and one that cannot be written is not made.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any, Final

from boolab.io.files import read_file, replace_file
from boolab.io.state import private_state_folder

FOLDER: Final = "evidence"
MAX_FILES: Final = 100
"""So many repositories have a file; that of the one that was judged least recently is removed first."""
MAX_FINDINGS: Final = 20_000
_MAX_BYTES: Final = 2**24
_VERSION: Final = 1
_CODE: Final = {
    "boolab.logs.outcomes": ("git.py", "git_work.py", "changes.py"),
    "boolab.io.git": ("history.py", "patterns.py", "refs.py", "reading.py"),
}
"""The modules that a finding depends on."""


class FindingCache:
    """The findings of one repository at one state.

    Args:
        name: The name of its file.
        state: All that a finding depends on beside the work itself.
    """

    def __init__(self, name: str, state: Sequence[object]) -> None:
        self._name = f"{name}.json"
        self._state = digest([_VERSION, code_digest(), *state])
        self._findings: dict[str, Any] = {}
        with suppress(OSError, ValueError, TypeError, RecursionError, AttributeError):
            content = json.loads(read_file(Path(private_state_folder(FOLDER), self._name), _MAX_BYTES))
            if content["state"] == self._state:
                self._findings = dict(content["findings"].items())
        self._is_changed = False

    def get(self, key: str) -> Any | None:  # noqa: ANN401 - any JSON: the caller checks it
        """What was found; None if that is not known."""
        return self._findings.get(key)

    def put(self, key: str, finding: Sequence[object]) -> None:
        """Keep a finding."""
        self._findings.pop(key, None)  # the newest is the last
        self._findings[key] = finding
        self._is_changed = True

    def save(self) -> None:
        """Write the findings, if there are new ones and the folder can be written."""
        if not self._is_changed:
            return
        newest: Mapping[str, Any] = dict([*self._findings.items()][-MAX_FINDINGS:])
        text = json.dumps({"boolab_evidence": _VERSION, "state": self._state, "findings": newest})
        with suppress(OSError, ValueError):
            folder = Path(private_state_folder(FOLDER))
            with replace_file(folder / self._name) as file:
                file.write(text.encode())
            _remove_oldest(folder)


def digest(values: Sequence[object]) -> str:
    """A digest of JSON values."""
    return blake2b(json.dumps(values).encode(), digest_size=16).hexdigest()


@cache
def code_digest() -> str:
    """A digest of the modules that a finding depends on."""
    names = chain.from_iterable([(package, name) for name in names] for package, names in _CODE.items())
    hashed = blake2b(digest_size=16)
    for package, name in names:
        hashed.update((files(package) / name).read_bytes())
    return hashed.hexdigest()


def _remove_oldest(folder: Path) -> None:
    with os.scandir(folder) as entries:
        times = sorted((entry.stat(follow_symlinks=False).st_mtime, entry.path) for entry in entries)
    for _, path in times[:-MAX_FILES]:
        Path(path).unlink(missing_ok=True)
