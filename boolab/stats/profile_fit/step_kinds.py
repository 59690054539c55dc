"""The kind of each step of a record, in the classes of a `Profile`: loops, retries, revisits, the rest.

A record holds calls, not intentions. These are the rules of `boolab.runtime.models.profile`, read backwards:

- A *loop* is a pass over the latest `period` steps, repeated call by call, in order and in full. The shortest period
  that fits is taken. If the end of a record cuts a pass short, it counts only where a whole pass came before. Two
  revisits in a row that happen to keep the order look like a loop.
- A *retry* is a failed call, alone, repeated in the next step. A loop of one step over a failed call looks the same.
  Loops repeat the response and retries are new ones: so it is a loop if text and output tokens are equal too, and a
  retry if they differ, or the record has neither.
- A *revisit* is any other repeated call, unless it repeats the call just before it.

Failures are known only where the record shows them. Elsewhere no step counts as one after a failure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final, Literal, NamedTuple, TypeAlias

from boolab.core.redacted import chars_of
from boolab.core.run import Run
from boolab.core.types import REDACTED, Step, ToolCall, ToolResult
from boolab.frames.runs import turns_of
from boolab.limits.call_identity import call_key

Key: TypeAlias = tuple[str, ...]

MAX_PERIOD = 10
"""Steps: of longer loops a record holds a whole pass too rarely."""

ENDED: Final = frozenset({"finished", "synthesis"})
"""The stop reasons of runs that ended by themselves."""
_WITHOUT_RESULT: Final = frozenset({"paused", "aborted", "error"})

Kind: TypeAlias = Literal["go_on", "finish", "give_up", "retry", "vary", "switch", "loop"]
"""What a step was: `vary`, `switch`, `retry` and `give_up` follow a failure, `go_on` and `finish` do not."""


class Made(NamedTuple):
    """One call of a step.

    `open`: it might have been a revisit; `again`: it was one; `same_result`: whether it returned what the earlier call
    returned. `failed` and `latency_ms` are None where the record does not have them.
    """

    tool: str
    argument_chars: int | None
    failed: bool | None
    result_chars: int | None
    latency_ms: int | None
    open: bool
    again: bool
    same_result: bool | None


class Move(NamedTuple):
    """One step of a turn. `step` counts from 1; `last_tool` was called last before it, None in the first step.

    `failed_before`: whether a call of the step before failed, None where that is not known. `may_loop`: whether a loop
    might have begun here and would have been recognised.
    """

    step: int
    kind: Kind
    last_tool: str | None
    failed_before: bool | None
    may_loop: bool
    calls: tuple[Made, ...]
    source: Step


class Loop(NamedTuple):
    """One loop: its first step, its period, its length in steps, and its end.

    After `again` of its passes it continued, after `left` (0 or 1) it did not. `exact`: no limit hides a longer period,
    and it is certainly no retry.
    """

    step: int
    period: int
    length: int
    again: int
    left: int
    exact: bool


class TurnMoves(NamedTuple):
    """One turn of a run: its moves in order, its loops, and whether it ended by itself.

    `won`: whether its run was a success; None where that is not known, or the run has other turns.
    """

    run: Run
    number: int
    moves: tuple[Move, ...]
    loops: tuple[Loop, ...]
    finished: bool
    won: bool | None = None

    @property
    def end(self) -> int:
        """The step at which the run finished, or the number of steps after which a limit stopped it."""
        return len(self.moves) if self.run.stop.reason in ENDED else self.run.stop_step


class _KeptTurn(NamedTuple):
    """The steps of a turn that are the agent's own, with the keys of their calls."""

    run: Run
    number: int
    steps: list[Step]
    keys: list[tuple[Key | None, ...]]
    failed: list[bool | None]
    finished: bool


