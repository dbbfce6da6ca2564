"""Write the later documents: news and blog posts that mention what the dump does not know.

A document is written around one name. Most are about the thing they name; some only touch on it
in a text about something else; a few give the reader almost nothing to go by.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from stamo.errors import SettingsError
from stamo_lab.world.articles import Titles
from stamo_lab.world.catalogue import STYLES, Catalogue, Entity, NamePools, Scene
from stamo_lab.world.lexicon import TOPICS, Piece, read_words

MIN_ARTICLES = 250
ARTICLES_PER_EMERGING = 50


@dataclass(frozen=True)
class WorldSettings:
    """The size and the seed of a world; the same settings always give the same bytes."""

    seed: int = 7
    """Seed of every random choice."""
    n_articles: int = 700
    """Articles of the dump; redirects, disambiguations and other pages come on top."""
    n_emerging: int = 6
    """Emerging entities, which the pile mentions and the dump does not know."""
    documents_per_entity: int = 300
    """Documents of the pile written around the name of one emerging entity."""
    background_documents: int = 300
    """Documents of the pile that are written around none of them."""
    compress: bool = True
    """Write `dump.xml.bz2` and not `dump.xml`."""

    def __post_init__(self) -> None:
        if self.n_articles < MIN_ARTICLES:
            raise SettingsError(
                f"A world of {self.n_articles} articles is too small; "
                f"ask for at least {MIN_ARTICLES}."
            )
        most = self.n_articles // ARTICLES_PER_EMERGING
        if not 0 <= self.n_emerging <= most:
            raise SettingsError(
                f"{self.n_articles} articles have room for 0 to {most} emerging entities, "
                f"not {self.n_emerging}; change one of the two."
            )
        if min(self.documents_per_entity, self.background_documents) < 0:
            raise SettingsError("The number of documents is negative; give zero or more.")


EMERGING_YEAR = 2021
MOST_CITATIONS = 44
FEWEST_CITATIONS = 7


@dataclass(frozen=True)
class Blueprint:
    """A kind of emerging entity and how hard it is to tell from its rivals."""

    kind: str
    rivals: Sequence[str]
    """Kinds of the known entities with the same name; the first shares the topic."""
    share: float
    """How often the name means the emerging entity."""
    forms: Sequence[str]
    """Aliases; `{x}` is the shared name."""
    focused: float = 0.82
    """Share of documents that are about what they mention."""
    thin: float = 0.08
    """Share of documents that give hardly any context."""
    neighbour: bool = False
    """Whether the first rival lives in the same province."""
    twin: bool = False
    """Whether the first rival shares the full name as well."""


BLUEPRINTS = [Blueprint(**entry) for entry in read_words("emerging")["blueprints"]]


@dataclass(frozen=True)
class Emergence:
    """An emerging entity together with its rivals."""

    entity: Entity
    aliases: tuple[str, ...]
    rivals: tuple[int, ...]
    blueprint: Blueprint


def add_emerging(
    catalogue: Catalogue, pools: NamePools, n_emerging: int, rng: random.Random
) -> list[Emergence]:
    """Invent the emerging entities and rename known ones after them. Call before titles are set."""
    renamed: set[int] = set()
    return [
        _emerge(catalogue, pools, BLUEPRINTS[i % len(BLUEPRINTS)], renamed, rng)
        for i in range(n_emerging)
    ]


def _emerge(
    catalogue: Catalogue,
    pools: NamePools,
    blueprint: Blueprint,
    renamed: set[int],
    rng: random.Random,
) -> Emergence:
    region = rng.randrange(len(catalogue.country_of_region))
    base = pools.maker.coin("places", rng.randrange(len(STYLES)))
    given, surname = rng.choice(pools.given), rng.choice(pools.surnames)
    aliases = tuple(form.format(x=base, given=given, surname=surname) for form in blueprint.forms)
    kind = catalogue.lexicon.kinds[blueprint.kind]
    entity = Entity(
        index=len(catalogue.entities) + len(catalogue.emerging),
        kind=kind,
        region=region,
        base=base,
        name=aliases[-1],
        year=EMERGING_YEAR - (24 if kind.person else 0),
        weight=1,
        female=rng.random() < 0.5,
        ordinal=rng.randrange(3),
    )
    catalogue.emerging.append(entity)
    others = [name for name in pools.given if name != given]
    rivals = []
    for i, rival_kind in enumerate(blueprint.rivals):
        near = blueprint.neighbour and i == 0
        # A known entity of the kind that is no rival yet, from the region or from others.
        free = [j for j in catalogue.by_kind[rival_kind] if j not in renamed]
        preferred = [j for j in free if (catalogue.entities[j].region == region) == near]
        rival = catalogue.entities[rng.choice(preferred or free)]
        renamed.add(rival.index)
        rival.base = base
        if blueprint.twin and i == 0:
            rival.name = aliases[-1]
        else:  # not by chance a longer alias of the emerging entity
            other = rng.choice(others)
            names = [form.format(x=base, given=other) for form in rival.kind.forms]
            rival.name = rng.choice([n for n in names if n == base or n not in aliases])
        rivals.append(rival.index)
    return Emergence(entity, aliases, tuple(rivals), blueprint)


def title_emerging(emergences: list[Emergence], catalogue: Catalogue, titles: Titles) -> None:
    """Give the emerging entities titles that no page of the dump has."""
    for entity in (emergence.entity for emergence in emergences):
        titles.give(entity, catalogue, bare=entity.name not in titles.taken)


def plan_citations(
    emergences: list[Emergence], catalogue: Catalogue, rng: random.Random
) -> dict[int, list[int]]:
    """Choose the articles that cite each rival, so that its shared name is in use in the dump.

    The priors of the dump are skewed, and not in the way of the pile.
    """
    hosts_of_topic: defaultdict[str, list[int]] = defaultdict(list)
    for entity in catalogue.entities:
        hosts_of_topic[entity.kind.topic].append(entity.index)
    citations: defaultdict[int, list[int]] = defaultdict(list)
    for emergence in emergences:
        ranked = list(emergence.rivals)
        rng.shuffle(ranked)
        for rank, rival in enumerate(ranked):
            hosts = hosts_of_topic[catalogue.entities[rival].kind.topic]
            for _ in range(max(FEWEST_CITATIONS, MOST_CITATIONS // (rank + 1))):
                at_home = rng.random() < 0.7
                host = rng.choice(hosts) if at_home else rng.randrange(len(catalogue.entities))
                if host != rival:
                    citations[host].append(rival)
    return citations


PILE_YEAR = 2022
P_BOTH = 0.03
P_MISLEADING = 0.25


@dataclass(frozen=True)
class PileDocument:
    """A later document with all of its mentions."""

    title: str
    text: str
    about: int | None
    """The emerging entity around whose name it was written."""
    spans: list[tuple[int, int, int]]
    """Start, end and entity of each mention in the text."""


@dataclass
class Draft:
    """A document while it is written."""

    catalogue: Catalogue
    rng: random.Random
    emergence: Emergence | None = None
    """The emerging entity around whose name it is written."""
    seen: dict[int, int] = field(default_factory=dict)
    sentences: list[list[Piece]] = field(default_factory=list)
    used: list[str] = field(default_factory=list)
    """Templates that the document has already."""

    def scene(self, subject: Entity, topic: str | None = None) -> Scene:
        """Return the scene of sentences around an entity; its words stray into other topics."""
        mixture = [(topic or subject.kind.topic, 0.92), (self.rng.choice(TOPICS), 0.08)]
        return Scene(self.catalogue, self.rng, subject, mixture, False, PILE_YEAR, seen=self.seen)

    def say(self, scene: Scene, what: str, count: int) -> None:
        """Add sentences that do not speak of the subject itself: news of its topic, or asides."""
        lexicon, topic = self.catalogue.lexicon, scene.mixture[0][0]
        templates = lexicon.topics[topic].news if what == "news" else lexicon.general[what]
        free = [template for template in templates if template not in self.used]
        for template in self.rng.sample(free, min(count, len(free))):
            self.used.append(template)
            self.sentences.append(scene.fill(template))

    def tell(self, host: Entity) -> Scene:
        """Add news of a known entity; return its scene."""
        scene = self.scene(host)
        template = self.rng.choice(host.kind.news)
        self.sentences.append(scene.fill(template, scene.mention(host.index)))
        return scene

    def mention(self, entity: Entity, what: str = "news", first: bool = True) -> None:
        """Add a sentence that mentions a referent, later perhaps only as "the company"."""
        rng, kind = self.rng, entity.kind
        scene = self.scene(entity)
        templates = kind.news if what == "news" else self.catalogue.lexicon.general[what]
        template = rng.choice([t for t in templates if t not in self.used])
        self.used.append(template)
        if not first and rng.random() < 0.4 and "he {me}" not in template:
            noun = scene.text(kind.noun)
            me = Piece(noun[0].lower() + noun[1:])
        else:
            me = Piece(self._surface(entity, first), entity.index)
        self.sentences.append(scene.fill(template, me))

    def _surface(self, entity: Entity, first: bool) -> str:
        """Return a name for the next mention of a referent; the first is always a shared one."""
        assert self.emergence is not None
        aliases, rng = self.emergence.aliases, self.rng
        if entity is not self.emergence.entity:
            aliases = tuple(a for a in aliases if a in (entity.short, entity.name))
        if not first and entity.name not in aliases and rng.random() < 0.25:
            return entity.name
        return aliases[0] if rng.random() < 0.78 else rng.choice(aliases)


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


def _write_document(
    emergence: Emergence, entity: Entity, catalogue: Catalogue, rng: random.Random
) -> PileDocument:
    draft = Draft(catalogue, rng, emergence)
    others = [emergence.entity, *(catalogue.entities[i] for i in emergence.rivals)]
    others = [other for other in others if other is not entity]
    draw = rng.random()
    if draw < emergence.blueprint.focused:
        _write_focused(draft, entity)
    elif draw < 1 - emergence.blueprint.thin:
        _write_passing(draft, entity, _host(others, entity, catalogue, rng))
    else:
        _write_thin(draft, entity)
    if rng.random() < P_BOTH:
        draft.mention(rng.choice(others))
    return _assemble(draft, entity, emergence.entity.index)


def _write_focused(draft: Draft, entity: Entity) -> None:
    """Write about the referent: its own news, its topic, its circle."""
    rng = draft.rng
    scene = draft.scene(entity)
    draft.mention(entity)
    if rng.random() < 0.55:
        draft.mention(entity, first=False)
    if rng.random() < 0.35:
        draft.mention(entity, "mentions")
    draft.say(scene, "news", rng.randint(2, 4))
    for _ in range(rng.randint(0, 2)):
        draft.say(draft.scene(entity, rng.choice(TOPICS)), "news", 1)
    draft.say(scene, "asides", rng.randint(2, 5))


def _write_passing(draft: Draft, entity: Entity, host: Entity) -> None:
    """Write about the host and mention the referent in passing."""
    rng = draft.rng
    scene = draft.scene(host)
    me = draft.scene(host).mention(host.index)
    draft.sentences.append(scene.fill(rng.choice(host.kind.news), me))
    draft.say(scene, "news", rng.randint(2, 4))
    draft.mention(entity, "news" if rng.random() < 0.7 else "mentions")
    if rng.random() < 0.35:
        draft.say(draft.scene(entity), "news", 1)
    draft.say(scene, "asides", rng.randint(2, 5))


def _write_thin(draft: Draft, entity: Entity) -> None:
    """Write a short note that hardly says what it is about."""
    rng = draft.rng
    scene = draft.scene(entity)
    draft.mention(entity, "mentions")
    draft.say(scene, "asides", rng.randint(1, 3))
    if rng.random() < 0.6:
        draft.say(scene, "news", 1)


def _host(
    namesakes: Sequence[Entity], entity: Entity, catalogue: Catalogue, rng: random.Random
) -> Entity:
    """Choose what a passing document is about; it may well be the subject area of a namesake."""
    kinds = list(catalogue.lexicon.kinds.values())
    if rng.random() < P_MISLEADING:
        topic = rng.choice(namesakes).kind.topic
        kinds = [kind for kind in kinds if kind.topic == topic]
    while True:
        host = catalogue.entities[catalogue.sample(rng.choice(kinds).name, rng)]
        if host.base != entity.base:
            return host


def _write_background(catalogue: Catalogue, rng: random.Random) -> PileDocument:
    """Write a document about some known entity."""
    draft, kinds = Draft(catalogue, rng), list(catalogue.lexicon.kinds)
    host = catalogue.entities[catalogue.sample(rng.choice(kinds), rng)]
    other = catalogue.entities[catalogue.related(host, rng.choice(kinds), rng)]
    scene = draft.tell(host)
    draft.say(scene, "news", rng.randint(1, 4))
    if other is not host:
        draft.tell(other)
    draft.say(scene, "asides", rng.randint(1, 4))
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
    pieces = scene.fill(rng.choice(openers))
    if rng.random() < 0.35:
        sentences.append(scene.fill(rng.choice(general["closers"])))
    title = scene.text(rng.choice(general["titles"]))
    for i, sentence in enumerate(sentences):
        if i:
            pieces.append(Piece("\n\n" if rng.random() < 0.14 else " "))
        pieces += sentence
    ends = accumulate(len(piece.text) for piece in pieces)
    spans = [
        (end - len(piece.text), end, piece.entity)
        for piece, end in zip(pieces, ends, strict=True)
        if piece.entity is not None
    ]
    return PileDocument(title, "".join(piece.text for piece in pieces), about, spans)
