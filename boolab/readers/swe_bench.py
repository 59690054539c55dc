"""What lies beside the logs of SWE-bench runs: which instance a log is of, and whether a report says it was resolved.

Reports are the SWE-bench harness's own (`resolved_ids`, `submitted_ids`, ... or one instance's `{id: {"resolved":
...}}`), what SWE-agent makes of them (`results.json`, `final_report.json`), and those of the experiments' collection
(`trajs/` beside `results/results.json`, with a list `resolved`). They are looked for in the log's folder and the one
above; the nearest one that knows the instance counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from boolab.readers.lines import items, mapping
from boolab.readers.sidecars import sidecar

_REPORTS: Final = ("report.json", "final_report.json", "results.json", "results/results.json")
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
    reports = (sidecar(place / name) for place in (folder, folder.parent) for name in _REPORTS)
    verdicts = (_verdict(mapping(report), instance) for report in reports)
    return next((verdict for verdict in verdicts if verdict is not None), None)


def _verdict(report: Mapping[str, Any], instance: str) -> bool | None:
    """What a report says of an instance, if it names it."""
    own = mapping(report.get(instance)).get("resolved")
    if isinstance(own, bool):
        return own
    lists = {name: items(ids) for name, ids in report.items() if name != _NEVER_RUN}
    resolutions = [lists[name] for name in _RESOLVED if name in lists]
    if not resolutions or not any(instance in ids for ids in lists.values()):
        return None
    return any(instance in ids for ids in resolutions)
