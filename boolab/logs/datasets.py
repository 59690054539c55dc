"""Public data sets of agents' runs, through the package agentpile (github.com/yzhao062/agentpile)."""

from __future__ import annotations

from boolab.core.types import Run
from boolab.errors import SettingError, near
from boolab.logs.readers.atif import runs_of


def load_dataset(name: str, *, limit: int | None = None, progress: bool = True, **options: object) -> list[Run]:
    """Runs of a public data set, each with its label where the data set has one.

    agentpile downloads the data set from its publisher, once, at a pinned revision, and reads it into ATIF. What the
    data set lacks is unknown. agentpile's documentation lists the data sets, their sizes and licences.

    Args:
        name: The data set, such as `tau_bench`, `swe_smith`, `tau2_bench`, `swe_agent_nebius`, `agentdojo` or `mast`.
        limit: At most so many runs; where the data set allows it, only the files that hold them are downloaded.
        progress: Show a progress bar on a terminal.
        **options: Passed to agentpile's reader of the data set: `model="gpt-4o"` for `tau_bench`, or `root=` for a
            folder that holds the files already.

    Returns:
        The runs. `source` is the data set's name.

    Raises:
        SettingError: if agentpile is not installed, has no such data set, or cannot download or read it.

    Example:
        >>> import boolab as bl
        >>> runs = bl.load_dataset("tau_bench", limit=100)  # doctest: +SKIP
        >>> import tempfile
        >>> from pathlib import Path
        >>> line = '{"task_name": "retail", "messages": [{"role": "user", "content": "Hello"}], "eval_result": {}}'
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     size = Path(f"{folder}/some-model.jsonl").write_text(line)
        ...     bl.load_dataset("tau_bench", root=folder)
        [<Run some-mod unknown/tau_bench: aborted, 0 steps, 0 calls>]
    """
    try:
        import agentpile
        from tqdm.auto import tqdm
    except ImportError as error:
        msg = "public data sets need agentpile: pip install 'boolab[datasets]'"
        raise SettingError(msg) from error
    known = agentpile.datasets.names()
    if name not in known:
        raise SettingError(f"data set {name!r} is not known{near(name, sorted(known), 'accepted')}")
    runs: list[Run] = []
    try:
        records = agentpile.load(name, limit=limit, **options)
        shown = tqdm(records, desc=name, total=limit, unit=" runs", delay=2, disable=None if progress else True)
        for number, record in enumerate(shown, 1):
            if record.kind == agentpile.record.TRAJECTORY:
                runs += runs_of(record.record, f"{name}/{number}", source=name)
    except ImportError as error:
        raise SettingError(f"data set {name!r} needs more: pip install 'boolab[datasets]' ({error})") from error
    except (OSError, ValueError, TypeError, agentpile.AgentpileError) as error:
        raise SettingError(f"data set {name!r} cannot be had: {error}") from error
    return runs
