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

from boolab.core.text import count
from boolab.core.types import MICRO, Run, Step, Usage
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
    """The figures that a log states about one run.

    Example:
        >>> from boolab.core.types import Response
        >>> totals = Totals()
        >>> totals.state("model_stats.api_calls", responses=3)
        >>> [str(one) for one in totals.check("r1", [Step(1, 1, None, None, None, Response("a", ()), ())])]
        ['run r1: model_stats.api_calls states 3 responses; 1 was read']
    """

    def __init__(self) -> None:
        self._stated: dict[tuple[str, str], _Stated] = {}

    @property
    def is_empty(self) -> bool:
        """Whether the log states nothing that is compared."""
        return not self._stated

    def state(self, place: str, **figures: Figure) -> None:
        """Note figures of the run: responses, calls, results, tokens, input_tokens, output_tokens, cost and so on."""
        for name, figure in figures.items():
            if figure is not None:
                least, most = figure if isinstance(figure, tuple) else (figure, figure)
                self._stated[place, name] = _Stated(place, name, least, most, None)

    def compare(self, place: str, name: str, stated: Figure, read: int) -> None:
        """Note a figure of the log that is none of the run's, and what was read."""
        if stated is not None:
            least, most = stated if isinstance(stated, tuple) else (stated, stated)
            self._stated[place, name] = _Stated(place, name, least, most, read)

    def check(
        self, run_id: str, steps: Sequence[Step], of_steps: Sequence[Mapping[tuple[str, str], int]] = ()
    ) -> list[Inconsistency]:
        """The figures that differ from those of the steps. Where one cannot be counted, nothing differs.

        `of_steps` are the figures that the log states for each step, by place and name: their sums are compared.
        """
        for key in dict.fromkeys(key for stated in of_steps for key in stated):
            both = [
                (stated[key], part)
                for step, stated in zip(steps, of_steps, strict=True)
                if key in stated and (part := _part(key[1], step.response.usage)) is not None
            ]
            self.compare(*key, sum(figure for figure, _ in both), sum(part for _, part in both))
        found = []
        for one in self._stated.values():
            lower, exact = (one.read, True) if one.read is not None else _counted(one.name, steps)
            slack = _slack(one) if one.name == "cost" else 0
            if lower > one.most + slack or (exact and lower < one.least - slack):
                stated = one.most if lower > one.most else one.least
                what = f"{one.place} states {_figure(one.name, stated)}; {_read(one.name, lower)}"
                found.append(Inconsistency(run_id, what, stated, lower))
        return found


def implausible(run_id: str, source: str, steps: Sequence[Step]) -> list[Inconsistency]:
    """What no correct reading of a log gives: calls without a name, the same usage again and again, calls in texts."""
    found = []
    names = [call.name for call in chain.from_iterable([step.response.tool_calls for step in steps])]
    nameless = names.count("")
    if nameless:
        what = f"{nameless:,} of {count(len(names), 'call')} {'has' if nameless == 1 else 'have'} no name"
        found.append(Inconsistency(run_id, what, len(names), nameless))
    usages = [step.response.usage for step in steps] if source in _CONVERTED else []
    repeated = sum(_is_repeated(*pair) for pair in pairwise(usages)) if usages else 0
    if repeated >= max(MIN_REPEATED, MIN_REPEATED_SHARE * len(usages)):
        what = (
            f"{repeated:,} of {count(len(usages), 'step')} have exactly the tokens of the step before: the log may "
            f"have a step for each block of a response, which would be {count(len(usages) - repeated, 'response')}"
        )
        found.append(Inconsistency(run_id, what, len(usages) - repeated, len(usages)))
    written = sum(_CALL_IN_TEXT.search(step.response.text) is not None for step in steps) if not names else 0
    if written > 1 and 2 * written >= len(steps):
        responses = count(len(steps), "response")
        what = f"none of {responses} has a call, but {written:,} of their texts hold what looks like one"
        found.append(Inconsistency(run_id, what, written, 0))
    return found


def check_file(runs: Iterable[Run], damage: Damage) -> list[Inconsistency]:
    """What is implausible in a whole file: lines of unknown types, and results that none of its calls has."""
    found = []
    unknown = damage.unknown_kinds.total()
    if unknown >= max(MIN_UNKNOWN_LINES, MIN_UNKNOWN_SHARE * damage.n_kinds):
        kinds = ", ".join(kind or "none" for kind, _ in damage.unknown_kinds.most_common(3))
        what = f"{unknown:,} of {count(damage.n_kinds, 'line')} are of a type that this reader does not know ({kinds})"
        found.append(Inconsistency("", what, damage.n_kinds, unknown))
    left_over = damage.n_unmatched
    if left_over >= MIN_UNANSWERED:
        results = [result for run in runs for step in run.steps for result in step.results]
        if len(results) >= MIN_UNANSWERED and not any(result is not None for result in results):
            calls, answers = count(len(results), "call"), count(left_over, "result")
            what = f"none of {calls} has a result, while {answers} answer no call: they may be paired in another way"
            found.append(Inconsistency("", what, left_over, 0))
    return found


def newer(versions: Iterable[str], tested: str) -> str:
    """The newest of the versions of a log, if it is newer than the one that its reader was tested with; else "".

    It is compared by as many numbers as the tested one has: a harness with a release each day names two.

    Example:
        >>> newer(["0.99.0", "0.146.2"], "0.145"), newer(["2.1.999", "dev"], "2.1"), newer(["ATIF-v1.8"], "ATIF-v1.7")
        ('0.146.2', '', 'ATIF-v1.8')
    """
    known = _numbers(tested)
    newest = max((version for version in versions if _numbers(version)), key=_numbers, default="")
    return newest if known and _numbers(newest)[: len(known)] > known else ""


@lru_cache(maxsize=256)
def _numbers(version: str) -> tuple[int, ...]:
    found = re.search(r"\d{1,9}(?:\.\d{1,9}){0,3}", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def _counted(name: str, steps: Sequence[Step]) -> tuple[int, bool]:
    """A figure of the steps, and whether it is exact: else some steps do not have it, and it is at least that."""
    if name == "responses":
        return len(steps), True
    if name == "calls":
        return sum(len(step.response.tool_calls) for step in steps), True
    if name == "results":
        return sum(result is not None for step in steps for result in step.results), True
    parts = [_part(name, step.response.usage) for step in steps]
    return sum(part or 0 for part in parts), None not in parts


def _part(name: str, usage: Usage) -> int | None:
    if name == "tokens":
        entered, left = usage.input_tokens, usage.output_tokens
        return None if entered is None or left is None else entered + left
    part: int | None = getattr(usage, name)
    return part


def _is_repeated(before: Usage, usage: Usage) -> bool:
    return bool(usage.input_tokens) and bool(usage.output_tokens) and usage == before


def _slack(one: _Stated) -> float:
    return max(_COST_MICRO, _COST_SHARE * one.most)


def _figure(name: str, figure: int) -> str:
    if name == "cost":
        return f"a cost of ${figure / MICRO:,.4f}"
    return count(figure, name.replace("_", " ").removesuffix("s"))


def _read(name: str, figure: int) -> str:
    if name == "cost":
        return f"the steps that were read cost ${figure / MICRO:,.4f}"
    return f"{figure:,} {'was' if figure == 1 else 'were'} read"
