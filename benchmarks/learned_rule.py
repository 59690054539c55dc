"""What learned rules save and keep on the atlas, and whether they keep their promises.

python benchmarks/learned_rule.py table [SET ...]      sets of the atlas, on held-out tasks, beside caps and others
python benchmarks/learned_rule.py promise [--fits N]   both promises in five made-up worlds
python benchmarks/learned_rule.py divisions [SET ...] [--fits N]
                                                       in how many sets the promise on average kept 95%, over N
                                                       divisions of the tasks into folds
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

import boolab as bl
from benchmarks.stoprulebench.first_stops import NEVER, RuleTables
from benchmarks.stoprulebench.judge import held_out_stops
from benchmarks.stoprulebench.learned import learned_baselines
from benchmarks.stoprulebench.recordings import recordings_of
from benchmarks.stoprulebench.splits import splits
from boolab.errors import SettingError
from boolab.limits.learned.features import DEFAULT
from boolab.logs.shipped import BY_NAME_ONLY, atlas_sets
from boolab.stats.intervals import ClusterBootstrap, clopper_pearson
from boolab.stats.learn.fit import fit_model
from boolab.stats.learn.report import HeldOut, judge_held_out
from boolab.stats.learn.table import FeatureTable, feature_table
from boolab.whatif.step_table import Flags, Ints
from tests.support.learned_worlds import WORLDS, fits, world

KEEP: Final = 0.95
FOLDS: Final = 5
MAX_CAPS: Final = 25
REFERENCE: Final = {
    "swebench-verified": (2.1, 6.1, 9.1),
    "intercode-sql": (30.2, 55.7, 58.4),
    "intercode-bash": (48.0, 49.6, 47.5),
}
"""One reader's figures, not checked by a second: the cap, the best fixed combination and a quick learned rule."""


def fixed_rules(runs: Sequence[bl.Run]) -> list[bl.StopRule | None]:
    """Caps, detectors over their thresholds, and each cap with each detector."""
    lengths = np.unique([run.n_steps for run in runs])
    some = lengths if len(lengths) <= MAX_CAPS else lengths[np.linspace(0, len(lengths) - 1, MAX_CAPS).astype(int)]
    caps = [bl.max_steps(int(n)) for n in some]
    detectors: list[bl.StopRule] = [
        rule
        for n in (2, 3, 4, 5, 6)
        for rule in (
            bl.doom_loop(n),
            bl.doom_loop(n, "call+result"),
            bl.cycle(None, n),
            bl.detectors.step_repeats(n, 10),
            bl.error_streak(n, on_unknown="ignore"),
            bl.detectors.same_error(n, on_unknown="ignore"),
        )
    ]
    return [*caps, *detectors, *(cap | detector for cap in caps for detector in detectors)]


def learned(confidence: float | None) -> Callable[[Sequence[bl.Run]], bl.StopRule | None]:
    """A way to choose a rule: the learned one; no limit where it is refused."""

    def choose(runs: Sequence[bl.Run]) -> bl.StopRule | None:
        try:
            return bl.learn_stop(runs, keep=KEEP, confidence=confidence, folds=0)
        except SettingError:
            return None

    return choose


def held(runs: Sequence[bl.Run], choose: Any) -> str:  # noqa: ANN401 - any chooser
    """Saved and kept on held-out tasks, with intervals over tasks."""
    found = bl.stats.crossval(runs, choose, FOLDS, keep=KEEP, progress=False)
    row = found.frame.set_index("part").loc["held out"]
    if (found.frame["rule"] == "no limit").all():
        return "refused: too few tasks"
    return " | ".join(
        span_of(*(row[f"{name}_{end}"] for end in ("share", "low", "high"))) for name in ("saved", "kept")
    )


def span_of(share: Any, low: Any, high: Any) -> str:  # noqa: ANN401 - numbers of a frame or an array
    """A share with its interval, in per cent."""
    return f"{100 * float(share):.1f} ({100 * float(low):.1f} to {100 * float(high):.1f})"


def at_exactly(table: FeatureTable, scores: Callable[[Flags], Ints]) -> float:
    """The share of steps saved, where each fold's threshold keeps just 95% of its own successes: by hindsight."""

    def learn(others: Flags) -> HeldOut:
        found = scores(others)
        peaks = np.sort(table.peaks(found)[~others & table.success])
        return HeldOut(found, int(peaks[int(np.ceil(KEEP * len(peaks) - 1e-9)) - 1]) + 1)

    judged = judge_held_out(table, FOLDS, 0, learn)
    assert judged is not None
    return 100 * float(judged.saved.sum() / table.steps.sum())


def without_promise(table: FeatureTable) -> str:
    """As `held`, of a threshold that keeps 95% of the training successes, each scored by a model without its task."""

    def learn(others: Flags) -> HeldOut:
        part = table.take(np.flatnonzero(others), np.unique(table.task[others], return_inverse=True)[1])
        inner = judge_held_out(
            part, FOLDS, 1, lambda some: HeldOut(part.scores(fit_model(part, some, "logistic", 0)), 0)
        )
        assert inner is not None
        peaks = np.sort(part.peaks(inner.score)[part.success])
        bound = int(peaks[int(np.ceil(KEEP * len(peaks) - 1e-9)) - 1])
        return HeldOut(table.scores(fit_model(table, others, "logistic", 0)), bound + 1)

    judged = judge_held_out(table, FOLDS, 0, learn)
    assert judged is not None
    bootstrap = ClusterBootstrap(table.task)
    saved = bootstrap.share(judged.saved, table.steps)
    kept = bootstrap.share(judged.kept & table.success, table.success)
    return " | ".join(span_of(one.value, one.low, one.high) for one in (saved, kept))


