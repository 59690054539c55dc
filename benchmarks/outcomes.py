"""What the desk asks for and shows, in worlds whose truth is known: wrong answers, and how many answers it takes.

A unit is a success with some chance; the cap would stop (is long for) a share of the successes, which it loses, and of
the failures. Each record is decided by the code that the desk runs. Figures that the specification of the desk has are
beside ours, with the verdict whether both agree within three standard errors of the two simulations; that of the
specification had at least 200 records.

*All* labels every unit, and tests as `recommend` does. *Count* labels all long units and then short ones in a good
order, with bounds for what is unknown. *Random* labels units in a random order, with the marks of pi = 1. *Desk* asks
for all long units and a share pi of the short ones.

Usage: python -m benchmarks.outcomes [--records 1000] [--write] [PART ...]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.results import Row, argument_parser, publish
from boolab import load_dataset, runs_df
from boolab.stats.desk.design import draw_units, propose_values
from boolab.stats.desk.marks import FAILURE, SUCCESS, UNSURE, Verdicts, judge_records, marks_up_to
from boolab.stats.kept_share import independent_chance

Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
KEEP: Final = 0.95
ERROR: Final = 0.05
SPECIFICATION_RECORDS: Final = 200
SETS: Final = (
    "tau-airline", "tau2-retail", "tau2-telecom", "swebench-verified", "intercode-python", "intercode-sql",
)  # fmt: skip


class World(NamedTuple):
    """Units that are drawn independently: a success with chance `success`, long with a chance that depends on that."""

    units: int
    kept: float
    success: float = 0.6
    long_failures: float = 0.3

    def draw(self, rng: np.random.Generator, records: int) -> tuple[Flags, Flags]:
        """Whether each unit is long, and whether it is a success: shape (records, units)."""
        is_success = rng.random((records, self.units)) < self.success
        chance = np.where(is_success, 1 - self.kept, self.long_failures)
        return rng.random((records, self.units)) < chance, is_success


class Answer(NamedTuple):
    """Of each record: whether it is a yes, whether it is a no, and how many answers it took."""

    is_yes: Flags
    is_no: Flags
    n_answers: Ints


# --- The methods ------------------------------------------------------------------------------------------------------


def by_desk(rng: np.random.Generator, is_long: Flags, outcomes: npt.NDArray[np.generic], pi: float) -> Answer:
    """The desk's answer: units are in a random order, as they were drawn."""
    is_asked = is_long | (rng.random(is_long.shape) < pi)
    verdicts = judge_records(outcomes, is_long, is_asked, KEEP, pi, ERROR)
    return Answer(verdicts.is_yes | verdicts.is_end_yes, verdicts.is_no, _answers_up_to(is_asked, verdicts))


def by_all(is_long: Flags, is_success: Flags) -> Answer:
    """All units are labelled, and the test is that of Clopper and Pearson."""
    lost, n = (is_long & is_success).sum(axis=1), is_success.sum(axis=1)
    is_yes = independent_chance(lost, n, KEEP) <= ERROR
    return Answer(is_yes, ~is_yes, np.full(len(lost), is_long.shape[1]))


def by_count(rng: np.random.Generator, is_long: Flags, is_success: Flags, *, knows: bool = True) -> Answer:
    """All long units, then short ones, those first for which evidence is good: right in 85 to 90% of 80% of them."""
    shape = is_long.shape
    speaks_for = np.where(is_success, rng.random(shape) < 0.9, rng.random(shape) < 0.15)
    evidence = np.where(rng.random(shape) < 0.2, 0.5, speaks_for) if knows else np.ones(shape)
    order = np.argsort(is_long - evidence + 0.1 * rng.random(shape) + 9 * is_long, axis=1)
    kept = np.cumsum(np.take_along_axis(is_success & ~is_long, order, axis=1), axis=1)
    lost = (is_long & is_success).sum(axis=1)
    needed = _kept_needed(int(lost.max()), shape[1])[lost]
    is_yes = kept[:, -1] >= needed
    short = np.argmax(kept >= needed[:, None], axis=1) + 1
    return Answer(is_yes, ~is_yes, np.where(is_yes, is_long.sum(axis=1) + short, shape[1]))


