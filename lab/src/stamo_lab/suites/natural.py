"""Naturally ambiguous names: entities chosen by the paper's criteria from linked text (Sec. 4.1.1).

The emerging entity plays unknown: it is no candidate of its aliases and nobody's context. Its
rivals are whatever else the knowledge base knows under these aliases. Mentions are the links whose
text is an alias, so that several mentions and aliases of one document are possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stamo.corpus.types import Document
from stamo.errors import SettingsError, SuiteError
from stamo.kb.base import KnowledgeBase
from stamo.system.files import Int64
from stamo_lab.suites.conflated import name_entities
from stamo_lab.suites.corpora import Corpora, OnDocuments, SuiteCorpus, write_corpora
from stamo_lab.suites.store import (
    PHI_SHARE,
    TEST_SHARE,
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

N_ALIASES = 3
"""The most used names are the aliases; every one of them must be ambiguous."""
LEAST_ALIAS_SHARE = 0.05
"""Share of the entity's links that a name needs to be one of its aliases."""
N_DOCUMENTS, N_TEST = 1000, 200
"""Documents of W, and of each test set, at most."""


@dataclass(frozen=True)
class NaturalSettings:
    """Which entities may play the emerging one, and how documents are divided."""

    n_entities: int = 60
    """Emerging entities at most, development and held-out together."""
    frequency: tuple[int, int] = (40, 2000)
    """Documents that mention the entity; the paper's crawl allowed 1000 to 2000."""
    ambiguity: tuple[float, float] = (0.2, 0.8)
    """Share of the candidate mentions that mean the entity."""
    least_rival_links: int = 2
    """Links by which a name must mean something else to be ambiguous."""
    least_documents: int = 90
    """Candidate documents that W must have."""
    least_test: int = 5
    """Test mentions that must mean the entity, and that must not."""
    any_title: bool = False
    """Let dates, numbers, lists and common nouns play the emerging entity too."""

    def __post_init__(self) -> None:
        low, high = self.ambiguity
        if not 0 < low <= high < 1:
            raise SettingsError(f"The ambiguity {self.ambiguity} must lie between 0 and 1.")
        if self.frequency[0] > self.frequency[1]:
            raise SettingsError(f"The frequencies {self.frequency} are no range.")


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
    flat, usable = source.flat, ~source.counted if from_web else source.counted
    # The entities that as many documents mention as is asked for, and that bear a name.
    pairs = source.pairs[usable[source.pairs[:, 0]]]
    mentioned, n_documents = np.unique(pairs[:, 1], return_counts=True)
    low, high = settings.frequency
    frequent = mentioned[(n_documents >= low) & (n_documents <= high)]
    named = frequent if settings.any_title else frequent[name_entities(kb, frequent)]
    able = set(named.tolist())
    # How often each text links each entity.
    links = np.flatnonzero(usable[flat.documents] & (flat.entities >= 0))
    size = int(flat.entities.max(initial=0)) + 1
    keys = flat.surfaces[links].astype(np.int64) * size + flat.entities[links]
    pairs, counts = np.unique(keys, return_counts=True)
    texts, entities = pairs // size, pairs % size
    n_links = np.bincount(texts, counts.astype(np.float64), len(flat.surface_table))
    by_entity: dict[int, list[tuple[int, int]]] = {}
    for row in np.lexsort((texts, -counts)).tolist():  # the most used first
        if int(entities[row]) in able:
            own = by_entity.setdefault(int(entities[row]), [])
            own.append((int(texts[row]), int(counts[row])))
    divide = _Divide(corpora, from_web)
    problems: list[Problem] = []
    for entity in sorted(able, key=lambda e: lot("order " + kb.title(e))):
        if len(problems) == settings.n_entities:
            break
        aliases = _aliases(by_entity.get(entity, []), n_links, settings)
        if aliases:
            names = tuple(flat.surface_table[i] for i in aliases)
            problem = divide.problem(kb.title(entity), entity, names)
            if _is_large_enough(problem, source, settings):
                problems.append(problem)
    if not problems:
        raise SuiteError(
            f"None of {len(able)} entities meets the criteria in {len(source.titles)} documents; "
            "use more text, or widen --frequency and --ambiguity."
        )
    return problems


