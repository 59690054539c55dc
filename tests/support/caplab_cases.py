"""Recorded runs for tests of what limits would have made of them."""

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from boolab.core.run import Run
from boolab.core.types import UNKNOWN_USAGE, Response, Step, Stop, ToolCall, ToolResult, Usage


@dataclass(frozen=True)
class Told:
    """A run as a few words: each word of a turn is a step, each letter in it a call, `-` a step without calls."""

    turns: tuple[str, ...]
    success: bool | None = None
    agent: str = "coder"
    task: str = ""
    cut: bool = False
    cost: int | None = 1000

    def run(self, run_id: str) -> Run:
        """The run."""
        steps: list[Step] = []
        for turn, words in enumerate(self.turns, 1):
            steps += [_step(len(steps) + n, turn, word, self.cost) for n, word in enumerate(words.split(), 1)]
        n = sum(bool(step.response.tool_calls) for step in steps)
        stop = Stop("step_cap", n, f"max_steps({n})", n, n) if self.cut else Stop("finished", n)
        return Run(
            run_id=run_id, agent=self.agent, model="m", policy="boocode", task=self.task, stop=stop, steps=tuple(steps),
            success=self.success,
        )  # fmt: skip


def _step(index: int, turn: int, word: str, cost: int | None) -> Step:
    calls = tuple(ToolCall(f"{index}.{n}", "look", f'{{"what": "{name}"}}') for n, name in enumerate(word.strip("-")))
    usage = UNKNOWN_USAGE if cost is None else Usage(100 + index, 10, cost=cost * index)
    response = Response("" if calls else "Done.", calls, usage=usage)
    return Step(index, turn, 100 * index, 90, 80, response, tuple(ToolResult(call.id, "seen") for call in calls))


def runs_of(*told: Told) -> list[Run]:
    """Runs named r0, r1 ..."""
    return [one.run(f"r{n}") for n, one in enumerate(told)]


@st.composite
def families(draw: st.DrawFn, labels: st.SearchStrategy[Any]) -> list[Run]:
    """Some runs in any order, some of which were started by others; only those that no run started have labels."""
    runs = draw(several(labels))
    for n in range(1, len(runs)):
        parent = draw(st.none() | st.integers(0, n - 1))
        if parent is not None:
            runs[n] = replace(runs[n], parent_run_id=runs[parent].run_id, success=None)
    return draw(st.permutations(runs))


def _turn(words: list[str]) -> str:
    return " ".join([*words, "-"])


_TURNS = st.lists(st.lists(st.text("AB", min_size=1, max_size=3), max_size=5).map(_turn), min_size=1, max_size=3)


@st.composite
def several(draw: st.DrawFn, labels: st.SearchStrategy[Any]) -> list[Run]:
    """Some runs of up to three turns, some of them cut, of two agents and few tasks."""
    told = []
    for _ in range(draw(st.integers(1, 8))):
        turns, cut = draw(_TURNS), draw(st.booleans())
        if cut:
            turns = [*turns[:-1], turns[-1].removesuffix("-").strip() or "A"]
        told.append(
            Told(
                tuple(turns),
                draw(labels),
                draw(st.sampled_from(["coder", "explorer"])),
                draw(st.sampled_from(["", "one", "two"])),
                cut,
                draw(st.sampled_from([None, 1000, 1003])),
            )
        )
    return runs_of(*told)
