"""Chat JSON Lines in OpenAI's form: `{"messages": [{role, content, tool_calls?}]}`, a conversation a line.

Also one message a line, one document, a bare list of messages, and whole responses (`choices`); see
platform.openai.com/docs/api-reference/chat. `boolab.readers.chat` hears the messages.

Each assistant message is a step. `tool_calls` hold their arguments as a text or, against the API, as an object; the
older `function_call` has no id and is answered by the next message of role `function`. A result without a
`tool_call_id` answers the first call that waits. Roles `system` and `developer` are no turns; each `user` message opens
one.

Whether a call failed is not said, so errors are unknown. `usage` and `finish_reason` are read where a message or a
response carries them. Labels are `success`, `resolved`, `passed`, `reward` or `score` beside `messages`, if that is a
yes or a no. There are no limits; times only where a writer added a `timestamp`.

Files of other formats that also hold `messages` are told apart by what stands beside them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from boolab.errors import RunFormatError
from boolab.readers.chat import dialect, read_chats
from boolab.readers.lines import Head, Warn, warn_reader
from boolab.types import Run

NAME: Final = "openai_chat"
SCOPE: Final = "turn"
SUFFIXES: Final = (".jsonl", ".json")
PLACES: Final = ()
LOOKED_FOR: Final = 'JSON or JSON lines with "messages", or of messages with a "role" and a "content"'

_BEGINNING: Final = 65_536


def sniff(head: Head) -> bool:
    """Whether this holds conversations in OpenAI's form, and no other format's."""
    return dialect(head) == "openai" or _is_request(head)


def read(path: Path, warn: Warn = warn_reader) -> list[Run]:
    """The runs of one file.

    Raises:
        RunFormatError: if nothing in it can be read.
    """
    with path.open("rb") as file:
        if _is_request(Head(file.read(_BEGINNING), path)):
            msg = (
                "one request of a model with its response, as OpenHands' SDK logs them: it repeats the messages of the "
                "requests before it, so that a folder of them would count each step many times; the events of the "
                "conversation hold the run"
            )
            raise RunFormatError(msg, path=path, line=1)
    return read_chats(path, warn, NAME)


def _is_request(head: Head) -> bool:
    return {"messages", "kwargs"} <= head.first.keys()
