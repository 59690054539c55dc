"""A harness is a module and a line in the registry: the two agree, and a new harness needs no more."""

import os
import pkgutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import boolab as bl
from boolab import harnesses, integrations
from boolab.harnesses import registry
from boolab.harnesses.presets import policies
from boolab.harnesses.registry import HARNESSES, HarnessNames, all_harnesses, harness
from tests.support.project import ROOT

TOY = """
from boolab.harnesses.exports.values import Limits, Part, Sets, Target
from boolab.harnesses.groups import About, Cap
from boolab.harnesses.harness import STEPS, AgentFiles, ConfigFile, ConfigLimit, Harness
from boolab.harnesses.policy import Policy

def build(limits, notes):
    text = f"toy --rounds {limits.max_steps}\\n"
    part = Part(text=text, language="shell", how="a flag.", sets=frozenset({"max_steps"}))
    return (part,), ()

def settings(document):
    yield ConfigLimit("rounds", document.get("rounds"))

HARNESS = Harness(
    presets=(Policy(name="toy", about=About(source="toy 1.0"), cap=Cap(max_steps=7)),),
    sources={"toy_log": "toy"},
    limits={"toy": {"rounds": STEPS}},
    agent_files=(AgentFiles(".toy/agents", "toy_log", ("rounds",)),),
    config_files=(ConfigFile((".toy/toy.json",), ".json", "toy_log", settings),),
    target=Target("toy", "Toy", "toy", "toy 1.0", (Sets("max_steps", "--rounds", "steps", "run"),), {}, build),
)
"""
LINE = '    "toy": HarnessNames(("toy",), ("toy_log",), "toy", "openai"),\n'
USE = """
import sys
from dataclasses import replace
from pathlib import Path

import boolab.harnesses

boolab.harnesses.__path__.insert(0, sys.argv[1])
import boolab as bl
from boolab.harnesses.exports.export import export
from boolab.harnesses.exports.values import Limits
from boolab.harnesses.registry import provider_of_source, target_of_source

assert [*bl.policies][-1] == "toy"
look = {"tool_calls": [{"name": "ls"}], "repeat": "forever"}
run = bl.run_sync(None, "go", model=bl.ScriptedModel([look], tools={"ls": "a"}), policy="toy")
assert run.stop.step == 7
assert export("toy", Limits(max_steps=3)).parts[0].text == "toy --rounds 3\\n"
project = Path(sys.argv[1])
(project / ".toy").mkdir()
(project / ".toy/toy.json").write_text('{"rounds": 5} // mine')
log = replace(run, source="toy_log", limits={"steps": 7})
found = bl.audit([log], config=project)
rows = found[["limit", "declared", "verdict"]].values.tolist()
assert rows == [["rounds", 5, "exceeded"], ["rounds", 7, "hit"]], rows
assert (target_of_source("toy_log"), provider_of_source("toy_log")) == ("toy", "openai")
"""


def faults(table: Mapping[str, HarnessNames]) -> list[str]:
    """Where the registry and the modules differ."""
    modules = [module.name for module in pkgutil.iter_modules(harnesses.__path__)]
    texts = {name: (Path(harnesses.__path__[0]) / f"{name}.py").read_text() for name in modules if name != "exports"}
    defined = {name for name, text in texts.items() if "\nHARNESS: Final = Harness(" in text}
    wrong = [f"{name}: no line in the registry" for name in sorted(defined - table.keys())]
    for name, names in table.items():
        if name not in defined:
            wrong.append(f"{name}: no module with a HARNESS")
            continue
        one = harness(name)
        target = "" if one.target is None else one.target.name
        has = names._replace(
            presets=tuple(policy.name for policy in one.presets), sources=(*one.sources,), target=target
        )
        wrong += [] if has == names else [f"{name}: the line has {names}, the module {has}"]
    return wrong


def test_the_registry_and_the_modules_agree() -> None:
    assert faults(HARNESSES) == []


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        ({name: names for name, names in HARNESSES.items() if name != "codex"}, "codex: no line in the registry"),
        ({**HARNESSES, "toy": HarnessNames(("toy",))}, "toy: no module with a HARNESS"),
        ({**HARNESSES, "codex": HarnessNames()}, "codex: the line has"),
    ],
)
def test_a_forgotten_line_or_module_is_named(table: Mapping[str, HarnessNames], fault: str) -> None:
    assert [one for one in faults(table) if one.startswith(fault)] != []
    assert len(faults(table)) == 1


def test_names_lead_to_one_harness() -> None:
    for table, names in (
        (registry.PRESETS, [preset for one in HARNESSES.values() for preset in one.presets]),
        (registry.SOURCES, [source for one in HARNESSES.values() for source in one.sources]),
        (registry.TARGETS, [one.target for one in HARNESSES.values() if one.target]),
    ):
        assert sorted(table) == sorted(names)


def test_what_a_harness_names_is_there() -> None:
    sources = {source for one in all_harnesses() for source in one.sources}
    assert sources <= set(registry.SOURCES)
    for one in all_harnesses():
        own = {policy.name for policy in one.presets}
        assert {*one.sources.values()} - {""} <= own
        assert one.limits.keys() <= own | one.sources.keys()
        assert {native.policy for names in one.limits.values() for native in names.values()} - {""} <= own
        files = [file.source for file in one.config_files] + [files.source for files in one.agent_files]
        assert {*files} <= one.sources.keys()
    adapters = [one.adapter for one in all_harnesses() if one.adapter]
    modules = {module.name for module in pkgutil.iter_modules(integrations.__path__)} - {"monitored_run"}
    assert sorted(adapters) == sorted(modules)


def test_a_module_and_a_line_make_a_harness(tmp_path: Path) -> None:
    text = Path(str(registry.__file__)).read_text()
    assert text.count("\n}\n") == 1
    (tmp_path / "registry.py").write_text(text.replace("\n}\n", f"\n{LINE}}}\n"))
    (tmp_path / "toy.py").write_text(TOY)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", USE, str(tmp_path)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_harness_is_imported_when_it_is_asked_for() -> None:
    code = (
        "import sys, boolab as bl, boolab.limits.monitor, boolab.live.hooks.claude_code\n"
        "from boolab.harnesses.registry import HARNESSES\n"
        "policies = bl.policies\n"
        "assert len(policies) > 9 and 'cline' in policies and 'x' not in policies and 'naive' in [*policies]\n"
        "loaded = lambda: {name for name in HARNESSES if f'boolab.harnesses.{name}' in sys.modules}\n"
        "assert loaded() == set(), loaded()\n"
        "policies['cline']\n"
        "assert loaded() == {'cline'}, loaded()\n"
    )
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)


def test_policies_are_a_mapping_that_nobody_changes() -> None:
    assert bl.policies is policies
    assert {**policies} == dict(policies.items()) == policies
    assert policies.get("x") is None
    assert [*policies][:4] == ["boocode", "opencode_3631", "opencode_v1", "opencode_v2"]
    with pytest.raises(KeyError):
        policies["x"]
    assert policies["cline"] is policies["cline"]
