"""The text in which names are searched: signs and white space folded, case variants added.

Names are whole words in any script: the tokenizer decides what a word is, and gives one for each
character where a script writes no spaces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stamo.kb.matching import PLAIN_SIGNS, HashedTokens
from stamo.kb.storage import expand
from stamo.linking.informal import (
    MAX_SHORT_WORD,
    cut_tags,
    raise_initials,
    raise_words,
    small_documents,
    tagged_words,
)
from stamo.linking.texts import SEPARATOR, CodeArray, JoinedTexts, code_points
from stamo.system.arrays import Bools, Int64

MAX_VARIANT_WORDS = 6
"""Words of a sentence's start in which a name may begin with a capital it does not have."""
MIN_CAPITALS = 4
"""A single word in capitals is tried in title case when it has at least so many letters."""

_SEPARATOR_CODE = ord(SEPARATOR)
_SPACE, _NEWLINE = ord(" "), ord("\n")
_WHITE, _SENTENCE_END, _TRANSPARENT = 1, 2, 4
_SIGNS = {
    _WHITE: "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000"
    + "".join(map(chr, range(0x2000, 0x200B))),
    _SENTENCE_END: ".!?…。！？؟।:\n" + SEPARATOR,
    _TRANSPARENT: "\"'“”‘’«»„()[]*•-– \t\r",
}
_TABLE_SIZE = 0x10000


@dataclass(frozen=True)
class Haystack:
    """The words and signs of a folded text, and where its characters come from."""

    tokens: HashedTokens
    origin: Int64  # (characters,) place in the joined text
    variant_at: Int64  # (characters,) -1 in the text as it is, else where the variant starts
    is_sentence: Bools  # (characters,) part of a sentence's start with a small letter
    is_small: Bools  # (characters,) part of a text in small letters, with capitals


def make_haystack(joined: JoinedTexts, letters: Sequence[CodeArray] = ()) -> Haystack:
    """Prepare texts for the search, with sentence starts and capitals in other case as well.

    Args:
        joined: The texts.
        letters: For each way to write the texts in other letters, the letter for each code point.
    """
    white = _is_kind(joined.codes, _WHITE)
    kept = np.flatnonzero(_keep_white(white))
    codes = _fold_white(joined.codes, white, kept)
    parts = [_Part(codes[kept], kept, np.full(len(kept), -1, np.int64))]
    is_capitalised, begins = _is_capitalised(joined), begins_sentence(joined)
    parts += _sentence_variants(joined, codes, np.flatnonzero(is_capitalised & begins))
    parts += _capital_variants(joined, codes)
    parts += _letter_variants(codes[kept], kept, letters)
    small, tags = small_documents(joined, is_capitalised & begins), tagged_words(joined)
    parts += _small_variants(joined, codes, small, tags) + _tag_variants(joined, tags)
    chars = np.concatenate([part.chars for part in parts])
    origin = np.concatenate([part.origin for part in parts])
    return Haystack(
        _tokens(joined, chars, origin, _cuts(parts)),
        origin,
        np.concatenate([part.variant_at for part in parts]),
        np.repeat([part.is_sentence for part in parts], [len(part.origin) for part in parts]),
        np.repeat([part.is_small for part in parts], [len(part.origin) for part in parts]),
    )


class _Part(NamedTuple):
    """One way to write the texts, or parts of them."""

    chars: CodeArray
    origin: Int64
    variant_at: Int64
    is_sentence: bool = False
    is_small: bool = False
    begins: Bools | None = None
    """Which characters begin a word, besides those that do in the texts."""


def _cuts(parts: Sequence[_Part]) -> Int64:
    """Return the characters, counted through all parts, that begin a word only there."""
    edges = np.cumsum([0, *(len(part.chars) for part in parts)]).tolist()
    found = [
        np.flatnonzero(part.begins) + edge
        for part, edge in zip(parts, edges, strict=False)
        if part.begins is not None
    ]
    return np.concatenate([np.zeros(0, np.int64), *found])


@cache
def _kinds() -> NDArray[np.uint8]:
    table = np.zeros(_TABLE_SIZE, dtype=np.uint8)
    for kind, signs in _SIGNS.items():
        table[[ord(sign) for sign in signs]] |= kind
    return table


