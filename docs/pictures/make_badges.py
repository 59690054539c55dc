"""Makes the badges of the README from pyproject.toml: `python docs/pictures/make_badges.py`."""  # noqa: INP001 - a script

import tomllib
from html import escape
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
CHAR_PX, PAD_PX, HEIGHT_PX = 6.6, 8, 20
"""The width of a letter of DejaVu Sans at 11 px, the widest of the usual fonts, with its margins."""


def facts(project: dict[str, Any]) -> list[tuple[str, str]]:
    """What the badges say: all of it is in the file, and checked by the project's own tools."""
    python = project["project"]["requires-python"].removeprefix(">=")
    strict = project["tool"]["mypy"]["strict"]
    return [
        ("Python", f"{python} or newer"),
        ("licence", project["project"]["license"]),
        ("types", "mypy strict" if strict else "mypy"),
    ]


def drawn(pairs: list[tuple[str, str]]) -> str:
    """The badges in a row, as SVG whose text stays text."""
    parts, x = [], 0.0
    for name, value in pairs:
        left, right = (CHAR_PX * len(text) + 2 * PAD_PX for text in (name, value))
        parts.append(
            f'<rect x="{x:.0f}" width="{left + right:.0f}" height="{HEIGHT_PX}" rx="3" fill="#46505c"/>'
            f'<rect x="{x + left:.0f}" width="{right:.0f}" height="{HEIGHT_PX}" rx="3" fill="#0072b2"/>'
            f'<text x="{x + left / 2:.0f}" y="14">{escape(name)}</text>'
            f'<text x="{x + left + right / 2:.0f}" y="14">{escape(value)}</text>'
        )
        x += left + right + PAD_PX
    style = 'font-family="system-ui, DejaVu Sans, sans-serif" font-size="11" text-anchor="middle" fill="#ffffff"'
    size = f'width="{x:.0f}" height="{HEIGHT_PX}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}><g {style}>{"".join(parts)}</g></svg>\n'


def badges() -> str:
    """The file, from pyproject.toml."""
    return drawn(facts(tomllib.loads((HERE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))))


if __name__ == "__main__":
    (HERE / "badges.svg").write_text(badges(), encoding="utf-8")
