"""Asks every peer in turn, each time in a fresh process, and collects what they say."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

from benchmarks.environments import Skipped, answer, environment
from benchmarks.peers.rows import OWN, PEERS, WORK, Peer, Row

Measured: TypeAlias = dict[str, Any]
"""What was measured, ready for JSON: `date`, `machine`, `cores`, the highest `load` average, `at`, `steps`, `rows`
by label and `limits` by package."""

STEPS: Final = (50, 200, 800)
AT: Final = 10
"""Where the limits are set whose ends are looked at."""

WITHIN_S: Final = 900.0
SECONDS: Final = 1.0
"""CPU time that one process measures for, if one run does not take longer."""


def measure(
    rows: Sequence[Row], repeats: int, tell: Callable[[str], None], steps: Sequence[int] = STEPS
) -> Iterator[Measured]:
    """Look at the limits of the rows' packages, then measure all rows, one after the other, so often.

    A row that cannot be measured says why, and is not tried again.

    Args:
        rows: Which.
        repeats: How often, each time in a process of its own.
        tell: Is told what comes next.
        steps: Steps of a run.

    Yields:
        What was measured so far: first the limits, then all after each round of the rows, so that a measurement that is
        interrupted is not lost.
    """
    peers = {peer.package: peer for peer in PEERS if peer.package in {row.package for row in rows}}
    pythons = {package: _python(peer, tell) for package, peer in peers.items()}
    found: dict[str, Any] = {row.label: {"version": "", "samples": {}, "failed": {}} for row in rows}
    measured: Measured = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "cores": os.cpu_count() or 1,
        "load": os.getloadavg()[0],
        "at": AT,
        "steps": list(steps),
        "rows": found,
        "limits": {package: _limits(peer, pythons[package]) for package, peer in peers.items() if package != "bare"},
    }
    yield measured
    for repeat in range(repeats):
        for n in steps:
            for row in rows:
                one = found[row.label]
                if str(n) in one["failed"]:
                    continue
                tell(f"{row.label}: {n} steps, {repeat + 1} of {repeats}")
                try:
                    sample = _cost(peers[row.package], row.variant, pythons[row.package], n)
                except Skipped as reason:
                    one["failed"][str(n)] = str(reason)
                    continue
                one["version"] = sample.pop("version")
                one["samples"].setdefault(str(n), []).append(sample)
            measured["load"] = max(measured["load"], os.getloadavg()[0])
            yield measured


def machine() -> str:
    """The machine, in words."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    cpu = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    words = [f"CPython {platform.python_version()}", platform.system(), platform.machine(), cpu]
    return ", ".join([word for word in words if word] + [f"{os.cpu_count()} cores"])


def _python(peer: Peer, tell: Callable[[str], None]) -> Path | Skipped:
    if peer.package in OWN:
        return Path(sys.executable)
    tell(f"{peer.package}: its environment")
    try:
        return environment(peer.package)
    except Skipped as reason:
        return reason


def _ask(peer: Peer, python: Path | Skipped, asked: dict[str, Any]) -> Any:  # noqa: ANN401
    if isinstance(python, Skipped):
        raise python
    package = "" if peer.package == "bare" else peer.package
    return answer(python, WORK, {"adapter": peer.adapter, "package": package, **asked}, WITHIN_S)


def _cost(peer: Peer, variant: str, python: Path | Skipped, steps: int) -> dict[str, Any]:
    asked = {"measure": "cost", "variant": variant, "steps": steps, "seconds": SECONDS}
    said: dict[str, Any] = _ask(peer, python, asked)
    return said


def _limits(peer: Peer, python: Path | Skipped) -> dict[str, Any]:
    try:
        said: dict[str, Any] = _ask(peer, python, {"measure": "limits", "at": AT})
    except Skipped as reason:
        return {"version": "", "limits": {}, "failed": str(reason)}
    return said
