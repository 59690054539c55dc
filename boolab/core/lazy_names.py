"""Public names of a package that are imported when they are first used, so that importing the package costs nothing."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package whose stub has `from module import name as name` for each name."""

    def get(name: str) -> object:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(_no_attribute(package, name))
        homes = homes_of(package)
        if name == "__all__":
            return sorted(homes)
        if name not in homes:
            raise AttributeError(_no_attribute(package, name) + _name_hint(package, name, homes))
        module = import_module(homes[name])
        # A name may be that of a module, which is an attribute of its package only once something imports it.
        value = vars(module)[name] if name in vars(module) else import_module(f"{homes[name]}.{name}")
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted(homes_of(package))


_SYNONYMS: Mapping[str, str] = {
    "step_cap": "max_steps",
    "max_turns": "max_steps",
    "token_budget": "max_tokens",
    "cost_budget": "max_cost",
    "time_budget": "max_time",
}
"""What a limit is called here, by a name that it has as a stop reason or elsewhere."""


@functools.cache
def homes_of(package: str) -> Mapping[str, str]:
    """The public names of such a package, each with the module that defines it."""
    import ast
    from pathlib import Path  # not before a name is looked up: rules start fast

    stub = Path(__file__).parents[1].joinpath(*package.split(".")[1:], "__init__.pyi")
    nodes = ast.parse(stub.read_text()).body if stub.exists() else []
    return {
        alias.name: node.module
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
        if alias.asname
    }


def public_names() -> dict[str, str]:
    """All public names, such as `run` and `models.Retry`, the shortest of each, with the full name of what it is."""
    from boolab import errors

    path_by_name = {name: f"{home}.{name}" for name, home in homes_of("boolab").items()}
    spaces = {name: path_by_name.pop(name) for name in ("detectors", "errors", "models", "plots", "stats")}
    for space, package in spaces.items():
        homes = homes_of(package).items()
        path_by_name |= {f"{space}.{name}": f"{home}.{name}" for name, home in homes if name not in path_by_name}
    for name, value in vars(errors).items():
        if isinstance(value, type) and issubclass(value, Exception) and name[0] != "_" and name not in path_by_name:
            path_by_name[f"errors.{name}"] = f"boolab.errors.{name}"
    return dict(sorted(path_by_name.items()))


def _no_attribute(package: str, name: str) -> str:
    return f"module {package!r} has no attribute {name!r}"


def _name_hint(package: str, name: str, homes: Mapping[str, str]) -> str:
    """A hint: where the name is, or the name nearest to it."""
    from boolab.errors import near

    modules = {alias: f"{home}.{alias}" for alias, home in homes.items() if package in (home, "boolab")}
    for alias, module in modules.items():
        if name in homes_of(module) or (alias == "errors" and hasattr(import_module(module), name)):
            return f"; did you mean '{alias}.{name}'?"
    if _SYNONYMS.get(name) in homes:
        return f"; did you mean {_SYNONYMS[name]!r}?"
    return near(name, homes)
