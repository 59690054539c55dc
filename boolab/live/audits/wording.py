"""An audit in sentences: the verdict first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pandas as pd

from boolab.core.run import Run
from boolab.core.run_tree import roots_in
from boolab.core.text import clean, count, first_of, shorten
from boolab.display.numbers import format_runs, money, short_number
from boolab.display.text import joined
from boolab.live.audits.count import CONTEXT_UNIT
from boolab.live.audits.declared import Declared
from boolab.live.audits.verdicts import VerdictRow

MAX_NAMES: Final = 5  # names in a sentence
_FIRED: Final = ("n_hit", "n_at_limit", "n_exceeded")
MAX_IDLE: Final = 6  # sentences about limits that stopped no run


@dataclass(frozen=True)
class Words:
    """What an audit found."""

    runs: Sequence[Run]
    rows: Sequence[VerdictRow]
    binding: pd.DataFrame
    unmatched: Sequence[Declared]

    def sentences(self) -> Iterator[str]:
        """The verdict, what it cost, and which limits matter."""
        if not self.rows:
            roots = roots_in(self.runs)
            n_subagents = sum(root != index for index, root in enumerate(roots))
            size = format_runs(len(self.runs), None, n_subagents)
            subject = "this run" if len(self.runs) == 1 else f"these {size}"
            yield f"No limit was declared for {subject}."
            yield 'You can name one: --limit max_steps=30, in Python limits={"max_steps": 30}.'
            return
        yield from self._exceeded_sentences()
        yield from self._hit_sentences()
        yield from self._unknown_sentences()
        yield from self._idle_sentences()

    def _rows_of(self, verdict: str) -> list[VerdictRow]:
        return [row for row in self.rows if row.verdict == verdict]

    def _share(self, rows: Sequence[VerdictRow]) -> str:
        """How many of the runs with a limit these are."""
        n_listed, n_runs = len({row.run_id for row in rows}), len({row.run_id for row in self.rows})
        return f"{n_listed:,} of {count(n_runs, 'run')}"

    def _exceeded_sentences(self) -> Iterator[str]:
        exceeded_rows = self._rows_of("exceeded")
        n = len({row.run_id for row in self.rows})
        checked = len({row.run_id for row in self.rows if row.verdict != "unknown"})
        partly = f"{checked:,} of {count(n, 'run')} with a limit can be checked." if checked < n else ""
        if not exceeded_rows:
            if partly:
                yield partly
            clause, limit = ("that can be checked", "its limit") if partly else ("with a limit", "it")
            if checked:
                subject = f"The run {clause} did not go" if checked == 1 else f"None of {checked:,} runs {clause} went"
                yield f"{subject} beyond {limit}."
            return
        worst = max(exceeded_rows, key=lambda row: (row.counted or 0) / max(row.declared or 0, 1e-9))
        agent = f", by the agent {shorten(worst.agent)}" if worst.agent not in ("", worst.source) else ""
        largest = f"the largest count is {figure(worst.counted or 0)} {worst.unit}"
        limit = f"{worst.limit} {figure(worst.declared or 0)}{agent}"
        yield f"{self._share(exceeded_rows)} went beyond a limit that was set: {largest} under {limit}."
        yield self._price(exceeded_rows)
        if partly:
            yield partly

    def _price(self, exceeded_rows: Sequence[VerdictRow]) -> str:
        """What the steps beyond limits cost. A run that went beyond several limits counts once, with the most steps."""
        longest_rows: dict[str, VerdictRow] = {}
        for row in exceeded_rows:
            if row.run_id not in longest_rows or (row.steps_beyond or 0) > (longest_rows[row.run_id].steps_beyond or 0):
                longest_rows[row.run_id] = row
        rows = list(longest_rows.values())
        parts = [count(sum(row.steps_beyond or 0 for row in rows), "step")]
        parts.append(count(sum(row.calls_beyond or 0 for row in rows), "call"))
        tokens = [row.tokens_beyond for row in rows if row.tokens_beyond is not None]
        cost = [row.cost_beyond_usd for row in rows if row.cost_beyond_usd is not None]
        if tokens:
            parts.append(f"{short_number(sum(tokens))} tokens")
        if cost and sum(cost):
            parts.append(money(sum(cost)))
        partly = " where the logs show them" if 0 < len(tokens) < len(rows) or 0 < len(cost) < len(rows) else ""
        return f"What followed beyond the limits: {joined(parts)}{partly}."

    def _hit_sentences(self) -> Iterator[str]:
        hit = self._rows_of("hit")
        if hit:
            verb = "was" if len({row.run_id for row in hit}) == 1 else "were"
            yield f"{self._share(hit)} {verb} stopped by a limit."
        yield from self._at_limit_sentences()
        finished = [row for row in hit if row.reported_finished]
        if finished:
            n = len({row.run_id for row in finished})
            names = _list_names([row.run_id for row in finished])
            yield f"{count(n, 'run')} that a limit stopped {'is' if n == 1 else 'are'} reported as finished: {names}."

    def _at_limit_sentences(self) -> Iterator[str]:
        """The runs that a limit may have stopped."""
        rows = self._rows_of("at limit")
        names = list(dict.fromkeys(row.run_id for row in rows))
        if names:
            log_clause, run_clause = (
                ("its log does", "it ended") if len(names) == 1 else ("their logs do", "they ended")
            )
            yield (
                f"{self._share(rows)} may have been stopped by a limit: {run_clause} in the middle at it, and "
                f"{log_clause} not name the cause ({_list_names(names)})."
            )

    def _unknown_sentences(self) -> Iterator[str]:
        for (limit, unit), n in Counter((row.limit, row.unit) for row in self._rows_of("unknown")).items():
            yield f"{limit} cannot be checked in {count(n, 'run')}: the log does not show {unit}."

    def _idle_sentences(self) -> Iterator[str]:
        """Limits that never stopped a run, and those that cannot."""
        idle = list(self._limit_sentences())
        yield from idle[:MAX_IDLE]
        if idle[MAX_IDLE:]:
            yield f"{count(len(idle) - MAX_IDLE, 'further limit')} never stopped a run: see the table of limits."

    def _limit_sentences(self) -> Iterator[str]:
        for row in self.binding.to_dict("records"):
            name = row["limit"] if pd.isna(row["declared"]) else f"{row['limit']} {figure(row['declared'])}"
            agent = shorten(row["agent"]) if pd.notna(row["agent"]) and row["agent"] not in ("", row["source"]) else ""
            agent_phrase = f" of {agent}" if agent else ""
            if pd.notna(row["never_fires_under"]):
                yield f"{name}{agent_phrase} can never fire: {row['never_fires_under']}."
            elif not any(row[name] for name in _FIRED) and pd.notna(row["largest"]) and row["declared"]:
                amounts = f"at most {figure(row['largest'])} of {figure(row['declared'])} {row['unit']}"
                effect = "was not exceeded" if row["unit"] == CONTEXT_UNIT else "never stopped a run"
                yield f"{name}{agent_phrase} {effect}: {amounts} in {count(row['n_runs'], 'run')}."

    def notes(self) -> Iterator[str]:
        """What limits the answer."""
        limited = {row.run_id for row in self.rows}
        runs_without = [run for run in self.runs if run.run_id not in limited]
        if runs_without and self.rows:
            children = [run for run in runs_without if run.parent_run_id is not None]
            agents = _list_names(sorted({run.agent or "without a name" for run in children}))
            agent_phrase = f", {len(children):,} of them of subagents ({agents})" if children else ""
            reason = ": a limit counts for one agent alone" if children else ""
            n_runs = count(len(self.runs), "run")
            yield f"{len(runs_without):,} of {n_runs} had no declared limit{agent_phrase}{reason}."
        for limit in self.unmatched:
            agent_phrase = f" of {shorten(limit.agent)}" if limit.agent not in (None, "*") else ""
            all_agents = sorted({run.agent or run.source for run in self.runs} - {""}) if agent_phrase else []
            theirs = f"; their agents: {_list_names(all_agents)}" if all_agents else ""
            yield f"{limit.name} {figure(limit.value)}{agent_phrase} ({limit.where}) is for none of these runs{theirs}."
        if any(row.later_config for row in self.rows):
            yield "Configuration files are read as they are now; some were changed after the runs."


def figure(value: float) -> str:
    """A limit or a count: whole numbers with commas, others with four digits."""
    return f"{int(value):,}" if float(value).is_integer() else f"{value:,.4g}"


def _list_names(names: Sequence[str]) -> str:
    return first_of(list(dict.fromkeys(map(clean, names))), MAX_NAMES)
