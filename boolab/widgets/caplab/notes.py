"""The sample, and what is missing in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from boolab.core.text import count
from boolab.limits.table import LIMITS, MEASURES
from boolab.whatif.step_table import LABEL, Ledger


def notes_of(
    ledger: Ledger, sums: Mapping[str, int], measure: str, objective: str, *, n_runs: int, noun: str, turns: bool
) -> Iterable[str]:
    """What is to be known of the runs and of what is saved, a sentence each."""
    n = ledger.n_runs
    tasks = ledger.runs["task"].replace("", None).nunique()
    of_turns = f" with {count(n, 'turn')}" if noun == "turn" else ""
    yield f"{count(n_runs, 'run')}{of_turns}, {count(int(tasks), 'task') if tasks else 'tasks not named'}."
    if not n:
        return
    if ledger.success_by != LABEL:
        yield (
            f"No run has a label. A proxy stands in for success: the {noun} ended by itself. The proxy does not show "
            "whether the work was good."
        )
    elif unlabelled := int((ledger.success < 0).sum()):
        yield f"{count(unlabelled, 'run')} without a label: counted in what is saved, not in what is kept."
    if cut := int((~ledger.terminated).sum()):
        won = count(int(((ledger.success == 1) & ~ledger.terminated).sum()), "success", "successes")
        broken = ", with an error, or by an interruption" if noun == "turn" else ", or with an error"
        yield (
            f"{count(cut, noun)} ended at a limit of the recording{broken} ({won} "
            f"among them), and {'keeps its' if cut == 1 else 'keep their'} recorded outcome: a looser limit changes "
            "nothing here."
        )
    if measure != objective:
        known = int((ledger.used[objective] >= 0).sum())
        few = (
            f"Only {known:,} of {count(ledger.n_steps, 'step')} have a known" if known else "The source does not record"
        )
        yield f"{few} {MEASURES[objective].label}: what is saved is counted in {MEASURES[measure].label}."
    elif left := sums.get(f"n_unknown_{measure}", 0):
        yield f"{count(left, noun)} of unknown {MEASURES[measure].label} left out of what is saved."
    if turns:
        yield (
            "Each turn is limited by itself, and later turns stand as recorded: what is saved of tokens and cost "
            "is an estimate where a turn is stopped that others follow."
        )


def skipped_values(options: Mapping[str, Sequence[int | None]], whole: Mapping[str, bool]) -> Iterable[str]:
    """Which sliders have not all whole numbers, and how many they have."""
    some = [
        f"{len(values) - 1:,} up to {values[-2]:,} ({LIMITS[name].label})"
        for name, values in options.items()
        if not whole[name]
    ]
    if some:
        yield f"The sliders skip values of a long range: {', '.join(some)}."
