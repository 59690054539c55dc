"""Writes tables as CSV in which a spreadsheet finds no formulas.

Names in a table come from logs. A spreadsheet takes a cell that begins with `=`, `+`, `-` or `@` for a formula, which
may run programs or send data away (CSV injection: CWE-1236, and OWASP's page of that name). In some languages it also
splits lines at semicolons.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pandas as pd

from boolab.io.files import replace_file, write_output

_BEGINS_A_FORMULA: Final = re.compile(r"(?:^|(?<=[;\t\n]))(?=\"*[=+\-@\t\n\uff1d\uff0b\uff0d\uff20])")
"""The beginning of a formula. Quotes before it may be read as an empty quoted cell."""


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV, without its index. Texts that are formulas for a spreadsheet get a `'` before them."""
    write_output(path, as_csv(table))


def write_parquet(table: pd.DataFrame, path: Path) -> None:
    """Write a table as Parquet, without its index."""
    with replace_file(path) as file:
        table.to_parquet(file, index=False)


def as_csv(table: pd.DataFrame) -> str:
    """The same as text."""
    text: str = _escape_table(table).to_csv(index=False)
    return text


def _escape_table(table: pd.DataFrame) -> pd.DataFrame:
    frame = table.rename(columns=escape_formula)
    for index, kind in enumerate(frame.dtypes):
        if not pd.api.types.is_numeric_dtype(kind):
            frame.isetitem(index, frame.iloc[:, index].astype(object).map(escape_formula, na_action="ignore").array)
    return frame


def escape_formula(value: object) -> object:
    """A text with a `'` before all that a spreadsheet takes for a formula; other values as they are."""
    if not isinstance(value, str):
        return value
    lines = value.replace("\r\n", "\n").replace("\r", "\n")  # pandas does not quote a lone "\r", which ends the row
    lines = lines.encode("utf-8", "replace").decode()  # lone surrogates cannot be encoded
    return _BEGINS_A_FORMULA.sub("'", lines)
