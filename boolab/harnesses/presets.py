"""The presets: known harnesses, each as one `Policy`.

A preset has the harness's own defaults, without a user's settings. They come from its source or documentation, or from
a measurement of its released package; `source` names the place, and the version if versions differ.
`docs/conformance.md` lists the presets that were compared with the released packages.

No preset has what does not affect when a run stops: prompts, retries of failed requests, sandboxes, approval of single
commands, checks by a second model (Gemini CLI's from turn 30 on).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Final

from boolab.core.displayable import Displayable
from boolab.core.types import Identities
from boolab.display.document import Document, Table
from boolab.errors import SettingError, near
from boolab.harnesses.groups import About, Cap, Finish, LastStep
from boolab.harnesses.policy import Policy
from boolab.harnesses.registry import PRESETS, harness
from boolab.io.checks import is_whole, repr_of
from boolab.limits.call_identity import exclude_tools
from boolab.limits.stop import StopRule
from boolab.limits.table import describe_limits


@cache
def _preset(name: str) -> Policy:
    return next(policy for policy in harness(PRESETS[name]).presets if policy.name == name)


class Presets(Displayable, Mapping[str, Policy]):
    """Policies by name, with a display that can be read. The module of a harness is imported when it is asked for."""

    def __getitem__(self, name: str) -> Policy:
        return _preset(name)

    def __contains__(self, name: object) -> bool:
        return name in PRESETS

    def __iter__(self) -> Iterator[str]:
        return iter(PRESETS)

    def __len__(self) -> int:
        return len(PRESETS)

    def __repr__(self) -> str:
        return f"<{len(self)} policies: {', '.join(self)}>"

    def _document_(self) -> Document:
        rows = [
            (
                name,
                ", ".join(describe_limits(policy.effective({}), policy.cap.ceiling)),
                policy.about.finish_guard,
                policy.about.weakness,
            )
            for name, policy in self.items()
        ]
        columns = ("policy", "limits, where the agent sets none", "finish guard", "weakness")
        footer = "bl.compare_policies(name, name) shows all that differs"
        return Document(table=Table(columns, rows), footer=footer, card=True)


policies: Final = Presets()
"""The presets by name, as `bl.policies`; docs/harnesses.md compares them."""


def get_policy(policy: str | Policy) -> Policy:
    """The policy itself, or the preset with that name; a `SettingError` if there is none."""
    if isinstance(policy, Policy):
        return policy
    if isinstance(policy, str) and policy in policies:
        return policies[policy]
    raise SettingError(f"there is no policy {policy!r}{near(policy, sorted(policies), 'presets', every=True)}")


def identity_under(
    policy: Policy | str | None, identity: Identities | None, exempt: Iterable[str] = ()
) -> Identities | None:
    """The identity of calls without the exempt tools; without an identity, that of the policy, or `canonical`."""
    if not exempt:
        return identity
    return exclude_tools(identity or (get_policy(policy).detectors.identity if policy else "canonical"), exempt)


def fixed_turns(n: int, *, reminder: bool = True) -> Policy:
    """A limit on turns; every request reminds the model of the turns that are left.

    Source: arXiv 2510.16786. It caps runs at the 25th, 50th or 75th percentile of the turns of unlimited runs; the cap
    at the 75th percentile saves 24 to 68% of the cost with little loss of success.

    Args:
        n: The cap on steps, at least 1.
        reminder: Whether the model gets reminders. What it does with them, a recording without them does not show.

    Returns:
        The policy.

    Raises:
        SettingError: if n is not an integer >= 1.

    Example:
        >>> import boolab as bl
        >>> bl.fixed_turns(20).last_step.reminder
        'turns_left'
    """
    return Policy(
        name=f"fixed_turns({_check_positive('fixed_turns', n)}{'' if reminder else ', reminder=False'})",
        about=About(
            source=f"arXiv 2510.16786: fixed turn limits, with{'' if reminder else 'out'} a reminder of the turns left",
            loop_style="while under the cap",
            finish_guard="a response without tool calls, or task_done",
            weakness="one cap for easy and hard tasks",
        ),
        cap=Cap(max_steps=n, zero="invalid"),
        last_step=LastStep(reminder="turns_left" if reminder else "none"),
        finish=Finish(tools=("task_done",)),
    )


def dynamic_turns(n: int, extend: int, *, unless: StopRule | None = None, reminder: bool = True) -> Policy:
    """A limit on turns that is extended once, for the runs that need it.

    When a run reaches the cap and `unless` is false, the cap grows by `extend` and the model gets a message. The second
    time the cap ends the run. Source: arXiv 2510.16786, which saves another 12 to 24% over a fixed limit. The paper
    gives no values for the two limits: choose them with `bl.counterfactual`. The condition is not the paper's, in which
    every run that has not finished is extended.

    With `reminder=False` the model gets no message and no reminder of the turns left. Then recordings show what these
    limits do. Without a condition they do the same as a cap of `n + extend`.

    Args:
        n: The first cap on steps, at least 1.
        extend: The number of steps by which it grows, at least 1.
        unless: A stop rule: a run for which it is true at the first cap is not extended.
        reminder: Whether the model gets reminders, and a message when the cap grows.

    Returns:
        The policy.

    Raises:
        SettingError: if one of the limits is not an integer >= 1, or `unless` is not a rule.

    Example:
        >>> import boolab as bl
        >>> bl.dynamic_turns(20, 10).continues.adds
        10
        >>> look = {"tool_calls": [{"name": "ls"}], "repeat": 4}
        >>> run = bl.run_sync(None, "Look", model=bl.ScriptedModel([look, "Done."]), stop=bl.max_steps(9))
        >>> limits = bl.dynamic_turns(2, 2, unless=bl.doom_loop(3), reminder=False)
        >>> bl.counterfactual(run, policy=limits)[["outcome", "stop_step", "stop_reason"]].values.tolist()
        [['truncated', 4, 'step_cap']]
    """
    fixed = fixed_turns(n, reminder=reminder)
    options = ("" if unless is None else f", unless={unless}") + ("" if reminder else ", reminder=False")
    return fixed.vary(
        name=f"dynamic_turns({n}, {_check_positive('dynamic_turns', extend)}{options})",
        about={
            "source": "arXiv 2510.16786: dynamic turn limits",
            "loop_style": "while under a cap that is extended once",
            "weakness": "both limits come from earlier runs",
        },
        continues={"times": 1, "by": "loop", "adds": extend, "message": reminder, "unless": unless},
    )


def _check_positive(function: str, n: object) -> int:
    if not is_whole(n) or n < 1:
        raise SettingError(f"{function}: {repr_of(n)} is not accepted; expected an integer >= 1")
    return n
