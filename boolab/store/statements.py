"""Builds SQL statements from the names of tables and columns. Values are bound to question marks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def select(columns: Sequence[str], table: str, where: str = "TRUE", order_by: str = "") -> str:
    """A query for some columns of a table.

    Example:
        >>> select(("id", "cell"), "runs", "state = ?", "id")
        'SELECT id, cell FROM runs WHERE state = ? ORDER BY id'
    """
    parts = ["SELECT", ", ".join(columns), "FROM", table, "WHERE", where]
    return " ".join([*parts, "ORDER BY", order_by] if order_by else parts)


def insert(table: str, columns: Sequence[str]) -> str:
    """Insert a row into a table."""
    return " ".join(["INSERT INTO", table, f"({', '.join(columns)})", "VALUES", marks(len(columns))])


def update(table: str, assignments: Iterable[str], where: str) -> str:
    """Change rows of a table."""
    return " ".join(["UPDATE", table, "SET", ", ".join(assignments), "WHERE", where])


def marks(count: int) -> str:
    """A list of question marks, for so many values."""
    return f"({','.join('?' * count)})"


def numbers(rows: Iterable[int]) -> str:
    """A list of whole numbers, which may be more than SQLite can bind."""
    return f"({','.join(map(str, rows))})"