@cache
def _kept_needed(lost_max: int, kept_max: int) -> Ints:
    """The least number of kept successes that passes, for each number of lost ones."""
    kept, lost = np.meshgrid(np.arange(kept_max + 1), np.arange(lost_max + 1))
    passes = independent_chance(lost, kept + lost, KEEP) <= ERROR
    return np.where(passes.any(axis=1), passes.argmax(axis=1), kept_max + 1).astype(np.int64)


def _answers_up_to(is_asked: Flags, verdicts: Verdicts) -> Ints:
    n_asked = np.cumsum(is_asked, axis=1, dtype=np.int64)
    return np.take_along_axis(n_asked, verdicts.position[:, None], axis=1)[:, 0]


# --- Figures beside the specification's -------------------------------------------------------------------------------


def share_row(
    what: str,
    flags: Flags,
    expected: float | None = None,
    *,
    is_promise: bool = False,
    at_least: float | None = None,
    more: str = "",
    spec_records: int = SPECIFICATION_RECORDS,
) -> Row:
    """A share of records, and whether it agrees with the specification's; a promise may be off by three errors."""
    share, n = float(np.mean(flags)), len(flags)
    detail = [more] if more else []
    limit = round(100 * (ERROR + 3 * (ERROR * (1 - ERROR) / n) ** 0.5), 1) if is_promise else None
    if expected is not None:
        middle = min(max((share + expected) / 2, 0.005), 0.995)
        error = (middle * (1 - middle) * (1 / n + 1 / spec_records)) ** 0.5
        detail.append(f"specification {100 * expected:g}: {_verdict(abs(share - expected) <= 3 * error + 0.005)}")
    return Row(what, 100 * share, "%", limit, at_least, "; ".join(detail))


def answer_row(what: str, answer: Answer, expected: tuple[float, int], *, for_no: bool = False) -> Row:
    """The share of records with an answer, and the median number of answers that these took."""
    flags = answer.is_no if for_no else answer.is_yes
    share, needed = expected
    row = share_row(what, flags, share)
    if not flags.any():
        return row._replace(detail=f"{row.detail}; no record has it, specification {needed:,}")
    taken = answer.n_answers[flags]
    spread = 1.5 * (1 / max(share * SPECIFICATION_RECORDS, 9) + 1 / len(taken)) ** 0.5
    low, high = np.quantile(taken, [max(0.0, 0.5 - spread), min(1.0, 0.5 + spread)])
    verdict = _verdict(low - 1 <= needed <= high + 1)
    return row._replace(detail=f"{row.detail}; {np.median(taken):,.0f} answers, specification {needed:,}: {verdict}")


def _verdict(agrees: bool) -> str:
    return "agrees" if agrees else "DIFFERS"


# --- Tables -----------------------------------------------------------------------------------------------------------


def promise(records: int) -> Iterator[Row]:
    """Wrong answers where the cap keeps just what is promised, or a little less."""
    rng = np.random.default_rng(1)
    for units, yes, no in ((300, 0.036, 0.042), (600, 0.039, 0.042), (1000, 0.038, 0.044)):
        answer = by_desk(rng, *World(units, 0.95).draw(rng, 3 * records), 0.25)
        label = f"keeps 0.95, {units:,} units"
        yield share_row(f"{label}: yes", answer.is_yes, yes, is_promise=True, spec_records=3000)
        yield share_row(f"{label}: no", answer.is_no, no, is_promise=True, spec_records=3000)
    worlds = {
        "success 0.2, 800 units": World(800, 0.949, success=0.2),
        "success 0.9, 400 units": World(400, 0.949, success=0.9),
        "half of all units long, 400": World(400, 0.949, success=0.4, long_failures=0.9),
        **{f"{units:,} units": World(units, 0.949) for units in (150, 400, 800, 1500)},
    }
    for label, world in worlds.items():
        is_long, is_success = world.draw(rng, records)
        for pi in (0.25, 0.1):
            yield share_row(
                f"keeps 0.949, {label}, pi {pi}: yes",
                by_desk(rng, is_long, is_success, pi).is_yes,
                is_promise=True,
                more="specification 2.1 to 4.4",
            )
    for label, outcomes in _faults(rng, *World(400, 0.949).draw(rng, records)):
        yield share_row(f"keeps 0.949, {label}: yes", by_desk(rng, *outcomes, 0.25).is_yes, is_promise=True)
    is_long, is_success = World(900, 0.95).draw(rng, 3 * records)
    yield share_row(
        "keeps 0.95, closed as soon as it passes: yes",
        _closed_when_it_passes(rng, is_long, is_success),
        0.158,
        at_least=100 * ERROR,
        spec_records=3000,
    )


