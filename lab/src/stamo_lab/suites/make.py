"""Make a suite from a knowledge base and a corpus of later text."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from stamo.corpus.types import Document
from stamo.errors import SuiteError
from stamo.kb.base import KnowledgeBase
from stamo_lab.suites.conflated import (
    ConflatedSettings,
    EntityOccurrences,
    GroupMaker,
    Names,
    name_entities,
    unambiguous_names,
)
from stamo_lab.suites.corpora import (
    DOCUMENTS,
    FLAT_ARTICLES,
    FLAT_DOCUMENTS,
    Corpora,
    OnDocuments,
    write_corpora,
)
from stamo_lab.suites.natural import NaturalSettings, natural_problems
from stamo_lab.suites.store import Problem, Suite, new_suite, open_suite, save_problems
from stamo_lab.suites.training import MENTIONS_OF_A_GROUP

CORPUS_FILES = (DOCUMENTS, FLAT_DOCUMENTS, FLAT_ARTICLES)


def make_conflated(
    kb: KnowledgeBase,
    documents: Iterable[Document],
    out: Path,
    levels: Sequence[ConflatedSettings] = (ConflatedSettings(),),
    *,
    corpus_name: str = "",
    overwrite: bool = False,
    n_workers: int | None = None,
    on_document: OnDocuments = lambda n: None,
) -> list[Suite]:
    """Write a conflated suite, see `stamo_lab.suites.conflated`.

    Several levels become suites below `out`, which share the files of the documents.
    """
    paths = [out / settings.level if len(levels) > 1 else out for settings in levels]
    names = unambiguous_names(kb, levels[0].names)
    corpora: Corpora | None = None
    for path, settings in zip(paths, levels, strict=True):
        with new_suite(path, overwrite=overwrite) as directory:
            if corpora is None:
                corpora = write_corpora(
                    directory,
                    kb,
                    documents,
                    settings.names,
                    n_workers=n_workers,
                    on_documents=on_document,
                )
            else:
                _share(paths[0], directory)
            problems = conflated_problems(kb, corpora, names, settings)
            save_problems(directory, problems, _manifest("conflated", corpus_name, settings), kb)
    return [open_suite(path, kb) for path in paths]


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
    about = ("natural", kb.name) if pages is None else ("facc1", "ClueWeb12 FACC1")
    with new_suite(out, overwrite=overwrite) as directory:
        corpora = write_corpora(
            directory, kb, pages or [], None, n_workers=n_workers, on_documents=on_document
        )
        problems = natural_problems(kb, corpora, settings, from_web=pages is not None)
        save_problems(directory, problems, _manifest(*about, settings), kb)
    return open_suite(out, kb)


def _manifest(kind: str, corpus: str, settings: Any) -> dict[str, Any]:
    return {"kind": kind, "corpus": corpus, "settings": asdict(settings)}


def _share(source: Path, target: Path) -> None:
    """Link the files of the documents instead of copying them, where the file system can."""
    for name in CORPUS_FILES:
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
