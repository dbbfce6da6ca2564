"""Arrays and strings on disk: plain `.npy` files and tries, opened in constant time by mapping.

Nothing here is a pickle. A file that cannot be mapped raises `KnowledgeBaseError`.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, ClassVar

import marisa_trie
import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from stamo.errors import KnowledgeBaseError
from stamo.system.files import Closing, Float32, Int32, Int64

HEADER_BYTES = 128
BLOCK_ROWS = 65_536
MAX_RESTORED = 100_000
"""Strings of a trie that are remembered, of some hundred bytes each."""
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00v\x00\{'descr': '(\|[biu]1|<[iuf][248])', 'fortran_order': False, "
    rb"'shape': \((\d{1,15}),(?: (\d{1,9}))?\), \} *\n"
)
"""What `ArrayWriter` writes, and nothing else."""


class ArrayWriter(Closing):
    """Append rows to a `.npy` file whose length is not known beforehand."""

    def __init__(self, path: Path, dtype: DTypeLike, columns: int | None = None) -> None:
        self.dtype = np.dtype(dtype)
        self.n_rows = 0
        self._columns = columns
        self._file = path.open("wb")
        self._file.write(b"\0" * HEADER_BYTES)

    def append(self, rows: ArrayLike) -> None:
        """Write `rows` behind the rows already there, converted to the array's type."""
        array = np.ascontiguousarray(rows, dtype=self.dtype)
        self.n_rows += len(array)
        self._file.write(array.data)

    def close(self) -> None:
        """Write the header, now that the number of rows is known."""
        shape = (self.n_rows,) if self._columns is None else (self.n_rows, self._columns)
        with self._file:
            self._file.seek(0)
            # A header of fixed size can be written after the rows, when their number is known.
            text = f"{{'descr': {self.dtype.str!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
            body = text.encode("ascii").ljust(HEADER_BYTES - 11) + b"\n"
            self._file.write(b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body)


def save_array(path: Path, array: ArrayLike, dtype: DTypeLike) -> None:
    """Write a whole array at once, with the same header as `ArrayWriter`."""
    values = np.asarray(array, dtype=dtype)
    with ArrayWriter(path, dtype, values.shape[1] if values.ndim == 2 else None) as writer:
        writer.append(values)


def open_array(path: Path) -> NDArray[Any]:
    """Map an array read-only.

    Raises:
        KnowledgeBaseError: The file is missing, cut short or not an array.
    """
    try:
        with path.open("rb") as file:
            found = _HEADER.fullmatch(file.read(HEADER_BYTES))
            if found is None:
                raise ValueError("it is not an array of a knowledge base")
            dtype = np.dtype(found[1].decode())
            shape = tuple(int(n) for n in found.groups()[1:] if n)
            size = HEADER_BYTES + dtype.itemsize * math.prod(shape)
            if os.fstat(file.fileno()).st_size != size:
                raise ValueError("its header does not fit its content")
            mapped = mmap(file.fileno(), 0, access=ACCESS_READ)
    except (OSError, ValueError) as error:
        raise KnowledgeBaseError(
            f"The file {path.name} of the knowledge base {path.parent.name!r} cannot be read "
            f"({error}); build the knowledge base again."
        ) from error
    # A plain array over the mapping: np.memmap looks up single values in Python, and np.load
    # takes ten times as long to open a file.
    return np.ndarray(shape, dtype, buffer=mapped, offset=HEADER_BYTES)


def read_row_blocks(path: Path, rows: int) -> Iterator[NDArray[Any]]:
    """Yield an array of a file a few rows at a time, from the first to the last.

    Unlike those of a mapped array, the pages of what has been read do not stay.
    """
    array = open_array(path)
    row_items, dtype = math.prod(array.shape[1:]), array.dtype
    with path.open("rb") as file:
        file.seek(HEADER_BYTES)
        while len(items := np.fromfile(file, dtype, rows * row_items)):
            yield items.reshape(-1, *array.shape[1:])


def column_of(values: NDArray[Any] | list[str]) -> Any:
    """Return numbers or texts as a column of Arrow.

    `pa.array` imports pandas where it is there: .3 s of a build.
    """
    import pyarrow as pa  # here: who opens a knowledge base needs none

    if isinstance(values, np.ndarray):
        numbers = pa.py_buffer(np.ascontiguousarray(values))
        kind = pa.from_numpy_dtype(values.dtype)
        return pa.Array.from_buffers(kind, len(values), [None, numbers])
    texts = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(texts))]
    return pa.Array.from_buffers(pa.string(), len(texts), buffers)


