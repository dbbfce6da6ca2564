"""Time and memory of a build, side by side with wikipedia2vec on the same dump.

Both programs run as processes of their own, one after the other, on one file: a well-formed copy
of the dump with the `<ns>` and `<redirect>` elements that wikipedia2vec reads. They make the same
products: articles with their links, a dictionary of entities and words, the link graph, and names
with what they mean. Vectors are left out on both sides. Each runs twice: once for its time, and
once while its memory is watched, which takes time.
"""

from __future__ import annotations

import bz2
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO
from xml.sax.saxutils import escape, quoteattr

from stamo.build.dump import DumpReader, RawPage, parse_chunk
from stamo.build.site import Site
from stamo.build.wikitext import find_redirect
from stamo.errors import SettingsError, SuiteError
from stamo_lab.bench.usage import MB, Say, Usage, measure, one_after_the_other

COPY_CHUNK_BYTES = 1 << 20

OURS = """
import json, sys
from stamo.build.build import BuildSettings, build_knowledge_base
settings = BuildSettings(dimensions=0, held_out=0.0, workers=int(sys.argv[3]))
summary = build_knowledge_base(sys.argv[1], sys.argv[2], settings)
print(json.dumps(dict(summary.counts)))
"""
"""Build without vectors, from all articles: wikipedia2vec holds none back either."""

THEIR_COMMAND = "from wikipedia2vec.cli import cli; cli()"
THEIR_VERSION = "from importlib.metadata import version; print(version('wikipedia2vec'))"
THEIR_COUNTS = """
import json, sys
from wikipedia2vec.dictionary import Dictionary
from wikipedia2vec.dump_db import DumpDB
from wikipedia2vec.mention_db import MentionDB
dump_db, dictionary = DumpDB(sys.argv[1]), Dictionary.load(sys.argv[2])
mentions = MentionDB.load(sys.argv[3], dictionary)
print(json.dumps({
    "articles": dump_db.page_size(),
    "entities": dictionary.entity_size,
    "aliases": len(mentions.mention_trie),
}))
"""


@dataclass(frozen=True)
class Copy:
    """A prefix of the dump, rewritten."""

    path: Path
    n_bytes: int
    """Bytes of XML in the dump that it stands for."""
    n_pages: int


def measure_builds(
    dump_path: Path, sizes: Sequence[int], workers: int, their_python: str | None, say: Say
) -> list[dict[str, str | float | None]]:
    """Measure our build by size of the dump, and wikipedia2vec on the largest.

    Args:
        dump_path: The dump.
        sizes: Prefixes of the dump to build from, in MB of XML.
        workers: Processes of each program.
        their_python: The interpreter that has wikipedia2vec; None leaves it out.
        say: Told what is measured.

    Raises:
        DumpError: The dump cannot be read.
        SuiteError: wikipedia2vec is missing, or one of the programs failed.
    """
    if not sizes or min(sizes) < 1:
        raise SettingsError(f"The sizes are {sizes}; give whole MB from 1 upwards.")
    if their_python is not None:
        check_wikipedia2vec(their_python)
    with tempfile.TemporaryDirectory(prefix="stamo-bench-") as scratch:
        folder = Path(scratch)
        say("writing well-formed copies of the dump")
        copies = write_copies(dump_path, folder, sizes)
        runs = [("stamo", copy, partial(_run_ours, copy, workers)) for copy in copies]
        if their_python is not None:
            theirs = partial(_run_theirs, copies[-1], workers, their_python)
            runs.append(("wikipedia2vec", copies[-1], theirs))
        rows: list[dict[str, str | float | None]] = []
        for name, copy, run in runs:
            say(f"{name} on {copy.n_bytes / MB:.0f} MB")
            # The time of one run, and the memory of another, which watching slows down.
            with tempfile.TemporaryDirectory(dir=folder) as own:
                timed, _, _ = run(Path(own), False)
            with tempfile.TemporaryDirectory(dir=folder) as own:
                watched, disk, counts = run(Path(own), True)
            memory = (watched.peak_resident, watched.peak_proportional)
            resident, shared = (None if peak is None else peak / MB for peak in memory)
            rows.append(
                {
                    "program": name,
                    "MB of XML": copy.n_bytes / MB,
                    "s": timed.seconds,
                    "CPU s": timed.cpu_seconds,
                    "MB/s": copy.n_bytes / MB / timed.seconds,
                    "peak MB": resident,
                    "shared pages once": shared,
                    "MB on disk": disk / MB,
                    **counts,
                }
            )
    return rows


def check_wikipedia2vec(python: str) -> None:
    """Make sure that an interpreter has wikipedia2vec 2.0.

    Raises:
        SuiteError: It has not, or has another version.
    """
    try:
        found = subprocess.run([python, "-c", THEIR_VERSION], capture_output=True, text=True)
    except OSError as error:
        raise SuiteError(
            f"The interpreter {python!r} cannot be run ({error.strerror}); give "
            "--wikipedia2vec-python the path of a Python that has wikipedia2vec."
        ) from error
    version = found.stdout.strip()
    if found.returncode or not version.startswith("2.0"):
        what = f"version {version}" if version else "none"
        raise SuiteError(
            f"The comparison needs wikipedia2vec 2.0 and {python!r} has {what}; install it with "
            "pip install 'wikipedia2vec==2.0.*', name another interpreter with "
            "--wikipedia2vec-python, or leave it out with --ours-only."
        )


