"""An aggregate: its axes and groups, the slice that is drawn, and texts for its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import pandas as pd

from boolab.core.text import count, shorten
from boolab.display.text import NO_NAME, capitalize, joined
from boolab.errors import SettingError, near, nearest
from boolab.frames.dtypes import Cell, axis_value, is_missing
from boolab.io.checks import repr_of
from boolab.limits.table import LIMITS, MEASURES, MeasureColumn
from boolab.plots._frames import add_set_name, check_columns, format_missing
from boolab.plots.palette import GROUP_LOOKS


class Recommended(Protocol):
    """What `recommend` returns, on one group."""

    @property
    def action(self) -> str:
        """What to do: "set", "leave" or "not_yet"."""
        ...

    @property
    def setting(self) -> Mapping[str, Any]:
        """Values to set by axis."""
        ...

    @property
    def verdict(self) -> tuple[str, ...]:
        """The answer."""
        ...


Point: TypeAlias = "float | Mapping[str, Any] | pd.Series[Any] | Recommended"
"""A recommended setting: a value of the one axis, values by axis, or what `recommend` returns."""

UNITS: Final[Mapping[str, tuple[str, str]]] = {
    measure.column: (measure.singular, measure.plural) for measure in MEASURES.values()
}
"""What is spent and saved, by the name of its column."""

LABEL: Final = "label"
"""`success_by` where successes are labelled; else it names the proxy."""

_COUNTS = ("n_runs", "successes", "success_by", "rule", "kept_lower", "kept_upper")


class Grid(NamedTuple):
    """The rows of an aggregate that stand for settings of a grid, the axes that are drawn, and a note on the others."""

    rows: pd.DataFrame
    axes: list[str]
    groups: list[str]
    note: str


class SuccessWords(NamedTuple):
    """How what is kept is called: "success", or the proxy that stands for it; and what is counted: runs or turns."""

    singular: str
    plural: str
    short: str
    proxy: bool = False
    unit: str = "run"

    def number(self, n: int) -> str:
        """So many of them."""
        return count(n, self.singular, self.plural)


def grid_of(
    table: pd.DataFrame, axis_names: Sequence[str | None], columns: Sequence[str], fixed: Mapping[str, Any]
) -> Grid:
    """The slice of an aggregate along `axis_names`, or its first axis; others are `fixed`, off or loosest."""
    axes = [name for name in LIMITS if name in table]
    for name in axis_names:
        if name is not None and name not in LIMITS and name not in table:
            raise SettingError(f"{name!r} is not an axis{near(name, axes or list(LIMITS), 'axes')}")
    check_columns(table, (*columns, *filter(None, axis_names)), "counterfactual(..., aggregate=True) makes")
    rows = table[table["rule"].isna()] if "rule" in table else table
    varying = [name for name in axes if rows[name].notna().any()] or axes
    drawn_axes = [varying[0] if name is None and varying else name for name in axis_names]
    for name in drawn_axes:
        if name not in axes:
            raise SettingError(f"{name!r} is not an axis of the grid: {', '.join(axes) or 'it has none, only rules'}")
    free_axes = [name for name in axes if name not in drawn_axes]
    for name in fixed:
        if name not in free_axes:
            close = f" (did you mean {near_name!r}?)" if (near_name := nearest(name, free_axes)) else ""
            msg = f"at={name!r}{close}: expected an axis that is not drawn: {', '.join(free_axes) or 'there is none'}"
            raise SettingError(msg)
    notes = []
    for name in free_axes if len(rows) else ():
        rows, note = _slice(rows, name, fixed)
        notes.append(note)
    groups = _group_columns(table)
    duplicates = rows.duplicated([*groups, *(str(name) for name in drawn_axes)])
    if duplicates.any():
        position = ", ".join(setting(str(name), rows.loc[duplicates, name].iloc[0]) for name in drawn_axes)
        raise SettingError(f"several rows for {position}: expected one for each setting")
    return Grid(rows.reset_index(drop=True), [str(name) for name in drawn_axes], groups, "".join(notes))


def _slice(rows: pd.DataFrame, name: str, fixed: Mapping[str, Any]) -> tuple[pd.DataFrame, str]:
    """The rows at one value of an axis, and, where there was a choice, what was chosen."""
    values = rows[name].drop_duplicates()
    value = fixed.get(name)
    if name in fixed:
        slice_rows = rows[rows[name].isna() if is_missing(value) else rows[name] == value]
        if slice_rows.empty:
            first, rest = values.tolist()[:12], values.tolist()[12:]
            texts = ", ".join("None" if is_missing(v) else f"{v:g}" for v in first)
            msg = f"at={{{name!r}: {repr_of(value)}}} is not in the table: it has {texts}{', ...' if rest else ''}"
            raise SettingError(msg)
    elif values.isna().any():
        slice_rows = rows[rows[name].isna()]
        value = None
    else:
        value = values.max()
        slice_rows = rows[rows[name] == value]
    loosest = ", its loosest" if name not in fixed and not is_missing(value) and len(values) > 1 else ""
    text = setting(name, value)
    return slice_rows, f"{capitalize(text)}{loosest}. "


def _group_columns(table: pd.DataFrame) -> list[str]:
    """The columns before the first that an aggregate always has."""
    fixed_columns = {*LIMITS, *_COUNTS, *UNITS}
    names: list[str] = []
    for name in map(str, table.columns):
        if name in fixed_columns or name.startswith(("n_", "saved_", "kept_")):
            break
        names.append(name)
    return names


def split_groups(
    frame: pd.DataFrame, groups: Sequence[str], max_groups: int = len(GROUP_LOOKS)
) -> list[tuple[str, pd.DataFrame]]:
    """The rows of each group, in the order in which they appear."""
    if not groups:
        return [("", frame)]
    parts = list(frame.groupby(list(groups), sort=False, dropna=False))
    if len(parts) > max_groups:
        key_names, first = " and ".join(groups), ", ".join(repr(_name(key)) for key, _ in parts[:3])
        choose = "choose one" if max_groups == 1 else f"choose at most {max_groups}"
        advice = f"{choose}, as in table[table[{groups[0]!r}] == ...]"
        advice += "; or leave ax out, so that each has a panel of its own" if max_groups == len(GROUP_LOOKS) else ""
        raise SettingError(f"the frame has {len(parts):,} groups by {key_names} ({first}, ...): {advice}")
    return [(shorten(_name(key)), part) for key, part in parts]


def _name(key: tuple[Cell, ...]) -> str:
    return ", ".join(NO_NAME if is_missing(part) or part == "" else str(part) for part in key)


def setting(name: str, value: Cell) -> str:
    """A setting in words: "step cap 20", "no step cap", "cost budget $0.5"."""
    words = LIMITS[name].label
    return f"no {words}" if is_missing(value) else f"{words} {axis_value(name, value)}"


def say_nothing_is_set(recommended: Point | None) -> str:
    """The answer of a decision by which no limit is to be set; "" for all else."""
    if getattr(recommended, "action", "set") == "set":
        return ""
    return str(recommended.verdict[0])  # type: ignore[union-attr] # it has an action


def measured_by(recommended: Point | None) -> MeasureColumn:
    """What a decision saves, by its column; steps for all else."""
    groups = getattr(recommended, "groups", ())
    return MEASURES[groups[0].question.measure].column if groups else "steps"


def name_setting(row: Mapping[str, Any], axes: Sequence[str]) -> str:
    """A recommended setting: its values of some axes, and the other limits that are on: "step cap 7 with ..."."""
    others = [name for name in LIMITS if name in row and name not in axes and not is_missing(row[name])]
    first, *rest = (setting(name, row[name]) for name in (*axes, *others))
    return f"{first} with {joined(rest)}" if rest else first


def point_of(recommended: Point | None, axes: Sequence[str], table: pd.DataFrame) -> dict[str, Any]:
    """A recommended setting by axis, without those that the table lacks; a number is one of the one axis drawn.

    A decision by which no limit is to be set has none.
    """
    if recommended is None or say_nothing_is_set(recommended):
        return {}
    from_recommend = hasattr(recommended, "setting")
    point = getattr(recommended, "setting", recommended)
    if isinstance(point, Mapping | pd.Series):
        values = {str(name): value for name, value in dict(point).items()}
        if from_recommend:  # a limit that was not asked about is off
            off_axes = [name for name in axes if name in table and table[name].isna().any()]
            values = dict.fromkeys(off_axes) | values
        strange = (
            [] if from_recommend or isinstance(point, pd.Series) else [name for name in values if name not in LIMITS]
        )
        if strange:
            raise SettingError(f"recommended: there is no setting {strange[0]!r}{near(strange[0], LIMITS, 'settings')}")
        return {name: values[name] for name in LIMITS if name in values and (name in table or not from_recommend)}
    if isinstance(point, bool) or not isinstance(point, Real) or len(axes) != 1:
        kind = "a number, or values by axis" if len(axes) == 1 else f"values by axis ({', '.join(axes)})"
        raise SettingError(f"recommended={recommended!r}: expected {kind}")
    return {axes[0]: point}


def row_at(frame: pd.DataFrame, point: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row of a recommended setting."""
    matched_rows = frame
    for name, value in point.items():
        matched_rows = matched_rows[matched_rows[name].isna() if is_missing(value) else matched_rows[name] == value]
    if matched_rows.empty:
        msg = f"recommended: the table has no row for {', '.join(setting(*pair) for pair in point.items())}"
        raise SettingError(msg)
    return {str(name): value for name, value in matched_rows.iloc[0].items()}


