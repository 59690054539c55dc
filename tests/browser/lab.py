"""A real JupyterLab: its own server, settings and folders, opened in a browser and driven by its own commands."""

import ast
import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, Locator, Page

from tests.browser.chromium import INSIDE, PATIENCE_MS, Watch
from tests.support.notebooks import code_cell, notebook

FOLDERS: Final = (
    "JUPYTER_CONFIG_DIR",
    "JUPYTER_DATA_DIR",
    "JUPYTER_RUNTIME_DIR",
    "IPYTHONDIR",
    "JUPYTERLAB_SETTINGS_DIR",
    "JUPYTERLAB_WORKSPACES_DIR",
)
NO_NEWS: Final = '{"fetchNews": "false", "checkForUpdates": false}'
"""A question about news would cover the page."""
VERSIONS: Final = ("of shared singleton module", "No satisfying version")
"""What an old JupyterLab says of each module that the newest manager of widgets was built with in a newer version."""
ENDED: Final = (
    "Could not restore the debugger state: Canceled future",
    "History was unable to be retrieved",
    "Subshell identifier not available in the closeout sequence",
    "WebSocket is closed before the connection is established",
)
"""What JupyterLab says when a kernel ends before it has answered what it was asked at its start."""
SLOW: Final = "is taking too long to activate"
"""What JupyterLab says of each of its parts on a machine with much else to do."""
NO_MODEL: Final = "widget model not found"
"""What JupyterLab may say of each live view in a notebook without a kernel: it depends on which of two loads first."""
START_S: Final = 60
END_S: Final = 10

_OPEN: Final = """async ([path, kernel]) => {
  const app = window.jupyterapp;
  const panel = await app.commands.execute("docmanager:open", {path, factory: "Notebook", kernel: {name: kernel}});
  await panel.context.ready;
  await panel.sessionContext.ready;
  await panel.sessionContext.session.kernel.info;
}"""
_END_KERNELS: Final = "async () => { await window.jupyterapp.serviceManager.sessions.shutdownAll(); }"
_OPEN_WITHOUT_KERNEL: Final = """async (path) => {
  const app = window.jupyterapp;
  await app.commands.execute("docmanager:close-all").catch(() => {});
  const kernelPreference = { shouldStart: false, canStart: false, autoStartDefault: false };
  const panel = await app.commands.execute("docmanager:open", { path, factory: "Notebook", kernelPreference });
  await panel.context.ready;
}"""
_RUN: Final = """async () => {
  const app = window.jupyterapp;
  await app.commands.execute("notebook:run-all-cells");
  const cells = app.shell.currentWidget.content.widgets.map((cell) => cell.model.toJSON());
  return cells.flatMap((cell) => cell.outputs ?? []).find((one) => one.output_type === "error")?.traceback ?? null;
}"""
_ASK: Final = """async (expression) => {
  const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
  const asked = { code: "", user_expressions: { answer: expression }, store_history: false };
  const reply = await kernel.requestExecute(asked).done;
  const { data, evalue } = reply.content.user_expressions.answer;
  if (!data) throw new Error(`${expression}: ${evalue}`);
  return data["text/plain"];
}"""
_SCROLL: Final = "async (cell) => { await window.jupyterapp.shell.currentWidget.content.scrollToItem(cell, 'start'); }"


