"""Why a packed entity wins or loses a mention: words, neighbours and entities by their weight."""

from __future__ import annotations

import numpy as np

from stamo.features.base import Theta
from stamo.features.pile import Pile
from stamo.linking.results import Reason
from stamo.models.correction import weighed_views

N_REASONS = 12
LEAST_WEIGHT = 0.01


def find_reasons(
    pile: Pile,
    theta: Theta,
    row: int,
    parts: dict[str, float],
    n: int = N_REASONS,
) -> tuple[Reason, ...]:
    """Return what speaks for and against the entity, the weightiest first.

    Args:
        pile: The mentions that were scored.
        theta: θ(e*) of the entity.
        row: The mention.
        parts: What each part adds to its log odds; a part that has named terms is given by them.
        n: How many reasons to return.
    """
    found: list[Reason] = []
    whole = dict(parts)
    for view, weights in weighed_views(theta).items():
        terms = view.terms(pile, row)
        if terms is not None:
            whole.pop(view.part, None)
            for name, term in terms:
                found.append(Reason(view.part, name, float(np.dot(term, weights[0]))))
    found += [Reason(part, "", weight) for part, weight in whole.items()]
    told = [reason for reason in found if abs(reason.weight) >= LEAST_WEIGHT]
    return tuple(sorted(told, key=lambda reason: (-abs(reason.weight), reason.name))[:n])
