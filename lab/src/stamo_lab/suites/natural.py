"""Naturally ambiguous names: entities chosen by the paper's criteria from linked text (Sec. 4.1.1).

The emerging entity plays unknown: it is no candidate of its aliases and nobody's context. Its
rivals are whatever else the knowledge base knows under these aliases. Mentions are the links whose
text is an alias, so that several mentions and aliases of one document are possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from stamo.corpus.types import Document
from stamo.errors import SettingsError, SuiteError
from stamo.kb.base import KnowledgeBase
from stamo.system.files import Bools, Float64, Int64
from stamo_lab.suites.conflated import name_entities
from stamo_lab.suites.corpora import Corpora, OnDocuments, SuiteCorpus, write_corpora
from stamo_lab.suites.store import (
    Problem,
    SetName,
    Suite,
    are_drawn,
    lot,
    new_suite,
    open_suite,
    save_problems,
    split_of,
)


@dataclass(frozen=True)
class NaturalSettings:
    """Which entities may play the emerging one, and how documents are divided."""

    n_entities: int = 60
    """Emerging entities at most, development and held-out together."""
    frequency: tuple[int, int] = (40, 2000)
    """Documents that mention the entity; the paper's crawl allowed 1000 to 2000."""
    ambiguity: tuple[float, float] = (0.2, 0.8)
    """Share of the candidate mentions that mean the entity."""
    n_aliases: int = 3
    """The most used names; every one of them must be ambiguous."""
    least_alias_share: float = 0.05
    """Share of the entity's links that a name needs to be one of its aliases."""
    least_rival_links: int = 2
    """Links by which a name must mean something else to be ambiguous."""
    n_documents: int = 1000
    """|W| at most."""
    n_test: int = 200
    """Test documents of each set at most."""
    test_share: float = 0.3
    """Share of the documents that are kept for testing."""
    phi_share: float = 0.5
    """Share of the held-out articles that train the linking model and nothing else."""
    missing: Literal["keep", "drop namesakes", "drop"] = "keep"
    """What links to pages that the dump does not hold are. `keep` takes each page for an entity of
    its own, as it is in a whole dump. In a part of a dump many are redirects whose target cannot be
    known ("Protestant" may be "Protestantism" itself): `drop namesakes` hides those whose title is
    a name of the emerging entity, which then needs an article; `drop` leaves all of them out."""
    least_documents: int = 90
    """Candidate documents that W must have."""
    least_test: int = 5
    """Test mentions that must mean the entity, and that must not."""
    any_title: bool = False
    """Let dates, numbers, lists and common nouns play the emerging entity too."""
    seed: int = 0
    """Another one takes other entities and documents; the split stays."""

    def __post_init__(self) -> None:
        low, high = self.ambiguity
        if self.missing not in {"drop namesakes", "drop", "keep"}:
            raise SettingsError(
                f"Links to missing pages are {self.missing!r}; choose keep, drop namesakes or drop."
            )
        if not 0 < low <= high < 1:
            raise SettingsError(f"The ambiguity {self.ambiguity} must lie between 0 and 1.")
        if self.frequency[0] > self.frequency[1] or not 1 <= self.n_aliases <= 3:
            raise SettingsError("Give a range of frequencies, and one to three aliases.")


