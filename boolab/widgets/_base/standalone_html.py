"""Widgets as one page that needs neither a kernel nor a network, and the frame in which a saved notebook shows it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import chain
from typing import Any, Final

from boolab.display.colours import DARK, LIGHT
from boolab.plots.palette import IN_DARK, PIECE_LOOKS, STOP_LOOKS, light_edge

_DARK = '[data-jp-theme-light="false"] .boolab, .boolab-page.dark .boolab'


GREYS = {
    "bg": "layout-color0", "line": "border-color2", "ink": "ui-font-color0", "ink2": "ui-font-color1",
}  # fmt: skip
"""The greys that a notebook has too, and the name of its own. The ground is that of the notebook's cells."""
MIXED = {
    "ink3": "color-mix(in srgb, var(--jp-ui-font-color0, {ink}) 64%, var(--jp-layout-color0, {bg}))",
    "surface": "color-mix(in srgb, var(--jp-layout-color2, {surface}) 50%, var(--jp-layout-color0, {bg}))",
    "sunk": "color-mix(in srgb, var(--jp-layout-color2, {sunk}) 60%, var(--jp-layout-color0, {bg}))",
}
"""Those that are mixed: a notebook's palest text is too pale to be read on all of its grounds, and its greys for
surfaces stand out more than what is on them."""


def stylesheet() -> str:
    """The variables that all stylesheets use: `--ink`, `--kept`, `--tool-read`, `--stop-step_cap`, `--paid-first`.

    Greys are those of the notebook, so that its themes hold in a widget. A stop reason has its colour in the plots
    (`--stop-...`) and that of its edge (`--ink-...`), which is light on a dark background.
    """
    shared = [f"--{name}: {_grey(name, LIGHT)};" for name in LIGHT]
    for reason, look in STOP_LOOKS.items():
        fill = "transparent" if look.fill == "none" else look.fill
        shared += [f"--stop-{reason}: {fill};", f"--ink-{reason}: {look.ink};"]
    shared += [f"--paid-{piece}: {look.fill};" for piece, look in PIECE_LOOKS.items()]
    dark = [f"--{name}: {_grey(name, DARK)};" for name in DARK]
    dark += [f"--ink-{reason}: {light_edge(look)};" for reason, look in STOP_LOOKS.items()]
    dark += [f"--paid-{piece}: {IN_DARK.get(look.fill, look.fill)};" for piece, look in PIECE_LOOKS.items()]
    return f"{_rule('.boolab', shared)}{_rule(_DARK, dark)}"


def _grey(name: str, colours: Mapping[str, str]) -> str:
    if name in MIXED:
        return MIXED[name].format(**colours)
    return f"var(--jp-{GREYS[name]}, {colours[name]})" if name in GREYS else colours[name]


def _rule(selector: str, lines: Sequence[str]) -> str:
    return f"{selector} {{\n" + "\n".join(f"  {line}" for line in lines) + "\n}\n"


_LEVEL = 4  # of 9: on the sample logs a third of the time of the usual 6, for a tenth more bytes


def pack(data: object) -> bytes:
    """Compressed JSON, which the browser's `unpacked` reads: the same bytes for the same data.

    Lone surrogates, which logs do contain, are escaped, so that they survive.
    """
    return gzip.compress(json.dumps(data, separators=(",", ":"), allow_nan=False).encode(), _LEVEL, mtime=0)


_FOLDER: Final = files("boolab.widgets")
_END: Final = "export default { render };"
_REPLAY: Final = (
    "axis", "lanes", "timeline", "step", "card", "outline", "side", "header", "transcript", "links", "keys",
)  # fmt: skip
_PIECES: Final = {
    "caplab": tuple(f"caplab/caplab_{part}" for part in ("numbers", "trial", "chart", "frontier", "controls", "lists")),
    "agent_editor": ("_base/diff",),
    "live": ("replay/replay_step", "replay/replay_card"),
    "compare": ("_base/diff",),
    "sweep_view": ("sweep_view/sweep_view_runs",),
    "replay": ("_base/traits", *(f"replay/replay_{part}" for part in _REPLAY)),
}
"""By widget, the files that are read before its own: scripts, and styles of the same names, where there are any."""


