"""The text in which names are searched: signs and white space folded, case variants added.

Names are whole words in any script: the tokenizer decides what a word is, and gives one for each
character where a script writes no spaces.

Tweets and posts write names without capitals, and run together behind # and @. A document with
hardly any capital is searched again with one on every word: "i love new york". In #StarWars and
@BarackObama the words are cut apart where a capital begins; the place of a name stays that of its
letters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from stamo.corpus.tokenizer import WordMarks, capital
from stamo.kb.matching import PLAIN_SIGNS, HashedTokens
from stamo.kb.storage import expand
from stamo.linking.texts import (
    SENTENCE_END,
    SEPARATOR,
    TABLE_SIZE,
    TAG,
    TRANSPARENT,
    WHITE,
    CodeArray,
    JoinedTexts,
    code_points,
)
from stamo.system.files import Bools, Int64

MAX_VARIANT_WORDS = 6
"""Words of a sentence's start in which a name may begin with a capital it does not have."""
MIN_CAPITALS = 4
"""A single word in capitals is tried in title case when it has at least so many letters."""
MAX_CAPITAL_SHARE = 0.02
"""A document is written in small letters when no larger share of its words has a capital."""
LONGEST_INITIALS = 5
"""Letters of a word that may be initials in small letters."""
MAX_SHORT_WORD = 3
"""Words up to this length may be small in a name, as "of" is."""

_PIECE = re.compile(r"[^\W\d_a-z]+(?![a-z])|[^\W\d_]?[^\W\d_A-Z]+|\d+")
_SEPARATOR_CODE = ord(SEPARATOR)
_SPACE, _NEWLINE = ord(" "), ord("\n")
_GEORGIAN_CAPITALS = (0x1C90, 0x1CBF)
"""They write whole headlines; no name begins with one."""
_PLAIN = np.arange(TABLE_SIZE, dtype=np.uint32)
np.put(_PLAIN, list(PLAIN_SIGNS), list(PLAIN_SIGNS.values()))
_FIRST_SIGN = 0x80
"""No sign that is written in another way comes before it."""


@dataclass(frozen=True)
class Haystack:
    """The words and signs of a folded text, and where its characters come from."""

    tokens: HashedTokens
    origin: Int64  # (characters,) place in the joined text
    variant_at: Int64  # (characters,) -1 in the text as it is, else where the variant starts
    is_sentence: Bools  # (characters,) part of a sentence's start with a small letter
    is_small: Bools  # (characters,) part of a text in small letters, with capitals


class _Part(NamedTuple):
    """One way to write the texts, or parts of them."""

    chars: CodeArray
    origin: Int64
    variant_at: Int64
    is_sentence: bool = False
    is_small: bool = False
    begins: Bools | None = None
    """Which characters begin a word, besides those that do in the texts."""


