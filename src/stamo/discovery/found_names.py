"""The names of a batch of documents: those that detection finds, and capitalised runs of words."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from itertools import compress, pairwise
from typing import NamedTuple

import numpy as np

from stamo.corpus.tokenizer import STOP_WORD_FREQUENCY
from stamo.discovery.spans import SMALL_WORDS, CapitalSpans, capital_spans
from stamo.kb.base import KnowledgeBase
from stamo.kb.names import normalise_surface
from stamo.linking.batches import Located, flatten_joined
from stamo.linking.linker import Linker
from stamo.linking.texts import JoinedTexts
from stamo.system.arrays import Bools, Int32, Int64

FREQUENT_WORD = 1e-4
"""A word above this share of the text that begins a sentence is hardly part of a name."""


class FrequentWords(dict[str, bool]):
    """Whether a word is so frequent that a capital at a sentence's start says nothing."""

    def __init__(self, kb: KnowledgeBase) -> None:
        super().__init__()
        self._kb = kb
        self._total = float(kb.word_counts.sum())
        self._stop_words: dict[str, bool] = {}

    def __missing__(self, word: str) -> bool:
        self[word] = self._share(word) > FREQUENT_WORD
        return self[word]

    def is_stop_word(self, word: str) -> bool:
        """Tell whether a word is so frequent that it says nothing."""
        found = self._stop_words.get(word)
        if found is None:
            found = self._stop_words[word] = self._share(word) > STOP_WORD_FREQUENCY
        return found

    def _share(self, word: str) -> float:
        number = int(self._kb.word_ids([word])[0])
        return float(self._kb.word_counts[number]) / self._total if number >= 0 else 0.0


@dataclass(frozen=True)
class FoundNames:
    """The names of a batch in order."""

    located: Located
    names: list[str]
    aliases: Int32  # (M,) number in the knowledge base, -1 where unknown
    is_capital: Bools  # (M,) is a capitalised run of its own
    is_detected: Bools  # (M,) found by the linker's own detection

    def rows(self, begin: int, end: int) -> DocumentNames:
        """Return the names of one document."""
        located = self.located
        return DocumentNames(
            self.names[begin:end],
            self.aliases[begin:end].tolist(),
            located.starts[begin:end].tolist(),
            located.ends[begin:end].tolist(),
            self.is_capital[begin:end].tolist(),
        )


class DocumentNames(NamedTuple):
    """The names of one document, in order."""

    names: list[str]
    aliases: list[int]
    starts: list[int]
    ends: list[int]
    is_capital: list[bool]


def find_names(
    joined: JoinedTexts, linker: Linker, frequent: FrequentWords, small: Set[str]
) -> FoundNames:
    """Find the names that the linker knows and the capitalised runs that it does not cover.

    Args:
        joined: The texts.
        linker: Knows names.
        frequent: Which words are frequent.
        small: The words that the texts write without a capital.
    """
    detected = linker.detector.detect(joined)
    runs = _trim(joined, capital_spans(joined, frequent), linker.kb, frequent, small)
    starts = joined.starts[runs.first].astype(np.int64)
    ends = joined.ends[runs.last - 1].astype(np.int64)
    # A detected name that holds a run stands for it; inside a longer run it is part of that name.
    place = np.searchsorted(detected.starts, starts, side="right") - 1
    inside = place >= 0
    inside[inside] = detected.ends[place[inside]] >= ends[inside]
    is_capital = np.zeros(len(detected), dtype=np.bool_)
    is_capital[place[inside]] = True
    starts, ends = starts[~inside], ends[~inside]
    free = _outside(detected.starts, detected.ends, starts, ends)
    names = [normalise_surface(joined.text[s:e]) for s, e in zip(starts, ends, strict=True)]
    all_starts = np.concatenate([detected.starts[free], starts])
    all_ends = np.concatenate([detected.ends[free], ends])
    aliases = np.concatenate([detected.aliases[free], linker.kb.alias_ids(names)])
    texts = linker.kb.aliases(detected.aliases[free]) + names
    order = np.argsort(all_starts, kind="stable")
    texts = [texts[i] for i in order.tolist()]
    index: dict[str, int] = {}
    numbers = np.array([index.setdefault(name, len(index)) for name in texts], dtype=np.int32)
    corpus = flatten_joined(
        joined, all_starts[order], all_ends[order], numbers, tuple(index), linker.words
    )
    located = Located(
        corpus.documents,
        joined.local(corpus.documents, all_starts[order]),
        joined.local(corpus.documents, all_ends[order]),
        corpus,
    )
    new = np.ones(len(starts), dtype=np.bool_)
    return FoundNames(
        located,
        texts,
        aliases[order].astype(np.int32),
        np.concatenate([is_capital[free], new])[order],
        np.concatenate([np.ones(int(free.sum()), np.bool_), ~new])[order],
    )


