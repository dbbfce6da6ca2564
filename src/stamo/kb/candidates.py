"""How surface forms are kept and looked up, and their candidate entities with counts and priors."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stamo.kb.storage import Csr, expand
from stamo.system.files import Float32, Float64, Int32, Int64


def normalise_surface(surface: str) -> str:
    """Bring a surface form into the form in which aliases are kept: NFC, single spaces."""
    joined = " ".join(surface.split())
    return joined if joined.isascii() else unicodedata.normalize("NFC", joined)


def normalise_surfaces(surfaces: list[str]) -> list[str]:
    """Normalise many surface forms; one look at all of them together tells what needs work."""
    joined = "|".join(surfaces)
    is_tidy = (
        joined.isprintable()  # then a space is the only white space in it
        and "  " not in joined
        and "| " not in joined
        and " |" not in joined
        and joined.strip(" ") == joined
    )
    if is_tidy and joined.isascii():
        return surfaces
    if not is_tidy:
        return list(map(normalise_surface, surfaces))
    return [s if s.isascii() else unicodedata.normalize("NFC", s) for s in surfaces]


@dataclass(frozen=True, slots=True)
class Candidates:
    """The candidate entities of a mention, the most linked first."""

    ids: Int32
    counts: Int32
    """count(e, m): how often the surface links to the entity."""
    priors: Float32
    """P(e | m); they sum to one."""

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True, eq=False)
class CandidateTable:
    """E(m) and count(e, m) of every alias."""

    _entities: Csr
    _counts: Int32  # of each of the entities
    _totals: Int32  # of each alias

    @property
    def n_candidates(self) -> Int64:
        """How many entities each alias may mean, shape (n_aliases,)."""
        return np.diff(self._entities.indptr)

    def single(self, alias: int) -> Candidates:
        """Return the candidates of one alias, none for -1."""
        begin, end = self._entities.indptr[alias : alias + 2] if alias >= 0 else (0, 0)
        priors = self.batch(np.array([alias]))[1][0, : end - begin]
        return Candidates(self._entities.values[begin:end], self._counts[begin:end], priors)

    def batch(self, aliases: NDArray[Any], top: int | None = None) -> tuple[Int32, Float32]:
        """Return the candidates of many aliases at once.

        Args:
            aliases: Alias numbers, -1 for unknown ones, shape (n,).
            top: How many candidates to give for each at most; all of them by default.

        Returns:
            Entities, shape (n, C) with no more columns than needed, padded with -1, and their
            priors count / total, or the same for all when no link uses the alias, padded with 0.
        """
        known = np.flatnonzero(np.asarray(aliases) >= 0)
        rows = np.asarray(aliases, dtype=np.int64)[known]
        begin = self._entities.indptr[rows]
        n_all = np.asarray(self._entities.indptr[rows + 1] - begin, dtype=np.int64)
        widest = int(n_all.max(initial=1))
        top = widest if top is None else min(top, widest)
        n_taken = np.minimum(n_all, top)
        places = expand(begin, n_taken)
        total = np.repeat(self._totals[rows], n_taken)
        uniform = np.repeat(1.0 / np.maximum(n_all, 1), n_taken)
        priors = np.where(total > 0, self._counts[places] / np.maximum(total, 1), uniform)
        return _padded(len(aliases), top, known, n_taken, self._entities.values[places], priors)

    def counts(self, aliases: Int32, entities: Int32) -> Int64:
        """Return count(e, m) for pairs of alias and entity, 0 where either is -1, shape (n,)."""
        known = np.flatnonzero((aliases >= 0) & (entities >= 0))
        begin, end = (self._entities.indptr[aliases[known].astype(np.int64) + i] for i in (0, 1))
        lengths = end - begin
        places = expand(begin, lengths)
        is_meant = self._entities.values[places] == np.repeat(entities[known], lengths)
        counts = np.where(is_meant, self._counts[places], 0)
        row = np.repeat(known, lengths)
        return np.bincount(row, weights=counts, minlength=len(aliases)).astype(np.int64)

    def mix(
        self, rows: Int64, aliases: Int32, weights: Float64, n_rows: int, top: int
    ) -> MixedCandidates:
        """Join the candidates of several aliases, each with a weight, into the rows of a table.

        Args:
            rows: The row that each alias adds to, shape (n,).
            aliases: Alias numbers, shape (n,).
            weights: Each alias adds its priors times this; a row is then divided by its sum.
            n_rows: How many rows there are.
            top: Candidates of each alias that are looked at.
        """
        used, place = np.unique(aliases, return_inverse=True)
        ids, priors = self.batch(used, top)
        ids, values = ids[place], priors[place] * weights[:, None]
        real = ids >= 0
        keys = (rows[:, None] * np.int64(1 << 32) + ids)[real]
        found, which = np.unique(keys, return_inverse=True)
        mass = np.bincount(which, weights=values[real], minlength=len(found))
        row = found >> 32
        order = np.lexsort((-mass, row))
        row, mass = row[order], mass[order]
        total = np.bincount(row, weights=mass, minlength=n_rows)
        indptr = np.searchsorted(row, np.arange(n_rows + 1))
        entities = (found[order] & 0xFFFFFFFF).astype(np.int32)
        shares = (mass / np.where(total > 0, total, 1.0)[row]).astype(np.float32)
        widest = int(np.diff(indptr).max(initial=0))
        return MixedCandidates(indptr, entities, shares, widest)


@dataclass(frozen=True)
class MixedCandidates:
    """Candidates of names that may mean several aliases, the most likely first."""

    indptr: Int64  # (rows + 1,) where the candidates of each row begin
    entities: Int32
    priors: Float32
    widest: int
    """The largest number of candidates of a row."""

    def batch(self, rows: NDArray[Any], top: int) -> tuple[Int32, Float32]:
        """Return the first candidates of rows, shape (n, top), padded with -1 and 0."""
        begin = self.indptr[rows]
        n_taken = np.minimum(self.indptr[rows + 1] - begin, top)
        places, every = expand(begin, n_taken), np.arange(len(rows))
        return _padded(len(rows), top, every, n_taken, self.entities[places], self.priors[places])


def _padded(
    n: int, top: int, rows: Int64, n_taken: Int64, entities: Int32, priors: NDArray[Any]
) -> tuple[Int32, Float32]:
    """Arrange the candidates of some of n rows side by side, padded with -1 and 0."""
    ids = np.full((n, top), -1, dtype=np.int32)
    values = np.zeros((n, top), dtype=np.float32)
    at = np.repeat(rows, n_taken), expand(np.zeros(len(rows), np.int64), n_taken)
    ids[at], values[at] = entities, priors
    return ids, values