def expand(starts: NDArray[Any], lengths: Int64) -> Int64:
    """Return start, start + 1, ... for `lengths` steps from each start, joined."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    shift = np.repeat(starts - (ends - lengths), lengths)
    return np.asarray(np.arange(total, dtype=np.int64) + shift, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class VectorTable:
    """Vectors kept as half floats on disk and handed out as single floats.

    Indexing works as with an array: `table[ids]` is float32 of shape (len(ids), Q).
    """

    _stored: NDArray[Any]

    dtype: ClassVar = np.dtype(np.float32)

    @property
    def shape(self) -> tuple[int, int]:
        """The number of vectors and their dimensions (n, Q)."""
        return (int(self._stored.shape[0]), int(self._stored.shape[1]))

    def __len__(self) -> int:
        return len(self._stored)

    def __getitem__(self, index: Any) -> Float32:
        return np.asarray(self._stored[index], dtype=np.float32)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self._stored, dtype=dtype or np.float32)

    def blocks(self, rows: int = BLOCK_ROWS) -> Iterator[tuple[int, Float32]]:
        """Yield the first row and the vectors of one block after the other."""
        for start in range(0, len(self), rows):
            yield start, self[start : start + rows]


@dataclass(frozen=True, slots=True, eq=False)
class StringTable:
    """Numbered strings in a memory-mapped trie, found in both directions.

    The trie numbers its keys as it likes; two small arrays translate to our order, in which the
    most frequent entity is 0.
    """

    _trie: Any
    _id_by_key: NDArray[Any]
    _key_by_id: NDArray[Any]
    _restore: Callable[[int], str]

    @classmethod
    def build(cls, directory: Path, name: str, strings: Iterable[str]) -> None:
        """Write a table in which the i-th string gets the number i; all must differ.

        The strings are asked for twice and never held together, except inside the trie.
        """
        trie = marisa_trie.Trie(strings)
        key_by_id = np.fromiter((trie[text] for text in strings), np.int32)
        if len(trie) != len(key_by_id):
            raise ValueError(f"{len(key_by_id) - len(trie)} of the {name} come twice")
        trie.save(str(directory / f"{name}.trie"))
        id_by_key = np.empty_like(key_by_id)
        id_by_key[key_by_id] = np.arange(len(key_by_id), dtype=np.int32)
        save_array(directory / f"{name}.ids.npy", id_by_key, np.int32)
        save_array(directory / f"{name}.keys.npy", key_by_id, np.int32)

    @classmethod
    def open(cls, directory: Path, name: str) -> StringTable:
        """Map a table.

        Raises:
            KnowledgeBaseError: A file is missing or corrupted.
        """
        trie = marisa_trie.Trie()
        try:
            trie.mmap(str(directory / f"{name}.trie"))
        except (OSError, RuntimeError) as error:
            raise KnowledgeBaseError(
                f"The file {name}.trie of the knowledge base {directory.name!r} cannot be read "
                f"({error}); build the knowledge base again."
            ) from error
        remembered = lru_cache(MAX_RESTORED)(trie.restore_key)
        ids, keys = (open_array(directory / f"{name}.{part}.npy") for part in ("ids", "keys"))
        return cls(trie, ids, keys, remembered)

    def __len__(self) -> int:
        return len(self._key_by_id)

    def find(self, text: str) -> int:
        """Return the number of a string, -1 when it is unknown."""
        try:
            key = self._trie.get(text, -1)
        except UnicodeEncodeError:  # half a character, which no string here has
            return -1
        return -1 if key < 0 else int(self._id_by_key[key])

    def find_many(self, texts: Sequence[str]) -> Int32:
        """Return the number of each string, -1 for unknown ones."""
        get: Callable[[str, int], int] = self._trie.get
        try:
            keys = np.fromiter((get(text, -1) for text in texts), np.int32, len(texts))
        except UnicodeEncodeError:
            return np.fromiter(map(self.find, texts), np.int32, len(texts))
        if not len(self._key_by_id):
            return keys
        ids = np.asarray(self._id_by_key[keys], dtype=np.int32)
        ids[keys < 0] = -1
        return ids

    def text(self, index: int) -> str:
        """Return the string with a number."""
        return str(self._trie.restore_key(int(self._key_by_id[index])))

    def texts(self, indices: ArrayLike) -> list[str]:
        """Return the strings with the given numbers."""
        keys = self._key_by_id[np.asarray(indices, dtype=np.int64)]
        return list(map(self._restore, keys.tolist()))

    def with_prefix(self, prefix: str, limit: int) -> list[str]:
        """Return up to `limit` strings that begin with `prefix`."""
        try:
            return list(islice(self._trie.iterkeys(prefix), limit))
        except UnicodeEncodeError:  # half a character, which no string here has
            return []