def words_of(rows: pd.DataFrame) -> SuccessWords:
    """What the kept ones are called."""
    kinds = rows["success_by"].dropna().astype(str).unique().tolist() if "success_by" in rows else []
    if len(kinds) > 1 or kinds == ["mixed"]:
        differ = f"success_by differs between rows or runs ({', '.join(kinds)})"
        raise SettingError(
            f"{differ}: labels and proxies are not drawn in one figure; choose the rows of one, such as "
            "table[table['success_by'] == 'label']"
        )
    if not kinds or kinds[0] == LABEL:
        return SuccessWords("success", "successes", "successes kept")
    if kinds[0].endswith("ended by itself"):
        noun = kinds[0].split()[0]
        plural = f"{noun}s that ended by themselves"
        short_text = f"{noun}s that ended by\nthemselves kept (proxy)"
        return SuccessWords(
            f"{noun} that ended by itself (proxy)", f"{plural} (proxy)", short_text, proxy=True, unit=noun
        )
    name = shorten(kinds[0])
    return SuccessWords(f"success by {name}", f"successes by {name}", f"successes kept, by {name}")


def sample_of(frame: pd.DataFrame, parts: Sequence[tuple[str, pd.DataFrame]], words: SuccessWords) -> Iterator[str]:
    """For a note: what the parts of a frame are drawn from, and what is missing in them, where that is worst."""
    runs = sum(_largest_count(part, "n_runs") for _, part in parts)
    if "n_runs" in parts[0][1]:
        successes = words.number(sum(_largest_count(part, "successes") for _, part in parts))
        yield add_set_name(frame, f"{count(runs, words.unit)}, {successes}.")
    for name, description in (
        ("n_censored", "censored: stopped by the harness's own limit"),
        ("n_not_identified", "not identified: a turn was stopped inside a session"),
        ("n_unknown", "undecided: the source lacks the counter"),
        ("successes_censored", "neither kept nor lost, because their recording ends first"),
    ):
        worst = sum(int(part[name].max()) for _, part in parts if name in part and part[name].notna().any())
        noun = words.unit if name.startswith("n_") else "success"
        yield f"Up to {count(worst, noun, f'{noun}es' if noun == 'success' else '')} {description}." if worst else ""


def omission_note(part: pd.DataFrame, saved: str, unit: str) -> str:
    """For a note: what a sum of what is saved leaves out."""
    measure = saved.removesuffix("_usd")
    name = f"n_unknown_{measure}"
    worst = int(part[name].max()) if name in part and part[name].notna().any() else 0
    return format_missing(worst, unit, f"of unknown {measure} left out of what is saved")


def _largest_count(part: pd.DataFrame, name: str) -> int:
    values = part[name].dropna() if name in part else part.iloc[:0, 0]
    return int(values.max()) if len(values) else 0


def spent_and_saved(saved: str, row: Mapping[str, Any], verb: str = "saves") -> str:
    """What a setting saves, as in "saves 36 of 642 steps"; nothing, where that is unknown."""
    amount, rest = row[f"saved_{saved}"], row[saved]
    if pd.isna(amount) or pd.isna(rest):
        return ""
    total = amount + rest
    if saved == "cost_usd":
        return f"{verb} ${amount:,.2f} of ${total:,.2f}"
    return f"{verb} {int(amount):,} of {count(int(total), *UNITS[saved])}"
