"""Names of new entities in headlines: KEPLER FINDS A PLANET speaks of Kepler.

A single word in capitals inside of other text is mostly an abbreviation (the CLOUD experiment), so
a name of one word must stand among other words in capitals; in capitals a common word does not
look like a name, so one that is a common word too is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from stamo.corpus.tokenizer import lower
from stamo.kb.base import KnowledgeBase

MIN_OTHER_WORDS = 2
"""Words in capitals beside a name of one word."""
COMMON_COUNT = 100
"""Times that a word is written in the articles, in any case, to be a common one."""
LEAST_NAMED = 0.1
"""Articles that have it as a name, for each of these times, of a word that is mostly a name."""
_NEAR = 100
_WORDS_BEFORE = re.compile(r"(?:[^\W\d_]+['’-]?[ \t]+)*\Z")
_WORDS_AFTER = re.compile(r"(?:['’][^\W\d_]+)?(?:[ \t]+[^\W\d_]+)*")


class CapitalNames:
    """Tells which names may be meant by words in capitals.

    Args:
        aliases: The names.
        kb: Knows which words are common, and which words in capitals are names of their own.
    """

    def __init__(self, aliases: Sequence[str], kb: KnowledgeBase) -> None:
        fit = [a for a in aliases if a != a.upper() and _is_fit(a, kb)]
        self._name_by_capitals = {alias.upper(): alias for alias in fit}
        self.surfaces = frozenset(self._name_by_capitals)
        """The names in capitals."""

    def name_of(self, surface: str, text: str, start: int, end: int) -> str:
        """Return the name that a mention in capitals is one of, else the mention's own text."""
        name = self._name_by_capitals.get(surface, surface)
        if name == surface or " " in name or _n_beside(text, start, end) >= MIN_OTHER_WORDS:
            return name
        return surface


def _is_fit(alias: str, kb: KnowledgeBase) -> bool:
    known, small, raised = kb.alias_ids([alias, lower(alias), alias.upper()]).tolist()
    if raised >= 0 and kb.alias_counts[raised]:
        return False
    if " " in alias:
        return True
    (word,) = kb.word_ids([lower(alias)]).tolist() if kb.dimensions else (-1,)
    count = int(kb.word_counts[word]) if word >= 0 else 0
    n_documents = int(kb.alias_documents[known]) if known >= 0 else 0
    is_common = count >= COMMON_COUNT and n_documents < LEAST_NAMED * count
    return small < 0 and not is_common


def _n_beside(text: str, start: int, end: int) -> int:
    """Count the words in capitals right before and behind a place, of at least two letters."""
    before = _WORDS_BEFORE.search(text, max(start - _NEAR, 0), start)
    behind = _WORDS_AFTER.match(text, end, end + _NEAR)
    n = 0
    for words in (before[0].split()[::-1] if before else [], behind[0].split() if behind else []):
        for word in words:
            if not word.isupper():
                break
            n += len(word) > 1
    return n
