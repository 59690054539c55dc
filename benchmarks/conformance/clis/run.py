"""One run of a released harness: an empty home, a scripted model, a limit, and what came of it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.conformance.clis.harness import Finished, Folders, Harness, Start
from benchmarks.conformance.clis.packages import program
from benchmarks.conformance.clis.scripts import RAN, Loop, script_named
from benchmarks.conformance.clis.server import ModelServer

RUN_S: Final = 120
"""No run takes longer, in seconds: what does is killed, and its exit code is None."""

LOOPS: Final[tuple[Loop, ...]] = ("main", "subagent")


class Outcome(NamedTuple):
    """What a run did.

    Attributes:
        requests: How often the main loop asked the model.
        subagent_requests: How often the subagent did.
        ran: How many shell commands of the main loop really ran.
        subagent_ran: How many of the subagent's did.
        code: The exit code; None if it did not end in time.
        end: How the harness reported the end, in its own words.
        told: What the main loop was told of the subagent's end; empty if there was no subagent.
    """

    requests: int
    subagent_requests: int
    ran: int
    subagent_ran: int
    code: int | None
    end: str
    told: str = ""


class Played(NamedTuple):
    """A run with all that it left."""

    outcome: Outcome
    finished: Finished
    refused: list[str]


def play(
    harness: Harness,
    script: str,
    way: str | None = None,
    limit: float | None = None,
    *,
    keep: Path | None = None,
    files: Path | None = None,
    arguments: Sequence[str] = (),
) -> Played:
    """Run a released harness once.

    Args:
        harness: Which.
        script: The name of the script that the model plays.
        way: How the limit is set, one of the harness's ways; None for no limit.
        limit: The limit, in the harness's own unit; None for none.
        keep: A folder to leave the run in, as `home`, `work`, `requests.jsonl`, `stdout`, `stderr`. What it holds
            already is used, so that a second run can resume the first.
        files: A folder whose `home` and `work` are copied over those of the run before it starts.
        arguments: More arguments for the program.

    Raises:
        Skipped: if the harness cannot be installed.
    """
    path = program(harness.name, harness.command)
    with _place(keep) as place, ModelServer(script_named(script), harness.wire(), harness.sorter) as server:
        folders = Folders(place / "home", place / "work")
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        base = harness.base(server.url)
        added = Start() if way is None or limit is None else harness.ways[way].start(limit)
        for start in (base, added):
            _write(start, place)
        if files is not None:
            for folder in folders:
                if (files / folder.name).is_dir():
                    shutil.copytree(files / folder.name, folder, dirs_exist_ok=True)
        for loop in LOOPS:
            (folders.work / RAN[loop]).unlink(missing_ok=True)
        line = [str(path), *harness.arguments((*base.arguments, *added.arguments, *arguments))]
        finished = _run(line, folders, {**_bare(folders, server.url), **base.environment, **added.environment})
        ran = {loop: _lines(folders.work / RAN[loop]) for loop in LOOPS}
        requests = {loop: server.requests_of(loop) for loop in LOOPS}
        if keep is not None:
            sent = (json.dumps(asked._asdict()) + "\n" for asked in server.asked)
            (place / "requests.jsonl").write_text("".join(sent), encoding="utf-8")
            (place / "stdout").write_text(finished.out, encoding="utf-8")
            (place / "stderr").write_text(finished.err, encoding="utf-8")
        outcome = Outcome(
            requests["main"],
            requests["subagent"],
            ran["main"],
            ran["subagent"],
            finished.code,
            "no end in time" if finished.code is None else harness.end(finished),
            harness.told(_last(server)) if requests["subagent"] else "",
        )
        return Played(outcome, finished, server.refused)


def _last(server: ModelServer) -> object:
    return next(asked.body for asked in reversed(server.asked) if asked.loop == "main")


@contextlib.contextmanager
def _place(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep.resolve()
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _write(start: Start, place: Path) -> None:
    for name, text in start.files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _bare(folders: Folders, proxy: str) -> dict[str, str]:
    """An environment without the user's settings, whose only way out is the model server, which lets nobody out."""
    temporary = folders.home.parent / "tmp"
    temporary.mkdir(exist_ok=True)
    proxies = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    local = "127.0.0.1,localhost"
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(folders.home),
        "TMPDIR": str(temporary),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "NO_PROXY": local,
        "no_proxy": local,
        **dict.fromkeys(proxies, proxy),
        **{name.lower(): proxy for name in proxies},
    }


def _run(line: list[str], folders: Folders, environment: dict[str, str]) -> Finished:
    # A session of its own, so that what the program started ends with it.
    with subprocess.Popen(
        line,
        cwd=folders.work,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        code: int | None
        try:
            out, err = process.communicate(timeout=RUN_S)
            code = process.returncode
        except subprocess.TimeoutExpired:
            _kill(process.pid)
            out, err = process.communicate()
            code = None
        _kill(process.pid)
    return Finished(code, out, err, folders)


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0
