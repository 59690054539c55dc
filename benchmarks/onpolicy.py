"""Does it come true? What recordings of a real model predict under other limits, beside what the model then does, live.

The model is SmolLM2-135M in this process (`bl.LocalModel`), the tasks are `boolab.runtime.tasks.families`: `fix`, edits
until a test passes, `maze`, a way to a door, and `lookup`, a word in one of some files. They are recorded under a cap
of 20 steps. Then the same tasks run again with the same seeds under other settings.

Equality: a pair is equal if each call, each result, the number of steps, the reason of the stop and, within its bounds,
the success are what the counterfactual of the recorded run predicts. Promise: records of 100 runs are drawn from the
recordings, with replacement, and decided on by `recommend`; the truth is the whole recording, and a promise is broken
if the setting keeps less of it. Fresh tasks: the decision on the first half of the tasks, judged on the other half;
then with halves that chance divides.
Coverage: trials raise the cap of the live runs under the tight one back to the recordings', which are the truth;
branches are live, and then played back from the recordings for trials of tasks that are drawn anew.

Usage: python -m benchmarks.onpolicy [PART ...] [--size PART=TASKS,...] [--folder out/onpolicy] [--tables] [--write]
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from scipy.stats import binomtest, mannwhitneyu  # type: ignore[import-untyped] # scipy has no types

import boolab as bl
from benchmarks.onpolicy_runs import (
    ARMS,
    LOOSE,
    RECORDINGS,
    SIZES,
    TIGHT,
    Recorder,
    learned_rule,
    pairs,
    runs_of,
)
from benchmarks.results import FOLDER, Row, argument_parser, publish
from boolab.runtime.models.recorded import RecordedModel
from boolab.runtime.tasks.families import FAMILIES
from boolab.stats.intervals import clopper_pearson
from boolab.trials.result import Effects
from boolab.trials.trial import Trial

ONPOLICY_PAGE: Final = Path(__file__).parents[1] / "docs" / "onpolicy.md"
KEEPS: Final = (0.7, 0.8, 0.9)
RECORD: Final = 100
"""How many runs a record has that is decided on."""
TRIAL_TASKS: Final = 20
LOOP: Final = 3
"""So many equal calls in a row are a loop, for the nudge and for the stop."""


# --- What runs have in common -----------------------------------------------------------------------------------------


def actions_of(run: bl.Run) -> list[tuple[str, ...]]:
    """What a run did: the calls and the results of each step, or its text."""
    return [
        tuple(f"{call.name} {call.arguments}" for call in step.response.tool_calls)
        + tuple(result.content for result in step.results if result is not None)
        or (step.response.text,)
        for step in run.steps
    ]


def longest_streak(run: bl.Run) -> int:
    """The largest number of equal calls in a row."""
    calls = [call.arguments for step in run.steps for call in step.response.tool_calls]
    return max((len([*group]) for _, group in itertools.groupby(calls)), default=0)


def successes(runs: Iterable[bl.Run]) -> int:
    """How many of the runs are successes."""
    return sum(run.success is True for run in runs)


def share_of(part: int, whole: int) -> str:
    """A share with its 95% interval, by Clopper and Pearson."""
    if not whole:
        return "none"
    ends = clopper_pearson(part, whole)
    return f"{part} of {whole}, {part / whole:.0%} ({ends.low:.0%} to {ends.high:.0%})"


# --- The tables -------------------------------------------------------------------------------------------------------


def recordings(folder: Path) -> Iterator[Row]:
    """The recordings: how often they succeed, how long they are, how often they loop."""
    for arm in RECORDINGS:
        runs = runs_of(folder, arm.name)
        if not runs:
            continue
        lengths = {outcome: [run.n_steps for run in runs if run.success is outcome] for outcome in (True, False)}
        means = {outcome: np.mean(steps) if steps else np.nan for outcome, steps in lengths.items()}
        yield Row(
            arm.label,
            len(runs),
            "runs",
            detail=f"{share_of(successes(runs), len(runs))} succeed; steps of successes {means[True]:.1f}, of failures "
            f"{means[False]:.1f}; {sum(run.stop_reason == 'step_cap' for run in runs)} at the cap; "
            f"{sum(longest_streak(run) >= 5 for run in runs)} with 5 or more equal calls in a row; "
            f"{sum(run.duration_ms or 0 for run in runs) / 1000 / len(runs):.1f} s a run",
        )
    made, planned = sum(len(runs_of(folder, arm.name)) for arm in ARMS), sum(SIZES[arm.size] for arm in ARMS)
    if made:
        yield Row("live runs of all kinds", made, f"of {planned:,} planned", detail="without branches of trials")


class Outcome(NamedTuple):
    """Whether a live run is what the counterfactual predicted, by what is compared."""

    actions: bool
    steps: bool
    reason: bool
    success: bool


def compare(recorded: Sequence[bl.Run], live: Sequence[bl.Run], **question: Any) -> list[Outcome]:  # noqa: ANN401
    """What a counterfactual predicts for each recorded run, against the live run."""
    rows = bl.counterfactual(recorded, progress=False, **question).set_index("run_id")
    outcomes = []
    for run, other in zip(recorded, live, strict=True):
        row: Any = rows.loc[run.run_id]
        steps, bounds = int(row["steps"]), (bool(row["kept_lower"]), bool(row["kept_upper"]))
        reason = row["stop_reason"] if row["outcome"] == "truncated" else run.stop_reason
        outcomes.append(
            Outcome(
                actions_of(run)[:steps] == actions_of(other)[:steps],
                other.n_steps == steps,
                other.stop_reason == reason,
                other.success in bounds,
            )
        )
    return outcomes


def equality(folder: Path) -> Iterator[Row]:
    """Whether live runs are, run by run, what the recording predicts under their settings."""
    for arm in (arm for arm in ARMS if arm.question):
        paired = pairs(folder, arm)
        if not paired:
            continue
        recorded, live = ([*runs] for runs in zip(*paired, strict=True))
        outcomes = compare(recorded, live, **arm.question)
        equal = sum(map(all, outcomes))
        sums = bl.counterfactual(recorded, aggregate=True, progress=False, **arm.question).iloc[0]
        differing = [name for name in Outcome._fields for outcome in outcomes if not getattr(outcome, name)]
        yield Row(
            arm.label,
            equal,
            f"of {len(paired)} equal",
            at_least=len(paired),
            detail=f"predicted: {sums['kept_lower']} to {sums['kept_upper']} of {sums['successes']} successes, "
            f"{sums['steps']} steps, {len(paired) - sums['n_unchanged']} stopped; live: {successes(live)} successes, "
            f"{sum(run.n_steps for run in live)} steps"
            + "".join(f"; {differing.count(name)} differ in {name}" for name in dict.fromkeys(differing)),
        )


def kept_and_saved(runs: Sequence[bl.Run], setting: dict[str, Any]) -> tuple[float, float]:
    """The share of successes that a setting keeps, at the lower bound, and of steps that it saves."""
    row = bl.counterfactual(runs, grid={axis: [value] for axis, value in setting.items()}, aggregate=True,
                            progress=False).iloc[0]  # fmt: skip
    return row["kept_lower"] / max(row["successes"], 1), row["saved_steps"] / (row["steps"] + row["saved_steps"])


def _drawn(runs: Sequence[bl.Run], count: int, chance: random.Random) -> list[bl.Run]:
    """Runs that are drawn with replacement, each a task of its own."""
    drawn = chance.choices(runs, k=count)
    return [replace(run, run_id=f"drawn-{n}", task=f"{run.task} #{n}") for n, run in enumerate(drawn)]


def _promises(folder: Path, seed: str = "") -> Iterator[tuple[str, float, list[bl.Run], random.Random]]:
    """What is asked of each recording: its name, the share to keep, its runs, and the chance to draw with."""
    for arm, keep in itertools.product(RECORDINGS, KEEPS):
        runs = runs_of(folder, arm.name)
        if successes(runs) >= 2:
            yield f"{arm.name}, keep {keep:.0%}", keep, runs, random.Random(f"{arm.name} {keep}{seed}")  # noqa: S311


def _broken(what: str, keep: float, samples: Iterable[tuple[list[bl.Run], list[bl.Run]]], sizes: str) -> Row:
    """How often the decision on a record keeps less of other runs than it promises."""
    kept_and_saved_shares, n_samples = [], 0
    for record, truth in samples:
        n_samples += 1
        decision = bl.recommend(record, keep=keep, objective="steps")
        if decision.action == "set" and successes(truth):
            kept_and_saved_shares.append(kept_and_saved(truth, decision.setting))
    detail = f"{n_samples} {sizes}; {len(kept_and_saved_shares)} set limits"
    if kept_and_saved_shares:
        kept, saved = np.mean(kept_and_saved_shares, axis=0)
        detail += f", which keep {kept:.1%} and save {saved:.1%} on average"
    n_broken = sum(kept < keep for kept, _ in kept_and_saved_shares)
    return Row(what, 100 * n_broken / n_samples, "%", at_most=5, detail=detail)


def promise(folder: Path, draws: int) -> Iterator[Row]:
    """How often the promise of `recommend` is broken, on records that are drawn."""
    for name, keep, runs, chance in _promises(folder):
        samples = ((_drawn(runs, RECORD, chance), runs) for _ in range(draws))
        sizes = f"records of {RECORD} runs, drawn from {len(runs)}"
        yield _broken(f"{name}: records whose promise is broken", keep, samples, sizes)


def fresh(folder: Path) -> Iterator[Row]:
    """The decision on the first half of the tasks, on the other half."""
    for arm, keep in itertools.product(RECORDINGS, KEEPS):
        runs = runs_of(folder, arm.name)
        first, other = runs[: len(runs) // 2], runs[len(runs) // 2 :]
        if not successes(first) or not successes(other):
            continue
        lengths = [[run.n_steps for run in half if run.success] for half in (first, other)]
        means = "{:.1f} and {:.1f}".format(*map(np.mean, lengths))
        chance = mannwhitneyu(*lengths).pvalue
        decision = bl.recommend(first, keep=keep, objective="steps")
        if decision.action != "set":
            more = f"{decision.action} on {len(first)} runs with {successes(first)} successes"
            yield Row(f"{arm.name}, keep {keep:.0%}: no limit is set", 0, "", detail=more)
            continue
        (before, _), (kept, saved) = kept_and_saved(first, decision.setting), kept_and_saved(other, decision.setting)
        words = ", ".join(f"{axis} {value}" for axis, value in decision.setting.items() if value is not None)
        yield Row(
            f"{arm.name}, keep {keep:.0%}: {words}",
            100 * kept,
            "% kept",
            at_least=100 * keep,
            detail=f"of {share_of(round(kept * successes(other)), successes(other))} in {len(other)} fresh runs, with "
            f"{saved:.0%} of the steps saved; on record {before:.0%}; successes take {means} steps, p = {chance:.2g}",
        )


def halves(folder: Path, draws: int) -> Iterator[Row]:
    """How often the promise is broken in the other half, where chance divides the tasks into halves."""
    for name, keep, runs, chance in _promises(folder, " halves"):
        middle = len(runs) // 2
        shuffled = (chance.sample(runs, len(runs)) for _ in range(draws))
        samples = ((order[:middle], order[middle:]) for order in shuffled)
        yield _broken(
            f"{name}: halves whose promise is broken", keep, samples, f"records of {middle} of {len(runs)} runs"
        )


def _tight_runs(folder: Path) -> list[tuple[bl.Run, bl.Run]]:
    """Runs of `fix` under the recordings' cap, each with the live run of its seed under the tight one."""
    return pairs(folder, next(arm for arm in ARMS if arm.name == f"fix-max_steps{TIGHT}"))


