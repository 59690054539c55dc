"""Conversations as lists of messages with a `role` and a `content`: shared by the readers of such formats.

There are two dialects, which may be mixed: OpenAI's (`tool_calls`, messages of the role `tool`) and Anthropic's (blocks
`tool_use` and `tool_result` in the content); see platform.openai.com/docs/api-reference/chat and
docs.anthropic.com/en/api/messages. `dialect` finds it at the beginning of a file, so that one reader matches each file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from boolab.core.finish_reasons import finish_reason
from boolab.core.run import Run
from boolab.core.text import count
from boolab.core.types import REDACTED, UNKNOWN_USAGE, Usage
from boolab.errors import RunFormatError
from boolab.io.json_input import Damage, items, json_text, mapping, micro, text, whole
from boolab.logs.builder import RunBuilder
from boolab.logs.fields import (
    Head,
    LineLog,
    all_input,
    block_text,
    blocks_of,
    content_text,
    effort_of,
    first_choice,
    make_unique,
    name_or_none,
    reward_of,
    scores_of,
    stem_of,
    time_ms,
)
from boolab.logs.images import images_of
from boolab.logs.limit_answers import limit_answer
from boolab.logs.snapshots import last_states
from boolab.logs.step_builder import StepBuilder, openai_arguments

Dialect: TypeAlias = Literal["anthropic", "cline", "openai"]

TEXTS: Final = ("text", "input_text", "output_text")
"""The types of blocks that hold plain text."""

_ROLES: Final = ("system", "developer", "user", "assistant", "tool", "function")
MAX_MESSAGES: Final = 40
_CALLS: Final = ("tool_use", "server_tool_use", "mcp_tool_use")
_BLOCKS: Final = (*_CALLS, "tool_result", "mcp_tool_result", "thinking", "redacted_thinking")
_CACHE_WRITES: Final = ("cache_write_tokens", "cache_creation_tokens")
_SERVER_RESULT: Final = "_tool_result"
_FOREIGN: Final = frozenset((
    "epoch", "eval", "history", "kwargs", "loglines", "messages_display", "pipeline_name", "projectHash", "reward_info",
    "samples", "schema_version", "sessionID", "simulations", "steps", "termination_reason", "traj", "trajectory",
    "trajectory_format",
))  # fmt: skip
"""Keys beside `messages` that only other formats have."""

_NO_MESSAGE: Final = frozenset(("info", "message", "parentUuid", "parts", "payload", "sessionID"))
"""Keys that no message of these formats has."""

_NO_BLOCK: Final = frozenset(("tool-call", "tool-result", "toolResult", "toolUse"))
"""Types, or keys, of calls and results in the messages of Vercel's AI SDK and of Bedrock, which are not read."""

_OF_AGENT: Final = frozenset(("exit_status", "mini_version", "model_stats"))
_IDS: Final = ("id", "conversation_id", "session_id", "trajectory_id", "run_id", "instance_id", "task_id")
_SESSION_IDS: Final = ("conversation_id", "session_id", "trajectory_id")
"""Those of one conversation; the others may be a task's, of which there are several attempts."""
_SCORES: Final = ("reward", "score")
_LABELS: Final = ("success", "resolved", "passed", "reward", "score")
_COUNTS: Final = ("message_count", "num_messages", "n_messages")
_TIMES: Final = ("timestamp", "ts", "created_at", "created")
MAX_SECONDS: Final = 1e11  # a larger number is milliseconds, of a year after 1973
_REMINDER: Final = "<system-reminder>"
_TEXT_ACTION: Final = "```mswea_bash_command"


def dialect(head: Head) -> Dialect | None:
    """The dialect of a file's messages; None if it has none, or those of another format."""
    return head.compute_once(_dialect)


def _dialect(head: Head) -> Dialect | None:
    return dialect_of(head.values, head.path.name)


def dialect_of(values: Sequence[Any], name: str = "") -> Dialect | None:
    """The dialect of conversations or messages; None if they are none. `name` is that of their file."""
    top = mapping(values[0]) if values else {}
    messages: list[Any] = []
    for value in values:
        messages += _messages_of(value)
        if len(messages) > MAX_MESSAGES:
            break
    blocks = [mapping(block) for message in messages for block in items(mapping(message).get("content"))]
    foreign = any(not _NO_BLOCK.isdisjoint((*block, text(block.get("type")))) for block in blocks)
    if len(messages) > 1 and not is_message(messages[-1]):
        messages.pop()  # the head may end in the middle of it
    messages = messages[:MAX_MESSAGES]
    if not messages or not all(is_message(message) for message in messages) or foreign:
        return None
    if _is_cline(values, name, messages):
        return "cline"
    if "sessionId" in top or any(_TEXT_ACTION in text(message.get("content")) for message in messages):
        return None
    return "anthropic" if _is_anthropic(top, messages) else "openai"


