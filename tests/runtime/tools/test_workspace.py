"""The built-in workspace tools stay inside their root and inside their limits."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from boolab.errors import SettingError, ToolError
from boolab.runtime.tools import workspace
from boolab.runtime.tools.tool import ToolSpec
from boolab.runtime.tools.workspace import pause_tools, workspace_tools


@pytest.fixture
def root(tmp_path: Path) -> Path:
    top = tmp_path / "top"
    (top / "src" / "deep").mkdir(parents=True)
    (top / ".git").mkdir()
    (top / ".git" / "config").write_text("secret needle")
    (top / "src" / "a.py").write_text("import os\n# needle one\n")
    (top / "src" / "deep" / "b.py").write_text("x = 1\ny = 'Needle two'\n")
    (top / "notes.md").write_text("\n".join(f"line {n}" for n in range(1, 1001)))
    (top / "blob.bin").write_bytes(b"needle\0needle")
    (tmp_path / "outside.txt").write_text("needle outside")
    (top / "leads_out").symlink_to(tmp_path / "outside.txt")
    (top / "dir_out").symlink_to(tmp_path)
    (top / "stays_in").symlink_to(top / "src" / "a.py")
    return top


@pytest.fixture
def tools(root: Path) -> dict[str, ToolSpec]:
    return workspace_tools(root)


def test_all_are_read_only(tools: dict[str, ToolSpec]) -> None:
    assert all(spec.read_only for spec in tools.values())
    assert all(spec.pauses and spec.read_only for spec in pause_tools().values())


def test_files_are_listed_in_order_without_version_control(tools: dict[str, ToolSpec]) -> None:
    assert tools["list_files"]().splitlines() == ["blob.bin", "notes.md", "stays_in", "src/a.py", "src/deep/b.py"]
    assert tools["list_files"]("src", "*.py").splitlines() == ["src/a.py", "src/deep/b.py"]
    assert tools["list_files"](pattern="*.rs") == "(no file matches '*.rs' in '.')"


def test_a_file_is_read_by_lines_and_says_what_is_left(tools: dict[str, ToolSpec]) -> None:
    assert tools["read_file"]("src/a.py") == "import os\n# needle one"
    assert tools["read_file"]("notes.md", 3, 2) == "line 3\nline 4\n(996 more lines)"
    assert tools["read_file"]("notes.md", 1000) == "line 1000"
    assert tools["read_file"]("stays_in") == "import os\n# needle one"


def test_text_is_found_literally_with_its_place(tools: dict[str, ToolSpec]) -> None:
    assert tools["search_text"]("needle") == "src/a.py:2: # needle one"
    found = tools["search_text"]("needle", ignore_case=True).splitlines()
    assert found == ["src/a.py:2: # needle one", "src/deep/b.py:2: y = 'Needle two'"]
    assert tools["search_text"]("n.edle") == "(no match for 'n.edle')"
    assert tools["search_text"]("os", "src/a.py") == "src/a.py:1: import os"
    assert tools["search_text"]("needle", files="*.md") == "(no match for 'needle')"


@pytest.mark.parametrize("path", ["../outside.txt", "src/../../outside.txt", "/etc/passwd", "..", "a\0b"])
@pytest.mark.parametrize("name", ["list_files", "read_file", "search_text"])
def test_a_path_that_could_lead_out_is_refused(tools: dict[str, ToolSpec], name: str, path: str) -> None:
    arguments: tuple[Any, ...] = ("needle", path) if name == "search_text" else (path,)
    with pytest.raises(ToolError, match="expected a path inside the workspace, without '..'"):
        tools[name](*arguments)


@pytest.mark.parametrize("path", ["leads_out", "dir_out", "dir_out/outside.txt"])
@pytest.mark.parametrize("name", ["list_files", "read_file", "search_text"])
def test_a_link_that_leads_out_is_refused(tools: dict[str, ToolSpec], name: str, path: str) -> None:
    arguments: tuple[Any, ...] = ("needle", path) if name == "search_text" else (path,)
    with pytest.raises(ToolError, match="leads out of the workspace"):
        tools[name](*arguments)


def test_nothing_outside_is_ever_listed_or_found(tools: dict[str, ToolSpec]) -> None:
    assert "outside" not in tools["list_files"]()
    assert "outside" not in tools["search_text"]("needle", ignore_case=True)


def test_links_in_a_circle_hide_nothing_and_are_no_text(tools: dict[str, ToolSpec], root: Path) -> None:
    (root / "src" / "circle").symlink_to("circle")
    (root / "src" / "around").symlink_to(root / "src")
    assert tools["search_text"]("needle") == "src/a.py:2: # needle one"
    assert tools["list_files"]("src").splitlines() == ["src/a.py", "src/circle", "src/deep/b.py"]
    with pytest.raises(ToolError, match="'src/circle' does not exist in the workspace"):
        tools["read_file"]("src/circle")


def test_what_is_missing_or_no_text_file_is_said(tools: dict[str, ToolSpec], root: Path) -> None:
    os.mkfifo(root / "pipe")
    for path, message in (
        ("nowhere.py", "does not exist in the workspace"),
        ("src", "is not a file"),
        ("blob.bin", "is not a text file"),
        ("pipe", "is not a file"),
    ):
        with pytest.raises(ToolError, match=message):
            tools["read_file"](path)
    with pytest.raises(ToolError, match="is not a folder"):
        tools["list_files"]("notes.md")
    with pytest.raises(ToolError, match="offset 2000 is past its end"):
        tools["read_file"]("notes.md", 2000)
    with pytest.raises(ToolError, match="expected offset >= 1 and 1 <= limit <= 400"):
        tools["read_file"]("notes.md", 0)
    with pytest.raises(ToolError, match="the pattern is empty"):
        tools["search_text"]("")


def test_what_is_too_large_is_refused_or_cut_and_says_so(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "MAX_FILE_BYTES", 5000)
    monkeypatch.setattr(workspace, "MAX_ENTRIES", 2)
    monkeypatch.setattr(workspace, "MAX_MATCHES", 3)
    monkeypatch.setattr(workspace, "MAX_LINE_CHARS", 10)
    tools = workspace_tools(root)
    with pytest.raises(ToolError, match="bytes, more than the 5,000 that are read"):
        tools["read_file"]("notes.md")
    assert tools["list_files"]().splitlines()[-1] == "(the first 2 files; narrow the path or the pattern)"
    assert tools["read_file"]("src/a.py", 2) == "# needle o (2 more)"
    monkeypatch.setattr(workspace, "MAX_FILE_BYTES", 50_000)
    assert tools["search_text"]("line").splitlines()[-1] == "(the first 3 matches; narrow the search)"


def test_the_root_must_be_a_folder(root: Path) -> None:
    with pytest.raises(SettingError, match="is not a folder"):
        workspace_tools(root / "notes.md")
