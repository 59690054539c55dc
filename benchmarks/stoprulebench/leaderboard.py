"""The leaderboard: a page and a figure made of all submissions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from benchmarks.stoprulebench.kinds import KINDS, counted
from benchmarks.stoprulebench.ranks import Rank, ranks_of
from benchmarks.stoprulebench.submission import Submission, TrackResult, read_submission
from benchmarks.stoprulebench.terminal import WORDS, coverage, percent_of, shown
from benchmarks.stoprulebench.tracks import HIDDEN, TRACK_NAMES, TRACKS, Track
from boolab.core.text import clean, count
from boolab.errors import FileError
from boolab.plots import palette, style

FIGURE: Final = "pictures/leaderboard.png"
"""Where the page looks for its figure."""
FOLDER: Final = "leaderboard"
"""The folder of the submissions, beside the page."""
_HEAD: Final = ("rank", "on", "entry", "authors", *WORDS.values(), "sets, 95% kept")
HIDDEN_FOLDER: Final = "hidden"
"""The folder of the submissions that were judged on hidden sets, in that of the others."""
_FEWER: Final[dict[Track, str]] = {"model": ", those with two models or more"}
_ESCAPED: Final = str.maketrans(
    {char: f"\\{char}" for char in "\\`*_[]|$~#"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
)


class Board(NamedTuple):
    """The submissions that were judged on the same runs with the same splits, and those that were not."""

    entries: tuple[Submission, ...]
    others: tuple[Submission, ...]


def read_board(folder: str | Path) -> Board:
    """Read all submissions of a folder.

    Args:
        folder: The folder with the `.json` files.

    Returns:
        The submissions by name. Most were judged on the same data; the others cannot be compared with them.

    Raises:
        FileError: if there are none, one is not as it should be, or two have the same name.
    """
    found: dict[str, tuple[Path, Submission]] = {}
    for path in sorted(Path(folder).glob("*.json")):
        submission = read_submission(path)
        if submission.file_name != path.name:
            raise FileError(
                f"its name is {submission.name!r}: expected the file name {submission.file_name}", path=path
            )
        found[submission.name] = path, submission
    if not found:
        msg = "there is no submission: expected .json files of `boolab bench -o`"
        raise FileError(msg, path=folder)
    submissions = [submission for _, submission in found.values()]
    [(most, _)] = Counter(map(_judged_on, submissions)).most_common(1)
    same = [one for one in submissions if _judged_on(one) == most]
    return Board(tuple(same), tuple(one for one in submissions if _judged_on(one) != most))


def _judged_on(submission: Submission) -> tuple[object, ...]:
    files = tuple(sorted(submission.data.files.items()))
    return submission.version, submission.splits, submission.data.n_runs, submission.data.n_steps, files


# --- The page ---------------------------------------------------------------------------------------------------------


def page_of(board: Board, hidden: Board | None = None) -> str:
    """The page, in Markdown.

    Args:
        board: The submissions of the open tracks.
        hidden: Those of the hidden track, if there are any.
    """
    lines = [*_opening(board), *(line for track in TRACKS for line in _track(board, track)), *_hidden(hidden)]
    return "\n".join([*lines, *_sets(board), *_entries(board)])


_OPENING: Final = """\
# StopRuleBench: leaderboard

<!-- made of the files in docs/leaderboard by `make leaderboard` -->

How much work stop rules save on runs that they were not chosen on, with 95% of the successes kept.
[What is measured, and how to enter](stoprulebench.md).

Data: {name}, {runs} and {steps} of {sets}; splits {version} (`{digest}`). {entries}. All figures are in percent, means
over sets, with 95% intervals over sets and the tasks in them.

![The score of each entry in each track]({figure})

- **rank**: by score, with its 95% interval: sets are drawn with replacement, and the tasks in each, the same for all
  entries. Two entries whose intervals overlap are in no order that other sets would have to repeat.
- **on**: on how many sets of which kind the rank rests.
{kinds}
- **score**: the share of steps saved if the rule is on in so many runs only, chosen at random, that 95% of the
  successes are kept. A coin that stops every twentieth run has about 4.
- **steps saved**, **cost saved**, **successes kept**: with the rule on in all runs. Cost is that of the runs
  which record it; the head of the column has their number.
- **area**: the mean share of steps saved, over all shares of successes kept from 80 to 100%.
- **sets, 95% kept**: in how many of the sets the entry kept what it was to keep. No set here is a game, in which a
  repeated call is work: [where the findings hold](conditions.md).

