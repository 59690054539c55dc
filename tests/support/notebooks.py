"""Notebooks: read, written and run. What runs them is imported where it is used: it takes two seconds."""

import faulthandler
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from tests.support.project import ROOT

BY_NUMBER: Final = {path.stem[:2]: path for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}
"""The project's notebooks."""


def code_cell(source: str, outputs: Iterable[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """A cell of code."""
    return {"cell_type": "code", "source": source, "metadata": {}, "execution_count": None, "outputs": [*outputs]}


def notebook(*cells: Mapping[str, Any]) -> str:
    """The text of a notebook with these cells."""
    return json.dumps({"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": cells})


def sources(path: Path) -> list[str]:
    """The code of a notebook, cell by cell."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def allow_ten_minutes() -> None:
    """Let the running test take longer than `faulthandler_timeout`: notebook 05 needs minutes on a busy machine."""
    faulthandler.dump_traceback_later(600, exit=True, file=sys.__stderr__ or sys.stderr)


def execute(path: Path, extra: str = "", changes: Mapping[str, str] | None = None) -> Any:
    """Run a notebook in a real kernel and return it with its outputs.

    `extra` is run as a last cell. `changes` replace parts of its code, each of which must be there once.
    """
    import nbformat
    from nbclient import NotebookClient

    text = path.read_text(encoding="utf-8")
    for old, new in (changes or {}).items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    found = nbformat.reads(text, as_version=4)
    if extra:
        found.cells.append(nbformat.v4.new_code_cell(extra))
    resources = {"metadata": {"path": path.parent}}
    NotebookClient(found, timeout=300, kernel_name="python3", resources=resources).execute()
    return found


def exported(text: str) -> str:
    """A notebook as nbconvert writes it to a page, without what the usual template loads."""
    import nbformat
    from nbconvert import HTMLExporter

    exporter = HTMLExporter(template_name="basic")  # type: ignore[no-untyped-call] # it has no types
    found: str = exporter.from_notebook_node(nbformat.reads(text, as_version=4))[0]
    return found
