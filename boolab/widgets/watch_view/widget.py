"""Running agents: a row for each while their logs grow, and below them the run of a row in Replay."""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import traitlets

from boolab.core.run import Run
from boolab.core.text import clean, count, shorten
from boolab.core.types import Scope
from boolab.io.resources import shared_path
from boolab.limits.stop import StopRule
from boolab.live.follow.fleet import Fleet
from boolab.live.follow.places import places_of, usual_places
from boolab.live.follow.rows import AgentChange, AgentRow, alert_line, limit_text, name_of, row_data, state_of
from boolab.live.follow.watch import watch as watch_fleet
from boolab.logs.log_files import Reader
from boolab.widgets._base.standalone_html import PagePart
from boolab.widgets._base.widget import png_of
from boolab.widgets.replay.widget import OpeningView, OpensRuns, replay_parts

if TYPE_CHECKING:
    from matplotlib.figure import Figure


MAX_ROWS: Final = 200
"""How many agents are shown at most."""
MAX_ALERTS: Final = 20
"""How many of the latest alerts are shown."""


def watch_data(fleet: Fleet, alerts: Sequence[dict[str, Any]], *, following: bool) -> dict[str, Any]:
    """What the widget shows: the agents that run, and the latest alerts, the newest first."""
    rows = fleet.rows(running=fleet.since is None)
    return {
        "rule": None if fleet.rule is None else str(fleet.rule),
        "following": following,
        "files": fleet.files,
        "n_rows": len(rows),
        "n_fired": sum(row.fired is not None for row in rows),
        "rows": [_agent_row(row) for row in rows[:MAX_ROWS]],
        "alerts": [*alerts[-MAX_ALERTS:]][::-1],
        "n_alerts": sum(alert["kind"] == "fires" for alert in alerts),
    }


def alert_of(change: AgentChange, time_s: float) -> dict[str, Any]:
    """An alert, or that one is withdrawn; `time_s` is when it came, in seconds since 1970."""
    fired = change.fired
    return {
        "kind": change.kind,
        "at": time_s,
        "run": change.row.run_id,
        "step": 1 if fired is None else fired.number,
        "reason": "" if fired is None else fired.stop.reason,
        "text": alert_line(change),
    }


def _agent_row(row: AgentRow) -> dict[str, Any]:
    fired = row.fired
    return {
        **{name: value for name, value in row_data(row).items() if name not in ("limits", "path")},
        "name": name_of(row),
        "title": clean(f"{row.run_id} in {shared_path(str(row.path))}"),
        "task": shorten(row.task, 90),
        "depth": row.depth,
        "limits": [
            {"text": limit_text(limit), "share": min(limit.share, 1.0), "reason": limit.reason} for limit in row.limits
        ],
        "state": state_of(row),
        "reason": None if fired is None else fired.stop.reason,
        "step": row.steps if fired is None else fired.number,
    }


EVERY_S: Final = 0.25
"""How often the table is drawn at most."""
SHUTDOWN_TIMEOUT_S: Final = 5.0
MAX_FAULTS: Final = 5
"""How many of the latest faults the text shows."""
MAX_BARS: Final = 24
"""How many agents the picture shows at most."""


class _AgentTable(OpeningView, module="watch_view"):
    """The table. The browser sets `opened` and `following`."""

    following = traitlets.Bool(default_value=True).tag(sync=True)


