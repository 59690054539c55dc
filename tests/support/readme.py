"""The table of the README: what a row shows, and what it has to show."""

import re
from typing import Final

import pandas as pd

import boolab as bl
from tests.support.project import ROOT

README: Final = (ROOT / "README.md").read_text(encoding="utf-8")
SET_OF_ROW: Final = {
    "InterCode SQL": "intercode-sql",
    "InterCode Bash": "intercode-bash",
    "SWE-bench Verified": "swebench-verified",
    "tau2-bench airline": "tau2-airline",
}
"""The sets of the atlas by the names of their rows."""


def shown_cells(name: str) -> list[str]:
    """The cells of a row, without the name of its set."""
    row = next(line for line in README.splitlines() if line.startswith(f"| {name} |"))
    return [re.sub(r" as long$", "", cell.strip(" *")) for cell in row.split("|")[2:-1]]


def cells_of(runs: list[bl.Run], decided: pd.DataFrame) -> list[str]:
    """What the row of these runs has to show, by the frame of their decision."""
    frame = bl.runs_df(runs)
    means = frame.groupby("success")["n_steps"].mean()
    on = decided[decided["action"] == "set"]
    kept = int(on["kept_lower"].sum() + decided.loc[decided["action"] != "set", "successes"].sum())
    return [
        f"{len(frame):,}", f"{means[False] / means[True]:.2f} times", _decision_in_words(decided),
        f"{kept:,} of {decided['successes'].sum():,}", f"{on['saved'].sum() / frame['n_steps'].sum():.1%}",
    ]  # fmt: skip


def _decision_in_words(decided: pd.DataFrame) -> str:
    """The decision as the table has it."""
    if len(decided) > 1:
        return f"set limits for {(decided['action'] == 'set').sum()} of {len(decided)} models"
    row = decided.iloc[0]
    if row["action"] == "not_yet":
        return f"not yet: {row['more_needed']} more tasks needed"
    assert (row["action"], row["reason"]) == ("leave", "stops_as_many_successes")
    return "set none: not shown to stop failures"
