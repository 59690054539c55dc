"""A profile of a simulated agent from recorded runs: each figure with its interval, and how well the whole fits.

`boolab.stats.profile_fit.step_kinds` classifies the steps of a record, the hazard of finishing is in
`boolab.stats.profile_fit.parameters`, and `boolab.stats.profile_fit.result` plays the fitted profile to compare it.
What a record does not hold is left out of the profile and listed in the notes; where the profile needs a number
nevertheless, it is listed in its `assumptions`: unknown is not zero.

Source: shares of next tools are the maximum-likelihood figures of a Markov chain (Anderson and Goodman, Annals of
Mathematical Statistics 28 (1957) 89-110).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, TypeVar

import numpy as np

from boolab.core.redacted import chars_of
from boolab.core.run import Run
from boolab.core.text import count
from boolab.errors import SettingError
from boolab.frames.runs import Runs, as_runs
from boolab.runtime.models.profile import Profile
from boolab.stats.finding import pairs
from boolab.stats.intervals import check_confidence, mean
from boolab.stats.profile_fit.parameters import MIN_OBSERVATIONS, Chances, Figures, hazards, pieces
from boolab.stats.profile_fit.result import Fit, fit_of
from boolab.stats.profile_fit.step_kinds import ENDED, Made, TurnMoves, closing_tool, turns

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_.-]")
_Part = TypeVar("_Part")
_AFTER_ERROR: Final = ("retry", "vary", "switch", "give_up")


def fit_profile(
    runs: Runs,
    *,
    name: str = "fitted",
    source: str = "",
    difficulties: Mapping[str, str] | None = None,
    hazard_from: Sequence[int] | None = None,
    finish_tool: str | None = None,
    confidence: float = 0.95,
    simulated: int = 1000,
) -> Fit:
    """Estimate the profile of an agent from its runs.

    A simulated run is one turn, so each turn of a session counts as one. Turns that a limit cut count as far as they
    were recorded. Intervals take tasks as clusters where there are several, else runs, else turns.

    Args:
        runs: Runs of one agent: recorded, imported or simulated.
        name: The name of the profile.
        source: Where the runs come from, for the profile's `sources`.
        difficulties: The difficulty of each task, by its text, where it is known.
        hazard_from: The steps from which the hazard changes, the first being 1. By default the division that
            Schwarz' criterion prefers; the intervals then assume that it is the right one.
        finish_tool: The tool whose call ends a run. By default the tool whose call ends most of the finished runs, if
            there is one. Where a text follows the call, it is not recognised.
        confidence: Of the intervals.
        simulated: How many runs of the fitted profile the record is compared with.

    Returns:
        The profile, the intervals of its figures, and how well it fits.

    Raises:
        SettingError: if no run holds a step with a call, or an argument is not accepted.

    Example:
        >>> import boolab as bl
        >>> profile = bl.models.Profile.of({"tools": {"look": {"error_rate": 0.2}}, "finish": {"hazard": 0.25}})
        >>> model = bl.SimulatedModel(profile)
        >>> runs = [bl.run_sync(None, f"Task {i}", model=model, seed=i) for i in range(200)]
        >>> fit = bl.fit_profile(runs, simulated=100)
        >>> fit.estimate("finish.hazard.0.probability").low < 0.25 < fit.estimate("finish.hazard.0.probability").high
        True
    """
    check_confidence(confidence)
    if hazard_from is not None and ([*hazard_from][:1] != [1] or any(a >= b for a, b in pairwise(hazard_from))):
        raise SettingError(f"hazard_from={hazard_from!r}: expected steps that begin with 1 and ascend")
    run_list = as_runs(runs)
    record = _Seen(run_list, difficulties or {}, finish_tool)
    if not record.tools:
        msg = f"{count(len(run_list), 'run')}, and none holds a step with a call: there is nothing to fit a profile to"
        raise SettingError(msg)
    figures = Figures(confidence)
    _note_quality(record, figures)
    _chain(record, figures)
    _finish(record, figures, hazard_from)
    _loops(record, figures)
    _measure_errors(record, figures)
    _revisits(record, figures)
    _sizes(record, figures)
    _times(record, figures)
    _tokens(record, figures)
    _success(record, figures)
    _difficulties(record, figures)
    origin = source or f"fitted to {count(len(run_list), 'run')}"
    sources = {parameter: f"{origin}: {basis}" for parameter, basis in figures.basis.items()}
    profile = Profile.of({"name": name, "sources": sources, "assumptions": figures.assumed, **figures.profile})
    if not profile.limits_never_help:
        figures.notes.append(
            "A run that a limit stops may be a success which it would not be later: long runs succeed less often on "
            "record. A tight limit then looks better than it is."
        )
    return fit_of(profile, figures, record.turns, record.finish_tool, simulated)


def _parts_by_cluster(
    by_turn: Sequence[tuple[int, TurnMoves]], parts: Callable[[TurnMoves], Iterable[_Part]]
) -> list[tuple[int, _Part]]:
    """The parts of turns, each with the cluster of its turn."""
    return [(code, part) for (code, _), part in pairs(by_turn, lambda code_and_turn: parts(code_and_turn[1]))]


class _Seen:
    """The steps and calls of an agent, each with its cluster."""

    def __init__(self, runs: Sequence[Run], difficulties: Mapping[str, str], finish_tool: str | None) -> None:
        self.finish_tool = finish_tool or closing_tool(runs)
        self.turns = turns(runs, self.finish_tool)
        self.difficulties = difficulties
        self.by_turn = [*zip(_clusters(self.turns), self.turns, strict=True)]
        self.moves = _parts_by_cluster(self.by_turn, lambda turn: turn.moves)
        self.calls = [
            (code, move, call) for (code, move), call in pairs(self.moves, lambda code_and_move: code_and_move[1].calls)
        ]
        # Those that repeat no other.
        self.new = [(c, call) for c, move, call in self.calls if move.kind not in ("loop", "retry") and not call.again]
        self.own = [(code, move) for code, move in self.moves if move.kind != "loop"]
        self.tools = sorted({_tool_name(call.tool) for _, _, call in self.calls})


def _clusters(turn_list: Sequence[TurnMoves]) -> list[int]:
    """The cluster of each turn: its task, where there are several; else its run; else the turn itself."""
    by_task = [turn.run.task or turn.run.run_id for turn in turn_list]
    by_run = [turn.run.run_id for turn in turn_list]
    by_turn = [str(index) for index in range(len(turn_list))]
    labels = next((task_turns for task_turns in (by_task, by_run) if len(set(task_turns)) > 1), by_turn)
    codes = {label: code for code, label in enumerate(dict.fromkeys(labels))}
    return [codes[label] for label in labels]


def _tool_name(tool: str) -> str:
    """A tool's name as profiles accept it."""
    return _NOT_IN_NAMES.sub("_", tool)[:64] or "_"


