"""The log of the hook: what it did, or would have done. One file of JSON lines for all sessions."""

from __future__ import annotations

import os
import time

from boolab.live.hooks.journal import line_of, open_private, state_folder

MAX_BYTES = 2_000_000
"""From this size on the log is moved to `log.jsonl.1`, in place of the one before."""


def log_path() -> str:
    """The file of the log."""
    return os.path.join(state_folder(), "log.jsonl")  # noqa: PTH118 - pathlib takes long to import


def log(event: dict[str, object], did: str, verdict: dict[str, object] | None = None, **more: str | int | None) -> None:
    """Add a line to the log. One that cannot be written is left out: it changes no answer.

    `did`: what was done, such as `deny`, or `would stop` in shadow.
    """
    verdict = verdict or {}
    line: dict[str, object] = {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "did": did}
    line |= {"session": event.get("session_id"), "agent": event.get("agent_type") if event.get("agent_id") else None}
    line |= {name: verdict[name] for name in ("rule", "reason", "step") if verdict.get(name) is not None}
    try:
        append({**line, **more})
    except OSError:
        return


def append(line: dict[str, object]) -> None:
    """Add a line as it is."""
    path = log_path()
    fd = open_private(path)
    try:
        size = os.fstat(fd).st_size
        is_cut_off = size > 0 and os.pread(fd, 1, size - 1) != b"\n"  # a process was killed as it wrote
        os.write(fd, (b"\n" if is_cut_off else b"") + line_of(line))
    finally:
        os.close(fd)
    if size > MAX_BYTES:
        os.replace(path, path + ".1")  # noqa: PTH105
