"""Documents as arrays: their content words, their mentions, and what stands around each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stamo.corpus.tokenizer import EncodedWords, tokenize
from stamo.corpus.types import Document
from stamo.errors import Ranged
from stamo.kb.base import CandidateTable, KnowledgeBase, stop_words
from stamo.kb.storage import StringTable
from stamo.system.files import Bools, Float32, Int32, Int64

UNKNOWN = -1
"""Padding, and the entity of a mention that is not linked."""
EMERGING = -2
"""Stands for e* wherever an entity id is expected; the i-th of several is EMERGING - i."""
OTHER = -(2**31)
"""The label of a mention that means something the knowledge base does not hold."""


class CandidateSource(Protocol):
    """Where the candidate entities of a surface come from: a knowledge base or a view of one."""

    def candidate_table(self, surfaces: Sequence[str], top: int | None) -> tuple[Int32, Float32]:
        """Return candidates (n, C), padded with -1, and their priors (n, C)."""
        ...


class AnyWord:
    """A vocabulary in which every word is word 0, so that texts still have lengths."""

    def find(self, text: str) -> int:
        """Return the number of any word."""
        return 0

    def find_many(self, texts: Sequence[str]) -> Int32:
        """Return the number of each word."""
        return np.zeros(len(texts), dtype=np.int32)


@dataclass(frozen=True)
class Lexicon:
    """The words that carry meaning: a vocabulary and which of its words are stop words."""

    words: StringTable | AnyWord
    is_stop_word: Bools

    @classmethod
    def of(cls, kb: KnowledgeBase) -> Lexicon:
        """Take the words of a knowledge base; its own counts decide what a stop word is.

        One without vectors knows no words; there every word counts, and none differs from another.
        """
        if not kb.dimensions:
            return cls(AnyWord(), np.zeros(1, dtype=np.bool_))
        return cls(kb.words, stop_words(kb.word_counts))

    def encode(self, text: str) -> EncodedWords:
        """Return the content words of a text with their places."""
        words, starts, ends = tokenize(text)
        ids = self.words.find_many(words)
        keep = ids >= 0
        keep[keep] = ~self.is_stop_word[ids[keep]]
        return EncodedWords(ids[keep], starts[keep], ends[keep])


@dataclass(frozen=True)
class EncodingSettings(Ranged):
    """How much of a document surrounds a mention."""

    n_words: int = 100
    """Context words H (Sec. 2.3): half before and half after the mention, stop words left out."""
    n_context: int = 30
    """Size K of the entity context: the nearest other linked mentions, for Ψ₃ and Ψ₄ alike."""
    n_candidates: int | None = None
    """Keep the candidates with the highest prior; None keeps all (training uses 30)."""

    ranges: ClassVar = {"n_words": 2, "n_context": 1, "n_candidates": 1}


@dataclass(frozen=True)
class FlatCorpus:
    """Documents end to end: N content words and M mentions."""

    words: Int32  # (N,) word ids
    word_offsets: Int64  # (documents + 1,)
    documents: Int32  # (M,) document of each mention
    before: Int64  # (M,) index in words: the context before ends here
    after: Int64  # (M,) index in words: the context after starts here
    surfaces: Int32  # (M,) index into surface_table
    entities: Int32  # (M,) linked entity or UNKNOWN or EMERGING
    surface_table: tuple[str, ...]
    aliases: Int32 | None = field(default=None, compare=False)
    """The knowledge base's number of each surface, -1 for unknown ones; None: not looked up."""
    mixed: tuple[Int64, CandidateTable] | None = field(default=None, compare=False)
    """Surfaces that may be read as several names, ascending indices into `surface_table`, and
    their candidates in that order; None: there are none."""
    text: Surroundings | None = field(default=None, compare=False)
    """Where the mentions stand in the texts; None where the texts are not at hand."""

    @property
    def n_documents(self) -> int:
        """Return the number of documents."""
        return len(self.word_offsets) - 1

    @property
    def n_mentions(self) -> int:
        """Return the number of mentions M."""
        return len(self.documents)


