"""A real Chromium, and an eye on what its pages do that they should not."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from playwright._impl._driver import compute_driver_executable
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Request, WebSocket, sync_playwright

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
HOW_TO_GET_IT: Final = (
    "no Chromium here: run .ci/chromium as root, or apt-get install chromium fonts-dejavu-core "
    "libatomic1, or name a binary in BOOLAB_CHROMIUM"
)
QUIET: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--proxy-server=127.0.0.1:1",
)
"""It runs as root in containers, without a graphics card, asks nobody for anything of its own, and reaches no other
machine, where it would have to go through a proxy that is not there. What a page asks of one is an error in its
console, also in frames of which playwright tells no requests."""
PATIENCE_MS: Final = 15_000
"""How long a test waits for what must come, on a machine with much else to do."""
INSIDE: Final = ("file:", "data:", "blob:", "about:")
"""Schemes that ask no other machine."""


def program() -> str | None:
    """Where Chromium is: what the environment names, else what is on the path."""
    named = os.environ.get("BOOLAB_CHROMIUM")
    if named:
        return shutil.which(named)
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def needed_program() -> str:
    """Where Chromium is; without it the test is skipped, or fails where everything must be tested."""
    found = program()
    if found is None or not _driven():
        if os.environ.get("CI") == "true":
            pytest.fail(HOW_TO_GET_IT, pytrace=False)
        pytest.skip(HOW_TO_GET_IT)
    return found


def _driven() -> bool:
    """Whether what drives it starts: it needs a library that a bare Debian lacks."""
    command, package = compute_driver_executable()
    return subprocess.run([command, package, "--version"], capture_output=True, check=False).returncode == 0


@contextmanager
def started() -> Iterator[Browser]:
    """A browser. As long as it lives this thread has a running event loop: `asyncio.run` fails in it."""
    path = needed_program()
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=[*QUIET])
        yield browser
        browser.close()


class Watch:
    """What the pages of a context did that they should not: complaints in the console, dialogs, requests elsewhere."""

    def __init__(self, context: BrowserContext, *, home: tuple[str, ...] = INSIDE, known: tuple[str, ...] = ()) -> None:
        self.seen: list[str] = []
        self._home = home
        self._known = known
        context.on("console", self._said)
        context.on("weberror", lambda error: self.seen.append(f"page error: {error.error}"))
        context.on("request", self._asked)
        context.on("dialog", self._asked_the_user)
        context.on("page", lambda page: page.on("websocket", self._connected))

    def expect(self, part: str) -> None:
        """From now on, a complaint with this text is none."""
        self._known += (part,)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not any(part in message.text for part in self._known):
            self.seen.append(f"console {message.type}: {message.text[:2000]} ({message.location.get('url', '')[:200]})")

    def _asked(self, request: Request) -> None:
        if not request.url.startswith(self._home):
            self.seen.append(f"request: {request.url[:500]}")

    def _connected(self, socket: WebSocket) -> None:
        if not socket.url.startswith(self._home):
            self.seen.append(f"web socket: {socket.url[:500]}")

    def _asked_the_user(self, dialog: Any) -> None:
        self.seen.append(f"dialog: {dialog.type} {dialog.message[:500]}")
        dialog.dismiss()
