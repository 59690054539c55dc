"""The desk as a widget: one unit at a time, keys to answer, what the answers show, and the run in Replay below."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import ipywidgets

from boolab.core.run import Run
from boolab.core.text import count
from boolab.core.types import Identities, Scope
from boolab.errors import BoolabError, SettingError
from boolab.frames.runs import Runs, as_runs
from boolab.io.files import user_name, user_path
from boolab.logs.outcomes.frame import check_sources
from boolab.logs.outcomes.label_file import NAME, OutcomeWord, file_beside
from boolab.stats.desk.card import UnitCard
from boolab.stats.desk.state import DeskState
from boolab.stats.desk.words import more_in_words
from boolab.stats.finding import Finding
from boolab.stats.recommend.desk_dialog import OUTCOME_OF_KEY, Dialog
from boolab.stats.recommend.desk_evidence import add_frame, add_sources, evidence_lines
from boolab.stats.recommend.desk_session import AskedUnit, Desk
from boolab.stats.recommend.desk_status import finding_of, plan_lines, status_lines
from boolab.widgets._base.standalone_html import PagePart
from boolab.widgets._base.widget import Shown, View, png_of
from boolab.widgets.labeler.data import dialog_data, state_data
from boolab.widgets.replay.widget import Replay

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_OUTCOMES: Final[Mapping[str, OutcomeWord]] = {**OUTCOME_OF_KEY, **{word: word for word in OUTCOME_OF_KEY.values()}}
_ASKING_KEYS: Final = frozenset({*OUTCOME_OF_KEY, "z", "w", "e"})


class _DeskView(View, module="labeler"):
    """The question, the keys, and what the answers show."""


class Labeler(Shown, ipywidgets.VBox):  # type: ignore[misc] # ipywidgets has no types
    """The desk: asks which units of recorded runs were successes, few and well chosen; the run is below, in Replay.

    All units that a value would stop are asked about, and a drawn share of the others, until an exact test shows what
    the value keeps. Values, share and order are fixed before the first question. Each answer is on the disk before the
    next unit is shown; `boolab label` asks the same in a terminal, from the same file, and several people may share it.

    Args:
        runs: The runs, or the path of logs or of a store.
        values: The values of each axis, from loose to tight, such as `{"max_steps": [60, 45, 30]}`; by default those of
            the file, or step caps from the lengths of the units.
        labels: The file of labels. By default `boolab-labels.jsonl` beside the logs.
        criterion: What a success is, in your words; asked for in the widget if it is not in the file yet.
        keep: The share of successes to keep; by default that of the file, or 0.95.
        confidence: That of all verdicts together; by default that of the file, or 0.95.
        pi: The share of the units that no value would stop to ask about; by default that of the file, or by their
            number.
        who: Who answers; by default the name of the user.
        evidence: What is shown after each answer: sources of `bl.outcomes` to look for, such as `["git", "tests"]`, or
            a frame of `bl.outcomes` or `bl.judge`. It changes neither what is asked nor any count, and is kept in the
            file.
        trust: Sources of evidence that count as labels.
        scope: See `counterfactual`.
        identity: See `counterfactual`.

    Raises:
        SettingError: if the file has answers to another question, its order is not that of its seed, or `evidence` has
            an unknown source, or labels.

    Example:
        >>> import boolab as bl
        >>> import tempfile
        >>> runs = [bl.run_sync(None, f"Task {n}", model=bl.ScriptedModel(["Done."])) for n in range(3)]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     desk = bl.Labeler(runs, {"max_steps": [5]}, labels=f"{folder}/labels.jsonl", criterion="tests pass")
        ...     _ = desk.ask()
        ...     _ = desk.answer("s")
        ...     (desk, desk.state.n_answers)
        (Labeler(1 answer; about 2 more, at most 2), 1)
    """

    def __init__(
        self,
        runs: Runs,
        values: Mapping[str, Sequence[Any]] | None = None,
        *,
        labels: str | Path | None = None,
        criterion: str = "",
        keep: float | None = None,
        confidence: float | None = None,
        pi: float | None = None,
        who: str | None = None,
        evidence: Sequence[str] | pd.DataFrame = (),
        trust: Sequence[str] = (),
        scope: Scope = "auto",
        identity: Identities | None = None,
    ) -> None:
        self._runs_to_label = as_runs(runs)
        self._desk = Desk(
            self._runs_to_label,
            _file_of(runs, self._runs_to_label) if labels is None else labels,
            values,
            keep=keep,
            confidence=confidence,
            pi=pi,
            who=user_name() if who is None else who,
            trust=trust,
            scope=scope,
            identity=identity,
        )
        self._evidence = evidence
        if isinstance(evidence, str):
            raise SettingError(f"evidence={evidence!r}: expected a list of sources, such as ['tests'], or a frame")
        if isinstance(evidence, Sequence):
            check_sources(evidence)
        self._dialog: Dialog | None = None
        self._replay: Replay | None = None
        self._is_paused = False
        self._fault = ""
        self._n_draws = 0
        self._below = ipywidgets.VBox()
        if criterion or self._desk.criterion or self._desk.file.has_answers:
            self._start(criterion)
        self._view = _DeskView(self._live_data())
        self._view.on_msg(self._on_message)
        super().__init__([self._view, self._below])
        self.add_class("boolab-whole").add_class("boolab-labeling")
        self._show_run()

    # --- Without a browser

    def ask(self) -> UnitCard | None:
        """Return what there is to see of the unit that is asked about.

        Returns:
            Its `prompt`, `message` (the last text of the model), `files` (those that changed), `test_output` (the last
            one) and `n_steps`; None if no question is open.

        Raises:
            SettingError: if there is no criterion yet.
        """
        return self._asking().card

    def answer(self, outcome: str, note: str = "") -> UnitCard | None:
        """Write the answer about the unit that is asked about; it is on the disk when this returns.

        Args:
            outcome: "s" or "success", "f" or "failure", "u" or "unknown" (unsure).
            note: A note to keep with the answer.

        Returns:
            The next unit, as `ask` has it.

        Raises:
            SettingError: if it is no outcome, no question is open, or the file cannot be written.
        """
        dialog = self._asking()
        word = _OUTCOMES.get(outcome)
        if word is None:
            raise SettingError(f"outcome={outcome!r} is not known; accepted: {', '.join(_OUTCOMES)}")
        dialog.note = note or dialog.note
        dialog.answer(word)
        self._draw()
        return dialog.card

    def undo(self) -> UnitCard | None:
        """Take back your last answer.

        Returns:
            The unit that is asked about now, as `ask` has it.

        Raises:
            SettingError: if there is no criterion yet, or the file cannot be written.
        """
        self._asking().undo()
        self._draw()
        return self.ask()

    @property
    def state(self) -> DeskState:
        """What the answers show of each value, the next units, and how many more answers it takes."""
        return self._desk.state

    @property
    def found(self) -> Finding:
        """What the answers show: a row and a sentence for each value, and where the answers are from."""
        return finding_of(self._desk)

    @property
    def question(self) -> AskedUnit | None:
        """The run and the unit that are asked about; None before the criterion, and if nothing is open."""
        return None if self._dialog is None else self._dialog.question

    @property
    def replay(self) -> Replay | None:
        """The run that is shown below, at the end of the unit."""
        return self._replay

    def _start(self, criterion: str) -> None:
        self._desk.start(criterion)
        if not isinstance(self._evidence, Sequence):
            add_frame(self._desk, self._evidence)
        elif self._evidence:
            add_sources(self._desk, self._evidence)
        self._dialog = Dialog(self._desk)

    def _asking(self) -> Dialog:
        if self._dialog is None:
            msg = (
                "there is no criterion yet: pass criterion='tests pass and I would merge it', or write it in the widget"
            )
            raise SettingError(msg)
        return self._dialog

    # --- The view

    def _on_message(self, _: object, content: Mapping[str, Any], __: object) -> None:
        self._fault = ""
        try:
            self._take(str(content.get("key")), str(content.get("unit")), str(content.get("text", "")))
        except BoolabError as error:  # such as a full disk: the unit is still the one that is asked about
            self._fault = str(error)
        self._draw()

    def _take(self, key: str, unit: str, text: str) -> None:
        """Do what a key of the view does, if the unit that it is about is still the one that is asked about."""
        dialog = self._dialog
        if dialog is None:
            if key == "start":
                self._start(text.strip())
            return
        is_current = dialog.question is not None and dialog.question.print == unit
        if key == "q":
            self._is_paused = not self._is_paused
        elif key == "note" and is_current:
            dialog.note = text.strip()
        elif key in _ASKING_KEYS and (is_current or key not in OUTCOME_OF_KEY) and not self._is_paused:
            dialog.press(key)

    def _draw(self) -> None:
        self._n_draws += 1
        self._view.show(self._live_data())
        self._show_run()

    def _show_run(self) -> None:
        """Have Replay show the run of the unit, at its end; what its outcome was, or would be, is not in it."""
        question = None if self._is_paused else self.question
        old_replay = self._replay
        if question is not None and old_replay is not None and old_replay.run.run_id == question.run.run_id:
            old_replay.step = question.unit.last_step
            return
        self._replay = None
        if question is not None:
            run = replace(question.run, success=None, labels=(), scores=())
            self._replay = Replay(run, step=max(1, question.unit.last_step), policies=[], runs=self._runs_to_label)
        self._below.children = () if self._replay is None else (self._replay,)
        if old_replay is not None:
            old_replay.close()  # otherwise the kernel and the page would keep every run that was ever asked about

    def _live_data(self) -> dict[str, Any]:
        dialog = self._dialog
        return {
            **state_data(self._desk),
            "phase": "criterion" if dialog is None else "paused" if self._is_paused else "asking",
            "question": None if dialog is None or self._is_paused else dialog_data(dialog),
            "messages": [] if dialog is None else dialog.messages,
            "plan": []
            if dialog is None
            else [*plan_lines(self._desk), *([] if self._n_draws else evidence_lines(self._desk))],
            "fault": self._fault,
            "draws": self._n_draws,  # so that each key has an answer, also where nothing changes
        }

    def _parts(self) -> list[PagePart]:
        """A page has the state alone: no kernel takes answers there, and no text of a run leaves with it."""
        still: dict[str, Any] = {
            "phase": "state",
            "question": None,
            "messages": [],
            "plan": [],
            "fault": "",
            "draws": 0,
        }
        return [PagePart("labeler", {**state_data(self._desk), **still})]

    def _title(self) -> str:
        if self._dialog is None:
            return f"{count(len(self._desk.recorded.units), self._desk.recorded.noun)}, no question yet"
        return f"{count(self.state.n_answers, 'answer')}; {more_in_words(self.state)}"

    def _text(self) -> str:
        return "\n".join(status_lines(self._desk))

    def _picture(self) -> bytes:
        values = state_data(self._desk)["values"][::-1]

        def draw(figure: Figure) -> None:
            axes = figure.subplots()
            axes.barh(range(len(values)), [value["bound"] for value in values])
            axes.set_yticks(range(len(values)), [f"{value['label']}: {value['word']}" for value in values])
            axes.axvline(self._desk.design.keep, color="0.3", linewidth=1)
            axes.set_xlim(0, 1)
            axes.set_xlabel("share of the successes that is shown to be kept")

        return png_of(draw, (7.2, 1.0 + 0.34 * len(values)))


def _file_of(runs: Runs, loaded_runs: Sequence[Run]) -> Path:
    """The file of labels beside the logs: that of a folder above them, if there is one already."""
    if isinstance(runs, str | Path):
        return file_beside(runs)
    paths = [user_path(run.path).absolute() for run in loaded_runs if run.path]
    if not paths:
        return Path(NAME)
    common = Path(os.path.commonpath([path.parent for path in paths]))
    return next((folder / NAME for folder in (common, *common.parents) if (folder / NAME).is_file()), common / NAME)
