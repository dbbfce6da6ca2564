"""A batch of documents as one flat corpus of mentions, without a loop over mentions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from stamo.corpus.reading import ReadChunk, Unreadable
from stamo.corpus.types import Mention
from stamo.features.mentions import UNKNOWN, FlatCorpus, Lexicon
from stamo.linking.names import (
    MAX_REMEMBERED_LENGTH,
    NO_FORMS,
    NameFormFinder,
    known_names,
    mix_surfaces,
)
from stamo.linking.texts import Detected, JoinedTexts
from stamo.system.files import Int32, Int64

MAX_CACHED_WORDS = 250_000
"""Words whose ids are remembered, of some hundred bytes each: not those that are longer than names,
for what a page holds besides text (keys, images) is one word of any length."""


@dataclass(frozen=True)
class Located:
    """The mentions of a batch, ordered by document and start."""

    documents: Int32  # (M,) index of the document in the batch
    starts: Int32  # (M,) places in the document
    ends: Int32  # (M,)
    corpus: FlatCorpus


@dataclass(eq=False, repr=False)
class ContentWords(dict[str, int]):
    """Word ids by word, -1 for unknown words and stop words; remembers what it has looked up."""

    lexicon: Lexicon

    def __missing__(self, word: str) -> int:
        found = self.lexicon.words.find(word)
        if found >= 0 and self.lexicon.is_stop_word[found]:
            found = UNKNOWN
        if len(self) < MAX_CACHED_WORDS and len(word) <= MAX_REMEMBERED_LENGTH:
            self[word] = found
        return found


def fault_of(source: ReadChunk) -> str | None:
    """Say why a part cannot be linked, if so.

    It could not be read, or the mentions that it brings overlap or show another text than stands
    there.
    """
    if isinstance(source, Unreadable):
        return source.error
    document = source.document
    ordered = sorted(document.mentions, key=lambda m: (m.start, m.end))
    for left, right in pairwise(ordered):
        if right.start < left.end:
            return (
                f"Document {document.id!r} has overlapping mentions at {left.start}-{left.end} and "
                f"{right.start}-{right.end}; give mentions that do not overlap."
            )
    for mention in ordered:
        text = document.text[mention.start : mention.end]
        if mention.surface != text:
            return (
                f"Document {document.id!r} has a mention {mention.surface!r} at {mention.start}-"
                f"{mention.end}, where its text says {text!r}; count the offsets in characters."
            )
    return None


def join_found(joined: JoinedTexts, found: Sequence[Detected]) -> Detected:
    """Join what was found in each text; places become those of the joined texts."""
    return Detected.join(
        [
            replace(some, starts=joined.joined(i, some.starts), ends=joined.joined(i, some.ends))
            for i, some in enumerate(found)
        ]
    )


def split_found(joined: JoinedTexts, found: Detected, n_documents: int) -> list[Detected]:
    """Divide what was found in joined texts among them; places become those of each text."""
    documents = joined.document_of(found.starts)
    local = replace(
        found,
        starts=joined.local(documents, found.starts).astype(np.int64),
        ends=joined.local(documents, found.ends).astype(np.int64),
    )
    edges = np.searchsorted(documents, np.arange(n_documents + 1)).tolist()
    return [local.take(slice(*edge)) for edge in pairwise(edges)]


def locate(
    joined: JoinedTexts,
    found: Detected,
    forms: NameFormFinder,
    words: ContentWords,
    extras: Sequence[str] = (),
    given: Sequence[tuple[int, Sequence[Mention]]] = (),
    fixed: frozenset[str] = frozenset(),
) -> Located:
    """Flatten a batch with its mentions.

    Args:
        joined: The texts.
        found: The mentions that were detected.
        forms: Finds other forms of given names.
        words: The vocabulary.
        extras: The extra aliases of the detector.
        given: Documents that bring their mentions, by number.
        fixed: Names whose candidates are those of the knowledge base and no others.
    """
    kb = forms.kb
    starts, ends, surfaces = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], list[str]()
    for i, mentions in given:
        spans = np.array([(m.start, m.end) for m in mentions], dtype=np.int32)
        starts.append(joined.joined(i, spans[:, 0]))
        ends.append(joined.joined(i, spans[:, 1]))
        surfaces += [m.surface for m in mentions]
    # The distinct names of all mentions are numbered, given ones first.
    index: dict[str, int] = {}
    distinct = list(dict.fromkeys(surfaces))
    name_of_given = dict(zip(distinct, known_names(kb, distinct) if distinct else (), strict=True))
    given_numbers = [index.setdefault(name_of_given[s], len(index)) for s in surfaces]
    n_given = len(index)
    # Names known to the knowledge base are told apart by alias, the others by extra alias.
    keys = np.where(found.aliases >= 0, found.aliases, -1 - found.extras)
    used, place = np.unique(keys, return_inverse=True)
    texts = [extras[-1 - key] for key in used[used < 0].tolist()] + kb.aliases(used[used >= 0])
    number_by_key = np.array([index.setdefault(name, len(index)) for name in texts], np.int32)
    numbers = np.append(np.array(given_numbers, np.int32), number_by_key[place])
    names = tuple(index)
    aliases = np.full(len(names), UNKNOWN, dtype=np.int32)
    aliases[number_by_key] = np.maximum(used, UNKNOWN)  # detection knows them already
    if n_given:
        aliases[:n_given] = kb.alias_ids(names[:n_given])
    related = forms.of(names[:n_given], fixed) if n_given else NO_FORMS
    begin, end = np.concatenate([*starts, found.starts]), np.concatenate([*ends, found.ends])
    numbers, name_of, mixed = mix_surfaces(
        kb, names, aliases, joined.document_of(begin), numbers, related, fixed
    )
    order = np.argsort(begin, kind="stable")
    begin, end = begin[order], end[order]
    table = tuple(map(names.__getitem__, name_of.tolist()))
    corpus = flatten_joined(joined, begin, end, numbers[order], table, words)
    corpus = replace(corpus, aliases=aliases[name_of], mixed=mixed)
    documents = corpus.documents
    return Located(documents, joined.local(documents, begin), joined.local(documents, end), corpus)


def flatten_joined(
    joined: JoinedTexts,
    starts: Int64,
    ends: Int64,
    surfaces: Int32,
    table: tuple[str, ...],
    words: ContentWords,
) -> FlatCorpus:
    """Flatten joined texts whose mentions are ordered by start."""
    ids = np.fromiter(map(words.__getitem__, joined.words), np.int32, len(joined.words))
    content = np.flatnonzero(ids >= 0)
    word_starts, word_ends = joined.starts[content], joined.ends[content]
    return FlatCorpus(
        words=ids[content],
        word_offsets=np.searchsorted(word_starts, joined.offsets).astype(np.int64),
        documents=joined.document_of(starts),
        # A word that overlaps the mention belongs to neither side of its context.
        before=np.searchsorted(word_ends, starts, side="right").astype(np.int64),
        after=np.searchsorted(word_starts, ends, side="left").astype(np.int64),
        surfaces=surfaces,
        entities=np.full(len(starts), UNKNOWN, dtype=np.int32),
        surface_table=table,
    )
