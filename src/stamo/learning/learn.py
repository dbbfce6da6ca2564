"""The door to learning: from documents and labels to θ(e*) and its pack, by a method with a name.

`default` is ours, `paper` the paper as printed. The others are the rows of the paper's tables, so
that one run can compare them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stamo.corpus.types import Corpus, EmergingEntity, LabelKey
from stamo.errors import LearningError, SettingsError
from stamo.features.base import Feature
from stamo.features.embedding import Embedding, MaxMargin
from stamo.features.mentions import EMERGING, Lexicon, flatten
from stamo.features.pile import Pile, TextEncoder, prepare_pile
from stamo.features.prior import Prior
from stamo.features.relatedness import Relatedness
from stamo.kb.base import KnowledgeBase
from stamo.learning.algorithm1 import (
    NO_INTRA,
    InterSlotArgs,
    Learned,
    OnSlot,
    StamoArgs,
    ignore,
    stamo,
)
from stamo.learning.default import DefaultArgs, learn_default
from stamo.models.correction import VIEWS
from stamo.models.store import INSTALLED, TrainedModel, open_encoder
from stamo.packs.pack import OWN_FIELDS, SHIFT, EntityPack
from stamo.system.processes import one_thread


@dataclass(frozen=True)
class Method:
    """A way to learn: which features estimate θ(e*), and by which of the two algorithms."""

    name: str
    features: Mapping[str, Feature]
    """Features that replace the model's own of the same name."""
    args: StamoArgs | DefaultArgs

    def learn(self, pile: Pile, trained: TrainedModel, on_slot: OnSlot = ignore) -> Learned:
        """Learn the entities of a pile."""
        if isinstance(self.args, StamoArgs):
            return stamo(pile, trained.model, self.features, self.args, on_slot)
        args = self.args
        if args.weights is None:
            args = replace(args, weights=trained.weights)
        temperature = trained.calibration.temperature
        return learn_default(
            pile, trained.model, self.features, args, on_slot, temperature=temperature
        )

    def with_slots(self, n_slots: int) -> Method:
        """Return the method with another number of slots; one without any stays so."""
        if not self.args.n_slots:
            return self
        return replace(self, args=replace(self.args, n_slots=n_slots))

    def with_decision(self, decision: str) -> Method:
        """Return the method with another threshold.

        Raises:
            SettingsError: It has no threshold of its own, or there is no such one.
        """
        if isinstance(self.args, StamoArgs):
            raise SettingsError("This method has no decision to choose.")
        return replace(self, args=replace(self.args, decision=decision))


CLOSED_FORM: Mapping[str, Feature] = {
    "prior": Prior(),
    "relatedness": Relatedness(),
    "embedding": Embedding(),
}
"""Our estimators: smoothed and renormalised prior, shrunk relatedness on one scale, closed form."""
AS_PRINTED: Mapping[str, Feature] = {
    "prior": Prior(smoothing=0.0, renormalise=False),
    "relatedness": Relatedness(match_pile=False, shrinkage=0.0, missing="zero"),
    "embedding": Embedding(max_margin=MaxMargin()),
}
_UNIT_ETA = dict.fromkeys(CLOSED_FORM, 1.0)
_ARGS: Mapping[str, StamoArgs | DefaultArgs] = {
    "default": DefaultArgs(),
    "paper": StamoArgs(),
    "estimation": StamoArgs(n_slots=0, intra=NO_INTRA),
    "estimation+bias": DefaultArgs(n_slots=0, views=()),
    "estimation+correction": DefaultArgs(n_slots=0),
    "self-training": StamoArgs(intra=NO_INTRA, inter=None),
    "self-training+intra": StamoArgs(inter=None),
    "self-training+inter": StamoArgs(intra=NO_INTRA),
    "stamo": StamoArgs(),
    "stamo without adaptive delta": StamoArgs(inter=InterSlotArgs(adaptive=False)),
    "stamo without small eta": StamoArgs(inter=InterSlotArgs(eta=_UNIT_ETA, default_eta=1.0)),
    "stamo without warm-up": StamoArgs(inter=InterSlotArgs(gamma=1)),
}
METHODS: Mapping[str, Method] = {
    name: Method(name, AS_PRINTED if name == "paper" else CLOSED_FORM, args)
    for name, args in _ARGS.items()
}
"""Every method by name; only `paper` has the paper's estimators, the others have ours."""


def method_named(name: str) -> Method:
    """Return a method by its name."""
    if name not in METHODS:
        raise SettingsError(f"There is no method {name!r}; choose one of: {', '.join(METHODS)}.")
    return METHODS[name]


