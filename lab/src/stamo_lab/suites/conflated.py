"""Conflated names: the pseudo-word method of word-sense disambiguation.

Entities with a practically unambiguous name are grouped, and all of them renamed to one shared
name. Which entity a mention means is then known exactly, at any scale. The words of all the
group's names are masked in contexts and the group's entities are nobody's context, so that nothing
but the surroundings can tell them apart.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from stamo.corpus.types import Document
from stamo.errors import SettingsError, SuiteError
from stamo.features.mentions import FlatCorpus
from stamo.kb.base import KnowledgeBase
from stamo.system.files import Bools, Int64
from stamo_lab.suites.cells import check_names
from stamo_lab.suites.corpora import (
    DOCUMENTS,
    FLAT_ARTICLES,
    FLAT_DOCUMENTS,
    LEAST_LINK_PROBABILITY,
    Corpora,
    Names,
    OnDocuments,
    SuiteCorpus,
    unambiguous_names,
    write_corpora,
)
from stamo_lab.suites.store import (
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
    stable_hash,
)
from stamo_lab.suites.training import MENTIONS_OF_A_GROUP

_MONTH = "January|February|March|April|May|June|July|August|September|October|November|December"
_NO_ENTITY = re.compile(
    rf"""
    (?:{_MONTH})(?:\ \d+)?(?:,?\ \d+)?   # January, January 1, January 2004
    | \d+(?:st|nd|rd|th)?\ (?:{_MONTH}).*  # 1 January
    | [\d.,\ –-]+(?:s|st|nd|rd|th)?(?:\ (?:century|millennium|BCE?|AD))*  # 1987, 19th century
    | (?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)
    | (?:(?:List|Lists|Index|Outline|Timeline|Table|Glossary)\ of|Comparison\ of)\ .*
    | .*\((?:number|disambiguation|year)\)
    """,
    re.VERBOSE | re.IGNORECASE,
)
MOST_LOWER = 0.5
"""Share of the dump's links to a title in lower case from which on it is a common noun."""


def is_entity_title(title: str) -> bool:
    """Return whether a title is no date, number or list."""
    return _NO_ENTITY.fullmatch(title) is None


def name_entities(kb: KnowledgeBase, entities: Int64) -> Bools:
    """Return which entities bear a name.

    Dates, numbers and lists do not, nor what the dump mostly links in lower case ("cuisine"); in a
    script without capitals nothing is in lower case.
    """
    found = np.zeros(len(entities), dtype=np.bool_)
    for i, title in enumerate(kb.titles(entities)):
        if is_entity_title(title):
            names = kb.aliases_of(int(entities[i]))
            lower = sum(count for name, count in names if name[:1].islower())
            found[i] = lower <= MOST_LOWER * sum(count for _, count in names)
    return found


Level = Literal["easy", "mid", "hard"]
LEVELS: tuple[Level, ...] = ("easy", "mid", "hard")
TRAINING_SHARE = 1 / 3
"""Share of the entities that only serve to train the linking model."""


@dataclass(frozen=True)
class ConflatedSettings:
    """How groups are formed."""

    level: Level = "easy"
    """Rivals: random (easy), of related type (mid: neighbour ranks 9 to 70), nearest (hard)."""
    n_entities: int = 100
    """Emerging entities at most, development and held-out together."""
    n_rivals: tuple[int, int] = (3, 8)
    share: tuple[float, float] = (0.3, 0.7)
    """Share of the mentions that mean the emerging entity."""
    n_documents: int = 1000
    """|W| at most."""
    n_test: int = 200
    """Test mentions of each set at most."""
    least_documents: int = 100
    """Documents of the corpus that must mention an emerging entity."""
    least_rival_documents: int = 25
    least_frequency: int = 10
    """Documents of the dump that must link an entity of a group, |D(e)|."""
    least_emerging: int = 40
    """Mentions in W that must mean the emerging entity."""
    least_mentions: int = 120
    """Candidate mentions that W must have."""
    least_test: int = 5
    """Mentions of each test set that must mean the emerging entity."""
    n_training_mentions: int = 12_000
    any_title: bool = False
    """Let dates, numbers, lists and common nouns play entities too."""
    least_link_probability: float = LEAST_LINK_PROBABILITY
    """Share of the articles with a name that must link it, for the name to be unambiguous."""

    def __post_init__(self) -> None:
        low, high = self.share
        if not 0 < low <= high < 1:
            raise SettingsError(f"The share {self.share} must lie between 0 and 1.")
        if not 1 <= self.n_rivals[0] <= self.n_rivals[1]:
            raise SettingsError(f"The number of rivals {self.n_rivals} is no range from 1 on.")
        check_names("levels", [self.level], LEVELS)


