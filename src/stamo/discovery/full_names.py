"""Short names of a document that stand for full names which it uses too.

"Snowden" is short for "Edward Snowden", "Falcon" for "Falcon 9": the last words of a longer name,
or the first ones of a name that is unknown ("Planck" is not short for "Planck Length"). Of several
the most frequent one counts, then the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from stamo.discovery.spans import SMALL_WORDS
from stamo.linking.short_names import in_documents
from stamo.system.arrays import Int32, Int64


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
