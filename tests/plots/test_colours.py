"""The colours of stop reasons differ enough for colour-blind readers too.

The matrices simulate full deuteranopia and protanopia (Machado, Oliveira and Fernandes 2009, severity 1). Distances are
in OKLab, where the lightness of black and white differs by 1.
"""

from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from boolab.display.colours import TOOL_COLOURS
from boolab.plots.palette import CALL_LOOKS, STOP_LOOKS

VISIONS = {
    "normal": np.eye(3),
    "deuteranopia": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                              [-0.011820, 0.042940, 0.968881]]),
    "protanopia": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                            [-0.003882, -0.048116, 1.051998]]),
}  # fmt: skip
OKLAB = (
    np.array([[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
              [0.0883024619, 0.2817188376, 0.6299787005]]),
    np.array([[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099],
              [0.0259040371, 0.7827717662, -0.8086757660]]),
)  # fmt: skip
FREQUENT = ("finished", "step_cap", "tool_budget", "doom_loop", "error")
FILLS = {name: look.fill for name, look in STOP_LOOKS.items() if look.fill != "none"}
BUDGETS = [name for name in FILLS if name.endswith("budget") or name == "step_cap"]


def seen(color: str, vision: str) -> Any:
    """A colour as it is seen: its lightness and two axes of hue."""
    coded = np.array(to_rgb(color))
    linear = np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)
    return OKLAB[1] @ np.cbrt(OKLAB[0] @ np.clip(VISIONS[vision] @ linear, 0, 1))


def distance(one: str, other: str, vision: str) -> float:
    return float(np.linalg.norm(seen(one, vision) - seen(other, vision)))


@pytest.mark.parametrize("vision", VISIONS)
def test_no_two_stop_reasons_are_close(vision: str) -> None:
    assert min(distance(a, b, vision) for a, b in combinations(FILLS.values(), 2)) > 0.06


@pytest.mark.parametrize("vision", VISIONS)
def test_the_frequent_stop_reasons_are_far_apart(vision: str) -> None:
    assert min(distance(FILLS[a], FILLS[b], vision) for a, b in combinations(FREQUENT, 2)) > 0.1


def test_budgets_differ_in_lightness() -> None:
    levels = sorted(float(seen(FILLS[name], "normal")[0]) for name in BUDGETS)
    assert min(np.diff(levels)) > 0.06


def test_stop_reasons_are_not_the_colours_of_tools() -> None:
    assert min(distance(a, b, "normal") for a, b in product(FILLS.values(), TOOL_COLOURS.values())) > 0.05


@pytest.mark.parametrize("vision", VISIONS)
def test_results_of_calls_are_far_apart(vision: str) -> None:
    fills = [look.fill for look in CALL_LOOKS.values() if look.fill != "none"]
    assert min(distance(a, b, vision) for a, b in combinations(fills, 2)) > 0.1


def test_no_area_is_a_garish_yellow() -> None:
    chroma = {name: seen(fill, "normal")[1:] for name, fill in FILLS.items()}
    assert not [name for name, (a, b) in chroma.items() if 80 < np.degrees(np.arctan2(b, a)) < 115 and b > 0.12]