Article = tuple[str, Int32, Int32, Int32]
"""Text, and start, end and entity of its mentions, ordered by start."""


def iterate_articles(kb: KnowledgeBase, *, held_out: bool | None) -> Iterator[Article]:
    """Yield the text and the linked mentions of articles, in the dump's order."""
    for batch in kb.articles(held_out=held_out, columns=["text", "mentions"]):
        column = batch["mentions"]
        offsets = column.offsets.to_numpy(zero_copy_only=False)
        starts, ends, entities = (
            column.values.field(name).to_numpy(zero_copy_only=False).astype(np.int32)
            for name in ("start", "end", "entity")
        )
        for i, text in enumerate(batch["text"].to_pylist()):
            rows = slice(offsets[i], offsets[i + 1])
            yield text, starts[rows], ends[rows], entities[rows]


def flatten_articles(
    articles: Iterable[Article], lexicon: Lexicon, names: Sequence[Sequence[str]] | None = None
) -> FlatCorpus:
    """Put texts end to end; `names` are the surfaces of the mentions where texts do not tell."""
    none = np.zeros(0, dtype=np.int64)
    words, documents, before, after, entities = ([none] for _ in range(5))
    n_words, offsets, surfaces, index = 0, [0], list[int](), dict[str, int]()
    for number, (text, starts, ends, linked) in enumerate(articles):
        ids, word_starts, word_ends = lexicon.encode(text)
        # A word that overlaps the mention belongs to neither side of its context.
        before.append(n_words + np.searchsorted(word_ends, starts, side="right"))
        after.append(n_words + np.searchsorted(word_starts, ends, side="left"))
        documents.append(np.full(len(starts), number))
        entities.append(np.asarray(linked, dtype=np.int64))
        spans = zip(starts.tolist(), ends.tolist(), strict=True)
        said = [text[a:b] for a, b in spans] if names is None else names[number]
        surfaces += [index.setdefault(name, len(index)) for name in said]
        words.append(ids.astype(np.int64))
        n_words += len(ids)
        offsets.append(n_words)
    return FlatCorpus(
        words=np.concatenate(words).astype(np.int32),
        word_offsets=np.array(offsets, dtype=np.int64),
        documents=np.concatenate(documents).astype(np.int32),
        before=np.concatenate(before),
        after=np.concatenate(after),
        surfaces=np.array(surfaces, dtype=np.int32),
        entities=np.concatenate(entities).astype(np.int32),
        surface_table=tuple(index),
    )


def flatten(
    documents: Sequence[Document], lexicon: Lexicon, entity_ids: Mapping[str, int]
) -> FlatCorpus:
    """Flatten documents; an entity that `entity_ids` does not hold counts as `OTHER`."""
    every = [mention for document in documents for mention in document.mentions]
    linked = [UNKNOWN if m.entity is None else entity_ids.get(m.entity, OTHER) for m in every]
    columns = ([m.start for m in every], [m.end for m in every], linked)
    starts, ends, entities = (np.array(column, dtype=np.int32) for column in columns)
    edges = np.cumsum([0, *(len(document.mentions) for document in documents)]).tolist()
    articles = (
        (document.text, starts[a:b], ends[a:b], entities[a:b])
        for document, a, b in zip(documents, edges, edges[1:], strict=False)
    )
    names = [[m.surface for m in document.mentions] for document in documents]
    flat, texts = flatten_articles(articles, lexicon, names), [d.text for d in documents]
    return replace(flat, text=Surroundings(texts, flat.documents, starts, ends))


