"""The layers: a module imports from layers below its own, or from its own layer without a cycle."""

from __future__ import annotations

import ast
from pathlib import Path

import boolab

PACKAGE = Path(boolab.__file__).parent
LAYERS = {
    0: {
        "errors",
        "types",
        "clock",
        "collection",
        "documents",
        "endings",
        "files",
        "data",
        "fingerprints",
        "finish_reasons",
        "help_text",
        "patterns",
        "surrogates",
        "transcript",
    },
    1: {
        "abort",
        "actions",
        "bash",
        "bash_guard",
        "chants",
        "codec",
        "compaction",
        "cycles",
        "detector_rules",
        "detectors",
        "events",
        "executors",
        "families",
        "inbox",
        "mentions",
        "models",
        "models.anthropic",
        "models.anthropic_stream",
        "models.base",
        "models.chat_calls",
        "models.chat_stream",
        "models.chat_usage",
        "models.course",
        "models.growing",
        "models.hosted",
        "models.http",
        "models.keys",
        "models.openai",
        "models.patience",
        "models.payload",
        "models.prices",
        "models.profile",
        "models.recorded",
        "models.recording",
        "models.recording_file",
        "models.remote",
        "models.replay_file",
        "models.replay_run",
        "models.retry",
        "models.scripted",
        "models.simulated",
        "models.throttle",
        "models.wire",
        "notebooks",
        "processes",
        "scopes",
        "stop",
        "streaks",
        "tools",
        "watch",
        "windows",
        "worker",
        "workspace",
    },
    2: {
        "agents",
        "atif",
        "frames",
        "labels",
        "list_prices",
        "places",
        "policy",
        "presets",
        "public_data",
        "readers",
        "reading",
        "sources",
        "store",
        "store.fetch",
        "store.lock",
        "store.message_rows",
        "store.opening",
        "store.overview",
        "store.plans",
        "store.prune",
        "store.records",
        "store.schema",
        "store.stored",
        "store.tables",
        "store.writer",
    },
    3: {
        "bounds",
        "branching",
        "conversation",
        "counterfactuals",
        "finish",
        "fires",
        "gate",
        "family_stops",
        "grid",
        "ledger",
        "limits",
        "loop",
        "outcomes",
        "partitions",
        "runner",
        "saving",
        "setup",
        "spreadsheets",
        "steering",
        "subagents",
        "tables",
        "tally",
        "told",
        "turn",
        "wrap_up",
    },
    4: {
        "compare",
        "demo",
        "demo_logs",
        "demo_text",
        "divergence",
        "plots",
        "plots.bars",
        "plots.bins",
        "plots.caps",
        "plots.divergences",
        "plots.fit",
        "plots.heatmap",
        "plots.labels",
        "plots.panels",
        "plots.scorecard",
        "plots.settings",
        "plots.steps",
        "plots.stop_reasons",
        "plots.style",
        "plots.survival",
        "plots.tables",
        "plots.timeline",
        "plots.tools",
        "plots.two_settings",
        "plots.words",
        "policy_words",
        "stats",
        "stats.advice",
        "stats.alarms",
        "stats.choose",
        "stats.curves",
        "stats.estimates",
        "stats.family_units",
        "stats.fixed_sequence",
        "stats.figures",
        "stats.finding",
        "stats.fit",
        "stats.fitness",
        "stats.hazards",
        "stats.intervals",
        "stats.moves",
        "stats.profiles",
        "stats.recommend",
        "stats.scorecard",
        "stats.scores",
        "stats.survival",
        "stats.units",
        "sweeps",
        "sweeps.cells",
        "sweeps.derive",
        "sweeps.handing",
        "sweeps.job",
        "sweeps.progress",
        "sweeps.sweep",
    },
    5: {
        "__main__",
        "cli",
        "report",
        "report.figures",
        "report.imported",
        "report.live",
        "report.machine",
        "report.markup",
        "report.options",
        "report.page",
        "report.quality",
        "report.recipe",
        "report.runs",
        "report.sentences",
        "report.sheet",
        "report.study",
        "report.style",
        "report.tell",
        "run_command",
        "store_command",
        "widgets",
        "widgets.agent_editor",
        "widgets.agent_file",
        "widgets.call_labels",
        "widgets.caplab",
        "widgets.caplab_data",
        "widgets.caplab_setting",
        "widgets.caplab_table",
        "widgets.children",
        "widgets.gauges",
        "widgets.marks",
        "widgets.moments",
        "widgets.outline",
        "widgets.replay_data",
        "widgets.replay_picture",
        "widgets.replay_text",
        "widgets.tool_kinds",
        "widgets.heatmap",
        "widgets.heatmap_data",
        "widgets.heatmap_sources",
        "widgets.compare",
        "widgets.compare_data",
        "widgets.alignment",
        "widgets.looks",
        "widgets.opening",
        "widgets.packing",
        "widgets.page",
        "widgets.replay",
        "widgets.shown",
        "widgets.sweep_view",
        "widgets.sweep_view_data",
    },
}
# A format is added by adding one file.
LAYERS[2] |= {f"readers.{path.stem}" for path in (PACKAGE / "readers").glob("[!_]*.py")}
LAYER_OF = {module: layer for layer, modules in LAYERS.items() for module in modules}


def imports_of(path: Path) -> set[str]:
    """The boolab modules that a file imports, those for type checking only included."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "boolab":
            module = node.module.partition(".")[2]
            names = {f"{module}.{alias.name}" if module else alias.name for alias in node.names}
            found |= {name for name in names if name in LAYER_OF} or {module}
        elif isinstance(node, ast.Import):
            found |= {a.name.partition(".")[2] for a in node.names if a.name.split(".")[0] == "boolab"}
    return found - {""}


def graph() -> dict[str, set[str]]:
    modules = {}
    for path in sorted(set(PACKAGE.rglob("*.py")) - set(PACKAGE.glob("_data/**/*.py"))):  # those are data
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        if name != "__init__":
            modules[name] = imports_of(path)
    return modules


def test_every_module_has_a_layer() -> None:
    assert set(graph()) == set(LAYER_OF)


def test_modules_import_only_from_their_own_layer_and_below() -> None:
    upward = [(a, b) for a, targets in graph().items() for b in targets if LAYER_OF[b] > LAYER_OF[a]]
    assert upward == []


def test_there_is_no_cycle() -> None:
    edges = graph()
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join((*path, module))
        if module not in done:
            for target in edges[module]:
                visit(target, (*path, module))
            done.add(module)

    for module in edges:
        visit(module, ())
