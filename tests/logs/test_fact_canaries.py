"""No word of a log is in its facts but in the places that are listed: canaries in every text and every key say so."""

import asyncio
import bz2
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

import pytest

import boolab as bl
from boolab.core.messages import Message, Sentinel
from boolab.core.run import Run, Score
from boolab.core.run_tree import iterate_with_subagents
from boolab.core.types import Event
from boolab.errors import ReadWarning
from boolab.io.resources import data_path
from boolab.logs import facts as facts_module
from boolab.logs.fact_places import EVENT_FIELDS, EVENTS, FIELDS, RULES, SETTINGS, field_names
from boolab.logs.facts import facts_of
from tests.support.git_worlds import repository
from tests.support.helpers import play, steps
from tests.support.planted import KINDS, Log, Place, canary, found_in
from tests.support.samples import OWN

FORMATS: Final = sorted(path.name for path in OWN.iterdir() if path.is_dir())

QUICK: Final = ("tau_bench",)

KEPT: Final = frozenset(
    {
        "run_id", "parent_run_id", "agent", "model", "policy", "source", "task",
        "steps.response.model", "steps.response.tool_calls.name",
        "prompt.parts.name", "inputs.message.parts.name", "events.payload.run_id", "events.payload.agent",
        "events.payload.tool", "events.payload.parameter", "scores.name", "limits", "settings",
        "stated_cost.covers", "stated_cost.models.model",
    }
)  # fmt: skip
"""All places of a run where a word of a log may stay."""
NAMES: Final = (
    KEPT
    - {"run_id", "parent_run_id", "model", "task", "steps.response.model", "events.payload.run_id"}
    - {"stated_cost.models.model"}
)
"""Those where it may have no form but that of a name."""


def words(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """The texts of a record, each with its place."""
    if isinstance(value, str):
        yield place, value
    elif is_dataclass(value) or hasattr(value, "_fields"):
        for name in value._fields if hasattr(value, "_fields") else [field.name for field in fields(value)]:
            if name not in ("subagents", "path", "continuation"):
                yield from words(getattr(value, name), f"{place}.{name}".strip("."))
    elif isinstance(value, dict):
        for name, item in value.items():
            yield f"{place}", name
            yield from words(item, f"{place}.{name}")
    elif isinstance(value, tuple | list):
        for item in value:
            yield from words(item, place)


def read(folder: Path) -> list[Run]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadWarning)
        try:
            return list({run.run_id: run for run in bl.read_logs(folder, progress=False).runs}.values())
        except bl.BoolabError:
            return []


def sizes(runs: list[Run]) -> list[int]:
    return [run.n_steps for run in runs]


def kept_canaries(runs: list[Run]) -> set[str]:
    """The canaries in the facts of some runs that stand where a word may stay."""
    allowed: set[str] = set()
    for run in iterate_with_subagents(facts_of(runs)):
        for step in run.steps:  # OTLP has its integers as texts
            allowed |= found_in(str(step.response.usage).encode())
        for place, word in words(run):
            canaries = found_in(word.encode()) if place in KEPT else set()
            assert not canaries or place not in NAMES or word.isalnum(), (place, word)
            allowed |= canaries
    return allowed


def leaked(runs: list[Run], path: Path) -> set[str]:
    """The canaries in the file of the facts of some runs that stand in no place where a word may stay."""
    bl.save_runs(runs, path, contents="facts")
    return found_in(content_of(path)) - kept_canaries(runs)


def content_of(path: Path) -> bytes:
    """All bytes of a file, unpacked."""
    return bz2.decompress(path.read_bytes()) if path.name.endswith(".bz2") else path.read_bytes()


