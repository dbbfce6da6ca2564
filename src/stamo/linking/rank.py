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
from numpy.typing import NDArray

from stamo.features.base import encode_features
from stamo.features.embedding import Tables
from stamo.features.mentions import (
    UNKNOWN,
    EncodedMentions,
    FlatCorpus,
    surface_candidates,
)
from stamo.kb.base import KnowledgeBase
from stamo.models.base import MASKED, Model
from stamo.models.store import TrainedModel
from stamo.system.files import Bools, Float32, Int32, Int64

MAX_CANDIDATES = 100
"""Candidates of a mention that are scored, those with the highest priors."""
N_SHOWN = 3
"""Candidates of a mention that are kept, the best first."""


@dataclass(frozen=True)
class Ranking:
    """The best S candidates of M mentions, the best first; padded with -1 and 0."""

    candidates: Int32  # (M, S)
    scores: NDArray[np.floating]  # (M, S) g(e; m)
    priors: NDArray[np.floating]  # (M, S)
    shares: NDArray[np.floating]  # (M, S) P(e | m, the entity is a candidate)
    psi: Float32  # (M, 2, n) scores of the best two candidates; n is 0 without explanation
    leads: Float32  # (M, n) what each score adds to the lead of the best


def rank_by_prior(corpus: FlatCorpus, kb: KnowledgeBase) -> Ranking:
    """Rank candidates by their prior alone, which then is the score and the share."""
    ids, priors = surface_candidates(corpus, kb, None, N_SHOWN)
    spare = ((0, 0), (0, N_SHOWN - ids.shape[1]))
    ids, priors = np.pad(ids, spare, constant_values=UNKNOWN), np.pad(priors, spare)
    ids, priors = ids[corpus.surfaces], priors[corpus.surfaces]
    none = np.zeros((len(ids), 2, 0), dtype=np.float32)
    return Ranking(ids, priors, priors, priors, none, none[:, 0])


def rank_by_model(
    trained: TrainedModel,
    mentions: EncodedMentions,
    tables: Tables,
    kb: KnowledgeBase,
    before: Ranking,
    rows: Int64,
    *,
    explain: bool = False,
) -> Ranking:
    """Score all candidates of some mentions and keep the best, in place of those ranked before.

    Mentions with alike numbers of candidates are scored together, so that little is padding.

    Args:
        trained: The model that scores them, with its calibration.
        mentions: The m mentions.
        tables: What the model looks up.
        kb: The knowledge base.
        before: All mentions as they were ranked before.
        rows: Which of them are scored, shape (m,).
        explain: Say what each score adds to the lead of the best.
    """
    model = trained.model
    n_scores = model.n_scores + len(model.extra) if explain else 0
    kept = (before.scores, before.priors, before.shares)
    candidates, (scores, priors, shares) = before.candidates.copy(), (v.copy() for v in kept)
    candidates[rows], scores[rows], priors[rows], shares[rows] = UNKNOWN, 0, 0, 0
    psi_of_best = np.zeros((len(candidates), 2, n_scores), dtype=np.float32)
    leads = np.zeros((len(candidates), n_scores), dtype=np.float32)
    mentions = encode_features(mentions, model.features, kb)
    for some, batch in model.batches(mentions, tables):
        psi = model.psi(batch)
        values = np.where(batch.mask, model.combine(psi), MASKED)  # (b, c)
        top = np.argsort(-values, axis=1, kind="stable")[:, : candidates.shape[1]]
        distribution = trained.calibration.distribution(values)
        is_real = np.take_along_axis(batch.mask, top, axis=1)
        at, ranked = rows[some], (some[:, None], top)
        where = at[:, None], np.arange(top.shape[1])
        candidates[where] = mentions.candidates[ranked]
        scores[where] = np.where(is_real, np.take_along_axis(values, top, axis=1), 0.0)
        priors[where] = mentions.known["prior"][ranked]
        shares[where] = np.where(is_real, np.take_along_axis(distribution, top, axis=1), 0.0)
        if explain:
            shown, leads[at] = lead_by_score(model, psi, batch.mask, top[:, :2])
            psi_of_best[at, : shown.shape[1]] = shown
    return Ranking(candidates, scores, priors, shares, psi_of_best, leads)


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
