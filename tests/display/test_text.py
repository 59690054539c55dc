from __future__ import annotations

from boolab.display.text import MAX_WIDTH, align_columns, line_width, with_short_words, wrap_if_long, wrap_text


def test_word_of_thousands_of_characters_is_shortened() -> None:
    assert with_short_words(f"{'9' * 5000} is not accepted")[-35:] == "999… (5,000 in all) is not accepted"


def test_line_width_has_a_limit() -> None:
    assert 0 < line_width() <= MAX_WIDTH


def test_wrapped_lines_align_below_a_bullet() -> None:
    assert wrap_text("One two three.", 9, "- ") == "- One two\n  three."


def test_only_a_long_message_is_wrapped() -> None:
    assert wrap_if_long("boolab: there is no run 7") == "boolab: there is no run 7"
    assert wrap_if_long("word " * 50).count("\n") > 1


def test_aligned_columns_are_two_spaces_apart() -> None:
    assert align_columns([["", "runs"], ["codex", "12"]]) == ["       runs", "codex    12"]
