"""The form in which surface forms are kept and looked up, and the names of files."""

from __future__ import annotations

import unicodedata

ARTICLES_FILE = "articles.parquet"
ALIAS_COUNTS = "alias_counts.npy"
ENTITY_VECTORS = "entity_vectors.closed-form.npy"
BACKGROUND = "background.npy"
MATCHER = "linked_aliases"
"""The matcher of all aliases that are linked at least once."""


def normalise_surface(surface: str) -> str:
    """Bring a surface form into the form in which aliases are kept: NFC, single spaces."""
    joined = " ".join(surface.split())
    return joined if joined.isascii() else unicodedata.normalize("NFC", joined)


def normalise_surfaces(surfaces: list[str]) -> list[str]:
    """Normalise many surface forms; one look at all of them together tells what needs work."""
    joined = "|".join(surfaces)
    is_tidy = (
        joined.isprintable()  # then a space is the only white space in it
        and "  " not in joined
        and "| " not in joined
        and " |" not in joined
        and joined.strip(" ") == joined
    )
    if is_tidy and joined.isascii():
        return surfaces
    if not is_tidy:
        return list(map(normalise_surface, surfaces))
    return [s if s.isascii() else unicodedata.normalize("NFC", s) for s in surfaces]
