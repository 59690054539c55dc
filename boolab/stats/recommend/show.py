"""A decision as a document: the answer first, then how to set it, the table, and what it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from boolab.display.document import Code, Document
from boolab.harnesses.exports.export import as_command
from boolab.harnesses.exports.values import Limits
from boolab.stats.finding import Finding
from boolab.stats.recommend.words import MAX_GROUPS


def as_document(found: Finding, verdict: Sequence[str], limits: Mapping[str, Limits], known: str = "") -> Document:
    """The finding under its verdict; `limits` are those of each group that has some, `known` is about the outcomes."""
    commands = Code("\n".join(_commands(limits)), "How to set it (TARGET is your harness):")
    title, *subtitles = verdict
    return Document(
        title=title,
        subtitles=[*subtitles, *([known] if known else [])],
        lead=[commands] if limits else [],
        table=found.table_shown(),
        paragraphs=[sentence for sentence in found.sentences if sentence not in verdict],
        notes=found.notes,
        fold="What this rests on",
    )


def _commands(limits: Mapping[str, Limits]) -> list[str]:
    """The command that sets each group's limits."""
    lines = []
    for name, setting in [*limits.items()][:MAX_GROUPS]:
        lines += [f"{name}:", f"  {as_command(setting)}"] if name else [as_command(setting)]
    more = len(limits) - MAX_GROUPS
    return [*lines, *([f"and {more:,} more"] if more > 0 else [])]
