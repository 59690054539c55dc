"""What the drivers share: scenarios on standard input, observations on standard output, one script played.

The drivers run under the Python of the package's own environment, where there is no boolab: they need nothing but the
package. Standard output belongs to the observations; whatever the package prints goes to standard error.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import sys
from collections.abc import Callable
from typing import Any


class ScriptOver(BaseException):
    """The script holds no further turn: no limit stopped the run. Not an `Exception`, so that no harness retries it."""


class Script:
    """One script being played, and what is counted of it.

    Attributes:
        model_calls: How often the model was asked.
        summary_calls: How often it was asked without being offered a tool.
        tools_run: How often a tool's own code was entered, the finish tools' not counted.
        executed: Those calls: the number of the response that asked for each, and its argument.
    """

    def __init__(self, turns: list[dict[str, Any]]) -> None:
        self._turns = iter(turns)
        self.model_calls = 0
        self.summary_calls = 0
        self.tools_run = 0
        self.executed: list[tuple[int, str]] = []

    def say(self, *, offered: bool) -> dict[str, Any]:
        """The next turn; a text of its own where no tool was `offered`."""
        self.model_calls += 1
        if not offered:
            self.summary_calls += 1
            return {"text": "Summary.", "calls": [], "tokens": [60, 40], "cost": 1.0, "finish_reason": "stop"}
        said = next(self._turns, None)
        if said is None:
            raise ScriptOver
        return said

    def look(self, what: str) -> str:
        """The tool that answers."""
        self.ran(what)
        return f"seen {what}"

    def fail(self, what: str, error: type[Exception] = RuntimeError) -> str:
        """The tool that raises; `error` is the package's own for what the model should hear of."""
        self.ran(what)
        raise error(what)

    def ran(self, what: str) -> None:
        """Count a call of a tool."""
        self.tools_run += 1
        self.executed.append((self.model_calls, what))


def serve(
    package: str,
    play: Callable[[Script, dict[str, Any]], str],
    run_exported: Callable[[Script, str], bool] | None = None,
) -> None:
    """Play every scenario on standard input; write the version and the observations to standard output.

    Args:
        package: The distribution, for its version.
        play: Plays a script under settings, and returns the harness's own word for the end. What it raises is an end
            too: the class of the exception.
        run_exported: Plays a script under a text that boolab exported, and returns whether the run finished by itself.
            What it raises is an end by a limit.
    """
    observations = []
    with contextlib.redirect_stdout(sys.stderr):
        for scenario in json.load(sys.stdin):
            script = Script(scenario["script"])
            if "code" in scenario and run_exported is not None:
                if scenario["root"] not in sys.path:
                    sys.path.append(scenario["root"])  # boolab, for the limits that its monitor sets
                observations.append(_exported(script, scenario, run_exported))
                continue
            try:
                end = play(script, scenario["settings"])
            except ScriptOver:
                end = "script over"
            except Exception as error:  # noqa: BLE001 - how a harness ends is what is observed
                print(f"{scenario['name']}: {type(error).__name__}: {error}", file=sys.stderr)
                end = type(error).__name__
            observations.append(
                {
                    "model_calls": script.model_calls,
                    "tools_run": script.tools_run,
                    "summary_calls": script.summary_calls,
                    "end": end,
                }
            )
    json.dump({"version": importlib.metadata.version(package), "observations": observations}, sys.stdout)


def _exported(script: Script, scenario: dict[str, Any], play: Callable[[Script, str], bool]) -> dict[str, Any]:
    """What a run under an exported text did: the steps whose calls were executed, or that ended it by themselves."""
    end = ""
    try:
        finished = play(script, scenario["code"])
    except ScriptOver:
        finished, end = False, "script over"
    except Exception as error:  # noqa: BLE001 - how a harness ends is what is observed
        print(f"{scenario['name']}: {type(error).__name__}: {error}", file=sys.stderr)
        finished, end = False, type(error).__name__
    steps = len({step for step, _ in script.executed}) + finished
    calls = sorted(what for _, what in script.executed)
    return {"steps": steps, "calls": calls, "responses": script.model_calls, "end": end or "finished" * finished}
