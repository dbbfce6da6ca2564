"""Pieces of sources give the documents that one reader gives."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stamo.corpus.reading import ReadTask, cut_documents, list_files, read_chunks
from stamo.errors import CorpusFormatError
from stamo.integrations.spark.pieces import bundle, plan_pieces, read_piece

LINES = st.lists(
    st.one_of(
        st.just(""),
        st.just("broken"),
        st.text("ab ", max_size=40).map(lambda text: json.dumps({"text": text})),
    ),
    min_size=1,
    max_size=12,
)


def read_pieces(pieces, window):
    for piece in pieces:
        task = ReadTask(piece.file.name, piece.file.path, window=window)
        yield from cut_documents(read_piece(piece, task), task)


@settings(deadline=None, max_examples=60)
@given(LINES, st.integers(1, 90), st.booleans())
def test_lines_cut_anywhere_give_the_same_chunks(tmp_path_factory, lines, size, ends):
    """Whatever bytes a file is cut at, each line is read once, whole, under its own number."""
    path = tmp_path_factory.mktemp("lines") / "a.jsonl"
    path.write_text("\n".join(lines) + "\n" * ends)
    pieces = plan_pieces(list_files([path]), size)
    assert list(read_pieces(pieces, 1000)) == list(read_chunks([path], 1000))


def test_files_of_all_kinds_in_the_order_of_one_reader(tmp_path):
    """Folders, Parquet and files that cannot be read come as `read_chunks` gives them."""
    folder = tmp_path / "pile"
    (folder / "inner").mkdir(parents=True)
    rows = [{"id": str(i), "text": f"text {i}"} for i in range(50)]
    pq.write_table(pa.Table.from_pylist(rows), folder / "t.parquet", row_group_size=7)
    (folder / "inner" / "page.txt").write_text("words")
    (folder / "bad.zip").write_bytes(b"PK\x03\x04 and more")
    (folder / "broken.parquet").write_bytes(b"PAR1 and nothing else")
    (folder / "other.parquet").write_bytes(b"")
    pq.write_table(pa.table({"body": ["no text"]}), folder / "textless.parquet")
    expected = list(read_chunks([folder], 1000))
    assert len(expected) == 55
    for size in (1, 10_000):
        pieces = plan_pieces(list_files([folder]), size)
        assert list(read_pieces(pieces, 1000)) == expected
        tasks = bundle(pieces, size)
        assert [piece for task in tasks for piece in task] == pieces
    assert len(bundle(pieces, 10_000)) == 1


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("-", "Standard input"),
        ("absent.jsonl", "no file or folder"),
        ("file:///absent/absent", "nothing at"),
        ("nonsense://x/y", "cannot be reached"),
    ],
)
def test_sources_that_cannot_be_cut_are_refused(source, sentence):
    """What is missing or only this machine can read fails before any task runs."""
    with pytest.raises(CorpusFormatError, match=sentence):
        plan_pieces(list_files([source]))
