"""Findings: what is shown of them, and that names from logs stay names."""

from html.parser import HTMLParser

import pandas as pd
import pytest

from boolab.core.text import clean, count, shorten
from boolab.display.numbers import percent
from boolab.display.text import WIDTH
from boolab.stats.finding import Finding, pairs

UGLY = "<script>alert('x')</script>\x1b[31m\n\u202eevil"
FRAME = pd.DataFrame({"name": [UGLY, "b"], "n": pd.array([1200, None], dtype="Int64"), "share": [0.5, float("nan")]})
FINDING = Finding(f"About {UGLY}", FRAME, (f"It says {UGLY}.", "word " * 60), (f"Beware of {UGLY}.",))


class Tags(HTMLParser):
    """Collects what a browser would take for tags."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.open: list[str] = []
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.open.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_finding_text_has_table_then_sentences_then_notes() -> None:
    text = str(FINDING)
    places = [text.index(part) for part in ("About", "name", "It says", "word", "- Beware")]
    assert places == sorted(places)
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "1,200" in text
    assert "NA" in text


def test_names_from_logs_are_no_markup_or_control_characters() -> None:
    html = FINDING._repr_html_()
    tags = Tags()
    tags.feed(html)
    assert not tags.open
    assert set(tags.seen) == {"div", "p", "strong", "ul", "li", "table", "thead", "tbody", "tr", "th", "td"}
    assert tags.attributes == {"style", "scope", "class"}
    for text in (html, str(FINDING), repr(FINDING)):
        assert all(c.isprintable() or c == "\n" for c in text)
    assert "&lt;script&gt;" in html
    assert "http" not in html


def test_a_finding_is_its_frame_for_those_who_compute() -> None:
    assert FINDING["share"].tolist()[0] == 0.5
    assert FINDING[["n"]].shape == (2, 1)
    assert repr(Finding("x", FRAME)) == "<Finding 'x': 2 rows, 0 sentences>"


def test_long_and_wide_tables_say_what_they_leave_out() -> None:
    wide = pd.DataFrame({f"a_rather_long_column_{i}": range(25) for i in range(8)})
    text = str(Finding("x", wide))
    assert "5 further rows not shown." in text
    assert "Further columns: a_rather_long_column_3" in text
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "a_rather_long_column_7" in Finding("x", wide)._repr_html_()


def test_an_empty_finding_is_text_too() -> None:
    assert str(Finding("x", pd.DataFrame())) == "x"
    assert "table" not in Finding("x", pd.DataFrame())._repr_html_()
    assert str(Finding("x", FRAME, ("Yes.",), table=pd.DataFrame({"a": [True]}))) == "x\n\na\nyes\n\nYes."


@pytest.mark.parametrize(
    ("share", "text"), [(0.0, "0%"), (0.004, "0.4%"), (0.25, "25%"), (0.95, "95.0%"), (1.0, "100%")]
)
def test_shares_near_an_end_have_a_decimal(share: float, text: str) -> None:
    assert percent(share) == text


def test_words() -> None:
    assert (count(0, "run"), count(1, "run"), count(2000, "run")) == ("0 runs", "1 run", "2,000 runs")
    assert shorten("x" * 100).count("x") == 31
    assert clean("a\n\tb\x00") == "a b"


def test_pairs_have_each_child_with_its_parent() -> None:
    assert list(pairs(["ab", "c"], iter)) == [("ab", "a"), ("ab", "b"), ("c", "c")]
