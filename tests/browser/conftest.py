"""Fixtures of the browser tests: a Chromium, pages from files without a network, and a real JupyterLab."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from tests.browser.chromium import PATIENCE_MS, Watch, started
from tests.browser.lab import Lab, lab_in


class HasPage(Protocol):
    """A widget, for its page."""

    def to_html(self) -> str:
        """The page."""


class PageOf(Protocol):
    """Open a page from a file."""

    def __call__(
        self,
        shown: HasPage | str,
        theme: str = "light",
        *,
        width: int = 1080,
        height: int = 800,
        zoom: int = 1,
        javascript: bool = True,
    ) -> Page:
        """Open it."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser for the tests of one module: see `started` for why not of all."""
    with started() as browser:
        yield browser


@pytest.fixture
def page_of(chromium: Browser, tmp_path: Path) -> Iterator[PageOf]:
    """Opens pages from files, without a network; none of them may complain, ask the user, or ask another machine."""
    contexts: list[BrowserContext] = []
    watches: list[Watch] = []

    def open_page(
        shown: HasPage | str,
        theme: str = "light",
        *,
        width: int = 1080,
        height: int = 800,
        zoom: int = 1,
        javascript: bool = True,
    ) -> Page:
        path = tmp_path / f"page{len(contexts)}.html"
        text = shown if isinstance(shown, str) else shown.to_html()
        path.write_text(text, "utf-8")
        context = chromium.new_context(
            offline=True,
            color_scheme="dark" if theme == "dark" else "light",
            viewport={"width": width // zoom, "height": height // zoom},
            device_scale_factor=zoom,
            java_script_enabled=javascript,
        )
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        watches.append(Watch(context))
        page = context.new_page()
        page.goto(f"{path.as_uri()}#{theme}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [one for watch in watches for one in watch.seen] == []


@pytest.fixture(scope="module")
def lab(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A real JupyterLab in a browser; its pages may not complain, ask the user, or ask another machine."""
    with lab_in(chromium, tmp_path_factory.mktemp("lab")) as running:
        yield running
    assert running.watch.seen == []
