"""Texts of a suite for methods that read: contexts of mentions and descriptions of entities.

They are cut from the documents themselves. Every other method sees contexts without the words of a
conflated group's names; so the words are cut out here too, whatever the vocabulary knows of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from stamo.replication.baselines.bert import MENTION, CrossEncoder, Description, Example
from stamo.replication.suites.library import Library, cut_words
from stamo.replication.suites.load import LoadedProblem, SuiteData
from stamo.replication.suites.store import Problem, SetName
from stamo.system.arrays import Bools, Int64

_Rows = Int64
_MENTIONS_READ = 16
"""Mentions of one training group to read: many groups teach more than many mentions."""
N_LINKS = 2
"""Contexts that describe a known entity without an article; each one costs like an article."""
LABELLED_IN_TRAINING = (4, 14)
"""How many labelled contexts the emerging entity of a training group has; as with |L| = 20."""


@dataclass(frozen=True)
class Texts:
    """Writes contexts and descriptions for one suite."""

    data: SuiteData
    n_characters: int = 600
    """Characters on either side of a mention, and half those of a description; more than the
    encoder can read, which cuts by its own tokens."""

    def contexts(self, name: SetName, rows: _Rows, masked: frozenset[str]) -> list[str]:
        """Return the text around each mention of a set; the mention itself is `MENTION`."""
        library = self.data.library(name)
        return [self._context(library, row, masked) for row in rows.tolist()]

    def description(self, entity: int, masked: frozenset[str], unseen: _Rows) -> Description:
        """Describe a known entity by the beginning of the article about it.

        Where neither the dump nor the documents hold its article, the contexts of its links in
        the dump describe it, but for links in the documents of the mentions `unseen`.
        """
        libraries = (self.data.wiki_library, self.data.web_library)
        for library, (_, number_by_entity) in zip(
            libraries, self.data.phrasebook.sources, strict=True
        ):
            if entity in number_by_entity:
                text = library.beginning(number_by_entity[entity], 2 * self.n_characters)
                return (cut_words(text, masked),)
        flat = self.data.corpora.wiki.flat
        rows = np.flatnonzero(flat.entities == entity)
        rows = rows[~np.isin(flat.documents[rows], flat.documents[unseen])]
        return tuple(
            self._context(self.data.wiki_library, row, masked) for row in rows.tolist()[:N_LINKS]
        )

    def descriptions(self, problem: Problem, masked: frozenset[str]) -> list[Description]:
        """Describe the rivals of a conflated problem."""
        unseen = problem.rows["test-wiki"]
        return [self.description(entity, masked, unseen) for entity in problem.rivals]

    def from_labels(
        self, loaded: LoadedProblem, labelled: Bools, masked: frozenset[str]
    ) -> Description:
        """Describe the emerging entity by the contexts that are labelled as it."""
        chosen = labelled & loaded.learning.is_emerging
        return tuple(self.contexts("W", loaded.problem.rows["W"][chosen], masked))

    def examples(self, rng: np.random.Generator) -> Iterator[Example]:
        """Yield mentions of the training groups, as they would be met in a problem.

        The first entity of a training group is meant as often as an emerging entity; it is
        described by contexts of its other mentions, the others by their articles.
        """
        for problem in self.data.suite.problems:
            if problem.split == "training":
                yield from self._group_examples(problem, rng)

    def _group_examples(self, problem: Problem, rng: np.random.Generator) -> Iterator[Example]:
        masked = self.data.masked_in_text(problem)
        order = rng.permutation(len(problem.rows["W"]))
        rows, gold = problem.rows["W"][order], problem.gold["W"][order]
        read, others = rows[:_MENTIONS_READ], rows[_MENTIONS_READ:]
        others = others[gold[_MENTIONS_READ:] == 0]
        labelled = others[: rng.integers(*LABELLED_IN_TRAINING)]
        rivals = self.descriptions(problem, masked)
        contexts = self.contexts("W", labelled, masked)
        known = self.description(problem.group[0], masked, problem.rows["test-wiki"])
        if not contexts or not all(rivals):
            return
        for context, place in zip(self.contexts("W", read, masked), gold.tolist(), strict=False):
            yield Example(context, (tuple(contexts), *rivals), place, known)

    def _context(self, library: Library, row: int, masked: frozenset[str]) -> str:
        before, _, after = library.around(row, self.n_characters)
        return f"{cut_words(before, masked)} {MENTION} {cut_words(after, masked)}"


@dataclass(frozen=True)
class Reader:
    """A fine-tuned cross-encoder with the texts that it reads."""

    encoder: CrossEncoder
    texts: Texts
