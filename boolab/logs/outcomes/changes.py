"""The changes of files that are on record in a run: by the tools that write, and by commands.

A tool that writes (`boolab.display.tool_kinds`) changes a file if its arguments name one, or hold a patch. A command
changes files if it is one that writes, such as `sed -i` or `git checkout`, or if its output goes to a file. What a
program does otherwise is not on record, so a change can be missed, and what a command might have done counts as done.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, product
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple

from boolab.core.rejections import is_rejection
from boolab.core.run import Run
from boolab.core.run_tree import starts_of
from boolab.core.types import REDACTED, Step, ToolCall, ToolResult
from boolab.display.tool_kinds import kind_of
from boolab.io.json_input import items, mapping, text
from boolab.io.shell import ShellCommand, commands_in


def _words(names: str) -> frozenset[str]:
    return frozenset(names.split())


MAX_TEXT: Final = 2_000_000
"""How much of what a call writes is read, in characters."""
_MAX_DEPTH: Final = 20
_PATHS: Final = (
    "file_path", "filePath", "path", "notebook_path", "target_file", "absolute_path", "filename", "file",
)  # fmt: skip
_TEXTS: Final = (
    "content", "file_text", "new_string", "newString", "new_str", "newText", "new_text", "new_source", "code_edit",
    "contents", "insert_text", "replacement",
)  # fmt: skip
_OLD_TEXTS: Final = ("old_string", "oldString", "old_str", "oldText", "old_text", "old_source")
_PATCHES: Final = ("patch", "patchText", "patch_text", "diff", "input")
_COMMANDS: Final = ("command", "cmd", "commands", "script")
_PATCH_FILE: Final = re.compile(r"\*\*\* (?:Add|Update|Delete) File: (.{1,1000})|\+\+\+ (?:b/)?([^\t\n]{1,1000})")
_MOVE: Final = re.compile(r"\*\*\* Move to: (.{1,1000})")
_SEARCH: Final = re.compile(r"[-<]{5,9} ?SEARCH\b.{0,100}")
_SEPARATOR: Final = re.compile(r"={5,9}")
_REPLACE: Final = re.compile(r"[+>]{5,9} ?REPLACE\b.{0,20}")

_BUILTINS: Final = frozenset({"set", "return", "export", "add", "type", "mkdir"})
"""Commands that change no file, though a tool of this name would be one that writes."""
_READS_GIT: Final = _words(
    "add commit status diff log show branch fetch push tag remote config blame grep rev-parse ls-files describe "
    "cat-file init clone submodule worktree reflog shortlog bisect notes rev-list merge-base help"
)
"""The subcommands of git that change no file of the working tree; all others may."""
_IN_PLACE: Final[Mapping[str, re.Pattern[str]]] = {
    "sed": re.compile(r"-[a-zA-Z]*i.*|--in-place.*"),
    "gsed": re.compile(r"-[a-zA-Z]*i.*|--in-place.*"),
    "perl": re.compile(r"-[a-zA-Z0-9]*i.*"),
    "ruby": re.compile(r"-[a-zA-Z]*i.*"),
    "prettier": re.compile(r"--write|-w"),
    "eslint": re.compile(r"--fix"),
    "ruff": re.compile(r"format|--fix.*"),
    "gofmt": re.compile(r"-w"),
    "cargo": re.compile(r"fmt|fix"),
    "yq": re.compile(r"-i|--inplace"),
    "awk": re.compile(r"inplace"),
}
"""The arguments with which a program changes files in place."""
_WRITERS: Final = _words("tee patch truncate dd ed ex black isort autopep8 unzip install ln rsync shred")
_INTERPRETERS: Final = re.compile(r"(?:python|pypy|node|ruby|perl)[\d.]*")
_WRITES: Final = re.compile(
    r"\bwrite_(?:text|bytes)\b|\.write\(|\bwriteFile|open\([^()\n]{1,300},[ ]*(?:mode=)?['\"][wax+rb]*[wax+]"
    r"|\bos\.(?:remove|rename|unlink|replace)\b|\bshutil\.(?:move|copy|rmtree)|\.(?:unlink|rename)\(|File\.write"
)
_SCRATCH_FOLDERS: Final = ("/dev/", "/tmp/", "/var/tmp/", "/proc/")  # noqa: S108 - no file is made there
_MOVING: Final = frozenset({"-b", "-B", "-c", "-C", "--orphan"})


class ExecutedCall(NamedTuple):
    """A call with its result, and the run and the step that it is of: the run's own, or one of a subagent's."""

    run: Run
    step: Step
    call: ToolCall
    result: ToolResult


def executed_calls(run: Run, step: Step, depth: int = 0) -> Iterator[ExecutedCall]:
    """The calls of a step that were executed, and of the subagents that it started, where the arguments are known."""
    for call, result in zip(step.response.tool_calls, step.results, strict=True):
        if result is not None and call.arguments != REDACTED and not _is_refused(run, result):
            yield ExecutedCall(run, step, call, result)
    if run.subagents and depth < _MAX_DEPTH:
        child_ids = {start.run_id for start in starts_of(run) if start.step == step.index}
        for child in run.subagents:
            if child.run_id in child_ids:
                yield from chain.from_iterable(executed_calls(child, inner, depth + 1) for inner in child.steps)


def _is_refused(run: Run, result: ToolResult) -> bool:
    return is_rejection(run.source, result.content, is_error=result.is_error)


class FileChange(NamedTuple):
    """A change of a file.

    Attributes:
        path: The file, as it is named; "" where it is not known.
        added: The text that was written, as far as it is on record.
        removed: The text that it stands in place of.
    """

    path: str
    added: str = ""
    removed: str = ""

    @property
    def writes_files(self) -> bool:
        """Whether the text that was written is a program that writes files."""
        return _WRITES.search(self.added[:MAX_TEXT]) is not None

    @property
    def is_scratch(self) -> bool:
        """Whether the file is no part of a project by its path, such as one in `/tmp`."""
        return self.path.startswith(_SCRATCH_FOLDERS)


def arguments_of(call: ToolCall) -> Mapping[str, Any]:
    """The arguments of a call; none where they are no JSON object."""
    try:
        return mapping(json.loads(call.arguments)) if len(call.arguments) <= MAX_TEXT else {}
    except (ValueError, RecursionError):
        return {}


def shell_line(call: ToolCall, arguments: Mapping[str, Any]) -> str | Sequence[str] | None:
    """The command line that a call gives to a shell, or its words; None if it gives none."""
    if kind_of(call.name, arguments) not in ("execute", "other"):
        return None
    for name in _COMMANDS:
        line = arguments.get(name)
        if isinstance(line, str) and line:
            return line
        if isinstance(line, list) and line and all(isinstance(word, str) for word in line):
            return line
    return None


def changes_of_tool(call: ToolCall, arguments: Mapping[str, Any], result: ToolResult | None) -> list[FileChange]:
    """The changes that a call of a tool that writes has made; none if it failed or was never executed."""
    if result is None or result.is_error or kind_of(call.name, arguments) != "write":
        return []
    path = next((text(arguments.get(name)) for name in _PATHS if text(arguments.get(name))), "")
    patch = next((text(arguments.get(name)) for name in _PATCHES if text(arguments.get(name))), "")
    if patch:
        return changes_of_patch(patch, path)
    if not path:
        return []
    edits = [edit for edit in map(mapping, items(arguments.get("edits"))) if edit] or [arguments]
    return [FileChange(path, _first(edit, _TEXTS), _first(edit, _OLD_TEXTS)) for edit in edits]


def _first(arguments: Mapping[str, Any], names: Sequence[str]) -> str:
    return next((text(arguments.get(name)) for name in names if text(arguments.get(name))), "")


def changes_of_patch(patch: str, path: str = "") -> list[FileChange]:
    """The changes of a patch: a unified diff, one of `apply_patch`, or blocks of text to search and to replace."""
    changes = [_PatchedFile(path)]
    part = ""
    for line in patch[:MAX_TEXT].splitlines():
        if part or _SEARCH.fullmatch(line):
            part = _take_block_line(changes[-1], part, line)
        elif match := _PATCH_FILE.match(line):
            changes.append(_PatchedFile((match[1] or match[2]).strip()))
        elif match := _MOVE.match(line):
            changes[-1].path = match[1].strip()
        elif line.startswith("+"):
            changes[-1].added.append(line[1:])
        elif line.startswith("-") and not line.startswith("--- "):
            changes[-1].removed.append(line[1:])
    return [FileChange(file.path, "\n".join(file.added), "\n".join(file.removed)) for file in changes if file.path]


@dataclass(slots=True)
class _PatchedFile:
    """A file of a patch that is being read."""

    path: str
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)


def _take_block_line(file: _PatchedFile, part: str, line: str) -> str:
    """Take a line of a block of text to search and to replace; return the part that the next line is in."""
    if not part:
        return "search"
    if part == "search" and _SEPARATOR.fullmatch(line):
        return "replace"
    if _REPLACE.fullmatch(line):
        return ""
    (file.removed if part == "search" else file.added).append(line)
    return part


def changes_of_command(command: ShellCommand, scripts: Collection[str] = ()) -> list[FileChange]:
    """The changes that a simple command makes, as far as its words show them.

    `scripts`: files whose programs write files.
    """
    changes = list(_written_by(command))
    is_script = any(is_same_file(*pair) for pair in product(scripts, command.words))
    return changes if changes or not is_script or command.program in ("cat", "rm") else [FileChange("")]


def _written_by(command: ShellCommand) -> Iterator[FileChange]:
    program, words = command.program, command.words[1:]
    copied = command.document if program in ("cat", "tee", "echo", "printf") else ""
    for redirect in command.redirects:
        yield FileChange(redirect.path, copied or _echoed(command))
    if "apply_patch" in (program, *words[:1]) or program == "patch":
        patch = command.document or next((word for word in words if "*** Begin Patch" in word), "")
        yield from changes_of_patch(patch) or [FileChange("")]
    elif program == "tee":
        yield from [FileChange(word, copied) for word in words if not word.startswith("-")]
    elif program == "git":
        yield from _changed_by_git(words, command.document)
    elif _INTERPRETERS.fullmatch(program) and _runs_text(words):
        code = command.document or " ".join(words)
        yield from [FileChange("")] if _WRITES.search(code[:MAX_TEXT]) else []
    elif program in _IN_PLACE:
        is_changed = any(_IN_PLACE[program].fullmatch(word) for word in words)
        yield from [FileChange(_last_operand(words))] if is_changed else []
    elif program in _WRITERS or (program not in _BUILTINS and kind_of(program) == "write"):
        yield from [FileChange(word) for word in words if not word.startswith("-")] or [FileChange("")]


def _runs_text(words: Sequence[str]) -> bool:
    """Whether an interpreter is given its program in the command: `-c`, `-e`, or a here-document."""
    return not words or words[0] in ("-c", "-e", "-")


def _echoed(command: ShellCommand) -> str:
    return " ".join(command.words[1:]) if command.program in ("echo", "printf") else ""


def _last_operand(words: Sequence[str]) -> str:
    return next((word for word in reversed(words) if not word.startswith("-")), "")


def _changed_by_git(words: Sequence[str], document: str) -> Iterator[FileChange]:
    operands = [word for word in words if not word.startswith("-")]
    if words[:1] == ["-C"] or words[:1] == ("-C",):
        operands = operands[1:]
    subcommand = operands[0] if operands else "status"
    if subcommand in _READS_GIT or (subcommand in ("checkout", "switch") and _MOVING & set(words)):
        return
    if subcommand == "stash" and operands[1:2] in (["list"], ["show"]):
        return
    if subcommand == "apply" and document:
        yield from changes_of_patch(document)
    elif "--check" not in words:
        yield FileChange("")


def changes_of_line(line: str | Sequence[str]) -> list[FileChange]:
    """The changes that a command line makes."""
    return [*chain.from_iterable(map(changes_of_command, commands_in(line)))]


def is_same_file(path: str, other: str) -> bool:
    """Whether two paths are likely to name one file: one is the end of the other."""
    if not path or path.rpartition("/")[2] != other.rpartition("/")[2]:
        return False
    parts, other_parts = PurePosixPath(path).parts, PurePosixPath(other).parts
    length = min(len(parts), len(other_parts))
    return parts[-length:] == other_parts[-length:]
