"""Conversations as lists of messages with a `role` and a `content`: what the readers of such formats share.

Two dialects are heard, also mixed: OpenAI's (`tool_calls`, messages of role `tool`) and Anthropic's (blocks `tool_use`
and `tool_result` inside the content); see platform.openai.com/docs/api-reference/chat and
docs.anthropic.com/en/api/messages. `dialect` says from a file's beginning whose it is, so that each file belongs to one
reader only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from boolab.finish_reasons import finish_reason
from boolab.readers.drafts import Draft
from boolab.readers.lines import (
    Damage,
    Head,
    Warn,
    block_text,
    content_text,
    items,
    json_text,
    json_values,
    mapping,
    micro,
    text,
    time_ms,
    whole,
)
from boolab.readers.talk import Talk
from boolab.types import REDACTED, UNKNOWN_USAGE, Run, Usage

Dialect: TypeAlias = Literal["anthropic", "cline", "openai"]

TEXTS: Final = ("text", "input_text", "output_text")
"""The types of blocks that hold plain text."""

_ROLES: Final = ("system", "developer", "user", "assistant", "tool", "function")
_LOOKED_AT: Final = 40
_CALLS: Final = ("tool_use", "server_tool_use", "mcp_tool_use")
_BLOCKS: Final = (*_CALLS, "tool_result", "mcp_tool_result", "thinking", "redacted_thinking")
_SERVER_RESULT: Final = "_tool_result"
_FOREIGN: Final = frozenset(
    (
        "epoch",
        "eval",
        "history",
        "kwargs",
        "loglines",
        "messages_display",
        "projectHash",
        "reward_info",
        "samples",
        "schema_version",
        "sessionID",
        "simulations",
        "steps",
        "termination_reason",
        "traj",
        "trajectory",
        "trajectory_format",
    )
)
"""Keys beside `messages` that tell of another format."""

_NO_MESSAGE: Final = frozenset(("info", "message", "parentUuid", "parts", "payload", "sessionID"))
"""Keys that no message of these formats has."""

_NO_BLOCK: Final = frozenset(("tool-call", "tool-result", "toolResult", "toolUse"))
"""Types, or keys, of calls and results in the messages of Vercel's AI SDK and of Bedrock, which nobody hears here."""

_OF_AGENT: Final = frozenset(("exit_status", "mini_version", "model_stats"))
_IDS: Final = ("id", "conversation_id", "session_id", "trajectory_id", "instance_id", "task_id")
_LABELS: Final = ("success", "resolved", "passed", "reward", "score")
_TIMES: Final = ("timestamp", "ts", "created_at", "created")
_SECONDS: Final = 1e11  # a number below is too small for the milliseconds of any year after 1973
_REMINDER: Final = "<system-reminder>"
_TEXT_ACTION: Final = "```mswea_bash_command"


def dialect(head: Head) -> Dialect | None:
    """Whose messages a file holds; None if it holds none, or those of another format."""
    top = head.first
    messages: list[Any] = []
    for value in head.values:
        messages += _messages_of(value)
        if len(messages) > _LOOKED_AT:
            break
    foreign = any(_has_foreign_blocks(mapping(message)) for message in messages)
    if len(messages) > 1 and not is_message(messages[-1]):
        messages.pop()  # the head may end in the middle of it
    messages = messages[:_LOOKED_AT]
    if not messages or not all(is_message(message) for message in messages) or foreign:
        return None
    if _is_cline(head, top, messages):
        return "cline"
    if "sessionId" in top or any(_TEXT_ACTION in text(message.get("content")) for message in messages):
        return None
    return "anthropic" if _is_anthropic(top, messages) else "openai"


def _messages_of(value: object) -> Sequence[Any]:
    """The messages of one value of a file: those of a conversation, of a list of either, or the value itself."""
    if isinstance(value, list):
        nested = bool(value) and (isinstance(value[0], list) or "messages" in mapping(value[0]))
        return _messages_of(value[0]) if nested else value
    entry = mapping(value)
    if "messages" in entry:
        foreign = not _FOREIGN.isdisjoint(entry) or not _OF_AGENT.isdisjoint(mapping(entry.get("info")))
        return [None] if foreign else items(entry["messages"])
    return [message_of(entry)]