@dataclass(frozen=True)
class EncodedMentions:
    """M mentions ready for the features; every array's first axis is the mention."""

    documents: Int32  # (M,)
    surfaces: Int32  # (M,) index into surface_table
    gold: Int32  # (M,) entity id, EMERGING, or UNKNOWN
    words: Int32  # (M, H) context words, padded with -1
    context: Int32  # (M, K) entity context, padded with -1
    candidates: Int32  # (M, C) padded with -1
    known: Mapping[str, Float32]  # feature name -> (M, C) or (M, C, n) of the candidates
    surface_table: tuple[str, ...] = field(compare=False)

    def __len__(self) -> int:
        return len(self.documents)

    @property
    def mask(self) -> Bools:
        """Return where a candidate stands, (M, C)."""
        return self.candidates >= 0

    def take(self, rows: Int64 | Bools | slice, *, trim: bool = True) -> EncodedMentions:
        """Return the chosen mentions; `trim` drops candidate columns that none of them uses."""
        candidates = self.candidates[rows]
        width = candidates.shape[1]
        if trim:
            width = max(1, int((candidates >= 0).sum(axis=1).max(initial=0)))
        return EncodedMentions(
            documents=self.documents[rows],
            surfaces=self.surfaces[rows],
            gold=self.gold[rows],
            words=self.words[rows],
            context=self.context[rows],
            candidates=candidates[:, :width],
            known={name: values[rows][:, :width] for name, values in self.known.items()},
            surface_table=self.surface_table,
        )

    def gold_column(self) -> Int64:
        """Return the column of the gold entity among the candidates, -1 where it is not there."""
        hit = (self.candidates == self.gold[:, None]) & self.mask
        return np.where(hit.any(axis=1), hit.argmax(axis=1), -1)


def encode(
    corpus: FlatCorpus,
    source: CandidateSource,
    settings: EncodingSettings = EncodingSettings(),
    *,
    rows: Int64 | None = None,
    context_entities: Int32 | None = None,
) -> EncodedMentions:
    """Encode the mentions `rows` (all by default) of a corpus.

    Args:
        corpus: The flattened documents.
        source: Gives the candidates of a surface with their priors.
        settings: Sizes of the contexts.
        rows: Which mentions to encode.
        context_entities: Links to use as entity context instead of `corpus.entities`, (mentions,).
    """
    rows = np.arange(corpus.n_mentions) if rows is None else rows
    used, surfaces = np.unique(corpus.surfaces[rows], return_inverse=True)
    table = tuple(map(corpus.surface_table.__getitem__, used.tolist()))
    if corpus.aliases is not None and isinstance(source, KnowledgeBase):
        found = surface_candidates(corpus, source, used, settings.n_candidates)
    else:
        found = source.candidate_table(table, settings.n_candidates)
    candidate_table, prior_table = found
    entities = corpus.entities if context_entities is None else context_entities
    return EncodedMentions(
        documents=corpus.documents[rows],
        surfaces=surfaces.astype(np.int32),
        gold=corpus.entities[rows],
        words=context_words(corpus, rows, settings.n_words),
        context=entity_context(corpus, rows, entities, settings.n_context),
        candidates=candidate_table[surfaces],
        known={"prior": prior_table[surfaces]},
        surface_table=table,
    )


def surface_candidates(
    corpus: FlatCorpus, kb: KnowledgeBase, used: NDArray[np.integer] | None, top: int | None
) -> tuple[Int32, Float32]:
    """Return the candidates of the `used` surfaces of a corpus, of all when None.

    Returns:
        Entities, shape (n, C), padded with -1, and their priors, padded with 0.
    """
    aliases = kb.alias_ids(corpus.surface_table) if corpus.aliases is None else corpus.aliases
    used = np.arange(len(aliases)) if used is None else used
    ids, priors = kb.by_alias.batch(aliases[used], top)
    if corpus.mixed is None:
        return ids, priors
    surfaces, mixed = corpus.mixed
    place = np.minimum(np.searchsorted(surfaces, used), len(surfaces) - 1)
    at = np.flatnonzero(surfaces[place] == used)
    if len(at):
        width = max(ids.shape[1], int(mixed.n_candidates.max(initial=0)))
        width = width if top is None else min(width, top)
        spare = ((0, 0), (0, max(width - ids.shape[1], 0)))
        ids, priors = np.pad(ids, spare, constant_values=UNKNOWN), np.pad(priors, spare)
        found, shares = mixed.batch(place[at], ids.shape[1])
        ids[at], priors[at] = UNKNOWN, 0.0
        ids[at, : found.shape[1]], priors[at, : found.shape[1]] = found, shares
    return ids, priors