def _messages_of(value: object) -> Sequence[Any]:
    """The messages of a value: a conversation's, those of a list of conversations, or the value itself."""
    if isinstance(value, list):
        nested = bool(value) and (isinstance(value[0], list) or "messages" in mapping(value[0]))
        return _messages_of(value[0]) if nested else value
    entry = mapping(value)
    if "messages" in entry:
        foreign = not _FOREIGN.isdisjoint(entry) or not _OF_AGENT.isdisjoint(mapping(entry.get("info")))
        return [None] if foreign else items(entry["messages"])
    return [message_of(entry)]


def message_of(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message; of a whole response of OpenAI's API the message in it, with the facts of the response."""
    choice = first_choice(entry)
    message = mapping(choice.get("message"))
    if not message:
        return entry
    names = ("id", "model", "usage", "created", "service_tier")
    around = {name: entry[name] for name in names if name in entry}
    return {**around, "finish_reason": choice.get("finish_reason"), **message}


def is_message(value: object) -> bool:
    """Whether a value is a message: it has a role, and a content or calls."""
    if not isinstance(value, dict) or value.get("role") not in _ROLES or not _NO_MESSAGE.isdisjoint(value):
        return False
    content = value.get("content")
    if isinstance(content, list):
        return all(isinstance(block, str) or (isinstance(block, dict) and "type" in block) for block in content[:-1])
    return isinstance(content, str) or (content is None and ("content" in value or "tool_calls" in value))


def _is_cline(values: Sequence[Any], name: str, messages: Sequence[Mapping[str, Any]]) -> bool:
    top = mapping(values[0])
    if "messages" in top:
        return isinstance(top.get("sessionId"), str) and isinstance(top.get("version"), int)
    if not isinstance(values[0], list):
        return False
    if name == "api_conversation_history.json" or any("modelInfo" in message for message in messages):
        return True
    content = [*chain.from_iterable(texts(message.get("content")) for message in messages)]
    return bool(content) and (
        content[0].startswith("<task>") or any(part.startswith("<environment_details>") for part in content)
    )


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
    parts = []
    for block in items(content):
        if isinstance(block, str):
            parts.append(block)
        elif mapping(block).get("type") in TEXTS:
            parts.append(text(block.get("text")))
    return parts


def follow_chats(path: Path, damage: Damage, source: str) -> LineLog:
    """The conversations or messages of a file, as they are written."""
    loose = Chat(source, {}, damage)
    complete: list[Run] = []

    def take(number: int, value: object) -> None:
        for facts, messages in _conversations(value):
            chat = loose if facts is None else Chat(source, facts, damage)
            for message in messages:
                chat.take(message, number)
            if facts is not None:
                complete.extend(chat.runs())

    def runs() -> list[Run]:
        all_runs = [*complete, *loose.runs()]
        latest = last_states(all_runs)
        if len(latest) < len(all_runs):
            states = count(len(all_runs) - len(latest), "conversation")
            remark = f"{states} of it are earlier states of others in it, and counted once"
            damage.remarks += [remark] if remark not in damage.remarks else []
        id_counts: Counter[str] = Counter()
        ids = [
            run.run_id or (stem_of(path) if len(latest) == 1 else f"{stem_of(path)}/{n}")
            for n, run in enumerate(latest, 1)
        ]
        ids = [make_unique(run_id, id_counts) for run_id in ids]
        return [run if run.run_id == name else replace(run, run_id=name) for run, name in zip(latest, ids, strict=True)]

    return LineLog(damage, take, runs)


def _conversations(value: object) -> Iterator[tuple[Mapping[str, Any] | None, Sequence[Any]]]:
    """The facts and the messages of each conversation in a value. Single messages, of the file's own, have no facts."""
    if not isinstance(value, list):
        entry = mapping(value)
        yield (entry, items(entry["messages"])) if "messages" in entry else (None, [value])
        return
    messages: list[Any] = []
    for entry in value:
        if isinstance(entry, list):
            yield {}, entry
        elif isinstance(entry, dict) and "messages" in entry:
            yield entry, items(entry["messages"])
        else:
            messages.append(entry)
    if messages:
        yield {}, messages


class Chat:
    """Builds the run of one conversation. `about` are its facts, beside its messages."""

    def __init__(self, source: str, facts: Mapping[str, Any], damage: Damage) -> None:
        self.builder = RunBuilder(source, damage)
        self._damage = damage
        self._taken = 0
        self._call_keys: list[str] = []
        """The keys of the first call."""
        self._misplaced = 0
        """How many calls stand in messages of the user."""
        self.about = facts
        self.builder.effort = effort_of(facts.get("reasoning_effort"), facts.get("reasoning"))
        if system := facts.get("system"):
            self.builder.add_message("system", content_text(system), opens_turn=False)

    def take(self, value: object, line: int) -> None:
        """Add one message, in either dialect."""
        message = message_of(mapping(value))
        role, content, time = message.get("role"), message.get("content"), message_time(message)
        if role not in _ROLES:
            self._damage.note(line, "a message without a known role")
            return
        self._taken += 1
        if role == "assistant":
            self._call_keys = self._call_keys or [*mapping(next(iter(items(message.get("tool_calls"))), None))]
            add_reply(self.builder, message, time)
        elif role in ("tool", "function"):
            call_id = text(message.get("tool_call_id")) or _first_open_call(self.builder)
            images = images_of(content)
            self.builder.add_result(call_id, content_text(content), is_error=None, time=time, images=images)
        elif role == "user":
            blocks = sum(mapping(block).get("type") in _CALLS for block in items(content))
            self._misplaced += blocks + len(items(message.get("tool_calls")))
            add_user(self.builder, content, time)
        else:
            self.builder.add_message("system", content_text(content), opens_turn=False, time=time)

    def _refuse_nameless_calls(self) -> None:
        """Raise an error if no call has a name: they are of a dialect that is not read."""
        calls = [*chain.from_iterable(step.calls for step in self.builder.steps)]
        if calls and not any(call.name for call in calls):
            keys = ", ".join(self._call_keys) or "none"
            msg = (
                f"{count(len(calls), 'call')}, none with a name as in OpenAI's or Anthropic's API (the first has "
                f"the keys {keys}): a dialect that is not read"
            )
            raise RunFormatError(msg, path=self._damage.path)

    def runs(self) -> list[Run]:
        """The run, unless it is empty. Its id is empty if the file has none."""
        if self.builder.is_empty:
            return []
        self._refuse_nameless_calls()
        facts = self.about
        if self._misplaced:
            self.builder.totals.compare("messages of the user", "calls", self._misplaced, 0)
        for name in _COUNTS:
            self.builder.totals.compare(name, "messages", whole(facts.get(name)), self._taken)
        ids = (facts.get(name) for name in _IDS)
        run_id = next((str(value) for value in ids if text(value) or whole(value) is not None), "")
        last = self.builder.steps[-1] if self.builder.steps else None
        limit = None if last is None or last.calls else limit_answer("\n".join(last.text))
        return [
            self.builder.build(
                run_id,
                None if limit is None else limit.stop(self.builder.stop),
                model=text(facts.get("model")),
                log_id=next(filter(None, (text(facts.get(name)) for name in _SESSION_IDS)), ""),
                success=label(facts),
                scores=scores_of({name: facts.get(name) for name in _SCORES}),
                limits=None if limit is None else limit.limits,
            )
        ]


def label(about: Mapping[str, Any]) -> bool | None:
    """The label of a conversation: the first of the usual keys with a value of yes or no.

    Example:
        >>> label({"reward": 1.0}), label({"score": 0.6}), label({})
        (True, None, None)
    """
    for name in _LABELS:
        value = reward_of(about.get(name))
        if value in {0, 1}:
            return bool(value)
    return None


def message_time(message: Mapping[str, Any]) -> int | None:
    """The time of a message in milliseconds since 1970; None if it has none."""
    for name in _TIMES:
        stamp = message.get(name)
        if stamp is not None:
            seconds = isinstance(stamp, int | float) and stamp < MAX_SECONDS
            return time_ms(stamp, 0.001 if seconds else 1.0)
    return None


def add_user(builder: RunBuilder, content: object, time: int | None, *, failed: str = "") -> None:
    """Add a user's message. Results, text beside them, and reminders open no turn.

    A result without a flag is an error if it begins with `failed`, unless that is empty.
    """
    body, images = [], images_of(content)
    answered = False
    for block in blocks_of(content):
        part = mapping(block)
        if part.get("type") == "tool_result":
            answered = True
            begins_so = bool(failed) and result_text(part.get("content")).startswith(failed)
            answer(builder, part, time, failed=begins_so)
        else:
            body.append(block_text(block))
    if body or not answered:
        by_user = not body or any(not words.lstrip().startswith(_REMINDER) for words in body)
        builder.add_message("user", "\n".join(body), opens_turn=by_user and not answered, time=time, images=images)


def answer(builder: RunBuilder, block: Mapping[str, Any], time: int | None, *, failed: bool = False) -> None:
    """Add a result in Anthropic's form. Without `is_error` it is no error, which is the API's default."""
    flag = block.get("is_error")
    error = flag if isinstance(flag, bool) else failed
    call_id, content = text(block.get("tool_use_id")), block.get("content")
    builder.add_result(call_id, result_text(content), is_error=error, time=time, images=images_of(content))


def result_text(content: object) -> str:
    """The text of a result: that of its blocks, else its JSON."""
    if isinstance(content, list) and any(isinstance(block, dict) and "type" not in block for block in content):
        return json_text(content)
    return content_text(content)


def _first_open_call(builder: RunBuilder) -> str:
    """The id of the first open call of the last response, which a result without an id answers."""
    last = builder.steps[-1] if builder.steps else StepBuilder()
    return last.calls[last.results.index(None)].id if None in last.results else ""


def add_reply(builder: RunBuilder, message: Mapping[str, Any], time: int | None, model: str = "") -> StepBuilder:
    """Add an assistant's message, in either dialect. Messages with the same id are one response."""
    key = text(message.get("id"))
    step = builder.response(key)
    if step is None:
        step = builder.add_response(time, model=model or text(message.get("model")), key=key)
    else:
        builder.extend_response(step, time)
    for block in blocks_of(message.get("content")):
        _add_block(builder, step, block, time)
    for name in ("reasoning_content", "reasoning"):
        if reasoning := text(message.get(name)):
            step.add_reasoning(reasoning)
            break
    step.add_text(text(message.get("refusal")))
    for call in items(message.get("tool_calls")):
        _add_call(builder, step, mapping(call))
    if legacy := mapping(message.get("function_call")):
        builder.add_call(step, "", text(legacy.get("name")), openai_arguments(legacy.get("arguments", REDACTED)))
    step.finish_reason = (
        finish_reason(message.get("stop_reason")) or finish_reason(message.get("finish_reason")) or step.finish_reason
    )
    usage = mapping(message.get("usage"))
    step.effort = effort_of(message.get("reasoning_effort"), step.effort)
    step.speed = name_or_none(usage.get("speed")) or step.speed
    step.service_tier = (
        name_or_none(usage.get("service_tier")) or name_or_none(message.get("service_tier")) or step.service_tier
    )
    if isinstance(message.get("usage"), dict):
        step.usage = usage_of(usage)
    return step


def _add_call(builder: RunBuilder, step: StepBuilder, call: Mapping[str, Any]) -> None:
    """Add a call in OpenAI's form; some writers omit the `function` around its name and arguments."""
    custom = mapping(call.get("custom"))
    function = mapping(call.get("function")) or custom or call
    arguments = custom.get("input", REDACTED) if custom else openai_arguments(function.get("arguments", REDACTED))
    builder.add_call(step, text(call.get("id")), text(function.get("name")), arguments)


def _add_block(builder: RunBuilder, step: StepBuilder, block: object, time: int | None) -> None:
    part = mapping(block)
    kind = text(part.get("type"))
    if kind in _CALLS:
        builder.add_call(step, text(part.get("id")), text(part.get("name")), part.get("input", REDACTED))
    elif kind.endswith(_SERVER_RESULT):
        result = part.get("content")
        failed = part.get("is_error") is True or text(mapping(result).get("type")).endswith("_error")
        builder.add_result(text(part.get("tool_use_id")), content_text(result), is_error=failed, time=time)
    elif kind in ("thinking", "reasoning"):
        step.add_reasoning(text(part.get("thinking")) or text(part.get("text")))
    elif kind == "refusal":
        step.add_text(text(part.get("refusal")))
    elif kind != "redacted_thinking" and (content := block_text(block)).strip():
        step.add_text(content)


def usage_of(usage: Mapping[str, Any]) -> Usage:
    """The usage of a response in either provider's form. Anthropic's input excludes cached tokens."""
    if not usage:
        return UNKNOWN_USAGE
    cost = micro(usage.get("cost"))
    for input_name, output_name in (("prompt", "completion"), ("input", "output")):
        inputs, outputs = whole(usage.get(f"{input_name}_tokens")), whole(usage.get(f"{output_name}_tokens"))
        if inputs is None and outputs is None:
            continue
        in_details = mapping(usage.get(f"{input_name}_tokens_details"))
        out_details = mapping(usage.get(f"{output_name}_tokens_details"))
        cached, cache_write = whole(in_details.get("cached_tokens")), whole(usage.get("cache_creation_input_tokens"))
        if input_name == "prompt" or cached is not None:
            cached = whole(usage.get("cache_read_input_tokens")) if cached is None else cached
            figures = (cache_write, *(whole(in_details.get(name)) for name in _CACHE_WRITES))  # a gateway may fill in 0
            cache_write = max((figure for figure in figures if figure is not None), default=None)
            inputs = all_input(inputs, cached, cache_write)
        else:
            cached = whole(usage.get("cache_read_input_tokens"))
            inputs = None if inputs is None else inputs + (cached or 0) + (cache_write or 0)
        for_hour = whole(mapping(usage.get("cache_creation")).get("ephemeral_1h_input_tokens"))
        return Usage(inputs, outputs, cached, whole(out_details.get("reasoning_tokens")), cost, cache_write, for_hour)
    return UNKNOWN_USAGE._replace(cost=cost)
