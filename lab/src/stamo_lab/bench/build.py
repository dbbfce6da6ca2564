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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO
from xml.sax.saxutils import escape, quoteattr

from stamo.build.dump import Chunk, DumpReader, RawPage, parse_chunk
from stamo.build.site import Site
from stamo.build.wikitext import find_redirect
from stamo.errors import SettingsError, SuiteError
from stamo_lab.bench.usage import (
    MB,
    Say,
    Usage,
    measure,
    one_after_the_other,
    timed_and_watched,
)

COPY_CHUNK_BYTES = 1 << 20

OURS = """
import json, sys
from stamo.build.build import BuildSettings, build_knowledge_base
settings = BuildSettings(dimensions=0, held_out=0.0, workers=int(sys.argv[3]))
summary = build_knowledge_base(sys.argv[1], sys.argv[2], settings)
print(json.dumps({"counts": dict(summary.counts), "seconds": dict(summary.seconds)}))
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
class BuildBenchArgs:
    """What to measure."""

    workers: int = 2
    """Processes of each program."""

    sizes: tuple[int, ...] = (25, 50, 100)
    """Prefixes of the dump to build from, in MB of XML; the comparison is made on the largest."""

    their_python: str = sys.executable
    """The interpreter that has wikipedia2vec."""

    ours_only: bool = False
    """Whether wikipedia2vec is left out."""

    their_thresholds: bool = False
    """Whether wikipedia2vec drops rare entities and names, as it does by default."""

    scratch: Path | None = None
    """Where the temporary folder goes; the system's place by default."""

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise SettingsError(f"The number of workers is {self.workers}; use at least one.")
        if not self.sizes or min(self.sizes) < 1:
            raise SettingsError(f"The sizes are {self.sizes}; give whole MB from 1 upwards.")


@dataclass(frozen=True)
class Copy:
    """A prefix of the dump, rewritten."""

    path: Path
    n_bytes: int
    """Bytes of XML in the dump that it stands for."""
    n_pages: int


@dataclass(frozen=True)
class Measured:
    """One program on one copy."""

    program: str
    megabytes: float
    usage: Usage
    disk: int
    """Bytes of the result."""
    counts: Mapping[str, int]
    seconds_by_step: Mapping[str, float]


@dataclass(frozen=True)
class BuildBench:
    """The result: our builds by size, and the other program on the largest."""

    ours: tuple[Measured, ...]
    theirs: Measured | None

    @property
    def speedup(self) -> float | None:
        """How many times as long the other program takes on the largest copy."""
        if self.theirs is None:
            return None
        return self.theirs.usage.seconds / self.ours[-1].usage.seconds


def bench_build(
    dump_path: Path, args: BuildBenchArgs = BuildBenchArgs(), say: Say = lambda what: None
) -> BuildBench:
    """Measure our build by size of the dump, and wikipedia2vec on the largest.

    Raises:
        DumpError: The dump cannot be read.
        SuiteError: wikipedia2vec is missing, or one of the programs failed.
    """
    if not args.ours_only:
        check_wikipedia2vec(args.their_python)
    with tempfile.TemporaryDirectory(prefix="stamo-bench-", dir=args.scratch) as scratch:
        folder = Path(scratch)
        say("writing well-formed copies of the dump")
        copies = write_copies(dump_path, folder, args.sizes)
        ours = []
        for copy in copies:
            say(f"stamo on {copy.n_bytes / MB:.0f} MB")
            ours.append(_in_two_runs(partial(_measure_ours, copy, args.workers), folder))
        theirs = None
        if not args.ours_only:
            theirs = _in_two_runs(partial(_measure_theirs, copies[-1], args, say), folder)
        return BuildBench(tuple(ours), theirs)


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
            n_bytes += _source_bytes(chunk, pages)
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


def _source_bytes(chunk: Chunk, pages: Sequence[RawPage]) -> int:
    if isinstance(chunk.data, bytes):
        return len(chunk.data)
    return sum(len(page.text.encode()) for page in pages)


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


def _in_two_runs(run: Callable[[Path, bool], Measured], scratch: Path) -> Measured:
    """Measure the time in one run, and the memory in another."""
    measured = []
    for watched in (False, True):
        with tempfile.TemporaryDirectory(dir=scratch) as folder:
            measured.append(run(Path(folder), watched))
    timed, other = measured
    return replace(timed, usage=timed_and_watched(timed.usage, other.usage))


def _measure_ours(copy: Copy, workers: int, folder: Path, watched: bool) -> Measured:
    target = folder / "kb"
    command = [sys.executable, "-c", OURS, str(copy.path), str(target), str(workers)]
    usage, output = measure("stamo", command, folder, watched=watched)
    told: dict[str, Any] = json.loads(output.splitlines()[-1])
    counts = {name: told["counts"][name] for name in ("articles", "entities", "aliases")}
    return Measured(
        "stamo", copy.n_bytes / MB, usage, _size(target.iterdir()), counts, told["seconds"]
    )


def their_steps(dump: str, results: Sequence[str], *, thresholds: bool) -> dict[str, list[str]]:
    """Return the commands of wikipedia2vec that make what a build without vectors makes.

    Args:
        dump: The dump to read.
        results: Where the dump database, the dictionary, the links and the mentions go.
        thresholds: Whether it drops rare entities and names; without, it keeps all, as stamo does.
    """
    dump_db, dictionary, links, mentions = results
    all_entities = [] if thresholds else ["--min-entity-count", "0"]
    all_names = [] if thresholds else ["--min-link-prob", "0", "--min-prior-prob", "0"]
    return {
        "dump db": ["build-dump-db", dump, dump_db],
        "dictionary": ["build-dictionary", *all_entities, dump_db, dictionary],
        "link graph": ["build-link-graph", dump_db, dictionary, links],
        "mention db": ["build-mention-db", *all_names, dump_db, dictionary, mentions],
    }


def _measure_theirs(
    copy: Copy, args: BuildBenchArgs, say: Say, folder: Path, watched: bool
) -> Measured:
    results = [
        str(folder / f"wikipedia2vec-{name}") for name in ("dump", "words", "links", "mentions")
    ]
    dump_db, dictionary, _, mentions = results
    pool = ["--pool-size", str(args.workers)]
    steps = their_steps(str(copy.path), results, thresholds=args.their_thresholds)
    usages = {}
    for name, step in steps.items():
        say(f"wikipedia2vec on {copy.n_bytes / MB:.0f} MB: {name}")
        command = [args.their_python, "-c", THEIR_COMMAND, *step, *pool]
        usages[name], _ = measure("wikipedia2vec", command, folder, watched=watched)
    count = [args.their_python, "-c", THEIR_COUNTS, dump_db, dictionary, mentions]
    _, counts = measure("wikipedia2vec", count, folder)
    return Measured(
        "wikipedia2vec",
        copy.n_bytes / MB,
        one_after_the_other(list(usages.values())),
        _size(folder.glob("wikipedia2vec-*")),
        json.loads(counts.splitlines()[-1]),
        {name: usage.seconds for name, usage in usages.items()},
    )


def _size(paths: Iterator[Path]) -> int:
    # Allocated blocks: an LMDB file is as long as its map may grow, and mostly a hole.
    return sum(path.stat().st_blocks * 512 for path in paths if path.is_file())
