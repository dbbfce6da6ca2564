"""From documents to θ(e*): encode W once, then learn the way a reading of the paper says.

The default reading is here; `stamo.learning.variants` has the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stamo.corpus.types import Corpus, EmergingEntity
from stamo.errors import LearningError, SettingsError
from stamo.features.base import Feature, FeatureParams, encode_features
from stamo.features.embedding import Embedding
from stamo.features.encoder_choice import INSTALLED, encoder_of
from stamo.features.mentions import (
    EMERGING,
    UNKNOWN,
    CandidateSource,
    Lexicon,
    encode,
    flatten,
)
from stamo.features.pile import Pile, TextEncoder, linked_pairs, make_pile, share_labels
from stamo.features.prior import Prior
from stamo.features.relatedness import Relatedness
from stamo.features.views import VIEWS
from stamo.kb.base import KnowledgeBase
from stamo.learning.corrected import CorrectedArgs
from stamo.learning.loop import Learned, OnSlot, Reading, Task, self_train
from stamo.models.store import TrainedModel
from stamo.packs.pack import OWN_FIELDS, EntityPack
from stamo.packs.theta import SHIFT
from stamo.system.files import Int32
from stamo.system.processes import one_thread


@one_thread()
def encode_pile(
    entities: Sequence[EmergingEntity],
    corpus: Corpus,
    kb: KnowledgeBase,
    trained: TrainedModel,
    *,
    source: CandidateSource | None = None,
    encoder: TextEncoder | None = None,
) -> Task:
    """Encode the candidate mentions of documents, with what is known of their labels.

    A mention is a candidate when its surface is an alias of one of the entities. Its label is the
    id of an emerging entity, the title of a known one, any other text for "none of these", or None
    where nobody labelled it. All other mentions are entity context.
    """
    trained.check(kb)
    numbers = entity_numbers(entities, corpus, kb)
    flat = flatten(corpus.documents, Lexicon.of(kb), numbers)
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
    mentions = encode_features(mentions, trained.source.encoded_features, kb)
    pairs = linked_pairs(flat.documents, context)
    text = None if flat.text is None else flat.text.take(rows)
    pile = make_pile(
        entities, mentions, pairs, len(corpus.documents), kb, text=text, encoder=encoder
    )
    gold = share_labels(mentions.gold, pile)
    return Task(
        pile=replace(pile, mentions=replace(mentions, gold=gold)),
        labels=(gold[:, None] == EMERGING - np.arange(len(entities))).astype(np.float32),
        labelled=gold != UNKNOWN,
        model=trained.model,
        tables=trained.tables(kb),
        kb=kb,
        temperature=trained.calibration.temperature,
    )


def entity_numbers(
    entities: Sequence[EmergingEntity], corpus: Corpus, kb: KnowledgeBase
) -> dict[str, int]:
    """Return the number of every entity that the documents mention."""
    names = sorted({m.entity for d in corpus.documents for m in d.mentions if m.entity is not None})
    found = kb.entity_ids(names) if names else np.zeros(0, dtype=np.int32)
    numbers = {name: int(i) for name, i in zip(names, found, strict=True) if i >= 0}
    return numbers | {entity.id: EMERGING - i for i, entity in enumerate(entities)}


@dataclass(frozen=True, repr=False)
class LearnedEntity:
    """What was learned of one of a pile's emerging entities."""

    learned: Learned
    pile: Pile
    trained: TrainedModel
    number: int = 0
    """Which of the pile's entities it is."""

    def __repr__(self) -> str:
        return f"<LearnedEntity {self.entity.id!r}: {self.stopped}>"

    @property
    def entity(self) -> EmergingEntity:
        """The entity."""
        return self.pile.entities[self.number]

    @property
    def theta(self) -> FeatureParams:
        """θ̂(e*); the first axis of every group is 1."""
        return self.learned.theta.map(lambda values: values[self.number : self.number + 1])

    @property
    def aliases(self) -> tuple[str, ...]:
        """What the prior's columns stand for."""
        return self.pile.aliases

    @property
    def neighbours(self) -> Int32:
        """What the relatedness row's columns stand for."""
        return self.pile.neighbours

    @property
    def pile_helped(self) -> bool | None:
        """Whether the unlabelled documents helped; None where the reading does not ask."""
        return self.learned.pile_helped

    @property
    def stopped(self) -> str:
        """Why learning ended: `max slots` or `no change`."""
        return self.learned.stopped

    def to_pack(self, **about: Any) -> EntityPack:
        """Return the entity pack, ready to link with; `about` are notes and other fields of it.

        Words without a weight are left out, and so is an encoder that no group reads with.
        """
        pile, theta = self.pile, dict(self.learned.theta.groups)
        for feature in self.learned.model.features:
            if hasattr(feature, "packed"):
                theta[feature.name] = feature.packed(theta[feature.name])
        rows = {name: values[self.number].numpy() for name, values in theta.items()}
        reads = any(view.reads_text and f"evidence {view.name}" in rows for view in VIEWS)
        vocabularies = {}
        for view in VIEWS:
            keys = rows.keys() & {f"evidence {view.name}", f"none {view.name}"}
            if view.has_vocabulary and keys:
                used = np.flatnonzero(np.any([rows[key] for key in keys], axis=0))
                words = pile.vocabulary(view.name)
                vocabularies[view.name] = tuple(words[i] for i in used.tolist())
                rows |= {key: rows[key][used] for key in keys}
        rows[SHIFT] = np.array([self.learned.shifts[self.number]])
        groups = {
            name.replace(" ", "-"): values.astype(np.float32)
            for name, values in rows.items()
            if name not in OWN_FIELDS
        }
        entity = pile.entities[self.number]
        return EntityPack.project(
            entity,
            pile.kb,
            priors=rows["prior"][[pile.aliases.index(alias) for alias in entity.aliases]],
            neighbours=pile.neighbours,
            # A model without relatedness (Yamada's) learns none.
            relatedness=rows.get("relatedness", np.zeros(len(pile.neighbours))),
            vector=rows["embedding"],
            model_fingerprint=self.trained.fingerprint,
            groups=groups,
            vocabularies=vocabularies,
            encoder=pile.encoder.fingerprint if reads and pile.encoder is not None else "",
            **about,
        )


