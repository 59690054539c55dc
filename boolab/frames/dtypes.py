"""The columns of tables: their types, arrays of them, and texts that every table accepts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from numbers import Real
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from boolab.limits.table import LIMITS

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

INT: Final = "Int64"
FLAG: Final = "boolean"
TEXT: Final = "string[python]"
FLOAT: Final = "Float64"
TIME: Final = "datetime64[ms, UTC]"
NO_LIMIT: Final = "No limit"
"""What a limit that is off is called."""

Cell: TypeAlias = Any
"""A value of a table: a number, a text, a flag, None, NA or NaN."""
Cells: TypeAlias = Any
"""A pandas array: its stubs know no dtype that is only known at run time."""


def cells(values: Iterable[Any] | npt.NDArray[Any] | pd.Series[Any], dtype: str) -> Cells:
    """An array of such a dtype; None and NaN become NA."""
    import pandas as pd

    array: Callable[..., Cells] = pd.array
    return array(values if hasattr(values, "dtype") else list(values), dtype=_dtype_of(dtype))


@cache
def _dtype_of(name: str) -> Any:  # noqa: ANN401 - pandas' own and its extensions have no common class
    """The dtype of such a name. Pandas tries all that are registered, which takes longer than a small array itself."""
    import pandas as pd

    return pd.api.types.pandas_dtype(name)


def text(values: Sequence[str | None] | npt.NDArray[Any]) -> Cells:
    """An array of text."""
    return cells(values, TEXT)


def is_missing(value: object) -> bool:
    """Whether a cell has no value: None, NA, NaT or NaN."""
    return (
        value is None
        or type(value).__name__ in ("NAType", "NaTType")
        or (isinstance(value, Real) and math.isnan(value))
    )


def replace_surrogates(text: str) -> str:
    """The text with `?` for each half of a surrogate pair, which neither Arrow nor a column's name can hold."""
    return text.encode("utf-8", "replace").decode()


def well_formed_cell(value: object) -> object:
    """The same of a cell, which may be no text: then it stays as it is."""
    return replace_surrogates(value) if isinstance(value, str) else value


def axis_dtype(name: str) -> str:
    """The type of the column of an axis, or of another limit of a policy: dollars and seconds may be fractions."""
    return FLOAT if name in LIMITS and LIMITS[name].fractions else INT


def axis_value(name: str, value: Cell) -> str:
    """A value of an axis as text."""
    if is_missing(value):
        return NO_LIMIT
    number = f"{int(value):,}" if float(value).is_integer() else f"{float(value):g}"
    return f"${number}" if name == "max_cost" else number


class Column(NamedTuple):
    """One column of a table: its name, its dtype, and how to get its value from a row's source."""

    name: str
    dtype: str
    get: Callable[[Any], Any]


def frame_of_columns(columns: Sequence[Column], rows: Sequence[Any]) -> pd.DataFrame:
    """A row for each of `rows`, with these columns."""
    import pandas as pd

    data: dict[str, Any] = {}
    for column in columns:
        values = [column.get(row) for row in rows]
        try:
            data[column.name] = cells(values, column.dtype) if column.dtype != TIME else _times(values)
        except OverflowError:  # so rare that the others need no check
            data[column.name] = cells([value if _fits(value) else None for value in values], column.dtype)
    return pd.DataFrame(data)


def _times(values: Sequence[Any]) -> Cells:
    import pandas as pd

    return pd.to_datetime(values, utc=True).as_unit("ms")


def _fits(value: object) -> bool:
    """Whether a column of integers can hold it: seeds and settings may have any number of digits."""
    return isinstance(value, int) and -(2**63) <= value < 2**63


def setting_dtype(values: Sequence[object]) -> str:
    """The type of a setting's column, from its values in all runs."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return FLAG
    if not kinds <= {int, float} or not all(_fits(value) for value in values if type(value) is int):
        return TEXT
    return INT if kinds <= {int} else FLOAT
