"""Which settings files the hook's installation made: a removal deletes no other, and none that has changed since."""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from boolab.io.file_edit import UserFile
from boolab.live.hooks.journal import state_folder


def note_installed(file: UserFile, new: bytes, original: bytes | None = None) -> None:
    """Note that the hook was installed into a file: the digest of its new content, if the file is boolab's alone.

    `original`: its content without the hook, if a removal from the new content would leave another one.
    """
    mark = _mark(file.target)
    with suppress(OSError):  # the removal then leaves an empty object in place of no file
        if file.data is None or is_made(file) or original is not None:
            mark.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            mark.unlink(missing_ok=True)
            with os.fdopen(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as note:
                note.write(_digest(new).encode() + (b"" if original is None else b"\n" + original))
        else:
            mark.unlink(missing_ok=True)


def original_of(file: UserFile) -> bytes | None:
    """What a file held before the installation, if that was noted and the file was not written since."""
    with suppress(OSError):
        digest, line_end, original = _mark(file.target).read_bytes().partition(b"\n")
        if line_end and file.data is not None and digest.decode("ascii", "replace") == _digest(file.data):
            return original
    return None


def is_made(file: UserFile) -> bool:
    """Whether the installation made a file, and it was not written since."""
    with suppress(OSError, UnicodeDecodeError):
        return file.data is not None and _mark(file.target).read_text() == _digest(file.data)
    return False


def forget(file: UserFile) -> None:
    """Forget a file from which the hook was removed."""
    with suppress(OSError):
        _mark(file.target).unlink(missing_ok=True)


def _mark(target: Path) -> Path:
    return Path(state_folder(), "made", _digest(os.fsencode(target)))


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()
