"""A batch of documents as one flat corpus of mentions, without a loop over mentions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from stamo.corpus.reading import ReadChunk, Unreadable
from stamo.corpus.types import Document
from stamo.features.mentions import UNKNOWN, FlatCorpus, Lexicon
from stamo.kb.base import KnowledgeBase
from stamo.linking.names import (
    MAX_REMEMBERED_LENGTH,
    NO_READINGS,
    NameReadings,
    known_names,
    mix_surfaces,
)
from stamo.linking.texts import Detected, JoinedTexts
from stamo.system.files import Bools, Int32, Int64

MAX_CACHED_WORDS = 250_000
"""Words whose ids are remembered, of some hundred bytes each: not those that are longer than names,
for what a page holds besides text (keys, images) is one word of any length."""
_NONE = np.zeros(0, dtype=np.int64)
TakenMentions = tuple[Int64, Int64, list[str]]
"""Places and surfaces of mentions that documents bring."""
NOTHING_TAKEN: TakenMentions = (_NONE, _NONE, [])


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
    readings: NameReadings,
    words: ContentWords,
    extras: Sequence[str] = (),
    taken: TakenMentions = NOTHING_TAKEN,
    fixed: frozenset[str] = frozenset(),
) -> Located:
    """Flatten a batch with its mentions.

    Args:
        joined: The texts.
        found: The mentions that were detected.
        readings: Knows the names.
        words: The vocabulary.
        extras: The extra aliases of the detector.
        taken: The mentions that documents bring.
        fixed: Names whose candidates are those of the knowledge base and no others.
    """
    kb = readings.kb
    starts, ends = np.concatenate([taken[0], found.starts]), np.concatenate([taken[1], found.ends])
    surfaces, names, aliases, n_taken = _surface_table(kb, taken[2], found, extras)
    related = readings.of(names[:n_taken], fixed) if n_taken else NO_READINGS
    place_of = joined.document_of(starts)
    surfaces, name_of, mixed = mix_surfaces(kb, names, aliases, place_of, surfaces, related, fixed)
    table = tuple(map(names.__getitem__, name_of.tolist()))
    order = np.argsort(starts, kind="stable")
    starts, ends, surfaces = starts[order], ends[order], surfaces[order]
    corpus = flatten_joined(joined, starts, ends, surfaces, table, words)
    corpus = replace(corpus, aliases=aliases[name_of], mixed=mixed)
    return Located(
        corpus.documents,
        joined.local(corpus.documents, starts),
        joined.local(corpus.documents, ends),
        corpus,
    )


def take_over(joined: JoinedTexts, documents: Sequence[Document], given: Bools) -> TakenMentions:
    """Take the mentions of the documents whose own ones are `given`."""
    starts, ends, surfaces = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], []
    for i, document in enumerate(documents):
        if given[i] and document.mentions:
            mentions = document.mentions
            spans = np.array([(m.start, m.end) for m in mentions], dtype=np.int32)
            starts.append(joined.joined(i, spans[:, 0]))
            ends.append(joined.joined(i, spans[:, 1]))
            surfaces += [m.surface for m in mentions]
    return np.concatenate(starts), np.concatenate(ends), surfaces


def _surface_table(
    kb: KnowledgeBase, taken: list[str], found: Detected, extras: Sequence[str]
) -> tuple[Int32, tuple[str, ...], Int32, int]:
    """Number the distinct names of all mentions, those taken over first.

    Returns:
        The number of each mention's name; the names; their aliases; how many were taken over.
    """
    index: dict[str, int] = {}
    distinct = list(dict.fromkeys(taken))
    name_by_surface = dict(zip(distinct, known_names(kb, distinct) if taken else (), strict=True))
    numbers = [index.setdefault(name_by_surface[s], len(index)) for s in taken]
    n_taken = len(index)
    # Names known to the knowledge base are numbered by alias, the others by extra alias.
    keys = np.where(found.aliases >= 0, found.aliases, -1 - found.extras)
    used, place = np.unique(keys, return_inverse=True)
    names = [extras[-1 - key] for key in used[used < 0].tolist()] + kb.aliases(used[used >= 0])
    number_by_key = np.array([index.setdefault(name, len(index)) for name in names], np.int32)
    surfaces = number_by_key[place] if len(used) else np.zeros(0, np.int32)
    aliases = np.full(len(index), UNKNOWN, dtype=np.int32)
    aliases[number_by_key] = np.maximum(used, UNKNOWN)  # detection knows them already
    if n_taken:
        aliases[:n_taken] = kb.alias_ids(list(index)[:n_taken])
    return np.concatenate([np.array(numbers, np.int32), surfaces]), tuple(index), aliases, n_taken


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
