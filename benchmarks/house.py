"""Measure the code base: `python -m benchmarks.house [ROOT] [--json] [--places]`.

Prints packages, modules, lines, import floors and depth, circles, class names used twice, names that are function
words, double comprehensions, the modules behind common calls, and how many files hold what one change touches.
ROOT is another checkout of boolab, or the folder of any package: then only what needs no boolab is measured.

The walks run the calls themselves, so they need boolab and what it imports; `sys.setprofile` counts the modules whose
functions are called, after a first call has imported and cached what it needs.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final

_WORDS: Final = """
    about again ahead all alone also alike among an and another any anew apart as aside at away back before behind
    below beneath beside between beyond both but by each either else enough every few for from further hence here
    how if in inside instead into it its itself least less like lonely many mine more most much neither next no none
    nor not nothing now of off on once one ones only onto or others otherwise ours outside over own past per same
    second several since so some somewhat still such than that their them then there these they thing things this
    those through thus to together too toward twice under unless until up upon us very way what whatever when where
    whether which while who whole whom whose why with within without yet asked begun born bought bound broken
    brought built called came caught chosen come counted cut done drawn driven fallen fed felt forgotten found gave
    given goes gone got grown had has heard held hidden is joined kept known laid leads led left lent listed lost
    made marked meant met missed named needed offered open opened paid place placed places put put_in ran read_in
    reached runs_in said saw seen sent set_by shown spent spoken stands started stood taken takes thought told took
    tried turned understood used went were wanted wished won worn written mentioned noticed noted allowed accepted
    decided planned judged
