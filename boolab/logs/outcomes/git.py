"""Evidence from git: whether the work of a turn or a run landed on the default branch, and whether it is still there.

- *Whose work it is*: see `boolab.logs.outcomes.git_work`. Of its lines, those count that were not on the default branch
  before it began, and that are in files of the repository that are not ignored. Without commits and lines: unknown.
- *Landed*: one of its commits is on the default branch; else a commit with the same patch; else commits that add at
  least half of its lines.
- *Reverted*: by its message a commit reverts the landing or one of its commits, and is not reverted itself: a failure.
- *Held*: of the lines that were there at the landing, at least half are anywhere in the tree some days later: a
  success. At most a tenth: a failure. Between: unknown.
- *Not landed*: a failure once its last commit is older than these days, and unknown until then.

"Held" is no proof that work was good, and "not landed" none that it was bad.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from itertools import chain
from pathlib import Path, PurePosixPath
from time import time as read_clock
from typing import Final, NamedTuple, TypeGuard

from boolab.core.text import count, shorten
from boolab.errors import BoolabError, SettingError
from boolab.io.files import read_file
from boolab.io.folders import folder_handle
from boolab.io.git.history import (
    MAX_COMMITS,
    Branch,
    Commit,
    CommitChange,
    GitHistory,
    HistoryTooLargeError,
    state_of,
)
from boolab.io.git.patterns import Patterns
from boolab.io.git.reading import open_git
from boolab.io.git.repository import Repository, check_git, find_repository
from boolab.logs.outcomes.changes import FileChange
from boolab.logs.outcomes.evidence import Evidence
from boolab.logs.outcomes.evidence_cache import FindingCache, digest
from boolab.logs.outcomes.git_work import GitWork, is_specific, own_lines
from boolab.logs.outcomes.label_file import OUTCOMES, OutcomeWord

SOURCE: Final = "git"
DAYS: Final = 14
SECONDS: Final = 120.0
"""The time for one repository."""
_HELD_SHARE: Final = 0.5
_LOST_SHARE: Final = 0.1
_DAY: Final = 86_400
_MAX_TIME: Final = 9_000_000_000
_REWRITE_DAYS: Final = 30
_MIN_LINES: Final = 3
_MAX_PATTERNS: Final = 2**18
_MAX_REVERTS: Final = 50
_SHORT: Final = 7
_MIN_PATHS: Final = 2
_MAX_PATHS: Final = 200
_WORKTREE: Final = re.compile(r"(?:^|/)\.claude/worktrees/[^/]+/")
_OTHER_BRANCH: Final = re.compile(r"(?:origin/)?(?:develop|dev|next|staging|release[-/].*)")
"""Branches that work may land on before it lands on the default branch."""


class GitOptions(NamedTuple):
    """How the work in repositories is judged."""

    days: int = DAYS
    into: str | None = None
    now: int | None = None
    """The time at which it is judged, in seconds since 1970; None for the present."""


class _Finding(NamedTuple):
    """The outcome of some work, without what is the same for all."""

    outcome: OutcomeWord
    reason: str
    landed: str | None = None
    share: float | None = None
    time: int | None = None
    changes_at: int | None = None
    """When it changes without a change of the repository; None if never."""
    is_final: bool = True
    """Whether the same is found again."""


_UNKNOWN: Final = _Finding("unknown", "it was not judged")


class _Location(NamedTuple):
    """The repository of some work."""

    repository: Repository
    folder: Path
    """The folder that paths are relative to."""
    is_moved: bool
    """Whether the folder of the work is gone, or elsewhere."""
    is_guessed: bool
    """Whether only its commits can show that it is this repository."""
    is_renamed: bool = False
    """Whether the user named it, and its name is another one than on record: it has to be recognised."""


def evidence_of_git(works: Sequence[GitWork], options: GitOptions, repository: Path | None = None) -> list[Evidence]:
    """The evidence of git for some work; each repository is read once.

    `repository`: the folder of the repository of all work; by default that of each.
    """
    findings: list[_Finding] = [_Finding("unknown", "there is no change on record") for _ in works]
    groups: defaultdict[Path, list[int]] = defaultdict(list)
    locations: dict[int, _Location] = {}
    if any(work.commits or work.changes for work in works):
        try:
            check_git()
        except SettingError as error:
            return [_evidence(_Finding("unknown", str(error).removeprefix("GitWorld: "))) for _ in works]
    find = cache(_find_location)  # a repository is looked for with git
    for index, work in enumerate(works):
        if work.commits or work.changes:
            location = find(work.folder, repository)
            if isinstance(location, _Finding):
                findings[index] = location
            else:
                locations[index] = location
                groups[location.repository.common].append(index)
    for indices in groups.values():
        repository_findings = _judge_repository([(works[index], locations[index]) for index in indices], options)
        for index, finding in zip(indices, repository_findings, strict=True):
            findings[index] = finding
    return [_evidence(finding) for finding in findings]


def _evidence(finding: _Finding) -> Evidence:
    detail: dict[str, object] = {}
    if finding.landed is not None:
        detail["landed"] = finding.landed
    if finding.share is not None:
        detail["share"] = round(finding.share, 3)
    seconds = finding.time
    time = None
    if seconds is not None and 0 <= seconds < _MAX_TIME:  # a commit may have any number
        time = datetime.fromtimestamp(seconds, UTC)
    return Evidence(finding.outcome, SOURCE, finding.reason, detail, time)


def _find_location(own_folder: str, folder: Path | None) -> _Location | _Finding:
    """The repository of the work in a folder, or why there is none. `folder`: where the repository is to be."""
    if folder is None and not PurePosixPath(own_folder).is_absolute():
        return _Finding("unknown", "the folder that it ran in is not on record")
    path, is_moved, is_renamed = Path(own_folder) if folder is None else folder.absolute(), False, False
    try:
        while not path.is_dir():
            if path.parent == path:
                return _Finding("unknown", "the folder that it ran in is gone")
            path, is_moved = path.parent, True
        repository = find_repository(path.resolve())
    except (BoolabError, OSError):
        suffix = " is gone, and what is left of its path" if is_moved else ""
        return _Finding("unknown", f"the folder that it ran in{suffix} is in no repository that can be read")
    if folder is not None:
        origin = Path(own_folder or "/")
        is_inside = origin.is_absolute() and origin.resolve().is_relative_to(repository.top)
        is_renamed = not is_inside and repository.top.name not in origin.parts
        path, is_moved = origin if origin.is_absolute() else path, not is_inside
    is_guessed = is_moved and folder is None and _WORKTREE.search(f"{own_folder}/") is None
    return _Location(repository, Path(own_folder) if is_moved else path.resolve(), is_moved, is_guessed, is_renamed)


def _judge_repository(works: Sequence[tuple[GitWork, _Location]], options: GitOptions) -> list[_Finding]:
    """What one repository shows of some work."""
    repository = works[0][1].repository
    now = int(read_clock()) if options.now is None else options.now
    filter_ = _FileFilter()
    recorded = [filter_.recorded_work(work, location) for work, location in works]
    keys = [work.key for work in recorded]
    try:
        cached = FindingCache(repository.name, [options.days, options.into, *state_of(repository)])
        findings = {key: _from_cache(cached.get(key), now) for key in keys}
        new = {key: work for key, work in zip(keys, recorded, strict=True) if findings[key] is None}
        if new:
            new_findings = _judge_new(repository, [*new.values()], options._replace(now=now))
            for key, finding in zip(new, new_findings, strict=True):
                findings[key] = finding
                if finding.is_final:
                    cached.put(key, _for_cache(finding, now))
            cached.save()
        return [findings[key] or _UNKNOWN for key in keys]
    except (BoolabError, OSError) as error:
        why = f"the repository cannot be read: {error}"
        if (repository.common / "objects" / "info" / "alternates").is_file():
            why = "its objects are in another repository, which is not read: clone it without --shared or --reference"
        return [_Finding("unknown", why)] * len(works)


def _judge_new(repository: Repository, works: Sequence[_RecordedWork], options: GitOptions) -> list[_Finding]:
    """What a repository shows of some work, read from the repository."""
    with open_git(repository) as git:
        history = GitHistory(git, repository, SECONDS)
        branches = history.default_branches(options.into)
        if not branches:
            name = f"branch {options.into!r}" if options.into else "default branch"
            return [_Finding("unknown", f"the repository has no {name}")] * len(works)
        return _Judge(history, branches, options).judge(works)


def _for_cache(finding: _Finding, now: int) -> list[object]:
    is_later = finding.changes_at is not None and now >= finding.changes_at
    return [*finding[: _Finding._fields.index("is_final")], is_later]


def _from_cache(values: object, now: int) -> _Finding | None:
    """A finding that holds at a time, from JSON that anybody may have changed; None if it is none."""
    if not isinstance(values, list) or len(values) != len(_Finding._fields):
        return None
    *facts, is_later = values
    outcome, reason, landed, share, time, changes_at = facts
    is_valid = outcome in OUTCOMES and isinstance(reason, str) and isinstance(is_later, bool)
    is_valid = is_valid and isinstance(landed, str | None) and isinstance(share, float | int | None)
    is_valid = is_valid and isinstance(time, int | None) and isinstance(changes_at, int | None)
    if not is_valid or (changes_at is not None and (now >= changes_at) != is_later):
        return None
    return _Finding(*facts)


def _too_large(error: HistoryTooLargeError) -> _Finding:
    return _Finding("unknown", str(error), is_final=False)


class _Signs(NamedTuple):
    """By what a repository of another name is recognised as that of some work."""

    remote: str
    """The name of its remote, if that is the name of a folder on record; "" for none."""
    head: str
    paths: tuple[str, ...]


class _RecordedWork(NamedTuple):
    """What the log has of some work in its repository; the repository is judged by nothing else of it."""

    start: int | None
    end: int | None
    commits: tuple[str, ...]
    lines: tuple[bytes, ...]
    """Its lines, in files of the repository that are not ignored."""
    files: tuple[bytes, ...]
    """The last parts of the names of these files."""
    is_guessed: bool
    signs: _Signs | None
    """By what the repository has to be recognised; None if that is not needed."""

    @property
    def key(self) -> str:
        """By which it is found again."""
        texts = ([text.decode("latin-1") for text in sorted(part)] for part in (self.lines, self.files))
        return digest([self.start, self.end, self.commits, *texts, self.is_guessed, self.signs])


class _Claim(NamedTuple):
    """Some work as the repository knows it."""

    start: int
    end: int
    oids: tuple[str, ...]
    """Its commits, in order."""
    lines: frozenset[bytes]
    files: frozenset[bytes]
    """The last parts of the names of its files."""
    recognised_by: str = ""


class _Landing(NamedTuple):
    """Where some work came to a branch: the commit of its main line, and those that brought it."""

    branch: Branch
    commit: Commit
    oids: tuple[str, ...]


class _FileFilter:
    """Decides which files of a repository count: those in it that are not ignored."""

    def __init__(self) -> None:
        self._patterns: dict[Path, Patterns | None] = {}

    def recorded_work(self, work: GitWork, location: _Location) -> _RecordedWork:
        """What the log has of some work, without changes outside of its repository, or in ignored files."""
        changes = [change for change in work.changes if self._is_inside(change, location)]
        names = dict.fromkeys([change.path.rpartition("/")[2].encode("utf-8", "replace") for change in changes])
        return _RecordedWork(
            work.start, work.end, work.commits, tuple(own_lines(changes)), tuple(names), location.is_guessed,
            _signs_of(work, location) if location.is_renamed else None,
        )  # fmt: skip

    def _is_inside(self, change: FileChange, location: _Location) -> bool:
        """Whether a change is in the repository, in a file that is not ignored."""
        path = PurePosixPath(change.path)
        if location.is_moved or not location.folder.is_dir():
            return not path.is_absolute() or path.is_relative_to(PurePosixPath(location.folder))
        try:
            path_in_tree = Path(location.folder, path).resolve().relative_to(location.repository.top)
        except (ValueError, OSError):
            return False
        relative = _WORKTREE.sub("", str(path_in_tree))
        return not self._is_ignored(location.repository, PurePosixPath(relative))

    def _is_ignored(self, repository: Repository, path: PurePosixPath) -> bool:
        """Whether the repository's own patterns ignore a path, or a folder above it."""
        folders = [str(parent) for parent in reversed(path.parents) if parent.name]
        names = [*[f"{folder}/" for folder in folders], str(path)]
        verdicts = (self._ignores(repository, name) for name in names)
        return any(verdicts)

    def _ignores(self, repository: Repository, name: str) -> bool:
        for above in PurePosixPath(name).parents:
            patterns = self._patterns_in(repository.top / above, ".gitignore")
            rest = name if not above.name else name[len(str(above)) + 1 :]
            verdict = None if patterns is None else patterns.verdict(rest)
            if verdict is not None:
                return verdict
        patterns = self._patterns_in(repository.common / "info", "exclude")
        return patterns is not None and patterns.verdict(name) is True

    def _patterns_in(self, folder: Path, name: str) -> Patterns | None:
        path = folder / name
        if path not in self._patterns:
            self._patterns[path] = None
            with suppress(OSError, ValueError), folder_handle(folder) as handle:
                self._patterns[path] = Patterns(read_file(name, _MAX_PATTERNS, dir_fd=handle))
        return self._patterns[path]


