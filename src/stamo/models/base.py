"""What a linking model is: a score for every candidate, from looked-up features (Sec. 2.3).

A model has two forms. The plain one, `Model.psi`, scores a batch of mentions: to link, and to train
φ. The frozen one, `Model.freeze`, scores one pile again and again while only e* moves: to learn an
entity, and to link with its pack. Each formula is written once; where a gradient is asked for,
autograd follows the same functions of NumPy.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import ClassVar, Self, TypeAlias

import numpy as np

from stamo.errors import ModelError
from stamo.features.base import Array, Feature, Theta, append, library, unit
from stamo.features.embedding import Tables, local_vectors, mean_rows
from stamo.features.mentions import EncodedMentions
from stamo.features.pile import Pile
from stamo.system.files import Bools, Float32, Float64, Int64

MASKED = -1e9
"""The score of padding; no real score comes near it, and it survives softmax and argmax."""
N_HIDDEN = 100
DROPOUT = 0.1
"""Γ: its hidden layer, and the share of it that is left out in training (Training Details)."""
Dropout: TypeAlias = "np.random.Generator | None"
"""What draws the hidden numbers that are left out; None leaves out none."""
MAX_BLOCK_MENTIONS = 128
MAX_BLOCK_CELLS = 8192
"""Mentions times candidates scored at once: this bounds memory at about 10 MB."""


@dataclass(frozen=True)
class Calibration:
    """Turns scores into probabilities.

    The scores of a mention's candidates become a distribution by a softmax at `temperature`; a
    logistic curve on the log odds of the best candidate then says how often such a link is right,
    which also accounts for mentions whose entity is no candidate at all.
    """

    temperature: float = 1.0
    slope: float = 1.0
    intercept: float = 0.0

    def distribution(self, scores: Float32) -> Float64:
        """Return P(e | m, the entity is a candidate), (M, C)."""
        scaled = scores.astype(np.float64) / self.temperature
        odds = np.exp(scaled - scaled.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))

    def confidence(self, scores: Float32) -> Float64:
        """Return the probability that the best candidate is right, (M,)."""
        return self.confidence_of(self.distribution(scores).max(axis=1))

    def confidence_of(self, probability: Float64) -> Float64:
        """Return the calibrated probability for a candidate's share of the distribution."""
        return np.asarray(
            1 / (1 + np.exp(-(self.slope * log_odds_of(probability) + self.intercept)))
        )


def log_odds_of(probability: Float64) -> Float64:
    """Return the log odds of probabilities, which are kept away from 0 and 1."""
    p = np.clip(probability, 1e-6, 1 - 1e-6)
    return np.asarray(np.log(p / (1 - p)))


@dataclass(frozen=True)
class Batch:
    """What a model sees of B mentions with C candidates each."""

    mask: Array  # (B, C) bool: where a candidate stands
    vectors: Array  # (B, C, Q) entity embeddings f₃(e)
    words: Array  # (B, H, Q) word embeddings f₄(w) of the context; their mean, (B, Q), for a model
    # that does not read each word
    word_mask: Array  # (B, H) bool
    context: Array  # (B, Q) mean embedding of the entity context
    features: Mapping[str, Array]  # name -> (B, C) or (B, C, n): prior, relatedness, ...


