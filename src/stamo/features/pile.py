"""W as arrays: the candidate mentions of emerging entities, and samples of them with labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import numpy as np

from stamo.corpus.types import EmergingEntity
from stamo.features.mentions import UNKNOWN, EncodedMentions, Surroundings
from stamo.kb.base import KnowledgeBase
from stamo.system.files import Bools, Float32, Float64, Int32, Int64

if TYPE_CHECKING:
    from scipy import sparse

T = TypeVar("T")


class TextEncoder(Protocol):
    """A frozen sentence encoder; `stamo.features.encoder` has the one that we ship."""

    @property
    def fingerprint(self) -> str:
        """What tells this encoder from others."""
        ...

    @property
    def languages(self) -> frozenset[str]:
        """Languages in which it is known how alike it finds texts; measured in all others."""
        ...

    def encode(self, texts: Sequence[str]) -> Float32:
        """Return one unit row for each text, (n, d); zeros for an empty one."""
        ...

    def encode_spans(
        self, texts: Sequence[str], starts: Int64, ends: Int64
    ) -> tuple[Float32, Float32]:
        """Return a row for each text and one for the words in and near its span, (n, d) each."""
        ...


@dataclass(frozen=True)
class Pile:
    """The candidate mentions of E emerging entities, encoded.

    Usually E is 1; entities that share an alias compete for the same mentions and are learned
    together. The non-emerging candidates are the C columns of `mentions`; the emerging entities
    follow them as columns C to C + E - 1 of everything that is scored.
    """

    entities: tuple[EmergingEntity, ...]
    aliases: tuple[str, ...]  # A surfaces, all aliases of all entities
    mentions: EncodedMentions
    alias: Int32  # (M,) index into aliases
    neighbours: Int32  # (R,) sorted entity ids: the support of the relatedness rows
    context: Int32  # (M, K) index into neighbours, padded with -1
    groups: Int64  # (M,) document and surface: one sense per document and surface
    occurrence: sparse.csr_matrix  # (documents, R) 1 where a document links a neighbour
    kb: KnowledgeBase = field(compare=False)  # what the neighbours' numbers belong to
    background: Float64 | None = None  # (R + 1,) see make_pile; None: the KB's
    text: Surroundings | None = field(default=None, compare=False)  # where the mentions stand
    encoder: TextEncoder | None = field(default=None, compare=False)  # reads the text, if any
    vocabularies: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False)
    """What the columns of a view of words stand for, by the view's name; see `vocabulary`."""
    extra: dict[str, object] = field(default_factory=dict, compare=False)  # what features keep

    def __len__(self) -> int:
        return len(self.mentions)

    @property
    def n_documents(self) -> int:
        """Return the number of documents the pile was made of."""
        return int(self.occurrence.shape[0])

    def keep(self, key: str, make: Callable[[], T]) -> T:
        """Return what `make` makes, made once: no slot changes what a pile is."""
        if key not in self.extra:
            self.extra[key] = make()
        return cast("T", self.extra[key])

    def vocabulary(
        self, view: str, make: Callable[[], Sequence[str]] | None = None
    ) -> tuple[str, ...]:
        """Return what a view's columns stand for: those that were given, or what `make` makes.

        Without `make` nothing is made: a view that was not looked at has no words.
        """
        key = f"vocabulary of {view}"
        if view in self.vocabularies:
            return self.vocabularies[view]
        if make is None:
            return cast("tuple[str, ...]", self.extra.get(key, ()))
        return self.keep(key, lambda: tuple(make()))

    @cached_property
    def is_alias(self) -> Bools:
        """Which entity has which alias, (E, A)."""
        return np.array([[a in e.aliases for a in self.aliases] for e in self.entities])

    @cached_property
    def is_candidate(self) -> Bools:
        """Which emerging entity each mention may refer to, (M, E)."""
        return self.is_alias.T[self.alias]

    @cached_property
    def is_absent(self) -> Bools:
        """Where no candidate stands, known or emerging, (M, C + E)."""
        return ~np.hstack([self.mentions.mask, self.is_candidate])

    @cached_property
    def votes(self) -> tuple[Int64, Int64, Int64]:
        """The votes' first mention (G,), the vote of each mention (M,), their sizes (G,)."""
        _, first, vote = np.unique(self.groups, return_index=True, return_inverse=True)
        return first, vote, np.bincount(vote, minlength=len(first))

    def take(self, rows: Int64 | Bools) -> Pile:
        """Return some of the mentions; columns and documents keep their numbers."""
        return replace(
            self,
            mentions=self.mentions.take(rows, trim=False),
            alias=self.alias[rows],
            context=self.context[rows],
            groups=self.groups[rows],
            text=None if self.text is None else self.text.take(rows),
            extra={},
        )