Rows in italics are for scale, and have no rank.
"""


def _opening(board: Board) -> Iterator[str]:
    data, splits = board.entries[0].data, board.entries[0].splits
    yield _OPENING.format(
        name=_text(data.name),
        runs=count(data.n_runs, "run"),
        steps=count(data.n_steps, "step"),
        sets=count(len(_sets_of(board)), "set"),
        version=splits.version,
        digest=splits.sha256[:12],
        entries=count(len(board.entries), "entry", "entries").capitalize(),
        figure=FIGURE,
        kinds=_kinds(board),
    )
    for other in board.others:
        yield f"{_text(other.name)} was judged on other data or splits, and is left out."
        yield ""


def _kinds(board: Board) -> str:
    """The sets by kind, a line for each: "coding: a, b."."""
    kind_of = {
        name: one.kind for entry in board.entries for track in entry.tracks.values() for name, one in track.sets.items()
    }
    groups = {name: [one for one, kind in kind_of.items() if kind == key] for key, name in KINDS.items()}
    return "\n".join(f"  {name}: {', '.join(map(_text, sets))}." for name, sets in groups.items() if sets)


def _track(board: Board, track: Track, folder: str = FOLDER) -> Iterator[str]:
    found = ranked(board.entries, track)
    if not found:
        return
    yield f"## {TRACK_NAMES[track].capitalize()}"
    yield ""
    widest = max((one.tracks[track] for one in found), key=lambda result: len(result.sets))
    yield f"Means over {count(len(widest.sets), 'set')}{_FEWER.get(track, '')}."
    yield ""
    cost = f"{WORDS['saved_cost']}, {coverage(widest)} runs"
    yield from _head([cost if name == WORDS["saved_cost"] else name for name in _HEAD], left=("on", "entry", "authors"))
    rated = [one for one in found if one.kind != "scale"]
    rank_of = dict(zip([one.name for one in rated], ranks_of(rated, track), strict=True))
    for submission in found:
        result, rank = submission.tracks[track], rank_of.get(submission.name)
        shown_name = _text(submission.name)
        name = f"*{shown_name}*" if rank is None else f"[{shown_name}]({folder}/{submission.file_name})"
        sets = counted(one.kind for one in result.sets.values())
        yield _row([_rank(rank), sets, name, _text(submission.authors), *_figures(result)])
    yield ""


def _rank(rank: Rank | None) -> str:
    return "" if rank is None else f"{rank.value} ({rank.low}-{rank.high})"


def _hidden(board: Board | None) -> Iterator[str]:
    """The hidden track, judged by the maintainers on runs that no author had."""
    if board is None:
        return
    yield from _track(board, HIDDEN, f"{FOLDER}/{HIDDEN_FOLDER}")


def _figures(result: TrackResult) -> list[str]:
    return [*(shown(getattr(result.mean, name)) for name in WORDS), f"{result.sets_kept} of {len(result.sets)}"]


def ranked(entries: Iterable[Submission], track: Track) -> list[Submission]:
    """The entries of a track, the highest score first."""
    inside = [one for one in entries if track in one.tracks]
    return sorted(inside, key=lambda one: (-_score(one.tracks[track]), one.name))


def _score(result: TrackResult) -> float:
    value = result.mean.score.value
    return 0.0 if value is None else value


def _sets_of(board: Board) -> list[str]:
    return list(dict.fromkeys(name for one in board.entries for track in one.tracks.values() for name in track.sets))


def _sets(board: Board) -> Iterator[str]:
    """The score in each set, in the first track."""
    track: Track = "within"
    found = ranked(board.entries, track)
    names = _sets_of(board)
    if not found:
        return
    yield "## The score in each set"
    yield ""
    yield f"In percent, {TRACKS[track]}; in brackets the successes kept, where they are fewer than 95%."
    yield ""
    kinds = {name: KINDS[one.kind] for entry in found for name, one in entry.tracks[track].sets.items()}
    yield from _head(
        ["entry", *(f"{name} ({kinds[name]})" if name in kinds else name for name in names)], left=("entry",)
    )
    for submission in found:
        sets = submission.tracks[track].sets
        yield _row([_text(submission.name), *(_cell(sets.get(name), submission.keep) for name in names)])
    yield ""


def _cell(result: object, keep: float) -> str:
    score, kept = getattr(result, "score", None), getattr(result, "kept", None)
    if score is None or score.value is None:
        return "-"
    few = kept is not None and kept.value is not None and kept.value < keep
    return percent_of(score.value) + (f" ({percent_of(kept.value)})" if few and kept is not None else "")


def _entries(board: Board) -> Iterator[str]:
    yield "## The entries"
    yield ""
    for submission in sorted(board.entries, key=lambda one: one.name.lower()):
        link = f" ([more]({submission.url}))" if submission.url else ""
        what = _text(submission.description) or "No description."
        yield f"- **{_text(submission.name)}** ({submission.kind}): {what}{link}"
    yield ""


def _head(names: Sequence[str], left: Sequence[str]) -> Iterator[str]:
    yield _row([_text(name) for name in names])
    yield _row([":--" if name in left else "--:" for name in names])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(text: str) -> str:
    """A text of a submission, whose characters mean nothing in Markdown or HTML."""
    return clean(text).translate(_ESCAPED)


# --- The figure -------------------------------------------------------------------------------------------------------

_LOOKS: Final[dict[Track, palette.Look]] = {
    "within": palette.Look(palette.KEPT, "#00466d", "o"),
    "model": palette.Look("#44aa99", "#1f6b5e", "s"),
    "set": palette.Look("#882255", "#4d0f2d", "^"),
    "none": palette.Look("none", "#5b6675", "D"),
}


def plot_leaderboard(board: Board, ax: Axes | None = None) -> Axes:
    """The score of each entry in each track.

    Args:
        board: The submissions.
        ax: The Axes to draw in; a new figure by default.

    Returns:
        The Axes.
    """
    first = ranked(board.entries, "within") or list(board.entries)
    rest = [one for one in board.entries if one not in first]
    rows = [*first, *rest]
    ax = style.axes_for(ax, 1.9 + 0.26 * len(rows))
    for track, look in _LOOKS.items():
        for place, submission in enumerate(rows):
            result = submission.tracks.get(track)
            value, low, high = (None, None, None) if result is None else result.mean.score
            if value is None:
                continue
            if track == "within" and low is not None and high is not None:
                ax.hlines(place, low, high, color=style.fade(ax, 0.35), linewidth=1.4)
            face = "none" if look.fill == "none" else look.fill
            ax.plot(value, place, look.marker, color=style.edge(ax, look), markerfacecolor=face, markersize=5, zorder=3,
                    markeredgewidth=0.9)  # fmt: skip
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_yticks(range(len(rows)), [clean(one.name) for one in rows], **style.PLAIN)
    ax.yaxis.set_tick_params(labelsize=style.sizes(ax).note, length=0)
    for label, submission in zip(ax.get_yticklabels(), rows, strict=True):
        label.set_fontstyle("italic" if submission.kind == "scale" else "normal")
    _score_axis(ax, rows)
    data = board.entries[0].data
    used = [track for track in TRACKS if any(track in one.tracks for one in rows)]
    key = [style.marker_key(ax, _LOOKS[track], TRACKS[track]) for track in used]
    return style.finish(
        ax,
        title=_title(board),
        xlabel="score: steps saved with 95% of the successes kept",
        ylabel="",
        grid=ax.xaxis,
        key=key,
        notes=[
            f"{count(data.n_runs, 'run')}; means over sets: {_set_counts(rows)}.",
            "Lines: 95% intervals over sets and tasks, within a set. In italics: for scale.",
        ],
    )


def _score_axis(ax: Axes, rows: Sequence[Submission]) -> None:
    values = [_score(result) for one in rows for result in one.tracks.values()]
    top = max(0.1, np.ceil(max(values) * 20) / 20)
    ax.set_xlim(-0.01, top)
    ticks = np.arange(0, top + 1e-9, 0.1 if top > 0.3 else 0.05)
    ax.set_xticks(ticks, [f"{100 * tick:.0f}%" for tick in ticks])
    ax.xaxis.set_tick_params(labelsize=style.sizes(ax).text)


def _set_counts(rows: Sequence[Submission]) -> str:
    """How many sets each track has, where they differ: "9, and 6 with a new model"."""
    counts = {
        track: max((len(one.tracks[track].sets) for one in rows if track in one.tracks), default=0) for track in TRACKS
    }
    most = max(counts.values())
    fewer = [f"{n} for {TRACKS[track]}" for track, n in counts.items() if 0 < n < most]
    return ", ".join([f"{most:,}", *fewer])


def _title(board: Board) -> str:
    found = [one for one in ranked(board.entries, "within") if one.kind != "scale"]
    if not found:
        return "The score of each entry"
    best = found[0]
    fresh = best.tracks.get("set")
    there = "" if fresh is None else f", and {100 * _score(fresh):.0f}% on new sets"
    name, score = clean(best.name), _score(best.tracks["within"])
    return f"First within a set: {name}, which saves {100 * score:.0f}% of the steps there{there}"


def write_board(docs: str | Path) -> Path:
    """Write `leaderboard.md` and its figure, of the submissions in the folder `leaderboard` beside it.

    Args:
        docs: The folder of the documentation.

    Returns:
        The page.

    Raises:
        FileError: if a submission is not as it should be.
    """
    import matplotlib.pyplot as plt

    folder = Path(docs)
    board, hidden = read_board(folder / FOLDER), folder / FOLDER / HIDDEN_FOLDER
    page = folder / "leaderboard.md"
    page.write_text(page_of(board, read_board(hidden) if hidden.is_dir() else None), encoding="utf-8")
    with plt.rc_context({"font.size": 9}):
        plot_leaderboard(board)
        (folder / FIGURE).parent.mkdir(parents=True, exist_ok=True)
        plt.savefig(folder / FIGURE, dpi=150, metadata={"Software": None})
        plt.close("all")
    return page
