"""What users pass as runs, and facts of a run that frames and counterfactuals share."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import chain, groupby, product
from operator import itemgetter
from pathlib import Path
from typing import Final, TypeAlias, cast

from boolab.core.run import Run
from boolab.core.run_tree import descendants, iterate_with_subagents, tool_calls
from boolab.core.text import count, first_of
from boolab.core.types import REDACTED, Step
from boolab.errors import SettingError, forgot_await, near

_STORES: Final = (".db", ".sqlite", ".sqlite3")
_MAX_NAMES: Final = 3
"""So many of several runs are named."""

Runs: TypeAlias = Run | Iterable[Run] | str | Path
"""A run, runs, or where they are: the path of a store, of logs (a file, a folder, a glob), or the name of a set of the
atlas."""


def as_runs(runs: Runs) -> list[Run]:
    """A list of runs, from one run, from any number of them, or from where they are."""
    return list(iterate_runs(runs))


_FIELDS_THAT_DIFFER: Final = frozenset({"success", "labels", "scores", "subagents", "log_id", "path", "continuation"})
"""The fields in which two records of one run may differ."""


def distinct_runs(runs: Sequence[Run]) -> tuple[list[Run], tuple[str, ...]]:
    """The runs, each once, and a note about those that are left out, if any are.

    The same run is there again if it is the same object, or has the same id and the same record. Of a labelled and an
    unlabelled one, the labelled one stays; two with different labels both do.
    """
    distinct: list[Run] = []
    index_by_id: dict[str, list[int]] = {}
    for run in runs:
        indices = index_by_id.setdefault(run.run_id, [])
        index = next((index for index in indices if _is_same(distinct[index], run)), None)
        if index is None:
            indices.append(len(distinct))
            distinct.append(run)
        elif distinct[index].success is None and not distinct[index].labels:
            distinct[index] = run
    first_run = len(runs) - len(distinct)
    if not first_run:
        return distinct, ()
    verb = "is there twice: it is" if first_run == 1 else "are there more than once: each is"
    return distinct, (f"{first_run:,} of {count(len(runs), 'run')} {verb} counted once.",)


def _is_same(run: Run, other: Run) -> bool:
    if run is other:
        return True
    if run.success != other.success and None not in (run.success, other.success):
        return False
    return all(getattr(run, name) == getattr(other, name) for name in _RECORD)


_RECORD: Final = tuple(field.name for field in fields(Run) if field.name not in _FIELDS_THAT_DIFFER)


def with_subagents(runs: Runs) -> list[Run]:
    """Runs with the runs of all their subagents, parents first; each once.

    Args:
        runs: A run, runs, or the path of a store; subagents may stand among them already.

    Returns:
        One list, which the frames, `save_runs` and everything else that takes runs accepts.

    Raises:
        TypeError: if something else than a run is among them.

    Example:
        >>> import boolab as bl
        >>> bl.with_subagents([])
        []
    """
    run_list = as_runs(runs)
    descendant_ids = {child.run_id for child in chain.from_iterable(map(descendants, run_list))}
    return list(iterate_with_subagents(run for run in run_list if run.run_id not in descendant_ids))


def one_run(runs: Runs, caller: str, call: str = "bl.{}(bl.load_runs(path)[0])") -> Run:
    """The one run that there is; a `SettingError`, which names several, if there is not one. `caller` takes it."""
    run_list = as_runs(runs)
    if len(run_list) != 1:
        raise SettingError(f"{caller} takes one run, not {_listing(run_list)}; choose one, as in {call.format(caller)}")
    return run_list[0]


def two_runs(runs: Runs, caller: str) -> tuple[Run, Run]:
    """The two runs that there are; a `SettingError`, which names them, if there are not two. `caller` takes them."""
    run_list = as_runs(runs)
    if len(run_list) != 2:  # noqa: PLR2004
        raise SettingError(
            f"{caller} takes two runs, not {_listing(run_list)}; choose two, as in bl.{caller}(runs[0], runs[1])"
        )
    return run_list[0], run_list[1]


def _listing(run_list: Sequence[Run]) -> str:
    """How many runs there are, and the ids of the first."""
    ids = f": {first_of([repr(run.run_id) for run in run_list], _MAX_NAMES)}" if run_list else ""
    return f"{len(run_list):,}{ids}"


_OF_TABLES: Final = (
    ": a table lacks the calls of its steps. Pass the runs that it was made of, or make runs of a table that has them: "
    "bl.runs_from_table(table, run=..., step=..., tool=..., arguments=..., success=..., tokens=...), each the name of "
    "a column"
)


def _no_run(value: object) -> TypeError:
    hint = forgot_await(value)
    if hasattr(value, "columns"):
        hint = _OF_TABLES
    elif isinstance(value, str | Path | dict | list):
        hint = ": bl.load_runs reads paths, and messages in memory"
    return TypeError(f"expected a Run or runs, not {type(value).__name__}{hint}")


def iterate_runs(runs: Runs) -> Iterable[Run]:
    """The runs one after the other, whatever they come from: those of a store need not fit into memory."""
    if isinstance(runs, Run):
        return (runs,)
    if isinstance(runs, str | Path):
        return _runs_at(runs)
    if isinstance(runs, Coroutine | Mapping) or hasattr(runs, "columns") or not isinstance(runs, Iterable):
        raise _no_run(runs)
    return map(_check_run, runs) if isinstance(runs, Iterator) else _CheckedRuns(runs)


class _CheckedRuns:
    """Runs, each checked when it is reached; they can be read several times."""

    def __init__(self, runs: Iterable[object]) -> None:
        self._runs = runs

    def __iter__(self) -> Iterator[Run]:
        return map(_check_run, self._runs)


def _check_run(run: object) -> Run:
    if not isinstance(run, Run):
        raise _no_run(run)
    return run


def taken_name(key: str, output: str = "result") -> str:
    """Why runs cannot be grouped by a column whose name the result has too, and how they can be."""
    return (
        f"the {output} has a column of this name: give yours another one, as in frame = bl.recording_df(runs); "
        f"frame['my_{key}'] = frame[{key!r}], and pass the frame with by='my_{key}'"
    )


def _runs_at(path: str | Path) -> Iterable[Run]:
    """The runs of a store, read when they are used; or those that `load_runs` reads."""
    from boolab.store.connection import begins_as_sqlite
    from boolab.store.stored_runs import stored_runs

    if Path(path).suffix in _STORES or begins_as_sqlite(path):
        return stored_runs(path)
    import boolab  # the readers stand above the frames: they are reached as a user reaches them

    return boolab.load_runs(path)


def list_columns(names: str | Sequence[str] | None) -> list[str]:
    """The columns that separate groups, each once, from one name, several or None."""
    return [] if names is None else [names] if isinstance(names, str) else list(dict.fromkeys(names))


def no_group_column(name: str, columns: Iterable[object]) -> SettingError:
    """The error for a column of `by` that is not there; `boolab whatif --by all` is `by=[]` here."""
    hint = "; by=[] takes all runs together" if name == "all" else near(name, [*columns], "columns")
    return SettingError(f"by={name!r}: there is no such column{hint}")


def turns_of(run: Run) -> Iterator[tuple[int, list[Step]]]:
    """The steps of a run by turn, in order; a run without steps has one turn."""
    turns: dict[int, list[Step]] = {}
    for turn, steps in groupby(run.steps, itemgetter(1)):
        turns.setdefault(turn, []).extend(steps)
    yield from (turns or {1: []}).items()


def known_sum(values: Iterable[int | None]) -> int | None:
    """The sum, None if one of the values is unknown."""
    amounts = list(values)
    return None if None in amounts else sum(amounts)  # type: ignore[arg-type] # all are known


def sum_usage(run: Run, *amounts: str) -> int | None:
    """The sum of these fields of `Usage` over all requests of a run, wrap-ups and compactions included."""
    return known_sum(_amounts(run, amounts))


def sum_known_usage(run: Run, *amounts: str) -> int | None:
    """The sum over the requests whose fields are known; None if those of no request are."""
    amounts_of_usages = _amounts(run, amounts)
    known_amounts = [amount for amount in amounts_of_usages if amount is not None]
    return sum(known_amounts) if known_amounts or not amounts_of_usages else None


def _amounts(run: Run, amounts: Iterable[str]) -> list[int | None]:
    usages = [*[step.response.usage for step in run.steps], *run.outside]
    return [getattr(usage, amount) for amount, usage in product(amounts, usages)]


def with_equal_arguments(run: Run) -> Run | None:
    """The run with equal calls of each tool that has one without arguments on record; None if there is none."""
    tools = {call.name for call in tool_calls(run) if call.arguments == REDACTED}
    return replace(run, steps=tuple(_equal_calls(step, tools) for step in run.steps)) if tools else None


def handles_unknown_arguments(detector: object) -> bool:
    """Whether a detector's count is known even where it depends on arguments that are not on record."""
    return bool(getattr(detector, "handles_unknown_arguments", False))


