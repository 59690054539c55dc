from __future__ import annotations

from boolab.widgets._base.run_texts import describe_text, sizes_of, visible_text
from boolab.widgets._base.standalone_html import size_note


def test_placeholder_is_not_shown() -> None:
    assert visible_text("Hello") == "Hello"
    assert not visible_text("<redacted text 5: 80 chars>")


def test_sizes_are_of_texts_not_on_record() -> None:
    assert sizes_of(text="Hello", arguments="<redacted arguments 9: 340 chars>") == {"arguments": 340}


def test_text_not_on_record_is_its_length() -> None:
    assert describe_text("Hello") == "Hello"
    assert describe_text("<redacted text 5: 80 chars>") == "not on record, 80 characters"


def test_page_that_is_too_large_names_its_size() -> None:
    assert "3,000,000 characters" in size_note("." * 3_000_000)
