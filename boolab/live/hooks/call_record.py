"""What a journal keeps of a call: numbers in place of its arguments and its result.

Equal texts of one session have one number. The numbers are hashes by a random key of the session, so that no reader
can try out which text one is of, and the numbers of two sessions have nothing in common.
"""

from __future__ import annotations

import json

from boolab.core.rejections import is_rejection

ID_CHARS = 80
"""An id or the name of a tool that is longer is kept as a hash of it."""
FIELDS = ("id", "tool", "sorted", "ordered", "result", "word")
"""The values of a call. `id` is "" if it has none; `sorted` and `ordered` are of its arguments, with their keys sorted
and in their order."""
REFUSED = "<tool_use_error>"
"""How the result begins of a call that failed before a hook saw it: no such tool, or arguments that do not fit."""


def call_id(value: object) -> str | None:
    """The id of a call as a journal has it.

    Returns the id; None if it is none, so that two events cannot be known to be of one call.
    """
    return _name(value) if isinstance(value, str) and value else None


def call_records(calls: object, key: bytes) -> list[list[str | int]]:
    """What a journal keeps of the calls of a response.

    Returns for each call the values of `FIELDS`; a call that is there twice counts once.

    Example:
        >>> one = {"tool_use_id": "1", "tool_name": "ls", "tool_input": {"a": 1, "b": 2}, "tool_response": "x"}
        >>> two = {"tool_use_id": "2", "tool_name": "ls", "tool_input": {"b": 2, "a": 1}, "tool_response": "x"}
        >>> first, second = call_records([one, two, one], b"key")
        >>> first[2] == second[2], first[3] == second[3], first[4] == second[4]
        (True, False, True)
    """
    if not isinstance(calls, list):
        msg = "the event has no list tool_calls"
        raise ValueError(msg)  # noqa: TRY004 - a value of another form
    made: list[list[str | int]] = []
    ids = set()
    for call in calls:
        name = call_id(call.get("tool_use_id")) if isinstance(call, dict) else None
        if isinstance(call, dict) and (name is None or name not in ids):
            ids.add(name)
            made.append([name or "", *_values(call, key)])
    return made


def _values(call: dict[str, object], key: bytes) -> list[str | int]:
    arguments, response = call.get("tool_input"), call.get("tool_response")
    return [
        _name(str(call.get("tool_name", ""))),
        _number(_text(arguments, sort=True), key),
        _number(_text(arguments), key),
        _number(response if isinstance(response, str) else _text(response), key),
        _word_of(response),
    ]


def _word_of(response: object) -> str:
    """The word for a call that Claude Code itself answered, by the text of the result: `refused`, `denied`, or ""."""
    block = response[0] if isinstance(response, list) and response else response
    text = block.get("text") if isinstance(block, dict) else block
    if not isinstance(text, str):
        return ""
    if text.startswith(REFUSED):
        return "refused"
    return "denied" if is_rejection("claude_code", text, is_error=None) else ""


def _name(name: str) -> str:
    if len(name) <= ID_CHARS:
        return name
    from hashlib import blake2b  # it takes long to import, and most processes need none

    return "x" + blake2b(name.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _text(value: object, *, sort: bool = False) -> str:
    return json.dumps(value, sort_keys=sort, separators=(",", ":"), ensure_ascii=False)


def _number(text: str, key: bytes) -> int:
    """A number that stands for a text."""
    from hashlib import blake2b

    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6, key=key).digest(), "big")