@dataclass(frozen=True)
class PagePart:
    """A view to draw: its JavaScript module, its data (bytes are packed already), and its synced traits."""

    module: str
    data: object
    traits: Mapping[str, Any] = field(default_factory=dict)


def text_of(name: str) -> str:
    """A file of this package, such as "_base/shared.js"."""
    return (_FOLDER / name).read_text("utf-8")


def module_of(name: str) -> str:
    """The ES module of a widget, such as "replay", after the code that all widgets share."""
    source = "\n".join(text_of(f"{piece}.js") for piece in ("_base/shared", *_pieces(name)))
    if not source.rstrip().endswith(_END):
        raise ValueError(f"{name}.js must end with {_END!r}")
    return source


def styles_of(*names: str) -> str:
    """The styles of widgets: the colours, the shared rules, and their own."""
    pieces = chain.from_iterable(map(_pieces, names))
    css_files = [f"{piece}.css" for piece in pieces if (_FOLDER / f"{piece}.css").is_file()]
    return "\n".join([stylesheet(), *(text_of(file) for file in ("_base/shared.css", *css_files))])


def _pieces(widget: str) -> tuple[str, ...]:
    return (*_PIECES.get(widget, ()), f"{widget}/{widget}")


def page(
    title: str,
    parts: Sequence[PagePart],
    *,
    runs: Mapping[str, PagePart] | None = None,
    text: str = "",
    picture: bytes = b"",
) -> str:
    """One self-contained HTML page.

    Its content security policy allows the one script in it, by digest, and loads nothing: should a text of a log get
    into the markup in spite of the escaping, it could not run.
    """
    runs = runs or {}
    modules = sorted({part.module for part in (*parts, *runs.values())})
    views = {"shown": [_view(part) for part in parts], "runs": [[name, _view(part)] for name, part in runs.items()]}
    bodies = {name: module_of(name).rstrip().removesuffix(_END) + "return { render };" for name in modules}
    script = "\n".join([
        '"use strict";',
        "const modules = {};",
        *(f"modules[{json.dumps(name)}] = (() => {{\n{body}\n}})();" for name, body in bodies.items()),
        f"const views = {_as_script(views)};",
        text_of("_base/traits.js"),
        text_of("_base/page.js"),
    ])  # fmt: skip
    policy = content_policy([script_digest(script)])
    image = f'<img alt="" src="data:image/png;base64,{base64.b64encode(picture).decode()}">' if picture else ""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(replace_surrogates(title))}</title>
