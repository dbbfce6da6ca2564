"""Populate the world: countries, their provinces, and all that is found in a province."""

from __future__ import annotations

import random
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import accumulate

from stamo_lab.world.lexicon import (
    EntityKind,
    Piece,
    Topic,
    WorldWords,
    load_lexicon,
    plural,
    read_words,
    render,
)

STYLES: list[dict[str, list[str]]] = [
    {part: words.split() for part, words in style.items()}
    for style in read_words("names")["styles"]
]
"""The syllables of names; each province speaks one of these styles."""


class NameMaker:
    """Makes names that were not used before."""

    def __init__(self, rng: random.Random, forbidden: Iterable[str]) -> None:
        self._rng = rng
        self._used = {word.casefold() for word in forbidden}

    def coin(self, ending: str, style: int) -> str:
        """Return a new name in a style, with an ending of `places`, `surnames` or `given`."""
        parts = STYLES[style % len(STYLES)]
        onsets, vowels, inner = parts["onsets"], parts["vowels"], parts["inner"]
        rng = self._rng
        for attempt in range(1000):
            # Longer names only once the short ones become rare.
            n_syllables = 1 + (rng.random() < 0.25) + attempt // 20
            stem = rng.choice(onsets)
            for i in range(n_syllables):
                if i:
                    stem += rng.choice(inner)
                stem += rng.choice(vowels)
            tail = rng.choice(parts[ending])
            # A vowel meets a vowel only through a consonant.
            joint = rng.choice(inner) if tail[0] in "aeiouy" else ""
            name = (stem + joint + tail).capitalize()
            if len(name) >= 4 and name.casefold() not in self._used:
                self._used.add(name.casefold())
                return name
        raise AssertionError("the syllables are exhausted")  # more than 10^8 combinations


def demonym(place: str) -> str:
    """Return the adjective of a country."""
    if place.endswith(("a", "e")):
        return place + "n"
    if place.endswith(("o", "i", "u")):
        return place + "an"
    return place + ("ish" if len(place) < 7 else "ian")


def variant(name: str, rng: random.Random) -> str:
    """Return another spelling of a name, as redirects keep them."""
    swaps = [("k", "c"), ("i", "y"), ("v", "w"), ("s", "z"), ("c", "k"), ("u", "oo"), ("e", "ae")]
    rng.shuffle(swaps)
    for old, new in swaps:
        at = name.find(old, 1)
        if at > 0:
            return name[:at] + new + name[at + 1 :]
    return name + "e"


HOME = ("country", "region", "city")
"""Kinds of which an entity has one; it is mostly this one that its sentences mean."""


@dataclass(slots=True)
class Entity:
    """Something that can be mentioned. Titles are settled only when all names are known."""

    index: int
    kind: EntityKind
    region: int
    base: str
    """The name without its form: a surname, the place in "Battle of …"."""
    name: str
    year: int
    weight: int
    """How often it is mentioned outside its own community."""
    female: bool = False
    ordinal: int = 0
    """Its place among the entities of its kind in its region."""
    title: str = ""
    demonym: str = ""

    @property
    def abbreviation(self) -> str:
        """The initials of the name."""
        return "".join(word[0] for word in self.name.replace("'", " ").split() if word[0].isupper())

    @property
    def short(self) -> str:
        """The shortest name in common use; it is often shared with others."""
        return self.base if self.kind.shortened else self.name


@dataclass
class Catalogue:
    """All entities, by number, by kind and by region."""

    lexicon: WorldWords
    entities: list[Entity] = field(default_factory=list)
    local: dict[tuple[int, str], list[int]] = field(default_factory=lambda: defaultdict(list))
    by_kind: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    country_of_region: dict[int, int] = field(default_factory=dict)
    emerging: list[Entity] = field(default_factory=list)
    """Entities without an article; their numbers follow those of the others."""
    bystanders: list[str] = field(default_factory=list)
    """People without an article, whom the news quotes."""
    _cumulative: dict[str, list[int]] = field(default_factory=dict)

    def get(self, index: int) -> Entity:
        """Return an entity, known or emerging, by its number."""
        n_known = len(self.entities)
        return self.entities[index] if index < n_known else self.emerging[index - n_known]

    def partners(self, entity: Entity, kind: str) -> Sequence[int]:
        """Return the entities of a kind that belong to `entity`: its club, its cast, its province.

        Kinds of one region are dealt out to each other in turn, so that the relation is mutual:
        a player's club is the club that has this player.
        """
        if kind == "country":
            return [self.country_of_region[entity.region]]
        theirs = self.local[entity.region, kind]
        n_mine = max(1, len(self.local[entity.region, entity.kind.name]))
        if 0 < len(theirs) <= n_mine:
            return [theirs[entity.ordinal % len(theirs)]]
        return [other for i, other in enumerate(theirs) if i % n_mine == entity.ordinal % n_mine]

    def sample(self, kind: str, rng: random.Random) -> int:
        """Draw an entity of a kind, the well-known ones more often."""
        members = self.by_kind[kind]
        if kind not in self._cumulative:
            self._cumulative[kind] = list(accumulate(self.entities[i].weight for i in members))
        cumulative = self._cumulative[kind]
        return members[bisect_right(cumulative, rng.randrange(cumulative[-1]))]

    def related(self, entity: Entity, kind: str, rng: random.Random) -> int:
        """Draw an entity of a kind to mention beside `entity`, from its own circle if possible."""
        draw = rng.random()
        circle = self.partners(entity, kind)
        if circle and draw < (0.93 if kind in HOME else 0.82):
            return rng.choice(circle)
        neighbours = self.local[entity.region, kind]
        if neighbours and draw < 0.92:
            return rng.choice(neighbours)
        return self.sample(kind, rng)


