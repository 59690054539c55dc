"""The kind of a tool, from its name: it reads, searches, writes, executes, or starts a subagent.

Logs name tools as their harness does, and few describe them. The names here are those of the harnesses whose logs
boolab reads (Claude Code, Codex, Gemini CLI, opencode, OpenHands, SWE-agent, Cline, pi, Copilot, Cursor, Inspect). Then
come words that often occur in other names. A tool that matches nothing is "other".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Literal, TypeAlias

Kind: TypeAlias = Literal["read", "search", "write", "execute", "subagent", "other"]

KINDS: Final[Mapping[Kind, str]] = {
    "read": "reads",
    "search": "searches",
    "write": "writes",
    "execute": "executes",
    "subagent": "subagents",
    "other": "other tools",
}
"""The label of each kind, in the order in which they are shown."""

_NAMES: Final[Mapping[Kind, str]] = {
    "read": "cat head tail ls dir tree open goto goto_url scroll_up scroll_down notebook_read web_fetch fetch browse "
    "download image_view screenshot diff read_many_files web_browser_go",
    "search": "grep rg ripgrep glob find ack search tool_search lookup recall google",
    "write": "apply_patch apply_diff multi_edit str_replace str_replace_editor str_replace_based_edit_tool editor "
    "touch mkdir rm mv cp todo_write update_plan plan notebook_edit set_cursors undo_edit image_generation checkpoint",
    "execute": "bash sh zsh shell exec terminal cmd powershell pwsh python ipython node pip npm make pytest test tests "
    "code_interpreter repl kill_shell process write_stdin calculator calculate compile build",
    "subagent": "task agent subagent sub_agent explore delegate handoff new_task spawn codebase_investigator",
    "other": "think finish submit complete_task attempt_completion final_answer ask_user ask ask_user_question skill "
    "sleep wait",
}
_KIND_BY_NAME: Final[Mapping[str, Kind]] = {name: kind for kind, names in _NAMES.items() for name in names.split()}

_WORDS: Final[Mapping[Kind, str]] = {
    "other": "think ask submit finish transfer",
    "subagent": "subagent agent agents delegate handoff",
    "search": "search grep glob find query lookup retrieve match",
    "execute": "bash shell exec execute run terminal command commands cmd python click type press calculate",
    "write": "write edit create insert replace patch update delete remove add set save put append rename move copy "
    "book cancel modify send post generate exchange return",
    "read": "read view open get list show fetch load describe cat browse check status inspect",
}
_BY_WORD: Final = {kind: frozenset(words.split()) for kind, words in _WORDS.items()}
"""By the words that a name contains; the first line with one of them decides."""

_MCP: Final = re.compile(r"^mcp__.+?__")
_BREAKS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")


def kind_of(tool: str, arguments: object = None) -> Kind:
    """What a tool does: one of `KINDS`. The `command` of some editors shows that they only read."""
    kind = _kind_of_name(tool)
    command = arguments.get("command") if isinstance(arguments, dict) else None
    return "read" if kind == "write" and command in ("view", "view_range") else kind


@lru_cache(1024)
def _kind_of_name(tool: str) -> Kind:
    words = [word.lower() for word in _BREAKS.split(_MCP.sub("", tool[:200])) if word]
    kind_by_name = _KIND_BY_NAME.get("_".join(words))
    if kind_by_name is not None:
        return kind_by_name
    return next((kind for kind, kind_words in _BY_WORD.items() if not kind_words.isdisjoint(words)), "other")
