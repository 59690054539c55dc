"""What there is to know of a harness to run it: how a limit is set, how it starts, what its requests and ends mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from benchmarks.conformance.clis.scripts import Loop
from benchmarks.conformance.clis.server import Sorter, Wire


class Folders(NamedTuple):
    """Where one run lives; all else of the machine is not its own."""

    home: Path
    work: Path


class Finished(NamedTuple):
    """What a program left when it ended.

    Attributes:
        code: The exit code; None if it had to be killed because it did not end.
        out: Its standard output.
        err: Its standard error.
        folders: Where it lived.
    """

    code: int | None
    out: str
    err: str
    folders: Folders


@dataclass(frozen=True, slots=True)
class Start:
    """How a limit is set in one way: what is added to a plain start.

    Attributes:
        arguments: Added to the command line, before the prompt.
        environment: Added to the environment.
        files: Written before the start; the text of each by its path, which begins with `home/` or `work/`.
    """

    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way of setting a limit.

    Attributes:
        shown: How it is set, with N for the number, as the page says it.
        loop: The loop that it is a limit of.
        start: From the limit to what is added to a plain start.
        limits: What the number is a limit of.
        settled: Whether it is always the same which calls of the last response run. False where that is a race.
        holds: Whether the harness takes it as a limit of that loop. False where a run showed that it does not.
    """

    shown: str
    loop: Loop
    start: Callable[[float], Start]
    limits: Literal["steps", "cost", "tokens"] = "steps"
    settled: bool = True
    holds: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Harness:
    """One released program.

    Attributes:
        name: The name of its environment, as `benchmarks/requirements/npm` has it.
        command: What its package calls the program.
        ways: The ways of setting a limit, by a short name.
        wire: Makes the wire format that it speaks.
        sorter: Whose request a request is.
        base: What every run is started with, from the address of the model server.
        arguments: The whole command line from what a limit adds to it; the last is the prompt.
        end: How it reports the end, in its own words, as short as it has them.
        told: From the last request of the main loop to what it was told of the subagent's end.
        reasons: The stop reason that words of an end mean; the first that is in it counts.
        presets: The preset of each loop; none where boolab has none.
        logs: Where it writes its logs, as patterns below the home folder.
    """

    name: str
    command: str
    ways: Mapping[str, Way]
    wire: Callable[[], Wire]
    sorter: Sorter
    base: Callable[[str], Start]
    arguments: Callable[[tuple[str, ...]], list[str]]
    end: Callable[[Finished], str]
    told: Callable[[Any], str]
    reasons: tuple[tuple[str, str], ...]
    presets: Mapping[Loop, str]
    logs: tuple[str, ...]
