"""The words and signs next to a name: "Dawn French", "Hurricane Sandy", "the Surface Pro"."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from stamo.features.pile import Pile
from stamo.features.surroundings import NextTo
from stamo.features.views.base import Term, View, single_columns, view_mentions
from stamo.kb.base import KnowledgeBase

_FAR = 0.5
"""What the second word counts beside the first."""


@dataclass(frozen=True)
class NextWords(View):
    """Which words stand next to the mention, and of which kind: capitals, digits, signs, (M, V).

    A mention inside a longer name has a capital beside it; whether that speaks for or against the
    entity is learned ("Falcon Heavy" is of the family, "Falcon Crest" is not). The columns are the
    pile's vocabulary; what a pack does not know of still counts in a row's norm.
    """

    name = "neighbours"
    part = "words next to the name"
    has_vocabulary = True

    variance: float = 12.0
    mean: float = 0.0

    def rows(self, pile: Pile, kb: KnowledgeBase) -> sparse.csr_matrix:
        """Mark the words and kinds next to each mention; no columns where the text is not known."""
        if pile.text is None:
            return sparse.csr_matrix((len(pile), 0))
        marks = [_marks(near) for near in pile.text.next_to()]
        vocabulary = pile.vocabulary(self.name, lambda: sorted({m for row in marks for m in row}))
        column = {mark: i for i, mark in enumerate(vocabulary)}
        entries = [
            (row, column[mark], value / norm)
            for row, own in enumerate(marks)
            for norm in (float(np.sqrt(sum(v * v for v in own.values()))),)
            for mark, value in own.items()
            if mark in column
        ]
        rows, columns, values = zip(*entries, strict=True) if entries else ((), (), ())
        shape = (len(marks), len(vocabulary))
        return sparse.csr_matrix((np.array(values, dtype=np.float64), (rows, columns)), shape=shape)

    def terms(self, pile: Pile, kb: KnowledgeBase, row: int) -> list[Term]:
        """Return the words and kinds next to a mention that the pile's vocabulary holds."""
        own = view_mentions(pile, kb, (self,))[self.name][row]
        names = [_read(pile.vocabulary(self.name)[column]) for column in own.indices]
        return [(names[i], one.toarray()[0]) for i, one in enumerate(single_columns(own))]


def _marks(near: NextTo) -> dict[str, float]:
    """Return the marks of one mention with their weights."""
    before, after = ((*side, "", "")[:2] for side in near)
    marks = {
        f"{before[0].casefold()} _": 1.0,
        f"_ {after[0].casefold()}": 1.0,
        f"{before[1].casefold()} . _": _FAR,
        f"_ . {after[1].casefold()}": _FAR,
    }
    for word, shape in ((before[0], "{} _"), (after[0], "_ {}")):
        marks[shape.format(f"<{_kind(word)}>")] = 1.0
    return marks


_KINDS = {
    "<edge>": "nothing",
    "<digit>": "a number",
    "<sign>": "a sign",
    "<Capital>": "a capital",
    "<small>": "a small letter",
    "<letter>": "a letter",
    "": "nothing",
}


def _read(mark: str) -> str:
    """Write a mark as people read it: "heavy _" stands before the name, "_ heavy" after it."""
    where = "before it" if mark.endswith(" _") else "after it"
    word = mark.removesuffix(" _") if mark.endswith(" _") else mark.removeprefix("_ ")
    is_far = word.endswith(" .") if mark.endswith(" _") else word.startswith(". ")
    word = word.removesuffix(" .").removeprefix(". ") if is_far else word
    return f"{_KINDS.get(word, f'“{word}”')} {'two words ' if is_far else ''}{where}"


def _kind(word: str) -> str:
    """Return what sort of a word or sign stands there."""
    if not word:
        return "edge"
    if word[0].isdigit():
        return "digit"
    if not word[0].isalpha():
        return "sign"
    if word[0].isupper():
        return "Capital"
    return "small" if word[0].islower() else "letter"
