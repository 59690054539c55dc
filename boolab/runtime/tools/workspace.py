"""Built-in tools: they read a folder, and ask the user.

The workspace tools only read regular files below their root: no `..`, no absolute path, no link that leads out of it.
Their results are bounded; a truncated one ends with a line about that.
"""

from __future__ import annotations

import functools
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from boolab.errors import SettingError, ToolError
from boolab.io.files import user_path
from boolab.runtime.tools.tool import ToolSpec, tool

MAX_FILES: Final = 20_000
"""How many files and folders a call lists. That takes about a second, in which the event loop is blocked."""
MAX_FILE_BYTES: Final = 2_000_000
MAX_SEARCHED: Final = 256_000_000
"""How many bytes a search reads, for the same reason: 20,000 files of the largest size would be 40 GB."""
MAX_PATTERN: Final = 255
"""The longest pattern of file names. No name is longer, and `fnmatch` takes minutes for 20,000 brackets."""
MAX_LINES: Final = 400
MAX_ENTRIES: Final = 500
MAX_MATCHES: Final = 100
MAX_LINE_CHARS: Final = 400
_SKIPPED: Final = frozenset((
    ".git", ".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache", "__pycache__", "node_modules", "out",
))  # fmt: skip
_OPEN_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
_FOLDER: Final = _OPEN_FLAGS | getattr(os, "O_DIRECTORY", 0)
_HAS_HANDLES: Final = os.open in os.supports_dir_fd and os.scandir in os.supports_fd


def workspace_tools(root: str | Path) -> dict[str, ToolSpec]:
    """`list_files`, `read_file` and `search_text`, confined to `root`. All are read-only."""
    top = user_path(root).resolve()
    if not top.is_dir():
        msg = f"root={str(root)!r} is not a folder"
        raise SettingError(msg)
    return {spec.name: spec for spec in _tools_of(top)}


@functools.lru_cache(maxsize=64)
def _tools_of(top: Path) -> tuple[ToolSpec, ...]:  # noqa: C901 - three tools that share their root
    """The tools of a root, cached because every cell of a sweep needs them and their schemas take milliseconds."""

    @tool(read_only=True)
    def list_files(path: str = ".", pattern: str = "*") -> str:
        """List the files below a folder of the workspace.

        Args:
            path: The folder, relative to the workspace.
            pattern: Which file names to list, such as '*.py'.
        """
        folder = _resolve(top, path)
        if not folder.is_dir():
            msg = f"{path!r} is not a folder"
            raise ToolError(msg)
        notes: list[str] = []
        names = (str(Path(file).relative_to(top)) for file in _walk(top, folder, _check_pattern(pattern), notes))
        entries = [name for name, _ in zip(names, range(MAX_ENTRIES + 1), strict=False)]
        if len(entries) > MAX_ENTRIES:
            entries[MAX_ENTRIES:] = [f"(the first {MAX_ENTRIES} files; narrow the path or the pattern)"]
        return "\n".join([*(entries or [f"(no file matches {pattern!r} in {path!r})"]), *notes])

    @tool(read_only=True)
    def read_file(path: str, offset: int = 1, limit: int = 200) -> str:
        """Read lines of a text file of the workspace.

        Args:
            path: The file, relative to the workspace.
            offset: The first line, from 1.
            limit: How many lines, at most 400.
        """
        if offset < 1 or not 1 <= limit <= MAX_LINES:
            msg = f"offset {offset}, limit {limit}: expected offset >= 1 and 1 <= limit <= {MAX_LINES}"
            raise ToolError(msg)
        lines = _read(top, _resolve(top, path), path).splitlines()
        if offset > max(len(lines), 1):
            msg = f"{path!r} has {len(lines)} lines; offset {offset} is past its end"
            raise ToolError(msg)
        numbered = [_shorten(line) for line in lines[offset - 1 : offset - 1 + limit]]
        rest = len(lines) - (offset - 1 + len(numbered))
        return "\n".join([*numbered, *([f"({rest} more lines)"] if rest else [])])

    @tool(read_only=True)
    def search_text(pattern: str, path: str = ".", files: str = "*", ignore_case: bool = False) -> str:
        """Search the files of the workspace for a text and list the lines that hold it.

        Args:
            pattern: The text, taken literally.
            path: The folder or file to search, relative to the workspace.
            files: Which file names to search, such as '*.py'.
            ignore_case: Whether upper and lower case are the same.
        """
        if not pattern:
            msg = "the pattern is empty"
            raise ToolError(msg)
        regex = pattern.lower() if ignore_case else pattern
        start, files = _resolve(top, path), _check_pattern(files)
        matches: list[str] = []
        notes: list[str] = []
        searched = 0
        for file in _walk(top, start, files, notes) if start.is_dir() else [str(start)] if start.match(files) else []:
            try:
                text = _read(top, Path(file), file)
            except ToolError:
                continue
            searched += len(text)
            if searched > MAX_SEARCHED:
                notes.append(f"(not all was searched: the files hold over {MAX_SEARCHED:,} bytes; narrow the search)")
                break
            if regex not in (text.lower() if ignore_case else text):
                continue
            for number, line in enumerate(text.splitlines(), 1):
                if regex in (line.lower() if ignore_case else line):
                    matches.append(f"{Path(file).relative_to(top)}:{number}: {_shorten(line.strip())}")
                    if len(matches) == MAX_MATCHES:
                        return "\n".join([*matches, f"(the first {MAX_MATCHES} matches; narrow the search)"])
        return "\n".join([*(matches or [f"(no match for {pattern!r})"]), *notes])

    return list_files, read_file, search_text


