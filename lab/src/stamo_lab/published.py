"""What the published experiments are known to have done differently from the paper.

Every quirk is a class of its own over what it changes, so that nothing else knows of it. The
reading `published` has all of them; `QUIRKS` has them one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from typing import Literal, cast

import numpy as np
import torch
from torch import Tensor

from stamo.features.base import Feature, FeatureParams, estimate
from stamo.features.embedding import Embedding, MaxMargin
from stamo.features.mentions import EncodedMentions
from stamo.features.pile import Pile, Sample
from stamo.features.prior import Prior, SplitSlope
from stamo.features.relatedness import Relatedness
from stamo.kb.base import KnowledgeBase
from stamo.kb.relatedness import wlm
from stamo.learning import variants
from stamo.learning.loop import Estimate, Reading, Task
from stamo.learning.paper import InterSlotArgs, IntraSlotArgs, StamoArgs, StamoSteps
from stamo.models.base import LinkingModel, Scorer, Theta, ThetaBack
from stamo.models.deeped import DeepED
from stamo.models.tables import MASKED, Tables
from stamo.system.files import Bools, Float32, Float64, Int64

RELATEDNESS_SCALE = "relatedness scale"


@dataclass(frozen=True)
class OddsPrior(Prior):
    """Keeps p / (1 - p) instead of p, and 0 where p is 0 or 1 or the alias is unseen.

    The odds are normalised over the candidates when they are looked up.
    """

    smoothing: float = 0.0

    def estimate(self, sample: Sample, kb: KnowledgeBase) -> Tensor:
        """Count how often each alias means each entity, as odds, (E, A)."""
        p = self._count(sample)
        odds = np.where((p > 0) & (p < 1), p / np.where(p < 1, 1 - p, 1), 0.0)
        return torch.as_tensor(odds, dtype=torch.float32)

    def packed(self, theta: Tensor) -> Tensor:
        """Return the probabilities that the odds stand for."""
        return theta / (1 + theta)

    def _together(self, known: Tensor, read: Tensor) -> Tensor:
        values = torch.cat([known, read], dim=1)
        return values / values.abs().sum(dim=1, keepdim=True).clamp_min(1e-12)

    def _together_slope(self, known: Float32, raw: Float32) -> tuple[Float32, SplitSlope]:
        values = np.hstack([known, raw])
        total = np.maximum(np.abs(values).sum(axis=1, keepdims=True), 1e-12)
        values /= total

        def back(by_known: Float32, by_p: Float32) -> Float32:
            along = (np.hstack([by_known, by_p]) * values).sum(axis=1, keepdims=True)
            gradient: Float32 = (by_p - np.sign(raw) * along) / total
            return gradient

        return values, back


@dataclass(frozen=True)
class CrawlRelatedness(Relatedness):
    """Counts of W times the size of the crawl over that of W, not clipped to [0, 1]."""

    match_pile: bool = False
    shrinkage: float = 0.0
    missing: Literal["ignore", "zero"] = "zero"
    documents_per_count: float = 50.0

    def _documents_per_count(self, pile: Pile, counted: Float64) -> float:
        return self.documents_per_count

    _measure = staticmethod(partial(wlm, clip=False))


@dataclass(frozen=True)
class RandomRestart(MaxMargin):
    """Starts from a random vector, never resets the gradient, and leaves the unit norm."""

    batch_size: int = 100

    def _start(self, closed_form: Float32, rng: np.random.Generator) -> Float32:
        return rng.standard_normal(len(closed_form)).astype(np.float32)

    def _descend(self, vector: Float32, step: Float32, before: Float32) -> tuple[Float32, Float32]:
        gradient = before + step
        return vector - self.learning_rate * gradient, gradient


class PublishedDeepED(DeepED):
    """DeepED whose attention takes padding for words with support 0.

    It also keeps only the words strictly above the H'-th score.
    """

    @classmethod
    def of(cls, model: DeepED) -> PublishedDeepED:
        """Return a model that shares φ and the features of another one."""
        published = cls.__new__(cls)
        published.__dict__.update(model.__dict__)
        return published

    def select(self, support: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Select the words above the H'-th score, padding among them; only words count."""
        if self.n_attended >= support.shape[1]:
            return super().select(support, mask)
        support = support.masked_fill(~mask, 0.0)
        edge = support.topk(self.n_attended, dim=1).values[:, -1:]
        return support.masked_fill(support <= edge, MASKED), mask

    def select_array(self, support: Float32, mask: Bools) -> tuple[Float32, Bools]:
        """Select as `select` does."""
        selected, counted = self.select(torch.from_numpy(support), torch.from_numpy(mask))
        return selected.numpy(), counted.numpy()

    def score_known(self, mentions: EncodedMentions, tables: Tables) -> Float32:
        """Score by `forward`; the faster way selects for itself."""
        return LinkingModel.score_known(self, mentions, tables)


def attend_padding(model: LinkingModel) -> LinkingModel:
    """Return a model whose attention selects padding, where it has attention at all."""
    return PublishedDeepED.of(model) if isinstance(model, DeepED) else model


PUBLISHED_FEATURES: Mapping[str, Feature] = {
    "prior": OddsPrior(),
    "relatedness": CrawlRelatedness(),
    "embedding": Embedding(max_margin=RandomRestart()),
}

FIRST_FEATURES: Mapping[str, Feature] = {
    **PUBLISHED_FEATURES,
    "embedding": Embedding(max_margin=RandomRestart(n_epochs=600, learning_rate=5e-2)),
}
"""Features that estimate θ⁰ on L."""

STRONG_INTRA = IntraSlotArgs(
    learning_rate={"prior": 1e-4, "embedding": 1.0, RELATEDNESS_SCALE: 1.0, "relatedness": 0.0},
    mean_over_candidates=30,
    dropout=True,
)
"""Rate 1.0 for the vector, dropout on."""

