"""Reports beside the logs of SWE-bench runs: whether an instance was resolved, and by which model.

Reports are the SWE-bench harness's own (`resolved_ids`, `submitted_ids`, ... or one instance's `{id: {"resolved":
...}}`), SWE-agent's (`results.json`, `final_report.json`), and those of SWE-bench's experiments repository (`trajs/`
beside `results/results.json`, with a list `resolved`). The nearest one in the log's folder and the one above that has
the instance counts; then an instance's own, `<run id or eval_results>/<model>/<instance>/report.json`, below these
folders; then those of whole runs, `<model>.<run id>.json`, in them. An instance whose evaluation failed is unknown. A
report of the experiments repository lists what was resolved, and failures only if there was nothing to evaluate: an
instance that is not in it was not resolved.

The submissions of that repository name their model in `metadata.yaml` (`tags: {model: ...}`), else as the last part of
their folder's name (`20240620_sweagent_claude3.5sonnet`: date, system, model).
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, Final

from boolab.core.run import RunLabel
from boolab.core.run_labels import BENCHMARK
from boolab.io.json_input import items, mapping, text
from boolab.logs.fields import sidecar

_EXPERIMENT: Final = "results/results.json"
_TRAJS: Final = "trajs"
_REPORTS: Final = ("report.json", "final_report.json", "results.json", _EXPERIMENT)
_SUBMISSION: Final = re.compile(r"\d{8}_[^_]+_(.+)")
_RESOLVED: Final = ("resolved_ids", "resolved")
_UNDECIDED: Final = ("incomplete_ids", "error_ids", "no_logs", "install_fail", "reset_failed", "test_errored")
"""The lists of a report that leave open whether an instance was resolved: it did not run, or its evaluation failed."""
_REPORT: Final = "report.json"
_LOGS: Final = (".traj.json", ".trajectory.json", ".messages.json")
_DEPTH: Final = 4
MAX_FOLDERS: Final = 5_000
"""So many folders are looked into for reports, around one folder of logs."""
MAX_REPORTS: Final = 50


def run_name(path: Path, instance: str) -> str:
    """A run's id: the experiment's folder and the instance, such as `first-try/repo-1`."""
    folders = [part for part in path.absolute().parent.parts[1:] if part not in (instance, _TRAJS)]
    return f"{folders[-1]}/{instance}" if folders else instance


def label_by_report(path: Path, instance: str, model: str = "") -> RunLabel | None:
    """Whether the instance was resolved, by a report beside the log; None if no report has it, or they differ."""
    for name, verdict in _verdicts(path, instance, model):
        if verdict is not None:
            return RunLabel(verdict, BENCHMARK, f"SWE-bench, {name}: {'resolved' if verdict else 'not resolved'}")
    return None


def _verdicts(path: Path, instance: str, model: str) -> Iterator[tuple[str, bool | None]]:
    """The verdicts of all reports around a log, the nearest first, each with the name of the report."""
    folder = path.absolute().parent
    for directory, name in product((folder, folder.parent), _REPORTS):
        report = mapping(sidecar(f"{directory}/{name}"))
        if report:
            yield name, _verdict(report, instance)
    # an evaluation above a folder of many logs may be that of another experiment
    roots = (folder, folder.parent) if folder.name in (instance, _TRAJS) else (folder,)
    yield _REPORT, _own_report(roots, instance, model)
    yield "the report of its run", _run_report(roots, instance)
    if folder.name == _TRAJS:
        ids = mapping(sidecar(folder.parent / _EXPERIMENT)).get("resolved")
        yield _EXPERIMENT, False if isinstance(ids, list) else None


def _own_report(roots: Sequence[Path], instance: str, model: str) -> bool | None:
    """The verdict of the instance's own report in a folder of an evaluation."""
    for root in roots:
        reports = _reports_below(root).get(instance, ())
        matches = [report for name, report in reports if model and name == model.replace("/", "__")]
        verdicts = {_verdict(mapping(sidecar(report)), instance) for report in matches or [path for _, path in reports]}
        if len(verdicts) == 1:
            return verdicts.pop()
    return None


def _reports_below(root: Path) -> Mapping[str, Sequence[tuple[str, Path]]]:
    try:
        return _index(str(root), root.stat().st_mtime_ns)
    except OSError:
        return {}


@lru_cache(maxsize=8)
def _index(root: str, _changed: int) -> Mapping[str, Sequence[tuple[str, Path]]]:
    """The reports of instances below a folder, by instance, each with the name of the folder around the instance's.

    The harness writes `<run id>/<model>/<instance>/report.json`, below `logs/run_evaluation` or where it has to;
    others keep `<name>/<instance>/report.json`.
    """
    reports: defaultdict[str, list[tuple[str, Path]]] = defaultdict(list)
    budget = MAX_FOLDERS
    level = [Path(root), Path(root, "logs", "run_evaluation"), Path(root, "run_evaluation")]
    for depth in range(_DEPTH):
        subfolders: list[Path] = []
        for folder in level:
            if budget <= 0:
                break
            budget -= 1
            subfolders += _folders_in(folder)
            report = folder / _REPORT
            if depth > 1 and report.is_file():
                reports[folder.name].append((folder.parent.name, report))
        level = subfolders
    return reports


def _folders_in(folder: Path) -> list[Path]:
    """The folders in a folder, without links and hidden ones."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.name[0] != "." and entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return [folder / name for name in sorted(names)]


def _run_report(roots: Sequence[Path], instance: str) -> bool | None:
    """The verdict of the reports of whole runs, `<model>.<run id>.json`, if they agree."""
    verdicts = {_verdict(report, instance) for root in roots for report in _run_reports(root)} - {None}
    return verdicts.pop() if len(verdicts) == 1 else None


def _run_reports(folder: Path) -> Sequence[Mapping[str, Any]]:
    try:
        return _reports_in(str(folder), folder.stat().st_mtime_ns)
    except OSError:
        return ()


@lru_cache(maxsize=8)
def _reports_in(folder: str, _changed: int) -> Sequence[Mapping[str, Any]]:
    names = [path for path in Path(folder).glob("*.*.json") if not path.name.endswith(_LOGS)]
    reports = (mapping(sidecar(path)) for path in sorted(names)[:MAX_REPORTS])
    return [report for report in reports if isinstance(report.get(_RESOLVED[0]), list)]


def submitted_model(path: Path) -> str:
    """The model of a log's submission in the experiments repository; empty if it is in none."""
    folder = path.absolute().parent
    if folder.name != _TRAJS:
        return ""
    tags = mapping(mapping(sidecar(folder.parent / "metadata.yaml")).get("tags"))
    value = tags.get("model")
    model = next((text(name) for name in (*items(value), value) if text(name)), "")
    match = _SUBMISSION.fullmatch(folder.parent.name)
    return model or (match[1] if match else "")


def _verdict(report: Mapping[str, Any], instance: str) -> bool | None:
    verdict = mapping(report.get(instance)).get("resolved")
    if isinstance(verdict, bool):
        return verdict
    lists = {name: items(ids) for name, ids in report.items()}
    resolutions = [lists[name] for name in _RESOLVED if name in lists]
    if any(instance in ids for ids in resolutions):
        return True
    if not resolutions or any(instance in lists.get(name, ()) for name in _UNDECIDED):
        return None
    return False if any(instance in ids for ids in lists.values()) else None