def _chain(record: _Seen, figures: Figures) -> None:
    """Which tool follows which, and how many calls a step has."""
    follows: list[tuple[int, str, str]] = []
    starts: list[tuple[int, str]] = []
    sizes: list[tuple[int, str, int]] = []
    for code, move in record.moves:
        if not move.calls or move.kind not in ("go_on", "vary", "switch"):
            continue
        names = [_tool_name(call.tool) for call in move.calls]
        if move.kind == "go_on" and move.last_tool is None:
            starts.append((code, names[0]))
        elif move.kind == "go_on" and move.last_tool is not None:
            follows.append((code, _tool_name(move.last_tool), names[0]))
        follows += [(code, single, two) for single, two in pairwise(names)]
        sizes.append((code, names[0], len(names)))
    figures.shares(("start",), starts)
    figures.shares(("calls",), [(code, size) for code, _, size in sizes])
    has_several = any(size > 1 for _, _, size in sizes)
    for tool in record.tools:
        figures.put(("tools", tool), {})
        figures.shares(
            ("tools", tool, "next"), [(code, after) for code, last_tool, after in follows if last_tool == tool]
        )
        tool_sizes = [(code, size) for code, first, size in sizes if first == tool]
        if has_several and len(tool_sizes) >= MIN_OBSERVATIONS:
            figures.shares(("tools", tool, "calls"), tool_sizes)
    figures.basis["tools"] = f"{count(len(record.calls), 'call')} in {count(len(record.moves), 'step')}"


