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
