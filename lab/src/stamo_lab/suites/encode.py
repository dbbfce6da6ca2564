"""Problems of a suite as piles: what learning and linking work on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stamo.corpus.types import EmergingEntity
from stamo.errors import SuiteError
from stamo.features.base import Feature, encode_features
from stamo.features.embedding import Tables
from stamo.features.mentions import (
    UNKNOWN,
    EncodedMentions,
    EncodingSettings,
    FlatCorpus,
    Lexicon,
    Surroundings,
    context_words,
    encode,
    entity_context,
)
from stamo.features.pile import Pile, make_pile, positions
from stamo.kb.base import KnowledgeBase
from stamo.kb.relatedness import wlm
from stamo.models.correction import VIEWS
from stamo.models.yamada import Surface
from stamo.system.files import Bools, Float32, Int32, Int64
from stamo_lab.baselines import Phrasebook
from stamo_lab.suites.corpora import (
    DOCUMENTS,
    Corpora,
    SuiteCorpus,
    load_corpora,
    unambiguous_names,
    words_of_names,
)
from stamo_lab.suites.store import TEST_SETS, Problem, SetName, Suite
from stamo_lab.suites.texts import Library

SIZES = EncodingSettings()
"""Sizes of the contexts of every problem."""


@dataclass(frozen=True)
class WithoutEntity:
    """The candidates of a knowledge base without the entity that plays the emerging one.

    The others' priors are rescaled to sum to one.
    """

    kb: KnowledgeBase
    entity: int

    def candidate_table(
        self, surfaces: Sequence[str], top: int | None = None
    ) -> tuple[Int32, Float32]:
        """Return candidates (n, C), padded with -1, and their priors (n, C)."""
        rows = [self._row(*row) for row in zip(*self.kb.candidate_table(surfaces), strict=True)]
        width = max([1, *(len(ids) for ids, _ in rows)])
        width = width if top is None else min(top, width)
        table = np.full((len(rows), width), UNKNOWN, dtype=np.int32)
        values = np.zeros((len(rows), width), dtype=np.float32)
        for i, (ids, priors) in enumerate(rows):
            n = min(width, len(ids))
            table[i, :n], values[i, :n] = ids[:n], priors[:n]
        return table, values

    def _row(self, ids: Int32, priors: Float32) -> tuple[Int32, Float32]:
        keep = (ids >= 0) & (ids != self.entity)
        ids, priors = ids[keep], priors[keep]
        total = float(priors.sum())
        return ids, priors / total if total > 0 else np.full(len(ids), 1 / max(len(ids), 1))


@dataclass(frozen=True)
class EncodedProblem:
    """One set of a problem: its pile and the gold column of each mention."""

    pile: Pile
    gold: Int64  # (M,) column; the emerging entity's is the last

    @property
    def is_emerging(self) -> Bools:
        """Return which mentions mean the emerging entity."""
        return np.asarray(self.gold == self.pile.mentions.candidates.shape[1])


def encode_problem(
    data: SuiteData,
    problem: Problem,
    set_name: SetName,
    neighbours: Int32 | None = None,
    features: Sequence[Feature] = (Surface(),),
    text: Surroundings | None = None,
) -> EncodedProblem:
    """Encode one set of a problem.

    Args:
        data: The suite.
        problem: The group and its mentions.
        set_name: Which set.
        neighbours: Support of the relatedness rows; by default all entities of the documents.
        features: What the models look up of known candidates. Prior and relatedness are always
            there, counted as if the documents of the set were unseen.
        text: Where the mentions stand, for views of the text.

    Where the problem does not list its rivals, they are what the knowledge base knows under the
    aliases without the emerging entity; the words of listed ones' names are no context.
    """
    corpus, kb = data.corpus(set_name), data.kb
    flat, rows = corpus.flat, problem.rows[set_name]
    numbers, place = np.unique(flat.documents[rows], return_inverse=True)
    leave_out, documents = corpus.counted[numbers][place], place.astype(np.int32)
    if problem.is_conflated:
        mentions, context = _with_listed_rivals(problem, set_name, flat, data.masked_words(problem))
        known = _known(problem, mentions, kb, leave_out)
    else:
        mentions, context = _with_natural_rivals(problem, set_name, corpus, kb)
        mentions = replace(mentions, documents=documents)
        known = _natural_known(mentions, corpus, numbers, kb, leave_out)
    mentions = replace(mentions, documents=documents, known=known)
    mentions = encode_features(mentions, features, kb)
    pairs = np.stack([positions(numbers, flat.documents), context], axis=1)
    entities = [data.entity(problem)]
    pile = make_pile(entities, mentions, pairs, len(numbers), kb, data.tables, neighbours)
    pile = replace(pile, text=text)
    is_emerging, width = mentions.gold == problem.group[0], mentions.candidates.shape[1]
    return EncodedProblem(pile, np.where(is_emerging, width, mentions.gold_column()))


def _with_listed_rivals(
    problem: Problem, set_name: SetName, flat: FlatCorpus, masked: Int32
) -> tuple[EncodedMentions, Int32]:
    """Encode mentions of a conflated name; return also which entities are a context, (N,)."""
    rows, place = problem.rows[set_name], problem.gold[set_name]
    group, rivals = (np.array(e, dtype=np.int32) for e in (problem.group, problem.rivals))
    context = np.where(np.isin(flat.entities, group), UNKNOWN, flat.entities).astype(np.int32)
    words = context_words(flat, rows, SIZES.n_words)
    words[positions(masked, words) >= 0] = UNKNOWN
    mentions = EncodedMentions(
        documents=flat.documents[rows],
        surfaces=np.zeros(len(rows), dtype=np.int32),
        gold=group[place],
        words=words,
        context=entity_context(flat, rows, context, SIZES.n_context),
        candidates=np.broadcast_to(rivals, (len(rows), len(rivals))),
        known={},
        surface_table=problem.aliases,
    )
    return mentions, context


def _with_natural_rivals(
    problem: Problem, set_name: SetName, corpus: SuiteCorpus, kb: KnowledgeBase
) -> tuple[EncodedMentions, Int32]:
    """Encode mentions whose rivals are the aliases' other meanings, likewise."""
    flat, rows = corpus.flat, problem.rows[set_name]
    # Neither the emerging entity nor any candidate mention is a context of anything.
    entity = problem.group[0]
    unseen = (flat.entities == entity) | corpus.has_text(problem.aliases)
    context = np.where(unseen, UNKNOWN, flat.entities).astype(np.int32)
    view = WithoutEntity(kb, entity)
    return encode(flat, view, SIZES, rows=rows, context_entities=context), context


