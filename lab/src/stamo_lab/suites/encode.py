"""Problems of a suite as piles: what learning and linking work on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from stamo.features.base import Feature, encode_features
from stamo.features.mentions import (
    OTHER,
    UNKNOWN,
    EncodedMentions,
    EncodingSettings,
    FlatCorpus,
    Surroundings,
    context_words,
    encode,
    entity_context,
)
from stamo.features.pile import Pile, linked_pairs, make_pile, positions
from stamo.features.surface import Surface
from stamo.kb.base import KnowledgeBase
from stamo.kb.relatedness import wlm
from stamo.system.files import Bools, Float32, Int32, Int64
from stamo_lab.suites.store import Problem, SetName

if TYPE_CHECKING:
    from stamo_lab.suites.load import SuiteData

SIZES = EncodingSettings()
"""Sizes of the contexts of every problem."""


@dataclass(frozen=True)
class WithoutEntities:
    """The candidates of a knowledge base without some entities: one of them plays the emerging one.

    The others' priors are rescaled to sum to one.
    """

    kb: KnowledgeBase
    hidden: frozenset[int]

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
        keep = (ids >= 0) & ~np.isin(ids, list(self.hidden))
        ids, priors = ids[keep], priors[keep]
        total = float(priors.sum())
        return ids, priors / total if total > 0 else np.full(len(ids), 1 / max(len(ids), 1))


@dataclass(frozen=True)
class SuiteCorpus:
    """Flattened documents of a suite."""

    flat: FlatCorpus
    titles: tuple[str, ...]
    counted: Bools
    """Documents that the knowledge base's statistics were counted on: their own links are left
    out of the rivals' relatedness when they serve as test documents."""

    @cached_property
    def pairs(self) -> Int64:
        """The distinct (document, entity) pairs, ordered by document."""
        return linked_pairs(self.flat.documents, self.flat.entities)

    @cached_property
    def _place(self) -> Mapping[str, int]:
        return {surface: i for i, surface in enumerate(self.flat.surface_table)}

    def has_text(self, aliases: Iterable[str]) -> Bools:
        """Return which mentions have one of some texts, (N,)."""
        return np.isin(self.flat.surfaces, [self._place[a] for a in aliases if a in self._place])


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
    pairs = linked_pairs(positions(numbers, flat.documents), context)
    entities = [data.entity(problem)]
    pile = make_pile(entities, mentions, pairs, len(numbers), kb, neighbours, text=text)
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
        gold=np.where(np.isin(group, problem.hidden), OTHER, group)[place].astype(np.int32),
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
    hidden = frozenset({problem.group[0], *problem.hidden})
    unseen = np.isin(flat.entities, list(hidden)) | corpus.has_text(problem.aliases)
    context = np.where(unseen, UNKNOWN, flat.entities).astype(np.int32)
    view = WithoutEntities(kb, hidden)
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
    counts = np.array(problem.counts, dtype=np.float64)[np.isin(problem.group, rivals)]
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