def _equal_calls(step: Step, tools: set[str]) -> Step:
    calls = step.response.tool_calls
    if not any(call.name in tools for call in calls):
        return step
    equal = tuple(call._replace(arguments="{}") if call.name in tools else call for call in calls)
    return step._replace(response=step.response._replace(tool_calls=equal))


def micro_cost(run: Run, steps: int | None = None) -> int | None:
    """What a run, or its first steps, cost in micro-dollars, subagents included; None if that is not known."""
    if steps is not None:
        costs = [step.response.usage.cost for step in run.steps[:steps]]
        return None if None in costs else sum(cast("list[int]", costs))
    costs = [sum_usage(family_run, "cost") for family_run in (run, *descendants(run))]
    return None if None in costs else sum(cast("list[int]", costs))


def own_cost(run: Run) -> int | None:
    """What a run cost in micro-dollars, without the steps that a branch kept; None if that is not known."""
    return micro_cost(own_part(run))


def kept_steps(run: Run) -> int:
    """How many of its first steps a branch shares with the run that it began with; 0 of any other run."""
    branch_event = next((event for event in reversed(run.events) if event.kind == "branch"), None)
    return 0 if branch_event is None else branch_event.payload.get("kept", branch_event.payload["step"]) or 0


def own_part(run: Run) -> Run:
    """What a run has that no earlier one has: a branch without the steps and the summaries that it kept."""
    branch_step = kept_steps(run)
    if not branch_step:
        return run
    n_earlier = sum(event.kind == "continued" and event.payload["after_step"] < branch_step for event in run.events)
    return replace(
        run,
        steps=run.steps[branch_step:],
        compactions=tuple(compaction for compaction in run.compactions if compaction.before > branch_step),
        earlier_wrap_ups=run.earlier_wrap_ups[n_earlier:],
    )
