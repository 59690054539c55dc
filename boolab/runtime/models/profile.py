"""`Profile`: how a simulated agent behaves, in numbers. `boolab.runtime.models.simulated` simulates it.

A profile is a YAML file. docs/simulated.md has every field, its unit and its default, and the rules by which a step is
drawn. Four kinds of values occur: probabilities, shares (weights that need not add up to 1), probabilities by step, and
distributions of whole numbers >= 0. No weight and no value is above 2**53.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Final

import yaml
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError, model_validator

from boolab.core.text import count
from boolab.errors import ProfileError
from boolab.io.files import user_path, write_output
from boolab.io.resources import data_path
from boolab.io.yaml_loader import YamlDocument, accepted_keys, read_document
from boolab.runtime.models.profile_parts import (
    AfterError,
    Amount,
    Counts,
    Difficulty,
    FinishProfile,
    Latency,
    LoopProfile,
    Price,
    Reminder,
    Revisit,
    Shares,
    Success,
    Tokens,
    ToolProfile,
    constant_distribution,
    normalise,
    probability_at,
)

_DESCRIPTIVE_FIELDS: Final = frozenset({"name", "description", "sources", "assumptions"})
"""The fields that describe a profile and change no run."""


class _Misplaced(ValueError):
    """A fault of a profile as a whole, and its place."""

    def __init__(self, location: tuple[str | int, ...], message: str) -> None:
        super().__init__(message)
        self.location = location


class Profile(BaseModel):
    """How a simulated agent behaves; docs/simulated.md explains every field.

    Make one with `Profile.of` or `Profile.load`; it is never changed.

    Attributes:
        name: Its name.
        description: A sentence about it.
        sources: The source of fields, by place, such as `finish.hazard`.
        assumptions: What was assumed because there is no source, by place.
        start: The shares of the tools of the first call; equal by default.
        tools: The tools by name: which one follows, error rates, latencies, lengths.
        calls: The number of calls of a step, as shares.
        finish: When and how the agent finishes.
        loop: Loops of identical steps.
        after_error: What follows a failed call.
        revisit: Calls that are repeated outside a loop.
        tokens: The tokens of requests and responses.
        price: Dollars per million tokens.
        latency: The time of responses, in milliseconds.
        text_chars: The length of the text beside calls, in characters.
        summary_chars: The length of a summary, in characters.
        context_window: The number of tokens that fit into a request.
        success: The probability that a run is a success.
        difficulties: Kinds of tasks, with the share of each.
        tasks: The difficulty of single tasks, by their text.
        reminders: The effect of a reminder of the turns that are left.

    Example:
        >>> import boolab as bl
        >>> profile = bl.models.Profile.of({"name": "tiny", "tools": {"look": {}}, "finish": {"hazard": 0.25}})
        >>> profile.hazard_at(7), [*profile.shares_after("look")]
        (0.25, ['look'])
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = "simulated"
    description: str = ""
    sources: dict[str, str] = {}
    assumptions: dict[str, str] = {}
    start: Shares | None = None
    tools: Annotated[dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")], ToolProfile], Field(min_length=1)]
    calls: Counts = {1: 1.0}
    finish: FinishProfile = FinishProfile()
    loop: LoopProfile = LoopProfile()
    after_error: AfterError = AfterError()
    revisit: Revisit = Revisit()
    tokens: Tokens | None = None
    price: Price | None = None
    latency: Latency = Latency()
    text_chars: Amount = constant_distribution(0)
    summary_chars: Amount = constant_distribution(600)
    context_window: PositiveInt | None = None
    success: Success | None = None
    difficulties: dict[str, Difficulty] = {}
    tasks: dict[str, str] = {}
    reminders: list[Reminder] = []

    @model_validator(mode="after")
    def _fits_together(self) -> Profile:
        fault = next(self._faults(), None)
        if fault is not None:
            raise fault
        return self

    def _faults(self) -> Iterator[_Misplaced]:
        yield from self._wrong_tools()
        yield from self._wrong_difficulties()
        turns_left = [reminder.turns_left for reminder in self.reminders]
        if len(set(turns_left)) < len(turns_left):
            yield _Misplaced(("reminders",), f"expected each number of turns left once, found {turns_left}")
        paths = set(_field_paths(self.model_dump(mode="json", exclude=set(_DESCRIPTIVE_FIELDS))))
        for field in ("sources", "assumptions"):
            for path in getattr(self, field):
                if path not in paths:
                    expected = "expected a place such as 'tools' or 'finish.hazard'"
                    yield _Misplaced((field, path), f"there is no field {path!r}; {expected}")

    def _wrong_tools(self) -> Iterator[_Misplaced]:
        rows: list[tuple[tuple[str | int, ...], Mapping[str, float] | None]] = [(("start",), self.start)]
        rows += [(("tools", name, "next"), tool.next) for name, tool in self.tools.items()]
        tools = ", ".join(self.tools)
        for location, row in rows:
            for name in row or ():
                if name not in self.tools:
                    yield _Misplaced((*location, name), f"there is no tool {name!r} in this profile; tools: {tools}")
        if self.finish.tool in self.tools:
            msg = f"{self.finish.tool!r} is one of `tools`; expected another name: only a finish may call it"
            yield _Misplaced(("finish", "tool"), msg)

    def _wrong_difficulties(self) -> Iterator[_Misplaced]:
        if self.difficulties and not sum(difficulty.share for difficulty in self.difficulties.values()) > 0:
            yield _Misplaced(("difficulties",), "expected at least one share above 0")
        names = ", ".join(self.difficulties) or "none"
        for task, name in self.tasks.items():
            if name not in self.difficulties:
                yield _Misplaced(("tasks", task), f"there is no difficulty {name!r} in this profile; it has: {names}")

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Profile:
        """A profile from plain values, as in a file.

        Args:
            data: The fields by name.

        Returns:
            The profile.

        Raises:
            ProfileError: if a value or a name is not accepted.
        """
        return _validate(data)

    @classmethod
    def load(cls, path: str | Path) -> Profile:
        """Read a profile from a YAML file, or a profile of boolab by its name.

        Args:
            path: The file (`~` is expanded), or the bare name of a shipped profile, such as `coder`. An existing file
                with that name takes precedence.

        Returns:
            The profile.

        Raises:
            ProfileError: if it cannot be read, with its path and line.
        """
        file = _find_file(user_path(path))
        document = read_document(file, ProfileError)
        return _validate(document.data, document, file)

    def vary(self, **fields: Any) -> Profile:  # noqa: ANN401 - any field
        """A changed copy. Of a field with parts, such as `success`, the parts that are not given stay as they are.

        Args:
            fields: The fields to change, as plain values. What `sources` and `assumptions` report of a changed field is
                left out.

        Returns:
            The copy.

        Raises:
            ProfileError: if a value or a name is not accepted.

        Example:
            >>> import boolab as bl
            >>> coder = bl.models.Profile.load("coder")
            >>> plain = coder.vary(success={"cut": 0}, reminders=[])
            >>> plain.success_at(30, finished=True), plain.success_at(30, finished=False), plain.reminders
            (0.75, 0.0, [])
        """
        data, changed = self.model_dump(exclude_defaults=True), []
        for name, value in fields.items():
            old = data.get(name)
            if isinstance(old, Mapping) and isinstance(value, Mapping):
                data[name] = {**old, **value}
                changed += [f"{name}.{part}." for part in value]
            else:
                data[name] = value
                changed.append(f"{name}.")
        for field in {"sources", "assumptions"} & data.keys() - fields.keys():
            texts = data[field].items()
            data[field] = {path: text for path, text in texts if not f"{path}.".startswith(tuple(changed))}
        return self.of(data)

    def save(self, path: str | Path) -> None:
        """Write the profile to a YAML file, without the fields that have their default.

        Args:
            path: The file (`~` is expanded); an existing one is replaced.
        """
        plain = {"name": self.name, **self.model_dump(exclude_defaults=True)}
        text = yaml.safe_dump(plain, sort_keys=False, width=120)  # in ASCII: YAML reads a bare U+0085 as a space
        write_output(user_path(path), text)

    @cached_property
    def digest(self) -> str:
        """32 hex digits, the same for profiles with the same behaviour, whatever the order of their fields."""
        figures = json.dumps(self.model_dump(mode="json", exclude=set(_DESCRIPTIVE_FIELDS)), sort_keys=True)
        return blake2b(figures.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

    def hazard_at(self, step: int) -> float:
        """The probability of finishing at a step, without factors.

        Args:
            step: The step's number, from 1.

        Returns:
            The probability.
        """
        return probability_at(self.finish.hazard, step)

    def success_at(self, step: int, *, finished: bool, difficulty: str | None = None) -> float | None:
        """The probability that a run is a success.

        Args:
            step: The step at which it finished, from 1; or the number of steps after which a limit stopped it.
            finished: Whether it finished; else a limit stopped it.
            difficulty: The difficulty of its task: see `difficulty_of`.

        Returns:
            The probability; None if the profile does not have it.

        Example:
            >>> import boolab as bl
            >>> finished = [{"from_step": 1, "probability": 0.75}, {"from_step": 10, "probability": 0.5}]
            >>> success = {"finished": finished, "cut": 0.1}
            >>> profile = bl.models.Profile.of({"tools": {"look": {}}, "success": success})
            >>> [profile.success_at(step, finished=True) for step in (9, 10)], profile.success_at(9, finished=False)
            ([0.75, 0.5], 0.1)
        """
        kind, usual = Difficulty() if difficulty is None else self.difficulties[difficulty], self.success
        if finished:
            pieces = kind.finished if kind.finished is not None or usual is None else usual.finished
        else:
            pieces = kind.cut if kind.cut is not None or usual is None else usual.cut
            if pieces is not None and usual is not None and step < usual.cut_from_step:
                return 0.0
        return None if pieces is None else probability_at(pieces, step)

    @property
    def limits_never_help(self) -> bool:
        """Whether no run is a success only because a limit stopped it.

        One number decides about each run under every limit. So this holds if, for each difficulty, the probability of
        success of a run that a limit stops is at most that of every later end, by a limit or not.
        """
        return all(self._never_helps(name) for name in (self.difficulties or (None,)))

    def _never_helps(self, difficulty: str | None) -> bool:
        kind, usual = Difficulty() if difficulty is None else self.difficulties[difficulty], self.success
        series = [kind.finished, kind.cut] if usual is None else [kind.finished, kind.cut, usual.finished, usual.cut]
        changes = {1, *(piece.from_step for piece in chain.from_iterable(filter(None, series)))}
        if self.success is not None:
            changes.add(self.success.cut_from_step)
        # Between changes nothing differs, so the steps beside each are enough.
        steps = {*changes, *(change - 1 for change in changes), *(change + 1 for change in changes)} - {0}
        later = math.inf
        for step in sorted(steps, reverse=True):
            finished_chance, cut_chance = (
                self.success_at(step, finished=ended, difficulty=difficulty) for ended in (True, False)
            )
            if cut_chance is not None and cut_chance > later:
                return False
            later = min([later, *(chance for chance in (finished_chance, cut_chance) if chance is not None)])
        return True

    def shares_after(self, tool: str | None) -> dict[str, float]:
        """The shares of the next call's tool.

        Args:
            tool: The tool of the latest call; None for the first call of a run.

        Returns:
            The shares by tool, which add up to 1.
        """
        row = None if tool is None else self.tools[tool].next
        return normalise(row or self.start or dict.fromkeys(self.tools, 1.0))

    def calls_of(self, tool: str) -> dict[int, float]:
        """The shares of the number of calls in a step that begins with a tool.

        Args:
            tool: The tool's name.

        Returns:
            The shares by number of calls, which add up to 1.
        """
        return normalise(self.tools[tool].calls or self.calls)

    def difficulty_of(self, task: str) -> str | None:
        """The difficulty of a task: that in `tasks`, else one that depends on its text alone.

        Args:
            task: The text of the task.

        Returns:
            The difficulty's name; None if the profile has no difficulties.
        """
        if not self.difficulties:
            return None
        if task in self.tasks:
            return self.tasks[task]
        digest = blake2b(task.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        remainder = int.from_bytes(digest, "big") / 2**64
        shares = normalise({name: self.difficulties[name].share for name in sorted(self.difficulties)})
        for name, share in shares.items():
            remainder -= share
            if remainder < 0:
                return name
        return [name for name, share in shares.items() if share][-1]

    def __str__(self) -> str:
        return f"profile {self.name}"

    def __repr__(self) -> str:
        return f"<Profile {self.name}: {count(len(self.tools), 'tool')}, {self.digest[:8]}>"


def shipped_profiles() -> dict[str, Path]:
    """The files of boolab's own profiles, by name."""
    return {file.stem: file for file in sorted((data_path("datasets") / "profiles").glob("*.yaml"))}


def _find_file(path: Path) -> Path:
    if len(path.parts) > 1 or path.suffix or path.exists():
        return path
    shipped = shipped_profiles()
    if path.name not in shipped:
        msg = f"there is no such file and no shipped profile with that name; shipped: {', '.join(shipped) or 'none'}"
        raise ProfileError(msg, path=path)
    return shipped[path.name]


def _validate(data: object, document: YamlDocument | None = None, path: Path | None = None) -> Profile:
    if not isinstance(data, Mapping):
        msg = f"expected a mapping with 'tools', found {type(data).__name__}"
        raise ProfileError(msg, path=path, line=None if document is None else document.line())
    try:
        return Profile.model_validate(dict(data) if path is None else {"name": path.stem, **data})
    except ValidationError as error:
        faults = error.errors(include_url=False)
        fault = next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0])
        cause = fault.get("ctx", {}).get("error")
        location = cause.location if isinstance(cause, _Misplaced) else fault["loc"]
        location = tuple(part for part in location if part != "[key]")
        message = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "extra_forbidden":
            message = f"there is no such field; accepted here: {accepted_keys(Profile, fault['loc'])}"
        field = ".".join(map(str, location)) or "the profile"
        line = None if document is None else document.line(location)
        raise ProfileError(f"{field}: {message}", path=path, line=line) from error


def _field_paths(value: object, prefix: str = "") -> Iterator[str]:
    """The places of all fields."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield f"{prefix}{name}"
            yield from _field_paths(inner, f"{prefix}{name}.")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield f"{prefix}{number}"
            yield from _field_paths(inner, f"{prefix}{number}.")
