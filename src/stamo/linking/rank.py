"""Score encoded mentions and rank their candidates."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from stamo.features.base import encode_features
from stamo.features.encoding import UNKNOWN, EncodedMentions, FlatCorpus, surface_candidates
from stamo.features.relatedness import Relatedness
from stamo.kb.base import KnowledgeBase
from stamo.kb.relatedness import shared_articles, wlm
from stamo.models.calibration import Calibration
from stamo.models.store import KnownScorer
from stamo.models.tables import Tables, blocks
from stamo.system.arrays import Float32, Int32, Int64

_CELLS_PER_BLOCK = 65_536


@dataclass(frozen=True)
class Ranking:
    """The best S candidates of M mentions, the best first; padded with -1 and 0."""

    candidates: Int32  # (M, S)
    scores: Float32  # (M, S) g(e; m)
    priors: Float32  # (M, S)
    shares: Float32  # (M, S) P(e | m, the entity is a candidate)
    psi: Float32  # (M, 2, n) scores of the best two candidates; n is 0 without explanation
    leads: Float32  # (M, n) what each score adds to the lead of the best

    def __len__(self) -> int:
        return len(self.candidates)


def rank_by_prior(corpus: FlatCorpus, kb: KnowledgeBase, n_kept: int) -> Ranking:
    """Rank candidates by their prior alone, which then is the score and the share."""
    ids, priors = surface_candidates(corpus, kb, None, n_kept)
    spare = ((0, 0), (0, n_kept - ids.shape[1]))
    ids, priors = np.pad(ids, spare, constant_values=UNKNOWN), np.pad(priors, spare)
    ids, priors = ids[corpus.surfaces], priors[corpus.surfaces]
    none = np.zeros((len(ids), 2, 0), dtype=np.float32)
    return Ranking(ids, priors, priors, priors, none, none[:, 0])


def rank_by_model(
    model: KnownScorer,
    mentions: EncodedMentions,
    tables: Tables,
    relatedness: BatchRelatedness,
    calibration: Calibration,
    *,
    n_kept: int,
) -> Ranking:
    """Score all candidates of all mentions and keep the best.

    Mentions with alike numbers of candidates are scored together, so that little is padding.
    """
    mentions = encode_known(model, mentions, relatedness)
    result = empty_ranking(len(mentions.documents), n_kept)
    width = mentions.mask.sum(axis=1)
    values = model.score_known(mentions, tables)
    for rows in blocks(width):
        keep_best(mentions, values[rows, : width[rows[-1]]], calibration, rows, result)
    return result


def empty_ranking(n: int, n_kept: int, n_psi: int = 0) -> Ranking:
    """Return a ranking of n mentions without a candidate, to be filled."""
    return Ranking(
        candidates=np.full((n, n_kept), UNKNOWN, dtype=np.int32),
        scores=np.zeros((n, n_kept), dtype=np.float32),
        priors=np.zeros((n, n_kept), dtype=np.float32),
        shares=np.zeros((n, n_kept), dtype=np.float32),
        psi=np.zeros((n, 2, n_psi), dtype=np.float32),
        leads=np.zeros((n, n_psi), dtype=np.float32),
    )


def merge_rankings(all_mentions: Ranking, rows: Int64, some: Ranking) -> Ranking:
    """Return a ranking of all mentions in which `rows` are those of another one."""
    n, n_psi = len(all_mentions.candidates), some.leads.shape[1]
    merged = Ranking(
        all_mentions.candidates.copy(),
        all_mentions.scores.copy(),
        all_mentions.priors.copy(),
        all_mentions.shares.copy(),
        np.zeros((n, 2, n_psi), np.float32),
        np.zeros((n, n_psi), np.float32),
    )
    for field in fields(Ranking):
        getattr(merged, field.name)[rows] = getattr(some, field.name)
    return merged


def encode_known(
    model: KnownScorer, mentions: EncodedMentions, relatedness: BatchRelatedness
) -> EncodedMentions:
    """Encode the features of known candidates, relatedness for all documents at once."""
    features = model.encoded_features
    if any(isinstance(feature, Relatedness) for feature in features):
        known = {**mentions.known, Relatedness.name: relatedness.known(mentions)}
        mentions = replace(mentions, known=known)
    if all(feature.name in mentions.known for feature in features):
        return mentions
    return encode_features(mentions, features, relatedness.kb)


def keep_best(
    mentions: EncodedMentions,
    values: Float32,
    calibration: Calibration,
    rows: Int64,
    result: Ranking,
) -> Int64:
    """Write the best candidates of some mentions, whose scores are (b, c); return their columns."""
    n_kept = min(result.candidates.shape[1], values.shape[1])
    top = np.argsort(-values, axis=1, kind="stable")[:, :n_kept]
    at = rows[:, None], top
    candidates = mentions.candidates[at]
    shares = np.take_along_axis(calibration.distribution(values), top, axis=1)
    real = candidates >= 0
    result.candidates[rows, :n_kept] = candidates
    result.scores[rows, :n_kept] = np.where(real, np.take_along_axis(values, top, axis=1), 0.0)
    result.priors[rows, :n_kept] = mentions.known["prior"][at]
    result.shares[rows, :n_kept] = np.where(real, shares, 0.0)
    return top


@dataclass(frozen=True)
class BatchRelatedness:
    """Averages the Wikipedia Link-based Measure over entity contexts, for a whole batch at once.

    It gives the numbers of `features.relatedness.Relatedness.known`, which goes document by
    document; here one sparse product counts the shared articles of all documents of the batch.
    """

    kb: KnowledgeBase

    def known(self, mentions: EncodedMentions) -> Float32:
        """Return each candidate's mean relatedness to the entity context, (M, C)."""
        values = np.zeros(mentions.candidates.shape, dtype=np.float32)
        row, column = np.nonzero(mentions.mask)
        n_context = (mentions.context >= 0).sum(axis=1)
        if not len(row) or not n_context.any():
            return values
        documents = np.unique(mentions.documents, return_inverse=True)[1].astype(np.int64)
        size = int(documents.max()) + 1, self.kb.n_entities
        rows = _Pairs.of(documents[row], mentions.candidates[row, column], size)
        at = np.nonzero(mentions.context >= 0)
        columns = _Pairs.of(documents[at[0]], mentions.context[at], size)
        table, starts = self._tables(rows, columns)
        # Padding reads the zero behind the last cell of all tables.
        local = np.full(mentions.context.shape, -1, dtype=np.int64)
        local[at] = columns.place - columns.first[documents[at[0]]]
        begin = starts[rows.place]
        for i in range(0, len(row), _CELLS_PER_BLOCK):
            part = slice(i, i + _CELLS_PER_BLOCK)
            index = local[row[part]]  # (cells, K)
            index = np.where(index >= 0, begin[part, None] + index, len(table) - 1)
            values[row[part], column[part]] = table[index].sum(axis=1)
        values /= np.maximum(n_context, 1).astype(np.float32)[:, None]
        return values

    def _tables(self, rows: _Pairs, columns: _Pairs) -> tuple[Float32, Int64]:
        """Return the tables of all documents end to end, and where each row starts in them."""
        left, right = (
            self.kb.incidence(pairs.entities, pairs.documents, len(pairs.n_by_document))
            for pairs in (rows, columns)
        )
        row, column, n_joint = shared_articles(left, right)
        entity_a, entity_b = rows.entities[row], columns.entities[column]
        frequency = self.kb.document_frequency
        related = wlm(frequency[entity_a], frequency[entity_b], n_joint, self.kb.n_documents)
        width = columns.n_by_document[rows.documents]
        starts = np.concatenate([[0], np.cumsum(width)])
        table = np.zeros(starts[-1] + 1, dtype=np.float32)
        table[starts[row] + column - columns.first[columns.documents[column]]] = related
        return table, starts


@dataclass(frozen=True)
class _Pairs:
    """Distinct pairs of document and entity, ordered by document."""

    documents: Int64  # (P,)
    entities: Int64  # (P,)
    place: Int64  # (n,) the pair of each of the n given ones
    n_by_document: Int64  # (documents,)
    first: Int64  # (documents,) first pair of each document

    @classmethod
    def of(cls, documents: Int64, entities: Int32, n: tuple[int, int]) -> _Pairs:
        n_documents, n_entities = n
        keys = documents * n_entities + entities
        distinct, place = np.unique(keys, return_inverse=True)
        owner = distinct // n_entities
        counts = np.bincount(owner, minlength=n_documents)
        first = np.cumsum(counts) - counts
        return cls(owner, distinct % n_entities, place, counts, first)
