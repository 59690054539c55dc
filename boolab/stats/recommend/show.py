"""A recommendation as text and as HTML: the answer first, then how to set it, the table, and what it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from boolab.display.text import NO_MATH, wrapped
from boolab.errors import program
from boolab.harnesses.exports.export import as_command
from boolab.harnesses.exports.values import Limits
from boolab.stats.finding import Finding, escaped
from boolab.stats.recommend.verdict import MAX_GROUPS
from boolab.stats.trade import BETTER_OFF

_HOW = "How to set it (TARGET is your harness)"


def as_text(
    found: Finding, verdict: Sequence[str], limits: Mapping[str, Limits], poor: AbstractSet[str] = frozenset()
) -> str:
    """The finding as plain text, wrapped; `limits` are those of each group, `poor` those better left off."""
    how = ["\n".join([f"{_HOW}:", *(f"  {line}" for line in _commands(limits, poor))])] if limits else []
    notes = ["\n".join(wrapped(note, first="- ") for note in found.notes)] if found.notes else []
    answer = "\n".join(map(wrapped, verdict))
    return "\n\n".join([answer, *how, *found.table_text(), *map(wrapped, found.sentences), *notes])


def as_html(
    found: Finding, verdict: Sequence[str], limits: Mapping[str, Limits], poor: AbstractSet[str] = frozenset()
) -> str:
    """The same as a fragment of HTML: no script, nothing from elsewhere, the notebook's own colours."""
    first, *others = verdict
    parts = [f"<p><strong>{escaped(first)}</strong></p>", *(f"<p>{escaped(sentence)}</p>" for sentence in others)]
    if limits:
        lines = "\n".join(escaped(line) for line in _commands(limits, poor))
        parts.append(f'<p>{_HOW}:</p><pre style="margin-bottom:1em">{lines}</pre>')
    rest = found.sentences_html() + found.notes_html()
    parts += [found.table_html(), f"<details><summary>What this rests on</summary>{rest}</details>"]
    return f'<div class="{NO_MATH}" style="color:inherit;max-width:60em">{"".join(parts)}</div>'


def _commands(limits: Mapping[str, Limits], poor: AbstractSet[str]) -> list[str]:
    """The command that sets each group's limits, with a comment where they are better left off."""
    lines = []
    for name, setting in [*limits.items()][:MAX_GROUPS]:
        command = as_command(setting, program=program())
        lines.append(f"{f'{name}: ' if name else ''}{command}{f'  # {BETTER_OFF}' if name in poor else ''}")
    more = len(limits) - MAX_GROUPS
    return [*lines, *([f"and {more:,} more"] if more > 0 else [])]
