from __future__ import annotations

from boolab.widgets._base.run_texts import in_words, shown, sizes_of
from boolab.widgets._base.standalone_html import too_large


def test_placeholder_is_not_shown() -> None:
    assert shown("Hello") == "Hello"
    assert not shown("<redacted text 5: 80 chars>")


def test_sizes_are_of_texts_not_on_record() -> None:
    assert sizes_of(text="Hello", arguments="<redacted arguments 9: 340 chars>") == {"arguments": 340}


def test_text_not_on_record_is_its_length() -> None:
    assert in_words("Hello") == "Hello"
    assert in_words("<redacted text 5: 80 chars>") == "not on record, 80 characters"


def test_page_that_is_too_large_names_its_size() -> None:
    assert "3,000,000 characters" in too_large("." * 3_000_000)
