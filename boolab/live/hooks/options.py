"""What a hook is started with: the limits, and what happens at them."""

from __future__ import annotations

# Not read from the table of limits: with what that imports, the process of the hook takes twice as long.
NUMBERS = ("max_steps", "tool_budget", "doom_loop", "error_streak", "max_time")
"""The limits of a hook. Events carry no tokens, so there are none on tokens and cost."""
ACTIONS = ("stop", "nudge", "shadow")


class Options:
    """The limits of a hook, and what happens at them. Not validated: `monitor` does that.

    `limits`: the limits that are on, by their names in `NUMBERS`; `max_time` in seconds. `action`: `stop`: the model is
    asked to stop, and more calls are denied; `nudge`: it is informed that a limit is reached; `shadow`: it is only
    logged. `scope`: whether the counts start again with each message of the user (`turn`) or never (`run`).
    """

    __slots__ = ("action", "exempt", "identity", "limits", "scope")

    def __init__(
        self,
        limits: dict[str, float],
        action: str = "stop",
        identity: str = "canonical",
        exempt: tuple[str, ...] = (),
        scope: str = "turn",
    ) -> None:
        self.limits = limits
        self.action = action
        self.identity = identity
        self.exempt = exempt
        self.scope = scope

    @classmethod
    def parse(cls, words: list[str]) -> Options:
        """The options of a command line, without argparse: it would take as long as Python takes to start."""
        options = cls({})
        exempt: list[str] = []
        rest = iter(words)
        for word in rest:
            name, equals, value = word.partition("=")
            if name in ("--shadow", "--nudge") and not equals:
                options.action = name[2:]
                continue
            if not equals:
                value = next(rest, "")
            if (limit := name[2:].replace("-", "_")) in NUMBERS and name.startswith("--"):
                options.limits[limit] = float(value) if limit == "max_time" else int(value)
            elif name == "--exempt":
                exempt.append(value)
            elif name == "--identity":
                options.identity = value
            elif name == "--scope":
                options.scope = value
            else:
                raise ValueError(f"{word!r:.80} is no option of the hook")
        options.exempt = tuple(exempt)
        return options

    def words(self) -> list[str]:
        """The options as arguments of a command line, in one order."""
        words: list[str] = []
        for name in NUMBERS:
            if name in self.limits:
                words += [f"--{name.replace('_', '-')}", f"{self.limits[name]:.12g}"]
        if self.identity != "canonical":
            words += ["--identity", self.identity]
        for tool in self.exempt:
            words += [f"--exempt={tool}"] if tool.startswith("-") else ["--exempt", tool]
        if self.scope != "turn":
            words += ["--scope", self.scope]
        return words if self.action == "stop" else [*words, f"--{self.action}"]

    def __str__(self) -> str:
        return " ".join(self.words())
