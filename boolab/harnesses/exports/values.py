"""What is exported: limits, and the text that sets them in a harness."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from boolab.core.commands import insert_program
from boolab.core.displayable import Displayable
from boolab.core.text import clean
from boolab.core.types import IDENTITIES, Identities
from boolab.display.document import Code, Document
from boolab.display.text import WIDTH, joined, wrap_text
from boolab.errors import SettingError, near
from boolab.harnesses.front_matter import agent_name, yaml_text
from boolab.harnesses.policy import Policy
from boolab.io.checks import is_whole, repr_of
from boolab.limits.call_identity import split_identity
from boolab.limits.table import LIMITS
from boolab.limits.token_count import FRESH, TokenCount

Language: TypeAlias = Literal["json", "jsonc", "markdown", "python", "shell", "toml", "yaml"]
JSONValue: TypeAlias = "str | int | float | bool | Sequence[JSONValue] | Mapping[str, JSONValue] | None"

_COMMENT: Final[Mapping[Language, str]] = {
    "json": "",
    "jsonc": "// ",
    "markdown": "# ",
    "python": "# ",
    "shell": "# ",
    "toml": "# ",
    "yaml": "# ",
}
"""How a line of comment begins. JSON has none; in Markdown it stands in the front matter, which is YAML."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits to set, and how they are counted. None is off.

    Attributes:
        max_steps: The step cap, in steps.
        tool_budget: The tool budget, in tool calls.
        doom_loop: How many identical calls in a row stop a run, 2 or more.
        error_streak: How many failed calls in a row stop a run.
        max_tokens: The token budget: input and output together, or as `token_weights` weigh them.
        max_cost: The cost budget, in dollars.
        max_time: The time budget, in seconds.
        compact_at: The compaction threshold: above so many tokens the history is summarised. It is no limit of a run.
        window: The context window of the model, in tokens, for harnesses whose threshold is a part of it.
        max_output: The most tokens of a response of the model, likewise.
        token_weights: The weights of the token budget by kind, as `bl.max_tokens` takes them; None: all tokens count 1.
        identity: What makes two calls identical: see `boolab.limits.call_identity`.
        exempt: The tools whose repeats are no loop, such as one that polls.
        scope: "turn": counters start at zero with each message of the user. "run": they continue through the session.
        agent: The agent that is limited; None: all.
        policy: The policy in whose unit `max_steps` is counted, or the name of a preset; None: steps, evaluated after
            each step.

    Raises:
        SettingError: if a value is not accepted.

    Example:
        >>> Limits(max_steps=56, doom_loop=5).given
        {'max_steps': 56, 'doom_loop': 5}
    """

    max_steps: int | None = None
    tool_budget: int | None = None
    doom_loop: int | None = None
    error_streak: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    max_time: float | None = None
    compact_at: int | None = None
    window: int | None = None
    max_output: int | None = None
    token_weights: Mapping[str, float] | None = None
    identity: Identities = "canonical"
    exempt: tuple[str, ...] = ()
    scope: Literal["turn", "run"] = "turn"
    agent: str | None = None
    policy: Policy | str | None = None

    def __post_init__(self) -> None:
        for name, axis in LIMITS.items():
            value = getattr(self, name)
            minimum = axis.min_useful
            right = value is None or (
                not isinstance(value, bool) and isinstance(value, int | float) and 0 < value < float("inf")
                if axis.fractions
                else is_whole(value) and value >= minimum
            )
            if not right:
                kind = "a number above 0" if axis.fractions else f"a whole number, {minimum} or more"
                raise SettingError(f"{name}={repr_of(value)}: expected {kind}, or None for no limit")
            if axis.fractions and value == int(value or 0):
                object.__setattr__(self, name, int(value))  # 40.0 is written as 40
        self._check_context()
        if self.token_weights is not None:
            if self.max_tokens is None:
                msg = "token_weights: there is no token budget to weigh: expected max_tokens as well"
                raise SettingError(msg)
            object.__setattr__(self, "token_weights", TokenCount.from_weights(self.token_weights).weights)
        if isinstance(self.identity, str) and self.identity not in IDENTITIES:
            raise SettingError(f"identity={self.identity!r}{near(self.identity, IDENTITIES, 'accepted')}")
        if not isinstance(self.identity, str):
            default, by_tool, exempt = split_identity(self.identity)
            if not by_tool:  # written in one way, whichever way it was given
                object.__setattr__(self, "identity", default)
                object.__setattr__(self, "exempt", tuple(dict.fromkeys([*self.exempt, *exempt])))
        if self.scope not in ("turn", "run"):
            raise SettingError(f"scope={self.scope!r}: expected 'turn' or 'run'")

    def _check_context(self) -> None:
        for name in ("compact_at", "window", "max_output"):
            value = getattr(self, name)
            if value is not None and not (is_whole(value) and value >= 1):
                raise SettingError(f"{name}={repr_of(value)}: expected a whole number, 1 or more, or None")
        if self.window is not None and (self.compact_at or 0) > self.window:
            raise SettingError(f"compact_at={self.compact_at}: expected no more than the window of {self.window:,}")

    @property
    def given(self) -> dict[str, int | float]:
        """The limits that are on, by the names of `boolab.limits.table.LIMITS`."""
        return {name: value for name in LIMITS if (value := getattr(self, name)) is not None}

    def in_words(self) -> str:
        """The limits that are on, as a sentence has them."""
        parts = [self.limit_in_words(name) for name in self.given]
        parts += [] if self.compact_at is None else [f"a compaction threshold of {self.compact_at:,} tokens"]
        return joined(parts) if parts else "no limit"

    def limit_in_words(self, name: str) -> str:
        """A limit that is on, as a sentence has it."""
        text = LIMITS[name].with_value(self.given[name])
        if name != "max_tokens" or self.token_weights is None:
            return text
        count = TokenCount.from_weights(self.token_weights)
        return f"{text} fresh tokens" if count == FRESH else f"{text} weighted tokens ({count.weights_text})"


class Change(NamedTuple):
    """One value in a file: the keys that lead to it, and what is set there."""

    at: tuple[str, ...]
    value: JSONValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One text of an export: a file, commands or code.

    Attributes:
        text: The text, ready to paste; in a language that has comments it holds the notes of the export.
        language: The language of the text.
        how: Where it belongs and how it is used, in a sentence.
        path: The file, relative to the folder of the project; None: it is pasted elsewhere.
        sets: The limits that it sets, by name. A fixed threshold that it only turns on is none.
        changes: What `write` sets in a file that is there already, and what it has a place for. Without changes
            nothing is written into a file that exists.
    """

    text: str
    language: Language
    how: str
    sets: frozenset[str] = frozenset()
    path: str | None = None
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Export(Displayable):
    """Limits as the settings of a harness. `print` gives what to paste where; a notebook shows the same.

    Attributes:
        target: The name of the target.
        title: What is set in which harness.
        parts: What to paste where.
        notes: How numbers were translated, and what the harness cannot express.
        source: Where the facts are from.
        no_file: If no part is a file, what to type in place of `write`.
        lost: What is lost by the limits that the harness lacks, where the best of those that it has are set.

    Example:
        >>> from boolab.harnesses.exports.export import export
        >>> made = export("boolab", Limits(max_steps=56, doom_loop=5, agent="coder"))
        >>> made.parts[0].path
        'agents/coder.md'
    """

    target: str
    title: str
    parts: tuple[Part, ...]
    notes: tuple[str, ...] = ()
    source: str = ""
    no_file: str = ""
    lost: str = ""

    def __repr__(self) -> str:
        return f"<Export to {self.target}: {clean(self.title)}>"

    def __str__(self) -> str:
        """All parts, for a terminal; what is not part of a text begins with `#`."""
        return insert_program(self.text)

    @property
    def text(self) -> str:
        """All parts; what is not part of one begins with `#`."""
        blocks = [_comment_lines(text) for text in (self.title, self.lost) if text]
        blocks += [f"{_comment_lines(_heading(part))}\n{part.text.rstrip()}" for part in self.parts]
        if not any(_COMMENT[part.language] for part in self.parts):
            blocks += ["\n".join(_comment_lines(note) for note in self.notes)] if self.notes else []
        blocks += [_comment_lines(f"Source: {self.source}")] if self.source else []
        return "\n\n".join(blocks)

    def _document_(self) -> Document:
        parts = [Code(part.text, part.how, part.path) for part in self.parts]
        source = f"Source: {self.source}" if self.source else ""
        return Document(title=self.title, lead=parts, notes=(*filter(None, [self.lost]), *self.notes), footer=source)

    def diff(self, path: str | Path | None = None, root: str | Path = ".") -> str:
        """What `write` would change, as a unified diff; "" if nothing.

        Args:
            path: Instead of a part's own path: a file for the one part that it fits, or a folder in place of `root`.
            root: The folder of the project.

        Returns:
            The diff.

        Raises:
            FileError: if a file cannot be changed without changing more than these values: path, line, and why.
        """
        from boolab.harnesses.exports.write import format_diff, plan_files

        return format_diff(plan_files(self, path, root))

    def write(self, path: str | Path | None = None, root: str | Path = ".") -> str:
        """Set the limits in the files of the harness; their format, comments and other values stay.

        Args:
            path: Instead of a part's own path: a file for the one part that it fits, or a folder in place of `root`.
            root: The folder of the project.

        Returns:
            What was changed, as a unified diff; "" if the limits were set already.

        Raises:
            FileError: if a file cannot be changed without changing more than these values: path, line, and why. No
                file has been changed then.
        """
        from boolab.harnesses.exports.write import format_diff, plan_files, replace_files

        files = plan_files(self, path, root)
        replace_files(files)
        return format_diff(files)


