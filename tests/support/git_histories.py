"""Repositories with a history that is scripted with dates, written object by object: no git is run.

A case is a generator: what follows `yield DAY` is done on that day. Cases share a repository; their days interleave.
"""

import hashlib
import heapq
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from boolab.io.git.objects import TreeEntry, tree_bytes
from boolab.logs.outcomes.changes import FileChange
from boolab.logs.outcomes.git_work import GitWork

DAY = 86_400
NOW = 1_760_000_000
Files = dict[str, str]
Days = Iterator[float]


def body(tag: str, n: int = 6) -> str:
    """Lines of code that no other tag has."""
    return "".join(f"def {tag}_part_{i}(value):\n    return compute_{tag}(value, {i})\n" for i in range(n))


class History:
    """A repository that is being written."""

    def __init__(self, folder: Path, main: str = "main", git_dir: Path | None = None) -> None:
        self.folder = folder
        self.git_dir = git_dir or folder / ".git"
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("objects", "refs/heads"):
            (self.git_dir / name).mkdir(parents=True, exist_ok=True)
        (self.git_dir / "HEAD").write_text(f"ref: refs/heads/{main}\n")
        (self.git_dir / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = false\n")
        self.main = main
        self.day = -100.0
        self.trees: dict[str, Files] = {}
        self.starts: dict[str, Files] = {}
        """The files with which each branch began."""
        self.commit(main, {"README.md": "hello there reader\n"}, parents=[])

    @property
    def time(self) -> int:
        return int(NOW + self.day * DAY)

    def put(self, kind: str, data: bytes) -> str:
        """Write an object; return its name."""
        content = f"{kind} {len(data)}\0".encode() + data
        oid = hashlib.sha1(content, usedforsecurity=False).hexdigest()
        path = self.git_dir / "objects" / oid[:2] / oid[2:]
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(zlib.compress(content, 1))
        return oid

    def put_tree(self, files: Mapping[str, str]) -> str:
        entries: dict[str, TreeEntry] = {}
        folders: dict[str, Files] = {}
        for path, text in files.items():
            head, _, rest = path.partition("/")
            if rest:
                folders.setdefault(head, {})[rest] = text
            else:
                entries[head] = TreeEntry(0o100644, bytes.fromhex(self.put("blob", text.encode())))
        for name, inner in folders.items():
            entries[name] = TreeEntry(0o40000, bytes.fromhex(self.put_tree(inner)))
        return self.put("tree", tree_bytes([(name.encode(), entry) for name, entry in entries.items()]))

    def ref(self, branch: str) -> Path:
        return self.git_dir / ("refs" if branch.startswith("remotes/") else "refs/heads") / branch

    def tip(self, branch: str) -> str:
        return self.ref(branch).read_text().strip()

    def point(self, branch: str, oid: str) -> None:
        self.ref(branch).parent.mkdir(parents=True, exist_ok=True)
        self.ref(branch).write_text(oid + "\n")

    def rename(self, branch: str, name: str) -> None:
        self.point(name, self.tip(branch))
        self.starts[name] = self.starts[branch]
        self.delete(branch)

    def files(self, branch: str) -> Files:
        return self.trees[self.tip(branch)]

    def commit(
        self,
        branch: str,
        changes: Mapping[str, str | None],
        message: str = "change",
        *,
        parents: Sequence[str] | None = None,
        author_day: float | None = None,
    ) -> str:
        """A commit on a branch, which changes some files; None removes one."""
        above = [self.tip(branch)] if parents is None else list(parents)
        files = dict(self.trees[above[0]]) if above else {}
        files |= {path: text for path, text in changes.items() if text is not None}
        files = {path: text for path, text in files.items() if changes.get(path, "") is not None}
        author = self.time if author_day is None else int(NOW + author_day * DAY)
        lines = [f"tree {self.put_tree(files)}", *(f"parent {oid}" for oid in above)]
        lines += [f"author a <a@x> {author} +0000", f"committer a <a@x> {self.time} +0000", "", message, ""]
        oid = self.put("commit", "\n".join(lines).encode())
        self.trees[oid] = files
        self.point(branch, oid)
        return oid

    def branch(self, name: str, start: str | None = None) -> None:
        self.point(name, self.tip(start or self.main))
        self.starts[name] = self.files(name)

    def commits_above(self, branch: str) -> str:
        """The parent of the tip of a branch."""
        oid = self.tip(branch)
        data = zlib.decompress((self.git_dir / "objects" / oid[:2] / oid[2:]).read_bytes())
        return data.split(b"parent ")[1][:40].decode()

    def delete(self, branch: str) -> None:
        self.ref(branch).unlink()

    def merge(self, branch: str, into: str | None = None, changes: Mapping[str, str] | None = None) -> str:
        """A merge commit."""
        target = into or self.main
        parents = [self.tip(target), self.tip(branch)]
        return self.commit(target, self.new_in(branch) | dict(changes or {}), f"Merge {branch}", parents=parents)

    def squash(self, branch: str, message: str = "Feature (#12)") -> str:
        return self.commit(self.main, self.new_in(branch), message)

    def new_in(self, branch: str) -> Files:
        """The files that a branch has changed since it began."""
        start = self.starts[branch]
        return {path: text for path, text in self.files(branch).items() if start.get(path) != text}

    def revert(self, oid: str, changes: Mapping[str, str | None], branch: str | None = None) -> str:
        return self.commit(branch or self.main, changes, f'Revert "change"\n\nThis reverts commit {oid}.')


@dataclass
class Case:
    """A case in a repository: its session, which grows while the case runs."""

    history: History
    tag: str
    folder: str = ""
    start: int | None = None
    end: int | None = None
    commits: list[str] = field(default_factory=list)
    changes: list[FileChange] = field(default_factory=list)

    @property
    def feature(self) -> str:
        return f"feature-{self.tag}"

    def file(self, number: int = 0) -> str:
        return f"{self.tag}{number}.py"

    def text(self, number: int = 0) -> str:
        return body(f"{self.tag}{number}")

    def begin(self) -> None:
        self.start, self.end = self.history.time - 60, self.history.time + 3600

    def edit(self, path: str, text: str) -> None:
        """An edit on the record of the session."""
        if self.start is None:
            self.begin()
        self.changes.append(FileChange(path, text))

    def write(self, branch: str = "", number: int = 0, **options: float) -> str:
        """The session writes a file, and commits it."""
        self.edit(self.file(number), self.text(number))
        oid = self.history.commit(branch or self.history.main, {self.file(number): self.text(number)}, **options)  # type: ignore[arg-type]
        self.commits.append(oid[:8])
        return oid

    def work(self, n: int = 1) -> None:
        """The session makes a branch, with some commits."""
        self.history.branch(self.feature)
        for number in range(n):
            self.write(self.feature, number)

    def git_work(self) -> GitWork:
        folder = self.folder or str(self.history.folder)
        return GitWork(folder, self.start, self.end, tuple(self.commits), tuple(self.changes))


Script = Callable[[Case], Days]


def play(history: History, scripts: Mapping[str, Script]) -> dict[str, GitWork]:
    """Run scripts on one repository, day by day; return the work of the session of each."""
    cases = {name: Case(history, name) for name in scripts}
    running = {name: script(cases[name]) for name, script in scripts.items()}
    waiting = [(next(days), number, name) for number, (name, days) in enumerate(running.items())]
    heapq.heapify(waiting)
    while waiting:
        history.day, number, name = heapq.heappop(waiting)
        following = next(running[name], None)
        if following is not None:
            heapq.heappush(waiting, (following, number, name))
    return {name: case.git_work() for name, case in cases.items()}
