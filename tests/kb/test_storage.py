"""Arrays, lists, vectors and strings on disk."""

import contextlib

import numpy as np
import pytest

from stamo.errors import KnowledgeBaseError
from stamo.kb.storage import (
    HEADER_BYTES,
    ArrayWriter,
    StringTable,
    VectorTable,
    open_array,
    read_row_blocks,
    save_array,
)


def test_array_written_in_parts_reads_as_one(tmp_path):
    """Rows appended in parts come back as one array of the given type that NumPy itself reads."""
    path = tmp_path / "a.npy"
    with ArrayWriter(path, np.int32) as writer:
        writer.append([1, 2])
        writer.append(np.array([3], dtype=np.int64))
    assert open_array(path).tolist() == [1, 2, 3]
    assert np.load(path).dtype == np.int32


def test_opened_array_is_read_only(tmp_path):
    """Writing into an opened array fails."""
    save_array(tmp_path / "a.npy", [1, 2], np.int32)
    with pytest.raises(ValueError, match="read-only"):
        open_array(tmp_path / "a.npy")[0] = 7


@pytest.mark.parametrize(
    "content", [b"", b"not an array at all", b"\x93NUMPY\x01\x00\x76\x00{'descr'"]
)
def test_damaged_array_is_reported_by_name(tmp_path, content):
    """A file that is no array raises an error that names it."""
    path = tmp_path / "bad.npy"
    path.write_bytes(content)
    with pytest.raises(KnowledgeBaseError, match=r"bad\.npy"):
        open_array(path)


def test_a_flipped_bit_in_a_header_is_an_error_or_harmless(tmp_path):
    """No wrong header is a traceback, and none changes the size of an array."""
    path = tmp_path / "a.npy"
    save_array(path, np.arange(40), np.int32)
    good = path.read_bytes()
    for place in range(HEADER_BYTES * 8):
        data = bytearray(good)
        data[place // 8] ^= 1 << place % 8
        path.write_bytes(data)
        with contextlib.suppress(KnowledgeBaseError):
            assert open_array(path).shape == (40,)


def test_vectors_come_out_as_single_floats(tmp_path):
    """Half floats on disk are handed out as float32, by row, by list and in blocks."""
    stored = np.arange(12, dtype=np.float32).reshape(6, 2)
    save_array(tmp_path / "v.npy", stored, np.float16)
    table = VectorTable(open_array(tmp_path / "v.npy"))
    assert table.shape == (6, 2)
    assert table[[5, 0]].dtype == np.float32
    assert table[[5, 0]].tolist() == [[10, 11], [0, 1]]
    assert np.concatenate([block for _, block in table.blocks(4)]).tolist() == stored.tolist()
    assert np.asarray(table).dtype == np.float32


def test_blocks_of_a_file_are_its_rows(tmp_path):
    """Read a few rows at a time, an array is the same; an empty one has no block."""
    rows = np.arange(14, dtype=np.int32).reshape(7, 2)
    save_array(tmp_path / "a.npy", rows, np.int32)
    blocks = list(read_row_blocks(tmp_path / "a.npy", 3))
    assert [len(block) for block in blocks] == [3, 3, 1]
    assert np.concatenate(blocks).tolist() == rows.tolist()
    save_array(tmp_path / "b.npy", rows[:0], np.int32)
    assert list(read_row_blocks(tmp_path / "b.npy", 3)) == []


def test_strings_are_found_by_text_and_by_number(tmp_path):
    """The number of a string is its place in the list, and both directions agree."""
    names = ["zebra", "Ähre", "ape", "", "apex"]
    StringTable.build(tmp_path, "names", names)
    table = StringTable.open(tmp_path, "names")
    assert table.find_many(names).tolist() == [0, 1, 2, 3, 4]
    assert table.texts([4, 0]) == ["apex", "zebra"]
    assert [table.find("Ähre"), table.find("Zebra")] == [1, -1]
    assert table.find_many(["nobody", "ape"]).tolist() == [-1, 2]


def test_string_that_comes_twice_is_refused(tmp_path):
    """Two numbers for one string would make the table wrong."""
    with pytest.raises(ValueError, match="twice"):
        StringTable.build(tmp_path, "names", ["a", "a"])


def test_damaged_trie_is_reported_by_name(tmp_path):
    """A file that is no trie raises an error that names it."""
    StringTable.build(tmp_path, "names", ["a"])
    (tmp_path / "names.trie").write_bytes(b"nonsense")
    with pytest.raises(KnowledgeBaseError, match=r"names\.trie"):
        StringTable.open(tmp_path, "names")