def make_haystack(
    joined: JoinedTexts, letters: Sequence[CodeArray] = (), *, dotted_i: bool = False
) -> Haystack:
    """Prepare texts for the search, with sentence starts and capitals in other case as well.

    Args:
        joined: The texts.
        letters: For each way to write the texts in other letters, the letter for each code point.
        dotted_i: Whether stretches in capitals are also tried with "ı" for "I".
    """
    # Signs folded, and a run of white space to its first character, which alone is kept: a space,
    # or a line's end when the run ends a paragraph.
    codes, white = fold(joined.codes), (joined.kinds & WHITE) > 0
    is_kept = np.ones(len(white), dtype=np.bool_)
    np.logical_and(white[1:], white[:-1], out=is_kept[1:])
    np.logical_not(is_kept[1:], out=is_kept[1:])
    np.putmask(codes, white, np.uint32(_SPACE))
    more = np.flatnonzero(~is_kept)
    begin = more[is_kept[more - 1]] - 1
    end = more[np.append(np.diff(more) > 1, True)[: len(more)]] + 1
    lines = np.flatnonzero(joined.codes == _NEWLINE)
    n_lines = np.searchsorted(lines, end) - np.searchsorted(lines, begin)
    codes[begin[n_lines > 1]] = _NEWLINE
    kept = np.flatnonzero(is_kept)
    parts = [_Part(codes[kept], kept, np.full(len(kept), -1, np.int64))]

    # The first word of each sentence with a small letter.
    longer = np.flatnonzero(joined.is_raised & (joined.ends - joined.starts > 1))
    second = joined.starts[longer] + 1
    capitalised = longer[joined.codes[second] == joined.lowered[second]]  # "The", but not "THE"
    first = capitalised[begins_sentence(joined, capitalised)]
    if len(first):
        starts = joined.starts[first].astype(np.int64)
        last = np.minimum(first + MAX_VARIANT_WORDS, len(joined.starts)) - 1
        ends = np.minimum(joined.ends[last], joined.offsets[joined.word_documents[first] + 1] - 1)
        chars, origin, variant_at = _gather(codes, is_kept, starts, ends)
        at_start = np.flatnonzero((origin == variant_at) & (chars != _SEPARATOR_CODE))
        chars[at_start] = joined.lowered[origin[at_start]]
        parts.append(_Part(chars, origin, variant_at, is_sentence=True))

    parts += _capital_variants(joined, codes, is_kept)
    if dotted_i:
        lowered = np.where(joined.codes == ord("I"), np.uint32(ord("\u0131")), joined.lowered)
        parts += _capital_variants(replace(joined, lowered=lowered), codes, is_kept)
    text = parts[0].chars
    for table in letters:  # all texts in other letters, where that changes any
        written = np.where(text < TABLE_SIZE, table.take(text, mode="clip"), text)
        if (written != text).any():
            parts.append(_Part(written, kept, np.zeros(len(text), np.int64)))

    # Documents in small letters: hardly a word of theirs has a capital that begins no sentence, is
    # no single letter and no tag. Words in capitals count: a text that shouts is none of them.
    behind = joined.kinds.take(joined.starts - 1, mode="clip")
    tags = np.flatnonzero((behind & TAG > 0) & (joined.starts > 0))
    is_capital = joined.is_raised & (joined.ends - joined.starts > 1)
    is_capital[tags] = is_capital[first] = False
    n = len(joined.offsets) - 1
    n_capitals = np.bincount(joined.word_documents[is_capital], minlength=n)
    n_words = np.bincount(joined.word_documents, minlength=n)
    small = np.flatnonzero((n_words > 0) & (n_capitals <= MAX_CAPITAL_SHARE * n_words))
    if len(small) or len(tags):
        parts += _small_variants(joined, codes, is_kept, small, tags)

    chars, origin, variant_at = (
        np.concatenate(column) for column in list(zip(*parts, strict=True))[:3]
    )
    lengths = [len(part.chars) for part in parts]
    # The words of the texts, wherever their characters have gone.
    edges = np.zeros((2, len(joined.codes)), dtype=np.bool_)
    edges[0, joined.starts] = True
    edges[1, joined.ends - 1] = True
    inside = chars != _SEPARATOR_CODE
    begins, stops = edges[0].take(origin) & inside, edges[1].take(origin) & inside
    for part, past in zip(parts, np.cumsum(lengths).tolist(), strict=True):
        if part.begins is not None:  # a word begins there too, and ends two characters earlier
            cuts = past - len(part.chars) + np.flatnonzero(part.begins)
            begins[cuts], begins[cuts - 1], stops[cuts - 2] = True, False, True
    steps = begins.astype(np.int8)
    steps[1:] -= stops[:-1]
    marks = WordMarks(np.cumsum(steps, dtype=np.int8) != 0, begins, stops)
    return Haystack(
        HashedTokens(chars, marks),
        origin,
        variant_at,
        np.repeat([part.is_sentence for part in parts], lengths),
        np.repeat([part.is_small for part in parts], lengths),
    )


def fold(codes: CodeArray) -> CodeArray:
    """Write apostrophes and dashes in one way."""
    folded = codes.copy()
    signs = np.flatnonzero((codes >= _FIRST_SIGN) & (codes < TABLE_SIZE))
    folded[signs] = _PLAIN[codes[signs]]
    return folded


def _gather(
    codes: CodeArray, is_kept: Bools, starts: Int64, ends: Int64
) -> tuple[CodeArray, Int64, Int64]:
    """Cut stretches of the text, each closed by a separator; return chars, origins and starts."""
    lengths = ends - starts + 1
    origin = expand(starts, lengths)
    chars, keep = codes[origin], is_kept[origin]
    closing = np.cumsum(lengths) - 1
    chars[closing] = _SEPARATOR_CODE
    variant_at = np.repeat(starts, lengths)
    if keep.all():
        return chars, origin, variant_at
    return chars[keep], origin[keep], variant_at[keep]


def begins_sentence(joined: JoinedTexts, words: Int64 | None = None) -> Bools:
    """Tell which words, all by default, follow the end of a sentence, a line or nothing at all."""
    starts = joined.starts if words is None else joined.starts[words]
    # The last character before each place that is neither space, quote nor bracket.
    opaque = np.flatnonzero((joined.kinds & TRANSPARENT) == 0)
    place = np.searchsorted(opaque, starts) - 1
    if not len(opaque):
        return np.ones(len(starts), dtype=np.bool_)
    return np.asarray((place < 0) | (joined.kinds[opaque[place]] & SENTENCE_END > 0))


