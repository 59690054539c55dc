"""The table: what each package did, what its preset did, and whether they agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from benchmarks.conformance.known import KNOWN
from benchmarks.conformance.observation import Observation, Released
from benchmarks.conformance.presets import PRESETS, NoSuchSetting, observe, preset_of
from benchmarks.conformance.scenarios import SCENARIOS, Scenario

Verdict: TypeAlias = Literal["agrees", "differs", "known", "outdated", "not compared"]
"""`known`: it differs, for the reason that `known.py` gives. `outdated`: that reason is given, and it agrees."""

PAGE: Final = Path(__file__).parents[2] / "docs" / "conformance.md"
"""Where the page lies."""

HEAD: Final = """# Conformance

A comparison of presets with the released packages. Both run the same script: the package in its own environment, with
a model that plays the script, and boolab's preset. The comparison covers the number of model calls, the tools run,
the model calls without tools (wrap-ups), and the package's own word for the end. `make conformance` makes this page;
the tests check the presets against it without the packages. Known differences have their reasons in
[known.py](../benchmarks/conformance/known.py).

The scripts are in [scenarios.py](../benchmarks/conformance/scenarios.py), the drivers in
[peers](../benchmarks/conformance/peers/exchange.py). Tools run are counted inside the tools; finish tools (`submit`,
`final_answer`) do not count. A setting that a package rejects is a `ValueError`.
"""


class Row(NamedTuple):
    """One scenario on both sides; `ours` is None where the preset cannot be set like that, and `note` says why."""

    scenario: Scenario
    theirs: Observation
    ours: Observation | None
    note: str = ""

    @property
    def verdict(self) -> Verdict:
        """Whether both did the same."""
        if self.ours is None:
            return "not compared"
        agrees = self.ours == self.theirs
        if (self.scenario.package, self.scenario.name) in KNOWN:
            return "outdated" if agrees else "known"
        return "agrees" if agrees else "differs"

    @property
    def told(self) -> str:
        """What is to be said of it beside the verdict."""
        if self.ours is None or self.verdict in ("agrees", "outdated"):
            return self.note
        reason = KNOWN.get((self.scenario.package, self.scenario.name), "")
        return f"{_words(self.ours)}{'; ' if reason else ''}{reason}"


def compare(released: Mapping[str, Released]) -> list[Row]:
    """Play every observed scenario under its preset as well."""
    rows = []
    for scenario in SCENARIOS:
        one = released.get(scenario.package)
        if one is None or scenario.name not in one.observations:
            continue
        theirs = one.observations[scenario.name]
        try:
            rows.append(Row(scenario, theirs, observe(scenario)))
        except NoSuchSetting as lack:
            rows.append(Row(scenario, theirs, None, str(lack)))
    return rows


def table(rows: Sequence[Row]) -> str:
    """The comparison as plain lines, one a scenario."""
    lines = []
    for row in rows:
        ours = f"here: {row.told}" if row.told else ""
        lines.append(
            f"{row.verdict:13}{row.scenario.package:19}{row.scenario.name:52}{_words(row.theirs)}  {ours}".rstrip()
        )
    return "\n".join(lines)


def page(rows: Sequence[Row], released: Mapping[str, Released]) -> str:
    """The page of documentation."""
    parts = [HEAD]
    for package in PRESETS:
        if package not in released:
            parts.append(f"## {package}\n\nNever run: it could not be installed.\n")
            continue
        of_package = [row for row in rows if row.scenario.package == package]
        agreeing = sum(row.verdict == "agrees" for row in of_package)
        parts.append(
            f"## {package} {released[package].version}\n\n"
            f"{_presets(of_package)}: {agreeing} of {len(of_package)} scenarios agree.\n\n"
            "| scenario | settings | model calls | tools run | wrap-ups | end | preset |\n|-|-|-|-|-|-|-|\n"
            + "".join(_line(row) for row in of_package)
        )
    return "\n".join(parts)


def _presets(rows: Sequence[Row]) -> str:
    names = dict.fromkeys(f"`{preset_of(row.scenario.package, row.scenario.settings)}`" for row in rows)
    return f"Preset{'s' if len(names) > 1 else ''} {' and '.join(names)}"


def _line(row: Row) -> str:
    settings = ", ".join(f"{name}={value}" for name, value in row.scenario.settings.items())
    seen = row.theirs
    preset = f"{row.verdict}: {row.told}" if row.told else row.verdict
    return (
        f"| {row.scenario.name} | `{settings}` | {seen.model_calls} | {seen.tools_run} | {seen.summary_calls} "
        f"| {seen.end} | {preset} |\n"
    )


def _words(seen: Observation) -> str:
    return f"{seen.model_calls} calls, {seen.tools_run} tools, {seen.summary_calls} wrap-ups, {seen.end}"
