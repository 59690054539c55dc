"""What a saved notebook shows of a widget when it is opened again without the kernel that made it.

A front end that knows widgets chooses the live view of an output, also where its model is gone, and then shows an error
instead of the page beside it. So the page is an output of its own, which hides while the live view before it is there.
It is not loaded until it can be seen, and its frame is as high as its content.
"""

from __future__ import annotations

import html
from typing import Final

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
_HOW: Final = "<p>A saved view, without Python. Run the cell to make it live.</p>"
_TRUST: Final = '<p class="untrusted">To see it here, trust the notebook: this view of it has no frames.</p>'
"""For a front end that removes styles and frames from notebooks of others: the style hides it elsewhere."""

_SCRIPTS: Final = (
    '<p class="unscripted">No script runs here, and the view needs one. Open the notebook in JupyterLab.</p>'
)


def saved_view(title: str, page: str) -> str:
    """A page in a frame that fits it, with sentences that say how to get the live widget.

    It appears after a second: by then a live view is there, if there is one. A front end that removes frames from
    notebooks of others leaves the sentences; where no script runs, a sentence is in place of the frame.

    Example:
        >>> "data-page=" in saved_view("Replay", "<p>one run</p>")
        True
    """
    name, text = html.escape(title, quote=True), html.escape(page, quote=True)
    frame = f'<iframe title="{name}" sandbox="allow-scripts" data-page="{text}"></iframe>'
    return f'<div class="boolab-saved">{_STYLE}{_HOW}{_TRUST}{_SCRIPTS}{frame}{_FIT}</div>'


def too_large(page: str) -> str:
    """What stands in place of a page that a notebook does not keep.

    Example:
        >>> "3,000,000 characters" in too_large("." * 3_000_000)
        True
    """
    note = f"Too large to keep in a notebook ({len(page):,} characters): run the cell, or write it with to_html(path)."
    return f'<div class="boolab-saved">{_STYLE}<p>{note}</p></div>'
