"""Inputs that hypothesis draws: `python -m tests.fuzz.drawn TARGET --runs 10000 --seed 1`."""

import argparse
from random import Random
from typing import Final

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.fuzz.log import Log, opened
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS

DRAWING: Final = settings(
    database=None, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
"""Inputs are drawn and never made smaller: that would take longer than to find them."""


def inputs(target: Target) -> st.SearchStrategy[bytes]:
    """Inputs of a target: its seeds, changed."""
    return st.builds(target.mutated, st.sampled_from(target.seeds), st.randoms(use_true_random=False).map(_plain))


def _plain(chance: Random) -> Random:
    return chance


def draw(target: Target, runs: int, number: int) -> Log:
    """Try so many inputs."""
    log = Log(target.name, "drawn")
    with opened(target) as act:

        @seed(number)
        @settings(DRAWING, max_examples=runs)
        @given(inputs(target))
        def attempt(data: bytes) -> None:
            log.tried(act, data)

        attempt()
    log.save()
    return log


def main() -> None:
    """Try one target; the account goes to out/fuzz."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.drawn", description=__doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    given_ = parser.parse_args()
    print(draw(TARGETS[given_.target], given_.runs, given_.seed))  # noqa: T201 - a command


if __name__ == "__main__":
    main()
