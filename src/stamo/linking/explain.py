"""Why a candidate won: what each score adds to its lead.

A linking model combines scores Ψ₁ ... Ψₙ into g. For a mention, the part of score k is

    lead - lead without k,    lead = g(best) - g(runner-up),

where "without k" gives all candidates of the mention the same Ψₖ: the mean over them. A positive
part speaks for the best candidate, a negative one for the runner-up. g is not linear, so the parts
need not add up to the lead.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from stamo.errors import ModelError
from stamo.features.base import encode_features
from stamo.features.mentions import EncodedMentions
from stamo.kb.base import KnowledgeBase
from stamo.linking.rank import Ranking, keep_best
from stamo.models.base import Batch, LinkingModel, make_batch
from stamo.models.calibration import Calibration
from stamo.models.tables import MASKED, Tables, blocks, local_tables
from stamo.system.files import Float32, Int64

SCORE_NAMES: Mapping[str, tuple[str, ...]] = {
    "deeped": ("prior", "context words", "coherence", "relatedness"),
    "yamada": ("prior", "context words", "coherence", "edit", "contained", "start or end"),
    "counts": ("log prior", "context words", "relatedness"),
}


def rank_and_explain(
    model: LinkingModel,
    mentions: EncodedMentions,
    tables: Tables,
    kb: KnowledgeBase,
    calibration: Calibration,
    ranking: Ranking,
    rows: Int64,
) -> Ranking:
    """Rank as `rank_by_model` does, and say what each score adds to the lead of the best."""
    mentions = encode_features(mentions, model.encoded_features, kb)
    # How many scores the model combines is seen at the first mention.
    first = make_batch(mentions.take(slice(0, 1)), tables) if len(mentions) else None
    result = ranking.opened(rows, model.scores(first).shape[-1] if first else 0)
    tables = local_tables(tables, mentions)
    with torch.inference_mode():
        for some in blocks(mentions.mask.sum(axis=1)):
            batch = make_batch(mentions.take(some), tables)
            psi = model.scores(batch)
            scores = combine_scores(model, psi, batch).numpy()
            top = keep_best(mentions, some, scores, calibration, result, rows[some])[:, :2]
            shown, leads = lead_by_score(model, psi, batch.mask, torch.from_numpy(top))
            result.psi[rows[some], : top.shape[1]], result.leads[rows[some]] = shown, leads
    return result


def score_names(model: LinkingModel, n_scores: int) -> tuple[str, ...]:
    """Name the scores of a model in their order."""
    names = [*SCORE_NAMES.get(model.name, ()), *getattr(model, "extra", ())]
    names += [f"score {i + 1}" for i in range(len(names), n_scores)]
    return tuple(names[:n_scores])


def combiner(model: LinkingModel) -> nn.Module:
    """Return the part of a model that turns scores into g.

    Raises:
        ModelError: The model keeps no such part, so single scores cannot be taken out of it.
    """
    combine = getattr(model, "combine", None)
    if not isinstance(combine, nn.Module):
        raise ModelError(
            f"The model {model.name!r} has no module `combine` that turns its scores into one; "
            "it can link but not explain."
        )
    return combine


def combine_scores(model: LinkingModel, psi: Tensor, batch: Batch) -> Tensor:
    """Return g(e; m) from scores Ψ, (B, C); equals the model's `forward`."""
    scores: Tensor = combiner(model)(psi).squeeze(-1)
    return scores.masked_fill(~batch.mask, MASKED)


def lead_by_score(
    model: LinkingModel, psi: Tensor, mask: Tensor, top: Tensor
) -> tuple[Float32, Float32]:
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
    chosen = psi.gather(1, top[..., None].expand(-1, -1, n_scores))  # (B, 2, n)
    is_real = mask.gather(1, top)  # (B, 2)
    shown = chosen * is_real[..., None]
    if top.shape[1] < 2:
        return shown.numpy(), np.zeros((len(psi), n_scores), dtype=np.float32)
    weights = mask[..., None].float()
    mean = (psi * weights).sum(dim=1) / weights.sum(dim=1).clamp_min(1)  # (B, n)
    combine = combiner(model)
    levelled = chosen[:, None].repeat(1, n_scores, 1, 1)  # (B, n, 2, n)
    index = torch.arange(n_scores)
    levelled[:, index, :, index] = mean.T[..., None]
    lead = _lead(combine(chosen))  # (B,)
    leads = (lead[:, None] - _lead(combine(levelled))) * is_real[:, 1:2]
    return shown.numpy(), leads.numpy()


def _lead(scores: Tensor) -> Tensor:
    """Return the difference of the two candidates in (..., 2, 1)."""
    return scores[..., 0, 0] - scores[..., 1, 0]
