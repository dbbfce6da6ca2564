"""Score encoded mentions and rank their candidates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stamo.features.base import encode_features
from stamo.features.embedding import Tables
from stamo.features.mentions import (
    UNKNOWN,
    EncodedMentions,
    FlatCorpus,
    surface_candidates,
)
from stamo.kb.base import KnowledgeBase
from stamo.models.base import Calibration, Model, blocks
from stamo.system.files import Float32, Int32, Int64


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
    model: Model,
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
    mentions = encode_features(mentions, model.features, kb)
    width = (mentions.candidates >= 0).sum(axis=1)
    values = model.score_known(mentions, tables)
    for some in blocks(width):
        keep_best(mentions, some, values[some, : width[some[-1]]], calibration, result, rows[some])
    return result


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
