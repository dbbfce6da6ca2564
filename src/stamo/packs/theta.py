"""From a learned θ(e*) to an entity pack, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from stamo.corpus.types import EmergingEntity
from stamo.features.base import FeatureParams
from stamo.features.pile import Pile
from stamo.features.views import VIEWS
from stamo.features.views.base import group_of
from stamo.kb.base import KnowledgeBase
from stamo.models.evidence import GROUPS, NONE_GROUPS
from stamo.packs.pack import EntityPack
from stamo.system.arrays import Float32, Int32, Int64

SHIFT = "decision-shift"
"""The group of a pack that holds what was added to the log odds to draw the line for F1."""
OWN_FIELDS = frozenset({"prior", "relatedness", "embedding"})
"""The groups of θ(e*) that are fields of a pack; all others are stored by name."""


@dataclass(frozen=True)
class TextParts:
    """What the views of the text need beside their weights."""

    vocabularies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What the columns of views of words stand for, by view."""
    encoder: str = ""
    """The fingerprint of the sentence encoder, empty where none was used."""

    @classmethod
    def of(cls, pile: Pile) -> TextParts:
        """Take what a pile was looked at with."""
        known = {view.name: pile.vocabulary(view.name) for view in VIEWS if view.has_vocabulary}
        return cls(known, pile.encoder.fingerprint if pile.encoder is not None else "")

    def used(self, groups: Mapping[str, Float32]) -> tuple[TextParts, dict[str, Float32]]:
        """Leave out words without a weight, and an encoder that no group reads."""
        groups, kept = dict(groups), {}
        for view, words in self.vocabularies.items():
            keys = [key for kind in ("evidence", "none") if (key := f"{kind}-{view}") in groups]
            if keys:
                used = np.flatnonzero(np.any([groups[key] for key in keys], axis=0))
                kept[view] = tuple(words[i] for i in used)
                groups |= {key: groups[key][used] for key in keys}
        reads = any(group_name(group_of(view)) in groups for view in VIEWS if view.reads_text)
        return TextParts(kept, self.encoder if reads else ""), groups


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
    text: TextParts = TextParts(),
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
        text: What its views of the text need.
        about: Other fields of the pack, such as its history and notes.
    """
    rows = {name: values[0].numpy() for name, values in theta.groups.items()}
    groups = {group_name(n): v.astype(np.float32) for n, v in rows.items() if n not in OWN_FIELDS}
    text, groups = text.used(groups)
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
        vocabularies=text.vocabularies,
        encoder=text.encoder,
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