def turns(runs: Sequence[Run], finish_tool: str | None = None) -> list[TurnMoves]:
    """The turns of runs, step by step; those without a step are left out.

    A turn ends with the first step without calls: what follows in it is no longer the agent's own. Where a limit cut a
    turn, a last answer in text is left out, because the limit requested it; so are broken responses, and whatever
    follows them. A call of `finish_tool` ends a turn too.
    """
    own_turns = list(chain.from_iterable(_kept_turns(run, finish_tool) for run in runs))
    loops = [list(_loops(turn)) for turn in own_turns]
    longest = max((loop.period for loop in chain.from_iterable(loops)), default=1)
    number_of = Counter(id(turn.run) for turn in own_turns)
    return [
        _classify(turn, turn_loops, longest)._replace(won=_label(turn.run) if number_of[id(turn.run)] == 1 else None)
        for turn, turn_loops in zip(own_turns, loops, strict=True)
    ]


def _label(run: Run) -> bool | None:
    """Whether a run was a success; None where its end leaves that open."""
    return None if run.success is None or run.stop.reason in _WITHOUT_RESULT else bool(run.success)


def closing_tool(runs: Sequence[Run]) -> str | None:
    """The tool whose call ends runs; None if there is none.

    It ends most of the finished runs, without a text after it, and at least half of its calls end a run.
    """
    finished = [run.steps[-1].response.tool_calls for run in runs if run.stop.reason == "finished" and run.steps]
    ends = Counter(calls[-1].name for calls in finished if calls)
    calls = Counter(
        call.name
        for call in chain.from_iterable(
            step.response.tool_calls for step in chain.from_iterable(run.steps for run in runs)
        )
    )
    ending_tools = [name for name, n in ends.items() if 2 * n > len(finished) and 2 * n >= calls[name]]
    return ending_tools[0] if ending_tools else None


def _kept_turns(run: Run, finish_tool: str | None) -> Iterator[_KeptTurn]:
    turn_list = list(turns_of(run))
    for number, steps in turn_list:
        last = number == turn_list[-1][0]
        own_steps, finished = _own_steps(steps, finish_tool, is_cut=last and run.censored, last=last)
        if own_steps:
            keys = [tuple(call_key(call) for call in step.response.tool_calls) for step in own_steps]
            if finished:
                keys[-1] = ()
            yield _KeptTurn(run, number, own_steps, keys, [_has_failed_call(step) for step in own_steps], finished)


def _own_steps(steps: Sequence[Step], finish_tool: str | None, *, is_cut: bool, last: bool) -> tuple[list[Step], bool]:
    """The steps that are the agent's own, and whether the last of them ended the turn."""
    own_steps: list[Step] = []
    for step in steps:
        calls = step.response.tool_calls
        if step.error or (is_cut and not calls and step is steps[-1]):
            return own_steps, False
        own_steps.append(step)
        if not calls or any(call.name == finish_tool for call in calls):
            return own_steps, True
    return own_steps, last and not is_cut


def _has_failed_call(step: Step) -> bool | None:
    """Whether a call of a step failed; None where the record does not have it."""
    failed = [result.is_error for result in step.results if result is not None]
    return True if True in failed else None if None in failed else False


def _loops(turn: _KeptTurn) -> Iterator[Loop]:
    keys, index, after = turn.keys, 1, 0
    while index < len(keys):
        period = _period(turn, index) if index != after else 0
        if not period:
            index += 1
            continue
        cycle, end = keys[index - period : index], index + period
        while keys[end : end + period] == cycle:
            end += period
        rest = len(keys) - end
        cut_short = 0 < rest < period and not turn.finished and keys[end:] == cycle[:rest]
        exact = not (turn.failed[index - 1] and period == 1)
        n_more = (end - index) // period - 1 + cut_short
        yield Loop(index + 1, period, end - index + rest * cut_short, n_more, int(rest > 0 and not cut_short), exact)
        index = after = end + rest * cut_short