@dataclass(frozen=True)
class EntityOccurrences:
    """For each entity, one mention in each document that mentions it (not the one about itself)."""

    corpus: FlatCorpus
    rows: dict[int, Int64]

    @classmethod
    def of(cls, source: SuiteCorpus, kb: KnowledgeBase, pool: Int64) -> EntityOccurrences:
        """Collect the first mention of each entity of `pool` in each document."""
        corpus, about = source.flat, kb.entity_ids(list(source.titles))  # what each is about
        usable = np.isin(corpus.entities, pool)
        usable &= corpus.entities != about[corpus.documents]
        rows = np.flatnonzero(usable)
        pairs = np.stack([corpus.entities[rows], corpus.documents[rows]], axis=1)
        _, first = np.unique(pairs, axis=0, return_index=True)  # the first mention of each pair
        rows = rows[first]
        entities = corpus.entities[rows]
        cuts = np.flatnonzero(np.diff(entities)) + 1
        parts = np.split(rows, cuts)
        return cls(corpus, {int(corpus.entities[part[0]]): part for part in parts if len(part)})

    def count(self, entity: int) -> int:
        """Return the number of documents that mention an entity."""
        return len(self.rows.get(entity, ()))

    def draw(
        self, group: tuple[int, ...], share: float, cap: int | None, rng: np.random.Generator
    ) -> tuple[Int64, Int64]:
        """Choose mentions so that `share` of them mean the emerging entity, one a document."""
        empty = np.zeros(0, dtype=np.int64)
        parts = [self.rows.get(e, empty) for e in group]
        rows = np.concatenate(parts)
        gold = np.repeat(np.arange(len(group)), [len(p) for p in parts])
        # A document that mentions several of the group goes to one of them, by lot.
        order = rng.permutation(len(rows))
        _, first = np.unique(self.corpus.documents[rows[order]], return_index=True)
        order = order[np.sort(first)]
        rows, gold = rows[order], gold[order]
        is_emerging = gold == 0
        n_emerging, n_rivals = int(is_emerging.sum()), int((~is_emerging).sum())
        total = min(n_emerging / share, n_rivals / (1 - share), np.inf if cap is None else cap)
        chosen = np.concatenate(
            [
                np.flatnonzero(is_emerging)[: int(total * share)],
                np.flatnonzero(~is_emerging)[: int(total * (1 - share))],
            ]
        )
        chosen = rng.permutation(chosen)
        return rows[chosen], gold[chosen]


class GroupMaker:
    """Forms groups of entities and assigns their mentions."""

    def __init__(
        self,
        kb: KnowledgeBase,
        web: EntityOccurrences,
        wiki: EntityOccurrences,
        settings: ConflatedSettings,
    ) -> None:
        self._kb, self._settings = kb, settings
        self._web, self._wiki = web, wiki
        frequent = [
            entity
            for entity in sorted(web.rows)
            if web.count(entity) >= settings.least_rival_documents
            and kb.document_frequency[entity] >= settings.least_frequency
        ]
        titles = kb.titles(frequent)
        for_training = are_drawn(("pool " + title for title in titles), TRAINING_SHARE)
        pool = np.array(frequent, dtype=np.int64)
        self.training_pool, self.pool = pool[for_training], pool[~for_training]

    def emerging(self) -> list[int]:
        """Return the entities that can play the emerging one, in an order of their titles' hash."""
        able = [int(e) for e in self.pool if self._web.count(e) >= self._settings.least_documents]
        able.sort(key=lambda e: lot("order " + self._kb.title(e)))
        return able[: self._settings.n_entities]

    def make(self, entity: int, pool: Int64, *, training: bool = False) -> Problem:
        """Form the group of one emerging entity and choose its mentions."""
        settings, title = self._settings, self._kb.title(entity)
        rng = np.random.default_rng(lot(f"{settings.level} {title}"))
        group = (entity, *self._rivals(entity, pool, rng))
        share = float(rng.uniform(*settings.share))
        web_rows, web_gold = self._web.draw(group, share, None, rng)
        documents = self._web.corpus.documents[web_rows].tolist()
        is_test = are_drawn((f"document {d}" for d in documents), TEST_SHARE)
        n_wiki = 0 if training else settings.n_test
        wiki_rows, wiki_gold = self._wiki.draw(group, share, n_wiki, rng)

        def by_set(web: Int64, wiki: Int64) -> dict[SetName, Int64]:
            w, test = web[~is_test][: settings.n_documents], web[is_test][: settings.n_test]
            return {"W": w, "test-web": test, "test-wiki": wiki}

        return Problem(
            title=title,
            split="training" if training else split_of(title),
            aliases=(f"Name {stable_hash(title, 10**6):06d}",),
            group=group,
            rows=by_set(web_rows, wiki_rows),
            gold=by_set(web_gold, wiki_gold),
        )

    def _rivals(self, entity: int, pool: Int64, rng: np.random.Generator) -> tuple[int, ...]:
        low, high = self._settings.n_rivals
        n = int(rng.integers(low, high + 1))
        others = pool[pool != entity]
        if len(others) < n:
            raise SuiteError(
                f"Only {len(others)} entities can be rivals, but {n} are needed; use a larger "
                "corpus or ask for fewer documents of each."
            )
        if self._settings.level in {"mid", "hard"}:
            vectors = self._kb.entity_vectors()
            order = np.argsort(-(vectors[others] @ vectors[entity]), kind="stable")
            others = others[order[:n]] if self._settings.level == "hard" else others[order[8:70]]
        return tuple(int(e) for e in rng.choice(others, n, replace=False))


