"""Articles of a source that is no wiki: their titles, names and redirects.

Titles are unique in a knowledge base and need not be in a folder or a table: where several
articles have one title, what tells them apart is added in brackets. A part in brackets is no part
of the name, so all of them stay candidates of it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from stamo.build.dump.site import Site
from stamo.build.extract import MAX_SURFACE
from stamo.build.wikitext.style import sanitise
from stamo.kb.candidates import normalise_surface

_NO_BRACKETS = str.maketrans("()", "[]")


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
    number, free = 1, title
    while free in taken:
        number += 1
        free = f"{title} ({number})"
    return free


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
