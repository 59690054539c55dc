"""What the hook keeps: one file for each agent of each session, with a line for each event.

A process adds its line with one write at the end of the file: so processes at once lose nothing, and one that is killed
in the middle leaves at most a line without its end, which is passed over. The first line holds the counters up to there
(`boolab.live.hooks.counts`), so that no step costs more than another: once the lines after it are many, one process
writes the file anew, with later counters and the newest lines. It holds the lock of the file meanwhile, which the
others share: a line that was added to the old file would be lost, or come after those that its process added later.

Lines hold the names of tools, the ids of calls, times, and numbers in place of arguments and results: see
`boolab.live.hooks.claude_code`. No text of the user or of the model.

The records, by `e`:

| e       | what happened                                                          |
|---------|------------------------------------------------------------------------|
| journal | the first line: the version of the file, and the counters up to there  |
| turn    | a message of the user, or the start of a subagent                      |
| asked   | a call is about to be executed                                         |
| blocked | this hook denied it                                                    |
| ran     | a call has a result                                                    |
| failed  | a call has an error as its result                                      |
| compact | the history was compacted                                              |
| lost    | a process could not keep what happened before this                     |
| step    | all calls of a response are done: the next request to the model is due |
| verdict | the verdict of the rule after the record `on`, for the options `of`    |
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
import time
from collections.abc import Callable

from boolab.io.state import state_folder as folder_of_state

VERSION = 3
"""The version of the form of a journal. One of another version is not read: its counts begin anew."""
COMPACT_BYTES = 16_000
"""With more lines than this after the first, a journal is written anew."""
MAX_BYTES = 64_000_000
"""A larger journal is none that a hook wrote: its counts begin anew."""
TAIL = 4
"""How many of the newest steps and turns stay as lines when a journal is written anew."""
KEY_BYTES = 32
_HEADER = b'{"e":"journal","v":%d' % VERSION
_BOUNDARY = re.compile(rb'\n\{"e":"(?:turn|step)","b":"([0-9a-f]{8})"')
_ACTIONS = ("continue", "nudge", "stop")
_KEEP_S = 14 * 24 * 3600
_MAX_WAIT_S = 1.0
"""How long a process waits for another that writes the journal anew. It takes some ms, unless it was suspended."""
_MARKS = {"lost": 1_000_000_000, "turn": 2_000_000_000}
"""The time of the last access to a journal, in ns, in which a record of this kind is missing."""


class JournalError(Exception):
    """A journal that is not of this version, or damaged in its first line: it holds no counts that can be used."""


def state_folder() -> str:
    """The folder of the hook's state: `boolab/hook/claude-code` in `XDG_STATE_HOME`, or in `~/.local/state`."""
    return folder_of_state("hook", "claude-code")


def journal_path(session: str, agent: str | None) -> str:
    """The journal of an agent in a session; ids that are no plain names are replaced by a hash."""
    name = "main" if agent is None else f"agent-{_file_name(agent)}"
    return os.path.join(state_folder(), "sessions", _file_name(session), f"{name}.jsonl")  # noqa: PTH118


def session_key(path: str) -> bytes:
    """The random key of a session, by which the hashes in its journals are made; it is made where it is missing.

    It lies beside the journals, in a file of its own. Who has a journal without it cannot try out which text a hash is
    of.
    """
    key_path = os.path.join(os.path.dirname(path), "key")  # noqa: PTH118, PTH120
    for _ in range(4):
        try:
            fd = open_private(key_path, os.O_RDONLY)
        except FileNotFoundError:
            _create(key_path, os.urandom(KEY_BYTES))
            continue
        try:
            key = os.read(fd, KEY_BYTES + 1)
        finally:
            os.close(fd)
        if len(key) == KEY_BYTES:
            return key
        os.unlink(key_path)  # noqa: PTH108 - damaged: no call is the same as one before, and no more is lost
    raise OSError(f"{key_path}: the key of the session cannot be kept")


def line_of(record: dict[str, object]) -> bytes:
    """A record as a line of a journal, where `e` is its first key, or of the log."""
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def boundary_of(kind: str, **values: object) -> dict[str, object]:
    """A record after which a verdict is due, `turn` or `step`, with a name of its own that verdicts refer to."""
    return {"e": kind, "b": os.urandom(4).hex(), "t": _now(), **values}