def _finish(record: _Seen, figures: Figures, starts: Sequence[int] | None) -> None:
    """The hazard by step, and its factors for tools and difficulties."""
    code_and_turn = (
        (code, move, turn) for (code, turn), move in pairs(record.by_turn, lambda code_and_turn: code_and_turn[1].moves)
    )
    exposed = [entry for entry in code_and_turn if entry[1].kind in ("go_on", "finish")]
    chances = Chances(
        np.array([move.step for _, move, _ in exposed], dtype=np.int64),
        np.array([move.kind == "finish" for _, move, _ in exposed], dtype=bool),
        np.array([code for code, _, _ in exposed], dtype=np.int64),
    )
    # Places as tuples cannot clash, whatever tools and difficulties are called.
    last = [move.last_tool for _, move, _ in exposed]
    tools = [None if tool is None else ("tools", _tool_name(tool), "finish_factor") for tool in last]
    names = [record.difficulties.get(turn.run.task) for _, _, turn in exposed]
    tasks = [None if name is None else ("difficulties", name, "hazard_factor") for name in names]
    begins = [*(pieces(chances.steps, chances.finished) if starts is None else starts)]
    fitted = hazards(chances, begins, [tools, tasks], figures.confidence)
    known_pieces = [(start, level) for start, level in zip(fitted.starts, fitted.levels, strict=True) if level.n]
    levels = [{"from_step": start, "probability": min(level.value, 1.0)} for start, level in known_pieces]
    figures.put(("finish", "hazard"), levels)
    figures.rows |= {f"finish.hazard.{piece}.probability": level for piece, (_, level) in enumerate(known_pieces)}
    for piece, factor in fitted.factors.items():
        figures.estimate(piece, factor)
    if record.finish_tool is not None:
        figures.put(("finish", "tool"), _tool_name(record.finish_tool))
    ended = int(chances.finished.sum())
    figures.basis["finish.hazard"] = f"{count(ended, 'end')} in {count(len(exposed), 'step')} that might have been one"
    if not ended:
        figures.notes.append("No turn ended by itself: the hazard is 0, and only limits end runs of the profile.")


def _loops(record: _Seen, figures: Figures) -> None:
    """How often loops begin, their periods, and how often they are repeated once more."""
    may = [(code, move.kind == "loop") for code, move in record.moves if move.may_loop]
    loops = _parts_by_cluster(record.by_turn, lambda turn: turn.loops)
    figures.basis["loop"] = f"{count(len(loops), 'loop')}; {count(len(may), 'step')} at which one might have begun"
    if figures.probability(("loop", "rate"), may).value:
        figures.shares(("loop", "period"), [(code, loop.period) for code, loop in loops if loop.exact])
        ends: list[tuple[int, bool]] = []
        for code, loop in loops:
            ends += [(code, True)] * loop.again + [(code, False)] * loop.left
        figures.probability(("loop", "again"), ends)


def _measure_errors(record: _Seen, figures: Figures) -> None:
    """How often calls fail, and what follows."""
    known_calls = [(code, _tool_name(call.tool), call.failed) for code, call in record.new if call.failed is not None]
    if not known_calls:
        figures.note_absent("after_error", "The record does not show which calls failed: no call of the profile fails.")
        return
    for tool in record.tools:
        figures.probability(
            ("tools", tool, "error_rate"), [(code, failed) for code, name, failed in known_calls if name == tool]
        )
    unknown = [tool for tool in record.tools if f"tools.{tool}.error_rate" not in figures.rows]
    for tool in unknown:
        figures.note_absent(f"tools.{tool}.error_rate", f"The record never shows whether a call of {tool} failed.")
    followed = [(code, move.kind) for code, move in record.own if move.failed_before]
    figures.basis["after_error"] = f"{count(len(followed), 'step')} after a failed call"
    if followed:
        figures.put(("after_error",), dict.fromkeys(_AFTER_ERROR, 0.0))
        figures.shares(("after_error",), followed)
        retried = [(code, call.failed) for code, move, call in record.calls if move.kind == "retry"]
        figures.probability(
            ("after_error", "fails_again"), [(code, failed) for code, failed in retried if failed is not None]
        )
    else:
        figures.note_absent("after_error", "No step follows a failed call: what the profile does then was not seen.")


def _revisits(record: _Seen, figures: Figures) -> None:
    """How often calls are repeated without a loop, and whether they give the same result."""
    might = [(code, call.again) for code, _, call in record.calls if call.open]
    figures.basis["revisit"] = f"{count(len(might), 'call')} that might have been one"
    if figures.probability(("revisit", "rate"), might).value:
        results = [(code, call.same_result) for code, _, call in record.calls if call.same_result is not None]
        figures.probability(("revisit", "same_result"), [(code, bool(same_results)) for code, same_results in results])


