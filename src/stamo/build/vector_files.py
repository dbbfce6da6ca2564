"""Import word vectors: GloVe text, word2vec binary, fastText text and NumPy archives.

Files come from elsewhere, so nothing in them is trusted: sizes are checked before memory is taken,
archives never run code, and single bad entries are counted and left out. Memory stays below twice
`MAX_VECTOR_BYTES` for the vectors, plus the words themselves.
"""

from __future__ import annotations

import io
import itertools
import logging
import zipfile
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from stamo.errors import VectorsError
from stamo.system.files import Float32
from stamo.system.streams import ByteStream

Block = tuple[list[str], Float32]

logger = logging.getLogger(__name__)

MAX_VECTOR_BYTES = 8 << 30
"""Vectors that would need more memory than this are refused."""

_MAX_DIMENSIONS = 4096
_MAX_LINE = 1 << 17
_MAX_WORD = 1024
_MAX_EXPANSION = 200
_BLOCK_ROWS = 1 << 14
_READ_BYTES = 1 << 20


@dataclass(frozen=True)
class WordVectors:
    """Words and their vectors, in the order of the file (usually the most frequent first)."""

    words: list[str]
    """Distinct words; n of them."""
    vectors: Float32
    """One finite row for each word, shape (n, Q)."""
    skipped: Counter[str] = field(default_factory=Counter)
    """How many entries of the file were left out, by reason."""


def prepare(vectors: Float32) -> Float32:
    """Remove the mean and scale every row to unit norm.

    Word vectors share a large common part; without it cosine similarities tell words apart far
    better. Rows equal to the mean become zeros.

    Args:
        vectors: Word vectors, shape (n, Q).

    Returns:
        New vectors, shape (n, Q).
    """
    mean = vectors.sum(axis=0, dtype=np.float64) / max(len(vectors), 1)
    result = np.empty(vectors.shape, dtype=np.float32)
    for i in range(0, len(vectors), _BLOCK_ROWS):
        rows = vectors[i : i + _BLOCK_ROWS] - mean
        norms = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
        norms[norms < 1e-9] = np.inf
        result[i : i + _BLOCK_ROWS] = rows / norms
    return result


def load_vectors(path: Path) -> WordVectors:
    """Read word vectors in whichever supported format the file has.

    The name tells the format: `.npz` holds arrays `words` and `vectors`, `.bin` is word2vec's
    binary form, anything else is text with a word and its numbers on each line, with or without a
    first line of counts. Text and `.bin` may be packed (gzip, bzip2, xz, zstd).

    Raises:
        VectorsError: The file is missing, of another format, too large, or without usable vectors.
    """
    skipped: Counter[str] = Counter()
    try:
        if path.suffix == ".npz":
            return _collect(path, _npz_blocks(path), skipped)
        with path.open("rb") as file:
            stream = io.BufferedReader(_Unpacked(file))
            if ".bin" in path.suffixes[-2:]:
                return _collect(path, _binary_blocks(path, stream, skipped), skipped)
            return _collect(path, _text_blocks(stream, skipped), skipped)
    except (OSError, EOFError, zipfile.BadZipFile) as error:
        raise VectorsError(f"{path} cannot be read as word vectors: {error}.") from error


class _Unpacked(io.RawIOBase):
    """The decompressed bytes of an open file; damage is an `EOFError`."""

    def __init__(self, file: IO[bytes]) -> None:
        self._stream = ByteStream(file)
        self._blocks = iter(self._stream)
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """Tell that this can be read."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Fill a buffer as far as the next block goes."""
        if not self._rest:
            self._rest = memoryview(next(self._blocks, b""))
            if not self._rest and self._stream.fault:
                raise EOFError(self._stream.fault)
        n = min(len(buffer), len(self._rest))
        buffer[:n], self._rest = self._rest[:n], self._rest[n:]
        return n


