from __future__ import annotations

from boolab.display.html import render_template


def test_rendered_template_escapes_its_texts() -> None:
    assert (
        render_template("figure.html", alt="<b>", image="AA==")[-64:]
        == '<img alt="&lt;b&gt;" src="data:image/svg+xml;base64,AA=="></div>'
    )
