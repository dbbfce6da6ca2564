"""The word vectors f₄(w) that a model compares entities with (Sec. 2.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from stamo.errors import SettingsError
from stamo.kb.base import KnowledgeBase
from stamo.models.tables import Tables, Vectors
from stamo.system.arrays import Float32

WordKind = Literal["plain", "weighted"]
"""`plain`: the vectors of the knowledge base. `weighted`: less the background, times the weight of
the word, so that a mean over a context is made as the vector of an entity is."""


@dataclass(frozen=True)
class WeightedWords:
    """f₄(w) = weight(w) (v(w) - background), looked up by id.

    An entity's vector is the weighted mean of the words around its links less the background. The
    mean of these f₄ over a context points the same way, so the two can be compared; the mean of
    plain vectors mostly points to what all texts have in common.
    """

    vectors: Vectors  # (V, Q)
    weights: Float32  # (V,)
    background: Float32  # (Q,)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of words and Q."""
        return self.vectors.shape

    def __getitem__(self, ids: Any, /) -> Float32:
        rows = np.asarray(self.vectors[ids], dtype=np.float32)
        return np.asarray((rows - self.background) * self.weights[ids][..., None])


def check_kind(kind: str) -> WordKind:
    """Return the kind of word vectors that a setting names."""
    if kind not in {"plain", "weighted"}:
        raise SettingsError(f"There are no {kind!r} word vectors; choose plain or weighted.")
    return "plain" if kind == "plain" else "weighted"


def model_tables(kb: KnowledgeBase, kind: WordKind) -> Tables:
    """Return the vectors of a knowledge base as a model looks them up."""
    if kind == "plain":
        return Tables(kb.word_vectors, kb.entity_vectors())
    words = WeightedWords(kb.word_vectors, kb.word_weights, kb.background)
    return Tables(words, kb.entity_vectors())


def in_memory(tables: Tables) -> Tables:
    """Return the same vectors as arrays: training looks all of them up again and again."""
    return Tables(tables.words[:], np.asarray(tables.entities, dtype=np.float32))
