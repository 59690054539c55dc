"""The results as text for a terminal, and as one JSON object for a program."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Final

import numpy as np
import pandas as pd

from boolab.core.text import count, shorten
from boolab.display.numbers import percents, span
from boolab.display.text import NO_NAME, align_columns, capitalize, joined, wrap_text
from boolab.frames.dtypes import axis_value, is_missing
from boolab.limits.table import LIMITS
from boolab.report.data_quality import Quality
from boolab.report.how_to_set import how_to_set, how_to_set_text
from boolab.report.limit_rows import MARKS, LimitRow
from boolab.report.overview import overview_of
from boolab.report.snippets import NOTHING_READ, LogInputs, label_command
from boolab.report.study import MAX_GROUPS, UNITS, Study, column_name
from boolab.report.summary import axes_of_rows, limit_cell, summary_rows

SCHEMA: Final = "boolab/whatif/2"

MAX_AGENTS: Final = 20  # agents that are listed
MAX_NAMED: Final = 3  # groups that are left out, and named
MAX_NAME: Final = 20
"""So many characters of a name are in a row of a table, which has to fit 80 columns."""

MANY_KEYS: Final = 3  # columns of names, beside which there is no room for an interval
MAX_TABLES: Final = 2
"""Of so many groups the tables are shown at first: of those with the most runs."""


def text(study: Study, inputs: LogInputs = NOTHING_READ, *, full: bool = False) -> str:
    """What `boolab whatif` prints: the answer, how to set it, a table for each limit, and what that rests on."""
    found = study.found
    blocks = ["\n".join(wrap_text(sentence) for sentence in found.verdict)]
    how = how_to_set_text(study, full=full)
    blocks += [_headed("How to set it", how)] if how else []
    blocks += [_headed("Whose runs these are", _agents(study))] if len(study.agent_counts) > 1 else []
    if study.keys and found.groups:
        blocks.append(_headed(f"By {', '.join(map(column_name, study.keys))}", _by_group(study)))
    overview = overview_of(study, label_command(study, inputs))
    blocks += [_headed(overview.title, "\n".join(overview.lines()))] if overview else []
    how_to_read = explained(study) if full else [f"{_known(study)}Kept: {kept_name(study)}, at least to at most."]
    blocks.append(_headed("What each limit would have done, by itself", "\n".join(map(wrap_text, how_to_read))))
    for axis in study.margins:
        blocks += _axis(study, axis, full=full)
    rest = [wrap_text(sentence) for sentence in _reasons(study, full=full)]
    notes = [wrap_text(sentence, first="- ") for sentence in Quality(study).sentences()]
    blocks.append(_headed("What this rests on", "\n\n".join([*rest, "\n".join(notes)])))
    if not full:
        tables = "all values of each limit" if len(_with_tables(study)) >= len(found.groups) else "all tables"
        setting = ", and the text of each setting" if how else ""
        blocks.append(wrap_text(f"Not shown here: {tables}{setting}. --full shows them."))
    blocks.append(wrap_text("docs/terms.md defines the words, such as turn, keeps, at least, on record and trade."))
    return "\n\n".join(blocks)


def _reasons(study: Study, *, full: bool) -> Iterator[str]:
    """What the answer rests on, group by group: at first those of some groups, and which others there are."""
    sentences, names = study.found.sentences, [row.name for row in summary_rows(study)] if study.keys else []
    of = {name: [one for one in sentences if one.startswith(f"{name}: ")] for name in names}
    if full or len(sentences) <= MAX_GROUPS or sum(map(len, of.values())) != len(sentences):
        yield from sentences
        return
    shown = 0
    for place, mine in enumerate(of.values()):
        shown += len(mine)
        if shown > MAX_GROUPS and place:
            left = [*of][place:]
            named = f" ({'; '.join(left)})" if len(left) <= MAX_NAMED else ""
            yield f"{count(len(left), 'further group')}{named}: --full shows what their answers rest on."
            return
        yield from mine


def _by_group(study: Study) -> str:
    """A row for each group with limits to set: what they keep and save; then why the others have none."""
    rows = summary_rows(study)
    to_set = [row for row in rows if row.is_set]
    axes = axes_of_rows(study, rows)
    with_interval = len(study.keys) < MANY_KEYS
    head = [
        *map(column_name, study.keys),
        *(LIMITS[axis].label.removesuffix(" threshold") for axis in axes),
        "kept",
        f"{UNITS[study.measure]} saved",
        *(["95% interval"] if with_interval else []),
    ]
    listed = to_set[:MAX_AGENTS]
    cells = [
        [
            *(shorten(value, MAX_NAME) for value in row.names),
            *(limit_cell(row, axis) or "off" for axis in axes),
            row.kept_words,
            share,
            *([row.interval] if with_interval else []),
        ]
        for row, share in zip(listed, percents([row.saved_share for row in listed]), strict=True)
    ]
    lines = align_columns([head, *cells], left=range(len(study.keys))) if cells else []
    rest = [row for row in rows if not row.is_set]
    lines += [wrap_text(f"{row.name}: none. {capitalize(row.reason)}.", rest="  ") for row in rest[:MAX_AGENTS]]
    more = len(to_set) - len(listed) + max(0, len(rest) - MAX_AGENTS)
    return "\n".join([*lines, *([f"{count(more, 'further group')}: --json has all."] if more > 0 else [])])


AGENT_HEAD: Final = ("source", "agent", "runs", "steps", "labelled successes")


def agent_rows(study: Study) -> list[list[str]]:
    """A row for each agent of these runs: how many, and how many runs or turns are labelled successes."""
    return [
        [m.source, shorten(m.agent) or NO_NAME, f"{m.runs:,}", f"{m.steps:,}", f"{m.successes:,} of {m.labelled:,}"]
        for m in study.agent_counts[:MAX_AGENTS]
    ]


def which_one(study: Study) -> str:
    """That there are several agents, and how to separate them."""
    more = (
        f" {len(study.agent_counts) - MAX_AGENTS:,} more are not listed."
        if len(study.agent_counts) > MAX_AGENTS
        else ""
    )
    if study.keys:
        return (
            f"{len(study.agent_counts):,} agents. A limit is for one agent and its tasks, so runs are separated by "
            f"{joined([*map(column_name, study.keys)])}.{more}"
        )
    return (
        f"{len(study.agent_counts):,} agents.{more} A limit is for one agent, and what is here is about all of them "
        "together: read the logs of one agent alone, or separate the agents with --by agent."
    )


def _agents(study: Study) -> str:
    lines = align_columns([AGENT_HEAD, *agent_rows(study)], left=(0, 1))
    return "\n".join([wrap_text(which_one(study)), "", *(f"  {line}" for line in lines)])


def _headed(title: str, block: str) -> str:
    return f"{title}\n{'=' * len(title)}\n{block}"


def explained(study: Study) -> Iterator[str]:
    """How the tables are to be read."""
    who = kept_name(study)
    counters = {
        "turn": "Counters start at zero with each user message.",
        "run": "Counters continue through the whole session.",
        "auto": "Counters start at zero with each user message, or continue, as the harness of each source counts.",
    }[study.question.scope]
    yield (
        f"{_known(study)}{counters} Kept: {who} that the limit leaves as they were; a range where some were stopped "
        "with all their tool calls done, so that they may have been kept."
    )
    if study.has_families:
        yield (
            f"A limit holds for each agent of a family by itself. A {study.noun} whose subagent is stopped counts as "
            "stopped from the call on, because it would have got another answer; a subagent whose parent is stopped "
            "before the call is not started, which saves all its steps."
            if study.question.policy is not None
            else "A limit is that of one agent of a family, and of no other: the family loses its success if one of "
            "that agent's runs is stopped, and each of them counts as started."
        )
    if any(run.steps and run.steps[-1].turn > 1 for run in study.runs) and any(
        (frame["n_not_identified"] > 0).any() for frame in study.margins.values()
    ):
        yield (
            "Each turn is limited by itself, and later turns stand as recorded. There, saved tokens and cost are an "
            "estimate, because later requests on record still contain what would have been left out."
        )


def _known(study: Study) -> str:
    """What is known of the outcomes, before what is computed from them."""
    return f"{study.found.known} " if study.found.known else ""


def kept_name(study: Study) -> str:
    """What is kept, in the plural."""
    kinds = [f"{one.successes(2)}{' (the proxy for success)' if one.proxy else ''}" for one in study.counted_units]
    return " or ".join(kinds)


def _with_tables(study: Study) -> list[str]:
    """The groups whose tables are shown at first: the main agents with the most runs; "" where there is one only."""
    mains = {key for key, run in zip(study.run_keys, study.runs, strict=True) if run.parent_run_id is None}
    sizes = Counter(study.unit_keys)
    keys = [key for key, _ in study.groups(next(iter(study.margins)))]
    return sorted(keys, key=lambda key: (key not in mains, -sizes[key]))[:MAX_TABLES]


def _axis(study: Study, axis: str, *, full: bool) -> Iterator[str]:
    name = LIMITS[axis].label
    groups = [(key, study.limit_rows(axis, key, part)) for key, part in study.groups(axis)]
    first = [key for key, _ in groups[:MAX_GROUPS]] if full else _with_tables(study)
    for group, rows in groups:
        if group not in first:
            continue
        who = f" for {shorten(group)}" if group else ""
        noun = study.counted_units_of(group).noun
        table = _table(study, axis, noun, rows, [row for key, others in groups if key in first for row in others])
        yield wrap_text(f"{name.capitalize()}{who}: stops a {noun} {LIMITS[axis].meaning}") + f"\n{table}"
    if full and len(groups) > MAX_GROUPS:
        yield f"{count(len(groups) - MAX_GROUPS, 'further group')}: --json has them all."


def _table(study: Study, axis: str, noun: str, rows: Sequence[LimitRow], all_rows: Sequence[LimitRow]) -> str:
    """A table of a group, whose columns are those of all groups."""
    undecided, names = any(row.undecided for row in all_rows), measures(study, all_rows)
    head = [LIMITS[axis].unit, "kept", f"{noun}s stopped", *(["not decided"] if undecided else [])]
    amounts = saved_cells(names, rows)
    cells = [
        [axis_value(axis, row.value), kept(row), f"{row.stopped:,} of {row.n:,}",
         *([f"{row.undecided:,}"] if undecided else []), *saves]
        for row, saves in zip(rows, amounts, strict=True)
    ]  # fmt: skip
    lines = align_columns([[*head, *(f"{UNITS[name]} saved" for name in names)], *cells], left=())
    marks = ["", *(f"<- {MARKS[row.mark]}" if row.mark else "" for row in rows)]
    return "\n".join(f"  {line}  {mark}".rstrip() for line, mark in zip(lines, marks, strict=True))


def measures(study: Study, rows: Sequence[LimitRow]) -> list[str]:
    """What is shown as saved: steps, and the measure to save, where the source records it."""
    wanted = dict.fromkeys(["steps", study.measure])
    return [name for name in wanted if any(row.saved[name] is not None for row in rows)]


def kept(row: LimitRow) -> str:
    """How many are kept, with their base: "17-18 of 21"."""
    if not row.successes:
        return "none to keep"
    return f"{span(*row.kept)} of {row.successes:,}"


def saved_cells(names: Sequence[str], rows: Sequence[LimitRow]) -> list[list[str]]:
    """What each row saves of each measure, with its base and share: "36 of 642 (5.6%)"; "not known" if undecided."""
    columns = []
    for name in names:
        amounts = [None if row.undecided else row.saved[name] for row in rows]
        shares = percents([None if amount is None or not amount[1] else amount[0] / amount[1] for amount in amounts])
        columns.append([
            "not known" if amount is None else format_saved(name, amount) + (f" ({share})" if share else "")
            for amount, share in zip(amounts, shares, strict=True)
        ])  # fmt: skip
    return [[column[place] for column in columns] for place in range(len(rows))]


def format_saved(name: str, amount: tuple[float, float] | None) -> str:
    """Format what is saved, with its base: "36 of 642"."""
    if amount is None:
        return "not known"
    part, whole = amount
    return f"${part:,.2f} of ${whole:,.2f}" if name == "cost_usd" else f"{part:,.0f} of {whole:,.0f}"


# --- JSON -------------------------------------------------------------------------------------------------------------


def as_json(study: Study) -> str:
    """What `boolab whatif --json` prints: one object; see `boolab whatif --help` for its keys."""
    return json.dumps(as_data(study), indent=1, ensure_ascii=False, allow_nan=False)


def as_data(study: Study) -> dict[str, Any]:
    """The same as plain Python data."""
    quality, question = Quality(study, is_shared=True), study.question
    return {
        "schema": SCHEMA,
        "boolab": version("boolab"),
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "question": {
            "scope": question.scope,
            "identity": question.call_identity or "canonical",
            "policy": question.policy,
            "by": list(study.keys),
            "keep": question.keep,
            "confidence": question.confidence,
            "objective": question.objective,
            "budget": question.budget,
            "share": question.share,
        },
        "data": {
            **quality.counts,
            "skipped": [{"path": row.path, "why": row.skipped} for row in quality.skipped],
            "warnings": quality.warnings,
            "inconsistencies": quality.inconsistent,
            "unit": study.noun,
            "units": len(study.units),
            "units_cut": len(quality.cut),
            "finished_unexecuted": quality.unexecuted,
            "success_by": study.success_by,
            "labels": study.found.labels.as_dict(),
            "missing": [gap._asdict() for gap in quality.gaps],
            "notes": list(study.found.notes),
        },
        "axes": {axis: records(_compact(frame)) for axis, frame in study.margins.items()},
        "recommendation": {
            "title": study.found.title,
            "verdict": list(study.found.verdict),
            "sentences": list(study.found.sentences),
            "groups": records(study.found.frame),
            "paths": records(study.found.paths),
            "one_for_all": None if study.found.one_for_all is None else study.found.one_for_all.as_dict(),
        },
        "how_to_set": [
            {
                "group": way.group,
                "limits": way.limits.given,
                "command": way.command,
                "target": way.target,
                "text": None if way.export is None else way.export.text,
                "lost": "" if way.export is None else way.export.lost,
            }
            for way in how_to_set(study)
        ],
    }


def _compact(frame: pd.DataFrame) -> pd.DataFrame:
    """An aggregate without the counts of what never happens."""
    always = ("n_runs", "n_unchanged", "n_truncated", "n_not_identified", "n_censored", "n_unknown", "n_finished")
    unused = [c for c in frame if str(c).startswith("n_") and c not in always and not frame[c].fillna(0).any()]
    return frame.drop(columns=unused)


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a frame as JSON has them: NA is null."""
    return [{str(key): _plain(value) for key, value in row.items()} for row in frame.to_dict("records")]


def _plain(value: object) -> object:
    """A value of any column as JSON has it."""
    if is_missing(value):
        return None
    if isinstance(value, np.generic):
        return value.item()
    return value if isinstance(value, str | int | float | bool) else str(value)