class Lab:
    """A JupyterLab in a browser."""

    def __init__(self, page: Page, folder: Path, watch: Watch) -> None:
        self.page = page
        self.folder = folder
        self.watch = watch

    def write(self, name: str, cells: Sequence[str]) -> Path:
        """A notebook in the folder, with these cells."""
        path = self.folder / name
        path.write_text(notebook(*map(code_cell, cells)), encoding="utf-8")
        return path

    def open(self, notebook: Path) -> None:
        """Open a notebook of the folder, with a kernel that is ready."""
        self.page.evaluate(_OPEN, [notebook.relative_to(self.folder).as_posix(), "python3"])
        self.notebook.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").wait_for()

    def open_again(self, notebook: Path) -> None:
        """Save the notebook that is open, end its kernel, load the page anew, and open it without a kernel."""
        self.command("docmanager:save")
        self.page.evaluate(_END_KERNELS)
        self.page.reload()
        self.page.wait_for_function("window.jupyterapp && window.jupyterapp.restored", timeout=4 * PATIENCE_MS)
        self.page.evaluate("async () => { await window.jupyterapp.restored; }")
        self.watch.expect(NO_MODEL)
        self.page.evaluate(_OPEN_WITHOUT_KERNEL, notebook.relative_to(self.folder).as_posix())

    @property
    def notebook(self) -> Locator:
        """The notebook that is open."""
        return self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")

    def command(self, name: str, **arguments: Any) -> None:
        """Do what an entry of a menu does."""
        self.page.evaluate("async ([name, given]) => { await window.jupyterapp.commands.execute(name, given); }",
                           [name, arguments])  # fmt: skip

    def run_all(self) -> None:
        """Run all cells, and wait until the last one has. A cell that failed is an error."""
        failed = self.page.evaluate(_RUN)
        if failed is not None:
            raise AssertionError("\n".join(failed))

    def cell(self, number: int) -> Locator:
        """The output of a cell (from 0), scrolled to."""
        self.page.evaluate(_SCROLL, number)
        return self.notebook.locator(f".jp-Cell[data-windowed-list-index='{number}'] .jp-Cell-outputArea")

    def ask(self, expression: str) -> Any:
        """What an expression is worth in the notebook's kernel, after all that the page has told it by now."""
        return json.loads(ast.literal_eval(self.page.evaluate(_ASK, f"__import__('json').dumps({expression})")))

    def becomes(self, expression: str, value: object) -> None:
        """Wait until an expression has a value in the kernel."""
        until = time.monotonic() + PATIENCE_MS / 1000
        while (found := self.ask(expression)) != value and time.monotonic() < until:
            self.page.evaluate("() => new Promise(requestAnimationFrame)")
        assert found == value

    def theme(self, name: str) -> None:
        """Switch to a theme: JupyterLab Light or JupyterLab Dark."""
        self.command("apputils:change-theme", theme=name)
        light = "false" if "Dark" in name else "true"
        self.page.locator(f"body[data-jp-theme-light={light}]").wait_for(state="attached")
        # A second switch before its splash is gone is an error of JupyterLab itself.
        self.page.locator("#jupyterlab-splash").wait_for(state="detached")


@contextmanager
def lab_in(browser: Browser, folder: Path) -> Iterator[Lab]:
    """A JupyterLab whose files are all in a folder."""
    work = folder / "work"
    work.mkdir()
    environment = {**os.environ, **{name: str(folder / name.lower()) for name in FOLDERS}}
    settings = folder / "jupyterlab_settings_dir" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text(NO_NEWS)
    token, port = secrets.token_hex(16), _free_port()
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={token}",
        f"--ServerApp.root_dir={work}", "--LabApp.expose_app_in_browser=True",
    ]  # fmt: skip
    url = f"http://127.0.0.1:{port}/"
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        _wait_for(url, token, server, folder / "server.log")
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        context.set_default_timeout(PATIENCE_MS)
        watch = Watch(context, home=(url, url.replace("http", "ws"), *INSIDE), known=(*VERSIONS, *ENDED, SLOW))
        page = context.new_page()
        page.goto(f"{url}lab?token={token}")
        page.wait_for_function("window.jupyterapp && window.jupyterapp.restored", timeout=4 * PATIENCE_MS)
        page.evaluate("async () => { await window.jupyterapp.restored; }")
        yield Lab(page, work, watch)
        page.evaluate(_END_KERNELS)
        context.close()
    finally:
        server.terminate()
        try:
            server.wait(END_S)
        except subprocess.TimeoutExpired:  # a thread that has read or written a file may outlive its event loop
            server.kill()
            server.wait()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _wait_for(url: str, token: str, server: subprocess.Popen[bytes], log: Path) -> None:
    asking = urllib.request.Request(f"{url}api/status", headers={"Authorization": f"token {token}"})  # noqa: S310
    until = time.monotonic() + START_S
    while time.monotonic() < until and server.poll() is None:
        try:
            with urllib.request.urlopen(asking, timeout=START_S):  # noqa: S310 - the loopback interface
                return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)  # nothing tells when another program listens
    raise AssertionError(log.read_text(errors="replace")[-4000:])
