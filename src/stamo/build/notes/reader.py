"""From a folder of notes to the staged tables of a build.

They are listed, each is cleaned in a worker, then links find their notes.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

import pyarrow as pa

from stamo.build.dump.site import Site
from stamo.build.engine import BuildState
from stamo.build.extract import MAX_SURFACE, TEXT_SCHEMA, Columns, add_page, rows_batch
from stamo.build.notes.front_matter import split_front_matter
from stamo.build.notes.index import Note, NoteIndex
from stamo.build.notes.markdown import clean_note
from stamo.build.notes.targets import NOTE_SUFFIXES, without_suffix
from stamo.build.settings import Report
from stamo.build.source import plain_site
from stamo.build.staging import Listed, as_written, choose_titles, settle_articles, tidy_title
from stamo.corpus.formats.base import UTF16_MARKS
from stamo.corpus.readers import list_files
from stamo.errors import DumpError
from stamo.kb.manifest import SourceFile
from stamo.system.runtime import without_garbage_collection

MAX_NOTE_BYTES = 8 << 20
NOTES_PER_CHUNK = 1000


@dataclass(frozen=True, slots=True)
class NoteFile:
    """Where a note is."""

    position: int
    below: str
    """Its path below the root, with slashes and its ending."""
    path: Path


@dataclass(frozen=True, slots=True)
class NotesExtract:
    """What some notes hold."""

    notes: list[Note]
    texts: pa.RecordBatch
    links: pa.RecordBatch
    skipped: Counter[str]


def read_notes(build: BuildState, report: Report) -> Site:
    """Read each note of a folder once, in workers; when all are known, links find theirs."""
    root = build.source.path
    files = list_notes(root, build.skipped)
    site = plain_site(build.language(filter(None, map(body_of, files))))
    notes: list[Note] = []
    with as_written(build) as written:
        extract = partial(extract_notes, site=site)
        for part in build.workers.map(extract, chunks(files, build.settings.chunk_bytes)):
            written.append("text", part.texts)
            written.append("link", part.links)
            notes += part.notes
            build.skipped.update(part.skipped)
            report(notes[-1].position / len(files) if notes else None)
    build.described["notes"] = _describe(root, notes)
    chosen = choose_titles([note.listed for note in notes])
    titles = {note.position: title for note, title in zip(notes, chosen, strict=True)}
    index = NoteIndex(notes, titles, site)
    articles = {note.position: note.listed for note in notes}
    settle_articles(build, articles, titles, written, index.title)
    return site


def _describe(root: Path, notes: Sequence[Note]) -> SourceFile:
    """Describe the notes that were read: their bytes, and a hash over their paths and hashes."""
    lines = "".join(f"{note.sha256} {note.below}\n" for note in notes)
    digest = hashlib.sha256(lines.encode()).hexdigest()
    return SourceFile(root.resolve().name, sum(note.size for note in notes), digest)


def list_notes(root: Path, skipped: Counter[str]) -> list[NoteFile]:
    """List the notes below a folder in the order of their paths; hidden files are left alone.

    Raises:
        DumpError: There is none.
    """
    notes: list[NoteFile] = []
    for found in list_files(root):
        below = found.path.relative_to(root).as_posix()
        fault = found.fault or _fault_of(below)
        if fault:
            skipped[fault] += 1
            continue
        notes.append(NoteFile(len(notes), below, found.path))
    if not notes:
        raise DumpError(
            f"There is no Markdown note in {str(root)!r}; give a folder with .md files."
        )
    return notes


def _fault_of(below: str) -> str:
    if not below.lower().endswith(NOTE_SUFFIXES):
        return "file that is no Markdown"
    try:
        below.encode()
    except UnicodeEncodeError:
        return "file name that is not UTF-8"
    return ""


def chunks(notes: Sequence[NoteFile], chunk_bytes: int) -> Iterator[list[NoteFile]]:
    """Group notes into work of about one size."""
    group: list[NoteFile] = []
    n_bytes = 0
    for note in notes:
        group.append(note)
        n_bytes += _size(note.path)
        if n_bytes >= chunk_bytes or len(group) == NOTES_PER_CHUNK:
            yield group
            group, n_bytes = [], 0
    if group:
        yield group


def _size(path: Path) -> int:
    try:
        return min(path.stat().st_size, MAX_NOTE_BYTES)
    except OSError:
        return 0


def extract_notes(files: Sequence[NoteFile], site: Site) -> NotesExtract:
    """Read and clean some notes."""
    columns = Columns()
    notes: list[Note] = []
    with without_garbage_collection():
        for file in files:
            note = _extract_note(file, site, columns)
            if isinstance(note, str):
                columns.skipped[note] += 1
            else:
                notes.append(note)
    texts = rows_batch(columns.texts, TEXT_SCHEMA)
    return NotesExtract(notes, texts, columns.links.batch(), columns.skipped)


def _extract_note(file: NoteFile, site: Site, columns: Columns) -> Note | str:
    """Add a note to the columns, or say why it is left out."""
    data = _read(file.path)
    if isinstance(data, str):
        return data
    try:
        text = data.decode("utf-16" if data.startswith(UTF16_MARKS) else "utf-8-sig")
    except UnicodeDecodeError:
        return "note that is not UTF-8"
    if "\0" in text:
        return "note that is a binary file"
    below = without_suffix(file.below)
    head, body = split_front_matter(text.replace("\r\n", "\n"))
    stem = tidy_title(PurePosixPath(below).name, site)
    title = tidy_title(head.title, site)
    title = title if title and len(title) <= MAX_SURFACE else stem
    if not title:
        return "note without a title"
    folder = str(PurePosixPath(file.below).parent).removeprefix(".")
    cleaned = clean_note(body, folder)
    names = (tidy_title(name, site) for name in (*head.aliases, *cleaned.redirects))
    shown = add_page(cleaned.page, file.position, columns)
    columns.texts.append((file.position, file.position + 1, "", shown, False))
    listed = Listed(title, (folder, below), tuple(filter(None, names)))
    digest = hashlib.sha256(data).hexdigest()
    return Note(file.position, below, folder, listed, len(data), digest)


def body_of(file: NoteFile) -> str:
    """Return the text of a note without its front matter, nothing where it cannot be read."""
    data = _read(file.path)
    encoding = "utf-16" if isinstance(data, bytes) and data.startswith(UTF16_MARKS) else "utf-8-sig"
    return "" if isinstance(data, str) else split_front_matter(data.decode(encoding, "ignore"))[1]


def _read(path: Path) -> bytes | str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_NOTE_BYTES + 1)
    except OSError as error:
        return f"note that cannot be opened ({error.strerror})"
    if len(data) > MAX_NOTE_BYTES:
        return f"note of more than {MAX_NOTE_BYTES >> 20} MiB"
    return data