class Model(ABC):
    """A linking model g with parameters φ; it implements `psi`, and what it shares is here."""

    name: ClassVar[str]
    own_features: ClassVar[tuple[Feature, ...]]
    """What it reads; the embedding is among them."""
    scored: ClassVar[tuple[str, ...]] = ("prior", "relatedness")
    """Names of the model's own features whose values are scores Ψ as they are."""
    score_names: ClassVar[tuple[str, ...]] = ()
    """What explanations call the scores Ψ, in their order."""
    n_scores: ClassVar[int]
    """How many scores Ψ there are without added features."""
    reads_each_word: ClassVar[bool] = False
    """Whether it looks at the context words one by one, or at their mean."""

    def __init__(
        self,
        dimensions: int,
        extra: Sequence[Feature] = (),
        phi: Mapping[str, Array] | None = None,
        *,
        seed: int = 0,
    ) -> None:
        """Create a model.

        Args:
            dimensions: Q, the size of word and entity vectors.
            extra: Features beyond the model's own; each one adds a score.
            phi: The parameters by name; drawn by default.
            seed: Of what is drawn.

        Raises:
            ModelError: An array of φ is missing, one is too much, or one has another shape.
        """
        self.dimensions, self.features = dimensions, (*self.own_features, *extra)
        self.extra = tuple(feature.name for feature in extra)
        self.phi = self.initial_phi(np.random.default_rng(seed)) if phi is None else phi
        shapes = {name: tuple(values.shape) for name, values in self.phi.items()}
        if shapes != self.shapes():
            raise ModelError(f"its arrays are {shapes}, expected are {self.shapes()}")

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of φ: those of Γ, by the names that saved models give them."""
        return {
            "combine.0.weight": (N_HIDDEN, self.n_scores + len(self.extra)),
            "combine.0.bias": (N_HIDDEN,),
            "combine.3.weight": (1, N_HIDDEN),
            "combine.3.bias": (1,),
        }

    def initial_phi(self, rng: np.random.Generator) -> dict[str, Float32]:
        """Return φ before training: ones, and Γ drawn evenly within 1 / √(its inputs)."""
        phi = {name: np.ones(shape, dtype=np.float32) for name, shape in self.shapes().items()}
        for layer in ("combine.0", "combine.3"):
            edge = phi[f"{layer}.weight"].shape[1] ** -0.5
            for name in (f"{layer}.weight", f"{layer}.bias"):
                phi[name] = rng.uniform(-edge, edge, phi[name].shape).astype(np.float32)
        return phi

    @abstractmethod
    def psi(self, batch: Batch) -> Array:
        """Return the scores Ψ of each candidate, (B, C, n); differentiable in the batch and in φ.

        All candidates are treated alike: an emerging entity is one more column.
        """

    def combine(self, psi: Array, *, dropout: Dropout = None) -> Array:
        """Return Γ(Ψ): one score of each candidate, (..., n) to (...)."""
        names = ("combine.0.weight", "combine.0.bias", "combine.3.weight", "combine.3.bias")
        first, bias, last, last_bias = (self.phi[name] for name in names)
        hidden = psi.reshape((-1, psi.shape[-1])) @ first.T
        hidden += bias
        if dropout is not None:
            kept = dropout.random(hidden.shape, dtype=np.float32) >= DROPOUT
            hidden = hidden * (kept / np.float32(1 - DROPOUT))
        values = library(hidden).maximum(hidden, np.float32(0)) @ last[0] + last_bias
        return values.reshape(psi.shape[:-1])

    def scores(self, batch: Batch, *, dropout: Dropout = None) -> Array:
        """Return g(e; m) = Γ(Ψ) (Eq. 6 and 11), (B, C); padding scores `MASKED`."""
        scores = self.combine(self.psi(batch), dropout=dropout)
        return library(scores).where(batch.mask, scores, MASKED)

    def freeze(self, pile: Pile) -> Frozen:
        """Prepare to score a pile again and again under changing θ(e*); kept with the pile.

        Raises:
            ModelError: There are no vectors to learn one in.
        """
        if not self.dimensions:
            raise ModelError(
                "Explanations, packs and learning need vectors, and the knowledge base has none; "
                "build it without --dimensions 0."
            )
        # What is kept holds φ, so no other φ gets its number.
        key = f"frozen for {type(self).__name__} {id(self.phi)} {self.features}"
        if key not in pile.kept:
            pile.kept[key] = self.frozen(pile)
        found: Frozen = pile.kept[key]
        return replace(found, pile=pile)  # a fold shares what is kept, but not the labels

    def frozen(self, pile: Pile) -> Frozen:
        """Return the frozen form; a model whose scores have a part without e* has a faster one."""
        return Frozen(self, pile)

    def score_known(self, mentions: EncodedMentions, tables: Tables) -> Float32:
        """Return g(e; m) of mentions whose candidates are all known, (M, C)."""
        scores = np.full(mentions.candidates.shape, MASKED, dtype=np.float32)
        for rows, batch in self.batches(mentions, tables):
            scores[rows, : batch.mask.shape[1]] = self.scores(batch)
        return scores

    def batches(self, mentions: EncodedMentions, tables: Tables) -> Iterator[tuple[Int64, Batch]]:
        """Yield the mentions that have a candidate, those of alike width together, and their rows.

        The vectors of a batch are overwritten by those of the next one.
        """
        width = mentions.mask.sum(axis=1)
        words, (word_place,) = local_vectors(tables.words, mentions.words)
        ids = mentions.candidates, mentions.context
        entities, (candidates, around) = local_vectors(tables.entities, *ids)
        context = mean_rows(entities, around)  # (M, Q)
        # One space for the words of every batch: fresh memory costs more than copying into it.
        size = MAX_BLOCK_MENTIONS * word_place.shape[1] * self.reads_each_word
        space = np.empty((size, words.shape[1]), np.float32)
        means = None if self.reads_each_word else mean_rows(words, word_place)
        for rows in blocks(width):
            place = candidates[rows, : int(width[rows[-1]])]  # (b, c)
            around = word_place[rows]  # (b, H)
            if means is None:
                gathered = space[: around.size]
                # Without "clip" it is buffered.
                words.take(around.ravel(), axis=0, out=gathered, mode="clip")
                own = gathered.reshape(*around.shape, -1)
            else:
                own = means[rows]
            known = mentions.known.items()
            yield (
                rows,
                Batch(
                    mask=place < len(entities) - 1,
                    vectors=entities.take(place, axis=0),
                    words=own,
                    word_mask=around < len(words) - 1,
                    context=context[rows],
                    features={n: values[rows, : place.shape[1]] for n, values in known},
                ),
            )

    def gather_scores(self, values: Mapping[str, Array], *own: Array) -> Array:
        """Put Ψ together, (B, C, n): the prior, the model's own scores, all other features."""
        prior, *others = (values[name] for name in (*self.scored, *self.extra))
        columns = [prior, *own]
        for other in others:
            columns += (
                [other] if other.ndim == 2 else [other[..., i] for i in range(other.shape[2])]
            )
        return library(*columns).stack(columns, -1)

    def with_features(self, features: Mapping[str, Feature]) -> Self:
        """Return the same model, sharing φ, with other estimators of its features."""
        own = tuple(features.get(feature.name, feature) for feature in self.features)
        if own == self.features:
            return self
        other = copy.copy(self)
        other.features = own
        return other

    def with_phi(self, phi: Mapping[str, Array]) -> Self:
        """Return the same model with other parameters."""
        other = copy.copy(self)
        other.phi = phi
        return other


