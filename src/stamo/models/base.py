"""What a linking model is: a score for every candidate, from looked-up features (Sec. 2.3)."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self, TypeAlias, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from stamo.errors import ModelError
from stamo.features.base import Back, Feature, FeatureParams, Lookup, lookup_slope
from stamo.features.mentions import EncodedMentions
from stamo.features.pile import Pile
from stamo.models.tables import MASKED, Tables, Vectors, blocks, gather, local_tables
from stamo.system.files import Bools, Float32, Int32, Int64

Theta: TypeAlias = Mapping[str, Float32]
"""θ(e*) by group, in NumPy."""
ThetaBack: TypeAlias = Callable[[Float32], dict[str, Float32]]
"""From the gradient of the scores to the gradients of the groups of θ(e*)."""

OwnBack: TypeAlias = Callable[[Float32, Float32], Float32]
"""From the gradients of g and of Ψ to that of the unit vectors of e*."""


@dataclass(frozen=True)
class Batch:
    """What a model sees of B mentions with C candidates each."""

    mask: Tensor  # (B, C) bool: where a candidate stands
    vectors: Tensor  # (B, C, Q) entity embeddings f₃(e)
    words: Tensor  # (B, H, Q) word embeddings f₄(w) of the context
    word_mask: Tensor  # (B, H) bool
    context: Tensor  # (B, K, Q) embeddings of the entity context
    context_mask: Tensor  # (B, K) bool
    features: Mapping[str, Tensor]  # name -> (B, C) or (B, C, n): prior, relatedness, ...


def make_batch(mentions: EncodedMentions, tables: Tables) -> Batch:
    """Look up everything for mentions whose candidates are all known."""
    return Batch(
        mask=torch.from_numpy(mentions.mask),
        vectors=gather(tables.entities, mentions.candidates),
        words=gather(tables.words, mentions.words),
        word_mask=torch.from_numpy(mentions.words >= 0),
        context=gather(tables.entities, mentions.context),
        context_mask=torch.from_numpy(mentions.context >= 0),
        features={name: torch.from_numpy(v) for name, v in mentions.known.items()},
    )


def make_emerging_batch(
    pile: Pile, theta: FeatureParams, features: tuple[Feature, ...], tables: Tables
) -> Batch:
    """Look up everything for candidate mentions; θ(e*) fills the last columns, differentiably."""
    known = make_batch(pile.mentions, tables)
    # θ₃ may leave the unit sphere between slots; it is compared at unit norm, like all others.
    emerging = normalize(theta["embedding"], dim=-1)[None].expand(len(pile), -1, -1)  # (M, E, Q)
    return replace(
        known,
        mask=torch.cat([known.mask, torch.from_numpy(pile.is_candidate)], dim=1),
        vectors=torch.cat([known.vectors, emerging], dim=1),
        features={
            f.name: f.lookup(theta[f.name], pile) for f in features if f.name in theta.groups
        },
    )


class Scorer(Protocol):
    """Scores the mentions of one pile under any θ(e*); everything else is prepared."""

    @property
    def pile(self) -> Pile:
        """The mentions that are scored."""
        ...

    def __call__(self, theta: FeatureParams) -> Tensor:
        """Return g(e; m) of all candidates, (M, C + E); padding scores `MASKED`."""
        ...

    def slope(self, theta: Theta, rng: np.random.Generator | None) -> tuple[Float32, ThetaBack]:
        """Return the scores and the way back from their gradient: one step of Eq. 13.

        With `rng` the model's dropout is on and draws from it.
        """
        ...

    def take(self, rows: Int64) -> Scorer:
        """Return a scorer of some of the mentions."""
        ...


class LinkingModel(nn.Module, ABC):
    """A linking model g with parameters φ.

    A model implements `scores` and has a `combine`, or a `forward` of its own. Where a part of it
    does not depend on θ(e*), `prepare` may return a faster `Scorer` that gives the same scores, and
    so may `score_known`.
    """

    name: ClassVar[str]
    features: tuple[Feature, ...]
    scored: ClassVar[tuple[str, ...]] = ()
    """Names of the model's own features whose values are scores Ψ as they are."""
    extra: tuple[str, ...] = ()
    """Names of features beyond the model's own; each one adds a score."""
    combine: nn.Module
    """Γ: turns the scores into one."""

    def __init__(self, dimensions: int, features: tuple[Feature, ...] = ()) -> None:
        """Create a model for vectors of `dimensions`, with the given features."""
        super().__init__()
        self.features = features
        self.extra = tuple(f.name for f in features if f.name not in {*self.scored, "embedding"})

    @abstractmethod
    def scores(self, batch: Batch) -> Tensor:
        """Return the scores Ψ that `forward` combines, (B, C, n), for explanations."""

    def forward(self, batch: Batch) -> Tensor:
        """Return g(e; m) = Γ(Ψ) (Eq. 6 and 11), (B, C); padding scores `MASKED`."""
        scores: Tensor = self.combine(self.scores(batch)).squeeze(-1)
        return scores.masked_fill(~batch.mask, MASKED)

    def prepare(self, pile: Pile, tables: Tables) -> Scorer:
        """Prepare to score a pile again and again under changing θ(e*)."""
        return PlainScorer(self, pile, tables)

    def score_known(self, mentions: EncodedMentions, tables: Tables) -> Float32:
        """Return g(e; m) of mentions whose candidates are all known, (M, C)."""
        scores = np.full(mentions.candidates.shape, MASKED, dtype=np.float32)
        width = mentions.mask.sum(axis=1)
        tables = local_tables(tables, mentions)
        with torch.inference_mode():
            for rows in blocks(width):
                batch = make_batch(mentions.take(rows), tables)
                scores[rows, : width[rows[-1]]] = self(batch).numpy()
        return scores

    @property
    def encoded_features(self) -> tuple[Feature, ...]:
        """Return the features that are looked up once, when mentions are encoded.

        Embeddings are not among them: a model gathers them from its tables.
        """
        return tuple(feature for feature in self.features if feature.name != "embedding")

    @property
    def scored_features(self) -> tuple[Feature, ...]:
        """Return the features that are scores themselves: those of `scored`, and all extra ones."""
        by_name = {feature.name: feature for feature in self.features}
        return tuple(by_name[name] for name in (*self.scored, *self.extra))

    @property
    def state(self) -> dict[str, Float32]:
        """Return φ as arrays, by the names that a saved model gives them."""
        return {name: values.detach().numpy() for name, values in self.state_dict().items()}

    def with_features(self, features: tuple[Feature, ...]) -> Self:
        """Return the same model, sharing φ, that looks its features up in another way."""
        if {f.name for f in features} != {f.name for f in self.features}:
            raise ModelError(
                f"The model {self.name!r} was trained with {_names(self.features)}; it cannot "
                f"score {_names(features)}."
            )
        other = copy.copy(self)
        other.features = features
        return other


