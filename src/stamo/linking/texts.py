"""Many texts as one: a batch of documents is tokenised, searched and encoded in single calls."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stamo.corpus.tokenizer import lower, tokenize
from stamo.system.arrays import Int32, Int64

CodeArray = NDArray[np.uint32]

SEPARATOR = "\x03"
"""Stands between two texts; no word and no name holds it."""
_CONTROLS = "\x01\x02\x03"
_REPLACED = dict.fromkeys(map(ord, _CONTROLS), " ")
_JAMO = range(0x1160, 0x1200)


@dataclass(frozen=True)
class JoinedTexts:
    """Texts end to end, with their words.

    Everything inside speaks of places in `text`; `local` turns them into places in one of the
    original texts.
    """

    text: str
    offsets: Int64  # (documents + 1,) where each text starts in `text`
    words: list[str]  # lower-cased
    starts: Int32  # (words,)
    ends: Int32  # (words,)
    codes: CodeArray  # (characters,)
    lowered: CodeArray  # (characters,)
    moved: dict[int, Int32]  # document -> original place of each character, where they differ

    def document_of(self, places: NDArray[np.integer]) -> Int32:
        """Return which text each place lies in."""
        return (np.searchsorted(self.offsets, places, side="right") - 1).astype(np.int32)

    def local(self, documents: Int32, places: NDArray[np.integer]) -> Int32:
        """Turn places in the joined text into places in the original texts."""
        result = (places - self.offsets[documents]).astype(np.int32)
        for document, origin in self.moved.items():
            rows = documents == document
            result[rows] = origin[result[rows]]
        return result

    def joined(self, document: int, places: Int32) -> Int64:
        """Turn places in one original text into places in the joined text."""
        origin = self.moved.get(document)
        if origin is not None:
            places = np.searchsorted(origin, places).astype(np.int32)
        return np.asarray(places + self.offsets[document], dtype=np.int64)


def join_texts(texts: Sequence[str]) -> JoinedTexts:
    """Join texts and find their words.

    Aliases are kept in Unicode's composed form (NFC), so texts are brought into it.
    """
    parts, moved = list(texts), {}
    whole = "".join(parts)
    if any(control in whole for control in _CONTROLS):
        parts = [part.translate(_REPLACED) for part in parts]
    if not unicodedata.is_normalized("NFC", whole):
        for i, part in enumerate(parts):
            if not unicodedata.is_normalized("NFC", part):
                parts[i], moved[i] = compose(part)
    joined = SEPARATOR.join(parts) + SEPARATOR
    lengths = np.fromiter((len(part) + 1 for part in parts), np.int64, len(parts))
    words, starts, ends = tokenize(joined)
    return JoinedTexts(
        text=joined,
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        words=words,
        starts=starts,
        ends=ends,
        codes=code_points(joined),
        lowered=code_points(lower(joined)),
        moved=moved,
    )


def code_points(text: str) -> CodeArray:
    """Return the characters of a text as numbers; a lone surrogate becomes a question mark."""
    return np.frombuffer(text.encode("utf-32-le", "replace"), dtype=np.uint32)


def compose(text: str) -> tuple[str, Int32]:
    """Bring a text into NFC; return also the original place of each character and of the end."""
    pieces, origin, start = [], [], 0
    for i in range(1, len(text) + 1):
        if i < len(text) and (unicodedata.combining(text[i]) or ord(text[i]) in _JAMO):
            continue
        piece = unicodedata.normalize("NFC", text[start:i])
        pieces.append(piece)
        origin.extend([start] * len(piece))
        start = i
    return "".join(pieces), np.array([*origin, len(text)], dtype=np.int32)
