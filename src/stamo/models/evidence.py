"""Evidence: what the labels of one emerging entity say beyond the model's scores.

A linking model with a frozen φ judges e* by features made to compare entities. Its margin ranks
mentions well but its threshold and scale do not fit a new entity, and some context words or
neighbours tell this entity from exactly these rivals. The evidence of e* is a linear correction of
the margin, learned like any other group of θ(e*) and stored beside them:

    f(m) = (1 + scale) · margin(m) / τ + wᵀ words(m) + xᵀ context(m) + rᵀ entities(m) + bias

σ(f) is the probability that m means e*; e* is linked where f > 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from stamo.features.embedding import pile_contexts
from stamo.features.params import FeatureParams
from stamo.features.pile import Pile
from stamo.kb.base import KnowledgeBase
from stamo.models.base import MASKED, Scorer

FloatArray = NDArray[np.float64]

WORDS, CONTEXT, ENTITIES, SCALE, BIAS = (
    "evidence words",
    "evidence context",
    "evidence entities",
    "evidence scale",
    "evidence bias",
)
GROUPS = (WORDS, CONTEXT, ENTITIES, SCALE, BIAS)


@dataclass(frozen=True)
class Views:
    """Three views of each mention, every row at unit norm or zero."""

    words: FloatArray  # (M, Q) mean of the context words, less the background
    context: FloatArray  # (M, Q) mean vector of the entity context
    entities: sparse.csr_matrix  # (M, R) the entity context itself, rare entities weigh more


def mention_views(pile: Pile, kb: KnowledgeBase) -> Views:
    """Compute the views of a pile; kept with the pile, since no slot changes them."""
    return pile.keep("views", lambda: _compute_views(pile, kb))


def _compute_views(pile: Pile, kb: KnowledgeBase) -> Views:
    contexts = pile_contexts(pile, kb, pile.mentions.words.shape[1])
    mass = np.asarray(contexts.matrix.sum(axis=1))  # (M, 1)
    words = contexts.matrix @ contexts.vectors / np.maximum(mass, 1e-9) - contexts.background
    words[mass[:, 0] <= 0] = 0.0
    ids = pile.mentions.context
    row, column = np.nonzero(ids >= 0)
    distinct, place = np.unique(ids[row, column], return_inverse=True)
    vectors = np.asarray(kb.entity_vectors()[distinct], dtype=np.float64)
    shape = (len(ids), len(distinct))
    context = sparse.csr_matrix((np.ones(len(row)), (row, place)), shape=shape) @ vectors
    return Views(_unit(words), _unit(context), _entity_rows(pile, kb))


def _entity_rows(pile: Pile, kb: KnowledgeBase) -> sparse.csr_matrix:
    index = pile.context
    row, column = np.nonzero(index >= 0)
    frequency = np.maximum(kb.document_frequency[pile.neighbours], 1)
    rarity = np.log(max(kb.n_documents, 2) / frequency).clip(0) / np.log(max(kb.n_documents, 2))
    shape = (len(index), len(pile.neighbours))
    matrix = sparse.csr_matrix((np.ones(len(row)), (row, index[row, column])), shape=shape)
    matrix.data[:] = 1.0  # an entity that stands there twice says it once
    matrix = matrix @ sparse.diags(rarity)
    norm = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    return sparse.csr_matrix(sparse.diags(1.0 / np.maximum(norm, 1e-9)) @ matrix)


def _unit(rows: FloatArray) -> FloatArray:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9))


def margins(scores: Tensor, n_entities: int) -> Tensor:
    """Return by how much each emerging entity beats the best other candidate, (M, E).

    Without any other candidate there is nothing to beat, and the margin is zero.
    """
    first = scores.shape[1] - n_entities
    columns = []
    for e in range(first, scores.shape[1]):
        others = torch.cat([scores[:, :e], scores[:, e + 1 :]], dim=1)
        best = others.amax(dim=1) if others.shape[1] else torch.full((len(scores),), MASKED)
        columns.append(torch.where(best > MASKED / 2, scores[:, e] - best, torch.zeros(())))
    return torch.stack(columns, dim=1)


@torch.no_grad()
def margins_under(scorer: Scorer, theta: FeatureParams, temperature: float) -> NDArray[np.float32]:
    """Return the margins of a pile's mentions under θ(e*), (M, E).

    A name that means nothing else has nothing to beat; there the prior speaks alone, at the
    temperature of the margins.
    """
    pile = scorer.pile
    scores = scorer(theta)
    n_entities = len(pile.entities)
    margin = margins(scores, n_entities)
    alone = ~(scores[:, : scores.shape[1] - n_entities] > MASKED / 2).any(dim=1)
    prior = theta["prior"].T[torch.from_numpy(pile.alias.astype(np.int64))]  # (M, E)
    by_prior = temperature * torch.logit(prior.clamp(0.02, 0.98))
    return torch.where(alone[:, None], by_prior, margin).numpy().copy()


def log_odds(
    margin: NDArray[np.float32], theta: FeatureParams, views: Views, temperature: float
) -> FloatArray:
    """Return f: the corrected log odds that each mention means each emerging entity, (M, E)."""
    scaled = margin.astype(np.float64) / temperature
    if BIAS not in theta.groups:
        return scaled
    group = {name: theta[name].numpy().astype(np.float64) for name in GROUPS}
    linear = views.words @ group[WORDS].T + views.context @ group[CONTEXT].T
    linear += np.asarray(views.entities @ group[ENTITIES].T)
    return np.asarray(scaled * (1 + group[SCALE][:, 0]) + linear + group[BIAS][:, 0])


@dataclass(frozen=True)
class CorrectedScorer:
    """A scorer whose emerging columns carry the evidence: e* wins exactly where f > 0."""

    scorer: Scorer
    views: Views
    temperature: float
    n_entities: int

    @torch.no_grad()
    def __call__(self, theta: FeatureParams) -> Tensor:
        """Return scores (M, C + E); those of the known candidates stay as they are."""
        scores = self.scorer(theta).clone()
        margin = margins(scores, self.n_entities)
        under = margins_under(self.scorer, theta, self.temperature)
        odds = log_odds(under, theta, self.views, self.temperature)
        first = scores.shape[1] - self.n_entities
        raised = scores[:, first:] - margin + torch.as_tensor(odds * self.temperature).float()
        is_candidate = scores[:, first:] > MASKED / 2
        scores[:, first:] = torch.where(is_candidate, raised, scores[:, first:])
        return scores