def sweep(log: Log, places: list[Place], out: Path, n_steps: list[int]) -> Iterator[tuple[Place, str]]:
    """Plant canaries at all places at once; where the log cannot be read so, at half of them, and so on."""
    log.plant(places)
    runs = read(log.folder)
    if len(places) > 1 and sorted(sizes(runs)) != sorted(n_steps):
        half = len(places) // 2
        yield from sweep(log, places[:half], out, n_steps)
        yield from sweep(log, places[half:], out, n_steps)
    elif runs:
        for canary in leaked(runs, out):
            yield places[0], canary


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in FORMATS]
)
def test_no_canary_of_a_log_is_in_its_facts(name: str, tmp_path: Path) -> None:
    log = Log(OWN / name, tmp_path / "log")
    n_steps = sizes(read(log.folder))
    for of in KINDS:
        places = [place for place in log.places() if place.of == of]
        assert list(sweep(log, places, tmp_path / "facts.jsonl", n_steps)) == []


@pytest.mark.slow
def test_no_canary_of_a_record_of_boolab_is_in_its_facts(tmp_path: Path) -> None:
    """Its own ATIF, which has fields that no other format has."""
    (tmp_path / "own").mkdir()
    ended = play(steps("A A A x"), policy="boocode", max_steps=3)
    run = replace(ended, events=(*ended.events, *every_event()), settings={"max_steps": 3, "hint": "so"})
    bl.save_runs([run], tmp_path / "own" / "run.jsonl")
    family = (data_path("datasets") / "families" / "families.jsonl").read_text(encoding="utf-8").splitlines()[:3]
    (tmp_path / "own" / "family.jsonl").write_text("\n".join(family) + "\n")
    log = Log(tmp_path / "own", tmp_path / "log")
    n_steps = sizes(read(log.folder))
    assert len(n_steps) > 3
    for of in KINDS:
        places = [place for place in log.places() if place.of == of]
        assert list(sweep(log, places, tmp_path / "facts.jsonl", n_steps)) == []


def records(hint: Any, found: set[type]) -> set[type]:
    """All types of records that a type's fields can hold, by its annotations."""
    for part in get_args(hint):
        records(part, found)
    if isinstance(hint, type) and (is_dataclass(hint) or hasattr(hint, "_fields")) and hint not in found:
        found.add(hint)
        for inner in get_type_hints(hint).values():
            records(inner, found)
    return found


def test_each_field_of_a_record_has_a_rule() -> None:
    kinds = records(Run, set()) - {Event}
    assert kinds == FIELDS.keys()
    for kind in kinds:
        undecided = set(field_names(kind)) - FIELDS[kind].keys()
        assert not undecided, (
            f"{kind.__name__}: decide in boolab/logs/fact_places.py whether {undecided} may be in facts"
        )
    listed = {rule for rules in (*FIELDS.values(), *EVENTS.values()) for rule in rules.values()}
    assert {*listed, *EVENT_FIELDS.values(), *SETTINGS.values()} == RULES.keys()


def test_each_value_of_an_event_of_a_sample_has_a_rule() -> None:
    events = {
        (event.kind, name)
        for sample in FORMATS
        for run in iterate_with_subagents(read(OWN / sample))
        for event in run.events
        for name in event.payload
    }
    assert {kind for kind, _ in events} >= {"compaction", "fault", "rewind", "subagent", "totals"}
    assert [pair for pair in events if pair[1] not in {**EVENT_FIELDS, **EVENTS.get(pair[0], {})}] == []


def test_a_field_that_is_not_listed_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    run = replace(play(steps("A")), error="it broke", synthesis="so")
    rules = {name: rule for name, rule in FIELDS[Run].items() if name != "error"}
    monkeypatch.setattr(facts_module, "FIELDS", {**FIELDS, Run: rules})
    facts_module._rules_of.cache_clear()
    (facts,) = facts_of(run)
    facts_module._rules_of.cache_clear()
    assert facts.error is None
    assert facts.synthesis is not None


def canaries_in(value: Any, numbers: Iterator[int]) -> Any:
    """A record with another canary in place of each text, and one more in every mapping."""
    if isinstance(value, str):
        return canary(next(numbers))
    if isinstance(value, dict):
        return {f"zq7{next(numbers)}": "zq70", **{name: canaries_in(item, numbers) for name, item in value.items()}}
    if isinstance(value, Run):
        kept = ("stop", "identity", "subagents", "source")
        changed = {f.name: canaries_in(getattr(value, f.name), numbers) for f in fields(value) if f.name not in kept}
        return replace(value, **changed)
    if isinstance(value, Message):
        return value._replace(parts=canaries_in(value.parts, numbers))
    if isinstance(value, tuple):
        made = [canaries_in(item, numbers) for item in value]
        return type(value)(*made) if hasattr(value, "_fields") else tuple(made)
    return [canaries_in(item, numbers) for item in value] if isinstance(value, list) else value


