"""Documents: the same parts as text, as HTML and as JSON, and texts of logs that stay texts in each."""

import json
from dataclasses import replace
from html.parser import HTMLParser
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.text import clean
from boolab.display.cards import document_of
from boolab.display.document import Code, Document, Facts, Heading, Mark, Status, Strip, Table
from boolab.display.text import WIDTH, columns_of
from tests.support.cases import cases

UGLY: Final = "<script>alert('x')</script>\x1b[31m\u202e\r"

PARTS: Final = ("title", "subtitle", "lead", "column", "cell", "rest", "paragraph", "note", "footer")


def document(text: str, *, card: bool = False) -> Document:
    """A document that says a text in every part."""
    table = Table([text, "n"], [[text, "1"], Heading(text), [text, "2"]], left=[0], hints=[text, "", ""], note=text)
    return Document(
        title=text,
        status=Status(text, success=True),
        subtitles=[text],
        lead=[text, Facts([text, ""]), Code(text, text, text), Strip(text, [Mark("tool-read", failed=True)])],
        table=table,
        paragraphs=[text],
        notes=[text],
        fold=text,
        footer=text,
        card=card,
    )


class Page(HTMLParser):
    """The tags of a page, and whether each is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not any(name.startswith("on") for name, _ in attrs)
        self.tags.append(tag)
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@cases(80)
@given(st.text() | st.just(UGLY), st.booleans())
def test_document_shows_hostile_text_as_text(text: str, card: bool) -> None:
    shown = document(text, card=card)
    page = Page(shown.html())
    assert not page.open
    assert not clean(text) or page.tags == Page(document("text", card=card).html()).tags
    assert "script" not in page.tags
    for line in (shown.html() + shown.text()).splitlines():
        assert "\x1b" not in line
        assert "\u202e" not in line
    assert json.loads(json.dumps(shown.json())) == shown.json()


def test_document_has_its_parts_in_order() -> None:
    shown = Document(
        title="title",
        subtitles=["subtitle"],
        lead=["lead"],
        table=Table(["column"], [["cell"]], note="rest"),
        paragraphs=["paragraph"],
        notes=["note"],
        footer="footer",
    )
    for text in (shown.text(), shown.html(), replace(shown, fold="more").html()):
        places = [
            text.index(part)
            for part in ["title", "subtitle", "lead", "column", "cell", "rest", "paragraph", "note", "footer"]
        ]
        assert places == sorted(places)


def test_document_folds_what_its_answer_rests_on() -> None:
    shown = Document(title="answer", paragraphs=["why"], notes=["doubt"], fold="Notes").html()
    assert shown.index("<details>") < shown.index("why") < shown.index("doubt") < shown.index("</details>")
    assert "details" not in Document(title="answer", fold="Notes").html()


def test_document_leaves_empty_parts_out() -> None:
    assert Document().text() == ""
    assert Document(title="a").json() == {"title": "a"}
    assert "<table>" not in Document(table=Table([], [])).html()


@pytest.mark.parametrize("name", ["short", "東京" * 5])
def test_table_names_the_columns_that_do_not_fit(name: str) -> None:
    columns = [name, *(f"column {n} of many" for n in range(9))]
    table = Table(columns, [[str(n) for n in range(10)]])
    *lines, last = table.lines()
    assert all(columns_of(line) <= WIDTH for line in lines)
    assert "Further columns: " in last
    assert "column 8 of many" in last


def test_table_leaves_no_column_out_for_a_long_id() -> None:
    table = Table(["run_id", "steps"], [["r" * 200, "3"]], left=[0], whole=[0])
    assert next(table.lines()).endswith("steps")


def test_display_describes_values_of_each_floor() -> None:
    run = bl.run_sync(None, "Look", model=bl.ScriptedModel(["Done."]))
    for value, title in ((run, run.run_id), (bl.policies["naive"], "naive"), (bl.Agent("coder"), "coder")):
        assert document_of(value).title == title
        assert title in value._repr_html_()