class Sets(NamedTuple):
    """One limit of a harness."""

    limit: str  # which of `boolab.limits.table.LIMITS` it sets
    where: str  # the setting, as documentation has it
    meaning: str  # how the harness counts it and what happens there
    verified: str  # how that was checked, with the version


def no_weights(_: Mapping[str, float]) -> str:
    """What a target lacks that counts input and output together."""
    return "It counts input and output together, without weights."


def any_weights(_: Mapping[str, float]) -> str:
    """What a target lacks whose token budget is boolab's own rule: nothing."""
    return ""


class Target(NamedTuple):
    """A harness that limits can be exported to."""

    name: str  # what is typed
    title: str  # what it is called
    preset: str  # the preset whose semantics the numbers are translated by; "" for none
    source: str  # where the facts are from, with date or version
    sets: tuple[Sets, ...]  # the limits that it has, a row for each
    lacks: Mapping[str, str]  # by limit, why it cannot be set and what comes nearest: a sentence
    # the parts, and the notes on this translation, from limits
    build: Callable[[Limits, Sequence[str]], tuple[tuple[Part, ...], tuple[str, ...]]]
    compaction: str = ""  # the setting of the compaction threshold, as documentation has it; "" for none known
    # why it cannot weigh the tokens of a budget so, a sentence; "" where it can
    lacks_weights: Callable[[Mapping[str, float]], str] = no_weights