def _closed_when_it_passes(rng: np.random.Generator, is_long: Flags, is_success: Flags) -> Flags:
    """Whether the test at the end gives a yes at any number of answers: what is refused."""
    is_asked = (is_long | (rng.random(is_long.shape) < 0.25)) & is_success
    n, lost = np.cumsum(is_asked, axis=1), np.cumsum(is_asked & is_long, axis=1)
    marks = marks_up_to(int(n.max()), KEEP, 0.25, ERROR)
    return np.asarray((is_asked & (lost <= marks.end_losses[n])).any(axis=1))


def _faults(
    rng: np.random.Generator, is_long: Flags, is_success: Flags
) -> Iterator[tuple[str, tuple[Flags, npt.NDArray[np.generic]]]]:
    """Answers with faults: wrong ones, and unsure ones."""
    for wrong in (0.01, 0.03, 0.1):
        yield f"{wrong:.0%} wrong answers", (is_long, is_success ^ (rng.random(is_long.shape) < wrong))
    outcomes = np.where(is_success, SUCCESS, FAILURE)
    yield "10% unsure", (is_long, np.where(rng.random(is_long.shape) < 0.1, UNSURE, outcomes))


ANSWERS: Final[Mapping[World, Sequence[tuple[float, int]]]] = {
    World(150, 0.999): ((0.95, 150), (0.95, 82), (0.95, 142), (0.91, 47), (0.71, 31)),
    World(600, 0.999): ((1, 600), (1, 140), (1, 144), (1, 52), (1, 38)),
    World(150, 0.99): ((0.57, 150), (0.57, 85), (0.52, 145), (0.52, 49), (0.45, 32)),
    World(300, 0.99): ((0.92, 300), (0.92, 140), (0.90, 157), (0.88, 71), (0.80, 45)),
    World(1000, 0.99): ((1, 1000), (1, 370), (1, 214), (1, 78), (1, 58)),
    World(300, 0.98): ((0.67, 300), (0.67, 239), (0.62, 289), (0.54, 91), (0.46, 54)),
    World(600, 0.98): ((0.89, 600), (0.89, 351), (0.89, 425), (0.84, 151), (0.79, 103)),
    World(1000, 0.98): ((1, 1000), (1, 534), (1, 441), (0.98, 192), (0.94, 121)),
    World(1000, 0.99, success=0.2): ((0.98, 1000), (0.98, 419), (0.98, 669), (0.91, 314), (0.86, 225)),
    World(300, 0.99, success=0.9): ((1, 300), (1, 144), (0.99, 144), (0.98, 42), (0.94, 21)),
    World(600, 0.999, success=0.4, long_failures=0.9): (
        (1, 600), (1, 391), (1, 218), (1, 148), (1, 160),
    ),
}  # fmt: skip
"""The specification's shares of yes and median answers: all, count, random, desk with pi 0.25 and 0.1."""


def answers(records: int) -> Iterator[Row]:
    """How many answers it takes until "the cap keeps 95%"; and until it keeps less."""
    rng = np.random.default_rng(2)
    for world, expected in ANSWERS.items():
        is_long, is_success = world.draw(rng, records)
        given = (
            by_all(is_long, is_success),
            by_count(rng, is_long, is_success, knows=world.success != 0.9),
            by_desk(rng, is_long, is_success, 1.0),
            by_desk(rng, is_long, is_success, 0.25),
            by_desk(rng, is_long, is_success, 0.1),
        )
        label = f"keeps {world.kept}, {world.units:,} units"
        label += f", success {world.success}" if world.success != 0.6 else ""
        for method, answer, pair in zip(
            ("all", "count", "random", "desk 0.25", "desk 0.1"), given, expected, strict=True
        ):
            yield answer_row(f"{label}: {method}", answer, pair)
    for kept, expected_no in ((0.85, (1, 27)), (0.9, (0.87, 67)), (0.93, (0.25, 68))):
        answer = by_desk(rng, *World(600, kept).draw(rng, records), 0.25)
        yield answer_row(f"keeps {kept}, 600 units, desk 0.25: no", answer, expected_no, for_no=True)
    expected_shares = (0.98, 0.94, 0.41, 0.29)
    faults = _faults(rng, *World(600, 0.99).draw(rng, records))
    for (label, outcomes), share in zip(faults, expected_shares, strict=True):
        yield share_row(f"keeps 0.99, 600 units, {label}: yes", by_desk(rng, *outcomes, 0.25).is_yes, share)


