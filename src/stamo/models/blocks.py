"""Cut mentions into blocks that are scored together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stamo.system.arrays import Int64

MAX_BLOCK_MENTIONS = 128
MAX_BLOCK_CELLS = 8192
"""Mentions times candidates scored at once: this bounds memory at about 10 MB."""


def blocks(width: Int64, n_mentions: int = MAX_BLOCK_MENTIONS) -> Sequence[Int64]:
    """Cut the mentions with a candidate into blocks of alike width and bounded size.

    Args:
        width: How many candidates each mention has, (M,).
        n_mentions: The most mentions of a block.

    Returns:
        Rows of each block, from the narrowest to the widest mention.
    """
    order = np.argsort(width, kind="stable")
    order = order[width[order] > 0]
    parts, start = [], 0
    while start < len(order):
        end = min(start + n_mentions, len(order))
        cells = width[order[start:end]] * np.arange(1, end - start + 1)
        end = start + max(1, int(np.searchsorted(cells, MAX_BLOCK_CELLS, side="right")))
        parts.append(order[start:end])
        start = end
    return parts
