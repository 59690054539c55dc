"""How numbers, names and tables are written as text: one place for titles, notes, labels, terminals and widgets."""

from __future__ import annotations

import re
import shutil
import textwrap
import unicodedata
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import takewhile

WIDTH = 79  # columns of plain text: a terminal of 80 wraps none
MAX_MESSAGE = 200
"""Messages of at most so many characters are one line."""
MAX_WIDTH = 100
"""The most columns of a paragraph, however wide the terminal is: longer lines are hard to read."""
NO_NAME = "no name"
"""What an agent, a model or a tool without a name is called."""

NAME_CHARS = 32
NO_MATH = "tex2jax_ignore mathjax_ignore"
"""The classes of HTML in which MathJax, 2 and 3, leaves dollars alone: notebooks typeset what they show."""

_LONG_WORD = re.compile(r"\S{501,}")
_MIN_WIDTH = 40
_FLAT_CHARS = 2_000
_SECOND_MS = 1_000
_MINUTE_MS = 60_000
_KILO = 1_000
_MILLION = 1_000_000
_SHORT_FROM = 10_000
_SMALL_CHANGE = 0.1
_CONTROLS = dict.fromkeys(
    (*range(9), *range(11, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)), "�"
)
"""What a text could do to a terminal: control characters, and marks that change the direction of what follows.

A lone surrogate is none of them, but no terminal accepts it: see `printable`.
"""


# --- Untrusted text ---------------------------------------------------------------------------------------------------


def clean(text: object) -> str:
    r"""A text in one line, without control characters: escape sequences, line ends, reversals of direction.

    Example:
        >>> clean("red \x1b[31m text")
        'red [31m text'
    """
    return " ".join("".join(c if c.isprintable() else " " if c.isspace() else "" for c in str(text)).split())


def printable(text: str) -> str:
    r"""A text that is safe for a terminal: without control characters other than tabs and line ends.

    Example:
        >>> printable("red: \x1b[31m\r\nend")
        'red: �[31m\nend'
    """
    clean = text.replace("\r\n", "\n").translate(_CONTROLS)
    return clean if clean.isascii() else clean.encode("utf-8", "replace").decode()


def flat(text: str) -> str:
    r"""The first 2,000 characters of a text on one line, safe for a terminal. Control characters become visible.

    Example:
        >>> flat("two\n  lines \x07")
        'two lines �'
    """
    return " ".join(printable(" ".join(text[:_FLAT_CHARS].split())).split())


# --- Long text --------------------------------------------------------------------------------------------------------


def with_short_words(text: str) -> str:
    """A message in which no word has more than 500 characters: what a user gave may be a number of any length.

    Example:
        >>> with_short_words(f"{'9' * 5000} is not accepted")[-35:]
        '999… (5,000 in all) is not accepted'
    """
    return _LONG_WORD.sub(lambda found: f"{found[0][:80]}… ({len(found[0]):,} in all)", text)


