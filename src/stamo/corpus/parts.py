"""Long texts in parts, so that memory is bounded by the window and not by the text.

A part ends with a paragraph, a sentence or at least a word, and never inside a given mention.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from stamo.corpus.types import Document

_BOUNDARIES = (("\n\n",), ("\n",), (". ", "! ", "? ", "。", "؟ ", "। "), (" ",))


@dataclass(frozen=True, slots=True)
class Part:
    """A document, or a part of a long one that starts at `offset`."""

    document: Document
    number: int | None = None
    """None when the document is whole."""
    offset: int = 0

    @property
    def id(self) -> str:
        """The document's id."""
        return self.document.id


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A document that could not be read, and why."""

    id: str
    error: str
    number: int | None = None


ReadPart = Part | Unreadable


def find_cut(text: str, window: int, begin: int = 0) -> int:
    """Return where to cut at most `window` characters after `begin`, in the second half.

    The end of a paragraph is best, then of a line, a sentence, a word.
    """
    limit = begin + window
    for boundaries in _BOUNDARIES:
        cuts = [text.rfind(sign, begin + window // 2, limit) + len(sign) for sign in boundaries]
        found = [cut for cut, sign in zip(cuts, boundaries, strict=True) if cut >= len(sign)]
        if found:
            return max(found)
    return limit


def split_document(document: Document, window: int) -> Iterator[Part]:
    """Cut a document that is longer than the window; never inside one of its mentions."""
    text = document.text
    if len(text) <= window:
        yield Part(document)
        return
    begin = number = 0
    mentions = sorted(document.mentions, key=lambda m: m.start)
    while begin < len(text):
        end = len(text) if len(text) - begin <= window else find_cut(text, window, begin)
        for mention in mentions:
            if mention.start < end < mention.end:
                end = mention.start if mention.start > begin else mention.end
        inside = tuple(
            replace(m, start=m.start - begin, end=m.end - begin)
            for m in mentions
            if begin <= m.start and m.end <= end
        )
        piece = replace(document, text=text[begin:end], mentions=inside)
        yield Part(piece, number, begin)
        begin, number = end, number + 1
