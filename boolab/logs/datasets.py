"""Public data sets of agents' runs: the atlas, which comes with boolab, and those of the package agentpile.

See `datasets/atlas` and github.com/yzhao062/agentpile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from boolab.core.run import Run
from boolab.errors import SettingError, install, near
from boolab.io.checks import check_count
from boolab.logs.load import load_runs
from boolab.logs.readers.atif import runs_of
from boolab.logs.shipped import ATLAS, atlas_files, atlas_sets


def load_dataset(name: str, *, limit: int | None = None, progress: bool = True, **options: object) -> list[Run]:
    """Runs of a public data set, each with its label where the data set has one.

    `atlas` is 14,451 public runs of nine sets that come with boolab, `atlas/SET` those of one: `intercode-sql`,
    `intercode-bash`, `intercode-ctf`, `intercode-python`, `tau-airline`, `tau2-airline`, `tau2-retail`, `tau2-telecom`,
    `swebench-verified`. Five more are loaded by their names only: `sentinel-booking`; `sentinel-faults`, which has no
    outcomes but the step at which a fault began; `coding-sessions`, long sessions of people with coding agents, with
    the tokens of each request and no outcomes; and `local-fix` and `local-maze`, runs of `LocalModel` with all texts.
    No other has texts (see `save_runs`); all have the settings `set` and `ended_by`: whether the `environment` or the
    `agent` ends a run. `datasets/atlas/SOURCES.md` and `datasets/local/README.md` have their sources, licences and
    caveats.

    All others come from agentpile, which downloads a data set from its publisher, once, at a pinned revision, and reads
    it into ATIF. What the data set lacks is unknown. agentpile's documentation lists the data sets, their sizes and
    licences.

    Args:
        name: The data set: `atlas`, `atlas/SET`, or one of agentpile's, such as `tau_bench`, `swe_smith`, `tau2_bench`,
            `swe_agent_nebius`, `agentdojo` or `mast`.
        limit: At most so many runs, the first ones; where the data set allows it, only the files that hold them are
            downloaded.
        progress: Show a progress bar on a terminal.
        **options: Passed to agentpile's reader of the data set: `model="gpt-4o"` for `tau_bench`, or `root=` for a
            folder that holds the files already. The atlas has none.

    Returns:
        The runs. `source` is the data set's name; of the atlas, the format of the log.

    Raises:
        SettingError: if there is no such data set, agentpile is not installed, or cannot download or read it.

    Example:
        >>> import boolab as bl
        >>> runs = bl.load_dataset("atlas/tau-airline")
        >>> len(runs), sum(run.success for run in runs)
        (200, 84)
        >>> runs = bl.load_dataset("tau_bench", limit=100)  # doctest: +SKIP
    """
    check_count(limit, "limit")
    files = atlas_files(name)
    if files:
        return _atlas_runs(files, limit, progress=progress, options=options)
    return _agentpile_runs(name, limit, progress=progress, options=options)


def _atlas_runs(
    files: Sequence[Path], limit: int | None, *, progress: bool, options: Mapping[str, object]
) -> list[Run]:
    if options:
        raise SettingError(f"the atlas has no option {next(iter(options))!r}; accepted: limit, progress")
    from tqdm.auto import tqdm

    runs: list[Run] = []
    # With `disable=None`, tqdm shows its bar in a terminal only.
    for path in tqdm(files, desc=ATLAS, unit=" sets", delay=2, disable=None if progress and len(files) > 1 else True):
        if limit is None or len(runs) < limit:
            runs += load_runs(path, format="atif")
    return runs[:limit]


def _agentpile_runs(name: str, limit: int | None, *, progress: bool, options: Mapping[str, object]) -> list[Run]:
    try:
        import agentpile
        from tqdm.auto import tqdm
    except ImportError as error:
        msg = f"data sets other than {', '.join([ATLAS, *atlas_sets()])} need agentpile: {install('boolab[datasets]')}"
        raise SettingError(msg) from error
    names = agentpile.datasets.names()
    if name not in names:
        raise SettingError(
            f"data set {name!r} is not known{near(name, [*atlas_sets(), ATLAS, *sorted(names)], 'accepted')}"
        )
    runs: list[Run] = []
    try:
        records = agentpile.load(name, limit=limit, **options)
        bar = tqdm(records, desc=name, total=limit, unit=" runs", delay=2, disable=None if progress else True)
        for number, record in enumerate(bar, 1):
            if record.kind == agentpile.record.TRAJECTORY:
                runs += runs_of(record.record, f"{name}/{number}", source=name)
    except ImportError as error:
        raise SettingError(f"data set {name!r} needs more: {install('boolab[datasets]')} ({error})") from error
    except (OSError, ValueError, TypeError, agentpile.AgentpileError) as error:
        raise SettingError(f"data set {name!r} cannot be had: {error}") from error
    return runs
