"""Evidence: what the labels of one emerging entity say beyond the model's scores.

A linking model with a frozen φ judges e* by features made to compare entities. Its margin ranks
mentions well but its threshold and scale do not fit a new entity, and some context words or
neighbours tell this entity from exactly these rivals. The evidence of e* is a linear correction of
the margin, learned like any other group of θ(e*) and stored beside them:

    f(m) = (1 + scale) · margin(m) / τ + Σ over views (weightsᵀ view(m)) + bias

σ(f) is the probability that m means e*; e* is linked where f > 0. The views are those of
`stamo.features.views_context`; a θ(e*) learned with some of them is looked up with the same ones.

Where e* is not meant, the name may mean something that the knowledge base does not hold either.
Labels teach that too: the groups `none ...` are a second sum of the same views and a bias; its σ
is the probability of "none of these" among all that is not e*.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from stamo.features.base import FeatureParams, View, ViewRows, view_mentions
from stamo.features.pile import Pile
from stamo.features.views import VIEWS
from stamo.kb.base import KnowledgeBase
from stamo.models.base import Scorer
from stamo.models.tables import MASKED
from stamo.system.files import Float32, Float64

SCALE, BIAS = "evidence scale", "evidence bias"
GROUPS = (*(f"evidence {view.name}" for view in VIEWS), SCALE, BIAS)
"""The groups of θ(e*) that are evidence."""
NONE_BIAS = "none bias"
NONE_GROUPS = (*(f"none {view.name}" for view in VIEWS), NONE_BIAS)
"""The groups of θ(e*) that tell "none of these" from known namesakes."""


def view_weights(theta: FeatureParams, kind: str = "evidence") -> dict[View, Float64]:
    """Return the weights of the columns of every view that a θ(e*) weighs, (E, columns) each."""
    named = [(view, f"{kind} {view.name}") for view in VIEWS]
    return {v: theta[n].numpy().astype(np.float64) for v, n in named if n in theta.groups}


def mention_views(pile: Pile, kb: KnowledgeBase) -> ViewRows:
    """Compute every view of a pile."""
    return view_mentions(pile, kb, VIEWS)


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
def margins_under(scorer: Scorer, theta: FeatureParams, temperature: float) -> Float32:
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


def log_odds(margin: Float32, theta: FeatureParams, views: ViewRows, temperature: float) -> Float64:
    """Return f: the corrected log odds that each mention means each emerging entity, (M, E)."""
    scaled = margin.astype(np.float64) / temperature
    if BIAS not in theta.groups:
        return scaled
    scale, bias = (theta[name].numpy().astype(np.float64)[:, 0] for name in (SCALE, BIAS))
    linear = sum(np.asarray(views[v.name] @ w.T) for v, w in view_weights(theta).items())
    return np.asarray(scaled * (1 + scale) + linear + bias)


OWN_SHARE = 0.5
"""How much of a mention's log odds is its own; the rest is the mean of its name in the document."""


def agree(odds: Float64, pile: Pile) -> Float64:
    """Let the mentions of one name in one document agree half-way, (M, E).

    One sense in a document is evidence, not a rule: a text on Dawn French may name the probe.
    """
    _, vote, size = pile.votes
    columns = [np.bincount(vote, weights=column) / size for column in odds.T]
    together = np.stack(columns, axis=1)[vote]
    return np.asarray(OWN_SHARE * odds + (1 - OWN_SHARE) * together)


def none_odds(theta: FeatureParams, views: ViewRows, n: int) -> Float64 | None:
    """Return the log odds that what is not e* is nothing known either, (n, E); None: not taught."""
    if NONE_BIAS not in theta.groups:
        return None
    odds = np.zeros((n, 1)) + theta[NONE_BIAS].numpy().astype(np.float64)[:, 0]
    for view, weights in view_weights(theta, "none").items():
        if view.name in views:
            odds = odds + np.asarray(views[view.name] @ weights.T)
    return np.asarray(odds)


@dataclass(frozen=True)
class CorrectedScorer:
    """A scorer whose emerging columns carry the evidence: e* wins exactly where f > 0."""

    scorer: Scorer
    views: ViewRows
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