def _outside(starts: Int64, ends: Int64, run_starts: Int64, run_ends: Int64) -> Bools:
    """Tell which spans overlap none of the runs; both are in order and free of overlaps."""
    first = np.searchsorted(run_ends, starts, side="right")
    last = np.searchsorted(run_starts, ends, side="left")
    return np.asarray(first >= last)


def _trim(
    joined: JoinedTexts,
    runs: CapitalSpans,
    kb: KnowledgeBase,
    frequent: FrequentWords,
    small: Set[str],
) -> CapitalSpans:
    """Take words from the front of a run that have their capital from the sentence alone.

    So do stop words anywhere ("The", "If"). A single word that begins a sentence is no name that
    could be trusted. What the knowledge base knows as it stands is left alone.
    """
    first, keep = runs.first.copy(), np.ones(len(runs), dtype=np.bool_)
    for i, (begin, end, opens) in enumerate(
        zip(runs.first.tolist(), runs.last.tolist(), runs.opens.tolist(), strict=True)
    ):
        # "(Friday) Does Mira": a bracket may end what stands before a sentence.
        opens = opens or (joined.words[begin] in small and _follows_bracket(joined, begin))
        if end - begin == 1:
            is_stop = frequent.is_stop_word(joined.words[begin])
            keep[i] = not opens and (not is_stop or _is_known(joined, begin, end, kb))
            continue
        word, place = joined.words[begin], begin
        # "Users of Mira": what begins a sentence before a small word is hardly part of the name.
        if opens and (frequent[word] or word in small or not _has_capital(joined, begin + 1)):
            place += 1
        while place < end and (
            not _has_capital(joined, place) or _is_loose(joined, place, end, kb, frequent)
        ):
            place += 1
        if place == begin or _is_known(joined, begin, end, kb):
            continue
        first[i] = place
        keep[i] = place < end
    return CapitalSpans(first[keep], runs.last[keep], runs.opens[keep])


def _is_loose(
    joined: JoinedTexts, word: int, end: int, kb: KnowledgeBase, frequent: FrequentWords
) -> bool:
    """Tell whether a word in front of a name is a stop word that belongs to no known name.

    "The Colbert Report" loses its first word, "New York Comic Con" does not.
    """
    if not frequent.is_stop_word(joined.words[word]) or _is_known(joined, word, end, kb):
        return False
    is_article = joined.words[word] in ("the", "a", "an")
    return is_article or word + 2 > end or not _is_known(joined, word, word + 2, kb)


def _is_known(joined: JoinedTexts, first: int, last: int, kb: KnowledgeBase) -> bool:
    return kb.alias_id(joined.text[joined.starts[first] : joined.ends[last - 1]]) >= 0


def _follows_bracket(joined: JoinedTexts, word: int) -> bool:
    start = int(joined.starts[word])
    return joined.text[max(0, start - 2) : start] == ") "


def _has_capital(joined: JoinedTexts, word: int) -> bool:
    place = joined.starts[word]
    return bool(joined.codes[place] != joined.lowered[place])


def small_words(joined: JoinedTexts) -> list[set[str]]:
    """Return the words that each text writes without a capital."""
    is_small = (joined.codes[joined.starts] == joined.lowered[joined.starts]).tolist()
    edges = np.searchsorted(joined.starts, joined.offsets).tolist()
    return [
        set(compress(joined.words[begin:end], is_small[begin:end]))
        for begin, end in pairwise(edges)
    ]


def full_names(names: Sequence[str], aliases: Sequence[int]) -> dict[str, str]:
    """Map short names of a document to the full names that it uses too.

    "Snowden" is short for "Edward Snowden", "Falcon" for "Falcon 9": the last words of a longer
    name, or the first ones of a name that is unknown ("Planck" is not short for "Planck Length").
    Of several the most frequent one counts, then the first.

    Args:
        names: The names of all mentions, in the order of the text.
        aliases: Their numbers in the knowledge base, -1 for unknown ones.
    """
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    alias_by_name = dict(zip(names, aliases, strict=True))
    longer: dict[str, str] = {}
    for name in counts:
        words = name.split(" ")
        if any(word[:1].islower() and word not in SMALL_WORDS for word in words):
            continue
        for i in range(1, len(words)):
            ends = [" ".join(words[i:])]
            ends += [" ".join(words[:i])] if alias_by_name[name] < 0 else []
            for part in ends:
                if part in counts and (part not in longer or counts[name] > counts[longer[part]]):
                    longer[part] = name
    resolved = {}
    for short in longer:
        full = short
        while full in longer:
            full = longer[full]
        resolved[short] = full
    return resolved
