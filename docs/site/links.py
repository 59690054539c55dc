"""Checks the links of the Markdown sources: each leads to a file, and to a heading of it, that is there.

Usage: python docs/site/links.py FOLDER

The built site is checked by `check.py`; this needs no build, and sees the links that GitHub shows.
"""  # noqa: INP001 - a script of `make links`

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

_MARKDOWN: Final = MarkdownIt("commonmark").enable("table")
_NOT_IN_ANCHORS: Final = re.compile(r"[^\w\- ]")


class _Anchors(HTMLParser):
    """The targets of links and the places that links can lead to, in HTML within Markdown."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if link := values.get({"a": "href", "img": "src", "source": "srcset"}.get(tag, "")):
            self.links.append(link)


class Page:
    """The links and anchors of a Markdown text, as GitHub makes them."""

    def __init__(self, text: str) -> None:
        self.links: list[tuple[int, str]] = []
        self.anchors: set[str] = set()
        slugs: Counter[str] = Counter()
        tokens = _MARKDOWN.parse(text)
        for index, token in enumerate(tokens):
            if token.type == "heading_open":
                slug = _slug(tokens[index + 1])
                self.anchors.add(f"{slug}-{slugs[slug]}" if slugs[slug] else slug)
                slugs[slug] += 1
            line = 0 if token.map is None else token.map[0] + 1
            for part in (token, *(token.children or ())):
                self._read(part, line)

    def _read(self, token: Token, line: int) -> None:
        for name in ("href", "src"):
            if name in token.attrs:
                self.links.append((line, str(token.attrs[name])))
        if token.type in ("html_block", "html_inline"):
            html = _Anchors()
            html.feed(token.content)
            self.links += [(line, link) for link in html.links]
            self.anchors |= html.anchors


def _slug(heading: Token) -> str:
    """The anchor that GitHub gives to a heading."""
    text = "".join(part.content for part in heading.children or () if part.type in ("text", "code_inline"))
    return _NOT_IN_ANCHORS.sub("", text.strip().lower()).replace(" ", "-")


def text_of(path: Path) -> str:
    """The Markdown of a page, or of all Markdown cells of a notebook."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text
    cells = json.loads(text)["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def faults(root: Path, paths: list[Path]) -> Iterator[str]:
    """Broken links of these pages below `root`, a line for each."""
    pages = {path.resolve(): Page(text_of(path)) for path in paths}
    for path, page in pages.items():
        for line, link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            why = ""
            if not target.is_relative_to(root.resolve()):
                why = "leads out of the repository"
            elif not target.exists():
                why = "does not exist"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                why = "is a heading that the page does not have"
            if why:
                yield f"{path.relative_to(root.resolve())}:{line}: {link} {why}"


def sources(root: Path) -> list[Path]:
    """The Markdown pages and notebooks that git has."""
    command = ["git", "ls-files", "-z", "*.md", "*.ipynb"]
    names = subprocess.run(  # noqa: S603 - our own command
        command, cwd=root, capture_output=True, text=True, check=True
    ).stdout.split("\0")[:-1]
    return [root / name for name in names if (root / name).is_file()]


def main() -> int:
    """Print the broken links; the exit code says whether there is one."""
    root = Path(sys.argv[1])
    paths = sources(root)
    lines = [*faults(root, paths)]
    sys.stdout.write("\n".join(lines) or f"all links of {len(paths)} pages lead to something")
    sys.stdout.write("\n")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
