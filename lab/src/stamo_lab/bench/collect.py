"""How fast a crawl is searched for the names of one, ten or a hundred entities in one pass.

More names find more documents, and these cost time for one entity as for many. So beside a hundred
entities stand as many names that do not occur, which is what looking for them costs.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from stamo.corpus.aliases import AliasGroups, AliasMatcher
from stamo.corpus.reading import list_files, read_documents
from stamo.errors import SettingsError
from stamo_lab.bench.usage import Say

N_DOCUMENTS = 2000
"""Documents that names are drawn from."""
MAX_SHARE = 0.002
"""A name that stands in more than this share of the documents is no new entity's."""
_NAME = re.compile(r"\b[A-Z][a-z]{3,14}(?: [A-Z][a-z]{3,14})?\b")


def measure_passes(
    sources: Sequence[str | Path], sizes: Sequence[int], n_aliases: int, say: Say
) -> list[dict[str, float]]:
    """Search sources for names of entities, in one pass for each size; nothing is linked or kept.

    `speed of the first` compares with the first size, `the same, nothing found` for as many names
    that do not occur, `one by one takes` says how many times as long a pass for each would take.

    Args:
        sources: Files or folders.
        sizes: Numbers of entities; the first one is what the others are compared with.
        n_aliases: Names of each entity, drawn from the sources themselves.
        say: Told what is measured.

    Raises:
        SettingsError: The sources do not hold enough rare names.
    """
    if not sizes or min(sizes) < 1:
        raise SettingsError("Give at least one entity.")
    names = draw_names(sources, max(sizes) * n_aliases)
    n_bytes = sum(file.size for file in list_files(sources))
    rows: list[dict[str, float]] = []
    first = first_scan = 0.0
    for size in sizes:
        say(f"searching for {size}")
        groups = [names[i * n_aliases : (i + 1) * n_aliases] for i in range(size)]
        seconds, n_documents, n_mentions = _search(sources, groups)
        scan = _search(sources, [[_turned(name) for name in group] for group in groups])[0]
        first, first_scan = first or seconds, first_scan or scan
        rows.append(
            {
                "entities": size,
                "documents": n_documents,
                "mentions": n_mentions,
                "CPU s": seconds,
                "MB/CPU s": n_bytes / seconds / 1e6,
                "speed of the first": first / seconds,
                "the same, nothing found": first_scan / scan,
                "one by one takes": first / sizes[0] * size / seconds,
            }
        )
    return rows


def _search(
    sources: Sequence[str | Path], groups: Sequence[Sequence[str]]
) -> tuple[float, int, int]:
    """Return the processor seconds of a pass, and how many documents and mentions it found."""
    begin = time.process_time()
    union = AliasMatcher(sorted({name for group in groups for name in group}))
    owners, matchers = AliasGroups(groups), [AliasMatcher(group) for group in groups]
    n_documents = n_mentions = 0
    for document in read_documents(sources, matcher=union):
        found = sum(len(matchers[i].find(document.text)) for i in owners.of(document.text))
        n_documents += found > 0
        n_mentions += found
    return max(time.process_time() - begin, 1e-9), n_documents, n_mentions


def _turned(name: str) -> str:
    """Return what looks like a name and is none: each word but its capital backwards."""
    return " ".join(word[0] + word[:0:-1] for word in name.split())


def draw_names(sources: Sequence[str | Path], n: int) -> list[str]:
    """Draw names that stand in a few of the first documents: that often is a new entity met."""
    found = [set(_NAME.findall(d.text)) for d in islice(read_documents(sources), N_DOCUMENTS)]
    counts = Counter(name for names in found for name in names)
    most = max(1, int(len(found) * MAX_SHARE))
    rare = sorted(name for name, count in counts.items() if count <= most)
    if len(rare) < n:
        raise SettingsError(
            f"The sources hold {len(rare)} rare names, {n} are needed; give more text or ask for "
            "fewer entities."
        )
    chosen = np.random.default_rng(0).choice(len(rare), size=n, replace=False)
    return [rare[i] for i in chosen.tolist()]
