"""Records the answers that notebook 06 plays back where no model is installed. See README.md beside this file.

It runs the notebook's code with the model itself, each request of which is recorded.

Usage: python -m datasets.local.make_answers
"""  # noqa: INP001 - a script beside its data

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl

from boolab.runtime.models.base import Model
from boolab.runtime.models.recorder import record
from boolab.runtime.tasks.families import TaskFamily
from tests.support.notebooks import BY_NUMBER, sources
from tests.support.pages import evaluate

FOLDER = Path(__file__).parent
NAMES = {0.6: "drawn", 0: "likeliest"}
"""The name of a recording by the temperature of its answers."""


def main() -> None:
    """Write a file for each temperature."""
    mpl.use("agg")
    names: dict[str, Any] = {}
    start = TaskFamily.model
    with tempfile.TemporaryDirectory() as folder:

        def recorded(family: TaskFamily, **parameters: Any) -> Model:  # noqa: ANN401 - as the notebook gives them
            return record(start(family, **parameters), Path(folder, f"{NAMES[parameters['temperature']]}.jsonl"))

        TaskFamily.model = recorded  # type: ignore[assignment,method-assign] # for the notebook
        for code in sources(BY_NUMBER["06"]):
            evaluate(code, names, "06")
        for path in Path(folder).iterdir():
            (FOLDER / path.name).write_bytes(path.read_bytes())


if __name__ == "__main__":
    main()
