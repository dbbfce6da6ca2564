"""Import of word vectors from every supported format, whole and damaged."""

import bz2
import gzip
import io
import lzma

import numpy as np
import pytest

from stamo.build import vector_files as module
from stamo.build.vector_files import load_vectors, prepare
from stamo.errors import VectorsError

WORDS = ["the", "café", "東京"]
VECTORS = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, 0.0], [-3.0, 4.0, 1.0]], dtype=np.float32)


def text_lines():
    rows = zip(WORDS, VECTORS.tolist(), strict=True)
    return "".join(f"{word} {' '.join(map(str, row))}\n" for word, row in rows).encode()


def binary(end_of_row=b"\n"):
    body = b"".join(
        word.encode() + b" " + row.tobytes() + end_of_row
        for word, row in zip(WORDS, VECTORS, strict=True)
    )
    return b"3 3\n" + body


def npz(**arrays):
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


FORMATS = {
    "glove.txt": text_lines(),
    "fasttext.vec": b"3 3\n" + text_lines(),
    "fasttext.vec.gz": gzip.compress(b"3 3\n" + text_lines()),
    "crlf.txt": text_lines().replace(b"\n", b"\r\n"),
    "word2vec.bin": binary(),
    "word2vec-without-breaks.bin": binary(b""),
    "word2vec.bin.xz": lzma.compress(binary()),
    "fasttext.vec.bz2": bz2.compress(b"3 3\n" + text_lines()),
    "half.npz": npz(words=np.array(WORDS), vectors=VECTORS.astype(np.float16)),
    "fortran.npz": npz(words=np.array(WORDS), vectors=np.asfortranarray(VECTORS)),
}


@pytest.fixture
def write(tmp_path):
    def write(name, data):
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return write


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_vectors(write, name):
    """GloVe, fastText, word2vec and NumPy files of the same vectors are read alike."""
    found = load_vectors(write(name, FORMATS[name]))
    assert found.words == WORDS
    assert found.vectors.dtype == np.float32
    np.testing.assert_array_equal(found.vectors, VECTORS)
    assert not found.skipped


def test_blocks_join(write, monkeypatch):
    """A file longer than one block loses nothing at the seams."""
    monkeypatch.setattr(module, "_BLOCK_ROWS", 2)
    for name, data in FORMATS.items():
        np.testing.assert_array_equal(load_vectors(write(name, data)).vectors, VECTORS)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"long 1 2 3 4\n", "line without a word and its numbers"),
        (b"letters 1 b 3\n", "line without a word and its numbers"),
        (b"\xff\xfe 1 2 3\n", "line without a word and its numbers"),
        (b"nan nan 2 3\n", "value not finite"),
        (b"large 1e300 1 1\n", "value not finite"),
        (b"the 9 9 9\n", "word given twice"),
        (b"w" * 2000 + b" 1 2 3\n", "empty or overlong word"),
        (b"x" * 300_000 + b"\n", "line too long"),
    ],
)
@pytest.mark.parametrize("place", [1, 3])
def test_bad_lines_are_counted_and_left_out(write, line, reason, place):
    """One bad line costs that line, and the first of equal words wins."""
    lines = text_lines().splitlines(keepends=True)
    lines.insert(place, line)
    found = load_vectors(write("v.txt", b"".join(lines)))
    assert found.words == WORDS
    np.testing.assert_array_equal(found.vectors, VECTORS)
    assert found.skipped == {reason: 1}


@pytest.mark.parametrize("name", FORMATS)
def test_truncation_at_every_byte(write, name):
    """A cut file gives true entries from before the cut, or an error of ours."""
    whole = FORMATS[name]
    for size in range(0, len(whole), max(1, len(whole) // 60)):
        try:
            found = load_vectors(write(name, whole[:size]))
        except VectorsError:
            continue
        n = len(found.words)
        assert found.words == WORDS[:n]
        if n > 1:  # the last number of a text may be cut short without a sign of it
            np.testing.assert_array_equal(found.vectors[: n - 1], VECTORS[: n - 1])


@pytest.mark.parametrize("name", ["v.txt", "v.txt.gz", "v.bin", "v.bin.gz", "v.vec", "v.npz"])
@pytest.mark.parametrize(
    "data", [b"", b"x", b"\x00" * 5000, b"3 3\n", b"99999999 300\n", b"5 5000\na ", b"a b c\n"]
)
def test_files_that_are_no_vectors(write, name, data):
    """Whatever else a file holds, the answer is one sentence."""
    with pytest.raises(VectorsError, match=r"\.$"):
        load_vectors(write(name, data))


class Trap:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was run",))


@pytest.mark.parametrize("name", ["words", "vectors"])
def test_pickles_are_refused(write, name):
    """Object arrays, which could run code, are never loaded."""
    arrays = {"words": np.array(WORDS), "vectors": VECTORS}
    arrays[name] = np.array([Trap(), Trap(), Trap()], dtype=object)
    with pytest.raises(VectorsError, match="words are strings"):
        load_vectors(write("v.npz", npz(**arrays)))


@pytest.mark.parametrize(
    "arrays",
    [
        {"words": np.array(WORDS)},
        {"other": VECTORS},
        {"words": np.array(WORDS), "vectors": VECTORS[:2]},
        {"words": np.array(WORDS), "vectors": VECTORS[0]},
        {"words": np.array(WORDS), "vectors": VECTORS.astype(np.int32)},
        {"words": np.array([1, 2, 3]), "vectors": VECTORS},
        {"words": np.array([], dtype=str), "vectors": np.zeros((0, 3))},
        {"words": np.array(WORDS), "vectors": np.zeros((3, 0))},
    ],
)
def test_archives_of_something_else(write, arrays):
    """Missing arrays, other types and shapes that do not fit are named."""
    with pytest.raises(VectorsError, match="expected"):
        load_vectors(write("v.npz", npz(**arrays)))


def test_size_limit(write, monkeypatch):
    """More vectors than the stated bound are refused in one sentence."""
    monkeypatch.setattr(module, "MAX_VECTOR_BYTES", 16)
    for name in ("glove.txt", "word2vec.bin", "half.npz"):
        with pytest.raises(VectorsError, match="more than"):
            load_vectors(write(name, FORMATS[name]))


def test_prepared_vectors_are_centred_before_scaling():
    """The mean is removed, every row has unit norm, and a row equal to the mean is zero."""
    rng = np.random.default_rng(0)
    vectors = (rng.standard_normal((50, 8)) + 3).astype(np.float32)
    prepared = prepare(vectors)
    centred = vectors - vectors.mean(axis=0)
    expected = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    np.testing.assert_allclose(prepared, expected, atol=1e-5)
    assert (prepare(np.ones((3, 4), dtype=np.float32)) == 0).all()
    assert prepare(np.zeros((0, 4), dtype=np.float32)).shape == (0, 4)
