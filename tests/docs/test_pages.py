"""Every block of code in the documentation runs, and prints what the page says; what does not run is listed here."""

import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import matplotlib.pyplot as plt
import pytest

from tests.support.canary import CANARY
from tests.support.model_server import Answer, Asked, ModelServer, stream
from tests.support.pages import blocks_of, pages, run_page
from tests.support.project import ROOT
from tests.support.sse_cases import body

OWN: Final = {
    "README": "tests/docs/test_readme.py",
    "llama_cpp": "tests/docs/test_llama_cpp_page.py",
    "howto/guard_claude_code": "tests/docs/test_hook_page.py",
}
"""Pages that have a test of their own, which runs their Python."""

NOT_RUN: Final = Counter(
    {
        ("README", "sets up the whole checkout, and reads the logs of this machine"): 1,
        **{
            ("howto/guard_my_own_loop", f"runs where {package} is installed"): 1
            for package in ("langchain", "pydantic-ai-slim", "openai-agents", "smolagents")
        },  # `make conformance` runs them, and tests/integrations holds the page to it
        ("howto/label_my_sessions", "reads the logs of this machine"): 1,
        ("howto/label_my_sessions", "asks a person"): 2,
        ("howto/run_on_a_cluster", "needs a cluster"): 4,
        ("howto/run_on_a_cluster", "starts a process for each core"): 1,
        ("howto/use_a_real_model", "needs an API key"): 1,
        ("howto/watch_a_fleet", "follows logs until Ctrl-C"): 2,
        ("llama_cpp", "compiles llama.cpp"): 1,
        ("llama_cpp", "needs llama.cpp"): 3,
        ("local_model", "installs packages and a model"): 1,
        ("local_model", "needs llama.cpp; a slow test runs it"): 1,
        ("onpolicy", "takes some 10 hours"): 1,
        ("many_machines", "starts a process for each core"): 1,
        ("many_machines", "needs a cluster"): 2,
        ("real_models", "needs an API key"): 1,
        ("sweeps", "needs a cluster"): 1,
        ("tour", "reads the logs of this machine"): 1,
        ("tour", "for the shell of its reader"): 1,  # tests/cli/test_completion.py runs it in bash
        ("tutorial", "installs packages"): 1,
    }
)
"""What is not run, and why: pages, reasons, and how many blocks."""

URL: Final = "http://127.0.0.1:8000"

PAGES: Final = {name: path.read_text(encoding="utf-8") for name, path in pages().items()}
TO_RUN: Final = [
    name
    for name, page in PAGES.items()
    if name not in OWN and any(block.is_code and not block.not_run for block in blocks_of(page))
]


def said(asked: Asked) -> Answer:
    """What the server of a page says: a text, as a stream."""
    return stream(body("llama_cpp_text_stop.txt"))


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """What the Python of a page knows, in an empty folder that is also the home, beside the shipped data."""
    for name in ("agents", "datasets"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for variable, value in {
        "HOME": str(tmp_path),
        "MPLBACKEND": "Agg",
        "OPENROUTER_API_KEY": CANARY,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }.items():
        monkeypatch.setenv(variable, value)
    known = set(sys.modules)
    kept: dict[str, Any] = {"__name__": "__main__", "display": lambda *_: None}
    yield kept
    kept.clear()  # so that connections of its models are closed here, and not when they are collected
    plt.close("all")
    for name in set(sys.modules) - known:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
@pytest.mark.filterwarnings("ignore:More than 20 figures")  # the gallery draws all of them
@pytest.mark.parametrize("name", TO_RUN)
def test_every_block_of_the_page_runs_and_prints_as_written(name: str, tmp_path: Path, names: dict[str, Any]) -> None:
    if URL in PAGES[name]:
        with ModelServer(reply=said) as server:
            assert list(run_page(name, tmp_path, names, {URL: server.url})) == []
    else:
        assert list(run_page(name, tmp_path, names, {})) == []


def test_what_is_not_run_is_what_is_said_here() -> None:
    marked = Counter(
        (name, block.not_run) for name, page in PAGES.items() for block in blocks_of(page) if block.not_run
    )
    assert marked == NOT_RUN


@pytest.mark.parametrize("name", PAGES)
def test_the_files_that_the_page_links_are_there(name: str) -> None:
    folder = pages()[name].parent
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", PAGES[name]):
        assert (folder / target).exists(), target
