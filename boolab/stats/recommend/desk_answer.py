"""The answer of the desk as `recommend` takes it: the values that are shown to keep enough, and the labels asked for.

Half of the answer is not recomputed: which values keep enough was shown by the test of the desk, and a plain test of
the same labels would be wrong, because short units were drawn and long ones were not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from boolab.core.run import Run, RunLabel
from boolab.core.run_labels import HAND, add_label, label_of, turn_label
from boolab.core.text import count
from boolab.core.types import Identities, Scope
from boolab.errors import SettingError
from boolab.io.files import user_path
from boolab.logs.outcomes.label_file import NAME, read_labels
from boolab.stats.desk.words import value_in_words
from boolab.stats.recommend.desk_session import Desk
from boolab.stats.recommend.question import DeskAnswer


def desk_answer(
    runs: Sequence[Run], scope: Scope = "auto", identity: Identities | None = None, desk: Desk | None = None
) -> DeskAnswer:
    """The answer of the desk whose file stands beside the logs of some runs.

    Args:
        runs: The runs, as `load_runs` read them.
        scope: See `counterfactual`.
        identity: See `counterfactual`.
        desk: The desk, where its file is elsewhere.

    Returns:
        The answer.

    Raises:
        SettingError: if there is no such file, or several; if it holds no question; or if the runs are of several
            agents, because one answer for all of them shows nothing of each.
    """
    desk = desk or Desk(runs, _file_of(runs), scope=scope, identity=identity)
    desk.check_agents()
    state, units, design = desk.state, desk.units, desk.design
    shown = {axis: sum(v.axis == axis and v.verdict == "yes" for v in state.values) for axis in design.values}
    is_asked = dict(zip(units.prints, units.is_asked().tolist(), strict=True))
    tight = np.any([long.any(axis=1) for long in units.is_long.values()], axis=0)
    is_long = dict(zip(units.prints, tight.tolist(), strict=True))
    labelled = {run.run_id: replace(run, success=None, labels=()) for run in runs}
    n_labels = weight = 0.0
    for row, (run, unit, print_) in enumerate(zip(desk.recorded.runs, desk.recorded.units, desk.prints, strict=True)):
        outcome = desk.answers.get(print_, "unknown") if is_asked.get(print_) else "unknown"
        if outcome == "unknown":
            continue
        success = outcome == "success"
        label = desk.labels.get(row) or (turn_label(run, unit.turn) if unit.turn else None) or label_of(run)
        source = HAND if label is None else label.source
        turn = None if desk.recorded.is_run(row) else unit.turn
        labelled[run.run_id] = add_label(labelled[run.run_id], RunLabel(success, source, "", turn))
        n_labels += success
        weight += success / (1 if is_long[print_] else design.pi)
    answers = f"{count(state.n_answers, 'answer')} at the desk, in {desk.file.path}."
    return DeskAnswer(
        runs=[labelled[run.run_id] for run in runs],
        values=design.values,
        shown=shown,
        keep=design.keep,
        confidence=design.confidence,
        successes_per_label=weight / n_labels if n_labels else 1.0,
        sentences=(*(value_in_words(v, design) for v in state.values if v.verdict != "waiting"), answers),
    )


def _file_of(runs: Sequence[Run]) -> Path:
    """The file of labels beside the logs of runs."""
    folders = {folder for run in runs if run.path for folder in list(user_path(run.path).parents)[:3]}
    files = [folder / NAME for folder in sorted(folders) if (folder / NAME).is_file()]
    files = [file for file in files if read_labels(file).header.get("question")]
    if len(files) != 1:
        what = f"{count(len(files), 'file')} {NAME} with a question" if files else f"no file {NAME} with a question"
        raise SettingError(f"labels='desk': there is {what} beside these logs: boolab label LOGS asks, and makes one")
    return files[0]