def _collect(path: Path, blocks: Iterable[Block], skipped: Counter[str]) -> WordVectors:
    row_by_word: dict[str, int] = {}
    kept: list[Float32] = []
    for words, vectors in blocks:
        finite: list[bool] = np.asarray(np.isfinite(vectors).all(axis=1)).tolist()
        rows = []
        for row, (word, is_finite) in enumerate(zip(words, finite, strict=True)):
            reason = _why_not(word, is_finite, row_by_word)
            if reason:
                skipped[reason] += 1
            else:
                row_by_word[word] = len(row_by_word)
                rows.append(row)
        kept.append(vectors[rows].astype(np.float32))
        if len(row_by_word) * vectors.shape[1] * 4 > MAX_VECTOR_BYTES:
            raise VectorsError(
                f"{path} holds more than {MAX_VECTOR_BYTES >> 30} GB of vectors; use a "
                "smaller file."
            )
    if not row_by_word:
        reasons = ", ".join(f"{n} x {reason}" for reason, n in skipped.items())
        detail = f" ({reasons})" if reasons else ""
        raise VectorsError(
            f"{path} holds no usable word vector{detail}; expected GloVe or fastText text, a "
            "word2vec .bin, or an .npz with 'words' and 'vectors'."
        )
    if skipped:
        logger.warning("%s: left out %s.", path, dict(skipped))
    return WordVectors(list(row_by_word), np.concatenate(kept), skipped)


def _why_not(word: str, is_finite: bool, known: dict[str, int]) -> str:
    if not word or len(word) > _MAX_WORD:
        return "empty or overlong word"
    if word in known:
        return "word given twice"
    return "" if is_finite else "value not finite"


def _text_blocks(stream: IO[bytes], skipped: Counter[str]) -> Iterator[Block]:
    lines = _lines(stream, skipped)
    head = list(itertools.islice(lines, 100))
    # The first line may be a header or damaged; most lines agree on the dimensions.
    sizes = Counter(len(line.split()) - 1 for line in head)
    dimensions = sizes.most_common(1)[0][0] if sizes else 0
    if not 2 <= dimensions <= _MAX_DIMENSIONS:
        skipped["line without a word and its numbers"] += len(head)
        return
    if len(head[0].split()) == 2:
        head = head[1:]
    words: list[str] = []
    values = array("f")
    for line in itertools.chain(head, lines):
        fields = line.split()
        try:
            word = fields[0].decode("utf-8") if fields else ""
            if len(fields) != dimensions + 1:
                raise ValueError(line)
            row = array("f", map(float, fields[1:]))
        except ValueError:
            skipped["line without a word and its numbers"] += 1
            continue
        words.append(word)
        values.extend(row)
        if len(words) == _BLOCK_ROWS:
            yield words, np.array(values, dtype=np.float32).reshape(-1, dimensions)
            words, values = [], array("f")
    yield words, np.array(values, dtype=np.float32).reshape(-1, dimensions)


def _lines(stream: IO[bytes], skipped: Counter[str]) -> Iterator[bytes]:
    try:
        while line := stream.readline(_MAX_LINE):
            if len(line) < _MAX_LINE or line.endswith(b"\n"):
                yield line
                continue
            skipped["line too long"] += 1
            while line and not line.endswith(b"\n"):
                line = stream.readline(_MAX_LINE)
    except EOFError:
        skipped["damaged end of the file"] += 1


def _binary_blocks(path: Path, stream: IO[bytes], skipped: Counter[str]) -> Iterator[Block]:
    header = stream.readline(64).split()
    if len(header) != 2 or not all(part.isdigit() for part in header):
        raise VectorsError(
            f"{path} does not begin with the number of words and of dimensions, as a word2vec .bin "
            "file does; check its name or download it again."
        )
    n_words, dimensions = map(int, header)
    if not 1 <= dimensions <= _MAX_DIMENSIONS:
        raise VectorsError(
            f"{path} claims vectors of {dimensions} dimensions; at most {_MAX_DIMENSIONS} are read."
        )
    entries = _binary_entries(stream, n_words, 4 * dimensions, skipped)
    while block := list(itertools.islice(entries, _BLOCK_ROWS)):
        rows = np.frombuffer(b"".join(row for _, row in block), dtype="<f4")
        yield [word for word, _ in block], rows.reshape(-1, dimensions)


