"""What a log states about itself, compared with what was read of it; and what no correct reading gives.

Readers pass the figures that their logs state to `RunBuilder.state`. `Totals` compares them with the run when it is
built, and looks for what is implausible in it. `check_file` does the same for a whole file. Each difference is an
`Inconsistency`, with both numbers: a warning, a row of the audit, and a line in the report's data quality.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from typing import Final, NamedTuple, TypeAlias

from boolab.core.run import Run, steps_in
from boolab.core.text import count
from boolab.core.types import MICRO, Step, Usage, result_slots_in, results_in
from boolab.io.json_input import Damage, Inconsistency

Figure: TypeAlias = int | tuple[int, int] | None
"""A stated figure: exact, or the least and the most that it allows."""

_COST_SHARE: Final = 0.005
_COST_MICRO: Final = 100
"""Logs round costs: those that differ by less, in share or in millionths of a dollar, are equal."""
MIN_REPEATED: Final = 3
MIN_REPEATED_SHARE: Final = 0.25
MIN_UNKNOWN_LINES: Final = 3
MIN_UNKNOWN_SHARE: Final = 0.1
MIN_UNANSWERED: Final = 2
_CONVERTED: Final = ("atif",)
"""Formats into which others convert their logs, and whose steps have no id of their response."""
_CALL_IN_TEXT: Final = re.compile(
    r"<tool_call>|<\|?tool_calls?(?:_begin|_section_begin)?\|?>|<function_calls>|<function=\w|<invoke name=|<tool_use>"
    r"|\[TOOL_CALLS\]|<\|python_tag\|>|^Action Input:",
    re.MULTILINE,
)


class _Stated(NamedTuple):
    place: str
    name: str
    least: int
    most: int
    read: int | None
    """None if it is a figure of the run, which is counted when the run is built."""


class Totals:
    """The figures that a log states about one run."""

    def __init__(self) -> None:
        self._stated: dict[tuple[str, str], _Stated] = {}

    @property
    def is_empty(self) -> bool:
        """Whether the log states nothing that is compared."""
        return not self._stated

    def state(self, location: str, **figures: Figure) -> None:
        """Note figures of the run: responses, calls, results, tokens, input_tokens, output_tokens, cost and so on."""
        for name, figure in figures.items():
            if figure is not None:
                minimum, maximum = figure if isinstance(figure, tuple) else (figure, figure)
                self._stated[location, name] = _Stated(location, name, minimum, maximum, None)

    def compare(self, location: str, name: str, stated: Figure, read: int) -> None:
        """Note a figure of the log that is none of the run's, and what was read."""
        if stated is not None:
            minimum, maximum = stated if isinstance(stated, tuple) else (stated, stated)
            self._stated[location, name] = _Stated(location, name, minimum, maximum, read)

    def check(
        self, run_id: str, steps: Sequence[Step], of_steps: Sequence[Mapping[tuple[str, str], int]] = ()
    ) -> list[Inconsistency]:
        """The figures that differ from those of the steps; the sums of `of_steps` are compared too."""
        for key in dict.fromkeys(chain.from_iterable(of_steps)):
            pairs = [
                (stated[key], part)
                for step, stated in zip(steps, of_steps, strict=True)
                if key in stated and (part := _part(key[1], step.response.usage)) is not None
            ]
            self.compare(*key, sum(figure for figure, _ in pairs), sum(part for _, part in pairs))
        inconsistencies = []
        for entry in self._stated.values():
            lower, exact = (entry.read, True) if entry.read is not None else _count_figure(entry.name, steps)
            slack = max(_COST_MICRO, _COST_SHARE * entry.most) if entry.name == "cost" else 0
            if lower > entry.most + slack or (exact and lower < entry.least - slack):
                stated = entry.most if lower > entry.most else entry.least
                text = f"{entry.place} states {_figure(entry.name, stated)}; {_read(entry.name, lower)}"
                inconsistencies.append(Inconsistency(run_id, text, stated, lower))
        return inconsistencies