def _sizes(record: _Seen, figures: Figures) -> None:
    """The length of texts: a tool with enough calls has its own, the others that of all tools together."""
    parts: dict[str, Callable[[Made], int | None]] = {
        "argument_chars": lambda call: call.argument_chars,
        "result_chars": lambda call: None if call.failed else call.result_chars,
        "error_chars": lambda call: call.result_chars if call.failed else None,
        "latency_ms": lambda call: call.latency_ms,
    }
    for figure, get in parts.items():
        values = [(code, _tool_name(call.tool), get(call)) for code, call in record.new]
        known_calls = [(code, tool, value) for code, tool, value in values if value is not None]
        pooled, _ = figures.distribution((code, value) for code, _, value in known_calls)
        for tool in record.tools:
            tool_calls = [(code, value) for code, name, value in known_calls if name == tool]
            if len(tool_calls) >= MIN_OBSERVATIONS:
                figures.amount(("tools", tool, figure), tool_calls)
            elif pooled is not None:
                figures.put(("tools", tool, figure), pooled)
    texts = [(code, move, chars_of(move.source.response.text)) for code, move in record.own]
    figures.amount(("text_chars",), [(code, n) for code, move, n in texts if move.calls])
    last = [(code, n) for code, move, n in texts if move.kind in ("finish", "give_up")]
    figures.amount(("finish", "text_chars"), last)


def _times(record: _Seen, figures: Figures) -> None:
    """How long the model takes; the times of tools are in `_sizes`."""
    durations = [(code, move.source.model_ms) for code, move in record.own]
    figures.amount(("latency", "first_token_ms"), [(code, move.source.response.ttft_ms) for code, move in record.own])
    if figures.amount(("latency", "response_ms"), durations):
        figures.basis["latency"] = count(sum(value is not None for _, value in durations), "response")
    else:
        figures.note_absent("latency", "The record gives no times of the model: the profile's responses take none.")
    if all(call.latency_ms is None for _, call in record.new):
        figures.notes.append("The record gives no times of tools: the profile's tools take none.")


def _tokens(record: _Seen, figures: Figures) -> None:
    """The tokens of requests and responses."""
    usages = [(code, move.step, move.source.response.usage) for code, move in record.own]
    output_tokens = [(code, usage.output_tokens) for code, _, usage in usages if usage.output_tokens is not None]
    prompt_tokens = [
        (code, usage.input_tokens) for code, step, usage in usages if step == 1 and usage.input_tokens is not None
    ]
    if not output_tokens or not prompt_tokens:
        figures.notes.append("The record gives no tokens: those of the profile are unknown too.")
        return
    if any(usage.cost is not None for _, _, usage in usages):
        figures.notes.append("Costs are on record, but prices are not fitted: the profile's costs are unknown.")
    figures.amount(("tokens", "output"), output_tokens)
    figures.amount(("tokens", "prompt"), prompt_tokens)
    growth: list[tuple[int, int]] = []
    cached: list[tuple[int, float]] = []
    for code, turn in record.by_turn:
        for old, new in pairwise(turn.moves):
            was, new_usage = old.source.response.usage, new.source.response.usage
            if was.input_tokens is None or new_usage.input_tokens is None or was.output_tokens is None:
                continue
            if old.kind != "loop":
                growth.append((code, new_usage.input_tokens - was.input_tokens - was.output_tokens))
            if new_usage.cached_tokens is not None and was.input_tokens:
                cached.append((code, min(new_usage.cached_tokens / was.input_tokens, 1.0)))
    figures.amount(("tokens", "growth"), [(code, added) for code, added in growth if added >= 0])
    shrunk = sum(added < 0 for _, added in growth)
    if shrunk:
        figures.notes.append(f"{count(shrunk, 'request')} had fewer tokens than went before: left out of the growth.")
    hits = mean([part for _, part in cached], [code for code, _ in cached], figures.confidence)
    figures.estimate(("tokens", "cached_share"), hits)
    figures.basis["tokens"] = count(len(output_tokens), "response")