def _binary_entries(
    stream: IO[bytes], n_words: int, row_bytes: int, skipped: Counter[str]
) -> Iterator[tuple[str, bytes]]:
    buffer, place = b"", 0
    for _ in range(n_words):
        if len(buffer) - place < _MAX_WORD + row_bytes + 2:
            try:
                buffer, place = buffer[place:] + stream.read(_READ_BYTES), 0
            except EOFError:
                buffer, place = b"", 0
        space = buffer.find(b" ", place, place + _MAX_WORD + 2)
        end = space + 1 + row_bytes
        if space < 0 or end > len(buffer):
            skipped["damaged end of the file"] += 1
            return
        # Some writers end each vector with a line break, some do not.
        word = buffer[place:space].lstrip(b"\n")
        place = end
        try:
            yield word.decode("utf-8"), buffer[space + 1 : end]
        except UnicodeDecodeError:
            skipped["word is not UTF-8"] += 1


def _npz_blocks(path: Path) -> Iterator[Block]:
    with zipfile.ZipFile(path) as archive:
        if not {"words.npy", "vectors.npy"} <= set(archive.namelist()):
            raise VectorsError(
                f"{path} holds {sorted(archive.namelist())}; expected arrays 'words' and 'vectors'."
            )
        words = _read_array(path, archive, "words", "U", 1)
        vectors = _read_array(path, archive, "vectors", "f", 2)
    if len(words) != len(vectors):
        raise VectorsError(
            f"{path} holds {len(words)} words but {len(vectors)} vectors; expected as many."
        )
    for i in range(0, len(words), _BLOCK_ROWS):
        rows = slice(i, i + _BLOCK_ROWS)
        with np.errstate(over="ignore"):  # a double too large for a float is counted, no warning
            yield words[rows].tolist(), vectors[rows].astype(np.float32)


def _read_array(
    path: Path, archive: zipfile.ZipFile, name: str, kind: str, n_axes: int
) -> NDArray[np.generic]:
    member = archive.getinfo(f"{name}.npy")
    with archive.open(member) as stream:
        shape, dtype = _array_header(path, name, stream)
    size = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if dtype.kind != kind or len(shape) != n_axes or 0 in shape:
        raise VectorsError(
            f"{path} holds {name!r} of type {dtype} and shape {shape}; expected words as strings "
            "and vectors as a table of floats."
        )
    is_bomb = kind == "f" and size > _MAX_EXPANSION * max(member.compress_size, 1)
    is_long = dtype.itemsize > 4 * _MAX_WORD
    if is_bomb or is_long or size > min(MAX_VECTOR_BYTES, member.file_size):
        raise VectorsError(
            f"{path} claims {size} bytes of {name!r} in {member.compress_size} packed ones, which "
            "cannot be right or is more than is read; download or export it again."
        )
    with archive.open(member) as stream:
        try:
            # Never a pickle: an object array could run code.
            return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))
        except ValueError as error:
            raise VectorsError(f"{path} ends inside {name!r}; download it again.") from error


def _array_header(
    path: Path, name: str, stream: IO[bytes]
) -> tuple[tuple[int, ...], np.dtype[np.generic]]:
    try:
        is_first = np.lib.format.read_magic(stream) == (1, 0)
        form = np.lib.format
        read = form.read_array_header_1_0 if is_first else form.read_array_header_2_0
        shape, _, dtype = read(stream)
    except ValueError as error:
        raise VectorsError(
            f"{path} holds {name!r} in a form NumPy does not write; export it again."
        ) from error
    return shape, dtype
