"""The baselines: what is known, done elsewhere, or needs no skill, judged like every other entry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from itertools import product
from typing import Final

import numpy as np

from benchmarks.stoprulebench.entries import About, Entry, ListEntry, RuleEntry
from benchmarks.stoprulebench.first_stops import NEVER, Scoped, Setting
from benchmarks.stoprulebench.learned import learned_baselines
from benchmarks.stoprulebench.recordings import Recordings
from benchmarks.stoprulebench.tracks import TRACK_NAMES, Track
from boolab.harnesses.policy import Policy
from boolab.harnesses.presets import policies
from boolab.limits import catalog, detectors
from boolab.limits.detectors.streaks import ToolErrors
from boolab.limits.guard import Guard
from boolab.limits.stop import StopRule
from boolab.whatif.step_table import Ints

AUTHORS: Final = "boolab"
MAX_CAP: Final = 200
"""The largest cap that is chosen among."""
COIN: Final = 0.05
"""The share of runs that the coin stops."""
_STOPS: Final = ("stop", "ask", "block")


def baselines() -> list[Entry]:
    """All baselines, each with a name of its own.

    Example:
        >>> [entry.about.name for entry in baselines()][:3]
        ['never stop', 'a coin', 'an oracle']
    """
    return [*_scale(), *_caps(), *_presets(), *_single_detectors(), *_choices(), *learned_baselines(AUTHORS)]


# --- Rows for scale ---------------------------------------------------------------------------------------------------


def _scale() -> Iterator[Entry]:
    yield _listed("never stop", "Stops no run: what is recorded.", lambda data: np.full(len(data.runs), NEVER))
    yield _listed(
        "a coin",
        f"Stops {COIN:.0%} of the runs after their first step, whatever is in them: what no information is worth.",
        lambda data: np.where([_share_of(run.run_id) < COIN for run in data.runs], 1, NEVER),
    )
    yield _listed(
        "an oracle",
        "Stops each run that will fail after its first step, and no other: the most that can be saved.",
        lambda data: np.where(data.success, NEVER, 1),
    )


def _listed(name: str, description: str, stops: Callable[[Recordings], object]) -> ListEntry:
    def of_tracks(data: Recordings) -> dict[Track, Ints]:
        return dict.fromkeys(TRACK_NAMES, np.asarray(stops(data), dtype=np.int64))

    about = About(name=name, authors=AUTHORS, description=description, definition=description)
    return ListEntry(about=about, stops_of=of_tracks, kind="scale")


def _share_of(text: str) -> float:
    """A number from 0 to 1 by chance, the same for the same text."""
    return int.from_bytes(sha256(text.encode("utf-8", "surrogatepass")).digest()[:8]) / 2**64


# --- Caps -------------------------------------------------------------------------------------------------------------


def _caps() -> Iterator[Entry]:
    caps = [_alone(catalog.max_steps(n)) for n in range(1, MAX_CAP + 1)]
    yield _chosen("K95: a cap", "The cap that saves most of those that keep 95% of the training successes.", caps)
    yield RuleEntry(
        about=_about(
            "P75: a cap", "The 75th percentile of the lengths of the training runs (arXiv 2510.16786), blind."
        ),
        settings=caps,
        by_percentile=True,
    )
    for n, used_by in ((10, "openai-agents"), (20, "smolagents, AI SDK"), (30, "Gemini CLI's subagents"),
                       (50, "pydantic-ai")):  # fmt: skip
        yield _fixed(f"max_steps({n})", f"The default cap of {used_by}.", (Scoped(catalog.max_steps(n)),))


# --- Presets ----------------------------------------------------------------------------------------------------------


def _presets() -> Iterator[Entry]:
    seen: set[Setting] = set()
    for name, policy in policies.items():
        setting = detectors_of(policy)
        if not setting or setting in seen:
            continue
        seen.add(setting)
        what = f"The detectors of {name} with its own thresholds, without its caps and budgets."
        yield _fixed(f"{name}'s detectors", what, setting)


def detectors_of(policy: Policy) -> Setting:
    """The detectors of a policy as rules, with its own thresholds.

    A guard that stops does so at that threshold. One that never stops, but asks the user or blocks the call, counts as
    a stop there: a run without a user gets no answer. A guard that is evaluated before a call counts once that call is
    complete.
    """
    found = list(map(_guard_rule, policy.detectors.guards))
    if policy.detectors.doom_loop is not None:
        found.insert(0, Scoped(policy.detectors.repeat_rule(policy.detectors.doom_loop), "turn"))
    return tuple(scoped for scoped in found if scoped is not None)


def _guard_rule(guard: Guard) -> Scoped | None:
    thresholds = {action: threshold for threshold, action in reversed(guard.ladder)}  # the lowest of each action
    threshold = next((thresholds[action] for action in _STOPS if action in thresholds), None)
    if threshold is None:
        return None
    return Scoped(guard.at(threshold), "run" if guard.scope == "session" else "turn")


# --- Detectors --------------------------------------------------------------------------------------------------------


def _families() -> dict[str, list[StopRule]]:
    """The detectors, each with its thresholds, from tight to loose."""
    few, more = range(2, 11), (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 25, 30)
    return {
        "doom_loop(n)": [catalog.doom_loop(n) for n in more],
        "doom_loop(n, call+result)": [catalog.doom_loop(n, "call+result") for n in more],
        "doom_loop(n, tool)": [catalog.doom_loop(n, "tool") for n in more],
        "cycle(None, n)": [detectors.cycle(None, n) for n in few],
        "error_streak(n)": [catalog.error_streak(n, "ignore") for n in (1, *more)],
        "same_error(n)": [detectors.same_error(n, "ignore") for n in (1, *few)],
        "tool_errors(n)": [
            detectors.stop_when(ToolErrors(), n, "ignore", label=f"tool_errors({n})") for n in (1, *few)
        ],
        "failing_actions(n)": [detectors.failing_actions(n, "ignore") for n in (1, *few)],
        "repeating_actions(n)": [detectors.repeating_actions(n) for n in few],
        "alternating_actions(n)": [detectors.alternating_actions(n) for n in (3, 4, 5, 6, 7, 8, 10, 12)],
        "round_streak(n)": [detectors.round_streak(n) for n in few],
        "step_repeats(n, window=10)": [detectors.step_repeats(n, 10) for n in few],
        "tool_window(n, window=20)": [detectors.tool_window(n, 20) for n in range(5, 21, 3)],
        "idle_streak(n)": [detectors.idle_streak(n) for n in (1, *few)],
        "tool_budget(n)": [catalog.tool_budget(n) for n in range(1, MAX_CAP + 1)],
    }


def _single_detectors() -> Iterator[Entry]:
    for name in ("doom_loop(n)", "doom_loop(n, call+result)", "cycle(None, n)", "error_streak(n)", "same_error(n)"):
        yield _chosen(name, "One detector; n is chosen on the training runs.", list(map(_alone, _families()[name])))


def _choices() -> Iterator[Entry]:
    every = [_alone(rule) for rules in _families().values() for rule in rules]
    yield _chosen("the best detector", "Of all detectors at all thresholds, the one that saves most.", every)
    caps = [None, *(catalog.max_steps(n) for n in (*range(2, 21), *range(22, 41, 2), *range(45, 121, 5)))]
    loops = [None, *(catalog.doom_loop(n) for n in (2, 3, 4, 5, 6))]
    errors = [None, *(catalog.error_streak(n, on_unknown="ignore") for n in (2, 3, 4, 5, 6, 8))]
    combined = [tuple(Scoped(rule) for rule in chosen if rule is not None) for chosen in product(caps, loops, errors)]
    yield _chosen("the best combination", "A cap, doom_loop and error_streak together, each on or off.", combined)


# --- Parts ------------------------------------------------------------------------------------------------------------


def _about(name: str, description: str, definition: str = "") -> About:
    return About(name=name, authors=AUTHORS, description=description, definition=definition or description)


def _alone(rule: StopRule) -> Setting:
    return (Scoped(rule),)


def _fixed(name: str, description: str, setting: Setting) -> RuleEntry:
    definition = "\n".join(f"{each.rule}  (per {each.scope})" for each in setting)
    return RuleEntry(about=_about(name, description, definition), settings=[setting])


def _chosen(name: str, description: str, settings: Sequence[Setting]) -> RuleEntry:
    first, last = (" | ".join(str(each.rule) for each in settings[n]) or "no rule" for n in (0, -1))
    definition = f"The best on the training runs of {len(settings):,} settings, from {first} to {last}."
    return RuleEntry(about=_about(name, description, definition), settings=settings)
