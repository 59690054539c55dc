"""Python that opens a run at a step."""

from __future__ import annotations

from pathlib import Path

from boolab.core.types import Run


def code_of(run: Run, path: str | Path | None = None) -> list[str]:
    """The code before and after the number of the step.

    Args:
        run: The run.
        path: The store that the run was loaded from, if it is known.

    Example:
        >>> import boolab as bl
        >>> run = bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."]))
        >>> print("1".join(code_of(run, "runs.db")))
        import boolab as bl
        <BLANKLINE>
        bl.Replay('runs.db', step=1)
    """
    lines = ["import boolab as bl", ""]
    if path is not None:
        return ["\n".join([*lines, f"bl.Replay({str(path)!r}, step="]), ")"]
    runs = "runs" if run.parent_run_id is None else "bl.with_subagents(runs)"
    lines += [
        "# runs = bl.load_runs(...): the logs or the file that hold this run",
        f"run = next(one for one in {runs} if one.run_id == {run.run_id!a})",
        "bl.Replay(run, step=",
    ]
    return ["\n".join(lines), ")"]
