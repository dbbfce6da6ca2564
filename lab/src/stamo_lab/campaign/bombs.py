"""Small files that unpack to very much, claim very much, or are slow to read: one try each."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import time
import zipfile
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from stamo import EntityPack, LinkerSettings, read_documents
from stamo.build.vector_files import load_vectors
from stamo.corpus.aliases import AliasMatcher
from stamo.corpus.nif import NIF
from stamo.corpus.reading import read_chunks
from stamo.errors import StamoError
from stamo.linking.output import write_links
from stamo_lab.campaign.artifacts import LABELLED, NAME, TEMPLATES, fresh, small_linker
from stamo_lab.campaign.table import Row, Target, command, last_lines, processor_seconds

MB = 1 << 20
UNPACKED = 1 << 28
"""What the archives unpack to."""
HTML = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
MET = "Rey met Finn. "


def _repeat(piece: bytes, size: int) -> bytes:
    return piece * (size // len(piece))


def _packed(kind: str, piece: bytes, size: int = UNPACKED) -> bytes:
    """Pack a piece again and again, without ever holding all of it."""
    block, out = _repeat(piece, 4 * MB), io.BytesIO()
    openers: dict[str, Callable[[], Any]] = {
        "gz": lambda: gzip.GzipFile(fileobj=out, mode="wb", compresslevel=6),
        "bz2": lambda: bz2.BZ2File(out, "wb"),
        "xz": lambda: lzma.LZMAFile(out, "wb", preset=1),  # noqa: SIM115
        "zst": lambda: zstandard.ZstdCompressor().stream_writer(out, closefd=False),
    }
    with openers[kind]() as file:
        for _ in range(size // len(block)):
            file.write(block)
    return out.getvalue()


def _table(columns: dict[str, pa.Array], **options: object) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, **options)
    return out.getvalue()


def _same(text: str, n: int) -> pa.Array:
    """Return a column that says one text again and again, which is stored once."""
    return pa.DictionaryArray.from_arrays(np.zeros(n, np.int32), pa.array([text]))


def _warc(block: bytes, n: int = 1) -> bytes:
    head = f"WARC/1.0\r\nWARC-Type: response\r\nContent-Length: {len(block)}\r\n\r\n"
    return (head.encode() + block + b"\r\n\r\n") * n


def _npz(n_bytes: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        n = n_bytes // 400
        for name, values in (("words", np.full(n, "a")), ("vectors", np.zeros((n, 100), "f4"))):
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, values)
    return out.getvalue()


def _lying_parquet() -> bytes:
    """Return a file whose footer tells of very many rows that are not there."""
    data = _table({"text": pa.array(["Rey met Finn."] * 100)}, compression="none")
    return data.replace(b"\x16\xc8\x01", b"\x16\xfe\xff\xff\xff\x0f"[:3])


def _feed(item: str, size: int) -> bytes:
    return b"<rss><channel>" + _repeat(item.encode(), size) + b"</channel></rss>"


def _turtle(piece: str, size: int) -> bytes:
    head = f"@prefix nif: <{NIF}> .\n<u:c> nif:isString 'Rey met Finn' .\n"
    return head.encode() + _repeat(piece.encode(), size)


MARKS = "e" + "\u0301\u0323\u0302" * 3
DOCUMENTS: dict[str, Callable[[], bytes]] = {
    # Rows and columns.
    "rows.parquet": lambda: _table({"text": pa.array([""] * 20_000_000)}, compression="zstd"),
    "same.parquet": lambda: _table({"text": pa.repeat(MET * 10, 5_000_000)}, compression="zstd"),
    "cells.parquet": lambda: _table({"text": _same("a" * MB, 100_000)}, compression="zstd"),
    "groups.parquet": lambda: _table({"text": pa.nulls(500_000, pa.string())}, row_group_size=100),
    "wide.parquet": lambda: _table({f"c{i}": pa.array(["a"]) for i in range(50_000)}),
    "cell.parquet": lambda: _table({"text": pa.array(["a" * (400 * MB)])}, compression="zstd"),
    "lying.parquet": _lying_parquet,
    "commas.csv": lambda: b"text\n" + _repeat(b",", 15 * MB),
    "columns.csv": lambda: _repeat(b"text,", 15 * MB) + b"\n",
    "quotes.csv": lambda: b'text\n"' + _repeat(b'""', 15 * MB),
    "rows.csv": lambda: b"text\n" + _repeat(b"a\n", MB // 8),
    "faults.csv": lambda: b"text\n" + _repeat(b",\n", MB),
    # What unpacks to very much.
    "lines.jsonl.gz": lambda: _packed("gz", b"\n"),
    "objects.jsonl.gz": lambda: _packed("gz", b"{}\n"),
    "documents.jsonl.bz2": lambda: _packed("bz2", b'{"text":"Rey"}\n'),
    "line.jsonl.xz": lambda: _packed("xz", b"a"),
    "text.txt.zst": lambda: _packed("zst", MET.encode()),
    "text.txt.bz2": lambda: _packed("bz2", b" "),
    "rows.csv.zst": lambda: _packed("zst", b"text\n"),
    "records.warc.gz": lambda: _packed("gz", b"WARC/1.0\r\nContent-Length: 0\r\n\r\n\r\n\r\n"),
    "members.warc.gz": lambda: gzip.compress(b"") * 200_000,
    "body.warc": lambda: _warc(
        HTML.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n") + _packed("gz", b"<p>Rey")
    ),
    "chunks.warc": lambda: _warc(
        HTML.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n")
        + _repeat(b"1\r\na\r\n", 12 * MB)
    ),
    # Nesting, and long runs.
    "marks.txt": lambda: _repeat("\u0301".encode(), 4 * MB),
    "marked.txt": lambda: _repeat(MARKS.encode(), 4 * MB),
    "marked.jsonl": lambda: f'{{"text":"Rey {MARKS * 200_000}"}}'.encode(),
    "unordered.txt": lambda: _repeat("\u0301\u0323".encode(), 4 * MB),
    "unordered.jsonl": lambda: (
        b'{"text":"Rey","mentions":[{"start":0,"end":3,"surface":"'
        + _repeat("\u0301\u0323".encode(), MB)
        + b'"}]}'
    ),
    "signs.txt": lambda: _repeat("\u0bc6\u0bbe\u0bbe\u0bbe".encode(), 4 * MB),
    "jamo.txt": lambda: _repeat("\u1100\u1161\u11a8".encode(), 4 * MB),
    "capitals.txt": lambda: _repeat(b"A ", 4 * MB),
    "names.txt": lambda: _repeat(b"Rey ", 4 * MB),
    "names.jsonl": lambda: b'{"text":"' + _repeat(b"Rey ", 8 * MB) + b'"}',
    "word.txt": lambda: _repeat(b"Rey", 4 * MB),
    "han.txt": lambda: _repeat("\u5929".encode(), 4 * MB),
    "nested.jsonl": lambda: b'{"text":' + _repeat(b"[", 15 * MB),
    "keys.jsonl": lambda: b'{"text":"Rey","a":[' + _repeat(b"{},", 15 * MB) + b"1]}",
    "mentions.jsonl": lambda: (
        b'{"text":"Rey met","mentions":[' + _repeat(b"[0,3],", 15 * MB) + b"[0,3]]}"
    ),
    "lists.html": lambda: _repeat(b"<ul><li>Rey", 15 * MB),
    "table.html": lambda: _repeat(b"<table><tr><td>Rey", 4 * MB),
    "bold.html": lambda: _repeat(b"<p><b>Rey", 15 * MB),
    "items.rss": lambda: _feed("<item><title>Rey</title></item>", 15 * MB),
    "deep.rss": lambda: _feed("<item>", 15 * MB),
    "elements.rss": lambda: _feed("<a/>", 15 * MB),
    "markup.rss": lambda: _feed("<item><title>&lt;b>Rey</title></item>", 4 * MB),
    "attributes.rss": lambda: _feed("<item><a b='c'>Rey</a></item>", 15 * MB),
    "triples.ttl": lambda: _turtle("<a> <b> <c> .\n", 15 * MB),
    "objects.ttl": lambda: _turtle("<a> <b> <c>, <d>, <e>, <f>, <g>, <h> .\n", 15 * MB),
    "string.ttl": lambda: _turtle("\n", 1) + b"<a> <b> '" + _repeat(b"\\n", 15 * MB) + b"' .",
    "open.ttl": lambda: _turtle("(", 15 * MB),
    "comments.ttl": lambda: _turtle("#\n", 15 * MB),
    "prefixes.ttl": lambda: _turtle("@prefix a: <b> .\n", 15 * MB),
}


def _read(folder: Path, path: Path) -> None:
    matcher = AliasMatcher(("Rey", "Finn"))
    deque(map(len, (d.text for d in read_documents([path], matcher=matcher))), maxlen=0)


def _link(folder: Path, path: Path) -> None:
    with Path(os.devnull).open("wb") as out:
        write_links(
            small_linker(folder), read_chunks([path], LinkerSettings().window), out, "jsonl"
        )


def _import(folder: Path, path: Path) -> None:
    home = fresh(folder / TEMPLATES / LABELLED / NAME, folder / "bombed")
    command("labels", "import", home, path)


def _build(folder: Path, path: Path) -> None:
    target = folder / "bombed-kb"
    command("build", path, target, "--dimensions", 0, "--workers", 1, "--overwrite")


USES: dict[str, Callable[[Path, Path], object]] = {"read": _read, "link": _link}
OTHERS: dict[str, tuple[Callable[[Path, Path], object], Callable[[], bytes]]] = {
    "vectors.npz": (lambda folder, path: load_vectors(path), lambda: _npz(UNPACKED)),
    "vectors.txt": (lambda folder, path: load_vectors(path), lambda: _repeat(b"a 1 1\n", 15 * MB)),
    "vectors.txt.gz": (lambda folder, path: load_vectors(path), lambda: _packed("gz", b"a 1 1\n")),
    "bytes.stamo": (
        lambda folder, path: EntityPack.load(path),
        lambda: _repeat(b"\x07", 100 * MB),
    ),
    "head.stamo": (
        lambda folder, path: EntityPack.load(path),
        lambda: (7 * MB).to_bytes(8, "little") + b'{"a":' + _repeat(b"[", 7 * MB),
    ),
    "labels.csv": (
        _import,
        lambda: b"document,start,end,choice,labeller\n" + _repeat(b"a,0,3,@none,b\n", 15 * MB),
    ),
    "labels.json": (_import, lambda: b"[" + _repeat(b"{},", 15 * MB) + b"{}]"),
    "labels.jsonl": (_import, lambda: _repeat(b"{}\n", 15 * MB)),
    "nested.json": (_import, lambda: _repeat(b"[", 15 * MB)),
    "dump.xml.bz2": (
        _build,
        lambda: _packed("bz2", b"<page><title>a</title><text>[[b]]</text></page>\n"),
    ),
    "page.xml": (
        _build,
        lambda: (
            b"<mediawiki><page><title>a</title><ns>0</ns><id>1</id><revision><id>1</id><text>"
            + _repeat(b"{{", 4 * MB)
            + b"</text></revision></page></mediawiki>"
        ),
    ),
    "entities.csv": (_build, lambda: b"name,aliases\n" + _repeat(b"a,b|", 15 * MB)),
    "entities.jsonl": (_build, lambda: _repeat(b"{}\n", 15 * MB)),
    "entities.csv.gz": (_build, lambda: _packed("gz", b"name,aliases\n")),
}


def attack(
    folder: Path,
    path: Path,
    use: Callable[[Path, Path], object],
    make: Callable[[], bytes],
    row: Row,
) -> Iterator[None]:
    """Use a file once: it is read, or refused by one of our errors."""
    if not path.exists():
        subprocess_write(path, make)
    start = processor_seconds()
    try:
        use(folder, path)
    except StamoError as error:
        row.n_refused += 1
        row.note = str(error)[:200]
    except BaseException:
        row.fail(last_lines())
    row.took(processor_seconds() - start)
    yield


def subprocess_write(path: Path, make: Callable[[], bytes]) -> None:
    """Write a file in a process that is no child of this one: its memory and time do not count."""
    beside = path.with_name(f"{path.name}.part")
    child = os.fork()
    if not child:
        if not os.fork():
            beside.write_bytes(make())
            beside.rename(path)
        os._exit(0)
    os.waitpid(child, 0)
    while not path.exists():
        time.sleep(0.01)


def targets(folder: Path, seed: str) -> Iterator[Target]:
    """Yield every file, for each of its uses."""
    root = folder / "bombs"
    root.mkdir(exist_ok=True)
    uses = [(verb, use, DOCUMENTS[name], name) for name in DOCUMENTS for verb, use in USES.items()]
    uses += [("open", use, make, name) for name, (use, make) in OTHERS.items()]
    for verb, use, make, name in uses:
        once = partial(attack, folder, root / name, use, make)
        yield Target(f"small files that stand for much, {verb} {name}", once, 0.6)
