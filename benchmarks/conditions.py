"""Measure where the findings of the study hold: on the atlas, and on sets that its builder makes of one's own clones.

RUNS are files of such sets; the atlas is always among them. With `--write`, the table and the sentences go into
`docs/conditions.md`.

Usage: python -m benchmarks.conditions [RUNS ...] [--write]
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import pandas as pd

import boolab as bl
from benchmarks.environments import ROOT
from benchmarks.stoprulebench.judge import judge
from benchmarks.stoprulebench.kinds import KINDS
from benchmarks.stoprulebench.load import entries_of, recordings_from
from benchmarks.stoprulebench.recordings import Recordings
from benchmarks.study.transfers import transfer
from boolab.display.numbers import percent

PAGE: Final = ROOT / "docs" / "conditions.md"
KEEP: Final = 0.95
QUARTER: Final = 0.25
MIN_ALARMS: Final = 10
"""With fewer alarms a lift is not shown."""
DETECTORS: Final = {"BooCode": "boocode", "Roo": "roo", "OpenHands classic": "openhands_classic"}
_TABLE: Final = re.compile(r"(?<=<!-- made by python -m benchmarks.conditions -->\n\n).*?(?=\n<!-- end -->)", re.DOTALL)


class SetRow(NamedTuple):
    """What was measured on one set; None where it is not defined, or rests on too little.

    Attributes:
        name: The set.
        kind: Its kind.
        runs: The number of runs.
        succeed: The share of runs that succeed.
        at_limit: The share of runs that ended at the step limit of their harness.
        p75: The share of successes that P75 keeps on held-out tasks.
        alarms: How many runs make three equal calls in a row before their last step.
        lift: Of these alarms.
        kept: The share of successes that the detectors of each harness keep.
    """

    name: str
    kind: str
    runs: int
    succeed: float
    at_limit: float
    p75: float
    alarms: int
    lift: float | None
    kept: Mapping[str, float]


def measure(data: Recordings) -> list[SetRow]:
    """A row for each set."""
    wanted = {"P75": "baseline:P75: a cap"}
    wanted |= {name: f"baseline:{preset}'s detectors" for name, preset in DETECTORS.items()}
    entries = [entry for text in wanted.values() for entry in entries_of(text)]
    kept = {
        name: {key: one.kept.value or 0.0 for key, one in submission.tracks["within"].sets.items()}
        for name, submission in zip(wanted, judge(entries, data), strict=True)
    }
    scored = bl.scorecard(list(data.runs), [bl.doom_loop(3)], by="set").frame
    alarms_of, lift_of = (dict(zip(scored["set"], scored[name].tolist(), strict=True)) for name in ("alarms", "lift"))
    rows = []
    for place, (name, kind) in enumerate(zip(data.sets, data.kinds, strict=True)):
        here = [run for run, number in zip(data.runs, data.set_of, strict=True) if number == place]
        alarms, lift = int(alarms_of[name]), lift_of[name]
        rows.append(
            SetRow(
                name,
                KINDS[kind],
                len(here),
                sum(run.success is True for run in here) / len(here),
                sum(run.stop_reason == "step_cap" for run in here) / len(here),
                kept["P75"][name],
                alarms,
                float(lift) if alarms >= MIN_ALARMS and pd.notna(lift) else None,
                {detector: kept[detector][name] for detector in DETECTORS},
            )
        )
    return rows


def table_of(rows: Sequence[SetRow]) -> Iterator[str]:
    """The rows as a Markdown table."""
    head = ["set", "kind", "runs", "succeed", "at the step limit", "P75 keeps", "three equal calls: alarms", "lift"]
    head += [f"{name} keeps" for name in DETECTORS]
    yield f"| {' | '.join(head)} |"
    yield f"| --- | --- |{' ---: |' * (len(head) - 2)}"
    for row in rows:
        lift = "" if row.lift is None else f"{row.lift:.2f}"
        shares = [percent(share) for share in (row.succeed, row.at_limit, row.p75)]
        cells = [row.name, row.kind, f"{row.runs:,}", *shares, f"{row.alarms:,}", lift]
        yield f"| {' | '.join([*cells, *map(percent, row.kept.values())])} |"


def sentences(rows: Sequence[SetRow], pairs: pd.DataFrame) -> Iterator[str]:
    """The findings, each with its condition.

    Args:
        rows: What was measured on each set.
        pairs: The frame of `transfer` by set.
    """
    yield from (_of_p75(rows), "", _of_lift(rows), "", _of_transfer(rows, pairs), "", _of_detectors(rows))


def _of_p75(rows: Sequence[SetRow]) -> str:
    free = [row for row in rows if row.at_limit < QUARTER and row.succeed > QUARTER]
    others = [row for row in rows if row not in free]
    return (
        "- **P75**, a cap at the 75th percentile of all runs, keeps less than 95% of the successes in "
        f"{sum(row.p75 < KEEP for row in free)} of the {len(free)} sets in which more than a quarter of the runs "
        "succeed and fewer than a quarter end at the step limit of their harness. In the "
        f"{len(others)} others it keeps 95% in {sum(row.p75 >= KEEP for row in others)}: where a quarter of the runs "
        "end at that limit, P75 is that limit and does nothing; where few succeed, the longest quarter may be failures "
        "alone."
    )


def _of_lift(rows: Sequence[SetRow]) -> str:
    games = [row for row in rows if row.kind == KINDS["games"] and row.lift is not None]
    others = [row for row in rows if row.kind != KINDS["games"] and row.lift is not None]
    return (
        f"- **Three equal calls in a row** have a lift of {_span(others)} in the {len(others)} sets without games that "
        f"have {MIN_ALARMS} alarms or more"
        + (f", and of {_span(games)} in the {len(games)} sets of games" if games else "")
        + ". In a game a repeated call is a move, and most runs make three, those that succeed as well."
    )


def _span(rows: Sequence[SetRow]) -> str:
    lifts = [row.lift for row in rows if row.lift is not None]
    return f"{min(lifts):.2f} to {max(lifts):.2f}" if lifts else "none"


def _of_transfer(rows: Sequence[SetRow], pairs: pd.DataFrame) -> str:
    games = {row.name for row in rows if row.kind == KINDS["games"]}
    others = pairs[~pairs["held_out"].astype(bool)]
    both = others["chosen_on"].isin(games).astype(int) + others["judged_on"].isin(games).astype(int)
    counts = {n: (int(others["holds"][both == n].sum()), int((both == n).sum())) for n in range(3)}
    text = f"- **A cap of another set**, its K95, keeps 95% of the successes in {_of(counts, 0)} pairs of other sets"
    if games:
        mixed, inside = _of(counts, 1), _of(counts, 2)
        text += f"; between games and other sets in {mixed} pairs, and between two sets of games in {inside}"
    return (
        f"{text}. It keeps them where those that it was chosen on are as long as those that it meets: lengths decide."
    )


def _of(counts: Mapping[int, tuple[int, int]], key: int) -> str:
    holds, n = counts[key]
    return f"{holds} of {n}"


def _of_detectors(rows: Sequence[SetRow]) -> str:
    parts = []
    for name in DETECTORS:
        means = {
            games: [row.kept[name] for row in rows if (row.kind == KINDS["games"]) == games] for games in (False, True)
        }
        text = f"{name}'s {percent(sum(means[False]) / len(means[False]))}"
        if means[True]:
            text += f" (in games {percent(sum(means[True]) / len(means[True]))})"
        parts.append(text)
    atlas = sum(row.kind != KINDS["games"] for row in rows)
    return (
        "- **The fixed detectors of harnesses** keep nearly all successes only where a repeated call is no work. As "
        f"means over the {atlas} sets without games: {', '.join(parts)}."
    )


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", help="files of sets that the atlas's builder made")
    parser.add_argument("--write", action="store_true", help=f"put the result into {PAGE.name}")
    given = parser.parse_args()
    data = recordings_from(["atlas", *given.runs])
    rows = measure(data)
    pairs = transfer(list(data.runs), by="set", progress=False).frame
    text = "\n".join([*table_of(rows), "", *sentences(rows, pairs)]) + "\n"
    if given.write:
        PAGE.write_text(_TABLE.sub(lambda _: text, PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
