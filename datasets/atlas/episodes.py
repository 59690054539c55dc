"""Reads episodes of two repositories that have formats of their own: balrog-ai and agent-trajectory-sentinel."""  # noqa: INP001 - a script beside its data

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from boolab import Run
from boolab.core.types import StopReason, Usage
from boolab.io.json_input import Damage, items, json_document, json_lines, mapping, text, whole
from boolab.logs.builder import RunBuilder
from boolab.logs.fields import full_reward, reward_of, scores_of

BALROG_CAPS: Final[Mapping[str, frozenset[int]]] = {
    "babaisai": frozenset({100}),
    "babyai": frozenset({64, 128}),
    "minihack": frozenset({100}),
    "textworld": frozenset({80}),
}
"""The games of BALROG that can be won, with the numbers of steps after which it ends an episode."""

SENTINEL_CAP: Final = 12
"""After how many steps agent-trajectory-sentinel ends an episode without an answer, but for models of llama."""

_NOT_ACCEPTED: Final = "Your previous output"
_CALL: Final = re.compile(r"\[(\w+)\(")
_ARROW: Final = ") -> "


def read_balrog(file: Path, damage: Damage) -> list[Run]:
    """An episode of BALROG: `GAME/.../TASK_run_NN.json`, and its steps in the .csv of the same name.

    A row is a step: the action, which is its one call, and the observation after it. An episode without its .csv has no
    step. Only a `progression` of 1 is a success: less is a part of the way. An action that the environment did not
    accept is a call that failed; logs in which the observation comes first have the default in its place.
    """
    document = mapping(json_document(file, damage))
    builder = RunBuilder("balrog", damage)
    parts = file.parts[file.parts.index("submissions") + 1 :]
    kind, submission, game = parts[:3]
    builder.add_message("user", text(document.get("mission")) or text(document.get("task")), opens_turn=True)
    steps = file.with_suffix(".csv")
    if steps.exists():
        with steps.open(encoding="utf-8", errors="replace", newline="") as rows:
            for row in csv.DictReader(rows):
                reply = builder.add_response()
                reply.add_text(row["Reasoning"] or "")
                builder.add_call(reply, "", "act", {"action": row["Action"]})
                result = row["Observation"] or ""
                builder.set_result(reply, 0, result, is_error=result.lstrip().startswith(_NOT_ACCEPTED))
    success, n_steps = full_reward(document.get("progression")), len(builder.steps)
    cut = not success and n_steps in BALROG_CAPS[game]
    over: StopReason = "finished" if document.get("done") else "aborted"
    run = builder.build(
        "/".join((*parts[:3], file.stem)),
        builder.cap_stop(n_steps, "max_steps_per_episode") if cut else builder.stop(over),
        agent=text(mapping(document.get("agent")).get("type")),
        model=text(mapping(document.get("client")).get("model_id")),
        task=f"{game}/{text(document.get('task'))}",
        success=success,
        scores=scores_of({"progression": reward_of(document.get("progression"))}),
        limits={"steps": n_steps if cut else None},
    )
    return [replace(run, settings={"submission": submission, "images": kind == "VLM"})]


