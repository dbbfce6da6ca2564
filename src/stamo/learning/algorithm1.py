"""Algorithm 1 of the paper: self-training as multiple optimisations (Sec. 3).

In every slot the model labels U under θ̂(e*), θ(e*) is estimated on real and pseudo-labels, moved
towards the real labels (intra-slot optimisation, Eq. 13), and θ̂(e*) follows by a small step
(inter-slot optimisation, Eq. 15 to 17). Every variant of the paper's tables is another `StamoArgs`;
our own default has the same shape and stands in `stamo.learning.default`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from stamo.errors import DivergenceError, LearningError, Ranged
from stamo.features.base import Array, Feature, Theta, estimate, library
from stamo.features.pile import Pile
from stamo.models.base import Frozen, Model
from stamo.system.files import Float32, Int64
from stamo.system.processes import one_thread

ALL_SLOTS = "max slots"
"""Learning stopped after the last slot that it was given."""
NO_CHANGE = "no change"
"""Learning stopped since no pseudo-label changed for as many slots as its patience."""
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
"""β₁, β₂ and ε of the moments (Eq. 15 to 17), those of Adam."""


@dataclass(frozen=True)
class IntraSlotArgs(Ranged):
    """How θ(e*) is optimised inside a slot; `n_epochs` 0 leaves the estimate as it is."""

    n_epochs: int = 50
    learning_rate: Mapping[str, float] = field(default_factory=dict)
    """Rate of single groups; the others use `default_rate`."""
    default_rate: float = 1e-4
    batch_size: int = 32
    margin: float = 0.01
    """μ of the objective (Eq. 12)."""
    mean_over_candidates: int | None = None
    """Divide the loss by this number of candidates."""
    dropout: bool = False
    """Leave the model's dropout on."""
    seed: int = 0

    ranges: ClassVar = {"n_epochs": 0, "batch_size": 1, "learning_rate": 0, "default_rate": 0}


@dataclass(frozen=True)
class InterSlotArgs(Ranged):
    """How far θ̂(e*) follows the newest θ_intra."""

    eta: Mapping[str, float] = field(
        default_factory=lambda: {"prior": 5e-2, "relatedness": 5e-2, "embedding": 1e-3}
    )
    """Learning rate η of each group (Training Details)."""
    default_eta: float = 5e-2
    """Learning rate of a group that `eta` does not name (an added feature)."""
    adaptive: bool = True
    """Use the moments of δ (Eq. 15 and 16); False steps along δ itself."""
    gamma: int = 5
    """Warm-up period γ in slots; 1 is no warm-up."""

    ranges: ClassVar = {"eta": 0, "default_eta": 0, "gamma": 1}


NO_INTRA = IntraSlotArgs(n_epochs=0)
"""Leave every estimate as it is."""


@dataclass(frozen=True)
class StamoArgs(Ranged):
    """The settings of Algorithm 1; the defaults are the paper's."""

    n_slots: int = 100
    """T, the most slots to run; none estimate on L alone."""
    patience: int | None = 5
    """Stop when no pseudo-label changed for this many slots; None always runs all slots."""
    intra: IntraSlotArgs = field(default_factory=IntraSlotArgs)
    inter: InterSlotArgs | None = field(default_factory=InterSlotArgs)
    """Inter-slot optimisation; None takes θ_intra as it is (vanilla Self-Training)."""
    first_intra: IntraSlotArgs | None = None
    """Intra-slot optimisation before the first slot, on L alone; None: as in every slot."""
    kept: tuple[str, ...] = ()
    """Groups that are estimated on L alone and then only optimised."""

    ranges: ClassVar = {"n_slots": 0}


@dataclass(frozen=True)
class Slot:
    """What one slot did; slot 0 is the labels alone."""

    number: int
    theta: dict[str, Float32]
    """θ̂(e*) at its end."""
    pseudo_labels: Float32  # (M, E) of all mentions; those of L carry their labels
    n_flipped: int = 0
    """Mentions whose entity changed since the slot before."""
    shifts: tuple[float, ...] = ()
    """What the decision on each entity adds to its log odds."""
    seconds: float = 0.0