def _signs_of(work: GitWork, location: _Location) -> _Signs:
    """By what a repository of another name may be recognised as that of some work."""
    folder = PurePosixPath(location.folder)
    remotes = [name for name in map(_remote_name, location.repository.remotes) if name in folder.parts[1:]]
    paths = [PurePosixPath(change.path) for change in work.changes]
    relative = [path.relative_to(folder) if path.is_relative_to(folder) else path for path in paths]
    names = dict.fromkeys([str(path) for path in relative if not path.is_absolute() and path.name])
    return _Signs(remotes[0] if remotes else "", work.head, tuple(names)[:_MAX_PATHS])


def _remote_name(url: str) -> str:
    """The name of the repository that an address leads to; the address itself may hold a password."""
    return re.split(r"[/:\\]", url.rstrip("/"))[-1].removesuffix(".git")


class _Judge:
    """Judges work in one repository."""

    def __init__(self, history: GitHistory, branches: Sequence[Branch], options: GitOptions) -> None:
        self._history, self._branches, self._options = history, branches, options
        self._now = options.now or 0
        self._wait = options.days * _DAY
        self._changes: dict[str, CommitChange] = {}
        """Those of the commits on the default branch since the oldest work, the oldest first."""
        self._own_patches: dict[str, bytes] = {}
        self._times: dict[str, int] = {}
        self._reverts: defaultdict[str, list[Commit]] = defaultdict(list)
        for commit in history.commits.values():
            for oid in commit.reverts:
                self._reverts[oid[:_SHORT]].append(commit)

    def judge(self, works: Sequence[_RecordedWork]) -> list[_Finding]:
        """The findings for some work; those that the time for the repository does not suffice for are unknown."""
        heads = [work.signs.head for work in works if work.signs is not None and work.signs.head]
        names = self._history.find_commits({*chain.from_iterable(work.commits for work in works), *heads})
        self._times = self._history.commit_times(set(names.values()))
        claims = [self._claim(work, names) for work in works]
        valid = [claim for claim in claims if isinstance(claim, _Claim)]
        self._history.look_for({*chain.from_iterable(claim.lines for claim in valid)})
        findings = [self._finding(claim) if self._is_on_branch(claim) else claim for claim in claims]
        missing = [claim for claim in findings if isinstance(claim, _Claim)]
        try:
            self._read_changes(missing)
        except HistoryTooLargeError as error:
            return [_too_large(error) if isinstance(claim, _Claim) else claim for claim in findings]
        return [self._finding(claim) if isinstance(claim, _Claim) else claim for claim in findings]

    def _is_on_branch(self, claim: _Claim | _Finding) -> TypeGuard[_Claim]:
        return isinstance(claim, _Claim) and any(oid in self._history.commits for oid in claim.oids)

    def _read_changes(self, claims: Sequence[_Claim]) -> None:
        """Read what commits changed since the oldest of these claims: it takes most of the time."""
        oldest = min([claim.start for claim in claims], default=self._now)
        commits = sorted(self._history.commits.values(), key=lambda commit: commit.time)
        self._changes = self._history.changes([commit.oid for commit in commits if commit.time >= oldest - 1])
        own_oids = {*chain.from_iterable(claim.oids for claim in claims)}
        own_changes = self._history.changes(sorted(own_oids))
        self._own_patches = {oid: change.patch for oid, change in own_changes.items() if change.patch}

    def _claim(self, work: _RecordedWork, names: dict[str, str]) -> _Claim | _Finding:
        oids = tuple(dict.fromkeys([names[name] for name in work.commits if name in names]))
        if work.is_guessed and not oids:
            return _Finding("unknown", "its folder is gone, and no commit of it is in the repository around it")
        recognised_by = "" if work.signs is None else self._recognise(work.signs, work, names)
        if work.signs is not None and not recognised_by:
            return _Finding(
                "unknown",
                "it ran in the folder of another project: this repository has another name, no remote of that name, "
                "and neither a commit nor the files of this work",
            )
        times = [self._times[oid] for oid in oids if oid in self._times]
        start = min(times, default=None) if work.start is None else work.start
        if start is None:
            return _Finding("unknown", "no time is on record")
        end = max(times, default=start) if work.end is None else work.end
        lines = [*work.lines]
        if not lines and oids:
            lines = [line for line in dict.fromkeys(self._history.added_lines(oids)) if is_specific(line)]
        return _Claim(start, end, oids, frozenset(lines), frozenset(work.files), recognised_by)

    def _recognise(self, signs: _Signs, work: _RecordedWork, names: dict[str, str]) -> str:
        """By what the repository shows itself to be that of some work; "" if by nothing.

        A commit is of one repository alone. Files are a sign if two of them have the folder on record, and half of all
        are there: many repositories have a README.
        """
        if signs.remote:
            return f"its remote, {shorten(signs.remote)}"
        commit = next((name for name in (*work.commits, signs.head) if name in names), None)
        if commit is not None:
            return f"the commit {commit[:_SHORT]}"
        starts = (branch.newest_before(work.start or 0) for branch in self._branches)
        oids = [commit.oid for commit in (*starts, *[branch.tip for branch in self._branches]) if commit is not None]
        for oid in dict.fromkeys(oids):
            paths = self._history.paths_in(oid)
            ends = {path for path in signs.paths if any(f"/{whole}".endswith(f"/{path}") for whole in paths)}
            n_specific = sum("/" in path for path in ends)
            if n_specific >= _MIN_PATHS and 2 * len(ends) >= len(signs.paths):
                return f"{len(ends):,} of {count(len(signs.paths), 'file')} that it changed"
        return ""

    def _finding(self, claim: _Claim) -> _Finding:
        try:
            finding = self._judge_claim(claim)
        except HistoryTooLargeError as error:
            return _too_large(error)
        if not claim.recognised_by:
            return finding
        return finding._replace(reason=f"{finding.reason} (the repository is recognised by {claim.recognised_by})")

    def _judge_claim(self, claim: _Claim) -> _Finding:
        """What the repository shows of some work."""
        starts = (branch.newest_before(claim.start) for branch in self._branches)
        base = next((commit for commit in starts if commit is not None), None)
        if base is not None:
            claim = claim._replace(lines=claim.lines - self._history.lines_in(base.oid))
        if not claim.oids and not claim.lines:
            return _Finding("unknown", "none of its lines differs from what was there before")
        share = 0.0
        for branch in self._branches:
            landing = self._find_landing(claim, branch)
            if isinstance(landing, _Landing):
                return self._judge_landed(claim, landing)
            share = max(share, landing)
        return self._judge_missing(claim, share, is_known=base is not None)

    def _find_landing(self, claim: _Claim, branch: Branch) -> _Landing | float:
        """Where some work came to a branch, or the share of its lines that did."""
        for oid in claim.oids:
            if oid in branch.landings:
                return _Landing(
                    branch, branch.landings[oid], tuple(oid for oid in claim.oids if oid in branch.landings)
                )
        patches = {self._own_patches[oid] for oid in claim.oids if oid in self._own_patches}
        landed_lines: set[bytes] = set()
        landed: _Landing | None = None
        for oid, change in self._changes.items():
            if oid not in branch.landings or self._history.commits[oid].time < claim.start - 1:
                continue
            if change.patch in patches:
                return _Landing(branch, branch.landings[oid], (oid,))
            if landed is None and change.added:
                landed_lines |= change.added & claim.lines
                if landed_lines and len(landed_lines) >= _HELD_SHARE * len(claim.lines):
                    landed = _Landing(branch, branch.landings[oid], (oid,))
        return landed or (len(landed_lines) / len(claim.lines) if claim.lines else 0.0)

    def _judge_landed(self, claim: _Claim, landing: _Landing) -> _Finding:
        """Whether work that landed was reverted, or held."""
        landed, branch, days = landing.commit, landing.branch, self._options.days
        for oid in dict.fromkeys((landed.oid, *landing.oids)):
            revert = self._find_revert(oid, branch, 0)
            if revert is not None:
                n_days = (revert.time - landed.time) // _DAY
                return _Finding("failure", f"reverted after {count(n_days, 'day')}", landed.oid, None, revert.time)
        end = landed.time + self._wait
        if self._now < end:
            text = f"landed, but less than {count(days, 'day')} ago"
            return _Finding("unknown", text, landed.oid, None, landed.time, end)
        later = branch.newest_before(end) or landed
        lines = self._history.lines_in(landed.oid) & claim.lines
        if not lines:
            return _Finding("success", "landed, and not reverted", landed.oid, None, landed.time, end)
        share = len(lines & self._history.lines_in(later.oid)) / len(lines)
        outcome: OutcomeWord = "success" if share >= _HELD_SHARE else "failure" if share <= _LOST_SHARE else "unknown"
        reason = f"landed, and {share:.0%} of its lines were there {count(days, 'day')} later"
        return _Finding(outcome, reason, landed.oid, share, end, end)

    def _find_revert(self, oid: str, branch: Branch, depth: int) -> Commit | None:
        """A commit that reverts this one by its message, and is not reverted itself."""
        for commit in self._reverts.get(oid[:_SHORT], ()):
            is_revert = any(oid.startswith(name) for name in commit.reverts) and commit.oid in branch.landings
            if not is_revert or commit.oid == oid or depth == _MAX_REVERTS:
                continue
            if self._find_revert(commit.oid, branch, depth + 1) is None:
                return commit
        return None

    def _judge_missing(self, claim: _Claim, share: float, *, is_known: bool) -> _Finding:
        """What work is that did not land, with the time before which it is too early to say so."""
        history = self._history
        names = {branch.name for branch in self._branches}
        holders = {} if not claim.oids else history.branches_with(claim.oids[-1])
        tips = history.commit_times([tip for name, tip in holders.items() if name not in names])
        last = max([claim.end, *[self._times.get(oid, 0) for oid in claim.oids], *tips.values()])
        finding = self._find_missing(claim, share, last + self._wait, {*holders} - names, is_known=is_known)
        return finding._replace(changes_at=last + self._wait)

    def _find_missing(
        self, claim: _Claim, share: float, end: int, holders: Collection[str], *, is_known: bool
    ) -> _Finding:
        """The same; `end` is that time, `holders` are the other branches that have it."""
        history, days = self._history, self._options.days
        if self._now < end:
            return _Finding("unknown", f"not landed, but its last commit is less than {count(days, 'day')} old")
        if history.is_shallow or (len(history.commits) >= MAX_COMMITS and not is_known):
            return _Finding("unknown", "not landed, and the older history is not there")
        if max(branch.tip.time for branch in self._branches) < claim.end:
            return _Finding("unknown", "the default branch here is older than the work: fetch it first")
        elsewhere = self._find_elsewhere(claim, holders)
        if elsewhere:
            return _Finding("unknown", f"it is on {elsewhere}, and not on {self._branches[0].name}")
        if not claim.oids and len(claim.lines) < _MIN_LINES:
            return _Finding("unknown", "it has too few specific lines")
        if share > _LOST_SHARE:
            return _Finding("unknown", f"{share:.0%} of its lines landed; the others were rewritten before")
        if not claim.oids and self._is_rewritten(claim):
            return _Finding("unknown", "its files landed with other lines: it was rewritten before")
        return _Finding("failure", f"not landed {count(days, 'day')} after its last commit", None, None, end)

    def _find_elsewhere(self, claim: _Claim, holders: Collection[str]) -> str:
        """A branch beside the default one that the work is on, and that work lands on before; "" if there is none."""
        for name, tip in self._history.branches().items():
            if _OTHER_BRANCH.fullmatch(name) and (
                name in holders
                or (claim.lines and len(self._history.lines_in(tip) & claim.lines) >= _HELD_SHARE * len(claim.lines))
            ):
                return name
        return ""

    def _is_rewritten(self, claim: _Claim) -> bool:
        """Whether others changed its files on the default branch soon afterwards."""
        end = claim.end + _REWRITE_DAYS * _DAY
        times = self._history.commits
        return any(
            claim.start <= times[oid].time <= end and change.files & claim.files
            for oid, change in self._changes.items()
        )
