from __future__ import annotations

from boolab.display.numbers import count_span, floor_percent, format_all, money, percents, short_number, size, span


def test_count_span_of_equal_bounds_is_one_number() -> None:
    assert count_span(1, 1, "run") == "1 run"
    assert count_span(1, 1200, "run") == "1-1,200 runs"


def test_all_of_has_words_for_one_and_two() -> None:
    assert format_all(1, "run") == "The one run"
    assert format_all(2, "run") == "Both runs"
    assert format_all(3, "run") == "All 3 runs"


def test_span_of_equal_bounds_is_one_number() -> None:
    assert span(21, 21) == "21"
    assert span(17, 18) == "17-18"


def test_short_number_counts_thousands_and_millions() -> None:
    assert short_number(9_999) == "9,999"
    assert short_number(12_345) == "12.3k"
    assert short_number(19_200_000) == "19.2M"


def test_money_below_ten_cents_has_four_decimals() -> None:
    assert money(0.0314) == "$0.0314"
    assert money(5) == "$5.00"


def test_percents_of_a_column_have_one_form() -> None:
    assert percents([0.92, 0.84, None, 0, 0.0003]) == ["92.0%", "84.0%", "", "0.0%", "<0.1%"]
    assert percents([0.42, 1.0]) == ["42%", "100%"]


def test_rounded_down_share_is_never_more_than_it_is() -> None:
    assert floor_percent(0.9499) == "94.9%"
    assert floor_percent(0.95) == "95.0%"
    assert floor_percent(1) == "100%"


def test_size_is_in_the_largest_unit() -> None:
    assert size(900) == "900 B"
    assert size(1_976_708) == "2.0 MB"