# --- Clusters ---------------------------------------------------------------------------------------------------------


def clusters(records: int) -> Iterator[Row]:
    """Tasks with several runs: by runs, and one run of each task."""
    rng = np.random.default_rng(3)
    is_long, is_success = _tasks_of_4(rng, records, 200)
    mixed = rng.permuted(np.arange(800)[None].repeat(records, 0), axis=1)
    long, success = (np.take_along_axis(flags, mixed, axis=1) for flags in (is_long, is_success))
    yield share_row("200 tasks of 4, keeps 0.949, all by runs: yes", by_all(long, success).is_yes, 0.1)
    yield share_row("200 tasks of 4, keeps 0.949, desk by runs: yes", by_desk(rng, long, success, 0.25).is_yes, 0.08)
    first = np.arange(0, 800, 4)
    yield share_row(
        "200 tasks of 4, keeps 0.949, one run of each: yes",
        by_desk(rng, is_long[:, first], is_success[:, first], 0.25).is_yes,
        0.018,
        is_promise=True,
    )
    is_success = np.repeat(rng.random((records, 80)) < 0.6, 10, axis=1)
    is_lost = np.repeat(rng.random((records, 80)) < 0.051, 10, axis=1)
    is_long = np.where(is_success, is_lost, rng.random((records, 800)) < 0.3)
    mixed = rng.permuted(np.arange(800)[None].repeat(records, 0), axis=1)
    long, success = (np.take_along_axis(flags, mixed, axis=1) for flags in (is_long, is_success))
    yield share_row(
        "80 tasks of 10 lost together, desk by runs: yes",
        by_desk(rng, long, success, 0.25).is_yes,
        at_least=100 * ERROR,
        more="specification, by bets, 24",
    )
    yield share_row(
        "80 tasks of 10 lost together, one run of each: yes",
        by_desk(rng, is_long[:, ::10], is_success[:, ::10], 0.25).is_yes,
        is_promise=True,
        more="specification, by bets, 0.4",
    )
    yield from _large_tasks_keep_more(rng, records)


def _tasks_of_4(rng: np.random.Generator, records: int, tasks: int) -> tuple[Flags, Flags]:
    """Runs of a task share its chance of success, and half of the losing sits in a tenth of the tasks."""
    success_share = rng.beta(1.2, 0.8, (records, tasks)).repeat(4, axis=1)
    is_hard = (rng.random((records, tasks)) < 2 * 0.051).repeat(4, axis=1)
    is_success = rng.random(success_share.shape) < success_share
    chance = np.where(is_success, 0.5 * is_hard, 0.3)
    return rng.random(chance.shape) < chance, is_success


def _large_tasks_keep_more(rng: np.random.Generator, records: int) -> Iterator[Row]:
    """A world of our own: half of the tasks have 12 runs and lose 1% of them; the others have 1, and lose 9.2%.

    One run of each task keeps 0.949. A draw that is the run's place in the order puts large tasks first.
    """
    sizes = np.array([12, 1] * 150)
    task, chance = np.repeat(np.arange(300), sizes), np.repeat(np.array([0.01, 0.092] * 150), sizes)
    by_place = {True: np.zeros(records, dtype=bool), False: np.zeros(records, dtype=bool)}
    for record in range(records):
        is_success = rng.random(len(task)) < 0.6
        is_long = rng.random(len(task)) < np.where(is_success, chance, 0.3)
        draws = rng.random(len(task))
        rows = draw_units(task.tolist(), draws)
        for first_drawn, flags in by_place.items():
            order = rows[np.argsort(draws[rows] if first_drawn else rng.random(len(rows)))]
            answer = by_desk(rng, is_long[None, order], is_success[None, order], 0.25)
            flags[record] = bool(answer.is_yes[0])
    label = "own world: large tasks keep more, keeps 0.949"
    yield share_row(f"{label}, order of its own: yes", by_place[False], is_promise=True)
    yield share_row(f"{label}, the draw is the order: yes", by_place[True], more="refused")