# The copies


def write_copies(dump_path: Path, folder: Path, sizes: Sequence[int]) -> list[Copy]:
    """Write well-formed prefixes of a dump in one pass, the smallest first.

    Each chunk is compressed once, as a bzip2 stream of its own, and appended to every prefix that
    still wants it. Sizes beyond the end of the dump give one copy of the whole.
    """
    copies: list[Copy] = []
    limits = [size * MB for size in sorted(set(sizes))]
    with ExitStack() as stack:
        reader = stack.enter_context(DumpReader(dump_path, chunk_bytes=COPY_CHUNK_BYTES))
        site = reader.site
        paths = [folder / f"prefix-{limit // MB}.xml.bz2" for limit in limits]
        files = [stack.enter_context(path.open("wb")) for path in paths]
        for file in files:
            file.write(bz2.compress(_header(site).encode()))
        n_bytes = n_pages = 0
        for chunk in reader.chunks():
            pages, _ = parse_chunk(chunk, site, frozenset({0, *site.namespaces.values()}))
            data = bz2.compress("".join(_page(page, site) for page in pages).encode())
            is_text = isinstance(chunk.data, bytes)
            parts = [chunk.data] if is_text else [page.text.encode() for page in pages]
            n_bytes += sum(map(len, parts))
            n_pages += len(pages)
            for file in files[len(copies) :]:
                file.write(data)
            while len(copies) < len(limits) and n_bytes >= limits[len(copies)]:
                copies.append(_finish(files[len(copies)], n_bytes, n_pages))
            if len(copies) == len(limits):
                return copies
        if not copies or n_bytes > copies[-1].n_bytes:
            copies.append(_finish(files[len(copies)], n_bytes, n_pages))
    return copies


def _finish(file: BinaryIO, n_bytes: int, n_pages: int) -> Copy:
    file.write(bz2.compress(b"</mediawiki>\n"))
    file.close()
    return Copy(Path(file.name), n_bytes, n_pages)


def _header(site: Site) -> str:
    # wikipedia2vec looks for the language on the first line and takes all up to its last quote.
    case = "first-letter" if site.case_first else "case-sensitive"
    names = "".join(
        f'<namespace key="{key}">{escape(prefix)}</namespace>'
        for prefix, key in sorted(site.namespaces.items())
    )
    return (
        f'<mediawiki version="0.11" xml:lang="{site.language}">\n'
        f"<siteinfo><case>{case}</case><namespaces>{names}</namespaces></siteinfo>\n"
    )


def _page(page: RawPage, site: Site) -> str:
    """Write a page in the form of export 0.11, with its namespace and what it redirects to."""
    target = page.redirect or find_redirect(page.text, site)
    redirect = f"<redirect title={quoteattr(target)} />" if target else ""
    return (
        f"<page><title>{escape(page.title)}</title><ns>{page.namespace}</ns>"
        f"<id>{page.page_id}</id>{redirect}<revision><id>{page.page_id}</id>"
        f'<text xml:space="preserve">{escape(page.text)}</text></revision></page>\n'
    )


# The two programs

Run = tuple[Usage, int, dict[str, int]]
"""What a run took, the bytes of its result, and what is in it."""


def _run_ours(copy: Copy, workers: int, folder: Path, watched: bool) -> Run:
    target = folder / "kb"
    command = [sys.executable, "-c", OURS, str(copy.path), str(target), str(workers)]
    usage, output = measure("stamo", command, folder, watched=watched)
    told = json.loads(output.splitlines()[-1])
    counts = {name: told[name] for name in ("articles", "entities", "aliases")}
    return usage, _size(target.iterdir()), counts


def _run_theirs(copy: Copy, workers: int, python: str, folder: Path, watched: bool) -> Run:
    """Make what a build without vectors makes; rare entities and names are kept as ours are."""
    dump_db, words, links, mentions = (
        str(folder / f"wikipedia2vec-{name}") for name in ("dump", "words", "links", "mentions")
    )
    all_names = ["--min-link-prob", "0", "--min-prior-prob", "0"]
    steps = [
        ["build-dump-db", str(copy.path), dump_db],
        ["build-dictionary", "--min-entity-count", "0", dump_db, words],
        ["build-link-graph", dump_db, words, links],
        ["build-mention-db", *all_names, dump_db, words, mentions],
    ]
    usages = []
    for step in steps:
        command = [python, "-c", THEIR_COMMAND, *step, "--pool-size", str(workers)]
        usages.append(measure("wikipedia2vec", command, folder, watched=watched)[0])
    count = [python, "-c", THEIR_COUNTS, dump_db, words, mentions]
    _, counts = measure("wikipedia2vec", count, folder)
    size = _size(folder.glob("wikipedia2vec-*"))
    return one_after_the_other(usages), size, json.loads(counts.splitlines()[-1])


def _size(paths: Iterator[Path]) -> int:
    # Allocated blocks: an LMDB file is as long as its map may grow, and mostly a hole.
    return sum(path.stat().st_blocks * 512 for path in paths if path.is_file())
