"""Numbers in sentences."""

from __future__ import annotations


def count_of(n: int, noun: str, more: str = "") -> str:
    """Return a number with its noun: "1 entity", "2,000 entities"."""
    many = more or (f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s")
    return f"{n:,} {noun if n == 1 else many}"
