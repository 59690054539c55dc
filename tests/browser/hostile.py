"""Texts that would do something if they were taken for more than text, and runs that are full of them."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from boolab.core.messages import Input, Message, Sentinel, Text
from boolab.core.run import Compacted, Run, WrapUp
from boolab.core.types import Event, Response, Step, Stop, ToolCall, ToolResult, Usage

SONG: Final = "canary"
SINGS: Final = f"window.__canary=1;console.error('{SONG}')"
"""What a watch notices, wherever it runs: also in frames of which a page knows nothing."""
ACTIVE: Final = {
    "a script": f"<script>{SINGS}</script>",
    "the end of a script, and another": f"</script><script>{SINGS}</script>",
    "the end of all that holds text": f"--></title></style></textarea></noscript></pre><script>{SINGS}</script>",
    "a picture that is not there": f'<img src=x onerror="{SINGS}">',
    "an attribute that ends": f'"><img src=x onerror="{SINGS}"><p title="',
    "an attribute that ends, singly": f"'><svg onload=\"{SINGS}\"><p title='",
    "a drawing": f'<svg onload="{SINGS}"></svg>',
    "a drawing with a script": f"<svg><script>{SINGS}</script></svg>",
    "a frame": f'<iframe srcdoc="<script>{SINGS}</script>"></iframe>',
    "a frame of a link": f'<iframe src="javascript:{SINGS}"></iframe>',
    "what opens by itself": f'<details open ontoggle="{SINGS}">x</details>',
    "what takes the focus": f'<input autofocus onfocus="{SINGS}">',
    "a link": f'<a id="link" href="javascript:{SINGS}">read on</a>',
}
"""Each does what it is made to in a page that takes it for markup: see the control."""
PASSIVE: Final = {
    "a link of Markdown": f"[read on](javascript:{SINGS}) ![x](http://192.0.2.1/x.png)",
    "the start of a comment": "<!-- <script> <!--",
    "a style": "<style>* { display: none !important }</style>",
    "another address": '<meta http-equiv="refresh" content="0;url=http://192.0.2.1/"><base href="http://192.0.2.1/">',
    "templates": "{{constructor.constructor('alert(1)')()}} ${alert(1)} <%= alert(1) %> #{alert(1)} $& $1 %s %o",
    "escapes": r"&lt;b&gt; &#x3c;script&#x3e; \u003cscript\u003e &nbsp;",
    "terminal codes": "\x1b[31mred\x1b[0m \x1b]8;;http://192.0.2.1/\x07link\x1b]8;;\x07 \x9b31m\b\b\b\x7f",
    "marks of direction": "user\u202etxt.exe\u202c \u2066left\u2069 \u200frtl\u200e \u061c\ufeffعربي עברית",
    "the end of a text of C": "before\x00after",
    "halves of letters": "one \ud800 two \udfff three \udc00\ud800",
    "carriage returns": "kept\rover\r\nnext\x0b\x0c\x85\u2028\u2029end",
    "a line of a megabyte": "w" * 1_000_000,
    "many lines": "l\n" * 50_000,
    "names of objects": "__proto__",
    "another name of objects": "constructor",
    "nothing": "",
}
TEXTS: Final = {**ACTIVE, **PASSIVE}
NAME: Final = "".join((*(text for text in ACTIVE.values()), *(text for text in PASSIVE.values() if len(text) < 500)))
"""One text with all of them but the longest."""
MARKUP: Final = (
    "script, iframe, img, object, embed, link, meta, base, a[href], form, [onload], [onerror], [ontoggle], [onfocus]"
)
"""What no text may become in a widget."""


def hostile_run(name: str = "", *, child: bool = True) -> Run:
    """A run with a hostile text in every field that holds one."""
    steps = tuple(_steps())
    told = NAME.encode(errors="replace").decode()  # tables of settings take no halves of letters
    key = {"__proto__": {"polluted": told}, "constructor": told, "toString": told, told: told}
    said = Response(NAME, usage=Usage(1, 1), reasoning=NAME, finish_reason=NAME, native_finish_reason=NAME, opaque=NAME)
    run = Run(
        run_id=f"{name}{NAME}",
        agent=NAME,
        model=NAME,
        policy=NAME,
        task=f"{name}{NAME}",
        stop=Stop("doom_loop", len(steps), NAME, 3, 3, (NAME, "__proto__")),
        steps=steps,
        prompt=(Message("system", (Text(NAME),)), Message("user", (Text(NAME),))),
        inputs=(Input(2, Message("user", (Text(NAME),))), Input(3, Message("sentinel", (Sentinel(NAME, NAME),)))),
        source=NAME,
        identity="canonical",
        limits={"steps": 200, NAME: 3, "__proto__": 4, "constructor": 5},
        settings=key,
        compactions=(Compacted(4, 2, NAME, 100, said, fault=NAME),),
        earlier_wrap_ups=(WrapUp(NAME, said, fault=NAME),),
        wrap_up=WrapUp(NAME, said, fault=NAME),
        sentinel=Sentinel(NAME, NAME),
        events=(Event(0, NAME, key), Event(None, "__proto__", key), Event(5, "retry", {"error": NAME, "step": 2})),
        success=False,
        error=NAME,
        duration_ms=1000,
    )
    return (
        replace(run, subagents=(replace(hostile_run(f"{name}child ", child=False), parent_run_id=run.run_id),))
        if child
        else run
    )


def _steps() -> Iterator[Step]:
    """A step for each text, with the text wherever a step can hold one; the last says all of them."""
    for number, text in enumerate([*TEXTS.values(), NAME], start=1):
        calls = (
            ToolCall(f"{number}a", text, text),
            ToolCall(f"{number}b", "task", json.dumps({"__proto__": text, "constructor": text, text: [text]})),
            ToolCall(text, "bash", json.dumps({"command": text, "file_path": text, "pattern": text, "prompt": text})),
        )
        results = (
            ToolResult(f"{number}a", text, is_error=True, parse_error=True),
            ToolResult(f"{number}b", text, duration_ms=3),
            None,
        )
        response = Response(text, calls, text or None, Usage(10, 2), text, native_finish_reason=text, opaque=text)
        yield Step(number, 1, 10 * number, 10, 5, response, results, error=text[:1000], shadow_stops=(text[:1000],))


def hostile_runs(n: int = 4) -> list[Run]:
    """Runs of hostile texts that differ in length, every other a success."""
    one = hostile_run(child=False)
    return [
        replace(one, run_id=f"{number} {one.run_id}", task=f"{number % 2} {one.task}", success=number % 2 == 0,
                stop=Stop("finished", 5 + number), steps=one.steps[: 5 + number])
        for number in range(n)
    ]  # fmt: skip


def control(text: str) -> str:
    """A page that takes a text for markup."""
    return f"<!doctype html><title>control</title><body>{text}"
