"""Agents in a Markdown file: YAML between two lines `---`, and the prompt after it; and how their names are written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from boolab.core.text import clean
from boolab.errors import AgentFileError

ALIASES: Final = dict.fromkeys(("steps", "maxSteps", "max_turns", "maxTurns"), "max_steps")
"""Keys of other harnesses, each with the key that it is here."""
_YAML_WORDS: Final = ("null", "true", "false", "yes", "no", "on", "off", "y", "n")


class FrontMatter(NamedTuple):
    """Where an agent is among the lines of a file: its `---`, the closing `---`, and the first line after its body."""

    start: int
    end: int
    after: int


def front_matters(lines: Sequence[str], path: Path | None = None) -> Iterator[FrontMatter]:
    """The part of each agent of a file; an `AgentFileError` if there is none, or one has no end."""
    starts = list(front_matter_starts(lines))
    if not starts:
        msg = "holds no agent: expected a line '---', YAML such as 'name: explorer', '---', and the prompt"
        raise AgentFileError(msg, path=path, line=1)
    for start, after in zip(starts, [*starts[1:], len(lines)], strict=True):
        end = next((i for i in range(start + 1, after) if lines[i].rstrip() == "---"), None)
        if end is None:
            msg = "the front matter that begins here has no closing '---'"
            raise AgentFileError(msg, path=path, line=start + 1)
        yield FrontMatter(start, end, after)


def front_matter_starts(lines: Sequence[str]) -> Iterator[int]:
    """The lines that open front matter: a '---' at the top of the file, or one with a `name` before the next '---'.

    Any other '---', and all in a code fence, belongs to a prompt.
    """
    in_fence, skip_to, at_top = False, 0, True
    for i, line in enumerate(lines):
        if i < skip_to or not line.strip():
            continue
        if line.lstrip().startswith(("```", "~~~")):
            in_fence = not in_fence
        if not in_fence and line.rstrip() == "---":
            end = next((j for j in range(i + 1, len(lines)) if lines[j].rstrip() == "---"), len(lines))
            if at_top or any(re.match(r"""["']?name["']?\s*:""", inner_line) for inner_line in lines[i + 1 : end]):
                yield i
                skip_to = end + 1
        at_top = False


def agent_name(text: str) -> str:
    """The name without what a path could misread; "agent" if nothing is left."""
    safe_text = "".join(char if char.isalnum() or char in "-_" else "-" for char in clean(text))
    return "-".join(part for part in safe_text.split("-") if part) or "agent"


def yaml_text(text: str) -> str:
    """A text as YAML reads it back: plain where that is safe, else quoted."""
    plain = re.fullmatch(r"[A-Za-z][A-Za-z_-]*", text) and text.lower() not in _YAML_WORDS
    return text if plain else json.dumps(text.encode("utf-8", "replace").decode())  # YAML holds no lone surrogates
