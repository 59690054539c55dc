"""Numbers, shares, amounts and times as text: one form for titles, notes, labels, terminals and widgets."""

from __future__ import annotations

from collections.abc import Sequence

from boolab.core.text import count

_SECOND_MS = 1_000
_MINUTE_MS = 60_000
_KILO = 1_000
_MILLION = 1_000_000
_SHORT_FROM = 10_000
_SMALL_CHANGE = 0.1


def count_span(low: int, high: int, noun: str, plural: str = "") -> str:
    """A number of things with its bounds; see `count`."""
    return count(low, noun, plural) if low == high else f"{span(low, high)} {plural or f'{noun}s'}"


def format_all(n: int, noun: str) -> str:
    """The beginning of a title about all of them."""
    return {1: f"The one {noun}", 2: f"Both {noun}s"}.get(n, f"All {n:,} {noun}s")


def span(low: float, high: float) -> str:
    """A number with its bounds."""
    return f"{low:,}" if low == high else f"{low:,}-{high:,}"


def number(value: float) -> str:
    """A number, with one decimal where it is not whole."""
    return f"{int(value):,}" if value == int(value) else f"{value:,.1f}"


def short_number(n: int) -> str:
    """A large number in thousands or millions."""
    if n < _SHORT_FROM:
        return f"{n:,}"
    return f"{n / 1e3:.1f}k" if n < _MILLION else f"{n / 1e6:.1f}M"


def money(dollars: float) -> str:
    """Dollars in cents, less than ten cents in hundredths of them."""
    return f"${dollars:.4f}" if 0 < dollars < _SMALL_CHANGE else f"${dollars:.2f}"


def percent(share: float) -> str:
    """A share in percent, with a decimal where it is close to an end."""
    if 0 < share < 0.0005:  # noqa: PLR2004 - which would be rounded to nothing
        return "<0.1%"
    in_the_middle = 0.1 <= share <= 0.9  # noqa: PLR2004 - where a decimal adds nothing
    return f"{share:.0%}" if in_the_middle or share in (0, 1) else f"{share:.1%}"


def percents(shares: Sequence[float | None]) -> list[str]:
    """The shares of one column, all in one form: with a decimal, unless whole numbers are enough for each."""
    texts = ["" if share is None else percent(share) for share in shares]
    if not any("." in text for text in texts):
        return texts
    return [text if share is None or "<" in text else f"{share:.1%}" for share, text in zip(shares, texts, strict=True)]


def floor_percent(share: float) -> str:
    """A share that is kept, in percent with a decimal, never more than it is."""
    tenths = int(share * 1000 + 1e-9)
    return f"{tenths / 10:.1f}%" if tenths < 1000 else "100%"  # noqa: PLR2004 - all of it


def whole_percent(part: float, base: float) -> str:
    """A share in whole percent: 100% only for all of it, and 0% only for nothing."""
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
    """Milliseconds in the largest units that matter."""
    if ms < _SECOND_MS:
        return f"{ms} ms"
    if ms < _MINUTE_MS:
        return f"{ms / _SECOND_MS:.1f} s"
    minutes, seconds = divmod(ms // _SECOND_MS, 60)
    hours, rest_minutes = divmod(minutes, 60)
    return f"{hours:,} h {rest_minutes} min" if hours else f"{minutes} min {seconds} s"


def size(n: float) -> str:
    """A number of bytes."""
    for unit in ("B", "kB", "MB"):
        if n < _KILO:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= _KILO
    return f"{n:.1f} GB"


def format_runs(n_runs: int, n_turns: int | None = None, n_subagents: int = 0) -> str:
    """How many runs there are, with their turns where these are counted, and how many are of subagents."""
    turns = "" if n_turns is None else f" ({count(n_turns, 'turn')})"
    return f"{count(n_runs, 'run')}{turns}" + (f", {n_subagents:,} of them of subagents" if n_subagents else "")
