"""The words and sentences of the world, read from the files in `text/`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
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
    sources: Mapping[str, int]
    """Where the bases of names come from, with weights."""
    forms: Sequence[str]
    infobox: Sequence[tuple[str, str]]
    lead: Sequence[str]
    facts: Sequence[str]
    news: Sequence[str]
    cites: Sequence[str]
    era: tuple[int, int] = THING_ERA
    person: bool = False
    italic: bool = False
    article: bool = False
    shortened: bool = True
    abbreviated: bool = False


@dataclass(frozen=True)
class Topic:
    """A subject area: its words and the sentences that belong to no entity in particular."""

    nouns: Sequence[str]
    adjs: Sequence[str]
    acts: Sequence[str]
    wiki: Sequence[str]
    news: Sequence[str]


@dataclass(frozen=True)
class WorldWords:
    """Everything the world can say."""

    topics: Mapping[str, Topic]
    kinds: Mapping[str, EntityKind]
    concepts: Mapping[str, tuple[str, str]]
    """Title of a common noun's article, to its topic and text."""
    general: Mapping[str, Sequence[str]]
    phrase_words: Mapping[str, Sequence[str]]
    """The first and the second words of titles."""


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
    return WorldWords(
        topics={
            name: Topic(words["nouns"], words["adjs"], words["acts"], **words["filler"])
            for name, words in raw.items()
        },
        kinds={
            kind: EntityKind(
                kind, name, **({"era": PERSON_ERA} if "person" in entry else {}) | entry
            )
            for name, words in raw.items()
            for kind, entry in words["kinds"].items()
        },
        concepts={
            title: (name, text)
            for name, words in raw.items()
            for title, text in words["concepts"].items()
        },
        phrase_words=general.pop("phrases"),
        general=general,
    )
