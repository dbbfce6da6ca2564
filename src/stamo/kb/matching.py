"""Find any of many names in running text, as whole words.

Names are kept as hashes of all their beginnings (word by word), sorted in one array that is mapped
from disk. A text is matched in bulk: all places are tried with one word, those that begin a name
with two, and so on. This needs no automaton, whose construction takes more memory than the rest of
a build, and measured twice as fast as one.

A name with typographic signs ("Austria–Hungary") has a second entry in plain ones, which is found
in texts that were folded, and only there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stamo.corpus.tokenizer import WordMarks, mark_words
from stamo.kb.storage import open_array, save_array
from stamo.system.files import Bools, Int32, Int64, UInt64

Codes = NDArray[np.uint32]

NO_NAME = -1
_FOLDED_NAME = -2
"""The name with number n in plain signs has the value `_FOLDED_NAME` - n."""
NAMES_PER_BATCH = 1 << 14
PLAIN_SIGNS = str.maketrans("\u2018\u2019\u2010\u2011\u2012\u2013\u2014\u2212", "''------")
"""Apostrophes and dashes, each to the one that a keyboard has."""
_LEAST_POWERS = (1 << 18) - 1
"""Texts of all usual lengths share one table: a table for each would be made again and again."""
_LARGEST = (1 << 64) - 1
_BASE = 0x9E3779B97F4A7C15
_INVERSE = pow(_BASE, -1, 1 << 64)


@dataclass(frozen=True, slots=True)
class Occurrences:
    """Where names occur in a text."""

    starts: Int32
    ends: Int32
    names: Int32
    """The number of each name, as given when the matcher was built."""

    def __len__(self) -> int:
        return len(self.names)


class Wanted(Protocol):
    """Which names are looked for; an array of truth values is one."""

    def __getitem__(self, names: Int32, /) -> Bools:
        """Tell of each of these names whether it is wanted."""


@dataclass(frozen=True, eq=False)
class NameMatcher:
    """A set of names to find in texts; upper and lower case matter."""

    _hashes: UInt64
    """The hash of every beginning of a name, ascending, with the largest number behind."""
    _names: Int32
    """The number of the name that a beginning is, or `NO_NAME`."""
    _buckets: Int32
    """For every value of the first bits of a hash, where its hashes begin."""

    @classmethod
    def build(cls, names: Sequence[str], numbers: Int32 | None = None) -> NameMatcher:
        """Prepare distinct names without line breaks; `numbers` default to their places."""
        if numbers is None:
            numbers = np.arange(len(names), dtype=np.int32)
        firsts = range(0, len(names), NAMES_PER_BATCH)
        places = (slice(first, first + NAMES_PER_BATCH) for first in firsts)
        return cls.build_from((names[place], numbers[place]) for place in places)

    @classmethod
    def build_from(cls, batches: Iterable[tuple[Sequence[str], Int32]]) -> NameMatcher:
        """Prepare distinct names that come in batches with their numbers."""
        # One behind the beginnings of all names is larger than any other.
        parts = [(np.array([_LARGEST], np.uint64), np.array([NO_NAME], np.int32))]
        for names, numbers in batches:
            plain = [name if name.isascii() else name.translate(PLAIN_SIGNS) for name in names]
            differ = [i for i in range(len(names)) if plain[i] != names[i]]
            values = np.int32(_FOLDED_NAME) - numbers[differ]
            parts.append(_beginnings(names, numbers))
            parts.append(_beginnings([plain[i] for i in differ], values))
        hashes, values = map(np.concatenate, zip(*parts, strict=True))
        order = np.lexsort((-values, hashes))
        hashes, values = hashes[order], values[order]
        first = np.flatnonzero(np.append(True, hashes[1:] != hashes[:-1]))
        last = np.append(first[1:], len(hashes)) - 1
        # Equal beginnings need one entry if none of them is a name, else one for each that is.
        kept = values != NO_NAME
        kept[first] |= (values[first] == NO_NAME) & (values[last] == NO_NAME)
        hashes, values = hashes[kept], values[kept]
        n_bits = max(len(hashes).bit_length(), 1)
        n_in_bucket = np.bincount((hashes >> np.uint64(64 - n_bits)).astype(np.int64))
        buckets = np.zeros(1 << n_bits, dtype=np.int32)
        np.cumsum(n_in_bucket[:-1], out=buckets[1:])
        return cls(hashes, values, buckets)

    def save(self, directory: Path, name: str) -> None:
        """Write the matcher into a directory."""
        save_array(directory / f"{name}.hashes.npy", self._hashes, np.uint64)
        save_array(directory / f"{name}.names.npy", self._names, np.int32)
        save_array(directory / f"{name}.buckets.npy", self._buckets, np.int32)

    @classmethod
    def open(cls, directory: Path, name: str) -> NameMatcher:
        """Map a matcher that `save` wrote."""
        parts = ("hashes", "names", "buckets")
        return cls(*(open_array(directory / f"{name}.{part}.npy") for part in parts))

    def find(self, text: str, wanted: Wanted | None = None) -> Occurrences:
        """Find names as they are written: the longest first, from left to right, none in another.

        A name with a line break inside is not found.
        """
        tokens = HashedTokens.of(text)
        names = np.full(len(tokens), NO_NAME, dtype=np.int32)
        lengths = np.zeros(len(tokens), dtype=np.int64)
        for n_tokens, first, place in self._walk(tokens):
            found = self._names.take(place)
            is_name = found >= 0
            if wanted is not None:
                is_name &= wanted[found]
            named = first[is_name]
            names[named] = found[is_name]
            lengths[named] = n_tokens
        chosen = _choose(names, lengths)
        last = chosen + lengths[chosen] - 1
        return Occurrences(tokens.starts[chosen], tokens.ends[last], names[chosen])

    def find_all(self, tokens: HashedTokens, wanted: Wanted) -> Occurrences:
        """Find all names in a text of plain signs, also where they overlap, the shortest first."""
        rows = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32))]
        for n_tokens, first, place in self._walk(tokens):
            is_name = np.flatnonzero(self._names.take(place) != NO_NAME)
            first, place = first[is_name], place[is_name]
            names, row = self._names.take(place), np.arange(len(place))
            # Several names may be the same in plain signs; they stand behind one another.
            hashes, twins, of = self._hashes.take(place), place, row
            while len(of):
                twins = twins + 1
                is_same = np.flatnonzero(self._hashes.take(twins) == hashes[of])
                twins, of = twins[is_same], of[is_same]
                row = np.concatenate([row, of])
                names = np.concatenate([names, self._names.take(twins)])
            names = np.where(names < 0, np.int32(_FOLDED_NAME) - names, names)
            if len(row) > len(place):
                order = np.lexsort((names, row))
                names, row = names[order], row[order]
            kept = np.flatnonzero(wanted[names])
            begin = first[row[kept]]
            rows.append((begin, begin + (n_tokens - 1), names[kept]))
        begins, ends, found = map(np.concatenate, zip(*rows, strict=True))
        return Occurrences(tokens.starts[begins], tokens.ends[ends], found)

    def _walk(self, tokens: HashedTokens) -> Iterator[tuple[int, Int64, Int32]]:
        """Yield for 1, 2, ... tokens where that many begin a name, and where in the table.

        Hashes are spread evenly, so the bucket is at most a few steps away from the first hash
        that is not below a wanted one; this is three times faster than a binary search.
        """
        n = len(tokens.starts)
        shift = np.uint64(65 - len(self._buckets).bit_length())
        active, starts, ends = np.arange(n), tokens.starts, tokens.ends
        for n_tokens in count(1):
            wanted = tokens.hash(starts, ends)
            place = self._buckets.take((wanted >> shift).view(np.int64))
            there = self._hashes.take(place)
            below = np.flatnonzero(there < wanted)
            while len(below):
                step = place[below] + 1
                place[below] = step
                reached = self._hashes.take(step)
                there[below] = reached
                below = below[reached < wanted[below]]
            begins = np.flatnonzero(there == wanted)
            if not len(begins):
                return
            active, place = active[begins], place[begins]
            yield n_tokens, active, place
            if active[-1] + n_tokens == n:  # ascending, so only the last one ends
                active = active[:-1]
            starts, ends = tokens.starts.take(active), tokens.ends.take(active + n_tokens)


def _choose(names: Int32, lengths: Int64) -> Int64:
    """Take names from left to right, none that overlaps one already taken."""
    chosen = _first_of_overlapping(np.flatnonzero(lengths > 1), lengths)
    # Names of one word conflict with longer ones only, so they need no loop.
    steps = np.zeros(len(names) + 1, dtype=np.int32)
    steps[chosen] += 1
    steps[chosen + lengths[chosen]] -= 1
    is_free = np.cumsum(steps[:-1]) == 0
    is_taken = (lengths == 1) & is_free
    is_taken[chosen] = True
    return np.flatnonzero(is_taken)


def _first_of_overlapping(long: Int64, lengths: Int64) -> Int64:
    """Take names of several words from left to right; only those that meet others need a loop."""
    ends = long + lengths[long]
    is_free = np.ones(len(long) + 1, dtype=np.bool_)
    is_free[1:-1] = long[1:] >= np.maximum.accumulate(ends)[:-1]
    meets = np.flatnonzero(~(is_free[:-1] & is_free[1:]))
    kept = is_free[:-1].copy()
    free = 0
    bounds = long[meets].tolist(), ends[meets].tolist()
    for number, start, end in zip(meets.tolist(), *bounds, strict=True):
        if start >= free:
            kept[number] = True
            free = end
    return long[kept]


class HashedTokens:
    """The words and other signs of a text, and the hash of any stretch of them.

    Spaces are no tokens but belong to the stretch, so "New York" and "New, York" differ.

    Args:
        codes: The characters of the text as numbers, shape (n,).
        words: Which of them belong to words, and where words begin and end.
    """

    def __init__(self, codes: Codes, words: WordMarks) -> None:
        # Words and single signs are tokens; they never overlap.
        signs = ~words.is_inside
        signs &= codes != 0x20
        self.starts = np.flatnonzero(words.begins | signs).astype(np.int32)
        self.ends = np.flatnonzero(words.ends | signs).astype(np.int32) + np.int32(1)
        powers, self._inverses = _powers(1 << max(len(codes) - 1, _LEAST_POWERS).bit_length())
        self._sums = np.zeros(len(codes) + 1, dtype=np.uint64)
        terms = _FREQUENT.take(codes, mode="clip")
        rare = np.flatnonzero(codes >= len(_FREQUENT))
        terms[rare] = _scramble(codes[rare].astype(np.uint64))
        terms *= powers[: len(codes)]
        np.cumsum(terms, out=self._sums[1:])

    @classmethod
    def of(cls, text: str) -> HashedTokens:
        """Take a text as it is written, but for spaces that do not break a line."""
        text = text.replace("\xa0", " ")
        codes = np.frombuffer(text.encode("utf-32-le", "replace"), dtype="<u4")
        return cls(codes, mark_words(codes))

    def __len__(self) -> int:
        return len(self.starts)

    def hash(self, begin: Int32, end: Int32) -> UInt64:
        """Return the hash of the text between places where tokens begin and end."""
        begin_at = begin.astype(np.intp)  # once, for it is looked up twice
        # Dividing by the power of its place makes the hash the same wherever the text stands.
        hashes = self._sums.take(end)
        hashes -= self._sums.take(begin_at)
        hashes *= self._inverses.take(begin_at)
        return _scramble(hashes)


def _beginnings(names: Sequence[str], numbers: Int32) -> tuple[UInt64, Int32]:
    """Return the hash of every beginning of each name, with its number where it is the whole."""
    tokens = HashedTokens.of("\n".join(names))
    edges = np.cumsum([0, *(len(name) + 1 for name in names)])
    name = np.searchsorted(edges, tokens.starts, side="right") - 1
    is_inside = tokens.ends < edges[name + 1]  # leaves out the line breaks between names
    place, name = np.flatnonzero(is_inside), name[is_inside]
    first = place[np.searchsorted(name, name)]
    is_whole = tokens.ends[place] == edges[name + 1] - 1
    values = np.where(is_whole, numbers[name], NO_NAME).astype(np.int32)
    return tokens.hash(tokens.starts[first], tokens.ends[place]), values


@lru_cache(maxsize=2)
def _powers(n: int) -> tuple[UInt64, UInt64]:
    """Return the first n powers of an odd number and of its inverse, modulo 2 to the 64."""
    bases = np.full((2, n), [[_BASE], [_INVERSE]], dtype=np.uint64)
    bases[:, :1] = 1
    powers, inverses = np.multiply.accumulate(bases, axis=1)
    return powers, inverses


def _scramble(numbers: UInt64) -> UInt64:
    """Spread numbers evenly over 64 bits."""
    mixed = (numbers + np.uint64(1)) * np.uint64(0xBF58476D1CE4E5B9)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))


_FREQUENT = _scramble(np.arange(0x800, dtype=np.uint64))
"""The code points of frequent scripts, scrambled: a table that fits the cache."""
