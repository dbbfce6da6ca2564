"""From documents to θ(e*): encode W once, then learn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stamo.corpus.types import Corpus, EmergingEntity
from stamo.errors import LearningError
from stamo.features.base import encode_features
from stamo.features.encoding import (
    EMERGING,
    UNKNOWN,
    CandidateSource,
    FlatCorpus,
    Lexicon,
    encode,
    flatten,
)
from stamo.features.pile import Pile, linked_pairs, make_pile
from stamo.kb.base import KnowledgeBase
from stamo.learning.algorithm import Task
from stamo.models.store import TrainedModel


@dataclass(frozen=True)
class EncodedPile:
    """W as arrays, with the label of each candidate mention."""

    pile: Pile
    labels: NDArray[np.float32]  # (M, E)
    labelled: NDArray[np.bool_]  # (M,)


def encode_pile(
    entities: Sequence[EmergingEntity],
    corpus: Corpus,
    kb: KnowledgeBase,
    trained: TrainedModel,
    *,
    source: CandidateSource | None = None,
) -> EncodedPile:
    """Encode the candidate mentions of documents.

    A mention is a candidate when its surface is an alias of one of the entities. Its label is the
    id of an emerging entity, the title of a known one, any other text for "none of these", or None
    where nobody labelled it. All other mentions are entity context.
    """
    _check_documents(corpus)
    flat = flatten(corpus, Lexicon.of(kb), entity_numbers(entities, corpus, kb))
    return encode_flat(entities, flat, kb, trained, source=source)


def encode_flat(
    entities: Sequence[EmergingEntity],
    flat: FlatCorpus,
    kb: KnowledgeBase,
    trained: TrainedModel,
    *,
    source: CandidateSource | None = None,
    neighbours: NDArray[np.int32] | None = None,
) -> EncodedPile:
    """Encode the candidate mentions of flattened documents."""
    aliases = {alias for entity in entities for alias in entity.aliases}
    is_alias = np.array([surface in aliases for surface in flat.surface_table], dtype=bool)
    rows = np.flatnonzero(is_alias[flat.surfaces]) if len(flat.surfaces) else np.zeros(0, int)
    if not len(rows):
        names = ", ".join(repr(alias) for alias in sorted(aliases))
        raise LearningError(
            f"None of the documents mentions {names}; check the spelling of the aliases."
        )
    # The candidate mentions are what is asked; they are nobody's context.
    context = flat.entities.copy()
    context[rows] = UNKNOWN
    mentions = encode(flat, source or kb, trained.encoding, rows=rows, context_entities=context)
    features = [f for f in trained.model.features if f.name != "embedding"]
    mentions = encode_features(mentions, features, kb)
    pairs = linked_pairs(flat.with_entities(context))
    pile = make_pile(entities, mentions, pairs, flat.n_documents, neighbours)
    numbers = EMERGING - np.arange(len(entities))
    return EncodedPile(
        pile=pile,
        labels=(mentions.gold[:, None] == numbers).astype(np.float32),
        labelled=mentions.gold != UNKNOWN,
    )


def entity_numbers(
    entities: Sequence[EmergingEntity], corpus: Corpus, kb: KnowledgeBase
) -> dict[str, int]:
    """Return the number of every entity that the documents mention."""
    names = sorted({m.entity for d in corpus for m in d.mentions if m.entity is not None})
    found = kb.entity_ids(names) if names else np.zeros(0, dtype=np.int32)
    numbers = {name: int(i) for name, i in zip(names, found, strict=True) if i >= 0}
    return numbers | {entity.id: EMERGING - i for i, entity in enumerate(entities)}


def make_task(encoded: EncodedPile, kb: KnowledgeBase, trained: TrainedModel) -> Task:
    """Put the encoded documents together with the frozen model and knowledge base."""
    return Task(
        pile=encoded.pile,
        labels=encoded.labels,
        labelled=encoded.labelled,
        model=trained.model,
        tables=trained.tables(kb),
        features=trained.model.features,
        kb=kb,
    )


def _check_documents(corpus: Corpus) -> None:
    seen: set[str] = set()
    for document in corpus:
        if document.id in seen:
            raise LearningError(
                f"The document {document.id!r} comes twice; give each document once, with one "
                "label for each mention."
            )
        seen.add(document.id)
