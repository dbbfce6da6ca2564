"""Proposals against known answers; only the embedded world and benchmarks have them."""

from __future__ import annotations

from collections import Counter
from itertools import islice

from stamo.discovery.proposal import Proposal
from stamo.workspace.gold import Gold


def confirmed(proposal: Proposal, gold: Gold) -> str:
    """Return the entity that at least half of a proposal's places mean; empty where there is none.

    Places that the answers say nothing of count against it.
    """
    meant: Counter[str] = Counter()
    for occurrence in proposal.occurrences:
        answers = gold.get(occurrence.document, {})
        inside = (
            entity
            for (start, end), entity in answers.items()
            if start < occurrence.end and occurrence.start < end
        )
        meant.update(islice(inside, 1))
    for entity, n in meant.most_common(1):
        if 2 * n >= len(proposal.occurrences):
            return entity
    return ""
