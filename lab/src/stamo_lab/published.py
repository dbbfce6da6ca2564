"""What the published experiments are known to have done differently from the paper.

Every quirk is a class of its own over what it changes, or a setting, so that nothing else knows of
it. The method `published` has all of them; `QUIRKS` has them one by one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, cast

import numpy as np

from stamo.features.base import Array, Feature, Rows, Theta, append, library, weigh
from stamo.features.embedding import Embedding, MaxMargin
from stamo.features.mentions import EncodedMentions
from stamo.features.pile import Pile, Sample
from stamo.features.prior import Prior
from stamo.features.relatedness import Relatedness
from stamo.kb.base import KnowledgeBase
from stamo.kb.relatedness import wlm
from stamo.learning import learn
from stamo.learning.algorithm1 import (
    InterSlotArgs,
    IntraSlotArgs,
    Learned,
    OnSlot,
    StamoArgs,
    ignore,
)
from stamo.learning.learn import Method
from stamo.models.base import MASKED, Model, highest, softmax
from stamo.models.deeped import DeepED
from stamo.models.store import TrainedModel
from stamo.system.files import Float32


@dataclass(frozen=True)
class OddsPrior(Prior):
    """Keeps p / (1 - p) instead of p, and 0 where p is 0 or 1 or the alias is unseen.

    The odds are normalised over the candidates when they are looked up.
    """

    smoothing: float = 0.0

    def estimate(self, sample: Sample) -> Float32:
        """Count how often each alias means each entity, as odds, (E, A)."""
        p = super().estimate(sample)
        odds = np.where((p > 0) & (p < 1), p / np.where(p < 1, 1 - p, 1), 0.0)
        return odds.astype(np.float32)

    def together(self, known: Array, p: Array) -> Array:
        """Normalise known and emerging candidates together."""
        xp = library(known, p)
        values = xp.concatenate([known, p], 1)
        return values / xp.maximum(xp.sum(xp.abs(values), 1)[:, None], 1e-12)


@dataclass(frozen=True)
class CrawlRelatedness(Relatedness):
    """Counts of W times the size of the crawl over that of W, not clipped to [0, 1]."""

    match_pile: bool = False
    shrinkage: float = 0.0
    missing: Literal["ignore", "zero"] = "zero"
    crawl_share: float = 50.0
    """Documents of the crawl for each of W."""

    measure = staticmethod(partial(wlm, clip=False))


@dataclass(frozen=True)
class RelatednessScale(Feature):
    """One number that multiplies the relatedness row; it is trained and never reset."""

    name = "relatedness scale"

    def estimate(self, sample: Sample) -> Float32:
        """Start at 1."""
        return np.ones((len(sample.pile.entities), 1), dtype=np.float32)


@dataclass(frozen=True)
class ScaledRelatedness(Feature):
    """A relatedness whose row is multiplied by the scale."""

    feature: Relatedness

    name = Relatedness.name

    def rows(self, pile: Pile) -> Rows:
        """Return the rows of the relatedness."""
        return pile.rows(self.feature)

    def known(self, mentions: EncodedMentions, kb: KnowledgeBase) -> Float32:
        """Return the relatedness of the known candidates, (M, C)."""
        return self.feature.known(mentions, kb)

    def estimate(self, sample: Sample) -> Float32:
        """Estimate the row, (E, R)."""
        return self.feature.estimate(sample)

    def values(self, theta: Theta, pile: Pile) -> Array:
        """Return the values of all candidates, (M, C + E)."""
        row = theta[self.name] * theta[RelatednessScale.name]
        return append(pile.mentions.known[self.name], weigh(pile.rows(self), row))


@dataclass(frozen=True)
class RandomRestart(MaxMargin):
    """Starts from a random vector, never resets the gradient, and leaves the unit norm."""

    batch_size: int = 100

    def start(self, closed_form: Float32, rng: np.random.Generator) -> Float32:
        """Return a random vector."""
        return rng.standard_normal(len(closed_form)).astype(np.float32)

    def descend(self, vector: Float32, step: Float32, before: Float32) -> tuple[Float32, Float32]:
        """Follow the sum of all gradients so far."""
        gradient = before + step
        return vector - self.learning_rate * gradient, gradient


@dataclass(frozen=True)
class PublishedEmbedding(Embedding):
    """Trains the first vector, on L alone, longer and faster than all later ones."""

    max_margin: MaxMargin | None = RandomRestart()
    first: MaxMargin = RandomRestart(n_epochs=600, learning_rate=5e-2)

    def estimate(self, sample: Sample) -> Float32:
        """Train on L alone by other settings than on L and U."""
        is_first = not sample.counted[~sample.pile.labelled].any()
        return Embedding(self.n_words, self.first if is_first else self.max_margin).estimate(sample)


class PublishedDeepED(DeepED):
    """DeepED whose attention takes padding for words with support 0.

    It also keeps only the words strictly above the H'-th score.
    """

    def attend(self, support: Array, mask: Array) -> Array:
        """Weight the words above the H'-th score, padding among them; only words count."""
        if self.n_attended >= support.shape[1]:
            return super().attend(support, mask)
        xp = library(support)
        support = xp.where(mask, support, 0.0)
        kept = xp.where(highest(support, self.n_attended), support, np.inf)
        edge = xp.min(kept, 1)[:, None]
        return softmax(xp.where(support > edge, support, MASKED)) * mask


