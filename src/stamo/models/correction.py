"""The correction of e*: from the model's margin to the log odds that a mention means e*.

A linking model with a frozen φ judges e* by features made to compare entities. Its margin ranks
mentions well but its threshold and scale do not fit a new entity, and some context words or
neighbours tell this entity from exactly these rivals. The correction is linear, learned like any
other group of θ(e*) and stored beside them:

    f(m) = (1 + scale) · margin(m) / τ + Σ over views (x(m) · weights) + bias

σ(f) is the probability that m means e*; e* is linked where f > 0.

Where e* is not meant, the name may mean something that the knowledge base does not hold either.
Labels teach that too: the groups `none ...` are a second sum of the same views and a bias; its σ
is the probability of "none of these" among all that is not e*.
"""

from __future__ import annotations

import numpy as np

from stamo.features.base import Theta, View, weigh
from stamo.features.pile import Pile
from stamo.features.views import Description, LongerName, NextWords, Sentence, Words
from stamo.models.base import MASKED, Frozen
from stamo.system.files import Float32, Float64

VIEWS: tuple[View, ...] = (Words(), NextWords(), LongerName(), Sentence(), Description())
"""Every view; a new one is a class and a word here."""

SCALE, BIAS, NONE_BIAS = "correction scale", "correction bias", "none bias"
PARTS = ("model", *(view.part for view in VIEWS), "entity's bias")
"""What adds up to the log odds of e*."""
OWN_SHARE = 0.5
"""How much of a mention's log odds is its own; the rest is the mean of its name in the document."""


def weighed_views(theta: Theta, kind: str = "correction") -> dict[View, Float64]:
    """Return the weights of every view that a θ(e*) weighs, (E, columns) each."""
    named = [(view, f"{kind} {view.name}") for view in VIEWS]
    return {view: theta[name].astype(np.float64) for view, name in named if name in theta}


def margins(frozen: Frozen, theta: Theta, temperature: float) -> Float32:
    """Return by how much each emerging entity beats the best other candidate, (M, E).

    A name that means nothing else has nothing to beat; there the prior speaks alone, at the
    temperature of the margins.
    """
    pile, scores = frozen.pile, frozen.scores(theta)
    n_known = scores.shape[1] - len(pile.entities)
    found = np.zeros((len(scores), len(pile.entities)), dtype=np.float32)
    for e in range(len(pile.entities)):
        best = np.delete(scores, n_known + e, axis=1).max(axis=1, initial=MASKED)
        found[:, e] = np.where(best > MASKED / 2, scores[:, n_known + e] - best, np.float32(0))
    alone = ~(scores[:, :n_known] > MASKED / 2).any(axis=1)
    prior = theta["prior"].T[pile.alias[alone]].clip(0.02, 0.98)
    found[alone] = temperature * np.log(prior / (1 - prior))
    return found


def log_odds(
    margin: Float32, pile: Pile, theta: Theta, temperature: float
) -> tuple[Float64, Float64]:
    """Return f, (M, E), and what each of `PARTS` adds to it, (M, E, parts).

    Args:
        margin: See `margins`, (M, E).
        pile: The mentions.
        theta: θ(e*); without a correction the margin speaks alone.
        temperature: τ, the model's: margins divided by it are log odds of known entities.
    """
    parts = np.zeros((*margin.shape, len(PARTS)))
    parts[..., 0] = margin.astype(np.float64) / temperature
    if BIAS in theta:
        parts[..., 0] *= 1 + theta[SCALE].astype(np.float64)[:, 0]
        for view, weights in weighed_views(theta).items():
            parts[..., PARTS.index(view.part)] = weigh(pile.rows(view), weights)
        parts[..., -1] = theta[BIAS][:, 0]
    return parts.sum(axis=2), parts


def agree(odds: Float64, pile: Pile) -> Float64:
    """Let the mentions of one name in one document agree half-way, (M, E).

    One sense in a document is likely, not certain: a text on Dawn French may name the probe.
    """
    _, vote, size = pile.votes
    columns = [np.bincount(vote, weights=column) / size for column in odds.T]
    together = np.stack(columns, axis=1)[vote]
    return np.asarray(OWN_SHARE * odds + (1 - OWN_SHARE) * together)


def none_odds(pile: Pile, theta: Theta) -> Float64 | None:
    """Return the log odds that what is not e* is nothing known either, (M, E); None: not taught."""
    if NONE_BIAS not in theta:
        return None
    odds = np.zeros((len(pile), 1)) + theta[NONE_BIAS].astype(np.float64)[:, 0]
    for view, weights in weighed_views(theta, "none").items():
        odds = odds + weigh(pile.rows(view), weights)
    return np.asarray(odds)