@cache
def _plain_signs() -> CodeArray:
    table = np.arange(_TABLE_SIZE, dtype=np.uint32)
    table[list(PLAIN_SIGNS)] = list(PLAIN_SIGNS.values())
    return table


def _is_kind(codes: CodeArray, kind: int) -> Bools:
    # The last code of the table is no character, so it stands for all beyond the table.
    return (_kinds()[np.minimum(codes, _TABLE_SIZE - 1)] & kind) > 0


def fold(codes: CodeArray) -> CodeArray:
    """Write apostrophes and dashes in one way."""
    plain = _plain_signs()[np.minimum(codes, _TABLE_SIZE - 1)]
    return np.where(codes < _TABLE_SIZE, plain, codes)


def _keep_white(white: Bools) -> Bools:
    """Keep the first character of each run of white space."""
    keep = np.ones(len(white), dtype=np.bool_)
    keep[1:] = ~(white[1:] & white[:-1])
    return keep


def _fold_white(original: CodeArray, white: Bools, kept: Int64) -> CodeArray:
    """Write a run of white space as a space, or as a line's end when it ends a paragraph."""
    lines = np.concatenate([[0], np.cumsum(original == _NEWLINE)])
    ends = np.append(kept[1:], len(original))
    runs = white[kept]
    n_lines = lines[ends] - lines[kept]
    folded = fold(original)
    folded[kept[runs]] = np.where(n_lines[runs] > 1, _NEWLINE, _SPACE)
    return folded


def _tokens(joined: JoinedTexts, chars: CodeArray, origin: Int64, cuts: Int64) -> HashedTokens:
    """Find the words of the joined texts among characters that come from there.

    Those at `cuts` begin a word too; the one before ends two characters earlier.
    """
    begins = np.zeros(len(joined.codes), dtype=np.bool_)
    ends = np.zeros(len(joined.codes), dtype=np.bool_)
    begins[joined.starts] = True
    ends[joined.ends - 1] = True
    inside = chars != _SEPARATOR_CODE
    starts, stops = begins[origin] & inside, ends[origin] & inside
    if len(cuts):
        starts[cuts], starts[cuts - 1], stops[cuts - 2] = True, False, True
    return HashedTokens(chars, np.flatnonzero(starts), np.flatnonzero(stops) + 1)


def _gather(codes: CodeArray, starts: Int64, ends: Int64) -> tuple[CodeArray, Int64, Int64]:
    """Cut stretches of the text, each closed by a separator; return chars, origins and starts."""
    lengths = ends - starts + 1
    origin = expand(starts, lengths)
    variant_at = np.repeat(starts, lengths)
    chars = codes[np.minimum(origin, len(codes) - 1)]
    closing = np.cumsum(lengths) - 1
    chars[closing] = _SEPARATOR_CODE
    origin = np.minimum(origin, len(codes) - 1)
    keep = _keep_white(_is_kind(chars, _WHITE))
    return chars[keep], origin[keep], variant_at[keep]


def _letter_variants(codes: CodeArray, kept: Int64, letters: Sequence[CodeArray]) -> list[_Part]:
    """Write all texts in other letters, where that changes any."""
    parts: list[_Part] = []
    for table in letters:
        written = np.where(codes < _TABLE_SIZE, table[np.minimum(codes, _TABLE_SIZE - 1)], codes)
        if (written != codes).any():
            parts.append(_Part(written, kept, np.zeros(len(kept), np.int64)))
    return parts


def _sentence_variants(joined: JoinedTexts, codes: CodeArray, first: Int64) -> list[_Part]:
    """Write the first word of each sentence with a small letter."""
    if not len(first):
        return []
    starts = joined.starts[first].astype(np.int64)
    documents = joined.document_of(starts)
    last = np.minimum(first + MAX_VARIANT_WORDS, len(joined.starts)) - 1
    ends = np.minimum(joined.ends[last].astype(np.int64), joined.offsets[documents + 1] - 1)
    chars, origin, variant_at = _gather(codes, starts, ends)
    at_start = (origin == variant_at) & (chars != _SEPARATOR_CODE)
    chars[at_start] = joined.lowered[origin[at_start]]
    return [_Part(chars, origin, variant_at, is_sentence=True)]


