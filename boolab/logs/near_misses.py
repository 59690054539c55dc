"""Files that look like logs and are not read, with the reason; and files beside logs that hold no runs.

One table, for all that looks for logs: `load_runs`, every command that takes logs, and `boolab doctor`. A near miss is
recognised by its name, for files that no reader would open, or by its content, where no reader recognises it. A
companion is a file that a harness or boolab writes beside logs; it is not a missing log, and is not reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase, translate
from pathlib import PurePath
from typing import Any, Final, NamedTuple

from boolab.io.json_input import items, mapping, text
from boolab.io.packed import is_packed
from boolab.logs.fields import Head


class NearMiss(NamedTuple):
    """A kind of file that is no log that can be read."""

    harness: str  # whose it is, as `boolab doctor` calls it; empty if it is of no harness
    why: str  # why it is not read, and what to do
    names: tuple[str, ...] = ()  # globs of its name, or of the end of its path where they have a `/`, in lower case
    # whether a file is one by one of its first values; None if its name decides
    looks: Callable[[Mapping[str, Any]], bool] | None = None
    places: tuple[str, ...] = ()  # globs of where its harness keeps it on a machine, for `boolab doctor`


def _is_langchain(line: Mapping[str, Any]) -> bool:
    values = items(line.get("messages")) or items(mapping(line.get("values")).get("messages"))
    return any(
        text(mapping(message).get("type")) in ("ai", "AIMessage", "AIMessageChunk", "human", "HumanMessage")
        or ("lc" in mapping(message) and "kwargs" in mapping(message))
        for message in (*values, line)
    )


def _is_langfuse(line: Mapping[str, Any]) -> bool:
    parts = [line, *map(mapping, items(line.get("observations")))]
    return any("traceId" in part and text(part.get("type")).upper() in _OBSERVATIONS for part in parts)


_OBSERVATIONS: Final = ("GENERATION", "SPAN", "EVENT", "TOOL", "AGENT")
TABLE: Final = (
    NearMiss(
        "aider",
        "Aider's history is text without calls, and is not read",
        names=(".aider.chat.history.md", ".aider.llm.history"),
    ),
    NearMiss(
        "cursor",
        "Cursor's own format, which is not read",
        names=("state.vscdb", ".cursor/chats/*/*/store.db", "agent-transcripts/*.jsonl"),
        places=("~/.cursor/chats/*/*/store.db", "~/.cursor/projects/*/agent-transcripts/*.jsonl"),
    ),
    NearMiss(
        "goose",
        "Goose's database, which is not read: goose session export",
        names=("goose/sessions/sessions.db",),
        places=("~/.local/share/goose/sessions/sessions.db",),
    ),
    NearMiss("", "a recording of a terminal, which has no calls", names=("*.cast",)),
    NearMiss(
        "",
        "messages as LangChain or LangGraph store them, which are not read: langchain_core's "
        "convert_to_openai_messages makes them readable",
        looks=_is_langchain,
    ),
    NearMiss("", "observations of Langfuse, which are not read", looks=_is_langfuse),
    NearMiss(
        "",
        "what Cline, Roo Code or Kilo Code show of a task: api_conversation_history.json beside it is read",
        names=("ui_messages.json", "claude_messages.json"),
    ),
)

_LOG: Final = r"(?:\.jsonl|\.json|\.traj|\.eval|\.parquet)"
_PACKED: Final = re.compile(rf"{_LOG}\.(?:zst|zstd|gz|bz2|xz|lzma|lz4|br|7z|zip|tar|tgz|tar\.\w+)$")
_BACKUP: Final = re.compile(
    rf"{_LOG}(?:~|[.\-_](?:bak|backup|old|orig|saved?|tmp|temp|part|partial|copy|deleted)\d*|\.\d{{1,3}})$"
)
_MAYBE: Final = re.compile(
    "|".join(
        [
            _PACKED.pattern,
            _BACKUP.pattern,
            *(rf"\A{translate(name)}" for one in TABLE for name in one.names if "/" not in name),
        ]
    )
)
UNREAD: Final[Mapping[str, tuple[str, ...]]] = {one.harness: one.places for one in TABLE if one.places}
"""Where harnesses keep logs that no reader reads; those of the others are the `PLACES` of their readers."""

_COMPANIONS: Final = (
    "agent-*.meta.json",  # of a subagent of Claude Code: its reader takes the agent's name from it
    "workflows/*/journal.jsonl",  # of a Workflow call of Claude Code
    "sessions/todos/*.json",  # what Claude Code keeps beside projects/
    "sessions/statsig/*.json",
    ".claude.json",
    ".claude.json.backup*",
    "verifier/*.json",  # of a trial of Harbor
    "boolab-labels.jsonl",
)


def may_be_near_miss(name: str) -> bool:
    """Whether a file without the suffix of a log may be a near miss, by its name alone."""
    return _MAYBE.search(name.lower()) is not None


def near_miss_by_name(path: str) -> str:
    """Why a file whose name looks like that of a log is not read; empty if it does not look so."""
    path, name = _lower_path(path)
    for kind in TABLE:
        if any(_fits(path, name, pattern) for pattern in kind.names):
            return kind.why
    if match := _PACKED.search(name):
        return "" if is_packed(name) else _packed_reason(match[0].rpartition(".")[2])
    if _BACKUP.search(name):
        return "a backup or a part of a log by its name, which is not read: rename it to read it"
    return ""


def _packed_reason(suffix: str) -> str:
    if suffix in ("zst", "zstd"):
        return (
            "packed with Zstandard, which is unpacked only where the name ends in .jsonl.zst: zstd -d makes it readable"
        )
    return f"packed (.{suffix}), which is not unpacked: unpack it to read it"


def near_miss_by_content(head: Head) -> str:
    """Why a file that no reader recognises is not read, if it looks like a log of a known kind; else empty."""
    lines = [value for value in head.values if isinstance(value, dict)]
    return next((kind.why for kind in TABLE if kind.looks is not None and any(map(kind.looks, lines))), "")


def is_companion(path: str, head: Head | None = None) -> bool:
    """Whether a file is one that a harness or boolab writes beside logs, by its name, or by its content if given."""
    path, name = _lower_path(path)
    return (head is not None and _is_companion(head.first)) or any(_fits(path, name, glob) for glob in _COMPANIONS)


def _is_companion(document: Mapping[str, Any]) -> bool:
    """Whether a document is of Harbor (no trajectory), a report of SWE-bench, a manifest of Cline, or labels.

    Or it has what the readers of Kimi and Droid take from beside a session: its agents, its model and tokens.
    """
    keys = document.keys()
    harbor = (
        {"trial_name", "task_name"} <= keys
        or {"trial_name", "trials_dir"} <= keys
        or {"n_total_trials", "stats"} <= keys
        or {"jobs_dir", "n_attempts"} <= keys
    )
    swe_bench = isinstance(document.get("resolved_ids"), list) or isinstance(document.get("resolved"), list)
    instance = bool(document) and all("resolved" in mapping(report) for report in document.values())
    session = any("parentAgentId" in mapping(agent) for agent in mapping(document.get("agents")).values())
    session = session or {"session_id", "messages_path"} <= keys or {"model", "tokenUsage"} <= keys
    return harbor or swe_bench or instance or session or "boolab_labels" in keys


def _lower_path(path: str) -> tuple[str, str]:
    """A path with slashes and the name in it, in lower case."""
    path = PurePath(path).as_posix().lower()
    return path, path.rpartition("/")[2]


def _fits(path: str, name: str, pattern: str) -> bool:
    return fnmatchcase(path, f"*/{pattern}") if "/" in pattern else fnmatchcase(name, pattern)
