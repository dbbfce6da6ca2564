"""The size and the seed of an invented world."""

from __future__ import annotations

from dataclasses import dataclass

from stamo.errors import SettingsError

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