@dataclass(frozen=True)
class Learned:
    """θ̂(e*) of all entities of a pile, and how learning came to it."""

    theta: dict[str, Float32]
    pile: Pile
    model: Model
    """With the estimators that θ̂(e*) was learned with."""
    posterior: Float32
    """How far each mention of W is each entity by θ̂(e*), (M, E); L keeps its labels."""
    used_slot: int
    """The slot that θ̂(e*) is of; 0 for the labels alone."""
    stopped: str
    """Why learning ended: `max slots` or `no change`."""
    shifts: tuple[float, ...]
    """What the decision added to the log odds of each entity; confidences leave it out."""
    threshold: tuple[float, ...]
    """What was added to the log odds of each entity after labels and pile were put together."""
    pile_helped: bool | None = None
    """Whether the unlabelled documents helped; None where the method does not ask."""
    pile_weight: float = 1.0
    """How much of θ̂(e*) is of `used_slot`; the rest is of the labels alone."""
    left_out_likelihood: tuple[float, float] | None = None
    """Mean log likelihood of the left-out labels: with the labels alone, and with the pile."""


OnSlot = Callable[[Slot], None]


def ignore(slot: Slot) -> None:
    """Look at no slot."""


@one_thread()
def stamo(
    pile: Pile,
    model: Model,
    features: Mapping[str, Feature],
    args: StamoArgs = StamoArgs(),
    on_slot: OnSlot = ignore,
) -> Learned:
    """Learn θ̂(e*) by self-training as multiple optimisations (Algorithm 1).

    Args:
        pile: W, with the labels of L.
        model: g with its frozen φ.
        features: The estimators, in place of the model's own of the same names.
        args: Which variant.
        on_slot: Sees the labels alone as slot 0, then every slot.

    Raises:
        LearningError: There is neither a label nor a description of an entity.
        DivergenceError: A value of θ̂(e*) is no finite number any more.
    """
    check_labels(pile)
    model = model.with_features(features)
    frozen = model.freeze(pile)
    labelled = labelled_part(frozen)
    theta = estimate(pile.sample(), model.features)  # 1   θ⁰
    theta_hat = intra_slot(theta, *labelled, args.first_intra or args.intra)  # 2   θ̂⁰, Eq. 13
    s = {name: np.zeros_like(group) for name, group in theta_hat.items()}  # 3
    v = {name: np.zeros_like(group) for name, group in theta_hat.items()}
    no_shift = (0.0,) * len(pile.entities)
    pseudo = label(frozen, theta_hat)
    on_slot(Slot(0, theta_hat, pseudo, shifts=no_shift))
    t = unchanged = 0
    while t < args.n_slots and (args.patience is None or unchanged < args.patience):  # 4
        t, start = t + 1, time.perf_counter()
        before, pseudo = pseudo, label(frozen, theta_hat)  # 5   ê, m ∈ U
        theta = estimate(pile.sample(pseudo), model.features)  # 6   θᵗ
        theta |= {name: theta_hat[name] for name in args.kept if name in theta_hat}
        theta_intra = intra_slot(theta, *labelled, args.intra)  # 7   Eq. 13
        if args.inter is None:
            theta_hat = theta_intra  # Eq. 14
        else:
            theta_hat, s, v = inter_slot(theta_hat, theta_intra, s, v, t, args.inter)  # 8 to 13
        check_finite(theta_hat, t)
        n_flipped = len(pile) if t == 1 else int((before != pseudo).any(axis=1).sum())
        unchanged = 0 if n_flipped else unchanged + 1
        seconds = time.perf_counter() - start
        on_slot(Slot(t, theta_hat, pseudo, n_flipped, no_shift, seconds))  # 14
    stopped = ALL_SLOTS if t >= args.n_slots else NO_CHANGE
    posterior = label(frozen, theta_hat)
    return Learned(theta_hat, pile, model, posterior, t, stopped, no_shift, no_shift)  # 15  θ̂ᵀ


def label(frozen: Frozen, theta: Theta) -> Float32:
    """Label U by the model under θ̂(e*), (M, E); the mentions of L keep their labels."""
    pile, scores = frozen.pile, frozen.scores(theta)
    emerging = np.arange(scores.shape[1] - len(pile.entities), scores.shape[1])
    predicted = (scores.argmax(axis=1)[:, None] == emerging).astype(np.float32)
    return np.where(pile.labelled[:, None], pile.labels, predicted)


def labelled_part(frozen: Frozen) -> tuple[Frozen, Int64]:
    """Return L and the gold column of each of its mentions.

    Mentions whose gold entity is no candidate at all teach nothing inside a slot and are left out.
    """
    pile, mentions = frozen.pile, frozen.pile.mentions
    emerging = mentions.candidates.shape[1] + pile.labels.argmax(axis=1)
    gold = np.where(pile.labels.max(axis=1) > 0.5, emerging, mentions.gold_column())
    rows = np.flatnonzero(pile.labelled & (gold >= 0))
    return frozen.take(rows), gold[rows]