def comment(language: Language, notes: Sequence[str], indent: str = "") -> str:
    """Notes as lines of comment, each with its line end; "" in a language without comments."""
    sign = _COMMENT[language]
    if not sign:
        return ""
    return "".join(_comment(note, f"{indent}{sign}") for note in notes)


@lru_cache(maxsize=4096)  # most notes of the hundreds of settings of a CapLab page are alike
def _comment(note: str, begin: str) -> str:
    return wrap_text(note, WIDTH, begin, f"{begin}  ") + "\n"


def agent_file(limits: Limits) -> str:
    """The agent's name as the name of a file: what a path could misread is left out."""
    return agent_name(limits.agent or "")


def _heading(part: Part) -> str:
    return f"{part.path}: {part.how}" if part.path else part.how


def settings_part(
    path: str, language: Language, text: str, how: str, changes: Sequence[Change], sets: Iterable[str]
) -> Part:
    """The file that takes these changes; without changes, a text without a place."""
    if not changes:
        return Part(language=language, text=text, how="nothing of this can be set.", sets=frozenset(sets))
    return Part(path=path, language=language, text=text, how=how, sets=frozenset(sets), changes=tuple(changes))


def json_part(
    path: str, changes: Sequence[Change], notes: Sequence[str], sets: Iterable[str], **top: JSONValue
) -> Part:
    """The settings of a project in JSON with comments: `top`, then the changes."""
    text = json.dumps({**top, **nest(changes)}, indent=2, ensure_ascii=False)
    text = "{\n" + comment("jsonc", notes, "  ") + (text.removeprefix("{\n") if text != "{}" else "}") + "\n"
    return settings_part(path, "jsonc", text, "the settings of the project.", changes, sets)


def subagent_part(folder: str, name: str, changes: Sequence[Change], notes: Sequence[str], sets: Iterable[str]) -> Part:
    """The file of a subagent, whose front matter has the changes."""
    lines = [f"name: {yaml_text(name)}", "description: Say here when it is to be used."]
    lines += [f"{key}: {value}" for (key,), value in changes]
    text = "---\n" + "".join(f"{line}\n" for line in lines) + comment("markdown", notes) + "---\n"
    how = "the file of a subagent; its prompt goes below the second ---."
    return settings_part(f"{folder}/{name}.md", "markdown", text, how, changes, sets)


def nest(changes: Sequence[Change]) -> dict[str, JSONValue]:
    """Values at their places, as one object."""
    tree: dict[str, Any] = {}
    for path, value in changes:
        inner = tree
        for key in path[:-1]:
            inner = inner.setdefault(key, {})
        inner[path[-1]] = value
    return tree


def _comment_lines(text: str) -> str:
    return wrap_text(text, WIDTH, "# ", "# ")
