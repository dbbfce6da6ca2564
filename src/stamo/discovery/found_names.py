"""The names of a batch of documents: those that detection finds, and capitalised runs of words."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace
from itertools import compress, pairwise

import numpy as np

from stamo.discovery.spans import FrequentWords, capital_spans, trim
from stamo.kb.candidates import normalise_surfaces
from stamo.linking.batches import Located, flatten_joined
from stamo.linking.linker import Linker
from stamo.linking.texts import JoinedTexts
from stamo.system.arrays import Bools, Int32, Int64


@dataclass(frozen=True)
class FoundNames:
    """The M mentions of a batch in order, and their N distinct names."""

    located: Located
    names: list[str]  # N
    aliases: Int32  # (N,) number in the knowledge base, -1 where unknown
    is_capital: Bools  # (M,) is a capitalised run of its own
    is_detected: Bools  # (M,) found by the linker's own detection

    @property
    def documents(self) -> Int32:
        """The document of each mention, (M,)."""
        return self.located.documents

    @property
    def numbers(self) -> Int32:
        """The name of each mention, (M,)."""
        return self.located.corpus.surfaces


def find_names(
    joined: JoinedTexts, linker: Linker, words: FrequentWords, small: Set[str]
) -> FoundNames:
    """Find the names that the linker knows and the capitalised runs that it does not cover.

    Args:
        joined: The texts.
        linker: Knows names.
        words: Which words are frequent.
        small: The words that the texts write without a capital.
    """
    detected = linker.detector.detect(joined)
    runs = trim(joined, capital_spans(joined, words.frequent), linker.kb, words, small)
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
    spans = zip(starts.tolist(), ends.tolist(), strict=True)
    texts = normalise_surfaces([joined.text[start:end] for start, end in spans])
    numbers, names, aliases = _name_table(linker, detected.aliases[free], texts)
    all_starts = np.concatenate([detected.starts[free], starts])
    all_ends = np.concatenate([detected.ends[free], ends])
    order = np.argsort(all_starts, kind="stable")
    all_starts, all_ends, n_free = all_starts[order], all_ends[order], int(free.sum())
    corpus = flatten_joined(
        joined, all_starts, all_ends, numbers[order], tuple(names), linker.words
    )
    documents = corpus.documents
    return FoundNames(
        Located(
            documents,
            joined.local(documents, all_starts),
            joined.local(documents, all_ends),
            replace(corpus, aliases=aliases),
        ),
        names,
        aliases,
        np.concatenate([is_capital[free], np.ones(len(starts), np.bool_)])[order],
        order < n_free,
    )


def _name_table(
    linker: Linker, detected: Int32, texts: list[str]
) -> tuple[Int32, list[str], Int32]:
    """Number the distinct names of detected aliases and of runs.

    Returns:
        The number of each mention's name, the runs last; the names; their aliases.
    """
    used, place = np.unique(detected, return_inverse=True)
    names = linker.kb.aliases(used)
    index = dict(zip(names, range(len(names)), strict=True))
    numbers = [index.setdefault(text, len(index)) for text in texts]
    more = list(index)[len(names) :]
    return (
        np.concatenate([place, np.array(numbers, dtype=np.int64)]).astype(np.int32),
        names + more,
        np.concatenate([used, linker.kb.alias_ids(more)]).astype(np.int32),
    )


def _outside(starts: Int64, ends: Int64, run_starts: Int64, run_ends: Int64) -> Bools:
    """Tell which spans overlap none of the runs; both are in order and free of overlaps."""
    first = np.searchsorted(run_ends, starts, side="right")
    last = np.searchsorted(run_starts, ends, side="left")
    return np.asarray(first >= last)


def small_words(joined: JoinedTexts) -> list[set[str]]:
    """Return the words that each text writes without a capital."""
    is_small = (~joined.is_raised).tolist()
    edges = np.searchsorted(joined.starts, joined.offsets).tolist()
    return [
        set(compress(joined.words[begin:end], is_small[begin:end]))
        for begin, end in pairwise(edges)
    ]