def runs_of(name: str) -> list[bl.Run]:
    """The runs of a set of the atlas; an error if none of them is a success."""
    runs = list(bl.load_dataset(f"atlas/{name}"))
    if not any(run.success for run in runs):
        raise SettingError(f"{name}: no run has the label of a success, so that no rule can be learned from it")
    return runs


def rows_of(name: str) -> Iterator[tuple[str, str]]:
    """What each way to choose a rule does on a set."""
    runs = runs_of(name)
    table = feature_table(runs, DEFAULT, (), "auto", "task")
    steps = np.concatenate([np.arange(1, n + 1) for n in table.steps.tolist()])
    yield "K95 of the training tasks", held(runs, bl.stats.smallest_cap(KEEP))
    yield "best fixed rule of the training tasks", held(runs, bl.stats.best_rule(fixed_rules(runs), KEEP))
    yield "learned, K95 of the training tasks", without_promise(table)
    yield "learned, on average over rules", held(runs, learned(None))
    yield "learned, 90% sure of this rule", held(runs, learned(0.9))
    yield "hindsight: cap at 95% kept", f"{at_exactly(table, lambda _: steps):.1f} | 95"
    fitted = at_exactly(table, lambda others: table.scores(fit_model(table, others, "logistic", 0)))
    yield "hindsight: learned at 95% kept", f"{fitted:.1f} | 95"


def print_table(names: Sequence[str]) -> None:
    """Print the rows of each set."""
    for name in names:
        start = time.perf_counter()
        print(f"\n{name}: per cent of steps saved | of successes kept (95% intervals over tasks)")
        for way, figures in rows_of(name):
            print(f"  {way:40} {figures}", flush=True)
        if name in REFERENCE:
            cap, fixed, quick = REFERENCE[name]
            print(f"  {'reference figures':40} cap {cap}, fixed {fixed}, learned {quick}")
        print(f"  {time.perf_counter() - start:.0f} s")


def print_promises(number: int) -> None:
    """Print how often rules keep what they promise, in each world."""
    print(f"{number:,} rules each, learned from 150 tasks, keep={KEEP}")
    for name in WORLDS:
        table = world(name)
        for confidence in (0.9, None):
            start = time.perf_counter()
            found = np.array([*fits(table, confidence, number, keep=KEEP, tasks=150)])
            seconds = f"{time.perf_counter() - start:.0f} s"
            saved, low = found[:, 2].mean(), int((found[:, 0] < KEEP).sum())
            if confidence is None:
                mean, error = found[:, 1].mean(), found[:, 1].std() / np.sqrt(len(found))
                what = f"a success is kept with probability {mean:.2%} +- {1.96 * error:.2%}"
            else:
                interval = clopper_pearson(low, len(found))
                what = f"{low} of {len(found)} keep less: {span_of(low / len(found), interval.low, interval.high)}"
            print(f"{name:30} confidence={confidence!s:4}  {what:62} saves {saved:.1%}  {seconds}", flush=True)


def kept_in_division(runs: Sequence[bl.Run], number: int) -> dict[str, float]:
    """What the promise on average keeps in each set, within a set, on one division of the tasks into folds.

    Args:
        runs: Labelled runs.
        number: Which division: 0 is that of StopRuleBench.
    """
    fixed = splits()
    data = recordings_of(runs, "runs", at=replace(fixed, salt=f"{fixed.salt} {number}") if number else fixed)
    (entry,) = (one for one in learned_baselines("") if one.confidence is None)
    stops, _ = held_out_stops(entry.prepare(data, RuleTables(data.runs)), data, "within")
    kept = stops[0] == NEVER
    successes = ((name, data.success & (data.set_of == place)) for place, name in enumerate(data.sets))
    return {name: float(kept[rows].mean()) for name, rows in successes}


def print_divisions(names: Sequence[str], number: int) -> None:
    """Print in how many sets the promise on average kept 95%, over divisions of the tasks into folds."""
    runs = [run for name in names for run in runs_of(name)]
    found = []
    for division in range(number):
        found.append(kept_in_division(runs, division))
        enough = sum(share >= KEEP for share in found[-1].values())
        print(f"division {division}: kept {KEEP:.0%} in {enough} of {len(found[-1])} sets", flush=True)
    for name in found[0]:
        shares = np.array([one[name] for one in found])
        enough = (shares >= KEEP).sum()
        print(f"{name:20} kept {shares.mean():.1%} on average ({shares.min():.1%} to {shares.max():.1%}), "
              f"{KEEP:.0%} or more in {enough} of {number} divisions")  # fmt: skip


def main(words: Sequence[str] | None = None) -> None:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(description="Measure learned rules.")
    parser.add_argument("what", choices=["table", "promise", "divisions"])
    parser.add_argument("sets", nargs="*", help="sets of the atlas; by default those of its first edition")
    parser.add_argument("--fits", type=int, default=400)
    arguments = parser.parse_args(words)
    if arguments.what == "promise":
        print_promises(arguments.fits)
        return
    names = arguments.sets or [name.removeprefix("atlas/") for name in atlas_sets() if name not in BY_NAME_ONLY]
    try:
        if arguments.what == "divisions":
            print_divisions(names, arguments.fits)
        else:
            print_table(names)
    except SettingError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
