"""A run, played, and views below which a run that is chosen in them is played."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import ipywidgets
import traitlets

from boolab.core.run import Run
from boolab.core.text import clean, clip, count, shorten
from boolab.core.types import Response, Step
from boolab.display.text import NO_NAME
from boolab.display.transcript import WIDTH
from boolab.errors import SettingError
from boolab.frames.dtypes import replace_surrogates
from boolab.frames.runs import Runs, as_runs, one_run
from boolab.harnesses.policy import Policy
from boolab.io.checks import is_whole
from boolab.limits.function_rule import AnyRule
from boolab.store.connection import begins_as_sqlite
from boolab.whatif.question import listed_rules
from boolab.widgets._base.standalone_html import PagePart
from boolab.widgets._base.widget import Shown, View, png_of
from boolab.widgets.replay.data import code_of, replay_data, replays_data

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SPEEDS: Final = (1, 2, 4, 8, 16)


class Replay(View, module="replay"):
    """A run to play, scrub and search, step by step: texts, calls, results, and the counter of each limit.

    The browser moves the play head; `step` follows it, and moves it. Everything else is fixed: to see other policies,
    make another widget.

    Args:
        run: The run, or a list with one, or the path of a store that holds one.
        step: The step that is shown first, from 1.
        policies: Policies, or names of presets, whose stops are marked beside the run's own; by default those of
            `boolab.widgets.replay.what_if_marks.DEFAULT_POLICIES`.
        rules: Stop rules, or functions of the run so far, whose stops are marked, such as `bl.doom_loop(3)`.
        runs: Runs among which there are subagents of this one that it does not hold itself, as those of logs, which are
            linked by their `parent_run_id`. The run itself may be among them.

    Attributes:
        step: The step that is shown.
        playing: Whether it plays.
        speed: How fast: 1, 2, 4, 8 or 16 times.
        axis: `count`: each step is as wide as any other; `time`: as long as it took, where the record has times.
        query: The text that is searched for.

    Raises:
        SettingError: if there is more or less than one run, it has no such step, or a policy is not known or
            cannot be evaluated on recordings.
        TypeError: if it is not a run.

    Example:
        >>> import boolab as bl
        >>> script = bl.ScriptedModel([{"tool_calls": [{"name": "ls"}]}, "Done."], tools={"ls": "a.py"})
        >>> replay = bl.Replay(bl.run_sync(None, "Look", model=script), step=2)
        >>> replay, replay.step
        (Replay(no name, finished, 2 steps), 2)
    """

    step = traitlets.Int(1).tag(sync=True)
    playing = traitlets.Bool(default_value=False).tag(sync=True)
    speed = traitlets.Enum(SPEEDS, default_value=1).tag(sync=True)
    axis = traitlets.Enum(("count", "time"), default_value="count").tag(sync=True)
    query = traitlets.Unicode("").tag(sync=True)

    def __init__(
        self,
        run: Runs,
        *,
        step: int = 1,
        policies: Sequence[str | Policy] | None = None,
        rules: Sequence[AnyRule] | AnyRule = (),
        runs: Runs = (),
    ) -> None:
        self._run = one_run(run, "Replay")
        _check_step(self._run, step)
        self._store = run if isinstance(run, str | Path) and begins_as_sqlite(run) else None
        compared = listed_rules(rules)
        self._options = policies, compared, as_runs(runs)
        if policies is not None or compared:
            self._replay_data  # noqa: B018 - an error for those that cannot be evaluated; the default ones can
        super().__init__(lambda: self._replay_data, step=int(step))

    @cached_property
    def _replay_data(self) -> dict[str, Any]:
        data = replay_data(self._run, *self._options)
        return data if self._store is None else data | {"code": code_of(self._run, self._store)}

    @property
    def run(self) -> Run:
        """The run."""
        return self._run

    @traitlets.validate("step")
    def _validate_step(self, proposal: dict[str, Any]) -> int:
        value: int = proposal["value"]
        _check_step(self._run, value)
        return value

    def _title(self) -> str:
        run = self._run
        return f"{shorten(run.agent or NO_NAME, 60)}, {run.stop_reason}, {count(run.n_steps, 'step')}"

    def _text(self) -> str:
        return replay_text(self._replay_data)

    def _parts(self) -> list[PagePart]:
        (part,) = super()._parts()
        return [replace(part, traits={**part.traits, "playing": False})]  # a page never plays by itself

    def _picture(self) -> bytes:
        return self._png

    @cached_property
    def _png(self) -> bytes:
        return picture_of(self._run)


def _check_step(run: Run, step: object) -> None:
    last_step = max(1, run.n_steps)
    if not is_whole(step) or not 1 <= step <= last_step:
        steps_text = f"the steps 1 to {last_step:,}" if run.n_steps else "no steps: leave step at 1"
        raise SettingError(f"step={step!r}: run {run.run_id} has {steps_text}")


MAX_RUNS: Final = 12
MAX_STEPS: Final = 12_000
"""Of all runs in a page together: about a megabyte."""


def replay_parts(runs: Iterable[Run], other_runs: Sequence[Run] = ()) -> dict[str, PagePart]:
    """By run_id, the views that a page without a kernel can open: of these runs, most wanted first, those that fit."""
    chosen_runs: dict[str, Run] = {}
    steps = 0
    for run in runs:
        steps += len(run.steps)
        if len(chosen_runs) == MAX_RUNS or (chosen_runs and steps > MAX_STEPS):
            break
        chosen_runs[run.run_id] = run
    return dict(
        zip(chosen_runs, map(Replay.part_of, replays_data([*chosen_runs.values()], runs=other_runs)), strict=True)
    )


class OpeningView(View):
    """A view in which a run can be chosen.

    Attributes:
        opened: `{"run": run_id, "step": n}`, the chosen run and its step; None for none.
    """

    opened = traitlets.Dict(allow_none=True, default_value=None).tag(sync=True)


class OpensRuns(Shown, ipywidgets.VBox):  # type: ignore[misc] # ipywidgets has no types
    """A view, and below it the run that was chosen in it.

    Attributes:
        opened: `{"run": run_id, "step": n}`, what is open below and its step; None for nothing. Setting it opens a run.
    """

    opened = traitlets.Dict(allow_none=True, default_value=None)

    def __init__(self, view: OpeningView, runs: Mapping[str, Run], names: Iterable[str] = ("opened",)) -> None:
        """Put the view on top. `runs` are those that can be opened, `names` the traits that both have in common."""
        self._view = view
        self._by_id: Mapping[str, Run] = dict(runs)
        self._replay: Replay | None = None
        self._below = ipywidgets.VBox()
        super().__init__([view, self._below])
        self.add_class("boolab-whole")
        for name in names:
            traitlets.link((view, name), (self, name))
        self.observe(self._open, "opened")

    def _family(self, run_id: str) -> Sequence[Run]:
        """The run of this id, then those of its subagents that it does not hold; empty if it cannot be opened."""
        run = self._by_id.get(run_id)
        return () if run is None else (run,)

    def _openable_runs(self) -> str:
        """Which runs can be opened, for an error."""
        return "the one run here" if len(self._by_id) == 1 else f"one of the {len(self._by_id):,} runs here"

    @traitlets.validate("opened")
    def _validate_opened(self, proposal: dict[str, Any]) -> dict[str, Any] | None:
        value: dict[str, Any] | None = proposal["value"]
        if value is None:
            return None
        run_id = value.get("run")
        family = self._family(run_id) if isinstance(run_id, str) else ()
        if not family or set(value) != {"run", "step"} or not is_whole(value["step"]):
            raise SettingError(f"opened={value!r}: expected {{'run': run_id, 'step': n}} with {self._openable_runs()}")
        return {"run": run_id, "step": min(max(1, value["step"]), max(1, len(family[0].steps)))}

    def _open(self, change: dict[str, Any]) -> None:
        value = change["new"]
        old_replay = self._replay
        if value is not None and old_replay is not None and old_replay.run.run_id == value["run"]:
            old_replay.step = value["step"]
            return
        self._replay = None
        if value is not None:
            run, *other_runs = self._family(value["run"])
            self._replay = Replay(run, step=value["step"], runs=other_runs)
            self._replay.observe(self._on_move, "step")
        self._below.children = () if self._replay is None else (self._replay,)
        if old_replay is not None:
            old_replay.close()  # otherwise the kernel and the page would keep every run that was ever opened

    def _on_move(self, _: object) -> None:
        if self._replay is not None:
            self.opened = {"run": self._replay.run.run_id, "step": self._replay.step}

    @property
    def replay(self) -> Replay | None:
        """The run that is open below."""
        return self._replay

    def _parts(self) -> list[PagePart]:
        return self._view._parts()  # noqa: SLF001 - both are widgets


MAX_LAID_OUT: Final = 1_000  # steps: with more, the layout of a picture takes as long as drawing it
MAX_LINES: Final = 48  # steps of a run that are shown as text
MAX_LAST: Final = 12  # how many of these are the last ones of a long run


# --- The picture ------------------------------------------------------------------------------------------------------


def picture_of(run: Run) -> bytes:
    """The timeline of a run as a PNG: no text in the run can prevent the drawing."""
    from boolab.plots.timeline import plot_timeline

    long = run.n_steps > MAX_LAID_OUT

    def draw(figure: Figure) -> None:
        plot_timeline(_drawable(run), ax=figure.subplots())
        if long:
            figure.subplots_adjust(left=0.2, right=0.97, top=0.84, bottom=0.2)

    return png_of(draw, (9, 4.2), layout=None if long else "constrained")


def _drawable(run: Run) -> Run:
    """The run with texts that fonts and tables accept: no control characters, no lone surrogates."""
    steps = tuple(_drawable_step(step) for step in run.steps)
    limits = {clean(name): value for name, value in run.limits.items()}
    return replace(run, run_id="run", agent=clean(run.agent), task=clean(run.task[:200]), limits=limits, steps=steps)


def _drawable_step(step: Step) -> Step:
    original = step.response
    calls = tuple(
        call._replace(name=clean(call.name[:80]), arguments=replace_surrogates(call.arguments))
        for call in original.tool_calls
    )
    results = tuple(result and result._replace(content=replace_surrogates(result.content)) for result in step.results)
    response = Response("text" if original.text else "", calls, usage=original.usage)
    return step._replace(response=response, results=results, error="", shadow_stops=())


# --- The text ---------------------------------------------------------------------------------------------------------


def replay_text(data: Mapping[str, Any]) -> str:
    """The steps of `replay_data` as text, about 60 lines at most, with the stop and those of other policies."""
    return "\n".join(clip(line.rstrip(), WIDTH) for line in _lines(data))


def _lines(data: Mapping[str, Any]) -> Iterator[str]:
    misses = {miss["step"]: miss["text"] for miss in (data["bill"] or {"misses": ()})["misses"]}
    yield clean(" · ".join(data["pills"]))
    steps = data["steps"]
    numbers = _shown(len(steps))
    opens = {turn["first"]: turn["title"] for turn in data["turns"]}
    if not steps:
        yield from filter(None, map(_line, opens.values()))
    last = 0
    for number in numbers:
        if number > last + 1:
            hidden_count = number - last - 1
            yield f"      {count(hidden_count, 'step')} {'is' if hidden_count == 1 else 'are'} left out"
        if number in opens:
            yield _line(opens[number])
        yield f"{number:4}. {_step_line(steps[number - 1])}"
        if number in misses:
            yield f"      cache missed: {misses[number]}"
        last = number
    yield _line(data["stop"]["text"])
    if data["finding"]:
        yield _line(data["finding"])
    yield from _marked(data["marks"])
    if data["children"]:
        yield _line("subagents: " + ", ".join(child["run"]["title"] for child in data["children"][:MAX_LAST]))


def _shown(n: int) -> Sequence[int]:
    """The numbers of the steps that are shown: of a long run the beginning and the end."""
    if n <= MAX_LINES:
        return range(1, n + 1)
    return [*range(1, MAX_LINES - MAX_LAST + 1), *range(n - MAX_LAST + 1, n + 1)]


def _step_line(step: Mapping[str, Any]) -> str:
    parts = [call["label"] + _outcome(call) for call in step["calls"]]
    if not parts and step["text"]:
        parts = [f'"{_line(step["text"])}"']
    if not parts and step["missing"]:
        parts = ["a text that is not on record"]
    if step["error"]:
        parts.append(f"failed: {_line(step['error'])}")
    return ", ".join(parts) or "nothing"


def _outcome(call: Mapping[str, Any]) -> str:
    if call["dropped"]:
        return " (never ran)"
    failed = " (failed)" if call["error"] else ""
    return f"{failed} (same call, {call['streak']} in a row)" if call["streak"] > 1 else failed


def _marked(marks: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    other_marks = [mark for mark in marks if not mark["own"] and mark["step"] is not None]
    for mark in sorted(other_marks, key=lambda mark: int(mark["step"]))[:6]:
        yield _line(f"{mark['label']}: after step {mark['step']:,}")


def _line(text: str) -> str:
    return clean(text[:400])
