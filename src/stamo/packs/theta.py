"""From a learned θ(e*) to an entity pack, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from stamo.corpus.types import EmergingEntity
from stamo.features.base import FeatureParams
from stamo.features.views import VIEWS
from stamo.features.views.base import group_of
from stamo.kb.base import KnowledgeBase
from stamo.models.evidence import GROUPS, NONE_GROUPS
from stamo.packs.pack import EntityPack
from stamo.system.arrays import Int32, Int64

SHIFT = "decision-shift"
"""The group of a pack that holds what was added to the log odds to draw the line for F1."""
OWN_FIELDS = frozenset({"prior", "relatedness", "embedding"})
"""The groups of θ(e*) that are fields of a pack; all others are stored by name."""


def group_name(name: str) -> str:
    """Return the name that a group of θ(e*) has in a pack."""
    return name.replace(" ", "-")


def make_pack(
    entity: EmergingEntity,
    theta: FeatureParams,
    aliases: Sequence[str],
    neighbours: Int32,
    kb: KnowledgeBase,
    model_fingerprint: str,
    *,
    shift: float = 0.0,
    vocabularies: Mapping[str, Sequence[str]],
    encoder: str,
    **about: Any,
) -> EntityPack:
    """Pack what was learned of one entity.

    Args:
        entity: The entity.
        theta: Its θ̂(e*); the first axis of every group is 1.
        aliases: What the prior's columns stand for, among them the entity's aliases.
        neighbours: What the relatedness row's columns stand for.
        kb: The knowledge base.
        model_fingerprint: The linking model's.
        shift: What was added to the log odds to draw the line for F1; confidences leave it out.
        vocabularies: What the columns of views of words stand for, by view; words without a weight
            are left out.
        encoder: The fingerprint of the sentence encoder; left out where no group reads text.
        about: Other fields of the pack, such as its history and notes.
    """
    rows = {name: values[0].numpy() for name, values in theta.groups.items()}
    groups = {group_name(n): v.astype(np.float32) for n, v in rows.items() if n not in OWN_FIELDS}
    kept = {}
    for view, words in vocabularies.items():
        keys = [key for kind in ("evidence", "none") if (key := f"{kind}-{view}") in groups]
        if keys:
            used = np.flatnonzero(np.any([groups[key] for key in keys], axis=0))
            kept[view] = tuple(words[i] for i in used.tolist())
            groups |= {key: groups[key][used] for key in keys}
    reads = any(group_name(group_of(view)) in groups for view in VIEWS if view.reads_text)
    groups[SHIFT] = np.array([shift], dtype=np.float32)
    return EntityPack.project(
        entity,
        kb,
        priors=rows["prior"][[list(aliases).index(alias) for alias in entity.aliases]],
        neighbours=neighbours,
        # A model without relatedness (Yamada's) learns none.
        relatedness=rows.get("relatedness", np.zeros(len(neighbours))),
        vector=rows["embedding"],
        model_fingerprint=model_fingerprint,
        groups=groups,
        vocabularies=kept,
        encoder=encoder if reads else "",
        **about,
    )


def pack_theta(pack: EntityPack) -> FeatureParams:
    """Return θ(e*) of a pack in the shapes that the features expect, (1, ...) each.

    The aliases and neighbours of a pile that it is looked up on must be the pack's own.
    """
    names = {group_name(name): name for name in (*GROUPS, *NONE_GROUPS)}
    groups = {names.get(key, key): values for key, values in pack.groups.items() if key != SHIFT}
    groups |= {"prior": pack.priors, "relatedness": pack.relatedness, "embedding": pack.vector}
    return FeatureParams({n: torch.from_numpy(np.array(v))[None] for n, v in groups.items()})


def strongest_neighbours(pack: EntityPack, n: int) -> list[tuple[str, float]]:
    """Return the titles that a pack's entity is most related to, the strongest first."""
    order: Int64 = np.argsort(-pack.relatedness, kind="stable")[:n]
    return [(pack.titles[i], float(pack.relatedness[i])) for i in order.tolist()]
