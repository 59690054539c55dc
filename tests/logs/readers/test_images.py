"""Images in the messages of people and in results, in the form of each format."""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import boolab as bl
from boolab.core.types import Image, results_in
from boolab.logs.images import images_of
from tests.support.images import SAMPLES
from tests.support.samples import OWN

Block = dict[str, Any]
IMAGES = [Image(*size) for *_, size in SAMPLES]


def anthropic(kind: str, data: str) -> Block:
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


def openai(kind: str, data: str) -> Block:
    return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}"}}


def responses(kind: str, data: str) -> Block:
    return {"type": "input_image", "image_url": f"data:{kind};base64,{data}"}


def mcp(kind: str, data: str) -> Block:
    return {"type": "image", "data": data, "mimeType": kind}


def file(kind: str, data: str) -> Block:
    return {"type": "file", "mime": kind, "filename": "a", "url": f"data:{kind};base64,{data}"}


def inspect(kind: str, data: str) -> Block:
    return {"type": "image", "image": f"data:{kind};base64,{data}"}


def gemini(kind: str, data: str) -> Block:
    return {"inlineData": {"mimeType": kind, "data": data}}


def openhands(kind: str, data: str) -> Block:
    return {"type": "image", "image_urls": [f"data:{kind};base64,{data}"]}


class Place(NamedTuple):
    """Where a sample log has the content of a message or of a result: the first object like this, and its key."""

    like: Callable[[dict[str, Any]], bool]
    key: str

    def put(self, value: Any, blocks: list[Block]) -> bool:
        if isinstance(value, dict) and self.like(value):
            content = value.get(self.key)
            text = [{"text": content} if "inlineData" in blocks[0] else {"type": "text", "text": content}]
            value[self.key] = [*(content if isinstance(content, list) else text if content else []), *blocks]
            return True
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return any(self.put(item, blocks) for item in inner)


def has(name: str, word: str, key: str) -> Place:
    return Place(lambda value: value.get(name) == word, key)


USER = has("role", "user", "content")
RESULT = has("type", "tool_result", "content")
FORMATS: dict[str, tuple[str, Callable[[str, str], Block], Place, Place]] = {
    "anthropic": ("anthropic_messages/conversation.json", anthropic, USER, RESULT),
    "atif": ("atif/harbor.json", anthropic, has("source", "user", "message"), has("source_call_id", "c1", "content")),
    "claude code": ("claude_code/3a3a3a3a-1111-4222-8333-555555555555.jsonl", anthropic, USER, RESULT),
    "cline": ("cline/1767225600000_abcde.messages.json", anthropic, USER, RESULT),
    "codex": (
        "codex/rollout-commands.jsonl",
        responses,
        has("role", "user", "content"),
        has("type", "function_call_output", "output"),
    ),
    "droid": ("droid/sessions/-shed/77770000-0000-4000-8000-000000000001.jsonl", anthropic, USER, RESULT),
    "gemini": (
        "gemini/chats/session-2026-05-06T07-00-22220000.json",
        gemini,
        has("type", "user", "content"),
        has("name", "read_file", "result"),
    ),
    "inspect": ("inspect/old.json", inspect, USER, has("role", "tool", "content")),
    "kimi": (
        "kimi/sessions/wd_shed/session_5555aa01/agents/main/wire.jsonl",
        openai,
        has("type", "turn.prompt", "input"),
        Place(lambda value: value.get("output") == "beds", "output"),
    ),
    "mini-swe-agent": ("mini_swe_agent/tool-calls.traj.json", openai, USER, has("role", "tool", "content")),
    "openai": ("openai_chat/conversations.jsonl", openai, USER, has("role", "tool", "content")),
    "opencode": (
        "opencode/export.json",
        file,
        Place(lambda value: value.get("info", {}).get("role") == "user" and "parts" in value, "parts"),
        has("status", "completed", "attachments"),
    ),
    "openhands": (
        "openhands_sdk/clerk.jsonl",
        openhands,
        USER,
        Place(lambda value: value.get("kind") == "TerminalObservation", "content"),
    ),
    "pi": ("pi/branches.jsonl", mcp, USER, has("role", "toolResult", "content")),
    "qwen": (
        "qwen/chats/66660000-0000-4000-8000-000000000001.jsonl",
        gemini,
        Place(lambda value: value.get("parts") == [{"text": "Paint it red"}], "parts"),
        Place(lambda value: "response" in value and "name" in value, "parts"),
    ),
}


def with_images(name: str, folder: Path, *, in_result: bool) -> Path:
    """A sample log with the images of `SAMPLES` in a message or in a result."""
    sample, block, *places = FORMATS[name]
    path = folder / sample
    shutil.copytree((OWN / sample).parent, path.parent)
    text = path.read_text()
    values = [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else json.loads(text)
    assert places[in_result].put(values, [block(kind, data) for kind, data, _ in SAMPLES])
    path.write_text("\n".join(map(json.dumps, values)) if path.suffix == ".jsonl" else json.dumps(values))
    return path


def images_in(path: Path) -> tuple[Counter[Image], Counter[Image]]:
    """The images in the messages and in the results of a log."""
    runs = bl.load_runs(path)
    parts = (part for run in runs for message in run.messages for part in message.parts)
    results = (result for run in runs for result in results_in(run.steps))
    return Counter(part for part in parts if isinstance(part, Image)), Counter(i for r in results for i in r.images)


@pytest.mark.parametrize("in_result", [False, True], ids=["message", "result"])
@pytest.mark.parametrize("name", FORMATS)
def test_the_sizes_of_images_are_read(name: str, in_result: bool, tmp_path: Path) -> None:
    before = images_in(OWN / FORMATS[name][0])
    images = images_in(with_images(name, tmp_path, in_result=in_result))
    assert images[in_result] - before[in_result] == Counter(IMAGES)
    assert images[not in_result] == before[not in_result]


@pytest.mark.parametrize("contents", ["everything", "facts"])
def test_the_sizes_of_images_are_saved(contents: Any, tmp_path: Path) -> None:
    for in_result in (False, True):
        path, saved = with_images("pi", tmp_path / str(in_result), in_result=in_result), tmp_path / f"{in_result}.jsonl"
        bl.save_runs(bl.load_runs(path), saved, contents=contents)
        assert images_in(saved) == images_in(path)


@pytest.mark.parametrize(
    ("content", "n_images"),
    [
        ("text", 0),
        (None, 0),
        ([None, 3, "a", {}, {"type": ["image"]}, {"type": "file", "mime": "text/plain", "url": "data:,a"}], 0),
        ([{"type": "image"}, {"type": "image", "source": 3}, {"type": "image_url", "image_url": {"url": 3}}], 3),
        ({"type": "image", "image_urls": None}, 0),
        ([{"type": "document", "source": {"media_type": "application/pdf", "data": ""}}], 0),
    ],
)
def test_blocks_of_any_kind_are_read(content: object, n_images: int) -> None:
    assert images_of(content) == (Image(),) * n_images
