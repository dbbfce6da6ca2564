"""Everything a run needs of one problem, behind one function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stamo.corpus.types import EmergingEntity
from stamo.errors import SuiteError
from stamo.features.base import Feature, view_mentions
from stamo.features.mentions import Lexicon, Surroundings
from stamo.features.pile import Pile
from stamo.features.surface import Surface
from stamo.features.views import VIEWS
from stamo.kb.base import KnowledgeBase
from stamo.system.files import Bools, Int32
from stamo_lab.baselines import Phrasebook
from stamo_lab.suites.conflated import NameSettings, unambiguous_names, words_of_names
from stamo_lab.suites.corpora import DOCUMENTS, Corpora, load_corpora
from stamo_lab.suites.encode import EncodedProblem, SuiteCorpus, encode_problem
from stamo_lab.suites.library import Library, rest_of_name
from stamo_lab.suites.store import TEST_SETS, Problem, SetName, Suite


@dataclass(frozen=True)
class LoadedProblem:
    """W and the test sets of one problem, encoded."""

    problem: Problem
    learning: EncodedProblem  # W
    tests: Mapping[SetName, EncodedProblem]

    def changed(self, change: Callable[[Pile], Pile]) -> LoadedProblem:
        """Return the problem with every pile changed."""
        learning, *tests = (
            replace(encoded, pile=change(encoded.pile))
            for encoded in (self.learning, *self.tests.values())
        )
        return replace(self, learning=learning, tests=dict(zip(self.tests, tests, strict=True)))

    def choose_labels(self, n: int, seed: int) -> Bools:
        """Draw the mentions of n random documents of W as L, redrawn until both kinds are there.

        A user would not stop labelling before having seen one mention of each kind either. Draws
        of one seed are nested: a smaller L is a part of a larger one, as far as both kinds allow.
        """
        documents, emerging = self.learning.pile.mentions.documents, self.learning.is_emerging
        numbers = np.unique(documents)
        rng = np.random.default_rng([seed, len(numbers)])
        labelled = np.zeros(len(documents), dtype=bool)
        for _ in range(100):
            labelled = np.isin(documents, rng.permutation(numbers)[:n])
            if len(np.unique(emerging[labelled])) == min(2, len(np.unique(emerging))):
                break
        return labelled


@dataclass(frozen=True)
class SuiteData:
    """An opened suite with its documents."""

    suite: Suite
    kb: KnowledgeBase
    corpora: Corpora

    @classmethod
    def load(cls, suite: Suite, kb: KnowledgeBase) -> SuiteData:
        """Load the documents of a suite."""
        return cls(suite, kb, load_corpora(suite.path / DOCUMENTS, kb))

    def corpus(self, set_name: SetName) -> SuiteCorpus:
        """Return the documents that a set's mentions come from."""
        return getattr(self.corpora, self.suite.corpus_of(set_name))  # type: ignore[no-any-return]

    @cached_property
    def _names(self) -> Mapping[int, list[str]]:
        settings = self.suite.manifest["settings"].get("names")
        return unambiguous_names(self.kb, NameSettings(**settings)).by_entity() if settings else {}

    def masked_names(self, problem: Problem) -> frozenset[str]:
        """Return the words of all names of a conflated group, lower-cased."""
        if not problem.is_conflated:
            return frozenset()
        group = [entity for entity in problem.group if entity >= 0]
        names = [n for e in group for n in [*self._names.get(e, []), self.kb.title(e)]]
        return frozenset(words_of_names(names))

    def masked_in_text(self, problem: Problem) -> frozenset[str]:
        """Return the words to cut out of texts; stop words tell nobody apart and stay."""
        names = sorted(self.masked_names(problem))
        ids = self.kb.word_ids(names)
        stop = (ids >= 0) & self._is_stop_word[ids]
        return frozenset(name for name, is_stop in zip(names, stop, strict=True) if not is_stop)

    @cached_property
    def _is_stop_word(self) -> Bools:
        return Lexicon.of(self.kb).is_stop_word

    @cached_property
    def web_library(self) -> Library:
        """The documents as text."""
        table = pq.read_table(self.suite.path / DOCUMENTS, columns=["text", "mentions"])
        return Library.of(table, self.corpora.web.flat)

    @cached_property
    def wiki_library(self) -> Library:
        """The dump's articles as text."""
        batches = list(self.kb.articles(columns=["text", "mentions"]))
        return Library.of(pa.Table.from_batches(batches), self.corpora.wiki.flat)

    def library(self, set_name: SetName) -> Library:
        """Return the texts that a set's mentions come from."""
        return self.web_library if self.suite.corpus_of(set_name) == "web" else self.wiki_library

    def surroundings(self, problem: Problem, set_name: SetName) -> Surroundings:
        """Return where the mentions of a set stand; those of a conflated group are renamed."""
        rows, library = problem.rows[set_name], self.library(set_name)
        if not problem.is_conflated:
            return library.surroundings(rows)
        masked = self.masked_in_text(problem)
        return library.renamed(rows, problem.aliases[0], masked, self._inside)

    @property
    def _inside(self) -> float:
        return float(self.suite.manifest["settings"].get("inside", 0.0))

    def entity(self, problem: Problem) -> EmergingEntity:
        """Return the emerging entity; one that is renamed in the text has no title that tells it.

        Where names are renamed in part, so is its own.
        """
        if not problem.is_conflated:
            return EmergingEntity(problem.title, problem.aliases)
        before, after = rest_of_name(problem.title.partition(" (")[0]) if self._inside else ("", "")
        return EmergingEntity(f"{before} {problem.aliases[0]} {after}".strip(), problem.aliases)

    def masked_words(self, problem: Problem) -> Int32:
        """Return the words of all names of a conflated group that have a number, sorted."""
        ids = self.kb.word_ids(sorted(self.masked_names(problem)))
        return np.unique(ids[ids >= 0]).astype(np.int32)

    @cached_property
    def phrasebook(self) -> Phrasebook:
        """The phrases of the knowledge base's articles."""
        web, wiki = self.corpora.web, self.corpora.wiki
        return Phrasebook.of(self.kb, (wiki.flat, wiki.titles), (web.flat, web.titles))


def load_problem(
    data: SuiteData, problem: Problem, *, features: Sequence[Feature] = (Surface(),)
) -> LoadedProblem:
    """Encode W and the test sets of one problem.

    Args:
        data: The suite.
        problem: One of its problems.
        features: What the models that will score the mentions look up of known candidates.
    """
    if not len(problem.rows["W"]):
        raise SuiteError(f"The problem {problem.title!r} has no mentions to learn from.")

    def encode(name: SetName, neighbours: Int32 | None = None) -> EncodedProblem:
        text = data.surroundings(problem, name)
        return encode_problem(data, problem, name, neighbours, features, text)

    learning = encode("W")
    neighbours = learning.pile.neighbours
    # The tests' text is looked at with the words of W: what was not learned there is not known.
    named = [view for view in VIEWS if view.has_vocabulary]
    view_mentions(learning.pile, data.kb, named)
    words = {view.name: learning.pile.vocabulary(view.name) for view in named}
    tests = {}
    for name in TEST_SETS:
        if len(problem.rows[name]):
            test = encode(name, neighbours)
            tests[name] = replace(test, pile=replace(test.pile, vocabularies=words))
    return LoadedProblem(problem, learning, tests)
