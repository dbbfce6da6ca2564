"""The entities that other names near a name are linked to."""

from __future__ import annotations

import numpy as np

from stamo.discovery.document_names import DocumentNames
from stamo.system.arrays import Int32, Int64

N_NEAR_ENTITIES = 8
"""Linked entities near a name that are kept."""


def companions(
    names: DocumentNames, chosen: Int64, linked: Int32, numbers: Int32, documents: Int32
) -> list[tuple[int, ...]]:
    """Return the entities that other names near the chosen ones are linked to, the nearest first.

    Args:
        names: The names of documents.
        chosen: Which of them, shape (n,).
        linked: The entity that each mention is linked to, -1 for none, shape (M,).
        numbers: The name of each mention, shape (M,).
        documents: The document of each mention, ascending, shape (M,).
    """
    rows = np.flatnonzero(linked >= 0)
    if not len(rows) or not len(chosen):
        return [()] * len(chosen)
    at, document = names.rows[chosen], names.documents[chosen]
    width = np.arange(-N_NEAR_ENTITIES, N_NEAR_ENTITIES + 1)
    near = np.searchsorted(rows, at)[:, None] + width  # (n, 17)
    inside = (near >= 0) & (near < len(rows))
    near = rows[np.clip(near, 0, len(rows) - 1)]
    inside &= documents[near] == document[:, None]
    away = np.where(inside, np.abs(near - at[:, None]), len(linked))
    order = np.argsort(away, axis=1, kind="stable")
    near, inside = (
        np.take_along_axis(near, order, axis=1),
        np.take_along_axis(inside, order, axis=1),
    )
    inside &= ~names.includes(chosen, numbers[near])
    return _distinct(np.where(inside, linked[near], -1))


def _distinct(entities: Int32) -> list[tuple[int, ...]]:
    """Return the first distinct entities of each row of (n, k), without -1."""
    new = entities >= 0
    for i in range(1, entities.shape[1]):
        new[:, i] &= (entities[:, :i] != entities[:, i : i + 1]).all(axis=1)
    new &= np.cumsum(new, axis=1) <= N_NEAR_ENTITIES
    found = entities[new].tolist()
    ends = np.cumsum(new.sum(axis=1)).tolist()
    return [tuple(found[a:b]) for a, b in zip([0, *ends], ends, strict=False)]