def _period(turn: _KeptTurn, index: int) -> int:
    """The number of steps of the loop that begins at a place; 0 if none does."""
    keys = turn.keys
    for period in range(1, min(MAX_PERIOD, index) + 1):
        cycle = keys[index - period : index]
        if keys[index : index + period] != cycle or not all(calls and None not in calls for calls in cycle):
            continue
        if period == 1 and _is_retry(turn, index):
            return 0
        if not any(cycle == cycle[:part] * (period // part) for part in range(1, period) if period % part == 0):
            return period
    return 0


def _is_retry(turn: _KeptTurn, index: int) -> bool:
    """Whether a step that is the same as the one before it is a retry, not a loop."""
    return turn.failed[index - 1] is True and len(turn.keys[index]) == 1 and not _repeats(turn.steps, index)


def _repeats(steps: Sequence[Step], index: int) -> bool:
    """Whether a response equals the one before in text and output tokens, as far as the record has them."""
    new, old = steps[index].response, steps[index - 1].response
    has_facts = bool(new.text) or new.usage.output_tokens is not None
    return has_facts and (new.text, new.usage.output_tokens) == (old.text, old.usage.output_tokens)


def _classify(turn: _KeptTurn, loops: Sequence[Loop], longest: int) -> TurnMoves:
    begins = {loop.step - 1 for loop in loops}
    loop_steps = set(chain.from_iterable(range(loop.step - 1, loop.step - 1 + loop.length) for loop in loops))
    after = {loop.step - 1 + loop.length for loop in loops}
    moves: list[Move] = []
    memory = _Memory()
    last_tool: str | None = None
    for index, step in enumerate(turn.steps):
        calls = () if turn.finished and step is turn.steps[-1] else step.response.tool_calls
        failed_before = turn.failed[index - 1] if index else False
        kind = "loop" if index in loop_steps else _kind(turn, index)
        is_known = not failed_before and (turn.finished or index + longest <= len(turn.steps))
        may_loop = is_known and index > 0 and index not in after and (index not in loop_steps or index in begins)
        calls_made = tuple(memory.add_call(*pair, kind) for pair in zip(calls, step.results, strict=False))
        moves.append(Move(index + 1, kind, last_tool, failed_before, may_loop, calls_made, step))
        last_tool = calls[-1].name if calls else last_tool
    known_loops = [
        loop._replace(exact=loop.exact and moves[loop.step - 1].may_loop and loop.step > longest) for loop in loops
    ]
    return TurnMoves(turn.run, turn.number, tuple(moves), tuple(known_loops), turn.finished)


def _kind(turn: _KeptTurn, index: int) -> Kind:
    """The kind of a step outside loops."""
    ends = turn.finished and index == len(turn.steps) - 1
    if not (index and turn.failed[index - 1]):
        return "finish" if ends else "go_on"
    if ends:
        return "give_up"
    last_step = turn.steps[index - 1]
    pairs = zip(last_step.response.tool_calls, turn.keys[index - 1], last_step.results, strict=True)
    failed, key = [(call, key) for call, key, result in pairs if result is not None and result.is_error][-1]
    if key is not None and turn.keys[index] == (key,):
        return "retry"
    return "vary" if turn.steps[index].response.tool_calls[0].name == failed.name else "switch"


class _Memory:
    """The calls of a turn so far, to find repeated ones."""

    def __init__(self) -> None:
        self._results: dict[Key, list[ToolResult | None]] = {}
        self._keys: list[Key | None] = []
        self._tools: list[str] = []

    def add_call(self, call: ToolCall, result: ToolResult | None, kind: Kind) -> Made:
        """The facts of the next call."""
        key = call_key(call)
        classified = kind in ("loop", "retry")
        is_open = not classified and key is not None and call.name in self._tools[:-1]
        just_before = bool(self._keys) and key == self._keys[-1]
        is_revisit = is_open and not just_before and key in self._results
        earlier = [] if key is None else self._results.setdefault(key, [])
        contents = [earlier_result.content for earlier_result in earlier if earlier_result is not None]
        same_result = result.content in contents if is_revisit and result is not None and contents else None
        earlier.append(result)
        self._keys.append(key)
        self._tools.append(call.name)
        return Made(
            call.name,
            None if call.arguments == REDACTED else chars_of(call.arguments),
            None if result is None else result.is_error,
            None if result is None else chars_of(result.content),
            None if result is None else result.duration_ms,
            is_open,
            is_revisit,
            same_result,
        )