def every_event() -> tuple[Event, ...]:
    """An event of each kind, with a text in each of its values, and one of a kind that is not listed."""
    return tuple(Event(1, kind, {**dict.fromkeys(values, "so"), "more": ["so"]}) for kind, values in EVENTS.items())


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.bz2", ".parquet", ".db"])
def test_no_canary_of_a_run_is_in_any_file_of_facts(suffix: str, tmp_path: Path) -> None:
    numbers = count(1)
    whole = replace(
        play(steps("A A x"), policy="boocode"), settings={"hint": "so", "effort": "so"}, limits={"steps": 3},
        scores=(Score("so", "so"),), error="so", synthesis="so", sentinel=Sentinel("so", "so"), parent_run_id="so",
    )  # fmt: skip
    run = canaries_in(whole, numbers)
    # The kinds of events are what they are; each value of each of them has a canary.
    events = [Event(1, event.kind, canaries_in(dict(event.payload), numbers)) for event in every_event()]
    run = replace(run, events=(*events, Event(1, "zq79000000", {"zq79000001": "zq79000002"})))
    path = tmp_path / f"facts{suffix}"
    if suffix == ".db":
        with bl.Store(path) as store:
            store.add(facts_of(run))
    else:
        bl.save_runs(run, path, contents="facts")
    kept = kept_canaries([run])
    assert found_in(content_of(path)) - kept == set()
    assert 0 < len(kept) < next(numbers) / 5


def test_no_file_of_a_kept_world_is_in_the_facts(tmp_path: Path) -> None:
    root = repository(tmp_path / "work")
    (root / ".gitignore").write_text("zq71*\n")
    (root / "zq71_merger_2026.xlsx").write_text("x")
    (root / "zq72_layoffs.bin").write_bytes(bytes(2**17))
    world = bl.GitWorld(root, max_file_mb=0.1)

    def write(text: str) -> str:
        """Write a file."""
        (root / "zq73_draft.txt").write_text(text)
        return text

    def fail(text: str) -> str:
        """Fail."""
        raise ValueError(f"{root}: {text}")

    calls = [
        {"tool_calls": [{"name": name, "arguments": {"text": f"zq7{n}"}}]}
        for n, name in enumerate(("write", "fail", "none"), 4)
    ]
    model = bl.ScriptedModel([*calls, "zq78"])
    run = bl.run_sync(None, "zq79", model=model, tools=[write, fail], world=world)
    assert [event for event in run.events if event.kind == "world" and {"ignored_names", "left_out"} & {*event.payload}]
    commits = {event.payload["commit"] for event in run.events if event.kind == "world"}
    bl.save_runs(run, tmp_path / "facts.jsonl", contents="facts")
    content = (tmp_path / "facts.jsonl").read_bytes()
    assert found_in(content) == set()
    assert not any(word.encode() in content for word in (*commits, str(root), "merger", "layoffs"))
    (facts,) = bl.load_runs(tmp_path / "facts.jsonl")
    assert [event.payload["changed"] for event in facts.events if event.kind == "world"] == [
        event.payload["changed"] for event in run.events if event.kind == "world"
    ]
    with pytest.raises(bl.errors.WorldError):
        asyncio.run(bl.branch(facts, 1, model=model, tools=[write, fail], world=world))


def test_facts_are_the_same_under_any_hash_seed(tmp_path: Path) -> None:
    script = f"import boolab as bl; bl.save_runs(bl.load_runs({str(OWN / 'cline')!r}), 'f.jsonl', contents='facts')"
    made = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-W", "ignore", "-c", script], cwd=tmp_path, env=environment, check=True)
        made.append((tmp_path / "f.jsonl").read_bytes())
    assert made[0] == made[1]
