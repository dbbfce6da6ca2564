"""W as arrays: the candidate mentions of emerging entities, and samples of them with labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from stamo.corpus.types import EmergingEntity
from stamo.features.base import Feature, Rows, encode_features
from stamo.features.mentions import (
    EMERGING,
    UNKNOWN,
    EncodedMentions,
    EncodingSettings,
    FlatCorpus,
    Surroundings,
    encode,
)
from stamo.kb.base import KnowledgeBase
from stamo.system.files import Bools, Float32, Int32, Int64

if TYPE_CHECKING:
    from scipy import sparse

    from stamo.features.embedding import Tables


class TextEncoder(Protocol):
    """A frozen sentence encoder; `stamo.features.encoder` has the one that we ship."""

    @property
    def fingerprint(self) -> str:
        """What tells this encoder from others."""
        ...

    def encode(self, texts: Sequence[str]) -> Float32:
        """Return one unit row for each text, (n, d); zeros for an empty one."""
        ...

    def encode_masked(self, texts: Sequence[str], starts: Int64, ends: Int64) -> Float32:
        """Return a unit row for what each text calls for in the place of a name, (n, d)."""
        ...


@dataclass(frozen=True)
class Pile:
    """W as arrays: the candidate mentions of E emerging entities, and the labels of some of them.

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
    is_alias: Bools  # (E, A) which entity has which alias
    is_candidate: Bools  # (M, E) which emerging entity each mention may refer to
    n_documents: int  # that the pile was made of
    occurrence: sparse.csr_matrix  # (documents, R) 1 where a document links a neighbour
    labels: Float32  # (M, E) 1 where a mention of L is the entity
    labelled: Bools  # (M,) which mentions belong to L
    kb: KnowledgeBase = field(compare=False)  # what the neighbours' numbers belong to
    tables: Tables = field(compare=False)  # the vectors that models look up
    text: Surroundings | None = field(default=None, compare=False)  # where the mentions stand
    encoder: TextEncoder | None = field(default=None, compare=False)  # reads the text, if any
    vocabularies: dict[str, tuple[str, ...]] = field(default_factory=dict, compare=False)
    """What the columns of a view of words stand for, by the view's name."""
    kept: dict[str, Any] = field(default_factory=dict, compare=False)
    """What was computed of the pile and no slot changes."""
    whole: tuple[Pile, Int64] | None = field(default=None, compare=False)
    """The pile that this one was taken from, and the rows there."""

    def __len__(self) -> int:
        return len(self.alias)

    def rows(self, feature: Feature) -> Rows:
        """Return x(m) of a feature for every mention, (M, n); computed once."""
        key = f"rows of {feature!r}"
        if key not in self.kept:
            if self.whole is None:
                self.kept[key] = feature.rows(self)
            else:  # a part has the columns of the whole
                pile, rows = self.whole
                self.kept[key] = pile.rows(feature)[rows]
        return cast("Rows", self.kept[key])

    @cached_property
    def votes(self) -> tuple[Int64, Int64, Int64]:
        """The votes' first mention (G,), the vote of each mention (M,), their sizes (G,).

        The mentions of one name in one document have one sense, so they have one vote.
        """
        groups = self.mentions.documents.astype(np.int64) * len(self.aliases) + self.alias
        _, first, vote = np.unique(groups, return_index=True, return_inverse=True)
        return first, vote, np.bincount(vote, minlength=len(first))

    def sample(self, pseudo_labels: Float32 | None = None) -> Sample:
        """Return L, to estimate features on; or L and U under pseudo-labels, (M, E)."""
        if pseudo_labels is None:
            return Sample(self, self.labels, self.labelled.astype(np.float32))
        return Sample(self, pseudo_labels, np.ones(len(self), dtype=np.float32))

    def labelled_as(self, gold: Int32, alone: Bools | None = None) -> Pile:
        """Return the pile with labels, (M,): a known entity, e*, "none of these", or `UNKNOWN`.

        One name has one sense in a document, so a label counts for the other mentions of its name
        there, unless it is said to stand `alone`, (M,). Where the labels of one document
        contradict each other, they stand for themselves only.
        """
        _, vote, size = self.votes
        is_given = gold != UNKNOWN
        given = np.flatnonzero(is_given if alone is None else is_given & ~alone)
        highest = np.full(len(size), np.iinfo(np.int64).min)
        lowest = np.full(len(size), np.iinfo(np.int64).max)
        np.maximum.at(highest, vote[given], gold[given])
        np.minimum.at(lowest, vote[given], gold[given])
        agreed = np.where(highest == lowest, highest, UNKNOWN)[vote]
        gold = np.where(gold == UNKNOWN, agreed, gold).astype(np.int32)
        return replace(
            self,
            mentions=replace(self.mentions, gold=gold),
            labels=(gold[:, None] == EMERGING - np.arange(len(self.entities))).astype(np.float32),
            labelled=gold != UNKNOWN,
        )

    def take(self, rows: Int64) -> Pile:
        """Return some of the mentions; columns and documents keep their numbers."""
        return replace(
            self,
            mentions=self.mentions.take(rows, trim=False),
            alias=self.alias[rows],
            context=self.context[rows],
            is_candidate=self.is_candidate[rows],
            labels=self.labels[rows],
            labelled=self.labelled[rows],
            text=None if self.text is None else self.text.take(rows),
            kept={},
            whole=(self, rows),
        )


