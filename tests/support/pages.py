"""Pages of the documentation as programs: their blocks of code run in order, and print what stands below them.

What a page says with its blocks:

- A block of `python` is a session (`>>>`, checked as a doctest) or the cell of a notebook, which may await.
- A block of `sh` is run by a shell. Where all of its commands are `boolab` commands without redirections, they are
  called in this process, as the entry point would: starting Python and pandas anew takes seconds.
- A block without a language right below one of these is its output: of a cell what it prints and the value of its last
  expression, of a shell both streams. `...` stands for anything, as in doctests.
- `<!-- file: NAME -->` above a block: it is not run but written into that file.
- `<!-- not run: WHY -->` above a block: it is neither.

Blocks of any other language (yaml, sql) are run by nobody here, unless they are files.
"""

import ast
import asyncio
import contextlib
import doctest
import inspect
import io
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from boolab.cli.main import main
from tests.support.project import ROOT

_FENCE = re.compile(r"^( *)```(.*)$")
_MARK = re.compile(r"^ *<!-- (not run|file): (.*?) -->$")
_FLAGS = doctest.ELLIPSIS
_SHELL = re.compile(r"[|<>$;&`*~]")
_LONGEST_S = 60


class Block(NamedTuple):
    """A block of a page: where it stands, its language, its text, the output below it, what is said of it above."""

    line: int
    language: str
    code: str
    shown: str | None
    mark: tuple[str, str] | None

    @property
    def is_code(self) -> bool:
        """Whether it is a program."""
        return self.language in ("python", "sh")

    @property
    def not_run(self) -> str | None:
        """Why it is not run, if it is said not to be."""
        return self.mark[1] if self.mark and self.mark[0] == "not run" else None


def pages() -> dict[str, Path]:
    """All pages that people wrote, by their names: `README`, `sweeps`, `howto/choose_a_cap`.

    Those of the reference are made of docstrings, whose examples run as doctests.
    """
    docs = ROOT / "docs"
    paths = [path for path in sorted(docs.rglob("*.md")) if path.parent != docs / "api"]
    return {"README": ROOT / "README.md"} | {str(path.relative_to(docs).with_suffix("")): path for path in paths}


def blocks_of(page: str) -> list[Block]:
    """The blocks of a page, outputs with what they are the output of."""
    found: list[Block] = []
    lines = page.splitlines()
    at, mark, between = 0, None, True
    while at < len(lines):
        line = lines[at]
        opening = _FENCE.match(line)
        at += 1
        if opening is None:
            said = _MARK.match(line)
            mark = (said[1], said[2]) if said else mark if not line.strip() else None
            between = between or bool(line.strip())
            continue
        indent, language = len(opening[1]), opening[2].strip()
        start = at
        while lines[at].strip() != "```":
            at += 1
        code = "".join(f"{line[indent:].rstrip()}\n" for line in lines[start:at])
        at += 1
        if not language and not between and mark is None and found and found[-1].is_code and found[-1].shown is None:
            found[-1] = found[-1]._replace(shown=code)
        else:
            found.append(Block(start, language, code, None, mark))
        mark, between = None, False
    return found


def run_page(name: str, folder: Path, names: dict[str, Any], replace: dict[str, str]) -> Iterator[str]:
    """Run the blocks of a page in a folder that is the current one."""
    for block in blocks_of(pages()[name].read_text(encoding="utf-8")):
        code = block.code
        for old, new in replace.items():
            code = code.replace(old, new)
        where = f"{name}.md:{block.line}"
        if block.mark is not None and block.mark[0] == "file":
            target = folder / block.mark[1]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(code, encoding="utf-8")
        elif not block.is_code or block.not_run:
            continue
        elif block.language == "python" and code.lstrip().startswith(">>>"):
            yield from _session(code, names, where)
        else:
            printed = run_cell(code, names, where) if block.language == "python" else run_commands(code, folder)
            if block.shown is not None and not _same(block.shown, printed):
                yield f"{where} printed\n{printed}\nand not\n{block.shown}"


def run_cell(code: str, names: dict[str, Any], where: str = "<cell>") -> str:
    """What a cell of a notebook prints, and the value of its last expression."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        value = evaluate(code, names, where)
    shown = value.to_string() if isinstance(value, pd.DataFrame | pd.Series) else repr(value)
    return out.getvalue() + (f"{shown}\n" if value is not None else "")


def evaluate(code: str, names: dict[str, Any], where: str = "<cell>") -> Any:
    """Execute code that may await, as a notebook cell does, and give the value of its last expression."""
    value = None
    for node in ast.parse(code).body:
        alone = isinstance(node, ast.Expr)
        tree: Any = ast.Expression(node.value) if isinstance(node, ast.Expr) else ast.Module([node], [])
        compiled = compile(tree, where, "eval" if alone else "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        value = eval(compiled, names)  # noqa: S307 - the project's own documentation
        if inspect.iscoroutine(value):
            value = asyncio.run(value)
    return value


def run_commands(code: str, folder: Path) -> str:
    """What commands print, to both streams. One that fails is an `AssertionError`."""
    joined = code.replace("\\\n", " ")
    commands = [shlex.split(line, comments=True) for line in joined.splitlines()]
    commands = [command for command in commands if command]
    if all(command[0] == "boolab" for command in commands) and not _SHELL.search(joined):
        out = io.StringIO()
        for command in commands:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                status = main(command[1:])
            assert status == 0, f"{shlex.join(command)}: exit code {status}\n{out.getvalue()}"
        return out.getvalue()
    done = subprocess.run(  # the project's own documentation
        ["/bin/sh", "-eu"],
        input=code,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_LONGEST_S,
        check=False,
    )
    assert done.returncode == 0, f"{code}\nexit code {done.returncode}\n{done.stdout}"
    return done.stdout


def _session(code: str, names: dict[str, Any], where: str) -> Iterator[str]:
    told: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=_FLAGS)
    test = doctest.DocTestParser().get_doctest(code, names, where, where, 0)
    runner.run(test, out=told.append, clear_globs=False)
    names.update(test.globs)
    if told:
        yield "".join(told)


def _same(shown: str, printed: str) -> bool:
    trimmed = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
    return doctest.OutputChecker().check_output(shown, trimmed, _FLAGS)