"""
FUNCTION_WORDS: Final = frozenset(_WORDS.split())
"""Words that do not say what a name holds: function words, and participles without their noun."""

WALKS: Final[Mapping[str, str]] = {
    "run(stop=)": """
        agent, model = bl.Agent("a"), bl.ScriptedModel([{"tool_calls": [{"name": "f"}], "repeat": "forever"}])
        loop = asyncio.new_event_loop()  # asyncio.run prints the run: signal.getsignal shows the task in an error
        call = lambda: loop.run_until_complete(bl.run(agent, "t", model=model, stop=bl.max_steps(2)))""",
    "load_runs": """
        call = lambda: bl.load_runs(str(claude))""",
    "counterfactual(rules=)": """
        runs = bl.load_dataset("atlas/tau-airline")[:20]
        call = lambda: bl.counterfactual(runs, rules=[bl.max_steps(10)])""",
    "recommend": """
        runs = bl.load_dataset("atlas/tau-airline")
        call = lambda: bl.recommend(runs)""",
    "export": """
        found = bl.recommend(bl.load_dataset("atlas/intercode-python"), keep=0.9)
        call = lambda: found.export("langgraph")""",
    "Replay(run)": """
        agent, model = bl.Agent("a"), bl.ScriptedModel([{"tool_calls": [{"name": "f"}], "repeat": "forever"}])
        run = bl.run_sync(agent, "t", model=model, stop=bl.max_steps(3))
        call = lambda: bl.Replay(run)""",
}
"""What is called, by its name in the table."""

CLAUDE_LOG: Final = "tests/logs/released/claude_code/max_turns_3/0000000f-1111-4222-8333-444444444444.jsonl"

LIMITS: Final = frozenset(
    {"max_steps", "tool_budget", "doom_loop", "error_streak", "max_tokens", "max_cost", "max_time"}
    | {"steps", "tool_calls", "repeat_streak", "tokens", "cost", "elapsed"}
    | {"step_cap", "token_budget", "cost_budget", "time_budget"}
)
"""Names, counters and stop reasons of limits."""


class Package:
    """The source of a package.

    Args:
        folder: Its folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.name
        self.files = sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)

    def module(self, path: Path) -> str:
        """The dotted name of a file."""
        parts = [self.name, *path.relative_to(self.folder).with_suffix("").parts]
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def texts(self) -> dict[str, str]:
        """The text of each module."""
        return {self.module(path): path.read_text(encoding="utf-8") for path in self.files}

    @cached_property
    def trees(self) -> dict[str, ast.Module]:
        """The syntax tree of each module."""
        return {module: ast.parse(text) for module, text in self.texts.items()}

    @cached_property
    def nodes(self) -> dict[str, list[ast.AST]]:
        """All nodes of each module's tree."""
        return {module: [*ast.walk(tree)] for module, tree in self.trees.items()}

    @property
    def lines(self) -> int:
        """All lines."""
        return sum(text.count("\n") for text in self.texts.values())

    @property
    def code_lines(self) -> int:
        """The lines that hold code: no blank line, no line of comment alone, no docstring."""
        return sum(len(_code_lines(self.texts[module], nodes)) for module, nodes in self.nodes.items())

    def imports(self, module: str, typing: bool) -> set[str]:
        """The modules of the package that a module imports at its top: for types alone, or at run time."""
        is_package = f"{self.name}/{'/'.join(module.split('.')[1:])}/__init__.py" in self._inits
        names: set[str] = set()
        for node, for_types in _top_level(self.trees[module].body):
            if for_types is not typing:
                continue
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                base = node.module or ""
                if node.level:
                    parents = module.split(".")
                    parents = parents[: len(parents) - node.level + is_package]
                    base = ".".join([*parents, *([node.module] if node.module else [])])
                names |= {f"{base}.{a.name}" if f"{base}.{a.name}" in self.texts else base for a in node.names}
        return {name for name in names if name in self.texts and name != module}

    @cached_property
    def _inits(self) -> set[str]:
        return {str(path.relative_to(self.folder.parent)) for path in self.files if path.name == "__init__.py"}

    @cached_property
    def graph(self) -> dict[str, set[str]]:
        """By module, what it imports at run time."""
        return {module: self.imports(module, typing=False) for module in self.trees}

    def depth(self) -> int:
        """The longest chain of imports at the top of modules, in modules; circles count as one module."""
        depths: dict[str, int] = {}

        def of(module: str, above: tuple[str, ...]) -> int:
            if module in above:
                return 0
            if module not in depths:
                depths[module] = 1 + max((of(name, (*above, module)) for name in self.graph[module]), default=0)
            return depths[module]

        return max(of(module, ()) for module in self.graph)

    def type_circles(self) -> list[tuple[str, ...]]:
        """The groups of modules that import each other where imports for types count too."""
        graph = {module: self.graph[module] | self.imports(module, typing=True) for module in self.trees}
        return [tuple(sorted(group)) for group in _components(graph) if len(group) > 1]

    def class_names_twice(self) -> Counter[str]:
        """By class name that is defined more than once, how often."""
        names = Counter(node.name for nodes in self.nodes.values() for node in nodes if isinstance(node, ast.ClassDef))
        return Counter({name: count for name, count in names.items() if count > 1})

    def bound_names(self) -> Iterator[tuple[str, int, str]]:
        """Each name of a variable or parameter that a scope binds: module, line, name."""
        for module, nodes in self.nodes.items():
            for scope in nodes:
                if isinstance(scope, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
                    lines: dict[str, int] = {}
                    for name, line in _bindings(scope):
                        lines.setdefault(name, line)
                    for name, line in lines.items():
                        yield module, line, name

    def functions(self) -> Iterator[tuple[str, int, str]]:
        """Each function: module, line, name."""
        for module, nodes in self.nodes.items():
            for node in nodes:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield module, node.lineno, node.name

    def function_words(self) -> tuple[list[tuple[str, int, str]], int]:
        """The bound names that are function words, and how many names there are."""
        names = [(module, line, name) for module, line, name in self.bound_names() if not name.startswith("__")]
        return [entry for entry in names if entry[2].strip("_").lower() in FUNCTION_WORDS], len(names)

    def double_comprehensions(self) -> int:
        """Comprehensions with two `for`."""
        kinds = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
        nodes = (node for every in self.nodes.values() for node in every)
        return sum(isinstance(node, kinds) and len(node.generators) > 1 for node in nodes)

    def limit_literals(self) -> list[tuple[str, int]]:
        """Literals that list three or more limits, counters or stop reasons: module and line."""
        places = []
        for module, nodes in self.nodes.items():
            for node in nodes:
                if isinstance(node, ast.Dict):
                    items = [item for item in node.keys if item is not None]
                elif isinstance(node, ast.Tuple | ast.List | ast.Set):
                    items = node.elts
                else:
                    continue
                words = {item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)}
                if len(words & LIMITS) >= 3:
                    places.append((module, node.lineno))
        return places

    def modules_with(self, word: str) -> int:
        """How many modules hold a word."""
        return sum(word in text.lower() for text in self.texts.values())


