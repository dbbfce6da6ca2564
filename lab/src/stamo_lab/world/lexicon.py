"""The words and sentences of the world, read from the files in `text/`."""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

TOKEN = re.compile(r"(\{[^}]*\}|[\[\]|])")
INDEFINITE = re.compile(r"(?<![\w'’-])([Aa])n? (?=[A-Za-z]|$)")
LEADING = re.compile(r"[\"'(\s]*")
SILENT_OR_LONG = ("uni", "use", "one ", "one-", "eu")


class Piece(NamedTuple):
    """A stretch of text, perhaps with the entity or the common noun that it mentions."""

    text: str
    entity: int | None = None
    concept: str | None = None

    @property
    def is_plain(self) -> bool:
        """Whether this is text without a link."""
        return self.entity is None and self.concept is None


Node = tuple["str | tuple[Node, ...]", ...]
"""Texts, slots in their braces, and choices, whose options have equal probability."""
Resolver = Callable[[str, str], Sequence[Piece]]
"""Fills a slot, given its name and the text before it in the sentence."""


@cache
def parse(template: str) -> Node:
    """Parse a template into a tree."""
    return _parse(iter(TOKEN.split(template)), is_option=False)[0]


def _parse(tokens: Iterator[str], is_option: bool) -> tuple[Node, str]:
    """Return what comes up to the end of the template or of an option, and the sign there."""
    parts: list[str | tuple[Node, ...]] = []
    for token in tokens:
        if is_option and token in ("|", "]"):
            return tuple(parts), token
        if token == "[":
            options, sign = [], "|"
            while sign == "|":
                option, sign = _parse(tokens, is_option=True)
                options.append(option)
            parts.append(tuple(options))
        elif token:
            parts.append(token)
    if is_option:
        raise ValueError("A choice is not closed.")
    return tuple(parts), ""


def render(template: str, rng: random.Random, resolve: Resolver) -> list[Piece]:
    """Fill a template and return its pieces as one sentence."""
    pieces: list[Piece] = []
    _render(parse(template), rng, resolve, pieces)
    return as_sentence(pieces)


def _render(node: Node, rng: random.Random, resolve: Resolver, pieces: list[Piece]) -> None:
    for part in node:
        if isinstance(part, tuple):
            _render(rng.choice(part), rng, resolve, pieces)
        elif part.startswith("{"):
            pieces.extend(resolve(part[1:-1], pieces[-1].text if pieces else ""))
        else:
            pieces.append(Piece(part))


def as_sentence(pieces: Iterable[Piece]) -> list[Piece]:
    """Merge plain neighbours, choose between "a" and "an", and start with a capital."""
    merged: list[Piece] = []
    plain = ""
    for piece in pieces:
        if piece.is_plain:
            plain += piece.text
            continue
        if plain:
            merged.append(Piece(choose_articles(plain, piece.text)))
            plain = ""
        merged.append(piece)
    if plain:
        merged.append(Piece(choose_articles(plain, "")))
    if merged:
        merged[0] = merged[0]._replace(text=capitalise(merged[0].text))
    return merged


def choose_articles(text: str, after: str) -> str:
    """Write "an" before a vowel and "a" elsewhere; `after` is the text that follows."""

    def article(match: re.Match[str]) -> str:
        word = (text[match.end() :] + after)[:4].lower()
        vowel = word[:1] in "aeiou" and not word.startswith(SILENT_OR_LONG)
        return f"{match[1]}n " if vowel and word else f"{match[1]} "

    return INDEFINITE.sub(article, text)


def capitalise(text: str) -> str:
    """Return the text with its first letter in upper case, behind quotes and wiki markup."""
    match = LEADING.match(text)
    start = match.end() if match else 0
    return text[:start] + text[start : start + 1].upper() + text[start + 1 :]


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
    path = resources.files("stamo_lab.world") / "text" / f"{name}.toml"
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