def attend_padding(model: Model) -> Model:
    """Return a model whose attention selects padding, where it has attention at all."""
    if not isinstance(model, DeepED):
        return model
    published = PublishedDeepED.__new__(PublishedDeepED)
    published.__dict__.update(model.__dict__)
    return published


def scale_relatedness(model: Model) -> Model:
    """Return a model whose θ(e*) has a scale of the relatedness, where it has relatedness."""
    if all(feature.name != Relatedness.name for feature in model.features):
        return model
    scaled = copy.copy(model)
    scaled.features = (*model.features, RelatednessScale())
    return scaled


@dataclass(frozen=True)
class PublishedMethod(Method):
    """A method that also changes how the model scores; φ is shared and unchanged."""

    changes: tuple[Callable[[Model], Model], ...] = ()

    def learn(self, pile: Pile, trained: TrainedModel, on_slot: OnSlot = ignore) -> Learned:
        """Learn the entities of a pile by the changed model."""
        for change in self.changes:
            trained = replace(trained, model=change(trained.model))
        return super().learn(pile, trained, on_slot)


STRONG_INTRA = IntraSlotArgs(
    learning_rate={
        "prior": 1e-4,
        "embedding": 1.0,
        RelatednessScale.name: 1.0,
        "relatedness": 0.0,
    },
    mean_over_candidates=30,
    dropout=True,
)
"""Rate 1.0 for the vector, dropout on."""

_ETA = {"prior": 5e-2, "relatedness": 5e-2, RelatednessScale.name: 5e-2, "embedding": 1e-3}
PUBLISHED = PublishedMethod(
    "published",
    {
        "prior": OddsPrior(),
        "relatedness": ScaledRelatedness(CrawlRelatedness()),
        "embedding": PublishedEmbedding(),
    },
    StamoArgs(
        patience=None,
        intra=STRONG_INTRA,
        inter=InterSlotArgs(eta=_ETA),
        first_intra=replace(STRONG_INTRA, n_epochs=450),
        kept=(RelatednessScale.name,),
    ),
    (attend_padding, scale_relatedness),
)
"""What the published experiments are known to have done."""
METHODS: Mapping[str, Method] = {**learn.METHODS, PUBLISHED.name: PUBLISHED}


def _changed(
    method: Method,
    features: Mapping[str, Feature] | None = None,
    change: Callable[[Model], Model] | None = None,
    **args: object,
) -> Method:
    """Return a method of Algorithm 1 with other estimators, another model or other settings."""
    return PublishedMethod(
        method.name,
        {**method.features, **(features or {})},
        replace(cast("StamoArgs", method.args), **args),  # type: ignore[arg-type]
        () if change is None else (change,),
    )


def _with_scale(method: Method) -> Method:
    scaled = ScaledRelatedness(cast("Relatedness", method.features["relatedness"]))
    kept = (RelatednessScale.name,)
    return _changed(method, {"relatedness": scaled}, scale_relatedness, kept=kept)


QUIRKS: Mapping[str, Callable[[Method], Method]] = {
    "odds prior": lambda m: _changed(m, {"prior": OddsPrior()}),
    "crawl-scaled relatedness": lambda m: _changed(m, {"relatedness": CrawlRelatedness()}),
    "random restart": lambda m: _changed(m, {"embedding": Embedding(max_margin=RandomRestart())}),
    "relatedness scale": _with_scale,
    "strong intra-slot": lambda m: _changed(m, intra=STRONG_INTRA),
    "attended padding": lambda m: _changed(m, change=attend_padding),
}
"""The quirks of the published experiments, each to be switched on alone over another method; those
of the slots over one of Algorithm 1."""

FEATURE_QUIRKS = ("odds prior", "crawl-scaled relatedness", "random restart")
"""The quirks of estimators, which also change an estimate without any slots."""