def _top_level(body: list[ast.stmt], *, for_types: bool = False) -> Iterator[tuple[ast.stmt, bool]]:
    for node in body:
        if isinstance(node, ast.If):
            typing = "TYPE_CHECKING" in ast.unparse(node.test)
            yield from _top_level(node.body, for_types=for_types or typing)
            yield from _top_level(node.orelse, for_types=for_types)
        elif isinstance(node, ast.Try):
            yield from _top_level(node.body, for_types=for_types)
        else:
            yield node, for_types


def _components(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The strongly connected groups of a graph, by Tarjan's algorithm."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(node: str) -> None:
        order[node] = low[node] = len(order)
        stack.append(node)
        for name in graph[node]:
            if name not in order:
                visit(name)
                low[node] = min(low[node], low[name])
            elif name in stack:
                low[node] = min(low[node], order[name])
        if low[node] == order[node]:
            index = stack.index(node)
            groups.append(stack[index:])
            del stack[index:]

    sys.setrecursionlimit(10_000)
    for node in graph:
        if node not in order:
            visit(node)
    return groups


def _code_lines(text: str, nodes: list[ast.AST]) -> set[int]:
    lines = {n for n, line in enumerate(text.splitlines(), 1) if line.strip() and not line.lstrip().startswith("#")}
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def _bindings(scope: ast.AST) -> Iterator[tuple[str, int]]:
    if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        arguments = scope.args
        parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        for parameter in parameters:
            if parameter is not None and parameter.arg not in ("self", "cls"):
                yield parameter.arg, parameter.lineno
    body = scope.body if isinstance(scope.body, list) else [scope.body]  # type: ignore[attr-defined]
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif (isinstance(node, ast.ExceptHandler) and node.name) or (
            isinstance(node, ast.MatchAs | ast.MatchStar) and node.name
        ):
            yield node.name, node.lineno
        waiting += ast.iter_child_nodes(node)


def contract_floors(root: Path) -> int:
    """The floors of the contract of packages in pyproject.toml."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    return max(len(contract.get("layers", ())) for contract in contracts)


def walk(root: Path, code: str) -> set[str]:
    """The modules whose functions a call runs, in a process of its own."""
    body = "\n".join(line.strip() for line in code.strip().splitlines())
    script = f"""
import asyncio, json, os, sys, pathlib, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, {str(root)!r})
import boolab as bl
folder = str(pathlib.Path({str(root / "boolab")!r})) + os.sep
claude = pathlib.Path({str(root / CLAUDE_LOG)!r})
{body}
call()
modules = set()
def profile(frame, event, arg):
    if event == "call" and frame.f_code.co_filename.startswith(folder):
        modules.add(frame.f_code.co_filename[len(folder):])