FIRST_INTRA = replace(STRONG_INTRA, n_epochs=450)


@dataclass(frozen=True)
class PublishedArgs(StamoArgs):
    """Algorithm 1 as it was run."""

    patience: int | None = None
    intra: IntraSlotArgs = STRONG_INTRA
    inter: InterSlotArgs | None = field(
        default_factory=lambda: InterSlotArgs(
            eta={"prior": 5e-2, "relatedness": 5e-2, RELATEDNESS_SCALE: 5e-2, "embedding": 1e-3}
        )
    )
    first_intra: IntraSlotArgs = FIRST_INTRA
    """Intra-slot optimisation on L alone, before the first slot."""
    first_features: Mapping[str, Feature] = field(default_factory=lambda: FIRST_FEATURES)
    """Features that estimate θ⁰ on L instead of the task's."""

    @classmethod
    def scaling(cls, args: StamoArgs) -> PublishedArgs:
        """Return the settings of another run, with a scale of the relatedness and nothing else."""
        same = {f.name: getattr(args, f.name) for f in fields(StamoArgs)}
        return cls(**same, first_intra=args.intra, first_features={})

    def steps(self, task: Task) -> StamoSteps:
        """Return the steps of a run; a model without relatedness has nothing to scale."""
        has_row = any(f.name == "relatedness" for f in task.model.features)
        return (ScalingSteps if has_row else FirstSteps)(task, self)


class FirstSteps(StamoSteps):
    """θ⁰ and θ̂⁰ have settings of their own."""

    args: PublishedArgs

    def estimate(self, sample: Sample, before: Estimate | None) -> FeatureParams:
        """Estimate every feature, on L alone by other settings."""
        if before is not None:
            return super().estimate(sample, before)
        own = [self.args.first_features.get(f.name, f) for f in self.task.model.features]
        return estimate(sample, own, self.task.kb)

    def fit(self, theta: FeatureParams, sample: Sample, before: Estimate | None) -> Estimate:
        """Minimise the model's objective on L, without a slot by other settings."""
        args = self.args
        return self._optimise(theta, args.first_intra if before is None else args.intra)


class ScalingSteps(FirstSteps):
    """One number multiplies the relatedness row, is trained inside the slots and never reset."""

    @cached_property
    def scorer(self) -> Scorer:
        """Scores the pile under a θ(e*) whose relatedness row has a scale of its own."""
        return _ScaledScorer(self.task.scorer)

    def estimate(self, sample: Sample, before: Estimate | None) -> FeatureParams:
        """Estimate every feature but the scale, which stays."""
        one = torch.ones(len(sample.pile.entities), 1)
        scale = one if before is None else before.theta[RELATEDNESS_SCALE]
        return super().estimate(sample, before).replace(**{RELATEDNESS_SCALE: scale})

    def looked_up(self, now: Estimate) -> FeatureParams:
        """Multiply the relatedness row by its scale."""
        return _scaled(now.theta)


def _scaled(theta: FeatureParams) -> FeatureParams:
    scaled = theta.replace(relatedness=theta["relatedness"] * theta[RELATEDNESS_SCALE])
    return FeatureParams({n: v for n, v in scaled.groups.items() if n != RELATEDNESS_SCALE})


@dataclass(frozen=True)
class _ScaledScorer:
    scorer: Scorer

    @property
    def pile(self) -> Pile:
        return self.scorer.pile

    def __call__(self, theta: FeatureParams) -> Tensor:
        return self.scorer(_scaled(theta))

    def take(self, rows: Int64) -> _ScaledScorer:
        return _ScaledScorer(self.scorer.take(rows))

    def slope(self, theta: Theta, rng: np.random.Generator | None) -> tuple[Float32, ThetaBack]:
        row, scale = theta["relatedness"], theta[RELATEDNESS_SCALE]
        scores, unscaled = self.scorer.slope({**theta, "relatedness": row * scale}, rng)

        def back(by_score: Float32) -> dict[str, Float32]:
            gradients = unscaled(by_score)
            by_row = gradients["relatedness"]
            by_scale = (by_row * row).sum(axis=1, keepdims=True)
            return {**gradients, "relatedness": by_row * scale, RELATEDNESS_SCALE: by_scale}

        return scores, back


PUBLISHED = Reading("published", PUBLISHED_FEATURES, PublishedArgs(), attend_padding)
"""What the published experiments are known to have done."""
READINGS = {**variants.READINGS, PUBLISHED.name: PUBLISHED}


def _feature_quirk(name: str) -> Callable[[Reading], Reading]:
    return lambda r: replace(r, features={**r.features, name: PUBLISHED_FEATURES[name]})


def _args_quirk(change: Callable[[StamoArgs], StamoArgs]) -> Callable[[Reading], Reading]:
    return lambda r: replace(r, args=change(cast("StamoArgs", r.args)))


QUIRKS: Mapping[str, Callable[[Reading], Reading]] = {
    "odds prior": _feature_quirk("prior"),
    "crawl-scaled relatedness": _feature_quirk("relatedness"),
    "random restart": _feature_quirk("embedding"),
    "relatedness scale": _args_quirk(PublishedArgs.scaling),
    "strong intra-slot": _args_quirk(lambda args: replace(args, intra=STRONG_INTRA)),
    "attended padding": lambda r: replace(r, adapt_model=attend_padding),
}
"""The quirks of the published experiments, each to be switched on alone over another reading; those
of the slots over one with the paper's steps."""

FEATURE_QUIRKS = ("odds prior", "crawl-scaled relatedness", "random restart")
"""The quirks of estimators, which also change an estimate without any slots."""
