"""The mentions of a batch brought together: each name once a document, and what it comes with.

"Snowden" is short for "Edward Snowden", "Falcon" for "Falcon 9": the last words of a longer name,
or the first ones of a name that is unknown ("Planck" is not short for "Planck Length"). Of several
the most frequent one counts, then the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from stamo.discovery.spans import SMALL_WORDS
from stamo.linking.short_names import in_documents
from stamo.system.arrays import Bools, Int32, Int64

N_NEAR_ENTITIES = 8
"""Linked entities near a name that are kept."""


def full_names(documents: Int32, numbers: Int32, names: Sequence[str], aliases: Int32) -> Int32:
    """Return for what name each of M mentions stands in its document, most for their own, (M,).

    Args:
        documents: The document of each mention, ascending, shape (M,).
        numbers: The name of each mention, shape (M,).
        names: The N distinct names.
        aliases: Their numbers in the knowledge base, -1 for unknown ones, shape (N,).
    """
    used = np.unique(numbers).tolist()
    pairs = np.array(list(_shortened(used, names, aliases)), dtype=np.int64).reshape(-1, 2)
    document, short, full = in_documents(pairs[:, 0], pairs[:, 1], documents, numbers)
    if not len(document):
        return numbers
    n = len(names)
    mine = documents.astype(np.int64) * n + numbers
    present, first, counts = np.unique(mine, return_index=True, return_counts=True)
    place = np.searchsorted(present, document * n + full)
    key = document * n + short
    order = np.lexsort((first[place], -counts[place], key))
    shorts, best = np.unique(key[order], return_index=True)
    stands_for = _last_of_chains(shorts, (document * n + full)[order][best])
    place = np.minimum(np.searchsorted(shorts, mine), len(shorts) - 1)
    return np.where(shorts[place] == mine, stands_for[place] % n, numbers).astype(np.int32)


def _shortened(
    used: Sequence[int], names: Sequence[str], aliases: Int32
) -> Iterator[tuple[int, int]]:
    """Yield a name and a longer one that it may be short for, as numbers."""
    number_by_name = {names[i]: i for i in used}
    is_unknown = (aliases < 0).tolist()
    for full in used:
        name = names[full]
        place = name.find(" ")
        while place >= 0:
            parts = (name[place + 1 :], name[:place]) if is_unknown[full] else (name[place + 1 :],)
            for part in parts:
                if part in number_by_name and _is_whole_name(name):
                    yield number_by_name[part], full
            place = name.find(" ", place + 1)


def _is_whole_name(name: str) -> bool:
    """Tell whether all words of a name have capitals, but for those that never do."""
    return not any(word[:1].islower() and word not in SMALL_WORDS for word in name.split(" "))


def _last_of_chains(keys: Int64, values: Int64) -> Int64:
    """Follow values that are keys themselves to the end; each step leads to a longer name."""
    while True:
        place = np.minimum(np.searchsorted(keys, values), len(keys) - 1)
        is_key = keys[place] == values
        if not is_key.any():
            return values
        values = np.where(is_key, values[place], values)


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
    near, inside = (np.take_along_axis(each, order, axis=1) for each in (near, inside))
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
