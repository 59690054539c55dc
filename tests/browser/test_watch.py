"""What the browser tests rely on: that nothing which a page does against the rules goes unnoticed."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser import chromium as finding
from tests.browser.chromium import PATIENCE_MS, Watch, needed_program
from tests.support.project import ROOT

BAD = {
    "a logged error": ("<script>console.error('broken')</script>", "console error: broken"),
    "a logged warning": ("<script>console.warn('odd')</script>", "console warning: odd"),
    "an error that nobody caught": ("<script>throw new Error('lost')</script>", "page error: "),
    "a broken promise": ("<script>Promise.reject(new Error('late'))</script>", "page error: "),
    "a question to the user": ("<script>alert('yes?')</script>", "dialog: alert yes?"),
    "a picture from elsewhere": ("<img src='http://127.0.0.1:47321/a.png'>", "request: http://127.0.0.1:47321/a.png"),
    "what a frame asks of another machine": (
        """<iframe sandbox srcdoc="<img src='http://192.0.2.1/b.png'>"></iframe>""",
        "console error: Failed to load resource: net::ERR_PROXY_CONNECTION_FAILED",
    ),
    "a web socket": ("<script>new WebSocket('ws://127.0.0.1:47321/c')</script>", "web socket: ws://127.0.0.1:47321/c"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("body", "complaint"), BAD.values(), ids=BAD)
def test_a_watch_sees(body: str, complaint: str, chromium: Browser, tmp_path: Path) -> None:
    (tmp_path / "bad.html").write_text(f"<!doctype html><title>bad</title>{body}")
    context = chromium.new_context()
    watch = Watch(context)
    page = context.new_page()
    page.goto((tmp_path / "bad.html").as_uri())
    until = time.monotonic() + PATIENCE_MS / 1000
    while not any(one.startswith(complaint) for one in watch.seen) and time.monotonic() < until:
        page.evaluate("() => new Promise((go) => requestAnimationFrame(() => setTimeout(go)))")
    context.close()
    assert any(one.startswith(complaint) for one in watch.seen), watch.seen


def test_missing_browser_skips_with_advice_and_fails_in_ci(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BOOLAB_CHROMIUM", "/nowhere/chromium")
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="apt-get install chromium"):
        needed_program()
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="apt-get install chromium"):
        needed_program()


def test_browser_is_found_by_each_name_and_by_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = tmp_path / "google-chrome"
    shutil.copy(sys.executable, other)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("BOOLAB_CHROMIUM", raising=False)
    assert finding.program() == str(other)
    monkeypatch.setenv("BOOLAB_CHROMIUM", sys.executable)
    assert finding.program() == sys.executable


@pytest.mark.skipif(not (ROOT / ".ci").exists(), reason="a source distribution sets up no checkout")
def test_make_test_explains_a_missing_browser_in_one_line(tmp_path: Path) -> None:
    """With nothing on the path but a shell's own tools, there is no browser and no apt."""
    for name in ("sh", "id"):
        (tmp_path / name).symlink_to(shutil.which(name) or "")
    script, path = ROOT / ".ci/chromium", {"PATH": str(tmp_path)}
    done = subprocess.run(["/bin/sh", script], env=path, capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "BOOLAB_CHROMIUM" in done.stderr
