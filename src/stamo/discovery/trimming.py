"""Takes words from the front of capitalised runs whose capital is only the sentence's."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import NamedTuple

import numpy as np

from stamo.discovery.spans import CapitalSpans
from stamo.kb.base import KnowledgeBase
from stamo.kb.word_weights import STOP_WORD_FREQUENCY
from stamo.linking.texts import JoinedTexts
from stamo.system.arrays import Bools, Int64

FREQUENT_WORD = 1e-4
"""A word above this share of the text that begins a sentence is hardly part of a name."""
_ARTICLES = frozenset({"the", "a", "an"})


class FrequentWords(NamedTuple):
    """The words whose capital may say nothing."""

    frequent: frozenset[str]
    """At a sentence's start."""
    stop_words: frozenset[str]
    """Anywhere."""

    @classmethod
    def of(cls, kb: KnowledgeBase) -> FrequentWords:
        """Let the counts of a knowledge base decide."""
        shares = kb.word_counts / float(kb.word_counts.sum())
        above = (np.flatnonzero(shares > share) for share in (FREQUENT_WORD, STOP_WORD_FREQUENCY))
        return cls(*(frozenset(kb.words.texts(numbers)) for numbers in above))


def trim(
    joined: JoinedTexts,
    runs: CapitalSpans,
    kb: KnowledgeBase,
    words: FrequentWords,
    small: Set[str],
) -> CapitalSpans:
    """Take words from the front of a run that have their capital from the sentence alone.

    So do stop words anywhere ("The", "If"). A single word that begins a sentence is no name that
    could be trusted. What the knowledge base knows as it stands is left alone.

    Args:
        joined: The texts.
        runs: The runs.
        kb: Knows names.
        words: Which words are frequent.
        small: The words that the texts write without a capital.
    """
    first, single = runs.first.copy(), runs.last - runs.first == 1
    begins = list(map(joined.words.__getitem__, first.tolist()))
    is_stop = np.fromiter(map(words.stop_words.__contains__, begins), np.bool_, len(runs))
    maybe = runs.opens | _follows_bracket(joined, runs)
    is_small = _is_one_of(begins, small, maybe)
    # "(Friday) Does Mira": a bracket may end what stands before a sentence.
    opens = runs.opens | (maybe & is_small)
    keep = ~single | ~(opens | is_stop)
    rows = np.flatnonzero(single & is_stop & ~opens)
    keep[rows] = _are_known(joined, first[rows], runs.last[rows], kb)
    # "Users of Mira": what begins a sentence before a small word is hardly part of the name.
    goes_on = joined.is_raised[np.minimum(first + 1, len(joined.words) - 1)]
    is_cut = opens & (is_small | ~goes_on | _is_one_of(begins, words.frequent, opens & ~single))
    rows = np.flatnonzero(~single & (is_cut | is_stop))
    rows = rows[~_are_known(joined, first[rows], runs.last[rows], kb)]
    for i in rows.tolist():
        begin, end = int(first[i]), int(runs.last[i])
        place = _first_name_word(joined, begin + int(is_cut[i]), end, kb, words.stop_words)
        first[i], keep[i] = place, place < end
    return CapitalSpans(first[keep], runs.last[keep], runs.opens[keep])


def _is_one_of(words: Sequence[str], wanted: Set[str], is_asked: Bools) -> Bools:
    """Tell which of the words that are asked for are wanted ones."""
    found = np.zeros(len(words), dtype=np.bool_)
    found[[i for i in np.flatnonzero(is_asked).tolist() if words[i] in wanted]] = True
    return found


def _first_name_word(
    joined: JoinedTexts, place: int, end: int, kb: KnowledgeBase, stop_words: Set[str]
) -> int:
    """Return the first word from `place` on that has a capital of its own, `end` for none."""
    while place < end and (
        not joined.is_raised[place] or _is_loose(joined, place, end, kb, stop_words)
    ):
        place += 1
    return place


def _is_loose(
    joined: JoinedTexts, word: int, end: int, kb: KnowledgeBase, stop_words: Set[str]
) -> bool:
    """Tell whether a word in front of a name is a stop word that belongs to no known name.

    "The Colbert Report" loses its first word, "New York Comic Con" does not.
    """
    if joined.words[word] not in stop_words or _is_known(joined, word, end, kb):
        return False
    if joined.words[word] in _ARTICLES or word + 2 > end:
        return True
    return not _is_known(joined, word, word + 2, kb)


def _are_known(joined: JoinedTexts, first: Int64, last: Int64, kb: KnowledgeBase) -> Bools:
    spans = zip(joined.starts[first].tolist(), joined.ends[last - 1].tolist(), strict=True)
    return np.asarray(kb.alias_ids([joined.text[start:end] for start, end in spans]) >= 0)


def _is_known(joined: JoinedTexts, first: int, last: int, kb: KnowledgeBase) -> bool:
    return kb.alias_id(joined.text[joined.starts[first] : joined.ends[last - 1]]) >= 0


def _follows_bracket(joined: JoinedTexts, runs: CapitalSpans) -> Bools:
    places = joined.starts[runs.first]
    before = joined.codes.take(places - 1, mode="clip"), joined.codes.take(places - 2, mode="clip")
    return np.asarray((before[0] == ord(" ")) & (before[1] == ord(")")) & (places > 1))