def _capital_variants(joined: JoinedTexts, codes: CodeArray, is_kept: Bools) -> list[_Part]:
    """Write stretches in capitals in title case, also with their short words small."""
    length, is_capital = joined.ends - joined.starts, joined.is_raised.copy()
    words = np.flatnonzero(is_capital & (length > 1))
    changed = np.concatenate([[0], np.cumsum(joined.codes != joined.lowered, dtype=np.int32)])
    n_changed = changed[joined.ends[words]] - changed[joined.starts[words]]
    is_capital[words] = n_changed == length[words]
    breaks, documents = np.ones(len(length) + 1, dtype=np.bool_), joined.word_documents
    breaks[1:-1] = (is_capital[1:] != is_capital[:-1]) | (documents[1:] != documents[:-1])
    edges = np.flatnonzero(breaks)
    first, last = edges[:-1], edges[1:]  # of each stretch; the last word is one past it
    is_run = is_capital[first] if len(first) else np.zeros(0, np.bool_)
    is_run = is_run & ((last - first > 1) | (length[first] >= MIN_CAPITALS))
    first, last = first[is_run], last[is_run]
    if not len(first):
        return []
    starts, ends = joined.starts[first].astype(np.int64), joined.ends[last - 1].astype(np.int64)
    chars, origin, variant_at = _gather(codes, is_kept, starts, ends)
    begins = np.zeros(len(codes), dtype=np.bool_)
    begins[joined.starts] = True
    begins[origin[(chars >= _GEORGIAN_CAPITALS[0]) & (chars <= _GEORGIAN_CAPITALS[1])]] = False
    lowered = np.where(chars == _SEPARATOR_CODE, chars, fold(joined.lowered[origin]))
    title = np.where(begins[origin], chars, lowered)
    short = length <= MAX_SHORT_WORD
    short[first] = False
    begins[joined.starts[short]] = False
    small = np.where(begins[origin], chars, lowered)
    parts = [_Part(title, origin, variant_at)]
    return parts if (title == small).all() else [*parts, _Part(small, origin, variant_at)]


def _small_variants(
    joined: JoinedTexts, codes: CodeArray, is_kept: Bools, documents: Int64, tags: Int64
) -> list[_Part]:
    """Write documents and tags in small letters with a capital on each word, or each longer one.

    Short words also in capitals alone, and tags of several words apart.
    """
    starts = np.concatenate([joined.offsets[documents], joined.starts[tags]])
    ends = np.concatenate([joined.offsets[documents + 1] - 1, joined.ends[tags]])
    chars, origin, variant_at = _gather(codes, is_kept, starts, ends)
    within = np.isin(joined.word_documents, documents)
    within[tags] = True
    begin, length = joined.starts[within].astype(np.int64), (joined.ends - joined.starts)[within]
    initials = (length > 1) & (length <= LONGEST_INITIALS)
    places = begin, begin[length > MAX_SHORT_WORD], expand(begin[initials], length[initials])
    parts: list[_Part] = []
    for some in places:
        is_raised = np.zeros(len(codes), dtype=np.bool_)
        is_raised[some] = True
        at, written = is_raised[origin], chars.copy()
        found = np.flatnonzero(np.bincount(written[at]))  # sorting would take most of the time
        capitals = np.zeros(found.max(initial=0) + 1, dtype=np.uint32)
        capitals[found] = [ord(capital(chr(c))) for c in found.tolist()]
        written[at] = capitals[written[at]]
        parts.append(_Part(written, origin, variant_at, is_small=True))
    edges = joined.starts[tags].tolist(), joined.ends[tags].tolist()
    for start, end in zip(*edges, strict=True):
        pieces = [(m.start(), m.end()) for m in _PIECE.finditer(joined.text, start, end)]
        if len(pieces) < 2 or pieces[0][0] != start:
            continue
        # Written apart, also with short words small; a space takes the place of the letter before.
        words = [joined.text[a:b] for a, b in pieces]
        short = [w.lower() if len(w) <= MAX_SHORT_WORD else w for w in words[1:]]
        spread = [np.append(np.arange(a, b), b - 1) for a, b in pieces]
        place = np.concatenate(spread).astype(np.int64)
        begins = np.zeros(len(place), dtype=np.bool_)
        begins[np.cumsum([len(part) for part in spread])[:-1]] = True
        for text in dict.fromkeys([" ".join(words), " ".join([words[0], *short])]):
            apart = code_points(text + SEPARATOR)
            parts.append(_Part(apart, place, place[:1].repeat(len(place)), begins=begins))
    return parts
