"""The page's own style: light and dark, narrow and printed."""

from __future__ import annotations

from typing import Final

from boolab.report.figures import DARK, LIGHT

_CSS: Final = """
:root{--font:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;
--mono:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;
--ink:INK;--ground:GROUND;--soft:#5b6675;--line:#d9dee5;--wash:#f5f7f9;--accent:#0072b2;--mark:#e8f2f9;color-scheme:light}
@media screen and (prefers-color-scheme:dark){:root{--ink:DARK_INK;--ground:DARK_GROUND;--soft:#9aa5b3;--line:#2f3741;
--wash:#1b2129;--accent:#6cb8e6;--mark:#17303f;color-scheme:dark}}
*{box-sizing:border-box}
html{scroll-behavior:smooth}
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.55 var(--font);font-variant-numeric:tabular-nums}
main{max-width:62rem;margin:0 auto;padding:2.5rem 1.25rem 5rem}
h1{font-size:1.75rem;line-height:1.2;margin:.2rem 0 .4rem;letter-spacing:-.01em;text-wrap:balance}
h2{font-size:1.25rem;line-height:1.3;margin:3.2rem 0 .6rem;padding-top:1rem;border-top:1px solid var(--line)}
h3{font-size:1rem;margin:2rem 0 .4rem}
p{margin:.5rem 0;max-width:44rem}
ul{margin:.5rem 0;padding-left:1.2rem;max-width:44rem}
li{margin:.25rem 0}
a{color:var(--accent);text-decoration-thickness:1px;text-underline-offset:.15em}
a:focus-visible,summary:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
code,pre{font-family:var(--mono);font-size:.84em}
pre{background:var(--wash);padding:.7rem .9rem;overflow-x:auto;line-height:1.45;margin:.6rem 0}
.note{color:var(--soft);font-size:.88rem}
.answer{font-size:1.08rem}
.facts{display:flex;flex-wrap:wrap;gap:1.2rem 2.6rem;margin:1.4rem 0;padding:0}
.facts div{display:flex;flex-direction:column-reverse}
.facts dt{color:var(--soft);font-size:.85rem}
.facts dd{margin:0;font-size:1.6rem;font-weight:600;line-height:1.25}
.facts dd small{font-size:.9rem;font-weight:400;color:var(--soft)}
.wide{overflow-x:auto;margin:.8rem 0}
table{border-collapse:collapse;font-size:.9rem;min-width:60%}
th{text-align:left;font-weight:400;color:var(--soft);vertical-align:bottom}
th,td{padding:.32rem .9rem .32rem 0;border-bottom:1px solid var(--line);vertical-align:top}
td.n,th.n{text-align:right;white-space:nowrap}
table.limit td:last-child,table.runs td:not(:nth-child(2)),table.runs th{white-space:nowrap}
table.runs td:nth-child(2){min-width:11rem}table.runs small{color:var(--soft)}
td:last-child,th:last-child{padding-right:0}
tr.recommended td,tr.tightest td{background:var(--mark)}
tr.recommended td:first-child,tr.tightest td:first-child{font-weight:600}
figure{margin:1.4rem 0}
figure svg{display:block;width:100%;height:auto}
figure svg *{stroke-linejoin:round;stroke-linecap:butt}
figcaption{color:var(--soft);font-size:.88rem;max-width:44rem}
.dark{display:none}
@media screen and (prefers-color-scheme:dark){.dark{display:block}.light{display:none}}
details{margin:.3rem 0}
summary{cursor:pointer;padding:.2rem 0}
details.run{border-bottom:1px solid var(--line)}
:target{background:var(--mark);scroll-margin-top:1rem}
dl.words dt{font-weight:600;margin-top:.7rem}
dl.words dd{margin:0;max-width:44rem}
nav{font-size:.9rem;margin:1rem 0}
nav a{margin-right:1.1rem;white-space:nowrap}
footer{margin-top:4rem;color:var(--soft);font-size:.88rem}
@media (max-width:34rem){main{padding:1.2rem .9rem 3rem}h1{font-size:1.4rem}.facts dd{font-size:1.3rem}
figure{overflow-x:auto}figure svg{min-width:34rem}}
@media print{body{font-size:10pt}main{max-width:none;padding:0}nav{display:none}a{color:inherit;text-decoration:none}
h2{break-after:avoid}figure,tr{break-inside:avoid}pre{white-space:pre-wrap}details.run{break-inside:avoid}}
"""


def style() -> str:
    """The style sheet, without the figures' colours."""
    css = _CSS.replace("DARK_INK", DARK[0]).replace("DARK_GROUND", DARK[1])
    return css.replace("GROUND", LIGHT[1]).replace("INK", LIGHT[0]).strip()
