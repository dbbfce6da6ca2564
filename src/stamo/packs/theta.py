"""From a learned θ(e*) to an entity pack, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from stamo.features.params import FeatureParams
from stamo.features.pile import Pile
from stamo.kb.base import KnowledgeBase
from stamo.models.evidence import GROUPS
from stamo.models.store import TrainedModel
from stamo.packs.pack import EntityPack

SHIFT = "decision-shift"
"""The group of a pack that holds what was added to the log odds to draw the line for F1."""
OWN_FIELDS = frozenset({"prior", "relatedness", "embedding"})
"""The groups of θ(e*) that are fields of a pack; all others are stored by name."""


def group_name(name: str) -> str:
    """Return the name that a group of θ(e*) has in a pack."""
    return name.replace(" ", "-")


def make_pack(
    theta: FeatureParams,
    pile: Pile,
    kb: KnowledgeBase,
    trained: TrainedModel,
    *,
    number: int = 0,
    shift: float = 0.0,
    odds: bool = False,
    labels: str = "",
    history: Sequence[Mapping[str, Any]] = (),
    description: str = "",
    notes: Mapping[str, str] | None = None,
) -> EntityPack:
    """Pack what was learned of one entity.

    Args:
        theta: θ̂(e*) of all entities of the pile.
        pile: The pile that it was learned on; its neighbours are the pack's.
        kb: The knowledge base.
        trained: The linking model.
        number: Which of the pile's entities.
        shift: What was added to the log odds to draw the line for F1; confidences leave it out.
        odds: Whether the prior is kept as odds, as the published reading does.
        labels: The fingerprint of the labels.
        history: What each slot did.
        description: A line for people.
        notes: Where the documents came from, who labelled.
    """
    rows = {name: values[number].numpy() for name, values in theta.groups.items()}
    entity = pile.entities[number]
    priors = rows["prior"][[pile.aliases.index(alias) for alias in entity.aliases]]
    groups = {group_name(n): v.astype(np.float32) for n, v in rows.items() if n not in OWN_FIELDS}
    groups[SHIFT] = np.array([shift], dtype=np.float32)
    return EntityPack.project(
        entity,
        kb,
        priors=priors / (1 + priors) if odds else priors,
        neighbours=pile.neighbours,
        # A model without relatedness (Yamada's) learns none.
        relatedness=rows.get("relatedness", np.zeros(len(pile.neighbours))),
        vector=rows["embedding"],
        model_fingerprint=trained.fingerprint,
        labels_fingerprint=labels,
        groups=groups,
        history=tuple(history),
        description=description,
        notes=notes or {},
    )


def pack_theta(pack: EntityPack, pile: Pile) -> FeatureParams:
    """Return θ(e*) of a pack in the shapes that the features expect, (1, ...) each.

    The pile's neighbours and aliases must be the pack's own.
    """
    groups = {
        "prior": pack.priors,
        "relatedness": pack.relatedness,
        "embedding": pack.vector,
        **{name: pack.groups[key] for name in GROUPS if (key := group_name(name)) in pack.groups},
    }
    theta = {name: torch.from_numpy(np.array(values))[None] for name, values in groups.items()}
    known = {*theta, *map(group_name, GROUPS), SHIFT}
    rest = {n: torch.from_numpy(np.array(v))[None] for n, v in pack.groups.items()}
    return FeatureParams(theta | {n: v for n, v in rest.items() if n not in known})


def strongest_neighbours(pack: EntityPack, n: int) -> list[tuple[str, float]]:
    """Return the titles that a pack's entity is most related to, the strongest first."""
    order: NDArray[np.int64] = np.argsort(-pack.relatedness, kind="stable")[:n]
    return [(pack.titles[i], float(pack.relatedness[i])) for i in order.tolist()]
