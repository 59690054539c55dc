"""Reports beside the logs of SWE-bench runs: whether an instance was resolved, and by which model.

Reports are the SWE-bench harness's own (`resolved_ids`, `submitted_ids`, ... or one instance's `{id: {"resolved":
...}}`), SWE-agent's (`results.json`, `final_report.json`), and those of SWE-bench's experiments repository (`trajs/`
beside `results/results.json`, with a list `resolved`). The nearest one in the log's folder and the one above that has
the instance counts. A report of the experiments repository lists what was resolved, and failures only if there was
nothing to evaluate: an instance that is not in it was not resolved.

The submissions of that repository name their model in `metadata.yaml` (`tags: {model: ...}`), else as the last part of
their folder's name (`20240620_sweagent_claude3.5sonnet`: date, system, model).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from boolab.io.json_input import items, mapping, text
from boolab.logs.readers._sidecars import sidecar

_EXPERIMENT: Final = "results/results.json"
_TRAJS: Final = "trajs"
_REPORTS: Final = ("report.json", "final_report.json", "results.json", _EXPERIMENT)
_SUBMISSION: Final = re.compile(r"\d{8}_[^_]+_(.+)")
_RESOLVED: Final = ("resolved_ids", "resolved")
_NEVER_RUN: Final = "incomplete_ids"


def run_name(path: Path, instance: str) -> str:
    """A run's id: the experiment's folder and the instance, such as `first-try/repo-1`."""
    folders = [part for part in path.absolute().parent.parts[1:] if part not in (instance, _TRAJS)]
    return f"{folders[-1]}/{instance}" if folders else instance


def resolved(path: Path, instance: str) -> bool | None:
    """Whether the instance was resolved, by a report beside the log; None if no report has it."""
    folder = path.absolute().parent
    reports = (sidecar(place / name) for place in (folder, folder.parent) for name in _REPORTS)
    verdicts = (_verdict(mapping(report), instance) for report in reports)
    lines = next((verdict for verdict in verdicts if verdict is not None), None)
    if lines is None and folder.name == _TRAJS:
        listed = mapping(sidecar(folder.parent / _EXPERIMENT)).get("resolved")
        return False if isinstance(listed, list) else None
    return lines


def submitted_model(path: Path) -> str:
    """The model of a log's submission in the experiments repository; empty if it is in none."""
    folder = path.absolute().parent
    if folder.name != _TRAJS:
        return ""
    tags = mapping(mapping(sidecar(folder.parent / "metadata.yaml")).get("tags"))
    given = tags.get("model")
    named = next((text(one) for one in (*items(given), given) if text(one)), "")
    found = _SUBMISSION.fullmatch(folder.parent.name)
    return named or (found[1] if found else "")


def _verdict(report: Mapping[str, Any], instance: str) -> bool | None:
    own = mapping(report.get(instance)).get("resolved")
    if isinstance(own, bool):
        return own
    lists = {name: items(ids) for name, ids in report.items() if name != _NEVER_RUN}
    resolutions = [lists[name] for name in _RESOLVED if name in lists]
    if not resolutions or not any(instance in ids for ids in lists.values()):
        return None
    return any(instance in ids for ids in resolutions)