def _natural_known(
    mentions: EncodedMentions,
    corpus: SuiteCorpus,
    numbers: Int32,
    kb: KnowledgeBase,
    leave_out: Bools,
) -> Mapping[str, Float32]:
    """Return prior and relatedness of the known candidates as if their documents were unseen."""
    shape = mentions.candidates.shape
    prior, relatedness = (np.zeros(shape, dtype=np.float32) for _ in range(2))
    for surface in range(len(mentions.surface_table)):
        rows = np.flatnonzero(mentions.surfaces == surface)
        candidates = mentions.candidates[rows[0]] if len(rows) else mentions.candidates[:0]
        rivals = candidates[candidates >= 0]
        if not len(rivals):
            continue
        documents = mentions.documents[rows]
        inside = _links_to(corpus, numbers[documents], rivals) & leave_out[rows, None]
        n = len(rivals)
        relatedness[rows, :n] = _relatedness(
            mentions.context[rows], rivals, inside, leave_out[rows], kb
        )
        meant = (mentions.gold[rows, None] == rivals) & leave_out[rows, None]
        own = np.zeros((len(numbers), n))
        np.add.at(own, documents, meant)  # links of this name in the document itself
        found = kb.candidates(mentions.surface_table[surface])
        total = {int(e): int(c) for e, c in zip(found.ids, found.counts, strict=True)}
        counts = np.array([total.get(e, 0) for e in rivals.tolist()], dtype=np.float64)
        left = np.maximum(counts - own[documents], 0.0)
        prior[rows, :n] = left / np.maximum(left.sum(axis=1, keepdims=True), 1.0)
    return {"prior": prior, "relatedness": relatedness}