def intra_slot(
    theta: Theta, labelled: Frozen, gold: Int64, args: IntraSlotArgs
) -> dict[str, Float32]:
    """Minimise the model's own objective on L with respect to θ(e*), by autograd (Eq. 13).

    Args:
        theta: The initial guess: what was estimated on real and pseudo-labels.
        labelled: Scores the mentions of L.
        gold: The column of each mention's gold entity.
        args: Epochs, rates, batch size.

    Returns:
        θ_intra, which shares nothing with `theta`.
    """
    rates = {name: args.learning_rate.get(name, args.default_rate) for name in theta}
    moving = [name for name, rate in rates.items() if rate > 0 and theta[name].size]
    if not args.n_epochs or not len(gold) or not moving:
        return {name: group.copy() for name, group in theta.items()}
    from autograd import grad  # here: the default never comes here

    from stamo.models.train import max_margin_loss

    values, rng = dict(theta), np.random.default_rng(args.seed)
    # L is divided at random once: preparing a batch costs more than a step on it.
    batches = [(labelled, gold)]
    if len(gold) > args.batch_size:
        order = rng.permutation(len(gold))
        parts = [order[i : i + args.batch_size] for i in range(0, len(order), args.batch_size)]
        batches = [(labelled.take(rows), gold[rows]) for rows in parts]

    def loss(leaves: Theta, part: Frozen, target: Int64) -> Array:
        scores = part.scores({**values, **leaves}, dropout=rng if args.dropout else None)
        total = library(scores).sum(max_margin_loss(scores, target, args.margin))
        n_each = args.mean_over_candidates
        return total if n_each is None else total / np.float32(len(target) * n_each)

    with one_thread():
        for _ in range(args.n_epochs):
            moved = False
            for i in rng.permutation(len(batches)):
                gradients = grad(loss)({name: values[name] for name in moving}, *batches[i])
                for name, gradient in gradients.items():
                    if gradient.any():
                        values[name] = values[name] - np.float32(rates[name]) * gradient
                        moved = True
            if not moved and not args.dropout:
                break  # every mention keeps its margin, and will in every later epoch
    return {name: group.copy() for name, group in values.items()}


def inter_slot(
    theta_hat: Theta, theta_intra: Theta, s: Theta, v: Theta, t: int, args: InterSlotArgs
) -> tuple[dict[str, Float32], dict[str, Float32], dict[str, Float32]]:
    """Take one step from θ̂ᵗ⁻¹ towards θ_intra (Eq. 17); feeding δ to Adam gives the same.

    Returns:
        θ̂ᵗ and the moments s and v.
    """
    moved, new_s, new_v = {}, {}, {}
    for name in theta_hat:
        delta = theta_hat[name] - theta_intra[name]  # 8   δᵗ
        new_s[name] = BETA1 * s[name] + (1 - BETA1) * delta  # 9   Eq. 15
        new_v[name] = BETA2 * v[name] + (1 - BETA2) * delta**2
        s_hat = new_s[name] / (1 - BETA1**t)  # 10  Eq. 16
        v_hat = new_v[name] / (1 - BETA2**t)
        delta_hat = s_hat / (np.sqrt(v_hat) + EPSILON) if args.adaptive else delta  # 11
        eta = args.eta.get(name, args.default_eta)
        eta_t = min(eta, eta * t / args.gamma)  # 12
        moved[name] = theta_hat[name] - eta_t * delta_hat  # 13  Eq. 17
    return moved, new_s, new_v


def check_labels(pile: Pile) -> None:
    """Refuse a pile that there is nothing to learn from."""
    if not pile.labelled.any() and not any(entity.line for entity in pile.entities):
        raise LearningError(
            "None of the candidate mentions is labelled; label about twenty documents first, or "
            "write a description of the entity."
        )


def check_finite(theta: Theta, t: int) -> None:
    """Say in which group of θ(e*) a value stopped being a finite number."""
    for name, values in theta.items():
        if not np.isfinite(values).all():
            raise DivergenceError(
                f"Slot {t}: the {name!r} group of θ(e*) holds a value that is not finite; "
                f"lower the learning rate of this group."
            )
