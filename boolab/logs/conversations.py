"""Conversations in memory: lists of messages, read by the functions that read those in files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from boolab.core.run import Run
from boolab.errors import RunFormatError, SettingError
from boolab.frames.labels import flag_of
from boolab.io.checks import repr_of
from boolab.io.json_input import JSON, Damage, Warn, json_text
from boolab.logs.checks import check_file
from boolab.logs.fields import make_unique
from boolab.logs.from_table import plain_json
from boolab.logs.readers._chat import dialect_of, follow_chats

CONVERSATION_FORMS: Final = (
    "a conversation (a list of messages with a role and a content, in OpenAI's or Anthropic's form, or "
    "{'messages': [...], 'success': True}), or a list of conversations"
)
_FORMATS: Final = {"openai": "openai_chat", "cline": "openai_chat", "anthropic": "anthropic_messages"}
"""By dialect. What begins like a task of Cline is a conversation like others where it is no file of Cline."""
_FLAGS: Final = ("success", "resolved", "passed")
_ID_BYTES: Final = 6


def read_conversations(values: Sequence[object], warn: Warn, name: str | None = None) -> list[Run]:
    """The runs of conversations in memory, in their order; their ids are on record, or digests."""
    if name is not None and name not in _FORMATS.values():
        formats = " and ".join(dict.fromkeys(_FORMATS.values()))
        raise SettingError(f"format={name!r}: messages in memory are of {formats}")
    runs: list[Run] = []
    faults: list[RunFormatError] = []
    id_counts: Counter[str] = Counter()
    for number, value in enumerate(_conversations(values), 1):
        damage = Damage(f"conversation {number:,}")
        try:
            new = _read(value, damage, warn, name)
        except RunFormatError as error:
            faults.append(error)
            continue
        if not new:
            warn(f"{damage.path}: it has no message of a user or an assistant; skipped")
        runs += [replace(run, run_id=make_unique(run.run_id, id_counts), path=None) for run in new]
    if faults and not runs:
        raise faults[0]
    for fault in faults:
        warn(f"{fault}; the conversation was skipped")
    return runs


def _conversations(values: Sequence[object]) -> list[JSON]:
    """Each conversation as JSON: those of a list, or the one whose messages it holds."""
    chats = []
    for number, value in enumerate(values, 1):
        if isinstance(value, Run):
            raise SettingError(f"item {number:,} of the list is a run, and needs no reading; {_expected_text()}")
        try:
            data = plain_json(value)
        except ValueError as error:
            raise SettingError(
                f"item {number:,} of the list cannot be read as JSON ({error}); {_expected_text()}"
            ) from None
        if not isinstance(data, dict | list):
            raise SettingError(f"item {number:,} of the list is {repr_of(value)}; {_expected_text()}")
        chats.append(data)
    return [chats] if chats and all(isinstance(data, dict) and "messages" not in data for data in chats) else chats


def _expected_text() -> str:
    return f"expected {CONVERSATION_FORMS}"


def _read(value: JSON, damage: Damage, warn: Warn, name: str | None) -> list[Run]:
    messages = value.get("messages") if isinstance(value, dict) else value
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise SettingError(f"{damage.path} is {repr_of(value)}; {_expected_text()}")
    form = name or _FORMATS.get(dialect_of([value]) or "")
    if form is None and messages:
        keys = ", ".join(map(str, messages[0])) or "none"
        msg = f"its messages are in no known form (the first has the keys {keys}); {_expected_text()}"
        raise RunFormatError(msg, path=damage.path)
    record = value if isinstance(value, dict) else {"messages": value}
    flags = {key: flag_of(record[key], f"of {damage.path} ({key})") for key in _FLAGS if key in record}
    log = follow_chats(Path(f"conversation-{_digest(value)}"), damage, form or "openai_chat")
    log.take(1, {**record, **flags})
    runs = log.runs()
    damage.inconsistencies += check_file(runs, damage)
    damage.report(warn, readable=bool(runs))
    return runs


def _digest(value: Any) -> str:  # noqa: ANN401 - it is JSON
    return blake2b(json_text(value).encode("utf-8", "surrogatepass"), digest_size=_ID_BYTES).hexdigest()
