"""The interactive part of the report: CapLab for each agent, with the runs that its setting stops in Replay.

Each is a page of its own in a frame that cannot reach the report around it. A page is compressed, and drawn when its
reader opens it.
"""

from __future__ import annotations

import base64
import gzip
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, cast

from boolab.core.run import Run
from boolab.limits.table import AGENT_LIMITS, MeasureName
from boolab.logs.facts import facts_of
from boolab.report.study import Study
from boolab.report.summary import SummaryRow
from boolab.stats.recommend.decision import Decision
from boolab.widgets.caplab.widget import CapLab

_DIGEST: Final = re.compile(r"script-src '(sha256-[A-Za-z0-9+/=]+)'")
_LEVEL: Final = 6
MAX_BYTES: Final = 6_000_000
"""So many bytes these pages take together, some fifteen agents of a few hundred runs, unless all are wanted."""


class Frame(NamedTuple):
    """An interactive page: its agent, the page compressed in base64, and the digest of its script."""

    name: str
    data: str
    digest: str


def groups_of_frames(study: Study, rows: Sequence[SummaryRow]) -> list[SummaryRow]:
    """The groups that a page can be made for; none where the report's question is one that CapLab does not have."""
    if study.question.grid is not None or not study.found.groups:
        return []
    return [row for row in rows if not row.by_itself]


def caplab_frames(
    study: Study,
    groups: Sequence[SummaryRow],
    *,
    transcripts: bool = True,
    max_bytes: int | None = None,
    move: Callable[[], object] = lambda: None,
) -> list[Frame]:
    """A page for each group, in their order, as many as `max_bytes` hold, but at least one."""
    frames: list[Frame] = []
    size = 0
    for row, lab in labs_of(study, groups, transcripts=transcripts):
        frame = _frame(row.name, lab.to_html(other_agents=False))
        size += len(frame.data)
        if frames and max_bytes is not None and size > max_bytes:
            break
        frames.append(frame)
        move()
    return frames


def labs_of(study: Study, groups: Sequence[SummaryRow], *, transcripts: bool) -> Iterator[tuple[SummaryRow, CapLab]]:
    """CapLab at the limits to set for each group, and without limits where none is to be set."""
    if not groups:
        return
    runs = study.runs if transcripts else list(facts_of(study.runs))
    if study.question.scope == "auto":
        for row in groups:  # one CapLab has one scope
            yield row, _lab(study, [run for run, key in zip(runs, study.run_keys, strict=True) if key == row.key])
        return
    lab = _lab(study, runs, study.found)
    for row in groups:
        lab.setting = {name: row.limits.get(name) for name in AGENT_LIMITS} | {"agent": lab.name_group(row.group.names)}
        yield row, lab


def _lab(study: Study, runs: Sequence[Run], decision: Decision | None = None) -> CapLab:
    question = study.question
    objective = cast("MeasureName", "cost" if study.measure == "cost_usd" else study.measure)
    return CapLab(
        runs, policy=question.policy, keep=question.keep, confidence=question.confidence,
        objective=objective, success=question.success,
        scope=question.scope, identity=question.identity, decision=decision,
    )  # fmt: skip


def _frame(name: str, page: str) -> Frame:
    digest = _DIGEST.search(page)
    if digest is None:
        msg = "a widget's page must name the digest of its script"
        raise ValueError(msg)
    return Frame(name, base64.b64encode(gzip.compress(page.encode(), _LEVEL, mtime=0)).decode(), digest[1])
