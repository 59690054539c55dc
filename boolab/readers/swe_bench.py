"""What lies beside the logs of SWE-bench runs: which instance a log is of, and whether a report says it was resolved.

Reports are the SWE-bench harness's own (`resolved_ids`, `submitted_ids`, ... or one instance's `{id: {"resolved":
...}}`), what SWE-agent makes of them (`results.json`, `final_report.json`), and those of the experiments' collection
(`trajs/` beside `results/results.json`, with a list `resolved`). They are looked for in the log's folder and the one
above; the nearest one that knows the instance counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from boolab.readers.lines import items, mapping, parse

_REPORTS: Final = ("report.json", "final_report.json", "results.json", "results/results.json")
_LARGEST: Final = 16 * 2**20
_RESOLVED: Final = ("resolved_ids", "resolved")
_NEVER_RUN: Final = "incomplete_ids"


def run_name(path: Path, instance: str) -> str:
    """A run's id: the experiment's folder and the instance.

    Example:
        >>> run_name(Path("/logs/first-try/repo-1/repo-1.traj"), "repo-1")
        'first-try/repo-1'
    """
    folders = [part for part in path.absolute().parent.parts[1:] if part != instance]
    return f"{folders[-1]}/{instance}" if folders else instance


def resolved(path: Path, instance: str) -> bool | None:
    """Whether a report beside the log says that the instance was resolved; None if none knows it."""
    folder = path.absolute().parent
    for place in (folder, folder.parent):
        for name in _REPORTS:
            report = place / name
            try:
                stat = report.stat()
            except (OSError, ValueError):
                continue
            verdict = _verdicts(report, stat.st_mtime_ns, stat.st_size).get(instance)
            if verdict is not None:
                return verdict
    return None


@lru_cache(maxsize=16)
def _verdicts(report: Path, changed: int, size: int) -> Mapping[str, bool]:  # noqa: ARG001 - a changed file is another
    """What a report says of each instance that it names."""
    if size > _LARGEST:
        return {}
    try:
        told = mapping(parse(report.read_bytes()))
    except (OSError, ValueError):
        return {}
    known: dict[str, bool] = {}
    for name, value in told.items():
        if isinstance(mapping(value).get("resolved"), bool):
            known[name] = value["resolved"]
        elif name != _NEVER_RUN and any(name in told for name in _RESOLVED):
            known |= {one: False for one in items(value) if isinstance(one, str) and one not in known}
    for name in _RESOLVED:
        known |= {one: True for one in items(told.get(name)) if isinstance(one, str)}
    return known
