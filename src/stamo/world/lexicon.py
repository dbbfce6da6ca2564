"""The words and sentences of the world, read from the files in `text/`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

PERSON_ERA = (1930, 1992)
THING_ERA = (1890, 2010)
IRREGULAR_PLURALS = {"larva": "larvae", "leaf": "leaves", "loaf": "loaves"}


@dataclass(frozen=True)
class EntityKind:
    """A kind of entity: how it is named and what is said of it."""

    name: str
    topic: str
    label: str
    noun: str
    gloss: str
    sources: tuple[tuple[str, int], ...]
    forms: tuple[str, ...]
    infobox: tuple[tuple[str, str], ...]
    lead: tuple[str, ...]
    facts: tuple[str, ...]
    news: tuple[str, ...]
    cites: tuple[str, ...]
    era: tuple[int, int]
    person: bool = False
    italic: bool = False
    article: bool = False
    shortened: bool = True
    abbreviated: bool = False


@dataclass(frozen=True)
class Topic:
    """A subject area: its words and the sentences that belong to no entity in particular."""

    name: str
    nouns: tuple[str, ...]
    adjs: tuple[str, ...]
    acts: tuple[str, ...]
    wiki: tuple[str, ...]
    news: tuple[str, ...]


@dataclass(frozen=True)
class WorldWords:
    """Everything the world can say."""

    topics: Mapping[str, Topic]
    kinds: Mapping[str, EntityKind]
    concepts: Mapping[str, tuple[str, str]]
    """Title of a common noun's article, to its topic and text."""
    general: Mapping[str, tuple[str, ...]]
    phrase_words: tuple[tuple[str, ...], tuple[str, ...]]


def plural(noun: str) -> str:
    """Return the plural of a noun or of a phrase that ends in one."""
    if noun in IRREGULAR_PLURALS:
        return IRREGULAR_PLURALS[noun]
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")


def read_words(name: str) -> dict[str, Any]:
    """Read a file in `text/`."""
    path = resources.files("stamo.world") / "text" / f"{name}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


TOPICS: tuple[str, ...] = tuple(read_words("general")["topics"])
"""In their order, by which they are drawn."""


@cache
def load_lexicon() -> WorldWords:
    """Read what is said of topics and kinds, and what fits any of them."""
    raw = {name: read_words(name) for name in TOPICS}
    general = read_words("general")
    phrases = general.pop("phrases")
    return WorldWords(
        topics={name: _topic(name, raw[name]) for name in TOPICS},
        kinds={
            kind: _kind(kind, name, entry)
            for name in TOPICS
            for kind, entry in raw[name]["kinds"].items()
        },
        concepts={
            title: (name, text) for name in TOPICS for title, text in raw[name]["concepts"].items()
        },
        general={key: tuple(lines) for key, lines in general.items()},
        phrase_words=(tuple(phrases["first"]), tuple(phrases["second"])),
    )


def _topic(name: str, raw: Mapping[str, Any]) -> Topic:
    words = {kind: tuple(raw[kind]) for kind in ("nouns", "adjs", "acts")}
    return Topic(name, **words, **{kind: tuple(raw["filler"][kind]) for kind in ("wiki", "news")})


def _kind(name: str, topic: str, raw: Mapping[str, Any]) -> EntityKind:
    values = dict(raw)
    era = values.pop("era", PERSON_ERA if raw.get("person") else THING_ERA)
    for key in ("forms", "lead", "facts", "news", "cites"):
        values[key] = tuple(values[key])
    values["sources"] = tuple(values["sources"].items())
    values["infobox"] = tuple((field, value) for field, value in values["infobox"])
    return EntityKind(name=name, topic=topic, era=(era[0], era[1]), **values)
