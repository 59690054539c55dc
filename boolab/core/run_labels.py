"""The labels of runs and of their turns, and how many there are from each source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from boolab.core.run import Run, RunLabel
from boolab.core.text import shorten

HAND: Final = "hand"
BENCHMARK: Final = "benchmark"
"""The verdict of the benchmark that ran the agent; it is that of a log whose `success` names no other source."""
USER: Final = "user"
SCORE: Final = "score"
"""The source of a live run's success: `score=`, or the model's own."""
_WORDS: Final = {HAND: "by hand", BENCHMARK: "by the benchmark", USER: "by the user", SCORE: "by the score"}


def label_of(run: Run) -> RunLabel | None:
    """The label of a whole run; None if it has none.

    Example:
        >>> import boolab as bl
        >>> chat = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi."}]
        >>> label_of(bl.load_runs([{"messages": chat, "success": True}])[0])
        RunLabel(success=True, source='benchmark', why='', turn=None)
    """
    label = next((label for label in run.labels if label.turn is None), None)
    if label is not None and label.success == run.success:
        return label
    if run.success is None:
        return None
    scores = [f"{score.name} {score.value}" for score in run.scores[:1]]
    return RunLabel(run.success, SCORE if run.source == "boolab" else BENCHMARK, "".join(scores))


def turn_label(run: Run, turn: int) -> RunLabel | None:
    """The label of one turn of a run with several; None if it has none."""
    return next((label for label in run.labels if label.turn == turn), None)


def unit_label(run: Run, turn: int | None) -> RunLabel | None:
    """The label of a turn, or of the whole run if `turn` is None or it has no other turn; None if it has none."""
    return label_of(run) if turn is None or has_one_turn(run) else turn_label(run, turn)


def has_one_turn(run: Run) -> bool:
    """Whether a run has no second turn."""
    return not run.steps or run.steps[0].turn == run.steps[-1].turn


def source_in_words(source: str) -> str:
    """The source of a label in words, such as "by hand"."""
    return _WORDS.get(source, f"by {shorten(source)}")


def is_labelled(run: Run, *, by_turn: bool) -> bool:
    """Whether a run has a label, or, where limits count by turn, one of its turns has."""
    return run.success is not None or (by_turn and has_turn_labels(run))


def has_turn_labels(run: Run) -> bool:
    """Whether turns of a run have labels of their own."""
    return any(label.turn is not None and label.success is not None for label in run.labels)


def add_label(run: Run, label: RunLabel) -> Run:
    """The run with this label, in place of an earlier one of the same turn, or of the run."""
    others = tuple([other for other in run.labels if other.turn != label.turn])
    success = label.success if label.turn is None else run.success
    return replace(run, success=success, labels=(*others, label))


@dataclass(frozen=True)
class LabelCounts:
    """How many units are labelled, by source, and how many are not.

    Example:
        >>> print(LabelCounts({"benchmark": 41, "hand": 18}, 147))
        59 labelled: 41 by the benchmark, 18 by hand; 147 unknown
    """

    by_source: Mapping[str, int] = field(default_factory=dict)
    unknown: int = 0

    @classmethod
    def of(cls, labels: Iterable[RunLabel | None]) -> LabelCounts:
        """The counts of the labels of some units, None for one without a label."""
        sources = Counter([None if label is None or label.success is None else label.source for label in labels])
        unknown = sources.pop(None, 0)
        return cls({source: n for source, n in sources.most_common() if source is not None}, unknown)

    @property
    def labelled(self) -> int:
        """How many units are labelled."""
        return sum(self.by_source.values())

    def as_dict(self) -> dict[str, int]:
        """The numbers by source, and that of the unknown ones; "" is the source of labels in a frame."""
        return {**self.by_source, "unknown": self.unknown}

    def __str__(self) -> str:
        parts = [f"{n:,} {source_in_words(source)}" for source, n in self.by_source.items() if source]
        sources = f": {', '.join(parts)}" if parts else ""
        unknown = f"; {self.unknown:,} unknown" if self.unknown else ""
        return f"{self.labelled:,} labelled{sources}{unknown}"