@dataclass(frozen=True)
class PlainScorer:
    """The scorer any model has: look everything up and call `forward`."""

    model: LinkingModel
    pile: Pile
    tables: Tables
    block: int = 512

    def __call__(self, theta: FeatureParams) -> Tensor:
        """Score in blocks, so that memory does not grow with the pile."""
        if not len(self.pile):
            n_columns = self.pile.mentions.candidates.shape[1] + len(self.pile.entities)
            return torch.zeros(0, n_columns)
        parts = np.split(np.arange(len(self.pile)), range(self.block, len(self.pile), self.block))
        model, tables = self.model, self.tables
        batches = (
            make_emerging_batch(self.pile.take(rows), theta, model.features, tables)
            for rows in parts
        )
        return torch.cat([model(batch) for batch in batches])

    def slope(self, theta: Theta, rng: np.random.Generator | None) -> tuple[Float32, ThetaBack]:
        """Return the scores and what autograd finds; dropout draws from torch's generator."""
        leaves = {name: torch.from_numpy(v).clone().requires_grad_() for name, v in theta.items()}
        self.model.train(rng is not None)
        scores = self(FeatureParams(leaves))
        self.model.eval()

        def back(by_score: Float32) -> dict[str, Float32]:
            found = torch.autograd.grad(
                scores, list(leaves.values()), torch.from_numpy(by_score), allow_unused=True
            )
            pairs = zip(leaves, found, strict=True)
            return {name: g.numpy() for name, g in pairs if g is not None}

        return scores.detach().numpy(), back

    def take(self, rows: Int64) -> PlainScorer:
        """Return a scorer of some of the mentions."""
        return PlainScorer(self.model, self.pile.take(rows), self.tables, self.block)


def _names(features: tuple[Feature, ...]) -> str:
    return ", ".join(feature.name for feature in features)


