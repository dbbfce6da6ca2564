"""What a view of a mention is: numbers that labels can learn from beyond the model's margin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from scipy import sparse

from stamo.features.pile import Pile
from stamo.kb.base import KnowledgeBase
from stamo.system.arrays import Float64

Rows: TypeAlias = Float64 | sparse.csr_matrix
"""One row for each mention, (M, n), at unit norm or zero."""
ViewRows: TypeAlias = Mapping[str, Rows]
"""The views of a pile's mentions, by name."""


@runtime_checkable
class View(Protocol):
    """A view of a mention.

    The correction of e* (see `stamo.models.evidence`) weighs the columns of every view. What the
    columns stand for is the same in every pile that one θ(e*) is looked up on: dimensions of a
    vector space, or what the pile carries, such as its neighbours.
    """

    name: str
    """The name of the view; its group of θ(e*) is `evidence NAME`."""
    part: str
    """What explanations call its share of the log odds."""
    is_centred: bool = False
    """Whether the mean row of the pile is taken off, so that only differences count."""
    has_vocabulary: bool = False
    """Whether the columns are words that the pile names (`Pile.vocabulary`)."""
    reads_text: bool = False
    """Whether it reads the text with the pile's encoder."""

    @property
    def variance(self) -> float:
        """The prior variance of the weights in log odds; 0 leaves the view out."""
        ...

    @property
    def mean(self) -> float:
        """The weight of every column before any label speaks; mostly 0."""
        ...

    def rows(self, pile: Pile, kb: KnowledgeBase) -> Rows:
        """Return the rows of all mentions of a pile."""
        ...


Term: TypeAlias = tuple[str, Float64]
"""Something that people can read, with its part of a mention's row, (n,)."""


@runtime_checkable
class TermedView(View, Protocol):
    """A view whose rows are sums of named terms: words, entities, what stands next to a name."""

    def terms(self, pile: Pile, kb: KnowledgeBase, row: int) -> list[Term]:
        """Return the terms that add up to a mention's row."""
        ...


def group_of(view: View) -> str:
    """Return the group of θ(e*) that holds the weights of a view."""
    return f"evidence {view.name}"


def view_mentions(pile: Pile, kb: KnowledgeBase, views: Sequence[View]) -> ViewRows:
    """Compute views of a pile; each is kept with the pile, since no slot changes it."""
    return {v.name: pile.keep(f"view {v!r}", lambda v=v: v.rows(pile, kb)) for v in views}  # type: ignore[misc]


def single_columns(row: sparse.csr_matrix) -> list[sparse.csr_matrix]:
    """Divide a sparse row into rows with one entry each."""
    return [
        sparse.csr_matrix(([value], ([0], [column])), shape=row.shape)
        for value, column in zip(row.data, row.indices, strict=True)
    ]


def unit_rows(rows: Float64) -> Float64:
    """Divide each row by its norm."""
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9))
