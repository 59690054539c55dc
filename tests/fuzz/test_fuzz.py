"""A seeded slice of what `make fuzz` tries, and that the machinery finds what it is made to find."""

import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings

from boolab.errors import ReadWarning, RunFormatError
from boolab.logs.log_files import readers
from tests.fuzz import contract
from tests.fuzz.contract import SECONDS, hold
from tests.fuzz.drawn import DRAWING, inputs
from tests.fuzz.log import opened
from tests.fuzz.mutation import json_or_lines
from tests.fuzz.target import Act, Target
from tests.fuzz.targets import TARGETS
from tests.fuzz.trees import parsed, written

SLICE = 6
"""How many inputs a target gets here; each takes some milliseconds."""


@pytest.mark.parametrize("name", TARGETS)
def test_what_nobody_would_write_is_read_or_refused(name: str) -> None:
    target = TARGETS[name]
    with opened(target) as act:

        @settings(DRAWING, max_examples=SLICE, derandomize=True)
        @given(inputs(target))
        def attempt(data: bytes) -> None:
            held = hold(lambda: act(data), len(data))
            assert not held.fault, f"{held.fault} ({held.place})"

        attempt()


@pytest.mark.parametrize("name", [name for name in TARGETS if name != "http"])
def test_the_seeds_are_read(name: str) -> None:
    """Of inputs that are refused as a whole, no change says anything."""
    target = TARGETS[name]
    assert target.seeds
    with opened(target) as act:
        for data in target.seeds:
            held = hold(lambda data=data: act(data), len(data))  # type: ignore[misc] # it is bound at once
            assert held.read, held.fault or "refused"


def test_every_format_of_logs_is_tried() -> None:
    assert set(readers()) - {"store"} <= set(TARGETS)


def test_the_same_number_makes_the_same_inputs() -> None:
    for target in TARGETS.values():
        once, again = ([target.mutated(target.seeds[0], Random(n)) for n in range(5)] for _ in range(2))
        assert once == again


def test_a_tree_that_nothing_was_changed_in_is_the_same_text() -> None:
    for data in TARGETS["tau_bench"].seeds:
        text = data[2:].decode()
        assert parsed(written(parsed(text))) == parsed(text)


def _raise(error: BaseException) -> None:
    raise error


def _spin() -> None:
    begin = time.process_time()
    while time.process_time() - begin < 10 * SECONDS:
        pass


def _swallow() -> None:
    try:
        _spin()
    except Exception:  # noqa: BLE001 - as a reader might
        pytest.fail("a time limit was taken for an error")


@pytest.mark.parametrize(
    ("act", "fault"),
    [
        (lambda: _raise(KeyError("x")), "KeyError: 'x'"),
        (lambda: _raise(RecursionError()), "RecursionError: "),
        (lambda: _raise(SystemExit(1)), "SystemExit: 1"),
        (lambda: warnings.warn("old", DeprecationWarning, stacklevel=1), "DeprecationWarning: old"),
        (lambda: _raise(RunFormatError("damaged")), ""),
        (lambda: warnings.warn("skipped", ReadWarning, stacklevel=1), ""),
        (lambda: None, ""),
    ],
)
def test_what_is_a_fault_and_what_is_none(act: Callable[[], None], fault: str) -> None:
    assert hold(act, 1).fault == fault


def test_slow_input_is_a_fault_even_if_errors_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "SECONDS", 0.05)
    assert hold(_swallow, 1).fault == "TooSlowError: not done after 0.05 s of CPU time"


def test_an_input_that_takes_much_memory_is_a_fault() -> None:
    """In a process of its own, as it is judged by the most memory that a process ever had."""
    program = "from tests.fuzz.contract import hold; print(hold(lambda: len(b'x' * 2**28), 1000).fault)"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.endswith("bytes of memory for an input of 1,000\n")


def test_a_fault_is_kept_with_the_command_that_shows_it_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.fuzz import log as module

    monkeypatch.setattr(module, "OUT", tmp_path / "out" / "fuzz")

    @contextmanager
    def broken(_folder: Path) -> Iterator[Act]:
        yield lambda data: _raise(KeyError(data))

    opening: Callable[[Path], AbstractContextManager[Act]] = broken
    target = Target("broken", opening, lambda: [b"{}"], json_or_lines)
    log = module.Log("broken", "drawn")
    with opened(target) as act:
        for data in (b"a", b"b"):
            log.tried(act, data)
    log.save()
    ((told, again),) = module.Log.load(log.path).faults.values()
    assert told == "KeyError: b'a'"
    assert (tmp_path / again.split()[-1]).read_bytes() == b"a"


def test_an_input_that_ends_the_process_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.fuzz import log as module

    monkeypatch.setattr(module, "OUT", tmp_path / "out" / "fuzz")
    log = module.Log("broken", "drawn")
    log.tried(lambda _: None, b"last")
    log.ended(-6, "terminate called")
    ((told, again),) = module.Log.load(log.path).faults.values()
    assert told == "it ended with -6: terminate called"
    assert (tmp_path / again.split()[-1]).read_bytes() == b"last"
    module.Log("broken", "drawn").ended(0, "")
    assert not log.latest.exists()
