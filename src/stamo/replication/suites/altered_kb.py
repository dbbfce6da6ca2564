"""A knowledge base seen otherwise: without some entities, or with other names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from stamo.features.encoding import UNKNOWN
from stamo.kb.base import KnowledgeBase
from stamo.system.arrays import Float32, Int32


@dataclass(frozen=True)
class AlteredKb:
    """The candidates of a knowledge base, changed without touching it.

    Benchmarks hide an entity to play the emerging one, and give several entities one shared name.
    """

    kb: KnowledgeBase
    hidden: frozenset[int] = frozenset()
    """Entities that are candidates of nothing; the others' priors are rescaled to sum to one."""
    names: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    """Names that replace the knowledge base's: surface -> entity -> count."""

    def candidate_table(
        self, surfaces: Sequence[str], top: int | None = None
    ) -> tuple[Int32, Float32]:
        """Return candidates (n, C), padded with -1, and their priors (n, C)."""
        ids, priors = self.kb.candidate_table(surfaces, None)
        rows = [self._row(s, ids[i], priors[i]) for i, s in enumerate(surfaces)]
        width = max([1, *(len(row[0]) for row in rows)])
        width = width if top is None else min(top, width)
        table = np.full((len(rows), width), UNKNOWN, dtype=np.int32)
        values = np.zeros((len(rows), width), dtype=np.float32)
        for i, (row_ids, row_priors) in enumerate(rows):
            n = min(width, len(row_ids))
            table[i, :n], values[i, :n] = row_ids[:n], row_priors[:n]
        return table, values

    def _row(self, surface: str, ids: Int32, priors: Float32) -> tuple[Int32, Float32]:
        if surface in self.names:
            counts = self.names[surface]
            ids = np.array(sorted(counts, key=lambda e: (-counts[e], e)), dtype=np.int32)
            priors = np.array([counts[e] for e in ids.tolist()], dtype=np.float32)
        keep = (ids >= 0) & ~np.isin(ids, list(self.hidden))
        ids, priors = ids[keep], priors[keep]
        total = float(priors.sum())
        return ids, priors / total if total > 0 else np.full(len(ids), 1 / max(len(ids), 1))
