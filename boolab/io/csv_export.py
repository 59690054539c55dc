"""Tables as CSV that a spreadsheet shows, and does not compute.

Names in a table come from logs. A spreadsheet takes a cell that begins with `=`, `+`, `-` or `@` for a formula, which
may call programs or send other cells away (CSV injection: CWE-1236, and OWASP's page of that name). In some languages
it also splits lines at semicolons, so that what follows one begins a cell.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pandas as pd

_BEGINS_A_FORMULA: Final = re.compile(r"(?:^|(?<=[;\t\n]))(?=\"*[=+\-@\t\n\uff1d\uff0b\uff0d\uff20])")
"""A cell's first letters; quotes before them may be taken for those around a cell that is empty, and fall away."""


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV, without its index. Texts that a spreadsheet would compute get a `'` before them.

    Numbers stay as they are, and so do texts that begin in any other way.

    Args:
        table: The table.
        path: Where to.

    Raises:
        OSError: if the file cannot be written.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_csv(pd.DataFrame({"agent": ["=1+1", "coder"], "saved": [-1, 2]}), Path(folder, "t.csv"))
        ...     print(Path(folder, "t.csv").read_text())
        agent,saved
        '=1+1,-1
        coder,2
        <BLANKLINE>
    """
    shown = table.rename(columns=inert)
    for place, kind in enumerate(shown.dtypes):
        if not pd.api.types.is_numeric_dtype(kind):
            shown.isetitem(place, shown.iloc[:, place].astype(object).map(inert, na_action="ignore").array)
    shown.to_csv(path, index=False)


def inert(value: object) -> object:
    """A text that no spreadsheet takes for a formula, in no part that it may make a cell of; all else as it is.

    Example:
        >>> inert("=1+1"), inert("a;@sum"), inert("a = b"), inert(-1)
        ("'=1+1", "a;'@sum", 'a = b', -1)
    """
    if not isinstance(value, str):
        return value
    lines = value.replace("\r\n", "\n").replace("\r", "\n")  # which pandas would not quote: it would end the row
    lines = lines.encode("utf-8", "replace").decode()  # half of a surrogate pair has no bytes
    return _BEGINS_A_FORMULA.sub("'", lines)
