"""Names around a mention: the entity's whole name ("Katy Perry"), or another ("Perry Farrell")."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from stamo.corpus.tokenizer import tokenize
from stamo.corpus.types import EmergingEntity
from stamo.features.pile import Pile
from stamo.features.surroundings import Surroundings
from stamo.features.views.base import Term, View, view_mentions
from stamo.kb.base import KnowledgeBase
from stamo.system.arrays import Bools, Float64


@dataclass(frozen=True)
class LongerName(View):
    """Whether a longer name is said, two columns, (M, 2).

    The first: the mention is a part of the entity's whole name, or the document says it elsewhere;
    who reads "Katy Perry" knows whom "Perry" means. The second: the mention is a part of a longer
    name that is not the entity's. Both speak before any label does, and labels move both: "Falcon
    Heavy" is of the family, "Falcon Crest" is not.
    """

    name = "longer name"
    part = "longer name"

    variance: float = 4.0
    mean: float = 3.0
    """Log odds of a mention inside the whole name, before any label speaks."""
    elsewhere: float = 0.5
    """What the whole name elsewhere in the document counts beside that."""
    another: float = -0.8
    """What a part of another name counts."""

    def rows(self, pile: Pile, kb: KnowledgeBase) -> Float64:
        """Look for the names; no column where the text is not known."""
        if len(pile.entities) != 1 or pile.text is None:
            return np.zeros((len(pile), 0))
        entity = pile.entities[0]
        said = self._said(entity, pile.text)
        another = _inside_another(entity, pile.text, kb) & (said < 1)
        return np.stack([said, self.another * another], axis=1)

    def terms(self, pile: Pile, kb: KnowledgeBase, row: int) -> list[Term]:
        """Return which of both is said."""
        own = np.asarray(view_mentions(pile, kb, (self,))[self.name][row])
        names = ("its whole name", "part of another name")
        return [(n, part) for n, part in zip(names, np.diag(own), strict=False) if part.any()]

    def _said(self, entity: EmergingEntity, text: Surroundings) -> Float64:
        """Return 1 for a mention inside the name, less where the name stands elsewhere.

        The name is without what stands in brackets; where no alias is shorter, all is 0.
        """
        name = entity.plain_name
        if min(map(len, entity.aliases)) >= len(name):
            return np.zeros(len(text.starts))
        # In any case, with any signs between its words. Scripts without case write particles and
        # prefixes on to a name, so only a letter with case and a digit must not go on into a word.
        ends = (name[0], name[-1])
        first, last = (sign.isdigit() or sign.lower() != sign.upper() for sign in ends)
        before, after = r"(?<!\w)" if first else "", r"(?!\w)" if last else ""
        words = r"\W+".join(map(re.escape, re.findall(r"\w+", name)))
        find = re.compile(before + words + after, re.IGNORECASE)
        spans = {
            d: [match.span() for match in find.finditer(text.texts[d])]
            for d in np.unique(text.documents).tolist()
        }
        return np.array([self._weight(start, end, spans[d]) for d, start, end in text.places()])

    def _weight(self, start: int, end: int, spans: Sequence[tuple[int, int]]) -> float:
        place = bisect(spans, start, key=itemgetter(0)) - 1  # the last that begins before it
        if place >= 0 and end <= spans[place][1]:
            return 1.0
        return self.elsewhere if spans else 0.0


def _inside_another(entity: EmergingEntity, text: Surroundings, kb: KnowledgeBase) -> Bools:
    """Return where a capitalised word that says something stands right beside the mention.

    In a headline in capitals all words have them, so those beside an alias that has none otherwise
    say nothing.
    """
    own = {word.casefold() for word in tokenize(f"{entity.id} {entity.about}")[0]}
    beside = [
        [
            side[0].casefold()
            for side in near
            if side and side[0][0].isupper() and not (is_headline and side[0].isupper())
        ]
        for near, is_headline in zip(text.next_to(1), _in_headlines(entity, text), strict=True)
    ]
    words = sorted({word for near in beside for word in near} - own)
    ids = kb.words.find_many(words)
    silent = (ids >= 0) & (np.asarray(kb.word_weights)[ids] <= 0)
    names = {word for word, is_silent in zip(words, silent.tolist(), strict=True) if not is_silent}
    return np.array([any(word in names for word in near) for near in beside], dtype=bool)


def _in_headlines(entity: EmergingEntity, text: Surroundings) -> list[bool]:
    written = (text.texts[d][start:end] for d, start, end in text.places())
    return [surface.isupper() and surface not in entity.aliases for surface in written]
