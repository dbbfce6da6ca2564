"""The text around mentions: the window a reader would look at, and the words next to a name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stamo.system.arrays import Bools, Int32, Int64

_TOKEN = re.compile(r"\w+|[^\w\s]")
_NEAR_CHARACTERS = 60
"""How far the nearest two words on either side of a mention are looked for."""


class Window(NamedTuple):
    """Whole words around a mention, and where the mention stands among them."""

    text: str
    start: int
    end: int


class NextTo(NamedTuple):
    """Words and signs next to a mention, the nearest first; fewer where the text begins or ends."""

    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True)
class Surroundings:
    """Where M mentions stand in the texts of their documents."""

    texts: Sequence[str]
    documents: Int32  # (M,) index into texts
    starts: Int32  # (M,) characters
    ends: Int32  # (M,)

    def take(self, rows: Int64 | Bools) -> Surroundings:
        """Return the surroundings of some mentions."""
        return Surroundings(self.texts, self.documents[rows], self.starts[rows], self.ends[rows])

    def windows(self, n_characters: int) -> list[Window]:
        """Return whole words up to about `n_characters` before and after each mention."""
        found, n = [], n_characters
        for d, start, end in self.places():
            text = self.texts[d]
            first, last = max(0, start - n), min(len(text), end + n)
            while 0 < first < start and not text[first - 1].isspace() and start - first < 2 * n:
                first -= 1
            while end < last < len(text) and not text[last].isspace() and last - end < 2 * n:
                last += 1
            found.append(Window(text[first:last], start - first, end - first))
        return found

    def next_to(self, n: int = 2) -> list[NextTo]:
        """Return the n words or signs before and after each mention."""
        found = []
        for d, start, end in self.places():
            text = self.texts[d]
            before = _TOKEN.findall(text[max(0, start - _NEAR_CHARACTERS) : start])
            after = _TOKEN.findall(text[end : end + _NEAR_CHARACTERS])
            found.append(NextTo(tuple(reversed(before[-n:])), tuple(after[:n])))
        return found

    def places(self) -> Iterator[tuple[int, int, int]]:
        """Yield document, start and end of each mention."""
        return zip(self.documents.tolist(), self.starts.tolist(), self.ends.tolist(), strict=True)
