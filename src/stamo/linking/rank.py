"""Score encoded mentions and rank their candidates."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from stamo.features.base import encode_features
from stamo.features.mentions import (
    UNKNOWN,
    EncodedMentions,
    FlatCorpus,
    surface_candidates,
)
from stamo.features.relatedness import Relatedness
from stamo.kb.base import KnowledgeBase
from stamo.kb.relatedness import shared_articles, wlm
from stamo.models.calibration import Calibration
from stamo.models.store import KnownScorer
from stamo.models.tables import Tables, blocks
from stamo.system.files import Float32, Int32, Int64

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

    def opened(self, rows: Int64, n_scores: int = 0) -> Ranking:
        """Return a copy in which some mentions have no candidate yet, with room to explain."""
        n = len(self.candidates)
        result = Ranking(
            self.candidates.copy(),
            self.scores.copy(),
            self.priors.copy(),
            self.shares.copy(),
            np.zeros((n, 2, n_scores), dtype=np.float32),
            np.zeros((n, n_scores), dtype=np.float32),
        )
        result.candidates[rows] = UNKNOWN
        result.scores[rows] = result.priors[rows] = result.shares[rows] = 0
        return result


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
    kb: KnowledgeBase,
    calibration: Calibration,
    ranking: Ranking,
    rows: Int64,
) -> Ranking:
    """Score all candidates of some mentions and keep the best, in place of those ranked before.

    Mentions with alike numbers of candidates are scored together, so that little is padding.

    Args:
        model: Scores them.
        mentions: The m mentions.
        tables: What the model looks up.
        kb: The knowledge base.
        calibration: Turns scores into shares.
        ranking: All mentions as they were ranked before.
        rows: Which of them are scored, shape (m,).
    """
    result = ranking.opened(rows)
    mentions = encode_known(model, mentions, kb)
    width = (mentions.candidates >= 0).sum(axis=1)
    values = model.score_known(mentions, tables)
    for some in blocks(width):
        keep_best(mentions, some, values[some, : width[some[-1]]], calibration, result, rows[some])
    return result


def encode_known(
    model: KnownScorer, mentions: EncodedMentions, kb: KnowledgeBase
) -> EncodedMentions:
    """Encode the features of known candidates, relatedness for all documents at once."""
    features = model.encoded_features
    if any(isinstance(feature, Relatedness) for feature in features):
        known = {**mentions.known, Relatedness.name: relate(mentions, kb)}
        mentions = replace(mentions, known=known)
    if all(feature.name in mentions.known for feature in features):
        return mentions
    return encode_features(mentions, features, kb)


def keep_best(
    mentions: EncodedMentions,
    some: Int64,
    values: Float32,
    calibration: Calibration,
    result: Ranking,
    rows: Int64,
) -> Int64:
    """Write the best candidates of some mentions; return their columns.

    Args:
        mentions: The mentions that were scored.
        some: b of them.
        values: Their scores, shape (b, c).
        calibration: Turns scores into shares.
        result: Where to write.
        rows: The rows of those mentions there, shape (b,).
    """
    n_kept = min(result.candidates.shape[1], values.shape[1])
    top = np.argsort(-values, axis=1, kind="stable")[:, :n_kept]
    at = some[:, None], top
    candidates = mentions.candidates[at]
    shares = np.take_along_axis(calibration.distribution(values), top, axis=1)
    real = candidates >= 0
    result.candidates[rows, :n_kept] = candidates
    result.scores[rows, :n_kept] = np.where(real, np.take_along_axis(values, top, axis=1), 0.0)
    result.priors[rows, :n_kept] = mentions.known["prior"][at]
    result.shares[rows, :n_kept] = np.where(real, shares, 0.0)
    return top


def relate(mentions: EncodedMentions, kb: KnowledgeBase) -> Float32:
    """Return each candidate's mean relatedness to the entity context, (M, C).

    These are the numbers of `features.relatedness.Relatedness.known`, which goes document by
    document; here one sparse product counts the shared articles of all documents of the batch.
    """
    values = np.zeros(mentions.candidates.shape, dtype=np.float32)
    row, column = np.nonzero(mentions.candidates >= 0)
    n_context = (mentions.context >= 0).sum(axis=1)
    if not len(row) or not n_context.any():
        return values
    documents = np.unique(mentions.documents, return_inverse=True)[1].astype(np.int64)
    size = int(documents.max()) + 1, kb.n_entities
    rows = _Pairs.of(documents[row], mentions.candidates[row, column], size)
    at = np.nonzero(mentions.context >= 0)
    columns = _Pairs.of(documents[at[0]], mentions.context[at], size)
    table, starts = _tables(kb, rows, columns)
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


def _tables(kb: KnowledgeBase, rows: _Pairs, columns: _Pairs) -> tuple[Float32, Int64]:
    """Return the relatedness of each document's entities, all tables end to end.

    Also where each row starts in them.
    """
    left, right = (
        kb.incidence(pairs.entities, pairs.documents, len(pairs.n_by_document))
        for pairs in (rows, columns)
    )
    row, column, n_joint = shared_articles(left, right)
    entity_a, entity_b = rows.entities[row], columns.entities[column]
    frequency = kb.document_frequency
    related = wlm(frequency[entity_a], frequency[entity_b], n_joint, kb.n_documents)
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
