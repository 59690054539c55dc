"""`Profile`: how a simulated agent behaves, in figures. `boolab.models.simulated.model` plays it.

A profile is a YAML file. Only `tools` must be there; whatever is left out has the value that is named here.

    name: coder
    start: {list_files: 3, search_text: 1}
    tools:
      list_files: {next: {read_file: 1}}
      search_text: {next: {read_file: 4, search_text: 1}, result_chars: {median: 800, sigma: 1}}
      read_file: {next: {read_file: 2, edit_file: 1}, calls: {1: 8, 3: 2}}
      edit_file: {next: {read_file: 1}, error_rate: 0.1, finish_factor: 2}
    finish: {hazard: [{from_step: 1, probability: 0}, {from_step: 4, probability: 0.12}]}
    loop: {rate: 0.01, period: {1: 3, 2: 1}, again: 0.8}
    tokens: {prompt: 4000, output: {median: 180, sigma: 0.8}, cached_share: 0.9}
    price: {input: 3, cached: 0.3, output: 15}
    difficulties:
      easy: {share: 0.4, hazard_factor: 1.5, finished: 0.9, cut: 0.3}
      hard: {share: 0.6, hazard_factor: 0.7, finished: 0.4, cut: 0.05}
    sources: {tools: "Counted in 40 recorded runs."}
    assumptions: {loop.again: "Nothing is published about it."}

Four kinds of figures occur:

- a *probability*, from 0 to 1;
- *shares*: weights by name or number that need not add up to 1 (`{1: 8, 3: 2}` is 80% and 20%);
- *steps from which something holds*: a number, or a list of `{from_step, probability}` of which the first begins at 1;
- a *distribution* of whole numbers >= 0: a number, which every draw then is; `{median, sigma}`, a lognormal one with
  `sigma` the standard deviation of the logarithm, at most 10; or `{quantiles: [...]}`, values at equal distances of
  probability from the smallest to the largest, linear in between. `zeros` is the share that is 0 beside that, `most` an
  upper end.

No weight and no value is above 2**53.

What a step is. Steps are counted from 1 through a run. A step is decided in this order:

1. While the agent is in a *loop*, it makes the same calls again, with the same results, text, tokens and times.
2. Otherwise, unless a loop has just ended, it enters one with probability `loop.rate`: the latest `period` steps (all
   there are, if fewer) are made again, at least once; after each time through, once more with probability `loop.again`.
   The step after a loop is never the first of another.
3. If a call of the step before failed (the last one that did, if several), `after_error` decides: `retry` is that call
   alone, identically, which fails again with the same result with probability `fails_again` (the tool's `error_rate`
   if left out); `vary` the same tool with other arguments, `switch` another tool by the failed one's `next`, the failed
   one left out (by `start`, where nothing is left); `give_up` finishes the run. The hazard does not count there.
4. Otherwise it *finishes* with the hazard of its step, times `finish_factor` of the tool that was called last, times
   `hazard_factor` of the task's difficulty, and changed by `reminders`; at most 1.
5. If it does not, the first call's tool is drawn from `start` in the first step and from `next` of the tool that was
   called last in later ones. `calls` of that first tool says how many calls the step has, and each further call's tool
   is drawn from `next` of the one before it: the chain of tools runs over calls, wherever steps begin.

Each call that neither a loop nor `retry` tells is a *revisit* with probability `revisit.rate`, if there is an earlier
call of its tool with other arguments than the call just before it: the arguments of one of those, each as likely, and
with probability `same_result` its result too. Every other call has arguments that no earlier one had. Results that are
not repeated are errors with the tool's `error_rate`.

Everything in it:

- `name`, `description`; `sources` and `assumptions`: by place, such as `tools.read_file.error_rate` or `tools`, where
  the figures there come from, and which nobody has measured.
- `tools`, by name: `next` (shares of tools; left out: `start`), `calls` (shares by number; left out: the profile's
  `calls`), `error_rate` (0), `after_error` (the profile's), `finish_factor` (1), and the distributions `latency_ms`
  (0), `argument_chars` (30), `result_chars` (200), `error_chars` (60).
- `start`: shares of tools (all equal); `calls`: shares by number ({1: 1}).
- `finish`: `hazard` (0.1), `tool` (none: it finishes by a text without calls; else by a call of that tool, and by a
  text if it is asked once more), `text_chars` (300).
- `loop`: `rate` (0), `period` ({1: 1}), `again` (0.5).
- `after_error`: shares `retry` (0), `vary` (1), `switch` (0), `give_up` (0), and `fails_again`.
- `revisit`: `rate` (0), `same_result` (1).
- `tokens` (left out: unknown): `prompt`, of the first request, drawn once a run; `output`, of each response; `growth`,
  what each step adds to the next request beside its output (left out: a quarter of the characters of its results);
  `cached_share` (0), of the tokens of the request before it, that a request finds cached; `summary` (300), the output
  tokens of a summary.
- `price` (left out: unknown): dollars per million tokens, `input`, `cached` (as `input`), `output`.
- `latency`: the distributions `response_ms` (0) and `first_token_ms` (left out: unknown).
- `text_chars` (0): the text beside calls; `summary_chars` (600).
- `context_window` (none), in tokens.
- `success` (left out: unknown): the probability that a run is a success, `finished` if it finished, `cut` if a limit
  ended it (left out: unknown) from step `cut_from_step` (1) on; before it, 0. A run that answered in text because no
  tool might be called any more was cut.
- `difficulties`, by name: `share` of the tasks (1), `hazard_factor` (1), and `finished` and `cut` in place of those of
  `success`. `tasks`: difficulties by the text of the task; all others get one by the shares, from their text alone.
- `reminders`: what it does to the hazard that the model is told how many turns are left: a list of `{turns_left,
  factor, least}`, of which the one with the least `turns_left` that is not below the number counts: the hazard is
  multiplied by `factor` (1), and `least` (0) at least. A request that announces the last step counts as one turn left.
  Nobody has published such figures: whatever stands here is an assumption, and belongs into `assumptions`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from statistics import NormalDist
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveInt,
    ValidationError,
    model_validator,
)

from boolab.errors import ProfileError
from boolab.io.files import read_file
from boolab.io.resources import data_path
from boolab.io.yaml_loader import MAX_BYTES, Document, DocumentError, read_yaml

K = TypeVar("K", str, int)

_ABOUT: Final = frozenset({"name", "description", "sources", "assumptions"})
"""What says something about a profile and changes no run."""


class _Misplaced(ValueError):
    """Something that is wrong with a profile as a whole, and where in it."""

    def __init__(self, place: tuple[str | int, ...], message: str) -> None:
        super().__init__(message)
        self.place = place


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


_Figure: TypeAlias = Annotated[float, Field(ge=0, le=2**53, allow_inf_nan=False)]
_Sigma: TypeAlias = Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)]
"""Ten is a factor of 22,000 for each standard deviation; at a few hundred the values are beyond all floats."""
_Probability: TypeAlias = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


def _are_shares(shares: dict[Any, float]) -> dict[Any, float]:
    if not sum(shares.values()) > 0:
        msg = f"expected at least one share above 0, found {shares!r}"
        raise ValueError(msg)
    return shares


Shares: TypeAlias = Annotated[dict[str, _Figure], AfterValidator(_are_shares)]
"""Weights by name; they need not add up to 1."""
Counts: TypeAlias = Annotated[dict[PositiveInt, _Figure], AfterValidator(_are_shares)]
"""Weights by whole number >= 1; they need not add up to 1."""


class Distribution(_Strict):
    """A distribution of whole numbers >= 0: see the module's documentation.

    Example:
        >>> Distribution(quantiles=[0, 10, 40]).quantile(0.75), Distribution(median=100, sigma=1).quantile(0.5)
        (25.0, 100.0)
    """

    median: _Figure | None = None
    sigma: _Sigma = 0.0
    quantiles: Annotated[list[_Figure], Field(min_length=2)] | None = None
    zeros: _Probability = 0.0
    most: _Figure | None = None

    @model_validator(mode="after")
    def _is_one_kind(self) -> Distribution:
        if (self.median is None) == (self.quantiles is None):
            msg = "give a number, or either median (with sigma) or quantiles"
            raise ValueError(msg)
        if self.quantiles is not None and any(a > b for a, b in pairwise(self.quantiles)):
            msg = f"quantiles {self.quantiles} do not ascend"
            raise ValueError(msg)
        if self.quantiles is not None and self.sigma:
            msg = "sigma belongs to median; quantiles say themselves how far they spread"
            raise ValueError(msg)
        return self

    def quantile(self, p: float) -> float:
        """The value below which a share `p` lies, 0 < p < 1, not rounded."""
        if p <= self.zeros:
            return 0.0
        p = (p - self.zeros) / (1 - self.zeros)
        if self.quantiles is not None:
            place = p * (len(self.quantiles) - 1)
            low = min(int(place), len(self.quantiles) - 2)
            below, above = self.quantiles[low : low + 2]
            value = below + (above - below) * (place - low)
        elif self.sigma:
            value = (self.median or 0.0) * math.exp(self.sigma * NormalDist().inv_cdf(p))
        else:
            value = self.median or 0.0
        return value if self.most is None else min(value, self.most)

    def table(self, n: int) -> tuple[int, ...]:
        """The distribution as `n` whole numbers, each as likely, ascending."""
        return tuple(round(self.quantile((i + 0.5) / n)) for i in range(n))


def _as_distribution(value: object) -> object:
    return {"median": value} if isinstance(value, int | float) and not isinstance(value, bool) else value


Amount: TypeAlias = Annotated[Distribution, BeforeValidator(_as_distribution)]
"""A distribution; a number is one too."""


def _amount(value: float) -> Distribution:
    return Distribution(median=value)


class Piece(_Strict):
    """A probability that holds from a step on."""

    from_step: PositiveInt
    probability: _Probability


def _as_pieces(value: object) -> object:
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return [{"from_step": 1, "probability": value}] if plain else value


def _are_pieces(pieces: list[Piece]) -> list[Piece]:
    starts = [piece.from_step for piece in pieces]
    if starts[0] != 1 or any(a >= b for a, b in pairwise(starts)):
        msg = f"expected from_step to begin with 1 and to ascend, found {starts}"
        raise ValueError(msg)
    return pieces


Hazard: TypeAlias = Annotated[
    list[Piece], BeforeValidator(_as_pieces), Field(min_length=1), AfterValidator(_are_pieces)
]
"""A probability by step, constant from one `from_step` to the next; a number holds for all steps."""


class AfterError(_Strict):
    """What a step does after one in which a call failed: shares, and how a retry ends."""

    retry: _Figure = 0.0
    vary: _Figure = 1.0
    switch: _Figure = 0.0
    give_up: _Figure = 0.0
    fails_again: _Probability | None = None

    @model_validator(mode="after")
    def _has_a_share(self) -> AfterError:
        _are_shares(self.shares)
        return self

    @property
    def shares(self) -> dict[str, float]:
        """The weights of what follows."""
        return {"retry": self.retry, "vary": self.vary, "switch": self.switch, "give_up": self.give_up}


class ToolProfile(_Strict):
    """What the agent does after a call of a tool, and what such a call is like."""

    next: Shares | None = None
    calls: Counts | None = None
    error_rate: _Probability = 0.0
    after_error: AfterError | None = None
    finish_factor: _Figure = 1.0
    latency_ms: Amount = _amount(0)
    argument_chars: Amount = _amount(30)
    result_chars: Amount = _amount(200)
    error_chars: Amount = _amount(60)


class Finish(_Strict):
    """When the agent finishes, and how."""

    hazard: Hazard = [Piece(from_step=1, probability=0.1)]
    tool: Annotated[str, Field(min_length=1)] | None = None
    text_chars: Amount = _amount(300)


class Loop(_Strict):
    """How often the agent falls into a loop, of how many steps, and how long it stays in it."""

    rate: _Probability = 0.0
    period: Counts = {1: 1.0}
    again: _Probability = 0.5


class Revisit(_Strict):
    """How often a call is made again that is no loop, and whether it gives the same again."""

    rate: _Probability = 0.0
    same_result: _Probability = 1.0


class Tokens(_Strict):
    """What requests and responses consume."""

    prompt: Amount
    output: Amount
    growth: Amount | None = None
    cached_share: _Probability = 0.0
    summary: Amount = _amount(300)


class Price(_Strict):
    """Dollars per million tokens, which is micro-dollars a token. `cached` is what cached input costs."""

    input: _Figure
    output: _Figure
    cached: _Figure | None = None

    @property
    def per_token(self) -> tuple[float, float, float]:
        """Micro-dollars for a token of new input, of cached input, and of output."""
        return self.input, self.input if self.cached is None else self.cached, self.output


class Latency(_Strict):
    """How long the model takes, in milliseconds: to the end of a response, and to its first token."""

    response_ms: Amount = _amount(0)
    first_token_ms: Amount | None = None


class Success(_Strict):
    """The probability that a run is a success: one that finished, and one that was cut."""

    finished: _Probability
    cut: _Probability | None = None
    cut_from_step: PositiveInt = 1


class Difficulty(_Strict):
    """A kind of tasks: how common it is, and what is other about it."""

    share: _Figure = 1.0
    hazard_factor: _Figure = 1.0
    finished: _Probability | None = None
    cut: _Probability | None = None


class Reminder(_Strict):
    """What it does to the hazard that so many turns are left: an assumption, always."""

    turns_left: PositiveInt
    factor: _Figure = 1.0
    least: _Probability = 0.0


class Profile(_Strict):
    """How a simulated agent behaves: see the module's documentation for every figure.

    Make one with `Profile.of` or `Profile.load`; it is never changed. docs/simulated.md says what each figure means.

    Attributes:
        name: What it is called.
        description: What it is, in a sentence.
        sources: Where figures come from, by their place, such as `finish.hazard`.
        assumptions: What was assumed for lack of a source, by place.
        start: The shares of the tools of the first call; equal by default.
        tools: The tools by name: which one follows, how often they fail, how long they take, how much they give.
        calls: How many calls a response makes, with the share of each number.
        finish: When the agent finishes: the probability at each step, by a plain answer or by a tool.
        loop: How often it falls into a loop of equal calls, and how it comes out of it.
        after_error: What it does after a call that failed.
        revisit: How often it makes a call anew that it made before.
        tokens: How its context grows, in tokens.
        price: Dollars for a million tokens.
        latency: How long it takes to answer, in milliseconds.
        text_chars: How much it says beside its calls, in characters.
        summary_chars: How much it says at a wrap-up, in characters.
        context_window: The most that fits, in tokens.
        success: When a finished run is a success.
        difficulties: What is different for harder and easier tasks, with the share of each.
        tasks: The difficulty of single tasks, by their text.
        reminders: What a reminder of the turns that are left does to it.

    Example:
        >>> import boolab as bl
        >>> profile = bl.models.Profile.of({"name": "tiny", "tools": {"look": {}}, "finish": {"hazard": 0.25}})
        >>> profile.hazard_at(7), [*profile.shares_after("look")]
        (0.25, ['look'])
    """

    name: str = "simulated"
    description: str = ""
    sources: dict[str, str] = {}
    assumptions: dict[str, str] = {}
    start: Shares | None = None
    tools: Annotated[dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")], ToolProfile], Field(min_length=1)]
    calls: Counts = {1: 1.0}
    finish: Finish = Finish()
    loop: Loop = Loop()
    after_error: AfterError = AfterError()
    revisit: Revisit = Revisit()
    tokens: Tokens | None = None
    price: Price | None = None
    latency: Latency = Latency()
    text_chars: Amount = _amount(0)
    summary_chars: Amount = _amount(600)
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
        left = [reminder.turns_left for reminder in self.reminders]
        if len(set(left)) < len(left):
            yield _Misplaced(("reminders",), f"expected each number of turns left once, found {left}")
        places = set(_places(self.model_dump(mode="json", exclude=set(_ABOUT))))
        for about in ("sources", "assumptions"):
            for place in getattr(self, about):
                if place not in places:
                    there = "expected a place such as 'tools' or 'finish.hazard'"
                    yield _Misplaced((about, place), f"there is no figure {place!r}; {there}")

    def _wrong_tools(self) -> Iterator[_Misplaced]:
        rows: list[tuple[tuple[str | int, ...], Mapping[str, float] | None]] = [(("start",), self.start)]
        rows += [(("tools", name, "next"), tool.next) for name, tool in self.tools.items()]
        known = ", ".join(self.tools)
        for place, row in rows:
            for name in row or ():
                if name not in self.tools:
                    yield _Misplaced((*place, name), f"there is no tool {name!r} in this profile; tools: {known}")
        if self.finish.tool in self.tools:
            msg = f"{self.finish.tool!r} is one of `tools`; expected a name of its own, as nothing else may call it"
            yield _Misplaced(("finish", "tool"), msg)

    def _wrong_difficulties(self) -> Iterator[_Misplaced]:
        if self.difficulties and not sum(difficulty.share for difficulty in self.difficulties.values()) > 0:
            yield _Misplaced(("difficulties",), "expected at least one share above 0")
        there = ", ".join(self.difficulties) or "none"
        for task, name in self.tasks.items():
            if name not in self.difficulties:
                yield _Misplaced(("tasks", task), f"there is no difficulty {name!r} in this profile; it has: {there}")

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Profile:
        """A profile from plain values, as they stand in a file.

        Args:
            data: The values by name, as docs/simulated.md has them.

        Returns:
            The profile.

        Raises:
            ProfileError: if something in it is not accepted.
        """
        return _validated(data)

    @classmethod
    def load(cls, path: str | Path) -> Profile:
        """Read a profile from a YAML file, or one that comes with boolab by its name.

        Args:
            path: The file; or the bare name of a shipped profile, such as `coder`. A file of that name wins. `~` is
                expanded.

        Returns:
            The profile.

        Raises:
            ProfileError: if it cannot be read, with its path and line.
        """
        file = _found(Path(path).expanduser())
        try:
            document = read_yaml(read_file(file, MAX_BYTES).decode())
        except OSError as error:
            msg = f"cannot be read: {error.strerror}"
            raise ProfileError(msg, path=file) from error
        except UnicodeDecodeError as error:
            msg = "is not UTF-8 text"
            raise ProfileError(msg, path=file) from error
        except DocumentError as error:
            raise ProfileError(error.message, path=file, line=error.line) from error
        return _validated(document.data, document, file)

    def save(self, path: str | Path) -> None:
        """Write the profile to a YAML file that `load` reads as an equal one. What has its default is left out.

        Args:
            path: The file to write; one that is there is replaced. `~` is expanded.
        """
        plain = {"name": self.name, **self.model_dump(exclude_defaults=True)}
        text = yaml.safe_dump(plain, sort_keys=False, width=120)  # in ASCII: as it is, U+0085 would be read as a space
        Path(path).expanduser().write_text(text, encoding="utf-8")

    @cached_property
    def digest(self) -> str:
        """32 hex digits that tell the figures from all others, in whatever order they stand."""
        figures = json.dumps(self.model_dump(mode="json", exclude=set(_ABOUT)), sort_keys=True)
        return blake2b(figures.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

    def hazard_at(self, step: int) -> float:
        """The probability of finishing at a step, from 1, without any factor.

        Args:
            step: The step's number, from 1.

        Returns:
            The probability, between 0 and 1.
        """
        return next(piece.probability for piece in reversed(self.finish.hazard) if piece.from_step <= step)

    def shares_after(self, tool: str | None) -> dict[str, float]:
        """The shares of the next call's tool, adding up to 1.

        Args:
            tool: The tool that was called last; None for the first call of a run.

        Returns:
            The share of each tool that can follow.
        """
        row = None if tool is None else self.tools[tool].next
        return normalised(row or self.start or dict.fromkeys(self.tools, 1.0))

    def calls_of(self, tool: str) -> dict[int, float]:
        """The shares of the number of calls in a step that begins with a tool, adding up to 1.

        Args:
            tool: The tool's name.

        Returns:
            The share of each number of calls.
        """
        return normalised(self.tools[tool].calls or self.calls)

    def difficulty_of(self, task: str) -> str | None:
        """The difficulty of a task: as `tasks` says, else drawn by its text; None where the profile has none.

        Args:
            task: What the user asks.

        Returns:
            The difficulty's name.
        """
        if not self.difficulties:
            return None
        if task in self.tasks:
            return self.tasks[task]
        digest = blake2b(task.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        left = int.from_bytes(digest, "big") / 2**64
        shares = normalised({name: self.difficulties[name].share for name in sorted(self.difficulties)})
        for name, share in shares.items():
            left -= share
            if left < 0:
                return name
        return [name for name, share in shares.items() if share][-1]

    def __str__(self) -> str:
        return f"profile {self.name}"

    def __repr__(self) -> str:
        return f"<Profile {self.name}: {len(self.tools)} tools, {self.digest[:8]}>"


def normalised(shares: Mapping[K, float]) -> dict[K, float]:
    """Shares that add up to 1.

    Example:
        >>> normalised({1: 3, 2: 1})
        {1: 0.75, 2: 0.25}
    """
    total = sum(shares.values())
    return {name: share / total for name, share in shares.items()}


def shipped_profiles() -> dict[str, Path]:
    """The profiles that come with boolab, by name."""
    return {file.stem: file for file in sorted((data_path("datasets") / "profiles").glob("*.yaml"))}


def _found(path: Path) -> Path:
    if len(path.parts) > 1 or path.suffix or path.exists():
        return path
    shipped = shipped_profiles()
    if path.name not in shipped:
        msg = f"there is no such file, and no shipped profile of that name; shipped: {', '.join(shipped) or 'none'}"
        raise ProfileError(msg, path=path)
    return shipped[path.name]


def _validated(data: object, document: Document | None = None, path: Path | None = None) -> Profile:
    if not isinstance(data, Mapping):
        msg = f"expected a mapping with 'tools', found {type(data).__name__}"
        raise ProfileError(msg, path=path, line=None if document is None else document.line())
    try:
        return Profile.model_validate(dict(data) if path is None else {"name": path.stem, **data})
    except ValidationError as error:
        faults = error.errors(include_url=False)
        fault = next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0])
        cause = fault.get("ctx", {}).get("error")
        place = cause.place if isinstance(cause, _Misplaced) else fault["loc"]
        place = tuple(part for part in place if part != "[key]")
        told = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "extra_forbidden":
            told = f"there is no such figure; accepted here: {', '.join(_accepted(fault['loc']))}"
        where = ".".join(map(str, place)) or "the profile"
        line = None if document is None else document.line(place)
        raise ProfileError(f"{where}: {told}", path=path, line=line) from error


def _accepted(loc: tuple[int | str, ...]) -> list[str]:
    """The keys that are accepted where one was not."""
    kind: type[BaseModel] | None = Profile
    for name in loc[:-1]:
        kind = _PARTS.get(str(name), kind)
    return sorted((kind or Profile).model_fields)


_PARTS: Final[Mapping[str, type[BaseModel]]] = {
    "tools": ToolProfile,
    "finish": Finish,
    "hazard": Piece,
    "loop": Loop,
    "after_error": AfterError,
    "revisit": Revisit,
    "tokens": Tokens,
    "price": Price,
    "latency": Latency,
    "success": Success,
    "difficulties": Difficulty,
    "reminders": Reminder,
    **dict.fromkeys(
        (
            *("latency_ms", "argument_chars", "result_chars", "error_chars", "text_chars", "summary_chars"),
            *("prompt", "output", "growth", "summary", "response_ms", "first_token_ms"),
        ),
        Distribution,
    ),
}


def _places(value: object, prefix: str = "") -> Iterator[str]:
    """The places of all figures, and of what holds them."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield f"{prefix}{name}"
            yield from _places(inner, f"{prefix}{name}.")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield f"{prefix}{number}"
            yield from _places(inner, f"{prefix}{number}.")
