"""What a feature is: anything that is counted for an entity, and learned for a new one (Sec. 2.2).

Every learned thing but the embedding is linear. A mention m has a row x(m), the emerging entity e*
a group of numbers θ(e*), and the value of the feature is their product:

    f(e*, m) = x(m) · θ(e*)

Prior and relatedness are such features, and so are the views that only the default weighs (the
words around a name, what an encoder reads). They differ in where θ comes from: `estimate` counts it
on labelled documents; where it returns None, θ is fitted on the labels (`stamo.learning.default`).
For the known candidates of a mention, `known` looks the value up in the knowledge base; a view has
none, it compares mentions with mentions.

θ(e*) is a dict of arrays by the names of the features. The first axis is E, the number of entities
that are learned together (usually 1).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from stamo.features.mentions import EncodedMentions
from stamo.kb.base import KnowledgeBase
from stamo.system.files import Float32, Float64

if TYPE_CHECKING:
    from scipy import sparse

    from stamo.features.pile import Pile, Sample

Array: TypeAlias = Any
"""An array of NumPy, or one that autograd follows: one formula serves both."""
LEAST_NORM = np.float32(1e-16)
"""The square of the shortest vector that is brought to unit norm."""
Theta: TypeAlias = Mapping[str, Array]
"""θ(e*) by feature, (E, n) each; followed where its gradient is asked for."""
Rows: TypeAlias = "Float32 | Float64 | sparse.csr_matrix"
"""x(m), one row for each mention, (M, n)."""
Term: TypeAlias = tuple[str, Float64]
"""Something that people can read, with its part of a mention's row, (n,)."""


class Feature(ABC):
    """A feature f; one file implements one. A feature that is not linear has no columns."""

    name: str
    """The name of the feature and of its group in θ(e*)."""

    def rows(self, pile: Pile) -> Rows:
        """Return x(m) of all mentions of a pile; `Pile.rows` keeps what this returns."""
        return np.zeros((len(pile), 0), dtype=np.float32)

    def known(self, mentions: EncodedMentions, kb: KnowledgeBase) -> Float32 | None:
        """Return the values of the known candidates, (M, C) or (M, C, n); None: it has none."""
        return None

    def estimate(self, sample: Sample) -> Float32 | None:
        """Estimate the group of θ(e*) on labelled documents, (E, n); None: labels fit it."""
        return None

    def values(self, theta: Theta, pile: Pile) -> Array:
        """Return the values of all candidates, the emerging ones last, (M, C + E)."""
        return append(pile.mentions.known[self.name], weigh(pile.rows(self), theta[self.name]))


class View(Feature):
    """A feature that compares mentions with mentions; the correction of e* weighs its columns.

    What the columns stand for is the same in every pile that one θ(e*) is used on: dimensions of a
    vector space, or what the pile carries, such as its neighbours.
    """

    part: ClassVar[str]
    """What explanations call its share of the log odds."""
    is_centred: ClassVar[bool] = False
    """Whether the mean row of the pile is taken off, so that only differences count."""
    has_vocabulary: ClassVar[bool] = False
    """Whether the columns are words that the pile names (`Pile.vocabularies`)."""
    reads_text: ClassVar[bool] = False
    """Whether it reads the text with the pile's encoder."""

    @abstractmethod
    def rows(self, pile: Pile) -> Rows:
        """Return the rows of all mentions of a pile, at unit norm or zero."""

    def terms(self, pile: Pile, row: int) -> list[Term] | None:
        """Return terms that add up to a mention's row; None where nobody could read them."""
        return None


def estimate(sample: Sample, features: Iterable[Feature]) -> dict[str, Float32]:
    """Estimate θ(e*) on labelled documents, feature by feature (Sec. 2.2)."""
    found = {feature.name: feature.estimate(sample) for feature in features}
    return {name: group for name, group in found.items() if group is not None}


def encode_features(
    mentions: EncodedMentions, features: Iterable[Feature], kb: KnowledgeBase
) -> EncodedMentions:
    """Look up every feature of the known candidates once; nothing of it changes any more."""
    known = dict(mentions.known)
    for feature in features:
        values = None if feature.name in known else feature.known(mentions, kb)
        if values is not None:
            known[feature.name] = values
    return replace(mentions, known=known)


def library(*arrays: Array) -> ModuleType:
    """Return NumPy, or autograd's copy of it where autograd follows one of the arrays."""
    followed = (array for array in arrays if not isinstance(array, np.ndarray))
    found: ModuleType = next((array.__array_namespace__() for array in followed), np)
    return found


def append(known: Float32, emerging: Array) -> Array:
    """Put the columns of the emerging entities behind those of the known candidates."""
    return library(known, emerging).concatenate([known, emerging], 1)


def weigh(rows: Rows, group: Array) -> Array:
    """Return x(m) · θ for every mention and entity, (M, E); differentiable in θ."""
    if isinstance(group, np.ndarray):
        return np.asarray(rows @ group.T)
    if not isinstance(rows, np.ndarray):  # the few columns that a batch of labels uses
        used = np.unique(rows.indices)
        rows, group = rows[:, used].toarray(), group[:, used]
    return rows @ group.T


def named_columns(names: Sequence[str], row: sparse.csr_matrix) -> list[Term]:
    """Return a sparse row as terms, one for each of its entries."""
    terms = np.zeros((len(names), row.shape[1]))
    terms[np.arange(len(names)), row.indices] = row.data
    return list(zip(names, terms, strict=True))


def unit(vectors: Array) -> Array:
    """Return vectors (..., Q) at unit norm; zeros stay."""
    xp = library(vectors)
    return vectors / xp.sqrt(xp.maximum(xp.sum(vectors * vectors, -1, keepdims=True), LEAST_NORM))
