"""What the outputs of Codex's tools tell: their text, whether they failed, how long they took.

Codex writes some of it into the text that the model gets, in lines before a command's own output, or around it as
JSON; some beside the text; and some in events that name the call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from boolab.readers.lines import block_text, content_text, mapping, parse, text, whole

_HEADER: Final = re.compile(
    r"(?:(?:Exit code: (?P<code>-?\d{1,9})|Process exited with code (?P<exited>-?\d{1,9})"
    r"|Wall time: (?P<seconds>\d{1,9}(?:\.\d{1,9})?) seconds|Process running with session ID \d+|Chunk ID: \w*"
    r"|Original token count: \d+|Total output lines: \d+)(?:\n|\Z))+"
)
_ABORTED: Final = re.compile(r"(?:Wall time: [\d.]+ seconds\s+)?aborted(?: by user.*)?\s*", re.DOTALL)


def content_of(output: object) -> tuple[str, bool | None]:
    """The text of an output, and whether it failed if that is written beside it."""
    if not isinstance(output, dict):
        return content_text(output), None
    if "content" in output or "success" in output:
        good = output.get("success")
        return content_text(output.get("content")), not good if isinstance(good, bool) else None
    return block_text(output), None


def facts_of(content: str) -> tuple[bool | None, int | None]:
    r"""Whether a command failed, and how many milliseconds it took, as far as the lines before its output tell.

    Example:
        >>> facts_of("Exit code: 1\nWall time: 0.1 seconds\nOutput:\nno")
        (True, 100)
        >>> facts_of("Exit code: as you like it")
        (None, None)
    """
    if content.startswith('{"output"'):
        try:
            facts = mapping(mapping(parse(content.encode("utf-8", "surrogatepass"))).get("metadata"))
        except ValueError:
            return None, None
        code, seconds = facts.get("exit_code"), facts.get("duration_seconds")
        took = round(seconds * 1000) if isinstance(seconds, int | float) and whole(seconds) is not None else None
        return (code != 0 if isinstance(code, int) else None), took
    if _ABORTED.fullmatch(content[:200]):
        return True, None
    header = _HEADER.match(content)
    if header is None:
        return None, None
    exited, took_text = header["code"] or header["exited"], header["seconds"]
    return (
        None if exited is None else int(exited) != 0,
        None if took_text is None else round(float(took_text) * 1000),
    )


def end_of(event: Mapping[str, Any]) -> Iterator[tuple[str, tuple[bool | None, int | None]]]:
    """What an event tells of how a call ended."""
    call_id = text(event.get("call_id"))
    duration = mapping(event.get("duration"))
    seconds, nanos = whole(duration.get("secs")), whole(duration.get("nanos"))
    took = None if seconds is None else seconds * 1000 + round((nanos or 0) / 1e6)
    result = mapping(event.get("result"))
    failed = None
    if isinstance(event.get("exit_code"), int):
        failed = event["exit_code"] != 0
    elif isinstance(event.get("success"), bool):
        failed = not event["success"]
    elif "Err" in result:
        failed = True
    elif "Ok" in result:
        failed = mapping(result["Ok"]).get("isError") is True
    if call_id and (failed is not None or took is not None):
        yield call_id, (failed, took)
