"""Arrays, lists, vectors and strings on disk."""

import contextlib

import numpy as np
import pytest

from stamo.errors import KnowledgeBaseError
from stamo.kb.storage import (
    HEADER_BYTES,
    StringTable,
    VectorTable,
    open_array,
    save_array,
)


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


def test_strings_are_found_by_text_and_by_number(tmp_path):
    """The number of a string is its place in the list, and both directions agree."""
    names = ["zebra", "Ähre", "ape", "", "apex"]
    StringTable.build(tmp_path, "names", names)
    table = StringTable.open(tmp_path, "names")
    assert table.find_many(names).tolist() == [0, 1, 2, 3, 4]
    assert table.texts([4, 0]) == ["apex", "zebra"]
    assert [table.find("Ähre"), table.find("Zebra")] == [1, -1]
    assert table.find_many(["nobody", "ape"]).tolist() == [-1, 2]


def test_damaged_trie_is_reported_by_name(tmp_path):
    """A file that is no trie raises an error that names it."""
    StringTable.build(tmp_path, "names", ["a"])
    (tmp_path / "names.trie").write_bytes(b"nonsense")
    with pytest.raises(KnowledgeBaseError, match=r"names\.trie"):
        StringTable.open(tmp_path, "names")
