from __future__ import annotations

from boolab.harnesses.harness import is_amount, number_of
from boolab.harnesses.native_limits import find_limit, native_names
from boolab.harnesses.presets import get_policy


def test_number_of_reads_digits_alone() -> None:
    assert number_of("30") == 30
    assert number_of("many") == "many"
    assert number_of(3.5) == 3.5


def test_amount_is_a_finite_number_above_zero() -> None:
    assert is_amount(0.5)
    assert not is_amount(True)
    assert not is_amount(-1)
    assert not is_amount(float("nan"))


def test_limit_is_found_with_hyphens_and_dashes() -> None:
    known = native_names("claude_code", get_policy("claude_code"))
    assert find_limit("--max-turns", known) == "max_turns"
    assert find_limit("steps", known) is None
