"""Options of the test-suite, and the canary in its environment."""

import gc
import logging
import os
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.support.canary import CANARY, Listening, files_with, sing
from tests.support.cases import USUAL

OUT = Path(__file__).parent.parent / "out"

# A deadline would be one of the clock, and other tests run beside. What decides whether a change may land tries the
# same cases each time, so that its answer is about the change; `make properties` draws others at random.
settings.register_profile("quick", max_examples=USUAL // 10, deadline=None, derandomize=True)
settings.register_profile("usual", max_examples=2 * USUAL // 5, deadline=None, derandomize=True)
settings.register_profile("thorough", max_examples=8 * USUAL, deadline=None)
settings.load_profile("quick")
sing()  # before any test module is imported: one might look at the environment as it is
gc.set_threshold(50_000, 20, 20)  # the usual 700 would spend a tenth of the time of all tests


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", type=int, default=100, help="how many seeded runs the fault-injecting server gets")
    parser.addoption("--cancel", action="store_true", help="cancel runs in all ways wherever they wait, not in a few")
    parser.addoption("--bombs", action="store_true", help="try the largest inputs: minutes, and gigabytes of disk")
    parser.addoption("--crash", type=int, default=20, help="how often sweeps are killed, half in each way to commit")


def pytest_configure() -> None:
    """Let programs that the tests start hear of signals, also where the tests themselves run in the background.

    Commands in messages begin with `boolab` and `pip`, which are on the PATH, wherever the tests run.
    """
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for examples in docstrings of the package and of the tests' support: tests have none."""
    collectors = yield
    tests = file_path.name.startswith("test_")
    return [one for one in collectors if isinstance(one, pytest.Module) or not tests]


def pytest_collection_finish() -> None:
    """Keep what was imported and collected out of the garbage collector's sight: each collection walks all it sees."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def canary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """After the last test, no file that a test wrote and no line that was logged holds the key of the environment."""
    written = tmp_path_factory.getbasetemp()
    listening = Listening(CANARY)
    logging.getLogger().addHandler(listening)
    yield
    logging.getLogger().removeHandler(listening)
    assert listening.sung_by == []
    assert files_with(CANARY, [written, OUT]) == []


@pytest.fixture(scope="module")
def dask_client() -> Iterator[Any]:
    """A client of a Dask cluster of two processes here, which takes processor time as long as it is there."""
    from tests.support.cluster import local_cluster

    with local_cluster() as client:
        yield client


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let reports be sent from one process to another: a failing test may show half a surrogate pair."""
    report = yield
    if report.longrepr is not None and _writable(text := str(report.longrepr)) != text:
        report.longrepr = _writable(text)
    report.sections = [(name, _writable(text)) for name, text in report.sections]
    return report


def _writable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