@functools.cache
def pause_tools() -> dict[str, ToolSpec]:
    """The tools that pause the run until the user answers, by name. Not made at import, because that takes long."""

    @tool(read_only=True, pauses=True)
    def ask_user_input(question: str) -> str:
        """Ask the user a question and wait for the answer.

        Args:
            question: The question.
        """
        return f"(waiting for the user's answer to: {question})"

    @tool(read_only=True, pauses=True)
    def request_read_access(path: str, reason: str = "") -> str:
        """Ask the user for permission to read something outside the workspace, and wait for the answer.

        Args:
            path: What to read.
            reason: Why it is needed.
        """
        return f"(waiting for permission to read {path}{': ' if reason else ''}{reason})"

    return {spec.name: spec for spec in (ask_user_input, request_read_access)}


BUILT_IN: Final = ("list_files", "read_file", "search_text", "ask_user_input", "request_read_access")


def _resolve(top: Path, path: str) -> Path:
    """The real place of `path`, refused unless it is below `top`."""
    if "\0" in path or Path(path).is_absolute() or ".." in Path(path).parts:
        msg = f"{path!r} is not accepted: expected a path inside the workspace, without '..'"
        raise ToolError(msg)
    try:
        target = (top / path).resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        msg = f"{path!r} does not exist in the workspace"
        raise ToolError(msg) from error
    if not target.is_relative_to(top):
        msg = f"{path!r} leads out of the workspace"
        raise ToolError(msg)
    return target


def _check_pattern(pattern: str) -> str:
    if not pattern or len(pattern) > MAX_PATTERN:
        msg = f"a pattern of {len(pattern):,} characters: expected 1 to {MAX_PATTERN}, such as '*.py'"
        raise ToolError(msg)
    return pattern


def _walk(top: Path, folder: Path, pattern: str, notes: list[str]) -> Iterator[str]:
    """The files below `folder` that match, in order, among the first `MAX_FILES`. Links to folders are not followed.

    If there are more, a line about that is added to `notes`. Most of the time of a search is spent here, so a `Path` is
    made of few files.
    """
    visited = 0
    of_name = "/" not in pattern
    waiting = [str(folder)]
    while waiting and visited <= MAX_FILES:
        folders, files = _entries(top, waiting.pop())
        visited += 1
        waiting += (
            entry_path
            for name, entry_path in reversed(folders)
            if name not in _SKIPPED and not name.startswith(".venv")
        )
        for name, entry_path, is_link in files:
            if is_link and not Path(os.path.realpath(entry_path)).is_relative_to(top):  # `resolve` fails at circles
                continue
            visited += 1
            if visited > MAX_FILES:
                break
            if fnmatchcase(name, pattern) if of_name else Path(entry_path).match(pattern):
                yield entry_path
    if waiting or visited > MAX_FILES:
        notes.append(f"(not all was looked at: there are over {MAX_FILES:,} files and folders; narrow the path)")


def _entries(top: Path, folder: str) -> tuple[list[tuple[str, str]], list[tuple[str, str, bool]]]:
    """The folders and files in a folder, by name, with their paths, and which files are links.

    A link to a folder is neither; a folder that cannot be read is empty.
    """
    folders: list[tuple[str, str]] = []
    files: list[tuple[str, str, bool]] = []
    try:
        with _open_folder(top, Path(folder)) as item, os.scandir(item) as entries:
            for entry in entries:
                is_link, path = entry.is_symlink(), f"{folder}{os.sep}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    folders.append((entry.name, path))
                elif not (is_link and _leads_to_folder(entry)):
                    files.append((entry.name, path, is_link))
    except OSError:
        return [], []
    return sorted(folders), sorted(files)


def _leads_to_folder(link: os.DirEntry[str]) -> bool:
    try:
        return link.is_dir()
    except OSError:  # links in a circle
        return False


@contextmanager
def _open_folder(top: Path, folder: Path) -> Iterator[int | str]:
    """A folder, open for `os.scandir`; its path on systems without handles of folders."""
    if not _HAS_HANDLES:
        yield str(folder)
        return
    handle = _open(top, folder, _FOLDER)
    try:
        yield handle
    finally:
        os.close(handle)


def _open(top: Path, folder: Path, flags: int) -> int:
    """Open what is below `top` folder by folder; an `OSError` if a part of the path is a link.

    Between `resolve` and the opening, another process may replace a folder by a link (CWE-367), such as a tool that
    writes.
    """
    if not _HAS_HANDLES:
        return os.open(folder, flags)
    names = folder.relative_to(top).parts
    handle = os.open(top, _FOLDER)
    for number, name in enumerate(names, 1):
        above = handle
        try:
            handle = os.open(name, flags if number == len(names) else _FOLDER, dir_fd=above)
        finally:
            os.close(above)
    return handle


def _read(top: Path, file: Path, label: str) -> str:
    try:
        handle = _open(top, file, _OPEN_FLAGS)
    except OSError as error:
        msg = f"{label!r} cannot be read: {error.strerror}"
        raise ToolError(msg) from error
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            msg = f"{label!r} is not a file"
            raise ToolError(msg)
        if status.st_size > MAX_FILE_BYTES:
            msg = f"{label!r} has {status.st_size:,} bytes, more than the {MAX_FILE_BYTES:,} that are read"
            raise ToolError(msg)
        with os.fdopen(handle, "rb", closefd=False) as stream:
            raw = stream.read(status.st_size)  # to allocate the largest size costs more than to read
    finally:
        os.close(handle)
    if b"\0" in raw[:8192]:
        msg = f"{label!r} is not a text file"
        raise ToolError(msg)
    return raw.decode("utf-8", "replace")


def _shorten(line: str) -> str:
    return line if len(line) <= MAX_LINE_CHARS else f"{line[:MAX_LINE_CHARS]} ({len(line) - MAX_LINE_CHARS} more)"