def _links_to(corpus: SuiteCorpus, documents: Int32, rivals: Int32) -> Bools:
    """Return which document links which rival, (M, C)."""
    size = int(max(corpus.pairs[:, 1].max(initial=0), rivals.max(initial=0))) + 1
    keys = corpus.pairs[:, 0] * size + corpus.pairs[:, 1]
    wanted = documents.astype(np.int64)[:, None] * size + rivals
    place = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    return np.asarray(keys[place] == wanted) if len(keys) else np.zeros(wanted.shape, dtype=bool)


def _known(
    problem: Problem, mentions: EncodedMentions, kb: KnowledgeBase, leave_out: Bools
) -> Mapping[str, Float32]:
    """Return prior and relatedness of the rivals, (M, C) each."""
    rivals = np.array(problem.rivals, dtype=np.int32)
    counts = kb.entity_counts[rivals].astype(np.float64)
    prior = (counts / max(counts.sum(), 1.0)).astype(np.float32)
    shape = mentions.candidates.shape
    inside = leave_out[:, None] & (mentions.gold[:, None] == rivals)
    return {
        "prior": np.broadcast_to(prior, shape).copy(),
        "relatedness": _relatedness(mentions.context, rivals, inside, leave_out, kb),
    }


def _relatedness(
    context: Int32, rivals: Int32, inside: Bools, leave_out: Bools, kb: KnowledgeBase
) -> Float32:
    """Return the mean relatedness of each rival to the context, as if the document were unseen."""
    others, place = np.unique(context, return_inverse=True)
    place = place.reshape(context.shape)
    real = others >= 0
    joint = np.zeros((len(rivals), len(others)), dtype=np.int64)
    joint[:, real] = kb.joint_matrix(rivals, others[real])
    n_rivals = kb.document_frequency[rivals].astype(np.int64)[:, None]
    n_others = np.where(real, kb.document_frequency[np.maximum(others, 0)], 1).astype(np.int64)
    size = np.maximum((context >= 0).sum(axis=1), 1)[:, None]
    values = np.zeros((len(context), len(rivals)), dtype=np.float32)
    # Three cases: an unseen document; a seen one without, and with, the rival itself.
    for less_other, less_rival in ((0, 0), (1, 0), (1, 1)):
        table = wlm(
            np.maximum(n_rivals - less_rival, 1),
            np.maximum(n_others[None, :] - less_other, 1),
            np.maximum(joint - less_rival, 0),
            kb.n_documents,
        )
        table[:, ~real] = 0.0
        mean = table.T[place].sum(axis=1) / size  # (M, C)
        case = (leave_out[:, None] == bool(less_other)) & (inside == bool(less_rival))
        values = np.where(case, mean, values)
    return values.astype(np.float32)


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
        return cls(suite, kb, load_corpora(suite.path))

    def corpus(self, set_name: SetName) -> SuiteCorpus:
        """Return the documents that a set's mentions come from."""
        return getattr(self.corpora, self.suite.corpus_of(set_name))  # type: ignore[no-any-return]

    @cached_property
    def _names(self) -> Mapping[int, list[str]]:
        least = self.suite.manifest["settings"].get("least_link_probability")
        return unambiguous_names(self.kb, least).by_entity() if least else {}

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
        return library.renamed(rows, problem.aliases[0], masked)

    def entity(self, problem: Problem) -> EmergingEntity:
        """Return the emerging entity; one that is renamed has no title that tells it."""
        name = problem.aliases[0] if problem.is_conflated else problem.title
        return EmergingEntity(name, problem.aliases)

    def masked_words(self, problem: Problem) -> Int32:
        """Return the words of all names of a conflated group that have a number, sorted."""
        ids = self.kb.word_ids(sorted(self.masked_names(problem)))
        return np.unique(ids[ids >= 0]).astype(np.int32)

    @cached_property
    def tables(self) -> Tables:
        """The vectors of the knowledge base, in memory."""
        kb = self.kb
        return Tables(np.asarray(kb.word_vectors), np.asarray(kb.entity_vectors()))

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
    for view in VIEWS:
        if view.has_vocabulary:
            learning.pile.rows(view)
    words = learning.pile.vocabularies
    tests = {}
    for name in TEST_SETS:
        if len(problem.rows[name]):
            test = encode(name, neighbours)
            tests[name] = replace(test, pile=replace(test.pile, vocabularies=words))
    return LoadedProblem(problem, learning, tests)