# --- Worlds of our own ------------------------------------------------------------------------------------------------


def own_worlds(records: int) -> Iterator[Row]:
    """Worlds that the specification does not have."""
    rng = np.random.default_rng(4)
    shape = (records, 500)
    is_hard = rng.random(shape) < 0.2
    is_success = rng.random(shape) < np.where(is_hard, 0.3, 0.9)
    share_of_hard = 0.2 * 0.3 / (0.2 * 0.3 + 0.8 * 0.9)
    chance = np.where(is_success, np.where(is_hard, 0.051 / share_of_hard, 0), np.where(is_hard, 0.8, 0.05))
    is_long = rng.random(shape) < chance
    for pi in (0.25, 0.1, 1.0):
        label = f"all losses in a hard fifth of the units, keeps 0.949, pi {pi}: yes"
        yield share_row(label, by_desk(rng, is_long, is_success, pi).is_yes, is_promise=True)
    success = rng.random((records, 600)) < 0.5
    steps, calls = (np.exp(rng.normal(np.where(success, 2.5, 3.0), 0.6)) for _ in range(2))
    wrong = np.zeros(records, dtype=bool)
    coin = rng.random(success.shape) < 0.25
    for lengths in (
        steps,
        calls,
    ):  # two axes share the error; each has five values, the third of which keeps too little
        values = np.exp(2.5 + 0.6 * np.array([2.4, 2.0, 1.635, 1.3, 1.0]))
        is_open = np.ones(records, dtype=bool)
        for index, value in enumerate(values):
            long = lengths > value
            verdicts = judge_records(success, long, long | coin, KEEP, 0.25, ERROR / 2)
            is_open &= verdicts.is_yes | verdicts.is_end_yes
            wrong |= is_open & (index >= 2)
    label = "two axes of five values on one order, the third keeps 0.949: any wrong yes"
    yield share_row(label, wrong, is_promise=True)


# --- Real sets --------------------------------------------------------------------------------------------------------


@cache
def _set(name: str) -> tuple[Ints, Flags]:
    """The lengths of the runs of a set, and their labels."""
    runs = runs_df(load_dataset(f"atlas/{name}"))
    runs = runs[runs.success.notna()]
    return runs.n_steps.to_numpy(np.int64), runs.success.to_numpy(bool)


REAL: Final[Mapping[str, Sequence[tuple[float, int]]]] = {
    "tau-airline": ((1, 200), (1, 200), (0.91, 59)),
    "tau2-retail": ((0.99, 194), (0.99, 105), (0.94, 29)),
    "tau2-telecom": ((0.8, 181), (0.8, 137), (0.81, 44)),
    "swebench-verified": ((0.97, 499), (0.97, 285), (0.94, 80)),
    "intercode-python": ((0.92, 236), (0.92, 161), (0.89, 112)),
    "intercode-sql": ((0.99, 600), (0.99, 247), (0.96, 191)),
}
"""The specification's shares of yes and median answers at the tightest cap that keeps 99%: all, random, desk 0.25."""


def real_sets(records: int) -> Iterator[Row]:
    """Sets of the atlas with hidden labels: units are drawn from a set as independent runs."""
    rng = np.random.default_rng(5)
    for name, expected in REAL.items():
        lengths, labels = _set(name)
        caps = np.arange(1, lengths.max())
        kept = np.searchsorted(np.sort(lengths[labels]), caps, side="right") / labels.sum()
        rows = rng.integers(0, len(lengths), (records, min(len(lengths), 600)))
        cap = int(caps[kept >= 0.99][0])
        is_long, is_success = lengths[rows] > cap, labels[rows]
        given = (
            by_all(is_long, is_success),
            by_desk(rng, is_long, is_success, 1.0),
            by_desk(rng, is_long, is_success, 0.25),
        )
        for method, answer, pair in zip(("all", "random", "desk 0.25"), given, expected, strict=True):
            stops = f"cap {cap} stops {(lengths > cap).mean():.0%}"
            yield answer_row(f"{name}, {stops}: {method}", answer, pair)
        if (kept < KEEP).any():
            tight = int(caps[kept < KEEP][-1])
            wrong = by_desk(rng, lengths[rows] > tight, is_success, 0.25).is_yes
            yield share_row(
                f"{name}, cap {tight} keeps {kept[caps == tight][0]:.3f}: wrong yes", wrong, is_promise=True
            )


