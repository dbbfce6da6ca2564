"""Random piles and vectors, small enough to score by loops."""

import numpy as np
from scipy import sparse

from stamo.corpus.types import EmergingEntity
from stamo.features.base import FeatureParams
from stamo.features.mentions import EncodedMentions
from stamo.features.pile import Pile, positions
from stamo.models.tables import Tables

N_WORDS, N_ENTITIES, Q = 60, 30, 8


def make_tables(rng):
    words = rng.standard_normal((N_WORDS, Q)).astype(np.float32)
    entities = rng.standard_normal((N_ENTITIES, Q)).astype(np.float32)
    return Tables(
        words / np.linalg.norm(words, axis=1, keepdims=True),
        entities / np.linalg.norm(entities, axis=1, keepdims=True),
    )


def make_synthetic_pile(rng, n_mentions=25, n_words=12, n_context=4, shared_alias=False):
    """Mentions of two surfaces with different candidates, some words and contexts missing."""
    entities = (EmergingEntity("Star", ("Star", "The Star")),)
    if shared_alias:
        entities += (EmergingEntity("Second Star", ("Star",)),)
    aliases = ("Star", "The Star")
    table = np.array([[1, 4, 7, -1], [2, 3, 5, 9]], dtype=np.int32)
    prior_table = np.array([[0.6, 0.3, 0.1, 0.0], [0.4, 0.3, 0.2, 0.1]], dtype=np.float32)
    alias = rng.integers(0, 2, n_mentions).astype(np.int32)
    words = rng.integers(-1, N_WORDS, (n_mentions, n_words)).astype(np.int32)
    words[0] = -1  # a mention without any known word
    context = rng.integers(-1, N_ENTITIES, (n_mentions, n_context)).astype(np.int32)
    context[1] = -1  # a mention without any linked neighbour
    documents = np.sort(rng.integers(0, n_mentions, n_mentions)).astype(np.int32)
    candidates = table[alias]
    shape = candidates.shape
    known = {
        "prior": prior_table[alias],
        "relatedness": (rng.random(shape) * (candidates >= 0)).astype(np.float32),
        "surface": rng.random((*shape, 3)).astype(np.float32),
    }
    mentions = EncodedMentions(
        documents=documents,
        surfaces=alias,
        gold=np.full(n_mentions, -1, dtype=np.int32),
        words=words,
        context=context,
        candidates=candidates,
        known=known,
        surface_table=aliases,
    )
    neighbours = np.unique(context[context >= 0])[::2].astype(np.int32)
    return Pile(
        entities=entities,
        aliases=aliases,
        mentions=mentions,
        alias=alias,
        neighbours=neighbours,
        context=positions(neighbours, context),
        groups=documents.astype(np.int64) * 2 + alias,
        occurrence=sparse.csr_matrix((n_mentions, len(neighbours))),
        kb=None,
    )


def make_theta(rng, pile):
    import torch

    n = len(pile.entities)
    vectors = rng.standard_normal((n, Q))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    groups = {
        "prior": rng.random((n, len(pile.aliases))) * 0.4,
        "relatedness": rng.random((n, len(pile.neighbours))),
        "embedding": vectors,
        "surface": np.zeros((n, 0)),
    }
    return FeatureParams({k: torch.as_tensor(v, dtype=torch.float32) for k, v in groups.items()})


def objective(theta, scorer, gold, margin):
    """Return O(θ(e*); L) (Eq. 12 and 13)."""
    import torch

    from stamo.models.train import max_margin_loss

    with torch.no_grad():
        return float(max_margin_loss(scorer(theta), torch.from_numpy(gold), margin).sum())


def run_reading(task, reading):
    """Learn on a task the way a reading says."""
    from stamo.learning.loop import self_train

    return self_train(reading.task(task), reading.args)


def assert_finite(theta):
    """Every value of θ(e*) is a number."""
    assert all(bool(values.isfinite().all()) for values in theta.groups.values())