<style>
{styles_of(*modules)}
</style>
</head>
<body class="boolab-page">
<main id="views"></main>
<noscript><pre>{html.escape(replace_surrogates(text))}</pre>{image}</noscript>
<script type="module">{script}</script>
</body>
</html>
"""


def script_digest(script: str) -> str:
    """A script as a content security policy names it."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def content_policy(digests: Iterable[str]) -> str:
    """What a page may do: run its own scripts, by their digests; nothing from elsewhere, no form."""
    scripts = " ".join(f"'{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


def replace_surrogates(text: str) -> str:
    """A text without lone surrogates, which neither a file nor a message to a notebook can contain."""
    return "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in text)


def _view(part: PagePart) -> dict[str, Any]:
    ready = part.data if isinstance(part.data, bytes) else pack(part.data)
    data = base64.b64encode(ready).decode()
    return {"module": part.module, "traits": dict(part.traits), "data": data}


def _as_script(value: object) -> str:
    """JSON that can stand inside a script element: nothing in it ends the element, or starts a comment."""
    return json.dumps(value).replace("<", "\\u003c")


WIDGET_VIEW: Final = "application/vnd.jupyter.widget-view+json"
_OUTPUT: Final = ".lm-Panel.jp-OutputArea-output"
"""In JupyterLab, the place of a live view, also of one without a model."""
_STYLE: Final = f"""<style>
.jp-OutputArea-child:has(> {_OUTPUT} > .lm-Widget) + .jp-OutputArea-child:has(.boolab-saved) {{ display: none; }}
.jp-OutputArea-child:has(+ .jp-OutputArea-child .boolab-saved) > {_OUTPUT}:not(:has(*)) {{ display: none; }}
.boolab-saved {{ height: 0; overflow: hidden; animation: boolab-saved 0s linear 1s forwards; }}
@keyframes boolab-saved {{ to {{ height: auto; }} }}
.boolab-saved iframe {{ display: block; width: 100%; height: 720px; border: 0; margin-top: 4000px; }}
.boolab-saved iframe {{ animation: boolab-loaded 0s linear 1s forwards; }} /* out of sight till then */
@keyframes boolab-loaded {{ to {{ margin-top: 0; }} }}
.boolab-saved p {{ margin: 0 0 8px; opacity: .8; }}
.boolab-saved .untrusted, .boolab-saved.scripted .unscripted, .boolab-saved:not(.scripted) iframe {{ display: none; }}
</style>"""
MIN_HEIGHT: Final = 240
MAX_HEIGHT: Final = 2_400
_FIT: Final = f"""<script>
if (!globalThis.boolabSaved) {{
  globalThis.boolabSaved = new IntersectionObserver((entries) => {{
    for (const {{ target, isIntersecting }} of entries) {{
      if (!isIntersecting) continue;
      target.srcdoc = target.dataset.page;
      boolabSaved.unobserve(target);
    }}
  }});
  const tellTheme = (page) => {{
    const light = document.body.dataset.jpThemeLight;
    if (light) page?.postMessage({{ dark: light === "false" }}, "*");
  }};
  new MutationObserver(() => {{
    for (const frame of document.querySelectorAll(".boolab-saved iframe")) tellTheme(frame.contentWindow);
  }}).observe(document.body, {{ attributeFilter: ["data-jp-theme-light"] }});
  addEventListener("message", ({{ source, data }}) => {{
    if (!Number.isFinite(data?.height)) return;
    for (const frame of document.querySelectorAll(".boolab-saved iframe")) {{
      if (frame.contentWindow !== source) continue;
      frame.style.height = `${{Math.max({MIN_HEIGHT}, Math.min({MAX_HEIGHT}, Math.ceil(data.height)))}}px`;
      const opened = performance.getEntriesByType("navigation")[0]?.name ?? location.href;
      const replay = new URL(opened).searchParams.get("replay");
      if (!frame.dataset.asked) tellTheme(source);
      if (replay && !frame.dataset.asked) source.postMessage({{ replay }}, "*");
      frame.dataset.asked = "true";
    }}
  }});
}}
for (const frame of document.querySelectorAll(".boolab-saved iframe:not([srcdoc])")) {{
  frame.parentElement.classList.add("scripted");
  boolabSaved.observe(frame);
}}
</script>"""
"""Loads a frame when it comes into sight, makes it as high as its page reports, and passes on the notebook's theme and
the step of a link."""
_RUN_HINT: Final = "<p>A saved view, without Python. Run the cell to make it live.</p>"
_TRUST: Final = '<p class="untrusted">To see it here, trust the notebook: this view of it has no frames.</p>'
"""For a front end that removes styles and frames from notebooks of others: the style hides it elsewhere."""

_SCRIPTS: Final = (
    '<p class="unscripted">No script runs here, and the view needs one. Open the notebook in JupyterLab.</p>'
)


def saved_view(title: str, page: str) -> str:
    """A page in a frame that fits it, with sentences that say how to get the live widget.

    It appears after a second: by then a live view is there, if there is one. A front end that removes frames from
    notebooks of others leaves the sentences; where no script runs, a sentence is in place of the frame.
    """
    name, text = html.escape(title, quote=True), html.escape(page, quote=True)
    frame = f'<iframe title="{name}" sandbox="allow-scripts" data-page="{text}"></iframe>'
    return f'<div class="boolab-saved">{_STYLE}{_RUN_HINT}{_TRUST}{_SCRIPTS}{frame}{_FIT}</div>'


def size_note(page: str) -> str:
    """What stands in place of a page that a notebook does not keep."""
    note = f"Too large to keep in a notebook ({len(page):,} characters): run the cell, or write it with to_html(path)."
    return f'<div class="boolab-saved">{_STYLE}<p>{note}</p></div>'
