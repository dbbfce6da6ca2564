"""Many texts as one: a batch of documents is tokenised, searched and encoded in single calls."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from stamo.corpus.tokenizer import lower, word_spans, words_at
from stamo.features.mentions import UNKNOWN, FlatCorpus, Lexicon
from stamo.system.files import Bools, Int32, Int64

CodeArray = NDArray[np.uint32]
Value = TypeVar("Value")

SEPARATOR = "\x03"
"""Stands between two texts; no word and no name holds it."""
_CONTROLS = "\x01\x02\x03"
_REPLACED = dict.fromkeys(map(ord, _CONTROLS), " ")
_JAMO = range(0x1160, 0x1200)
_FIRST_MARK = 0x300
"""All characters before it are composed, whatever stands beside them."""
WHITE, SENTENCE_END, TRANSPARENT, TAG = 1, 2, 4, 8
_SIGNS = {
    WHITE: "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000"
    + "".join(map(chr, range(0x2000, 0x200B))),
    SENTENCE_END: ".!?…。！？؟।։:\n" + SEPARATOR,
    TRANSPARENT: "\"'“”‘’«»„‚‹›¿¡()[]*•-– \t\r",
    TAG: "#@＃＠",
}
TABLE_SIZE = 0x10000
"""Code points of tables; the last one is no character, so it stands for all beyond."""
_KINDS = np.zeros(TABLE_SIZE, dtype=np.uint8)
for _kind, _signs in _SIGNS.items():
    _KINDS[[ord(sign) for sign in _signs]] |= _kind


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
    kinds: NDArray[np.uint8]  # (characters,) white space, the end of a sentence and so on
    is_raised: Bools  # (words,) whether each begins with a capital
    word_documents: Int32  # (words,) which text each stands in
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

    def joined(self, document: int, places: NDArray[np.integer]) -> Int64:
        """Turn places in one original text into places in the joined text."""
        origin = self.moved.get(document)
        if origin is not None:
            places = np.searchsorted(origin, places).astype(np.int32)
        return np.asarray(places + self.offsets[document], dtype=np.int64)


@dataclass(frozen=True)
class Detected:
    """The mentions of a batch in order; places are those of the joined texts, or of one of them."""

    starts: Int64  # (M,)
    ends: Int64  # (M,)
    aliases: Int32  # (M,) alias of the knowledge base, -1 when only an extra alias matched
    extras: Int32  # (M,) index into the extra aliases, -1 when none matched

    def __len__(self) -> int:
        return len(self.starts)

    @classmethod
    def join(cls, parts: Sequence[Detected]) -> Detected:
        """Put mentions behind one another."""
        columns = ([getattr(part, field.name) for part in parts] for field in fields(cls))
        return cls(*map(np.concatenate, columns))

    def take(self, rows: Int64 | Bools | slice) -> Detected:
        """Return some of the mentions."""
        return Detected(self.starts[rows], self.ends[rows], self.aliases[rows], self.extras[rows])


_NONE = np.zeros(0, np.int64)
NOTHING_DETECTED = Detected(_NONE, _NONE, _NONE.astype(np.int32), _NONE.astype(np.int32))


def join_texts(texts: Sequence[str]) -> JoinedTexts:
    """Join texts and find their words.

    Aliases are kept in Unicode's composed form (NFC), so texts are brought into it.
    """
    parts, moved = list(texts), {}
    joined = SEPARATOR.join(parts) + SEPARATOR
    if "\x01" in joined or "\x02" in joined or joined.count(SEPARATOR) > len(parts):
        parts = [part.translate(_REPLACED) for part in parts]
        joined = SEPARATOR.join(parts) + SEPARATOR
    codes = code_points(joined)
    # No character that is a mark or has another form: surely composed. Only the distinct ones are
    # looked at, in a tenth of the time of looking at all.
    if not all(map(_stands_alone, np.unique(codes[codes >= _FIRST_MARK]).tolist())):
        for i, part in enumerate(parts):
            if not unicodedata.is_normalized("NFC", part):
                parts[i], moved[i] = compose(part)
        joined = SEPARATOR.join(parts) + SEPARATOR
        codes = code_points(joined)
    lowered = lower(joined)
    starts, ends = word_spans(lowered)
    offsets, small = np.cumsum([0, *(len(part) + 1 for part in parts)]), code_points(lowered)
    n_words = np.diff(np.searchsorted(starts, offsets))
    return JoinedTexts(
        text=joined,
        offsets=offsets,
        words=words_at(lowered, starts, ends),
        starts=starts,
        ends=ends,
        codes=codes,
        lowered=small,
        kinds=_KINDS.take(codes, mode="clip"),
        is_raised=np.asarray(codes.take(starts) != small.take(starts)),
        word_documents=np.repeat(np.arange(len(parts), dtype=np.int32), n_words),
        moved=moved,
    )


@cache
def _stands_alone(code: int) -> bool:
    sign = chr(code)
    if code in _JAMO or unicodedata.category(sign).startswith("M"):
        return False
    return unicodedata.is_normalized("NFC", sign)


def code_points(text: str) -> CodeArray:
    """Return the characters of a text as numbers; a lone surrogate becomes a question mark."""
    return np.frombuffer(text.encode("utf-32-le", "replace"), dtype=np.uint32)


MAX_MARKS = 64
"""Characters that are composed together; no script writes half as many on one letter."""


def compose(text: str) -> tuple[str, Int32]:
    """Bring a text into NFC; return also the original place of each character and of the end."""
    pieces, origin, start = [], [], 0
    for i in range(1, len(text) + 1):
        if i < len(text) and i - start < MAX_MARKS and _is_part(text, start, i):
            continue
        piece = unicodedata.normalize("NFC", text[start:i])
        pieces.append(piece)
        origin.extend([start] * len(piece))
        start = i
    return "".join(pieces), np.array([*origin, len(text)], dtype=np.int32)


def _is_part(text: str, start: int, place: int) -> bool:
    """Tell whether a character may be composed with those before it, from `start` on.

    Some vowel signs of India are no combining characters by their class, but two make one.
    """
    sign = text[place]
    if unicodedata.combining(sign) or ord(sign) in _JAMO:
        return True
    if not unicodedata.category(sign).startswith("M"):
        return False
    before, with_it = (unicodedata.normalize("NFC", text[start:end]) for end in (place, place + 1))
    return len(with_it) <= len(before)


MAX_CACHED_WORDS = 250_000
"""Words whose ids are remembered, of some hundred bytes each: not those that are longer than names,
for what a page holds besides text (keys, images) is one word of any length."""
MAX_REMEMBERED_LENGTH = 100
"""Characters of a name or word that is remembered."""


@dataclass(frozen=True)
class Located:
    """The mentions of a batch, ordered by document and start."""

    documents: Int32  # (M,) index of the document in the batch
    starts: Int32  # (M,) places in the document
    ends: Int32  # (M,)
    corpus: FlatCorpus


@dataclass(eq=False, repr=False)
class Remembered(dict[str, Value]):
    """What was found out of words, a bounded number of them, and none of endless length."""

    find: Callable[[str], Value]
    most: int = 500_000

    def __missing__(self, word: str) -> Value:
        found = self.find(word)
        if len(self) < self.most and len(word) <= MAX_REMEMBERED_LENGTH:
            self[word] = found
        return found


def content_word(lexicon: Lexicon, word: str) -> int:
    """Return the number of a word, -1 for unknown words and stop words."""
    found = lexicon.words.find(word)
    return UNKNOWN if found >= 0 and lexicon.is_stop_word[found] else found


def flatten_joined(
    joined: JoinedTexts,
    starts: Int64,
    ends: Int64,
    surfaces: Int32,
    table: tuple[str, ...],
    words: Mapping[str, int],
    **names: Any,
) -> Located:
    """Flatten joined texts whose mentions are ordered by start; `names` is known of the table."""
    ids = np.fromiter(map(words.__getitem__, joined.words), np.int32, len(joined.words))
    content = np.flatnonzero(ids >= 0)
    word_starts, word_ends = joined.starts[content], joined.ends[content]
    documents = joined.document_of(starts)
    corpus = FlatCorpus(
        words=ids[content],
        word_offsets=np.searchsorted(word_starts, joined.offsets).astype(np.int64),
        documents=documents,
        # A word that overlaps the mention belongs to neither side of its context.
        before=np.searchsorted(word_ends, starts, side="right").astype(np.int64),
        after=np.searchsorted(word_starts, ends, side="left").astype(np.int64),
        surfaces=surfaces,
        entities=np.full(len(starts), UNKNOWN, dtype=np.int32),
        surface_table=table,
        **names,
    )
    local_starts, local_ends = (joined.local(documents, places) for places in (starts, ends))
    return Located(documents, local_starts, local_ends, corpus)
