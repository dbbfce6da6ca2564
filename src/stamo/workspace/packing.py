"""From a learned θ(e*) to an entity pack, and what a pack remembers of its making."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stamo.features.params import FeatureParams
from stamo.features.pile import Pile
from stamo.kb.base import KnowledgeBase
from stamo.kb.packs import EntityPack
from stamo.linking.packed import SHIFT, group_name
from stamo.models.store import TrainedModel
from stamo.workspace.label_events import LabelEvent

OWN_FIELDS = frozenset({"prior", "relatedness", "embedding"})
"""The groups of θ(e*) that are fields of a pack; all others are stored by name."""


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


def labels_fingerprint(events: Iterable[LabelEvent]) -> str:
    """Return a hash of what is labelled as what, whoever said so and when."""
    lines = sorted(
        json.dumps([e.target.document, e.target.start, e.target.end, e.choice]) for e in events
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def strongest_neighbours(pack: EntityPack, n: int) -> list[tuple[str, float]]:
    """Return the titles that a pack's entity is most related to, the strongest first."""
    order: NDArray[np.int64] = np.argsort(-pack.relatedness, kind="stable")[:n]
    return [(pack.titles[i], float(pack.relatedness[i])) for i in order.tolist()]