def _aliases(
    texts: Sequence[tuple[int, int]], n_links: NDArray[Any], settings: NaturalSettings
) -> list[int]:
    """Return the most used texts of an entity, none where one of them is not ambiguous."""
    least = LEAST_ALIAS_SHARE * sum(count for _, count in texts)
    used = [(text, count) for text, count in texts[:N_ALIASES] if count >= least]
    own = sum(count for _, count in used)
    share = own / max(sum(float(n_links[text]) for text, _ in used), 1.0)
    ambiguous = all(n_links[text] - count >= settings.least_rival_links for text, count in used)
    low, high = settings.ambiguity
    return [text for text, _ in used] if ambiguous and low <= share <= high else []


class _Divide:
    """Divides the candidate mentions of an entity into W and the test sets, by document."""

    def __init__(self, corpora: Corpora, from_web: bool) -> None:
        self._corpora, self._from_web = corpora, from_web
        titles = corpora.wiki.titles
        for_test = are_drawn(("test " + title for title in titles), TEST_SHARE)
        for_phi = are_drawn(("phi " + title for title in titles), PHI_SHARE)
        counted, numbers = corpora.wiki.counted, range(corpora.web.flat.n_documents)
        self._web_test = are_drawn((f"document {i}" for i in numbers), TEST_SHARE)
        self._wiki_test = np.where(counted, for_test | from_web, ~for_phi)
        self._wiki_w = counted & ~for_test

    def problem(self, title: str, entity: int, aliases: tuple[str, ...]) -> Problem:
        rng = np.random.default_rng(lot(f"natural {title}"))
        corpora = self._corpora
        wiki, web = (_named(corpus, title, aliases) for corpus in (corpora.wiki, corpora.web))
        in_wiki, in_web = corpora.wiki.flat.documents[wiki], corpora.web.flat.documents[web]
        rows: dict[SetName, Int64] = {
            "W": web[~self._web_test[in_web]] if self._from_web else wiki[self._wiki_w[in_wiki]],
            "test-web": web[self._web_test[in_web]],
            "test-wiki": wiki[self._wiki_test[in_wiki]],
        }
        gold: dict[SetName, Int64] = {}
        for name, found in rows.items():
            is_web = name == "test-web" or (name == "W" and self._from_web)
            flat = (corpora.web if is_web else corpora.wiki).flat
            n = N_DOCUMENTS if name == "W" else N_TEST
            documents = flat.documents[found]
            chosen = rng.permutation(np.unique(documents))[:n]
            rows[name] = found[np.isin(documents, chosen)]
            gold[name] = (flat.entities[rows[name]] != entity).astype(np.int64)
        return Problem(title, split_of(title), aliases, (entity,), rows, gold)


def _named(corpus: SuiteCorpus, title: str, aliases: tuple[str, ...]) -> Int64:
    """Return the links whose text is an alias, not those in the document about the entity."""
    flat = corpus.flat
    rows = np.flatnonzero(corpus.has_text(aliases) & (flat.entities >= 0))
    about = {i for i in np.unique(flat.documents[rows]) if corpus.titles[i] == title}
    return rows[~np.isin(flat.documents[rows], list(about))]


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
    on_document: OnDocuments = lambda n: None,
) -> Suite:
    """Write a suite of naturally ambiguous names.

    They come from the dump's own links or, which is the paper's own suite, from annotated pages of
    a crawl (FACC1).
    """
    kind, corpus = ("natural", kb.name) if pages is None else ("facc1", "ClueWeb12 FACC1")
    with new_suite(out, overwrite=overwrite) as directory:
        corpora = write_corpora(directory, kb, pages or [], None, on_documents=on_document)
        problems = natural_problems(kb, corpora, settings, from_web=pages is not None)
        save_problems(
            directory, problems, {"kind": kind, "corpus": corpus, "settings": asdict(settings)}, kb
        )
    return open_suite(out, kb)
