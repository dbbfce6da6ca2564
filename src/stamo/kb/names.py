"""The form in which surface forms are kept and looked up, and the names of files."""

from __future__ import annotations

import unicodedata

ARTICLES_FILE = "articles.parquet"
MATCHER = "linked_aliases"
"""The matcher of all aliases that are linked at least once."""


def normalise_surface(surface: str) -> str:
    """Bring a surface form into the form in which aliases are kept: NFC, single spaces."""
    joined = " ".join(surface.split())
    return joined if joined.isascii() else unicodedata.normalize("NFC", joined)


def normalise_surfaces(surfaces: list[str]) -> list[str]:
    """Normalise many surface forms; where all of them are plain, one look at them together does."""
    joined = "|".join(surfaces)
    is_plain = (
        joined.isascii()
        and joined.isprintable()
        and "  " not in joined
        and "| " not in joined
        and " |" not in joined
        and joined.strip(" ") == joined
    )
    return surfaces if is_plain else list(map(normalise_surface, surfaces))
