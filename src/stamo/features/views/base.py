"""What a view of a mention is: numbers that labels can learn from beyond the model's margin."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from scipy import sparse

from stamo.errors import Ranged
from stamo.features.pile import Pile
from stamo.kb.base import KnowledgeBase
from stamo.system.arrays import Float64

Rows: TypeAlias = Float64 | sparse.csr_matrix
"""One row for each mention, (M, n), at unit norm or zero."""
ViewRows: TypeAlias = Mapping[str, Rows]
"""The views of a pile's mentions, by name."""


Term: TypeAlias = tuple[str, Float64]
"""Something that people can read, with its part of a mention's row, (n,)."""


@dataclass(frozen=True)
class View(Ranged, ABC):
    """A view of a mention.

    The correction of e* (see `stamo.models.evidence`) weighs the columns of every view. What the
    columns stand for is the same in every pile that one θ(e*) is looked up on: dimensions of a
    vector space, or what the pile carries, such as its neighbours.
    """

    name: ClassVar[str]
    """The name of the view; its group of θ(e*) is `evidence NAME`."""
    part: ClassVar[str]
    """What explanations call its share of the log odds."""
    is_centred: ClassVar[bool] = False
    """Whether the mean row of the pile is taken off, so that only differences count."""
    has_vocabulary: ClassVar[bool] = False
    """Whether the columns are words that the pile names (`Pile.vocabulary`)."""
    reads_text: ClassVar[bool] = False
    """Whether it reads the text with the pile's encoder."""

    variance: float = 2.0
    """The prior variance of the weights in log odds; 0 leaves the view out."""
    mean: float = 0.0
    """The weight of every column before any label speaks; mostly 0."""

    ranges: ClassVar = {"variance": 0}

    @abstractmethod
    def rows(self, pile: Pile, kb: KnowledgeBase) -> Rows:
        """Return the rows of all mentions of a pile."""

    def terms(self, pile: Pile, kb: KnowledgeBase, row: int) -> list[Term] | None:
        """Return terms that add up to a mention's row; None where nobody could read them."""
        return None


def view_mentions(pile: Pile, kb: KnowledgeBase, views: Iterable[View]) -> ViewRows:
    """Compute views of a pile; each is kept with the pile, since no slot changes it."""
    return {v.name: pile.keep(f"view {v!r}", lambda v=v: v.rows(pile, kb)) for v in views}  # type: ignore[misc]


def named_columns(names: Sequence[str], row: sparse.csr_matrix) -> list[Term]:
    """Return a sparse row as terms, one for each of its entries."""
    terms = np.zeros((len(names), row.shape[1]))
    terms[np.arange(len(names)), row.indices] = row.data
    return list(zip(names, terms, strict=True))


def unit_rows(rows: Float64) -> Float64:
    """Divide each row by its norm."""
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9))
