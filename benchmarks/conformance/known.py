"""Differences that are known and left: by package and scenario, each with its reason.

A difference that is not here fails the comparison, and so does one that is here and no longer is one.
"""

from __future__ import annotations

from typing import Final

KNOWN: Final[dict[tuple[str, str], str]] = {
    ("smolagents", "cap 0"): (
        "a fault of the package: it asks for the wrap-up, then fails on a variable that no step has set"
    ),
}

_BATCH: Final = (
    "a batch that would exceed the budget is dropped, and the run stops there; boolab's rule runs the whole batch"
)
_ANSWER: Final = "the budget is evaluated at the next call, so an answer still comes; boolab's rule stops before it"
_ABOVE: Final = "the response that exceeds the budget is dropped; boolab's rule runs its calls, then stops"

EXPORTED: Final[dict[tuple[str, str], str]] = {
    **{
        (target, f"tool_budget={n}, {name}"): reason
        for target in ("langchain", "pydantic-ai")
        for n, name, reason in (
            *((n, "two calls a step", _BATCH) for n in (3, 9)),
            *((n, f"finishes after {n} calls", _ANSWER) for n in (3, 6, 9)),
        )
    },
    **{
        (target, f"{limit}, one call a step"): _ABOVE
        for target in ("pydantic-ai", "inspect")
        for limit in (
            *(f"max_tokens={tokens}" for tokens in (75, 275, 975)),
            *(f"max_cost={dollars}" for dollars in (0.75, 2.75, 9.75)),
        )
    },
}
"""Differences between an exported limit and boolab's rule: by target and case of `exported.py`, each with its reason.

All of them are differences of the preset as well, which stops where the package does.
"""
