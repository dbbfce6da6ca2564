"""The template language of the world's sentences.

`[red|green|]` picks one alternative, which may be empty or hold further templates; `{slot}` is
filled by the caller. Text comes back as pieces, so that a mention keeps its entity.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

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


@dataclass(frozen=True, slots=True)
class Blank:
    """A place that the caller fills."""

    name: str


@dataclass(frozen=True, slots=True)
class OneOf:
    """Alternatives of equal probability."""

    options: tuple[Node, ...]


Node = tuple["str | Blank | OneOf", ...]
Resolver = Callable[[str, str], Sequence[Piece]]
"""Fills a slot, given its name and the text before it in the sentence."""


@cache
def parse(template: str) -> Node:
    """Parse a template into a tree."""
    node, rest = _parse_sequence(template, nested=False)
    if rest:
        raise ValueError(f"Unbalanced bracket in the template {template!r}.")
    return node


def _parse_sequence(text: str, nested: bool) -> tuple[Node, str]:
    parts: list[str | Blank | OneOf] = []
    stops = "[{|]" if nested else "[{"
    while text:
        end = min((at for stop in stops if (at := text.find(stop)) >= 0), default=len(text))
        if end:
            parts.append(text[:end])
        text = text[end:]
        if text.startswith("{"):
            close = text.index("}")
            parts.append(Blank(text[1:close]))
            text = text[close + 1 :]
        elif text.startswith("["):
            choice, text = _parse_choice(text[1:])
            parts.append(choice)
        elif text:
            break
    return tuple(parts), text


def _parse_choice(text: str) -> tuple[OneOf, str]:
    options = []
    while True:
        option, text = _parse_sequence(text, nested=True)
        options.append(option)
        if not text:
            raise ValueError("A choice is not closed.")
        separator, text = text[0], text[1:]
        if separator == "]":
            return OneOf(tuple(options)), text


def render(template: str, rng: random.Random, resolve: Resolver) -> list[Piece]:
    """Fill a template and return its pieces as one sentence."""
    pieces: list[Piece] = []
    _render(parse(template), rng, resolve, pieces)
    return as_sentence(pieces)


def _render(node: Node, rng: random.Random, resolve: Resolver, pieces: list[Piece]) -> None:
    for part in node:
        if isinstance(part, str):
            pieces.append(Piece(part))
        elif isinstance(part, Blank):
            pieces.extend(resolve(part.name, pieces[-1].text if pieces else ""))
        else:
            _render(rng.choice(part.options), rng, resolve, pieces)


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