class Encodes(Protocol):
    """What is needed of a linking model to prepare mentions for it."""

    @property
    def encoding(self) -> EncodingSettings:
        """Sizes of the contexts."""
        ...

    @property
    def features(self) -> Sequence[Feature]:
        """What the model reads."""
        ...

    def tables(self, kb: KnowledgeBase) -> Tables:
        """Return the vectors that the model looks up."""
        ...


def prepare_pile(
    corpus: FlatCorpus,
    entities: Sequence[EmergingEntity],
    kb: KnowledgeBase,
    model: Encodes,
    *,
    rows: Int64 | None = None,
    neighbours: Int32 | None = None,
    vocabularies: Mapping[str, tuple[str, ...]] | None = None,
    encoder: TextEncoder | None = None,
) -> Pile:
    """Prepare the candidate mentions of documents, to learn entities or to link with packs.

    Args:
        corpus: The documents; `corpus.entities` are the links that serve as entity context.
        entities: The emerging entities. A mention is a candidate when its surface is an alias.
        kb: The knowledge base.
        model: The linking model that the mentions are prepared for.
        rows: The candidate mentions that are looked at; all by default.
        neighbours: The support of the relatedness rows, as a pack has it; by default every entity
            that the documents link.
        vocabularies: What the columns of views of words stand for, as a pack has them.
        encoder: Reads the text around the mentions.
    """
    encoding, features, tables = model.encoding, model.features, model.tables(kb)
    named = candidate_rows(corpus, entities)
    rows = named if rows is None else rows
    # The candidate mentions are what is asked; they are nobody's context.
    context = corpus.entities.copy()
    context[named] = UNKNOWN
    mentions = encode(corpus, kb, encoding, rows=rows, context_entities=context)
    pile = make_pile(
        entities,
        encode_features(mentions, features, kb),
        np.stack([corpus.documents, context], axis=1),
        corpus.n_documents,
        kb,
        tables,
        neighbours,
    )
    return replace(
        pile,
        text=None if corpus.text is None else corpus.text.take(rows),
        encoder=encoder,
        vocabularies=dict(vocabularies or {}),
    )


def candidate_rows(corpus: FlatCorpus, entities: Sequence[EmergingEntity]) -> Int64:
    """Return the mentions whose surface is an alias of one of the entities."""
    aliases = {alias for entity in entities for alias in entity.aliases}
    is_alias = np.array([surface in aliases for surface in corpus.surface_table], dtype=bool)
    return np.flatnonzero(is_alias[corpus.surfaces]) if len(is_alias) else np.zeros(0, np.int64)


def make_pile(
    entities: Sequence[EmergingEntity],
    mentions: EncodedMentions,
    pairs: NDArray[np.integer],
    n_documents: int,
    kb: KnowledgeBase,
    tables: Tables,
    neighbours: Int32 | None = None,
) -> Pile:
    """Arrange encoded candidate mentions; none is labelled yet.

    Args:
        entities: The emerging entities; every mention's surface is an alias of at least one.
        mentions: The candidate mentions of the documents, encoded.
        pairs: The (document, entity) pairs that the documents link, (n, 2); those with a number
            below 0 are none.
        n_documents: How many documents there are.
        kb: The knowledge base that the entities belong to.
        tables: The vectors that models look up.
        neighbours: The support of the relatedness rows; by default all entities in `pairs`.
    """
    from scipy import sparse

    aliases = tuple(dict.fromkeys(alias for entity in entities for alias in entity.aliases))
    by_alias = {alias: i for i, alias in enumerate(aliases)}
    alias_of_surface = np.array([by_alias[s] for s in mentions.surface_table], dtype=np.int32)
    alias = alias_of_surface[mentions.surfaces]
    if neighbours is None:
        neighbours = np.unique(pairs[(pairs >= 0).all(axis=1), 1]).astype(np.int32)
    column = positions(neighbours, pairs[:, 1])
    kept = (pairs[:, 0] >= 0) & (column >= 0)
    cells = (pairs[kept, 0], column[kept])
    shape = (n_documents, len(neighbours))
    occurrence = sparse.csr_matrix((np.ones(len(cells[0])), cells), shape=shape)
    occurrence.data[:] = 1.0  # a document that links an entity twice links it
    is_alias = np.array([[a in e.aliases for a in aliases] for e in entities])
    return Pile(
        entities=tuple(entities),
        aliases=aliases,
        mentions=mentions,
        alias=alias,
        neighbours=neighbours,
        context=positions(neighbours, mentions.context),
        is_alias=is_alias,
        is_candidate=is_alias.T[alias],
        n_documents=n_documents,
        occurrence=occurrence,
        labels=np.zeros((len(alias), len(entities)), dtype=np.float32),
        labelled=np.zeros(len(alias), dtype=bool),
        kb=kb,
        tables=tables,
    )


def positions(keys: Int32, values: NDArray[np.integer]) -> Int32:
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
