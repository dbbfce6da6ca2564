"""A knowledge base of five documents and piles of a few mentions, to check by hand."""

from dataclasses import dataclass, field

import numpy as np

from stamo.corpus.types import EmergingEntity
from stamo.features.embedding import Tables
from stamo.features.mentions import EncodedMentions
from stamo.features.pile import Sample, make_pile
from stamo.kb.relatedness import Incidence

A, B, C = 0, 1, 2
DOCUMENTS = {A: {0, 1, 2}, B: {1, 2, 3}, C: {4}}
NEW = EmergingEntity("New Star", ("Star", "The Star"))


@dataclass
class FiveDocuments:
    """Entities A, B and C in five documents; words 0, 1 and 2 in a plane."""

    n_documents = 5
    document_frequency = np.array([3, 3, 1], dtype=np.int32)
    names = ("Red Star", "Star (film)", "Moon")
    words = ("red", "star", "moon")
    word_vectors = np.array([[1, 0], [0, 1], [-1, 0]], dtype=np.float32)
    word_weights: np.ndarray = field(default_factory=lambda: np.ones(3, dtype=np.float32))
    word_counts = np.array([10, 10, 10], dtype=np.int64)
    background: np.ndarray = field(default_factory=lambda: np.zeros(2, dtype=np.float32))

    n_entities = 3

    def incidence(self, entities, groups, n_groups):
        articles = [sorted(DOCUMENTS[e]) for e in entities.tolist()]
        moved = [a + 5 * g for row, g in zip(articles, groups.tolist(), strict=True) for a in row]
        return Incidence(np.array(moved), np.array([len(a) for a in articles]), 5 * n_groups)

    def titles(self, ids):
        return [self.names[i] for i in ids]

    def entity_vectors(self):
        return np.array([[1, 0], [0, 1], [0.6, 0.8]], dtype=np.float32)


def pile_of(
    mentions,
    kb=None,
    *,
    entities=(NEW,),
    pairs=(),
    n_documents=5,
    candidates=(A, B, -1),
    prior=(0.6, 0.4, 0.0),
):
    """Arrange mentions, each (document, surface, context words, context entities)."""
    kb = kb or FiveDocuments()
    documents, surfaces, words, context = zip(*mentions, strict=True)
    table = tuple(dict.fromkeys(surfaces))
    shape = (len(mentions), len(candidates))
    encoded = EncodedMentions(
        documents=np.array(documents, dtype=np.int32),
        surfaces=np.array([table.index(s) for s in surfaces], dtype=np.int32),
        gold=np.full(len(mentions), -1, dtype=np.int32),
        words=np.array(words, dtype=np.int32),
        context=np.array(context, dtype=np.int32),
        candidates=np.broadcast_to(np.array(candidates, dtype=np.int32), shape).copy(),
        known={
            "prior": np.broadcast_to(np.array(prior[: shape[1]], dtype=np.float32), shape).copy()
        },
        surface_table=table,
    )
    linked = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    tables = Tables(kb.word_vectors, kb.entity_vectors())
    return make_pile(entities, encoded, linked, n_documents, kb, tables)


def label(pile, weights, counted=None):
    """Give each mention its weight as the one emerging entity."""
    weights = np.array(weights, dtype=np.float32).reshape(len(pile), -1)
    counted = np.ones(len(pile)) if counted is None else np.array(counted)
    return Sample(pile, weights, counted.astype(np.float32))


def star(document, words=(-1, -1), context=(-1,), surface="Star"):
    """A mention of the name."""
    return document, surface, words, context