def make_pile(
    entities: Sequence[EmergingEntity],
    mentions: EncodedMentions,
    pairs: Int64,
    n_documents: int,
    kb: KnowledgeBase,
    neighbours: Int32 | None = None,
    background: Float64 | None = None,
    **text: Any,
) -> Pile:
    """Arrange encoded candidate mentions for learning or for linking with what was learned.

    Args:
        entities: The emerging entities; every mention's surface is an alias of at least one.
        mentions: The candidate mentions of the documents, encoded.
        pairs: The distinct (document, entity) pairs that the documents link, (n, 2).
        n_documents: How many documents there are.
        kb: The knowledge base that the entities belong to.
        neighbours: The support of the relatedness rows; by default all entities in `pairs`.
        background: How many documents of a background sample link each neighbour and, last, how
            many documents the sample has, (R + 1,).
        text: What views of the text need: `text`, `encoder` and `vocabularies` of the pile.
    """
    from scipy import sparse

    aliases = tuple(dict.fromkeys(alias for entity in entities for alias in entity.aliases))
    by_alias = {alias: i for i, alias in enumerate(aliases)}
    alias_of_surface = np.array([by_alias[s] for s in mentions.surface_table], dtype=np.int32)
    alias = alias_of_surface[mentions.surfaces] if len(mentions) else np.zeros(0, dtype=np.int32)
    if neighbours is None:
        neighbours = np.unique(pairs[:, 1]).astype(np.int32)
    column = positions(neighbours, pairs[:, 1].astype(np.int32))
    kept = column >= 0
    ones, cells = np.ones(int(kept.sum())), (pairs[kept, 0], column[kept])
    return Pile(
        entities=tuple(entities),
        aliases=aliases,
        mentions=mentions,
        alias=alias,
        neighbours=neighbours,
        context=positions(neighbours, mentions.context),
        groups=mentions.documents.astype(np.int64) * len(aliases) + alias,
        occurrence=sparse.csr_matrix((ones, cells), shape=(n_documents, len(neighbours))),
        kb=kb,
        background=background,
        **text,
    )


def share_labels(gold: Int32, pile: Pile) -> Int32:
    """Give the label of a mention to the other mentions of its name in its document.

    One name has one sense in a document. Where labels of one document contradict
    each other, they stand for themselves only.
    """
    _, vote, size = pile.votes
    known = np.flatnonzero(gold != UNKNOWN)
    highest = np.full(len(size), np.iinfo(np.int64).min)
    lowest = np.full(len(size), np.iinfo(np.int64).max)
    np.maximum.at(highest, vote[known], gold[known])
    np.minimum.at(lowest, vote[known], gold[known])
    agreed = np.where(highest == lowest, highest, UNKNOWN)[vote]
    return np.where(gold == UNKNOWN, agreed, gold).astype(np.int32)


def linked_pairs(documents: Int32, entities: Int32) -> Int64:
    """Return the distinct pairs of document and entity of linked mentions, shape (n, 2)."""
    linked = (documents >= 0) & (entities >= 0)
    pairs = np.stack([documents[linked], entities[linked]], axis=1).astype(np.int64)
    return np.unique(pairs, axis=0)


def positions(keys: Int32, values: Int32) -> Int32:
    """Return where each value stands in the sorted `keys`, -1 where it does not."""
    if not len(keys):
        return np.full(values.shape, UNKNOWN, dtype=np.int32)
    place = np.minimum(np.searchsorted(keys, values), len(keys) - 1)
    return np.where(keys[place] == values, place, UNKNOWN).astype(np.int32)


@dataclass(frozen=True)
class Sample:
    """S_web: a pile and how far each mention counts as each emerging entity.

    Hard labels are 0 and 1; a pseudo-label may be a probability. Mentions with `counted` 0 are
    not part of S_web.
    """

    pile: Pile
    weights: Float32  # (M, E) in [0, 1]
    counted: Float32  # (M,) in [0, 1]

    def vote(self) -> tuple[Float32, Float32, Int64]:
        """Return one vote a document and surface: weights (G, E), counted (G,), first row (G,).

        Occurrences of one name in one document share their sense, so a document
        that repeats the name fifty times still counts once.
        """
        first, group, size = self.pile.votes
        total = partial(np.bincount, group, minlength=len(first))
        weights = np.stack([total(w * self.counted) for w in self.weights.T], axis=1)
        share = (weights / size[:, None]).astype(np.float32)
        return share, (total(self.counted) / size).astype(np.float32), first

    def by_document(self) -> tuple[Float32, Float32]:
        """Return how far each document mentions each entity, (documents, E), and counts at all."""
        weights = np.zeros((self.pile.n_documents, self.weights.shape[1]), dtype=np.float32)
        np.maximum.at(weights, self.pile.mentions.documents, self.weights * self.counted[:, None])
        counted = np.zeros(self.pile.n_documents, dtype=np.float32)
        np.maximum.at(counted, self.pile.mentions.documents, self.counted)
        return weights, counted

    def without(self, rows: Bools) -> Sample:
        """Return the sample without some mentions."""
        return replace(self, counted=np.where(rows, np.float32(0), self.counted))
