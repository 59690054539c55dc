"""Checks a built site: every link within it leads somewhere, and no page loads anything from elsewhere.

Usage: python docs/site/check.py FOLDER
"""  # noqa: INP001 - a script of `make docs`

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

_LOADS: Final = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "link": "href"}
"""Which attribute of which element makes a browser load something."""
_FROM_STYLE: Final = re.compile(r"@import\s+[\"']?([^\"');]+)|url\(\s*[\"']?([^\"')]+)")


class Page(HTMLParser):
    """What a page loads, where its links lead, and the places in it that links can lead to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.places |= {given[name] for name in ("id", "name") if name in given}
        if _LOADS.get(tag) in given:
            self.loads.append(given[_LOADS[tag]])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])


def faults(site: Path) -> Iterator[str]:
    """What is wrong with a site, one line each."""
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    if not pages:
        yield f"{site} holds no page"
    for path, page in pages.items():
        for address in (*page.loads, *page.links):
            wrong = None if urlsplit(address).scheme or is_elsewhere(address) else _wrong(path, address, pages)
            if address in page.loads and is_elsewhere(address):
                wrong = "is on another machine"
            if wrong is not None:
                yield f"{path}: {address} {wrong}"
    for path in sorted(site.rglob("*.css")):
        for found in _FROM_STYLE.finditer(path.read_text(encoding="utf-8")):
            if is_elsewhere(found[1] or found[2]):
                yield f"{path}: {found[1] or found[2]} is on another machine"


def _wrong(path: Path, address: str, pages: Mapping[Path, Page]) -> str | None:
    """What is wrong with an address within the site, on the page at `path`."""
    parts = urlsplit(address)
    there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not there.exists():
        return "does not exist"
    if parts.fragment and there in pages and unquote(parts.fragment) not in pages[there].places:
        return "is a place that its page does not have"
    return None


def is_elsewhere(address: str) -> bool:
    """Whether an address is on another machine."""
    return urlsplit(address).netloc != ""


def main() -> int:
    """Print what is wrong; the exit code says whether anything is."""
    found = [*faults(Path(sys.argv[1]))]
    for line in found:
        sys.stderr.write(f"{line}\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
