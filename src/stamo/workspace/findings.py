"""What learning found out about its pack: left-out labels, and what it takes from whom."""

from __future__ import annotations

from collections import Counter

import numpy as np
from scipy.special import expit

from stamo.learning.loop import Learned
from stamo.models.evidence import agree, log_odds, margins_under, mention_views
from stamo.system.arrays import Float64, Int64
from stamo.workspace.labels.events import EMERGING_CHOICE, SKIP
from stamo.workspace.left_out import LeftOut
from stamo.workspace.material import Material
from stamo.workspace.verdict import Findings

UNSURE = 0.2
"""A mention is unsure between this probability and its opposite."""


def find_out(
    material: Material, learned: Learned, left_out: LeftOut, alarm: str | None, doubtful: list[str]
) -> Findings:
    """Put together what the verdict needs to know, on the pile as it was encoded for learning."""
    labels, odds, decisions = left_out.at(learned.used_slot)
    choices = [event.choice for event in material.labels if event.choice != SKIP]
    n_emerging = choices.count(EMERGING_CHOICE)
    shift = learned.shifts[0]
    pile_odds, rivals = _link_pile(material, learned)
    free = ~material.task.labelled
    p = expit(pile_odds[free] - shift)
    taken = free & (pile_odds > 0)
    return Findings(
        entity=material.task.pile.entities[0].id,
        n_emerging=n_emerging,
        n_other=len(choices) - n_emerging,
        labels=tuple(labels.tolist()),
        probabilities=tuple(expit(odds).round(6).tolist()),
        decisions=tuple(decisions.tolist()),
        line=float(expit(-shift)),
        n_mentions=int(free.sum()),
        n_taken=int(taken.sum()),
        n_unsure=int(((p > UNSURE) & (p < 1 - UNSURE)).sum()),
        taken_from=_names(material, rivals[taken]),
        alarm=alarm,
        doubtful=tuple(doubtful),
    )


def _link_pile(material: Material, learned: Learned) -> tuple[Float64, Int64]:
    """Return the log odds of every mention as linking decides, and its best known candidate."""
    task = material.task
    scorer, theta = learned.model.prepare(task.pile, task.tables), learned.theta
    margin = margins_under(scorer, theta, task.temperature)
    views = mention_views(task.pile, task.kb)
    odds = agree(log_odds(margin, theta, views, task.temperature), task.pile)[:, 0]
    known = scorer(theta).detach().numpy()[:, :-1]
    if not known.shape[1]:
        return odds, np.full(len(odds), -1, dtype=np.int64)
    best = np.take_along_axis(task.pile.mentions.candidates, known.argmax(axis=1)[:, None], axis=1)
    return odds, best[:, 0].astype(np.int64)


def _names(material: Material, rivals: Int64) -> tuple[tuple[str, int], ...]:
    """Count entities by their titles, "" for none; most first."""
    kb = material.task.kb
    counts = Counter(rivals.tolist())
    known = [entity for entity in counts if entity >= 0]
    titles = dict(zip(known, kb.titles(np.array(known, dtype=np.int64)), strict=True))
    named = [(titles.get(entity, ""), n) for entity, n in counts.items()]
    return tuple(sorted(named, key=lambda item: (-item[1], item[0])))
