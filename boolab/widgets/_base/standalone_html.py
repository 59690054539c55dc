"""Widgets as one page that needs neither a kernel nor a network."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Final

from boolab.widgets._base.compress import packed
from boolab.widgets._base.theme import stylesheet

_HERE: Final = files("boolab.widgets")
_END: Final = "export default { render };"
_REPLAY: Final = (
    "axis", "lanes", "timeline", "step", "card", "outline", "side", "header", "transcript", "links", "keys",
)  # fmt: skip
_PIECES: Final = {
    "caplab": tuple(f"caplab/caplab_{part}" for part in ("numbers", "trial", "chart", "frontier", "controls", "lists")),
    "agent_editor": ("_base/diff",),
    "compare": ("_base/diff",),
    "sweep_view": ("sweep_view/sweep_view_runs",),
    "replay": ("_base/traits", *(f"replay/replay_{part}" for part in _REPLAY)),
}
"""By widget, the files that are read before its own: scripts, and styles of the same names, where there are any."""


@dataclass(frozen=True)
class Part:
    """A view to draw: its JavaScript module, its data (bytes are packed already), and its synced traits."""

    module: str
    data: object
    traits: Mapping[str, Any] = field(default_factory=dict)


def text_of(name: str) -> str:
    """A file of this package, such as "_base/shared.js"."""
    return (_HERE / name).read_text("utf-8")


def module_of(name: str) -> str:
    """The ES module of a widget, such as "replay", after the code that all widgets share."""
    source = "\n".join(text_of(f"{piece}.js") for piece in ("_base/shared", *_pieces(name)))
    if not source.rstrip().endswith(_END):
        raise ValueError(f"{name}.js must end with {_END!r}")
    return source


def styles_of(*names: str) -> str:
    """The styles of widgets: the colours, the shared rules, and their own."""
    own = [f"{piece}.css" for name in names for piece in _pieces(name) if (_HERE / f"{piece}.css").is_file()]
    return "\n".join([stylesheet(), *(text_of(file) for file in ("_base/shared.css", *own))])


def _pieces(widget: str) -> tuple[str, ...]:
    return (*_PIECES.get(widget, ()), f"{widget}/{widget}")


def page(
    title: str, shown: Sequence[Part], *, runs: Mapping[str, Part] | None = None, text: str = "", picture: bytes = b""
) -> str:
    """One self-contained HTML page.

    Its content security policy allows the one script in it, by digest, and loads nothing: should a text of a log get
    into the markup in spite of the escaping, it could not run.
    """
    runs = runs or {}
    modules = sorted({part.module for part in (*shown, *runs.values())})
    views = {"shown": [_view(part) for part in shown], "runs": [[name, _view(part)] for name, part in runs.items()]}
    bodies = {name: module_of(name).rstrip().removesuffix(_END) + "return { render };" for name in modules}
    script = "\n".join([
        '"use strict";',
        "const modules = {};",
        *(f"modules[{json.dumps(name)}] = (() => {{\n{body}\n}})();" for name, body in bodies.items()),
        f"const views = {_as_script(views)};",
        text_of("_base/traits.js"),
        text_of("_base/page.js"),
    ])  # fmt: skip
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    image = f'<img alt="" src="data:image/png;base64,{base64.b64encode(picture).decode()}">' if picture else ""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(writable(title))}</title>
<style>
{styles_of(*modules)}
</style>
</head>
<body class="boolab-page">
<main id="views"></main>
<noscript><pre>{html.escape(writable(text))}</pre>{image}</noscript>
<script type="module">{script}</script>
</body>
</html>
"""


def writable(text: str) -> str:
    """A text without lone surrogates, which neither a file nor a message to a notebook can contain."""
    return "".join("\ufffd" if "\ud800" <= one <= "\udfff" else one for one in text)


def _view(part: Part) -> dict[str, Any]:
    ready = part.data if isinstance(part.data, bytes) else packed(part.data)
    data = base64.b64encode(ready).decode()
    return {"module": part.module, "traits": dict(part.traits), "data": data}


def _as_script(value: object) -> str:
    """JSON that can stand inside a script element: nothing in it ends the element, or starts a comment."""
    return json.dumps(value).replace("<", "\\u003c")
