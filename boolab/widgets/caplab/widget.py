"""Limits, tried on recorded runs with sliders."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal, cast, overload

import traitlets

from boolab.core.text import clean, count
from boolab.core.types import Identities, Scope
from boolab.errors import SettingError, near
from boolab.frames.runs import Runs, as_runs
from boolab.frames.tables import tools_called
from boolab.harnesses.policy import Policy
from boolab.harnesses.presets import get_policy, identity_under
from boolab.harnesses.setting import ALL_AGENTS, Setting, format_kept, format_saved, format_setting
from boolab.limits.call_identity import check_tools
from boolab.limits.table import AGENT_LIMITS, MEASURES, MeasureName
from boolab.stats.recommend.decision import Decision
from boolab.stats.recommend.groups import name_of
from boolab.trials.result import TrialResult
from boolab.trials.trial import Trial
from boolab.whatif.step_table import one_scope
from boolab.widgets._base.standalone_html import PagePart, pack
from boolab.widgets._base.widget import page_or_path, png_of
from boolab.widgets.caplab.controls import change_counting, counting_of, tools_by_calls
from boolab.widgets.caplab.data import CapTables
from boolab.widgets.caplab.page_settings import settings_in_page
from boolab.widgets.caplab.question import Question
from boolab.widgets.caplab.table import ROWS, CapTable
from boolab.widgets.caplab.trial_evidence import TrialEvidence
from boolab.widgets.replay.widget import OpeningView, OpensRuns, replay_parts

KEEPS: Final = (0.9, 0.95, 0.98, 0.99)
"""The shares of successes to keep that there are to choose from, besides the given one."""
MAX_IN_PAGE: Final = 12
"""How many of the runs that a setting stops a page lists, and can replay."""
MAX_AGENTS_IN_PAGE: Final = 8
"""How many agents a page holds, besides all together."""
MAX_BYTES_IN_PAGE: Final = 600_000
"""How much a page holds of agents that are not shown at first, compressed."""


class _Figure(OpeningView, module="caplab"):
    """The answer, the controls, the figures and the lists."""

    rows = traitlets.Int(ROWS).tag(sync=True)
    wanted = traitlets.Dict(allow_none=True, default_value=None).tag(sync=True)


class CapLab(OpensRuns):
    """A cap, a budget and a doom-loop threshold, tried on recorded runs with sliders.

    What is kept, saved and stopped follows at once. It is counted from the recording, exactly; nothing is simulated. A
    success that a setting stops may or may not be kept, so the number of kept successes is given as two bounds. All of
    this holds for limits that the model cannot see. The numbers are those of `counterfactual(..., aggregate=True)`; the
    decision (what to set, to leave off, or not yet) is that of `recommend`, in its words. Where no run has a label, it
    counts turns as `recommend` does: each by itself, because a cap starts again in each.

    It opens on the setting that is to be set, else without a limit, as it does until the decision is computed. A limit
    that would keep enough and is left off is marked. The lower bound of what a setting keeps is that of the setting by
    itself, as if nothing else was asked of its group: at the whole error that the group may have. It is the same
    whatever was computed before: see `boolab.stats.kept_share`.

    A limit is for one group of runs. The groups are those that `recommend` keeps apart by default: agents and data
    sets, and models, efforts and versions of the harness whose runs differ in length; they share the error. The largest
    is shown at first; a tab of each leads to the others, and one to all together. Where there are runs of subagents,
    the limits are those of one agent at a time, at first of the agent that families begin with. The success of a family
    is its root's, and a limit on an agent loses it if it stops any of that agent's runs: what is kept is what
    `counterfactual(..., grid={"max_steps@scout": ...}, aggregate=True)` reports. What is saved is the part that is cut
    off these runs, as if each of them were begun.

    Args:
        runs: A run, runs, or the path of a store or of logs.
        policy: Whose order of precedence, way to compare calls and further limits hold; None for boolab's own.
        keep: The share of successes that the recommended setting keeps, between 0 and 1.
        confidence: The confidence that it does, between 0 and 1.
        objective: What to save: "cost", "tokens", "tool_calls" or "steps". Where fewer than half of the steps have it,
            tokens, or else steps.
        success: What a success is: "label", "ended" (the proxy: the run ended by itself), or None for labels where
            the runs of an agent have any.
        scope: Whether counters start at zero in each turn ("turn") or continue ("run").
        identity: What makes two calls the same; by default the policy's.
        exempt: The tools whose repeats are no loop, such as one that polls.
        trial: What `bl.trial` made of the same runs, or of those of one agent: the plan, whose result so far is taken,
            or a result. A step cap beyond the runs on record is drawn in the figure; a trial of anything else is a
            sentence and a table below it.
        decision: What `recommend` returned for the same runs and arguments: its groups are shown, and nothing is
            computed anew until another question is asked.

    Attributes:
        opened: The run that is open in Replay below, as `{"run": run_id, "step": n}`; None for none. Settable.

    Raises:
        SettingError: if there is no run, an argument is not accepted, sums are not enough to evaluate the policy, or
            the trial is one of other runs.

    Example:
        >>> import boolab as bl
        >>> look = {"tool_calls": [{"name": "ls"}], "repeat": 2}
        >>> run = bl.run_sync(None, "Look", model=bl.ScriptedModel([look, "Done."]))
        >>> lab = bl.CapLab([run])
        >>> lab.setting = {"max_steps": 1}
        >>> lab.answer["kept"], lab.answer["rows"][0]["at"]
        ({'lower': 0, 'upper': 0, 'of': 1}, 1)
    """

    def __init__(
        self,
        runs: Runs,
        *,
        policy: str | Policy | None = None,
        keep: float = 0.95,
        confidence: float = 0.95,
        objective: MeasureName = "cost",
        success: Literal["label", "ended"] | None = None,
        scope: Scope = "auto",
        identity: Identities | None = None,
        exempt: Sequence[str] = (),
        trial: Trial | TrialResult | None = None,
        decision: Decision | None = None,
    ) -> None:
        identity = identity_under(policy, identity, exempt)
        run_list = as_runs(runs)
        if not run_list:
            msg = "CapLab: there is no run; expected one or more, such as bl.load_runs(path)"
            raise SettingError(msg)
        check_tools(identity, tools_called(run_list))
        policy_identity = "canonical" if policy is None else get_policy(policy).detectors.identity
        run_scope = cast("Literal['turn', 'run']", one_scope([run.source for run in run_list], scope))
        start = Setting(identity=policy_identity if identity is None else identity, scope=run_scope)
        self._tables = CapTables(run_list, Question(policy, keep, confidence, objective, success), start, decision)
        self._replays: tuple[tuple[str, ...], dict[str, PagePart]] | None = None
        self._search: asyncio.Task[None] | None = None
        groups = list(self._tables.groups.values())
        self._trial = None if trial is None else TrialEvidence(trial, run_list, groups)
        self._setting = self._opening(start._replace(agent=self._first_agent()))
        self._untouched = True
        self._answered: int | None = None
        self._others_in_page = True
        self._agents = [{"name": group.name, "title": group.title, "detail": group.detail} for group in groups]
        self._tools = tools_by_calls(run_list)
        self._figure = _Figure(self._data_of(self._setting))
        super().__init__(self._figure, {run.run_id: run for run in reversed(run_list)})
        self.add_class("boolab-caplab-lab")
        self._figure.observe(self._on_wanted, "wanted")
        self._figure.observe(lambda _: self._refresh(), "rows")
        self._begin_search()

    # --- The setting --------------------------------------------------------------------------------------------------

    @property
    def setting(self) -> dict[str, Any]:
        """The values of the controls: max_steps, tool_budget, doom_loop (None is off), identity, scope, agent (group).

        Setting it moves them: what is left out stays as it is.
        """
        return self._setting._asdict()

    @setting.setter
    def setting(self, wanted: Mapping[str, Any]) -> None:
        for name in wanted:
            if name not in Setting._fields:
                raise SettingError(f"setting: there is no {name!r}{near(name, Setting._fields, 'accepted')}")
        self._tables.put_on_sliders({name: wanted[name] for name in AGENT_LIMITS if name in wanted})
        new = self._setting._replace(**wanted)
        places = [name for name in AGENT_LIMITS if name not in wanted]
        new = self._fit_to_sliders(new, places)
        self._tables.get_table(
            new
        )  # an error for an agent, a scope or an identity that is not accepted, before anything moves
        self._untouched = self._untouched and not any(name in wanted for name in AGENT_LIMITS)
        self._move(new)

    @property
    def answer(self) -> dict[str, Any]:
        """All that is shown of the present setting, as plain data."""
        return self._tables.get_table(self._setting).answer(self._setting, self._figure.rows)

    @property
    def recommended(self) -> dict[str, Any]:
        """The decision of `recommend` for the present identity, scope and agent, as plain data.

        The first time takes seconds for thousands of runs. action is "set", "leave" or "not_yet", reason why; `setting`
        is what to set, None where the action is another; `candidate` is the setting that the evidence is about. verdict
        and `sentences` are the answer and what it rests on.
        """
        return self._tables.get_recommendation(self._setting)

    @property
    def keep(self) -> float:
        """The share of successes that the recommended setting keeps. Setting it searches for another one."""
        return self._tables.question.keep

    @keep.setter
    def keep(self, share: float) -> None:
        self._tables.question = replace(self._tables.question, keep=share)
        self._reopen()
        self._refresh()
        self._begin_search()

    def name_group(self, values: Sequence[object]) -> str:
        """The name, as the `agent` of a setting, of a group of runs.

        Args:
            values: The values of the group in the columns that separate runs: `GroupDecision.names`.

        Returns:
            The name.
        """
        names = {group.key: group.name for group in self._tables.groups.values()}
        return names[name_of(values)] if len(self._agents) > 1 else self._setting.agent

    def _fit_to_sliders(self, setting: Setting, names: list[str]) -> Setting:
        """The setting with limits that are on the sliders of its identity and scope: the next looser ones."""
        values = self._tables.get_table(setting).options
        looser: dict[str, Any] = {
            name: next((value for value in values[name] if value is None or value >= limit), None)
            for name in names
            if (limit := setting.limits[name]) is not None
        }
        return setting._replace(**looser)

    def _first_agent(self) -> str:
        """The group that is shown at first: one that the trial is of, if there is one."""
        first, trial_groups = self._tables.first_agent, [] if self._trial is None else self._trial.groups
        return first if first in trial_groups or not trial_groups else trial_groups[0]

    def _opening(self, setting: Setting) -> Setting:
        """The setting with the limits that are shown at first: those to set, else none."""
        return setting._replace(**self._tables.get_table(setting).opening)

    def _reopen(self) -> None:
        """Show the limits that are shown at first, until the user chooses others."""
        if self._untouched:
            self._setting = self._opening(self._setting)

    # --- What the controls ask for ------------------------------------------------------------------------------------

    def _move(self, setting: Setting) -> None:
        """Show another setting."""
        elsewhere = setting[len(AGENT_LIMITS) :] != self._setting[len(AGENT_LIMITS) :]
        self._setting = setting
        self._refresh()
        if elsewhere:
            self._begin_search()

    def _refresh(self) -> None:
        self._figure.show(self._data_of(self._setting, self._figure.rows))

    def _on_wanted(self, change: Mapping[str, Any]) -> None:
        """Take what the controls ask for: limits, the agent, how calls are counted, or the recommended setting."""
        if not change["new"]:
            return
        request = dict(change["new"])
        self._answered = request.pop("n", None)
        self._view.wanted = None  # so that the same can be asked for again
        if "keep" in request:
            self.keep = float(request["keep"])
            return
        if request.pop("recommended", False):
            self._take_recommended()
            return
        counting = {name: request.pop(name) for name in ("same", "exempt") if name in request}
        setting = change_counting(self._setting._replace(**request), counting)
        self._untouched = self._untouched and not any(name in request for name in AGENT_LIMITS)
        self._move(self._opening(setting) if self._untouched else self._fit_to_sliders(setting, list(AGENT_LIMITS)))

    def _data_of(self, setting: Setting, rows: int = ROWS) -> dict[str, Any]:
        table, recommendation = self._tables.get_table(setting), self._tables.find_recommendation(setting)
        return {
            "agents": self._agents,
            "counting": counting_of(setting, self._tools),
            **self._table_data(table, setting.agent),
            "keep": self.keep,
            "keeps": sorted({*KEEPS, self.keep}),
            "answer": table.answer(setting, rows),
            "recommended": recommendation,
            "searching": self._search is not None,
            "answered": self._answered,
            "grid": None,
            "held": None,
            "by_agent": None,
        }

    def _table_data(self, table: CapTable, agent: str) -> dict[str, Any]:
        """What is shown of some runs whatever the limits are, with the trial of them."""
        if self._trial is None or not self._trial.is_of(agent):
            return {"base": table.base, "trial": None}
        return {"base": self._trial.base(table), "trial": self._trial.page_data(table)}

    # --- The recommended setting --------------------------------------------------------------------------------------

    def _begin_search(self) -> None:
        """Compute the recommended setting in the background, if there is an event loop."""
        if self._tables.find_recommendation(self._setting) is not None or self._search is not None:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # a script: it is computed when it is read
        self._search = loop.create_task(self._find(self._setting))
        self._refresh()

    async def _find(self, setting: Setting) -> None:
        question = self._tables.question
        try:
            results = await asyncio.to_thread(self._tables.search, setting, question)
            self._tables.add(setting, question, results)
        finally:
            self._search = None
            self._reopen()
            self._refresh()
        self._begin_search()  # the user may have moved on to another setting

    def _take_recommended(self) -> None:
        recommendation = self.recommended
        if recommendation["setting"] is None:
            self._refresh()
        else:
            self.setting = recommendation["setting"]

    # --- Without a kernel, and without JavaScript ---------------------------------------------------------------------

    @overload
    def to_html(self, path: None = None, *, other_agents: bool = True) -> str: ...
    @overload
    def to_html(self, path: str | Path, *, other_agents: bool = True) -> Path: ...
    def to_html(self, path: str | Path | None = None, *, other_agents: bool = True) -> str | Path:
        """The widget as one page that works without a kernel and without a network.

        It holds all step caps, and some values of the other limits. The recommended settings are computed first.

        Args:
            path: A file to write it to.
            other_agents: Whether to hold the agents that are not shown too, as far as there is room.

        Returns:
            The path of the file; without `path`, the text of the page.

        Raises:
            OSError: if the file cannot be written.
        """
        self._tables.get_recommendation(self._setting)
        self._reopen()
        self._refresh()
        self._others_in_page = other_agents
        try:
            for setting in self._other_settings():
                self._tables.get_recommendation(setting)
            return page_or_path(self._page(), path)
        finally:
            self._others_in_page = True

    def _live_bundle(self) -> dict[str, Any]:
        """The live widget. Its text is that of the page, which has the decision: see `_saved_bundle`."""
        return super()._live_bundle() | {"text/plain": repr(self)}

    def _saved_bundle(self) -> dict[str, Any]:
        """The page and its text, both of what the live view opens on in a moment."""
        self._tables.get_recommendation(self._setting)
        self._reopen()
        self._refresh()
        text = "\n".join([repr(self), *map(clean, self._text().splitlines())])
        return {"text/plain": text, **super()._saved_bundle()}

    def _title(self) -> str:
        base = self._tables.get_table(self._setting).base
        return f"caps on {count(base['units'], base['noun'])}"

    def _text(self) -> str:
        table, answer = self._tables.get_table(self._setting), self.answer
        stopped, succeeded = answer["cut"], f"{'of ' if table.base['families'] else ''}{table.base['success']}"
        recommendation = self._tables.find_recommendation(self._setting)
        trial_data = self._table_data(table, self._setting.agent)["trial"]
        sentences = [] if recommendation is None else recommendation["sentences"]
        lines = [
            f"Setting: {format_setting(self._tables.name_agent(self._setting))}",
            *answer["verdict"],
            f"Kept: {format_kept(answer['kept'])} {table.base['success']}.",
            *(f"Saved: {format_saved(saved)}." for saved in answer["saved"]),
            f"Stopped: {count(stopped['n'], table.noun)}, {stopped['succeeded']} of them {succeeded}.",
            *(line for line in sentences if not line.endswith(tuple(answer["verdict"]))),
            *([] if trial_data is None else [trial_data["sentence"]]),
            *table.base["notes"],
        ]
        return "\n".join(lines)

    def _parts(self) -> list[PagePart]:
        data = {
            **self._data_of(self._setting, MAX_IN_PAGE),
            "searching": False,
            "grid": self._held_data(self._setting, all_columns=True)["grid"],
            "held": list(self._runs()),
            "by_agent": self._other_agents(),
        }
        return [PagePart("caplab", data, {"opened": None, "rows": MAX_IN_PAGE, "wanted": None})]

    def _held_data(self, setting: Setting, *, all_columns: bool) -> dict[str, Any]:
        """What a page holds of one agent."""
        table, recommendation = self._tables.get_table_once(setting), self._tables.find_recommendation(setting)
        extra_limits = None if recommendation is None else recommendation["candidate"]
        return {
            **self._table_data(table, setting.agent),
            "recommended": recommendation,
            "grid": settings_in_page(table, setting, extra_limits, MAX_IN_PAGE, all_columns=all_columns),
        }

    def _other_agents(self) -> dict[str, dict[str, Any]]:
        """What a page holds of the agents that are not shown at first, as far as there is room."""
        room, data_by_agent = MAX_BYTES_IN_PAGE, {}
        for setting in self._other_settings():
            agent_data = self._held_data(setting, all_columns=False)
            room -= len(pack(agent_data))
            if room < 0:
                break
            data_by_agent[setting.agent] = agent_data
        return data_by_agent

    def _other_settings(self) -> list[Setting]:
        """The settings without limits of the agents that a page may hold besides the one that is shown."""
        names = [agent["name"] for agent in self._agents] if self._others_in_page else []
        chosen_names = [*names[:MAX_AGENTS_IN_PAGE], *(names[-1:] if ALL_AGENTS in names[-1:] else [])]
        no_limits = self._setting._replace(max_steps=None, tool_budget=None, doom_loop=None)
        return [no_limits._replace(agent=name) for name in dict.fromkeys(chosen_names) if name != self._setting.agent]

    def _runs(self) -> dict[str, PagePart]:
        rows = self._tables.get_table(self._setting).answer(self._setting, MAX_IN_PAGE)["rows"]
        run_ids = tuple(dict.fromkeys(row["run"] for row in rows))
        if self._replays is None or self._replays[0] != run_ids:  # a page needs them twice
            self._replays = run_ids, replay_parts(self._by_id[run_id] for run_id in run_ids)
        return self._replays[1]

    def _picture(self) -> bytes:
        from boolab.plots.caps import plot_caps

        table = self._tables.get_table(self._setting)
        caps, saved = table.caps_frame(self._setting.limits), MEASURES[table.measure].column
        return png_of(lambda figure: plot_caps(caps, saved=saved, ax=figure.subplots()), (9, 4))