# How many of each kind a province has. Places come first, because other names derive from them.
PROVINCE = {
    "region": 1, "city": 1, "town": 5, "river": 1, "mountain": 1,
    "club": 2, "stadium": 2, "manager": 2, "footballer": 7,
    "film": 3, "director": 2, "actor": 5, "studio": 1, "filmfest": 1, "character": 2,
    "band": 3, "musician": 5, "album": 3, "label": 1, "musicfest": 1,
    "party": 1, "politician": 4, "law": 1,
    "company": 2, "software": 2, "engineer": 2,
    "bank": 1, "economist": 1,
    "battle": 1, "general": 2, "castle": 1, "treaty": 1,
    "species": 2, "biologist": 1,
    "dish": 1, "chef": 1, "restaurant": 1,
    "virus": 1, "hospital": 1, "physician": 1,
    "novel": 2, "author": 2,
}  # fmt: skip
PROVINCE_SIZE = sum(PROVINCE.values())
PROVINCES_PER_COUNTRY = 3
FILLERS = ("footballer", "town", "actor", "politician", "musician", "species", "novel", "river")
N_BYSTANDERS = 120
N_GIVEN_NAMES = 90


@dataclass
class NamePools:
    """Names that several entities share."""

    maker: NameMaker
    surnames: list[str]
    given: list[str]


def build_catalogue(
    n_articles: int, lexicon: WorldWords, rng: random.Random
) -> tuple[Catalogue, NamePools]:
    """Invent the entities of `n_articles` articles, of which the concepts take a few."""
    n_entities = n_articles - len(lexicon.concepts)
    catalogue = Catalogue(lexicon)
    pools = make_pools(n_entities, lexicon, rng)
    region = 0
    while region == 0 or n_entities - len(catalogue.entities) > PROVINCE_SIZE:
        if region % PROVINCES_PER_COUNTRY == 0:
            country = add_entity(catalogue, "country", region, pools, rng)
        catalogue.country_of_region[region] = country.index
        for kind, count in PROVINCE.items():
            for _ in range(count):
                add_entity(catalogue, kind, region, pools, rng)
        region += 1
    while len(catalogue.entities) < n_entities:
        kind = FILLERS[len(catalogue.entities) % len(FILLERS)]
        add_entity(catalogue, kind, rng.randrange(region), pools, rng)
    catalogue.bystanders = [
        f"{rng.choice(pools.given)} {pools.maker.coin('surnames', i)}" for i in range(N_BYSTANDERS)
    ]
    return catalogue, pools


