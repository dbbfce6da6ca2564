"""Names that a document repeats in short: "Federer" after "Roger Federer".

By themselves such words are seldom links, so nobody would look for them. After the full name in the
same document they are found: the last word where the knowledge base has no other name of this form,
or links it to the same entity; initials ("GM") only where it links them so. Beside another word
with a capital they are part of another name: "Laura Bush" is nobody called "George Bush" before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from stamo.features.encoding import Lexicon
from stamo.kb.base import KnowledgeBase
from stamo.linking.haystack import begins_sentence
from stamo.linking.short_names import is_own_title
from stamo.linking.surfaces import MAX_REMEMBERED, TITLES
from stamo.linking.texts import Detected, JoinedTexts
from stamo.system.arrays import Bools, Int64

MIN_WORD = 3
MAX_FULL_WORDS = 4
"""Longer names are titles of works and offices, whose last word is short for nothing."""
_JOINS = frozenset(" -&/'’")


@dataclass(eq=False)
class RepeatedNames:
    """Finds short forms of names that stand before them in the same document."""

    kb: KnowledgeBase
    _forms: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """What may be short for each alias that was met."""

    def add_to(self, joined: JoinedTexts, found: Detected) -> Detected:
        """Find short forms outside the mentions that were found already; return all in order."""
        full: dict[str, list[int]] = defaultdict(list)
        present = np.unique(found.aliases[found.aliases >= 0]).tolist()
        if len(self._forms) > MAX_REMEMBERED:
            self._forms.clear()
        self._decide([alias for alias in present if alias not in self._forms])
        for alias in present:
            for form in self._forms[alias]:
                full[form].append(alias)
        small = {form.lower() for form in full}
        capital = np.flatnonzero(joined.is_raised)
        before = np.searchsorted(found.starts, joined.starts[capital], side="right") - 1
        reached = np.append(found.ends, 0)[before]  # 0 where nothing was found before
        outside = capital[reached <= joined.starts[capital]].tolist()
        words = joined.words
        hits = np.array([i for i in outside if words[i] in small], dtype=np.int64)
        if not len(hits):
            return found
        hits = hits[self._stands_alone(joined, hits)]
        rows = list(_after_full_names(joined, hits, full, found))
        starts, ends, aliases = np.array(rows, dtype=np.int64).reshape(-1, 3).T
        none = np.full(len(rows), -1, np.int32)
        every = Detected.join([found, Detected(starts, ends, aliases.astype(np.int32), none)])
        return every.take(np.argsort(every.starts, kind="stable"))

    def _decide(self, aliases: list[int]) -> None:
        """Find out, many names at a time, what may be short for them.

        A form that is a name itself must be linked to what the full name means, and not be the
        title of what it means most often.
        """
        kb = self.kb
        pairs = [
            (alias, form)
            for alias, name in zip(aliases, kb.aliases(aliases), strict=True)
            for form in last_word_and_initials(name)
        ]
        self._forms.update(dict.fromkeys(aliases, ()))
        full = np.array([alias for alias, _ in pairs], dtype=np.int64)
        short = kb.alias_ids([form for _, form in pairs])
        meant, first = (kb.by_alias.batch(names, 1)[0][:, 0] for names in (full, short))
        linked = (short >= 0) & (kb.by_alias.counts(short, meant) > 0)
        titles = dict(zip(first[linked].tolist(), kb.titles(first[linked]), strict=True))
        rows = zip(pairs, short.tolist(), linked.tolist(), first.tolist(), strict=True)
        for (alias, form), own, is_linked, e in rows:
            unknown = own < 0 and not form.isupper()
            if unknown or (is_linked and not is_own_title(form, titles[e])):
                self._forms[alias] += (form,)

    def _stands_alone(self, joined: JoinedTexts, words: Int64) -> Bools:
        """Tell which words with a capital are no part of a longer name."""
        alone = np.ones(len(words), dtype=np.bool_)
        begins: Bools | None = None
        for row, i in enumerate(words.tolist()):
            after = _is_beside(joined, i, i + 1, i + 1)
            before = _is_beside(joined, i - 1, i, i - 1)
            if before and joined.words[i - 1] in TITLES:
                before = False
            elif before and self._is_common(joined.words[i - 1]):
                begins = begins_sentence(joined) if begins is None else begins
                before = not begins[i - 1]
            alone[row] = not after and not before
        return alone

    @cached_property
    def _lexicon(self) -> Lexicon:
        return Lexicon.of(self.kb)

    def _is_common(self, word: str) -> bool:
        found = self._lexicon.words.find(word)
        return found >= 0 and bool(self._lexicon.is_stop_word[found])


def last_word_and_initials(name: str) -> Iterator[str]:
    """Yield what a name of several words with capitals may be repeated as."""
    words = name.split(" ") if " " in name else ()
    if not 2 <= len(words) <= MAX_FULL_WORDS or not all([word[:1].isupper() for word in words]):
        return
    last, initials = words[-1], "".join([word[0] for word in words])
    if len(last) >= MIN_WORD and last.isalpha() and not last.isupper():
        yield last
    if initials.isalpha():
        yield initials


def _is_beside(joined: JoinedTexts, left: int, right: int, other: int) -> bool:
    """Tell whether one sign joins two words, the other of which has a capital."""
    if left < 0 or right >= len(joined.words):
        return False
    start = joined.starts[other]
    is_capital = bool(joined.codes[start] != joined.lowered[start])
    return is_capital and joined.text[joined.ends[left] : joined.starts[right]] in _JOINS


def _after_full_names(
    joined: JoinedTexts, words: Int64, full: dict[str, list[int]], found: Detected
) -> Iterator[tuple[int, int, int]]:
    """Yield the words that follow a full name in their document, with the nearest one's alias."""
    places: dict[int, Int64] = {}
    first = joined.offsets[joined.document_of(joined.starts[words])]
    for i, begin in zip(words.tolist(), first.tolist(), strict=True):
        start, end = int(joined.starts[i]), int(joined.ends[i])
        nearest = (-1, -1)
        for alias in full.get(joined.text[start:end], ()):
            if alias not in places:
                places[alias] = found.starts[found.aliases == alias]
            at = int(np.searchsorted(places[alias], start)) - 1
            if at >= 0 and places[alias][at] >= begin:
                nearest = max(nearest, (int(places[alias][at]), alias))
        if nearest[1] >= 0:
            yield start, end, nearest[1]
