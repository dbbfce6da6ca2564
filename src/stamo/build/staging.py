"""The staged tables: what a source becomes before it is counted, whatever its kind.

A source that is no wiki lists articles. Titles are unique in a knowledge base and need not be in a
folder or a table: where several articles have one title, what tells them apart is added in
brackets. A part in brackets is no part of the name, so all of them stay candidates of it.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from stamo.build.dump.site import Site
from stamo.build.engine import BuildState
from stamo.build.export import row_groups
from stamo.build.extract import MAX_SURFACE, STAGED_TABLES, is_held_out, rows_batch
from stamo.build.wikitext.style import sanitise
from stamo.kb.candidates import normalise_surface
from stamo.system.closing import Closing

FindTitle = Callable[[str, int], str | None]
"""Returns the title that a target means on the article of a position; None where it is no link."""

_ROWS = 1 << 14
_NO_BRACKETS = str.maketrans("()", "[]")
_Row = tuple[Any, ...]


class StagedWriter(Closing):
    """Append to staged tables, each one file.

    Args:
        work: The folder of the build.
        tables: Which of them.
        suffix: What stands behind their names.
    """

    def __init__(
        self, work: Path, tables: Iterable[str] = tuple(STAGED_TABLES), suffix: str = ""
    ) -> None:
        self.paths = {name: work / f"{name}{suffix}.parquet" for name in tables}
        # Titles, names and texts hardly repeat: a dictionary is no gain.
        self._writers = {
            name: pq.ParquetWriter(
                path, STAGED_TABLES[name], compression="lz4", use_dictionary=False
            )
            for name, path in self.paths.items()
        }

    def append(self, name: str, batch: pa.RecordBatch) -> None:
        """Write rows of a table behind those already there."""
        if len(batch):
            self._writers[name].write_batch(batch)

    def append_rows(self, name: str, rows: Iterable[_Row]) -> None:
        """Write rows that come one by one."""
        rows = iter(rows)
        while some := list(itertools.islice(rows, _ROWS)):
            self.append(name, rows_batch(some, STAGED_TABLES[name]))

    def close(self) -> None:
        """End the files."""
        for writer in self._writers.values():
            writer.close()


def as_written(build: BuildState) -> StagedWriter:
    """Return where texts and links go as they are written; `settle_articles` reads them.

    Titles and the share held out of what goes there are not looked at.
    """
    return StagedWriter(build.work, ("text", "link"), "-as-written")


def settle_articles(
    build: BuildState,
    articles: Mapping[int, Listed],
    titles: Mapping[int, str],
    written: StagedWriter,
    find_title: FindTitle,
) -> None:
    """Stage articles whose titles and links are settled only when all of them are known.

    They come by their positions, which ascend: pages, redirects, names, texts and links.
    """
    share = build.source.held_out(build.settings)
    with StagedWriter(build.work) as writer:
        writer.append_rows("page", _pages(articles, titles, share))
        names = (
            (name, titles[at], article.count)
            for at, article in articles.items()
            for name in article.all_names()
        )
        writer.append_rows("name", names)
        for batch in row_groups(written.paths["text"]):
            named = [titles[at] for at in batch["position"].to_pylist()]
            held_out = [is_held_out(title, share) for title in named]
            writer.append("text", _with(batch, title=named, held_out=held_out))
        for batch in row_groups(written.paths["link"]):
            pairs = zip(batch["target"].to_pylist(), batch["position"].to_pylist(), strict=True)
            settled = _with(batch, target=[find_title(target, at) for target, at in pairs])
            found = settled["target"]
            build.skipped.update({"link: outside": found.null_count} if found.null_count else {})
            writer.append("link", settled.filter(found.is_valid()))
    for path in written.paths.values():
        path.unlink()


def _pages(
    articles: Mapping[int, Listed], titles: Mapping[int, str], share: float
) -> Iterator[_Row]:
    for at in articles:
        yield at, at + 1, titles[at], "article", None, is_held_out(titles[at], share)
    first = max(articles, default=-1) + 1
    for at, (name, target) in enumerate(redirects(articles, titles), start=first):
        yield at, at + 1, name, "redirect", target, False


def _with(batch: pa.RecordBatch, **columns: list[Any]) -> pa.RecordBatch:
    """Return the same rows with other columns of the given names."""
    arrays = [
        pa.array(columns[field.name], field.type) if field.name in columns else batch[field.name]
        for field in batch.schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


@dataclass(frozen=True, slots=True)
class Listed:
    """An article without its text."""

    title: str
    """As it should be."""
    qualifiers: tuple[str, ...] = ()
    """What may tell it from others of its title, the first that does; "" leaves it as it is."""
    names: tuple[str, ...] = ()
    """What else it is called."""
    count: int = 0
    """How often it is meant by each of its names, as far as the source says."""

    def all_names(self) -> list[str]:
        """Return the title and the other names, each once, as aliases are kept."""
        names = dict.fromkeys(map(normalise_surface, (self.title, *self.names)))
        return [name for name in names if name and len(name) <= MAX_SURFACE]


def tidy_title(title: str, site: Site) -> str:
    """Return a title on one line, without signs that no text has."""
    return site.normalise_title(sanitise(title))


def choose_titles(articles: Sequence[Listed]) -> list[str]:
    """Return a title for each article that no other has."""
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for place, article in enumerate(articles):
        groups[article.title].append(place)
    titles = [article.title for article in articles]
    taken = {title for title, places in groups.items() if len(places) == 1}
    for places in groups.values():
        if len(places) == 1:
            continue
        told_apart = _told_apart([articles[place] for place in places])
        for place, title in zip(places, told_apart, strict=True):
            titles[place] = _free(title, taken)
            taken.add(titles[place])
    return titles


def _told_apart(articles: Sequence[Listed]) -> list[str]:
    titles = [article.title for article in articles]
    for level in range(max(len(article.qualifiers) for article in articles)):
        titles = [_qualified(article, level) for article in articles]
        if len(set(titles)) == len(titles):
            break
    return titles


def _qualified(article: Listed, level: int) -> str:
    qualifier = article.qualifiers[level] if level < len(article.qualifiers) else ""
    return f"{article.title} ({qualifier.translate(_NO_BRACKETS)})" if qualifier else article.title


def _free(title: str, taken: set[str]) -> str:
    others = (f"{title} ({number})" for number in itertools.count(2))
    return next(free for free in itertools.chain([title], others) if free not in taken)


def redirects(
    articles: Mapping[int, Listed], titles: Mapping[int, str]
) -> Iterator[tuple[str, str]]:
    """Yield the names that lead to a single article and are no title, with its title."""
    claims = Counter(name for article in articles.values() for name in article.all_names())
    taken = set(titles.values())
    for at, article in articles.items():
        for name in article.all_names():
            if claims[name] == 1 and name not in taken:
                yield name, titles[at]
