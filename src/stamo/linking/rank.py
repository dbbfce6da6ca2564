"""Score encoded mentions and rank their candidates; say why a candidate won.

A linking model combines scores Ψ₁ ... Ψₙ into g. For a mention, the part of score k is

    lead - lead without k,    lead = g(best) - g(runner-up),

where "without k" gives all candidates of the mention the same Ψₖ: the mean over them. A positive
part speaks for the best candidate, a negative one for the runner-up. g is not linear, so the parts
need not add up to the lead.
"""

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
from stamo.models.base import MASKED, Calibration, Model, blocks
from stamo.system.files import Bools, Float32, Int32, Int64

MAX_CANDIDATES = 100
"""Candidates of a mention that are scored, those with the highest priors."""
N_SHOWN = 3
"""Candidates of a mention that are kept, the best first."""


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


def rank_by_prior(corpus: FlatCorpus, kb: KnowledgeBase) -> Ranking:
    """Rank candidates by their prior alone, which then is the score and the share."""
    ids, priors = surface_candidates(corpus, kb, None, N_SHOWN)
    spare = ((0, 0), (0, N_SHOWN - ids.shape[1]))
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


def rank_and_explain(
    model: Model,
    mentions: EncodedMentions,
    tables: Tables,
    kb: KnowledgeBase,
    calibration: Calibration,
    ranking: Ranking,
    rows: Int64,
) -> Ranking:
    """Rank as `rank_by_model` does, and say what each score adds to the lead of the best."""
    mentions = encode_features(mentions, model.features, kb)
    result = ranking.opened(rows, model.n_scores + len(model.extra))
    for some, batch in model.batches(mentions, tables):
        psi = model.psi(batch)
        scores = np.where(batch.mask, model.combine(psi), MASKED)
        top = keep_best(mentions, some, scores, calibration, result, rows[some])[:, :2]
        shown, leads = lead_by_score(model, psi, batch.mask, top)
        result.psi[rows[some], : top.shape[1]], result.leads[rows[some]] = shown, leads
    return result


def score_names(model: Model, n_scores: int) -> tuple[str, ...]:
    """Name the scores of a model in their order."""
    names = [*model.score_names, *model.extra]
    names += [f"score {i + 1}" for i in range(len(names), n_scores)]
    return tuple(names[:n_scores])


def lead_by_score(model: Model, psi: Float32, mask: Bools, top: Int64) -> tuple[Float32, Float32]:
    """Return the scores of the best two candidates and what each adds to the lead.

    Args:
        model: The model.
        psi: Ψ of all candidates, shape (B, C, n).
        mask: Where a candidate stands, shape (B, C).
        top: Columns of the best candidate and the runner-up, shape (B, 2) or (B, 1).

    Returns:
        Ψ of those candidates, shape (B, 2, n) or (B, 1, n), and the parts, shape (B, n), zero
        where there is no runner-up.
    """
    n_scores = psi.shape[-1]
    chosen = np.take_along_axis(psi, top[..., None], axis=1)  # (B, 2, n)
    is_real = np.take_along_axis(mask, top, axis=1)  # (B, 2)
    shown = chosen * is_real[..., None]
    if top.shape[1] < 2:
        return shown, np.zeros((len(psi), n_scores), dtype=np.float32)
    weights = mask[..., None].astype(np.float32)
    mean = (psi * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1)  # (B, n)
    levelled = np.repeat(chosen[:, None], n_scores, axis=1)  # (B, n, 2, n)
    index = np.arange(n_scores)
    levelled[:, index, :, index] = mean.T[..., None]
    best, second = (model.combine(chosen)[:, i] for i in (0, 1))
    level = model.combine(levelled)  # (B, n, 2)
    leads = ((best - second)[:, None] - (level[..., 0] - level[..., 1])) * is_real[:, 1:2]
    return shown, leads