def clip(text: str, most: int) -> str:
    """A text of at most so many characters; an ellipsis stands for a missing end.

    Example:
        >>> clip("a long line", 7)
        'a long…'
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"


def shorten(text: object, most: int = NAME_CHARS) -> str:
    """A name in one line; of a long one, both ends, because names often start alike.

    Example:
        >>> shorten("a" * 40 + "z", 9)
        'aaaa…aaaz'
    """
    name = clean(text)
    tail = (most - 1) // 2
    return name if len(name) <= most else f"{name[: most - 1 - tail]}…{name[-tail:]}"


def shorten_apart(names: Iterable[str], most: int = NAME_CHARS) -> dict[str, str]:
    """Each name in one line; long ones that would look the same are shown from where they begin to differ.

    Example:
        >>> names = [f"logs/of/{'the-same-task-' * 3}{setting}/try" for setting in ("cap-20", "cap-30")]
        >>> list(shorten_apart(names, 24).values())
        ['logs/of/the-…-cap-20/try', 'logs/of/the-…-cap-30/try']
    """
    lines = {name: clean(name) for name in names}
    apart: dict[str, str] = {}
    groups = [_by_text({line: shorten(line, most) for line in lines.values()})]
    while groups:
        for text, alike in groups.pop().items():
            if len(alike) == 1:
                apart[alike[0]] = text
            else:
                groups.append(_by_text(_from_difference(alike, most)))
    return {name: apart[line] for name, line in lines.items()}


def _by_text(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """The lines that each text is shown for."""
    found: dict[str, list[str]] = {}
    for line, text in texts.items():
        found.setdefault(text, []).append(line)
    return found


def _from_difference(lines: Sequence[str], most: int) -> dict[str, str]:
    """Lines that begin alike, by their beginning and the word in which they begin to differ."""
    head = lines[0][: most // 4]
    differ = start = sum(1 for _ in takewhile(lambda chars: len(set(chars)) == 1, zip(*lines, strict=False)))
    while start > max(len(head), differ - most // 3) and lines[0][start - 1].isalnum():
        start -= 1
    room = most - len(head) - 1
    rests = {line: line[start:] for line in lines}
    return {line: f"{head}…{rest if len(rest) <= room else f'{rest[: room - 1]}…'}" for line, rest in rests.items()}


def line_width() -> int:
    """How long a line of a paragraph may be: as the terminal, up to a limit; without a terminal, as one of 80 columns.

    Example:
        >>> 0 < line_width() <= MAX_WIDTH
        True
    """
    columns = shutil.get_terminal_size((WIDTH + 1, 24)).columns
    return max(_MIN_WIDTH, min(columns - 1, MAX_WIDTH))


def wrapped(text: str, width: int | None = None, first: str = "", rest: str | None = None) -> str:
    """A paragraph in lines of at most so many characters, without control characters. No path is broken.

    Example:
        >>> print(wrapped("One two three.", 9, "- "))
        - One two
          three.
    """
    rest = " " * len(first) if rest is None else rest
    width = line_width() if width is None else width
    line = clean(text)
    endless = any(len(word) > MAX_MESSAGE for word in line.split())
    lines = textwrap.wrap(
        line, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False, break_long_words=endless
    )
    return "\n".join(lines)


def wrapped_if_long(text: str) -> str:
    r"""A message in one line; a long one in lines. No word is broken, such as a path.

    Example:
        >>> wrapped_if_long("boolab: there is no run 7"), wrapped_if_long("word " * 50).count("\n") > 1
        ('boolab: there is no run 7', True)
    """
    if len(text) <= MAX_MESSAGE:
        return text
    return textwrap.fill(text, line_width(), subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)


def columns_of(text: str) -> int:
    r"""How many columns of a terminal a text without control characters takes.

    Example:
        >>> columns_of("cafe"), columns_of("cafe\u0301"), columns_of("東京")
        (4, 4, 4)
    """
    if text.isascii():
        return len(text)
    return sum(
        2 if unicodedata.east_asian_width(char) in "WF" else unicodedata.category(char) not in ("Mn", "Me", "Cf")
        for char in text
    )


def aligned(
    rows: Iterable[Sequence[str]], *, left: Container[int] = (0,), widths: Sequence[int] | None = None
) -> list[str]:
    """The rows of a table as lines: columns two spaces apart.

    `left`: the columns that are aligned to the left; all others, which hold numbers, are aligned to the right.

    Example:
        >>> aligned([["", "runs"], ["codex", "12"]])
        ['       runs', 'codex    12']
    """
    table = [list(row) for row in rows]
    if widths is None:
        widths = [max(map(columns_of, column)) for column in zip(*table, strict=True)]
    lines = []
    for row in table:
        cells = []
        for place, (cell, width) in enumerate(zip(row, widths, strict=True)):
            space = " " * (width - columns_of(cell))
            cells.append(cell + space if place in left else space + cell)
        lines.append("  ".join(cells).rstrip())
    return lines


# --- Numbers ----------------------------------------------------------------------------------------------------------


def count(n: int, noun: str, plural: str = "") -> str:
    """A number of things. `plural` is for nouns that take more than an s.

    Example:
        >>> count(1, "run"), count(1200, "run"), count(2, "success", "successes")
        ('1 run', '1,200 runs', '2 successes')
    """
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"


def count_span(low: int, high: int, noun: str, plural: str = "") -> str:
    """A number of things with its bounds; see `count`.

    Example:
        >>> count_span(1, 1, "run"), count_span(1, 1200, "run")
        ('1 run', '1-1,200 runs')
    """
    return count(low, noun, plural) if low == high else f"{span(low, high)} {plural or f'{noun}s'}"


def first_of(names: Sequence[str], most: int) -> str:
    """The first names of a list, and how many more there are.

    Example:
        >>> first_of(["a", "b"], 2), first_of(["a", "b", "c"], 2)
        ('a, b', 'a, b and 1 more')
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def all_of(n: int, noun: str) -> str:
    """The beginning of a title about all of them.

    Example:
        >>> all_of(1, "run"), all_of(2, "run"), all_of(3, "run")
        ('The one run', 'Both runs', 'All 3 runs')
    """
    return {1: f"The one {noun}", 2: f"Both {noun}s"}.get(n, f"All {n:,} {noun}s")


def span(low: float, high: float) -> str:
    """A number with its bounds.

    Example:
        >>> span(21, 21), span(17, 18)
        ('21', '17-18')
    """
    return f"{low:,}" if low == high else f"{low:,}-{high:,}"


def number(value: float) -> str:
    """A number, with one decimal where it is not whole."""
    return f"{int(value):,}" if value == int(value) else f"{value:,.1f}"


