"""Write pieces of text as wikitext, with links in all the ways editors write them."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from stamo.world.entities import Catalogue
from stamo.world.template import Piece
from stamo.world.titles import Titles


@dataclass
class LinkWriter:
    """Writes the links of one article; an entity is mostly linked only where it first appears."""

    catalogue: Catalogue
    titles: Titles
    rng: random.Random
    own: int | None = None
    linked: set[int] = field(default_factory=set)

    def write(self, pieces: Iterable[Piece]) -> str:
        """Return the wikitext of a sentence."""
        return "".join(self._write_piece(piece) for piece in pieces)

    def _write_piece(self, piece: Piece) -> str:
        if piece.concept is not None:
            return concept_link(piece.text, piece.concept)
        if piece.entity is None:
            return piece.text
        italic = "''" if self.catalogue.entities[piece.entity].kind.italic else ""
        if piece.entity == self.own or (piece.entity in self.linked and self.rng.random() < 0.7):
            return f"{italic}{piece.text}{italic}"
        self.linked.add(piece.entity)
        return f"{italic}{self.link(piece.entity, piece.text)}{italic}"

    def link(self, entity: int, surface: str) -> str:
        """Return a link to an entity that shows as `surface`."""
        title = self.catalogue.entities[entity].title
        aliases = self.titles.redirects_of.get(entity, [])
        draw = self.rng.random()
        if surface in aliases and draw < 0.7:
            return f"[[{surface}]]"
        if aliases and draw < 0.06:
            title = self.rng.choice(aliases)
        if surface.startswith(title) and surface[len(title) :].isalpha():
            trail = surface[len(title) :]
            if trail.islower() and trail.isascii():
                return f"[[{title}]]{trail}"
        if draw > 0.97:
            return f"[[{title}#{self.rng.choice(['History', 'Legacy'])}|{surface}]]"
        if draw > 0.94:
            title = title.replace(" ", "_")
        return f"[[{title}]]" if title == surface else f"[[{title}|{surface}]]"


def concept_link(surface: str, concept: str) -> str:
    """Return the link of a common noun: `[[goalkeeper]]s`, `[[tributary|tributaries]]`."""
    if surface.casefold().startswith(concept.casefold()):
        head, trail = surface[: len(concept)], surface[len(concept) :]
        if not trail or (trail.isalpha() and trail.islower()):
            return f"[[{head}]]{trail}"
    return f"[[{concept}|{surface}]]"
