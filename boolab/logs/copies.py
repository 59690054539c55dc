"""Copies of runs among logs: each run and each step is counted once, and what began as a copy names its origin.

Logs hold runs more than once: a session is resumed or forked into a new file that begins with its history, a file is
packed, archived, backed up or converted, an evaluation is retried with the samples that were done, a store is exported
beside its logs. `Copies` takes the runs of all files, of related ones together, and decides by `boolab.logs.identity`:

- A run that another one equals, or that is an earlier state of it, is left out. The longer one stays, and of equal ones
  the harness's own log before a conversion, and that before what boolab wrote. What only the other has is added. Runs
  with different ids are equal if their contents and all of their times are.
- A run that begins with the history of another one, under an id of its own, keeps the steps that are its own. The
  history is in its prompt, and an event `branch` names the other run and how many of its steps they share.
- Runs of one id that differ both stay, with a warning. So do runs without ids and times that say the same.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import partial
from itertools import chain
from itertools import count as counting
from typing import Any, Final, NamedTuple

from boolab.core.run import Run
from boolab.core.text import count
from boolab.logs.copy_parts import complete_run, remove_history
from boolab.logs.identity import RunDigests, digests_of, first_keys, is_unique, shared_steps

SESSIONS: Final = frozenset({"claude_code", "cline", "codex", "gemini", "opencode", "pi"})
"""The sources whose harnesses copy the history of a session into another one."""

_FORKED: Final = SESSIONS | {"anthropic_messages", "openai_chat"}
"""Those in which a run may begin with a part of another one. A trial of a benchmark begins anew, or is the same."""

_REPEATS: Final = "{} the texts of a run in {}, and no ids or times, so that all are counted"
_DIFFERS: Final = "run {} is in {} too, and differs: both are counted"


class _Kind(IntEnum):
    """Where a run is from, the first of which counts where several are the same."""

    NATIVE = 0
    CONVERSION = 1
    OWN = 2
    FACTS = 3


class FileRun(NamedTuple):
    """A run of a file: the format of the file, its path, and whether boolab wrote it."""

    run: Run
    path: str
    written: bool


class Note(NamedTuple):
    """What there is to report about a file, such as how many of its runs are copies, of runs in which file."""

    path: str
    text: str


@dataclass(slots=True, eq=False, kw_only=True)
class _Known:
    """A run that was taken."""

    run_id: str
    log_id: str
    source: str
    parent: str | None
    lineage: str
    """The id of the run whose history this one began with, by the log."""
    facts: tuple[str, str, bool | None]
    path: str
    kind: _Kind
    keys: list[int]
    """What a copy has too, at least one of them."""
    anchors: list[int]
    number: int
    run: Run | None
    """None once it was handed on."""
    held: Run | None = None
    """The run that was handed on, where it is in memory anyway: its digests are made if they are needed."""
    known_digests: RunDigests | None = None
    same_as: _Known | None = None
    """The run that this one is a copy of."""
    branch: tuple[_Known, int] | None = None
    """The run whose history it began with, and the last of its steps that both have."""
    shared: int = 0
    """How many of its first steps the other run has."""

    @property
    def digests(self) -> RunDigests:
        """The digests of its steps, made when they are needed, or before the run is forgotten."""
        if self.known_digests is None:
            self.known_digests = digests_of(_require_run(self.run or self.held))
        return self.known_digests

    @property
    def is_facts(self) -> bool:
        return self.kind is _Kind.FACTS

    def conflicts_with(self, other: _Known) -> bool:
        """Whether the logs give the two different ids."""
        return bool(self.log_id and other.log_id) and self.log_id != other.log_id

    def agrees_with(self, other: _Known) -> bool:
        """Whether the two have one model, task and label, as far as these are known."""
        pairs = zip(self.facts, other.facts, strict=True)
        return all(fact in (None, "") or theirs in (None, "") or fact == theirs for fact, theirs in pairs)

    def likeness(self, key: int, step: int) -> object:
        """What runs have alike that are the same to any other one, but to one with an id of theirs."""
        names = (("run", self.run_id), ("log", self.log_id), ("log", self.lineage))
        if (not step and key in map(hash, names)) or self.digests.texts:  # with such texts, their files are compared
            return self.number, step
        return (
            self.digests.digest(),
            self.kind,
            self.source,
            self.parent,
            self.lineage,
            self.facts,
            bool(self.log_id),
            step,
        )

    def find_original(self) -> _Known:
        """The run that counts: itself, or what it is a copy of."""
        entry = self
        while entry.same_as is not None:
            entry = entry.same_as
        return entry


def _leave_out_subagents_of_conversions(entries: Sequence[_Known]) -> None:
    """Leave out subagents of a conversion that is a copy: it may put several of a session into one."""
    natives = [entry for entry in entries if entry.kind is _Kind.NATIVE and entry.same_as is None]
    subagents = {entry.parent: entry for entry in natives if entry.parent is not None}
    copies = {
        (entry.path, entry.run_id): entry
        for entry in entries
        if entry.kind is _Kind.CONVERSION and entry.same_as is not None
    }
    for entry in entries:
        parent = copies.get((entry.path, entry.parent or ""))
        if parent is not None and entry.kind is _Kind.CONVERSION and entry.same_as is None:
            entry.same_as = subagents.get(parent.find_original().run_id)


class _Alike:
    """The runs that have a key, in groups of those that are alike, so that a run is compared with the first of many."""

    __slots__ = ("_groups", "new")

    def __init__(self) -> None:
        self._groups: dict[object, list[tuple[_Known, int]]] = {}
        self.new: list[tuple[_Known, int]] = []
        """Those that came since the groups were last asked for: most are never asked for, and need no digests."""

    def groups(self, key: int) -> Iterable[list[tuple[_Known, int]]]:
        for entry, step in self.new:
            self._groups.setdefault(entry.likeness(key, step), []).append((entry, step))
        self.new.clear()
        return self._groups.values()


@dataclass(slots=True, eq=False)
class Copies:
    """The runs of all logs so far, by digests."""

    digest: Callable[[str], object]
    """The digest of the bytes of a file, unpacked."""
    holds_runs: bool
    """Whether the runs that were handed on stay in memory."""
    _by_key: defaultdict[int, _Alike] = field(default_factory=partial(defaultdict, _Alike))
    _numbers: Iterator[int] = field(default_factory=counting)
    _kin: dict[str, set[str]] = field(default_factory=dict)
    """For each id of a run the ids of those that it is a copy or a branch of."""
    _repeats: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How many runs of a file say the same as runs of another one."""

    def settle(self, log_runs: Sequence[FileRun], *, last: bool = False) -> tuple[list[list[Run]], list[Note]]:
        """The runs that count, for each that was found one or none; and what there is to report about the files."""
        entries = [self._make_known(entry, last=last) for entry in log_runs]
        keys = [*chain.from_iterable({*entry.keys} for entry in entries)]
        notes: list[Note] = []
        if len(set(keys)) < len(keys) or not self._by_key.keys().isdisjoint(keys):
            for entry in sorted(entries, key=_order(entries)):
                (self._take_own if entry.kind >= _Kind.OWN else self._take)(entry, notes)
            _leave_out_subagents_of_conversions(entries)
        elif not last:
            for entry in entries:
                self._add(entry)
        runs = [[] if entry.same_as is not None else [_own_run(entry)] for entry in entries]
        if not last:
            self._remember(entries, runs)
        for (path, home), number in self._repeats.items():
            equal = f"{count(number, 'run')} {'has' if number == 1 else 'have'}"
            notes.append(Note(path, _REPEATS.format(equal, home)))
        self._repeats.clear()
        return runs, [*notes, *_copy_notes(entries)]

    def _remember(self, entries: Sequence[_Known], runs: Sequence[Sequence[Run]]) -> None:
        """Keep the digests of runs, and forget the runs."""
        for entry, counted_runs in zip(entries, runs, strict=True):
            if entry.branch is not None and counted_runs:  # as an export has it
                (run,) = counted_runs
                export = replace(
                    entry, known_digests=digests_of(run), keys=[*entry.keys[:1], *first_keys(run)], anchors=[]
                )
                export.run, export.number = None, next(self._numbers)
                self._add(export)
            if self.holds_runs:
                entry.held = entry.run
            elif entry.same_as is None:
                _ = entry.digests
            entry.run = None

    def _make_known(self, log_run: FileRun, *, last: bool) -> _Known:
        run = log_run.run
        kind = _Kind.CONVERSION if run.source == "atif" else _Kind.NATIVE
        if log_run.written:
            kind = _Kind.FACTS if run.prints else _Kind.OWN
        entry = _Known(
            run_id=run.run_id,
            log_id=run.log_id,
            source=run.source,
            parent=run.parent_run_id,
            lineage=_lineage(run),
            facts=(run.model, run.task, run.success),
            path=log_run.path,
            kind=kind,
            keys=[hash(("run", run.run_id))],
            anchors=_anchors(run),
            number=next(self._numbers),
            run=run,
        )
        if kind < _Kind.OWN:
            first = first_keys(run)
            entry.keys += first
            entry.keys += [hash(("log", name)) for name in (entry.log_id, entry.lineage) if name]
            if not last and not first and (texts := entry.digests.texts):
                entry.keys.append(hash(("texts", texts)))
        return entry

    def _take_own(self, entry: _Known, notes: list[Note]) -> None:
        """Take a run that boolab wrote: it is what it was, so that it is left out, or stays as it is."""
        differs: _Known | None = None
        for other, step in self._candidates(entry):
            if step or other.path == entry.path or other.run_id != entry.run_id:
                continue
            steps = shared_steps(other.digests, 0, entry.digests, related=True).steps
            facts = entry.is_facts or other.is_facts
            if steps == entry.digests.n_steps or (facts and entry.digests.figures == other.digests.figures):
                self._leave_out(entry, other)
                return
            differs = other
        if differs is not None:
            notes.append(_differs(entry, differs))
        self._add(entry)

    def _take(self, entry: _Known, notes: list[Note]) -> None:
        best: tuple[int, _Known, int] | None = None
        differs: _Known | None = None
        for other, step in self._candidates(entry):
            if step == 0 and self._is_copy(entry, other):
                self._leave_out(entry, other)
                return
            steps = self._count_shared(entry, other, step)
            if 0 < steps == entry.digests.n_steps:
                self._leave_out(entry, other)
                return
            if steps > (best[0] if best else 0):
                best = (steps, other, step)
            elif not steps and other.path != entry.path:
                differs = other if other.run_id == entry.run_id else differs
                if (
                    entry.digests.texts
                    and entry.digests.texts == other.digests.texts
                    and self._may_be_copy(entry, other)
                ):
                    self._repeats[entry.path, other.path] += 1
                    differs = None
                    break
        if best is not None:
            self._continue(entry, *best)
        elif differs is not None:
            notes.append(_differs(entry, differs))
        self._add(entry)

    def _candidates(self, entry: _Known) -> list[tuple[_Known, int]]:
        candidates: dict[tuple[int, int], tuple[_Known, int]] = {}
        related = entry.lineage or self._kin.get(entry.parent or "")
        for key in entry.keys if related else (*entry.digests.sought(entry.keys), hash(("log", entry.run_id))):
            for group in self._by_key[key].groups(key) if key in self._by_key else ():
                while group and group[0][0].same_as is not None:
                    group.pop(0)
                for other, step in group[:1]:
                    candidates.setdefault((other.number, step), (other, step))
        return list(candidates.values())

    def _is_copy(self, entry: _Known, other: _Known) -> bool:
        """Whether a run is another one's copy, whatever its steps are."""
        if entry.kind == _Kind.CONVERSION and other.kind == _Kind.NATIVE:
            return _is_conversion(other, entry)
        same_log = entry.log_id == other.log_id != ""
        if entry.path != other.path and entry.digests.texts and entry.digests.texts == other.digests.texts:
            same_start = entry.digests.began_with(other.digests)
            if same_log or same_start is not None or entry.conflicts_with(other):
                return same_start is not False and (
                    same_log or (not entry.conflicts_with(other) and entry.agrees_with(other))
                )
            return entry.agrees_with(other) and self.digest(entry.path) == self.digest(other.path)
        no_steps = entry.digests.n_steps == other.digests.n_steps == 0
        return no_steps and same_log and entry.digests.prompt == other.digests.prompt

    def _may_be_copy(self, entry: _Known, other: _Known) -> bool:
        return entry.agrees_with(other) and not entry.conflicts_with(other)

    def _count_shared(self, entry: _Known, other: _Known, step: int) -> int:
        """How many of a run's first steps are another one's, from a place on; 0 if nothing shows it."""
        related = self._are_related(entry, other)
        grows = entry.log_id == other.log_id != ""
        shared = shared_steps(other.digests, step, entry.digests, related=related, grows=grows)
        if not shared.known or shared.certain or related:
            return shared.steps if shared.known else 0
        if (entry.parent is None) != (other.parent is None):
            return 0
        if not entry.conflicts_with(other):
            return shared.steps if entry.source in SESSIONS or entry.log_id or entry.agrees_with(other) else 0
        if shared.steps == entry.digests.n_steps == other.digests.n_steps:
            # copied under a new id; two equal runs whose times are not known, or are too few, may be repeats
            is_rewritten = not step and entry.source == other.source and entry.agrees_with(other)
            return shared.steps if is_rewritten and entry.digests.is_at_times_of(other.digests) else 0
        is_session = entry.source in SESSIONS and other.source in SESSIONS
        return shared.steps if is_session else 0  # one that is longer began with a copy

    def _are_related(self, entry: _Known, other: _Known) -> bool:
        if entry.lineage and entry.lineage in (other.log_id, other.run_id):
            return True
        if other.lineage and other.lineage in (entry.log_id, entry.run_id):
            return True
        return entry.parent is not None and other.parent in self._kin.get(entry.parent, ())

    def _leave_out(self, entry: _Known, other: _Known) -> None:
        entry.same_as = other
        self._kin.setdefault(entry.run_id, set()).add(other.run_id)
        if entry.run is not None and other.run is not None:
            _ = other.digests  # before it has what the copy adds
            other.run = complete_run(other.run, entry.run, steps=entry.kind < _Kind.OWN)

    def _continue(self, entry: _Known, steps: int, other: _Known, step: int) -> None:
        """Note that a run begins with the steps of another one; of the same run that is an earlier state."""
        # A conversion may put several subagents of a session into one, which begins with the first of them.
        is_merged = entry.kind is _Kind.CONVERSION and other.kind is _Kind.NATIVE and entry.parent is not None
        earlier = step == 0 and steps == other.digests.n_steps and not is_merged
        if earlier and not entry.conflicts_with(other) and other.run is not None:
            entry.branch, entry.shared = other.branch, other.shared
            self._leave_out(other, entry)
            return
        if entry.source not in _FORKED:
            return
        entry.branch, entry.shared = (other, step + steps), steps
        self._kin.setdefault(entry.run_id, set()).add(other.run_id)

    def _add(self, entry: _Known) -> None:
        for key in entry.keys:
            self._by_key[key].new.append((entry, 0))
        for step in entry.anchors:
            for key in entry.digests.keys(step):
                self._by_key[key].new.append((entry, step))


