"""The collision report: which known entities lose which mentions because of a new one.

The same documents are linked without and with the pack. Whatever differs is what letting the new
entity in would change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from stamo.corpus.types import Document
from stamo.features.pile import TextEncoder
from stamo.linking.linker import Linker
from stamo.linking.packed import PackedLinker
from stamo.packs.pack import EntityPack
from stamo.workspace.wording import Snippet, cut_context

NOTHING = "(not linked before)"
N_LOST_SHOWN = 3
"""Lost mentions to show for each entity."""
LOST_WIDTH = 70
"""Characters shown on each side of a mention."""


@dataclass
class Loss:
    """What one known entity loses."""

    entity: str
    n_before: int = 0
    """Mentions with a name of the new entity that were linked to it."""
    n_lost: int = 0
    """Those that now mean the new entity."""
    n_unlinked: int = 0
    """Those that now mean nothing known: the labels said so of mentions like them."""
    examples: list[Snippet] = field(default_factory=list)
    """Some of the mentions that now mean the new entity."""


@dataclass(frozen=True)
class Collisions:
    """What a pack changes in a set of documents."""

    n_documents: int
    n_mentions: int
    """All mentions that were linked or could have been."""
    n_named: int
    """Mentions with a name of the new entity."""
    n_taken: int
    """Those that now mean the new entity."""
    n_unlinked: int
    """Those that meant a known entity and now mean nothing known."""
    n_elsewhere: int
    """Other mentions whose link changed; packs leave them alone, so this is 0."""
    losses: tuple[Loss, ...]
    """The entities that lose most first."""


def find_collisions(
    linker: Linker,
    pack: EntityPack,
    documents: Iterable[Document],
    *,
    encoder: TextEncoder | None = None,
) -> Collisions:
    """Link documents without and with a pack and count what changes.

    Args:
        linker: The linker without the pack.
        pack: The new entity.
        documents: The reference corpus; mentions that documents bring are linked as given.
        encoder: May remember what it read; see `score_pack`.
    """
    packed = PackedLinker(linker, [pack], encoder)
    names, new = frozenset(pack.entity.aliases), pack.entity.id
    loss_by_entity: dict[str, Loss] = {}
    counts = dict.fromkeys(("documents", "mentions", "named", "elsewhere"), 0)
    extra = packed.extra_aliases  # found in the same places, so that links can be compared
    without = Linker(packed.kb, packed.trained, settings=packed.settings, extra_aliases=extra)
    links = without.link_documents(documents)
    while old := list(islice(links, packed.settings.batch_size)):
        counts["documents"] += len(old)
        for before, after in zip(old, packed.relink(old), strict=True):
            counts["mentions"] += len(before.mentions)
            for m, changed in zip(before.mentions, after.mentions, strict=True):
                if m.surface not in names:
                    counts["elsewhere"] += m.entity != changed.entity
                    continue
                counts["named"] += 1
                title = m.entity or NOTHING
                loss = loss_by_entity.setdefault(title, Loss(title))
                loss.n_before += 1
                loss.n_unlinked += m.entity is not None and changed.entity is None
                if changed.entity == new:
                    loss.n_lost += 1
                    if len(loss.examples) < N_LOST_SHOWN:
                        loss.examples.append(cut_context(before.text, m.start, m.end, LOST_WIDTH))
    losses = sorted(
        loss_by_entity.values(), key=lambda loss: (-loss.n_lost, -loss.n_unlinked, loss.entity)
    )
    return Collisions(
        n_documents=counts["documents"],
        n_mentions=counts["mentions"],
        n_named=counts["named"],
        n_taken=sum(loss.n_lost for loss in losses),
        n_unlinked=sum(loss.n_unlinked for loss in losses),
        n_elsewhere=counts["elsewhere"],
        losses=tuple(losses),
    )
