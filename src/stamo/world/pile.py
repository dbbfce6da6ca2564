"""Write the later documents: news and blog posts that mention what the dump does not know.

A document is written around one name. Most are about the thing they name; some only touch on it
in a text about something else; a few give the reader almost nothing to go by.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from stamo.world.catalogue import Catalogue, Entity
from stamo.world.emerging import Emergence
from stamo.world.lexicon import TOPICS
from stamo.world.scene import Scene
from stamo.world.settings import WorldSettings
from stamo.world.template import Piece

PILE_YEAR = 2022
P_BOTH = 0.03
P_MISLEADING = 0.25


@dataclass(frozen=True, slots=True)
class EntitySpan:
    """A mention of an entity in the text of a document."""

    start: int
    end: int
    entity: int


@dataclass(frozen=True)
class PileDocument:
    """A later document with all of its mentions."""

    title: str
    text: str
    about: int | None
    """The emerging entity around whose name it was written."""
    spans: tuple[EntitySpan, ...]


@dataclass
class Draft:
    """A document while it is written."""

    catalogue: Catalogue
    rng: random.Random
    seen: dict[int, int] = field(default_factory=dict)
    sentences: list[list[Piece]] = field(default_factory=list)
    used: list[str] = field(default_factory=list)
    """Templates that the document has already."""

    def scene(self, subject: Entity, topic: str | None = None) -> Scene:
        """Return the scene of sentences around an entity; its words stray into other topics."""
        rng = self.rng
        mixture = [(topic or subject.kind.topic, 0.92), (rng.choice(TOPICS), 0.08)]
        return Scene(
            self.catalogue,
            rng,
            subject,
            mixture,
            encyclopaedic=False,
            last_year=PILE_YEAR,
            seen=self.seen,
        )

    def say(self, scene: Scene, templates: Sequence[str], count: int) -> None:
        """Add sentences that do not speak of the subject itself."""
        free = [template for template in templates if template not in self.used]
        for template in self.rng.sample(free, min(count, len(free))):
            self.used.append(template)
            self.sentences.append(scene.fill(template))


@dataclass(frozen=True)
class Referent:
    """What the name of an emerging entity means in one document."""

    entity: Entity
    aliases: tuple[str, ...]
    """The aliases of the emerging entity that this one also goes by, the short one first."""

    def surface(self, rng: random.Random, first: bool) -> str:
        """Return a name for the next mention; the first is always a shared one."""
        if not first and self.entity.name not in self.aliases and rng.random() < 0.25:
            return self.entity.name
        return self.aliases[0] if rng.random() < 0.78 else rng.choice(self.aliases)


def write_pile(
    emergences: Sequence[Emergence], catalogue: Catalogue, settings: WorldSettings
) -> list[PileDocument]:
    """Write all later documents, in random order."""
    documents = []
    for emergence in emergences:
        rng = random.Random(f"{settings.seed}/pile/{emergence.entity.index}")
        for entity in _referents(emergence, catalogue, settings.documents_per_entity, rng):
            documents.append(_write_document(emergence, entity, catalogue, rng))
    rng = random.Random(f"{settings.seed}/background")
    documents += [_write_background(catalogue, rng) for _ in range(settings.background_documents)]
    rng.shuffle(documents)
    return documents


def _referents(
    emergence: Emergence, catalogue: Catalogue, count: int, rng: random.Random
) -> list[Entity]:
    """Deal out which entity each document means; the first rivals are the common ones."""
    n_emerging = round(count * emergence.blueprint.share)
    weights = [1 / (i + 1.5) for i in range(len(emergence.rivals))]
    rivals = rng.choices(emergence.rivals, weights, k=count - n_emerging)
    return [emergence.entity] * n_emerging + [catalogue.entities[i] for i in rivals]


def _referent(emergence: Emergence, entity: Entity) -> Referent:
    if entity is emergence.entity:
        return Referent(entity, emergence.aliases)
    shared = tuple(a for a in emergence.aliases if a in (entity.short, entity.name))
    return Referent(entity, shared)


def _write_document(
    emergence: Emergence, entity: Entity, catalogue: Catalogue, rng: random.Random
) -> PileDocument:
    draft = Draft(catalogue, rng)
    referent = _referent(emergence, entity)
    draw = rng.random()
    if draw < emergence.blueprint.focused:
        _write_focused(draft, referent)
    elif draw < 1 - emergence.blueprint.thin:
        _write_passing(draft, referent, _host(emergence, entity, catalogue, rng))
    else:
        _write_thin(draft, referent)
    if rng.random() < P_BOTH:
        others = [emergence.entity, *(catalogue.entities[i] for i in emergence.rivals)]
        other = rng.choice([candidate for candidate in others if candidate is not entity])
        _mention(draft, _referent(emergence, other), other.kind.news, first=True)
    return _assemble(draft, entity, emergence.entity.index)


def _mention(draft: Draft, referent: Referent, templates: Sequence[str], first: bool) -> None:
    """Add a sentence that mentions the referent, later perhaps only as "the company"."""
    entity, rng = referent.entity, draft.rng
    scene = draft.scene(entity)
    template = rng.choice([t for t in templates if t not in draft.used])
    draft.used.append(template)
    if not first and rng.random() < 0.4 and "he {me}" not in template:
        noun = "".join(piece.text for piece in scene.fill(entity.kind.noun))
        me = Piece(noun[0].lower() + noun[1:])
    else:
        me = Piece(referent.surface(rng, first), entity.index)
    draft.sentences.append(scene.fill(template, me))


def _write_focused(draft: Draft, referent: Referent) -> None:
    """Write about the referent: its own news, its topic, its circle."""
    rng, lexicon = draft.rng, draft.catalogue.lexicon
    entity = referent.entity
    scene = draft.scene(entity)
    _mention(draft, referent, entity.kind.news, first=True)
    if rng.random() < 0.55:
        _mention(draft, referent, entity.kind.news, first=False)
    if rng.random() < 0.35:
        _mention(draft, referent, lexicon.general["mentions"], first=True)
    draft.say(scene, lexicon.topics[entity.kind.topic].news, rng.randint(2, 4))
    for _ in range(rng.randint(0, 2)):
        topic = rng.choice(TOPICS)
        draft.say(draft.scene(entity, topic), lexicon.topics[topic].news, 1)
    draft.say(scene, lexicon.general["asides"], rng.randint(2, 5))


def _write_passing(draft: Draft, referent: Referent, host: Entity) -> None:
    """Write about the host and mention the referent in passing."""
    rng, lexicon = draft.rng, draft.catalogue.lexicon
    scene = draft.scene(host)
    host_name = draft.scene(host).mention(host.index)
    draft.sentences.append(scene.fill(rng.choice(host.kind.news), host_name))
    draft.say(scene, lexicon.topics[host.kind.topic].news, rng.randint(2, 4))
    own = rng.random() < 0.7
    _mention(
        draft, referent, referent.entity.kind.news if own else lexicon.general["mentions"], True
    )
    if rng.random() < 0.35:
        draft.say(draft.scene(referent.entity), lexicon.topics[referent.entity.kind.topic].news, 1)
    draft.say(scene, lexicon.general["asides"], rng.randint(2, 5))


def _write_thin(draft: Draft, referent: Referent) -> None:
    """Write a short note that hardly says what it is about."""
    rng, lexicon = draft.rng, draft.catalogue.lexicon
    scene = draft.scene(referent.entity)
    _mention(draft, referent, lexicon.general["mentions"], first=True)
    draft.say(scene, lexicon.general["asides"], rng.randint(1, 3))
    if rng.random() < 0.6:
        draft.say(scene, lexicon.topics[referent.entity.kind.topic].news, 1)


def _host(emergence: Emergence, entity: Entity, catalogue: Catalogue, rng: random.Random) -> Entity:
    """Choose what a passing document is about; it may well be the subject area of a namesake."""
    kinds = list(catalogue.lexicon.kinds.values())
    if rng.random() < P_MISLEADING:
        namesakes = [emergence.entity, *(catalogue.entities[i] for i in emergence.rivals)]
        topic = rng.choice([e for e in namesakes if e is not entity]).kind.topic
        kinds = [kind for kind in kinds if kind.topic == topic]
    while True:
        host = catalogue.entities[catalogue.sample(rng.choice(kinds).name, rng)]
        if host.base != entity.base:
            return host


def _write_background(catalogue: Catalogue, rng: random.Random) -> PileDocument:
    """Write a document about some known entity."""
    draft = Draft(catalogue, rng)
    kind = rng.choice(list(catalogue.lexicon.kinds))
    host = catalogue.entities[catalogue.sample(kind, rng)]
    other = catalogue.entities[
        catalogue.related(host, rng.choice(list(catalogue.lexicon.kinds)), rng)
    ]
    scene = draft.scene(host)
    lexicon = catalogue.lexicon
    draft.sentences.append(scene.fill(rng.choice(host.kind.news), scene.mention(host.index)))
    draft.say(scene, lexicon.topics[host.kind.topic].news, rng.randint(1, 4))
    if other is not host:
        mention = draft.scene(other)
        news = rng.choice(other.kind.news)
        draft.sentences.append(mention.fill(news, mention.mention(other.index)))
    draft.say(scene, lexicon.general["asides"], rng.randint(1, 4))
    return _assemble(draft, host, None)


def _assemble(draft: Draft, subject: Entity, about: int | None) -> PileDocument:
    """Put the sentences into an order, between an opening and a closing line."""
    rng, general = draft.rng, draft.catalogue.lexicon.general
    scene = draft.scene(subject)
    first, *later = draft.sentences
    rng.shuffle(later)
    sentences = [first, *later]
    if rng.random() < 0.3:
        rng.shuffle(sentences)
    openers = general["blog_openers" if rng.random() < 0.3 else "news_openers"]
    opening = scene.fill(rng.choice(openers))
    if rng.random() < 0.35:
        sentences.append(scene.fill(rng.choice(general["closers"])))
    title = "".join(piece.text for piece in scene.fill(rng.choice(general["titles"])))
    text, spans = _join(opening, sentences, rng)
    return PileDocument(title, text, about, spans)


def _join(
    opening: list[Piece], sentences: list[list[Piece]], rng: random.Random
) -> tuple[str, tuple[EntitySpan, ...]]:
    """Return the text and where it mentions whom."""
    pieces = list(opening)
    for i, sentence in enumerate(sentences):
        if i:
            pieces.append(Piece("\n\n" if rng.random() < 0.14 else " "))
        pieces += sentence
    ends = accumulate(len(piece.text) for piece in pieces)
    spans = tuple(
        EntitySpan(end - len(piece.text), end, piece.entity)
        for piece, end in zip(pieces, ends, strict=True)
        if piece.entity is not None
    )
    return "".join(piece.text for piece in pieces), spans
