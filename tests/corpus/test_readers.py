"""Documents come out of every kind of source, and whatever is broken is counted, never fatal."""

import bz2
import gzip
import io
import json
import lzma
import sys

import pytest
import zstandard

from stamo.corpus import web as html_process
from stamo.corpus.aliases import AliasMatcher
from stamo.corpus.reading import (
    NO_MENTION,
    Position,
    ReadLimits,
    SkipCounter,
    count_bytes,
    read_documents,
)
from stamo.errors import CorpusFormatError, MissingExtraError
from tests.corpus.archives import http_answer, page, warc_record


def read(*sources, **options):
    skips = SkipCounter()
    return list(read_documents(sources, on_skip=skips, **options)), skips


def lines(*records):
    return "".join(json.dumps(r) + "\n" for r in records).encode()


def write_jsonl(path, n=5):
    path.write_bytes(lines(*({"id": f"d{i}", "text": f"Text {i} of Rey"} for i in range(n))))
    return path


def test_text_jsonl_and_html_files(tmp_path):
    """One folder with every kind of file gives its documents in the order of names."""
    (tmp_path / "b.txt").write_text("Plain text")
    (tmp_path / "a.jsonl").write_bytes(lines({"id": 7, "title": "T", "text": "x"}, {"text": "y"}))
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "c.html").write_bytes(page("Main text of the page.", "Title &amp; more"))
    (tmp_path / "sub" / "noname").write_bytes(lines({"text": "looks like JSON"}))
    documents, skips = read(tmp_path)
    assert [d.text for d in documents] == [
        "x",
        "y",
        "Plain text",
        "Main text of the page.",
        "looks like JSON",
    ]
    assert documents[0].id == "7"
    assert documents[0].title == "T"
    assert documents[3].title == "Title & more"
    assert not skips.skipped
    assert len({d.id for d in documents}) == 5


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [
        (".gz", gzip.compress),
        (".xz", lzma.compress),
        (".bz2", bz2.compress),
        (".zst", zstandard.ZstdCompressor().compress),
        ("", bytes),
    ],
)
def test_compressed_files(tmp_path, suffix, compress):
    """Compression is recognised, also of several members in one file."""
    path = tmp_path / f"d.jsonl{suffix}"
    path.write_bytes(compress(lines({"text": "one"})) + compress(lines({"text": "two"})))
    documents, skips = read(path)
    assert [d.text for d in documents] == ["one", "two"]
    assert not skips.skipped


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress, bz2.compress])
def test_damaged_archives_give_the_rest(tmp_path, compress):
    """A damaged member costs that member; a file that ends early gives what it has."""
    members = [compress(lines({"text": f"{i} " + "word " * 50})) for i in range(3)]
    broken = bytearray(members[1])
    broken[len(broken) // 2 : len(broken) // 2 + 8] = b"\xff" * 8
    path = tmp_path / "d.jsonl.gz"
    path.write_bytes(members[0] + bytes(broken) + members[2] + members[0][:-20])
    documents, skips = read(path)
    texts = {d.text[0] for d in documents}
    assert {"0", "2"} <= texts
    assert any("damaged" in reason for reason in skips.skipped)


def test_ids_stay_the_same_wherever_the_files_lie(tmp_path):
    """A document without an id gets one from its place and text, whatever the folder above."""
    found = []
    for parent in ("here", "there"):
        folder = tmp_path / parent / "pile"
        folder.mkdir(parents=True)
        (folder / "a.txt").write_text("Text")
        (folder / "b.jsonl").write_bytes(lines({"text": "x"}, {"text": "y"}))
        found.append([d.id for d in read(folder)[0]])
    assert found[0] == found[1]
    assert found[0][0].startswith("pile/a.txt:")
    assert found[0][2].startswith("pile/b.jsonl#2:")


def test_bad_lines_are_counted_with_their_reason(tmp_path):
    """Whatever a line holds, the lines after it are read."""
    path = tmp_path / "d.jsonl"
    good = lines({"text": "good"})
    bad = [
        b"{not json",
        b"[1, 2]",
        b'{"text": 5}',
        b'{"title": "no text"}',
        b'{"text": "  "}',
        b"[" * 200_000,
        b'{"text": "x", "n": ' + b"9" * 10_000 + b"}",
        b'{"text": "x", "mentions": [{"start": 0, "end": 9}]}',
        b"",
    ]
    path.write_bytes(good + b"\n".join(bad) + b"\n" + good)
    documents, skips = read(path)
    assert [d.text for d in documents] == ["good", "good"]
    assert skips.skipped == {
        "not valid JSON": 2,
        "not a JSON object": 1,
        'no "text" string': 2,
        "empty text": 1,
        "JSON is nested too deeply": 1,
        "a mention lies outside the text": 1,
    }
    assert skips.examples["not a JSON object"] == "d.jsonl line 3"


def test_invalid_utf8_and_lone_surrogates_are_replaced(tmp_path):
    """Broken characters never reach a document, which can always be written again."""
    (tmp_path / "a.txt").write_bytes(b"caf\xe9 Rey")
    (tmp_path / "b.jsonl").write_bytes(
        b'{"text": "caf\xe9"}\n{"text": "a\\ud800b", "id": "\\udfff"}\n'
    )
    documents, skips = read(tmp_path)
    assert [d.text for d in documents] == ["caf\ufffd Rey", "caf\ufffd", "a\ufffdb"]
    assert skips.mended == {"invalid UTF-8 replaced": 2}
    for document in documents:
        (document.id + document.text).encode()


def test_long_documents_are_cut_and_long_lines_left_out(tmp_path):
    """The limits hold for every kind of file, and both cases are counted."""
    limits = ReadLimits(max_characters=20, max_record_bytes=500)
    (tmp_path / "a.txt").write_text("word " * 1000)
    (tmp_path / "b.jsonl").write_bytes(
        lines({"text": "word " * 10}, {"text": "x" * 5000}, {"text": "after"})
    )
    (tmp_path / "c.html").write_bytes(page("long " * 1000))
    documents, skips = read(tmp_path, limits=limits)
    assert [d.text for d in documents] == ["word word word word", "word word word word", "after"]
    assert skips.mended == {"text cut at 20 characters": 2}
    assert skips.skipped == {"line longer than the limit": 1, "page larger than the limit": 1}


def test_a_line_longer_than_any_block_is_never_held(tmp_path):
    """A line of many blocks is dropped while it streams, and the line numbers stay right."""
    path = tmp_path / "d.jsonl"
    path.write_bytes(b'{"text": "' + b"x" * 5_000_000 + b'"}\n' + lines({"text": "after"}))
    documents, skips = read(path, limits=ReadLimits(max_record_bytes=1_000_000))
    assert [d.id.split(":")[0] for d in documents] == ["d.jsonl#2"]
    assert skips.skipped == {"line longer than the limit": 1}


def test_links_that_leave_the_folder_are_not_followed(tmp_path):
    """A folder cannot smuggle in other files, and loops of links end."""
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    folder = tmp_path / "pile"
    folder.mkdir()
    (folder / "real.txt").write_text("real")
    (folder / "inside.txt").symlink_to(folder / "real.txt")
    (folder / "outside.txt").symlink_to(secret)
    (folder / "broken.txt").symlink_to(tmp_path / "nowhere")
    (folder / "loop").symlink_to(folder)
    (folder / ".hidden").write_text("hidden")
    documents, skips = read(folder)
    assert [d.text for d in documents] == ["real", "real"]
    assert skips.skipped == {
        "symbolic link that leaves the folder": 1,
        "symbolic link that leads nowhere": 1,
        "symbolic link to a folder": 1,
    }


def test_binary_and_empty_files_are_counted(tmp_path):
    """Images and empty files in a folder are no documents."""
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    (tmp_path / "b.txt").write_bytes(b"")
    (tmp_path / "c.txt").write_bytes("UTF-16 text".encode("utf-16"))
    documents, skips = read(tmp_path)
    assert [d.text for d in documents] == ["UTF-16 text"]
    assert skips.skipped == {"binary file": 1, "empty file": 1}


@pytest.mark.parametrize(
    ("data", "texts"),
    [(b"Just text\nof two lines", ["Just text\nof two lines"]), (lines({"text": "j"}), ["j"])],
)
def test_standard_input(data, texts):
    """A dash reads standard input, JSON lines or one text."""
    assert [d.text for d in read("-", stdin=io.BytesIO(data))[0]] == texts


def test_a_missing_source_is_an_error_at_once(tmp_path):
    """A mistyped path is told before anything is read."""
    with pytest.raises(CorpusFormatError, match="nowhere"):
        read_documents([tmp_path, tmp_path / "nowhere"])


def test_reading_goes_on_at_any_position(tmp_path):
    """Interrupted after any document, the rest comes out, nothing twice and nothing lost."""
    folder = tmp_path / "pile"
    folder.mkdir()
    write_jsonl(folder / "a.jsonl")
    (folder / "b.txt").write_text("b")
    archive = b"".join(warc_record(http_answer(page(f"Page {i}")), id=str(i)) for i in range(3))
    (folder / "c.warc.gz").write_bytes(gzip.compress(archive))
    sources = [folder, write_jsonl(tmp_path / "z.jsonl", 2)]
    every = [d.text for d in read(*sources)[0]]
    for n in range(1, len(every)):
        reached = []
        reader = read_documents(sources, on_progress=lambda p, r=reached: r.append(p.position))
        taken = [next(reader).text for _ in range(n)]
        assert taken == every[:n]
        # The position moves on only after the next document is asked for.
        start = (
            Position.from_json(json.loads(json.dumps(reached[-1].to_json()))) if reached else None
        )
        again = [d.text for d in read(*sources, start=start)[0]]
        assert again == every[n - 1 :]


def test_bad_positions_are_refused():
    """What is no position gives one sentence and no surprise later."""
    for value in (None, [1, 2, 3], ["0", "a", 1], [0, "a"]):
        with pytest.raises(CorpusFormatError):
            Position.from_json(value)


def test_progress_ends_at_all_bytes(tmp_path):
    """The bytes read reach the sum that a progress bar starts with."""
    write_jsonl(tmp_path / "a.jsonl")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"text"))
    seen = []
    list(read_documents([tmp_path], on_progress=lambda p: seen.append(p.n_bytes)))
    assert seen[-1] == count_bytes([tmp_path])


