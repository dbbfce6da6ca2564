"""Find near-duplicates in a stream of documents: MinHash over word shingles with a banded index.

Crawls hold one press release a hundred times; labelling or learning from copies teaches nothing.
The Jaccard similarity of two documents' sets of five-word shingles is estimated from 128 minimum
hashes (standard error .035 at a similarity of .8). Documents that agree in one of 16 bands of 8
hashes are compared; at a similarity of .8 a pair is found with probability .95, at .9 with .9999.

The result depends on the documents and their order only: no randomness but a fixed seed.
"""

from __future__ import annotations

import zlib
from functools import cache

import numpy as np
from numpy.typing import NDArray

from stamo.corpus.tokenizer import tokenize
from stamo.corpus.types import Document

THRESHOLD = 0.8
"""Two documents with at least this estimated similarity are near-duplicates."""
SHINGLE_WORDS = 5
N_BANDS = 16
N_ROWS = 8
N_HASHES = N_BANDS * N_ROWS

_SEED = 20_220_707
_NONE = -1
_CHUNK = 4096

UInt32 = NDArray[np.uint32]


class NearDuplicates:
    """An index of the documents seen so far that are no near-duplicate of an earlier one."""

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._signatures = np.empty((64, N_HASHES), np.uint32)
        # Documents with the same band form a chain: the last one, and for each the one before.
        self._last: list[dict[bytes, int]] = [{} for _ in range(N_BANDS)]
        self._before = np.full((64, N_BANDS), _NONE, np.int32)

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, document: Document, signature: UInt32 | None = None) -> str | None:
        """Return the id of the earliest near-duplicate; without one, keep the document.

        A near-duplicate is not kept itself, so chains of small changes do not grow without end.

        Args:
            document: The document.
            signature: The `minhash` of its text, where that is known already.
        """
        if signature is None:
            signature = minhash(document.text)
        bands = [band.tobytes() for band in signature.reshape(N_BANDS, N_ROWS)]
        kept: set[int] = set()  # the documents that share a band
        for column, band in enumerate(bands):
            index = self._last[column].get(band, _NONE)
            while index != _NONE:
                kept.add(index)
                index = int(self._before[index, column])
        candidates = np.array(sorted(kept), dtype=np.int64)
        if candidates.size:
            similarity = (self._signatures[candidates] == signature).mean(axis=1)
            found = candidates[similarity >= THRESHOLD]
            if found.size:
                return self._ids[int(found[0])]
        index = len(self._ids)
        if index == len(self._signatures):
            self._signatures = np.concatenate([self._signatures, self._signatures])
            self._before = np.concatenate([self._before, np.full_like(self._before, _NONE)])
        self._ids.append(document.id)
        self._signatures[index] = signature
        for column, band in enumerate(bands):
            self._before[index, column] = self._last[column].get(band, _NONE)
            self._last[column][band] = index
        return None


def minhash(text: str) -> UInt32:
    """Return the smallest value of each hash function over a text's shingles, shape (128,).

    A text without words has one empty shingle.
    """
    factors, summands = _hash_family()
    shingles = shingle_hashes(text)
    smallest = np.full(N_HASHES, np.iinfo(np.uint32).max, np.uint32)
    for begin in range(0, len(shingles), _CHUNK):
        chunk = shingles[begin : begin + _CHUNK]
        # One row per hash function, so that the minimum runs over contiguous memory.
        values = factors[:, None] * chunk + summands[:, None]  # (128, n), modulo 2^32
        np.minimum(smallest, values.min(axis=1), out=smallest)
    return smallest


def shingle_hashes(text: str) -> UInt32:
    """Hash each distinct run of five words; a shorter text is one shingle; shape (n,)."""
    words, _, _ = tokenize(text)
    codes = np.fromiter(map(zlib.crc32, map(str.encode, words)), dtype=np.uint64, count=len(words))
    width = min(SHINGLE_WORDS, len(words))
    n = len(words) - width + 1
    mixed = np.zeros(n, np.uint64)
    for offset in range(width):
        mixed = (mixed ^ codes[offset : offset + n]) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)
    return np.unique(mixed.astype(np.uint32))


@cache
def _hash_family() -> tuple[UInt32, UInt32]:
    """Return factors (odd) and summands of the hash functions, shape (128,) each."""
    rng = np.random.default_rng(_SEED)
    factors = rng.integers(0, 1 << 32, N_HASHES, np.uint32) | np.uint32(1)
    return factors, rng.integers(0, 1 << 32, N_HASHES, np.uint32)