def short_number(n: int) -> str:
    """A large number in thousands or millions.

    Example:
        >>> short_number(9_999), short_number(12_345), short_number(19_200_000)
        ('9,999', '12.3k', '19.2M')
    """
    if n < _SHORT_FROM:
        return f"{n:,}"
    return f"{n / 1e3:.1f}k" if n < _MILLION else f"{n / 1e6:.1f}M"


def money(dollars: float) -> str:
    """Dollars in cents, less than ten cents in hundredths of them.

    Example:
        >>> money(0.0314), money(5)
        ('$0.0314', '$5.00')
    """
    return f"${dollars:.4f}" if 0 < dollars < _SMALL_CHANGE else f"${dollars:.2f}"


def percent(share: float) -> str:
    """A share in percent, with a decimal where it is close to an end.

    Example:
        >>> percent(0.421), percent(0.9961), percent(1.0), percent(0.0003)
        ('42%', '99.6%', '100%', '<0.1%')
    """
    if 0 < share < 0.0005:  # noqa: PLR2004 - which would be rounded to nothing
        return "<0.1%"
    in_the_middle = 0.1 <= share <= 0.9  # noqa: PLR2004 - where a decimal adds nothing
    return f"{share:.0%}" if in_the_middle or share in (0, 1) else f"{share:.1%}"


def percents(shares: Sequence[float | None]) -> list[str]:
    """The shares of one column, all in one form: with a decimal, unless whole numbers are enough for each.

    Example:
        >>> percents([0.92, 0.84, None, 0, 0.0003]), percents([0.42, 1.0])
        (['92.0%', '84.0%', '', '0.0%', '<0.1%'], ['42%', '100%'])
    """
    each = ["" if share is None else percent(share) for share in shares]
    if not any("." in text for text in each):
        return each
    return [text if share is None or "<" in text else f"{share:.1%}" for share, text in zip(shares, each, strict=True)]


def rounded_down(share: float) -> str:
    """A share that is kept, in percent with a decimal, never more than it is.

    Example:
        >>> rounded_down(0.9499), rounded_down(0.95), rounded_down(1)
        ('94.9%', '95.0%', '100%')
    """
    tenths = int(share * 1000 + 1e-9)
    return f"{tenths / 10:.1f}%" if tenths < 1000 else "100%"  # noqa: PLR2004 - all of it


def whole_percent(part: float, base: float) -> str:
    """A share in whole percent: 100% only for all of it, and 0% only for nothing.

    Example:
        >>> whole_percent(999, 1000), whole_percent(1, 1000), whole_percent(3, 4)
        ('99%', '1%', '75%')
    """
    share = 100 * part / base
    return f"{min(max(round(share), 1), 99) if 0 < share < 100 else round(share)}%"  # noqa: PLR2004 - all of it


def level(share: float) -> str:
    """A share that the user gave, in percent: one decimal, more only where it would read as 0% or 100%.

    Example:
        >>> level(0.95), level(187 / 190), level(0.9995)
        ('95%', '98.4%', '99.95%')
    """
    texts = (f"{100 * share:.{digits}f}".rstrip("0").rstrip(".") for digits in range(1, 17))
    return next((text for text in texts if share in (0, 1) or text not in ("0", "100")), "100") + "%"


def duration(ms: int) -> str:
    """Milliseconds in the largest units that matter.

    Example:
        >>> [duration(ms) for ms in (450, 2_340, 61_000, 5_400_000)]
        ['450 ms', '2.3 s', '1 min 1 s', '1 h 30 min']
    """
    if ms < _SECOND_MS:
        return f"{ms} ms"
    if ms < _MINUTE_MS:
        return f"{ms / _SECOND_MS:.1f} s"
    minutes, seconds = divmod(ms // _SECOND_MS, 60)
    hours, left = divmod(minutes, 60)
    return f"{hours:,} h {left} min" if hours else f"{minutes} min {seconds} s"


def size(n: float) -> str:
    """A number of bytes.

    Example:
        >>> size(900), size(1_976_708)
        ('900 B', '2.0 MB')
    """
    for unit in ("B", "kB", "MB"):
        if n < _KILO:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= _KILO
    return f"{n:.1f} GB"


def runs_in_words(n_runs: int, n_turns: int | None = None, n_subagents: int = 0) -> str:
    """How many runs there are, with their turns where these are counted, and how many are of subagents.

    Example:
        >>> runs_in_words(4, 6, 2)
        '4 runs (6 turns), 2 of them of subagents'
    """
    turns = "" if n_turns is None else f" ({count(n_turns, 'turn')})"
    return f"{count(n_runs, 'run')}{turns}" + (f", {n_subagents:,} of them of subagents" if n_subagents else "")
