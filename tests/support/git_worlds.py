"""Repositories for the tests of worlds, agents that edit files in them, and the files of a folder as one value."""

import asyncio
import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import boolab as bl

GIT = shutil.which("git") or "git"
Files = dict[bytes, tuple[str, bytes]]
Edit = Callable[[Path], object]

HOSTILE_SETTINGS = {
    "core.autocrlf": "true",
    "core.safecrlf": "true",
    "core.fileMode": "false",
    "core.symlinks": "false",
    "core.ignoreCase": "true",
    "commit.gpgSign": "true",
    "filter.upper.clean": "tr a-z A-Z",
    "filter.upper.smudge": "tr A-Z a-z",
    "core.logAllRefUpdates": "always",
}
HOSTILE_ATTRIBUTES = "* text=auto eol=crlf ident\n*.up filter=upper\n*.u16 working-tree-encoding=UTF-16\n"


def git(folder: Path, *arguments: str) -> bytes:
    """What a git command in a folder prints, as the user would run it."""
    identity = ("-c", "user.name=User", "-c", "user.email=user@localhost", "-c", "commit.gpgSign=false")
    return subprocess.run([GIT, *identity, *arguments], cwd=folder, capture_output=True, check=True).stdout


def repository(folder: Path, *, hostile: bool = False) -> Path:
    """A new repository with one commit, of `a.txt` and `sub/b.txt`; a hostile one has settings that change bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "sub").mkdir()
    (folder / "a.txt").write_bytes(b"one\r\ntwo\n")
    (folder / "sub/b.txt").write_bytes(b"$Id$\n")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=First")
    if hostile:
        (folder / ".gitattributes").write_text(HOSTILE_ATTRIBUTES)
        for name, value in HOSTILE_SETTINGS.items():
            git(folder, "config", name, value)
        for hook in ("pre-commit", "post-commit", "reference-transaction", "post-index-change", "post-checkout"):
            path = folder / ".git/hooks" / hook
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"#!/bin/sh\ntouch {folder.parent}/hook-ran\n")
            path.chmod(0o755)
    return folder


def files_of(folder: Path) -> Files:
    """All in a folder but `.git` at its top: for each name its kind, and its bytes or the target of the link."""
    found: Files = {}
    waiting = [b""]
    while waiting:
        inner = waiting.pop()
        with os.scandir(os.fsencode(folder) + b"/" + inner) as entries:
            for entry in entries:
                name = inner + entry.name
                if name == b".git":
                    continue
                if entry.is_symlink():
                    found[name] = ("link", os.fsencode(Path(os.fsdecode(entry.path)).readlink()))
                elif entry.is_dir():
                    found[name] = ("folder", b"")
                    waiting.append(name + b"/")
                elif not entry.is_file():
                    found[name] = ("pipe", b"")
                else:
                    kind = "program" if entry.stat().st_mode & stat.S_IXUSR else "file"
                    found[name] = (kind, Path(os.fsdecode(entry.path)).read_bytes())
    return found


def users_own(folder: Path) -> Files:
    """All of the user's in a repository: the files, and what is in `.git`, but for objects and what boolab adds."""
    inner = files_of(folder / ".git")
    ours = (b"objects", b"refs/boolab")
    own = {name: value for name, value in inner.items() if not name.startswith(ours)}
    return own | {b"worktree/" + name: value for name, value in files_of(folder).items()}


def editor(edits: Sequence[Edit]) -> bl.models.Model:
    """A scripted model whose step n makes the n-th edit; then it ends."""
    return bl.ScriptedModel([*({"tool_calls": [edit(n)]} for n in range(len(edits))), "Done."])


def edit(number: int) -> dict[str, Any]:
    return {"name": "edit", "arguments": {"number": number}}


def edit_tool(edits: Sequence[Edit], seen: list[Files] | None = None) -> Callable[..., str]:
    """The tool that makes them in the run's folder, and puts the files as they are then into `seen`."""

    def edit(number: int, context: bl.ToolContext) -> str:
        """Make an edit."""
        assert context.root is not None
        edits[number](context.root)
        if seen is not None:
            seen.append(files_of(context.root))
        return f"edit {number}"

    return edit


def edited(world: bl.GitWorld, edits: Sequence[Edit], seen: list[Files] | None = None, **options: Any) -> bl.Run:
    """A run that makes these edits, one a step; `seen` gets the files after each of them."""
    tools = [edit_tool(edits, seen)]
    return bl.run_sync(None, "Edit.", model=editor(edits), tools=tools, world=world, policy="naive", **options)


def branched(run: bl.Run, at: int, world: bl.GitWorld, edits: Sequence[Edit], **options: Any) -> bl.Run:
    """A branch that makes the edits that are left."""
    given = {"model": editor(edits), "tools": [edit_tool(edits)], "policy": "naive", **options}
    return asyncio.run(bl.branch(run, at, world=world, **given))


def kept(run: bl.Run) -> dict[int, Any]:
    """What the record holds of the files, by step."""
    return {event.payload["after_step"]: event.payload for event in run.events if event.kind == "world"}


def files_after(world: bl.GitWorld, run: bl.Run, at: int) -> Files:
    """The files as they come back after a step; their folder is removed again."""
    restored = world.restored(kept(run)[at])
    try:
        return files_of(restored.root)
    finally:
        restored.discard()
        assert not restored.root.exists()


def write(name: str, content: bytes | str = b"", mode: int | None = None) -> Edit:
    """The edit that writes a file."""

    def make(root: Path) -> None:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        if mode is not None:
            path.chmod(mode)

    return make


def all_of(edits: Sequence[Edit]) -> Edit:
    """The edit that makes all of these."""
    return lambda root: [edit(root) for edit in edits]
