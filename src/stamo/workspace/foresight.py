"""What to say before work is spent: names that are known, unknown, too common, or hardly met."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stamo.corpus.types import EmergingEntity
from stamo.errors import KnowledgeBaseError, UnknownEntityError
from stamo.kb.base import KnowledgeBase
from stamo.workspace.wording import count_of

if TYPE_CHECKING:
    from stamo.workspace.intake import Collected

FLOOD_SHARE = 0.05
"""An alias in more than this share of the knowledge base's articles will flood the pile."""
LEAST_LINKED = 0.05
"""A name that is a link less often than this, where it occurs, is a common word."""
FLOOD_MENTIONS = 10_000
FEW_MENTIONS = 20


def weigh_names(entity: EmergingEntity, kb: KnowledgeBase) -> list[str]:
    """Compare a new entity with what the knowledge base knows; return sentences to consider."""
    lines = _already_there(entity, kb)
    for alias in entity.aliases:
        number = kb.alias_id(alias)
        if _is_everywhere(alias, number, kb):
            lines.append(
                f"{alias!r} is a common word of {kb.name}; it will flood the pile: leave it out or "
                "take a longer alias."
            )
            continue
        if number < 0 or not len(kb.candidates(alias).ids):
            # The name of an entity is new where the entity is.
            if alias != entity.id:
                lines.append(
                    f"No entity of {kb.name} is called {alias!r}; all its mentions will be taken "
                    "for the new entity or for none."
                )
            continue
        n_articles = int(kb.alias_documents[number])
        share = n_articles / max(kb.n_documents, 1)
        if share > FLOOD_SHARE and float(kb.link_probability[number]) < LEAST_LINKED:
            lines.append(
                f"{alias!r} stands in {share:.0%} of the articles of {kb.name} and is hardly ever "
                "a name; it will flood the pile: leave it out or take a longer alias."
            )
    return lines


def _is_everywhere(alias: str, number: int, kb: KnowledgeBase) -> bool:
    """Tell whether a name is not counted, and as a word stands in every article on average."""
    if number >= 0 and kb.alias_documents[number]:
        return False
    try:
        (word,) = kb.word_ids([alias.lower()]).tolist()
    except KnowledgeBaseError:  # built without vectors, it has no words
        return False
    return word >= 0 and int(kb.word_counts[word]) > kb.n_documents


def _already_there(entity: EmergingEntity, kb: KnowledgeBase) -> list[str]:
    if entity.external_id:
        (found,) = kb.entities_with_ids([entity.external_id]).tolist()
        if found >= 0:
            return [_known(kb, found, f"with the id {entity.external_id}")]
    try:
        found = kb.entity_id(entity.id)
    except UnknownEntityError:
        return []
    if entity.external_id and (other := kb.external_ids([found])[0]):
        return [
            f"{kb.name} has {kb.title(found)!r} with the id {other}; the new one is told apart by "
            f"its id {entity.external_id}."
        ]
    return [_known(kb, found, "by this name")]


def _known(kb: KnowledgeBase, entity: int, how: str) -> str:
    n = int(kb.entity_counts[entity])
    return (
        f"{kb.name} seems to hold the entity already {how}: {kb.title(entity)!r}, "
        f"{count_of(n, 'link')}; see `stamo show` before you teach it anew."
    )


def look_at(entity: EmergingEntity, collected: Collected) -> list[str]:
    """Look at what was collected; return sentences to consider."""
    lines = []
    if collected.n_kept and collected.n_mentions < FEW_MENTIONS:
        n = count_of(collected.n_mentions, "mention")
        lines.append(
            f"The documents hardly mention {entity.id!r}: {n}; collect from more of them before "
            "you label."
        )
    for alias, n_met in collected.mentions_by_alias.items():
        if not n_met and collected.n_kept and alias != entity.id:
            lines.append(f"The alias {alias!r} was not met once; check its spelling.")
        if n_met > FLOOD_MENTIONS:
            lines.append(
                f"The alias {alias!r} gave {n_met:,} mentions and floods the pile; leave it out, "
                "or stop earlier with --most."
            )
    return lines
