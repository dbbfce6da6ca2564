"""Relatedness of entities by the documents they share: WLM (Eq. 3), for many pairs at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stamo.system.arrays import Float32

Counts = NDArray[np.integer[Any]] | NDArray[np.floating[Any]]


def wlm(
    n_a: Counts, n_b: Counts, n_joint: Counts, n_documents: float, *, clip: bool = True
) -> Float32:
    """Return the relatedness of pairs of entities from their document counts.

    Eq. 3 prints log(max(..) - log(..)); we follow Milne & Witten 2008: log(max) - log(joint).

    Args:
        n_a: |D(a)| of each pair, any shape.
        n_b: |D(b)|, of a shape that fits.
        n_joint: |D(a) ∩ D(b)|, of the shape of all pairs.
        n_documents: |D|.
        clip: Keep the values within [0, 1].

    Returns:
        Values, 0 where nothing is shared, of the shape of all pairs.
    """
    shares = n_joint > 0
    larger = np.where(shares, np.maximum(n_a, n_b), 1).astype(np.float64)
    smaller = np.where(shares, np.minimum(n_a, n_b), 1).astype(np.float64)
    joint = np.where(shares, n_joint, 1).astype(np.float64)
    room = np.log(max(n_documents, 1)) - np.log(smaller)
    # An entity of every document leaves no room: nothing can tell it apart from its partner.
    distance = (np.log(larger) - np.log(joint)) / np.where(room > 0, room, 1.0)
    return np.asarray(
        np.where(shares, np.clip(1.0 - distance, 0.0, 1.0) if clip else 1.0 - distance, 0.0),
        np.float32,
    )