def _trial(paired: Sequence[tuple[bl.Run, bl.Run]], model: Any, **more: Any) -> Trial:  # noqa: ANN401 - as `bl.trial`
    """A trial of the recordings' cap on live runs under the tight one."""
    family = FAMILIES["fix"]
    return bl.trial(
        [tight for _, tight in paired],
        {"max_steps": LOOSE},
        model=model,
        tools=[family.tool],
        score=family.succeeded,
        agent=family.agent(max_steps=TIGHT),
        **more,
    )


def coverage(folder: Path, draws: int, branches: int = 0) -> Iterator[Row]:
    """Whether intervals of trials hold what the larger cap gave, with branches that are live, and played back."""
    paired = _tight_runs(folder)
    if not paired:
        return
    loose = {run.task: run for run, _ in paired}
    if branches:
        with FAMILIES["fix"].model() as model:
            asyncio.run(_trial(paired, model, store=folder / "trial.db").run(branches, progress=False))
    made = [run for run in runs_of(folder, "trial") if run.task in loose]
    if made:
        truth = successes(loose.values()) - successes(tight for _, tight in paired)
        equal = sum(actions_of(branch) == actions_of(loose[branch.task]) for branch in made)
        yield Row(
            "live branches that are, step by step, the run of the larger cap",
            equal,
            f"of {len(made)} equal",
            at_least=len(made),
            detail=f"{successes(made)} of them succeed; the larger cap gives {truth:+d} in {len(paired)} runs",
        )
    covered, widths = 0, []
    for seed in range(draws):
        some = random.Random(seed).sample(paired, min(TRIAL_TASKS, len(paired)))  # noqa: S311 - no secret
        truth = successes(run for run, _ in some) - successes(tight for _, tight in some)
        plan = _trial(some, lambda run: RecordedModel(loose[run.task]), seed=seed)
        looks = asyncio.run(plan.run(progress=False)).looks
        low, high = (looks[name].to_numpy(float) for name in ("gain_low", "gain_high"))
        covered += bool(((low <= truth) & (truth <= high)).all())
        widths.append(float((high - low)[len(looks) // 2]))
    yield Row(
        f"trials of {min(TRIAL_TASKS, len(paired))} runs whose interval holds the truth at every look",
        100 * covered / draws,
        "%",
        at_least=95,
        detail=f"{draws} trials, drawn from {len(paired)} runs; half of the branches leave a width of "
        f"{np.median(widths):.0f} successes",
    )


def informed(folder: Path) -> Iterator[Row]:
    """Limits that the model is informed of, by the wording, against the silent one of the recording."""
    for arm in (arm for arm in ARMS if arm.size == "informed"):
        paired = pairs(folder, arm)
        if not paired:
            continue
        recorded, live = ([*runs] for runs in zip(*paired, strict=True))
        cap = arm.settings["max_steps"]
        silent = bl.counterfactual(recorded, grid={"max_steps": [cap]}, progress=False).set_index("run_id")
        before = [bool(silent.loc[run.run_id, "kept_lower"]) for run in recorded]
        gained = sum(run.success is True and not kept for run, kept in zip(live, before, strict=True))
        lost = sum(run.success is not True and kept for run, kept in zip(live, before, strict=True))
        chance = binomtest(gained, gained + lost).pvalue if gained + lost else 1.0
        yield Row(
            arm.label,
            successes(live),
            f"of {len(live)} succeed",
            detail=f"silent, by the recording: {sum(before)}; {gained} gained, {lost} lost, p = {chance:.2g}; "
            f"{sum(run.n_steps for run in live)} steps, silent {int(silent['steps'].sum())}; "
            f"{new_tokens(live, cap):.0f} tokens a step that are not cached, silent {new_tokens(recorded, cap):.0f}",
        )


def new_tokens(runs: Iterable[bl.Run], cap: int) -> float:
    """How many tokens of a prompt are not in the cache, on average over the first steps of runs."""
    steps = itertools.chain.from_iterable(run.steps[:cap] for run in runs)
    usages = [step.response.usage for step in steps]
    return float(np.mean([(usage.input_tokens or 0) - (usage.cached_tokens or 0) for usage in usages]))


def stopped(folder: Path) -> Iterator[Row]:
    """What a doom-loop stop prevents: the stopped runs, continued to the cap of the recordings."""
    for arm in RECORDINGS:
        runs = runs_of(folder, arm.name)
        for threshold in (LOOP, 2 * LOOP) if runs else ():
            rows = bl.counterfactual(runs, grid={"doom_loop": [threshold]}, progress=False)
            cut = set(rows.loc[rows["outcome"] == "truncated", "run_id"])
            ends = [run for run in runs if run.run_id in cut]
            solved = sum(arm.family.is_solved(run) for run in ends)
            at_cap = sum(run.stop_reason == "step_cap" for run in ends)
            yield Row(
                f"{arm.name}: stopped at {threshold} equal calls",
                len(ends),
                f"of {len(runs)} runs",
                detail=f"of these, without the stop, {share_of(successes(ends), len(ends))} succeed later, "
                f"{at_cap} reach the cap of {LOOSE}, {len(ends) - successes(ends) - at_cap} answer too early; {solved} "
                f"solve the task at some step; {int(rows['saved_steps'].sum())} steps are saved",
            )


def learned(folder: Path) -> Iterator[Row]:
    """A rule that is learned on one family, live on the other."""
    arm = next(arm for arm in ARMS if arm.name == "learned")
    paired = pairs(folder, arm)
    if not paired:
        return
    rule = learned_rule(folder)
    recorded, live = ([*runs] for runs in zip(*paired, strict=True))
    outcomes = compare(recorded, live, rules=[rule])
    row = bl.counterfactual(recorded, rules=[rule], aggregate=True, progress=False).iloc[0]
    yield Row(
        arm.label,
        sum(map(all, outcomes)),
        f"of {len(live)} equal",
        at_least=len(live),
        detail=f"{rule.promise} Live it keeps {share_of(successes(live), successes(recorded))}, and saves "
        f"{1 - sum(run.n_steps for run in live) / sum(run.n_steps for run in recorded):.0%} of the steps; by the "
        f"recording it keeps {row['kept_lower']} to {row['kept_upper']}",
    )


def nudges(folder: Path) -> Iterator[Row]:
    """A nudge at a loop, in the runs in which it comes.

    Without it p of them fail. It recovers r of these, and loses d of the others.
    """
    for arm in (arm for arm in ARMS if arm.size == "nudges"):
        paired = [(run, live) for run, live in pairs(folder, arm) if longest_streak(run) >= LOOP]
        if not paired:
            continue
        failures = [live for run, live in paired if run.success is not True]
        kept = [live for run, live in paired if run.success is True]
        recovered, lost = successes(failures), len(kept) - successes(kept)
        effects = Effects(len(failures), recovered, len(kept), lost)
        threshold = effects.threshold
        yield Row(
            arm.label,
            recovered - lost,
            f"successes more in {len(paired)} runs with a nudge",
            detail=f"p = {len(failures) / len(paired):.0%}; r = {share_of(recovered, len(failures))}; "
            f"d = {share_of(lost, len(kept))}; it pays where more than "
            f"{'an unknown share' if threshold is None else f'{threshold:.0%}'} of the runs fail; "
            f"{sum(live.n_steps for _, live in paired)} steps, without it {sum(run.n_steps for run, _ in paired)}",
        )


# --- The command ------------------------------------------------------------------------------------------------------


def tables_of(folder: Path, draws: int, branches: int = 0) -> dict[str, Iterator[Row]]:
    """The rows of each table, by its name; `branches` are made if there are fewer."""
    return {
        "recordings": recordings(folder),
        "equality": equality(folder),
        "promise": promise(folder, draws),
        "fresh_tasks": fresh(folder),
        "halves": halves(folder, draws),
        "coverage": coverage(folder, draws, branches),
        "informed": informed(folder),
        "stopped": stopped(folder),
        "learned": learned(folder),
        "nudges": nudges(folder),
    }


TABLES: Final = tuple(tables_of(Path(), 0))


def page() -> str:
    """docs/onpolicy.md with the tables that were saved."""
    tables = json.loads((FOLDER / "onpolicy.json").read_text(encoding="utf-8"))["tables"]

    def lines(match: re.Match[str]) -> str:
        rows = tables.get(match[1], {"rows": []})["rows"]
        cells = [f"| {row['what']} | {row['figure']:,} {row['unit']} | {row['detail']} |" for row in rows]
        head = ["|  | measured |  |", "| - | -: | - |"] if rows else ["Not measured yet: it takes more runs."]
        return "\n".join([f"<!-- table: {match[1]} -->", "", *head, *cells, "", "<!-- end -->"])

    marks = re.compile(r"<!-- table: (\w+) -->.*?<!-- end -->", re.DOTALL)
    return marks.sub(lines, ONPOLICY_PAGE.read_text(encoding="utf-8"))


def _sizes(text: str) -> dict[str, int]:
    pairs = [entry.partition("=") for entry in text.split(",")]
    if any(name not in SIZES or not tasks.isdecimal() for name, _, tasks in pairs):
        raise argparse.ArgumentTypeError(f"{text!r}: expected PART=TASKS,..., with some of {', '.join(SIZES)}")
    return {name: int(tasks) for name, _, tasks in pairs}


def main() -> None:
    """Record what is missing, and make the tables."""
    parser = argument_parser(__doc__, TABLES)
    known = ", ".join(f"{name}={tasks}" for name, tasks in SIZES.items())
    about = f"how many tasks a kind of runs has: {known}"
    parser.add_argument("--size", type=_sizes, default={}, metavar="PART=TASKS,...", help=about)
    parser.add_argument("--folder", type=Path, default=Path("out/onpolicy"), help="where the runs are kept")
    parser.add_argument("--tables", action="store_true", help="make the tables of the runs that there are")
    options = parser.parse_args()
    sizes = {**SIZES, **options.size}
    recorder = Recorder(options.folder, sizes)
    runs, hours = recorder.remaining()
    print(f"{recorder.recorded:,} runs are recorded, {runs:,} remain: some {hours:.1f} h")
    if not options.tables:
        asyncio.run(recorder.record())
    branches = 0 if options.tables else sizes["branches"]
    tables = tables_of(options.folder, sizes["draws"], branches)
    recorded = runs_of(options.folder, RECORDINGS[0].name)
    publish(__doc__, tables, options, recorded[0].model if recorded else "")
    if options.write:
        ONPOLICY_PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
