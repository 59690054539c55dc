"""Conversations as in Anthropic's Messages API: `{"messages": [{role, content: [blocks]}], "model"?, "system"?}`.

One conversation a document, one a line, a list of them, or one message (or whole API response) a line or list entry.
See docs.anthropic.com/en/api/messages. `boolab.logs.readers._chat` reads the messages.

- Each assistant message is a step; those with the same `id` are one, because a response may be written block by block.
- `tool_use` blocks are calls. `tool_result` blocks in the next user message are their results; without `is_error` a
  result is no error, which is the API's default. Results of the provider's tools (`server_tool_use`) are in the same
  message.
- Text beside results in a user message opens no turn: harnesses put their reminders there.
- `usage` and `stop_reason` are those of whole API responses. Input tokens include those written to and read from the
  cache. Times are known only if the writer added a `timestamp`.
- Labels are `success`, `resolved`, `passed`, `reward` or `score` beside `messages`, if their value is yes or no.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from boolab.core.run import Run
from boolab.io.json_input import Damage
from boolab.logs.fields import Head, LineLog, read_followed
from boolab.logs.readers._chat import dialect, follow_chats

NAME: Final = "anthropic_messages"
SCOPE: Final = "turn"
SUFFIXES: Final = (".json", ".jsonl")
PLACES: Final = ()
LOOKED_FOR: Final = '"messages" (or lines of them) with content blocks such as tool_use, or with a "system" beside them'


def sniff(head: Head) -> bool:
    """Whether this holds conversations with Anthropic's blocks."""
    return dialect(head) == "anthropic"


def read(path: Path, damage: Damage) -> list[Run]:
    """The runs of one file."""
    return read_followed(path, damage, follow)


def follow(path: Path, damage: Damage) -> LineLog:
    """The conversations or messages of a file, as they are written."""
    return follow_chats(path, damage, NAME)
