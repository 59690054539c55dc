"""The released packages: the driver of each, run in the package's own environment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from benchmarks.conformance.observation import Observation, Released
from benchmarks.conformance.scenarios import Scenario
from benchmarks.environments import answer

DRIVERS: Final = Path(__file__).parent / "peers"
PLAY_S: Final = 600


def observe(python: Path, package: str, scenarios: Sequence[Scenario]) -> Released:
    """Play scenarios through a released package.

    Args:
        python: The Python that has it.
        package: The distribution.
        scenarios: All of this package.

    Raises:
        Skipped: if the driver fails as a whole; how a single scenario ends is an observation.
    """
    driver = DRIVERS / f"{package.replace('-', '_')}_peer.py"
    said = answer(python, driver, [asdict(one) for one in scenarios], PLAY_S)
    observations = (Observation(**one) for one in said["observations"])
    return Released(said["version"], {one.name: o for one, o in zip(scenarios, observations, strict=True)})