sys.setprofile(profile)
call()
sys.setprofile(None)
print(json.dumps(sorted(modules)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return set(json.loads(done.stdout.splitlines()[-1]))


def sizes(package: Package) -> dict[str, Any]:
    """What the source of a package shows, by names of the table."""
    words, names = package.function_words()
    lines = package.lines
    longest = max(package.texts, key=lambda module: package.texts[module].count("\n"))
    literals = package.limit_literals()
    return {
        "packages at the top": sum((path / "__init__.py").is_file() for path in package.folder.iterdir()),
        "modules": len(package.files),
        "lines": lines,
        "lines of code": package.code_lines,
        "module depth": package.depth(),
        "longest file": f"{package.texts[longest].count(chr(10))} ({longest})",
        "class names used twice": len(package.class_names_twice()),
        "names that are function words, %": round(100 * len(words) / names, 2),
        "double comprehensions per 1,000 lines": round(1000 * package.double_comprehensions() / lines, 2),
        "circles with imports for types": len(package.type_circles()),
        "literals of three or more limits": len(literals),
        "modules with such literals": len({module for module, _ in literals}),
        "modules that name opencode": package.modules_with("opencode"),
        "modules that name Codex": package.modules_with("codex"),
    }


def walks(root: Path) -> dict[str, Any]:
    """The floors of the contract, and the modules behind common calls."""
    figures: dict[str, Any] = {"floors of the contract": contract_floors(root)}
    for name, code in WALKS.items():
        modules = walk(root, code)
        size = sum((root / "boolab" / module).read_text(encoding="utf-8").count("\n") for module in modules)
        figures[f"modules behind {name}"] = f"{len(modules)} ({size:,} lines)"
    return figures


def long_test_names(root: Path, limit: int) -> Iterator[str]:
    """Each test of a checkout whose name is longer than a limit, as a line."""
    for folder in ("tests", "benchmarks"):
        for module, line, name in Package(root / folder).functions():
            if name.startswith("test_") and len(name) > limit:
                yield f"{module}:{line}: {name} has {len(name)} characters, more than {limit}"


def top_level_differences(root: Path, names: Collection[str]) -> Iterator[str]:
    """What git tracks at the top of a checkout and is not among these names, and the reverse, as lines.

    A tree that is no checkout, such as an unpacked release, has none.
    """
    command = ["git", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    tracked = {name.partition("/")[0] for name in listed.stdout.split("\0")[:-1]}
    if tracked:
        yield from (f"{name}: not in the list [top] of .ci/house.toml" for name in sorted(tracked - {*names}))
        yield from (f".ci/house.toml: git tracks no {name} at the top" for name in sorted({*names} - tracked))


def faults(package: Package, figures: Mapping[str, Any], root: Path) -> list[str]:
    """What breaks the budgets of `.ci/house.toml`, a line each."""
    rules = tomllib.loads((root / ".ci/house.toml").read_text(encoding="utf-8"))
    lines = [
        f"{name}: {figures[name]}, more than the {budget} of .ci/house.toml"
        for name, budget in rules["budgets"].items()
        if figures[name] > budget
    ]
    lines += long_test_names(root, rules["tests"]["characters of a name"])
    lines += top_level_differences(root, rules["top"]["names"])
    exceptions, homes = rules["literals"], ("boolab.limits.", "boolab.harnesses.")
    literals = [(module, line) for module, line in package.limit_literals() if not module.startswith(homes)]
    lines += [
        f"{module}:{line}: lists three or more limits, counters or stop reasons: read boolab.limits.table, "
        "or name the module in .ci/house.toml, with the reason"
        for module, line in literals
        if module not in exceptions
    ]
    unused = exceptions.keys() - {module for module, _ in literals}
    return [*lines, *(f".ci/house.toml: {module} has no such literal any more" for module in sorted(unused))]


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--places", action="store_true", help="list the names, classes, circles and literals")
    parser.add_argument("--check", action="store_true", help="end with 1 if a budget of .ci/house.toml is broken")
    options = parser.parse_args()
    checkout = (options.root / "boolab").is_dir()
    package = Package((options.root / "boolab" if checkout else options.root).resolve())
    if options.check:
        broken = faults(package, sizes(package), options.root)
        print("\n".join(broken) or "the house keeps its budgets")
        sys.exit(1 if broken else 0)
    figures = sizes(package) | (walks(options.root.resolve()) if checkout else {})
    if options.json:
        print(json.dumps(figures, indent=1))
        return
    for name, figure in figures.items():
        print(f"{name:<42} {figure:,}" if isinstance(figure, int) else f"{name:<42} {figure}")
    if options.places:
        words, _ = package.function_words()
        print("\nFunction words:", Counter(name for _, _, name in words).most_common(100))
        print("\nClasses:", package.class_names_twice().most_common())
        print("\nCircles:", *package.type_circles(), sep="\n  ")
        print("\nLiterals:", *(f"{module}:{line}" for module, line in package.limit_literals()), sep="\n  ")


if __name__ == "__main__":
    main()
