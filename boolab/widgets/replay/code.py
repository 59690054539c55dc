"""Python that opens a run at a step."""

from __future__ import annotations

from pathlib import Path

from boolab.core.types import Run


def code_of(run: Run, store: str | Path | None = None) -> list[str]:
    """The code before and after the number of the step. It runs where the run's file is.

    `run`: the run. One that was not read from a file is looked for in a list `runs`.

    Example:
        >>> import boolab as bl
        >>> run = bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."]))
        >>> print("1".join(code_of(run, "runs.db")))
        import boolab as bl
        <BLANKLINE>
        bl.Replay('runs.db', step=1)
    """
    lines = ["import boolab as bl", ""]
    if store is not None:
        return ["\n".join([*lines, f"bl.Replay({str(store)!r}, step="]), ")"]
    if run.path is None:
        lines += ["# runs: a list with this run, which was not read from a file", "runs = bl.with_subagents(runs)"]
    else:
        lines.append(f"runs = bl.with_subagents(bl.load_runs({run.path!r}))")
    lines += [f"run = next(one for one in runs if one.run_id == {run.run_id!a})", "bl.Replay(run, step="]
    return ["\n".join(lines), ", runs=runs)"]
