"""Texts of a suite for methods that read: mention contexts and entity descriptions.

They are made of the same content words that every other method sees, so that the names of a
conflated group are masked here too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stamo.errors import SuiteError
from stamo.evaluation.baselines.bert import Example
from stamo.evaluation.suites.encode import EncodedProblem
from stamo.evaluation.suites.load import LoadedProblem, SuiteData
from stamo.evaluation.suites.phi import MENTIONS_OF_A_GROUP
from stamo.evaluation.suites.problem import Problem
from stamo.features.encoding import FlatCorpus, IntArray, context_words


@dataclass(frozen=True)
class Texts:
    """Writes contexts and descriptions for one suite."""

    data: SuiteData
    n_words: int = 48
    """Content words of a context, and of a description."""

    def contexts(self, encoded: EncodedProblem) -> list[str]:
        """Return the words around each mention."""
        words = encoded.pile.mentions.words
        middle, half = words.shape[1] // 2, self.n_words // 2
        return self._join(words[:, max(0, middle - half) : middle + half])

    def description(self, entity: int, masked: IntArray) -> str:
        """Return the first words of the article about an entity, or words around its links."""
        for corpus, number_by_entity in self.data.phrasebook.sources:
            if entity in number_by_entity:
                start = corpus.word_offsets[number_by_entity[entity]]
                end = corpus.word_offsets[number_by_entity[entity] + 1]
                return self._words(corpus.words[start:end], masked)
        return self._words(self._around_links(self.data.corpora.wiki.flat, entity), masked)

    def from_labels(self, loaded: LoadedProblem, labelled: NDArray[np.bool_]) -> str:
        """Describe the emerging entity by the contexts that are labelled as it."""
        rows = np.flatnonzero(labelled & loaded.learning.is_emerging)
        words = loaded.learning.pile.mentions.words[rows]
        half = max(1, self.n_words // max(2 * len(rows), 1))
        middle = words.shape[1] // 2
        return " ".join(self._join(words[:, middle - half : middle + half]))

    def examples(self) -> Iterator[Example]:
        """Yield the mentions of the training groups with all entities of a group described."""
        if self.data.suite.kind != "conflated":
            raise SuiteError("BERT is fine-tuned on the groups of conflated suites; use one.")
        for problem in self.data.suite.problems:
            if problem.split == "training":
                yield from self._group_examples(problem)

    def _group_examples(self, problem: Problem) -> Iterator[Example]:
        masked = self.data.masked_words(problem)
        descriptions = tuple(self.description(entity, masked) for entity in problem.group)
        rows = problem.rows["W"][: MENTIONS_OF_A_GROUP // 4]
        words = context_words(self.data.corpus("W").flat, rows, self.n_words)
        words[np.isin(words, masked)] = -1
        gold = problem.gold["W"].tolist()
        for context, place in zip(self._join(words), gold, strict=False):
            yield Example(context, descriptions, place)

    def _around_links(self, articles: FlatCorpus, entity: int, most: int = 3) -> IntArray:
        rows = np.flatnonzero(articles.entities == entity)[:most].astype(np.int64)
        return context_words(articles, rows, self.n_words // most).ravel()

    def _words(self, words: IntArray, masked: IntArray) -> str:
        words = words[(words >= 0) & ~np.isin(words, masked)][: self.n_words]
        return " ".join(self.data.kb.words.texts(words))

    def _join(self, rows: IntArray) -> list[str]:
        return [" ".join(self.data.kb.words.texts(row[row >= 0])) for row in rows]