@dataclass(frozen=True)
class _Links:
    """The links of some documents, with counts for each pair of text and entity."""

    surfaces: Int64
    entities: Int64
    counts: Int64

    @classmethod
    def of(cls, corpus: SuiteCorpus, usable: Bools) -> _Links:
        """Count the links of the mentions that are usable."""
        flat = corpus.flat
        rows = np.flatnonzero(usable)
        size = int(flat.entities.max(initial=0)) + 1
        keys = flat.surfaces[rows].astype(np.int64) * size + flat.entities[rows]
        pairs, counts = np.unique(keys, return_counts=True)
        return cls(pairs // size, pairs % size, counts)

    def total(self, n_texts: int, entities: tuple[int, ...] | None = None) -> Float64:
        """Return how often each text links, to anything or to some entities, (texts,)."""
        rows = slice(None) if entities is None else np.isin(self.entities, entities)
        weights = self.counts[rows].astype(np.float64)
        return np.bincount(self.surfaces[rows], weights, n_texts).astype(np.float64)

    def by_entity(self, entities: set[int]) -> dict[int, list[tuple[int, int]]]:
        """Return the texts of some entities with their counts, the most used first."""
        found: dict[int, list[tuple[int, int]]] = {}
        order = np.lexsort((self.surfaces, -self.counts))
        for i in order[np.isin(self.entities[order], list(entities))].tolist():
            pair = (int(self.surfaces[i]), int(self.counts[i]))
            found.setdefault(int(self.entities[i]), []).append(pair)
        return found


def natural_problems(
    kb: KnowledgeBase, corpora: Corpora, settings: NaturalSettings, *, from_web: bool
) -> list[Problem]:
    """Choose the emerging entities and their mentions.

    Args:
        kb: The knowledge base.
        corpora: The documents; W comes from those of the crawl, or from the counted articles.
        settings: The criteria.
        from_web: Whether W comes from the crawl; Test-Wiki always comes from the articles.
    """
    source = corpora.web if from_web else corpora.wiki
    usable = ~source.counted if from_web else source.counted
    takes_part = kb.has_article | (settings.missing != "drop")  # as the emerging one or a rival
    links = _Links.of(source, usable[source.flat.documents] & _is_in(source, takes_part))
    total = links.total(len(source.flat.surface_table))
    able = {e for e in _frequent(source, usable, settings) if takes_part[e]}
    if settings.missing != "keep":
        able = {e for e in able if kb.has_article[e]}
    if not settings.any_title:
        numbers = np.array(sorted(able), dtype=np.int64)
        able = set(numbers[name_entities(kb, numbers)].tolist())
    by_entity = links.by_entity(able)
    namesakes = _Namesakes(kb) if settings.missing == "drop namesakes" else None
    order = sorted(able, key=lambda e: lot("order " + kb.title(e), settings.seed))
    divide = _Divide(corpora, settings, takes_part, from_web)
    problems: list[Problem] = []
    for entity in order:
        if len(problems) == settings.n_entities:
            break
        hidden = namesakes.of(entity) if namesakes else ()
        left = total - links.total(len(total), hidden) if hidden else total
        aliases = _aliases(by_entity.get(entity, []), left, settings)
        if aliases:
            texts = tuple(source.flat.surface_table[i] for i in aliases)
            problem = divide.problem(kb.title(entity), entity, texts, hidden)
            if _is_large_enough(problem, source, settings):
                problems.append(problem)
    if not problems:
        raise SuiteError(
            f"None of {len(able)} entities meets the criteria in {len(source.titles)} documents; "
            "use more text, or widen --frequency and --ambiguity."
        )
    return problems


class _Namesakes:
    """Finds the pages that the dump does not hold and whose title is a name of an entity."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self._kb = kb
        self._missing: dict[str, list[int]] = {}
        ids = np.flatnonzero(~kb.has_article)
        for number, title in zip(ids.tolist(), kb.titles(ids), strict=True):
            self._missing.setdefault(title.casefold(), []).append(number)

    def of(self, entity: int) -> tuple[int, ...]:
        """Return the missing pages that are likely redirects to an entity."""
        names = {name.casefold() for name, _ in self._kb.aliases_of(entity)}
        return tuple(sorted(n for name in names for n in self._missing.get(name, [])))


def _is_in(corpus: SuiteCorpus, entities: Bools) -> Bools:
    """Return which mentions are links to some entities."""
    linked = corpus.flat.entities
    return np.asarray((linked >= 0) & entities[np.maximum(linked, 0)])


def _frequent(source: SuiteCorpus, usable: Bools, settings: NaturalSettings) -> set[int]:
    pairs = source.pairs[usable[source.pairs[:, 0]]]
    entities, n_documents = np.unique(pairs[:, 1], return_counts=True)
    low, high = settings.frequency
    return set(entities[(n_documents >= low) & (n_documents <= high)].tolist())


def _aliases(
    texts: Sequence[tuple[int, int]], total: NDArray[Any], settings: NaturalSettings
) -> list[int]:
    """Return the most used texts of an entity, none where one of them is not ambiguous."""
    n_links = sum(count for _, count in texts)
    used = [
        (text, count)
        for text, count in texts[: settings.n_aliases]
        if count >= settings.least_alias_share * n_links
    ]
    own = sum(count for _, count in used)
    share = own / max(sum(float(total[text]) for text, _ in used), 1.0)
    ambiguous = all(total[text] - count >= settings.least_rival_links for text, count in used)
    low, high = settings.ambiguity
    return [text for text, _ in used] if ambiguous and low <= share <= high else []


class _Divide:
    """Divides the candidate mentions of an entity into W and the test sets, by document."""

    def __init__(
        self, corpora: Corpora, settings: NaturalSettings, takes_part: Bools, from_web: bool
    ) -> None:
        self._corpora, self._settings, self._from_web = corpora, settings, from_web
        self._takes_part = takes_part
        titles = corpora.wiki.titles
        for_test = are_drawn(("test " + title for title in titles), settings.test_share)
        for_phi = are_drawn(("phi " + title for title in titles), settings.phi_share)
        counted, numbers = corpora.wiki.counted, range(corpora.web.flat.n_documents)
        self._web_test = are_drawn((f"document {i}" for i in numbers), settings.test_share)
        self._wiki_test = np.where(counted, for_test | from_web, ~for_phi)
        self._wiki_w = counted & ~for_test

    def problem(
        self, title: str, entity: int, aliases: tuple[str, ...], hidden: tuple[int, ...] = ()
    ) -> Problem:
        rng = np.random.default_rng(lot(f"natural {title}", self._settings.seed))
        corpora, settings = self._corpora, self._settings
        usable = self._takes_part.copy()
        usable[list(hidden)] = False
        wiki, web = (
            _named(corpus, title, aliases, usable) for corpus in (corpora.wiki, corpora.web)
        )
        in_wiki, in_web = corpora.wiki.flat.documents[wiki], corpora.web.flat.documents[web]
        rows: dict[SetName, Int64] = {
            "W": web[~self._web_test[in_web]] if self._from_web else wiki[self._wiki_w[in_wiki]],
            "test-web": web[self._web_test[in_web]],
            "test-wiki": wiki[self._wiki_test[in_wiki]],
        }
        gold: dict[SetName, Int64] = {}
        for name, chosen in rows.items():
            is_web = name == "test-web" or (name == "W" and self._from_web)
            corpus = corpora.web if is_web else corpora.wiki
            n = settings.n_documents if name == "W" else settings.n_test
            rows[name] = _sample_documents(chosen, corpus, n, rng)
            gold[name] = (corpus.flat.entities[rows[name]] != entity).astype(np.int64)
        return Problem(title, split_of(title), aliases, (entity,), (0.0,), rows, gold, hidden)


def _named(corpus: SuiteCorpus, title: str, aliases: tuple[str, ...], usable: Bools) -> Int64:
    """Return the links whose text is an alias, not those in the document about the entity."""
    rows = np.flatnonzero(corpus.has_text(aliases) & _is_in(corpus, usable))
    about = {i for i in np.unique(corpus.flat.documents[rows]) if corpus.titles[i] == title}
    return rows[~np.isin(corpus.flat.documents[rows], list(about))]


def _sample_documents(rows: Int64, corpus: SuiteCorpus, n: int, rng: np.random.Generator) -> Int64:
    documents = corpus.flat.documents[rows]
    chosen = rng.permutation(np.unique(documents))[:n]
    return rows[np.isin(documents, chosen)]


def _is_large_enough(problem: Problem, source: SuiteCorpus, settings: NaturalSettings) -> bool:
    n_documents = len(np.unique(source.flat.documents[problem.rows["W"]]))
    tests = problem.gold["test-wiki"]
    n_emerging = int((tests == 0).sum())
    return (
        n_documents >= settings.least_documents
        and n_emerging >= settings.least_test
        and len(tests) - n_emerging >= settings.least_test
    )


def make_natural(
    kb: KnowledgeBase,
    out: Path,
    settings: NaturalSettings = NaturalSettings(),
    pages: Iterable[Document] | None = None,
    *,
    overwrite: bool = False,
    n_workers: int | None = None,
    on_document: OnDocuments = lambda n: None,
) -> Suite:
    """Write a suite of naturally ambiguous names.

    They come from the dump's own links or, which is the paper's own suite, from annotated pages of
    a crawl (FACC1).
    """
    kind, corpus = ("natural", kb.name) if pages is None else ("facc1", "ClueWeb12 FACC1")
    with new_suite(out, overwrite=overwrite) as directory:
        corpora = write_corpora(
            directory, kb, pages or [], None, n_workers=n_workers, on_documents=on_document
        )
        problems = natural_problems(kb, corpora, settings, from_web=pages is not None)
        save_problems(
            directory, problems, {"kind": kind, "corpus": corpus, "settings": asdict(settings)}, kb
        )
    return open_suite(out, kb)
