"""Coverage of trials in simulation, at every look; `make trials` measures it with 500 trials of each world."""

import pytest

from benchmarks.trials import WORLDS, World, tried
from boolab.stats.intervals import clopper_pearson

TRIALS = 60


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS, ids=[world.name for world in WORLDS])
def test_interval_covers_the_truth_at_each_look(world: World) -> None:
    covered = 0
    for seed in range(TRIALS):
        looks = tried(world, seed).looks
        truth = looks["gain_low"].iloc[-1]
        covered += bool(((looks["gain_low"] <= truth) & (truth <= looks["gain_high"])).all())
    assert clopper_pearson(covered, TRIALS).high >= 0.95


@pytest.mark.parametrize(("place", "sign"), [(0, 0), (1, 1), (2, 1), (3, -1)], ids=[world.name for world in WORLDS])
def test_each_world_has_the_gain_that_its_name_promises(place: int, sign: int) -> None:
    gain = float(tried(WORLDS[place], 0).gain.low)
    assert (gain > 0) - (gain < 0) == sign
