"""The frozen vectors that a model looks up by id, words as f₄(w); as arrays they need no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from stamo.errors import SettingsError
from stamo.features.mentions import EncodedMentions
from stamo.kb.base import KnowledgeBase
from stamo.system.files import Float32, Int32, Int64

if TYPE_CHECKING:
    from torch import Tensor


MASKED = -1e9
"""The score of padding; no real score comes near it, and it survives softmax and argmax."""
WordKind = Literal["plain", "weighted"]
"""`plain`: the vectors of the knowledge base. `weighted`: less the background, times the weight of
the word, so that a mean over a context is made as the vector of an entity is."""


class Vectors(Protocol):
    """Vectors by id: an array, or a table on disk."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of vectors and Q."""
        ...

    def __getitem__(self, ids: Any, /) -> Float32: ...


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
        rows = np.asarray(self.vectors[ids], dtype=np.float32) - self.background
        rows *= self.weights[ids][..., None]
        return rows


@dataclass(frozen=True)
class Tables:
    """The frozen vectors of words and known entities, looked up by id."""

    words: Vectors  # (V, Q)
    entities: Vectors  # (n, Q)


def gather(table: Vectors, ids: Int32) -> Tensor:
    """Return the vectors of ids, zero for padding, ids.shape + (Q,)."""
    import torch  # here, so that linking loads without it

    if isinstance(table, LocalVectors):
        own = torch.from_numpy(table.place[ids].ravel())
        return torch.from_numpy(table.rows).index_select(0, own).view(*ids.shape, table.shape[1])
    distinct, place = np.unique(ids, return_inverse=True)
    rows = np.asarray(table[np.maximum(distinct, 0)], dtype=np.float32)
    rows[distinct < 0] = 0.0
    if np.array_equal(distinct, ids):
        return torch.from_numpy(rows)  # the large case, once a pile: no second copy
    return torch.from_numpy(rows)[torch.from_numpy(place.reshape(ids.shape))]


@dataclass(frozen=True)
class LocalVectors:
    """The vectors that some mentions use, in memory, looked up by place without searching."""

    place: Int32  # row of each id; the last one, of id -1, is that of padding
    rows: Float32  # (n + 1, Q), the last one is the zero of padding

    @classmethod
    def of(cls, table: Vectors, *ids: Int32) -> LocalVectors:
        """Gather the distinct vectors of some ids, padded with -1."""
        seen = np.zeros(max(int(part.max(initial=-1)) for part in ids) + 2, dtype=np.bool_)
        for part in ids:
            seen[part] = True  # padding, -1, marks the last cell
        distinct = np.flatnonzero(seen[:-1])
        place = np.empty(len(seen), dtype=np.int32)  # read only where an id was seen
        place[distinct] = np.arange(len(distinct), dtype=np.int32)
        place[-1] = len(distinct)
        found = table[distinct]
        rows = np.zeros((len(distinct) + 1, found.shape[1]), dtype=np.float32)
        rows[:-1] = found
        return cls(place, rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of ids and Q."""
        return len(self.place) - 1, self.rows.shape[1]

    def __getitem__(self, ids: Any, /) -> Float32:
        return np.asarray(self.rows[self.place[ids]])


FEW_IDS = 8192
"""Up to so many, means are added up column by column: a text of a page needs no sparse matrices,
which take .1 s to load. Both ways add in the same order and give the same bits."""


def mean_rows(vectors: LocalVectors, ids: Int32) -> Float32:
    """Return the mean vector of each row of ids, padding left out, (M, Q)."""
    is_real = ids >= 0
    sizes = is_real.sum(axis=1)
    shares = (1 / np.maximum(sizes, 1)).astype(np.float32)
    if ids.size <= FEW_IDS:
        means = np.zeros((len(ids), vectors.rows.shape[1]), dtype=np.float32)
        for places in vectors.place[ids].T:  # padding adds its zeros
            means += shares[:, None] * vectors.rows[places]
        return means
    from scipy import sparse

    places = vectors.place[ids[is_real]]
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    shape = (len(ids), len(vectors.rows))
    weights = sparse.csr_matrix((np.repeat(shares, sizes), places, indptr), shape=shape)
    return np.asarray(weights @ vectors.rows)


def local_tables(tables: Tables, mentions: EncodedMentions) -> Tables:
    """Gather the vectors that some mentions use, so that blocks of them look up by place."""
    return Tables(
        LocalVectors.of(tables.words, mentions.words),
        LocalVectors.of(tables.entities, mentions.candidates, mentions.context),
    )


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


MAX_BLOCK_MENTIONS = 128
MAX_BLOCK_CELLS = 8192
"""Mentions times candidates scored at once: this bounds memory at about 10 MB."""


def blocks(width: Int64) -> Sequence[Int64]:
    """Cut the mentions with a candidate into blocks of alike width and bounded size.

    Args:
        width: How many candidates each mention has, (M,).

    Returns:
        Rows of each block, from the narrowest to the widest mention.
    """
    order = np.argsort(width, kind="stable")
    order = order[width[order] > 0]
    parts, start = [], 0
    while start < len(order):
        end = min(start + MAX_BLOCK_MENTIONS, len(order))
        cells = width[order[start:end]] * np.arange(1, end - start + 1)
        end = start + max(1, int(np.searchsorted(cells, MAX_BLOCK_CELLS, side="right")))
        parts.append(order[start:end])
        start = end
    return parts