def make_conflated(
    kb: KnowledgeBase,
    documents: Iterable[Document],
    out: Path,
    levels: Sequence[ConflatedSettings] = (ConflatedSettings(),),
    *,
    corpus_name: str = "",
    overwrite: bool = False,
    on_document: OnDocuments = lambda n: None,
) -> list[Suite]:
    """Write a conflated suite.

    Several levels become suites below `out`, which share the files of the documents.
    """
    paths = [out / settings.level if len(levels) > 1 else out for settings in levels]
    names = unambiguous_names(kb, levels[0].least_link_probability)
    corpora: Corpora | None = None
    for path, settings in zip(paths, levels, strict=True):
        with new_suite(path, overwrite=overwrite) as directory:
            if corpora is None:
                corpora = write_corpora(
                    directory,
                    kb,
                    documents,
                    settings.least_link_probability,
                    on_documents=on_document,
                )
            else:
                _share(paths[0], directory)
            problems = conflated_problems(kb, corpora, names, settings)
            save_problems(
                directory,
                problems,
                {"kind": "conflated", "corpus": corpus_name, "settings": asdict(settings)},
                kb,
            )
    return [open_suite(path, kb) for path in paths]


def _share(source: Path, target: Path) -> None:
    """Link the files of the documents instead of copying them, where the file system can."""
    for name in (DOCUMENTS, FLAT_DOCUMENTS, FLAT_ARTICLES):
        try:
            os.link(source / name, target / name)
        except OSError:
            (target / name).write_bytes((source / name).read_bytes())


def conflated_problems(
    kb: KnowledgeBase, corpora: Corpora, names: Names, settings: ConflatedSettings
) -> list[Problem]:
    """Form the groups of all emerging entities, and those that train the linking model."""
    pool = np.unique(names.entities).astype(np.int64)
    if not settings.any_title:
        pool = pool[name_entities(kb, pool)]
    web, wiki = (EntityOccurrences.of(corpus, kb, pool) for corpus in (corpora.web, corpora.wiki))
    maker = GroupMaker(kb, web, wiki, settings)
    problems = [maker.make(entity, maker.pool) for entity in maker.emerging()]
    problems = [p for p in problems if _is_large_enough(p, settings)]
    if not problems:
        raise SuiteError(
            "No entity is mentioned often enough in the corpus to play an emerging one; use a "
            "larger corpus or lower --least-documents."
        )
    total = 0
    for entity in maker.training_pool.tolist():
        if total >= settings.n_training_mentions:
            break
        problem = maker.make(entity, maker.training_pool, training=True)
        problems.append(problem)
        total += min(len(problem.rows["W"]), MENTIONS_OF_A_GROUP)
    return problems


def _is_large_enough(problem: Problem, settings: ConflatedSettings) -> bool:
    emerging = {name: int((gold == 0).sum()) for name, gold in problem.gold.items()}
    return (
        emerging["W"] >= settings.least_emerging
        and len(problem.rows["W"]) >= settings.least_mentions
        and min(emerging["test-web"], emerging["test-wiki"]) >= settings.least_test
    )