def message_of(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message; of a whole response of OpenAI's API the message in it, with what is said of it there."""
    choice = mapping(next(iter(items(entry.get("choices"))), None))
    message = mapping(choice.get("message"))
    if not message:
        return entry
    around = {name: entry[name] for name in ("model", "usage", "created") if name in entry}
    return {**around, "finish_reason": choice.get("finish_reason"), **message}


def is_message(value: object) -> bool:
    """Whether a value is a message: it has a role, and a content or calls."""
    if not isinstance(value, dict) or value.get("role") not in _ROLES or not _NO_MESSAGE.isdisjoint(value):
        return False
    content = value.get("content")
    if isinstance(content, list):
        return all(isinstance(block, str) or (isinstance(block, dict) and "type" in block) for block in content[:-1])
    return isinstance(content, str) or (content is None and ("content" in value or "tool_calls" in value))


def _has_foreign_blocks(message: Mapping[str, Any]) -> bool:
    blocks = map(mapping, items(message.get("content")))
    return any(not _NO_BLOCK.isdisjoint((*block, text(block.get("type")))) for block in blocks)


def _is_cline(head: Head, top: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> bool:
    if "messages" in top:
        return isinstance(top.get("sessionId"), str) and isinstance(top.get("version"), int)
    if not (head.values and isinstance(head.values[0], list)):
        return False
    if head.path.name == "api_conversation_history.json" or any("modelInfo" in message for message in messages):
        return True
    said = [said for message in messages for said in texts(message.get("content"))]
    return bool(said) and (said[0].startswith("<task>") or any(one.startswith("<environment_details>") for one in said))


def _is_anthropic(top: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> bool:
    openai = False
    for message in messages:
        if "stop_reason" in message or "input_tokens" in mapping(message.get("usage")):
            return True
        if any(mapping(block).get("type") in _BLOCKS for block in items(message.get("content"))):
            return True
        openai = openai or message["role"] in ("developer", "tool", "function") or "tool_calls" in message
        openai = openai or "function_call" in message
    return not openai and ("system" in top or "anthropic_version" in top)


def texts(content: object) -> list[str]:
    """The texts of a message's content, without those of other blocks."""
    if isinstance(content, str):
        return [content]
    found = []
    for block in items(content):
        if isinstance(block, str):
            found.append(block)
        elif mapping(block).get("type") in TEXTS:
            found.append(text(block.get("text")))
    return found


def read_chats(path: Path, warn: Warn, source: str) -> list[Run]:
    """The runs of a file of conversations: one a line, one message a line, one document, or a list of either.

    Raises:
        RunFormatError: if nothing in it can be read.
    """
    damage = Damage(path)
    loose = Chat(source, {}, damage)
    runs = []
    for number, value in json_values(path, damage):
        for about, messages in _conversations(value):
            chat = loose if about is None else Chat(source, about, damage)
            for message in messages:
                chat.hear(message, number)
            if about is not None:
                runs += chat.runs(cut=damage.cut)
    runs += loose.runs(cut=damage.cut)
    damage.tell(warn, readable=bool(runs))
    return _named(runs, path.stem)


def _conversations(value: object) -> Iterator[tuple[Mapping[str, Any] | None, Sequence[Any]]]:
    """The conversations in one value of a file: what is said of each, and its messages.

    A single message is a part of the conversation that the whole file is, of which nothing is said: None.
    """
    if not isinstance(value, list):
        entry = mapping(value)
        yield (entry, items(entry["messages"])) if "messages" in entry else (None, [value])
        return
    own: list[Any] = []
    for entry in value:
        if isinstance(entry, list):
            yield {}, entry
        elif isinstance(entry, dict) and "messages" in entry:
            yield entry, items(entry["messages"])
        else:
            own.append(entry)
    if own:
        yield {}, own


def _named(runs: Sequence[Run], stem: str) -> list[Run]:
    """The runs, with an id for each that no other has."""
    named = []
    seen: Counter[str] = Counter()
    for number, run in enumerate(runs, 1):
        run_id = run.run_id or (stem if len(runs) == 1 else f"{stem}/{number}")
        seen[run_id] += 1
        named.append(replace(run, run_id=run_id if seen[run_id] == 1 else f"{run_id}#{seen[run_id]}"))
    return named


class Chat:
    """One conversation in the making.

    Args:
        source: The name of the format.
        about: What the file says of it, beside its messages.
        damage: Where damaged messages are noted, and results that answer no call.
    """

    def __init__(self, source: str, about: Mapping[str, Any], damage: Damage) -> None:
        self.talk = Talk(source, damage)
        self._damage = damage
        self.about = about
        self.replies: dict[str, Draft] = {}
        system = about.get("system")
        if system:
            self.talk.says("system", content_text(system), opens=False)

    def hear(self, message: object, line: int) -> None:
        """Take one message."""
        said = message_of(mapping(message))
        if said.get("role") in _ROLES:
            hear(self.talk, said, replies=self.replies)
        else:
            self._damage.note(line, "a message without a known role")

    def runs(self, *, cut: bool) -> list[Run]:
        """The run, if anything was said; its id is empty where the file gives none."""
        if self.talk.empty:
            return []
        about = self.about
        ids = (about.get(name) for name in _IDS)
        run_id = next((str(given) for given in ids if text(given) or whole(given) is not None), "")
        return [self.talk.run(run_id, cut=cut, model=text(about.get("model")), success=label(about))]


def label(about: Mapping[str, Any]) -> bool | None:
    """Whether a conversation is said to have succeeded: by the first of the usual keys that holds a yes or a no.

    Example:
        >>> label({"reward": 1.0}), label({"score": 0.6}), label({})
        (True, None, None)
    """
    for name in _LABELS:
        value = about.get(name)
        if isinstance(value, bool | int | float) and value in (0, 1):
            return bool(value)
    return None


def is_genuine(said: str) -> bool:
    """Whether a user's text is one's own, and no reminder of the harness."""
    return not said.lstrip().startswith(_REMINDER)


def hear(
    talk: Talk,
    message: Mapping[str, Any],
    *,
    time: int | None = None,
    replies: dict[str, Draft] | None = None,
    genuine: Callable[[str], bool] = is_genuine,
) -> Draft | None:
    """Take one message.

    Args:
        talk: The run in the making.
        message: The message, in either dialect.
        time: When it came, if that is not to be taken from it.
        replies: The responses so far, by the ids of their messages: messages of one id are one response.
        genuine: Whether a user's text is one's own.

    Returns:
        The response, if it is one.
    """
    role, content = message.get("role"), message.get("content")
    time = message_time(message) if time is None else time
    if role == "assistant":
        return reply(talk, message, time, {} if replies is None else replies)
    if role in ("tool", "function"):
        call_id = text(message.get("tool_call_id")) or _waiting(talk)
        talk.gives(call_id, content_text(content), is_error=None, time=time)
    elif role == "user":
        _user(talk, content, time, genuine)
    else:
        talk.says("system", content_text(content), opens=False, time=time)
    return None


def message_time(message: Mapping[str, Any]) -> int | None:
    """When a message came, if it says so: in milliseconds since 1970."""
    for name in _TIMES:
        stamp = message.get(name)
        if stamp is not None:
            seconds = isinstance(stamp, int | float) and stamp < _SECONDS
            return time_ms(stamp, 0.001 if seconds else 1.0)
    return None


def _user(talk: Talk, content: object, time: int | None, genuine: Callable[[str], bool]) -> None:
    """A user's message: results, or what somebody said. What stands beside results opens no turn."""
    said = []
    answered = False
    for block in [content] if isinstance(content, str) else items(content):
        part = mapping(block)
        if part.get("type") == "tool_result":
            answered = True
            answer(talk, part, time)
        else:
            said.append(block_text(block))
    if said or not answered:
        opens = not answered and (not said or any(genuine(one) for one in said))
        talk.says("user", "\n".join(said), opens=opens, time=time)


def answer(talk: Talk, block: Mapping[str, Any], time: int | None, *, failed: bool = False) -> None:
    """A result as a block of Anthropic's: without `is_error` it is none, which is the API's default."""
    flag = block.get("is_error")
    error = flag if isinstance(flag, bool) else failed
    talk.gives(text(block.get("tool_use_id")), result_text(block.get("content")), is_error=error, time=time)


def result_text(content: object) -> str:
    """The text of a result: that of its blocks, or the JSON of what else it is."""
    if isinstance(content, list) and any(isinstance(block, dict) and "type" not in block for block in content):
        return json_text(content)
    return content_text(content)


def _waiting(talk: Talk) -> str:
    """The id of the first call of the last response that has no result: the one that a result without an id answers."""
    if talk.drafts and None in talk.drafts[-1].results:
        return talk.drafts[-1].calls[talk.drafts[-1].results.index(None)].id
    return ""


def reply(
    talk: Talk, message: Mapping[str, Any], time: int | None, replies: dict[str, Draft], model: str = ""
) -> Draft:
    """An assistant's message, in either dialect: a response, or another part of one; see `hear`."""
    key = text(message.get("id"))
    draft = replies.get(key) if key else None
    if draft is None:
        draft = talk.replies(time, model=model or text(message.get("model")))
        if key:
            replies[key] = draft
    else:
        talk.goes_on(draft, time)
    content = message.get("content")
    for block in [content] if isinstance(content, str) else items(content):
        _take(talk, draft, block, time)
    for name in ("reasoning_content", "reasoning"):
        thought = text(message.get(name))
        if thought:
            draft.reasoning.append(thought)
            break
    refusal = text(message.get("refusal"))
    draft.text += [refusal] if refusal else []
    for call in items(message.get("tool_calls")):
        _ask(talk, draft, mapping(call))
    legacy = mapping(message.get("function_call"))
    if legacy:
        talk.asks(draft, "", text(legacy.get("name")), legacy.get("arguments", REDACTED))
    draft.finish_reason = (
        finish_reason(message.get("stop_reason")) or finish_reason(message.get("finish_reason")) or draft.finish_reason
    )
    if isinstance(message.get("usage"), dict):
        draft.usage = usage_of(message["usage"])
    return draft


def _ask(talk: Talk, draft: Draft, call: Mapping[str, Any]) -> None:
    """A call as OpenAI writes it; some writers leave out the `function` around its name and arguments."""
    custom = mapping(call.get("custom"))
    function = mapping(call.get("function")) or custom or call
    arguments = function.get("input" if custom else "arguments", REDACTED)
    talk.asks(draft, text(call.get("id")), text(function.get("name")), arguments)


def _take(talk: Talk, draft: Draft, block: object, time: int | None) -> None:
    """One block of a response."""
    part = mapping(block)
    kind = text(part.get("type"))
    if kind in _CALLS:
        talk.asks(draft, text(part.get("id")), text(part.get("name")), part.get("input", REDACTED))
    elif kind.endswith(_SERVER_RESULT):
        given = part.get("content")
        failed = part.get("is_error") is True or text(mapping(given).get("type")).endswith("_error")
        talk.gives(text(part.get("tool_use_id")), content_text(given), is_error=failed, time=time)
    elif kind in ("thinking", "reasoning"):
        thought = text(part.get("thinking")) or text(part.get("text"))
        draft.reasoning += [thought] if thought else []
    elif kind == "redacted_thinking":
        pass
    elif kind == "refusal":
        draft.text.append(text(part.get("refusal")))
    else:
        said = block_text(block)
        draft.text += [said] if said.strip() else []


def usage_of(usage: Mapping[str, Any]) -> Usage:
    """What a response consumed, as either provider counts it: Anthropic's input leaves out what the cache gave.

    Example:
        >>> usage_of({"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 5}})[:3]
        (9, 4, 5)
        >>> usage_of({"input_tokens": 9, "output_tokens": 4, "cache_read_input_tokens": 5})[:3]
        (14, 4, 5)
    """
    cost = micro(usage.get("cost"))
    for entered, left in (("prompt", "completion"), ("input", "output")):
        into = mapping(usage.get(f"{entered}_tokens_details"))
        out = mapping(usage.get(f"{left}_tokens_details"))
        given, made = whole(usage.get(f"{entered}_tokens")), whole(usage.get(f"{left}_tokens"))
        if given is None and made is None:
            continue
        cached = whole(into.get("cached_tokens"))
        if entered == "input" and cached is None:
            cached = whole(usage.get("cache_read_input_tokens"))
            written = whole(usage.get("cache_creation_input_tokens"))
            given = None if given is None else given + (cached or 0) + (written or 0)
        return Usage(given, made, cached, whole(out.get("reasoning_tokens")), cost)
    return UNKNOWN_USAGE._replace(cost=cost)