def context_words(corpus: FlatCorpus, rows: Int64, n_words: int) -> Int32:
    """Return the content words around each mention, (M, H), padded with -1."""
    half = n_words // 2
    first = corpus.word_offsets[corpus.documents[rows]][:, None]
    last = corpus.word_offsets[corpus.documents[rows] + 1][:, None]
    left = corpus.before[rows][:, None] + np.arange(-half, 0)
    right = corpus.after[rows][:, None] + np.arange(n_words - half)
    positions = np.concatenate([left, right], axis=1)  # (M, H)
    inside = (positions >= first) & (positions < last)
    if not len(corpus.words):
        return np.full(positions.shape, UNKNOWN, dtype=np.int32)
    words = corpus.words[np.clip(positions, 0, len(corpus.words) - 1)]
    return np.where(inside, words, UNKNOWN).astype(np.int32)


def entity_context(corpus: FlatCorpus, rows: Int64, entities: Int32, n_context: int) -> Int32:
    """Return the nearest linked mentions of the same document, (M, K), padded with -1.

    Mentions with the same surface are left out: they are candidate mentions too, and one label
    would answer for the other.
    """
    linked = np.flatnonzero(entities >= 0)
    if not len(linked) or not len(rows):
        return np.full((len(rows), n_context), UNKNOWN, dtype=np.int32)
    place = np.searchsorted(linked, rows)  # (M,)
    near = place[:, None] + np.arange(-n_context, n_context + 1)  # (M, 2K + 1)
    index = linked[np.clip(near, 0, len(linked) - 1)]
    usable = (near >= 0) & (near < len(linked))
    usable &= corpus.documents[index] == corpus.documents[rows][:, None]
    usable &= corpus.surfaces[index] != corpus.surfaces[rows][:, None]
    distance = np.abs(corpus.before[index] - corpus.before[rows][:, None]).astype(np.float64)
    distance[~usable] = np.inf
    order = np.argsort(distance, axis=1, kind="stable")[:, :n_context]
    found = np.take_along_axis(np.where(usable, entities[index], UNKNOWN), order, axis=1)
    return found.astype(np.int32)


_TOKEN = re.compile(r"\w+|[^\w\s]")
_NEAR_CHARACTERS = 60
"""How far the nearest two words on either side of a mention are looked for."""


class Window(NamedTuple):
    """Whole words around a mention, and where the mention stands among them."""

    text: str
    start: int
    end: int


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

    def next_to(self, n: int = 2) -> list[tuple[list[str], list[str]]]:
        """Return the n words or signs before and after each mention, the nearest first.

        They are fewer where the text begins or ends.
        """
        found = []
        for d, start, end in self.places():
            text = self.texts[d]
            before = _TOKEN.findall(text[max(0, start - _NEAR_CHARACTERS) : start])
            after = _TOKEN.findall(text[end : end + _NEAR_CHARACTERS])
            found.append((before[: -n - 1 : -1], after[:n]))
        return found

    def places(self) -> Iterator[tuple[int, int, int]]:
        """Yield document, start and end of each mention."""
        return zip(self.documents.tolist(), self.starts.tolist(), self.ends.tolist(), strict=True)


def most_frequent_entities(corpus: FlatCorpus, kb: KnowledgeBase) -> Int32:
    """Return the candidate with the highest prior for every mention: the first pass of linking."""
    if not corpus.n_mentions:
        return np.zeros(0, dtype=np.int32)
    candidates, _ = surface_candidates(corpus, kb, None, 1)
    return np.asarray(candidates[corpus.surfaces, 0])