class Combine(nn.Sequential):
    """Γ: the layers that turn n scores into one (Training Details)."""

    def __init__(self, n_scores: int) -> None:
        super().__init__(nn.Linear(n_scores, 100), nn.Dropout(0.1), nn.ReLU(), nn.Linear(100, 1))


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Average over the second axis where the mask holds; zero where it holds nowhere.

    Args:
        values: Shape (B, K, Q).
        mask: Shape (B, K).

    Returns:
        Shape (B, Q).
    """
    total = (values * mask[..., None]).sum(dim=1)
    return total / mask.sum(dim=1, keepdim=True).clamp_min(1)


def mean_vectors(table: Vectors, ids: Int32, block: int = 256) -> Tensor:
    """Return the mean vector of each row of ids, (M, Q); blocks keep memory small."""
    parts = [ids[start : start + block] for start in range(0, max(len(ids), 1), block)]
    return torch.cat([masked_mean(gather(table, i), torch.from_numpy(i >= 0)) for i in parts])


def combine_slope(
    layers: Combine, psi: Float32, absent: Bools, rng: np.random.Generator | None
) -> tuple[Float32, Back]:
    """Combine the scores Ψ (M, C + E, n) by Γ; return g and the way back to Ψ, written out."""
    linear, dropout, _, final = cast("Iterable[Any]", layers)
    parameters = (linear.weight, linear.bias, final.weight[0], final.bias)
    first, first_bias, last, last_bias = (p.detach().numpy() for p in parameters)
    flat = psi.reshape(-1, psi.shape[-1])
    hidden: Float32 = flat @ first.T
    hidden += first_bias
    active = hidden > 0
    if rng is not None:
        active &= rng.random(active.shape, dtype=np.float32) >= dropout.p
        last = last / np.float32(1 - dropout.p)
    hidden *= active
    combined: Float32 = np.matmul(hidden, last)
    scores = (combined + last_bias).reshape(absent.shape)
    scores[absent] = MASKED

    def back(by_score: Float32) -> Float32:
        rows = np.flatnonzero(by_score.ravel() * ~absent.ravel())
        by_hidden = active[rows] * (by_score.ravel()[rows, None] * last)
        by_psi = np.zeros_like(flat)
        by_psi[rows] = by_hidden @ first
        return by_psi.reshape(psi.shape)

    return scores, back


def unit_slope(vectors: Float32) -> tuple[Float32, Back]:
    """Return vectors (E, Q) at unit norm, and the way back from their gradient."""
    norm = np.maximum(np.sqrt((vectors * vectors).sum(axis=1, keepdims=True)), 1e-12)
    unit: Float32 = vectors / norm

    def back(by_unit: Float32) -> Float32:
        along = (by_unit * unit).sum(axis=1, keepdims=True)
        gradient: Float32 = (by_unit - along * unit) / norm
        return gradient

    return unit, back


class PreparedScorer(ABC):
    """What scorers with a frozen part share: the features that are scores themselves, and Γ.

    Of the scores Ψ the first is the prior, two are the model's own, and all others are features.
    """

    model: Any
    pile: Pile

    @abstractmethod
    def own_scores(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Return Ψ₂ and Ψ₃ of all candidates, (M, C + E), for unit vectors of e*, (E, Q)."""

    @abstractmethod
    def own_slope(self, vectors: Float32, psi: Float32) -> OwnBack:
        """Write Ψ₂ and Ψ₃ into `psi`, (M, C + E, n); return the way back to the unit vectors."""

    @torch.no_grad()
    def __call__(self, theta: FeatureParams) -> Tensor:
        """Return g(e; m) of all candidates, (M, C + E).

        The numbers of `slope` but for the last bit: NumPy's products round otherwise (up to 6e-8 of
        a score), and packs are compared by their bytes.
        """
        looked_up = (f.lookup(theta[f.name], self.pile) for f in self.model.scored_features)
        prior, *others = (s for v in looked_up for s in (v.unbind(-1) if v.ndim == 3 else (v,)))
        psi2, psi3 = self.own_scores(normalize(theta["embedding"], dim=-1))
        scores: Tensor = self.model.combine(torch.stack([prior, psi2, psi3, *others], dim=-1))
        return scores.squeeze(-1).masked_fill(torch.from_numpy(self.pile.is_absent), MASKED)

    def slope(self, theta: Theta, rng: np.random.Generator | None) -> tuple[Float32, ThetaBack]:
        """Return g(e; m) of all candidates and the way back from their gradient."""
        looked_up = [(name, *look(theta[name], self.pile)) for name, look in self.lookups.items()]
        unit, unit_back = unit_slope(theta["embedding"])
        columns, n = list[int | slice](), 0
        for _, values, _ in looked_up:
            width = values.shape[2] if values.ndim == 3 else 1
            columns.append(slice(n, n + width) if values.ndim == 3 else n)
            n = max(n + width, 3)
        psi = np.empty((*self.pile.is_absent.shape, n), dtype=np.float32)
        for (_, values, _), column in zip(looked_up, columns, strict=True):
            psi[..., column] = values
        own_back = self.own_slope(unit, psi)
        scores, combined = combine_slope(self.model.combine, psi, self.pile.is_absent, rng)

        def back(by_score: Float32) -> dict[str, Float32]:
            by_psi = combined(by_score)
            gradients = {"embedding": unit_back(own_back(by_score, by_psi))}
            for (name, _, looked), column in zip(looked_up, columns, strict=True):
                gradients[name] = looked(by_psi[..., column])
            return gradients

        return scores, back

    @cached_property
    def lookups(self) -> dict[str, Lookup]:
        """Return how these features are looked up with their slope."""
        return {f.name: lookup_slope(f) for f in self.model.scored_features}
