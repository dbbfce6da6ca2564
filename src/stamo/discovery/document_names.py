"""The mentions of a batch brought together: each name once a document."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stamo.system.arrays import Bools, Int32, Int64


@dataclass(frozen=True)
class DocumentNames:
    """The G names of documents, ordered by document and first mention."""

    documents: Int32  # (G,)
    names: Int32  # (G,) number of the name
    rows: Int64  # (G,) first mention
    n_mentions: Int64  # (G,)
    short: Int64  # (S,) a name of a document...
    short_names: Int64  # (S,) ...and the number of a short name that stands for it there

    @classmethod
    def of(cls, documents: Int32, rows: Int64, own: Int32, full: Int32) -> DocumentNames:
        """Bring mentions together by the name that they stand for.

        Args:
            documents: The document of each mention, ascending, shape (M,).
            rows: The number of each mention, ascending, shape (M,).
            own: The name of each mention, shape (M,).
            full: The name that each mention stands for, shape (M,).
        """
        n = int(full.max(initial=0)) + 1
        keys = documents.astype(np.int64) * n + full
        keys, first, place, counts = np.unique(
            keys, return_index=True, return_inverse=True, return_counts=True
        )
        order = np.argsort(first)
        group_of = np.empty_like(order)
        group_of[order] = np.arange(len(order))
        is_short = np.flatnonzero(own != full)
        pairs = np.unique(group_of[place[is_short]] << 32 | own[is_short])
        return cls(
            documents[first[order]],
            (keys % n)[order].astype(np.int32),
            rows[first[order]],
            counts[order],
            pairs >> 32,
            pairs & 0xFFFFFFFF,
        )

    def includes(self, chosen: Int64, numbers: Int32) -> Bools:
        """Tell which names, (n, k), are those of chosen names of documents, (n,), or short."""
        same = numbers == self.names[chosen][:, None]
        rows = np.flatnonzero(np.isin(chosen, self.short))
        pairs = self.short << 32 | self.short_names
        same[rows] |= np.isin(chosen[rows][:, None] << 32 | numbers[rows], pairs)
        return np.asarray(same)

    def short_by_name(self, texts: list[str]) -> dict[int, tuple[str, ...]]:
        """Return the short names of those names of documents that have any."""
        found: dict[int, list[str]] = {}
        for name, short in zip(self.short.tolist(), self.short_names.tolist(), strict=True):
            found.setdefault(name, []).append(texts[short])
        return {name: tuple(sorted(shorts)) for name, shorts in found.items()}
