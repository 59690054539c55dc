"""What the hook counted: one file for each agent of each session, with a line for each event.

The file is only appended to, under a lock, a line in one write. So processes at once lose nothing, and a process that
is killed in the middle leaves at most a line without its end, which is ignored. Lines hold the names of tools, the ids
of calls, and numbers in place of arguments and results: no text of the user or of the model.

The records, by `e`:

| e       | what happened                                                         |
|---------|-----------------------------------------------------------------------|
| turn    | a message of the user, or the start of a subagent                     |
| asked   | a call is about to be executed                                        |
| blocked | the same, and this hook denied it                                     |
| ran     | a call has a result                                                   |
| failed  | a call has an error as its result                                     |
| compact | the history was compacted                                             |
| step    | all calls of a response are done: the next request to the model is due |
| verdict | the verdict of the rule at this place, for the options in `of`        |
"""

from __future__ import annotations

import fcntl
import json
import os
import time

_TURN = b'\n{"e":"turn"'
_STEP = b'\n{"e":"step"'
_KEEP_S = 14 * 24 * 3600


def state_folder() -> str:
    """The folder of the hook's state: `boolab/hook/claude-code` in `XDG_STATE_HOME`, or in `~/.local/state`."""
    base = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(base):  # noqa: PTH117 - pathlib takes as long to import as all else here; so below
        base = os.path.join(os.path.expanduser("~"), ".local", "state")  # noqa: PTH111, PTH118
    return os.path.join(base, "boolab", "hook", "claude-code")  # noqa: PTH118


def journal_path(session: str, agent: str | None) -> str:
    """The journal of an agent in a session.

    Args:
        session: The id of the session.
        agent: The id of the subagent; None for the main agent.

    Returns:
        The path. Ids that are no plain names are replaced by a hash.
    """
    name = "main" if agent is None else f"agent-{_plain(agent)}"
    return os.path.join(state_folder(), "sessions", _plain(session), f"{name}.jsonl")  # noqa: PTH118


def line_of(record: dict[str, object]) -> bytes:
    """A record as a line of a journal or of the log, with its end.

    Args:
        record: What to keep. In a journal, `e` is its first key.
    """
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


class Journal:
    """A journal, open and locked within `with`.

    Args:
        path: The file. It is made, readable by its owner alone, where it is missing.

    Attributes:
        data: All its bytes, with a line end before the first line.
    """

    __slots__ = ("_fd", "_path", "data")

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1
        self.data = b""

    def __enter__(self) -> Journal:  # noqa: PYI034 - typing takes long to import
        self._fd = open_private(self._path)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            self.data = b"\n" + _read_all(self._fd)
        except BaseException:
            os.close(self._fd)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)  # this releases the lock

    def append(self, record: dict[str, object]) -> None:
        """Add a record as one line."""
        line = line_of(record)
        if not self.data.endswith(b"\n"):  # a process was killed as it wrote its line
            line = b"\n" + line
        os.write(self._fd, line)
        self.data += line

    def of_turn(self) -> bytes:
        """The lines of the latest turn."""
        return self.data[max(self.data.rfind(_TURN), 0) :]

    def step_of(self, calls: list[list[object]]) -> int | None:
        """Where the latest step begins if it is of these calls: their event came to another hook on the session first.

        Args:
            calls: The calls, as a step has them.

        Returns:
            The place in `data`; None if the latest step is another one.
        """
        start = self.data.rfind(_STEP)
        steps = records(self.data[start : self.data.find(b"\n", start + 1) + 1]) if start >= 0 else []
        return start if steps and steps[0].get("calls") == calls else None

    def verdict(self, options: str, before: int | None = None) -> dict[str, object] | None:
        """The latest verdict, if nothing was counted after it.

        Args:
            options: The options that it is to be of.
            before: The place in `data` up to which is looked; None for the end.

        Returns:
            The record; None if there is none.
        """
        data = self.data if before is None else self.data[: before + 1]
        start = data.rfind(b'\n{"e":"verdict","of":' + json.dumps(options).encode() + b",")
        if start < max(data.rfind(_TURN), data.rfind(_STEP), 0):
            return None
        found = records(data[start : data.find(b"\n", start + 1) + 1])
        return found[0] if found else None


def open_private(path: str) -> int:
    """Open a file to read and to append to; where it is missing, it and its folders are made for its owner alone.

    Args:
        path: The file. A link is refused.

    Returns:
        The file descriptor.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    before = os.umask(0o077)
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
        return os.open(path, flags, 0o600)
    finally:
        os.umask(before)


def records(lines: bytes) -> list[dict[str, object]]:
    r"""The records of some lines; a line that is no record, such as one that was cut off, is left out.

    Example:
        >>> records(b'{"e":"ran","id":"1"}\n{"e":"ra')
        [{'e': 'ran', 'id': '1'}]
    """
    found = []
    for line in lines.split(b"\n"):
        if line:
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict):
                found.append(record)
    return found


def prune() -> None:
    """Remove the journals of sessions in which nothing has happened for two weeks."""
    folder = os.path.join(state_folder(), "sessions")  # noqa: PTH118
    before = time.time() - _KEEP_S
    for session in _entries(folder):
        files = _entries(session.path) if session.is_dir(follow_symlinks=False) else []
        if any(file.stat(follow_symlinks=False).st_mtime >= before for file in files):
            continue
        if session.is_dir(follow_symlinks=False) and session.stat(follow_symlinks=False).st_mtime < before:
            for file in files:
                os.unlink(file.path)  # noqa: PTH108
            os.rmdir(session.path)  # noqa: PTH106


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        return []


def _read_all(fd: int) -> bytes:
    parts = []
    while part := os.read(fd, 1 << 20):
        parts.append(part)
    return b"".join(parts)


def _plain(name: str) -> str:
    if len(name) <= 80 and name.isascii() and name.replace("-", "").replace("_", "").isalnum():  # noqa: PLR2004
        return name
    from hashlib import blake2b

    return "x" + blake2b(name.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