@pytest.mark.parametrize("name", ["d.jsonl", "d.html", "d.txt", "d.warc"])
def test_a_matcher_leaves_out_what_cannot_match(tmp_path, name):
    """With a matcher only documents that may hold an alias come out; the others are counted."""
    data = {
        "d.jsonl": lines({"text": "About Rey"}, {"text": "About Finn"}, {"text": "Poe"}),
        "d.html": page("About Finn").replace(b"Rey", b"Leia"),
        "d.txt": b"About Finn",
        "d.warc": warc_record(http_answer(b"<p>Finn</p>")) + warc_record(b"Rey", type="conversion"),
    }[name]
    (tmp_path / name).write_bytes(data)
    documents, skips = read(tmp_path / name, matcher=AliasMatcher(["Rey"]))
    assert all("Rey" in d.text for d in documents)
    n_records = {"d.jsonl": 3, "d.warc": 2}.get(name, 1)
    assert skips.skipped == {NO_MENTION: n_records - len(documents)}


def test_web_pages_need_the_extra(tmp_path, monkeypatch):
    """Without the extra, the first web page says how to install it."""
    (tmp_path / "a.html").write_bytes(page("text"))
    html_process.close()
    monkeypatch.setitem(sys.modules, "resiliparse", None)
    with pytest.raises(MissingExtraError, match=r"stamo\[web\]"):
        list(read_documents([tmp_path / "a.html"]))


def test_one_text_is_no_list_of_paths():
    """A path without its brackets is told as such, not as a missing file of one letter."""
    with pytest.raises(CorpusFormatError, match=r"give a list of paths: \['news.jsonl'\]"):
        read_documents("news.jsonl")
