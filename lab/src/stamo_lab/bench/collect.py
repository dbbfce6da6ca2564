"""How fast a crawl is searched for the names of one, ten or a hundred entities in one pass.

More names find more documents, and these cost time for one entity as for many. So two comparisons
are beside that of a hundred entities with one: with names that do not occur, which is what looking
for them costs, and, with a knowledge base, the whole of collecting beside one entity whose name
stands in about as many documents.
"""

from __future__ import annotations

import re
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import numpy as np

from stamo.corpus.aliases import AliasGroups, AliasMatcher
from stamo.corpus.reading import count_bytes, read_documents
from stamo.corpus.types import EmergingEntity
from stamo.errors import SettingsError
from stamo.kb.base import KnowledgeBase
from stamo.models.store import TrainedModel
from stamo.workspace.collect import collect_many
from stamo.workspace.folder import Workspace
from stamo_lab.bench.usage import timed

N_DOCUMENTS = 2000
"""Documents that names are drawn from."""
MAX_SHARE = 0.002
"""A name that stands in more than this share of the documents is no new entity's."""
_NAME = re.compile(r"\b[A-Z][a-z]{3,14}(?: [A-Z][a-z]{3,14})?\b")


@dataclass(frozen=True)
class PassSpeed:
    """One pass for some entities."""

    n_entities: int
    n_documents: int
    """Documents in which one of their names was found."""
    n_mentions: int
    seconds: float
    """Of the processor."""
    megabytes_per_second: float
    """Of the sources as they are stored."""
    ratio: float
    """Speed over that of the first size; the documents that are found are parsed and searched."""
    scan_ratio: float
    """The same for as many names that do not occur: what looking for them costs."""
    saved: float
    """How many times as long one pass for each entity would take."""


@dataclass(frozen=True)
class CollectSpeed:
    """What `stamo bench collect` measures."""

    n_bytes: int
    passes: tuple[PassSpeed, ...]
    peak_memory: int


@dataclass(frozen=True)
class WholeCollect:
    """Collecting with all that belongs to it: search, copies, linking, writing."""

    n_entities: int
    n_kept: int
    """Documents kept, of all entities together."""
    seconds: float
    """Of the processor."""

    @property
    def seconds_per_kept(self) -> float:
        """Return what a document that is kept costs, reading the others included."""
        return self.seconds / max(self.n_kept, 1)


def measure_whole(
    sources: Sequence[str | Path],
    kb: KnowledgeBase,
    trained: TrainedModel,
    n_entities: int,
    *,
    n_aliases: int = 2,
) -> tuple[WholeCollect, WholeCollect]:
    """Collect for one entity under a common name, and for many that find about as much together.

    Raises:
        SettingsError: The sources do not hold enough rare names.
    """
    names = draw_names(sources, n_entities * n_aliases)
    common = _as_common(sources, names)
    _collect([names[:1]], sources, kb, trained)  # what is loaded once is nobody's cost
    groups = [names[i : i + n_aliases] for i in range(0, len(names), n_aliases)]
    return _collect([[common]], sources, kb, trained), _collect(groups, sources, kb, trained)


def _as_common(sources: Sequence[str | Path], names: Sequence[str]) -> str:
    """Return the name that stands in about as many characters of documents as some together.

    Counted behind the documents that these were drawn from, which hold more of them than others.
    """
    rare, n_together, sizes = set(names), 0, Counter[str]()
    read = list(_names_of(sources, 2 * N_DOCUMENTS))
    for found, n_characters in read[N_DOCUMENTS:] or read:
        n_together += n_characters if not rare.isdisjoint(found) else 0
        sizes.update(dict.fromkeys(found, n_characters))
    return min(sizes, key=lambda name: (abs(sizes[name] - n_together), name))


def _collect(
    groups: Sequence[Sequence[str]],
    sources: Sequence[str | Path],
    kb: KnowledgeBase,
    trained: TrainedModel,
) -> WholeCollect:
    with tempfile.TemporaryDirectory() as folder:
        spaces = [
            Workspace.create(
                Path(folder) / str(number),
                EmergingEntity(f"Entity {number}", tuple(names)),
                created_by="bench",
                at=datetime.now(UTC),
            )
            for number, names in enumerate(groups)
        ]
        collected, usage = timed(lambda: collect_many(spaces, sources, kb, trained))
    return WholeCollect(len(groups), sum(one.n_kept for one in collected), usage.cpu_seconds)


def measure_passes(
    sources: Sequence[str | Path],
    sizes: Sequence[int] = (1, 10, 100),
    *,
    n_aliases: int = 2,
    n_rounds: int = 1,
    on_pass: Callable[[int], None] = lambda size: None,
) -> CollectSpeed:
    """Search sources for names of entities, in one pass for each size; nothing is linked or kept.

    Args:
        sources: Files or folders.
        sizes: Numbers of entities; the first one is what the others are compared with.
        n_aliases: Names of each entity, drawn from the sources themselves.
        n_rounds: How often each pass is measured; the fastest counts.
        on_pass: Told the size of each pass before it starts.

    Raises:
        SettingsError: The sources do not hold enough rare names.
    """
    if not sizes or min(sizes) < 1 or n_aliases < 1 or n_rounds < 1:
        raise SettingsError("Give at least one entity, one alias and one round.")
    names = draw_names(sources, max(sizes) * n_aliases)
    n_bytes = count_bytes(sources)
    measured: list[PassSpeed] = []
    first_scan = 0.0
    for size in sizes:
        on_pass(size)
        groups = [names[i * n_aliases : (i + 1) * n_aliases] for i in range(size)]
        absent = [[_turned(name) for name in group] for group in groups]
        seconds, n_documents, n_mentions = min(_search(sources, groups) for _ in range(n_rounds))
        scan = min(_search(sources, absent) for _ in range(n_rounds))[0]
        first_scan = first_scan or scan
        first = measured[0].seconds if measured else seconds
        measured.append(
            PassSpeed(
                n_entities=size,
                n_documents=n_documents,
                n_mentions=n_mentions,
                seconds=seconds,
                megabytes_per_second=n_bytes / seconds / 1e6,
                ratio=first / seconds,
                scan_ratio=first_scan / scan,
                saved=first / sizes[0] * size / seconds,
            )
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return CollectSpeed(n_bytes, tuple(measured), peak * (1 if sys.platform == "darwin" else 1024))


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
    counts: Counter[str] = Counter()
    n_documents = 0
    for found, _ in _names_of(sources, N_DOCUMENTS):
        counts.update(found)
        n_documents += 1
    most = max(1, int(n_documents * MAX_SHARE))
    rare = sorted(name for name, count in counts.items() if count <= most)
    if len(rare) < n:
        raise SettingsError(
            f"The sources hold {len(rare)} rare names, {n} are needed; give more text or ask for "
            "fewer entities."
        )
    chosen = np.random.default_rng(0).choice(len(rare), size=n, replace=False)
    return [rare[i] for i in chosen.tolist()]


def _names_of(sources: Sequence[str | Path], n: int) -> Iterator[tuple[set[str], int]]:
    """Yield what looks like a name in each of the first documents, and their characters."""
    for document in islice(read_documents(sources), n):
        yield set(_NAME.findall(document.text)), len(document.text)