def _success(record: _Seen, figures: Figures) -> None:
    """How often runs are successes, by how and after how many steps they ended, and by difficulty."""
    labelled = [(code, turn) for code, turn in record.by_turn if turn.won is not None]
    runs_with_turns = {id(turn.run) for turn in record.turns if turn.number > 1 and turn.run.success is not None}
    if runs_with_turns and labelled:
        figures.notes.append(
            f"Success is that of {count(len(labelled), 'run')} of a single turn: {count(len(runs_with_turns), 'run')} "
            "with a label and several turns do not show which turn decided."
        )
    if not labelled:
        figures.notes.append("No run of a single turn has a success label: so success is unknown for the profile too.")
        return
    ended = [(code, turn) for code, turn in labelled if turn.run.stop.reason in ENDED]
    cut_turns = [(code, turn) for code, turn in labelled if turn.run.stop.reason not in ENDED]
    names = sorted({record.difficulties[turn.run.task] for _, turn in labelled if turn.run.task in record.difficulties})
    if ended:  # a profile has no chance of those that were cut alone
        for figure, end_turns in (("finished", ended), ("cut", cut_turns)):
            _success_by_step(("success", figure), end_turns, figures)
        figures.basis["success"] = f"{count(len(labelled), 'run')} with a label"
    for name in names:
        for figure, end_turns in (("finished", ended), ("cut", cut_turns)):
            difficulty_turns = [
                (code, turn) for code, turn in end_turns if record.difficulties.get(turn.run.task) == name
            ]
            _success_by_step(("difficulties", name, figure), difficulty_turns, figures)


def _success_by_step(parameter: tuple[str, ...], end_turns: Sequence[tuple[int, TurnMoves]], figures: Figures) -> None:
    """The probability of success, in pieces as the hazard has them; one piece is a plain number."""
    if not end_turns:
        return
    ends = Chances(
        np.array([max(turn.end, 1) for _, turn in end_turns], dtype=np.int64),
        np.array([turn.won for _, turn in end_turns], dtype=bool),
        np.array([code for code, _ in end_turns], dtype=np.int64),
    )
    fitted = hazards(ends, pieces(ends.steps, ends.finished), confidence=figures.confidence)
    known_pieces = [(start, level) for start, level in zip(fitted.starts, fitted.levels, strict=True) if level.n]
    if len(known_pieces) == 1:
        figures.estimate(parameter, known_pieces[0][1])
        return
    figures.put(parameter, [{"from_step": start, "probability": level.value} for start, level in known_pieces])
    figures.rows |= {f"{'.'.join(parameter)}.{n}.probability": level for n, (_, level) in enumerate(known_pieces)}


def _difficulties(record: _Seen, figures: Figures) -> None:
    """How common each difficulty is, and that of every task."""
    tasks = {
        turn.run.task: record.difficulties[turn.run.task]
        for turn in record.turns
        if turn.run.task in record.difficulties
    }
    if tasks:
        figures.shares(("difficulties",), [*enumerate(tasks.values())], ("share",))
        figures.put(("tasks",), tasks)
        figures.basis["difficulties"] = f"{count(len(tasks), 'task')} whose difficulty was given"


def _note_quality(record: _Seen, figures: Figures) -> None:
    """What the record lacks, and what was left out."""
    n_cut = sum(not turn.finished for turn in record.turns)
    steps = sum(len(run.steps) for run in {id(turn.run): turn.run for turn in record.turns}.values())
    n_hidden = sum(call.argument_chars is None for _, _, call in record.calls)
    by_call = sum(turn.finished and bool(turn.moves[-1].source.response.tool_calls) for turn in record.turns)
    retries = [move.source.response for _, move in record.moves if move.kind == "retry"]
    unsure = sum(not response.text and response.usage.output_tokens is None for response in retries)
    for number, noun, note in (
        (n_cut, "turn", "cut: they count as far as they were seen"),
        (steps - len(record.moves), "step", "left out: broken, requested by a limit, or after a turn had ended"),
        (n_hidden, "call", "without arguments: whether they repeat others is not known"),
        (0 if record.finish_tool else by_call, "turn", "ended with a call, which counts as the end and not as a call"),
        (unsure, "repeat", "of a failed call taken for retries: without text or tokens they might be loops"),
    ):
        if number:
            figures.notes.append(f"{count(number, noun)} {note}.")
