"""Why a candidate won: what each score adds to its lead.

A linking model combines scores Ψ₁ ... Ψₙ into g. For a mention, the part of score k is

    lead - lead without k,    lead = g(best) - g(runner-up),

where "without k" gives all candidates of the mention the same Ψₖ: the mean over them. A positive
part speaks for the best candidate, a negative one for the runner-up. g is not linear, so the parts
need not add up to the lead.
"""

from __future__ import annotations

import numpy as np

from stamo.features.base import encode_features
from stamo.features.embedding import Tables
from stamo.features.mentions import EncodedMentions
from stamo.kb.base import KnowledgeBase
from stamo.linking.rank import Ranking, keep_best
from stamo.models.base import MASKED, Calibration, Model
from stamo.system.files import Bools, Float32, Int64


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