CLOSED_FORM: Mapping[str, Feature] = {
    "prior": Prior(),
    "relatedness": Relatedness(),
    "embedding": Embedding(),
}
"""Our estimators: smoothed and renormalised prior, shrunk relatedness on one scale, closed form."""

DEFAULT_READING = Reading("default", CLOSED_FORM, CorrectedArgs())


def reading_named(name: str) -> Reading:
    """Return a reading by its name."""
    if name == DEFAULT_READING.name:
        return DEFAULT_READING
    from stamo.learning.variants import READINGS  # who learns by the default needs none of them

    if name not in READINGS:
        raise SettingsError(f"There is no reading {name!r}; choose one of: {', '.join(READINGS)}.")
    return READINGS[name]


def learn(
    entities: EmergingEntity | Sequence[EmergingEntity],
    labelled: Corpus,
    unlabelled: Corpus,
    trained: TrainedModel,
    kb: KnowledgeBase,
    *,
    reading: str | Reading = "default",
    source: CandidateSource | None = None,
    encoder: TextEncoder | str | None = INSTALLED,
    on_slot: OnSlot = lambda slot: None,
) -> list[LearnedEntity]:
    """Learn the features of emerging entities from labelled and unlabelled documents.

    Entities that share an alias compete for its mentions and are learned together; all others are
    learned one by one, with the same result as if each were alone.

    Args:
        entities: One emerging entity, or several.
        labelled: L; every candidate mention carries an entity: the id of an emerging entity, the
            title of a known one, or any other text for neither.
        unlabelled: U; its candidate mentions carry no entity.
        trained: The linking model, frozen.
        kb: The knowledge base, frozen.
        reading: How to learn: a name of `stamo.learning.variants.READINGS`, or a reading.
        source: Gives the candidates of a name; the knowledge base by default.
        encoder: Reads the text around mentions: the one that is installed by default, a folder
            with another, or None for none.
        on_slot: Sees every slot.
    """
    chosen = reading_named(reading) if isinstance(reading, str) else reading
    reader, everything = encoder_of(encoder), labelled | unlabelled
    everyone = [entities] if isinstance(entities, EmergingEntity) else list(entities)
    by_id: dict[str, LearnedEntity] = {}
    for group in sharing_aliases(everyone):
        names = {alias for entity in group for alias in entity.aliases}
        mentioned = (d for d in everything if any(m.surface in names for m in d.mentions))
        corpus = Corpus(tuple(mentioned))
        n_by_id = Counter(document.id for document in corpus.documents)
        for twice in (id for id, n in n_by_id.items() if n > 1):
            raise LearningError(
                f"The document {twice!r} comes twice; give each document once, with one label for "
                "each mention."
            )
        task = encode_pile(group, corpus, kb, trained, source=source, encoder=reader)
        learned = self_train(chosen.task(task), chosen.args, on_slot=on_slot)
        for i, entity in enumerate(group):
            by_id[entity.id] = LearnedEntity(learned, task.pile, trained, i)
    return [by_id[entity.id] for entity in everyone]


def sharing_aliases(entities: Sequence[EmergingEntity]) -> list[list[EmergingEntity]]:
    """Group entities that share an alias, directly or through others."""
    groups: list[tuple[set[str], list[EmergingEntity]]] = []
    for entity in entities:
        names, members = set(entity.aliases), [entity]
        apart = []
        for other_names, others in groups:
            if names & other_names:
                names, members = names | other_names, others + members
            else:
                apart.append((other_names, others))
        groups = [*apart, (names, members)]
    return [members for _, members in groups]
