"""Conversations as Anthropic's Messages API has them: `{"messages": [{role, content: [blocks]}], "model"?, "system"?}`.

One conversation a document, one a line, a list of them, or one message (or whole API response) a line or list entry.
See docs.anthropic.com/en/api/messages. `boolab.readers.chat` hears the messages.

Each assistant message is a step; those that share an `id` are one, because a response may be written block by block.
`tool_use` blocks are calls, `tool_result` blocks in the next user message their results. Without `is_error` a result is
no error, which is the API's default. Tools that the provider runs itself (`server_tool_use`) have their results in the
same message. What stands beside results in a user message opens no turn: there harnesses put their reminders.

`usage` and `stop_reason` are read where messages are whole API responses; input tokens are `input_tokens` and those
written to and read from the cache. Labels are `success`, `resolved`, `passed`, `reward` or `score` beside `messages`,
if that is a yes or a no. There are no limits; times only where a writer added a `timestamp`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from boolab.readers.chat import dialect, read_chats
from boolab.readers.lines import Head, Warn, warn_reader
from boolab.types import Run

NAME: Final = "anthropic_messages"
SCOPE: Final = "turn"
SUFFIXES: Final = (".json", ".jsonl")
PLACES: Final = ()
LOOKED_FOR: Final = '"messages" (or lines of them) with content blocks such as tool_use, or with a "system" beside them'


def sniff(head: Head) -> bool:
    """Whether this holds conversations with Anthropic's blocks."""
    return dialect(head) == "anthropic"


def read(path: Path, warn: Warn = warn_reader) -> list[Run]:
    """The runs of one file.

    Raises:
        RunFormatError: if nothing in it can be read.
    """
    return read_chats(path, warn, NAME)
