"""The kinds of sets: the one place where they are named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

KINDS: Final[Mapping[str, str]] = {
    "coding": "coding",
    "customer-service": "customer service",
    "security": "security",
    "sql": "SQL",
    "games": "games",
    "assistants": "assistants",
    "other": "other",
}
"""The kinds, and what they are called. Folders of hidden sets have these names; `other` is a set of no known kind."""

KIND_OF: Final[Mapping[str, str]] = {
    "intercode-bash": "coding",
    "intercode-python": "coding",
    "swebench-verified": "coding",
    "mini-swebench": "coding",
    "tau-airline": "customer-service",
    "tau2-airline": "customer-service",
    "tau2-retail": "customer-service",
    "tau2-telecom": "customer-service",
    "intercode-ctf": "security",
    "intercode-sql": "sql",
    "balrog-babaisai": "games",
    "balrog-babyai": "games",
    "balrog-minihack": "games",
    "balrog-textworld": "games",
    "multi-swe-bench-java": "coding",
    "sentinel-booking": "assistants",
    "sentinel-faults": "assistants",
}
"""The kind of each public set, those that the atlas's builder makes included."""


def kind_of(set_name: str) -> str:
    """The kind of a public set; `other` for any that is not in the table.

    Example:
        >>> kind_of("tau-airline"), kind_of("mine")
        ('customer-service', 'other')
    """
    return KIND_OF.get(set_name, "other")


def counted(kinds: Iterable[str]) -> str:
    """How many sets of each kind there are, in the order of the table.

    Example:
        >>> counted(["sql", "coding", "coding"])
        '2 coding, 1 SQL'
    """
    counts = Counter(kinds)
    return ", ".join(f"{counts[kind]} {name}" for kind, name in KINDS.items() if counts[kind])