def make_pools(n_entities: int, lexicon: WorldWords, rng: random.Random) -> NamePools:
    """Make the surnames and given names; there are far fewer of them than people."""
    phrases = [p for t in lexicon.topics.values() for p in (*t.nouns, *t.adjs, *t.acts)]
    # No name is a word of the language.
    maker = NameMaker(rng, [word for phrase in phrases for word in phrase.split()])
    return NamePools(
        maker,
        surnames=[maker.coin("surnames", i) for i in range(max(40, n_entities // 11))],
        given=[maker.coin("given", i) for i in range(N_GIVEN_NAMES)],
    )


def add_entity(
    catalogue: Catalogue, kind_name: str, region: int, pools: NamePools, rng: random.Random
) -> Entity:
    """Invent one entity and add it to its region."""
    kind = catalogue.lexicon.kinds[kind_name]
    base = choose_base(catalogue, kind, region, pools, rng)
    form = rng.choice(kind.forms)
    if form != "{x}":
        # "The Quiet Harbour" lends its name as "Quiet Harbour Records".
        base = base.removeprefix("The ")
    neighbours = catalogue.local[region, kind_name]
    entity = Entity(
        index=len(catalogue.entities),
        kind=kind,
        region=region,
        base=base,
        name=form.format(x=base, given=rng.choice(pools.given)),
        year=rng.randint(*kind.era),
        # A few are known everywhere, most only at home.
        weight=1 + 60 // rng.randint(1, 60),
        female=rng.random() < 0.5,
        ordinal=len(neighbours),
        demonym=demonym(base) if kind_name == "country" else "",
    )
    catalogue.entities.append(entity)
    for group in (neighbours, catalogue.by_kind[kind_name]):
        group.append(entity.index)
    return entity


def choose_base(
    catalogue: Catalogue, kind: EntityKind, region: int, pools: NamePools, rng: random.Random
) -> str:
    """Draw the base of a name from where names of this kind come from."""
    source = rng.choice([name for name, weight in kind.sources.items() for _ in range(weight)])
    if source == "surname":
        # The lower of two draws prefers the first names: some families are everywhere.
        n_surnames = len(pools.surnames)
        return pools.surnames[min(rng.randrange(n_surnames), rng.randrange(n_surnames))]
    if source == "given":
        return rng.choice(pools.given)
    if source == "phrase":
        words = catalogue.lexicon.phrase_words  # a title such as "The Quiet Harbour"
        phrase = f"{rng.choice(words['first'])} {rng.choice(words['second'])}"
        return rng.choice(["", "The ", "The "]) + phrase
    if source == "place":
        # The city of the region more often than a town.
        cities, towns = catalogue.local[region, "city"], catalogue.local[region, "town"]
        return catalogue.entities[rng.choice(cities * max(1, len(towns)) + towns)].base
    if source == "demonym":
        return catalogue.entities[catalogue.country_of_region[region]].demonym
    return pools.maker.coin("places", region)


DUMP_YEAR = 2018
AFTER_ARTICLE = re.compile(r"\b(?:the|an?|a tame) $", re.IGNORECASE)
PATTERN = re.compile(r"([A-Za-z]+)(\d?)(?:([:+])(.*))?")
PRONOUNS = {"he": ("he", "she", "it"), "his": ("his", "her", "its"), "him": ("him", "her", "it")}
WORDS = ("noun", "nouns", "adj", "Adj", "act")
SIGNATURE_SHARE = 0.42
N_SIGNATURE = 4


@lru_cache(maxsize=4096)
def signature(title: str, topic_name: str) -> Topic:
    """Draw the words that an entity attracts more than its topic does.

    They are the same in the dump and in the pile.
    """
    topic = load_lexicon().topics[topic_name]
    rng = random.Random(f"signature/{title}")
    return replace(
        topic,
        nouns=rng.sample(topic.nouns, N_SIGNATURE),
        adjs=rng.sample(topic.adjs, N_SIGNATURE - 1),
        acts=rng.sample(topic.acts, N_SIGNATURE - 2),
    )


@dataclass
class Scene:
    """The state of one text while its sentences are filled."""

    catalogue: Catalogue
    rng: random.Random
    subject: Entity
    """Whom pronouns and relations refer to."""
    mixture: list[tuple[str, float]]
    """Topics from which free words are drawn, with their shares."""
    encyclopaedic: bool
    last_year: int = DUMP_YEAR
    defining: bool = False
    """Whether relations are those of a definition, always the same, or may reach out."""
    seen: dict[int, int] = field(default_factory=dict)
    """How often each entity was mentioned so far."""
    _used: dict[str, Piece] = field(default_factory=dict)
    _me: Piece | None = None

    def fill(self, template: str, me: Piece | None = None) -> list[Piece]:
        """Return the sentence; `me` stands where the template says `{me}`."""
        self._used = {}
        self._me = me
        return render(template, self.rng, self._resolve)

    def text(self, template: str) -> str:
        """Return the sentence as plain text."""
        return "".join(piece.text for piece in self.fill(template))

    def _resolve(self, slot: str, before: str) -> list[Piece]:
        match = PATTERN.fullmatch(slot)
        assert match, slot
        name, _, _, argument = match.groups()
        if name == "me":
            return self._with_article(self._me, before)
        if name == "c":
            concept, _, surface = argument.partition("|")
            return [Piece(surface or concept, concept=concept if self.encyclopaedic else None)]
        if name == "demonym":
            country = self.catalogue.country_of_region[self.subject.region]
            return [Piece(self.catalogue.entities[country].demonym, country)]
        if name in self.catalogue.lexicon.kinds:
            return self._with_article(self._entity(name, slot, before), before)
        if name == "n":
            return [Piece(self._value(name, argument))]
        if slot not in self._used:
            self._used[slot] = self._new_value(name, argument or "")
        return [self._used[slot]]

    def _new_value(self, name: str, argument: str) -> Piece:
        """Return a value that the sentence does not have yet: no "from Sunday to Sunday"."""
        used = [piece.text for piece in self._used.values()]
        for _ in range(4):
            value = self._value(name, argument)
            if value not in used:
                break
        return Piece(value)

    def _with_article(self, piece: Piece | None, before: str) -> list[Piece]:
        assert piece is not None
        if piece.entity is None or AFTER_ARTICLE.search(before):
            return [piece]
        entity = self.catalogue.get(piece.entity)
        needs = entity.kind.article and (piece.text == entity.name or entity.kind.name == "river")
        return [Piece("the "), piece] if needs else [piece]

    def _entity(self, kind: str, slot: str, before: str) -> Piece:
        """Mention an entity of a kind, another one for `{kind2}` than for `{kind}`."""
        if slot not in self._used:
            others = [piece.entity for piece in self._used.values() if piece.entity is not None]
            if self._me is not None and self._me.entity is not None:
                others.append(self._me.entity)
            others.append(self.subject.index)
            if slot != kind:
                # "{club2}" is an opponent, never the subject's own club.
                others.extend(self.catalogue.partners(self.subject, kind)[:1])
            self._used[slot] = self.mention(self._choose(kind, others), before)
        return self._used[slot]

    def _choose(self, kind: str, others: Sequence[int]) -> int:
        if self.defining:
            for index in self.catalogue.partners(self.subject, kind):
                if index not in others:
                    return index
        index = self.catalogue.related(self.subject, kind, self.rng)
        for _ in range(8):
            if index not in others:
                break
            index = self.catalogue.sample(kind, self.rng)
        return index

    def mention(self, index: int, before: str = "") -> Piece:
        """Mention an entity by one of its names: in full at first, mostly shorter later."""
        entity = self.catalogue.entities[index]
        count = self.seen.get(index, 0)
        self.seen[index] = count + 1
        after_article = AFTER_ARTICLE.search(before) and entity.kind.name != "river"
        p_short = 0.0 if after_article else 0.8 if count else 0.4
        draw = self.rng.random()
        if entity.kind.abbreviated and draw < 0.12:
            return Piece(entity.abbreviation, index)
        return Piece(entity.short if draw < p_short else entity.name, index)

    def _value(self, name: str, argument: str) -> str:
        rng, subject, general = self.rng, self.subject, self.catalogue.lexicon.general
        if name in WORDS:
            return self._word(name)
        if name in PRONOUNS:
            return PRONOUNS[name][subject.female if subject.kind.person else 2]
        match name:
            case "n":
                low, high = argument.split("-")
                return str(rng.randint(int(low), int(high)))
            case "yr":
                low, _, high = argument.partition("-")
                later = rng.randint(int(low), int(high)) if argument else 0
                return str(min(self.last_year, subject.year + later))
            case "name":
                return subject.name
            case "someone":
                return rng.choice(self.catalogue.bystanders)
            case "ordinal" | "month" | "weekday":
                return rng.choice(general[f"{name}s"])
            case "pct":
                return f"{rng.randint(2, 69)}{rng.choice(['', '', '.5', '.2', '.7'])} per cent"
            case "money":
                return f"{rng.randint(2, 98)} {rng.choice(['million', 'thousand'])} crowns"
            case "score":
                lost = rng.randint(0, 2)
                return f"{lost + rng.randint(1, 3)}–{lost}"
            case "year":
                return str(self._year())
            case "season":
                year = max(1890, self._year())
                return f"{year}–{(year + 1) % 100:02d}"
            case "born":
                return f"{rng.randint(1, 28)} {rng.choice(general['months'])} {subject.year}"
            case "day":
                return str(rng.randint(1, 28))
        raise ValueError(f"Unknown slot {name!r} in a template.")

    def _year(self) -> int:
        """Return a year after the subject began, and within living memory where that was early."""
        grown_up = self.subject.year + (18 if self.subject.kind.person else 4)
        return self.rng.randint(max(1860, min(grown_up, self.last_year)), self.last_year)

    def _word(self, name: str) -> str:
        at_home = self.mixture[0][0] == self.subject.kind.topic
        if at_home and self.rng.random() < SIGNATURE_SHARE:
            source = signature(self.subject.title, self.subject.kind.topic)
        else:
            names, shares = zip(*self.mixture, strict=True)
            source = self.catalogue.lexicon.topics[self.rng.choices(names, shares)[0]]
        if name in ("noun", "nouns"):
            noun = self.rng.choice(source.nouns)
            return plural(noun) if name == "nouns" else noun
        if name == "act":
            return self.rng.choice(source.acts)
        adjective = self.rng.choice(source.adjs)
        return adjective.capitalize() if name == "Adj" else adjective