class WatchView(OpensRuns):
    """Running agents, as `watch` shows them: a row for each, drawn again while their logs grow.

    The logs are followed in a thread, so the table is drawn while the kernel is idle. `stop` ends it, as does the
    button, and `close`.

    Attributes:
        following: Whether the logs are followed; set it to stop, or to continue.
        opened: `{"run": run_id, "step": n}`, the run that is open below; None for nothing.
        alerts: Where the rule was true since the beginning: `run`, `step`, `reason`, `text`, and `at`, in seconds.
        faults: What could not be followed or shown since the beginning, in sentences; all else is.
    """

    following = traitlets.Bool(default_value=True)

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.alerts: list[dict[str, Any]] = []
        self.faults: list[str] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._drawn = 0.0
        self._pending = False
        try:
            self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            self._loop = None
        self._take(fleet.look())
        super().__init__(_AgentTable(watch_data(fleet, self.alerts, following=True)), {}, ("opened", "following"))
        self._by_id = _RunsOf(fleet)
        self.observe(lambda change: self._follow(starts=bool(change["new"])), "following")
        self._follow(starts=True)

    def stop(self) -> None:
        """Stop following the logs. The table stays as it is."""
        self.following = False

    def close(self) -> None:
        """Stop following the logs, and remove the widget."""
        self.stop()
        super().close()

    @property
    def data(self) -> Mapping[str, Any]:
        """What is shown, as plain data: `rows`, `alerts`, `rule`, ..."""
        return watch_data(self._fleet, self.alerts, following=self.following)

    def _follow(self, *, starts: bool) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            self._stop.set()
            if thread is not threading.current_thread():
                thread.join(SHUTDOWN_TIMEOUT_S)
        if starts:
            self._stop = threading.Event()
            self._thread = threading.Thread(
                target=_run, args=(weakref.ref(self), self._fleet, self._stop), name="boolab watch", daemon=True
            )
            self._thread.start()
        self._draw()

    def _on_changes(self, changes: list[AgentChange]) -> None:
        """In the thread: take what happened, and have it drawn, by the kernel's own thread if it has a loop."""
        self._take(changes)
        if not changes or (self._pending and self._loop is not None):
            return
        if self._loop is not None and self._loop.is_running():
            self._pending = True
            self._loop.call_soon_threadsafe(self._draw_soon)
        else:
            self._draw()

    def _draw_soon(self) -> None:
        wait = self._drawn + EVERY_S - time.monotonic()
        if wait > 0:
            asyncio.get_running_loop().call_later(wait, self._draw)
        else:
            self._draw()

    def _draw(self) -> None:
        self._pending = False
        self._drawn = time.monotonic()
        self._view.show(self.data)

    def _take(self, changes: Iterable[AgentChange]) -> None:
        time_s = time.time()
        self.faults += self._fleet.take_faults()
        for change in changes:
            if change.kind in ("fires", "withdrawn"):
                try:
                    self.alerts.append(alert_of(change, time_s))
                except Exception as error:  # noqa: BLE001 - its texts are those of a log, and others follow
                    self.faults.append(f"{change.row.path}: an alert cannot be shown ({type(error).__name__}: {error})")

    def _title(self) -> str:
        data = self.data
        rule = "" if data["rule"] is None else f", {count(data['n_alerts'], 'alert')}"
        return f"watch: {count(data['n_rows'], 'agent')}{rule}"

    def _text(self) -> str:
        from boolab.live.follow.rows import table

        rows = self._fleet.rows(running=self._fleet.since is None)
        lines = table(rows) if rows else ["no agent is running"]
        return "\n".join([*lines, *(alert["text"] for alert in self.data["alerts"]), *self.faults[-MAX_FAULTS:]])

    def _picture(self) -> bytes:
        rows = [row for row in self.data["rows"] if row["limits"]][:MAX_BARS][::-1]
        if not rows:
            return b""

        def draw(figure: Figure) -> None:
            axes = figure.subplots()
            names = [f"{row['name']}: {row['limits'][0]['text']}" for row in rows]
            axes.barh(range(len(rows)), [row["limits"][0]["share"] for row in rows])
            axes.set_yticks(range(len(rows)), names)
            axes.set_xlim(0, 1)
            axes.set_xlabel("share of the next limit")

        return png_of(draw, (7.2, 1.0 + 0.34 * len(rows)))

    def _parts(self) -> list[PagePart]:
        data = {**self.data, "following": False, "still": True}  # a page has no kernel
        return [PagePart("watch_view", data, {"opened": None, "following": False})]

    def _runs(self) -> dict[str, PagePart]:
        ids = [row["run_id"] for row in self.data["rows"]]
        return replay_parts(run for run_id in ids if (run := self._fleet.run(run_id)) is not None)


class _RunsOf(Mapping[str, Run]):
    """The runs of a fleet, as they stand."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def __getitem__(self, run_id: str) -> Run:
        run = self._fleet.run(run_id)
        if run is None:
            raise KeyError(run_id)
        return run

    def __iter__(self) -> Iterator[str]:
        return iter([row.run_id for row in self._fleet.rows(running=False)])

    def __len__(self) -> int:
        return len(self._fleet.rows(running=False))


def _run(view: weakref.ref[WatchView], fleet: Fleet, stop: threading.Event) -> None:
    """The thread: it holds the view weakly, and ends when there is none."""
    for changes in watch_fleet(fleet, stop):
        live_view = view()
        if live_view is None:
            return
        try:
            live_view._on_changes(changes)  # noqa: SLF001 - the view's own thread
        except Exception as error:  # noqa: BLE001 - the next change may be shown
            live_view.faults.append(f"the table cannot be drawn ({type(error).__name__}: {error})")
        del live_view


def watch(
    path: str | Path | Iterable[str | Path] | None = None,
    rule: StopRule | None = None,
    *,
    scope: Scope = "auto",
    format: str | Reader | None = None,  # noqa: A002 - as load_runs has it
    idle: float = 600,
    since: float | None = None,
    prices: bool = True,
) -> WatchView:
    r"""Watch running agents in a notebook: a row for each, drawn again while their logs grow; a click opens Replay.

    Nothing is stopped: where the rule would stop an agent, its row and an alert name the step, which is the one at
    which `counterfactual` stops it. `boolab watch` is the same in a terminal.

    Args:
        path: A log, a folder, a glob, or several; by default where the harnesses on this machine keep their logs.
        rule: The rule that is evaluated for each agent; None counts alone.
        scope: Whether counters start anew with each message of the user (`turn`), or never (`run`); `auto` is as the
            harness of each log counts.
        format: The format of the logs, if it is not to be detected.
        idle: How many seconds after its last change a log is one of a running agent.
        since: Show also agents whose logs were changed at this time or later, in seconds since 1970.
        prices: Whether costs that logs lack are computed from tokens at list prices; see `bl.priced`.

    Returns:
        The widget. Its `stop` ends it.

    Raises:
        RunFormatError: if there is no such file or folder, or no harness keeps logs here.
        SettingError: if an option is not one of those above.

    Example:
        >>> import boolab as bl
        >>> import tempfile
        >>> lines = ['{"role": "user", "content": "Hello"}', '{"role": "assistant", "content": "Hi."}']
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "chat.jsonl").write_text("\n".join(lines))
        ...     view = bl.watch(folder, bl.max_steps(20))
        ...     view.stop()
        >>> view
        WatchView(watch: 1 agent, 0 alerts)
    """
    paths = [path] if isinstance(path, str | Path) else path
    log_places = usual_places() if paths is None else places_of([*paths])
    return WatchView(Fleet(log_places, rule, scope=scope, format=format, idle_s=idle, since=since, prices=prices))