def read_sentinel(file: Path, damage: Damage) -> list[Run]:
    """An episode of agent-trajectory-sentinel: `CORPUS/EPISODE.jsonl`, with the corpus's `manifest.json` beside it.

    A line is a step, with at most one call. Where a line has no `tool_events`, the call and the first 100 characters of
    its result are those of its text. The settings `fault` and `fault_step` are the class of the fault and the first
    step that had it, from 1; both are absent where there is none. A fault says that a tool's result or the task was
    changed, and not that the run failed. A run is a success or not where the repository's own label of it is in
    `labels.csv` beside it: `healthy` is a success. An episode that is not in the manifest was rejected by its authors,
    and gives no run.
    """
    corpus = file.parent.name
    about = next((entry for entry in _manifest(file.parent, damage) if entry.get("file") == file.name), None)
    if about is None:
        return []
    provenance = mapping(about.get("provenance"))
    builder = RunBuilder("sentinel", damage)
    answered = False
    for _, line in json_lines(file, damage):
        step = mapping(line)
        if not builder.steps:
            builder.add_message("user", text(step.get("task")), opens_turn=True)
        reply = builder.add_response()
        reply.usage = Usage(output_tokens=whole(step.get("output_tokens")))
        answered = step.get("action") == "synthesis"
        said, calls = _calls_of(step)
        reply.add_text(said)
        for position, (name, arguments, result, failed) in enumerate(calls):
            builder.add_call(reply, "", name, arguments)
            builder.set_result(reply, position, result, is_error=failed)
    n_steps = len(builder.steps)
    cut = not answered and n_steps == SENTINEL_CAP
    label = _labels(file.parent).get(text(about.get("episode_id")), "")
    run = builder.build(
        f"{corpus}/{text(about.get('episode_id'))}",
        builder.cap_stop(n_steps, "max_steps") if cut else builder.stop("finished" if answered else "aborted"),
        agent=text(about.get("framework")) or "native",
        model=text(about.get("model")),
        task=_task_of(about, provenance) or f"{corpus}/{text(about.get('episode_id'))}",
        success=label == "healthy" if label else None,
        limits={"steps": n_steps if cut else None},
    )
    fault, onset = text(about.get("failure_class")), whole(about.get("tau"))
    settings: dict[str, Any] = {"corpus": corpus}
    if fault and onset is not None:
        settings |= {"fault": fault, "fault_step": onset + 1}
    if label:
        settings["label"] = label
    return [replace(run, settings=settings)]


def _task_of(about: Mapping[str, Any], provenance: Mapping[str, Any]) -> str:
    """The task by its name, by the digest of its text, or by the seed that made it; empty where none is recorded."""
    name, digest = text(provenance.get("task_name")) or text(about.get("task")), text(provenance.get("task_sha256"))
    if digest:
        return f"{name or 'task'}-{digest[:8]}"
    seed = whole(about.get("seed"))
    return name or (f"seed-{seed}" if seed is not None else "")


def _manifest(folder: Path, damage: Damage) -> list[Mapping[str, Any]]:
    return [mapping(entry) for entry in items(json_document(folder / "manifest.json", damage))]


def _labels(folder: Path) -> Mapping[str, str]:
    """The repository's own labels of the episodes of a corpus, by their ids."""
    path = folder / "labels.csv"
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as rows:
        return {row["episode_id"]: row["label"] for row in csv.DictReader(rows)}


def _calls_of(step: Mapping[str, Any]) -> tuple[str, list[tuple[str, object, str, bool]]]:
    """The text of a step before its calls, and of each call its name, its arguments, its result and whether it failed.

    A text has a call as `[name({...}) -> result]`.
    """
    content, failed = text(step.get("text")), step.get("error") is True
    found = list(_find_calls(content))
    said = content[: found[0][0]].rstrip() if found else content
    events = [mapping(event) for event in items(step.get("tool_events"))]
    if events:
        return said, [
            (text(event.get("name")), event.get("args"), text(event.get("result")), event.get("is_error") is True)
            for event in events
        ]
    ends = [start for start, *_ in found[1:]]
    return said, [
        (name, arguments, content[after:end].rstrip().removesuffix("]"), failed)
        for (_, name, arguments, after), end in zip(found, [*ends, None], strict=False)
    ]


def _find_calls(content: str) -> Iterator[tuple[int, str, object, int]]:
    """Where each call of a text begins, its name and its arguments, and where its result begins."""
    decoder, position = json.JSONDecoder(), 0
    while (match := _CALL.search(content, position)) is not None:
        position = match.end()
        try:
            arguments, end = decoder.raw_decode(content, position)
        except ValueError:
            continue
        if content.startswith(_ARROW, end):
            position = end + len(_ARROW)
            yield match.start(), match[1], arguments, position


READERS: Final[Mapping[str, Callable[[Path, Damage], list[Run]]]] = {"balrog": read_balrog, "sentinel": read_sentinel}
