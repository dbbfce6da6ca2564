"""Import word vectors: GloVe text, word2vec binary, fastText text and NumPy archives.

Files come from elsewhere, so nothing in them is trusted: sizes are checked before memory is taken,
archives never run code, and single bad entries are counted and left out. Memory stays below twice
`MAX_VECTOR_BYTES` for the vectors, plus the words themselves.
"""

from __future__ import annotations

import logging
import zipfile
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stamo.errors import VectorsError
from stamo.system.files import Float32
from stamo.system.streams import (
    MAX_UNPACKED,
    MAX_UNPACKED_RATIO,
    ByteStream,
    read_line_blocks,
)

logger = logging.getLogger(__name__)

MAX_VECTOR_BYTES = 8 << 30
"""Vectors that would need more memory than this are refused."""

_MAX_DIMENSIONS = 4096
_MAX_LINE = 1 << 17
_MAX_WORD = 1024
_BLOCK_ROWS = 1 << 14

_Block = tuple[list[str], Float32]


class WordVectors(NamedTuple):
    """Words and their vectors, in the order of the file (usually the most frequent first)."""

    words: list[str]
    """Distinct words; n of them."""
    vectors: Float32
    """One finite row for each word, shape (n, Q)."""
    skipped: Counter[str]
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
            stream = ByteStream(file)
            is_binary = ".bin" in path.suffixes[-2:]
            blocks = _binary_blocks if is_binary else _text_blocks
            return _collect(path, blocks(path, stream, skipped), skipped)
    except (OSError, EOFError, zipfile.BadZipFile) as error:
        raise VectorsError(f"{path} cannot be read as word vectors: {error}.") from error


def _collect(path: Path, blocks: Iterable[_Block], skipped: Counter[str]) -> WordVectors:
    row_by_word: dict[str, int] = {}
    kept: list[Float32] = []
    for words, vectors in blocks:
        finite: list[bool] = np.asarray(np.isfinite(vectors).all(axis=1)).tolist()
        rows = []
        for row, (word, is_finite) in enumerate(zip(words, finite, strict=True)):
            if not word or len(word) > _MAX_WORD:
                skipped["empty or overlong word"] += 1
            elif word in row_by_word:
                skipped["word given twice"] += 1
            elif not is_finite:
                skipped["value not finite"] += 1
            else:
                row_by_word[word] = len(row_by_word)
                rows.append(row)
        kept.append(vectors[rows].astype(np.float32))
        if len(row_by_word) * vectors.shape[1] * 4 > MAX_VECTOR_BYTES:
            raise _too_large(path)
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


def _too_large(path: Path) -> VectorsError:
    return VectorsError(
        f"{path} holds more than {MAX_VECTOR_BYTES >> 30} GB of vectors; use a smaller file."
    )


def _text_blocks(path: Path, stream: ByteStream, skipped: Counter[str]) -> Iterator[_Block]:
    long_lines = partial(skipped.update, ["line too long"])
    blocks = read_line_blocks(iter(stream), _MAX_LINE, long_lines)
    lines = filter(None, chain.from_iterable(map(bytes.splitlines, blocks)))
    head = list(islice(lines, 100))
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
    for line in chain(head, lines):
        word, *numbers = line.split() or [b""]
        try:
            if len(numbers) != dimensions:
                raise ValueError(line)
            row = array("f", map(float, numbers))
            words.append(word.decode("utf-8"))
        except ValueError:
            skipped["line without a word and its numbers"] += 1
            continue
        values.extend(row)
        if len(words) == _BLOCK_ROWS:
            yield words, np.array(values, dtype=np.float32).reshape(-1, dimensions)
            words, values = [], array("f")
    if stream.fault:
        skipped["damaged end of the file"] += 1
    yield words, np.array(values, dtype=np.float32).reshape(-1, dimensions)


def _binary_blocks(path: Path, stream: ByteStream, skipped: Counter[str]) -> Iterator[_Block]:
    blocks = iter(stream)
    first, _, buffer = next(blocks, b"").partition(b"\n")
    header = first[:64].split()
    if len(header) != 2 or not all(number.isdigit() for number in header):
        raise VectorsError(
            f"{path} does not begin with the number of words and of dimensions, as a word2vec .bin "
            "file does; check its name or download it again."
        )
    n_words, dimensions = map(int, header)
    if not 1 <= dimensions <= _MAX_DIMENSIONS:
        raise VectorsError(
            f"{path} claims vectors of {dimensions} dimensions; at most {_MAX_DIMENSIONS} are read."
        )
    words: list[str] = []
    rows: list[bytes] = []
    place = 0
    for _ in range(n_words):
        while len(buffer) - place < _MAX_WORD + 4 * dimensions + 2 and (more := next(blocks, b"")):
            buffer, place = buffer[place:] + more, 0
        space = buffer.find(b" ", place, place + _MAX_WORD + 2)
        end = space + 1 + 4 * dimensions
        if space < 0 or end > len(buffer):
            skipped["damaged end of the file"] += 1
            break
        # Some writers end each vector with a line break, some do not.
        word, place = buffer[place:space].lstrip(b"\n"), end
        try:
            words.append(word.decode("utf-8"))
        except UnicodeDecodeError:
            skipped["word is not UTF-8"] += 1
            continue
        rows.append(buffer[space + 1 : end])
        if len(words) == _BLOCK_ROWS:
            yield words, np.frombuffer(b"".join(rows), dtype="<f4").reshape(-1, dimensions)
            words, rows = [], []
    yield words, np.frombuffer(b"".join(rows), dtype="<f4").reshape(-1, dimensions)


def _npz_blocks(path: Path) -> Iterator[_Block]:
    with zipfile.ZipFile(path) as archive:
        sizes = {member.filename: member.file_size for member in archive.infolist()}
    if not {"words.npy", "vectors.npy"} <= sizes.keys():
        raise VectorsError(f"{path} holds {sorted(sizes)}; expected arrays 'words' and 'vectors'.")
    unpacked = sizes["words.npy"] + sizes["vectors.npy"]
    if unpacked > MAX_VECTOR_BYTES:
        raise _too_large(path)
    if unpacked > MAX_UNPACKED + MAX_UNPACKED_RATIO * path.stat().st_size:
        raise VectorsError(
            f"{path} unpacks to more than {MAX_UNPACKED_RATIO} times its size; make it again."
        )
    try:
        with np.load(path, allow_pickle=False) as arrays:  # a pickle could run code
            words, vectors = arrays["words"], arrays["vectors"]
    except (ValueError, MemoryError) as error:
        raise VectorsError(
            f"{path} ends early or holds other arrays than expected ({error}); words are strings "
            "and vectors a table of floats: download or export it again."
        ) from error
    shapes = words.shape, vectors.shape
    is_fit = words.dtype.kind == "U" and vectors.dtype.kind == "f" and vectors.ndim == 2
    if not is_fit or shapes[0] != shapes[1][:1] or 0 in shapes[1]:
        raise VectorsError(
            f"{path} holds words of type {words.dtype} and shape {shapes[0]}, vectors of type "
            f"{vectors.dtype} and shape {shapes[1]}; expected as many strings as rows of floats."
        )
    for i in range(0, len(words), _BLOCK_ROWS):
        rows = slice(i, i + _BLOCK_ROWS)
        with np.errstate(over="ignore"):  # a double too large for a float is counted, no warning
            yield words[rows].tolist(), vectors[rows].astype(np.float32)