SEVERAL: Final[Mapping[int, Mapping[str, tuple[float | None, float | None, float | None]]]] = {
    60: {
        "tau2-telecom": (8.7, 0, 9.5), "tau-airline": (2.1, 0, 3.0), "tau2-retail": (0.6, 0, 0.7),
        "swebench-verified": (0, 0, None), "intercode-python": (0, 0, None), "intercode-sql": (0, 0, None),
    },
    120: {"intercode-python": (14.5, 16.1, 28.5), "swebench-verified": (0.2, 0, 0.4)},
    240: {"intercode-sql": (7.9, 10.4, 18.1)},
}  # fmt: skip
"""The specification's share of steps saved, in percent, with so many answers: desk, random, all."""


def several_caps(records: int) -> Iterator[Row]:
    """Several caps from loose to tight with a budget of answers: the share of steps that is saved, in percent."""
    rng = np.random.default_rng(6)
    for budget, sets in SEVERAL.items():
        for name, expected in sets.items():
            lengths, labels = _set(name)
            caps = propose_values(lengths)
            caps = caps if len(caps) > 3 else sorted({*lengths[lengths < lengths.max()].tolist()}, reverse=True)[:10]
            saved = {cap: 100 * np.maximum(lengths - cap, 0).sum() / lengths.sum() for cap in caps} | {None: 0.0}
            figures: list[list[float]] = [[], [], []]
            for _ in range(records):
                rows = rng.integers(0, len(lengths), min(len(lengths), 600))
                length, label = lengths[rows], labels[rows]
                chosen = (
                    _desk_cap(rng, length, label, caps, budget),
                    _tightest(length[:budget], label[:budget], caps),
                    _tightest(length, label, caps),
                )
                for column, cap in zip(figures, chosen, strict=True):
                    column.append(float(saved[cap]))
            for method, column, figure in zip(("desk 0.25", "random", "all"), figures, expected, strict=True):
                yield _mean_row(f"{name}, {budget} answers: {method}", column, figure)


def _mean_row(what: str, values: Sequence[float], expected: float | None) -> Row:
    if expected is None:
        return Row(what, float(np.mean(values)), "%")
    error = float(np.std(values)) * (1 / len(values) + 1 / SPECIFICATION_RECORDS) ** 0.5
    agrees = abs(float(np.mean(values)) - expected) <= 3 * error + 0.05
    return Row(what, float(np.mean(values)), "%", detail=f"specification {expected:g}: {_verdict(agrees)}")


def _desk_cap(rng: np.random.Generator, lengths: Ints, labels: Flags, caps: Sequence[int], budget: int) -> int | None:
    """The tightest cap that the desk shows to keep enough with so many answers."""
    coin = rng.random(len(lengths)) < 0.25
    has_answer, best = np.zeros(len(lengths), dtype=bool), None
    for cap in caps:
        is_long = lengths > cap
        is_asked = is_long | coin
        verdicts = judge_records(labels, is_long, is_asked, KEEP, 0.25, ERROR)
        has_answer[: int(verdicts.position) + 1] |= is_asked[: int(verdicts.position) + 1]
        if has_answer.sum() > budget or not (verdicts.is_yes or verdicts.is_end_yes):
            break
        best = cap
    return best


def _tightest(lengths: Ints, labels: Flags, caps: Iterable[int]) -> int | None:
    """The tightest cap that the test of Clopper and Pearson accepts, from loose to tight."""
    best = None
    for cap in caps:
        lost = int((labels & (lengths > cap)).sum())
        if float(independent_chance(lost, int(labels.sum()), KEEP)) > ERROR:
            break
        best = cap
    return best


TABLES: Final = {
    "promise": promise,
    "answers": answers,
    "clusters": clusters,
    "own worlds": own_worlds,
    "real sets": real_sets,
    "several caps": several_caps,
}


def main() -> None:
    """Print, and with `--write` save, the tables."""
    parser = argument_parser(__doc__, TABLES)
    parser.add_argument("--records", type=int, default=1000, help="records of each figure; default: 1000")
    options = parser.parse_args()
    publish(__doc__, {title: partial(table, options.records)() for title, table in TABLES.items()}, options)


if __name__ == "__main__":
    main()