def find_implausible(run_id: str, source: str, steps: Sequence[Step]) -> list[Inconsistency]:
    """What no correct reading of a log gives: calls without a name, the same usage again and again, calls in texts."""
    inconsistencies = []
    names = [call.name for call in chain.from_iterable([step.response.tool_calls for step in steps])]
    nameless = names.count("")
    if nameless:
        text = f"{nameless:,} of {count(len(names), 'call')} {'has' if nameless == 1 else 'have'} no name"
        inconsistencies.append(Inconsistency(run_id, text, len(names), nameless))
    usages = [step.response.usage for step in steps] if source in _CONVERTED else []
    known = (usage.input_tokens and usage.output_tokens and usage == before for before, usage in pairwise(usages))
    repeated = sum(map(bool, known))
    if repeated >= max(MIN_REPEATED, MIN_REPEATED_SHARE * len(usages)):
        text = (
            f"{repeated:,} of {count(len(usages), 'step')} have exactly the tokens of the step before: the log may "
            f"have a step for each block of a response, which would be {count(len(usages) - repeated, 'response')}"
        )
        inconsistencies.append(Inconsistency(run_id, text, len(usages) - repeated, len(usages)))
    n_call_texts = sum(_CALL_IN_TEXT.search(step.response.text) is not None for step in steps) if not names else 0
    if n_call_texts > 1 and 2 * n_call_texts >= len(steps):
        responses = count(len(steps), "response")
        text = f"none of {responses} has a call, but {n_call_texts:,} of their texts hold what looks like one"
        inconsistencies.append(Inconsistency(run_id, text, n_call_texts, 0))
    return inconsistencies


def check_file(runs: Iterable[Run], damage: Damage) -> list[Inconsistency]:
    """What is implausible in a whole file: lines of unknown types, and results that none of its calls has."""
    inconsistencies = []
    unknown = damage.unknown_kinds.total()
    if unknown >= max(MIN_UNKNOWN_LINES, MIN_UNKNOWN_SHARE * damage.n_kinds):
        kinds = ", ".join(kind or "none" for kind, _ in damage.unknown_kinds.most_common(3))
        text = f"{unknown:,} of {count(damage.n_kinds, 'line')} are of a type that this reader does not know ({kinds})"
        inconsistencies.append(Inconsistency("", text, damage.n_kinds, unknown))
    left_over = damage.n_unmatched
    if left_over >= MIN_UNANSWERED:
        results = [*result_slots_in(steps_in(runs))]
        if len(results) >= MIN_UNANSWERED and not any(result is not None for result in results):
            calls, answers = count(len(results), "call"), count(left_over, "result")
            text = f"none of {calls} has a result, while {answers} answer no call: they may be paired in another way"
            inconsistencies.append(Inconsistency("", text, left_over, 0))
    return inconsistencies


def newer_version(versions: Iterable[str], tested: str) -> str:
    """The newest of the versions of a log, if it is newer than the one that its reader was tested with; else "".

    It is compared by as many numbers as the tested one has: a harness with a release each day names two.
    """
    tested_numbers = _numbers(tested)
    newest = max((version for version in versions if _numbers(version)), key=_numbers, default="")
    return newest if tested_numbers and _numbers(newest)[: len(tested_numbers)] > tested_numbers else ""


@lru_cache(maxsize=256)
def _numbers(version: str) -> tuple[int, ...]:
    match = re.search(r"\d{1,9}(?:\.\d{1,9}){0,3}", version)
    return tuple(map(int, match[0].split("."))) if match else ()


def _count_figure(name: str, steps: Sequence[Step]) -> tuple[int, bool]:
    """A figure of the steps, and whether it is exact: else some steps do not have it, and it is at least that."""
    if name == "responses":
        return len(steps), True
    if name == "calls":
        return sum(len(step.response.tool_calls) for step in steps), True
    if name == "results":
        return sum(1 for _ in results_in(steps)), True
    parts = [_part(name, step.response.usage) for step in steps]
    return sum(part or 0 for part in parts), None not in parts


def _part(name: str, usage: Usage) -> int | None:
    if name == "tokens":
        input_tokens, output_tokens = usage.input_tokens, usage.output_tokens
        return None if input_tokens is None or output_tokens is None else input_tokens + output_tokens
    part: int | None = getattr(usage, name)
    return part


def _figure(name: str, figure: int) -> str:
    if name == "cost":
        return f"a cost of ${figure / MICRO:,.4f}"
    return count(figure, name.replace("_", " ").removesuffix("s"))


def _read(name: str, figure: int) -> str:
    if name == "cost":
        return f"the steps that were read cost ${figure / MICRO:,.4f}"
    return f"{figure:,} {'was' if figure == 1 else 'were'} read"
