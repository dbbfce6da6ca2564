"""Fill the slots of a sentence about one entity: words of its topics, dates, and other entities."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from stamo_lab.world.catalogue import Catalogue, Entity
from stamo_lab.world.lexicon import Piece, Topic, load_lexicon, plural, render

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
            return [self._concept(argument)]
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

    def _concept(self, argument: str) -> Piece:
        concept, _, surface = argument.partition("|")
        return Piece(surface or concept, concept=concept if self.encyclopaedic else None)

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
        rng, subject = self.rng, self.subject
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
        return self._chance(name)

    def _chance(self, name: str) -> str:
        rng, general = self.rng, self.catalogue.lexicon.general
        match name:
            case "ordinal" | "month" | "weekday":
                return rng.choice(general[f"{name}s"])
            case "pct":
                return f"{rng.randint(2, 69)}{rng.choice(['', '', '.5', '.2', '.7'])} per cent"
            case "money":
                return f"{rng.randint(2, 98)} {rng.choice(['million', 'thousand'])} crowns"
            case "score":
                low = rng.randint(0, 2)
                return f"{low + rng.randint(1, 3)}–{low}"
            case "year":
                return str(self._year())
            case "season":
                year = max(1890, self._year())
                return f"{year}–{(year + 1) % 100:02d}"
            case "born":
                return f"{rng.randint(1, 28)} {rng.choice(general['months'])} {self.subject.year}"
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