@dataclass(frozen=True)
class Frozen:
    """Scores a pile under any θ(e*), right for every model: it looks all up and calls `psi`.

    What a subclass adds are arrays whose first axis is the mention.
    """

    model: Model
    pile: Pile

    def psi(self, theta: Theta) -> Array:
        """Return Ψ of all candidates, the emerging ones last, (M, C + E, n)."""
        pile, parts = self.pile, []
        emerging = unit(theta["embedding"])  # between slots θ₃ may leave the unit sphere
        for start in range(0, max(len(pile), 1), 512):  # so that memory does not grow with the pile
            part = pile.take(np.arange(start, min(start + 512, len(pile))))
            known = look_up(part.mentions, pile.tables, self.model.reads_each_word)
            columns = np.ones((len(part), 1, 1), np.float32) * emerging[None]
            batch = Batch(
                mask=np.hstack([part.mentions.mask, part.is_candidate]),
                vectors=append(known.vectors, columns),
                words=known.words,
                word_mask=known.word_mask,
                context=known.context,
                features=Frozen(self.model, part).values(theta),
            )
            parts.append(self.model.psi(batch))
        return library(emerging).concatenate(parts, 0)

    def values(self, theta: Theta) -> dict[str, Array]:
        """Return the features that are scores themselves, (M, C + E) each, by name."""
        names = {*self.model.scored, *self.model.extra}
        features = (feature for feature in self.model.features if feature.name in names)
        return {feature.name: feature.values(theta, self.pile) for feature in features}

    def scores(self, theta: Theta, *, dropout: Dropout = None) -> Array:
        """Return g(e; m) of all candidates, (M, C + E); padding scores `MASKED`."""
        scores = self.model.combine(self.psi(theta), dropout=dropout)
        stands = np.hstack([self.pile.mentions.mask, self.pile.is_candidate])
        return library(scores).where(stands, scores, MASKED)

    def take(self, rows: Int64) -> Self:
        """Return a frozen form of some of the mentions."""
        own = {field.name: getattr(self, field.name)[rows] for field in fields(self)[2:]}
        return replace(self, pile=self.pile.take(rows), **own)


def look_up(mentions: EncodedMentions, tables: Tables, each_word: bool) -> Batch:
    """Look up everything for mentions whose candidates are all known, in one batch."""
    words, (word,) = local_vectors(tables.words, mentions.words)
    ids = mentions.candidates, mentions.context
    entities, (candidate, context) = local_vectors(tables.entities, *ids)
    return Batch(
        mask=mentions.mask,
        vectors=entities[candidate],
        words=words[word] if each_word else mean_rows(words, word),
        word_mask=mentions.words >= 0,
        context=mean_rows(entities, context),
        features=mentions.known,
    )


def blocks(width: Int64) -> Sequence[Int64]:
    """Cut the mentions with a candidate into blocks of alike width and bounded size.

    Args:
        width: How many candidates each mention has, (M,).

    Returns:
        Rows of each block, from the narrowest to the widest mention.
    """
    order = np.argsort(width, kind="stable")
    order = order[width[order] > 0]
    parts, start = [], 0
    while start < len(order):
        end = min(start + MAX_BLOCK_MENTIONS, len(order))
        cells = width[order[start:end]] * np.arange(1, end - start + 1)
        end = start + max(1, int(np.searchsorted(cells, MAX_BLOCK_CELLS, side="right")))
        parts.append(order[start:end])
        start = end
    return parts


def softmax(values: Array) -> Array:
    """Return the softmax of each row, (B, H)."""
    xp = library(values)
    shares = xp.exp(values - xp.max(values, 1, keepdims=True))
    shares /= xp.sum(shares, 1, keepdims=True)
    return shares


def highest(values: Array, n: int) -> Bools:
    """Return where the n highest values of each row stand, (B, H)."""
    values = getattr(values, "_value", values)  # the plain array of one that autograd follows
    order = np.argpartition(values, values.shape[1] - n, axis=1)
    kept: Bools = np.ones(values.shape, dtype=np.bool_)
    np.put_along_axis(kept, order[:, : values.shape[1] - n], False, axis=1)
    return kept
