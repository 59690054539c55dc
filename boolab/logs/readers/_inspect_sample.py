"""The events and the attachments of a sample of Inspect."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from boolab.core.types import Image
from boolab.io.json_input import items, mapping, text
from boolab.logs.fields import block_text, epoch_ms, first_choice
from boolab.logs.images import images_of

_ATTACHED: Final = ("attachment://", "tc://")
_MAX_REPEATS: Final = 16
"""How often all attached texts of a sample may replace references; further references stay."""
_MIN_CHARS: Final = 2**20
"""How many characters may replace references in any sample."""
_MAX_REFERENCE: Final = 128
"""The longest reference, in characters."""
_MAX_DEPTH: Final = 200
"""Values are not nested deeper than this: the parser refuses them."""


class SampleEvents:
    """The events of a sample about the agent's responses and tools."""

    def __init__(self, events: Sequence[Any], attached: Attachments) -> None:
        self.models: list[Mapping[str, Any]] = []
        """The model events, without those of scorers. One without a start was `started` by the event before it."""
        self.tools: defaultdict[str, deque[Mapping[str, Any]]] = defaultdict(deque)
        self.begun: int | None = None
        self.limit: Mapping[str, Any] = {}
        """The last event of a limit, if no response came after it."""
        self._by_id: defaultdict[str, deque[int]] = defaultdict(deque)
        self._by_key: defaultdict[object, deque[int]] | None = None
        self._attached = attached
        self._next = 0
        self._scan(events)

    def _scan(self, events: Sequence[Any]) -> None:
        scoring: set[str] = set()
        depth = 0
        last_time: object = None
        for item in events:
            event = mapping(item)
            kind = event.get("event")
            if self.begun is None:
                self.begun = epoch_ms(event.get("timestamp"))
            if kind == "span_begin":
                scorer = event.get("type") in ("scorer", "scorers") or event.get("name") == "scorers"
                if scorer or text(event.get("parent_id")) in scoring:
                    scoring.add(text(event.get("id")))
            elif kind == "step" and event.get("type") == "scorer":
                depth += 1 if event.get("action") == "begin" else -1
            elif kind == "tool":
                self.tools[text(event.get("id"))].append(event)
            elif kind == "sample_limit":
                self.limit = event
            elif kind == "model" and depth <= 0 and text(event.get("span_id")) not in scoring:
                self._by_id[text(response_of(event).get("id"))].append(len(self.models))
                self.models.append(event if event.get("completed") else {**event, "started": last_time})
                self.limit = {}
            last_time = event.get("timestamp")

    def find_event(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """The model event of a message: by its id, else the next with the same content."""
        name = text(message.get("id"))
        waiting = self._by_id.get(name) if name else None
        if not waiting:
            waiting = self._with_content(message)
            while waiting and waiting[0] < self._next:
                waiting.popleft()
        if not waiting:
            return {}
        index = waiting.popleft()
        self._next = max(self._next, index + 1)
        return self.models[index]

    def _with_content(self, message: Mapping[str, Any]) -> deque[int] | None:
        if self._by_key is None:
            self._by_key = defaultdict(deque)
            for index, event in enumerate(self.models):
                self._by_key[self._key(response_of(event))].append(index)
        return self._by_key.get(self._key(message))

    def _key(self, message: Mapping[str, Any]) -> object:
        calls = tuple(text(mapping(call).get("id")) for call in items(message.get("tool_calls")))
        return calls, self._attached.content(message.get("content"))

    def unused_events(self) -> Iterator[Mapping[str, Any]]:
        """The events with a response of the same agent, after the last event that was used."""
        if not self._next:
            return
        span = self.models[self._next - 1].get("span_id")
        for event in self.models[self._next :]:
            if event.get("span_id") == span and response_of(event) and not event.get("error"):
                yield event


def response_of(event: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(first_choice(event.get("output")).get("message"))


class Attachments:
    """The attachments of a sample: long texts, to which its messages refer."""

    def __init__(self, sample: Mapping[str, Any]) -> None:
        old = mapping(mapping(sample.get("transcript")).get("content"))
        self._texts = {**old, **mapping(sample.get("attachments"))}
        size = sum(len(value) for value in self._texts.values() if isinstance(value, str))
        self._left = max(_MIN_CHARS, _MAX_REPEATS * size)
        """How many more characters may replace references."""

    def resolve(self, content: str) -> str:
        """The text, or the attachment that it refers to, unless too much was replaced, which would fill the memory."""
        if self._texts and len(content) < _MAX_REFERENCE and content.startswith(_ATTACHED):
            attachment = self._texts.get(content.partition("://")[2])
            if isinstance(attachment, str) and len(attachment) <= self._left:
                self._left -= len(attachment)
                return attachment
        return content

    def content(self, content: object) -> str:
        """The text of a message's content without reasoning; other blocks are named in brackets."""
        if isinstance(content, str):
            return self.resolve(content)
        blocks = [block for block in items(content) if mapping(block).get("type") != "reasoning"]
        return "\n".join(self.resolve(block_text(block)) for block in blocks)

    def images(self, content: object) -> tuple[Image, ...]:
        """The images of a message's content, which are attachments too."""
        return images_of(
            [
                {**block, "image": self.resolve(text(block["image"]))} if "image" in block else block
                for block in map(mapping, items(content))
            ]
        )

    def resolve_parts(self, value: object, depth: int = 0) -> object:
        if isinstance(value, str):
            return self.resolve(value)
        if depth > _MAX_DEPTH:
            return value
        if isinstance(value, dict):
            return {key: self.resolve_parts(item, depth + 1) for key, item in value.items()}
        return [self.resolve_parts(item, depth + 1) for item in value] if isinstance(value, list) else value
