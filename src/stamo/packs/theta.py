"""θ(e*) of an entity pack, by the names that its groups have there."""

from __future__ import annotations

import numpy as np

from stamo.models.correction import GROUPS
from stamo.packs.pack import EntityPack
from stamo.system.files import Float32, Int64

SHIFT = "decision-shift"
"""The group of a pack that holds what was added to the log odds to draw the line for F1."""


def pack_theta(pack: EntityPack) -> dict[str, Float32]:
    """Return θ(e*) of a pack in the shapes that the features expect, (1, ...) each.

    The aliases and neighbours of a pile that it is looked up on must be the pack's own.
    """
    names = {name.replace(" ", "-"): name for name in GROUPS}
    groups = {names.get(key, key): values for key, values in pack.groups.items() if key != SHIFT}
    groups |= {"prior": pack.priors, "relatedness": pack.relatedness, "embedding": pack.vector}
    return {name: np.asarray(values)[None] for name, values in groups.items()}


def strongest_neighbours(pack: EntityPack, n: int) -> list[tuple[str, float]]:
    """Return the titles that a pack's entity is most related to, the strongest first."""
    order: Int64 = np.argsort(-pack.relatedness, kind="stable")[:n]
    return [(pack.titles[i], float(pack.relatedness[i])) for i in order.tolist()]