@one_thread()
def encode_pile(
    entities: Sequence[EmergingEntity],
    corpus: Corpus,
    kb: KnowledgeBase,
    trained: TrainedModel,
    *,
    encoder: TextEncoder | None = None,
    alone: Collection[LabelKey] = (),
) -> Pile:
    """Prepare the candidate mentions of documents, with what is known of their labels.

    A mention is a candidate when its surface is an alias of one of the entities. Its label is the
    id of an emerging entity, the title of a known one, any other text for "none of these", or None
    where nobody labelled it. All other mentions are entity context. A label speaks for all
    mentions of its name and document, but for those of `alone`.
    """
    flat = flatten(corpus.documents, Lexicon.of(kb), entity_numbers(entities, corpus, kb))
    pile = prepare_pile(flat, entities, kb, trained, encoder=encoder)
    if not len(pile):
        names = ", ".join(repr(alias) for alias in sorted(pile.aliases))
        raise LearningError(
            f"None of the documents mentions {names}; check the spelling of the aliases."
        )
    keys = (
        (document.id, index)
        for document in corpus
        for index, mention in enumerate(document.mentions)
        if mention.surface in pile.aliases
    )
    is_alone = np.array([key in alone for key in keys]) if alone else None
    return pile.labelled_as(pile.mentions.gold, is_alone)


def entity_numbers(
    entities: Sequence[EmergingEntity], corpus: Corpus, kb: KnowledgeBase
) -> dict[str, int]:
    """Return the number of every entity that the documents mention."""
    names = sorted({m.entity for d in corpus.documents for m in d.mentions if m.entity is not None})
    found = kb.entity_ids(names) if names else np.zeros(0, dtype=np.int32)
    numbers = {name: int(i) for name, i in zip(names, found, strict=True) if i >= 0}
    return numbers | {entity.id: EMERGING - i for i, entity in enumerate(entities)}


@dataclass(frozen=True, kw_only=True, repr=False)
class LearnedEntity(Learned):
    """What was learned of one of the entities that were learned together."""

    trained: TrainedModel
    number: int = 0
    """Which of the pile's entities it is."""

    def __repr__(self) -> str:
        return f"<LearnedEntity {self.entity.id!r}: {self.stopped}>"

    @property
    def entity(self) -> EmergingEntity:
        """The entity."""
        return self.pile.entities[self.number]

    def to_pack(self, **about: Any) -> EntityPack:
        """Return the entity pack, ready to link with; `about` are provenance and other fields.

        Words without a weight are left out, and so is an encoder that no group reads with.
        """
        pile, entity = self.pile, self.entity
        rows = {name: group[self.number] for name, group in self.theta.items()}
        vocabularies, encoder = {}, ""
        for view in VIEWS:
            keys = rows.keys() & {f"correction {view.name}", f"none {view.name}"}
            if view.has_vocabulary and keys:
                used = np.flatnonzero(np.any([rows[key] for key in keys], axis=0))
                words = pile.vocabularies[view.name]
                vocabularies[view.name] = tuple(words[i] for i in used.tolist())
                rows |= {key: rows[key][used] for key in keys}
            if view.reads_text and f"correction {view.name}" in rows and pile.encoder is not None:
                encoder = pile.encoder.fingerprint
        rows[SHIFT] = np.array([self.shifts[self.number]])
        return EntityPack.project(
            entity,
            pile.kb,
            priors=rows["prior"][[pile.aliases.index(alias) for alias in entity.aliases]],
            neighbours=pile.neighbours,
            # A model without relatedness (Yamada's) learns none.
            relatedness=rows.get("relatedness", np.zeros(len(pile.neighbours))),
            vector=rows["embedding"],
            model_fingerprint=self.trained.fingerprint,
            groups={
                name.replace(" ", "-"): values.astype(np.float32)
                for name, values in rows.items()
                if name not in OWN_FIELDS
            },
            vocabularies=vocabularies,
            encoder=encoder,
            **about,
        )


def learn(
    entities: EmergingEntity | Sequence[EmergingEntity],
    labelled: Corpus,
    unlabelled: Corpus,
    trained: TrainedModel,
    kb: KnowledgeBase,
    *,
    method: str | Method = "default",
    encoder: TextEncoder | str | None = INSTALLED,
    on_slot: OnSlot = ignore,
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
        method: How to learn: a name of `METHODS`, or a method.
        encoder: Reads the text around mentions: the one that is installed by default, a folder
            with another, or None for none.
        on_slot: Sees the labels alone as slot 0, then every slot.
    """
    chosen = method_named(method) if isinstance(method, str) else method
    reader, everything = open_encoder(trained, kb, encoder), labelled | unlabelled
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
        pile = encode_pile(group, corpus, kb, trained, encoder=reader)
        learned = chosen.learn(pile, trained, on_slot)
        for i, entity in enumerate(group):
            by_id[entity.id] = LearnedEntity(**vars(learned), trained=trained, number=i)
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
