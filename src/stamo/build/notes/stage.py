"""From a folder of notes to the staged tables of a build."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from stamo.build.dump.site import Site
from stamo.build.engine import BuildState
from stamo.build.listing import choose_titles
from stamo.build.notes.index import NoteIndex
from stamo.build.notes.reader import Note, body_of, chunks, extract_notes, list_notes
from stamo.build.settings import Report
from stamo.build.settling import AsWritten, settle_articles
from stamo.build.source import plain_site
from stamo.kb.manifest import SourceFile


def read_notes(build: BuildState, report: Report) -> Site:
    """Read each note of a folder once, in workers; when all are known, links find theirs."""
    root = build.source.path
    files = list_notes(root, build.skipped)
    site = plain_site(build.language(filter(None, map(body_of, files))))
    notes: list[Note] = []
    with AsWritten(build.work) as written:
        extract = partial(extract_notes, site=site)
        for part in build.workers.map(extract, chunks(files, build.settings.chunk_bytes)):
            written.append(part.texts, part.links)
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