def _now() -> list[int]:
    """The time in ms by two clocks: one may be set back or forward, and the other begins anew with the machine."""
    return [time.time_ns() // 1_000_000, time.monotonic_ns() // 1_000_000]


def append(path: str, record: dict[str, object]) -> None:
    """Add a record to a journal, which is made where it is missing."""
    _append(path, line_of(record))


def mark_lost(path: str, kind: str) -> None:
    """Mark a journal in which a `turn` or another record is missing, so that the next process adds it."""
    try:
        mark = max(_MARKS[kind], _mark_of(os.stat(path, follow_symlinks=False)))  # noqa: PTH116
        os.utime(path, ns=(mark, time.time_ns()), follow_symlinks=False)
    except OSError:  # it was not made: then there is nothing that the record could change
        pass


def _mark_of(status: os.stat_result) -> int:
    return status.st_atime_ns if status.st_atime_ns in _MARKS.values() else 0


class Journal:
    """A journal as it was when it was read.

    `path`: the file. It is made, readable by its owner alone, where it is missing.

    Attributes:
        path: The file.
        data: Its bytes, and those of the records that were added since.
    """

    __slots__ = ("data", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        fd = _open(path)
        try:
            size = os.fstat(fd).st_size
            self.data = _read_all(fd) if size <= MAX_BYTES else b""
        finally:
            os.close(fd)
        if not (self.data.startswith(_HEADER) and self.data[len(_HEADER) : len(_HEADER) + 1] in (b",", b"}")):
            msg = "the journal is of another version, or its first line is damaged"
            raise JournalError(msg)

    def append(self, record: dict[str, object]) -> None:
        """Add a record as one line."""
        line = line_of(record)
        _append(self.path, line)
        self.data += line if self.data.endswith(b"\n") else b"\n" + line

    def boundaries(self) -> list[tuple[int, str]]:
        """The steps and turns after the first line: where each line ends that is before one, and the record's name."""
        return [(match.start(), match[1].decode()) for match in _BOUNDARY.finditer(self.data)]

    def last_boundaries(self) -> tuple[str, str]:
        """The names of the latest step or turn, and of the one before; "" where there is none."""
        boundaries = self.boundaries()
        last = boundaries[-1][1] if boundaries else ""
        ids = self.last_step()
        while ids is not None and len(boundaries) > 1 and self._step_at(boundaries[-2][0]) == ids:
            boundaries.pop()
        return last, boundaries[-2][1] if len(boundaries) > 1 else ""

    def last_step(self) -> list[object] | None:
        """The ids of the calls of the latest step; None if a turn has begun since, or there is none."""
        boundaries = self.boundaries()
        return self._step_at(boundaries[-1][0]) if boundaries else None

    def verdict(self, options: str, boundary: str) -> dict[str, object] | None:
        """A verdict on record; None if there is none."""
        prefix = line_of({"e": "verdict", "on": boundary, "of": options})[:-2] + b","
        start = self.data.rfind(b"\n" + prefix)
        record = self._record_at(start) if start >= 0 else None
        return (
            record if record and record.get("action") in _ACTIONS and isinstance(record.get("message"), str) else None
        )

    def _record_at(self, start: int) -> dict[str, object] | None:
        end = self.data.find(b"\n", start + 1)
        lines = records(self.data[start : end if end >= 0 else len(self.data)])
        return lines[0] if lines else None

    def _step_at(self, start: int) -> list[object] | None:
        record = self._record_at(start)
        calls = record.get("calls") if record else None
        if not isinstance(calls, list):
            return None
        return [call[0] for call in calls if isinstance(call, list) and call]


def start_anew(path: str) -> None:
    """Replace a journal by one without counts."""
    _replace(path, line_of({"e": "journal", "v": VERSION}))


def compact(path: str, state_after: Callable[[bytes], dict[str, object]]) -> None:
    """Write a journal anew, its counters in the first line, unless another process does it."""
    fd = open_private(path, os.O_RDWR | os.O_APPEND)
    try:
        if not _lock(fd, fcntl.LOCK_EX) or not _is_at(fd, path):
            return
        data = _read_all(fd)
        starts = [match.start() for match in _BOUNDARY.finditer(data)]
        if len(starts) <= TAIL:
            return
        end = starts[-TAIL] + 1
        header: dict[str, object] = {"e": "journal", "v": VERSION, "state": state_after(data[:end])}
        _replace(path, line_of(header) + data[end:])
        if late := _read_all(fd):  # of processes that waited too long, or where files have no locks
            _append(path, late)
    finally:
        os.close(fd)


def is_long(data: bytes) -> bool:
    """Whether a journal with this content is to be written anew."""
    return len(data) - data.find(b"\n") > COMPACT_BYTES


def open_private(path: str, flags: int = os.O_RDWR | os.O_APPEND | os.O_CREAT) -> int:
    """Open a file for its owner alone, and make its folder; a link is refused, and what is no plain file."""
    flags |= os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    old_mask = os.umask(0o077)
    try:
        try:
            fd = os.open(path, flags, 0o600)
        except FileNotFoundError:
            if not flags & os.O_CREAT:
                raise
            os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
            fd = os.open(path, flags, 0o600)
    finally:
        os.umask(old_mask)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(f"{path} is no plain file")
    return fd


def records(lines: bytes) -> list[dict[str, object]]:
    """The records of some lines; a line that is no record, such as one that was cut off, is left out."""
    read = []
    for line in lines.split(b"\n"):
        if line:
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(record, dict):
                read.append(record)
    return read


def prune() -> None:
    """Remove the journals of sessions in which nothing has happened for two weeks."""
    folder = os.path.join(state_folder(), "sessions")  # noqa: PTH118
    oldest_time = time.time() - _KEEP_S
    for session in _entries(folder):
        try:
            _prune(session, oldest_time)
        except OSError:  # what cannot be removed stays
            continue


def _prune(session: os.DirEntry[str], oldest_time: float) -> None:
    if not session.is_dir(follow_symlinks=False) or session.stat(follow_symlinks=False).st_mtime >= oldest_time:
        return
    files = _entries(session.path)
    if all(file.stat(follow_symlinks=False).st_mtime < oldest_time for file in files):
        for file in files:
            os.unlink(file.path)  # noqa: PTH108
        os.rmdir(session.path)  # noqa: PTH106


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        return []


def _open(path: str) -> int:
    """Open a journal to read and to append, made where it is missing; no process writes it anew before it is closed."""
    for _ in range(5):
        try:
            fd = open_private(path, os.O_RDWR | os.O_APPEND)
        except FileNotFoundError:
            _create(path, line_of({"e": "journal", "v": VERSION}))
            continue
        deadline = time.monotonic() + _MAX_WAIT_S
        while not _lock(fd, fcntl.LOCK_SH) and time.monotonic() < deadline:
            time.sleep(0.001)
        if _is_at(fd, path):
            _add_mark(fd)
            return fd
        os.close(fd)
    raise OSError(f"{path} cannot be made")


def _lock(fd: int, kind: int) -> bool:
    """Take the lock of a file, unless another process has it."""
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _add_mark(fd: int) -> None:
    """Add the record that a mark stands for. The file is closed if that fails."""
    if mark := _mark_of(os.fstat(fd)):
        try:
            _add(fd, line_of(boundary_of("turn") if mark == _MARKS["turn"] else {"e": "lost"}))
            os.utime(fd)
        except OSError:
            os.utime(fd, ns=(mark, time.time_ns()))  # reading the file has changed it
            os.close(fd)
            raise


def _create(path: str, content: bytes) -> None:
    """Make a file that has its content at once, unless another process has made it."""
    temporary = f"{path}.{os.getpid()}"
    _write_new(temporary, content)
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    except OSError:  # a file system without hard links
        os.replace(temporary, path)  # noqa: PTH105
        return
    os.unlink(temporary)  # noqa: PTH108


def _replace(path: str, content: bytes) -> None:
    _write_new(path + ".new", content)
    os.replace(path + ".new", path)  # noqa: PTH105


def _write_new(path: str, content: bytes) -> None:
    fd = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        _write(fd, content)
    finally:
        os.close(fd)


def _write(fd: int, content: bytes) -> None:
    if os.write(fd, content) != len(content):
        msg = "the disk is full"
        raise OSError(msg)


def _append(path: str, lines: bytes) -> None:
    fd = _open(path)
    try:
        _add(fd, lines)
    finally:
        os.close(fd)


def _add(fd: int, lines: bytes) -> None:
    size = os.fstat(fd).st_size
    is_cut_off = size > 0 and os.pread(fd, 1, size - 1) != b"\n"  # a process was killed as it wrote
    _write(fd, b"\n" + lines if is_cut_off else lines)


def _is_at(fd: int, path: str) -> bool:
    """Whether a file that is open is the one at this path."""
    try:
        path_stat = os.stat(path, follow_symlinks=False)  # noqa: PTH116
    except FileNotFoundError:
        return False
    file_stat = os.fstat(fd)
    return (path_stat.st_ino, path_stat.st_dev) == (file_stat.st_ino, file_stat.st_dev)


def _read_all(fd: int) -> bytes:
    parts = []
    while part := os.read(fd, 1 << 20):
        parts.append(part)
    return b"".join(parts)


def _file_name(name: str) -> str:
    if len(name) <= 80 and name.isascii() and name.replace("-", "").replace("_", "").isalnum():  # noqa: PLR2004
        return name
    from hashlib import blake2b

    return "x" + blake2b(name.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


MAX_LOG_BYTES = 2_000_000
"""From this size on the log is moved to `log.jsonl.1`, in place of the one before."""


def log_path() -> str:
    """The file of the log."""
    return os.path.join(state_folder(), "log.jsonl")  # noqa: PTH118 - pathlib takes long to import


def log(
    event: dict[str, object], did: str, verdict: dict[str, object] | None = None, **facts: str | int | None
) -> None:
    """Add a line to the log: what was done, such as `deny`. One that cannot be written is left out."""
    verdict = verdict or {}
    line: dict[str, object] = {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "did": did}
    line |= {"session": event.get("session_id"), "agent": event.get("agent_type") if event.get("agent_id") else None}
    line |= {name: verdict[name] for name in ("rule", "reason", "step") if verdict.get(name) is not None}
    try:
        append_log({**line, **facts})
    except OSError:
        return


def append_log(line: dict[str, object]) -> None:
    """Add a line as it is."""
    path = log_path()
    fd = open_private(path)
    try:
        size = os.fstat(fd).st_size
        is_cut_off = size > 0 and os.pread(fd, 1, size - 1) != b"\n"  # a process was killed as it wrote
        os.write(fd, (b"\n" if is_cut_off else b"") + line_of(line))
    finally:
        os.close(fd)
    if size > MAX_LOG_BYTES:
        os.replace(path, path + ".1")  # noqa: PTH105
