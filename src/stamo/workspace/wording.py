"""Texts for people: a mention in its context, cut between words; numbers; what a terminal shows."""

from __future__ import annotations

import unicodedata
from typing import NamedTuple

_UNSAFE = frozenset({"Cc", "Cf", "Cs"})
"""Control characters, invisible marks (also those that turn the direction), lone surrogates."""
_SAFE = frozenset("\n\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}")
"""Line breaks, and the joiners that some scripts write inside words."""


class Snippet(NamedTuple):
    """The text before a mention, the mention, and the text after it."""

    before: str
    surface: str
    after: str


def cut_context(text: str, start: int, end: int, width: int) -> Snippet:
    """Return a mention with at most `width` characters on each side.

    White space of any kind becomes one space; "…" stands for what was cut off.
    """
    before = cut_start(text[max(0, start - width - 1) : start], width)
    after = cut_end(text[end : end + width + 1], width)
    return Snippet(_one_line(before), _one_line(text[start:end]), _one_line(after))


def cut_start(text: str, width: int) -> str:
    """Return the end of a text; "…" stands for what was cut off."""
    end = text[-width:]
    return text if len(text) <= width else "… " + (end.partition(" ")[2] or end)


def cut_end(text: str, width: int) -> str:
    """Return the start of a text; "…" stands for what was cut off."""
    start = text[:width]
    return text if len(text) <= width else (start.rpartition(" ")[0] or start) + " …"


def _one_line(text: str) -> str:
    spaced = " ".join(text.split())
    # A space at either end keeps the mention apart from its neighbours.
    return (" " if text[:1].isspace() else "") + spaced + (" " if text[-1:].isspace() else "")


def printable(text: str) -> str:
    """Return a text that a terminal shows and never obeys: control characters become "�"."""
    if text.isprintable():
        return text
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if unicodedata.category(c) in _UNSAFE and c not in _SAFE else c
        for c in text
    )


def count_of(n: int, noun: str, more: str = "") -> str:
    """Return a number with its noun: "1 entity", "2,000 entities"."""
    many = more or (f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s")
    return f"{n:,} {noun if n == 1 else many}"