def _order(entries: Sequence[_Known]) -> Callable[[_Known], tuple[Any, ...]]:
    """Originals before copies: by kind, then by which log names which, then by the times of their steps."""
    by_id = {name: entry for entry in entries for name in (entry.run_id, entry.log_id) if name}

    def depth(entry: _Known) -> int:
        origin, steps = entry, 0
        while origin.lineage in by_id and steps < len(entries):
            origin, steps = by_id[origin.lineage], steps + 1
        return steps

    def key(entry: _Known) -> tuple[Any, ...]:
        times = entry.digests.times
        return entry.kind, depth(entry), bool(times) and times[0] < 0, times, entry.number

    return key


def _anchors(run: Run) -> list[int]:
    """The places, but the first, from which another session may continue: after each compaction."""
    steps = {event.payload.get("after_step", 0) for event in run.events if event.kind == "compaction"}
    return [step for step in steps if isinstance(step, int) and 0 < step < run.n_steps]


def _is_conversion(native: _Known, other: _Known) -> bool:
    """Whether a trajectory is another program's conversion of a session that its harness logged itself."""
    ids = {native.log_id, native.run_id} & {other.log_id, other.run_id} - {""}
    folder = other.path.replace("\\", "/").rpartition("/")[0]
    same_folder = bool(folder) and native.path.replace("\\", "/").startswith(f"{folder}/")
    return bool(ids) and (same_folder or any(map(is_unique, ids)))


def _lineage(run: Run) -> str:
    """The id of the run that the log names as the one whose history this one began with; "" if it names none."""
    event = next((event for event in run.events if event.kind == "branch"), None)
    return "" if event is None or event.payload.get("step") is not None else str(event.payload.get("run_id") or "")


def _differs(entry: _Known, other: _Known) -> Note:
    return Note(entry.path, _DIFFERS.format(entry.run_id, other.path))


def _copy_notes(entries: Sequence[_Known]) -> list[Note]:
    copies = Counter((entry.path, entry.find_original().path) for entry in entries if entry.same_as is not None)
    notes = []
    for (path, home), number in copies.items():
        location = "this file" if home == path else home
        verb, noun = ("is a copy", "a run") if number == 1 else ("are copies", "runs")
        notes.append(Note(path, f"{count(number, 'run')} {verb} of {noun} in {location}: counted once"))
    return notes


def _require_run(run: Run | None) -> Run:
    if run is None:
        msg = "the run was handed on"
        raise ValueError(msg)
    return run


def _own_run(entry: _Known) -> Run:
    run = _require_run(entry.run)
    if entry.branch is None:
        return run
    origin, step = entry.branch
    return remove_history(run, entry.shared, origin.find_original().run_id, step)
