"""The sentences around a mention."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right

_END_OF_SENTENCE = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]?[A-Z0-9])|\n+")
CHARACTERS_BESIDE = 400
"""Of each sentence on either side: a table has no full stops."""


def sentence_window(text: str, start: int, end: int, n_beside: int = 1) -> str:
    """Return the sentence of a mention, with some sentences on each side."""
    most = CHARACTERS_BESIDE * (n_beside + 1)
    first, last = max(0, start - 2 * most), min(len(text), end + 2 * most)
    ends = (match.end() + first for match in _END_OF_SENTENCE.finditer(text[first:last]))
    cuts = [first, *ends, last]
    low = cuts[max(0, bisect_right(cuts, start) - 1 - n_beside)]
    high = cuts[min(len(cuts) - 1, bisect_left(cuts, end) + n_beside)]
    return text[max(low, start - most) : min(high, end + most)].strip()