def _is_capitalised(joined: JoinedTexts) -> Bools:
    """Tell which words start with a capital and go on with a small letter."""
    changed = joined.codes != joined.lowered
    second = np.minimum(joined.starts + 1, joined.ends - 1)
    longer = joined.ends - joined.starts > 1
    return np.asarray(changed[joined.starts] & longer & ~changed[second])


def begins_sentence(joined: JoinedTexts) -> Bools:
    """Tell which words follow the end of a sentence, a line or nothing at all."""
    opaque = ~_is_kind(joined.codes, _TRANSPARENT)
    # The last character before each place that is neither space, quote nor bracket.
    index = np.where(opaque, np.arange(len(opaque)), -1)
    last = np.concatenate([[-1], np.maximum.accumulate(index)[:-1]])[joined.starts]
    before = np.where(last >= 0, joined.codes[np.maximum(last, 0)], _SEPARATOR_CODE)
    return _is_kind(before.astype(np.uint32), _SENTENCE_END)


def _capital_variants(joined: JoinedTexts, codes: CodeArray) -> list[_Part]:
    """Write stretches in capitals in title case, also with their short words small."""
    first, last = _capital_runs(joined)
    if not len(first):
        return []
    starts, ends = joined.starts[first].astype(np.int64), joined.ends[last - 1].astype(np.int64)
    begins = np.zeros(len(codes), dtype=np.bool_)
    begins[joined.starts] = True
    title = np.where(begins, codes, fold(joined.lowered))
    short = joined.ends - joined.starts <= MAX_SHORT_WORD
    short[first] = False
    begins[joined.starts[short]] = False
    small = np.where(begins, codes, fold(joined.lowered))
    parts = [_Part(*_gather(title, starts, ends))]
    if (title != small).any():
        parts.append(_Part(*_gather(small, starts, ends)))
    return parts


def _small_variants(
    joined: JoinedTexts, codes: CodeArray, documents: Int64, tags: Int64
) -> list[_Part]:
    """Write documents and tags in small letters with a capital on each word, or each longer one.

    Short words also in capitals alone.
    """
    if not len(documents) and not len(tags):
        return []
    starts = np.concatenate([joined.offsets[documents], joined.starts[tags]])
    ends = np.concatenate([joined.offsets[documents + 1] - 1, joined.ends[tags]])
    within = np.isin(joined.document_of(joined.starts), documents)
    within[tags] = True
    words = np.flatnonzero(within)
    longer = words[joined.ends[words] - joined.starts[words] > MAX_SHORT_WORD]
    raised = [raise_words(joined, codes, some) for some in (words, longer)]
    return [
        _Part(*_gather(written, starts, ends), is_small=True)
        for written in (*raised, raise_initials(joined, codes, words))
    ]


def _tag_variants(joined: JoinedTexts, tags: Int64) -> list[_Part]:
    """Write tags of several words apart."""
    return [
        _Part(code_points(text), origin, origin[:1].repeat(len(origin)), begins=begins)
        for text, origin, begins in cut_tags(joined, tags)
    ]


def _capital_runs(joined: JoinedTexts) -> tuple[Int64, Int64]:
    """Return first and one past the last word of each stretch written in capitals."""
    changed = np.concatenate([[0], np.cumsum(joined.codes != joined.lowered)])
    length = (joined.ends - joined.starts).astype(np.int64)
    capital = (changed[joined.ends] - changed[joined.starts] == length) & (length > 0)
    documents = joined.document_of(joined.starts) if len(length) else np.zeros(0, np.int32)
    breaks = np.ones(len(length) + 1, dtype=np.bool_)
    breaks[1:-1] = (capital[1:] != capital[:-1]) | (documents[1:] != documents[:-1])
    edges = np.flatnonzero(breaks)
    first, last = edges[:-1], edges[1:]
    is_run = capital[first] if len(first) else np.zeros(0, np.bool_)
    long = (last - first > 1) | (length[first] >= MIN_CAPITALS)
    return first[is_run & long], last[is_run & long]
